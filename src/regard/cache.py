"""Keys and values that grow while decoding.

A cache holds arrays and computes nothing: its views go through the same doors as any other keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from regard import _check
from regard._layout import Layout
from regard.mask import Ask, Mask, Step, window

__all__ = ["KVCache"]

Array = NDArray[Any]


class KVCache:
    """Keys and values of the positions so far, to which every step of decoding appends and which never move.

    ``attention(queries, cache.keys, cache.values, mask=cache.mask)`` is the attention of the newest positions, as the
    causal attention over all positions has it in its last rows. Memory for `capacity` positions is reserved at once,
    but on most systems used only as far as it is written: a large capacity is cheap. One cache serves one thread.

    Parameters
    ----------
    lead : int or tuple of int
        Leading dimensions of keys and values, as a rule (batch, key heads); query heads may be a multiple of these.
    d : int
        Size of a key.
    e : int, optional
        Size of a value; d by default.
    capacity : int, optional
        The most positions that are held; needed without a window. With one, ``window + t`` lets t positions be appended
        at once, or taken back; ``window + 1`` by default.
    window : int, optional
        Keys seen before the own one, as `left` of `regard.mask.window`. Older ones are overwritten.
    dtype : float16, bfloat16, float32 or float64
        How keys and values are stored. Half precision halves what a step reads; attention computes it in float32.

    Attributes
    ----------
    keys : array (..., m, d)
        Read-only view of the keys that the newest positions may see, the oldest first. `append` may write over it where
        there is a window.
    values : array (..., m, e)
        Their values.
    mask : Mask
        Who may see whom, where the last of n queries stands at the last key; for this state of the cache. Where entries
        of a batch are padded at the front, ``cache.mask & ~regard.mask.lengths(hidden)`` with m keys held and
        ``hidden = np.clip(padding - (cache.length - m), 0, m)``: lengths count from the oldest key that is held.
    length : int
        Positions so far, forgotten ones too: the position of the next one.

    Raises
    ------
    ValueError, TypeError
        If a size or the dtype is none, or the capacity is too small for the window.

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
        lead: SupportsIndex | Iterable[SupportsIndex],
        d: int,
        e: int | None = None,
        *,
        capacity: int | None = None,
        window: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        sizes = lead if isinstance(lead, Iterable) and np.ndim(cast(Any, lead)) else (lead,)
        self._lead = tuple(_check.whole("lead", size) for size in sizes)
        self._d = _check.whole("d", d)
        self._e = self._d if e is None else _check.whole("e", e)
        self._window = None if window is None else _check.whole("window", window)
        self._capacity = _capacity(capacity, self._window)
        self._dtype = _storage(dtype)
        # A ring stands twice in its memory, so that whatever is held lies in one piece somewhere.
        places = self._capacity if window is None else 2 * self._capacity
        size = math.prod(self._lead) * places * max(self._d, self._e) * self._dtype.itemsize
        if size > _check.MOST:
            _check.fail(
                f"a cache must have at most {_check.MOST} bytes of keys, and of values. Got {size} instead."
            )
        self._keys = np.empty((*self._lead, places, self._d), self._dtype)
        self._values = np.empty((*self._lead, places, self._e), self._dtype)
        self._length = 0
        self._newest = 0  # of these positions every key that their queries may see is held
        self._oldest = 0  # the first position that has not been overwritten

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of: of keys and values those that are written alone."""
        written = self._length if self._window is None else 2 * self._capacity
        state = dict(vars(self))
        return state | {name: state[name][..., :written, :] for name in ("_keys", "_values")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        places = self._capacity if self._window is None else 2 * self._capacity
        for name in ("_keys", "_values"):
            room = np.empty((*self._lead, places, state[name].shape[-1]), self._dtype)
            room[..., : state[name].shape[-2], :] = state[name]
            setattr(self, name, room)

    def __repr__(self) -> str:
        sizes = f"{self._lead}, d={self._d}, e={self._e}, capacity={self._capacity}, window={self._window}"
        return f"KVCache({sizes}, dtype={self._dtype.name}): length {self._length}"

    @property
    def length(self) -> int:
        """Positions so far, forgotten ones too."""
        return self._length

    @property
    def keys(self) -> Array:
        """Read-only view (..., m, d) of the keys that the newest positions may see."""
        return self._view(self._keys)

    @property
    def values(self) -> Array:
        """Read-only view (..., m, e) of their values."""
        return self._view(self._values)

    @property
    def mask(self) -> Mask:
        """Who may see whom, where the last of n queries stands at the last key."""
        held = self._held()
        return _Newest(self._window, held, held if held == self._length else self._newest)

    def append(self, keys: ArrayLike, values: ArrayLike, /) -> None:
        """Write the keys and values of new positions behind those that are held.

        Parameters
        ----------
        keys : array (..., m, d)
            Keys of any number of positions; none changes nothing.
        values : array (..., m, e)
            Their values.

        Raises
        ------
        ValueError, TypeError
            Before anything is written: if the shapes do not fit or the cache is full.

        Examples
        --------
        >>> import numpy as np, regard
        >>> cache = regard.KVCache(lead=(), d=1, window=1)
        >>> for number in range(4):
        ...     cache.append([[number]], [[number]])
        >>> cache.keys, cache.length
        (array([[2.],
               [3.]], dtype=float32), 4)
        """
        k, v = self._fitting("keys", keys, self._d), self._fitting("values", values, self._e)
        if k.shape[-2] != v.shape[-2]:
            rule = f"keys and values must share their length m: {k.shape[-2]} and {v.shape[-2]}"
            _check.fail(rule, {"keys": k, "values": v}, "every key has one value")
        if not k.shape[-2]:
            return
        self._check_room(k.shape[-2])
        # Rounded first, so that an error on the way leaves the cache as it was.
        k, v = k.astype(self._dtype, copy=False), v.astype(self._dtype, copy=False)
        self._write(self._keys, k)
        self._write(self._values, v)
        self._newest = k.shape[-2]
        self._length += self._newest
        self._oldest = max(self._oldest, self._length - self._capacity)

    def truncate(self, length: int) -> None:
        """Take the newest positions back until `length` are left; what follows overwrites them.

        Parameters
        ----------
        length : int
            Positions to keep, 0 to the present length. With a window, at least so many that all keys that the next
            position sees are still held; 0 empties the cache.

        Raises
        ------
        ValueError, TypeError
            If there are fewer positions, or the window before them has been overwritten.

        Examples
        --------
        >>> import numpy as np, regard
        >>> cache = regard.KVCache(lead=(), d=1, capacity=10)
        >>> cache.append([[1], [2], [3]], [[1], [2], [3]])
        >>> cache.truncate(1)
        >>> cache.keys
        array([[1.]], dtype=float32)
        """
        length = _check.whole("length", length)
        if length > self._length:
            _check.fail(f"length must be at most the {self._length} positions so far. Got {length} instead.")
        if length and max(0, length - (self._window or 0)) < self._oldest:
            least, window = self._oldest + (self._window or 0), self._window
            _check.fail(
                f"length must be at least {least}, or 0: the window before has been overwritten. Got {length} instead.",
                hint=f"capacity={window} + t lets t positions be taken back",
            )
        self._newest = max(0, self._newest - (self._length - length))
        self._length = length
        self._oldest = self._oldest if length else 0

    def _held(self) -> int:
        return self._length if self._window is None else min(self._length, self._window + self._newest)

    def _view(self, stored: Array) -> Array:
        held = self._held()
        start = (self._length - held) % self._capacity
        view = stored[..., start : start + held, :]
        view.flags.writeable = False
        return view

    def _fitting(self, name: str, given: ArrayLike, size: int) -> Array:
        """Return keys or values to append, if they are of this cache's shape."""
        array = _check.numeric(name, given)
        if array.shape[:-2] != self._lead or array.ndim < 2 or array.shape[-1] != size:
            letters = _check.LETTERS[name]
            wanted = f"({', '.join([*map(str, self._lead), 'm', str(size)])})"
            one = array.shape == (*self._lead, size)
            hint = f"one position is {name}[..., None, :]" if one else ""
            _check.fail(f"{name} must have shape {letters} = {wanted}. Got {array.shape} instead.", hint=hint)
        return array

    def _check_room(self, count: int) -> None:
        if self._window is not None:
            most = self._capacity - self._window
            if count > most:
                _check.fail(
                    f"at most capacity - window = {most} positions can be appended at once: {count}",
                    hint=f"append them in parts, or make the cache with capacity={self._window + count}",
                )
        elif self._length + count > self._capacity:
            _check.fail(
                f"a cache must not hold more than capacity = {self._capacity} positions: {self._length} + {count}",
                hint="make it with a larger capacity=; what is not written costs no memory. Or with window=",
            )

    def _write(self, stored: Array, new: Array) -> None:
        size = self._capacity
        start = self._length % size
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
                hint="capacity: the most positions (unwritten ones cost no memory). window: keys seen before the own",
            )
        return left + 1
    capacity = _check.whole("capacity", capacity, least=1)
    if left is not None and capacity <= left:
        _check.fail(
            f"capacity must be greater than window: {capacity} and {left}",
            hint="a query sees the window and its own position; window + t lets t be appended at once",
        )
    return capacity


def _storage(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype to store in."""
    try:
        found = None if dtype is None else np.dtype(dtype).newbyteorder("=")  # NumPy's None is float64
    except TypeError:
        found = None
    if found is None or not (_check.is_half(found) or found in (np.float32, np.float64)):
        _check.fail(
            f"dtype must be float16, bfloat16, float32 or float64. Got {dtype!r} instead.",
            hint="bfloat16 is ml_dtypes.bfloat16",
            kind=TypeError,
        )
    return found


class _Newest(window):
    """The causal mask or window of a cache's newest positions, which knows what the cache held."""

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

    def bind(self, layout: Layout) -> Ask:
        if layout.m != self.held:
            _check.fail(
                f"a cache's mask must meet the keys that were held: {self.held} and {layout.m}",
                hint="read cache.mask, cache.keys and cache.values anew after each append",
            )
        if layout.n > self.newest:
            _check.fail(
                f"queries must stand at the newest positions, at most {self.newest}: {layout.n}",
                hint="of older positions some keys are no longer held; attend after each append",
            )
        return super().bind(layout)

    def steps(self, layout: Layout) -> list[Step] | None:
        return super().steps(layout)  # the same answers: only the shape is checked beside
