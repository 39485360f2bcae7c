"""Pairs: from one file, from two, from streams, from Python."""

from __future__ import annotations

import gzip
import io
import os
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest
from errors import error
from one_test import in_one_test

from regard.seq2seq.alignment.links import read_gold
from regard.seq2seq.corpus.pairs import Skipped, as_pairs, read_pairs, read_two
from regard.seq2seq.sources import Text

TWO = [("the cat", "le chat"), ("a", "b")]
DATA = "\ufeffthe cat\tle chat\r\na\tb".encode()


def stream(data: bytes) -> BinaryIO:
    return io.BytesIO(data)


# ---------------------------------------------------------------------------------------------------- one file


@pytest.mark.parametrize("data", [DATA, gzip.compress(DATA), DATA + b"\n"], ids=["plain", "packed", "ended"])
def test_read_pairs(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(data)
    assert read_pairs(path) == TWO
    assert read_pairs(str(path)) == TWO
    with path.open("rb") as file:
        assert read_pairs(file) == TWO
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream(data)))
    assert read_pairs("-") == TWO


OTHER = "\n  hint: --encoding of the command names another, such as windows-1252"
CSV = " (the name of a CSV file ends in .csv)"
BAD_PAIRS = {
    b"": " holds no sentence pairs: it is empty",
    b"a\tb\n\nc\td\n": ", line 2: empty; expected source TAB target",
    b"a\tb\nc\n": ", line 2: expected source TAB target, found 1 column",
    b"a\tb\tc\n": ", line 1: expected source TAB target, found 3 columns; choose two with --columns",
    b"a\tb\n \tc\n": ", line 2: the source is empty",
    b"a\tb\nc\t\n": ", line 2: the target is empty",
    b"a,b\n": ", line 1: expected source TAB target, found 1 column; a comma is not a TAB" + CSV,
    b"a;b c\n": ", line 1: expected source TAB target, found 1 column; a semicolon is not a TAB" + CSV,
    b"a\tb,\tc\n": ", line 1: expected source TAB target, found 3 columns; choose two with --columns",
}


@in_one_test("packed", [False, True])
@pytest.mark.parametrize("data", BAD_PAIRS, ids=lambda data: repr(data[:12]) + str(len(data)))
def test_bad_pairs_are_reported_by_line(data: bytes, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert error(ValueError, read_pairs, path) == f"{path}{BAD_PAIRS[data]}"


def test_empty_pairs_can_be_left_out_and_counted() -> None:
    skipped: list[Skipped] = []
    data = b"a\tb\n\nc\t \n\t\nd\te\n \tf\n"
    assert read_pairs(stream(data), skipped=skipped.append) == [("a", "b"), ("d", "e")]
    assert [pair.line for pair in skipped] == [2, 3, 4, 6]
    assert list(map(str, skipped)) == [
        "the stream, line 2: empty; expected source TAB target",
        "the stream, line 3: the target is empty",
        "the stream, line 4: empty; expected source TAB target",
        "the stream, line 6: the source is empty",
    ]
    message = error(ValueError, read_pairs, stream(b"a\n"), skipped=skipped.append)
    assert message == "the stream, line 1: expected source TAB target, found 1 column"
    message = error(ValueError, read_pairs, stream(b"\n\n"), skipped=skipped.append)
    assert message == "the stream holds no sentence pairs: all lines were left out, 2 of them"


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream(b"a")))
    assert error(ValueError, read_pairs, "-").startswith("standard input, line 1: ")
    path = tmp_path / "a file"
    path.write_bytes(b"a")
    with path.open("rb") as file:
        assert error(ValueError, read_pairs, file).startswith(f"{path}, line 1: ")
    with pytest.raises(FileNotFoundError):
        read_pairs(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read_pairs(tmp_path)
    message = "the stream must be a path or a binary file. Got a text file instead."
    assert error(TypeError, read_pairs, io.StringIO("a\tb")) == message
    message = "the stream must be a path or a binary file. Got bytes instead."
    assert error(TypeError, read_pairs, b"a\tb") == message


def test_a_source_file_is_not_its_own_target(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    for other in (tmp_path / "a", str(tmp_path / "." / "a")):
        with pytest.raises(ValueError, match="must be different files"):
            read_two(tmp_path / "a", other)


def test_two_files_of_pairs_are_not_sources_and_targets(tmp_path: Path) -> None:
    one, two = tmp_path / "one.tsv", tmp_path / "two.tsv"
    one.write_text("a\tb\nc\td\n")
    two.write_text("e\tf\ng\th\n")
    message = error(ValueError, read_two, one, two)
    rule = f"{one} and {two} must be sources and targets. All lines of both are pairs with a TAB instead."
    assert message == f"{rule}\n  hint: join them to one file of pairs: cat {one} {two}"
    two.write_text("e\tf\ng h\n")
    assert read_two(one, two)[1] == ("c\td", "g h")


# --------------------------------------------------------------------------------------------------- two files


def test_read_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "en").write_bytes(b"\xef\xbb\xbfthe cat\r\na\tb\n")
    (tmp_path / "fr").write_bytes(gzip.compress(b"le chat\nc"))
    expected = [("the cat", "le chat"), ("a\tb", "c")]
    assert read_two(tmp_path / "en", str(tmp_path / "fr")) == expected
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream(b"le chat\nc")))
    assert read_two(tmp_path / "en", "-") == expected
    assert error(ValueError, read_two, "-", "-") == "only one of two files can be standard input"


@pytest.mark.parametrize(
    ("source", "target", "counts", "missing"),
    [
        (b"a\nb\nc\n", b"d\n", (3, 1), "line 2 is missing in T"),
        (b"a\n", b"d\ne", (1, 2), "line 2 is missing in S"),
        (b"a\n", b"d\n\n", (1, 2), "line 2 is missing in S"),
        (b"", b"d\n", (0, 1), "line 1 is missing in S"),
        pytest.param(
            *(b"a\n" * 200_000, b"b\n" * 199_999, (200_000, 199_999), "line 200000 is missing in T"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_files_of_different_lengths(
    source: bytes, target: bytes, counts: tuple[int, int], missing: str, tmp_path: Path
) -> None:
    s, t = tmp_path / "s", tmp_path / "t"
    s.write_bytes(source)
    t.write_bytes(target)
    missing = missing.replace("S", str(s)).replace("T", str(t))
    message = f"{s} has {counts[0]} lines, {t} has {counts[1]}: {missing}"
    assert error(ValueError, read_two, s, t) == message


def test_empty_lines_of_two_files(tmp_path: Path) -> None:
    s, t = tmp_path / "s", tmp_path / "t"
    s.write_bytes(b"a\n \nc\nd\n")
    t.write_bytes(b"e\nf\n\ng\n")
    assert error(ValueError, read_two, s, t) == f"{s}, line 2: the source is empty"
    skipped: list[Skipped] = []
    assert read_two(s, t, skipped=skipped.append) == [("a", "e"), ("d", "g")]
    assert list(map(str, skipped)) == [
        f"{s}, line 2: the source is empty",
        f"{t}, line 3: the target is empty",
    ]
    s.write_bytes(b"")
    t.write_bytes(b"")
    assert error(ValueError, read_two, s, t) == f"{s} and {t} hold no sentence pairs: they are empty"
    t.write_bytes(b"a\xff\n")
    s.write_bytes(b"a\n")
    assert error(ValueError, read_two, s, t) == f"{t}, line 1: not UTF-8 (byte 2 is 0xff){OTHER}"


@pytest.mark.slow
def test_reading_takes_little_more_memory_than_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    path.write_bytes("".join(f"sentence number {i}\tphrase numéro {i}\n" for i in range(100_000)).encode())
    tracemalloc.start()
    try:
        pairs = read_pairs(path)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(pairs) == 100_000
    assert peak - held < 8 << 20


# ------------------------------------------------------------------------------------------------- from Python


def tokens(
    pairs: Iterable[Any], skipped: Callable[[Skipped], object] | None = None
) -> list[tuple[tuple[str, ...], ...]]:
    """The words of both sides of pairs."""
    read = as_pairs(pairs, Text("words"), Text("words").tokenizer, skipped=skipped)
    return [tuple(side.content for side in pair) for pair in read]


def test_pairs_from_python() -> None:
    examples = [("read", ["R", "IY1"]), ["a", "b"], (("x",), "y")]
    assert tokens(iter(examples)) == [(("read",), ("R", "IY1")), (("a",), ("b",)), (("x",), ("y",))]
    skipped: list[Skipped] = []
    assert tokens([("a", ""), ("a", "b"), ([], "c")], skipped.append) == [(("a",), ("b",))]
    assert list(map(str, skipped)) == ["pair 1: the target is empty", "pair 3: the source is empty"]


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (["ab"], TypeError, "pair 1 must be a source and a target. Got 'ab' instead."),
        ([("a", "b"), ("a",)], TypeError, "pair 2 must be a source and a target. Got ('a',) instead."),
        ([3], TypeError, "pair 1 must be a source and a target. Got 3 instead."),
        ([("a", 5)], TypeError, "pair 1: a text must be a str or a sequence of tokens. Got int instead."),
        (
            [(["a", 5], "b")],
            TypeError,
            "pair 1: a token must be a str. Got 5 instead.",
        ),
        (
            [("a", b"b")],
            TypeError,
            "pair 1: a token must be a str. Got 98 instead.",
        ),
        ([("a", " ")], ValueError, "pair 1: the target is empty"),
        ([("a", [])], ValueError, "pair 1: the target is empty"),
        ([], ValueError, "there must be sentence pairs. Got none instead."),
    ],
)
def test_invalid_pairs(wrong: Any, kind: type[Exception], message: str) -> None:
    assert error(kind, tokens, wrong) == message


def test_all_pairs_may_be_skipped() -> None:
    message = error(ValueError, tokens, [("", "a")] * 3, lambda _: None)
    assert message == "there must be sentence pairs. Got 3 with an empty side instead."


def test_a_file_that_fails_while_it_is_read_is_named() -> None:
    memory = Path("/proc/self/mem")  # nothing is at its beginning, which is an error
    if not memory.exists():
        pytest.skip("there is no such file")
    with pytest.raises(OSError) as caught:
        read_pairs(memory)
    assert caught.value.filename == str(memory)


@pytest.mark.parametrize(
    "reader", [read_pairs, lambda path: read_two(path, path.with_name("copy")), read_gold]
)
def test_an_error_leaves_no_file_open(reader: Callable[[Path], object], tmp_path: Path) -> None:
    """Not even while the error is kept, and with it the frames of the readers."""
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"1-1\n" * 3 + b"a\tb\tc\n\n")
    path.with_name("copy").write_bytes(path.read_bytes())
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(ValueError, match="line") as raised:
        reader(path)
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
    del raised
