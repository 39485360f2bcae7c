"""Adam, with clipping of the gradient norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._threads import TwoThreadMap
from regard.kernels import training
from regard.kernels.training import AdamStep

__all__ = ["Adam"]

Array = NDArray[Any]

_SPLIT_PARAMETERS = 1 << 17  # parameters from which a step is split in two
_LINE_NUMBERS = 16  # float32 numbers
_CHUNK_PARAMETERS = 1 << 15  # parameters updated at a time, so that all five arrays stay in the cache


class Adam:
    """Adam optimizer: gradient descent with an adaptive step size for each parameter.

    ::

        m = beta1 m + (1 - beta1) g          v = beta2 v + (1 - beta2) g^2
        parameters -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)

    Parameters
    ----------
    parameters : array (P,)
        All parameters in one array, changed in place; a model keeps views of it.
    beta1, beta2 : float
        Decay rates of the two running means; `beta2` is 0.99 by default, where the paper has 0.999.
    epsilon : float
        Added to the denominator.
    clip : float
        Largest norm of a gradient; longer ones are clipped to it. ``math.inf`` disables clipping.

    Attributes
    ----------
    parameters : array (P,)
        The argument `parameters`.
    steps : int
        Number of steps taken.
    mean, square : array (P,)
        The running means m and v; to resume from a checkpoint, restore them and `steps`.

    Raises
    ------
    ValueError, TypeError
        If `parameters` is not a writable array (P,) of float32 or float64, `beta1` or `beta2` is not from 0 to less
        than 1, `epsilon` is less than 0, or `clip` is not greater than 0.

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

    def step(self, gradient: Array, rate: float, each: TwoThreadMap | None = None) -> float:
        """Take one step.

        Parameters
        ----------
        gradient : array (P,)
            The gradient; it is overwritten.
        rate : float
            Learning rate.
        each : function, optional
            ``each(f, items)`` calls a function for both halves, in sequence (the default) or on two threads; the result
            is the same.

        Returns
        -------
        float
            The norm of the gradient before clipping. If it is not finite, no parameter has changed.

        Raises
        ------
        ValueError
            If the gradient and the parameters differ in shape, or `rate` is not finite.

        Examples
        --------
        >>> import numpy as np
        >>> Adam(np.zeros(2)).step(np.array([3.0, 4.0]), rate=0.001)
        5.0
        """
        _check.same_shape("gradient", gradient, self.parameters.shape)
        if not gradient.flags.writeable:
            _check.fail("gradient must be writable. Got a read-only array instead.")
        rate = _check.number("rate", rate)
        each = TwoThreadMap() if each is None or len(gradient) < _SPLIT_PARAMETERS else each
        middle = len(gradient) // 2 // _LINE_NUMBERS * _LINE_NUMBERS
        halves = slice(0, middle), slice(middle, len(gradient))
        length = math.sqrt(sum(each(lambda half: _square(gradient[half]), halves)))
        factor = min(1.0, self.clip / length) if length else 1.0
        if not np.isfinite(length):  # the squares overflow: clipped before the step
            length, factor = self._clip_large(gradient), 1.0
            if not np.isfinite(length):
                return length
        self.steps += 1
        unbiased = (
            1 - self.beta2**self.steps
        ) ** 0.5  # applied to the rate and to epsilon, not to each parameter
        step = AdamStep(
            keep_mean=self.beta1,
            add_mean=(1 - self.beta1) * factor,
            keep_square=self.beta2,
            add_square=(1 - self.beta2) * factor**2,
            epsilon=self.epsilon * unbiased,
            rate=rate * unbiased / (1 - self.beta1**self.steps),
        )
        each(lambda half: self._update(half, gradient, step), halves)
        return length

    def _clip_large(self, gradient: Array) -> float:
        """Clip a gradient whose squares overflow, and return its norm before; inf or NaN if it cannot be clipped."""
        largest = float(np.abs(gradient).max())
        if not np.isfinite(largest + self.clip):
            return max(largest, math.inf)  # NaN stays NaN
        gradient /= gradient.dtype.type(largest)
        length = math.sqrt(_square(gradient))
        gradient *= gradient.dtype.type(min(self.clip / length, largest))
        return largest * length

    def _update(self, half: slice, gradient: Array, step: AdamStep) -> None:
        parameters, mean, square, g = (x[half] for x in (self.parameters, self.mean, self.square, gradient))
        if not training.adam(parameters, mean, square, g, step):
            for start in range(half.start, half.stop, _CHUNK_PARAMETERS):
                chunk = slice(start, min(start + _CHUNK_PARAMETERS, half.stop))
                self._update_chunk(chunk, gradient[chunk], step)

    def _update_chunk(self, chunk: slice, g: Array, step: AdamStep) -> None:
        mean, square = self.mean[chunk], self.square[chunk]
        mean *= step.keep_mean
        mean += step.add_mean * g
        g *= g
        g *= step.add_square
        square *= step.keep_square
        square += g
        np.sqrt(square, out=g)  # g is no longer needed: its memory holds the denominator
        g += step.epsilon
        np.divide(mean, g, out=g)
        g *= step.rate
        self.parameters[chunk] -= g


def _square(x: Array) -> float:
    with np.errstate(over="ignore"):  # np.errstate of the caller does not apply in other threads
        return float(x @ x)
