"""The end of every network in a search: from what is known before a word to the likeliest words.

Letters: N rows, E numbers of a readout, V words of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.kernels import training
from regard.kernels.matrix import multiply

__all__ = ["Output", "Tops", "sums", "tops"]

Array = NDArray[Any]
Ids = NDArray[np.int64]

_NEAR = 1 << 16  # numbers that stay in a near cache
_ROWS = 1 << 20  # logits at a time
_GROUPS = 256  # of words; the largest logit of each says what the best of all must reach


class Tops(NamedTuple):
    """The largest logits of N rows.

    Parameters
    ----------
    sums : array (N, 2)
        Each row's largest logit, and the sum of exponentials of all, counted from there.
    best : array (N, count)
        The largest, in falling order; -inf where there are no more.
    words : integer array (N, count)
        Which words they are of; of equals the first word comes first.
    """

    sums: Array
    best: Array
    words: Ids


def tops(logits: Array, count: int, first: int = 0) -> Tops:
    """Find the largest logits of each row.

    Parameters
    ----------
    logits : array (N, V)
        Numbers; where there are others, they are seen in the sums.
    count : int
        How many are wanted.
    first : int
        Words before this one may be in the sums only.

    Returns
    -------
    Tops
        Of each row.

    Examples
    --------
    >>> found = tops(np.array([[9.0, 1.0, 3.0, 2.0]]), 2, first=1)
    >>> found.best.tolist(), found.words.tolist()
    ([[3.0, 2.0]], [[2, 3]])
    """
    if (found := training.tops(logits, count, first)) is not None:
        return Tops(*found)
    best, words = _largest(logits[:, first:], count)
    return Tops(sums(logits), best, words + first)


def sums(logits: Array) -> Array:
    """Sum up exponentials.

    Parameters
    ----------
    logits : array (N, V)
        Numbers.

    Returns
    -------
    array (N, 2)
        As in `Tops`.

    Examples
    --------
    >>> sums(np.array([[5.0, 5.0, -np.inf]])).tolist()
    [[5.0, 2.0]]
    """
    if (found := training.tops(logits, 1)) is not None:
        return found[0]
    made = np.empty((len(logits), 2), logits.dtype)
    few = max(1, _NEAR // logits.shape[1])
    with np.errstate(invalid="ignore"):  # whoever reads the sums checks them
        for start in range(0, len(logits), few):
            part = logits[start : start + few]
            most = part.max(axis=1, keepdims=True)
            shifted = part - most
            np.exp(shifted, out=shifted)
            made[start : start + few, 0], made[start : start + few, 1] = most[:, 0], shifted.sum(axis=1)
    return made


def _largest(logits: Array, count: int) -> tuple[Array, Ids]:
    """Return the largest of each row (N, count), falling, and their words; of equals, the first comes first."""
    bars = _bars(logits, count)
    flat = np.flatnonzero(logits >= bars[:, None])  # few
    found, (rows, words) = logits.ravel()[flat], np.divmod(flat, logits.shape[1])
    order = np.lexsort((-found, rows))  # stable
    rank = np.arange(len(flat)) - np.searchsorted(rows, np.arange(len(logits)))[rows]
    order, at = order[rank < count], (rows[rank < count], rank[rank < count])
    largest, places = (
        np.full((len(logits), count), -np.inf, logits.dtype),
        np.zeros((len(logits), count), np.int64),
    )
    largest[at], places[at] = found[order], words[order]
    return largest, places


def _bars(logits: Array, count: int) -> Array:
    """Return what a logit must reach (N,) to be one of the `count` largest of its row; a few more do."""
    least = np.finfo(logits.dtype).min
    whole = logits.shape[1] // _GROUPS * _GROUPS
    # Frequent words have neighbouring numbers: a group is one word out of every 256.
    most = logits[:, :whole].reshape(len(logits), -1, _GROUPS).max(axis=1) if whole else logits
    if most.shape[1] < count:
        return np.full(len(logits), least)
    bars: Array = np.maximum(np.partition(most, -count, axis=1)[:, -count], least)
    return bars


class Output:
    """From readouts to logits by a product with the target embedding, or straight to the likeliest words.

    Parameters
    ----------
    p : mapping of str to array
        With ``target_embedding`` (V, E), the output matrix, and ``output_bias`` (V,).

    Examples
    --------
    >>> output = Output({"target_embedding": np.array([[1.0], [2.0]]), "output_bias": np.zeros(2)})
    >>> output.logits(np.array([[3.0]])).tolist(), output.tops(np.array([[3.0]]), 1).words.tolist()
    ([[3.0, 6.0]], [[1]])
    """

    def __init__(self, p: Mapping[str, Array]) -> None:
        self.embedding, self.bias = p["target_embedding"], p["output_bias"]

    def logits(self, readout: Array) -> Array:
        """Return the logits (N, V) of readouts (N, E)."""
        return multiply(readout, self.embedding.T, self.bias)

    def tops(self, readout: Array, count: int, first: int = 0) -> Tops:
        """Return what `tops` finds among the logits of readouts (N, E); the library never holds them all."""
        if self.words is not None and readout.dtype == np.float32:
            return Tops(*self.words.tops(readout, count, first))
        return tops(self.logits(readout), count, first)

    def log_sums(self, readout: Array) -> Array:
        """Return the logarithms (N,) of the sums of the exponentials of all logits of readouts (N, E)."""
        found = np.empty((len(readout), 2), readout.dtype)
        few = max(1, _ROWS // len(self.bias))
        for start in range(0, len(readout), few):
            part = slice(start, start + few)
            found[part] = self._sums(readout[part])
        logs: Array = np.log(found[:, 1]) + found[:, 0]
        return logs

    def _sums(self, readout: Array) -> Array:
        if self.words is not None and readout.dtype == np.float32:
            return self.words.tops(readout, 1)[0]
        return sums(self.logits(readout))

    @cached_property
    def words(self) -> training.Words | None:
        """The matrix as the library reads it, if it does."""
        return training.Words.of(self.embedding, self.bias)
