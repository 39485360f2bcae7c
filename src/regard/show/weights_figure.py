"""The weights of an attention as a figure: one heat map, or one for each head."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.show.figures._heatmap import MOST_HEADS, heatmap, heatmaps
from regard.show.figures.figure import localize, save
from regard.show.steps import TEXTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__: list[str] = []


def save_weights(
    path: Path,
    heads: NDArray[Any],
    names: tuple[list[str], list[str]],
    *,
    at: tuple[int, ...] = (),
    title: str = "",
    texts: dict[str, Any] = TEXTS,
) -> None:
    """Draw the weights (n, m) of one head, or those of several, which `at` has chosen."""
    figure = _figure(heads, names, at, title)
    localize(figure, texts)
    save(path, figure)


def _figure(
    heads: NDArray[Any], names: tuple[list[str], list[str]], at: tuple[int, ...], title: str
) -> Axes | Figure:
    if heads.ndim == 2:
        axes = heatmap(heads, *names, title=title)
        axes.set(xlabel="key", ylabel="query")
        return axes
    numbers = [",".join(map(str, (*at, *(i + 1 for i in index)))) for index in np.ndindex(heads.shape[:-2])]
    return heatmaps(heads, *names, names=numbers, title=title)


def chosen_heads(weights: NDArray[Any], at: tuple[int, ...] = ()) -> NDArray[Any]:
    """Return the weights of one head, or of all heads at the indices `at`."""
    heads: NDArray[Any] = weights[tuple(i - 1 for i in at)]
    if heads.size == math.prod(heads.shape[-2:]):
        return heads.reshape(heads.shape[-2:])
    if heads.ndim > 4 or math.prod(heads.shape[:-2]) > MOST_HEADS:
        _check.fail(
            f"a figure has up to two leading dimensions, of {MOST_HEADS} heads in all: they are {heads.shape[:-2]}. "
            "regard explain chooses some with --at"
        )
    return heads
