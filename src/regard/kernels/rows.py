"""Layer normalisation, dropout and the rectifier's gradient in the library: `source/training/rows.cpp`.

The library computes in float32 only: each function returns None or False for other arrays. `nn` has all of this in
NumPy. Letters: N rows, W numbers in each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.kernels import library

__all__: list[str] = []

Array = NDArray[Any]


def norm(x: Array, gain: Array, shift: Array, epsilon: float) -> tuple[Array, Array] | None:
    """Normalise rows (N, W); return them, and the mean and the factor of each (N, 2)."""
    if (
        not library.trains(library.load(), x, gain, shift)
        or not x.size
        or not gain.shape == shift.shape == x.shape[1:]
    ):
        return None
    y, moments = np.empty_like(x), np.empty((len(x), 2), np.float32)
    sizes = {"rows": len(x), "size": len(gain), "epsilon": epsilon}
    library.run("norm", library.structure("Norm", **sizes, x=x, gain=gain, shift=shift, y=y, moments=moments))
    return y, moments


def norm_back(
    x: Array, gain: Array, moments: Array, dy: Array, onto: Array | None
) -> tuple[Array, Array, Array] | None:
    """Return the gradients of rows (N, W), to which `onto` is added, of the gain and of the shift."""
    if not library.trains(library.load(), x, gain, dy, onto):
        return None
    dx, dgain, dshift = np.empty_like(x), np.zeros_like(gain), np.zeros_like(gain)
    read = {"x": x, "gain": gain, "moments": moments, "dy": dy, "dresidual": onto}
    written = {"dx": dx, "dgain": dgain, "dshift": dshift}
    library.run(
        "norm", library.structure("Norm", rows=len(x), size=len(gain), **read, **written), backward=True
    )
    return dx, dgain, dshift


def drop(x: Array, random: NDArray[np.uint16], bar: int, scale: float) -> Array | None:
    """Return x times `scale` where the random number is at least `bar`, times 0 elsewhere."""
    if (
        not library.trains(library.load(), x)
        or not (random.flags.c_contiguous and random.flags.aligned)
        or random.shape != x.shape
    ):
        return None
    y = np.empty_like(x)
    numbers = {"count": x.size, "threshold": bar, "scale": scale}
    library.run("drop", library.structure("Drop", **numbers, random_bits=random, x=x, y=y))
    return y


def relu_backward(y: Array, d: Array) -> bool:
    """Write 0 into d where y is not above 0; return False if the library can't."""
    if not library.trains(library.load(), y, d) or y.shape != d.shape or not d.flags.writeable:
        return False
    library.run("relu_backward", library.structure("Relu", count=y.size, y=y, gradient=d))
    return True
