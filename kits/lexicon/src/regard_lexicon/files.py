"""The content of untrusted files: bytes of limited size, and lines of text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

from regard import _check, _files
from regard._characters import one_line
from regard._lines import GZIP, file_lines

__all__ = ["LARGEST", "Path", "load", "size", "text_lines"]

Path = str | os.PathLike[str]
LARGEST = 1 << 28  # bytes: ten times the largest dictionary there is
_OLD = b";;;"  # how CMUdict 0.7b begins


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


def text_lines(path: Path, errors: dict[int, str] | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are not empty, with their numbers from 1.

    With `errors`, that of a line that cannot be read is kept there by its number, without file and line, and an empty
    line takes its place. CMUdict 0.7b, which begins with a comment of its form, is in Latin-1 where it is not in UTF-8.
    """
    start = load(path, len(_OLD))
    if start.startswith(GZIP):
        _check.fail(
            f"{os.fspath(path)} must be text. It is packed with gzip instead.", hint="gunzip unpacks it"
        )
    otherwise = "latin-1" if start == _OLD else ""
    with file_lines(path, errors, otherwise) as lines:
        for number, line in enumerate(lines, start=1):
            if errors and number in errors:
                errors[number] = one_line(errors[number].removeprefix(f"{os.fspath(path)}, line {number}: "))
                yield number, ""
            elif line.strip(" \t"):
                yield number, line
