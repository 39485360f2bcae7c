"""Six faults that are planted in models: importance finds each, the attention weights miss it.

Three are in a copier that is built by hand: output i attends to position i, with heads whose weights depend on
positions alone, and predicts the token there. Three are in networks of `Seq2Seq`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import regard
from regard import attribution
from regard.seq2seq import Seq2Seq
from regard.seq2seq.sources.text.vocabulary import UNKNOWN

Array = NDArray[Any]

TOKENS, NOTHING = [3, 1, 4, 2, 5], 0  # what is copied, and the token whose embedding is 0


class Copier(NamedTuple):
    """A model: embeddings (V, V), where each head looks, its projection (heads, V, V), and the encoder."""

    embeddings: Array
    looks: tuple[Any, ...]
    projections: Array
    order: tuple[int, ...] = (0, 1, 2, 3, 4)  # in which the encoder hands the tokens on

    def weights(self) -> Array:
        """The weights (heads, 5, 5)."""
        places = np.eye(5)
        return np.stack(
            [
                regard.attend(6 * places[look(np.arange(5))], places, places, scale=1.0).weights
                for look in self.looks
            ]
        )

    def __call__(self, sources: list[list[int]]) -> Array:
        """The log-probabilities (count, 5) of `TOKENS` given each of these sources."""
        values = self.embeddings[np.array(sources)][:, list(self.order)]
        logits = 9 * np.einsum("hij,bjd,hde->bie", self.weights(), values, self.projections)
        logs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        return logs[:, np.arange(5), TOKENS]

    def importance(self) -> Array:
        """What each output loses without each token."""
        return attribution.erasure(self, TOKENS, replacement=NOTHING)


def copier(**changes: Any) -> Copier:
    embeddings = np.eye(7)
    embeddings[NOTHING] = 0
    return Copier(embeddings, (lambda i: i,), np.eye(7)[None])._replace(**changes)


def test_the_copier_needs_what_it_attends_to() -> None:
    healthy = copier()
    agreed = attribution.agreement(healthy.weights()[0], healthy.importance())
    assert agreed.top.value == 1


def test_noise_in_the_embedding_of_one_word() -> None:
    healthy, noisy = copier(), copier(embeddings=copier().embeddings.copy())
    noisy.embeddings[4] += np.random.default_rng(3).normal(0, 2, 7)
    assert np.array_equal(healthy.weights(), noisy.weights())
    needed = noisy.importance().diagonal()
    assert needed.min() < 0 < 1 < np.delete(needed, TOKENS.index(4)).min()  # without it the output is better


def test_an_encoder_that_swaps_neighbours() -> None:
    swapped = copier(order=(1, 0, 2, 4, 3))
    assert np.array_equal(copier().weights(), swapped.weights())
    assert swapped.weights()[0].argmax(axis=1).tolist() == [0, 1, 2, 3, 4]
    # An output that gets another token than its own needs its own most where that one is: at the neighbour.
    needed = np.abs(swapped.importance())
    assert needed.argmax(axis=1).tolist() == [1, 0, 2, 4, 3]


def test_two_heads_that_cancel_each_other() -> None:
    first = lambda i: 0 * i  # noqa: E731
    projections = np.stack([np.eye(7), 2 * np.eye(7), -2 * np.eye(7)])
    cancelling = copier(looks=(lambda i: i, first, first), projections=projections)
    mean = cancelling.weights().mean(axis=0)
    assert mean.argmax(axis=1).tolist() == [0] * 5
    assert cancelling.importance().argmax(axis=1).tolist() == [0, 1, 2, 3, 4]
    values = np.broadcast_to(cancelling.embeddings[TOKENS], (3, 5, 7))
    joint = attribution.contributions(cancelling.weights(), values, projections, joint=True)
    assert joint.argmax(axis=1).tolist() == [0, 1, 2, 3, 4]


SOURCES = ["a b c", "c a a", "b c c"]
TARGETS = [text.upper() for text in SOURCES]
TRANSFORMER = {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1, "decoder_layers": 1}
SMALL = {"embedding": 8, "encoder": 8, "decoder": 16, "attention": 8, "style": "bahdanau"}


def test_a_head_that_is_cut_off() -> None:
    model = Seq2Seq(family="transformer", network=TRANSFORMER, epochs=2).fit(SOURCES, TARGETS)
    (translation,) = model.align(["a c b"], ["A C B"])
    healthy, costs = model.heads(translation), model.ablate(SOURCES, TARGETS)
    assert costs.source[0].all()
    model.network.parameters["decoder_0_source_out"][:4] = 0
    (again,) = model.align(["a c b"], ["A C B"])
    assert np.array_equal(model.heads(again).source, healthy.source)
    cut = model.ablate(SOURCES, TARGETS).source[0]
    assert cut[0] == 0 != cut[1]


def test_a_decoder_that_does_not_read_what_it_attends_to() -> None:
    model = Seq2Seq(network=SMALL, epochs=2).fit(SOURCES, TARGETS)
    parameters = model.network.parameters
    for name in ("query_weight", "key_weight", "attention_vector"):
        parameters[name][...] *= 20  # sharp weights
    for name in ("decoder_context", "readout_context", "start_weight"):
        parameters[name][...] = 0
    (translation,) = model.align(["a c b"], ["A C B"])
    assert translation.alignment.max() > 0.5
    assert np.abs(model.erasure(translation)).max() < 1e-5  # the rounding of other batches
    assert not model.contributions(translation).any()
    assert model.ablate(SOURCES, TARGETS).source == 0


def test_a_word_that_the_vocabulary_has_lost() -> None:
    """Attention likes its vector, which is that of an unknown token: it says nothing of the word that was there."""
    model = Seq2Seq(network=SMALL, epochs=2).fit(SOURCES, TARGETS)
    parameters = model.network.parameters
    parameters["source_embedding"][UNKNOWN] *= 20
    (translation,) = model.align(["b lost c"], ["B A C"])
    assert translation.alignment[:, :3].argmax(axis=1).tolist() == [1, 1, 1]
    needed = np.abs(model.erasure(translation)[:, :3])
    assert needed[:, 1].max() < 1e-5 < needed[:, [0, 2]].min()
