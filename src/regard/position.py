"""Positions: rotary and sinusoidal encodings, and biases that depend on the distance.

A bias is an array that broadcasts to (..., n, m), or an object that computes the bias of a block, so that no n x m
array is built.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._einsum import einsum
from regard._layout import DistinctItems, Layout, Region, as_align, first_key
from regard._repr import constructor_text

__all__ = [
    *("Scaling", "alibi", "dynamic", "linear", "llama3", "longrope", "rotary", "rotary_vjp", "sinusoidal"),
    *("t5_buckets", "yarn"),
]

Array = NDArray[Any]


class BoundBias(Protocol):
    """Protocol of a bias bound to one attention: its values for a block, and its gradient."""

    def block(self, items: slice, rows: slice, columns: slice) -> Array:
        """Return (items or 1, queries, keys)."""
        ...

    def add_gradient(self, items: slice, rows: slice, columns: slice, dlogits: Array) -> None:
        """Add the gradient (items, queries, keys) of a block."""
        ...

    def gradient(self) -> Array:
        """Return the gradient of the learned array, in the shape of that array."""
        ...


def as_native_floats(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the array if it holds aligned floats in native byte order, else a copy of this dtype."""
    if _check.is_float(array.dtype) and array.dtype.isnative and array.flags.aligned:
        return array
    with np.errstate(all="ignore"):  # as in the definition
        return array.astype(dtype)


class ArrayBias:
    """A bias given as an array that broadcasts to (..., n, m)."""

    def __init__(self, array: Array, layout: Layout, dtype: np.dtype[Any]) -> None:
        layout.check("bias", array, (layout.n, layout.m), "(..., n, m)")
        self.shape, self.dtype = array.shape, dtype
        array = array.reshape((1,) * (2 - array.ndim) + array.shape)
        self.once = (array.shape[-2] == 1, array.shape[-1] == 1)  # one value for all queries, for all keys
        if any(self.once):  # converted before it is broadcast to all pairs
            array = as_native_floats(array, dtype)
        full = np.broadcast_to(array, (*array.shape[:-2], layout.n, layout.m))
        self.items = DistinctItems(layout.per_query_head(full, 2), layout.inner)
        self.total: Array | None = None

    def block(self, items: slice, rows: slice, columns: slice) -> Array:
        """Return (items or 1, queries, keys)."""
        return self.items.block(items, rows, columns).astype(self.dtype, copy=False)

    def total_gradient(self) -> Array:
        """Return the array that accumulates the gradient: (stored, n or 1, m or 1)."""
        if self.total is None:
            n, m = self.items.array.shape[-2:]
            stored = int(np.prod(self.items.batch_shape))
            self.total = np.zeros((stored, 1 if self.once[0] else n, 1 if self.once[1] else m), self.dtype)
        return self.total

    def add_gradient(self, items: slice, rows: slice, columns: slice, dlogits: Array) -> None:
        """Add the gradient (items, queries, keys) of a block."""
        total = self.total_gradient()
        rows, dlogits = (slice(0, 1), dlogits.sum(1, keepdims=True)) if self.once[0] else (rows, dlogits)
        columns, dlogits = (
            (slice(0, 1), dlogits.sum(2, keepdims=True)) if self.once[1] else (columns, dlogits)
        )
        self.items.add(total[:, rows, columns], items, dlogits)

    def gradient(self) -> Array:
        """Return the gradient in the shape of the array."""
        return self.total_gradient().reshape(self.shape)


class DistanceBias:
    """A bias ``table[bucket(j - i - offset), head]``: `fill` reads the table, `collect` sums a gradient into its shape.

    Both take the distances (items or 1, queries, keys): of each item, or of all where they have one offset.
    """

    def __init__(
        self,
        table: Array,
        layout: Layout,
        offset: int | NDArray[np.int64],
        fill: Callable[[Array, Array], Array],
        collect: Callable[[Array, Array], Array],
    ) -> None:
        heads = layout.batch_shape[-1] if layout.batch_shape else 1
        self.table, self.fill, self.collect = table, fill, collect
        self.heads: NDArray[np.intp] = np.arange(layout.items) % heads if layout.items else np.arange(0)
        shared = not isinstance(offset, np.ndarray)
        self.distinct = heads if shared else layout.items  # first items, which the others repeat
        offsets = np.broadcast_to(offset, (1,) if shared else layout.batch_shape)
        self.offsets: NDArray[np.int64] = offsets.reshape(-1, 1, 1)
        self.total = np.zeros_like(table)

    def _distances(self, items: slice, rows: slice, columns: slice) -> Array:
        keys, queries = np.arange(columns.start, columns.stop), np.arange(rows.start, rows.stop)
        offsets = self.offsets if len(self.offsets) == 1 else self.offsets[items]
        return np.asarray(keys - queries[:, None] - offsets)

    def block(self, items: slice, rows: slice, columns: slice) -> Array:
        """Return (items, queries, keys)."""
        return self.fill(self._distances(items, rows, columns), self.table[..., self.heads[items]])

    def add_gradient(self, items: slice, rows: slice, columns: slice, dlogits: Array) -> None:
        """Add the gradient (items, queries, keys) of a block."""
        self._add(self.heads[items], self.collect(self._distances(items, rows, columns), dlogits))

    def _all_distances(self, n: int, m: int) -> Array:
        """Return the argument of `fill` for every i - j + m - 1: (items or 1, 1, n + m - 1)."""
        return np.asarray(np.arange(m - 1, -n, -1) - self.offsets)

    def by_distance(self, n: int, m: int) -> Array:
        """Return the bias as a table (distinct items, n + m - 1) over i - j + m - 1."""
        of_items = self.table[..., self.heads[: self.distinct]]
        return np.ascontiguousarray(self.fill(self._all_distances(n, m), of_items)[:, 0])

    def add_gradient_by_distance(self, n: int, m: int, gradient: Array) -> None:
        """Add a gradient (items, n + m - 1)."""
        self._add(self.heads, self.collect(self._all_distances(n, m), gradient[:, None]))

    def _add(self, heads: NDArray[np.intp], part: Array) -> None:
        """Add the gradients (..., items) of the items of these heads."""
        for index, head in enumerate(heads):
            self.total[..., head] += part[..., index]

    def gradient(self) -> Array:
        """Return the gradient of the table."""
        return self.total


def _check_heads(name: str, heads: int, layout: Layout) -> None:
    query_heads = layout.batch_shape[-1] if layout.batch_shape else 1
    if heads != query_heads:
        _check.fail(
            f"{name} must have one entry for each of the {query_heads} query heads. Got {heads} instead.",
            hint="heads are the last leading dimension of queries (..., heads, n, d)",
        )


@dataclass(frozen=True, eq=False, repr=False)
class alibi:
    """Add ``-slope * |i - j|``: the more distant a key, the lower its score, with a slope for each head.

    Parameters
    ----------
    slopes : int or array (heads,)
        The slopes, or the number of heads h for the paper's ``2^(-8/h), 2^(-16/h), ...``. If h is not a power of 2,
        these are the slopes of the next lower power, then every second one of the next higher.
    align : {"start", "end"} or int array broadcasting to (...), optional
        As for `regard.mask.window`, required where n != m.

    Returns
    -------
    alibi
        For ``bias=``; its gradient is that of the slopes.

    References
    ----------
    Press, Smith and Lewis 2021, "Train Short, Test Long", section 3.

    Examples
    --------
    >>> import numpy as np, regard
    >>> regard.position.alibi(8).slopes[:3]
    array([0.5  , 0.25 , 0.125])
    >>> x = np.zeros((1, 3, 1))
    >>> regard.attend(x, x, x, bias=regard.position.alibi([2.0])).logits
    array([[[ 0., -2., -4.],
            [-2.,  0., -2.],
            [-4., -2.,  0.]]])
    """

    slopes: Any
    align: Any = None

    def __repr__(self) -> str:
        return constructor_text(self)

    def __post_init__(self) -> None:
        slopes = _check.plain("slopes", self.slopes)
        if np.ndim(slopes) == 0:
            slopes = _slopes(_check.integer("slopes", slopes, least=1))
        slopes = _check.parameter("slopes", slopes, "(heads,)")
        _check.finite("slopes", slopes)
        object.__setattr__(self, "slopes", slopes)
        object.__setattr__(self, "align", as_align(self.align))

    def bind(self, layout: Layout, dtype: np.dtype[Any]) -> BoundBias:
        """Check the bias against the shape of one attention, and bind it."""
        offset = first_key("alibi", self.align, layout)
        _check_heads("slopes", len(self.slopes), layout)
        for slope in self.slopes.tolist():
            _check.representable("slopes", slope, dtype)

        def fill(distances: Array, slopes: Array) -> Array:
            bias: Array = -slopes[:, None, None] * np.abs(distances).astype(dtype)
            return bias

        def collect(distances: Array, dlogits: Array) -> Array:
            dslopes: Array = -einsum("gij,gij->g", dlogits, np.abs(distances).astype(dtype))
            return dslopes

        return DistanceBias(_check.rounded(self.slopes, dtype), layout, offset, fill, collect)

    def restrict(self, layout: Layout, region: Region) -> alibi:
        """Return the bias of a block of an attention; `layout` is that of the complete attention."""
        return alibi(self.slopes[_heads_of(region)], region.align("alibi", self.align, layout))


def _slopes(heads: int) -> Array:
    """Return the geometric slopes of the paper."""
    power = 1 << (heads.bit_length() - 1)
    first = 2.0 ** (-8 / power * np.arange(1, power + 1))
    between = 2.0 ** (-4 / power * np.arange(1, 2 * (heads - power), 2))
    return np.concatenate([first, between])


@dataclass(frozen=True, eq=False, repr=False)
class t5_buckets:
    """Add a learned bias for each bucket of distances: one distance each, then logarithmically growing ranges.

    Parameters
    ----------
    table : array (buckets, heads)
        Learned biases.
    bidirectional : bool
        Whether keys after the query have buckets of their own (encoder) or share bucket 0 (decoder).
    max_distance : int
        Distances from this one on, and some smaller ones, share the last bucket. With 32 buckets and 128 it begins at
        91 or, if not bidirectional, at 113.
    align : {"start", "end"} or int array broadcasting to (...), optional
        As for `regard.mask.window`, required where n != m.

    Returns
    -------
    t5_buckets
        For ``bias=``; its gradient is that of the table.

    References
    ----------
    Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.1.

    Examples
    --------
    >>> import numpy as np, regard
    >>> table = np.arange(32.0)[:, None]
    >>> x = np.zeros((1, 4, 1))
    >>> regard.attend(x, x, x, bias=regard.position.t5_buckets(table)).logits[0]
    array([[ 0., 17., 18., 19.],
           [ 1.,  0., 17., 18.],
           [ 2.,  1.,  0., 17.],
           [ 3.,  2.,  1.,  0.]])
    """

    table: Any
    bidirectional: bool = True
    max_distance: int = 128
    align: Any = None

    def __repr__(self) -> str:
        return constructor_text(self)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", _check.parameter("table", self.table, "(buckets, heads)"))
        sides = 2 if _check.flag("bidirectional", self.bidirectional) else 1
        if len(self.table) < 2 * sides or len(self.table) % sides:
            _check.fail(
                f"table must have at least {2 * sides} buckets, a multiple of {sides}. Got {len(self.table)} instead."
            )
        least = len(self.table) // (2 * sides) + 1
        object.__setattr__(
            self, "max_distance", _check.integer("max_distance", self.max_distance, least, _check.MOST)
        )
        object.__setattr__(self, "align", as_align(self.align))

    def bucket(self, distances: ArrayLike) -> NDArray[np.int64]:
        """Return the bucket of each distance j - i.

        Parameters
        ----------
        distances : int array
            Position of the key minus position of the query.

        Returns
        -------
        int array
            Row of the table for each distance.

        Examples
        --------
        >>> import numpy as np, regard
        >>> regard.position.t5_buckets(np.zeros((32, 1))).bucket([0, 1, -1, -7, -8, -16, -1000])
        array([ 0, 17,  1,  7,  8, 10, 15])
        """
        distances = _check.integer_array("distances", distances, least=-_check.MOST)  # so that abs exists
        buckets = len(self.table)
        if self.bidirectional:
            buckets //= 2
            first, size = np.where(distances > 0, buckets, 0), np.abs(distances)
        else:
            first, size = np.zeros_like(distances), np.maximum(-distances, 0)
        exact = buckets // 2
        ratio = np.log(np.maximum(size, exact) / exact) / np.log(self.max_distance / exact)
        # 1e-9: rounding must not move a distance exactly on a boundary to the bucket below.
        large = exact + np.floor(ratio * (buckets - exact) + 1e-9).astype(np.int64)
        bucket: NDArray[np.int64] = first + np.where(size < exact, size, np.minimum(large, buckets - 1))
        return bucket

    def bind(self, layout: Layout, dtype: np.dtype[Any]) -> BoundBias:
        """Check the bias against the shape of one attention, and bind it."""
        offset = first_key("t5_buckets", self.align, layout)
        _check_heads("table", self.table.shape[1], layout)
        largest = self.table[np.isfinite(self.table)]
        _check.representable("table", float(np.abs(largest).max(initial=0.0)), dtype)

        def fill(distances: Array, table: Array) -> Array:
            bias: Array = table[self.bucket(distances), np.arange(table.shape[1])[:, None, None]]
            return bias

        def collect(distances: Array, dlogits: Array) -> Array:
            pairs = zip(np.broadcast_to(self.bucket(distances), dlogits.shape), dlogits, strict=True)
            size = len(self.table)
            return np.stack([np.bincount(x.ravel(), part.ravel(), size) for x, part in pairs], axis=-1)

        return DistanceBias(_check.rounded(self.table, dtype), layout, offset, fill, collect)

    def restrict(self, layout: Layout, region: Region) -> t5_buckets:
        """Return the bias of a block of an attention; `layout` is that of the complete attention."""
        moved = region.align("t5_buckets", self.align, layout)
        return replace(self, table=self.table[:, _heads_of(region)], align=moved)


def _heads_of(region: Region) -> slice:
    return region.batch[-1] if region.batch else slice(None)


BiasObject: TypeAlias = alibi | t5_buckets
BiasLike: TypeAlias = BiasObject | ArrayLike


def bind_bias(bias: BiasLike | None, layout: Layout, dtype: np.dtype[Any]) -> BoundBias | None:
    """Check a bias, and bind it to one attention."""
    if bias is None:
        return None
    if isinstance(bias, BiasObject):
        return bias.bind(layout, dtype)
    if isinstance(bias, type) or hasattr(bias, "dense"):
        hint = "pass an object, not a class: position.alibi(heads); a mask is mask="
        _check.fail(
            "bias must be an array of numbers, a position.alibi or a position.t5_buckets.",
            hint=hint,
            kind=TypeError,
        )
    array = _check.as_array("bias", bias)
    if array.dtype == np.bool_:
        _check.fail(
            "bias must hold numbers that are added to the scores. Got dtype bool instead.",
            hint="a bool array of visible keys is mask=",
            kind=TypeError,
        )
    return ArrayBias(_check.numeric("bias", array), layout, dtype)


def _frequencies(dims: int, base: float) -> Array:
    """Return ``base^(-2 p / dims)`` for every pair p."""
    return np.asarray(base ** (-np.arange(0, dims, 2) / max(dims, 1)))


class Scaling(ABC):
    """Base class of the scalings of rotary frequencies, for texts longer than those of the training.

    Examples
    --------
    >>> from regard import position
    >>> isinstance(position.linear(4.0), position.Scaling)
    True
    """

    factor: float

    @property
    def magnitude(self) -> float:
        """Factor on queries and keys."""
        return 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "factor", _check.number("factor", self.factor, positive=True))
        if hasattr(self, "original_max_position_embeddings"):
            name = "original_max_position_embeddings"
            object.__setattr__(self, name, _check.integer(name, getattr(self, name), least=1))
        if getattr(self, "attention_factor", None) is not None:
            _check.number("attention_factor", self.attention_factor, positive=True)  # type: ignore[attr-defined]

    @abstractmethod
    def frequencies(self, dims: int, base: float) -> Array:
        """Return the rotation of each pair from one position to the next.

        Parameters
        ----------
        dims : int
            Rotated dimensions of a head, an even number.
        base : float
            Base of the geometric sequence of frequencies, such as 10000.

        Returns
        -------
        array (dims / 2,)
            Radians per position.

        Examples
        --------
        >>> from regard import position
        >>> position.linear(4.0).frequencies(dims=4, base=100.0)
        array([0.25 , 0.025])
        """


@dataclass(frozen=True)
class linear(Scaling):
    """Divide all rotary frequencies by a factor, so that longer texts have the angles of shorter ones.

    Parameters
    ----------
    factor : float
        Ratio of the new length to the original one; greater than 0.

    Returns
    -------
    linear
        For ``scaling=`` of `rotary`.

    References
    ----------
    Chen et al. 2023, "Extending Context Window of Large Language Models via Position Interpolation", eq. 4.

    Examples
    --------
    >>> from regard import position
    >>> position.linear(4.0).frequencies(dims=4, base=100.0)
    array([0.25 , 0.025])
    """

    factor: float

    def frequencies(self, dims: int, base: float) -> Array:
        return _frequencies(dims, base) / self.factor


@dataclass(frozen=True)
class llama3(Scaling):
    """Divide the low rotary frequencies by a factor, as Llama 3.1 does, and keep the high ones.

    A pair makes ``t = original_max_position_embeddings * frequency / (2 pi)`` turns within the original length. Its
    frequency is low up to `low_freq_factor` turns and high from `high_freq_factor` turns. Between them the result is a
    weighted mean, whose weight of the original frequency grows linearly with t.

    Parameters
    ----------
    factor : float
        Ratio of the new length to the original one; greater than 0.
    low_freq_factor, high_freq_factor : float
        Turns up to which a frequency is low and from which it is high; the second is greater.
    original_max_position_embeddings : int
        Length used in training.

    Returns
    -------
    llama3
        For ``scaling=`` of `rotary`.

    References
    ----------
    Grattafiori et al. 2024, "The Llama 3 Herd of Models", section 3.4.2; the formula is that of the models' code.

    Examples
    --------
    >>> from regard import position
    >>> scaling = position.llama3(8.0, original_max_position_embeddings=1000)
    >>> scaling.frequencies(dims=4, base=1e6)               # 159 turns: unchanged; 0.159 turns: divided by 8
    array([1.00e+00, 1.25e-04])
    """

    factor: float
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_position_embeddings: int = 8192

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = (
            _check.number(name, getattr(self, name), positive=True)
            for name in ("low_freq_factor", "high_freq_factor")
        )
        if low >= high:
            _check.fail(f"high_freq_factor must be greater than low_freq_factor: {high:g} and {low:g}")

    def frequencies(self, dims: int, base: float) -> Array:
        old = _frequencies(dims, base)
        turns = self.original_max_position_embeddings * old / (2 * np.pi)
        high = np.clip((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor), 0, 1)
        return np.asarray((1 - high) * old / self.factor + high * old)


@dataclass(frozen=True)
class yarn(Scaling):
    """Divide the low rotary frequencies by a factor, with a ramp to the high ones, and scale queries and keys.

    A frequency is high if its pair makes at least `beta_fast` turns within the original length, and low if it makes at
    most `beta_slow`. Between them the weight of the original frequency falls linearly with the index of the pair.

    Parameters
    ----------
    factor : float
        Ratio of the new length to the original one; greater than 0.
    original_max_position_embeddings : int
        Length used in training.
    beta_fast, beta_slow : float
        Turns from which a frequency is high, and up to which it is low; the first is greater.
    attention_factor : float, optional
        Factor on queries and keys, so that scores have its square; ``0.1 * log(factor) + 1`` by default, and 1 for
        factors up to 1. Models with mscale and mscale_all_dim have ``0.1 * mscale * log(factor) + 1``, divided by the
        same with mscale_all_dim.
    truncate : bool
        Whether the ends of the ramp are rounded to integers. They are in most models, but not in gpt-oss.

    Returns
    -------
    yarn
        For ``scaling=`` of `rotary`.

    References
    ----------
    Peng et al. 2023, "YaRN: Efficient Context Window Extension of Large Language Models", sections 3.2 and 3.4; the
    ramp is that of the authors' code.

    Examples
    --------
    >>> from regard import position
    >>> scaling = position.yarn(4.0, 1000)
    >>> scaling.frequencies(dims=4, base=1e6)               # 159 turns: unchanged; 0.159 turns: divided by 4
    array([1.0e+00, 2.5e-04])
    >>> round(scaling.magnitude, 4)                         # 0.1 * log(4) + 1
    1.1386
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.flag("truncate", self.truncate)
        fast, slow = (
            _check.number(name, getattr(self, name), positive=True) for name in ("beta_fast", "beta_slow")
        )
        if slow >= fast:
            _check.fail(f"beta_fast must be greater than beta_slow: {fast:g} and {slow:g}")

    @property
    def magnitude(self) -> float:
        """Factor on queries and keys."""
        if self.attention_factor is not None:
            return float(self.attention_factor)
        return 0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0

    def frequencies(self, dims: int, base: float) -> Array:
        old = _frequencies(dims, base)
        first, last = self._ramp(dims, base)
        low = np.clip((np.arange(len(old)) - first) / (last - first), 0, 1)
        return np.asarray(low * old / self.factor + (1 - low) * old)

    def _ramp(self, dims: int, base: float) -> tuple[float, float]:
        """Return the indices of the pairs of `beta_fast` and of `beta_slow` turns, the ends of the ramp."""
        if base <= 1:
            _check.fail(f"base must be greater than 1 for yarn. Got {base:g} instead.")
        first, last = (
            dims
            * math.log(self.original_max_position_embeddings / (turns * 2 * math.pi))
            / (2 * math.log(base))
            for turns in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, dims - 1)
        return first, max(last, first + 0.001)


@dataclass(frozen=True)
class dynamic(Scaling):
    """Raise the base with the length of the text, which lowers the low rotary frequencies most and keeps the highest.

    Parameters
    ----------
    factor : float
        Ratio of the largest length to the original one; greater than 0.
    original_max_position_embeddings : int
        Length used in training.
    length : int
        Length of this text; up to the original one the frequencies are unchanged.

    Returns
    -------
    dynamic
        For ``scaling=`` of `rotary`.

    References
    ----------
    Peng et al. 2023, "YaRN" (its "Dynamic NTK" interpolation); the formula is that of Transformers.

    Examples
    --------
    >>> from regard import position
    >>> position.dynamic(2.0, 1000, length=1500).frequencies(dims=4, base=100.0)        # base 100 (2 * 1.5 - 1)^2
    array([1.  , 0.05])
    """

    factor: float
    original_max_position_embeddings: int
    length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "length", _check.integer("length", self.length))

    def frequencies(self, dims: int, base: float) -> Array:
        beyond = max(self.length / self.original_max_position_embeddings, 1) - 1
        return _frequencies(dims, base * (self.factor * beyond + 1) ** (dims / max(dims - 2, 1)))


@dataclass(frozen=True)
class longrope(Scaling):
    """Divide each rotary frequency by a factor of its own, and scale queries and keys.

    Parameters
    ----------
    factors : sequence of float
        One factor for each pair: a model's ``long_factor`` for texts beyond the original length, else ``short_factor``.
    factor : float
        Ratio of the new length to the original one; greater than 0.
    original_max_position_embeddings : int
        Length L used in training, at least 2.
    attention_factor : float, optional
        Factor on queries and keys; ``sqrt(1 + log(factor) / log(L))`` by default, and 1 for factors up to 1.

    Returns
    -------
    longrope
        For ``scaling=`` of `rotary`.

    References
    ----------
    Ding et al. 2024, "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens"; the formula is that of
    Transformers.

    Examples
    --------
    >>> from regard import position
    >>> scaling = position.longrope([1.0, 5.0], 8.0, 4096)
    >>> scaling.frequencies(dims=4, base=100.0)
    array([1.  , 0.02])
    >>> round(scaling.magnitude, 4)                         # sqrt(1 + 3 / 12)
    1.118
    """

    factors: Any
    factor: float
    original_max_position_embeddings: int
    attention_factor: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        factors = _check.parameter("factors", self.factors, "(dims / 2,)")
        _check.within("factors", factors, positive=True)
        object.__setattr__(self, "factors", tuple(factors.tolist()))
        name = "original_max_position_embeddings"
        _check.integer(name, self.original_max_position_embeddings, least=2)

    @property
    def magnitude(self) -> float:
        """Factor on queries and keys."""
        if self.attention_factor is not None:
            return float(self.attention_factor)
        return math.sqrt(1 + max(math.log(self.factor, self.original_max_position_embeddings), 0))

    def frequencies(self, dims: int, base: float) -> Array:
        if 2 * len(self.factors) != dims:
            _check.fail(f"factors must be dims / 2 = {dims / 2:g} numbers. Got {len(self.factors)} instead.")
        return np.asarray(_frequencies(dims, base) / np.asarray(self.factors))


def rotary(
    x: ArrayLike,
    positions: ArrayLike | None = None,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    dims: int | None = None,
    scaling: Scaling | None = None,
) -> Array:
    """Rotate pairs of coordinates by angles that grow with the position, so that ``q . k`` depends on the distance.

    Pair p of ``dims`` coordinates is rotated by the angle ``position * base^(-2 p / dims)``.

    Parameters
    ----------
    x : array (..., n, d)
        Queries or keys.
    positions : array broadcasting to (..., n), optional
        Position of each row; 0, 1, 2, ... by default.
    base : float
        The larger, the lower the frequencies; greater than 0.
    interleaved : bool
        Pair coordinates (0, 1), (2, 3), ... as in the paper, or (0, dims/2), (1, dims/2 + 1), ... as most models do.
    dims : int, optional
        Number of first coordinates to rotate, an even number; all d by default.
    scaling : `linear`, `dynamic`, `llama3`, `yarn` or `longrope`, optional
        Other frequencies, for texts longer than those of the training.

    Returns
    -------
    array (..., n, d)
        The rotated vectors, in the dtype of x (float64 for integers).

    Raises
    ------
    ValueError, TypeError
        If dims is odd or larger than d, or positions or scaling do not fit.

    References
    ----------
    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 34.

    Examples
    --------
    >>> import numpy as np
    >>> from regard import position
    >>> position.rotary([[1.0, 0.0], [1.0, 0.0]], positions=[0, np.pi / 2]).round(12)
    array([[1., 0.],
           [0., 1.]])
    """
    return rotary_vjp(x, positions, base=base, interleaved=interleaved, dims=dims, scaling=scaling)[0]


def rotary_vjp(
    x: ArrayLike,
    positions: ArrayLike | None = None,
    *,
    base: float = 10000.0,
    interleaved: bool = False,
    dims: int | None = None,
    scaling: Scaling | None = None,
) -> tuple[Array, Callable[[ArrayLike], tuple[Array]]]:
    """Rotate as `rotary` does, and return the pullback, the rotation by the negative angles.

    Parameters
    ----------
    x : array (..., n, d)
        Queries or keys.
    positions, base, interleaved, dims, scaling
        As for `rotary`.

    Returns
    -------
    y : array (..., n, d)
        As from `rotary`.
    pullback : function
        ``pullback(dy (..., n, d)) -> (dx (..., n, d),)``, in the dtype of x (float64 for integers).

    Raises
    ------
    ValueError, TypeError
        If dims is odd or larger than d, or positions, scaling or dy do not fit.

    References
    ----------
    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 34.

    Examples
    --------
    >>> import numpy as np
    >>> from regard import position
    >>> y, pullback = position.rotary_vjp([[1.0, 2.0]], positions=[np.pi / 2])
    >>> y.round(12), pullback(y)[0].round(12)
    (array([[-2.,  1.]]), array([[1., 2.]]))
    """
    array = _check.numeric("x", x)
    _check.dimensions(x=(array, "(..., n, d)"))
    compute, result = _check.dtypes(array)
    n, d = array.shape[-2:]
    dims = d if dims is None else _check.integer("dims", dims)
    if dims % 2 or dims > d:
        _check.fail(
            f"dims must be even and at most d = {d}. Got {dims} instead.",
            hint="dims= rotates the first coordinates only",
        )
    _check.flag("interleaved", interleaved)
    indices = np.arange(n) if positions is None else _check.numeric("positions", positions)
    _check.broadcast("positions", indices.shape, array.shape[:-1], "(..., n)")
    cos, sin = _cos_sin(indices, dims, _check.number("base", base, positive=True), scaling)

    def rotated(rows: Array, sin: Array) -> Array:
        with np.errstate(all="ignore"):  # rounding to half precision may overflow to infinity
            rows = rows.astype(compute)
            return _rotate(rows, cos.astype(compute), sin.astype(compute), interleaved, dims).astype(result)

    def pullback(dy: ArrayLike) -> tuple[Array]:
        gradient = _check.numeric("dy", dy)
        if gradient.shape != array.shape:
            _check.fail(
                f"dy must have the shape of x (..., n, d) = {array.shape}. Got {gradient.shape} instead."
            )
        return (rotated(gradient, -sin),)

    return rotated(array, sin), pullback


def _cos_sin(positions: Array, dims: int, base: float, scaling: Scaling | None) -> tuple[Array, Array]:
    """Return cosines and sines (..., n, dims / 2) of the angles, times the magnitude of the scaling."""
    if scaling is None:
        angle = positions[..., None].astype(float) * _frequencies(dims, base)
        return np.cos(angle), np.sin(angle)
    if not isinstance(scaling, Scaling):
        got = f"the class {scaling.__name__}" if isinstance(scaling, type) else type(scaling).__name__
        hint = "position.linear(4.0), position.llama3(8.0) or position.yarn(4.0, 4096)"
        _check.fail(
            f"scaling must be a position.linear, dynamic, llama3, yarn or longrope. Got {got} instead.",
            hint=hint,
            kind=TypeError,
        )
    angle = positions[..., None].astype(float) * scaling.frequencies(dims, base)
    return scaling.magnitude * np.cos(angle), scaling.magnitude * np.sin(angle)


def _rotate(x: Array, cos: Array, sin: Array, interleaved: bool, dims: int) -> Array:
    """Rotate the first dims coordinates of x, pair by pair."""
    first = slice(0, dims, 2) if interleaved else slice(0, dims // 2)
    second = slice(1, dims, 2) if interleaved else slice(dims // 2, dims)
    rotated = x.copy()
    rotated[..., first] = x[..., first] * cos - x[..., second] * sin
    rotated[..., second] = x[..., first] * sin + x[..., second] * cos
    return rotated


def sinusoidal(n: int, d: int, *, base: float = 10000.0) -> Array:
    """Return position encodings of sines and cosines, ``sin(i / base^(2p/d))`` and ``cos(i / base^(2p/d))`` in turn.

    Parameters
    ----------
    n : int
        Number of positions.
    d : int
        Size of each vector.
    base : float
        Wavelengths are 2 pi to ``2 pi base**((d - 2) / d)`` positions; greater than 0.

    Returns
    -------
    array (n, d)
        Encodings, to be added to embeddings.

    References
    ----------
    Vaswani et al. 2017, section 3.5.

    Examples
    --------
    >>> from regard import position
    >>> position.sinusoidal(2, 4).round(3)
    array([[0.   , 1.   , 0.   , 1.   ],
           [0.841, 0.54 , 0.01 , 1.   ]])
    """
    n, d, base = _check.integer("n", n), _check.integer("d", d), _check.number("base", base, positive=True)
    angle = np.arange(n)[:, None] / base ** (2 * (np.arange(d) // 2) / max(d, 1))
    return np.where(np.arange(d) % 2, np.cos(angle), np.sin(angle))
