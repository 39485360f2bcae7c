"""The output layer in training: the loss of predicting each next token, and of guided alignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.kernels.matrix import multiply
from regard.nn import divergence, linear_cross_entropy
from regard.seq2seq.sources.text.vocabulary import PAD

__all__ = ["alignment_loss", "log_frequency", "prediction_loss", "sampled_vocabulary"]

Array = NDArray[Any]
Loss = tuple[float, Callable[[float], tuple[Array, ...]]]  # of rows, a weight and a bias

_FREQUENT, _OTHERS = 640, 512  # tokens of a large vocabulary in the sampled softmax of a training step
_LEAST_WEIGHT = 1e-10  # the logarithm of 0 would outweigh all others


def prediction_loss(
    p: Mapping[str, Array],
    readout: Array,
    following: NDArray[np.int64],
    *,
    label_smoothing: float = 0.0,
    rng: np.random.Generator | None = None,
    rdrop: float = 0.0,
) -> tuple[float, Callable[[float], tuple[Array, dict[str, Array]]]]:
    """Return the cross-entropy of predicting each next token by a product with the target embedding.

    `readout` (n, B, E): the readout before each token; `following` (n, B): the next tokens; PAD is not predicted;
    `label_smoothing`: label smoothing; `rng`: random numbers for the sampled softmax of a large vocabulary; None for
    the complete softmax; `rdrop`: the weight of the divergence between the predictions of the columns' first and
    second half, which have the same tokens. Returns `pullback`: ``pullback(dloss) -> (dreadout (n, B, E), gradients by
    parameter name)``; to be called at most once.

    Press and Wolf 2017, "Using the Output Embedding to Improve Language Models" (one matrix for both). Liang et al.
    2021, "R-Drop: Regularized Dropout for Neural Networks" (rdrop: its alpha; half of its loss, which is a sum over
    both halves).
    """
    tokens = following.reshape(-1)
    real = np.flatnonzero(tokens != PAD)
    rows = readout.reshape(tokens.size, -1)
    if len(real) < tokens.size:
        rows, tokens = rows[real], tokens[real]
    ids, log_weights = sampled_vocabulary(tokens, len(p["output_bias"]), rng)
    everything = len(ids) == len(p["output_bias"])
    embedding = p["target_embedding"] if everything else p["target_embedding"][ids]  # (C, E)
    bias = p["output_bias"] if everything else p["output_bias"][ids] + log_weights.astype(rows.dtype)
    positions = np.empty(len(p["output_bias"]), np.int64)
    positions[ids] = np.arange(len(ids))
    cross_entropy = linear_cross_entropy(rows, embedding, positions[tokens], bias, smoothing=label_smoothing)
    terms: list[tuple[float, Loss]] = [(1.0, cross_entropy)]
    if rdrop:
        # Rows are in the order of tokens; those of the columns' second half have the same order among themselves.
        second = real % following.shape[1] >= following.shape[1] // 2
        terms.append((rdrop / 4, _divergence(rows, second, embedding, bias)))

    def pullback(dloss: float) -> tuple[Array, dict[str, Array]]:
        gradients = [back(factor * dloss) for factor, (_, back) in terms]
        drows, dembedding, dbias = (reduce(np.add, each) for each in zip(*gradients, strict=True))
        dreadout = drows
        if len(real) < following.size:
            dreadout = np.zeros((following.size, readout.shape[-1]), readout.dtype)
            dreadout[real] = drows
        g = {"target_embedding": dembedding, "output_bias": dbias}
        return dreadout.reshape(readout.shape), g if everything else _scattered(p, g, ids)

    return sum(factor * loss for factor, (loss, _) in terms), pullback


def _scattered(
    p: Mapping[str, Array], short: Mapping[str, Array], ids: NDArray[np.int64]
) -> dict[str, Array]:
    """Return gradients of all tokens from those of some, none of which is in `ids` twice."""
    g = {name: np.zeros_like(p[name]) for name in short}
    for name, part in short.items():
        g[name][ids] = part
    return g


def _divergence(rows: Array, second: NDArray[np.bool_], weight: Array, bias: Array) -> Loss:
    """Return the divergence between the predictions of rows (N, E) and of their partners, in order."""
    halves = [rows[~second], rows[second]]
    loss, back = divergence(*(multiply(half, weight.T, bias) for half in halves))

    def pullback(dloss: float) -> tuple[Array, Array, Array]:
        drows, dweight, dbias = np.empty_like(rows), np.zeros_like(weight), np.zeros_like(bias)
        for half, where, dlogits in zip(halves, (~second, second), back(dloss), strict=True):
            drows[where] = multiply(dlogits, weight)
            dweight += multiply(dlogits.T, half)
            dbias += dlogits.sum(axis=0)
        return drows, dweight, dbias

    return loss, pullback


def log_frequency(counts: Array) -> Array:
    """Return the logarithm of the relative frequencies of tokens, with 0.1 added to each count.

    `counts` (V,): how often each token occurs. Returns array (V,): the initial output bias.
    """
    more = counts + 0.1
    logs: Array = np.log(more / more.sum())
    return logs


def sampled_vocabulary(
    following: NDArray[np.int64], tokens: int, rng: np.random.Generator | None
) -> tuple[NDArray[np.int64], Array]:
    """Choose the tokens of a softmax: all; of a large vocabulary the frequent ones, the right ones and a sample.

    Each token of the sample is weighted for those that were not drawn, so that the sum is right on average.

    `following` (N,): the right tokens; `tokens`: size of the vocabulary, whose frequent tokens come first; `rng`:
    random numbers; None for all tokens. Returns `ids` (C,): different tokens; `log_weights` (C,): logarithm of the
    number of tokens that each stands for.

    Jean, Cho, Memisevic and Bengio 2015, "On Using Very Large Target Vocabulary for Neural Machine Translation", 3.
    """
    if rng is None or tokens <= 2 * (_FREQUENT + _OTHERS):
        return np.arange(tokens), np.zeros(tokens)
    missing = np.ones(tokens, bool)
    missing[:_FREQUENT] = missing[following] = False
    rest = np.flatnonzero(missing)
    drawn = rng.choice(rest, min(_OTHERS, len(rest)), replace=False)
    sure = np.flatnonzero(~missing)
    log_weights = np.zeros(len(sure) + len(drawn))
    log_weights[len(sure) :] = np.log(len(rest) / max(len(drawn), 1))
    return np.concatenate([sure, drawn]), log_weights


def alignment_loss(
    weights: Array | None, links: Array | None, guided_alignment: float
) -> tuple[float, Callable[[float], Array | None]]:
    """Return the cross-entropy between links and attention weights: the mean of ``-sum_j links_j log weights_j``.

    `weights` (n, B, T): attention weights; None without guided alignment; `links` (n, B, T): rows that sum to 1, or
    to 0 for tokens without links; `guided_alignment`: the weight of this loss. Returns `pullback`: ``pullback(dloss)
    -> dweights``, or None without guided alignment.

    Chen, Matusov, Khadivi and Peter 2016, "Guided Alignment Training for Topic-Aware Neural Machine Translation", 3.
    """
    if weights is None or links is None:
        return 0.0, lambda dloss: None
    share = guided_alignment / max(float(links.sum()), 1.0)
    clipped = np.maximum(weights, _LEAST_WEIGHT)
    loss = -share * float((links * np.log(clipped)).sum(dtype=np.float64))
    # Below the least weight the slope stays constant, so that a weight near 0 still gets a gradient.
    return loss, lambda dloss: (-(share * dloss) * links / clipped).astype(weights.dtype)
