"""A fast path for scaled dot-product attention.

It fills one flat structure, since checks and structures of the general path cost a small attention more than its work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._layout import Layout, flat_stride
from regard.kernels import library, problem
from regard.kernels.library import (
    address,
    interruptible,
    load,
    packer,
    padded,
    type_number,
)
from regard.kernels.native import MANY_QUERIES
from regard.mask import BandStep, MaskStep, bound, window

__all__: list[str] = []

Array = NDArray[Any]

INTEGERS = -1  # in place of the library's number of a type: they are converted first

# The numbers of the library's Dense up to the type and from the threads to the band, the scale, the items' dimensions.
Dense = tuple[tuple[int, ...], tuple[int, int, int, int], float, tuple[int, ...]]


def _dense(
    queries: Any, keys: Any, values: Any, band: Any, scale: float | None, threads: int | None
) -> Dense | None:
    """Return the fields of Dense for scaled dot-product attention, or None where the fast path can't compute it.

    Invalid arguments return None, too: the general path raises their errors.
    """
    if load() is None:
        return None
    q, k, v = _matrices(queries), _matrices(keys), _matrices(values)
    if q is None or k is None or v is None or not queries.dtype == keys.dtype == values.dtype:
        return None
    (*_, n, d), of_keys, (*_, m, e) = queries.shape, keys.shape, values.shape
    if of_keys[-1] != d or of_keys[:-1] != values.shape[:-1]:
        return None
    batch_shape, of_keys, code = queries.shape[:-2], of_keys[:-2], _code(queries.dtype)
    group = 1 if of_keys == batch_shape else _group(batch_shape, of_keys)
    visible = (0, 0, 0) if band is None else _visible(band, batch_shape, n, m)
    if code is None or visible is None or not group:
        return None
    items = queries.size // (n * d)
    if threads is None:
        threads = problem.threads_for(items * n * m * (d + e))
    inputs = (*q, *k, *v, items, n, m, d, e, group, code)
    return inputs, (threads, *visible), 1 / d**0.5 if scale is None else scale, batch_shape


def dense(
    queries: Any, keys: Any, values: Any, band: Any, scale: float | None, threads: int | None
) -> Array | None:
    """Compute attention on the fast path, or return None where it can't."""
    prepared = _dense(queries, keys, values, band, scale, threads)
    if prepared is None:
        return None
    if prepared[0][-1] == INTEGERS:
        if keys.nbytes + values.nbytes > problem.COPIED_BYTES:
            return None
        return dense(queries.astype(float), keys.astype(float), values.astype(float), band, scale, threads)
    inputs, options, scale, batch_shape = prepared
    half = queries.itemsize == 2
    context = np.empty((*batch_shape, inputs[10], inputs[13]), np.float32 if half else queries.dtype)
    if _run((*inputs, address(context), *options, 0, 0, 0, 0, 0, scale), False):
        return None
    return _check.rounded(context, queries.dtype) if half else context


def _run(fields: tuple[Any, ...], backward: bool) -> int:
    """Call the library on the fields of Dense without the last, the address of the flag that stops it."""
    loaded, pack = load(), packer("Dense").pack
    assert loaded is not None
    items, n, m, d, e = fields[9:14]
    return interruptible(
        lambda stop: loaded.regard_dense(pack(*fields, stop), backward),
        library.work(items, n, m, d + e, backward),
    )


def dense_vjp(
    queries: Any, keys: Any, values: Any, band: Any, scale: float | None, threads: int | None
) -> tuple[Array, Callable[[Any], tuple[Array, Array, Array] | None]] | None:
    """Compute attention on the fast path; return the context, and the pullback to queries, keys and values.

    Both return None where the general path has to do it.
    """
    prepared = _dense(queries, keys, values, band, scale, threads)
    if prepared is None or queries.dtype.char not in "fd" or queries.shape[-2] >= MANY_QUERIES:
        return None
    (inputs, options, scale, batch_shape), dtype = prepared, queries.dtype
    items, n, _, d, e = inputs[9:14]
    context, statistic = np.empty((*batch_shape, n, e), dtype), np.empty((items, 2, n), dtype)

    def run(*gradients: int) -> int:
        outputs = (address(context), *options, address(statistic), *gradients, scale)
        return _run((*inputs, *outputs), gradients[0] != 0)

    if run(0, 0, 0, 0):
        return None
    result, alive = context.copy(), (queries, keys, values)  # the arrays must stay in memory
    of_keys = keys.shape[:-1]  # before the user can reshape an array in place
    shapes = queries.shape, (*of_keys, padded(d)), (*of_keys, padded(e))

    def gradients(dcontext: Any) -> tuple[Array, Array, Array] | None:
        fits = alive and type(dcontext) is np.ndarray and dcontext.dtype == dtype
        if not fits or dcontext.shape != context.shape:
            return None
        dcontext = library.aligned(dcontext)
        dqueries, dkeys, dvalues = (np.zeros(shape, dtype) for shape in shapes)
        if run(address(dcontext), address(dqueries), address(dkeys), address(dvalues)):
            return None
        return dqueries, _cropped(dkeys, d), _cropped(dvalues, e)

    return result, gradients


def _visible(band: window, batch_shape: tuple[int, ...], n: int, m: int) -> tuple[int, int, int] | None:
    """Return 1 and the least and the largest visible j - i; None where the mask is more than a band."""
    step: MaskStep | None = band._step(n, m) if type(band).bind is window.bind else None
    if step is None:
        try:
            steps = bound(band, Layout(batch_shape, None, n, m)).steps()
        except ValueError:  # the general path raises it, with all shapes
            return None
        step = steps[0] if steps and len(steps) == 1 else None
    if not isinstance(step, BandStep):
        return None
    ends = step.fill()
    return 1, ends["low"], ends["high"]


@cache
def _code(dtype: np.dtype[Any]) -> int | None:
    """Return the library's number of a dtype, INTEGERS for int64, None for what the fast path does not take."""
    if dtype.isnative and dtype.char == "l":
        return INTEGERS
    is_read = dtype.isnative and (dtype.char in "fd" or _check.is_half(dtype))
    return type_number(dtype) if is_read else None


def _matrices(x: Any) -> tuple[int, int, int] | None:
    """Return the address of the first matrix and the bytes from matrix to matrix and from row to row.

    None means that the library can't read this: no array, an empty one, or another order.
    """
    if type(x) is not np.ndarray or not 2 <= x.ndim <= _check.DIMENSIONS:
        return None
    flags, size, columns = x.flags, x.itemsize, x.shape[-1]
    if not (x.size and flags.aligned):
        return None
    if flags.c_contiguous and (size > 2 or columns % 2 == 0):
        row = columns * size
        return address(x), x.shape[-2] * row, row
    row, column = x.strides[-2:]
    if column != size or row % max(size, 4):  # pairs of half precision are read as one
        return None
    between = flat_stride(x.shape[:-2], x.strides)
    return None if between is None else (address(x), between, row)


def _group(batch_shape: tuple[int, ...], of_keys: tuple[int, ...]) -> int:
    """Return how many query heads read one key head; 0 where the leading dimensions differ in more than that."""
    if (
        len(batch_shape) != len(of_keys)
        or not batch_shape
        or batch_shape[:-1] != of_keys[:-1]
        or batch_shape[-1] % of_keys[-1]
    ):
        return 0
    return batch_shape[-1] // of_keys[-1]


def _cropped(x: Array, columns: int) -> Array:
    """Return rows without their padding."""
    return x if x.shape[-1] == columns else x[..., :columns].copy()
