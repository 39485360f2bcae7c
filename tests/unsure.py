"""Small models that are far from sure, so that the order of their answers is not that of the network alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

from regard.seq2seq import Ensemble, Seq2Seq
from regard.seq2seq.translator import Translator

WORDS = ["".join(letters) for letters in itertools.product("abc", repeat=4)]
ASKED = ["".join(letters) for letters in itertools.product("abc", repeat=5)][::12]


def sounds(word: str) -> str:
    """Two letters of three have two sounds, by what follows, so that the hypotheses are close."""
    after = [*word[1:], "a"]
    return " ".join(x if x == "c" or y == "a" else x + x for x, y in zip(word, after, strict=True))


@cache
def trained(seed: int, reranker: str = "") -> Seq2Seq:
    """A model, with a reranker or without; not to be changed."""
    network = {"embedding": 8, "encoder": 8, "decoder": 8, "attention": 8}
    extras = {reranker: 2} if reranker else {}
    model = Seq2Seq(source="characters", target="tokens", network=network, extras=extras, epochs=3, seed=seed)
    model.fit(WORDS, [sounds(word) for word in WORDS])
    if model.model.reranker is not None:
        model.model.reranker.weight = 2.0
    return model


def translators(reranker: str) -> dict[str, Translator]:
    """Every kind of translator, with names."""
    plain, other = trained(1), trained(2)
    return {"plain": plain, "reranked": trained(1, reranker), "ensemble": Ensemble([plain, other])}


def falls(numbers: Sequence[float]) -> bool:
    return all(x >= y - 1e-12 for x, y in itertools.pairwise(numbers))
