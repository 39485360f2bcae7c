"""Hard attention in training: what is drawn, and the gradient that passes straight through the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.seq2seq.corpus.batching import EncodedPair, collate
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.recurrent.attention import Encoded
from regard.seq2seq.networks.recurrent.choices import Choices
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.recurrent.ops import Node, Taped

Array = np.ndarray[Any, Any]
SIZES = {"embedding": 2, "encoder": 2, "decoder": 3, "attention": 2}
PAIRS = [EncodedPair([5, 2], [1, 4, 2]), EncodedPair([7, 2], [1, 5, 6, 2])]


class Chosen(np.random.Generator):
    """A generator that draws these positions (B,), and keeps the weighted sum of sentences where `soft` (B,)."""

    def __init__(self, soft: list[bool], positions: list[int]) -> None:
        super().__init__(np.random.PCG64(0))
        self.soft, self.positions = soft, positions

    def random(self, *_: Any) -> Any:
        return np.where(self.soft, 0.25, 0.75)

    def gumbel(self, *_: Any, size: Any) -> Any:
        return np.where(np.arange(size[1]) == np.array(self.positions)[:, None], 0.0, -np.inf)


@pytest.mark.parametrize("score", ["dot", "additive"])
def test_a_step_has_the_value_of_its_choice_and_the_gradient_of_the_weighted_sum(score: str) -> None:
    """Of three sentences, the last of which stays soft; the first has a position of padding."""
    draw = np.random.default_rng(1).standard_normal
    size = 4 if score == "dot" else 2
    config = RecurrentConfig(9, 7, **SIZES | {"decoder": 4}, score=score, normalize="hard")
    start, keys, values, final, query, dcontext = map(
        draw, [(3, 4), (3, 5, size), (3, 5, 4), (3, 4), (3, size), (3, 4)]
    )
    lengths = np.array([4, 5, 5])
    p = {"attention_vector": draw(size)}
    source = Encoded(start, keys, values, final, lengths)
    ops = Taped(p, config, source, choices=Choices(Chosen([False, False, True], [3, 0, 0]), 3))
    state = Node(query)
    context, _ = ops.attend(state)
    of = regard.scores.dot() if score == "dot" else regard.scores.additive(None, None, p["attention_vector"])
    options: dict[str, Any] = {"score": of, "mask": regard.mask.lengths(lengths)}
    weighted, pullback = regard.attention_vjp(query[:, None], keys, values, **options)
    expected = [values[0, 3], values[1, 0], weighted[2, 0]]
    np.testing.assert_allclose(context.value, expected, rtol=1e-12)
    context.add(dcontext)
    encoded, g = ops.backward()
    gradients = pullback(dcontext[:, None])
    np.testing.assert_allclose(state.summed(), gradients.queries[:, 0], rtol=1e-10)
    np.testing.assert_allclose(encoded.keys, gradients.keys, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(encoded.values, gradients.values, rtol=1e-10, atol=1e-14)
    if score == "additive":
        np.testing.assert_allclose(g["attention_vector"], gradients.score["vector"], rtol=1e-10)


def test_positions_are_drawn_as_often_as_their_weights_say() -> None:
    weights, count = np.array([0.5, 0.3, 0.0, 0.2]), 20_000
    values = np.broadcast_to(np.eye(4), (count, 4, 4))
    weighted = np.full((count, 4), 0.25)
    drawn = Choices(np.random.default_rng(0), count).context(weighted, np.tile(weights, (count, 1)), values)
    soft = (drawn == 0.25).all(axis=1)
    assert soft.mean() == pytest.approx(0.5, abs=0.015)
    assert (np.sort(drawn[~soft]) == [0, 0, 0, 1]).all()
    np.testing.assert_allclose(drawn[~soft].mean(axis=0), weights, atol=0.015)
    assert not drawn[~soft, 2].any()


def test_choices_are_those_of_the_random_numbers() -> None:
    network, batch = RecurrentNetwork(RecurrentConfig(9, 7, **SIZES, normalize="hard")), collate(PAIRS * 8)
    network.initialize(np.random.default_rng(1), np.ones(7))

    def gradients(seed: int) -> tuple[float, list[bytes]]:
        loss, pullback = network.loss(batch, LossOptions(label_smoothing=0.1), np.random.default_rng(seed))
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
