"""The decoder in training: all steps over a batch's targets by teacher forcing, and back.

Letters: n target positions, B sentences, T source positions, E embedding, D decoder state, C annotation, G gates of a
cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.kernels import recurrence
from regard.nn import dropout, embed
from regard.seq2seq.networks.recurrent.attention import Encoded
from regard.seq2seq.networks.recurrent.cells import parts
from regard.seq2seq.networks.recurrent.choices import Choices
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.fused import fused_decoder
from regard.seq2seq.networks.recurrent.ops import Node, Taped
from regard.seq2seq.networks.recurrent.step import Stepped, enter, leave, step

__all__ = ["Decoded", "decode"]

Array = NDArray[Any]
Ids = NDArray[np.int64]
Named = dict[str, Array]


class Decoded(NamedTuple):
    """The decoder's output under teacher forcing.

    `readout` (n, B, E): predicts each next token, by a product with the target embedding; `weights` (n,
    B, T): the attention weights, if they were requested.
    """

    readout: Array
    weights: Array | None


def decode(
    p: Mapping[str, Array],
    c: RecurrentConfig,
    encoded: Encoded,
    tokens: Ids,
    *,
    rates: tuple[float, float] = (0.0, 0.0),
    rng: np.random.Generator | None = None,
    with_weights: bool = False,
    readings: int = 1,
) -> tuple[Decoded, Callable[..., tuple[Encoded, Named]]]:
    """Read the target's tokens, each before the next is predicted (teacher forcing).

    `encoded`: the source sentences; `tokens` (n, B): target tokens, beginning with START; `rates`: dropout of the
    embeddings and of the readout; `rng`: random numbers for dropout; None outside training; `with_weights`: whether
    the attention weights are returned and have a gradient; `readings`: how many readouts there are of each position,
    side by side, each with dropout of its own. Returns `decoded`: readouts (n, readings B, E) and weights;
    `pullback`: ``pullback(dreadout, dweights=None, onto=None) -> (dencoded, gradients by parameter name)``; the
    target embedding's gradient is added to the array `onto` if it is given.
    """
    embedded, embed_back = embed(p["target_embedding"], tokens)  # (n, B, E)
    dropped, embedded_back = dropout(embedded, rates[0], rng)
    draws = c.attends and c.normalize == "hard"
    choices = Choices(rng, tokens.shape[1]) if rng is not None and draws else None
    ops, y = Taped(p, c, encoded, with_weights=with_weights, choices=choices), Node(dropped)
    fused = c.fused and recurrence.native_does(dropped, p["decoder_state"], *encoded[:3])
    readout, weights = (_fused if fused else _unrolled)(ops, c, y)
    repeated = np.tile(readout.value, (1, readings, 1)) if readings > 1 else readout.value
    dropped, dropout_back = dropout(repeated, rates[1], rng)

    def pullback(
        dreadout: Array, dweights: Array | None = None, onto: Array | None = None
    ) -> tuple[Encoded, Named]:
        (dreadout,) = dropout_back(dreadout)
        if readings > 1:
            dreadout = dreadout.reshape(len(tokens), readings, -1, dreadout.shape[-1]).sum(axis=1)
        readout.add(dreadout)
        if weights is not None and dweights is not None:
            weights.add(dweights)
        dencoded, g = ops.backward()
        (g["target_embedding"],) = embed_back(embedded_back(y.summed())[0], onto)
        return dencoded, g

    return Decoded(dropped, weights.value if weights and with_weights else None), pullback


def _unrolled(ops: Taped, c: RecurrentConfig, y: Node) -> tuple[Node, Node | None]:
    """Take all steps one by one: readouts (n, B, E) from embeddings (n, B, E), and weights (n, B, T) if requested."""
    memory: Sequence[Node] = ops.split(ops.start, c.layers * parts(c.cell))
    steps: list[Stepped[Node]] = []
    readouts: list[Node] = []
    for embedding, gates in zip(ops.rows(y), ops.rows(enter(ops, y)), strict=True):
        fed = readouts[-1] if c.feeds and readouts else None
        steps.append(step(ops, c, gates, memory, fed))
        memory = steps[-1].memory
        if c.feeds:
            readouts.append(leave(ops, c, embedding, steps[-1].state, steps[-1].context))
    weights = ops.stack([each.weights for each in steps]) if ops.with_weights else None
    if c.feeds:
        return ops.stack(readouts), weights
    states, contexts = (ops.stack(nodes) for nodes in zip(*(each[1:3] for each in steps), strict=True))
    return leave(ops, c, y, states, contexts), weights


_WEIGHTS = ("query_weight", "attention_vector", "decoder_context", "decoder_state")
_WEIGHTS_AFTER = ("decoder_state_after", "decoder_bias_after")  # of the conditional style's second cell


def _fused(ops: Taped, c: RecurrentConfig, y: Node) -> tuple[Node, Node]:
    """Return the same as `_unrolled`, all steps in one call of the library, several times as fast."""
    names = (*_WEIGHTS, *_WEIGHTS_AFTER) if c.style == "conditional" else _WEIGHTS
    inputs, source = enter(ops, y), ops.source
    (all_states, *others), pull = fused_decoder(
        inputs.value, *source[:3], *(ops.p[name] for name in names), lengths=source.lengths
    )
    states, (contexts, weights) = Node(all_states[1:]), map(Node, others)

    def back(ops: Taped) -> None:
        gradients = pull(states.summed(), contexts.summed(), weights.gradient)
        for node, gradient in zip((inputs, ops.start, ops.keys, ops.values), gradients[:4], strict=True):
            node.add(gradient)
        ops.g |= zip(names, gradients[4:], strict=True)

    ops.tape.append(back)
    return leave(ops, c, y, states, contexts), weights
