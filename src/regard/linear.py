"""Linear attention: a memory of fixed size, a matrix that every position writes to and reads from.

With the state S (d, e), the factors ``a = exp(decay)`` of its rows and the rate ``b = beta``, the rules are ::

    linear       S = S + k v                      Katharopoulos et al. 2020
    gated        S = a S + k v                    Yang et al. 2024, "Gated Linear Attention"
    delta        S = S + b k (v - k S)            Schlag, Irie and Schmidhuber 2021
    gated_delta  S = a S + b k (v - k (a S))      Yang, Kautz and Hatamizadeh 2024, "Gated Delta Networks"

and then the context is ``scale * q S``. Chunks of positions are computed by matrix products; again position by position
if a result is not finite, so that a NaN or an infinity reaches what it would reach in a loop, and no context before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import Layout, layout, slices
from regard.kernels.pairs import sum_to
from regard.scores import _unit

__all__ = ["attention", "attention_vjp"]

Array = NDArray[Any]
Pullback: TypeAlias = Callable[[Array], Any]
Feature: TypeAlias = str | Callable[[Array], tuple[Array, Pullback]]

RULES = ("linear", "gated", "delta", "gated_delta")
INPUTS = ("queries", "keys", "values")
OPTIONS = {"decay": "(..., n, d)", "beta": "(..., n)", "state": "(..., d, e)"}
MOST_WITH_ROWS = 8  # positions of a chunk, if each row of the state has a factor


@_check.hinted
def attention(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    /,
    *,
    rule: str = "linear",
    decay: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    feature: Feature | None = None,
    scale: float | None = None,
    state: ArrayLike | None = None,
    chunk: int = 64,
) -> tuple[Array, Array]:
    """Write each key and value to a matrix, the state, which the query of the same position reads.

    Parameters
    ----------
    queries, keys, values : array (..., n, d), (..., n, d) and (..., n, e)
        With fewer key heads, query head i reads the state of key head i // group. Keys of length 1 or less keep the
        state of a delta rule bounded.
    rule : {"linear", "gated", "delta", "gated_delta"}
        How a position changes the state.
    decay : array broadcasting to (..., n, d), optional
        For the gated rules: logarithms, at most 0, of the factors of the state's rows; (..., n, 1) is one for all, and
        much faster. -inf forgets a row, even a NaN in it, as at the beginning of a document.
    beta : array broadcasting to (..., n), optional
        For the delta rules: rates, from 0, no change, to 1, after which a key of length 1 reads its new value.
    feature : "elu", "unit" or function, optional
        Map of queries and keys, ``elu(x) + 1`` or ``x / |x|``, or a function of x (..., n, d) that returns
        y (..., n, d') and its pullback, as `regard.nn.relu` does.
    scale : float, optional
        Factor of the context; by default 1 / sqrt(d), of the mapped queries.
    state : array broadcasting to (..., d, e), optional
        State before the first position, 0 by default; its leading dimensions are those of keys and values.
    chunk : int
        Number of positions that are computed at once; it changes rounding only.

    Returns
    -------
    context : array (..., n, e)
        In the dtype in which `regard.attention` returns it.
    state : array (..., d, e)
        State after the last position, with which another call continues; float32 for half precision.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, before any computation.

    References
    ----------
    Katharopoulos et al. 2020, "Transformers are RNNs" (with ones as a further column of the values, the last column of
    the context is their denominator); Schlag, Irie and Schmidhuber 2021, "Linear Transformers Are Secretly Fast Weight
    Programmers"; Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence Length".

    Examples
    --------
    >>> from regard import linear
    >>> keys, values = [[1, 0], [0, 1], [1, 0]], [[5.0], [6.0], [7.0]]      # the third key is the first
    >>> linear.attention(keys, keys, values, scale=1)[0].ravel()            # adds to its value
    array([ 5.,  6., 12.])
    >>> context, state = linear.attention(keys, keys, values, rule="delta", beta=1, scale=1)
    >>> context.ravel()                                                     # replaces it
    array([5., 6., 7.])
    >>> linear.attention([[1, 1]], [[0, 0]], [[0]], state=state, scale=1)[0]
    array([[13.]])
    """
    options = {"decay": decay, "beta": beta, "state": state}
    s = _prepared((queries, keys, values), rule, options, feature, scale, chunk)
    return _forward(s, s.chunk)


@_check.hinted
def attention_vjp(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    /,
    *,
    rule: str = "linear",
    decay: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    feature: Feature | None = None,
    scale: float | None = None,
    state: ArrayLike | None = None,
    chunk: int = 64,
) -> tuple[tuple[Array, Array], Callable[..., dict[str, Array]]]:
    """Compute context and state, and the pullback, which maps their gradients to those of the arguments.

    Parameters
    ----------
    queries, keys, values, rule, decay, beta, feature, scale, state, chunk
        As for `attention`, which raises the same errors.

    Returns
    -------
    results : tuple of array
        Context and state, as from `attention`.
    pullback : function
        ``pullback(dcontext (..., n, e), dstate (..., d, e) = None)`` returns a dict, from the name of each array
        argument to its gradient.

    Examples
    --------
    >>> from regard import linear
    >>> _, pullback = linear.attention_vjp([[2.0]], [[3.0]], [[5.0]])
    >>> pullback([[1.0]])["keys"], pullback([[1.0]], dstate=[[1.0]])["keys"]
    (array([[10.]]), array([[15.]]))
    """
    options = {"decay": decay, "beta": beta, "state": state}
    s = _prepared((queries, keys, values), rule, options, feature, scale, chunk)
    results = _forward(s, s.chunk)

    def pullback(dcontext: ArrayLike, dstate: ArrayLike | None = None) -> dict[str, Array]:
        last = np.zeros_like(results[1]) if dstate is None else _check.numeric("dstate", dstate)
        gradient = _check.numeric("dcontext", dcontext)
        _check.shape("dcontext", gradient.shape, results[0].shape, "(..., n, e)")
        _check.shape("dstate", last.shape, results[1].shape, "(..., d, e)")
        return _backward(s, s.chunk, gradient, last)

    return results, pullback


@dataclass(frozen=True, eq=False)
class _Sequence:
    """A checked call."""

    arguments: dict[str, Array]
    matrices: dict[str, Array]  # (..., n, size), the state (..., d, e); the heads of the queries are split
    of_mapped: dict[str, Pullback]  # gradients of queries and keys before the feature map
    layout: Layout
    lead: tuple[int, ...]  # of the state, before the split
    chunk: int
    result: np.dtype[Any]

    def positions(self, part: slice, state: Array) -> _Chunk:
        """Return some positions, after this state."""
        return _Chunk(state, {name: x[..., part, :] for name, x in self.matrices.items()})


def _prepared(
    inputs: tuple[Any, ...], rule: str, options: dict[str, Any], feature: Any, scale: float | None, chunk: int
) -> _Sequence:
    """Check all arguments, apply the feature map, and broadcast."""
    arrays = dict(zip(INPUTS, _check.three(*inputs), strict=True))
    (n, d), (m, key_size), (_, e) = (x.shape[-2:] for x in arrays.values())
    if (n, d) != (m, key_size):
        _check.fail(f"queries and keys must share n and d: {(n, d)} and {(m, key_size)}", arrays)
    where, (compute, result) = layout(*arrays.values()), _check.dtypes(*arrays.values())
    options, chunk = _options(rule, options), _check.integer("chunk", chunk, least=1)
    if scale is not None:
        scale = _check.representable("scale", _check.number("scale", scale), compute)
    (q, of_q), (k, of_k) = (_mapped(x, _check.rounded(arrays[x], compute), feature) for x in INPUTS[:2])
    d, lead = k.shape[-1], np.broadcast_shapes(*(arrays[x].shape[:-2] for x in INPUTS[1:]))
    targets = {"decay": (n, d), "beta": (n,), "state": (d, e)}
    with _check.naming_shapes(arrays):
        for name, x in options.items():
            _check.broadcast(name, x.shape, (*lead, *targets[name]), OPTIONS[name])
    factor = compute.type((d**-0.5 if d else 1.0) if scale is None else scale)
    full = {"decay": np.zeros(1), "state": np.zeros(1), **options, "keys": k, "values": arrays["values"]}
    for name, x in full.items():
        x = x[..., None] if name == "beta" else x
        shape = (d, e) if name == "state" else (n, (1, *x.shape)[-1])
        full[name] = where.per_key_head(np.broadcast_to(_check.rounded(x, compute), (*lead, *shape)))
    if full["decay"].shape[-1] > 1:  # its factors are c^2 d numbers
        chunk = min(chunk, MOST_WITH_ROWS)
    matrices = {"queries": where.per_query_head(q, 2) * factor, **full}
    of_mapped = {"queries": lambda dy: of_q(dy * factor), "keys": of_k}
    return _Sequence(arrays | options, matrices, of_mapped, where, lead, chunk, result)


def _options(rule: str, options: dict[str, Any]) -> dict[str, Array]:
    """Return the options that are not None as arrays; a rule needs those that it uses, and takes no other."""
    _check.choice("rule", rule, RULES)
    for name, kind in (("decay", "gated"), ("beta", "delta")):
        if (kind in rule) != (options[name] is not None):
            rules = " and ".join(repr(other) for other in RULES if kind in other)
            verb = "needs" if kind in rule else "takes no"
            _check.fail(f"rule {rule!r} {verb} {name}=.", hint=f"the rules with {name}= are {rules}")
    arrays = {name: _check.numeric(name, x) for name, x in options.items() if x is not None}
    if "decay" in arrays and (arrays["decay"] > 0).any():
        hint = "it is the logarithm of a factor: np.log(factor)"
        _check.fail(f"decay must be at most 0. Got {np.nanmax(arrays['decay'])} instead.", hint=hint)
    return arrays


@np.errstate(all="ignore")
def _mapped(name: str, x: Array, feature: Any) -> tuple[Array, Pullback]:
    """Apply the feature map to queries or keys."""
    if feature is None:
        return x, lambda dy: (dy,)
    if not callable(feature):
        return _named_map(_check.choice("feature", feature, ("elu", "unit")), x)
    y, pullback = _check.with_pullback(f"feature({name})", feature(x))
    array = _check.numeric(f"feature({name})", y)
    _check.shape(f"feature({name})", array.shape, (*x.shape[:-1], *array.shape[-1:]), "(..., n, d')")
    return _check.rounded(array, x.dtype), pullback


def _named_map(name: str, x: Array) -> tuple[Array, Pullback]:
    if name == "elu":
        y = np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
        return y, lambda dy: (np.where(x > 0, dy, y * dy),)
    unit = _unit(x)
    length = np.sum(x * unit, -1, keepdims=True)
    length = np.where(length == 0, np.inf, length)  # the gradient of a zero vector is 0
    return unit, lambda dy: ((dy - unit * np.sum(unit * dy, -1, keepdims=True)) / length,)


@np.errstate(all="ignore")  # NaN and inf propagate without a warning
def _forward(s: _Sequence, size: int, states: list[Array] | None = None) -> tuple[Array, Array]:
    """Return context and last state, computed by chunks of this size; append the state before each to `states`."""
    state = s.matrices["state"]
    context = np.empty((*s.layout.inner, s.layout.n, state.shape[-1]), state.dtype)
    for part in slices(s.layout.n, size):
        if states is not None:
            states.append(state)
        positions = s.positions(part, state)
        context[..., part, :], state = positions.context, positions.after
    if size > 1 and not (np.isfinite(context).all() and np.isfinite(state).all()):
        return _forward(s, 1)
    context = context.reshape(*s.layout.batch_shape, *context.shape[-2:])
    return _check.rounded(context, s.result), np.array(state).reshape(*s.lead, *state.shape[-2:])


@np.errstate(all="ignore")
def _backward(s: _Sequence, size: int, dcontext: Array, dstate: Array) -> dict[str, Array]:
    """Return the gradients of all arguments."""
    states: list[Array] = []
    _forward(s, size, states)
    totals = {name: np.zeros_like(x) for name, x in s.matrices.items()}
    gradient = dcontext.reshape(*s.layout.inner, *dcontext.shape[-2:]).astype(s.matrices["state"].dtype)
    totals["state"][...] = dstate.reshape(totals["state"].shape)
    for part, state in zip(slices(s.layout.n, size)[::-1], states[::-1], strict=True):
        parts = s.positions(part, state).pullback(gradient[..., part, :], totals["state"])
        totals["state"] = parts.pop("state")
        for name, x in parts.items():
            totals[name][..., part, :] = x
    if size > 1 and not all(np.isfinite(total).all() for total in totals.values()):
        return _backward(s, 1, dcontext, dstate)
    return {name: _returned(s, name, totals[name]) for name in s.arguments}


def _returned(s: _Sequence, name: str, total: Array) -> Array:
    """Return a gradient in the shape and dtype of its argument."""
    argument = s.arguments[name]
    lead = argument.shape[:-2] if name == "queries" else s.lead
    total = total.reshape(*lead, *total.shape[-2 : -1 if name == "beta" else None])
    if name in s.of_mapped:
        mapped = sum_to(total, (*argument.shape[:-1], total.shape[-1]))
        total = _check.numeric(f"the gradient of {name}", s.of_mapped[name](mapped)[0])
        _check.shape(f"the gradient of {name}", total.shape, argument.shape)
    dtype = argument.dtype if _check.is_float(argument.dtype) else total.dtype
    return _check.rounded(sum_to(total, argument.shape), dtype.newbyteorder("="))


class _Chunk:
    """The contexts of c positions and the state after them, from the state before, which is position 0 of `factors`.

    Position i writes v_i or, by a delta rule, ``beta_i (v_i - what k_i reads)``: the solution of a triangular system,
    as k_i reads the state and what the positions before i have written.
    """

    def __init__(self, before: Array, rows: dict[str, Array]) -> None:
        self.queries, self.keys, self.beta = rows["queries"], rows["keys"], rows.get("beta")
        self.factors = factors = _factors(rows["decay"])
        self.from_start, self.to_end = factors[..., 1:, 0, :], factors[..., -1, 1:, :]
        self.of_all, self.inner = factors[..., -1, 0, :, None], factors[..., 1:, 1:, :]
        self.forgets = np.isneginf(rows["decay"][..., 0, :, None])
        self.state = np.where(self.forgets, 0, before)
        self.read, self.kept = self.queries * self.from_start, self.keys * self.to_end
        self.products, self.written = _products(self.queries, self.keys, self.inner), rows["values"]
        if self.beta is not None:
            self.recalls = np.tril(_products(self.keys, self.keys, self.inner), -1)
            self.misses = self.written - (self.keys * self.from_start) @ self.state
            self.written = _solved(self.beta * self.recalls, self.beta * self.misses)
        self.context = self.products @ self.written + self.read @ self.state
        self.after = self.of_all * self.state + self.kept.mT @ self.written

    def pullback(self, dcontext: Array, dafter: Array) -> dict[str, Array]:
        """Return the gradients of the arguments from those of `context` and `after`."""
        dread, dkept = dcontext @ self.state.mT, self.written @ dafter.mT
        of_products = dcontext @ self.written.mT
        dqueries, dkeys, inner = _products_vjp(self.queries, self.keys, self.inner, of_products)
        exponents = np.zeros_like(self.factors)  # their gradient
        _add(exponents[..., 1:, 1:, :], inner)
        _add(exponents[..., 1:, 0, :], self.read * dread)
        _add(exponents[..., -1, 1:, :], self.kept * dkept)
        _add(exponents[..., -1, 0, :], np.sum(self.of_all * self.state * dafter, -1))
        gradients = {
            "queries": sum_to(dqueries + dread * self.from_start, self.queries.shape),
            "keys": dkeys + dkept * self.to_end,
            "values": sum_to(self.products.mT @ dcontext, self.written.shape) + self.kept @ dafter,
            "state": sum_to(self.read.mT @ dcontext, self.state.shape) + self.of_all * dafter,
        }
        if self.beta is not None:
            self._correct(self.beta, gradients, exponents)
        gradients |= {"decay": _decay_gradient(exponents)}
        return gradients | {"state": np.where(self.forgets, 0, gradients["state"])}

    def _correct(self, beta: Array, gradients: dict[str, Array], exponents: Array) -> None:
        """Continue from the gradient of what is written, by a delta rule, to those of the arguments."""
        turned = (beta * self.recalls).mT[..., ::-1, ::-1]  # the transposed system, from the last position on
        dright = _solved(turned, gradients["values"][..., ::-1, :])[..., ::-1, :]
        gradients["values"] = dmisses = beta * dright
        gradients["beta"] = np.sum(dright * (self.misses - self.recalls @ self.written), -1, keepdims=True)
        drecalls, drecalled = -np.tril(dmisses @ self.written.mT, -1), -dmisses @ self.state.mT
        dleft, dkeys, inner = _products_vjp(self.keys, self.keys, self.inner, drecalls)
        recalled = self.keys * self.from_start
        _add(exponents[..., 1:, 1:, :], inner)
        _add(exponents[..., 1:, 0, :], recalled * drecalled)
        gradients["keys"] += dleft + dkeys + drecalled * self.from_start
        gradients["state"] -= recalled.mT @ dmisses


def _add(total: Array, part: Array) -> None:
    total += sum_to(part, total.shape)


def _factors(decay: Array) -> Array:
    """Return ``exp(decay_j+1 + ... + decay_i)`` for j <= i, else 0; no sum is a difference of others: inf - inf."""
    size = decay.shape[-2] + 1
    steps = np.concatenate([decay[..., :1, :], decay], -2)[..., None, :]  # the first is not read
    exponents = np.cumsum(np.where(np.tri(size, k=-1, dtype=bool)[..., None], steps, 0), -3)
    return np.where(np.tri(size, dtype=bool)[..., None], np.exp(exponents), 0)


def _decay_gradient(dexponents: Array) -> Array:
    """Return the gradient of the decay from that of the exponents of the factors."""
    sums = np.cumsum(dexponents[..., ::-1, :, :], -3)[..., ::-1, :, :]
    later = np.tri(sums.shape[-2], k=-1, dtype=bool)[..., None]
    gradient: Array = np.sum(np.where(later, sums, 0), -2)[..., 1:, :]
    return gradient


def _products(left: Array, right: Array, factors: Array) -> Array:
    """Return ``sum_d left_id factors_ijd right_jd``."""
    if factors.shape[-1] == 1:
        return left @ right.mT * factors[..., 0]
    return ((factors * right[..., None, :, :]) @ left[..., None])[..., 0]


def _products_vjp(left: Array, right: Array, factors: Array, dproducts: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of `left`, of `right` and of the exponents of the factors."""
    if factors.shape[-1] == 1:
        scaled = dproducts * factors[..., 0]
        dexponents = (scaled * (left @ right.mT))[..., None]
        return scaled @ right, sum_to(scaled.mT @ left, right.shape), dexponents
    scaled = dproducts[..., None] * factors
    dleft, dright = np.sum(scaled * right[..., None, :, :], -2), np.sum(scaled * left[..., None, :], -3)
    return dleft, sum_to(dright, right.shape), scaled * left[..., None, :] * right[..., None, :, :]


def _solved(lower: Array, right: Array) -> Array:
    """Solve (I + lower) x = right, of which the strictly lower triangle is read, row by row."""
    x = np.array(right)
    for i in range(1, x.shape[-2]):
        x[..., i : i + 1, :] -= lower[..., i : i + 1, :i] @ x[..., :i, :]
    return x
