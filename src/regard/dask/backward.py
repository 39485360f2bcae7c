"""Gradients: those of every visible pair of chunks, and trees of sums."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from numpy.typing import ArrayLike

from regard import _check
from regard._attention import Gradients, Partial, check_differentiable, partial_vjp
from regard._layout import Region
from regard.dask import tasks
from regard.dask.forward import ForwardGraph, Layer, pair_arguments, reduce, with_layers
from regard.dask.grid import Index, Key, check_dask, cut_into_chunks, rechunked, sizes, with_checked_blocks
from regard.mask import MaskLike
from regard.position import BiasLike, alibi
from regard.scores import Score, ScoreLike, is_builtin

__all__ = ["attention_vjp"]

BlockOf = Callable[[Index, int, int], Index]


@_check.hinted
def attention_vjp(
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
) -> tuple[da.Array, Callable[[da.Array], Gradients]]:
    """Compute the context over Dask arrays and its pullback, lazily.

    Parameters
    ----------
    queries : dask array (..., n, d)
        Queries.
    keys : dask array (..., m, d)
        Keys.
    values : dask array (..., m, e)
        Values.
    score, mask, bias, scale, softcap, sink, kernel, threads
        As for `regard.dask.attention`. A user-defined score function needs a method ``vjp``.

    Returns
    -------
    context : dask array (..., n, e)
        As from `regard.dask.attention`.
    pullback : function
        ``pullback(dcontext) -> Gradients`` for a Dask array (..., n, e). All its arrays are Dask arrays, each in the
        shape of its argument. ``dask.compute(context, *gradients)`` computes the merged results that they share once.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, unknown chunk sizes and arrays that are not Dask's, before any computation.
    RuntimeError
        When it is computed and a task fails; the message names the chunks.

    References
    ----------
    Dao et al. 2022, "FlashAttention", algorithm 4; Liu, Zaharia and Abbeel 2023, "Ring Attention", section 3.

    Examples
    --------
    >>> import dask.array as da, numpy as np, regard
    >>> from regard.dask import attention_vjp
    >>> x = np.random.default_rng(0).normal(size=(100, 8))
    >>> lazy = da.from_array(x, chunks=(30, 8))
    >>> context, pullback = attention_vjp(lazy, lazy, lazy)
    >>> gradients = pullback(da.ones_like(context))
    >>> np.allclose(gradients.keys.compute(), regard.attention_vjp(x, x, x)[1](np.ones_like(x)).keys)
    True
    """
    options = {"score": score, "scale": scale, "softcap": softcap, "kernel": kernel, "threads": threads}
    grid = cut_into_chunks((queries, keys, values), mask, bias, sink, **options)
    check_differentiable(grid.problem)
    forward = ForwardGraph(grid)
    context = forward.context

    def pullback(dcontext: da.Array) -> Gradients:
        check_dask("dcontext", dcontext)
        _check.numeric("dcontext", np.zeros(0, dcontext.dtype))
        if dcontext.shape != context.shape:
            rule = f"dcontext must have the shape of the context (..., n, e) = {context.shape}."
            _check.fail(f"{rule} Got {dcontext.shape} instead.")
        checked = rechunked(with_checked_blocks("dcontext", dcontext), context.chunks)
        return GradientGraph(forward, checked).gradients(bias)

    return context, pullback


@dataclass(frozen=True)
class Target:
    """A gradient: the block to which each pair of chunks contributes, and the gradient's name in `Gradients`."""

    name: str
    key: str | None  # of a learned array of the score
    chunks: tuple[tuple[int, ...], ...]
    dtype: np.dtype[Any]
    block_of: BlockOf


class GradientGraph:
    """The graph of all gradients of one attention, for one gradient of its context."""

    def __init__(self, forward: ForwardGraph, dcontext: da.Array) -> None:
        self.forward, self.grid, self.dcontext = forward, forward.grid, dcontext
        self.token = tokenize(forward.grid.token, dcontext)
        self.pairs = f"attention-gradients-{self.token}"
        self.sums = f"attention-gradients-sum-{self.token}"
        self.layers: dict[str, Layer] = {self.pairs: {}, self.sums: {}}
        self.below: dict[str, set[str]] = {self.sums: {self.pairs}}
        self.keys = dict(self._pairs())

    def _pairs(self) -> Iterator[tuple[tuple[Index, int, int], Key]]:
        """Add the gradients of all visible pairs of chunks; yield where they are, and their keys."""
        grid, forward = self.grid, self.forward
        arrays = [operand.array.name for operand in grid.operands.values()]
        self.below[self.pairs] = {
            forward.shared,
            forward.partials,
            forward.merges,
            self.dcontext.name,
            *arrays,
        }
        for batch, row in grid.blocks():
            shared = (forward.total[batch, row], (self.dcontext.name, *batch, row, 0))
            for column, whole in grid.visible[batch][row]:
                key: Key = (self.pairs, *batch, row, column)
                pair = tasks.ChunkPair(grid.region(batch, row, column), whole)
                arguments = pair_arguments(grid, batch, row, column)
                self.layers[self.pairs][key] = (tasks.gradients_of, forward.shared, pair, *shared, *arguments)
                yield (batch, row, column), key

    def gradients(self, bias: Any) -> Gradients:
        """Return all gradients as Dask arrays."""
        targets = [self._of_operand(name) for name in ("queries", "keys", "values")]
        targets += self._of_bias(bias)
        learned = self._of_score()
        parts = [(target, self._summed(target, self.keys)) for target in (*targets, *learned.values())]
        sink = self._of_sink()
        arrays = [da.Array(self._graph(), name, target.chunks, dtype=target.dtype) for target, name in parts]
        count = len(targets)
        dqueries, dkeys, dvalues, *rest = arrays[:count]
        return Gradients(
            dqueries,
            dkeys,
            dvalues,
            rest[0] if rest else None,
            dict(zip(learned, arrays[count:], strict=True)),
            {},
            sink,
        )

    def _graph(self) -> Any:
        forward = self.forward
        context: Any = forward.graph()
        return with_layers(
            {**context.layers, **self.layers}, {**context.dependencies, **self.below}, [self.dcontext]
        )

    def _summed(self, target: Target, keys: dict[tuple[Index, int, int], Key]) -> str:
        """Add the tasks that sum what these keys contribute to a gradient, and return its name."""
        label = target.name if target.key is None else f"{target.name}-{target.key}"
        name = f"attention-gradient-{label}-{self.token}"
        parts: dict[Index, list[Key]] = defaultdict(list)
        for pair, key in keys.items():
            parts[target.block_of(*pair)].append(key)
        layer: Layer = {}
        for block in itertools.product(*(range(len(chunks)) for chunks in target.chunks)):
            prefix: Key = (self.sums, label, *block)
            some = reduce(
                self.layers[self.sums],
                prefix,
                parts[block],
                lambda group: (tasks.sum_of, group, target.name, target.key),
            )
            shape = tuple(chunks[index] for chunks, index in zip(target.chunks, block, strict=True))
            layer[name, *block] = (tasks.finished, some, target.name, target.key, shape, target.dtype)
        self.layers[name], self.below[name] = layer, {self.sums, *(key[0] for key in keys.values())}
        return name

    def _of_operand(self, name: str) -> Target:
        operand = self.grid.operands[name]
        dtype = operand.array.dtype if _check.is_float(operand.array.dtype) else self.grid.problem.compute
        return Target(name, None, operand.array.chunks, dtype.newbyteorder("="), operand.block)

    def _of_bias(self, bias: Any) -> list[Target]:
        """Return the gradient of the bias array, of the slopes or of the table."""
        compute = self.grid.problem.compute
        if bias is None:
            return []
        if "bias" in self.grid.operands:
            operand = self.grid.operands["bias"]
            return [Target("bias", None, operand.array.chunks, compute, operand.block)]
        heads = sizes(self.grid.batch[-1]) if self.grid.batch else (1,)
        first: tuple[tuple[int, ...], ...] = () if isinstance(bias, alibi) else ((len(bias.table),),)

        def block_of(batch: Index, row: int, column: int) -> Index:
            return (*(0 for _ in first), batch[-1] if batch else 0)

        return [Target("bias", None, (*first, heads), compute, block_of)]

    def _of_score(self) -> dict[str, Target]:
        """Return the gradients of the score's learned arrays."""
        score, compute = self.grid.problem.score, self.grid.problem.compute
        if is_builtin(score):
            learned = {key: (array.shape, compute) for key, array in score.parameters().items()}
            axes = {key: _check.axes(score.learned[key]) for key in learned}
        else:
            learned = {key: (array.shape, array.dtype) for key, array in self._smallest().score.items()}
            axes = {key: ("",) * len(shape) for key, (shape, _) in learned.items()}
        return {
            key: Target("score", key, chunks, dtype, block_of)
            for key, (shape, dtype) in learned.items()
            for chunks, block_of in [self._of_axes(axes[key], shape)]
        }

    def _smallest(self) -> Gradients:
        """Return the gradients of an attention of one query to one key, by a score of the user's."""
        p, single = self.grid.problem, slice(0, 1)
        region = Region(tuple(single for _ in p.layout.batch_shape), single, single)
        score = p.score.restrict(region) if isinstance(p.score, Score) else p.score
        arrays = (np.zeros((1, 1, array.shape[-1]), p.compute) for array in (p.queries, p.keys, p.values))
        queries, keys, values = arrays
        merged = Partial(np.zeros_like(values), np.zeros((1, 1), p.compute))
        return partial_vjp(queries, keys, values, merged, merged.context, score=score)

    def _of_axes(
        self, axes: tuple[str, ...], shape: tuple[int, ...]
    ) -> tuple[tuple[tuple[int, ...], ...], BlockOf]:
        """Return the chunks and the blocks of an array: its axes ``...``, n and M are cut like the grid."""
        grid, rank = self.grid, len(self.grid.batch)
        rest = [slice(grid.layout.m, size) for size in shape[-1:] if size > grid.layout.m]
        cut = (*grid.batch, grid.rows, (*grid.columns, *rest))
        places: dict[str, Sequence[int]] = {"...": range(rank), "n": [rank], "M": [rank + 1]}
        every: list[int | None] = [place for axis in axes for place in places.get(axis, [-1])]
        positions = [
            None if place == -1 or (size == 1 and axes[0] == "...") else place
            for size, place in zip(shape, every[len(every) - len(shape) :], strict=True)
        ]
        chunks = tuple(
            (size,) if place is None else sizes(cut[place])
            for size, place in zip(shape, positions, strict=True)
        )

        def block_of(batch: Index, row: int, column: int) -> Index:
            pair = (*batch, row, column)
            return tuple(0 if place is None else pair[place] for place in positions)

        return chunks, block_of

    def _of_sink(self) -> da.Array | None:
        """Return the gradient of the sink, to which each chunk of queries contributes."""
        sink = self.grid.sink
        if sink is None:
            return None
        each = f"attention-gradient-sink-rows-{self.token}"
        chunks, block_of = self._of_axes(("...",), sink.shape)
        keys: dict[tuple[Index, int, int], Key] = {}
        self.layers[each] = {}
        for batch, row in self.grid.blocks():
            total, dcontext = self.forward.total[batch, row], (self.dcontext.name, *batch, row, 0)
            keys[batch, row, 0] = key = (each, *batch, row)
            self.layers[each][key] = (tasks.sink_gradient, total, dcontext, self.grid.sink_of(batch))
        self.below[each] = {self.forward.merges, self.dcontext.name}
        self.below[self.sums].add(each)
        target = Target("sink", None, chunks, sink.dtype.newbyteorder("="), block_of)
        name = self._summed(target, keys)
        return da.Array(self._graph(), name, target.chunks, dtype=target.dtype)
