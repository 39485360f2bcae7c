"""A recurrent encoder-decoder as two graphs.

The step is that of `networks.recurrent.step`: `GraphOps` has its operations as nodes. The encoder is a node GRU or
LSTM for each layer, since no other operator but Loop and Scan reads a sequence of any length.

Letters: B sentences, R hypotheses, T source positions, E embedding, H encoder state, C = 2 H annotation, D decoder
state, S state of all layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.networks.graph import Graph
from regard.seq2seq.networks.recurrent.cells import GATES, layer, parts
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.step import enter, leave, step

__all__ = ["SCORES", "encoder", "step_graph"]

Array = NDArray[Any]

SCORES = ("additive", "concat", "general", "dot", "scaled_dot", "none")  # those that have nodes

# The gates of a cell in the order of ONNX: update, reset, candidate; input, output, forget, candidate.
_ORDER = {"gru": (1, 0, 2), "lstm": (0, 3, 1, 2)}


def encoder(p: Mapping[str, Array], c: RecurrentConfig) -> Graph:
    """Return the graph from sources and lengths (B,) to annotations, keys and the decoder's first state."""
    g = Graph(p)
    source, lengths = g.sources(c.input.spec)
    rows = c.input.export(g, source, lengths)
    memory, final = _read(g, c, rows, lengths) if c.input.ordered else (rows, _mean(g, rows, lengths))
    memory = memory if c.attends else g.unsqueezed(final, 1)
    g.output("memory", memory, ("batch", "length" if c.attends else 1, 2 * c.encoder))
    if c.projects_keys:
        g.output("keys", g.linear((memory, "key_weight")), ("batch", "length", c.attention))
    start = g.linear((final, "start_weight"), bias="start_bias", squash=True)
    if c.feeds:  # without a readout before, the first step reads zeros
        start = g.joined(start, g.zeros(source, c.embedding))
    g.output("state", start, ("batch", c.state_size + c.feeds * c.embedding))
    return g


def _read(g: Graph, c: RecurrentConfig, rows: str, lengths: str) -> tuple[str, str]:
    """Append the layers that read rows (B, T, E): the states (B, T, C) of the last one, and where it ends (B, C)."""
    rows, counts = g.transposed(rows, 1, 0, 2), g.node("Cast", lengths, to=6)  # time first; int32
    for number in range(c.encoder_depth):
        states, last = _layer(g, c, number, rows, counts)  # (T, 2, B, H), (2, B, H)
        rows = g.reshaped(g.transposed(states, 0, 2, 1, 3), 0, 0, 2 * c.encoder)
    return g.transposed(rows, 1, 0, 2), g.reshaped(g.transposed(last, 1, 0, 2), 0, 2 * c.encoder)


def _mean(g: Graph, rows: str, lengths: str) -> str:
    """Return the mean (B, C) of the rows (B, T, C) before the lengths (B,)."""
    visible, counts = (
        g.node("Cast", x, to=1) for x in (g.visible(lengths, g.size(rows, 1)), g.unsqueezed(lengths, 1))
    )
    return g.squeezed(g.node("MatMul", g.unsqueezed(g.node("Div", visible, counts), 1), rows), 1)


def _layer(g: Graph, c: RecurrentConfig, number: int, rows: str, lengths: str) -> tuple[str, str]:
    """Append a layer that reads rows (T, B, F) in both directions: all states, and the last ones."""
    name = c.cell.upper()
    x, bias, hidden = (
        _reordered(g.p[layer(f"encoder_{part}", number)], c.cell) for part in ("input", "bias", "state")
    )
    weights = [
        g.parameter(layer("encoder_input", number), x.transpose(1, 2, 0)),
        g.parameter(layer("encoder_state", number), hidden.transpose(0, 2, 1)),
        g.parameter(layer("encoder_bias", number), np.concatenate([bias, np.zeros_like(bias)], axis=-1)),
    ]
    options: dict[str, Any] = {"direction": "bidirectional", "hidden_size": c.encoder}
    if c.cell == "gru":
        options["linear_before_reset"] = 1
    states, last, *_ = g.several(2, name, rows, *weights, lengths, **options)
    return states, last


def _reordered(weights: Array, cell: str) -> Array:
    """Return weights (..., G H) with the gates in the order of ONNX."""
    gates = np.split(weights, GATES[cell], axis=-1)
    return np.concatenate([gates[i] for i in _ORDER[cell]], axis=-1)


def step_graph(p: Mapping[str, Array], c: RecurrentConfig) -> Graph:
    """Return the graph of a step: from tokens (R,) and states (R, S) to log-probabilities, states and weights."""
    g = GraphOps(p, c)
    token = g.input("token", "int64", ("rows",))
    sizes = [c.decoder] * (c.layers * parts(c.cell)) + [c.embedding] * c.feeds
    before = g.split(g.input("state", "float32", ("rows", sum(sizes))), sizes)
    g.read_encoder()
    embedding = g.node("Gather", g.parameter("target_embedding"), token)
    fed = before.pop() if c.feeds else None
    done = step(g, c, enter(g, embedding), before, fed)
    readout = leave(g, c, embedding, done.state, done.context)
    g.output("log_probs", g.log_probabilities(readout), ("rows", c.target_tokens))
    g.output("new_state", g.joined(*done.memory, *[readout] * c.feeds), ("rows", sum(sizes)))
    if c.attends:
        g.output("weights", done.weights, ("rows", "length"))
    return g


class GraphOps(Graph):
    """The operations of `networks.recurrent.ops.Ops`; all hypotheses read one source, or each its own."""

    def __init__(self, p: Mapping[str, Array], c: RecurrentConfig) -> None:
        super().__init__(p)
        self.c = c
        self.memory = self.keys = self.seen = ""

    def read_encoder(self) -> None:
        """Declare what the encoder returned."""
        length = "length" if self.c.attends else 1
        self.memory = self.keys = self.input("memory", "float32", ("sentences", length, 2 * self.c.encoder))
        if self.c.projects_keys:
            self.keys = self.input("keys", "float32", ("sentences", "length", self.c.attention))
        if self.c.attends:
            lengths = self.input("lengths", "int64", ("sentences",))
            self.seen = self.visible(lengths, self.size(self.memory, 1))

    def cell(self, inputs: str, hidden: str, *memory: str) -> tuple[str, ...]:
        """Return a layer's memory after a step."""
        state, *cell = memory
        return self._lstm(inputs, hidden, cell[0]) if cell else (self._gru(inputs, hidden, state),)

    def _gru(self, inputs: str, hidden: str, state: str) -> str:
        sizes = [2 * self.c.decoder, self.c.decoder]
        (of_gates, of_candidate), (gates, candidate) = self.split(inputs, sizes), self.split(hidden, sizes)
        both = self.node("Sigmoid", self.add(of_gates, gates))
        reset, update = self.split(both, [self.c.decoder] * 2)
        new = self.node("Tanh", self.add(of_candidate, self.multiply(reset, candidate)))
        return self.add(new, self.multiply(update, self.node("Sub", state, new)))

    def _lstm(self, inputs: str, hidden: str, cell: str) -> tuple[str, str]:
        enter, forget, candidate, leave = self.split(self.add(inputs, hidden), [self.c.decoder] * 4)
        kept = self.multiply(self.node("Sigmoid", forget), cell)
        new = self.add(kept, self.multiply(self.node("Sigmoid", enter), self.node("Tanh", candidate)))
        return self.multiply(self.node("Sigmoid", leave), self.node("Tanh", new)), new

    def attend(self, query: str, predicted: str | None = None) -> tuple[str, str]:
        """Return contexts (R, C) and weights (R, T) of queries (R, ...); without attention, the last states."""
        if not self.c.attends:
            return self.squeezed(self.memory, 1), ""
        weights = self.weights(self._scores(query), self.seen)
        context = self.node("MatMul", self.unsqueezed(weights, 1), self.memory)
        return self.squeezed(context, 1), weights

    def _scores(self, query: str) -> str:
        if self.c.perceptron:
            both = self.node("Tanh", self.add(self.unsqueezed(query, 1), self.keys))
            vector = self.parameter("attention_vector", self.p["attention_vector"][:, None])
            return self.squeezed(self.node("MatMul", both, vector), 2)
        products = self.squeezed(self.node("MatMul", self.keys, self.unsqueezed(query, 2)), 2)
        if self.c.score != "scaled_dot":
            return products
        return self.multiply(products, self.number(self.c.attention**-0.5))
