"""Products of matrices with what often follows them: the native library's (`source/matrix.cpp`), and the same in NumPy.

Which of the two does the work is decided in `native_does`: the library has them for float32 only, and uses the thread
that calls it and no other. A row of a product never depends on the others there.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.kernels import native

__all__: list[str] = []

Array = NDArray[Any]

_RECTIFIER = 2
_FEW = 16  # rows; packing the other matrix costs more than it gives then


class CProduct(ctypes.Structure):
    """`struct Product`."""

    _fields_ = [
        *((name, native.Int) for name in ("rows", "depth", "columns")),
        *((name, native.Int) for name in ("a_row", "a_column", "b_row", "b_column", "out_row")),
        *((name, native.Pointer) for name in ("a", "b", "bias", "out")),
        *((name, native.Int) for name in ("onto", "squash")),
    ]


@cache
def _library() -> ctypes.CDLL | None:
    loaded = native.library()
    if loaded is not None:
        assert loaded.regard_product_size() == ctypes.sizeof(CProduct), "the library is of another version"
    return loaded


def native_does(a: Array, b: Array, bias: Array | None, out: Array | None) -> bool:
    """Say whether the library multiplies these: it is there and can, all are float32, and no copy is needed."""
    return (
        (loaded := _library()) is not None
        and loaded.regard_trains()
        and len(a) >= _FEW
        and a.size > 0 < b.size
        and _steps(a) is not None
        and _steps(b) is not None
        and (bias is None or (_single(bias) and bias.flags.c_contiguous))
        and (out is None or ((steps := _steps(out)) is not None and steps[1] == 1))
    )


def multiply(
    a: Array,
    b: Array,
    bias: Array | None = None,
    *,
    out: Array | None = None,
    add: bool = False,
    squash: bool = False,
    rectify: bool = False,
) -> Array:
    """Return ``a @ b + bias``, of which tanh is taken with `squash`, max(x, 0) with `rectify`, in `out` if it is given.

    With `add`, the product is added to what is in `out`. a (n, k), b (k, m), bias (m,); transposed views are fine.
    """
    does = native_does(a, b, bias, out)
    return (_native if does else _plain)(a, b, bias, out, add, _RECTIFIER if rectify else int(squash))


def _plain(a: Array, b: Array, bias: Array | None, out: Array | None, add: bool, squash: int) -> Array:
    if out is None:
        out = a @ b
    elif add:
        out += a @ b
    else:
        np.matmul(a, b, out=out)
    if bias is not None:
        out += bias
    if squash == _RECTIFIER:
        return np.maximum(out, 0, out=out)
    return np.tanh(out, out=out) if squash else out


def _native(a: Array, b: Array, bias: Array | None, out: Array | None, add: bool, squash: int) -> Array:
    (rows, depth), columns = a.shape, b.shape[1]
    made = np.empty((rows, columns), np.float32) if out is None else out
    a_steps, b_steps, out_steps = map(_steps, (a, b, made))
    loaded = _library()
    assert a_steps and b_steps and out_steps and loaded  # noqa: PT018
    at = (None if x is None else x.__array_interface__["data"][0] for x in (a, b, bias, made))
    c = CProduct(rows, depth, columns, *a_steps, *b_steps, out_steps[0], *at, add, squash)
    if loaded.regard_multiply(ctypes.byref(c)):
        raise MemoryError
    return made


def _single(x: Array) -> bool:
    return bool(x.dtype == np.float32 and x.dtype.isnative and x.flags.aligned)


def _steps(x: Array) -> tuple[int, int] | None:
    """Return how many numbers lie between rows and between columns; None if the library can't read them there."""
    if not _single(x):
        return None
    row, column = x.strides
    if column == 4 and row >= 0 and row % 4 == 0:
        return row // 4, 1
    if row == 4 and column >= 0 and column % 4 == 0:
        return 1, column // 4
    return None
