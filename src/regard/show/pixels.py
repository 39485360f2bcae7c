"""Pictures as arrays: checked, on white, and averaged to the size at which they are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check

__all__: list[str] = []

MARGIN = 1e-6  # of rounding, above 1

Pixels = NDArray[np.float32]


def checked_picture(picture: ArrayLike) -> Pixels:
    """Return a picture as red, green and blue between 0 and 1, on white where it is transparent."""
    array = _check.numeric("picture", picture)
    shape = array.shape
    if array.ndim not in (2, 3) or shape[2:] not in ((), (1,), (3,), (4,)):
        _check.fail(
            f"picture must be (H, W) or (H, W, C) with 1, 3 or 4 channels. Got {shape} instead.",
            hint=_hint(shape),
        )
    if not array.size:
        _check.fail(f"picture must have at least one pixel. Got {shape} instead.")
    pixels = _scaled(array).reshape(*shape[:2], -1)
    if pixels.shape[2] == 4:
        opacity = pixels[..., 3:]
        pixels = pixels[..., :3] * opacity + (1 - opacity)
    return np.broadcast_to(pixels, (*shape[:2], 3))


def _hint(shape: tuple[int, ...]) -> str:
    if len(shape) == 4:
        return "choose one picture of a batch: pictures[0]"
    if len(shape) == 3 and shape[0] in (1, 3, 4):
        return "channels are last: picture.transpose(1, 2, 0)"
    return ""


def _scaled(array: NDArray[Any]) -> Pixels:
    """Return the numbers of a picture between 0 and 1."""
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    if not _check.is_float(array.dtype):
        hint = "use .astype(np.uint8) where white is 255, .astype(float) where it is 1"
        _check.fail(
            f"picture must be uint8, or floats between 0 and 1. Got dtype {array.dtype} instead.",
            hint=hint,
            kind=TypeError,
        )
    pixels = _check.rounded(array, np.dtype(np.float32))  # too large ones are infinite, and refused
    outside = ~((pixels >= 0) & (pixels <= 1 + MARGIN))  # NaN, too
    if outside.any():
        hint = "divide by 255 where white is 255"
        _check.fail(
            f"floats of a picture must lie between 0 and 1. Got {pixels[outside][0]} instead.", hint=hint
        )
    return np.minimum(pixels, 1)


def averaged(pixels: Pixels, axis: int, least: int) -> Pixels:
    """Average neighbouring pixels along an axis, so that at least so many are left."""
    size = pixels.shape[axis]
    if size < 2 * least:
        return pixels
    starts = np.arange(0, size, size // least)
    counts = np.diff([*starts, size]).reshape(-1, *[1] * (2 - axis))
    mean: Pixels = (np.add.reduceat(pixels, starts, axis=axis) / counts).astype(np.float32)
    return mean
