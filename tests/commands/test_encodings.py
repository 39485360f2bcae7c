"""Text in other encodings: a byte order mark decides, --encoding names one, and an error names the way out."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard import pronunciation
from regard._encoding import assumed, utf_8
from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.corpus.pairs import read_pairs, read_two

TEXT = "le café\tthe coffee\ndéjà vu\tseen\n"
PAIRS = [("le café", "the coffee"), ("déjà vu", "seen")]
MARKED = {  # with a byte order mark
    "utf-8": codecs.BOM_UTF8 + TEXT.encode(),
    "utf-16-le": codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
    "utf-16-be": codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
    "utf-32-le": codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
}
PLAIN = ["windows-1252", "latin-1", "mac-roman", "utf-16-le", "utf-7"]


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("given", [None, "windows-1252"])
def test_a_byte_order_mark_decides(tmp_path: Path, name: str, given: str | None) -> None:
    (tmp_path / "pairs.tsv").write_bytes(MARKED[name])
    with assumed(given):
        assert read_pairs(tmp_path / "pairs.tsv") == PAIRS
        (tmp_path / "other.txt").write_bytes(b"one\ntwo\n")
        both = read_two(tmp_path / "pairs.tsv", tmp_path / "other.txt")
        assert both[0] == ("le café\tthe coffee", "one")


@pytest.mark.parametrize("name", PLAIN)
def test_a_named_encoding_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "pairs.tsv").write_bytes(TEXT.encode(name))
    with assumed(name):
        assert read_pairs(tmp_path / "pairs.tsv") == PAIRS


@pytest.mark.parametrize("name", ["utf-16", "shift_jis", "utf-8-sig", "gb18030"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_characters_may_be_cut_between_blocks(name: str, size: int) -> None:
    data = "猫がいる\nここ\n".encode(name)
    blocks = (data[i : i + size] for i in range(0, len(data), size))
    with assumed(name):
        assert b"".join(utf_8(blocks, "it")).removeprefix(codecs.BOM_UTF8) == "猫がいる\nここ\n".encode()


def test_the_first_line_is_not_waited_for_longer_than_needed() -> None:
    def typed() -> Iterator[bytes]:
        yield b"a\n"
        raise AssertionError("a line of a terminal is waited for")

    assert next(utf_8(typed(), "it")) == b"a\n"


@pytest.mark.parametrize(
    ("data", "name", "rule"),
    [
        (b"a\tb\nc\t\x81\n", "windows-1252", "line 2: not windows-1252|line 2: not cp1252"),
        ("a\tb\n".encode("utf-16-le"), "utf-16", "byte order mark"),
        (codecs.BOM_UTF16_LE + b"a\0\t\0b\0\n\0\x00\xd8", None, "line 2: not utf-16"),
        (TEXT.encode("latin-1"), None, "line 1: not UTF-8 .*--encoding"),
        ("a\tb\n".encode("utf-16-le"), None, "line 1: not text .*--encoding utf-16-le"),
        ("café\t/kafe/\n".encode("latin-1"), "ascii", "line 1: not ascii"),
    ],
)
def test_what_is_not_in_its_encoding_is_an_error_with_its_line(
    tmp_path: Path, data: bytes, name: str | None, rule: str
) -> None:
    (tmp_path / "pairs.tsv").write_bytes(data)
    with assumed(name), pytest.raises(ValueError, match=f"(?s){rule}"):
        read_pairs(tmp_path / "pairs.tsv")


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
    "train with a preset": "train words.dict --preset pronunciation --steps 1 --out sounds",
    "translate": "translate text.safetensors lines.txt",
    "align": "align text.safetensors pairs.tsv",
    "evaluate": "evaluate text.safetensors pairs.tsv",
    "evaluate files": "evaluate --hypotheses gold.txt --references gold.txt --sources lines2.txt",
    "pronounce": "pronounce words.safetensors words.txt --lexicon words.dict",
    "lexicon": "lexicon words.dict",
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
