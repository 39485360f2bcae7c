"""The compiled library: loading it, the structures that it shares with Python, and its instruction sets.

`None` is returned for a library that is missing or can't be used; the NumPy kernels are used then.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check

__all__: list[str] = []

Array = NDArray[Any]
Mirror = type[ctypes.Structure] | np.dtype[Any]

FILE = {"win32": "regard.dll", "darwin": "libregard.dylib"}.get(sys.platform, "libregard.so")
THREADED_WORK = 1 << 23  # multiplications from which a second thread pays
LONG_WORK = 1 << 31  # multiplications from which a call may take a tenth of a second
TANH_WORK = 16  # multiplications that take as long as one tanh or square of a pair
TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3}
LINE_BYTES = 64  # bytes; the alignment of the library's workspaces
PADDED_NUMBERS = 16  # rows of gradients are padded to a multiple of this many numbers
_OTHER = "the library belongs to another version"

Int, Pointer, Double = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double


class CMatrices(ctypes.Structure):
    """`struct Matrices`: a matrix for each item."""

    _fields_ = [("start", Int), ("step", Int), ("starts", Pointer), ("row", Int)]


class CNode(ctypes.Structure):
    """`struct Node`: a step of the program that computes the mask."""

    _fields_ = [
        *((name, Int) for name in ("kind", "low", "high")),
        *((name, Pointer) for name in ("left", "right")),
        *((name, Int) for name in ("row", "column")),
    ]


class CProblem(ctypes.Structure):
    """`struct Problem`: one attention."""

    _fields_ = [
        *((name, Int) for name in ("items", "n", "m", "d", "e", "groups")),
        ("group", Pointer),
        *((name, ctypes.c_int32) for name in ("compute", "queries_type", "keys_type", "values_type")),
        *((name, ctypes.c_int32) for name in ("score", "bias", "bias_type", "merges_parts")),
        *((name, CMatrices) for name in ("queries", "keys", "values")),
        ("scale", Double),
        ("softcap", Double),
        ("vector", Pointer),
        ("width", Double),
        ("program", Pointer),
        ("nodes", Int),
        ("bias_address", Pointer),
        ("bias_row", Int),
        ("bias_column", Int),
        ("context", Pointer),
        ("statistic", Pointer),
        ("parts", Int),
        ("tasks_span_groups", Int),
        ("dcontext", CMatrices),
        *((name, Pointer) for name in ("dqueries", "dkeys", "dvalues", "dbias")),
        ("dbias_row", Int),
        ("dbias_column", Int),
        ("dparameters", Pointer),
        ("threads", Int),
        ("stop", Pointer),
        *((name, Int) for name in ("from_key", "to_key")),
        ("taints", Pointer),
    ]


class _CStrided(ctypes.Structure):
    _fields_ = [("start", Int), ("step", Int), ("row", Int)]


class CDense(ctypes.Structure):
    """`struct Dense`: scaled dot-product attention without options, or in a band."""

    _fields_ = [
        *((name, _CStrided) for name in ("queries", "keys", "values")),
        *((name, Int) for name in ("items", "n", "m", "d", "e", "group", "type")),
        ("context", Pointer),
        *((name, Int) for name in ("threads", "nodes", "low", "high")),
        ("statistic", Pointer),
        ("dcontext", Int),
        *((name, Pointer) for name in ("dqueries", "dkeys", "dvalues")),
        ("scale", Double),
        ("stop", Pointer),
    ]


# `CDense` by its numbers, which is faster to fill: without and with the fields for gradients.
DENSE = struct.Struct("=21q40xdq")
DENSE_BACK = struct.Struct("=26qdq")

# Functions that take the address of one structure, and those that return 64 bits.
_OF_ONE_ADDRESS = (
    *("drop", "relu_backward", "cross_entropy", "adam", "add_rows", "top_k", "multiply"),
    *("recurrence_bytes", "nearest", "find"),
)
_NUMBERS = ("recurrence_bytes", "panel_columns", "word_block")


@cache
def load() -> ctypes.CDLL | None:
    """Load the library and choose the instruction set; None if there is no library that can be used."""
    # Importing pathlib would take longer than loading.
    path = os.path.join(os.path.dirname(__file__), FILE)
    if not os.path.exists(path):
        return None
    try:
        loaded = _load(path)
    except (OSError, AttributeError) as error:  # AttributeError: a function is missing
        _failure.append(str(error) if isinstance(error, OSError) else _OTHER)
        return None
    known = _names(loaded)
    name = os.environ.get("REGARD_INSTRUCTION_SET") or known[0]
    if not loaded.regard_choose(name.encode()):
        _check.one_of("REGARD_INSTRUCTION_SET", name, known)
    return loaded


_failure: list[str] = []  # why the library can't be used although its file exists


def _load(path: str) -> ctypes.CDLL:
    """Load a library of this version, and declare its functions."""
    if _is_cut_short(path):
        raise OSError(f"{path}: file too short")
    loaded = ctypes.CDLL(path)
    loaded.regard_instruction_sets.argtypes = [ctypes.c_char_p, Int]
    loaded.regard_layout.argtypes = [ctypes.c_char_p, ctypes.c_char_p, Int]
    loaded.regard_choose.argtypes = [ctypes.c_char_p]
    loaded.regard_dense.argtypes = [ctypes.c_char_p]
    loaded.regard_exp2.argtypes = [Pointer, Pointer, Int, ctypes.c_int32]
    for name in ("run", "norm", "predict", "recur"):
        getattr(loaded, f"regard_{name}").argtypes = [Pointer, ctypes.c_int32]
    for name in _OF_ONE_ADDRESS:
        getattr(loaded, f"regard_{name}").argtypes = [Pointer]
    for name in _NUMBERS:
        getattr(loaded, f"regard_{name}").restype = Int
    mirrors = {"Problem": CProblem, "Matrices": CMatrices, "Node": CNode, "Dense": CDense}
    if difference := layout_difference(loaded, mirrors):
        raise OSError(difference)
    return loaded


def _is_cut_short(path: str) -> bool:
    """Return whether an ELF file ends before its last table: using the missing part would end the process."""
    with open(path, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":  # only 64-bit, little-endian files are checked
            return False
        (start,), (size, count) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
        length = file.seek(0, os.SEEK_END)
    return length < int(start) + int(size) * int(count)


def layout_difference(loaded: ctypes.CDLL, mirrors: Mapping[str, Mirror]) -> str:
    """Return the first difference between structures here and in the library, or nothing.

    `mirrors` maps the library's name of a structure to the class or dtype with the same fields.
    """
    for name, mirror in mirrors.items():
        theirs, ours = _library_layout(loaded, name), _layout(mirror)
        for field in theirs | ours:
            if (own := ours.get(field)) != (other := theirs.get(field)):
                return f"{_OTHER}: {name}.{field} is {_described(other)} there and {_described(own)} here"
    return ""


def _library_layout(loaded: ctypes.CDLL, name: str) -> dict[str, tuple[int, int]]:
    """Return offset and size of each field of a structure of the library, in bytes, and of the structure itself."""
    text = ctypes.create_string_buffer(4096)
    loaded.regard_layout(name.encode(), text, len(text))
    words = text.value.decode().split()
    return {
        field: (int(at), int(size)) for field, at, size in zip(*(words[i::3] for i in range(3)), strict=True)
    }


def _layout(mirror: Mirror) -> dict[str, tuple[int, int]]:
    """Return offset and size of each field of a class or dtype, in bytes, and of the structure itself."""
    if isinstance(mirror, np.dtype):
        offsets = {name: (at, dtype.itemsize) for name, (dtype, at, *_) in (mirror.fields or {}).items()}
        return {"*": (0, mirror.itemsize), **offsets}
    fields = {name: getattr(mirror, name) for name, *_ in mirror._fields_}
    return {
        "*": (0, ctypes.sizeof(mirror)),
        **{name: (field.offset, field.size) for name, field in fields.items()},
    }


def _described(field: tuple[int, int] | None) -> str:
    return "missing" if field is None else f"{field[1]} bytes at {field[0]}"


def checked(mirrors: Mapping[str, Mirror], **numbers: int) -> Callable[[], ctypes.CDLL | None]:
    """Return a function that loads the library if these structures and constants agree with it, or returns None."""

    @cache
    def load_checked() -> ctypes.CDLL | None:
        loaded = load()
        if loaded is None:
            return None
        difference = layout_difference(loaded, mirrors)
        for name, number in numbers.items():
            if not difference and (other := getattr(loaded, f"regard_{name}")()) != number:
                difference = f"{_OTHER}: {name} is {other} there and {number} here"
        if difference:
            warnings.warn(f"{_unusable(difference)}; {_SLOWER}", RuntimeWarning, stacklevel=2)
        return None if difference else loaded

    return load_checked


def workspace(size: int) -> Array:
    """Return uninitialised bytes, aligned as the library's workspaces must be."""
    memory = np.empty(size + LINE_BYTES, np.uint8)
    start = -address(memory) % LINE_BYTES
    return memory[start : start + size]


def address(x: Array, ours: bool = True) -> int:
    """Return the address of an array's first number, without NumPy's slow attribute if possible.

    `ours` means that the array was allocated here. A user's array may be broadcast, whose flag `writeable` must not be
    read, or report that it is contiguous without being so. bfloat16 arrays export no buffer.
    """
    flags = x.flags
    if (ours or flags.owndata) and x.size and x.itemsize != 2:
        if flags.c_contiguous and flags.writeable:
            buffer: Any = x
            return ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        if flags.f_contiguous and flags.writeable:
            return address(x.T)
    start: int = x.__array_interface__["data"][0]
    return start


def aligned(x: Array) -> Array:
    """Return an array in C order, every number at a multiple of its size.

    `np.ascontiguousarray` returns an unaligned array as it is.
    """
    return np.require(x, requirements=["C", "A"])


def is_plain(x: Array | None) -> bool:
    """Return whether the library reads an array in place: aligned float32 in C order; also True for None."""
    return x is None or bool(x.dtype == np.float32 and x.flags.c_contiguous and x.flags.aligned)


def trains(loaded: ctypes.CDLL | None, *arrays: Array | None) -> ctypes.CDLL | None:
    """Return the library if its instruction set has training kernels and it reads all arrays in place."""
    return loaded if loaded is not None and loaded.regard_trains() and all(map(is_plain, arrays)) else None


def _names(loaded: ctypes.CDLL) -> list[str]:
    names = ctypes.create_string_buffer(256)
    loaded.regard_instruction_sets(names, len(names))
    return names.value.decode().split()


def instruction_sets() -> list[str]:
    """Return the names of the instruction sets that this machine has, the best first; none without the library."""
    loaded = load()
    return [] if loaded is None else _names(loaded)


_SLOWER = "the NumPy kernel does its work, slower"


def _unusable(reason: str) -> str:
    return f"regard's native kernel can't be used ({reason})"


def missing() -> str:
    """Return why there is no native kernel, or nothing."""
    if load() is not None:
        return ""
    if _failure:
        return _unusable(_failure[0])
    return f"regard was installed without its native kernel ({_why_absent()})"


def _why_absent() -> str:
    """Return why there is no library, and how to get one where it could be compiled."""
    import shutil

    names = ("c++", "g++", "clang++")
    compiler = next(filter(None, map(shutil.which, names)), None)
    if compiler is None:
        return "no C++ compiler was found, or it was switched off"
    build = "pip install --force-reinstall --no-deps SOURCE, a clone or the source archive"
    return f"by a wheel that has none, or it was switched off; {compiler} builds it: {build}"


@cache
def warn_once() -> None:
    """Warn that the NumPy kernel does the native kernel's work."""
    warnings.warn(f"{missing()}; {_SLOWER}", RuntimeWarning, stacklevel=6)


@cache
def type_number(dtype: np.dtype[Any]) -> int:
    """Return the library's number of a dtype."""
    return TYPES[dtype.name]


def padded(count: int) -> int:
    """Return the length of a row of `count` gradients in the library's form."""
    return -(-count // PADDED_NUMBERS) * PADDED_NUMBERS


def work(items: int, n: int, m: int, size: int, backward: bool) -> int:
    """Return about how many multiplications take as long as a call; few queries wait for memory instead."""
    return items * max(n, 4) * m * (size + 32) * (4 if backward else 1)


def interruptible(call: Callable[[int], int], work: float) -> int:
    """Call the library: ``call(stop)`` receives the address of the flag that makes it return early, or 0.

    `work` is in multiplications. A call that may take a tenth of a second ends on Ctrl-C; a shorter one is not worth
    another thread.
    """
    if work < LONG_WORK:
        return call(0)
    from regard import _threads  # imported here so that `import regard` doesn't load threading

    return _threads.interruptible(call)
