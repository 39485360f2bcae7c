"""Losses: cross-entropy with label smoothing or with distributions, and the divergence of two softmax distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.kernels import training
from regard.kernels.matrix import multiply

__all__ = ["cross_entropy", "divergence", "linear_cross_entropy"]

Array = NDArray[Any]

_NEAR_ONE = 1e-3  # how far the sum of a distribution may be from 1
_BLOCK_ROWS = 64  # rows of logits processed at a time, so that they stay in the cache


def cross_entropy(
    logits: Array,
    targets: NDArray[np.integer[Any]],
    bias: Array | None = None,
    *,
    smoothing: float = 0.0,
    overwrite: bool = False,
) -> tuple[float, Callable[[float], tuple[Array, ...]]]:
    """Compute the mean cross-entropy, ``-sum_v q_v log softmax(logits + bias)_v``.

    q is ``1 - smoothing`` at the target, plus `smoothing` spread evenly over all V tokens.

    Parameters
    ----------
    logits : array (N, V)
        Logits of N predictions.
    targets : integer array (N,)
        Ids of the target tokens.
    bias : array (V,), optional
        Added to each row of logits; cheaper here than in a separate addition.
    smoothing : float
        Label smoothing, 0 to 1.
    overwrite : bool
        Whether the gradient may overwrite the logits, which saves a large array.

    Returns
    -------
    loss : float
        Mean over N; 0 if N is 0.
    pullback : function
        ``pullback(dloss=1.0) -> (dlogits (N, V),)``, and dbias (V,) if there is a bias.

    Raises
    ------
    ValueError
        If a target is out of range, `smoothing` is not from 0 to 1, or the shapes don't match.

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
    targets = _checked(logits, targets, bias)
    smoothing = _check.number("smoothing", smoothing, least=0, most=1)
    if overwrite and not logits.flags.writeable:
        _check.fail("logits must be writeable where overwrite=True. Got a read-only array instead.")
    gradient = logits if overwrite else logits.copy()
    scale = 1 / max(len(logits), 1)
    native = training.cross_entropy(gradient, bias, targets, scale=scale, smoothing=smoothing)
    if native is None:
        loss, dbias = _in_numpy(gradient, bias, targets, smoothing, scale)
    else:
        (total, picked, summed), dbias = native[0].T, native[1]  # (N,) each
        losses = np.log(total) - (1 - smoothing) * picked
        if smoothing:  # 0 times infinity would be NaN
            losses -= smoothing / logits.shape[1] * summed
        loss = float(losses.sum(dtype=np.float64))

    def pullback(dloss: float = 1.0) -> tuple[Array, ...]:
        gradients = (gradient,) if dbias is None else (gradient, dbias)
        return gradients if dloss == 1.0 else tuple(g * g.dtype.type(dloss) for g in gradients)

    return loss * scale, pullback


def linear_cross_entropy(
    x: Array,
    weight: Array,
    targets: NDArray[np.integer[Any]],
    bias: Array | None = None,
    *,
    smoothing: float = 0.0,
) -> tuple[float, Callable[[float], tuple[Array, ...]]]:
    """Compute the mean cross-entropy of the logits ``x @ weight.T + bias``.

    The native library computes logits for a block of tokens at a time. It stores them for the backward pass if they
    take at most 8 MiB, and otherwise computes them again.

    Parameters
    ----------
    x : array (N, E)
        Hidden states before each of N target tokens.
    weight : array (V, E)
        Output embedding of each token.
    targets : integer array (N,)
        Ids of the target tokens.
    bias : array (V,), optional
        Added to each row of logits.
    smoothing : float
        Label smoothing, 0 to 1.

    Returns
    -------
    loss : float
        Mean over N; 0 if N is 0.
    pullback : function
        ``pullback(dloss=1.0) -> (dx (N, E), dweight (V, E))``, and dbias (V,) if there is a bias; to be called at
        most once.

    Raises
    ------
    ValueError
        If a target is out of range, `smoothing` is not from 0 to 1, or the shapes don't match.

    Examples
    --------
    >>> import numpy as np
    >>> loss, pullback = linear_cross_entropy(np.ones((1, 1)), np.zeros((2, 1)), np.array([0]))
    >>> bool(np.isclose(loss, np.log(2))), [gradient.tolist() for gradient in pullback(1.0)]
    (True, [[[0.0]], [[-0.5], [0.5]]])
    """
    _check.floats(x=x, weight=weight, bias=bias)
    _check.dimensions(x=(x, "(N, E)"), weight=(weight, "(V, E)"))
    _check.same_shape("weight", weight, (len(weight), x.shape[1]))
    targets = _checked_targets(targets, len(x), len(weight), bias)
    smoothing = _check.number("smoothing", smoothing, least=0, most=1)
    native = training.predict(x, weight, bias, targets)
    if native is None:
        return _in_one_block(x, weight, targets, bias, smoothing)
    (top, total, picked, summed), back = native[0].T, native[1]  # (N,) each
    losses = np.log(total) + top - (1 - smoothing) * picked
    if smoothing:
        losses -= smoothing / len(weight) * summed
    scale = 1 / len(x)

    def pullback(dloss: float = 1.0) -> tuple[Array, ...]:
        gradients = back(scale * dloss, smoothing)
        return gradients if bias is not None else gradients[:2]

    return float(losses.sum(dtype=np.float64)) * scale, pullback


def divergence(p: Array, q: Array) -> tuple[float, Callable[[float], tuple[Array, Array]]]:
    """Compute the mean symmetric divergence of two softmax distributions, ``KL(P || Q) + KL(Q || P)``.

    Parameters
    ----------
    p, q : array (N, V)
        Logits of N pairs.

    Returns
    -------
    divergence : float
        Mean of ``sum_v (P_v - Q_v) (log P_v - log Q_v)`` over N; 0 if N is 0.
    pullback : function
        ``pullback(dloss=1.0) -> (dp, dq)``, (N, V) each.

    Raises
    ------
    ValueError
        If the shapes differ.

    References
    ----------
    Jeffreys 1946, "An invariant form for the prior probability in estimation problems".

    Examples
    --------
    >>> import numpy as np
    >>> loss, pullback = divergence(np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]]))
    >>> bool(np.isclose(loss, 0.25 * np.log(2) + 0.25 * np.log(1.5)))
    True
    """
    _check.floats(p=p, q=q)
    if p.ndim != 2 or p.shape != q.shape:
        _check.fail(f"p and q must both be (N, V). Got shapes {p.shape} and {q.shape} instead.")
    log_p, log_q = _log_softmax(p), _log_softmax(q)
    exact_p, exact_q, ratio = np.exp(log_p), np.exp(log_q), log_p - log_q
    kl_pq, kl_qp = (exact_p * ratio).sum(axis=1), -(exact_q * ratio).sum(axis=1)  # (N,)
    scale = 1 / max(len(p), 1)

    def pullback(dloss: float = 1.0) -> tuple[Array, Array]:
        factor, difference = p.dtype.type(scale * dloss), exact_p - exact_q
        dp = exact_p * (ratio - kl_pq[:, None]) + difference
        dq = exact_q * (-ratio - kl_qp[:, None]) - difference
        return dp * factor, dq * factor

    return float((kl_pq + kl_qp).sum(dtype=np.float64)) * scale, pullback


def _log_softmax(logits: Array) -> Array:
    result: Array = logits - logits.max(axis=1, keepdims=True, initial=-np.inf)
    result -= np.log(np.exp(result).sum(axis=1, keepdims=True))
    return result


def _in_one_block(
    x: Array, weight: Array, targets: NDArray[np.int64], bias: Array | None, smoothing: float
) -> tuple[float, Callable[[float], tuple[Array, ...]]]:
    """Compute `linear_cross_entropy` from all logits at once."""
    logits = multiply(x, weight.T)  # (N, V)
    loss, back = cross_entropy(logits, targets, bias, smoothing=smoothing, overwrite=True)

    def pullback(dloss: float = 1.0) -> tuple[Array, ...]:
        dlogits, *dbias = back(1.0)
        scale = dlogits.dtype.type(dloss)  # applied to small arrays, not to the logits
        dweight = multiply(dlogits.T, x * scale)
        return (multiply(dlogits, weight) * scale, dweight, *(d * scale for d in dbias))

    return loss, pullback


def _checked(logits: Array, targets: NDArray[np.integer[Any]], bias: Array | None) -> NDArray[np.int64]:
    """Check shapes and ids, and return the targets."""
    _check.floats(logits=logits, bias=bias)
    _check.dimensions(logits=(logits, "(N, V)"))
    return _checked_targets(targets, len(logits), logits.shape[1], bias)


def _checked_targets(
    targets: NDArray[np.integer[Any]], rows: int, tokens: int, bias: Array | None
) -> NDArray[np.int64]:
    targets = _check.integer_array("targets", targets, 0, tokens - 1)
    _check.shapes({"N": rows, "V": tokens}, targets=(targets, "N"))
    if bias is not None:
        _check.shapes({"V": tokens}, bias=(bias, "V"))
    return targets


def _in_numpy(
    gradient: Array, bias: Array | None, targets: NDArray[np.int64], smoothing: float, scale: float
) -> tuple[float, Array | None]:
    """Overwrite logits by their gradient, and return the summed loss and the gradient of the bias."""
    loss = 0.0
    for start in range(0, len(gradient), _BLOCK_ROWS):
        rows = gradient[start : start + _BLOCK_ROWS]
        if bias is not None:
            rows += bias
        loss += _block(rows, targets[start : start + _BLOCK_ROWS], smoothing, scale)
    return loss, None if bias is None else gradient.sum(axis=0)


def _block(x: Array, targets: NDArray[np.integer[Any]], smoothing: float, scale: float) -> float:
    """Overwrite a block of logits by its gradient, and return its summed loss."""
    at_targets = np.arange(len(x)), targets
    x -= x.max(axis=1, keepdims=True)
    picked = x[at_targets]  # (rows,)
    mean = x.mean(axis=1) if smoothing else 0.0
    np.exp(x, out=x)
    total = x.sum(axis=1)
    loss = float((np.log(total) - (1 - smoothing) * picked - smoothing * mean).sum(dtype=np.float64))
    x *= (scale / total)[:, None]
    if smoothing:
        x -= x.dtype.type(scale * smoothing / x.shape[1])
    x[at_targets] -= x.dtype.type(scale * (1 - smoothing))
    return loss
