"""The context: partial attention of every visible pair of chunks, and a tree of merges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import dask.array as da
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import ArrayLike

from regard import _check
from regard.dask import tasks
from regard.dask.grid import Grid, Index, Key, cut_into_chunks
from regard.mask import MaskLike
from regard.position import BiasLike
from regard.scores import ScoreLike

__all__ = ["attention"]

Layer: TypeAlias = dict[Any, Any]  # key -> task
PARTS_OF_A_TASK = 8  # parts that are merged, or gradients that are added, by one task


@_check.hinted
def attention(
    queries: da.Array,
    keys: da.Array,
    values: da.Array,
    /,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | da.Array | None = None,
    bias: BiasLike | da.Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: ArrayLike | None = None,
    kernel: str = "auto",
    threads: int | None = 1,
) -> da.Array:
    """Compute attention over Dask arrays, lazily.

    Each visible pair of a chunk of queries and a chunk of keys is a task; pairs that the mask hides are not in the
    graph. Any chunks are allowed: keys and values are rechunked to match each other, and d and e become one chunk.

    Parameters
    ----------
    queries : dask array (..., n, d)
        Queries.
    keys : dask array (..., m, d)
        Keys.
    values : dask array (..., m, e)
        Values.
    score
        As for `regard.attention`, with its learned arrays in memory.
    mask, bias
        As for `regard.attention`, or a Dask array that broadcasts to (..., n, m). All pairs are in the graph where the
        mask is a Dask array, since its numbers are not known before it is computed.
    scale, softcap, sink, kernel
        As for `regard.attention`; `sink` is in memory.
    threads : int, optional
        Threads of one task; 1, because Dask runs several tasks at a time. None: all processors.

    Returns
    -------
    dask array (..., n, e)
        In the chunks of the queries, and of the finest leading dimensions of the three arrays.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, unknown chunk sizes and arrays that are not Dask's, before any computation.
    RuntimeError
        When it is computed and a task fails; the message names the chunks.

    References
    ----------
    Rabe and Staats 2021, "Self-attention Does Not Need O(n^2) Memory"; Liu, Zaharia and Abbeel 2023, "Ring Attention
    with Blockwise Transformers".

    Examples
    --------
    >>> import dask.array as da, numpy as np, regard
    >>> from regard.dask import attention
    >>> x = np.random.default_rng(0).normal(size=(1000, 16))
    >>> lazy = da.from_array(x, chunks=(250, 16))
    >>> context = attention(lazy, lazy, lazy, mask=regard.mask.causal())
    >>> context.chunks
    ((250, 250, 250, 250), (16,))
    >>> np.allclose(context.compute(), regard.attention(x, x, x, mask=regard.mask.causal()))
    True
    """
    options = {"score": score, "scale": scale, "softcap": softcap, "kernel": kernel, "threads": threads}
    grid = cut_into_chunks((queries, keys, values), mask, bias, sink, **options)
    return ForwardGraph(grid).context


class ForwardGraph:
    """The graph of the context. `total` has the key of the merged result of each block, which gradients need, too."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.partials, self.merges, self.contexts = (
            f"attention-{step}-{grid.token}" for step in ("partial", "merge", "context")
        )
        self.shared = f"attention-options-{grid.token}"
        self.layers: dict[str, Layer] = {
            self.shared: {self.shared: grid.shared},
            self.partials: {},
            self.merges: {},
            self.contexts: {},
        }
        self.total = {(batch, row): self._total(batch, row) for batch, row in grid.blocks()}

    @property
    def context(self) -> da.Array:
        """Return the context as a Dask array."""
        p = self.grid.problem
        layer = self.layers[self.contexts]
        for (batch, row), total in self.total.items():
            layer[self.contexts, *batch, row, 0] = (tasks.context_of, total, p.result)
        return da.Array(self.graph(), self.contexts, self.grid.context_chunks(), dtype=p.result)

    def graph(self) -> HighLevelGraph:
        """Return the graph of this attention, with those of its arrays."""
        arrays = [operand.array for operand in self.grid.operands.values()]
        below = {
            self.shared: set[str](),
            self.partials: {self.shared, *(array.name for array in arrays)},
            self.merges: {self.partials},
            self.contexts: {self.merges, self.partials},
        }
        return with_layers(self.layers, below, arrays)

    def _total(self, batch: Index, row: int) -> Key:
        """Return the key of the attention over all keys of a chunk of queries."""
        layer, sink = self.layers[self.merges], self.grid.sink_of(batch)
        parts = [self._partial(batch, row, column, whole) for column, whole in self.grid.visible[batch][row]]
        last: Key = (self.merges, *batch, row)
        if not parts:
            layer[last] = (
                tasks.nothing,
                self.grid.context_shape(batch, row),
                self.grid.problem.compute,
                sink,
            )
            return last
        parts = reduce(layer, last, parts, lambda group: (tasks.merged, group))
        if len(parts) == 1 and sink is None:
            return parts[0]
        layer[last] = (tasks.merged, parts, sink)
        return last

    def _partial(self, batch: Index, row: int, column: int, all_visible: bool) -> Key:
        key = (self.partials, *batch, row, column)
        pair = tasks.ChunkPair(self.grid.region(batch, row, column), all_visible)
        arguments = pair_arguments(self.grid, batch, row, column)
        self.layers[self.partials][key] = (tasks.partial_of, self.shared, pair, *arguments)
        return key


def reduce(layer: Layer, name: Key, parts: list[Key], task: Callable[[list[Key]], Any]) -> list[Key]:
    """Add a tree of tasks to a layer until few parts are left, and return these."""
    level = 0
    while len(parts) > PARTS_OF_A_TASK:
        groups = [parts[start : start + PARTS_OF_A_TASK] for start in range(0, len(parts), PARTS_OF_A_TASK)]
        parts = [(*name, level, number) for number in range(len(groups))]
        layer.update({key: task(group) for key, group in zip(parts, groups, strict=True)})
        level += 1
    return parts


def pair_arguments(grid: Grid, batch: Index, row: int, column: int) -> list[Key | None]:
    """Return the keys of the blocks that a pair of chunks reads."""
    names = ("queries", "keys", "values", "mask", "bias")
    return [grid.operands[name].key(batch, row, column) if name in grid.operands else None for name in names]


def with_layers(
    layers: dict[str, Layer], below: dict[str, set[str]], arrays: list[da.Array]
) -> HighLevelGraph:
    """Return a graph of these layers on top of those of the arrays."""
    graph = HighLevelGraph.merge(*(array.__dask_graph__() for array in arrays))
    return HighLevelGraph({**graph.layers, **layers}, {**graph.dependencies, **below})
