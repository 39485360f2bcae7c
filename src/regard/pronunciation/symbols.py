"""From the phones of a dictionary to the symbols of a voice."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from regard import _check
from regard.pronunciation.files import Path, text_lines
from regard.pronunciation.lexicon import Wrong

__all__ = ["PhoneMap", "read_phone_map", "read_symbols", "replaced", "spoken", "written_symbols"]

PhoneMap = Mapping[tuple[str, ...], tuple[str, ...]]


def read_symbols(path: Path, /) -> dict[str, int]:
    """Read the symbols of a voice and their numbers: a file tokens.txt.

    Parameters
    ----------
    path : str or path
        A file with a symbol and a number on each line. A line with a number only is the number of the blank.

    Returns
    -------
    dict
        The number of each symbol.

    Raises
    ------
    ValueError
        If a line has no number.

    Examples
    --------
    >>> with open("tokens.txt", "w") as file:
    ...     _ = file.write("_ 0\\na 1\\n  2\\n")
    >>> read_symbols("tokens.txt")
    {'_': 0, 'a': 1, ' ': 2}
    """
    symbols: dict[str, int] = {}
    for number, line in text_lines(path):
        *symbol, value = line.rsplit(maxsplit=1)
        if not value.isdecimal():
            _check.fail(f"{os.fspath(path)}, line {number}: a line is a symbol and its number")
        symbols.setdefault(symbol[0].strip(" ") or " " if symbol else " ", int(value))
    return symbols


def read_phone_map(path: Path, /) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Read by which symbols phones are to be replaced.

    Parameters
    ----------
    path : str or path
        A file with two columns between which a tab stands: one or more phones, and none or more symbols, each
        separated by blanks.

    Returns
    -------
    dict
        The symbols by which each sequence of phones is replaced.

    Raises
    ------
    ValueError
        If a line has not two columns, or two lines replace the same phones.

    Examples
    --------
    >>> with open("map.tsv", "w") as file:
    ...     _ = file.write("OW 1\\tˈ O\\nOW\\tO\\n")
    >>> read_phone_map("map.tsv")
    {('OW', '1'): ('ˈ', 'O'), ('OW',): ('O',)}
    """
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for number, line in text_lines(path):
        left, tab, right = unicodedata.normalize("NFC", line).partition("\t")
        phones = tuple(left.split())
        if not tab or not phones or "\t" in right.strip():
            _check.fail(f"{os.fspath(path)}, line {number}: a line is phones, a tab and symbols")
        if phones in found:
            _check.fail(f"{os.fspath(path)}, line {number}: {left} is replaced twice")
        found[phones] = tuple(right.split())
    return found


def replaced(phones: Sequence[str], phone_map: PhoneMap) -> tuple[str, ...]:
    """Return phones of which the map's sequences are replaced, from the left and the longest first."""
    longest = max(map(len, phone_map), default=1)
    out: list[str] = []
    start = 0
    while start < len(phones):
        for size in range(min(longest, len(phones) - start), 0, -1):
            if (part := tuple(phones[start : start + size])) in phone_map:
                out += phone_map[part]
                break
        else:
            size = 1
            out.append(phones[start])
        start += size
    return tuple(out)


def written_symbols(symbols: Iterable[str]) -> dict[str, str]:
    """Return how a voice writes each of its symbols, by the symbol itself and by its form NFC."""
    visible = [symbol for symbol in symbols if symbol.strip()]
    return {unicodedata.normalize("NFC", symbol): symbol for symbol in visible} | {s: s for s in visible}


def spoken(phones: Iterable[str], written: Mapping[str, str]) -> tuple[str, ...]:
    """Return the symbols for phones: a phone is a symbol, or a sequence of symbols; raise `Wrong` if it is neither."""
    return tuple(symbol for phone in phones for symbol in _split(phone, written))


def _split(phone: str, written: Mapping[str, str]) -> Sequence[str]:
    """Return the symbols of a phone in one of Unicode's two forms."""
    if phone in written:
        return (written[phone],)
    pieces = [_pieces(unicodedata.normalize(form, phone), written) for form in ("NFC", "NFD")]
    for found, left in pieces:
        if not left:
            return found
    missing = pieces[0][1][0]
    part = "" if missing == phone else f", in the phone {phone},"
    raise Wrong(f"{missing}{part} is no symbol of the voice")


def _pieces(text: str, written: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the longest symbols from the left, and what is left where none follows."""
    found: list[str] = []
    while text:
        size = next((n for n in range(len(text), 0, -1) if text[:n] in written), 0)
        if not size:
            break
        found.append(written[text[:size]])
        text = text[size:]
    return found, text
