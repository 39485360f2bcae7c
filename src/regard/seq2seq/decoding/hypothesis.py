"""Hypotheses: one translation with its alignment, its score, and the back-pointers of a search.

Letters: B sentences, T source positions, R hypotheses that continue, H hypotheses that ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.sources.text.vocabulary import END

__all__ = ["LARGEST_PENALTY", "BackPointers", "Ending", "Hypothesis", "Scoring", "SearchStep", "hypothesis"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

LARGEST_PENALTY = 10.0  # nothing overflows, whatever a sentence's length
_LEAST_COVERAGE = 1e-6  # bounds the penalty of a source token without any weight


@dataclass(frozen=True, eq=False)  # arrays are not compared
class Hypothesis:
    """One translation of a sentence.

    `tokens`: the n target tokens, without START and END; `score`: the score that ranks it; see `Scoring`;
    `log_probabilities` (n + 1,): the log-probability of each token and of END; (n,) if the hypothesis was cut off
    before END; `alignment` (n, T): the attention weights of each token over the sentence's T source positions, END
    included; rows sum to 1. (n, 0) without attention.
    """

    tokens: tuple[int, ...]
    score: float
    log_probabilities: Array
    alignment: Array

    @property
    def log_probability(self) -> float:
        """The log-probability of the sentence."""
        return float(self.log_probabilities.sum())


@dataclass(frozen=True)
class Scoring:
    """The score that ranks hypotheses, with penalties for length and for source tokens left out. ::

        score = log P / ((offset + length) / (offset + 1))**length_penalty
                + coverage_penalty * sum_j log(min(sum_i weights[i, j], 1))

    The length counts END, j runs over the source's tokens without END, i over the target's tokens with END. The default
    is the mean log-probability of the tokens; Wu et al. have offset 5, and 0.2 for both penalties.

    Parameters
    ----------
    length_penalty : float
        From 0, which ranks by the log-probability, to 10; larger values favour longer sentences.
    coverage_penalty : float
        From 0 to 10; 0 leaves the second line out, as for a network without attention.
    offset : float
        Added to the length.

    Raises
    ------
    ValueError, TypeError
        If a number is out of range.

    References
    ----------
    Wu et al. 2016, "Google's Neural Machine Translation System", equation 14.

    Examples
    --------
    >>> mean, total = Scoring(), Scoring(length_penalty=0)
    >>> mean(-6.0, length=3), total(-6.0, length=3)
    (-2.0, -6.0)
    """

    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for name in ("length_penalty", "coverage_penalty", "offset"):
            most = None if name == "offset" else LARGEST_PENALTY
            object.__setattr__(self, name, _check.number(name, getattr(self, name), least=0, most=most))

    def __call__(self, log_probability: float, length: int, coverage: Array | None = None) -> float:
        """Return the score of a sentence of this length, END included, given the sums of weights of source tokens."""
        score = log_probability / float(self.divisor(length))
        if self.coverage_penalty and coverage is not None:
            score += self.coverage_penalty * float(np.log(np.clip(coverage, _LEAST_COVERAGE, 1)).sum())
        return score

    def divisor(self, length: Any) -> Any:
        """Return the divisor of the log-probability.

        Parameters
        ----------
        length : float or array
            Lengths of sentences, END included.

        Returns
        -------
        float or array
            ``((offset + length) / (offset + 1))**length_penalty``.

        Examples
        --------
        >>> Scoring(length_penalty=0.5).divisor(4)
        2.0
        """
        return ((self.offset + length) / (self.offset + 1)) ** self.length_penalty


class SearchStep(NamedTuple):
    """The R hypotheses before one step of a search, row by row.

    `tokens` (R,): the last token of each; START before the first step; `parents` (R,): the row of each in the step
    before; `log_probabilities` (R,): the log-probability of each last token; `weights` (R, T) or (R, 0): the
    attention weights of the step.
    """

    tokens: Ids
    parents: Ids
    log_probabilities: Array
    weights: Array


class Ending(NamedTuple):
    """The end of a hypothesis.

    `score`: the score that ranks it, if it is known; `step`, `row`: the last step that has it, counted from 0, and
    its row there; `token`: the token after that step: END, or another one if the hypothesis was cut off; None if no
    token was possible; `log_probability`: the log-probability of that token.
    """

    score: float | None
    step: int
    row: int
    token: int | None
    log_probability: float


class BackPointers:
    """The steps of a search, from which every hypothesis is read back from its last token to its first.

    `lengths` (B,): tokens of the sources, END included; `scoring`: the score of hypotheses that have none yet.
    """

    def __init__(self, lengths: Ids, scoring: Scoring) -> None:
        self.lengths, self.scoring = lengths, scoring
        self.steps: list[SearchStep] = []

    def hypotheses(self, endings: Sequence[tuple[int, Ending]]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each of the B sentences, given endings with the number of their sentence."""
        hypotheses: list[list[Hypothesis]] = [[] for _ in self.lengths]
        if not endings:
            return hypotheses
        tokens, logs, weights = self._read_back([ending for _, ending in endings])
        for i, (sentence, ending) in enumerate(endings):
            count = ending.step + (ending.token is not None)
            ids = tuple(tokens[i, : count - (ending.token == END)].tolist())
            length = int(self.lengths[sentence])
            parts = logs[i, :count].copy(), weights[i, :count, :length].copy()
            hypotheses[sentence].append(hypothesis(ids, *parts, length, self.scoring, ending.score))
        return hypotheses

    def _read_back(self, endings: Sequence[Ending]) -> tuple[Ids, Array, Array]:
        """Follow the back-pointers of all endings: tokens (H, n), log-probabilities (H, n), weights (H, n, T)."""
        ends, rows = (np.array(numbers) for numbers in zip(*((x.step, x.row) for x in endings), strict=True))
        last, of_first = int(ends.max()), self.steps[0].weights
        shape = len(endings), last + 1
        tokens, logs, weights = (
            np.zeros(shape, np.int64),
            np.zeros(shape),
            np.zeros((*shape, of_first.shape[-1]), of_first.dtype),
        )
        each = np.arange(len(endings))
        tokens[each, ends] = [x.token or 0 for x in endings]
        logs[each, ends] = [x.log_probability for x in endings]
        for t in reversed(range(last + 1)):
            step, alive = self.steps[t], np.flatnonzero(ends >= t)
            at = rows[alive]
            weights[alive, t] = step.weights[at]
            if t > 0:
                tokens[alive, t - 1], logs[alive, t - 1] = step.tokens[at], step.log_probabilities[at]
                rows[alive] = step.parents[at]
        return tokens, logs, weights


def hypothesis(
    tokens: tuple[int, ...],
    logs: Array,
    weights: Array,
    length: int,
    scoring: Scoring,
    score: float | None = None,
) -> Hypothesis:
    """Make a hypothesis, with its score if that is not known yet.

    `tokens`: the tokens without END; `logs` (n,): log-probabilities of the tokens and, if it came, of END; `weights`
    (n, T): their attention weights; `length`: tokens of the source, END included; `scoring`: the score of the
    hypothesis; `score`: the score, if it is known.
    """
    if score is None:
        score = scoring(float(logs.sum()), max(len(logs), 1), _coverage(weights, length))
    return Hypothesis(tokens, score, logs, weights[: len(tokens)])


def _coverage(weights: Array, length: int) -> Array | None:
    return weights.sum(axis=0)[: length - 1] if weights.shape[-1] else None
