"""Models to export: of each family, without attention, with a state of several parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.seq2seq import Seq2Seq

__all__ = ["KINDS", "PAIRS", "SIZES", "lines", "trained"]

PAIRS = [
    (word, " ".join(letter.upper() for letter in reversed(word)))
    for word in ("ab", "ba", "abc", "cab", "bca", "acb", "bad", "dab", "cad", "abcd", "dcba", "badc")
]
_UNCOMPARED: dict[str, Any] = {"embedding": 8, "encoder": 6, "decoder": 12}
SIZES = _UNCOMPARED | {"attention": 6}
_TRANSFORMER = {"model_size": 8, "heads": 2, "feedforward_size": 16, "encoder_layers": 1, "decoder_layers": 2}
KINDS: dict[str, dict[str, Any]] = {
    "recurrent": {},
    "luong": {"network": _UNCOMPARED | {"style": "luong", "score": "general", "cell": "lstm", "layers": 2}},
    "without attention": {"network": _UNCOMPARED | {"score": "none"}},
    "transformer": {"family": "transformer", "network": _TRANSFORMER},
}


def trained(**options: Any) -> Seq2Seq:
    """A model of words to letters, which has learned little."""
    options = {"network": SIZES, "source": "characters", "target": "tokens", "epochs": 3} | options
    return Seq2Seq(**options).fit(*map(list, zip(*PAIRS, strict=True)))


def lines(count: int, longest: int = 9) -> list[str]:
    """Different words over the letters of the pairs, and one letter that is in none."""
    rng = np.random.default_rng(4)
    drawn = ("".join(rng.choice(list("abcdx"), rng.integers(1, longest))) for _ in range(10 * count))
    return list(dict.fromkeys(drawn))[:count]


# Text of many scripts, as a tokenizer meets it.
LINES = [
    *(
        "the cat sat",
        "The CAT, again!",
        "l'été n'est pas là",
        "« Où ? » dit-il",
        "don't, well-known (x) 3.5 %",
        "a_b c-d",
    ),
    *(
        "ﬁne ﬁnd",
        "कि नमस्ते",
        "क़लम",
        "한국어 사람",
        "שָׁלוֹם",
        "ǆ Ǆ",
        "e\u0301te\u0301 x",
        "a\tb  c ",
        "x\ufeffy\u00a0z",
    ),
    *(
        "İSTANBUL ışık",
        "😀👍🏽 ok",
        "👩\u200d🚀!",
        "🇫🇷🇩🇪",
        "a\uffedb \u2423 \u2581c _d",
        "zero\u200bwidth",
        "soft\u00adhyphen",
    ),
]
