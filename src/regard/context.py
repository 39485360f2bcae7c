"""Step 3, and the definition of attention: scores, weights, context.

`attend` defines attention in this package. It keeps all intermediate results. Faster kernels are tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check, weights
from regard._display import Displayed, InNotebook, page_of
from regard._problem import Problem, prepare
from regard.mask import MaskLike
from regard.position import BiasLike
from regard.scores import ScoreLike, is_builtin
from regard.weights import NormalizeLike, local_p

__all__ = ["Attention", "attend", "named_scope", "record"]

Array = NDArray[Any]
PARTS = ("scores", "logits", "weights", "context", "lse")
MOST_PAIRS = 1 << 48  # of queries and keys, more than any memory holds


@dataclass(frozen=True, eq=False)
class Attention(Displayed):
    """All results of one attention.

    Parameters
    ----------
    scores : array (..., n, m)
        Output of the score function, before scale, softcap, bias and mask.
    logits : array (..., n, m)
        Input of step 2: ``softcap(scores * scale) + bias``, and -inf where masked.
    weights : array (..., n, m)
        Rows sum to 1 (less with `regard.weights.local_p` or a sink, any number with `regard.weights.sigmoid`,
        `regard.weights.relu` or a function of the user's), or to 0 without a visible key.
    context : array (..., n, e)
        The weighted sums of the values, in the dtype of the inputs.
    lse : array (..., n)
        Log-sum-exp of the logits and the sink, if there is one; -inf without a visible key.
    name : str
        Name of the `named_scope` if recorded by `record`; otherwise empty.

    Examples
    --------
    >>> import numpy as np, regard
    >>> attention = regard.attend([[1.0, 0.0]], np.eye(2), [[10.0], [20.0]], scale=np.log(3))
    >>> attention.scores, attention.weights, attention.context
    (array([[1., 0.]]), array([[0.75, 0.25]]), array([[12.5]]))
    """

    scores: Array
    logits: Array
    weights: Array
    context: Array
    lse: Array
    name: str = ""

    view = "mechanism"

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        parts = [
            f"{part} {getattr(self, part).shape}" for part in ("weights", "context") if part in vars(self)
        ]
        held = parts or [part for part in PARTS if part in vars(self)]
        dtype = [str(self.context.dtype)] if "context" in vars(self) else []
        return f"Attention({name}{', '.join([*held, *dtype])})"

    def __getattr__(self, name: str) -> Any:
        """Raise for a part that was not kept; called only for missing attributes."""
        if name in PARTS:
            recorded = ", ".join(part for part in PARTS if part in vars(self))
            raise AttributeError(f"{name} was not kept: record(keep=...) kept {recorded or 'nothing'}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _masked_weights(self) -> Array:
        """Return the weights: where logits are kept, a masked array without the pairs that are hidden."""
        if "logits" not in vars(self):
            return self.weights
        return np.ma.array(self.weights, mask=np.isneginf(self.logits) & (self.weights == 0))

    def _page(self) -> Any:
        """Return the page for a notebook, or None if there are no weights."""
        shown = "weights" in vars(self) and self.weights.size > 0
        return page_of(self) if shown else None

    def _only(self, keep: tuple[str, ...]) -> Attention:
        """Return an attention with these parts only, and its name."""
        part_of: Attention = object.__new__(Attention)
        vars(part_of).update({part: getattr(self, part) for part in keep}, name=self.name)
        return part_of


NOTHING_RECORDED = (
    "regard.record keeps attention that regard computes, regard.torch.record that of PyTorch's models"
)


class _Records(InNotebook, list[Attention]):
    """A list of attentions, which a notebook shows as a page."""

    def __repr__(self) -> str:
        return super().__repr__() if self else f"[] (nothing was recorded: {NOTHING_RECORDED})"

    def _page(self) -> Any:
        shown = [attention for attention in self if "weights" in vars(attention) and attention.weights.size]
        return page_of(shown) if shown else None


@dataclass(frozen=True, eq=False)
class _Recorder:
    """An open `record` block: the parts that it keeps of each attention, and its list."""

    keep: tuple[str, ...]
    attentions: list[Attention]

    def add(self, attention: Attention) -> None:
        complete = set(self.keep) == set(PARTS)
        self.attentions.append(attention if complete else attention._only(self.keep))


_recording: ContextVar[tuple[_Recorder, ...]] = ContextVar("regard_recording", default=())
_of_all_threads: list[_Recorder] = []  # append and remove of a list are thread-safe
_scope: ContextVar[tuple[str, ...]] = ContextVar("regard_scope", default=())


@contextmanager
def record(*, keep: str | Iterable[str] = PARTS, threads: bool = False) -> Iterator[list[Attention]]:
    """Record every attention that is computed inside the block, for inspection of any model.

    This covers `attend`, `attention`, `attention_vjp` and `partial`, not attention that another library computes:
    `regard.torch.record` keeps that of PyTorch's models. The recurrent decoders of `seq2seq`, which attend at every
    step inside one call, return their weights instead.

    Parameters
    ----------
    keep : str or several of them
        Parts of each `Attention` to keep: "scores", "logits", "weights", "context" and "lse", by default all. Scores,
        logits and weights are n x m arrays for each head, so ``keep="weights"`` needs a third of the memory.
    threads : bool
        Whether to record attentions of all threads of the process while the block is open, in the order in which they
        finish. By default only those of the block's own thread are recorded (and of code in a copy of its context,
        ``contextvars.copy_context().run``, such as asyncio's tasks and ``asyncio.to_thread``).

    Returns
    -------
    context manager of a list of Attention
        Each attention is appended with its n x m arrays, computed by the definition, and the name of its `named_scope`.
        Blocks may be nested. A notebook shows the list as a page.

    Raises
    ------
    ValueError, TypeError
        If `keep` has an unknown part.

    Examples
    --------
    >>> import numpy as np, regard
    >>> with regard.record(keep="weights") as recorded:
    ...     _ = regard.attention(np.eye(2), np.eye(2), np.eye(2))
    >>> recorded[0].weights.round(2)
    array([[0.67, 0.33],
           [0.33, 0.67]])
    """
    parts = (keep,) if isinstance(keep, str) else tuple(keep)
    for name in parts:
        _check.choice("keep", name, PARTS)
    recorder = _Recorder(parts, _Records())
    if _check.flag("threads", threads):
        _of_all_threads.append(recorder)
        try:
            yield recorder.attentions
        finally:
            _of_all_threads.remove(recorder)
        return
    token = _recording.set((*_recording.get(), recorder))
    try:
        yield recorder.attentions
    finally:
        _recording.reset(token)


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Name the attentions that are computed inside the block, for `record`; names of nested blocks are joined by "/".

    Parameters
    ----------
    name : str
        Such as "encoder" or "layer 3".

    Returns
    -------
    context manager
        For this thread. Without a `record` block it has no effect.

    Raises
    ------
    TypeError
        If the name is not a string.

    Examples
    --------
    >>> import numpy as np, regard
    >>> with regard.record() as recorded, regard.named_scope("decoder"):
    ...     for layer in range(2):
    ...         with regard.named_scope(f"layer {layer}"):
    ...             _ = regard.attention(np.eye(2), np.eye(2), np.eye(2))
    >>> [attention.name for attention in recorded]
    ['decoder/layer 0', 'decoder/layer 1']
    """
    if not isinstance(name, str):
        _check.fail(f"name must be a string. Got {type(name).__name__} instead.", kind=TypeError)
    token = _scope.set((*_scope.get(), name))
    try:
        yield
    finally:
        _scope.reset(token)


def recording() -> bool:
    """Return whether a `record` block is open for this thread."""
    return bool(_recording.get() or _of_all_threads)


def record_problem(problem: Problem) -> None:
    """Compute and record the complete attention if a `record` block is open."""
    if recording():
        add_to_records(define(problem))


def add_to_records(attention: Attention) -> None:
    """Add an attention to all open `record` blocks."""
    if not recording():
        return
    if scope := _scope.get():
        attention = replace(attention, name="/".join(scope))
    for recorder in (*_recording.get(), *_of_all_threads):
        recorder.add(attention)


@_check.hinted
def attend(
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
) -> Attention:
    """Compute attention and keep every step: scores, logits, weights, context. ::

        logits  = softcap * tanh(score(queries, keys) * scale / softcap) + bias, -inf where masked
        weights = normalize(logits)
        context = weights @ values

    Letters: n queries, m keys, d query and key size, e value size; leading dimensions ``...`` broadcast as in
    ``np.matmul``; the last one is that of heads. With fewer key heads than query heads (a divisor), query head i uses
    key head i // group.

    Parameters
    ----------
    queries : array (..., n, d)
        Queries.
    keys : array (..., m, d)
        Keys.
    values : array (..., m, e)
        Values.
    score : str, regard.scores object or function
        "scaled_dot", "dot", "cosine", "gaussian", an object such as ``scores.additive(...)``, or any function of
        queries and keys whose value for a pair depends on that pair alone.
    mask : bool array broadcasting to (..., n, m) or regard.mask object, optional
        True = visible. Masked keys and values have no influence at all.
    bias : array broadcasting to (..., n, m), ``position.alibi`` or ``position.t5_buckets``, optional
        Added to the scaled scores; -inf masks.
    scale : float, optional
        Factor of the scores; by default 1 / sqrt(d) for "scaled_dot" and 1 for all others.
    softcap : float, optional
        Bound of the absolute scaled scores, ``softcap * tanh(x / softcap)``.
    normalize : str, regard.weights object or function
        "softmax", "sparsemax", "entmax15", "hard", an object such as ``weights.entmax(1.2)`` or ``weights.local_m(3)``,
        or any function of complete rows of logits (..., m) that returns their weights.
    sink : float or array broadcasting to (...), optional
        A learned logit for each head: ``exp(sink)`` joins the denominator of the softmax, so that a row may sum
        to less than 1. -inf is no sink. It is not a column of `logits` and `weights`, but is included in `lse`.

    Returns
    -------
    Attention
        scores, logits, weights (..., n, m), context (..., n, e), lse (..., n). float16 and bfloat16 are computed in
        float32 and only the context is cast back; integers are computed in float64.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, before any computation.

    References
    ----------
    Bahdanau, Cho and Bengio 2014; Luong, Pham and Manning 2015; Vaswani et al. 2017, eq. 1; Xiao et al. 2023,
    "Efficient Streaming Language Models with Attention Sinks", section 3.3 (sink); Miller 2023, "Attention Is Off By
    One" (sink 0).

    Examples
    --------
    >>> import numpy as np, regard
    >>> words = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
    >>> attention = regard.attend(words, words, words)
    >>> attention.scores[2]
    array([1., 1., 2., 0.])
    >>> attention.weights.sum(axis=-1)
    array([1., 1., 1., 1.])
    """
    problem = prepare(queries, keys, values, score, mask, bias, scale, softcap, normalize, sink)
    numbers = problem.layout.items * problem.layout.n * problem.layout.m
    if numbers > MOST_PAIRS:
        shapes = {"queries": problem.queries, "keys": problem.keys, "values": problem.values}
        _check.fail(
            f"attend keeps arrays (..., n, m), of at most {MOST_PAIRS} numbers: {numbers}",
            shapes,
            "attention keeps none",
        )
    attention = define(problem)
    add_to_records(attention)
    return attention


def define(p: Problem) -> Attention:
    """Compute the three steps."""
    values = p.layout.per_key_head(_in_order(p, p.values))
    with np.errstate(all="ignore"):  # NaN and inf propagate to the output without a warning
        scores = _scores(p)
        logits = _logits(p, scores)
        joined = _with_sink(p, logits)
        weight = np.ascontiguousarray(_weights(p, joined)[..., : p.layout.m])
        context = _context(weight, values, logits)
        lse = weights.log_sum_exp(joined)
    batch_shape, n, m = p.layout.batch_shape, p.layout.n, p.layout.m
    return Attention(
        scores.reshape(*batch_shape, n, m),
        logits.reshape(*batch_shape, n, m),
        weight.reshape(*batch_shape, n, m),
        _check.rounded(context.reshape(*batch_shape, n, values.shape[-1]), p.result),
        lse.reshape(*batch_shape, n),
    )


def define_logits(p: Problem) -> Array:
    """Compute the logits (..., n, m) alone."""
    with np.errstate(all="ignore"):
        return _logits(p, _scores(p)).reshape(*p.layout.batch_shape, p.layout.n, p.layout.m)


def _in_order(p: Problem, array: Array) -> Array:
    """Return an array in C order and the dtype of the computation: law 5.

    Before version 2.3, NumPy multiplies other orders without BLAS, which rounds differently and is slower.
    """
    return np.ascontiguousarray(array, p.compute)


def _scores(p: Problem) -> Array:
    """Step 1."""
    queries, keys = _in_order(p, p.queries), _in_order(p, p.keys)
    if p.layout.split is not None and keys.ndim > 2 and keys.shape[-3] > 1:
        keys = np.repeat(keys, p.layout.split[1], axis=-3)  # a score may have a parameter for each query head
    shape = (*p.layout.batch_shape, p.layout.n, p.layout.m)
    if is_builtin(p.score):
        scores = p.score._define(queries, keys)
    else:
        scores = _check.numeric("score(queries, keys)", p.score(_read_only(queries), _read_only(keys)))
        _check.broadcast("score(queries, keys)", scores.shape, shape, "(..., n, m)")
    if scores.shape != shape:
        scores = np.broadcast_to(scores, shape)
    return scores.astype(p.compute, copy=False).reshape(*p.layout.inner, p.layout.n, p.layout.m)


def _read_only(x: Array) -> Array:
    """Return a read-only view for a user-defined score function: law 8."""
    x = x.view()
    x.flags.writeable = False
    return x


def _logits(p: Problem, scores: Array) -> Array:
    """Apply scale, softcap, bias and mask."""
    logits = scores * p.compute.type(p.scale)
    if p.softcap is not None:
        logits = p.compute.type(p.softcap) * np.tanh(logits / p.compute.type(p.softcap))
    if not logits.size:
        return np.asarray(logits)
    items, n, m = p.layout.items, p.layout.n, p.layout.m
    everything = (slice(0, items), slice(0, n), slice(0, m))
    if p.bias is not None:
        added = np.broadcast_to(p.bias.block(*everything), (items, n, m)).reshape(logits.shape)
        logits = np.where(np.isneginf(added), -np.inf, logits + added)
    if p.bound_mask is not None:
        visible = np.broadcast_to(p.bound_mask.block(*everything), (items, n, m)).reshape(logits.shape)
        logits = np.where(visible, logits, -np.inf)
    if isinstance(p.normalize, local_p):  # its window is a mask
        logits = np.where(np.abs(_distance(p, p.normalize)) <= p.normalize.width, logits, -np.inf)
    return np.asarray(logits).astype(p.compute, copy=False)


def _with_sink(p: Problem, logits: Array) -> Array:
    """Add the sink as one more logit to every row: (..., n, m + 1)."""
    if p.sink is None:
        return logits
    sink = p.sink.logits.reshape(*p.layout.inner, 1, 1)
    return np.concatenate([logits, np.broadcast_to(sink, (*logits.shape[:-1], 1))], axis=-1)


def _weights(p: Problem, logits: Array) -> Array:
    """Step 2."""
    if isinstance(p.normalize, str):
        return weights.NAMED[p.normalize](logits)
    if not isinstance(p.normalize, local_p):
        return weights.apply(p.normalize, logits)
    gauss = p.normalize.gauss(_distance(p, p.normalize)).astype(p.compute)
    return np.asarray(weights.softmax(logits) * gauss)


def _distance(p: Problem, near: local_p) -> Array:
    """Return key position minus predicted position (..., n, m)."""
    positions = np.broadcast_to(near.positions, (*near.positions.shape[:-1], p.layout.n))
    return near.distance(p.layout.per_query_head(positions, 1), p.layout.m)


def _context(weight: Array, values: Array, logits: Array) -> Array:
    """Step 3: weight @ values, where masked values have no influence, even if they are NaN or inf."""
    finite = np.isfinite(values)
    if finite.all():
        context: Array = weight @ values
        return context
    visible = (~np.isneginf(logits)).astype(weight.dtype)
    plus, minus, nan = (
        (visible @ invalid.astype(weight.dtype)) > 0
        for invalid in (np.isposinf(values), np.isneginf(values), np.isnan(values))
    )
    context = weight @ np.where(finite, values, 0)
    context = np.where(plus, context + np.inf, context)
    context = np.where(minus, context - np.inf, context)
    return np.where(nan, np.nan, context)
