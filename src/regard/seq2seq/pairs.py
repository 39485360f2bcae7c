"""Reading sentence pairs: one pair a line, source TAB target, UTF-8, packed with gzip or not."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["read_pairs"]

LONGEST_LINE = 1 << 20  # bytes; a file without line ends is no reason to fill the memory


def read_pairs(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Read sentence pairs, or say which line is not one.

    Parameters
    ----------
    path : str or path
        A file of lines ``source TAB target`` in UTF-8; gzip is recognised by its content.

    Returns
    -------
    list of (source, target)
        In the order of the file.

    Raises
    ------
    ValueError
        If a line has no or several TABs, an empty side, or is not UTF-8; if there is no line.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pairs.tsv")
    ...     _ = file.write_text("the cat\\tle chat\\n", encoding="utf-8")
    ...     read_pairs(file)
    [('the cat', 'le chat')]
    """
    name = os.fspath(path)
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            pairs = [_pair(text, f"{name}, line {number}") for number, text in _lines(file, name)]
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{name} is no whole gzip file: {error}") from None
    if not pairs:
        raise ValueError(f"{name} holds no sentence pairs: it is empty")
    return pairs


def _lines(file: BinaryIO | gzip.GzipFile, name: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines without their ends."""
    buffered = io.BufferedReader(file) if isinstance(file, gzip.GzipFile) else file
    number = 0
    while line := buffered.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise ValueError(f"{name}, line {number}: longer than {LONGEST_LINE} bytes")
        yield number, decode_line(line, f"{name}, line {number}", first=number == 1)


def decode_line(line: bytes, place: str, *, first: bool = False) -> str:
    """Return a line as text without its end, or say which byte is not UTF-8.

    Parameters
    ----------
    line : bytes
        One line.
    place : str
        Where it is, for the error.
    first : bool
        Whether a byte order mark may stand before it.

    Returns
    -------
    str
        The text.

    Raises
    ------
    ValueError
        If it is not UTF-8.

    Examples
    --------
    >>> decode_line("chat\\r\\n".encode(), "line 1")
    'chat'
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{place}: not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x})"
        ) from None
    return text.removeprefix("\ufeff" if first else "").removesuffix("\n").removesuffix("\r")


def _pair(text: str, place: str) -> tuple[str, str]:
    if not text.strip():
        raise ValueError(f"{place}: empty; expected source TAB target")
    cells = text.split("\t")
    if len(cells) != 2:
        raise ValueError(
            f"{place}: expected source TAB target, found {len(cells)} column{'s' * (len(cells) > 1)}"
        )
    for side, cell in zip(("source", "target"), cells, strict=True):
        if not cell.strip():
            raise ValueError(f"{place}: the {side} is empty")
    return cells[0], cells[1]
