"""Attention in a plane as a section: keys as arrows, a query that can be turned, the context between the values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from regard import _check
from regard.show.page.mechanism import mechanism
from regard.show.page.section import Section, labels
from regard.show.steps import PageText

__all__ = ["geometry"]


def geometry(
    words: ArrayLike,
    query: ArrayLike,
    /,
    *,
    features: Sequence[str] | None = None,
    word_labels: Sequence[str] | None = None,
    about: str = "",
    title: str = "",
) -> Section:
    """Show the attention of a query to words with two features, which are keys and values.

    words (m, 2); query (2,).
    """
    keys, direction = _check.parameter("words", words, "(m, 2)"), _check.parameter("query", query, "(2,)")
    if keys.shape[1] != 2 or len(direction) != 2:
        shapes = f"{keys.shape} and {direction.shape}"
        _check.fail(f"words (m, 2) and the query (2,) must have two features. Got shapes {shapes} instead.")
    named = labels(word_labels, len(keys), "word")
    attention = mechanism(direction[None], keys, keys, query_labels=["query"], key_labels=named)
    data = {
        "words": attention.data["keys"],
        "query": [math.degrees(math.atan2(direction[1], direction[0])), float(np.hypot(*direction))],
        "labels": named,
        "features": labels(features, 2, "feature"),
        "picked": int(np.argmax(keys @ direction)),
        "about": about,
    }
    return Section("geometry", title or PageText("geometry.title"), data, text=attention.text)
