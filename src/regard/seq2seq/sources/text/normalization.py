"""Text normalisation: control characters, line ends and Unicode normalisation forms.

References
----------
Unicode Standard Annex 15, "Unicode Normalization Forms"; its section "Stream-Safe Text Format" limits runs of marks.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, cast

from regard import _check
from regard.seq2seq.sources.text.vocabulary import JOIN

__all__ = ["NORMALIZATIONS", "Normalization", "as_normalization", "is_blank", "normalize", "normalize_tokens"]

Normalization = Literal["NFC", "NFKC", "NFD", "none"]

NORMALIZATIONS: tuple[Normalization, ...] = ("NFC", "NFKC", "NFD", "none")
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile("[\x01-\x1f\x7f-\x9f\u2028\u2029]")
_MARK = "\ufeff"  # a byte order mark; inside a text it has no meaning
# All but white space, control and format characters, other Default_Ignorable_Code_Point, and other blank characters.
_VISIBLE = re.compile(
    "[^\\s\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LONGEST_RUN = 30  # combining marks
_SEPARATOR = "\u034f"  # combining grapheme joiner: invisible, and marks are not reordered across it
# Every longer run contains this: 10 characters, each a halfwidth voicing mark or neither letter nor space.
_MAYBE_RUN = re.compile("(?:[\uff9e\uff9f]|[^\\w\\s\x00-\u02ff]){10}")


def as_normalization(value: object) -> Normalization:
    """Return the name of a normalisation form, validated."""
    _check.choice("normalization", value, NORMALIZATIONS)
    return cast(Normalization, value)


def is_blank(text: str) -> bool:
    """Return whether a text contains no visible character.

    White space and control characters are invisible, and so are Unicode's format characters (the zero width space,
    joiners, direction marks, ...), variation selectors, fillers and the blank Braille pattern. A combining mark is
    visible. A null character is not blank; it is an error in `normalize`.
    """
    return _VISIBLE.search(text) is None


def normalize(text: str, normalization: Normalization = "NFC") -> str:
    """Replace control characters and apply Unicode normalisation; the function is idempotent.

    Control characters (Unicode category Cc, which includes tabs and line ends) and line and paragraph separators are
    replaced by spaces; byte order marks are removed. They are common in web text and are no error. A null character or
    a lone surrogate is an error: it means that the input was not text.

    NFC composes a letter and its accent into one character, NFD is the reverse, and divides a Hangul syllable into its
    letters. NFKC also replaces compatibility characters: ligatures,
    full-width letters, superscripts, no-break spaces. Normalisation takes linear time: as in the stream-safe text
    format, a combining grapheme joiner is inserted after 30 consecutive combining marks (Unicode Standard Annex 15).
    """
    if not text.isprintable():  # a printable text has none of these
        if match := _NOT_TEXT.search(text):
            _check.fail(f"text must be Unicode text: character {match.start() + 1} is {match[0]!a}")
        text = _CONTROL.sub(" ", text).replace(_MARK, "")
    if normalization == "none" or text.isascii():
        return text
    return unicodedata.normalize(normalization, _stream_safe(text) if _MAYBE_RUN.search(text) else text)


def _stream_safe(text: str) -> str:
    """Limit runs of combining marks, whose reordering takes quadratic time (Annex 15, section 13.1)."""
    parts = []
    run = 0
    for character in text:
        leading, trailing = _marks(character)
        if run + leading > _LONGEST_RUN:
            parts.append(_SEPARATOR)
            run = 0
        run = run + leading if trailing is None else trailing
        parts.append(character)
    return "".join(parts)


@lru_cache(1 << 12)
def _marks(character: str) -> tuple[int, int | None]:
    """Return how many marks a decomposed character begins with, and ends with; None if it has nothing else."""
    are_marks = [unicodedata.combining(c) > 0 for c in unicodedata.normalize("NFKD", character)]
    if all(are_marks):
        return len(are_marks), None
    return are_marks.index(False), are_marks[::-1].index(False)


def normalize_tokens(tokens: Iterable[str], normalization: Normalization = "NFC") -> list[str]:
    """Normalise tokens, and check that none is empty or contains a space."""
    normalized = []
    for token in tokens:
        if not isinstance(token, str):
            _check.fail(f"a token must be a str. Got {token!r:.60} instead.", kind=TypeError)
        # JOIN itself is not normalised: NFKC would replace it by another character.
        clean = JOIN.join(normalize(part, normalization) for part in token.split(JOIN))
        if not clean or " " in clean:
            _check.fail(f"a token must be text without spaces. Got {token!r:.60} instead.")
        normalized.append(clean)
    return normalized
