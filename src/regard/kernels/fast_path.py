"""A fast path for scaled dot-product attention.

It fills one flat structure, since checks and structures of the general path cost a small attention more than its work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check, _processors
from regard._layout import Layout, flat_stride
from regard.kernels import library, problem
from regard.kernels.library import (
    THREADED_WORK,
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

SHORT_WORK = 1 << 24  # numbers of queries times numbers of values up to which no call is long

# The numbers of the library's Dense up to the type and from the threads to the band, the scale, the items' dimensions.
Dense = tuple[tuple[int, ...], tuple[int, int, int, int], float, tuple[int, ...]]


def _dense(
    queries: Any, keys: Any, values: Any, band: window | None, scale: float | None, threads: int | None
) -> Dense | None:
    """Return the fields of Dense for scaled dot-product attention, or None where the fast path can't compute it.

    Invalid arguments return None, too: the general path raises their errors.
    """
    if not (_simple(queries) and _simple(keys) and _simple(values)):
        return None
    if not queries.dtype == keys.dtype == values.dtype or load() is None:
        return None
    batch_shape, (n, d), (m, e) = queries.shape[:-2], queries.shape[-2:], values.shape[-2:]
    if keys.shape[-2:] != (m, d) or keys.shape[:-2] != values.shape[:-2]:
        return None
    group = 1 if keys.shape[:-2] == batch_shape else _group(batch_shape, keys.shape[:-2])
    q, k, v = _matrices(queries), _matrices(keys), _matrices(values)
    if not group or q is None or k is None or v is None:
        return None
    visible = (0, 0, 0) if band is None else _visible(band, batch_shape, n, m)
    if visible is None:
        return None
    items = queries.size // (n * d)
    if threads is None:
        threads = 1 if items * n * m * (d + e) < THREADED_WORK else _processors.available()
    dtype = -1 if queries.dtype.char == "l" else type_number(queries.dtype)  # int64 is converted first
    inputs = (*q, *k, *v, items, n, m, d, e, group, dtype)
    return inputs, (threads, *visible), 1 / d**0.5 if scale is None else scale, batch_shape


def dense(
    queries: Any, keys: Any, values: Any, band: window | None, scale: float | None, threads: int | None
) -> Array | None:
    """Compute attention on the fast path, or return None where it can't."""
    prepared = _dense(queries, keys, values, band, scale, threads)
    if prepared is None:
        return None
    if queries.dtype.char == "l":
        if keys.nbytes + values.nbytes > problem.COPIED_BYTES:
            return None
        return dense(queries.astype(float), keys.astype(float), values.astype(float), band, scale, threads)
    inputs, options, scale, batch_shape = prepared
    half, loaded = queries.itemsize == 2, load()
    context = np.empty(
        (*batch_shape, queries.shape[-2], values.shape[-1]), np.float32 if half else queries.dtype
    )
    fields, pack = (*inputs, address(context), *options, 0, 0, 0, 0, 0, scale), packer("Dense").pack
    if loaded is None:
        return None
    if queries.size * values.size < SHORT_WORK:  # too short to be interrupted
        failed: int = loaded.regard_dense(pack(*fields, 0), 0)
    else:
        items, n, m, d, e = inputs[9:14]
        failed = interruptible(
            lambda stop: int(loaded.regard_dense(pack(*fields, stop), 0)),
            library.work(items, n, m, d + e, False),
        )
    if failed:
        return None
    return _check.rounded(context, queries.dtype) if half else context


def dense_vjp(
    queries: Any, keys: Any, values: Any, band: window | None, scale: float | None, threads: int | None
) -> tuple[Array, Callable[[Any], tuple[Array, Array, Array] | None]] | None:
    """Compute attention on the fast path; return the context, and the pullback to queries, keys and values.

    Both return None where the general path has to do it.
    """
    prepared = _dense(queries, keys, values, band, scale, threads)
    if prepared is None or queries.dtype.char not in "fd" or queries.shape[-2] >= MANY_QUERIES:
        return None
    (n, d), (m, e), dtype = queries.shape[-2:], values.shape[-2:], queries.dtype
    inputs, options, scale, batch_shape = prepared
    context = np.empty((*batch_shape, n, e), dtype)
    statistic = np.empty((queries.size // (n * d), 2, n), dtype)

    def run(*gradients: int) -> int:
        loaded = load()
        assert loaded is not None
        fields, pack = (
            (*inputs, address(context), *options, address(statistic), *gradients, scale),
            packer("Dense").pack,
        )
        backward = gradients[0] != 0
        return interruptible(
            lambda stop: int(loaded.regard_dense(pack(*fields, stop), backward)),
            library.work(queries.size // (n * d), n, m, d + e, backward),
        )

    if run(0, 0, 0, 0):
        return None
    result, alive = context.copy(), (queries, keys, values)  # the arrays must stay in memory
    of_keys = keys.shape[:-1]  # before the user can reshape an array in place
    shapes = queries.shape, (*of_keys, padded(d)), (*of_keys, padded(e))

    def gradients(dcontext: Any) -> tuple[Array, Array, Array] | None:
        if not (alive and _simple(dcontext) and dcontext.dtype == dtype and dcontext.shape == context.shape):
            return None
        dcontext = library.aligned(dcontext)
        dqueries, dkeys, dvalues = (np.zeros(shape, dtype) for shape in shapes)
        if run(address(dcontext, False), address(dqueries), address(dkeys), address(dvalues)):
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


def _simple(x: Any) -> bool:
    """Return whether this is an array that the library reads, and not empty."""
    if type(x) is not np.ndarray:
        return False
    dtype = x.dtype
    return bool(
        2 <= x.ndim <= _check.DIMENSIONS
        and x.size > 0
        and (dtype.char in "fdl" or _check.is_half(dtype))
        and dtype.isnative
        and x.flags.aligned
    )


def _matrices(x: Array) -> tuple[int, int, int] | None:
    """Return the address of the first matrix and the bytes from matrix to matrix and from row to row.

    None means that the library can't read this order.
    """
    size, columns = x.itemsize, x.shape[-1]
    if x.flags.c_contiguous and (size > 2 or columns % 2 == 0):
        row = columns * size
        return address(x, False), x.shape[-2] * row, row
    row, column = x.strides[-2:]
    if column != size or row % max(size, 4):  # pairs of half precision are read as one
        return None
    between = flat_stride(x.shape[:-2], x.strides)
    return None if between is None else (address(x, False), between, row)


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
