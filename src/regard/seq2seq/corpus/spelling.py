"""Spelling families: words that are probably inflections of each other, by their first letters alone.

In alphabetical order, a word opens a family unless it belongs to an open one: it begins as the first word of that
family does, apart from the last three letters of the first word (four letters at least are the same), and has at most
four letters more than it. So ``walk, walked, walkers`` are a family, and ``carried, carry``. Neither case nor accents
count. The rule knows no language: it separates forms that differ in their first four letters (``mouse, mice``; ``cat,
cats``), and unites some words that are not related (``star, startle``).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

__all__ = ["families"]

_STEM, _ENDING, _MORE = 4, 3, 4  # letters


def families(words: Iterable[str]) -> list[list[str]]:
    """Return different words in their families, both in alphabetical order."""
    result: list[list[str]] = []
    stems: list[str] = []  # of open families, each the beginning of the next
    joined: list[tuple[int, list[str]]] = []  # their longest words, and their words
    for letters, word in sorted((_letters(word), word) for word in {*words}):
        while stems and not letters.startswith(stems[-1]):
            stems.pop()
            joined.pop()
        family = next((family for longest, family in joined if len(letters) <= longest), None)
        if family is None:
            result.append(family := [])
            if len(letters) >= _STEM:
                stems.append(letters[: max(len(letters) - _ENDING, _STEM)])
                joined.append((len(letters) + _MORE, family))
        family.append(word)
    return result


def _letters(word: str) -> str:
    """Return the letters of a word without case and accents."""
    text = word.casefold()
    if text.isascii():
        return text
    # Letter by letter, which takes linear time: only the order of accents differs, and they do not count.
    plain = (part for letter in text for part in unicodedata.normalize("NFKD", letter))
    return "".join(part for part in plain if not unicodedata.combining(part))
