"""The NumPy kernel: attention by blocks with an online softmax, forward and backward, never building n x m.

For a tile of queries the kernel loops over blocks of keys, skips those that are masked for all of the tile, and keeps
for every query a running maximum, a running sum and a running context (Milakov and Gimelshein 2018, "Online normalizer
calculation for softmax"; Rabe and Staats 2021, "Self-attention Does Not Need O(n^2) Memory"). The backward pass
computes the logits of each block again and their weights from the saved log-sum-exp (Dao et al. 2022,
"FlashAttention", algorithm 4).

Layout of a block: (items, keys, lanes), see `pairs`. The block size depends on m, d and e but not on n, the batch or
the threads. The number of queries and items of a tile depends on its memory, and does not change results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard._einsum import einsum
from regard._layout import DistinctItems, slices
from regard._problem import Problem
from regard._processors import available
from regard.kernels import pairs as pairing
from regard.kernels.pairs import (
    LANES,
    PRODUCT_WORK,
    Named,
    PairScores,
    all_finite,
    contiguous,
    finite,
    grouped,
    rows_of,
    to_lanes,
)
from regard.mask import Visible
from regard.weights import apply, is_of_rows, is_softmax, local_p, pull_back

__all__: list[str] = []

Array = NDArray[Any]
T = TypeVar("T")
R = TypeVar("R")

TILE_NUMBERS = 1 << 17  # elements in the block of a thread
UNIT = 1.0  # of the logarithms in a statistic
INDEX_BASE = 1 << 20  # an index is stored as quotient and remainder of this
THREADED_WORK = 1 << 29  # multiplications from which threads are faster, despite the GIL


@dataclass(frozen=True)
class Plan:
    """The block sizes: numbers of keys, queries and items."""

    columns: int
    rows: int
    items: int


def _floor_lanes(size: float) -> int:
    return max(int(size) // LANES * LANES, LANES)


def plan_forward(p: Problem, pairs: PairScores) -> Plan:
    """Choose block sizes for the forward pass."""
    widest = max(p.values.shape[-1], pairs.left.shape[-1], 1)
    columns = min(
        _floor_lanes(min(PRODUCT_WORK / (LANES * widest), TILE_NUMBERS / (LANES * pairs.depth), 256)),
        max(p.layout.m, 1),
    )
    full_rows = not _is_online(p) and LANES * p.layout.m <= TILE_NUMBERS
    return _plan(p, pairs, columns, p.layout.m if full_rows else columns, 256)


def _is_online(p: Problem) -> bool:
    """Return whether step 2 uses a running maximum and sum."""
    return is_softmax(p.normalize) or isinstance(p.normalize, local_p)


def plan_backward(p: Problem, pairs: PairScores) -> Plan:
    """Choose block sizes for the backward pass, whose products over the queries are fastest with short tiles."""
    widest = max(p.values.shape[-1], pairs.left.shape[-1], 1)
    columns = min(
        _floor_lanes(min(PRODUCT_WORK / (64 * widest), TILE_NUMBERS / (LANES * pairs.depth), 256)),
        max(p.layout.m, 1),
    )
    return _plan(p, pairs, columns, p.layout.m if is_of_rows(p.normalize) else columns, 64)


def _plan(p: Problem, pairs: PairScores, columns: int, logits: int, most_rows: int) -> Plan:
    rows = min(
        -(-p.layout.n // LANES) * LANES,
        most_rows,
        _floor_lanes(TILE_NUMBERS / max(columns * pairs.depth, logits)),
    )
    real = min(rows, p.layout.n)
    widest = max(p.values.shape[-1], pairs.left.shape[-1])
    size = max(rows * logits, real * columns * pairs.depth, rows * widest // 2, 1)
    return Plan(columns, rows, max(min(TILE_NUMBERS // size, p.layout.items), 1))


def thread_count(p: Problem, threads: int | None) -> int:
    """Return `threads`, or if that is None the number of processors, or 1 for small inputs."""
    if threads is not None:
        return threads
    work = p.layout.items * p.layout.n * p.layout.m * (p.queries.shape[-1] + p.values.shape[-1] + 8)
    if work < THREADED_WORK:
        return 1
    return available()


def _map_on_threads(work: Callable[[T], R], tasks: list[T], threads: int) -> Iterator[R]:
    """Run the tasks on `threads` threads and yield the results in the order of the tasks."""

    def quiet(task: T) -> R:
        with np.errstate(all="ignore"):  # this setting is per thread
            return work(task)

    count = min(threads, len(tasks))
    from regard._threads import Workers  # lazy, for a fast `import regard`

    with Workers(count if count > 1 else 0) as workers:
        yield from workers.map(quiet, tasks)


def _stop_if_requested() -> None:
    from regard._threads import stop_if_requested

    stop_if_requested()


class Kernel:
    """One attention, prepared for computation by tiles."""

    def __init__(self, p: Problem) -> None:
        self.p = p
        self.queries = p.queries.astype(p.compute, copy=False)
        with np.errstate(all="ignore"):
            self.pairs = pairing.make(p, self.queries, p.keys)
        self.values_by_item = DistinctItems(p.layout.per_key_head(p.values), p.layout.inner)
        self.tainted = not all_finite(p.values)
        self.power = {"sparsemax": 1, "entmax15": 2}.get(str(p.normalize), 0)
        self.of_rows = is_of_rows(p.normalize)
        self.near = self._near()

    def _near(self) -> Array | None:
        """Return the predicted positions (items, n) of a local-p window, always in float64."""
        p = self.p
        if not isinstance(p.normalize, local_p):
            return None
        positions = p.normalize.positions.astype(float)
        positions = np.broadcast_to(positions, (*positions.shape[:-1], p.layout.n))
        positions = np.broadcast_to(p.layout.per_query_head(positions, 1), (*p.layout.inner, p.layout.n))
        return positions.reshape(p.layout.items, p.layout.n)

    def values(self, items: slice, columns: slice) -> Array:
        """Return a block of values (items or 1, keys, e)."""
        return self.values_by_item.block(items, columns).astype(self.p.compute, copy=False)

    def visible(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Return which keys are visible in a block."""
        visible: Visible = (
            True if self.p.bound_mask is None else self.p.bound_mask.block(items, rows, columns)
        )
        if self.near is None or visible is False:
            return visible
        assert isinstance(self.p.normalize, local_p)
        near = np.abs(self._distance(items, rows, columns)) <= self.p.normalize.width
        return near if visible is True else near & visible

    def _distance(self, items: slice, rows: slice, columns: slice) -> Array:
        """Return key position minus predicted position (items, queries, keys)."""
        assert self.near is not None
        return np.arange(columns.start, columns.stop, dtype=float) - self.near[items, rows, None]

    def gauss(self, items: slice, rows: slice, columns: slice, lanes: int) -> Array:
        """Return the Gaussian factor of local-p (items, keys, lanes)."""
        assert isinstance(self.p.normalize, local_p)
        factor = self.p.normalize.gauss(self._distance(items, rows, columns))
        return to_lanes(factor.astype(self.p.compute, copy=False), lanes)

    def logits(
        self, left: Array, items: slice, rows: slice, columns: slice, tanh: list[Array] | None = None
    ) -> Array | None:
        """Return the logits of a block (items, keys, lanes), -inf where masked; None if all are."""
        _stop_if_requested()
        p = self.p
        visible = self.visible(items, rows, columns)
        if visible is False:
            return None
        block = self.pairs.block(left, self.pairs.right_block(items, columns))
        block *= p.compute.type(p.scale)
        if p.softcap is not None:
            block /= p.compute.type(p.softcap)
            np.tanh(block, out=block)
            if tanh is not None:
                tanh.append(block.copy())
            block *= p.compute.type(p.softcap)
        t = rows.stop - rows.start
        real = block[:, :, :t]
        if p.bias is not None:
            bias = p.bias.block(items, rows, columns).swapaxes(1, 2)
            real += bias
            np.copyto(real, -np.inf, where=np.isneginf(bias))
        if visible is not True:
            np.copyto(real, -np.inf, where=~visible.swapaxes(1, 2))
        block[:, :, t:] = -np.inf
        return block

    def hides(self, rows: slice, lanes: int) -> bool:
        """Whether blocks of these rows can have logits of -inf."""
        return (
            isinstance(self.pairs, (pairing.Function, pairing.Distances))  # their scores can be -inf
            or self.p.bound_mask is not None
            or self.near is not None
            or self.p.bias is not None
            or rows.stop - rows.start < lanes
        )


def _times_values(values: Array, weights: Array) -> Array:
    """Return values (items or 1, keys, e) times weights (items, keys, lanes): (items, groups, e, 16)."""
    summed: Array = contiguous(values).swapaxes(1, 2)[:, None] @ grouped(weights)
    return summed


class Taint:
    """Counts of the visible values +inf, -inf and NaN of each query, so that masked ones don't affect its context."""

    def __init__(self) -> None:
        self.counts: list[Any] = [0, 0, 0]

    def split(self, values: Array, visible: Array) -> Array:
        """Count, and return the values with 0 in place of non-finite ones."""
        for i, bad in enumerate((np.isposinf(values), np.isneginf(values), np.isnan(values))):
            self.counts[i] = self.counts[i] + _times_values(
                bad.astype(values.dtype), visible.astype(values.dtype)
            )
        return np.where(np.isfinite(values), values, 0)

    def put(self, context: Array) -> Array:
        """Return the context with the counted inf and NaN."""
        plus, minus, lost = (np.asarray(count) > 0 for count in self.counts)
        context = np.where(plus, context + np.inf, context)
        context = np.where(minus, context - np.inf, context)
        return np.where(lost, np.nan, context)


def forward(p: Problem, threads: int | None = None) -> tuple[Array, Array]:
    """Compute context (items, n, e) and statistic (items, 2, n): for each row the logit that is subtracted from all
    logits, and the logarithm of the sum, the threshold or the index of the largest. They are stored separately, since
    their sum would lose the precision of the second for large logits.
    """
    context = np.zeros((p.layout.items, p.layout.n, p.values.shape[-1]), p.compute)
    statistic = np.full((p.layout.items, 2, p.layout.n), -np.inf, p.compute)
    if not statistic.size or not p.layout.m:
        return context, statistic
    kernel = Kernel(p)
    plan = plan_forward(p, kernel.pairs)
    tile = _online if _is_online(p) else _rowwise

    def work(task: tuple[slice, slice]) -> None:
        items, rows = task
        context[items, rows], row = tile(kernel, plan, items, rows)
        statistic[items, :, rows] = row[:, :, : rows.stop - rows.start]

    tasks = [
        (items, rows)
        for items in slices(p.layout.items, plan.items)
        for rows in slices(p.layout.n, plan.rows)
    ]
    for _ in _map_on_threads(work, tasks, thread_count(p, threads)):
        pass
    return context, statistic


def lse(statistic: Array) -> Array:
    """Return the log-sum-exp of each row (items, n)."""
    summed: Array = statistic.sum(1)
    return summed


def _online(kernel: Kernel, plan: Plan, items: slice, rows: slice) -> tuple[Array, Array]:
    """Compute a tile block by block: context (items, t, e) and statistic (items, 2, lanes)."""
    p = kernel.p
    left = kernel.pairs.queries_by_item.block(items, rows)
    left = np.broadcast_to(left, (items.stop - items.start, *left.shape[1:]))
    lanes = -(-left.shape[1] // LANES) * LANES
    top = np.full((len(left), 1, lanes), -np.inf, p.compute)
    total = np.zeros_like(top)
    context: Array | None = None
    taint = Taint() if kernel.tainted else None
    for columns in slices(p.layout.m, plan.columns):
        block = kernel.logits(left, items, rows, columns)
        if block is None:
            continue
        values = kernel.values(items, columns)
        if taint is not None:
            values = taint.split(values, ~np.isneginf(block))
        higher = np.maximum(top, block.max(1, keepdims=True))
        safe = np.where(np.isneginf(higher), 0, higher)
        faded = np.exp(top - safe)
        np.subtract(block, safe, out=block)
        np.exp(block, out=block)
        total = total * faded + block.sum(1, keepdims=True)
        if kernel.near is not None:
            block *= kernel.gauss(items, rows, columns, lanes)
        if context is None:
            context = _times_values(values, block)
        else:
            context *= grouped(faded)
            context += _times_values(values, block)
        top = higher
    statistic = np.concatenate([np.where(np.isneginf(top), 0, top), np.log(total)], axis=1)
    if context is None:
        return np.zeros((*left.shape[:2], p.values.shape[-1]), p.compute), statistic
    context = rows_of(context if taint is None else taint.put(context), left.shape[1])
    divisor = np.where(total == 0, 1, total)  # a row without a visible key has context 0
    return context / divisor[:, 0, : left.shape[1], None], statistic


class Logits:
    """All logits of a tile, by block, for several passes; kept if small, else recomputed."""

    def __init__(self, kernel: Kernel, plan: Plan, items: slice, rows: slice) -> None:
        self.kernel, self.items, self.rows = kernel, items, rows
        left = kernel.pairs.queries_by_item.block(items, rows)
        self.left = np.broadcast_to(left, (items.stop - items.start, *left.shape[1:]))
        self.shape = (len(self.left), 1, -(-self.left.shape[1] // LANES) * LANES)
        self.columns = slices(kernel.p.layout.m, plan.columns)
        self.stored: Array | None = None
        if kernel.of_rows or LANES * kernel.p.layout.m <= TILE_NUMBERS:
            self.stored = self._complete()

    def _complete(self) -> Array:
        """Return the logits of all keys (items, keys, lanes)."""
        stored = np.full((len(self.left), self.kernel.p.layout.m, self.shape[2]), -np.inf, self.left.dtype)
        for columns, block in self:
            stored[:, columns] = block
        return stored

    def __iter__(self) -> Iterator[tuple[slice, Array]]:
        """Yield each block with visible keys (items, keys, lanes), with its columns; it must not be modified."""
        for columns in self.columns:
            if self.stored is not None:
                yield columns, self.stored[:, columns]
            elif (block := self.kernel.logits(self.left, self.items, self.rows, columns)) is not None:
                yield columns, block

    def parts(self) -> Iterator[tuple[slice, Array]]:
        """Yield the logits of all blocks, as a single block if they are kept."""
        return iter(self) if self.stored is None else iter([(slice(0, self.kernel.p.layout.m), self.stored)])


def _rowwise(kernel: Kernel, plan: Plan, items: slice, rows: slice) -> tuple[Array, Array]:
    """Compute a tile whose step 2 needs complete rows: context (items, t, e) and statistic (items, 2, lanes)."""
    logits, t = Logits(kernel, plan, items, rows), rows.stop - rows.start
    statistic, weights_of = _by_function(logits, t) if kernel.of_rows else _by_threshold(logits)
    taint = Taint() if kernel.tainted else None
    e = kernel.p.values.shape[-1]
    context = np.zeros((logits.shape[0], logits.shape[2] // LANES, e, LANES), kernel.p.compute)
    for columns, block in logits:
        values = kernel.values(items, columns)
        unseen = np.isneginf(block)
        if taint is not None:
            values = taint.split(values, ~unseen)
        weights = weights_of(block, columns)
        np.copyto(weights, 0, where=unseen)
        context += _times_values(values, weights)
    return rows_of(context if taint is None else taint.put(context), t), statistic


WeightsOf = Callable[[Array, slice], Array]  # of a block of logits and its columns


def _by_threshold(logits: Logits) -> tuple[Array, WeightsOf]:
    """Return the statistic of sparsemax, entmax or hard, and the function that gives a block's weights."""
    kernel = logits.kernel
    statistic = _threshold(logits, kernel.power) if kernel.power else _first_largest(logits)
    return statistic, lambda block, columns: _weights(kernel, block, statistic, columns)[0]


def _by_function(logits: Logits, t: int) -> tuple[Array, WeightsOf]:
    """Return an empty statistic, and the weights of a function of complete rows, of t queries."""
    assert logits.stored is not None
    weights = np.zeros_like(logits.stored)
    for some, z in _complete_rows(t, logits.stored):
        weights[:, :, some] = apply(logits.kernel.p.normalize, z).swapaxes(1, 2)
    statistic = np.zeros((logits.shape[0], 2, logits.shape[2]), weights.dtype)
    return statistic, lambda block, columns: weights[:, columns]


def _complete_rows(t: int, *lanes: Array) -> Iterator[tuple[Any, ...]]:
    """Yield some of the t queries, and their complete rows (items, queries, keys) of arrays (items, keys, lanes)."""
    for some in slices(t, max(TILE_NUMBERS // (LANES * lanes[0].shape[1]), 1)):
        yield some, *(np.ascontiguousarray(array[:, :, some].swapaxes(1, 2)) for array in lanes)


def _largest(logits: Logits) -> Array:
    """Return each row's largest logit; NaN if it is NaN or +inf."""
    largest = np.full(logits.shape, -np.inf, logits.left.dtype)
    for _, block in logits.parts():
        largest = np.maximum(largest, block.max(1, keepdims=True))
    return np.where(np.isposinf(largest), np.nan, largest)


def _threshold(logits: Logits, power: int) -> Array:
    """Return t with sum max(z / power - t, 0) ** power = 1, by Newton's method from below.

    The sum is convex and decreasing in t, so Newton's steps increase t and never pass the root. Each row stops when it
    has converged, independently of the others.
    """
    largest = _largest(logits) / power
    blind = np.isneginf(largest)
    base = np.where(blind, 0, largest)
    t = np.full_like(largest, -1)
    for _ in range(60):
        _stop_if_requested()
        slope, excess = _newton(logits, base, t, power)
        step = excess / (power * np.maximum(slope, 1e-30))
        moving = (step > np.finfo(t.dtype).eps * np.abs(t)) & ~blind
        if not moving.any():
            break
        t = np.where(moving, t + step, t).astype(t.dtype)
    return np.concatenate([base, t], axis=1)


def _newton(logits: Logits, base: Array, t: Array, power: int) -> tuple[Array, Array]:
    """Return for a step of Newton's method, in float64: minus the slope divided by `power`, and the sum minus 1."""
    slope, total = np.zeros(logits.shape), np.zeros(logits.shape)
    for _, block in logits.parts():
        above = _above(block, base, t, power)
        slope += (above if power == 2 else above > 0).sum(1, keepdims=True, dtype=np.float64)
        if power == 2:
            above *= above
        total += above.sum(1, keepdims=True, dtype=np.float64)
    return slope, total - 1


def _above(block: Array, base: Array, t: Array, power: int) -> Array:
    """Return max(block / power - base - t, 0)."""
    above: Array = np.divide(block, power) if power > 1 else block - base
    if power > 1:
        above -= base
    above -= t
    return np.maximum(above, 0, out=above)


def _first_largest(logits: Logits) -> Array:
    """Return the index of each row's first largest logit, as two numbers since float32 is exact to 2^24 only.

    NaN if the row has a NaN or +inf.
    """
    best, index = np.full(logits.shape, -np.inf, logits.left.dtype), np.zeros(logits.shape, np.int64)
    for columns, block in logits.parts():
        largest = block.max(1, keepdims=True)
        index = np.where(largest > best, block.argmax(1)[:, None] + columns.start, index)
        best = np.maximum(best, largest)  # NaN propagates
    lost = np.isnan(best) | np.isposinf(best)
    parts = index // INDEX_BASE, np.where(lost, np.nan, index % INDEX_BASE)
    return np.concatenate(parts, axis=1).astype(best.dtype)


def _weights(kernel: Kernel, block: Array, statistic: Array, columns: slice) -> tuple[Array, Array]:
    """Return weights of a block and g: the gradient of the logits is g * (dweights - their mean weighted by g)."""
    base, statistic = statistic[:, :1], statistic[:, 1:]
    if kernel.power == 1:
        weights = _above(block, base, statistic, 1)
        return weights, (weights > 0).astype(block.dtype)
    if kernel.power == 2:
        root = _above(block, base, statistic, 2)
        return root * root, root
    if kernel.p.normalize == "hard":
        positions = np.arange(columns.start, columns.stop)[:, None]
        chosen = (positions // INDEX_BASE == base) & (positions % INDEX_BASE == statistic)
        weights = np.where(np.isnan(statistic), np.nan, chosen).astype(block.dtype)
        return weights, np.zeros_like(weights)
    np.subtract(block, base, out=block)
    np.subtract(block, np.where(np.isneginf(statistic), 0, statistic), out=block)
    np.exp(block, out=block)
    return block, block


@dataclass
class ItemGradients:
    """Gradients of some items: of left, right and values, of what score and step 2 learn, of local-p positions."""

    items: slice
    arrays: tuple[Array, ...]
    learned: Named
    normalize: Named
    positions: Array | None


def backward(
    p: Problem, context: Array, statistic: Array, dcontext: Array, threads: int | None = None
) -> tuple[Array, Array, Array | None, Named, Named]:
    """Compute all gradients; that of the bias is added to the bias object, not returned."""
    kernel = Kernel(p)
    keys = p.keys.astype(p.compute, copy=False)
    queries, keys, dcontext_clean = (finite(x) for x in (kernel.queries, keys, dcontext))
    with np.errstate(all="ignore"):
        clean = pairing.make(p, queries, keys)
    of = (clean.queries_by_item, clean.transformed_keys_by_item, kernel.values_by_item)
    sizes = clean.left.shape[-1], clean.right.shape[-1], 0 if p.values_are_constant else p.values.shape[-1]
    totals = [
        np.zeros((where.stored, where.array.shape[-2], size), p.compute)
        for where, size in zip(of, sizes, strict=True)
    ]
    learned: Named = {name: np.zeros_like(value) for name, value in clean.learned.items()}
    dnormalize: Named = {}
    if kernel.near is not None:
        dnormalize["positions"] = np.zeros(kernel.near.shape, p.compute)
    if p.layout.items and p.layout.n and p.layout.m:
        state = Backward(kernel, clean, context, statistic, dcontext, dcontext_clean, (of, totals))
        # Gradients of a bias and of a user-defined score are summed in the order of the tiles.
        serial = p.bias is not None or isinstance(clean, pairing.Function)
        tasks = slices(p.layout.items, state.chunk)
        for part in _map_on_threads(state.chunk_of_items, tasks, 1 if serial else thread_count(p, threads)):
            for total, where, piece in zip(totals, of, part.arrays, strict=True):
                if not where.own:
                    where.add(total, part.items, piece)
            _add(learned, part.learned)
            _add(dnormalize, part.normalize)
            if part.positions is not None:
                dnormalize["positions"][part.items] = part.positions
    elif kernel.of_rows:
        dnormalize = _zero_gradients(p)
    with np.errstate(all="ignore"):
        dqueries, dkeys, named = clean.finish(
            totals[0].reshape(clean.left.shape), totals[1].reshape(clean.right.shape), learned
        )
    dvalues = None if p.values_are_constant else totals[2].reshape(p.values.shape)
    return dqueries, dkeys, dvalues, named, dnormalize


def _add(total: Named, gradients: Named) -> None:
    """Add gradients to those of the same names."""
    for name, gradient in gradients.items():
        total[name] = total[name] + gradient if name in total else gradient


def _zero_gradients(p: Problem) -> Named:
    """Return 0 for each number that a function of complete rows learns, whose names only its pullback knows."""
    row = np.zeros((1, 1, 1), p.compute)
    return {name: np.zeros_like(x) for name, x in pull_back(p.normalize, row, row)[2].items()}


class Backward:
    """The data that all tiles of a backward pass share."""

    def __init__(
        self,
        kernel: Kernel,
        clean: PairScores,
        context: Array,
        statistic: Array,
        dcontext: Array,
        dclean: Array,
        totals: tuple[tuple[DistinctItems, ...], list[Array]],
    ) -> None:
        self.kernel, self.clean, self.context, self.statistic = kernel, clean, context, statistic
        self.dcontext, self.dclean, self.totals = dcontext, dclean, totals
        self.plan = plan_backward(kernel.p, clean)
        p = kernel.p
        size = p.layout.n * clean.left.shape[-1] + p.layout.m * (clean.right.shape[-1] + p.values.shape[-1])
        self.chunk = max(1, min(self.plan.items, 4 * TILE_NUMBERS // max(size, 1)))

    def chunk_of_items(self, items: slice) -> ItemGradients:
        """Compute the gradients of a chunk of items, tile by tile in a fixed order."""
        p, clean = self.kernel.p, self.clean
        count = items.stop - items.start
        learned = {name: np.zeros_like(value) for name, value in clean.learned.items()}
        positions = None if self.kernel.near is None else np.zeros((count, p.layout.n), p.compute)
        arrays = tuple(  # written in place if no array is shared
            total[items] if where.own else np.zeros((count, *total.shape[1:]), p.compute)
            for where, total in zip(*self.totals, strict=True)
        )
        collected = ItemGradients(items, arrays, learned, {}, positions)
        for rows in slices(p.layout.n, self.plan.rows):
            Tile(self, items, rows, collected).run()
        return collected


class Tile:
    """The backward pass of some queries of some items."""

    def __init__(self, shared: Backward, items: slice, rows: slice, collected: ItemGradients) -> None:
        self.shared, self.kernel, self.items, self.rows, self.collected = (
            shared,
            shared.kernel,
            items,
            rows,
            collected,
        )
        self.dleft, self.dright, self.dvalues = collected.arrays
        count = items.stop - items.start
        left = self.kernel.pairs.queries_by_item.block(items, rows)
        self.left = np.broadcast_to(left, (count, *left.shape[1:]))
        left = shared.clean.queries_by_item.block(items, rows)
        self.left_clean = np.ascontiguousarray(np.broadcast_to(left, (count, *left.shape[1:])))
        self.dcontext = shared.dcontext[items, rows]
        self.lanes = -(-self.left.shape[1] // LANES) * LANES
        self.statistic = to_lanes(shared.statistic[items, :, rows].swapaxes(1, 2), self.lanes)
        self.mean: Any = None if self.kernel.of_rows else self._mean()
        self.by_function = self._by_function() if self.kernel.of_rows else None

    def _lane_row(self, rows: Array) -> Array:
        """Copy (items, t) to (items, 1, lanes)."""
        return to_lanes(rows[:, :, None], self.lanes)

    def _mean(self) -> Array:
        """Return the mean of dweights weighted by g (items, 1, lanes)."""
        if not self.kernel.power:
            return self._lane_row(
                einsum("gte,gte->gt", self.dcontext, self.shared.context[self.items, self.rows])
            )
        total: Any = 0
        weight: Any = 0
        for columns in slices(self.kernel.p.layout.m, self.shared.plan.columns):
            block = self.kernel.logits(self.left, self.items, self.rows, columns)
            if block is not None:
                unseen = np.isneginf(block)
                _, g = _weights(self.kernel, block, self.statistic, columns)
                np.copyto(g, 0, where=unseen)
                dweights = self._dweights(columns)
                np.copyto(dweights, 0, where=unseen)
                total = total + (g * dweights).sum(1, keepdims=True)
                weight = weight + g.sum(1, keepdims=True)
        return np.asarray(total / np.where(weight == 0, 1, weight))

    def _by_function(self) -> tuple[Array, Array]:
        """Return weights and gradients of logits (items, keys, lanes) by a function of complete rows."""
        kernel, t = self.kernel, self.left.shape[1]
        logits = np.full((len(self.left), kernel.p.layout.m, self.lanes), -np.inf, kernel.p.compute)
        dweights = np.zeros_like(logits)
        for columns in slices(kernel.p.layout.m, self.shared.plan.columns):
            block = kernel.logits(self.left, self.items, self.rows, columns)
            if block is not None:
                logits[:, columns] = block
                np.copyto(dweights[:, columns], self._dweights(columns), where=~np.isneginf(block))
        for some, z, dz in _complete_rows(t, logits, dweights):
            weights, dlogits, named = pull_back(kernel.p.normalize, z, dz)
            logits[:, :, some], dweights[:, :, some] = weights.swapaxes(1, 2), dlogits.swapaxes(1, 2)
            _add(self.collected.normalize, named)
        return logits, dweights

    def _dweights(self, columns: slice) -> Array:
        """Return values . dcontext (items, keys, lanes)."""
        return self.kernel.pairs.dot(self.dcontext, self.kernel.values(self.items, columns))

    def run(self) -> None:
        """Loop over the blocks of keys."""
        for columns in slices(self.kernel.p.layout.m, self.shared.plan.columns):
            self._block(columns)

    def _block(self, columns: slice) -> None:
        kernel, p, t = self.kernel, self.kernel.p, self.left.shape[1]
        tanh: list[Array] = []
        block = kernel.logits(self.left, self.items, self.rows, columns, tanh)
        if block is None:
            return
        unseen = np.isneginf(block) if kernel.hides(self.rows, self.lanes) else None
        weights, dlogits = self._step_two(block, columns, unseen)
        if not p.values_are_constant:
            self._collect_values(columns, weights, unseen)
        if unseen is not None:
            np.copyto(dlogits, 0, where=unseen)
        if p.bias is not None:
            p.bias.add_gradient(self.items, self.rows, columns, dlogits[:, :, :t].swapaxes(1, 2))
        if tanh:
            dlogits *= 1 - tanh[0] * tanh[0]
            if unseen is not None:
                np.copyto(dlogits, 0, where=unseen)
        dlogits *= p.compute.type(p.scale)
        right = self.shared.clean.transformed_keys_by_item.block(self.items, columns)
        dleft, dright = self.shared.clean.backward(self.left_clean, right, dlogits, self.collected.learned)
        self.dleft[:, self.rows] += dleft
        if self.rows.start == 0:  # the first tile: the gradient is still 0
            self.dright[:, columns] = dright
        else:
            self.dright[:, columns] += dright

    def _step_two(self, block: Array, columns: slice, unseen: Array | None) -> tuple[Array, Array]:
        """Return weights of a block and gradients of its logits."""
        if self.by_function is not None:
            weights, dlogits = self.by_function
            return weights[:, columns], dlogits[:, columns].copy()
        weights, g = _weights(self.kernel, block, self.statistic, columns)
        dweights = self._dweights(columns)
        if self.kernel.near is not None:
            weights, dweights = self._local_p(columns, weights, dweights, unseen)
        return weights, g * (dweights - self.mean)

    def _collect_values(self, columns: slice, weights: Array, unseen: Array | None) -> None:
        """Add the product of weights and dcontext to the gradient of the values."""
        t = self.left.shape[1]
        clean = self.shared.dclean[self.items, self.rows]
        if self.shared.dclean is not self.shared.dcontext:  # non-finite rows give NaN at visible values
            lost = self._lane_row(np.asarray((~np.isfinite(self.dcontext)).any(-1)))
            weights = np.where(lost, np.nan, weights)
        weights = np.ascontiguousarray(weights[:, :, :t])
        if unseen is not None:
            np.copyto(weights, 0, where=unseen[:, :, :t])
        product = np.multiply if t == 1 else np.matmul  # an outer product needs no BLAS
        if self.rows.start == 0:
            product(weights, clean, out=self.dvalues[:, columns])
        else:
            self.dvalues[:, columns] += product(weights, clean)

    def _local_p(
        self, columns: slice, weights: Array, dweights: Array, unseen: Array | None
    ) -> tuple[Array, Array]:
        """Apply the Gaussian factor, and accumulate the gradient of its position."""
        assert isinstance(self.kernel.p.normalize, local_p)
        assert self.collected.positions is not None
        t, width = self.left.shape[1], self.kernel.p.normalize.width
        gauss = self.kernel.gauss(self.items, self.rows, columns, self.lanes)
        weights = weights * gauss
        slope = self.kernel._distance(self.items, self.rows, columns).swapaxes(1, 2) * (4 / width**2)
        slope = slope.astype(weights.dtype, copy=False)
        part = (weights * dweights)[:, :, :t]
        part = part if unseen is None else np.where(unseen[:, :, :t], 0, part)
        self.collected.positions[:, self.rows] += (part * slope).sum(1)
        return weights, dweights * gauss
