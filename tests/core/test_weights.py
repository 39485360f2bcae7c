"""Step two: by hand, and by the conditions that define sparsemax and entmax as optima."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401 - so that NumPy knows bfloat16 by its name
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from one_test import in_one_test

import regard
from regard import weights

Array = NDArray[np.float64]
INF = np.inf
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "softmax": weights.softmax,
    "sparsemax": weights.sparsemax,
    "entmax15": weights.entmax15,
    "hard": weights.hard,
    "entmax(1.25)": weights.entmax(1.25),
    "entmax(3)": weights.entmax(3),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)
near = st.floats(-1.5, 1.5)  # so that several keys share the weight
rows = st.lists(
    st.one_of(near, near, st.floats(-30, 30), st.just(-INF), st.integers(-3, 3).map(float)),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize(
    ("name", "logits", "expected"),
    [
        ("softmax", [0, math.log(3)], [0.25, 0.75]),
        ("softmax", [-INF, 5, -INF], [0, 1, 0]),
        ("softmax", [1000, 1000], [0.5, 0.5]),
        ("softmax", [-1000, -1000], [0.5, 0.5]),
        ("sparsemax", [0.5, 0], [0.75, 0.25]),
        ("sparsemax", [2, 0], [1, 0]),
        ("sparsemax", [1, 1, 1, -5], [1 / 3, 1 / 3, 1 / 3, 0]),
        ("sparsemax", [0.1, 0.2, 0.3], [0.7 / 3, 1 / 3, 1.3 / 3]),
        ("sparsemax", [1000, 999.5, -INF], [0.75, 0.25, 0]),
        ("entmax15", [2, 0], [1, 0]),
        ("entmax15", [0, 0, 0, 0], [0.25] * 4),
        ("entmax15", [0, 0], [0.5, 0.5]),
        ("hard", [1, 3, 2], [0, 1, 0]),
        ("hard", [3, 3, -INF], [1, 0, 0]),
    ],
)
def test_by_hand(name: str, logits: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(FUNCTIONS[name](logits), expected, rtol=1e-13, atol=1e-14)


def test_entmax15_of_two() -> None:
    """With a, b = z / 2 - t: a^2 + b^2 = 1 and a - b = (z_1 - z_2) / 2, so a = 0.8 and b = 0.6 where that is 0.2."""
    np.testing.assert_allclose(weights.entmax15([0.4, 0.0]), [0.64, 0.36], rtol=1e-13)


@every_function
def test_a_row_without_a_visible_key_is_0(name: str) -> None:
    row_weights = FUNCTIONS[name](np.array([[-INF, -INF], [0.0, -INF]]))
    np.testing.assert_array_equal(row_weights, [[0, 0], [1, 0]])


@every_function
@in_one_test("shape", [(0,), (3, 0), (0, 3), (2, 0, 4)])
def test_zero_sizes(name: str, shape: tuple[int, ...]) -> None:
    assert FUNCTIONS[name](np.zeros(shape)).shape == shape


@every_function
@given(row=rows)
def test_rows_sum_to_1_and_masked_keys_have_weight_0(name: str, row: list[float]) -> None:
    logits = np.array(row)
    result = FUNCTIONS[name](logits)
    assert (result >= 0).all()
    assert (result[logits == -INF] == 0).all()
    assert math.isclose(result.sum(), 1.0 if (logits > -INF).any() else 0.0, rel_tol=1e-12)


@pytest.mark.slow
@every_function
@settings(max_examples=40)
@given(row=rows, shift=st.integers(-50, 50))
def test_a_constant_added_to_a_row_changes_nothing(name: str, row: list[float], shift: int) -> None:
    logits = np.round(np.array(row) * 64) / 64  # sums with an integer are exact
    np.testing.assert_allclose(FUNCTIONS[name](logits + shift), FUNCTIONS[name](logits), rtol=0, atol=1e-12)


@every_function
def test_a_visible_nan_makes_its_row_nan_and_no_other(name: str) -> None:
    result = FUNCTIONS[name](np.array([[1.0, np.nan, 0.0], [1.0, 2.0, -INF]]))
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1]).all()


@every_function
@pytest.mark.parametrize(
    ("dtype", "row", "expected"),
    [
        (np.float16, [3e4, 6e4, -6e4], [0, 1, 0]),
        (np.float32, [1e30, 0.0, -1e30], [1, 0, 0]),
        (np.float32, [3e38, -3e38], [1, 0]),
        (np.float64, [-1.7e308, 1.7e308], [0, 1]),
    ],
)
def test_logits_whose_difference_or_square_overflows(
    name: str, dtype: Any, row: list[float], expected: list[float]
) -> None:
    """Without a warning, which would be an error here."""
    np.testing.assert_array_equal(FUNCTIONS[name](np.array(row, dtype)), expected)


@every_function
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_weights_have_native_byte_order(name: str, dtype: Any) -> None:
    row = np.array([[0.25, 0.0, -INF]], dtype)
    result = FUNCTIONS[name](row.astype(row.dtype.newbyteorder("S")))
    assert result.dtype == row.dtype
    assert result.dtype.isnative
    np.testing.assert_array_equal(result, FUNCTIONS[name](row))


@pytest.mark.slow
@settings(max_examples=100)
@given(row=rows)
def test_sparsemax_is_the_nearest_point_of_the_simplex(row: list[float]) -> None:
    """p minimises |p - z|^2 on the simplex: z - p is one constant on the support, and no larger outside."""
    z = np.array([x for x in row if x > -INF])
    if z.size:
        p = weights.sparsemax(z)
        slack = z - p
        tau = slack[p > 0]
        assert np.ptp(tau) <= 1e-12
        assert (z[p == 0] <= tau.max() + 1e-12).all()


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.75, 2.0, 2.5])
@settings(max_examples=60)
@given(row=rows)
def test_entmax_meets_its_optimality_conditions(alpha: float, row: list[float]) -> None:
    """p maximises p.z + sum(p - p^alpha) / (alpha (alpha - 1)): z - p^(alpha - 1) / (alpha - 1) is one constant on the
    support, z no larger outside."""
    z = np.array([x for x in row if x > -INF])
    if z.size:
        p = weights.entmax(alpha)(z)
        tau = (z - p ** (alpha - 1) / (alpha - 1))[p > 1e-12]
        assert np.ptp(tau) <= 1e-6
        assert (z[p == 0] <= tau.max() + 1e-6).all()


ALPHAS = [1 + 1e-9, 1.02, 1.09, 1.11, 1.5, 1.9, 2.0, 2.01, 3.0, 4.0, 10.0, 30.0]


def logits_of(p: Array, alpha: float) -> Array:
    """Logits whose weights are p, by the condition of the optimum, with a constant that keeps their differences."""
    return (p ** (alpha - 1) if alpha > 2 else np.expm1((alpha - 1) * np.log(p))) / (alpha - 1)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("least", [0.2, 1e-2, 1e-6])
def test_entmax_of_logits_that_are_made_of_its_weights(alpha: float, least: float) -> None:
    """Beside two such rows: a key below the others' end, a row with a NaN, a row without a key."""
    p = np.array([[0.3, least, 0.7 - least], [least, 0.5, 0.5 - least]])
    below = np.full((2, 1), -2 / (alpha - 1))
    logits = np.concatenate([logits_of(p, alpha), below], axis=1)
    rows = weights.entmax(alpha)([*logits, [0.1, np.nan, 0.2, -INF], [-INF] * 4])
    np.testing.assert_allclose(rows[:2], np.pad(p, ((0, 0), (0, 1))), rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(rows[2:], [[np.nan, np.nan, np.nan, 0], [0] * 4])


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("least", [0.3, 1e-2, 1e-6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_slope_of_entmax_beside_the_end_of_its_support(alpha: float, least: float, dtype: Any) -> None:
    """Of two weights with slopes s and t, the first rises by s t / (s + t) with its logit."""
    p = np.array([1 - least, least])
    rise = 1 / (p ** (alpha - 2)).sum()
    _, pullback = regard.attention_vjp(
        [[1]],
        logits_of(p, alpha)[:, None].astype(dtype),
        np.eye(2, dtype=dtype),
        score="dot",
        normalize=weights.entmax(alpha),
    )
    np.testing.assert_allclose(pullback([[1, 0]]).keys[:, 0], [rise, -rise], rtol=2e-3, atol=1e-6)


def test_entmax_has_softmax_and_its_sparse_relatives_as_cases() -> None:
    logits = np.random.default_rng(0).standard_normal((5, 9)) * 2
    for alpha, name in [(1.0, "softmax"), (1.5, "entmax15"), (2.0, "sparsemax")]:
        np.testing.assert_array_equal(weights.entmax(alpha)(logits), FUNCTIONS[name](logits))
        for side in (alpha - 1e-7, alpha + 1e-7):
            if side > 1:
                np.testing.assert_allclose(weights.entmax(side)(logits), FUNCTIONS[name](logits), atol=2e-6)


@pytest.mark.parametrize(
    ("normalize", "logits", "expected"),
    [
        (weights.sigmoid(0.0), [0, math.log(3), -INF], [0.5, 0.75, 0]),
        (weights.sigmoid(math.log(2)), [0.0, -math.log(6)], [2 / 3, 0.25]),
        (weights.sigmoid(), [0.0, math.log(2), -INF], [1 / 3, 0.5, 0]),  # minus log 2, of two visible keys
        (weights.sigmoid(), [-1e4, 1e4], [0, 1]),
        (weights.relu(), [3, -1, 0.5, -INF], [1, 0, 1 / 6, 0]),
        (weights.relu(), [-INF, -INF], [0, 0]),
        (weights.sigmoid(), [-INF], [0]),
    ],
)
def test_weights_of_each_key_alone(normalize: Any, logits: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(normalize(logits), expected, rtol=1e-13)
    half = normalize(np.array(logits, np.float16))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, expected, atol=2e-3)


@in_one_test(
    ("normalize", "name"),
    [
        (weights.softmax, "softmax"),
        (weights.entmax(1), "softmax"),
        (weights.entmax15, "entmax15"),
        (weights.entmax(2), "sparsemax"),
    ],
)
def test_a_function_of_the_module_is_its_name(normalize: Any, name: str) -> None:
    arrays = np.random.default_rng(0).standard_normal((3, 4, 5))
    context = regard.attention(*arrays, normalize=normalize)
    np.testing.assert_array_equal(context, regard.attention(*arrays, normalize=name))


def test_a_function_of_rows_gets_complete_rows_that_it_cannot_write() -> None:
    seen: list[Array] = []

    def uniform(logits: Array) -> Array:
        assert not logits.flags.writeable
        seen.append(logits)
        return np.full(logits.shape, 0.5)  # at masked keys, too

    visible = np.arange(700) >= 5
    values = np.where(visible, 1.0, np.nan)[:, None]
    for function in (regard.attention, lambda *a, **o: regard.attend(*a, **o).context):
        context = function(np.ones((3, 2)), np.ones((700, 2)), values, mask=visible, normalize=uniform)
        np.testing.assert_allclose(context, np.full((3, 1), 695 / 2))
    assert all(logits.shape[-1] == 700 for logits in seen)
    assert all((np.isneginf(logits) == ~visible).all() for logits in seen)


def test_an_object_with_an_equality_of_its_own_is_a_normalization() -> None:
    class Vague(strategies.OffByOne):
        def __eq__(self, other: object) -> Any:
            return np.array([True, False])

        __hash__ = None  # type: ignore[assignment]

    x = np.eye(3)
    vague = Vague(np.array(1.0))
    expected = [[math.e / (3 + math.e), 1 / (3 + math.e), 1 / (3 + math.e)]]
    np.testing.assert_allclose(regard.attention(x[:1], x, x, score="dot", normalize=vague), expected)
    regard.attention_vjp(x, x, x, normalize=vague)[1](x)
    with pytest.raises(ValueError, match="sink needs"):
        regard.attend(x, x, x, normalize=vague, sink=0.0)


@pytest.mark.slow
@settings(max_examples=60)
@given(row=rows)
def test_sparser_than_softmax(row: list[float]) -> None:
    """The support shrinks from softmax to entmax to sparsemax to hard."""
    logits = np.array(row)
    support = [np.asarray(f(logits)) > 1e-9 for f in (weights.sparsemax, weights.entmax15, weights.softmax)]
    assert (support[0] <= support[1] + (np.asarray(weights.sparsemax(logits)) < 1e-3)).all()
    assert (np.asarray(weights.hard(logits)) <= (np.asarray(weights.sparsemax(logits)) > 0)).all()


def attended(normalize: Any, n: int, m: int) -> Array:
    """The weights of n queries that score m keys equally."""
    attention = regard.attend(np.zeros((n, 1)), np.zeros((m, 1)), np.eye(m), normalize=normalize)
    np.testing.assert_allclose(attention.context, attention.weights, rtol=1e-15)
    fast = regard.attention(np.zeros((n, 1)), np.zeros((m, 1)), np.eye(m), normalize=normalize)
    np.testing.assert_allclose(fast, attention.weights, rtol=1e-14)
    return attention.weights


def test_local_m_is_a_softmax_near_the_own_position() -> None:
    third = 1 / 3
    np.testing.assert_allclose(
        attended(weights.local_m(1), 2, 4), [[0.5, 0.5, 0, 0], [third, third, third, 0]], rtol=1e-15
    )
    np.testing.assert_allclose(
        attended(weights.local_m(1, align="end"), 2, 4),
        [[0, third, third, third], [0, 0, 0.5, 0.5]],
        rtol=1e-15,
    )
    np.testing.assert_array_equal(attended(weights.local_m(0), 5, 2)[2:], np.zeros((3, 2)))


def test_local_p_is_luongs_equation_10() -> None:
    """p = 1.5 and D = 2: keys 0 to 3 are near, 1/4 each, times exp(-(j - p)^2 / 2); sigma is D / 2 = 1."""
    bell = [math.exp(-1.125), math.exp(-0.125), math.exp(-0.125), math.exp(-1.125)]
    result = attended(weights.local_p([1.5], 2.0), 1, 5)
    np.testing.assert_allclose(result, [[x / 4 for x in bell] + [0]], rtol=1e-14)


def test_local_p_at_the_edge_of_the_window_and_outside() -> None:
    result = attended(weights.local_p([0.0, 9.0], 1.0), 2, 3)
    np.testing.assert_allclose(result[0], [0.5, 0.5 * math.exp(-2), 0], rtol=1e-14)
    np.testing.assert_array_equal(result[1], [0, 0, 0])


def test_predict_positions_is_luongs_equation_9() -> None:
    queries, weight, vector = np.array([[0.0], [1.0]]), np.array([[2.0]]), np.array([3.0])
    expected = [5, 10 / (1 + math.exp(-3 * math.tanh(2)))]
    np.testing.assert_allclose(weights.predict_positions(queries, weight, vector, 10), expected, rtol=1e-14)


def test_keys_outside_a_local_window_have_no_influence() -> None:
    values = np.array([[1.0], [2.0], [np.nan], [np.inf]])
    keys = np.array([[0.0], [0.0], [np.nan], [np.nan]])
    for normalize, expected in ((weights.local_m(1), 1.5), (weights.local_p([0.0], 1.0), 0.5 + math.exp(-2))):
        for function in (lambda *a, **o: regard.attend(*a, **o).context, regard.attention):
            result = function(np.zeros((1, 1)), keys, values, normalize=normalize)
            np.testing.assert_allclose(result, [[expected]], rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@every_function
def test_half_precision_is_computed_in_float32(name: str, dtype: str) -> None:
    """Sums of more than 65,504 overflow in float16."""
    for logits in (np.zeros(70000), np.linspace(0, 1, 3000)):
        inputs = logits.astype(dtype)
        result = FUNCTIONS[name](inputs)
        assert result.dtype == inputs.dtype
        np.testing.assert_array_equal(result, FUNCTIONS[name](inputs.astype(np.float32)).astype(dtype))
        assert result.sum(dtype=np.float64) == pytest.approx(1, abs=5e-3)


def test_underflow_is_not_an_error() -> None:
    small = np.float16(np.exp(-15))
    with np.errstate(all="raise"):
        assert weights.softmax(np.array([0, -15], np.float16)).tolist() == [1, small]
        assert weights.entmax15([5e-324, 0.0]).tolist() == pytest.approx([0.5, 0.5])
    with np.errstate(all="raise"):
        assert weights.softmax([0.0, -1000.0]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("normalize", "message"),
    [
        (weights.local_m, "normalize must be an instance, not a class: weights.local_m(...)"),
        (strategies.OffByOne, "normalize must be an instance, not a class: OffByOne(...)"),
    ],
)
def test_invalid_normalizations(normalize: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        regard.attend([[1.0]], [[1.0]], [[1.0]], normalize=normalize)
    assert str(caught.value) == message


def test_numbers_are_not_a_normalization() -> None:
    with pytest.raises(ValueError, match=r"^normalize must be one of 'softmax', .* Got array\(\[1., 1.\]\)"):
        regard.attend([[1.0]], [[1.0]], [[1.0]], normalize=np.ones(2))  # type: ignore[arg-type]


def test_positions_of_half_precision_are_predicted_in_float32() -> None:
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((5, 4)).astype(np.float16)
    weight, vector = rng.standard_normal((4, 3)), rng.standard_normal(3)
    expected = weights.predict_positions(queries.astype(float), weight, vector, 10_000)
    assert abs(weights.predict_positions(queries, weight, vector, 10_000) - expected).max() < 0.01
    narrow = weights.predict_positions(queries, weight.astype(np.float16), vector.astype(np.float16), 10_000)
    rounded = weights.predict_positions(
        queries.astype(float),
        weight.astype(np.float16).astype(float),
        vector.astype(np.float16).astype(float),
        10_000,
    )
    assert abs(narrow - rounded).max() < 0.01
