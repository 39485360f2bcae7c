"""Sources that are sequences or sets of vectors."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._arrays import load_array
from regard.seq2seq.sources.arrays import real_array
from regard.seq2seq.sources.base import Option, Source, Spec, is_path
from regard.seq2seq.sources.example import Example

__all__ = ["Order", "Vectors"]

Order = Literal["sequence", "set"]

ORDERS: tuple[Order, ...] = ("sequence", "set")
MOST_ROWS = 100_000
_CONSTANT = 1e-6  # share of the mean: a smaller deviation is rounding
_MOST_NUMBERS = 1 << 16  # of a vector
_MOST_POSITIONS = 3
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Vectors(Source):
    """Sources that are sequences or sets of vectors.

    Parameters
    ----------
    size : int
        Numbers of a vector, at most 65,536.
    order : {"sequence", "set"}
        Whether the order of an example's vectors has a meaning.
    positions : int
        Coordinates of each vector's position, such as 2 for a place in a picture; 0 to 3.
    mean, scale : tuple of float, optional
        The mean and the standard deviation of each number of a row in the training examples, by which rows are
        standardised; a model sets them.

    Raises
    ------
    ValueError
        If a number is out of range or the order is unknown.
    TypeError
        If `size` or `positions` is not an integer.

    Examples
    --------
    >>> Vectors(2).read([[1, 2], [3, 4], [5, 6]])
    array([[1., 2.],
           [3., 4.],
           [5., 6.]], dtype=float32)
    >>> Vectors(2, order="set", positions=1).read(([[1, 2], [3, 4]], [[0.5], [0.25]]))
    array([[1.  , 2.  , 0.5 ],
           [3.  , 4.  , 0.25]], dtype=float32)
    """

    kind: ClassVar[str] = "vectors"
    exports_files: ClassVar[bool] = True
    options: ClassVar[Mapping[str, Option]] = {
        "size": Option("how many numbers each has, without its position"),
        "order": Option(
            "whether the order of the vectors of an example matters", ("sequence|set",), "sequence"
        ),
        "positions": Option("coordinates of positions, which follow the numbers of each", default=0),
    }

    size: int
    order: Order = "sequence"
    positions: int = 0
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", _check.integer("size", self.size, 1, _MOST_NUMBERS))
        _check.choice("order", self.order, ORDERS)
        object.__setattr__(self, "positions", _check.integer("positions", self.positions, 0, _MOST_POSITIONS))
        if (self.mean is None) != (self.scale is None):
            _check.fail("mean and scale must be given together. Got one of them instead.")
        for name in ("mean", "scale"):
            object.__setattr__(self, name, _numbers(name, getattr(self, name), self.width))

    @property
    def width(self) -> int:
        """Return how many numbers a row has: those of the vector, then those of its position."""
        return self.size + self.positions

    @property
    def spec(self) -> Spec:
        """Rows of `width` numbers."""
        return Spec(width=self.width, ordered=self.order == "sequence")

    @property
    def layout(self) -> Hashable:
        """The sizes: examples are read before they are standardised."""
        return self.kind, self.size, self.positions

    def fitted(self, examples: Iterable[Example]) -> Self:
        """Return a source for examples like these: with the mean and the standard deviation of each number of a row."""
        count, total, squares = 0, np.zeros(self.width), np.zeros(self.width)
        for example in examples:
            count += len(example)
            total += example.content.sum(axis=0, dtype=np.float64)
            squares += np.square(example.content, dtype=np.float64).sum(axis=0)
        mean = total / max(count, 1)
        deviation = np.sqrt(np.maximum(squares / max(count, 1) - mean**2, 0))
        deviation[deviation <= _CONSTANT * np.abs(mean)] = 0
        return replace(
            self, mean=tuple(mean.tolist()), scale=tuple(np.where(deviation > 0, deviation, 1.0).tolist())
        )

    def rows(self, example: Example) -> NDArray[np.float32]:
        """Return the vectors of an example, standardised where `mean` and `scale` are known."""
        rows: NDArray[np.float32] = example.content
        if self.mean is None or self.scale is None:
            return rows
        with np.errstate(over="ignore"):
            standard: NDArray[np.float64] = (rows - np.array(self.mean)) / np.array(self.scale)
        return _as_float32("a standardised example", standard)

    def read(
        self, given: ArrayLike | str | os.PathLike[str] | tuple[ArrayLike, ArrayLike]
    ) -> NDArray[np.float32]:
        """Check an example and return its vectors as rows.

        Parameters
        ----------
        given : array_like of shape (m, size), pair or path
            The vectors, 1 to 100,000. With `positions`, a pair of the vectors and an array (m, positions). A path is
            that of a `.npy` file, or ``file.npz:name`` for one array of an archive, of shape (m, size + positions).

        Returns
        -------
        ndarray of float32, shape (m, size + positions)
            The vectors, each followed by its position. It may share memory with the example.

        Raises
        ------
        ValueError
            If the shape is wrong, a number is not finite or too large for float32, or the file is not regular or
            damaged.
        TypeError
            If the example is of another type, or does not hold real numbers.
        OSError
            If the file can't be opened or read.

        Examples
        --------
        >>> np.save("x.npy", np.arange(6.0).reshape(3, 2))
        >>> Vectors(2).read("x.npy")
        array([[0., 1.],
               [2., 3.],
               [4., 5.]], dtype=float32)
        """
        if is_path(given):
            array = load_array(given, self._check_file)
            return _as_float32(f"{os.fspath(given)}: an array", array)
        if not self.positions:
            return _vectors("an example", "size", given, self.size)
        if not isinstance(given, tuple | list) or len(given) != 2:
            self._not_a_pair(given)
        vectors = _vectors("the vectors of an example", "size", given[0], self.size)
        positions = _vectors("the positions of an example", "positions", given[1], self.positions)
        if len(vectors) != len(positions):
            rule = "an example must have a position for each vector."
            _check.fail(f"{rule} Got {len(vectors)} vectors and {len(positions)} positions instead.")
        return np.concatenate([vectors, positions], axis=1)

    def _check_file(self, shape: tuple[int, ...], _: np.dtype[Any]) -> None:
        letters = "size + positions" if self.positions else "size"
        _check_shape("an array", letters, shape, self.width)

    def _not_a_pair(self, example: object) -> NoReturn:
        shape = getattr(example, "shape", None)
        got = type(example).__name__ + ("" if shape is None else f" of shape {shape}")
        _check.fail(
            f"an example with positions must be a pair (vectors, positions). Got {got} instead.",
            hint=f"(x[:, :{self.size}], x[:, {self.size}:]) if the positions are the last columns",
            kind=TypeError,
        )


def _numbers(name: str, values: Any, count: int) -> tuple[float, ...] | None:
    """Check the means or the scales of the numbers of a row, perhaps of an untrusted file."""
    if values is None:
        return None
    if not isinstance(values, tuple | list) or len(values) != count:
        _check.fail(f"{name} must be {count} numbers. Got {values!r:.60} instead.")
    return tuple(
        _check.number(f"{name}[{i}]", value, positive=name == "scale") for i, value in enumerate(values)
    )


def _check_shape(name: str, letters: str, shape: tuple[int, ...], size: int) -> None:
    if len(shape) != 2 or shape[1] != size:
        hint = "one vector is x[None, :]" if shape == (size,) else ""
        hint = "x.T, if the vectors are its columns" if len(shape) == 2 and shape[0] == size else hint
        _check.fail(f"{name} must have shape (m, {letters}) = (m, {size}). Got {shape} instead.", hint=hint)
    if not 1 <= shape[0] <= MOST_ROWS:
        _check.fail(f"{name} must have 1 to {MOST_ROWS:,} rows. Got {shape[0]:,} instead.")


def _vectors(name: str, letters: str, value: Any, size: int) -> NDArray[np.float32]:
    array = real_array(name, value)
    _check_shape(name, letters, array.shape, size)
    return _as_float32(name, array)


def _as_float32(name: str, array: NDArray[Any]) -> NDArray[np.float32]:
    """Convert an array, and name the first number that is not finite afterwards."""
    result = _check.rounded(array, np.dtype(np.float32))
    if not np.isfinite(result).all():
        _check.finite(name, array)
        row, column = (int(axis[0]) for axis in np.nonzero(~np.isfinite(result)))
        where = f"Got {float(array[row, column]):g} in row {row}, column {column}."
        _check.fail(f"{name} must hold numbers that float32 can hold, up to {_LARGEST:.3g}. {where}")
    return np.ascontiguousarray(result)
