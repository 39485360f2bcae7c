"""The arguments of the native library: the structure of `source/core/interface.inc`, filled from a `Problem`."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check, _processors, scores
from regard._layout import DistinctItems, slices
from regard._problem import Problem
from regard.kernels import library
from regard.kernels import pairs as pairing
from regard.kernels.library import number, structure, structure_type
from regard.kernels.pairs import PairScores
from regard.position import ArrayBias, DistanceBias, as_native_floats
from regard.scores import is_builtin

__all__: list[str] = []

Array = NDArray[Any]
Addresses = NDArray[np.int64]

COPIED_BYTES = 1 << 20  # bytes of keys and values that are converted at a time


def thread_count(p: Problem, threads: int | None) -> int:
    """Return `threads`, or if that is None the number of processors, or 1 for small inputs."""
    if threads is not None:
        return threads
    work = p.layout.items * p.layout.n * p.layout.m * (p.queries.shape[-1] + p.values.shape[-1])
    return 1 if work < library.THREADED_WORK else _processors.available()


def _readable(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array whose rows the library can read: aligned, of this dtype, with contiguous rows."""
    return x if _fits(x, dtype) else np.array(x, dtype, order="C")


def _fits(x: Array, dtype: np.dtype[Any]) -> bool:
    """Return whether the library can read an array where it is."""
    row, column = x.strides[-2:]
    return bool(
        x.dtype == dtype
        and x.flags.aligned
        and (x.shape[-1] < 2 or column == x.itemsize)
        and (x.shape[-2] < 2 or row % 4 == 0)  # half precision is read in pairs
        and row % x.itemsize == 0
    )


def addresses(x: DistinctItems) -> Addresses:
    """Return the address of each item's matrix."""
    start = library.address(x.array, False)
    starts = np.full((), start, np.int64)
    for size, stride in zip(x.batch_shape, x.array.strides, strict=False):
        starts = starts[..., None] + np.arange(size, dtype=np.int64) * stride
    return np.ascontiguousarray(starts.reshape(-1)[x.source])


@dataclass
class Call:
    """A problem as a structure of the library, with the arrays that it points to."""

    p: Problem
    pairs: PairScores
    values: DistinctItems
    c: Any
    alive: list[Any]

    def pointer(self, array: Array) -> int:
        """Return the address of an array, and keep the array alive."""
        self.alive.append(array)
        return _address(array)

    def matrices(self, x: DistinctItems) -> Any:
        """Return the matrices of all items."""
        matrices, start, row = structure_type("Matrices"), self.pointer(x.array), x.array.strides[-2]
        if x.stored == 1:
            return matrices(start=start, row=row)
        if x.own and x.step is not None:
            return matrices(start=start, step=x.step, row=row)
        return matrices(start=start, starts=self.pointer(addresses(x)), row=row)

    def field(self, value: int | Array | DistinctItems) -> int:
        """Return a number as it is, of an array its address, of `DistinctItems` that of their addresses."""
        if isinstance(value, DistinctItems):
            self.alive.append(value)
            return self.pointer(addresses(value))
        return self.pointer(value) if isinstance(value, np.ndarray) else value

    def run(self, backward: bool, threads: int | None) -> None:
        """Run the kernel."""
        run(self.c, self.p, backward, threads)


def run(c: Any, p: Problem, backward: bool, threads: int | None) -> None:
    """Run the kernel on a problem, or on a piece of it."""
    c.threads = thread_count(p, threads)
    # Each number of a pair goes through tanh or a square, unless scores are products.
    each = library.TANH_WORK if c.score != number("PRODUCTS") else 1
    work = library.work(c.items, c.n, c.to_key - c.from_key, each * (c.d + c.e), backward)
    library.run("run", c, backward, work)


def _read_type(x: Array, p: Problem, plain: bool) -> np.dtype[Any]:
    """Return the dtype in which the library reads an array: half precision as stored if the array is `plain`."""
    half = plain and _check.is_half(x.dtype) and p.compute == np.float32
    return x.dtype.newbyteorder("=") if half else p.compute


def _plain(p: Problem) -> bool:
    return type(p.score) in (scores.dot, scores.scaled_dot)


def call(p: Problem, started: Call | None = None) -> Call:
    """Convert a problem to a structure of the library; `started` is what `Pieces` has converted of it."""
    keys = _readable(p.keys, _read_type(p.keys, p, _plain(p)))
    prepared = started if started is not None and keys is p.keys else _without_keys(p, keys)
    c, pairs = prepared.c, prepared.pairs
    prepared.values = DistinctItems(
        p.layout.per_key_head(_readable(p.values, _read_type(p.values, p, True))), p.layout.inner
    )
    c.keys_type, c.values_type = (
        library.type_number(pairs.right.dtype),
        library.type_number(prepared.values.array.dtype),
    )
    c.keys, c.values = prepared.matrices(pairs.transformed_keys_by_item), prepared.matrices(prepared.values)
    groups = _groups(pairs.transformed_keys_by_item, prepared.values)
    c.groups, c.group = len(groups) - 1, prepared.pointer(groups)
    return prepared


def _without_keys(p: Problem, keys: Array) -> Call:
    """Convert a problem to a structure of the library, still without keys and values."""
    queries = _readable(p.queries, _read_type(p.queries, p, _plain(p)))
    with np.errstate(all="ignore"):
        pairs = pairing.make(p, queries, keys)
    c = structure_type("Problem")()
    prepared = Call(p, pairs, DistinctItems(p.layout.per_key_head(p.values), p.layout.inner), c, [])
    c.items, c.n, c.m = p.layout.items, p.layout.n, p.layout.m
    c.d, c.e = pairs.left.shape[-1], p.values.shape[-1]
    c.compute, c.queries_type = library.type_number(p.compute), library.type_number(pairs.left.dtype)
    c.queries = prepared.matrices(pairs.queries_by_item)
    c.scale, c.softcap, c.to_key = p.scale, p.softcap or 0, p.layout.m
    _score(prepared)
    _mask(prepared)
    _bias(prepared)
    return prepared


class Pieces:
    """A problem whose keys or values have to be converted, in pieces, so that they are never all copied at once.

    A piece has some items and some keys. Results equal those of a single call to the bit.
    """

    def __init__(self, p: Problem) -> None:
        self.p, self.prepared = p, _without_keys(p, p.keys)
        of_keys, of_values = _read_type(p.keys, p, _plain(p)), _read_type(p.values, p, True)
        pairs = self.prepared.pairs
        self.keys_fit = pairs.transform is None and _fits(p.keys, of_keys)
        self.values_fit = _fits(p.values, of_values)
        self.of_keys, self.of_values = of_keys, of_values
        c = self.prepared.c
        numbers = (0 if self.keys_fit else max(c.d, p.keys.shape[-1])) + (0 if self.values_fit else c.e)
        self.row = max(numbers, 1) * p.compute.itemsize  # bytes of a key that are copied

    @property
    def needed(self) -> bool:
        """Return whether a single call would copy too much at once."""
        small = self.row * self.p.layout.m * self.prepared.pairs.keys_by_item.stored <= COPIED_BYTES
        return not (small or (self.keys_fit and self.values_fit))

    def __iter__(self) -> Iterator[Any]:
        """Yield the structure of each piece, which has to run before the next one is requested."""
        m, items = self.p.layout.m, self.p.layout.items
        chunk = number("CHUNK")  # keys that the library sums separately: a piece is a multiple
        together = max(COPIED_BYTES // (self.row * min(m, chunk)), 1)  # items
        step = max(COPIED_BYTES // (self.row * min(together, items)) // chunk, 1) * chunk  # keys
        for some in slices(items, together):
            for columns in slices(m, step):
                yield self._piece(some, columns)

    def _piece(self, items: slice, columns: slice) -> Any:
        prepared = self.prepared
        c = _of_items(prepared, items)
        pairs = prepared.pairs
        keys, starts = self._rows(pairs.keys_by_item, items, columns, None if self.keys_fit else self._keys)
        values, of_values = self._rows(
            prepared.values, items, columns, None if self.values_fit else self._values
        )
        c.keys_type, c.values_type = library.type_number(keys.dtype), library.type_number(values.dtype)
        c.keys = structure("Matrices", starts=starts, row=keys.strides[-2])
        c.values = structure("Matrices", starts=of_values, row=values.strides[-2])
        ends = np.flatnonzero((np.diff(starts) != 0) | (np.diff(of_values) != 0)) + 1
        groups = np.concatenate([[0], ends, [len(starts)]]).astype(np.int64)
        c.groups, c.group = len(groups) - 1, _address(groups)
        c.from_key, c.to_key = columns.start, columns.stop
        self.alive = [keys, starts, values, of_values, groups]
        return c

    def _keys(self, keys: Array, columns: slice) -> Array:
        with np.errstate(all="ignore"):
            return self.prepared.pairs.of_keys(np.array(keys, self.of_keys, order="C"), columns)

    def _values(self, values: Array, columns: slice) -> Array:
        return np.array(values, self.of_values, order="C")

    @staticmethod
    def _rows(
        x: DistinctItems, items: slice, columns: slice, convert: Callable[[Array, slice], Array] | None
    ) -> tuple[Array, Addresses]:
        """Return these rows of the items' matrices, and the address where row 0 of each matrix would be."""
        if convert is None:
            return x.array, addresses(x)[items]
        stored, source = np.unique(x.source[items], return_inverse=True)
        rows = convert(x.stored_rows(stored, columns), columns)
        rows = np.ascontiguousarray(rows).reshape(-1, *rows.shape[-2:])
        step = 0 if len(rows) == 1 else rows.strides[0]
        start = _address(rows) - columns.start * rows.strides[-2]
        return rows, start + source.astype(np.int64) * step


def _address(x: Array) -> int:
    return library.address(x, False)


def _of_items(prepared: Call, items: slice) -> Any:
    """Return the problem of some of the items."""
    c, p, first = type(prepared.c).from_buffer_copy(prepared.c), prepared.p, items.start
    c.items = items.stop - first
    if not first:
        return c
    offset, size = first * ctypes.sizeof(library.Int), p.compute.itemsize
    c.queries.start += first * c.queries.step
    c.queries.starts = c.queries.starts and c.queries.starts + offset
    if c.nodes:
        steps = structure_type("Node") * c.nodes
        program = steps.from_buffer_copy(steps.from_address(c.program))
        for node in program:
            node.left, node.right = (node.left and node.left + offset), (node.right and node.right + offset)
        prepared.alive.append(program)
        c.program = ctypes.addressof(program)
    if c.bias:
        c.bias_address += offset
    c.context += first * p.layout.n * c.e * size
    c.statistic += first * 2 * p.layout.n * size
    c.taints += first * p.layout.n * c.e
    return c


def _groups(keys: DistinctItems, values: DistinctItems) -> Addresses:
    """Return the first item of each run that reads the same keys and values, then the number of items."""
    if keys.own or values.own:
        return np.arange(math.prod(keys.inner) + 1, dtype=np.int64)
    same = (np.diff(keys.source) == 0) & (np.diff(values.source) == 0)
    starts = np.flatnonzero(~same) + 1
    return np.concatenate([[0], starts, [len(keys.source)]]).astype(np.int64)


def _score(prepared: Call) -> None:
    pairs, c, score = prepared.pairs, prepared.c, prepared.p.score
    assert is_builtin(score)  # `native.refusal` leaves out all others
    c.score = number(score.code)
    if c.score == number("PERCEPTRON"):
        c.vector = prepared.pointer(library.aligned(pairs.learned["vector"]))
    elif c.score == number("DISTANCES"):
        c.width = float(pairs.learned["width"])


def _mask(prepared: Call) -> None:
    c, steps = prepared.c, prepared.p.steps
    if not steps:
        return
    program = (structure_type("Node") * len(steps))()
    for node, step in zip(program, steps, strict=True):
        node.kind = number(step.code)
        for name, value in step.fill().items():
            setattr(node, name, prepared.field(value))
    prepared.alive.append(program)
    c.program, c.nodes = ctypes.addressof(program), len(steps)


def _bias(prepared: Call) -> None:
    bias, p, c = prepared.p.bias, prepared.p, prepared.c
    if isinstance(bias, DistanceBias):
        with np.errstate(all="ignore"):  # as in the definition
            table = bias.by_distance(p.layout.n, p.layout.m).astype(p.compute)
        starts = prepared.pointer(table) + np.arange(p.layout.items) % bias.distinct * table.strides[0]
        c.bias, c.bias_type, c.bias_address = number("DISTANCE_BIAS"), c.compute, prepared.pointer(starts)
    elif isinstance(bias, ArrayBias):
        items = bias.items
        if (array := as_native_floats(items.array, p.compute)) is not items.array:
            items = DistinctItems(array, p.layout.inner)
        prepared.alive.append(items)
        c.bias, c.bias_type = number("ARRAY_BIAS"), library.type_number(array.dtype)
        c.bias_address = prepared.pointer(addresses(items))
        c.bias_row, c.bias_column = array.strides[-2:]
