"""Learning curves as lines of text."""

from __future__ import annotations

import itertools
import shutil
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.show.terminal.text import clean, display_width, fit

__all__ = ["curves", "points"]

_MARKS = "·ox+*#"
_LONGEST_NAME = 24
_WIDEST = 100
_MANY = 40  # columns; of fewer, none is left out
_SETTLED = 0.08  # of the x axis, as in figures


def curves(
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    along: str = "steps",
    height: int = 10,
    width: int | None = None,
) -> str:
    """Draw curves as lines of text, each with a mark of its own.

    Points in one column of the screen are drawn as their mean. The steep fall of a loss in the first columns may lie
    above the drawing; arrows mark where.

    Parameters
    ----------
    lines
        By name, x and y of n numbers each; numbers that are not finite, and points before x = 0, are left out.
    along
        The quantity on the x axis: "steps", "minutes".
    height
        Lines of text of the y axis, at least 2.
    width
        The columns of the screen; by default the terminal's, or 80.

    Returns
    -------
    str
        Lines, without a newline at the end.

    Raises
    ------
    ValueError
        If there is no point to draw, or x and y of a line have different lengths.

    Examples
    --------
    >>> print(curves({"training": ([0, 1, 2], [3, 2, 1]), "tests": ([1, 2], [2.5, 2])}, height=5, width=27))
    3.00 │·
         │        o
    2.00 │        ·        o
         │
    1.00 │                 ·
         └──────────────────
          0     steps      2
    · training 1.00   o tests 2.00
    """
    named = [(clean(name), pair) for name, pair in points(lines).items()]
    if not named:
        raise ValueError("a learning curve needs at least one point: none of the lines has any")
    width = min(shutil.get_terminal_size().columns, _WIDEST) if width is None else width
    columns = max(width - 9, 10)
    end = max(float(pair[0].max()) for _, pair in named) or 1.0
    drawn = _grid([_columns(pair, end, columns) for _, pair in named], height)
    legend = [
        f"{mark} {fit(name, min(display_width(name), _LONGEST_NAME))} {_short(pair[1, -1])}"
        for mark, (name, pair) in zip(itertools.cycle(_MARKS), named, strict=False)
    ]
    return textwrap.dedent("\n".join([*drawn, *_axis(along, end, columns)])) + "\n" + "   ".join(legend)


def points(lines: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, NDArray[np.float64]]:
    """Return the points that can be drawn, without lines that have none.

    Parameters
    ----------
    lines
        By name, x and y of n numbers each.

    Returns
    -------
    dict of str to array (2, n)
        x and y of the points that are finite and not before x = 0.

    Raises
    ------
    ValueError
        If x and y of a line have different lengths.

    Examples
    --------
    >>> points({"loss": ([-1, 0, 1], [9, 2, 1]), "nothing": ([], [])})
    {'loss': array([[0., 1.],
           [2., 1.]])}
    """
    valid_lines = {}
    for name, (x, y) in lines.items():
        across, up = np.asarray(x, np.float64).reshape(-1), np.asarray(y, np.float64).reshape(-1)
        if len(across) != len(up):
            raise ValueError(
                f"x and y of a line must have one length. {name!r:.60} has {len(across)} and {len(up)}."
            )
        valid = np.isfinite(across) & np.isfinite(up) & (across >= 0)
        if valid.any():
            valid_lines[name] = np.stack([across[valid], up[valid]])
    return valid_lines


def _grid(rows: Sequence[NDArray[np.float64]], height: int) -> list[str]:
    """Draw one mark in each column of each line that has a number there, and label three heights."""
    low, high = _range(rows)
    middle = height // 2
    labelled: tuple[int, ...] = (0, middle, height - 1)
    if low == high:  # a flat line needs one label
        labelled, low, high = (middle,), low - (height - 1 - middle), high + middle
    cells = [[" "] * len(rows[0]) for _ in range(height)]
    for column in np.flatnonzero((np.stack(rows) > high).any(axis=0)).tolist():
        cells[0][column] = "↑"
    for mark, row in zip(itertools.cycle(_MARKS), rows, strict=False):
        for column in np.flatnonzero(np.isfinite(row) & (row <= high)).tolist():
            cells[round((high - row[column]) / (high - low) * (height - 1))][column] = mark
    named = {i: high - (high - low) * i / (height - 1) for i in labelled}
    labels = [_short(named[i]) if i in named else "" for i in range(height)]
    return [f"{label:>6} │{''.join(line)}".rstrip() for label, line in zip(labels, cells, strict=True)]


def _columns(pair: NDArray[np.float64], end: float, columns: int) -> NDArray[np.float64]:
    """Return the mean of the points in each column of the screen, NaN where there is none."""
    column = np.rint(pair[0] / end * (columns - 1)).astype(int).clip(0, columns - 1)
    count = np.bincount(column, minlength=columns)
    total = np.bincount(column, pair[1], minlength=columns)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _range(rows: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the range of the y axis: that of the settled part of the curves."""
    all_rows = np.stack(rows)
    later = all_rows[:, round(_SETTLED * all_rows.shape[1]) :] if all_rows.shape[1] > _MANY else all_rows
    if np.isnan(later).all():  # no point is later
        later = all_rows
    low, high = float(np.nanmin(all_rows)), float(np.nanmax(later))
    return low, max(low, high)


def _axis(along: str, end: float, columns: int) -> list[str]:
    last = f"{end:,.0f}" if end >= 100 else f"{end:.3g}"
    return [f"{'':7}└{'─' * columns}", f"{'':8}0{along:^{columns - 1 - len(last)}}{last}"]


def _short(number: float) -> str:
    """Write a number in at most six characters."""
    size = abs(number)
    form = ".2f" if size < 10 else ".1f" if size < 100 else ".0f" if size < 99_999 else ".0e"
    return format(number, form)
