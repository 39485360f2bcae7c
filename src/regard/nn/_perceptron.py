"""Feed-forward layer: two linear maps with a rectifier between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from regard import _check
from regard._layout import as_rows
from regard.kernels import rows as library
from regard.kernels.matrix import multiply, multiply_and_sum

__all__ = ["perceptron"]

Array = NDArray[Any]
Five = tuple[Array, Array, Array, Array, Array]


def perceptron(
    x: Array, hidden_weight: Array, hidden_bias: Array, output_weight: Array, output_bias: Array
) -> tuple[Array, Callable[[Array], Five]]:
    """Apply a feed-forward network with one hidden layer to each vector. ::

        y = max(x @ hidden_weight + hidden_bias, 0) @ output_weight + output_bias

    Parameters
    ----------
    x : array (..., d)
        Input vectors.
    hidden_weight : array (d, h)
        Weight of the hidden layer.
    hidden_bias : array (h,)
        Bias of the hidden layer.
    output_weight : array (h, e)
        Weight of the output layer.
    output_bias : array (e,)
        Bias of the output layer.

    Returns
    -------
    y : array (..., e)
        Output vectors.
    pullback : function
        ``pullback(dy (..., e)) -> (dx, dhidden_weight, dhidden_bias, doutput_weight, doutput_bias)``; the derivative
        of the rectifier at 0 is 0.

    Raises
    ------
    ValueError
        If the shapes don't match.

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
    _check_shapes(x, hidden_weight, hidden_bias, output_weight, output_bias)
    rows = as_rows(x)
    hidden = multiply(rows, hidden_weight, hidden_bias, rectify=True)
    y = multiply(hidden, output_weight, output_bias)

    def pullback(dy: Array) -> Five:
        _check.same_shape("dy", dy, (*x.shape[:-1], output_weight.shape[1]))
        drows = dy.reshape(y.shape)
        dhidden = multiply(drows, output_weight.T)
        if not library.relu_backward(hidden, dhidden):
            dhidden *= hidden > 0
        dx = multiply(dhidden, hidden_weight.T).reshape(x.shape)
        return dx, *multiply_and_sum(rows.T, dhidden), *multiply_and_sum(hidden.T, drows)

    return y.reshape(*x.shape[:-1], output_weight.shape[1]), pullback


def _check_shapes(
    x: Array, hidden_weight: Array, hidden_bias: Array, output_weight: Array, output_bias: Array
) -> None:
    _check.floats(x=x, hidden_weight=hidden_weight, output_weight=output_weight)
    _check.dimensions(
        x=(x, "(..., d)"), hidden_weight=(hidden_weight, "(d, h)"), output_weight=(output_weight, "(h, e)")
    )
    (h, e), d = output_weight.shape, x.shape[-1]
    _check.same_shape("hidden_weight", hidden_weight, (d, h))
    _check.same_shape("hidden_bias", hidden_bias, (h,))
    _check.same_shape("output_bias", output_bias, (e,))
