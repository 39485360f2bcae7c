"""Masks: which keys are visible to which query.

A mask is a bool array (True = visible) or one of the objects of this module, composed with ``&``, ``|`` and ``~``. An
object is never expanded. For a block of queries and keys it returns True (all visible), False (all masked) or a small
bool array, so that a kernel can skip blocks that are masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import Items, Layout, Region, extent, slices

__all__ = ["Mask", "causal", "documents", "lengths", "prefix", "window"]

Bools = NDArray[np.bool_]
Visible: TypeAlias = bool | Bools
# (items, queries, keys) -> True, False or (items or 1, queries, keys)
Evaluate = Callable[[slice, slice, slice], Visible]
Align = Literal["start", "end"]
MAX_DEPTH = 700
MAX_PRINTED_DEPTH = 60
BLOCK_PAIRS = 2**16  # that `dense` evaluates at a time


@dataclass(frozen=True, eq=False)
class Step:
    """A step of a mask as a program in postfix order, which the native kernel evaluates without calling Python.

    A leaf pushes a bool for each pair: "band" (keys i + low to i + high), "keys" and "queries" (the first `counts` of
    an item), "documents" (ids of `left` and `right` are equal), "dense" (the array `left`). "both" replaces the last
    two by their conjunction, "not" negates the last one.
    """

    kind: Literal["band", "keys", "queries", "documents", "dense", "both", "not"]
    low: int | None = None
    high: int | None = None
    counts: NDArray[np.int64] | None = None
    left: Items | None = None
    right: Items | None = None


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
        """Drop the inherited `steps` and `part` of a class that overrides `bind` only."""
        super().__init_subclass__(**options)
        for name in ("steps", "part"):
            if "bind" in vars(cls) and name not in vars(cls):
                setattr(cls, name, getattr(Mask, name))

    def bind(self, layout: Layout) -> Evaluate:
        """Check this mask against the shape of an attention, and return the function that evaluates a block."""
        _check.fail(
            f"mask must have a method bind(layout). Got {type(self).__name__} without.", kind=TypeError
        )

    def steps(self, layout: Layout) -> list[Step] | None:
        """Return the mask as a program, or None if it has no such form; `layout` has been checked."""
        return None

    def part(self, layout: Layout, region: Region) -> Mask:
        """Return the mask of a block as that of an attention of its own; `layout` is that of the complete attention."""
        return Block(self, layout, region)

    def lead(self) -> tuple[int, ...]:
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
        shape = Layout(self.lead(), None, n, m)
        dense, evaluate = np.empty((shape.items, n, m), bool), self.bind(shape)
        # By blocks, since evaluation builds integer arrays of 8 bytes for each pair.
        rows = max(1, min(n, BLOCK_PAIRS // max(1, m)))
        for items in slices(shape.items, max(1, BLOCK_PAIRS // max(1, rows * m))):
            for part in slices(n, rows):
                dense[items, part] = evaluate(items, part, slice(0, m))
        return dense.reshape(*shape.lead, n, m)

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
        return _check.constructor_text(self)


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

    def lead(self) -> tuple[int, ...]:
        return _joined(self.left.lead(), self.right.lead())

    def bind(self, layout: Layout) -> Evaluate:
        left, right = self.left.bind(layout), self.right.bind(layout)

        def evaluate(items: slice, rows: slice, columns: slice) -> Visible:
            first = left(items, rows, columns)
            second = False if first is False else right(items, rows, columns)
            if first is False or second is False:
                return False
            return second if first is True else first if second is True else first & second

        return evaluate

    def steps(self, layout: Layout) -> list[Step] | None:
        left, right = self.left.steps(layout), self.right.steps(layout)
        return None if left is None or right is None else [*left, *right, Step("both")]

    def part(self, layout: Layout, region: Region) -> Mask:
        return Both(self.left.part(layout, region), self.right.part(layout, region))

    def __repr__(self) -> str:
        return f"{_part(self.left, Either)} & {_part(self.right, Both, Either)}"


@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    """Negation: visible where the other mask hides the key."""

    other: Mask

    def __post_init__(self) -> None:
        _nest(self, self.other)

    def lead(self) -> tuple[int, ...]:
        return self.other.lead()

    def bind(self, layout: Layout) -> Evaluate:
        other = self.other.bind(layout)

        def evaluate(items: slice, rows: slice, columns: slice) -> Visible:
            visible = other(items, rows, columns)
            return (not visible) if isinstance(visible, bool) else ~visible

        return evaluate

    def steps(self, layout: Layout) -> list[Step] | None:
        other = self.other.steps(layout)
        return None if other is None else [*other, Step("not")]

    def part(self, layout: Layout, region: Region) -> Mask:
        return Not(self.other.part(layout, region))

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

    def lead(self) -> tuple[int, ...]:
        return self.array.shape[:-2]

    def bind(self, layout: Layout) -> Evaluate:
        layout.check("mask", self.array, (layout.n, layout.m), "(..., n, m)")
        items_of = self._items(layout)

        def evaluate(items: slice, rows: slice, columns: slice) -> Visible:
            part = items_of.block(items, rows, columns)
            if part.all():
                return True
            return part if part.any() else False

        return evaluate

    def _items(self, layout: Layout) -> Items:
        array = self.array.reshape((1,) * (2 - self.array.ndim) + self.array.shape)
        array = np.broadcast_to(array, (*array.shape[:-2], layout.n, layout.m))
        return Items(layout.per_query_head(array, 2), layout.inner)

    def steps(self, layout: Layout) -> list[Step] | None:
        return [Step("dense", left=self._items(layout))]

    def part(self, layout: Layout, region: Region) -> Mask:
        return Dense(region.of_pairs(self.array))

    def __repr__(self) -> str:
        return _check.value_text(self.array)


def _offset(name: str, align: Align | None, layout: Layout) -> int:
    """Return the key that query 0 is aligned with: law 9."""
    if align is None and layout.n != layout.m:
        _check.fail(
            f'{name} needs align="start" or align="end" where n != m: {layout.n} and {layout.m}',
            hint='"start": query 0 is aligned with key 0; "end": the last query with the last key (a cache)',
        )
    return layout.m - layout.n if align == "end" else 0


def _check_align(align: Align | None) -> None:
    if align is not None:
        _check.choice("align", align, ("start", "end"))


@dataclass(frozen=True, repr=False)
class window(Mask):
    """Let each query attend to the keys from `left` before its own position to `right` after it.

    Parameters
    ----------
    left, right : int or None
        Visible keys on either side of the query's own position; None: no limit.
    align : {"start", "end"}, optional
        Where n != m: query i is aligned with key i ("start") or key i + m - n ("end").

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
    align: Align | None = None

    def __post_init__(self) -> None:
        for name in ("left", "right"):
            if getattr(self, name) is not None:  # as a Python integer: NumPy's wrap around
                object.__setattr__(self, name, _check.integer(name, getattr(self, name)))
        _check_align(self.align)

    def _ends(self, layout: Layout) -> tuple[int | None, int | None]:
        """Return the least and the largest visible j - i."""
        offset = _offset(type(self).__name__, self.align, layout)
        return (
            None if self.left is None else offset - self.left,
            None if self.right is None else offset + self.right,
        )

    def bind(self, layout: Layout) -> Evaluate:
        return _band(*self._ends(layout))

    def steps(self, layout: Layout) -> list[Step] | None:
        return [Step("band", *self._ends(layout))]

    def part(self, layout: Layout, region: Region) -> Mask:
        return Band(*self._ends(layout)).part(layout, region)


@dataclass(frozen=True, repr=False)
class Band(Mask):
    """Let query i attend to the keys i + low to i + high; None: no limit. Any block of a window is one."""

    low: int | None
    high: int | None

    def bind(self, layout: Layout) -> Evaluate:
        return _band(self.low, self.high)

    def steps(self, layout: Layout) -> list[Step] | None:
        return [Step("band", self.low, self.high)]

    def part(self, layout: Layout, region: Region) -> Mask:
        moved = region.rows.start - region.columns.start
        return Band(*(None if end is None else end + moved for end in (self.low, self.high)))


def _band(low: int | None, high: int | None) -> Evaluate:
    """Return the function that evaluates i + low <= j <= i + high."""

    def evaluate(items: slice, rows: slice, columns: slice) -> Visible:
        # The smallest and the largest j - i of the block.
        first, last = columns.start - rows.stop + 1, columns.stop - 1 - rows.start
        if (low is None or first >= low) and (high is None or last <= high):
            return True
        if (low is not None and last < low) or (high is not None and first > high):
            return False
        difference = np.arange(columns.start, columns.stop) - np.arange(rows.start, rows.stop)[:, None]
        visible = np.ones(difference.shape, bool) if low is None else difference >= low
        return (visible if high is None else visible & (difference <= high))[None]

    return evaluate


class causal(window):
    """Let each query attend to its own position and those before it.

    Parameters
    ----------
    align : {"start", "end"}, optional
        Required where n != m: query i is aligned with key i ("start") or key i + m - n ("end", as with a cache).

    Returns
    -------
    Mask
        For ``mask=``.

    References
    ----------
    Vaswani et al. 2017, section 3.2.3.

    Examples
    --------
    >>> from regard import mask
    >>> mask.causal().dense(3, 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """

    def __init__(self, align: Align | None = None) -> None:
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

    def lead(self) -> tuple[int, ...]:
        queries = () if self.queries is None else self.queries.shape
        return _check.broadcast_shapes("keys and queries of lengths", self.keys.shape, queries)

    def _counts(self, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        return _per_item("keys of lengths", self.keys, layout, layout.m), (
            None if self.queries is None else _per_item("queries of lengths", self.queries, layout, layout.n)
        )

    def steps(self, layout: Layout) -> list[Step] | None:
        keys, queries = self._counts(layout)
        steps = [Step("keys", counts=keys)]
        return steps if queries is None else [*steps, Step("queries", counts=queries), Step("both")]

    def part(self, layout: Layout, region: Region) -> Mask:
        keys = _counts_in(region.of_lead(self.keys), region.columns)
        queries = None if self.queries is None else _counts_in(region.of_lead(self.queries), region.rows)
        return lengths(keys, queries)

    def bind(self, layout: Layout) -> Evaluate:
        keys, queries = self._counts(layout)

        def evaluate(items: slice, rows: slice, columns: slice) -> Visible:
            visible = _below(keys[items], columns)[:, None, :]
            if queries is not None:
                visible = visible & _below(queries[items], rows)[:, :, None]
            if visible.all():
                return True
            if not visible.any():
                return False
            return np.broadcast_to(visible, (len(visible), rows.stop - rows.start, visible.shape[2]))

        return evaluate


def _per_item(name: str, counts: NDArray[np.int64], layout: Layout, most: int) -> NDArray[np.int64]:
    """Return one count for each item, none above `most`."""
    hint = "one for each sentence of (batch, heads, ...) has shape (batch, 1)"
    _check.broadcast(name, counts.shape, layout.lead, "(...)", hint if counts.ndim else "")
    if counts.size and int(counts.max()) > most:
        _check.fail(f"{name} must be at most {most}. Got {int(counts.max())} instead.")
    full = np.broadcast_to(layout.per_query_head(counts, 0), layout.inner)
    return np.require(full, requirements=["C", "A"]).reshape(-1)


def _counts_in(counts: NDArray[np.int64], positions: slice) -> NDArray[np.int64]:
    """Return how many of the first `counts` positions of a sequence are in this part of it."""
    clipped: NDArray[np.int64] = np.clip(counts - positions.start, 0, extent(positions))
    return clipped


def _below(counts: NDArray[np.int64], positions: slice) -> Bools:
    below: Bools = np.arange(positions.start, positions.stop) < counts[:, None]
    return below


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

    def lead(self) -> tuple[int, ...]:
        leads = self.queries.shape[:-1], self.keys.shape[:-1]
        return _check.broadcast_shapes("queries and keys of documents", *leads)

    def _ids(self, layout: Layout) -> tuple[Items, Items]:
        return (
            _ids("queries of documents", self.queries, layout, layout.n, "(..., n)"),
            _ids("keys of documents", self.keys, layout, layout.m, "(..., m)"),
        )

    def steps(self, layout: Layout) -> list[Step] | None:
        queries, keys = self._ids(layout)
        return [Step("documents", left=queries, right=keys)]

    def part(self, layout: Layout, region: Region) -> Mask:
        return documents(region.of_rows(self.queries), region.of_columns(self.keys))

    def __repr__(self) -> str:
        same = np.array_equal(getattr(self, "queries", 0), getattr(self, "keys", 1))
        return _check.constructor_text(self, keys=None) if same else _check.constructor_text(self)

    def bind(self, layout: Layout) -> Evaluate:
        queries, keys = self._ids(layout)

        def evaluate(items: slice, rows: slice, columns: slice) -> Visible:
            left, right = queries.block(items, rows), keys.block(items, columns)
            if not left.size or not right.size or left.min() > right.max() or right.min() > left.max():
                return False
            visible = left == right.swapaxes(-1, -2)
            if visible.all():
                return True
            return visible if visible.any() else False

        return evaluate


def _ids(name: str, ids: NDArray[np.int64], layout: Layout, length: int, letters: str) -> Items:
    layout.check(name, ids, (length,), letters)
    ids = np.require(np.broadcast_to(ids, (*ids.shape[:-1], length)), requirements=["C", "A"])
    return Items(layout.per_query_head(ids, 1)[..., None], layout.inner)


@dataclass(frozen=True, eq=False, repr=False)
class prefix(Mask):
    """Let each query attend to the keys before it and to the complete prefix, as in a prefix language model.

    Parameters
    ----------
    length : int or int array broadcasting to (...)
        Number of first keys that are visible to every query, 0 to m.
    align : {"start", "end"}, optional
        As for `causal`.

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
    align: Align | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", _check.integer_array("length of prefix", self.length, least=0))
        _check_align(self.align)

    def lead(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.length.shape
        return shape

    def bind(self, layout: Layout) -> Evaluate:
        _offset("prefix", self.align, layout)
        _per_item("length of prefix", self.length, layout, layout.m)
        return self._composed().bind(layout)

    def _composed(self) -> Mask:
        return causal(self.align) | lengths(self.length)

    def steps(self, layout: Layout) -> list[Step] | None:
        return self._composed().steps(layout)

    def part(self, layout: Layout, region: Region) -> Mask:
        return self._composed().part(layout, region)


@dataclass(frozen=True, eq=False, repr=False)
class Block(Mask):
    """A block of a mask that has no smaller form, such as one of a user's class: it evaluates the complete mask."""

    mask: Mask
    layout: Layout
    region: Region

    def lead(self) -> tuple[int, ...]:
        return tuple(extent(part) for part in self.region.lead)

    def bind(self, layout: Layout) -> Evaluate:
        evaluate, region = self.mask.bind(self.layout), self.region
        items_of = np.arange(self.layout.items).reshape(self.layout.lead)[region.lead].reshape(-1)

        def moved(part: slice, by: int) -> slice:
            return slice(part.start + by, part.stop + by)

        def evaluate_block(items: slice, rows: slice, columns: slice) -> Visible:
            rows, columns = moved(rows, region.rows.start), moved(columns, region.columns.start)
            block = np.empty((len(items_of[items]), extent(rows), extent(columns)), bool)
            for row, item in zip(block, items_of[items].tolist(), strict=True):
                visible = evaluate(slice(item, item + 1), rows, columns)
                row[...] = visible if isinstance(visible, bool) else visible[0]
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
    if hasattr(mask, "__dask_graph__"):  # it would be computed here, whatever its size
        hint = "mask.compute(); regard.dask.attention takes it as the complete mask"
        _check.fail("mask must be in memory. Got a Dask array instead.", hint=hint, kind=TypeError)
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
