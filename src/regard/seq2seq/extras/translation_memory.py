"""What a model has learned from, to look it up: pairs like a source, whose targets are read beside it.

A network keeps what many pairs have in common. What only a few of them say (how one stem is pronounced, what one menu
is called) it can look up instead: of the pairs it learned from, those whose sources are most like the one at hand are
found, their targets stand behind it, and the attention decides what to take from them (Bulte and Tezcan 2019, "Neural
Fuzzy Repair: Integrating Fuzzy Matches into Neural Machine Translation", section 3.2). A pair with just this source is
never among them, so that in training it is as it will be later.

Alike are sources that have sequences of tokens in common, up to six long, ends included; a sequence that few sources
have counts more. With w of a sequence the logarithm of the number of pairs over those that have it::

    likeness(asked, known) = (sum of w over what both have) / sqrt(sum of w^2 over all that known has)

What the first pair shares with the source counts no more for the second, and so on: a second pair explains the rest.

Letters: R sources that are asked about, P pairs, G sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.data.batching import Corpus, EncodedPair
from regard.seq2seq.data.dataset import own_tokens
from regard.seq2seq.data.packing import Row, packed, unpacked
from regard.seq2seq.data.vocabulary import END, START, UNKNOWN

__all__ = ["Memory", "with_memory"]

_LOOKED_UP = 1024  # sources between two signs of progress

Array = NDArray[Any]
Codes = NDArray[np.uint64]
Ids = NDArray[np.int64]

_SIDES = ("sources", "targets")
_LONGEST = 6  # tokens of a sequence
_COMMON = 2000  # a sequence that more pairs have says nothing
_AT_ONCE = 256  # sources
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: codes of different sequences differ


class Memory:
    """The pairs that a model learned from, one for each source.

    Parameters
    ----------
    count : int
        How many of them are read beside a source, at most.
    sources, targets : sequence of sequence of int
        Numbers of their tokens, without START and END; no source comes twice.

    Examples
    --------
    >>> memory = Memory(1, [[5, 6, 7], [8, 9]], [[4, 4], [5]])
    >>> memory.beside([[9, 6, 7], [5, 6, 7]])
    [[(4, 4)], []]
    """

    def __init__(self, count: int, sources: Sequence[Row], targets: Sequence[Row]) -> None:
        self.count, self.sources, self.targets = count, sources, targets

    @classmethod
    def learn(cls, count: int, pairs: Iterable[tuple[Row, Row]]) -> Self:
        """Remember pairs; of those with one source the first.

        Parameters
        ----------
        count : int
            How many are read beside a source.
        pairs : iterable of (source, target)
            Numbers of their tokens.

        Returns
        -------
        Memory
            Of these pairs.
        """
        first: dict[tuple[int, ...], Row] = {}
        for source, target in pairs:
            first.setdefault(tuple(source), target)
        return cls(count, list(first), list(first.values()))

    def beside(self, rows: Sequence[Row]) -> list[list[tuple[int, ...]]]:
        """Find what is read beside sources.

        Parameters
        ----------
        rows : sequence of sequence of int
            The sources' tokens.

        Returns
        -------
        list of list of tuple of int
            For each the targets of up to `count` pairs, that which is most like it first.
        """
        asked = list(dict.fromkeys(map(tuple, rows)))
        found: dict[Row, list[tuple[int, ...]]] = {}
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            for row, pairs in zip(some, self._alike(some), strict=True):
                found[row] = [tuple(self.targets[pair]) for pair in pairs if pair >= 0]
        return [found[tuple(row)] for row in rows]

    def extended(self, rows: Sequence[Row], known: int) -> list[list[int]]:
        """Put what is read beside sources behind them.

        Parameters
        ----------
        rows : sequence of sequence of int
            The sources' tokens.
        known : int
            How many tokens a source knows: the target's are counted from there on.

        Returns
        -------
        list of list of int
            The source, END, and each text that stands beside it, behind START.

        Examples
        --------
        >>> Memory(1, [[5, 6], [7]], [[4, 4], [5]]).extended([[6]], known=10)
        [[6, 2, 1, 14, 14]]
        """
        return [
            [*row, END, *(number for text in texts for number in (START, *(known + token for token in text)))]
            for row, texts in zip(rows, self.beside(rows), strict=True)
        ]

    def _alike(self, rows: Sequence[Row]) -> Ids:
        """Return the pairs (R, count) that are most like sources, -1 where there is none any more."""
        index = self._index
        left = index.find(rows)  # (R, G): what the source has, and no pair before
        taken = [np.array([self._places.get(tuple(row), -1) for row in rows], np.int64)]
        for _ in range(self.count):
            likeness = left @ index.weights  # (R, P)
            best = _largest(likeness, taken)
            if (best < 0).all():
                break
            # Rows of a pair that is not there are those of the first pair, times zero.
            shared = left.multiply(_scaled(index.has[np.maximum(best, 0)], best >= 0))
            left = (left - shared).tocsr()
            taken.append(best)
        return np.stack(taken, axis=1)[:, 1:]

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {tuple(source): place for place, source in enumerate(self.sources)}

    @cached_property
    def _index(self) -> _Index:
        return _index(self.sources)

    def data(self, sizes: Sequence[int]) -> dict[str, bytes]:
        """Return the pairs as bytes: numbers as wide as the largest needs it, END behind each side.

        Parameters
        ----------
        sizes : (int, int)
            How many tokens the source knows, and the target.

        Returns
        -------
        dict of str to bytes
            "sources" and "targets".
        """
        sides = zip(_SIDES, (self.sources, self.targets), sizes, strict=True)
        return {name: packed(rows, size) for name, rows, size in sides}

    def describe(self) -> dict[str, int]:
        """Return the settings, for JSON.

        Returns
        -------
        dict of str to int
            ``{"count": ...}``.
        """
        return {"count": self.count}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], data: Mapping[str, bytes], sizes: Sequence[int]) -> Self:
        """Make a memory of what `describe` and `data` have returned, or a stranger.

        Parameters
        ----------
        settings : mapping
            From `describe`.
        data : mapping of str to bytes
            From `data`.
        sizes : (int, int)
            As for `data`.

        Returns
        -------
        Memory
            The same.

        Raises
        ------
        ValueError
            If they don't fit each other.
        """
        if settings.keys() != {"count"} or type(settings["count"]) is not int or not settings["count"] > 0:
            raise ValueError("count must be a whole number from 1 on")
        if data.keys() != set(_SIDES):
            raise ValueError("it must have sources and targets")
        sources, targets = (
            unpacked(name, data[name], size) for name, size in zip(_SIDES, sizes, strict=True)
        )
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources don't pair up with {len(targets)} targets")
        if len(set(sources)) != len(sources):
            raise ValueError("a source comes twice")
        return cls(settings["count"], sources, targets)


class _Index(NamedTuple):
    """Which pairs have which sequences; those that are too common are left out."""

    codes: Codes  # (G,), sorted
    has: Any  # sparse (P, G) of ones
    weights: Any  # sparse (G, P): what a sequence adds to the likeness

    def find(self, rows: Sequence[Row]) -> Any:
        """Return which sequences (R, G) sources have."""
        parts = [self._known(owners, codes) for owners, codes in _sequences(rows)]
        owners, places = (np.concatenate(side) for side in zip(*parts, strict=True))
        return _ones(owners, places, (len(rows), len(self.codes)))

    def _known(self, owners: Ids, codes: Codes) -> tuple[Ids, Ids]:
        """Return the places of those sequences that pairs have, and whose they are."""
        if not len(self.codes):
            return owners[:0], owners[:0]
        places = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        known = self.codes[places] == codes
        return owners[known], places[known]


def _index(rows: Sequence[Row]) -> _Index:
    squares = np.zeros(len(rows), np.float32)
    parts: list[tuple[Codes, Array, Any]] = []
    for owners, codes in _sequences(rows):  # one length at a time: all at once would take much memory
        found, places = np.unique(codes, return_inverse=True)
        has = _ones(owners, places, (len(rows), len(found)))
        often = np.bincount(has.indices, minlength=len(found))
        weight = np.log(len(rows) / np.maximum(often, 1)).astype(np.float32)
        squares += has @ (weight * weight)
        rare = np.flatnonzero((often <= _COMMON) & (weight > 0))
        parts.append((found[rare], weight[rare], has[:, rare]))
    codes, weight = (np.concatenate(each) for each in ([p[0] for p in parts], [p[1] for p in parts]))
    order = np.argsort(codes)
    has = _sparse().hstack([p[2] for p in parts]).tocsr()[:, order]
    scaled = _scaled(has, 1 / np.sqrt(np.where(squares > 0, squares, 1))) @ _sparse().diags(weight[order])
    return _Index(codes[order], has, scaled.T.tocsr())


def _sequences(rows: Sequence[Row]) -> Iterator[tuple[Ids, Codes]]:
    """Yield all sequences of each length, START and END with them: whose they are, and their codes."""
    ends = np.cumsum([len(row) + 2 for row in rows], dtype=np.int64)
    tokens = np.array([token for row in rows for token in (START, *row, END)], np.uint64)
    owners = np.repeat(np.arange(len(rows)), np.diff(ends, prepend=0))
    left = ends[owners] - np.arange(len(tokens))  # tokens up to the row's end
    named = tokens != UNKNOWN
    codes, whole = np.zeros_like(tokens), np.ones(len(tokens), bool)
    for length in range(1, _LONGEST + 1):
        last = np.minimum(np.arange(len(tokens)) + length - 1, len(tokens) - 1)
        codes = (codes + tokens[last] + np.uint64(1)) * _ODD
        codes ^= codes >> np.uint64(29)
        whole = whole & named[last] & (left >= length)
        yield owners[whole], codes[whole]


def _sparse() -> Any:
    """Return SciPy's sparse matrices, once they are needed: to import them changes the filters of warnings."""
    import scipy.sparse

    return scipy.sparse


def _ones(rows: Ids, columns: Ids, shape: tuple[int, int]) -> Any:
    """Return a sparse matrix with ones at places, however often they are named."""
    matrix = _sparse().csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def _scaled(matrix: Any, by: Array) -> Any:
    """Multiply each row of a sparse matrix by a number."""
    return _sparse().diags(np.asarray(by, np.float32)) @ matrix


def _largest(matrix: Any, but: Iterable[Ids]) -> Ids:
    """Return where each row of a sparse matrix is largest, the first such place; -1 where nothing is above zero."""
    matrix = matrix.tocsr()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    values, places = matrix.data.copy(), matrix.indices.astype(np.int64)
    for taken in but:
        values[places == taken[rows]] = 0
    best = np.full(matrix.shape[0], -1, np.int64)
    most = np.zeros(matrix.shape[0], values.dtype)
    np.maximum.at(most, rows, values)
    largest = (values == most[rows]) & (values > 0)
    first = np.full(matrix.shape[0], matrix.shape[1], np.int64)
    np.minimum.at(first, rows[largest], places[largest])
    return np.where(most > 0, first, best)


def with_memory(corpus: Corpus, memory: Memory, known: int, told: Callable[[int], object]) -> Corpus:
    """Let other pairs' targets be read beside each source.

    Parameters
    ----------
    corpus : Corpus
        As `encode_pairs` numbers it.
    memory : Memory
        What is looked up.
    known : int
        How many tokens the source's side knows; those of targets come after them.
    told : callable
        Called with how many more sources were looked up.

    Returns
    -------
    Corpus
        The same pairs, with longer sources.

    Examples
    --------
    >>> memory = Memory(1, [[5, 6], [7]], [[4, 4], [5]])
    >>> longer = with_memory(Corpus([EncodedPair([6, END], [1, 4, END])]), memory, 10, lambda more: None)
    >>> longer[0].source.tolist()
    [6, 2, 1, 14, 14]
    """

    def extended() -> Iterator[EncodedPair]:
        for start in range(0, len(corpus), _LOOKED_UP):
            some = [corpus[number] for number in range(start, min(start + _LOOKED_UP, len(corpus)))]
            rows = memory.extended([own_tokens(pair)[0] for pair in some], known)
            yield from (pair._replace(source=row) for pair, row in zip(some, rows, strict=True))
            told(len(some))

    return Corpus(extended())
