"""Reading sentence pairs: one file of lines source TAB target, or two files line by line; UTF-8, gzip or not.

Lines end with a newline; a carriage return before it belongs to it. A byte order mark may stand before the first line.
A line that can't be read is an error with its number. A file that changes while it is read is an error, too.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO, NamedTuple, TypeVar

from regard import _check, _files
from regard.seq2seq.data import tables
from regard.seq2seq.data.normalization import is_blank
from regard.seq2seq.data.tables import Columns

__all__ = [
    "Skipped",
    "as_pairs",
    "as_sentences",
    "no_pair",
    "paired",
    "place_name",
    "read_lines",
    "read_pairs",
    "read_two",
    "remembering",
    "standard_input",
]

Place = str | os.PathLike[str] | BinaryIO
Side = str | Sequence[str]
Pair = tuple[Side, Side]
T = TypeVar("T")
Key = TypeVar("Key", str, tuple[str, str])

LONGEST_LINE = 1 << 20  # bytes; a file without line ends is no reason to fill the memory
_BLOCK = 1 << 18  # bytes that are read at a time
_GZIP = b"\x1f\x8b"
_GZIP_FORMAT = 31  # for zlib: with gzip's header and check sum
_RATIO = 200  # bytes that one byte of gzip may unpack to; text comes to 3 to 20, a repeated line to 1,000
_FREE = 1 << 20  # bytes that any gzip file may unpack to
_RECENT = 1 << 20  # characters of lines that are recognised if they come again; gzip sees 32 KiB at a time
_SIDES = ("source", "target")


class Skipped(NamedTuple):
    """A pair that was left out; its text is one line.

    Parameters
    ----------
    line : int
        The number of its line, or of the pair in a sequence, from 1.
    reason : str
        Why it was left out.
    file : str
        The name of the file; empty for a sequence of pairs.

    Examples
    --------
    >>> print(Skipped(7, "the source is empty", "pairs.tsv"))
    pairs.tsv, line 7: the source is empty
    """

    line: int
    reason: str
    file: str = ""

    def __str__(self) -> str:
        location = f"{self.file}, line" if self.file else "pair"
        return f"{location} {self.line}: {self.reason}"


_OnSkipped = Callable[[Skipped], object]


def read_pairs(
    path: Place, *, skipped: _OnSkipped | None = None, columns: Columns | None = None
) -> list[tuple[str, str]]:
    """Read sentence pairs, or say which line is not one.

    Parameters
    ----------
    path : str, path or binary file
        Lines ``source TAB target`` in UTF-8; gzip is recognised by its content. "-" is standard input. A file whose
        name ends in .csv or .csv.gz is read as CSV, with commas, semicolons or TABs between fields.
    skipped : callable, optional
        Called with a `Skipped` for each pair that is left out because it or a side of it is empty. Without it such a
        pair is an error.
    columns : two of str or int, optional
        Which columns are source and target: names in the first line, which is no pair then, or numbers from 1.

    Returns
    -------
    list of (source, target)
        In the order of the file.

    Raises
    ------
    ValueError
        If a line has no or several TABs, an empty side, or is not UTF-8; if there is no line or no such column; if the
        file changes while it is read.
    OSError
        If the file can't be read.

    Warns
    -----
    UserWarning
        If the first line looks like the names of columns, or most fields of a file with TABs are in quotes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pairs.tsv")
    ...     _ = file.write_text("the cat\\tle chat\\n", encoding="utf-8")
    ...     read_pairs(file)
    [('the cat', 'le chat')]
    """
    name = place_name(path)
    lines = chain.from_iterable(read_lines(path))
    if columns is not None or tables.is_csv(name):
        return _of_table(tables.records(lines, name, columns), name, skipped)
    shared = remembering(_same)
    pairs: list[tuple[str, str]] = []
    number = quoted = 0
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if number == 1:
            tables.note_header(tables.Record(1, cells), name)
        if '"' in line:
            quoted += sum(map(tables.is_quoted, cells))
        if len(cells) == 2 and not is_blank(cells[0]) and not is_blank(cells[1]):
            pairs.append(shared((cells[0], cells[1])))
        else:
            _no_pair(line, cells, name, number, skipped)
    tables.note_quotes(quoted, 2 * number, name)
    return _some(pairs, [name], number)


def _of_table(
    records: Iterable[tables.Record], name: str, skipped: _OnSkipped | None
) -> list[tuple[str, str]]:
    """Return the pairs of a table's two columns."""
    pairs: list[tuple[str, str]] = []
    number = 0
    for number, (line, cells) in enumerate(records, 1):  # noqa: B007 - read behind the loop
        filled = [not is_blank(cell) for cell in cells]
        if all(filled) and cells:
            pairs.append((cells[0], cells[1]))
        else:
            what = (
                f"the {_SIDES[filled[0]]} is empty"
                if any(filled)
                else "empty; expected a source and a target"
            )
            _skip(Skipped(line, what, name), skipped)
    return _some(pairs, [name], number)


def _no_pair(line: str, cells: Sequence[str], name: str, number: int, skipped: _OnSkipped | None) -> None:
    """Leave out a line with an empty side; raise for any other that is not a pair."""
    if is_blank(line):
        _skip(Skipped(number, "empty; expected source TAB target", name), skipped)
    elif len(cells) == 2:
        _skip(Skipped(number, f"the {_SIDES[not is_blank(cells[0])]} is empty", name), skipped)
    else:
        raise ValueError(f"{name}, line {number}: {no_pair(line)}")


def no_pair(line: str) -> str:
    """Say what is wrong with a line that should have two columns.

    Parameters
    ----------
    line : str
        With no TAB in it, or several.

    Returns
    -------
    str
        For an error.

    Examples
    --------
    >>> no_pair("one,un")
    'expected source TAB target, found 1 column; a comma is no TAB (the name of a CSV file ends in .csv)'
    """
    count = line.count("\t") + 1
    signs = [name for sign, name in ((",", "comma"), (";", "semicolon")) if count == 1 and sign in line]
    hint = f"; a {signs[0]} is no TAB (the name of a CSV file ends in .csv)" if signs else ""
    hint = "; choose two with --columns" if count > 2 else hint
    return f"expected source TAB target, found {count} column{'s' * (count > 1)}{hint}"


def _skip(pair: Skipped, skipped: _OnSkipped | None) -> None:
    if skipped is None:
        raise ValueError(str(pair))
    skipped(pair)


def _some(pairs: list[tuple[str, str]], names: Sequence[str], count: int) -> list[tuple[str, str]]:
    """Return the pairs if there are any."""
    if not pairs:
        hold, they_are = ("holds", "it is") if len(names) == 1 else ("hold", "they are")
        why = f"all lines were left out, {count} of them" if count else f"{they_are} empty"
        raise ValueError(f"{' and '.join(names)} {hold} no sentence pairs: {why}")
    return pairs


def read_two(source: Place, target: Place, *, skipped: _OnSkipped | None = None) -> list[tuple[str, str]]:
    """Read sentence pairs from two files: a line of the one belongs to the line of the other with the same number.

    Parameters
    ----------
    source, target : str, path or binary file
        Sentences in UTF-8, one a line; gzip is recognised by its content. One of them may be "-", standard input.
    skipped : callable, optional
        Called with a `Skipped` for each pair that is left out because a side of it is empty. Without it such a pair
        is an error.

    Returns
    -------
    list of (source, target)
        In the order of the files.

    Raises
    ------
    ValueError
        If one has more lines than the other, a line is empty or not UTF-8; if there is no line; if a file changes while
        it is read.
    OSError
        If a file can't be read.

    Examples
    --------
    >>> import io
    >>> read_two(io.BytesIO(b"the cat\\n"), io.BytesIO(b"le chat\\n"))
    [('the cat', 'le chat')]
    """
    if source == target == "-":
        raise ValueError("only one of two files can be standard input")
    names, files = (place_name(source), place_name(target)), (_Lines(source), _Lines(target))
    shared = remembering(_same)
    pairs: list[tuple[str, str]] = []
    for pair in zip(*files, strict=False):
        if not any(map(is_blank, pair)):
            pairs.append(shared(pair))
        else:
            side = not is_blank(pair[0])
            _skip(Skipped(files[1].count, f"the {_SIDES[side]} is empty", names[side]), skipped)
    counts = [file.finish() for file in files]
    if counts[0] != counts[1]:
        few = int(counts[1] < counts[0])
        raise ValueError(
            f"{names[0]} has {counts[0]} lines, {names[1]} has {counts[1]}:"
            f" line {counts[few] + 1} is missing in {names[few]}"
        )
    return _some(pairs, names, counts[0])


class _Lines(Iterator[str]):
    """The lines of a file one by one, counted."""

    def __init__(self, path: Place) -> None:
        self.count = 0
        self._lines = (line for lines in read_lines(path) for line in lines)

    def __next__(self) -> str:
        line = next(self._lines)
        self.count += 1
        return line

    def finish(self) -> int:
        """Read on to the end, and return how many lines there are."""
        for _ in self:
            pass
        return self.count


def as_pairs(pairs: Iterable[Pair], *, skipped: _OnSkipped | None = None) -> list[Pair]:
    """Check sentence pairs that come from Python.

    Parameters
    ----------
    pairs : iterable of (source, target)
        Each side is text, or a sequence of tokens.
    skipped : callable, optional
        Called with a `Skipped` for each pair that is left out because a side of it is empty. Without it such a pair
        is an error.

    Returns
    -------
    list of (source, target)
        The same.

    Raises
    ------
    TypeError
        If one is no pair, or a side neither text nor tokens.
    ValueError
        If a side is empty, or there is no pair.

    Examples
    --------
    >>> as_pairs([("read", ["R", "IY1", "D"])])
    [('read', ['R', 'IY1', 'D'])]
    """
    kept: list[Pair] = []
    number = 0
    for number, pair in enumerate(pairs, 1):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise TypeError(f"pair {number} must be a source and a target. Got {pair!r:.60} instead.")
        empty = [
            _is_empty(side, f"pair {number}: the {what}") for what, side in zip(_SIDES, pair, strict=True)
        ]
        if any(empty):
            _skip(Skipped(number, f"the {_SIDES[empty.index(True)]} is empty"), skipped)
        else:
            kept.append((pair[0], pair[1]))
    if not kept:
        got = f"{number} with an empty side" if number else "none"
        raise ValueError(f"there must be sentence pairs. Got {got} instead.")
    return kept


def _is_empty(side: object, place: str) -> bool:
    if isinstance(side, str):
        return is_blank(side)
    if not isinstance(side, Sequence) or not all(isinstance(token, str) for token in side):
        raise TypeError(f"{place} must be text or a sequence of tokens. Got {side!r:.60} instead.")
    return is_blank("".join(side))


def as_sentences(name: str, side: Any) -> Sequence[Side]:
    """Return sentences, each a text or tokens; one text is not a sequence of texts.

    Parameters
    ----------
    name : str
        What they are called in an error.
    side : sequence of str, or of sequences of str
        The sentences, maybe; an array or a column of a table will do.

    Returns
    -------
    sequence of str, or of sequences of str
        The sentences.

    Raises
    ------
    TypeError
        If they are none.

    Examples
    --------
    >>> as_sentences("sources", "one")
    Traceback (most recent call last):
    TypeError: sources must be a sequence of sentences. Got str instead.
    >>> import numpy as np
    >>> as_sentences("sources", np.array(["one", "two"]))
    ['one', 'two']
    """
    if not isinstance(side, Sequence) and callable(as_list := getattr(side, "tolist", None)):
        side = as_list()  # what NumPy, pandas and others call it
    if isinstance(side, str) or not isinstance(side, Sequence):
        _check.fail(
            f"{name} must be a sequence of sentences. Got {type(side).__name__} instead.", kind=TypeError
        )
    for number, sentence in enumerate(side, 1):
        if not isinstance(sentence, str | Sequence):
            _check.fail(
                f"{name} must be texts or sequences of tokens. Sentence {number} is {type(sentence).__name__} instead.",
                kind=TypeError,
            )
    return side


def paired(sources: Sequence[Side], targets: Sequence[Side], name: str) -> list[Pair]:
    """Put two sides of sentences together.

    Parameters
    ----------
    sources, targets : sequences of str, or of sequences of str
        As many on both sides.
    name : str
        What the targets are called in an error.

    Returns
    -------
    list of (source, target)
        The pairs.

    Raises
    ------
    ValueError, TypeError
        If they don't pair up, or are no sentences.

    Examples
    --------
    >>> paired(["one"], ["un", "deux"], "targets")
    Traceback (most recent call last):
    ValueError: targets must be as many as sources. Got 2 for 1 instead.
    """
    sources, targets = as_sentences("sources", sources), as_sentences(name, targets)
    if len(sources) != len(targets):
        _check.fail(f"{name} must be as many as sources. Got {len(targets)} for {len(sources)} instead.")
    return list(zip(sources, targets, strict=True))


# ------------------------------------------------------------------------------------------------------ lines


def _same(pair: tuple[str, str]) -> tuple[str, str]:
    return pair


def remembering(make: Callable[[Key], T]) -> Callable[[Key], T]:
    """Return a function whose results are shared by equal arguments that come soon after each other.

    A compressed file of a few kilobytes may repeat a line a million times: all of them then take the memory of one.

    Parameters
    ----------
    make : callable
        Makes a result, which is never changed, of a text or a pair of texts.

    Returns
    -------
    callable
        The same function with a memory of bounded size.

    Examples
    --------
    >>> split = remembering(lambda line: tuple(line.split()))
    >>> split("a b") is split("a b")
    True
    """
    recent: dict[Key, T] = {}
    size = 0

    def made(key: Key) -> T:
        nonlocal size
        if key in recent:
            return recent[key]
        size += 1 + (len(key) if isinstance(key, str) else sum(map(len, key)))
        if size > _RECENT:
            recent.clear()
            size = 0
        return recent.setdefault(key, make(key))

    return made


def read_lines(path: Place) -> Iterator[list[str]]:
    """Read plain text, as many lines at a time as are there: from somebody who types, one by one.

    Parameters
    ----------
    path : str, path or binary file
        UTF-8; gzip is recognised by its content. "-" is standard input.

    Yields
    ------
    list of str
        Lines in order, without their ends.

    Raises
    ------
    ValueError
        If a line is not UTF-8, not text or too long, with its number, after all lines before it; if the file changes
        while it is read.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import io
    >>> list(read_lines(io.BytesIO(b"one\\ntwo")))
    [['one'], ['two']]
    """
    name = place_name(path)
    number, begun = 1, b""
    with _opened(path, name) as file:
        for block in _unpacked(_blocks(file), name):
            data = begun + block
            end = data.rfind(b"\n") + 1
            begun = data[end:]
            if end:
                yield from _decoded(data[:end], name, number)
                number += data.count(b"\n", 0, end)
            if len(begun) > LONGEST_LINE:
                break
        if begun:
            yield from _decoded(begun, name, number)


def _decoded(data: bytes, name: str, number: int) -> Iterator[list[str]]:
    """Yield whole lines as text, at once if all is well; those before one that is not well come before its error."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    # Only the first line can be too long: the others lie within one block, which is less.
    longest = data.index(b"\n") if b"\n" in data else len(data)
    if "\0" not in text and longest <= LONGEST_LINE:
        found = text.removeprefix("\ufeff" if number == 1 else "").removesuffix("\n").split("\n")
        yield [line.removesuffix("\r") for line in found] if "\r" in text else found
        return
    good: list[str] = []
    try:
        for i, line in enumerate(data.removesuffix(b"\n").split(b"\n"), number):
            good.append(decode_line(line, f"{name}, line {i}", first=i == 1))
    except ValueError:
        if good:
            yield good
        raise
    yield good


def decode_line(line: bytes, place: str, *, first: bool = False) -> str:
    """Return a line as text without its end, or say which byte is not UTF-8.

    Parameters
    ----------
    line : bytes
        One line.
    place : str
        Where it is, for the error.
    first : bool
        Whether a byte order mark may stand before it.

    Returns
    -------
    str
        The text.

    Raises
    ------
    ValueError
        If it is too long or not UTF-8, or has a zero byte.

    Examples
    --------
    >>> decode_line("chat\\r\\n".encode(), "line 1")
    'chat'
    """
    if len(line) > LONGEST_LINE:
        raise ValueError(f"{place}: longer than {LONGEST_LINE} bytes")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        seems = ", but UTF-16, it seems" if line.startswith((b"\xff\xfe", b"\xfe\xff")) else ""
        raise ValueError(
            f"{place}: not UTF-8{seems} (byte {error.start + 1} is 0x{line[error.start]:02x})"
        ) from None
    if "\0" in text:
        raise ValueError(f"{place}: not text (byte {line.index(0) + 1} is zero)")
    return text.removeprefix("\ufeff" if first else "").removesuffix("\n").removesuffix("\r")


# ------------------------------------------------------------------------------------------------------ bytes


def place_name(path: Place) -> str:
    """Return what a file is called in errors.

    Parameters
    ----------
    path : str, path or binary file
        Where it is; "-" is standard input.

    Returns
    -------
    str
        Its name.

    Examples
    --------
    >>> place_name("-"), place_name("pairs.tsv")
    ('standard input', 'pairs.tsv')
    """
    if isinstance(path, str | os.PathLike):
        return "standard input" if _is_standard(path) else os.fspath(path)
    name = getattr(path, "name", None)
    return name if isinstance(name, str) else "the stream"


def _is_standard(path: Place) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path) == "-"


def standard_input() -> BinaryIO:
    """Return standard input, which may be closed.

    Returns
    -------
    binary file
        For reading.

    Raises
    ------
    OSError
        If it is closed.

    Examples
    --------
    >>> import sys
    >>> standard_input() is sys.stdin.buffer
    True
    """
    if sys.stdin is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")
    return sys.stdin.buffer


@contextmanager
def _opened(path: Place, name: str) -> Iterator[BinaryIO]:
    """Open a file for reading, and look afterwards whether it is still the same."""
    if _is_standard(path):
        yield standard_input()
    elif isinstance(path, str | os.PathLike):
        with _files.reading(path, pipes=True) as file:
            before = _state(file)
            yield file
            if _state(file) != before:
                raise ValueError(f"{name} changed while it was read")
    elif isinstance(path, io.TextIOBase) or not hasattr(path, "read"):
        got = "a text file" if isinstance(path, io.TextIOBase) else type(path).__name__
        raise TypeError(f"{name} must be a path or a binary file. Got {got} instead.")
    else:
        yield path


def _state(file: BinaryIO) -> tuple[int, int] | None:
    found = os.fstat(file.fileno())
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield what is there, without waiting for more where a file can say it."""
    read = file.read1 if hasattr(file, "read1") else file.read
    return iter(lambda: read(_BLOCK), b"")


def _unpacked(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    first = next(blocks, b"")
    while len(first) < len(_GZIP) and (more := next(blocks, b"")):
        first += more
    whole = chain([first], blocks)
    return _inflated(whole, name) if first.startswith(_GZIP) else whole


def _inflated(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Unpack gzip, which may have several members and zeros after them, in small parts."""
    member = zlib.decompressobj(_GZIP_FORMAT)
    packed = unpacked = 0
    try:
        for block in blocks:
            packed += len(block)
            while block := block.lstrip(b"\0") if member.eof else block:
                member = zlib.decompressobj(_GZIP_FORMAT) if member.eof else member
                part = member.decompress(block, _BLOCK)
                block = member.unused_data if member.eof else member.unconsumed_tail
                unpacked += len(part)
                _check_ratio(packed - len(block), unpacked, name)
                yield part
    except zlib.error as error:
        raise ValueError(f"{name} is no whole gzip file: {error}") from None
    if not member.eof:
        raise ValueError(f"{name} is no whole gzip file: it is cut off")


def _check_ratio(packed: int, unpacked: int, name: str) -> None:
    """Refuse gzip that unpacks to far more than any text does."""
    if unpacked > _FREE + _RATIO * packed:
        raise ValueError(
            f"{name} unpacks to too much: its first {packed} bytes give {unpacked}, more than {_RATIO} times as many;"
            " unpack it with gunzip if you trust it"
        )
