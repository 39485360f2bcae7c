"""Gradient checking by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check

__all__ = ["check_gradients"]

Array = NDArray[Any]


def check_gradients(
    function: Callable[..., tuple[Any, Callable[[Any], Sequence[Any]]]],
    arrays: Sequence[Array],
    *,
    rng: np.random.Generator | int | None = 0,
    directions: int = 2,
    step: float = 1e-6,
    tolerance: float = 1e-6,
) -> float:
    """Compare the pullback of a function with central differences along random directions, one array at a time.

    For a random u of the output's shape and a random direction h of an array's,
    ``u . (f(x + step h) - f(x - step h)) / (2 step)`` must be ``pullback(u) . h``.

    Parameters
    ----------
    function : callable
        ``function(*arrays) -> (output, pullback)``; output is an array or a number, and ``pullback(doutput)``
        returns one gradient, or None, for each array.
    arrays : sequence of float64 arrays
        Arguments at which to check; they are not changed.
    rng : numpy.random.Generator, int or None
        Generator of the random directions, or its seed; with None they differ in every call.
    directions : int
        Number of directions for each array.
    step : float
        Step size of the differences.
    tolerance : float
        Largest allowed error, relative to the norms of gradient and direction.

    Returns
    -------
    float
        The largest error.

    Raises
    ------
    AssertionError
        If a gradient is wrong; the message has the index of the array and both numbers.
    ValueError
        If an array isn't float64, or the gradients differ from the arrays in number or shape.

    Examples
    --------
    >>> import numpy as np
    >>> def square(x):
    ...     return x * x, lambda dy: (2 * x * dy,)
    >>> check_gradients(square, [np.array([1.0, 2.0])]) < 1e-6
    True
    >>> check_gradients(lambda x: (x * x, lambda dy: (x * dy,)), [np.array([1.0, 2.0])])
    Traceback (most recent call last):
    AssertionError: gradient of array 0 (2,): ...
    """
    for i, array in enumerate(arrays):
        _check.floats(**{f"arrays[{i}]": array})
        if array.dtype != np.float64:
            _check.fail(f"arrays must be float64. Array {i} is {array.dtype} instead.")
    generator = _check.generator("rng", rng)
    output, pullback = function(*arrays)
    cotangent = np.asarray(generator.standard_normal(np.shape(output)))[()]
    gradients = [None if g is None else np.asarray(g) for g in pullback(cotangent)]
    if len(gradients) != len(arrays) or [np.shape(a) for a in arrays] != [
        np.shape(a) if g is None else g.shape for a, g in zip(arrays, gradients, strict=True)
    ]:
        _check.fail("gradients must have the shapes of their arrays.")
    worst = 0.0
    for i, gradient in enumerate(gradients):
        for _ in range(directions if gradient is not None else 0):
            direction = generator.standard_normal(arrays[i].shape)
            slope = _slope(function, arrays, i, direction * step, cotangent) / step
            worst = max(worst, _compare(i, np.asarray(gradient), direction, slope, tolerance))
    return worst


def _compare(i: int, gradient: Array, direction: Array, slope: float, tolerance: float) -> float:
    """Return the error of one gradient along one direction, relative to their norms; raise if it is too large."""
    product = float(np.sum(gradient * direction))
    error = abs(product - slope) / (
        1.0 + float(np.linalg.norm(gradient.ravel()) * np.linalg.norm(direction.ravel()))
    )
    if not error <= tolerance:
        raise AssertionError(
            f"gradient of array {i} {gradient.shape}: {product!r}, finite differences give {slope!r}"
        )
    return error


def _slope(
    function: Callable[..., tuple[Any, Any]], arrays: Sequence[Array], i: int, delta: Array, cotangent: Any
) -> float:
    """Return cotangent . (f(x + delta) - f(x - delta)) / 2."""
    ahead, behind = ([*arrays[:i], arrays[i] + sign * delta, *arrays[i + 1 :]] for sign in (1, -1))
    difference = np.asarray(function(*ahead)[0]) - np.asarray(function(*behind)[0])
    return float(np.sum(cotangent * difference)) / 2
