"""Sentences of different lengths: packed rows of tokens alone, and padded arrays for attention.

A batch is computed as rows (N, W), one for each token, so that padding is never computed. Only attention needs to know
the position of a token: rows are padded to B x T positions before it, and unpadded after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.corpus.batching import Ids

__all__ = ["Padding", "append_identity", "split_heads"]

Array = NDArray[Any]


class Padding:
    """The positions of the tokens of B sentences among B x T positions.

    `lengths` (B,): tokens of each sentence; `longest`: t; the largest length by default.
    """

    def __init__(self, lengths: Ids, longest: int | None = None) -> None:
        self.lengths = lengths
        self.longest = int(lengths.max(initial=0)) if longest is None else longest
        self.sentence, self.position = np.nonzero(np.arange(self.longest) < lengths[:, None])  # (N,) each
        self.full = len(self.position) == len(lengths) * self.longest

    def unpad_ids(self, ids: Array) -> Array:
        """Return the tokens (N,) of padded ids, or the vectors (N, F) of padded vectors, time first (at least T, B)."""
        return ids[self.position, self.sentence]

    def pad(self, rows: Array) -> Array:
        """Return rows (N, ...) at their positions (B, T, ...), with zeros as padding."""
        shape = (len(self.lengths), self.longest, *rows.shape[1:])
        if self.full:
            return rows.reshape(shape)
        padded = np.zeros(shape, rows.dtype)
        padded[self.sentence, self.position] = rows
        return padded

    def unpad(self, padded: Array, out: Array) -> None:
        """Write a padded array (B, T, ...) without its padding into rows (N, ...)."""
        if self.full:
            out.reshape(padded.shape)[...] = padded
        else:
            out[...] = padded[self.sentence, self.position]


def split_heads(x: Array, heads: int) -> Array:
    """Split vectors into those of several heads.

    `x` (B, T, W): a vector for each position; `heads`: a divisor of W. Returns array (B, heads, T, W / heads): a
    view.
    """
    return x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads).swapaxes(1, 2)


def append_identity(values: Array) -> Array:
    """Append an identity matrix to values: the weighted sum of its rows is the weights themselves.

    `values` (..., T, d): a value for each of T positions. Returns array (..., T, d + T): values, and a one-hot vector
    of the position.
    """
    size = values.shape[-2]
    identity = np.broadcast_to(np.eye(size, dtype=values.dtype), (*values.shape[:-1], size))
    return np.concatenate([values, identity], axis=-1)
