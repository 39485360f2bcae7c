"""The recurrent networks: their equations, sampled softmax, and what a network of the library shares with NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
from losses import loss_of
from network_cases import STYLES

from regard import nn
from regard.context import record
from regard.seq2seq.corpus.batching import EncodedPair, collate, source_batch
from regard.seq2seq.networks import top_tokens as ranking
from regard.seq2seq.networks.families import describe, read_config
from regard.seq2seq.networks.output_layer import (
    alignment_loss,
    prediction_loss,
    sampled_vocabulary,
)
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.encoder import encode
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.recurrent.ops import Forward
from regard.seq2seq.networks.recurrent.step import top
from regard.seq2seq.networks.recurrent.stepper import RecurrentStepper, recurrent_stepper

PAIRS = [
    EncodedPair([5, 6, 7, 2], [1, 5, 6, 2], frozenset({(0, 0), (2, 1), (1, 1)})),
    EncodedPair([4, 8, 2], [1, 7, 10, 8, 2], frozenset({(1, 0), (0, 2)})),
    EncodedPair([2], [1, 2]),
]


def make_network(options: dict[str, Any], dtype: Any = np.float64) -> RecurrentNetwork:
    sizes = {"embedding": 4, "encoder": 3, "decoder": 5, "attention": 3}
    config = RecurrentConfig(9, 11, **{**sizes, **options})
    flat = np.random.default_rng(2).normal(size=Parameters(config.shapes()).flat.size) * 0.5
    return RecurrentNetwork(config, Parameters(config.shapes(), flat.astype(dtype)))


@pytest.mark.parametrize("rdrop", [0.0, 2.0])
def test_the_gradient_of_a_sampled_softmax(rdrop: float) -> None:
    config = RecurrentConfig(9, 2400, embedding=2, encoder=3, decoder=5, attention=3)
    flat = np.random.default_rng(2).normal(size=Parameters(config.shapes()).flat.size) * 0.5
    parameters = Parameters(config.shapes(), flat)
    batch = collate(PAIRS)
    ids, _ = sampled_vocabulary(batch.target[batch.target > 0], 2400, np.random.default_rng(1))
    assert len(ids) < 1200
    loss = loss_of(config, batch, dropout=0.2, rdrop=rdrop)
    assert nn.check_gradients(loss, [array.copy() for array in parameters.values()], directions=1) < 1e-7


def test_guided_alignment_by_hand() -> None:
    weights = np.array([[[0.5, 0.5]], [[0.25, 0.75]]])
    links = np.array([[[0.0, 0.0]], [[0.5, 0.5]]])  # the first row has no links
    loss, pullback = alignment_loss(weights, links, 2.0)
    assert loss == pytest.approx(-2 * (0.5 * np.log(0.25) + 0.5 * np.log(0.75)))
    gradient = pullback(1.0)
    assert gradient is not None
    np.testing.assert_allclose(gradient, [[[0, 0]], [[-4.0, -4 / 3]]], rtol=1e-6)
    assert alignment_loss(None, None, 1.0)[1](1.0) is None
    assert np.isfinite(alignment_loss(np.array([[[0.0, 1.0]]]), np.array([[[1.0, 0.0]]]), 1.0)[0])


def test_predict_counts_real_tokens_only() -> None:
    p = {"target_embedding": np.eye(5, 3), "output_bias": np.zeros(5)}
    readout = np.random.default_rng(0).normal(size=(2, 2, 3))
    following = np.array([[4, 3], [2, 0]])
    loss, pullback = prediction_loss(p, readout, following)
    logits = readout @ p["target_embedding"].T
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    assert loss == pytest.approx(-(logs[0, 0, 4] + logs[0, 1, 3] + logs[1, 0, 2]) / 3)
    assert (pullback(1.0)[0][1, 1] == 0).all()


def test_rdrop_by_hand() -> None:
    p = {"target_embedding": np.eye(5, 3), "output_bias": np.arange(5.0)}
    readout = np.random.default_rng(0).normal(size=(2, 4, 3))
    following = np.array([[4, 3, 4, 3], [2, 0, 2, 0]])  # two sentences, then both again
    plain, _ = prediction_loss(p, readout, following)
    probabilities = scipy.special.softmax(readout @ p["target_embedding"].T + p["output_bias"], axis=-1)
    differ = [
        (scipy.special.rel_entr(one, other) + scipy.special.rel_entr(other, one)).sum()
        for one, other in (
            (probabilities[0, 0], probabilities[0, 2]),
            (probabilities[0, 1], probabilities[0, 3]),
            (probabilities[1, 0], probabilities[1, 2]),
        )
    ]
    loss, pullback = prediction_loss(p, readout, following, rdrop=2.0)
    assert loss == pytest.approx(plain + 2 / 4 * np.mean(differ))
    assert (pullback(1.0)[0][1, [1, 3]] == 0).all()


def test_a_sampled_softmax_has_the_right_tokens_and_sum_on_average() -> None:
    words, rng = 5000, np.random.default_rng(0)
    following = np.array([4999, 3, 3, 2500])
    terms = rng.exponential(size=words)
    sums = []
    for _ in range(300):
        ids, log_weights = sampled_vocabulary(following, words, rng)
        assert len(set(ids.tolist())) == len(ids) < words / 3
        assert np.isin(following, ids).all()
        assert (log_weights[np.isin(ids, following)] == 0).all()
        assert np.exp(log_weights).sum() == pytest.approx(words)
        sums.append(float(terms[ids] @ np.exp(log_weights)))
    assert np.mean(sums) == pytest.approx(terms.sum(), rel=0.01)


def test_outside_training_the_softmax_is_complete() -> None:
    ids, log_weights = sampled_vocabulary(np.array([4999]), 5000, None)
    assert (ids == np.arange(5000)).all()
    assert not log_weights.any()


def test_an_encoder_has_as_many_layers_as_the_decoder_by_default() -> None:
    def depth(**options: int) -> int:
        return sum(name.startswith("encoder_state") for name in RecurrentConfig(9, 9, **options).shapes())

    assert [depth(), depth(layers=2), depth(encoder_layers=3), depth(layers=2, encoder_layers=1)] == [
        1,
        2,
        3,
        1,
    ]
    described = describe(RecurrentConfig(9, 9, layers=2))
    del described["encoder_layers"]  # as in files from before there was this option
    assert read_config(described) == RecurrentConfig(9, 9, layers=2)


def test_the_score_dot_needs_states_of_one_size() -> None:
    with pytest.raises(
        ValueError, match=r"^with the score dot, decoder must be twice encoder .* Got 5 and 3 instead"
    ):
        RecurrentConfig(9, 9, score="dot", decoder=5, encoder=3)


@pytest.mark.parametrize("options", [o for o in STYLES if o.get("score") != "none"], ids=str)
def test_posterior_by_its_formula(options: dict[str, Any]) -> None:
    network, batch = make_network(options), collate(PAIRS)
    p = network.parameters
    stepper = network.stepper(batch.source, batch.lengths, width=2)
    assert stepper.posterior(batch.target[1:3].T).shape == (3, 2, 0)  # before the first attention step
    for t in range(2):
        words = batch.target[t : t + 2].T  # (B, k)
        _, weights = stepper(words)
    following = np.array([[7, 8], [9, 10], [2, 4]])
    posterior = stepper.posterior(following)
    states, annotations = top(network.config, stepper.memory), stepper.encoded.values
    for sentence, hypothesis in np.ndindex(3, 2):
        shares = []
        for position, annotation in enumerate(annotations[sentence]):
            summed = states[sentence, hypothesis] @ p["readout_state"] + annotation @ p["readout_context"]
            if "readout_word" in p:
                summed += p["target_embedding"][words[sentence, hypothesis]] @ p["readout_word"]
            logits = np.tanh(summed + p["readout_bias"]) @ p["target_embedding"].T + p["output_bias"]
            likely = np.exp(logits[following[sentence, hypothesis]])
            shares.append(weights[sentence, hypothesis, position] * likely)
        total = np.sum(shares) or 1.0  # ReLU may give no weight
        np.testing.assert_allclose(posterior[sentence, hypothesis], np.array(shares) / total, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "words"), [(0, 9), (1, 1), (7, 9), (40, 3000)])
def test_sums_over_the_vocabulary(rows: int, words: int, dtype: type[np.floating[Any]]) -> None:
    rng = np.random.default_rng(1)
    readout, embedding, bias = (
        rng.normal(size=size).astype(dtype) for size in ((rows, 5), (words, 5), words)
    )
    expected = np.log(np.exp(readout.astype(float) @ embedding.T.astype(float) + bias).sum(axis=1))
    output = ranking.OutputLayer({"target_embedding": embedding, "output_bias": bias})
    for sums in (ranking.exponential_sums(output.logits(readout)), output.top(readout, 1).sums):
        assert sums.dtype == dtype
        logs = np.log(sums[:, 1]) + sums[:, 0]
        np.testing.assert_allclose(logs, expected, rtol=1e-5 if dtype is np.float32 else 1e-12)


def test_the_steps_of_the_library_are_those_of_numpy() -> None:
    network = make_network({}, np.float32)
    encoded, _ = encode(network.parameters, network.config, *source_batch([[5, 6, 7, 2], [2], [4, 8, 2]]))
    encoded.values[1, 1:] = encoded.keys[1, 1:] = np.nan  # law 2: padding has no influence
    both = [
        kind(network.parameters, network.config, encoded) for kind in (RecurrentStepper, recurrent_stepper)
    ]
    rng = np.random.default_rng(0)
    words, k = np.ones((3, 1), np.int64), 1
    for remaining in ([0, 1, 2], [0, 2], [1]):
        results = [of(words) for of in both]
        for a, b in zip(*results, strict=True):
            assert a.dtype == b.dtype == np.float32
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        parents = rng.integers(0, k, (len(remaining), 4))
        words, k = rng.integers(2, 11, (len(remaining), 4)), 4
        for of in both:
            if len(remaining) < len(results[0][0]):
                of.keep(np.array(remaining))
            of.select(parents)


def test_a_record_block_records_the_attention_of_a_search() -> None:
    network = make_network({}, np.float32)
    with record() as recorded:
        _, weights = network.stepper(*source_batch([[5, 6, 2]]))(np.array([[1]]))
    np.testing.assert_array_equal(recorded[0].weights, weights)


def test_a_sum_of_products_has_its_bias_and_what_is_added() -> None:
    config = RecurrentConfig(5, 5, 2, 2, 2, 2)
    source = encode(Parameters(config.shapes()), config, np.array([[2]]), np.array([1]))[0]
    arrays = {"weight": np.array([[1.0, 2], [3, 4]]), "bias": np.array([10.0, 20])}
    ops, x, added = Forward(arrays, config, source), np.array([[[1.0, 1]]]), np.array([[[100.0, 200]]])
    np.testing.assert_array_equal(ops.linear((x, "weight"), bias="bias", added=added), [[[114, 226]]])
    np.testing.assert_array_equal(added, [[[100, 200]]])
