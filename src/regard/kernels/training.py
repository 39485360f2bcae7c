"""Training in the library: the softmax loss over a vocabulary, gradients of embeddings, Adam.

The library computes in float32 only. `nn` has all of this in NumPy.
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

_BLOCK_COLUMNS = 192  # columns of logits that are computed at a time
_STORED_LOGITS = 1 << 21  # logits, 8 MiB
_PANEL_COLUMNS = 48  # columns of a block of packed weights


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
    panel_columns=_PANEL_COLUMNS,
    word_block=_BLOCK_COLUMNS,
)


def cross_entropy(
    logits: Array, bias: Array | None, targets: NDArray[np.int64], *, scale: float, smoothing: float
) -> tuple[Array, Array | None] | None:
    """Overwrite logits (N, V) with the gradient of the loss; return None if the library can't.

    Returns (N, 3): the sum of exponentials, the target's logit and the sum of all, relative to the largest; and the
    gradient of the bias, if there is one.
    """
    loaded = library.trains(_library(), logits, bias)
    if loaded is None or not logits.size:
        return None
    targets = np.require(targets, np.int64, ["C", "A"])
    rows, tokens = logits.shape
    sums, dbias = np.empty((rows, 3), np.float32), None if bias is None else np.zeros(tokens, np.float32)
    c = CSoftmax(
        rows, tokens, library.address(logits), None, None, library.address(targets), library.address(sums)
    )
    if bias is not None and dbias is not None:
        c.bias, c.dbias = library.address(bias), library.address(dbias)
    c.scale, c.smoothing, c.target_weight = scale, scale * smoothing / tokens, scale * (1 - smoothing)
    loaded.regard_cross_entropy(ctypes.byref(c))
    return sums, dbias


def top_k(logits: Array, count: int, first: int = 0) -> tuple[Array, Array, Array] | None:
    """Find the largest of each row of logits (N, V), from the token `first` on; return None if the library can't.

    Returns (N, 2): the largest of all tokens, and the sum of exponentials relative to it; the largest (N, count) in
    falling order, of equals the first token first, -inf where there are no more; their tokens.
    """
    loaded = library.trains(_library(), logits)
    if loaded is None or not logits.size:
        return None
    return _top_k(CTopK(*logits.shape, 0, count, first, library.address(logits)))


def _top_k(c: CTopK) -> tuple[Array, Array, Array]:
    """Run the kernel with new output arrays."""
    loaded = _library()
    assert loaded is not None
    sums, best = np.empty((c.rows, 2), np.float32), np.empty((c.rows, c.count), np.float32)
    indices = np.empty((c.rows, c.count), np.int64)
    c.values, c.statistics, c.indices = map(library.address, (best, sums, indices))
    if loaded.regard_top_k(ctypes.byref(c)):
        raise MemoryError
    return sums, best, indices


class PackedWeights:
    """An output matrix (V, E) and its bias (V,), in the library's layout for logits that are never stored."""

    def __init__(self, weight: Array, bias: Array) -> None:
        self.count, self.size = weight.shape
        blocks = -(-self.count // _PANEL_COLUMNS)
        self.weight = np.zeros((blocks, self.size, _PANEL_COLUMNS), np.float32)
        self.bias = np.zeros(blocks * _PANEL_COLUMNS, np.float32)
        self.bias[: self.count] = bias
        full, rest = divmod(self.count, _PANEL_COLUMNS)
        self.weight[:full] = (
            weight[: self.count - rest].reshape(full, _PANEL_COLUMNS, self.size).swapaxes(1, 2)
        )
        self.weight[full:, :, :rest] = weight[self.count - rest :].T

    @classmethod
    def pack(cls, weight: Array, bias: Array) -> PackedWeights | None:
        """Pack a matrix and its bias; return None if the library can't use them."""
        usable = library.trains(_library()) is not None and weight.size and bias.shape == weight.shape[:1]
        return cls(weight, bias) if usable and weight.dtype == bias.dtype == np.float32 else None

    def top_k(self, readout: Array, count: int, first: int = 0) -> tuple[Array, Array, Array]:
        """Find the largest logits of readouts (N, E): see `top_k`."""
        assert readout.shape[1:] == (self.size,)
        readout = np.require(readout, np.float32, ["C", "A"])
        at = map(library.address, (readout, self.weight, self.bias))
        return _top_k(CTopK(len(readout), self.count, self.size, count, first, None, *at))


def predict(
    readout: Array, weight: Array, bias: Array | None, targets: NDArray[np.int64]
) -> tuple[Array, Callable[..., tuple[Array, Array, Array]]] | None:
    """Compute the softmax loss of readout (N, E) @ weight (V, E).T + bias (V,); return None if the library can't.

    Returns (N, 4): each row's largest logit, its sum of exponentials relative to it, the target's logit and the sum of
    all; and ``pullback(scale, smoothing) -> (dreadout, dweight, dbias)``.
    """
    loaded = library.trains(_library(), readout, weight, bias)
    if loaded is None or not (readout.size and weight.size):
        return None
    targets = np.require(targets, np.int64, ["C", "A"])
    sums = np.empty((len(readout), 4), np.float32)
    logits = _logits_buffer(len(readout), len(weight))

    def run(*gradients: Array, numbers: tuple[float, ...] = ()) -> None:
        arrays = (readout, weight, bias, targets, sums, *(gradients or (None, None, None)), logits)
        at = (None if x is None else library.address(x) for x in arrays)
        c = CPrediction(len(readout), *weight.shape, *at, *numbers)

        def call(stop: int) -> int:
            c.stop = stop
            failed: int = loaded.regard_predict(ctypes.byref(c), int(bool(gradients)))
            return failed

        if library.interruptible(call, readout.size * len(weight) * (3 if gradients else 1)):
            raise MemoryError

    def pullback(scale: float, smoothing: float) -> tuple[Array, Array, Array]:
        nonlocal logits
        gradients = np.empty_like(readout), np.empty_like(weight), np.zeros(len(weight), np.float32)
        run(*gradients, numbers=(scale, scale * smoothing / len(weight), scale * (1 - smoothing)))
        logits = None  # overwritten by their gradient
        return gradients

    run()
    return sums, pullback


def _logits_buffer(rows: int, tokens: int) -> Array | None:
    """Allocate memory to keep few logits for the backward pass; many are computed again."""
    size = rows * (-(-tokens // _BLOCK_COLUMNS) * _BLOCK_COLUMNS)
    return np.empty(size, np.float32) if size <= _STORED_LOGITS else None


def add_rows(table: Array, indices: NDArray[np.integer[Any]], rows: Array) -> bool:
    """Add rows (N, E) to those of a table (V, E) at indices (N,), one by one; return False if the library can't."""
    loaded = library.trains(_library(), table, rows)
    if loaded is None:
        return False
    indices = np.require(indices, np.int64, ["C", "A"])
    if not indices.size or not (indices.min() >= 0 and indices.max() < len(table)):
        return False
    if rows.shape != (indices.size, table.shape[1]) or not table.flags.writeable:
        return False
    loaded.regard_add_rows(
        ctypes.byref(
            CRows(*rows.shape, library.address(indices), library.address(rows), library.address(table))
        )
    )
    return True


class AdamStep(NamedTuple):
    """The coefficients of a step of Adam: see `nn.Adam`."""

    keep_mean: float
    add_mean: float
    keep_square: float
    add_square: float
    epsilon: float
    rate: float


def adam(parameters: Array, mean: Array, square: Array, gradient: Array, step: AdamStep) -> bool:
    """Take a step; return False if the library can't."""
    arrays = parameters, mean, square, gradient
    loaded = library.trains(_library(), *arrays)
    if loaded is None or len({x.size for x in arrays}) > 1 or not parameters.flags.writeable:
        return False
    loaded.regard_adam(ctypes.byref(CAdam(parameters.size, *map(library.address, arrays), *step)))
    return True
