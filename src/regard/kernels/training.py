"""What else takes time where small networks are trained: the loss over a vocabulary, embeddings, Adam; in the library.

It does float32 only, and says no to the rest. `nn` has all of it in NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.kernels import library

__all__: list[str] = []

Array = NDArray[Any]

_WORDS = 192  # that are predicted at a time
_KEPT = 1 << 21  # logits, 8 MiB
_NARROW = 48  # words whose numbers lie together where the library multiplies with them


class CSoftmax(ctypes.Structure):
    """`struct Softmax`."""

    _fields_ = [
        *((name, library.Int) for name in ("rows", "words")),
        *((name, library.Pointer) for name in ("logits", "bias", "dbias", "targets", "statistics")),
        *((name, ctypes.c_float) for name in ("scale", "smoothing", "target_weight")),
    ]


class CTopK(ctypes.Structure):
    """`struct TopK`."""

    _fields_ = [
        *((name, library.Int) for name in ("rows", "words", "size", "count", "first")),
        *(
            (name, library.Pointer)
            for name in ("logits", "readout", "weight", "bias", "values", "statistics", "indices")
        ),
    ]


class CPrediction(ctypes.Structure):
    """`struct Prediction`."""

    _fields_ = [
        *((name, library.Int) for name in ("rows", "words", "size")),
        *((name, library.Pointer) for name in ("readout", "weight", "bias", "targets", "statistics")),
        *((name, library.Pointer) for name in ("dreadout", "dweight", "dbias", "saved_logits")),
        *((name, ctypes.c_float) for name in ("scale", "smoothing", "target_weight")),
        ("stop", library.Pointer),
    ]


class CRows(ctypes.Structure):
    """`struct Rows`."""

    _fields_ = [
        *((name, library.Int) for name in ("rows", "size")),
        *((name, library.Pointer) for name in ("indices", "updates", "table")),
    ]


class CAdam(ctypes.Structure):
    """`struct Adam`."""

    _fields_ = [
        ("count", library.Int),
        *((name, library.Pointer) for name in ("parameters", "mean", "square", "gradient")),
        *((name, ctypes.c_float) for name in ("keep_mean", "add_mean", "keep_square", "add_square")),
        *((name, ctypes.c_float) for name in ("epsilon", "rate")),
    ]


_library = library.checked(
    {"Softmax": CSoftmax, "Prediction": CPrediction, "TopK": CTopK, "Rows": CRows, "Adam": CAdam},
    panel_columns=_NARROW,
    word_block=_WORDS,
)


def cross_entropy(
    logits: Array, bias: Array | None, targets: NDArray[np.int64], *, share: float, smoothing: float
) -> tuple[Array, Array | None] | None:
    """Write the gradient of the loss over logits (N, V); None if the library doesn't do it.

    Returns (N, 3): the sum of exponentials, the target's logit and the sum of all, counted from the largest; and the
    gradient of the bias, if there is one.
    """
    loaded = library.trains(_library(), logits, bias)
    if loaded is None or not logits.size:
        return None
    targets = np.require(targets, np.int64, ["C", "A"])
    rows, words = logits.shape
    found, dbias = np.empty((rows, 3), np.float32), None if bias is None else np.zeros(words, np.float32)
    c = CSoftmax(
        rows, words, library.address(logits), None, None, library.address(targets), library.address(found)
    )
    if bias is not None and dbias is not None:
        c.bias, c.dbias = library.address(bias), library.address(dbias)
    c.scale, c.smoothing, c.target_weight = share, share * smoothing / words, share * (1 - smoothing)
    loaded.regard_cross_entropy(ctypes.byref(c))
    return found, dbias


def tops(logits: Array, count: int, first: int = 0) -> tuple[Array, Array, Array] | None:
    """Find the largest of each row of logits (N, V), from the word `first` on; None if the library doesn't do it.

    Returns (N, 2): the largest of all words, and the sum of exponentials counted from it; the largest (N, count) in
    falling order, of equals the first word first, -inf where there are no more; their places.
    """
    loaded = library.trains(_library(), logits)
    if loaded is None or not logits.size:
        return None
    return _tops(CTopK(*logits.shape, 0, count, first, library.address(logits)))


def _tops(c: CTopK) -> tuple[Array, Array, Array]:
    """Run the kernel, which still has to be told where to write."""
    loaded = _library()
    assert loaded is not None
    found, best = np.empty((c.rows, 2), np.float32), np.empty((c.rows, c.count), np.float32)
    places = np.empty((c.rows, c.count), np.int64)
    c.values, c.statistics, c.indices = map(library.address, (best, found, places))
    if loaded.regard_top_k(ctypes.byref(c)):
        raise MemoryError
    return found, best, places


class Words:
    """A matrix of words (V, E) and their bias (V,), kept as the library reads them where logits are never held."""

    def __init__(self, weight: Array, bias: Array) -> None:
        self.count, self.size = weight.shape
        parts = -(-self.count // _NARROW)
        self.weight = np.zeros((parts, self.size, _NARROW), np.float32)
        self.bias = np.zeros(parts * _NARROW, np.float32)
        self.bias[: self.count] = bias
        whole, some = divmod(self.count, _NARROW)
        self.weight[:whole] = weight[: self.count - some].reshape(whole, _NARROW, self.size).swapaxes(1, 2)
        self.weight[whole:, :, :some] = weight[self.count - some :].T

    @classmethod
    def of(cls, weight: Array, bias: Array) -> Words | None:
        """Return them, or None if the library does nothing with them."""
        does = library.trains(_library()) is not None and weight.size and bias.shape == weight.shape[:1]
        return cls(weight, bias) if does and weight.dtype == bias.dtype == np.float32 else None

    def tops(self, readout: Array, count: int, first: int = 0) -> tuple[Array, Array, Array]:
        """Find the largest logits of readouts (N, E): see `tops`."""
        assert readout.shape[1:] == (self.size,)
        readout = np.require(readout, np.float32, ["C", "A"])
        at = map(library.address, (readout, self.weight, self.bias))
        return _tops(CTopK(len(readout), self.count, self.size, count, first, None, *at))


def predict(
    readout: Array, weight: Array, bias: Array | None, targets: NDArray[np.int64]
) -> tuple[Array, Callable[..., tuple[Array, Array, Array]]] | None:
    """Compare readout (N, E) @ weight (V, E) transposed + bias (V,) with targets; None if the library doesn't do it.

    Returns (N, 4): each row's largest logit, its sum of exponentials counted from there, the target's logit and the sum
    of all; and ``pullback(share, smoothing) -> (dreadout, dweight, dbias)``.
    """
    loaded = library.trains(_library(), readout, weight, bias)
    if loaded is None or not (readout.size and weight.size):
        return None
    targets = np.require(targets, np.int64, ["C", "A"])
    found = np.empty((len(readout), 4), np.float32)
    logits = _room_for_logits(len(readout), len(weight))

    def run(*made: Array, numbers: tuple[float, ...] = ()) -> None:
        arrays = (readout, weight, bias, targets, found, *(made or (None, None, None)), logits)
        at = (None if x is None else library.address(x) for x in arrays)
        c = CPrediction(len(readout), *weight.shape, *at, *numbers)

        def call(stop: int) -> int:
            c.stop = stop
            failed: int = loaded.regard_predict(ctypes.byref(c), int(bool(made)))
            return failed

        if library.interruptible(call, readout.size * len(weight) * (3 if made else 1)):
            raise MemoryError

    def pullback(share: float, smoothing: float) -> tuple[Array, Array, Array]:
        nonlocal logits
        made = np.empty_like(readout), np.empty_like(weight), np.zeros(len(weight), np.float32)
        run(*made, numbers=(share, share * smoothing / len(weight), share * (1 - smoothing)))
        logits = None  # they have become their gradient
        return made

    run()
    return found, pullback


def _room_for_logits(rows: int, words: int) -> Array | None:
    """Return room to keep logits in for the way back, where they are few; otherwise they are made again."""
    size = rows * (-(-words // _WORDS) * _WORDS)
    return np.empty(size, np.float32) if size <= _KEPT else None


def add_rows(table: Array, places: NDArray[np.integer[Any]], rows: Array) -> bool:
    """Add rows (N, E) to those of a table (V, E) at places (N,), one by one; False if the library doesn't do it."""
    loaded = library.trains(_library(), table, rows)
    if loaded is None:
        return False
    places = np.require(places, np.int64, ["C", "A"])
    if not places.size or not (places.min() >= 0 and places.max() < len(table)):
        return False
    if rows.shape != (places.size, table.shape[1]) or not table.flags.writeable:
        return False
    loaded.regard_add_rows(
        ctypes.byref(
            CRows(*rows.shape, library.address(places), library.address(rows), library.address(table))
        )
    )
    return True


class Walk(NamedTuple):
    """The numbers of a step of Adam, the same for all parameters: see `nn.Adam`."""

    keep_mean: float
    add_mean: float
    keep_square: float
    add_square: float
    epsilon: float
    rate: float


def adam(parameters: Array, mean: Array, square: Array, gradient: Array, walk: Walk) -> bool:
    """Take a step, and return True; False if the library doesn't do it."""
    arrays = parameters, mean, square, gradient
    loaded = library.trains(_library(), *arrays)
    if loaded is None or len({x.size for x in arrays}) > 1 or not parameters.flags.writeable:
        return False
    loaded.regard_adam(ctypes.byref(CAdam(parameters.size, *map(library.address, arrays), *walk)))
    return True
