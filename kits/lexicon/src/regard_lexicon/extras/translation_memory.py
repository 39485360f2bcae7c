"""A translation memory: the training pairs whose sources are most similar to a source, appended to it.

A network keeps what many pairs have in common. What only a few of them show (how one stem is pronounced, the name of
one menu) it can retrieve instead: the training pairs with the most similar sources are retrieved, their targets are
appended to the source, and attention selects from them (Bulte and Tezcan 2019, "Neural Fuzzy Repair:
Integrating Fuzzy Matches into Neural Machine Translation", section 3.2). A pair with an identical source is never
retrieved, so that training and translating see the same.

Sources are similar if they share n-grams of up to six tokens, START and END included; n-grams of few sources count
more. With the weight w of an n-gram, the logarithm of the number of pairs over the number of pairs that have it::

    similarity(query, known) = (sum of w over the n-grams of both) / sqrt(sum of w^2 over all n-grams of known)

N-grams that the first retrieved pair shares with the source don't count for the second, and so on.

Letters: R queries, P pairs, G n-grams.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._once import computed_once
from regard._threads import two_threads
from regard.kernels.nearest import nearest
from regard.seq2seq.corpus.packing import Row, Rows, unpacked, width
from regard.seq2seq.extras.base import Progress, SourceAugmenter
from regard.seq2seq.sources.text.vocabulary import END, START, UNKNOWN
from regard_lexicon.extras.suffixes import LONGEST, Suffixes, joined

__all__ = ["TranslationMemory"]

Array = NDArray[Any]
Codes = NDArray[np.uint64]
Ids = NDArray[np.int64]

_SIDES = ("sources", "targets")
_COMMON = 2000  # an n-gram of more pairs is ignored
_BATCH = 1024  # queries
_ROWS = 8192  # sequences whose weights are summed at a time
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: codes of different n-grams differ


class TranslationMemory(SourceAugmenter):
    """Retrieve the targets of training pairs with similar sources.

    `count`: the largest number of pairs for a source; `sources`, `targets`: ids of their tokens, without START and
    END; sources are distinct.
    """

    def __init__(self, count: int, sources: Sequence[Row], targets: Sequence[Row]) -> None:
        self.count = count
        self.sources, self.targets = (
            side if isinstance(side, Rows) else Rows.of(side) for side in (sources, targets)
        )

    @property
    def option(self) -> int:
        """The largest number of pairs for a source."""
        return self.count

    @classmethod
    def learn(
        cls,
        option: int,
        pairs: Iterable[tuple[Row, Row]],
        sizes: tuple[int, int] = (0, 0),
        progress: Progress | None = None,
    ) -> Self:
        """Store pairs; of those with the same source the first.

        `option`: the largest number of pairs for a source; `pairs`: ids of their tokens; `sizes`, `progress`: not used.
        """
        first: dict[tuple[int, ...], Row] = {}
        for source, target in pairs:
            first.setdefault(tuple(source), target)
        return cls(option, Rows.of(list(first)), Rows.of(list(first.values())))

    def retrieve(self, sources: Sequence[Row]) -> list[list[tuple[int, ...]]]:
        """Retrieve the targets of similar pairs.

        `sources`: the queries' tokens.
        """
        queries = sorted(set(map(tuple, sources)))  # neighbours share n-grams
        batches = [queries[start : start + _BATCH] for start in range(0, len(queries), _BATCH)]
        retrieved: dict[Row, list[tuple[int, ...]]] = {}
        for batch, found in zip(batches, self._all_similar(batches), strict=True):
            for query, pairs in zip(batch, found.tolist(), strict=True):
                retrieved[query] = [self.targets[pair] for pair in pairs if pair >= 0]
        return [retrieved[tuple(source)] for source in sources]

    def extend(self, sources: Sequence[Row], size: int) -> list[list[int]]:
        """Append retrieved targets to sources.

        `sources`: their tokens; `size`: the number of tokens in the source's vocabulary; ids of the target's start
        there.
        """
        rows = [[*source, END] for source in sources]
        for row, targets in zip(rows, self.retrieve(sources), strict=True):
            for target in targets:
                row.append(START)
                row.extend([size + token for token in target])
        return rows

    def _all_similar(self, batches: Sequence[Sequence[Row]]) -> list[Ids]:
        """Return the `_similar` pairs of each batch, on two threads; the first makes what all need."""
        first = [self._similar(batch) for batch in batches[:1]]
        if len(batches) < 3:
            return first + [self._similar(batch) for batch in batches[1:]]
        with two_threads() as threads:
            futures = [threads[i % 2].submit(self._similar, batch) for i, batch in enumerate(batches[1:])]
            return first + [future.result() for future in futures]

    def _similar(self, queries: Sequence[Row]) -> Ids:
        """Return the pairs (R, count) that are most similar to queries, -1 after the last."""
        grams, excluded = self._grams(queries), self.sources.places(queries)
        starts, columns = grams.find(queries)
        found = nearest(
            self.count,
            text=self._suffixes.text,
            starts=np.append(self._suffixes.starts, len(self._suffixes.text)),
            row=starts,
            grams=columns,
            first=grams.first,
            stop=grams.stop,
            lengths=grams.lengths,
            weights=grams.weights,
            entries=self._suffixes.entries,
            owners=self._suffixes.owners,
            scales=self._scales,
            excluded=excluded,
        )
        return self._similar_by_products(grams, queries, excluded) if found is None else found

    def _similar_by_products(self, grams: _Grams, queries: Sequence[Row], excluded: Ids) -> Ids:
        """Return the most similar pairs as the library does, in SciPy."""
        numbers, owners = self._suffixes.entries_of(grams.first, grams.stop, grams.lengths)
        starts = np.searchsorted(numbers, np.arange(len(grams.codes) + 1))
        values = self._scales[owners] * grams.weights[numbers]
        shape = len(grams.codes), len(self.sources)
        weights = _sparse().csr_matrix((values, owners, starts), shape)  # contributions to the similarity
        left = grams.matrix(queries)  # (R, G): n-grams of the query that no retrieved pair has
        taken = [excluded]
        for _ in range(self.count):
            best = _largest(left @ weights, taken)
            retrieved = [self.sources[pair] if pair >= 0 else () for pair in best]
            left = (left - left.multiply(grams.matrix(retrieved))).tocsr()
            taken.append(best)
        return np.stack(taken, axis=1)[:, 1:]

    @computed_once
    def _suffixes(self) -> Suffixes:
        tokens = self.sources.tokens
        return Suffixes.of(joined(tokens.astype(np.min_scalar_type(tokens.max()))))

    @computed_once
    def _scales(self) -> Array:
        return _scales(self._suffixes)

    def _grams(self, queries: Sequence[Row]) -> _Grams:
        """Return the n-grams of queries that are in pairs, without those that are too common."""
        suffixes, pairs = self._suffixes, len(self.sources)
        text = _text(queries)
        parts = []
        for length, ((places, codes), (first, stop)) in enumerate(
            zip(_ngrams(text), suffixes.find(text), strict=True), 1
        ):
            known = places[stop[places] > first[places]]
            codes, some = np.unique(codes[stop[places] > first[places]], return_index=True)
            begin, end = first[known[some]], stop[known[some]]
            frequency = suffixes.sequences(begin, end, length)
            weight = np.log(pairs / np.maximum(frequency, 1)).astype(np.float32)
            rare = (frequency <= _COMMON) & (weight > 0)
            lengths = np.full(len(codes), length)
            parts.append([each[rare] for each in (codes, begin, end, lengths, weight)])
        codes, *others = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(codes)
        return _Grams(codes[order], *(each[order] for each in others))

    def data(self, sizes: tuple[int, int]) -> dict[str, bytes]:
        """Return the pairs and their index.

        "sources" and "targets" are ids as wide as the vocabulary needs, END after each sequence; "order" is that of the
        places of all sources (`suffixes`), and "scales" the reciprocal root of the sum of w^2 for each pair.
        """
        sides = zip(_SIDES, (self.sources, self.targets), sizes, strict=True)
        return {
            **{name: rows.tokens.astype(width(size)).tobytes() for name, rows, size in sides},
            "order": self._suffixes.entries.astype("<u4").tobytes(),
            "scales": self._scales.astype("<f4").tobytes(),
        }

    def describe(self) -> dict[str, Any]:
        """Return the settings, for JSON: ``{"count": ...}``."""
        return {"count": self.count}

    def shared(self) -> object:
        """Return the settings and the pairs: all models of an ensemble have the same."""
        return self.count, *(rows.tokens.tolist() for rows in (self.sources, self.targets))

    @classmethod
    def restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes], sizes: tuple[int, int]) -> Self:
        """Return the memory of `describe` and `data`, which may be untrusted; raise if it is invalid."""
        _check.keys("its settings", settings, ("count",))
        _check.keys("its data", data, (*_SIDES, "order", "scales"))
        sources, targets = (
            unpacked(name, data[name], size) for name, size in zip(_SIDES, sizes, strict=True)
        )
        if len(sources) != len(targets):
            _check.fail(f"{len(sources)} sources don't pair up with {len(targets)} targets")
        if sources.repeats():
            _check.fail("a source occurs twice")
        memory = cls(_check.integer("count", settings["count"], 1), sources, targets)
        text = joined(sources.tokens)
        memory._suffixes = Suffixes.restore(text, data["order"])
        memory._scales = _restored_scales(data["scales"], len(sources))
        return memory


def _restored_scales(data: bytes, count: int) -> Array:
    scales = _check.from_bytes("scales", data, "<f4", (count,))
    _check.finite("scales", scales)
    _check.within("scales", scales, positive=True)
    return scales.astype(np.float32)


class _Grams(NamedTuple):
    """Some n-grams of pairs."""

    codes: Codes  # (G,), sorted
    first: Ids  # (G,): the range of the entries of each
    stop: Ids  # (G,)
    lengths: Ids  # (G,)
    weights: Array  # (G,)

    def find(self, rows: Sequence[Row]) -> tuple[Ids, Ids]:
        """Return the n-grams of sources: where those of each begin (R + 1,), and their numbers, rising in each."""
        text = _text(rows)
        of_place = np.cumsum(text == START) - 1
        parts = [self._known(of_place[places], codes) for places, codes in _ngrams(text)]
        keys = np.unique(np.concatenate(parts))
        numbers, columns = np.divmod(keys, max(len(self.codes), 1))
        return np.searchsorted(numbers, np.arange(len(rows) + 1)), columns

    def _known(self, owners: Ids, codes: Codes) -> Ids:
        """Return the owners of those n-grams that are here, times G, plus their numbers."""
        if not len(self.codes):
            return owners[:0]
        columns = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        known = self.codes[columns] == codes
        keys: Ids = owners[known] * len(self.codes) + columns[known]
        return keys

    def matrix(self, rows: Sequence[Row]) -> Any:
        """Return the n-grams of sources as a sparse matrix (R, G) of ones."""
        starts, columns = self.find(rows)
        ones = np.ones(len(columns), np.float32)
        return _sparse().csr_matrix((ones, columns, starts), (len(rows), len(self.codes)))


def _text(rows: Sequence[Row]) -> Array:
    """Return sequences one after another, each from START to END."""
    return np.array([token for row in rows for token in (START, *row, END)], np.int64)


def _ngrams(text: Array) -> Iterator[tuple[Ids, Codes]]:
    """Yield the n-grams of 1 token, of 2 and so on, in sequences from START to END: their places, and their codes."""
    ends = np.flatnonzero(text == END)
    left = np.repeat(ends + 1, np.diff(ends, prepend=-1)) - np.arange(
        len(text)
    )  # tokens up to the sequence's end
    tokens, known = text.astype(np.uint64), text != UNKNOWN
    codes, complete = np.zeros_like(tokens), np.ones(len(tokens), bool)
    for length in range(1, LONGEST + 1):
        last = np.minimum(np.arange(len(tokens)) + length - 1, len(tokens) - 1)
        codes = (codes + tokens[last] + np.uint64(1)) * _ODD
        codes ^= codes >> np.uint64(29)
        complete = complete & known[last] & (left >= length)
        places = np.flatnonzero(complete)
        yield places, codes[places]


def _scales(suffixes: Suffixes) -> Array:
    """Return the reciprocal root of the sum of w^2 over the n-grams of each sequence (P,), or 1.

    float32 sums depend on the order, which is that of the codes.
    """
    text, pairs = suffixes.text, len(suffixes.starts)
    squares = np.zeros(pairs, np.float32)
    widths = suffixes.ends - suffixes.starts
    for length, ((places, codes), (counts, first)) in enumerate(
        zip(_ngrams(text), suffixes.by_place(), strict=True), 1
    ):
        weight = np.log(pairs / np.maximum(counts, 1)).astype(np.float32)
        square, code = np.zeros(len(text), np.float32), np.zeros(len(text), np.uint64)
        square[places], code[places] = (weight * weight)[places], codes
        square[~first] = 0
        for rows in _alike(widths, length):
            at = suffixes.starts[rows][:, None] + np.arange(widths[rows[0]] - length + 1)
            order = np.argsort(code[at], axis=1, kind="stable")
            total = squares[rows] * 0
            for column in np.take_along_axis(square[at], order, axis=1).T:
                total += column
            squares[rows] += total
    return (1 / np.sqrt(np.where(squares > 0, squares, 1))).astype(np.float32)


def _alike(widths: Ids, least: int) -> Iterator[Ids]:
    """Yield the numbers of some sequences of the same length."""
    order = np.argsort(widths, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(widths[order])) + 1):
        if widths[same[0]] >= least:
            for begin in range(0, len(same), _ROWS):
                yield same[begin : begin + _ROWS]


def _sparse() -> Any:
    """Import SciPy's sparse matrices when they are needed: the import changes the filters of warnings."""
    import scipy.sparse

    return scipy.sparse


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
