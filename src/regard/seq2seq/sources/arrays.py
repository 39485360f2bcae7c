"""Checks that sources of arrays share."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check

__all__ = ["real_array", "scaled"]


def real_array(name: str, value: Any) -> NDArray[Any]:
    """Return an example as an array of real numbers."""
    if isinstance(value, np.ma.MaskedArray):
        rule = f"{name} must be a plain array. Got a masked array instead."
        _check.fail(rule, hint="example.filled(0), or leave the masked rows out", kind=TypeError)
    if isinstance(value, bytes | bytearray | os.PathLike):
        rule = f"{name} must be an array or a path of type str. Got {type(value).__name__} instead."
        _check.fail(rule, hint="os.fsdecode(path)", kind=TypeError)
    return _check.numeric(name, value)


def scaled(rows: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows of a source as a network reads them: uint8 is scaled to 0 to 1, float32 stays as it is."""
    if rows.dtype == np.uint8:
        return np.multiply(rows, np.float32(1 / 255), dtype=np.float32)
    if rows.dtype != np.float32:
        _check.fail(f"rows must be of uint8 or float32. Got {rows.dtype} instead.", kind=TypeError)
    return rows.astype(np.float32, copy=False)
