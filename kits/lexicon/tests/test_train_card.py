"""The card of a model of pronunciation: what `train` measures and writes, and other verbs print or carry on."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from errors import refused
from test_train_dictionary import SHORT, arguments, made, words, written

import regard_lexicon as pronunciation
from regard.cli import main
from regard.commands.train.arguments import make_models
from regard.commands.train.confidence import Confidence
from regard.seq2seq import Seq2Seq, Translation
from regard.seq2seq.corpus.pairs import by_source
from regard.seq2seq.evaluation.held_out import share_wrong
from regard.seq2seq.sources import Text
from regard.seq2seq.translator import Checked
from regard_lexicon import Pronouncer
from regard_lexicon.commands.dictionary import right_answers
from regard_lexicon.commands.dictionary import tested_words as variants_of_words
from regard_lexicon.commands.rates import by_threshold, rates, rates_by_length
from regard_lexicon.commands.task import PronunciationTask

Phones = tuple[str, ...]


def distance(one: Sequence[str], two: Sequence[str]) -> int:
    """The edits between two sequences, by the definition."""
    if not one or not two:
        return len(one) + len(two)
    changed = distance(one[1:], two[1:]) + (one[0] != two[0])
    return min(changed, distance(one[1:], two) + 1, distance(one, two[1:]) + 1)


def counted(answers: Sequence[Phones], right: Sequence[Sequence[Phones]]) -> dict[str, float]:
    """Error rates by a plain count: the nearest variant counts, and the longest of several as near."""
    nearest = [
        min((distance(answer, one), -len(one)) for one in variants)
        for answer, variants in zip(answers, right, strict=True)
    ]
    return {
        "wer": sum(edits > 0 for edits, _ in nearest) / len(nearest),
        "per": sum(edits for edits, _ in nearest) / -sum(length for _, length in nearest),
    }


def plain(phones: Phones) -> Phones:
    return tuple(phone.rstrip("012") for phone in phones)


ANSWERS = [("K", "AE1", "T"), ("R", "EH1", "D"), ("B",), ("AH0", "B", "IY2"), ()]
RIGHT: list[list[Phones]] = [
    [("K", "AE1", "T")],
    [("R", "IY1", "D"), ("R", "EH1", "D")],
    [("B", "IY1"), ("D", "AH0", "B")],
    [("AH1", "B", "IY0"), ("AH0", "B")],
    [("AH0",), ("Z", "Z")],
]


def test_words_that_a_model_reads_alike_are_one_word_of_the_test() -> None:
    reader, target = Text("characters", normalization="NFKC"), Text("tokens")
    rows = [("ﬁn", "F IH N"), ("a", "AH"), ("fin", "F AY N"), ("ﬁne", "F"), ("a", "EY")]
    test = [(reader.load(word), target.load(phones)) for word, phones in rows]
    assert variants_of_words(test) == {
        "ﬁn": [("F", "IH", "N"), ("F", "AY", "N")],
        "a": [("AH",), ("EY",)],
        "ﬁne": [("F",)],
    }
    assert len(variants_of_words(test)) == len(by_source(test))  # of which each has an answer


def test_rates_are_those_of_a_plain_count() -> None:
    measured = rates(ANSWERS, RIGHT)
    first = [variants[:1] for variants in RIGHT]
    assert measured["any_variant"] == pytest.approx(counted(ANSWERS, RIGHT))
    assert measured["first_variant"] == pytest.approx(counted(ANSWERS, first))
    answers, right = [*map(plain, ANSWERS)], [[*map(plain, variants)] for variants in RIGHT]
    assert measured["without_stress"]["any_variant"] == pytest.approx(counted(answers, right))
    assert measured["without_stress"]["first_variant"] == pytest.approx(
        counted(answers, [r[:1] for r in right])
    )
    assert rates(ANSWERS[:2], RIGHT[:2])["any_variant"]["wer"] == 0
    assert rates(ANSWERS[:2], RIGHT[:2])["first_variant"]["wer"] == 0.5


def test_phones_without_stress_have_no_second_rates() -> None:
    assert rates([("a",)], [[("a",), ("b",)]]).keys() == {"any_variant", "first_variant"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dictionary, and the model of its training."""
    path = tmp_path_factory.mktemp("card")
    written(path / "words.dict", words(60))
    command = ["train", str(path / "words.dict"), "--task", "pronunciation", "--out", str(path / "run")]
    assert main([*command, "--licence", "BSD 2", *SHORT]) == 0
    return path


def test_the_card_has_the_hash_of_the_dictionary_that_was_read(tmp_path: Path) -> None:
    path = written(tmp_path / "words.dict", words(60))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    args = arguments(path, *SHORT)
    task = PronunciationTask(args)
    task.read(make_models(args, task)[0])
    path.write_text("another\n")
    assert task.files == [{"name": "words.dict", "sha256": digest}]


@pytest.mark.slow
def test_train_writes_what_it_has_measured(folder: Path) -> None:
    model, lexicon = Seq2Seq.load(folder / "run"), pronunciation.read(folder / "words.dict")
    card = model.card
    data = (folder / "words.dict").read_bytes()
    assert card["files"] == [{"name": "words.dict", "sha256": hashlib.sha256(data).hexdigest()}]
    assert (card["licence"], card["words"], card["entries"]) == ("BSD 2", 60, 80)
    assert model.repetitions == 4  # of aaaa, as 0 is written
    assert card["split"]["train"] + card["split"]["valid"] + card["split"]["test"] == 60
    assert sorted(card["symbols"]) == lexicon.phones()
    assert card["rules"]["stress"] == "keep"
    held_out = card["held_out"]
    assert (held_out["words"], held_out["learned"]) == (card["split"]["test"], 0)
    assert card["split"]["by"] == "family"
    assert sum(row["words"] for row in held_out["by_length"]) == held_out["words"]
    assert "calibration_error" not in held_out  # of eight held-out words
    assert model.calibration is None


@pytest.mark.slow
def test_given_words_are_measured_by_epochs_at_the_end_and_in_the_card(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words are known here: the saved model pronounces them again."""
    train, test = written(tmp_path / "train.dict", words(60)), tmp_path / "test.dict"
    test.write_text("eeee EH1 EH1\neeee(2) EH1 EH1 EH1 EH1\nedde D D\nbeee B EH0\n", "utf-8")
    command = ["train", train, "--task", "pronunciation", "--valid", test, "--test", test, "--out", tmp_path]
    assert main([*map(str, command), *SHORT]) == 0
    stdout, stderr = capsys.readouterr()
    epochs = [line for line in stderr.splitlines() if line.startswith("epoch ")]
    assert epochs
    assert all(", WER " in line and "(greedy, 3 sources)" in line for line in epochs)
    assert "exact" not in stdout + stderr
    lexicon, pronounce, card = (
        pronunciation.read(test),
        Pronouncer.load(tmp_path),
        Seq2Seq.load(tmp_path).card,
    )
    answers = [pronounce(word).phones for word in lexicon]
    right = [[variant.phones for variant in lexicon[word]] for word in lexicon]
    assert (card["split"]["by"], card["split"]["seed"], card["held_out"]["words"]) == ("file", None, 3)
    any_variant = counted(answers, right)
    assert card["held_out"]["any_variant"] == pytest.approx(any_variant)
    assert card["held_out"]["first_variant"] == pytest.approx(counted(answers, [one[:1] for one in right]))
    plain_rates = counted([*map(plain, answers)], [[*map(plain, one)] for one in right])
    assert card["held_out"]["without_stress"]["any_variant"] == pytest.approx(plain_rates)
    wer, per = (f"{100 * any_variant[rate]:.1f} % of" for rate in ("wer", "per"))
    line = next(line for line in stdout.splitlines() if "held-out" in line)
    assert line.startswith("3 held-out words, which also selected the epoch, beam 5: ")
    assert f"beam 5: {wer} words are wrong (WER) and {per} phones (PER); " in line


def small() -> Seq2Seq:
    network = {"embedding": 4, "encoder": 4, "decoder": 4, "attention": 4}
    return Seq2Seq(source="characters", target="tokens", network=network, epochs=1).fit(
        ["ab", "ba"], ["A B", "B A"]
    )


def printed_card(tmp_path: Path, card: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    model = small()
    model.card = card
    model.save(tmp_path / "model.safetensors")
    assert main(["pronounce", "--card", str(tmp_path)]) == 0
    return capsys.readouterr().out.splitlines()


def test_pronounce_prints_each_entry_of_the_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    card = {"licence": "M\x9bIT", "words": 12606, "symbols": ["ə", "b"], "held_out": {"wer": 0.25}}
    assert printed_card(tmp_path, card, capsys) == [
        'licence       "M·IT"',
        "words         12606",
        'symbols       ["ə", "b"]',
        'held_out      {"wer": 0.25}',
    ]


def test_a_model_without_a_card_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small().save(tmp_path / "model.safetensors")
    assert "has no card" in refused(["pronounce", "--card", str(tmp_path)], capsys)


# --------------------------------------------------------------------------------- by length, by probability


def test_rates_by_length_are_those_of_their_words() -> None:
    words = dict(zip(("cat", "read", "bat's", "abbreviated", "zz"), RIGHT, strict=True))
    rows = rates_by_length(ANSWERS, words)
    assert [(row["letters"], row["words"]) for row in rows] == [
        ("1 to 4", 3),
        ("5 or 6", 1),
        ("11 or more", 1),
    ]
    chosen = [0, 1, 4]
    short = counted([ANSWERS[i] for i in chosen], [RIGHT[i] for i in chosen])
    assert {name: rows[0][name] for name in short} == pytest.approx(short)


def one_judged(right: bool, log: float, phones: Phones = ("A",)) -> Checked:
    rest = math.log(1 - math.exp(log))
    answers = [Translation(" ".join(p), p, (), 0.0, None, x) for p, x in ((phones, log), (("X",), rest))]
    return Checked(answers, [one.log_probability for one in answers], right)


def test_rates_by_probability_by_hand() -> None:
    """Of the four most probable, all are right; with the fifth, 80 %."""
    right = [True, True, False, True, True, False]
    probabilities = [0.99, 0.97, 0.85, 0.96, 0.95, 0.3]
    answers: list[Phones] = [("A",), ("A",), ("A", "B", "C"), ("A",), ("A",), ("B",)]
    judged = [one_judged(r, -0.1, phones) for r, phones in zip(right, answers, strict=True)]
    confidence = Confidence(judged, probabilities)
    rows = {row["probability"]: row for row in by_threshold(confidence, [[("A",)]] * 6)}
    assert rows[0.95] == {"probability": 0.95, "kept": pytest.approx(4 / 6), "wer": 0, "per": 0}
    assert rows[0.8] == {
        "probability": 0.8,
        "kept": pytest.approx(5 / 6),
        "wer": pytest.approx(0.2),
        "per": pytest.approx(2 / 5),
    }
    assert rows[0.98]["kept"] == pytest.approx(1 / 6)
    assert by_threshold(Confidence(judged, [0.1] * 6), [[("A",)]] * 6)[0] == {"probability": 0.5, "kept": 0}


@pytest.mark.slow
def test_train_calibrates_on_held_out_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "words.dict", words(250))
    command = [
        "train",
        str(path),
        "--task",
        "pronunciation",
        "--split",
        "words",
        "--out",
        str(tmp_path),
        *SHORT,
    ]
    assert main(command) == 0
    err = capsys.readouterr().err
    model = Seq2Seq.load(tmp_path)
    card = model.card
    assert card["split"]["by"] == "word"
    assert model.calibration is not None
    assert model.calibration.answers == card["split"]["valid"] + card["split"]["test"]
    assert f"calibrated on {model.calibration.answers} held-out" in err
    assert 0 <= card["held_out"]["calibration_error"] <= 1
    assert [row["probability"] for row in card["held_out"]["by_probability"]] == [
        0.5,
        0.7,
        0.8,
        0.9,
        0.95,
        0.98,
    ]
    (tmp_path / "words.txt").write_text("abba\ncab\n", "utf-8")
    assert main(["pronounce", str(tmp_path), str(tmp_path / "words.txt"), "--threshold", "0"]) == 0


@pytest.mark.slow
def test_another_licence_changes_the_card_of_a_finished_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", str(folder / "words.dict"), "--task", "pronunciation", "--out", str(folder / "run")]
    before = Seq2Seq.load(folder / "run")
    written = (folder / "run" / "model.safetensors").read_bytes()
    assert main([*command, *SHORT]) == 0
    assert (folder / "run" / "model.safetensors").read_bytes() == written
    assert main([*command, "--licence", "CC0", *SHORT]) == 0
    after = Seq2Seq.load(folder / "run")
    assert after.card == {**before.card, "licence": "CC0"}
    assert after.translate(["abba"])[0] == before.translate(["abba"])[0]
    assert "done already" in capsys.readouterr().err
    assert main([*command, "--licence", before.card["licence"], *SHORT]) == 0
    assert (folder / "run" / "model.safetensors").read_bytes() == written


def test_the_split_is_by_families_unless_words_are_asked_for(tmp_path: Path) -> None:
    stems = ["".join("abcdefgh"[number // 8**place % 8] for place in range(4)) for number in range(100)]
    path = tmp_path / "words.tsv"
    path.write_text("".join(f"{s}{e}\tA\n" for s in stems for e in ("", "x", "xx")), "utf-8")
    for given, apart in (([], True), (["--split", "families"], True), (["--split", "words"], False)):
        _, data = made(path, *given)
        families = [{str(source)[:4] for source, _ in part} for part in (data.train, data.valid, data.test)]
        assert all(len(one) > 2 for one in families)
        shared = [one & two for one, two in itertools.combinations(families, 2)]
        assert (not any(shared)) == apart


@pytest.mark.parametrize(
    ("given", "reason"),
    [("--task pronunciation --valid x", "--valid"), ("", "--split needs --task pronunciation")],
)
def test_a_split_is_of_dictionaries_without_other_pairs(
    given: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(["train", "words.dict", "--split", "words", *given.split()], capsys)


@pytest.mark.slow
def test_the_model_keeps_what_counts_its_errors_and_not_the_dictionary(folder: Path) -> None:
    model, data = Seq2Seq.load(folder / "run"), (folder / "run" / "model.safetensors").read_bytes()
    assert model.held_out is not None
    held_out = model.card["held_out"]
    assert len(model.held_out) == held_out["words"]
    answers = [" ".join(one.tokens) for one in model.translate([*model.held_out])]
    assert share_wrong(model.held_out, answers) == pytest.approx(held_out["any_variant"]["wer"])
    lexicon = pronunciation.read(folder / "words.dict")
    right = [" ".join(lexicon[word][-1].phones) for word in model.held_out]
    assert share_wrong(model.held_out, right) == 0
    assert not any(f'"{" ".join(one.phones)}"'.encode() in data for _, one in lexicon.entries())


@pytest.mark.slow
@pytest.mark.parametrize("format", ["cmudict", "mfa", "kaldi"])
def test_evaluate_and_export_read_a_dictionary_as_train_does(
    format: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two variants of a word are one item, and a comment is none."""
    pytest.importorskip("onnxruntime", reason="export compares with it")
    pytest.importorskip("onnx", reason="export writes with it")
    run = str(folder / "run")
    pronounce = Pronouncer.load(run)
    answer = [*pronounce("abba").phones]
    entries = [("abba", ["B"]), ("abba", answer), ("eeee", ["EH1"]), ("bbb", ["D"]), ("cab", ["D", "B"])]
    test = tmp_path / "test"
    pronunciation.write(pronunciation.Lexicon(entries), test, format)
    assert main(["evaluate", run, str(test), "--json", str(tmp_path / "it.json")]) == 0
    (scores,) = json.loads((tmp_path / "it.json").read_text("utf-8"))["models"]
    assert scores["wer"] == pytest.approx(0.75)
    alone = ["--without-extras", "--force"]
    assert main(["export", run, "--onnx", str(tmp_path / "app"), "--test", str(test), *alone]) == 0
    table = next(part for part in capsys.readouterr().out.split("\n\n") if f"4 {test}" in part)
    assert table.splitlines()[1].split()[:2] == ["with", "graphones,"]
    assert table.splitlines()[1].split()[-2] == "75.00"


@pytest.mark.slow
def test_phones_that_the_model_never_writes_are_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, test = str(folder / "run"), tmp_path / "test.tsv"
    test.write_text("abba\tə\ncab\tB ə\n", "utf-8")
    assert main(["evaluate", run, str(test)]) == 2
    told = capsys.readouterr().err
    assert "the model never writes ə, and each pronunciation has such phones" in told
    test.write_text("abba\tə\ncab\tB\n", "utf-8")
    assert main(["evaluate", run, str(test)]) == 0
    assert "the model never writes ə: such pronunciations count as wrong" in capsys.readouterr().err


@pytest.mark.slow
def test_a_stress_that_was_dropped_is_dropped_of_a_test(tmp_path: Path) -> None:
    train, test = written(tmp_path / "train.dict", words(60)), tmp_path / "test.tsv"
    command = ["train", str(train), "--task", "pronunciation", "--stress", "drop", "--out", str(tmp_path)]
    assert main([*command, *SHORT]) == 0
    model = Seq2Seq.load(tmp_path)
    test.write_text("abba\tAH1 B\n", "utf-8")
    assert right_answers(model, test) == {"abba": ["AH B"]}


@pytest.mark.slow
def test_ipa_that_was_cut_is_cut_of_a_test(tmp_path: Path) -> None:
    lines = [f"{word}\t/{word.lower()}ː/\n" for word in words(60)]
    (tmp_path / "train.tsv").write_text("".join(lines), "utf-8")
    (tmp_path / "test.tsv").write_text("abba\t/abː/, /b/\n", "utf-8")
    command = ["train", str(tmp_path / "train.tsv"), "--task", "pronunciation", "--phones", "ipa"]
    assert main([*command, "--out", str(tmp_path), *SHORT]) == 0
    assert right_answers(Seq2Seq.load(tmp_path), tmp_path / "test.tsv") == {"abba": ["a bː", "b"]}
