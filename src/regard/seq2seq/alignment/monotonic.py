"""A letter-sound aligner: cuts each target into one part for each source token, from left to right.

Letters are spoken in the order in which they are written: each yields none, one or a few sounds. With k(s) the
probability that a source token s yields k target tokens (its fertility), and q(t | s) that each of them is t, a pair
has the probability ::

    sum over all ways to cut the target into as many parts as the source has tokens of
        product over source tokens s, with the part t_1 .. t_k, of k(s) q(t_1 | s) ... q(t_k | s)

Both are learned from pairs alone by expectation-maximisation, with the forward-backward algorithm over all cuts
(Dempster, Laird and Rubin 1977; Ristad and Yianilos 1998, "Learning String-Edit Distance", for single tokens).

Letters: B pairs, m source tokens and n target tokens of the longest of them, S and T sizes of the vocabularies,
K = MAX_FERTILITY.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.corpus.batching import Links, source_batch
from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.sources.text.vocabulary import PAD, SPECIAL

__all__ = ["MAX_CELLS", "MAX_FERTILITY", "ROUNDS", "Aligner", "align_pairs", "alignable", "check_sizes"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

MAX_FERTILITY = 3  # target tokens of one source token
MAX_CELLS = 1 << 22  # S T: the probabilities of tokens are a table
ROUNDS = 10  # of expectation maximization
_INITIAL = (0.1, 0.8, 0.08, 0.02)  # probabilities of fertilities before the first round
_ENOUGH, _PER_TOKEN = 5000, 20  # pairs to learn from: at least, and for each token of the source's vocabulary
_BATCH, _BATCH_CELLS = 1024, 1 << 19  # pairs, and products of the lengths of source and target, summed
# Smoothing, in counts: unseen events are improbable, and a token without any count is like the others.
_UNSEEN, _BACKOFF = 1e-9, 1e-6


def align_pairs(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[Links]:
    """Align pairs whose targets follow their sources from left to right, as sounds follow letters.

    Each target token is linked with the one source token that yields it, from nothing but the pairs.

    `pairs`: sequences of tokens, as lists or, of single characters, as text. Returns list of frozensets of (int,
    int): for each pair the links (source, target) between positions from 0; none where the target has more than three
    tokens for each of its source.
    """
    sources, size = _numbered([source for source, _ in pairs])
    targets, target_size = _numbered([target for _, target in pairs])
    check_sizes((size, target_size))
    numbers = [i for i, pair in enumerate(pairs) if pair[0] and alignable(*pair)]
    known = [(sources[i], targets[i]) for i in numbers]
    links: list[Links] = [frozenset()] * len(pairs)
    if known:
        for i, fertilities in zip(numbers, Aligner.learn(known, (size, target_size)).cut(known), strict=True):
            links[i] = frozenset(
                zip(
                    np.repeat(np.arange(len(fertilities)), fertilities).tolist(),
                    range(len(targets[i])),
                    strict=True,
                )
            )
    return links


def _numbered(sequences: Sequence[Sequence[Any]]) -> tuple[list[Row], int]:
    """Return sequences as ids, and the size of their vocabulary."""
    ids: dict[Any, int] = {}
    rows: list[Row] = [
        tuple(ids.setdefault(token, len(SPECIAL) + len(ids)) for token in tokens) for tokens in sequences
    ]
    return rows, len(SPECIAL) + len(ids)


class Aligner:
    """The probabilities of the target tokens that source tokens yield.

    `tokens` (S, T): probability of each target token, given the source token that yields it; rows sum to 1;
    `fertilities` (S, K + 1): probability of each number of target tokens; rows sum to 1.
    """

    def __init__(self, tokens: Array, fertilities: Array) -> None:
        self.tokens, self.fertilities = tokens, fertilities
        self._logs = np.log(tokens), np.log(fertilities)
        self._logs[1][PAD] = [0, *[-np.inf] * MAX_FERTILITY]  # padding yields nothing

    @classmethod
    def learn(
        cls,
        pairs: Sequence[tuple[Row, Row]],
        sizes: tuple[int, int],
        report: Callable[[], object] = lambda: None,
        *,
        rounds: int = ROUNDS,
    ) -> Self:
        """Learn from pairs, or from a sample if there are many.

        `pairs`: ids of tokens; all are `alignable`; `sizes`: s and T; `report`: called after each round;
        `rounds`: of expectation maximization.
        """
        enough = max(_ENOUGH, _PER_TOKEN * sizes[0])
        batches = list(_batches(pairs[:: -(-len(pairs) // enough)]))
        tokens, fertilities = np.ones(sizes), np.tile(_INITIAL, (sizes[0], 1))
        for _ in range(rounds):
            aligner = cls(_normalized(tokens), _normalized(fertilities))
            tokens, fertilities = np.zeros(sizes), np.zeros((sizes[0], MAX_FERTILITY + 1))
            for batch in batches:
                aligner._expect(batch, tokens, fertilities)
            report()
        return cls(_normalized(tokens), _normalized(fertilities))

    def cut(self, pairs: Sequence[tuple[Row, Row]]) -> list[tuple[int, ...]]:
        """Return the most probable cut of each target.

        `pairs`: as for `learn`.
        """
        cuts: dict[int, tuple[int, ...]] = {}
        for batch in _batches(pairs):
            for number, row, length in zip(batch.numbers, self._best(batch), batch.lengths, strict=True):
                cuts[number] = tuple(row[:length].tolist())
        return [cuts[number] for number in range(len(pairs))]

    def _emissions(self, batch: _Batch) -> Array:
        """Return the log-probabilities (K + 1, m, B, n + 1) that source tokens yield the k targets from a position."""
        source, n, (tokens, fertilities) = batch.source, len(batch.target), self._logs
        each = tokens[source[:, :, None], batch.target.T[None]]  # (m, B, n)
        logs = np.full((MAX_FERTILITY + 1, *source.shape, n + 1), -np.inf)
        logs[0] = 0
        for k in range(1, min(MAX_FERTILITY, n) + 1):
            logs[k, :, :, : n + 1 - k] = each[:, :, : n + 1 - k] + logs[k - 1, :, :, 1 : n + 2 - k]
        logs += fertilities.T[:, source, None]
        return logs

    def _expect(self, batch: _Batch, tokens: Array, fertilities: Array) -> None:
        """Add the expected counts of the target tokens that source tokens yield."""
        logs, rest = self._emissions(batch), [_final(batch)]
        for i in range(len(batch.source))[::-1]:
            rest.append(np.logaddexp.reduce(_joined(logs[:, i], rest[-1])))
        rest.reverse()
        forward = (np.arange(rest[0].shape[1]) == 0) * np.ones((rest[0].shape[0], 1))  # P of each position
        for i, source in enumerate(batch.source):
            finite = np.where(np.isfinite(rest[i]), rest[i], 0)  # positions without a rest have probability 0
            cuts = forward * np.exp(_joined(logs[:, i], rest[i + 1]) - finite)
            self._count(source, batch.target, cuts, tokens, fertilities)
            forward = sum(_shifted(cuts[k], k, 0.0) for k in range(MAX_FERTILITY + 1))

    def _count(self, source: Ids, target: Ids, cuts: Array, tokens: Array, fertilities: Array) -> None:
        """Add the counts of one source token of each pair: cuts (K + 1, B, n + 1)."""
        n = len(target)
        np.add.at(fertilities, source, cuts.sum(axis=2).T)
        for k in range(1, min(MAX_FERTILITY, n) + 1):
            for step in range(k):
                yielded = target[step : n + 1 - k + step].T
                np.add.at(tokens, (source[:, None], yielded), cuts[k, :, : n + 1 - k])

    def _best(self, batch: _Batch) -> Ids:
        """Return how many target tokens (B, m) the source tokens yield in the most probable cut."""
        logs, rest = self._emissions(batch), _final(batch)
        choices = []
        for i in range(len(batch.source))[::-1]:
            each = _joined(logs[:, i], rest)
            choices.append(each.argmax(axis=0))
            rest = each.max(axis=0)
        position, best = np.zeros(len(batch.numbers), np.int64), np.zeros(batch.source.T.shape, np.int64)
        for i, choice in enumerate(reversed(choices)):
            best[:, i] = choice[np.arange(len(position)), position]
            position += best[:, i]
        return best


class _Batch(NamedTuple):
    """Padded pairs."""

    numbers: list[int]  # of the pairs
    source: Ids  # (m, B)
    lengths: Ids  # (B,)
    target: Ids  # (n, B)
    widths: Ids  # (B,): lengths of the targets


def alignable(source: Sequence[Any], target: Sequence[Any]) -> bool:
    """Return whether a target can be cut into as many parts as its source has tokens.

    `source`, `target`: tokens.
    """
    return len(target) <= MAX_FERTILITY * len(source)


def check_sizes(sizes: tuple[int, int]) -> None:
    """Check that the table of token probabilities is not too large.

    `sizes`: s and T.
    """
    if sizes[0] * sizes[1] > MAX_CELLS:
        _check.fail(
            f"a monotonic alignment needs few tokens: the product of both vocabularies must be at most {MAX_CELLS:,}. "
            f"They are {sizes[0]:,} x {sizes[1]:,} here."
        )


def _batches(pairs: Sequence[tuple[Row, Row]]) -> Iterator[_Batch]:
    """Yield pairs of similar lengths together."""
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][0]), len(pairs[i][1])))
    start = 0
    while start < len(order):
        numbers = order[start : start + _BATCH]
        lengths = np.array([len(pairs[i][0]) for i in numbers])  # rising
        widths = np.maximum.accumulate([len(pairs[i][1]) + 1 for i in numbers])
        fits = np.arange(1, len(numbers) + 1) * lengths * widths <= _BATCH_CELLS
        numbers = numbers[: max(int(fits.sum()), 1)]
        source, lengths = source_batch([pairs[i][0] for i in numbers])
        target, widths = source_batch([pairs[i][1] for i in numbers])
        yield _Batch(numbers, source, lengths, target, widths)
        start += len(numbers)


def _final(batch: _Batch) -> Array:
    """Return the log-probabilities (B, n + 1) that the target ends at each position."""
    positions = np.arange(len(batch.target) + 1)
    final: Array = np.where(positions == batch.widths[:, None], 0.0, -np.inf)
    return final


def _joined(logs: Array, rest: Array) -> Array:
    """Return the log-probabilities (K + 1, B, n + 1) of k tokens from each position and then the rest."""
    joined: Array = logs + np.stack(
        [_shifted(rest[:, ::-1], k, -np.inf)[:, ::-1] for k in range(MAX_FERTILITY + 1)]
    )
    return joined


def _shifted(x: Array, count: int, fill: float) -> Array:
    """Return columns shifted to the right."""
    shifted = np.full_like(x, fill)
    shifted[:, count:] = x[:, : max(x.shape[1] - count, 0)]
    return shifted


def _normalized(counts: Array) -> Array:
    """Return smoothed counts as probabilities: rows sum to 1."""
    smoothed = counts + _UNSEEN + _BACKOFF * counts.sum(axis=0) / max(counts.sum(), 1)
    probabilities: Array = (smoothed / smoothed.sum(axis=1, keepdims=True)).astype(np.float32)
    return probabilities
