"""Reviewing a dictionary: each entry is judged by a model that has never seen its family, and the worst come first."""

from __future__ import annotations

import argparse
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import refused

from regard.cli import main
from regard.commands.train.run import Run
from regard.seq2seq import Seq2Seq, Translation
from regard.seq2seq.corpus.spelling import families
from regard.seq2seq.decoding.calibration import Calibration
from regard.seq2seq.training.config import TrainingConfig
from regard_lexicon import Lexicon, read
from regard_lexicon.commands import review
from regard_lexicon.commands.review import _expected_time
from regard_lexicon.inflections import Irregular, irregular
from regard_lexicon.reading import places
from regard_lexicon.reviewing import Doubt, as_folds, doubts, worst_first

SOUNDS = {"a": "AA", "b": "B", "d": "D", "e": "EH", "k": "K"}
TINY = [
    "--steps",
    "2",
    "--network",
    *(f"{name}=4" for name in ("embedding", "encoder", "decoder", "attention")),
]
TINY += ["--extras", "graphones=2", "translation_memory=0"]


def words(count: int) -> list[str]:
    """Words of a stem of four letters and one of three endings."""
    stems = ["".join(letters) for letters in itertools.product("bdk", "ae", "bdk", "ae")]
    return [stem + ending for stem in stems for ending in ("", "k", "ba")][:count]


def sounds(word: str) -> tuple[str, ...]:
    return tuple(SOUNDS[letter] for letter in word)


def written(path: Path, count: int) -> Path:
    """A dictionary with a comment, and every fifth word with a second variant."""
    lines = [";;; words"]
    for number, word in enumerate(words(count)):
        lines.append(f"{word} {' '.join(sounds(word))}")
        lines += [f"{word}(2) {' '.join(sounds(word))} B"] * (number % 5 == 0)
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def arguments(*texts: object) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    review.add_arguments(parser)
    return parser.parse_args([*map(str, texts)])


# ------------------------------------------------------------------------------------------------- the folds


@pytest.mark.parametrize("count", [2, 3, 7])
def test_folds_divide_the_words_and_no_family(count: int) -> None:
    known = families(words(200))
    folds = as_folds(known, count)
    assert sorted(itertools.chain.from_iterable(folds)) == sorted(words(200))
    assert max(map(len, folds)) - min(map(len, folds)) <= max(map(len, known))
    assert all(sum(family[0] in fold for fold in folds) == 1 for family in known)
    assert all({*family} <= {*fold} for family in known for fold in folds if family[0] in fold)
    assert as_folds(known, count) == folds


def test_no_model_learns_the_family_of_a_word_that_it_judges(tmp_path: Path) -> None:
    path = written(tmp_path / "words.dict", 100)
    args = arguments(path, "--out", tmp_path / "doubts.tsv", *TINY)
    lexicon = read(path)
    of_word = {word: number for number, family in enumerate(families(lexicon)) for word in family}
    judged: list[str] = []
    for fold_words in review._folds(lexicon, 3):
        fold = review.Fold(args, lexicon, fold_words, tmp_path / "fold.safetensors", "")
        learned = {of_word[str(source)] for source, _ in (*fold.data.train, *fold.data.valid)}
        assert not learned & {of_word[word] for word in fold.words}
        assert len(learned) + len({of_word[word] for word in fold.words}) == len(families(lexicon))
        judged += fold.words
    assert sorted(judged) == sorted(lexicon)


def test_the_options_of_the_preset_are_those_of_train(tmp_path: Path) -> None:
    path = written(tmp_path / "words.dict", 40)
    given = ["--minutes", "7", "--network", "encoder=8", "--extras", "graphones=0", "--family", "transformer"]
    args = arguments(path, "--out", tmp_path / "x", *given[:-2])
    lexicon = read(path)
    model = review.Fold(args, lexicon, [*lexicon][:4], tmp_path / "fold.safetensors", "").run.model
    assert (model.training.minutes, model.network_options["encoder"]) == (7, 8)
    assert (model.extras, model.source, model.family) == (
        {"translation_memory": 2},
        "characters",
        "recurrent",
    )


# ------------------------------------------------------------------------------------------------ the doubts


class Fixed:
    """A model that answers as told, with scores that are means over the phones and the end."""

    def __init__(self, calibration: Calibration | None = None) -> None:
        self.model: Any = argparse.Namespace(calibration=calibration)

    def candidates(self, sources: Sequence[str]) -> list[list[Translation]]:
        return [[self._answer("X Y Z", -1.0), self._answer("X Y", -3.0)] for _ in sources]

    def align(self, _: Sequence[str], targets: Sequence[str], *, rerank: bool) -> list[Translation]:
        assert rerank
        return [
            self._answer(target, {"X Y Z": -1.0, "X Y": -9.0, "X": -4.0, "Y": -0.5}[target])
            for target in targets
        ]

    def ranking(self, translation: Translation) -> float:
        return translation.log_probability

    def probability(self, candidates: Sequence[Translation]) -> float:
        return 0.75

    @staticmethod
    def _answer(text: str, total: float) -> Translation:
        phones = tuple(text.split())
        ids = tuple(range(4, 4 + len(phones)))
        return Translation(text, phones, (), total / (len(ids) + 1), None, total, ids=ids)


def test_doubts_by_hand() -> None:
    lexicon = Lexicon([("a", ["X"]), ("a", ["X", "Y", "Z"]), ("b", ["X", "Y"]), ("c", ["Y"])])
    found, wrong = doubts(Fixed(), lexicon)  # type: ignore[arg-type]
    assert wrong == 2  # b and c: the best answer is a variant of a
    # The first variant of a is not compared with the second, and c has phones that are more probable than any answer.
    assert [(one.word, one.listed, one.expected) for one in found] == [
        ("a", ("X",), ("X", "Y")),
        ("b", ("X", "Y"), ("X", "Y", "Z")),
    ]
    assert [one.doubt for one in found] == pytest.approx([(4 - 3) / math.sqrt(2), (9 - 1) / math.sqrt(3)])
    assert [one.probability for one in found] == [None, None]
    assert [one.word for one in worst_first([found], {}, 4)] == ["b", "a"]
    calibrated, _ = doubts(Fixed(Calibration(0.0, 1.0, 1.0, 5, 40, -1e3)), lexicon)  # type: ignore[arg-type]
    assert [one.probability for one in calibrated] == [None, 0.75]  # of the best answer alone


@pytest.mark.parametrize(("second", "doubt"), [(-3.5, 0.5), (-2.0, 2.0), (-5.0, 0.25)])
def test_the_answer_that_explains_an_entry_with_the_fewest_errors_counts(second: float, doubt: float) -> None:
    """W differs from the best answer in all four phones, from the other in one; the log-odds to the best are 1."""
    one = Fixed()
    one.candidates = lambda _: [[one._answer("A B C D", -3.0), one._answer("W X", second)]]  # type: ignore[method-assign]
    one.align = lambda *_, rerank: [one._answer("W", -4.0)]  # type: ignore[method-assign]
    (found,) = doubts(one, Lexicon([("w", ["W"])])).doubts  # type: ignore[arg-type]
    assert found.expected == ("A", "B", "C", "D")
    assert found.doubt == pytest.approx(doubt / math.sqrt(2))


@pytest.mark.parametrize("extras", [{}, {"graphones": 2}])
def test_given_phones_are_scored_as_those_that_the_search_finds(extras: dict[str, int]) -> None:
    model = Seq2Seq(source="characters", target="tokens", epochs=2, extras=extras)
    model.fit(words(20), [" ".join(sounds(word)) for word in words(20)])
    candidates = model.candidates(words(3))
    for word, several in zip(words(3), candidates, strict=True):
        again = model.align([word] * len(several), [one.text for one in several], rerank=True)
        assert [one.score for one in again] == pytest.approx([one.score for one in several], rel=1e-4)
    plain = model.align(words(3), [several[0].text for several in candidates])
    assert [one.score for one in plain] == pytest.approx(
        [one.log_probability / (len(one.ids) + 1) for one in plain], rel=1e-4
    )


def test_places_are_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "words.dict"
    path.write_text(
        ";;; words\nab A B\n\nab(2) A\n# no entry of this format\nba B A # note\nab A B\n", "utf-8"
    )
    assert places(path, "cmudict", "blanks")["ab", ("A", "B")] == "line 2"
    assert places(path, "cmudict", "blanks")["ab", ("A",)] == "line 4"
    assert places(path, "cmudict", "blanks")["ba", ("B", "A")] == "line 6"


def test_folds_that_are_trained_unequally_are_not_compared() -> None:
    """The doubts of a model that is less sure are all smaller: its worst entry comes next to that of the other."""
    folds = [
        [Doubt(word, ("A",), ("B",), number, None) for word, number in doubted.items()]
        for doubted in ({"a": 1.0, "b": 9.0, "c": 3.0}, {"d": 0.1, "e": 0.4})
    ]
    assert [one.word for one in worst_first(folds, {}, 400)] == ["b", "e", "c", "d", "a"]


def test_the_rank_of_an_entry_that_differs_from_its_inflections_is_divided() -> None:
    """By hand: the ranks of b, e, c, d, a are 2, 2, 4, 4, 6; d has 1 then, and f, which no model doubts, 5."""
    folds = [
        [Doubt(word, ("A",), ("B",), number, None) for word, number in doubted.items()]
        for doubted in ({"a": 1.0, "b": 9.0, "c": 3.0}, {"d": 0.1, "e": 0.4})
    ]
    differ = {("d", ("A",)): Irregular(2, 0.5), ("f", ("A",)): Irregular(1, 0.0125)}
    differ[("e", ("C",))] = Irregular(1, 0.5)  # another variant of e
    rows = [(doubt.word, doubt.doubt) for doubt in worst_first(folds, differ, 400)]
    assert rows == [("d", 0.1), ("b", 9.0), ("e", 0.4), ("c", 3.0), ("f", 0.0), ("a", 1.0), ("e", 0.0)]


def test_the_rows_of_a_family_that_one_change_corrects_follow_its_first_row() -> None:
    rows = {
        "interpolate": ("T R", "T N R"),  # N is missing
        "zebra": ("Z", "S"),
        "walks": ("AA S", "AO S"),
        "walk": ("AA", "AE"),
        "interpolated": ("R D", "N R D"),
        "walking": ("AA N", "AE NG"),
        "interpolation": ("B", "C"),
    }
    doubts = [Doubt(w, (*x.split(),), (*y.split(),), -i, None) for i, (w, (x, y)) in enumerate(rows.items())]
    words = "interpolate interpolated zebra walks walk walking interpolation"
    assert [one.word for one in worst_first([doubts], {}, 9)] == words.split()


def test_an_entry_that_differs_from_all_of_its_inflections() -> None:
    """By hand: `balted` has lost a vowel, and so have a variant of `belting` and one of `delts`."""
    entries = []
    for word in (a + b + c + "t" for a in "bdgkpt" for b in "aeiou" for c in "lmnr"):
        phones = [letter.upper() for letter in word]
        forms = {"": [], "s": ["S"], "ed": ["IH", "D"], "ing": ["IH", "NG"]}
        entries += [(word + ending, phones + more) for ending, more in forms.items()]
    right = Lexicon(entries)
    assert irregular(right) == {}
    wrong = {
        **{word: variants[0].phones for word, variants in right.items()},
        "balted": ("B", "L", "T", "IH", "D"),
    }
    pair = [("mogat", "MOGAT"), ("mogats", "MOGATS"), ("mogats", "MGATS")]  # one of two variants fits
    others = [("belting", ["B", "T", "IH", "NG"]), ("delts", ["D", "S"]), ("odd", ["O"]), *pair]
    # One of the 120 pairs of a word and its form in -ed differs, and none of the 121 with -s, which counts as one.
    assert irregular(Lexicon([*wrong.items(), *others])) == {
        ("balted", ("B", "L", "T", "IH", "D")): (3, 1 / 120),
        ("belting", ("B", "T", "IH", "NG")): (3, 1 / 120),
        ("delts", ("D", "S")): (3, 1 / 121),
        ("mogats", (*"MGATS",)): (1, 1 / 121),
    }
    assert irregular(Lexicon(entries[:80])) == {}  # too few to know what is usual


@pytest.mark.parametrize(
    ("training", "seconds", "expected"),
    [
        (TrainingConfig(minutes=2), None, "5 folds are trained for 2 minutes each: 10 minutes, besides"),
        (TrainingConfig(minutes=60), None, "5 folds are trained for 60 minutes each: 5.0 hours, besides"),
        (
            TrainingConfig(steps=8000),
            96,
            "5 folds are trained for 8,000 steps each: about 8 minutes on two free",
        ),
        (TrainingConfig(steps=60), 10, "5 folds are trained for 60 steps each: about 1 minute on two"),
        (TrainingConfig(epochs=4), None, "5 folds are trained for 4 epochs each, besides"),
    ],
)
def test_how_long_a_review_takes_is_known_before(
    training: TrainingConfig, seconds: float | None, expected: str
) -> None:
    assert _expected_time(training, seconds, 5).startswith(expected)


# --------------------------------------------------------------------------------------------------- the verb


def reviewed(path: Path, *options: str) -> list[list[str]]:
    """The rows of the table."""
    out = path.with_name("doubts.tsv")
    assert main(["review", str(path), "--out", str(out), "--folds", "2", *options]) == 0
    rows = [line.split("\t") for line in out.read_text("utf-8").splitlines()]
    assert rows[0] == ["line", "word", "listed", "expected", "doubt", "probability", "inflections"]
    return rows[1:]


def scrambled(path: Path) -> Path:
    """A dictionary with the phones of other words, so that many are doubted."""
    own, wrong = words(40), [*map(sounds, words(40)[::-1])]
    entries = [f"{word} {' '.join(phones)}" for word, phones in zip(own, wrong, strict=True)]
    path.write_text("\n".join([";;; words", *entries, f"{own[0]}(2) B", ""]), "utf-8")
    return path


@pytest.mark.slow
def test_each_row_names_its_entry_and_the_worst_are_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scrambled(tmp_path / "words.dict")
    rows = reviewed(path, *TINY)
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        "the models pronounce 100 % of the words otherwise than listed: they have learned too little"
    )
    assert len(rows) > 5
    lines = path.read_text("utf-8").splitlines()
    for number, word, listed, expected, doubt, _, _ in rows:
        entry = lines[int(number) - 1].split(" ", 1)
        assert (entry[0].partition("(")[0], entry[1]) == (word, listed)
        assert expected != listed
        assert float(doubt) >= 0
    first = sorted((float(row[4]) for row in rows), reverse=True)[0]
    assert first in [float(row[4]) for row in rows[:2]]  # the worst of each fold


@pytest.mark.slow
def test_spoilt_entries_of_a_regular_language_are_among_the_worst(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = {word: sounds(word) for word in words(108)}
    random = np.random.default_rng(1)
    spoilt = {}
    for word in random.choice([*listed], 5, replace=False):
        phones, place = [*listed[word]], int(random.integers(4))
        phones[place] = {"AA": "EH", "EH": "AA", "B": "D", "D": "K", "K": "B"}[phones[place]]
        spoilt[str(word)] = tuple(phones)
    path = tmp_path / "words.dict"
    path.write_text("".join(f"{w} {' '.join(p)}\n" for w, p in (listed | spoilt).items()), "utf-8")
    training = [
        "--epochs",
        "80",
        "--learning-rate",
        "0.01",
        "--extras",
        "graphones=3",
        "translation_memory=0",
    ]
    sizes = [f"{name}=16" for name in ("embedding", "encoder", "decoder", "attention")]
    rows = reviewed(path, *training, "--network", *sizes)
    assert re.fullmatch(
        r"the models pronounce \d+ % .* than listed", capsys.readouterr().err.splitlines()[-1]
    )
    doubted = sorted(rows, key=lambda row: -float(row[4] or 0))  # in the table families stand together
    worst = {(row[1], tuple(row[2].split())): tuple(row[3].split()) for row in doubted[:10]}
    assert worst.keys() >= {*spoilt.items()}
    assert sum(worst[word, phones] == listed[word] for word, phones in spoilt.items()) >= 4


@pytest.mark.slow
def test_an_interrupted_review_goes_on_where_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scrambled(tmp_path / "words.dict")
    whole = reviewed(path, *TINY, "--work", str(tmp_path / "whole"))
    assert whole
    trained, plain = [], Run.train

    def train(self: Run) -> int:
        trained.append(self.name)
        return plain(self)

    def impatient(self: Run) -> int:
        return 130 if self.name.startswith("fold 2") else train(self)

    out = tmp_path / "doubts.tsv"
    out.unlink()
    command = ["review", str(path), "--out", str(out), "--folds", "2", *TINY]
    with monkeypatch.context() as patched:
        patched.setattr(Run, "train", impatient)
        assert main(command) == 130
    assert not out.exists()
    monkeypatch.setattr(Run, "train", train)
    assert main(command) == 0
    assert trained == ["fold 1 of 2", "fold 2 of 2"]
    rows = [line.split("\t") for line in out.read_text("utf-8").splitlines()][1:]
    assert rows == whole
    before = out.read_bytes()
    (tmp_path / "doubts.tsv.folds" / "fold-1.json").write_text("[1, {", "utf-8")  # judged again
    assert main(command) == 0
    assert (len(trained), out.read_bytes()) == (2, before)
    capsys.readouterr()
    assert main([*command, "--seed", "2"]) == 2
    assert "fold-1.safetensors is of another dictionary or other options" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("--folds 11", "22 families"),
        ("--folds 1", "from 2 to 100"),
        ("--out words.dict", "overwritten"),
        ("--out missing/x.tsv", "no folder"),
        ("--network encoder", "NAME=VALUE"),
        ("--dropout 2", "less than 1"),
        ("--from nothing", "nothing"),
    ],
)
def test_what_is_wrong_is_an_error(
    given: str,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "words.dict", 40)
    assert main(["review", "words.dict", "--out", "doubts.tsv", *given.split()]) == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["words.dict"]


def test_the_table_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--out" in refused(["review", "words.dict"], capsys)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda work: work.symlink_to("gone"), "--work needs a folder, and "),
        (lambda work: work.write_text(""), "is a file"),
        (
            lambda work: (work / "fold-2.json").mkdir(parents=True),
            "fold-2.json must be a file, or not there yet",
        ),
        (lambda work: (work / "fold-2-log.jsonl").mkdir(parents=True), "fold-2-log.jsonl must be a file"),
    ],
)
def test_files_of_all_folds_are_checked_before_the_first_is_trained(
    made: Any, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Run, "train", None)  # is not called
    path, work = written(tmp_path / "words.dict", 60), tmp_path / "work"
    made(work)
    assert main(["review", str(path), "--out", str(tmp_path / "out.tsv"), "--work", str(work), *TINY]) == 2
    assert told in capsys.readouterr().err


def test_a_review_learns_with_the_extras_that_make_the_fewest_errors(tmp_path: Path) -> None:
    path = written(tmp_path / "words.dict", 60)
    args = arguments(path, "--out", tmp_path / "doubts.tsv", "--extras", "graphones=3")
    fold = review.Fold(args, read(path), words(60)[:6], tmp_path / "fold.safetensors", "fold")
    assert fold.run.model.extras == {"translation_memory": 2, "graphones": 3}
