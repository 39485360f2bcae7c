"""Character classes for tokenizing and displaying text, and the cleaning of untrusted text before it is printed.

Messages are printed through `report`, names through `clean`.

`classes` replaces each character of a text by an ASCII letter for its class. A regular expression over these letters
matches Unicode categories, which Python's `re` does not support. The letters are ::

    w  letter, digit or underscore        m  combining mark, skin tone, tag       r  regional indicator (half a flag)
    d  ASCII digit (may begin a keycap)   z  zero width joiner                    o  pictograph or other symbol
    y  Hangul vowel or final consonant    j  other joiner, soft hyphen            p  punctuation, everything else
    h  hyphen-minus                       v  variation selector 16 (emoji)        n  no-break space
    q  apostrophe                         k  enclosing keycap                     s  other white space
    b  sign written before digits (Cf)    f  other format character (Cf)

References
----------
Unicode Standard Annex 29, "Unicode Text Segmentation", and Unicode Technical Standard 51, "Unicode Emoji".
"""

from __future__ import annotations

import re
import unicodedata

__all__: list[str] = []

MARKS = "mjzvk"  # classes that belong to the character before them
FOLLOWING = f"{MARKS}fy"  # and characters of width 0
OTHER_APOSTROPHE = str.maketrans("'\u2019", "\u2019'")  # keyboards have the first, texts in print the second
MOST_MARKS = 9  # on one letter: Tibetan has eight, the longest emoji nine

_NAMED = {
    "-": "h",
    "'": "q",
    "\u2019": "q",
    "\u00a0": "n",
    "\u202f": "n",
    "\u00ad": "j",  # soft hyphen
    "\u200b": "p",  # zero width space: it separates words, so no word contains it
    "\u200c": "j",  # zero width non-joiner
    "\u200d": "z",
    "\u2060": "j",  # word joiner
    "\u20e3": "k",
    "\ufe0f": "v",
    "_": "w",
}
_RANGES = (
    ("0", "9", "d"),
    ("\u0600", "\u0605", "b"),
    ("\u06dd", "\u06dd", "b"),
    ("\u070f", "\u070f", "b"),
    ("\u0890", "\u0891", "b"),
    ("\u08e2", "\u08e2", "b"),
    ("\U000110bd", "\U000110bd", "b"),
    ("\U000110cd", "\U000110cd", "b"),
    ("\u1160", "\u11ff", "y"),
    ("\ud7b0", "\ud7ff", "y"),
    ("\U0001f1e6", "\U0001f1ff", "r"),
    ("\U0001f3fb", "\U0001f3ff", "m"),
    ("\U000e0000", "\U000e007f", "m"),
)

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
FORMULA = re.compile(
    "'*[-=+@\t\r\n\uff1d\uff0b\uff0d\uff20]"
)  # ASCII, and the wide ones of Chinese keyboards
NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?", re.IGNORECASE)
_SURPLUS = re.compile(f"(?<=[{FOLLOWING}]{{{MOST_MARKS}}})[{FOLLOWING}]+")
_LONGEST_LINE, _MOST_LINES = 500, 10  # of a message
_HINT = "  hint: "  # how the last line of some errors begins


class _Classes(dict[int, str]):
    """The class of each code point, computed at its first use."""

    def __missing__(self, code: int) -> str:
        name = self[code] = _class(chr(code))
        return name


_CLASSES = _Classes()


def lowered(text: str) -> str:
    """Return a text in lower case; the dotted capital I of Turkish becomes i, without the mark that Unicode adds."""
    return text.replace("İ", "i").lower()


def classes(text: str) -> str:
    """Return the class of each character, as one string of the same length."""
    return text.translate(_CLASSES)


def is_mark(character: str) -> bool:
    """Return whether a character is a combining mark (Unicode's categories Mn, Mc, Me); False for an empty text."""
    return character != "" and unicodedata.category(character)[0] == "M"


def _class(character: str) -> str:
    if named := _NAMED.get(character):
        return named
    for first, last, name in _RANGES:
        if first <= character <= last:
            return name
    if character.isalnum():
        return "w"
    if character.isspace():
        return "s"
    category = unicodedata.category(character)
    if category == "So" or (category == "Sm" and character >= "\u2190"):  # arrows are part of some emoji
        return "o"
    return "m" if category[0] == "M" else "f" if category == "Cf" else "p"


def limit_marks(text: str) -> str:
    """Remove the marks of a letter after the ninth: drawing piled marks takes time and memory with their square.

    `text`: any text.
    """
    if text.isascii():
        return text
    kept, start = [], 0
    for surplus in _SURPLUS.finditer(classes(text)):
        kept.append(text[start : surplus.start()])
        start = surplus.end()
    return "".join([*kept, text[start:]])


def clean(text: str) -> str:
    """Replace characters that are unsafe on a terminal by dots.

    These are control characters (escapes, newlines), half surrogates, line and paragraph separators, characters that
    change the direction of writing, and tags, which carry hidden text. Joiners and variation selectors stay, since
    words contain them. A letter keeps nine marks.

    `text`: any text, untrusted or not.
    """
    return _UNSAFE.sub("·", limit_marks(text))


def as_cell(text: str) -> str:
    """Return a text as a cell of a table that no spreadsheet runs as a formula; numbers stay numbers."""
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def of_cell(cell: str) -> str:
    """Return the text of a cell that `as_cell` has made."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def shorten(text: str, most: int) -> str:
    """Remove the middle of a long text, since its beginning has the subject and its end the problem.

    `text`: any text; `most`: largest length of the result, at least 3.
    """
    if len(text) <= most:
        return text
    last = (most - 1) // 3
    return f"{text[: most - 1 - last]}…{text[len(text) - last :]}"


def report(text: str) -> str:
    """Return a message for printing: cleaned, and limited in lines and length.

    `text`: lines that may quote a file, its name or an argument.
    """
    return "\n".join(
        clean(shorten(line, _LONGEST_LINE)) for line in text.split("\n", _MOST_LINES)[:_MOST_LINES]
    )


def one_line(message: object) -> str:
    """Return the first line of an error, with the hint of a later one."""
    if isinstance(message, OSError) and message.strerror and message.filename is not None:
        return f"{message.filename}: {message.strerror}"
    first, *others = str(message).splitlines() or [type(message).__name__]
    hint = next((line.strip() for line in others if line.startswith(_HINT)), "")
    return f"{first.removesuffix('.')}; {hint}" if hint else first
