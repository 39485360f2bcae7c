"""An n-gram model: interpolated, modified Kneser-Ney smoothing.

With c(h w) how often the token w followed the history h, n_k how many n-grams occurred k times, h' for h without its
first token, and the discounts D_k = k - (k + 1) n_{k+1} / n_k * n_1 / (n_1 + 2 n_2) for k = 1, 2 and all counts from 3
on::

    p(w | h) = (c(h w) - D_{c(h w)}) / c(h .) + (sum over w of D_{c(h w)}) / c(h .) * p(w | h')

An n-gram shorter than the longest is counted once for each token that precedes it: a token of one context only is
improbable in others. One that starts a sequence has no token before it, and is counted as often as it occurred. Below
the empty history all tokens are equally probable (Chen and Goodman 1999, "An empirical study of smoothing techniques
for language modeling", section 3, on their modification of Kneser and Ney's).

Letters: R n-grams of one length, H n-grams one shorter, N tokens of all sequences with START and END.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.corpus.packing import Row, numbers, width
from regard.seq2seq.sources.text.vocabulary import END, START

__all__ = ["KneserNey"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

_NEVER_PREDICTED = 2  # PAD and START
_DEFAULT_DISCOUNT = 0.5  # where there are too few n-grams to estimate it


class KneserNey:
    """The probabilities of sequences.

    `size`: the size of the vocabulary; `levels`: n-grams of 1 token, of 2 and so on.
    """

    def __init__(self, size: int, levels: list[Level]) -> None:
        self.size, self.levels = size, levels

    @classmethod
    def learn(
        cls,
        sequences: Sequence[Row],
        size: int,
        order: int,
        report: Callable[[], object] = lambda: None,
    ) -> Self:
        """Estimate them from sequences.

        `sequences`: token ids above END, to count; `size`: the size of the vocabulary; `order`: the length of the
        longest n-grams; `report`: called after each length.
        """
        levels = []
        for level in _levels(_flattened(sequences), size, order):
            levels.append(level)
            report()
        return cls(size, levels)

    def data(self) -> dict[str, bytes]:
        """Return all n-grams, the shorter ones first, each after the history that it continues.

        "last" has the last token of each, "children" the number of n-grams that continue each history, the empty one
        first; "own" and "backoff" are the places of their shares among the distinct numbers "values", as float64.
        """
        shares, backoff = (np.concatenate([level[i][:] for level in self.levels]) for i in (1, 2))
        values, places = np.unique(np.concatenate([shares, backoff]), return_inverse=True)
        last = np.concatenate([level.keys % self.size for level in self.levels])
        children = [
            np.bincount(level.keys // self.size, minlength=len(level.backoff[:])) for level in self.levels
        ]
        narrow = width(len(values))
        return {
            "last": last.astype(width(self.size)).tobytes(),
            "children": np.concatenate(children).astype(width(self.size)).tobytes(),
            "own": places[: len(shares)].astype(narrow).tobytes(),
            "backoff": places[len(shares) :].astype(narrow).tobytes(),
            "values": values.astype("<f8").tobytes(),
        }

    @classmethod
    def restore(cls, data: Mapping[str, bytes], size: int) -> Self:
        """Return the n-grams of `data`, which may be untrusted; raise if they are invalid.

        `data`: from `data`; `size`: as for `learn`.
        """
        return cls(size, list(_restored(data, size)))

    def log_probabilities(self, sequences: Sequence[Row]) -> Array:
        """Return the natural logarithms of the probabilities of sequences, their ends included.

        `sequences`: as those that were counted. Returns array (len(sequences),): 0 or below.
        """
        text = _flattened(sequences)
        probabilities = self._probabilities(text)
        probabilities[text.positions == 0] = 1  # START is given
        return np.add.reduceat(np.log(probabilities), text.starts) if len(sequences) else np.zeros(0)

    def _probabilities(self, text: _Text) -> Array:
        """Return the probability (N,) of each token, given those before it."""
        probabilities = np.full(len(text.tokens), 1 / (self.size - _NEVER_PREDICTED))
        history = np.zeros(len(text.tokens), np.int64)  # the empty one, which is always known
        for length, level in enumerate(self.levels, 1):
            known = (history >= 0) & (text.positions >= length - 1)
            found = level.find(history * self.size + text.tokens, known)
            interpolated = np.where(found >= 0, level.own[found], 0) + level.backoff[history] * probabilities
            probabilities = np.where(known, interpolated, probabilities)
            history = _shifted(found)
        return probabilities


class _Text(NamedTuple):
    """Sequences one after another, each from START to END."""

    tokens: Ids  # (N,)
    positions: Ids  # (N,): 0 for START
    starts: Ids  # where each sequence starts


@dataclass(frozen=True, eq=False)
class Shares:
    """Numbers by their places among the distinct ones."""

    places: Array
    values: Array

    def __getitem__(self, index: Any) -> Any:
        return self.values[self.places[index]]


class Level(NamedTuple):
    """N-grams of one length."""

    keys: (
        Ids  # (R,), sorted: the number of the history, times the size of the vocabulary, plus the last token
    )
    own: Array | Shares  # (R,): the discounted share of each n-gram
    backoff: Array | Shares  # (H,): the share that histories leave to the shorter ones

    def find(self, keys: Ids, wanted: NDArray[np.bool_]) -> Ids:
        """Return the numbers of n-grams by their keys, -1 of those that are unknown or not wanted."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(wanted & (self.keys[places] == keys), places, -1)


class _Counts(NamedTuple):
    """Counts of n-grams of one length."""

    keys: Ids  # (R,), as above
    times: Ids  # (R,)
    last: Ids  # (R,): the position of the last token of the first occurrence
    ending: Ids  # (N,): the n-gram that ends at each token; -1 if it would start before START


def _restored(data: Mapping[str, bytes], size: int) -> Iterator[Level]:
    """Yield the n-grams of each length."""
    last, children = (numbers(name, data[name], size) for name in ("last", "children"))
    values = _check.from_bytes("values", data["values"], "<f8")
    _check.within("values", values, 0, 1)
    shares, backoff = (numbers(name, data[name], len(values)) for name in ("own", "backoff"))
    if len(shares) != len(last) or len(backoff) != len(children) or not len(children):
        _check.fail("n-grams and their shares must be as many")
    for name, places, most in (
        ("own", shares, len(values)),
        ("backoff", backoff, len(values)),
        ("last", last, size),
    ):
        _check.within(name, places, most=most - 1)
    histories, begin, first = 1, 0, 0  # of a level: its histories, the first of them, and the first n-gram
    while begin < len(children):
        of_history = children[begin : begin + histories].astype(np.int64)
        count = int(of_history.sum())
        ends = slice(first, first + count), slice(begin, begin + histories)
        if not count or ends[0].stop > len(last) or len(of_history) < histories:
            break
        keys = np.repeat(np.arange(histories) * size, of_history) + last[ends[0]]
        if not (np.diff(keys) > 0).all():
            _check.fail("n-grams must be sorted")
        yield Level(keys, Shares(shares[ends[0]], values), Shares(backoff[ends[1]], values))
        histories, begin, first = count, begin + histories, first + count
    if begin < len(children) or first < len(last):
        _check.fail("n-grams are cut off")


def _levels(text: _Text, size: int, order: int) -> Iterator[Level]:
    """Yield the n-grams of 1 token, of 2 and so on, as long as there are any, to `order`."""
    counts, histories = _counted(text, np.zeros(len(text.tokens), np.int64), size, 1), 1
    for length in range(1, order + 1):
        times = counts.times
        if length < order:
            longer = _counted(text, _shifted(counts.ending), size, length + 1)
            contexts = np.bincount(counts.ending[longer.last], minlength=len(counts.keys))
            times = np.where(text.positions[counts.last] == length - 1, times, contexts)
        if length == 1:
            times = np.where(counts.keys == START, 0, times)
        yield _level(counts.keys, times, counts.keys // size, histories)
        if length == order or not len(longer.keys):
            return
        counts, histories = longer, len(counts.keys)


def _counted(text: _Text, history: Ids, size: int, length: int) -> _Counts:
    complete = np.flatnonzero(text.positions >= length - 1)
    keys, first, numbers, times = np.unique(
        history[complete] * size + text.tokens[complete],
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    ending = np.full(len(text.tokens), -1, np.int64)
    ending[complete] = numbers
    return _Counts(keys, times, complete[first], ending)


def _level(keys: Ids, times: Ids, history: Ids, histories: int) -> Level:
    """Return the discounted shares of n-grams with these counts, each after one of the histories."""
    discounts = _discounts(times)[np.minimum(times, 3)]
    total = np.bincount(history, times, histories)
    positive = np.maximum(total, 1)
    backoff = np.where(total > 0, np.bincount(history, discounts, histories) / positive, 1)
    return Level(keys, (times - discounts) / positive[history], backoff)


def _discounts(times: Ids) -> Array:
    """Return the discounts of counts of 0, 1, 2, and 3 or more."""
    once, twice, *_ = frequencies = [int(np.count_nonzero(times == k)) for k in range(1, 5)]
    discounts = [0.0]
    for k in range(1, 4):
        known = frequencies[k - 1] and once
        exact = (
            k - (k + 1) * frequencies[k] / frequencies[k - 1] * once / (once + 2 * twice) if known else 0.0
        )
        discounts.append(exact if 0 < exact < k else _DEFAULT_DISCOUNT)
    return np.array(discounts)


def _flattened(sequences: Sequence[Row]) -> _Text:
    lengths = np.array([len(row) + 2 for row in sequences], np.int64)
    tokens = np.fromiter(
        chain.from_iterable((START, *row, END) for row in sequences), np.int64, lengths.sum()
    )
    starts = np.cumsum(lengths) - lengths
    return _Text(tokens, np.arange(len(tokens)) - np.repeat(starts, lengths), starts)


def _shifted(ending: Ids) -> Ids:
    """Return the n-gram that ends before each token."""
    return np.concatenate([np.full(min(len(ending), 1), -1, np.int64), ending[:-1]])
