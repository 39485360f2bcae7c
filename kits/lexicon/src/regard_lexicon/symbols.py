"""From the phones of a dictionary to the symbols of a voice."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from regard import _check
from regard_lexicon.arpabet import MAPS, phone_map
from regard_lexicon.files import Path, text_lines
from regard_lexicon.lexicon import MOST_IN_PHONE, InvalidEntry, check_characters, checked_phones
from regard_lexicon.lines import fields

__all__ = ["PhoneMap", "Replacements", "Symbols", "read_phone_map", "read_symbols"]

PhoneMap = Mapping[tuple[str, ...], tuple[str, ...]]

_NUMBER = re.compile("[0-9]{1,9}")
_MOST = 100  # phones or symbols on a side of a phone map


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
        If a line has no number, or a symbol that no dictionary can have.

    Examples
    --------
    >>> with open("tokens.txt", "w") as file:
    ...     _ = file.write("_ 0\\na 1\\n  2\\n")
    >>> read_symbols("tokens.txt")
    {'_': 0, 'a': 1, ' ': 2}
    """
    symbols: dict[str, int] = {}
    for number, line in text_lines(path):
        given = line.strip(" \t")
        value = given.replace("\t", " ").rpartition(" ")[2]  # no other white space separates
        with _located(path, number):
            if not _NUMBER.fullmatch(value):
                raise InvalidEntry("a line is a symbol and its number, which has at most nine digits")
            text = given.removesuffix(value).strip(" \t") or " "
            check_characters("the symbol", text, MOST_IN_PHONE)
        symbols.setdefault(text, int(value))
    return symbols


def read_phone_map(path: Path, /) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Read by which symbols phones are to be replaced.

    Parameters
    ----------
    path : str or path
        A file with two columns between which a tab stands: one or more phones, and none or more symbols, each
        separated by blanks. Or ``"arpabet-ipa"``, ``"arpabet-misaki"`` or ``"arpabet-xsampa"``, for CMUdict's phones.

    Returns
    -------
    dict
        The symbols by which each sequence of phones is replaced.

    Raises
    ------
    ValueError
        If a line has not two columns, if two lines replace the same phones, or if a phone or a symbol is none that a
        dictionary can have.

    Examples
    --------
    >>> with open("map.tsv", "w") as file:
    ...     _ = file.write("OW 1\\tˈ O\\nOW\\tO\\n")
    >>> read_phone_map("map.tsv")
    {('OW', '1'): ('ˈ', 'O'), ('OW',): ('O',)}
    >>> read_phone_map("arpabet-misaki")[("OW1",)]
    ('ˈ', 'O')
    """
    if (name := os.fspath(path)) in MAPS and not os.path.lexists(name):
        return dict(phone_map(name))
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for number, line in text_lines(path):
        left, tab, right = line.partition("\t")
        with _located(path, number):
            if not tab or not left.strip(" ") or "\t" in right.strip(" \t"):
                raise InvalidEntry("a line is phones, a tab and symbols")
            phones, symbols = _side(left), _side(right)
            if phones in found:
                raise InvalidEntry(f"{' '.join(phones)} is replaced twice")
        found[phones] = symbols
    return found


@contextmanager
def _located(path: Path, number: int) -> Iterator[None]:
    """Let an error say in which line of a file something is wrong."""
    try:
        yield
    except InvalidEntry as error:
        _check.fail(f"{os.fspath(path)}, line {number}: {error}")


def _side(text: str) -> tuple[str, ...]:
    """Return the phones or symbols of one side of a phone map, which may have none."""
    given = fields(text)
    if len(given) > _MOST:
        raise InvalidEntry(f"at most {_MOST} phones or symbols stand on a side, not {len(given):,}")
    return checked_phones(given) if given else ()


class Replacements:
    """A phone map that replaces sequences of phones, from the left and the longest first."""

    def __init__(self, phone_map: PhoneMap) -> None:
        self.map = phone_map
        self.lengths = sorted({*map(len, phone_map)}, reverse=True)

    def __call__(self, phones: Sequence[str]) -> tuple[str, ...]:
        """Return phones of which the map's sequences are replaced."""
        out: list[str] = []
        start = 0
        while start < len(phones):
            part = self.part(phones, start)
            out += self.map.get(part, part)
            start += len(part)
        return tuple(out)

    def part(self, phones: Sequence[str], start: int) -> tuple[str, ...]:
        """Return the longest sequence of the map that begins at a phone, or that phone alone."""
        parts = (tuple(phones[start : start + length]) for length in self.lengths)
        return next((part for part in parts if part and part in self.map), (phones[start],))


class Symbols:
    """The symbols of a voice, in which phones are spelled."""

    def __init__(self, symbols: Iterable[str]) -> None:
        visible = [symbol for symbol in symbols if symbol.strip()]
        # How the voice writes each symbol, by the symbol itself and by its form NFC.
        self.written = {unicodedata.normalize("NFC", s): s for s in visible} | {s: s for s in visible}
        self.lengths = sorted({*map(len, self.written)}, reverse=True)

    def spell(self, phones: Iterable[str]) -> tuple[str, ...]:
        """Return the symbols for phones, each a symbol or a sequence of them; raise `InvalidEntry` for another."""
        return tuple(symbol for phone in phones for symbol in self.split(phone))

    def split(self, phone: str) -> Sequence[str]:
        """Return the symbols of a phone in one of Unicode's two forms."""
        if phone in self.written:
            return (self.written[phone],)
        pieces = [self.pieces(unicodedata.normalize(form, phone)) for form in ("NFC", "NFD")]
        for found, left in pieces:
            if not left:
                return found
        missing = pieces[0][1][0]
        part = "" if missing == phone else f", in the phone {phone},"
        raise InvalidEntry(f"{missing}{part} is no symbol of the voice")

    def pieces(self, text: str) -> tuple[list[str], str]:
        """Return the longest symbols from the left, and what is left where none follows."""
        found: list[str] = []
        start = 0
        while start < len(text):
            symbols = (text[start : start + length] for length in self.lengths)
            symbol = next((symbol for symbol in symbols if symbol in self.written), None)
            if symbol is None:
                break
            found.append(self.written[symbol])
            start += len(symbol)
        return found, text[start:]
