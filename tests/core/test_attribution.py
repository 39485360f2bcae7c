"""Attribution: against definitions written as loops, scipy.stats, and models whose important inputs are known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr

import regard
from regard import attribution

Array = NDArray[Any]


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


# ----------------------------------------------------------------------------------------------- contributions


def test_contributions_are_the_lengths_of_what_is_summed() -> None:
    values, projections = draw(2, 5, 4), draw(2, 4, 3, seed=1)
    attention = regard.attend(draw(2, 3, 6, seed=2), draw(2, 5, 6, seed=3), values)
    parts = np.einsum("hij,hje,hed->hijd", attention.weights, values, projections)  # what each head adds
    np.testing.assert_allclose(parts.sum(axis=2), attention.context @ projections)
    lengths = attribution.contributions(attention.weights, values, projections)
    np.testing.assert_allclose(lengths, np.linalg.norm(parts, axis=-1))
    joint = attribution.contributions(attention.weights, values, projections, joint=True)
    np.testing.assert_allclose(joint, np.linalg.norm(parts.sum(axis=0), axis=-1))


def test_heads_that_cancel_contribute_nothing_together() -> None:
    weights, values = np.full((2, 1, 3), 1 / 3), np.stack([np.ones((3, 2)), -np.ones((3, 2))])
    assert attribution.contributions(weights, values, joint=True).tolist() == [[0, 0, 0]]


# ----------------------------------------------------------------------------------------------------- rollout


@pytest.mark.parametrize("residual", [0.0, 0.3, 0.5, 1.0])
def test_rollout_is_the_share_of_each_input_in_linear_layers(residual: float) -> None:
    """Layers that mix their inputs by weights alone, as rollout assumes, are computed for one input after another."""
    layers = [softmax(draw(4, 4, seed=seed)) for seed in range(3)]
    outputs = np.eye(4)
    for weights in layers:
        outputs = residual * outputs + (1 - residual) * weights @ outputs
    shares = attribution.rollout(layers, residual=residual)
    np.testing.assert_allclose(shares, outputs, atol=1e-12)
    np.testing.assert_allclose(shares.sum(axis=-1), 1)


def test_rollout_where_nothing_is_visible() -> None:
    hidden = [[0.0, 0.0], [0.5, 0.5]]
    assert attribution.rollout([hidden]).tolist() == [[1, 0], [0.25, 0.75]]
    assert attribution.rollout([hidden], residual=0).tolist() == [[0, 0], [0.5, 0.5]]


# ----------------------------------------------------------------------------------------------------- erasure


def total(variants: list[list[float]]) -> list[float]:
    return [sum(each) for each in variants]


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=9), st.integers(1, 10))
def test_a_sum_loses_what_is_erased(numbers: list[int], batch: int) -> None:
    done: list[int] = []
    losses = attribution.erasure(total, numbers, batch=batch, progress=done.append)
    assert losses.tolist() == numbers
    assert (sum(done), max(done) <= batch) == (len(numbers), True)
    assert attribution.erasure(total, numbers, replacement=1).tolist() == [x - 1 for x in numbers]


def test_erasure_finds_the_input_that_each_output_is_computed_from() -> None:
    """A lookup: output i is 5 times input `sources[i]`, whatever the others are."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        m = int(rng.integers(2, 12))
        sources, inputs = rng.integers(m, size=7), rng.normal(size=m) + 3
        losses = attribution.erasure(
            lambda x, s=sources: 5 * np.array(x)[:, s], list(inputs), replacement=0.0
        )  # type: ignore[misc]
        assert losses.shape == (7, m)
        assert losses.argmax(axis=1).tolist() == sources.tolist()
        assert (losses != 0).sum() == 7


def test_erasure_goes_on_with_missing_positions() -> None:
    inputs = [1.0, 2.0, 4.0, 8.0]
    parts = [attribution.erasure(total, inputs, positions=part) for part in ([0, 1], [2], [3])]
    assert np.concatenate(parts, axis=-1).tolist() == inputs
    assert attribution.erasure(total, inputs, positions=[]).shape == (0,)


def test_rows_of_an_array_are_replaced_by_their_mean() -> None:
    rows = draw(5, 3)
    losses = attribution.erasure(lambda x: np.array(x).sum(axis=(1, 2)), rows, replacement=rows.mean(axis=0))
    np.testing.assert_allclose(losses, rows.sum(axis=1) - rows.mean(axis=0).sum(), atol=1e-12)


# ------------------------------------------------------------------------------------------------ faithfulness


def test_faithfulness_by_hand() -> None:
    """Of 8, 4, 2, 1 the largest half is 12, the largest quarter 8."""
    result = attribution.faithfulness(total, [1, 8, 2, 4], [1, 8, 2, 4], shares=[0.25, 0.5])
    assert (result.comprehensiveness, result.sufficiency) == ((8 + 12) / 2, (7 + 3) / 2)
    worst = attribution.faithfulness(total, [1, 8, 2, 4], [-1, -8, -2, -4], shares=[0.25, 0.5])
    assert (worst.comprehensiveness, worst.sufficiency) == ((1 + 3) / 2, (14 + 12) / 2)


def test_everything_is_comprehensive_and_sufficient() -> None:
    result = attribution.faithfulness(lambda x: [[sum(each), 1] for each in x], [1, 2], [1, 1], shares=[1])
    assert result.comprehensiveness.tolist() == [3, 0]
    assert result.sufficiency.tolist() == [0, 0]


def test_each_output_has_its_own_most_important_inputs() -> None:
    """Row i of importance is for output i alone: as many calls with one row each."""
    rng, inputs = np.random.default_rng(2), list(range(7))
    table = rng.normal(size=(7, 3, 2))

    def model(variants: list[list[int]]) -> list[Array]:
        return [table[each].sum(axis=0) ** 3 for each in variants]

    importance = rng.random((3, 2, 7))
    result = attribution.faithfulness(model, inputs, importance)
    for i, j in np.ndindex(3, 2):
        alone = attribution.faithfulness(model, inputs, importance[i, j])
        for side in range(2):
            assert result[side].shape == (3, 2)
            assert result[side][i, j] == pytest.approx(alone[side][i, j])


def test_equal_sets_of_inputs_are_computed_once() -> None:
    asked: list[int] = []
    attribution.faithfulness(
        lambda x: (asked.extend(map(len, x)), np.ones((len(x), 4)))[1], [1, 2, 3], np.eye(4, 3)
    )  # type: ignore[func-returns-value]
    assert sorted(asked) == [1, 1, 1, 2, 2, 2, 3]  # of 4 rows, 3 shares and 2 sides


# --------------------------------------------------------------------------------------------------- bootstrap


def test_a_mean_has_the_interval_of_its_examples() -> None:
    measure = attribution.bootstrap([[1.0, np.nan, 3.0], [], [np.nan], 5.0], chance=0.25)
    assert (measure.value, measure.low, measure.high, measure.chance) == (3, 2, 5, 0.25)
    nothing = attribution.bootstrap([[np.nan]])
    assert np.isnan(nothing).all()


# --------------------------------------------------------------------------------------------------- agreement


@given(st.data(), st.integers(2, 7), st.integers(1, 5))
def test_agreement_is_that_of_scipy(data: st.DataObject, m: int, n: int) -> None:
    numbers = st.lists(st.integers(0, 4), min_size=m, max_size=m)
    weights, importance = (np.array([data.draw(numbers) for _ in range(n)], float) for _ in range(2))
    result = attribution.agreement(weights, importance, samples=10)
    varied = [
        float(spearmanr(w, i).statistic)
        for w, i in zip(weights, importance, strict=True)
        if np.ptp(w) and np.ptp(i)
    ]
    assert result.rows == n
    assert result.correlation.value == pytest.approx(
        np.mean(varied) if varied else np.nan, abs=1e-9, nan_ok=True
    )
    top = [
        np.mean([i[j] == i.max() for j in range(m) if w[j] == w.max()])
        for w, i in zip(weights, importance, strict=True)
    ]
    assert result.top.value == pytest.approx(np.mean(top))


def test_chance_is_what_random_weights_give() -> None:
    importance = [draw(n, m, seed=m) for n, m in ((30, 3), (20, 9), (50, 5))]
    drawn = [
        attribution.agreement(
            [draw(*x.shape, seed=100 * seed + i) for i, x in enumerate(importance)], importance
        )
        for seed in range(40)
    ]
    chance = drawn[0].top.chance
    assert chance == pytest.approx((30 / 3 + 20 / 9 + 50 / 5) / 100)
    assert np.mean([one.top.value for one in drawn]) == pytest.approx(chance, abs=0.03)
    assert np.mean([one.correlation.value for one in drawn]) == pytest.approx(0, abs=0.05)


def test_the_interval_has_the_mean_of_the_population_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(4), 0
    for _ in range(200):
        measure = attribution.bootstrap(rng.random((60, 1)) < 0.7, samples=300, rng=rng)
        held += measure.low <= 0.7 <= measure.high
    assert 0.88 < held / 200 < 0.99


def test_examples_are_drawn_whole() -> None:
    """Rows of an example are alike: with 4 examples of 50 equal rows the interval is as wide as of 4 rows."""
    right, wrong = [[0.9, 0.1]], [[0.1, 0.9]]
    importance = [right, right, wrong, wrong]
    few = attribution.agreement([right] * 4, importance).top
    many = attribution.agreement([right * 50] * 4, [each * 50 for each in importance]).top
    assert (many.low, many.high) == (few.low, few.high) == (0, 1)


def test_what_is_not_visible_and_single_inputs_are_left_out() -> None:
    hidden = np.nan
    weights = [[0.9, 0.1, hidden], [0.5, 0.5, 0.0], [hidden, hidden, 1.0]]
    importance = [[2.0, 1.0, 9.0], [1.0, hidden, 0.0], [1.0, 2.0, 3.0]]
    result = attribution.agreement(weights, importance)
    assert (result.rows, result.top.value, result.top.chance) == (2, 1, 0.5)
    assert result.correlation.value == pytest.approx(1)


def test_equal_weights_are_the_top_as_probably() -> None:
    result = attribution.agreement([[0.25] * 4], [[0.0, 1.0, 0.0, 0.0]])
    assert result.top.value == 0.25
    assert np.isnan(result.correlation.value)


def test_the_sentence_has_the_figures() -> None:
    result = attribution.agreement([[0.7, 0.3], [0.6, 0.4]], [[2, 1], [2, 1]])
    assert str(result) == (
        "the most attended input is the most important one in 100.0% of 2 rows (95 % interval 100.0% to 100.0%, "
        "chance 50.0%); the ranks agree by 1.00 (1.00 to 1.00, chance 0)"
    )


# ------------------------------------------------------------------------------------------------------ errors

WRONG: dict[str, tuple[Any, str]] = {
    "lengths": (
        lambda: attribution.contributions(np.ones((2, 3)), np.ones((4, 1))),
        "values must be (..., 3, e)",
    ),
    "nan": (lambda: attribution.contributions([[np.nan]], [[1.0]]), "weights must hold finite numbers"),
    "vector": (
        lambda: attribution.contributions([1.0], [[1.0]]),
        "weights must be (..., n, m). Got shape (1,)",
    ),
    "projection": (
        lambda: attribution.contributions(np.ones((2, 3)), np.ones((3, 4)), np.ones((5, 2))),
        "projection must be (..., 4, d)",
    ),
    "no heads": (
        lambda: attribution.contributions(np.ones((2, 3)), np.ones((3, 4)), joint=True),
        "must have an axis of heads",
    ),
    "no layers": (lambda: attribution.rollout([]), "layers must not be empty"),
    "cross-attention": (lambda: attribution.rollout([np.ones((2, 3))]), "layer 0 must be (..., 2, 2)"),
    "negative": (
        lambda: attribution.rollout([np.eye(2), -np.eye(2)]),
        "layer 1 must have no negative weight",
    ),
    "sizes": (lambda: attribution.rollout([np.eye(2), np.eye(3)]), "layer 1 must be (..., 2, 2)"),
    "residual": (lambda: attribution.rollout([np.eye(2)], residual=1.5), "residual must be at most 1"),
    "no inputs": (lambda: attribution.erasure(total, []), "inputs must not be empty"),
    "position": (lambda: attribution.erasure(total, [1.0], positions=[1]), "positions must be at most 0"),
    "outputs": (lambda: attribution.erasure(lambda x: [1.0], [1.0, 2.0]), "must be (2,)"),
    "importance": (lambda: attribution.faithfulness(total, [1.0, 2.0], [1.0]), "importance must be (..., 2)"),
    "importance of outputs": (
        lambda: attribution.faithfulness(total, [1.0, 2.0], [[1.0, 2.0]]),
        "importance must be (2,) as outputs are. Got (1, 2)",
    ),
    "samples": (lambda: attribution.bootstrap([[1.0]], samples=0), "samples must be at least 1"),
    "shares": (lambda: attribution.faithfulness(total, [1.0], [1.0], shares=[0.0]), "shares must be above 0"),
    "shapes": (lambda: attribution.agreement([[1.0, 2.0]], [[1.0]]), "must both be (n, m)"),
    "examples": (lambda: attribution.agreement([np.eye(2)], [np.eye(2)] * 2), "must both be (n, m)"),
    "infinite": (lambda: attribution.agreement([[1.0, np.inf]], [[1.0, 2.0]]), "must be finite"),
    "one input": (lambda: attribution.agreement([[1.0]], [[1.0]]), "at least two visible inputs"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name: str) -> None:
    call, rule = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(rule)):
        call()


def test_the_model_gets_lists() -> None:
    seen: list[Sequence[Any]] = []
    attribution.erasure(lambda x: (seen.extend(x), [0.0] * len(x))[1], ("a", "b"))  # type: ignore[func-returns-value]
    assert seen == [["a", "b"], ["b"], ["a"]]
