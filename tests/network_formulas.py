"""The formulas of the page of the networks, written down a second time: one example, one step at a time, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import oracle
from numpy.typing import NDArray

from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.transformer.config import TransformerConfig

Array = NDArray[Any]
Weigh = Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(scores: Array) -> Array:
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def norm(x: Array, gain: Array, shift: Array, epsilon: float = 1e-5) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon) * gain + shift)


class Layer:
    """The state of one layer, and an LSTM's cell state."""

    def __init__(self, kind: str, state: Array, cell_state: Array | None = None) -> None:
        self.kind, self.state, self.cell_state = kind, state, cell_state

    def step(self, inputs: Array, state_weight: Array) -> Array:
        hidden = self.state @ state_weight
        if self.kind == "gru":
            reset, update, candidate = np.split(inputs, 3)
            of_reset, of_update, of_candidate = np.split(hidden, 3)
            reset, update = sigmoid(reset + of_reset), sigmoid(update + of_update)
            candidate = np.tanh(candidate + reset * of_candidate)
            self.state = update * self.state + (1 - update) * candidate
        else:
            enter, forget, candidate, output = np.split(inputs + hidden, 4)
            self.cell_state = sigmoid(forget) * self.cell_state + sigmoid(enter) * np.tanh(candidate)
            self.state = sigmoid(output) * np.tanh(self.cell_state)
        return self.state


def recurrent_steps(
    p: dict[str, Array], config: RecurrentConfig, source: Array, tokens: list[int]
) -> tuple[list[Array], list[Array]]:
    annotations, final = recurrent_encoder(p, config, source)
    start = np.tanh(final @ p["start_weight"] + p["start_bias"]).reshape(config.layers, -1, config.decoder)
    layers = [Layer(config.cell, *states) for states in start]
    attention = attention_of(p, config, annotations, final)
    logits, all_weights, readout = [], [], None
    for token in tokens:
        y = p["target_embedding"][token]
        readout, weights = DECODERS[config.style](
            SimpleNamespace(p=p, layers=layers, attention=attention, y=y, readout=readout)
        )
        logits.append(readout @ p["target_embedding"].T + p["output_bias"])
        all_weights.append(weights)
    return logits, all_weights


def recurrent_encoder(p: dict[str, Array], config: RecurrentConfig, source: Array) -> tuple[Array, Array]:
    if isinstance(config.inputs, ImageInput):
        annotations = cells_of_picture(p, config.inputs, source)
        return annotations, annotations.mean(axis=0)
    rows = p["source_embedding"][source] if config.inputs is None else vectors(p, source)
    if not config.input.ordered:
        width = rows.shape[1]
        heads = max([n for n in range(1, width // 32 + 1) if width % n == 0], default=1)
        for block in range(config.encoder_layers or config.layers):
            rows = encoder_layer(p, f"set_{block}_", rows, heads)
        rows = norm(rows, p["set_gain"], p["set_shift"])
        return rows, rows.mean(axis=0)
    for number in range(1, (config.encoder_layers or config.layers) + 1):
        end = "" if number == 1 else f"_{number}"
        both = []
        for direction, order in enumerate((slice(None), slice(None, None, -1))):
            layer = Layer(config.cell, np.zeros(config.encoder), np.zeros(config.encoder))
            weights = [p[f"encoder_{name}{end}"] for name in ("input", "bias", "state")]
            inputs = rows @ weights[0][:, direction] + weights[1][direction]
            states = [layer.step(row, weights[2][direction]) for row in inputs[order]]
            both.append(np.array(states))
        final = np.concatenate([both[0][-1], both[1][-1]])
        rows = np.hstack([both[0], both[1][::-1]])
    return rows, final


def attention_of(
    p: dict[str, Array], config: RecurrentConfig, annotations: Array, final: Array
) -> Callable[[Array], tuple[Array, Array]]:
    """The attention of each step in turn, from its state."""
    steps, m = count(), len(annotations)

    def attention(state: Array) -> tuple[Array, Array]:
        if config.score == "none":
            return final, np.zeros(0)
        scores, window, j = scores_of(p, config, annotations, state), config.window, np.arange(m)
        if config.score == "location":
            scores = np.where(j < config.positions, scores, -np.inf)
        if config.normalize == "local_m":
            scores = np.where(abs(j - next(steps)) <= window, scores, -np.inf)
        if config.normalize == "local_p":
            centre = m * sigmoid(np.tanh(state @ p["position_weight"]) @ p["position_vector"])[0]
            scores = np.where(abs(j - centre) <= window, scores, -np.inf)
            weights = softmax(scores) * np.exp(-2 * (j - centre) ** 2 / window**2)
        else:
            weights = weights_of(config, scores)
        return weights @ annotations, weights

    return attention


def scores_of(p: dict[str, Array], config: RecurrentConfig, annotations: Array, state: Array) -> Array:
    if config.score in ("dot", "general"):
        return np.asarray(annotations @ (state if config.score == "dot" else state @ p["query_weight"]))
    if config.score == "location":
        weights = np.zeros((len(state), max(len(annotations), config.positions)))
        weights[:, : config.positions] = p["location_weight"]
        return np.asarray(state @ weights[:, : len(annotations)])
    query, keys = state @ p["query_weight"], annotations @ p["key_weight"]
    if config.score in ("additive", "concat"):
        return np.asarray(np.tanh(query + keys) @ p["attention_vector"])
    if config.score == "cosine":
        lengths = np.linalg.norm(query) * np.linalg.norm(keys, axis=1)
        return np.asarray(p["attention_sharpness"] * (keys @ query) / lengths)
    root = len(query) ** 0.5
    if config.score == "gaussian":
        return np.asarray(-((keys - query) ** 2).sum(axis=1) / (2 * root))
    return np.asarray(keys @ query / root)


def weights_of(config: RecurrentConfig | TransformerConfig, scores: Array) -> Array:
    """Step 2 of each row, by the oracle."""
    entmax = oracle.softmax if config.alpha == 1 else oracle.entmax(config.alpha)
    rows: dict[str, oracle.Normalize] = {
        "sparsemax": oracle.sparsemax,
        "entmax": entmax,
        "hard": oracle.hard,
        "sigmoid": oracle.sigmoid(),
        "relu": oracle.relu,
    }
    normalize = rows.get(config.normalize, oracle.softmax)
    return np.apply_along_axis(lambda row: np.array(normalize(row.tolist(), (), 0)), -1, scores)


def take_layers(step: SimpleNamespace, extra: Array | float = 0.0) -> Array:
    """Take the step in each layer, and return the state of the last."""
    p = step.p
    below = step.y @ p["decoder_word"] + p["decoder_bias"] + extra
    for number, layer in enumerate(step.layers, 1):
        end = "" if number == 1 else f"_{number}"
        if number > 1:
            below = below @ p["decoder_input" + end] + p["decoder_bias" + end]
        below = layer.step(below, p["decoder_state" + end])
    return below


def read_out(step: SimpleNamespace, top: Array, context: Array) -> Array:
    p = step.p
    summed = top @ p["readout_state"] + p["readout_bias"] + context @ p["readout_context"]
    return np.asarray(np.tanh(summed + (step.y @ p["readout_word"] if "readout_word" in p else 0)))


def bahdanau(step: SimpleNamespace) -> tuple[Array, Array]:
    context, weights = step.attention(step.layers[-1].state)
    top = take_layers(step, context @ step.p["decoder_context"])
    return read_out(step, top, context), weights


def luong(step: SimpleNamespace) -> tuple[Array, Array]:
    fed = step.readout is not None and "decoder_readout" in step.p
    top = take_layers(step, step.readout @ step.p["decoder_readout"] if fed else 0.0)
    context, weights = step.attention(top)
    return read_out(step, top, context), weights


def conditional(step: SimpleNamespace) -> tuple[Array, Array]:
    p = step.p
    context, weights = step.attention(take_layers(step))
    inputs = context @ p["decoder_context"] + p["decoder_bias_after"]
    top = step.layers[-1].step(inputs, p["decoder_state_after"])
    return read_out(step, top, context), weights


DECODERS = {"bahdanau": bahdanau, "luong": luong, "conditional": conditional}


def transformer_steps(
    p: dict[str, Array], config: TransformerConfig, source: Array, tokens: list[int]
) -> tuple[Array, Array]:
    x, weigh = transformer_rows(p, config, source), partial(weights_of, config)
    for i in range(config.encoder_layers):
        x = encoder_layer(p, f"encoder_{i}_", x, config.heads, weigh)
    memory = norm(x, p["encoder_gain"], p["encoder_shift"])
    y = p["target_embedding"][tokens] * config.model_size**0.5 + positions(len(tokens), config.model_size)
    all_weights = []
    for i in range(config.decoder_layers):
        name = f"decoder_{i}_"
        y = self_block(p, name + "self_", y, config.heads, weigh, causal=True)
        y, weights = source_block(p, name + "source_", y, memory, config.heads, weigh)
        y = hidden_block(p, name + "hidden_", y)
        all_weights.append(weights)
    readouts = norm(y, p["decoder_gain"], p["decoder_shift"])
    aligned = config.alignment_layer - 1 if config.alignment_layer else max(config.decoder_layers - 2, 0)
    return readouts @ p["target_embedding"].T + p["output_bias"], all_weights[aligned]


def transformer_rows(p: dict[str, Array], config: TransformerConfig, source: Array) -> Array:
    if isinstance(config.inputs, ImageInput):
        return cells_of_picture(p, config.inputs, source)
    if config.inputs is None:
        return np.asarray(
            p["source_embedding"][source] * config.model_size**0.5 + positions(len(source), config.model_size)
        )
    rows = vectors(p, source)
    return rows + positions(len(source), config.model_size) if "vector_end" in p else rows


def positions(count: int, width: int) -> Array:
    angle = np.arange(count)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(count, width)


def heads_of(
    q: Array, k: Array, v: Array, heads: int, weigh: Weigh = softmax, *, causal: bool = False
) -> tuple[Array, Array]:
    """Return the joined contexts, and the mean of the weights."""
    contexts, all_weights = [], []
    for part in np.split(np.arange(q.shape[1]), heads):
        scores = q[:, part] @ k[:, part].T / len(part) ** 0.5
        if causal:
            scores = np.where(np.tri(len(q), dtype=bool), scores, -np.inf)
        all_weights.append(weigh(scores))
        contexts.append(all_weights[-1] @ v[:, part])
    return np.hstack(contexts), np.mean(all_weights, axis=0)


def normalised(p: dict[str, Array], name: str, x: Array) -> Array:
    return norm(x, p[name + "gain"], p[name + "shift"])


def self_block(
    p: dict[str, Array], name: str, x: Array, heads: int, weigh: Weigh = softmax, *, causal: bool = False
) -> Array:
    q, k, v = np.split(normalised(p, name, x) @ p[name + "in"], 3, axis=1)
    return np.asarray(x + heads_of(q, k, v, heads, weigh, causal=causal)[0] @ p[name + "out"])


def source_block(
    p: dict[str, Array], name: str, x: Array, memory: Array, heads: int, weigh: Weigh
) -> tuple[Array, Array]:
    k, v = np.split(memory @ p[name + "keys"], 2, axis=1)
    context, weights = heads_of(normalised(p, name, x) @ p[name + "in"], k, v, heads, weigh)
    return x + context @ p[name + "out"], weights


def hidden_block(p: dict[str, Array], name: str, x: Array) -> Array:
    inner = np.maximum(normalised(p, name, x) @ p[name + "in"] + p[name + "in_bias"], 0)
    return np.asarray(x + inner @ p[name + "out"] + p[name + "out_bias"])


def encoder_layer(p: dict[str, Array], name: str, x: Array, heads: int, weigh: Weigh = softmax) -> Array:
    return hidden_block(p, name + "hidden_", self_block(p, name + "self_", x, heads, weigh))


def vectors(p: dict[str, Array], source: Array) -> Array:
    rows = norm(source @ p["vector_weight"] + p["vector_bias"], p["vector_gain"], p["vector_shift"])
    if "vector_end" in p:
        rows[-1] += p["vector_end"]
    return rows


def cells_of_picture(p: dict[str, Array], inputs: ImageInput, x: Array) -> Array:
    last = len(inputs.filters) - 1
    for s in range(len(inputs.filters)):
        turn = slice(None, None, -1 if s == last else 1)
        x = stage(p, f"image_{s}_", x[turn, turn], 2)[turn, turn]
    inner = stage(p, "image_inner_", x, 1)
    outer = convolve(inner, p["image_outer_weight"], 1) + p["image_outer_bias"]
    x = norm(x + outer, p["image_outer_gain"], p["image_outer_shift"], 0.03)
    cells = x @ p["image_out_weight"] + p["image_out_bias"] + p["image_rows"][:, None] + p["image_columns"]
    return np.asarray(cells.reshape(-1, cells.shape[-1]))


def stage(p: dict[str, Array], name: str, x: Array, stride: int) -> Array:
    summed = convolve(x, p[name + "weight"], stride) + p[name + "bias"]
    return np.maximum(norm(summed, p[name + "gain"], p[name + "shift"], 0.03), 0)


def convolve(x: Array, weight: Array, stride: int) -> Array:
    k, rows, columns = len(weight), -(-x.shape[0] // stride), -(-x.shape[1] // stride)
    around = np.pad(x, ((k // 2, k), (k // 2, k), (0, 0)))
    y = np.zeros((rows, columns, weight.shape[-1]))
    for r, c, u, v in product(range(rows), range(columns), range(k), range(k)):
        y[r, c] += around[stride * r + u, stride * c + v] @ weight[u, v]
    return y
