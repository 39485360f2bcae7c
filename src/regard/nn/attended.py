"""GRU decoders with attention: one attention step before every recurrent step, or in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._layout import as_rows
from regard.kernels import recurrence
from regard.kernels.matrix import multiply

__all__ = ["attended_gru", "conditional_gru"]

Array = NDArray[Any]


def attended_gru(
    inputs: Array,
    start: Array,
    keys: Array,
    values: Array,
    query_weight: Array,
    vector: Array,
    context_weight: Array,
    state_weight: Array,
    *,
    lengths: ArrayLike | None = None,
) -> tuple[tuple[Array, Array, Array], Callable[..., tuple[Array, ...]]]:
    """Unroll a decoder that attends before each of its steps; the context is an input of the gates.

    ::

        scores_j = vector . tanh(state @ query_weight + keys_j)          weights = softmax(scores)
        context  = sum_j weights_j values_j
        state    = gru_step(inputs + context @ context_weight, state @ state_weight, state)

    Parameters
    ----------
    inputs : array (n, B, 3 D)
        Inputs of the gates, for n steps of B sequences.
    start : array (B, D)
        States before the first step.
    keys : array (B, T, A)
        Projected keys of T positions.
    values : array (B, T, C)
        Values of the T positions.
    query_weight : array (D, A)
        Projection of the state to the query.
    vector : array (A,)
        Output weights of the score.
    context_weight : array (C, 3 D)
        Projection of the context to the gates.
    state_weight : array (D, 3 D)
        Projection of the state to the gates.
    lengths : integer array (B,), optional
        Number of visible positions of each sequence; T by default. Later positions have no influence.

    Returns
    -------
    (states, contexts, weights) : arrays (n + 1, B, D), (n, B, C), (n, B, T)
        States from `start` on; context and attention weights of each step, 0 where a length is 0.
    pullback : function
        ``pullback(dstates (n, B, D), dcontexts, dweights=None)`` returns the gradients of the eight arrays, in the
        order of the arguments; dstates is the gradient of ``states[1:]``.

    Raises
    ------
    ValueError
        If shapes or lengths don't match.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, "Neural Machine Translation by Jointly Learning to Align and Translate", A.1.2 and
    A.2.2, with the reset gate after the product.

    Examples
    --------
    >>> import numpy as np
    >>> keys, values = np.array([[[0.0], [0.0], [9.0]]]), np.array([[[2.0], [4.0], [9.0]]])
    >>> weights = np.ones((1, 1)), np.ones(1), np.zeros((1, 3)), np.zeros((1, 3))
    >>> outputs, _ = attended_gru(np.zeros((2, 1, 3)), np.ones((1, 1)), keys, values, *weights, lengths=[2])
    >>> [x.ravel().tolist() for x in outputs]
    [[1.0, 0.5, 0.25], [3.0, 3.0], [0.5, 0.5, 0.0, 0.5, 0.5, 0.0]]
    """
    arrays = inputs, start, keys, values, query_weight, vector, context_weight, state_weight
    return _unrolled([np.asarray(x) for x in arrays], lengths)


def conditional_gru(
    inputs: Array,
    start: Array,
    keys: Array,
    values: Array,
    query_weight: Array,
    vector: Array,
    context_weight: Array,
    state_weight: Array,
    after_weight: Array,
    after_bias: Array,
    *,
    lengths: ArrayLike | None = None,
) -> tuple[tuple[Array, Array, Array], Callable[..., tuple[Array, ...]]]:
    """Unroll a decoder with two GRU steps per token, and an attention step between them.

    ::

        between  = gru_step(inputs, state @ state_weight, state)
        scores_j = vector . tanh(between @ query_weight + keys_j)        weights = softmax(scores)
        context  = sum_j weights_j values_j
        state    = gru_step(context @ context_weight + after_bias, between @ after_weight, between)

    Parameters
    ----------
    inputs, start, keys, values, query_weight, vector : array
        As in `attended_gru`.
    context_weight : array (C, 3 D)
        Projection of the context to the gates of the second step.
    state_weight, after_weight : array (D, 3 D)
        Projection of the state to the gates of each step.
    after_bias : array (3 D,)
        Bias of the gates of the second step.
    lengths : integer array (B,), optional
        Number of visible positions of each sequence; T by default. Later positions have no influence.

    Returns
    -------
    (states, contexts, weights) : arrays (n + 1, B, D), (n, B, C), (n, B, T)
        As in `attended_gru`.
    pullback : function
        ``pullback(dstates (n, B, D), dcontexts, dweights=None)`` returns the gradients of the ten arrays, in the
        order of the arguments.

    Raises
    ------
    ValueError
        If shapes or lengths don't match.

    References
    ----------
    Sennrich et al. 2017, "Nematus: a Toolkit for Neural Machine Translation", section 3.

    Examples
    --------
    >>> import numpy as np
    >>> keys, values = np.array([[[0.0], [0.0], [9.0]]]), np.array([[[2.0], [4.0], [9.0]]])
    >>> weights = np.ones((1, 1)), np.ones(1), np.zeros((1, 3)), np.zeros((1, 3)), np.zeros((1, 3)), np.zeros(3)
    >>> outputs, _ = conditional_gru(np.zeros((1, 1, 3)), np.ones((1, 1)), keys, values, *weights, lengths=[2])
    >>> [x.ravel().tolist() for x in outputs]
    [[1.0, 0.25], [3.0], [0.5, 0.5, 0.0]]
    """
    arrays = (
        inputs,
        start,
        keys,
        values,
        query_weight,
        vector,
        context_weight,
        state_weight,
        after_weight,
        after_bias,
    )
    return _unrolled([np.asarray(x) for x in arrays], lengths)


def _unrolled(
    arrays: list[Array], lengths: ArrayLike | None
) -> tuple[tuple[Array, Array, Array], Callable[..., tuple[Array, ...]]]:
    inputs, start, keys, values, query_weight, vector, context_weight, state_weight, *second = arrays
    _check_attended(*arrays)
    (n, batch, _), (_, positions, width) = inputs.shape, values.shape
    counts = None if lengths is None else _check.lengths(lengths, batch, positions)
    unit = recurrence.SecondGru(*second) if second else None
    attention = recurrence.AdditiveAttention(keys, values, counts, query_weight, vector, context_weight)
    outputs, back = recurrence.attended_gru(recurrence.Gru(inputs, start, state_weight), attention, unit)

    def pullback(dstates: Array, dcontexts: Array, dweights: Array | None = None) -> tuple[Array, ...]:
        letters = {"n": n, "B": batch, "D": start.shape[1], "T": positions, "C": width}
        _check.floats(dstates=dstates, dcontexts=dcontexts, dweights=dweights)
        _check.shapes(letters, dstates=(dstates, "n B D"), dcontexts=(dcontexts, "n B C"))
        if dweights is not None:
            _check.shapes(letters, dweights=(dweights, "n B T"))
        d = back(dstates, dcontexts, dweights)
        queries = as_rows(outputs.query_states)
        gradients = (
            d.dinputs,
            d.dstart,
            d.dkeys,
            d.dvalues,
            multiply(queries.T, as_rows(d.dqueries)),
            d.dvector,
            multiply(as_rows(outputs.contexts).T, as_rows(d.dsecond)),
            multiply(as_rows(outputs.states[:-1]).T, as_rows(d.dhidden)),
        )
        if unit is None:
            return gradients
        return *gradients, multiply(queries.T, as_rows(d.dsecond_hidden)), as_rows(d.dsecond).sum(axis=0)

    return (outputs.states, outputs.contexts, outputs.weights), pullback


def _check_attended(
    inputs: Array,
    start: Array,
    keys: Array,
    values: Array,
    query_weight: Array,
    vector: Array,
    context_weight: Array,
    state_weight: Array,
    after_weight: Array | None = None,
    after_bias: Array | None = None,
) -> None:
    _check.floats(
        inputs=inputs, start=start, keys=keys, values=values, query_weight=query_weight, vector=vector
    )
    _check.floats(context_weight=context_weight, state_weight=state_weight)
    _check.floats(after_weight=after_weight, after_bias=after_bias)
    if inputs.ndim != 3 or keys.ndim != 3 or values.ndim != 3 or state_weight.ndim != 2:
        _check.fail(
            "inputs must be (n, B, 3D), keys (B, T, A), values (B, T, C) and state_weight (D, 3D). Got shapes "
            f"{inputs.shape}, {keys.shape}, {values.shape} and {state_weight.shape} instead."
        )
    (n, batch, _), (_, positions, width), size = inputs.shape, values.shape, len(state_weight)
    letters = {"n": n, "B": batch, "D": size, "T": positions, "A": keys.shape[2], "C": width}
    _check.shapes(
        letters,
        inputs=(inputs, "n B 3D"),
        start=(start, "B D"),
        keys=(keys, "B T A"),
        values=(values, "B T C"),
        query_weight=(query_weight, "D A"),
        vector=(vector, "A"),
        context_weight=(context_weight, "C 3D"),
        state_weight=(state_weight, "D 3D"),
    )
    if after_weight is not None and after_bias is not None:
        _check.shapes(letters, after_weight=(after_weight, "D 3D"), after_bias=(after_bias, "3D"))
