"""Split sentence pairs into training and validation pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.corpus.spelling import families

__all__ = ["SEED", "Groups", "by_family", "hold_out", "split_validation"]

T = TypeVar("T")
Groups = Callable[[Sequence[Any]], Sequence[Sequence[Any]]]  # of different sources

_FEW = 20  # sources
SEED = 1  # of the split


def split_validation(
    pairs: Sequence[Pair],
    links: Sequence[T] | None,
    fits: Callable[[Pair], bool] | None = None,
    groups: Groups | None = None,
) -> tuple[list[Pair], list[Pair], Sequence[T] | None]:
    """Split pairs as `hold_out` does, and return also the links of the training pairs."""
    training, validation = hold_out(pairs, fits, groups=groups)
    if links is None or len(training) == len(pairs):
        return training, validation, links
    held_out = {pair[0] for pair in validation}
    others = [link for pair, link in zip(pairs, links, strict=True) if pair[0] not in held_out]
    return training, validation, others


def by_family(sources: Sequence[Any]) -> list[list[Any]]:
    """Return different sources in the spelling families of their texts."""
    of_text = {str(source): source for source in sources}
    return [[of_text[word] for word in family] for family in families(of_text)]


def hold_out(
    pairs: Sequence[Pair],
    fits: Callable[[Pair], bool] | None = None,
    *,
    most: int = 500,
    groups: Groups | None = None,
) -> tuple[list[Pair], list[Pair]]:
    """Hold out some sources with all their pairs: a tenth, from 100 on ten, from 200 on a twentieth, at most `most`.

    Fewer than 20 sources are not split: then both parts are all pairs. Sources of pairs that do not fit are neither
    counted nor held out. The choice is the same for every seed, so that models of several seeds learn from the same
    pairs, and their losses can be compared. With `groups`, such as `by_family`, all sources of a group are held out or
    none, and 20 groups are needed; a group that is larger than what is still to be held out is passed over.
    """
    sources = list(dict.fromkeys(pair[0] for pair in pairs if fits is None or fits(pair)))
    number = max(min(len(sources) // 10, 10), min(len(sources) // 20, most))
    units = [(source,) for source in sources] if groups is None else groups(sources)
    if len(units) < _FEW:
        return list(pairs), list(pairs)
    held_out = set[Any]()
    for i in np.random.default_rng(SEED).permutation(len(units)):
        if len(held_out) + len(units[i]) <= number:
            held_out.update(units[i])
    return [p for p in pairs if p[0] not in held_out], [p for p in pairs if p[0] in held_out]
