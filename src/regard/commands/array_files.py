"""Arrays from untrusted files: .npy, .npz and CSV, checked before they are read and never unpickled."""

import csv
import math
import os
import tokenize
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check, _files
from regard._characters import of_cell, report
from regard._encoding import utf_8

__all__ = ["Table", "parse_matrix", "parse_table", "read_array", "read_arrays", "read_named", "read_table"]

_BLOCK = 1 << 16  # numbers that are checked at a time
_TEXT = (".csv", ".tsv", ".txt")
_TRIPLES = (("queries", "keys", "values"), ("q", "k", "v"), ("Q", "K", "V"))


class Table(NamedTuple):
    """An array, and the names of its rows and columns, where the text has any."""

    numbers: NDArray[Any]
    rows: list[str] | None = None
    columns: list[str] | None = None


def read_arrays(paths: Sequence[Path]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Read queries, keys and values."""
    if not 1 <= len(paths) <= 3:
        _check.fail(f"queries, keys and values come in one, two or three files: {len(paths)} given")
    if len(paths) == 1 and paths[0].suffix.lower() == ".npz":
        return _triple(paths[0])
    arrays = [read_array(path) for path in paths]
    return arrays[0], arrays[min(1, len(arrays) - 1)], arrays[-1]


def _triple(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    named = read_named(path, [name for triple in _TRIPLES for name in triple])
    for queries, keys, values in _TRIPLES:
        if {queries, keys, values} <= named.keys():
            return named[queries], named[keys], named[values]
    with _opened(path) as archive:
        members = report(", ".join(_names(archive)))
    content = f"only {members}" if members else "nothing"
    _check.fail(f"{path} must hold the arrays queries, keys, values (or q, k, v): it holds {content}")


def read_array(path: Path) -> NDArray[Any]:
    """Read one array of finite real numbers from a .npy or CSV file."""
    return read_table(path).numbers


def read_table(path: Path) -> Table:
    """Read one array of finite real numbers from a .npy or CSV file, with the names that a CSV file has."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        _check.fail(f"{path} holds several arrays", hint="give it alone, or each array as a file of its own")
    if suffix != ".npy":
        return _table(_lines(path), str(path))
    with _files.reading(path) as file:
        return Table(_finite(_npy(file, os.fstat(file.fileno()).st_size, str(path)), str(path)))


def read_named(path: Path, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of a .npz file."""
    arrays = {}
    with _opened(path) as archive:
        wanted = [name for name in _names(archive) if names is None or name in names]
        _check_sizes(path, [archive.getinfo(f"{name}.npy") for name in wanted])
        for name in wanted:
            label = f"{path}, array {report(name)}"
            try:
                with archive.open(f"{name}.npy") as file:
                    array = _npy(file, archive.getinfo(f"{name}.npy").file_size, label)
            except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
                _check.fail(f"{label} is damaged: {error}")
            arrays[name] = _finite(array, label)
    return arrays


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a .npz file."""
    with _files.reading(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, NotImplementedError, UnicodeError):
            _check.fail(f"{path} is not an .npz file")
        with archive:
            yield archive


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _check_sizes(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raise for arrays with an unknown compression, or that unpack to far more than the file's size."""
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            _check.fail(f"{path}, array {member.filename.removesuffix('.npy')} is packed in an unknown way")
    _files.check_unpacked(path, sum(member.file_size for member in members), path.stat().st_size)


def _npy(file: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """Read one array in NumPy's format, after checking the length of the data against the header."""
    try:
        if np.lib.format.read_magic(file) != (
            1,
            0,
        ):  # others are for headers of up to 4 GB, which NumPy allocates
            _check.fail("its version is not 1.0")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except (ValueError, TypeError, SyntaxError, RecursionError, tokenize.TokenError) as error:
        _check.fail(f"{name} is not an array in NumPy's .npy format: {report(_first_line(error))}")
    if dtype.kind not in "biuf":
        _check.fail(f"{name} must hold real numbers: it holds {'objects' if dtype.hasobject else dtype}")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > size:
        _check.fail(f"{name} is cut off: {size} bytes can't hold an array of shape {shape} and type {dtype}")
    data = file.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        _check.fail(f"{name} is cut off: the data of shape {shape} and type {dtype} is missing")
    try:
        return np.frombuffer(data, dtype, count).reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError):  # one size is 0, others are too large for an array
        _check.fail(f"{name} has a shape that no array can have: {shape!s:.60}")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def parse_matrix(text: str, name: str) -> NDArray[Any]:
    """Read a matrix from text such as "1 0; 0 1", or from the file that the text names."""
    return parse_table(text, name).numbers


def parse_table(text: str, name: str) -> Table:
    """Read a matrix from text such as "river 1 0; bank 0 1", or from the file that the text names."""
    if Path(text).suffix.lower() in (".npy", *_TEXT):
        return read_table(Path(text))
    return _table(text.split(";"), name, "row")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, one at a time."""
    with _files.reading(path) as file:
        for count, data in enumerate(_divided(utf_8(iter(lambda: file.read(_BLOCK), b""), str(path))), 1):
            yield from _check.text_line(data, f"{path}, line {count}", first=count == 1).splitlines() or [""]


def _divided(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of blocks; one that is too long is not read to its end."""
    begun = b""
    for block in blocks:
        *complete, begun = (begun + block).split(b"\n")
        yield from complete
        if len(begun) > _check.LONGEST_LINE:
            break
    if begun:
        yield begun


def _table(lines: Iterable[str], name: str, unit: str = "line") -> Table:
    """Parse the numbers of non-empty lines; integers give an integer array.

    A first line without numbers names the columns, and a first cell that is no number names its row.
    """
    cells, width, columns = array("d"), 0, None
    rows: list[str] | None = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _cells(line)
        if not width:
            if columns is None and len(row) > 1 and not any(map(_is_number, row)):
                columns = row
                continue
            width, rows = len(row), None if len(row) == 1 or _is_number(row[0]) else []
        if len(row) != width:
            counts = f"{len(row)} found, {width} in the first {unit}"
            _check.fail(f"{name}, {unit} {number}: every {unit} must have as many numbers: {counts}")
        named = rows is not None
        if rows is not None:
            rows.append(row[0])
        for k, cell in enumerate(row[named:], 1 + named):
            cells.append(_number(cell, f"{name}, {unit} {number}, column {k}"))
    if not width:
        _check.fail(f"there are no numbers in {name}")
    numbers = _as_integers(np.frombuffer(cells, np.float64)).reshape(-1, width - (rows is not None))
    return Table(_finite(numbers, name), rows, _column_names(columns, numbers.shape[1], name, unit))


def _cells(line: str) -> list[str]:
    """Split a line at tabs, at commas outside of quotation marks, or at blanks."""
    if "\t" not in line and "," not in line:
        return line.split()
    try:
        row = next(csv.reader([line], delimiter="\t" if "\t" in line else ",", skipinitialspace=True))
    except csv.Error as error:
        _check.fail(f"{line!r:.60} is no line of a CSV file: {error}")
    return [of_cell(cell.strip()) for cell in row]


def _column_names(columns: list[str] | None, width: int, name: str, unit: str) -> list[str] | None:
    """Return the names of the columns of numbers; that of the column of names is left out."""
    if columns is None:
        return None
    if not 0 <= len(columns) - width <= 1:
        counts = f"{len(columns)} names, {width} numbers"
        _check.fail(f"{name}, {unit} 1: the first {unit} must name every column: {counts}")
    return columns[len(columns) - width :]


def _as_integers(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as integers if all of them are, in the same memory."""
    blocks = [numbers[start : start + _BLOCK] for start in range(0, len(numbers), _BLOCK)]
    if not all((block == np.rint(block)).all() and np.abs(block).max() < 2**53 for block in blocks):
        return numbers
    for block in blocks:
        block.view(np.int64)[...] = block.astype(np.int64)
    return numbers.view(np.int64)


def _is_number(cell: str) -> bool:
    try:
        _number(cell, "")
    except ValueError:
        return False
    return True


def _number(cell: str, location: str) -> float:
    try:
        # float() would also read digits with underscores between them, and those of other scripts.
        return float(cell.replace("_", "?") if cell.isascii() else "")
    except ValueError:
        _check.fail(f"{location}: {cell!r:.60} is not a number")


def _finite(array: NDArray[Any], name: str) -> NDArray[Any]:
    _check.finite(name, array, first=1)
    return array
