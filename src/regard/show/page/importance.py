"""What a page shows beside weights: how much the same inputs mattered, and how often the weights agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.show.page.section import compact, packed, readable

__all__ = ["Importance", "checked_importance", "described", "of_tokens"]

Array = NDArray[Any]
END = "</s>"  # of a source, in the vocabularies of `regard.seq2seq`
Importance = ArrayLike | Mapping[str, ArrayLike] | None


def checked_importance(importance: Importance, shape: tuple[int, ...]) -> dict[str, Array]:
    """Return arrays of importance by name, each (n, m) or of this shape (..., n, m); NaN where it is not known."""
    if importance is None:
        return {}
    arrays = importance if isinstance(importance, Mapping) else {"importance": importance}
    return {readable(name): _checked(array, shape) for name, array in arrays.items()}


def _checked(importance: ArrayLike, shape: tuple[int, ...]) -> Array:
    array = _check.numeric("importance", importance)
    shapes = dict.fromkeys((shape[-2:], shape))
    if array.shape not in shapes:
        _check.fail(
            f"importance must be {' or '.join(map(str, shapes))} as weights are. Got {array.shape} instead."
        )
    if np.isinf(array).any():
        _check.fail("importance must be finite, or NaN for an input that was not erased.")
    return array


def of_tokens(importance: Array, read: Sequence[str]) -> Array:
    """Return the importance (n, m) for all tokens that were read: NaN for those that can't be erased, as </s>."""
    floats = importance.astype(np.float64)
    floats[:, [token == END for token in read[: floats.shape[1]]]] = np.nan
    return np.pad(floats, ((0, 0), (0, len(read) - floats.shape[1])), constant_values=np.nan)


def described(name: str, weights: Array, importance: Array, drawn: Array | None = None) -> dict[str, Any]:
    """Describe an importance, of which `drawn` is drawn, and how often weights agree with it.

    weights (..., n, m); importance (n, m) or (..., n, m). The lists (...) are the `hits`, rows whose most attended
    column is the most important one, as `regard.attribution.agreement` counts them; the `rows` with at least two
    columns; and how many hits there would be by `chance`.
    """
    numbers = packed(compact(importance if drawn is None else drawn))
    return {"name": name, "numbers": numbers, **_counted(weights, importance)}


def _counted(weights: Array, importance: Array) -> dict[str, Any]:
    flat, size = weights.reshape(-1, *weights.shape[-2:]), weights[..., 0, 0].size
    each = np.broadcast_to(importance, weights.shape).reshape(flat.shape)
    counts = np.array([_agreed(*pair) for pair in zip(flat, each, strict=True)]).reshape(size, 3)
    shape = weights.shape[:-2]
    return {name: counts[:, k].reshape(shape).tolist() for k, name in enumerate(("hits", "rows", "chance"))}


def _agreed(weights: Array, importance: Array) -> tuple[float, int, float]:
    visible = ~(np.isnan(weights) | np.isnan(importance))
    weights, importance, visible = (
        array[visible.sum(axis=1) > 1] for array in (weights, importance, visible)
    )
    attended, needed = (_most(array, visible) for array in (weights, importance))
    hits = (attended & needed).sum(axis=1) / attended.sum(axis=1)
    return hits.sum(), len(hits), (needed.sum(axis=1) / visible.sum(axis=1)).sum()


def _most(array: Array, visible: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where the largest visible numbers of each row are."""
    shown = np.where(visible, array, -np.inf)
    return np.asarray(visible & (shown == shown.max(axis=1, keepdims=True)))
