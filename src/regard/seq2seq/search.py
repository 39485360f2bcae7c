"""Finding target sentences word by word: the best by beam, drawn by chance, or given; each with where it looked.

Letters: B sentences, T source positions, n target words, V words of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.kernels.search import Aims, NotFinite
from regard.seq2seq.network import Knowing, Predicting, Ranking, Searching, Steps
from regard.seq2seq.ranking import Tops, sums, tops
from regard.seq2seq.text import END, PAD, START
from regard.seq2seq.trail import LARGEST_PENALTY, Ending, Hypothesis, Said, Scoring, Trail, hypothesis

__all__ = ["BEAM", "LARGEST_PENALTY", "Hypothesis", "Scoring", "beam", "force", "longest", "sample"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

BEAM = 5  # hypotheses that are followed, where nobody says otherwise
_FIRST = END  # of the words that may follow: neither PAD nor START


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
    network: Predicting,
    source: Ids,
    lengths: Ids,
    *,
    width: int = BEAM,
    n_best: int = 1,
    scoring: Scoring = Scoring(),
    most: Ids | None = None,
) -> list[list[Hypothesis]]:
    """Keep the `width` most probable beginnings at every step, and return the best sentences that ended.

    It goes on until nothing that may still come can be among the `n_best`: a beginning's score can only rise by getting
    longer at no cost. With width 1 it is greedy: the most probable word at every step, up to the first END.

    Parameters
    ----------
    network : Predicting
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
    most = _longest(lengths, most)
    steps = network.steps(source, lengths)
    if isinstance(steps, Searching) and not scoring.coverage_penalty:
        return _at_once(steps, lengths, most, width, n_best, scoring)
    kind = _Greedy if width == 1 and not scoring.coverage_penalty else _Beam
    return kind(lengths, most, width, n_best, scoring).run(steps)


def sample(
    network: Predicting,
    source: Ids,
    lengths: Ids,
    *,
    rng: np.random.Generator | int | Sequence[np.random.Generator] | None,
    count: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    scoring: Scoring = Scoring(),
    most: Ids | None = None,
) -> list[list[Hypothesis]]:
    """Draw each word by chance, with the probability that the network gives it.

    Parameters
    ----------
    network : Predicting
        What predicts.
    source : integer array (T, B)
        Source sentences, each with END, then PAD.
    lengths : integer array (B,)
        Words of each, END with them.
    rng : numpy.random.Generator, int, None or sequence of B generators
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
    rngs = list(rng) if isinstance(rng, Sequence) else _check.generator("rng", rng).spawn(len(lengths))
    if len(rngs) != len(lengths):
        _check.fail(
            f"rng must be one generator for each of {len(lengths)} sentences. Got {len(rngs)} instead."
        )
    draws = _Draws(lengths, _longest(lengths, most), count, scoring, choice, rngs)
    return draws.run(network.steps(source, lengths, count))


def force(
    network: Predicting,
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
    network : Predicting
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
            "posterior must be False for a transformer, alone or among others: its words are taken from several looks "
            "at once."
        )
    return steps


def _given(target: Ids, said: Sequence[_Forced], length: int, scoring: Scoring) -> Hypothesis:
    if not said:  # START alone
        return hypothesis((), np.zeros(0), np.zeros((0, length)), length, scoring)
    words = tuple(target[: len(target) - (target[-1:] == END).sum()].tolist())
    logs, looks = np.array([step.log for step in said], float), np.array([step.look for step in said])
    found = hypothesis(words, logs, looks.reshape(len(said), -1)[:, :length], length, scoring)
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


def _longest(lengths: Ids, most: Ids | None) -> Ids:
    """Return how long the target of each sentence may be (B,)."""
    most = longest(lengths) if most is None else _check.whole_array("most", most, least=1)
    if most.shape != lengths.shape:
        _check.fail(f"most must have shape {lengths.shape}. Got {most.shape} instead.")
    return most


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
        largest = found[wrong][0, 0]
        _refuse(largest if largest == np.inf else totals[wrong][0])
    return totals


def _refuse(predicted: Any) -> NoReturn:
    _check.fail(f"what the network predicts must be finite. Got {predicted!s} instead.")


def _beginning(sentences: int, width: int = 1) -> tuple[Ids, Ids, Array]:
    """Return what all hypotheses have said before the first step: START."""
    rows = sentences * width
    return np.full(rows, START), np.arange(rows), np.zeros(rows)


def _go_on(going: Mask, width: int, words: Ids, parents: Ids, logs: Array) -> tuple[Ids, Ids, Array]:
    """Return what the hypotheses of the sentences that go on have said; `width` of each were rows before."""
    rows = np.flatnonzero(going)[:, None] * width + parents[going]
    return words[going].reshape(-1), rows.reshape(-1), logs[going].reshape(-1)


def _in_rows(weights: Array) -> Array:
    batch, width, positions = weights.shape
    return weights.reshape(batch * width, positions)


def _badness(ending: Ending) -> float:
    """Return what is less for better sentences."""
    return -ending.score if ending.score is not None else np.inf


# ----------------------------------------------------------------------------------------------------------- beam


def _at_once(
    steps: Searching, lengths: Ids, most: Ids, width: int, n_best: int, scoring: Scoring
) -> list[list[Hypothesis]]:
    """Let the network search by itself: what `_Beam` does, without a penalty for what was not looked at."""
    penalty, offset = scoring.length_penalty, scoring.offset
    wrong: NotFinite | None = None
    try:
        found = steps.beam(Aims(START, END, width, n_best, most, penalty, offset))
    except NotFinite as refused:
        wrong = refused
    if wrong:
        _refuse(wrong)
    trail = Trail(lengths, scoring)
    trail.steps += [Said(*said) for said in found.steps]
    return trail.hypotheses(
        [(sentence, Ending(*ending)) for sentence, of_it in enumerate(found.endings) for ending in of_it]
    )


class _Beam:
    """The beginnings of B' sentences that go on, at most `width` of each, the best first."""

    def __init__(self, lengths: Ids, most: Ids, width: int, n_best: int, scoring: Scoring) -> None:
        self.trail, self.most, self.scoring = Trail(lengths, scoring), most, scoring
        self.width, self.n_best = width, n_best
        self.asked = (
            width + 1
        )  # words after each: one may be END, all others that are kept may have one beginning
        self.sentences = np.arange(len(lengths))  # (B',): which ones go on
        self.said = _beginning(len(lengths))
        self.sums = np.zeros(
            (len(lengths), 1)
        )  # (B', k'): log-probabilities; -inf in a place that is not used
        self.coverage: Any = 0.0  # (B', k', T): how much was looked at each source word
        self.done: list[list[Ending]] = [[] for _ in lengths]  # the best that ended
        self.broken: dict[int, Ending] = {}
        self.bars = np.full(
            len(lengths), -np.inf
        )  # (B,): what a further sentence must score to be among the best

    def run(self, steps: Steps) -> list[list[Hypothesis]]:
        """Search to the end."""
        rank, words = _ranker(steps), np.full((len(self.sentences), 1), START)
        while words.size:
            found, weights = rank(words, self.asked, _FIRST)
            words, parents, going = self.step(found, weights)
            if going.any():
                _keep(steps, going)
                steps.select(parents)
        endings = [ending for sentence in range(len(self.done)) for ending in self._found(sentence)]
        return self.trail.hypotheses(endings)

    def _found(self, sentence: int) -> list[tuple[int, Ending]]:
        """Return what ended, the best first; or the best beginning, if nothing did."""
        return [(sentence, ending) for ending in self.done[sentence] or [self.broken[sentence]]]

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
        going = grown & (step + 1 < self.most[self.sentences])
        order = np.argsort(~live, axis=1, kind="stable")[:, : max(1, int(live.sum(axis=1).max()))]
        words, parents, logs = words[rows, order], parents[rows, order], logs[rows, order]
        totals = np.where(live, totals, -np.inf)[rows, order]
        self.trail.steps.append(Said(*self.said, _in_rows(weights)))
        self._break_off(~going, grown, words, parents, logs)
        self.said = _go_on(going, self.sums.shape[1], words, parents, logs)
        self._narrow(going, totals, parents)
        return words[going], parents[going], going

    def _finish(self, step: int, totals: Array, logs: Array, parents: Ids, ends: Mask) -> None:
        """Keep the sentences that end among the k best, if they are among the `n_best` so far."""
        best = totals[:, : self.width] / self.scoring.divisor(step + 1)  # if all source words were looked at
        for row, rank in np.argwhere(ends & (best > self.bars[self.sentences, None])).tolist():
            sentence, slot = int(self.sentences[row]), int(parents[row, rank])
            score = self.scoring(float(totals[row, rank]), step + 1, self._coverage(row, slot))
            done = self.done[sentence]
            place = row * self.sums.shape[1] + slot
            done.append(Ending(score, step, place, END, float(logs[row, rank])))
            done.sort(key=_badness)  # of equals, the first that ended stays first
            del done[self.n_best :]
            if len(done) == self.n_best:
                self.bars[sentence] = -_badness(done[-1])

    def _coverage(self, row: int, slot: int) -> Array | None:
        if not self.scoring.coverage_penalty or not self.coverage.shape[-1]:
            return None
        length = int(self.trail.lengths[self.sentences[row]])
        covered: Array = self.coverage[row, slot, : length - 1]
        return covered

    def _live(self, totals: Array, ends: Mask) -> Mask:
        """Say which beginnings are kept: the most probable ones, if they can still become one of the best."""
        # What is left out can't push better ones away: all that is less probable is left out, too.
        limits = self.scoring.divisor(self.most[self.sentences])
        live: Mask = ~ends & (totals / limits[:, None] > self.bars[self.sentences, None])
        if self.width == 1:
            live[ends[:, 0]] = False
        live &= np.cumsum(live, axis=1) <= self.width
        return live

    def _break_off(self, over: Mask, grown: Mask, words: Ids, parents: Ids, logs: Array) -> None:
        """Keep the best beginnings of sentences that may not go on, where nothing ended."""
        step, width = len(self.trail.steps) - 1, self.sums.shape[1]
        for row in np.flatnonzero(over).tolist():
            sentence = int(self.sentences[row])
            if not self.done[sentence]:
                last = int(words[row, 0]) if grown[row] else None
                place = row * width + (int(parents[row, 0]) if grown[row] else 0)
                self.broken[sentence] = Ending(None, step, place, last, float(logs[row, 0]))

    def _narrow(self, going: Mask, sums: Array, parents: Ids) -> None:
        """Go on with some of the sentences."""
        self.sums = sums[going]
        if self.scoring.coverage_penalty:
            self.coverage = np.take_along_axis(self.coverage[going], parents[going, :, None], axis=1)
        if not going.all():
            self.sentences = self.sentences[going]


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
            self.done[int(self.sentences[row])].append(Ending(score, step, row, END, float(logs[row, 0])))
        going: Mask = possible & ~ends & (step + 1 < self.most[self.sentences])
        parents = np.zeros_like(words)
        self.trail.steps.append(Said(*self.said, _in_rows(weights)))
        if not going.all():
            self._break_off(~going & ~ends, possible, words, parents, logs)
        self.said = _go_on(going, 1, words, parents, logs)
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
        if top_p is not None:
            top_p = _check.number("top_p", top_p, positive=True, most=1)
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
        most: Ids,
        count: int,
        scoring: Scoring,
        choice: _Choice,
        rngs: Sequence[np.random.Generator],
    ) -> None:
        self.trail, self.most = Trail(lengths, scoring), most
        self.choice, self.rngs = choice, rngs
        self.sentences = np.arange(len(lengths))  # (B',): which ones go on
        self.said = _beginning(len(lengths), count)
        self.which = np.tile(
            np.arange(count), (len(lengths), 1)
        )  # (B', k'): which sample is there; -1 none any more
        self.done: list[dict[int, Ending]] = [{} for _ in lengths]

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
            (sentence, done[sample]) for sentence, done in enumerate(self.done) for sample in sorted(done)
        ]
        return self.trail.hypotheses(found)

    def step(self, logits: Array, weights: Array) -> tuple[Ids, Ids, Mask]:
        """Draw one word more; return the last words (B', k') and their parents of the sentences (mask) that go on."""
        step, slots = len(self.trail.steps), self.which.shape[1]
        normaliser = _normaliser(logits)
        logits[..., :_FIRST] = -np.inf
        words = self.choice(logits, self._chance())
        logs = np.take_along_axis(logits, words[:, :, None], axis=2)[:, :, 0].astype(float) - normaliser
        here, ended = self.which >= 0, words == END
        over = step + 1 >= self.most[self.sentences]
        for row, slot in np.argwhere(here & (ended | over[:, None])).tolist():
            last = Ending(None, step, row * slots + slot, int(words[row, slot]), float(logs[row, slot]))
            self.done[int(self.sentences[row])][int(self.which[row, slot])] = last
        live = here & ~ended
        parents = np.argsort(~live, axis=1, kind="stable")[:, : max(1, int(live.sum(axis=1).max()))]
        self.which = np.where(live, self.which, -1)
        self.which, words, logs = (np.take_along_axis(x, parents, axis=1) for x in (self.which, words, logs))
        self.trail.steps.append(Said(*self.said, _in_rows(weights)))
        going = live.any(axis=1) & ~over
        self.said = _go_on(going, slots, words, parents, logs)
        self.which, self.sentences = self.which[going], self.sentences[going]
        return words[going], parents[going], going

    def _chance(self) -> Array:
        """Return a number (B', k') for each sample, from its sentence's own generator."""
        chance = np.zeros(self.which.shape)
        for row, sentence in enumerate(self.sentences.tolist()):
            count = int((self.which[row] >= 0).sum())
            chance[row, :count] = self.rngs[sentence].random(count)
        return chance
