"""A batch: sentence pairs side by side, with what pads them told apart from what they say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.text import PAD

__all__ = ["Batch", "Ids", "Numbered", "collate", "source_batch"]

Array = NDArray[Any]
Ids = NDArray[np.int64]


class Numbered(NamedTuple):
    """A pair as numbers.

    Parameters
    ----------
    source : list of int
        With END.
    target : list of int
        From START to END.
    links : frozenset of (int, int)
        Which source token each target token should look at, as (source, target), both counted from 0; empty without
        guidance.
    """

    source: list[int]
    target: list[int]
    links: frozenset[tuple[int, int]] = frozenset()


class Batch(NamedTuple):
    """Pairs side by side, time first.

    Parameters
    ----------
    source : integer array (T, B)
        Sources, each with END, filled up with PAD.
    lengths : integer array (B,)
        Tokens of each source, END with them.
    target : integer array (n + 1, B)
        Targets from START to END, filled up with PAD.
    links : array (n, B, T) or None
        Where each target token should look: rows sum to 1, or to 0 where nobody knows.
    """

    source: Ids
    lengths: Ids
    target: Ids
    links: Array | None = None

    def words(self) -> int:
        """Return how many words are to be predicted."""
        return int((self.target[1:] != PAD).sum())

    def part(self, sentences: slice) -> Batch:
        """Return some of the sentences, as a batch that is no longer than they need."""
        lengths, target = self.lengths[sentences], self.target[:, sentences]
        longest, n = int(lengths.max()), int((target != PAD).sum(axis=0).max())
        links = None if self.links is None else self.links[: n - 1, sentences, :longest]
        return Batch(self.source[:longest, sentences], lengths, target[:n], links)


def source_batch(sources: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """Put sources side by side.

    Parameters
    ----------
    sources : sequence of sequences of int
        Each with END; at least one.

    Returns
    -------
    source : integer array (T, B)
        Filled up with PAD.
    lengths : integer array (B,)
        Tokens of each.

    Examples
    --------
    >>> source_batch([[5, 2], [2]])[0].tolist()
    [[5, 2], [2, 0]]
    """
    return _filled(sources), np.array([len(source) for source in sources], np.int64)


def collate(pairs: Sequence[Numbered]) -> Batch:
    """Put pairs side by side.

    Parameters
    ----------
    pairs : sequence of Numbered
        At least one.

    Returns
    -------
    Batch
        As long as the longest of them.

    Examples
    --------
    >>> batch = collate([Numbered([5, 2], [1, 7, 2]), Numbered([2], [1, 2])])
    >>> batch.lengths.tolist(), batch.target.tolist()
    ([2, 1], [[1, 1], [7, 2], [2, 0]])
    """
    source, lengths = source_batch([pair.source for pair in pairs])
    target = _filled([pair.target for pair in pairs])
    guided = any(pair.links for pair in pairs)
    return Batch(source, lengths, target, _links(pairs, len(source), len(target) - 1) if guided else None)


def _filled(rows: Sequence[Sequence[int]]) -> Ids:
    """Return rows as the columns of an array, filled up with PAD."""
    filled = np.full((max(map(len, rows)), len(rows)), PAD, np.int64)
    for column, row in enumerate(rows):
        filled[: len(row), column] = row
    return filled


def _links(pairs: Sequence[Numbered], longest: int, n: int) -> Array:
    """Return where target tokens should look: evenly at all that they are linked to."""
    links = np.zeros((n, len(pairs), longest), np.float32)
    for column, pair in enumerate(pairs):
        for source, target in pair.links:
            links[target, column, source] = 1
    links /= np.maximum(links.sum(axis=-1, keepdims=True), 1)
    return links
