"""The transformer: a plain rewriting of the formulas as a second opinion."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from regard import nn
from regard.position import sinusoidal
from regard.seq2seq.corpus.batching import Batch, EncodedPair, collate
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.sources.text.vocabulary import END, PAD, START

TINY = TransformerConfig(
    11, 9, model_size=8, heads=2, feedforward_size=12, encoder_layers=2, decoder_layers=2
)


def make_network(
    config: TransformerConfig = TINY, dtype: Any = np.float64, seed: int = 0
) -> TransformerNetwork:
    """A network with random parameters, none of them 0 or 1."""
    network = TransformerNetwork(config, Parameters(config.shapes(), np.zeros(size(config), dtype)))
    rng = np.random.default_rng(seed)
    network.initialize(rng, np.arange(config.target_tokens))
    network.parameters.flat += 0.1 * rng.standard_normal(network.parameters.flat.shape).astype(dtype)
    return network


def size(config: TransformerConfig) -> int:
    return sum(int(np.prod(shape)) for shape in config.shapes().values())


def batch(links: bool = False) -> Batch:
    """Three pairs of different lengths on both sides."""
    pairs = [
        EncodedPair([4, 9, 5, END], [START, 5, END], frozenset({(1, 0), (2, 0), (3, 1)})),
        EncodedPair([10, END], [START, 8, 4, 6, 7, END], frozenset({(0, 1)})),
        EncodedPair([7, 7, END], [START, 4, END]),
    ]
    return collate(pairs if links else [pair._replace(links=frozenset()) for pair in pairs])


def follow(network: TransformerNetwork, examples: Batch) -> tuple[Any, Any]:
    """Logits (n, B, V) and weights (n, B, T) of each step of forced decoding."""
    steps = network.stepper(examples.source, examples.lengths)
    outputs = [steps(words[:, None]) for words in examples.target[:-1]]
    return np.stack([logits[:, 0] for logits, _ in outputs]), np.stack(
        [weights[:, 0] for _, weights in outputs]
    )


def log_softmax(x: Any) -> Any:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


# ------------------------------------------------------------------------------------------- the second opinion


def norm(p: Any, name: str, x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * p[name + "gain"] + p[
        name + "shift"
    ]


def heads_attend(q: Any, k: Any, v: Any, heads: int, causal: bool = False) -> tuple[Any, Any]:
    """The context (n, W) and the mean of the heads' weights (n, T) for one sentence, head by head."""
    contexts, weights = [], []
    for columns in np.split(np.arange(q.shape[1]), heads):
        scores = q[:, columns] @ k[:, columns].T / np.sqrt(len(columns))
        if causal:
            scores[np.triu_indices(len(scores), 1)] = -np.inf
        weights.append(np.exp(log_softmax(scores)))
        contexts.append(weights[-1] @ v[:, columns])
    return np.concatenate(contexts, axis=1), np.mean(weights, axis=0)


def plain(network: TransformerNetwork, source: Any, target: Any) -> tuple[Any, Any]:
    """Logits (n, V) and the aligned layer's weights (n, T) of one sentence, by the paper's formulas."""
    p, c, w = network.parameters, network.config, network.config.model_size

    def embed(table: str, ids: Any) -> Any:
        return p[table][ids] * np.sqrt(w) + sinusoidal(len(ids), w)

    def self_attention(name: str, x: Any, causal: bool) -> Any:
        q, k, v = np.split(norm(p, name, x) @ p[name + "in"], 3, axis=1)
        return x + heads_attend(q, k, v, c.heads, causal)[0] @ p[name + "out"]

    def feed_forward(name: str, x: Any) -> Any:
        hidden = np.maximum(norm(p, name, x) @ p[name + "in"] + p[name + "in_bias"], 0)
        return x + hidden @ p[name + "out"] + p[name + "out_bias"]

    x = embed("source_embedding", source)
    for i in range(c.encoder_layers):
        x = feed_forward(f"encoder_{i}_hidden_", self_attention(f"encoder_{i}_self_", x, False))
    memory, y, weights = norm(p, "encoder_", x), embed("target_embedding", target), []
    for i in range(c.decoder_layers):
        y, name = self_attention(f"decoder_{i}_self_", y, True), f"decoder_{i}_source_"
        k, v = np.split(memory @ p[name + "keys"], 2, axis=1)
        context, attention = heads_attend(norm(p, name, y) @ p[name + "in"], k, v, c.heads)
        weights.append(attention)
        y = feed_forward(f"decoder_{i}_hidden_", y + context @ p[name + "out"])
    logits = norm(p, "decoder_", y) @ p["target_embedding"].T + p["output_bias"]
    return logits, weights[max(c.decoder_layers - 2, 0)]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_is_the_definition_of_the_paper(layers: int) -> None:
    network = make_network(dataclasses.replace(TINY, encoder_layers=layers, decoder_layers=layers))
    examples = batch()
    logits, weights = follow(network, examples)
    total, words = 0.0, 0
    for b, length in enumerate(examples.lengths):
        n = int((examples.target[:, b] != PAD).sum()) - 1
        expected, attention = plain(network, examples.source[:length, b], examples.target[:n, b])
        np.testing.assert_allclose(logits[:n, b], expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(weights[:n, b, :length], attention, rtol=1e-9, atol=1e-12)
        total -= log_softmax(expected)[np.arange(n), examples.target[1 : n + 1, b]].sum()
        words += n
    assert network.loss(examples)[0] == pytest.approx(total / words, rel=1e-12)


# ----------------------------------------------------------------------------------------------------- training


def test_initial_parameters_predict_the_frequencies() -> None:
    """At first the logits are of variance 1 about the logarithm of how often each word comes."""
    config = TransformerConfig(50, 400, model_size=64, heads=4, feedforward_size=128)
    network = TransformerNetwork(config)
    network.initialize(np.random.default_rng(0), np.full(400, 10))
    logits, _ = network.stepper(np.array([[4], [2]]), np.array([2]))(np.array([[START]]))
    assert 0.7 < logits.std() < 1.3


# -------------------------------------------------------------------------------------------------------- search


def test_a_later_token_has_no_influence_on_earlier_ones() -> None:
    network, examples = make_network(), batch()
    other = examples._replace(target=examples.target.copy())
    other.target[3:] = 8
    np.testing.assert_array_equal(follow(network, other)[0][:3], follow(network, examples)[0][:3])
    assert (follow(network, other)[0][3] != follow(network, examples)[0][3]).all()


def test_selected_hypotheses_are_decoded_as_if_alone() -> None:
    network, examples, rng = make_network(), batch(), np.random.default_rng(1)
    steps = network.stepper(examples.source, examples.lengths, width=3)
    sentences = np.arange(3)
    past = np.zeros((3, 3, 0), int)  # the tokens of each hypothesis
    for step in range(40):  # more than there is room for at first
        words = rng.integers(4, 9, past.shape[:2]) if step else np.full((3, 3), START)
        past = np.concatenate([past, words[..., None]], axis=-1)
        logits, weights = steps(words)
        if step in (0, 3, 7, 39):
            for b, sentence in enumerate(sentences):
                length = examples.lengths[sentence]
                for i in range(past.shape[1]):
                    expected, attention = plain(network, examples.source[:length, sentence], past[b, i])
                    np.testing.assert_allclose(logits[b, i], expected[-1], rtol=1e-8, atol=1e-11)
                    np.testing.assert_allclose(weights[b, i, :length], attention[-1], rtol=1e-8, atol=1e-11)
        parents = rng.integers(0, past.shape[1], (len(past), 2 if step == 5 else past.shape[1]))
        steps.select(parents)
        past = np.take_along_axis(past, parents[..., None], axis=1)
        if step in (2, 4):
            remaining = np.array([2, 0]) if step == 2 else np.array([1])
            steps.keep(remaining)
            sentences, past = sentences[remaining], past[remaining]


# ------------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"heads": 3}, "model_size must be a multiple of heads = 3. Got 8 instead."),
        ({"alignment_layer": 3}, "alignment_layer must be at most decoder_layers = 2. Got 3 instead."),
    ],
)
def test_a_configuration_is_checked(change: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        dataclasses.replace(TINY, **change)
    assert str(caught.value) == text


def test_the_aligned_layer() -> None:
    def aligned(layers: int, chosen: int) -> int:
        return TransformerConfig(4, 4, 4, 1, 4, 1, decoder_layers=layers, alignment_layer=chosen).aligned

    assert [aligned(1, 0), aligned(2, 0), aligned(6, 0), aligned(6, 1), aligned(6, 6)] == [0, 0, 4, 0, 5]


# ------------------------------------------------------------------------------------------------------ learning


@pytest.mark.slow
def test_it_learns_to_reverse() -> None:
    rng = np.random.default_rng(0)
    config = TransformerConfig(
        12, 12, model_size=32, heads=4, feedforward_size=64, encoder_layers=1, decoder_layers=1
    )
    network = TransformerNetwork(config)
    network.initialize(rng, np.ones(12))

    def draw(count: int) -> Batch:
        rows = [rng.integers(4, 12, rng.integers(2, 7)).tolist() for _ in range(count)]
        return collate([EncodedPair([*row, END], [START, *row[::-1], END]) for row in rows])

    adam = nn.Adam(network.parameters.flat)
    gradient = Parameters(config.shapes())
    for step in range(1, 901):
        _, pullback = network.loss(draw(64), LossOptions(dropout=0.0), rng)
        for name, part in pullback(1.0).items():
            gradient[name][...] = part
        adam.step(gradient.flat, 4e-3 * min(step / 100, (901 - step) / 800))
    test = draw(200)
    logits, _ = follow(network, test)
    wrong = (logits.argmax(axis=-1) != test.target[1:]) & (test.target[1:] != PAD)
    assert wrong.mean() < 0.01
