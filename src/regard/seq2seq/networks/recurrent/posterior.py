"""Posterior attention: the attention weights given the token that followed, by Bayes' rule.

A decoder attends before it knows the next token. Given the token::

    posterior_j  is proportional to  weights_j exp(logit of the token, context = annotation_j)

where the logit is that of the readout with all attention on source position j. The softmax over the vocabulary is left
out: a trained output layer is nearly normalised, links have as few errors without it, and it would take most of the
time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._einsum import einsum
from regard.weights import softmax

__all__ = ["posterior"]

Array = NDArray[Any]
Ids = NDArray[np.int64]


def posterior(
    p: Mapping[str, Array],
    partial_sum: Array,
    annotations: Array,
    weights: Array,
    tokens: Ids,
) -> Array:
    """Return the posterior attention weights of tokens.

    `partial_sum` (B, k, E): the sum in the readout without the context's part; `annotations` (B, T, C): the
    annotations of the source; `weights` (B, k, T): the attention weights before the tokens were known; `tokens` (B,
    k): the tokens that followed. Returns array (B, k, T): rows sum to 1, or to 0 without attention weights; 0 where
    the attention weight is 0.

    Shankar and Sarawagi 2019, "Posterior Attention Models for Sequence to Sequence Learning".
    """
    sentence, hypothesis, position = at = np.nonzero(weights)
    readout = partial_sum[sentence, hypothesis]
    readout += (annotations @ p["readout_context"])[sentence, position]
    np.tanh(readout, out=readout)
    token = tokens[sentence, hypothesis]
    logits = einsum("ne,ne->n", readout, p["target_embedding"][token]) + p["output_bias"][token]
    logs = np.full_like(weights, -np.inf)
    logs[at] = np.log(weights[at]) + logits
    return softmax(logs)
