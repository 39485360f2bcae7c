"""Layer normalisation and root mean square normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._einsum import einsum
from regard._layout import as_rows
from regard.kernels import rows as library

__all__ = ["layer_norm", "rms_norm"]

Array = NDArray[Any]
Back = Callable[..., tuple[Array, Array, Array]]

_BLOCK_NUMBERS = 1 << 16  # numbers processed at a time, so that all arrays stay in the cache


def layer_norm(x: Array, gain: Array, shift: Array, *, epsilon: float = 1e-5) -> tuple[Array, Back]:
    """Normalise every vector to mean 0 and variance 1, and apply a learned gain and shift. ::

        y = (x - mean) / sqrt(variance + epsilon) * gain + shift

    Parameters
    ----------
    x : array (..., d)
        Input vectors.
    gain, shift : array (d,)
        Scale and offset of each coordinate.
    epsilon : float
        Added under the square root.

    Returns
    -------
    y : array (..., d)
        Normalised vectors.
    pullback : function
        ``pullback(dy (..., d), onto=None) -> (dx (..., d), dgain (d,), dshift (d,))``; `onto` (..., d) is added to dx.

    Raises
    ------
    ValueError
        If the shapes don't match.

    References
    ----------
    Ba, Kiros and Hinton 2016, "Layer Normalization", eq. 4.

    Examples
    --------
    >>> import numpy as np
    >>> layer_norm(np.array([1.0, 3.0]), np.ones(2), np.array([0.0, 10.0]), epsilon=0.0)[0]
    array([-1., 11.])
    """
    _check.floats(x=x)
    if not x.ndim:
        _check.fail("x must be (..., d). Got a single number instead.")
    for name, array in (("gain", gain), ("shift", shift)):
        _check.same_shape(name, array, x.shape[-1:])
    epsilon = _check.number("epsilon", epsilon, least=0)
    rows = as_rows(x)
    if rows.size and (native := library.norm(rows, gain, shift, epsilon)) is not None:
        return native[0].reshape(x.shape), _native_pullback(rows, gain, native[1], x.shape)
    normal, y = np.empty_like(rows), np.empty_like(rows)
    inverse = np.empty((len(rows), 1), x.dtype)
    for block in _blocks(rows):
        inverse[block] = _standardize(rows[block], normal[block], epsilon)
        np.multiply(normal[block], gain, out=y[block])
        y[block] += shift

    def pullback(dy: Array, onto: Array | None = None) -> tuple[Array, Array, Array]:
        _check_gradient(dy, onto, x.shape)
        drows, dx = dy.reshape(rows.shape), np.empty_like(rows)
        dgain = np.zeros_like(gain)
        for block in _blocks(rows):
            dgain += _destandardize(drows[block], normal[block], inverse[block], gain, dx[block])
        if onto is not None:
            dx += onto.reshape(rows.shape)
        return dx.reshape(x.shape), dgain, np.ones(len(rows), x.dtype) @ drows

    return y.reshape(x.shape), pullback


def _native_pullback(rows: Array, gain: Array, moments: Array, shape: tuple[int, ...]) -> Back:
    def pullback(dy: Array, onto: Array | None = None) -> tuple[Array, Array, Array]:
        _check_gradient(dy, onto, shape)
        drows = np.require(dy.reshape(rows.shape), np.float32, ["C", "A"])
        addend = None if onto is None else np.require(onto.reshape(rows.shape), np.float32, ["C", "A"])
        gradients = library.norm_back(rows, gain, moments, drows, addend)
        assert gradients is not None
        return gradients[0].reshape(shape), *gradients[1:]

    return pullback


def _check_gradient(dy: Array, onto: Array | None, shape: tuple[int, ...]) -> None:
    _check.same_shape("dy", dy, shape)
    if onto is not None:
        _check.same_shape("onto", onto, shape)


def _blocks(rows: Array) -> list[slice]:
    step = max(_BLOCK_NUMBERS // max(rows.shape[1], 1), 1)
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def _standardize(x: Array, normal: Array, epsilon: float) -> Array:
    """Write rows of mean 0 and variance 1, and return the reciprocals of their standard deviations (rows, 1)."""
    factor = x.dtype.type(1 / max(x.shape[1], 1))
    mean_weights = np.full(x.shape[1], factor)
    np.subtract(
        x, (x @ mean_weights)[:, None], out=normal
    )  # sums by BLAS are several times as fast as NumPy's own
    variance = einsum("ij,ij->i", normal, normal)[:, None] * factor
    inverse: Array = 1 / np.sqrt(variance + x.dtype.type(epsilon))
    normal *= inverse
    return inverse


def _destandardize(dy: Array, normal: Array, inverse: Array, gain: Array, dx: Array) -> Array:
    """Write the gradient of rows, and return that of the gain.

    Normalisation removes from the gradient of a row its components along 1 and along the normalised row.
    """
    weight = gain / gain.dtype.type(max(len(gain), 1))
    along = dy * normal
    dgain: Array = np.ones(len(dy), dy.dtype) @ along
    np.multiply(dy, gain, out=dx)
    dx -= (dy @ weight)[:, None]
    np.multiply(normal, (along @ weight)[:, None], out=along)
    dx -= along
    dx *= inverse
    return dgain


def rms_norm(
    x: Array, gain: Array, *, epsilon: float = 1e-5
) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
    """Divide every vector by its root mean square, and multiply it by a learned gain. ::

        y = x / sqrt(mean(x^2) + epsilon) * gain

    Parameters
    ----------
    x : array (..., d)
        Input vectors.
    gain : array (d,)
        Scale of each coordinate.
    epsilon : float
        Added under the square root.

    Returns
    -------
    y : array (..., d)
        Normalised vectors.
    pullback : function
        ``pullback(dy (..., d)) -> (dx (..., d), dgain (d,))``.

    Raises
    ------
    ValueError, TypeError
        If the shapes don't match.

    References
    ----------
    Zhang and Sennrich 2019, "Root Mean Square Layer Normalization", eq. 4.

    Examples
    --------
    >>> import numpy as np
    >>> rms_norm(np.array([3.0, 4.0, 0.0, 0.0]), np.ones(4), epsilon=0.0)[0]
    array([1.2, 1.6, 0. , 0. ])
    """
    _check.floats(x=x)
    if not x.ndim:
        _check.fail("x must be (..., d). Got a single number instead.")
    _check.same_shape("gain", gain, x.shape[-1:])
    epsilon = _check.number("epsilon", epsilon, least=0)
    rows = as_rows(x)
    factor = x.dtype.type(1 / max(rows.shape[1], 1))
    square = einsum("ij,ij->i", rows, rows)[:, None] * factor
    inverse = 1 / np.sqrt(square + x.dtype.type(epsilon))
    normal = rows * inverse

    def pullback(dy: Array) -> tuple[Array, Array]:
        _check.same_shape("dy", dy, x.shape)
        drows = dy.reshape(rows.shape)
        dnormal = drows * gain
        along = einsum("ij,ij->i", dnormal, normal)[:, None] * factor
        dx = (dnormal - normal * along) * inverse
        return dx.reshape(x.shape), einsum("ij,ij->j", drows, normal)

    return (normal * gain).reshape(x.shape), pullback
