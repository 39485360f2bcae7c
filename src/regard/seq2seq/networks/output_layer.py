"""The end of every network: from what is known before a word to the loss of predicting it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.kernels.matrix import multiply
from regard.nn import divergence, linear_cross_entropy
from regard.seq2seq.data.vocabulary import PAD

__all__ = ["guide", "log_frequency", "predict", "short_list"]

Array = NDArray[Any]

_FREQUENT, _OTHERS = 640, 512  # words of a large vocabulary that compete in each step of training
_LEAST_WEIGHT = 1e-10  # the logarithm of 0 would outweigh all others


def predict(
    p: Mapping[str, Array],
    readout: Array,
    following: NDArray[np.int64],
    *,
    smoothing: float = 0.0,
    rng: np.random.Generator | None = None,
    agreement: float = 0.0,
) -> tuple[float, Callable[[float], tuple[Array, dict[str, Array]]]]:
    """Compare what is known before each word with the word that came, by a product with the target embedding.

    Parameters
    ----------
    p : mapping of str to array
        With ``target_embedding`` (V, E), the output matrix, and ``output_bias`` (V,).
    readout : array (n, B, E)
        What is known before each word.
    following : integer array (n, B)
        The words that came; PAD is not predicted.
    smoothing : float
        Label smoothing.
    rng : numpy.random.Generator or None
        Chance for the short list of a large vocabulary; None: all words compete.
    agreement : float
        How much it counts that the columns' second half, which has the first half's words, is predicted alike.

    Returns
    -------
    loss : float
        The mean over all words that are not PAD, and `agreement` / 4 times how much the halves differ, where it is
        asked for.
    pullback : function
        ``pullback(dloss) -> (dreadout (n, B, E), gradients by parameter name)``; to be called at most once.

    References
    ----------
    Press and Wolf 2017, "Using the Output Embedding to Improve Language Models" (one matrix for both). Liang et al.
    2021, "R-Drop: Regularized Dropout for Neural Networks" (agreement: its alpha; half of its loss, which is a
    sum over both halves).

    Examples
    --------
    >>> p = {"target_embedding": np.zeros((4, 2)), "output_bias": np.zeros(4)}
    >>> loss, _ = predict(p, np.zeros((1, 1, 2)), np.array([[3]]))
    >>> bool(np.isclose(loss, np.log(4)))
    True
    """
    words = following.reshape(-1)
    real = np.flatnonzero(words != PAD)
    rows = readout.reshape(words.size, -1)
    if len(real) < words.size:
        rows, words = rows[real], words[real]
    ids, log_weights = short_list(words, len(p["output_bias"]), rng)
    everything = len(ids) == len(p["output_bias"])
    embedding = p["target_embedding"] if everything else p["target_embedding"][ids]  # (C, E)
    bias = p["output_bias"] if everything else p["output_bias"][ids] + log_weights.astype(rows.dtype)
    places = np.empty(len(p["output_bias"]), np.int64)
    places[ids] = np.arange(len(ids))
    loss, loss_back = linear_cross_entropy(rows, embedding, places[words], bias, smoothing=smoothing)
    differ, differ_back = 0.0, None
    if agreement:
        # Words in the order of rows; those of a column's second half have the same order among themselves.
        second = real % following.shape[1] >= following.shape[1] // 2
        differ, differ_back = _differ(rows, second, embedding, bias)

    def pullback(dloss: float) -> tuple[Array, dict[str, Array]]:
        found, dembedding, dbias = loss_back(dloss)
        if differ_back:
            gradients = differ_back(agreement / 4 * dloss)
            found, dembedding, dbias = (
                a + b for a, b in zip((found, dembedding, dbias), gradients, strict=True)
            )
        dreadout = found
        if len(real) < following.size:
            dreadout = np.zeros((following.size, readout.shape[-1]), readout.dtype)
            dreadout[real] = found
        g = {"target_embedding": dembedding, "output_bias": dbias}
        if not everything:  # no word is in ids twice
            short, g = g, {name: np.zeros_like(p[name]) for name in g}
            for name, part in short.items():
                g[name][ids] = part
        return dreadout.reshape(readout.shape), g

    return loss + agreement / 4 * differ, pullback


def _differ(
    rows: Array, second: NDArray[np.bool_], weight: Array, bias: Array
) -> tuple[float, Callable[[float], tuple[Array, Array, Array]]]:
    """Return how much predictions from rows (N, E) differ from those of the others, their partners, in order."""
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
    """Return the logarithm of how frequent words are, where each is thought to have come a little more often.

    Parameters
    ----------
    counts : array (V,)
        How often each came.

    Returns
    -------
    array (V,)
        What the output bias starts from.

    Examples
    --------
    >>> log_frequency(np.array([0, 1])).round(3).tolist()
    [-2.485, -0.087]
    """
    more = counts + 0.1
    found: Array = np.log(more / more.sum())
    return found


def short_list(
    following: NDArray[np.int64], words: int, rng: np.random.Generator | None
) -> tuple[NDArray[np.int64], Array]:
    """Choose the words that compete in a softmax: all; of a large vocabulary the frequent, the right and some others.

    Each of the others stands for as many as were not drawn, so that the softmax's sum is right on average.

    Parameters
    ----------
    following : integer array (N,)
        The words that came.
    words : int
        All words, the frequent ones first.
    rng : numpy.random.Generator or None
        Chance; None for all words.

    Returns
    -------
    ids : integer array (C,)
        Different words.
    log_weights : array (C,)
        Logarithm of how many words each stands for.

    References
    ----------
    Jean, Cho, Memisevic and Bengio 2015, "On Using Very Large Target Vocabulary for Neural Machine Translation", 3.

    Examples
    --------
    >>> ids, log_weights = short_list(np.array([3000]), 4000, np.random.default_rng(0))
    >>> len(ids), bool(np.isin(3000, ids)), float(np.exp(log_weights).sum().round(6))
    (1153, True, 4000.0)
    """
    if rng is None or words <= 2 * (_FREQUENT + _OTHERS):
        return np.arange(words), np.zeros(words)
    missing = np.ones(words, bool)
    missing[:_FREQUENT] = missing[following] = False
    rest = np.flatnonzero(missing)
    drawn = rng.choice(rest, min(_OTHERS, len(rest)), replace=False)
    sure = np.flatnonzero(~missing)
    log_weights = np.zeros(len(sure) + len(drawn))
    log_weights[len(sure) :] = np.log(len(rest) / max(len(drawn), 1))
    return np.concatenate([sure, drawn]), log_weights


def guide(
    weights: Array | None, links: Array | None, guidance: float
) -> tuple[float, Callable[[float], Array | None]]:
    """Compare where was looked with where should have been: the mean of ``-sum_j links_j log weights_j``.

    Parameters
    ----------
    weights : array (n, B, T) or None
        Where was looked; None without guidance.
    links : array (n, B, T) or None
        Rows that sum to 1, or to 0 where nobody knows.
    guidance : float
        How much it counts.

    Returns
    -------
    loss : float
        ``guidance`` times the mean over the rows with links; 0 if there are none.
    pullback : function
        ``pullback(dloss) -> dweights``, or None without guidance.

    References
    ----------
    Chen, Matusov, Khadivi and Peter 2016, "Guided Alignment Training for Topic-Aware Neural Machine Translation", 3.

    Examples
    --------
    >>> loss, pullback = guide(np.array([[[0.5, 0.5]]]), np.array([[[1.0, 0.0]]]), 2.0)
    >>> bool(np.isclose(loss, 2 * np.log(2))), pullback(1.0).tolist()
    (True, [[[-4.0, -0.0]]])
    """
    if weights is None or links is None:
        return 0.0, lambda dloss: None
    share = guidance / max(float(links.sum()), 1.0)
    seen = np.maximum(weights, _LEAST_WEIGHT)
    loss = -share * float((links * np.log(seen)).sum(dtype=np.float64))
    # Below the least weight the slope stays what it is there: a look that is quite wrong is still pulled back.
    return loss, lambda dloss: (-(share * dloss) * links / seen).astype(weights.dtype)
