"""Checks of the arrays of layers, which are float32 or float64: shapes against letters, sequences, recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard._check.arrays import integer_array, shape, transpose_hint, within
from regard._check.errors import fail
from regard._check.foreign import as_numpy

__all__ = [
    "floats",
    "has_intermediates",
    "lengths",
    "recurrent",
    "same_shape",
    "shapes",
    "step",
    "with_pullback",
]

Array = NDArray[Any]


def floats(**named: Any) -> None:
    """Check that dtypes are float32 or float64: integers would round results, half precision overflows in sums.

    None is skipped.
    """
    for name, array in named.items():
        is_plain = isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray)
        if array is None or (is_plain and array.dtype.kind == "f" and array.itemsize in (4, 8)):
            continue
        got = f"dtype {array.dtype}" if is_plain else type(array).__name__
        hint = "" if isinstance(array, np.ndarray) else as_numpy(name, array)
        fail(f"{name} must be an array of float32 or float64. Got {got} instead.", hint=hint, kind=TypeError)


def with_pullback(name: str, result: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the result and the pullback of a function of the user's, checked to be two."""
    if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
        hint = "the second is a function of the result's gradient, as regard.nn.relu returns it"
        fail(
            f"{name} must be (result, pullback). Got {type(result).__name__} instead.",
            hint=hint,
            kind=TypeError,
        )
    return result


def same_shape(name: str, array: Array, wanted: tuple[int, ...]) -> None:
    """Check that an array is floating and has this shape."""
    floats(**{name: array})
    if array.shape != wanted:
        hint = transpose_hint(name, array.shape, (*wanted[:1], *array.shape[:1]))
        shape(name, array.shape, wanted, hint=hint)


def shapes(letters: dict[str, int], **named: tuple[Array, str]) -> None:
    """Check shapes against letters, such as ``(array, "n B 3H")``."""
    for name, (array, axes) in named.items():
        factors = [(part[:-1], part[-1]) for part in axes.split()]
        wanted = tuple(int(factor or 1) * letters[letter] for factor, letter in factors)
        if array.shape != wanted:
            listed = ", ".join(axes.split()) + ("," if len(factors) == 1 else "")
            shape(name, array.shape, wanted, f"({listed})", transpose_hint(name, array.shape, wanted))


def step(state: str, before: Array, gates: int, **halves: Array) -> None:
    """Check that the pre-activations of a step are (..., gates * H), for a previous state (..., H)."""
    floats(**halves, **{state: before})
    if not before.ndim:
        fail(f"{state} must be (..., H). Got shape () instead.")
    for name, half in halves.items():
        same_shape(name, half, (*before.shape[:-1], gates * before.shape[-1]))


def recurrent(
    gates: int,
    x: Array,
    input_weight: Array,
    bias: Array,
    state_weight: Array,
    state_bias: Array | None = None,
) -> None:
    """Check the shapes of inputs and parameters of a recurrent layer with `gates` gates of size H."""
    floats(x=x, input_weight=input_weight, bias=bias, state_weight=state_weight, state_bias=state_bias)
    if x.ndim != 3 or state_weight.ndim != 3 or len(state_weight) not in (1, 2):
        fail(
            f"x must be (T, B, E) and state_weight (K, H, {gates}H) with K = 1 or 2. "
            f"Got shapes {x.shape} and {state_weight.shape} instead."
        )
    named = {"input_weight": (input_weight, f"E K {gates}H"), "bias": (bias, f"K {gates}H")}
    named["state_weight"] = state_weight, f"K H {gates}H"
    if state_bias is not None:
        named["state_bias"] = state_bias, f"K {gates}H"
    shapes({"K": len(state_weight), "H": state_weight.shape[1], "E": x.shape[2]}, **named)


def has_intermediates(keep: bool) -> None:
    """Raise for a backward pass without intermediate results."""
    if not keep:
        fail("keep must be True for a backward pass. Got False instead.")


def lengths(value: ArrayLike, size: int, most: int) -> NDArray[np.int64]:
    """Return the argument `lengths`: one count for each of `size` sequences."""
    counts = integer_array("lengths", value, 0)
    shape("lengths", counts.shape, (size,), "(B,)")
    within("lengths", counts, most=most)
    return counts
