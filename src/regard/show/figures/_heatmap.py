"""Heat maps of attention weights and scores as Matplotlib figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from regard import _check
from regard.show.figures.figure import (
    DOTS_PER_INCH,
    LETTER,
    drawable,
    house_style,
    ink,
    new_figure,
    root_figure,
    show_in_notebooks,
    wrapped,
    write_literally,
)
from regard.show.terminal.cells import LARGEST, Cells, checked_cells, darkest, head_name, labels, percent
from regard.show.terminal.text import display_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["heatmap", "heatmaps"]

_CELL = 0.36  # inches, while the picture stays shorter than _LONGEST
_LONGEST = 10.0
_LEGIBLE = 0.16  # of the shorter side, where there is room: a label of this height is legible
_NAN = "#ffd42a"  # no shade of the two colour maps
_HATCH, _LINES = "////", "#b8b8b8"  # of masked cells
_DOTS = 2  # dots of an image: a thinner row could be lost when it is scaled
_MOST_NUMBERS = 16  # more rows or columns than this are drawn without numbers in the cells
_NUMBER = 0.2  # inches: a smaller cell has no room for a number
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)  # of the labels, in rows
_CLOSEST = 0.11  # inches between two legible labels
_PANEL, _WIDEST = 2.4, 6.0  # inches, of the longer side of one of many: by default and at most
_PAGE = 24.0  # inches, of all side by side
MOST_HEADS = 256
_ACROSS, _MOST_ACROSS = 4, 8  # panels in a row, by default and at most
_LOW = 1.5  # inches: the scale is below pictures that are not as high together
_SHORTEST = 0.7  # inches, of a scale below: its numbers don't overlap
_TITLE = 9.5  # points, above one of many
_NARROWEST = 40  # letters of a line of the title


@house_style()
def heatmap(
    weights: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    signed: bool = False,
    vmax: float | None = None,
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw weights as a heat map: one row for each query, one column for each key, percents in the cells.

    A colour bar shows the scale. Cells that would be too small to be visible are drawn in blocks, each with its value
    of largest magnitude, and the label of the scale gives the size of the blocks. Masked cells are hatched, NaN is
    yellow.

    Parameters
    ----------
    weights
        (n, m), between 0 and 1; a masked array may leave cells out.
    rows, columns
        n and m labels; numbers from 1 by default.
    signed
        Whether these are scores, logits or differences: any real numbers, in two colours around 0. -inf is drawn like
        a masked cell.
    vmax
        The value of the darkest shade; larger values have it, too. By default the largest value, but of weights at
        least 4 / m, four times that of uniform ones.
    ax
        Axes to draw in; by default those of a new figure, as large as the labels need, with the same appearance under
        every style of Matplotlib. Labels are black, or white on a dark figure.
    title
        Above the picture, in three lines at most.

    Returns
    -------
    Axes
        Matplotlib's axes; the figure is `axes.figure`. A notebook displays the picture where a new figure was made.

    Raises
    ------
    ValueError
        If `weights` is not an (n, m) array of numbers between 0 and 1 (or of real numbers), the labels don't fit it,
        or `vmax` is not positive.
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> axes = heatmap([[0.9, 0.1], [0.0, 1.0]], ["le", "chat"], ["the", "cat"])
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['the', 'cat']
    """
    cells = checked_cells(weights, signed=signed)
    if cells.values.size == 0:
        _check.fail(f"a picture needs at least one query and one key: weights are {cells.values.shape}")
    shape = n, m = cells.values.shape
    names, fonts = drawable([labels(rows, n, "rows"), labels(columns, m, "columns"), [title or ""]])
    scale = _scale(cells, vmax)
    is_new = ax is None
    ax = _figure(shape, names[:2]).add_subplot() if ax is None else ax
    cell = _cell(shape) if is_new else _cell_in(ax, shape)
    image = _draw_cells(ax, cells, scale, cell)
    _label_axis(ax.yaxis, names[0], "query" if rows is None else "", cell[0])
    _label_axis(ax.xaxis, names[1], "key" if columns is None else "", cell[1])
    if title is not None:
        ax.set_title(**_wrapped(names[2][0], root_figure(ax).get_size_inches()[0], _points(min(cell)) + 2))
    write_literally(ax, fonts)
    if _has_numbers(shape, cell, scale):
        _write_numbers(ax, cells, scale, _points(min(cell), 0.4))
    _add_scale(image, [ax], scale, _blocks(shape, cell), (n * cell[0], m * cell[1]))
    return show_in_notebooks(ax) if is_new else ax


@house_style()
def heatmaps(
    weights: ArrayLike | Sequence[ArrayLike],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    signed: bool = False,
    vmax: float | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the weights of several heads side by side, or of several layers, one below the other.

    All heads have one scale. Cells that would be too small to be visible are drawn in blocks, as in `heatmap`.

    Parameters
    ----------
    weights
        (h, n, m) or (layers, h, n, m), between 0 and 1, such as ``[attention.weights for attention in recorded]`` of
        `regard.record() as recorded`, ``attention.weights[sentence]`` of a batch. Masked cells of a masked array are
        hatched; NaN is yellow.
    rows, columns
        n and m labels; numbers from 1 by default.
    names
        The titles of the heads, in order; by default the numbers of head, or of layer and head, from 1.
    signed, vmax
        As for `heatmap`.
    title
        Above the picture, in three lines at most.

    Returns
    -------
    Figure
        Matplotlib's figure, which a notebook displays.

    Raises
    ------
    ValueError
        If `weights` is not such an array of numbers between 0 and 1 (or of real numbers), has none or more than 256
        heads, the labels or names don't fit its shape, or `vmax` is not positive.
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> figure = heatmaps(np.full((2, 3, 4), 0.25), names=["near", "far"])
    >>> [ax.get_title() for ax in figure.axes[:2]]
    ['near', 'far']
    """
    cells = _checked_heads(weights, signed)
    *heads, n, m = cells.values.shape
    count, shape = math.prod(heads), (n, m)
    above = list(map(head_name, np.ndindex(*heads))) if names is None else labels(names, count, "heads")
    (*sides, above, (heading,)), fonts = drawable(
        [labels(rows, n, "rows"), labels(columns, m, "columns"), above, [title or ""]]
    )
    scale = _scale(cells, vmax)
    across = _across(heads[1]) if len(heads) == 2 else min(count, _ACROSS)
    down = -(-count // across)
    # As large as words need, up to some size.
    panel = max(_PANEL, min(1.02 * _CLOSEST * max(shape), _WIDEST, _PAGE / across))
    height, width = _cell(shape, panel)
    title_width = (max(map(display_width, above)) + 1) * LETTER * _TITLE / 72
    cell = height, max(width, min(title_width, _PANEL) / m)  # names stand next to each other
    figure = _figure(shape, sides, cell, (down, across))
    figure.set_layout_engine("compressed")
    axes = figure.subplots(down, across, squeeze=False).ravel().tolist()
    each = [Cells(*parts) for parts in zip(*(part.reshape(count, n, m) for part in cells[:2]), strict=True)]
    for number, (ax, head) in enumerate(zip(axes, each, strict=False)):
        image = _draw_cells(ax, head, scale, cell)
        left, top = number % across == 0, number < across
        _label_axis(ax.yaxis, sides[0] if left else [], "query" if rows is None and left else "", cell[0])
        _label_axis(ax.xaxis, sides[1] if top else [], "key" if columns is None and top else "", cell[1])
        ax.set_title(**_wrapped(above[number], panel, _TITLE))
        write_literally(ax, fonts)
    for ax in axes[count:]:
        ax.set_axis_off()
    _add_scale(image, axes, scale, _blocks(shape, cell), (down * n * cell[0], across * m * cell[1]))
    if title is not None:
        above_all = _wrapped(heading, figure.get_size_inches()[0], _points(1.0) + 2)
        write_literally(figure.suptitle(above_all["label"], fontsize=above_all["fontsize"]), fonts)
    return figure


class _Scale(NamedTuple):
    """The range of the colours: from 0, or from -top, to top."""

    top: float
    signed: bool
    extend: str  # the ends beyond which there are values
    masked: bool  # whether there are cells without a number


def _checked_heads(weights: ArrayLike | Sequence[ArrayLike], signed: bool) -> Cells:
    """Return the cells of one to 256 heads."""
    weights = _check.plain("weights", weights, masked=True)
    shapes = dict.fromkeys(map(np.shape, weights)) if isinstance(weights, list) else {}
    if len(shapes) > 1:
        _check.fail(f"weights must have one shape: {' and '.join(map(str, shapes))}")
    cells = checked_cells(weights, (3, 4), signed=signed)
    shape = cells.values.shape
    if cells.values.size == 0:
        _check.fail(f"a picture needs at least one head, query and key: weights are {shape}")
    if math.prod(shape[:-2]) > MOST_HEADS:
        _check.fail(f"a picture shows up to {MOST_HEADS} heads: weights are {shape}")
    return cells


def _across(heads: int) -> int:
    """Return how many heads of a layer form a row: all, or a divisor, so that rows are full."""
    parts = [part for part in range(_ACROSS, _MOST_ACROSS + 1) if heads % part == 0]
    return heads if heads <= _MOST_ACROSS else max(parts, default=_MOST_ACROSS)


def _scale(cells: Cells, vmax: float | None) -> _Scale:
    """Return the range of the colours."""
    if vmax is not None and not 0 < vmax <= LARGEST:
        _check.fail(f"vmax must be a positive number, {LARGEST} at most. Got {vmax} instead.")
    top = darkest(cells) if vmax is None else float(vmax)
    beyond = bool((cells.values > top).any()), bool((cells.values < -top).any())
    extend = ("neither", "max", "min", "both")[beyond[0] + 2 * beyond[1]]
    return _Scale(top, cells.signed, extend, bool(cells.missing.any()))


def _figure(
    shape: tuple[int, ...],
    names: list[list[str]],
    cell: tuple[float, float] | None = None,
    panels: tuple[int, int] = (1, 1),
) -> Figure:
    """Return a figure with room for the cells and the labels."""
    height, width = _cell(shape) if cell is None else cell
    margins = [1.0 + 0.1 * max(map(display_width, side)) for side in names]
    between = 0.3 if panels != (1, 1) else 0.0
    high, wide = panels[0] * shape[0] * height, panels[1] * shape[1] * width
    below, right = (0.7, 0.0) if _is_below(high, wide) else (0.0, 0.9)  # for the scale
    return new_figure(
        wide + panels[1] * between / 2 + margins[0] + right,
        high + panels[0] * between + margins[1] + below,
    )


def _cell(shape: tuple[int, ...], longest: float = _LONGEST) -> tuple[float, float]:
    """Return height and width of a cell: a square, unless the map would be a hairline."""
    square = min(_CELL, longest / max(shape))
    height, width = (max(square, min(_LEGIBLE, longest / count)) for count in shape)
    return height, width


def _cell_in(ax: Axes, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return height and width of a cell in axes of the user."""
    (height, width), box, dots = _cell(shape), ax.bbox, root_figure(ax).dpi
    factor = min(box.height / dots / (shape[0] * height), box.width / dots / (shape[1] * width))
    return factor * height, factor * width


def _points(cell: float, part: float = 0.55) -> float:
    """Return the font size for a cell, a part of its height from 6 to 10 points."""
    return min(max(72 * cell * part, 6.0), 10.0)


def _blocks(shape: tuple[int, ...], cell: tuple[float, float]) -> tuple[int, int]:
    """Return how many rows and columns are drawn as one, so that none is thinner than two dots."""
    rows, columns = (
        min(math.ceil(_DOTS / (side * DOTS_PER_INCH)), count) for side, count in zip(cell, shape, strict=True)
    )
    return rows, columns


def _pooled(cells: Cells, blocks: tuple[int, int]) -> Cells:
    """Return the value of largest magnitude in each block: no peak is lost, and no NaN."""
    if blocks == (1, 1):
        return cells
    n, m = cells.values.shape

    def reduced(function: Any, array: Any) -> Any:
        rows = function.reduceat(array, range(0, n, blocks[0]), axis=-2)
        return function.reduceat(rows, range(0, m, blocks[1]), axis=-1)

    high, low = reduced(np.maximum, cells.values), reduced(np.minimum, cells.values)
    values = np.where(low + high < 0, low, high)
    return Cells(values, reduced(np.logical_and, cells.missing), cells.signed)


def _draw_cells(ax: Axes, cells: Cells, scale: _Scale, cell: tuple[float, float]) -> AxesImage:
    """Draw numbers in cells of this height and width."""
    import matplotlib

    n, m = cells.values.shape
    blocks = _blocks((n, m), cell)
    values, missing, _ = _pooled(cells, blocks)
    # Words and ticks stay where the rows and columns are, of which a block has several.
    bounds = -0.5, values.shape[1] * blocks[1] - 0.5, values.shape[0] * blocks[0] - 0.5, -0.5
    where: dict[str, Any] = {
        "extent": bounds,
        "origin": "upper",
        "aspect": cell[0] / cell[1],
        "interpolation": "nearest",
    }
    colors = matplotlib.colormaps["RdBu" if scale.signed else "Blues"].with_extremes(bad=_NAN)
    low = -scale.top if scale.signed else 0.0
    if missing.any():  # transparent, above hatched axes
        ax.patch.set(facecolor="white", hatch=_HATCH, edgecolor=_LINES, linewidth=0)
        where["alpha"] = (~missing).astype(np.float64)
    image = ax.imshow(values.astype(np.float64), cmap=colors, vmin=low, vmax=scale.top, **where)
    ax.set(xlim=(-0.5, m - 0.5), ylim=(n - 0.5, -0.5))
    _plain_axes(ax)
    return image


def _plain_axes(ax: Axes) -> None:
    """Set labels on the left and above, and remove additions of a style to axes of the user."""
    color = ink(ax)
    ax.xaxis.tick_top()
    ax.yaxis.tick_left()
    ax.xaxis.set_label_position("top")
    ax.spines[:].set_visible(False)
    ax.grid(False)
    ax.minorticks_off()
    ax.tick_params(color=color, labelcolor=color, direction="out", width=0.8)


def _add_scale(
    image: AxesImage, axes: list[Axes], scale: _Scale, blocks: tuple[int, int], size: tuple[float, float]
) -> None:
    """Add the colour bar, next to the picture or below a flat one, and a note on the meaning of a block."""
    color = ink(axes[0])
    bar = axes[0].figure.colorbar(
        image,
        ax=axes,
        aspect=30,
        format=_number if scale.signed else _share,
        extend=scale.extend,
        **_scale_options(*size, scale),
    )
    bar.outline.set_visible(False)
    bar.ax.grid(False)
    bar.ax.minorticks_off()
    bar.ax.tick_params(colors=color, labelsize=8, length=2, width=0.8)
    label = "" if scale.signed else "weight"
    if blocks != (1, 1):
        label = f"largest {'magnitude' if scale.signed else 'weight'} of {blocks[0]} × {blocks[1]}"
    bar.set_label("; ".join(filter(None, [label, "hatched: masked" * scale.masked])), color=color, fontsize=8)


def _is_below(height: float, width: float) -> bool:
    """Return whether maps of this size in inches have the colour bar below, for want of space next to them."""
    return height < _LOW and width >= _SHORTEST


def _scale_options(height: float, width: float, scale: _Scale) -> dict[str, Any]:
    """Return position and ticks of the colour bar for maps of this size in inches."""
    ends = [-scale.top, 0.0, scale.top] if scale.signed else [0.0, scale.top]
    if _is_below(height, width):
        return {"location": "bottom", "shrink": max(0.3, _SHORTEST / width), "ticks": ends}
    if height < _LOW:
        return {"ticks": ends[::2] if scale.signed else ends}
    return {"shrink": max(0.5, min(0.8, 4.8 / height))}


def _share(weight: float, _: int) -> str:
    return f"{100 * weight:.3g} %"


def _number(value: float, _: int) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _label_axis(axis: XAxis | YAxis, names: list[str], title: str, cell: float) -> None:
    """Label rows or columns, rotated where the columns are narrow; of many, at regular intervals."""
    points = _points(cell)
    step = next(step for step in _STEPS if step * cell >= _CLOSEST)
    ticks = list(range(step - 1, len(names), step))
    # Of many labels, each begins with the number of its row unless it is a number itself.
    bare = step == 1 or all(map(_is_number, names))
    labels = [names[k] if bare else f"{k + 1} {names[k]}" for k in ticks]
    style: dict[str, Any] = {"fontsize": points, "rotation_mode": "anchor"}
    if axis.axis_name == "x":
        longest = max(map(display_width, labels), default=0)
        turned = 0.7 * points * (longest + (longest > 1)) > 72 * cell * step
        style |= {"rotation": 50, "ha": "left"} if turned else {"ha": "center"}
    axis.set_ticks(ticks, labels, **style)
    axis.set_tick_params(length=0 if step == 1 else 3)
    axis.set_label_text(title, fontsize=10)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _wrapped(title: str, width: float, points: float) -> dict[str, Any]:
    """Return a title of this font size that is wrapped to about this width in inches."""
    return {"label": wrapped(title, width, points, _NARROWEST), "fontsize": points}


def _has_numbers(shape: tuple[int, ...], cell: tuple[float, float], scale: _Scale) -> bool:
    """Return whether the cells are few and large enough for their numbers."""
    short = not scale.signed or 0.005 <= scale.top < 1000
    return short and max(shape) <= _MOST_NUMBERS and min(cell) >= _NUMBER


def _write_numbers(ax: Axes, cells: Cells, scale: _Scale, points: float) -> None:
    """Write percents, or signed numbers, in white where the cell is dark; nothing for an exact 0."""
    digits = 2 if scale.top < 1 else 1 if scale.top < 10 else 0
    for (i, j), value in np.ndenumerate(cells.values):
        if value != 0:  # NaN, too
            number = _signed_number(value, digits) if scale.signed else percent(value)
            color = "white" if abs(value) > 0.55 * scale.top else "black"
            ax.text(j, i, number, ha="center", va="center", color=color, fontsize=points - 1)


def _signed_number(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return "·" if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")
