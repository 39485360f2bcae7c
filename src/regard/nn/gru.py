"""Gated recurrent units: one step, and a whole sequence in one or two directions.

Gates lie as (reset, update, candidate), each of the state's size H::

    reset, update = sigmoid(inputs + hidden)        the first 2 H of 3 H
    candidate     = tanh(inputs + reset * hidden)   the last H
    new state     = update * state + (1 - update) * candidate

where ``inputs`` comes from outside (``x @ input_weight + bias``) and ``hidden = state @ state_weight + state_bias``.

Whole sequences of float32 are computed by the native library where there is one, in the calling thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import as_rows
from regard.kernels import recurrence
from regard.kernels.matrix import multiply, multiply_and_sum

__all__ = ["gru", "gru_sequence", "gru_step"]

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
        What comes from the state: ``state @ state_weight``, and a state bias where there is one.
    state : array (..., H)
        The state before.

    Returns
    -------
    new : array (..., H)
        The state after.
    pullback : function
        ``pullback(dnew) -> (dinputs, dhidden, dstate)``; dstate leaves out the way through `hidden`.

    Raises
    ------
    ValueError
        If the shapes don't fit each other.

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
    _check.step("state", state, 3, inputs=inputs, hidden=hidden)
    new, back = recurrence.step(inputs, hidden, state)

    def pullback(dnew: Array) -> tuple[Array, Array, Array]:
        _check.same_shape("dnew", dnew, new.shape)
        return back(dnew)

    return new, pullback


def gru_sequence(
    inputs: Array,
    start: Array,
    state_weight: Array,
    state_bias: Array | None = None,
    *,
    lengths: ArrayLike | None = None,
) -> tuple[Array, Callable[[Array], tuple[Array, ...]]]:
    """Take the steps of a sequence, whose inputs to the gates are known, from a given state.

    Parameters
    ----------
    inputs : array (n, B, 3 H)
        What comes from outside, for n steps of B sequences.
    start : array (B, H)
        The states before the first step.
    state_weight : array (H, 3 H)
        From the state to its gates.
    state_bias : array (3 H,), optional
        Added to that, so the reset gate also acts on it.
    lengths : integer array (B,), optional
        Steps of each sequence; after them its state stays what it was. By default all have n.

    Returns
    -------
    states : array (n, B, H)
        The states after each step.
    pullback : function
        ``pullback(dstates) -> (dinputs, dstart, dstate_weight)``, and dstate_bias where there is one.

    Raises
    ------
    ValueError
        If shapes or lengths don't fit.

    Examples
    --------
    >>> import numpy as np
    >>> states, _ = gru_sequence(np.zeros((3, 1, 3)), np.ones((1, 1)), np.zeros((1, 3)), lengths=[2])
    >>> states.ravel()
    array([0.5 , 0.25, 0.25])
    """
    _check.floats(inputs=inputs, start=start, state_weight=state_weight, state_bias=state_bias)
    if inputs.ndim != 3 or state_weight.ndim != 2:
        _check.fail(
            "inputs must be (n, B, 3H) and state_weight (H, 3H). "
            f"Got shapes {inputs.shape} and {state_weight.shape} instead."
        )
    letters = {"n": len(inputs), "B": inputs.shape[1], "H": len(state_weight)}
    _check.shapes(
        letters, inputs=(inputs, "n B 3H"), start=(start, "B H"), state_weight=(state_weight, "H 3H")
    )
    if state_bias is not None:
        _check.shapes(letters, state_bias=(state_bias, "3H"))
    if lengths is not None:
        lengths = _check.lengths(lengths, inputs.shape[1], len(inputs))
    dtype = np.result_type(inputs, start, state_weight, *([] if state_bias is None else [state_bias]))
    states = np.empty((*inputs.shape[:2], len(state_weight)), dtype)
    back = recurrence.gru(recurrence.Gru(inputs, start, state_weight, state_bias, lengths), states)

    def pullback(dstates: Array) -> tuple[Array, ...]:
        _check.floats(dstates=dstates)
        _check.shapes(letters, dstates=(dstates, "n B H"))
        dinputs = np.empty(inputs.shape, states.dtype)
        dhidden, dstart = back(dstates, dinputs)
        dweight = np.empty(state_weight.shape, states.dtype)
        _of_state_weight(states, start, dhidden, dweight, reverse=False)
        return (dinputs, dstart, dweight, *([] if state_bias is None else [_summed(dhidden)]))

    return states, pullback


def gru(
    x: Array,
    input_weight: Array,
    bias: Array,
    state_weight: Array,
    state_bias: Array | None = None,
    *,
    lengths: ArrayLike | None = None,
    keep: bool = True,
) -> tuple[Array, Callable[[Array], tuple[Array, ...]]]:
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
    state_bias : array (K, 3 H), optional
        Added to that, so the reset gate also acts on it.
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
        ``pullback(dstates) -> (dx, dinput_weight, dbias, dstate_weight)``, and dstate_bias where there is one.

    Raises
    ------
    ValueError
        If shapes or lengths don't fit; from the pullback, if nothing was kept for it.

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
    _check.recurrent(3, x, input_weight, bias, state_weight, state_bias)
    length, batch, _ = x.shape
    directions, size, _ = state_weight.shape
    counts = None if lengths is None else _check.lengths(lengths, batch, length)
    if counts is not None:
        x = np.where(np.arange(length)[:, None, None] < counts[:, None], x, 0)
    weight = input_weight.reshape(len(input_weight), bias.size)
    gates = multiply(as_rows(x), weight, bias.reshape(-1))  # (T B, K 3H)
    inputs = gates.reshape(length, batch, directions, 3 * size)
    dtype = np.result_type(gates, state_weight, *([] if state_bias is None else [state_bias]))
    start = np.zeros((batch, size), dtype)
    states = np.empty((length, batch, directions, size), dtype)
    biases = [None] * directions if state_bias is None else state_bias
    backs = []
    for k in range(directions):
        read = recurrence.Gru(inputs[:, :, k], start, state_weight[k], biases[k], counts, reverse=k == 1)
        backs.append(recurrence.gru(read, states[:, :, k], keep))

    def pullback(dstates: Array) -> tuple[Array, ...]:
        _check.kept(keep)
        _check.same_shape("dstates", dstates, (length, batch, directions * size))
        dpast = dstates.reshape(states.shape)
        dinputs = np.empty(inputs.shape, dtype)
        dhidden = [backs[k](dpast[:, :, k], dinputs[:, :, k])[0] for k in range(directions)]
        dgates = dinputs.reshape(gates.shape)
        dweights = np.empty_like(state_weight, dtype)
        for k in range(directions):
            _of_state_weight(states[:, :, k], start, dhidden[k], dweights[k], reverse=k == 1)
        dweight, dbias = multiply_and_sum(as_rows(x).T, dgates)
        return (
            multiply(dgates, weight.T).reshape(x.shape),
            dweight.reshape(input_weight.shape),
            dbias.reshape(bias.shape),
            dweights,
            *([] if state_bias is None else [np.stack([_summed(d) for d in dhidden])]),
        )

    return states.reshape(length, batch, directions * size), pullback


def _of_state_weight(states: Array, start: Array, dhidden: Array, out: Array, *, reverse: bool) -> None:
    """Write the gradient (H, 3 H) from the states after each step and the gradients of the gates' state half."""
    n, first = len(states), slice(-1, None) if reverse else slice(0, 1)
    before, after = (slice(1, n), slice(0, n - 1)) if reverse else (slice(0, n - 1), slice(1, n))
    multiply(as_rows(states[before]).T, as_rows(dhidden[after]), out=out)
    if n and start.any():
        out += start.T @ as_rows(dhidden[first])


def _summed(dhidden: Array) -> Array:
    total: Array = as_rows(dhidden).sum(axis=0)
    return total
