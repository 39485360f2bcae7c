"""The verbs `translate` and `align` with a fake model: columns, options, streams and errors."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from errors import refusals
from hypothesis import given
from hypothesis import strategies as st
from one_test import in_one_test

from regard.cli import main
from regard.commands import read_lines as stream
from regard.commands import translate
from regard.commands.loading import linked_unit
from regard.commands.read_lines import Failed, Failures, results, windows
from regard.seq2seq import Seq2Seq
from regard.seq2seq.corpus.tables import Record
from regard.seq2seq.decoding.hypothesis import Scoring
from regard.seq2seq.sources import Example, Text
from regard.seq2seq.sources.text.tokenizers import Words, tokenize
from regard.seq2seq.sources.text.vocabulary import SPECIAL, Vocabulary
from regard.seq2seq.translator import Translation

OTHER = "hint: --encoding of the command names another, such as windows-1252"
UTF_16 = "hint: if it is UTF-16: --encoding utf-16-le, or utf-16-be"


def translation(source: str, target: str, score: float = -0.5) -> Translation:
    """Each target token attends to the source token at its index, or to the end if there is none."""
    tokens, words = tokenize(target), (*tokenize(source), "</s>")
    weights = np.eye(len(words))[np.minimum(np.arange(len(tokens)), len(words) - 1)]
    return Translation(target, tuple(tokens), words, score, weights)


class Known(Words):
    """Knows every word."""

    def encode(self, tokens: Iterable[str], /) -> list[int]:
        return [4 for _ in tokens]


class Model:
    """Writes each sentence in capitals; its second-best translation ends in a "2"."""

    attention, network = True, None
    side = Known(Vocabulary(SPECIAL))
    model = SimpleNamespace(source=Text("words", learned=side), target=side, extras={})

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], dict[str, Any]]] = []

    def candidates(self, examples: Sequence[Example], **options: Any) -> list[list[Translation]]:
        sources = list(map(str, examples))
        self.calls.append((sources, options))
        return [
            [translation(s, s.upper() + f" {i}" * (i > 1), -i / 4) for i in range(1, options["n_best"] + 1)]
            for s in sources
        ]

    def sample(self, examples: Sequence[Example], **options: Any) -> list[list[Translation]]:
        sources = list(map(str, examples))
        self.calls.append((sources, options))
        return [[translation(s, f"{s} {i}") for i in range(options["count"])] for s in sources]

    def align(
        self, sources: Sequence[Example], targets: Sequence[Example], **options: Any
    ) -> list[Translation]:
        self.calls.append((list(map(str, sources)), options))
        return [translation(str(one), str(two)) for one, two in zip(sources, targets, strict=True)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned little, in a file."""
    path = tmp_path_factory.mktemp("trained") / "m.safetensors"
    Seq2Seq(epochs=2).fit(["a b", "b"], ["b a", "b"]).save(path)
    return path


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    fake = Model()
    monkeypatch.setattr(Seq2Seq, "load", lambda path: fake)
    return fake


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(data))))


class Typist:
    """Standard input of someone who types, one part after the other."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = iter([*parts, b""])

    def read1(self, _: int) -> bytes:
        return next(self.parts)

    def read(self, _: int) -> bytes:
        raise AssertionError("this would wait until there is as much")


def output_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 0
    stdout, stderr = capsys.readouterr()
    assert stderr == ""
    return stdout


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Standard output before an error, and the one line of the error."""
    assert main(arguments) == 2
    stdout, stderr = capsys.readouterr()
    prefix = f"regard {arguments[0]}: error: "
    assert stderr.startswith(prefix)
    assert stderr.count("\n") == 1
    return stdout, stderr.removeprefix(prefix).removesuffix("\n")


def test_options_may_stand_anywhere(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a b\n")
    (tmp_path / "b").write_text("b a\n")
    (tmp_path / "pairs").write_text("a b\tb a\n")
    model, a, b, pairs = map(str, (trained, *(tmp_path / name for name in ("a", "b", "pairs"))))
    for first, option, rest in (
        (["translate", model], ["--beam", "1"], [a]),
        (["align", model], ["--by", "tokens"], [pairs]),
        (["align", model, a], ["--by", "tokens"], [b]),
        (["evaluate", model], ["--beam", "1"], [pairs]),
    ):
        assert main([*first, *rest, *option]) == 0
        expected = capsys.readouterr().out
        for arguments in ([*first, *option, *rest], [first[0], *option, *first[1:], *rest]):
            assert main(arguments) == 0
            assert capsys.readouterr().out == expected
    (tmp_path / "-a").write_text("a b\n")
    monkeypatch.chdir(tmp_path)
    assert main(["translate", model, "a"]) == 0
    expected = capsys.readouterr().out
    for arguments in (["--", model, "-a"], ["--beam", "5", "--", model, "-a"], [model, "--", "-a"]):
        assert main(["translate", *arguments]) == 0
        assert capsys.readouterr().out == expected
    assert refused(["translate", model, a, "--nope"], capsys)[1] == "unrecognized arguments: --nope"
    message = refused(["evaluate", model, "--compare", model, pairs], capsys)[1]
    assert message.endswith("--references; hint: --compare takes all names after it")


# -------------------------------------------------------------------------------------------------------- streams


def test_errors_of_lines_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    failures = Failures("translate", "lines")
    read = [failures.attempt(lambda text=text: int(text), f"line {text}") for text in ["1", *"abcdefghijkl"]]  # type: ignore[misc]
    assert read[0] == 1
    assert all(isinstance(result, Failed) for result in read[1:])
    failures.total = 13
    assert failures.status() == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[2] for line in lines[:10]] == [f"line {letter}" for letter in "abcdefghij"]
    assert lines[10:] == ["regard translate: error: 12 of 13 lines could not be used"]


@pytest.mark.slow
@given(st.lists(st.integers(-5, 5)), st.integers(1, 4))
def test_what_failed_keeps_its_place(numbers: list[int], size: int) -> None:
    records = [Record(line, [str(number)]) for line, number in enumerate(numbers, 1)]

    def read(record: Record) -> int | Failed:
        number = int(record.cells[0])
        return Failed("negative") if number < 0 else number

    found = list(results(windows(iter([records]), size), read, lambda others: map(str, others)))
    assert [record for record, _, _ in found] == records
    assert [item for _, item, _ in found] == [Failed("negative") if n < 0 else n for n in numbers]
    assert [result for _, _, result in found] == [Failed("negative") if n < 0 else str(n) for n in numbers]


def test_many_lines_are_translated_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW", 3)
    assert list(windows(iter([[1, 2, 3, 4], [5]]))) == [[1, 2, 3], [4], [5]]


def test_a_packed_file_is_unpacked(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"a b\nc\n"))
    assert output_of(["translate", "m", str(path)], capsys) == "A B\nC\n"
    for arguments in (["-"], []):
        typed(monkeypatch, path.read_bytes())
        assert output_of(["translate", "m", *arguments], capsys) == "A B\nC\n"
    path.write_bytes(gzip.compress(b"a b\nc\n")[:-9])
    _, message = refused(["translate", "m", str(path)], capsys)
    assert message.startswith(f"{path} is not a complete gzip file: ")


def test_typed_lines_are_translated_at_once(
    model: Model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    class Watching(Typist):
        def read1(self, size: int) -> bytes:
            shown.append(capsys.readouterr().out)
            return super().read1(size)

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Watching(b"a\n", b"b\n")))
    assert main(["translate", "m"]) == 0
    assert [text for text in shown if text] == ["A\n", "B\n"]
    assert [sentences for sentences, _ in model.calls] == [["a"], ["b"]]


# ------------------------------------------------------------------------------------------------------ translate


def test_columns(model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {
        (): "A B.\n\nC\n",
        ("--scores",): "-0.2500\tA B.\n-0.2500\t\n-0.2500\tC\n",
        ("--alignment", "pharaoh"): "A B.\t0-0 1-1\n\t\nC\t0-0\n",
        ("--alignment", "pharaoh", "--by", "words"): "A B.\t0-0 1-1\n\t\nC\t0-0\n",
        ("--alignment", "pharaoh", "--by", "tokens"): "A B.\t0-0 1-1 2-2\n\t\nC\t0-0\n",
        ("--n-best", "2"): (
            "1\t-0.2500\tA B.\n1\t-0.5000\tA B. 2\n2\t-0.2500\t\n2\t-0.5000\t 2\n3\t-0.2500\tC\n3\t-0.5000\tC 2\n"
        ),
        ("--sample", "1", "--alignment", "pharaoh"): (
            "1\t-0.5000\ta b. 0\t0-0 1-1\n2\t-0.5000\t 0\t\n3\t-0.5000\tc 0\t0-0\n"
        ),
    }
    for options, output in expected.items():
        typed(monkeypatch, b"a b.\n\nc\n")
        assert output_of(["translate", "m", *options], capsys) == output, options


USUAL = {"scoring": Scoring(), "repetitions": None, "unknown_words": "copy"}


def test_options_reach_the_model(
    model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"a\n")
    output_of(["translate", "m"], capsys)
    assert model.calls[-1][1] == {"beam": 5, "n_best": 1, **USUAL}
    typed(monkeypatch, b"a\n")
    penalties = ["--length-penalty", "0.6", "--coverage-penalty", "0.2"]
    output_of(["translate", "m", "--n-best", "7", *penalties], capsys)
    assert model.calls[-1][1] == {"beam": 7, "n_best": 7, **USUAL, "scoring": Scoring(0.6, 0.2)}
    typed(monkeypatch, b"a\n")
    output_of(["translate", "m", "--beam", "9", "--n-best", "7"], capsys)
    assert model.calls[-1][1]["beam"] == 9
    typed(monkeypatch, b"a\n")
    freedom = ["--temperature", "0.5", "--top-k", "3", "--top-p", "0.9"]
    output_of(["translate", "m", "--sample", "2", *freedom], capsys)
    options = model.calls[-1][1]
    assert [options[name] for name in ("count", "temperature", "top_k", "top_p")] == [2, 0.5, 3, 0.9]
    for arguments in (["--n-best", "2"], ["--sample", "2"]):
        typed(monkeypatch, b"a\n")
        output_of(["translate", "m", *arguments, "--repetitions", "2", "--unknown-words", "next"], capsys)
        options = model.calls[-1][1]
        assert [options[name] for name in ("repetitions", "unknown_words")] == [2, "next"]


def test_samples_of_a_line_depend_on_its_number_and_the_seed_alone(
    model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def seeds(seed: str, *parts: bytes) -> list[int]:
        model.calls.clear()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Typist(*parts)))
        output_of(["translate", "m", "--sample", "1", "--seed", seed], capsys)
        return [options["rng"] for _, options in model.calls]

    at_once = seeds("3", b"a\na\nb\n")
    assert len(set(at_once)) == 3
    assert at_once == seeds("3", b"a\n", b"a\n", b"b\n")
    assert not set(at_once) & set(seeds("4", b"a\na\nb\n"))


def test_pictures_of_several_translations(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate.drawing, "save_alignment", lambda _, path: path.write_text(""))
    typed(monkeypatch, b"a\n\nb\n")
    output_of(["translate", "m", "--n-best", "2", "--png", str(tmp_path)], capsys)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        *("line-1-1.png", "line-1-2.png", "line-2-2.png", "line-3-1.png", "line-3-2.png")
    ]


def test_a_tab_in_a_text_is_no_column(
    model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = replace(translation("a", "b"), text="b\tc")
    monkeypatch.setattr(Model, "candidates", lambda *args, **options: [[odd]])
    typed(monkeypatch, b"a\n")
    assert output_of(["translate", "m", "--scores"], capsys) == "-0.5000\tb c\n"


@pytest.mark.slow
def test_tokens_have_their_log_probabilities_and_alternatives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum of the column is the log-probability, and its mean the score; the tokens below are the network's."""
    model = Seq2Seq(target="characters", epochs=30).fit(["a b", "b", "a"], ["b a", "b", "a"])
    model.save(tmp_path / "m")
    typed(monkeypatch, b"a b\n\n")
    shown = output_of(["translate", str(tmp_path / "m"), "--scores", "tokens", "--alternatives", "2"], capsys)
    (best,) = model.translate(["a b"])
    scored, *steps, _, empty = shown.removesuffix("\n").split("\n")
    score, text, tokens = scored.split("\t")
    names, logs = zip(*(part.rsplit("=", 1) for part in tokens.split(" ")), strict=True)
    assert (text, names) == (best.text, (*best.tokens, "</s>"))
    assert "\u2423" in names
    assert [float(log) for log in logs] == pytest.approx(best.log_probabilities, abs=5e-5)
    assert float(score) == pytest.approx(best.log_probabilities.mean(), abs=5e-5)
    for line, name, log, step in zip(steps, names, logs, model.alternatives(best, 2), strict=True):
        written, share, *others = line.split()
        assert (written, float(share)) == (name, pytest.approx(np.exp(float(log)), abs=1e-4))
        assert others == [part for each in step for part in (each.token, f"{each.probability:.4f}")]
    assert empty == "0.0000\t\t"


BAD_OPTIONS = """
--scores=x | argument --scores: must be tokens, or nothing, after FILE. Got 'x' instead.
--alternatives=0 | argument --alternatives: must be an integer from 1 to 1000. Got '0' instead.
--beam=0 | argument --beam: must be an integer from 1 to 100. Got '0' instead.
--n-best=101 | argument --n-best: must be an integer from 1 to 100. Got '101' instead.
--sample=0 | argument --sample: must be an integer from 1 to 1000. Got '0' instead.
--sample=1001 | argument --sample: must be an integer from 1 to 1000. Got '1001' instead.
--seed=-1 | argument --seed: must be an integer of at least 0. Got '-1' instead.
--length-penalty=-1 | argument --length-penalty: must be a number from 0 to 10. Got '-1' instead.
--length-penalty=1000 | argument --length-penalty: must be a number from 0 to 10. Got '1000' instead.
--coverage-penalty=x | argument --coverage-penalty: must be a number from 0 to 10. Got 'x' instead.
--temperature=0 | argument --temperature: must be a number greater than 0. Got '0' instead.
--top-p=1.1 | argument --top-p: must be a number greater than 0 and at most 1. Got '1.1' instead.
--temperature=1 | --temperature needs --sample
--by=tokens | --by needs --alignment pharaoh: it is about links
--by=words --alignment=text | --by needs --alignment pharaoh: it is about links
--top-k=1 | --top-k needs --sample
--seed=1 | --seed needs --sample
--sample=1 --beam=3 | --beam and --sample exclude each other; hint: give one
--sample=1 --n-best=3 | --n-best and --sample exclude each other; hint: give one
--beam=2 --n-best=3 | --n-best must be at most --beam = 2. Got 3 instead.
--repetitions=0 | argument --repetitions: must be an integer of at least 1. Got '0' instead.
--repetitions=2 --threshold=0.5 | --repetitions must not be given with --probabilities and --threshold, which are for the usual search
--unknown-words=next --probabilities | --unknown-words next must not be given with --probabilities and --threshold, which are for the usual search
"""  # noqa: E501


@in_one_test(("options", "text"), refusals(BAD_OPTIONS))
def test_options_of_translate_are_checked(
    options: list[str], text: str, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(["translate", "m", *options], capsys) == ("", text)


# ------------------------------------------------------------------------------------- translate with a real model


LETTERS = ["read", "dear", "era"], ["R IY D", "D IH R", "EH R AH"]


@pytest.fixture(scope="module")
def speller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of small letters that has learned little, in a file."""
    path = tmp_path_factory.mktemp("speller") / "m.safetensors"
    Seq2Seq(epochs=1, source="characters", target="tokens").fit(*LETTERS).save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "warnings"),
    [
        ("read\n###\nREAD", ["line 2: the model does not know '#'; their translation is a guess"]),
        (
            "uvwxyz\n#",
            [
                "line 1: the model does not know 'u', 'v', 'w', 'x', 'y' and 1 more; their translation is a guess",
                "line 2: the model does not know '#'; their translation is a guess",
            ],
        ),
        ("read\n\n \n\u200b\nera", []),
        (
            "#\n" * 12,
            [
                *(
                    f"line {i}: the model does not know '#'; their translation is a guess"
                    for i in range(1, 11)
                ),
                "12 of 12 lines have symbols that the model does not know",
            ],
        ),
    ],
)
def test_each_line_with_unseen_symbols_has_a_warning(
    lines: str,
    warnings: list[str],
    speller: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed(monkeypatch, lines.encode())
    assert main(["translate", str(speller)]) == 0
    assert capsys.readouterr().err == "".join(f"warning: {line}\n" for line in warnings)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["translate"], ["align", "--by", "tokens"]])
def test_lines_with_unseen_symbols_are_marked_left_empty_or_errors(
    arguments: list[str],
    speller: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb, *options = arguments
    lines, pair = tmp_path / "lines", "\tR IY D" * (verb == "align")
    lines.write_text(f"read{pair}\nr#d#{pair}\nera{pair}\n", encoding="utf-8")
    command = [verb, str(speller), str(lines), *options]
    outputs = []
    for option in ([], ["--unknown", "guess"]):
        assert main([*command, *option]) == 0
        outputs.append(capsys.readouterr().out.splitlines())
    usual, guessed = outputs
    assert all(usual)
    assert guessed == [f"{usual[0]}\t", f"{usual[1]}\t#", f"{usual[2]}\t"]
    for unknown, status in (("skip", 0), ("fail", 2)):
        assert main([*command, "--unknown", unknown]) == status
        out, err = capsys.readouterr()
        assert out.splitlines() == [usual[0], "", usual[2]]
        assert "line 2: the model does not know '#'" in err


@pytest.mark.parametrize(
    "kind", ["characters", "tokens", pytest.param("subwords", marks=pytest.mark.threads)]
)
@pytest.mark.parametrize(
    ("sources", "folded"),
    [(["read", "dear"], True), (["READ", "DEAR"], True), (["read", "Dear"], False), (["1", "2"], False)],
)
def test_case_is_folded_where_the_training_sources_have_one(
    kind: str, sources: list[str], folded: bool
) -> None:
    text = Text(kind, lower=None, vocabulary=9 if kind == "subwords" else None).fitted(
        [*map(Text(kind).load, sources)]
    )
    assert text.tokenizer.lower is folded
    ids = [text.rows(text.load(source)) for source in sources]
    for other in (str.lower, str.upper, str.title):
        assert ([text.rows(text.load(other(source))) for source in sources] == ids) or not folded


@pytest.mark.slow
def test_every_verb_warns_of_unseen_symbols(
    speller: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs").write_text("read\tR IY D\nera\tXX\n#\tR\n")
    for verb, warnings in (
        (
            "align",
            ["line 2: the model does not know 'XX'", "line 3: the model does not know '#'"],
        ),
        ("evaluate", ["1 of 3 items have symbols that the model does not know: '#'"]),
    ):
        assert main([verb, str(speller), str(tmp_path / "pairs")]) == 0
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning:")]
        assert lines == [f"warning: {warning}; their translation is a guess" for warning in warnings]


@pytest.mark.slow
def test_letters_are_linked_one_by_one(
    speller: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs").write_text("read\tR IY D\nera\tEH R AH\n")
    command = ["align", str(speller), str(tmp_path / "pairs")]
    usual = output_of(command, capsys)
    assert usual == output_of([*command, "--by", "tokens"], capsys)
    assert usual != output_of([*command, "--by", "words"], capsys)
    (tmp_path / "line").write_text("read\n")
    command = ["translate", str(speller), str(tmp_path / "line"), "--alignment", "pharaoh"]
    assert output_of(command, capsys) == output_of([*command, "--by", "tokens"], capsys)
    assert linked_unit(None, Seq2Seq.load(trained)) == "words"
    assert linked_unit("words", Seq2Seq.load(speller)) == "words"


@pytest.mark.slow
def test_the_monotonic_aligner_links_letters_and_sounds_from_left_to_right(
    speller: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each letter has one sound but h, which has none: the links are known."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("readh"), size)) for size in rng.integers(3, 7, 300)]
    words = [word for word in words if word.strip("h")]
    lines, expected = [], []
    for word in words:
        letters = [(place, letter) for place, letter in enumerate(word) if letter != "h"]
        lines.append(f"{word}\t{' '.join(letter.upper() for _, letter in letters)}")
        expected.append(" ".join(f"{place}-{i}" for i, (place, _) in enumerate(letters)))
    lines, expected = [*lines[:5], "bad", *lines[5:]], [*expected[:5], "", *expected[5:]]
    path = tmp_path / "pairs"
    path.write_text("\n".join(lines) + "\n")
    assert main(["align", str(speller), str(path), "--aligner", "monotonic", "--unknown", "guess"]) == 2
    out, err = capsys.readouterr()
    assert [line.split("\t")[0] for line in out.splitlines()] == expected
    assert "line 6" in err
    assert main(["align", str(speller), str(path), "--aligner", "monotonic", "--by", "words"]) == 2
    assert {link for line in capsys.readouterr().out.splitlines() for link in line.split()} <= {
        f"0-{i}" for i in range(6)
    }
    assert main(["align", str(speller), str(path), "--aligner", "monotonic", "--scores"]) == 2
    assert "--scores needs attention" in capsys.readouterr().err


INVISIBLE = [
    "",
    " ",
    "\u200b",
    "\u00ad\u2060",
    "\u3000\u2800",
    "\ufeff",
    "\u200d\ufe0f",
    "\u3164",
    "\u202e\u2066",
]


@pytest.mark.slow
def test_lines_with_nothing_visible_have_no_translation(
    speller: Path, trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (speller, trained):
        typed(monkeypatch, "\n".join([*INVISIBLE, ""]).encode())
        assert output_of(["translate", str(path)], capsys) == "\n" * len(INVISIBLE)
        assert {one.text for one in Seq2Seq.load(path).translate(INVISIBLE)} == {""}


@pytest.mark.slow
def test_n_best_lists_and_samples(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"a b\n\nb\n")
    rows = [
        line.split("\t") for line in output_of(["translate", str(trained), "--n-best=3"], capsys).splitlines()
    ]
    candidates = Seq2Seq.load(trained).candidates(["a b", "", "b"], beam=5, n_best=3)
    expected = [(str(i), f"{t.score:.4f}", t.text) for i, each in enumerate(candidates, 1) for t in each]
    assert list(map(tuple, rows)) == expected
    sampled = []
    for data in (b"a b\nb\n", b"a b\nb\n", b"a b\na b\n"):
        typed(monkeypatch, data)
        options = ["--sample=4", "--temperature=2", "--alignment=pharaoh"]
        sampled.append(output_of(["translate", str(trained), *options], capsys).splitlines())
    assert sampled[0] == sampled[1]
    assert sampled[0][:4] == sampled[2][:4]
    assert len(sampled[0]) == 8
    assert all(line.count("\t") == 3 for line in sampled[0])


@pytest.mark.slow
def test_pairs_instead_of_sources_give_one_warning(
    trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"a b\na b\tB A\nb\tB\n")
    assert main(["translate", str(trained)]) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout.count("\n") == 3
    assert (
        stderr == "line 2 has a TAB, as pairs have: complete lines are translated (cut -f1 gives sources)\n"
    )


EMPTY = [
    ["translate", ""],
    ["translate", "model", ""],
    ["translate", "model", "--heads", ""],
    ["translate", "model", "--png", " "],
    ["translate", "model", "--ensemble", ""],
    ["train", ""],
    ["train", "pairs", "--out", ""],
    ["train", "pairs", "--valid", ""],
    ["train", "pairs", "--links", ""],
    ["align", "model", "pairs", "--reverse", ""],
    ["evaluate", "", "pairs"],
    ["evaluate", "model", "pairs", "--names", ""],
    ["evaluate", "model", "pairs", "--json", ""],
    ["curve", ""],
    ["explain", "--png", ""],
]


@pytest.mark.parametrize("arguments", EMPTY, ids=" ".join)
def test_an_empty_name_is_not_the_current_folder(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(arguments, capsys)[1].endswith(": must not be empty")


@pytest.mark.slow
def test_a_folder_means_the_model_in_it(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(["translate", str(tmp_path)], capsys)[1] == f"{tmp_path} has no model.safetensors"
    (tmp_path / "model.safetensors").write_bytes(trained.read_bytes())
    assert Seq2Seq.load(tmp_path).translate(["b"])[0].text == Seq2Seq.load(trained).translate(["b"])[0].text
    typed(monkeypatch, b"b")
    assert (
        output_of(["translate", str(tmp_path)], capsys)
        == Seq2Seq.load(trained).translate(["b"])[0].text + "\n"
    )


@pytest.mark.parametrize(("terminal", "printed"), [(True, "·[2J"), (False, "\x1b[2J")])
def test_control_characters_are_not_printed_on_a_terminal(
    terminal: bool,
    printed: str,
    model: Model,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile = Translation("\x1b[2J", ("\x1b[2J",), ("b", "</s>"), 0.0, None)
    monkeypatch.setattr(Model, "candidates", lambda *args, **options: [[hostile]])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    typed(monkeypatch, b"b")
    assert output_of(["translate", "m"], capsys) == printed + "\n"


@pytest.mark.slow
def test_alignments_on_request(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f").write_text("a b\n\nb\n")
    arguments = [
        "translate",
        str(trained),
        str(tmp_path / "f"),
        "--alignment",
        "text",
        "--png",
        str(tmp_path / "p"),
    ]
    assert "</s>" in output_of(arguments, capsys)
    drawn = [path.name for path in sorted((tmp_path / "p").iterdir())]
    written = [i for i, t in enumerate(Seq2Seq.load(trained).translate(["a b", "", "b"]), 1) if t.tokens]
    assert drawn == [f"line-{i}.png" for i in written]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"b\nx\xff\nb", f"standard input, line 2: not UTF-8 (byte 2 is 0xff); {OTHER}"),
        (b"b\nx\0\nb", f"standard input, line 2: not text (byte 2 is zero); {UTF_16}"),
        (b"b\n" + b"a " * 1001, "standard input, line 2: 1001 tokens; at most 1000 are allowed"),
        (b"b\n" + b"a" * (1 << 21), "standard input, line 2: longer than 1048576 bytes"),
    ],
)
def test_a_bad_line_is_empty_and_the_others_are_translated(
    data: bytes, text: str, model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, data + b"\nc\n")
    expected = "B\n\nB\nC\n" if data.endswith(b"\nb") else "B\n\nC\n"
    assert refused(["translate", "m"], capsys) == (expected, text)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--scores"], "-0.2500\tA\n\t\n-0.2500\tB\n"),
        (["--scores", "tokens"], "-0.2500\tA\t\n\t\t\n-0.2500\tB\t\n"),
        (["--alignment", "pharaoh"], "A\t0-0\n\t\nB\t0-0\n"),
        (["--n-best", "1"], "1\t-0.2500\tA\n2\t\t\n3\t-0.2500\tB\n"),
        (["--sample", "1"], "1\t-0.5000\ta 0\n2\t\t\n3\t-0.5000\tb 0\n"),
    ],
)
def test_the_columns_of_a_bad_line_are_empty(
    options: list[str],
    expected: str,
    model: Model,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed(monkeypatch, b"a\n\xff\nb\n")
    page = tmp_path / "page.html"
    stdout, text = refused(["translate", "m", *options, "--show", str(page)], capsys)
    assert (stdout, text) == (expected, f"standard input, line 2: not UTF-8 (byte 1 is 0xff); {OTHER}")
    assert len(page_data(page)[0]["data"]["sentences"]) == 2


def test_a_bad_line_keeps_the_seeds_of_the_others(
    model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[list[int]] = []
    for data in (b"a\nx\nb\n", b"a\n\xff\nb\n"):
        model.calls.clear()
        typed(monkeypatch, data)
        main(["translate", "m", "--sample", "1"])
        seeds.append([options["rng"] for _, options in model.calls])
    assert seeds[1] == [seeds[0][0], seeds[0][2]]


BAD_OR_GOOD = {
    b"a b": "A B",
    b"c\r": "C",
    b"": "",
    b"\xff": None,
    b"x\0": None,
    b"t " * 1001: None,
    b"y" * (1 << 20) + b"yy": None,
}


def test_any_lines_in_any_parts_keep_their_numbers(
    model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(1)
    for size in range(8):
        lines = [[*BAD_OR_GOOD][i] for i in random.integers(len(BAD_OR_GOOD), size=size)]
        data = b"".join(line + b"\n" for line in lines)
        cuts = sorted(random.integers(len(data) + 1, size=3).tolist())
        parts = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Typist(*filter(None, parts))))
        bad = [number for number, line in enumerate(lines, 1) if BAD_OR_GOOD[line] is None]
        assert main(["translate", "m"]) == (2 if bad else 0)
        stdout, stderr = capsys.readouterr()
        assert stdout.split("\n") == [*(BAD_OR_GOOD[line] or "" for line in lines), ""]
        numbers = [int(text.partition("line ")[2].partition(":")[0]) for text in stderr.splitlines()]
        assert sorted(numbers) == bad


@pytest.mark.slow
def test_a_missing_model_or_alignment_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m"
    assert refused(["translate", str(path)], capsys)[1] == f"{path}: No such file or directory"
    path.write_bytes(b"PK\x03\x04 a zip file, perhaps")
    assert refused(["translate", str(path)], capsys)[1].startswith(f"{path} is not a model file: ")
    Seq2Seq(attention=False, epochs=1).fit(["a"], ["a"]).save(path)
    for how in ("text", "pharaoh"):
        _, message = refused(["translate", str(path), "--alignment", how], capsys)
        assert message == f"{path} was trained without attention: there is no alignment to show"
    _, message = refused(["translate", str(path), "--coverage-penalty", "1"], capsys)
    assert message == f"{path} was trained without attention: --coverage-penalty needs attention weights"


def test_pictures_need_matplotlib(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refused(["translate", "m", "--png", str(tmp_path / "p")], capsys)[1]
    assert message == 'pictures need Matplotlib: pip install "regard[cli]"'
    assert not (tmp_path / "p").exists()


# ---------------------------------------------------------------------------------------------------------- align

PAIRS = b"the cat.\tle chat.\na\t\nb c\tx y z\n"
LINKS = "0-0 1-1\n\n0-0 1-1\n"  # signs belong to their words; z attends to the end


def test_one_line_of_links_for_each_pair(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, PAIRS)
    assert output_of(["align", "m"], capsys) == LINKS
    path = tmp_path / "pairs.tsv.gz"
    path.write_bytes(gzip.compress(PAIRS))
    assert output_of(["align", "m", str(path)], capsys) == LINKS
    sides = [tmp_path / "source", tmp_path / "target"]
    for i, side in enumerate(sides):
        side.write_bytes(b"".join(line.split(b"\t")[i] + b"\n" for line in PAIRS.splitlines()))
    assert output_of(["align", "m", *map(str, sides)], capsys) == LINKS
    typed(monkeypatch, sides[0].read_bytes())
    assert output_of(["align", "m", "-", str(sides[1])], capsys) == LINKS
    assert output_of(["align", "m", str(path), "--by", "tokens"], capsys) == "0-0 1-1 2-2\n\n0-0 1-1\n"
    assert output_of(["align", "m", str(path), "--scores"], capsys).startswith(
        "-0.5000\t0-0 1-1\n-0.5000\t\n"
    )


def test_two_directions_are_merged(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Back(Model):
        """Each word attends to the first."""

        def align(self, sources: Sequence[str], targets: Sequence[str], **options: Any) -> list[Translation]:
            translations = super().align(sources, targets, **options)
            return [replace(t, alignment=np.eye(len(t.source))[[0] * len(t.tokens)]) for t in translations]

    models = {"m": model, "r": Back()}
    monkeypatch.setattr(Seq2Seq, "load", lambda path: models[str(path)])
    path = tmp_path / "pairs"
    path.write_bytes(b"a b\tx y\n")
    common = ["align", "m", str(path), "--reverse", "r"]
    # Forward 0-0 1-1; backward both source words attend to target 0: 0-0 1-0. Either touches 0-0 and has a free word.
    assert output_of([*common, "--symmetrize", "intersection"], capsys) == "0-0\n"
    for by in ("words", "tokens"):  # both link 0 with 0 only
        assert output_of([*common, "--symmetrize", "product", "--by", by], capsys) == "0-0\n"
    assert output_of([*common, "--scores"], capsys) == "-0.5000\t-0.5000\t0-0 1-0 1-1\n"
    assert models["r"].calls[0][0] == ["x y"]
    assert [m.calls[-1][1] for m in models.values()] == [{"posterior": False}] * 2
    output_of([*common, "--posterior"], capsys)
    assert [m.calls[-1][1] for m in models.values()] == [{"posterior": True}] * 2
    monkeypatch.setattr(Back, "align", lambda self, s, t, posterior: [translation("other", "a b")])
    _, message = refused([*common, "--by", "tokens"], capsys)
    assert message == "line 1: --by tokens and --reverse need models that split text into the same tokens"
    path.write_bytes(b"a b\tx y\na b\tx\n")
    monkeypatch.setattr(Back, "align", lambda self, s, t, posterior: [translation("x", "a b")] * len(s))
    path.write_bytes(b"a b\tx\na b\tx y\n")
    stdout, message = refused([*common, "--symmetrize", "product"], capsys)
    assert stdout == "0-0\n\n"
    assert message.startswith("line 2: ")


@pytest.mark.parametrize(
    ("data", "stdout", "text"),
    [
        (b"a\tb\nc\n", "0-0\n\n", "line 2: expected source TAB target, found 1 column"),
        (
            b"a\tb\tc\n",
            "\n",
            "line 1: expected source TAB target, found 3 columns; choose two with --columns",
        ),
        (b"a\tb\n\xff\tb\n", "0-0\n\n", f"line 2: not UTF-8 (byte 1 is 0xff); {OTHER}"),
        (b"a\tb\na\t" + b"b " * 1001 + b"\n", "0-0\n\n", "line 2: 1001 tokens; at most 1000 are allowed"),
    ],
)
def test_bad_pairs_are_named(
    data: bytes,
    stdout: str,
    text: str,
    model: Model,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed(monkeypatch, data + b"c d\te f\n")
    assert refused(["align", "m"], capsys) == (f"{stdout}0-0 1-1\n", f"standard input, {text}")
    typed(monkeypatch, data + b"c d\te f\n")
    scored = refused(["align", "m", "--scores"], capsys)[0].splitlines()
    assert [line.count("\t") for line in scored] == [1] * len(scored)


def test_a_row_of_a_table_may_be_bad(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b"a,b\nc,d,e\n\n" + b"x " * 1001 + b",f\ng h,i j\n")
    assert main(["align", "m", str(path)]) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == "0-0\n\n\n\n0-0 1-1\n"
    assert stderr.splitlines() == [
        f"regard align: error: {path}, line 2: 3 columns, but the first row has 2",
        f"regard align: error: {path}, line 4: 1001 tokens; at most 1000 are allowed",
    ]


@pytest.mark.parametrize(
    ("name", "options", "data", "bad"),
    [
        ("p.csv", [], b"a,b\n\xff,c\nd e,f g\n", 2),
        ("p.csv", [], b"a,b\nc\0,c\nd e,f g\n", 2),
        ("p.csv", [], b'sep=;\na;b\n"c\n\xff\n";c\nd e;f g\n', 4),
        ("p.csv", ["--columns", "en", "fr"], b"en,fr\na,b\n\xff,c\nd e,f g\n", 3),
        ("p.tsv", ["--columns", "1", "2"], b"a\tb\n\xff\tc\nd e\tf g\n", 2),
        ("p.tsv", ["--columns", "1", "2"], b"a\tb\n" + b"c" * (1 << 21) + b"\tc\nd e\tf g\n", 2),
    ],
)
def test_a_line_of_a_table_that_cannot_be_read_loses_no_other(
    name: str,
    options: list[str],
    data: bytes,
    bad: int,
    model: Model,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    stdout, message = refused(["align", "m", str(path), *options], capsys)
    assert stdout == "0-0\n\n0-0 1-1\n"
    assert message.startswith(f"{path}, line {bad}: ")


def test_the_first_row_of_a_table_may_be_the_bad_one(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.csv"
    path.write_bytes(b'"a\n\xff\n",b\nd e,f g\n')
    stdout, message = refused(["align", "m", str(path)], capsys)
    assert (stdout, message) == ("\n0-0 1-1\n", f"{path}, line 2: not UTF-8 (byte 1 is 0xff); {OTHER}")


def test_two_files_must_be_equally_long(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a\nb\nc\n")
    two.write_text("x\ny\n")
    for sides in ((one, two), (two, one)):
        stdout, message = refused(["align", "m", *map(str, sides)], capsys)
        assert stdout == "0-0\n0-0\n"
        assert message == f"{two}, line 3: missing, but {one} has more lines"
    two.write_text("x\n" + "y " * 1001 + "\nz\n")
    stdout, message = refused(["align", "m", str(one), str(two)], capsys)
    assert stdout == "0-0\n\n0-0\n"
    assert message == f"{one} and {two}, line 2: 1001 tokens; at most 1000 are allowed"
    one.write_text("a\tb\n")
    two.write_text("x\ty\n")
    stdout, message = refused(["align", "m", str(one), str(two)], capsys)
    assert (stdout, "All lines of both are pairs" in message) == ("", True)
    one.write_text("a\nb\nc\n")
    two.write_bytes(b"x\n\xff\nz\n")
    stdout, message = refused(["align", "m", str(one), str(two)], capsys)
    assert (stdout, message) == ("0-0\n\n0-0\n", f"{two}, line 2: not UTF-8 (byte 1 is 0xff); {OTHER}")


BAD_OPTIONS_OF_ALIGN = """
a b c | PAIRS must be one file or two. Got 3 instead.
a a | PAIRS must be two different files
a --reverse=m | --reverse needs models of the other direction. Got one of the same model instead.
a --symmetrize=product | --symmetrize needs --reverse: a model of the other direction
a --threshold=1 | argument --threshold: must be a number from 0 to less than 1. Got '1' instead.
no-such-file | no-such-file: No such file or directory
"""


@in_one_test(
    ("options", "text"),
    [*refusals(BAD_OPTIONS_OF_ALIGN), (["a", f"b{os.sep}..{os.sep}a"], "PAIRS must be two different files")],
)
def test_options_of_align_are_checked(
    options: list[str], text: str, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(["align", "m", *options], capsys) == ("", text)


def test_a_model_without_attention_cannot_align(
    model: Model, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "attention", False)
    assert (
        refused(["align", "m", "pairs"], capsys)[1] == "m was trained without attention, so it cannot align"
    )


@pytest.mark.slow
def test_links_of_a_real_model(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"a b\tb a\nb\tb c\n")
    result = Seq2Seq.load(trained).align(["a b", "b"], ["b a", "b c"])
    back = tmp_path / "back.safetensors"
    back.write_bytes(trained.read_bytes())
    arguments = ["align", str(trained), "--reverse", str(back), "--scores", "--png", str(tmp_path / "p")]
    lines = [line.split("\t") for line in output_of(arguments, capsys).splitlines()]
    assert [line[0] for line in lines] == [f"{t.score:.4f}" for t in result]
    assert len(list((tmp_path / "p").iterdir())) == 2


@pytest.mark.parametrize("method", ["intersection", "product"])
def test_an_empty_side_has_no_links_but_a_score(
    method: str,
    trained: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typed(monkeypatch, b"\ta b\na\t\n\t\n")
    back = tmp_path / "back.safetensors"
    back.write_bytes(trained.read_bytes())
    both = ["--reverse", str(back), "--symmetrize", method, "--posterior"]
    assert main(["align", str(trained), *both, "--scores"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[2] for line in lines] == ["", "", ""]
    assert all(float(score) < 0 for line in lines for score in line[:2])


@pytest.mark.parametrize("verb", ["translate", "align"])
def test_closed_streams(
    trained: Path, verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Closed streams, as of programs that are started without a terminal."""
    monkeypatch.setattr(sys, "stdin", None)
    assert main([verb, str(trained)]) == 2
    assert capsys.readouterr().err == f"regard {verb}: error: standard input: Bad file descriptor\n"


def test_without_a_standard_output(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sentences").write_text("a b\n")
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["translate", str(trained), str(tmp_path / "sentences")]) == 0


def page_data(path: Path) -> list[Any]:
    """The sections of a page."""
    text = path.read_text(encoding="utf-8").partition('<script type="application/json" id="data">')[2]
    sections: list[Any] = json.loads(text.partition("</script>")[0])
    return sections


def test_a_page_has_all_lines_with_all_their_hypotheses(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, b"one two\n\nthree\n")
    page = tmp_path / "page.html"
    assert main(["translate", "m", "--n-best", "2", "--show", str(page)]) == 0
    assert capsys.readouterr().out.count("\n") == 6
    (section,) = page_data(page)
    assert section["view"] == "alignment"
    sentences = section["data"]["sentences"]
    assert [[one["text"] for one in each["hypotheses"]] for each in sentences] == [
        ["ONE TWO", "ONE TWO 2"],
        ["", " 2"],
        ["THREE", "THREE 2"],
    ]
    assert sentences[0]["source"] == ["one", "two", "</s>"]


def test_importance_lies_beside_the_weights_of_each_hypothesis(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, b"a b\n\nb c a\n")
    path = tmp_path / "page.html"
    assert main(["translate", str(trained), "--n-best", "2", "--show", str(path), "--importance"]) == 0
    assert "importance: " in capsys.readouterr().err
    network = Seq2Seq.load(trained)
    lines = [each for each in page_data(path)[0]["data"]["sentences"] if each["source"] != ["</s>"]]
    for described, translations in zip(lines, network.candidates(["a b", "b c a"], n_best=2), strict=True):
        for hypothesis, own in zip(described["hypotheses"], translations, strict=True):
            if not own.tokens:
                continue
            part, other = hypothesis["importance"]
            assert (part["name"], other["name"]) == ("erasure", "contribution")
            numbers = np.frombuffer(base64.b64decode(part["numbers"]["base64"]), np.float32)
            numbers = numbers.reshape(part["numbers"]["shape"])
            np.testing.assert_allclose(numbers[:, :-1], network.erasure(own)[:, :-1], atol=1e-5)
            assert np.isnan(numbers[:, -1]).all()


def test_a_page_is_never_replaced_without_force(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert main(["translate", "m", "--show", str(page)]) == 2
    assert f"{page}: the file exists already, --force replaces it" in capsys.readouterr().err
    assert page.read_text() == "mine"
    typed(monkeypatch, b"one\n")
    assert main(["translate", "m", "--show", str(page), "--force"]) == 0
    assert len(page_data(page)) == 1


def test_a_page_does_not_replace_a_model(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.html"
    other.write_bytes(trained.read_bytes())
    arguments = ["translate", str(trained), "--ensemble", str(other), "--show", str(other), "--force"]
    assert (
        refused(arguments, capsys)[1] == f"{other} would be overwritten; hint: give --show a file of its own"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--show", "folder"], "--show needs a page's name, which ends in .html. Got folder instead."),
        (["--show", "none/page.html"], "none/page.html: there is no folder none"),
        (["--force"], "--force needs --show"),
        (["--importance"], "--importance needs --show"),
    ],
)
def test_pages_that_can_not_be_written_are_refused(
    arguments: list[str], message: str, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["translate", "m", *arguments]) == 2
    assert capsys.readouterr().err == f"regard translate: error: {message}\n"


@pytest.mark.slow
def test_a_sentence_becomes_a_page_of_its_translations_and_heads(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["show", str(trained), "--text", "a b", "--out", str(page)]) == 0
    (section,) = page_data(page)
    assert section["view"] == "alignment"
    (sentence,) = section["data"]["sentences"]
    expected = Seq2Seq.load(trained).candidates(["a b"])[0]
    assert [one["text"] for one in sentence["hypotheses"]] == [one.text for one in expected]
    assert main(["show", str(trained), "--text", "#", "--out", str(page), "--force"]) == 0
    (warning,) = page_data(page)[0]["warnings"]
    assert warning.startswith("The translation is a guess: the model does not know '#'")
    (tmp_path / "lines").write_text("a b\n#\n")
    assert main(["translate", str(trained), str(tmp_path / "lines"), "--show", str(page), "--force"]) == 0
    unknown = "line 2: the model does not know '#'; the translation is a guess"
    assert page_data(page)[0]["warnings"] == [unknown]
    network = {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1, "decoder_layers": 2}
    several = Seq2Seq(family="transformer", network=network, epochs=3).fit(["a b", "b"], ["b a", "b"])
    several.save(tmp_path / "several.safetensors")
    assert (
        main(["show", str(tmp_path / "several.safetensors"), "--text", "a b", "--out", str(page), "--force"])
        == 0
    )
    views = [section["view"] for section in page_data(page)]
    assert views == (["alignment", "heads"] if several.translate(["a b"])[0].tokens else ["alignment"])


@pytest.mark.slow
def test_a_token_becomes_a_page_of_the_decoder_s_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, model = tmp_path / "page.html", Seq2Seq(epochs=30).fit(["a b", "b"] * 4, ["b a", "b"] * 4)
    model.save(tmp_path / "m.safetensors")
    command = ["show", str(tmp_path / "m.safetensors"), "--text", "a b", "--out", str(page)]
    assert main([*command, "--token", "2"]) == 0
    picture, section = page_data(page)
    assert (picture["view"], picture["data"]["row"]) == ("translation", 1)
    assert (section["view"], section["data"]["row"]) == ("mechanism", 1)
    assert section["data"]["query_labels"] == ["b", "a"]
    assert section["data"]["key_labels"] == ["a", "b", "</s>"]
    config = model.network.config
    assert section["data"]["packed"]["query_weight"]["shape"] == [config.decoder, config.attention]
    capsys.readouterr()
    assert main([*command, "--force", "--token", "3"]) == 2
    rule = "--token must be at most 2, the tokens of 'b a'. Got 3 instead."
    assert capsys.readouterr().err == f"regard show: error: {rule}\n"
    assert main([*command, "--force", "--token", "1", "--head", "1"]) == 2
    rule = "layer, head and part are those of a transformer. Got a recurrent network instead."
    assert capsys.readouterr().err == f"regard show: error: {rule}\n"


def unpacked(array: dict[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(array["base64"]), array["dtype"]).reshape(array["shape"])


@pytest.mark.slow
def test_a_token_of_a_transformer_becomes_a_page_of_one_head(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"model_size": 16, "heads": 2, "feedforward_size": 16, "encoder_layers": 1, "decoder_layers": 2}
    page, model = tmp_path / "page.html", Seq2Seq(family="transformer", network=small, epochs=60)
    model.fit(["a b", "b"] * 4, ["b a", "b"] * 4).save(tmp_path / "m.safetensors")
    command = ["show", str(tmp_path / "m.safetensors"), "--text", "a b", "--token", "1", "--out", str(page)]
    assert main([*command, "--layer", "2", "--head", "2"]) == 0
    picture, to_source, before = page_data(page)
    (best,) = model.translate(["a b"])
    heads = model.heads(best)
    assert [part["view"] for part in (picture, to_source, before)] == [
        "translation",
        "mechanism",
        "mechanism",
    ]
    for section, weights in ((to_source, heads.source), (before, heads.decoder)):
        packed = section["data"]["packed"]
        made = {
            name: unpacked(packed[name])
            for name in ("states", "query_weight", "keys", "key_weight", "value_weight")
        }
        assert made["key_weight"].shape == made["value_weight"].shape == (16, 8)
        scores = made["states"] @ made["query_weight"] @ made["keys"].T / np.sqrt(8)
        if section is before:
            scores = np.where(np.tri(len(scores), dtype=bool), scores, -np.inf)
        shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, weights[1, 1], atol=1e-5)
    capsys.readouterr()
    assert main([*command, "--force", "--head", "3"]) == 2
    assert capsys.readouterr().err == "regard show: error: head must be at most 2. Got 3 instead.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "a"], "--text needs one FILE, a model from regard train. Got 0 instead."),
        (["m", "--token", "1"], "--token needs --text: the sentence whose translation has the token"),
        (["m", "--text", "a", "--head", "1"], "--head needs --token"),
        (["m", "--importance"], "--importance needs --text: it is about a translation"),
        (["m", "--text", "a", "--seed", "1"], "--seed and --text exclude each other; hint: give one"),
    ],
)
def test_a_text_needs_one_model(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *arguments, "--out", str(tmp_path / "page.html")]) == 2
    assert capsys.readouterr().err == f"regard show: error: {message}\n"
