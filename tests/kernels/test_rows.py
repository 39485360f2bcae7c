"""Row operations of layers in the library, compared with NumPy's in float64, which test_nn_transformer.py tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from regard import nn

Array = NDArray[Any]
pytestmark = pytest.mark.training
SIZES = [(1, 1), (3, 5), (70, 33), (2, 16), (5, 200)]


def draw(*shape: int, seed: int = 0) -> Array:
    """Numbers."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def near(results: Any, expected: Any) -> None:
    """Compare float32 with float64."""
    for a, b in zip(results, expected, strict=True):
        assert a.dtype == np.float32
        assert b.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def narrow(*arrays: Array) -> list[Array]:
    """The same in float32."""
    return [x.astype(np.float32) for x in arrays]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("more", [False, True])
def test_layer_norm(isa: str, size: tuple[int, int], more: bool) -> None:
    x, dy, onto, gain, shift = (
        3 * draw(*size) + 1,
        *(draw(*size, seed=i) for i in (1, 2)),
        draw(size[1]),
        draw(size[1]),
    )
    expected, back = nn.layer_norm(x, gain, shift, epsilon=1e-2)
    output, single_back = nn.layer_norm(*narrow(x, gain, shift), epsilon=1e-2)
    near([output], [expected])
    also = [onto] if more else []
    near(single_back(*narrow(dy, *also)), back(dy, *also))


def test_the_array_added_to_the_gradient_of_a_norm() -> None:
    x, dy, onto = (draw(2, 3, 5, seed=i) for i in range(3))
    _, back = nn.layer_norm(x, draw(5), draw(5))
    np.testing.assert_allclose(back(dy, onto)[0], back(dy)[0] + onto)


def test_a_row_does_not_depend_on_the_others(isa: str) -> None:
    x, gain, shift = narrow(draw(6, 37), draw(37), draw(37))
    full, back = nn.layer_norm(x, gain, shift)
    dx = back(x[::-1])[0]
    x[0] = np.nan
    again, back = nn.layer_norm(x, gain, shift)
    assert np.isnan(again[0]).all()
    np.testing.assert_array_equal(again[1:], full[1:])
    np.testing.assert_array_equal(back(x[::-1])[0][1:-1], dx[1:-1])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_dropout_is_numpys_to_the_bit(isa: str, size: tuple[int, int]) -> None:
    """NumPy computes it for numbers with gaps between them."""
    x, dy = narrow(draw(*size), draw(*size, seed=1))
    output, back = nn.dropout(x, 0.3, np.random.default_rng(1))
    spread, spread_dy = (np.repeat(y, 2, axis=1)[:, ::2] for y in (x, dy))
    expected, back_of_numpy = nn.dropout(spread, 0.3, np.random.default_rng(1))
    np.testing.assert_array_equal(output, expected)
    np.testing.assert_array_equal(back(dy)[0], back_of_numpy(spread_dy)[0])


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_perceptron(isa: str, size: tuple[int, int]) -> None:
    (rows, width), hidden = size, 19
    arrays = draw(rows, width), draw(width, hidden), draw(hidden), draw(hidden, 3), draw(3)
    dy = draw(rows, 3)
    expected, back = nn.perceptron(*arrays)
    output, single_back = nn.perceptron(*narrow(*arrays))
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-4)
    for a, b in zip(single_back(*narrow(dy)), back(dy), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("change", [lambda x: x[::2], np.asfortranarray, lambda x: x.astype(">f4")])
def test_any_layout(isa: str, change: Any) -> None:
    x, dy = narrow(draw(8, 20), draw(8, 20, seed=1))
    x, dy = change(x), change(dy)
    plain = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(dy, np.float32)
    weights = narrow(draw(20), draw(20))
    output, back = nn.layer_norm(x, *weights)
    expected, plain_back = nn.layer_norm(plain[0], *weights)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    for a, b in zip(back(dy), plain_back(plain[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_empty_arrays(isa: str) -> None:
    empty = np.zeros((0, 4), np.float32)
    y, back = nn.layer_norm(empty, *narrow(np.ones(4), np.ones(4)))
    assert y.shape == (0, 4)
    assert [gradient.tolist() for gradient in back(empty)[1:]] == [[0] * 4] * 2
    assert nn.dropout(empty, 0.5, np.random.default_rng(0))[0].shape == (0, 4)


def test_rows_of_another_width_are_not_added_to_a_table() -> None:
    ids = np.array([0, 1])
    _, back = nn.embed(np.zeros((3, 4), np.float32), ids)
    with pytest.raises(ValueError, match=r"broadcast|shape"):
        back(np.ones((2, 4), np.float32), onto=np.zeros((3, 5), np.float32))
