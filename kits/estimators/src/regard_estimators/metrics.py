"""The learned score between rows, ``-|M x - M y|^2 / 2``, as queries and keys whose dot product is the score.

It has a forward function and its pullback, so that gradients of queries and keys become gradients of the parameters.
Rows x are standardised. M is one factor, one factor a feature, or a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._einsum import einsum

__all__ = ["METRICS", "Gaussian"]

Array = NDArray[Any]
Pullback = Callable[[Array], Array]  # of the output's gradient to that of the parameters
METRICS = ("scalar", "diagonal", "full")
LARGEST_LOG_FACTOR = (
    8.0  # of a log-factor: a feature may count e^8 times more or less than its standard deviation
)


@dataclass(frozen=True)
class Gaussian:
    """-|M x - M y|^2 / 2, from which softmax makes the weights of Nadaraya and Watson.

    `metric`: the structure of M, one of `METRICS`; factors are learned by their logarithms; `features`: d; `rank`:
    dimensions of M x; d unless M is a matrix.
    """

    metric: str
    features: int
    rank: int

    @property
    def size(self) -> int:
        """Number of parameters."""
        return {"scalar": 1, "diagonal": self.features, "full": self.features * self.rank}[self.metric]

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Return the least and the largest value of each parameter."""
        most = None if self.metric == "full" else LARGEST_LOG_FACTOR
        return [(most and -most, most)] * self.size

    def initial(self, log_factor: float, x: Array) -> Array:
        """Return the parameters of ``exp(log_factor) * x``, projected to the main axes of x if rank < d.

        A larger factor gives more weight to near rows.
        """
        if self.metric != "full":
            return np.full(self.size, log_factor)
        axes = np.eye(self.features)
        if self.rank < self.features:
            axes = np.linalg.eigh(x.T @ x)[1][:, ::-1][:, : self.rank]
        return np.asarray(np.exp(log_factor) * axes).ravel()

    def precision(self, log_factor: float) -> Array:
        """Return the precision of each parameter's prior: 1 for logarithms; for others relative to the factor."""
        return np.full(self.size, np.exp(-2 * log_factor) if self.metric == "full" else 1.0)

    def widths(self, parameters: Array, x: Array) -> Array:
        """Return the lengths (n,) of vectors x (n, d) in widths: |M x|."""
        return np.asarray(np.linalg.norm(self._mapped(parameters, x)[0], axis=1))

    def __call__(
        self, parameters: Array, queries: Array, keys: Array
    ) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """Return queries [u, 1], keys [v, -|v|^2 / 2], and the function from their gradients to the parameters'.

        What depends on the query alone cancels in the softmax, so it is left out.
        """
        u, of_queries = self._mapped(parameters, queries)
        v, of_keys = self._mapped(parameters, keys)
        norms = -0.5 * einsum("md,md->m", v, v)

        def pullback(dq: Array, dk: Array) -> Array:
            return of_queries(dq[:, :-1]) + of_keys(dk[:, :-1] - v * dk[:, -1:])

        return np.column_stack([u, np.ones(len(u))]), np.column_stack([v, norms]), pullback

    def _mapped(self, parameters: Array, x: Array) -> tuple[Array, Pullback]:
        """Return M x (n, rank) and the function from its gradient to that of the parameters."""
        if self.metric == "full":
            matrix = parameters.reshape(self.features, self.rank)
            return x @ matrix, lambda du: np.asarray(x.T @ du).ravel()
        factors = np.exp(parameters)

        def pullback(du: Array) -> Array:
            per_feature = einsum("nd,nd->d", x, du)
            return np.asarray(
                (per_feature if self.metric == "diagonal" else per_feature.sum(keepdims=True)) * factors
            )

        return x * factors, pullback
