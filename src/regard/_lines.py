"""Lines of untrusted text: of files, packed with gzip or not, and of standard input, each with its number in errors.

Lines end with LF or CRLF; a file that has CR only is an error. Text is in UTF-8, in what a byte order mark says, or in
the encoding that the user of a verb has named. A line that cannot be read raises an error with its number, or is kept
apart. A file that changes while it is read is an error, too.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import BinaryIO, TypeVar

from regard import _check, _files

__all__: list[str] = []

Readable = str | os.PathLike[str] | BinaryIO
T = TypeVar("T")
Key = TypeVar("Key", str, tuple[str, str])

LONGEST_LINE = 1 << 20  # bytes; limits memory for a file without line ends
GZIP = b"\x1f\x8b"
_BLOCK = 1 << 18  # bytes per read
_GZIP_FORMAT = 31  # zlib's wbits for gzip's header and checksum
_FREE = 1 << 20  # bytes that any file may unpack to
_RECENT = 1 << 20  # cache size in characters; gzip's window is 32 KiB
_MARKS = {  # the longer ones first: one begins with another
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8",
}
_UTF_8 = "utf-8"
_WITHOUT_MARK = "without a byte order mark: utf-16-le or utf-16-be"
_OTHER_ENCODING = "--encoding of the command names another, such as windows-1252"
_TRUSTED = "unpack it with gunzip if you trust it"
_assumed: ContextVar[str] = ContextVar("encoding", default=_UTF_8)


@contextmanager
def file_lines(
    path: Readable, errors: dict[int, str] | None = None, otherwise: str = ""
) -> Iterator[Iterator[str]]:
    """Yield the lines of a file as `read_lines` reads them; the file is closed at the end, after an error, too."""
    with closing(read_lines(path, errors, otherwise)) as batches:
        yield chain.from_iterable(batches)


def read_lines(
    path: Readable, errors: dict[int, str] | None = None, otherwise: str = ""
) -> Generator[list[str], None, None]:
    """Read text, gzipped or not, in batches of the lines available: from a terminal, one by one.

    With `errors`, the error of a line that is not UTF-8, contains a null byte or is too long is kept there by its
    number, and an empty line takes its place; by default such a line raises it. `otherwise`: the encoding of lines
    that are not UTF-8.
    """
    name = display_name(path)
    number, begun = 1, b""
    with _opened(path, name) as file:
        for block in utf_8(_unpacked(_blocks(file), name), name):
            data = begun + block
            end = data.rfind(b"\n") + 1
            begun = data[end:]
            if end:
                yield from _decoded(data[:end], name, number, errors, otherwise)
                number += data.count(b"\n", 0, end)
            if len(begun) > LONGEST_LINE:
                if errors is None:
                    break
                begun = begun[: LONGEST_LINE + 1]  # still too long
        if number == 1 and b"\r" in begun[:-1]:
            _check.fail(f"{name}: lines must end with LF or CRLF. Got CR only instead.")
        if begun:
            yield from _decoded(begun, name, number, errors, otherwise)


def _decoded(
    data: bytes, name: str, number: int, errors: dict[int, str] | None, otherwise: str
) -> Iterator[list[str]]:
    """Yield decoded lines in one batch; before an error, yield the valid lines that precede it."""
    try:
        text = data.decode(_UTF_8)
    except UnicodeDecodeError:
        text = "\0"
    # Only the first line can be too long: the others lie within one block, which is smaller than the limit.
    longest = data.index(b"\n") if b"\n" in data else len(data)
    if "\0" not in text and longest <= LONGEST_LINE:
        lines = text.removeprefix("\ufeff" if number == 1 else "").removesuffix("\n").split("\n")
        yield [line.removesuffix("\r") for line in lines] if "\r" in text else lines
        return
    good: list[str] = []
    for i, line in enumerate(data.removesuffix(b"\n").split(b"\n"), number):
        try:
            good.append(text_line(line, f"{name}, line {i}", first=i == 1, otherwise=otherwise))
        except ValueError as error:
            if errors is None:
                if good:
                    yield good
                raise
            errors[i] = str(error)
            good.append("")
    yield good


def text_line(line: bytes, location: str, *, first: bool = False, otherwise: str = "") -> str:
    """Decode a line from UTF-8, or else from another encoding, without its end and a byte order mark of the first."""
    check_length(line, location)
    try:
        text = line.decode(_UTF_8)
    except UnicodeDecodeError as error:
        if not otherwise:
            rule = f"{location}: not UTF-8 (byte {error.start + 1} is 0x{line[error.start]:02x})"
            _check.fail(rule, hint=_OTHER_ENCODING)
        text = line.decode(otherwise)
    if "\0" in text:
        rule = f"{location}: not text (byte {line.index(0) + 1} is zero)"
        _check.fail(rule, hint="if it is UTF-16: --encoding utf-16-le, or utf-16-be")
    return text.removeprefix("\ufeff" if first else "").removesuffix("\n").removesuffix("\r")


def check_length(line: bytes, location: str) -> None:
    """Raise for a line of more bytes than a file of lines has, which limits the memory it takes."""
    if len(line) > LONGEST_LINE:
        _check.fail(f"{location}: longer than {LONGEST_LINE} bytes")


def memoized(function: Callable[[Key], T]) -> Callable[[Key], T]:
    """Memoize a function of a string or a pair of strings with a bounded cache; its result must not be modified.

    A compressed file of a few kilobytes may repeat a line a million times: all copies then share one object.
    """
    recent: dict[Key, T] = {}
    size = 0

    def cached(key: Key) -> T:
        nonlocal size
        if key in recent:
            return recent[key]
        size += 1 + (len(key) if isinstance(key, str) else sum(map(len, key)))
        if size > _RECENT:
            recent.clear()
            size = 0
        return recent.setdefault(key, function(key))

    return cached


# --------------------------------------------------------------------------------------------------- encoding


def known_encoding(name: str) -> str:
    """Return the name of an encoding of text; raise if Python does not know it."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=name)
    except (LookupError, ValueError):
        _check.fail(f"must be an encoding of text. Got {name!r:.60} instead.", hint="windows-1252, utf-16-le")
    return codecs.lookup(name).name


@contextmanager
def assumed(name: str | None) -> Iterator[None]:
    """Read text without a byte order mark in this encoding in the ``with`` block; None stands for UTF-8."""
    token = _assumed.set(name or _UTF_8)
    try:
        yield
    finally:
        _assumed.reset(token)


def utf_8(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the blocks of a text file in UTF-8. What is in UTF-8, and what should be, is left as it is."""
    first, blocks = _begun(blocks, _MARKS)
    named = (encoding for mark, encoding in _MARKS.items() if first.startswith(mark))
    encoding = next(named, _assumed.get())
    return blocks if encoding == _UTF_8 else _converted(blocks, encoding, name)


def _converted(blocks: Iterable[bytes], encoding: str, name: str) -> Iterator[bytes]:
    """Yield text of another encoding in UTF-8; raise, with the line, where it is not in that encoding."""
    decoder, lines = codecs.getincrementaldecoder(encoding)(), 1
    for block, final in chain(((block, False) for block in blocks), [(b"", True)]):
        try:
            text = decoder.decode(block, final)
        except UnicodeDecodeError as error:
            lines += error.object[: error.start].count(b"\n")
            _check.fail(
                f"{name}, line {lines}: not {encoding} ({error.reason}: 0x{error.object[error.start]:02x})",
                hint=_WITHOUT_MARK * ("BOM" in error.reason),  # from Python 3.14 on
            )
        except UnicodeError as error:
            _check.fail(f"{name}: not {encoding} ({error})", hint=_WITHOUT_MARK)
        lines += text.count("\n")
        yield text.encode(_UTF_8, "surrogatepass")


# ------------------------------------------------------------------------------------------------------ bytes


def display_name(path: Readable) -> str:
    """Return the name of a file for error messages."""
    if isinstance(path, str | os.PathLike):
        return "standard input" if _is_standard(path) else os.fspath(path)
    name = getattr(path, "name", None)
    return name if isinstance(name, str) else "the stream"


def _is_standard(path: Readable) -> bool:
    return isinstance(path, str | os.PathLike) and os.fspath(path) == "-"


@contextmanager
def _opened(path: Readable, name: str) -> Iterator[BinaryIO]:
    """Open a file for reading, and check afterwards that it has not changed."""
    if _is_standard(path):
        if sys.stdin is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")
        yield sys.stdin.buffer
    elif isinstance(path, str | os.PathLike):
        with _files.reading(path, pipes=True) as file:
            before = _state(file)
            yield file
            if _state(file) != before:
                _check.fail(f"{name} changed while it was read")
    elif isinstance(path, io.TextIOBase) or not hasattr(path, "read"):
        got = "a text file" if isinstance(path, io.TextIOBase) else type(path).__name__
        _check.fail(f"{name} must be a path or a binary file. Got {got} instead.", kind=TypeError)
    else:
        yield path


def _state(file: BinaryIO) -> tuple[int, int] | None:
    status = os.fstat(file.fileno())
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield data as it becomes available, without waiting for a full block if the file supports `read1`."""
    read = file.read1 if hasattr(file, "read1") else file.read
    return iter(lambda: read(_BLOCK), b"")


def _unpacked(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    first, blocks = _begun(blocks, [GZIP])
    return _inflated(blocks, name) if first.startswith(GZIP) else blocks


def _begun(blocks: Iterable[bytes], marks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes, as many as show which mark they begin with, and all blocks."""
    blocks = iter(blocks)
    first = next(blocks, b"")
    while any(len(first) < len(mark) and mark.startswith(first) for mark in marks) and (
        more := next(blocks, b"")
    ):
        first += more
    return first, chain([first], blocks)


def _inflated(blocks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Decompress gzip incrementally, with several members and zero padding allowed."""
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
                _files.check_unpacked(name, unpacked, packed - len(block), free=_FREE, hint=_TRUSTED)
                yield part
    except zlib.error as error:
        _check.fail(f"{name} is not a complete gzip file: {error}")
    if not member.eof:
        _check.fail(f"{name} is not a complete gzip file: it is cut off")
