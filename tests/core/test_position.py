"""Rotary, sinusoidal, ALiBi and T5 buckets: small cases by hand, and the properties that their papers claim."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import strategies
from numpy.typing import NDArray

import regard
from regard import position

Array = NDArray[np.float64]


def logits_of(bias: Any, n: int, m: int, heads: int = 1) -> Array:
    """What a bias adds, seen from zero scores."""
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


def test_rotary_turns_pair_p_by_base_to_the_minus_2p_over_dims() -> None:
    x = np.array([[1.0, 1.0, 0.0, 0.0]])
    found = position.rotary(x, [3.0], base=100.0)
    np.testing.assert_allclose(found, [[math.cos(3), math.cos(0.3), math.sin(3), math.sin(0.3)]], rtol=1e-15)


def test_rotary_leaves_the_rest_alone_and_position_0_too() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 6))
    found = position.rotary(x, dims=4)
    np.testing.assert_array_equal(found[..., 4:], x[..., 4:])
    np.testing.assert_array_equal(found[:, 0], x[:, 0])
    np.testing.assert_allclose(found[..., :4], position.rotary(x[..., :4]), rtol=1e-15)
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
    found = position.rotary(x, positions)
    np.testing.assert_array_equal(found[1, 2], position.rotary(x[1, 2], [7, 8, 9, 10]))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_rotary_comes_back_as_it_came(dtype: Any) -> None:
    x = np.ones((3, 4), dtype)
    x.flags.writeable = False
    found = position.rotary(x)
    assert found.dtype == dtype
    expected = position.rotary(x.astype(np.float64))
    step = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=1.5 * step)
    assert position.rotary([[1, 0]]).dtype == np.float64


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (2, 0, 4), (0, 3, 4)])
def test_rotary_of_zero_sizes(shape: tuple[int, ...]) -> None:
    assert position.rotary(np.ones(shape)).shape == shape


# ---- sinusoidal -----------------------------------------------------------------------------------------------


def test_sinusoidal_is_vaswanis_section_3_5() -> None:
    found = position.sinusoidal(4, 6)
    for place in range(4):
        for pair in range(3):
            angle = place / 10000 ** (2 * pair / 6)
            assert math.isclose(found[place, 2 * pair], math.sin(angle), rel_tol=1e-14, abs_tol=1e-15)
            assert math.isclose(found[place, 2 * pair + 1], math.cos(angle), rel_tol=1e-14)


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


def test_alibi_takes_slope_times_distance_off() -> None:
    found = logits_of(position.alibi([1.0, 0.5], align="end"), 2, 3, heads=2)
    np.testing.assert_array_equal(found[0], [[-1, 0, -1], [-2, -1, 0]])
    np.testing.assert_array_equal(found[1], [[-0.5, 0, -0.5], [-1, -0.5, 0]])
    np.testing.assert_array_equal(
        logits_of(position.alibi([1.0], align="start"), 2, 3)[0], [[0, -1, -2], [-1, 0, -1]]
    )


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


@pytest.mark.parametrize("buckets", [4, 8, 32, 64])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("max_distance", [40, 128, 1000])
def test_t5_buckets_are_the_papers_formula(buckets: int, bidirectional: bool, max_distance: int) -> None:
    bias = position.t5_buckets(table(buckets), bidirectional=bidirectional, max_distance=max_distance)
    distances = np.arange(-1200, 1201)
    expected = [strategies.t5_bucket(int(x), buckets, max_distance, bidirectional) for x in distances]
    np.testing.assert_array_equal(bias.bucket(distances), expected)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64, ">i4"])
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
    found = position.t5_buckets(table(32), bidirectional=bidirectional).bucket(np.arange(-200, 201))
    assert (np.diff(found[:201]) <= 0).all()  # from far back to here
    assert (np.diff(found[201:]) >= 0).all()
    assert len(set(found)) == (31 if bidirectional else 32)  # bucket 16 would be "0 to the right"


def test_t5_buckets_by_head_and_alignment() -> None:
    found = logits_of(position.t5_buckets(table(8, 2), align="end"), 2, 3, heads=2)
    np.testing.assert_array_equal(found[0], [[1, 0, 5], [2, 1, 0]])
    np.testing.assert_array_equal(found[1], found[0] + 1000)
    start = logits_of(position.t5_buckets(table(8), align="start"), 2, 3)
    np.testing.assert_array_equal(start[0], [[0, 5, 6], [1, 0, 5]])
    decoder = logits_of(position.t5_buckets(table(8), bidirectional=False, align="end"), 2, 3)
    np.testing.assert_array_equal(decoder[0], [[1, 0, 0], [2, 1, 0]])


def test_slopes_that_cannot_be_held_are_refused() -> None:
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
def test_slopes_at_the_ends_of_what_can_be_held_are_silent(kernel: Any, slope: float) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 4)).astype(np.float32)
    with np.errstate(all="raise"):
        found = regard.attention(x, x, x, bias=position.alibi([slope]), kernel=kernel)
    np.testing.assert_allclose(found, regard.attend(x, x, x, bias=position.alibi([slope])).context, rtol=1e-6)


def test_half_precision_is_rounded_without_a_word() -> None:
    with np.errstate(all="raise"):
        turned = position.rotary(np.full((2, 2), 60000, np.float16), positions=[0, np.pi / 4])
    assert np.isinf(turned[1]).any()


def test_distances_beyond_all_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^max_distance must be at most 9223372036854775807. Got 1000"):
        position.t5_buckets(np.zeros((4, 1)), max_distance=10**400)
    table = np.arange(8.0).reshape(8, 1)
    narrow = position.t5_buckets(table, max_distance=np.uint8(100))
    assert (
        narrow.bucket([-300, 300]) == position.t5_buckets(table, max_distance=100).bucket([-300, 300])
    ).all()
