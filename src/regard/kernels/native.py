"""The native kernel, forward and backward: the algorithm of the NumPy kernel with SIMD instructions.

The library's C++ is in `source/attention.cpp`. It does not support (`refusal`) `normalize` other than
softmax, nor user-defined score functions, masks and biases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check, scores
from regard._layout import DistinctItems
from regard._problem import Problem
from regard.kernels import pairs as pairing
from regard.kernels.library import Int, aligned, interface, number, padded
from regard.kernels.pairs import Named, finite
from regard.kernels.problem import Addresses, Call, Pieces, call, run
from regard.mask import MaskStep
from regard.position import ArrayBias, DistanceBias
from regard.weights import Normalizer, is_softmax, local_p

__all__: list[str] = []

Array = NDArray[Any]

UNIT = math.log(2)  # of the logarithms in a statistic
LOG2E = math.log2(math.e)
QUERY_PARTS = 4  # into which many queries are split, so that threads can share one head
MANY_QUERIES = 128  # queries


def refusal(p: Problem) -> str:
    """Return why the native kernel does not support this attention, or an empty string."""
    if not scores.is_builtin(p.score):
        return "a score function of the user's"
    if p.score.code not in interface().numbers:
        return f"the score {type(p.score).__name__}, which the library lacks"
    if not is_softmax(p.normalize):
        known = isinstance(p.normalize, str | Normalizer | local_p)
        return f"normalize={p.normalize!r}" if known else "a normalisation of the user's"
    if (steps := p.steps) is None:
        return "a mask class of the user's"
    for step in steps:
        if step.code not in interface().numbers:
            return f"the mask step {step.code}, which the library lacks"
    if _depth(steps) > (most := number("STACK_DEPTH")):
        return f"masks nested more than {most} deep"
    if not isinstance(p.bias, ArrayBias | DistanceBias | None):
        return "a bias class of the user's"
    if isinstance(p.bias, ArrayBias) and not _check.is_float(p.bias.items.array.dtype):
        return "a bias of integers for all pairs"  # a copy of them as floats would be as large as all logits
    if not _is_representable(p):
        return "a scale or softcap so near the largest number"
    return ""


def _is_representable(p: Problem) -> bool:
    """Return whether the dtype can represent the library's factors: it counts logits in base 2."""
    _, most = _check.normal_range(p.compute)
    if p.softcap is None:
        return abs(p.scale) * LOG2E <= most
    return abs(p.scale) / p.softcap <= most and p.softcap * LOG2E <= most


def _depth(steps: list[MaskStep]) -> int:
    """Return the largest number of masks on the stack."""
    depth = deepest = 0
    for step in steps:
        depth += step.pushes
        deepest = max(deepest, depth)
    return deepest


def forward(p: Problem, threads: int | None = None) -> tuple[Array, Array]:
    """Compute the context (items, n, e) and the statistic (items, 2, n).

    The statistic has two numbers for each row, both in base 2: the logit that is subtracted from all logits, and the
    logarithm of the sum of exponentials.
    """
    shape = (p.layout.items, p.layout.n, p.values.shape[-1])
    statistic = np.empty((p.layout.items, 2, p.layout.n), p.compute)
    if not statistic.size or not p.layout.m:
        statistic.fill(-np.inf)
        return np.zeros(shape, p.compute), statistic
    context, prepared = np.empty(shape, p.compute), call(p)
    prepared.c.context, prepared.c.statistic = prepared.pointer(context), prepared.pointer(statistic)
    pieces = Pieces(prepared)
    if not pieces.needed:
        prepared.complete().run(False, threads)
        return context, statistic
    prepared.c.taints = prepared.pointer(np.zeros(shape, np.uint8))
    for c in pieces:
        run(c, p, False, threads)
    return context, statistic


def lse(statistic: Array) -> Array:
    """Return the log-sum-exp of each row (items, n)."""
    summed: Array = statistic.sum(1, dtype=np.float64) * UNIT
    return summed.astype(statistic.dtype)


def backward(
    p: Problem, context: Array, statistic: Array, dcontext: Array, threads: int | None = None
) -> tuple[Array, Array, Array | None, Named, Named]:
    """Compute all gradients; that of the bias is added to the bias object, not returned."""
    # Visible non-finite numbers have already made the weights NaN; masked ones must have no influence.
    queries, keys = (finite(x.astype(p.compute, copy=False)) for x in (p.queries, p.keys))
    pairs = pairing.make(p, queries, keys)
    if p.layout.items and p.layout.n and p.layout.m:
        dleft, dright, dvalues, learned = _run_backward(
            call(p).complete(), context, statistic, dcontext, threads
        )
    else:
        dleft, dright, dvalues = (np.zeros(x.shape, p.compute) for x in (pairs.left, pairs.right, p.values))
        learned = {name: np.zeros_like(x) for name, x in pairs.learned.items()}
    dqueries, dkeys, named = pairs.finish(dleft, dright, learned)
    return dqueries, dkeys, None if p.values_are_constant else dvalues.reshape(p.values.shape), named, {}


def _run_backward(
    prepared: Call, context: Array, statistic: Array, dcontext: Array, threads: int | None
) -> tuple[Array, Array, Array, Named]:
    p, c, pairs = prepared.p, prepared.c, prepared.pairs
    c.context, c.statistic = prepared.pointer(context), prepared.pointer(statistic)
    c.dcontext = prepared.matrices(DistinctItems(aligned(dcontext), (p.layout.items,)))
    c.parts = (
        QUERY_PARTS if p.layout.n >= MANY_QUERIES else 1
    )  # of n only: the order of sums must not depend on the batch
    collect_bias = _bias_gradient(prepared)
    c.merges_parts = int(not c.tasks_span_groups and c.groups >= QUERY_PARTS)
    cut = (c.groups, 1 if c.merges_parts else c.parts)
    dleft = np.zeros((p.layout.items, p.layout.n, c.d), p.compute)
    sizes = c.d, 0 if p.values_are_constant else c.e
    dright, dvalues = (np.zeros((*cut, p.layout.m, padded(size)), p.compute) for size in sizes)
    dlearned = np.zeros((c.groups, c.parts, padded(c.d) if "vector" in pairs.learned else 1), p.compute)
    c.dqueries, c.dkeys, c.dvalues, c.dparameters = (
        prepared.pointer(x) for x in (dleft, dright, dvalues, dlearned)
    )
    if p.values_are_constant:
        c.dvalues = None
    prepared.run(True, threads)
    collect_bias()
    starts, every = _starts(c), np.arange(p.layout.items)
    of_learned = {name: dlearned.sum((0, 1))[: x.size].reshape(x.shape) for name, x in pairs.learned.items()}
    return (
        _sum_to_stored(dleft, pairs.queries_by_item, every).reshape(pairs.left.shape),
        _sum_to_stored(_sum_parts(dright, c.d), pairs.transformed_keys_by_item, starts).reshape(
            pairs.right.shape
        ),
        _sum_to_stored(_sum_parts(dvalues, c.e), prepared.values, starts),
        of_learned,
    )


def _sum_parts(parts: Array, columns: int) -> Array:
    """Return the sum of all parts without the rows' padding."""
    total = parts[:, 0] if parts.shape[1] == 1 else parts.sum(1)
    return total[..., :columns]


def _sum_to_stored(gradient: Array, x: DistinctItems, items: Addresses) -> Array:
    """Return the gradient of the stored arrays (stored, a, b) from those of these items."""
    if x.own and len(items) == x.stored:
        return gradient
    source = x.source[items]
    if len(source) == x.stored and (source == np.arange(x.stored)).all():
        return gradient
    total = np.zeros((x.stored, *gradient.shape[1:]), gradient.dtype)
    x.add(total, items, gradient)
    return total


def _bias_gradient(prepared: Call) -> Callable[[], None]:
    """Set the address of the bias's gradient; return a function to be called after the run."""
    p, c, bias = prepared.p, prepared.c, prepared.p.bias
    items, n, m = p.layout.items, p.layout.n, p.layout.m
    if isinstance(bias, DistanceBias):
        table = np.zeros((items, c.parts, n + m - 1), p.compute)
        _address_bias(prepared, table)
        return lambda: bias.add_gradient_by_distance(n, m, table.sum(1))
    if not isinstance(bias, ArrayBias):
        return lambda: None
    total = bias.total_gradient()
    c.dbias_column = 0 if bias.once[1] else total.itemsize
    if bias.once[0]:  # all queries add to one row: a row for each part, added up afterwards
        rows = np.zeros((items, c.parts, total.shape[-1]), p.compute)
        _address_bias(prepared, rows)
        return lambda: bias.items.add(total[:, 0], slice(None), rows.sum(1))
    source = bias.items.source
    groups = np.searchsorted(_starts(c), np.arange(items), "right")
    if len(np.unique(source)) < len(np.unique(np.stack([source, groups]), axis=1).T):
        c.tasks_span_groups = 1  # threads share by queries, whose rows are their own
    starts = prepared.pointer(total) + np.repeat(source, c.parts) * total.strides[0]
    c.dbias, c.dbias_row = prepared.pointer(starts.astype(np.int64)), total.strides[1]
    return lambda: None


def _starts(c: Any) -> Addresses:
    """Return the first item of each group."""
    if not c.group:
        return np.arange(c.groups)
    return np.frombuffer((Int * c.groups).from_address(c.group), np.int64)


def _address_bias(prepared: Call, rows: Array) -> None:
    """Set the address of a row for each item and part."""
    count = rows.shape[0] * rows.shape[1]
    starts = prepared.pointer(rows) + np.arange(count, dtype=np.int64) * rows.strides[1]
    prepared.c.dbias = prepared.pointer(starts)
