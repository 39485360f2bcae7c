"""Layer normalisation, dropout and the rectifier's gradient in the library: `source/training/rows.cpp`.

The library computes in float32 only: each function returns None or False for other arrays. `nn` has all of this in
NumPy. Letters: N rows, W numbers in each.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.kernels import library

__all__: list[str] = []

Array = NDArray[Any]


class CNorm(ctypes.Structure):
    """`struct Norm`."""

    _fields_ = [
        *((name, library.Int) for name in ("rows", "size")),
        *((name, library.Pointer) for name in ("x", "gain", "shift", "y", "moments")),
        *((name, library.Pointer) for name in ("dy", "dresidual", "dx", "dgain", "dshift")),
        ("epsilon", ctypes.c_float),
    ]


class CDrop(ctypes.Structure):
    """`struct Drop`."""

    _fields_ = [
        ("count", library.Int),
        *((name, library.Pointer) for name in ("random_bits", "x", "y")),
        ("threshold", ctypes.c_int32),
        ("scale", ctypes.c_float),
    ]


class CRelu(ctypes.Structure):
    """`struct Relu`."""

    _fields_ = [("count", library.Int), *((name, library.Pointer) for name in ("y", "gradient"))]


_library = library.checked({"Norm": CNorm, "Drop": CDrop, "Relu": CRelu})


def _at(x: Array | None) -> int | None:
    return None if x is None else library.address(x)


def norm(x: Array, gain: Array, shift: Array, epsilon: float) -> tuple[Array, Array] | None:
    """Normalise rows (N, W); return them, and the mean and the factor of each (N, 2)."""
    loaded = library.trains(_library(), x, gain, shift)
    if loaded is None or not x.size or not gain.shape == shift.shape == x.shape[1:]:
        return None
    y, moments = np.empty_like(x), np.empty((len(x), 2), np.float32)
    c = CNorm(*x.shape, *map(_at, (x, gain, shift, y, moments)))
    c.epsilon = epsilon
    loaded.regard_norm(ctypes.byref(c), 0)
    return y, moments


def norm_back(
    x: Array, gain: Array, moments: Array, dy: Array, onto: Array | None
) -> tuple[Array, Array, Array] | None:
    """Return the gradients of rows (N, W), to which `onto` is added, of the gain and of the shift."""
    loaded = library.trains(_library(), x, gain, dy, onto)
    if loaded is None:
        return None
    dx, dgain, dshift = np.empty_like(x), np.zeros_like(gain), np.zeros_like(gain)
    c = CNorm(*x.shape, *map(_at, (x, gain, None, None, moments, dy, onto, dx, dgain, dshift)))
    loaded.regard_norm(ctypes.byref(c), 1)
    return dx, dgain, dshift


def drop(x: Array, random: NDArray[np.uint16], bar: int, scale: float) -> Array | None:
    """Return x times `scale` where the random number is at least `bar`, times 0 elsewhere."""
    loaded = library.trains(_library(), x)
    if loaded is None or not (random.flags.c_contiguous and random.flags.aligned) or random.shape != x.shape:
        return None
    y = np.empty_like(x)
    loaded.regard_drop(ctypes.byref(CDrop(x.size, *map(_at, (random, x, y)), bar, scale)))
    return y


def relu_backward(y: Array, d: Array) -> bool:
    """Write 0 into d where y is not above 0; return False if the library can't."""
    loaded = library.trains(_library(), y, d)
    if loaded is None or y.shape != d.shape or not d.flags.writeable:
        return False
    loaded.regard_relu_backward(ctypes.byref(CRelu(y.size, _at(y), _at(d))))
    return True
