"""The loss of networks with the distributions of teachers: by hand, its gradient, and its laws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from losses import loss_of

from regard import nn
from regard.seq2seq.corpus.batching import Corpus, EncodedPair, SoftTargets, collate
from regard.seq2seq.decoding.forced import distributions
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.sources.text.vocabulary import END, PAD, START

TOKENS = 11
SIZES = {"embedding": 4, "encoder": 3, "decoder": 5, "attention": 3}
CONFIGS: dict[str, Any] = {
    "recurrent": RecurrentConfig(9, TOKENS, **SIZES),
    "luong": RecurrentConfig(9, TOKENS, **SIZES, style="luong"),
    "transformer": TransformerConfig(
        9, TOKENS, model_size=4, heads=2, feedforward_size=6, encoder_layers=1, decoder_layers=1
    ),
}
PAIRS = [
    ([4, 7, 5, END], [START, 5, END]),
    ([8, END], [START, 8, 4, 6, 7, END]),
    ([7, 7, END], [START, 4, END]),
]
every_network = pytest.mark.parametrize("name", CONFIGS)


def make_network(name: str, seed: int = 0, tokens: int = TOKENS) -> Any:
    config = replace(CONFIGS[name], target_tokens=tokens)
    flat = np.random.default_rng(seed).normal(size=Parameters(config.shapes()).flat.size) * 0.4
    return build(config, Parameters(config.shapes(), flat))


def soft_pairs(kept: int, tokens: int = TOKENS) -> list[EncodedPair]:
    """Pairs with random distributions of some tokens."""
    rng = np.random.default_rng(3)
    soft = []
    for _, target in PAIRS:
        logs = -np.sort(rng.random((len(target) - 1, kept)) * 3).astype(np.float32)
        soft.append(SoftTargets(np.array([rng.permutation(tokens)[:kept] for _ in logs]), logs))
    return [EncodedPair(*pair, soft=one) for pair, one in zip(PAIRS, soft, strict=True)]


def one_hot(pairs: Any = PAIRS, kept: int = 2) -> list[EncodedPair]:
    """Pairs whose distributions are their own targets."""
    made = []
    for source, target in pairs:
        tokens, logs = (
            np.zeros((len(target) - 1, kept), int),
            np.full((len(target) - 1, kept), -np.inf, np.float32),
        )
        tokens[:, 0], logs[:, 0] = target[1:], 0
        made.append(EncodedPair(source, target, soft=SoftTargets(tokens, logs)))
    return made


def logits_of(network: Any, pairs: list[EncodedPair]) -> list[Any]:
    """The logits before each token of the targets, from the steps of a search."""
    found = []
    for pair in pairs:
        stepper = network.stepper(np.array(pair.source)[:, None], np.array([len(pair.source)]))
        found.append(np.array([stepper(np.array([[token]]))[0][0, 0] for token in pair.target[:-1]]))
    return found


def log_softmax(logits: Any) -> Any:
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


@every_network
@pytest.mark.parametrize(("weight", "temperature"), [(1.0, 1.0), (0.3, 1.0), (0.7, 2.5)])
def test_the_loss_by_hand(name: str, weight: float, temperature: float) -> None:
    network, pairs = make_network(name), soft_pairs(4)
    hard = soft = 0.0
    for pair, logits in zip(pairs, logits_of(network, pairs), strict=True):
        assert pair.soft is not None
        powers = np.exp(np.asarray(pair.soft.log_probabilities, float) / temperature)
        powers /= powers.sum(axis=1, keepdims=True)
        student = np.take_along_axis(log_softmax(logits / temperature), pair.soft.tokens, axis=1)
        soft -= temperature**2 * (powers * student).sum()
        hard -= log_softmax(logits)[np.arange(len(logits)), pair.target[1:]].sum()
    count = sum(len(pair.target) - 1 for pair in pairs)
    loss, _ = network.loss(collate(pairs), soft_weight=weight, temperature=temperature)
    assert loss == pytest.approx(((1 - weight) * hard + weight * soft) / count, rel=1e-6)


@every_network
@pytest.mark.parametrize("rdrop", [0.0, 0.7])
def test_the_gradient(name: str, rdrop: float) -> None:
    network = make_network(name)
    how = {"dropout": 0.2, "label_smoothing": 0.1, "rdrop": rdrop, "soft_weight": 0.6, "temperature": 2.0}
    arrays = [array.copy() for array in network.parameters.values()]
    loss = loss_of(network.config, collate(soft_pairs(3)), **how)
    assert nn.check_gradients(loss, arrays, directions=1) < 1e-7


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_gradient_of_a_sampled_softmax(temperature: float) -> None:
    network = make_network("recurrent", tokens=2400)
    batch = collate(soft_pairs(3, tokens=2400))
    arrays = [array.copy() for array in network.parameters.values()]
    loss = loss_of(network.config, batch, soft_weight=0.6, temperature=temperature)
    assert nn.check_gradients(loss, arrays, directions=1) < 1e-7


@every_network
@pytest.mark.parametrize("weight", [0.5, 1.0])
def test_distributions_that_are_targets_are_ordinary_training(name: str, weight: float) -> None:
    network = make_network(name)
    plain, soft = collate([pair._replace(soft=None) for pair in one_hot()]), collate(one_hot())
    (loss, back), (other, other_back) = network.loss(plain), network.loss(soft, soft_weight=weight)
    assert other == pytest.approx(loss, rel=1e-12)
    for parameter, gradient in back(1.0).items():
        np.testing.assert_allclose(other_back(1.0)[parameter], gradient, rtol=1e-9, atol=1e-13)
        break
    again = network.loss(soft, soft_weight=weight)[1](1.0)
    for parameter, gradient in network.loss(plain)[1](1.0).items():
        np.testing.assert_allclose(again[parameter], gradient, rtol=1e-9, atol=1e-13)


@every_network
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_a_student_that_predicts_as_its_teacher_has_no_gradient(name: str, temperature: float) -> None:
    network = make_network(name)
    pairs = []
    for pair, logits in zip(soft_pairs(1), logits_of(network, soft_pairs(1)), strict=True):
        order = np.argsort(-logits, axis=1)
        logs = np.take_along_axis(log_softmax(logits), order, axis=1)
        pairs.append(pair._replace(soft=SoftTargets(order, logs)))
    batch = collate(pairs)
    soft = batch.soft
    assert soft is not None
    exact = soft._replace(log_probabilities=soft.log_probabilities.astype(float))
    _, pullback = network.loss(batch._replace(soft=exact), soft_weight=1.0, temperature=temperature)
    largest = max(np.abs(gradient).max() for gradient in pullback(1.0).values())
    _, pullback = network.loss(batch, soft_weight=0.0)
    assert largest < 1e-6 * max(np.abs(gradient).max() for gradient in pullback(1.0).values())


@every_network
def test_distributions_without_a_weight_have_no_influence(name: str) -> None:
    network = make_network(name)
    plain = collate([pair._replace(soft=None) for pair in soft_pairs(3)])
    assert network.loss(collate(soft_pairs(3)))[0] == network.loss(plain)[0]


@pytest.mark.parametrize("kept", [1, 4, 8])
@every_network
def test_the_most_probable_tokens_of_a_network(name: str, kept: int) -> None:
    network, pairs = make_network(name), soft_pairs(1)
    batch = collate(pairs)
    found = distributions(network, batch.source, batch.lengths, batch.target, kept)
    for (tokens, logs), logits in zip(found, logits_of(network, pairs), strict=True):
        known = log_softmax(logits)[:, END:]  # neither PAD nor START
        order = np.argsort(-known, axis=1)[:, :kept]
        np.testing.assert_array_equal(tokens, order + END)
        np.testing.assert_allclose(logs, np.take_along_axis(known, order, axis=1), rtol=1e-5)


def test_powers_are_those_of_a_temperature() -> None:
    soft = SoftTargets(np.array([[5, 6, 7]]), np.log(np.array([[0.64, 0.16, 0.04]])))
    np.testing.assert_allclose(soft.probabilities(), [[16 / 21, 4 / 21, 1 / 21]])
    np.testing.assert_allclose(soft.probabilities(2.0), [[4 / 7, 2 / 7, 1 / 7]])


def test_a_corpus_and_the_parts_of_a_batch_keep_distributions() -> None:
    pairs = soft_pairs(3)
    corpus = Corpus(iter(pairs))
    for pair, own in zip(pairs, corpus, strict=True):
        assert pair.soft is not None
        assert own.soft is not None
        np.testing.assert_array_equal(own.soft.tokens, pair.soft.tokens)
        np.testing.assert_array_equal(own.soft.log_probabilities, pair.soft.log_probabilities)
    whole = corpus.batch(range(3))
    for part, numbers in ((slice(0, None, 2), [0, 2]), (slice(1, None, 2), [1])):
        expected, got = collate([pairs[i] for i in numbers]).soft, whole.part(part).soft
        assert expected is not None
        assert got is not None
        np.testing.assert_array_equal(got.tokens, expected.tokens)
        np.testing.assert_array_equal(got.log_probabilities, expected.log_probabilities)
    twice = whole.twice()
    assert twice.soft is not None
    assert whole.soft is not None
    np.testing.assert_array_equal(twice.soft.tokens[:, 3:], whole.soft.tokens)
    assert (whole.soft.tokens[2:, 0] == PAD).all()
