"""Losses without heads, against networks whose head was cut off by hand, and contributions, against loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.seq2seq import Seq2Seq

SOURCES = ["a b c", "c a a"]
TARGETS = [text.upper() for text in SOURCES]
SIZES = {"embedding": 6, "encoder": 4, "decoder": 8}
TRANSFORMER = {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1, "decoder_layers": 2}
NETWORKS: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer", "network": TRANSFORMER},
    "conditional": {"network": SIZES},
    "bahdanau": {"network": {**SIZES, "style": "bahdanau"}},
    "luong": {"network": {**SIZES, "style": "luong", "score": "dot"}},
}


def trained(name: str) -> Seq2Seq:
    model = Seq2Seq(epochs=3, seed=3, **NETWORKS[name]).fit(SOURCES, TARGETS)
    model.network.parameters.flat[:] += np.random.default_rng(1).normal(
        0, 0.2, model.network.parameters.flat.shape
    )
    return model


def loss(model: Seq2Seq) -> float:
    """The mean over all target tokens, from what `align` returns."""
    aligned = model.align(SOURCES, TARGETS)
    return -float(np.mean(np.concatenate([each.log_probabilities for each in aligned])))


CUTS = [  # a kind of head, its layer and number, and the rows of parameters that read it
    *(("transformer", "encoder", 0, head, ["encoder_0_self_out"]) for head in (0, 1)),
    ("transformer", "decoder", 1, 0, ["decoder_1_self_out"]),
    ("transformer", "source", 0, 1, ["decoder_0_source_out"]),
    ("conditional", "source", 0, 0, ["decoder_context", "readout_context"]),
    ("bahdanau", "source", 0, 0, ["decoder_context", "readout_context"]),
    ("luong", "source", 0, 0, ["readout_context"]),
]


@pytest.mark.parametrize(("name", "kind", "layer", "head", "readers"), CUTS)
def test_the_loss_rises_by_what_a_model_without_the_head_loses(
    name: str, kind: str, layer: int, head: int, readers: list[str]
) -> None:
    model = trained(name)
    parameters, before = model.network.parameters, model.network.parameters.flat.copy()
    ablation = model.ablate(SOURCES, TARGETS)
    assert np.array_equal(parameters.flat, before)
    assert ablation.loss == pytest.approx(loss(model))
    for reader in readers:
        parameters[reader][slice(4 * head, 4 * head + 4) if name == "transformer" else slice(None)] = 0
    assert getattr(ablation, kind)[layer, head] == pytest.approx(loss(model) - ablation.loss, abs=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_there_is_a_number_for_each_head(name: str) -> None:
    _, *parts = trained(name).ablate(SOURCES[:1], TARGETS[:1])
    expected = [(1, 2), (2, 2), (2, 2)] if name == "transformer" else [(0, 0), (0, 0), (1, 1)]
    assert [part.shape for part in parts] == expected


def test_progress_counts_heads() -> None:
    done: list[int] = []
    trained("transformer").ablate(SOURCES, TARGETS, progress=done.append)
    assert done == [1] * 10


def test_there_must_be_a_pair_and_attention() -> None:
    model = trained("conditional")
    with pytest.raises(ValueError, match=r"sources must have an example\. Got none instead"):
        model.ablate([], [])
    with pytest.raises(ValueError, match=r"targets must be as many as sources\. Got 1 for 2 instead"):
        model.ablate(["a", "b"], ["A"])
    without = Seq2Seq(attention=False, epochs=1, network=SIZES).fit(SOURCES, TARGETS)
    with pytest.raises(ValueError, match="ablate needs a model with attention"):
        without.ablate(SOURCES, TARGETS)
    with pytest.raises(TypeError, match="translation must be a Translation"):
        model.contributions("a")
    with pytest.raises(ValueError, match="translation must come from this model"):
        model.contributions(trained("bahdanau").align(["a c"], ["A"])[0])


@pytest.mark.parametrize("name", NETWORKS)
def test_contributions_are_the_lengths_of_the_vectors_that_are_added(name: str) -> None:
    model = trained(name)
    (translation,) = model.align(["c a b"], ["C A"])
    lengths, p = model.contributions(translation), model.network.parameters
    assert lengths.shape == translation.alignment.shape
    heads = [{"layer": 1, "head": 1}, {"layer": 1, "head": 2}] if name == "transformer" else [{}]
    steps = [model.decoder_steps(translation, **place) for place in heads]
    for i, j in np.ndindex(lengths.shape):
        vectors = [each.attend().weights[i, j] * each.values[j] for each in steps]
        if name == "transformer":
            added = [np.concatenate(vectors) @ p["decoder_0_source_out"]]
        else:
            added = [
                vectors[0] @ p[reader] for reader in p if reader in ("decoder_context", "readout_context")
            ]
        assert lengths[i, j] == pytest.approx(np.linalg.norm(np.concatenate(added)), rel=1e-5)


def test_contributions_of_heads_are_added_before_they_are_measured() -> None:
    """With all weights on </s>, as in a source without another token, the contribution is the block's whole output."""
    model = trained("transformer")
    p, (translation,) = model.network.parameters, model.align(["b"], ["B"])
    p["decoder_0_source_out"][4:] = -p["decoder_0_source_out"][:4]
    p["decoder_0_source_keys"][:, 12:] = p["decoder_0_source_keys"][
        :, 8:12
    ]  # both heads have the same values
    p["decoder_0_source_keys"][:, 4:8] = p["decoder_0_source_keys"][:, :4]  # and keys
    p["decoder_0_source_in"][:, 4:] = p["decoder_0_source_in"][:, :4]  # and queries, so that they cancel
    (translation,) = model.align(["b"], ["B"])
    np.testing.assert_allclose(model.contributions(translation), 0, atol=1e-6)
