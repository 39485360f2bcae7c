"""The encoder: a bidirectional GRU that annotates every word of the source (Bahdanau, Cho and Bengio 2014, 3.2).

Letters: T words of the source, B sentences, E embedding, H encoder state a direction, D decoder state, A hidden size of
the attention's perceptron.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.nn import dropout, embed, gru, linear, tanh

__all__ = ["Encoded", "encode"]

Array = NDArray[Any]
Named = dict[str, Array]


class Encoded(NamedTuple):
    """What the decoder gets to see of some source sentences; their gradients have the same form.

    Parameters
    ----------
    start : array (B, D)
        The decoder's first state.
    keys : array (B, T, A)
        The annotations, projected once for the attention of all steps; (B, T, 0) without attention.
    values : array (B, T, 2 H)
        The annotations.
    final : array (B, 2 H)
        Where both directions end: all that a decoder without attention sees.
    """

    start: Array
    keys: Array
    values: Array
    final: Array


def encode(
    p: Mapping[str, Array],
    source: NDArray[np.int64],
    rates: tuple[float, float],
    rng: np.random.Generator | None,
) -> tuple[Encoded, Callable[[Encoded], Named]]:
    """Annotate source sentences of one length.

    Parameters
    ----------
    p : mapping of str to array
        The model's parameters.
    source : integer array (T, B)
        Words, time first.
    rates : (float, float)
        Dropout of the embeddings and of the annotations.
    rng : numpy.random.Generator or None
        Chance for dropout; None outside training.

    Returns
    -------
    encoded : Encoded
        For the decoder.
    pullback : function
        ``pullback(dencoded) -> gradients by parameter name``.

    Examples
    --------
    >>> from regard.seq2seq.network import Network, Sizes
    >>> p = Network(Sizes(9, 7, embedding=4, encoder=3, decoder=5, attention=2)).parameters
    >>> encoded, _ = encode(p, np.array([[4], [5], [2]]), (0.0, 0.0), None)
    >>> [part.shape for part in encoded]
    [(1, 5), (1, 3, 2), (1, 3, 6), (1, 6)]
    """
    words, embed_back = embed(p["source_embedding"], source)  # (T, B, E)
    words, words_back = dropout(words, rates[0], rng)
    states, gru_back = gru(words, p["encoder_input"], p["encoder_bias"], p["encoder_state"])  # (T, B, 2H)
    states, states_back = dropout(states, rates[1], rng)
    size = states.shape[-1] // 2
    final = np.concatenate([states[-1, :, :size], states[0, :, size:]], axis=-1)  # (B, 2H)
    summed, start_back = linear(final, p["start_weight"], p["start_bias"])
    start, tanh_back = tanh(summed)  # (B, D)
    values = np.ascontiguousarray(states.swapaxes(0, 1))  # (B, T, 2H)
    keys, keys_back = linear(values, p["key_weight"])  # (B, T, A)

    def pullback(d: Encoded) -> Named:
        g: Named = {}
        dfinal, g["start_weight"], g["start_bias"] = start_back(tanh_back(d.start)[0])
        dfinal += d.final
        dvalues, g["key_weight"] = keys_back(d.keys)
        dvalues += d.values
        dstates = np.array(dvalues.swapaxes(0, 1), order="C")  # (T, B, 2H)
        dstates[-1, :, :size] += dfinal[:, :size]
        dstates[0, :, size:] += dfinal[:, size:]
        dwords, g["encoder_input"], g["encoder_bias"], g["encoder_state"] = gru_back(states_back(dstates)[0])
        (g["source_embedding"],) = embed_back(words_back(dwords)[0])
        return g

    return Encoded(start, keys, values, final), pullback
