"""Lexicons of sherpa-onnx's voices: VITS, Kokoro, Kitten, Matcha.

What its readers find was measured with version 2.0.1. A lexicon has one entry a word, no comments, no probabilities.

VITS and Matcha cut a text at every character but ASCII's letters and digits, the apostrophe, and 22 letters with
diacritics; any other letter is a word of its own. VITS folds the case of ASCII only, the others that of all letters.
Kokoro and Kitten cut at blanks and punctuation, and between Chinese, Japanese or Korean writing and other.

References
----------
sherpa-onnx, https://github.com/k2-fsa/sherpa-onnx
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from regard.pronunciation.lexicon import Lexicon, Variant
from regard.pronunciation.lines import Files, plain_lines

__all__ = [
    "latin_refusal",
    "latin_spelling",
    "unicode_refusal",
    "unicode_spelling",
    "write",
    "write_both",
    "write_vits",
]

_LATIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789'àáâäçèéêëíîïñóôöùúûüß")
_PUNCTUATION = "!,.:;?…"
_CJK = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\ua840-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff65-\uffdc\U00020000-\U0002ffff]"
)
_ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def unicode_spelling(word: str) -> str:
    """Return a word in lower case."""
    return word.lower()


def latin_spelling(word: str) -> str:
    """Return a word in lower case with the apostrophe that the readers know."""
    return word.lower().replace("\u2019", "'")


def latin_refusal(word: str, variant: Variant) -> str:
    """Return where the readers of VITS and Matcha cut a word, or an empty text."""
    if len(word) == 1 and word.isalpha():
        return ""
    cut = next((character for character in word if character not in _LATIN), "")
    return _cut(cut) if cut else _no_letter(word)


def unicode_refusal(word: str, variant: Variant) -> str:
    """Return where the readers of Kokoro and Kitten cut a word, or an empty text."""
    cut = next((character for character in word if character in _PUNCTUATION or character == " "), "")
    if cut:
        return _cut(cut)
    if word.startswith("#"):
        return "the reader takes a word that begins with # for a comment"
    if len({_CJK.match(character) is None for character in word}) > 1:
        return "the reader cuts a word between Chinese, Japanese or Korean writing and other"
    return _no_letter(word)


def _cut(character: str) -> str:
    return f"the reader cuts a word at {'a blank' if character == ' ' else character}"


def _no_letter(word: str) -> str:
    return "" if any(map(str.isalnum, word)) else "the word has no letter and no digit"


def write(lexicon: Lexicon) -> Files:
    """Write the first variant of each word."""
    return _written(lexicon, lambda word: ())


def write_both(lexicon: Lexicon) -> Files:
    """Write a word with an apostrophe with both signs for it."""
    return _written(lexicon, _apostrophes)


def write_vits(lexicon: Lexicon) -> Files:
    """Write also the capitals that the reader does not fold: the first letter's, and those of all letters."""
    return _written(lexicon, _capitals)


def _written(lexicon: Lexicon, others: Callable[[str], Iterable[str]]) -> Files:
    """Return the lines of words and of their other spellings, where these are not words themselves."""
    return plain_lines(
        f"{spelling} {' '.join(variants[0].phones)}"
        for word, variants in lexicon.items()
        for spelling in (word, *(other for other in others(word) if other not in lexicon))
    )


def _apostrophes(word: str) -> Iterator[str]:
    """Yield a word with each of the two apostrophes, the word itself left out."""
    for apostrophe in "'\u2019":
        other = word.replace("'", apostrophe).replace("\u2019", apostrophe)
        if other != word:
            yield other


def _capitals(word: str) -> Iterator[str]:
    """Yield a word's spellings with capitals, of which ASCII's are folded, the word itself left out."""
    found = {word}
    for capital in (word[0].upper() + word[1:], word.upper()):
        folded = capital.translate(_ASCII_LOWER)
        if folded not in found and len(folded) == len(word):
            found.add(folded)
            yield folded
