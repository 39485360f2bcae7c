"""The common part of sources of arrays: checks, and arrays of untrusted files.

Files are NumPy's `.npy`, and `.npz` archives, where `file.npz:name` is one array. The shape and the data type are
checked in the file's header, before memory is reserved for the numbers. Nothing is ever unpickled.
"""

from __future__ import annotations

import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from regard import _check, _files

__all__ = ["file_of", "is_array_file", "is_float", "load_array", "real_array", "scaled"]

Check = Callable[[tuple[int, ...], np.dtype[Any]], None]

_VERSION = (1, 0)  # the others are for long headers, which are read into memory before they can be checked
_ARCHIVE = ".npz"
_LISTED = 8  # names of an archive's arrays in an error
_DAMAGED = (
    *(ValueError, EOFError, SyntaxError, TypeError, LookupError, RecursionError),
    *(struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    *(NotImplementedError, RuntimeError),  # an archive's compression that is unknown, or a password
)


def is_array_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a path ends as those of `load_array`, or as that of an archive without a name."""
    name = os.fspath(path).lower()
    return name.endswith((".npy", _ARCHIVE)) or f"{_ARCHIVE}:" in name


def file_of(path: str) -> str:
    """Return the file of an example: of an array in an archive, the archive."""
    start = path.lower().rfind(f"{_ARCHIVE}:")
    return path if start < 0 else path[: start + len(_ARCHIVE)]


def load_array(path: str | os.PathLike[str], check: Check) -> NDArray[Any]:
    """Read an array of ``x.npy``, or one of an archive as ``x.npz:name``, without ever unpickling.

    `check` is called with the shape and the data type in the file's header, before anything else is read, and raises an
    error if they are invalid.
    """
    file_name, array_name = _split(os.fspath(path))
    with _opened(file_name) as file, _failing_with(path):
        if array_name is None:
            size = os.fstat(file.fileno()).st_size
            return _read(file, check, size)
        with _member(file, array_name) as (member, size):
            return _read(member, check, size)


def _split(path: str) -> tuple[str, str | None]:
    """Return the path of a file, and the name of an array if the file is an archive."""
    file = file_of(path)
    if file != path:
        return file, path[len(file) + 1 :]
    if path.lower().endswith(_ARCHIVE):
        return path, ""
    if not path.lower().endswith(".npy"):
        rule = f"a file of arrays must end in .npy, or be {_ARCHIVE}:NAME. Got {path!r} instead."
        _check.fail(rule, hint="np.save('file.npy', array) writes one")
    return path, None


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    _check.no_null(path)
    with _files.reading(path) as file:
        yield file


@contextmanager
def _failing_with(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the path before the text of any error of a damaged file."""
    try:
        yield
    except _DAMAGED as error:
        kind = TypeError if type(error) is TypeError else ValueError
        _check.fail(f"{os.fspath(path)}: {error}", kind=kind)


@contextmanager
def _member(file: IO[bytes], name: str) -> Iterator[tuple[IO[bytes], int]]:
    """Open an array of an archive; yield it and the bytes that the archive's directory promises."""
    with zipfile.ZipFile(file) as archive:
        names = [entry.removesuffix(".npy") for entry in archive.namelist() if entry.endswith(".npy")]
        if name not in names:
            more = ", ..." if len(names) > _LISTED else ""
            listed = f"it has {', '.join(names[:_LISTED])}{more}" if names else "it has none"
            wanted = f"the archive has no array {name!r:.60}" if name else f"{_ARCHIVE}:NAME names an array"
            _check.fail(f"{wanted}; {listed}")
        size = archive.getinfo(f"{name}.npy").file_size
        _files.check_unpacked("the archive", size, file.seek(0, os.SEEK_END))
        with archive.open(f"{name}.npy") as member:
            yield member, size


def _read(file: IO[bytes], check: Check, size: int) -> NDArray[Any]:
    shape, dtype = _header(file)
    if dtype.hasobject:
        _check.fail("it must hold numbers. Python objects are not read.")
    check(shape, dtype)
    needed = math.prod(shape) * dtype.itemsize
    if size - file.tell() < needed:
        _check.fail(f"the file is truncated: {needed} bytes of numbers are needed")
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the data type that a file promises."""
    try:
        version = npy.read_magic(file)
    except ValueError:
        _check.fail("it is not in NumPy's format")
    if version != _VERSION:
        _check.fail(f"the version of NumPy's format must be 1.0. Got {version[0]}.{version[1]} instead.")
    try:
        shape, _, dtype = npy.read_array_header_1_0(file)
    except OSError:
        raise
    except Exception:  # it is parsed as Python, which raises anything
        _check.fail("its header is damaged")
    if any(side < 0 for side in shape):
        _check.fail(f"its header is damaged: shape {shape}")
    return shape, dtype


def real_array(name: str, value: Any) -> NDArray[Any]:
    """Return an example as an array of real numbers."""
    if isinstance(value, np.ma.MaskedArray):
        rule = f"{name} must be a plain array. Got a masked array instead."
        _check.fail(rule, hint="example.filled(0), or leave the masked rows out", kind=TypeError)
    if isinstance(value, bytes | bytearray | os.PathLike):
        rule = f"{name} must be an array or a path of type str. Got {type(value).__name__} instead."
        _check.fail(rule, hint="os.fsdecode(path)", kind=TypeError)
    return _check.numeric(name, value)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether this is a floating data type that `real_array` accepts."""
    return _check.is_float(dtype) and dtype.itemsize <= 8


def scaled(rows: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows of a source as a network reads them: uint8 is scaled to 0 to 1, float32 stays as it is."""
    if rows.dtype == np.uint8:
        return np.multiply(rows, np.float32(1 / 255), dtype=np.float32)
    if rows.dtype != np.float32:
        _check.fail(f"rows must be of uint8 or float32. Got {rows.dtype} instead.", kind=TypeError)
    return rows.astype(np.float32, copy=False)
