"""A translation memory: the training pairs whose sources are most similar to a source, appended to it.

A network keeps what many pairs have in common. What only a few of them show (how one stem is pronounced, the name of
one menu) it can retrieve instead: the training pairs with the most similar sources are retrieved, their targets are
appended to the source, and attention selects from them (Bulte and Tezcan 2019, "Neural Fuzzy Repair:
Integrating Fuzzy Matches into Neural Machine Translation", section 3.2). A pair with an identical source is never
retrieved, so that training and translating see the same.

Sources are similar if they share n-grams of up to six tokens, START and END included; n-grams of few sources count
more. With the weight w of an n-gram, the logarithm of the number of pairs over the number of pairs that have it::

    similarity(query, known) = (sum of w over the n-grams of both) / sqrt(sum of w^2 over all n-grams of known)

N-grams that the first retrieved pair shares with the source don't count for the second, and so on: a second pair
explains the rest.

Letters: R queries, P pairs, G n-grams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.corpus.packing import Row, packed, unpacked
from regard.seq2seq.extras.base import SourceAugmenter
from regard.seq2seq.sources.text.vocabulary import END, START, UNKNOWN

__all__ = ["TranslationMemory"]

Array = NDArray[Any]
Codes = NDArray[np.uint64]
Ids = NDArray[np.int64]

_SIDES = ("sources", "targets")
_LONGEST = 6  # tokens of an n-gram
_COMMON = 2000  # an n-gram of more pairs is ignored
_BATCH = 256  # queries
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: codes of different n-grams differ


class TranslationMemory(SourceAugmenter):
    """Retrieve the targets of training pairs with similar sources.

    Parameters
    ----------
    count : int
        The largest number of pairs for a source.
    sources, targets : sequence of sequence of int
        Ids of their tokens, without START and END; sources are distinct.
    """

    def __init__(self, count: int, sources: Sequence[Row], targets: Sequence[Row]) -> None:
        self.count, self.sources, self.targets = count, sources, targets

    @property
    def option(self) -> int:
        """The largest number of pairs for a source."""
        return self.count

    @classmethod
    def learn(cls, option: int, pairs: Iterable[tuple[Row, Row]], sizes: tuple[int, int] = (0, 0)) -> Self:
        """Store pairs; of those with the same source the first.

        Parameters
        ----------
        option : int
            The largest number of pairs for a source.
        pairs : iterable of (source, target)
            Ids of their tokens.
        sizes : (int, int)
            Not used.

        Returns
        -------
        TranslationMemory
            Of these pairs.
        """
        first: dict[tuple[int, ...], Row] = {}
        for source, target in pairs:
            first.setdefault(tuple(source), target)
        return cls(option, list(first), list(first.values()))

    def retrieve(self, sources: Sequence[Row]) -> list[list[tuple[int, ...]]]:
        """Retrieve the targets of similar pairs.

        Parameters
        ----------
        sources : sequence of sequence of int
            The queries' tokens.

        Returns
        -------
        list of list of tuple of int
            For each query the targets of up to `count` pairs, the most similar first.
        """
        queries = list(dict.fromkeys(map(tuple, sources)))
        retrieved: dict[Row, list[tuple[int, ...]]] = {}
        for start in range(0, len(queries), _BATCH):
            batch = queries[start : start + _BATCH]
            for query, pairs in zip(batch, self._similar(batch), strict=True):
                retrieved[query] = [tuple(self.targets[pair]) for pair in pairs if pair >= 0]
        return [retrieved[tuple(source)] for source in sources]

    def extend(self, sources: Sequence[Row], size: int) -> list[list[int]]:
        """Append retrieved targets to sources.

        Parameters
        ----------
        sources : sequence of sequence of int
            Their tokens.
        size : int
            The number of tokens in the source's vocabulary; ids of the target's start there.

        Returns
        -------
        list of list of int
            The source, END, and each retrieved target after START.
        """
        return [
            [*source, END, *(i for target in targets for i in (START, *(size + token for token in target)))]
            for source, targets in zip(sources, self.retrieve(sources), strict=True)
        ]

    def _similar(self, queries: Sequence[Row]) -> Ids:
        """Return the pairs (R, count) that are most similar to queries, -1 after the last."""
        index = self._index
        left = index.find(queries)  # (R, G): n-grams of the query that no retrieved pair has
        taken = [np.array([self._numbers.get(tuple(query), -1) for query in queries], np.int64)]
        for _ in range(self.count):
            similarity = left @ index.weights  # (R, P)
            best = _largest(similarity, taken)
            if (best < 0).all():
                break
            # Rows without a pair have those of the first pair, times zero.
            shared = left.multiply(_scaled(index.has[np.maximum(best, 0)], best >= 0))
            left = (left - shared).tocsr()
            taken.append(best)
        return np.stack(taken, axis=1)[:, 1:]

    @cached_property
    def _numbers(self) -> dict[tuple[int, ...], int]:
        return {tuple(source): number for number, source in enumerate(self.sources)}

    @cached_property
    def _index(self) -> _Index:
        return _index(self.sources)

    def data(self, sizes: tuple[int, int]) -> dict[str, bytes]:
        """Return the pairs, "sources" and "targets": ids as wide as the vocabulary needs, END after each sequence."""
        sides = zip(_SIDES, (self.sources, self.targets), sizes, strict=True)
        return {name: packed(rows, size) for name, rows, size in sides}

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON: ``{"count": ...}``."""
        return {"count": self.count}

    def shared(self) -> object:
        """Return the settings and the pairs: all models of an ensemble have the same."""
        return self.count, list(map(tuple, self.sources)), list(map(tuple, self.targets))

    @classmethod
    def restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes], sizes: tuple[int, int]) -> Self:
        """Return the memory of `describe` and `data`, which may be untrusted; raise ValueError if it is invalid."""
        if settings.keys() != {"count"} or type(settings["count"]) is not int or not settings["count"] > 0:
            raise ValueError("count must be an integer of at least 1")
        if data.keys() != set(_SIDES):
            raise ValueError("it must have sources and targets")
        sources, targets = (
            unpacked(name, data[name], size) for name, size in zip(_SIDES, sizes, strict=True)
        )
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources don't pair up with {len(targets)} targets")
        if len(set(sources)) != len(sources):
            raise ValueError("a source occurs twice")
        return cls(settings["count"], sources, targets)


class _Index(NamedTuple):
    """The n-grams of pairs, without those that are too common."""

    codes: Codes  # (G,), sorted
    has: Any  # sparse (P, G) of ones
    weights: Any  # sparse (G, P): contribution of an n-gram to the similarity

    def find(self, rows: Sequence[Row]) -> Any:
        """Return the n-grams (R, G) of sources."""
        parts = [self._known(owners, codes) for owners, codes in _ngrams(rows)]
        owners, columns = (np.concatenate(side) for side in zip(*parts, strict=True))
        return _ones(owners, columns, (len(rows), len(self.codes)))

    def _known(self, owners: Ids, codes: Codes) -> tuple[Ids, Ids]:
        """Return the owners and columns of those n-grams that pairs have."""
        if not len(self.codes):
            return owners[:0], owners[:0]
        columns = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        known = self.codes[columns] == codes
        return owners[known], columns[known]


def _index(rows: Sequence[Row]) -> _Index:
    squares = np.zeros(len(rows), np.float32)
    parts: list[tuple[Codes, Array, Any]] = []
    for owners, all_codes in _ngrams(rows):  # one length at a time: all at once would take much memory
        codes, columns = np.unique(all_codes, return_inverse=True)
        has = _ones(owners, columns, (len(rows), len(codes)))
        frequency = np.bincount(has.indices, minlength=len(codes))
        weight = np.log(len(rows) / np.maximum(frequency, 1)).astype(np.float32)
        squares += has @ (weight * weight)
        rare = np.flatnonzero((frequency <= _COMMON) & (weight > 0))
        parts.append((codes[rare], weight[rare], has[:, rare]))
    codes, weight = (np.concatenate(each) for each in ([p[0] for p in parts], [p[1] for p in parts]))
    order = np.argsort(codes)
    has = _sparse().hstack([p[2] for p in parts]).tocsr()[:, order]
    scaled = _scaled(has, 1 / np.sqrt(np.where(squares > 0, squares, 1))) @ _sparse().diags(weight[order])
    return _Index(codes[order], has, scaled.T.tocsr())


def _ngrams(rows: Sequence[Row]) -> Iterator[tuple[Ids, Codes]]:
    """Yield the n-grams of each length, with START and END: the numbers of their rows, and their codes."""
    ends = np.cumsum([len(row) + 2 for row in rows], dtype=np.int64)
    tokens = np.array([token for row in rows for token in (START, *row, END)], np.uint64)
    owners = np.repeat(np.arange(len(rows)), np.diff(ends, prepend=0))
    left = ends[owners] - np.arange(len(tokens))  # tokens up to the row's end
    known = tokens != UNKNOWN
    codes, complete = np.zeros_like(tokens), np.ones(len(tokens), bool)
    for length in range(1, _LONGEST + 1):
        last = np.minimum(np.arange(len(tokens)) + length - 1, len(tokens) - 1)
        codes = (codes + tokens[last] + np.uint64(1)) * _ODD
        codes ^= codes >> np.uint64(29)
        complete = complete & known[last] & (left >= length)
        yield owners[complete], codes[complete]


def _sparse() -> Any:
    """Import SciPy's sparse matrices when they are needed: the import changes the filters of warnings."""
    import scipy.sparse

    return scipy.sparse


def _ones(rows: Ids, columns: Ids, shape: tuple[int, int]) -> Any:
    """Return a sparse matrix with ones at these positions, which may repeat."""
    matrix = _sparse().csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def _scaled(matrix: Any, factors: Array) -> Any:
    """Multiply each row of a sparse matrix by its factor."""
    return _sparse().diags(np.asarray(factors, np.float32)) @ matrix


def _largest(matrix: Any, excluded: Iterable[Ids]) -> Ids:
    """Return the first column of each row's largest entry; -1 for rows without an entry above zero."""
    matrix = matrix.tocsr()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    values, columns = matrix.data.copy(), matrix.indices.astype(np.int64)
    for taken in excluded:
        values[columns == taken[rows]] = 0
    best = np.full(matrix.shape[0], -1, np.int64)
    most = np.zeros(matrix.shape[0], values.dtype)
    np.maximum.at(most, rows, values)
    largest = (values == most[rows]) & (values > 0)
    first = np.full(matrix.shape[0], matrix.shape[1], np.int64)
    np.minimum.at(first, rows[largest], columns[largest])
    return np.where(most > 0, first, best)
