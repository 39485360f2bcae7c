"""The laws of a network, tried on every family, option and input."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from losses import loss_of
from network_cases import IMAGES, Network, every_network

from regard import nn
from regard.seq2seq.corpus.batching import Batch, collate, source_batch
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.families import build, describe, read_config
from regard.seq2seq.networks.output_layer import _LEAST_WEIGHT
from regard.seq2seq.sources.text.vocabulary import START


def follow(network: Any, batch: Batch) -> tuple[Any, Any]:
    """Logits (n, B, V) and weights (n, B, T) of each step of forced decoding."""
    steps = network.stepper(batch.source, batch.lengths)
    logits, weights = zip(*(steps(words[:, None]) for words in batch.target[:-1]), strict=True)
    return np.stack(logits)[:, :, 0], np.stack(weights)[:, :, 0]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# ----------------------------------------------------------------------------------------------------- training


@pytest.mark.slow
@pytest.mark.parametrize("guided", [0.0, 0.7])
@every_network
def test_gradients_are_those_of_finite_differences(network: Network, guided: float) -> None:
    if network.options.get("normalize") == "hard":
        pytest.skip("the gradient passes straight through the choices: test_choices")
    how = {"label_smoothing": 0.1, "dropout": 0.2, "guided_alignment": guided, "rdrop": guided}
    built = network.build()
    loss = loss_of(built.config, collate(network.pairs(guided=True)), **how)
    arrays = [array.copy() for array in built.parameters.values()]
    assert nn.check_gradients(loss, arrays, directions=1) < 1e-6


@every_network
def test_every_parameter_has_a_gradient_of_its_shape_and_type(network: Network) -> None:
    built, batch = network.build(np.float32), collate(network.pairs(guided=True))
    options = LossOptions(dropout=0.1, label_smoothing=0.1, guided_alignment=0.5)
    loss, pullback = built.loss(batch, options, rng())
    gradients = pullback(1.0)
    assert np.isfinite(loss)
    assert {name: g.shape for name, g in gradients.items()} == built.config.shapes()
    for name, gradient in gradients.items():
        assert gradient.dtype == np.float32, name
        assert np.abs(gradient).max() > 1e-9, name
    assert {x.dtype for x in follow(built, batch) if x.size} == {np.dtype(np.float32)}


@every_network
def test_float32_computes_what_float64_does(network: Network) -> None:
    """The library has calls for float32 alone."""
    (short, long), batch = (network.build(dtype) for dtype in (np.float32, float)), collate(network.pairs())
    assert short.loss(batch)[0] == pytest.approx(long.loss(batch)[0], rel=1e-4)
    for result, exact in zip(follow(short, batch), follow(long, batch), strict=True):
        np.testing.assert_allclose(result, exact, atol=1e-4)


@every_network
def test_a_batch_has_the_loss_of_its_pairs(network: Network) -> None:
    built, pairs = network.build(), network.pairs()
    batch, parts = collate(pairs), [built.loss(collate([pair])) for pair in pairs]
    shares = [(len(pair.target) - 1) / batch.target_tokens() for pair in pairs]
    together, pullback = built.loss(batch)
    assert together == pytest.approx(
        sum(a * part[0] for a, part in zip(shares, parts, strict=True)), rel=1e-10
    )
    backs = [back(share) for share, (_, back) in zip(shares, parts, strict=True)]
    for name, gradient in pullback(1.0).items():
        expected = sum(back[name] for back in backs)
        np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("guided", [0.0, 0.7])
@every_network
def test_padding_has_no_influence(network: Network, guided: float) -> None:
    """Neither that it is there nor, where sources have lengths, its content."""
    built, batch = network.build(), collate(network.pairs(guided=True))
    more = 0 if network.inputs is IMAGES else 2  # pictures have one size
    source = np.pad(batch.source, [(0, more)] + [(0, 0)] * (batch.source.ndim - 1), constant_values=7)
    source[np.arange(len(source))[:, None] >= batch.lengths] = 8
    target, links = (np.pad(x, [(0, 2), (0, 0), (0, more)][: x.ndim]) for x in (batch.target, batch.links))
    wider = Batch(source, batch.lengths, target, links)
    (one, back), (two, other) = (built.loss(b, LossOptions(guided_alignment=guided)) for b in (batch, wider))
    assert two == pytest.approx(one, rel=1e-12)
    again = other(1.0)
    for name, gradient in back(1.0).items():
        np.testing.assert_allclose(again[name], gradient, rtol=1e-8, atol=1e-12, err_msg=name)
    sides = [beam(built, b.source, b.lengths) for b in (batch, wider)]
    for (short,), (long,) in zip(*sides, strict=True):
        assert long.tokens == short.tokens
        assert long.score == pytest.approx(short.score, rel=1e-10)


@every_network
def test_without_dropout_the_predictions_agree(network: Network) -> None:
    built, batch = network.build(), collate(network.pairs())
    loss, pullback = built.loss(batch)
    twice, back = built.loss(batch, LossOptions(rdrop=5.0))
    assert twice == pytest.approx(loss, rel=1e-12)
    expected = pullback(1.0)
    for part, gradient in back(1.0).items():
        np.testing.assert_allclose(gradient, expected[part], rtol=1e-9, atol=1e-12)
    assert built.loss(batch, LossOptions(dropout=0.5))[0] == loss  # it needs random numbers
    assert built.loss(batch, LossOptions(dropout=0.5), rng())[0] != loss


@every_network
def test_an_initial_network_predicts_token_frequencies(network: Network) -> None:
    built = network.build(np.float32)
    built.initialize(rng(), np.array([0, 0, 50, 0, 0, 0, 0, 0, 0, 0, 50]))
    assert np.isfinite(built.parameters.flat).all()
    for name, parameter in built.parameters.items():
        if name.endswith("gain"):
            assert (parameter == 1).all(), name
        elif "bias" not in name and not name.endswith("shift") and parameter.size > 1:
            assert parameter.std() > 0, name
    logits, _ = built.stepper(*source_batch([network.pairs()[0].source]))(np.array([[START]]))
    assert set(np.argsort(logits[0, 0])[-2:].tolist()) == {2, 10}


@every_network
def test_a_loss_without_a_backward_pass_leaves_no_arrays_to_the_garbage_collector(network: Network) -> None:
    built, batch = network.build(np.float32), collate(network.pairs())
    built.loss(batch)
    with unreachable_objects() as garbage:
        built.loss(batch)
    pullbacks = [each for each in garbage if isinstance(each, FunctionType)]
    garbage.clear()
    assert not pullbacks


@contextmanager
def unreachable_objects() -> Iterator[list[Any]]:
    """Collect what only the garbage collector frees: a pullback among it would hold its arrays."""
    gc.freeze()  # what there was before is not looked at, which would take most of the time
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield gc.garbage
        gc.collect()
    finally:
        gc.set_debug(0)
        gc.enable()
        gc.unfreeze()


# ------------------------------------------------------------------------------------------------------- search


@every_network
def test_the_loss_is_that_of_the_steps_of_a_search(network: Network) -> None:
    """Of their logits, and with links of their attention weights, which are on what is there alone."""
    built, batch = network.build(), collate(network.pairs(guided=True))
    logits, weights = follow(built, batch)
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    chosen = np.take_along_axis(logs, batch.target[1:, :, None], axis=-1)[..., 0]
    plain = -chosen[batch.target[1:] > 0].sum() / batch.target_tokens()
    assert built.loss(batch)[0] == pytest.approx(plain, rel=1e-9)
    if not built.config.attends:
        assert weights.shape[-1] == 0
        return
    if built.config.normalize in ("softmax", "sparsemax", "entmax", "hard"):
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-12)
    assert not weights[:, np.arange(len(batch.source)) >= batch.lengths[:, None]].any()
    linked = (batch.links.sum(axis=-1) > 0).sum()
    of_links = -(batch.links * np.log(np.maximum(weights, _LEAST_WEIGHT))).sum() / linked
    guided, _ = built.loss(batch, LossOptions(guided_alignment=0.5))
    assert guided - plain == pytest.approx(0.5 * of_links, rel=1e-9)


@every_network
def test_a_search_may_reorder_its_hypotheses(network: Network) -> None:
    built, batch = network.build(), collate(network.pairs())
    words = np.random.default_rng(3).integers(4, 11, (3, 3, 2))  # (n, B, k)
    together = built.stepper(batch.source, batch.lengths, width=2)
    for t in range(2):
        together(words[t])
    parents = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]])
    together.select(parents)
    together.keep(np.array([0, 2]))
    logits, weights = together(np.repeat(words[2][[0, 2], :1], 3, axis=1))
    for (index, sentence), i in itertools.product(enumerate((0, 2)), range(3)):
        alone = built.stepper(batch.source[:, [sentence]], batch.lengths[[sentence]])
        for t in range(2):
            alone(words[t][[sentence]][:, [parents[sentence, i]]])
        expected, attention = alone(words[2][[sentence], :1])
        np.testing.assert_allclose(logits[index, i], expected[0, 0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(weights[index, i], attention[0, 0], atol=1e-12)


@pytest.mark.slow
@every_network
def test_a_search_does_not_depend_on_the_others_of_the_batch(network: Network) -> None:
    built, rows = network.build(), [pair.source for pair in network.pairs()]
    together = beam(built, *source_batch(rows), width=3, n_best=2)
    for row, several in zip(rows, together, strict=True):
        (alone,) = beam(built, *source_batch([row]), width=3, n_best=2)
        for one, two in zip(alone, several, strict=True):
            assert one.tokens == two.tokens
            assert one.score == pytest.approx(two.score, rel=1e-9)
            width = len(row) if built.config.attends else 0
            assert one.alignment.shape == (len(one.tokens), width)
            np.testing.assert_allclose(one.alignment, two.alignment, atol=1e-10)


# ------------------------------------------------------------------------------------------------ configuration


@every_network
def test_a_configuration_comes_back_from_json(network: Network) -> None:
    config = network.config()
    again = read_config(json.loads(json.dumps(describe(config))))
    assert again == config
    assert type(again.inputs) is type(network.inputs)
    assert hash(again) == hash(config)
    assert again.shapes() == config.shapes()
    assert build(config).parameters.flat.size == network.build().parameters.flat.size
