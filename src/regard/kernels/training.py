"""Training in the library: the softmax loss over a vocabulary, gradients of embeddings, Adam.

The library computes in float32 only. `nn` has all of this in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.kernels import library

__all__: list[str] = []

Array = NDArray[Any]

_STORED_LOGITS = 1 << 21  # logits, 8 MiB


def cross_entropy(
    logits: Array, bias: Array | None, targets: NDArray[np.int64], *, scale: float, smoothing: float
) -> tuple[Array, Array | None] | None:
    """Overwrite logits (N, V) with the gradient of the loss; return None if the library can't.

    Returns (N, 3): the sum of exponentials, the target's logit and the sum of all, relative to the largest; and the
    gradient of the bias, if there is one.
    """
    if not library.trains(library.load(), logits, bias) or not logits.size:
        return None
    targets = np.require(targets, np.int64, ["C", "A"])
    rows, tokens = logits.shape
    sums, dbias = np.empty((rows, 3), np.float32), None if bias is None else np.zeros(tokens, np.float32)
    numbers = {
        "scale": scale,
        "smoothing": scale * smoothing / tokens,
        "target_weight": scale * (1 - smoothing),
    }
    arrays = {"logits": logits, "bias": bias, "dbias": dbias, "targets": targets, "statistics": sums}
    library.run("cross_entropy", library.structure("Softmax", rows=rows, words=tokens, **arrays, **numbers))
    return sums, dbias


def top_k(logits: Array, count: int, first: int = 0) -> tuple[Array, Array, Array] | None:
    """Find the largest of each row of logits (N, V), from the token `first` on; return None if the library can't.

    Returns (N, 2): the largest of all tokens, and the sum of exponentials relative to it; the largest (N, count) in
    falling order, of equals the first token first, -inf where there are no more; their tokens.
    """
    if not library.trains(library.load(), logits) or not logits.size:
        return None
    return _top_k(count, rows=len(logits), words=logits.shape[1], first=first, logits=logits)


def _top_k(count: int, **fields: Any) -> tuple[Array, Array, Array]:
    """Run the kernel with new output arrays."""
    rows = fields["rows"]
    sums, best = np.empty((rows, 2), np.float32), np.empty((rows, count), np.float32)
    indices = np.empty((rows, count), np.int64)
    results = {"values": best, "statistics": sums, "indices": indices}
    library.run("top_k", library.structure("TopK", count=count, **fields, **results))
    return sums, best, indices


class PackedWeights:
    """An output matrix (V, E) and its bias (V,), in the library's layout for logits that are never stored."""

    def __init__(self, weight: Array, bias: Array) -> None:
        (self.count, self.size), columns = weight.shape, library.number("PANEL_COLUMNS")
        blocks = -(-self.count // columns)
        self.weight = np.zeros((blocks, self.size, columns), np.float32)
        self.bias = np.zeros(blocks * columns, np.float32)
        self.bias[: self.count] = bias
        full, rest = divmod(self.count, columns)
        self.weight[:full] = weight[: self.count - rest].reshape(full, columns, self.size).swapaxes(1, 2)
        self.weight[full:, :, :rest] = weight[self.count - rest :].T

    @classmethod
    def pack(cls, weight: Array, bias: Array) -> PackedWeights | None:
        """Pack a matrix and its bias; return None if the library can't use them."""
        usable = library.trains(library.load()) is not None and weight.size and bias.shape == weight.shape[:1]
        return cls(weight, bias) if usable and weight.dtype == bias.dtype == np.float32 else None

    def top_k(self, readout: Array, count: int, first: int = 0) -> tuple[Array, Array, Array]:
        """Find the largest logits of readouts (N, E): see `top_k`."""
        assert readout.shape[1:] == (self.size,)
        readout = np.require(readout, np.float32, ["C", "A"])
        sizes = {"rows": len(readout), "words": self.count, "size": self.size, "first": first}
        return _top_k(count, **sizes, readout=readout, weight=self.weight, bias=self.bias)


def predict(
    readout: Array, weight: Array, bias: Array | None, targets: NDArray[np.int64]
) -> tuple[Array, Callable[..., tuple[Array, Array, Array]]] | None:
    """Compute the softmax loss of readout (N, E) @ weight (V, E).T + bias (V,); return None if the library can't.

    Returns (N, 4): each row's largest logit, its sum of exponentials relative to it, the target's logit and the sum of
    all; and ``pullback(scale, smoothing) -> (dreadout, dweight, dbias)``.
    """
    if not library.trains(library.load(), readout, weight, bias) or not (readout.size and weight.size):
        return None
    targets = np.require(targets, np.int64, ["C", "A"])
    sums = np.empty((len(readout), 4), np.float32)
    logits = _logits_buffer(len(readout), len(weight))

    def run(**backward: Any) -> None:
        sizes = {"rows": len(readout), "words": len(weight), "size": weight.shape[1]}
        arrays = {"readout": readout, "weight": weight, "bias": bias, "targets": targets}
        results = {"statistics": sums, "saved_logits": logits}
        c = library.structure("Prediction", **sizes, **arrays, **results, **backward)
        work = readout.size * len(weight) * (3 if backward else 1)
        library.run("predict", c, bool(backward), work)

    def pullback(scale: float, smoothing: float) -> tuple[Array, Array, Array]:
        nonlocal logits
        gradients = np.empty_like(readout), np.empty_like(weight), np.zeros(len(weight), np.float32)
        numbers = scale, scale * smoothing / len(weight), scale * (1 - smoothing)
        named = dict(zip(("dreadout", "dweight", "dbias"), gradients, strict=True))
        run(**named, **dict(zip(("scale", "smoothing", "target_weight"), numbers, strict=True)))
        logits = None  # overwritten by their gradient
        return gradients

    run()
    return sums, pullback


def _logits_buffer(rows: int, tokens: int) -> Array | None:
    """Allocate memory to keep few logits for the backward pass; many are computed again."""
    block = library.number("WORD_BLOCK")
    size = rows * (-(-tokens // block) * block)
    return np.empty(size, np.float32) if size <= _STORED_LOGITS else None


def add_rows(table: Array, indices: NDArray[np.integer[Any]], rows: Array) -> bool:
    """Add rows (N, E) to those of a table (V, E) at indices (N,), one by one; return False if the library can't."""
    if not library.trains(library.load(), table, rows):
        return False
    indices = np.require(indices, np.int64, ["C", "A"])
    if not indices.size or not (indices.min() >= 0 and indices.max() < len(table)):
        return False
    if rows.shape != (indices.size, table.shape[1]) or not table.flags.writeable:
        return False
    sizes = {"rows": len(rows), "size": rows.shape[1]}
    library.run("add_rows", library.structure("Rows", **sizes, indices=indices, updates=rows, table=table))
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
    arrays = {"parameters": parameters, "mean": mean, "square": square, "gradient": gradient}
    if not library.trains(library.load(), *arrays.values()) or not parameters.flags.writeable:
        return False
    if len({x.size for x in arrays.values()}) > 1:
        return False
    library.run("adam", library.structure("Adam", count=parameters.size, **arrays, **step._asdict()))
    return True
