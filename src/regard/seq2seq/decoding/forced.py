"""Forced decoding: the probabilities and the alignment of given translations.

Letters: B sentences, T source positions, n target tokens, V size of the vocabulary, k hypotheses of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.data.vocabulary import END, PAD, START
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring, hypothesis
from regard.seq2seq.decoding.search import check_sentences, keep, log_normalizer
from regard.seq2seq.networks.base import Predictor

__all__ = ["force"]

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
    """Let the network say given sentences: how probable it finds each word, and where it looks for it.

    Parameters
    ----------
    network : Predictor
        A network, or an ensemble.
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
        `regard.seq2seq.alignment.posterior`), and not where the network looked before it said it.

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
    >>> from regard.seq2seq.networks.base import Stepper
    >>> class Toss(Stepper):  # ends with probability 1/2, else says 4; looks nowhere
    ...     stepper = lambda self, source, lengths, width=1: self
    ...     select = keep = lambda self, kept: None
    ...     def __call__(self, words):
    ...         logits = np.full((*words.shape, 5), -np.inf)
    ...         logits[..., [2, 4]] = 0
    ...         return logits, np.zeros((*words.shape, 0))
    >>> (said,) = force(Toss(), np.array([[4], [2]]), np.array([2]), np.array([[1], [4], [4], [2]]))
    >>> said.words, np.exp(said.log_probabilities).round(6).tolist()
    ((4, 4), [0.5, 0.5, 0.5])
    """
    check_sentences(source, lengths)
    if target.ndim != 2 or target.shape[1] != len(lengths) or not (target[:1] == START).all():
        _check.fail(
            f"target must be (n + 1, {len(lengths)}) and begin with START. Got shape {target.shape} instead."
        )
    counts = (target != PAD).sum(axis=0) - 1
    stepper = network.stepper(source, lengths)
    if posterior and not stepper.has_posterior:
        _check.fail(
            "posterior must be False for a transformer, alone or among others: its words are taken from several looks "
            "at once."
        )
    rows = np.arange(len(lengths))
    said: list[list[_Forced]] = [[] for _ in rows]
    for t in range(len(target) - 1):
        going = counts[rows] > t
        if not going.any():
            break
        keep(stepper, going)
        rows = rows[going]
        logits, weights = stepper(target[t, rows][:, None])
        logs = logits[np.arange(len(rows)), 0, target[t + 1, rows]] - log_normalizer(logits)[:, 0]
        taken = stepper.posterior(target[t + 1, rows][:, None]) if posterior else weights
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


def _given(target: Ids, said: Sequence[_Forced], length: int, scoring: Scoring) -> Hypothesis:
    if not said:  # START alone
        return hypothesis((), np.zeros(0), np.zeros((0, length)), length, scoring)
    words = tuple(target[: len(target) - (target[-1:] == END).sum()].tolist())
    logs, looks = np.array([step.log for step in said], float), np.array([step.look for step in said])
    found = hypothesis(words, logs, looks.reshape(len(said), -1)[:, :length], length, scoring)
    taken = np.array([step.taken for step in said]).reshape(len(said), -1)
    return replace(found, alignment=taken[: len(words), :length])
