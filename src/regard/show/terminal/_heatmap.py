"""Heat maps of attention weights, and tables of numbers, as text."""

import math
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.show.terminal.cells import LONGEST_LABEL, checked_cells, darkest, labels, percent
from regard.show.terminal.text import BLOCKS, align, cut, display_width, fit, pad_lines, shade, wants_color

__all__ = ["heatmap", "table"]

_LONGEST_HEAD = 12
_MOST_ROWS = 48
_MOST_FLAGS = 24  # more columns than this get numbers and a legend
_SCREEN = 80  # columns that any screen has
_TICKS = (1, 5, 10, 20, 50, 100, 200, 500, 1000)


def heatmap(
    weights: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    color: bool | None = None,
    width: int | None = None,
) -> str:
    """Draw attention weights as text, one line for each query, under the labels of the keys.

    Cells hold the weight in percent: blank for an exact 0, a dot for less than one half, a dash where it is masked.
    Where the map is wider than the screen, cells are shades without numbers, and the largest weight of each row is
    never blank. If that is still too wide, only the first and last columns are drawn; of more than 48 rows, only the
    first and last. The darkest shade is the largest weight, but at least 4 / m, four times that of uniform weights.

    Parameters
    ----------
    weights
        (n, m), between 0 and 1; NaN is drawn as `nan`. Masked cells of a masked array have no number.
    rows, columns
        n and m labels; numbers from 1 by default.
    color
        Whether to shade the cells with terminal colours; by default the value of `terminal.wants_color`.
    width
        The columns of the screen; by default the terminal's, or 80.

    Returns
    -------
    str
        Lines of equal display width, without a newline at the end.

    Raises
    ------
    ValueError
        If `weights` is not an (n, m) array of numbers between 0 and 1, or the labels don't fit its shape.

    Examples
    --------
    >>> picture = heatmap([[0.9, 0.1], [0.0, 1.0]], ["le", "chat"], ["the", "cat"], color=False)
    >>> print(picture)  # doctest: +NORMALIZE_WHITESPACE
           the cat
      le  90  10
    chat     100
    """
    cells = checked_cells(weights)
    n, m = cells.values.shape
    row_labels, column_labels = labels(rows, n, "rows"), labels(columns, m, "columns")
    if cells.values.size == 0:
        return f"no weights: {n} rows, {m} columns"
    color = wants_color() if color is None else color
    width = shutil.get_terminal_size().columns if width is None else width
    shown = _ends(n, _MOST_ROWS)
    left = 1 + max(display_width(row_labels[i]) for i in shown if i is not None)
    grid = _grid(column_labels, left, width)
    top = darkest(cells)
    lines = _header(grid, column_labels, left)
    for i in shown:
        label = fit(_label(row_labels, i), left - 1, right=True)
        if i is None:
            lines.append(label + " " + "…".center(grid.cell) * len(grid.columns))
        else:
            lines.append(label + " " + _row(cells.values[i], cells.missing[i], grid, top, color))
    cut = None in shown or None in grid.columns
    legend = column_labels if columns is not None else []
    lines += _notes(grid, legend, top, width, (n, m) if cut else None)
    lines += ["-: masked"] * bool(cells.missing.any())
    return "\n".join(pad_lines(lines))


def _ends(count: int, most: int) -> list[int | None]:
    """Return all indices, or `most` of them: the first and the last, with None for those between."""
    if count <= most:
        return list(range(count))
    first = most // 2
    last = most - 1 - first
    return [*range(first), None, *range(count - last, count)]


@dataclass(frozen=True)
class _ColumnLayout:
    """The layout of the columns of one heat map."""

    cell: int  # the columns of the screen that one weight takes
    columns: list[int | None]
    flags: bool  # whether labels are above their columns; else numbers, and the labels in a legend


def _grid(column_labels: list[str], left: int, width: int) -> _ColumnLayout:
    """Choose the widest cells that fit the screen, with labels above them where these fit, too."""
    m = len(column_labels)
    everything = list(range(m))
    for cell in (4, 2, 1):
        ends = [left + cell * j + cell // 2 + display_width(word) for j, word in enumerate(column_labels)]
        if m <= _MOST_FLAGS and max(*ends, left + cell * m) <= width:
            return _ColumnLayout(cell, [*everything], True)
        if m > _MOST_FLAGS and left + cell * m <= width:
            return _ColumnLayout(cell, [*everything], False)
    return _ColumnLayout(1, _ends(m, max(3, width - left)), False)


def _row(
    weights: NDArray[Any], missing: NDArray[np.bool_], grid: _ColumnLayout, top: float, color: bool
) -> str:
    largest = float(np.fmax.reduce(weights))
    cells = []
    for j in grid.columns:
        if j is None:
            cells.append("…".center(grid.cell))
        elif missing[j]:
            cells.append({4: "  - ", 2: "- ", 1: "-"}[grid.cell])
        else:
            cells.append(_cell(float(weights[j]), top, largest, grid.cell, color))
    return "".join(cells)


def _cell(weight: float, top: float, largest: float, size: int, color: bool) -> str:
    """Draw one weight, `size` columns wide, of a row with this largest weight."""
    if math.isnan(weight):
        return {4: "nan ", 2: "??", 1: "?"}[size]
    share = weight / top
    level = max(min(int(share * 5), 4), int(weight == largest > 0))
    text = " " * size if color else BLOCKS[level] * size
    if size == 4:
        text = f"{percent(weight):>3} "
    return shade(text, share) if color else text


def _header(grid: _ColumnLayout, column_labels: list[str], left: int) -> list[str]:
    """Return the lines of labels or numbers above the cells; in wide cells above the last digit."""
    offset = left + (2 if grid.cell == 4 else 0)
    if grid.flags:
        return hang(column_labels, [offset + grid.cell * j for j in range(len(column_labels))])
    label_width = len(str(len(column_labels))) + 1
    step = next((tick for tick in _TICKS if tick * grid.cell >= label_width), _TICKS[-1])
    starts = [(offset + grid.cell * k, f"{j + 1}") for k, j in enumerate(grid.columns) if j is not None]
    end = left + grid.cell * len(grid.columns)
    ticks = [
        (start, number) for start, number in starts if int(number) % step == 0 and start + len(number) <= end
    ]
    return hang([number for _, number in ticks], [start for start, _ in ticks])


def hang(flags: Sequence[str], starts: Sequence[int]) -> list[str]:
    """Place labels above columns, each on the lowest line where it overlaps no other label and no leader line.

    `flags`: labels from left to right; `starts`: the screen column where each begins, ascending.
    """
    heights = [0] * len(flags)
    for j in reversed(range(len(flags))):
        end = starts[j] + display_width(flags[j]) + 1
        crossed = [heights[k] + 1 for k in range(j + 1, len(flags)) if starts[k] < end]
        heights[j] = max(crossed, default=0)
    lines = []
    for level in reversed(range(max(heights, default=-1) + 1)):
        line = ""
        for word, start, height in zip(flags, starts, heights, strict=True):
            if height >= level:
                line += " " * (start - display_width(line)) + (word if height == level else "│")
        lines.append(line)
    return lines


def _notes(
    grid: _ColumnLayout, legend: list[str], top: float, width: int, cut: tuple[int, ...] | None
) -> list[str]:
    """Return the lines below the map: legend, scale and shape."""
    notes = []
    if legend and not grid.flags:
        # No line breaks between a number and its word.
        pairs = [
            f"{j + 1} {legend[j]}".replace(" ", "\N{NO-BREAK SPACE}") for j in grid.columns if j is not None
        ]
        wrapped = textwrap.wrap("   ".join(pairs), max(width, LONGEST_LABEL + 8), break_on_hyphens=False)
        notes += [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
    if grid.cell < 4:
        notes.append(f"darkest: {100 * top:.3g} %")
    if cut:
        notes.append(f"shown in part: {cut[0]} x {cut[1]} in all")
    return notes


def table(
    values: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    digits: int = 5,
    shades: bool = False,
    color: bool | None = None,
    width: int | None = None,
    most_rows: int = 12,
) -> str:
    """Format numbers as an aligned table; of too many rows or columns, only the first and last.

    Parameters
    ----------
    values
        (n, m), any real numbers; minus infinity is drawn as a dash.
    rows, columns
        n and m labels; None for no labels.
    digits
        Digits after the decimal point, 17 at most.
    shades
        Whether cells are shaded by their number, as in a heat map.
    color
        Whether colours are allowed; by default the value of `terminal.wants_color`.
    width
        The columns of the screen; by default the terminal's, or 80.
    most_rows
        The largest number of rows, at least 1.

    Returns
    -------
    str
        Lines of equal display width, without a newline at the end.

    Raises
    ------
    ValueError
        If `values` is not two-dimensional, the labels don't fit its shape, or an option is out of its range.
    TypeError
        If `values` are not real numbers.

    Examples
    --------
    >>> print(table([[8, 2], [4, 0]], ["q1", "q2"], ["k1", "k2"], color=False))
        k1  k2
    q1   8   2
    q2   4   0
    """
    cells = _check.numeric("values", values)
    _check.integer("digits", digits, most=17)
    _check.integer("most_rows", most_rows, least=1)
    _check.dimensions(values=(cells, "(n, m)"))
    n, m = cells.shape
    width = shutil.get_terminal_size().columns if width is None else width
    left = [cut(name, max(8, width // 3)) for name in labels(rows, n, "rows")] if rows is not None else []
    heads = labels(columns, m, "columns") if columns is not None else []
    if cells.size == 0:
        return f"no numbers: {n} rows, {m} columns"
    color = shades and (wants_color() if color is None else color)
    down, across = _ends(n, most_rows), _ends(m, _room(cells, left, heads, digits, width))
    spell = speller(cells, digits)
    top = float(cells[np.isfinite(cells)].max(initial=0)) or 1.0
    lines = [[""] * bool(left) + [_label(heads, j, _LONGEST_HEAD) for j in across]] if heads else []
    shares = {}
    for i in down:
        for k, j in enumerate(across):
            if color and i is not None and j is not None:
                shares[len(lines), k + bool(left)] = float(cells[i, j]) / top
        texts = ["…" if i is None or j is None else spell(float(cells[i, j])) for j in across]
        lines.append(([_label(left, i)] if left else []) + texts)
    return align(lines, shares)


def _label(names: list[str], index: int | None, most: int = LONGEST_LABEL) -> str:
    return "…" if index is None else cut(names[index], most)


def _room(cells: NDArray[Any], left: list[str], heads: list[str], digits: int, width: int) -> int:
    """Return how many columns of numbers fit the screen: at least three, if any screen has room for them, or two."""
    spell = speller(cells, digits)
    with np.errstate(invalid="ignore"):  # bfloat16 warns of a NaN
        ends = [spell(float(number)) for number in (cells.max(), cells.min())]
    size = max(map(len, ends))
    size = max(size, *(min(_LONGEST_HEAD, display_width(head)) for head in heads), 1)
    beside = max(map(display_width, left), default=0)
    least = 3 if beside + 3 * (size + 2) <= _SCREEN else 2
    return max(least, (width - beside) // (size + 2))


def _places(numbers: NDArray[Any], digits: int) -> int:
    """Return the least digits, at most these, that show all of the numbers: 0.5 and 2 need one."""
    with np.errstate(over="ignore"):
        for places in range(1, digits):
            if np.allclose(numbers, np.round(numbers, places), rtol=1e-12, atol=1e-15):
                return places
    return digits


def speller(values: ArrayLike, digits: int) -> Callable[[float], str]:
    """Return a function that formats each number of a table in one format.

    Integers have no decimal point; other numbers have `digits` digits after it, or an exponent where the largest is
    too large or too small for that. Minus infinity, the logit of a masked key, is a dash.

    `values`: (...), all the numbers of one table; `digits`: digits after the decimal point.
    """
    numbers = np.asarray(values)
    finite = np.abs(numbers[np.isfinite(numbers)])
    top = float(finite.max(initial=0.0))
    form = f"z.{digits}f"
    if top >= 1e9 or 0 < top < 10.0**-digits:
        form = f".{digits}e"
    elif numbers.dtype.kind in "biu":
        form = "z.0f"
    else:
        form = f"z.{_places(numbers[np.isfinite(numbers)], digits)}f"

    def spell(number: float) -> str:
        return "-" if number == -math.inf else format(number, form)

    return spell
