"""Arrays of the command line: of text, of CSV files, and of those that `regard._arrays` reads."""

import csv
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard import _check
from regard._arrays import Array, array_names, is_array_file, load_array, load_arrays
from regard._characters import of_cell, report
from regard._lines import file_lines

__all__ = ["Table", "parse_matrix", "parse_table", "read_array", "read_named", "read_table", "read_tables"]

_BLOCK = 1 << 16  # numbers that are checked at a time
_TEXT = (".csv", ".tsv", ".txt")
_TRIPLES = (("queries", "keys", "values"), ("q", "k", "v"), ("Q", "K", "V"))


class Table(NamedTuple):
    """An array, and the names of its rows and columns, where the text has any."""

    numbers: Array
    rows: list[str] | None = None
    columns: list[str] | None = None


def read_tables(paths: Sequence[Path]) -> tuple[Table, Table, Table]:
    """Read queries, keys and values of one archive, or of one, two or three files."""
    if not 1 <= len(paths) <= 3:
        _check.fail(f"queries, keys and values come in one, two or three files: {len(paths)} given")
    if len(paths) == 1 and paths[0].suffix.lower() == ".npz":
        queries, keys, values = map(Table, read_named(paths[0], _names_of_triple(paths[0])).values())
        return queries, keys, values
    tables = [read_table(path) for path in paths]
    return tables[0], tables[min(1, len(tables) - 1)], tables[-1]


def _names_of_triple(path: Path) -> tuple[str, str, str]:
    names = array_names(path)
    for triple in _TRIPLES:
        if {*triple} <= {*names}:
            return triple
    content = f"only {report(', '.join(names))}" if names else "nothing"
    _check.fail(f"{path} must hold the arrays queries, keys, values (or q, k, v): it holds {content}")


def read_array(path: Path) -> Array:
    """Read one array of finite real numbers from a .npy or CSV file, or from ``x.npz:name``."""
    return read_table(path).numbers


def read_table(path: Path) -> Table:
    """Read one array of finite real numbers as `read_array` does, with the names that a CSV file has."""
    if path.suffix.lower() == ".npz":
        hint = f"give it alone, or an array of it as {path.name}:NAME"
        _check.fail(f"{path} holds several arrays", hint=hint)
    if is_array_file(path):
        return Table(_finite(load_array(path), str(path)))
    with file_lines(path) as lines:
        return _table(lines, str(path))


def read_named(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Read arrays of finite real numbers of a .npz file."""
    return {name: _finite(array, f"{path}:{name}") for name, array in load_arrays(path, names).items()}


def parse_matrix(text: str, name: str) -> Array:
    """Read a matrix from text such as "1 0; 0 1", or from the file that the text names."""
    return parse_table(text, name).numbers


def parse_table(text: str, name: str) -> Table:
    """Read a matrix from text such as "river 1 0; bank 0 1", or from the file that the text names."""
    if Path(text).suffix.lower() in (".npy", *_TEXT):
        return read_table(Path(text))
    return _table(text.split(";"), name, "row")


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


def _as_integers(numbers: Array) -> Array:
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


def _finite(array: Array, name: str) -> Array:
    _check.finite(name, array, first=1)
    return array
