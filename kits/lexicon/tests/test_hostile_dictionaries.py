"""Dictionaries of an attacker: what a file may take is bounded by its size, whatever it says of itself."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from regard._lines import LONGEST_LINE
from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard_lexicon import Lexicon, files, prepare, read, read_phone_map, read_symbols

Make = Callable[[str | bytes], Path]
MARKS = "\u0301\u0323"  # above and below: a form of Unicode puts the second before the first


# -------------------------------------------------------------------------------------------------- all readers


def test_a_word_with_the_product_of_its_roles_is_refused(make: Make) -> None:
    roles = ", ".join(f'"{number}": "a"' for number in range(1_000))
    with pytest.raises(ValueError, match="words, entry 1: up to here the entries have 8 times as much text"):
        read(make(f'{{"{"w" * 900}": {{{roles}}}}}'))


PILED = "a" + MARKS * 50_000  # of which a form of Unicode takes a minute


@pytest.mark.parametrize(
    "content",
    [
        f"{PILED} b\nc d\n",
        f"c d\n{'a'} {PILED}\n",
        f"{PILED}\tb\nc\td\n",
        f'{{"{PILED}": "a", "c": "d"}}',
        f'{{"a": "{PILED}", "c": "d"}}',
    ],
)
@pytest.mark.parametrize("phones", ["blanks", "ipa"])
def test_no_form_of_unicode_is_made_of_very_long_text(content: str, phones: str, make: Make) -> None:
    with pytest.raises(ValueError, match=r"words, (line|entry) [12]: .* 100,001 characters; at most 1"):
        read(make(content), phones=phones)  # type: ignore[arg-type]
    assert [*read(make(content), skip_bad=True, phones=phones)] == ["c"]  # type: ignore[arg-type]


def test_files_larger_than_any_dictionary_are_refused_before_they_are_read(make: Make) -> None:
    path = make("a b\n")
    with path.open("r+b") as file:
        file.truncate(files.LARGEST + 1)  # without content, so that it takes no room
    for reader in (read, read_symbols, read_phone_map):
        with pytest.raises(ValueError, match=r"words has 268,435,457 bytes: a file larger than 268,435,456"):
            reader(path)  # type: ignore[operator]
    with pytest.raises(ValueError, match="268,435,457"):
        read(path, format="kaldi")


# ------------------------------------------------------------------------------------- symbols and phone maps


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("AH\t\x1b[2J", r"U\+001B"),
        ("AH\ta\u0085b", r"U\+0085"),
        ("AH\ta\u00a0b", r"U\+00A0"),
        ("A\u00a0H\ta", r"U\+00A0"),
        ("AH\ta\ud800".encode("utf-8", "surrogatepass"), "UTF-8"),
        ("AH\t" + "a " * 50_000, "at most 100 .* 50,000"),
        ("a " * 50_000 + "\tAH", "at most 100 .* 50,000"),
        ("AH\t" + "a" * 50_000, "a phone has 50,000 characters"),
        (PILED + "\ta", "100,001 characters"),
    ],
)
def test_a_phone_or_symbol_that_no_dictionary_has_is_refused_with_its_line(
    line: str | bytes, reason: str, make: Make
) -> None:
    data = line if isinstance(line, bytes) else line.encode()
    with pytest.raises(ValueError, match=rf"(?s)words, line 2: .*{reason}"):
        read_phone_map(make(b"L\tl\n" + data + b"\n"))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"a {'1' * 4301}", "at most nine digits"),
        ("a ١", "at most nine digits"),
        ("a ²", "at most nine digits"),
        ("a -1", "at most nine digits"),
        ("\x1b[2J 1", r"U\+001B"),
        ("a\u00a0b 1", r"U\+00A0"),
        ("\u00a0 1", r"U\+00A0"),  # not the blank
        ("a\u00a01", "at most nine digits"),
        ("a\x1c1", "at most nine digits"),
        ("a" * 101 + " 1", "101 characters"),
        (PILED + " 1", "100,001 characters"),
    ],
)
def test_a_symbol_or_number_that_no_voice_has_is_refused_with_its_line(
    line: str, reason: str, make: Make
) -> None:
    with pytest.raises(ValueError, match=f"words, line 2: .*{reason}"):
        read_symbols(make(f"b 0\n{line}\n"))


def test_a_map_makes_no_word_longer_than_any_is_read() -> None:
    lexicon = Lexicon([("a", ["x"] * 11), ("b", ["x"])])
    prepared = prepare(lexicon, "tsv", phone_map={("x",): ("y",) * 100})
    assert ([*prepared.lexicon], prepared.lost) == (["b"], ("a",))
    assert prepared.left_out[0].reason == "it would have 1,100 phones; a word has at most 1,000"


@pytest.mark.parametrize(("table", "line"), [(read, "a b"), (read_phone_map, "a\tb"), (read_symbols, "a 1")])
def test_lines_are_refused_as_those_of_pairs(table: Callable[[Path], object], line: str, make: Make) -> None:
    refused = {
        f"{line}\n{' ' * LONGEST_LINE}{line}\n".encode(): ", line 2: longer than 1048576 bytes",
        f"{line}\n".encode() + b"\xff": r", line 2: not UTF-8 \(byte 1 is 0xff\)[;\n] +hint: --encoding",
        f"{line}\n{line}\0".encode(): r", line 2: not text \(byte 4 is zero\)[;\n] +hint: if it is UTF-16",
        f"{line}\r{line}".encode(): ": lines must end with LF or CRLF",
        gzip.compress(line.encode()): " must be text. It is packed with gzip instead",
    }
    for data, reason in refused.items():
        with pytest.raises(ValueError, match=f"words{reason}"):
            table(make(data))


# -------------------------------------------------------------------------------------------- the command line


def test_every_verb_that_reads_dictionaries_names_file_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text('{"a": "b"')
    Path("good.dict").write_text("ab A B\nba B A\n")
    Path("words.txt").write_text("ab\n")
    Seq2Seq(epochs=1, source="characters", target="tokens").fit(["ab", "ba"], ["A B", "B A"]).save(
        "model.safetensors"
    )
    for command in (
        "lexicon bad.json",
        "lexicon good.dict bad.json --format tsv --out out.tsv",
        "lexicon good.dict --format sherpa-kokoro --symbols bad.json --out out.txt",
        "lexicon good.dict --format tsv --phone-map bad.json --out out.tsv",
        "train bad.json --task pronunciation --out runs/a",
        "train good.dict --valid bad.json --task pronunciation --out runs/a",
        "pronounce model.safetensors words.txt --lexicon bad.json",
        "review bad.json --out doubts.tsv",
    ):
        assert main(command.split()) == 2, command
        assert re.search(r"error: (--\S+: )?bad\.json[,:] ", capsys.readouterr().err), command
    assert {path.name for path in tmp_path.iterdir()} <= {
        "bad.json",
        "good.dict",
        "words.txt",
        "model.safetensors",
        "runs",
    }
