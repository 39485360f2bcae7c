"""Chunks of an attention: which pairs of chunks of queries and keys are visible, and the options of such a pair.

`regard.partial` computes the attention of one pair of chunks. Out-of-core and distributed attention consist of
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard._layout import Layout, Region, extent, slices
from regard.mask import Bound, Mask, bound
from regard.scores import Score

__all__: list[str] = []

EVALUATED_PAIRS = 2**16  # pairs that are evaluated at a time


@dataclass(frozen=True)
class Options:
    """The options of an attention that also apply to each of its blocks."""

    score: Any
    mask: Mask | None
    bias: Any
    scale: float | None
    softcap: float | None
    kernel: str
    threads: int | None

    def restrict(self, layout: Layout, region: Region, *, all_visible: bool) -> dict[str, Any]:
        """Return the options of a block, for `regard.partial`; its mask is left out where all is visible."""
        return {
            "score": self.score.restrict(region) if isinstance(self.score, Score) else self.score,
            "mask": None if self.mask is None or all_visible else self.mask.restrict(layout, region),
            "bias": _bias_of(self.bias, layout, region),
            "scale": self.scale,
            "softcap": self.softcap,
            "kernel": self.kernel,
            "threads": self.threads,
        }


def _bias_of(bias: Any, layout: Layout, region: Region) -> Any:
    """Return the bias of a block: of an object, or of an array, or None."""
    if bias is None:
        return None
    return region.of_pairs(bias) if isinstance(bias, np.ndarray) else bias.restrict(layout, region)


def _any_visible(mask: Bound, items: slice, rows: slice, columns: slice) -> bool:
    """Return whether any pair of a block is visible, for some item: by ever smaller blocks."""
    todo = [(rows, columns)]
    while todo:
        rows, columns = todo.pop()
        known, pairs = mask.classify(items, rows, columns), extent(rows) * extent(columns)
        if known is None and pairs > 1 and pairs * extent(items) > EVALUATED_PAIRS:
            along_rows = extent(rows) >= extent(columns)
            halves = _halves(rows if along_rows else columns)
            todo += [(half, columns) if along_rows else (rows, half) for half in halves]
        elif known or (known is None and _evaluated(mask, items, rows, columns)):
            return True
    return False


def _evaluated(mask: Bound, items: slice, rows: slice, columns: slice) -> bool:
    return any(np.any(mask.block(some, rows, columns)) for some in slices(items.stop, EVALUATED_PAIRS))


def _halves(part: slice) -> list[slice]:
    """Split a slice in two; the first half comes last, which a stack takes first."""
    middle = part.start + extent(part) // 2
    return [slice(middle, part.stop), slice(part.start, middle)]


def visible_pairs(
    mask: Mask | None, layout: Layout, rows: Sequence[slice], columns: Sequence[slice]
) -> dict[tuple[int, int], bool]:
    """Return the pairs of chunks with visible keys, row by row, and for each whether all of it is visible."""
    every_row = [i for i, part in enumerate(rows) if extent(part)]
    every_column = [j for j, part in enumerate(columns) if extent(part)]
    if mask is None:
        return {(i, j): True for i in every_row for j in every_column}
    if not every_row or not every_column or not layout.items:
        return {}
    rule, items, pairs = bound(mask, layout), slice(0, layout.items), {}
    todo = [(every_row, every_column)]
    while todo:  # blocks of chunks: most of a window, or of a batch of documents, is left out in large blocks
        some_rows, some_columns = todo.pop()
        block = slice(rows[some_rows[0]].start, rows[some_rows[-1]].stop)
        across = slice(columns[some_columns[0]].start, columns[some_columns[-1]].stop)
        state = rule.classify(items, block, across)
        if state:
            pairs.update({(i, j): True for i in some_rows for j in some_columns})
        elif state is None and len(some_rows) == len(some_columns) == 1:
            if _any_visible(rule, items, block, across):
                pairs[some_rows[0], some_columns[0]] = False
        elif state is None:
            todo += _split(some_rows, some_columns)
    return dict(sorted(pairs.items()))


def _split(rows: list[int], columns: list[int]) -> list[tuple[list[int], list[int]]]:
    """Split a block of chunks in two."""
    if len(rows) >= len(columns):
        return [(rows[: len(rows) // 2], columns), (rows[len(rows) // 2 :], columns)]
    return [(rows, columns[: len(columns) // 2]), (rows, columns[len(columns) // 2 :])]
