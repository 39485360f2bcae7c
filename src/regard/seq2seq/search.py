"""Finding target sentences word by word: the best by beam, drawn by chance, or given; each with where it looked.

Letters: B sentences, T source positions, n target words, V words of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.network import Knowing, Network, Ranking, Steps
from regard.seq2seq.ranking import Tops, sums, tops
from regard.seq2seq.text import END, PAD, START

__all__ = ["LARGEST_PENALTY", "Hypothesis", "Scoring", "beam", "force", "longest", "sample"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

LARGEST_PENALTY = 10.0  # nothing overflows, whatever a sentence's length
_LEAST_COVERAGE = 1e-6  # a word that was never looked at shall not cost infinitely much


@dataclass(frozen=True)
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
            value = _check.number(name, getattr(self, name))
            if value < 0:
                _check.fail(f"{name} must be at least 0. Got {value!r} instead.")
            if name != "offset" and value > LARGEST_PENALTY:
                _check.fail(f"{name} must be at most {LARGEST_PENALTY:g}. Got {value!r} instead.")

    def __call__(self, log_probability: float, length: int, coverage: Array | None = None) -> float:
        """Return the score of a sentence of so many words, END with them, that looked at source words so much."""
        score = log_probability / float(self.divisor(length))
        if self.coverage_penalty and coverage is not None:
            score += self.coverage_penalty * float(np.log(np.clip(coverage, _LEAST_COVERAGE, 1)).sum())
        return score

    def divisor(self, length: Any) -> Any:
        """Return what the log-probability of a sentence of this length is divided by; or of several lengths."""
        return ((self.offset + length) / (self.offset + 1)) ** self.length_penalty


def longest(lengths: Ids) -> Ids:
    """Return after how many words a translation is broken off.

    Parameters
    ----------
    lengths : integer array
        Words of the sources, END with them.

    Returns
    -------
    integer array
        Words of the targets.

    Examples
    --------
    >>> longest(np.array([10, 1]))
    array([25,  7])
    """
    return 2 * lengths + 5


def beam(
    network: Network,
    source: Ids,
    lengths: Ids,
    *,
    width: int = 5,
    n_best: int = 1,
    scoring: Scoring = Scoring(),
    most: Ids | None = None,
    least: int = 0,
) -> list[list[Hypothesis]]:
    """Keep the `width` most probable beginnings at every step, and return the best sentences that ended.

    It goes on until nothing that may still come can be among the `n_best`: a beginning's score can only rise by getting
    longer at no cost. With width 1 it is greedy: the most probable word at every step, up to the first END.

    Parameters
    ----------
    network : Network
        What predicts.
    source : integer array (T, B)
        Source sentences, each with END, then PAD.
    lengths : integer array (B,)
        Words of each, END with them.
    width : int
        How many beginnings are kept.
    n_best : int
        How many sentences are wanted, `width` at most.
    scoring : Scoring
        What they are ranked by.
    most : integer array (B,), optional
        After how many words each sentence is broken off; by default `longest`.
    least : int
        Before how many words none may end.

    Returns
    -------
    list of list of Hypothesis
        For each of the B sentences the best, first the very best: `n_best` unless fewer ended; if none did, the best
        beginning. Of equals, the one that ended first, then the one with the smaller numbers.

    Raises
    ------
    ValueError, TypeError
        If an argument is not what it should be, or the network predicts what is no number.

    References
    ----------
    Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.5; Huang, Zhao and Ma 2017, "When to
    Finish? Optimal Beam Search for Neural Text Generation", on when to stop.

    Examples
    --------
    >>> class Toss:  # ends with probability 1/2, else says 4; always looks at the first source word
    ...     steps = lambda self, source, lengths, width=1: self
    ...     select = keep = lambda self, kept: None
    ...     def __call__(self, words):
    ...         logits = np.full((*words.shape, 5), -np.inf)
    ...         logits[..., [2, 4]] = 0
    ...         return logits, np.broadcast_to([1.0, 0.0], (*words.shape, 2))
    >>> ((one, two),) = beam(Toss(), np.array([[4], [2]]), np.array([2]), n_best=2)
    >>> one.words, two.words, round(float(np.exp(two.log_probability)), 6)
    ((), (4,), 0.25)
    """
    _check_sentences(source, lengths)
    width = _check.whole("width", width, least=1)
    if _check.whole("n_best", n_best, least=1) > width:
        _check.fail(f"n_best must be at most width = {width}. Got {n_best} instead.")
    limits = _limits(lengths, most, least)
    kind = _Greedy if width == 1 and not scoring.coverage_penalty else _Beam
    return kind(lengths, limits, width, n_best, scoring).run(network.steps(source, lengths))


def sample(
    network: Network,
    source: Ids,
    lengths: Ids,
    *,
    rng: np.random.Generator | Sequence[np.random.Generator],
    count: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    scoring: Scoring = Scoring(),
    most: Ids | None = None,
    least: int = 0,
) -> list[list[Hypothesis]]:
    """Draw each word by chance, with the probability that the network gives it.

    Parameters
    ----------
    network : Network
        What predicts.
    source : integer array (T, B)
        Source sentences, each with END, then PAD.
    lengths : integer array (B,)
        Words of each, END with them.
    rng : numpy.random.Generator or sequence of B of them
        Chance: one generator for each sentence, or one that gives birth to them, ``rng.spawn(B)``. What is drawn for a
        sentence depends on its own one alone.
    count : int
        How many sentences are drawn for each source.
    temperature : float
        Logits are divided by it: near 0 the most probable word is always drawn, above 1 rare ones come more often.
    top_k : int, optional
        Draw among so many words only: the most probable ones, and those that tie with the last of them.
    top_p : float, optional
        Draw among the fewest words only that have so much probability together (and those that tie with the last).
    scoring : Scoring
        What their scores are.
    most : integer array (B,), optional
        After how many words each sentence is broken off; by default `longest`.
    least : int
        Before how many words none may end.

    Returns
    -------
    list of list of Hypothesis
        For each of the B sentences, `count` in the order in which they were drawn. Their probabilities are those of the
        network, whatever the temperature.

    Raises
    ------
    ValueError, TypeError
        If an argument is not what it should be, or the network predicts what is no number.

    References
    ----------
    Fan, Lewis and Dauphin 2018, "Hierarchical Neural Story Generation" (top k); Holtzman et al. 2020, "The Curious Case
    of Neural Text Degeneration" (top p).

    Examples
    --------
    >>> class Toss:  # ends with probability 1/2, else says 4; looks nowhere
    ...     steps = lambda self, source, lengths, width=1: self
    ...     select = keep = lambda self, kept: None
    ...     def __call__(self, words):
    ...         logits = np.full((*words.shape, 5), -np.inf)
    ...         logits[..., [2, 4]] = 0
    ...         return logits, np.zeros((*words.shape, 0))
    >>> source, lengths = np.array([[4], [2]]), np.array([2])
    >>> (drawn,) = sample(Toss(), source, lengths, count=1000, rng=np.random.default_rng(1))
    >>> 200 < sum(hypothesis.words == (4,) for hypothesis in drawn) < 300  # a quarter of them, more or less
    True
    """
    _check_sentences(source, lengths)
    count = _check.whole("count", count, least=1)
    choice = _Choice.checked(temperature, top_k, top_p)
    rngs = rng.spawn(len(lengths)) if isinstance(rng, np.random.Generator) else list(rng)
    if len(rngs) != len(lengths):
        _check.fail(
            f"rng must be one generator for each of {len(lengths)} sentences. Got {len(rngs)} instead."
        )
    draws = _Draws(lengths, _limits(lengths, most, least), count, scoring, choice, rngs)
    return draws.run(network.steps(source, lengths, count))


def force(
    network: Network,
    source: Ids,
    lengths: Ids,
    target: Ids,
    *,
    scoring: Scoring = Scoring(),
    posterior: bool = False,
) -> list[Hypothesis]:
    """Let the network say given sentences: how probable it finds each word, and where it looks for it.

    Parameters
    ----------
    network : Network
        What predicts.
    source : integer array (T, B)
        Source sentences, each with END, then PAD.
    lengths : integer array (B,)
        Words of each, END with them.
    target : integer array (n + 1, B)
        What is to be said: START, words, END (unless it is only a beginning), then PAD.
    scoring : Scoring
        What their scores are.
    posterior : bool
        Whether the alignment says where each word was taken from, now that it is known (see
        `regard.seq2seq.posterior`), and not where the network looked before it said it.

    Returns
    -------
    list of Hypothesis
        One for each of the B sentences.

    Raises
    ------
    ValueError, TypeError
        If an argument is not what it should be, or the network predicts what is no number.

    Examples
    --------
    >>> class Toss:  # ends with probability 1/2, else says 4; looks nowhere
    ...     steps = lambda self, source, lengths, width=1: self
    ...     select = keep = lambda self, kept: None
    ...     def __call__(self, words):
    ...         logits = np.full((*words.shape, 5), -np.inf)
    ...         logits[..., [2, 4]] = 0
    ...         return logits, np.zeros((*words.shape, 0))
    >>> (said,) = force(Toss(), np.array([[4], [2]]), np.array([2]), np.array([[1], [4], [4], [2]]))
    >>> said.words, np.exp(said.log_probabilities).round(6).tolist()
    ((4, 4), [0.5, 0.5, 0.5])
    """
    _check_sentences(source, lengths)
    if target.ndim != 2 or target.shape[1] != len(lengths) or not (target[:1] == START).all():
        _check.fail(
            f"target must be (n + 1, {len(lengths)}) and begin with START. Got shape {target.shape} instead."
        )
    counts = (target != PAD).sum(axis=0) - 1
    steps = network.steps(source, lengths)
    knowing = _knowing(steps) if posterior else None
    rows = np.arange(len(lengths))
    said: list[list[_Forced]] = [[] for _ in rows]
    for t in range(len(target) - 1):
        going = counts[rows] > t
        if not going.any():
            break
        _keep(steps, going)
        rows = rows[going]
        logits, weights = steps(target[t, rows][:, None])
        logs = logits[np.arange(len(rows)), 0, target[t + 1, rows]] - _normaliser(logits)[:, 0]
        taken = weights if knowing is None else knowing.posterior(target[t + 1, rows][:, None])
        for sentence, *step in zip(rows.tolist(), logs.tolist(), weights[:, 0], taken[:, 0], strict=True):
            said[sentence].append(_Forced(*step))
    return [
        _given(target[1 : counts[i] + 1, i], said[i], int(lengths[i]), scoring) for i in range(len(lengths))
    ]


class _Forced(NamedTuple):
    """What a forced word came to: its log-probability, where was looked before it, and where it was taken from."""

    log: float
    look: Array
    taken: Array


def _knowing(steps: Steps) -> Knowing:
    if not isinstance(steps, Knowing):
        _check.fail(
            "posterior must be False for a transformer: its words are taken from several looks at once."
        )
    return steps


def _given(target: Ids, said: Sequence[_Forced], length: int, scoring: Scoring) -> Hypothesis:
    if not said:  # START alone
        return _hypothesis((), np.zeros(0), np.zeros((0, length)), length, scoring)
    words = tuple(target[: len(target) - (target[-1:] == END).sum()].tolist())
    logs, looks = np.array([step.log for step in said], float), np.array([step.look for step in said])
    found = _hypothesis(words, logs, looks.reshape(len(said), -1)[:, :length], length, scoring)
    taken = np.array([step.taken for step in said]).reshape(len(said), -1)
    return replace(found, alignment=taken[: len(words), :length])


def _check_sentences(source: Ids, lengths: Ids) -> None:
    if source.ndim != 2 or lengths.shape != source.shape[1:]:
        _check.fail(
            f"source and lengths must be (T, B) and (B,). Got {source.shape} and {lengths.shape} instead."
        )
    if lengths.size and not 1 <= lengths.min() <= lengths.max() <= len(source):
        _check.fail(
            f"lengths must be from 1 to T = {len(source)}. Got {lengths.min()} to {lengths.max()} instead."
        )


class _Limits(NamedTuple):
    """How long the target of each sentence may be (B,), and how long each must be."""

    most: Ids
    least: int


def _limits(lengths: Ids, most: Ids | None, least: int) -> _Limits:
    most = longest(lengths) if most is None else _check.whole_array("most", most, least=1)
    if most.shape != lengths.shape:
        _check.fail(f"most must have shape {lengths.shape}. Got {most.shape} instead.")
    return _Limits(most, _check.whole("least", least))


def _keep(steps: Steps, going: Mask) -> None:
    """Go on with some of the sentences."""
    if not going.all():
        steps.keep(np.flatnonzero(going))


def _normaliser(logits: Array) -> Array:
    """Return the logarithm of the sum of the exponentials (B, k) of logits (B, k, V)."""
    return _total(sums(logits.reshape(-1, logits.shape[-1]))).reshape(logits.shape[:-1])


def _total(found: Array) -> Array:
    """Return the logarithms of sums of exponentials: the largest logits and the sums counted from there, (N, 2)."""
    totals: Array = np.log(found[:, 1]) + found[:, 0]
    wrong = ~np.isfinite(totals)
    if wrong.any():
        _check.fail(f"what the network predicts must be finite. Got {found[wrong][0, 0]!s} instead.")
    return totals


def _hypothesis(
    words: tuple[int, ...],
    logs: Array,
    weights: Array,
    length: int,
    scoring: Scoring,
    score: float | None = None,
) -> Hypothesis:
    """Put together what was said; log-probabilities (n,) and weights (n, T) are those of the words and of END."""
    if score is None:
        score = scoring(float(logs.sum()), max(len(logs), 1), _coverage(weights, length))
    return Hypothesis(words, score, logs, weights[: len(words)])


def _coverage(weights: Array, length: int) -> Array | None:
    return weights.sum(axis=0)[: length - 1] if weights.shape[-1] else None


# ------------------------------------------------------------------------------------- what was said, step by step


class _Said(NamedTuple):
    """One step: word, hypothesis before, log-probability (B', k) each; where those before looked; sentences' rows."""

    words: Ids
    parents: Ids
    logs: Array
    looks: Array
    rows: Ids


class _Ending(NamedTuple):
    """A hypothesis: what `slot` held after `step` words, and END's log-probability, None if it was broken off."""

    score: float
    step: int
    slot: int
    end: float | None


_Found = tuple[
    int, _Ending, float | None
]  # a sentence, one of its hypotheses, and that one's score if it is known


class _Trail:
    """What was said and where it came from, so that every hypothesis can be walked back to its beginning."""

    def __init__(self, lengths: Ids, scoring: Scoring) -> None:
        self.lengths, self.scoring = lengths, scoring
        self.steps: list[_Said] = []

    def hypotheses(self, found: Sequence[_Found]) -> list[list[Hypothesis]]:
        """Return what was found for each sentence; scores are computed unless they are known."""
        if not found:
            return [[] for _ in self.lengths]
        walked = self._walk(found)
        made: list[list[Hypothesis]] = [[] for _ in self.lengths]
        for i, (sentence, ending, score) in enumerate(found):
            count, length = ending.step + (ending.end is not None), int(self.lengths[sentence])
            words = tuple(walked.words[i, : ending.step].tolist())
            logs, looks = walked.logs[i, :count].copy(), walked.looks[i, :count, :length].copy()
            made[sentence].append(_hypothesis(words, logs, looks, length, self.scoring, score))
        return made

    def _walk(self, found: Sequence[_Found]) -> _Walked:
        """Go back from all endings together."""
        sentences, ends, slots = (
            np.array(numbers)
            for numbers in zip(
                *((sentence, ending.step, ending.slot) for sentence, ending, _ in found), strict=True
            )
        )
        last, looks = int(ends.max()) + 1, self.steps[0].looks
        walked = _Walked.room(len(found), last, looks.shape[-1], looks.dtype)
        looked = ends.copy()  # END comes after a look, too
        for i, (_, ending, _) in enumerate(found):
            if ending.end is not None:
                walked.logs[i, ending.step], looked[i] = ending.end, ending.step + 1
        for t in reversed(range(min(last, len(self.steps)))):
            said, going = self.steps[t], np.flatnonzero(ends > t)
            at = said.rows[sentences[going]], slots[going]
            walked.words[going, t], walked.logs[going, t] = said.words[at], said.logs[at]
            slots[going] = said.parents[at]
            going = np.flatnonzero(looked > t)
            walked.looks[going, t] = said.looks[said.rows[sentences[going]], slots[going]]
        return walked


class _Walked(NamedTuple):
    """Words, their log-probabilities (H, n) and where was looked before them (H, n, T), of H hypotheses."""

    words: Ids
    logs: Array
    looks: Array

    @classmethod
    def room(cls, count: int, steps: int, positions: int, dtype: Any) -> _Walked:
        """Return arrays to be filled."""
        shape = count, steps
        return cls(np.zeros(shape, np.int64), np.zeros(shape), np.zeros((*shape, positions), dtype))


def _forbid(logits: Array, *, end: bool) -> None:
    """Let PAD and START never follow, nor END where it is too early."""
    logits[..., [PAD, START, END] if end else [PAD, START]] = -np.inf


# ----------------------------------------------------------------------------------------------------------- beam


class _Beam:
    """The beginnings of B' sentences that go on, at most `width` of each, the best first."""

    def __init__(self, lengths: Ids, limits: _Limits, width: int, n_best: int, scoring: Scoring) -> None:
        self.trail, self.limits, self.scoring = _Trail(lengths, scoring), limits, scoring
        self.width, self.n_best = width, n_best
        self.asked = (
            width + 1
        )  # words after each: one may be END, all others that are kept may have one beginning
        self.sentences = np.arange(len(lengths))  # (B',): which ones go on
        self.rows = np.arange(len(lengths))  # (B,): where they are among those
        self.sums = np.zeros(
            (len(lengths), 1)
        )  # (B', k'): log-probabilities; -inf in a place that is not used
        self.coverage: Any = 0.0  # (B', k', T): how much was looked at each source word
        self.done: list[list[_Ending]] = [[] for _ in lengths]  # the best that ended
        self.broken: dict[int, _Ending] = {}
        self.bars = np.full(
            len(lengths), -np.inf
        )  # (B,): what a further sentence must score to be among the best

    def run(self, steps: Steps) -> list[list[Hypothesis]]:
        """Search to the end."""
        rank, words = _ranker(steps), np.full((len(self.sentences), 1), START)
        while words.size:
            early = len(self.trail.steps) < self.limits.least
            found, weights = rank(words, self.asked, (END if early else START) + 1)
            words, parents, going = self.step(found, weights)
            if going.any():
                _keep(steps, going)
                steps.select(parents)
        endings = [ending for sentence in range(len(self.done)) for ending in self._found(sentence)]
        return self.trail.hypotheses(endings)

    def _found(self, sentence: int) -> list[_Found]:
        """Return what ended, the best first; or the best beginning, if nothing did."""
        if done := self.done[sentence]:
            return [(sentence, ending, ending.score) for ending in done]
        return [(sentence, self.broken[sentence], None)]

    def step(self, found: Tops, weights: Array) -> tuple[Ids, Ids, Mask]:
        """Take one word more; return the last words (B', k') and their parents of the sentences (mask) that go on."""
        step = len(self.trail.steps)
        totals, parents, words = _likeliest(found, self.sums, 2 * self.width)  # half of them may be ENDs
        np.minimum(totals, 0, out=totals)
        rows = np.arange(len(parents))[:, None]
        logs = np.zeros_like(totals)
        np.subtract(totals, self.sums[rows, parents], out=logs, where=totals > -np.inf)
        if self.scoring.coverage_penalty:
            self.coverage = self.coverage + weights
        ends = (words == END) & np.isfinite(totals)
        self._finish(step, totals, logs, parents, ends[:, : self.width])
        live = self._live(totals, ends)
        grown: Mask = np.asarray(live.any(axis=1))
        going = grown & (step + 1 < self.limits.most[self.sentences])
        order = np.argsort(~live, axis=1, kind="stable")[:, : max(1, int(live.sum(axis=1).max()))]
        words, parents, logs = words[rows, order], parents[rows, order], logs[rows, order]
        totals = np.where(live, totals, -np.inf)[rows, order]
        self.trail.steps.append(_Said(words, parents, logs, weights, self.rows))
        self._break_off(~going, step, grown)
        self._narrow(going, totals, parents)
        return words[going], parents[going], going

    def _finish(self, step: int, totals: Array, logs: Array, parents: Ids, ends: Mask) -> None:
        """Keep the sentences that end among the k best, if they are among the `n_best` so far."""
        best = totals[:, : self.width] / self.scoring.divisor(step + 1)  # if all source words were looked at
        for row, rank in np.argwhere(ends & (best > self.bars[self.sentences, None])).tolist():
            sentence, slot = int(self.sentences[row]), int(parents[row, rank])
            score = self.scoring(float(totals[row, rank]), step + 1, self._coverage(row, slot))
            done = self.done[sentence]
            done.append(_Ending(score, step, slot, float(logs[row, rank])))
            done.sort(key=lambda ending: -ending.score)  # of equals, the first that ended stays first
            del done[self.n_best :]
            if len(done) == self.n_best:
                self.bars[sentence] = done[-1].score

    def _coverage(self, row: int, slot: int) -> Array | None:
        if not self.scoring.coverage_penalty or not self.coverage.shape[-1]:
            return None
        length = int(self.trail.lengths[self.sentences[row]])
        covered: Array = self.coverage[row, slot, : length - 1]
        return covered

    def _live(self, totals: Array, ends: Mask) -> Mask:
        """Say which beginnings are kept: the most probable ones, if they can still become one of the best."""
        # What is left out can't push better ones away: all that is less probable is left out, too.
        limits = self.scoring.divisor(self.limits.most[self.sentences])
        live: Mask = ~ends & (totals / limits[:, None] > self.bars[self.sentences, None])
        if self.width == 1:
            live[ends[:, 0]] = False
        live &= np.cumsum(live, axis=1) <= self.width
        return live

    def _break_off(self, over: Mask, step: int, grown: Mask) -> None:
        for row in np.flatnonzero(over).tolist():
            sentence = int(self.sentences[row])
            if not self.done[sentence]:
                self.broken[sentence] = _Ending(0.0, step + bool(grown[row]), 0, None)

    def _narrow(self, going: Mask, sums: Array, parents: Ids) -> None:
        """Go on with some of the sentences."""
        self.sums = sums[going]
        if self.scoring.coverage_penalty:
            self.coverage = np.take_along_axis(self.coverage[going], parents[going, :, None], axis=1)
        if not going.all():
            self.sentences, self.rows = self.sentences[going], self.rows.copy()
            self.rows[self.sentences] = np.arange(len(self.sentences))


class _Greedy(_Beam):
    """A beam of one without most of its bookkeeping: of what is likeliest, no second is ever needed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked = 1

    def step(self, found: Tops, weights: Array) -> tuple[Ids, Ids, Mask]:
        step, words = len(self.trail.steps), found.words
        totals = np.minimum(found.best + (self.sums - _total(found.sums)[:, None]), 0)
        possible = totals[:, 0] > -np.inf
        ends = possible & (words[:, 0] == END)
        logs = np.zeros_like(totals)
        np.subtract(totals, self.sums, out=logs, where=possible[:, None])
        for row in np.flatnonzero(ends).tolist():
            score = self.scoring(float(totals[row, 0]), step + 1, None)
            self.done[int(self.sentences[row])].append(_Ending(score, step, 0, float(logs[row, 0])))
        going: Mask = possible & ~ends & (step + 1 < self.limits.most[self.sentences])
        parents = np.zeros_like(words)
        self.trail.steps.append(_Said(words, parents, logs, weights, self.rows))
        if not going.all():
            self._break_off(~going & ~ends, step, possible)
        self._narrow(going, totals, parents)
        return words[going], parents[going], going


def _ranker(steps: Steps) -> Callable[[Ids, int, int], tuple[Tops, Array]]:
    """Return what finds the likeliest words after words (B, k), from a first one on, and where was looked."""
    if isinstance(steps, Ranking):
        return steps.rank

    def rank(words: Ids, count: int, first: int) -> tuple[Tops, Array]:
        logits, weights = steps(words)
        return tops(logits.reshape(words.size, -1), count, first), weights

    return rank


def _likeliest(found: Tops, before: Array, most: int) -> tuple[Array, Ids, Ids]:
    """Return the best beginnings that are a word longer: log-probabilities (B, most), falling; slots and words.

    Of equals, the smaller slot comes first, then the smaller word.
    """
    (batch, width), count = before.shape, found.best.shape[1]
    offsets = before - _total(found.sums).reshape(batch, width)
    totals = (found.best.reshape(batch, width, count) + offsets[:, :, None]).reshape(batch, width * count)
    order = np.argsort(-totals, axis=1, kind="stable")[:, :most]
    rows = np.arange(batch)[:, None]
    return totals[rows, order], order // count, found.words.reshape(batch, width * count)[rows, order]


# --------------------------------------------------------------------------------------------------------- sample


@dataclass(frozen=True)
class _Choice:
    """How a word is drawn."""

    temperature: float
    top_k: int | None
    top_p: float | None

    @classmethod
    def checked(cls, temperature: float, top_k: int | None, top_p: float | None) -> _Choice:
        temperature = _check.number("temperature", temperature, positive=True)
        if top_k is not None:
            top_k = _check.whole("top_k", top_k, least=1)
        if top_p is not None and _check.number("top_p", top_p, positive=True) > 1:
            _check.fail(f"top_p must be at most 1. Got {top_p!r} instead.")
        return cls(temperature, top_k, top_p)

    def __call__(self, logits: Array, chance: Array) -> Ids:
        """Draw a word for each row of logits (B, k, V) with a number (B, k) from 0 to 1."""
        p = np.subtract(logits, logits.max(axis=-1, keepdims=True), dtype=float)
        p /= self.temperature
        np.exp(p, out=p)
        if self.top_k is not None and self.top_k < p.shape[-1]:
            p[p < np.partition(p, -self.top_k, axis=-1)[..., [-self.top_k]]] = 0
        if self.top_p is not None:
            p[p < self._least_of_top(p)] = 0
        sums = np.cumsum(p, axis=-1, out=p)
        aims = np.minimum(chance[..., None] * sums[..., -1:], np.nextafter(sums[..., -1:], 0))
        drawn: Ids = (sums <= aims).sum(axis=-1)
        return drawn

    def _least_of_top(self, p: Array) -> Array:
        """Return the smallest (B, k, 1) of the probabilities that make up `top_p` together."""
        falling = -np.sort(-p, axis=-1)
        sums = np.cumsum(falling, axis=-1)
        last = (sums[..., :-1] < self.top_p * sums[..., -1:]).sum(axis=-1, keepdims=True)
        return np.take_along_axis(falling, last, axis=-1)


class _Draws:
    """What is being drawn for B' sentences, until each of the `count` samples has ended."""

    def __init__(
        self,
        lengths: Ids,
        limits: _Limits,
        count: int,
        scoring: Scoring,
        choice: _Choice,
        rngs: Sequence[np.random.Generator],
    ) -> None:
        self.trail, self.limits = _Trail(lengths, scoring), limits
        self.choice, self.rngs = choice, rngs
        self.sentences = np.arange(len(lengths))  # (B',): which ones go on
        self.rows = np.arange(len(lengths))  # (B,): where they are among those
        self.which = np.tile(
            np.arange(count), (len(lengths), 1)
        )  # (B', k'): which sample is there; -1 none any more
        self.done: list[dict[int, _Ending]] = [{} for _ in lengths]

    def run(self, steps: Steps) -> list[list[Hypothesis]]:
        """Draw to the end."""
        words = np.full(self.which.shape, START)
        while words.size:
            logits, weights = steps(words)
            words, parents, going = self.step(logits, weights)
            if going.any():
                _keep(steps, going)
                steps.select(parents)
        found = [
            (sentence, done[sample], None)
            for sentence, done in enumerate(self.done)
            for sample in sorted(done)
        ]
        return self.trail.hypotheses(found)

    def step(self, logits: Array, weights: Array) -> tuple[Ids, Ids, Mask]:
        """Draw one word more; return the last words (B', k') and their parents of the sentences (mask) that go on."""
        step = len(self.trail.steps)
        normaliser = _normaliser(logits)
        _forbid(logits, end=step < self.limits.least)
        words = self.choice(logits, self._chance())
        logs = np.take_along_axis(logits, words[:, :, None], axis=2)[:, :, 0].astype(float) - normaliser
        ended = (words == END) & (self.which >= 0)
        for row, slot in np.argwhere(ended).tolist():
            self._done(row, slot, _Ending(0.0, step, slot, float(logs[row, slot])))
        live = (self.which >= 0) & ~ended
        parents = np.argsort(~live, axis=1, kind="stable")[:, : max(1, int(live.sum(axis=1).max()))]
        self.which = np.where(live, self.which, -1)
        self.which, words, logs = (np.take_along_axis(x, parents, axis=1) for x in (self.which, words, logs))
        self.trail.steps.append(_Said(words, parents, logs, weights, self.rows))
        over = step + 1 >= self.limits.most[self.sentences]
        for row, slot in np.argwhere(over[:, None] & (self.which >= 0)).tolist():
            self._done(row, slot, _Ending(0.0, step + 1, slot, None))
        going = live.any(axis=1) & ~over
        self._narrow(going)
        return words[going], parents[going], going

    def _chance(self) -> Array:
        """Return a number (B', k') for each sample, from its sentence's own generator."""
        chance = np.zeros(self.which.shape)
        for row, sentence in enumerate(self.sentences.tolist()):
            count = int((self.which[row] >= 0).sum())
            chance[row, :count] = self.rngs[sentence].random(count)
        return chance

    def _done(self, row: int, slot: int, ending: _Ending) -> None:
        self.done[int(self.sentences[row])][int(self.which[row, slot])] = ending

    def _narrow(self, going: Mask) -> None:
        """Go on with some of the sentences."""
        self.which = self.which[going]
        if not going.all():
            self.sentences, self.rows = self.sentences[going], self.rows.copy()
            self.rows[self.sentences] = np.arange(len(self.sentences))
