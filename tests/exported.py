"""Models to export: of each family, without attention, with a state of several parts; and an input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq import Seq2Seq
from regard.seq2seq.networks.graph import Graph
from regard.seq2seq.networks.inputs.base import Input
from regard.seq2seq.sources.base import Spec

__all__ = ["KINDS", "PAIRS", "SIZES", "Halves", "lines", "trained"]

Array = NDArray[Any]

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


@dataclass(frozen=True)
class Halves(Input):
    """An input of the tests' own, which nothing else knows: the halves of each row (2 W), multiplied."""

    width: int
    in_order: bool = True

    kind: ClassVar[str] = "halves"

    @property
    def spec(self) -> Spec:
        return Spec(width=2 * self.width, ordered=self.in_order)

    def shapes(self, width: int, blocks: int = 0) -> dict[str, tuple[int, ...]]:
        return {"halves": (self.width, width)}

    def embed(self, p: Any, source: Array, ends: Any, scale: float = 1.0) -> Any:
        first, second = np.split(source, 2, axis=-1)
        return np.asarray((first * second) @ p["halves"], np.float32), None

    def export(self, g: Graph, source: str, lengths: str, scale: float = 1.0) -> str:
        return g.linear((g.multiply(*g.split(source, [self.width] * 2)), "halves"))


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
