"""Attention over a picture for each token of its caption, as text; and the checks of such weights."""

import shutil
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.show.pixels import MARGIN
from regard.show.terminal.text import BLOCKS, clean, display_width, fit, shade, side_by_side, wants_color

__all__ = ["captioned", "checked_grids", "checked_tokens"]


def captioned(
    weights: ArrayLike,
    tokens: Sequence[str],
    *,
    grid: tuple[int, int] | None = None,
    color: bool | None = None,
    width: int | None = None,
) -> str:
    """Draw, below each token of a caption, the attention weights over the picture as a small grid of shades.

    Each grid has its own scale: its darkest shade is its largest weight. A cell takes two columns of the screen, or one
    where the grid would not fit.

    Parameters
    ----------
    weights
        (n, h, w) weights of the cells of the picture, row by row, or (n, h * w) with `grid`. They lie between 0 and
        1; a masked cell has the weight 0.
    tokens
        n tokens of the caption. A token that is wider than its grid is cut and ends in an ellipsis.
    grid
        (h, w), the rows and columns of cells; needed where `weights` is (n, h * w).
    color
        Whether to shade the cells with terminal colours; by default the value of `terminal.wants_color`.
    width
        The columns of the screen; by default the terminal's, or 80.

    Returns
    -------
    str
        The grids side by side, in as many rows as they need; without a newline at the end.

    Raises
    ------
    ValueError
        If the shape of `weights` or the number of tokens does not fit, or a weight is not between 0 and 1.
    TypeError
        If `weights` are not real numbers, or `tokens` is one string.

    Examples
    --------
    >>> weights = [[[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.1, 0.2], [0.0, 0.2, 0.5]]]
    >>> print(captioned(weights, ["two", "cats"], color=False, width=40))
    two      cats
    ████       ░░▒▒
               ▒▒██
    """
    grids = checked_grids(weights, grid)
    names = checked_tokens(tokens, len(grids))
    color = wants_color() if color is None else color
    width = shutil.get_terminal_size().columns if width is None else width
    cell = 2 if 2 * grids.shape[2] <= width else 1  # with two columns, a cell is about as wide as high
    blocks = [_block(name, grid, cell, color) for name, grid in zip(names, grids, strict=True)]
    return side_by_side(blocks, width=width) if blocks else "no tokens"


def _block(token: str, weights: NDArray[np.float64], cell: int, color: bool) -> str:
    """Return a token and the lines of its grid; a narrow grid is widened for up to 6 columns of the token."""
    across = cell * weights.shape[1]
    shares = weights / (weights.max() or 1.0)
    lines = [fit(token, max(across, min(6, display_width(token))))]
    lines += ["".join(_cell(float(share), cell, color) for share in row) for row in shares]
    return "\n".join(lines)


def _cell(share: float, size: int, color: bool) -> str:
    return shade(" " * size, share) if color else BLOCKS[round(4 * share)] * size


def checked_grids(weights: ArrayLike, grid: tuple[int, int] | None = None) -> NDArray[np.float64]:
    """Return the attention weights over the cells of a picture, one grid for each token.

    `weights`: (n, h, w), or (n, h * w) with `grid`, between 0 and 1; `grid`: (h, w), or None where `weights` has
    three dimensions. Returns ndarray: (n, h, w) in float64; a masked cell has the weight 0.
    """
    array = _check.numeric(
        "weights", weights.filled(0) if isinstance(weights, np.ma.MaskedArray) else weights
    )
    shape = array.shape
    if grid is not None:
        h, w = _checked_pair(grid)
        if shape[1:] not in ((h, w), (h * w,)) or len(shape) < 2:
            _check.fail(
                f"weights must be (n, {h}, {w}) or (n, {h * w}) for the grid ({h}, {w}). Got {shape} instead.",
                hint="h * w must be the number of weights of a token"
                if len(shape) == 2
                else _hint(len(shape)),
            )
        array = array.reshape(shape[0], h, w)
    elif array.ndim != 3:
        _check.fail(f"weights must be (n, h, w). Got {shape} instead.", hint=_hint(array.ndim))
    if not (array.shape[1] and array.shape[2]):
        _check.fail(f"weights must have at least one cell for each token. Got {shape} instead.")
    array = array.astype(np.float64)
    outside = ~((array >= 0) & (array <= 1 + MARGIN))  # NaN, too
    if outside.any():
        token, row, column = np.argwhere(outside)[0]
        _check.fail(
            f"weights must lie between 0 and 1: {array[token, row, column]} in row {row + 1}, column {column + 1}"
            f" of token {token + 1}"
        )
    return array


def _checked_pair(grid: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(grid, tuple | list) or len(grid) != 2:
        _check.fail(f"grid must be (h, w), two integers. Got {grid!r:.60} instead.", kind=TypeError)
    return _check.integer("grid[0]", grid[0], least=1), _check.integer("grid[1]", grid[1], least=1)


def _hint(dimensions: int) -> str:
    if dimensions == 1:
        return "the weights of one token are weights[None]"
    if dimensions == 2:
        return "give the rows and columns of cells as grid=(h, w)"
    return "choose one picture of a batch and one head, or the mean over heads"


def checked_tokens(tokens: Sequence[str], count: int) -> list[str]:
    """Return one printable line for each token of a caption.

    `tokens`: the tokens; `count`: the number of tokens that have weights.
    """
    if isinstance(tokens, str):
        _check.fail(
            "tokens must be a sequence of strings. Got one string instead.",
            hint="use text.split()",
            kind=TypeError,
        )
    tokens = _check.listed("tokens", tokens)
    if len(tokens) != count:
        _check.fail(f"weights and tokens must have the same length: {count} and {len(tokens)}")
    return [clean(str(token)) for token in tokens]
