"""The cells of a heat map, on a terminal and in a figure: validation, masks, labels and the darkest shade."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.context import NOTHING_RECORDED
from regard.show.terminal.text import clean, cut

__all__ = ["Cells", "checked_cells", "darkest", "head_name", "labels", "one_sentence", "percent"]

LONGEST_LABEL = 24  # columns of a terminal
UNIFORM = 4  # the darkest shade is at least this multiple of the uniform weight
LARGEST = 1e300  # that is drawn: sums and ranges of such numbers must be finite, too
_LEAST = 1e-5  # a scale with a smaller maximum would need six digits after the point


class Cells(NamedTuple):
    """The numbers of a heat map, and the cells that have none."""

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    signed: bool = False


def checked_cells(
    weights: ArrayLike | Sequence[ArrayLike], dimensions: tuple[int, ...] = (2,), *, signed: bool = False
) -> Cells:
    """Return weights as the cells of a heat map."""
    array: Any = one_sentence(np.ma.array(_check.plain("weights", weights, masked=True)))
    masked = np.ma.getmaskarray(array)
    values = np.where(masked, 0, array.data) if masked.any() else array.data
    values = values.astype(np.float32) if _check.is_half(values.dtype) else values
    if values.ndim not in dimensions or values.dtype.kind not in "biuf":
        shows = "an (n, m) array" if dimensions == (2,) else "(h, n, m) or (layers, h, n, m) arrays"
        _check.fail(
            f"a heat map shows {shows} of real numbers: weights are {values.shape} of type {values.dtype}",
            hint=_hint(values, dimensions),
        )
    outside = (values < 0) | (values > 1 + 1e-6)
    if not signed and outside.any():
        *head, i, j = np.argwhere(outside)[0]
        where = f"row {i + 1}, column {j + 1}" + (f" of {head_name(head)}" if head else "")
        _check.fail(
            f"weights must lie between 0 and 1: {values[(*head, i, j)]} in {where}",
            hint="show.figures.heatmap draws scores, logits and differences with signed=True",
        )
    missing = masked | np.isneginf(values) if signed else masked
    return Cells(np.where(missing, 0, values) if missing.any() else values, missing, signed)


def one_sentence(weights: NDArray[Any]) -> NDArray[Any]:
    """Return weights (layers, 1, h, n, m) of a batch of one sentence without the batch, and others as they are."""
    return weights[:, 0] if weights.ndim == 5 and weights.shape[1] == 1 else weights


def _hint(values: NDArray[Any], dimensions: tuple[int, ...]) -> str:
    if values.shape == (0,):
        return NOTHING_RECORDED
    if values.dtype == object:
        return "pass the weights of recorded attentions: [attention.weights for attention in recorded]"
    if dimensions == (2,):
        return "choose one head with weights[..., head, :, :]; figures.heatmaps draws several"
    if values.ndim > max(dimensions):
        return "choose one sentence of a batch: [attention.weights[sentence] for attention in recorded]"
    return "figures.heatmap draws an (n, m) array"


def darkest(cells: Cells) -> float:
    """Return the number that the darkest shade stands for."""
    finite = cells.values[np.isfinite(cells.values)].astype(np.float64)
    high, low = float(finite.max(initial=0)), float(finite.min(initial=0))
    if cells.signed:
        top = min(max(high, -low), LARGEST)
        return top if top >= 1e-300 else 1.0
    top = max(high, min(1.0, UNIFORM / cells.values.shape[-1]))
    return top if top >= _LEAST else 1.0


def head_name(index: Sequence[int]) -> str:
    """Name a head by its number, and that of its layer, from 1."""
    named = zip(("layer", "head")[-len(index) :], index, strict=True)
    return ", ".join(f"{name} {number + 1}" for name, number in named)


def labels(names: Sequence[str] | None, count: int, side: str, default: str = "") -> list[str]:
    """Return one printable label for each row or column, cut to 24 columns of a terminal."""
    if names is None:
        return [f"{default}{i + 1}" for i in range(count)]
    names = _check.listed(side, names)
    if len(names) != count:
        _check.fail(f"{side} must name each of the {count} {side}: {len(names)} words given")
    return [cut(clean(str(name)), LONGEST_LABEL) for name in names]


def percent(weight: float) -> str:
    """Write a weight in percent, as short as the cell of a heat map."""
    if weight == 0:
        return ""
    text = f"{100 * weight:.0f}"
    return "·" if text == "0" else text
