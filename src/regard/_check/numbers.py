"""Checks of numbers: floats, integers, flags and seeds."""

from __future__ import annotations

import math
import operator
from functools import cache
from typing import Any

import numpy as np

from regard._check.errors import fail
from regard._check.foreign import plain

__all__ = ["MOST", "flag", "generator", "integer", "normal_range", "number", "representable"]

MOST = int(np.iinfo(np.int64).max)
_NO_NUMBERS = (str, bytes, bool)


def number(
    name: str,
    value: Any,
    *,
    positive: bool = False,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Return a finite Python float within these bounds."""
    value = plain(name, value, "a number")
    try:
        result = math.nan if isinstance(value, _NO_NUMBERS) else float(value)
    except (TypeError, ValueError):
        result = math.nan
    except OverflowError:  # an integer of more than 308 digits
        result = math.inf
    if math.isnan(result) and not isinstance(value, float | np.floating):
        fail(f"{name} must be a number. Got {value!r:.60} instead.", kind=TypeError)
    if not math.isfinite(result):
        fail(f"{name} must be finite. Got {result!r} instead.")
    if positive and result <= 0:
        fail(f"{name} must be greater than 0. Got {result!r} instead.")
    if least is not None and result < least:
        fail(f"{name} must be at least {least:g}. Got {result!r} instead.")
    if below is not None and result >= below:
        fail(f"{name} must be less than {below:g}. Got {result!r} instead.")
    if most is not None and result > most:
        fail(f"{name} must be at most {most:g}. Got {result!r} instead.")
    return result


@cache
def normal_range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the smallest and the largest normal number of a dtype."""
    limits = np.finfo(dtype)
    return float(limits.tiny), float(limits.max)


def representable(name: str, value: float, dtype: np.dtype[Any], *, positive: bool = False) -> float:
    """Return a number if the dtype of the computation can represent it."""
    least, most = normal_range(dtype)
    if abs(value) > most:
        fail(f"{name} must be a number that {dtype} can hold. Got {value!r} instead.")
    if positive and value < least:
        fail(
            f"{name} must be at least {least:.3g}, the smallest normal number of {dtype}. Got {value!r} instead."
        )
    return value


def flag(name: str, value: Any) -> bool:
    """Return a bool; numbers are rejected."""
    if not isinstance(value, bool | np.bool_):
        fail(f"{name} must be True or False. Got {value!r:.60} instead.", kind=TypeError)
    return bool(value)


def integer(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """Return a Python int that is at least `least` and at most `most`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        result = operator.index(value)
    except TypeError:
        fail(f"{name} must be an integer. Got {value!r:.60} instead.", kind=TypeError)
    if result < least:
        fail(f"{name} must be at least {least}. Got {result} instead.")
    if most is not None and result > most:
        fail(f"{name} must be at most {most}. Got {result} instead.")
    return result


def generator(name: str, value: Any) -> np.random.Generator:
    """Return a random generator: the given one, one from this seed, or one with fresh entropy for None."""
    if value is None or isinstance(
        value, np.random.Generator | np.random.SeedSequence | np.random.BitGenerator
    ):
        return np.random.default_rng(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        rule = f"{name} must be an integer, a numpy.random.Generator or None."
        fail(f"{rule} Got {type(value).__name__} instead.", kind=TypeError)
    return np.random.default_rng(integer(name, value))
