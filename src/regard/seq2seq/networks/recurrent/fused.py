"""All steps of a decoder of GRUs with additive attention in one call of the library, with gradients.

Attention comes before every recurrent step (Bahdanau, Cho and Bengio 2014, A.1.2 and A.2.2, with the reset gate after
the product), or between the two steps of a conditional GRU (Sennrich et al. 2017, "Nematus", section 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._layout import as_rows
from regard.kernels import recurrence
from regard.kernels.matrix import multiply

__all__ = ["fused_decoder"]

Array = NDArray[Any]


def fused_decoder(
    inputs: Array,
    start: Array,
    keys: Array,
    values: Array,
    query_weight: Array,
    vector: Array,
    context_weight: Array,
    state_weight: Array,
    *second: Array,
    lengths: NDArray[np.int64] | None = None,
) -> tuple[tuple[Array, Array, Array], Callable[..., tuple[Array, ...]]]:
    """Unroll a decoder from its start (B, D) over inputs of the gates (n, B, 3 D), in float32.

    Keys (B, T, A) are projected, values (B, T, C); the weights are (D, A), (A,), (C, 3 D) and (D, 3 D). `second` has
    weight (D, 3 D) and bias (3 D,) of a step after attention, which then reads the context. Positions from `lengths`
    (B,) on have no influence. Returns states (n + 1, B, D), contexts (n, B, C) and weights (n, B, T), and
    ``pullback(dstates (n, B, D), dcontexts, dweights=None)`` to the gradients of the arrays in their order.
    """
    unit = recurrence.SecondGru(*second) if second else None
    attention = recurrence.AdditiveAttention(keys, values, lengths, query_weight, vector, context_weight)
    outputs, back = recurrence.attended_gru(recurrence.Gru(inputs, start, state_weight), attention, unit)

    def pullback(dstates: Array, dcontexts: Array, dweights: Array | None = None) -> tuple[Array, ...]:
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
