"""Target sentences: what one is, what it is ranked by, and the way back from its last word to its first.

Letters: B sentences, T source positions, R hypotheses that went on, H hypotheses that ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.data.vocabulary import END

__all__ = ["LARGEST_PENALTY", "Ending", "Hypothesis", "Said", "Scoring", "Trail", "hypothesis"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

LARGEST_PENALTY = 10.0  # nothing overflows, whatever a sentence's length
_LEAST_COVERAGE = 1e-6  # a word that was never looked at shall not cost infinitely much


@dataclass(frozen=True, eq=False)  # arrays are not compared
class Hypothesis:
    """One way to translate a sentence.

    Parameters
    ----------
    words : tuple of int
        The n target words, without START and END.
    score : float
        What it is ranked by; see `Scoring`.
    log_probabilities : array (n + 1,)
        The logarithm of each word's probability, END's after them; (n,) if it was broken off before END.
    alignment : array (n, T)
        Where the network looked for each word, over the sentence's own T source positions with END; rows sum to 1,
        or to less with the window "local-p". (n, 0) without attention.
    """

    words: tuple[int, ...]
    score: float
    log_probabilities: Array
    alignment: Array

    @property
    def log_probability(self) -> float:
        """The logarithm of the whole sentence's probability."""
        return float(self.log_probabilities.sum())


@dataclass(frozen=True)
class Scoring:
    """How a sentence is ranked: by its log-probability, without favour for what is short or skips source words. ::

        score = log P / ((offset + length) / (offset + 1))**length_penalty
                + coverage_penalty * sum_j log(min(sum_i weights[i, j], 1))

    The length counts END, j runs over the source's words without END, i over the target's words with END. The default
    is the mean log-probability of the words; Wu et al. have offset 5, and 0.2 for both penalties.

    Parameters
    ----------
    length_penalty : float
        0 ranks by the bare log-probability; the larger, the better for long sentences.
    coverage_penalty : float
        0 leaves the second line out, as a network without attention does.
    offset : float
        How many words of a sentence are too few to matter.

    Raises
    ------
    ValueError, TypeError
        If one of them is not a number of at least 0, or a penalty is above `LARGEST_PENALTY`, 10.

    References
    ----------
    Wu et al. 2016, "Google's Neural Machine Translation System", equation 14.

    Examples
    --------
    >>> Scoring()(-6.0, 3)
    -2.0
    >>> Scoring(length_penalty=0)(-6.0, 3)
    -6.0
    >>> weights = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])  # half of the first word was looked at
    >>> round(Scoring(coverage_penalty=1)(-4.0, 2, weights.sum(axis=0)[:-1]), 6)
    -2.693147
    """

    length_penalty: float = 1.0
    coverage_penalty: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for name in ("length_penalty", "coverage_penalty", "offset"):
            most = None if name == "offset" else LARGEST_PENALTY
            object.__setattr__(self, name, _check.number(name, getattr(self, name), least=0, most=most))

    def __call__(self, log_probability: float, length: int, coverage: Array | None = None) -> float:
        """Return the score of a sentence of so many words, END with them, that looked at source words so much."""
        score = log_probability / float(self.divisor(length))
        if self.coverage_penalty and coverage is not None:
            score += self.coverage_penalty * float(np.log(np.clip(coverage, _LEAST_COVERAGE, 1)).sum())
        return score

    def divisor(self, length: Any) -> Any:
        """Return what the log-probability of a sentence of this length is divided by; or of several lengths."""
        return ((self.offset + length) / (self.offset + 1)) ** self.length_penalty


class Said(NamedTuple):
    """What is known of R hypotheses before one step, row by row.

    Parameters
    ----------
    words : integer array (R,)
        Their last words; START before the first step.
    parents : integer array (R,)
        Which rows they were before these words, a step earlier.
    logs : array (R,)
        The words' log-probabilities.
    looks : array (R, T) or (R, 0)
        Where they look for the next word.
    """

    words: Ids
    parents: Ids
    logs: Array
    looks: Array


class Ending(NamedTuple):
    """How a hypothesis ended.

    Parameters
    ----------
    score : float or None
        What it is ranked by, if that is known.
    step, row : int
        The step that it did not survive, counted from 0, and its row of that step's `Said`.
    word : int or None
        What came last: END, or a word if it was broken off there; None if nothing could come.
    log : float
        The word's log-probability.
    """

    score: float | None
    step: int
    row: int
    word: int | None
    log: float


class Trail:
    """What was said, step by step, so that every hypothesis can be walked back to its beginning.

    Parameters
    ----------
    lengths : integer array (B,)
        Words of the sources, END with them.
    scoring : Scoring
        What hypotheses without a score are ranked by.

    Examples
    --------
    >>> trail = Trail(np.array([2]), Scoring())
    >>> trail.steps.append(Said(np.array([1]), np.array([0]), np.zeros(1), np.array([[0.5, 0.5]])))
    >>> trail.steps.append(Said(np.array([4]), np.array([0]), -np.ones(1), np.array([[0.0, 1.0]])))
    >>> ((one,),) = trail.hypotheses([(0, Ending(None, 1, 0, END, -2.0))])
    >>> one.words, one.score, one.alignment.tolist()
    ((4,), -1.5, [[0.5, 0.5]])
    """

    def __init__(self, lengths: Ids, scoring: Scoring) -> None:
        self.lengths, self.scoring = lengths, scoring
        self.steps: list[Said] = []

    def hypotheses(self, found: Sequence[tuple[int, Ending]]) -> list[list[Hypothesis]]:
        """Return what was found for each of the B sentences; each ending comes with its sentence's number."""
        made: list[list[Hypothesis]] = [[] for _ in self.lengths]
        if not found:
            return made
        words, logs, looks = self._walk([ending for _, ending in found])
        for i, (sentence, ending) in enumerate(found):
            count = ending.step + (ending.word is not None)
            said = tuple(words[i, : count - (ending.word == END)].tolist())
            length = int(self.lengths[sentence])
            parts = logs[i, :count].copy(), looks[i, :count, :length].copy()
            made[sentence].append(hypothesis(said, *parts, length, self.scoring, ending.score))
        return made

    def _walk(self, endings: Sequence[Ending]) -> tuple[Ids, Array, Array]:
        """Go back from all endings together: words (H, n), their log-probabilities, looks before them (H, n, T)."""
        ends, rows = (np.array(numbers) for numbers in zip(*((x.step, x.row) for x in endings), strict=True))
        last, looks = int(ends.max()), self.steps[0].looks
        room = len(endings), last + 1
        words, logs, looked = (
            np.zeros(room, np.int64),
            np.zeros(room),
            np.zeros((*room, looks.shape[-1]), looks.dtype),
        )
        each = np.arange(len(endings))
        words[each, ends] = [x.word or 0 for x in endings]
        logs[each, ends] = [x.log for x in endings]
        for t in reversed(range(last + 1)):
            said, going = self.steps[t], np.flatnonzero(ends >= t)
            at = rows[going]
            looked[going, t] = said.looks[at]
            if t > 0:
                words[going, t - 1], logs[going, t - 1] = said.words[at], said.logs[at]
                rows[going] = said.parents[at]
        return words, logs, looked


def hypothesis(
    words: tuple[int, ...],
    logs: Array,
    weights: Array,
    length: int,
    scoring: Scoring,
    score: float | None = None,
) -> Hypothesis:
    """Put together what was said.

    Parameters
    ----------
    words : tuple of int
        Without END.
    logs : array (n,)
        Log-probabilities of the words and, if it came, of END.
    weights : array (n, T)
        Where was looked for them.
    length : int
        Words of the source, END with them.
    scoring : Scoring
        What it is ranked by.
    score : float, optional
        What that came to, if it is known.

    Returns
    -------
    Hypothesis
        Its alignment is that of the words alone.

    Examples
    --------
    >>> hypothesis((4,), np.array([-1.0, -2.0]), np.array([[1.0, 0.0], [0.0, 1.0]]), 2, Scoring()).score
    -1.5
    """
    if score is None:
        score = scoring(float(logs.sum()), max(len(logs), 1), _coverage(weights, length))
    return Hypothesis(words, score, logs, weights[: len(words)])


def _coverage(weights: Array, length: int) -> Array | None:
    return weights.sum(axis=0)[: length - 1] if weights.shape[-1] else None
