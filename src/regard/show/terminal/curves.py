"""Learning curves as a few lines of text, for terminals and for logs."""

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
_SETTLED = 0.08  # of the way, as in pictures


def curves(
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    along: str = "steps",
    height: int = 10,
    width: int | None = None,
) -> str:
    """Draw curves as lines of text, each with a mark of its own.

    Where several points meet in one column of the screen, their mean is drawn. The first of many columns, where a loss
    falls from what chance gives, may lie above the picture; arrows say where.

    Parameters
    ----------
    lines
        By name, x and y of n numbers each; numbers that are not finite, and what is before x = 0, are left out.
    along
        What x counts: "steps", "minutes".
    height
        Lines of text for the curves themselves, at least 2.
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
    found = [(clean(name), pair) for name, pair in points(lines).items()]
    if not found:
        raise ValueError("a learning curve needs at least one point: none of the lines has any")
    width = min(shutil.get_terminal_size().columns, _WIDEST) if width is None else width
    room = max(width - 9, 10)
    end = max(float(pair[0].max()) for _, pair in found) or 1.0
    drawn = _grid([_columns(pair, end, room) for _, pair in found], height)
    legend = [
        f"{mark} {fit(name, min(display_width(name), _LONGEST_NAME))} {_short(pair[1, -1])}"
        for mark, (name, pair) in zip(itertools.cycle(_MARKS), found, strict=False)
    ]
    return textwrap.dedent("\n".join([*drawn, *_axis(along, end, room)])) + "\n" + "   ".join(legend)


def points(lines: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, NDArray[np.float64]]:
    """Return the points that can be drawn, of the lines that have any.

    Parameters
    ----------
    lines
        By name, x and y of n numbers each.

    Returns
    -------
    dict of str to array (2, n)
        x and y of those that are finite and not before x = 0.

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
    found = {}
    for name, (x, y) in lines.items():
        across, up = np.asarray(x, np.float64).reshape(-1), np.asarray(y, np.float64).reshape(-1)
        if len(across) != len(up):
            raise ValueError(
                f"x and y of a line must have one length. {name!r:.60} has {len(across)} and {len(up)}."
            )
        seen = np.isfinite(across) & np.isfinite(up) & (across >= 0)
        if seen.any():
            found[name] = np.stack([across[seen], up[seen]])
    return found


def _grid(rows: Sequence[NDArray[np.float64]], height: int) -> list[str]:
    """Draw one mark in each column of each line that has a number there, and name three heights."""
    low, high = _range(rows)
    middle = height // 2
    places: tuple[int, ...] = (0, middle, height - 1)  # of the numbers beside the curves
    if low == high:  # a flat line has that one beside it
        places, low, high = (middle,), low - (height - 1 - middle), high + middle
    cells = [[" "] * len(rows[0]) for _ in range(height)]
    for place in np.flatnonzero((np.stack(rows) > high).any(axis=0)).tolist():
        cells[0][place] = "↑"
    for mark, row in zip(itertools.cycle(_MARKS), rows, strict=False):
        for place in np.flatnonzero(np.isfinite(row) & (row <= high)).tolist():
            cells[round((high - row[place]) / (high - low) * (height - 1))][place] = mark
    named = {i: high - (high - low) * i / (height - 1) for i in places}
    labels = [_short(named[i]) if i in named else "" for i in range(height)]
    return [f"{label:>6} │{''.join(line)}".rstrip() for label, line in zip(labels, cells, strict=True)]


def _columns(pair: NDArray[np.float64], end: float, room: int) -> NDArray[np.float64]:
    """Return the mean of the points that meet in each column of the screen, NaN where there is none."""
    place = np.rint(pair[0] / end * (room - 1)).astype(int).clip(0, room - 1)
    count = np.bincount(place, minlength=room)
    total = np.bincount(place, pair[1], minlength=room)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _range(rows: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the numbers at the bottom and at the top: of where curves spend their time."""
    everything = np.stack(rows)
    later = (
        everything[:, round(_SETTLED * everything.shape[1]) :] if everything.shape[1] > _MANY else everything
    )
    if np.isnan(later).all():  # all of it is at the beginning
        later = everything
    low, high = float(np.nanmin(everything)), float(np.nanmax(later))
    return low, max(low, high)


def _axis(along: str, end: float, room: int) -> list[str]:
    last = f"{end:,.0f}" if end >= 100 else f"{end:.3g}"
    return [f"{'':7}└{'─' * room}", f"{'':8}0{along:^{room - 1 - len(last)}}{last}"]


def _short(number: float) -> str:
    """Write a number in at most six characters."""
    size = abs(number)
    form = ".2f" if size < 10 else ".1f" if size < 100 else ".0f" if size < 99_999 else ".0e"
    return format(number, form)
