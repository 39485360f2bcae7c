"""Beam search and greedy search, with an alignment of every hypothesis.

Letters: B sentences, T source positions, n target tokens, V size of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
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
)
from regard.seq2seq.networks.base import Predictor, Stepper
from regard.seq2seq.networks.top_tokens import TopTokens
from regard.seq2seq.sources.text.vocabulary import END, START

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
    """Keep the `width` most probable partial translations at every step, and return the best complete ones.

    The search stops when no partial translation can become one of the `n_best` any more. With width 1 it is greedy: the
    most probable token at every step, up to the first END.

    `network`: a network, or an ensemble; `source` (T, B): source sentences, each with END, padded with PAD; `lengths`
    (B,): tokens of each, END included; `width`: the beam size; `n_best`: how many hypotheses are returned, `width` at
    most; `scoring`: the score they are ranked by; `most` (B,): the most tokens of each target, where it is cut off;
    by default `longest`.

    Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.5; Huang, Zhao and Ma 2017, "When
    to Finish? Optimal Beam Search for Neural Text Generation", on when to stop.
    """
    check_sentences(source, lengths)
    width = _check.integer("width", width, least=1)
    if _check.integer("n_best", n_best, least=1) > width:
        _check.fail(f"n_best must be at most width = {width}. Got {n_best} instead.")
    most = limits(lengths, most)
    stepper = network.stepper(source, lengths)
    search = _Greedy if width == 1 and not scoring.coverage_penalty else _Beam
    return search(lengths, most, width, n_best, scoring).run(stepper)


def _badness(ending: Ending) -> float:
    """Return a sort key, smaller for better sentences."""
    return -ending.score if ending.score is not None else np.inf


class _Beam:
    """The partial translations of B' sentences that continue, at most `width` of each, the best first."""

    def __init__(self, lengths: Ids, most: Ids, width: int, n_best: int, scoring: Scoring) -> None:
        self.search, self.most, self.scoring = BackPointers(lengths, scoring), most, scoring
        self.width, self.n_best = width, n_best
        self.per_row = (
            width + 1
        )  # tokens after each: one may be END, and all kept ones may continue one hypothesis
        self.sentences = np.arange(len(lengths))  # (B',): those that continue
        self.last = first_rows(len(lengths))
        self.sums = np.zeros(
            (len(lengths), 1)
        )  # (B', k'): log-probabilities; -inf in a slot that is not used
        self.coverage: Any = 0.0  # (B', k', T): the sum of weights of each source token
        self.done: list[list[Ending]] = [[] for _ in lengths]  # the best that ended
        self.cut_off: dict[int, Ending] = {}
        self.bars = np.full(len(lengths), -np.inf)  # (B,): the score that a further hypothesis must exceed

    def run(self, stepper: Stepper) -> list[list[Hypothesis]]:
        """Search to the end."""
        tokens = np.full((len(self.sentences), 1), START)
        while tokens.size:
            top, weights = stepper.top(tokens, self.per_row, FIRST)
            tokens, parents, going = self.step(top, weights)
            if going.any():
                keep(stepper, going)
                stepper.select(parents)
        endings = [ending for sentence in range(len(self.done)) for ending in self._endings(sentence)]
        return self.search.hypotheses(endings)

    def _endings(self, sentence: int) -> list[tuple[int, Ending]]:
        """Return the endings, the best first; or that of the best partial translation, if nothing ended."""
        return [(sentence, ending) for ending in self.done[sentence] or [self.cut_off[sentence]]]

    def step(self, top: TopTokens, weights: Array) -> tuple[Ids, Ids, Mask]:
        """Take a step; return the last tokens (B', k') and their parents, and which sentences continue."""
        step = len(self.search.steps)
        totals, parents, tokens = _most_probable(top, self.sums, 2 * self.width)  # half of them may be ENDs
        np.minimum(totals, 0, out=totals)
        rows = np.arange(len(parents))[:, None]
        logs = np.zeros_like(totals)
        np.subtract(totals, self.sums[rows, parents], out=logs, where=totals > -np.inf)
        if self.scoring.coverage_penalty:
            self.coverage = self.coverage + weights
        ends = (tokens == END) & np.isfinite(totals)
        self._finish(step, totals, logs, parents, ends[:, : self.width])
        live = self._live(totals, ends)
        grown: Mask = np.asarray(live.any(axis=1))
        going = grown & (step + 1 < self.most[self.sentences])
        order = np.argsort(~live, axis=1, kind="stable")[:, : max(1, int(live.sum(axis=1).max()))]
        tokens, parents, logs = tokens[rows, order], parents[rows, order], logs[rows, order]
        totals = np.where(live, totals, -np.inf)[rows, order]
        self.search.steps.append(SearchStep(*self.last, in_rows(weights)))
        self._stop(~going, grown, tokens, parents, logs)
        self.last = next_rows(going, self.sums.shape[1], tokens, parents, logs)
        self._narrow(going, totals, parents)
        return tokens[going], parents[going], going

    def _finish(self, step: int, totals: Array, logs: Array, parents: Ids, ends: Mask) -> None:
        """Keep the hypotheses that end among the k best, if they are among the `n_best` so far."""
        best = totals[:, : self.width] / self.scoring.divisor(step + 1)  # without a coverage penalty
        for row, rank in np.argwhere(ends & (best > self.bars[self.sentences, None])).tolist():
            sentence, slot = int(self.sentences[row]), int(parents[row, rank])
            score = self.scoring(float(totals[row, rank]), step + 1, self._coverage(row, slot))
            done = self.done[sentence]
            last = row * self.sums.shape[1] + slot
            done.append(Ending(score, step, last, END, float(logs[row, rank])))
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
        """Return which partial translations are kept: the most probable ones that can still become one of the best."""
        # Dropping one never hides a better one: everything less probable is dropped, too.
        limits = self.scoring.divisor(self.most[self.sentences])
        live: Mask = ~ends & (totals / limits[:, None] > self.bars[self.sentences, None])
        if self.width == 1:
            live[ends[:, 0]] = False
        live &= np.cumsum(live, axis=1) <= self.width
        return live

    def _stop(self, over: Mask, grown: Mask, tokens: Ids, parents: Ids, logs: Array) -> None:
        """Keep the best partial translations of sentences that stop without an ending."""
        step, width = len(self.search.steps) - 1, self.sums.shape[1]
        for row in np.flatnonzero(over).tolist():
            sentence = int(self.sentences[row])
            if not self.done[sentence]:
                token = int(tokens[row, 0]) if grown[row] else None
                last = row * width + (int(parents[row, 0]) if grown[row] else 0)
                self.cut_off[sentence] = Ending(None, step, last, token, float(logs[row, 0]))

    def _narrow(self, going: Mask, sums: Array, parents: Ids) -> None:
        """Continue with some of the sentences."""
        self.sums = sums[going]
        if self.scoring.coverage_penalty:
            self.coverage = np.take_along_axis(self.coverage[going], parents[going, :, None], axis=1)
        if not going.all():
            self.sentences = self.sentences[going]


class _Greedy(_Beam):
    """A beam of one, without most of the bookkeeping."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.per_row = 1

    def step(self, top: TopTokens, weights: Array) -> tuple[Ids, Ids, Mask]:
        step, tokens = len(self.search.steps), top.tokens
        totals = np.minimum(top.best + (self.sums - log_totals(top.sums)[:, None]), 0)
        possible = totals[:, 0] > -np.inf
        ends = possible & (tokens[:, 0] == END)
        logs = np.zeros_like(totals)
        np.subtract(totals, self.sums, out=logs, where=possible[:, None])
        for row in np.flatnonzero(ends).tolist():
            score = self.scoring(float(totals[row, 0]), step + 1, None)
            self.done[int(self.sentences[row])].append(Ending(score, step, row, END, float(logs[row, 0])))
        going: Mask = possible & ~ends & (step + 1 < self.most[self.sentences])
        parents = np.zeros_like(tokens)
        self.search.steps.append(SearchStep(*self.last, in_rows(weights)))
        if not going.all():
            self._stop(~going & ~ends, possible, tokens, parents, logs)
        self.last = next_rows(going, 1, tokens, parents, logs)
        self._narrow(going, totals, parents)
        return tokens[going], parents[going], going


def _most_probable(top: TopTokens, before: Array, most: int) -> tuple[Array, Ids, Ids]:
    """Return the best continuations: log-probabilities (B, most) in falling order, slots and tokens.

    Of equals, the smaller slot comes first, then the smaller token.
    """
    (batch, width), count = before.shape, top.best.shape[1]
    offsets = before - log_totals(top.sums).reshape(batch, width)
    totals = (top.best.reshape(batch, width, count) + offsets[:, :, None]).reshape(batch, width * count)
    order = np.argsort(-totals, axis=1, kind="stable")[:, :most]
    rows = np.arange(batch)[:, None]
    return totals[rows, order], order // count, top.tokens.reshape(batch, width * count)[rows, order]
