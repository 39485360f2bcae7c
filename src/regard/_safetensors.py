"""Named arrays in the safetensors format: written atomically, and read from untrusted files.

::

    8 bytes      N, the header's length, unsigned, little-endian
    N bytes      JSON: {"__metadata__": {name: string, ...},
                        name: {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}, ...}
                 filled up with blanks so that N is a multiple of 8
    the rest     raw little-endian numbers; offsets count from here, without gaps or overlaps

Reading checks the header against itself and against the file's size before anything is allocated: nothing is unpickled,
and arrays never take more memory than the file (law 11). The metadata have a ``checksum``: the CRC-32, in hexadecimal,
of the header without it (JSON with sorted names and no blanks) and of all that follows the header.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check, _files
from regard._characters import report

__all__: list[str] = []

Array = NDArray[Any]

LONGEST_HEADER_BYTES = 1 << 20  # bytes; ours take a few thousand
BLOCK_BYTES = 1 << 20  # bytes that are read at a time for the checksum
_DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "U8": np.dtype(np.uint8)}


class InvalidFile(Exception):
    """A file is invalid; the message is the reason."""


class _Tensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def write(path: str | os.PathLike[str], arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write named arrays to a file atomically.

    `path`: the file; an older one is replaced, also where a link points to it; `arrays`: uint8 arrays keep their
    type; others become float32; `metadata`: further text; `checksum` is added.
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
    header: dict[str, Any] = {"__metadata__": {**metadata}}
    header["__metadata__"].pop("checksum", None)  # the metadata may be those of a file that was read
    begin = 0
    for name, array in data.items():
        end = begin + array.nbytes
        dtype = "U8" if array.dtype == np.uint8 else "F32"
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    checksum = _checksum(header, (array.reshape(-1).view(np.uint8) for array in data.values()))
    header["__metadata__"]["checksum"] = checksum
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _checksum(header: Mapping[str, Any], blocks: Iterable[Any]) -> str:
    """Return the checksum of a header without one, and of the data in blocks."""
    total = zlib.crc32(json.dumps(header, sort_keys=True, separators=(",", ":")).encode())
    for block in blocks:
        total = zlib.crc32(block, total)
    return f"{total:08x}"


@contextmanager
def opened(path: str | os.PathLike[str], what: str) -> Iterator[Container]:
    """Open a file and check its header.

    `path`: the file, which may be untrusted; `what`: what it should be, for errors: "model file". Yields a container
    to read arrays from during the ``with`` block; an `InvalidFile` raised there becomes a ValueError with its name.
    """
    name = os.fspath(path)
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        _check.fail(f"{name} is not a {what}: it is {_check.kind_of_file(mode)}")
    try:
        with _files.reading(path) as file:
            yield Container(file, os.fstat(file.fileno()).st_size)
    except InvalidFile as error:
        _check.fail(f"{name} is not a {what}: {report(str(error))}")


class Container:
    """An open file whose header agrees with itself and with the file's size.

    `file`: positioned at the beginning; `size`: its size in bytes.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.tensors, self.metadata, self._start = _read_header(file, size)

    def expect_format(self, name: str, version: str, *, checksum: bool = True) -> None:
        """Check format, version and checksum in the metadata; `checksum` is whether there must be one."""
        if self.metadata.get("format") != name:
            raise InvalidFile(f"the format in __metadata__ is not {name!r}")
        if self.metadata.get("version") != version:
            raise InvalidFile(
                f"its version is {self.metadata.get('version')!r:.20}, this program reads {version!r}"
            )
        if (checksum or "checksum" in self.metadata) and self.metadata.get("checksum") != self._checksum():
            raise InvalidFile("it is damaged: its numbers or its header don't agree with its checksum")

    def _checksum(self) -> str:
        """Return the checksum of the file's header and data."""
        metadata = {name: value for name, value in self.metadata.items() if name != "checksum"}
        header: dict[str, Any] = {"__metadata__": metadata}
        for name, (dtype, shape, *offsets) in self.tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        self._file.seek(self._start)
        return _checksum(header, iter(lambda: self._file.read(BLOCK_BYTES), b""))

    def expect(self, dtype: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Check dtypes and shapes of arrays, and that they are there."""
        for name, shape in shapes.items():
            if name not in self.tensors:
                raise InvalidFile(f"{name} is missing")
            tensor = self.tensors[name]
            if tensor.dtype != dtype:
                raise InvalidFile(f"{name} must be {dtype}. It is {tensor.dtype} instead.")
            if tensor.shape != shape:
                raise InvalidFile(
                    f"{name} must have shape {shape}, by its configuration. It has {tensor.shape} instead."
                )

    def fill(self, name: str, array: Array) -> None:
        """Read finite numbers into an array, whose shape must be that of the file."""
        self._file.seek(self._start + self.tensors[name].begin)
        if array.size and self._file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
            raise InvalidFile(f"the data of {name} is cut off")
        if sys.byteorder == "big" and array.itemsize > 1:
            array.byteswap(inplace=True)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InvalidFile(f"{name} has numbers that are not finite")

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
            raise InvalidFile(f"{name} must be U8. It is {tensor.dtype} instead.")
        self._file.seek(self._start + tensor.begin)
        return self._file.read(tensor.end - tensor.begin)

    def json(self, name: str) -> Any:
        """Parse a value of the metadata as JSON."""
        try:
            return json.loads(self.metadata[name], object_pairs_hook=_unique_names)
        except (KeyError, ValueError, RecursionError):
            raise InvalidFile("its configuration is incomplete or damaged") from None


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, _Tensor], dict[str, str], int]:
    """Return arrays, metadata and the start of the data, checked against each other and the file's size."""
    if size < 8:
        raise InvalidFile(f"{size} bytes are too few")
    length = int.from_bytes(file.read(8), "little")
    if length > max(size - 8, LONGEST_HEADER_BYTES):
        raise InvalidFile("it doesn't begin like a safetensors file")
    if length > size - 8:
        raise InvalidFile(f"its header would be {length} bytes long, the file has {size}")
    if length > LONGEST_HEADER_BYTES:
        raise InvalidFile(f"its header is {length} bytes long; at most {LONGEST_HEADER_BYTES} are allowed")
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_unique_names)
    except (ValueError, RecursionError):
        raise InvalidFile("its header is not JSON") from None
    if not isinstance(header, dict):
        raise InvalidFile("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise InvalidFile("the values of __metadata__ must be strings")
    tensors = {name: _tensor(name, entry) for name, entry in header.items()}
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != end:
            raise InvalidFile(
                f"the data of {name!r:.60} begins at {tensor.begin}, the data before it ends at {end}"
            )
        end = tensor.end
    if end != size - 8 - length:
        raise InvalidFile(f"it has {size - 8 - length} bytes of data, its header has {end}")
    return tensors, metadata, 8 + length


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        _check.fail("a name occurs twice")
    return mapping


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _tensor(name: str, entry: Any) -> _Tensor:
    """Return one entry of the header, checked."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise InvalidFile(f"the entry {name!r:.60} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise InvalidFile(f"the dtype of {name!r:.60} must be F32 or U8")
    if not isinstance(shape, list) or len(shape) > 8 or not all(map(_is_size, shape)):
        raise InvalidFile(f"the shape of {name!r:.60} must be a list of at most 8 integers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise InvalidFile(f"the data_offsets of {name!r:.60} must be two integers")
    need = math.prod(shape) * _DTYPES[dtype].itemsize
    if offsets[1] - offsets[0] != need:
        raise InvalidFile(
            f"{name!r:.60} of shape {tuple(shape)} needs {need:.15g} bytes, its offsets span {offsets[1] - offsets[0]}"
        )
    return _Tensor(dtype, tuple(shape), *offsets)
