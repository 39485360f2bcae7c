"""Text in other encodings: a byte order mark decides, --encoding names one, and an error names the way out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.cli import main
from regard.seq2seq import Seq2Seq

TEXT = "le café\tthe coffee\ndéjà vu\tseen\n"
PAIRS = [("le café", "the coffee"), ("déjà vu", "seen")]


@pytest.mark.parametrize("name", ["base64", "nope", "rot13", "", "a\0b", "zlib"])
def test_a_name_must_be_that_of_an_encoding_of_text(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main(["train", "pairs.tsv", "--encoding", name]) == 2
    assert "must be an encoding of text" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- the verbs

NETWORK = {"embedding": 4, "encoder": 4, "decoder": 4, "attention": 4}
WORDS = ["café", "dejà", "ñu", "über", "été"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and files in windows-1252."""
    path = tmp_path_factory.mktemp("encodings")
    source, target = zip(*PAIRS, strict=True)
    Seq2Seq(network=NETWORK, epochs=1).fit(source, target).save(path / "text.safetensors")
    spelled = Seq2Seq(source="characters", target="tokens", network=NETWORK, epochs=1)
    spelled.fit(WORDS, [" ".join(word) for word in WORDS]).save(path / "words.safetensors")
    lines = {
        "pairs.tsv": TEXT,
        "lines.txt": "le café\n",
        "words.txt": "café\n",
        "words.dict": "".join(f"{word} {' '.join(word)}\n" for word in WORDS),
        "gold.txt": "the coffee\nseen\n",
        "numbers.csv": "café,ñu\n1,2\n3,4\n",
    }
    for name, text in lines.items():
        (path / name).write_bytes(text.encode("windows-1252"))
    np.save(path / "é.npy", np.ones((2, 2)))
    return path


COMMANDS = {
    "train": "train pairs.tsv --steps 1 --out run",
    "translate": "translate text.safetensors lines.txt",
    "align": "align text.safetensors pairs.tsv",
    "evaluate": "evaluate text.safetensors pairs.tsv",
    "evaluate files": "evaluate --hypotheses gold.txt --references gold.txt --sources lines2.txt",
    "explain": "explain numbers.csv",
}


@pytest.mark.slow
@pytest.mark.threads
@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_that_reads_text_has_the_option(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "lines2.txt").write_bytes("le café\ndéjà vu\n".encode("windows-1252"))
    command = COMMANDS[name].split()
    assert main(command) == 2, "it is not UTF-8"
    assert "--encoding" in capsys.readouterr().err
    assert main([*command, "--encoding", "windows-1252"]) == 0
