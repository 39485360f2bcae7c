"""Restrictions of the outputs of a search: no loops, and no unknown token without an unknown source token.

With a limit of repetitions, no group of tokens follows itself more often than that, unless one of the source does,
where both sides have tokens of one type; and no output is empty. A group with unknown tokens is no loop, since they
stand for different words. Each unknown token becomes a copy of a different unknown source token, so an output has at
most as many as its source. The attention weights of the step have no influence: they are often on another token than
the name.

Letters: B sentences, T source positions, V size of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.networks.base import Predictor, Stepper
from regard.seq2seq.networks.top_tokens import TopTokens
from regard.seq2seq.sources.text.vocabulary import END, START, UNKNOWN

__all__ = ["USUAL", "Restricted", "Restrictions", "blocked", "repetitions"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Row = tuple[int, ...]

USUAL = 3  # times that a group may come in a row, where no more are known


class Restrictions(NamedTuple):
    """The restrictions of a search.

    `repetitions`: how often a group of tokens may come in a row, if there is a limit; `as_source`: or as often as in
    the source; `copies`: whether unknown source tokens may be copied; otherwise no token is unknown.
    """

    repetitions: int | None = None
    as_source: bool = True
    copies: bool = True


def repetitions(ids: NDArray[np.integer[Any]]) -> int:
    """Return how often a group of tokens comes in a row, at most; 1 where none is repeated.

    `ids`: of one text, or of several, each after START. Unknown tokens differ, as their words do.
    """
    single = (ids == START) | (ids == UNKNOWN)
    each = np.where(single, -1 - np.arange(len(ids)), ids)
    longest = int(np.diff(np.flatnonzero(np.r_[True, ids == START, True])).max())
    most = 1
    for size in range(1, longest // 2 + 1):
        differ = np.flatnonzero(each[size:] != each[:-size])
        run = np.diff(np.r_[-1, differ, len(ids) - size]).max() - 1
        most = max(most, int(run) // size + 1)
    return most


def blocked(tokens: Sequence[int], most: int | None, copies: int = 0) -> list[int]:
    """Return the tokens that must not follow: with a limit, those of a group too many, and END at the start.

    `copies`: how many unknown tokens there may be.
    """
    excluded = [] if tokens.count(UNKNOWN) < copies else [UNKNOWN]
    if most is None:
        return excluded
    if not tokens:
        excluded.append(END)
    for size in range(1, (len(tokens) + 1) // (most + 1) + 1):
        tail = tokens[len(tokens) + 1 - (most + 1) * size :]
        if tail[size:] == tail[:-size] and UNKNOWN not in tail:
            excluded.append(tokens[-size])
    return excluded


class Restricted:
    """A network whose search keeps to restrictions; the probabilities of its outputs stay those of the network."""

    def __init__(self, network: Predictor, restrictions: Restrictions) -> None:
        self.network, self.restrictions = network, restrictions

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> Stepper:
        """Begin a search for sources (T, B) of these lengths (B,)."""
        limits = [_limits(source[:length, i], self.restrictions) for i, length in enumerate(lengths)]
        return _Stepper(self.network.stepper(source, lengths, width), np.array(limits, np.int64), width)


_NO_LIMIT = 1 << 32  # repetitions: more than an output has tokens


def _limits(row: Array, restrictions: Restrictions) -> tuple[int, int]:
    """Return how often a group may come in a row in an output of a source, and how many of its tokens may be copied."""
    most, is_text = restrictions.repetitions or _NO_LIMIT, row.ndim == 1
    if is_text and restrictions.as_source:
        most = max(most, repetitions(row))
    return most, int((row == UNKNOWN).sum()) if is_text and restrictions.copies else 0


class _Stepper(Stepper):
    """A stepper that knows the tokens of all hypotheses, n of each.

    `limits` (B, 2): the `_limits` of each sentence; `runs` (B, k, n): how many of the last tokens are each the same
    known token as s places before, s = 1 to n. So the next one completes a group of s tokens that comes `most` + 1
    times if it is the token s places before it, and `most` s - 1 tokens were so.
    """

    def __init__(self, stepper: Stepper, limits: Ids, width: int) -> None:
        self.stepper, self.limits = stepper, limits
        self.before = self.runs = np.zeros((len(limits), width, 0), np.int64)

    def __call__(self, tokens: Ids) -> tuple[Array, Array]:
        """Take a step after tokens (B, k)."""
        self._extend(tokens)
        return self.stepper(tokens)

    def top(self, tokens: Ids, count: int, first: int) -> tuple[TopTokens, Array]:
        """Take a step, and return the `count` largest logits of the tokens that may follow."""
        self._extend(tokens)
        rows, never = self._blocked()
        more = int(np.bincount(rows, minlength=1).max())
        top, weights = self.stepper.top(tokens, count + more, first)
        blocked, ranks = np.nonzero(top.tokens[rows] == never[:, None])
        top.best[rows[blocked], ranks] = -np.inf
        order = np.argsort(-top.best, axis=1, kind="stable")[:, :count]
        best, ids = (np.take_along_axis(x, order, axis=1) for x in (top.best, top.tokens))
        return TopTokens(top.sums, best, ids), weights

    def forbid(self, logits: Array) -> None:
        """Set the logits (B, k, V) of forbidden tokens to -inf; if none is left, END follows."""
        super().forbid(logits)
        rows, never = self._blocked()
        logits[(*np.unravel_index(rows, logits.shape[:2]), never)] = -np.inf
        logits[(logits == -np.inf).all(axis=2), END] = 0

    def _blocked(self) -> tuple[Ids, Ids]:
        """Return the tokens that must not follow hypotheses, with the numbers of their rows (B k)."""
        most, copies = self.limits[:, :1], self.limits[:, 1:]
        count, again = self.before.shape[2], self.before[..., ::-1]
        rows = np.flatnonzero((self.before == UNKNOWN).sum(axis=2) >= copies)
        never = np.full(len(rows), UNKNOWN)
        if not count:
            first = np.flatnonzero(np.broadcast_to(most < _NO_LIMIT, self.before.shape[:2]))
            return np.append(rows, first), np.append(never, np.full(len(first), END))
        full = (self.runs >= most[:, :, None] * np.arange(1, count + 1) - 1) & (again != UNKNOWN)
        if full.any():
            rows = np.append(rows, np.flatnonzero(full) // count)
            never = np.append(never, again[full])
        return rows, never

    def _extend(self, tokens: Ids) -> None:
        """Append tokens (B, k), except START, which is before all others."""
        if (tokens == START).all():
            return
        last = tokens[:, :, None]
        same = (self.before[..., ::-1] == last) & (last != UNKNOWN)
        self.runs = np.concatenate([(self.runs + 1) * same, np.zeros_like(last)], axis=2)
        self.before = np.concatenate([self.before, last], axis=2)

    def select(self, parents: Ids) -> None:
        """Continue with these hypotheses (B, k') of each sentence."""
        sentences = np.arange(len(parents))[:, None]
        self.before, self.runs = self.before[sentences, parents], self.runs[sentences, parents]
        self.stepper.select(parents)

    def keep(self, sentences: Ids) -> None:
        """Continue with these sentences (B',) only."""
        self.limits, self.before, self.runs = (x[sentences] for x in (self.limits, self.before, self.runs))
        self.stepper.keep(sentences)
