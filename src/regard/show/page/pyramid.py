"""Summaries of attention that is too large to be drawn: the largest and the mean weight of blocks, in linear memory.

The log-sum-exp of each row is that of the fast path. With it, the weights of any block are exact without the rest of
the row, so a block is computed by tiles of logits, summarized and forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._problem import prepare
from regard._threads import Workers
from regard.kernels import choose
from regard.kernels.blocked import Kernel, thread_count
from regard.mask import MaskLike
from regard.position import BiasLike
from regard.scores import ScoreLike
from regard.show.page.section import Section, labels, packed

__all__ = ["LongAttention", "Summary", "long_section"]

Array = NDArray[Any]
Floats = NDArray[np.float32]

_TILE = 1 << 20  # weights that are computed at a time
_SIDE = 512  # blocks on each side of a summary in a page, at most
_NUMBERS = 1 << 20  # of the summaries of all heads together: 4 bytes each


class Summary(NamedTuple):
    """The largest and the mean weight of blocks, each (..., rows, columns) of blocks.

    Parameters
    ----------
    maximum : array
        The largest weight of each block.
    mean : array
        The mean weight of each block.
    """

    maximum: Floats
    mean: Floats


@dataclass(frozen=True)
class _Grid:
    """Equal blocks of a length; the last one may be shorter."""

    length: int
    size: int

    @classmethod
    def of(cls, length: int, most: int) -> _Grid:
        """Return the smallest blocks of which there are at most `most`."""
        return cls(length, max(1, -(-length // most)))

    @property
    def count(self) -> int:
        return -(-self.length // self.size)

    def range(self, first: int, last: int) -> slice:
        """Return the rows of the blocks `first` to `last`."""
        return slice(first * self.size, min(last * self.size, self.length))


class LongAttention:
    """Attention weights of long sequences, of which any block is computed when it is needed.

    Parameters
    ----------
    queries : array (..., n, d)
        Queries.
    keys : array (..., m, d)
        Keys.
    score, mask, bias, scale, softcap
        As for `regard.attend`; step two is a softmax.
    """

    def __init__(
        self,
        queries: ArrayLike,
        keys: ArrayLike,
        *,
        score: ScoreLike = "scaled_dot",
        mask: MaskLike | None = None,
        bias: BiasLike | None = None,
        scale: float | None = None,
        softcap: float | None = None,
    ) -> None:
        queries, keys = _check.numeric("queries", queries), _check.numeric("keys", keys)
        values = np.zeros((*keys.shape[:-1], 1), keys.dtype)
        self._arguments = queries, keys, values, score, mask, bias, scale, softcap, "softmax", None
        self._prepare()
        layout = self._problem.layout
        self.heads, self.n, self.m = layout.items, layout.n, layout.m
        if not self.heads * self.n * self.m:
            _check.fail(f"a picture needs at least one query and one key: {queries.shape} and {keys.shape}")
        fastest = choose("auto", self._problem)
        self._lse: Array = fastest.lse(fastest.forward(self._problem, None)[1])  # nothing is recorded

    def _prepare(self) -> None:
        self._problem = prepare(*self._arguments)
        self._kernel = Kernel(self._problem)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the functions that `_prepare` makes."""
        return {name: value for name, value in vars(self).items() if name not in ("_problem", "_kernel")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._prepare()

    def summary(self, head: int, side: int) -> Summary:
        """Return the largest and the mean weight of blocks.

        Parameters
        ----------
        head : int
            The number of the head, or of the item in flattened leading dimensions.
        side : int
            The number of blocks on each side, at most. All blocks have the same size, but the last may be shorter.

        Returns
        -------
        Summary
            Its arrays are (rows, columns) of blocks.
        """
        down, across = _Grid.of(self.n, side), _Grid.of(self.m, side)
        summary = Summary(*np.zeros((2, down.count, across.count), np.float32))
        high = max(1, min(down.count, 256 // down.size))
        wide = max(1, _TILE // (high * down.size) // across.size)

        def summarize_rows(top: int) -> None:
            for left in range(0, across.count, wide):
                self._summarize(head, down, across, (top, left), (high, wide), summary)

        tops = range(0, down.count, high)
        threads = min(thread_count(self._problem, None), len(tops))
        with Workers(threads if threads > 1 else 0) as workers:
            for _ in workers.map(summarize_rows, tops):
                pass
        return summary

    def _summarize(
        self,
        head: int,
        down: _Grid,
        across: _Grid,
        first: tuple[int, int],
        size: tuple[int, int],
        summary: Summary,
    ) -> None:
        """Summarize the weights of some blocks."""
        (top, left), (high, wide) = first, size
        bottom, right = min(top + high, down.count), min(left + wide, across.count)
        tile = self._weights(head, down.range(top, bottom), across.range(left, right))
        size = across.size, down.size
        counts = [
            np.diff([*range(0, length, step), length]) for length, step in zip(tile.shape, size, strict=True)
        ]
        block = (slice(top, bottom), slice(left, right))
        summary.maximum[block] = _reduced(np.max, tile, size).T
        summary.mean[block] = (_reduced(np.sum, tile, size) / np.outer(*counts)).T

    def _weights(self, head: int, rows: slice, columns: slice) -> Floats:
        """Return a block of weights (keys, queries), as the kernel lays it out."""
        kernel, item = self._kernel, slice(head, head + 1)
        height = rows.stop - rows.start
        with np.errstate(all="ignore"):
            left = kernel.pairs.left_items.block(item, rows)
            logits = kernel.logits(left, item, rows, columns)
            if logits is None:
                return np.zeros((columns.stop - columns.start, height), np.float32)
            lse = self._lse[head, rows]
            block = logits[0, :, :height]
            block -= np.where(np.isneginf(lse), 0, lse).astype(block.dtype)
            return np.exp(block, out=block).astype(np.float32, copy=False)


def _reduced(function: Callable[..., Array], tile: Array, size: tuple[int, int]) -> Array:
    """Reduce the blocks of a tile, first down and then across; the last block of each axis may be shorter."""
    for axis in (0, 1):
        step, length = size[axis], tile.shape[axis]
        full, rest = np.split(tile, [length // step * step], axis)
        shape = (-1, step, tile.shape[1]) if axis == 0 else (len(tile), -1, step)
        parts = [function(full.reshape(shape), axis=axis + 1)]
        parts += [function(rest, axis=axis, keepdims=True)] if rest.size else []
        tile = np.concatenate(parts, axis)
    return tile


def long_section(
    attention: LongAttention,
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    *,
    title: str = "Long attention",
) -> Section:
    """Show long attention: summaries of it, from all of it down to blocks of a few tokens.

    Parameters
    ----------
    attention : LongAttention
        The attention.
    query_labels, key_labels : sequence of str, optional
        n and m names; by default their numbers from 1.
    title : str
        The heading.

    Returns
    -------
    Section
        For `Page`. Its summaries have up to 512 blocks on each side, fewer where there are many heads.
    """
    side = max(1, min(_SIDE, int((_NUMBERS / (2 * attention.heads)) ** 0.5)))
    summaries = [attention.summary(head, side) for head in range(attention.heads)]
    data = {
        "queries": attention.n,
        "keys": attention.m,
        "blocks": [_Grid.of(length, side).size for length in (attention.n, attention.m)],
        "maximum": packed(np.stack([summary.maximum for summary in summaries])),
        "mean": packed(np.stack([summary.mean for summary in summaries])),
        "query_labels": None if query_labels is None else labels(query_labels, attention.n, "query"),
        "key_labels": None if key_labels is None else labels(key_labels, attention.m, "key"),
    }
    return Section("long", title, data)
