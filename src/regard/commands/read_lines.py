"""Reading lines as they arrive: in blocks from a file, one by one from a pipe or a terminal.

A line with an error does not end a verb: a `Failed` takes its place in the output, and the exit status is 2 at the end.
One that is left out on purpose has a `Failed`, too, without that status.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple, TypeVar

from regard._characters import one_line
from regard._lines import Readable, read_lines
from regard.seq2seq.corpus.tables import Record
from regard.show.terminal.text import note

__all__ = ["Failed", "Failures", "read_blocks", "results", "windows"]

T = TypeVar("T")
R = TypeVar("R")

WINDOW = 2000  # lines that are sorted by length together
_REPORTED = 10  # errors that are printed


class Failed(NamedTuple):
    """An input that can't be used."""

    error: str  # with the location


class SkippedInput(Exception):
    """An input is left out, which an option asks for; the text is the error that it would have been."""


class Failures:
    """Counts the inputs of a verb that can't be used, called `units`, and prints the errors of the first ten.

    It does the same for those of which it warns, by default for symbols that a model does not know.
    """

    def __init__(
        self,
        verb: str,
        units: str,
        file: str = "standard input",
        warned_of: str = "symbols that the model does not know",
    ) -> None:
        self.verb, self.units, self.file, self.warned_of = verb, units, file, warned_of
        self.total = self.count = self.warned = 0

    def read(self, record: Record, parse: Callable[[Record], T]) -> T | Failed:
        """Return what a function makes of a record, or the error of either; each record is read once."""
        self.total += 1
        if record.error:
            return self._fail(one_line(record.error))
        return self.attempt(lambda: parse(record), self.location(record))

    def location(self, record: Record) -> str:
        """Return the beginning of an error: file and line; none of an argument, which has no line."""
        return f"{self.file}, line {record.line}" if record.line else ""

    def attempt(self, function: Callable[[], T], location: str = "") -> T | Failed:
        """Return what a function returns, or its error, whose text begins with the location."""
        try:
            return function()
        except SkippedInput as reason:
            return Failed(str(reason))
        except (ValueError, TypeError, OSError) as error:
            return self._fail(f"{location}: {one_line(error)}" if location else one_line(error))

    def _fail(self, error: str) -> Failed:
        """Count and print an error."""
        self.count += 1
        if self.count <= _REPORTED:
            self._print(error)
        return Failed(error)

    def warn(self, text: str) -> None:
        """Count an input of which it warns, and print the warning."""
        self.warned += 1
        if self.warned <= _REPORTED:
            note(f"warning: {text}")

    def status(self) -> int:
        """Return the exit status, and print the number of the errors if not all were printed."""
        if self.count > _REPORTED:
            self._print(f"{self.count} of {self.total} {self.units} could not be used")
        if self.warned > _REPORTED:
            note(f"warning: {self.warned} of {self.total} {self.units} have {self.warned_of}")
        return 2 if self.count else 0

    def _print(self, error: str) -> None:
        note(f"regard {self.verb}: error: {error}")


def results(
    blocks: Iterable[list[Record]],
    read: Callable[[Record], T | Failed],
    search: Callable[[list[T]], Iterable[R]],
) -> Iterator[tuple[Record, T | Failed, R | Failed]]:
    """Yield each record, what is read of it, and what a search finds for that; a failure takes the place of both."""
    for block in blocks:
        items = [read(record) for record in block]
        usable = [item for item in items if not isinstance(item, Failed)]
        found = iter(search(usable) if usable else ())
        for record, item in zip(block, items, strict=True):
            yield record, item, item if isinstance(item, Failed) else next(found)
        sys.stdout.flush()  # a program at the other end of a pipe may wait for the output of this block


def read_blocks(path: Readable) -> Iterator[list[Record]]:
    """Yield the lines that are available without waiting, at most 2,000 at a time, each as one field or an error."""
    number, errors = 0, dict[int, str]()
    with closing(read_lines(path, errors)) as batches:
        for lines in windows(batches):
            yield [Record(i, [line], errors.pop(i, "")) for i, line in enumerate(lines, number + 1)]
            number += len(lines)


def windows(blocks: Iterator[list[T]], most: int | None = None) -> Iterator[list[T]]:
    """Split blocks into parts of at most `most` items, 2,000 by default."""
    size = WINDOW if most is None else most
    for block in blocks:
        for start in range(0, len(block), size):
            yield block[start : start + size]
