"""Scores of blocks of pairs, forward and backward.

A block of logits has the layout (items, keys, lanes): each query is a *lane*, in groups of 16. Every matrix product
is computed for 16 lanes at a time with the lanes as columns, so that the result of a query does not depend on the other
queries, not even by rounding: BLAS may sum the 3rd row of a matrix in another order than the 60th, but all 16 columns
in the same order. That makes results bitwise equal for any slice of the queries (law 5). Other sums run over arrays in
C order for the same reason. The products are also small enough (`PRODUCT_WORK`) that OpenBLAS never splits them over
threads of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard import _check, scores
from regard._einsum import einsum
from regard._layout import DistinctItems
from regard._once import computed_once
from regard._problem import Problem

__all__: list[str] = []

Array = NDArray[Any]
Named = dict[str, Array]

# Transforms keys (..., keys, d), in the dtype of the computation, at the positions of a slice.
Transform = Callable[[Array, slice], Array]

P = TypeVar("P", bound="PairScores")

LANES = 16
PRODUCT_WORK = 1 << 18  # multiplications up to which OpenBLAS stays on one thread
CHECKED_NUMBERS = 1 << 16  # elements that are checked at a time


def lanes_of(x: Array) -> Array:
    """Copy rows (items, t, c) into groups of lanes (items, groups, c, 16), the last one padded with zeros."""
    items, t, c = x.shape
    full = t // LANES
    lanes = np.zeros((items, -(-t // LANES), c, LANES), x.dtype)
    lanes[:, :full] = x[:, : full * LANES].reshape(items, full, LANES, c).swapaxes(2, 3)
    if t % LANES:
        lanes[:, full, :, : t % LANES] = x[:, full * LANES :].swapaxes(1, 2)
    return lanes


def to_lanes(rows: Array, lanes: int = 0) -> Array:
    """Copy (items, t, keys) to (items, keys, lanes), the last lanes padded with zeros."""
    items, t, keys = rows.shape
    block = np.zeros((items, keys, lanes or -(-t // LANES) * LANES), rows.dtype)
    block[:, :, :t] = rows.swapaxes(1, 2)
    return block


def rows_of(lanes: Array, t: int) -> Array:
    """Return groups of lanes (items, groups, c, 16) as rows (items, t, c)."""
    items, groups, c, _ = lanes.shape
    return lanes.swapaxes(2, 3).reshape(items, groups * LANES, c)[:, :t]


def grouped(block: Array) -> Array:
    """View (items, keys, lanes) as (items, groups, keys, 16)."""
    items, keys, lanes = block.shape
    return block.reshape(items, keys, lanes // LANES, LANES).swapaxes(1, 2)


def all_finite(x: Array) -> bool:
    """Return whether all elements are finite, quickly if their sum is."""
    if x.dtype.kind in "biu" or not x.size:
        return True
    with np.errstate(all="ignore"):
        if np.isfinite(x.sum(dtype=np.float32 if x.itemsize == 2 else None)):
            return True
        parts = np.nditer(x, ["external_loop", "buffered"], buffersize=CHECKED_NUMBERS)
        return all(bool(np.isfinite(part).all()) for part in parts)


def finite(x: Array) -> Array:
    """Return x with 0 for non-finite elements; where these are visible, the weights are NaN."""
    return x if all_finite(x) else np.where(np.isfinite(x), x, 0)


def project(x: Array, weight: Array) -> Array:
    """Return x @ weight such that no row's bits depend on other rows."""
    rows = x.reshape(1, math.prod(x.shape[:-1]), x.shape[-1])
    lanes = np.ascontiguousarray(weight.T) @ lanes_of(rows)
    return np.ascontiguousarray(rows_of(lanes, rows.shape[1])).reshape(*x.shape[:-1], weight.shape[1])


def _flat(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(math.prod(x.shape[:-1]), x.shape[-1])


def contiguous(block: Array) -> Array:
    """Return a block whose matrices BLAS can read in place, as a copy if necessary."""
    item = block.itemsize
    if block.strides[-1] == item and block.strides[-2] == item * block.shape[-1] and block.flags.aligned:
        return block
    return np.ascontiguousarray(block)


@dataclass
class PairScores:
    """Transformed queries and keys, and the function `finish` that maps their gradients to those of the inputs.

    left (..., n, c) are the transformed queries. The keys are those of the caller: `right_block` converts and
    transforms one block, since a copy of all keys could take far more memory than the rest of the computation. `right`
    (..., m, c) is such a copy. `depth` is the number of temporary elements of a block for each pair.
    """

    left: Array
    keys: Array
    queries_by_item: DistinctItems
    keys_by_item: DistinctItems
    finish: Callable[[Array, Array, Named], tuple[Array, Array, Named]]
    depth: int = 1
    learned: Named = field(default_factory=dict)
    transform: Transform | None = None

    def of_keys(self, keys: Array, columns: slice) -> Array:
        """Return these keys, at the positions `columns`, transformed: (..., keys, c)."""
        return keys if self.transform is None else self.transform(keys, columns)

    @computed_once
    def right(self) -> Array:
        """All keys, transformed (..., m, c)."""
        return self.of_keys(self.keys, slice(0, self.keys.shape[-2]))

    @computed_once
    def transformed_keys_by_item(self) -> DistinctItems:
        """All transformed keys by item."""
        right = self.right
        by_item = right.ndim == self.keys.ndim  # a location score has one matrix for all
        batch_shape = self.keys_by_item.batch_shape if by_item else ()
        return DistinctItems(right.reshape(*batch_shape, *right.shape[-2:]), self.keys_by_item.inner)

    def right_block(self, items: slice, columns: slice) -> Array:
        """Return a block of keys, transformed (items or 1, keys, c)."""
        keys = self.keys_by_item.block(items, columns).astype(self.left.dtype, copy=False)
        right = self.of_keys(keys, columns)
        return right if right.ndim == 3 else right[None]

    def block(self, left: Array, right: Array) -> Array:
        """Score rows left (items, t, c) against right (items or 1, keys, c): (items, keys, lanes)."""
        return to_lanes(self.score(left, right))

    def dot(self, rows: Array, right: Array) -> Array:
        """Return the products of rows (items, t, c) with right (items or 1, keys, c): (items, keys, lanes).

        For scores that cost a tanh or more for each pair, this product is cheap, and is computed without lanes.
        """
        return to_lanes(einsum("gtc,gjc->gtj", np.ascontiguousarray(rows), contiguous(right)))

    def score(self, left: Array, right: Array) -> Array:
        """Score rows left (items, t, c) against right (items or 1, keys, c): (items, t, keys)."""
        raise NotImplementedError

    def backward(self, left: Array, right: Array, dblock: Array, total: Named) -> tuple[Array, Array]:
        """Return (dleft (items, t, c), dright (items, keys, c)) for dblock (items, keys, lanes); add to total."""
        dscored = np.ascontiguousarray(dblock[:, :, : left.shape[1]].swapaxes(1, 2))
        return self.pullback(left, right, dscored, total)

    def pullback(self, left: Array, right: Array, dscored: Array, total: Named) -> tuple[Array, Array]:
        """Return (dleft, dright) for dscored (items, t, keys); add the gradients of learned arrays to total."""
        raise NotImplementedError


class Products(PairScores):
    """left . right: every score that is a dot product of transformed queries and keys."""

    def block(self, left: Array, right: Array) -> Array:
        return self.dot(left, right)

    def dot(self, rows: Array, right: Array) -> Array:
        lanes = lanes_of(rows)
        items, groups, _, _ = lanes.shape
        block = np.empty((items, right.shape[1], groups * LANES), rows.dtype)
        np.matmul(contiguous(right)[:, None], lanes, out=grouped(block))
        return block

    def backward(self, left: Array, right: Array, dblock: Array, total: Named) -> tuple[Array, Array]:
        t = left.shape[1]
        dleft = contiguous(right).swapaxes(1, 2)[:, None] @ grouped(dblock)
        return rows_of(dleft, t), dblock[:, :, :t] @ left


class Perceptron(PairScores):
    """vector . tanh(left + right)."""

    def score(self, left: Array, right: Array) -> Array:
        hidden = np.add(left[:, :, None], right[:, None], order="C")  # (items, t, keys, h)
        np.tanh(hidden, out=hidden)
        scored: Array = einsum("gtjh,h->gtj", hidden, self.learned["vector"])
        return scored

    def pullback(self, left: Array, right: Array, dscored: Array, total: Named) -> tuple[Array, Array]:
        hidden = np.add(left[:, :, None], right[:, None], order="C")
        np.tanh(hidden, out=hidden)
        total["vector"] += dscored.reshape(-1) @ _flat(hidden)
        hidden *= hidden
        np.subtract(1, hidden, out=hidden)  # the derivative of tanh
        hidden *= dscored[..., None]
        hidden *= self.learned["vector"]
        return hidden.sum(2), hidden[:, 0] if left.shape[1] == 1 else hidden.sum(1)


class Distances(PairScores):
    """-|left - right|^2 / (2 width^2), from differences, to avoid cancellation."""

    def score(self, left: Array, right: Array) -> Array:
        apart = np.subtract(left[:, :, None], right[:, None], order="C")
        apart /= self.learned["width"]
        scored: Array = -0.5 * einsum("gtjd,gtjd->gtj", apart, apart)
        return scored

    def pullback(self, left: Array, right: Array, dscored: Array, total: Named) -> tuple[Array, Array]:
        width = self.learned["width"]
        apart = np.subtract(left[:, :, None], right[:, None], order="C")
        apart /= width
        squares = einsum("gtjd,gtjd->gtj", apart, apart)
        np.copyto(squares, 0, where=dscored == 0)  # masked keys at infinite distance have no influence
        total["width"] += np.sum(squares * dscored) / width
        dleft = einsum("gtjd,gtj->gtd", apart, dscored) / -width
        dright = einsum("gtjd,gtj->gjd", apart, dscored) / width
        return dleft, dright


class Function(PairScores):
    """A user-defined score function, called on blocks."""

    function: Callable[[Any, Any], Any]

    def score(self, left: Array, right: Array) -> Array:
        scored = _check.numeric("score(queries, keys)", self.function(*_read_only(left, right)))
        shape = (len(left), left.shape[1], right.shape[1])
        _check.broadcast("score(queries, keys)", scored.shape, shape, "(..., n, m)")
        return np.broadcast_to(scored, shape).astype(left.dtype, copy=False)

    def pullback(self, left: Array, right: Array, dscored: Array, total: Named) -> tuple[Array, Array]:
        dleft, dright, learned = _pulled_back(self.function, left, right, dscored)
        for name, gradient in learned.items():
            total[name] = total[name] + gradient if name in total else np.array(gradient)
        return dleft, dright


def _pulled_back(function: Any, left: Array, right: Array, dscored: Array) -> tuple[Array, Array, Named]:
    """Return the gradients of a block by a user-defined score function: dleft, dright and its learned arrays."""
    assert isinstance(function, scores.Differentiable)
    arguments = _read_only(left, right)
    _, pullback = _check.with_pullback("score.vjp(queries, keys)", function.vjp(*arguments))
    gradients = pullback(dscored)
    if not isinstance(gradients, tuple) or len(gradients) not in (2, 3):
        rule = "pullback(dscores) must return (dqueries, dkeys) or (dqueries, dkeys, {name: gradient})."
        _check.fail(rule, kind=TypeError)
    for name, gradient, of in zip(("dqueries", "dkeys"), gradients, arguments, strict=False):
        _check.shape(name, np.shape(gradient), of.shape)
    return np.asarray(gradients[0]), np.asarray(gradients[1]), gradients[2] if len(gradients) == 3 else {}


def _zero_gradients(function: Any, left: Array, right: Array) -> Named:
    """Return 0 for each learned array of a user-defined score function, whose names only its pullback knows."""
    query, key, dscore = (np.zeros((1, 1, size), left.dtype) for size in (left.shape[-1], right.shape[-1], 1))
    learned = _pulled_back(function, query, key, dscore)[2]
    return {name: np.zeros_like(gradient) for name, gradient in learned.items()}


def _read_only(left: Array, right: Array) -> tuple[Array, Array]:
    """Return the arguments of a user-defined function: in C order, with as many items each, read-only (law 8)."""
    right = np.broadcast_to(right, (len(left), *right.shape[1:]))
    views = np.ascontiguousarray(left).view(), np.ascontiguousarray(right).view()
    for view in views:
        view.flags.writeable = False
    return views


def make(p: Problem, queries: Array, keys: Array) -> PairScores:
    """Return the problem's score for computation by blocks; queries are in the compute dtype."""
    if not scores.is_builtin(p.score):
        return _function(p, queries, keys)
    return _of_score(p.score, p, queries, keys)


@singledispatch
def _of_score(score: scores.Score, p: Problem, queries: Array, keys: Array) -> PairScores:
    """Return the pairs of a score of `regard.scores`, of which each class has a function of its own below."""
    _check.fail(f"no kernel computes the score {type(score).__name__}", kind=NotImplementedError)


def _learned(p: Problem, score: scores.Score) -> Named:
    return {name: value.astype(p.compute, copy=False) for name, value in score.parameters().items()}


def _function(p: Problem, queries: Array, keys: Array) -> Function:
    def finish(dleft: Array, dright: Array, total: Named) -> tuple[Array, Array, Named]:
        return dleft, dright, total or _zero_gradients(p.score, queries, keys)  # where no pair is visible

    pairs = _pairs(Function, p, queries, keys, finish)
    pairs.function, pairs.depth = p.score, max(queries.shape[-1], keys.shape[-1], 1)
    return pairs


def _pairs(kind: type[P], p: Problem, left: Array, keys: Array, finish: Any) -> P:
    inner = p.layout.inner
    return kind(
        left,
        keys,
        DistinctItems(p.layout.per_query_head(left, 2), inner),
        DistinctItems(p.layout.per_key_head(keys), inner),
        finish,
    )


@_of_score.register
def _dot(score: scores.dot, p: Problem, queries: Array, keys: Array) -> PairScores:
    return _pairs(Products, p, queries, keys, lambda dleft, dright, total: (dleft, dright, {}))


@_of_score.register
def _gaussian(score: scores.gaussian, p: Problem, queries: Array, keys: Array) -> PairScores:
    pairs = _pairs(Distances, p, queries, keys, lambda dleft, dright, total: (dleft, dright, total))
    pairs.depth, pairs.learned = max(queries.shape[-1], 1), _learned(p, score)
    return pairs


@_of_score.register
def _general(score: scores.general, p: Problem, queries: Array, keys: Array) -> PairScores:
    weight = _learned(p, score)["weight"]

    def finish(dleft: Array, dright: Array, total: Named) -> tuple[Array, Array, Named]:
        return project(dleft, weight.T), dright, {"weight": _flat(queries).T @ _flat(dleft)}

    return _pairs(Products, p, project(queries, weight), keys, finish)


@_of_score.register
def _location(score: scores.location, p: Problem, queries: Array, keys: Array) -> PairScores:
    weight = score.parameters()["weight"]  # converted by blocks

    def finish(dleft: Array, dright: Array, total: Named) -> tuple[Array, Array, Named]:
        dweight = np.zeros(weight.shape, dright.dtype)
        dweight[:, : len(dright)] = dright.T
        return dleft, np.zeros_like(keys), {"weight": dweight}

    pairs = _pairs(Products, p, queries, keys, finish)
    pairs.transform = lambda _, columns: np.ascontiguousarray(weight[:, columns].T, p.compute)
    return pairs


def _unit(x: Array) -> tuple[Array, Array]:
    """Return vectors of length 1 and their lengths; a zero vector is kept, with length 1."""
    x = np.ascontiguousarray(x)  # sums must not depend on the strides
    largest = np.abs(x).max(-1, keepdims=True, initial=0)
    largest[largest == 0] = 1
    x = x / largest  # no square over- or underflows
    length = np.sqrt(einsum("...d,...d->...", x, x))[..., None]
    length[length == 0] = 1
    return x / length, length * largest


@_of_score.register
def _cosine(score: scores.cosine, p: Problem, queries: Array, keys: Array) -> PairScores:
    sharpness, (left, left_length) = _learned(p, score)["sharpness"], _unit(queries)

    def finish(dleft: Array, dright: Array, total: Named) -> tuple[Array, Array, Named]:
        right, right_length = _unit(keys)
        dsharp = einsum("...d,...d->...", dleft, left)
        dleft = dleft * sharpness[..., None]
        return (
            _unit_pullback(dleft, left, left_length),
            _unit_pullback(dright, right, right_length),
            {"sharpness": sum_to(dsharp, sharpness.shape)},
        )

    pairs = _pairs(Products, p, left * sharpness[..., None], keys, finish)
    pairs.transform = lambda keys, _: _unit(keys)[0]
    return pairs


def _unit_pullback(dunit: Array, unit: Array, length: Array) -> Array:
    """Return the gradient of x from that of x / |x|."""
    along = einsum("...d,...d->...", dunit, unit)[..., None]
    dx: Array = (dunit - along * unit) / length
    return dx


def sum_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the dimensions along which its array was broadcast."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(i for i, size in enumerate(shape) if size == 1 and gradient.shape[i] != 1)
    return np.asarray(gradient.sum(axis=stretched, keepdims=True)).reshape(shape)


@_of_score.register
def _concat(score: scores.concat, p: Problem, queries: Array, keys: Array) -> PairScores:
    pairs = _additive(score.split(queries.shape[-1]), p, queries, keys)
    finish = pairs.finish

    def stacked(dleft: Array, dright: Array, total: Named) -> tuple[Array, Array, Named]:
        dqueries, dkeys, named = finish(dleft, dright, total)
        weight = np.concatenate([named["query_weight"], named["key_weight"]])
        return dqueries, dkeys, {"vector": named["vector"], "weight": weight}

    pairs.finish = stacked
    return pairs


@_of_score.register
def _additive(score: scores.additive, p: Problem, queries: Array, keys: Array) -> PairScores:
    learned = _learned(p, score)
    query_weight, key_weight, bias = (learned.get(name) for name in ("query_weight", "key_weight", "bias"))
    left = queries if query_weight is None else project(queries, query_weight)

    def transform(keys: Array, columns: slice) -> Array:
        right = keys if key_weight is None else project(keys, key_weight)
        return right if bias is None else right + bias

    def finish(dleft: Array, dright: Array, total: Named) -> tuple[Array, Array, Named]:
        named = dict(total)
        if bias is not None:
            named["bias"] = _flat(dright).sum(0)
        if query_weight is not None:
            named["query_weight"] = _flat(queries).T @ _flat(dleft)
            dleft = project(dleft, query_weight.T)
        if key_weight is not None:
            named["key_weight"] = _flat(keys).T @ _flat(dright)
            dright = project(dright, key_weight.T)
        return dleft, dright, named

    pairs = _pairs(Perceptron, p, left, keys, finish)
    if key_weight is not None or bias is not None:
        pairs.transform = transform
    pairs.learned = {"vector": learned["vector"]}
    pairs.depth = max(len(learned["vector"]), 1)
    return pairs
