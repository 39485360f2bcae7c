"""How an attention over Dask arrays is cut: into chunks of leading dimensions, of queries and of keys."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray

from regard import _check
from regard._chunks import Options, visible_pairs
from regard._layout import Layout, Region, extent
from regard._once import computed_once
from regard._problem import Problem, prepare
from regard.dask import tasks
from regard.dask.tasks import Shared
from regard.kernels import KERNELS
from regard.mask import Dense, Mask
from regard.position import BiasObject

__all__: list[str] = []

Array = NDArray[Any]
Index = tuple[int, ...]
Key = tuple[Any, ...]

ARRAYS = ("queries", "keys", "values")


@dataclass(frozen=True)
class Operand:
    """A Dask array of which each pair of chunks reads one block.

    `batch` has, for each leading dimension of the result, the block of the array that each chunk of it reads; the
    array's own leading dimensions are the last ones. `follows` names what its other dimensions are cut like: "rows"
    (queries), "columns" (keys), or "" for a dimension of one chunk.
    """

    array: da.Array
    batch: tuple[tuple[int, ...], ...]
    follows: tuple[str, ...]

    def block(self, batch: Index, row: int, column: int) -> Index:
        """Return the index of the block that a pair of chunks reads."""
        leading = self.array.ndim - len(self.follows)
        first = [of[index] for of, index in zip(self.batch, batch, strict=True)][len(batch) - leading :]
        indices = {"rows": row, "columns": column, "": 0}
        return (*first, *(indices[axis] for axis in self.follows))

    def key(self, batch: Index, row: int, column: int) -> Key:
        """Return the key of that block."""
        return (self.array.name, *self.block(batch, row, column))


@dataclass(frozen=True, eq=False)
class Grid:
    """An attention cut into chunks, and its arrays rechunked to match.

    `known_mask` is None where there is no mask, and where its numbers are not known before it is computed.
    """

    problem: Problem  # of arrays of these shapes, without their numbers
    options: Options
    batch: tuple[tuple[slice, ...], ...]
    rows: tuple[slice, ...]
    columns: tuple[slice, ...]
    operands: dict[str, Operand]  # queries, keys, values; mask and bias if they are arrays
    known_mask: Mask | None
    sink: Array | None
    token: str

    @property
    def layout(self) -> Layout:
        """Return the layout of the complete attention."""
        return self.problem.layout

    @property
    def shared(self) -> Shared:
        """Return the arguments that all tasks share."""
        return Shared(self.options, self.layout)

    @computed_once
    def batches(self) -> list[Index]:
        """Return the indices of all chunks of the leading dimensions."""
        return list(itertools.product(*(range(len(parts)) for parts in self.batch)))

    def batch_slices(self, batch: Index) -> tuple[slice, ...]:
        """Return the slices of a chunk of the leading dimensions."""
        return tuple(parts[index] for parts, index in zip(self.batch, batch, strict=True))

    def region(self, batch: Index, row: int, column: int) -> Region:
        """Return a pair of chunks as slices."""
        return Region(self.batch_slices(batch), self.rows[row], self.columns[column])

    @computed_once
    def visible(self) -> dict[Index, list[list[tuple[int, bool]]]]:
        """Return the visible chunks of keys of each chunk of queries, and whether all of the pair is visible."""
        if self._same_for_all:
            shared = self._visible(tuple(slice(0, 1) for _ in self.batch))
            return dict.fromkeys(self.batches, shared)
        return {batch: self._visible(self.batch_slices(batch)) for batch in self.batches}

    @property
    def _same_for_all(self) -> bool:
        """Return whether the mask does not vary along the leading dimensions; one of a user's class may."""
        mask = self.known_mask
        return mask is None or (self.problem.steps is not None and math.prod(mask.batch_shape()) == 1)

    def _visible(self, batch: tuple[slice, ...]) -> list[list[tuple[int, bool]]]:
        region = Region(batch, slice(0, self.layout.n), slice(0, self.layout.m))
        mask = self.known_mask
        part = None if mask is None else mask.restrict(self.layout, region)
        unknown = mask is None and "mask" in self.operands
        of_rows: list[list[tuple[int, bool]]] = [[] for _ in self.rows]
        pairs = visible_pairs(part, region.layout(self.layout), self.rows, self.columns)
        for (row, column), whole in pairs.items():
            of_rows[row].append((column, whole and not unknown))
        return of_rows

    def blocks(self) -> Iterator[tuple[Index, int]]:
        """Yield all chunks of the leading dimensions and the queries."""
        for batch in self.batches:
            for row in range(len(self.rows)):
                yield batch, row

    def context_shape(self, batch: Index, row: int) -> tuple[int, ...]:
        """Return the shape of a chunk of the context."""
        sizes = (extent(part) for part in (*self.batch_slices(batch), self.rows[row]))
        return (*sizes, self.problem.values.shape[-1])

    def sink_of(self, batch: Index) -> Array | None:
        """Return the sink of a chunk of the leading dimensions."""
        return None if self.sink is None else self.region(batch, 0, 0).of_batch(self.sink)

    def context_chunks(self) -> tuple[tuple[int, ...], ...]:
        """Return the chunk sizes of the context."""
        batch = tuple(sizes(parts) for parts in self.batch)
        return (*batch, sizes(self.rows), (self.problem.values.shape[-1],))


def sizes(parts: Iterable[slice]) -> tuple[int, ...]:
    """Return the lengths of slices."""
    return tuple(extent(part) for part in parts)


def cut_into_chunks(arrays: tuple[Any, Any, Any], mask: Any, bias: Any, sink: Any, **options: Any) -> Grid:
    """Check the arguments of an attention, and cut it into chunks."""
    p = _checked(arrays, mask, bias, sink, options)
    of_pairs = _array_options(p, mask, bias)
    batch = _batch_chunks(p.layout, arrays, of_pairs)
    rows = _slices(arrays[0].chunks[-2])
    columns = _slices(_common(arrays[1].chunks[-2], arrays[2].chunks[-2]))
    read, batch_of_keys = _batch_of_keys(batch, p.layout)
    shared = {"mask": p.mask, "bias": bias} | dict.fromkeys(of_pairs)
    arrays = tuple(itertools.starmap(with_checked_blocks, zip(ARRAYS, arrays, strict=True)))
    return Grid(
        p,
        Options(**options | shared | {"score": p.score}),
        batch,
        rows,
        columns,
        {
            "queries": _operand(arrays[0], batch, None, rows, ("rows", "")),
            "keys": _operand(arrays[1], batch_of_keys, read, columns, ("columns", "")),
            "values": _operand(arrays[2], batch_of_keys, read, columns, ("columns", "")),
            **{name: _pairs_operand(array, batch, rows, columns) for name, array in of_pairs.items()},
        },
        None if isinstance(mask, da.Array) else p.mask,
        None if p.sink is None else p.sink.array,
        tokenize(*arrays, mask, bias, sink, options),
    )


def _checked(
    arrays: tuple[Any, Any, Any], mask: Any, bias: Any, sink: Any, options: dict[str, Any]
) -> Problem:
    """Check the arguments of an attention by the rules of one process, from the shapes of its arrays."""
    for name, array in zip(ARRAYS, arrays, strict=True):
        check_dask(name, array)
    if options["threads"] is not None:
        _check.integer("threads", options["threads"], least=1)
    _check.choice("kernel", options["kernel"], KERNELS)
    queries, keys, values = map(_without_numbers, arrays)
    visible, added = _shape_of("mask", mask), _shape_of("bias", bias)
    score, scale, softcap = options["score"], options["scale"], options["softcap"]
    return prepare(queries, keys, values, score, visible, added, scale, softcap, "softmax", sink)


def check_dask(name: str, array: Any) -> None:
    """Raise unless this is a Dask array of known shape."""
    if not isinstance(array, da.Array):
        got = type(array).__name__
        shape = f" of shape {array.shape}" if hasattr(array, "shape") else ""
        hint = f"dask.array.from_array({name}, chunks=...); regard.attention takes NumPy arrays"
        _check.fail(f"{name} must be a Dask array. Got {got}{shape} instead.", hint=hint, kind=TypeError)
    _check.as_array(name, da.utils.meta_from_array(array))  # refuses masked arrays
    if any(math.isnan(size) for size in array.shape):
        hint = f"{name}.compute_chunk_sizes() finds them"
        _check.fail(f"{name} must have known chunk sizes. Got shape {array.shape} instead.", hint=hint)


def with_checked_blocks(name: str, array: da.Array) -> da.Array:
    """Return the array with blocks that are checked when they are computed, before they are cut for the grid."""
    checked = f"attention-{name}-{tokenize(array)}"
    layer = {
        (checked, *index): (tasks.block, (array.name, *index), name, index, shape)
        for index, shape in zip(np.ndindex(array.numblocks), itertools.product(*array.chunks), strict=True)
    }
    graph = HighLevelGraph.from_collections(checked, layer, dependencies=[array])
    return da.Array(graph, checked, array.chunks, dtype=array.dtype)


def rechunked(array: da.Array, chunks: tuple[tuple[int, ...], ...]) -> da.Array:
    """Return the array in these chunks, also where Dask keeps those that it has: if all sizes are 0."""
    cut = array.rechunk(chunks)
    return cut if cut.chunks == chunks else da.zeros(array.shape, dtype=array.dtype, chunks=chunks)


def _without_numbers(array: da.Array) -> Array:
    """Return an array of the same shape and dtype that takes no memory."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)


def _shape_of(name: str, option: Any) -> Any:
    """Return a mask or a bias, of a Dask array its shape and dtype only."""
    if not isinstance(option, da.Array):
        return option
    check_dask(name, option)
    return _without_numbers(option)


def _array_options(p: Problem, mask: Any, bias: Any) -> dict[str, Any]:
    """Return the mask and the bias that are arrays."""
    of_pairs: dict[str, Any] = {}
    if isinstance(mask, da.Array):
        of_pairs["mask"] = with_checked_blocks("mask", mask)
    elif isinstance(p.mask, Dense):
        of_pairs["mask"] = p.mask.array
    if isinstance(bias, da.Array):
        of_pairs["bias"] = with_checked_blocks("bias", bias)
    elif not isinstance(bias, BiasObject | None):
        of_pairs["bias"] = _check.numeric("bias", bias)
    return of_pairs


def _slices(chunks: Iterable[int]) -> tuple[slice, ...]:
    ends = list(itertools.accumulate(chunks, initial=0))
    return tuple(itertools.starmap(slice, itertools.pairwise(ends)))


def _ends(chunks: Iterable[int]) -> set[int]:
    return set(itertools.accumulate(chunks, initial=0))


def _between(ends: set[int]) -> tuple[int, ...]:
    """Return the chunk sizes between these ends."""
    return tuple(stop - start for start, stop in itertools.pairwise(sorted(ends))) or (0,)


def _common(*chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the coarsest chunks of which each given chunk is a union."""
    return chunks[0] if len(set(chunks)) == 1 else _between(set().union(*map(_ends, chunks)))


def _batch_chunks(
    layout: Layout, arrays: tuple[Any, ...], of_pairs: dict[str, Any]
) -> tuple[tuple[slice, ...], ...]:
    """Return the chunks of each leading dimension of the result, as fine as those of every array."""
    ends: list[set[int]] = [{0, size} for size in layout.batch_shape]
    for array in (*arrays, *(option for option in of_pairs.values() if isinstance(option, da.Array))):
        leading = array.chunks[: max(array.ndim - 2, 0)]
        for axis, chunks in zip(range(-len(leading), 0), leading, strict=True):
            if sum(chunks) == layout.batch_shape[axis]:
                ends[axis] |= _ends(chunks)
            elif sum(chunks) > 1 and layout.split is not None:  # key heads: each has a group of query heads
                ends[axis] |= {end * layout.split[1] for end in _ends(chunks)}
    if layout.split is not None:
        ends[-1] = _at_groups(ends[-1], layout.split[1])
    return tuple(_slices(_between(some)) for some in ends)


def _at_groups(ends: set[int], group: int) -> set[int]:
    """Add ends so that each chunk of query heads lies in one group, or is made of complete groups."""
    inside = {end for end in ends if end % group}
    return ends | {end // group * group for end in inside} | {-(-end // group) * group for end in inside}


def _batch_of_keys(
    batch: tuple[tuple[slice, ...], ...], layout: Layout
) -> tuple[tuple[tuple[int, ...], ...] | None, tuple[tuple[slice, ...], ...]]:
    """Return which chunks of the keys' leading dimensions each chunk of the result reads, and the keys' chunks."""
    if layout.split is None:
        return None, batch
    heads, group = layout.split
    parts = _slices(_between({part.start // group for part in batch[-1]} | {heads}))
    first = [part.start for part in parts]
    read = tuple(first.index(part.start // group) for part in batch[-1])
    return (*(tuple(range(len(some))) for some in batch[:-1]), read), (*batch[:-1], parts)


def _operand(
    array: da.Array,
    batch: tuple[tuple[slice, ...], ...],
    read: tuple[tuple[int, ...], ...] | None,
    along: tuple[slice, ...],
    follows: tuple[str, str],
) -> Operand:
    """Rechunk queries, keys or values to the grid."""
    leading = array.ndim - 2
    first = _chunks_like(array.shape[:leading], batch)
    array = rechunked(array, (*first, sizes(along), (array.shape[-1],)))
    return Operand(array, _read(array, leading, batch, read), follows)


def _pairs_operand(
    array: Any, batch: tuple[tuple[slice, ...], ...], rows: tuple[slice, ...], columns: tuple[slice, ...]
) -> Operand:
    """Rechunk an array that broadcasts to (..., n, m) to the grid."""
    wanted = _chunks_like(array.shape, (*batch, rows, columns))
    # Chunks of NumPy arrays go where they are needed.
    array = rechunked(array, wanted) if isinstance(array, da.Array) else da.from_array(array, chunks=wanted)
    trailing = ("rows", "columns")[2 - min(array.ndim, 2) :]
    sized = array.shape[array.ndim - len(trailing) :]
    full = tuple(axis if size != 1 else "" for axis, size in zip(trailing, sized, strict=True))
    return Operand(array, _read(array, array.ndim - len(trailing), batch, None), full)


def _chunks_like(
    shape: tuple[int, ...], target: tuple[tuple[slice, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    """Return chunks for an array that broadcasts to dimensions with these chunks."""
    aligned = target[len(target) - len(shape) :]
    return tuple((1,) if size == 1 else sizes(parts) for size, parts in zip(shape, aligned, strict=True))


def _read(
    array: da.Array,
    leading: int,
    batch: tuple[tuple[slice, ...], ...],
    read: tuple[tuple[int, ...], ...] | None,
) -> tuple[tuple[int, ...], ...]:
    """Return which block of each leading dimension a chunk of the grid reads: 0 where there is only one."""
    read = read or tuple(tuple(range(len(parts))) for parts in batch)
    missing = len(batch) - leading
    return tuple(
        some if axis >= missing and array.shape[axis - missing] != 1 else (0,) * len(some)
        for axis, some in enumerate(read)
    )
