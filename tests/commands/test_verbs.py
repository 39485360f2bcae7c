"""A distribution of the tests' own adds a verb and an extra, as a kit does; nothing is imported before it is used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from distributions import install
from errors import refused

from regard.cli import main
from regard.seq2seq import Seq2Seq

KIT = '''
"""A verb, and an extra that prefers short hypotheses."""

import own_extras


class Short(own_extras.Lengths):
    def _ranked(self, source, several, weight, scoring):
        return sorted(several, key=lambda one: len(one.tokens))


def add_arguments(parser):
    parser.description = "Say a word."
    parser.add_argument("word")


def run(args):
    print(args.word.upper())
    return 0 if args.word != "bad" else 2
'''
POINTS = {"regard.verbs say": "own_kit", "regard.extras short": "own_kit:Short"}


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the distribution is."""
    install(monkeypatch, tmp_path / "site", "own-kit", KIT, POINTS)
    return tmp_path / "site"


@pytest.mark.usefixtures("kit")
def test_a_verb_is_listed_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "of own-kit" in next(x for x in capsys.readouterr().out.splitlines() if x.split()[:1] == ["say"])
    assert "own_kit" not in sys.modules
    assert main(["curve", "--help"]) == 0
    assert "own_kit" not in sys.modules
    assert main(["say", "hello"]) == 0
    assert capsys.readouterr().out.endswith("HELLO\n")
    assert main(["say", "bad"]) == 2
    assert main(["say", "--help"]) == 0
    assert "Say a word." in capsys.readouterr().out
    assert "did you mean say?" in error_of(["sya", "hello"], capsys)


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    return capsys.readouterr().err


def test_a_verb_that_cannot_be_imported_names_its_distribution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, "own-kit", "import nothing_of_this_name", POINTS)
    assert main(["--help"]) == 0
    capsys.readouterr()
    why = "ModuleNotFoundError: No module named 'nothing_of_this_name'"
    assert refused(["say", "hello"], capsys) == f"regard.verbs: say of own-kit can't be imported: {why}"


def test_a_verb_of_regard_stays_that_of_regard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, tmp_path, "own-kit", KIT, {"regard.verbs train": "own_kit"})
    assert main(["train", "--help"]) == 0
    assert "PAIRS" in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "of own-kit" not in capsys.readouterr().out


def test_a_model_names_the_distribution_of_an_extra_that_is_missing(
    kit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    Seq2Seq(extras={"short": 2}, epochs=1).fit(["a b", "b"], ["x y", "y"]).save(path)
    assert Seq2Seq.load(path).extras == {"short": 2}
    assert Seq2Seq.load(path).translate(["a b"])[0].text in {"", "x", "y"}
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(kit)])
    with pytest.raises(ValueError) as caught:
        Seq2Seq.load(path)
    told = f"{path} has the extra short of own-kit, which is not installed"
    assert str(caught.value) == told
    assert refused(["translate", str(path)], capsys) == told
    with pytest.raises(ValueError, match="extras must be one of"):
        Seq2Seq(extras={"short": 2})


@pytest.mark.usefixtures("kit")
@pytest.mark.parametrize("damaged", ["[]", "{}", "3", '{"short": 3}', '{"short": "a b"}', '{"a b": "x"}'])
def test_damaged_names_of_extras_are_an_error(damaged: str, tmp_path: Path) -> None:
    from regard._safetensors import opened, write

    path = tmp_path / "model.safetensors"
    Seq2Seq(extras={"short": 2}, epochs=1).fit(["a b", "b"], ["x y", "y"]).save(path)
    with opened(path, "model file") as file:
        metadata, arrays = dict(file.metadata), {name: file.array(name) for name in file.tensors}
    write(path, arrays, {**metadata, "extras": damaged})
    with pytest.raises(ValueError, match="its extras must be names of extras with their distributions"):
        Seq2Seq.load(path)
