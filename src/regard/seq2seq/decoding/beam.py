"""Beam search and greedy search, with an alignment of every hypothesis.

Letters: B sentences, T source positions, n target tokens, V size of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.kernels.search import Aims, Found, NotFinite
from regard.seq2seq.data.vocabulary import END, START
from regard.seq2seq.decoding.hypothesis import BackPointers, Ending, Hypothesis, Scoring, SearchStep
from regard.seq2seq.decoding.search import (
    FIRST,
    check_sentences,
    first_rows,
    in_rows,
    keep,
    limits,
    log_totals,
    next_rows,
    refuse,
)
from regard.seq2seq.networks.base import Predictor, Stepper
from regard.seq2seq.networks.top_tokens import TopTokens

__all__ = ["BEAM", "beam"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

BEAM = 5  # hypotheses, by default


def beam(
    network: Predictor,
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
    network : Predictor
        A network, or an ensemble.
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
    >>> from regard.seq2seq.networks.base import Stepper
    >>> class Toss(Stepper):  # ends with probability 1/2, else says 4; always looks at the first source word
    ...     stepper = lambda self, source, lengths, width=1: self
    ...     select = keep = lambda self, kept: None
    ...     def __call__(self, words):
    ...         logits = np.full((*words.shape, 5), -np.inf)
    ...         logits[..., [2, 4]] = 0
    ...         return logits, np.broadcast_to([1.0, 0.0], (*words.shape, 2))
    >>> ((one, two),) = beam(Toss(), np.array([[4], [2]]), np.array([2]), n_best=2)
    >>> one.words, two.words, round(float(np.exp(two.log_probability)), 6)
    ((), (4,), 0.25)
    """
    check_sentences(source, lengths)
    width = _check.whole("width", width, least=1)
    if _check.whole("n_best", n_best, least=1) > width:
        _check.fail(f"n_best must be at most width = {width}. Got {n_best} instead.")
    most = limits(lengths, most)
    stepper = network.stepper(source, lengths)
    if not scoring.coverage_penalty:
        aims = Aims(START, END, width, n_best, most, scoring.length_penalty, scoring.offset)
        if (found := _in_one_call(stepper, aims)) is not None:
            return _hypotheses(found, lengths, scoring)
    search = _Greedy if width == 1 and not scoring.coverage_penalty else _Beam
    return search(lengths, most, width, n_best, scoring).run(stepper)


def _in_one_call(stepper: Stepper, aims: Aims) -> Found | None:
    """Return what the network's own search finds, None where it has none."""
    try:
        return stepper.beam(aims)
    except NotFinite as wrong:
        predicted = wrong
    refuse(predicted)


def _hypotheses(found: Found, lengths: Ids, scoring: Scoring) -> list[list[Hypothesis]]:
    search = BackPointers(lengths, scoring)
    search.steps += found.steps
    return search.hypotheses(
        [(sentence, ending) for sentence, of_it in enumerate(found.endings) for ending in of_it]
    )


def _badness(ending: Ending) -> float:
    """Return what is less for better sentences."""
    return -ending.score if ending.score is not None else np.inf


class _Beam:
    """The beginnings of B' sentences that go on, at most `width` of each, the best first."""

    def __init__(self, lengths: Ids, most: Ids, width: int, n_best: int, scoring: Scoring) -> None:
        self.search, self.most, self.scoring = BackPointers(lengths, scoring), most, scoring
        self.width, self.n_best = width, n_best
        self.asked = (
            width + 1
        )  # words after each: one may be END, all others that are kept may have one beginning
        self.sentences = np.arange(len(lengths))  # (B',): which ones go on
        self.last = first_rows(len(lengths))
        self.sums = np.zeros(
            (len(lengths), 1)
        )  # (B', k'): log-probabilities; -inf in a place that is not used
        self.coverage: Any = 0.0  # (B', k', T): how much was looked at each source word
        self.done: list[list[Ending]] = [[] for _ in lengths]  # the best that ended
        self.broken: dict[int, Ending] = {}
        self.bars = np.full(
            len(lengths), -np.inf
        )  # (B,): what a further sentence must score to be among the best

    def run(self, stepper: Stepper) -> list[list[Hypothesis]]:
        """Search to the end."""
        tokens = np.full((len(self.sentences), 1), START)
        while tokens.size:
            found, weights = stepper.top(tokens, self.asked, FIRST)
            tokens, parents, going = self.step(found, weights)
            if going.any():
                keep(stepper, going)
                stepper.select(parents)
        endings = [ending for sentence in range(len(self.done)) for ending in self._found(sentence)]
        return self.search.hypotheses(endings)

    def _found(self, sentence: int) -> list[tuple[int, Ending]]:
        """Return what ended, the best first; or the best beginning, if nothing did."""
        return [(sentence, ending) for ending in self.done[sentence] or [self.broken[sentence]]]

    def step(self, found: TopTokens, weights: Array) -> tuple[Ids, Ids, Mask]:
        """Take one word more; return the last words (B', k') and their parents of the sentences (mask) that go on."""
        step = len(self.search.steps)
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
        self.search.steps.append(SearchStep(*self.last, in_rows(weights)))
        self._break_off(~going, grown, words, parents, logs)
        self.last = next_rows(going, self.sums.shape[1], words, parents, logs)
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
        length = int(self.search.lengths[self.sentences[row]])
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
        step, width = len(self.search.steps) - 1, self.sums.shape[1]
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

    def step(self, found: TopTokens, weights: Array) -> tuple[Ids, Ids, Mask]:
        step, words = len(self.search.steps), found.tokens
        totals = np.minimum(found.best + (self.sums - log_totals(found.sums)[:, None]), 0)
        possible = totals[:, 0] > -np.inf
        ends = possible & (words[:, 0] == END)
        logs = np.zeros_like(totals)
        np.subtract(totals, self.sums, out=logs, where=possible[:, None])
        for row in np.flatnonzero(ends).tolist():
            score = self.scoring(float(totals[row, 0]), step + 1, None)
            self.done[int(self.sentences[row])].append(Ending(score, step, row, END, float(logs[row, 0])))
        going: Mask = possible & ~ends & (step + 1 < self.most[self.sentences])
        parents = np.zeros_like(words)
        self.search.steps.append(SearchStep(*self.last, in_rows(weights)))
        if not going.all():
            self._break_off(~going & ~ends, possible, words, parents, logs)
        self.last = next_rows(going, 1, words, parents, logs)
        self._narrow(going, totals, parents)
        return words[going], parents[going], going


def _likeliest(found: TopTokens, before: Array, most: int) -> tuple[Array, Ids, Ids]:
    """Return the best beginnings that are a word longer: log-probabilities (B, most), falling; slots and words.

    Of equals, the smaller slot comes first, then the smaller word.
    """
    (batch, width), count = before.shape, found.best.shape[1]
    offsets = before - log_totals(found.sums).reshape(batch, width)
    totals = (found.best.reshape(batch, width, count) + offsets[:, :, None]).reshape(batch, width * count)
    order = np.argsort(-totals, axis=1, kind="stable")[:, :most]
    rows = np.arange(batch)[:, None]
    return totals[rows, order], order // count, found.tokens.reshape(batch, width * count)[rows, order]
