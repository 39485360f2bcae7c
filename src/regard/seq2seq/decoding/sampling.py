"""Sampling translations, with temperature, top-k and top-p.

Letters: B sentences, T source positions, n target tokens, V size of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.decoding.hypothesis import BackPointers, Ending, Hypothesis, Scoring, SearchStep
from regard.seq2seq.decoding.search import (
    check_sentences,
    first_rows,
    in_rows,
    keep,
    limits,
    log_normalizer,
    next_rows,
)
from regard.seq2seq.networks.base import Predictor, Stepper
from regard.seq2seq.sources.text.vocabulary import END, START

__all__ = ["sample"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]


def sample(
    network: Predictor,
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
    """Sample each token from the probabilities that the network gives.

    `network`: a network, or an ensemble; `source` (T, B): source sentences, each with END, padded with PAD; `lengths`
    (B,): tokens of each, END included; `rng`: one generator for each sentence, or one that spawns them,
    ``rng.spawn(B)``. The samples of a sentence depend on its own generator alone; `count`: samples of each source;
    `temperature`: divides the logits: near 0 the most probable token is always drawn, above 1 rare ones come more
    often; `top_k`: sample from the k most probable tokens only, and those that tie with the last of them; `top_p`:
    sample from the fewest tokens only whose probabilities add up to this, and those that tie with the last;
    `scoring`: the score of the samples; `most` (B,): the most tokens of each target, where it is cut off; by default
    `longest`.

    Fan, Lewis and Dauphin 2018, "Hierarchical Neural Story Generation" (top k); Holtzman et al. 2020, "The Curious
    Case of Neural Text Degeneration" (top p).
    """
    check_sentences(source, lengths)
    count = _check.integer("count", count, least=1)
    choice = _Choice.checked(temperature, top_k, top_p)
    rngs = list(rng) if isinstance(rng, Sequence) else _check.generator("rng", rng).spawn(len(lengths))
    if len(rngs) != len(lengths):
        _check.fail(
            f"rng must be one generator for each of {len(lengths)} sentences. Got {len(rngs)} instead."
        )
    sampling = _Sampling(lengths, limits(lengths, most), count, scoring, choice, rngs)
    return sampling.run(network.stepper(source, lengths, count))


@dataclass(frozen=True)
class _Choice:
    """Options of sampling a token."""

    temperature: float
    top_k: int | None
    top_p: float | None

    @classmethod
    def checked(cls, temperature: float, top_k: int | None, top_p: float | None) -> _Choice:
        temperature = _check.number("temperature", temperature, positive=True)
        if top_k is not None:
            top_k = _check.integer("top_k", top_k, least=1)
        if top_p is not None:
            top_p = _check.number("top_p", top_p, positive=True, most=1)
        return cls(temperature, top_k, top_p)

    def __call__(self, logits: Array, uniform: Array) -> Ids:
        """Sample a token for each row of logits (B, k, V), given uniform random numbers (B, k)."""
        p = np.subtract(logits, logits.max(axis=-1, keepdims=True), dtype=float)
        p /= self.temperature
        np.exp(p, out=p)
        if self.top_k is not None and self.top_k < p.shape[-1]:
            p[p < np.partition(p, -self.top_k, axis=-1)[..., [-self.top_k]]] = 0
        if self.top_p is not None:
            p[p < self._least_of_top(p)] = 0
        sums = np.cumsum(p, axis=-1, out=p)
        aims = np.minimum(uniform[..., None] * sums[..., -1:], np.nextafter(sums[..., -1:], 0))
        drawn: Ids = (sums <= aims).sum(axis=-1)
        return drawn

    def _least_of_top(self, p: Array) -> Array:
        """Return the smallest (B, k, 1) of the probabilities that reach `top_p` together."""
        falling = -np.sort(-p, axis=-1)
        sums = np.cumsum(falling, axis=-1)
        last = (sums[..., :-1] < self.top_p * sums[..., -1:]).sum(axis=-1, keepdims=True)
        return np.take_along_axis(falling, last, axis=-1)


class _Sampling:
    """The samples of B' sentences, until each of the `count` samples has ended."""

    def __init__(
        self,
        lengths: Ids,
        most: Ids,
        count: int,
        scoring: Scoring,
        choice: _Choice,
        rngs: Sequence[np.random.Generator],
    ) -> None:
        self.search, self.most = BackPointers(lengths, scoring), most
        self.choice, self.rngs = choice, rngs
        self.sentences = np.arange(len(lengths))  # (B',): those that continue
        self.last = first_rows(len(lengths), count)
        self.which = np.tile(
            np.arange(count), (len(lengths), 1)
        )  # (B', k'): the sample in each slot; -1 for none
        self.done: list[dict[int, Ending]] = [{} for _ in lengths]

    def run(self, stepper: Stepper) -> list[list[Hypothesis]]:
        """Sample to the end."""
        tokens = np.full(self.which.shape, START)
        while tokens.size:
            logits, weights = stepper(tokens)
            normaliser = log_normalizer(logits)
            stepper.forbid(logits)
            tokens, parents, going = self.step(logits, normaliser, weights)
            if going.any():
                keep(stepper, going)
                stepper.select(parents)
        endings = [
            (sentence, done[sample]) for sentence, done in enumerate(self.done) for sample in sorted(done)
        ]
        return self.search.hypotheses(endings)

    def step(self, logits: Array, normaliser: Array, weights: Array) -> tuple[Ids, Ids, Mask]:
        """Take a step; return the last tokens (B', k') and their parents, and which sentences continue."""
        step, slots = len(self.search.steps), self.which.shape[1]
        tokens = self.choice(logits, self._uniform())
        logs = np.take_along_axis(logits, tokens[:, :, None], axis=2)[:, :, 0].astype(float) - normaliser
        here, ended = self.which >= 0, tokens == END
        over = step + 1 >= self.most[self.sentences]
        for row, slot in np.argwhere(here & (ended | over[:, None])).tolist():
            last = Ending(None, step, row * slots + slot, int(tokens[row, slot]), float(logs[row, slot]))
            self.done[int(self.sentences[row])][int(self.which[row, slot])] = last
        live = here & ~ended
        parents = np.argsort(~live, axis=1, kind="stable")[:, : max(1, int(live.sum(axis=1).max()))]
        self.which = np.where(live, self.which, -1)
        self.which, tokens, logs = (
            np.take_along_axis(x, parents, axis=1) for x in (self.which, tokens, logs)
        )
        self.search.steps.append(SearchStep(*self.last, in_rows(weights)))
        going = live.any(axis=1) & ~over
        self.last = next_rows(going, slots, tokens, parents, logs)
        self.which, self.sentences = self.which[going], self.sentences[going]
        return tokens[going], parents[going], going

    def _uniform(self) -> Array:
        """Return a random number (B', k') for each sample, from its sentence's own generator."""
        uniform = np.zeros(self.which.shape)
        for row, sentence in enumerate(self.sentences.tolist()):
            count = int((self.which[row] >= 0).sum())
            uniform[row, :count] = self.rngs[sentence].random(count)
        return uniform
