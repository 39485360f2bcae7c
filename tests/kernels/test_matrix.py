"""Matrix products in the library, compared with NumPy's in float64."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.kernels import library, matrix

Array = NDArray[Any]
pytestmark = pytest.mark.training


def draw(rows: int, columns: int, turned: bool = False, extra_columns: int = 0) -> Array:
    """A matrix (rows, columns) of float32, perhaps transposed in memory, or a part of a larger one."""
    shape = (columns, rows + extra_columns) if turned else (rows, columns + extra_columns)
    x = np.random.default_rng([rows, columns, extra_columns]).standard_normal(shape).astype(np.float32)
    return x.T[:rows] if turned else x[:, :columns]


SIZES = st.tuples(st.integers(16, 90), st.sampled_from([1, 7, 16, 191, 192, 193, 1100]), st.integers(1, 110))


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=SIZES,
    turned=st.tuples(st.booleans(), st.booleans()),
    extra_columns=st.integers(0, 3),
    more=st.booleans(),
)
def test_products(
    isa: str, sizes: tuple[int, int, int], turned: tuple[bool, bool], extra_columns: int, more: bool
) -> None:
    rows, depth, columns = sizes
    a, b = draw(rows, depth, turned[0], extra_columns), draw(depth, columns, turned[1], extra_columns)
    bias = draw(1, columns)[0] if more else None
    exact = a.astype(float) @ b.astype(float) + (0 if bias is None else bias)
    near = {"rtol": 1e-5, "atol": 1e-6 * depth}
    np.testing.assert_allclose(matrix.multiply(a, b, bias), exact, **near)
    np.testing.assert_allclose(matrix.multiply(a, b, bias, squash=True), np.tanh(exact), **near)
    room = draw(rows, columns, extra_columns=5)
    before = room.copy()
    assert matrix.multiply(a, b, out=room, add=True) is room
    np.testing.assert_allclose(room - before, a.astype(float) @ b.astype(float), **near)


@pytest.mark.parametrize("sizes", [(16, 1, 1), (200, 400, 50), (20, 193, 7), (20, 1100, 70)], ids=str)
@pytest.mark.parametrize("turned", [False, True])
def test_sums_are_computed_with_the_product(isa: str, sizes: tuple[int, int, int], turned: bool) -> None:
    rows, depth, columns = sizes
    a, b = draw(rows, depth, turned), draw(depth, columns)
    product, sums = matrix.multiply_and_sum(a, b)
    np.testing.assert_allclose(product, a.astype(float) @ b.astype(float), rtol=1e-5, atol=1e-6 * depth)
    np.testing.assert_allclose(sums, b.astype(float).sum(axis=0), rtol=1e-5, atol=1e-6 * depth)


def test_nothing_is_written_outside_of_a_part(isa: str) -> None:
    larger = np.full((37, 61), 7, np.float32)
    matrix.multiply(draw(35, 20), draw(20, 50), out=larger[1:-1, 4:54])
    edge = np.ones(larger.shape, bool)
    edge[1:-1, 4:54] = False
    assert (larger[edge] == 7).all()


@pytest.mark.parametrize("turned", [False, True])
def test_a_row_does_not_depend_on_the_others(isa: str, turned: bool) -> None:
    a, b = draw(61, 300), draw(300, 250, turned)
    if library.trains(library.load()) is None:
        pytest.skip("NumPy's products promise nothing about single bits")
    product = matrix.multiply(a, b)
    assert (matrix.multiply(a[3:19], b) == product[3:19]).all()
    assert (matrix.multiply(np.asfortranarray(a), b) == product).all()


def test_a_nan_stays_in_its_row_and_column(isa: str) -> None:
    a, b = draw(33, 40), draw(40, 35)
    a[5, 3] = np.nan
    b[7, 34] = np.inf
    finite = np.isfinite(matrix.multiply(a, b))
    assert not finite[5].any()
    assert not finite[:, 34].any()
    assert finite.sum() == 32 * 34


EPS = 2.0**-24


def check(product: Array, a: Array, b: Array, start: Array | float = 0.0) -> None:
    """Compare a product with the exact one: each number within 16 roundings of what is added up."""
    with np.errstate(all="ignore"):
        a, b = a.astype(float), b.astype(float)
        exact = a @ b + start
        added = np.abs(a) @ np.abs(b) + np.abs(start)
        infinite = ~np.isfinite(exact.astype(np.float32))
        wrong = (
            np.abs(product - exact) > 16 * EPS * added + np.finfo(np.float32).smallest_subnormal * a.shape[1]
        )
    assert (np.isfinite(product) == ~infinite).all()
    np.testing.assert_array_equal(product[infinite], exact.astype(np.float32)[infinite])
    assert not wrong[~infinite].any()


@pytest.mark.parametrize(
    "sizes",
    [
        (16, 16, 16),
        (33, 245, 301),
        (50, 600, 300),
        (16, 1100, 61),
        (430, 520, 129),
        (40, 520, 900),
        (4200, 96, 200),
    ],
    ids=str,
)
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
def test_no_digit_is_lost(isa: str, sizes: tuple[int, int, int], turned: tuple[bool, bool]) -> None:
    rows, depth, columns = sizes
    a, b, bias = draw(rows, depth, turned[0]), draw(depth, columns, turned[1]), draw(1, columns)[0]
    check(matrix.multiply(a, b), a, b)
    check(matrix.multiply(a, b, bias), a, b, bias)
    before = draw(rows, columns)
    check(matrix.multiply(a, b, out=before.copy(), add=True), a, b, before)


EXTREME_VALUES = (1e-36, 1e-42, -3e-39, 1e19, np.finfo(np.float32).max, np.inf, -np.inf, np.nan)


@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")  # NumPy's, of infinite numbers
@pytest.mark.parametrize("depth", [240, 900])
def test_numbers_of_every_size(isa: str, depth: int) -> None:
    """Denormal, very large and non-finite numbers change only the rows that have them."""
    a, b, bias = draw(50, depth), draw(depth, 290), draw(1, 290)[0]
    if library.trains(library.load()) is None:
        pytest.skip("NumPy's products overflow where they like")
    usual = matrix.multiply(a, b, bias, squash=True)
    for row, number in enumerate(EXTREME_VALUES):
        a[3 * row, depth - 1 - row] = number
        if abs(number) < 1e30:
            a[3 * row + 1] = np.float32(number)  # nothing else
    check(matrix.multiply(a, b), a, b)
    check(matrix.multiply(a, b, bias), a, b, bias)
    before = draw(50, 290)
    check(matrix.multiply(a, b, out=before.copy(), add=True), a, b, before)
    squashed = matrix.multiply(a, b, bias, squash=True)
    np.testing.assert_allclose(squashed, np.tanh(matrix.multiply(a, b, bias)), rtol=1e-5)
    assert (squashed[30:] == usual[30:]).all()
    b[depth // 2, 3], b[1, 60], b[5, 289], b[-1, 100] = 1e-41, 1.1e19, np.inf, 1e-36
    check(matrix.multiply(a, b), a, b)
    check(matrix.multiply(a, b, out=before.copy(), add=True), a, b, before)


def test_intermediate_sums_do_not_overflow(isa: str) -> None:
    a, b = np.zeros((16, 256), np.float32), np.zeros((256, 256), np.float32)
    a[:, :4], b[:4] = 2.0**63, 2.0**63 * (1 - 2.0**-9)  # the sum is just below the largest number
    check(matrix.multiply(a, b), a, b)


def test_small_products_have_a_negligible_error(isa: str) -> None:
    """Products below 2^-126 are denormal."""
    a, b = draw(20, 256) * np.float32(2.0**-60), draw(256, 256) * np.float32(2.0**-60)
    exact = a.astype(float) @ b.astype(float)
    added = np.abs(a.astype(float)) @ np.abs(b.astype(float))
    assert (np.abs(matrix.multiply(a, b) - exact) <= 16 * EPS * added + 256 * 2.0**-124).all()


@pytest.mark.parametrize("turned", [False, True])
def test_any_rows_may_be_non_finite(isa: str, turned: bool) -> None:
    a, b = draw(70, 300), draw(300, 600, turned)
    if library.trains(library.load()) is None:
        pytest.skip("NumPy's products promise nothing about single bits")
    usual, before = matrix.multiply(a, b), draw(70, 600)
    a[::3, 7] = 1e-36
    product = matrix.multiply(a, b)
    check(product, a, b)
    check(matrix.multiply(a, b, out=before.copy(), add=True), a, b, before)
    rest = np.arange(70) % 3 > 0
    assert (product[rest] == usual[rest]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", [(4200, 70, 1000), (40, 70, 4200), (1100, 100, 1200), (1200, 100, 1100)], ids=str
)
def test_non_finite_numbers_in_distant_rows(isa: str, shape: tuple[int, int, int]) -> None:
    """Numbers below the normal range in the first, a middle and one of the last rows and columns of large matrices."""
    rows, depth, columns = shape
    a, b = draw(rows, depth), draw(depth, columns)
    a[[0, rows // 2, rows - 3], 7], b[9, [0, columns // 2, columns - 3]] = 1e-36, 1e-36
    check(matrix.multiply(a, b), a, b)
    check(matrix.multiply(a, np.asfortranarray(b)), a, b)
    before = draw(rows, columns)
    check(matrix.multiply(a, b, out=before.copy(), add=True), a, b, before)
    product, sums = matrix.multiply_and_sum(a, b)
    check(product, a, b)
    np.testing.assert_allclose(sums, b.sum(0, dtype=float), atol=1e-4)


def test_a_row_does_not_depend_on_which_matrix_is_packed(isa: str) -> None:
    a, b = draw(400, 300), draw(300, 250)
    if library.trains(library.load()) is None:
        pytest.skip("NumPy's products promise nothing about single bits")
    a[::9, 5], b[7, 40] = 1e-36, 1e-36
    product = matrix.multiply(a, b)
    assert (matrix.multiply(a[:64], b) == product[:64]).all()
    assert (matrix.multiply(np.asfortranarray(a), b) == product).all()


def test_other_arrays_than_rows_of_float32_are_multiplied_too(isa: str) -> None:
    a, b, room = draw(32, 8), draw(8, 5), np.zeros((32, 10), np.float32)
    for one, other in ((a.astype(float), b), (a, b.astype(float)), (a[:, ::2], b[:4]), (a[:0], b)):
        product = matrix.multiply(one, other)
        assert product.shape == (len(one), 5)
        np.testing.assert_allclose(product, one.astype(float) @ other, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(matrix.multiply(a, b, np.ones(5)), a @ b + 1, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(matrix.multiply(a, b, out=room[:, ::2]), a @ b, rtol=1e-5, atol=1e-5)
    assert not room[:, 1::2].any()
    assert matrix.multiply(a[:, :0], b[:0]).tolist() == np.zeros((32, 5)).tolist()


def test_other_arrays_are_multiplied_by_numpy() -> None:
    a, b, bias = draw(20, 7), draw(7, 5), draw(1, 5)[0]
    broadcast = matrix.multiply(a, b, bias[:1])
    np.testing.assert_allclose(broadcast, a @ b + bias[:1], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="matmul"):
        matrix.multiply(a, draw(8, 5))
    with pytest.raises(ValueError, match="matmul"):
        matrix.multiply(a, b, out=np.zeros((10, 5), np.float32))
    shut = np.zeros((20, 5), np.float32)
    shut.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        matrix.multiply(a, b, out=shut)
    assert not shut.any()


def test_a_bias_is_added_even_where_the_product_is_added() -> None:
    a, b, bias = draw(20, 7), draw(7, 5), draw(1, 5)[0]
    out = np.ones((20, 5), np.float32)
    np.testing.assert_allclose(
        matrix.multiply(a, b, bias, out=out, add=True), 1 + a @ b + bias, rtol=1e-5, atol=1e-5
    )


def test_a_product_may_be_written_over_its_factor() -> None:
    a, b = draw(64, 64), draw(64, 64, extra_columns=1)
    expected = a @ b
    np.testing.assert_allclose(matrix.multiply(a, b, out=a), expected, rtol=1e-4, atol=1e-4)


def test_a_broadcast_array_gives_no_warning() -> None:
    wide, _ = np.broadcast_arrays(draw(1, 8), draw(20, 8))
    np.testing.assert_allclose(matrix.multiply(wide, draw(8, 3)), wide @ draw(8, 3), rtol=1e-5, atol=1e-5)


def test_the_sets_with_functions_of_training_are_those_that_are_tried() -> None:
    """By `of_training` of conftest.py, for all tests that are marked `training`."""
    built = (Path(__file__).parents[2] / "native" / "CMakeLists.txt").read_text("utf-8")
    assert set(re.findall(r"training_for\((\w+)", built)) == {"neon", "avx2", "avx512"}
