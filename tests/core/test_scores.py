"""Step 1: scores by hand, and formulas of the papers. The oracle covers random numbers (test_laws.py)."""

from __future__ import annotations

import inspect
import math
import re
from importlib import resources
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import strategies
from one_test import in_one_test

import regard
from regard import scores, weights

Q = np.array([[1.0, 2.0], [0.0, -1.0]])
K = np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 0.0]])


def test_dot() -> None:
    expected = [[3, 3, 0], [0, -1, 0]]
    np.testing.assert_array_equal(scores.dot()(Q, K), expected)
    np.testing.assert_array_equal(scores.scaled_dot()(Q, K), expected)  # the scale is not the score's


def test_scaled_dot_scales_by_the_root_of_d() -> None:
    attention = regard.attend(np.full((1, 4), 3.0), np.full((1, 4), 5.0), [[1.0]])
    np.testing.assert_array_equal(attention.scores, [[60]])
    np.testing.assert_array_equal(attention.logits, [[30]])


def test_a_score_without_needed_parameters_can_be_named() -> None:
    """A score given by name equals the score built without arguments."""
    x = np.random.default_rng(0).standard_normal((3, 4))
    for name in ("scaled_dot", "dot", "cosine", "gaussian"):
        built = getattr(scores, name)()
        np.testing.assert_array_equal(
            regard.attend(x, x, x, score=name).logits, regard.attend(x, x, x, score=built).logits
        )
        np.testing.assert_array_equal(
            regard.attention(x, x, x, score=name), regard.attention(x, x, x, score=built)
        )


@pytest.mark.parametrize("score", ["dot", "cosine", "gaussian"])
def test_every_other_score_has_scale_1(score: str) -> None:
    attention = regard.attend(Q, K, K, score=score)
    np.testing.assert_array_equal(attention.logits, attention.scores)


def test_cosine() -> None:
    result = scores.cosine()([[3.0, 4.0]], [[4.0, 3.0], [-3.0, -4.0], [8.0, -6.0], [0.0, 0.0]])
    np.testing.assert_allclose(result, [[24 / 25, -1, 0, 0]], rtol=0, atol=1e-15)
    np.testing.assert_allclose(scores.cosine(sharpness=5)([[3.0, 4.0]], [[4.0, 3.0]]), [[4.8]], rtol=1e-15)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_cosine_does_not_depend_on_lengths_even_where_squares_over_or_underflow(size: float) -> None:
    result = scores.cosine()([[3.0 * size, 4.0 * size]], [[4.0, 3.0]])
    np.testing.assert_allclose(result, [[0.96]], rtol=1e-15)


def test_general_compares_different_sizes() -> None:
    weight = [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]
    np.testing.assert_array_equal(scores.general(weight)([[1.0, 10.0]], [[1.0, 2.0, 3.0]]), [[27]])


def test_additive() -> None:
    score = scores.additive([[1.0, 0.0]], [[1.0, 1.0], [0.0, 2.0]], [2.0, 3.0], [0.5, -4.0])
    # hidden = q Wq + k Wk + b = [1, 0] + [1, 1 + 2] + [0.5, -4] = [2.5, -1]
    result = score([[1.0]], [[1.0, 1.0]])
    np.testing.assert_allclose(result, [[2 * math.tanh(2.5) + 3 * math.tanh(-1)]], rtol=1e-15)


def test_additive_is_bounded_by_the_sum_of_its_vector() -> None:
    result = scores.additive(None, None, [2.0, -3.0])([[100.0, -100.0]], [[0.0, 0.0]])
    np.testing.assert_array_equal(result, [[5.0]])


@pytest.mark.parametrize("bias", [None, np.array([0.3, -0.2, 0.1])])
def test_projected_keys_give_the_same_scores(bias: Any) -> None:
    rng = np.random.default_rng(0)
    wq, wk, v, q, k = (rng.standard_normal(shape) for shape in ((4, 3), (5, 3), (3,), (2, 4), (6, 5)))
    score = scores.additive(wq, wk, v, bias)
    projected, score_for_them = score.project_keys(k)
    assert projected.shape == (6, 3)
    np.testing.assert_allclose(score_for_them(q, projected), score(q, k), rtol=1e-14)
    full = regard.attention(q, k, k, score=score)
    np.testing.assert_allclose(regard.attention(q, projected, k, score=score_for_them), full, rtol=1e-13)


def test_concat_is_additive_with_one_stacked_matrix() -> None:
    rng = np.random.default_rng(0)
    wq, wk, v, q, k = (rng.standard_normal(shape) for shape in ((4, 3), (5, 3), (3,), (2, 4), (6, 5)))
    stacked = scores.concat(np.concatenate([wq, wk]), v)
    np.testing.assert_allclose(stacked(q, k), scores.additive(wq, wk, v)(q, k), rtol=1e-14)
    np.testing.assert_allclose(scores.concat([[1.0], [2.0]], [1.0])([[3.0]], [[-1.0]]), [[math.tanh(1)]])


def test_location_does_not_depend_on_the_keys() -> None:
    score = scores.location([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 1.0]])
    np.testing.assert_array_equal(score([[1.0, 10.0]], K), [[1, 12, 3]])
    np.testing.assert_array_equal(score([[1.0, 10.0]], K * np.nan), [[1, 12, 3]])


def test_location_in_blocks_uses_the_right_positions() -> None:
    """Across more keys than one block has, key j still reads column j."""
    m = 3000
    weight = np.zeros((1, m))
    weight[0, 2500] = 50.0
    context = regard.attention(
        [[1.0]], np.zeros((m, 1)), np.arange(m)[:, None], score=scores.location(weight)
    )
    np.testing.assert_allclose(context, [[2500.0]], rtol=1e-12)


def test_gaussian_is_kernel_regression() -> None:
    np.testing.assert_array_equal(
        scores.gaussian(2.0)([[0.0, 0.0]], [[3.0, 4.0], [0.0, 0.0]]), [[-25 / 8, 0]]
    )
    x, y, at = np.array([0.0, 1.0, 3.0]), np.array([1.0, -1.0, 2.0]), np.array([0.5, 2.0])
    kernel = np.exp(-((at[:, None] - x) ** 2) / (2 * 0.7**2))
    nadaraya_watson = kernel @ y / kernel.sum(axis=1)
    context = regard.attention(at[:, None], x[:, None], y[:, None], score=scores.gaussian(0.7))
    np.testing.assert_allclose(context[:, 0], nadaraya_watson, rtol=1e-14)


def test_gaussian_of_close_points_far_from_the_origin_is_exact() -> None:
    """|q|^2 + |k|^2 - 2 q.k would lose them all."""
    q, k = np.array([[1e8]]), np.array([[1e8 + 1], [1e8 + 2]])
    np.testing.assert_array_equal(scores.gaussian()(q, k), [[-0.5, -2.0]])
    expected = regard.attend(q - 1e8, k - 1e8, [[0.0], [1.0]], score=scores.gaussian()).context
    np.testing.assert_allclose(
        regard.attention(q, k, [[0.0], [1.0]], score=scores.gaussian()), expected, rtol=1e-14
    )


@pytest.mark.parametrize("name", ["general", "additive", "concat", "location", "cosine", "gaussian"])
def test_learned_arrays_are_attributes_under_the_names_of_the_arguments(name: str) -> None:
    arrays = {
        "general": {"weight": np.ones((2, 2))},
        "additive": {
            "query_weight": np.ones((2, 3)),
            "key_weight": np.ones((2, 3)),
            "vector": np.ones(3),
            "bias": np.ones(3),
        },
        "concat": {"weight": np.ones((4, 3)), "vector": np.ones(3)},
        "location": {"weight": np.ones((2, 5))},
        "cosine": {"sharpness": np.asarray(2.0)},
        "gaussian": {"width": np.asarray(2.0)},
    }[name]
    score = getattr(scores, name)(**arrays)
    for key, array in arrays.items():
        np.testing.assert_array_equal(getattr(score, key), array)
    assert score(np.ones((4, 2)), np.ones((5, 2))).shape == (4, 5)


BUILT: dict[str, scores.Score] = {
    "dot": scores.dot(),
    "scaled_dot": scores.scaled_dot(),
    "cosine": scores.cosine(),
    "general": scores.general(np.eye(2)),
    "additive": scores.additive(np.eye(2), np.eye(2), [0.5, 2.0]),
    "additive of projected": scores.additive(None, None, [0.5, 2.0]),
    "concat": scores.concat(np.concatenate([np.eye(2), np.eye(2)]), [0.5, 2.0]),
    "location": scores.location([[1.0, 2.0], [0.5, 4.0]]),
    "gaussian": scores.gaussian(8.0),
}
every_score = pytest.mark.parametrize("name", BUILT)


@every_score
def test_integers_do_not_wrap_round(name: str) -> None:
    """Integers give the same scores as floats: sums of powers of two, which are exact."""
    for dtype in (bool, np.uint8, np.int8, np.int16, np.int64, np.uint64):
        most = 1 if dtype is bool else np.iinfo(dtype).max // 2 + 1
        queries, keys = np.array([[most, 0]], dtype), np.array([[most, 1], [0, 1]], dtype)
        result = BUILT[name](queries, keys)
        assert result.dtype == np.float64
        expected = BUILT[name](queries.astype(float), keys.astype(float))
        np.testing.assert_array_equal(result, expected, err_msg=str(dtype))


def test_the_product_of_large_integers_by_hand() -> None:
    np.testing.assert_array_equal(scores.dot()([[2**40]], [[2**40]]), [[2.0**80]])
    np.testing.assert_array_equal(scores.dot()(np.int8([[100]]), np.int8([[100]])), [[10000]])
    np.testing.assert_array_equal(scores.gaussian()(np.uint8([[1]]), np.uint8([[2]])), [[-0.5]])
    np.testing.assert_array_equal(scores.dot()([[True, True]], [[True, True]]), [[2]])


@every_score
def test_a_call_gives_the_scores_of_attend(name: str) -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8):
        queries, keys = ((4 * rng.standard_normal(shape)).astype(dtype) for shape in ((3, 4, 2), (2, 2)))
        expected = regard.attend(queries, keys, keys, score=BUILT[name]).scores
        result = BUILT[name](queries, keys).astype(expected.dtype)
        np.testing.assert_array_equal(result, expected, err_msg=str(dtype))


@every_score
def test_arguments_of_a_call_must_fit(name: str) -> None:
    """A call rejects what `attend` rejects, with the same text except for the values."""
    wrong: list[tuple[Any, Any]] = [
        (np.ones((2, 2)), np.ones(2)),
        (np.ones((2, 2)), np.ones((2, 2)) * 1j),
        (np.ma.ones((2, 2)), np.ones((2, 2))),
        (np.ones((2, 2)), [[None, None]]),
        (np.ones((2, 5)), np.ones((2, 3))),
    ]
    for queries, keys in wrong:
        with pytest.raises((ValueError, TypeError)) as called:
            BUILT[name](queries, keys)
        with pytest.raises(type(called.value)) as attended:
            regard.attend(queries, keys, np.ones((2, 1)), score=BUILT[name])
        lines = [line for line in str(attended.value).split("\n") if not line.startswith("  values")]
        assert str(called.value).split("\n") == lines


def test_a_score_derived_from_one_of_these_is_the_users() -> None:
    class Doubled(scores.dot):
        def __call__(self, queries: Any, keys: Any) -> Any:
            return 2 * super().__call__(queries, keys)

    np.testing.assert_array_equal(Doubled()(Q, K), 2 * scores.dot()(Q, K))
    np.testing.assert_array_equal(regard.attend(Q, K, K, score=Doubled()).scores, 2 * scores.dot()(Q, K))
    np.testing.assert_allclose(
        regard.attention(Q, K, K, score=Doubled()),
        regard.attention(Q, K, K, score="dot", scale=2.0),
        rtol=1e-14,
    )


def test_a_function_of_the_users() -> None:
    def same_sign(queries: Any, keys: Any) -> Any:
        return np.where(np.sign(queries) == np.sign(np.swapaxes(keys, -1, -2)), 0.0, -np.inf)

    context = regard.attention(
        [[1.0], [-1.0]], [[2.0], [-3.0], [4.0]], [[1.0], [10.0], [3.0]], score=same_sign
    )
    np.testing.assert_array_equal(context, [[2.0], [10.0]])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_a_learned_number_keeps_its_dtype(dtype: Any) -> None:
    x = np.eye(3, dtype=np.float32)
    cosine = scores.cosine(sharpness=np.array(2.5, dtype))
    assert cosine.sharpness.dtype == dtype
    assert cosine(x, x).dtype == np.float32
    assert weights.local_p(np.ones(3, dtype), width=2.0).positions.dtype == dtype


@in_one_test(
    "text",
    [
        *("scores.dot()", "scores.scaled_dot()", "scores.gaussian()", "scores.gaussian(width=0.5)"),
        *("scores.cosine(sharpness=[2.0, 3.0])", "scores.general([[1.0, 2.0]])", "scores.location([[1.0]])"),
        "scores.additive(None, None, [2.0])",
        "scores.additive([[1.0]], None, [2.0], bias=[0.5])",
        "scores.concat([[1.0], [1.0]], [2.0])",
        *("position.alibi([0.5, 0.25])", "position.alibi([1.0], align='end')"),
        "position.t5_buckets([[0.0], [1.0]], bidirectional=False, max_distance=8)",
        *("weights.local_m(3)", "weights.local_m(3, align='end')", "weights.local_p([1.0], 2.0)"),
        *("weights.entmax(1.2)", "weights.sigmoid()", "weights.sigmoid(bias=-1.0)", "weights.relu()"),
    ],
)
def test_options_are_printed_as_they_were_written(text: str) -> None:
    assert f"{text.partition('.')[0]}.{eval(text, vars(regard).copy())!r}" == text


def test_large_parameters_are_printed_by_type_and_shape() -> None:
    weight = np.ones((64, 32), np.float32)
    assert repr(scores.general(weight)) == "general(<float32 (64, 32)>)"


SAMPLES: dict[str, scores.Score] = {
    "scaled_dot": scores.scaled_dot(),
    "dot": scores.dot(),
    "cosine": scores.cosine(2.0),
    "gaussian": scores.gaussian(2.0),
    "general": scores.general(np.diag([1.0, 2.0])),
    "additive": scores.additive(np.eye(2), np.eye(2), [1.0, -1.0]),
    "concat": scores.concat(np.ones((4, 2)), [1.0, -1.0]),
    "location": scores.location([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]),
}


def keys_of(text: str, name: str) -> set[str]:
    """The keys of an object in JavaScript."""
    body = re.search(rf"const {name} = {{\n(.*?)\n}};", text, re.DOTALL)
    assert body
    return set(re.findall(r"^  (\w+):", body[1], re.MULTILINE))


def test_every_table_of_scores_has_every_score() -> None:
    """A new score that was forgotten in one of them fails here."""
    from regard.commands import inputs
    from regard.kernels import library, pairs
    from regard.show import steps

    abstract = {"Score", "Differentiable"}
    every = {name for name in scores.__all__ if name not in abstract}
    assert every == SAMPLES.keys()
    assert every == {*scores.NAMED, *inputs._LEARNED_SCORES}
    assert every == {name for name in every if f"score-{name}" in strategies.OPTIONS}
    assert every == {
        name for name in every if re.search(rf"^    {name} ", scores.__doc__ or "", re.MULTILINE)
    }
    required = {
        name
        for name in every
        if any(p.default is p.empty for p in inspect.signature(getattr(scores, name)).parameters.values())
    }
    assert every - required == scores.NAMED.keys()
    made = pairs._of_score.registry.keys() - {
        object
    }  # by the NumPy kernel; the scaled dot product is a dot product
    assert every - {"scaled_dot"} == {score.__name__ for score in made}
    codes = {getattr(scores, name).code for name in every} - {""}  # of the library, which refuses the others
    assert library.load() is None or codes <= library.interface().numbers.keys()
    for name, score in SAMPLES.items():  # chunks of Dask and the identity of a checkpoint follow from this
        arrays = {key for key, value in vars(score).items() if isinstance(value, np.ndarray)}
        assert arrays == score.parameters().keys(), name
    # Pages and explanations show concat as additive, with its weight split.
    assert every - {"concat"} == steps.TEXTS["scores"].keys()
    script = resources.files("regard.show.page").joinpath("assets", "mechanism", "compute.js")
    assert every - {"concat"} == keys_of(script.read_text("utf-8"), "SCORES")


@in_one_test("name", SAMPLES)
def test_every_score_is_computed_by_everything(name: str) -> None:
    from regard.show import page

    rng, score = np.random.default_rng(0), SAMPLES[name]
    q, k, v = rng.normal(size=(2, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    expected = regard.attend(q, k, v, score=score).context
    for kernel in ("blocked", "auto"):
        np.testing.assert_allclose(
            regard.attention(q, k, v, score=score, kernel=kernel), expected, rtol=1e-12
        )
    np.testing.assert_allclose(regard.outofcore.attention(q, k, v, score=score), expected, rtol=1e-12)
    assert page(q, k, v, score=score).sections[0].data["options"]
    assert name in repr(regard.explain(queries=q, keys=k, values=v, score=score))
    str(regard.explain(queries=q, keys=k, values=v, score=score))


def test_a_score_that_no_table_has_is_never_computed_as_another_one() -> None:
    from regard.show import page

    class Forgotten(scores.Score):
        __module__ = scores.__name__  # as if it were one of the package's

        def _define(self, queries: Any, keys: Any) -> Any:
            return -np.abs(queries @ keys.swapaxes(-1, -2))

    x = np.array([[1.0, 2.0], [3.0, -1.0]])
    options: dict[str, Any] = {"score": Forgotten()}
    regard.attend(x, x, x, **options)
    for call in (
        lambda: regard.attention(x, x, x, kernel="blocked", **options),
        lambda: regard.attention(x, x, x, **options),
        lambda: regard.partial(x, x, x, **options),
        lambda: regard.attention_vjp(x, x, x, **options),
        lambda: regard.outofcore.attention(x, x, x, **options),
    ):
        with pytest.raises(NotImplementedError, match="no kernel computes the score Forgotten"):
            call()
    with pytest.raises(ValueError, match="can't do this"):
        regard.attention(x, x, x, kernel="native", **options)
    assert "given" in page(x, x, x, **options).sections[0].data  # the numbers, which cannot be changed


@in_one_test("name", SAMPLES)
def test_parameters_of_float64_do_not_widen_the_scores(name: str) -> None:
    """Law 7: queries and keys have the type of the computation."""
    rng, score = np.random.default_rng(0), SAMPLES[name]
    q, k = rng.normal(size=(2, 2)), rng.normal(size=(3, 2))
    for dtype, expected in ((np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64)):
        narrow = q.astype(dtype), k.astype(dtype)
        assert score(*narrow).dtype == expected
        np.testing.assert_array_equal(score(*narrow), regard.attend(*narrow, narrow[1], score=score).scores)
        if isinstance(score, scores.additive):
            projected, projecting = score.project_keys(narrow[1])
            assert projected.dtype == projecting(narrow[0], projected).dtype == expected
