"""The leave-one-out loss: its value against loops, its gradient against finite differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from regard_estimators import fitting
from regard_estimators.metrics import METRICS, Gaussian
from regard_estimators.readouts import readout_of


def problem(metric: str, degree: int, *, prior: bool) -> Any:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((17, 3)), rng.standard_normal((17, 2))
    log_weights = np.log(rng.integers(1, 4, 17))
    rows = np.arange(0, 17, 2)

    def loss(predictions: Any) -> tuple[Any, Any]:
        difference = predictions - y[rows]
        return (difference**2).sum(1), 2 * difference

    model = fitting.LocalModel(
        Gaussian(metric, 3, 2 if metric == "full" else 3),
        readout_of(degree, 3, 2),
        y.mean(0) if prior else None,
    )
    parameters = model.initial(-0.3, x) + 0.1 * rng.standard_normal(model.size)
    return fitting.LeaveOneOut(model, x, y, log_weights, rows, loss), parameters


@pytest.mark.parametrize("prior", [False, True])
@pytest.mark.parametrize("degree", [0, 1])
@pytest.mark.parametrize("metric", METRICS)
def test_the_gradient_of_the_loss(metric: str, degree: int, prior: bool) -> None:
    loss, at = problem(metric, degree, prior=prior)
    steps = 1e-6 * np.eye(len(at))
    expected = [(loss(at + step)[0] - loss(at - step)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(loss(at)[1], expected, rtol=1e-6, atol=1e-7)


def similarity(width: float, a: Any, b: Any) -> float:
    """The score as in its formula, with one factor for all features."""
    return -sum((width * s - width * t) ** 2 for s, t in zip(a, b, strict=True)) / 2


def test_each_row_is_predicted_by_all_others() -> None:
    """Loops over rows and keys; a row of weight w counts w times."""
    loss, parameters = problem("scalar", 0, prior=False)
    width = math.exp(parameters[0])
    total = share = 0.0
    for i in loss.rows:
        others = [j for j in range(17) if j != i]
        factors = [math.exp(similarity(width, loss.x[i], loss.x[j]) + loss.log_weights[j]) for j in others]
        predicted = np.array(factors) @ loss.y[others] / math.fsum(factors)
        total += math.exp(loss.log_weights[i]) * float(((predicted - loss.y[i]) ** 2).sum())
        share += math.exp(loss.log_weights[i])
    assert loss(parameters)[0] == pytest.approx(total / share, rel=1e-9)


def test_a_line_through_its_keys() -> None:
    """NumPy's least squares, with rows multiplied by the root of their weights, is the independent party."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 2)), rng.standard_normal((20, 3))
    weights = rng.random(20)
    weights /= weights.sum()
    query = rng.standard_normal((1, 2))
    line = readout_of(1, 2, 3)
    predicted = line(np.array([-40.0]), weights[None] @ line.values(x, y), query)[0]
    root = np.sqrt(weights)[:, None]
    design = np.column_stack([np.ones(20), x])
    expected = np.array([[1, *query[0]]]) @ np.linalg.lstsq(root * design, root * y)[0]
    np.testing.assert_allclose(predicted, expected, rtol=1e-9)


def test_a_large_ridge_leaves_the_mean() -> None:
    line = readout_of(1, 1, 1)
    context = line.values(np.array([[0.0], [1.0]]), np.array([[2.0], [4.0]])).mean(0, keepdims=True)
    assert line(np.array([40.0]), context, np.array([[5.0]]))[0] == pytest.approx(3.0)


def test_a_line_is_followed_for_two_widths() -> None:
    """The line 2 x through (0, 0) and (1, 2), from the middle at 0.5: a query at 3 is 2.5 away."""
    line = readout_of(1, 1, 1)
    context = line.values(np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]])).mean(0, keepdims=True)
    for width, expected in ((10.0, 6.0), (1.25, 6.0), (1.0, 5.0), (0.5, 3.0)):
        predicted = line.predict(
            np.array([-40.0]), context, np.array([[3.0]]), lambda x, width=width: np.abs(x[:, 0]) / width
        )
        assert predicted == pytest.approx(expected)


def test_widths_are_those_of_the_gaussian() -> None:
    parameters = np.log([2.0, 0.5])
    lengths = Gaussian("diagonal", 2, 2).widths(parameters, np.array([[3.0, 16.0], [0.0, 0.0]]))
    np.testing.assert_allclose(lengths, [10.0, 0.0])


def test_a_matrix_of_few_rows_begins_with_the_main_axes() -> None:
    """Rows along (1, 1): the axis is that direction, with either sign."""
    x = np.array([[1.0, 1.1], [-2.0, -1.9], [3.0, 3.0]])
    axis = Gaussian("full", 2, 1).initial(np.log(2.0), x)
    np.testing.assert_allclose(np.abs(axis), 2 / np.sqrt(2), rtol=0.02)


@pytest.mark.parametrize("likelihood", [fitting.of_log_loss, fitting.of_squared_error])
def test_the_gradient_of_the_objective(likelihood: Any) -> None:
    loss, at = problem("diagonal", 1, prior=False)
    precision = np.linspace(0, 1, len(at))
    objective = fitting.Penalised(loss, likelihood, at - 0.5, precision)
    steps = 1e-6 * np.eye(len(at))
    expected = [(objective(at + step)[0] - objective(at - step)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(objective(at)[1], expected, rtol=1e-6, atol=1e-7)
    assert loss.value(at) == loss(at)[0]


def test_squared_errors_are_those_of_normal_errors() -> None:
    """SciPy's density, with the variance that makes the errors most likely."""
    errors = np.array([0.3, -0.2, 0.5])
    spread = np.sqrt(np.mean(errors**2))
    expected = -np.mean(stats.norm.logpdf(errors, scale=spread)) + stats.norm.logpdf(0, scale=1) - 0.5
    assert fitting.of_squared_error(spread**2)[0] == pytest.approx(expected, abs=1e-6)
