"""A section of a page: the view that draws it, its heading, and the data of the view."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard import _check

__all__ = ["Section", "packed"]

_PACKED = ("float64", "float32", "uint8", "uint16", "uint32", "int32")  # what typed arrays of a browser hold


@dataclass(frozen=True, eq=False)
class Section:
    """One section of a page.

    Parameters
    ----------
    view : str
        The view that draws it: the name of a file in `assets`.
    title : str
        Its heading.
    data : mapping
        What the view draws: strings, numbers, lists and mappings, as JSON has them. NaN and infinity are allowed.

    Examples
    --------
    >>> Section("mechanism", "Four words", {"row": 0}).title
    'Four words'
    """

    view: str
    title: str
    data: Mapping[str, Any]


def packed(array: ArrayLike) -> dict[str, Any]:
    """Pack an array for a page, as the bytes of a typed array of JavaScript.

    Parameters
    ----------
    array : array
        Real numbers. Other types than those of typed arrays become float32.

    Returns
    -------
    dict
        ``dtype``, ``shape`` and ``base64``: the bytes, little-endian and in C order.

    Examples
    --------
    >>> packed(np.array([[1, 2]], np.uint8))
    {'dtype': 'uint8', 'shape': [1, 2], 'base64': 'AQI='}
    """
    numbers = _check.numeric("array", array)
    name = numbers.dtype.name if numbers.dtype.name in _PACKED else "float32"
    little = np.ascontiguousarray(numbers, np.dtype(name).newbyteorder("<"))
    return {
        "dtype": name,
        "shape": list(numbers.shape),
        "base64": base64.b64encode(little.tobytes()).decode("ascii"),
    }
