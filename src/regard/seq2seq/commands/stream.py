"""Lines as they come, for verbs that never end: many at a time from a file, one by one from someone who types."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from regard.seq2seq.pairs import LONGEST_LINE, decode_line, standard_input

__all__ = ["opened", "read_blocks", "windows"]

T = TypeVar("T")

WINDOW = 2000  # lines that are sorted by length together


@contextmanager
def opened(path: Path | None) -> Iterator[tuple[BinaryIO, str]]:
    """Open a file of lines, and say what it is called in errors.

    Parameters
    ----------
    path : Path or None
        A file, packed with gzip or not; None or "-" is standard input.

    Yields
    ------
    (binary file, str)
        The file and its name.

    Raises
    ------
    OSError
        If it can't be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "text.gz")
    ...     _ = path.write_bytes(gzip.compress(b"one\\n"))
    ...     with opened(path) as (file, name):
    ...         file.read1(100)
    b'one\\n'
    """
    if path is None or str(path) == "-":
        yield _unpacked(standard_input()), "standard input"
        return
    with path.open("rb") as raw:
        yield _unpacked(raw), str(path)


def _unpacked(file: BinaryIO) -> BinaryIO:
    """Return what is in a file, which may be packed; its first bytes are waited for."""
    packed = isinstance(file, io.BufferedReader) and file.peek(2)[:2] == b"\x1f\x8b"
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if packed else file


def read_blocks(file: BinaryIO, name: str, parse: Callable[[str], T]) -> Iterator[list[T]]:
    """Yield what the lines say that are there, without waiting for more.

    Parameters
    ----------
    file : binary file
        UTF-8 text.
    name : str
        What it is called, for errors.
    parse : callable
        Makes of a line what is wanted, or raises a ValueError.

    Yields
    ------
    list
        What was made, in order. What can't be read is an error after all that is before it.

    Raises
    ------
    ValueError
        With the line's number.

    Examples
    --------
    >>> import io
    >>> list(read_blocks(io.BytesIO(b"one\\n\\nthree"), "it", str.upper))
    [['ONE', ''], ['THREE']]
    """
    number = 0
    for lines in _lines(file, name):
        block: list[T] = []
        for line in lines:
            number += 1
            try:
                block.append(_parsed(line, f"{name}, line {number}", parse, first=number == 1))
            except ValueError:
                if block:
                    yield block
                raise
        yield block


def _parsed(line: bytes, place: str, parse: Callable[[str], T], *, first: bool) -> T:
    if len(line) > LONGEST_LINE:
        raise ValueError(f"{place}: longer than {LONGEST_LINE} bytes")
    text = decode_line(line, place, first=first)
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _lines(file: BinaryIO, name: str) -> Iterator[list[bytes]]:
    """Yield whole lines as they come; one that never ends is given up when it is too long."""
    begun = b""
    while data := _read(file, name):
        *lines, begun = (begun + data).split(b"\n")
        if lines:
            yield lines
        if len(begun) > LONGEST_LINE:
            break
    if begun:
        yield [begun]


def _read(file: BinaryIO, name: str) -> bytes:
    try:
        return cast(bytes, file.read1(1 << 16))  # type: ignore[attr-defined]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{name} is no whole gzip file: {error}") from None


def windows(blocks: Iterator[list[T]]) -> Iterator[list[T]]:
    """Cut what comes into parts that are not too long.

    Parameters
    ----------
    blocks : iterator of list
        What comes.

    Yields
    ------
    list
        At most 2,000 of them.

    Examples
    --------
    >>> [len(window) for window in windows(iter([[0] * 2001, [0]]))]
    [2000, 1, 1]
    """
    for block in blocks:
        for start in range(0, len(block), WINDOW):
            yield block[start : start + WINDOW]
