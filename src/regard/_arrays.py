"""Arrays of untrusted files: NumPy's ``.npy``, and ``.npz`` archives, of which ``file.npz:name`` is one array.

What a header promises is checked against the size of the file before memory is reserved for the numbers. Nothing is
unpickled. Of archives only the compressions are read that NumPy writes: others reserve as much memory as they ask for.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NoReturn

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from regard import _check, _files
from regard._characters import report

__all__: list[str] = []

Array = NDArray[Any]
Path = str | os.PathLike[str]
Check = Callable[[tuple[int, ...], np.dtype[Any]], object]

_ARCHIVE = ".npz"
_LENGTHS = {b"\1\0": 2, b"\2\0": 4, b"\3\0": 4}  # of each version: bytes of the length of the header
_LONGEST_HEADER = 10_000  # bytes; NumPy parses no more without trust
_LISTED = 8  # names of an archive's arrays in an error
_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, RuntimeError)


def is_array_file(path: Path) -> bool:
    """Return whether a path ends as those of `load_array`, or as that of an archive without a name."""
    return file_of(os.fspath(path)).lower().endswith((".npy", _ARCHIVE))


def file_of(path: str) -> str:
    """Return the file of an array: of one in an archive, the archive."""
    start = path.lower().rfind(f"{_ARCHIVE}:")
    return path if start < 0 else path[: start + len(_ARCHIVE)]


def load_array(path: Path, check: Check | None = None) -> Array:
    """Read an array of real numbers of ``x.npy``, or one of an archive as ``x.npz:name``.

    `check` is called with the shape and the dtype before memory is reserved, and raises an error if they are invalid.
    """
    path = os.fspath(path)
    file = file_of(path)
    if file.lower().endswith(_ARCHIVE):
        name = path[len(file) + 1 :]
        return load_arrays(file, [name], check)[name]
    if not path.lower().endswith(".npy"):
        rule = f"a file of arrays must end in .npy, or be {_ARCHIVE}:NAME. Got {path!r} instead."
        _check.fail(rule, hint="np.save('file.npy', array) writes one")
    with _files.reading(path) as opened, _check.located(f"{path}: "):
        return _read(opened, os.fstat(opened.fileno()).st_size, check)


def load_arrays(path: Path, names: Sequence[str], check: Check | None = None) -> dict[str, Array]:
    """Read arrays of real numbers of an archive, by their names."""
    path = os.fspath(path)
    with _archive(path) as archive:
        members = _members(archive)
        if missing := [name for name in names if name not in members]:
            _no_array(path, missing[0], list(members))
        _files.check_unpacked(path, sum(members[name].file_size for name in names), os.path.getsize(path))
        return {name: _member(archive, members[name], f"{path}:{name}", check) for name in names}


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of an archive."""
    with _archive(os.fspath(path)) as archive:
        return list(_members(archive))


@contextmanager
def _archive(path: str) -> Iterator[zipfile.ZipFile]:
    with _files.reading(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except (*_DAMAGED, ValueError) as error:
            _check.fail(f"{path} is not an .npz file: {report(str(error))}")
        with archive:
            yield archive


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the arrays of an archive; of two with one name NumPy reads the last."""
    members = ((entry.filename, entry) for entry in archive.infolist())
    return {name.removesuffix(".npy"): entry for name, entry in members if name.endswith(".npy")}


def _no_array(path: str, name: str, names: Sequence[str]) -> NoReturn:
    more = ", ..." if len(names) > _LISTED else ""
    listed = f"it has {report(', '.join(names[:_LISTED]))}{more}" if names else "it has none"
    wanted = f"it has no array {name!r:.60}" if name else f"{_ARCHIVE}:NAME names an array"
    _check.fail(f"{path}: {wanted}; {listed}")


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, label: str, check: Check | None) -> Array:
    with _check.located(f"{label}: "):
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            _check.fail(
                "it is packed in a way that NumPy does not write",
                hint="np.savez_compressed writes one that is read",
            )
        try:
            with archive.open(entry) as file:
                return _read(file, entry.file_size, check)
        except _DAMAGED as error:
            _check.fail(f"it is damaged: {report(str(error))}")


def _read(file: IO[bytes], size: int, check: Check | None) -> Array:
    """Read one array from a file of `size` bytes."""
    shape, fortran, dtype = _header(file)
    _check.numeric("an array", np.empty(0, dtype))
    if check is not None:
        check(shape, dtype)
    available, needed = size - file.tell(), math.prod(shape) * dtype.itemsize
    if not 0 <= needed <= available:
        _check.fail(
            f"it is cut off: {available} bytes can't hold an array of shape {shape!s:.60} and type {dtype}"
        )
    array = np.empty(math.prod(shape), dtype)
    if file.readinto(array.view(np.uint8)) != needed:  # type: ignore[attr-defined]
        _check.fail("it changed while it was read")
    try:
        return array.reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError, TypeError):  # one size is 0, others are too large for an array
        _check.fail(f"no array can have its shape {shape!s:.60}")


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether columns come first, and the dtype that a file promises."""
    start = file.read(len(npy.MAGIC_PREFIX) + 2)
    prefix, version = start[:-2], start[-2:]
    if prefix != npy.MAGIC_PREFIX:
        _check.fail("it is not in NumPy's format")
    if version not in _LENGTHS:
        got = ".".join(map(str, version))
        _check.fail(f"the version of NumPy's format must be 1.0, 2.0 or 3.0. Got {got} instead.")
    length = int.from_bytes(file.read(_LENGTHS[version]), "little")
    if length > _LONGEST_HEADER:
        _check.fail(f"its header must have at most {_LONGEST_HEADER:,} bytes. Got {length:,} instead.")
    header = io.BytesIO(length.to_bytes(4, "little") + file.read(length))
    try:
        return npy.read_array_header_2_0(header)
    except Exception:  # it is parsed as Python, which raises anything
        _check.fail("its header is damaged")
