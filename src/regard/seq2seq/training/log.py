"""The training log: one JSON object a line, written during training, readable at any moment.

A killed process may leave an incomplete last line. Reading ignores such a line, and resuming removes it.
"""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from regard import _check, _files, _lines

__all__ = ["LOG_FILE", "Log", "column", "columns", "entries", "read_log"]

LOG_FILE = "log.jsonl"  # the name of the log in the folder of a training

Entry = dict[str, Any]
_LARGEST = 1e100  # so that sums and squares of drawn values are finite


class Log:
    """Write a training log, one line for each call of `write`; with `resume_at`, after the lines up to that step."""

    def __init__(self, path: str | os.PathLike[str], resume_at: int | None = None) -> None:
        self.path = Path(path)
        last = None if resume_at is None else _check.integer("resume_at", resume_at)
        older = entries(path) if last is not None and self.path.exists() else ()
        with _files.replacing(path) as file:
            for entry in older:
                if last is not None and entry["step"] <= last:
                    file.write(_line(entry).encode())
        self._file = self.path.open("a", encoding="utf-8")

    def write(self, *, step: int, **values: float | str | None) -> None:
        """Append a line, which is in the file when this returns; values that are None are left out."""
        try:
            self._file.write(_line({"step": _check.integer("step", step), **values}))
            self._file.flush()
        except OSError as error:  # of writing: it does not name the file
            raise OSError(error.errno, error.strerror, os.fspath(self.path)) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _line(entry: Mapping[str, Any]) -> str:
    plain = {name: _plain(value) for name, value in entry.items() if value is not None}
    return json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Return a value for JSON: a Python number for a NumPy number, None if it is not finite."""
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_log(path: str | os.PathLike[str]) -> list[Entry]:
    """Return the complete lines of a training log; each has a "step"."""
    return list(entries(path))


def entries(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """Yield the complete lines of a training log; each has a "step"."""
    number = 0
    with _files.reading(path) as file:
        while line := file.readline(_lines.LONGEST_LINE + 1):
            number += 1
            _lines.check_length(line, f"{os.fspath(path)}, line {number}")
            if line.endswith(b"\n"):  # otherwise it is the last line, and incomplete
                yield _entry(line, f"{os.fspath(path)}, line {number}")


def _entry(line: bytes, location: str) -> Entry:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        entry = None
    if not isinstance(entry, dict) or type(entry.get("step")) is not int:
        _check.fail(f"{location}: expected a JSON object with a step, as regard train writes them")
    return entry


def columns(log: Iterable[Mapping[str, Any]], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return named values of a log as arrays (n,) with a number for each line.

    It is NaN if a line has none, or one above 1e100, which cannot be drawn.
    """
    values = {name: array("d") for name in names}
    for entry in log:
        for name, numbers in values.items():
            value = entry.get(name)
            numbers.append(value if _drawable(value) else math.nan)
    return {name: np.asarray(numbers) for name, numbers in values.items()}


def column(table: Mapping[str, NDArray[Any]], name: str, along: str = "step") -> NDArray[Any]:
    """Return the values x ("step" or "seconds", not negative) and y of a curve, (2, n), of the lines with both."""
    x, y = table[along], table[name]
    both = (x >= 0) & ~np.isnan(y)
    return np.stack([x[both], y[both]])


def _drawable(number: Any) -> TypeGuard[float]:
    return isinstance(number, int | float) and abs(number) <= _LARGEST
