"""The checked arguments of one attention, the input of the definition and of every kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import Layout, layout
from regard.mask import Bound, Mask, MaskLike, MaskStep, as_mask, bound, window
from regard.position import BiasLike, BoundBias, bind_bias
from regard.scores import Score, ScoreLike, as_score
from regard.weights import NormalizeLike, Sink, as_normalize, is_softmax, local_m, local_p

__all__: list[str] = []

Array = NDArray[Any]

MOST_ITEMS = 1 << 31  # attentions in one call


class Problem(NamedTuple):
    """The arguments of one attention, with compatible shapes."""

    queries: Array
    keys: Array
    values: Array
    layout: Layout
    score: Score | Callable[[Any, Any], Any]
    mask: Mask | None
    bound_mask: Bound | None
    bias: BoundBias | None
    scale: float
    softcap: float | None
    normalize: NormalizeLike
    compute: np.dtype[Any]
    result: np.dtype[Any]
    sink: Sink | None
    values_are_constant: bool = False  # whether the gradient of the values is not computed

    @property
    def steps(self) -> list[MaskStep] | None:
        """The mask as a program; None for user-defined mask classes."""
        return [] if self.bound_mask is None else self.bound_mask.steps()


def prepare(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    score: ScoreLike,
    mask: MaskLike | None,
    bias: BiasLike | None,
    scale: float | None,
    softcap: float | None,
    normalize: NormalizeLike,
    sink: ArrayLike | None,
) -> Problem:
    """Check all arguments before any computation."""
    q, k, v = _check.three(queries, keys, values)
    arrays = {"queries": q, "keys": k, "values": v}
    scorer = as_score(score)
    if isinstance(scorer, Score):
        scorer.check(arrays)
    shape = layout(q, k, v)
    if shape.items > MOST_ITEMS:
        _check.fail(
            f"the leading dimensions must hold at most {MOST_ITEMS} attentions: {shape.items}", arrays
        )
    compute, result = _check.dtypes(q, k, v)
    if scale is None:
        scale = scorer.scale(q.shape[-1]) if isinstance(scorer, Score) else 1.0
    scale = _check.representable("scale", _check.number("scale", scale), compute)
    if softcap is not None:
        softcap = _check.number("softcap", softcap, positive=True)
        softcap = _check.representable("softcap", softcap, compute, positive=True)
    mask = None if mask is None else as_mask(mask)
    normalize = as_normalize(normalize)
    if isinstance(normalize, local_m):  # a softmax with a window mask
        near = window(normalize.width, normalize.width, normalize.align)
        mask, normalize = (near if mask is None else mask & near), "softmax"
    elif isinstance(normalize, local_p):
        _check.representable("width", normalize.width, compute, positive=True)
    if sink is not None and not is_softmax(normalize):
        hint = "a sink joins the sum of a softmax; local_m has one, too"
        _check.fail(f'sink needs normalize="softmax". Got {normalize!r:.60} instead.', hint=hint)
    with _check.naming_shapes(arrays):
        if isinstance(normalize, local_p):
            _check.broadcast(
                "positions", normalize.positions.shape, (*shape.batch_shape, shape.n), "(..., n)"
            )
        bound_mask = None if mask is None else bound(mask, shape)
        bound_bias = bind_bias(bias, shape, compute)
        bound_sink = None if sink is None else Sink(sink, shape, compute)
    return Problem(
        *(q, k, v, shape, scorer, mask, bound_mask, bound_bias, scale, softcap, normalize),
        *(compute, result, bound_sink),
    )
