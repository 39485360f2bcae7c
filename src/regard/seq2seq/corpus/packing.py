"""Sequences of token ids as bytes, as in model files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._once import computed_once
from regard.seq2seq.sources.text.vocabulary import END

__all__ = ["Row", "Rows", "numbers", "packed", "unpacked", "width"]

Row = Sequence[int]


def packed(rows: Sequence[Row], size: int) -> bytes:
    """Return sequences of ids as bytes, with END after each.

    `rows`: ids above END and below `size`; `size`: the size of the vocabulary: an id has one byte up to 256, two up
    to 65,536, else four.
    """
    return np.array([token for row in rows for token in (*row, END)], width(size)).tobytes()


def unpacked(name: str, data: bytes, size: int) -> Rows:
    """Return the sequences in bytes of `packed`, or of an untrusted file.

    `name`: the name of the data in errors; `data`: at least one sequence; `size`: as for `packed`.
    """
    tokens = numbers(name, data, size)
    if not len(tokens) or tokens[-1] != END:
        _check.fail(f"{name} are cut off")
    _check.within(name, tokens, END, size - 1)
    return Rows(tokens)


class Rows(Sequence[tuple[int, ...]]):
    """Sequences of ids in one array, which takes little memory.

    `tokens`: ids above END, with END after each sequence.
    """

    def __init__(self, tokens: NDArray[Any]) -> None:
        self.tokens, self._ends = tokens, np.flatnonzero(tokens == END)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Rows:
        """Return these sequences.

        `rows`: ids above END.
        """
        return cls(np.array([token for row in rows for token in (*row, END)], np.int64))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, number: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, number: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, number: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        end = self._ends[number]
        begin = self._ends[number - 1] + 1 if number % len(self) else 0
        return tuple(self.tokens[begin:end].tolist())

    @computed_once
    def _sorted(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The sequences in the order of their codes, and the codes."""
        codes = _codes(self.tokens, self._ends)
        order = np.argsort(codes, kind="stable")
        return order, codes[order]

    def places(self, rows: Sequence[Row]) -> NDArray[np.int64]:
        """Return the number of each of other sequences here, -1 of those that are not here.

        `rows`: ids above END. Returns integer array: of several equal ones, the first.
        """
        sought = Rows.of(rows)
        order, codes = self._sorted
        wanted = _codes(sought.tokens, sought._ends)
        first, stop = (np.searchsorted(codes, wanted, side) for side in ("left", "right"))
        return np.array(
            [
                next((int(i) for i in order[a:b] if self[i] == tuple(row)), -1)
                for row, a, b in zip(rows, first, stop, strict=True)
            ],
            np.int64,
        )

    def repeats(self) -> bool:
        """Return whether a sequence occurs twice."""
        order, codes = self._sorted
        return any(self[order[i]] == self[order[i + 1]] for i in np.flatnonzero(np.diff(codes) == 0))


def _codes(tokens: NDArray[Any], ends: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for each sequence, hardly ever the same for two; they depend on all tokens and their order."""
    lengths = np.diff(ends, prepend=-1)
    remaining = np.repeat(ends, lengths) - np.arange(len(tokens))
    powers = np.cumprod(np.full(int(lengths.max(initial=1)), 0x9E3779B97F4A7C15, np.uint64))
    mixed = (tokens.astype(np.uint64) + np.uint64(1)) * powers[remaining]
    mixed ^= mixed >> np.uint64(32)
    return np.asarray(np.add.reduceat(mixed, ends - lengths + 1) if len(ends) else mixed, np.uint64)


def numbers(name: str, data: bytes, size: int) -> NDArray[Any]:
    """Return the ids in bytes, which may be of an untrusted file; those from `size` on are found by the caller.

    `name`: the name of the data in errors; `data`: numbers as wide as `size` needs; `size`: as for `packed`. Returns
    array: the numbers, which cannot be changed.
    """
    return _check.from_bytes(name, data, width(size))


def width(size: int) -> str:
    """Return the data type for ids below a size.

    `size`: as for `packed`.
    """
    return "u1" if size <= 1 << 8 else "<u2" if size <= 1 << 16 else "<u4"
