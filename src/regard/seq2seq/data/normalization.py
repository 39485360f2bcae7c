"""One form for what looks the same: control characters, line ends, and Unicode's several spellings of a letter."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Literal, cast

from regard import _check
from regard.seq2seq.data.vocabulary import JOIN

__all__ = ["NORMALIZATIONS", "Normalization", "as_normalization", "tidy", "tidy_tokens"]

Normalization = Literal["NFC", "NFKC", "none"]

NORMALIZATIONS: tuple[Normalization, ...] = ("NFC", "NFKC", "none")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\x01-\x1f\x7f-\x9f\u2028\u2029]")
_MARK = "\ufeff"  # a byte order mark; inside a text it means nothing


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


def tidy(text: str, normalization: Normalization = "NFC") -> str:
    """Return a text in which only what a reader can see makes a difference.

    A control character (Unicode's category Cc: tabs and line ends too) or a line or paragraph separator becomes a
    space; a byte order mark is left out. Then letters get Unicode's normal form. Web pages are full of such
    characters, nobody sees them, and none of them is a reason to refuse a sentence. A zero character or half a
    surrogate pair is one: it says that bytes were taken for text which are none.

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
    >>> tidy("one\\ttwo\\x85")
    'one two '
    >>> len("e\\u0301"), len(tidy("e\\u0301")), len(tidy("e\\u0301", "none"))
    (2, 1, 2)
    >>> tidy("ﬁ", "NFKC")
    'fi'
    """
    if not text.isprintable():  # only then can there be any of these
        if found := _NOT_TEXT.search(text):
            raise ValueError(f"text must be Unicode text: character {found.start() + 1} is {found[0]!a}")
        text = _CONTROL.sub(" ", text).replace(_MARK, "")
    return text if normalization == "none" or text.isascii() else unicodedata.normalize(normalization, text)


def tidy_tokens(tokens: Iterable[str], normalization: Normalization = "NFC") -> list[str]:
    """Return tidy tokens: none is empty, none has a space in it.

    Parameters
    ----------
    tokens : iterable of str
        Cut by someone else.
    normalization : {"NFC", "NFKC", "none"}
        As for `tidy`.

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
    >>> tidy_tokens(["R", "IY1", "D"])
    ['R', 'IY1', 'D']
    """
    found = []
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"a token must be a str. Got {token!r:.60} instead.")
        # Not the mark itself: NFKC has another letter for it.
        clean = JOIN.join(tidy(part, normalization) for part in token.split(JOIN))
        if not clean or " " in clean:
            raise ValueError(f"a token must be text without spaces. Got {token!r:.60} instead.")
        found.append(clean)
    return found
