"""Each command and function tokenizes a sentence once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.sources.text import tokenizers

PAIRS = [(f"word {i}", f"mot {i}") for i in range(40)]
SIDES = [pair[0] for pair in PAIRS], [pair[1] for pair in PAIRS]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text was split into words."""
    counted: Counter[str] = Counter()
    tokenize = tokenizers.tokenize

    def counting(text: str) -> list[str]:
        counted[text] += 1
        return tokenize(text)

    monkeypatch.setattr(tokenizers, "tokenize", counting)
    return counted


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model of each direction, sources, and pairs."""
    tmp_path = tmp_path_factory.mktemp("files")
    forward, backward = tmp_path / "forward.safetensors", tmp_path / "backward.safetensors"
    Seq2Seq(epochs=1).fit(*SIDES).save(forward)
    Seq2Seq(epochs=1).fit(*SIDES[::-1]).save(backward)
    sources, pairs = tmp_path / "sources", tmp_path / "pairs"
    sources.write_text("".join(f"{source}\n" for source in SIDES[0]))
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return {"forward": str(forward), "backward": str(backward), "sources": str(sources), "pairs": str(pairs)}


@pytest.mark.parametrize("valid", [None, (["other word"], ["autre mot"])])
def test_training(valid: tuple[list[str], list[str]] | None, counts: Counter[str]) -> None:
    Seq2Seq(epochs=1).fit(*SIDES, valid=valid)
    assert set(counts) >= {*SIDES[0], *SIDES[1]}
    assert set(counts.values()) == {1}


@pytest.mark.parametrize(
    "command",
    [
        "translate {forward} {sources}",
        "translate {forward} {sources} --sample 2",
        "align {forward} {pairs}",
        "align {forward} {pairs} --reverse {backward}",
        "evaluate {forward} {pairs}",
    ],
)
def test_commands(command: str, files: dict[str, str], counts: Counter[str]) -> None:
    counts.clear()
    assert main(command.format(**files).split()) == 0
    assert set(SIDES[0]) <= set(counts)
    assert set(counts.values()) == {1}


@pytest.mark.slow
def test_training_command(files: dict[str, str], tmp_path: Path, counts: Counter[str]) -> None:
    counts.clear()
    command = "train {pairs} --out {out} --epochs 1".format(**files, out=tmp_path / "run")
    assert main(command.split()) == 0
    assert set(SIDES[0]) <= set(counts)
    assert set(counts.values()) == {1}
