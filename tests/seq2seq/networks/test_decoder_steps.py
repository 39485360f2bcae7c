"""What a recurrent decoder attends with: from the states of its steps follow the weights of the translation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from regard.seq2seq import Seq2Seq

PAIRS = ["one two", "two", "three one", "two three one"], ["un deux", "deux", "trois un", "deux trois un"]
SIZES = {"embedding": 8, "encoder": 6, "decoder": 12, "attention": 5}


def trained(**network: object) -> Seq2Seq:
    sizes = dict(SIZES)
    if network.get("score") in ("dot", "general"):
        del sizes["attention"]
    return Seq2Seq(network=sizes | network, epochs=2).fit(*PAIRS)


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    return trained()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("score", "style"),
    list(product(("additive", "general", "dot", "scaled_dot"), ("bahdanau", "conditional", "luong"))),
)
@pytest.mark.parametrize("cell", [{"cell": "gru"}, {"cell": "lstm", "layers": 2}], ids=["gru", "lstm"])
def test_the_weights_of_every_decoder_follow_from_its_states(
    score: str, style: str, cell: dict[str, object]
) -> None:
    model = trained(score=score, style=style, **cell)
    (translation,) = model.align(["three two one"], ["deux un trois deux"])
    steps = model.decoder_steps(translation)
    p = model.network.parameters
    assert steps.states.shape == (4, 12)
    assert steps.values.shape == (4, 12)
    queries = steps.states @ p["query_weight"] if "query_weight" in p else steps.states
    keys = steps.values @ p["key_weight"] if "key_weight" in p else steps.values
    if score == "additive":
        scores = np.tanh(queries[:, None] + keys) @ p["attention_vector"]
    else:
        scores = queries @ keys.T / (np.sqrt(5) if score == "scaled_dot" else 1)
    weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights, translation.alignment, atol=1e-5)
    attention = steps.attend()
    np.testing.assert_allclose(attention.weights, weights, atol=1e-5)
    np.testing.assert_allclose(attention.context, weights @ steps.values, atol=1e-5)


def test_the_steps_of_an_own_translation_have_its_tokens(model: Seq2Seq) -> None:
    (translation,) = model.translate(["two one zero"])
    steps = model.decoder_steps(translation)
    assert (steps.source_tokens, steps.target_tokens) == (translation.source, translation.tokens)
    np.testing.assert_allclose(steps.attend().weights, translation.alignment, atol=1e-5)


@pytest.mark.slow
def test_retrieved_tokens_are_read_too() -> None:
    model = Seq2Seq(network=SIZES, extras={"similar": 1}, epochs=2).fit(*PAIRS)
    (translation,) = model.align(["two three one"], ["deux"])
    weights, read = translation.full_alignment()
    steps = model.decoder_steps(translation)
    assert steps.source_tokens == read
    np.testing.assert_allclose(steps.attend().weights, weights, atol=1e-5)


def test_a_notebook_shows_the_steps_as_a_page(model: Seq2Seq) -> None:
    shown = model.decoder_steps(model.align(["two one"], ["un"])[0])._repr_html_()
    assert shown is not None
    assert shown.startswith("<iframe")


@pytest.mark.slow
def test_what_has_no_such_steps_is_an_error(model: Seq2Seq) -> None:
    network = {"model_size": 8, "heads": 2, "feedforward_size": 8}
    transformer = Seq2Seq(family="transformer", network=network, epochs=1).fit(*PAIRS)
    (translation,) = transformer.align(["two"], ["deux"])
    rule = "decoder steps are those of a recurrent network with attention"
    with pytest.raises(ValueError, match=rf"{rule}\. Got a transformer network instead"):
        transformer.decoder_steps(translation)
    plain = Seq2Seq(attention=False, epochs=1).fit(*PAIRS)
    with pytest.raises(ValueError, match=rf"{rule}\. Got one without attention instead"):
        plain.decoder_steps(translation)
    with pytest.raises(ValueError, match="translation must come from this model"):
        model.decoder_steps(translation)
    with pytest.raises(ValueError, match="translation must have a token, which a step writes"):
        model.decoder_steps(model.align(["two"], [""])[0])
    with pytest.raises(TypeError, match="translation must be a Translation, such as"):
        model.decoder_steps(model.align(["two"], ["deux"]))
