"""The encoder: annotations of a source for the decoder to attend to.

Tokens and sequences of vectors are read by recurrent layers in both directions (Bahdanau et al. 2014, 3.2); the
annotations of a set and of a picture have no order (Xu et al. 2015, 3.1).

Letters: T source positions, B sentences, E embedding, H encoder state of one direction, C = 2 H annotation, A attention
size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._einsum import einsum
from regard.nn import dropout, linear, tanh
from regard.seq2seq.networks.padding import Padding
from regard.seq2seq.networks.recurrent.attention import Encoded
from regard.seq2seq.networks.recurrent.cells import SEQUENCES, layer
from regard.seq2seq.networks.recurrent.config import RecurrentConfig

__all__ = ["encode"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Named = dict[str, Array]


def encode(
    p: Mapping[str, Array],
    c: RecurrentConfig,
    source: Ids,
    lengths: Ids,
    rate: float = 0.0,
    rng: np.random.Generator | None = None,
    *,
    keep: bool = True,
) -> tuple[Encoded, Callable[[Encoded], Named]]:
    """Annotate sources.

    `source` (T, B), or array (T, B, F): tokens, or vectors or cells of pictures; time first; `lengths` (B,): the
    length of each source; padding has no influence; `rate`: dropout of the embeddings and of every layer's states;
    `rng`: random numbers for dropout; None outside training; `keep`: whether there will be a backward pass. Returns
    `pullback`: ``pullback(dencoded) -> gradients by parameter name``.
    """
    if c.input.ordered:
        values, final, annotate_back = _read(p, c, source, lengths, rate, rng, keep)
    else:
        values, final, annotate_back = _annotate(p, c, source, lengths, rate, rng)
    summed, start_back = linear(final, p["start_weight"], p["start_bias"])
    start, tanh_back = tanh(summed)  # (B, S)
    keys, keys_back = linear(values, p["key_weight"]) if c.projects_keys else (values, lambda dkeys: (dkeys,))

    def pullback(d: Encoded) -> Named:
        g: Named = {}
        dfinal, g["start_weight"], g["start_bias"] = start_back(tanh_back(d.start)[0])
        dfinal += d.final
        dvalues, *of_keys = keys_back(d.keys)
        if of_keys:
            (g["key_weight"],) = of_keys
        return g | annotate_back(dvalues, d.values, dfinal)

    return Encoded(start, keys, values, final, lengths), pullback


def _read(
    p: Mapping[str, Array],
    c: RecurrentConfig,
    source: Array,
    lengths: Ids,
    rate: float,
    rng: np.random.Generator | None,
    keep: bool,
) -> tuple[Array, Array, Callable[[Array, Array, Array], Named]]:
    """Read a sequence: annotations (B, T, C), and the last states of both directions (B, C)."""
    ends = lengths - 1, np.arange(len(lengths))
    embedded, embed_back = c.input.embed(p, source, ends)  # (T, B, E)
    states, states_back = _layers(p, c, embedded, lengths, rate, rng, keep)  # (T, B, C)
    size = c.encoder
    final = np.concatenate([states[-1, :, :size], states[0, :, size:]], axis=-1)  # (B, C)

    def pullback(dkeys: Array, dvalues: Array, dfinal: Array) -> Named:
        dstates = np.empty_like(states)  # (T, B, C)
        np.add(dkeys.swapaxes(0, 1), dvalues.swapaxes(0, 1), out=dstates)
        dstates[-1, :, :size] += dfinal[:, :size]
        dstates[0, :, size:] += dfinal[:, size:]
        dembedded, of_layers = states_back(dstates)
        return embed_back(dembedded) | of_layers

    return np.ascontiguousarray(states.swapaxes(0, 1)), final, pullback


def _annotate(
    p: Mapping[str, Array],
    c: RecurrentConfig,
    source: Array,
    lengths: Ids,
    rate: float,
    rng: np.random.Generator | None,
) -> tuple[Array, Array, Callable[[Array, Array, Array], Named]]:
    """Annotate a set or a picture: annotations (B, T, C), and the mean of them for each example (B, C)."""
    drop = partial(dropout, rate=rate, rng=rng)
    values, inputs_back = c.input.annotate(p, source, Padding(lengths, len(source)), drop)
    averaging = (np.arange(values.shape[1]) < lengths[:, None]) / lengths[:, None].astype(
        values.dtype
    )  # (B, T)
    final = einsum("bt,btc->bc", averaging, values)

    def pullback(dkeys: Array, dvalues: Array, dfinal: Array) -> Named:
        return inputs_back(dkeys + dvalues + averaging[..., None] * dfinal[:, None])

    return values, final, pullback


def _layers(
    p: Mapping[str, Array],
    c: RecurrentConfig,
    embedded: Array,
    lengths: Ids,
    rate: float,
    rng: np.random.Generator | None,
    keep: bool,
) -> tuple[Array, Callable[[Array], tuple[Array, Named]]]:
    """Read the embeddings (T, B, E) layer by layer: states (T, B, C) of the last one."""
    padded = None if (lengths == len(embedded)).all() else lengths
    states, first_back = dropout(embedded, rate, rng)
    backs = []
    for number in range(c.encoder_depth):
        weights = (p[layer(f"encoder_{part}", number)] for part in ("input", "bias", "state"))
        states, read_back = SEQUENCES[c.cell](states, *weights, lengths=padded, keep=keep)
        states, drop_back = dropout(states, rate, rng)
        backs.append((read_back, drop_back))

    def pullback(dstates: Array) -> tuple[Array, Named]:
        g: Named = {}
        for number in reversed(range(c.encoder_depth)):
            read_back, drop_back = backs[number]
            dstates, *gradients = read_back(drop_back(dstates)[0])
            for part, gradient in zip(("input", "bias", "state"), gradients, strict=True):
                g[layer(f"encoder_{part}", number)] = gradient
        return first_back(dstates)[0], g

    return states, pullback
