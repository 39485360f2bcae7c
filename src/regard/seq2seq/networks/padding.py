"""Where the words of sentences of different lengths stand: rows of words alone, or places with padding between them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.data.batching import Ids

__all__ = ["Places", "beside_identity", "split_heads"]

Array = NDArray[Any]


class Places:
    """Where the words of B sentences stand among B x T places.

    Parameters
    ----------
    lengths : integer array (B,)
        Words of each sentence.
    longest : int, optional
        T; the largest length by default.

    Examples
    --------
    >>> at = Places(np.array([2, 1]))
    >>> at.pick(np.array([[5, 6], [7, 0]])).tolist()
    [5, 7, 6]
    >>> at.spread(np.array([[1.0], [2.0], [3.0]]))[..., 0].tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """

    def __init__(self, lengths: Ids, longest: int | None = None) -> None:
        self.lengths = lengths
        self.longest = int(lengths.max(initial=0)) if longest is None else longest
        self.sentence, self.position = np.nonzero(np.arange(self.longest) < lengths[:, None])  # (N,) each
        self.full = len(self.position) == len(lengths) * self.longest

    def pick(self, ids: Ids) -> Ids:
        """Return the words (N,) among ids (at least T, B)."""
        return ids[self.position, self.sentence]

    def spread(self, rows: Array) -> Array:
        """Return rows (N, ...) at their places (B, T, ...), between zeros."""
        shape = (len(self.lengths), self.longest, *rows.shape[1:])
        if self.full:
            return rows.reshape(shape)
        places = np.zeros(shape, rows.dtype)
        places[self.sentence, self.position] = rows
        return places

    def gather(self, places: Array, out: Array) -> None:
        """Write what stands at the places of words (B, T, ...) into rows (N, ...)."""
        if self.full:
            out.reshape(places.shape)[...] = places
        else:
            out[...] = places[self.sentence, self.position]


def split_heads(x: Array, heads: int) -> Array:
    """View vectors as those of several heads.

    Parameters
    ----------
    x : array (B, T, W)
        One vector for each place.
    heads : int
        A divisor of W.

    Returns
    -------
    array (B, heads, T, W / heads)
        A view.

    Examples
    --------
    >>> split_heads(np.zeros((2, 3, 8)), 4).shape
    (2, 4, 3, 2)
    """
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).swapaxes(1, 2)


def beside_identity(values: Array) -> Array:
    """Put an identity behind values: the weighted sum of its rows is the weights themselves.

    Parameters
    ----------
    values : array (..., T, d)
        One for each of T positions.

    Returns
    -------
    array (..., T, d + T)
        Values, and which position each is of.

    Examples
    --------
    >>> beside_identity(np.array([[7.0], [8.0]])).tolist()
    [[7.0, 1.0, 0.0], [8.0, 0.0, 1.0]]
    """
    size = values.shape[-2]
    identity = np.broadcast_to(np.eye(size, dtype=values.dtype), (*values.shape[:-1], size))
    return np.concatenate([values, identity], axis=-1)
