"""Alignments of two directions, merged into one."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.alignment.links import Link, Links

__all__ = ["METHODS", "posterior_product", "symmetrize"]

Array = NDArray[Any]

METHODS = ("intersection", "grow-diag-final-and")
# (target, source): horizontal and vertical neighbours, then the diagonals.
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def posterior_product(forward: Array, backward: Array) -> Array:
    """Return the geometric mean of the weights of two directions, ``sqrt(forward_ji backward_ij)``.

    ``links(posterior_product(forward, backward), end=False)`` links every target word with the source word on which
    both directions agree most.

    `forward` (n, m + 1): attention weights of n target words over m source words and the end; `backward` (m, n + 1):
    those of the source words, from the model of the other direction. Returns array (n, m): from 0 to 1.

    Liang, Taskar and Klein 2006, "Alignment by Agreement" (the product of the posteriors of both directions).
    """
    n, m = len(forward), len(backward)
    if forward.shape != (n, m + 1) or backward.shape != (m, n + 1):
        _check.fail(
            "forward and backward must have shapes (n, m + 1) and (m, n + 1). "
            f"Got {forward.shape} and {backward.shape} instead."
        )
    product: Array = np.sqrt(forward[:, :m] * backward[:, :n].T)
    return product


def symmetrize(
    forward: Collection[Link], backward: Collection[Link], method: str = "grow-diag-final-and"
) -> Links:
    """Merge the alignments of two directions.

    *intersection* has the links of both. *grow-diag-final-and* starts with them and adds links of either direction
    that touch an added one, also diagonally, if one of their two words has no link yet, until there are no more. Then
    it adds the other links, first of forward and then of backward, if neither of their words has a link yet. Links are
    visited by their target word, then by their source word.

    Parameters
    ----------
    forward : collection of (source, target)
        Links of a model that translates from source to target.
    backward : collection of (source, target)
        Links of a model that translates from target to source, also as (source, target).
    method : {"grow-diag-final-and", "intersection"}
        The heuristic.

    Returns
    -------
    frozenset of (source, target)
        The links.

    Raises
    ------
    ValueError
        If the method is unknown.

    References
    ----------
    Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", section 5; Koehn, Och and
    Marcu 2003, "Statistical Phrase-Based Translation", section 3.1.

    Examples
    --------
    >>> sorted(symmetrize({(0, 0), (1, 1)}, {(0, 0), (1, 2)}))
    [(0, 0), (1, 1), (1, 2)]
    >>> sorted(symmetrize({(0, 0), (1, 1)}, {(0, 0), (1, 2)}, "intersection"))
    [(0, 0)]
    """
    _check.choice("method", method, METHODS)
    ahead, back = frozenset(forward), frozenset(backward)
    if method == "intersection":
        return ahead & back
    grown = _Alignment(ahead & back)
    grown.grow_diag(ahead | back)
    for direction in (ahead, back):
        grown.final_and(direction)
    return frozenset(grown.links)


def _by_target(links: Iterable[Link]) -> list[Link]:
    return sorted(links, key=lambda link: (link[1], link[0]))


class _Alignment:
    """A growing set of links, and the words that they link."""

    def __init__(self, links: Iterable[Link]) -> None:
        self.links: set[Link] = set()
        self.sources: set[int] = set()
        self.targets: set[int] = set()
        for link in links:
            self.add(link)

    def add(self, link: Link) -> None:
        """Add a link."""
        self.links.add(link)
        self.sources.add(link[0])
        self.targets.add(link[1])

    def unlinked(self, link: Link) -> int:
        """Count which of a link's two words have no link yet."""
        return (link[0] not in self.sources) + (link[1] not in self.targets)

    def grow_diag(self, union: Links) -> None:
        """Add neighbours of links, until there are no more."""
        order, before = _by_target(union), -1
        while len(self.links) != before:
            before = len(self.links)
            for link in order:
                if link in self.links:
                    self._add_neighbours(link, union)

    def _add_neighbours(self, link: Link, union: Links) -> None:
        for target, source in _NEIGHBOURS:
            neighbour = link[0] + source, link[1] + target
            if neighbour in union and self.unlinked(neighbour):
                self.add(neighbour)

    def final_and(self, direction: Links) -> None:
        """Add the links of one direction between words that both have none."""
        for link in _by_target(direction):
            if self.unlinked(link) == 2:
                self.add(link)
