"""The common part of beam search, sampling and forced decoding: checks, normalisation, rows of hypotheses.

Letters: B sentences, T source positions, n target tokens, V size of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._threads import stop_if_requested
from regard.seq2seq.networks.base import Stepper
from regard.seq2seq.networks.top_tokens import exponential_sums
from regard.seq2seq.sources.text.vocabulary import END, START

__all__: list[str] = []

Array = NDArray[Any]
Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

FIRST = END  # of the tokens that may follow: neither PAD nor START


def longest(lengths: Ids) -> Ids:
    """Return the most tokens of a translation, where it is cut off.

    `lengths`: tokens of the sources, END included. Returns integer array: tokens of the targets.
    """
    return 2 * lengths + 5


def check_sentences(source: Array, lengths: Ids) -> None:
    if source.ndim not in (2, 3) or lengths.shape != source.shape[1:2]:
        _check.fail(
            f"source and lengths must be (T, B) or (T, B, F), and (B,). Got {source.shape} and {lengths.shape} instead."
        )
    if lengths.size and not 1 <= lengths.min() <= lengths.max() <= len(source):
        _check.fail(
            f"lengths must be from 1 to T = {len(source)}. Got {lengths.min()} to {lengths.max()} instead."
        )


def limits(lengths: Ids, most: Ids | None) -> Ids:
    """Return the most tokens of each target (B,)."""
    most = longest(lengths) if most is None else _check.integer_array("most", most, least=1)
    _check.shape("most", most.shape, lengths.shape)
    return most


def keep(stepper: Stepper, going: Mask) -> None:
    """Continue with some of the sentences, unless this thread is asked to stop."""
    stop_if_requested()
    if not going.all():
        stepper.keep(np.flatnonzero(going))


def log_normalizer(logits: Array) -> Array:
    """Return the logarithm of the sum of the exponentials (B, k) of logits (B, k, V)."""
    return log_totals(exponential_sums(logits.reshape(-1, logits.shape[-1]))).reshape(logits.shape[:-1])


def log_totals(sums: Array) -> Array:
    """Return the logarithms (N,) of sums of exponentials (N, 2), which must be finite."""
    totals: Array = np.log(sums[:, 1]) + sums[:, 0]
    wrong = ~np.isfinite(totals)
    if wrong.any():
        largest = sums[wrong][0, 0]
        _refuse(largest if largest == np.inf else totals[wrong][0])
    return totals


def _refuse(predicted: Any) -> NoReturn:
    _check.fail(f"the predictions of the network must be finite. Got {predicted!s} instead.")


def first_rows(sentences: int, width: int = 1) -> tuple[Ids, Ids, Array]:
    """Return tokens, parents and log-probabilities before the first step: START."""
    rows = sentences * width
    return np.full(rows, START), np.arange(rows), np.zeros(rows)


def next_rows(going: Mask, width: int, tokens: Ids, parents: Ids, logs: Array) -> tuple[Ids, Ids, Array]:
    """Return tokens, parents and log-probabilities of the sentences that continue, each of which had `width` rows."""
    rows = np.flatnonzero(going)[:, None] * width + parents[going]
    return tokens[going].reshape(-1), rows.reshape(-1), logs[going].reshape(-1)


def in_rows(weights: Array) -> Array:
    batch, width, positions = weights.shape
    return weights.reshape(batch * width, positions)
