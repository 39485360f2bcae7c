"""A transformer as two graphs.

Letters: B sentences, R hypotheses, T source positions, n tokens so far, W width, L layers of the decoder.

The state of the decoder is the keys and values of its self-attention, of all layers side by side: (R, n, 2 L W). What
the encoder returns is those of its attention to the source: (B, T, 2 L W).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.export.graph import Graph
from regard.seq2seq.networks.transformer.config import TransformerConfig

__all__ = ["encoder", "step_graph"]

Array = NDArray[Any]

_EPSILON = 1e-5


def encoder(p: Mapping[str, Array], c: TransformerConfig) -> Graph:
    """Return the graph from ids (B, T) and lengths (B,) to the keys and values of the source, and an empty state."""
    g = _Layers(p, c)
    source, lengths = g.input("source", "int64", ("batch", "length")), g.input("lengths", "int64", ("batch",))
    length = g.size(source, 1)
    x = g.embedded("source_embedding", source, g.count(length))
    seen = g.unsqueezed(g.visible(lengths, length), 1, 2)

    def attend(projected: str) -> str:
        return g.attended(g.split(projected, [g.width] * 3), seen)[0]

    for i in range(c.encoder_layers):
        x = g.attention_block(f"encoder_{i}_self_", x, attend)
        x = g.feed_forward_block(f"encoder_{i}_hidden_", x)
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
    x = g.embedded("target_embedding", g.unsqueezed(token, 1), g.size(state, 1))
    before, source = (g.split(value, [g.width] * (2 * c.decoder_layers)) for value in (state, memory))
    new: list[str] = []
    weights = ""
    for i in range(c.decoder_layers):
        own = partial(g.own, before=before[2 * i : 2 * i + 2], new=new)
        x = g.attention_block(f"decoder_{i}_self_", x, own)
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
        self.c, self.width = c, p["target_embedding"].shape[1]
        self.state_size = 2 * c.decoder_layers * self.width

    def embedded(self, table: str, ids: str, positions: str) -> str:
        """Return embeddings (B, T, W) of ids (B, T) at positions (T,); large angles need float64."""
        rows = self.multiply(self.node("Gather", self.parameter(table), ids), self.number(self.width**0.5))
        pairs = np.arange(self.width) // 2
        frequencies = self.constant(10000.0 ** (-2 * pairs / self.width), np.float64)
        phases = self.constant(np.arange(self.width) % 2 * np.pi / 2, np.float64)  # a cosine is a sine, later
        numbers = self.unsqueezed(self.node("Cast", positions, to=11), 1)  # float64
        angles = self.add(self.multiply(numbers, frequencies), phases)
        return self.add(rows, self.node("Cast", self.node("Sin", angles), to=1))

    def mean(self, x: str, axis: int) -> str:
        """Return the mean along an axis, which stays with size 1."""
        return self.node("ReduceMean", x, axes=[axis])

    def normalized(self, x: str, name: str) -> str:
        """Return layer normalization, as opset 13 has no operator for it."""
        centred = self.node("Sub", x, self.mean(x, -1))
        variance = self.mean(self.multiply(centred, centred), -1)
        deviation = self.node("Sqrt", self.add(variance, self.number(_EPSILON)))
        scaled = self.multiply(self.node("Div", centred, deviation), self.parameter(name + "gain"))
        return self.add(scaled, self.parameter(name + "shift"))

    def attention_block(self, name: str, x: str, attend: Callable[[str], str]) -> str:
        """Return ``x + attend(norm(x) @ in) @ out``."""
        context = attend(self.linear((self.normalized(x, name), name + "in")))
        return self.linear((context, name + "out"), added=x)

    def source_block(self, name: str, x: str, source: list[str], seen: str) -> tuple[str, str]:
        """Return the block of attention to the source, and its weights (R, heads, 1, T)."""
        queries = self.linear((self.normalized(x, name), name + "in"))
        context, weights = self.attended([queries, *source], seen)
        return self.linear((context, name + "out"), added=x), weights

    def feed_forward_block(self, name: str, x: str) -> str:
        """Return ``x + relu(norm(x) @ in + in_bias) @ out + out_bias``."""
        inner = self.node("Relu", self.linear((self.normalized(x, name), name + "in"), bias=name + "in_bias"))
        return self.linear((inner, name + "out"), bias=name + "out_bias", added=x)

    def own(self, projected: str, before: list[str], new: list[str]) -> str:
        """Return the self-attention of the newest token (R, 1, W), whose key and value are appended to `new`."""
        query, *rows = self.split(projected, [self.width] * 3)
        keys, values = (self.joined(*pair, axis=1) for pair in zip(before, rows, strict=True))
        new += rows
        return self.attended([query, keys, values])[0]

    def attended(self, projected: Sequence[str], seen: str | None = None) -> tuple[str, str]:
        """Return contexts (B, n, W), and the weights (B, heads, n, T), of queries, keys and values."""
        heads = 0, 0, self.c.heads, self.width // self.c.heads
        q, k, v = (self.reshaped(x, *heads) for x in projected)
        products = self.node("MatMul", self.transposed(q, 0, 2, 1, 3), self.transposed(k, 0, 2, 3, 1))
        logits = self.multiply(products, self.number((self.width / self.c.heads) ** -0.5))
        weights = self.node("Softmax", logits, axis=-1) if seen is None else self.weights(logits, seen)
        context = self.node("MatMul", weights, self.transposed(v, 0, 2, 1, 3))
        return self.reshaped(self.transposed(context, 0, 2, 1, 3), 0, 0, self.width), weights
