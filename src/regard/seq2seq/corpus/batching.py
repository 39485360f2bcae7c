"""Pairs as numbers, token ids or arrays: a corpus, and batches of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.sources.arrays import scaled
from regard.seq2seq.sources.text.vocabulary import PAD

__all__ = [
    "Batch",
    "Corpus",
    "EncodedPair",
    "Ids",
    "Links",
    "batches",
    "collate",
    "source_batch",
]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Links = frozenset[tuple[int, int]]
Row = Sequence[int] | Array  # ids (m,), or vectors or cells of a picture (m, F)


class EncodedPair(NamedTuple):
    """The token ids of a sentence pair, or an array and the token ids of its target.

    `source` (m, F): ids, END last; or vectors or cells of a picture; `target`: from START to END; `links`: which
    source token each target token should attend to, as (source, target), both counted from 0; empty without guidance.
    """

    source: Row
    target: Row
    links: Links = frozenset()


class Batch(NamedTuple):
    """A batch of sentence pairs, time first.

    `source` (T, B), or array (T, B, F): sources, each with END, padded with PAD; or arrays, padded with zeros;
    `lengths` (B,): the length of each source, END included; `target` (n + 1, B): targets from START to END, padded
    with PAD; `links` (n, B, T): attention weights that the model should have: rows sum to 1, or to 0 where they are
    unknown.
    """

    source: Array
    lengths: Ids
    target: Ids
    links: Array | None = None

    def target_tokens(self) -> int:
        """Count the target tokens to predict."""
        return int((self.target[1:] != PAD).sum())

    def twice(self) -> Batch:
        """Return the batch concatenated with itself."""

        def double(x: Array, axis: int) -> Array:
            return np.concatenate([x, x], axis=axis)

        links = None if self.links is None else double(self.links, 1)
        return Batch(double(self.source, 1), double(self.lengths, 0), double(self.target, 1), links)

    def part(self, sentences: slice) -> Batch:
        """Return some of the sentences, as a batch with the least padding."""
        lengths, target = self.lengths[sentences], self.target[:, sentences]
        longest, n = int(lengths.max()), int((target != PAD).sum(axis=0).max())
        links = None if self.links is None else self.links[: n - 1, sentences, :longest]
        return Batch(self.source[:longest, sentences], lengths, target[:n], links)


def source_batch(sources: Sequence[Row]) -> tuple[Array, Ids]:
    """Collate ids, each with END, to (T, B), or arrays (m, F) to (T, B, F); return also the lengths (B,).

    Padding is PAD, or zeros. Pictures of bytes are scaled to 0..1.
    """
    filled: Callable[[Any], Array] = _stacked if _is_array(sources[0]) else _filled
    return filled(sources), np.array([len(source) for source in sources], np.int64)


def _is_array(row: Row) -> bool:
    return isinstance(row, np.ndarray) and row.ndim == 2


def _stacked(rows: Sequence[Array]) -> Array:
    """Return arrays (m, F) as the columns of an array (T, B, F), padded with zeros."""
    stacked = np.zeros((max(map(len, rows)), len(rows), rows[0].shape[1]), np.float32)
    for column, row in enumerate(rows):
        stacked[: len(row), column] = scaled(row)
    return stacked


def collate(pairs: Sequence[EncodedPair]) -> Batch:
    """Collate at least one pair to a batch, as long as the longest."""
    source, lengths = source_batch([pair.source for pair in pairs])
    target = _filled([pair.target for pair in pairs])
    guided = any(pair.links for pair in pairs)
    links = _links(pairs, len(source), len(target) - 1) if guided else None
    return Batch(source, lengths, target, links)


def _filled(rows: Sequence[Row]) -> Ids:
    """Return sequences as the columns of an array, padded with PAD."""
    filled = np.full((max(map(len, rows)), len(rows)), PAD, np.int64)
    for column, row in enumerate(rows):
        filled[: len(row), column] = row
    return filled


def _links(pairs: Sequence[EncodedPair], longest: int, n: int) -> Array:
    """Return guided attention weights: uniform over the linked source tokens."""
    links = np.zeros((n, len(pairs), longest), np.float32)
    for column, pair in enumerate(pairs):
        for source, target in pair.links:
            links[target, column, source] = 1
    links /= np.maximum(links.sum(axis=-1, keepdims=True), 1)
    return links


class Corpus:
    """All pairs of a training, with four bytes for a token, and arrays as they are.

    `pairs`: read once.
    """

    def __init__(self, pairs: Iterable[EncodedPair]) -> None:
        sources: Any = _Rows()
        targets = _Rows()
        self.links: dict[int, Links] = {}
        for number, pair in enumerate(pairs):
            if number == 0 and _is_array(pair.source):
                sources = _Arrays()
            sources.append(pair.source)
            targets.append(pair.target)
            if pair.links:
                self.links[number] = pair.links
        self.source: Array
        self.source_lengths: Ids
        self.source, self.source_lengths = sources.arrays()
        self.target, self.target_lengths = targets.arrays()
        self._sources, self._targets = np.cumsum(self.source_lengths), np.cumsum(self.target_lengths)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __getitem__(self, number: int) -> EncodedPair:
        source, target = (
            numbers[ends[number] - lengths[number] : ends[number]]
            for numbers, ends, lengths in (
                (self.source, self._sources, self.source_lengths),
                (self.target, self._targets, self.target_lengths),
            )
        )
        return EncodedPair(source, target, self.links.get(number, frozenset()))

    def __iter__(self) -> Iterator[EncodedPair]:
        return (self[number] for number in range(len(self)))

    def batch(self, numbers: Iterable[int]) -> Batch:
        """Return a batch of the pairs with these numbers."""
        return collate([self[number] for number in numbers])


class _Rows:
    """Concatenated sequences of ids, packed in blocks."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.packed: list[NDArray[np.int32]] = []
        self.lengths: list[int] = []

    def append(self, row: Row) -> None:
        self.waiting.extend(row)
        self.lengths.append(len(row))
        if len(self.waiting) > 1 << 16:
            self._pack()

    def _pack(self) -> None:
        self.packed.append(np.array(self.waiting, np.int32))
        self.waiting = []

    def arrays(self) -> tuple[NDArray[np.int32], Ids]:
        self._pack()
        return np.concatenate(self.packed), np.array(self.lengths, np.int64)


class _Arrays:
    """Concatenated arrays (m, F): pictures of bytes stay bytes, where all are."""

    def __init__(self) -> None:
        self.waiting: list[Array] = []

    def append(self, row: Array) -> None:
        self.waiting.append(row)

    def arrays(self) -> tuple[Array, Ids]:
        same = len({row.dtype for row in self.waiting}) == 1
        lengths = np.array([len(row) for row in self.waiting], np.int64)
        return np.concatenate(self.waiting if same else list(map(scaled, self.waiting))), lengths


def batches(corpus: Corpus, tokens: int, rng: np.random.Generator) -> list[Ids]:
    """Group pairs of similar lengths into batches, in random order: the numbers of the pairs of each.

    A batch has at most `tokens` of a side, padding included; a longer pair is a batch of its own. A batch has sources
    of one length where these fill at least half of it.
    """
    shuffled = rng.permutation(len(corpus))
    sources, targets = corpus.source_lengths[shuffled], corpus.target_lengths[shuffled]
    order = np.lexsort((targets, sources))  # stable: equal lengths stay shuffled
    starts = _starts(sources[order].tolist(), targets[order].tolist(), tokens)
    groups = np.split(shuffled[order], starts[1:])
    return [groups[i] for i in rng.permutation(len(groups))]


def _starts(sources: list[int], targets: list[int], tokens: int) -> list[int]:
    """Return the start of each batch among pairs sorted by the lengths of source and target."""
    starts, longest = [0] if sources else [], 0
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        taken = max(longest, source, target)
        count = i - starts[-1]
        half_full = count * longest * 2 >= tokens
        if count and ((count + 1) * taken > tokens or (half_full and source != sources[starts[-1]])):
            starts.append(i)
            taken = max(source, target)
        longest = taken
    return starts
