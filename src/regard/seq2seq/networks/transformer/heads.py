"""The attention weights of all heads of a transformer, for a sentence and its translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._display import Displayed
from regard.attribution import contributions
from regard.context import Attention, record
from regard.mask import causal
from regard.nn import layer_norm
from regard.seq2seq.corpus.batching import source_batch
from regard.seq2seq.networks.attended import DecoderAttention, Predicted
from regard.seq2seq.networks.normalizing import normalizer
from regard.seq2seq.networks.padding import Padding, split_heads
from regard.seq2seq.networks.transformer.layers import no_dropout
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.networks.transformer.stacks import decode, encode

__all__ = ["Heads", "head_contributions", "head_steps", "head_weights"]

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Heads(Displayed):
    """Attention weights of all heads: L layers of h heads.

    `source_tokens`: the m tokens of the encoder: the source's, </s>, and those that a model with a memory has
    retrieved. Here and below tokens are without markers of spacing; `previous_tokens`: the n tokens that the decoder
    read: <s>, and all target tokens but the last; `target_tokens`: the n tokens of the translation; `encoder` (L, h,
    m, m): self-attention of the encoder; `decoder` (L, h, n, n): self-attention of the decoder; 0 for later tokens;
    `source` (L, h, n, m): attention of the decoder to the source. The mean over the heads of one layer is the
    translation's alignment.
    """

    source_tokens: tuple[str, ...]
    previous_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    encoder: Array
    decoder: Array
    source: Array

    view = "heads"


def head_weights(
    network: TransformerNetwork, source: Sequence[int] | Array, target: Sequence[int]
) -> tuple[Array, Array, Array]:
    """Return the attention weights of all heads for a sentence and its translation.

    `network`: the network; `source` (m, F): the m ids of the source, END included; or its vectors or cells; `target`:
    the n + 2 ids of the target, from START to END. Returns `encoder`, `decoder`, `source` (L, h, m, m), (L, h, n, n),
    (L, h, n, m): as in `Heads`.
    """
    p, n = network.parameters, len(target) - 2
    column, length = source_batch([source])
    over, at = Padding(length), Padding(np.array([len(target) - 1]))
    with record() as encoder:
        memory, _ = encode(p, network.config, column, over, no_dropout)
    with record() as decoder:  # one step more than there are tokens: END
        decode(p, network.config, np.array(target[:-1]), at, memory, over, no_dropout)
    to_target, to_source = (_stacked(decoder[first::2])[:, :, :n] for first in (0, 1))
    return _stacked(encoder), to_target[..., :n], to_source


def head_contributions(network: TransformerNetwork, source: Sequence[int] | Array, weights: Array) -> Array:
    """Return what each source token contributes to the attention that is the alignment, all heads together (n, m).

    `network`: the network; `source` (m, F): as for `head_weights`; `weights` (h, n, m): of the heads of that layer.
    """
    p, c = network.parameters, network.config
    column, length = source_batch([source])
    memory, _ = encode(p, c, column, Padding(length), no_dropout)
    values = np.split(memory @ p[f"decoder_{c.aligned}_source_keys"], 2, axis=-1)[1]
    projection = p[f"decoder_{c.aligned}_source_out"].reshape(c.heads, -1, c.model_size)
    return contributions(weights, split_heads(values[None], c.heads)[0], projection, joint=True)


def head_steps(
    network: TransformerNetwork,
    source: Sequence[int] | Array,
    before: Sequence[int],
    tokens: tuple[tuple[str, ...], tuple[str, ...]],
    predicted: Predicted,
    *,
    layer: int,
    head: int,
    to_source: bool,
) -> DecoderAttention:
    """Open one head of the decoder at each step of a translation.

    `source` (m, F): the m ids of the source, END included; or its vectors or cells; `before`: the n ids that the
    decoder reads, from START on; `tokens`: names of the keys, and of the n steps; `predicted`: kept; `layer`, `head`:
    counted from 0; `to_source`: whether it is attention to the source, or to the tokens before.
    """
    p, width = network.parameters, network.config.model_size // network.config.heads
    rows, memory, readouts = _read(network, source, before, 3 * layer + 1 + to_source)
    name = f"decoder_{layer}_{'source' if to_source else 'self'}_"
    states, _ = layer_norm(rows, p[f"{name}gain"], p[f"{name}shift"])
    projections = [p[f"{name}in"], p[f"{name}keys"]] if to_source else [p[f"{name}in"]]
    of_heads = np.concatenate(projections, axis=1).reshape(states.shape[1], 3, -1)
    query, key, value = of_heads[..., head * width : (head + 1) * width].swapaxes(0, 1)
    annotations = memory if to_source else states
    return DecoderAttention(
        *tokens,
        states=states,
        query_weight=query,
        keys=annotations @ key,
        values=annotations @ value,
        score="scaled_dot",
        style="transformer",
        annotations=annotations,
        key_weight=key,
        value_weight=value,
        mask=None if to_source else causal(),
        readouts=readouts,
        predicted=predicted,
        normalize=normalizer(network.config),
    )


def _read(
    network: TransformerNetwork, source: Sequence[int] | Array, before: Sequence[int], blocks: int
) -> tuple[Array, Array, Array]:
    """Return the decoder's rows (n, W) after some blocks, the encoder's output (m, W), and the readouts (n, W).

    The embedded tokens count as a block; each layer has three: self-attention, attention to the source, feed-forward.
    """
    added: list[Array] = []

    def keep(rows: Array) -> tuple[Array, Callable[[Array], tuple[Array]]]:
        added.append(rows.copy())  # the rows before the block are added in place
        return no_dropout(rows)

    p, column = network.parameters, source_batch([source])
    over, at = Padding(column[1]), Padding(np.array([len(before)]))
    memory, _ = encode(p, network.config, column[0], over, no_dropout)
    readouts, _, _ = decode(p, network.config, np.array(before), at, memory, over, keep)
    return np.asarray(sum(added[1:blocks], start=added[0])), memory, readouts


def _stacked(layers: Sequence[Attention]) -> Array:
    """Return the weights of the only sentence in all layers (L, h, ...)."""
    return np.stack([layer.weights[0] for layer in layers])
