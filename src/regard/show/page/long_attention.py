"""Summaries of attention that is too large to be drawn: the largest and the mean weight of blocks, in linear memory.

With the log-sum-exp of a row, its weights in a block of keys follow from the logits of that block alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._attention import log_sum_exp
from regard._chunks import Options
from regard._layout import Region, extent, item_of, slices
from regard._problem import prepare
from regard._threads import one_blas_thread
from regard.context import define_logits
from regard.mask import MaskLike
from regard.position import BiasLike, BiasObject
from regard.scores import ScoreLike
from regard.show.page.heads import block_labels, heads, marked
from regard.show.page.section import Section, packed
from regard.show.steps import PageText

__all__ = ["LongAttention", "BlockSummary", "long_section"]

Array = NDArray[Any]
Floats = NDArray[np.float32]

_TILE = 1 << 19  # weights that are computed at a time
_SIDE = 512  # blocks on each side of a summary in a page, at most
_NUMBERS = 1 << 20  # of the summaries of all heads together: 4 bytes each


class BlockSummary(NamedTuple):
    """The largest and the mean weight of blocks, and which are masked as a whole, each (..., rows, columns)."""

    maximum: Floats
    mean: Floats
    masked: NDArray[np.bool_]


@dataclass(frozen=True)
class _Blocks:
    """Equal blocks of a length; the last one may be shorter."""

    length: int
    size: int

    @classmethod
    def of(cls, length: int, most: int) -> _Blocks:
        """Return the smallest blocks of which there are at most `most`."""
        return cls(length, max(1, -(-length // most)))

    @property
    def count(self) -> int:
        return -(-self.length // self.size)

    def tokens(self, blocks: slice) -> slice:
        """Return the tokens of some blocks."""
        return slice(blocks.start * self.size, min(blocks.stop * self.size, self.length))


class LongAttention:
    """Attention weights of long sequences, of which any block is computed when it is needed.

    queries (..., n, d); keys (..., m, d).
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
        sink: ArrayLike | None = None,
    ) -> None:
        queries, keys = _check.numeric("queries", queries), _check.numeric("keys", keys)
        values = np.zeros((*keys.shape[:-1], 1), keys.dtype)
        problem = prepare(queries, keys, values, score, mask, bias, scale, softcap, "softmax", sink)
        self._layout = problem.layout
        self.heads, self.n, self.m = self._layout.items, self._layout.n, self._layout.m
        if not self.heads * self.n * self.m:
            _check.fail(f"a picture needs at least one query and one key: {queries.shape} and {keys.shape}")
        added = bias if isinstance(bias, BiasObject | None) else _check.numeric("bias", bias)
        self._options = Options(problem.score, problem.mask, added, scale, softcap, "auto", None)
        self._arrays = queries, keys, values
        self._mask = problem.bound_mask
        self._lse: Array = log_sum_exp(problem)

    def faults(self) -> list[str]:
        """Describe which queries have weights that are not numbers."""
        count = int(np.isnan(self._lse).sum())
        return [PageText("pages.undefined", count=count, all=self._lse.size)] if count else []

    def summary(self, head: int, side: int) -> BlockSummary:
        """Summarize the weights of a head in blocks, up to `side` on each side."""
        down, across = _Blocks.of(self.n, side), _Blocks.of(self.m, side)
        shape = down.count, across.count
        maximum, mean = np.zeros((2, *shape), np.float32)
        summary = BlockSummary(maximum, mean, np.ones(shape, bool))
        high = max(1, min(down.count, 256 // down.size))
        wide = max(1, _TILE // (high * down.size) // across.size)
        with one_blas_thread():  # for small products, several are slower where other processes compute
            for rows in slices(down.count, high):
                for columns in slices(across.count, wide):
                    self._summarize(head, (down, across), (rows, columns), summary)
        return summary

    def _summarize(
        self, head: int, grids: tuple[_Blocks, _Blocks], blocks: tuple[slice, slice], summary: BlockSummary
    ) -> None:
        """Summarize the weights of some blocks."""
        rows, columns = (grid.tokens(part) for grid, part in zip(grids, blocks, strict=True))
        if self._mask is not None and self._mask.classify(slice(head, head + 1), rows, columns) is False:
            return  # all of their weights are 0
        tile, masked = self._weights(head, rows, columns)
        starts = [np.arange(0, length, grid.size) for length, grid in zip(tile.shape, grids, strict=True)]
        counts = [np.diff([*first, length]) for first, length in zip(starts, tile.shape, strict=True)]
        summary.maximum[blocks] = _reduced(np.maximum, tile, starts)
        summary.mean[blocks] = _reduced(np.add, tile, starts) / np.outer(*counts)
        summary.masked[blocks] = _reduced(np.logical_and, masked, starts)

    def _weights(self, head: int, rows: slice, columns: slice) -> tuple[Floats, NDArray[np.bool_]]:
        """Return a block of weights of one head, and where they are masked."""
        batch_shape = self._layout.batch_shape
        index = tuple(int(i) for i in np.unravel_index(head, batch_shape)) if batch_shape else ()
        region = Region(tuple(slice(i, i + 1) for i in index), rows, columns)
        ones = (1,) * len(batch_shape)
        arrays = (item_of(array, batch_shape, index) for array in self._arrays)
        parts = [
            array[part].reshape(*ones, -1, array.shape[-1])
            for array, part in zip(arrays, (rows, columns, columns), strict=True)
        ]
        options = self._options.restrict(self._layout, region, all_visible=False)
        q, k, v = parts
        score, mask, bias, scale, softcap = (
            options[name] for name in ("score", "mask", "bias", "scale", "softcap")
        )
        problem = prepare(q, k, v, score, mask, bias, scale, softcap, "softmax", None)
        logits = define_logits(problem).reshape(extent(rows), extent(columns))
        lse, masked = self._lse[index][rows], np.isneginf(logits)
        with np.errstate(all="ignore"):  # as in the attention itself, NaN and inf propagate
            block = logits - np.where(np.isneginf(lse), 0, lse)[:, None].astype(logits.dtype)
            weights: Floats = np.exp(block, out=block).astype(np.float32, copy=False)
        return weights, masked


def _reduced(function: np.ufunc, tile: Array, starts: Sequence[Array]) -> Array:
    """Reduce the blocks of a tile that start at these rows and columns."""
    rows: Array = function.reduceat(tile, starts[0], axis=0)
    reduced: Array = function.reduceat(rows, starts[1], axis=1)
    return reduced


def long_section(
    attention: LongAttention,
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    *,
    title: str = "",
) -> Section:
    """Show long attention as heads, whose weights are the largest of blocks, beside the mean of each block."""
    side = max(1, min(_SIDE, int((_NUMBERS / (2 * attention.heads)) ** 0.5)))
    summaries = [attention.summary(head, side) for head in range(attention.heads)]
    down, across = (_Blocks.of(length, side).size for length in (attention.n, attention.m))
    maximum, mean, masked = (np.stack(parts)[None] for parts in zip(*summaries, strict=True))
    group = {
        "name": f"{attention.n:,} × {attention.m:,}",
        "layers": ["1"],
        "rows": block_labels(query_labels, attention.n, "query", down),
        "columns": block_labels(key_labels, attention.m, "key", across),
        "blocks": [down, across],
        "weights": packed(marked(maximum, masked)),
        "step": 1,
        "measures": {},
        "importance": [
            {
                "name": PageText("pages.mean"),
                "of": PageText("pages.meanOf"),
                "numbers": packed(np.where(masked, np.nan, mean)),
            }
        ],
        "warnings": [],
    }
    return replace(heads([group], title=title or PageText("pages.titles.long")), warnings=attention.faults())
