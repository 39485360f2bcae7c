"""Gated recurrent units: one step, and complete sequences in one or two directions.

The order of the gates is (reset, update, candidate), each of the size H of the state::

    reset, update = sigmoid(inputs + hidden)        the first 2 H of 3 H
    candidate     = tanh(inputs + reset * hidden)   the last H
    new state     = update * state + (1 - update) * candidate

where ``inputs = x @ input_weight + bias`` and ``hidden = state @ state_weight + state_bias``.

The native library, where available, computes complete sequences of float32, in the calling thread.
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
    """Compute one step from the two addends of the gates.

    Parameters
    ----------
    inputs : array (..., 3 H)
        Projected inputs.
    hidden : array (..., 3 H)
        Projected state: ``state @ state_weight``, plus a state bias if there is one.
    state : array (..., H)
        Previous state.

    Returns
    -------
    new : array (..., H)
        New state.
    pullback : function
        ``pullback(dnew) -> (dinputs, dhidden, dstate)``; dstate excludes the path through `hidden`.

    Raises
    ------
    ValueError
        If the shapes don't match.

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
    """Compute all steps of a sequence from projected inputs and an initial state.

    Parameters
    ----------
    inputs : array (n, B, 3 H)
        Projected inputs, for n steps of B sequences.
    start : array (B, H)
        Initial states.
    state_weight : array (H, 3 H)
        Projection of the state to the gates.
    state_bias : array (3 H,), optional
        Added to the projected state, so the reset gate also acts on it.
    lengths : integer array (B,), optional
        Number of steps of each sequence, after which its state no longer changes; n by default.

    Returns
    -------
    states : array (n, B, H)
        States after each step.
    pullback : function
        ``pullback(dstates) -> (dinputs, dstart, dstate_weight)``, and dstate_bias if there is a state bias.

    Raises
    ------
    ValueError
        If shapes or lengths don't match.

    Examples
    --------
    >>> import numpy as np
    >>> states, _ = gru_sequence(np.zeros((3, 1, 3)), np.ones((1, 1)), np.zeros((1, 3)), lengths=[2])
    >>> states.ravel()
    array([0.5 , 0.25, 0.25])
    """
    _check.floats(inputs=inputs, start=start, state_weight=state_weight, state_bias=state_bias)
    _check.dimensions(inputs=(inputs, "(n, B, 3H)"), state_weight=(state_weight, "(H, 3H)"))
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
        _state_weight_gradient(states, start, dhidden, dweight, reverse=False)
        return (dinputs, dstart, dweight, *([] if state_bias is None else [_row_sum(dhidden)]))

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
        Projection of the inputs to the gates of each direction.
    bias : array (K, 3 H)
        Added to the projected inputs.
    state_weight : array (K, H, 3 H)
        Projection of the state of each direction to its gates.
    state_bias : array (K, 3 H), optional
        Added to the projected state, so the reset gate also acts on it.
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
        ``pullback(dstates) -> (dx, dinput_weight, dbias, dstate_weight)``, and dstate_bias if there is a state
        bias.

    Raises
    ------
    ValueError
        If shapes or lengths don't match; from the pullback, if `keep` was False.

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
        layer = recurrence.Gru(inputs[:, :, k], start, state_weight[k], biases[k], counts, reverse=k == 1)
        backs.append(recurrence.gru(layer, states[:, :, k], keep))

    def pullback(dstates: Array) -> tuple[Array, ...]:
        _check.has_intermediates(keep)
        _check.same_shape("dstates", dstates, (length, batch, directions * size))
        dpast = dstates.reshape(states.shape)
        dinputs = np.empty(inputs.shape, dtype)
        dhidden = [backs[k](dpast[:, :, k], dinputs[:, :, k])[0] for k in range(directions)]
        dgates = dinputs.reshape(gates.shape)
        dweights = np.empty_like(state_weight, dtype)
        for k in range(directions):
            _state_weight_gradient(states[:, :, k], start, dhidden[k], dweights[k], reverse=k == 1)
        dweight, dbias = multiply_and_sum(as_rows(x).T, dgates)
        return (
            multiply(dgates, weight.T).reshape(x.shape),
            dweight.reshape(input_weight.shape),
            dbias.reshape(bias.shape),
            dweights,
            *([] if state_bias is None else [np.stack([_row_sum(d) for d in dhidden])]),
        )

    return states.reshape(length, batch, directions * size), pullback


def _state_weight_gradient(states: Array, start: Array, dhidden: Array, out: Array, *, reverse: bool) -> None:
    """Write the gradient (H, 3 H) of the state weight, from the states and the gradients of the projected states."""
    n, first = len(states), slice(-1, None) if reverse else slice(0, 1)
    before, after = (slice(1, n), slice(0, n - 1)) if reverse else (slice(0, n - 1), slice(1, n))
    multiply(as_rows(states[before]).T, as_rows(dhidden[after]), out=out)
    if n and start.any():
        out += start.T @ as_rows(dhidden[first])


def _row_sum(dhidden: Array) -> Array:
    total: Array = as_rows(dhidden).sum(axis=0)
    return total
