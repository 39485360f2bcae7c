"""Arrays of other libraries, such as PyTorch, JAX, pandas and polars, as NumPy's."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from regard._check.errors import fail

__all__ = ["as_numpy", "is_array", "plain", "way_out"]

_SCALARS = (float, int)
_NUMBERS = (*_SCALARS, complex, str, np.generic)
_FLOATS = ("float16", "float32", "float64")
_MAKERS = ("toarray", "collect")  # of a sparse matrix of SciPy, and of a lazy frame of polars
UNREADABLE = (TypeError, ValueError, RuntimeError, BufferError)  # what conversions raise


def is_array(value: Any) -> bool:
    """Return whether this is an array of any library, or has a method that returns one."""
    return isinstance(value, np.ndarray) or any(
        hasattr(value, name) for name in ("__array__", "__dlpack__", *_MAKERS)
    )


def plain(name: str, value: Any, what: str = "an array of numbers", *, masked: bool = False) -> Any:
    """Return an array of any library, or each array in nested lists, as NumPy's, and anything else as it is.

    `masked`: whether a masked array may be one, which loses its mask where it is made a plain one.
    """
    if isinstance(value, _SCALARS) or (type(value) is np.ndarray and value.dtype.kind != "V"):
        return value
    if isinstance(value, list | tuple):
        return [
            part if isinstance(part, _NUMBERS) else plain(name, part, what, masked=masked) for part in value
        ]
    if isinstance(value, np.ma.MaskedArray) and not masked:
        hint = "fill it, and pass the visible pairs as mask="
        fail(f"{name} must be a plain array. Got a masked array instead.", hint=hint, kind=TypeError)
    if not is_array(value):
        return value
    array = value if isinstance(value, np.ndarray) else _converted(name, value, what)
    if array.dtype.kind == "V" and array.dtype.name.startswith("float"):  # float8 of ml_dtypes
        hint = "use .astype(np.float32)"
        fail(f"{name} must be {what}. Got dtype {array.dtype} instead.", hint=hint, kind=TypeError)
    return array


def _converted(name: str, value: Any, what: str) -> Any:
    if _is_lazy(value):  # it would be computed here, whatever its size
        hint = f"regard.dask computes attention chunk by chunk; {name}.compute() is in memory"
        fail(f"{name} must be in memory. Got a Dask array instead.", hint=hint, kind=TypeError)
    try:
        return np.from_dlpack(value) if _is_exported(value) else _asarray(value)
    except UNREADABLE as error:
        unreadable(name, value, what, error)


def _is_exported(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and not hasattr(value, "__array__")


def _asarray(value: Any) -> Any:
    if not hasattr(value, "__array__"):  # NumPy would make it an array of one object
        raise TypeError("NumPy can't read it")
    return np.asarray(value)


def _is_lazy(value: Any) -> bool:
    graph = getattr(value, "__dask_graph__", None)
    return not isinstance(value, type) and graph is not None and graph() is not None


def unreadable(name: str, value: Any, what: str, error: Exception) -> NoReturn:
    """Raise for an array that NumPy can't read."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    calls = way_out(value)
    rule = f"{name} must be {what}. Got {type(value).__name__} instead: {reason:.200}"
    fail(rule, hint=calls and f"use {calls}", kind=TypeError)


def way_out(value: Any) -> str:
    """Return the calls after which NumPy can read an array, such as ``.detach().float()``."""
    dtype, layout, device = (str(getattr(value, name, "")) for name in ("dtype", "layout", "device"))
    dtype = dtype.rpartition(".")[2]
    needed = {
        "detach": bool(getattr(value, "requires_grad", False)),
        "cpu": device not in ("", "cpu", "meta"),  # a meta tensor has no numbers
        "to_dense": "sparse" in layout,
        **dict.fromkeys(_MAKERS, True),
        "dequantize": dtype.startswith(("qint", "quint")),
        "float": "float" in dtype and dtype not in _FLOATS,
    }
    return "".join(f".{call}()" for call, is_needed in needed.items() if is_needed and hasattr(value, call))


def as_numpy(name: str, value: Any) -> str:
    """Return the expression that makes an array of NumPy, for a hint."""
    read = "from_dlpack" if _is_exported(value) else "asarray"
    return f"np.{read}({name}{way_out(value)})"
