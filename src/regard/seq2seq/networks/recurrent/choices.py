"""Hard attention in training: each step attends to one position, which is drawn from the weights of a softmax.

A choice has no derivative. The gradient of its context is passed to the weighted sum, as if that had been the context:
the straight-through estimator (Bengio, Leonard and Courville 2013, "Estimating or Propagating Gradients Through
Stochastic Neurons for Conditional Computation"). It is biased, but has far less noise than REINFORCE, with which Xu et
al. 2015, "Show, Attend and Tell", section 4.1, learn. As there, a random half of the sentences keeps the weighted sum.

Letters: B sentences, T source positions, C annotation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Choices"]

Array = NDArray[Any]

_SOFT = 0.5  # share of the sentences that keep the weighted sum


class Choices:
    """The choices of one pass over the targets of B sentences."""

    def __init__(self, rng: np.random.Generator, sentences: int) -> None:
        self.rng = rng
        self.soft = rng.random(sentences) < _SOFT

    def context(self, weighted: Array, weights: Array, values: Array) -> Array:
        """Return the values (B, C) at positions drawn from weights (B, T), or the weighted sums of soft sentences."""
        with np.errstate(divide="ignore"):  # the largest logarithm with Gumbel noise is drawn
            positions = np.argmax(np.log(weights) + self.rng.gumbel(size=weights.shape), axis=-1)
        return np.where(self.soft[:, None], weighted, values[np.arange(len(values)), positions])
