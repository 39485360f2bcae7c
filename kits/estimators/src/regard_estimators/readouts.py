"""The readout, from the attended targets to a prediction: their mean, or a line through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._einsum import einsum

__all__ = ["Constant", "Linear", "readout_of"]

Array = NDArray[Any]
REACH_WIDTHS = 2.0  # for which a line is followed: rows farther away have almost no weight in it


class Constant:
    """The weighted mean of the targets (Nadaraya 1964, Watson 1964)."""

    size = 0  # parameters

    def initial(self, log_factor: float) -> Array:
        """Return the parameters to begin with."""
        return np.zeros(0)

    def precision(self) -> Array:
        """Return the precision of the prior of each parameter."""
        return np.zeros(0)

    def values(self, x: Array, y: Array) -> Array:
        """Return the values (m, e) of the attention for rows x (m, d) with targets y (m, e)."""
        return y

    def __call__(
        self, parameters: Array, context: Array, x: Array
    ) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
        """Return predictions (n, e), and the function from their gradient to those of parameters and context."""
        return context, lambda dy: (np.zeros(0), dy)

    def predict(self, parameters: Array, context: Array, x: Array, widths: Callable[[Array], Array]) -> Array:
        """Return predictions (n, e) for new rows x (n, d)."""
        return context


class Linear:
    """A ridge regression of the targets on the features, weighted by the attention weights (Fan 1992).

    The values of the attention are the moments y, x, x x^T and x y^T, so one attention gives all regressions:

        b = (E[x x^T] - E[x] E[x]^T + r I)^-1 (E[x y^T] - E[x] E[y]^T),    prediction = E[y] + (x_q - E[x])^T b

    where E is the weighted mean of a query's keys. The ridge r is learned; a large one gives `Constant`.

    `features`: d; `outputs`: e.
    """

    size = 1

    def __init__(self, features: int, outputs: int) -> None:
        self._d, self._e = features, outputs
        self._lower = np.tril_indices(features)

    def initial(self, log_factor: float) -> Array:
        """Return the logarithm of a ridge that is small beside the variance of the rows within the width."""
        return np.array([np.log(0.3) - 2 * max(log_factor, 0.0)])

    def precision(self) -> Array:
        """Return a weak precision: without it the ridge vanishes, and lines through few rows are steep."""
        return np.array([0.01])

    def values(self, x: Array, y: Array) -> Array:
        """Return the moments (m, e + d + d (d + 1) / 2 + d e) of rows x (m, d) with targets y (m, e)."""
        rows, columns = self._lower
        return np.column_stack(
            [y, x, x[:, rows] * x[:, columns], (x[:, :, None] * y[:, None, :]).reshape(len(x), -1)]
        )

    def _split(self, context: Array) -> tuple[Array, Array, Array, Array]:
        """Return E[y] (n, e), E[x] (n, d), E[x x^T] (n, d, d) and E[x y^T] (n, d, e)."""
        d, e = self._d, self._e
        y, x, lower, xy = np.split(context, np.cumsum([e, d, len(self._lower[0])]), axis=1)
        xx = np.empty((len(x), d, d))
        rows, columns = self._lower
        xx[:, rows, columns] = xx[:, columns, rows] = lower
        return y, x, xx, xy.reshape(-1, d, e)

    def _join(self, y: Array, x: Array, xx: Array, xy: Array) -> Array:
        """Return the gradient of the context from those of its parts; that of E[x x^T] need not be symmetric."""
        rows, columns = self._lower
        both = xx + xx.swapaxes(1, 2)
        lower = both[:, rows, columns] * np.where(rows == columns, 0.5, 1.0)
        return np.column_stack([y, x, lower, xy.reshape(len(xy), -1)])

    def __call__(
        self, parameters: Array, context: Array, x: Array
    ) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
        """Return predictions (n, e), and the function from their gradient to those of parameters and context."""
        mean_y, mean_x, covariance, slopes = self._lines(parameters, context)
        ridge, offset = np.exp(parameters[0]), x - mean_x

        def pullback(dy: Array) -> tuple[Array, Array]:
            solved = np.linalg.solve(covariance, offset[:, :, None] * dy[:, None, :])
            dcovariance = -solved @ slopes.swapaxes(1, 2)
            symmetric = dcovariance + dcovariance.swapaxes(1, 2)
            dmean_y = dy - einsum("nde,nd->ne", solved, mean_x)
            dmean_x = -(
                einsum("nde,ne->nd", slopes, dy)
                + einsum("ndk,nk->nd", symmetric, mean_x)
                + einsum("nde,ne->nd", solved, mean_y)
            )
            dridge = ridge * einsum("ndd->", dcovariance)
            return np.array([dridge]), self._join(dmean_y, dmean_x, dcovariance, solved)

        return mean_y + einsum("nd,nde->ne", offset, slopes), pullback

    def _lines(self, parameters: Array, context: Array) -> tuple[Array, Array, Array, Array]:
        """Return E[y] (n, e), E[x] (n, d), the covariance with the ridge (n, d, d) and the slopes b (n, d, e)."""
        mean_y, mean_x, xx, xy = self._split(context)
        covariance = xx - mean_x[:, :, None] * mean_x[:, None, :] + np.exp(parameters[0]) * np.eye(self._d)
        slopes = np.linalg.solve(covariance, xy - mean_x[:, :, None] * mean_y[:, None, :])
        return mean_y, mean_x, covariance, slopes

    def predict(self, parameters: Array, context: Array, x: Array, widths: Callable[[Array], Array]) -> Array:
        """Return predictions (n, e) for new rows x (n, d), for which a line is followed `REACH_WIDTHS` widths at most.

        `widths` gives the lengths (n,) of vectors (n, d) in widths. Far from all rows, few rows have weight, and a
        line through few rows predicts badly.
        """
        mean_y, mean_x, _, slopes = self._lines(parameters, context)
        offset = x - mean_x
        offset *= (REACH_WIDTHS / np.maximum(widths(offset), REACH_WIDTHS))[:, None]
        return np.asarray(mean_y + einsum("nd,nde->ne", offset, slopes))


def readout_of(degree: int, features: int, outputs: int) -> Constant | Linear:
    """Return the readout of a local polynomial's degree.

    `degree`: 0 is the mean, 1 the line; `features`: features of a row; `outputs`: targets of a row.
    """
    return Linear(features, outputs) if degree else Constant()
