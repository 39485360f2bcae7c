"""Outputs without loops: no group of tokens comes more often in a row than a limit, and none is empty or unknown.

Letters: B sentences, T source positions, V size of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.decoding.beam import BEAM, beam
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.networks.base import Predictor, Stepper
from regard.seq2seq.networks.top_tokens import TopTokens, exponential_sums, top_tokens
from regard.seq2seq.sources.text.vocabulary import END, START, UNKNOWN

__all__ = ["USUAL", "WithoutLoops", "beam_without_loops", "blocked", "has_loops", "repetitions"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

USUAL = 3  # times that a group may come in a row, where no more are known


def repetitions(tokens: Sequence[object]) -> int:
    """Return how often a group of tokens comes in a row, at most; 1 where none is repeated."""
    most = 1
    for size in range(1, len(tokens) // 2 + 1):
        differ = [i for i in range(len(tokens) - size) if tokens[i] != tokens[i + size]]
        runs = [end - start - 1 for start, end in pairwise([-1, *differ, len(tokens) - size])]
        most = max(most, *(run // size + 1 for run in runs))
    return most


def blocked(tokens: Sequence[int], most: int) -> list[int]:
    """Return what must not follow these tokens: unknown ones, a group's token number `most` + 1, and END after none."""
    found = [UNKNOWN] if tokens else [UNKNOWN, END]
    for size in range(1, (len(tokens) + 1) // (most + 1) + 1):
        tail = tokens[len(tokens) + 1 - (most + 1) * size :]
        if tail[size:] == tail[:-size]:
            found.append(tokens[-size])
    return found


def has_loops(tokens: Sequence[int], most: int) -> bool:
    """Return whether an output, without END, is one that `blocked` forbids."""
    return any(token in blocked(tokens[:i], most) for i, token in enumerate((*tokens, END)))


def beam_without_loops(
    network: Predictor,
    source: Ids,
    lengths: Ids,
    *,
    most: int,
    width: int = BEAM,
    n_best: int = 1,
    scoring: Scoring = Scoring(),
) -> list[list[Hypothesis]]:
    """Search as `beam` does; again without loops for sentences whose best hypothesis has one, and drop others with one.

    `most`: how often a group of tokens may come in a row; the other arguments are those of `beam`.
    """
    found = beam(network, source, lengths, width=width, n_best=n_best, scoring=scoring)
    if bad := [i for i, (best, *_) in enumerate(found) if has_loops(best.tokens, most)]:
        again = source[: lengths[bad].max(), bad], lengths[bad]
        others = beam(WithoutLoops(network, most), *again, width=width, n_best=n_best, scoring=scoring)
        for i, other in zip(bad, others, strict=True):
            found[i] = other
    return [[best, *(one for one in rest if not has_loops(one.tokens, most))] for best, *rest in found]


class WithoutLoops:
    """A network for a search, whose hypotheses never have what `blocked` forbids; their probabilities are the same."""

    def __init__(self, network: Predictor, most: int) -> None:
        self.network, self.most = network, most

    def stepper(self, source: Ids, lengths: Ids, width: int = 1) -> Stepper:
        """Begin a search for sources (T, B) of these lengths (B,)."""
        return _Stepper(self.network.stepper(source, lengths, width), self.most)


class _Stepper(Stepper):
    """A stepper that knows the tokens of all hypotheses."""

    def __init__(self, stepper: Stepper, most: int) -> None:
        self.stepper, self.most = stepper, most
        self.before: list[list[tuple[int, ...]]] = []

    def __call__(self, tokens: Ids) -> tuple[Array, Array]:
        """Take a step after tokens (B, k)."""
        self.before = self.before or [[()] * tokens.shape[1] for _ in tokens]
        self.before = [
            [(*old, token) if token != START else old for old, token in zip(*rows, strict=True)]
            for rows in zip(self.before, tokens.tolist(), strict=True)
        ]
        return self.stepper(tokens)

    def top(self, tokens: Ids, count: int, first: int) -> tuple[TopTokens, Array]:
        """Take a step, and return the `count` largest logits of the tokens that may follow."""
        logits, weights = self(tokens)
        rows = logits.reshape(tokens.size, -1)
        sums, rows = exponential_sums(rows), rows.copy()
        for row, old in enumerate(old for several in self.before for old in several):
            rows[row, blocked(old, self.most)] = -np.inf
        return top_tokens(rows, count, first)._replace(sums=sums), weights

    def select(self, parents: Ids) -> None:
        """Continue with these hypotheses (B, k') of each sentence."""
        self.before = [[old[i] for i in own] for old, own in zip(self.before, parents.tolist(), strict=True)]
        self.stepper.select(parents)

    def keep(self, sentences: Ids) -> None:
        """Continue with these sentences (B',) only."""
        self.before = [self.before[i] for i in sentences.tolist()]
        self.stepper.keep(sentences)
