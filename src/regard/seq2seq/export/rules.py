"""The rules of text of a tokenizer as plain values, for programs that have nothing else."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from regard._characters import classes
from regard.seq2seq.data.tokenizers import TOKEN, Tokenizer

__all__ = ["rules"]

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def rules(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the settings and the vocabulary, scores of subwords, and the regular expression of words."""
    described = tokenizer.describe() | {"tokens": list(tokenizer.tokens)}
    if "scores" in (data := tokenizer.data()):
        described["scores"] = [float(f"{score:.9g}") for score in np.frombuffer(data["scores"], "<f4")]
    if tokenizer.token_type == "words":
        described["pattern"] = words_pattern()
    return described


@cache
def words_pattern() -> str:
    """Return the expression of `regard.seq2seq.data.tokenizers.cut` over characters, instead of letters of classes."""
    of = _ranges()

    def characters(found: re.Match[str]) -> str:
        letters = found[0]
        return letters if letters[0] == "(" else "[" + "".join(of[one] for one in letters.strip("[]")) + "]"

    return re.sub(r"\(\?P<word>|\[\w+\]|\w", characters, TOKEN.pattern)


def _ranges() -> dict[str, str]:
    """Return the characters of each class, as the inside of brackets."""
    codes = [code for code in range(_LAST + 1) if code not in _SURROGATES]
    of_codes = np.array(list(classes("".join(map(chr, codes)))))
    starts = np.flatnonzero(np.r_[True, (of_codes[1:] != of_codes[:-1]) | (np.diff(codes) > 1)])
    ranges: dict[str, str] = {}
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(codes)], strict=True):
        first, last = _escaped(codes[start]), _escaped(codes[end - 1])
        letter = str(of_codes[start])
        ranges[letter] = ranges.get(letter, "") + (first if end == start + 1 else f"{first}-{last}")
    return ranges


def _escaped(code: int) -> str:
    """Return a character as it is written between brackets."""
    return chr(code) if chr(code).isalnum() or code > 0xFF else f"\\u{code:04x}"
