"""A picture with the attention of a model at each token of its caption, as a Matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.show.figures.figure import LETTER, drawable, house_style, new_figure, wrapped
from regard.show.pixels import averaged, checked_picture
from regard.show.terminal.overlay import checked_grids, checked_tokens
from regard.show.terminal.text import display_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

__all__ = ["captioned"]

_MOST_TOKENS = 256
_SIDE = 1.7  # inches, the longer side of a panel
_THINNEST = 0.12  # inches, its shorter side: the picture of a single row of pixels is no hairline
_WORD = 1.5  # inches: panels that are narrower than their words stand at most so far apart
_PAGE = 11.5  # inches, of the panels of a row by default
_GAP = 0.16  # inches, between two panels
_PAD = 4.5  # points, between a panel and the baseline of its word
_POINTS, _TITLE = 9.0, 12.0  # font sizes
_PIXELS = 256  # of the longer side of a panel, at least
_MARK = (1.0, 96 / 255, 0.0)  # a colour that neither ink nor paper has, as on the pages
_COVER = 0.7  # of a pixel, where the weight is the largest

Pixels = NDArray[np.float32]


@house_style()
def captioned(
    picture: ArrayLike,
    weights: ArrayLike,
    tokens: Sequence[str],
    *,
    grid: tuple[int, int] | None = None,
    title: str | None = None,
    columns: int | None = None,
) -> Figure:
    """Draw a picture, and again for each token of its caption with a translucent colour over the attended parts.

    Each panel has its own scale: pixels are unchanged where the weight is 0, and covered the most where it is the
    largest of this token. The colour therefore compares cells of one token, not tokens.

    Parameters
    ----------
    picture
        (H, W) or (H, W, 1) in shades of grey, (H, W, 3) in red, green and blue, or (H, W, 4) with opacity; uint8, or
        floats between 0 and 1. What is transparent is drawn on white.
    weights
        (n, h, w) weights of the cells of the picture, row by row, or (n, h * w) with `grid`. They lie between 0 and
        1; a masked cell has the weight 0. Cells cover the picture in equal rectangles.
    tokens
        n tokens of the caption, at most 256. A token that is wider than a panel is written in up to three lines.
    grid
        (h, w), the rows and columns of cells; needed where `weights` is (n, h * w).
    title
        Above the figure, in three lines at most.
    columns
        The number of panels in a row, the picture's own included; by default, the fewest rows of up
        to 11.5 inches, of about the same length.

    Returns
    -------
    Figure
        Matplotlib's figure, which a notebook displays. Its axes are the picture's, then one for each token.

    Raises
    ------
    ValueError
        If `picture` has another shape or numbers out of its range, the shape of `weights` or the number of tokens
        does not fit, a weight is not between 0 and 1, or `columns` is below 1.
    TypeError
        If `picture` or `weights` are of another data type, or `tokens` is one string.
    ImportError
        If Matplotlib is not installed.

    Notes
    -----
    Between the centres of cells, weights are interpolated with SciPy's `PchipInterpolator` along each
    side: a smooth curve without overshoot. So the centre of a cell shows its weight unchanged, no place is covered
    more than the cell with the largest weight, and none is clear between two covered cells. A Gaussian filter could
    move the place that is covered the most.

    References
    ----------
    Xu et al. 2015, "Show, attend and tell", figure 3.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.linspace(0, 1, 30 * 40).reshape(30, 40)
    >>> figure = captioned(picture, [[0.1, 0.9], [0.8, 0.2]], ["grey", "sky"], grid=(1, 2))
    >>> [ax.get_title() for ax in figure.axes]
    ['', 'grey', 'sky']
    """
    pixels = checked_picture(picture)
    grids = checked_grids(weights, grid)
    if len(grids) > _MOST_TOKENS:
        _check.fail(f"a figure has up to {_MOST_TOKENS} tokens. Got {len(grids)} instead.")
    if columns is not None:
        columns = _check.integer("columns", columns, least=1)
    (words, heading), fonts = drawable([checked_tokens(tokens, len(grids)), [] if title is None else [title]])
    panel = _panel(pixels.shape)
    slot = max(panel[1], min(_WORD, max(map(_inches, words), default=0.0)))
    pixels = _resized(pixels, panel, grids.shape[1:])
    figure = new_figure(1.0, 1.0)
    figure.set_layout_engine("none")
    style: dict[str, Any] = {"fontfamily": fonts, "parse_math": False, "usetex": False}
    _draw_panel(figure, pixels, "", style)
    for word, cells in zip(words, grids, strict=True):
        _draw_panel(figure, _covered(pixels, cells), wrapped(word, slot, _POINTS), style)
    across = min(columns or _across(len(words) + 1, slot), len(words) + 1)
    above = None
    if heading:
        lines = wrapped(heading[0], across * (slot + _GAP), _TITLE)
        above = figure.suptitle(lines, va="top", fontsize=_TITLE, **style)
    _arrange(figure, above, panel, slot, across)
    return figure


def _panel(shape: tuple[int, ...]) -> tuple[float, float]:
    """Return height and width of a panel in inches: the picture's shape, unless it would be a hairline."""
    longest = max(shape[:2])
    height, width = (max(_SIDE * side / longest, _THINNEST) for side in shape[:2])
    return height, width


def _resized(pixels: Pixels, panel: tuple[float, float], grid: tuple[int, ...]) -> Pixels:
    """Repeat or average pixels, so that the smoothed weights are smooth and a large picture takes little memory."""
    for axis, (inches, cells) in enumerate(zip(panel, grid, strict=True)):
        size, least = pixels.shape[axis], max(round(_PIXELS * inches / _SIDE), 2 * cells)
        few = size < least
        pixels = np.repeat(pixels, -(-least // size), axis) if few else averaged(pixels, axis, least)
    return pixels


def _float32(array: NDArray[Any]) -> Pixels:
    return array.astype(np.float32)


def _covered(pixels: Pixels, weights: NDArray[np.float64]) -> Pixels:
    """Return a picture under a translucent colour that covers the more of it the larger a weight is."""
    share = weights / (weights.max() or 1.0)
    for axis in (0, 1):
        share = _interpolated(share, pixels.shape[axis], axis)
    share = share[..., None]
    cover = _COVER * share
    return _float32(pixels * (1 - cover) + np.array(_MARK) * cover)


def _interpolated(shares: NDArray[np.float64], pixels: int, axis: int) -> NDArray[np.float64]:
    """Return cells as pixels along one axis; beyond the centres of the first and last cell nothing changes."""
    from scipy.interpolate import PchipInterpolator

    cells = shares.shape[axis]
    ends = [(int(side == axis),) * 2 for side in (0, 1)]
    # Differences that are invisible could overflow when SciPy divides by them.
    known = np.round(np.pad(shares, ends, mode="edge"), 6)
    curve = PchipInterpolator(np.arange(-1, cells + 1) + 0.5, known, axis=axis)
    between: NDArray[np.float64] = curve((np.arange(pixels) + 0.5) * cells / pixels)
    return between


def _inches(word: str) -> float:
    return LETTER * _POINTS / 72 * display_width(word)


def _across(panels: int, slot: float) -> int:
    """Return how many panels form a row: the fewest for which the figure needs no more rows."""
    most = max(1, int(_PAGE / (slot + _GAP)))
    down = -(-panels // most)
    return -(-panels // down)


def _draw_panel(figure: Figure, pixels: Pixels, label: str, style: dict[str, Any]) -> None:
    """Add axes with an image below its label; `_arrange` moves them to their place."""
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.imshow(np.rint(255 * pixels).astype(np.uint8), aspect="auto")
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(color="#999999", linewidth=0.8)
    ax.set_title(label, fontsize=_POINTS, pad=_PAD, **style)


def _arrange(
    figure: Figure, heading: Text | None, panel: tuple[float, float], slot: float, across: int
) -> None:
    """Place the panels in rows, each as far below the one before as its labels are high."""
    rows = [figure.axes[start : start + across] for start in range(0, len(figure.axes), across)]
    width = across * (slot + _GAP) + _GAP
    above = 0.0 if heading is None else _fitted(heading, width - 2 * _GAP, figure.dpi) + _GAP
    labels = [max(_fitted(ax.title, slot, figure.dpi) for ax in row) for row in rows]
    height = above + sum(labels) + len(rows) * (panel[0] + _PAD / 72 + _GAP) + _GAP
    figure.set_size_inches(width, height)
    if heading is not None:
        heading.set_y(1 - _GAP / height)
    top = height - above
    for row, label in zip(rows, labels, strict=True):
        top -= _GAP + label + _PAD / 72 + panel[0]
        for number, ax in enumerate(row):
            left = _GAP + number * (slot + _GAP) + (slot - panel[1]) / 2
            ax.set_position((left / width, top / height, panel[1] / width, panel[0] / height))


def _fitted(text: Text, width: float, dots: float) -> float:
    """Return the height of text in inches; where it is wider than this, its font becomes smaller."""
    if not text.get_text():
        return 0.0
    extent = text.get_window_extent()
    if extent.width > dots * width:
        text.set_fontsize(float(text.get_fontsize()) * dots * width / extent.width)
        extent = text.get_window_extent()
    return extent.height / dots
