"""Hard attention in training: its gradient is that of the expected loss, by all choices of a tiny network."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from regard import nn
from regard.seq2seq.corpus.batching import Batch, EncodedPair, collate
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent import choices as module
from regard.seq2seq.networks.recurrent.choices import Choices, choice_loss
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.decoder import decode
from regard.seq2seq.networks.recurrent.encoder import encode
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork

Array = np.ndarray[Any, Any]
SIZES = {"embedding": 2, "encoder": 2, "decoder": 3, "attention": 2}
PAIRS = [EncodedPair([5, 2], [1, 4, 2]), EncodedPair([7, 2], [1, 5, 6, 2])]
SMOOTHED = LossOptions(label_smoothing=0.1)


class Chosen(np.random.Generator):
    """A generator that draws the positions (n, B), and keeps the weighted sum where `soft` (B,)."""

    def __init__(self, soft: Array, positions: Array) -> None:
        super().__init__(np.random.PCG64(0))
        self.soft, self.rows = soft, iter(positions)

    def random(self, *_: Any) -> Any:
        return np.where(self.soft, 0.25, 0.75)

    def gumbel(self, *_: Any, size: Any) -> Any:
        return np.where(np.arange(size[1]) == next(self.rows)[:, None], 0.0, -np.inf)


def choices(batch: Batch) -> Iterator[tuple[Array, Array]]:
    """All that can be drawn: which sentences stay soft, and the positions of the others."""
    (n, count), m = batch.target[1:].shape, len(batch.source)
    for soft in itertools.product([False, True], repeat=count):
        ranges = [range(1 if soft[i % count] else m) for i in range(n * count)]
        for drawn in itertools.product(*ranges):
            yield np.array(soft), np.array(drawn).reshape(n, count)


def probability(network: RecurrentNetwork, batch: Batch, soft: Array, positions: Array) -> float:
    """The probability of these choices, of weights that depend on those before."""
    p, c = network.parameters, network.config
    encoded, _ = encode(p, c, batch.source, batch.lengths)
    weights = decode(p, c, encoded, batch.target[:-1], rng=Chosen(soft, positions))[0].weights
    assert weights is not None
    of_chosen = np.take_along_axis(weights, positions[..., None], axis=-1)[..., 0]
    return float(0.5 ** len(soft) * np.where(soft, 1, of_chosen).prod())


def expected_loss(config: RecurrentConfig, batch: Batch) -> Any:
    """The expected loss as a function of all parameters, and the expectation of its estimated gradients."""

    def loss(flat: Array) -> Any:
        network, terms = RecurrentNetwork(config, Parameters(config.shapes(), flat)), []
        for drawn in choices(batch):
            share = probability(network, batch, *drawn)
            terms.append((share, *network.loss(batch, SMOOTHED, Chosen(*drawn))))

        def back(d: float) -> list[Array]:
            gradients = [pull(share * d) for share, _, pull in terms]
            return [sum(np.concatenate([g[name].ravel() for name in config.shapes()]) for g in gradients)]

        assert sum(share for share, _, _ in terms) == pytest.approx(1)
        return sum(share * value for share, value, _ in terms), back

    return loss


@pytest.mark.parametrize("style", ["conditional", "bahdanau", "luong"])
@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_expected_gradient_is_that_of_the_expected_loss(
    style: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a sentence alone, which has no baseline, and with two of different lengths; the sum has its full weight."""
    monkeypatch.setattr(module, "_REWARD", 1.0)
    config = RecurrentConfig(9, 7, **SIZES, style=style, normalize="hard")
    flat = np.random.default_rng(2).normal(size=Parameters(config.shapes()).flat.size)
    assert nn.check_gradients(expected_loss(config, collate(PAIRS[:count])), [flat], directions=2) < 1e-7


def test_advantages_by_hand() -> None:
    """Two sentences, the second one token shorter; the weights are certain, so there is no entropy."""
    weights = np.tile(np.array([1.0, 0.0]), (2, 2, 1))
    losses, real = np.array([[3.0, 1.0], [4.0, 0.0]]), np.array([[True, True], [True, False]])
    loss, pullback = choice_loss(weights, weights, losses, real)
    assert loss == pytest.approx(0)
    gradient = pullback(1.0)
    assert gradient is not None
    # Of 3 tokens, the first sentence costs 7 / 3 and then 4 / 3; the second 1 / 3, and then no other has a baseline.
    np.testing.assert_allclose(gradient[..., 0] / module._REWARD, [[2, -2], [4 / 3, 0]], atol=1e-12)


def test_positions_are_drawn_as_often_as_their_weights_say() -> None:
    weights = np.array([0.5, 0.3, 0.0, 0.2])
    drawing = Choices(np.random.default_rng(0), 20_000)
    one_hot = drawing.draw(np.broadcast_to(weights, (20_000, 4)))
    soft = drawing.soft[:, 0]
    assert soft.mean() == pytest.approx(0.5, abs=0.015)
    assert not one_hot[soft].any()
    assert (one_hot[~soft].sum(axis=1) == 1).all()
    np.testing.assert_allclose(one_hot[~soft].mean(axis=0), weights, atol=0.015)
    assert not one_hot[:, 2].any()


def test_choices_are_those_of_the_random_numbers() -> None:
    network, batch = RecurrentNetwork(RecurrentConfig(9, 7, **SIZES, normalize="hard")), collate(PAIRS * 8)
    network.initialize(np.random.default_rng(1), np.ones(7))

    def gradients(seed: int) -> tuple[float, list[bytes]]:
        loss, pullback = network.loss(batch, SMOOTHED, np.random.default_rng(seed))
        return loss, [gradient.tobytes() for gradient in pullback(1.0).values()]

    assert gradients(3) == gradients(3)
    assert gradients(3) != gradients(4)


def test_guided_alignment_goes_with_it() -> None:
    """The links guide the weights from which positions are drawn."""
    network = RecurrentNetwork(RecurrentConfig(9, 7, **SIZES, normalize="hard"))
    network.initialize(np.random.default_rng(1), np.ones(7))
    batch = collate([pair._replace(links=frozenset({(0, 0)})) for pair in PAIRS])
    plain, guided = (
        network.loss(batch, LossOptions(guided_alignment=weight), np.random.default_rng(0))[0]
        for weight in (0.0, 1.0)
    )
    assert guided - plain == pytest.approx(np.log(2), rel=0.2)  # at first both positions weigh about a half
