"""The transformer: its steps in a search by its formulas, and its configuration."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from network_formulas import transformer_steps

from regard.seq2seq.corpus.batching import Batch, EncodedPair, collate
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.sources.text.vocabulary import END, START

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


def batch() -> Batch:
    """Three pairs of different lengths on both sides."""
    sources = [4, 9, 5, END], [10, END], [7, 7, END]
    targets = [START, 5, END], [START, 8, 4, 6, 7, END], [START, 4, END]
    return collate([EncodedPair(*each) for each in zip(sources, targets, strict=True)])


def test_initial_parameters_predict_the_frequencies() -> None:
    """At first the logits are of variance 1 about the logarithm of how often each word comes."""
    config = TransformerConfig(50, 400, model_size=64, heads=4, feedforward_size=128)
    network = TransformerNetwork(config)
    network.initialize(np.random.default_rng(0), np.full(400, 10))
    logits, _ = network.stepper(np.array([[4], [2]]), np.array([2]))(np.array([[START]]))
    assert 0.7 < logits.std() < 1.3


# -------------------------------------------------------------------------------------------------------- search


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
                    source = examples.source[:length, sentence]
                    expected, attention = transformer_steps(network.parameters, TINY, source, past[b, i])
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
