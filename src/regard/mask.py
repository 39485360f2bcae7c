"""Who may see whom.

A mask is a bool array (True = may see) or one of the objects here, composed with ``&``, ``|`` and ``~``. An object is
never expanded: asked about a block of queries and keys it answers True (all see all), False (none sees any) or a small
bool array, so that a kernel can skip what nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import Items, Layout, slices

__all__ = ["Mask", "causal", "documents", "lengths", "prefix", "window"]

Bools = NDArray[np.bool_]
Answer: TypeAlias = bool | Bools
# (items, queries, keys) -> True, False or (items or 1, queries, keys)
Ask = Callable[[slice, slice, slice], Answer]
Align = Literal["start", "end"]
DEEPEST = 700
WRITTEN = 60  # how deep a composed mask is written out
AT_ONCE = 2**16  # pairs of a mask that are written out


@dataclass(frozen=True, eq=False)
class Step:
    """A step of the program, in postfix order, by which a kernel that is no Python answers for itself.

    A leaf pushes an answer: "band" (keys i + low to i + high), "keys" and "queries" (the first `counts` of an item),
    "documents" (ids of `left` and `right` are equal), "dense" (the bools of `left`). "both" joins the last two answers,
    "not" turns the last one around.
    """

    kind: Literal["band", "keys", "queries", "documents", "dense", "both", "not"]
    low: int | None = None
    high: int | None = None
    counts: NDArray[np.int64] | None = None
    left: Items | None = None
    right: Items | None = None


class Mask:
    """What all mask objects can do: be composed, be asked about a block, be written out.

    Examples
    --------
    >>> from regard import mask
    >>> (mask.causal() & ~mask.window(0, 0)).dense(3, 3).astype(int)
    array([[0, 0, 0],
           [1, 0, 0],
           [1, 1, 0]])
    """

    depth: ClassVar[int] = 0  # of what it is composed of

    def __init_subclass__(cls, **options: Any) -> None:
        """Forget the inherited program of a class that answers otherwise and has none of its own."""
        super().__init_subclass__(**options)
        if "bind" in vars(cls) and "steps" not in vars(cls):
            cls.steps = Mask.steps  # type: ignore[method-assign]

    def bind(self, layout: Layout) -> Ask:
        """Check this mask against an attention's shape and return the function that answers for a block."""
        _check.fail(
            f"mask must have a method bind(layout). Got {type(self).__name__} without.", kind=TypeError
        )

    def steps(self, layout: Layout) -> list[Step] | None:
        """Return the same as a program, or None if there is none; `layout` has been checked."""
        return None

    def lead(self) -> tuple[int, ...]:
        """Return the leading dimensions that this mask differs along."""
        return ()

    def dense(self, n: int, m: int) -> Bools:
        """Write the mask out.

        Parameters
        ----------
        n, m : int
            Numbers of queries and keys.

        Returns
        -------
        bool array (..., n, m)
            True where the query may see the key.

        Examples
        --------
        >>> from regard import mask
        >>> mask.causal(align="end").dense(2, 3).astype(int)
        array([[1, 1, 0],
               [1, 1, 1]])
        """
        n, m = _check.whole("n", n), _check.whole("m", m)
        shape = Layout(self.lead(), None, n, m)
        dense, ask = np.empty((shape.items, n, m), bool), self.bind(shape)
        # A part at a time, since answers are made of whole numbers.
        rows = max(1, min(n, AT_ONCE // max(1, m)))
        for some in slices(shape.items, max(1, AT_ONCE // max(1, rows * m))):
            for part in slices(n, rows):
                dense[some, part] = ask(some, part, slice(0, m))
        return dense.reshape(*shape.lead, n, m)

    def __and__(self, other: Any) -> Mask:
        return Both(self, as_mask(other))

    def __or__(self, other: Any) -> Mask:
        return Either(self, as_mask(other))

    __rand__, __ror__ = __and__, __or__
    __array_ufunc__ = None  # array & mask asks the mask

    def __bool__(self) -> bool:
        hint = "not with and, or, not: a mask is neither true nor false"
        _check.fail("masks must be composed with & | ~.", hint=hint, kind=TypeError)

    def __invert__(self) -> Mask:
        return Not(self)

    def __repr__(self) -> str:
        return _check.written(self)


def _nest(composed: Mask, *parts: Mask) -> None:
    """Count how deep a composed mask goes: each level is a call within a call, of which Python has few."""
    depth = 1 + max(part.depth for part in parts)
    if depth > DEEPEST:
        hint = "make one bool array of many masks, or one documents() (| counts three)"
        _check.fail(f"masks must be composed at most {DEEPEST} deep. Got {depth} instead.", hint=hint)
    object.__setattr__(composed, "depth", depth)


def _part(mask: Mask, *within: type[Mask]) -> str:
    """Return a part of a composed mask, in brackets if it is one of these; what lies very deep is left out."""
    if mask.depth > WRITTEN:
        return "..."
    return f"({mask!r})" if isinstance(mask, within) else repr(mask)


def _joined(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return _check.together("composed masks", left, right)


@dataclass(frozen=True, eq=False, repr=False)
class Both(Mask):
    """Seen by both masks."""

    left: Mask
    right: Mask

    def __post_init__(self) -> None:
        _nest(self, self.left, self.right)

    def lead(self) -> tuple[int, ...]:
        return _joined(self.left.lead(), self.right.lead())

    def bind(self, layout: Layout) -> Ask:
        left, right = self.left.bind(layout), self.right.bind(layout)

        def ask(items: slice, rows: slice, columns: slice) -> Answer:
            one = left(items, rows, columns)
            two = False if one is False else right(items, rows, columns)
            if one is False or two is False:
                return False
            return two if one is True else one if two is True else one & two

        return ask

    def steps(self, layout: Layout) -> list[Step] | None:
        left, right = self.left.steps(layout), self.right.steps(layout)
        return None if left is None or right is None else [*left, *right, Step("both")]

    def __repr__(self) -> str:
        return f"{_part(self.left, Either)} & {_part(self.right, Both, Either)}"


@dataclass(frozen=True, eq=False, repr=False)
class Not(Mask):
    """Seen where the other mask forbids it."""

    other: Mask

    def __post_init__(self) -> None:
        _nest(self, self.other)

    def lead(self) -> tuple[int, ...]:
        return self.other.lead()

    def bind(self, layout: Layout) -> Ask:
        other = self.other.bind(layout)

        def ask(items: slice, rows: slice, columns: slice) -> Answer:
            answer = other(items, rows, columns)
            return (not answer) if isinstance(answer, bool) else ~answer

        return ask

    def steps(self, layout: Layout) -> list[Step] | None:
        other = self.other.steps(layout)
        return None if other is None else [*other, Step("not")]

    def __repr__(self) -> str:
        return f"~{_part(self.other, Both, Either)}"


class Either(Not):
    """Seen by one of the masks: not (neither sees)."""

    def __init__(self, left: Mask, right: Mask) -> None:
        super().__init__(Both(Not(left), Not(right)))
        object.__setattr__(self, "given", (left, right))

    given: tuple[Mask, Mask]

    def __repr__(self) -> str:
        left, right = self.given
        return f"{_part(left)} | {_part(right, Either)}"


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Mask):
    """A bool array (..., n, m)."""

    array: Bools

    def lead(self) -> tuple[int, ...]:
        return self.array.shape[:-2]

    def bind(self, layout: Layout) -> Ask:
        layout.check("mask", self.array, (layout.n, layout.m), "(..., n, m)")
        items_of = self._items(layout)

        def ask(items: slice, rows: slice, columns: slice) -> Answer:
            part = items_of.block(items, rows, columns)
            if part.all():
                return True
            return part if part.any() else False

        return ask

    def _items(self, layout: Layout) -> Items:
        array = self.array.reshape((1,) * (2 - self.array.ndim) + self.array.shape)
        array = np.broadcast_to(array, (*array.shape[:-2], layout.n, layout.m))
        return Items(layout.per_query_head(array, 2), layout.inner)

    def steps(self, layout: Layout) -> list[Step] | None:
        return [Step("dense", left=self._items(layout))]

    def __repr__(self) -> str:
        return _check.value_text(self.array)


def _offset(name: str, align: Align | None, layout: Layout) -> int:
    """Return the key that query 0 stands at: law 9."""
    if align is None and layout.n != layout.m:
        _check.fail(
            f'{name} needs align="start" or align="end" where n != m: {layout.n} and {layout.m}',
            hint='"start": query 0 stands at key 0; "end": the last query stands at the last key (a cache)',
        )
    return layout.m - layout.n if align == "end" else 0


def _check_align(align: Align | None) -> None:
    if align is not None:
        _check.choice("align", align, ("start", "end"))


@dataclass(frozen=True, repr=False)
class window(Mask):
    """See the keys from `left` before the query's own place to `right` after it.

    Parameters
    ----------
    left, right : int or None
        Keys seen on either side beside the own one; None: no limit.
    align : {"start", "end"}, optional
        Where n != m: query i stands at key i ("start") or at key i + m - n ("end").

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
            if getattr(self, name) is not None:  # Python's own number: NumPy's wrap around
                object.__setattr__(self, name, _check.whole(name, getattr(self, name)))
        _check_align(self.align)

    def _ends(self, layout: Layout) -> tuple[int | None, int | None]:
        """Return the least and the largest j - i that are seen."""
        offset = _offset(type(self).__name__, self.align, layout)
        return (
            None if self.left is None else offset - self.left,
            None if self.right is None else offset + self.right,
        )

    def bind(self, layout: Layout) -> Ask:
        return _band(*self._ends(layout))

    def steps(self, layout: Layout) -> list[Step] | None:
        return [Step("band", *self._ends(layout))]


def _band(low: int | None, high: int | None) -> Ask:
    """Answer for i + low <= j <= i + high."""

    def ask(items: slice, rows: slice, columns: slice) -> Answer:
        # The smallest and the largest j - i of the block.
        first, last = columns.start - rows.stop + 1, columns.stop - 1 - rows.start
        if (low is None or first >= low) and (high is None or last <= high):
            return True
        if (low is not None and last < low) or (high is not None and first > high):
            return False
        apart = np.arange(columns.start, columns.stop) - np.arange(rows.start, rows.stop)[:, None]
        seen = np.ones(apart.shape, bool) if low is None else apart >= low
        return (seen if high is None else seen & (apart <= high))[None]

    return ask


class causal(window):
    """See the own place and what comes before it.

    Parameters
    ----------
    align : {"start", "end"}, optional
        Needed where n != m: query i stands at key i ("start") or at key i + m - n ("end", as with a cache).

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
    """See the first keys only: what a batch of padded sequences needs.

    Parameters
    ----------
    keys : int or int array broadcasting to (...)
        Number of keys that are real, 0 to m, for each of the leading dimensions.
    queries : int or int array broadcasting to (...), optional
        Number of queries that are real; the others see nothing. Both broadcast from the right: one length for each
        sentence of queries (batch, heads, n, d) has shape (batch, 1).

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
                counts = _check.whole_array(f"{name} of lengths", getattr(self, name), least=0)
                object.__setattr__(self, name, counts)

    def lead(self) -> tuple[int, ...]:
        queries = () if self.queries is None else self.queries.shape
        return _check.together("keys and queries of lengths", self.keys.shape, queries)

    def _counts(self, layout: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        return _per_item("keys of lengths", self.keys, layout, layout.m), (
            None if self.queries is None else _per_item("queries of lengths", self.queries, layout, layout.n)
        )

    def steps(self, layout: Layout) -> list[Step] | None:
        keys, queries = self._counts(layout)
        steps = [Step("keys", counts=keys)]
        return steps if queries is None else [*steps, Step("queries", counts=queries), Step("both")]

    def bind(self, layout: Layout) -> Ask:
        keys, queries = self._counts(layout)

        def ask(items: slice, rows: slice, columns: slice) -> Answer:
            seen = _below(keys[items], columns)[:, None, :]
            if queries is not None:
                seen = seen & _below(queries[items], rows)[:, :, None]
            if seen.all():
                return True
            return (
                np.broadcast_to(seen, (len(seen), rows.stop - rows.start, seen.shape[2]))
                if seen.any()
                else False
            )

        return ask


def _per_item(name: str, counts: NDArray[np.int64], layout: Layout, most: int) -> NDArray[np.int64]:
    """Return one count for every item, checked against the length it counts along."""
    hint = "one for each sentence of (batch, heads, ...) has shape (batch, 1)"
    _check.broadcast(name, counts.shape, layout.lead, "(...)", hint if counts.ndim else "")
    if counts.size and int(counts.max()) > most:
        _check.fail(f"{name} must be at most {most}. Got {int(counts.max())} instead.")
    full = np.broadcast_to(layout.per_query_head(counts, 0), layout.inner)
    return np.require(full, requirements=["C", "A"]).reshape(-1)


def _below(counts: NDArray[np.int64], places: slice) -> Bools:
    below: Bools = np.arange(places.start, places.stop) < counts[:, None]
    return below


@dataclass(frozen=True, eq=False, repr=False)
class documents(Mask):
    """See the keys of the own document only: several sequences packed into one.

    Parameters
    ----------
    queries : int array broadcasting to (..., n)
        Document of each query.
    keys : int array broadcasting to (..., m), optional
        Document of each key; the queries' by default.

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
            self, "queries", np.atleast_1d(_check.whole_array("queries of documents", self.queries))
        )
        object.__setattr__(self, "keys", np.atleast_1d(_check.whole_array("keys of documents", keys)))

    def lead(self) -> tuple[int, ...]:
        leads = self.queries.shape[:-1], self.keys.shape[:-1]
        return _check.together("queries and keys of documents", *leads)

    def _ids(self, layout: Layout) -> tuple[Items, Items]:
        return (
            _ids("queries of documents", self.queries, layout, layout.n, "(..., n)"),
            _ids("keys of documents", self.keys, layout, layout.m, "(..., m)"),
        )

    def steps(self, layout: Layout) -> list[Step] | None:
        queries, keys = self._ids(layout)
        return [Step("documents", left=queries, right=keys)]

    def __repr__(self) -> str:
        same = np.array_equal(self.queries, self.keys)
        return _check.written(self, keys=None) if same else _check.written(self)

    def bind(self, layout: Layout) -> Ask:
        queries, keys = self._ids(layout)

        def ask(items: slice, rows: slice, columns: slice) -> Answer:
            left, right = queries.block(items, rows), keys.block(items, columns)
            if not left.size or not right.size or left.min() > right.max() or right.min() > left.max():
                return False
            seen = left == right.swapaxes(-1, -2)
            if seen.all():
                return True
            return seen if seen.any() else False

        return ask


def _ids(name: str, ids: NDArray[np.int64], layout: Layout, length: int, letters: str) -> Items:
    layout.check(name, ids, (length,), letters)
    ids = np.require(np.broadcast_to(ids, (*ids.shape[:-1], length)), requirements=["C", "A"])
    return Items(layout.per_query_head(ids, 1)[..., None], layout.inner)


@dataclass(frozen=True, eq=False, repr=False)
class prefix(Mask):
    """See what comes before, and the whole prefix: the mask of a prefix language model.

    Parameters
    ----------
    length : int or int array broadcasting to (...)
        Number of keys at the beginning that every query sees, 0 to m.
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
        object.__setattr__(self, "length", _check.whole_array("length of prefix", self.length, least=0))
        _check_align(self.align)

    def lead(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.length.shape
        return shape

    def bind(self, layout: Layout) -> Ask:
        _offset("prefix", self.align, layout)
        _per_item("length of prefix", self.length, layout, layout.m)
        return self._composed().bind(layout)

    def _composed(self) -> Mask:
        return causal(self.align) | lengths(self.length)

    def steps(self, layout: Layout) -> list[Step] | None:
        return self._composed().steps(layout)


MaskLike: TypeAlias = Mask | ArrayLike


def as_mask(mask: Any) -> Mask:
    """Return a mask object for what the user gave."""
    if isinstance(mask, Mask):
        return mask
    if isinstance(mask, type) and issubclass(mask, Mask):
        _check.fail(f"mask must be made first: mask.{mask.__name__}(...)", kind=TypeError)
    if isinstance(mask, str):
        _check.fail(
            f"mask must be bool or a regard.mask object. Got {mask!r} instead.",
            hint="mask.causal()",
            kind=TypeError,
        )
    array = _check.as_array(
        "mask", mask, "truth values", "it needs as many columns in each row as there are keys"
    )
    if array.dtype != np.bool_:
        got = type(mask).__name__ if array.dtype == object and not array.ndim else f"dtype {array.dtype}"
        hints = dict.fromkeys("iu", "use .astype(bool) if 1 says who may be seen")
        hints["f"] = "numbers that are added to the scores go into bias="
        _check.fail(
            f"mask must be bool (True = may see) or a regard.mask object. Got {got} instead.",
            hint=hints.get(array.dtype.kind, "") if array.size else "",
            kind=TypeError,
        )
    return Dense(array)
