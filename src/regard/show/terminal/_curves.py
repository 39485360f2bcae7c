"""Learning curves as lines of text."""

from __future__ import annotations

import itertools
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence, Sized

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.show.terminal.cells import LARGEST
from regard.show.terminal.text import clean, cut

__all__ = ["curves", "finite", "points"]

_MARKS = "·ox+*#"
_LONGEST_NAME = 24
_WIDEST = 100
_FEW = 40  # up to this number of points, the y axis covers all of them
_SETTLED = 0.08  # fraction of the x axis after which the steep fall of a loss is over


def curves(
    lines: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    along: str = "steps",
    height: int = 10,
    width: int | None = None,
) -> str:
    """Draw curves as lines of text, each with a mark of its own.

    Points in one column of the screen are drawn as their mean. Points of the steep fall of a loss that lie above the
    drawing are arrows.

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
        If there is no point to draw, x and y of a line have different lengths, or `height` is less than 2.

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
    height = _check.integer("height", height, least=2)
    named = [(clean(name), pair) for name, pair in points(lines).items()]
    check_points(named)
    width = min(shutil.get_terminal_size().columns, _WIDEST) if width is None else width
    columns = max(width - 9, 10)
    end = max(float(pair[0].max()) for _, pair in named) or 1.0
    drawn = _grid([_columns(pair, end, columns) for _, pair in named], height, columns)
    legend = [
        f"{mark} {cut(name, _LONGEST_NAME)} {_short(pair[1, -1])}"
        for mark, (name, pair) in zip(itertools.cycle(_MARKS), named, strict=False)
    ]
    return (
        textwrap.dedent("\n".join([*drawn, *_axis(clean(along), end, columns)])) + "\n" + "   ".join(legend)
    )


def check_points(points: Sized) -> None:
    """Raise if no line has a point that can be drawn."""
    if not points:
        _check.fail("a learning curve needs at least one point: none of the lines has any")


def points(lines: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, NDArray[np.float64]]:
    """Return the points that can be drawn, without lines that have none.

    `lines`: by name, x and y of n numbers each. Returns dict of str to array (2, n): x and y of the points that are
    finite and not before x = 0.
    """
    valid_lines = {}
    for name, (x, y) in lines.items():
        across, up = finite(x).reshape(-1), finite(y).reshape(-1)
        if len(across) != len(up):
            _check.fail(
                f"x and y of a line must have one length. {name!r:.60} has {len(across)} and {len(up)}."
            )
        valid = (across >= 0) & ~np.isnan(up)
        if valid.any():
            valid_lines[name] = np.stack([across[valid], up[valid]])
    return valid_lines


def finite(numbers: ArrayLike) -> NDArray[np.float64]:
    """Return numbers with NaN for those that cannot be drawn: infinite ones, and those near the largest float.

    `numbers`: (...), any real numbers. Returns ndarray: (...), in float64.
    """
    array = np.ma.filled(
        np.ma.asarray(_check.plain("x or y of a line", numbers, masked=True), np.float64), np.nan
    )  # masked ones are left out
    return np.where(np.abs(array) <= LARGEST, array, np.nan)


def settled_range(lines: Iterable[NDArray[np.float64]]) -> tuple[float, float]:
    """Return the range of the y axis for lines of (2, n) points; of many points, without the steep beginning."""
    x, y = np.concatenate(list(lines), axis=1)
    settled = y[x >= _SETTLED * x.max()] if len(x) > _FEW else y
    return float(y.min()), float(settled.max())


def _columns(line: NDArray[np.float64], end: float, room: int) -> NDArray[np.float64]:
    """Return the columns of the screen that have points, and the mean of the points in each."""
    columns, where, count = np.unique(
        np.rint(line[0] / end * (room - 1)), return_inverse=True, return_counts=True
    )
    return np.stack([columns, np.bincount(where, line[1]) / count])


def _grid(lines: Sequence[NDArray[np.float64]], height: int, room: int) -> list[str]:
    """Draw one mark for each point of each line, and label three heights."""
    low, high = settled_range(lines)
    middle = height // 2
    labelled: tuple[int, ...] = (0, middle, height - 1)
    if low == high:  # a flat line needs one label
        step = max(1.0, abs(low))
        labelled, low, high = (middle,), low - step * (height - 1 - middle), high + step * middle
    cells = [[" "] * room for _ in range(height)]
    for mark, line in zip(itertools.cycle(_MARKS), lines, strict=False):
        for column, y in line.T:
            row = round((high - y) / (high - low) * (height - 1))
            cells[max(row, 0)][int(column)] = mark if y <= high else "↑"
    labels = [_short(high - (high - low) * i / (height - 1)) if i in labelled else "" for i in range(height)]
    return [f"{label:>6} │{''.join(line)}".rstrip() for label, line in zip(labels, cells, strict=True)]


def _axis(along: str, end: float, columns: int) -> list[str]:
    last = f"{end:,.0f}" if end >= 100 else f"{end:.3g}"
    return [f"{'':7}└{'─' * columns}", f"{'':8}0{along:^{columns - 1 - len(last)}}{last}"]


def _short(number: float) -> str:
    """Write a number in at most six characters."""
    size = abs(number)
    form = ".2f" if size < 10 else ".1f" if size < 100 else ".0f" if size < 99_999 else ".0e"
    return format(number, form)
