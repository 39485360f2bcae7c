"""Sequences of token ids as bytes, as in model files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from regard.seq2seq.sources.text.vocabulary import END

__all__ = ["Row", "packed", "unpacked"]

Row = Sequence[int]


def packed(rows: Sequence[Row], size: int) -> bytes:
    """Return sequences of ids as bytes, with END after each.

    Parameters
    ----------
    rows : sequence of sequence of int
        Ids above END and below `size`.
    size : int
        The size of the vocabulary: an id has one byte up to 256, two up to 65,536, else four.

    Returns
    -------
    bytes
        The least significant byte of a number first.
    """
    return np.array([token for row in rows for token in (*row, END)], _width(size)).tobytes()


def unpacked(name: str, data: bytes, size: int) -> list[tuple[int, ...]]:
    """Return the sequences in bytes of `packed`, or of an untrusted file.

    Parameters
    ----------
    name : str
        The name of the data in errors.
    data : bytes
        At least one sequence.
    size : int
        As for `packed`.

    Returns
    -------
    list of tuple of int
        The sequences.
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
    """Return the data type for ids below a size."""
    return np.dtype("u1" if size <= 1 << 8 else "<u2" if size <= 1 << 16 else "<u4")
