"""Where a word was taken from, now that it is known: Bayes' rule on the weights of attention.

A decoder looks before it knows the word that it is about to say. Who knows the word can do better::

    posterior_j  is proportional to  weights_j p(word | context = annotation_j)

where the probability is what the readout would have given if only the source word j had been looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.ranking import Output

__all__ = ["posterior"]

Array = NDArray[Any]
Ids = NDArray[np.int64]


def posterior(
    p: Mapping[str, Array],
    known: Array,
    annotations: Array,
    weights: Array,
    words: Ids,
    output: Output | None = None,
) -> Array:
    """Return where words were taken from.

    Parameters
    ----------
    p : mapping of str to array
        With ``readout_context`` (C, E), ``target_embedding`` (V, E) and ``output_bias`` (V,).
    known : array (B, k, E)
        What the readout sums before the words, but for the context.
    annotations : array (B, T, C)
        What can be looked at.
    weights : array (B, k, T)
        Where was looked before the words were known.
    words : integer array (B, k)
        The words that came.
    output : Output, optional
        What computes the logits of these parameters, if there is one already.

    Returns
    -------
    array (B, k, T)
        Rows sum to 1; 0 where nothing was looked at.

    References
    ----------
    Shankar and Sarawagi 2019, "Posterior Attention Models for Sequence to Sequence Learning".

    Examples
    --------
    >>> p = {"readout_context": np.eye(2), "target_embedding": 9 * np.eye(2), "output_bias": np.zeros(2)}
    >>> known, weights = np.zeros((1, 1, 2)), np.array([[[0.6, 0.4, 0.0]]])
    >>> posterior(p, known, np.array([[[3, 0], [0, 3], [0, 3]]]), weights, np.array([[1]])).round(3).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    sentence, hypothesis, position = at = np.nonzero(weights)
    readout = known[sentence, hypothesis]
    readout += (annotations @ p["readout_context"])[sentence, position]
    np.tanh(readout, out=readout)
    word = words[sentence, hypothesis]
    logits = np.einsum("ne,ne->n", readout, p["target_embedding"][word]) + p["output_bias"][word]
    logs = np.full_like(weights, -np.inf)
    logs[at] = np.log(weights[at]) + logits - (output or Output(p)).log_sums(readout)
    shares = np.exp(logs - logs.max(axis=-1, keepdims=True))
    found: Array = shares / shares.sum(axis=-1, keepdims=True)
    return found
