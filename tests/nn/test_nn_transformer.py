"""The layers that only the transformer needs: gradients against finite differences, outputs against the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import nn


def draw(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape)


@pytest.mark.parametrize(
    "shape", [(2, 3, 5), (4,), (0, 3), (3, 0), (17000, 4)]
)  # the last is worked on in pieces
def test_layer_norm(shape: tuple[int, ...]) -> None:
    arrays = [draw(*shape), draw(shape[-1]), draw(shape[-1]) + 2]
    assert nn.check_gradients(nn.layer_norm, arrays) < 1e-6


def test_layer_norm_is_the_formula() -> None:
    x, gain, shift = draw(7, 5) * 3 + 1, draw(5), draw(5, 1)[:, 0]
    y, _ = nn.layer_norm(x, gain, shift, epsilon=0.25)
    for row, found in zip(x, y, strict=True):
        wanted = (row - row.mean()) / np.sqrt(row.var() + 0.25) * gain + shift
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_layer_norm_of_equal_numbers_is_the_shift() -> None:
    y, pullback = nn.layer_norm(np.full((2, 3), 1e3), np.ones(3), np.arange(3.0))
    assert y.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert np.isfinite(pullback(np.ones((2, 3)))[0]).all()


@pytest.mark.parametrize("lead", [(2, 3), (), (0,), (1100,)])
def test_perceptron(lead: tuple[int, ...]) -> None:
    arrays = [draw(*lead, 4), draw(4, 6), draw(6), draw(6, 3), draw(3)]
    assert nn.check_gradients(nn.perceptron, arrays) < 1e-6


def test_perceptron_is_the_formula() -> None:
    x, into, bias, out, last = draw(1100, 4), draw(4, 6), draw(6), draw(6, 3), draw(3)
    wanted = np.maximum(x @ into + bias, 0) @ out + last
    np.testing.assert_allclose(nn.perceptron(x, into, bias, out, last)[0], wanted, rtol=1e-12)


def test_the_dtype_stays() -> None:
    x, into, out, four, two = (
        a.astype(np.float32) for a in (draw(3, 4), draw(4, 2), draw(2, 4), draw(4), draw(2))
    )
    for y, pullback in (nn.layer_norm(x, four, four), nn.perceptron(x, into, two, out, four)):
        assert {a.dtype for a in (y, *pullback(y))} == {np.dtype(np.float32)}


@pytest.mark.parametrize("rate", [1e-9, 1 - 1e-9])
def test_dropout_of_an_extreme_rate_stays_finite(rate: float) -> None:
    y, _ = nn.dropout(np.ones(1001, np.float32), rate, np.random.default_rng(0))
    assert np.isfinite(y).all()
