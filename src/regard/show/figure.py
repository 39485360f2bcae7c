"""Weights as a picture, drawn by Matplotlib without touching its global state."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.show.canvas import (
    DOTS_PER_INCH,
    drawable,
    new_figure,
    require_matplotlib,
    save_figure,
    whole_figure,
)
from regard.show.terminal import display_width, wrap
from regard.show.text import checked_weights, head_name, percent, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["heatmap", "heatmaps", "save_heatmap", "save_heatmaps"]

_CELL = 0.36  # inches, while the picture stays shorter than _LONGEST
_LONGEST = 10.0
_LEGIBLE = 0.16  # of the shorter side, as long as that has room for it: a word beside it can be read
_LOST = "#f4a582"  # of NaN: no blue
_LEAST = 1e-5  # a scale that ends below would have six digits after the point
_MOST_NUMBERS = 16  # more rows or columns than this are drawn without numbers in the cells
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)  # every so many rows are named
_CLOSEST = 0.11  # inches between two words that can be read
_PANEL, _WIDEST, _PAGE = (
    2.4,
    6.0,
    24.0,
)  # inches: of the longer side of one of many, at most, of all beside each other
MOST_HEADS = 256
_ACROSS, _MOST_ACROSS = 4, 8  # beside each other, where nothing says how many, and at most
_LOW = 1.5  # inches: a scale beside them would have no room for its numbers
_WIDE = 0.6  # of a letter's height
_TITLE = 8.0  # points, above one of many
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
        (n, m), between 0 and 1; NaN is drawn in red.
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
    cells = checked_weights(weights)
    if cells.size == 0:
        raise ValueError(f"a picture needs at least one query and one key: weights are {cells.shape}")
    names = [words(rows, cells.shape[0], "rows"), words(columns, cells.shape[1], "columns")]
    names, fonts = drawable(names)
    ax = _figure(cells.shape, names).add_subplot() if ax is None else ax
    top, cell = _largest(cells), _cell(cells.shape)
    image = _draw_cells(ax, cells, top, cell)
    points = _points(min(cell))
    _name_places(ax.yaxis, names[0], fonts, cell[0])
    _name_places(ax.xaxis, names[1], fonts, cell[1], turn=True)
    ax.set_ylabel("" if rows is not None else "query")
    ax.set_xlabel("" if columns is not None else "key")
    if max(cells.shape) <= _MOST_NUMBERS:
        _write_numbers(ax, cells, top, points)
    else:
        flat = 4 * cells.shape[0] < cells.shape[1]
        _add_scale(image, [ax], {"location": "bottom", "shrink": 0.3} if flat else {"shrink": 0.5})
    if title is not None:
        width = whole_figure(ax).get_size_inches()[0]
        ax.set_title(**_written(title, width, points + 2))
    return ax


def heatmaps(
    weights: ArrayLike | Sequence[ArrayLike],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the weights of several heads beside each other, or of the heads of several layers below each other.

    One scale for all: the darkest cell is the largest weight of the whole picture.

    Parameters
    ----------
    weights
        (h, n, m) or (layers, h, n, m), between 0 and 1, such as ``[attention.weights for attention in seen]`` of what
        `regard.record` has seen, ``attention.weights[sentence]`` of a batch; NaN is drawn in red.
    rows, columns
        n and m words; numbers from 1 by default.
    names
        What stands above each of them, in order; by default the numbers of head, or of layer and head, from 1.
    title
        Above the picture, in three lines at most.

    Returns
    -------
    Figure
        Matplotlib's figure.

    Raises
    ------
    ValueError
        If `weights` is no such array of numbers between 0 and 1, there are none or more than 256 heads, or the words
        or names don't fit its shape.
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> figure = heatmaps(np.full((2, 3, 4), 0.25), names=["near", "far"])
    >>> [ax.get_title() for ax in figure.axes[:2]]
    ['near', 'far']
    """
    require_matplotlib()
    cells = _checked_heads(weights)
    count, shape = math.prod(cells.shape[:-2]), cells.shape[-2:]
    sides, fonts = drawable([words(rows, shape[0], "rows"), words(columns, shape[1], "columns")])
    above = (
        list(map(head_name, np.ndindex(cells.shape[:-2]))) if names is None else words(names, count, "heads")
    )
    across = _across(cells.shape[1]) if cells.ndim == 4 else min(count, _ACROSS)
    down = -(-count // across)
    # As large as words need, up to some size.
    panel = max(_PANEL, min(1.02 * _CLOSEST * max(shape), _WIDEST, _PAGE / across))
    height, width = _cell(shape, panel)
    title_width = (max(map(display_width, above)) + 1) * _WIDE * _TITLE / 72
    cell = height, max(width, min(title_width, _PANEL) / shape[1])  # names stand beside each other
    figure = _figure(shape, sides, cell, (down, across))
    figure.set_layout_engine("compressed")
    top, image, axes = _largest(cells), None, figure.subplots(down, across, squeeze=False).ravel().tolist()
    for number, (ax, one) in enumerate(zip(axes, cells.reshape(count, *shape), strict=False)):
        image = _draw_cells(ax, one, top, cell)
        _name_places(ax.yaxis, sides[0], fonts, cell[0], shown=number % across == 0)
        _name_places(ax.xaxis, sides[1], fonts, cell[1], shown=number < across, turn=True)
        ax.set_ylabel("query" if rows is None and number % across == 0 else "")
        ax.set_xlabel("key" if columns is None and number < across else "")
        ax.set_title(**_written(above[number], panel, _TITLE))
    for ax in axes[count:]:
        ax.set_axis_off()
    assert image is not None
    flat = down * shape[0] * cell[0] < _LOW
    _add_scale(image, axes, {"location": "bottom", "shrink": 0.3} if flat else {"shrink": min(1.0, 2 / down)})
    if title is not None:
        written = _written(title, figure.get_size_inches()[0], _points(1.0) + 2)
        figure.suptitle(written.pop("label"), **written)
    return figure


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


def save_heatmaps(
    path: str | os.PathLike[str],
    weights: ArrayLike | Sequence[ArrayLike],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
) -> None:
    """Draw the weights of several heads into a file, which is there whole or not at all.

    Parameters
    ----------
    path
        Where to; the ending says what it is: .png, .svg, .pdf.
    weights, rows, columns, names, title
        As for `heatmaps`.

    Raises
    ------
    ValueError
        If the ending is unknown, or for what `heatmaps` raises it.
    ImportError
        If Matplotlib is not installed.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_heatmaps(f"{folder}/heads.png", [[[0.9, 0.1]], [[0.0, 1.0]]])
    ...     [path.name for path in Path(folder).iterdir()]
    ['heads.png']
    """
    save_figure(path, lambda: heatmaps(weights, rows, columns, names=names, title=title))


def _checked_heads(weights: ArrayLike | Sequence[ArrayLike]) -> NDArray[Any]:
    """Return the weights of some heads, but not of too many, as an array."""
    shapes = dict.fromkeys(map(np.shape, weights)) if isinstance(weights, Sequence) else {}
    if len(shapes) > 1:
        raise ValueError(f"weights must have one shape: {' and '.join(map(str, shapes))}")
    cells = checked_weights(weights, dimensions=(3, 4))
    if cells.size == 0:
        raise ValueError(f"a picture needs at least one head, query and key: weights are {cells.shape}")
    if math.prod(cells.shape[:-2]) > MOST_HEADS:
        raise ValueError(f"a picture shows up to {MOST_HEADS} heads: weights are {cells.shape}")
    return cells


def _across(heads: int) -> int:
    """How many heads of a layer stand beside each other: all, or such a part that rows are full."""
    parts = [part for part in range(_ACROSS, _MOST_ACROSS + 1) if heads % part == 0]
    return heads if heads <= _MOST_ACROSS else max(parts, default=_MOST_ACROSS)


def _largest(cells: NDArray[Any]) -> float:
    """Return the weight that is drawn darkest: the largest, but for those that a scale has no number for."""
    largest = float(np.fmax.reduce(cells, axis=None, initial=0))
    return largest if largest >= _LEAST else 1.0


def _figure(
    shape: tuple[int, ...],
    names: list[list[str]],
    cell: tuple[float, float] | None = None,
    panels: tuple[int, int] = (1, 1),
) -> Figure:
    """A figure with room for the cells and the words."""
    height, width = _cell(shape) if cell is None else cell
    margins = [1.0 + 0.1 * max(map(display_width, side)) for side in names]
    between = 0.3 if panels != (1, 1) else 0.0
    return new_figure(
        panels[1] * (shape[1] * width + between / 2) + margins[0],
        panels[0] * (shape[0] * height + between) + margins[1],
    )


def _cell(shape: tuple[int, ...], longest: float = _LONGEST) -> tuple[float, float]:
    """Height and width of a cell: a square, unless the picture would be a hairline then."""
    square = min(_CELL, longest / max(shape))
    height, width = (max(square, min(_LEGIBLE, longest / count)) for count in shape)
    return height, width


def _points(cell: float) -> float:
    """Letters that fill a cell, neither tiny nor huge."""
    return min(max(72 * cell * 0.4, 6.0), 10.0)


def _draw_cells(ax: Axes, cells: NDArray[Any], top: float, cell: tuple[float, float]) -> AxesImage:
    """Draw the weights, `top` the darkest, in cells of this height and width."""
    import matplotlib

    colors = matplotlib.colormaps["Blues"].with_extremes(bad=_LOST)
    # Smoothed only where cells are more than dots, since that smooths both ways: rows would look like their neighbours.
    smooth = None if min(cell) * DOTS_PER_INCH < 1 else "nearest"
    image = ax.imshow(
        cells.astype(np.float64),
        cmap=colors,
        vmin=0.0,
        vmax=top,
        aspect=cell[0] / cell[1],
        interpolation=smooth,
    )
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.spines[:].set_visible(False)
    return image


def _add_scale(image: AxesImage, axes: list[Axes], place: dict[str, Any]) -> None:
    """Which shade is how many percent: beside the picture, or below one that is flat."""
    from matplotlib.ticker import PercentFormatter

    whole_figure(axes[0]).colorbar(image, ax=axes, aspect=30, format=PercentFormatter(1.0), **place)


def _name_places(
    axis: XAxis | YAxis,
    names: list[str],
    fonts: list[str],
    cell: float,
    *,
    shown: bool = True,
    turn: bool = False,
) -> None:
    """Write the words at their rows, or at their columns, turned where they need more room; not all of many."""
    points = _points(cell)
    step = next(step for step in _STEPS if step * cell >= _CLOSEST)
    places = list(range(step - 1, len(names), step)) if shown else []
    labels = [names[k] if step == 1 else f"{k + 1} {names[k]}" for k in places]  # of many, which one
    style: dict[str, Any] = {}
    if turn:
        longest = max(map(display_width, labels), default=0)
        turned = 0.7 * points * (longest + (longest > 1)) > 72 * cell * step
        style = {"rotation": 50, "ha": "left"} if turned else {"ha": "center"}
    axis.set_ticks(places)
    axis.set_ticklabels(
        labels, parse_math=False, fontfamily=fonts, fontsize=points, rotation_mode="anchor", **style
    )
    axis.set_tick_params(length=0 if step == 1 else 3)


def _written(title: str, width: float, points: float) -> dict[str, Any]:
    """What Matplotlib needs to write a title above a picture of so many inches, and hardly wider than it."""
    (names,), fonts = drawable([[title]])
    letters = 72 * width / (_WIDE * points)
    lines = wrap(names[0], max(int(letters), _NARROWEST), _MOST_LINES)
    return {"label": "\n".join(lines), "fontfamily": fonts, "parse_math": False, "fontsize": points}


def _write_numbers(ax: Axes, cells: NDArray[Any], top: float, points: float) -> None:
    """Percents, in white where the cell is dark; nothing for an exact 0."""
    for (i, j), weight in np.ndenumerate(cells):
        if weight != 0:  # NaN, too
            ink = "white" if weight > 0.55 * top else "black"
            ax.text(j, i, percent(weight), ha="center", va="center", color=ink, fontsize=points - 1)
