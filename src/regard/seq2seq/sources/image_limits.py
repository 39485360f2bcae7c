"""Ranges of brightness and other measures of training pictures; a model guesses about pictures far outside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.sources.arrays import scaled

__all__ = ["Limits", "as_limits", "limits", "measures", "outside"]

Limits = dict[str, tuple[float, float]]  # the lowest and the highest value of each measure

_OF_PIXELS = ("brightness", "contrast", "border", "sharpness")
_OF_FILES = ("size", "proportions")  # of pictures in files, which are made to fit
_TAIL = 0.005  # the share of pictures at each end that may be outliers
_MARGIN = 0.25  # of the range between the limits: how far outside a picture may lie
_LEAST_MARGIN = 0.02  # where white is 1
_FACTOR = 3.0  # the margin of sizes and proportions


def measures(
    pixels: NDArray[np.uint8] | NDArray[np.float32], size: tuple[int, int] | None
) -> dict[str, float]:
    """Return the measures of a picture (height, width, channels) and of the height and width of its file.

    Brightness is the mean of all pixels, contrast their standard deviation, border the mean of those at the edge, and
    sharpness the largest difference between two that are side by side; black is 0 and white 1. Size is the longer side
    of the file's picture, proportions its width over its height.
    """
    values = scaled(pixels).astype(np.float64)
    edge = np.concatenate([values[0], values[-1], values[:, 0], values[:, -1]])
    steps = max(np.abs(np.diff(values, axis=axis)).max() for axis in (0, 1))
    row = dict(zip(_OF_PIXELS, map(float, (values.mean(), values.std(), edge.mean(), steps)), strict=True))
    return row if size is None else row | {"size": float(max(size)), "proportions": size[1] / size[0]}


def limits(measured: Sequence[Mapping[str, float]]) -> Limits:
    """Return the limits of each measure, without the outliers of 0.5 % at each end."""
    of_files = _OF_FILES if any("size" in measures for measures in measured) else ()
    collected = {
        name: [measures[name] for measures in measured if name in measures]
        for name in (*_OF_PIXELS, *of_files)
    }
    tails = {name: np.quantile(values, (_TAIL, 1 - _TAIL)).tolist() for name, values in collected.items()}
    return {name: (low, high) for name, (low, high) in tails.items()}


def outside(measured: Mapping[str, float], within: Limits) -> tuple[str, ...]:
    """Return which measures lie far outside their limits, with the numbers."""
    return tuple(
        f"{name} {measured[name]:.3g} ({low:.3g} to {high:.3g} in training)"
        for name, (low, high) in within.items()
        if name in measured and _is_far(name, measured[name], low, high)
    )


def _is_far(name: str, value: float, low: float, high: float) -> bool:
    """Return whether a value lies outside limits by more than the margin."""
    if name in _OF_FILES:
        return value * _FACTOR < low or value > _FACTOR * high
    margin = max(_MARGIN * (high - low), _LEAST_MARGIN)
    return value < low - margin or value > high + margin


def as_limits(value: Any) -> Limits:
    """Check limits, perhaps of an untrusted file."""
    value = _check.mapping("seen", value)
    if not set(_OF_PIXELS) <= set(value) <= {*_OF_PIXELS, *_OF_FILES}:
        rule = (
            f"seen must have limits of {', '.join(_OF_PIXELS)}, and may have those of {', '.join(_OF_FILES)}."
        )
        _check.fail(f"{rule} Got {', '.join(map(str, value))!r:.60} instead.")
    return {name: _pair(name, pair) for name, pair in value.items()}


def _pair(name: str, pair: Any) -> tuple[float, float]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        _check.fail(f"seen[{name!r}] must be two numbers. Got {pair!r:.60} instead.")
    low, high = (_check.number(f"seen[{name!r}]", limit) for limit in pair)
    if low > high:
        _check.fail(f"seen[{name!r}] must have the lower limit first. Got {pair!r:.60} instead.")
    return low, high
