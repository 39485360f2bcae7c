"""Long short-term memory: one step, and a whole sequence in one or two directions.

Gates lie as (input, forget, candidate, output), each of the state's size H::

    input, forget, output = sigmoid(inputs + hidden)       the first, the second and the last H of 4 H
    candidate             = tanh(inputs + hidden)          the third H
    new cell              = forget * cell + input * candidate
    new state             = output * tanh(new cell)

where ``inputs`` comes from outside (``x @ input_weight + bias``) and ``hidden = state @ state_weight``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import as_rows

__all__ = ["lstm", "lstm_step"]

Array = NDArray[Any]
Step = Callable[[Array, Array], tuple[Array, Array, Array]]


def lstm_step(inputs: Array, hidden: Array, cell: Array) -> tuple[tuple[Array, Array], Step]:
    """Take one step from the two halves of the gates' sums; the state before comes in by `hidden` alone.

    Parameters
    ----------
    inputs : array (..., 4 H)
        What comes from outside.
    hidden : array (..., 4 H)
        What comes from the state, ``state @ state_weight``.
    cell : array (..., H)
        The cell before.

    Returns
    -------
    new, new_cell : array (..., H)
        State and cell after.
    pullback : function
        ``pullback(dnew, dnew_cell) -> (dinputs, dhidden, dcell)``; the first two are one array.

    Raises
    ------
    ValueError
        If the shapes don't fit each other.

    References
    ----------
    Hochreiter and Schmidhuber 1997, "Long Short-Term Memory"; Gers, Schmidhuber and Cummins 2000, "Learning to
    Forget: Continual Prediction with LSTM", eq. 2 to 9 (the forget gate); without peepholes.

    Examples
    --------
    >>> import numpy as np
    >>> (new, new_cell), _ = lstm_step(np.zeros((1, 4)), np.zeros((1, 4)), np.ones((1, 1)))
    >>> new_cell, bool(np.isclose(new, 0.5 * np.tanh(0.5)).all())
    (array([[0.5]]), True)
    """
    _check.step("cell", cell, 4, inputs=inputs, hidden=hidden)
    size = cell.shape[-1]
    gates = _squash(inputs + hidden, size)
    new_cell = gates[..., size : 2 * size] * cell
    new_cell += gates[..., :size] * gates[..., 2 * size : 3 * size]
    squashed = np.tanh(new_cell)

    def pullback(dnew: Array, dnew_cell: Array) -> tuple[Array, Array, Array]:
        _check.same_shape("dnew", dnew, cell.shape)
        _check.same_shape("dnew_cell", dnew_cell, cell.shape)
        slope = 1 - squashed * squashed
        slope *= gates[..., 3 * size :]
        slope *= dnew
        slope += dnew_cell  # now the whole gradient of the new cell
        dgates = _slopes(gates, size)
        dgates[..., :size] *= gates[..., 2 * size : 3 * size]
        dgates[..., size : 2 * size] *= cell
        dgates[..., 2 * size : 3 * size] *= gates[..., :size]
        dgates.reshape(*cell.shape[:-1], 4, size)[..., :3, :] *= slope[..., None, :]
        dgates[..., 3 * size :] *= squashed
        dgates[..., 3 * size :] *= dnew
        slope *= gates[..., size : 2 * size]
        return dgates, dgates, slope

    return (gates[..., 3 * size :] * squashed, new_cell), pullback


def _squash(x: Array, size: int) -> Array:
    """Return sigmoid, and tanh of the third quarter, written over x: by way of tanh it can't overflow."""
    gated = x[..., : 2 * size], x[..., 3 * size :]
    for part in gated:
        part *= 0.5
    np.tanh(x, out=x)
    for part in gated:
        part += 1
        part *= 0.5
    return x


def _slopes(gates: Array, size: int) -> Array:
    """Return the derivatives of `_squash` by what it gave."""
    slopes = 1 - gates
    slopes[..., : 2 * size] *= gates[..., : 2 * size]
    slopes[..., 2 * size : 3 * size] *= 1 + gates[..., 2 * size : 3 * size]
    slopes[..., 3 * size :] *= gates[..., 3 * size :]
    return slopes


def lstm(
    x: Array,
    input_weight: Array,
    bias: Array,
    state_weight: Array,
    *,
    lengths: ArrayLike | None = None,
    keep: bool = True,
) -> tuple[Array, Callable[[Array], tuple[Array, Array, Array, Array]]]:
    """Read sequences forwards (K = 1), or forwards and backwards (K = 2), starting from states and cells of 0.

    Parameters
    ----------
    x : array (T, B, E)
        T steps of B sequences.
    input_weight : array (E, K, 4 H)
        From the inputs to the gates of each direction.
    bias : array (K, 4 H)
        Added to that.
    state_weight : array (K, H, 4 H)
        From each direction's state to its gates.
    lengths : integer array (B,), optional
        Steps of each sequence; by default all have T. What x holds after them has no influence.
    keep : bool
        Whether there will be a way back, for which several times as much as the states is kept.

    Returns
    -------
    states : array (T, B, K H)
        The states after each step; the backward direction's at t has read steps T - 1 down to t. With `lengths`, that
        direction starts at each sequence's own end; after it, its states are 0, and those of the forward direction
        stay what they were at the end: so step T - 1 has the final states of all sequences.
    pullback : function
        ``pullback(dstates) -> (dx, dinput_weight, dbias, dstate_weight)``.

    Raises
    ------
    ValueError
        If shapes or lengths don't fit; from the pullback, if nothing was kept for it.

    References
    ----------
    Hochreiter and Schmidhuber 1997, "Long Short-Term Memory"; Graves and Schmidhuber 2005, "Framewise phoneme
    classification with bidirectional LSTM".

    Examples
    --------
    >>> import numpy as np
    >>> states, _ = lstm(np.ones((3, 1, 2)), np.ones((2, 2, 4)), np.zeros((2, 4)), np.zeros((2, 1, 4)))
    >>> bool((states[::-1, :, 0] == states[:, :, 1]).all())
    True
    """
    _check.recurrent(4, x, input_weight, bias, state_weight)
    length, batch, _ = x.shape
    directions, size, _ = state_weight.shape
    counts = None if lengths is None else _check.lengths(lengths, batch, length)
    if counts is not None:
        x = np.where(np.arange(length)[:, None, None] < counts[:, None], x, 0)
    inputs = _project(x, input_weight, bias)  # (T, K, B, 4H), each direction in its own order of time
    ended = _ended(counts, length, directions)
    states = np.zeros((length + 1, directions, batch, size), np.result_type(inputs, state_weight))
    cells = np.zeros_like(states[0])
    steps: list[Step] = []
    for t in range(length):
        (new, new_cell), step = lstm_step(inputs[t], states[t] @ state_weight, cells)
        states[t + 1] = new if ended is None else np.where(ended[t], states[t], new)
        cells = new_cell if ended is None else np.where(ended[t], cells, new_cell)
        if keep:
            steps.append(step)

    def pullback(dstates: Array) -> tuple[Array, Array, Array, Array]:
        _check.kept(keep)
        _check.same_shape("dstates", dstates, (length, batch, directions * size))
        dpast = _in_own_time(dstates.reshape(length, batch, directions, size).swapaxes(1, 2))  # (T, K, B, H)
        dgates = _back_through_time(steps, dpast, state_weight, ended)  # (T, K, B, 4H)
        dstate_weight = np.stack(
            [as_rows(states[:-1, k]).T @ as_rows(dgates[:, k]) for k in range(directions)]
        )
        dflat = _in_own_time(dgates).swapaxes(1, 2).reshape(length * batch, bias.size)  # (T B, K 4H)
        dx = dflat @ input_weight.reshape(len(input_weight), bias.size).T  # (T B, E)
        dinput_weight = as_rows(x).T @ dflat  # (E, K 4H)
        return (
            dx.reshape(x.shape),
            dinput_weight.reshape(input_weight.shape),
            dflat.sum(axis=0).reshape(bias.shape),
            dstate_weight,
        )

    read = _in_own_time(states[1:]).swapaxes(1, 2)  # (T, B, K, H)
    return np.ascontiguousarray(read).reshape(length, batch, directions * size), pullback


def _project(x: Array, weight: Array, bias: Array) -> Array:
    """Compute what the inputs give to all gates at all times in one product: (T, K, B, 4H)."""
    gates = as_rows(x) @ weight.reshape(len(weight), bias.size)  # (T B, K 4H)
    gates += bias.reshape(-1)
    return _in_own_time(gates.reshape(*x.shape[:2], *bias.shape).swapaxes(1, 2))


def _ended(counts: NDArray[np.int64] | None, length: int, directions: int) -> NDArray[np.bool_] | None:
    """Say where a sequence is over, in each direction's own order of time: (T, K, B, 1)."""
    if counts is None:
        return None
    ended = np.arange(length)[:, None, None, None] >= counts[:, None]
    return _in_own_time(np.broadcast_to(ended, (length, directions, *ended.shape[2:])))


def _back_through_time(
    steps: list[Step], dstates: Array, state_weight: Array, ended: NDArray[np.bool_] | None
) -> Array:
    """Walk back from the last step: gradients of the gates' sums (T, K, B, 4H)."""
    back = np.ascontiguousarray(state_weight.swapaxes(1, 2))  # (K, 4H, H)
    dtype = np.result_type(dstates, state_weight)
    dgates = np.empty((*dstates.shape[:-1], 4 * dstates.shape[-1]), dtype)
    dstate = np.zeros(dstates.shape[1:], dtype)
    dcell = np.zeros_like(dstate)
    for t in reversed(range(len(steps))):
        dstate += dstates[t]
        if ended is None:
            dgates[t], _, dcell = steps[t](dstate, dcell)
            dstate = dgates[t] @ back
        else:  # what was held goes back as it came; nobody has read the cell behind a sequence's end
            held = dstate * ended[t]
            dgates[t], _, dcell = steps[t](dstate - held, np.where(ended[t], 0, dcell))
            dstate = dgates[t] @ back + held
    return dgates


def _in_own_time(x: Array) -> Array:
    """Copy (T, K, ...) with the second direction's time reversed; done twice, it is as before."""
    turned = np.array(x, order="C")
    turned[:, 1:] = x[::-1, 1:]
    return turned
