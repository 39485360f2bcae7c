"""The two stacks of a transformer: the encoder, and the decoder under teacher forcing.

Letters: N target tokens of a batch, M source tokens, B sentences, T source positions, n target positions, W model size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import mask
from regard.nn import layer_norm, linear
from regard.position import sinusoidal
from regard.seq2seq.corpus.batching import Ids
from regard.seq2seq.networks.inputs.tokens import embed_tokens
from regard.seq2seq.networks.normalizing import normalizer
from regard.seq2seq.networks.padding import Padding
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.layers import (
    Back,
    CrossAttention,
    Drop,
    MultiHeadAttention,
    Named,
    attention_block,
    feed_forward_block,
    self_attention,
)

__all__ = ["decode", "encode", "layers"]

Array = NDArray[Any]


def layers(p: Mapping[str, Array], stack: str) -> list[str]:
    """Return the prefix of the parameter names of each layer.

    `stack`: "encoder" or "decoder".
    """
    count = sum(name.startswith(stack) and name.endswith("self_in") for name in p)
    return [f"{stack}_{i}_" for i in range(count)]


def _embed_source(
    p: Mapping[str, Array], c: TransformerConfig, source: Array, padding: Padding, drop: Drop
) -> tuple[Array, Callable[[Array], Named]]:
    """Embed sources: (M, W), with their positions where these have a meaning."""
    ends = np.cumsum(padding.lengths) - 1
    rows, embed_back = c.input.embed(p, padding.unpad_ids(source), ends, c.model_size**0.5)
    if c.input.ordered:
        _add_positions(rows, padding)
    rows, drop_back = drop(rows)
    return rows, lambda drows: embed_back(drop_back(drows)[0])


def _add_positions(rows: Array, padding: Padding) -> None:
    """Add the sinusoidal encoding of each position to rows (N, W)."""
    rows += sinusoidal(padding.longest, rows.shape[1]).astype(rows.dtype)[padding.position]


def encode(
    p: Mapping[str, Array], c: TransformerConfig, source: Array, padding: Padding, drop: Drop
) -> tuple[Array, Callable[[Array], Named]]:
    """Encode sources.

    `source` (T, B), or array (T, B, F): tokens, or vectors or cells of pictures; time first; `padding`: the positions
    of the M that are not padding; `drop`: dropout. Returns `memory` (M, W): the encoder's output, which the decoder
    attends to; `pullback`: ``pullback(dmemory) -> gradients by name``.

    Vaswani et al. 2017, section 3.1 and 3.4.
    """
    x, source_back = _embed_source(p, c, source, padding, drop)
    visible = mask.lengths(padding.lengths[:, None])
    backs: list[Back] = []
    for layer in layers(p, "encoder"):
        attend = self_attention(MultiHeadAttention(padding, padding, c.heads, visible, normalizer(c)))
        x, self_back = attention_block(p, layer + "self_", x, attend, drop)
        x, feed_forward_back = feed_forward_block(p, layer + "hidden_", x, drop)
        backs += [self_back, feed_forward_back]
    memory, norm_back = layer_norm(x, p["encoder_gain"], p["encoder_shift"])

    def pullback(dmemory: Array) -> Named:
        g: Named = {}
        dx, g["encoder_gain"], g["encoder_shift"] = norm_back(dmemory)
        for back in reversed(backs):
            dx = back(dx, g)
        return g | source_back(dx)

    return memory, pullback


def decode(
    p: Mapping[str, Array],
    c: TransformerConfig,
    ids: Ids,
    padding: Padding,
    memory: Array,
    source_padding: Padding,
    drop: Drop,
    *,
    aligned: int | None = None,
) -> tuple[Array, Array, Callable[[Array, Array | None], tuple[Array, Named]]]:
    """Decode target tokens under teacher forcing: each attends to those before it and to the source.

    `ids` (N,): the tokens, each sentence's from START; `padding`: their positions; `memory` (M, W): the encoder's
    output; `source_padding`: its positions; `drop`: dropout; `aligned`: the layer
    whose cross-attention weights are returned, counted from 0. Returns `readout` (N, W): what each next token is
    predicted from; `weights` (B, n, T): the cross-attention weights of that layer, the mean over its heads; (0, 0, 0)
    without one; `pullback`: ``pullback(dreadout, dweights or None) -> (dmemory, gradients by name)``.

    Vaswani et al. 2017, section 3.1 and 3.4.
    """
    rows, embed_back = embed_tokens(p["target_embedding"], ids, p["target_embedding"].shape[1] ** 0.5)
    _add_positions(rows, padding)
    x, drop_back = drop(rows)
    visible = mask.lengths(source_padding.lengths[:, None])
    cross: list[MultiHeadAttention] = []
    backs: list[Callable[[Array, Array, Named], Array]] = []
    for i, layer in enumerate(layers(p, "decoder")):
        causal = MultiHeadAttention(padding, padding, c.heads, mask.causal(), normalizer(c))
        to_source = (padding, source_padding, c.heads, visible, normalizer(c))
        cross.append(MultiHeadAttention(*to_source, with_weights=i == aligned))
        x, back = _decoder_layer(p, layer, x, memory, (causal, cross[-1]), drop)
        backs.append(back)
    readout, norm_back = layer_norm(x, p["decoder_gain"], p["decoder_shift"])

    def pullback(dreadout: Array, dweights: Array | None) -> tuple[Array, Named]:
        g: Named = {}
        dmemory = np.zeros_like(memory)
        if aligned is not None:
            cross[aligned].dweights = dweights
        dx, g["decoder_gain"], g["decoder_shift"] = norm_back(dreadout)
        for back in reversed(backs):
            dx = back(dx, dmemory, g)
        g["target_embedding"] = embed_back(drop_back(dx)[0])
        return dmemory, g

    return readout, np.zeros((0, 0, 0)) if aligned is None else cross[aligned].weights, pullback


def _decoder_layer(
    p: Mapping[str, Array],
    layer: str,
    x: Array,
    memory: Array,
    attentions: tuple[MultiHeadAttention, MultiHeadAttention],
    drop: Drop,
) -> tuple[Array, Callable[[Array, Array, Named], Array]]:
    """Self-attention, cross-attention and feed-forward; the pullback adds to dmemory."""
    x, self_back = attention_block(p, layer + "self_", x, self_attention(attentions[0]), drop)
    keys, keys_back = linear(memory, p[layer + "source_keys"])
    cross = CrossAttention(attentions[1], keys)
    x, source_back = attention_block(p, layer + "source_", x, cross, drop)
    x, feed_forward_back = feed_forward_block(p, layer + "hidden_", x, drop)

    def pullback(dx: Array, dmemory: Array, g: Named) -> Array:
        dx = source_back(feed_forward_back(dx, g), g)
        from_keys, g[layer + "source_keys"] = keys_back(cross.dkeys)
        dmemory += from_keys
        return self_back(dx, g)

    return x, pullback
