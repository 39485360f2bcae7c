"""A `Seq2Seq.fit` that is interrupted leaves the earlier model, or the best parameters of the new one."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from inspect import getfile
from typing import Any

import numpy as np
import pytest
from interrupted import interrupted_everywhere

from regard.seq2seq import Seq2Seq, TrainingConfig
from regard.seq2seq.training import checkpoint, loop, session
from regard.seq2seq.training.loop import Diverged

SOURCES, TARGETS = ["a b", "b", "c a", "a c", "b b"], ["x y", "y", "z x", "x z", "y y"]
OPTIONS: dict[str, Any] = {
    "training": TrainingConfig(epochs=3, learning_rate=0.005),  # small: each validation is the best so far
    "extras": {"lengths": 2},
}
HOLDERS = tuple(getfile(module) for module in (Seq2Seq, checkpoint, loop, session))


def fit(model: Seq2Seq, **options: Any) -> Seq2Seq:
    return model.fit(SOURCES, TARGETS, valid=(["c", "b a"], ["z", "y x"]), **options)


def bits(model: Seq2Seq) -> bytes:
    return model.network.parameters.flat.tobytes()


def bests() -> list[bytes]:
    """The best parameters after each validation of an undisturbed training that has improved them."""
    model, found = Seq2Seq(**OPTIONS), list[bytes]()
    for step in model.steps(list(zip(SOURCES, TARGETS, strict=True)), [("c", "z"), ("b a", "y x")]):
        found += [bits(model)] * step.best
    return found


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("everywhere", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_interrupted_fit_leaves_one_model(is_fitted: bool, everywhere: bool) -> None:
    """Before some statements of the package, and before each of the modules that hold the model of a fit.

    Of these, every other one with a model that was fitted before, and the rest with a new one.
    """
    holders = {"every": 2, "first": 1 + is_fitted, "within": HOLDERS}
    places: dict[str, Any] = {"every": 7919} if everywhere else holders
    best = bests()
    model = Seq2Seq(**OPTIONS)
    if is_fitted:
        model.fit(["q"], ["r"], valid=(["q q"], ["r r"]))
    content = bits(model) if is_fitted else b""
    tried, left = list[Seq2Seq](), set()
    for _ in interrupted_everywhere(lambda: (tried.append(copy(model)), fit(tried[-1])), **places):
        one = tried.pop()
        if one._model is model._model:
            assert one._unseen is model._unseen
            assert not is_fitted or bits(one) == content
        else:
            left.add(best.index(bits(one)))
            assert len(one._unseen) == 2
            assert one.translate(SOURCES)
    assert everywhere or left == set(range(len(best)))


@pytest.mark.parametrize("is_fitted", [False, True])
def test_a_fit_that_ends_before_its_first_validation_leaves_the_earlier_model(is_fitted: bool) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    model = Seq2Seq(**OPTIONS | {"training": replace(OPTIONS["training"], batch_tokens=4)})
    if is_fitted:
        fit(model)
    before = model._model, model._unseen
    content = bits(model) if is_fitted else b""
    with pytest.raises(KeyboardInterrupt):
        fit(model, listener=stop)
    assert (model._model, model._unseen) == before
    assert not is_fitted or bits(model) == content


def test_a_loss_that_is_not_finite_before_the_first_validation_leaves_the_earlier_model() -> None:
    model = fit(Seq2Seq(**OPTIONS | {"training": replace(OPTIONS["training"], batch_tokens=4)}))
    before, content = model.model, bits(model)

    def poison(_: object) -> None:
        model.network.parameters.flat[...] = np.nan

    with pytest.raises(Diverged):
        fit(model, listener=poison)
    assert model.model is before
    assert bits(model) == content
