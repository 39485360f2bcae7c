"""Word alignments: which source word each target word belongs to, from where a network looked; read, written, merged.

A link is a pair (source, target) of word numbers from 0 on; an alignment of a sentence pair is a set of links.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.data.parallel_text import read_lines, remembering

__all__ = [
    "AGREEMENT",
    "METHODS",
    "Gold",
    "agree",
    "joint",
    "links",
    "merge",
    "of_tokens",
    "of_words",
    "parse",
    "read_gold",
    "spell",
    "symmetrise",
    "word_numbers",
]

Array = NDArray[Any]
Link = tuple[int, int]
Links = frozenset[Link]

AGREEMENT = 0.15  # above which two directions agree, where nobody says otherwise
METHODS = ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and")

_LINK = re.compile(r"([0-9]{1,9})([-?p])([0-9]{1,9})(?::([SP]))?", re.ASCII)
_WORD = re.compile("(?:\\S|[\u00a0\u202f])+")  # no-break spaces are in it
# (target, source): beside and above, then the diagonals.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


class Gold(NamedTuple):
    """Links that people have drawn in one sentence pair.

    Parameters
    ----------
    sure : frozenset of (int, int)
        Links that must be there.
    possible : frozenset of (int, int)
        Links that may be there, the sure ones with them.
    """

    sure: Links
    possible: Links


# ---------------------------------------------------------------------------------------------- from weights to links


def links(weights: Array, *, end: bool = True, threshold: float = 0.0) -> Links:
    """Link each target word with the source word that was looked at most.

    Parameters
    ----------
    weights : array (n, T)
        Where each of n target words looked.
    end : bool
        Whether the last source position is the sentence's end: a word that looked there most has no link.
    threshold : float
        A word that looked nowhere more than that has no link.

    Returns
    -------
    frozenset of (source, target)
        One link a target word at most. Of equal weights the first counts.

    Raises
    ------
    ValueError
        If the weights are no such array.

    Examples
    --------
    >>> sorted(links(np.array([[0.1, 0.8, 0.1], [0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])))
    [(0, 1), (1, 0)]
    """
    if weights.ndim != 2:
        _check.fail(f"weights must have shape (n, T). Got shape {weights.shape} instead.")
    words = weights.shape[1] - end
    if words < 1:
        return frozenset()
    looked = weights.argmax(axis=1)
    counts = (looked < words) & (np.take_along_axis(weights, looked[:, None], axis=1)[:, 0] > threshold)
    return frozenset((int(looked[j]), j) for j in np.flatnonzero(counts).tolist())


def word_numbers(tokens: Sequence[str], glue: Callable[[Sequence[str]], str]) -> list[int]:
    """Return for each token the number of the word it is a part of, where blanks part words; -1 for what says nothing.

    Any blank of Unicode's parts words, but not a no-break space, which keeps a sign with its word.

    Parameters
    ----------
    tokens : sequence of str
        Words, signs, pieces of words, or characters.
    glue : callable
        Puts tokens together to text.

    Returns
    -------
    list of int
        As many as tokens.

    Examples
    --------
    >>> word_numbers(["un", "be", " ", "a"], "".join)
    [0, 0, -1, 1]
    """
    numbers: list[int] = []
    before: list[str] = []
    for i in range(1, len(tokens) + 1):
        words = _WORD.findall(glue(tokens[:i]))
        numbers.append(len(words) - 1 if words != before else -1)
        before = words
    return numbers


def of_words(found: Iterable[Link], source: Sequence[int], target: Sequence[int]) -> Links:
    """Return the links between words, of links between their tokens: words are linked where any of their tokens are.

    Parameters
    ----------
    found : iterable of (int, int)
        Links between tokens.
    source, target : sequence of int
        The word that each token is a part of, as `word_numbers` gives it; -1 for none.

    Returns
    -------
    frozenset of (source, target)
        Links between words.

    References
    ----------
    Zenkel, Wuebker and DeNero 2019, "Adding Interpretable Attention to Neural Translation Models Improves Word
    Alignment", section 5.

    Examples
    --------
    >>> sorted(of_words({(0, 0), (1, 1), (2, 1)}, [0, 0, 1], [0, 0]))
    [(0, 0), (1, 0)]
    """
    words = {(source[i], target[j]) for i, j in found}
    return frozenset(link for link in words if min(link) >= 0)


def of_tokens(found: Iterable[Link], source: Sequence[int], target: Sequence[int]) -> Links:
    """Return the links between tokens, of links between words: all tokens of linked words are linked.

    Parameters
    ----------
    found : iterable of (int, int)
        Links between words.
    source, target : sequence of int
        The word that each token is a part of, as `word_numbers` gives it; -1 for none.

    Returns
    -------
    frozenset of (source, target)
        Links between tokens.

    Examples
    --------
    >>> sorted(of_tokens({(0, 0), (1, 0)}, [0, 0, -1, 1], [0]))
    [(0, 0), (1, 0), (3, 0)]
    """
    rows, columns = _tokens_of(source), _tokens_of(target)
    return frozenset(
        (i, j) for one, other in found for i in rows.get(one, ()) for j in columns.get(other, ())
    )


def _tokens_of(words: Sequence[int]) -> dict[int, list[int]]:
    """Return the tokens of each word."""
    found: dict[int, list[int]] = {}
    for i, word in enumerate(words):
        if word >= 0:
            found.setdefault(word, []).append(i)
    return found


def merge(weights: Array, source: Sequence[int], target: Sequence[int]) -> Array:
    """Return weights between words, of weights between their tokens: sums over a source word, means over a target's.

    Parameters
    ----------
    weights : array (n, T)
        Where each target token looked.
    source, target : sequence of int
        The word that each token is a part of, -1 for none; positions of T beyond those of source stay as they are.

    Returns
    -------
    array
        A row for each target word, a column for each source word, then the columns beyond.

    References
    ----------
    Clark et al. 2019, "What Does BERT Look At?", section 4.1.

    Examples
    --------
    >>> merge(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), [0, 0], [0, 0])
    array([[0.5, 0.5]])
    """
    columns = [*source, *range(max(source, default=-1) + 1, max(source, default=-1) + 1 + weights.shape[1])]
    columns = columns[: weights.shape[1]]
    sums = np.zeros((weights.shape[0], max(columns, default=-1) + 1), weights.dtype)
    for i, word in enumerate(columns):
        if word >= 0:
            sums[:, word] += weights[:, i]
    rows = [[j for j, own in enumerate(target) if own == word] for word in range(max(target, default=-1) + 1)]
    return np.array([sums[row].mean(axis=0) for row in rows]).reshape(len(rows), sums.shape[1])


def agree(forward: Array, backward: Array, *, threshold: float = AGREEMENT) -> Links:
    """Link what both directions look at: ``sqrt(forward_ji backward_ij)`` above a threshold.

    Unlike links that each direction has chosen for itself, weak looks count where the other direction's are strong.

    Parameters
    ----------
    forward : array (n, m + 1)
        Where each of n target words looked among m source words and the end.
    backward : array (m, n + 1)
        Where each source word looked, from the model of the other direction.
    threshold : float
        From 0 to 1.

    Returns
    -------
    frozenset of (source, target)
        Any number of links for each word.

    Raises
    ------
    ValueError
        If the two are not of one pair.

    References
    ----------
    Liang, Taskar and Klein 2006, "Alignment by Agreement" (the product of both directions' posteriors).

    Examples
    --------
    >>> forward = np.array([[0.5, 0.4, 0.1], [0.1, 0.8, 0.1]])
    >>> backward = np.array([[0.9, 0.0, 0.1], [0.1, 0.8, 0.1]])
    >>> sorted(agree(forward, backward))
    [(0, 0), (1, 0), (1, 1)]
    >>> sorted(agree(forward, backward, threshold=0.3))
    [(0, 0), (1, 1)]
    """
    return frozenset((i, j) for j, i in np.argwhere(joint(forward, backward) > threshold).tolist())


def joint(forward: Array, backward: Array) -> Array:
    """Return how much two directions look at each link together: ``sqrt(forward_ji backward_ij)``.

    ``links(joint(forward, backward), end=False)`` links every target word with what both look at most.

    Parameters
    ----------
    forward, backward : array
        As for `agree`.

    Returns
    -------
    array (n, m)
        From 0 to 1.

    Raises
    ------
    ValueError
        If the two are not of one pair.

    References
    ----------
    Liang, Taskar and Klein 2006, "Alignment by Agreement".

    Examples
    --------
    >>> both = joint(np.array([[0.5, 0.4, 0.1]]), np.array([[0.9, 0.1], [0.1, 0.9]]))
    >>> both.round(2).tolist(), links(both, end=False)
    ([[0.67, 0.2]], frozenset({(0, 0)}))
    """
    n, m = len(forward), len(backward)
    if forward.shape != (n, m + 1) or backward.shape != (m, n + 1):
        _check.fail(
            "forward and backward must have shapes (n, m + 1) and (m, n + 1). "
            f"Got {forward.shape} and {backward.shape} instead."
        )
    both: Array = np.sqrt(forward[:, :m] * backward[:, :n].T)
    return both


# ------------------------------------------------------------------------------------------------- Pharaoh's format


def spell(found: Iterable[Link]) -> str:
    """Write links in Pharaoh's format, ``source-target`` with spaces between them.

    Parameters
    ----------
    found : iterable of (int, int)
        Links.

    Returns
    -------
    str
        A line, in the order of the source.

    Examples
    --------
    >>> spell({(1, 2), (0, 0)})
    '0-0 1-2'
    """
    return " ".join(f"{source}-{target}" for source, target in sorted(found))


def parse(line: str, *, first: int = 0) -> Gold:
    """Read links in Pharaoh's format.

    Sure links are written ``1-2``. Links that are only possible are ``1?2`` or ``1p2``, or ``1-2:P`` beside ``1-2:S``.

    Parameters
    ----------
    line : str
        Links with spaces between them.
    first : int
        The number of the first word in them, 0 or 1.

    Returns
    -------
    Gold
        Links from 0 on.

    Raises
    ------
    ValueError
        If something else is in the line.

    Examples
    --------
    >>> gold = parse("0-0 1?2")
    >>> sorted(gold.sure), sorted(gold.possible)
    ([(0, 0)], [(0, 0), (1, 2)])
    """
    sure, possible = set(), set()
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            _check.fail(f"a link must be like 0-0 or 0?0. Got {word[:40]!r} instead.")
        link = int(match[1]) - first, int(match[3]) - first
        if min(link) < 0:
            _check.fail(f"a link must count words from {first} on. Got {word!r} instead.")
        possible.add(link)
        if match[2] == "-" and match[4] != "P":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def read_gold(path: str | os.PathLike[str], *, first: int = 0) -> list[Gold]:
    """Read a file in Pharaoh's format, one sentence pair a line.

    Parameters
    ----------
    path : str or path
        UTF-8, packed with gzip or not; an empty line is a pair without links.
    first : int
        The number of the first word in it, 0 or 1.

    Returns
    -------
    list of Gold
        One for each line.

    Raises
    ------
    ValueError
        With the line's number, if it has anything but links.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "gold.txt")
    ...     _ = file.write_text("0-0 1?1\\n")
    ...     [spell(gold.possible) for gold in read_gold(file)]
    ['0-0 1-1']
    """
    return list(_golds(os.fspath(path), first))


def _golds(name: str, first: int) -> Iterator[Gold]:
    shared: Callable[[str], Gold] = remembering(partial(parse, first=first))
    for number, line in enumerate(chain.from_iterable(read_lines(name)), 1):
        try:
            yield shared(line)
        except ValueError as error:
            raise ValueError(f"{name}, line {number}: {error}") from None


# ------------------------------------------------------------------------------------------------ of two directions


def symmetrise(
    forward: Collection[Link], backward: Collection[Link], method: str = "grow-diag-final-and"
) -> Links:
    """Make one alignment of two, each of which was found in another direction.

    *intersection* keeps the links of both, *union* those of any. *grow-diag* begins with the intersection and takes in,
    until there are no more, links of the union that touch a taken one, diagonally too, if one of their two words has no
    link yet. *final* then takes in the other links, first of forward and then of backward, if one of their two words
    has no link yet; *final-and*, if neither has. Links are visited by their target word, then by their source word.

    Parameters
    ----------
    forward : collection of (int, int)
        Links (source, target), of a model that translates from source to target.
    backward : collection of (int, int)
        Links (source, target), of a model that translates from target to source.
    method : {"intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"}
        How.

    Returns
    -------
    frozenset of (source, target)
        The links.

    Raises
    ------
    ValueError
        If there is no such method.

    References
    ----------
    Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", section 5; Koehn, Och and Marcu
    2003, "Statistical Phrase-Based Translation", section 3.1.

    Examples
    --------
    >>> spell(symmetrise({(0, 0), (1, 1), (2, 1)}, {(0, 0), (2, 1)}, "intersection"))
    '0-0 2-1'
    >>> spell(symmetrise({(0, 0), (1, 1), (2, 1)}, {(0, 0), (2, 1)}, "grow-diag"))
    '0-0 1-1 2-1'
    """
    _check.choice("method", method, METHODS)
    one, two = frozenset(forward), frozenset(backward)
    if method == "intersection":
        return one & two
    if method == "union":
        return one | two
    grown = _Growing(one & two)
    grown.grow(one | two)
    if method != "grow-diag":
        for direction in (one, two):
            grown.finish(direction, both=method == "grow-diag-final-and")
    return frozenset(grown.links)


def _by_target(found: Iterable[Link]) -> list[Link]:
    return sorted(found, key=lambda link: (link[1], link[0]))


class _Growing:
    """Links that become more, and which words have some."""

    def __init__(self, begun: Iterable[Link]) -> None:
        self.links: set[Link] = set()
        self.sources: set[int] = set()
        self.targets: set[int] = set()
        for link in begun:
            self.add(link)

    def add(self, link: Link) -> None:
        """Take a link in."""
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def free(self, link: Link) -> int:
        """Count which of its two words have no link yet."""
        return (link[0] not in self.sources) + (link[1] not in self.targets)

    def grow(self, union: Links) -> None:
        """Take in neighbours of what is there, until there are no more."""
        order, before = _by_target(union), -1
        while len(self.links) != before:
            before = len(self.links)
            for link in order:
                if link in self.links:
                    self._grow_from(link, union)

    def _grow_from(self, link: Link, union: Links) -> None:
        for target, source in _NEIGHBOURS:
            near = link[0] + source, link[1] + target
            if near in union and self.free(near):
                self.add(near)

    def finish(self, direction: Links, *, both: bool) -> None:
        """Take in what is left of one direction."""
        for link in _by_target(direction):
            if self.free(link) > both:
                self.add(link)
