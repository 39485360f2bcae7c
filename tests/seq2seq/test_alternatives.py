"""The most probable tokens at each step of a translation: the network's own probabilities, whatever was written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from network_formulas import recurrent_steps, softmax

from regard.seq2seq import Ensemble, Seq2Seq
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.sources.text.vocabulary import END, SPECIAL, START

PAIRS = ["one two", "two", "three one", "two three one"], ["un deux", "deux", "trois un", "deux trois un"]
SIZES = {"embedding": 8, "encoder": 6, "decoder": 12, "attention": 5}


def trained(**options: Any) -> Seq2Seq:
    model = Seq2Seq(**{"network": SIZES, "epochs": 3} | options).fit(*PAIRS)
    network = model.network
    network.parameters = Parameters(network.config.shapes(), network.parameters.flat.astype(np.float64))
    return model


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    return trained()


def test_they_are_the_probabilities_of_the_formulas(model: Seq2Seq) -> None:
    (translation,) = model.align(["three two"], ["deux deux un"])
    p, side = dict(model.network.parameters), model.model.target
    ids = np.array([*model.model.source.tokenizer.encode(["three", "two"]), END])
    before = [START, *side.encode(["deux", "deux", "un"])]
    shares = softmax(np.array(recurrent_steps(p, model.network.config, ids, before)[0]))
    steps = model.alternatives(translation, 99)
    assert [len(step) for step in steps] == [len(side.tokens) - END] * 4
    for step, share in zip(steps, shares, strict=True):
        order = END + np.argsort(-share[END:], kind="stable")
        assert [each.token for each in step] == [side.tokens[i] for i in order]
        np.testing.assert_allclose([each.probability for each in step], share[order], rtol=1e-12)
    assert [step[:2] for step in steps] == model.alternatives(translation, 2)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["recurrent", "transformer", "ensemble"])
def test_what_was_written_has_the_probability_of_the_translation(family: str) -> None:
    small = {"model_size": 8, "heads": 2, "feedforward_size": 8}
    transformer = {"family": "transformer", "network": small}
    model: Any = trained(**transformer if family == "transformer" else {})
    model = Ensemble([model, trained(seed=2)]) if family == "ensemble" else model
    for translation in (*model.translate(PAIRS[0]), *model.sample(["two one"], count=3)[0]):
        steps = model.alternatives(translation, 99)
        written = [*translation.tokens, SPECIAL[END]][: len(translation.log_probabilities)]
        shares = [dict(step)[token] for step, token in zip(steps, written, strict=True)]
        np.testing.assert_allclose(np.log(shares), translation.log_probabilities, atol=1e-9)


def test_a_translation_that_was_cut_off_has_no_step_of_its_end(model: Seq2Seq) -> None:
    (whole,) = model.align(["one"], ["un deux"])
    cut = replace(whole, log_probabilities=whole.log_probabilities[:2])
    assert model.alternatives(cut) == model.alternatives(whole)[:2]


@pytest.mark.slow
def test_retrieved_tokens_are_read_and_unknown_ones_have_their_name() -> None:
    pytest.importorskip("regard_lexicon")
    model = trained(extras={"similar": 1})
    (translation,) = model.align(["two three one"], ["deux neuf"])
    assert translation.tokens == ("deux", "neuf")
    steps = model.alternatives(translation, 99)
    chosen = dict(steps[0])["deux"], dict(steps[1])["<unk>"]
    np.testing.assert_allclose(np.log(chosen), translation.log_probabilities[:2], atol=1e-9)


def test_a_translation_of_another_model_is_an_error(model: Seq2Seq) -> None:
    (translation,) = model.align(["two"], ["deux"])
    for wrong in ({"ids": (99,)}, {"ids": ()}, {"tokens": ("deux", "un")}):
        with pytest.raises(ValueError, match="translation must come from this model; it has other tokens"):
            model.alternatives(replace(translation, **wrong))
    with pytest.raises(ValueError, match=r"count must be at least 1\. Got 0 instead"):
        model.alternatives(translation, 0)
    with pytest.raises(TypeError, match="translation must be a Translation"):
        model.alternatives([translation])  # type: ignore[arg-type]
