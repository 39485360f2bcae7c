"""Sources that are arrays: sequences and sets of vectors, and images.

A source class takes the place of a tokenizer: it checks what a user gives as an example, reads files, and returns an
array of rows. It is stored as a few settings (`describe`, for JSON), from which `restore_source` makes it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.data.arrays import Loaded
from regard.seq2seq.data.images import Images
from regard.seq2seq.data.vectors import Vectors

__all__ = ["ArraySource", "Images", "Loaded", "Vectors", "restore_source", "scaled"]

ArraySource = Vectors | Images


def restore_source(described: Mapping[str, Any], data: Mapping[str, bytes]) -> ArraySource:
    """Make a source again from its settings, which may come from an untrusted file.

    Parameters
    ----------
    described : mapping
        As `describe` returns it; "kind" is the class's `token_type`.
    data : mapping of str to bytes
        What was learned besides: nothing, for arrays.

    Returns
    -------
    Vectors or Images
        The source.
    """
    if data:
        raise ValueError(f"a source of arrays has no data. Got {next(iter(data))!r:.60} instead.")
    sources: tuple[type[ArraySource], ...] = (Vectors, Images)
    kind = described.get("kind") if isinstance(described, Mapping) else None
    for source in sources:
        if kind == source.token_type:
            return source.restore(described)
    names = ", ".join(source.token_type for source in sources)
    raise ValueError(f"the kind of a source must be one of {names}. Got {kind!r:.60} instead.")


def scaled(rows: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows as a network reads them: uint8 is scaled to 0 to 1, float32 stays as it is.

    Parameters
    ----------
    rows : ndarray of uint8 or float32
        Rows of a source, of any shape.

    Returns
    -------
    ndarray of float32
        Numbers of uint8 times 1 / 255; an array of float32 itself.
    """
    if rows.dtype == np.uint8:
        return np.multiply(rows, np.float32(1 / 255), dtype=np.float32)
    if rows.dtype != np.float32:
        _check.fail(f"rows must be of uint8 or float32. Got {rows.dtype} instead.", kind=TypeError)
    return rows.astype(np.float32, copy=False)
