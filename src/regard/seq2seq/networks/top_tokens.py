"""The output layer in a search: from readouts to the most probable tokens.

Letters: N rows, E size of a readout, V size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._once import computed_once
from regard.kernels import training
from regard.kernels.matrix import multiply

__all__ = ["OutputLayer", "TopTokens", "exponential_sums", "top_tokens"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

_NEAR = 1 << 16  # numbers that stay in a cache
_GROUPS = 256  # of tokens; the largest logits of the groups bound the largest of all from below


class TopTokens(NamedTuple):
    """The largest logits of N rows.

    `sums` (N, 2): each row's largest logit, and the sum of the exponentials of all logits less it; `best` (N, count):
    the largest logits, in falling order; -inf where there are no more; `tokens` (N, count): their tokens; of equals,
    the smaller id comes first.
    """

    sums: Array
    best: Array
    tokens: Ids


def top_tokens(logits: Array, count: int, first: int = 0) -> TopTokens:
    """Find the largest logits of each row.

    `logits` (N, V): logits; a NaN or infinity shows in the sums; `count`: the number of logits; `first`: tokens
    before this one take part in the sums only.
    """
    if (result := training.top_k(logits, count, first)) is not None:
        return TopTokens(*result)
    best, tokens = _largest(logits[:, first:], count)
    return TopTokens(exponential_sums(logits), best, tokens + first)


def exponential_sums(logits: Array) -> Array:
    """Sum the exponentials of each row.

    `logits` (N, V): logits. Returns array (N, 2): as in `TopTokens`.
    """
    if (result := training.top_k(logits, 1)) is not None:
        return result[0]
    sums = np.empty((len(logits), 2), logits.dtype)
    few = max(1, _NEAR // logits.shape[1])
    with np.errstate(invalid="ignore"):  # the caller checks the sums
        for start in range(0, len(logits), few):
            part = logits[start : start + few]
            most = part.max(axis=1, keepdims=True)
            shifted = part - most
            np.exp(shifted, out=shifted)
            sums[start : start + few, 0], sums[start : start + few, 1] = most[:, 0], shifted.sum(axis=1)
    return sums


def _largest(logits: Array, count: int) -> tuple[Array, Ids]:
    """Return the largest logits of each row (N, count), falling, and their tokens; of equals, the first comes first."""
    bars = _bars(logits, count)
    flat = np.flatnonzero(logits >= bars[:, None])  # few
    values, (rows, tokens) = logits.ravel()[flat], np.divmod(flat, logits.shape[1])
    order = np.lexsort((-values, rows))  # stable
    rank = np.arange(len(flat)) - np.searchsorted(rows, np.arange(len(logits)))[rows]
    order, at = order[rank < count], (rows[rank < count], rank[rank < count])
    largest, ids = (
        np.full((len(logits), count), -np.inf, logits.dtype),
        np.zeros((len(logits), count), np.int64),
    )
    largest[at], ids[at] = values[order], tokens[order]
    return largest, ids


def _bars(logits: Array, count: int) -> Array:
    """Return lower bounds (N,) of the `count` largest logits of each row; a few more logits reach them."""
    least = np.finfo(logits.dtype).min
    grouped = logits.shape[1] // _GROUPS * _GROUPS
    # Frequent tokens have neighbouring ids: a group is one token out of every 256.
    most = logits[:, :grouped].reshape(len(logits), -1, _GROUPS).max(axis=1) if grouped else logits
    if most.shape[1] < count:
        return np.full(len(logits), least)
    bars: Array = np.maximum(np.partition(most, -count, axis=1)[:, -count], least)
    return bars


class OutputLayer:
    """From readouts to logits by a product with the target embedding, or to the most probable tokens directly."""

    def __init__(self, p: Mapping[str, Array]) -> None:
        self.embedding, self.bias = p["target_embedding"], p["output_bias"]

    def logits(self, readout: Array) -> Array:
        """Return the logits (N, V) of readouts (N, E)."""
        return multiply(readout, self.embedding.T, self.bias)

    def top(self, readout: Array, count: int, first: int = 0) -> TopTokens:
        """Return the `top_tokens` of readouts (N, E); the library never holds all logits."""
        if self.packed is not None and readout.dtype == np.float32:
            return TopTokens(*self.packed.top_k(readout, count, first))
        return top_tokens(self.logits(readout), count, first)

    @computed_once
    def packed(self) -> training.PackedWeights | None:
        """The matrix in the library's own layout; None without the library."""
        return training.PackedWeights.pack(self.embedding, self.bias)
