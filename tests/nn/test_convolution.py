"""Convolution against SciPy's correlation, against autograd and against finite differences."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from errors import assert_raises, transcript
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal

from regard import nn

CASES = [  # B, H, W, C, k, D, stride
    (2, 5, 7, 3, 3, 4, 1),
    (2, 5, 7, 3, 3, 4, 2),
    (1, 7, 8, 2, 5, 3, 3),
    (3, 6, 4, 9, 3, 2, 2),  # enough channels to add complete pixels
    (2, 4, 6, 12, 5, 17, 1),
    (2, 5, 4, 8, 1, 16, 1),
    (2, 5, 4, 3, 1, 2, 3),  # pixels between the windows
    (2, 1, 1, 3, 3, 2, 1),
    (2, 1, 1, 3, 5, 2, 3),
    (1, 2, 9, 1, 7, 1, 4),  # windows larger than the picture
    (2, 3, 3, 1, 3, 1, 10),  # one window
    (2, 2, 3, 9, 3, 2, 10**20),
    (20, 4, 40, 9, 3, 2, 1),  # windows are gathered in blocks of some pictures,
    (1, 9, 40, 9, 7, 1, 1),  # some rows of a picture,
    (2, 3, 90, 25, 7, 1, 1),  # or one row
]


def arrays(case: tuple[int, ...], dtype: Any = np.float64) -> tuple[Any, Any, Any]:
    """Pictures, filters and a bias."""
    count, height, width, channels, size, filters, _ = case
    rng = np.random.default_rng(case[:6])
    shapes = (count, height, width, channels), (size, size, channels, filters), (filters,)
    images, weight, bias = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    return images, weight, bias


def correlated(images: Any, weight: Any, bias: Any, stride: int) -> Any:
    """The output by SciPy, filter by filter: every `stride`-th pixel of the full correlation."""
    y = np.zeros((*images.shape[:3], len(bias))) + bias
    for b in range(len(images)):
        for c in range(images.shape[3]):
            for d in range(len(bias)):
                y[b, :, :, d] += signal.correlate(
                    np.pad(images[b, :, :, c], len(weight) // 2), weight[:, :, c, d], "valid", "direct"
                )
    return y[:, ::stride, ::stride]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_is_the_correlation(case: tuple[int, ...]) -> None:
    images, weight, bias = arrays(case)
    y, _ = nn.convolution(images, weight, bias, stride=case[-1])
    np.testing.assert_allclose(y, correlated(images, weight, bias, case[-1]), atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_those_of_finite_differences(case: tuple[int, ...]) -> None:
    def function(*inputs: Any) -> Any:
        return nn.convolution(*inputs, stride=case[-1])

    assert nn.check_gradients(function, arrays(case)) < 1e-6


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_single_precision_is_close_to_double(case: tuple[int, ...]) -> None:
    wide = arrays(case)
    narrow = arrays(case, np.float32)
    (y, back), (z, wide_back) = (nn.convolution(*inputs, stride=case[-1]) for inputs in (narrow, wide))
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-4)
    dy = np.cos(np.arange(y.size, dtype=float)).reshape(y.shape)
    for one, other in zip(back(dy.astype(np.float32)), wide_back(dy), strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_against_autograd(stride: int) -> None:
    autograd = pytest.importorskip("autograd", reason="autograd is in the development extra")
    anp = pytest.importorskip("autograd.numpy")
    inputs = arrays((2, 5, 7, 3, 3, 4, stride))
    y, back = nn.convolution(*inputs, stride=stride)
    dy = np.random.default_rng(stride).standard_normal(y.shape)

    def loss(images: Any, weight: Any, bias: Any) -> Any:
        padded = anp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)), "constant")
        total = 0.0
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                window = padded[:, i * stride : i * stride + 3, j * stride : j * stride + 3]
                total = total + anp.sum((anp.tensordot(window, weight, 3) + bias) * dy[:, i, j])
        return total

    for gradient, expected in zip(back(dy), autograd.grad(loss, argnum=(0, 1, 2))(*inputs), strict=True):
        np.testing.assert_allclose(gradient, expected, atol=1e-12)


@pytest.mark.slow
@given(st.integers(1, 3), st.sampled_from([1, 3, 5]), st.integers(1, 9), st.integers(0, 2**31))
def test_convolution_is_linear_in_the_pictures(stride: int, size: int, channels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.standard_normal((2, 2, 5, 4, channels))
    weight, none = rng.standard_normal((size, size, channels, 3)), np.zeros(3)

    def of(images: Any) -> Any:
        return nn.convolution(images, weight, none, stride=stride)[0]

    np.testing.assert_allclose(of(2 * one - other), 2 * of(one) - of(other), atol=1e-10)


@pytest.mark.slow
@given(st.integers(1, 3), st.sampled_from([1, 3, 5]), st.integers(0, 2**31))
def test_a_shifted_picture_gives_a_shifted_output(stride: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    images, weight = rng.standard_normal((1, 12, 15, 2)), rng.standard_normal((size, size, 2, 3))
    shifted = np.roll(images, (stride, 2 * stride), axis=(1, 2))
    before, after = (nn.convolution(x, weight, np.ones(3), stride=stride)[0] for x in (images, shifted))
    edge = -(-(size // 2) // stride)  # pixels of the output whose windows reach beyond the border
    rows, columns = after.shape[1] - edge, after.shape[2] - edge
    np.testing.assert_allclose(
        after[:, 1 + edge : rows, 2 + edge : columns],
        before[:, edge : rows - 1, edge : columns - 2],
        atol=1e-10,
    )


def test_a_filter_of_one_pixel_is_a_linear_layer() -> None:
    images, weight, bias = arrays((2, 3, 4, 5, 1, 6, 1))
    y, back = nn.convolution(images, weight, bias)
    z, linear_back = nn.linear(images, weight[0, 0], bias)
    np.testing.assert_allclose(y, z, atol=1e-12)
    for one, other in zip(back(y), linear_back(z), strict=True):
        np.testing.assert_allclose(one.reshape(other.shape), other, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "case",
    [
        (0, 5, 4, 3, 3, 2, 1),
        (2, 0, 4, 3, 3, 2, 2),
        (2, 5, 0, 3, 3, 2, 1),
        (2, 5, 4, 0, 3, 2, 2),
        (2, 5, 4, 9, 3, 0, 1),
    ],
    ids=str,
)
def test_pictures_of_size_0(case: tuple[int, ...], dtype: Any) -> None:
    inputs = arrays(case, dtype)
    y, back = nn.convolution(*inputs, stride=case[-1])
    np.testing.assert_array_equal(y, np.broadcast_to(inputs[2], y.shape))
    gradients = back(np.ones_like(y))
    assert [g.shape for g in gradients] == [g.shape for g in inputs]
    np.testing.assert_array_equal(gradients[2], np.full(case[-2], y[..., 0].size if case[-2] else 0))
    assert not gradients[0].any()
    assert not gradients[1].any()


def test_arrays_of_any_layout_and_mixed_precision() -> None:
    images, weight, bias = arrays((2, 6, 5, 8, 3, 16, 2))
    y, back = nn.convolution(images, weight, bias, stride=2)
    views = (
        np.asfortranarray(images),
        np.ascontiguousarray(weight.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0),
        np.repeat(bias, 2)[::2],
    )
    again, again_back = nn.convolution(*views, stride=2)
    np.testing.assert_allclose(again, y, atol=1e-12)
    for one, other in zip(again_back(np.asfortranarray(y)), back(y), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    swapped = [x.astype(x.dtype.newbyteorder("S")) for x in (images, weight, bias, y)]
    again, again_back = nn.convolution(*swapped[:3], stride=2)
    np.testing.assert_allclose(again, y, atol=1e-12)
    for one, other in zip(again_back(swapped[3]), back(y), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    narrow = images.astype(np.float32)
    mixed, mixed_back = nn.convolution(narrow, weight, bias, stride=2)
    wide, wide_back = nn.convolution(narrow.astype(float), weight, bias, stride=2)
    assert mixed.dtype == np.float64
    np.testing.assert_allclose(mixed, wide, atol=1e-12)
    for one, other in zip(
        mixed_back(y.astype(np.float32)), wide_back(y.astype(np.float32).astype(float)), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.slow
def test_windows_are_not_gathered_all_at_once() -> None:
    """The windows of this picture have nine times its numbers, and so have their gradients."""
    images, weight, bias = arrays((1, 200, 150, 24, 3, 8, 1), np.float32)
    tracemalloc.start()
    try:
        y, back = nn.convolution(images, weight, bias)
        _, forward = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        back(y)
        _, backward = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert forward < y.nbytes + 2 * images.nbytes
    assert backward < y.nbytes + 4 * images.nbytes


def test_arguments_are_not_changed() -> None:
    inputs = arrays((2, 5, 4, 8, 3, 16, 1), np.float32)
    copies = [x.copy() for x in inputs]
    y, back = nn.convolution(*inputs)
    dy = np.ones_like(y)
    first = back(dy)
    for one, other in zip(first, back(dy), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip((*inputs, dy), (*copies, np.ones_like(y)), strict=True):
        np.testing.assert_array_equal(one, other)


def zeros(*shape: int) -> Any:
    return np.zeros(shape)


ERRORS = """\
nn.convolution(zeros(5, 4, 3), zeros(3, 3, 3, 2), zeros(2))
    ValueError: images must be (B, H, W, C) and weight (k, k, C, D). Got shapes (5, 4, 3) and (3, 3, 3, 2) instead.
nn.convolution(zeros(1, 5, 4, 3), zeros(3, 2), zeros(2))
    ValueError: images must be (B, H, W, C) and weight (k, k, C, D). Got shapes (1, 5, 4, 3) and (3, 2) instead.
nn.convolution(zeros(1, 5, 4, 3), zeros(3, 5, 3, 2), zeros(2))
    ValueError: weight must have shape (k, k, C, D) = (3, 3, 3, 2). Got (3, 5, 3, 2) instead.
nn.convolution(zeros(1, 5, 4, 3), zeros(3, 3, 1, 2), zeros(2))
    ValueError: weight must have shape (k, k, C, D) = (3, 3, 3, 2). Got (3, 3, 1, 2) instead.
nn.convolution(zeros(1, 5, 4, 2), zeros(8, 2, 3, 3), zeros(8))
    ValueError: weight must have shape (k, k, C, D) = (8, 8, 2, 3). Got (8, 2, 3, 3) instead.
      hint: weight.transpose(2, 3, 1, 0), if it is PyTorch's, which is (D, C, k, k)
nn.convolution(zeros(1, 5, 4, 3), zeros(2, 2, 3, 2), zeros(2))
    ValueError: weight must be (k, k, C, D) with an odd k. Got k = 2 instead.
nn.convolution(zeros(1, 5, 4, 3), zeros(0, 0, 3, 2), zeros(2))
    ValueError: weight must be (k, k, C, D) with an odd k. Got k = 0 instead.
nn.convolution(zeros(1, 5, 4, 3), zeros(3, 3, 3, 2), zeros(3))
    ValueError: bias must have shape (2,). Got (3,) instead.
nn.convolution(zeros(1, 5, 4, 3), zeros(3, 3, 3, 2), zeros(2), stride=0)
    ValueError: stride must be at least 1. Got 0 instead.
nn.convolution(zeros(1, 5, 4, 3), zeros(3, 3, 3, 2), zeros(2), stride=2)[1](zeros(1, 5, 4, 2))
    ValueError: dy must have shape (1, 3, 2, 2). Got (1, 5, 4, 2) instead.
"""


def test_shapes_are_checked() -> None:
    for call, text in transcript(ERRORS):
        assert_raises(call, text, globals())


@pytest.mark.parametrize("stride", [1.0, "1", True, None, (1, 1)])
def test_a_stride_is_an_integer(stride: Any) -> None:
    with pytest.raises(TypeError) as caught:
        nn.convolution(zeros(1, 5, 4, 3), zeros(3, 3, 3, 2), zeros(2), stride=stride)
    assert str(caught.value) == f"stride must be an integer. Got {stride!r} instead."


@pytest.mark.parametrize("name", ["images", "weight", "bias", "dy"])
@pytest.mark.parametrize(
    ("bad", "got"),
    [
        (lambda x: x.tolist(), "list"),
        (lambda x: x.astype(int), "dtype int64"),
        (lambda x: x.astype(np.uint8), "dtype uint8"),
        (lambda x: x.astype(np.float16), "dtype float16"),
    ],
)
def test_other_data_types_are_rejected(name: str, bad: Any, got: str) -> None:
    inputs = {
        "images": zeros(1, 5, 4, 3),
        "weight": zeros(3, 3, 3, 2),
        "bias": zeros(2),
        "dy": zeros(1, 5, 4, 2),
    }
    inputs[name] = bad(inputs[name])
    dy = inputs.pop("dy")
    with pytest.raises(TypeError) as caught:
        nn.convolution(**inputs)[1](dy)
    hint = f"\n  hint: np.asarray({name})" * (got == "list")
    assert str(caught.value) == f"{name} must be an array of float32 or float64. Got {got} instead.{hint}"


def test_relu() -> None:
    y, back = nn.relu(np.array([-np.inf, -1, -0.0, 0, 2, np.inf, np.nan]))
    np.testing.assert_array_equal(y, [0, 0, 0, 0, 2, np.inf, np.nan])
    np.testing.assert_array_equal(back(np.full(7, 3.0))[0], [0, 0, 0, 0, 3, 3, 0])


@pytest.mark.usefixtures("isa")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (0, 3), (4, 5), (3, 7, 11)])
def test_relu_of_any_shape(shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, dy = (np.asarray(rng.standard_normal(shape), dtype) for _ in range(2))
    y, back = nn.relu(x)
    (dx,) = back(dy)
    assert y.dtype == dx.dtype == dtype
    np.testing.assert_array_equal(y, np.where(x > 0, x, 0))
    np.testing.assert_array_equal(dx, np.where(x > 0, dy, 0))
    if x.ndim > 1:  # a transposed view
        np.testing.assert_array_equal(nn.relu(x.T)[1](dy.T)[0], dx.T)
