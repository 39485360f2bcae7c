"""All parameters of a network in one flat array, with names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check

__all__ = ["Parameters", "check_sizes"]

Array = NDArray[Any]


class Parameters(Mapping[str, Array]):
    """Named views of one flat array, which an optimiser updates.

    `shapes`: the shape of each; `flat` (P,): the numbers; zeros of float32 by default.
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


def check_sizes(config: Any, least: Mapping[str, int], most: Mapping[str, int]) -> None:
    """Check the sizes of a frozen configuration, and convert NumPy's numbers, which wrap around, to Python's.

    `least`: the name of each, and the least it may be; `most`: the most that some of them may be.
    """
    for name, bound in least.items():
        size = _check.integer(name, getattr(config, name), bound, most.get(name))
        object.__setattr__(config, name, size)
