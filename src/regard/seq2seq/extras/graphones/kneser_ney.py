"""How likely rows of tokens are, by how often runs of them have been seen: interpolated, modified Kneser-Ney.

With c(h w) of how often the token w came after the run h, n_k of how many runs came k times, h' for h without its first
token, and D_k = k - (k + 1) n_{k+1} / n_k * n_1 / (n_1 + 2 n_2) for k = 1, 2 and all counts from 3 on::

    p(w | h) = (c(h w) - D_{c(h w)}) / c(h .) + (sum over w of D_{c(h w)}) / c(h .) * p(w | h')

A run shorter than the longest is counted once for each token that it came after: what comes in one company only is
likely in no other. One that begins a row comes after nothing, and is counted as often as it came. Below the empty run
all tokens are as likely (Chen and Goodman 1999, "An empirical study of smoothing techniques for language modeling",
section 3, on their modification of Kneser and Ney's).

Letters: R runs of one length, H runs one shorter, N tokens of all rows with START and END.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.data.packing import Row
from regard.seq2seq.data.vocabulary import END, START

__all__ = ["Runs"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

_NEVER_PREDICTED = 2  # PAD and START
_FEW = 0.5  # what is taken off where too few runs were seen to say


class Runs:
    """Rows of tokens that were seen, and how likely others are.

    Parameters
    ----------
    rows : sequence of sequence of int
        Numbers of tokens above END.
    size : int
        How many numbers there are.
    order : int
        Tokens of the longest runs.

    Examples
    --------
    >>> runs = Runs([[4, 5], [4, 5], [6, 5]], size=7, order=2)
    >>> np.exp(runs.log_probabilities([[4, 5], [5, 4]])).round(4).tolist()
    [0.1274, 0.0009]
    """

    def __init__(self, rows: Sequence[Row], size: int, order: int) -> None:
        self.size = size
        self.levels = list(_levels(_laid_out(rows), size, order))

    def log_probabilities(self, rows: Sequence[Row]) -> Array:
        """Return the natural logarithms of the rows' probabilities, their ends with them.

        Parameters
        ----------
        rows : sequence of sequence of int
            As those that were seen.

        Returns
        -------
        array (len(rows),)
            0 or below.
        """
        laid = _laid_out(rows)
        likely = np.full(len(laid.tokens), 1 / (self.size - _NEVER_PREDICTED))
        before = np.zeros(len(laid.tokens), np.int64)  # the empty run, which is always known
        for length, level in enumerate(self.levels, 1):
            known = (before >= 0) & (laid.places >= length - 1)
            found = level.find(before * self.size + laid.tokens, known)
            own = np.where(found >= 0, level.own[found], 0) + level.left[before] * likely
            likely = np.where(known, own, likely)
            before = _one_later(found)
        likely[laid.places == 0] = 1  # START is given
        return np.add.reduceat(np.log(likely), laid.starts) if len(rows) else np.zeros(0)


class _Laid(NamedTuple):
    """Rows behind each other, each from START to END."""

    tokens: Ids  # (N,)
    places: Ids  # (N,): 0 for START
    starts: Ids  # where each row begins


class _Level(NamedTuple):
    """Runs of one length."""

    keys: Ids  # (R,), sorted: the number of the run before, times how many numbers there are, plus the last token
    own: Array  # (R,): what its count adds to the last token's probability
    left: Array  # (H,): what the runs before leave for the shorter ones

    def find(self, keys: Ids, wanted: NDArray[np.bool_]) -> Ids:
        """Return the numbers of runs by their keys, -1 of those that are not there or not wanted."""
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(wanted & (self.keys[places] == keys), places, -1)


class _Seen(NamedTuple):
    """Runs of one length as they were seen."""

    keys: Ids  # (R,), as above
    times: Ids  # (R,)
    where: Ids  # (R,): where the first one ends
    ending: Ids  # (N,): which run ends at each token; -1 if it would begin before START


def _levels(laid: _Laid, size: int, order: int) -> Iterator[_Level]:
    """Yield the runs of 1 token, of 2 and so on, as long as there are any, to `order`."""
    seen, count = _seen(laid, np.zeros(len(laid.tokens), np.int64), size, 1), 1
    for length in range(1, order + 1):
        times = seen.times
        if length < order:
            longer = _seen(laid, _one_later(seen.ending), size, length + 1)
            companies = np.bincount(seen.ending[longer.where], minlength=len(seen.keys))
            times = np.where(laid.places[seen.where] == length - 1, times, companies)
        if length == 1:
            times = np.where(seen.keys == START, 0, times)
        yield _level(seen.keys, times, seen.keys // size, count)
        if length == order or not len(longer.keys):
            return
        seen, count = longer, len(seen.keys)


def _seen(laid: _Laid, before: Ids, size: int, length: int) -> _Seen:
    whole = np.flatnonzero(laid.places >= length - 1)
    keys, first, numbers, times = np.unique(
        before[whole] * size + laid.tokens[whole], return_index=True, return_inverse=True, return_counts=True
    )
    ending = np.full(len(laid.tokens), -1, np.int64)
    ending[whole] = numbers
    return _Seen(keys, times, whole[first], ending)


def _level(keys: Ids, times: Ids, before: Ids, count: int) -> _Level:
    """Return the shares of runs that came so many times, each after one of `count` shorter runs."""
    off = _discounts(times)[np.minimum(times, 3)]
    total = np.bincount(before, times, count)
    some = np.maximum(total, 1)
    left = np.where(total > 0, np.bincount(before, off, count) / some, 1)
    return _Level(keys, (times - off) / some[before], left)


def _discounts(times: Ids) -> Array:
    """Return what is taken off counts of 0, 1, 2, and 3 or more."""
    once, twice, *_ = came = [int(np.count_nonzero(times == k)) for k in range(1, 5)]
    off = [0.0]
    for k in range(1, 4):
        known = came[k - 1] and once
        exact = k - (k + 1) * came[k] / came[k - 1] * once / (once + 2 * twice) if known else 0.0
        off.append(exact if 0 < exact < k else _FEW)
    return np.array(off)


def _laid_out(rows: Sequence[Row]) -> _Laid:
    lengths = np.array([len(row) + 2 for row in rows], np.int64)
    tokens = np.fromiter(chain.from_iterable((START, *row, END) for row in rows), np.int64, lengths.sum())
    starts = np.cumsum(lengths) - lengths
    return _Laid(tokens, np.arange(len(tokens)) - np.repeat(starts, lengths), starts)


def _one_later(ending: Ids) -> Ids:
    """Return which run ends before each token."""
    return np.concatenate([np.full(min(len(ending), 1), -1, np.int64), ending[:-1]])
