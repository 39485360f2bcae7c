"""The LSTM: gradients against finite differences, steps against the formula, sequences against their steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import nn


def draw(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape)


def step(inputs: Any, hidden: Any, cell: Any) -> Any:
    """State and cell after a step in one array, as check_gradients wants it."""
    both, pullback = nn.lstm_step(inputs, hidden, cell)
    return np.stack(both), lambda d: pullback(d[0], d[1])


def test_lstm_step() -> None:
    assert nn.check_gradients(step, [draw(2, 12), draw(3, 12)[:2], draw(2, 3)]) < 1e-6


def test_lstm_step_is_the_formula() -> None:
    inputs, hidden, cell = draw(1, 4)[0], draw(2, 4)[0], draw(1)
    put, forget, out = 1 / (1 + np.exp(-(inputs + hidden)[[0, 1, 3]]))
    expected = forget * cell + put * np.tanh(inputs[2] + hidden[2])
    (new, new_cell), _ = nn.lstm_step(inputs, hidden, cell)
    np.testing.assert_allclose(new_cell, expected, rtol=1e-12)
    np.testing.assert_allclose(new, out * np.tanh(expected), rtol=1e-12)


def test_lstm_step_survives_huge_gates() -> None:
    (new, new_cell), pullback = nn.lstm_step(np.full(8, 1e30), np.full(8, -1e30), np.ones(2))
    assert np.isfinite(new).all()
    assert np.isfinite(new_cell).all()
    assert all(np.isfinite(g).all() for g in pullback(np.ones(2), np.ones(2)))


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("lengths", [None, [4, 1, 3]])
def test_lstm(directions: int, lengths: list[int] | None) -> None:
    arrays = [draw(4, 3, 2), draw(2, directions, 12), draw(directions, 12), draw(directions, 3, 12)]
    length_array = None if lengths is None else np.array(lengths)
    assert nn.check_gradients(lambda *a: nn.lstm(*a, lengths=length_array), arrays) < 1e-6


def test_lstm_is_its_steps() -> None:
    x, wx, b, wh = draw(3, 2, 5), draw(5, 2, 16), draw(2, 16), draw(2, 4, 16)
    states, _ = nn.lstm(x, wx, b, wh)
    for k, order in enumerate(([0, 1, 2], [2, 1, 0])):
        state, cell = np.zeros((2, 4)), np.zeros((2, 4))
        for t in order:
            (state, cell), _ = nn.lstm_step(x[t] @ wx[:, k] + b[k], state @ wh[k], cell)
            np.testing.assert_allclose(states[t, :, 4 * k : 4 * k + 4], state, rtol=1e-12)


def test_a_padded_sequence_is_read_as_if_alone() -> None:
    x, *weights = draw(5, 3, 2), draw(2, 2, 12), draw(2, 12), draw(2, 3, 12)
    lengths = np.array([5, 1, 3])
    states, pullback = nn.lstm(x, *weights, lengths=lengths)
    dstates = draw(5, 3, 6)
    dx = pullback(dstates)[0]
    for i, length in enumerate(lengths):
        alone, back = nn.lstm(x[:length, i : i + 1], *weights)
        np.testing.assert_allclose(states[:length, i], alone[:, 0], rtol=1e-12)
        assert (states[length:, i, :3] == states[length - 1, i, :3]).all()  # held
        assert (states[length:, i, 3:] == 0).all()  # not begun
        assert (dx[length:, i] == 0).all()
        held = dstates[:length, i : i + 1].copy()
        held[-1, :, :3] += dstates[length:, i, :3].sum(axis=0)
        np.testing.assert_allclose(dx[:length, i], back(held)[0][:, 0], rtol=1e-10)


def test_the_dtype_stays() -> None:
    arrays = [a.astype(np.float32) for a in (draw(3, 2, 5), draw(5, 2, 16), draw(2, 16), draw(2, 4, 16))]
    states, pullback = nn.lstm(*arrays, lengths=np.array([3, 1]))
    assert {a.dtype for a in (states, *pullback(states))} == {np.dtype(np.float32)}


def test_padding_has_no_influence_even_if_it_is_nan() -> None:
    x, *weights = draw(3, 2, 2), draw(2, 2, 12), draw(2, 12), draw(2, 3, 12)
    states, _ = nn.lstm(x, *weights, lengths=[3, 1])
    x[1:, 1] = np.nan
    again, pullback = nn.lstm(x, *weights, lengths=[3, 1])
    assert (again == states).all()
    assert all(np.isfinite(g).all() for g in pullback(np.ones_like(states)))


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        (
            "x",
            (3, 2),
            "x must be (T, B, E) and state_weight (K, H, 4H) with K = 1 or 2. "
            "Got shapes (3, 2) and (1, 3, 12) instead.",
        ),
        ("bias", (1, 8), "bias must have shape (K, 4H) = (1, 12). Got (1, 8) instead."),
        ("lengths", (3,), "lengths must have shape (B,) = (2,). Got (3,) instead."),
    ],
)
def test_shapes_are_checked(name: str, shape: tuple[int, ...], text: str) -> None:
    arrays = {"x": draw(3, 2, 2), "input_weight": draw(2, 1, 12), "bias": draw(1, 12)}
    arrays |= {"state_weight": draw(1, 3, 12), "lengths": np.array([3, 1])}
    arrays[name] = np.ones(shape, int if name == "lengths" else float)
    lengths = arrays.pop("lengths")
    with pytest.raises(ValueError) as caught:
        nn.lstm(*arrays.values(), lengths=lengths)
    assert str(caught.value) == text


@pytest.mark.parametrize("lengths", [None, [2, 0, 4]])
def test_without_a_backward_pass(lengths: list[int] | None) -> None:
    arrays = [draw(4, 3, 2), draw(2, 2, 12), draw(2, 12), draw(2, 3, 12)]
    states, _ = nn.lstm(*arrays, lengths=lengths)
    outputs, pullback = nn.lstm(*arrays, lengths=lengths, keep=False)
    assert (outputs == states).all()
    with pytest.raises(ValueError, match="keep must be True"):
        pullback(states)
