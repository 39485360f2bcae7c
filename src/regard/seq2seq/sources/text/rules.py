"""The rules of text of a tokenizer as plain values, for programs that have nothing else."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from regard._characters import classes
from regard.seq2seq.sources.text.tokenizers import TOKEN, Tokenizer

__all__ = ["of_characters", "rules"]

# Without surrogates, and without planes of characters that are not assigned or private: those are punctuation, too.
_CODES = (*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE1000))
_OTHERS = "\U00040000-\U000dffff\U000e1000-\U0010ffff"


def rules(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the settings and the vocabulary, scores of subwords, and the regular expression of words."""
    described = tokenizer.describe() | {"tokens": list(tokenizer.tokens)}
    if "scores" in (data := tokenizer.data()):
        described["scores"] = np.frombuffer(
            data["scores"], "<f4"
        ).tolist()  # exact, so that ties are the same
    if tokenizer.token_type == "words":
        described["pattern"] = of_characters(TOKEN.pattern)
    return described


@cache
def of_characters(expression: str) -> str:
    """Return a regular expression over characters instead of the letters of `regard._characters.classes`."""
    of = _ranges()

    def characters(found: re.Match[str]) -> str:
        letters = found[0]
        return letters if letters[0] == "(" else "[" + "".join(of[axis] for axis in letters.strip("[]")) + "]"

    return re.sub(r"\(\?P<word>|\[\w+\]|\w", characters, expression)


@cache
def _ranges() -> dict[str, str]:
    """Return the characters of each class, as the inside of brackets."""
    of_codes = np.array(list(classes("".join(map(chr, _CODES)))))
    starts = np.flatnonzero(np.r_[True, (of_codes[1:] != of_codes[:-1]) | (np.diff(_CODES) > 1)]).tolist()
    ranges = {classes(_OTHERS[0]): _OTHERS}
    for start, end in zip(starts, [*starts[1:], len(_CODES)], strict=True):
        first, last, letter = _escaped(_CODES[start]), _escaped(_CODES[end - 1]), str(of_codes[start])
        ranges[letter] = ranges.get(letter, "") + (first if end == start + 1 else f"{first}-{last}")
    return ranges


def _escaped(code: int) -> str:
    """Return a character as it is written between brackets."""
    return chr(code) if chr(code).isalnum() or code > 0xFF else f"\\u{code:04x}"
