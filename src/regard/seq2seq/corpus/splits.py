"""Split sentence pairs into training and validation pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from regard.seq2seq.corpus.pairs import Pair

__all__ = ["SEED", "hold_out", "split_validation"]

T = TypeVar("T")

_FEW = 20  # sources
SEED = 1  # of the split


def split_validation(
    pairs: Sequence[Pair],
    links: Sequence[T] | None,
    fits: Callable[[Pair], bool] | None = None,
) -> tuple[list[Pair], list[Pair], Sequence[T] | None]:
    """Split pairs as `hold_out` does, and return also the links of the training pairs."""
    training, validation = hold_out(pairs, fits)
    if links is None or len(training) == len(pairs):
        return training, validation, links
    held_out = {pair[0] for pair in validation}
    others = [link for pair, link in zip(pairs, links, strict=True) if pair[0] not in held_out]
    return training, validation, others


def hold_out(
    pairs: Sequence[Pair], fits: Callable[[Pair], bool] | None = None, *, most: int = 500
) -> tuple[list[Pair], list[Pair]]:
    """Hold out some sources with all their pairs: a tenth, from 100 on ten, from 200 on a twentieth, at most `most`.

    Fewer than 20 sources are not split: then both parts are all pairs. Sources of pairs that do not fit are neither
    counted nor held out. The choice is the same for every seed, so that models of several seeds learn from the same
    pairs, and their losses can be compared.
    """
    sources = list(dict.fromkeys(pair[0] for pair in pairs if fits is None or fits(pair)))
    number = max(min(len(sources) // 10, 10), min(len(sources) // 20, most))
    if len(sources) < _FEW:
        return list(pairs), list(pairs)
    held_out = {sources[i] for i in np.random.default_rng(SEED).permutation(len(sources))[:number]}
    return [p for p in pairs if p[0] not in held_out], [p for p in pairs if p[0] in held_out]
