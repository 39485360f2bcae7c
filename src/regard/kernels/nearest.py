"""N-grams of texts, and the sequences most similar to queries, in the library: `source/library/nearest.cpp`.

Callers compute the same in NumPy and SciPy where there is no library. Letters: R queries, G n-grams, N entries of a
text, P sequences, M tokens of another text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.kernels import library

__all__: list[str] = []

Array = NDArray[Any]
_ARRAYS: dict[str, Any] = {
    "text": None,
    "starts": np.int64,
    "row": np.int64,
    "grams": np.int64,
    "rarest": np.int64,
    "first": np.int64,
    "stop": np.int64,
    "lengths": np.int64,
    "weights": np.float32,
    "entries": np.uint32,
    "owners": np.int32,
    "scales": np.float32,
    "sums": np.float32,
    "touched": np.int32,
    "excluded": np.int64,
    "best": np.int64,
}


def find(
    text: Array, entries: Array, tokens: NDArray[np.int64], order: Array, longest: int
) -> tuple[Array, Array] | None:
    """Return the ranges (longest, M) of the entries where n-grams of another text begin; None without the library.

    `tokens` (M + longest,) is the other text; `order` (M,) are its places, sorted by the longest n-grams; the n-grams
    of 1 token come first. Entries are places of `text`, times 8.
    """
    if library.load() is None:
        return None
    assert text.dtype.kind in "iu"
    text, entries, tokens, order = (library.aligned(x) for x in (text, entries, tokens, order))
    first, stop = np.empty((2, longest, len(tokens) - longest), np.int64)
    sizes = {"size": len(text), "places": len(tokens) - longest, "longest": longest, "width": text.itemsize}
    arrays = {
        "text": text,
        "entries": entries,
        "tokens": tokens,
        "order": order,
        "first": first,
        "stop": stop,
    }
    library.run("find", library.structure("Find", **sizes, **arrays))
    return first, stop


def nearest(count: int, **arrays: Array) -> Array | None:
    """Return the `count` sequences (R, count) with the largest sums, -1 after the last; None without the library.

    The arrays are those of the struct: text (N,), starts (P + 1,), row (R + 1,), grams, first, stop, lengths and
    weights (G,), entries and owners (N,), scales (P,), excluded (R,). Scales are at most the reciprocal roots of the
    sums of the squares of the sequences' weights.
    """
    if library.load() is None:
        return None
    rows, sequences, text = len(arrays["row"]) - 1, len(arrays["scales"]), arrays["text"]
    assert text.dtype.kind in "iu"
    arrays = {
        **{
            name: library.aligned(x.astype(_ARRAYS[name] or x.dtype, copy=name == "grams"))
            for name, x in arrays.items()
        },
        "rarest": np.empty(int(np.diff(arrays["row"]).max(initial=0)), np.int64),
        "sums": np.zeros(sequences, np.float32),
        "touched": np.empty(sequences, np.int32),
        "best": np.empty((rows, count), np.int64),
    }
    sizes = {"rows": rows, "count": count, "sequences": sequences, "size": len(text), "width": text.itemsize}
    library.run("nearest", library.structure("Nearest", **sizes, **arrays))
    return arrays["best"]
