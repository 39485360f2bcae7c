"""The arguments of the native library: the structure of `source/core/interface.inc`, filled from a `Problem`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check, _processors, scores
from regard._layout import DistinctItems, slices
from regard._once import computed_once
from regard._problem import Problem
from regard.kernels import library
from regard.kernels import pairs as pairing
from regard.kernels.library import address, number, structure, structure_type
from regard.kernels.pairs import PairScores
from regard.position import ArrayBias, DistanceBias, as_native_floats
from regard.scores import is_builtin

__all__: list[str] = []

Array = NDArray[Any]
Addresses = NDArray[np.int64]

COPIED_BYTES = 1 << 20  # bytes of keys and values that are converted at a time


def thread_count(p: Problem, threads: int | None) -> int:
    """Return `threads`, or if that is None as many as there are processors and the work is worth."""
    if threads is not None:
        return threads
    return threads_for(p.layout.items * p.layout.n * p.layout.m * (p.queries.shape[-1] + p.values.shape[-1]))


def threads_for(work: int) -> int:
    """Return how many threads some multiplications are worth, at most the number of processors."""
    most = work // library.THREAD_WORK
    return 1 if most < 2 else min(most, _processors.available())


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


def _copy(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return a copy that the library can read."""
    return np.array(x, dtype, order="C")


def addresses(x: DistinctItems) -> Addresses:
    """Return the address of each item's matrix."""
    start = address(x.array)
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
    keys_type: np.dtype[Any]  # in which the library reads keys
    values_type: np.dtype[Any]

    @computed_once
    def keys_fit(self) -> bool:
        """Whether the library can read the keys where they are."""
        return _fits(self.p.keys, self.keys_type)

    @computed_once
    def values_fit(self) -> bool:
        """Whether the library can read the values where they are."""
        return _fits(self.p.values, self.values_type)

    def complete(self) -> Call:
        """Add keys and values, as copies where the library can't read them in place."""
        p, c, pairs = self.p, self.c, self.pairs
        if not self.keys_fit:
            pairs.keys = _copy(p.keys, self.keys_type)
            pairs.keys_by_item = DistinctItems(p.layout.per_key_head(pairs.keys), p.layout.inner)
        if not self.values_fit:
            values = p.layout.per_key_head(_copy(p.values, self.values_type))
            self.values = DistinctItems(values, p.layout.inner)
        keys = pairs.transformed_keys_by_item
        c.keys_type, c.values_type = map(library.type_number, (keys.array.dtype, self.values.array.dtype))
        c.keys, c.values = self.matrices(keys), self.matrices(self.values)
        if keys.own or self.values.own:
            c.groups = p.layout.items
        else:
            groups = _groups(keys, self.values)
            c.groups, c.group = len(groups) - 1, self.pointer(groups)
        return self

    def pointer(self, array: Array) -> int:
        """Return the address of an array, and keep the array alive."""
        self.alive.append(array)
        return address(array)

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


def call(p: Problem) -> Call:
    """Convert a problem to a structure of the library, still without keys and values."""
    plain = type(p.score) in (scores.dot, scores.scaled_dot)
    dtype, queries = _read_type(p.queries, p, plain), p.queries
    pairs = pairing.make(p, queries if _fits(queries, dtype) else _copy(queries, dtype), p.keys)
    c, values = structure_type("Problem")(), DistinctItems(p.layout.per_key_head(p.values), p.layout.inner)
    types = _read_type(p.keys, p, plain), _read_type(p.values, p, True)
    prepared = Call(p, pairs, values, c, [], *types)
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

    def __init__(self, prepared: Call) -> None:
        self.prepared, self.p = prepared, prepared.p
        p, c = prepared.p, prepared.c
        self.keys_fit = prepared.pairs.transform is None and prepared.keys_fit
        numbers = (0 if self.keys_fit else max(c.d, p.keys.shape[-1])) + (0 if prepared.values_fit else c.e)
        self.row = max(numbers, 1) * p.compute.itemsize  # bytes of a key that are copied

    @property
    def needed(self) -> bool:
        """Return whether a single call would copy too much at once."""
        small = self.row * self.p.layout.m * self.prepared.pairs.keys_by_item.stored <= COPIED_BYTES
        return not (small or (self.keys_fit and self.prepared.values_fit))

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
            prepared.values, items, columns, None if prepared.values_fit else self._values
        )
        c.keys_type, c.values_type = library.type_number(keys.dtype), library.type_number(values.dtype)
        c.keys = structure("Matrices", starts=starts, row=keys.strides[-2])
        c.values = structure("Matrices", starts=of_values, row=values.strides[-2])
        ends = np.flatnonzero((np.diff(starts) != 0) | (np.diff(of_values) != 0)) + 1
        groups = np.concatenate([[0], ends, [len(starts)]]).astype(np.int64)
        c.groups, c.group = len(groups) - 1, address(groups)
        c.from_key, c.to_key = columns.start, columns.stop
        self.alive = [keys, starts, values, of_values, groups]
        return c

    def _keys(self, keys: Array, columns: slice) -> Array:
        return self.prepared.pairs.of_keys(_copy(keys, self.prepared.keys_type), columns)

    def _values(self, values: Array, columns: slice) -> Array:
        return _copy(values, self.prepared.values_type)

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
        start = address(rows) - columns.start * rows.strides[-2]
        return rows, start + source.astype(np.int64) * step


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
