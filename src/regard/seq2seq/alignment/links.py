"""Word alignments: links from attention weights, between tokens or words, and in Pharaoh's format.

A link is a pair (source, target) of positions from 0 on; an alignment of a sentence pair is a set of links.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._lines import file_lines, memoized

__all__ = [
    "Gold",
    "copies",
    "links",
    "merge",
    "of_tokens",
    "of_words",
    "parse",
    "read_gold",
    "spell",
    "word_numbers",
]

Array = NDArray[Any]
Link = tuple[int, int]
Links = frozenset[Link]

_LEAST_WEIGHT = 1e-30  # in place of 0, so that a word without weight can be assigned
_LINK = re.compile(r"([0-9]{1,9})([-?p])([0-9]{1,9})(?::([SP]))?", re.ASCII)
_WORD = re.compile("(?:\\S|[\u00a0\u202f])+")  # no-break spaces are in it


class Gold(NamedTuple):
    """Reference links of one sentence pair.

    `sure`: links that an alignment must have; `possible`: links that an alignment may have, the sure ones included.
    """

    sure: Links
    possible: Links


# ---------------------------------------------------------------------------------------------- from weights to links


def links(weights: Array, *, end: bool = True, threshold: float = 0.0) -> Links:
    """Link each target position with the source position of the largest weight.

    Parameters
    ----------
    weights : array (n, T)
        Attention weights of n target positions, such as `Translation.alignment`.
    end : bool
        Whether the last source position is the end of the sentence, which is never linked.
    threshold : float
        Weights up to this make no link.

    Returns
    -------
    frozenset of (source, target)
        At most one link for each target position; of equal weights the first counts.

    Raises
    ------
    ValueError
        If `weights` is not a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> weights = np.array([[0.1, 0.7, 0.2], [0.8, 0.1, 0.1], [0.2, 0.2, 0.6]])
    >>> sorted(links(weights))  # the last target position attends to the end
    [(0, 1), (1, 0)]
    """
    _check.dimensions(weights=(weights, "(n, T)"))
    words = weights.shape[1] - end
    if words < 1:
        return frozenset()
    best = weights.argmax(axis=1)
    linked = (best < words) & (np.take_along_axis(weights, best[:, None], axis=1)[:, 0] > threshold)
    return frozenset((int(best[j]), j) for j in np.flatnonzero(linked).tolist())


def copies(weights: Array, unknown: NDArray[np.bool_]) -> list[int]:
    """Choose the unknown source word that each unknown target word copies, by attention weight.

    Each source word is copied at most once; the assignment with the largest product of weights is taken. A network
    reads all unknown words as the same token, so its weights hardly distinguish them. Therefore two neighbouring
    unknown words change their order only where the product is more than e times as large.

    `weights` (n, m): attention weights of n unknown target words over m source words, without the end of the
    sentence; `unknown` (m,): which source words are not in the vocabulary; at least n of them.
    """
    sources = np.flatnonzero(unknown)
    if len(weights) == 1:
        return [int(sources[weights[0, sources].argmax()])]
    from scipy.optimize import linear_sum_assignment

    logs = np.log(np.maximum(weights[:, sources], _LEAST_WEIGHT, dtype=np.float64))
    middles = [(np.arange(count) + 0.5) / count for count in logs.shape]
    logs -= 0.5 * min(logs.shape) * np.abs(np.subtract.outer(*middles))
    _, columns = linear_sum_assignment(logs, maximize=True)
    return [int(source) for source in sources[columns]]


def word_numbers(tokens: Sequence[str], detokenize: Callable[[Sequence[str]], str]) -> list[int]:
    """Return the number of each token's word, between spaces; -1 for a token that belongs to none.

    Any white space of Unicode separates words, except no-break spaces, which join a sign to its word.

    `tokens`: words, signs, subwords, or characters; `detokenize`: joins tokens to text.
    """
    if _WORD.findall(detokenize(tokens)) == list(tokens):  # fast path: each is a word
        return list(range(len(tokens)))
    numbers: list[int] = []
    before: list[str] = []
    for i in range(1, len(tokens) + 1):
        words = _WORD.findall(detokenize(tokens[:i]))
        numbers.append(len(words) - 1 if words != before else -1)
        before = words
    return numbers


def of_words(pairs: Iterable[Link], source: Sequence[int], target: Sequence[int]) -> Links:
    """Convert links between tokens to links between words, which are linked if any of their tokens are.

    `pairs`: links between tokens; `source`, `target`: the word of each token, as `word_numbers` returns it; -1 for
    none. Returns frozenset of (source, target): links between words.

    Zenkel, Wuebker and DeNero 2019, "Adding Interpretable Attention to Neural Translation Models Improves Word
    Alignment", section 5.
    """
    words = {(source[i], target[j]) for i, j in pairs}
    return frozenset(link for link in words if min(link) >= 0)


def of_tokens(pairs: Iterable[Link], source: Sequence[int], target: Sequence[int]) -> Links:
    """Convert links between words to links between tokens: all tokens of linked words are linked.

    `pairs`: links between words; `source`, `target`: the word of each token, as `word_numbers` returns it; -1 for
    none. Returns frozenset of (source, target): links between tokens.
    """
    rows, columns = _tokens_of(source), _tokens_of(target)
    return frozenset(
        (i, j) for word, other in pairs for i in rows.get(word, ()) for j in columns.get(other, ())
    )


def _tokens_of(words: Sequence[int]) -> dict[int, list[int]]:
    """Return the tokens of each word."""
    tokens: dict[int, list[int]] = {}
    for i, word in enumerate(words):
        if word >= 0:
            tokens.setdefault(word, []).append(i)
    return tokens


def merge(weights: Array, source: Sequence[int], target: Sequence[int]) -> Array:
    """Convert weights between tokens to weights between words: sums over source tokens, means over target tokens.

    `weights` (n, T): attention weights of n target tokens; `source`, `target`: the word of each token, -1 for none;
    positions of T after those of source stay as they are. Returns array: a row for each target word, a column for
    each source word, then the remaining columns.

    Clark et al. 2019, "What Does BERT Look At?", section 4.1.
    """
    columns = [*source, *range(max(source, default=-1) + 1, max(source, default=-1) + 1 + weights.shape[1])]
    columns = columns[: weights.shape[1]]
    sums = np.zeros((weights.shape[0], max(columns, default=-1) + 1), weights.dtype)
    words = np.array(columns, np.int64)
    np.add.at(sums.T, words[words >= 0], weights.T[words >= 0])
    rows = np.array(target, np.int64)
    counts = np.bincount(rows[rows >= 0]).astype(weights.dtype)
    means: Array = np.zeros((len(counts), sums.shape[1]), weights.dtype)
    np.add.at(means, rows[rows >= 0], sums[rows >= 0])
    means /= counts[:, None]
    return means


# ------------------------------------------------------------------------------------------------- Pharaoh's format


def spell(pairs: Iterable[Link]) -> str:
    """Format links as a line in Pharaoh's format, ``source-target`` separated by spaces.

    `pairs`: links.
    """
    return " ".join(f"{source}-{target}" for source, target in sorted(pairs))


def parse(line: str) -> Gold:
    """Parse a line in Pharaoh's format.

    Sure links are written ``1-2`` or ``1-2:S``, links that are only possible ``1?2``, ``1p2`` or ``1-2:P``.

    `line`: links separated by spaces.
    """
    sure, possible = set(), set()
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            _check.fail(f"a link must be like 0-0 or 0?0. Got {word[:40]!r} instead.")
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-" and match[4] != "P":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def read_gold(path: str | os.PathLike[str]) -> list[Gold]:
    """Read a file in Pharaoh's format, one sentence pair a line.

    `path`: UTF-8, compressed with gzip or not; an empty line is a pair without links.
    """
    return list(_golds(os.fspath(path)))


def _golds(name: str) -> Iterator[Gold]:
    shared: Callable[[str], Gold] = memoized(parse)
    with file_lines(name) as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield shared(line)
            except ValueError as error:
                _check.fail(f"{name}, line {number}: {error}")
