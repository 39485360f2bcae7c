"""Hard attention in training: each step attends to one position, which is drawn from its weights.

With the position c_t of step t, the gradient of the expected loss is the expectation of (REINFORCE, Williams 1992)::

    d loss + sum_t (return_t - baseline_t) d log weights_t[c_t]

return_t is the loss of the tokens from t on, and baseline_t its mean over the other sentences of the batch, which does
not depend on c_t: it takes away variance and adds no bias. The sum has a weight less than 1, as most of it is noise.
The loss includes minus the entropy of the weights, and a random half of the sentences keeps the weighted sum. Xu et
al. 2015, "Show, Attend and Tell", section 4.1, where the baseline is a moving average, a state that a resumed training
would need. Terms of guided alignment and R-Drop are differentiated along the positions.

Letters: n target positions, B sentences, T source positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Choices", "choice_loss"]

Array = NDArray[Any]

_SOFT = 0.5  # share of the sentences that keep the weighted sum
_ENTROPY = 0.01  # weight of the entropy
_REWARD = 0.3  # weight of the sum (lambda_r of Xu et al.): with 1, its noise drowns the rest
_LEAST = 1e-10  # a weight in a logarithm


class Choices:
    """The positions that the steps of B sentences attend to: `drawn` has a one-hot row of each step, 0 where `soft`."""

    def __init__(self, rng: np.random.Generator, sentences: int) -> None:
        self.rng, self.drawn = rng, list[Array]()
        self.soft = rng.random(sentences)[:, None] < _SOFT  # (B, 1)

    def draw(self, weights: Array) -> Array:
        """Draw a position of each sentence from its weights (B, T): the largest logarithm with Gumbel noise."""
        with np.errstate(divide="ignore"):
            noisy = np.log(weights) + self.rng.gumbel(size=weights.shape)
        one_hot = np.arange(weights.shape[-1]) == np.argmax(noisy, axis=-1)[:, None]
        self.drawn.append((one_hot & ~self.soft).astype(weights.dtype))
        return self.drawn[-1]


def choice_loss(
    weights: Array | None, drawn: Array | None, losses: Array, real: NDArray[np.bool_]
) -> tuple[float, Callable[[float], Array | None]]:
    """Return the entropy's part of the loss, and the pullback to the gradient of weights (n, B, T).

    `drawn` (n, B, T): the choices, or None without; `losses` (n, readings B): the loss of each token, 0 where it is not
    `real` (n, B).
    """
    if weights is None or drawn is None:
        return 0.0, lambda dloss: None
    probabilities, tokens = np.maximum(weights, _LEAST), real.sum()
    logs = np.log(probabilities) * real[..., None]
    entropies = -(weights * logs).sum(axis=-1)
    costs = losses.reshape(len(real), -1, real.shape[1]).mean(axis=1) - _ENTROPY * entropies
    share, advantages = _ENTROPY / tokens, _advantages(costs / tokens, real)

    def pullback(dloss: float) -> Array:
        gradient: Array = _REWARD * advantages[..., None] * drawn / probabilities + share * logs
        return (dloss * gradient).astype(weights.dtype, copy=False)

    return -share * float(entropies.sum(dtype=np.float64)), pullback


def _advantages(losses: Array, real: NDArray[np.bool_]) -> Array:
    """Return how much more the tokens from each on (n, B) cost than those of the other sentences of the batch."""
    returns = losses[::-1].cumsum(axis=0)[::-1]
    others = np.maximum(real.sum(axis=1, keepdims=True) - 1, 1)
    advantages: Array = (returns - (returns.sum(axis=1, keepdims=True) - returns) / others) * real
    return advantages
