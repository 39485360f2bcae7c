"""Stress marks of phones: kept, dropped, or phones of their own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, get_args

__all__ = ["STRESS", "Stress", "stressed"]

Stress = Literal["keep", "drop", "separate"]
STRESS: tuple[Stress, ...] = get_args(Stress)

# The vowels of ARPAbet, which a digit marks: 0 unstressed, 1 primary, 2 secondary.
_VOWEL = "(AA|AE|AH|AO|AW|AX|AXR|AY|EH|ER|EY|IH|IX|IY|OW|OY|UH|UW|UX)"
_DIGIT = re.compile(rf"{_VOWEL}([0-2])")
_BEFORE_DIGIT = re.compile(_VOWEL)
# IPA's two marks anywhere, and an apostrophe or a pitch accent (Swedish) in front of a phone.
_MARK = re.compile("[ˈˌ]|(?:^|(?<=^²))'(?=.)|^[¹²](?=.)")


def stressed(phones: Iterable[str], stress: Stress) -> tuple[str, ...]:
    """Return phones with their stress marks kept, dropped or separate, in the order in which they are written."""
    if stress == "keep":
        return tuple(phones)
    parts = [part for phone in phones for part in _parts(phone)]
    return tuple(text for text, mark in _with_digits(parts) if stress == "separate" or not mark)


def _parts(phone: str) -> Iterator[tuple[str, bool]]:
    """Yield a phone's marks and the rest, in their order, each with whether it is a mark."""
    if match := _DIGIT.fullmatch(phone):
        yield match[1], False
        yield match[2], True
        return
    end = 0
    for match in _MARK.finditer(phone):
        yield phone[end : match.start()], False
        yield match[0], True
        end = match.end()
    yield phone[end:], False


def _with_digits(parts: list[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    """Yield the parts that are not empty; a digit after a vowel of ARPAbet is a mark, too."""
    left = [part for part in parts if part[0]]
    for (before, _), (text, mark) in pairwise([("", False), *left]):
        yield text, mark or (text in {"0", "1", "2"} and _BEFORE_DIGIT.fullmatch(before) is not None)
