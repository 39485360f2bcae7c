"""Activations of hidden layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.kernels import rows as library

__all__ = ["gelu", "relu", "silu"]

Array = NDArray[Any]

_SATURATED = 800.0  # gates of larger magnitudes are 1 or 0 in float64


def gelu(x: Array, *, approximate: str = "none") -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Apply the Gaussian error linear unit, ``x * Phi(x)`` with the normal distribution function Phi.

    Parameters
    ----------
    x : array (...)
        Any numbers.
    approximate : {"none", "tanh"}
        "tanh" takes ``(1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`` for Phi(x), as GPT-2 does.

    Returns
    -------
    y : array (...)
        The activations; 0 at -inf.
    pullback : function
        ``pullback(dy (...)) -> (dx (...),)``.

    Raises
    ------
    ValueError, TypeError
        If x is not an array of floats, or `approximate` is unknown.

    References
    ----------
    Hendrycks and Gimpel 2016, "Gaussian Error Linear Units (GELUs)", section 2.

    Examples
    --------
    >>> import numpy as np
    >>> y, pullback = gelu(np.array([-1.0, 0.0, 1.0]))
    >>> y.round(4), pullback(np.ones(3))[0].round(4)
    (array([-0.1587,  0.    ,  0.8413]), array([-0.0833,  0.5   ,  1.0833]))
    """
    _check.floats(x=x)
    _check.choice("approximate", approximate, ("none", "tanh"))
    clipped = np.clip(x, -_SATURATED, _SATURATED)
    gate, slope = _by_tanh(clipped) if approximate == "tanh" else _normal(clipped)
    return _gated(x, clipped, gate, slope)


def _normal(x: Array) -> tuple[Array, Callable[[], Array]]:
    """Return the normal distribution function at x, and a function that computes its density there."""
    from scipy import special

    def density() -> Array:
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(x * x * x.dtype.type(-0.5)) * x.dtype.type(1 / math.sqrt(2 * math.pi)))

    return np.asarray(special.ndtr(x)), density


def _by_tanh(x: Array) -> tuple[Array, Callable[[], Array]]:
    """Return the tanh approximation at x, and a function that computes its derivative there."""
    dtype, root, cubic = x.dtype.type, math.sqrt(2 / math.pi), 0.044715
    tanh = np.tanh(dtype(root) * (x + dtype(cubic) * x * x * x))

    def slope() -> Array:
        inner = dtype(root) * (1 + dtype(3 * cubic) * x * x)
        return np.asarray(dtype(0.5) * (1 - tanh * tanh) * inner)

    return np.asarray(dtype(0.5) * (1 + tanh)), slope


def silu(x: Array) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Apply the sigmoid linear unit (swish), ``x / (1 + exp(-x))``.

    Parameters
    ----------
    x : array (...)
        Any numbers.

    Returns
    -------
    y : array (...)
        The activations; 0 at -inf.
    pullback : function
        ``pullback(dy (...)) -> (dx (...),)``.

    Raises
    ------
    TypeError
        If x is not an array of floats.

    References
    ----------
    Elfwing, Uchibe and Doya 2017, "Sigmoid-Weighted Linear Units", eq. 5; Shazeer 2020, "GLU Variants Improve
    Transformer" (SwiGLU: ``silu(x @ gate) * (x @ up)``).

    Examples
    --------
    >>> import numpy as np
    >>> y, pullback = silu(np.array([0.0, np.log(3)]))
    >>> y.round(4), pullback(np.ones(2))[0].round(4)
    (array([0.   , 0.824]), array([0.5  , 0.956]))
    """
    from scipy import special

    _check.floats(x=x)
    clipped = np.clip(x, -_SATURATED, _SATURATED)
    with np.errstate(under="ignore"):
        gate = np.asarray(special.expit(clipped))
    return _gated(x, clipped, gate, lambda: gate * (1 - gate))


def _gated(
    x: Array, clipped: Array, gate: Array, slope: Callable[[], Array]
) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Return ``x * gate`` and its pullback; `clipped` is x without infinities, so that 0 times it is never NaN."""

    def pullback(dy: Array) -> tuple[Array]:
        _check.same_shape("dy", dy, x.shape)
        with np.errstate(under="ignore"):
            return (dy * (gate + clipped * slope()),)

    with np.errstate(under="ignore"):
        return np.maximum(x, clipped.dtype.type(-_SATURATED)) * gate, pullback


def relu(x: Array) -> tuple[Array, Callable[[Array], tuple[Array]]]:
    """Apply the rectified linear unit, ``max(x, 0)``.

    Parameters
    ----------
    x : array (...)
        Any numbers.

    Returns
    -------
    y : array (...)
        The activations.
    pullback : function
        ``pullback(dy (...)) -> (dx (...),)``; the derivative at 0 is 0.

    Raises
    ------
    TypeError
        If x is not an array of floats.

    References
    ----------
    Nair and Hinton 2010, "Rectified Linear Units Improve Restricted Boltzmann Machines", section 2.

    Examples
    --------
    >>> import numpy as np
    >>> y, pullback = relu(np.array([-1.0, 0.0, 2.0]))
    >>> y, pullback(np.ones(3))[0]
    (array([0., 0., 2.]), array([0., 0., 1.]))
    """
    _check.floats(x=x)
    y = np.asarray(np.maximum(x, 0))

    def pullback(dy: Array) -> tuple[Array]:
        _check.same_shape("dy", dy, x.shape)
        dx = dy.copy()
        if not library.relu_backward(y, dx):
            dx *= y > 0
        return (dx,)

    return y, pullback
