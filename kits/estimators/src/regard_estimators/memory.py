"""A memory of keys and values, recalled by attention."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check, attention
from regard.context import attend
from regard.scores import ScoreLike
from regard.weights import NormalizeLike

__all__ = ["AttentionMemory", "Recalled"]

Array = NDArray[Any]
PAIRS_AT_A_TIME = 1 << 20  # of queries and keys, whose weights are computed at a time


class Recalled(NamedTuple):
    """The answer of an `AttentionMemory` to n queries.

    `values` (n, e): the weighted sums of all stored values; `ids` (n, top): the entries attended to most, the most
    attended first; `weights` (n, top): their attention weights; all weights of a query sum to 1.
    """

    values: Array
    ids: NDArray[np.int64]
    weights: Array


class AttentionMemory:
    """Stored keys and values; a query recalls their mean, weighted by attention (Graves et al. 2014, section 3.3.1).

    Adding takes constant time for each entry, on average; removing takes time in proportion to all of them.

    Parameters
    ----------
    score
        As for `regard.attend`, such as ``regard.scores.gaussian(width=...)`` or "scaled_dot".
    scale, normalize
        As for `regard.attend`.

    Raises
    ------
    ValueError, TypeError
        From `recall`, for options that are invalid.

    Examples
    --------
    >>> memory = AttentionMemory()
    >>> memory.add([[9.0, 0.0], [0.0, 9.0]], [[1.0], [2.0]])
    array([0, 1])
    >>> values, ids, weights = memory.recall([[0.0, 9.0]], top=1)
    >>> values.round(3), ids
    (array([[2.]]), array([[1]]))
    """

    def __init__(
        self,
        *,
        score: ScoreLike = "scaled_dot",
        scale: float | None = None,
        normalize: NormalizeLike = "softmax",
    ) -> None:
        self._options: dict[str, Any] = {"score": score, "scale": scale, "normalize": normalize}
        self._keys = self._values = np.zeros((0, 0))
        self._ids = np.zeros(0, np.int64)
        self._count = self._next = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to copy, without the room for more entries: a copy that grows has memory of its own."""
        return vars(self) | {name: vars(self)[name][: self._count] for name in ("_keys", "_values", "_ids")}

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        d, e = self._keys.shape[1], self._values.shape[1]
        return f"AttentionMemory({self._count} entries, keys of {d} numbers, values of {e})"

    @property
    def keys(self) -> Array:
        """The stored keys (m, d); a view that must not be changed."""
        return self._view(self._keys)

    @property
    def values(self) -> Array:
        """The stored values (m, e); a view that must not be changed."""
        return self._view(self._values)

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the entries (m,), in ascending order."""
        return self._view(self._ids)

    def _view(self, stored: Array) -> Array:
        view = stored[: self._count]
        view.flags.writeable = False
        return view

    def add(self, keys: ArrayLike, values: ArrayLike) -> NDArray[np.int64]:
        """Store entries.

        Parameters
        ----------
        keys : array (k, d)
            Keys. They are stored in float32 if all entries are float32, otherwise in float64; so are the values.
        values : array (k, e)
            Their values.

        Returns
        -------
        array of int (k,)
            Their ids, which are never used again.

        Raises
        ------
        ValueError
            If keys or values are not finite, their counts differ, or their sizes are not those of the stored ones.

        Examples
        --------
        >>> AttentionMemory().add([[1.0]], [[2.0]])
        array([0])
        """
        new_keys, new_values = (_rows(name, x) for name, x in (("keys", keys), ("values", values)))
        if len(new_keys) != len(new_values):
            _check.fail(
                f"there must be a value for each key: {len(new_keys)} keys and {len(new_values)} values"
            )
        if self._next:
            for name, new, stored in (("keys", new_keys, self._keys), ("values", new_values, self._values)):
                if new.shape[1] != stored.shape[1]:
                    _check.fail(
                        f"{name} must have the size of the stored ones: {new.shape[1]} and {stored.shape[1]}"
                    )
        else:
            self._keys, self._values = new_keys[:0], new_values[:0]
        ids = np.arange(self._next, self._next + len(new_keys))
        end = self._count + len(new_keys)
        for name, new in (("_keys", new_keys), ("_values", new_values), ("_ids", ids)):
            grown = _grown(getattr(self, name), self._count, end, new.dtype)
            grown[self._count : end] = new
            setattr(self, name, grown)
        self._count, self._next = end, self._next + len(new_keys)
        return ids

    def remove(self, ids: ArrayLike) -> None:
        """Forget entries.

        Parameters
        ----------
        ids : int or array of int
            Ids that `add` returned.

        Raises
        ------
        KeyError
            If one is not stored; then nothing is removed.

        Examples
        --------
        >>> memory = AttentionMemory()
        >>> memory.remove(memory.add([[1.0], [2.0]], [[1.0], [2.0]])[:1])
        >>> memory.ids
        array([1])
        """
        unwanted = np.atleast_1d(_check.integer_array("ids", ids))
        unknown = np.setdiff1d(unwanted, self.ids)
        if len(unknown):
            raise KeyError(f"there is no entry {unknown[0]}; {self._count} are stored")
        remaining = ~np.isin(self.ids, unwanted)
        keys, values, ids = self.keys[remaining], self.values[remaining], self.ids[remaining]
        count = len(ids)
        self._keys, self._values, self._ids, self._count = keys, values, ids, count

    def recall(self, queries: ArrayLike, *, top: int = 5) -> Recalled:
        """Attend to all entries.

        Parameters
        ----------
        queries : array (n, d)
            Queries.
        top : int
            Entries that are returned with their weights; fewer if there are not so many.

        Returns
        -------
        Recalled
            Values, and the most attended entries with their weights.

        Raises
        ------
        ValueError
            If the memory is empty, or queries and options don't fit the keys.

        Examples
        --------
        >>> memory = AttentionMemory()
        >>> ids = memory.add([[1.0], [1.0]], [[2.0], [4.0]])
        >>> memory.recall([[0.0]]).values
        array([[3.]])
        """
        _check.integer("top", top, least=1)
        if not self._count:
            _check.fail("the memory is empty", hint="add keys and values first")
        rows = _rows("queries", queries)
        values = attention(rows, self.keys, self.values, **self._options)
        top = min(top, self._count)
        positions, weights = np.empty((len(rows), top), np.int64), np.empty((len(rows), top))
        step = max(PAIRS_AT_A_TIME // self._count, 1)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            block = attend(rows[part], self.keys, self.values, **self._options).weights
            best = np.argsort(-block, axis=1, kind="stable")[:, :top]
            positions[part], weights[part] = best, np.take_along_axis(block, best, 1)
        return Recalled(values, self.ids[positions], weights)


def _rows(name: str, array: ArrayLike) -> Array:
    """Return a finite matrix of floats."""
    rows = _check.numeric(name, array)
    if rows.ndim != 2:
        _check.fail(f"{name} must be a matrix, a row for each. Got an array of shape {rows.shape}.")
    _check.finite(name, rows)
    return rows if rows.dtype == np.float32 else rows.astype(np.float64)


def _grown(stored: Array, count: int, needed: int, dtype: np.dtype[Any]) -> Array:
    """Return the array, or a copy of its first `count` entries that holds `needed` of both data types."""
    dtype = np.result_type(stored, dtype)
    if needed <= len(stored):
        return stored.astype(dtype, copy=False)
    grown = np.empty((max(needed, 2 * len(stored)), *stored.shape[1:]), dtype)
    grown[:count] = stored[:count]
    return grown
