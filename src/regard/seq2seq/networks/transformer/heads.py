"""The attention weights of all heads of a transformer, for a sentence and its translation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._display import Displayed
from regard.context import Attention, record
from regard.seq2seq.corpus.batching import source_batch
from regard.seq2seq.networks.padding import Padding
from regard.seq2seq.networks.transformer.layers import no_dropout
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.networks.transformer.stacks import decode, encode

__all__ = ["Heads", "head_weights"]

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
    p, heads, n = network.parameters, network.config.heads, len(target) - 2
    column, length = source_batch([source])
    over, at = Padding(length), Padding(np.array([len(target) - 1]))
    with record() as encoder:
        memory, _ = encode(p, network.config, column, over, no_dropout)
    with record() as decoder:  # one step more than there are tokens: END
        decode(p, np.array(target[:-1]), at, memory, over, no_dropout, heads=heads)
    to_target, to_source = (_stacked(decoder[first::2])[:, :, :n] for first in (0, 1))
    return _stacked(encoder), to_target[..., :n], to_source


def _stacked(layers: Sequence[Attention]) -> Array:
    """Return the weights of the only sentence in all layers (L, h, ...)."""
    return np.stack([layer.weights[0] for layer in layers])
