"""Two linear maps with a rectifier between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["perceptron"]

Array = NDArray[Any]
Five = tuple[Array, Array, Array, Array, Array]

_ROWS = 512  # so many hidden rows are still in the cache when the rectifier and the second map read them


def perceptron(
    x: Array, hidden_weight: Array, hidden_bias: Array, output_weight: Array, output_bias: Array
) -> tuple[Array, Callable[[Array], Five]]:
    """Map each vector through a hidden layer. ::

        y = max(x @ hidden_weight + hidden_bias, 0) @ output_weight + output_bias

    Parameters
    ----------
    x : array (..., d)
        Any number of vectors.
    hidden_weight : array (d, h)
        Into the hidden layer.
    hidden_bias : array (h,)
        Added there.
    output_weight : array (h, e)
        Out of it.
    output_bias : array (e,)
        Added at the end.

    Returns
    -------
    y : array (..., e)
        What comes out.
    pullback : function
        ``pullback(dy (..., e)) -> (dx, dhidden_weight, dhidden_bias, doutput_weight, doutput_bias)``; at a hidden sum
        of 0 the slope is 0.

    References
    ----------
    Vaswani et al. 2017, eq. 2.

    Examples
    --------
    >>> import numpy as np
    >>> x, weights = np.array([[3.0]]), (np.array([[1.0, -1.0]]), np.zeros(2), np.array([[2.0], [5.0]]), np.ones(1))
    >>> perceptron(x, *weights)[0], perceptron(-x, *weights)[0]
    (array([[7.]]), array([[16.]]))
    """
    rows = x.reshape(-1, x.shape[-1])
    hidden = np.empty((len(rows), hidden_weight.shape[1]), x.dtype)
    y = np.empty((len(rows), output_weight.shape[1]), x.dtype)
    for start in range(0, len(rows), _ROWS):
        block = slice(start, start + _ROWS)
        part = np.matmul(rows[block], hidden_weight, out=hidden[block])
        part += hidden_bias
        np.maximum(part, 0, out=part)
        np.matmul(part, output_weight, out=y[block])
    y += output_bias

    def pullback(dy: Array) -> Five:
        drows = dy.reshape(y.shape)
        dhidden, dx = np.empty_like(hidden), np.empty_like(rows)
        for start in range(0, len(rows), _ROWS):
            block = slice(start, start + _ROWS)
            part = np.matmul(drows[block], output_weight.T, out=dhidden[block])
            part *= hidden[block] > 0
            np.matmul(part, hidden_weight.T, out=dx[block])
        return (
            dx.reshape(x.shape),
            rows.T @ dhidden,
            dhidden.sum(axis=0),
            hidden.T @ drows,
            drows.sum(axis=0),
        )

    return y.reshape(*x.shape[:-1], output_weight.shape[1]), pullback
