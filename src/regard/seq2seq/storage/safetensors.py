"""Files of named arrays in the safetensors format, written whole or not at all, and read without trust.

::

    8 bytes      N, the header's length, unsigned, little-endian
    N bytes      JSON: {"__metadata__": {name: string, ...},
                        name: {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}, ...}
                 filled up with blanks so that N is a multiple of 8
    the rest     raw little-endian numbers; offsets count from here, without gaps or overlaps

Reading checks the header against itself and against the file's size before anything is allocated: nothing is unpickled,
and what is read never takes more memory than the file (law 11).
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check, _files
from regard._characters import report

__all__ = ["Container", "Wrong", "opened", "write"]

Array = NDArray[Any]

LONGEST_HEADER = 1 << 20  # bytes; ours take a few thousand
_DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "U8": np.dtype(np.uint8)}


class Wrong(Exception):
    """What is wrong with a file."""


class _Tensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def write(path: str | os.PathLike[str], arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write named arrays into a file, which is there whole or not at all.

    Parameters
    ----------
    path : str or path
        Where to; an older file is replaced, that which a link points to, too.
    arrays : mapping of str to array
        uint8 arrays stay that; all others become float32.
    metadata : mapping of str to str
        What else there is to say.

    Raises
    ------
    OSError
        If it can't be written; an older file is as it was then.
    ValueError
        If what is there is no file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/it", {"a": np.ones(2)}, {"format": "mine"})
    ...     with opened(f"{folder}/it", "file of mine") as found:
    ...         found.metadata, found.array("a")
    ({'format': 'mine'}, array([1., 1.], dtype=float32))
    """
    data = {
        name: np.ascontiguousarray(array, np.uint8 if array.dtype == np.uint8 else "<f4")
        for name, array in arrays.items()
    }
    with _files.replacing(path) as file:
        file.write(_header(data, metadata))
        for array in data.values():
            file.write(array.reshape(-1).data)


def _header(data: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Return the length and the JSON that come before the numbers."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, array in data.items():
        end = begin + array.nbytes
        dtype = "U8" if array.dtype == np.uint8 else "F32"
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


@contextmanager
def opened(path: str | os.PathLike[str], what: str) -> Iterator[Container]:
    """Open a file and check its header.

    Parameters
    ----------
    path : str or path
        The file, whoever made it.
    what : str
        What it should be, for errors: "model file".

    Yields
    ------
    Container
        To read arrays from, for as long as the ``with`` block lasts; what raises `Wrong` there is told as an error
        of the file.

    Raises
    ------
    ValueError
        One line that says what is wrong.
    OSError
        If it can't be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "short").write_bytes(b"1234")
    ...     try:
    ...         with opened(Path(folder, "short"), "model file"):
    ...             pass
    ...     except ValueError as error:
    ...         print(str(error).replace(folder, "here"))
    here/short is no model file: 4 bytes are too few
    """
    name = os.fspath(path)
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise ValueError(f"{name} is no {what}: it is {_check.kind_of_place(mode)}")
    try:
        with _files.reading(path) as file:
            yield Container(file, os.fstat(file.fileno()).st_size)
    except Wrong as error:
        raise ValueError(f"{name} is no {what}: {report(str(error))}") from None


class Container:
    """An open file whose header agrees with itself and with the file's size.

    Parameters
    ----------
    file : binary file
        From its beginning.
    size : int
        Its bytes.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.tensors, self.metadata, self._start = _read_header(file, size)

    def expect_format(self, name: str, version: str) -> None:
        """Check the format's name and version in the metadata."""
        if self.metadata.get("format") != name:
            raise Wrong(f"__metadata__ doesn't say format {name!r}")
        if self.metadata.get("version") != version:
            raise Wrong(
                f"its version is {self.metadata.get('version')!r:.20}, this program reads {version!r}"
            )

    def expect(self, dtype: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Check dtypes and shapes of arrays, and that they are there."""
        for name, shape in shapes.items():
            if name not in self.tensors:
                raise Wrong(f"{name} is missing")
            tensor = self.tensors[name]
            if tensor.dtype != dtype:
                raise Wrong(f"{name} must be {dtype}. It is {tensor.dtype} instead.")
            if tensor.shape != shape:
                raise Wrong(
                    f"{name} must have shape {shape}, as its sizes say. It has {tensor.shape} instead."
                )

    def fill(self, name: str, array: Array) -> None:
        """Read finite numbers straight into their place; the shape is right by now."""
        self._file.seek(self._start + self.tensors[name].begin)
        if array.size and self._file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
            raise Wrong(f"the data of {name} is cut off")
        if sys.byteorder == "big" and array.itemsize > 1:
            array.byteswap(inplace=True)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Wrong(f"{name} has numbers that are not finite")

    def array(self, name: str) -> Array:
        """Read an array."""
        tensor = self.tensors[name]
        array = np.empty(tensor.shape, _DTYPES[tensor.dtype].newbyteorder("="))
        self.fill(name, array)
        return array

    def bytes(self, name: str) -> bytes:
        """Read the bytes of a U8 array."""
        tensor = self.tensors[name]
        if tensor.dtype != "U8":
            raise Wrong(f"{name} must be U8. It is {tensor.dtype} instead.")
        self._file.seek(self._start + tensor.begin)
        return self._file.read(tensor.end - tensor.begin)

    def json(self, name: str) -> Any:
        """Return what a value of the metadata says in JSON."""
        try:
            return json.loads(self.metadata[name], object_pairs_hook=_no_name_twice)
        except (KeyError, ValueError, RecursionError):
            raise Wrong("its configuration is incomplete or damaged") from None


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, _Tensor], dict[str, str], int]:
    """Return what the header says, once it agrees with itself and with the file's size."""
    if size < 8:
        raise Wrong(f"{size} bytes are too few")
    length = int.from_bytes(file.read(8), "little")
    if length > max(size - 8, LONGEST_HEADER):
        raise Wrong("it doesn't begin like a safetensors file")
    if length > size - 8:
        raise Wrong(f"its header would be {length} bytes long, the file has {size}")
    if length > LONGEST_HEADER:
        raise Wrong(f"its header is {length} bytes long; at most {LONGEST_HEADER} are allowed")
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_no_name_twice)
    except (ValueError, RecursionError):
        raise Wrong("its header is not JSON") from None
    if not isinstance(header, dict):
        raise Wrong("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise Wrong("the values of __metadata__ must be strings")
    tensors = {name: _tensor(name, entry) for name, entry in header.items()}
    reached = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != reached:
            raise Wrong(
                f"the data of {name!r:.60} begins at {tensor.begin}, the data before it ends at {reached}"
            )
        reached = tensor.end
    if reached != size - 8 - length:
        raise Wrong(f"it has {size - 8 - length} bytes of data, its header says {reached}")
    return tensors, metadata, 8 + length


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _tensor(name: str, entry: Any) -> _Tensor:
    """Return one entry of the header, once its parts fit each other."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise Wrong(f"the entry {name!r:.60} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise Wrong(f"the dtype of {name!r:.60} must be F32 or U8")
    if not isinstance(shape, list) or len(shape) > 8 or not all(map(_whole, shape)):
        raise Wrong(f"the shape of {name!r:.60} must be a list of at most 8 whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_whole, offsets)):
        raise Wrong(f"the data_offsets of {name!r:.60} must be two whole numbers")
    need = math.prod(shape) * _DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != need:
        raise Wrong(
            f"{name!r:.60} of shape {tuple(shape)} needs {need:.15g} bytes, its offsets span {offsets[1] - offsets[0]}"
        )
    return _Tensor(dtype, tuple(shape), *offsets)
