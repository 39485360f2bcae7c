"""Pronunciations written in IPA without blanks between the phones."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, get_args

from regard_lexicon.lexicon import InvalidEntry, Variant, limited

__all__ = ["PHONES", "Phones", "cut", "segments"]

Phones = Literal["blanks", "ipa"]
PHONES: tuple[Phones, ...] = get_args(Phones)
_STRESS = "ˈˌ"
_JOINING = f"{_STRESS}\u0361\u035c"  # stress marks and ties belong to the letter after them, too
_NO_PHONE = re.compile(
    r"[][/\\|;*(){}⟨⟩A-Z0-9]"
)  # of other alphabets, such as ARPAbet, and of optional sounds


def cut(variant: Variant) -> Iterator[Variant]:
    """Yield the pronunciations of a text such as ``/fis/, /fil/``, without slashes or brackets, cut into phones."""
    for text in re.split(", *", " ".join(variant.phones)):
        bare = text[1:-1] if text[:1] + text[-1:] in ("//", "[]") else text
        if inner := _NO_PHONE.search(bare):
            raise InvalidEntry(f"{inner[0]} is no phone of IPA")
        yield variant._replace(phones=tuple(phone for part in bare.split(" ") for phone in segments(part)))


def segments(text: str) -> tuple[str, ...]:
    """Return the phones of a text in IPA: each is a letter with its marks and its length.

    A stress mark belongs to the letter after it, another modifier to the letter before it; a tie joins two letters.
    """
    text = unicodedata.normalize("NFD", limited("a pronunciation in IPA", text))
    starts = [
        place for place, (before, character) in enumerate(pairwise(f" {text}")) if _begins(before, character)
    ]
    return tuple(text[start:end] for start, end in pairwise([*starts, len(text)]))


def _begins(before: str, character: str) -> bool:
    """Return whether a character begins a phone; a blank stands before the first one."""
    modifies = character not in _STRESS and unicodedata.category(character) in ("Mn", "Lm", "Sk")
    return before == " " or not (before in _JOINING or modifies)
