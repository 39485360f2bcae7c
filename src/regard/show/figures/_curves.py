"""Learning curves, and scores by length, as Matplotlib figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.show.figures.figure import (
    drawable,
    house_style,
    new_figure,
    show_in_notebooks,
    wrapped,
    write_literally,
)
from regard.show.terminal._curves import check_points, finite, points, settled_range
from regard.show.terminal.cells import LONGEST_LABEL
from regard.show.terminal.text import cut, wrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["Panel", "by_length", "curves"]

# Okabe and Ito 2008: distinguishable with every type of colour vision. Marks differ, too, for prints without colour.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_STROKES = ("-", "--", ":")  # for more lines than colours
_MARKS = ("o", "s", "^", "D", "v", "P")
_WIDTH, _PANEL = 6.0, 2.4  # inches: of a figure, and the height of a panel
_LABEL_WIDTH, _LABEL_LINES = 24, 3  # letters and lines of a name in the legend
_LINE = 0.17  # inches, of the height of a line there
_MANY = 100  # with more points, the running mean is drawn, and all points faintly behind it
_FEW = 40  # up to this number, points have marks
_PIECES = 80  # of the running mean, of five points or more


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

    A line of more than 100 points is drawn as its running mean, all points faintly behind it. If the steep fall of a
    loss in the first few percent lies above the panel, its first value is printed.

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
    check_points(shown)
    names = list(dict.fromkeys(name for _, lines in shown for name in lines))
    texts, fonts = drawable([[panel.title for panel, _ in shown], names, [along, title or ""]])
    labels = dict(zip(names, map(_wrapped, texts[1]), strict=True))
    styles = dict(zip(names, itertools.cycle(itertools.product(_STROKES, _COLORS)), strict=False))
    heights = [max(_PANEL, _legend_height(labels[name] for name in lines)) for _, lines in shown]
    figure = new_figure(_WIDTH, sum(heights) + 0.4)
    axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    _set_x(axes[-1], texts[2][0], np.concatenate([x for _, lines in shown for x, _ in lines.values()]))
    for ax, (panel, lines), heading in zip(axes, shown, texts[0], strict=True):
        _plain_axes(ax, heading)
        drawn = [_draw_line(ax, line, styles[name]) for name, line in lines.items()]
        _set_height(ax, drawn, rising=panel.best == "highest")
        _add_legend(ax, drawn, [labels[name] for name in lines])
        write_literally(ax, fonts)
        if panel.best is not None:
            _mark_best(ax, drawn[-1], panel.best)
    if title is not None:
        write_literally(figure.suptitle(wrapped(texts[2][1], _WIDTH, 11), fontsize=11), fonts)
    return figure


def _wrapped(name: str) -> str:
    return "\n".join(wrap(name, _LABEL_WIDTH, _LABEL_LINES))


def _legend_height(labels: Iterable[str]) -> float:
    return _LINE * sum(label.count("\n") + 1.3 for label in labels)


def _plain_axes(ax: Axes, title: str) -> None:
    """Set the title, and keep only the bottom line of the frame and the horizontal grid."""
    ax.set_title(wrapped(title, _WIDTH, 10), loc="left", fontsize=10, fontweight="bold")
    ax.set_facecolor("none")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set(color="#999999", visible=True)
    ax.grid(False)
    ax.grid(axis="y", color="#999999", alpha=0.2, linewidth=0.8, linestyle="-")
    ax.set_axisbelow(True)
    ax.tick_params(which="both", length=0, labelsize=8.5)


def _draw_line(ax: Axes, line: NDArray[np.float64], style: tuple[str, str]) -> Line2D:
    (stroke, color), mark = style, "o" if line.shape[1] <= _FEW else None
    if line.shape[1] > _MANY:
        ax.plot(*line, color=color, alpha=0.22, linewidth=0.6)
        line = running_mean(line, min(_PIECES, line.shape[1] // 5))
    return ax.plot(*line, stroke, color=color, linewidth=1.8, marker=mark, markersize=3.5)[0]


def running_mean(line: NDArray[np.float64], pieces: int) -> NDArray[np.float64]:
    """Return the means of neighbouring points of a (2, n) line, in pieces of (nearly) as many points each."""
    return np.stack([piece.mean(axis=1) for piece in np.array_split(line, pieces, axis=1)], axis=1)


def _set_height(ax: Axes, drawn: Sequence[Line2D], *, rising: bool) -> None:
    """Fit the y axis to the curves after their steep beginning; the axis of scores starts at 0."""
    lines = [np.asarray(line.get_data(), np.float64) for line in drawn]
    low, high = settled_range(lines)
    low = min(low, 0.0) if rising else low
    margin = 0.12 * (high - low) or max(0.5, 1e-9 * abs(low))
    ax.set_ylim(low - margin / 2, high + margin)
    if low == high:  # a flat line needs one number, and an error rate or BLEU of 0 has none below it
        ax.set_yticks([low])
    if (peak := max(y.max() for _, y in lines)) > high + margin:
        ax.set_title(f"begins above, at {peak:.3g}", loc="right", fontsize=8.5)


def _mark_best(ax: Axes, line: Line2D, which: str) -> None:
    x, y = np.asarray(line.get_data())
    best = np.argmin(y) if which == "lowest" else np.argmax(y)
    at, color = (x[best], y[best]), line.get_color()
    ax.plot(*at, "o", color=color, markersize=7, markeredgecolor="white", clip_on=False)
    style: dict[str, Any] = {"ha": "center", "fontsize": 9, "fontweight": "bold", "color": color}
    ax.annotate(f"{y[best]:.3g}", at, xytext=(0, 8), textcoords="offset points", **style)


def _add_legend(ax: Axes, lines: Sequence[Line2D], labels: Sequence[str]) -> None:
    """Add a legend to the right of the axes, where it covers no line."""
    where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    ax.legend(lines, labels, frameon=False, fontsize=9, **where)


def _set_x(ax: Axes, along: str, x: NDArray[np.float64]) -> None:
    """Name the x axis; its ticks are integers where all x are."""
    ax.set_xlabel(wrapped(along, _WIDTH, 9.5), fontsize=9.5)
    ax.locator_params("x", integer=bool((x % 1 == 0).all()), steps=[1, 2, 5, 10])
    ax.xaxis.set_major_formatter("{x:,.10g}")
    ax.set_xlim(0, 1.012 * float(x.max()) or 1.0)


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
        n numbers for each model, by name; NaN and infinity are left blank.
    counts
        (n,) numbers of sentences in each group, drawn as light bars behind the lines.
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
    labels = [str(label) for label in _check.listed("labels", labels)]
    scores = {name: finite(line) for name, line in lines.items()}
    sizes = None if counts is None else finite(counts)
    _check_scores(len(labels), scores if sizes is None else {**scores, "counts": sizes}, len(scores))
    if sizes is not None and not (sizes >= 0).all():
        _check.fail("counts must be finite, and at least 0")
    (groups, names, (heading, along)), fonts = drawable(
        [[*labels], [*scores], [measure if title is None else title, along]]
    )
    names = list(map(_wrapped, names))
    groups = [cut(group, LONGEST_LABEL) for group in groups]
    is_new = ax is None
    ax = new_figure(_WIDTH, max(3.6, _legend_height(names))).add_subplot() if ax is None else ax
    _plain_axes(ax, heading)
    top = float(np.fmax.reduce(list(scores.values()), axis=None, initial=0.0)) or 1.0
    if sizes is not None:
        groups = [f"{group}\n{size:,.0f}" for group, size in zip(groups, sizes, strict=True)]
        bars = 0.22 * top * sizes / max(float(sizes.max()), 1.0)
        ax.bar(range(len(bars)), bars, width=0.72, color="#999999", alpha=0.2, zorder=0.5)
        along += ", and how many there are (bars)"
    ax.set_xticks(range(len(groups)), groups)
    ax.set_xlabel(wrapped(along, _WIDTH, 9.5), fontsize=9.5)
    ax.set(ylim=(0, 1.12 * top), xlim=(-0.5, len(groups) - 0.5))
    ax.set_prop_cycle(color=_COLORS, marker=_MARKS)
    style: dict[str, Any] = {"linewidth": 1.8, "markersize": 6.5, "markeredgecolor": "white"}
    drawn = [ax.plot(line, clip_on=False, **style)[0] for line in scores.values()]
    _add_legend(ax, drawn, names)
    write_literally(ax, fonts)
    return show_in_notebooks(ax) if is_new else ax


def _check_scores(groups: int, scores: Mapping[str, NDArray[Any]], lines: int) -> None:
    if not groups or not lines:
        _check.fail(f"scores by length need a group and a line: {groups} groups, {lines} lines")
    for name, line in scores.items():
        if line.shape != (groups,):
            _check.fail(
                f"{name!r:.60} must hold a number for each of the {groups} groups. It is {line.shape}."
            )
