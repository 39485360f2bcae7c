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
from collections.abc import Callable, Iterable

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
    """Return a word in lower case, letter by letter as the readers do."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in word)


def latin_spelling(word: str) -> str:
    """Return a word in lower case with the apostrophe that the readers know."""
    return unicode_spelling(word).replace("\u2019", "'")


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
    """Write words for Matcha."""
    return _written(lexicon, lambda word: _spellings([word], unicode_spelling))


def write_both(lexicon: Lexicon) -> Files:
    """Write words for Kokoro and Kitten, those with an apostrophe with both signs for it."""
    return _written(lexicon, lambda word: _spellings(_apostrophes(word), unicode_spelling))


def write_vits(lexicon: Lexicon) -> Files:
    """Write words for VITS."""
    return _written(lexicon, lambda word: _spellings([word], _fold_ascii))


def _written(lexicon: Lexicon, spellings: Callable[[str], Iterable[str]]) -> Files:
    """Return a line for each spelling of a word, other spellings only where they are not words themselves."""
    return plain_lines(
        f"{spelling} {' '.join(variants[0].phones)}"
        for word, variants in lexicon.items()
        for spelling in spellings(word)
        if spelling == word or spelling not in lexicon
    )


def _apostrophes(word: str) -> list[str]:
    """Return a word, and after it the word with each of the two apostrophes."""
    typed, typeset = word.replace("\u2019", "'"), word.replace("'", "\u2019")
    return [word, typed, typeset]


def _spellings(words: Iterable[str], fold: Callable[[str], str]) -> dict[str, None]:
    """Return words and what a reader that folds case so makes of their capitals, of the first or of all letters."""
    capitals = [text for word in words for text in (word, word[0].upper() + word[1:], word.upper())]
    size = len(capitals[0])
    return dict.fromkeys([capitals[0], *(fold(text) for text in capitals if len(text) == size)])


def _fold_ascii(word: str) -> str:
    return word.translate(_ASCII_LOWER)
