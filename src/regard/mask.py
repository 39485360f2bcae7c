"""Masks: which keys are visible to which query.

A mask is a bool array (True = visible) or one of the objects of this module, composed with ``&``, ``|`` and ``~``. An
object is never expanded. For a block of queries and keys it returns True (all visible), False (all masked) or a small
bool array, so that a kernel can skip blocks that are masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import (
    PER_SENTENCE,
    Align,
    DistinctItems,
    Layout,
    Region,
    as_align,
    extent,
    first_key,
    slices,
)
from regard._repr import constructor_text, value_text

__all__ = ["Mask", "causal", "documents", "lengths", "prefix", "window"]

Bools = NDArray[np.bool_]
Visible: TypeAlias = bool | Bools  # of a block: all, nothing, or an array (items or 1, queries, keys)
Evaluate = Callable[[slice, slice, slice], Visible]  # of items, queries and keys
MAX_DEPTH = 700
MAX_PRINTED_DEPTH = 60
BLOCK_PAIRS = 2**16  # that `dense` evaluates at a time
FAR = 1 << 62  # larger than any distance
SMALLEST, LARGEST = -_check.MOST - 1, _check.MOST  # of 64-bit integers


@dataclass(frozen=True, eq=False)
class MaskStep:
    """A step of a mask as a program in postfix order.

    A leaf pushes the visibility of a block. BOTH replaces the last two by their conjunction, NOT negates the last.
    `code` is the name of the step in the library (`source/core/interface.inc`), which evaluates all but FUNCTION, and
    `fill` returns the fields of its structure there.
    """

    code: ClassVar[str]
    pushes: ClassVar[int] = 1  # masks on the stack

    def fill(self) -> dict[str, Any]:
        """Return the fields of the library's step: numbers, arrays (items,) or, for addresses, `DistinctItems`."""
        return {}

    def classify(self, items: slice, rows: slice, columns: slice) -> bool | None:
        """Return True if all pairs of a block are visible, False if none is, None where that needs their evaluation."""
        return None

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Evaluate a block: a bool, or an array that broadcasts to (items or 1, queries, keys)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class BandStep(MaskStep):
    """Query i sees the keys i + low to i + high; None: no limit."""

    low: int | None
    high: int | None
    code: ClassVar = "BAND"

    def fill(self) -> dict[str, Any]:
        """Return the least and the largest visible j - i."""
        low, high = (-FAR if self.low is None else self.low), (FAR if self.high is None else self.high)
        return {"low": max(low, -FAR), "high": min(high, FAR)}

    def classify(self, items: slice, rows: slice, columns: slice) -> bool | None:
        """Compare the smallest and the largest j - i of the block with the band."""
        first, last = columns.start - rows.stop + 1, columns.stop - 1 - rows.start
        if (self.low is None or first >= self.low) and (self.high is None or last <= self.high):
            return True
        outside = (self.low is not None and last < self.low) or (self.high is not None and first > self.high)
        return False if outside else None

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Compare the j - i of all pairs with the band."""
        difference = np.arange(columns.start, columns.stop) - np.arange(rows.start, rows.stop)[:, None]
        visible = np.ones(difference.shape, bool) if self.low is None else difference >= self.low
        return (visible if self.high is None else visible & (difference <= self.high))[None]


@dataclass(frozen=True, eq=False)
class DiagonalStep(MaskStep):
    """Query i sees the keys up to i + offset, with an offset (..., 1, 1) for each item."""

    offsets: DistinctItems
    n: int
    m: int
    code: ClassVar = "DENSE"

    def fill(self) -> dict[str, Any]:
        """Return the fields of an array: each row is a view of one table of all j - i, which begins at 1 - n."""
        offsets = self.offsets.array[..., 0, 0]
        table = np.zeros((*offsets.shape, self.n + self.m - 1), bool)
        for index, offset in np.ndenumerate(offsets):
            table[index][: max(self.n + int(offset), 0)] = True
        shape, strides = (*offsets.shape, self.n, self.m), (*table.strides[:-1], -1, 1)
        pairs = np.lib.stride_tricks.as_strided(table[..., self.n - 1 :], shape, strides, writeable=False)
        return DenseStep(DistinctItems(pairs, self.offsets.inner)).fill()

    def classify(self, items: slice, rows: slice, columns: slice) -> bool | None:
        """Compare the smallest and the largest j - i of the block with the offsets of the items."""
        offsets = self.offsets.stored_block(items, slice(None))
        if columns.stop - 1 - rows.start <= offsets.min(initial=LARGEST):
            return True
        return False if columns.start - rows.stop + 1 > offsets.max(initial=SMALLEST) else None

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Compare the j - i of all pairs with the offsets."""
        difference = np.arange(columns.start, columns.stop) - np.arange(rows.start, rows.stop)[:, None]
        return np.asarray(difference <= self.offsets.block(items, slice(None)))


@dataclass(frozen=True, eq=False)
class KeysStep(MaskStep):
    """The first `counts` keys of each item."""

    counts: NDArray[np.int64]
    code: ClassVar = "KEYS"

    def fill(self) -> dict[str, Any]:
        """Return the counts."""
        return {"left": self.counts}

    def positions(self, rows: slice, columns: slice) -> slice:
        """Return the positions that are counted."""
        return columns

    def classify(self, items: slice, rows: slice, columns: slice) -> bool | None:
        """Compare the positions with the least and the largest count of the items."""
        counts, positions = self.counts[items], self.positions(rows, columns)
        if positions.stop <= counts.min(initial=LARGEST):
            return True
        return False if positions.start >= counts.max(initial=0) else None

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Compare all positions with the counts."""
        positions = self.positions(rows, columns)
        below: Bools = np.arange(positions.start, positions.stop) < self.counts[items, None]
        return below[:, None]


class QueriesStep(KeysStep):
    """The first `counts` queries of each item."""

    code: ClassVar = "QUERIES"

    def positions(self, rows: slice, columns: slice) -> slice:
        """Return the positions that are counted."""
        return rows

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Compare all positions with the counts."""
        return np.asarray(super().block(items, rows, columns)).swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class DocumentStep(MaskStep):
    """The ids of query and key (items, n or m, 1) are equal."""

    left: DistinctItems
    right: DistinctItems
    code: ClassVar = "DOCUMENTS"

    def fill(self) -> dict[str, Any]:
        """Return the ids of queries and keys."""
        return {"left": self.left, "right": self.right}

    def classify(self, items: slice, rows: slice, columns: slice) -> bool | None:
        """Compare the ranges of the ids."""
        ids = self.left.stored_block(items, rows), self.right.stored_block(items, columns)
        (least, most), (right_least, right_most) = (
            (x.min(initial=LARGEST), x.max(initial=SMALLEST)) for x in ids
        )
        if most < right_least or right_most < least:
            return False
        return True if least == most == right_least == right_most else None

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Compare the ids of all pairs."""
        return np.asarray(self.left.block(items, rows) == self.right.block(items, columns).swapaxes(-1, -2))


@dataclass(frozen=True, eq=False)
class DenseStep(MaskStep):
    """An array (items, n, m)."""

    left: DistinctItems
    code: ClassVar = "DENSE"

    def fill(self) -> dict[str, Any]:
        """Return the array, and its strides in bytes."""
        row, column = self.left.array.strides[-2:]
        return {"left": self.left, "row": row, "column": column}

    def classify(self, items: slice, rows: slice, columns: slice) -> bool | None:
        """Read the block."""
        block = self.left.stored_block(items, rows, columns)
        return True if block.all() else None if block.any() else False

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Read the block."""
        return self.left.block(items, rows, columns)


@dataclass(frozen=True, eq=False)
class FunctionStep(MaskStep):
    """A user's mask, evaluated block by block; nothing can be skipped."""

    evaluate: Evaluate
    code: ClassVar = "FUNCTION"

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Call the function."""
        visible = self.evaluate(items, rows, columns)
        return visible if np.ndim(visible) else bool(visible)


class BothStep(MaskStep):
    """The conjunction of the last two."""

    code: ClassVar = "BOTH"
    pushes: ClassVar = -1


class NotStep(MaskStep):
    """The negation of the last."""

    code: ClassVar = "NOT"
    pushes: ClassVar = 0


BOTH, NOT = BothStep(), NotStep()


class Bound:
    """A mask bound to the shape of one attention: `classify` and `block` are the rule for its blocks everywhere.

    The library's C++ (`source/core/mask.h`) evaluates `steps` by the same rule.
    """

    def __init__(self, *steps: MaskStep) -> None:
        self._steps = list(steps)

    def classify(self, items: slice, rows: slice, columns: slice) -> bool | None:
        """Return True if all pairs of a block are visible, False if none is, None if mixed or not known.

        The time does not depend on the size of the block, except for a bool array. For a single pair, None means a
        user's mask.
        """
        known: bool | None = _combined(self._steps, self._states(items, rows, columns))
        return known

    def block(self, items: slice, rows: slice, columns: slice) -> Visible:
        """Return True if all of a block is visible, False if nothing is, or an array (items or 1, queries, keys)."""
        states = self._states(items, rows, columns)
        known: bool | None = _combined(self._steps, states)
        if known is not None:
            return known
        leaves = [
            state if state is not None or step in (BOTH, NOT) else step.block(items, rows, columns)
            for step, state in zip(self._steps, states, strict=True)
        ]
        visible: Any = _combined(self._steps, leaves)
        if isinstance(visible, bool) or not visible.any():
            return visible is True
        return np.broadcast_to(visible, (len(visible), extent(rows), extent(columns)))

    def _states(self, items: slice, rows: slice, columns: slice) -> list[bool | None]:
        return [step.classify(items, rows, columns) for step in self._steps]

    def steps(self) -> list[MaskStep] | None:
        """Return the program for the library, or None with a user's mask class."""
        return None if any(isinstance(step, FunctionStep) for step in self._steps) else self._steps


def _combined(steps: list[MaskStep], leaves: list[Any]) -> Any:
    """Run a program on what its leaves show: True, False, an array, or None for what is not known."""
    stack: list[Any] = []
    for step, leaf in zip(steps, leaves, strict=True):
        if step is BOTH:
            stack.append(_both(stack.pop(), stack.pop()))
        elif step is NOT:
            stack.append(_negated(stack.pop()))
        else:
            stack.append(leaf)
    return stack.pop()


def _both(right: Any, left: Any) -> Any:
    if left is False or right is False:
        return False
    if left is True:
        return right
    if right is True:
        return left
    return None if left is None or right is None else left & right


def _negated(visible: Any) -> Any:
    return None if visible is None else not visible if isinstance(visible, bool) else ~visible


class Mask:
    """Base class of masks: composition, evaluation for a block, expansion to an array.

    Examples
    --------
    >>> from regard import mask
    >>> (mask.causal() & ~mask.window(0, 0)).dense(3, 3).astype(int)
    array([[0, 0, 0],
           [1, 0, 0],
           [1, 1, 0]])
    """

    _depth: ClassVar[int] = 0  # levels of composition

    def __init_subclass__(cls, **options: Any) -> None:
        """Drop the inherited `restrict` of a class that overrides `bind` only."""
        super().__init_subclass__(**options)
        if "bind" in vars(cls) and "restrict" not in vars(cls):
            cls.restrict = Mask.restrict  # type: ignore[method-assign]

    def bind(self, layout: Layout) -> Bound | Evaluate:
        """Check this mask against the shape of an attention, and return its rule for blocks.

        A class of the user's may return a function of a block instead: three slices, of items, queries and keys, to
        True, False or an array (items or 1, queries, keys).
        """
        _check.fail(
            f"mask must have a method bind(layout). Got {type(self).__name__} without.", kind=TypeError
        )

    def restrict(self, layout: Layout, region: Region) -> Mask:
        """Return this mask, restricted to a block of queries and keys; `layout` is that of the complete attention."""
        return Block(self, layout, region)

    def batch_shape(self) -> tuple[int, ...]:
        """Return the leading dimensions along which this mask varies."""
        return ()

    def dense(self, n: int, m: int) -> Bools:
        """Expand the mask to an array.

        Parameters
        ----------
        n, m : int
            Numbers of queries and keys.

        Returns
        -------
        bool array (..., n, m)
            True where the key is visible to the query.

        Examples
        --------
        >>> from regard import mask
        >>> mask.causal(align="end").dense(2, 3).astype(int)
        array([[1, 1, 0],
               [1, 1, 1]])
        """
        n, m = _check.integer("n", n), _check.integer("m", m)
        shape = Layout(self.batch_shape(), None, n, m)
        dense, mask = np.empty((shape.items, n, m), bool), bound(self, shape)
        # By blocks, since evaluation builds integer arrays of 8 bytes for each pair.
        rows = max(1, min(n, BLOCK_PAIRS // max(1, m)))
        for items in slices(shape.items, max(1, BLOCK_PAIRS // max(1, rows * m))):
            for part in slices(n, rows):
                dense[items, part] = mask.block(items, part, slice(0, m))
        return dense.reshape(*shape.batch_shape, n, m)

    def __and__(self, other: Any) -> Mask:
        return Both(self, as_mask(other))

    def __or__(self, other: Any) -> Mask:
        return Either(self, as_mask(other))

    __rand__, __ror__ = __and__, __or__
    __array_ufunc__ = None  # array & mask calls __rand__

    def __bool__(self) -> bool:
        hint = "not with and, or, not: a mask is neither true nor false"
        _check.fail("masks must be composed with & | ~.", hint=hint, kind=TypeError)

    def __invert__(self) -> Mask:
        return Not(self)

    def __repr__(self) -> str:
        return constructor_text(self)


def bound(mask: Mask, layout: Layout) -> Bound:
    """Bind a mask, also of a user's class, to the shape of an attention."""
    steps: list[MaskStep] = []
    todo: list[Mask | MaskStep] = [mask]
    while todo:
        part = todo.pop()
        if isinstance(part, MaskStep):
            steps.append(part)
        elif isinstance(part, Both):
            todo += [BOTH, part.right, part.left]
        elif isinstance(part, Not):
            todo += [NOT, part.other]
        else:
            rule = part.bind(layout)
            steps += rule._steps if isinstance(rule, Bound) else [FunctionStep(rule)]
    return Bound(*steps)


def _nest(composed: Mask, *parts: Mask) -> None:
    """Limit the depth of a composed mask, since each level is a level of Python's recursion."""
    depth = 1 + max(part._depth for part in parts)
    if depth > MAX_DEPTH:
        hint = "make one bool array of many masks, or one documents() (each | is three levels)"
        _check.fail(f"masks must be composed at most {MAX_DEPTH} deep. Got {depth} instead.", hint=hint)
    object.__setattr__(composed, "_depth", depth)


def _part(mask: Mask, *within: type[Mask]) -> str:
    """Return the repr of a part, in brackets if it is one of the classes `within`, or "..." if it is too deep."""
    if mask._depth > MAX_PRINTED_DEPTH:
        return "..."
    return f"({mask!r})" if isinstance(mask, within) else repr(mask)


def _joined(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return _check.broadcast_shapes("composed masks", left, right)


@dataclass(frozen=True, eq=False, repr=False)
class Both(Mask):
    """Conjunction: visible in both masks."""

    left: Mask
    right: Mask

    def __post_init__(self) -> None:
        _nest(self, self.left, self.right)

    def batch_shape(self) -> tuple[int, ...]:
        return _joined(self.left.batch_shape(), self.right.batch_shape())

    def bind(self, layout: Layout) -> Bound:
        return bound(self, layout)

    def restrict(self, layout: Layout, region: Region) -> Mask:
        return Both(self.left.restrict(layout, region), self.right.restrict(layout, region))

    def __repr__(self) -> str:
        return f"{_part(self.left, Either)} & {_part(self.right, Both, Either)}"


@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    """Negation: visible where the other mask hides the key."""

    other: Mask

    def __post_init__(self) -> None:
        _nest(self, self.other)

    def batch_shape(self) -> tuple[int, ...]:
        return self.other.batch_shape()

    def bind(self, layout: Layout) -> Bound:
        return bound(self, layout)

    def restrict(self, layout: Layout, region: Region) -> Mask:
        return Not(self.other.restrict(layout, region))

    def __repr__(self) -> str:
        return f"~{_part(self.other, Both, Either)}"


class Either(Not):
    """Disjunction, by De Morgan's law: visible in at least one of the masks."""

    def __init__(self, left: Mask, right: Mask) -> None:
        super().__init__(Both(Not(left), Not(right)))

    def __repr__(self) -> str:
        both: Any = self.other
        left, right = both.left.other, both.right.other
        return f"{_part(left)} | {_part(right, Either)}"


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Mask):
    """A bool array (..., n, m)."""

    array: Bools

    def batch_shape(self) -> tuple[int, ...]:
        return self.array.shape[:-2]

    def bind(self, layout: Layout) -> Bound:
        layout.check("mask", self.array, (layout.n, layout.m), "(..., n, m)")
        array = self.array.reshape((1,) * (2 - self.array.ndim) + self.array.shape)
        array = np.broadcast_to(array, (*array.shape[:-2], layout.n, layout.m))
        return Bound(DenseStep(DistinctItems(layout.per_query_head(array, 2), layout.inner)))

    def restrict(self, layout: Layout, region: Region) -> Mask:
        return Dense(region.of_pairs(self.array))

    def __repr__(self) -> str:
        return value_text(self.array)


def _up_to(offsets: NDArray[np.int64], layout: Layout) -> list[MaskStep]:
    """Let query i see the keys up to i + offset.

    The keys that all queries of an item see and those that none sees are counted, too, so that the library can skip
    them.
    """
    diagonal = DistinctItems(layout.per_query_head(offsets, 0)[..., None, None], layout.inner)
    every, some = (
        KeysStep(_for_each_item(np.clip(offsets + rows, 0, layout.m), layout)) for rows in (1, layout.n)
    )
    return [every, NOT, DiagonalStep(diagonal, layout.n, layout.m), NOT, BOTH, NOT, some, BOTH]


@dataclass(frozen=True, eq=False, repr=False)
class window(Mask):
    """Let each query attend to the keys from `left` before its own position to `right` after it.

    Parameters
    ----------
    left, right : int or None
        Visible keys on either side of the query's own position; None: no limit.
    align : {"start", "end"} or int array broadcasting to (...), optional
        Required where n != m: query i is aligned with key i ("start"), key i + m - n ("end", as with a cache) or key
        i + `align`. Sequences of these lengths, whose last queries are the newest positions, have
        ``align=lengths - n``.

    Returns
    -------
    Mask
        For ``mask=``.

    References
    ----------
    Beltagy, Peters and Cohan 2020, "Longformer", section 3.1.

    Examples
    --------
    >>> from regard import mask
    >>> mask.window(1, 0).dense(4, 4).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """

    left: int | None
    right: int | None
    align: Any = None

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            if getattr(self, name) is not None:  # as a Python integer: NumPy's wrap around
                object.__setattr__(self, name, _check.integer(name, getattr(self, name)))
        object.__setattr__(self, "align", as_align(self.align))

    def batch_shape(self) -> tuple[int, ...]:
        return self.align.shape if isinstance(self.align, np.ndarray) else ()

    def _step(self, n: int, m: int) -> BandStep | None:
        """Return the band of n queries and m keys where it needs no check of `align`."""
        named = isinstance(self.align, str) or (self.align is None and n == m)
        return self._band(m - n if self.align == "end" else 0) if named else None

    def _band(self, offset: int) -> BandStep:
        """Return the least and the largest visible j - i for query 0 at this key."""
        low, high = self.left, self.right
        return BandStep(None if low is None else offset - low, None if high is None else offset + high)

    def bind(self, layout: Layout) -> Bound:
        first = first_key(type(self).__name__, self.align, layout)
        if not isinstance(first, np.ndarray):
            return Bound(self._band(first))
        steps: list[MaskStep] = [BandStep(None, None)]
        if self.right is not None:
            steps = _up_to(first + min(self.right, FAR), layout)
        if self.left is not None:
            steps += [*_up_to(first - min(self.left, FAR) - 1, layout), NOT, BOTH]
        return Bound(*steps)

    def restrict(self, layout: Layout, region: Region) -> Mask:
        return window(self.left, self.right, region.align(type(self).__name__, self.align, layout))


class causal(window):
    """Let each query attend to its own position and those before it.

    Parameters
    ----------
    align : {"start", "end"} or int array broadcasting to (...), optional
        As for `window`.

    Returns
    -------
    Mask
        For ``mask=``.

    References
    ----------
    Vaswani et al. 2017, section 3.2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from regard import mask
    >>> mask.causal().dense(3, 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])

    Two sequences of 4 and 3 keys, of which the last two are those of the queries:

    >>> mask.causal(align=np.array([4, 3]) - 2).dense(2, 4).astype(int)
    array([[[1, 1, 1, 0],
            [1, 1, 1, 1]],
    <BLANKLINE>
           [[1, 1, 0, 0],
            [1, 1, 1, 0]]])
    """

    def __init__(self, align: Align | ArrayLike | None = None) -> None:
        super().__init__(None, 0, align)


@dataclass(frozen=True, eq=False, repr=False)
class lengths(Mask):
    """Let queries attend to the first keys only, in a batch of padded sequences.

    Parameters
    ----------
    keys : int or int array broadcasting to (...)
        Number of keys without padding, 0 to m, along the leading dimensions.
    queries : int or int array broadcasting to (...), optional
        Number of queries without padding; no key is visible to the others. Both arrays broadcast from the right: one
        length for each sentence of queries (batch, heads, n, d) has shape (batch, 1).

    Returns
    -------
    Mask
        For ``mask=``.

    Examples
    --------
    >>> from regard import mask
    >>> mask.lengths([1, 3], queries=2).dense(3, 3).astype(int)
    array([[[1, 0, 0],
            [1, 0, 0],
            [0, 0, 0]],
    <BLANKLINE>
           [[1, 1, 1],
            [1, 1, 1],
            [0, 0, 0]]])
    """

    keys: Any
    queries: Any = None

    def __post_init__(self) -> None:
        for name in ("keys", "queries"):
            if name == "keys" or getattr(self, name) is not None:
                counts = _check.integer_array(f"{name} of lengths", getattr(self, name), least=0)
                object.__setattr__(self, name, counts)

    def batch_shape(self) -> tuple[int, ...]:
        queries = () if self.queries is None else self.queries.shape
        return _check.broadcast_shapes("keys and queries of lengths", self.keys.shape, queries)

    def bind(self, layout: Layout) -> Bound:
        keys = KeysStep(_per_item("keys of lengths", self.keys, layout, layout.m))
        if self.queries is None:
            return Bound(keys)
        queries = _per_item("queries of lengths", self.queries, layout, layout.n)
        return Bound(keys, QueriesStep(queries), BOTH)

    def restrict(self, layout: Layout, region: Region) -> Mask:
        keys = _counts_in(region.of_batch(self.keys), region.columns)
        queries = None if self.queries is None else _counts_in(region.of_batch(self.queries), region.rows)
        return lengths(keys, queries)


def _per_item(name: str, counts: NDArray[np.int64], layout: Layout, most: int) -> NDArray[np.int64]:
    """Return one count for each item, none above `most`."""
    _check.broadcast(name, counts.shape, layout.batch_shape, "(...)", PER_SENTENCE if counts.ndim else "")
    _check.within(name, counts, most=most)
    return _for_each_item(counts, layout)


def _for_each_item(counts: NDArray[np.int64], layout: Layout) -> NDArray[np.int64]:
    full = np.empty(layout.inner, np.int64)
    full[...] = layout.per_query_head(counts, 0)
    return full.reshape(-1)


def _counts_in(counts: NDArray[np.int64], positions: slice) -> NDArray[np.int64]:
    """Return how many of the first `counts` positions of a sequence are in this part of it."""
    clipped: NDArray[np.int64] = np.clip(counts - positions.start, 0, extent(positions))
    return clipped


@dataclass(frozen=True, eq=False, repr=False)
class documents(Mask):
    """Let each query attend to its own document only, where several sequences are packed into one.

    Parameters
    ----------
    queries : int array broadcasting to (..., n)
        Document of each query.
    keys : int array broadcasting to (..., m), optional
        Document of each key; that of the queries by default.

    Returns
    -------
    Mask
        For ``mask=``.

    Examples
    --------
    >>> from regard import mask
    >>> mask.documents([0, 0, 1]).dense(3, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """

    queries: Any
    keys: Any = None

    def __post_init__(self) -> None:
        keys = self.queries if self.keys is None else self.keys
        object.__setattr__(
            self, "queries", np.atleast_1d(_check.integer_array("queries of documents", self.queries))
        )
        object.__setattr__(self, "keys", np.atleast_1d(_check.integer_array("keys of documents", keys)))

    def batch_shape(self) -> tuple[int, ...]:
        leads = self.queries.shape[:-1], self.keys.shape[:-1]
        return _check.broadcast_shapes("queries and keys of documents", *leads)

    def bind(self, layout: Layout) -> Bound:
        queries = _ids("queries of documents", self.queries, layout, layout.n, "(..., n)")
        keys = _ids("keys of documents", self.keys, layout, layout.m, "(..., m)")
        return Bound(DocumentStep(queries, keys))

    def restrict(self, layout: Layout, region: Region) -> Mask:
        return documents(region.of_rows(self.queries), region.of_columns(self.keys))

    def __repr__(self) -> str:
        same = np.array_equal(getattr(self, "queries", 0), getattr(self, "keys", 1))
        return constructor_text(self, keys=None) if same else constructor_text(self)


def _ids(name: str, ids: NDArray[np.int64], layout: Layout, length: int, letters: str) -> DistinctItems:
    layout.check(name, ids, (length,), letters)
    ids = np.require(np.broadcast_to(ids, (*ids.shape[:-1], length)), requirements=["C", "A"])
    return DistinctItems(layout.per_query_head(ids, 1)[..., None], layout.inner)


@dataclass(frozen=True, eq=False, repr=False)
class prefix(Mask):
    """Let each query attend to the keys before it and to the complete prefix, as in a prefix language model.

    Parameters
    ----------
    length : int or int array broadcasting to (...)
        Number of first keys that are visible to every query, 0 to m.
    align : {"start", "end"} or int array broadcasting to (...), optional
        As for `window`.

    Returns
    -------
    Mask
        For ``mask=``.

    References
    ----------
    Raffel et al. 2020, "Exploring the Limits of Transfer Learning", figure 3.

    Examples
    --------
    >>> from regard import mask
    >>> mask.prefix(2).dense(4, 4).astype(int)
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 0],
           [1, 1, 1, 1]])
    """

    length: Any
    align: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", _check.integer_array("length of prefix", self.length, least=0))
        object.__setattr__(self, "align", as_align(self.align))

    def batch_shape(self) -> tuple[int, ...]:
        return self._composed().batch_shape()

    def bind(self, layout: Layout) -> Bound:
        first_key("prefix", self.align, layout)
        _per_item("length of prefix", self.length, layout, layout.m)
        return bound(self._composed(), layout)

    def _composed(self) -> Mask:
        return causal(self.align) | lengths(self.length)

    def restrict(self, layout: Layout, region: Region) -> Mask:
        return self._composed().restrict(layout, region)


@dataclass(frozen=True, eq=False, repr=False)
class Block(Mask):
    """A block of a mask that has no smaller form, such as one of a user's class: it evaluates the complete mask."""

    mask: Mask
    layout: Layout
    region: Region

    def batch_shape(self) -> tuple[int, ...]:
        return tuple(extent(part) for part in self.region.batch)

    def bind(self, layout: Layout) -> Evaluate:
        mask, region = bound(self.mask, self.layout), self.region
        items_of = np.arange(self.layout.items).reshape(self.layout.batch_shape)[region.batch].reshape(-1)

        def moved(part: slice, by: int) -> slice:
            return slice(part.start + by, part.stop + by)

        def evaluate_block(items: slice, rows: slice, columns: slice) -> Visible:
            rows, columns = moved(rows, region.rows.start), moved(columns, region.columns.start)
            block = np.empty((len(items_of[items]), extent(rows), extent(columns)), bool)
            for row, item in zip(block, items_of[items].tolist(), strict=True):
                row[...] = mask.block(slice(item, item + 1), rows, columns)
            return block

        return evaluate_block

    def __repr__(self) -> str:
        return f"{_part(self.mask, Both, Either)}[{self.region}]"


MaskLike: TypeAlias = Mask | ArrayLike


def as_mask(mask: Any) -> Mask:
    """Return a mask object for the argument ``mask=``."""
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, type) and issubclass(mask, Mask):
        _check.fail(f"mask must be an instance, not a class: mask.{mask.__name__}(...)", kind=TypeError)
    if isinstance(mask, str):
        _check.fail(
            f"mask must be bool or a regard.mask object. Got {mask!r} instead.",
            hint="mask.causal()",
            kind=TypeError,
        )
    array = _check.as_array("mask", mask, "bools", "each row needs as many columns as there are keys")
    if array.dtype != np.bool_:
        got = type(mask).__name__ if array.dtype == object and not array.ndim else f"dtype {array.dtype}"
        hints = dict.fromkeys("iu", "use .astype(bool) if 1 means visible")
        hints["f"] = "an array that is added to the scores is bias="
        _check.fail(
            f"mask must be bool (True = visible) or a regard.mask object. Got {got} instead.",
            hint=hints.get(array.dtype.kind, "") if array.size else "",
            kind=TypeError,
        )
    return Dense(array)
