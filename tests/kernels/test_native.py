"""The native kernel: the laws of docs/design.md on every instruction set that this machine has.

Its effects on memory and threads are tested in test_native_safety.py.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import platform
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, product
from pathlib import Path
from typing import Any

import budget
import ml_dtypes
import numpy as np
import pytest
import strategies
from fresh import fresh, printed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from one_test import in_one_test
from strategies import BATCH, DTYPES, HEADS, OPTIONS, Case, case

import regard
from regard import nn
from regard._problem import prepare
from regard.kernels import fast_path, library, problem
from regard.mask import Bound, Mask, MaskStep, window

Array = NDArray[Any]
SETS = library.instruction_sets()
needs_library = pytest.mark.skipif(not SETS, reason=library.missing() or "there is a library")
LACKING = [
    f"score-{name}" for name in regard.scores.__all__ if not getattr(getattr(regard.scores, name), "code", "")
]
NATIVE = [
    name
    for name in OPTIONS
    if not (name.startswith("normalize") and "local_m" not in name)
    and name not in ("score-function", "score-object", *LACKING)
]
REFUSED = [name for name in OPTIONS if name not in NATIVE]
TILE = {"amx": 64, "avx512bf16": 48, "avx512": 48, "avx2": 24, "baseline": 12, "neon": 12}  # queries, float32
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
every_native_option = pytest.mark.parametrize("name", NATIVE)


def chosen_by_default() -> str:
    """The instruction set that this process started with."""
    return os.environ.get("REGARD_INSTRUCTION_SET") or SETS[0]


def dtypes_on(isa: str, number: int) -> list[str]:
    """All dtypes on the set chosen by default; on each other, one for each number, so that every pair occurs."""
    if isa == chosen_by_default():
        return [*DTYPES]
    return [[*DTYPES][(SETS.index(isa) + number) % len(DTYPES)]]


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are equal bit by bit; any NaN equals any other."""
    a, b = (np.ascontiguousarray(x) for x in (a, b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    lost = np.isnan(a.astype(np.float64))
    if not (lost == np.isnan(b.astype(np.float64))).all():
        return False
    a, b = a.copy(), b.copy()
    a[lost] = b[lost] = 0
    return a.tobytes() == b.tobytes()


gradients = partial(strategies.gradients, kernel="native")


# ---- law 1: the budget, for sizes that the oracle is too slow for ---------------------------------------------


def magnitude_of(score: Any, q: Array, k: Array) -> tuple[Array, int]:
    """`oracle.Score.magnitude` and `terms` for complete float64 arrays."""
    q, k = np.abs(q), np.abs(k)
    dot, d, turned = q @ np.swapaxes(k, -1, -2), q.shape[-1], np.swapaxes(k, -1, -2)
    if isinstance(score, str):
        return dot, d
    named = {name: np.abs(np.asarray(x, np.float64)) for name, x in vars(score).items() if x is not None}
    if isinstance(score, regard.scores.cosine):
        norms = np.sqrt((q * q).sum(-1))[..., :, None] * np.sqrt((k * k).sum(-1))[..., None, :]
        return 3 * named["sharpness"] * dot / norms, d
    if isinstance(score, regard.scores.general):
        return q @ named["weight"] @ turned, 2 * d
    if isinstance(score, regard.scores.location):
        return q @ named["weight"][:, : k.shape[-2]], d
    if isinstance(score, regard.scores.gaussian):
        squares = (q * q).sum(-1)[..., :, None] + (k * k).sum(-1)[..., None, :] + 2 * dot
        return squares / (2 * named["width"] ** 2), d
    vector = named["vector"]
    if isinstance(score, regard.scores.concat):
        left, right = q @ named["weight"][:d] @ vector, k @ named["weight"][d:] @ vector
    else:
        left = q @ named.get("query_weight", np.eye(len(vector))) @ vector
        right = k @ named.get("key_weight", np.eye(len(vector))) @ vector
    own = (vector * (1 + named.get("bias", np.zeros(1)))).sum()
    return own + left[..., :, None] + right[..., None, :], max(2 * d, len(vector))


@cache
def expected(name: str, dtype: Any, n: int, m: int, d: int, e: int) -> tuple[Case, Array, Array]:
    """A case, its context in float64 by the definition, and the error allowed."""
    c = case(name, dtype, n, m, d, e, seed=n + m)
    q, k, v = (x.astype(np.float64) for x in c.arrays)
    attention = regard.attend(q, k, v, **c.option.regard)
    size, terms = magnitude_of(c.option.regard.get("score", "scaled_dot"), q, np.repeat(k, 2, axis=1))
    bias = np.nan_to_num(np.abs(np.asarray(c.option.exact.get("bias", 0.0), np.float64)), posinf=0)
    size = np.where(attention.logits > -np.inf, abs(c.option.exact["scale"]) * size + bias, 0)
    compute = np.float64 if dtype == np.float64 else np.float32
    shares = (
        attention.weights,
        attention.logits > -np.inf,
        budget.absolute_values(v, attention.context.shape[:-2]),
    )
    allowed = budget.allowance(size, terms, *shares, compute)
    if np.dtype(dtype).itemsize == 2:  # one more rounding, of the result
        half = ml_dtypes.finfo(dtype)
        allowed += np.abs(attention.context) * float(half.eps) * 0.51 + float(half.smallest_subnormal)
    if dtype == ml_dtypes.bfloat16:  # multiplied in pairs as they are stored, the weights too
        allowed += budget.pairs_of_bfloat16(*shares, c.option.regard, d)
    return c, attention.context, allowed


def assert_native_within(name: str, dtype: str, sizes: tuple[int, int, int, int]) -> None:
    """Compare with the definition."""
    c, exact, allowed = expected(name, DTYPES[dtype], *sizes)
    context = regard.attention(*c.arrays, kernel="native", **c.option.regard)
    assert context.dtype == DTYPES[dtype]
    budget.assert_within(context, exact, allowed, f"{name} {dtype} {sizes}")


@pytest.mark.slow
@every_native_option
def test_the_magnitudes_used_here_are_those_of_the_oracle(name: str) -> None:
    c = case(name, np.float64, seed=1)
    q, k = c.queries, np.repeat(c.keys, 2, axis=1)
    size, terms = magnitude_of(c.option.regard.get("score", "scaled_dot"), q, k)
    bias = np.abs(np.asarray(c.option.exact.get("bias", 0.0)))
    visible = c.answer.logits > -np.inf
    assert terms == c.answer.terms
    magnitude = np.broadcast_to(abs(c.option.exact["scale"]) * size + bias, visible.shape)
    np.testing.assert_allclose(magnitude[visible], c.answer.magnitude[visible], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@every_native_option
def test_law_1_within_the_budget_of_exact_arithmetic(isa: str, name: str, dtype: str) -> None:
    c = case(name, DTYPES[dtype], seed=1)
    allowed = budget.of_answer(c.answer, c.values, DTYPES[dtype])
    for rows in (
        (slice(None), slice(0, 3)) if name in ("default", "softcap", "mask-causal-start") else [slice(None)]
    ):
        context = regard.attention(c.queries[..., rows, :], *c.arrays[1:], kernel="native", **c.option.regard)
        budget.assert_within(context, c.answer.context[..., rows, :], allowed[..., rows, :], name)


SIZES = [
    (3, 131, 5, 7),
    (50, 133, 17, 9),
    (2, 1100, 9, 17),
    (13, 1057, 3, 2),
    (101, 70, 34, 65),
    (4, 2, 70, 1),
]


@pytest.mark.slow
@every_native_option
def test_law_1_every_option_of_every_dtype_on_every_path(isa: str, name: str) -> None:
    for dtype, sizes in product(dtypes_on(isa, NATIVE.index(name)), SIZES):
        assert_native_within(name, dtype, sizes)


def sizes_up_to(tile: int) -> list[tuple[int, int, int, int]]:
    """Every number of queries up to two tiles and one, with other sizes that visit all remainders."""
    return [(n, 1 + 37 * n % 300, 1 + 29 * n % 70, 1 + 43 * n % 70) for n in range(1, 2 * tile + 2)]


@every_dtype
def test_law_1_every_fifth_number_of_queries_up_to_two_tiles(isa: str, dtype: str) -> None:
    for sizes in sizes_up_to(TILE[isa])[2::5]:
        assert_native_within("mask-composed", dtype, sizes)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "every"), [("default", 1), ("everything", 3), ("mask-array-and-bias", 1)])
def test_law_1_every_number_of_queries_up_to_two_tiles(isa: str, name: str, every: int) -> None:
    for dtype, sizes in product(dtypes_on(isa, NATIVE.index(name)), sizes_up_to(TILE[isa])[::every]):
        assert_native_within(name, dtype, sizes)


@pytest.mark.slow
def test_law_1_every_number_of_keys_up_to_two_blocks_and_every_d_and_e(isa: str) -> None:
    for m in range(1, 260):
        for dtype in dtypes_on(isa, m):
            assert_native_within("default", dtype, (1 + m % 9, m, 1 + m % 72, 1 + (m + 35) % 72))


@pytest.mark.parametrize("score", ["additive", "gaussian"])
def test_law_1_large_features_and_distances(isa: str, score: str) -> None:
    """Numbers for which exp(2 x) overflows, among small ones."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((rows, 5)) for rows in (19, 23, 23))
    q[::3] *= 300
    k[::4] *= 500
    k[1], q[1] = -q[3], 1e-9
    of = (
        regard.scores.additive(None, None, np.linspace(-1, 1, 5))
        if score == "additive"
        else regard.scores.gaussian(9)
    )
    for dtype, rtol in ((np.float32, 3e-4), (np.float64, 1e-11)):
        arrays = tuple(x.astype(dtype) for x in (q, k, v))
        exact = tuple(x.astype(np.float64) for x in arrays)
        reference = regard.attend(*exact, score=of).context
        for n in (19, 2):
            context = regard.attention(arrays[0][:n], *arrays[1:], score=of, kernel="native")
            np.testing.assert_allclose(context, reference[:n], rtol=rtol, atol=rtol)
        g = np.ones((19, 5), dtype)
        by_blocks = gradients(exact, g, kernel="blocked", score=of)
        for key, x in gradients(arrays, g, score=of).items():
            np.testing.assert_allclose(x, by_blocks[key], rtol=10 * rtol, atol=20 * rtol, err_msg=key)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_law_1_the_hyperbolic_tangent_of_a_softcap(isa: str, dtype: Any) -> None:
    """The log-sum-exp of one key is its logit: 16 tanh(score / 16), relative to its own size down to the smallest."""
    scores = np.r_[-(10.0 ** np.linspace(-30, 3, 700)), 0, np.linspace(0.01, 40, 700)].astype(dtype)[:, None]
    one = np.ones((1, 1), dtype)
    exact = 16 * np.tanh(scores[:, 0].astype(np.longdouble) / 16)
    for rows in (slice(None), slice(600, 603), slice(900, 901)):
        lse = regard.partial(scores[rows], one, one, score="dot", softcap=16.0, kernel="native").lse
        np.testing.assert_allclose(lse, exact[rows].astype(np.float64), rtol=6 * np.finfo(dtype).eps)


@given(st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_library_sees_what_the_rule_of_masks_says(isa: str, data: st.DataObject) -> None:
    """With equal logits, a weight is positive where the key is visible. Sizes of several tiles and blocks."""
    n, m = data.draw(st.sampled_from([1, 63, 130])), data.draw(st.sampled_from([1, 64, 300]))
    mask, dense = data.draw(strategies.mask_objects(n, m, lead=(2, 2)))
    q, k = np.zeros((2, 2, n, 1), np.float32), np.zeros((2, 2, m, 1), np.float32)
    weights = regard.attention(
        q, k, np.broadcast_to(np.eye(m, dtype=np.float32), (2, 2, m, m)), mask=mask, kernel="native"
    )
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(dense, (2, 2, n, m)))


@pytest.mark.parametrize("length", [2**40, 2**62, 2**63 - 1, 2**63, 2**64, 2**80])
def test_law_1_windows_of_any_length(length: int) -> None:
    x = np.random.default_rng(0).standard_normal((9, 4))
    for mask in (
        regard.mask.window(length, 0),
        regard.mask.window(0, length),
        ~regard.mask.window(length, 2),
    ):
        np.testing.assert_allclose(
            regard.attention(x, x, x, mask=mask), regard.attend(x, x, x, mask=mask).context
        )


def test_law_1_a_true_of_any_byte(isa: str) -> None:
    """NumPy lets a bool be made of other bytes than 0 and 1."""
    x = np.random.default_rng(0).standard_normal((70, 4))
    mask = np.random.default_rng(1).integers(0, 4, (70, 70)).astype(np.uint8)
    for at in (np.array(mask).view(bool), np.asfortranarray(mask).view(bool)):
        context = regard.attention(x, x, x, mask=at, kernel="native")
        np.testing.assert_allclose(context, regard.attend(x, x, x, mask=mask != 0).context, rtol=1e-12)


# ---- gradients ------------------------------------------------------------------------------------------------


@cache
def exact_gradients(
    name: str, dtype: Any, sizes: tuple[int, int, int, int]
) -> tuple[Array, dict[str, Array], Any]:
    """A gradient of the context; all gradients by blocks, in float64 and in the dtype."""
    c = case(name, dtype, *sizes, seed=sum(sizes))
    g = np.random.default_rng(5).standard_normal((BATCH, HEADS, sizes[0], sizes[3])).astype(dtype)
    arrays = tuple(x.astype(np.float64) for x in c.arrays)
    exact = gradients(arrays, g.astype(np.float64), kernel="blocked", **c.option.regard)
    return g, exact, gradients(c.arrays, g, kernel="blocked", **c.option.regard)


def assert_gradients(name: str, dtype: Any, sizes: tuple[int, int, int, int]) -> None:
    """The native gradients err at most some times as much as those by blocks, in the norm of the largest entry."""
    c = case(name, dtype, *sizes, seed=sum(sizes))
    g, exact, blocks = exact_gradients(name, dtype, sizes)
    result = gradients(c.arrays, g, **c.option.regard)
    assert set(result) == set(exact)
    q, k, v = (np.abs(x.astype(np.float64)) for x in c.arrays)
    logit = magnitude_of(c.option.regard.get("score", "scaled_dot"), q, np.repeat(k, 2, axis=1))[0]
    logit = abs(c.option.exact["scale"]) * logit.max(initial=0)
    term = float(np.abs(g).max(initial=0)) * v.max(initial=0) * (1 + max(q.max(initial=0), k.max(initial=0)))
    for key, reference in exact.items():
        assert (result[key].shape, result[key].dtype) == (blocks[key].shape, blocks[key].dtype), key
        error, other = (
            np.abs(x[key].astype(np.float64) - reference).max(initial=0) for x in (result, blocks)
        )
        # terms that cancel, and more of them in what is summed over all
        size = np.abs(reference).max(initial=0) * (40 + 4 * logit) + (40 if key[0] in "bs" else 4) * term
        assert error <= 6 * other + float(ml_dtypes.finfo(dtype).eps) * size, (key, sizes, error, other)


@every_native_option
def test_gradients_of_every_option(isa: str, name: str) -> None:
    assert_gradients(name, np.float32, (7, 9, 4, 3))
    assert_gradients(name, np.float64, (29, 135, 5, 9))


@pytest.mark.slow
@every_native_option
def test_gradients_of_every_option_across_tiles_and_blocks(isa: str, name: str) -> None:
    sizes = [(101, 133, 17, 9), (1, 131, 5, 66), (133, 70, 65, 3), (3, 1100, 2, 1)]
    for dtype, one in product(dtypes_on(isa, NATIVE.index(name)), sizes):
        assert_gradients(name, DTYPES[dtype], one)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_of_every_other_number_of_queries_up_to_two_tiles(isa: str, dtype: str) -> None:
    for sizes in sizes_up_to(TILE[isa])[::2]:
        assert_gradients("mask-array-and-bias", DTYPES[dtype], sizes)


@pytest.mark.parametrize(
    "shape", [(), (1, 1), (4, 1, 1), (2, 1, 140, 1), (1, 150), (4, 140, 150), (2, 4, 140, 150)]
)
def test_gradients_of_a_bias_of_any_shape(isa: str, shape: tuple[int, ...]) -> None:
    """140 queries: several parts, and where few biases serve many heads, threads share by queries."""
    c = case("default", np.float64, 140, 150, 3, 2)
    bias, g = np.random.default_rng(1).standard_normal(shape), np.ones((BATCH, HEADS, 140, 2))
    g[..., 1] = np.arange(140) % 7
    result, reference = (
        gradients(c.arrays, g, kernel=kernel, bias=bias, threads=2) for kernel in ("native", "blocked")
    )
    for key, x in reference.items():
        np.testing.assert_allclose(result[key], x, rtol=1e-9, atol=1e-11 * (1 + np.abs(x).max()), err_msg=key)


# ---- laws 2 to 4: masked and visible keys -----------------------------------------------------------------

M = 1100  # keys: nine blocks, two chunks
POISON = [np.nan, np.inf, -np.inf, 3e38]
PATHS = [1, 4, 5, 60]  # numbers of queries: few and many


def arrays_of(
    n: int, m: int = M, dtype: Any = np.float32, d: int = 6, e: int = 3
) -> tuple[Array, Array, Array]:
    """Queries with 2 heads, keys and values with 1; an even d, so that bfloat16 may be multiplied in pairs."""
    rng = np.random.default_rng(n)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for shape in ((2, n, d), (1, m, d), (1, m, e)))
    return q, k, v


def with_poison(x: Array, where: Any, poison: float) -> Array:
    """A copy with `poison` at `where`."""
    copy = x.copy()
    with np.errstate(over="ignore"):
        copy[where] = poison
    return strategies.read_only(copy)


HIDDEN = np.array([0, 3, 127, 128, 700, 1023, 1024, 1099])


def hiding(n: int) -> dict[str, dict[str, Any]]:
    """Options that mask the hidden keys for all queries."""
    visible = ~np.isin(np.arange(M), HIDDEN)
    ids = np.where(visible, 0, 1)
    several = regard.mask.documents(np.zeros(n, int), ids) & ~regard.mask.lengths(np.asarray(0))
    return {
        "array": {"mask": np.broadcast_to(visible, (2, n, M)).copy()},
        "row": {"mask": visible},
        "documents": {"mask": regard.mask.documents(np.zeros(n, int), ids)},
        "composed": {"mask": several},
        "bias": {"bias": np.where(visible, np.float32(0.25), np.float32(-np.inf))},
        "bias matrix": {
            "bias": np.broadcast_to(np.where(visible, 0.25, -np.inf), (2, n, M)).astype(np.float32)
        },
    }


SCORES = {
    "scaled_dot": "scaled_dot",
    "cosine": "cosine",
    "gaussian": regard.scores.gaussian(1.5),
    "additive": regard.scores.additive(None, None, np.linspace(-1, 1, 6, dtype=np.float32)),
}


def assert_no_influence(
    arrays: tuple[Array, Array, Array], at: Any, poisons: list[float], **options: Any
) -> None:
    """No bit of the result depends on keys and values there, nor warns of them."""
    q, k, v = arrays
    reference, *results = (
        regard.partial(q, with_poison(k, at, x), with_poison(v, at, x), kernel="native", **options)
        for x in (0.5, *poisons)
    )
    assert np.isfinite(reference.context).all()
    for poison, result in zip(poisons, results, strict=True):
        assert same(result.context, reference.context), poison
        assert same(result.lse, reference.lse), poison


@pytest.mark.parametrize("how", hiding(1))
@pytest.mark.parametrize("n", PATHS)
def test_law_2_hidden_keys_and_values_have_no_influence(isa: str, n: int, how: str) -> None:
    q, k, v = arrays_of(n)
    options, at = hiding(n)[how], (0, HIDDEN)
    assert_no_influence((q, k, v), at, POISON, **options)
    g = np.random.default_rng(2).standard_normal((2, n, 3)).astype(np.float32)
    slopes = gradients((q, with_poison(k, at, 0.5), with_poison(v, at, 0.5)), g, **options)
    assert (slopes["keys"][at] == 0).all()
    assert (slopes["values"][at] == 0).all()
    for poison in POISON[:3]:  # the last is as large a number as any other, and differences overflow
        for key, x in gradients(
            (q, with_poison(k, at, poison), with_poison(v, at, poison)), g, **options
        ).items():
            assert same(x, slopes[key]), (key, poison)


@every_dtype
@pytest.mark.parametrize("score", SCORES)
def test_law_2_for_every_score_and_dtype(isa: str, score: str, dtype: str) -> None:
    mask = np.arange(140) % 50 != 7
    for n in (2, 20):
        options = {"score": SCORES[score], "mask": mask, "softcap": 5.0}
        assert_no_influence(arrays_of(n, 140, DTYPES[dtype]), (0, ~mask), [np.nan, np.inf], **options)


@every_dtype
@pytest.mark.parametrize("n", [2, 7, 70])
def test_law_2_wherever_the_visible_keys_begin_and_end(isa: str, n: int, dtype: str) -> None:
    """Products take several keys at a time, and among them masked ones."""
    for m, first, end in (4, 0, 3), (72, 0, 33), (72, 3, 64), (130, 37, 66), (130, 64, 129), (161, 127, 160):
        mask = (np.arange(m) >= first) & (np.arange(m) < end)
        assert_no_influence(arrays_of(n, m, DTYPES[dtype]), (0, ~mask), [np.nan, np.inf], mask=mask)


@pytest.mark.parametrize("n", PATHS)
def test_law_2_a_hidden_pair_of_one_row(isa: str, n: int) -> None:
    """Causal, aligned to the end: all but the last two queries are bitwise what they were."""
    n += 2
    q, k, v = arrays_of(n)
    mask = regard.mask.causal(align="end")
    reference = regard.attention(q, k, v, mask=mask, kernel="native")
    at = (0, slice(M - 2, None))
    for poison in (np.nan, np.inf):
        context = regard.attention(
            q, with_poison(k, at, poison), with_poison(v, at, poison), mask=mask, kernel="native"
        )
        assert same(context[:, :-2], reference[:, :-2])
        assert not np.isfinite(context[:, -2:]).any()


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("n", PATHS)
def test_law_3_a_query_without_a_visible_key(isa: str, n: int, poison: float) -> None:
    n += 2
    q, k, v = arrays_of(n)
    blind = [0, n - 1]
    mask = np.ones((n, M), bool)
    mask[blind] = False
    q = with_poison(q, (slice(None), blind), poison)
    part = regard.partial(q, k, v, mask=mask, kernel="native")
    assert (part.context[:, blind] == 0).all()
    assert (part.lse[:, blind] == -np.inf).all()
    assert np.isfinite(part.context).all()
    g = np.ones((2, n, 3), np.float32)
    slopes = gradients((q, k, v), g, mask=mask)
    assert (slopes["queries"][:, blind] == 0).all()
    assert all(np.isfinite(x).all() for x in slopes.values())
    g[:, blind] = -1e6
    for key, x in gradients((q, k, v), g, mask=mask).items():
        assert same(x, slopes[key]), key


def test_law_3_no_query_has_a_visible_key(isa: str) -> None:
    for n in PATHS:
        arrays = arrays_of(n)
        for mask in (np.zeros((n, M), bool), regard.mask.lengths(np.asarray(0))):
            part = regard.partial(*arrays, mask=mask, kernel="native")
            assert (part.context == 0).all()
            assert (part.lse == -np.inf).all()
            slopes = gradients(
                arrays, np.ones((2, n, 3), np.float32), mask=mask, bias=np.zeros(M, np.float32)
            )
            assert all((x == 0).all() for x in slopes.values())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("n", PATHS)
def test_law_4_visible_non_finite_values_reach_exactly_their_rows(isa: str, n: int, dtype: str) -> None:
    """Nor, in half precision, does one number of a pair affect the other."""
    n += 1
    q, k, v = arrays_of(n, dtype=DTYPES[dtype])
    visible = np.random.default_rng(8).random((n, M)) < 0.5
    visible[0] = False  # law 3
    options = {"mask": visible, "kernel": "native"}
    clean = regard.attention(q, k, v, **options)
    assert (clean[:, 0] == 0).all()
    for j in (0, 1, 128, 129, 1031, 1098, 1099):
        hit = visible[:, j]
        for poison in (np.nan, np.inf, -np.inf):
            expected = clean.copy()
            expected[:, hit, 1] = poison
            assert same(regard.attention(q, k, with_poison(v, (0, j, 1), poison), **options), expected), j
        by_key = regard.attention(q, with_poison(k, (0, j, 3), np.nan), v, **options)
        assert np.isnan(by_key[:, hit].astype(float)).all()
        assert same(by_key[:, ~hit], clean[:, ~hit])
    by_query = regard.attention(with_poison(q, (0, n - 1, 1), np.nan), k, v, **options)
    assert np.isnan(by_query[0, n - 1].astype(float)).all()
    by_query[0, n - 1] = clean[0, n - 1]
    assert same(by_query, clean)


@pytest.mark.parametrize("n", PATHS)
def test_law_4_visible_nan_keys_reach_the_gradients_of_exactly_their_rows(isa: str, n: int) -> None:
    n += 1
    q, k, v = arrays_of(n)
    visible = np.random.default_rng(8).random((n, M)) < 0.5
    g = np.random.default_rng(2).standard_normal((2, n, 3)).astype(np.float32)
    clean = gradients((q, k, v), g, mask=visible)["queries"]
    for j in (0, 129, 1030, 1099):
        slopes = gradients((q, with_poison(k, (0, j), np.nan), v), g, mask=visible)["queries"]
        assert np.isnan(slopes[:, visible[:, j]]).all()
        assert same(slopes[:, ~visible[:, j]], clean[:, ~visible[:, j]])


@pytest.mark.parametrize("n", PATHS)
def test_law_4_an_infinite_value_whose_weight_underflows(isa: str, n: int) -> None:
    q, k, v = np.full((n, 1), 30.0), np.r_[30.0, np.full(1500, -30.0)][:, None], np.ones((1501, 2))
    v[1400, 0], v[3, 0], v[7, 1] = np.inf, np.inf, -np.inf
    context = regard.attention(q, k, v, score="dot", kernel="native")
    assert same(context, np.broadcast_to([np.inf, -np.inf], (n, 2)))
    v[1300, 0] = -np.inf
    assert np.isnan(regard.attention(q, k, v, score="dot", kernel="native")[:, 0]).all()


# ---- law 5: bitwise equal ---------------------------------------------------------------------------------------

N = 110
SLICES = [slice(i, i + 1) for i in (0, 47, 48, 109)] + [slice(0, 3), slice(5, 9), slice(0, 50), slice(7, 110)]
Sliced = Callable[[slice, int], dict[str, Any]]


def random(*shape: int) -> Array:
    """The same numbers every time."""
    return np.random.default_rng(2).random(shape).astype(np.float32)


SLICED: dict[str, Sliced] = {
    "none": lambda rows, m: {},
    "scale and softcap": lambda rows, m: {"softcap": 2.0, "scale": 0.4},
    "lengths": lambda rows, m: {"mask": regard.mask.lengths(np.array([m, min(m, 3), 0, m // 2]))},
    "array": lambda rows, m: {"mask": (random(N, m) < 0.3)[rows]},
    "documents": lambda rows, m: {
        "mask": regard.mask.documents((np.arange(N) // 9)[rows], np.arange(m) // 13)
    },
    "bias": lambda rows, m: {"bias": random(N, m)[rows]},
    "float64 bias": lambda rows, m: {"bias": random(N, m)[rows].astype(np.float64)},
    "bias column": lambda rows, m: {"bias": random(N, 1)[rows]},
    "bias of -inf": lambda rows, m: {
        "bias": np.where(random(4, N, m) < 0.5, -np.inf, 1)[:, rows].astype(np.float32)
    },
    "cosine": lambda rows, m: {"score": "cosine"},
    "gaussian": lambda rows, m: {"score": regard.scores.gaussian(2.0)},
    "additive": lambda rows, m: {"score": regard.scores.additive(random(7, 5), random(7, 5), random(5))},
    "concat": lambda rows, m: {"score": regard.scores.concat(random(14, 19), random(19))},
}


def law_5_arrays(m: int, dtype: Any) -> tuple[Array, Array, Array]:
    """4 query heads, 2 key heads; an even d for bfloat16, which may be multiplied in pairs."""
    rng = np.random.default_rng(m)
    d = 8 if dtype == ml_dtypes.bfloat16 else 7
    shapes = (4, N, d), (2, m, d), (2, m, 21)
    q, k, v = (strategies.read_only((rng.standard_normal(shape) * 2).astype(dtype)) for shape in shapes)
    return q, k, v


def assert_slices(name: str, m: int, dtype: Any) -> None:
    """Context, log-sum-exp and the gradient of the queries of slices are slices of the full result."""
    q, k, v = law_5_arrays(m, dtype)
    if name in ("additive", "concat"):
        q, k = q[..., :7], k[..., :7]
    g = np.random.default_rng(1).standard_normal((4, N, 21)).astype(dtype)
    full = regard.partial(q, k, v, kernel="native", **SLICED[name](slice(None), m))
    slopes = gradients((q, k, v), g, **SLICED[name](slice(None), m))["queries"]
    for rows in SLICES:
        options = SLICED[name](rows, m)
        part = regard.partial(q[:, rows], k, v, kernel="native", **options)
        assert same(part.context, full.context[:, rows]), rows
        assert same(part.lse, full.lse[:, rows]), rows
        result = gradients((q[:, rows], k, v), g[:, rows], **options)["queries"]
        assert same(result, slopes[:, rows]), rows


@pytest.mark.slow
@pytest.mark.parametrize("name", SLICED)
def test_law_5_slices_of_every_dtype_across_chunks(isa: str, name: str) -> None:
    for dtype, m in product(dtypes_on(isa, [*SLICED].index(name)), (1, 67, 1100)):
        assert_slices(name, m, DTYPES[dtype])


@pytest.mark.slow
@pytest.mark.parametrize(("number", "width"), [(0, 32), (1, 65), (2, 256)])
def test_law_5_one_query_of_many_items_and_thousands_of_keys(isa: str, number: int, width: int) -> None:
    """A task takes several chunks where there are many items, and the keys of all before their values."""
    rng = np.random.default_rng(width)
    lengths = np.array([5700, 5700, 1, 128, 1024, 4096, 4097, 5000])
    for dtype in dtypes_on(isa, number):
        drawn_as = np.result_type(DTYPES[dtype], np.float32)
        drawn = rng.standard_normal((8, 5719, width), dtype=drawn_as)  # once, as it takes most of the time
        q, k, v = (
            drawn[:, rows].astype(DTYPES[dtype]) for rows in (slice(5700, None), slice(5700), slice(7, 5707))
        )
        v[0, 3000, width - 1] = np.inf
        v[1, [10, 5000], 0] = np.nan
        v[4, 2000, 3] = np.nan  # it is masked
        for mask in (regard.mask.lengths(lengths), None):
            options = {"mask": mask, "kernel": "native"}
            full = regard.attention(q, k, v, **options)
            for threads in (1, 2, 3):
                result = regard.attention(q[:, 7:8], k, v, threads=threads, **options)
                assert same(result, full[:, 7:8]), (dtype, threads)


@pytest.mark.parametrize(("d", "e"), [(8, 8), (64, 80), (98, 33)])
def test_law_5_slices_of_bfloat16_with_numbers_of_every_size(isa: str, d: int, e: int) -> None:
    """Few queries use other instructions than many; with both, the smallest numbers may count as 0."""
    rng = np.random.default_rng(d)
    tiny = rng.integers(0, 0x100, (2, 131, d), dtype=np.uint16) | rng.choice([0, 0x8000], (2, 131, d)).astype(
        np.uint16
    )
    for q_size, k in ((1.0, rng.standard_normal((2, 131, d))), (1e37, tiny.view(ml_dtypes.bfloat16))):
        q = (rng.standard_normal((2, N, d)) * q_size).astype(ml_dtypes.bfloat16)
        k = np.asarray(k).astype(ml_dtypes.bfloat16)
        v = (rng.standard_normal((2, 131, e)) * 10.0 ** rng.integers(-39, 38, (2, 131, e))).astype(q.dtype)
        v[0, 70, 3] = np.inf
        full = regard.attention(q, k, v, kernel="native")
        for rows in SLICES:
            assert same(regard.attention(q[:, rows], k, v, kernel="native"), full[:, rows]), rows


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["none", "array", "lengths", "gaussian"])
def test_half_precision_is_float32_with_rounded_results(isa: str, name: str, dtype: str) -> None:
    """Many queries: keys and values are widened once for several tiles, but not for other keys or the next call."""
    if isa in ("amx", "avx512bf16") and dtype == "bfloat16":
        pytest.skip("pairs are multiplied as they are stored")
    rng = np.random.default_rng(7)
    options: dict[str, Any] = {
        "none": {},
        "array": {"mask": rng.random((200, 333)) < 0.7},
        "lengths": {"mask": regard.mask.lengths(200)},
        "gaussian": {"score": regard.scores.gaussian(2.0)},
    }[name]
    q, k, v = (
        rng.standard_normal(shape).astype(DTYPES[dtype])
        for shape in ((3, 4, 200, 10), (3, 2, 333, 10), (3, 2, 333, 21))
    )
    v[1, 1, 300, 3] = np.inf
    v[2, 0, 5, 20] = np.nan
    for threads in (1, 2):
        calls, results = [], []
        for one in (False, True, True):  # alone, an item is the last of its call and then the first
            arrays = [x[1, :1, None] if one else x for x in (q, k, v)]
            results.append(regard.attention(*arrays, kernel="native", threads=threads, **options))
            calls.append([x.astype(np.float32) for x in arrays])
            k[..., 40:50, :] *= 2  # in place, where the last call has read
            v[..., 40:50, :] *= 2
        for wide, result in zip(calls, results, strict=True):
            reference = regard.attention(*wide, kernel="native", threads=threads, **options)
            assert same(result, reference.astype(result.dtype))


@pytest.mark.parametrize(("seed", "dtype"), [(1080, np.float32), (3873, np.float64)])
def test_law_5_nan_has_one_sign(isa: str, seed: int, dtype: Any) -> None:
    """More threads take narrower tiles, for which the compiler may have put operands in another order: here it had."""
    rng = np.random.default_rng(seed)
    n, m, d, e, items = (int(rng.integers(*ends)) for ends in ((9, 120), (20, 300), (1, 20), (1, 80), (1, 9)))
    shapes = (items, n, d), (items, m, d), (items, m, e)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    for x in arrays:
        wild = rng.random(x.shape) < 0.0005
        x[wild] = rng.choice([np.nan, np.inf, -np.inf], wild.sum())
    some = rng.random() < 0.6
    mask = regard.mask.window(*map(int, rng.integers(0, m, 2)), align="start") if some else None
    outputs = [regard.attention(*arrays, mask=mask, kernel="native", threads=t).tobytes() for t in (1, 40)]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("n", [1, 3, 4, 20])
def test_law_5_shared_keys_are_bitwise_repeated_keys(isa: str, n: int, dtype: str) -> None:
    """Queries of several heads that read one key head are packed together where they are few."""
    rng = np.random.default_rng(9)
    q, k, v = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((2, 10, n, 38), (2, 2, 1101, 38), (2, 2, 1101, 43))
    )
    non_finite = v.copy()
    non_finite[:, :, 5], non_finite[:, :, ::70, ::9] = np.nan, np.inf
    visible = rng.random((10, n, 1101)) < 0.3
    visible[..., 5] = False
    masked = {"mask": visible, "bias": rng.standard_normal((10, 1, 1101)).astype(np.float32)}
    for values, options in ((v, {}), (v, masked), (non_finite, masked)):
        context = regard.attention(q, k, values, kernel="native", **options)
        alone = regard.attention(q, np.repeat(k, 5, 1), np.repeat(values, 5, 1), kernel="native", **options)
        assert same(context, alone)
        assert not np.isnan(context.astype(np.float32)).any()


BANDS = {
    "causal": regard.mask.causal("end"),
    "window": regard.mask.window(3, 1, "start"),
    "nobody": regard.mask.window(0, 0, "end") & regard.mask.window(None, 0, "start"),
    "all": regard.mask.window(None, None, "end"),
}


def assert_both_paths(q: Any, k: Any, v: Any, dcontext: Any, **options: Any) -> None:
    """Gradients are bitwise equal on both paths: the fast one does not support another byte order."""
    short, pullback = regard.attention_vjp(q, k, v, kernel="native", **options)
    other = (x.astype(x.dtype.newbyteorder()) for x in (q, k, v))
    long, pullback_of_long = regard.attention_vjp(*other, kernel="native", **options)
    assert same(short, long)
    short[...] = 7  # belongs to the caller
    for result, reference in zip(pullback(dcontext)[:3], pullback_of_long(dcontext)[:3], strict=True):
        assert same(result, reference)
    assert pullback(dcontext)[3:] == (None, {}, {}, None)


@pytest.mark.slow
@in_one_test("band", [*BANDS, None])
@in_one_test("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 9), (50, 300), (1, 2000), (9, 5), (127, 40), (128, 40)])
def test_the_fast_path_of_gradients_gives_the_same_bits(
    isa: str, band: str | None, dtype: Any, n: int, m: int
) -> None:
    rng = np.random.default_rng(0)
    options: dict[str, Any] = {} if band is None else {"mask": BANDS[band]}
    for heads, d, e in ((2, 8, 3), (1, 16, 32), (4, 33, 16)):
        shapes = (2, 4, n, d), (2, heads, m, d), (2, heads, m, e), (2, 4, n, e)
        q, k, v, dcontext = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
        for threads in (1, 2):
            assert_both_paths(q, k, v, dcontext, threads=threads, **options)
    q, k, v = (np.repeat(x, 2, -2)[..., ::2, :] for x in (q, k, v))  # rows with gaps
    assert_both_paths(q, k, v, np.asfortranarray(dcontext), scale=0.3, **options)


def test_gradients_that_need_the_general_path(isa: str) -> None:
    """Non-finite numbers, gradients of other types, and the error of a wrong shape."""
    rng = np.random.default_rng(1)
    q, k, v, dcontext = rng.standard_normal((4, 3, 6, 8)).astype(np.float32)
    for cotangent in (dcontext.astype(np.float64), dcontext.tolist(), np.ones(dcontext.shape, int)):
        assert_both_paths(q, k, v, cotangent)
    causal = regard.mask.causal()
    for x in (q, k, v):
        x[0, -1, 2] = np.nan
        assert_both_paths(q, k, v, dcontext, mask=causal)
        x[0, -1, 2] = np.inf
        assert_both_paths(q, k, v, dcontext, mask=causal)
        x[0, -1, 2] = 1
    _, pullback = regard.attention_vjp(q, k, v, kernel="native")
    with pytest.raises(ValueError, match=r"dcontext must have the shape of the context .* = \(3, 6, 8\)"):
        pullback(dcontext[:, :5])


def test_gradients_have_the_shapes_at_the_call(isa: str) -> None:
    """An array reshaped meanwhile must not make the library write outside of its gradients."""
    q, k, v, dcontext = (np.random.default_rng(i).standard_normal((3, 6, 32)) for i in range(4))
    reference = regard.attention_vjp(q, k, v, kernel="native")[1](dcontext)
    pullback = regard.attention_vjp(q, k, v, kernel="native")[1]
    for array, shape in (q, (576,)), (k, (3, 3, 64)), (v, (576,)):
        array.resize(shape, refcheck=False)  # in place
    for result, right in zip(pullback(dcontext)[:3], reference[:3], strict=True):
        assert same(result, right)


def test_the_general_pullback_is_recorded_once() -> None:
    q, k, v, dcontext = np.ones((4, 3, 6, 8))
    with regard.record() as before:
        pullback = regard.attention_vjp(q, k, v)[1]
    pullback = regard.attention_vjp(q, k, v)[1]
    with regard.record() as after:
        pullback(dcontext.tolist())
    assert [len(before), len(after)] == [1, 0]


@pytest.mark.parametrize("nothing", [False, np.False_])
def test_a_window_with_another_bind_is_used(nothing: Any) -> None:
    class Nobody(regard.mask.window):
        def bind(self, layout: Any) -> Any:
            return lambda items, rows, columns: nothing

    assert (regard.attention(*np.ones((3, 1, 4, 4)), mask=Nobody(1, 1)) == 0).all()
    assert (regard.attention(*np.ones((3, 1, 4, 4)), mask=~Nobody(1, 1)) == 1).all()


@pytest.mark.parametrize("options", [{}, {"mask": regard.mask.causal()}], ids=["plain", "masked"])
def test_broadcast_arrays_are_read_without_a_warning(isa: str, options: dict[str, Any]) -> None:
    # They are contiguous, but NumPy warns on a query of their writeable flag; here a warning is an error.
    rng = np.random.default_rng(0)
    one, wide = np.broadcast_arrays(rng.standard_normal((1, 4, 8)), rng.standard_normal((4, 8)))
    plain = np.array(wide)
    expected = regard.attention(plain, one.copy(), plain, kernel="native", **options)
    assert (regard.attention(wide, one, wide, kernel="native", **options) == expected).all()
    context, pullback = regard.attention_vjp(wide, one, wide, kernel="native", **options)
    assert (context == expected).all()
    assert pullback(wide).queries.shape == wide.shape


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("tiles", [1, 2, 3, 9])
def test_law_5_heads_side_by_side(isa: str, tiles: int, dtype: str) -> None:
    """Rows of a head with a large stride are copied for many tiles, with and without non-finite values."""
    n, m = tiles * TILE[isa], 300
    rng = np.random.default_rng(10)
    interleaved = [
        rng.standard_normal((rows, 2, columns)).astype(dtype).swapaxes(0, 1)
        for rows, columns in ((n, 20), (m, 20), (m, 13))
    ]
    visible = rng.random((n, m)) < 0.5
    visible[:, 131], visible[:, 299] = False, True
    non_finite = interleaved[2].copy("K")
    non_finite[:, 131], non_finite[1, 7, 2] = np.nan, np.inf
    assert non_finite.strides == interleaved[2].strides
    for values, options in ((interleaved[2], {}), (non_finite, {"mask": visible})):
        arrays = [*interleaved[:2], values]
        alone = [np.ascontiguousarray(x) for x in arrays]
        reference = regard.attention(*alone, kernel="native", **options)
        assert same(regard.attention(*arrays, kernel="native", **options), reference)
        with np.errstate(invalid="ignore"):
            exact = regard.attend(*(x.astype(np.float64) for x in alone), **options).context
        assert (np.isfinite(reference) == np.isfinite(exact)).all()
        near = np.isfinite(exact)
        np.testing.assert_allclose(reference[near].astype(np.float64), exact[near], atol=5e-3, rtol=0)


@pytest.mark.parametrize("n", [1, 12, 20, 70])
def test_law_1_queries_that_the_scale_would_round(isa: str, n: int) -> None:
    """The scale multiplies a query if that loses no digit, and otherwise its scores."""
    rng = np.random.default_rng(11)
    small = np.arange(n) % 3 == 0
    q = (rng.standard_normal((n, 512)) * 2.0**-125).astype(np.float32)
    q[small] = 2.0**-149  # the smallest number there is: 0.3 times that is 0
    signs = (-1.0) ** np.arange(200)
    k = np.repeat(signs[:, None] * 2.0**127, 512, axis=1).astype(np.float32)
    context = regard.attention(q, k, signs[:, None].astype(np.float32), scale=0.3, kernel="native")
    reference = np.tanh(0.3 * 512 * 2.0 ** (127 - 149))
    np.testing.assert_allclose(context[small], reference, rtol=0.01)


@pytest.mark.parametrize("name", ["none", "array", "bias", "bias column", "additive", "gaussian", "lengths"])
def test_law_5_threads(isa: str, name: str) -> None:
    for n, m in ((1, 2100), (N, 300), (200, 131)):
        rng = np.random.default_rng(m)
        q, k, v = (
            rng.standard_normal(shape).astype(np.float32) for shape in ((4, n, 7), (2, m, 7), (2, m, 21))
        )
        options = SLICED[name](slice(0, n), m) if n <= N else {"bias": random(n, m)}
        g = np.ones((4, n, 21), np.float32)
        alone = regard.attention(q, k, v, threads=1, kernel="native", **options)
        slopes = gradients((q, k, v), g, threads=1, **options)
        for threads in (2, 3, 8):
            assert same(regard.attention(q, k, v, threads=threads, kernel="native", **options), alone), (
                n,
                threads,
            )
            result = gradients((q, k, v), g, threads=threads, **options)
            assert [key for key in slopes if not same(result[key], slopes[key])] == [], (n, threads)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone says where a thread may run")
def test_threads_run_on_the_processors_that_the_user_allows(isa: str) -> None:
    """The pool spreads its threads without pinning them: each may run on all processors but one at most."""
    code = """
        import os, numpy as np, regard
        x = np.ones((8, 300, 32), np.float32)
        before = set(os.listdir("/proc/self/task"))
        for _ in range(20):
            regard.attention(x, x, x, kernel="native", threads=3)
        helpers = set(os.listdir("/proc/self/task")) - before
        mine, theirs = os.sched_getaffinity(0), [os.sched_getaffinity(int(thread)) for thread in helpers]
        print(len(helpers) == 2, all(each <= mine and len(each) >= max(1, len(mine) - 1) for each in theirs))
    """
    assert printed(code).split() == ["True", "True"]


# ---- asked for by name --------------------------------------------------------------------------------------------


class Everybody(regard.mask.Mask):
    """A mask class of the user's."""

    def bind(self, layout: Any) -> Any:
        """All keys are visible to all queries."""
        return lambda items, rows, columns: True


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "sparsemax": ({"normalize": "sparsemax"}, "normalize='sparsemax'"),
    "entmax15": ({"normalize": "entmax15"}, "normalize='entmax15'"),
    "hard": ({"normalize": "hard"}, "normalize='hard'"),
    "entmax": ({"normalize": regard.weights.entmax(1.2)}, "normalize=entmax(1.2)"),
    "normalize": ({"normalize": strategies.off_by_one}, "a normalisation of the user's"),
    "score": ({"score": strategies.manhattan}, "a score function of the user's"),
    "mask": ({"mask": Everybody()}, "a mask class of the user's"),
    "scale": ({"scale": 1.5e308}, "a scale or softcap so near the largest number"),
    "scale over softcap": (
        {"softcap": 1e-300, "scale": 1e9},
        "a scale or softcap so near the largest number",
    ),
    "mask within": ({"mask": ~(Everybody() & regard.mask.causal())}, "a mask class of the user's"),
}


@needs_library
@pytest.mark.parametrize("what", REFUSALS)
def test_a_kernel_asked_for_by_name_is_never_replaced(what: str) -> None:
    x = np.eye(3)
    options, reason = REFUSALS[what]
    with pytest.raises(ValueError) as error:
        regard.attention(x, x, x, kernel="native", **options)
    assert (
        str(error.value)
        == f'kernel="native" can\'t do this: {reason}.\n  hint: kernel="auto" takes the NumPy kernel then'
    )
    reference = regard.attention(x, x, x, kernel="blocked", **options)
    assert same(regard.attention(x, x, x, kernel="auto", **options), reference)


@needs_library
@pytest.mark.parametrize("name", REFUSED)
def test_every_option_is_supported_or_rejected(name: str) -> None:
    c = case(name)
    with pytest.raises(ValueError, match=r"^kernel=\"native\" can't do this: "):
        regard.attention(*c.arrays, kernel="native", **c.option.regard)


@pytest.mark.parametrize(
    "make",
    [lambda b: b.astype(int), lambda b: b.astype(np.int8), lambda b: b.astype(">f4"), strategies.unaligned],
)
def test_a_bias_of_any_dtype(make: Any) -> None:
    rng = np.random.default_rng(0)
    x, bias = rng.standard_normal((2, 5, 4), np.float32), rng.integers(-3, 3, (2, 5, 5)).astype(np.float32)
    for part in (bias, bias[:, :1], bias[..., :1], bias[0], bias[:1, :1, 0]):
        reference = regard.attention(x, x, x, bias=part)
        context = regard.attention(x, x, x, bias=make(part))
        np.testing.assert_allclose(context, reference, atol=1e-6)
        if make(part).dtype.kind == "i" and part.shape[-2] > 1 < part.shape[-1] and SETS:
            with pytest.raises(ValueError, match="can't do this: a bias of integers for all pairs"):
                regard.attention(x, x, x, bias=make(part), kernel="native")
        else:
            assert same(context, reference)


@pytest.fixture
def pointers(monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """Collect the arrays whose addresses the library gets."""
    arrays: list[Array] = []
    address, addresses = library.address, problem.addresses

    def of_array(x: Array) -> int:
        arrays.append(x)
        return address(x)

    def of_items(x: Any) -> Any:
        arrays.append(x.array)
        return addresses(x)

    for module in (library, fast_path, problem):
        monkeypatch.setattr(module, "address", of_array)
    monkeypatch.setattr(problem, "addresses", of_items)
    return arrays


ADDRESSED: dict[str, Callable[[Array], Array]] = {
    "allocated": lambda x: x,
    "backwards": lambda x: x[::-1, ::-2],
    "broadcast": lambda x: np.broadcast_to(x[2:, None], (4, 3, 5)),
    "without elements": lambda x: x[3:3],
    "bfloat16": lambda x: x.astype(ml_dtypes.bfloat16)[1:],
    "one number": lambda x: x[1, 1, ...],
    "a masked array": lambda x: np.ma.masked_array(x)[1:],
    "one byte off": lambda x: off(x),
}


@pytest.mark.parametrize("name", ADDRESSED)
def test_an_address_is_that_of_the_first_number(name: str) -> None:
    x = ADDRESSED[name](np.arange(30.0).reshape(6, 5))
    assert isinstance(x, np.ndarray)
    assert library.address(x) == x.__array_interface__["data"][0]


def off(x: Any) -> Array:
    """The same numbers, contiguous and one byte off."""
    moved = strategies.unaligned(np.array(x))
    assert moved.flags.c_contiguous
    assert not moved.flags.aligned
    return moved


UNALIGNED: dict[str, Callable[[Any], dict[str, Any]]] = {
    "nothing": lambda _: {},
    "window": lambda _: {"mask": regard.mask.window(3, 2)},
    "lengths": lambda change: {"mask": regard.mask.lengths(change([[3], [5]]))},
    "documents": lambda change: {
        "mask": regard.mask.documents(change(np.arange(6) // 2), change(np.arange(6) // 3))
    },
    "prefix": lambda change: {"mask": regard.mask.prefix(change([[2], [4]]))},
    "bias": lambda change: {"bias": change(np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6))},
    "distances": lambda change: {"bias": regard.position.alibi(4, align="start")},
    "additive": lambda change: {"score": regard.scores.additive(None, None, change(np.ones(8, np.float32)))},
    "general": lambda change: {"score": regard.scores.general(change(np.eye(8, dtype=np.float32)))},
}


@needs_library
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", UNALIGNED)
def test_law_8_the_library_gets_aligned_arrays_only(name: str, dtype: Any, pointers: list[Array]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((2, 4, 6, 8)).astype(dtype) for _ in range(4)]

    def run(change: Any) -> list[Array]:
        *three, g = map(change, arrays)
        options = UNALIGNED[name](change) | {"kernel": "native"}
        context, pullback = regard.attention_vjp(*three, **options)
        result = pullback(g)
        return [regard.attention(*three, **options), context, result.queries, result.keys, result.values]

    for results, reference in zip(run(off), run(np.array), strict=True):
        assert same(results, reference)
    assert len(pointers) > 4
    assert all(x.flags.aligned for x in pointers)


@needs_library
def test_law_8_kernels_of_training_get_aligned_arrays_only(pointers: list[Array]) -> None:
    rng = np.random.default_rng(0)
    x, weight, cotangent = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((64, 16), (16, 48), (64, 48))
    )
    bias, targets = np.linspace(-1, 1, 48, dtype=np.float32), np.arange(64) % 48

    def run(change: Any) -> list[Any]:
        inputs, w, b, g, ids = map(change, (x, weight, bias, cotangent, targets))
        y, back = nn.linear(inputs, w, b)
        loss, of_loss = nn.cross_entropy(change(y), ids)
        fused, of_fused = nn.linear_cross_entropy(inputs, change(weight.T), ids, b)
        normal, of_normal = nn.layer_norm(inputs, change(x[0]), change(x[1]))
        rows, of_rows = nn.embed(inputs, ids)
        of_gru = x.reshape(4, 16, 16), weight[:, None], bias[None], weight[None]
        states, of_states = nn.gru(*map(change, of_gru))
        return [y, back(g), loss, of_loss(1.0), fused, of_fused(1.0), normal, of_normal(inputs), rows,
                of_rows(inputs), states, of_states(change(states))]  # fmt: skip

    def flat(result: Any) -> Iterator[Any]:
        for one in result if isinstance(result, tuple | list) else [result]:
            yield from flat(one) if isinstance(one, tuple | list) else [one]

    for results, reference in zip(flat(run(off)), flat(run(np.array)), strict=True):
        np.testing.assert_allclose(results, reference, rtol=1e-5, atol=1e-5)
    assert all(x.flags.aligned for x in pointers)


SOURCE = Path(__file__).parents[2] / "src" / "regard" / "kernels" / "source"
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


def test_an_interface_is_read_from_its_description() -> None:
    """Structs become classes, whose fields have C's offsets; values and constants become numbers."""
    interface = library.read_interface(
        "values|Kind|FEW, MANY\nconstant|MOST|7\nstruct|Pair|\nfield|int32_t|left\nfield|const float*|right\n"
        "function|add|Pair\nstruct|Outer|\nfield|float|first\nfield|Pair|one, other\n"
    )
    pair, outer = interface.structures["Pair"], interface.structures["Outer"]
    assert interface.numbers == {"FEW": 0, "MANY": 1, "MOST": 7}
    assert (pair.left.offset, pair.right.offset, ctypes.sizeof(pair)) == (0, 8, 16)
    assert (outer.first.offset, outer.one.offset, outer.other.offset) == (0, 8, 24)
    assert interface.functions == ("add",)
    with pytest.raises(AttributeError):
        pair().midle = 3  # a misspelled field is no new attribute


def described(folder: Path, old: str, new: str) -> str:
    """A library whose list has another text in one place, and that can only describe it."""
    assert COMPILER is not None
    text = (SOURCE / "core" / "interface.inc").read_text()
    assert old in text
    (folder / "core").mkdir()
    (folder / "core" / "interface.inc").write_text(text.replace(old, new, 1))
    paths = ["-shared", "-fPIC", f"-I{folder}", f"-I{SOURCE}", str(SOURCE / "library" / "description.cpp")]
    done = subprocess.run(
        [COMPILER, *paths, "-o", str(folder / "other.so")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return str(folder / "other.so")


OTHER_LISTS = {
    "a step before the others": ("Step, BAND", "Step, RING, BAND"),
    "two fields swapped": ("indices)  // (rows,)", "table)  // (rows,)"),
    "another type": ("FIELD(float, epsilon)", "FIELD(double, epsilon)"),
    "another constant": ("STACK_DEPTH, 32", "STACK_DEPTH, 16"),
    "no such function": ("TRAINING(drop, Drop, 0)", ""),
}


@needs_library
@needs_compiler
@pytest.mark.parametrize("name", OTHER_LISTS)
def test_a_library_of_another_list_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = described(tmp_path, *OTHER_LISTS[name])
    monkeypatch.setattr(library, "FILE", other)
    library.load.cache_clear()
    try:
        assert library.load() is None
        pattern = r"the library belongs to another version: its interface is [0-9a-f]{8}, not [0-9a-f]{8}"
        assert re.fullmatch(rf"regard's native kernel can't be used \({pattern}\)", library.missing())
    finally:
        library.load.cache_clear()
        library._failure.clear()


@needs_library
@needs_compiler
def test_the_version_is_that_of_the_list(tmp_path: Path) -> None:
    """After a change of interface.inc: build the library, and set VERSION in kernels/library.py to this hash."""
    loaded = ctypes.CDLL(described(tmp_path, "STACK_DEPTH, 32", "STACK_DEPTH, 32"))
    loaded.regard_interface.restype = ctypes.c_char_p
    assert f"{zlib.crc32(loaded.regard_interface()):08x}" == library.VERSION


class Unknown(MaskStep):
    """A step that the library does not have."""

    code = "RING"

    def classify(self, items: slice, rows: slice, columns: slice) -> bool | None:
        return True


class Ring(Mask):
    """A mask of this step, which shows everything."""

    def bind(self, layout: Any) -> Any:
        return Bound(Unknown())


@needs_library
def test_a_mask_step_that_the_library_lacks_is_left_to_numpy() -> None:
    x = np.eye(3)
    np.testing.assert_array_equal(
        regard.attention(x, x, x, mask=Ring()), regard.attention(x, x, x, kernel="blocked")
    )
    with pytest.raises(ValueError) as caught:
        regard.attention(x, x, x, mask=Ring(), kernel="native")
    assert str(caught.value).startswith(
        'kernel="native" can\'t do this: the mask step RING, which the library lacks.'
    )


@needs_library
@in_one_test("field", ["score", "bias", "compute", "keys_type", "bias_type", "step"])
@in_one_test("wrong", [-1, 7])
def test_a_code_that_the_library_does_not_know_is_an_error(isa: str, field: str, wrong: int) -> None:
    x = np.ones((2, 3, 4))
    options = dict.fromkeys(("bias", "scale", "softcap", "sink"))
    p = prepare(x, x, x, score="dot", normalize="softmax", mask=window(1, 0), **options)
    call = problem.call(p).complete()
    context = np.zeros((2, 3, 4))
    call.c.context = call.pointer(context)
    if field == "step":
        library.interface().structures["Node"].from_address(call.c.program).kind = wrong
    else:
        setattr(call.c, field, wrong)
    with pytest.raises(RuntimeError, match=f"status {library.number('UNKNOWN_CODE')} of run"):
        call.run(False, 1)
    assert not context.any()


def test_the_fast_path_packs_a_complete_structure() -> None:
    if SETS:
        assert library.packer("Dense").size == ctypes.sizeof(library.interface().structures["Dense"])


WITHOUT = """
    import warnings
    import numpy as np, regard
    from regard.kernels import library
    library.FILE = "missing.so"
    x = np.eye(3)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            regard.attention(x, x, x)
        regard.attention_vjp(x, x, x)[1](x)
        regard.attention(x, x, x, kernel="blocked")
    same = (regard.attention(x, x, x) == regard.attention(x, x, x, kernel="blocked")).all()
    print(len(seen), seen[0].category.__name__, seen[0].filename, same, library.instruction_sets())
    print(seen[0].message)
    try:
        regard.attention(x, x, x, kernel="native")
    except ValueError as error:
        print(error)
    """
MISSING = "regard was installed without its native kernel ("
NO_COMPILER = "no C++ compiler was found, or it was switched off)"
BUILD = (
    "by a wheel that has none, or it was switched off; {} builds it: pip install --force-reinstall --no-deps SOURCE, "
    "a clone or the source archive)"
)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a compiler is a file with the right to be executed")
@pytest.mark.parametrize("compiler", ["", "c++", "g++", "clang++"])
def test_without_the_library_auto_warns_once_and_native_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    """One warning gives the reason and, where there is a compiler, the way to get the kernel."""
    monkeypatch.setenv("PATH", str(tmp_path))
    if compiler:
        (tmp_path / compiler).touch(0o755)
    done = fresh(WITHOUT)
    assert done.returncode == 0, done.stderr
    first, message, error, hint = done.stdout.splitlines()
    assert first == "1 RuntimeWarning <string> True []"
    reason = MISSING + (BUILD.format(tmp_path / compiler) if compiler else NO_COMPILER)
    assert message == f"{reason}; the NumPy kernel does its work, slower"
    assert hint == '  hint: kernel="auto" takes the NumPy kernel then'
    assert error == f'kernel="native" can\'t do this: {reason}.'


UNUSABLE = """
    import sys, warnings
    import numpy as np, regard
    from regard.kernels import library
    x = np.eye(3)
    expected = regard.attention(x, x, x, kernel="blocked")
    for library.FILE in sys.stdin.read().split():
        library.load.cache_clear(), library.warn_once.cache_clear(), library._failure.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = [regard.attention(x, x, x), regard.attention_vjp(x, x, x)[0]]
        [warning] = [str(one.message) for one in caught if one.category is RuntimeWarning]
        start, end = "regard's native kernel can't be used (", "); the NumPy kernel does its work, slower"
        assert warning.startswith(start) and warning.endswith(end), warning
        print(warning[len(start) : -len(end)], all((y == expected).all() for y in results))
    """


@needs_library
@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="made of ELF files")
def test_an_unusable_library_gives_one_warning(tmp_path: Path) -> None:
    """Truncated, for another processor, not a library, without permissions, or of another version."""
    library_bytes = Path(library.__file__).with_name(library.FILE).read_bytes()
    machine = 18  # where ELF has the processor's number
    contents = {
        **{
            f"cut{size}": library_bytes[:size]
            for size in (0, 10, 63, 64, 5000, len(library_bytes) // 2, len(library_bytes) - 1)
        },
        "elsewhere": library_bytes[:machine] + b"\xf3\x00" + library_bytes[machine + 2 :],
        "text": b"no library\n" * 20,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    another = getattr(_ctypes, "__file__", "")  # a library without the functions
    paths = [*(str(tmp_path / name) for name in (*contents, "folder")), *([another] if another else [])]
    done = fresh(UNUSABLE, stdin="\n".join(paths))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[-1] for line in lines] == ["True"] * len(paths)


@needs_library
@pytest.mark.slow
def test_an_instruction_set_that_is_not_supported() -> None:
    done = fresh(
        "import numpy as np, regard; regard.attention(*[np.eye(2)] * 3)", REGARD_INSTRUCTION_SET="altivec"
    )
    names = ", ".join(repr(name) for name in (*SETS, "none"))
    assert done.returncode == 1
    assert (
        done.stderr.splitlines()[-1]
        == f"ValueError: REGARD_INSTRUCTION_SET must be one of {names}. Got 'altivec' instead."
    )


@pytest.mark.slow
def test_numpy_can_be_selected() -> None:
    """Without a warning: it is what the user asks for."""
    done = fresh(
        """
        import warnings
        warnings.simplefilter("error")
        import numpy as np, regard
        from regard.kernels import library
        x = np.random.default_rng(0).standard_normal((3, 20, 33))
        assert (regard.attention(x, x, x) == regard.attention(x, x, x, kernel="blocked")).all()
        print(library.instruction_sets(), library.missing())
        try:
            regard.attention(x, x, x, kernel="native")
        except ValueError as error:
            print(error)
        """,
        REGARD_INSTRUCTION_SET="none",
    )
    assert done.stdout.splitlines() == [
        "[] REGARD_INSTRUCTION_SET is none",
        'kernel="native" can\'t do this: REGARD_INSTRUCTION_SET is none.',
        '  hint: kernel="auto" takes the NumPy kernel then',
    ], done.stderr


ONE = """
    import numpy as np, regard
    x = np.random.default_rng(0).standard_normal((3, 20, 33)).astype(np.float32)
    print(regard.attention(x, x, x, kernel="native").tobytes().hex())
    """


@needs_library
@pytest.mark.slow
def test_an_instruction_set_can_be_selected() -> None:
    """A fresh process gives the results of this one with the same set; sets with and without fused products differ."""
    loaded, results = library.load(), {}
    assert loaded is not None
    x = np.random.default_rng(0).standard_normal((3, 20, 33)).astype(np.float32)
    for name in SETS:
        done = fresh(ONE, REGARD_INSTRUCTION_SET=name)
        assert done.returncode == 0, done.stderr
        assert loaded.regard_choose(name.encode())
        results[name] = regard.attention(x, x, x, kernel="native").tobytes().hex()
        loaded.regard_choose(chosen_by_default().encode())
        assert done.stdout.strip() == results[name], name
    assert (
        fresh(ONE, REGARD_INSTRUCTION_SET="").stdout.strip() == results[SETS[0]]
    )  # an empty value selects none
    assert len(SETS) == 1 or results["baseline"] != results[SETS[0]]


# ---- the exponential ------------------------------------------------------------------------------------------------


def exp2(x: Array) -> Array:
    """The kernel's 2^x."""
    loaded = library.load()
    assert loaded is not None
    padded = np.zeros(-(-len(x) // 16) * 16, x.dtype)
    padded[: len(x)] = x
    y = np.empty_like(padded)
    loaded.regard_exp2(padded.ctypes.data, y.ctypes.data, len(padded), int(x.dtype == np.float64))
    return y[: len(x)]


def floats(first: float, last: float, step: int = 1) -> Iterator[Array]:
    """Every step-th float32 from `first` to `last`, both of one sign, a million at a time."""
    ends = sorted(int(np.float32(x).view(np.uint32)) for x in (first, last))
    for start in range(ends[0], ends[1] + 1, step << 20):
        stop = min(start + (step << 20), ends[1] + 1)
        yield np.arange(start, stop, step, dtype=np.uint32).view(np.float32)


def worst_of_floats(first: float, last: float, step: int = 1) -> float:
    """The worst error in ulp."""
    return max(worst_ulps([exp2(x)], x) for x in floats(first, last, step))


def worst_ulps(results: list[Array], x: Array) -> float:
    """The worst error of several results for 2^x, in float32 ulps."""
    exact = np.exp2(x.astype(np.float64))
    size = np.maximum(np.floor(x), np.float32(-126)).astype(np.int32) - 23  # the exponent of the last place
    return max(float(np.ldexp(np.abs(result - exact), -size).max()) for result in results)


def test_exp2_at_special_values(isa: str) -> None:
    for dtype in (np.float32, np.float64):
        x = np.array([0, -0.0, np.nan, -np.inf, -1, -100, 1, -1e30, np.finfo(dtype).min], dtype)
        np.testing.assert_array_equal(exp2(x), np.exp2(x.astype(np.float64)).astype(dtype))


def test_exp2_of_too_small_numbers_is_0(isa: str) -> None:
    for dtype, least in ((np.float32, -150), (np.float64, -1075)):
        x = np.array([least, *np.linspace(least - 1, 2 * least, 999), -np.inf], dtype)
        np.testing.assert_array_equal(exp2(x), 0)


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="flags of a C library")
def test_exp2_of_a_hidden_pair_does_not_underflow(isa: str) -> None:
    """An underflow takes some processors a hundred cycles."""
    underflow, flags = 0x10, ctypes.CDLL("libm.so.6")
    for dtype in (np.float32, np.float64):
        for x, is_small in ((-np.inf, 0), (-130 if dtype == np.float32 else -1060, underflow)):
            few = np.full(16, x + 0.3, dtype)
            flags.feclearexcept(underflow)
            exp2(few)
            assert flags.fetestexcept(underflow) == is_small


def test_exp2_is_within_2_ulp(isa: str) -> None:
    assert worst_of_floats(-0.0, -160, step=1009) <= 2
    assert worst_of_floats(0.0, 1, step=1009) <= 2


def distinct_results(x: Array) -> list[Array]:
    """2^x on every instruction set, results that are equal once: most sets have the same."""
    loaded, results = library.load(), list[Array]()
    assert loaded is not None
    for name in SETS:
        assert loaded.regard_choose(name.encode())
        result = exp2(x)
        if not any(np.array_equal(result, other) for other in results):
            results.append(result)
    loaded.regard_choose(chosen_by_default().encode())
    return results


@pytest.mark.slow
@needs_library
def test_exp2_of_every_float_down_to_the_smallest_result_is_within_2_ulp() -> None:
    """Every float32 from -160 to -1/8; closer to 0 there are a thousand million more, of which one in 101."""
    for x in chain(floats(-0.125, -160), floats(-0.0, -0.125, 101), floats(0.0, 1, 101)):
        assert worst_ulps(distinct_results(x), x) <= 2


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no wider type to compare with")
def test_exp2_of_float64_is_within_2_ulp(isa: str) -> None:
    rng = np.random.default_rng(0)
    for x in (
        rng.uniform(-1100, 1, 100_000),
        rng.uniform(-1, 1, 50_000),
        -(10 ** rng.uniform(-300, 0, 10_000)),
    ):
        exact = np.exp2(x.astype(np.longdouble))
        last = np.maximum(np.floor(x), -1022) - 52
        error = np.abs(exp2(x) - exact) * np.exp2(-last.astype(np.longdouble))
        assert error.max() <= 2
