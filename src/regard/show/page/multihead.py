"""Several heads of one input as a section: side by side, joined and projected, with positions on and off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.nn import multi_head_attention
from regard.show.page.mechanism import MOST, fits
from regard.show.page.section import Section, labels
from regard.show.steps import TEXTS, PageText

__all__ = ["multihead"]


def multihead(
    words: ArrayLike,
    query_weight: ArrayLike,
    key_weight: ArrayLike,
    value_weight: ArrayLike,
    output_weight: ArrayLike,
    /,
    *,
    heads: int,
    positions: str = "none",
    word_labels: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    head_names: Sequence[str] | None = None,
    values: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    about: str = "",
    title: str = "",
) -> Section:
    """Show multi-head attention of words, whose order can be changed.

    words (n, w); query_weight, key_weight (w, heads * d); value_weight (w, heads * e); output_weight (heads * e, u);
    `values` names the e numbers of a value, `outputs` the u numbers of an output.
    """
    arrays = {
        name: _check.parameter(name, array, letters).astype(np.float64)
        for name, array, letters in (
            ("words", words, "(n, w)"),
            ("query_weight", query_weight, "(w, heads * d)"),
            ("key_weight", key_weight, "(w, heads * d)"),
            ("value_weight", value_weight, "(w, heads * e)"),
            ("output_weight", output_weight, "(heads * e, u)"),
        )
    }
    x, *weights = arrays.values()
    multi_head_attention(x, None, *weights, heads=heads)  # checks the shapes
    _check.choice("positions", positions, tuple(TEXTS["multihead"]["kinds"]))
    are_small = (0 < array.size <= MOST and np.isfinite(array).all() for array in arrays.values())
    if not fits(len(x), len(x)) or not all(are_small):
        most = f"{MOST:,} of them and {math.isqrt(MOST)} words"
        _check.fail(f"a page changes matrices of finite numbers, up to {most}")
    if (d := weights[0].shape[1] // heads) % 2:
        _check.fail(f"rotary positions need an even size d of each head. Got {d} instead.")
    size = weights[2].shape[1] // heads
    data = {
        "words": x.tolist(),
        "labels": labels(word_labels, len(x), "word"),
        "features": labels(features, x.shape[1], "feature"),
        "heads": _heads(
            weights[:3], labels(head_names or [""] * heads, heads, "head"), labels(values, size, "value")
        ),
        "output_weight": weights[3].tolist(),
        "outputs": labels(outputs, weights[3].shape[1], "output"),
        "positions": positions,
        "picked": [0, 0],
        "about": about,
    }
    return Section("multihead", title or PageText("multihead.title"), data)


def _heads(weights: Sequence[NDArray[Any]], names: list[str], values: list[str]) -> list[dict[str, Any]]:
    """Return the columns of the projections that belong to each head."""
    parts = zip(*(np.split(weight, len(names), axis=1) for weight in weights), strict=True)
    return [
        {
            "name": name,
            "values": values,
            **dict(
                zip(
                    ("query_weight", "key_weight", "value_weight"),
                    (matrix.tolist() for matrix in part),
                    strict=True,
                )
            ),
        }
        for name, part in zip(names, parts, strict=True)
    ]
