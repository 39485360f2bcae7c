"""Gated recurrent units: one step, and a whole sequence in one or two directions.

Gates lie as (reset, update, candidate), each of the state's size H::

    reset, update = sigmoid(inputs + hidden)        the first 2 H of 3 H
    candidate     = tanh(inputs + reset * hidden)   the last H
    new state     = update * state + (1 - update) * candidate

where ``inputs`` comes from outside (``x @ input_weight + bias``) and ``hidden = state @ state_weight``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["gru", "gru_step"]

Array = NDArray[Any]


def gru_step(
    inputs: Array, hidden: Array, state: Array
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array]]]:
    """Take one step from the two halves of the gates' sums.

    Parameters
    ----------
    inputs : array (..., 3 H)
        What comes from outside.
    hidden : array (..., 3 H)
        What comes from the state, ``state @ state_weight``.
    state : array (..., H)
        The state before.

    Returns
    -------
    new : array (..., H)
        The state after.
    pullback : function
        ``pullback(dnew) -> (dinputs, dhidden, dstate)``; dstate leaves out the way through `hidden`.

    References
    ----------
    Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder", eq. 5 to 8, with the reset gate
    after the product.

    Examples
    --------
    >>> import numpy as np
    >>> new, _ = gru_step(np.zeros((1, 3)), np.zeros((1, 3)), np.ones((1, 1)))
    >>> new
    array([[0.5]])
    """
    size = state.shape[-1]
    gates = _sigmoid(inputs[..., : 2 * size] + hidden[..., : 2 * size])
    reset, update = gates[..., :size], gates[..., size:]
    candidate = reset * hidden[..., 2 * size :]
    candidate += inputs[..., 2 * size :]
    np.tanh(candidate, out=candidate)
    new = state - candidate
    new *= update
    new += candidate

    def pullback(dnew: Array) -> tuple[Array, Array, Array]:
        dinputs, dhidden = np.empty_like(inputs), np.empty_like(hidden)
        dcandidate = dinputs[..., 2 * size :]
        np.multiply(1 - update, dnew, out=dcandidate)
        dcandidate *= 1 - candidate * candidate
        np.multiply(dcandidate, reset, out=dhidden[..., 2 * size :])
        np.multiply(dcandidate, hidden[..., 2 * size :], out=dinputs[..., :size])  # of the reset gate
        np.multiply(state - candidate, dnew, out=dinputs[..., size : 2 * size])  # of the update gate
        slope = 1 - gates
        slope *= gates
        dinputs[..., : 2 * size] *= slope
        dhidden[..., : 2 * size] = dinputs[..., : 2 * size]
        return dinputs, dhidden, dnew * update

    return new, pullback


def _sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), written over x: by way of tanh it can't overflow."""
    x *= 0.5
    np.tanh(x, out=x)
    x += 1
    x *= 0.5
    return x


def gru(
    x: Array,
    input_weight: Array,
    bias: Array,
    state_weight: Array,
    *,
    lengths: NDArray[np.int64] | None = None,
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array, Array]]]:
    """Read a sequence forwards (K = 1), or forwards and backwards (K = 2), starting from states of 0.

    Parameters
    ----------
    x : array (T, B, E)
        T steps of B sequences.
    input_weight : array (E, K, 3 H)
        From the inputs to the gates of each direction.
    bias : array (K, 3 H)
        Added to that.
    state_weight : array (K, H, 3 H)
        From each direction's state to its gates.
    lengths : integer array (B,), optional
        Steps of each sequence, if not all have T: forwards its state stays as it is from there on, backwards it starts
        there.

    Returns
    -------
    states : array (T, B, K H)
        The states after each step; the backward direction's at t has read steps T - 1 down to t.
    pullback : function
        ``pullback(dstates) -> (dx, dinput_weight, dbias, dstate_weight)``.

    References
    ----------
    Schuster and Paliwal 1997, "Bidirectional recurrent neural networks"; Bahdanau, Cho and Bengio 2014, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> states, _ = gru(np.ones((3, 1, 2)), np.ones((2, 2, 3)), np.zeros((2, 3)), np.zeros((2, 1, 3)))
    >>> bool((states[::-1, :, 0] == states[:, :, 1]).all())
    True
    """
    length, batch, _ = x.shape
    directions, size, _ = state_weight.shape
    inputs = _project(x, input_weight, bias)  # (T, K, B, 3H), each direction in its own order of time
    states = np.zeros((length + 1, directions, batch, size), x.dtype)
    going = _going(lengths, length, directions)  # (T, K, B, 1)
    steps = []
    for t in range(length):
        new, step = gru_step(inputs[t], states[t] @ state_weight, states[t])
        states[t + 1] = new if going is None else np.where(going[t], new, states[t])
        steps.append(step)

    def pullback(dstates: Array) -> tuple[Array, Array, Array, Array]:
        dpast = _in_own_time(dstates.reshape(length, batch, directions, size).swapaxes(1, 2))  # (T, K, B, H)
        dinputs, dhidden = _back_through_time(steps, dpast, state_weight, going)  # (T, K, B, 3H)
        dstate_weight = np.stack([_flat(states[:-1, k]).T @ _flat(dhidden[:, k]) for k in range(directions)])
        dgates = _in_own_time(dinputs).swapaxes(1, 2).reshape(length * batch, -1)  # (T B, K 3H)
        dx = dgates @ input_weight.reshape(len(input_weight), -1).T  # (T B, E)
        dinput_weight = _flat(x).T @ dgates  # (E, K 3H)
        dbias = dgates.sum(axis=0)
        return (
            dx.reshape(x.shape),
            dinput_weight.reshape(input_weight.shape),
            dbias.reshape(bias.shape),
            dstate_weight,
        )

    read = _in_own_time(states[1:]).swapaxes(1, 2)  # (T, B, K, H)
    return np.ascontiguousarray(read).reshape(length, batch, directions * size), pullback


def _project(x: Array, weight: Array, bias: Array) -> Array:
    """Compute what the inputs give to all gates at all times in one product: (T, K, B, 3H)."""
    gates = _flat(x) @ weight.reshape(len(weight), -1)  # (T B, K 3H)
    gates += bias.reshape(-1)
    return _in_own_time(gates.reshape(*x.shape[:2], *bias.shape).swapaxes(1, 2))


def _back_through_time(
    steps: list[Callable[[Array], tuple[Array, Array, Array]]],
    dstates: Array,
    state_weight: Array,
    going: NDArray[np.bool_] | None,
) -> tuple[Array, Array]:
    """Walk back from the last step: gradients of the gates' two halves (T, K, B, 3H)."""
    back = np.ascontiguousarray(state_weight.swapaxes(1, 2))  # (K, 3H, H)
    dinputs = np.empty((*dstates.shape[:-1], 3 * dstates.shape[-1]), dstates.dtype)
    dhidden = np.empty_like(dinputs)
    dstate = np.zeros_like(dstates[:1])[0] if len(dstates) else dstates
    for t in reversed(range(len(steps))):
        dstate = dstate + dstates[t]
        dnew = dstate if going is None else np.where(going[t], dstate, 0)
        dinputs[t], dhidden[t], direct = steps[t](dnew)
        dstate = dstate - dnew
        dstate += dhidden[t] @ back
        dstate += direct
    return dinputs, dhidden


def _going(lengths: NDArray[np.int64] | None, length: int, directions: int) -> NDArray[np.bool_] | None:
    """Say which sequences still go on, at each step in the direction's own time; None if all do."""
    if lengths is None or (lengths == length).all():
        return None
    forwards = np.arange(length)[:, None] < lengths  # (T, B)
    return np.stack([forwards, forwards[::-1]][:directions], axis=1)[..., None]


def _in_own_time(x: Array) -> Array:
    """Copy (T, K, ...) with the second direction's time reversed; done twice, it is as before."""
    turned = np.array(x, order="C")
    turned[:, 1:] = x[::-1, 1:]
    return turned


def _flat(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])
