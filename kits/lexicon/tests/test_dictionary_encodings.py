"""Dictionaries that are not in UTF-8, or begin with a byte order mark."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard_lexicon as pronunciation
from regard.cli import main
from regard.seq2seq import Seq2Seq

WORDS = ["café", "fée", "né"]
COMMANDS = {
    "train": "train words.dict --task pronunciation --steps 1 --out sounds",
    "pronounce": "pronounce words.safetensors words.txt --lexicon words.dict",
    "lexicon": "lexicon words.dict",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encodings")
    model = Seq2Seq(source="characters", target="tokens", epochs=1)
    model.fit(WORDS, [" ".join(word) for word in WORDS]).save(path / "words.safetensors")
    lines = {"words.txt": "café\n", "words.dict": "".join(f"{word} {' '.join(word)}\n" for word in WORDS)}
    for name, text in lines.items():
        (path / name).write_bytes(text.encode("windows-1252"))
    return path


@pytest.mark.slow
@pytest.mark.threads
@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_that_reads_dictionaries_has_the_option(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(folder)
    command = COMMANDS[name].split()
    assert main(command) == 2, "it is not UTF-8"
    assert "--encoding" in capsys.readouterr().err
    assert main([*command, "--encoding", "windows-1252"]) == 0


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_dictionaries_of_every_kind_may_have_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "dictionary"
    for text, format in (
        ("".join(f"{word}\t{' '.join(word)}\n" for word in WORDS), "tsv"),
        ('{"café": "kafe"}', "misaki"),
    ):
        path.write_bytes(text.encode(encoding))
        lexicon = pronunciation.read(path)
        assert lexicon.format == format
        assert "café" in lexicon
    (tmp_path / "tokens.txt").write_bytes("é 0\n".encode(encoding))
    assert pronunciation.read_symbols(tmp_path / "tokens.txt") == {"é": 0}
