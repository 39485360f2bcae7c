"""The n-grams of sequences, found in their suffixes: a suffix array whose order is that of the first six tokens.

All sequences are one text, each from START to END. The places of the text are sorted by the tokens from there on
(Manber and Myers 1993, "Suffix arrays: a new method for on-line string searches"), so the places where an n-gram
begins are neighbours, which a binary search finds. An n-gram that a sequence has twice counts once: each place knows
how many tokens from there on have been in its sequence before.

Letters: P sequences, N tokens of the text, Q n-grams that are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._once import computed_once
from regard.kernels import nearest
from regard.seq2seq.sources.text.vocabulary import END, START

__all__ = ["LONGEST", "Suffixes", "joined"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

LONGEST = 6  # tokens of an n-gram
_BITS = 3  # of the number of repeated tokens, from 0 to LONGEST, below the place in an entry
_REPEATED = (1 << _BITS) - 1


def joined(tokens: Array) -> Array:
    """Return the text of sequences.

    `tokens`: all sequences one after another, END after each. Returns integer array (N,): the same with START before
    each.
    """
    first = np.append(0, np.flatnonzero(tokens == END)[:-1] + 1)
    return np.insert(tokens, first, START)


class Suffixes:
    """The sorted places of a text.

    `text` (N,): from `joined`; `entries` (N,): the places in the order of the LONGEST tokens from there on, each
    times 8, plus how many of these tokens begin an n-gram that its sequence has had before.
    """

    def __init__(self, text: Array, entries: Array) -> None:
        self.text, self.entries = text, entries
        self.starts = np.flatnonzero(text == START)
        self.ends = np.append(self.starts[1:], len(text))

    @classmethod
    def of(cls, text: Array) -> Self:
        """Sort the places of a text.

        `text` (N,): from `joined`.
        """
        order = _order(text)
        return cls(text, ((order << _BITS) + _repeated(text)[order]).astype(np.uint32))

    @classmethod
    def restore(cls, text: Array, data: bytes) -> Self:
        """Return the sorted places in bytes, which may be untrusted; raise if they are invalid.

        `text` (N,): from `joined`; `data`: `entries`, four bytes each, the least significant first.
        """
        entries = _check.from_bytes("order", data, "<u4", (len(text),))
        _check.within("order", entries >> _BITS, most=len(text) - 1)
        return cls(text, entries)

    @computed_once
    def owners(self) -> NDArray[np.int32]:
        """The sequence (N,) of each entry."""
        of_place = np.repeat(np.arange(len(self.starts), dtype=np.int32), self.ends - self.starts)
        owners: NDArray[np.int32] = of_place[self.entries >> _BITS]
        return owners

    @computed_once
    def _again(self) -> list[Ids]:
        """The entries, by length, where an n-gram begins that its sequence has had before."""
        repeated = (self.entries & _REPEATED).astype(np.uint8)
        return [np.flatnonzero(repeated >= length) for length in range(1, LONGEST + 1)]

    def find(self, tokens: Array) -> Iterator[tuple[Ids, Ids]]:
        """Find the n-grams of another text.

        `tokens` (M,): the other text. Yields `first`, `stop` (M,): for 1 token, 2 and so on: the range of the entries
        where the n-gram from each place on begins here.
        """
        padded = np.append(tokens, np.zeros(LONGEST, tokens.dtype)).astype(np.int64)
        if (found := nearest.find(self.text, self.entries, padded, _order(tokens), LONGEST)) is not None:
            yield from zip(*found, strict=True)
            return
        first, stop = np.zeros(len(tokens), np.int64), np.full(len(tokens), len(self.entries))
        for offset in range(LONGEST):
            wanted = padded[offset : offset + len(tokens)]
            first = self._bisect(first, stop, offset, wanted)
            stop = self._bisect(first, stop, offset, wanted + 1)
            yield first, stop

    def _bisect(self, low: Ids, high: Ids, offset: int, wanted: Ids) -> Ids:
        """Return the first entries from `low` to `high` whose token at an offset is at least the wanted one."""
        result, open_ = low.copy(), np.flatnonzero(low < high)
        low, high, wanted = low[open_], high[open_], wanted[open_]
        while len(open_):
            middle = (low + high) >> 1
            place = (self.entries[middle] >> _BITS).astype(np.int64) + offset
            inside = place < len(self.text)
            below = np.where(inside, self.text[np.where(inside, place, 0)], 0) < wanted
            low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
            result[open_] = low
            left = low < high
            open_, low, high, wanted = open_[left], low[left], high[left], wanted[left]
        return result

    def sequences(self, first: Ids, stop: Ids, length: int) -> Ids:
        """Return how many sequences have each n-gram.

        `first`, `stop` (Q,): the ranges of n-grams, from `find`; `length`: their number of tokens. Returns integer
        array (Q,): at most P.
        """
        again = self._again[length - 1]
        return stop - first - (np.searchsorted(again, stop) - np.searchsorted(again, first))

    def entries_of(self, first: Ids, stop: Ids, lengths: Ids) -> tuple[Ids, NDArray[np.int32]]:
        """Return the sequences that have n-grams.

        `first`, `stop`, `lengths` (Q,): the ranges of n-grams, from `find`, and their numbers of tokens.
        """
        numbers = np.repeat(np.arange(len(first)), stop - first)
        ends = np.cumsum(stop - first)
        entries = np.arange(len(numbers)) + np.repeat(stop - ends, stop - first)
        once = (self.entries[entries] & _REPEATED) < lengths[numbers]
        return numbers[once], self.owners[entries[once]]

    def by_place(self) -> Iterator[tuple[Ids, NDArray[np.bool_]]]:
        """Yield, for 1 token, 2 and so on, how many sequences (N,) have the n-gram from each place on.

        With it, whether it is the first of its kind in its sequence.
        """
        places = (self.entries >> _BITS).astype(np.int64)
        repeated = np.empty(len(places), np.uint8)
        repeated[places] = self.entries & _REPEATED
        padded = np.append(self.text, np.zeros(LONGEST, self.text.dtype))
        differs = np.zeros(max(len(places) - 1, 0), bool)
        for length in range(1, LONGEST + 1):
            tokens = padded[places + (length - 1)]
            differs |= tokens[1:] != tokens[:-1]
            group = np.append(0, np.cumsum(differs))
            first = repeated < length
            counts = np.bincount(group[first[places]], minlength=len(group))
            of_place = np.empty(len(places), np.int64)
            of_place[places] = counts[group]
            yield of_place, first


def _order(text: Array) -> Ids:
    """Return the places (N,) of a text, sorted by the LONGEST tokens from there on."""
    keys = _keys(text)
    return np.argsort(keys[0], kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])


def _keys(text: Array) -> list[Array]:
    """Return the LONGEST tokens from each place on, as few numbers as they fit in; 0 after the text."""
    bits = max(int(text.max(initial=0)).bit_length(), 1)
    together = min(63 // bits, LONGEST)
    padded = np.append(text, np.zeros(LONGEST, text.dtype)).astype(np.int64)
    keys = []
    for begin in range(0, LONGEST, together):
        key = np.zeros(len(text), np.int64)
        for offset in range(begin, min(begin + together, LONGEST)):
            key = (key << bits) + padded[offset : offset + len(text)]
        keys.append(key)
    return keys


def _repeated(text: Array) -> Array:
    """Return how many tokens (N,) from each place on its sequence has had from an earlier place on."""
    repeated = np.zeros(len(text), np.int64)
    starts = np.flatnonzero(text == START)
    place_in_row = np.arange(len(text)) - np.repeat(starts, np.diff(starts, append=len(text)))
    for distance in range(1, int(place_in_row.max(initial=0))):
        for length, places in _equal(text, place_in_row, distance):
            repeated[places] = np.maximum(repeated[places], length)
    return repeated


def _equal(text: Array, place_in_row: Ids, distance: int) -> Iterator[tuple[int, Ids]]:
    """Yield the places whose tokens equal those some way before in the same sequence, for each length of equal ones."""
    same = (text[distance:] == text[:-distance]) & (place_in_row[distance:] >= distance)
    places = np.flatnonzero(same) + distance
    for length in range(1, LONGEST + 1):
        if not len(places):
            return
        yield length, places
        ends = places + length
        inside = ends < len(text)
        places, ends = places[inside], ends[inside]
        places = places[(text[ends] == text[ends - distance]) & (place_in_row[ends] > 0)]
