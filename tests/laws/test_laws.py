"""The laws of docs/design.md by number, in every function: attend, attention, attention_vjp, partial and merge.

Laws 6, 12 and the threads of law 5 are in test_memory.py and test_threads.py, the texts of law 10 in test_errors.py,
law 11 in the tests of the readers of files.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import budget
import ml_dtypes
import numpy as np
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from one_test import in_one_test
from strategies import (
    BATCH,
    HEADS,
    OPTIONS,
    SMOOTH_OPTIONS,
    SOFTMAX_OPTIONS,
    Case,
    case,
    gradients,
    read_only,
)

import regard
from regard._einsum import einsum
from regard.kernels import library

Array = NDArray[Any]
every_option = pytest.mark.parametrize("name", OPTIONS)
# whether bfloat16 is multiplied in pairs here, as it is stored
PAIRS = os.environ.get("REGARD_INSTRUCTION_SET", (*library.instruction_sets(), "")[0]) in (
    "amx",
    "avx512bf16",
)
EPS64 = float(np.finfo(np.float64).eps)


def attend(*arrays: Any, **options: Any) -> Array:
    return regard.attend(*arrays, **options).context


def forward(*arrays: Any, **options: Any) -> Array:
    context, _ = regard.attention_vjp(*arrays, **options)
    return context


def merged(*arrays: Any, **options: Any) -> Array:
    """One part merged with the empty part."""
    context: Array = regard.merge(regard.partial(*arrays, **options)).context
    return context


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "attend": attend,
    "attention": regard.attention,
    "attention_vjp": forward,
    "partial": merged,
}
every_function = in_one_test("function", FUNCTIONS)


def functions_of(name: str) -> list[str]:
    """The functions that support an option: `partial` supports softmax only, gradients need a differentiable score."""
    functions = ["attend", "attention"]
    if name in SOFTMAX_OPTIONS:
        functions.append("partial")
    if OPTIONS[name](strategies.Sizes(2, 2, 2, 2, np.float32, np.random.default_rng(0))).cotangent:
        functions.append("attention_vjp")
    return functions


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal bit by bit, NaN included."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def visible_keys_of(c: Case) -> Array:
    """The mask (2, 4, n, m) of the oracle."""
    return np.asarray(c.answer.logits > -np.inf)


# ---- law 1: every function is the definition, within the budget ------------------------------------------------


@every_option
def test_law_1_every_function_is_within_the_error_budget(name: str) -> None:
    for dtype in (np.float32, np.float64):
        c = case(name, dtype, seed=1)
        allowed = budget.of_answer(c.answer, c.values, dtype, proportional=c.option.proportional)
        for function in functions_of(name):
            context = FUNCTIONS[function](*c.arrays, **c.option.regard)
            assert context.dtype == dtype
            budget.assert_within(context, c.answer.context, allowed, f"{name} by {function}")


@every_option
def test_law_1_scores_logits_weights_and_lse_are_the_definition(name: str) -> None:
    c = case(name, np.float64, seed=2)
    result, exact = regard.attend(*c.arrays, **c.option.regard), c.answer
    size = 1e-14 * (1 + exact.magnitude.max())
    np.testing.assert_allclose(
        np.broadcast_to(result.scores, exact.scores.shape), exact.scores, rtol=0, atol=10 * size
    )
    np.testing.assert_array_equal(result.logits == -np.inf, exact.logits == -np.inf)
    np.testing.assert_allclose(result.logits, exact.logits, rtol=0, atol=10 * size)
    np.testing.assert_allclose(result.weights, exact.weights, rtol=0, atol=10 * size)
    np.testing.assert_allclose(result.lse, exact.lse, rtol=1e-14, atol=10 * size)


def assert_every_function_is_within(c: Case) -> None:
    allowed = budget.of_answer(c.answer, c.values, c.queries.dtype)
    for name, function in FUNCTIONS.items():
        budget.assert_within(function(*c.arrays, **c.option.regard), c.answer.context, allowed, name)


@settings(max_examples=80)
@given(st.sampled_from([np.float32, np.float64]).flatmap(strategies.cases))
def test_law_1_any_shape_stride_and_composition(c: Case) -> None:
    assert_every_function_is_within(c)


@pytest.mark.slow
@settings(max_examples=500)
@given(strategies.cases())
def test_law_1_many_more_shapes(c: Case) -> None:
    assert_every_function_is_within(c)


def large(
    dtype: Any, n: int, m: int, d: int = 8, e: int = 5, size: float = 1.0
) -> tuple[Array, Array, Array]:
    """Read-only arrays with 4 query heads and 2 key heads, of more than one block."""
    rng = np.random.default_rng(n + m)
    shapes = (HEADS, n, d), (HEADS // 2, m, d), (HEADS // 2, m, e)
    q, k, v = (read_only((rng.standard_normal(shape) * size).astype(dtype)) for shape in shapes)
    return q, k, v


LARGE_MASKS: dict[str, Callable[[int, int], Any]] = {
    "none": lambda n, m: None,
    "causal-start": lambda n, m: regard.mask.causal(align="start"),
    "causal-end": lambda n, m: regard.mask.causal(align="end"),
    "window": lambda n, m: regard.mask.window(70, 3, align="end"),
    "no-diagonal": lambda n, m: ~regard.mask.window(40, 40, align="start"),
    "lengths": lambda n, m: regard.mask.lengths(np.array([m, 0, 1, m // 2])),
    "documents": lambda n, m: regard.mask.documents(np.arange(n) // 90, np.arange(m) // 110),
    "prefix": lambda n, m: regard.mask.prefix(33, align="end"),
    "array": lambda n, m: np.random.default_rng(3).random((n, m)) < 0.01,
}


@pytest.mark.slow
@pytest.mark.parametrize("mask", LARGE_MASKS)
@pytest.mark.parametrize(("n", "m"), [(300, 560), (530, 270), (30, 1100)])
def test_law_1_across_many_blocks(mask: str, n: int, m: int) -> None:
    arrays = large(np.float32, n, m, size=2.0)
    options = {"mask": LARGE_MASKS[mask](n, m)}
    exact = regard.attend(*(x.astype(np.float64) for x in arrays), **options)
    allowed = budget.of_dot(*arrays, exact.weights, 1 / math.sqrt(8), np.float32)
    for function in ("attention", "attention_vjp", "partial"):
        budget.assert_within(FUNCTIONS[function](*arrays, **options), exact.context, allowed, function)
    parts = regard.partial(*arrays, **options)
    np.testing.assert_array_equal(parts.lse == -np.inf, exact.lse == -np.inf)
    np.testing.assert_allclose(parts.lse, exact.lse, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 2e-3), (np.float64, 1e-10)])
def test_law_1_a_row_maximum_that_grows_from_block_to_block(dtype: Any, rtol: float) -> None:
    """Logits from -800 to 800: without rescaling by the largest one so far the sums overflow."""
    m = 2100
    keys = np.linspace(-800, 800, m, dtype=dtype)[:, None]
    queries = np.repeat(np.array([[1], [-1], [0]], dtype=dtype), 5, axis=0)
    values = np.arange(m, dtype=dtype)[:, None]
    exact = regard.attend(*(x.astype(float) for x in (queries, keys, values)), score="dot").context
    for rows in (slice(None), slice(4, 7)):
        context = regard.attention(queries[rows], keys, values, score="dot")
        np.testing.assert_allclose(context, exact[rows], rtol=rtol)


# ---- law 2: what is masked has no influence at all ------------------------------------------------------

# for each option that masks: the indices of keys that are visible to no query of any head
HIDE = np.array([True, True, False, True, True, False, True, True, True])  # keys 2 and 5 are hidden
KERNELS = ["blocked", *([] if library.missing() else ["native"])]


def hiding() -> dict[str, dict[str, Any]]:
    """Options that mask keys 2 and 5 of 9 for all queries."""
    ids = np.where(HIDE, 0, 1)
    bias = np.where(HIDE, 0.25, -np.inf).astype(np.float32)
    several = regard.mask.documents(np.zeros(7, int), ids) & regard.mask.window(None, 8, align="start")
    return {
        "array": {"mask": HIDE},
        "dense array": {"mask": np.broadcast_to(HIDE, (7, 9)).copy()},
        "object": {"mask": regard.mask.documents(np.zeros(7, int), ids)},
        "composed": {"mask": several},
        "not": {"mask": ~regard.mask.documents(np.ones(7, int), ids)},
        "bias": {"bias": bias},
        "bias matrix": {"bias": np.broadcast_to(bias, (HEADS, 7, 9)).copy()},
    }


def poisoned(array: Array, where: Any, poison: float) -> Array:
    """A read-only copy with `poison` at `where`."""
    copy = array.copy()
    copy[where] = poison
    return read_only(copy)


HIDDEN = np.flatnonzero(~HIDE)
LAW_2_SCORES = [name for name in OPTIONS if name.startswith("score")] + ["default", "softcap"]
LAW_2_NORMALIZE = [name for name in OPTIONS if name.startswith("normalize")]


def poison_case(c: Case, poison: float) -> tuple[Array, Array, Array]:
    """The arrays with hidden keys and values poisoned."""
    where = (..., HIDDEN, slice(None))
    return c.queries, poisoned(c.keys, where, poison), poisoned(c.values, where, poison)


@pytest.mark.parametrize("hide", hiding())
@every_function
def test_law_2_a_hidden_key_or_value_has_no_influence(function: str, hide: str) -> None:
    c, options = case("default"), hiding()[hide]
    expected = FUNCTIONS[function](*poison_case(c, 0.5), **options)
    assert np.isfinite(expected).all()
    for poison in (np.nan, np.inf, -np.inf, 3e38):
        assert same(FUNCTIONS[function](*poison_case(c, poison), **options), expected), poison


@pytest.mark.parametrize("name", LAW_2_SCORES + LAW_2_NORMALIZE)
def test_law_2_holds_for_every_score_and_step_two(name: str) -> None:
    c = case(name)
    options = c.option.regard | {"mask": HIDE}
    for function in functions_of(name):
        expected = FUNCTIONS[function](*poison_case(c, 0.5), **options)
        assert np.isfinite(expected).all()
        for poison in (np.nan, np.inf):
            assert same(FUNCTIONS[function](*poison_case(c, poison), **options), expected), (function, poison)


@pytest.mark.parametrize("name", [name for name in LAW_2_SCORES + LAW_2_NORMALIZE if name in SMOOTH_OPTIONS])
def test_law_2_hidden_keys_have_no_gradient_and_no_influence_on_any_gradient(name: str) -> None:
    c = case(name)
    options = c.option.regard | {"mask": HIDE}
    dcontext = np.random.default_rng(5).standard_normal((BATCH, HEADS, 7, 3)).astype(np.float32)
    expected = gradients(poison_case(c, 0.5), dcontext, **options)
    assert (expected["keys"][..., HIDDEN, :] == 0).all()
    assert (expected["values"][..., HIDDEN, :] == 0).all()
    for poison in (np.nan, np.inf):
        result = gradients(poison_case(c, poison), dcontext, **options)
        assert {k: v.tobytes() for k, v in result.items()} == {k: v.tobytes() for k, v in expected.items()}


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_law_2_a_single_poisoned_number_has_no_influence_either(
    kernel: str, dtype: Any, side: int, poison: float
) -> None:
    """Of a key that is masked for all queries, or of a query with one visible key, and with numbers after it."""
    rng = np.random.default_rng(6)
    sizes = (3, 9), (5, 9), (5, 2), (9,), (3, 2)
    queries, keys, values, vector, dcontext = (rng.standard_normal(size).astype(dtype) for size in sizes)
    visible = np.ones((3, 5), bool)
    if side:
        visible[:, 2] = False
    else:
        visible[1, 1:] = False
    unaffected = np.arange(3) != (1 if side == 0 else -1), np.arange(5) != (2 if side else 0)

    def gradients_with(x: float) -> list[Array]:
        arrays = [queries.copy(), keys.copy()]
        arrays[side][1 + side, 0] = x
        score = regard.scores.additive(None, None, vector)
        _, back = regard.attention_vjp(*arrays, values, score=score, mask=visible, kernel=kernel)
        g = back(dcontext)
        return [g.queries[unaffected[0]], g.keys[unaffected[1]], g.values[unaffected[1]]]

    for one, other in zip(gradients_with(poison), gradients_with(0.5), strict=True):
        assert np.isfinite(one).all()
        assert one.tobytes() == other.tobytes()


@every_function
def test_law_2_a_hidden_pair_of_one_row_has_no_influence(function: str) -> None:
    """Causal: query i is bitwise what it was, whatever comes after it."""
    c = case("default", n=9)
    mask = regard.mask.causal()
    expected = FUNCTIONS[function](*c.arrays, mask=mask)
    keys, values = (poisoned(x, (..., slice(5, None), slice(None)), np.nan) for x in (c.keys, c.values))
    result = FUNCTIONS[function](c.queries, keys, values, mask=mask)
    assert same(result[..., :5, :], expected[..., :5, :])
    assert np.isnan(result[..., 5:, :]).all()


@every_function
def test_law_2_a_nan_in_the_bias_of_a_hidden_pair_has_no_influence(function: str) -> None:
    c = case("default")
    bias = np.where(HIDE, np.float32(0.5), np.float32(np.nan))
    clean = np.where(HIDE, np.float32(0.5), np.float32(0))
    options = {"mask": HIDE, "score": "dot"}
    assert same(
        FUNCTIONS[function](*c.arrays, bias=bias, **options),
        FUNCTIONS[function](*c.arrays, bias=clean, **options),
    )


# ---- memory that was never written has no influence -----------------------------------------------------


@pytest.mark.parametrize("e", [0, 3])
@pytest.mark.parametrize("name", SMOOTH_OPTIONS)
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_memory_that_was_never_written_has_no_influence(
    kernel: str, name: str, e: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = case(name, e=e)
    options = c.option.regard | {"kernel": kernel}
    dcontext = np.ones((BATCH, HEADS, 7, e), np.float32)
    expected = gradients(c.arrays, dcontext, **options)
    for byte in (0x00, 0xFF, 0x7F):  # zeros, NaN, and very large numbers
        monkeypatch.setattr(np, "empty", partial(filled, byte))
        result = gradients(c.arrays, dcontext, **options)
        assert {k: v.tobytes() for k, v in result.items()} == {k: v.tobytes() for k, v in expected.items()}


@pytest.mark.parametrize("name", SMOOTH_OPTIONS)
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_memory_of_arrays_without_elements_has_no_influence(
    kernel: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = case(name, e=0)
    options = c.option.regard | {"kernel": kernel}
    for function in ("empty", "zeros"):
        monkeypatch.setattr(np, function, partial(made, getattr(np, function)))
    result = gradients(c.arrays, pointing((BATCH, HEADS, 7, 0), np.float32), **options)
    assert all(not x.any() for x in result.values())


@pytest.mark.parametrize("second", ["pointing", "view", "new"])
@pytest.mark.parametrize("first", ["pointing", "view", "new"])
@pytest.mark.parametrize("subscripts", ["gte,gte->gt", "gte,gje->gtj", "...te,...te->...t", "gtje,e->gtj"])
def test_a_sum_of_no_products_is_zero(subscripts: str, first: str, second: str) -> None:
    without_elements: dict[str, Callable[..., Array]] = {
        "pointing": pointing,
        "view": lambda shape: np.full((*shape[:-1], 3), np.nan)[..., 1:1],
        "new": np.ones,
    }
    sizes = {"g": 8, "t": 7, "j": 5, "e": 0}
    axes = subscripts.replace("...", "g").partition("->")[0].split(",")
    arrays = [
        without_elements[how](tuple(sizes[axis] for axis in of))
        for how, of in zip((first, second), axes, strict=True)
    ]
    assert not einsum(subscripts, *arrays).any()
    assert not einsum(subscripts, *arrays, dtype=np.float64).any()


def made(make: Callable[..., Array], shape: Any, dtype: Any = float) -> Array:
    """`np.empty` or `np.zeros`, with a NaN in the place of no elements."""
    return make(shape, dtype) if np.prod(shape) else pointing(shape, dtype)


def pointing(shape: Any, dtype: Any = float) -> Array:
    """An array without elements, in whose place lies a NaN."""
    return as_strided(np.full(1, np.nan, np.float32).astype(dtype), shape, [0] * len(shape))


def filled(byte: int, shape: Any, dtype: Any = float) -> Array:
    """`np.empty` with this value in all bytes."""
    array = np.zeros(shape, dtype)
    array.reshape(-1).view(np.uint8)[...] = byte
    return array


# ---- law 3: a query without a visible key -------------------------------------------------------------------------


def blind_options() -> dict[str, dict[str, Any]]:
    """Options under which queries 0 and 4 of 7 have no visible key."""
    blind = np.ones((7, 9), bool)
    blind[[0, 4]] = False
    bias = np.where(blind, np.float32(0), np.float32(-np.inf))
    ids = np.array([7, 0, 0, 0, 8, 0, 0])
    return {
        "array": {"mask": blind},
        "documents": {"mask": regard.mask.documents(ids, np.zeros(9, int))},
        "bias": {"bias": bias},
        "array and bias": {"mask": blind, "bias": np.zeros((7, 9), np.float32)},
    }


@pytest.mark.parametrize("name", OPTIONS)
def test_law_3_a_query_without_a_visible_key_has_context_0_for_every_option(name: str) -> None:
    c = case(name)
    options = c.option.regard | {"mask": blind_options()["array"]["mask"]}
    for function in functions_of(name):
        context = FUNCTIONS[function](*c.arrays, **options)
        assert (context[..., [0, 4], :] == 0).all(), function
        assert np.isfinite(context).all(), function


@pytest.mark.parametrize("how", blind_options())
def test_law_3_weights_and_lse(how: str) -> None:
    c = case("default")
    attention = regard.attend(*c.arrays, **blind_options()[how])
    part = regard.partial(*c.arrays, **blind_options()[how])
    assert (attention.weights[..., [0, 4], :] == 0).all()
    for lse in (attention.lse, part.lse):
        assert (lse[..., [0, 4]] == -np.inf).all()
        assert np.isfinite(np.delete(lse, [0, 4], axis=-1)).all()


@pytest.mark.parametrize("how", blind_options())
@pytest.mark.parametrize(
    "name", ["default", "score-additive-bias", "softcap", "normalize-sparsemax", "normalize-entmax15"]
)
def test_law_3_gradients_are_0(how: str, name: str) -> None:
    c = case(name)
    options = c.option.regard | blind_options()[how]
    dcontext = np.ones((BATCH, HEADS, 7, 3), np.float32)
    all_rows = gradients(c.arrays, dcontext, **options)
    assert (all_rows["queries"][..., [0, 4], :] == 0).all()
    assert all(np.isfinite(x).all() for x in all_rows.values())
    other = dcontext.copy()
    other[..., [0, 4], :] = -1e6  # the gradient of a query without visible keys has no influence
    for key, gradient in gradients(c.arrays, other, **options).items():
        assert same(gradient, all_rows[key]), key


def sizes_of(arrays: tuple[Array, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Names, shapes and dtypes of all gradients."""
    q, _, v = arrays
    dcontext = np.ones((BATCH, HEADS, q.shape[-2], v.shape[-1]), q.dtype)
    return {name: (x.shape, x.dtype) for name, x in gradients(arrays, dcontext, **options).items()}


@pytest.mark.parametrize(
    "name", [name for name in SMOOTH_OPTIONS if not name.startswith(("mask", "everything"))]
)
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_law_3_every_array_has_a_gradient_where_nothing_is_visible(kernel: str, name: str) -> None:
    c = case(name)
    options = c.option.regard | {"kernel": kernel}
    hidden = options | {"mask": np.zeros((7, 9), bool)}
    assert sizes_of(c.arrays, hidden) == sizes_of(c.arrays, options)
    result = gradients(c.arrays, np.ones((BATCH, HEADS, 7, 3), np.float32), **hidden)
    assert not any(x.any() for x in result.values())


@pytest.mark.parametrize("kernel", ["auto", "blocked"])
@pytest.mark.parametrize(("n", "m", "e"), [(0, 5, 3), (5, 0, 3), (5, 6, 0), (0, 0, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", [name for name in OPTIONS if name.startswith("score")])
def test_law_3_every_array_has_a_gradient_without_queries_keys_or_values(
    name: str, dtype: Any, n: int, m: int, e: int, kernel: str
) -> None:
    c, empty = case(name, dtype), case(name, dtype, n, m, 4, e)
    if not c.option.cotangent:
        return
    learned, expected = (
        {
            key: value
            for key, value in sizes_of(x.arrays, x.option.regard | {"kernel": kernel}).items()
            if "." in key
        }
        for x in (empty, c)
    )
    if name == "score-location":  # its columns are the keys
        assert learned["score.weight"][0] == (4, m + 2)
    else:
        assert learned == expected


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@every_function
def test_law_3_even_when_the_query_is_nan(function: str, poison: float) -> None:
    c, options = case("default"), blind_options()["array"]
    queries = poisoned(c.queries, (..., [0, 4], slice(None)), poison)
    assert same(
        FUNCTIONS[function](queries, c.keys, c.values, **options), FUNCTIONS[function](*c.arrays, **options)
    )


@every_function
def test_law_3_without_any_keys(function: str) -> None:
    context = FUNCTIONS[function](np.ones((2, 3, 4)), np.ones((2, 0, 4)), np.ones((2, 0, 5)))
    np.testing.assert_array_equal(context, np.zeros((2, 3, 5)))


def test_law_3_no_keys_have_lse_minus_infinity_and_gradient_0() -> None:
    arrays = np.ones((2, 3, 4)), np.ones((2, 0, 4)), np.ones((2, 0, 5))
    assert (regard.attend(*arrays).lse == -np.inf).all()
    assert (regard.partial(*arrays).lse == -np.inf).all()
    result = gradients(arrays, np.ones((2, 3, 5)))
    np.testing.assert_array_equal(result["queries"], np.zeros((2, 3, 4)))
    assert result["keys"].shape == (2, 0, 4)
    assert result["values"].shape == (2, 0, 5)


# ---- law 4: a visible NaN --------------------------------------------------------------------------------

LAW_4_OPTIONS = [
    "default",
    "softcap",
    "mask-array",
    "mask-causal-end",
    "mask-window-start",
    "mask-lengths",
    "mask-documents",
    "bias-minus-infinity",
    "normalize-sparsemax",
    "normalize-entmax15",
    "normalize-hard",
    "normalize-entmax-1.25",
    "normalize-sigmoid",
    "normalize-relu",
    "normalize-object",
    "score-cosine",
    "score-gaussian",
    "score-additive",
    "score-function",
]


@pytest.mark.parametrize("name", LAW_4_OPTIONS)
def test_law_4_a_nan_reaches_exactly_the_rows_to_which_its_key_is_visible(name: str) -> None:
    """Of a key all columns of the row, of a value its own."""
    c = case(name, seed=4)
    for j, function in itertools.product((0, 3, 8), functions_of(name)):
        keys, values = (
            poisoned(c.keys, (..., j, slice(None)), np.nan),
            poisoned(c.values, (..., j, 1), np.nan),
        )
        seen = visible_keys_of(c)[..., j]
        expected, by_key, by_value = (
            FUNCTIONS[function](c.queries, *arrays, **c.option.regard)
            for arrays in ((c.keys, c.values), (keys, c.values), (c.keys, values))
        )
        assert np.isnan(by_key[seen]).all(), function
        assert np.isnan(by_value[seen][..., 1]).all(), function
        assert np.isfinite(by_value[..., [0, 2]]).all(), function
        assert same(by_key[~seen], expected[~seen]), function
        assert same(by_value[~seen], expected[~seen]), function


@every_function
def test_law_4_a_nan_in_one_query_or_bias_entry_stays_in_its_row(function: str) -> None:
    c = case("default")
    expected = FUNCTIONS[function](*c.arrays)
    bias = np.zeros((7, 9), np.float32)
    without = FUNCTIONS[function](*c.arrays, bias=bias)
    bias[3, 2] = np.nan
    by_query = FUNCTIONS[function](poisoned(c.queries, (..., 3, 1), np.nan), c.keys, c.values)
    by_bias = FUNCTIONS[function](*c.arrays, bias=bias)
    others = [0, 1, 2, 4, 5, 6]
    assert np.isnan(by_query[..., 3, :]).all()
    assert np.isnan(by_bias[..., 3, :]).all()
    assert same(by_query[..., others, :], expected[..., others, :])
    assert same(by_bias[..., others, :], without[..., others, :])


@pytest.mark.parametrize("function", ["attention", "attention_vjp", "partial"])
def test_law_4_a_nan_in_an_early_block_is_not_forgotten(function: str) -> None:
    """The running maximum of an online softmax must not swallow it."""
    q, k, v = large(np.float32, 30, 1500)
    result = FUNCTIONS[function](q, poisoned(k, (0, 3), np.nan), v)
    assert np.isnan(result[:2]).all()
    assert np.isfinite(result[2:]).all()


@pytest.mark.parametrize("name", ["default", "softcap", "mask-array", "mask-causal-end", "score-additive"])
def test_law_4_a_nan_key_reaches_the_gradients_of_exactly_the_rows_to_which_it_is_visible(name: str) -> None:
    c = case(name, seed=4)
    visible = visible_keys_of(c)
    dcontext = np.random.default_rng(5).standard_normal((BATCH, HEADS, 7, 3)).astype(np.float32)
    expected = gradients(c.arrays, dcontext, **c.option.regard)["queries"]
    for j in (0, 3, 8):
        keys = poisoned(c.keys, (..., j, slice(None)), np.nan)
        result = gradients((c.queries, keys, c.values), dcontext, **c.option.regard)["queries"]
        assert np.isnan(result[visible[..., j]]).all()
        assert same(result[~visible[..., j]], expected[~visible[..., j]])


# ---- law 5: bitwise equal -------------------------------------------------------------------------------------


@in_one_test("layout", strategies.LAYOUTS)
@in_one_test("function", ["attend", "attention", "attention_vjp", "partial"])
def test_law_5_bitwise_equal_whatever_the_strides(function: str, layout: str) -> None:
    change = strategies.LAYOUTS[layout]
    for n, dtype in itertools.product((3, 70), (np.float32, np.float16)):
        c = case("bias-matrix", dtype, n, 90, 9, 6)
        changed = [read_only(change(np.array(x))) for x in c.arrays]
        bias = read_only(change(c.option.regard["bias"]))
        mask = change(np.random.default_rng(0).random((n, 90)) < 0.7)
        plain = {"bias": c.option.regard["bias"], "mask": np.ascontiguousarray(mask)}
        expected = FUNCTIONS[function](*c.arrays, **plain)
        assert same(FUNCTIONS[function](*changed, bias=bias, mask=mask), expected), (n, dtype)


@pytest.mark.parametrize("layout", strategies.LAYOUTS)
def test_law_5_gradients_are_bitwise_equal_whatever_the_strides(layout: str) -> None:
    c, change = case("bias-matrix", n=70, m=90, d=9, e=6), strategies.LAYOUTS[layout]
    dcontext = np.random.default_rng(1).standard_normal((BATCH, HEADS, 70, 6)).astype(np.float32)
    mask, bias = np.random.default_rng(0).random((70, 90)) < 0.7, c.option.regard["bias"]
    expected = gradients(c.arrays, dcontext, bias=bias, mask=mask)
    arrays, options = (
        tuple(change(np.array(x)) for x in c.arrays),
        {"bias": change(bias), "mask": change(mask)},
    )
    result = gradients(arrays, change(dcontext), **options)
    assert {k for k in expected if not same(result[k], expected[k])} == set()


def test_law_5_zero_strides_are_bitwise_the_repeated_array() -> None:
    c = case("default", n=70, m=90)
    keys, values = (np.broadcast_to(x[:1, :1], (BATCH, HEADS, *x.shape[2:])) for x in (c.keys, c.values))
    assert 0 in keys.strides
    expected = regard.attention(c.queries, keys.copy(), values.copy())
    assert same(regard.attention(c.queries, keys, values), expected)
    assert same(regard.attention(c.queries, c.keys[:1, :1], c.values[:1, :1]), expected)


SLICES = [
    slice(0, 1),
    slice(6, 7),
    slice(3, 90),
    slice(100, 101),
    slice(64, 129),
    slice(299, 300),
    slice(0, 299),
]
LAW_5_OPTIONS: dict[str, Callable[[slice], dict[str, Any]]] = {
    "none": lambda rows: {},
    "softcap": lambda rows: {"softcap": 2.0, "scale": 0.4},
    "lengths": lambda rows: {"mask": regard.mask.lengths(np.array([417, 3, 0, 250]))},
    "array": lambda rows: {"mask": (np.random.default_rng(2).random((300, 417)) < 0.5)[rows]},
    "bias": lambda rows: {
        "bias": np.random.default_rng(2).standard_normal((300, 417)).astype(np.float32)[rows]
    },
    "bias column": lambda rows: {"bias": np.random.default_rng(2).standard_normal((300, 1))[rows]},
    "documents": lambda rows: {
        "mask": regard.mask.documents((np.arange(300) // 9)[rows], np.arange(417) // 13)
    },
    "cosine": lambda rows: {"score": "cosine"},
    "gaussian": lambda rows: {"score": regard.scores.gaussian(2.0)},
    "sparsemax": lambda rows: {"normalize": "sparsemax"},
    "entmax": lambda rows: {"normalize": regard.weights.entmax(1.2)},
    "sigmoid": lambda rows: {"normalize": regard.weights.sigmoid(-1.0)},
    "additive": lambda rows: {"score": regard.scores.additive(*learned())},
    "alibi": lambda rows: {
        "bias": regard.position.alibi(HEADS, align=np.arange(HEADS) * 40 + (rows.start or 0))
    },
}


def learned() -> tuple[Array, Array, Array]:
    """Arrays for an additive score with d = 8."""
    rng = np.random.default_rng(11)
    wq, wk, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 6), (8, 6), (6,)))
    return wq, wk, v


@pytest.mark.parametrize("name", LAW_5_OPTIONS)
def test_law_5_a_slice_of_the_queries_is_bitwise_that_slice(name: str) -> None:
    q, k, v = large(np.float32, 300, 417)
    g = np.random.default_rng(1).standard_normal((HEADS, 300, 5)).astype(np.float32)

    def results(rows: slice) -> list[Array]:
        arrays, options = (q[:, rows], k, v), LAW_5_OPTIONS[name](rows)
        slopes = [] if name == "additive" else [gradients(arrays, g[:, rows], **options)["queries"]]
        parts = [] if "normalize" in options else [merged(*arrays, **options)]
        return [regard.attention(*arrays, **options), *parts, *slopes]

    full = results(slice(None))
    for rows in SLICES:
        for part, whole in zip(results(rows), full, strict=True):
            assert same(part, whole[:, rows]), rows


def test_law_5_a_query_moved_within_a_band_is_bitwise_the_same() -> None:
    """The last rows alone, aligned to the end, have the same visible keys."""
    q, k, v = large(np.float32, 110, 1100)
    for mask in (regard.mask.causal(align="end"), regard.mask.window(70, 0, align="end")):
        options = {"mask": mask, "bias": regard.position.alibi(HEADS, align="end")}
        full = regard.attention(q, k, v, **options)
        for start in (109, 106, 60, 1):
            assert same(regard.attention(q[:, start:], k, v, **options), full[:, start:]), start


@pytest.mark.parametrize("n", [1, 3, 50])
@pytest.mark.parametrize("function", ["attention", "attention_vjp", "partial"])
def test_law_5_the_position_in_the_batch_does_not_matter(function: str, n: int) -> None:
    rng = np.random.default_rng(9)
    q, k, v = (rng.standard_normal((5, 3, size, 8)).astype(np.float32) for size in (n, 1100, 1100))
    full = FUNCTIONS[function](q, k, v)
    for b, h in itertools.product(range(5), range(3)):
        assert same(FUNCTIONS[function](q[b, h], k[b, h], v[b, h]), full[b, h]), (b, h)
    assert same(FUNCTIONS[function](q[::-1], k[::-1], v[::-1]), full[::-1])
    assert same(FUNCTIONS[function](q[1:3], k[1:3], v[1:3]), full[1:3])


@pytest.mark.parametrize("n", [1, 3, 50])
def test_law_5_gradients_do_not_depend_on_the_position_in_the_batch(n: int) -> None:
    rng = np.random.default_rng(9)
    q, k, v, g = (rng.standard_normal((4, 2, size, 7)).astype(np.float32) for size in (n, 1100, 1100, n))
    bias = rng.standard_normal((4, 2, n, 1100)).astype(np.float32)
    full = gradients((q, k, v), g, bias=bias)
    for b, h in itertools.product(range(4), range(2)):
        alone = gradients((q[b, h], k[b, h], v[b, h]), g[b, h], bias=bias[b, h])
        assert all(same(alone[key], full[key][b, h]) for key in alone), (b, h)


def test_law_5_repeated_calls_and_out_are_bitwise_equal() -> None:
    q, k, v = large(np.float32, 300, 417)
    once = regard.attention(q, k, v)
    out = np.full_like(once, np.nan)
    result = regard.attention(q, k, v, out=out)
    assert result is out
    assert same(out, once)
    wide = np.full((*once.shape[:-1], 2 * once.shape[-1]), np.nan, np.float32)
    regard.attention(q, k, v, out=wide[..., ::2])
    assert same(wide[..., ::2], once)
    assert np.isnan(wide[..., 1::2]).all()


# ---- law 7: dtypes --------------------------------------------------------------------------------------------


@every_function
def test_law_7_integers_compute_in_float64(function: str) -> None:
    for dtype in (np.int8, np.int32, np.int64, np.uint8, np.bool_):
        rng = np.random.default_rng(0)
        q, k, v = (rng.integers(0, 3, (size, 4)).astype(dtype) for size in (5, 6, 6))
        context = FUNCTIONS[function](q, k, v)
        assert context.dtype == np.float64, dtype
        assert same(context, FUNCTIONS[function](*(x.astype(np.float64) for x in (q, k, v)))), dtype


def test_law_7_small_integers_do_not_wrap() -> None:
    """100 * 100 does not fit in int8; the second key scores higher and gets all the weight."""
    context = regard.attention(
        np.array([[100]], np.int8), np.array([[1], [100]], np.int8), np.array([[1], [2]], np.int8)
    )
    np.testing.assert_array_equal(context, [[2.0]])


@every_function
def test_law_7_float64_is_float64_throughout(function: str) -> None:
    """Logits that differ by 1e-12 relative give weights that float32 rounds to one half."""
    queries, keys = np.array([[1.0]]), np.array([[1.0], [1.0 + 1e-12]])
    values = np.array([[-1.0], [1.0]])
    context = FUNCTIONS[function](queries, keys, values, score="dot", scale=1e6)
    np.testing.assert_allclose(context, [[math.tanh(0.5e-6)]], rtol=1e-3)


@in_one_test(
    ("dtypes", "result"),
    [
        ((np.float32, np.float32, np.float32), np.float32),
        ((np.float32, np.float64, np.float32), np.float64),
        ((np.float32, np.float32, np.float64), np.float64),
        ((np.float16, np.float16, np.float32), np.float32),
        ((np.float16, np.float16, np.float16), np.float16),
        ((ml_dtypes.bfloat16,) * 3, ml_dtypes.bfloat16),
        ((ml_dtypes.bfloat16, np.float32, ml_dtypes.bfloat16), np.float32),
        ((np.int64, np.int64, np.float32), np.float64),
        ((np.int16, np.int16, np.float32), np.float32),
    ],
)
@every_function
def test_law_7_the_result_has_the_common_dtype(function: str, dtypes: tuple[Any, ...], result: Any) -> None:
    q, k, v = (np.ones((3, 4), dtype=dtype) for dtype in dtypes)
    if function == "partial" and np.dtype(result).itemsize == 2:
        result = np.float32  # a part stays in the dtype of the computation
    assert FUNCTIONS[function](q, k, v).dtype == result


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "name", ["default", "softcap", "bias-matrix", "mask-causal-end", "score-general", "score-additive"]
)
def test_law_7_half_precision_accumulates_in_float32(name: str, dtype: Any) -> None:
    """Within the float32 budget, plus one rounding of the result, and one of the weights for bfloat16."""
    c = case(name, dtype, n=5, m=60, d=8, seed=7)
    exact = c.answer
    allowed = budget.of_answer(exact, c.values, np.float32)
    info = ml_dtypes.finfo(dtype)
    size = budget.absolute_values(c.values, exact.context.shape[:-2])
    rounding = np.abs(exact.context) * float(info.eps) / 2 + float(info.smallest_subnormal)
    for function in ("attend", "attention", "attention_vjp"):
        context = FUNCTIONS[function](*c.arrays, **c.option.regard)
        assert context.dtype == dtype
        bound = allowed + rounding * 1.01
        if dtype == ml_dtypes.bfloat16 and function != "attend" and PAIRS:
            visible, d = exact.logits > -np.inf, c.queries.shape[-1]
            bound = bound + budget.pairs_of_bfloat16(exact.weights, visible, size, c.option.regard, d)
        budget.assert_within(context, exact.context, bound, function)


def naive_half(q: Array, k: Array, v: Array) -> Array:
    """Attention with every step rounded to the low precision."""
    dtype = q.dtype
    scores = (q @ k.T).astype(dtype) * dtype.type(1 / math.sqrt(q.shape[-1]))
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True)).astype(dtype)
    weights = (powers / powers.sum(axis=-1, keepdims=True, dtype=dtype)).astype(dtype)
    result: Array = (weights @ v).astype(dtype)
    return result


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_law_7_half_precision_is_no_worse_than_the_naive_computation(dtype: Any) -> None:
    rng = np.random.default_rng(8)
    for size in (0.3, 1.0, 2.0):
        q, k, v = ((rng.standard_normal((rows, 16)) * size).astype(dtype) for rows in (40, 200, 200))
        exact = regard.attend(*(x.astype(np.float64) for x in (q, k, v))).context
        ours = np.abs(regard.attention(q, k, v).astype(np.float64) - exact)
        naive = np.abs(naive_half(q, k, v).astype(np.float64) - exact)
        assert ours.max() <= naive.max()
        assert ours.mean() <= naive.mean()


def test_law_7_inspection_of_half_precision_stays_in_float32() -> None:
    c = case("default", np.float16)
    attention = regard.attend(*c.arrays)
    assert {x.dtype for x in (attention.scores, attention.logits, attention.weights, attention.lse)} == {
        np.dtype(np.float32)
    }
    part = regard.partial(*c.arrays)
    assert {part.context.dtype, part.lse.dtype} == {np.dtype(np.float32)}


@pytest.mark.parametrize("columns", [1, 8])
def test_law_7_underflow_of_float16_gives_no_warning(columns: int) -> None:
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((rows, 4)).astype(np.float16) for rows in (5, 6))
    v = (rng.standard_normal((6, columns)) * 1e-6).astype(np.float16)
    with np.errstate(all="raise"):
        context = regard.attention(q, k, v)
    np.testing.assert_array_equal(context, regard.attend(q, k, v).context)


@pytest.mark.parametrize("options", [{}, {"kernel": "blocked"}, {"scale": 0.5}, {"bias": np.zeros((1, 3))}])
@pytest.mark.parametrize("function", ["attend", "attention", "attention_vjp"])
def test_law_7_overflow_of_float16_gives_no_warning(function: str, options: dict[str, Any]) -> None:
    """A third of float16's smallest number is 0, and so is a third of a gradient, in any error state of NumPy."""
    if function == "attend":
        options = {name: value for name, value in options.items() if name != "kernel"}
    smallest = np.finfo(np.float16).smallest_subnormal
    queries, keys = np.zeros((1, 1), np.float16), np.zeros((3, 1), np.float16)
    values = np.array([[smallest], [0], [0]], np.float16)
    with np.errstate(all="raise"):
        assert same(FUNCTIONS[function](queries, keys, values, **options), np.float16([[0]]))
        if function == "attention_vjp":
            _, pullback = regard.attention_vjp(queries, keys, values, **options)
            assert same(pullback(values[:1]).values, np.float16([[0]] * 3))


# ---- law 8: inputs are never written, and may lie in memory as they like ---------------------------------------


@every_option
def test_law_8_inputs_are_never_written(name: str) -> None:
    """Writeable copies, so that a write would succeed and be detected."""
    c = case(name)
    arrays = tuple(x.copy() for x in c.arrays)
    options = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in c.option.regard.items()}
    arrays_before = [x.tobytes() for x in arrays]
    options_before = {k: v.tobytes() for k, v in options.items() if isinstance(v, np.ndarray)}
    for function in functions_of(name):
        FUNCTIONS[function](*arrays, **options)
    if c.option.cotangent:
        dcontext = np.ones((BATCH, HEADS, 7, 3), np.float32)
        before = dcontext.tobytes()
        gradients(arrays, dcontext, **options)
        assert dcontext.tobytes() == before
    assert [x.tobytes() for x in arrays] == arrays_before
    assert {k: v.tobytes() for k, v in options.items() if isinstance(v, np.ndarray)} == options_before


def test_law_8_results_do_not_share_memory_with_inputs() -> None:
    q = k = v = np.ones((1, 1))
    for function in FUNCTIONS.values():
        assert not np.shares_memory(function(q, k, v), v)


@settings(max_examples=40)
@given(
    st.tuples(*(st.integers(0, 3) for _ in range(4))),
    st.sampled_from(list(strategies.DTYPES.values())),
    st.sampled_from([(), (0,), (2,), (2, 0), (3, 1)]),
    st.sampled_from(
        sorted(
            name
            for name in set(OPTIONS) - {"bias-alibi", "bias-t5", "mask-array"}
            if "lengths" not in name  # which are those of a batch
        )
    ),
)
def test_law_8_zero_sizes_are_fine(
    sizes: tuple[int, ...], dtype: Any, lead: tuple[int, ...], name: str
) -> None:
    n, m, d, e = sizes
    q, k, v = (np.ones((*lead, *shape), dtype=dtype) for shape in ((n, d), (m, d), (m, e)))
    option = OPTIONS[name](strategies.Sizes(n, m, d, e, np.float32, np.random.default_rng(0)))
    shapes = [np.shape(x) for x in option.regard.values() if isinstance(x, np.ndarray)]
    options = {} if any(len(shape) > 2 for shape in shapes) or name == "mask-documents" else option.regard
    if name in ("everything", "normalize-local_p", "mask-composed") or (name == "mask-prefix" and m < 2):
        options = {}
    if name.startswith("sink") and name != "sink-shared":  # one for each of so many heads
        options = {}
    for function in functions_of(name):
        context = FUNCTIONS[function](q, k, v, **options)
        assert context.shape == (*lead, n, e)
        assert np.isfinite(context.astype(np.float64)).all()
    if option.cotangent:
        result = gradients((q, k, v), np.ones((*lead, n, e), dtype=dtype), **options)
        assert [result[key].shape for key in ("queries", "keys", "values")] == [q.shape, k.shape, v.shape]


def test_law_8_gradients_have_the_shapes_and_dtypes_of_their_arrays() -> None:
    c = case("bias-row", np.float32)
    result = gradients(c.arrays, np.ones((BATCH, HEADS, 7, 3), np.float32), **c.option.regard)
    assert {k: (v.shape, v.dtype) for k, v in result.items()} == {
        "queries": (c.queries.shape, np.float32),
        "keys": (c.keys.shape, np.float32),
        "values": (c.values.shape, np.float32),
        "bias": ((9,), np.float32),
    }


def test_law_8_lists_are_fine() -> None:
    context = regard.attention([[0, 0]], [[1, 2], [3, 4]], [[1.0], [3.0]])
    np.testing.assert_array_equal(context, [[2.0]])


# ---- law 9: causal alignment ----------------------------------------------------------------------------------

UNALIGNED: dict[str, Callable[[], dict[str, Any]]] = {
    "causal": lambda: {"mask": regard.mask.causal()},
    "window": lambda: {"mask": regard.mask.window(1, 1)},
    "prefix": lambda: {"mask": regard.mask.prefix(2)},
    "inside &": lambda: {"mask": regard.mask.lengths(np.asarray(3)) & regard.mask.causal()},
    "inside ~": lambda: {"mask": ~regard.mask.causal()},
    "inside |": lambda: {"mask": regard.mask.causal() | regard.mask.lengths(np.asarray(3))},
}


@in_one_test("how", UNALIGNED)
@every_function
def test_law_9_there_is_no_silent_choice(function: str, how: str) -> None:
    q, k, v = np.ones((3, 2)), np.ones((5, 2)), np.ones((5, 1))
    with pytest.raises(ValueError, match="align"):
        FUNCTIONS[function](q, k, v, **UNALIGNED[how]())
    square = FUNCTIONS[function](np.ones((5, 2)), k, v, **UNALIGNED[how]())
    assert square.shape == (5, 1)


@every_function
def test_law_9_start_and_end_align_the_first_and_the_last_pair(function: str) -> None:
    """Equal scores: the context is the mean of the visible values 1, 2, 4, 8."""
    q, k, v = np.zeros((2, 1)), np.zeros((4, 1)), np.array([[1.0], [2.0], [4.0], [8.0]])
    start = FUNCTIONS[function](q, k, v, mask=regard.mask.causal(align="start"))
    end = FUNCTIONS[function](q, k, v, mask=regard.mask.causal(align="end"))
    np.testing.assert_allclose(start, [[1], [1.5]], rtol=1e-15)
    np.testing.assert_allclose(end, [[7 / 3], [15 / 4]], rtol=1e-15)


# ---- law 10: errors come before any computation ----------------------------------------------------------------


@in_one_test(
    "wrong",
    [
        {"values": np.ones((6, 2))},
        {"mask": np.ones((9, 9), bool)},
        {"bias": np.ones((2, 4))},
        {"softcap": 0.0},
        {"normalize": "softmin"},
        {"mask": np.ones((3, 5))},
    ],
)
@every_function
def test_law_10_nothing_is_computed_when_the_input_is_wrong(function: str, wrong: dict[str, Any]) -> None:
    calls = []

    def score(queries: Array, keys: Array) -> Array:
        calls.append(1)
        return np.zeros((*queries.shape[:-1], keys.shape[-2]))

    options = dict(wrong)
    values = options.pop("values", np.ones((5, 2)))
    with pytest.raises((ValueError, TypeError)):
        FUNCTIONS[function](np.ones((3, 4)), np.ones((5, 4)), values, score=score, **options)
    assert calls == []


# ---- law 13: parts merge to the full attention -----------------------------------------------------------------


def cut(options: dict[str, Any], keys: slice, m: int) -> dict[str, Any]:
    """The options for a part of the keys, the mask as a dense array."""
    part = dict(options)
    if "mask" in part:
        part["mask"] = part["mask"][..., keys]
    if "bias" in part:
        part["bias"] = part["bias"][..., keys]
    return part


def parts_of(arrays: tuple[Array, Array, Array], cuts: list[int], options: dict[str, Any]) -> list[Any]:
    """One partial result for each piece between the cuts; two equal cuts give an empty piece."""
    q, k, v = arrays
    m = k.shape[-2]
    pieces = [slice(a, b) for a, b in itertools.pairwise([0, *sorted(cuts), m])]
    return [regard.partial(q, k[..., s, :], v[..., s, :], **cut(options, s, m)) for s in pieces]


def part_options(kind: str) -> dict[str, Any]:
    """Options with dense masks and biases for n = 5, m = 40."""
    rng = np.random.default_rng(6)
    mask = rng.random((HEADS, 5, 40)) < 0.3
    mask[0, 2] = False
    return {
        "none": {},
        "mask": {"mask": mask},
        "bias": {"bias": rng.standard_normal((5, 40))},
        "mask, bias, softcap, scale": {
            "mask": mask,
            "bias": rng.standard_normal((5, 40)),
            "softcap": 1.5,
            "scale": -2.0,
        },
    }[kind]


@pytest.mark.parametrize("kind", ["none", "mask", "bias", "mask, bias, softcap, scale"])
@settings(max_examples=15)
@given(cuts=st.lists(st.integers(0, 40), max_size=5), order=st.randoms(use_true_random=False))
def test_law_13_any_split_in_any_order_is_the_full_attention(kind: str, cuts: list[int], order: Any) -> None:
    arrays, options = large(np.float64, 5, 40), part_options(kind)
    parts = parts_of(arrays, cuts, options)
    order.shuffle(parts)
    merged_parts = regard.merge(*parts)
    full = regard.attend(*arrays, **options)
    np.testing.assert_allclose(merged_parts.context, full.context, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(merged_parts.lse == -np.inf, full.lse == -np.inf)
    np.testing.assert_allclose(merged_parts.lse, full.lse, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [2, 30])
def test_law_13_parts_of_many_blocks(n: int) -> None:
    q, k, v = large(np.float64, n, 1100)
    mask, bias = np.random.default_rng(3).random((n, 1100)) < 0.3, np.random.default_rng(4).random((n, 1100))
    mask[0, :1050] = False
    full = regard.attend(q, k, v, mask=mask, bias=bias)
    for cuts in ([0, 1, 128, 1024, 1025, 1100], [0, 0, 555, 555, 1100], [0, 1100]):
        parts = [
            regard.partial(q, k[:, a:b], v[:, a:b], mask=mask[:, a:b], bias=bias[:, a:b])
            for a, b in itertools.pairwise(cuts)
        ]
        merged_parts = regard.merge(*parts[::-1])
        np.testing.assert_allclose(merged_parts.context, full.context, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(merged_parts.lse, full.lse, rtol=1e-12, atol=1e-12)


def test_law_13_merging_is_associative_and_commutative_within_rounding() -> None:
    arrays = large(np.float64, 5, 40)
    a, b, c = parts_of(arrays, [3, 20], part_options("mask"))
    left, right = regard.merge(regard.merge(a, b), c), regard.merge(a, regard.merge(b, c))
    swapped = regard.merge(c, b, a)
    for other in (right, swapped):
        np.testing.assert_allclose(left.context, other.context, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(left.lse, other.lse, rtol=1e-13)


def test_law_13_the_empty_part_is_neutral_bit_by_bit() -> None:
    arrays = large(np.float32, 5, 40)
    part = regard.partial(*arrays, **part_options("mask"))
    empty = parts_of(arrays, [0], {})[0]
    assert (empty.lse == -np.inf).all()
    assert (empty.context == 0).all()
    for merged_parts in (regard.merge(part, empty), regard.merge(empty, part), regard.merge(part)):
        assert same(merged_parts.context, part.context)
        assert same(merged_parts.lse, part.lse)
    nothing = regard.merge(empty, empty)
    assert (nothing.context == 0).all()
    assert (nothing.lse == -np.inf).all()


def test_law_13_one_part_is_the_full_attention() -> None:
    arrays = large(np.float32, 300, 417)
    assert same(regard.merge(regard.partial(*arrays)).context, regard.attention(*arrays))


def test_law_13_parts_with_far_apart_scores() -> None:
    """lse 900 and -900: the weight of the second part is 0, without overflow."""
    q, high, low = np.array([[30.0]]), np.array([[30.0]]), np.array([[-30.0]])
    a = regard.partial(q, high, np.array([[1.0]]), score="dot")
    b = regard.partial(q, low, np.array([[5.0]]), score="dot")
    both = regard.merge(b, a)
    np.testing.assert_array_equal(both.context, [[1.0]])
    np.testing.assert_allclose(both.lse, [900.0], rtol=2 * EPS64)


def test_law_13_a_nan_in_one_part_reaches_the_result_and_an_empty_part_hides_none() -> None:
    q, k, v = np.zeros((1, 1)), np.zeros((2, 1)), np.array([[np.nan], [1.0]])
    bad, good = regard.partial(q, k[:1], v[:1]), regard.partial(q, k[1:], v[1:])
    empty = regard.partial(q, k[:0], v[:0])
    for parts in itertools.permutations([bad, good, empty]):
        assert np.isnan(regard.merge(*parts).context).all()


def test_law_13_a_nan_in_a_part_of_weight_0_reaches_the_result_as_without_parts() -> None:
    """Law 4 again: the weight of the second key underflows to 0, but it is visible."""
    q, k, v = np.array([[30.0]]), np.array([[30.0], [-30.0]]), np.array([[1.0], [np.nan]])
    assert np.isnan(regard.attend(q, k, v, score="dot").context).all()
    assert np.isnan(regard.attention(q, k, v, score="dot")).all()
    parts = [regard.partial(q, k[j : j + 1], v[j : j + 1], score="dot") for j in range(2)]
    assert np.isnan(regard.merge(*parts).context).all()


# ---- what once was wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("large", [1e3, 1e5, 1e9])
def test_law_1_large_logits_do_not_round_the_threshold(normalize: str, large: float) -> None:
    """All keys score the same, so each of 400 gets 1/400 of the weight, however large the score is."""
    q, k = np.full((1, 1), large, np.float32), np.ones((400, 1), np.float32)
    v = np.arange(400, dtype=np.float32)[:, None]
    context = regard.attention(q, k, v, score="dot", normalize=normalize)
    np.testing.assert_allclose(context, [[199.5]], rtol=1e-5)


def test_large_logits_do_not_round_softmax_gradients() -> None:
    """The same for the weights that the backward pass computes again from the saved sum."""
    q, k, v = np.full((1, 1), 1e4, np.float32), np.ones((3, 1), np.float32), np.eye(3, dtype=np.float32)
    _, pullback = regard.attention_vjp(q, k, v, score="dot")
    np.testing.assert_allclose(pullback(np.ones((1, 3))).values, np.full((3, 3), 1 / 3), rtol=1e-6)


@pytest.mark.parametrize("normalize", ["sparsemax", "entmax15"])
def test_many_masked_small_logits_do_not_change_the_sum(normalize: str) -> None:
    logits = np.r_[0, np.full(100_000, -10_000.3)].astype(np.float32)
    np.testing.assert_array_equal(regard.weights.NAMED[normalize](logits), np.eye(1, 100_001)[0])


def test_law_1_a_class_derived_from_a_score_is_a_function_of_its_own() -> None:
    class Double(regard.scores.dot):
        def __call__(self, queries: Any, keys: Any) -> Any:
            return 2 * super().__call__(queries, keys)

    q, k, v = (np.random.default_rng(i).standard_normal((5, 4)) for i in range(3))
    expected = regard.attend(q, k, v, score="dot", scale=2.0).context
    np.testing.assert_allclose(regard.attend(q, k, v, score=Double()).context, expected, rtol=1e-12)
    np.testing.assert_allclose(regard.attention(q, k, v, score=Double()), expected, rtol=1e-12)
    with pytest.raises(TypeError, match="score must have a method vjp"):
        regard.attention_vjp(q, k, v, score=Double())


class HidesTheLast:
    """A score that masks a key by itself."""

    def __call__(self, queries: Any, keys: Any) -> Any:
        scores = queries @ keys.swapaxes(-1, -2)
        return np.where(np.arange(scores.shape[-1]) == scores.shape[-1] - 1, -np.inf, scores)

    def vjp(self, queries: Any, keys: Any) -> Any:
        return self(queries, keys), lambda d: (d @ keys, d.swapaxes(-1, -2) @ queries)


@pytest.mark.parametrize("n", [15, 16, 32])
def test_law_2_a_score_of_minus_infinity_masks_in_gradients_too(n: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((n, 3)), rng.standard_normal((5, 3)), rng.standard_normal((5, 2))
    v[-1] = np.nan
    context, pullback = regard.attention_vjp(q, k, v, score=HidesTheLast())
    expected, clean = regard.attention_vjp(q, k[:-1], v[:-1], score="dot")
    np.testing.assert_allclose(context, expected, rtol=1e-12)
    result, reference = pullback(np.ones_like(context)), clean(np.ones_like(context))
    np.testing.assert_allclose(result.queries, reference.queries, atol=1e-12)
    np.testing.assert_allclose(result.keys, np.r_[reference.keys, np.zeros((1, 3))], atol=1e-12)


def test_law_2_a_masked_key_at_infinity_leaves_the_gradient_of_the_width() -> None:
    q, k, v = (
        np.zeros((1, 1), np.float32),
        np.array([[1], [2], [1e20]], np.float32),
        np.eye(3, dtype=np.float32),
    )
    options = {"score": regard.scores.gaussian(2.0), "mask": [[True, True, False]]}
    _, pullback = regard.attention_vjp(q, k, v, **options)
    _, without = regard.attention_vjp(q, k[:2], v[:2], score=regard.scores.gaussian(2.0))
    result = pullback([[1.0, 0.0, 0.0]]).score["width"]
    np.testing.assert_allclose(result, without([[1.0, 0.0, 0.0]]).score["width"], rtol=1e-6)


def test_law_1_the_cosine_of_huge_vectors() -> None:
    q, k = np.full((1, 4), 1.5e308), np.array([[1.0] * 4, [1.0, -1.0, 1.0, -1.0]])
    expected = [[math.e / (math.e + 1), 1 / (math.e + 1)]]
    np.testing.assert_allclose(regard.attention(q, k, np.eye(2), score="cosine"), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(4, 1), (4, 3)])
def test_law_1_a_sharpness_for_each_query_head_of_grouped_heads(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((4, 3, 5)), rng.standard_normal((2, 6, 5)), rng.standard_normal((2, 6, 2))
    score = regard.scores.cosine(rng.uniform(0.5, 2, shape))
    expected = regard.attend(q, np.repeat(k, 2, 0), np.repeat(v, 2, 0), score=score).context
    np.testing.assert_allclose(regard.attend(q, k, v, score=score).context, expected, rtol=1e-12)
    np.testing.assert_allclose(regard.attention(q, k, v, score=score), expected, rtol=1e-12)


def test_law_7_the_widest_of_three_dtypes_decides() -> None:
    q, k, v = np.ones((1, 2), np.float16), np.ones((3, 2), ml_dtypes.bfloat16), np.ones((3, 1), np.float64)
    assert regard.attention(q, k, v).dtype == np.float64
    assert regard.attention(q, k, k).dtype == np.float32


def test_law_8_a_score_function_cannot_write_to_the_inputs() -> None:
    def vandal(queries: Any, keys: Any) -> Any:
        queries *= 2
        return queries @ keys.swapaxes(-1, -2)

    x = np.eye(3)
    for function in (regard.attend, regard.attention):
        with pytest.raises(ValueError, match="read-only"):
            function(x, x, x, score=vandal)
    np.testing.assert_array_equal(x, np.eye(3))


@pytest.mark.parametrize(
    "score",
    [regard.scores.gaussian(), regard.scores.additive(None, None, np.zeros(0))],
    ids=["gaussian", "additive"],
)
def test_law_8_vectors_of_size_0_are_fine(score: Any) -> None:
    q, k, v = np.zeros((2, 0)), np.zeros((3, 0)), np.arange(3.0)[:, None]
    context, pullback = regard.attention_vjp(q, k, v, score=score)
    np.testing.assert_allclose(context, [[1.0], [1.0]])
    assert pullback(context).keys.shape == (3, 0)


def test_law_10_a_wrong_pullback_of_the_user_is_an_error() -> None:
    class Wrong(HidesTheLast):
        def vjp(self, queries: Any, keys: Any) -> Any:
            return self(queries, keys), lambda d: (d.sum(-1, keepdims=True), d.swapaxes(-1, -2) @ queries)

    context, pullback = regard.attention_vjp(np.eye(4, 2), np.eye(3, 2), np.eye(3), score=Wrong())
    with pytest.raises(ValueError, match="dqueries must have shape") as error:
        pullback(context)
    assert str(error.value) == "dqueries must have shape (1, 4, 2). Got (1, 4, 1) instead."


def test_records_may_be_nested() -> None:
    x = np.eye(2)
    with regard.record() as outer:
        with regard.record() as inner:
            regard.attention(x, x, x)
        regard.attend(x, x, x)
    assert (len(outer), len(inner)) == (2, 1)


BANDS = [
    regard.mask.causal("end"),
    regard.mask.window(3, 1, "start"),
    regard.mask.window(0, 0, "end")
    & regard.mask.window(None, 0, "start"),  # nothing is visible to some queries
    regard.mask.window(None, None, "end"),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32, np.float16])
@pytest.mark.parametrize("lead", [(), (1,), (3,), (2, 3)])
def test_law_1_the_fast_path_is_bitwise_the_general_path(lead: tuple[int, ...], dtype: Any) -> None:
    """Common calls take the fast path with fewer checks; a call with `out` takes the general path."""
    rng = np.random.default_rng(5)
    for n, m, d, e in ((1, 1, 1, 1), (4, 4, 3, 3), (1, 40, 8, 3), (70, 33, 5, 17), (1, 2000, 8, 3)):
        q, k, v = (
            (rng.standard_normal((*lead, *size)) * 3).astype(dtype) for size in ((n, d), (m, d), (m, e))
        )
        out = np.empty((*lead, n, e), np.float64 if np.dtype(dtype).kind == "i" else dtype)
        regard.attention(q, k, v, out=out)
        assert same(regard.attention(q, k, v), out)
        assert same(
            regard.attention(read_only(q), k, v, scale=0.25),
            regard.attention(q, k, v, scale=0.25, out=out),
        )
        assert same(regard.attention(q[..., ::-1, :], k, v)[..., ::-1, :], regard.attention(q, k, v))
        for mask in BANDS:
            regard.attention(q, k, v, mask=mask, out=out)
            assert same(regard.attention(q, k, v, mask=mask), out), mask


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, strategies.DTYPES["bfloat16"]])
@pytest.mark.parametrize("lead", [(4,), (2, 4)])
def test_law_1_the_fast_path_of_grouped_heads_and_of_a_cache_is_bitwise_the_general_path(
    lead: tuple[int, ...], dtype: Any
) -> None:
    rng = np.random.default_rng(5)
    for heads, held in ((4, 70), (2, 70), (1, 70), (2, 90)):
        q = rng.standard_normal((*lead, 1, 8)).astype(dtype)
        k, v = (rng.standard_normal((*lead[:-1], heads, 90, size)).astype(dtype) for size in (8, 6))
        for at in (slice(0, held), slice(held, None, -1), slice(0, held, 2)):
            cached = read_only(k)[..., at, :], v[..., at, :]
            out = np.empty((*lead, 1, 6), dtype)
            regard.attention(q, *cached, out=out)
            assert same(regard.attention(q, *cached), out)
            turned = k[:, ::-1] if len(lead) > 1 else k[::-1]
            out = regard.attention(q, turned[..., at, :], v[..., at, :], out=out)
            assert same(regard.attention(q, turned[..., at, :], v[..., at, :]), out)


@every_function
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 20])
def test_law_1_the_largest_numbers_as_a_bias_are_finite(function: str, dtype: Any, n: int) -> None:
    """Other libraries mask with the least number; only -inf masks here, so such a row has uniform weights."""
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal(size).astype(dtype) for size in ((n, 2), (90, 2), (90, 3)))
    for size in (np.finfo(dtype).min, np.finfo(dtype).min * dtype(0.75), np.finfo(dtype).max):
        result = FUNCTIONS[function](q, k, v, bias=np.full((n, 90), size, dtype))
        np.testing.assert_allclose(result, np.broadcast_to(v.mean(0), result.shape), rtol=1e-4, atol=1e-5)
        half = np.where(np.arange(90) < 40, size, 0).astype(dtype)
        visible_keys = slice(40) if size > 0 else slice(40, None)
        apart = (
            FUNCTIONS[function](q, k[visible_keys], v[visible_keys])
            if size < 0
            else np.broadcast_to(v[visible_keys].mean(0), (n, 3))
        )
        np.testing.assert_allclose(FUNCTIONS[function](q, k, v, bias=half), apart, rtol=1e-4, atol=1e-5)
    for size in (np.inf, np.nan):
        assert np.isnan(FUNCTIONS[function](q, k, v, bias=np.full((n, 90), size, dtype))).all()


@pytest.mark.parametrize("position", [3.2, 3.8, 20_000.2])
def test_law_1_a_window_begins_at_its_position(position: float) -> None:
    """Positions are real numbers of their own precision, whatever the arrays': a window may end at a key."""
    m = int(position) + 5
    q, k, v = np.zeros((1, 1), np.float32), np.zeros((m, 1), np.float32), np.ones((m, 1), np.float32)
    v[int(position) + 2 :] = 3
    for width in (0.8, 1.2, 1.8, 2.2):
        options = {"normalize": regard.weights.local_p([position], width)}
        expected = regard.attend(q, k, v, **options).context
        np.testing.assert_allclose(regard.attention(q, k, v, **options), expected, rtol=1e-5)
        result, _ = regard.attention_vjp(q, k, v, **options)
        np.testing.assert_allclose(result, expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 64])
@pytest.mark.parametrize("kernel", ["native", "blocked"])
def test_law_1_equal_values_have_the_error_of_blocks(kernel: str, n: int, dtype: type) -> None:
    """All weights are equal, and each value is added with the same rounding error as the one before.

    An addition to a sum in [2^i, 2^(i + 1)) is wrong by at most eps 2^(i - 1). Over k equal numbers that is at most
    eps 3/16 k of the sum. The native kernel sums blocks of 128 keys, chunks of 8 blocks, and the chunks; the NumPy
    kernel blocks of 256 keys or fewer, and the blocks. Dividing at the end, and joining, add a few.
    """
    if kernel == "native" and library.missing():
        pytest.skip(library.missing())
    constants = np.array([0.1, 1 / 3, 1.99999, 1.7, math.pi / 2, 1.49999, 1.9], dtype)
    for m in (100, 128, 256, 1000, 1024, 4097, 70_000 // n):
        zeros = np.zeros((n, 2), dtype), np.zeros((m, 2), dtype)
        context = regard.attention(*zeros, np.broadcast_to(constants, (m, 7)), kernel=kernel)
        added = 128 + 8 + m / 1024 if kernel == "native" else 256 + m / 256
        assert (np.abs(context / constants - 1) <= np.finfo(dtype).eps * (added * 3 / 16 + 4)).all(), m


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_function
def test_law_1_weights_below_the_normal_range(function: str, dtype: Any) -> None:
    """Weights of a few digits decide the context, since the value of the only large weight is 0."""
    info, rng = np.finfo(dtype), np.random.default_rng(0)
    for n, m, largest in ((1, 3, 1.0), (1, 3, float(info.max)), (20, 200, float(info.max)), (3, 1500, 1e-30)):
        logits = math.log(info.smallest_subnormal) + rng.uniform(-1, 6, (1, m))
        logits[0, m // 2] = 0
        values = rng.uniform(-1, 1, (m, 2)) * largest / m
        values[m // 2] = 0
        queries, keys, values = (x.astype(dtype) for x in (np.ones((n, 1)), logits.T, values))
        root, v = np.exp(np.tile(keys.T.astype(float), (n, 1)) / 2), values.astype(float)
        exact = np.stack([(row[:, None] * (row[:, None] * v)).sum(0) for row in root])
        allowed = budget.allowance(np.abs(keys.T.astype(float)), 1, root * root, root > 0, np.abs(v), dtype)
        budget.assert_within(
            FUNCTIONS[function](queries, keys, values, score="dot"), exact, allowed, f"m = {m}"
        )


@pytest.mark.parametrize("n", [1, 3, 64])
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_law_1_errors_of_one_sign(kernel: str, n: int) -> None:
    """Values too small to change a sum that began with 1, and long scores of equal terms."""
    eps = float(np.finfo(np.float32).eps)
    for m, d in ((16, 2), (128, 2), (256, 2), (1024, 300), (4097, 64)):
        queries = np.full((n, d), 1 / 3, np.float32)
        keys = np.repeat(np.linspace(0.05, 0.35, m, dtype=np.float32)[:, None], d, axis=1) * (d > 2)
        values = np.full((m, 1), 0.49 * eps, np.float32)
        values[0] = 1
        exact = regard.attend(*(x.astype(float) for x in (queries, keys, values)))
        allowed = budget.of_dot(queries, keys, values, exact.weights, d**-0.5, np.float32)
        context = regard.attention(queries, keys, values, kernel=kernel)
        budget.assert_within(context, exact.context, allowed, f"m = {m}, d = {d}")


def test_law_8_parts_give_the_bits_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and values that are converted piece by piece: some items and some chunks of keys at a time (law 5)."""
    rng = np.random.default_rng(0)
    for lead, n, masked in (((4,), 1, True), ((4,), 40, False), ((2, 2), 5, True)):
        q = rng.standard_normal((*lead, n, 8), dtype=np.float32)
        k, v = (rng.standard_normal((2, 3000, size), dtype=np.float32) for size in (8, 12))
        v[0, 5, 3], v[1, 2999, 2] = np.nan, np.inf
        option = {"mask": rng.random((*lead, n, 3000)) < 0.5} if masked else {"score": "cosine"}
        full = regard.partial(q, k, v, **option)
        with monkeypatch.context() as patch:
            patch.setattr("regard.kernels.problem.COPIED_BYTES", 1 << 16)
            result = regard.partial(q, *(np.asfortranarray(x) for x in (k, v)), **option)
            foreign = regard.partial(*(x.astype(x.dtype.newbyteorder()) for x in (q, k, v)), **option)
        for part in (result, foreign):
            np.testing.assert_array_equal(part.context, full.context)
            np.testing.assert_array_equal(part.lse, full.lse)
