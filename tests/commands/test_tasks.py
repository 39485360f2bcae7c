"""A task of one's own is a class and an entry point: it is trained, evaluated and exported as those of regard are."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from distributions import install
from errors import refused

from regard.cli import main
from regard.commands import tasks
from regard.seq2seq import Seq2Seq

# Sources and their targets in reversed columns with a sign between them; right is what has the right first letter.
REVERSED = """
from pathlib import Path

from regard.commands.tasks.data import Data
from regard.commands.tasks.items import Column
from regard.commands.tasks.pairs import Pairs
from regard.seq2seq.corpus.splits import split_validation
from regard.seq2seq.evaluation.held_out import as_held_out


def rows(path):
    lines = Path(path).read_text("utf-8").splitlines()
    return [line.split("←")[::-1] for line in lines]


class Reversed(Pairs):
    name, description, verb, copies = "reversed", "lines TARGET←SOURCE", "", False

    @classmethod
    def add_arguments(cls, group):
        group.add_argument("--upper", action="store_true", help="write targets in capitals")

    def defaults(self, given):
        return super().defaults({"source": "characters", "target": "characters", **given})

    def read(self, model):
        given = [(s, t.upper() if self.args.upper else t) for s, t in rows(self.args.pairs[0])]
        pairs = [(model.reader.load(s), model.target_reader.load(t)) for s, t in given]
        train, valid, _ = split_validation(pairs, None)
        return Data(train, valid, valid, tested=self.args.pairs[0])

    def identity(self, data):
        return {"upper": str(self.args.upper)}

    def notices(self, model, data):
        yield f"{len(data.train)} lines are reversed"

    def measure(self, models, test, data, confidences):
        measured = super().measure(models, test, data, confidences)
        return [{"answers": len(test)} for _ in measured]

    def card(self, model, data, measured):
        return {"measured": measured, "upper": self.args.upper}

    def held_out(self, test, data):
        return as_held_out({str(source): ["".join(target.content)] for source, target in test})

    @classmethod
    def recognise(cls, path):
        return "lines with an arrow" if "←" in Path(path).read_text("utf-8", "replace") else ""

    @classmethod
    def answers(cls, model, path):
        return {source: [target] for source, target in rows(path)} if cls.recognise(path) else None

    @classmethod
    def columns(cls, test, tokenize):
        first = lambda lines, references: sum(a[:1] == b[0][:1] for a, b in zip(lines, references)) / len(lines)
        return {"first": Column("first %", 100, first)}

    @classmethod
    def headline(cls, test):
        return "first"

    @classmethod
    def definitions(cls, test):
        return ["first: answers whose first letter is right"]
"""
SMALL = ["--network", "embedding=4", "encoder=4", "decoder=4", "attention=4", "--steps", "3"]


@pytest.fixture
def reversed_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of the task, which a distribution has added."""
    point = {"regard.tasks reversed": "reversed_lines:Reversed"}
    install(monkeypatch, tmp_path / "site", "reversed-lines", REVERSED, point)
    monkeypatch.chdir(tmp_path)
    words = [a + b for a in "abcdefgh" for b in "abcdefgh"]
    Path("lines.txt").write_text("".join(f"{word[::-1]}←{word}\n" for word in words), "utf-8")
    return "lines.txt"


def train(*given: str) -> int:
    return main(["train", "lines.txt", "--task", "reversed", "--out", "run", *SMALL, *given])


def test_another_task_is_trained_evaluated_and_exported(
    reversed_lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train() == 0
    assert "lines are reversed" in capsys.readouterr().err
    model = Seq2Seq.load("run")
    assert (model.source, model.target) == ("characters", "characters")
    test = model.card["measured"]["answers"]
    task = {"task": "reversed", "distribution": "reversed-lines"}
    assert model.card == {**task, "measured": {"answers": test}, "upper": False}
    assert model.held_out is not None
    assert len(model.held_out) == test

    assert main(["evaluate", "run", reversed_lines, "--json", "it.json"]) == 0
    out = capsys.readouterr().out
    assert "first: answers whose first letter is right" in out
    assert "BLEU" not in out
    answers = [answer.text for answer in model.translate([a + b for a in "abcdefgh" for b in "abcdefgh"])]
    right = [b for _ in "abcdefgh" for b in "abcdefgh"]
    (scores,) = json.loads(Path("it.json").read_text("utf-8"))["models"]
    assert scores["first"] == sum(a[:1] == b for a, b in zip(answers, right, strict=True)) / 64
    assert refused(["evaluate", "run", reversed_lines, "--measure", "bleu"], capsys).startswith(
        "--measure must be one of what is measured: first. Got bleu instead."
    )


@pytest.mark.slow
def test_another_task_is_exported_with_its_held_out_sources(
    reversed_lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime", reason="export compares with it")
    pytest.importorskip("onnx", reason="export writes with it")
    assert train() == 0
    held_out = len(Seq2Seq.load("run").held_out or ())
    capsys.readouterr()
    assert main(["export", "run", "--onnx", "app", "--test", reversed_lines]) == 0
    out = capsys.readouterr().out
    assert f"{held_out} held-out words" in out
    assert f"64 {reversed_lines}" in out


@pytest.mark.usefixtures("reversed_lines")
def test_a_finished_run_is_that_of_the_task_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert train() == 0
    assert train() == 0
    assert "training is done already" in capsys.readouterr().err
    assert train("--upper") == 2
    assert "run/model.safetensors is done; hint: --fresh trains it anew" in capsys.readouterr().err


@pytest.mark.usefixtures("reversed_lines")
def test_a_task_is_imported_when_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert "reversed" in tasks.task_names()
    Path("pairs.tsv").write_text("a\tb\n" * 3, "utf-8")
    assert main(["train", "pairs.tsv", "--out", "pairs", *SMALL]) == 0
    assert "reversed_lines" not in sys.modules
    assert main(["train", "--task", "reversed", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--upper" in out
    assert ["--task", "reversed", "reversed-lines"] in [line.split() for line in out.splitlines()]


def test_the_task_of_a_file_and_of_an_option_is_named(
    reversed_lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(["train", reversed_lines], capsys)
    assert message.endswith("; hint: --task reversed reads it as lines with an arrow")
    message = refused(["train", reversed_lines, "--upper"], capsys)
    assert message == "unrecognized arguments: --upper; --upper needs --task reversed"


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("reversed_lines:Missing", "AttributeError: module 'reversed_lines' has no attribute 'Missing'"),
        ("missing_module:Task", "ModuleNotFoundError: No module named 'missing_module'"),
        ("broken:Task", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_task_that_cannot_be_imported_names_its_distribution(
    point: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, "reversed-lines", REVERSED, {"regard.tasks reversed": point})
    (tmp_path / "broken.py").write_text("1 / 0\n", "utf-8")
    message = refused(["train", "lines.txt", "--task", "reversed"], capsys)
    assert message == f"regard.tasks: reversed of reversed-lines can't be imported: {why}"
    (tmp_path / "pairs.tsv").write_text("a\tb\n" * 3, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["train", "pairs.tsv", "--out", "pairs", *SMALL]) == 0  # others are used as before


def test_an_unknown_task_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["train", "lines.txt", "--task", "tables"], capsys)
    assert message.startswith("argument --task: must be one of pairs, captions")


@pytest.mark.usefixtures("reversed_lines")
def test_two_distributions_with_one_name_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path / "second", "second", "", {"regard.tasks reversed": "second:Task"})
    assert refused(["train", "lines.txt", "--task", "reversed"], capsys) == (
        "regard.tasks: reversed must be of one distribution. Got it of second and reversed-lines instead."
    )
