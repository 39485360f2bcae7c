"""A cache of keys and values for decoding.

A cache stores arrays and computes nothing. Its views are passed to the attention functions like any other keys and
values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from regard import _check
from regard._layout import Layout, Region, slices
from regard.mask import Bound, Mask, lengths, window

__all__ = ["KVCache"]

Array = NDArray[Any]
CHUNK_POSITIONS = 256  # positions that are copied together


class KVCache:
    """Cache of the keys and values of past positions, to which each decoding step appends without moving the rest.

    ``attention(queries, cache.keys, cache.values, mask=cache.mask)`` is the attention of the newest positions, equal to
    the last rows of causal attention over all positions. Memory for `capacity` positions is reserved at construction.
    Most systems allocate only what is written, so a large capacity is cheap. A cache is not thread-safe.

    Parameters
    ----------
    batch_shape : int or tuple of int
        Leading dimensions of keys and values, usually (batch, key heads); query heads may be a multiple of key heads.
    d : int
        Size of a key.
    e : int, optional
        Size of a value; d by default.
    capacity : int, optional
        Largest number of positions in the cache; required without a window. With a window, ``window + t`` allows t
        positions to be appended at once, or truncated; ``window + 1`` by default.
    window : int, optional
        Visible keys before the query's own position, as `left` of `regard.mask.window`. Older ones are overwritten.
    dtype : float16, bfloat16, float32 or float64
        Data type of keys and values in memory. Half precision halves what a step reads; attention computes in float32.

    Attributes
    ----------
    keys : array (..., m, d)
        Read-only view of the keys that are visible to the newest positions, the oldest first. With a window, `append`
        may overwrite it.
    values : array (..., m, e)
        Their values.
    mask : Mask
        Causal mask or window for the present state of the cache, where the last of n queries is aligned with the last
        key. Padding is masked.
    length : int
        Number of positions so far, including overwritten ones and padding.
    lengths : int array (B,)
        Number of positions so far of each sequence, without padding, which is the position of its next token. B is the
        first leading dimension; without leading dimensions it is a single number.

    Raises
    ------
    ValueError, TypeError
        If a size or the dtype is invalid, or the capacity is too small for the window.

    References
    ----------
    Shazeer 2019, "Fast Transformer Decoding", section 2.4; Beltagy, Peters and Cohan 2020, "Longformer", section 3.1.

    Examples
    --------
    >>> import numpy as np, regard
    >>> cache = regard.KVCache((), d=2, e=1, capacity=1000)
    >>> cache.append([[1, 0]], [[10]])
    >>> cache.append([[0, 1]], [[20]])
    >>> regard.attention([[1.0, 0.0]], cache.keys, cache.values, mask=cache.mask, scale=np.log(3))
    array([[12.5]])
    >>> cache
    KVCache((), d=2, e=1, capacity=1000, window=None, dtype=float32): length 2
    """

    def __init__(
        self,
        batch_shape: SupportsIndex | Iterable[SupportsIndex],
        d: int,
        e: int | None = None,
        *,
        capacity: int | None = None,
        window: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        sizes = (
            batch_shape
            if isinstance(batch_shape, Iterable) and np.ndim(cast(Any, batch_shape))
            else (batch_shape,)
        )
        self._batch_shape = tuple(_check.integer("batch_shape", size) for size in sizes)
        self._d = _check.integer("d", d)
        self._e = self._d if e is None else _check.integer("e", e)
        self._window = None if window is None else _check.integer("window", window)
        self._capacity = _capacity(capacity, self._window)
        self._dtype = _storage(dtype)
        # A ring buffer is stored twice in a row, so that any part of it is contiguous in one place.
        slots = self._capacity if window is None else 2 * self._capacity
        size = math.prod(self._batch_shape) * slots * max(self._d, self._e) * self._dtype.itemsize
        if size > _check.MOST:
            _check.fail(
                f"a cache must have at most {_check.MOST} bytes of keys, and of values. Got {size} instead."
            )
        self._keys = np.empty((*self._batch_shape, slots, self._d), self._dtype)
        self._values = np.empty((*self._batch_shape, slots, self._e), self._dtype)
        self._padding = np.zeros(self._batch_shape[:1], np.int64)  # in front of each sequence
        self._length = 0
        self._newest = 0  # number of last positions whose visible keys are all stored
        self._oldest = 0  # the first position that has not been overwritten

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, with the written part of keys and values only."""
        written = min(self._length, self._capacity)  # one copy of a ring buffer
        state = dict(vars(self))
        return state | {name: state[name][..., :written, :] for name in ("_keys", "_values")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        slots = self._capacity if self._window is None else 2 * self._capacity
        for name in ("_keys", "_values"):
            array = np.empty((*self._batch_shape, slots, state[name].shape[-1]), self._dtype)
            self._write(array, 0, state[name])
            setattr(self, name, array)

    def __repr__(self) -> str:
        sizes = (
            f"{self._batch_shape}, d={self._d}, e={self._e}, capacity={self._capacity}, window={self._window}"
        )
        return f"KVCache({sizes}, dtype={self._dtype.name}): length {self._length}"

    @property
    def length(self) -> int:
        """Number of positions so far, including overwritten ones and padding."""
        return self._length

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of positions so far of each sequence (B,), without padding."""
        return np.asarray(self._length - self._padding)

    @property
    def keys(self) -> Array:
        """Read-only view (..., m, d) of the keys that are visible to the newest positions."""
        return self._view(self._keys)

    @property
    def values(self) -> Array:
        """Read-only view (..., m, e) of their values."""
        return self._view(self._values)

    @property
    def mask(self) -> Mask:
        """Causal mask or window, where the last of n queries is aligned with the last key."""
        held = self._held()
        newest = _Newest(self._window, held, held if held == self._length else self._newest)
        hidden = np.clip(self._padding - (self._length - held), 0, held)
        if not hidden.any():
            return newest
        return newest & ~lengths(hidden.reshape(-1, *(1 for _ in self._batch_shape[1:])))

    def append(self, keys: ArrayLike, values: ArrayLike, /, *, lengths: ArrayLike | None = None) -> None:
        """Append the keys and values of new positions.

        Parameters
        ----------
        keys : array (..., m, d)
            Keys of any number of positions, 0 included.
        values : array (..., m, e)
            Their values.
            Numbers too large for the data type of the cache become infinite, with NumPy's warning of an overflow.
        lengths : int array (B,), optional
            Number of new positions of each of the B sequences along the first leading dimension, 0 to m; m by default.
            A shorter sequence is padded at the front of its m columns (and so are its queries), so that all sequences
            end together. Padding is masked for all other positions; contexts of padding are meaningless.

        Raises
        ------
        ValueError, TypeError
            If the shapes do not fit or the cache is full; nothing has been written then.

        Examples
        --------
        >>> import numpy as np, regard
        >>> cache = regard.KVCache(batch_shape=(), d=1, window=1)
        >>> for number in range(4):
        ...     cache.append([[number]], [[number]])
        >>> cache.keys, cache.length
        (array([[2.],
               [3.]], dtype=float32), 4)
        >>> prompts = regard.KVCache(batch_shape=2, d=1, capacity=10)
        >>> prompts.append(np.ones((2, 3, 1)), np.ones((2, 3, 1)), lengths=[3, 1])
        >>> prompts.lengths, prompts.mask.dense(1, 3).astype(int)[:, 0]
        (array([3, 1]), array([[1, 1, 1],
               [0, 0, 1]]))
        """
        k, v = self._checked("keys", keys, self._d), self._checked("values", values, self._e)
        if k.shape[-2] != v.shape[-2]:
            rule = f"keys and values must share their length m: {k.shape[-2]} and {v.shape[-2]}"
            _check.fail(rule, {"keys": k, "values": v}, "every key has one value")
        gaps = None if lengths is None else k.shape[-2] - self._counts(lengths, k.shape[-2])
        if not k.shape[-2]:
            return
        self._check_room(k.shape[-2])
        # Rounded first, so that an error leaves the cache unchanged.
        k, v = k.astype(self._dtype, copy=False), v.astype(self._dtype, copy=False)
        self._write(self._keys, self._length, k)
        self._write(self._values, self._length, v)
        self._newest = k.shape[-2]
        self._length += self._newest
        self._oldest = max(self._oldest, self._length - self._capacity)
        if gaps is not None:
            self._close(gaps, self._length - self._newest)

    def truncate(self, length: int) -> None:
        """Remove the newest positions until `length` are left.

        Parameters
        ----------
        length : int
            Number of positions to keep, 0 to the present length; 0 empties the cache. With a window, all keys that are
            visible to the next position must still be stored.

        Raises
        ------
        ValueError, TypeError
            If there are fewer positions, or the window before the next one has been overwritten.

        Examples
        --------
        >>> import numpy as np, regard
        >>> cache = regard.KVCache(batch_shape=(), d=1, capacity=10)
        >>> cache.append([[1], [2], [3]], [[1], [2], [3]])
        >>> cache.truncate(1)
        >>> cache.keys
        array([[1.]], dtype=float32)
        """
        length = _check.integer("length", length)
        if length > self._length:
            _check.fail(f"length must be at most the {self._length} positions so far. Got {length} instead.")
        if length and max(0, length - (self._window or 0)) < self._oldest:
            least, window = self._oldest + (self._window or 0), self._window
            _check.fail(
                f"length must be at least {least}, or 0: the window before it is overwritten. Got {length} instead.",
                hint=f"capacity={window} + t allows t positions to be truncated",
            )
        self._newest = max(0, self._newest - (self._length - length))
        self._length = length
        self._padding = np.minimum(self._padding, length)
        self._oldest = self._oldest if length else 0

    def reorder(self, indices: ArrayLike) -> None:
        """Replace sequence i by sequence ``indices[i]``, for the hypotheses of a beam search.

        Parameters
        ----------
        indices : int array (B',)
            Indices along the first leading dimension, 0 to B - 1; each may occur any number of times. If B' is not B,
            the cache then has B' sequences, in new memory.

        Raises
        ------
        ValueError, TypeError
            If an index is out of range or there are no leading dimensions; nothing has been written then.

        Examples
        --------
        >>> import numpy as np, regard
        >>> cache = regard.KVCache(batch_shape=3, d=1, capacity=10)
        >>> cache.append([[[1]], [[2]], [[3]]], [[[1]], [[2]], [[3]]])
        >>> cache.reorder([2, 2, 0])
        >>> cache.keys.ravel()
        array([3., 3., 1.], dtype=float32)
        """
        chosen = self._sequences(indices)
        if len(chosen) == self._batch_shape[0]:
            moved = np.flatnonzero(chosen != np.arange(len(chosen)))
            self._gather(self._keys, self._keys, moved, chosen[moved])
            self._gather(self._values, self._values, moved, chosen[moved])
        else:
            for name in ("_keys", "_values"):
                stored = getattr(self, name)
                array = np.empty((len(chosen), *stored.shape[1:]), self._dtype)
                self._gather(array, stored, np.arange(len(chosen)), chosen)
                setattr(self, name, array)
            self._batch_shape = (len(chosen), *self._batch_shape[1:])
        self._padding = self._padding[chosen]

    def _sequences(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Check and return the argument of `reorder`."""
        self._check_sequences("reorder")
        chosen = _check.integer_array("indices", indices, 0, self._batch_shape[0] - 1)
        _check.dimensions(indices=(chosen, "(B',)"))
        return chosen

    def _counts(self, lengths: ArrayLike, most: int) -> NDArray[np.int64]:
        """Check and return the argument `lengths` of `append`."""
        self._check_sequences("lengths")
        return _check.lengths(lengths, self._batch_shape[0], most)

    def _check_sequences(self, name: str) -> None:
        if not self._batch_shape:
            hint = "KVCache((batch, heads), ...); KVCache(1, ...) for one sequence"
            _check.fail(
                f"{name} needs a first leading dimension, that of the sequences: batch_shape ()", hint=hint
            )

    def _gather(self, out: Array, stored: Array, rows: NDArray[np.intp], sources: NDArray[np.int64]) -> None:
        """Copy the positions of the sequences `sources` to `rows` of `out`, chunk by chunk."""
        for start, stop in self._written():
            for part in slices(stop - start, CHUNK_POSITIONS):
                chunk = slice(start + part.start, start + part.stop)
                out[rows, ..., chunk, :] = stored[sources, ..., chunk, :]

    def _written(self) -> list[tuple[int, int]]:
        """Return the ranges of memory that hold the newest positions of any sequence; in a ring buffer, both copies."""
        size, first = self._capacity, max(0, self._length - self._capacity)
        start = first % size
        stop = start + self._length - first
        if self._window is None:
            return [(start, stop)]
        middle = min(stop, size)
        return [(start, stop), (start + size, middle + size), (0, stop - middle)]

    def _close(self, gaps: NDArray[np.int64], end: int) -> None:
        """Move the positions of padded sequences before `end` past the new padding, next to what was appended."""
        moved = np.flatnonzero((gaps > 0) & (self._padding < end))
        for b in moved:
            first = min(max(int(self._padding[b]), self._oldest), end)
            start = first % self._capacity
            for stored in (self._keys[b], self._values[b]):
                moved_part = stored[..., start : start + end - first, :].copy()
                self._write(stored, first + int(gaps[b]), moved_part)
        self._padding = self._padding + gaps
        if self._oldest:  # the oldest stored position of a moved sequence has moved as well
            self._oldest += int(gaps[moved].max(initial=0))

    def _held(self) -> int:
        return self._length if self._window is None else min(self._length, self._window + self._newest)

    def _view(self, stored: Array) -> Array:
        held = self._held()
        start = (self._length - held) % self._capacity
        view = stored[..., start : start + held, :]
        view.flags.writeable = False
        return view

    def _checked(self, name: str, value: ArrayLike, size: int) -> Array:
        """Check the shape of keys or values to append, and return them as an array."""
        array = _check.numeric(name, value)
        if array.shape[:-2] != self._batch_shape or array.ndim < 2 or array.shape[-1] != size:
            letters = _check.LETTERS[name]
            wanted = f"({', '.join([*map(str, self._batch_shape), 'm', str(size)])})"
            single = array.shape == (*self._batch_shape, size)
            hint = f"one position is {name}[..., None, :]" if single else ""
            _check.fail(f"{name} must have shape {letters} = {wanted}. Got {array.shape} instead.", hint=hint)
        return array

    def _check_room(self, count: int) -> None:
        if self._window is not None:
            most = self._capacity - self._window
            if count > most:
                _check.fail(
                    f"at most capacity - window = {most} positions can be appended at once: {count}",
                    hint=f"append them in parts, or create the cache with capacity={self._window + count}",
                )
        elif self._length + count > self._capacity:
            _check.fail(
                f"a cache must not hold more than capacity = {self._capacity} positions: {self._length} + {count}",
                hint="create it with a larger capacity= (unwritten positions cost no memory), or with window=",
            )

    def _write(self, stored: Array, position: int, new: Array) -> None:
        size = self._capacity
        start = position % size
        stop = start + new.shape[-2]
        stored[..., start:stop, :] = new
        if self._window is not None:
            middle = min(stop, size)
            stored[..., start + size : middle + size, :] = stored[..., start:middle, :]
            stored[..., : stop - middle, :] = stored[..., middle:stop, :]


def _capacity(capacity: int | None, left: int | None) -> int:
    if capacity is None:
        if left is None:
            _check.fail(
                "a cache needs capacity= or window=.",
                hint="capacity: largest number of positions (unwritten ones cost no memory). window: visible past keys",
            )
        return left + 1
    capacity = _check.integer("capacity", capacity, least=1)
    if left is not None and capacity <= left:
        _check.fail(
            f"capacity must be greater than window: {capacity} and {left}",
            hint="a query attends to the window and its own position; window + t allows t to be appended at once",
        )
    return capacity


def _storage(dtype: DTypeLike) -> np.dtype[Any]:
    """Check and return the dtype of keys and values in memory."""
    try:
        native = None if dtype is None else np.dtype(dtype).newbyteorder("=")  # NumPy's None is float64
    except TypeError:
        native = None
    if native is None or not (_check.is_half(native) or native in (np.float32, np.float64)):
        _check.fail(
            f"dtype must be float16, bfloat16, float32 or float64. Got {dtype!r} instead.",
            hint="bfloat16 is ml_dtypes.bfloat16",
            kind=TypeError,
        )
    return native


class _Newest(window):
    """The causal mask or window of the newest positions of a cache, valid for one state of the cache."""

    held: int
    newest: int

    def __init__(self, left: int | None, held: int, newest: int) -> None:
        super().__init__(left, 0, "end")
        object.__setattr__(self, "held", held)
        object.__setattr__(self, "newest", newest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Newest) and self._state() == other._state()

    def __hash__(self) -> int:
        return hash(self._state())

    def _state(self) -> tuple[int | None, int, int]:
        return self.left, self.held, self.newest

    def __repr__(self) -> str:
        return f"window({self.left}, 0, align='end') of a cache that holds {self.held}"

    def bind(self, layout: Layout) -> Bound:
        if layout.m != self.held:
            _check.fail(
                f"the mask of a cache must be used with as many keys as it was made for: {self.held} and {layout.m}",
                hint="read cache.mask, cache.keys and cache.values again after each append",
            )
        if layout.n > self.newest:
            _check.fail(
                f"queries must be those of the newest positions, at most {self.newest}: {layout.n}",
                hint="some visible keys of older positions are overwritten; attend after each append",
            )
        return super().bind(layout)

    def restrict(self, layout: Layout, region: Region) -> Mask:
        return super().restrict(layout, region)  # `bind` only adds checks, so the inherited part is right
