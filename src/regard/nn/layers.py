"""Embedding, linear layer, tanh and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._layout import as_rows
from regard.kernels import rows as library
from regard.kernels import training
from regard.kernels.matrix import multiply, multiply_and_sum

__all__ = ["dropout", "embed", "linear", "tanh"]

Array = NDArray[Any]

_LEVELS = 1 << 16  # of the random numbers of dropout, and so of its rate


def embed(table: Array, ids: NDArray[np.integer[Any]]) -> tuple[Array, Callable[..., tuple[Array]]]:
    """Look up rows of a table: ``table[ids]``.

    Parameters
    ----------
    table : array (V, E)
        One row for each token.
    ids : integer array (...)
        Indices of rows, 0 to V - 1.

    Returns
    -------
    rows : array (..., E)
        The embeddings.
    pullback : function
        ``pullback(drows (..., E), onto=None) -> (dtable (V, E),)``, added to the array `onto` if it is not None.

    Raises
    ------
    ValueError, TypeError
        If an id is out of range or not an integer.

    Examples
    --------
    >>> import numpy as np
    >>> rows, pullback = embed(np.eye(3), np.array([2, 2]))
    >>> pullback(rows)[0]
    array([[0., 0., 0.],
           [0., 0., 0.],
           [0., 0., 2.]])
    """
    _check.floats(table=table)
    _check.dimensions(table=(table, "(V, E)"))
    ids = _check.integer_array("ids", ids, 0, len(table) - 1)

    def pullback(drows: Array, onto: Array | None = None) -> tuple[Array]:
        _check.same_shape("drows", drows, (*ids.shape, table.shape[1]))
        if onto is not None:
            _check.same_shape("onto", onto, table.shape)
        flat, drows = ids.reshape(-1), drows.reshape(ids.size, table.shape[1])
        dtable = np.zeros(table.shape, drows.dtype) if onto is None else onto
        if not training.add_rows(dtable, flat, drows):
            dtable += _sum_by_id(flat, drows, len(table))
        return (dtable,)

    return table[ids], pullback


def _sum_by_id(ids: NDArray[np.integer[Any]], rows: Array, size: int) -> Array:
    """Return a table (size, E) with the sum of all rows (N, E) of each id."""
    from scipy.sparse import csr_array

    # A product with the sparse one-hot matrix of the ids: many times faster than np.add.at.
    one_hot = csr_array((np.ones(len(ids), rows.dtype), ids, np.arange(len(ids) + 1)), (len(ids), size))
    return np.asarray(one_hot.T @ rows)


def linear(
    x: Array, weight: Array, bias: Array | None = None
) -> tuple[Array, Callable[[Array], tuple[Array, ...]]]:
    """Multiply by a matrix: ``x @ weight + bias``.

    Parameters
    ----------
    x : array (..., d)
        Input vectors.
    weight : array (d, e)
        Weight matrix.
    bias : array (e,), optional
        Added to each product.

    Returns
    -------
    y : array (..., e)
        The product.
    pullback : function
        ``pullback(dy (..., e)) -> (dx (..., d), dweight (d, e), dbias (e,))``, without dbias where there is no bias.

    Raises
    ------
    ValueError
        If the shapes don't match.

    Examples
    --------
    >>> import numpy as np
    >>> y, pullback = linear(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]), np.array([0.5]))
    >>> y, [gradient.tolist() for gradient in pullback(np.ones((1, 1)))]
    (array([[11.5]]), [[[3.0, 4.0]], [[1.0], [2.0]], [1.0]])
    """
    _check_linear(x, weight, bias)
    # (rows, d): one product for all leading dimensions
    rows = as_rows(x)
    y = multiply(rows, weight, bias)  # (rows, e)

    def pullback(dy: Array) -> tuple[Array, ...]:
        _check.same_shape("dy", dy, (*x.shape[:-1], weight.shape[1]))
        drows = dy.reshape(len(rows), weight.shape[1])  # (rows, e)
        dx = multiply(drows, weight.T).reshape(x.shape)
        return (dx, multiply(rows.T, drows)) if bias is None else (dx, *multiply_and_sum(rows.T, drows))

    return y.reshape(*x.shape[:-1], weight.shape[1]), pullback


def _check_linear(x: Array, weight: Array, bias: Array | None) -> None:
    """Check the arguments of `linear`."""
    _check.floats(x=x, weight=weight, bias=bias)
    _check.dimensions(x=(x, "(..., d)"), weight=(weight, "(d, e)"))
    _check.same_shape("weight", weight, (x.shape[-1], weight.shape[1]))
    if bias is not None:
        _check.same_shape("bias", bias, weight.shape[1:])


def tanh(x: Array) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Apply the hyperbolic tangent.

    Parameters
    ----------
    x : array (...)
        Any numbers.

    Returns
    -------
    y : array (...)
        ``tanh(x)``.
    pullback : function
        ``pullback(dy (...)) -> (dx (...),)``.

    Examples
    --------
    >>> import numpy as np
    >>> y, pullback = tanh(np.zeros(2))
    >>> y, pullback(np.ones(2))
    (array([0., 0.]), (array([1., 1.]),))
    """
    _check.floats(x=x)
    y = np.tanh(x)

    def pullback(dy: Array) -> tuple[Array]:
        _check.same_shape("dy", dy, x.shape)
        return (dy * (1 - y * y),)

    return y, pullback


def dropout(
    x: Array, rate: float, rng: np.random.Generator | int | None
) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Set numbers to 0 with probability `rate` and multiply the others by ``1 / (1 - rate)``.

    Parameters
    ----------
    x : array (...)
        Any numbers.
    rate : float
        At least 0 and less than 1, rounded to a multiple of 2^-16; 0 returns x and draws no random numbers.
    rng : numpy.random.Generator, int or None
        Generator of the random numbers, or its seed; None returns x, as outside training.

    Returns
    -------
    y : array (...)
        The scaled numbers and zeros.
    pullback : function
        ``pullback(dy (...)) -> (dx (...),)``.

    References
    ----------
    Srivastava et al. 2014, "Dropout", section 10.

    Examples
    --------
    >>> import numpy as np
    >>> y, pullback = dropout(np.ones(8), 0.5, rng=0)
    >>> sorted(set(y.tolist())), bool((pullback(np.ones(8))[0] == y).all())
    ([0.0, 2.0], True)
    """
    _check.floats(x=x)
    rate = _check.number("rate", rate, least=0, below=1)
    generator = None if rng is None else _check.generator("rng", rng)

    def checked(dy: Array) -> Array:
        _check.same_shape("dy", dy, x.shape)
        return dy

    if rate == 0 or generator is None:
        return x, lambda dy: (checked(dy),)
    threshold = min(round(rate * _LEVELS), _LEVELS - 1)
    noise, scale = _uniform(x.shape, generator), _LEVELS / (_LEVELS - threshold)
    return _drop(x, noise, threshold, scale), lambda dy: (_drop(checked(dy), noise, threshold, scale),)


def _drop(x: Array, noise: NDArray[np.uint16], threshold: int, scale: float) -> Array:
    """Return x times `scale` where the noise is at least `threshold`, and 0 elsewhere."""
    if (native := library.drop(x, noise, threshold, scale)) is not None:
        return native
    factors = (noise >= threshold).astype(x.dtype)
    factors *= x.dtype.type(scale)
    y: Array = x * factors
    return y


def _uniform(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.uint16]:
    """Draw uniform integers below 2^16, four from each 64 random bits."""
    size = math.prod(shape)
    bits = rng.integers(1 << 64, size=-(-size // 4), dtype=np.uint64)
    return bits.view(np.uint16)[:size].reshape(shape)
