"""The estimators with finite numbers of any size: units have no influence, and every result is finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard_estimators import AttentionClassifier, AttentionRegressor

MOST = np.finfo(np.float64).max
LEAST = 5e-324
ANY = [0.0, LEAST, -1e-320, 1e-308, 1e-160, 1.0, -2.0, 1e100, -1e160, 1e308, MOST, -MOST]


def table(rows: int = 12) -> tuple[Any, Any]:
    """Rows and targets that are small integers, which have all their digits in every unit."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.permutation(rows), rng.integers(0, 9, rows)]).astype(float)
    return x, np.round(3 * np.sin(x[:, 0])) + x[:, 1]


@pytest.fixture(params=[AttentionRegressor, AttentionClassifier])
def estimator(request: pytest.FixtureRequest) -> Any:
    """Each estimator's class."""
    return request.param


@pytest.mark.parametrize("power", [-1074, -1030, 400, 1020])
def test_the_unit_of_the_weights_has_no_influence(estimator: Any, power: int) -> None:
    x, y = table()
    y, weights = (y > 3).astype(int), np.arange(1.0, 13.0)
    model = estimator().fit(x, y, weights)
    other = estimator().fit(x, y, np.ldexp(weights, power))
    np.testing.assert_array_equal(other.parameters_, model.parameters_)
    np.testing.assert_array_equal(other.predict(x), model.predict(x))
    assert other.score(x, y, np.ldexp(weights, power)) == model.score(x, y, weights)


@pytest.mark.parametrize("power", [-1074, -1030, 400, 1019])
def test_the_unit_of_features_and_targets_has_no_influence(power: int) -> None:
    x, y = table()
    model = AttentionRegressor(max_iter=5).fit(x, y)
    columns, moved = np.array([power, 3]), x + np.array([1, 0])
    scaled = AttentionRegressor(max_iter=5).fit(np.ldexp(x, columns), np.ldexp(y, power))
    np.testing.assert_array_equal(scaled.parameters_, model.parameters_)
    expected = np.ldexp(model.predict(moved), power)
    np.testing.assert_array_equal(scaled.predict(np.ldexp(moved, columns)), expected)
    if power > -1000:  # otherwise predictions have few digits
        assert scaled.score(np.ldexp(x, columns), np.ldexp(y, power)) == pytest.approx(model.score(x, y))


def test_columns_from_the_least_to_the_largest_number() -> None:
    """Half the rows at each end of the range: as if the ends were -1 and 1."""
    signs = np.array([-1.0, 1.0] * 5)
    x = np.column_stack([signs, np.arange(10.0)])
    small = AttentionRegressor().fit(x, signs)
    large = AttentionRegressor().fit(x * [MOST, 1], signs * MOST)
    np.testing.assert_allclose(large.predict(x * [MOST, 1]) / MOST, small.predict(x), rtol=1e-9)


def test_a_column_that_is_constant_in_training_has_no_influence(estimator: Any) -> None:
    x, y = table()
    y = (y > 3).astype(int)
    x[:, 1] = 5
    model = estimator().fit(x, y)
    expected = model.predict(x)
    for number in (0.0, 6.0, 1e300, -MOST):
        x[:, 1] = number
        np.testing.assert_array_equal(model.predict(x), expected)


def test_a_row_of_almost_no_weight_is_attended_where_no_other_is_near() -> None:
    x = np.array([[0.0], [1.0], [2.0], [3.0], [1e9]])
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1e-320])
    model = AttentionRegressor(degree=0).fit(x, [0.0, 1.0, 0.0, 1.0, 7.0], weights)
    assert model.predict([[1e9]]) == pytest.approx(7.0)
    assert model.predict([[1.5]]) == pytest.approx(0.5, abs=0.1)


def test_rows_beyond_what_can_be_computed_are_refused(estimator: Any) -> None:
    x, y = table()
    y = (y > 3).astype(int)
    model = estimator().fit(x, y)
    far = x.copy()
    far[7, 1] = 1e60
    for call in (model.predict, model.explain, lambda x: model.score(x, y)):
        with pytest.raises(ValueError, match=r"within 1e\+50 standard deviations .* row 7, column 1"):
            call(far)
    weights = np.ones(12)
    weights[7] = 1e-200  # so that the others decide about the standard deviation
    with pytest.raises(ValueError, match=r"within 1e\+50 standard deviations .* row 7, column 1"):
        estimator().fit(far, y, weights)


def test_targets_beyond_what_can_be_computed_are_refused() -> None:
    x, y = table()
    y[7] = 1e60
    weights = np.ones(12)
    weights[7] = 1e-200
    with pytest.raises(ValueError, match="Input y has one farther away in row 7, column 0"):
        AttentionRegressor().fit(x, y, weights)


def test_a_stronger_prior_than_can_be_computed_is_refused(estimator: Any) -> None:
    with pytest.raises(ValueError, match=r"alpha must be at most 1e\+100"):
        estimator(alpha=1e308).fit(*table())


def column(rng: np.random.Generator, rows: int) -> Any:
    """Numbers of all sizes, of one size, a few of them again and again, or ordinary ones with exceptions."""
    ordinary, any_size = rng.standard_normal(rows), rng.choice(ANY, rows)
    return [
        any_size,
        ordinary * rng.choice(ANY[:-3]),
        rng.choice(rng.choice(ANY, 3), rows),
        np.where(rng.random(rows) < 0.7, ordinary, any_size),
        ordinary,
    ][rng.integers(5)]


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 150), marks=pytest.mark.slow)])
def test_all_results_are_finite_or_refused(estimator: Any, seeds: range) -> None:
    """Warnings are errors, too."""
    refused: list[int] = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(3, 12))
        x = np.column_stack([column(rng, rows) for _ in range(rng.integers(1, 4))])
        y = column(rng, rows) if estimator is AttentionRegressor else np.arange(rows) % 2
        weights = None if seed % 2 else np.abs(column(rng, rows))
        options: dict[str, Any] = {
            "metric": str(rng.choice(["scalar", "diagonal", "full"])),
            "alpha": float(rng.choice([0, 1e-320, 10, 1e100])),
        }
        model = estimator(**options, max_iter=5, random_state=seed)
        try:
            model.fit(x, y, weights)
            results = [
                model.parameters_,
                model.predict(x),
                model.explain(x).weights,
                model.score(x, y, weights),
            ]
        except ValueError:
            refused.append(seed)
            continue
        assert all(np.isfinite(result).all() for result in results), seed
    assert len(refused) < len(seeds) / 2
    assert all(seed % 2 == 0 for seed in refused)  # only weights make the deviation small beside a number
