"""A decoder opened: from what attends at its steps follow the weights, readouts and words of the translation."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from network_formulas import recurrent_steps, softmax, transformer_steps

from regard.seq2seq import Seq2Seq
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.sources.text.vocabulary import END, START
from regard.show.page.mechanism import of_decoder

TRANSFORMER = {"model_size": 8, "heads": 2, "feedforward_size": 12, "encoder_layers": 2, "decoder_layers": 3}
PAIRS = ["one two", "two", "three one", "two three one"], ["un deux", "deux", "trois un", "deux trois un"]
SIZES = {"embedding": 8, "encoder": 6, "decoder": 12, "attention": 5}


def trained(**network: object) -> Seq2Seq:
    sizes = dict(SIZES)
    if network.get("score") in ("dot", "general", "location"):
        del sizes["attention"]
    return Seq2Seq(network=sizes | network, epochs=2).fit(*PAIRS)


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    return trained()


@pytest.fixture(scope="module")
def transformer() -> Seq2Seq:
    return Seq2Seq(family="transformer", network=TRANSFORMER, epochs=2).fit(*PAIRS)


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
def test_what_has_no_such_steps_is_an_error(model: Seq2Seq, transformer: Seq2Seq) -> None:
    plain = Seq2Seq(attention=False, epochs=1).fit(*PAIRS)
    (translation,) = plain.align(["two"], ["deux"])
    with pytest.raises(
        ValueError, match=r"decoder steps are those of a network with attention\. Got one without"
    ):
        plain.decoder_steps(translation)
    with pytest.raises(ValueError, match="translation must come from this model"):
        model.decoder_steps(translation)
    with pytest.raises(ValueError, match="translation must have a token, which a step writes"):
        model.decoder_steps(model.align(["two"], [""])[0])
    with pytest.raises(TypeError, match="translation must be a Translation, such as"):
        model.decoder_steps(model.align(["two"], ["deux"]))
    with pytest.raises(ValueError, match="layer, head and part are those of a transformer"):
        model.decoder_steps(model.align(["two"], ["deux"])[0], head=1)
    (written,) = transformer.align(["two"], ["deux"])
    for wrong in ({"layer": 4}, {"layer": 0}, {"head": 3}, {"part": "encoder"}):
        with pytest.raises(ValueError, match=r"must be (at (least|most)|one of)"):
            transformer.decoder_steps(written, **wrong)


def exact(model: Seq2Seq) -> dict[str, Any]:
    """Make the parameters of a model float64, and return them."""
    network = model.network
    network.parameters = Parameters(network.config.shapes(), network.parameters.flat.astype(np.float64))
    return dict(network.parameters)


def read_ids(model: Seq2Seq, source: str, target: str) -> tuple[Any, list[int]]:
    """The ids of the source with END, and those that the decoder reads."""
    ids = [model.model.source.tokenizer.encode(source.split()), model.model.target.encode(target.split())]
    return np.array([*ids[0], END]), [START, *ids[1]]


def largest(logits: Any, count: int) -> Any:
    """The largest probabilities of tokens that may follow, in falling order."""
    return -np.sort(-softmax(np.array(logits))[..., END:], axis=-1)[..., :count]


@pytest.mark.slow
@pytest.mark.parametrize("style", ["bahdanau", "conditional", "luong"])
@pytest.mark.parametrize("cell", [{"cell": "gru"}, {"cell": "lstm", "layers": 2}], ids=["gru", "lstm"])
def test_a_recurrent_decoder_is_opened_to_the_words_that_it_predicts(
    style: str, cell: dict[str, Any]
) -> None:
    model = trained(style=style, **cell)
    p, (source, target) = exact(model), ("three two one", "deux un trois")
    (translation,) = model.align([source], [target])
    steps, (ids, before) = model.decoder_steps(translation), read_ids(model, source, target)
    logits, weights = recurrent_steps(p, model.network.config, ids, before[:-1])
    assert (steps.style, steps.after.shape, steps.readouts.shape) == (style, (3, 12), (3, 8))
    np.testing.assert_allclose(steps.attend().weights, weights, atol=1e-12)
    np.testing.assert_allclose(
        steps.readouts @ p["target_embedding"].T + p["output_bias"], logits, atol=1e-12
    )
    read = p["target_embedding"][before[:-1]] @ p["readout_word"] if "readout_word" in p else 0
    of_both = steps.after @ p["readout_state"] + steps.attend().context @ p["readout_context"]
    np.testing.assert_allclose(np.tanh(read + of_both + p["readout_bias"]), steps.readouts, atol=1e-12)
    shares = [[share for _, share in step] for step in steps.predicted]
    np.testing.assert_allclose(shares, largest(logits, 5), atol=1e-12)
    attends = {"bahdanau": steps.after[:-1], "luong": steps.after}
    if style in attends:  # the state of the step before, or of the step itself
        np.testing.assert_array_equal(steps.states[-len(attends[style]) :], attends[style])
    else:  # between them
        assert not any(
            np.isclose(steps.states, each).all(axis=1).any()
            for each in (steps.after, np.roll(steps.after, 1, 0))
        )


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"normalize": "sparsemax", "score": "cosine"}, "options"),
        ({"normalize": "entmax", "score": "gaussian"}, "options"),
        ({"normalize": "entmax", "alpha": 1.25}, "given"),
        ({"normalize": "sigmoid", "score": "concat"}, "given"),
        ({"normalize": "hard"}, "options"),
        ({"normalize": "local_m", "window": 1}, "given"),
        ({"normalize": "local_p", "window": 2, "style": "luong"}, "given"),
        ({"score": "location", "positions": 3}, "options"),
    ],
)
def test_other_scores_and_normalizations_are_opened(options: dict[str, Any], kind: str) -> None:
    """A page computes those that it has, and shows the numbers of the others."""
    model = trained(**options)
    p, (source, target) = exact(model), ("three two one", "deux un trois")
    (translation,) = model.align([source], [target])
    steps, (ids, before) = model.decoder_steps(translation), read_ids(model, source, target)
    _, weights = recurrent_steps(p, model.network.config, ids, before[:-1])
    np.testing.assert_allclose(steps.attend().weights, weights, atol=1e-12)
    assert kind in of_decoder(steps).data


@pytest.mark.slow
def test_every_head_of_a_transformer_is_opened_to_its_matrices(transformer: Seq2Seq) -> None:
    source, target = "three two one", "deux un trois"
    p, (ids, before) = exact(transformer), read_ids(transformer, source, target)
    (translation,) = transformer.align([source], [target])
    logits, _ = transformer_steps(p, transformer.network.config, ids, before[:-1])
    heads = transformer.heads(translation)
    for part, layer, head in product(("source", "decoder"), (1, 2, 3), (1, 2)):
        steps = transformer.decoder_steps(translation, layer=layer, head=head, part=part)
        names = (heads.source_tokens if part == "source" else heads.previous_tokens), heads.target_tokens
        assert (steps.source_tokens, steps.target_tokens, steps.style) == (*names, "transformer")
        attention = steps.attend()
        np.testing.assert_allclose(attention.weights, getattr(heads, part)[layer - 1, head - 1], atol=1e-12)
        for made, of, weight in (
            ("queries", "states", "query"),
            ("keys", "annotations", "key"),
            ("values", "annotations", "value"),
        ):
            matrix = getattr(steps, f"{weight}_weight")
            assert matrix.shape == (8, 4)
            np.testing.assert_allclose(getattr(steps, of) @ matrix, getattr(steps, made), atol=1e-12)
        np.testing.assert_allclose(
            steps.readouts @ p["target_embedding"].T + p["output_bias"], logits, atol=1e-12
        )
    shares = [[share for _, share in step] for step in steps.predicted]
    np.testing.assert_allclose(shares, largest(logits, 5), atol=1e-12)
    default = transformer.decoder_steps(translation)
    aligned = heads.source[transformer.network.config.aligned, 0]
    np.testing.assert_array_equal(default.attend().weights.round(12), aligned.round(12))
