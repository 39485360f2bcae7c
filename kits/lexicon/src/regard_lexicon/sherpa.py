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
from collections.abc import Callable, Iterable, Iterator, Sequence

from regard_lexicon.lexicon import Lexicon, Variant
from regard_lexicon.lines import plain_lines

__all__ = [
    "ascii_spelling",
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


def _lower(word: str) -> str:
    """Return a word in lower case, letter by letter as the readers do."""
    return "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in word)


def _upper(word: str) -> str:
    """Return a word in capitals, except letters whose capital is several letters."""
    return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in word)


def unicode_spelling(word: str) -> str:
    """Return a word as the readers of Kokoro and Kitten fold it."""
    return _lower(word).replace("İ", "i")


def latin_spelling(word: str) -> str:
    """Return a word as the reader of Matcha folds it, with the apostrophe that it knows."""
    return _lower(word).replace("\u2019", "'")


def ascii_spelling(word: str) -> str:
    """Return a word as the reader of VITS folds it, with the apostrophe that it knows."""
    return word.translate(_ASCII_LOWER).replace("\u2019", "'")


def latin_refusal(word: str, variant: Variant) -> str:
    """Return where the readers of VITS and Matcha cut a word, or an empty text."""
    if len(word) == 1 and word.isalpha() and word != "İ":  # which Matcha folds after it has cut
        return ""
    cut = next((character for character in word if _lower(character) not in _LATIN), "")
    return _cut(cut) if cut else _no_letter(word)


def unicode_refusal(word: str, variant: Variant) -> str:
    """Return where the readers of Kokoro and Kitten cut a word, or an empty text."""
    cut = next((character for character in word if character in _PUNCTUATION or character == " "), "")
    if cut or "||" in word:
        return _cut(cut or "||")
    if word.startswith("#"):
        return "the reader takes a word that begins with # for a comment"
    if len({_CJK.match(character) is None for character in word}) > 1:
        return "the reader cuts a word between Chinese, Japanese or Korean writing and other"
    return _no_letter(word)


def _cut(character: str) -> str:
    return f"the reader cuts a word at {'a blank' if character == ' ' else character}"


def _no_letter(word: str) -> str:
    return "" if any(map(str.isalnum, word)) else "the word has no letter and no digit"


def write(lexicon: Lexicon) -> bytes:
    """Write words for Matcha."""
    return _written(lexicon, lambda word: _spellings([word], unicode_spelling))


def write_both(lexicon: Lexicon) -> bytes:
    """Write words for Kokoro and Kitten, those with an apostrophe with both signs for it."""
    return _written(lexicon, lambda word: _spellings(_apostrophes(word), unicode_spelling))


def write_vits(lexicon: Lexicon) -> bytes:
    """Write words for VITS."""
    return _written(lexicon, lambda word: _spellings([word], ascii_spelling))


def _written(lexicon: Lexicon, spellings: Callable[[str], Iterable[str]]) -> bytes:
    """Return a line for each spelling of a word that is neither a word itself nor a spelling of an earlier word."""
    return plain_lines(_lines(lexicon, spellings))


def _lines(lexicon: Lexicon, spellings: Callable[[str], Iterable[str]]) -> Iterator[str]:
    seen = set(lexicon)
    for word, variants in lexicon.items():
        for spelling in spellings(word):
            if spelling == word or spelling not in seen:
                seen.add(spelling)
                yield f"{spelling} {' '.join(variants[0].phones)}"


def _apostrophes(word: str) -> list[str]:
    """Return a word, and after it the word with each of the two apostrophes."""
    return [word, word.replace("\u2019", "'"), word.replace("'", "\u2019")]


def _spellings(words: Sequence[str], fold: Callable[[str], str]) -> dict[str, None]:
    """Return words, and what a reader makes of them in lower case and with a capital or all, if it folds case so."""
    lower = [_lower(word) for word in words]
    capitals = [text for word in lower for text in (word, _upper(word[0]) + word[1:], _upper(word))]
    return dict.fromkeys([words[0], *map(fold, [*words, *capitals])])
