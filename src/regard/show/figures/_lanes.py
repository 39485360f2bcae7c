"""The keys of one query as lanes, which compete for its attention, and the context that flows together from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.context import Attention
from regard.show.figures.figure import (
    drawable,
    house_style,
    new_figure,
    require_matplotlib,
    show_in_notebooks,
    write_literally,
)
from regard.show.steps import TEXTS, are_shares, filled, localized, weight_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__: list[str] = []

_LANES, BEST = 8, 5  # keys that are all drawn; of more the best, and the others together
_SCORE, _BAR, _SHARE, _CONTEXT, _END = 3.2, (3.5, 6.0), 7.0, (7.6, 10.0), 10.0  # places across the picture
_NUMBERS = 4  # of the context that are drawn
BLUE, ORANGE = "#3553c9", "#c96a35"


def lanes(
    attention: Attention,
    row: int,
    query: str,
    keys: Sequence[str],
    *,
    topics: Sequence[str] = (),
    texts: dict[str, Any] = TEXTS,
) -> Axes:
    """Draw the lanes of query `row` of an attention (n, m): the score, the exponential and the share of each key.

    `topics` names the first numbers of the context.
    """
    require_matplotlib()
    if attention.weights.ndim != 2:
        _check.fail(f"lanes are those of one head. Got weights of shape {attention.weights.shape} instead.")
    weights, scores = attention.weights[row], attention.scores[row]
    shown = _shown(weights)
    shares = are_shares(attention.weights)
    part = weight_text(shares, texts)
    share = texts["lanes"]["share"] if shares else texts["mechanism"]["rows"]["weight"]
    head = filled(texts["lanes"]["contextOf"], {"query": query})
    (names, topics, (head,)), fonts = drawable([list(keys), list(topics), [head]])
    count = len(shown) + (len(shown) < len(weights))
    with house_style():
        ax = new_figure(7.5, 0.8 + 0.4 * max(count, min(_NUMBERS, attention.context.shape[-1]))).add_subplot()
        ax.set_axis_off()
        ax.set(xlim=(0, _END), ylim=(count - 0.4, -1))
        powers = _powers(attention.logits[row])
        for y, j in enumerate(shown):
            hidden = np.isneginf(attention.logits[row, j])
            written = texts["mechanism"]["rows"]["masked"] if hidden else part(weights[j])
            _lane(ax, y, names[j], localized(f"{scores[j]:.2f}", texts), powers[j], written)
        if count > len(shown):
            rest = np.delete(weights, shown)
            others = filled(texts["lanes"]["others"], {"n": str(len(rest))})
            _lane(ax, count - 1, others, "", 0.0, part(rest.sum()))
        _context(ax, attention.context[row], topics, texts)
        heads = (_SCORE, texts["lanes"]["score"]), (_BAR[1], "exp"), (_SHARE, share), (_END, head)
        for x, text in heads:
            ax.text(x, -0.7, text, ha="right", color="gray")
        write_literally(ax, fonts)
        for artist in ax.texts:
            artist.set(fontfamily=fonts, parse_math=False)
    return show_in_notebooks(ax)


def _shown(weights: NDArray[Any]) -> list[int]:
    """Return the keys that have a lane, in their order."""
    if len(weights) <= _LANES:
        return list(range(len(weights)))
    return sorted(np.argsort(-weights, kind="stable")[:BEST].tolist())


def _powers(logits: NDArray[Any]) -> NDArray[Any]:
    """Return the exponentials, as shares of the largest."""
    most = logits.max()
    return np.zeros_like(logits) if np.isneginf(most) else np.exp(logits - most)


def _lane(ax: Axes, y: int, name: str, score: str, power: float, share: str) -> None:
    left, right = _BAR
    ax.text(0, y, name, va="center", weight="bold")
    ax.text(_SCORE, y, score, va="center", ha="right")
    ax.barh(y, (right - left) * power, 0.45, left=left, color=BLUE)
    ax.text(_SHARE, y, share, va="center", ha="right", weight="bold")


def _context(ax: Axes, context: NDArray[Any], topics: Sequence[str], texts: dict[str, Any]) -> None:
    """Draw the first numbers of the context as bars from 0, each with its topic, if it has one."""
    left, right = _CONTEXT
    longest = np.abs(context).max(initial=0) or 1
    for y, x in enumerate(context[:_NUMBERS]):
        width = (right - left) * abs(x) / longest * 0.6
        ax.barh(y, width, 0.45, left=left, color=BLUE if x >= 0 else ORANGE)
        ax.text(right, y, localized(f"{x:.2f}", texts), va="center", ha="right")
    for y, topic in enumerate(topics[:_NUMBERS]):
        ax.text(left, y - 0.45, topic, va="center", fontsize=8)
