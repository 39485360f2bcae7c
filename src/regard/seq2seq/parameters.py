"""All parameters of a network in one flat array, with names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Parameters"]

Array = NDArray[Any]


class Parameters(Mapping[str, Array]):
    """Named arrays that lie in one flat array, so that an optimiser sees only that.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
        The shape of each.
    flat : array (P,), optional
        The numbers; zeros of float32 by default.

    Examples
    --------
    >>> parameters = Parameters({"a": (2,), "b": (1, 2)})
    >>> parameters["b"][...] = 1
    >>> parameters.flat
    array([0., 0., 1., 1.], dtype=float32)
    """

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], flat: Array | None = None) -> None:
        total = sum(math.prod(shape) for shape in shapes.values())
        self.flat = np.zeros(total, np.float32) if flat is None else flat
        self._views: dict[str, Array] = {}
        start = 0
        for name, shape in shapes.items():
            self._views[name] = self.flat[start : start + math.prod(shape)].reshape(shape)
            start += math.prod(shape)

    def __getitem__(self, name: str) -> Array:
        return self._views[name]

    def __iter__(self) -> Any:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)
