"""Forced decoding: the probabilities and the alignment of given translations.

Letters: B sentences, T source positions, n target tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring, hypothesis
from regard.seq2seq.decoding.search import FIRST, check_sentences, keep, log_normalizer, log_totals
from regard.seq2seq.networks.base import Predictor, Stepper
from regard.seq2seq.networks.top_tokens import top_tokens
from regard.seq2seq.sources.text.vocabulary import END, PAD, START

__all__ = ["alternatives", "force"]

Array = NDArray[Any]
Ids = NDArray[np.int64]


def force(
    network: Predictor,
    source: Ids,
    lengths: Ids,
    target: Ids,
    *,
    scoring: Scoring = Scoring(),
    posterior: bool = False,
) -> list[Hypothesis]:
    """Decode given translations: the probability of each token, and its attention weights.

    `network`: a network, or an ensemble; `source` (T, B): source sentences, each with END, padded with PAD; `lengths`
    (B,): tokens of each, END included; `target` (n + 1, B): the translations: START, tokens, END (unless it is a
    prefix), padded with PAD; `scoring`: the score of the translations; `posterior`: whether the alignment is the
    posterior attention, which knows the token (see `regard.seq2seq.networks.recurrent.posterior`), and not the
    attention weights of its step.
    """
    counts = _counts(source, lengths, target)
    stepper = network.stepper(source, lengths)
    if posterior and not stepper.has_posterior:
        _check.fail(
            "posterior must be False for a transformer, alone or in an ensemble: it attends several times for a token."
        )
    forced: list[list[_Forced]] = [[] for _ in counts]
    for t, rows in _steps(stepper, counts):
        logits, weights = stepper(target[t, rows][:, None])
        logs = logits[np.arange(len(rows)), 0, target[t + 1, rows]] - log_normalizer(logits)[:, 0]
        aligned = stepper.posterior(target[t + 1, rows][:, None]) if posterior else weights
        for sentence, *step in zip(rows.tolist(), logs.tolist(), weights[:, 0], aligned[:, 0], strict=True):
            forced[sentence].append(_Forced(*step))
    return [
        _hypothesis(target[1 : counts[i] + 1, i], forced[i], int(lengths[i]), scoring)
        for i in range(len(lengths))
    ]


def alternatives(
    network: Predictor, source: Ids, lengths: Ids, target: Ids, *, count: int
) -> list[tuple[Ids, Array]]:
    """Return the most probable tokens at each step of given translations, as the network predicts them.

    `network`, `source`, `lengths`, `target`: as of `force`; `count`: tokens of a step. Returns of each sentence ids and
    log-probabilities (n, count), the most probable first; -inf where there are no more tokens.
    """
    counts = _counts(source, lengths, target)
    stepper = network.stepper(source, lengths)
    ids = np.zeros((len(lengths), int(counts.max(initial=0)), count), np.int64)
    logs = np.zeros(ids.shape)
    for t, rows in _steps(stepper, counts):
        logits, _ = stepper(target[t, rows][:, None])
        top = top_tokens(logits[:, 0], count, FIRST)
        ids[rows, t], logs[rows, t] = top.tokens, top.best - log_totals(top.sums)[:, None]
    return [(ids[i, :n], logs[i, :n]) for i, n in enumerate(counts.tolist())]


def _counts(source: Ids, lengths: Ids, target: Ids) -> Ids:
    """Return the number of tokens after START of each target, after a check of the shapes."""
    check_sentences(source, lengths)
    if target.ndim != 2 or target.shape[1] != len(lengths) or not (target[:1] == START).all():
        _check.fail(
            f"target must be (n + 1, {len(lengths)}) and begin with START. Got shape {target.shape} instead."
        )
    counts: Ids = (target != PAD).sum(axis=0) - 1
    return counts


def _steps(stepper: Stepper, counts: Ids) -> Iterator[tuple[int, Ids]]:
    """Yield each step with the sentences that have a token there, with which the stepper continues."""
    rows = np.arange(len(counts))
    for t in range(int(counts.max(initial=0))):
        going = counts[rows] > t
        keep(stepper, going)
        rows = rows[going]
        yield t, rows


class _Forced(NamedTuple):
    """One forced token: its log-probability, the attention weights of its step, and the weights of its alignment."""

    log: float
    weights: Array
    aligned: Array


def _hypothesis(target: Ids, forced: Sequence[_Forced], length: int, scoring: Scoring) -> Hypothesis:
    if not forced:  # START alone
        return hypothesis((), np.zeros(0), np.zeros((0, length)), length, scoring)
    tokens = tuple(target[: len(target) - (target[-1:] == END).sum()].tolist())
    logs, weights = (
        np.array([step.log for step in forced], float),
        np.array([step.weights for step in forced]),
    )
    aligned_by_weights = hypothesis(
        tokens, logs, weights.reshape(len(forced), -1)[:, :length], length, scoring
    )
    aligned = np.array([step.aligned for step in forced]).reshape(len(forced), -1)
    return replace(aligned_by_weights, alignment=aligned[: len(tokens), :length])
