"""Read parallel text: one file of lines source TAB target, or two line-aligned files; UTF-8, optionally gzipped.

`regard._lines` reads the lines; one that is no pair raises an error with its number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard import _check, _files
from regard._lines import Readable, display_name, file_lines, memoized
from regard.seq2seq.corpus import tables
from regard.seq2seq.corpus.tables import Columns
from regard.seq2seq.sources.base import Source
from regard.seq2seq.sources.example import Example
from regard.seq2seq.sources.text.normalization import is_blank
from regard.seq2seq.sources.text.tokenizers import Tokenizer

__all__ = [
    "by_source",
    "check_sides",
    "Skipped",
    "as_examples",
    "as_pairs",
    "no_pair",
    "paired",
    "read_pairs",
    "read_two",
    "two_sides",
]

Pair = tuple[Example, Example]
T = TypeVar("T")
SourceKey = TypeVar("SourceKey", bound=Hashable)

_SIDES = ("source", "target")


class Skipped(NamedTuple):
    """A skipped sentence pair; `str` gives a one-line message.

    `line`: the line number, or the position in a sequence of pairs, from 1; `reason`: why it was skipped; `file`: the
    file name; empty for a sequence of pairs.
    """

    line: int
    reason: str
    file: str = ""

    def __str__(self) -> str:
        location = f"{self.file}, line" if self.file else "pair"
        return f"{location} {self.line}: {self.reason}"


_OnSkipped = Callable[[Skipped], object]
_OnKept = Callable[[int], object]


def read_pairs(
    path: Readable,
    *,
    skipped: _OnSkipped | None = None,
    kept: _OnKept | None = None,
    columns: Columns | None = None,
) -> list[tuple[str, str]]:
    """Read sentence pairs from one file.

    Parameters
    ----------
    path : str, path or binary file
        Lines ``source TAB target`` in UTF-8; gzip is recognised by its content. "-" is standard input. A file whose
        name ends in .csv or .csv.gz is read as CSV, as `regard.seq2seq.corpus.tables.records` does.
    skipped : callable, optional
        Called with a `Skipped` for each pair that is skipped because one or both sides are empty. By default such a
        pair raises an error.
    kept : callable, optional
        Called with the line number of each pair that is returned.
    columns : two of str or int, optional
        The columns of source and target: names if the first line is a header, or numbers from 1 if there is none. A
        side may be several columns, "1+2", between which a blank is put.

    Returns
    -------
    list of (source, target)
        In file order.

    Raises
    ------
    ValueError
        If a line does not have exactly one TAB, has an empty side, or is not UTF-8; if there are no pairs or no such
        column; if the file changes while it is read.
    OSError
        If the file cannot be read.

    Warns
    -----
    UserWarning
        If the first line looks like a header, or most fields of a TAB-separated file are quoted.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pairs.tsv")
    ...     _ = file.write_text("the cat\\tle chat\\n", encoding="utf-8")
    ...     read_pairs(file)
    [('the cat', 'le chat')]
    """
    name = display_name(path)
    with file_lines(path) as lines:
        if columns is not None or tables.is_csv(name):
            return _of_table(tables.records(lines, name, columns), name, skipped, kept)
        return _of_lines(lines, name, skipped, kept)


def _of_lines(
    lines: Iterable[str], name: str, skipped: _OnSkipped | None, kept: _OnKept | None
) -> list[tuple[str, str]]:
    """Return the sentence pairs of lines source TAB target."""
    shared = memoized(_same)
    pairs: list[tuple[str, str]] = []
    first: list[tables.Record] = []
    number = quoted = 0
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if number <= tables.COMPARED:
            first.append(tables.Record(number, cells))
        if '"' in line:
            quoted += sum(map(tables.is_quoted, cells))
        if len(cells) == 2 and not is_blank(cells[0]) and not is_blank(cells[1]):
            pairs.append(shared((cells[0], cells[1])))
            _keep(number, kept)
        else:
            _no_pair(line, cells, name, number, skipped)
    tables.note_header(first, name)
    tables.note_quotes(quoted, 2 * number, name)
    return _not_empty(pairs, [name], number)


def _of_table(
    records: Iterable[tables.Record], name: str, skipped: _OnSkipped | None, kept: _OnKept | None
) -> list[tuple[str, str]]:
    """Return the sentence pairs of a table with two columns."""
    pairs: list[tuple[str, str]] = []
    number = 0
    for number, (line, cells, error) in enumerate(records, 1):  # noqa: B007 - used after the loop
        if error:
            _check.fail(error)
        filled = [not is_blank(cell) for cell in cells]
        if all(filled) and cells:
            pairs.append((cells[0], cells[1]))
            _keep(line, kept)
        else:
            what = (
                f"the {_SIDES[filled[0]]} is empty"
                if any(filled)
                else "empty; expected a source and a target"
            )
            _skip(Skipped(line, what, name), skipped)
    return _not_empty(pairs, [name], number)


def _no_pair(line: str, cells: Sequence[str], name: str, number: int, skipped: _OnSkipped | None) -> None:
    """Skip a line with an empty side; raise an error for any other invalid line."""
    if is_blank(line):
        _skip(Skipped(number, "empty; expected source TAB target", name), skipped)
    elif len(cells) == 2:
        _skip(Skipped(number, f"the {_SIDES[not is_blank(cells[0])]} is empty", name), skipped)
    else:
        _check.fail(f"{name}, line {number}: {no_pair(line)}")


def no_pair(line: str) -> str:
    """Return the error message for a line without exactly two columns."""
    count = line.count("\t") + 1
    signs = [name for sign, name in ((",", "comma"), (";", "semicolon")) if count == 1 and sign in line]
    hint = f"; a {signs[0]} is not a TAB (the name of a CSV file ends in .csv)" if signs else ""
    hint = "; choose two with --columns" if count > 2 else hint
    return f"expected source TAB target, found {count} column{'s' * (count > 1)}{hint}"


def _skip(pair: Skipped, skipped: _OnSkipped | None) -> None:
    if skipped is None:
        _check.fail(str(pair))
    skipped(pair)


def _keep(line: int, kept: _OnKept | None) -> None:
    if kept is not None:
        kept(line)


def _not_empty(pairs: list[tuple[str, str]], names: Sequence[str], count: int) -> list[tuple[str, str]]:
    """Return the pairs; raise an error if there are none."""
    if not pairs:
        hold, they_are = ("holds", "it is") if len(names) == 1 else ("hold", "they are")
        why = f"all lines were left out, {count} of them" if count else f"{they_are} empty"
        _check.fail(f"{' and '.join(names)} {hold} no sentence pairs: {why}")
    return pairs


def read_two(
    source: Readable,
    target: Readable,
    *,
    skipped: _OnSkipped | None = None,
    kept: _OnKept | None = None,
) -> list[tuple[str, str]]:
    """Read sentence pairs from two line-aligned files, of which one may be "-", standard input.

    `skipped` and `kept` are as for `read_pairs`.
    """
    if source == target == "-":
        _check.fail("only one of two files can be standard input")
    paths = [_files.real(path) for path in (source, target) if isinstance(path, str | os.PathLike)]
    if len(paths) == 2 and paths[0] == paths[1]:
        _check.fail(f"source and target must be different files. Got {source} and {target} instead.")
    names = (display_name(source), display_name(target))
    with file_lines(source) as sources, file_lines(target) as targets:
        return _of_two(names, (_CountedLines(sources), _CountedLines(targets)), skipped, kept)


def _of_two(
    names: tuple[str, str],
    files: tuple[_CountedLines, _CountedLines],
    skipped: _OnSkipped | None,
    kept: _OnKept | None,
) -> list[tuple[str, str]]:
    """Return the sentence pairs of the lines of two files."""
    shared = memoized(_same)
    pairs: list[tuple[str, str]] = []
    for pair in zip(*files, strict=False):
        if not any(map(is_blank, pair)):
            pairs.append(shared(pair))
            _keep(files[1].count, kept)
        else:
            side = not is_blank(pair[0])
            _skip(Skipped(files[1].count, f"the {_SIDES[side]} is empty", names[side]), skipped)
    counts = [file.finish() for file in files]
    if counts[0] != counts[1]:
        few = int(counts[1] < counts[0])
        _check.fail(
            f"{names[0]} has {counts[0]} lines, {names[1]} has {counts[1]}:"
            f" line {counts[few] + 1} is missing in {names[few]}"
        )
    check_sides(pairs, names)
    return _not_empty(pairs, names, counts[0])


def check_sides(pairs: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """Raise if the lines of a source and a target file are pairs themselves."""
    if pairs and all(side.count("\t") == 1 for pair in pairs for side in pair):
        rule = f"{names[0]} and {names[1]} must be sources and targets. All lines of both are pairs with a TAB instead."
        _check.fail(rule, hint=f"join them to one file of pairs: cat {' '.join(names)}")


class _CountedLines(Iterator[str]):
    """Iterate over lines and count them."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.count, self._lines = 0, lines

    def __next__(self) -> str:
        line = next(self._lines)
        self.count += 1
        return line

    def finish(self) -> int:
        """Read to the end and return the number of lines."""
        for _ in self:
            pass
        return self.count


def as_pairs(
    pairs: Iterable[tuple[Any, Any]],
    source: Source,
    target: Tokenizer,
    *,
    skipped: _OnSkipped | None = None,
) -> list[Pair]:
    """Read pairs of what the source reads, and of a text or a sequence of tokens; or of examples, which have been read.

    `skipped` is as for `read_pairs`, with the position of a pair in place of the line.
    """
    complete: list[Pair] = []
    number = 0
    for number, pair in enumerate(pairs, 1):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            _check.fail(
                f"pair {number} must be a source and a target. Got {pair!r:.60} instead.", kind=TypeError
            )
        read = source.load(pair[0], f"pair {number}: "), target.read(pair[1], f"pair {number}: ")
        if empty := [what for what, side in zip(_SIDES, read, strict=True) if not len(side)]:
            _skip(Skipped(number, f"the {empty[0]} is empty"), skipped)
        else:
            complete.append(read)
    if not complete:
        got = f"{number} with an empty side" if number else "none"
        _check.fail(f"there must be sentence pairs. Got {got} instead.")
    return complete


def as_examples(name: str, argument: Any, read: Callable[[Any], object]) -> list[Any]:
    """Return the examples of an argument as a list; raise if it is a single example."""
    single = isinstance(argument, np.ndarray) and (not argument.ndim or _is_example(argument, read))
    listed = isinstance(argument, Sequence) or hasattr(argument, "tolist")  # of NumPy, pandas and others
    if single or not listed or isinstance(argument, str | bytes):
        got = f"one array of shape {argument.shape}" if single else type(argument).__name__
        rule = f"{name} must be a sequence of examples. Got {got} instead."
        _check.fail(rule, hint="[example], not example", kind=TypeError)
    return list(argument) if hasattr(argument, "__iter__") else list(argument.tolist())


def _is_example(array: NDArray[Any], read: Callable[[Any], object]) -> bool:
    """Return whether an array is one example, where several are needed."""
    try:
        read(array)
    except (ValueError, TypeError):
        return False
    return True


def paired(
    sources: Any, targets: Any, source: Source, target: Tokenizer, name: str = "targets"
) -> list[tuple[Any, Any]]:
    """Pair sources with targets, `name` in error messages, both unread."""
    lists = as_examples("sources", sources, source.read), as_examples(name, targets, target.tokenize)
    if len(lists[0]) != len(lists[1]):
        got = f"{len(lists[1])} for {len(lists[0])}"
        _check.fail(f"{name} must be as many as sources. Got {got} instead.")
    return list(zip(*lists, strict=True))


def two_sides(argument: Any, name: str) -> tuple[Any, Any]:
    """Return the sources and the targets of an argument, both unread."""
    if not isinstance(argument, tuple | list) or len(argument) != 2:
        _check.fail(f"{name} must be (sources, targets). Got {argument!r:.60} instead.", kind=TypeError)
    return argument[0], argument[1]


def _same(pair: tuple[str, str]) -> tuple[str, str]:
    return pair


def by_source(pairs: Iterable[tuple[SourceKey, T]]) -> dict[SourceKey, list[T]]:
    """Return the targets of each source, in the order of the pairs."""
    targets: dict[SourceKey, list[T]] = {}
    for source, target in pairs:
        targets.setdefault(source, []).append(target)
    return targets
