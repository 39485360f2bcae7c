"""A fit that fails or is interrupted leaves an estimator as it was."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from interrupted import interrupted_everywhere

import regard_estimators as estimators


def targets_of(name: str, x: Any) -> Any:
    return x[:, 0] ** 2 if name == "AttentionRegressor" else np.where(x[:, 0] < 4, "low", "high")


@pytest.fixture(params=["AttentionRegressor", "AttentionClassifier"])
def name(request: pytest.FixtureRequest) -> str:
    """The name of each estimator."""
    return str(request.param)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two states have the same objects."""
    return one.keys() == other.keys() and all(one[key] is other[key] for key in one)


def modules_of_fit(name: str) -> tuple[str, ...]:
    """The modules that assign to an estimator."""
    return tuple(
        inspect.getfile(cls)
        for cls in getattr(estimators, name).__mro__
        if cls.__module__.startswith("regard")
    )


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("everywhere", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_interrupted_fit_changes_nothing(name: str, is_fitted: bool, everywhere: bool) -> None:
    """Before each statement of the modules that assign to an estimator, and before some of what they call."""
    x = np.arange(24.0).reshape(8, 3)
    y = targets_of(name, x)
    model = getattr(estimators, name)(max_iter=1, random_state=0)
    if is_fitted:
        model.fit(x[:, :2] + 1, y[::-1])
    before = dict(vars(model))
    complete = getattr(estimators, name)(max_iter=1, random_state=0).fit(x, y)
    ends = 0
    places: dict[str, Any] = {"every": 997} if everywhere else {"within": modules_of_fit(name)}
    for _ in interrupted_everywhere(lambda: model.fit(x, y), **places):
        if not same(vars(model), before):  # after the last statement but one, all is done
            ends += 1
            np.testing.assert_array_equal(model.parameters_, complete.parameters_)
            np.testing.assert_array_equal(model.predict(x), complete.predict(x))
            vars(model).clear()
            vars(model).update(before)
    assert ends <= 2


def test_a_fit_that_fails_changes_nothing(name: str) -> None:
    pandas = pytest.importorskip("pandas")
    x = np.arange(24.0).reshape(8, 3)
    y = targets_of(name, x)
    model = getattr(estimators, name)().fit(pandas.DataFrame(x[:, :2], columns=["a", "b"]), y)
    before = dict(vars(model))
    wrong: list[dict[str, Any]] = [
        {"X": np.where(x == 5, np.nan, x)},
        {"y": y[:-1]},
        {"y": [None] * 8},
        {"sample_weight": -np.ones(8)},
        {"sample_weight": np.zeros(8)},
    ]
    for change in wrong:
        with pytest.raises((ValueError, TypeError)):
            model.fit(**{"X": x, "y": y} | change)
        assert same(vars(model), before)
    model.set_params(alpha=-1)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="alpha"):
        model.fit(x, y)
    assert same(vars(model), before)


def test_a_second_fit_forgets_the_names_of_the_first(name: str) -> None:
    pandas = pytest.importorskip("pandas")
    x = np.arange(24.0).reshape(8, 3)
    y = targets_of(name, x)
    model = getattr(estimators, name)().fit(pandas.DataFrame(x, columns=["a", "b", "c"]), y)
    assert not hasattr(model.fit(x[:, :2], y), "feature_names_in_")
    assert model.n_features_in_ == 2
