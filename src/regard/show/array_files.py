"""Arrays from untrusted files: .npy, .npz and CSV, checked before they are read and never unpickled."""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from regard._characters import report

__all__ = ["read_array", "read_arrays", "read_named", "parse_matrix"]

_TRIPLES = (("queries", "keys", "values"), ("q", "k", "v"), ("Q", "K", "V"))


def read_arrays(paths: Sequence[Path]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Read queries, keys and values.

    Parameters
    ----------
    paths
        One .npz file with the arrays queries, keys, values (or q, k, v); or three files; or two, where the second
        is both keys and values; or one, which is all three (self-attention).

    Returns
    -------
    tuple of ndarray
        Queries, keys and values.

    Raises
    ------
    ValueError
        If a file does not contain such arrays.
    OSError
        If a file can't be opened.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/arrays.npz", q=np.eye(2), k=np.eye(2), v=np.ones((2, 1)))
    ...     [array.shape for array in read_arrays([Path(folder, "arrays.npz")])]
    [(2, 2), (2, 2), (2, 1)]
    """
    if not 1 <= len(paths) <= 3:
        raise ValueError(f"explain takes one, two or three files (queries, keys, values): {len(paths)} given")
    if len(paths) == 1 and paths[0].suffix.lower() == ".npz":
        return _triple(paths[0])
    arrays = [read_array(path) for path in paths]
    return arrays[0], arrays[min(1, len(arrays) - 1)], arrays[-1]


def _triple(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    named = read_named(path, [name for triple in _TRIPLES for name in triple])
    for queries, keys, values in _TRIPLES:
        if {queries, keys, values} <= named.keys():
            return named[queries], named[keys], named[values]
    members = report(", ".join(_members(path)))
    found = f"only {members}" if members else "nothing"
    raise ValueError(f"{path} must hold the arrays queries, keys, values (or q, k, v): it holds {found}")


def read_array(path: Path) -> NDArray[Any]:
    """Read one array of finite real numbers from a .npy or CSV file.

    Parameters
    ----------
    path
        A .npy file, or text: numbers separated by commas or blanks, one row a line.

    Returns
    -------
    ndarray
        (rows, columns) from text; any shape from .npy.

    Raises
    ------
    ValueError
        If the file does not contain such an array; for text, with the line.
    OSError
        If it can't be opened.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "keys.csv").write_text("1,2\\n3,4.5\\n")
    ...     read_array(Path(folder, "keys.csv"))
    array([[1. , 2. ],
           [3. , 4.5]])
    """
    kind = path.suffix.lower()
    if kind == ".npz":
        raise ValueError(f"{path} holds several arrays: give it alone, or each array as a file of its own")
    if kind != ".npy":
        return _finite(_matrix(_text(path).splitlines(), str(path)), str(path))
    with path.open("rb") as file:
        return _finite(_npy(file, path.stat().st_size, str(path)), str(path))


def read_named(path: Path, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Read the arrays of a .npz file.

    Parameters
    ----------
    path
        The file.
    names
        The arrays to read, if present; all by default.

    Returns
    -------
    dict
        From names to arrays.

    Raises
    ------
    ValueError
        If it is not a .npz file, or an array in it is damaged or has numbers that are not finite.
    OSError
        If it can't be opened.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/learned.npz", weight=np.eye(1))
    ...     read_named(Path(folder, "learned.npz"))
    {'weight': array([[1.]])}
    """
    wanted = [name for name in _members(path) if names is None or name in names]
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for name in wanted:
            label = f"{path}, array {report(name)}"
            try:
                with archive.open(f"{name}.npy") as file:
                    array = _npy(file, archive.getinfo(f"{name}.npy").file_size, label)
            except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
                raise ValueError(f"{label} is damaged: {error}") from None
            arrays[name] = _finite(array, label)
    return arrays


def _members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except zipfile.BadZipFile:
        raise ValueError(f"{path} is no .npz file") from None


def _npy(file: IO[bytes], size: int, name: str) -> NDArray[Any]:
    """Read one array in NumPy's format, after checking the length of the data against the header."""
    try:
        version = np.lib.format.read_magic(file)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        shape, fortran, dtype = read_header[version](file)
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, tokenize.TokenError) as error:
        raise ValueError(f"{name} is no array in NumPy's .npy format: {report(_first_line(error))}") from None
    if dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers: it holds {'objects' if dtype.hasobject else dtype}")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > size:
        raise ValueError(
            f"{name} is cut off: {size} bytes can't hold an array of shape {shape} and type {dtype}"
        )
    data = file.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise ValueError(f"{name} is cut off: the data of shape {shape} and type {dtype} is missing")
    return np.frombuffer(data, dtype, count).reshape(shape, order="F" if fortran else "C")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def parse_matrix(text: str, name: str) -> NDArray[Any]:
    """Read a matrix from text such as "1 0; 0 1", or from the file that the text names.

    Parameters
    ----------
    text
        Rows separated by semicolons, numbers by blanks or commas; or the path of a .npy or CSV file.
    name
        The name of the matrix, for the errors.

    Returns
    -------
    ndarray
        (rows, columns).

    Raises
    ------
    ValueError
        If the text is not a matrix, with the row.
    OSError
        If it names a file that can't be opened.

    Examples
    --------
    >>> parse_matrix("1 0; 0 1", "words")
    array([[1, 0],
           [0, 1]])
    """
    if Path(text).suffix.lower() in (".npy", ".csv", ".tsv", ".txt"):
        return read_array(Path(text))
    return _finite(_matrix(text.split(";"), name, "row"), name)


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: not UTF-8 text (byte {data[error.start]:#04x})") from None


def _matrix(lines: Sequence[str], name: str, unit: str = "line") -> NDArray[Any]:
    """Parse the numbers of non-empty lines; integers give an integer array."""
    rows: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = line.split(",") if "," in line else line.split()
        row = [
            _number(cell.strip(), f"{name}, {unit} {number}, column {k}") for k, cell in enumerate(cells, 1)
        ]
        if rows and len(row) != len(rows[0]):
            found = f"{len(row)} found, {len(rows[0])} in the first {unit}"
            raise ValueError(f"{name}, {unit} {number}: every {unit} must have as many numbers: {found}")
        rows.append(row)
    if not rows:
        raise ValueError(f"there are no numbers in {name}")
    matrix = np.array(rows, dtype=np.float64)
    integer = (
        np.all(np.isfinite(matrix)) and np.all(matrix == np.rint(matrix)) and np.abs(matrix).max() < 2**53
    )
    return matrix.astype(np.int64) if integer else matrix


def _number(cell: str, place: str) -> float:
    try:
        # float() would also read digits with underscores between them.
        return float(cell.replace("_", "?"))
    except ValueError:
        raise ValueError(f"{place}: {cell!r:.60} is not a number") from None


def _finite(array: NDArray[Any], name: str) -> NDArray[Any]:
    bad = ~np.isfinite(array)
    if bad.any():
        place = tuple(int(index) + 1 for index in np.argwhere(bad)[0])
        raise ValueError(f"{name} must hold finite numbers: {array[bad][0]} at {_place(place)}")
    return array


def _place(place: tuple[int, ...]) -> str:
    if len(place) == 2:
        return f"row {place[0]}, column {place[1]}"
    return f"place {place}, counted from 1"
