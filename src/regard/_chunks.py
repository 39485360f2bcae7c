"""Chunks of an attention: which pairs of chunks of queries and keys are visible, and the options of such a pair.

A pair of chunks is an attention of its own, for `regard.partial`. Out-of-core and distributed attention consist of
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._layout import Items, Layout, Region, extent, slices
from regard.mask import Mask, Step
from regard.scores import Score

__all__: list[str] = []

EVALUATED = 2**16  # pairs that are evaluated at a time


@dataclass(frozen=True)
class Options:
    """The options of an attention that each of its blocks has as well."""

    score: Any
    mask: Mask | None
    bias: Any
    scale: float | None
    softcap: float | None
    kernel: str
    threads: int | None

    def part(self, layout: Layout, region: Region, *, all_visible: bool) -> dict[str, Any]:
        """Return the options of a block, for `regard.partial`; its mask is left out where all is visible."""
        return {
            "score": self.score.part(region) if isinstance(self.score, Score) else self.score,
            "mask": None if self.mask is None or all_visible else self.mask.part(layout, region),
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
    return region.of_pairs(bias) if isinstance(bias, np.ndarray) else bias.part(layout, region)


class Visibility:
    """What blocks of a mask show, found without evaluating each pair where that is possible."""

    def __init__(self, mask: Mask, layout: Layout) -> None:
        self.items = layout.items
        self.evaluate = mask.bind(layout)
        steps = mask.steps(layout)
        self.steps = None if steps is None else [_Step(step) for step in steps]

    def state(self, rows: slice, columns: slice) -> bool | None:
        """Return True if a block is visible, False if it is masked, or None if it may be either, or mixed."""
        if self.steps is None:
            return None
        stack: list[bool | None] = []
        for step in self.steps:
            if step.kind == "both":
                left, right = stack.pop(), stack.pop()
                stack.append(False if left is False or right is False else (left and right) or None)
            elif step.kind == "not":
                other = stack.pop()
                stack.append(None if other is None else not other)
            else:
                stack.append(step.state(rows, columns))
        return stack.pop()

    def any(self, rows: slice, columns: slice) -> bool:
        """Return whether any pair of a block is visible, for some item."""
        todo = [(rows, columns)]
        while todo:
            rows, columns = todo.pop()
            state = self.state(rows, columns)
            if state:
                return True
            if state is False:
                continue
            if (
                extent(rows) * extent(columns) * self.items <= EVALUATED
                or extent(rows) * extent(columns) == 1
            ):
                if self._evaluated(rows, columns):
                    return True
            elif extent(rows) >= extent(columns):
                todo += [(half, columns) for half in _halves(rows)]
            else:
                todo += [(rows, half) for half in _halves(columns)]
        return False

    def _evaluated(self, rows: slice, columns: slice) -> bool:
        return any(np.any(self.evaluate(items, rows, columns)) for items in slices(self.items, EVALUATED))


def _halves(part: slice) -> list[slice]:
    """Split a slice in two; the first half comes last, which a stack takes first."""
    middle = part.start + extent(part) // 2
    return [slice(middle, part.stop), slice(part.start, middle)]


class _Step:
    """A step of a mask's program, which is evaluated for all items of a block at once."""

    def __init__(self, step: Step) -> None:
        self.step, self.kind = step, step.kind
        if step.kind in ("keys", "queries"):
            counts = step.counts if step.counts is not None and step.counts.size else np.zeros(1, np.int64)
            self.least, self.most = int(counts.min()), int(counts.max())
        elif step.kind == "documents":
            self.ids = _range_of(step.left), _range_of(step.right)

    def state(self, rows: slice, columns: slice) -> bool | None:
        """Return True, False or None for a block."""
        if self.kind == "band":
            return self._band(rows, columns)
        if self.kind == "documents":
            return self._documents(rows, columns)
        if self.kind == "dense":
            return self._dense(rows, columns)
        part = columns if self.kind == "keys" else rows
        return True if part.stop <= self.least else False if part.start >= self.most else None

    def _band(self, rows: slice, columns: slice) -> bool | None:
        low, high = self.step.low, self.step.high
        first, last = columns.start - rows.stop + 1, columns.stop - 1 - rows.start
        if (low is None or first >= low) and (high is None or last <= high):
            return True
        return False if (low is not None and last < low) or (high is not None and first > high) else None

    def _documents(self, rows: slice, columns: slice) -> bool | None:
        (left_least, left_most), (right_least, right_most) = (
            (int(least[part].min()), int(most[part].max()))
            for (least, most), part in zip(self.ids, (rows, columns), strict=True)
        )
        if left_most < right_least or right_most < left_least:
            return False
        return True if left_least == left_most == right_least == right_most else None

    def _dense(self, rows: slice, columns: slice) -> bool | None:
        assert self.step.left is not None
        block = self.step.left.array[..., rows, columns]
        return True if block.all() else None if block.any() else False


def _range_of(ids: Items | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and the largest id of each position, of all items."""
    assert ids is not None
    flat = (
        ids.array.reshape(-1, ids.array.shape[-2])
        if ids.array.size
        else np.zeros((1, ids.array.shape[-2]), int)
    )
    return flat.min(0), flat.max(0)


def visible_pairs(
    mask: Mask | None, layout: Layout, rows: Sequence[slice], columns: Sequence[slice]
) -> dict[tuple[int, int], bool]:
    """Return the pairs of chunks of which something is visible, and of each whether all is; in order of the rows."""
    every_row = [i for i, part in enumerate(rows) if extent(part)]
    every_column = [j for j, part in enumerate(columns) if extent(part)]
    if mask is None:
        return {(i, j): True for i in every_row for j in every_column}
    if not every_row or not every_column or not layout.items:
        return {}
    visibility, pairs = Visibility(mask, layout), {}
    todo = [(every_row, every_column)]
    while todo:  # blocks of chunks: most of a window, or of a batch of documents, is left out in large blocks
        some_rows, some_columns = todo.pop()
        block = slice(rows[some_rows[0]].start, rows[some_rows[-1]].stop)
        across = slice(columns[some_columns[0]].start, columns[some_columns[-1]].stop)
        state = visibility.state(block, across)
        if state:
            pairs.update({(i, j): True for i in some_rows for j in some_columns})
        elif state is None and len(some_rows) == len(some_columns) == 1:
            if visibility.any(block, across):
                pairs[some_rows[0], some_columns[0]] = False
        elif state is None:
            todo += _split(some_rows, some_columns)
    return dict(sorted(pairs.items()))


def _split(rows: list[int], columns: list[int]) -> list[tuple[list[int], list[int]]]:
    """Split a block of chunks in two."""
    if len(rows) >= len(columns):
        return [(rows[: len(rows) // 2], columns), (rows[len(rows) // 2 :], columns)]
    return [(rows, columns[: len(columns) // 2]), (rows, columns[len(columns) // 2 :])]
