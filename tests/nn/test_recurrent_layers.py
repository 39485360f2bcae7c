"""GRU and LSTM: gradients against finite differences, steps against the formulas, sequences against their steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from errors import assert_raises, transcript

from regard import nn

LAYERS = {"gru": nn.gru, "lstm": nn.lstm}
GATES = {"gru": 3, "lstm": 4}
every_cell = pytest.mark.parametrize("cell", LAYERS)
every_length = pytest.mark.parametrize("lengths", [None, [4, 1, 3], [2, 0, 4]], ids=str)


def draw(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape)


def arrays_of(cell: str, length: int, batch: int, size: int = 3, directions: int = 2) -> list[Any]:
    """The arguments of a layer, for vectors of size 2."""
    wide = GATES[cell] * size
    return [
        draw(length, batch, 2),
        draw(2, directions, wide),
        draw(directions, wide),
        draw(directions, size, wide),
    ]


def step(cell: str, inputs: Any, hidden: Any, memory: Any) -> Any:
    """The memory after a step in one array, as check_gradients wants it: the state, and an LSTM's cell state."""
    if cell == "gru":
        return nn.gru_step(inputs, hidden, memory)
    both, pullback = nn.lstm_step(inputs, hidden, memory)
    return np.stack(both), lambda d: pullback(d[0], d[1])


@every_cell
def test_gradients_of_a_step(cell: str) -> None:
    wide = GATES[cell] * 3
    arrays = [draw(2, wide), draw(3, wide)[:2], draw(2, 3)]
    assert nn.check_gradients(lambda *a: step(cell, *a), arrays) < 1e-6


def test_a_step_of_a_gru_is_the_formula() -> None:
    inputs, hidden, state = draw(1, 3)[0], draw(2, 3)[0], draw(1)
    reset, update = 1 / (1 + np.exp(-(inputs[:2] + hidden[:2])))
    candidate = np.tanh(inputs[2] + reset * hidden[2])
    new, _ = nn.gru_step(inputs, hidden, state)
    np.testing.assert_allclose(new, update * state + (1 - update) * candidate, rtol=1e-12)


def test_a_step_of_an_lstm_is_the_formula() -> None:
    inputs, hidden, cell = draw(1, 4)[0], draw(2, 4)[0], draw(1)
    put, forget, out = 1 / (1 + np.exp(-(inputs + hidden)[[0, 1, 3]]))
    expected = forget * cell + put * np.tanh(inputs[2] + hidden[2])
    (new, new_cell), _ = nn.lstm_step(inputs, hidden, cell)
    np.testing.assert_allclose(new_cell, expected, rtol=1e-12)
    np.testing.assert_allclose(new, out * np.tanh(expected), rtol=1e-12)


@every_cell
def test_a_step_survives_huge_gates(cell: str) -> None:
    huge = np.full(2 * GATES[cell], 1e30)
    new, pullback = step(cell, huge, -huge, np.ones(2))
    assert np.isfinite(new).all()
    assert all(np.isfinite(g).all() for g in pullback(np.ones_like(new)))


@pytest.mark.parametrize("directions", [1, 2])
@every_length
@every_cell
def test_gradients_of_a_layer(cell: str, directions: int, lengths: list[int] | None) -> None:
    arrays = arrays_of(cell, 4, 3, directions=directions)
    bias_of_state = [draw(directions, 9)] if cell == "gru" else []
    for more in ([], bias_of_state):
        layer = lambda *a: LAYERS[cell](*a, lengths=lengths)  # noqa: E731
        assert nn.check_gradients(layer, [*arrays, *more]) < 1e-6


@every_cell
def test_a_layer_is_its_steps(cell: str) -> None:
    x, wx, b, wh = arrays_of(cell, 3, 2, size=4)
    states, _ = LAYERS[cell](x, wx, b, wh)
    for k, order in enumerate(([0, 1, 2], [2, 1, 0])):
        memory = np.zeros((2, 2, 4))  # the state, and in an LSTM the cell state
        for t in order:
            new, _ = step(cell, x[t] @ wx[:, k] + b[k], memory[0] @ wh[k], memory[-1])
            memory = new.reshape(-1, 2, 4)
            np.testing.assert_allclose(states[t, :, 4 * k : 4 * k + 4], memory[0], rtol=1e-12)


@every_cell
def test_a_padded_sequence_is_read_as_if_alone(cell: str) -> None:
    x, *weights = arrays_of(cell, 5, 4)
    lengths = [5, 1, 3, 0]
    states, pullback = LAYERS[cell](x, *weights, lengths=lengths)
    dstates = draw(5, 4, 6)
    dx = pullback(dstates)[0]
    for i, length in enumerate(lengths):
        alone, back = LAYERS[cell](x[:length, i : i + 1], *weights)
        np.testing.assert_allclose(states[:length, i], alone[:, 0], rtol=1e-12)
        end = states[length - 1, i, :3] if length else np.zeros(3)
        assert (states[length:, i, :3] == end).all()  # held
        assert (states[length:, i, 3:] == 0).all()  # not begun
        assert (dx[length:, i] == 0).all()
        if length:
            held = dstates[:length, i : i + 1].copy()
            held[-1, :, :3] += dstates[length:, i, :3].sum(axis=0)
            np.testing.assert_allclose(dx[:length, i], back(held)[0][:, 0], rtol=1e-10)


@every_cell
def test_the_dtype_stays(cell: str) -> None:
    arrays = [a.astype(np.float32) for a in arrays_of(cell, 3, 2)]
    states, pullback = LAYERS[cell](*arrays, lengths=np.array([3, 1]))
    assert {a.dtype for a in (states, *pullback(states))} == {np.dtype(np.float32)}


@every_cell
def test_padding_has_no_influence_even_if_it_is_nan(cell: str) -> None:
    x, *weights = arrays_of(cell, 3, 2)
    states, _ = LAYERS[cell](x, *weights, lengths=[3, 1])
    x[1:, 1] = np.nan
    again, pullback = LAYERS[cell](x, *weights, lengths=[3, 1])
    assert (again == states).all()
    assert all(np.isfinite(g).all() for g in pullback(np.ones_like(states)))


ERRORS = """\
nn.lstm(draw(3, 2), *weights)
    ValueError: x must be (T, B, E) and state_weight (K, H, 4H) with K = 1 or 2. \
Got shapes (3, 2) and (1, 3, 12) instead.
nn.lstm(x, weights[0], draw(1, 8), weights[2])
    ValueError: bias must have shape (K, 4H) = (1, 12). Got (1, 8) instead.
nn.lstm(x, *weights, lengths=[1, 1, 1])
    ValueError: lengths must have shape (B,) = (2,). Got (3,) instead.
"""


def test_shapes_are_checked() -> None:
    x, *weights = arrays_of("lstm", 3, 2, directions=1)
    for call, text in transcript(ERRORS):
        assert_raises(call, text, globals() | {"x": x, "weights": weights})


@every_length
@every_cell
def test_without_a_backward_pass(cell: str, lengths: list[int] | None) -> None:
    arrays = arrays_of(cell, 4, 3)
    states, _ = LAYERS[cell](*arrays, lengths=lengths)
    outputs, pullback = LAYERS[cell](*arrays, lengths=lengths, keep=False)
    assert (outputs == states).all()
    with pytest.raises(ValueError, match="keep must be True"):
        pullback(states)
