"""Matrix products with bias and activation: in the library (`training/matrix.cpp`) and in NumPy.

`_steps` decides which is used: the library computes in float32 only, on the calling thread. There, a row of a product
never depends on the other rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.kernels import library

__all__: list[str] = []

Array = NDArray[Any]

_FEW_ROWS = 16  # rows; for fewer, packing the other matrix is not worth it


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
    """Return ``a @ b + bias``, then tanh with `squash`, or max(x, 0) with `rectify`; into `out` if it is given.

    With `add`, the product is added to what is in `out`. a (n, k), b (k, m), bias (m,); transposed views are fine.
    """
    steps, after = _steps(a, b, bias, out), "RECTIFIER" if rectify else "TANH" if squash else "LINEAR"
    if steps is None or (add and (out is None or bias is not None)):
        return _plain(a, b, bias, out, add, after)
    result = np.empty((len(a), b.shape[1]), np.float32) if out is None else out
    _run(a, b, steps, {"bias": bias, "out": result}, add, after)
    return result


def multiply_and_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return ``a @ b`` and the sum of b's rows (m,): the gradients of a matrix and of a bias."""
    steps = _steps(a, b, None, None)
    if steps is None or steps[3] != 1:
        return a @ b, b.sum(axis=0)
    result, sums = np.empty((len(a), b.shape[1]), np.float32), np.empty(b.shape[1], np.float32)
    _run(a, b, steps, {"out": result, "column_sums": sums})
    return result, sums


# ---- in NumPy ------------------------------------------------------------------------------------------------


def _plain(a: Array, b: Array, bias: Array | None, out: Array | None, add: bool, after: str) -> Array:
    if out is None:
        out = a @ b
    elif add:
        out += a @ b
    else:
        np.matmul(a, b, out=out)
    if bias is not None:
        out += bias
    if after == "RECTIFIER":
        return np.maximum(out, 0, out=out)
    return np.tanh(out, out=out) if after == "TANH" else out


# ---- in the library ------------------------------------------------------------------------------------------


def _steps(a: Array, b: Array, bias: Array | None, out: Array | None) -> tuple[int, ...] | None:
    """Return the strides of rows and columns of a and b, and of rows of out, in elements; None if the library can't."""
    if library.trains(library.load()) is None or len(a) < _FEW_ROWS or not a.size or not b.size:
        return None
    if a.shape[1] != len(b) or not (bias is None or _fits(bias, b)) or not (out is None or _takes(out, a, b)):
        return None
    strides = (*_step(a), *_step(b), b.shape[1])
    if out is not None:
        row, column = _step(out)
        strides = (*strides[:4], row if column == 1 else -1)
    return None if -1 in strides else strides


def _fits(bias: Array, b: Array) -> bool:
    return _single(bias) and bias.shape == b.shape[1:] and bias.flags.c_contiguous


def _takes(out: Array, a: Array, b: Array) -> bool:
    """Return whether a product can be written to `out` while its factors are read."""
    apart = not (np.may_share_memory(out, a) or np.may_share_memory(out, b))
    return apart and out.shape == (len(a), b.shape[1]) and out.flags.writeable


def _step(x: Array) -> tuple[int, int]:
    """Return the strides of rows and columns in elements, of which one must be 1; -1 otherwise."""
    row, column = x.strides
    if _single(x) and column == 4 and row >= 0 and row % 4 == 0:
        return row // 4, 1
    if _single(x) and row == 4 and column >= 0 and column % 4 == 0:
        return 1, column // 4
    return -1, -1


def _single(x: Array) -> bool:
    return bool(x.dtype == np.float32 and x.flags.aligned)


def _run(
    a: Array,
    b: Array,
    steps: tuple[int, ...],
    others: dict[str, Array | None],
    add: bool = False,
    after: str = "LINEAR",
) -> None:
    strides = dict(zip(("a_row", "a_column", "b_row", "b_column", "out_row"), steps, strict=True))
    sizes = {"rows": len(a), "depth": len(b), "columns": b.shape[1]}
    c = library.structure("Product", **sizes, **strides, a=a, b=b, **others)
    c.accumulate, c.activation = add, library.number(after)
    library.run("multiply", c, work=a.size * b.shape[1])
