"""Adam, with the gradient's length clipped."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._threads import Each
from regard.kernels import training
from regard.kernels.training import Walk

__all__ = ["Adam"]

Array = NDArray[Any]

_WORTH_HALVING = 1 << 17  # numbers
_LINE = 16  # of them in a line of the cache
_PIECE = 1 << 15  # numbers worked on at a time, so that all five arrays stay in the cache


class Adam:
    """Walk downhill with a step size of its own for every parameter.

    ::

        m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
        parameters -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)

    Parameters
    ----------
    parameters : array (P,)
        All parameters in one array, changed in place; a model keeps views of it.
    beta1, beta2 : float
        How long the two means remember; 0.99 for the second one, where the paper has 0.999.
    epsilon : float
        Keeps the quotient finite.
    clip : float
        Gradients longer than this (Euclidean length) are shortened to it; ``math.inf`` for no such thing.

    Attributes
    ----------
    parameters : array (P,)
        The array that it was given.
    steps : int
        How many have been taken.
    mean, square : array (P,)
        The two means, m and v; whoever goes on from a checkpoint puts them and `steps` back.

    Raises
    ------
    ValueError, TypeError
        If `parameters` is no writable array (P,) of float32 or float64, `beta1` or `beta2` is not from 0 to less
        than 1, `epsilon` is less than 0, or `clip` is not above 0.

    References
    ----------
    Kingma and Ba 2014, "Adam", algorithm 1; Pascanu, Mikolov and Bengio 2013, algorithm 1 (clipping).

    Examples
    --------
    >>> import numpy as np
    >>> parameters = np.array([1.0])
    >>> adam = Adam(parameters)
    >>> adam.step(np.array([0.5]), rate=0.125)
    0.5
    >>> parameters.round(6)
    array([0.875])
    """

    def __init__(
        self,
        parameters: Array,
        *,
        beta1: float = 0.9,
        beta2: float = 0.99,
        epsilon: float = 1e-8,
        clip: float = 1.0,
    ) -> None:
        _check.floats(parameters=parameters)
        if parameters.ndim != 1 or not parameters.flags.writeable:
            got = f"shape {parameters.shape}" if parameters.ndim != 1 else "a read-only array"
            _check.fail(f"parameters must be a writable array (P,). Got {got} instead.")
        self.parameters = parameters
        self.beta1, self.beta2 = (
            _check.number(name, beta, least=0, below=1) for name, beta in (("beta1", beta1), ("beta2", beta2))
        )
        self.epsilon = _check.number("epsilon", epsilon, least=0)
        self.clip = math.inf if clip == math.inf else _check.number("clip", clip, positive=True)
        self.steps = 0
        self.mean, self.square = np.zeros_like(parameters), np.zeros_like(parameters)

    def step(self, gradient: Array, rate: float, each: Each | None = None) -> float:
        """Take one step.

        Parameters
        ----------
        gradient : array (P,)
            The gradient; it is written over.
        rate : float
            How far.
        each : function, optional
            ``each(f, items)`` calls a function for both halves, on two threads or after one another (the default); the
            result is the same.

        Returns
        -------
        float
            The gradient's length before clipping. If it is not finite, nothing has been changed.

        Raises
        ------
        ValueError
            If the gradient is of another length than the parameters, or `rate` is no finite number.
        """
        _check.same_shape("gradient", gradient, self.parameters.shape)
        if not gradient.flags.writeable:
            _check.fail("gradient must be writable. Got a read-only array instead.")
        rate = _check.number("rate", rate)
        each = Each() if each is None or len(gradient) < _WORTH_HALVING else each
        middle = len(gradient) // 2 // _LINE * _LINE
        halves = slice(0, middle), slice(middle, len(gradient))
        length = math.sqrt(sum(each(lambda half: _square(gradient[half]), halves)))
        factor = min(1.0, self.clip / length) if length else 1.0
        if not np.isfinite(length):  # as large as that, it is shortened first
            length, factor = self._shortened(gradient), 1.0
            if not np.isfinite(length):
                return length
        self.steps += 1
        unbiased = (1 - self.beta2**self.steps) ** 0.5  # in the step's length, not in each number
        walk = Walk(
            keep_mean=self.beta1,
            add_mean=(1 - self.beta1) * factor,
            keep_square=self.beta2,
            add_square=(1 - self.beta2) * factor**2,
            epsilon=self.epsilon * unbiased,
            rate=rate * unbiased / (1 - self.beta1**self.steps),
        )
        each(lambda half: self._walk(half, gradient, walk), halves)
        return length

    def _shortened(self, gradient: Array) -> float:
        """Shorten a gradient whose squares are no numbers any more, and return how long it was: inf if it stays so."""
        largest = float(np.abs(gradient).max())
        if not np.isfinite(largest + self.clip):
            return max(largest, math.inf)  # NaN stays NaN
        gradient /= gradient.dtype.type(largest)
        length = math.sqrt(_square(gradient))
        gradient *= gradient.dtype.type(min(self.clip / length, largest))
        return largest * length

    def _walk(self, half: slice, gradient: Array, walk: Walk) -> None:
        parameters, mean, square, g = (x[half] for x in (self.parameters, self.mean, self.square, gradient))
        if not training.adam(parameters, mean, square, g, walk):
            for start in range(half.start, half.stop, _PIECE):
                piece = slice(start, min(start + _PIECE, half.stop))
                self._piece(piece, gradient[piece], walk)

    def _piece(self, where: slice, g: Array, walk: Walk) -> None:
        mean, square = self.mean[where], self.square[where]
        mean *= walk.keep_mean
        mean += walk.add_mean * g
        g *= g
        g *= walk.add_square
        square *= walk.keep_square
        square += g
        np.sqrt(square, out=g)  # g is done with: its memory takes the divisor
        g += walk.epsilon
        np.divide(mean, g, out=g)
        g *= walk.rate
        self.parameters[where] -= g


def _square(x: Array) -> float:
    with np.errstate(over="ignore"):  # a thread begins without the caller's settings
        return float(x @ x)
