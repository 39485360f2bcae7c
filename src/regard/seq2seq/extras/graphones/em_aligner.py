"""What each source token gives of the target, where a target follows its source from left to right.

Letters are spoken in the order in which they are written: each gives none, one or a few sounds. With k(s) how likely a
source token s gives k target tokens, and q(t | s) how likely each of them is t, a pair has the probability ::

    sum over all ways to cut the target into as many parts as the source has tokens of
        product over source tokens s, with the part t_1 .. t_k, of k(s) q(t_1 | s) ... q(t_k | s)

Both are learned from pairs alone by expectation and maximisation, forwards and backwards over all cuts at once
(Dempster, Laird and Rubin 1977; Ristad and Yianilos 1998, "Learning String-Edit Distance", for single tokens).

Letters: B pairs, m source tokens and n target tokens of the longest of them, S and T numbers of tokens that the sides
know, K = MOST.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.data.batching import source_batch
from regard.seq2seq.data.packing import Row
from regard.seq2seq.data.vocabulary import PAD

__all__ = ["MOST", "Spelling", "follows"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

MOST = 3  # target tokens that one source token gives
_AT_FIRST = (0.1, 0.8, 0.08, 0.02)  # how likely it gives so many
_ROUNDS = 10
_ENOUGH, _FOR_EACH = 5000, 20  # pairs to learn from, at least and for each token that the source knows
_AT_ONCE, _PLACES = 1024, 1 << 19  # pairs, and places in source and target of all of them
_NEVER, _LIKE_OTHERS = (
    1e-9,
    1e-6,
)  # times: what was not seen is unlikely, and a token without any is like the others


class Spelling:
    """How likely source tokens give target tokens.

    Parameters
    ----------
    tokens : float32 array (S, T)
        How likely a token that a source token gives is each of the target's; rows sum to 1.
    counts : float32 array (S, K + 1)
        How likely it gives so many; rows sum to 1.

    Examples
    --------
    >>> pairs = [((5, 6), (7, 8, 8)), ((5,), (7,)), ((6,), (8, 8))]
    >>> Spelling.learn(pairs, (7, 9)).given([((6, 5), (8, 8, 7))])
    [(2, 1)]
    """

    def __init__(self, tokens: Array, counts: Array) -> None:
        self.tokens, self.counts = tokens, counts
        self._logs = np.log(tokens), np.log(counts)
        self._logs[1][PAD] = [0, *[-np.inf] * MOST]  # what fills a short source up gives nothing

    @classmethod
    def learn(cls, pairs: Sequence[tuple[Row, Row]], sizes: tuple[int, int]) -> Self:
        """Learn from pairs, or from some of them if there are many.

        Parameters
        ----------
        pairs : sequence of (source, target)
            Numbers of tokens; targets `follows` them.
        sizes : (int, int)
            S and T.

        Returns
        -------
        Spelling
            Of these pairs.
        """
        enough = max(_ENOUGH, _FOR_EACH * sizes[0])
        sides = list(_side_by_side(pairs[:: -(-len(pairs) // enough)]))
        tokens, counts = np.ones(sizes), np.tile(_AT_FIRST, (sizes[0], 1))
        for _ in range(_ROUNDS):
            found = cls(_shares(tokens), _shares(counts))
            tokens, counts = np.zeros(sizes), np.zeros((sizes[0], MOST + 1))
            for some in sides:
                found._expect(some, tokens, counts)
        return cls(_shares(tokens), _shares(counts))

    def given(self, pairs: Sequence[tuple[Row, Row]]) -> list[tuple[int, ...]]:
        """Cut targets as is likeliest.

        Parameters
        ----------
        pairs : sequence of (source, target)
            As for `learn`.

        Returns
        -------
        list of tuple of int
            How many target tokens each source token gives.
        """
        found: dict[int, tuple[int, ...]] = {}
        for some in _side_by_side(pairs):
            for number, row, length in zip(some.numbers, self._best(some), some.lengths, strict=True):
                found[number] = tuple(row[:length].tolist())
        return [found[number] for number in range(len(pairs))]

    def _likely(self, some: _Some) -> Array:
        """Return how likely source tokens give the k targets from each place on: logarithms (K + 1, m, B, n + 1)."""
        source, n, (tokens, counts) = some.source, len(some.target), self._logs
        each = tokens[source[:, :, None], some.target.T[None]]  # (m, B, n)
        likely = np.full((MOST + 1, *source.shape, n + 1), -np.inf)
        likely[0] = 0
        for k in range(1, min(MOST, n) + 1):
            likely[k, :, :, : n + 1 - k] = each[:, :, : n + 1 - k] + likely[k - 1, :, :, 1 : n + 2 - k]
        likely += counts.T[:, source, None]
        return likely

    def _expect(self, some: _Some, tokens: Array, counts: Array) -> None:
        """Count what source tokens give, each cut as far as it is likely."""
        likely, rest = self._likely(some), [_at_the_end(some)]
        for i in range(len(some.source))[::-1]:
            rest.append(np.logaddexp.reduce(_then(likely[:, i], rest[-1])))
        rest.reverse()
        here = (np.arange(rest[0].shape[1]) == 0) * np.ones((rest[0].shape[0], 1))  # how likely each place is
        for i, source in enumerate(some.source):
            known = np.where(np.isfinite(rest[i]), rest[i], 0)  # where the rest can't be given, nobody is
            cuts = here * np.exp(_then(likely[:, i], rest[i + 1]) - known)
            self._count(source, some.target, cuts, tokens, counts)
            here = sum(_later(cuts[k], k, 0.0) for k in range(MOST + 1))

    def _count(self, source: Ids, target: Ids, cuts: Array, tokens: Array, counts: Array) -> None:
        """Add what one source token of each pair gives: cuts (K + 1, B, n + 1)."""
        n = len(target)
        np.add.at(counts, source, cuts.sum(axis=2).T)
        for k in range(1, min(MOST, n) + 1):
            for step in range(k):
                given = target[step : n + 1 - k + step].T
                np.add.at(tokens, (source[:, None], given), cuts[k, :, : n + 1 - k])

    def _best(self, some: _Some) -> Ids:
        """Return how many target tokens (B, m) the source tokens give."""
        likely, rest = self._likely(some), _at_the_end(some)
        choice = []
        for i in range(len(some.source))[::-1]:
            each = _then(likely[:, i], rest)
            choice.append(each.argmax(axis=0))
            rest = each.max(axis=0)
        place, found = np.zeros(len(some.numbers), np.int64), np.zeros(some.source.T.shape, np.int64)
        for i, chosen in enumerate(reversed(choice)):
            found[:, i] = chosen[np.arange(len(place)), place]
            place += found[:, i]
        return found


class _Some(NamedTuple):
    """Some pairs, side by side."""

    numbers: list[int]  # which
    source: Ids  # (m, B)
    lengths: Ids  # (B,)
    target: Ids  # (n, B)
    widths: Ids  # (B,): lengths of the targets


def follows(source: Row, target: Row) -> bool:
    """Whether a target can be cut into so many parts.

    Parameters
    ----------
    source, target : sequence of int
        Numbers of tokens.

    Returns
    -------
    bool
        If it has at most `MOST` tokens for each of the source.

    Examples
    --------
    >>> follows((5,), (7, 7, 7)), follows((5,), (7, 7, 7, 7))
    (True, False)
    """
    return len(target) <= MOST * len(source)


def _side_by_side(pairs: Sequence[tuple[Row, Row]]) -> Iterator[_Some]:
    """Yield pairs of like lengths together."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][0]), len(pairs[i][1])))
    start = 0
    while start < len(order):
        numbers = order[start : start + _AT_ONCE]
        lengths = np.array([len(pairs[i][0]) for i in numbers])  # rising
        widths = np.maximum.accumulate([len(pairs[i][1]) + 1 for i in numbers])
        few = np.arange(1, len(numbers) + 1) * lengths * widths <= _PLACES
        numbers = numbers[: max(int(few.sum()), 1)]
        source, lengths = source_batch([pairs[i][0] for i in numbers])
        target, widths = source_batch([pairs[i][1] for i in numbers])
        yield _Some(numbers, source, lengths, target, widths)
        start += len(numbers)


def _at_the_end(some: _Some) -> Array:
    """Return the logarithms (B, n + 1) of how likely no more is given from each place on."""
    places = np.arange(len(some.target) + 1)
    ended: Array = np.where(places == some.widths[:, None], 0.0, -np.inf)
    return ended


def _then(likely: Array, rest: Array) -> Array:
    """Return the logarithms (K + 1, B, n + 1) of how likely k are given from each place on, and then the rest."""
    then: Array = likely + np.stack([_later(rest[:, ::-1], k, -np.inf)[:, ::-1] for k in range(MOST + 1)])
    return then


def _later(x: Array, places: int, nothing: float) -> Array:
    """Return columns moved to the right."""
    moved = np.full_like(x, nothing)
    moved[:, places:] = x[:, : max(x.shape[1] - places, 0)]
    return moved


def _shares(times: Array) -> Array:
    """Return how likely each column of a row is."""
    some = times + _NEVER + _LIKE_OTHERS * times.sum(axis=0) / max(times.sum(), 1)
    shares: Array = (some / some.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares
