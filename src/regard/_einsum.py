"""`numpy.einsum`, also of arrays without elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__: list[str] = []


def einsum(subscripts: str, *operands: NDArray[Any], dtype: type[np.floating[Any]] | None = None) -> Any:
    """Return `numpy.einsum(subscripts, *operands, dtype=dtype)`, of which a sum of no products is 0.

    If an operand without elements has strides of 0 and another has not, NumPy (2.4.6) multiplies the empty sum by what
    lies in memory where the first element would be: NaN if that is NaN. So a zero takes its place.
    """
    if not all(x.size for x in operands):
        operands = tuple(np.broadcast_to(x.dtype.type(0), x.shape) for x in operands)
    return np.einsum(subscripts, *operands, dtype=dtype)
