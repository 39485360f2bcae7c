"""The compiled library: loading it, the interface that it shares with Python, and its instruction sets.

`None` is returned for a library that is missing, can't be used or is not wanted; the NumPy kernels are used then.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check

__all__: list[str] = []

Array = NDArray[Any]

VERSION = "3e42ca05"  # of the interface: CRC-32 of the library's description
VARIABLE, NUMPY = "REGARD_INSTRUCTION_SET", "none"  # of the environment, and its value for no library
FILE = {"win32": "regard.dll", "darwin": "libregard.dylib"}.get(sys.platform, "libregard.so")
THREAD_WORK = 1 << 21  # multiplications for which a thread pays: about 50 us
LONG_WORK = 1 << 31  # multiplications from which a call may take a tenth of a second
TANH_WORK = 16  # multiplications that take as long as one tanh or square of a pair

Int, Pointer, Double = ctypes.c_int64, ctypes.c_void_p, ctypes.c_double


@dataclass(frozen=True)
class Interface:
    """The interface of a library, read from its own description: `source/core/interface.inc`.

    `structures`: a class for each struct; `numbers`: of constants and of the values of enumerations; `functions`: those
    that take one structure, without the prefix ``regard_``.
    """

    structures: dict[str, Any]
    numbers: dict[str, int]
    functions: tuple[str, ...]


_TYPES = {"int64_t": Int, "int32_t": ctypes.c_int32, "float": ctypes.c_float, "double": Double}


def read_interface(text: str) -> Interface:
    """Return the interface that a text of lines ``entry|name or type|rest`` describes."""
    members: dict[str, list[tuple[str, str]]] = {}
    numbers: dict[str, int] = {}
    functions: list[str] = []
    for entry, name, rest in (line.split("|") for line in text.splitlines()):
        names = rest.split(", ")
        if entry == "struct":
            members[name] = last = []
        elif entry == "field":
            last += [(field, name) for field in names]
        elif entry == "function":
            functions.append(name)
        else:
            numbers |= {name: int(rest)} if entry == "constant" else {x: i for i, x in enumerate(names)}
    structures: dict[str, Any] = {}
    for name, fields in members.items():  # structs within others come first
        types = [(field, _TYPES.get(kind) or structures.get(kind, Pointer)) for field, kind in fields]
        structures[name] = type(name, (ctypes.Structure,), {"_fields_": types, "__slots__": ()})
    return Interface(structures, numbers, tuple(functions))


@cache
def load() -> ctypes.CDLL | None:
    """Load the library and choose the instruction set; None if no library can be used, or none is wanted."""
    name = os.environ.get(VARIABLE)
    # Importing pathlib would take longer than loading.
    path = os.path.join(os.path.dirname(__file__), FILE)
    if name == NUMPY or not os.path.exists(path):
        return None
    try:
        loaded = _load(path)
    except OSError as error:
        _failure.append(str(error))
        return None
    known = _names(loaded)
    if not loaded.regard_choose((name or known[0]).encode()):
        _check.one_of(VARIABLE, name, [*known, NUMPY])
    return loaded


_failure: list[str] = []  # why the library can't be used although its file exists


def _load(path: str) -> ctypes.CDLL:
    """Load a library of this version, and declare its functions."""
    if _is_cut_short(path):
        raise OSError(f"{path}: file too short")
    if address(_PROBE) != _PROBE.__array_interface__["data"][0]:
        raise OSError("this Python has other objects than CPython")
    loaded = ctypes.CDLL(path)
    for name in _description(loaded).functions:
        getattr(loaded, f"regard_{name}").argtypes = [Pointer, ctypes.c_int32]
    loaded.regard_instruction_sets.argtypes = [ctypes.c_char_p, Int]
    loaded.regard_choose.argtypes = [ctypes.c_char_p]
    loaded.regard_exp2.argtypes = [Pointer, Pointer, Int, ctypes.c_int32]
    loaded.regard_recurrence_bytes.argtypes, loaded.regard_recurrence_bytes.restype = [Pointer], Int
    return loaded


def _description(loaded: ctypes.CDLL) -> Interface:
    """Return the interface of a library, which must be that of this version."""
    import zlib  # `import regard` loads nothing besides NumPy

    describe = getattr(loaded, "regard_interface", None)
    if describe is None:
        raise OSError("the library belongs to another version, which has no interface")
    describe.restype = ctypes.c_char_p
    text: bytes = describe()
    if (other := f"{zlib.crc32(text):08x}") != VERSION:
        raise OSError(f"the library belongs to another version: its interface is {other}, not {VERSION}")
    return read_interface(text.decode())


@cache
def interface() -> Interface:
    """Return the interface of the loaded library."""
    loaded = load()
    assert loaded is not None
    return _description(loaded)


@cache
def structure_type(name: str) -> Any:
    """Return the class of a structure of the library."""
    return interface().structures[name]


def structure(name: str, **fields: Any) -> Any:
    """Make a structure of the library; fields that are arrays are their addresses, and the caller keeps them alive."""
    c = structure_type(name)()
    for field, value in fields.items():
        setattr(c, field, address(value) if isinstance(value, np.ndarray) else value)
    return c


@cache
def packer(name: str) -> struct.Struct:
    """Return a structure by the numbers of its fields in their order, which is faster to fill."""

    def codes(kind: Any) -> str:
        return kind._type_ if hasattr(kind, "_type_") else "".join(codes(part) for _, part in kind._fields_)

    return struct.Struct(codes(structure_type(name)))


@cache
def number(name: str) -> int:
    """Return a constant of the library, or the number of a value of one of its enumerations."""
    return interface().numbers[name]


def run(name: str, c: Any, backward: bool = False, work: float = 0) -> None:
    """Run a function of the library on its structure; `work` is that of `interruptible`."""
    loaded = load()
    assert loaded is not None
    status = interruptible(partial(_run_until, getattr(loaded, f"regard_{name}"), c, backward), work)
    if not status:
        return
    if status == number("NO_MEMORY"):
        raise MemoryError
    _check.fail(f"the library can't do this: status {status} of {name}", kind=RuntimeError)


def _run_until(function: Callable[..., int], c: Any, backward: bool, stop: int) -> int:
    if stop:
        c.stop = stop
    return function(ctypes.byref(c), backward)


def _is_cut_short(path: str) -> bool:
    """Return whether an ELF file ends before its last table: using the missing part would end the process."""
    with open(path, "rb") as file:
        head = file.read(64)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":  # only 64-bit, little-endian files are checked
            return False
        (start,), (size, count) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
        length = file.seek(0, os.SEEK_END)
    return length < int(start) + int(size) * int(count)


def workspace(size: int) -> Array:
    """Return uninitialised bytes, aligned as the library's workspaces must be."""
    line = number("ALIGNMENT")
    memory = np.empty(size + line, np.uint8)
    start = -address(memory) % line
    return memory[start : start + size]


_HEAD = object.__basicsize__  # bytes of an object of Python, which are followed by those of NumPy
_PROBE = np.empty(1)
_read = ctypes.c_size_t.from_address


def address(x: Array) -> int:
    """Return the address of an array's first number: what follows the object's head, by NumPy's binary interface.

    `x.ctypes` and `x.__array_interface__` take as long as a small attention. `load` checks that this is the same.
    """
    return _read(id(x) + _HEAD).value


def aligned(x: Array) -> Array:
    """Return an array in C order, every number at a multiple of its size.

    `np.ascontiguousarray` returns an unaligned array as it is, and `np.require` takes as long as a small product.
    """
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else np.require(x, requirements=["C", "A"])


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
    if os.environ.get(VARIABLE) == NUMPY:
        return f"{VARIABLE} is {NUMPY}"
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
    """Warn that the NumPy kernel does the native kernel's work, unless that is wanted."""
    if os.environ.get(VARIABLE) != NUMPY:
        warnings.warn(f"{missing()}; {_SLOWER}", RuntimeWarning, stacklevel=6)


@cache
def type_number(dtype: np.dtype[Any]) -> int:
    """Return the library's number of a dtype."""
    return number(dtype.name.upper())


def padded(count: int) -> int:
    """Return the length of a row of `count` gradients in the library's form."""
    step = number("PADDING")
    return -(-count // step) * step


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
