"""Weights as a picture, drawn by Matplotlib without touching its global state."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.show.canvas import drawable, new_figure, require_matplotlib, save_figure, whole_figure
from regard.show.terminal import display_width, wrap
from regard.show.text import checked_weights, percent, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["heatmap", "save_heatmap"]

_CELL = 0.36  # inches, while the picture stays shorter than _LONGEST
_LONGEST = 10.0
_LEGIBLE = 0.16  # of the shorter side, as long as that has room for it: a word beside it can be read
_LOST = "#f4a582"  # of NaN: no blue
_MOST_NUMBERS = 16  # more rows or columns than this are drawn without numbers in the cells
_STEPS = (1, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)  # every so many rows are named
_MOST_WORDS = 60
_WIDE = 0.6  # of a letter's height
_NARROWEST, _MOST_LINES = 40, 3  # letters of a line of the title, and lines


def heatmap(
    weights: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw weights as a heat map: one row for each query, one column for each key, percents in the cells.

    The darkest cell is the largest weight of this picture, whatever it is.

    Parameters
    ----------
    weights
        (n, m), between 0 and 1; NaN is left blank.
    rows, columns
        n and m words; numbers from 1 by default.
    ax
        Where to draw; by default in a new figure, as large as the words need.
    title
        Above the picture, in three lines at most.

    Returns
    -------
    Axes
        Matplotlib's axes; the figure is `axes.figure`.

    Raises
    ------
    ValueError
        If `weights` is no (n, m) array of numbers between 0 and 1, or the words don't fit its shape.
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> axes = heatmap([[0.9, 0.1], [0.0, 1.0]], ["le", "chat"], ["the", "cat"])
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['the', 'cat']
    """
    require_matplotlib()
    import matplotlib

    cells = checked_weights(weights)
    if cells.size == 0:
        raise ValueError(f"a picture needs at least one query and one key: weights are {cells.shape}")
    names = [words(rows, cells.shape[0], "rows"), words(columns, cells.shape[1], "columns")]
    names, fonts = drawable(names)
    ax = _figure(cells.shape, names).add_subplot() if ax is None else ax
    top = float(np.fmax.reduce(cells, axis=None, initial=1e-9))
    height, width = _cell(cells.shape)
    colors = matplotlib.colormaps["Blues"].with_extremes(bad=_LOST)
    image = ax.imshow(cells.astype(np.float64), cmap=colors, vmin=0.0, vmax=top, aspect=height / width)
    points = _points(min(height, width))
    _name_places(ax.yaxis, names[0], fonts, _points(height))
    _name_places(ax.xaxis, names[1], fonts, _points(width), 72 * width)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_ylabel("" if rows is not None else "query")
    ax.set_xlabel("" if columns is not None else "key")
    ax.spines[:].set_visible(False)
    if max(cells.shape) <= _MOST_NUMBERS:
        _write_numbers(ax, cells, top, points)
    else:
        _add_scale(ax, image, cells.shape)
    if title is not None:
        _write_title(ax, title, points + 2)
    return ax


def save_heatmap(
    path: str | os.PathLike[str],
    weights: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    title: str | None = None,
) -> None:
    """Draw weights as a heat map into a file, which is there whole or not at all.

    Parameters
    ----------
    path
        Where to; the ending says what it is: .png, .svg, .pdf.
    weights
        (n, m), between 0 and 1.
    rows, columns
        n and m words; numbers from 1 by default.
    title
        Above the picture, in three lines at most.

    Raises
    ------
    ValueError
        If the ending is unknown, or for what `heatmap` raises it.
    ImportError
        If Matplotlib is not installed.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_heatmap(f"{folder}/weights.png", [[0.9, 0.1]])
    ...     [path.name for path in Path(folder).iterdir()]
    ['weights.png']
    """

    def draw() -> Figure:
        return whole_figure(heatmap(weights, rows, columns, title=title))

    save_figure(path, draw)


def _figure(shape: tuple[int, ...], names: list[list[str]]) -> Figure:
    """A figure with room for the cells and the words."""
    height, width = _cell(shape)
    margins = [1.0 + 0.1 * max(map(display_width, side)) for side in names]
    return new_figure(shape[1] * width + margins[0], shape[0] * height + margins[1])


def _cell(shape: tuple[int, ...]) -> tuple[float, float]:
    """Height and width of a cell: a square, unless the picture would be a hairline then."""
    square = min(_CELL, _LONGEST / max(shape))
    height, width = (max(square, min(_LEGIBLE, _LONGEST / count)) for count in shape)
    return height, width


def _points(cell: float) -> float:
    """Letters that fill a cell, neither tiny nor huge."""
    return min(max(72 * cell * 0.4, 6.0), 10.0)


def _add_scale(ax: Axes, image: AxesImage, shape: tuple[int, ...]) -> None:
    """Which shade is how many percent: beside the picture, or below one that is flat."""
    from matplotlib.ticker import PercentFormatter

    flat = 4 * shape[0] < shape[1]
    place = {"location": "bottom", "shrink": 0.3} if flat else {"shrink": 0.5}
    ax.figure.colorbar(image, ax=ax, aspect=30, format=PercentFormatter(1.0), **place)


def _name_places(
    axis: XAxis | YAxis, names: list[str], fonts: list[str], points: float, room: float = 0.0
) -> None:
    """Write the words at their rows, or at columns of `room` points, turned where they need more; not all of many."""
    step = next(step for step in _STEPS if len(names) <= _MOST_WORDS * step)
    places = list(range(step - 1, len(names), step))
    labels = [names[k] for k in places]
    style: dict[str, Any] = {}
    if room:
        turned = 0.7 * points * max(map(display_width, labels)) > room * step
        style = {"rotation": 50, "ha": "left"} if turned else {"ha": "center"}
    axis.set_ticks(places)
    axis.set_ticklabels(
        labels, parse_math=False, fontfamily=fonts, fontsize=points, rotation_mode="anchor", **style
    )
    axis.set_tick_params(length=0)


def _write_title(ax: Axes, title: str, points: float) -> None:
    """Above the picture, and hardly wider than it."""
    (names,), fonts = drawable([[title]])
    letters = 72 * whole_figure(ax).get_size_inches()[0] / (_WIDE * points)
    lines = wrap(names[0], max(int(letters), _NARROWEST), _MOST_LINES)
    ax.set_title("\n".join(lines), fontfamily=fonts, parse_math=False, fontsize=points)


def _write_numbers(ax: Axes, cells: NDArray[Any], top: float, points: float) -> None:
    """Percents, in white where the cell is dark; nothing for an exact 0."""
    for (i, j), weight in np.ndenumerate(cells):
        if weight != 0:  # NaN, too
            ink = "white" if weight > 0.55 * top else "black"
            ax.text(j, i, percent(weight), ha="center", va="center", color=ink, fontsize=points - 1)
