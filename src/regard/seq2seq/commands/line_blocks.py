"""Reading lines as they arrive: in blocks from a file, one by one from a pipe or a terminal.

A line with an error does not end a verb: a `Failed` takes its place in the output, and the exit status is 2 at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple, TypeVar

from regard._characters import one_line
from regard.seq2seq.data.parallel_text import Readable, read_lines
from regard.seq2seq.data.tables import Record
from regard.show.terminal.text import note

__all__ = ["Failed", "Failures", "of_others", "read_blocks", "windows"]

T = TypeVar("T")
R = TypeVar("R")

WINDOW = 2000  # lines that are sorted by length together
_REPORTED = 10  # errors that are printed


class Failed(NamedTuple):
    """An input that can't be used.

    Parameters
    ----------
    error : str
        Why, with the location.
    """

    error: str


class Failures:
    """Counts the inputs that can't be used, and prints the errors of the first ten.

    Parameters
    ----------
    verb : str
        The verb that reads the inputs.
    units : str
        What the inputs are, in the plural.
    """

    def __init__(self, verb: str, units: str) -> None:
        self.verb, self.units, self.count = verb, units, 0

    def read(self, record: Record, parse: Callable[[Record], T], file: str) -> T | Failed:
        """Return what a function makes of a record of a file, or the error of either."""
        if record.error:
            return self._fail(record.error)
        return self.attempt(lambda: parse(record), f"{file}, line {record.line}")

    def attempt(self, function: Callable[[], T], location: str = "") -> T | Failed:
        """Return what a function returns, or its error, whose text begins with the location."""
        try:
            return function()
        except (ValueError, TypeError, OSError) as error:
            return self._fail(f"{location}: {one_line(error)}" if location else one_line(error))

    def _fail(self, error: str) -> Failed:
        """Count and print an error."""
        self.count += 1
        if self.count <= _REPORTED:
            self._print(error)
        return Failed(error)

    def status(self, total: int) -> int:
        """Return the exit status, and print the number of the errors if not all were printed."""
        if self.count > _REPORTED:
            self._print(f"{self.count} of {total} {self.units} could not be used")
        return 2 if self.count else 0

    def _print(self, error: str) -> None:
        note(f"regard {self.verb}: error: {error}")


def of_others(
    items: Sequence[T | Failed], function: Callable[[list[T]], Iterable[R]]
) -> Iterator[R | Failed]:
    """Yield what a function returns for the items, in order, where those that have failed stay as they are."""
    others = [item for item in items if not isinstance(item, Failed)]
    results = iter(function(others) if others else ())
    for item in items:
        yield item if isinstance(item, Failed) else next(results)


def read_blocks(path: Readable) -> Iterator[list[Record]]:
    """Read the lines that are available without waiting, at most 2,000 at a time.

    Parameters
    ----------
    path : str, path or binary file
        UTF-8 text, compressed with gzip or not; "-" is standard input.

    Yields
    ------
    list of Record
        Lines, each as one field; a line that can't be read has an error.
    """
    number, errors = 0, dict[int, str]()
    with closing(read_lines(path, errors)) as batches:
        for lines in windows(batches):
            yield [Record(i, [line], errors.pop(i, "")) for i, line in enumerate(lines, number + 1)]
            number += len(lines)


def windows(blocks: Iterator[list[T]], most: int | None = None) -> Iterator[list[T]]:
    """Split blocks into parts of limited length.

    Parameters
    ----------
    blocks : iterator of list
        Blocks of any length.
    most : int, optional
        The largest number of items in a part; by default 2,000.

    Yields
    ------
    list
        At most `most` items.
    """
    size = WINDOW if most is None else most
    for block in blocks:
        for start in range(0, len(block), size):
            yield block[start : start + size]
