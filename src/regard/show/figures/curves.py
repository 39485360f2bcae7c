"""Learning curves and scores by length as pictures: named lines, in colours that all eyes tell apart."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.show.figures.canvas import (
    drawable,
    house_style,
    ink,
    new_figure,
    save_figure,
    show_in_notebooks,
    whole_figure,
)
from regard.show.terminal.curves import points
from regard.show.terminal.text import wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Panel", "by_length", "curves", "save_by_length", "save_curves", "smooth"]

# Okabe and Ito 2008: told apart with every kind of colour vision. Marks differ, too, for paper without colour.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STROKES = ("-", "--", ":")  # where there are more lines than colours
_MARKS = ("o", "s", "^", "D", "v", "P")
_INK, _LIGHT_INK = "#444444", "#cccccc"  # on light and on dark figures
_WIDTH = 6.0  # inches
_LONGEST_NAME = 24  # letters of a line beside the picture
_LINE = 12.0  # points from line to line there
_MANY = 100  # points: more are drawn as their mean over pieces, with all of them faint behind it
_FEW = 40  # points: they get marks
_PIECES = 80  # of five points or more
_SETTLED = 0.08  # of the way, when a curve that falls steeply at first has come down to where it is looked at
_Points = NDArray[np.float64]  # (2, n), x and y
_Line = tuple[NDArray[np.float64], NDArray[np.float64]]


class Panel(NamedTuple):
    """One of the pictures of a learning curve.

    Parameters
    ----------
    title : str
        What is measured.
    lines : mapping of str to (x, y)
        By name, two arrays of n numbers each; NaN, and what is before x = 0, is left blank.
    best : "lowest", "highest" or None
        Whether the best point of the last line is marked, and which that is.
    """

    title: str
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]]
    best: Literal["lowest", "highest"] | None = None


@house_style()
def curves(panels: Sequence[Panel], *, along: str = "steps", title: str | None = None) -> Figure:
    """Draw learning curves, one panel below the other, along one axis of steps or time.

    A line of more than 100 points is drawn as its running mean, all points faintly behind it. The first few percent,
    where a loss falls from what chance gives, may lie above the picture, which then says how far up they begin.

    Parameters
    ----------
    panels
        What is drawn; those without any point are left out.
    along
        What x counts: "steps", "minutes".
    title
        A line above the picture.

    Returns
    -------
    Figure
        Matplotlib's figure, which a notebook displays.

    Raises
    ------
    ValueError
        If there is nothing to draw, or x and y of a line have different lengths.
    ImportError
        If Matplotlib is not installed.

    Examples
    --------
    >>> figure = curves([Panel("loss", {"training": ([1, 2, 3], [3.0, 2.0, 1.5])})])
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['steps']
    """
    shown = [(panel, lines) for panel in panels if (lines := points(panel.lines))]
    if not shown:
        raise ValueError("a learning curve needs at least one point: none of the lines has any")
    named = dict.fromkeys(name for _, lines in shown for name in lines)  # a name has one colour in all panels
    looks = dict(zip(named, itertools.cycle(itertools.product(_STROKES, _COLORS)), strict=False))
    heights = [2.6] + [1.7] * (len(shown) - 1)
    figure = new_figure(_WIDTH, sum(heights) + 0.4)
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (panel, lines) in zip(axes, shown, strict=True):
        _plain_axes(ax, panel.title)
        _draw_lines(ax, lines, panel.best, looks)
    _number_places(axes[-1], along, [x for _, lines in shown for x, _ in lines.values()])
    if title is not None:
        (names,), fonts = drawable([[title]])
        figure.suptitle(names[0], fontfamily=fonts, parse_math=False, usetex=False, fontsize=11)
    figure.draw_without_rendering()  # labels are moved apart where they are, so the layout has to be settled
    for ax in axes:
        _part_labels(ax)
    return figure


def _draw_lines(
    ax: Axes, lines: Mapping[str, _Points], best: str | None, looks: Mapping[str, tuple[str, str]]
) -> None:
    strong = []
    for name, (x, y) in lines.items():
        stroke, color = looks[name]
        mark = "o" if len(x) <= _FEW else None
        if len(x) > _MANY:
            ax.plot(x, y, color=color, alpha=0.22, linewidth=0.6)
            x, y = smooth(x, y, min(_PIECES, len(x) // 5))
        ax.plot(x, y, stroke, color=color, linewidth=1.8, marker=mark, markersize=3.5)
        _name_line(ax, name, float(x[-1]), float(y[-1]), color)
        strong.append((x, y))
    _settle(ax, strong, best == "highest")
    if best is not None:
        _mark_best(ax, *strong[-1], best)


def _number_places(ax: Axes, along: str, all_x: Sequence[NDArray[Any]]) -> None:
    """Say what x is; whole numbers get whole ticks."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    _name_x(ax, along)
    whole = all(bool((x % 1 == 0).all()) for x in all_x)
    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=whole))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    end = max(float(x.max()) for x in all_x)
    ax.set_xlim(0, 1.012 * end or 1.0)


def _name_x(ax: Axes, along: str) -> None:
    ((name,),), fonts = drawable([[along]])
    style: dict[str, Any] = {"parse_math": False, "usetex": False, "fontfamily": fonts}
    ax.set_xlabel(name, color=_ink(ax), fontsize=9.5, fontweight="normal", **style)


def _ink(ax: Axes) -> str:
    """A grey that competes with no line, and can be read on the figure."""
    return _INK if ink(ax) == "black" else _LIGHT_INK


def _plain_axes(ax: Axes, title: str) -> None:
    """A frame that doesn't compete with what it shows."""
    (names,), fonts = drawable([[title]])
    ax.set_title(
        names[0],
        loc="left",
        fontsize=10,
        color=_ink(ax),
        fontfamily=fonts,
        parse_math=False,
        usetex=False,
        fontweight="bold",
    )
    ax.set_facecolor("none")  # of the figure, on which the words can be read
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set(color="#999999", visible=True)
    ax.grid(False)
    ax.grid(axis="y", color="#999999", alpha=0.2, linewidth=0.8, linestyle="-")
    ax.minorticks_off()
    ax.set_axisbelow(True)
    ax.tick_params(length=0, labelsize=8.5, labelcolor=_ink(ax))


def _name_line(ax: Axes, name: str, x: float, y: float, color: str) -> None:
    """Write a line's name where it ends."""
    (names,), fonts = drawable([[name]])
    ax.annotate(
        "\n".join(wrap(names[0], _LONGEST_NAME, 3)),
        (x, y),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        color=color,
        fontfamily=fonts,
        parse_math=False,
        gid="name",
        annotation_clip=False,
        usetex=False,
        path_effects=_halo(ax),
    )


def _halo(ax: Axes) -> list[Any]:
    """The figure's colour around letters, so that they read on what is behind them, which is seen, too."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.5, foreground="white" if ink(ax) == "black" else "black", alpha=0.75)]


def _part_labels(ax: Axes) -> None:
    """Move names at the ends of lines up or down until no two overlap."""
    labels = [text for text in ax.texts if text.get_gid() == "name"]
    dots = [float(ax.transData.transform(label.xy)[1]) for label in labels]  # type: ignore[attr-defined]
    point = ax.figure.dpi / 72
    heights = [_LINE * point * (1 + label.get_text().count("\n")) for label in labels]
    room = ax.bbox.ymin, ax.bbox.ymax
    for beside in _columns([tuple(label.get_window_extent().intervalx) for label in labels]):
        places = _parted([dots[k] for k in beside], [heights[k] for k in beside], room)
        for k, place in zip(beside, places, strict=True):
            labels[k].set_position((7, (place - dots[k]) / point))


def _columns(spans: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Return which of these stand above each other, each with those that it meets, and those that these meet."""
    found: list[list[int]] = []
    right = -math.inf
    for k in sorted(range(len(spans)), key=lambda k: spans[k]):
        if spans[k][0] > right:
            found.append([])
        found[-1].append(k)
        right = max(right, spans[k][1])
    return found


def _parted(
    places: Sequence[float], heights: Sequence[float], room: tuple[float, float] = (-math.inf, math.inf)
) -> list[float]:
    """Return places where labels of these heights don't overlap, as near to the given ones as can be.

    All are within the room from bottom to top; where there is too little of it, above the bottom.
    """
    order = np.argsort(places, kind="stable")
    wanted, high = np.asarray(places, np.float64)[order], np.asarray(heights, np.float64)[order]
    below = np.cumsum([0.0, *(high[1:] + high[:-1]) / 2])  # where they would stand, one upon the other
    groups: list[tuple[float, int]] = []  # labels that touch: where the lowest stands, and how many they are
    for place in wanted - below:
        groups.append((float(place), 1))
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (high_one, many), (low_one, few) = groups.pop(-2), groups.pop()
            groups.append(((high_one * many + low_one * few) / (many + few), many + few))
    found = np.empty_like(wanted)
    lowest = np.repeat([place for place, _ in groups], [count for _, count in groups])
    bottom, top = room[0] + high[0] / 2, room[1] - high[-1] / 2 - below[-1]
    found[order] = below + np.maximum(np.minimum(lowest, top), bottom)
    return [float(place) for place in found]


def _settle(ax: Axes, strong: Sequence[_Line], rising: bool) -> None:
    """Give the height to where curves spend their time, not to the fall at the beginning; scores start below 0."""
    end = max(float(x[-1]) for x, _ in strong)
    later = np.concatenate([y[x >= _SETTLED * end] for x, y in strong])
    low, high = min(float(y.min()) for _, y in strong), float(later.max())
    room = 0.08 * (high - low) or 0.5
    top = high + room * (2 if rising else 1)
    ax.set_ylim(min(low, 0) - 0.5 * room if rising else low - 1.5 * room, top)
    if (peak := max(float(y.max()) for _, y in strong)) > top:
        ax.set_title(f"begins above, at {peak:.3g}", loc="right", fontsize=8.5, color=_ink(ax))


def _mark_best(ax: Axes, x: NDArray[Any], y: NDArray[Any], which: str) -> None:
    place = int(np.argmin(y) if which == "lowest" else np.argmax(y))
    color = ax.lines[-1].get_color()
    ax.plot(x[place], y[place], "o", color=color, markersize=7, markeredgecolor="white", clip_on=False)
    ax.annotate(
        f"{y[place]:.3g}",
        (float(x[place]), float(y[place])),
        xytext=(0, 8),
        textcoords="offset points",
        ha="center",
        fontsize=9,
        fontweight="bold",
        color=color,
        path_effects=_halo(ax),
        usetex=False,
    )


def smooth(x: ArrayLike, y: ArrayLike, pieces: int = _PIECES) -> _Line:
    """Return the means of neighbouring points: of as many pieces, equally long or nearly so.

    Parameters
    ----------
    x, y
        (n,) each.
    pieces
        How many points come back, if there are as many.

    Returns
    -------
    x, y
        (min(n, pieces),) each.

    Examples
    --------
    >>> smooth([1, 2, 3, 4], [5.0, 7.0, 1.0, 2.0], pieces=2)
    (array([1.5, 3.5]), array([6. , 1.5]))
    """
    across, up = np.asarray(x, np.float64), np.asarray(y, np.float64)
    starts = np.unique(np.linspace(0, len(across), min(pieces, len(across)), endpoint=False).astype(int))
    sizes = np.diff([*starts, len(across)])
    return np.add.reduceat(across, starts) / sizes, np.add.reduceat(up, starts) / sizes


def save_curves(
    path: str | os.PathLike[str], panels: Sequence[Panel], *, along: str = "steps", title: str | None = None
) -> None:
    """Draw learning curves into a file, which is there whole or not at all.

    Parameters
    ----------
    path
        Where to; the ending says what it is: .png, .svg, .pdf.
    panels, along, title
        As for `curves`.

    Raises
    ------
    ValueError
        If the ending is unknown, or for what `curves` raises it.
    ImportError
        If Matplotlib is not installed.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_curves(f"{folder}/loss.png", [Panel("loss", {"training": ([1, 2], [3.0, 2.0])})])
    ...     [path.name for path in pathlib.Path(folder).iterdir()]
    ['loss.png']
    """
    save_figure(path, lambda: curves(panels, along=along, title=title))


@house_style()
def by_length(
    labels: Sequence[str],
    lines: Mapping[str, ArrayLike],
    counts: ArrayLike | None = None,
    *,
    measure: str = "BLEU",
    along: str = "words in the source",
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw a measure for groups of sentences of one length each, a line for each model.

    Parameters
    ----------
    labels
        n names of groups, such as "1-5".
    lines
        n numbers for each model, by name; NaN is left blank.
    counts
        (n,): how many sentences each group has, drawn as light bars behind the lines.
    measure
        What the numbers are.
    along
        What the groups are made by.
    ax
        Where to draw; by default in a new figure, which looks the same under every style of Matplotlib.
    title
        A line above the picture; by default the measure.

    Returns
    -------
    Axes
        Matplotlib's axes; the figure is `axes.figure`. A notebook displays the picture where a new figure was made.

    Raises
    ------
    ValueError
        If there is nothing to draw, or the numbers are not as many as the groups.
    ImportError
        If Matplotlib is not installed.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, figure 2.

    Examples
    --------
    >>> axes = by_length(["1-5", "6-10"], {"with": [48, 47], "without": [30, 21]})
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['1-5', '6-10']
    """
    rows = {name: np.asarray(line, np.float64) for name, line in lines.items()}
    sizes = None if counts is None else np.asarray(counts, np.float64)
    _check_rows(len(labels), rows if sizes is None else {**rows, "counts": sizes}, len(rows))
    own = ax is None
    ax = new_figure(_WIDTH, 3.6).add_subplot() if ax is None else ax
    _plain_axes(ax, measure if title is None else title)
    (named,), fonts = drawable([list(labels)])
    if sizes is not None:
        named = [f"{label}\n{size:,.0f}" for label, size in zip(named, sizes, strict=True)]
    ax.set_xticks(range(len(labels)), named, parse_math=False, usetex=False, fontfamily=fonts)
    top = float(np.fmax.reduce([np.fmax.reduce(row, initial=0.0) for row in rows.values()])) or 1.0
    ax.set_ylim(0, 1.12 * top)
    ax.set_xlim(-0.5, len(labels) - 0.5)
    if sizes is not None:
        _draw_counts(ax, sizes, 0.22 * top)
        along += ", and how many there are (bars)"
    for place, (name, row) in enumerate(rows.items()):
        _draw_scores(ax, name, row, place)
    _name_x(ax, along)
    whole_figure(ax).draw_without_rendering()
    _part_labels(ax)
    return show_in_notebooks(ax) if own else ax


def _check_rows(groups: int, rows: Mapping[str, NDArray[Any]], lines: int) -> None:
    if not groups or not lines:
        raise ValueError(f"scores by length need a group and a line: {groups} groups, {lines} lines")
    for name, row in rows.items():
        if row.shape != (groups,):
            raise ValueError(
                f"{name!r:.60} must hold a number for each of the {groups} groups. It is {row.shape}."
            )


def _draw_counts(ax: Axes, counts: NDArray[Any], height: float) -> None:
    """Light bars from below: they say how much a point is worth."""
    bars = height * counts / max(float(counts.max()), 1.0)
    ax.bar(range(len(counts)), bars, width=0.72, color="#999999", alpha=0.2, zorder=0.5)


def _draw_scores(ax: Axes, name: str, row: NDArray[Any], place: int) -> None:
    color, mark = _COLORS[place % len(_COLORS)], _MARKS[place % len(_MARKS)]
    ax.plot(
        row, color=color, linewidth=1.8, marker=mark, markersize=6.5, markeredgecolor="white", clip_on=False
    )
    seen = np.flatnonzero(np.isfinite(row))
    if seen.size:
        _name_line(ax, name, float(seen[-1]), float(row[seen[-1]]), color)


def save_by_length(
    path: str | os.PathLike[str],
    labels: Sequence[str],
    lines: Mapping[str, ArrayLike],
    counts: ArrayLike | None = None,
    *,
    measure: str = "BLEU",
    along: str = "words in the source",
    title: str | None = None,
) -> None:
    """Draw a measure by length into a file, which is there whole or not at all.

    Parameters
    ----------
    path
        Where to; the ending says what it is: .png, .svg, .pdf.
    labels, lines, counts, measure, along, title
        As for `by_length`.

    Raises
    ------
    ValueError
        If the ending is unknown, or for what `by_length` raises it.
    ImportError
        If Matplotlib is not installed.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_by_length(f"{folder}/length.png", ["1-5", "6-10"], {"with": [48, 47]})
    ...     [path.name for path in pathlib.Path(folder).iterdir()]
    ['length.png']
    """

    def draw() -> Figure:
        return whole_figure(by_length(labels, lines, counts, measure=measure, along=along, title=title))

    save_figure(path, draw)
