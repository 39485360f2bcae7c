"""A transformer as two graphs.

Letters: B sentences, R hypotheses, T source positions, n tokens so far, W width, L layers of the decoder.

The state of the decoder is the keys and values of its self-attention, of all layers side by side: (R, n, 2 L W). What
the encoder returns is those of its attention to the source: (B, T, 2 L W).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.networks.graph import Graph
from regard.seq2seq.networks.transformer.config import TransformerConfig

__all__ = ["encoder", "step_graph"]

Array = NDArray[Any]


def encoder(p: Mapping[str, Array], c: TransformerConfig) -> Graph:
    """Return the graph from sources and lengths (B,) to the keys and values of the source, and an empty state."""
    g = _Layers(p, c)
    source, lengths = g.sources(c.input.spec)
    x, length = c.input.export(g, source, lengths, c.model_size**0.5), g.size(source, 1)
    if c.input.ordered:
        x = g.positioned(x, g.count(length))
    visible = g.visible(lengths, length)
    for i in range(c.encoder_layers):
        x = g.encoder_layer(f"encoder_{i}_", x, c.heads, visible)
    memory = g.normalized(x, "encoder_")
    keys = [p[f"decoder_{i}_source_keys"] for i in range(c.decoder_layers)]
    weight = g.parameter("decoder_source_keys", np.concatenate(keys, axis=1))
    g.output("memory", g.node("MatMul", memory, weight), ("batch", "length", g.state_size))
    g.output("state", g.zeros(source, 0, g.state_size), ("batch", "tokens", g.state_size))
    return g


def step_graph(p: Mapping[str, Array], c: TransformerConfig) -> Graph:
    """Return the graph of a step: from tokens (R,) and states to log-probabilities, states and weights."""
    g = _Layers(p, c)
    token = g.input("token", "int64", ("rows",))
    state = g.input("state", "float32", ("rows", "tokens", g.state_size))
    memory = g.input("memory", "float32", ("sentences", "length", g.state_size))
    lengths = g.input("lengths", "int64", ("sentences",))
    seen = g.unsqueezed(g.visible(lengths, g.size(memory, 1)), 1, 2)
    rows = g.embedded("target_embedding", g.unsqueezed(token, 1), c.model_size**0.5)
    x = g.positioned(rows, g.size(state, 1))
    before, source = (g.split(value, [g.width] * (2 * c.decoder_layers)) for value in (state, memory))
    new: list[str] = []
    weights = ""
    for i in range(c.decoder_layers):
        attend = partial(g.own, before=before[2 * i : 2 * i + 2], new=new)
        x = g.attention_block(f"decoder_{i}_self_", x, attend)
        x, of_layer = g.source_block(f"decoder_{i}_source_", x, source[2 * i : 2 * i + 2], seen)
        x = g.feed_forward_block(f"decoder_{i}_hidden_", x)
        weights = of_layer if i == c.aligned else weights
    readout = g.squeezed(g.normalized(x, "decoder_"), 1)
    g.output("log_probs", g.log_probabilities(readout), ("rows", c.target_tokens))
    g.output("new_state", g.joined(state, g.joined(*new), axis=1), ("rows", "tokens_after", g.state_size))
    g.output("weights", g.squeezed(g.mean(weights, 1), 1, 2), ("rows", "length"))
    return g


class _Layers(Graph):
    """The blocks of a transformer, whose rows are (B, T, W)."""

    def __init__(self, p: Mapping[str, Array], c: TransformerConfig) -> None:
        super().__init__(p)
        self.c, self.width = c, c.model_size
        self.state_size = 2 * c.decoder_layers * self.width

    def positioned(self, rows: str, positions: str) -> str:
        """Return rows (B, T, W) with the encoding of their positions (T,) added; large angles need float64."""
        pairs = np.arange(self.width) // 2
        frequencies = self.constant(10000.0 ** (-2 * pairs / self.width), np.float64)
        phases = self.constant(np.arange(self.width) % 2 * np.pi / 2, np.float64)  # a cosine is a sine, later
        numbers = self.unsqueezed(self.node("Cast", positions, to=11), 1)  # float64
        angles = self.add(self.multiply(numbers, frequencies), phases)
        return self.add(rows, self.node("Cast", self.node("Sin", angles), to=1))

    def source_block(self, name: str, x: str, source: list[str], seen: str) -> tuple[str, str]:
        """Return the block of attention to the source, and its weights (R, heads, 1, T)."""
        queries = self.linear((self.normalized(x, name), name + "in"))
        context, weights = self.attended([queries, *source], self.c.heads, self.width, seen)
        return self.linear((context, name + "out"), added=x), weights

    def own(self, projected: str, before: list[str], new: list[str]) -> str:
        """Return the self-attention of the newest token (R, 1, W), whose key and value are appended to `new`."""
        query, *rows = self.split(projected, [self.width] * 3)
        keys, values = (self.joined(*pair, axis=1) for pair in zip(before, rows, strict=True))
        new += rows
        return self.attended([query, keys, values], self.c.heads, self.width)[0]
