"""The verb `distill`: what it learns from, its files, its card, an interrupt, and refused input."""

from __future__ import annotations

import hashlib
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from errors import refusals, refused
from test_train_dictionary import SHORT, words, written

from regard.cli import main
from regard.commands.distill import _Forecast
from regard.commands.train.report import Reporter
from regard.seq2seq import Seq2Seq, Vectors
from regard.seq2seq.training.loop import TrainingStep
from regard.seq2seq.translator import Translator

STUDENT = [text for text in SHORT if not text.startswith(("--extras", "graphones"))]
NETWORK = {"embedding": 8, "encoder": 8, "decoder": 8, "attention": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs, words, and teachers, one of them of vectors."""
    path = tmp_path_factory.mktemp("teachers")
    (path / "more.txt").write_text("eeeeb\nedcba\n\nebxd\nBade\neeeeb\n", "utf-8")
    model = Seq2Seq(source="characters", target="tokens", network=NETWORK, epochs=1)
    for seed, name in enumerate(("one", "two")):
        model.training = model.training.__class__(epochs=1, seed=seed)
        model.fit(["abc", "bca", "dea"], ["A B C", "B C A", "D E A"]).save(path / f"{name}.safetensors")
    other = Seq2Seq(source="characters", target="tokens", network=NETWORK, epochs=1)
    other.fit(["abc", "bca", "dea"], ["A B C", "B C A", "D E Z"]).save(path / "other.safetensors")
    vectors = Seq2Seq(source=Vectors(2), target="tokens", network=NETWORK, epochs=1)
    vectors.fit([[[1.0, 2.0]], [[2.0, 1.0]]], ["a", "b"]).save(path / "vectors.safetensors")
    (path / "pairs.tsv").write_text("abc\tA B C\nbca\tB C A\ndea\tD E A\n", "utf-8")
    (path / "others.tsv").write_text("abc\tA1 B1 C1\n", "utf-8")
    (path / "empty.txt").write_text("\n", "utf-8")
    (path / "unknown.txt").write_text("xyz\n", "utf-8")
    (path / "columns.txt").write_text("abc\n\nbca\tB C A\n", "utf-8")
    return path


@pytest.fixture(scope="module")
def complete(folder: Path) -> Path:
    """The same folder with a dictionary, and a teacher with extras that has learned it."""
    written(folder / "words.dict", words(120))
    command = ["train", str(folder / "words.dict"), "--preset", "pronunciation", *SHORT]
    command += ["--extras", "translation_memory=2"]
    assert main([*command, "--licence", "CC0-1.0", "--out", str(folder / "teacher")]) == 0
    return folder


def distill(folder: Path, out: Path, *more: str) -> int:
    """Distill the teacher of pronunciation."""
    sources = ["--sources", str(folder / "more.txt"), "--pairs", str(folder / "words.dict")]
    command = ["distill", str(folder / "teacher"), *sources, "--preset", "pronunciation", *STUDENT]
    return main([*command, "--out", str(out), *more])


def parameters(path: Path) -> bytes:
    return Seq2Seq.load(path).model.network.parameters.flat.tobytes()


@pytest.mark.slow
def test_a_student_of_pronunciation(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert distill(complete, tmp_path / "small") == 0
    stdout, stderr = capsys.readouterr()
    assert "1 source left out:\n  1: the teacher does not know 'x'\n" in stderr
    assert "graphones" not in stderr  # a student needs no extras
    assert "\nthe teachers, beam 5: " in stdout
    student, teacher = (Seq2Seq.load(path) for path in (tmp_path / "small", complete / "teacher"))
    assert (dict(student.model.extras), {*teacher.model.extras}) == ({}, {"translation_memory", "graphones"})
    assert student.model.source.settings() == teacher.model.source.settings()
    card = student.card
    assert card["licence"] == "CC0-1.0"
    assert [(one["name"], one["licence"], len(one["sha256"])) for one in card["teachers"]] == [
        ("teacher", "CC0-1.0", 64)
    ]
    assert card["split"] == teacher.card["split"]
    assert card["held_out"]["learned"] == 0
    of_teachers = card["held_out_teachers"]
    assert of_teachers == {name: teacher.card["held_out"][name] for name in of_teachers}
    names = {path.name for path in (tmp_path / "small").iterdir()}
    assert {"model.safetensors", "labels.safetensors", "log.jsonl"} <= names
    assert "checkpoint.safetensors" not in names


@pytest.mark.slow
def test_the_same_command_is_done_already(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert distill(complete, tmp_path / "small") == 0
    before = parameters(tmp_path / "small")
    capsys.readouterr()
    assert distill(complete, tmp_path / "small") == 0
    assert "is done already" in capsys.readouterr().err
    assert distill(complete, tmp_path / "small", "--top-k", "3") == 2
    assert "is done; hint: --fresh" in capsys.readouterr().err
    assert parameters(tmp_path / "small") == before
    assert distill(complete, tmp_path / "small", "--top-k", "3", "--fresh") == 0
    assert parameters(tmp_path / "small") != before


@pytest.mark.slow
def test_an_interrupted_command_goes_on_without_labelling_again(
    complete: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert distill(complete, tmp_path / "whole", "--steps", "12") == 0
    with monkeypatch.context() as patch:
        report = Reporter.report

        def interrupted(self: Reporter, step: TrainingStep) -> None:
            signal.raise_signal(signal.SIGINT)
            report(self, step)

        patch.setattr(Reporter, "report", interrupted)
        assert distill(complete, tmp_path / "small", "--steps", "12") == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    labels = (tmp_path / "small" / "labels.safetensors").stat().st_mtime_ns
    monkeypatch.setattr(Translator, "distributions", None)  # which labelling needs
    assert distill(complete, tmp_path / "small", "--steps", "12", "--top-k", "2") == 2
    assert "--fresh labels anew, another --out keeps them" in capsys.readouterr().err
    assert distill(complete, tmp_path / "small", "--steps", "12") == 0
    assert "resuming after step 1 of 12" in capsys.readouterr().err
    assert (tmp_path / "small" / "labels.safetensors").stat().st_mtime_ns == labels
    assert parameters(tmp_path / "small") == parameters(tmp_path / "whole")


@pytest.mark.slow
def test_several_teachers_and_no_pairs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(folder / f"{name}.safetensors") for name in ("one", "two")]
    (tmp_path / "words.txt").write_text(
        "\n".join(["abc", "bcade", "dea", *(x + y for x in "abc" for y in "de")])
    )
    command = ["distill", *names, "--sources", str(tmp_path / "words.txt"), "--network", "decoder=8"]
    assert main([*command, "--steps", "3", "--n-best", "2", "--out", str(tmp_path / "small")]) == 0
    assert "validation is on answers of the teachers" in capsys.readouterr().err
    card = Seq2Seq.load(tmp_path / "small").card
    assert [one["name"] for one in card["teachers"]] == ["one.safetensors", "two.safetensors"]
    assert (card["licence"], card["held_out_teachers"]) == (None, None)


@pytest.mark.slow
def test_pairs_that_are_no_dictionary(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "distill",
        str(folder / "one.safetensors"),
        "--pairs",
        str(folder / "pairs.tsv"),
        "--steps",
        "2",
    ]
    assert (
        main([*command, "--family", "transformer", "--licence", "mine", "--out", str(tmp_path / "small")])
        == 0
    )
    assert " of the teachers, beam 5\n" in capsys.readouterr().out
    student = Seq2Seq.load(tmp_path / "small")
    assert (student.family, student.card["licence"]) == ("transformer", "mine")


REFUSED = """
one.safetensors | there is nothing to learn from; hint: give --sources, --pairs, or both
nothere --sources more.txt | nothere: No such file or directory
more.txt --sources more.txt | more.txt is not a model file: it doesn't begin like a safetensors file
one.safetensors one.safetensors --sources more.txt | the models of an ensemble must be different files
one.safetensors other.safetensors --sources more.txt | one.safetensors and other.safetensors: models must know the same
    tokens of the target. Model 2 differs from model 1; hint: train them on the same pairs with the same token types,
    with different seeds
vectors.safetensors --sources more.txt | vectors.safetensors is a model of vectors: teachers must be models of text.
one.safetensors --sources nothere.txt | nothere.txt: No such file or directory
one.safetensors --sources empty.txt | there must be sources that the teacher can answer, or pairs. Got none instead.
one.safetensors --sources columns.txt | columns.txt, line 3: a line must be one source. It has 2 columns instead;
    hint: --pairs reads sources with targets
one.safetensors --sources more.txt --valid pairs.tsv | --valid needs --pairs
one.safetensors --sources more.txt --test pairs.tsv | --test needs --pairs
one.safetensors --sources more.txt --columns a b | --columns needs --pairs
one.safetensors --pairs pairs.tsv --stress drop | --stress needs --preset
one.safetensors --pairs - --sources - | only one file can be standard input
one.safetensors --pairs pairs.tsv --preset pronunciation --columns a b | --preset pronunciation reads pronunciation
    dictionaries: --columns must not be given
one.safetensors --sources more.txt --network width=3 | network must have names among embedding, encoder, decoder,
    attention, score, style, cell, layers, encoder_layers, input_feeding. Got 'width' instead.
one.safetensors --sources more.txt --steps 3 --epochs 2 | steps must not be given with epochs. Got 3 and 2 instead.
"""


@pytest.mark.parametrize(("arguments", "message"), refusals(REFUSED), ids=lambda x: " ".join(x)[:40])
def test_input_is_refused_before_anything_is_written(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(folder)
    assert refused(["distill", *arguments, "--out", str(tmp_path / "small")], capsys) == message
    assert not (tmp_path / "small" / "model.safetensors").exists()


@pytest.mark.slow
def test_a_file_that_is_no_file_of_labels_is_kept(
    complete: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small" / "labels.safetensors"
    path.parent.mkdir()
    shutil.copy(complete / "one.safetensors", path)
    for more in ([], ["--fresh"]):
        assert distill(complete, path.parent, *more) == 2
        assert f"{path} is not a file of labels: " in capsys.readouterr().err
        assert path.read_bytes() == (complete / "one.safetensors").read_bytes()


def test_pairs_of_other_symbols_are_an_error(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["distill", str(folder / "one.safetensors"), "--pairs", str(folder / "others.tsv")]
    assert main([*command, "--out", str(tmp_path / "small")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["1 pair left out:", "  1: the teacher does not know 'A1'"]
    assert "--pairs: the teachers know the tokens of no pair; hint: see --stress" in lines[-1]


def test_an_interrupt_while_labelling_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "candidates", interrupted)
    command = ["distill", str(folder / "one.safetensors"), "--sources", str(folder / "more.txt")]
    assert main([*command, "--out", str(tmp_path / "small")]) == 130
    assert "the labels are not complete" in capsys.readouterr().err
    assert not (tmp_path / "small" / "labels.safetensors").exists()


def test_only_unknown_sources_leave_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["distill", str(folder / "one.safetensors"), "--sources", str(folder / "unknown.txt")]
    assert main([*command, "--out", str(tmp_path / "small")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["1 source left out:", "  1: the teacher does not know 'x'"]
    assert "there must be sources that the teacher can answer" in lines[-1]


@pytest.mark.parametrize("fresh", [[], ["--fresh"]])
@pytest.mark.parametrize("out", ["model", "model/model.safetensors", "link"])
def test_a_student_never_replaces_its_teacher(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    out: str,
    fresh: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "link").symlink_to("model")
    teacher = tmp_path / "model" / "model.safetensors"
    shutil.copy(folder / "one.safetensors", teacher)
    for teachers in (["model"], [str(folder / "two.safetensors"), str(teacher)]):
        command = ["distill", *teachers, "--sources", str(folder / "more.txt"), *fresh, "--out", out]
        assert "teacher" in refused(command, capsys)
    assert teacher.read_bytes() == (folder / "one.safetensors").read_bytes()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["model.safetensors"]


@pytest.mark.slow
def test_the_card_has_the_hash_of_the_teacher_that_was_asked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher, asked = tmp_path / "one.safetensors", (folder / "one.safetensors").read_bytes()
    teacher.write_bytes(asked)
    candidates = Translator.candidates

    def replaced(*given: Any, **options: Any) -> Any:
        shutil.copy(folder / "two.safetensors", teacher)
        return candidates(*given, **options)

    monkeypatch.setattr(Translator, "candidates", replaced)
    options = [
        "--sources",
        str(folder / "more.txt"),
        "--steps",
        "1",
        "--network",
        *(f"{n}=8" for n in NETWORK),
    ]
    assert main(["distill", str(teacher), *options, "--out", str(tmp_path / "small")]) == 0
    (one,) = Seq2Seq.load(tmp_path / "small").card["teachers"]
    assert one["sha256"] == hashlib.sha256(asked).hexdigest()


def test_how_long_labelling_takes_is_told_once() -> None:
    forecast = _Forecast(1000)
    assert forecast.advance(64, forecast.since + 1.0) == ""
    line = "labelling takes about 2 minutes, once: the student is trained after it"
    assert forecast.advance(36, forecast.since + 10.0) == line  # a tenth
    assert forecast.advance(100, forecast.since + 20.0) == ""
    done = _Forecast(10)
    assert done.advance(10, done.since + 60.0) == ""
