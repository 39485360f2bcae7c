"""Learned score functions between rows, as queries and keys whose dot product is the score.

Each has a forward function and its pullback, so that gradients of queries and keys become gradients of the parameters.
Rows x are standardised. A metric is a linear map u = M x: one factor, one factor a feature, or a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._einsum import einsum

__all__ = ["METRICS", "SCORES", "Metric", "RowScore", "score_of"]

Array = NDArray[Any]
Pullback = Callable[[Array], Array]  # of the output's gradient to that of the parameters
METRICS = ("scalar", "diagonal", "full")
LARGEST_LOG_FACTOR = (
    8.0  # of a log-factor: a feature may count e^8 times more or less than its standard deviation
)
LEAST_NORM = 1e-12  # keeps the direction of a zero vector finite


@dataclass(frozen=True)
class Metric:
    """A linear map u = M x of one of `METRICS`, from d features to `rank` dimensions.

    `name`: the structure of M; `features`: d; `rank`: dimensions of u; d unless M is a matrix; `signed`: whether
    factors may be negative; otherwise their logarithms are the parameters.
    """

    name: str
    features: int
    rank: int
    signed: bool = False

    @property
    def size(self) -> int:
        """Number of parameters."""
        return {"scalar": 1, "diagonal": self.features, "full": self.features * self.rank}[self.name]

    @property
    def bounded(self) -> bool:
        """Whether the parameters are logarithms, which are bounded by ±`LARGEST_LOG_FACTOR`."""
        return self.name != "full" and not self.signed

    def initial(self, log_factor: float, x: Array) -> Array:
        """Return the parameters of ``u = exp(log_factor) * x``, projected to the main axes of x if rank < d."""
        if self.name != "full":
            return np.full(self.size, np.exp(log_factor) if self.signed else log_factor)
        axes = np.eye(self.features)
        if self.rank < self.features:
            axes = np.linalg.eigh(x.T @ x)[1][:, ::-1][:, : self.rank]
        return np.asarray(np.exp(log_factor) * axes).ravel()

    def __call__(self, parameters: Array, x: Array) -> tuple[Array, Pullback]:
        """Return u (n, rank) and the function from its gradient to that of the parameters."""
        if self.name == "full":
            matrix = parameters.reshape(self.features, self.rank)
            return x @ matrix, lambda du: np.asarray(x.T @ du).ravel()
        factors = parameters if self.signed else np.exp(parameters)
        chain = 1.0 if self.signed else factors

        def pullback(du: Array) -> Array:
            per_feature = einsum("nd,nd->d", x, du)
            return np.asarray(
                (per_feature if self.name == "diagonal" else per_feature.sum(keepdims=True)) * chain
            )

        return x * factors, pullback


@dataclass(frozen=True)
class RowScore:
    """Base class of the score functions: parameters and rows to queries and keys.

    `metric`: the learned linear map.
    """

    metric: Metric

    @property
    def size(self) -> int:
        """Number of parameters."""
        return self.metric.size

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Return the least and the largest value of each parameter."""
        return [
            (-LARGEST_LOG_FACTOR, LARGEST_LOG_FACTOR) if self.metric.bounded else (None, None)
        ] * self.metric.size

    def initial(self, log_factor: float, x: Array) -> Array:
        """Return parameters to begin with; a larger factor gives more weight to near rows."""
        return self.metric.initial(log_factor, x)

    def precision(self, log_factor: float) -> Array:
        """Return the precision of each parameter's prior: 1 for logarithms; for others relative to the factor."""
        return np.full(self.size, 1.0 if self.metric.bounded else np.exp(-2 * log_factor))

    def widths(self, parameters: Array, x: Array) -> Array:
        """Return the lengths (n,) of vectors x (n, d) in widths; 0 if the score has none."""
        return np.zeros(len(x))

    def __call__(
        self, parameters: Array, queries: Array, keys: Array
    ) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """Return queries, keys and the function from their gradients to that of the parameters."""
        raise NotImplementedError


class Gaussian(RowScore):
    """-|M x - M y|^2 / 2, from which softmax makes the weights of Nadaraya and Watson.

    What depends on the query alone cancels in the softmax, so it is left out.
    """

    def widths(self, parameters: Array, x: Array) -> Array:
        """Return |M x|."""
        return np.asarray(np.linalg.norm(self.metric(parameters, x)[0], axis=1))

    def __call__(
        self, parameters: Array, queries: Array, keys: Array
    ) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """Return queries [u, 1] and keys [v, -|v|^2 / 2]."""
        u, of_queries = self.metric(parameters, queries)
        v, of_keys = self.metric(parameters, keys)
        norms = -0.5 * einsum("md,md->m", v, v)

        def pullback(dq: Array, dk: Array) -> Array:
            return of_queries(dq[:, :-1]) + of_keys(dk[:, :-1] - v * dk[:, -1:])

        return np.column_stack([u, np.ones(len(u))]), np.column_stack([v, norms]), pullback


class General(RowScore):
    """x^T M y (Luong et al. 2015)."""

    def __call__(
        self, parameters: Array, queries: Array, keys: Array
    ) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """Return queries M^T x, and the keys as they are."""
        u, pullback = self.metric(parameters, queries)
        return u, keys, lambda dq, dk: pullback(dq)


class Cosine(RowScore):
    """t cos(M x, M y) with a learned temperature; its logarithm is the first parameter (Graves et al. 2014)."""

    @property
    def size(self) -> int:
        """Number of parameters: a common factor has no influence on an angle."""
        return 1 if self.metric.name == "scalar" else 1 + self.metric.size

    def bounds(self) -> list[tuple[float | None, float | None]]:
        """Return the least and the largest value of each parameter."""
        return [(-LARGEST_LOG_FACTOR, LARGEST_LOG_FACTOR), *super().bounds()][: self.size]

    def initial(self, log_factor: float, x: Array) -> Array:
        """Return parameters to begin with; the factor is that of the distance between directions."""
        temperature = 2 * log_factor + np.log(x.shape[1])
        return np.concatenate([[temperature], self.metric.initial(0.0, x)])[: self.size]

    def precision(self, log_factor: float) -> Array:
        """Return 1: the scale of M has no influence."""
        return np.ones(self.size)

    def __call__(
        self, parameters: Array, queries: Array, keys: Array
    ) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """Return queries t u / |u| and keys v / |v|."""
        factors = parameters[1:] if self.size > 1 else np.zeros(1)
        temperature = np.exp(parameters[0])
        (u, of_u), (v, of_v) = (self._direction(factors, x) for x in (queries, keys))

        def pullback(dq: Array, dk: Array) -> Array:
            dfactors = temperature * of_u(dq) + of_v(dk)
            return np.concatenate([[temperature * np.sum(dq * u)], dfactors])[: self.size]

        return temperature * u, v, pullback

    def _direction(self, factors: Array, x: Array) -> tuple[Array, Pullback]:
        u, pullback = self.metric(factors, x)
        norms = np.sqrt(einsum("nd,nd->n", u, u) + LEAST_NORM)[:, None]
        direction = u / norms

        def through(d: Array) -> Array:
            along = einsum("nd,nd->n", d, direction)[:, None]
            return pullback((d - along * direction) / norms)

        return direction, through


SCORES: dict[str, type[RowScore]] = {"gaussian": Gaussian, "general": General, "cosine": Cosine}


def score_of(name: str, metric: str, features: int, rank: int | None = None) -> RowScore:
    """Return the score function of a name.

    `name`: the score function; `metric`: the structure of its linear map; `features`: features of a row; `rank`: rows
    of a "full" map; by default the features.
    """
    signed = name == "general"
    return SCORES[name](Metric(metric, features, features if rank is None else rank, signed))
