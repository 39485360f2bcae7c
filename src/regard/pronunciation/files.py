"""The content of untrusted files: bytes of limited size, and lines of text."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from typing import BinaryIO

from regard import _check, _files
from regard._encoding import utf_8

__all__ = ["LARGEST", "LONGEST_LINE", "TOO_LONG", "Path", "decoded", "load", "size", "text_lines"]

Path = str | os.PathLike[str]
LARGEST = 1 << 28  # bytes: ten times the largest dictionary there is
LONGEST_LINE = 1 << 20  # characters: an entry has a tenth of that at most
TOO_LONG = f"the line has more than {LONGEST_LINE:,} characters, which are not read"


def size(path: Path) -> int:
    """Return the size of a file in bytes; an error if it is larger than any dictionary."""
    with _files.reading(path) as file:
        return _checked_size(file, path)


def _checked_size(file: BinaryIO, path: Path) -> int:
    found = os.fstat(file.fileno()).st_size
    if found > LARGEST:
        _check.fail(
            f"{os.fspath(path)} has {found:,} bytes: a file larger than {LARGEST:,} bytes is not read"
        )
    return found


def load(path: Path, first: int = LARGEST) -> bytes:
    """Return the bytes of a file, or the first of them; an error if it is larger than any dictionary."""
    with _files.reading(path) as file:
        return file.read(min(first, _checked_size(file, path)))


def decoded(data: bytes) -> list[str | None]:
    """Return the lines of a text without their ends; None for a line that is not UTF-8.

    Of a line that is too long one character more than `LONGEST_LINE` is kept, by which its reader knows.

    Only a line feed, with or without a carriage return, ends a line. CMUdict 0.7b, which begins with a comment of its
    own form, is in Latin-1 where it is not in UTF-8.
    """
    data = b"".join(utf_8([data], "the text")).removeprefix(codecs.BOM_UTF8).removesuffix(b"\n")
    lines: list[str | None]
    try:
        lines = [*data.decode().split("\n")]
    except UnicodeDecodeError:
        old = "latin-1" if data.startswith(b";;;") else None
        lines = [_decoded_line(line, old) for line in data.split(b"\n")]
    return [line and line[: LONGEST_LINE + 2].removesuffix("\r")[: LONGEST_LINE + 1] for line in lines]


def _decoded_line(line: bytes, otherwise: str | None) -> str | None:
    """Return a line in UTF-8, or else in another encoding, or else None."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode(otherwise) if otherwise else None


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not empty, with their numbers from 1."""
    for number, line in enumerate(decoded(load(path)), start=1):
        if line is None:
            _check.fail(
                f"{os.fspath(path)}, line {number}: the text is not UTF-8", hint=_check.OTHER_ENCODING
            )
        if len(line) > LONGEST_LINE:
            _check.fail(f"{os.fspath(path)}, line {number}: {TOO_LONG}")
        if line.strip():
            yield number, line
