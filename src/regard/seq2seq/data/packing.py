"""Rows of numbers as bytes, as model files hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.seq2seq.data.vocabulary import END

__all__ = ["Row", "packed", "unpacked"]

Row = Sequence[int]


def packed(rows: Sequence[Row], size: int) -> bytes:
    """Return rows as bytes: numbers as wide as the largest needs it, END behind each row.

    Parameters
    ----------
    rows : sequence of sequence of int
        Numbers above END, below `size`.
    size : int
        How many numbers there are: one byte for each up to 256, two up to 65,536, else four.

    Returns
    -------
    bytes
        The least significant byte of a number first.

    Examples
    --------
    >>> packed([(5, 6), ()], 300)
    b'\\x05\\x00\\x06\\x00\\x02\\x00\\x02\\x00'
    """
    return np.array([token for row in rows for token in (*row, END)], _width(size)).tobytes()


def unpacked(name: str, data: bytes, size: int) -> list[tuple[int, ...]]:
    """Return what `packed` made bytes of, or a stranger.

    Parameters
    ----------
    name : str
        What to call them if they are none.
    data : bytes
        Of one row at least.
    size : int
        As for `packed`.

    Returns
    -------
    list of tuple of int
        The rows.

    Raises
    ------
    ValueError
        If these bytes are no rows.

    Examples
    --------
    >>> unpacked("sources", b"\\x05\\x06\\x02\\x02", 10)
    [(5, 6), ()]
    """
    width = _width(size)
    if len(data) % width.itemsize:
        raise ValueError(f"{name} must be numbers of {width.itemsize} bytes")
    tokens = np.frombuffer(data, width)
    if not len(tokens) or tokens[-1] != END:
        raise ValueError(f"{name} are cut off")
    if tokens.min() < END or tokens.max() >= size:
        raise ValueError(f"{name} must be numbers from {END} to {size - 1}")
    shared: dict[
        tuple[int, ...], tuple[int, ...]
    ] = {}  # equal rows, so that a row of a byte doesn't take a hundred
    rows, begin = [], 0
    for end in map(int, np.flatnonzero(tokens == END)):
        row = tuple(tokens[begin:end].tolist())
        rows.append(shared.setdefault(row, row))
        begin = end + 1
    return rows


def _width(size: int) -> np.dtype[Any]:
    """Return what numbers below a size are kept in."""
    return np.dtype("u1" if size <= 1 << 8 else "<u2" if size <= 1 << 16 else "<u4")
