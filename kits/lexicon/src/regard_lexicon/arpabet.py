"""Phone maps from ARPAbet, as CMUdict has it: to IPA, to the characters of misaki, and to X-SAMPA.

Vowels have a digit of stress: 0 unstressed, 1 primary, 2 secondary; it may be a phone of its own, and a vowel without
one is unstressed. The mark of stress stands in front of the vowel, in the same symbol; for misaki, where a character is
a phone, it is one itself.

References
----------
The CMU Pronouncing Dictionary; misaki, https://github.com/hexgrad/misaki; Wells 1995, "Computer-coding the IPA: a
proposed extension of SAMPA".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

__all__ = ["MAPS", "phone_map"]

MAPS = ("arpabet-ipa", "arpabet-misaki", "arpabet-xsampa")  # the columns of the tables

_CONSONANTS = r"""
B b b b|CH tʃ ʧ tS|D d d d|DH ð ð D|F f f f|G ɡ ɡ g|HH h h h|JH dʒ ʤ dZ|K k k k|L l l l|M m m m|N n n n
NG ŋ ŋ N|P p p p|R ɹ ɹ r\ |S s s s|SH ʃ ʃ S|T t t t|TH θ θ T|V v v v|W w w w|Y j j j|Z z z z|ZH ʒ ʒ Z
"""
_VOWELS = """
AA ɑ ɑ A|AE æ æ {|AH ʌ ʌ V|AO ɔ ɔ O|AW aʊ W aU|AY aɪ I aI|EH ɛ ɛ E|ER ɝ ɜɹ 3`|EY eɪ A eI
IH ɪ ɪ I|IY i i i|OW oʊ O oU|OY ɔɪ Y OI|UH ʊ ʊ U|UW u u u
"""
_UNSTRESSED = "AH ə ə @|ER ɚ əɹ @`"  # where it is another symbol
_MARKS = {"1": ("ˈ", "ˈ", '"'), "2": ("ˌ", "ˌ", "%")}


@cache
def phone_map(name: str) -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Return one of the `MAPS`, as `regard_lexicon.read_phone_map` returns that of a file."""
    return {phones: tuple(text) if name == MAPS[1] else (text,) for phones, text in _rows(MAPS.index(name))}


def _rows(column: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the sequences of phones, and what they become in a column."""
    for phone, texts in _table(_CONSONANTS).items():
        yield (phone,), texts[column]
    vowels = _table(_VOWELS)
    unstressed = vowels | _table(_UNSTRESSED)
    for vowel in vowels:
        yield (vowel,), unstressed[vowel][column]
        for digit in "012":
            marked = _MARKS[digit][column] + vowels[vowel][column] if digit in _MARKS else ""
            for phones in ((f"{vowel}{digit}",), (vowel, digit)):
                yield phones, marked or unstressed[vowel][column]


def _table(text: str) -> dict[str, list[str]]:
    """Return the columns of each phone."""
    rows = (row.split() for row in text.strip().replace("|", "\n").splitlines())
    return {phone: columns for phone, *columns in rows}
