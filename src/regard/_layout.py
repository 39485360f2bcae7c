"""Broadcasting of the leading dimensions of queries, keys and values.

Leading dimensions broadcast as in ``np.matmul``. With fewer key heads than query heads, the query heads are split into
(key heads, group), so that a key head broadcasts over its group of query heads: query head i uses key head i // group.
Keys must then have as many dimensions as queries; otherwise the batch of keys without heads would be taken for heads.
After the split, grouped heads need no special treatment in any kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._once import computed_once

__all__: list[str] = []

Array = NDArray[Any]
Align = Literal["start", "end"]
MOST_OFFSET = 1 << 61  # so that its sums with distances are 64-bit integers
PER_SENTENCE = "one for each sentence of (batch, heads, ...) has shape (batch, 1)"


@dataclass(frozen=True)
class Layout:
    """The leading dimensions and lengths of one attention.

    batch_shape: leading dimensions of the result; split: (key heads, group) or None; n, m: numbers of queries and keys.
    """

    batch_shape: tuple[int, ...]
    split: tuple[int, int] | None
    n: int
    m: int

    @property
    def inner(self) -> tuple[int, ...]:
        """Leading dimensions with the query heads split into (key heads, group)."""
        return self.batch_shape if self.split is None else (*self.batch_shape[:-1], *self.split)

    @property
    def items(self) -> int:
        """Number of separate n x m problems."""
        return math.prod(self.batch_shape)

    def per_query_head(self, array: Array, trailing: int) -> Array:
        """View an array with the leading dimensions of the queries, with its heads split."""
        if self.split is None or array.ndim == trailing:
            return array
        axis = array.ndim - trailing - 1
        heads = (1, 1) if array.shape[axis] == 1 else self.split
        return array.reshape(*array.shape[:axis], *heads, *array.shape[axis + 1 :])

    def per_key_head(self, array: Array) -> Array:
        """View keys or values with a group dimension of size 1."""
        return array if self.split is None or array.ndim == 2 else np.expand_dims(array, -3)

    def check(self, name: str, array: Array, trailing: tuple[int, ...], letters: str) -> None:
        """Check that an option (a mask, a bias, lengths) broadcasts to the leading dimensions and a trailing shape."""
        _check.broadcast(name, array.shape, (*self.batch_shape, *trailing), letters)


def layout(queries: Array, keys: Array, values: Array) -> Layout:
    """Return the layout of an attention, or raise if the leading dimensions are incompatible."""
    shapes = {"queries": queries, "keys": keys, "values": values}
    batch_q, batch_k, batch_v = queries.shape[:-2], keys.shape[:-2], values.shape[:-2]
    n, m = queries.shape[-2], keys.shape[-2]
    if batch_q == batch_k == batch_v:
        return Layout(batch_q, None, n, m)
    try:
        return Layout(np.broadcast_shapes(batch_q, batch_k, batch_v), None, n, m)
    except ValueError:
        pass
    try:
        batch_kv = np.broadcast_shapes(batch_k, batch_v)
        outer = np.broadcast_shapes(batch_q[:-1], batch_kv[:-1])
    except ValueError:
        _check.fail(f"leading dimensions must broadcast: {batch_q}, {batch_k} and {batch_v}", shapes)
    # With queries (batch, heads, n, d), the batch of keys (batch, m, d) would be taken for heads.
    if len(batch_kv) < len(batch_q):
        _check.fail(
            f"leading dimensions must broadcast: {batch_q}, {batch_k} and {batch_v}",
            shapes,
            "keys and values without a dimension for heads get one by [..., None, :, :]",
        )
    heads_q, heads_kv = batch_q[-1], batch_kv[-1]
    if not heads_kv or heads_q % heads_kv:
        _check.fail(
            f"the number of query heads must be a multiple of the number of key heads: {heads_q} and {heads_kv}",
            shapes,
            "heads are the last leading dimension; query head i reads key head i // group",
        )
    return Layout((*outer, heads_q), (heads_kv, heads_q // heads_kv), n, m)


def as_align(align: Any, *, optional: bool = True) -> Any:
    """Return the argument `align` of a mask, a bias or a window: its name, an int64 array or, if `optional`, None."""
    if isinstance(align, str) or (align is None and not optional):
        return _check.choice("align", align, ("start", "end"))
    if align is None:
        return None
    return _check.integer_array("align", align, least=-MOST_OFFSET, most=MOST_OFFSET)


def first_key(name: str, align: Align | NDArray[np.int64] | None, layout: Layout) -> int | NDArray[np.int64]:
    """Return the key that query 0 is aligned with: an integer, or an array that broadcasts to (...)."""
    if isinstance(align, np.ndarray):
        hint = PER_SENTENCE if align.ndim else ""
        _check.broadcast("align", align.shape, layout.batch_shape, "(...)", hint)
        return int(align.flat[0]) if align.size and (align == align.flat[0]).all() else align
    if align is None and layout.n != layout.m:  # law 9
        _check.fail(
            f'{name} needs align="start" or align="end" where n != m: {layout.n} and {layout.m}',
            hint='"start": query 0 is aligned with key 0; "end": the last query with the last key (a cache)',
        )
    return layout.m - layout.n if align == "end" else 0


@dataclass(frozen=True)
class Region:
    """A block of an attention: slices of the leading dimensions of the result, of the queries and of the keys."""

    batch: tuple[slice, ...]
    rows: slice
    columns: slice

    def layout(self, complete: Layout) -> Layout:
        """Return the layout of the block as an attention of its own, without its groups of heads."""
        batch_shape = tuple(extent(part) for part in self.batch)
        return Layout(batch_shape, None, extent(self.rows), extent(self.columns))

    def of_batch(self, array: Array) -> Array:
        """Return the part of an option that broadcasts to (...)."""
        return cut(array, self.batch)

    def of_rows(self, array: Array) -> Array:
        """Return the part of an option that broadcasts to (..., n)."""
        return cut(array, (*self.batch, self.rows))

    def of_columns(self, array: Array) -> Array:
        """Return the part of an option that broadcasts to (..., m)."""
        return cut(array, (*self.batch, self.columns))

    def of_pairs(self, array: Array) -> Array:
        """Return the part of an option that broadcasts to (..., n, m)."""
        return cut(array, (*self.batch, self.rows, self.columns))

    def align(self, name: str, align: Align | NDArray[np.int64] | None, layout: Layout) -> Array:
        """Return the argument `align` of the block, which is aligned in the complete attention."""
        first = self.of_batch(np.asarray(first_key(name, align, layout)))
        return np.asarray(first + self.rows.start - self.columns.start)

    def of_axes(self, array: Array, axes: tuple[str, ...]) -> Array:
        """Return the part of an array with these axes: ``n`` and ``M`` are positions of queries and keys."""
        parts = {"...": self.batch, "n": (self.rows,), "M": (self.columns,)}
        return cut(array, tuple(part for axis in axes for part in parts.get(axis, (slice(None),))))

    def __str__(self) -> str:
        batch = ", ".join(f"{part.start}:{part.stop}" for part in self.batch)
        block = f"queries {self.rows.start}:{self.rows.stop}, keys {self.columns.start}:{self.columns.stop}"
        return f"{block} of [{batch}]" if batch else block


def extent(part: slice) -> int:
    """Return the length of a slice with a start and a stop."""
    return int(part.stop - part.start)


def cut(array: Array, target: tuple[slice, ...]) -> Array:
    """Return the part of an array that broadcasts to these slices of the shape to which the whole array broadcasts."""
    parts = target[len(target) - array.ndim :]
    return array[
        tuple(part if size != 1 else slice(None) for part, size in zip(parts, array.shape, strict=True))
    ]


def item_of(array: Array, batch_shape: tuple[int, ...], index: tuple[int, ...]) -> Array:
    """Return the matrix of an input that belongs to an item of the result; a key head serves a group of query heads."""
    sizes = array.shape[:-2]
    pairs = zip(
        sizes, batch_shape[len(batch_shape) - len(sizes) :], index[len(index) - len(sizes) :], strict=True
    )
    matrix: Array = array[tuple(i * size // full for size, full, i in pairs)]
    return matrix


def as_rows(x: Array) -> Array:
    """Flatten all leading dimensions: (rows, d)."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def slices(length: int, step: int) -> list[slice]:
    """Split a length into parts of `step`, the last of which may be shorter."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def flat_stride(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """Return the stride in bytes of an array's first dimensions, flattened; None if it varies."""
    first = extent = None
    for size, stride in zip(reversed(shape), reversed(strides[: len(shape)]), strict=True):
        if size < 2:
            continue
        if first is None:
            first = stride
        elif stride != extent:
            return None
        extent = size * stride
    return first or 0


class DistinctItems:
    """An array of shape (..., a, b) as a list of `items` arrays (a, b), of which equal ones are stored once.

    `source[g]` is the index of the stored array of item g. The gradient of a stored array is the sum of the gradients
    of all items that use it.
    """

    def __init__(self, array: Array, inner: tuple[int, ...]) -> None:
        self.array, self.inner = array, inner
        self.batch_shape = array.shape[:-2]
        self.stored = math.prod(self.batch_shape)
        self.own = self.stored == math.prod(inner)  # whether item g uses stored array g alone

    @computed_once
    def source(self) -> NDArray[np.intp]:
        """Index of the stored array of each item."""
        indices = np.arange(self.stored).reshape(self.batch_shape)
        return np.broadcast_to(indices, self.inner).reshape(-1)

    @computed_once
    def step(self) -> int | None:
        """Stride in bytes from each stored array to the next, or None if it varies."""
        return flat_stride(self.batch_shape, self.array.strides) if self.array.size else None

    @computed_once
    def flat(self) -> Array | None:
        """View as (stored, a, b) if the strides allow it."""
        if self.step is None:
            return None
        shape, strides = (self.stored, *self.array.shape[-2:]), (self.step, *self.array.strides[-2:])
        return np.lib.stride_tricks.as_strided(self.array, shape, strides, writeable=False)

    def _picked(self, items: slice) -> slice | NDArray[np.intp]:
        """Return the indices of the items' stored arrays: a slice if they are consecutive or all equal."""
        if self.own:
            return items
        source = self.source[items]
        first, last = int(source[0]), int(source[-1])
        if first == last and (source == first).all():
            return slice(first, first + 1)
        if last - first == len(source) - 1 and (np.diff(source) == 1).all():
            return slice(first, last + 1)
        return source

    def stored_rows(self, stored: NDArray[np.intp], rows: slice) -> Array:
        """Return some rows of these stored arrays, in one array (..., rows, b); a view for all of them."""
        part = self.array[..., rows, :]
        return part if len(stored) == self.stored else part[np.unravel_index(stored, self.batch_shape)]

    def block(self, items: slice, rows: slice, columns: slice = slice(None)) -> Array:
        """Return the part (items or 1, rows, columns), as a view if possible."""
        picked = self._picked(items)
        if self.flat is not None:
            return self.flat[picked, rows, columns]
        index = np.arange(picked.start, picked.stop) if isinstance(picked, slice) else picked
        part: Array = (
            self.array[..., rows, columns][np.unravel_index(index, self.batch_shape)]
            if self.batch_shape
            else self.array[None, rows, columns]
        )
        return part

    def stored_block(self, items: slice, rows: slice, columns: slice = slice(None)) -> Array:
        """Return the part (..., rows, columns) that some items read; for all items each stored array once."""
        every = extent(items) == math.prod(self.inner)
        return self.array[..., rows, columns] if every else self.block(items, rows, columns)

    def add(self, total: Array, items: slice | NDArray[np.int64], part: Array) -> None:
        """Add the gradients of items (items, a, b) to `total` (stored, a, b), in the order of the items."""
        for stored, piece in zip(self.source[items], part, strict=True):
            total[stored] += piece
