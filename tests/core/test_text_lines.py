"""Lines of text: whatever reads a file of them ends, decodes, counts and refuses them alike."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from errors import error
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard import _lines
from regard._lines import assumed, read_lines, utf_8
from regard.commands.array_files import read_array
from regard.seq2seq.alignment.links import read_gold
from regard.seq2seq.corpus.pairs import read_pairs, read_two

OTHER = "\n  hint: --encoding of the command names another, such as windows-1252"
UTF_16 = "\n  hint: if it is UTF-16: --encoding utf-16-le, or utf-16-be"
DOORS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "pairs": (read_pairs, "a\tb", "c\td"),
    "links": (read_gold, "0-0", "1-1"),
    "numbers": (lambda path: read_array(path).tolist(), "1\t2", "3\t4"),
}
doors = pytest.mark.parametrize("door", DOORS)


@doors
def test_every_door_reads_the_same_lines(door: str, tmp_path: Path) -> None:
    read, *lines = DOORS[door]
    plain = "\n".join(lines)
    (tmp_path / "x").write_text(plain)
    expected = read(tmp_path / "x")
    variants = [plain + "\n", plain.replace("\n", "\r\n"), "\ufeff" + plain]
    for data in (
        *(text.encode() for text in variants),
        plain.encode("utf-16"),
        gzip.compress(plain.encode()),
    ):
        (tmp_path / "x").write_bytes(data)
        assert read(tmp_path / "x") == expected


@doors
def test_every_door_refuses_the_same_lines(door: str, tmp_path: Path) -> None:
    read, first, second = DOORS[door]
    start, path = f"{first}\n{second}".encode(), tmp_path / "x"
    refused = {
        start + b"\xff\n": f", line 2: not UTF-8 (byte {len(second) + 1} is 0xff){OTHER}",
        start
        + b"\xed\xa0\x80": f", line 2: not UTF-8 (byte {len(second) + 1} is 0xed){OTHER}",  # half a pair
        start + b"\0": f", line 2: not text (byte {len(second) + 1} is zero){UTF_16}",
        start + b" " * (1 << 20): ", line 2: longer than 1048576 bytes",
        start.replace(b"\n", b"\r") + b"\r": ": lines must end with LF or CRLF. Got CR only instead.",
        gzip.compress(start)[:-5]: " is not a complete gzip file: it is cut off",
        gzip.compress(bytes(4 << 20)): " unpacks to too much: ",
    }
    for data, message in refused.items():
        path.write_bytes(data)
        got = error(ValueError, read, path)
        assert got == f"{path}{message}" or (
            message.endswith("much: ") and got.startswith(f"{path}{message}")
        )


def stream(data: bytes) -> BinaryIO:
    return io.BytesIO(data)


class Slow(io.BytesIO):
    """A stream that gives few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self.size = size

    def read1(self, size: int | None = -1, /) -> bytes:
        """Read at most `size` bytes."""
        return super().read1(self.size)


# ------------------------------------------------------------------------------------------------------- lines


@pytest.mark.slow
@given(
    lines=st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), max_size=5)
    ),
    size=st.integers(2, 9),
    packed=st.booleans(),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_lines_are_the_same_however_many_bytes_are_read(
    lines: list[str], size: int, packed: bool, end: bytes
) -> None:
    data = b"".join(line.encode() + end for line in lines)
    file = Slow(gzip.compress(data) if packed else data, size)
    result = [line for block in read_lines(file) for line in block]
    assert result == [line.removeprefix("\ufeff") if i == 0 else line for i, line in enumerate(lines)]


@given(text=st.text("ab\n", max_size=60), size=st.integers(2, 10))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_first_line_that_is_too_long_is_an_error(
    text: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_lines, "LONGEST_LINE", 10)
    lines: list[str] = []
    caught = ""
    try:
        for block in read_lines(Slow(text.encode(), size)):
            lines += block
    except ValueError as error_:
        caught = str(error_)
    all_lines = text.splitlines(keepends=True)
    too_long = next((i for i, line in enumerate(all_lines) if len(line.rstrip("\n")) > 10), None)
    assert caught == ("" if too_long is None else f"the stream, line {too_long + 1}: longer than 10 bytes")
    assert lines == [line.rstrip("\n") for line in all_lines[:too_long]]


def test_a_line_may_be_as_long_as_that() -> None:
    longest = "x" * _lines.LONGEST_LINE
    assert list(read_lines(stream(longest.encode()))) == [[longest]]
    for end in ("\n", "\nand more"):  # the newline is not part of it
        assert next(read_lines(stream((longest + end).encode()))) == [longest]
    with pytest.raises(ValueError, match="line 1: longer than 1048576 bytes"):
        next(read_lines(stream((longest + "x\n").encode())))


def test_a_byte_order_mark_is_removed_at_the_beginning_only() -> None:
    data = "\ufeffa\n\ufeffb\n".encode()
    assert list(read_lines(Slow(data, 5))) == [["a"], ["\ufeffb"]]


def test_only_newlines_end_lines() -> None:
    assert list(read_lines(stream("a\x0bb\x85c\u2028d\re\n".encode()))) == [["a\x0bb\x85c\u2028d\re"]]


@pytest.mark.parametrize("data", [b"a\tb\rc\td\r", b"a\rb", b"a" * (1 << 20) + b"\rb" * 2])
def test_a_file_that_ends_lines_with_cr_only_is_refused(data: bytes) -> None:
    message = error(ValueError, list, read_lines(stream(data)))
    assert message == "the stream: lines must end with LF or CRLF. Got CR only instead."


def test_lines_that_cannot_be_read_are_kept_apart_on_request() -> None:
    longest = b"x" * (_lines.LONGEST_LINE + 1)
    data = "\ufeff".encode() + b"one\nb\xff\nthree\nd\0\n" + longest * 2 + b"\nsix\n" + longest
    errors: dict[int, str] = {}
    lines = [line for block in read_lines(stream(data), errors) for line in block]
    assert lines == ["one", "", "three", "", "", "six", ""]
    assert errors == {
        2: "the stream, line 2: not UTF-8 (byte 2 is 0xff)" + OTHER,
        4: "the stream, line 4: not text (byte 2 is zero)" + UTF_16,
        5: "the stream, line 5: longer than 1048576 bytes",
        7: "the stream, line 7: longer than 1048576 bytes",
    }


# -------------------------------------------------------------------------------------------------------- gzip


def test_gzip_may_have_several_members_and_trailing_zeros() -> None:
    data = gzip.compress(b"a\tb\nc") + gzip.compress(b"") + gzip.compress(b"\td\n") + bytes(600)
    assert read_pairs(stream(data)) == [("a", "b"), ("c", "d")]


def test_a_cut_off_gzip_file_is_an_error() -> None:
    packed = gzip.compress(b"a\tb\nc\td\n" * 100)
    for length in range(2, len(packed)):
        message = error(ValueError, read_pairs, stream(packed[:length]))
        assert message == "the stream is not a complete gzip file: it is cut off"


def test_a_damaged_gzip_file_is_an_error() -> None:
    packed = gzip.compress(b"a\tb\nc\td\n" * 100)
    for index in range(2, len(packed)):
        damaged = bytearray(packed)
        damaged[index] ^= 0x55
        with contextlib.suppress(ValueError):  # some bytes of the header mean nothing
            assert read_pairs(stream(bytes(damaged))) == [("a", "b"), ("c", "d")] * 100
    message = error(ValueError, read_pairs, stream(packed[:-5] + b"\x55" + packed[-4:]))
    assert message.startswith("the stream is not a complete gzip file: Error -3 ")
    assert "\n" not in message
    assert error(ValueError, read_pairs, stream(packed + b"x" * 20)).startswith(
        "the stream is not a complete gzip file: "
    )


@pytest.mark.slow
def test_a_small_file_that_unpacks_to_a_large_one_takes_little_memory() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    assert (
        len(read_pairs(stream(gzip.compress(b"a\tb\n" * 250_000)))) == 250_000
    )  # less than 1 MiB is always read
    tracemalloc.start()
    try:
        message = error(ValueError, read_pairs, stream(bomb))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert message.startswith("the stream unpacks to too much: ")
    assert message.endswith("more than 200 times as many\n  hint: unpack it with gunzip if you trust it")
    assert peak < 8 << 20


# --------------------------------------------------------------------------------------------- while it is read


@pytest.mark.parametrize("change", ["longer", "shorter", "touched"])
def test_a_file_that_changes_while_it_is_read_is_an_error(change: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one line\n" * 100_000)
    lines = read_lines(path)
    assert next(lines)[0] == "one line"
    if change == "longer":
        with path.open("ab") as file:
            file.write(b"one more\n")
    elif change == "shorter":
        os.truncate(path, 900)
    else:
        os.utime(path, (1, 1))
    assert error(ValueError, lambda: list(lines)) == f"{path} changed while it was read"


def test_a_pipe_has_no_size_to_change() -> None:
    read, write = os.pipe()
    os.write(write, b"a\tb\n")
    os.close(write)
    with open(read, "rb") as file:
        assert read_pairs(file) == [("a", "b")]


# ---------------------------------------------------------------------------------------------------- encodings

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
        ("café\t/kafe/\n".encode("latin-1"), "ascii", "line 1: not ascii"),
    ],
)
def test_what_is_not_in_its_encoding_is_an_error_with_its_line(
    tmp_path: Path, data: bytes, name: str | None, rule: str
) -> None:
    (tmp_path / "pairs.tsv").write_bytes(data)
    with assumed(name), pytest.raises(ValueError, match=f"(?s){rule}"):
        read_pairs(tmp_path / "pairs.tsv")
