"""The encoding of text files: UTF-8, what a byte order mark says, or what the user of a verb has named."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain

from regard import _check

__all__ = ["assumed", "known_encoding", "utf_8"]

_MARKS = {  # the longer ones first: one begins with another
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8",
}
_LONGEST = max(map(len, _MARKS))
_UTF_8 = "utf-8"
_WITHOUT_MARK = "without a byte order mark: utf-16-le or utf-16-be"
_assumed: ContextVar[str] = ContextVar("encoding", default=_UTF_8)


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
    blocks = iter(blocks)
    first = next(blocks, b"")
    while (
        len(first) < _LONGEST
        and any(mark.startswith(first) for mark in _MARKS)
        and (more := next(blocks, b""))
    ):
        first += more
    blocks = chain([first], blocks)
    encoding = next((one for mark, one in _MARKS.items() if first.startswith(mark)), _assumed.get())
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
