"""Rotary, sinusoidal, ALiBi and T5 buckets: small cases by hand, and the properties that their papers claim."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import strategies
from errors import assert_raises, transcript
from numpy.typing import NDArray
from one_test import in_one_test

import regard
from regard import position
from regard.nn import check_gradients

Array = NDArray[np.float64]


def logits_of(bias: Any, n: int, m: int, heads: int = 1) -> Array:
    """The values that a bias adds to zero scores."""
    return regard.attend(
        np.zeros((heads, n, 1)), np.zeros((heads, m, 1)), np.zeros((heads, m, 1)), bias=bias
    ).logits


# ---- rotary ---------------------------------------------------------------------------------------------------


def test_rotary_by_hand() -> None:
    x = np.array([[1.0, 0.0, 0.0, 1.0]])
    quarter = math.pi / 2
    # halves: pairs (0, 2) and (1, 3); with base 1 both turn by the position itself
    np.testing.assert_allclose(position.rotary(x, [quarter], base=1.0), [[0, -1, 1, 0]], atol=1e-15)
    # interleaved: pairs (0, 1) and (2, 3)
    np.testing.assert_allclose(
        position.rotary(x, [quarter], base=1.0, interleaved=True), [[0, 1, -1, 0]], atol=1e-15
    )


def test_rotary_rotates_pair_p_by_base_to_the_minus_2p_over_dims() -> None:
    x = np.array([[1.0, 1.0, 0.0, 0.0]])
    rotated = position.rotary(x, [3.0], base=100.0)
    np.testing.assert_allclose(
        rotated, [[math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3)]], rtol=1e-15
    )


def test_rotary_leaves_the_rest_alone_and_position_0_too() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 6))
    rotated = position.rotary(x, dims=4)
    np.testing.assert_array_equal(rotated[..., 4:], x[..., 4:])
    np.testing.assert_array_equal(rotated[:, 0], x[:, 0])
    np.testing.assert_allclose(rotated[..., :4], position.rotary(x[..., :4]), rtol=1e-15)
    np.testing.assert_array_equal(position.rotary(x), position.rotary(x, [0, 1, 2]))


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_products_depend_on_the_distance_alone(interleaved: bool) -> None:
    """RoFormer, eq. 16: <R_i q, R_j k> is a function of q, k and j - i."""
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((1, 8)), rng.standard_normal((1, 8))

    def product(i: float, j: float) -> float:
        left = position.rotary(q, [i], interleaved=interleaved)
        right = position.rotary(k, [j], interleaved=interleaved)
        return float((left @ right.T).item())

    for distance in (0, 1, 7):
        expected = product(0, distance)
        for i in (1, 5, 100, -3):
            assert math.isclose(product(i, i + distance), expected, rel_tol=1e-12, abs_tol=1e-12)
    assert not math.isclose(product(0, 1), product(1, 0), rel_tol=1e-3)  # it does depend on it


def test_rotary_keeps_lengths() -> None:
    x = np.random.default_rng(0).standard_normal((5, 8))
    np.testing.assert_allclose(
        np.linalg.norm(position.rotary(x), axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-14
    )


def test_rotary_positions_may_differ_by_leading_dimension() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 6))
    positions = np.array([[0, 1, 2, 3], [7, 8, 9, 10]])[:, None]
    rotated = position.rotary(x, positions)
    np.testing.assert_array_equal(rotated[1, 2], position.rotary(x[1, 2], [7, 8, 9, 10]))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_rotary_is_inverted_by_its_pullback(dtype: Any) -> None:
    x = np.ones((3, 4), dtype)
    x.flags.writeable = False
    rotated = position.rotary(x)
    assert rotated.dtype == dtype
    expected = position.rotary(x.astype(np.float64))
    step = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(rotated.astype(np.float64), expected, atol=1.5 * step)
    assert position.rotary([[1, 0]]).dtype == np.float64


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (2, 0, 4), (0, 3, 4)])
def test_rotary_of_zero_sizes(shape: tuple[int, ...]) -> None:
    assert position.rotary(np.ones(shape)).shape == shape


# ---- sinusoidal -----------------------------------------------------------------------------------------------


def test_sinusoidal_is_vaswanis_section_3_5() -> None:
    encoding = position.sinusoidal(4, 6)
    for i in range(4):
        for pair in range(3):
            angle = i / 10000 ** (2 * pair / 6)
            assert math.isclose(encoding[i, 2 * pair], math.sin(angle), rel_tol=1e-14, abs_tol=1e-15)
            assert math.isclose(encoding[i, 2 * pair + 1], math.cos(angle), rel_tol=1e-14)


def test_sinusoidal_of_an_odd_size_and_of_none() -> None:
    np.testing.assert_allclose(
        position.sinusoidal(3, 5), position.sinusoidal(3, 6, base=10000 ** (6 / 5))[:, :5], rtol=1e-12
    )
    assert position.sinusoidal(0, 4).shape == (0, 4)
    assert position.sinusoidal(4, 0).shape == (4, 0)


def test_sinusoidal_products_depend_on_the_distance_alone() -> None:
    p = position.sinusoidal(20, 16)
    gram = p @ p.T
    for distance in range(5):
        np.testing.assert_allclose(np.diagonal(gram, distance), gram[0, distance], rtol=1e-12)


# ---- ALiBi ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "powers"),
    [
        (1, [8]),
        (2, [4, 8]),
        (4, [2, 4, 6, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (16, [0.5 * h for h in range(1, 17)]),
        (3, [4, 8, 2]),  # the slopes of 2 heads, then every second of those of 4
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_alibi_slopes_are_the_papers(heads: int, powers: list[float]) -> None:
    np.testing.assert_allclose(position.alibi(heads).slopes, [2.0**-p for p in powers], rtol=1e-15)


def test_alibi_subtracts_slope_times_distance() -> None:
    logits = logits_of(position.alibi([1.0, 0.5], align="end"), 2, 3, heads=2)
    np.testing.assert_array_equal(logits[0], [[-1, 0, -1], [-2, -1, 0]])
    np.testing.assert_array_equal(logits[1], [[-0.5, 0, -0.5], [-1, -0.5, 0]])
    np.testing.assert_array_equal(
        logits_of(position.alibi([1.0], align="start"), 2, 3)[0], [[0, -1, -2], [-1, 0, -1]]
    )


@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_each_sequence_has_an_alignment_of_its_own(kernel: str) -> None:
    """Two sequences of 3 and 2 keys, whose last query is their newest token: by hand, with every sum of weights 1."""
    x, values = np.zeros((2, 1, 2, 1)), np.zeros((2, 1, 3, 1))
    align = np.array([[3], [2]]) - 2
    slopes = [[[[-1, 0, -1], [-2, -1, 0]]], [[[0, -1, -2], [-1, 0, -1]]]]
    near = position.alibi([1.0], align=align)
    logits = regard.attend(x, np.zeros((2, 1, 3, 1)), values, bias=near).logits
    np.testing.assert_array_equal(logits, slopes)
    buckets = regard.attend(x, values, values, bias=position.t5_buckets(table(8), align=align)).logits
    np.testing.assert_array_equal(buckets, [[[[1, 0, 5], [2, 1, 0]]], [[[0, 5, 6], [1, 0, 5]]]])
    _, pullback = regard.attention_vjp(
        x, values, np.array([1.0, 0, 0])[:, None] + values, bias=near, kernel=kernel
    )
    weights = np.exp(slopes) / np.exp(slopes).sum(-1, keepdims=True)
    along = weights * (np.array([1.0, 0, 0]) - weights[..., :1])
    np.testing.assert_allclose(pullback(np.ones((2, 1, 2, 1))).bias, [(along * slopes).sum()], rtol=1e-12)


# ---- T5 buckets -----------------------------------------------------------------------------------------------


def table(buckets: int, heads: int = 1) -> Array:
    """A table that names its rows."""
    return np.arange(float(buckets))[:, None] + 1000 * np.arange(heads)


def test_t5_buckets_by_hand() -> None:
    """32 buckets, distance up to 128: 0 to 7 alone, then 8-11, 12-15, 16-22, 23-31, 32-45, 46-63, ..."""
    bias = position.t5_buckets(table(32))
    back = {
        0: 0,
        1: 1,
        7: 7,
        8: 8,
        11: 8,
        12: 9,
        15: 9,
        16: 10,
        22: 10,
        23: 11,
        31: 11,
        32: 12,
        45: 12,
        46: 13,
    }
    back |= {63: 13, 64: 14, 90: 14, 91: 15, 127: 15, 128: 15, 5000: 15}
    for distance, bucket in back.items():
        assert bias.bucket(-distance) == bucket, distance
        assert bias.bucket(distance) == (16 + bucket if distance else 0), distance


@pytest.mark.slow
@in_one_test("buckets", [4, 8, 32, 64])
@in_one_test("bidirectional", [True, False])
@in_one_test("max_distance", [40, 128, 1000])
def test_t5_buckets_are_the_papers_formula(buckets: int, bidirectional: bool, max_distance: int) -> None:
    bias = position.t5_buckets(table(buckets), bidirectional=bidirectional, max_distance=max_distance)
    distances = np.arange(-1200, 1201)
    expected = [strategies.t5_bucket(int(x), buckets, max_distance, bidirectional) for x in distances]
    np.testing.assert_array_equal(bias.bucket(distances), expected)


@in_one_test("bidirectional", [True, False])
@in_one_test("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64, ">i4"])
def test_t5_buckets_of_distances_of_any_size_are_those_of_int64(dtype: Any, bidirectional: bool) -> None:
    bucket = position.t5_buckets(table(32), bidirectional=bidirectional).bucket
    limits = np.iinfo(dtype)
    distances = np.array([limits.min, 0, 1, 3, min(limits.max, 2**63 - 1)], dtype)
    np.testing.assert_array_equal(bucket(distances), bucket(distances.astype(np.int64)))
    expected = [31, 0, 17, 19, 31] if bidirectional else [31, 0, 0, 0, 0]
    expected[0] = 0 if limits.min == 0 else 15 if bidirectional else 31
    np.testing.assert_array_equal(bucket(distances), expected)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_buckets_grow_with_the_distance_and_use_every_row(bidirectional: bool) -> None:
    buckets = position.t5_buckets(table(32), bidirectional=bidirectional).bucket(np.arange(-200, 201))
    assert (np.diff(buckets[:201]) <= 0).all()  # from the farthest key to the query's own position
    assert (np.diff(buckets[201:]) >= 0).all()
    assert len(set(buckets)) == (31 if bidirectional else 32)  # bucket 16 would be "0 to the right"


def test_t5_buckets_by_head_and_alignment() -> None:
    logits = logits_of(position.t5_buckets(table(8, 2), align="end"), 2, 3, heads=2)
    np.testing.assert_array_equal(logits[0], [[1, 0, 5], [2, 1, 0]])
    np.testing.assert_array_equal(logits[1], logits[0] + 1000)
    start = logits_of(position.t5_buckets(table(8), align="start"), 2, 3)
    np.testing.assert_array_equal(start[0], [[0, 5, 6], [1, 0, 5]])
    decoder = logits_of(position.t5_buckets(table(8), bidirectional=False, align="end"), 2, 3)
    np.testing.assert_array_equal(decoder[0], [[1, 0, 0], [2, 1, 0]])


def test_slopes_out_of_range_are_rejected() -> None:
    x = np.zeros((1, 3, 4), np.float32)
    with pytest.raises(
        ValueError, match=r"^slopes must be a number that float32 can hold. Got 1e\+39 instead."
    ):
        regard.attention(x, x, x, bias=position.alibi([1e39]))

    with pytest.raises(
        ValueError, match=r"^table must be a number that float32 can hold. Got 1e\+300 instead."
    ):
        regard.attention(x, x, x, bias=position.t5_buckets(np.full((8, 1), 1e300)))


@pytest.mark.parametrize("kernel", ["auto", "blocked"])
@pytest.mark.parametrize("slope", [1e-40, 3e38])
def test_slopes_at_the_ends_of_the_range_give_no_warning(kernel: Any, slope: float) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 4)).astype(np.float32)
    with np.errstate(all="raise"):
        context = regard.attention(x, x, x, bias=position.alibi([slope]), kernel=kernel)
    np.testing.assert_allclose(
        context, regard.attend(x, x, x, bias=position.alibi([slope])).context, rtol=1e-6
    )


def test_half_precision_is_rounded_without_a_warning() -> None:
    with np.errstate(all="raise"):
        turned = position.rotary(np.full((2, 2), 60000, np.float16), positions=[0, np.pi / 4])
    assert np.isinf(turned[1]).any()


def test_distances_out_of_range_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^max_distance must be at most 9223372036854775807. Got 1000"):
        position.t5_buckets(np.zeros((4, 1)), max_distance=10**400)
    table = np.arange(8.0).reshape(8, 1)
    narrow = position.t5_buckets(table, max_distance=np.uint8(100))
    assert (
        narrow.bucket([-300, 300]) == position.t5_buckets(table, max_distance=100).bucket([-300, 300])
    ).all()


# ---- the pullback of rotary, and other frequencies ------------------------------------------------------------

# What transformers 5.24 gives for this type, in float32: d, base, our scaling, the factor on queries and keys, and
# every so many frequencies.
OTHERS: list[tuple[int, float, Any, float, list[float]]] = [
    (
        *(64, 1e4, position.linear(4.0), 1.0),
        [0.25, 0.079056941, 0.025, 0.0079056947, 0.0024999999, 0.00079056947, 0.00025000001, 7.9056947e-05],
    ),
    (
        *(128, 5e5, position.llama3(8.0), 1.0),
        [
            1.0,
            0.1939227581,
            0.03760603,
            0.007292665,
            0.000524846,
            3.4281024e-05,
            6.6478697e-06,
            1.2891732e-06,
        ],
    ),
    (
        *(64, 5e5, position.llama3(32.0), 1.0),
        [
            1.0,
            0.1939227581,
            0.03760603,
            0.007292665,
            0.0004295567,
            8.5702559e-06,
            1.6619675e-06,
            3.2229329e-07,
        ],
    ),
    (
        *(128, 1e4, position.yarn(4.0, 4096), 1.138629436),
        [1.0, 0.316227764, 0.1, 0.027973996, 0.0065384619, 0.0013378868, 0.00025000001, 7.9056947e-05],
    ),
    (
        *(64, 1.5e5, position.yarn(32.0, 4096, truncate=False), 1.34657359),
        [
            1.0,
            0.225418,
            0.050813273,
            0.0067949593,
            0.00045648392,
            1.8188337e-05,
            4.0999785e-06,
            9.2420895e-07,
        ],
    ),
    (
        *(16, 100.0, position.yarn(10.0, 64), 1.230258509),
        [1.0, 0.46111989, 0.20238577, 0.081800848, 0.028000001, 0.0056234132, 0.003162278, 0.0017782794],
    ),
]


@pytest.mark.parametrize(
    ("d", "base", "scaling", "magnitude", "some"), OTHERS, ids=lambda x: type(x).__name__
)
def test_frequencies_are_those_of_another_implementation(
    d: int, base: float, scaling: Any, magnitude: float, some: list[float]
) -> None:
    frequencies = scaling.frequencies(d, base)
    assert frequencies.shape == (d // 2,)
    np.testing.assert_allclose(frequencies[:: max(1, d // 16)], some, rtol=2e-6)
    assert math.isclose(scaling.magnitude, magnitude, rel_tol=1e-8)


def test_frequencies_by_the_formulas_of_transformers() -> None:
    """Of its `modeling_rope_utils`, number by number."""
    for length in (100, 4096, 10_000):
        ratio = max(length, 4096) / 4096
        base = 1e4 * (2.5 * ratio - (2.5 - 1)) ** (64 / 62)
        expected = [1 / base ** (2 * p / 64) for p in range(32)]
        frequencies = position.dynamic(2.5, 4096, length=length).frequencies(64, 1e4)
        np.testing.assert_allclose(frequencies, expected, rtol=1e-14)
    factors = [1.0 + p / 3 for p in range(48)]
    scaling = position.longrope(factors, 131072 / 4096, 4096)
    expected = [1 / (factor * 1e4 ** (2 * p / 96)) for p, factor in enumerate(factors)]
    np.testing.assert_allclose(scaling.frequencies(96, 1e4), expected, rtol=1e-14)
    assert math.isclose(scaling.magnitude, math.sqrt(1 + math.log(32) / math.log(4096)), rel_tol=1e-15)
    assert position.longrope(factors, 0.5, 4096).magnitude == 1.0
    assert position.longrope(factors, 2.0, 4096, attention_factor=1.25).magnitude == 1.25


SCALINGS = [
    *(other[2] for other in OTHERS),
    position.dynamic(2.0, 64, length=5001),
    position.longrope([1.0, 2.0, 3.0, 4.0], 8.0, 64),
]


@pytest.mark.parametrize("scaling", [None, *SCALINGS], ids=str)
@in_one_test("interleaved", [False, True])
def test_scaled_rotary_is_complex_multiplication(scaling: Any, interleaved: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 10))
    positions = np.array([0.0, 1, 7, 100, 5000])
    plain = 100.0 ** (-np.arange(0, 8, 2) / 8)
    frequencies = plain if scaling is None else scaling.frequencies(8, 100.0)
    turn = np.exp(1j * positions[:, None] * frequencies) * (1.0 if scaling is None else scaling.magnitude)
    first, second = (x[..., 0:8:2], x[..., 1:8:2]) if interleaved else (x[..., :4], x[..., 4:8])
    turned = (first + 1j * second) * turn
    rotated = position.rotary(x, positions, base=100.0, dims=8, interleaved=interleaved, scaling=scaling)
    np.testing.assert_array_equal(rotated[..., 8:], x[..., 8:])
    pairs_of_rotated = (
        (rotated[..., 0:8:2], rotated[..., 1:8:2]) if interleaved else (rotated[..., :4], rotated[..., 4:8])
    )
    np.testing.assert_allclose(pairs_of_rotated[0], turned.real, rtol=0, atol=1e-12)
    np.testing.assert_allclose(pairs_of_rotated[1], turned.imag, rtol=0, atol=1e-12)

    def function(y: Array) -> Any:
        return position.rotary_vjp(y, positions, base=100.0, dims=8, interleaved=interleaved, scaling=scaling)

    assert check_gradients(function, [x]) < 1e-6


def test_the_pullback_of_rotary_is_the_rotation_by_negative_angles() -> None:
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    y, pullback = position.rotary_vjp(x, [3, 4, 5])
    assert y.tobytes() == position.rotary(x, [3, 4, 5]).tobytes()
    (dx,) = pullback(y)
    np.testing.assert_allclose(dx, x, atol=1e-6)
    assert dx.tobytes() == position.rotary(y, [-3, -4, -5]).tobytes()
    assert (dx.dtype, pullback(y.tolist())[0].dtype) == (np.float32, np.float32)
    half, back = position.rotary_vjp(x.astype(np.float16))
    assert half.dtype == back(half)[0].dtype == np.float16


def test_fast_pairs_keep_their_frequency_and_slow_ones_are_interpolated() -> None:
    """By the definitions of the papers, in turns within the original length, without any implementation."""
    plain = 5e5 ** (-np.arange(0, 128, 2) / 128)
    turns = 8192 * plain / (2 * np.pi)
    llama = position.llama3(8.0).frequencies(128, 5e5) / plain
    np.testing.assert_allclose(llama[turns >= 4], 1, rtol=1e-14)
    np.testing.assert_allclose(llama[turns <= 1], 1 / 8, rtol=1e-14)
    between = (turns > 1) & (turns < 4)
    share = (turns[between] - 1) / 3
    np.testing.assert_allclose(llama[between], share + (1 - share) / 8, rtol=1e-13)
    yarn = position.yarn(8.0, 8192).frequencies(128, 5e5) / plain
    step = plain[0] / plain[1]  # the ends of the ramp are rounded outwards to integers
    np.testing.assert_allclose(yarn[turns >= 32 * step], 1, rtol=1e-14)
    np.testing.assert_allclose(yarn[turns <= 1 / step], 1 / 8, rtol=1e-14)
    assert (np.diff(yarn) <= 1e-15).all()


ERRORS_OF_SCALING = """\
position.linear(0.0)
    ValueError: factor must be greater than 0. Got 0.0 instead.
position.yarn("4", 10)
    TypeError: factor must be a number. Got '4' instead.
position.llama3(8.0, 4.0, 4.0)
    ValueError: high_freq_factor must be greater than low_freq_factor: 4 and 4
position.llama3(8.0, original_max_position_embeddings=0)
    ValueError: original_max_position_embeddings must be at least 1. Got 0 instead.
position.yarn(8.0, 10, beta_fast=1.0)
    ValueError: beta_fast must be greater than beta_slow: 1 and 1
position.yarn(8.0, 10, truncate=1)
    TypeError: truncate must be True or False. Got 1 instead.
position.yarn(8.0, 10, attention_factor=0.0)
    ValueError: attention_factor must be greater than 0. Got 0.0 instead.
position.longrope([1.0, 0.0], 8.0, 10)
    ValueError: factors must be greater than 0. Got 0.0 instead.
position.longrope([1.0], 8.0, 1)
    ValueError: original_max_position_embeddings must be at least 2. Got 1 instead.
position.longrope([1.0], 8.0, 10, attention_factor=0.0)
    ValueError: attention_factor must be greater than 0. Got 0.0 instead.
position.rotary(np.eye(4), scaling=position.longrope([1.0], 8.0, 10))
    ValueError: factors must be dims / 2 = 2 numbers. Got 1 instead.
position.dynamic(8.0, 10, length=1.5)
    TypeError: length must be an integer. Got 1.5 instead.
position.rotary(np.eye(2), base=1.0, scaling=position.yarn(8.0, 10))
    ValueError: base must be greater than 1 for yarn. Got 1 instead.
position.rotary(np.eye(2), scaling=4.0)
    TypeError: scaling must be a position.linear, dynamic, llama3, yarn or longrope. Got float instead.
      hint: position.linear(4.0), position.llama3(8.0) or position.yarn(4.0, 4096)
position.rotary(np.eye(2), scaling=position.linear)
    TypeError: scaling must be a position.linear, dynamic, llama3, yarn or longrope. Got the class linear instead.
      hint: position.linear(4.0), position.llama3(8.0) or position.yarn(4.0, 4096)
position.rotary_vjp(np.eye(2))[1](np.ones((3, 2)))
    ValueError: dy must have the shape of x (..., n, d) = (2, 2). Got (3, 2) instead.
"""


def test_wrong_scalings_are_errors() -> None:
    for call, text in transcript(ERRORS_OF_SCALING):
        assert_raises(call, text, globals())
