"""Long short-term memory: one step, and complete sequences in one or two directions.

The order of the gates is (input, forget, candidate, output), each of the size H of the state::

    input, forget, output = sigmoid(inputs + hidden)       the first, the second and the last H of 4 H
    candidate             = tanh(inputs + hidden)          the third H
    new cell              = forget * cell + input * candidate
    new state             = output * tanh(new cell)

where ``inputs = x @ input_weight + bias`` and ``hidden = state @ state_weight``.
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
    """Compute one step from the two addends of the gates; the previous state enters by `hidden` alone.

    Parameters
    ----------
    inputs : array (..., 4 H)
        Projected inputs.
    hidden : array (..., 4 H)
        Projected state, ``state @ state_weight``.
    cell : array (..., H)
        Previous cell.

    Returns
    -------
    new, new_cell : array (..., H)
        New state and cell.
    pullback : function
        ``pullback(dnew, dnew_cell) -> (dinputs, dhidden, dcell)``; the first two are the same array.

    Raises
    ------
    ValueError
        If the shapes don't match.

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
    gates = _activate(inputs + hidden, size)
    new_cell = gates[..., size : 2 * size] * cell
    new_cell += gates[..., :size] * gates[..., 2 * size : 3 * size]
    squashed = np.tanh(new_cell)

    def pullback(dnew: Array, dnew_cell: Array) -> tuple[Array, Array, Array]:
        _check.same_shape("dnew", dnew, cell.shape)
        _check.same_shape("dnew_cell", dnew_cell, cell.shape)
        slope = 1 - squashed * squashed
        slope *= gates[..., 3 * size :]
        slope *= dnew
        slope += dnew_cell  # now the complete gradient of the new cell
        dgates = _derivatives(gates, size)
        dgates[..., :size] *= gates[..., 2 * size : 3 * size]
        dgates[..., size : 2 * size] *= cell
        dgates[..., 2 * size : 3 * size] *= gates[..., :size]
        dgates.reshape(*cell.shape[:-1], 4, size)[..., :3, :] *= slope[..., None, :]
        dgates[..., 3 * size :] *= squashed
        dgates[..., 3 * size :] *= dnew
        slope *= gates[..., size : 2 * size]
        return dgates, dgates, slope

    return (gates[..., 3 * size :] * squashed, new_cell), pullback


def _activate(x: Array, size: int) -> Array:
    """Overwrite x by its sigmoid, or tanh in the third quarter; a sigmoid computed by tanh cannot overflow."""
    gated = x[..., : 2 * size], x[..., 3 * size :]
    for part in gated:
        part *= 0.5
    np.tanh(x, out=x)
    for part in gated:
        part += 1
        part *= 0.5
    return x


def _derivatives(gates: Array, size: int) -> Array:
    """Return the derivatives of the activations in terms of their values."""
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
        Projection of the inputs to the gates of each direction.
    bias : array (K, 4 H)
        Added to the projected inputs.
    state_weight : array (K, H, 4 H)
        Projection of the state of each direction to its gates.
    lengths : integer array (B,), optional
        Number of steps of each sequence; T by default. Later inputs have no influence.
    keep : bool
        Whether the pullback will be called, which needs several times the memory of the states.

    Returns
    -------
    states : array (T, B, K H)
        States after each step; the state of the backward direction at t has read steps T - 1 down to t. With `lengths`,
        the backward direction starts at the end of each sequence. Behind the end its states are 0, and those of the
        forward direction repeat the last one, so step T - 1 has the final states of all sequences.
    pullback : function
        ``pullback(dstates) -> (dx, dinput_weight, dbias, dstate_weight)``.

    Raises
    ------
    ValueError
        If shapes or lengths don't match; from the pullback, if `keep` was False.

    References
    ----------
    Hochreiter and Schmidhuber 1997, "Long Short-Term Memory"; Gers, Schmidhuber and Cummins 2000, "Learning to Forget:
    Continual Prediction with LSTM".

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
    inputs = _project(x, input_weight, bias)  # (T, K, B, 4H), each direction in the order of its steps
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
        _check.has_intermediates(keep)
        _check.same_shape("dstates", dstates, (length, batch, directions * size))
        dpast = _by_direction(dstates.reshape(length, batch, directions, size).swapaxes(1, 2))  # (T, K, B, H)
        dgates = _back_through_time(steps, dpast, state_weight, ended)  # (T, K, B, 4H)
        dstate_weight = np.stack(
            [as_rows(states[:-1, k]).T @ as_rows(dgates[:, k]) for k in range(directions)]
        )
        dflat = _by_direction(dgates).swapaxes(1, 2).reshape(length * batch, bias.size)  # (T B, K 4H)
        dx = dflat @ input_weight.reshape(len(input_weight), bias.size).T  # (T B, E)
        dinput_weight = as_rows(x).T @ dflat  # (E, K 4H)
        return (
            dx.reshape(x.shape),
            dinput_weight.reshape(input_weight.shape),
            dflat.sum(axis=0).reshape(bias.shape),
            dstate_weight,
        )

    read = _by_direction(states[1:]).swapaxes(1, 2)  # (T, B, K, H)
    return np.ascontiguousarray(read).reshape(length, batch, directions * size), pullback


def _project(x: Array, weight: Array, bias: Array) -> Array:
    """Project the inputs to all gates at all steps in one product: (T, K, B, 4H)."""
    gates = as_rows(x) @ weight.reshape(len(weight), bias.size)  # (T B, K 4H)
    gates += bias.reshape(-1)
    return _by_direction(gates.reshape(*x.shape[:2], *bias.shape).swapaxes(1, 2))


def _ended(counts: NDArray[np.int64] | None, length: int, directions: int) -> NDArray[np.bool_] | None:
    """Return which steps are padding, in the order of each direction's steps: (T, K, B, 1)."""
    if counts is None:
        return None
    ended = np.arange(length)[:, None, None, None] >= counts[:, None]
    return _by_direction(np.broadcast_to(ended, (length, directions, *ended.shape[2:])))


def _back_through_time(
    steps: list[Step], dstates: Array, state_weight: Array, ended: NDArray[np.bool_] | None
) -> Array:
    """Return the gradients of the gates before activation (T, K, B, 4H), by backpropagation through time."""
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
        else:  # padding copies the state; the cell after the end of a sequence is never read
            copied = dstate * ended[t]
            dgates[t], _, dcell = steps[t](dstate - copied, np.where(ended[t], 0, dcell))
            dstate = dgates[t] @ back + copied
    return dgates


def _by_direction(x: Array) -> Array:
    """Copy (T, K, ...) with the steps of the second direction reversed, an involution."""
    reversed_ = np.array(x, order="C")
    reversed_[:, 1:] = x[::-1, 1:]
    return reversed_
