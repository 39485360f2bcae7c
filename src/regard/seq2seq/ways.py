"""Sentences said both ways: from their beginning and from their end, by one network.

Whoever writes a sentence from its beginning decides its first words while knowing none of its last. So a network can
learn each pair twice: as it is, and with START before the source, which asks for the target's last word first. Of the
translations that it finds either way, the best are those that it finds likely both ways (Liu, Utiyama, Finch and Sumita
2016, "Agreement on Target-bidirectional Neural Machine Translation"; there with a network for each way).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.data.batching import Ids, Numbered, collate
from regard.seq2seq.data.vocabulary import END, START
from regard.seq2seq.decoding.search import Hypothesis, Scoring, beam, force
from regard.seq2seq.networks.base import Predictor

__all__ = ["agreed", "both_ways"]

Words = tuple[int, ...]


def both_ways(pairs: Iterable[Numbered]) -> Iterator[Numbered]:
    """Yield each pair as it is, and from its end.

    Parameters
    ----------
    pairs : iterable of Numbered
        Sources with END, targets from START to END.

    Yields
    ------
    Numbered
        Two of each.

    Examples
    --------
    >>> [turned] = list(both_ways([Numbered([5, 6, 2], [1, 7, 8, 2], frozenset({(0, 1)}))]))[1:]
    >>> turned.source, turned.target, sorted(turned.links)
    ([1, 5, 6, 2], [1, 8, 7, 2], [(1, 0)])
    """
    for pair in pairs:
        words = pair.target[1:-1]
        links = frozenset((source + 1, len(words) - 1 - target) for source, target in pair.links)
        yield pair
        yield Numbered([START, *pair.source], _whole(words[::-1]), links)


def _whole(words: Sequence[int] | NDArray[Any]) -> list[int]:
    return [START, *(int(word) for word in words), END]


def agreed(
    network: Predictor, source: Ids, lengths: Ids, *, width: int, n_best: int, scoring: Scoring
) -> list[list[Hypothesis]]:
    """Search both ways, and rank what was found by how likely it is both ways.

    Parameters
    ----------
    network : Predictor
        That has learned pairs both ways.
    source, lengths
        As for `regard.seq2seq.decoding.search.beam`, of sources as they are.
    width : int
        How many beginnings are kept, and as many ends.
    n_best : int
        How many sentences are wanted, `width` at most.
    scoring : Scoring
        What each way is ranked by.

    Returns
    -------
    list of list of Hypothesis
        For each sentence the best; a score is the mean of those of both ways, all else is as said from the beginning.

    Examples
    --------
    >>> class Toss:  # ends with probability 1/2, else says 4; looks nowhere
    ...     steps = lambda self, source, lengths, width=1: self
    ...     select = keep = lambda self, kept: None
    ...     def __call__(self, words):
    ...         logits = np.full((*words.shape, 5), -np.inf)
    ...         logits[..., [2, 4]] = 0
    ...         return logits, np.zeros((*words.shape, 0))
    >>> [found] = agreed(
    ...     Toss(), np.array([[4], [2]]), np.array([2]), width=2, n_best=2, scoring=Scoring(length_penalty=0)
    ... )
    >>> [one.words for one in found], [round(float(np.exp(one.score)), 6) for one in found]
    ([(), (4,)], [0.5, 0.25])
    """
    turned = np.concatenate([np.full((1, len(lengths)), START, source.dtype), source])
    there, back = _Way(network, source, lengths, scoring, 1), _Way(network, turned, lengths + 1, scoring, -1)
    found = there.search(width), back.search(width)
    each = [sorted(one | other) for one, other in zip(*found, strict=True)]
    said, again = there.said(each), back.said(each)
    both = [
        [replace(one, score=(one.score + other.score) / 2) for one, other in zip(*ways, strict=True)]
        for ways in zip(said, again, strict=True)
    ]
    return [sorted(several, key=lambda one: -one.score)[:n_best] for several in both]


class _Way:
    """One way to say some sentences; their words are always those from the beginning."""

    def __init__(self, network: Predictor, source: Ids, lengths: Ids, scoring: Scoring, order: int) -> None:
        self.network, self.source, self.lengths = network, source, lengths
        self.scoring, self.order = scoring, order
        self.known: list[dict[Words, Hypothesis]] = [{} for _ in lengths]

    def search(self, width: int) -> list[set[Words]]:
        """Return what a beam finds for each sentence."""
        found = beam(self.network, self.source, self.lengths, width=width, n_best=width, scoring=self.scoring)
        for known, several in zip(self.known, found, strict=True):
            # What was broken off has no probability of its end.
            whole = (one for one in several if len(one.log_probabilities) > len(one.words))
            known.update((one.words[:: self.order], one) for one in whole)
        return [{one.words[:: self.order] for one in several} for several in found]

    def said(self, wanted: Sequence[Sequence[Words]]) -> list[list[Hypothesis]]:
        """Return what the network says of these words; it is asked for those alone that it has not found."""
        asked = [
            (sentence, words)
            for sentence, several in enumerate(wanted)
            for words in several
            if words not in self.known[sentence]
        ]
        if asked:
            whose = np.array([sentence for sentence, _ in asked])
            targets = collate([Numbered([END], _whole(words[:: self.order])) for _, words in asked]).target
            of_these = self.source[:, whose], self.lengths[whose]
            found = force(self.network, *of_these, targets, scoring=self.scoring)
            for (sentence, words), one in zip(asked, found, strict=True):
                self.known[sentence][words] = one
        return [
            [known[words] for words in several] for known, several in zip(self.known, wanted, strict=True)
        ]
