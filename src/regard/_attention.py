"""Fast attention: the context of `attend` computed by blocks, its gradients, and attention over parts of the keys.

No function of this module builds an n x m array, whatever the options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._einsum import einsum
from regard._layout import Layout
from regard._problem import Problem, prepare
from regard.context import record_problem, recording
from regard.kernels import choose, fast_path
from regard.kernels.pairs import sum_to
from regard.mask import MaskLike, window
from regard.position import BiasLike, bind_bias
from regard.scores import Differentiable, ScoreLike, is_builtin
from regard.weights import DifferentiableNormalizer, Joined, NormalizeLike, Sink, is_of_rows, local_p

__all__ = ["Gradients", "Partial", "attention", "attention_vjp", "merge", "partial", "partial_vjp"]

Array = NDArray[Any]
INPUTS = ("queries", "keys", "values")
LARGEST_SCALE = 1e30  # a scale that every dtype can represent
MOST_THREADS = 1 << 31  # threads, more than any machine has


@_check.hinted
def attention(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    /,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: BiasLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    normalize: NormalizeLike = "softmax",
    sink: ArrayLike | None = None,
    kernel: str = "auto",
    threads: int | None = None,
    out: Array | None = None,
) -> Array:
    """Compute the context only: ``attend(...).context`` without building n x m arrays.

    Parameters
    ----------
    queries : array (..., n, d)
        Queries.
    keys : array (..., m, d)
        Keys.
    values : array (..., m, e)
        Values.
    score, mask, bias, scale, softcap, normalize, sink
        As for `attend`. User-defined score functions are called on blocks (items, n', d), (items, m', d'),
        normalisations on complete rows (items, n', m).
    kernel : {"auto", "native", "blocked"}
        "native" is the compiled kernel, "blocked" the NumPy kernel, which supports all options; "auto" takes the
        fastest that supports the arguments. A kernel given by name is never replaced.
    threads : int, optional
        Number of threads; by default as many as the work is worth, at most one for each processor (or the quota of the
        container). It does not change the result.
    out : array (..., n, e), optional
        Array for the result, of the same shape and dtype.

    Returns
    -------
    array (..., n, e)
        In the dtype of ``np.result_type(queries, keys, values)`` (float16 with bfloat16: float32; integers and lists:
        float64). The context of a query without a visible key is 0.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, before any computation.

    References
    ----------
    Rabe and Staats 2021, "Self-attention Does Not Need O(n^2) Memory".

    Examples
    --------
    >>> import numpy as np, regard
    >>> regard.attention([[1.0, 0.0]], np.eye(2), [[10.0], [20.0]], scale=np.log(3))
    array([[12.5]])
    """
    if out is None and _is_usual(score, mask, bias, scale, softcap, normalize, sink, kernel, threads):
        context: Array | None = fast_path.dense(queries, keys, values, mask, scale, threads)
        if context is not None:
            return context
    problem = prepare(queries, keys, values, score, mask, bias, scale, softcap, normalize, sink)
    chosen = _chosen(kernel, threads, problem)
    if out is not None:
        _check.output(out, _context_shape(problem), problem.result)
    record_problem(problem)
    forward = _forward(chosen, problem, threads)
    result = _check.rounded(forward.context.reshape(_context_shape(problem)), problem.result)
    if out is None:
        return result
    out[...] = result
    return out


def _is_usual(
    score: Any,
    mask: Any,
    bias: Any,
    scale: Any,
    softcap: Any,
    normalize: Any,
    sink: Any,
    kernel: Any,
    threads: Any,
) -> bool:
    """Return whether the fast path supports the options and needs no further check of them.

    All other calls take the general path, which raises the errors.
    """
    return (
        bias is softcap is sink is None
        and (mask is None or isinstance(mask, window))
        and type(score) is type(normalize) is type(kernel) is str
        and score == "scaled_dot"
        and normalize == "softmax"
        and kernel in ("auto", "native")
        and (scale is None or (type(scale) is float and abs(scale) < LARGEST_SCALE))
        and (threads is None or (type(threads) is int and 0 < threads <= MOST_THREADS))
        and not recording()
    )


def _chosen(kernel: str, threads: int | None, p: Problem) -> ModuleType:
    chosen = choose(kernel, p)
    if threads is not None:
        _check.integer("threads", threads, least=1, most=MOST_THREADS)
    return chosen


class ForwardResult(NamedTuple):
    """The result of a forward kernel: context (items, n, e), statistic (items, 2, n), and both joined with the sink."""

    context: Array
    statistic: Array | None
    joined: Joined | None = None


def _forward(chosen: ModuleType, p: Problem, threads: int | None) -> ForwardResult:
    """Run the forward kernel. For an empty context the statistic is not computed."""
    shape = (p.layout.items, p.layout.n, p.values.shape[-1])
    return ForwardResult(np.empty(shape, p.compute), None) if 0 in shape else _computed(chosen, p, threads)


def _computed(chosen: ModuleType, p: Problem, threads: int | None) -> ForwardResult:
    """Run a kernel, then apply the sink, which scales the context of a row and is added to its statistic.

    The backward pass uses context and statistic only, so this suffices for all other gradients.
    """
    with np.errstate(all="ignore"):  # NaN and inf propagate
        context, statistic = chosen.forward(p, threads)
        if p.sink is None:
            return ForwardResult(context, statistic)
        joined = p.sink.join(statistic, chosen.UNIT)
        weight = joined.keys.astype(p.compute)[..., None]
        return ForwardResult(_weighted(weight, context), joined.statistic, joined)


def _context_shape(p: Problem) -> tuple[int, ...]:
    return (*p.layout.batch_shape, p.layout.n, p.values.shape[-1])


class Gradients(NamedTuple):
    """Gradients of one attention, each in the shape of its argument.

    Parameters
    ----------
    queries : array (..., n, d)
        Gradient of the queries; None if it is not wanted, as for the keys and values.
    keys : array (..., m, d)
        Gradient of the keys.
    values : array (..., m, e)
        Gradient of the values.
    bias : array or None
        Gradient of the bias array, of the slopes of `alibi` or of the table of `t5_buckets`.
    score : dict of str to array
        Gradients of the score's learned arrays, by their argument names.
    normalize : dict of str to array
        ``positions`` for `local_p`, ``bias`` for `sigmoid`, or what the pullback of a user-defined one names.
    sink : array or None
        Gradient of the sink.

    Examples
    --------
    >>> import numpy as np, regard
    >>> _, pullback = regard.attention_vjp(np.eye(2), np.eye(2), np.eye(2))
    >>> pullback(np.ones((2, 2))).values.round(3)
    array([[1., 1.],
           [1., 1.]])
    """

    queries: Array | Any  # None only where the caller doesn't want it
    keys: Array | Any
    values: Array | Any
    bias: Array | None
    score: dict[str, Array]
    normalize: dict[str, Array]
    sink: Array | None


@_check.hinted
def attention_vjp(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    /,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: BiasLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    normalize: NormalizeLike = "softmax",
    sink: ArrayLike | None = None,
    kernel: str = "auto",
    threads: int | None = None,
    wanted: str | Iterable[str] = INPUTS,
) -> tuple[Array, Callable[[ArrayLike], Gradients]]:
    """Compute the context and its pullback, the function that maps its gradient to those of the inputs.

    Parameters
    ----------
    queries : array (..., n, d)
        Queries.
    keys : array (..., m, d)
        Keys.
    values : array (..., m, e)
        Values.
    score, mask, bias, scale, softcap, normalize, sink, kernel, threads
        As for `attention`. A user-defined score function needs a method ``vjp`` (`regard.scores.Differentiable`),
        and so does a normalisation (`regard.weights.DifferentiableNormalizer`).
    wanted : str or several of them
        The inputs whose gradients are returned, by default all of "queries", "keys" and "values"; the others are None.
        That of constant values need not be computed.

    Returns
    -------
    context : array (..., n, e)
        As from `attention`.
    pullback : function
        ``pullback(dcontext (..., n, e)) -> Gradients``. The inputs must not be changed before it is called. Extra
        memory grows with n + m, not with n m. The gradient of "hard" with respect to the scores is 0.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, before any computation.

    References
    ----------
    Dao et al. 2022, "FlashAttention", algorithm 4; Martins and Astudillo 2016, eq. 14; Peters et al. 2019, eq. 14.

    Examples
    --------
    >>> import numpy as np, regard
    >>> context, pullback = regard.attention_vjp([[1.0]], [[0.0], [0.0]], [[1.0], [3.0]])
    >>> context
    array([[2.]])
    >>> pullback([[1.0]]).keys
    array([[-0.5],
           [ 0.5]])
    """

    unwanted = _unwanted(wanted)

    def general_path(recorded: bool) -> tuple[Array, Callable[[ArrayLike], Gradients]]:
        problem = prepare(queries, keys, values, score, mask, bias, scale, softcap, normalize, sink)
        if not unwanted:
            return _differentiated(problem, bias, kernel, threads, recorded)
        problem = problem._replace(values_are_constant="values" in unwanted)
        context, pullback = _differentiated(problem, bias, kernel, threads, recorded)
        return context, lambda dcontext: pullback(dcontext)._replace(**unwanted)

    usual = not unwanted and _is_usual(score, mask, bias, scale, softcap, normalize, sink, kernel, threads)
    fast = fast_path.dense_vjp(queries, keys, values, mask, scale, threads) if usual else None
    if fast is None:
        return general_path(recorded=False)
    context, gradients = fast

    def pullback(dcontext: ArrayLike) -> Gradients:
        arrays = gradients(dcontext)
        if arrays is None:
            return general_path(recorded=True)[1](dcontext)
        return Gradients(*arrays, None, {}, {}, None)

    return context, pullback


def _unwanted(wanted: str | Iterable[str]) -> dict[str, Any]:
    """Return None for each input whose gradient is not wanted."""
    if wanted is INPUTS:
        return {}
    names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for name in names:
        _check.choice("wanted", name, INPUTS)
    return {name: None for name in INPUTS if name not in names}


def _differentiated(
    problem: Problem, bias: BiasLike | None, kernel: str, threads: int | None, recorded: bool
) -> tuple[Array, Callable[[ArrayLike], Gradients]]:
    """Compute context and pullback for any options; see `attention_vjp`."""
    chosen = _chosen(kernel, threads, problem)
    check_differentiable(problem)
    if not recorded:
        record_problem(problem)
    forward = _forward(chosen, problem, threads)

    def pullback(dcontext: ArrayLike) -> Gradients:
        return _gradients(chosen, problem, bias, forward, dcontext, threads)

    return _check.rounded(
        forward.context.reshape(_context_shape(problem)), problem.result, copy=True
    ), pullback


def check_differentiable(p: Problem) -> None:
    """Raise if the score or the normalisation has no gradients."""
    if not (is_builtin(p.score) or isinstance(p.score, Differentiable)):
        _check.fail(
            "score must have a method vjp(queries, keys) -> (scores, pullback) for gradients.",
            hint="see regard.scores.Differentiable",
            kind=TypeError,
        )
    if is_of_rows(p.normalize) and not isinstance(p.normalize, DifferentiableNormalizer):
        _check.fail(
            "normalize must have a method vjp(logits) -> (weights, pullback) for gradients.",
            hint="see regard.weights.DifferentiableNormalizer",
            kind=TypeError,
        )


def _gradients(
    kernel: ModuleType,
    p: Problem,
    bias: BiasLike | None,
    forward: ForwardResult,
    dcontext: ArrayLike,
    threads: int | None,
) -> Gradients:
    """Run the backward kernel and return every gradient in the shape and dtype of its argument."""
    array = _of_context(dcontext, p)
    if forward.statistic is None:
        forward = _computed(kernel, p, threads)
    fresh = bind_bias(bias, p.layout, p.compute)  # accumulates the gradient of this call
    p = p._replace(bias=fresh)
    with np.errstate(all="ignore"):
        flat = np.ascontiguousarray(array, p.compute).reshape(forward.context.shape)
        gradients = kernel.backward(p, forward.context, forward.statistic, flat, threads)
        dqueries, dkeys, dvalues, named, dnormalize = gradients
        return Gradients(
            _as(dqueries.reshape(p.queries.shape), p.queries, p),
            _as(dkeys.reshape(p.keys.shape), p.keys, p),
            None if dvalues is None else _as(dvalues, p.values, p),
            None if fresh is None else fresh.gradient(),
            {name: np.asarray(gradient) for name, gradient in named.items()},
            _normalize_gradients(p, dnormalize),
            _sink_gradient(p, forward, flat),
        )


def _of_context(dcontext: ArrayLike, p: Problem) -> Array:
    """Return the gradient of the context, checked for its shape."""
    array = _check.numeric("dcontext", dcontext)
    if array.shape != _context_shape(p):
        _check.fail(
            f"dcontext must have the shape of the context (..., n, e) = {_context_shape(p)}. Got {array.shape} instead."
        )
    return array


def _sink_gradient(p: Problem, forward: ForwardResult, dcontext: Array) -> Array | None:
    """Return the gradient of the sink, in its shape: minus its weight times dcontext . context, as its value is 0."""
    if p.sink is None or forward.joined is None:
        return None
    along = einsum("gte,gte->gt", dcontext, forward.context, dtype=np.float64)
    # A row without a visible key contributes nothing, whatever its dcontext.
    down = np.where(forward.joined.keys == 0, 0, -forward.joined.sink * along).sum(-1)
    total = sum_to(down.reshape(p.layout.batch_shape), p.sink.array.shape)
    return _check.rounded(total, p.sink.array.dtype.newbyteorder("="))


def _as(gradient: Array, of: Array, p: Problem) -> Array:
    """Return a gradient in the dtype of its argument, if that is floating."""
    dtype = of.dtype if _check.is_float(of.dtype) else p.compute
    return _check.rounded(gradient, dtype.newbyteorder("="))


def _normalize_gradients(p: Problem, named: dict[str, Array]) -> dict[str, Array]:
    if not isinstance(p.normalize, local_p):
        return {name: np.asarray(gradient) for name, gradient in named.items()}
    full = named["positions"].reshape(*p.layout.batch_shape, p.layout.n)
    return {"positions": sum_to(full, p.normalize.positions.shape)}


@dataclass(frozen=True, eq=False)
class Partial:
    """Attention over some of the keys; `merge` combines it with the attention over the other keys.

    Parameters
    ----------
    context : array (..., n, e)
        Context over these keys only; float32 for half precision inputs, so that merging rounds once.
    lse : array (..., n)
        Log-sum-exp of these keys' logits, the weight of the part; -inf if none of them is visible.

    Examples
    --------
    >>> import numpy as np, regard
    >>> part = regard.partial(np.zeros((1, 1)), np.zeros((4, 1)), np.ones((4, 2)))
    >>> part.context, np.exp(part.lse).round(12)
    (array([[1., 1.]]), array([4.]))
    """

    context: Array
    lse: Array


@_check.hinted
def partial(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    /,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: BiasLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: ArrayLike | None = None,
    kernel: str = "auto",
    threads: int | None = None,
) -> Partial:
    """Attend to a part of the keys; `merge` combines the parts.

    Parameters
    ----------
    queries : array (..., n, d)
        All queries.
    keys : array (..., m, d)
        Some of the keys; m may be 0.
    values : array (..., m, e)
        Their values.
    score, mask, bias, scale, softcap
        As for `attention`; mask and bias are for the keys of this part.
    sink : float or array broadcasting to (...), optional
        As for `attend`. Pass it for one part only, or to `merge`.
    kernel, threads
        As for `attention`.

    Returns
    -------
    Partial
        context (..., n, e) and lse (..., n).

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, before any computation.

    References
    ----------
    Dao et al. 2023, "Flash-Decoding for long-context inference".

    Examples
    --------
    >>> import numpy as np, regard
    >>> q, k, v = np.eye(3), np.eye(3), np.arange(9.0).reshape(3, 3)
    >>> parts = regard.partial(q, k[:1], v[:1]), regard.partial(q, k[1:], v[1:])
    >>> np.allclose(regard.merge(*parts).context, regard.attention(q, k, v))
    True
    """
    problem = prepare(queries, keys, values, score, mask, bias, scale, softcap, "softmax", sink)
    chosen = _chosen(kernel, threads, problem)
    record_problem(problem)
    context, statistic, _ = _computed(chosen, problem, threads)
    lse = chosen.lse(statistic)
    return Partial(context.reshape(_context_shape(problem)), lse.reshape(_context_shape(problem)[:-1]))


def log_sum_exp(problem: Problem) -> Array:
    """Return the log-sum-exp of each row (..., n), the sink included, without recording the attention."""
    chosen = choose("auto", problem)
    lse: Array = chosen.lse(_computed(chosen, problem, None).statistic)
    return lse.reshape(_context_shape(problem)[:-1])


def context_of(problem: Problem) -> Array:
    """Return the context (..., n, e) in the dtype of the computation, without recording the attention."""
    return _forward(choose("auto", problem), problem, None).context.reshape(_context_shape(problem))


@_check.hinted
def partial_vjp(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    merged: Partial,
    dcontext: ArrayLike,
    dlse: ArrayLike | None = None,
    /,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: BiasLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    kernel: str = "auto",
    threads: int | None = None,
) -> Gradients:
    """Compute the gradients that go through a part of the keys, from the attention over all of them.

    The gradients of queries, bias and score add up over the parts. Of the other parts each needs only `merged`, so
    parts can be computed in any order and on different machines.

    Parameters
    ----------
    queries : array (..., n, d)
        All queries.
    keys : array (..., m, d)
        Some of the keys.
    values : array (..., m, e)
        Their values.
    merged : Partial
        The attention over all keys, from `merge`, with the sink if there is one.
    dcontext : array (..., n, e)
        Gradient of the merged context.
    dlse : array (..., n), optional
        Gradient of the merged `lse`, where a loss reads that, too; 0 by default.
    score, mask, bias, scale, softcap, kernel, threads
        As for `partial`.

    Returns
    -------
    Gradients
        Those of this part, each in the shape of its argument; ``sink`` is None.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, before any computation.

    References
    ----------
    Dao et al. 2022, "FlashAttention", algorithm 4; Liu, Zaharia and Abbeel 2023, "Ring Attention", section 3.

    Examples
    --------
    >>> import numpy as np, regard
    >>> q, k, v = np.eye(3), np.eye(3), np.arange(9.0).reshape(3, 3)
    >>> merged = regard.merge(regard.partial(q, k[:1], v[:1]), regard.partial(q, k[1:], v[1:]))
    >>> parts = [regard.partial_vjp(q, k[s], v[s], merged, v) for s in (slice(0, 1), slice(1, 3))]
    >>> complete = regard.attention_vjp(q, k, v)[1](v)
    >>> np.allclose(parts[0].queries + parts[1].queries, complete.queries)
    True
    >>> np.allclose(parts[1].values, complete.values[1:])
    True
    """
    problem = prepare(queries, keys, values, score, mask, bias, scale, softcap, "softmax", None)
    chosen = _chosen(kernel, threads, problem)
    check_differentiable(problem)
    if not isinstance(merged, Partial):
        got = type(merged).__name__
        _check.fail(
            f"merged must be a Partial. Got {got} instead.", hint="regard.merge(*parts)", kind=TypeError
        )
    (total,) = _checked((merged,))
    if total.context.shape != _context_shape(problem):
        _check.fail(
            f"merged must have a context (..., n, e) = {_context_shape(problem)}. Got {total.context.shape} instead."
        )
    forward = _as_forward(total, problem, chosen)
    if dlse is None:
        return _gradients(chosen, problem, bias, forward, dcontext, threads)
    problem, forward, both = _with_lse(problem, forward, _of_context(dcontext, problem), dlse)
    gradients = _gradients(chosen, problem, bias, forward, both, threads)
    return gradients._replace(values=gradients.values[..., :-1])


def _with_lse(
    p: Problem, forward: ForwardResult, dcontext: Array, dlse: ArrayLike
) -> tuple[Problem, ForwardResult, Array]:
    """Append a column to values, context and dcontext, through which the kernel adds ``weights * dlse`` to dlogits.

    It adds ``weights * (dcontext @ values.T - dcontext . context)``: with values 1 and context 0, dlse itself.
    """
    array = _check.numeric("dlse", dlse)
    if array.shape != dcontext.shape[:-1]:
        _check.fail(
            f"dlse must have the shape of lse (..., n) = {dcontext.shape[:-1]}. Got {array.shape} instead."
        )
    values, context = _with_column(p.values, 1), _with_column(forward.context, 0)
    both = np.concatenate([dcontext, array[..., None]], -1)
    return p._replace(values=values), forward._replace(context=context), both


def _with_column(x: Array, number: int) -> Array:
    return np.concatenate([x, np.full_like(x, number, shape=(*x.shape[:-1], 1))], -1)


def _as_forward(total: Partial, p: Problem, kernel: ModuleType) -> ForwardResult:
    """Return a merged result as that of a forward kernel."""
    shape = (p.layout.items, p.layout.n, p.values.shape[-1])
    lse = total.lse.astype(np.float64).reshape(shape[:2])
    with np.errstate(all="ignore"):
        # The two numbers of a row without a visible key are 0 and -inf.
        unseen = np.isneginf(lse)
        statistic = np.stack([np.where(unseen, 0, lse / kernel.UNIT), np.where(unseen, -np.inf, 0)], axis=1)
        context = np.ascontiguousarray(total.context, p.compute).reshape(shape)
        return ForwardResult(context, statistic.astype(p.compute))


def merge(*parts: Partial, sink: ArrayLike | None = None) -> Partial:
    """Merge the attention over disjoint parts of the keys into the attention over all of them.

    ``lse = log sum_p exp(lse_p)``, ``context = sum_p exp(lse_p - lse) context_p``: a commutative monoid whose neutral
    element is any part without visible keys (lse -inf).

    Parameters
    ----------
    parts : Partial
        One or more parts of the same shape, in any order.
    sink : float or array broadcasting to (...), optional
        As for `attend`, if no part includes it: a sink is a part with context 0 and lse `sink`.

    Returns
    -------
    Partial
        Attention over the keys of all parts.

    Raises
    ------
    ValueError
        If there is no part, the shapes differ or the sink does not broadcast.

    References
    ----------
    Rabe and Staats 2021, section 2.

    Examples
    --------
    >>> import numpy as np, regard
    >>> one = regard.Partial(np.array([[1.0]]), lse=np.array([0.0]))
    >>> two = regard.Partial(np.array([[4.0]]), lse=np.array([np.log(2)]))
    >>> regard.merge(one, two).context
    array([[3.]])
    """
    parts = _checked(parts)
    if sink is not None:
        parts = (*parts, _of_sink(sink, parts[0]))
    with np.errstate(all="ignore"):
        lse = np.stack([part.lse for part in parts])
        top = lse.max(0)
        weights = np.exp(lse - np.where(np.isneginf(top), 0, top))
        total = weights.sum(0)
        weights /= np.where(total == 0, 1, total)
        context = sum(_weighted_part(w[..., None], part) for w, part in zip(weights, parts, strict=True))
        return Partial(
            np.asarray(context),
            np.where(total == 0, -np.inf, np.where(np.isneginf(top), 0, top) + np.log(total)),
        )


def _checked(parts: tuple[Partial, ...]) -> tuple[Partial, ...]:
    """Return the parts as arrays, checked for compatible shapes."""
    if not parts:
        _check.fail("merge needs at least one part: 0", hint="a part without keys is the neutral element")
    for part in parts:
        if not isinstance(part, Partial):
            _check.fail(
                f"merge takes Partial objects. Got {type(part).__name__} instead.",
                hint="merge(*parts)",
                kind=TypeError,
            )
    checked = tuple(
        Partial(_check.numeric("context", part.context), _check.numeric("lse", part.lse)) for part in parts
    )
    for part in checked:
        if part.lse.shape != part.context.shape[:-1] or part.context.ndim < 1:
            shapes = f"{part.context.shape} and {part.lse.shape}"
            _check.fail(f"context and lse of a part must be (..., n, e) and (..., n): {shapes}")
        if part.context.shape != checked[0].context.shape:
            _check.fail(
                f"parts must have one shape of context: {checked[0].context.shape} and {part.context.shape}"
            )
    return checked


def _of_sink(sink: ArrayLike, part: Partial) -> Partial:
    """Return a sink as a part of the same shape as this one."""
    compute, _ = _check.dtypes(part.lse)
    logits = Sink(sink, Layout(part.lse.shape[:-1], None, 1, 0), compute).logits
    lse = np.broadcast_to(logits[..., None], part.lse.shape or (1,)).reshape(part.lse.shape)
    return Partial(np.zeros_like(part.context), lse)


def _weighted_part(weight: Array, part: Partial) -> Array:
    """Return weight * context, or 0 for rows without a visible key."""
    return np.where(np.isneginf(part.lse)[..., None], 0, _weighted(weight, part.context))


def _weighted(weight: Array, context: Array) -> Array:
    """Return weight * context; an infinite context stays infinite even if the weight underflows to 0."""
    return np.where((weight == 0) & np.isinf(context), context, weight * context)
