"""Softmax cross-entropy with label smoothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.kernels import training

__all__ = ["cross_entropy"]

Array = NDArray[Any]

_ROWS = 64  # so many rows of logits stay in the cache while they are worked on


def cross_entropy(
    logits: Array, targets: NDArray[np.integer[Any]], *, smoothing: float = 0.0, overwrite: bool = False
) -> tuple[float, Callable[[float], tuple[Array]]]:
    """Compare a softmax with the words that came: the mean of ``-sum_v q_v log softmax(logits)_v``.

    q is ``1 - smoothing`` at the target, with `smoothing` spread evenly over all V words.

    Parameters
    ----------
    logits : array (N, V)
        N predictions.
    targets : integer array (N,)
        The words that came.
    smoothing : float
        Between 0 and 1.
    overwrite : bool
        Whether the gradient may be written over the logits, which saves a large array.

    Returns
    -------
    loss : float
        The mean over N; 0 if there are none.
    pullback : function
        ``pullback(dloss=1.0) -> (dlogits (N, V),)``.

    References
    ----------
    Szegedy et al. 2016, "Rethinking the Inception Architecture for Computer Vision", section 7.

    Examples
    --------
    >>> import numpy as np
    >>> loss, pullback = cross_entropy(np.zeros((1, 2)), np.array([0]))
    >>> bool(np.isclose(loss, np.log(2))), pullback(1.0)
    (True, (array([[-0.5,  0.5]]),))
    """
    gradient = logits if overwrite else logits.copy()
    share = 1 / max(len(logits), 1)
    loss = sum(
        _rows(gradient[start : start + _ROWS], targets[start : start + _ROWS], smoothing, share)
        for start in range(0, len(logits), _ROWS)
    )

    def pullback(dloss: float = 1.0) -> tuple[Array]:
        return (gradient if dloss == 1.0 else gradient * gradient.dtype.type(dloss),)

    return loss * share, pullback


def _rows(x: Array, targets: NDArray[np.integer[Any]], smoothing: float, share: float) -> float:
    """Write the gradient of a few rows over their logits, and return their summed loss."""
    places = np.arange(len(x)), targets
    x -= x.max(axis=1, keepdims=True)
    picked = x[places]  # (rows,)
    mean = x.mean(axis=1) if smoothing else 0.0
    np.exp(x, out=x)
    total = x.sum(axis=1)
    loss = float((np.log(total) - (1 - smoothing) * picked - smoothing * mean).sum(dtype=np.float64))
    x *= (share / total)[:, None]
    if smoothing:
        x -= x.dtype.type(share * smoothing / x.shape[1])
    x[places] -= x.dtype.type(share * (1 - smoothing))
    return loss
