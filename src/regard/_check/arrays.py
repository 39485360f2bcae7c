"""Checks of arrays of numbers: dtypes, shapes, and what broadcasts to what."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard._check.errors import fail
from regard._check.foreign import UNREADABLE, plain, unreadable, way_out
from regard._check.numbers import MOST

__all__ = [
    "DIMENSIONS",
    "as_array",
    "axes",
    "broadcast",
    "broadcast_shapes",
    "dimensions",
    "dtypes",
    "finite",
    "floating",
    "from_bytes",
    "hidden",
    "integer_array",
    "is_float",
    "is_half",
    "listed",
    "numeric",
    "output",
    "parameter",
    "rounded",
    "rows",
    "shape",
    "three",
    "transpose_hint",
    "within",
]

Array = NDArray[Any]

DIMENSIONS = 32  # NumPy can't broadcast all arrays with more


@cache
def is_half(dtype: np.dtype[Any]) -> bool:
    """Return whether this is float16 or the bfloat16 of ml_dtypes; both are computed in float32."""
    return dtype.name in ("float16", "bfloat16")


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether this is a floating dtype, including bfloat16."""
    return dtype.kind == "f" or is_half(dtype)


def dtypes(*arrays: Array) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return (dtype of the computation, dtype of the result): law 7."""
    return _joint(*[array.dtype for array in arrays])


@cache
def _joint(*stored: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    mixed = len({dtype.name for dtype in stored if is_half(dtype)}) > 1
    operands = [np.dtype(np.float32) if mixed and is_half(dtype) else dtype for dtype in stored]
    try:
        result = np.result_type(*operands)
    except TypeError:  # bfloat16 and integers without a common dtype
        result = np.dtype(np.float32)
    if is_half(result):
        return np.dtype(np.float32), result
    if result.kind != "f" or result.itemsize > 8:
        result = np.dtype(np.float64)
    result = result.newbyteorder("=")
    return result, result


def rounded(array: Array, dtype: np.dtype[Any], *, copy: bool = False) -> Array:
    """Cast a result to another dtype; overflow gives inf and underflow 0, without a warning."""
    if array.dtype == dtype:
        return array.astype(dtype, copy=copy)
    with np.errstate(over="ignore", under="ignore"):
        return array.astype(dtype, copy=copy)


def as_array(name: str, value: ArrayLike, of: str = "numbers", otherwise: str = "") -> Array:
    """Return an array of any library, or nested lists, as an array; a masked array would silently lose its mask."""
    readable = plain(name, value, f"an array of {of}")
    try:
        return np.asarray(readable)
    except ValueError:
        _ragged(name, value, of, otherwise)
    except UNREADABLE as error:  # of a sequence of another class
        unreadable(name, value, f"an array of {of}", error)


def _ragged(name: str, value: Any, of: str = "numbers", otherwise: str = "") -> NoReturn:
    """Raise for nested lists of different lengths, at any depth."""
    sentences = any(np.iterable(part) for row in value if np.iterable(row) for part in row)
    padded = "; mask=regard.mask.lengths(counts) hides what is added" if sentences else ""
    rule = f"{name} must be an array of {of}; its rows have different lengths."
    fail(rule, hint=otherwise or f"pad them to one length{padded}")


def listed(name: str, values: Any) -> Any:
    """Return labels as a list, which has a count where a generator has none; return a string or None unchanged."""
    try:
        return values if values is None or isinstance(values, str) else list(values)
    except TypeError:
        fail(f"{name} must be a sequence of strings. Got {type(values).__name__} instead.", kind=TypeError)


def numeric(name: str, value: ArrayLike) -> Array:
    """Return the argument as an array of real numbers of a supported dtype."""
    array = as_array(name, value)
    dtype = array.dtype
    if (dtype.kind not in "biuf" or dtype.itemsize > 8) and not is_half(dtype):
        _not_numeric(name, value, array)
    return array


def _not_numeric(name: str, value: ArrayLike, array: Array) -> NoReturn:
    if array.dtype == object:
        if array.ndim and any(isinstance(part, list | tuple | np.ndarray) for part in array.flat):
            _ragged(name, value)
        got = type(value).__name__ if not array.ndim else "dtype object"
        calls = way_out(value)
        fail(
            f"{name} must hold real numbers. Got {got} instead.",
            hint=calls and f"use {calls}",
            kind=TypeError,
        )
    if array.dtype.kind == "f":
        fail(
            f"{name} must be float64 or smaller. Got dtype {array.dtype} instead.",
            hint="use .astype(float)",
            kind=TypeError,
        )
    hint = "attention is defined here for real numbers" if array.dtype.kind == "c" else ""
    fail(f"{name} must hold real numbers. Got dtype {array.dtype} instead.", hint=hint, kind=TypeError)


def floating(name: str, value: ArrayLike) -> Array:
    """Return the argument as a floating array; integers become float64."""
    array = numeric(name, value)
    return array if is_float(array.dtype) else array.astype(np.float64)


def integer_array(
    name: str, value: ArrayLike, least: int | None = None, most: int | None = None
) -> NDArray[np.int64]:
    """Return an int64 array from integers within these bounds."""
    array = as_array(name, value)
    if array.dtype.kind not in "iu" and array.size:
        fail(f"{name} must hold integers. Got dtype {array.dtype} instead.", kind=TypeError)
    within(name, array, least, MOST if most is None and array.dtype.kind == "u" else most)
    return array.astype(np.int64)


def within(
    name: str,
    array: Array,
    least: float | None = None,
    most: float | None = None,
    *,
    positive: bool = False,
) -> None:
    """Check an array of numbers against bounds; NaN lies outside of them."""
    if not array.size:
        return
    if positive and not (low := array.min()) > 0:
        fail(f"{name} must be greater than 0. Got {low} instead.")
    if least is not None and not (low := array.min()) >= least:
        fail(f"{name} must be at least {least}. Got {low} instead.")
    if most is not None and not (high := array.max()) <= most:
        fail(f"{name} must be at most {most}. Got {high} instead.")


def finite(name: str, array: Array, first: int = 0) -> None:
    """Check that all numbers of an array are finite; positions are counted from `first`."""
    wrong = ~np.isfinite(array)
    if wrong.any():
        index = np.unravel_index(int(wrong.argmax()), array.shape)
        place = tuple(int(i) + first for i in index)
        where = "in row {}, column {}".format(*place) if len(place) == 2 else f"at index {place} from {first}"
        fail(f"{name} must hold finite numbers. Got {array[index]} {where} instead.")


def dimensions(**named: tuple[Array, str]) -> None:
    """Check numbers of dimensions against letters, such as ``(array, "(N, E)")``; ``...`` is any number of them."""
    if all(_has_axes(array, letters) for array, letters in named.values()):
        return
    wanted = _enumerated([f"{name} {letters}" for name, (_, letters) in named.items()])
    got = _enumerated([str(array.shape) for array, _ in named.values()])
    fail(f"{wanted.replace(' ', ' must be ', 1)}. Got shape{'s' * (len(named) > 1)} {got} instead.")


def _has_axes(array: Array, letters: str) -> bool:
    wanted = axes(letters)
    return array.ndim >= len(wanted) - 1 if "..." in wanted else array.ndim == len(wanted)


def _enumerated(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def shape(
    name: str, actual: tuple[int, ...], wanted: tuple[int, ...], letters: str = "", hint: str = ""
) -> None:
    """Check a shape against the wanted one, which `letters` may explain."""
    if actual != wanted:
        equal = f"{letters} = " if letters else ""
        fail(f"{name} must have shape {equal}{wanted}. Got {actual} instead.", hint=hint)


def from_bytes(name: str, data: bytes, dtype: str, shape: tuple[int, ...] | None = None) -> Array:
    """Return the numbers in bytes of an untrusted file, as many as the bytes hold if `shape` is None."""
    size = np.dtype(dtype).itemsize
    wanted = (len(data) // size,) if shape is None else shape
    if len(data) != math.prod(wanted) * size:
        count = " x ".join(map(str, wanted))
        fail(f"{name} must be {count} numbers of {size} bytes. Got {len(data)} bytes instead.")
    return np.frombuffer(data, dtype).reshape(wanted)


def rows(**values: ArrayLike) -> dict[str, Array]:
    """Return queries, keys or values by name, as arrays of rows."""
    arrays = {name: numeric(name, value) for name, value in values.items()}
    for name, array in arrays.items():
        if array.ndim < 2:
            fail(f"{name} must have at least 2 dimensions: {array.ndim}", arrays, _as_rows(name, arrays))
        if array.ndim > DIMENSIONS:
            fail(f"{name} must have at most {DIMENSIONS} dimensions. Got {array.ndim} instead.")
    return arrays


def _as_rows(name: str, arrays: dict[str, Array]) -> str:
    """Return a hint for making a scalar or a 1-d array 2-dimensional."""
    if not arrays[name].ndim:
        return f"one number is [[{name}]]"
    vector, numbers = f"one vector is {name}[None, :]", f"one number for each row is {name}[:, None]"
    other = arrays.get({"queries": "keys", "keys": "queries", "values": "keys"}[name])
    if other is None:
        return f"{vector}; {numbers}"
    if name == "values":
        return vector if other.ndim > 1 and other.shape[-2] == 1 != len(arrays[name]) else numbers
    if other.ndim > 1 and other.shape[-1] == len(arrays[name]) != 1:
        return vector
    return numbers if other.shape[-1:] == (1,) else f"{vector}; {numbers}"


def three(queries: ArrayLike, keys: ArrayLike, values: ArrayLike) -> tuple[Array, Array, Array]:
    """Return queries, keys and values as arrays; keys and values must have the same length."""
    arrays = rows(queries=queries, keys=keys, values=values)
    m_keys, m_values = arrays["keys"].shape[-2], arrays["values"].shape[-2]
    if m_keys != m_values:
        fail(
            f"keys and values must share their length m: {m_keys} and {m_values}",
            arrays,
            "every key has one value",
        )
    return arrays["queries"], arrays["keys"], arrays["values"]


def axes(letters: str) -> tuple[str, ...]:
    """Return the axes of a shape in letters, such as ``(d, h)``."""
    return tuple(axis.strip() for axis in letters.strip("()").split(",") if axis.strip())


def parameter(name: str, value: ArrayLike, letters: str) -> Array:
    """Return a learned parameter as a floating array with the axes of `letters`; ``...`` is any number of them."""
    array, wanted = floating(name, value), axes(letters)
    if array.ndim != len(wanted) and "..." not in wanted:
        fail(f"{name} must have shape {letters}. Got shape {array.shape} instead.")
    return array


def hidden(name: str, array: Array, size: int) -> None:
    """Check that a parameter of a perceptron ends in its hidden size."""
    if array.shape[-1] != size:
        rule = f"{name} must end in the hidden size h = {size} of vector. Got shape {array.shape} instead."
        fail(rule, hint=transpose_hint(name, array.shape, (*array.shape[1:], size)))


def transpose_hint(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Return a hint if a matrix has the transposed shape, as the weight of PyTorch's Linear has."""
    transposed = (
        name.endswith("weight") and len(shape) == 2 and shape == wanted[::-1] and shape[0] != wanted[0]
    )
    return f"{name}.T, if it is PyTorch's, which is (out, in)" if transposed else ""


def broadcast(
    name: str, shape: tuple[int, ...], target: tuple[int, ...], letters: str, hint: str = ""
) -> None:
    """Check that an option's shape broadcasts to the target shape without enlarging it."""
    sizes = zip(reversed(shape), reversed(target), strict=False)
    if len(shape) > len(target) or not all(length in (1, size) for length, size in sizes):
        hint = hint or _reshape_hint(name.split(" ")[0], shape, target)
        fail(f"{name} must broadcast to {letters} = {target}. Got shape {shape} instead.", hint=hint)


def _reshape_hint(name: str, shape: tuple[int, ...], target: tuple[int, ...]) -> str:
    """Return a hint for making an array broadcast: new dimensions of size 1, or its last two swapped."""
    if not name.isidentifier():
        return ""
    fitting = [
        axes
        for axes in combinations(range(len(target)), len(shape))
        if tuple(target[axis] for axis in axes) == shape
    ]
    if fitting and shape:  # prefer to align the last dimensions, then the first ones
        axes = max(fitting, key=lambda axes: (axes[-1], [-axis for axis in axes]))
        index = [":" if axis in axes else "None" for axis in range(axes[0], len(target))]
        return f"did you mean {name}[{', '.join(index)}]?"
    swapped = (*shape[:-2], *shape[:-3:-1])
    if len(shape) > 1 and swapped == target[len(target) - len(shape) :]:
        return f"did you mean {name}.{'T' if len(shape) == 2 else 'swapaxes(-1, -2)'}?"
    return ""


def broadcast_shapes(
    what: str, *shapes: tuple[int, ...], arrays: dict[str, Array] | None = None
) -> tuple[int, ...]:
    """Return the broadcast shape, or raise with the shapes that are incompatible."""
    most = max(map(len, shapes))
    if most > DIMENSIONS:
        fail(f"{what} must have at most {DIMENSIONS} dimensions. Got {most} instead.", arrays)
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        *first, last = map(str, shapes)
        fail(f"{what} must broadcast: {', '.join(first)} and {last}", arrays)


def output(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check the array `out` that a result is written to."""
    if not isinstance(out, np.ndarray):
        shares = hasattr(out, "numpy") and (calls := way_out(out)) in ("", ".detach()")
        hint = f"out{calls}.numpy() shares its memory" if shares else f"np.empty({shape}, np.{dtype})"
        fail(f"out must be an array. Got {type(out).__name__} instead.", hint=hint, kind=TypeError)
    if out.shape != shape or out.dtype != dtype:
        fail(
            f"out must have shape {shape} and dtype {dtype}. Got shape {out.shape} and dtype {out.dtype} instead."
        )
    if not out.flags.writeable:
        fail("out must be writeable. Got a read-only array instead.")
    if _overlaps(out):
        fail(
            f"out must have memory of its own for each number. Got strides {out.strides} at shape {out.shape} instead.",
            hint="an array from np.broadcast_to or as_strided can't hold a result",
        )


def _overlaps(array: Array) -> bool:
    """Return whether elements of an array may share memory: a stride lies within the extent of smaller ones."""
    sizes = [(abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]
    reach = array.itemsize
    for stride, size in sorted(sizes) if array.size else []:
        if stride < reach:
            return True
        reach += stride * (size - 1)
    return False
