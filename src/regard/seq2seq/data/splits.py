"""Pairs that are kept aside, to judge what is learned from the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from regard.seq2seq.data.parallel_text import Pair, Side

__all__ = ["hold_out", "split_validation"]

Given = TypeVar("Given")

_FEW = 20  # sources
_CHOICE = 1  # the seed of what is kept aside


def split_validation(
    pairs: Sequence[Pair],
    links: Sequence[Given] | None,
    fits: Callable[[Pair], bool] | None = None,
) -> tuple[list[Pair], list[Pair], Sequence[Given] | None]:
    """Keep some pairs aside as `hold_out` does, where there may be links to be kept beside the others.

    Parameters
    ----------
    pairs : sequence of (source, target)
        All there are.
    links : sequence, optional
        One for each, in whatever form.
    fits
        As for `hold_out`.

    Returns
    -------
    training, validation : list of (source, target)
        As from `hold_out`.
    links : sequence or None
        Those of the training pairs.

    Examples
    --------
    >>> pairs = [(str(i), "") for i in range(40)]
    >>> training, _, links = split_validation(pairs, [frozenset({(i, i)}) for i in range(40)])
    >>> training[-1][0], links[-1]
    ('39', frozenset({(39, 39)}))
    """
    learned, judged = hold_out(pairs, fits)
    if links is None or len(learned) == len(pairs):
        return learned, judged, links
    aside = {_key(pair[0]) for pair in judged}
    kept = [given for pair, given in zip(pairs, links, strict=True) if _key(pair[0]) not in aside]
    return learned, judged, kept


def _key(source: Side) -> Any:
    return source if isinstance(source, str) else tuple(source)


def hold_out(
    pairs: Sequence[Pair], fits: Callable[[Pair], bool] | None = None
) -> tuple[list[Pair], list[Pair]]:
    """Keep some sources aside with all their pairs: a tenth, from 100 on ten, from 200 on a twentieth, 500 at most.

    Of fewer than 20 sources none can be missed. The choice is the same for every seed, so that models of several seeds
    learn the same words from the same pairs, and their losses can be compared.

    Parameters
    ----------
    pairs : sequence of (source, target)
        All there are.
    fits : callable, optional
        Says which pairs count: sources of others are neither counted nor kept aside.

    Returns
    -------
    training, validation : list of (source, target)
        No source is in both, unless there are too few to keep any aside: then both are all of them.

    Examples
    --------
    >>> training, validation = hold_out([(str(i), "") for i in range(40)])
    >>> len(training), len(validation)
    (36, 4)
    """
    sources = list(dict.fromkeys(_key(pair[0]) for pair in pairs if fits is None or fits(pair)))
    number = max(min(len(sources) // 10, 10), min(len(sources) // 20, 500))
    if len(sources) < _FEW:
        return list(pairs), list(pairs)
    aside = {sources[i] for i in np.random.default_rng(_CHOICE).permutation(len(sources))[:number]}
    return [p for p in pairs if _key(p[0]) not in aside], [p for p in pairs if _key(p[0]) in aside]
