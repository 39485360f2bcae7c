"""One form for what looks the same: control characters, line ends, and Unicode's several spellings of a letter.

References
----------
Unicode Standard Annex 15, "Unicode Normalization Forms"; its section "Stream-Safe Text Format" limits runs of marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, cast

from regard import _check
from regard.seq2seq.data.vocabulary import JOIN

__all__ = ["NORMALIZATIONS", "Normalization", "as_normalization", "is_blank", "normalize", "normalize_tokens"]

Normalization = Literal["NFC", "NFKC", "none"]

NORMALIZATIONS: tuple[Normalization, ...] = ("NFC", "NFKC", "none")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\x01-\x1f\x7f-\x9f\u2028\u2029]")
_MARK = "\ufeff"  # a byte order mark; inside a text it means nothing
# White space, control and format characters, and what else Unicode's Default_Ignorable_Code_Point says or has no ink.
_VISIBLE = re.compile(
    "[^\\s\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LONGEST_RUN = 30  # marks
_SEPARATOR = "\u034f"  # combining grapheme joiner: invisible, and marks don't move across it
# What a run of more marks needs to have: characters that are no letters, or a halfwidth voicing mark.
_MAYBE_RUN = re.compile("(?:[\uff9e\uff9f]|[^\\w\\s\x00-\u02ff]){10}")


def as_normalization(value: object) -> Normalization:
    """Return the name of a normalisation, or say which ones there are.

    Parameters
    ----------
    value : object
        What should be one.

    Returns
    -------
    str
        The same.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> as_normalization("NFC")
    'NFC'
    """
    _check.choice("normalization", value, NORMALIZATIONS)
    return cast(Normalization, value)


def is_blank(text: str) -> bool:
    """Say whether a text has nothing visible: it is empty, whoever asks.

    White space and control characters are invisible, and so are Unicode's format characters (the zero width space,
    joiners, direction marks, ...), variation selectors, fillers and the blank Braille pattern. A combining mark is
    visible. A zero character is an error to `normalize`, and not blank.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    bool
        True for an empty text, too.

    Examples
    --------
    >>> is_blank("\\u200b \\u00ad"), is_blank("a"), is_blank("\\u0301")
    (True, False, False)
    """
    return _VISIBLE.search(text) is None


def normalize(text: str, normalization: Normalization = "NFC") -> str:
    """Return a text in which only what a reader can see makes a difference.

    A control character (Unicode's category Cc: tabs and line ends too) or a line or paragraph separator becomes a
    space; a byte order mark is left out. Then letters get Unicode's normal form. Web pages are full of such
    characters, nobody sees them, and none of them is a reason to refuse a sentence. A zero character or half a
    surrogate pair is one: it says that bytes were taken for text which are none.

    Normalising takes time proportional to the text's length: as in the stream-safe text format, a combining grapheme
    joiner is put behind 30 combining marks in a row.

    Parameters
    ----------
    text : str
        Any text.
    normalization : {"NFC", "NFKC", "none"}
        NFC makes one letter of a letter and its accent. NFKC also forgets forms: ligatures, wide letters, superscripts,
        no-break spaces. With "none" letters stay as they are.

    Returns
    -------
    str
        Tidy text; tidying it again changes nothing.

    Raises
    ------
    ValueError
        If there is a zero character or half a surrogate pair.

    References
    ----------
    Unicode Standard Annex 15, "Unicode Normalization Forms".

    Examples
    --------
    >>> normalize("one\\ttwo\\x85")
    'one two '
    >>> len("e\\u0301"), len(normalize("e\\u0301")), len(normalize("e\\u0301", "none"))
    (2, 1, 2)
    >>> normalize("ﬁ", "NFKC")
    'fi'
    """
    if not text.isprintable():  # only then can there be any of these
        if found := _NOT_TEXT.search(text):
            raise ValueError(f"text must be Unicode text: character {found.start() + 1} is {found[0]!a}")
        text = _CONTROL.sub(" ", text).replace(_MARK, "")
    if normalization == "none" or text.isascii():
        return text
    return unicodedata.normalize(normalization, _stream_safe(text) if _MAYBE_RUN.search(text) else text)


def _stream_safe(text: str) -> str:
    """Limit runs of non-starters, which normalisation would sort in quadratic time (Annex 15, section 13.1)."""
    parts = []
    run = 0
    for character in text:
        decomposed = [unicodedata.combining(c) > 0 for c in unicodedata.normalize("NFKD", character)]
        starts = [i for i, is_mark in enumerate(decomposed) if not is_mark]
        leading = starts[0] if starts else len(decomposed)
        if run + leading > _LONGEST_RUN:
            parts.append(_SEPARATOR)
            run = 0
        run = len(decomposed) - 1 - starts[-1] if starts else run + leading
        parts.append(character)
    return "".join(parts)


def normalize_tokens(tokens: Iterable[str], normalization: Normalization = "NFC") -> list[str]:
    """Return tidy tokens: none is empty, none has a space in it.

    Parameters
    ----------
    tokens : iterable of str
        Cut by someone else.
    normalization : {"NFC", "NFKC", "none"}
        As for `normalize`.

    Returns
    -------
    list of str
        As many.

    Raises
    ------
    TypeError
        If one is not a str.
    ValueError
        If one is empty or has a space in it: put together with spaces, the tokens could not be told apart.

    Examples
    --------
    >>> normalize_tokens(["R", "IY1", "D"])
    ['R', 'IY1', 'D']
    """
    found = []
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"a token must be a str. Got {token!r:.60} instead.")
        # Not the mark itself: NFKC has another letter for it.
        clean = JOIN.join(normalize(part, normalization) for part in token.split(JOIN))
        if not clean or " " in clean:
            raise ValueError(f"a token must be text without spaces. Got {token!r:.60} instead.")
        found.append(clean)
    return found
