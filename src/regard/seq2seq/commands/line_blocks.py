"""Reading lines as they arrive: in blocks from a file, one by one from a pipe or a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TypeVar

from regard.seq2seq.data.parallel_text import Readable, display_name, read_lines

__all__ = ["read_blocks", "windows"]

T = TypeVar("T")

WINDOW = 2000  # lines that are sorted by length together


def read_blocks(path: Readable, parse: Callable[[str], T]) -> Iterator[list[T]]:
    """Parse the lines that can be read without waiting, at most 2,000 at a time.

    Parameters
    ----------
    path : str, path or binary file
        UTF-8 text, compressed with gzip or not; "-" is standard input.
    parse : callable
        Converts a line, or raises a ValueError.

    Yields
    ------
    list
        The parsed lines, in order. An error comes after all lines before it.

    Raises
    ------
    ValueError
        With the line's number.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import io
    >>> list(read_blocks(io.BytesIO(b"one\\n\\nthree"), str.upper))
    [['ONE', ''], ['THREE']]
    """
    number = 0
    with closing(read_lines(path)) as batches:
        for lines in windows(batches):
            block: list[T] = []
            for line in lines:
                number += 1
                try:
                    block.append(parse(line))
                except ValueError as error:
                    if block:
                        yield block
                    raise ValueError(f"{display_name(path)}, line {number}: {error}") from None
            yield block


def windows(blocks: Iterator[list[T]], most: int | None = None) -> Iterator[list[T]]:
    """Split blocks into parts of limited length.

    Parameters
    ----------
    blocks : iterator of list
        Blocks of any length.
    most : int, optional
        The largest number of items in a part; by default 2,000.

    Yields
    ------
    list
        At most `most` items.

    Examples
    --------
    >>> [len(window) for window in windows(iter([[0] * 2001, [0]]))]
    [2000, 1, 1]
    """
    size = WINDOW if most is None else most
    for block in blocks:
        for start in range(0, len(block), size):
            yield block[start : start + size]
