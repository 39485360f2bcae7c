"""Learning curves, and scores by length, as Matplotlib figures."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
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
    from matplotlib.lines import Line2D

__all__ = ["Panel", "by_length", "curves", "save_by_length", "save_curves"]

# Okabe and Ito 2008: distinguishable with every kind of colour vision. Marks differ, too, for paper without colour.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STROKES = ("-", "--", ":")  # for more lines than colours
_MARKS = ("o", "s", "^", "D", "v", "P")
_WIDTH = 6.0  # inches
_LABEL_WIDTH, _LABEL_LINES = 24, 3  # letters and lines of a name in the legend
_LINE = 0.17  # inches, of the height of a line there
_MANY = 100  # points: of more, the running mean is drawn, with all of them faint behind it
_FEW = 40  # points: they get marks
_PIECES = 80  # of the running mean, of five points or more
_SETTLED = 0.08  # of the x axis: the steep fall of a loss is over


class Panel(NamedTuple):
    """One panel of a figure of learning curves.

    Parameters
    ----------
    title : str
        The quantity on the y axis.
    lines : mapping of str to (x, y)
        By name, two arrays of n numbers each; NaN, and points before x = 0, are left out.
    best : "lowest", "highest" or None
        Which point of the last line is marked as the best.
    """

    title: str
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]]
    best: Literal["lowest", "highest"] | None = None


@house_style()
def curves(panels: Sequence[Panel], *, along: str = "steps", title: str | None = None) -> Figure:
    """Draw learning curves, one panel below the other, along one axis of steps or time.

    A line of more than 100 points is drawn as its running mean, all points faintly behind it. The steep fall of a loss
    in the first few percent may lie above the panel, which then prints where the curve begins.

    Parameters
    ----------
    panels
        The panels; those without any point are left out.
    along
        The quantity on the x axis: "steps", "minutes".
    title
        A line above the figure.

    Returns
    -------
    Figure
        Matplotlib's figure, which a notebook displays.

    Raises
    ------
    ValueError
        If there is no point to draw, or x and y of a line have different lengths.
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
    names = dict.fromkeys(name for _, lines in shown for name in lines)  # a name has one colour in all panels
    styles = dict(zip(names, itertools.cycle(itertools.product(_STROKES, _COLORS)), strict=False))
    heights = [max(1.7 if i else 2.6, _legend_height(lines)) for i, (_, lines) in enumerate(shown)]
    figure = new_figure(_WIDTH, sum(heights) + 0.4)
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for ax, (panel, lines) in zip(axes, shown, strict=True):
        _plain_axes(ax, panel.title)
        drawn = {name: _draw_line(ax, line, styles[name]) for name, line in lines.items()}
        _set_height(ax, list(drawn.values()), panel.best == "highest")
        if panel.best is not None:
            _mark_best(ax, drawn[list(drawn)[-1]], panel.best)
        _add_legend(ax, drawn)
    _set_x(axes[-1], along, np.concatenate([line[0] for _, lines in shown for line in lines.values()]))
    if title is not None:
        figure.suptitle(**_text(title, "t"), fontsize=11)
    return figure


def _text(text: str, key: str = "label") -> dict[str, Any]:
    """Return the arguments with which Matplotlib writes a text as it is: no formulas, fonts that have all letters."""
    ((text,),), fonts = drawable([[text]])
    return {key: text, "fontfamily": fonts, "parse_math": False, "usetex": False}


def _plain_axes(ax: Axes, title: str) -> None:
    """Remove everything from axes that competes with the lines."""
    ax.set_title(**_text(title), loc="left", fontsize=10, color=ink(ax), fontweight="bold")
    ax.set_facecolor("none")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set(color="#999999", visible=True)
    ax.grid(False)
    ax.grid(axis="y", color="#999999", alpha=0.2, linewidth=0.8, linestyle="-")
    ax.minorticks_off()
    ax.set_axisbelow(True)
    ax.tick_params(length=0, labelsize=8.5, labelcolor=ink(ax))


def _draw_line(ax: Axes, points: NDArray[np.float64], style: tuple[str, str]) -> Line2D:
    (x, y), (stroke, color) = points, style
    mark = "o" if len(x) <= _FEW else None
    if len(x) > _MANY:
        ax.plot(x, y, color=color, alpha=0.22, linewidth=0.6)
        x, y = running_mean(x, y, min(_PIECES, len(x) // 5))
    (line,) = ax.plot(x, y, stroke, color=color, linewidth=1.8, marker=mark, markersize=3.5)
    return line


def running_mean(x: ArrayLike, y: ArrayLike, pieces: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the means of neighbouring points, in as many pieces of (nearly) one length, or in one for each point."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    starts = np.unique(np.linspace(0, len(x), min(pieces, len(x)), endpoint=False).astype(int))
    sizes = np.diff([*starts, len(x)])
    return np.add.reduceat(x, starts) / sizes, np.add.reduceat(y, starts) / sizes


def _set_height(ax: Axes, drawn: Sequence[Line2D], rising: bool) -> None:
    """Give the height to the settled part of the curves, not to the fall at the beginning; scores start at 0."""
    lines = [np.asarray(line.get_data()) for line in drawn]
    end = max(float(x[-1]) for x, _ in lines)
    settled = np.concatenate([y[x >= _SETTLED * end] for x, y in lines])
    low, high = min(float(y.min()) for _, y in lines), float(settled.max())
    margin = 0.08 * (high - low) or 0.5
    top = high + margin * (2 if rising else 1)
    ax.set_ylim(min(low, 0) - 0.5 * margin if rising else low - 1.5 * margin, top)
    if low == high:  # a flat line needs one number, and an error rate or BLEU of 0 has none below it
        ax.set_yticks([low])
    if (peak := max(float(y.max()) for _, y in lines)) > top:
        ax.set_title(f"begins above, at {peak:.3g}", loc="right", fontsize=8.5, color=ink(ax))


def _mark_best(ax: Axes, line: Line2D, which: str) -> None:
    x, y = np.asarray(line.get_data())
    best, color = int(np.argmin(y) if which == "lowest" else np.argmax(y)), line.get_color()
    at = float(x[best]), float(y[best])
    ax.plot(*at, "o", color=color, markersize=7, markeredgecolor="white", clip_on=False)
    style: dict[str, Any] = {"ha": "center", "fontsize": 9, "fontweight": "bold", "usetex": False}
    ax.annotate(f"{y[best]:.3g}", at, xytext=(0, 8), textcoords="offset points", color=color, **style)


def _wrapped(names: Iterable[str]) -> list[str]:
    return ["\n".join(wrap(name, _LABEL_WIDTH, _LABEL_LINES)) for name in names]


def _legend_height(names: Iterable[str]) -> float:
    return _LINE * sum(text.count("\n") + 1.3 for text in _wrapped(names))


def _add_legend(ax: Axes, lines: Mapping[str, Line2D]) -> None:
    """Name the lines to the right of the axes, where no name covers a line."""
    (names,), fonts = drawable([list(lines)])
    legend = ax.legend(
        list(lines.values()),
        _wrapped(names),
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0,
        frameon=False,
        fontsize=9,
        labelcolor=ink(ax),
    )
    for text in legend.get_texts():
        text.set(fontfamily=fonts, parse_math=False, usetex=False)


def _set_x(ax: Axes, along: str, x: NDArray[np.float64]) -> None:
    """Name the x axis and choose its ticks: integers where all x are."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    ax.set_xlabel(**_text(along, "xlabel"), color=ink(ax), fontsize=9.5, fontweight="normal")
    integer = bool((x % 1 == 0).all())
    ax.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=integer))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    ax.set_xlim(0, 1.012 * float(x.max()) or 1.0)


def save_curves(
    path: str | os.PathLike[str], panels: Sequence[Panel], *, along: str = "steps", title: str | None = None
) -> None:
    """Save learning curves; the file is complete or not written.

    Parameters
    ----------
    path
        The file; its ending chooses the format: .png, .svg, .pdf.
    panels, along, title
        As for `curves`.

    Raises
    ------
    ValueError
        If the ending is unknown, or as in `curves`.
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
    """Draw a measure by sentence length, one line for each model.

    Parameters
    ----------
    labels
        n names of groups, such as "1-5".
    lines
        n numbers for each model, by name; NaN is left blank.
    counts
        (n,): how many sentences each group has, drawn as light bars behind the lines.
    measure
        The name of the measure.
    along
        The quantity on the x axis.
    ax
        Axes to draw in; by default those of a new figure with the same appearance under every style of Matplotlib.
    title
        A line above the axes; by default the measure.

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
    scores = {name: np.asarray(line, np.float64) for name, line in lines.items()}
    sizes = None if counts is None else np.asarray(counts, np.float64)
    _check_scores(len(labels), scores if sizes is None else {**scores, "counts": sizes}, len(scores))
    own = ax is None
    ax = new_figure(_WIDTH, max(3.6, _legend_height(scores))).add_subplot() if ax is None else ax
    _plain_axes(ax, measure if title is None else title)
    (ticks,), fonts = drawable([list(labels)])
    top = float(np.fmax.reduce([np.fmax.reduce(line, initial=0.0) for line in scores.values()])) or 1.0
    if sizes is not None:
        ticks = [f"{label}\n{size:,.0f}" for label, size in zip(ticks, sizes, strict=True)]
        bars = 0.22 * top * sizes / max(float(sizes.max()), 1.0)
        ax.bar(range(len(bars)), bars, width=0.72, color="#999999", alpha=0.2, zorder=0.5)
        along += ", and how many there are (bars)"
    ax.set_xticks(range(len(labels)), ticks, parse_math=False, usetex=False, fontfamily=fonts)
    ax.set(ylim=(0, 1.12 * top), xlim=(-0.5, len(labels) - 0.5))
    style: dict[str, Any] = {
        "linewidth": 1.8,
        "markersize": 6.5,
        "markeredgecolor": "white",
        "clip_on": False,
    }
    marks = itertools.cycle(zip(_COLORS, _MARKS, strict=True))
    drawn = {
        name: ax.plot(line, color=color, marker=mark, **style)[0]
        for (name, line), (color, mark) in zip(scores.items(), marks, strict=False)
    }
    ax.set_xlabel(**_text(along, "xlabel"), color=ink(ax), fontsize=9.5, fontweight="normal")
    _add_legend(ax, drawn)
    return show_in_notebooks(ax) if own else ax


def _check_scores(groups: int, scores: Mapping[str, NDArray[Any]], lines: int) -> None:
    if not groups or not lines:
        raise ValueError(f"scores by length need a group and a line: {groups} groups, {lines} lines")
    for name, line in scores.items():
        if line.shape != (groups,):
            raise ValueError(
                f"{name!r:.60} must hold a number for each of the {groups} groups. It is {line.shape}."
            )


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
    """Save a measure by length; the file is complete or not written.

    Parameters
    ----------
    path
        The file; its ending chooses the format: .png, .svg, .pdf.
    labels, lines, counts, measure, along, title
        As for `by_length`.

    Raises
    ------
    ValueError
        If the ending is unknown, or as in `by_length`.
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

    save_figure(
        path,
        lambda: whole_figure(by_length(labels, lines, counts, measure=measure, along=along, title=title)),
    )
