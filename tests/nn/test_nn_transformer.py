"""The layers that only the transformer needs: gradients against finite differences, outputs against the formulas."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from errors import assert_raises, transcript

import regard
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
    for row, normalized in zip(x, y, strict=True):
        expected = (row - row.mean()) / np.sqrt(row.var() + 0.25) * gain + shift
        np.testing.assert_allclose(normalized, expected, rtol=1e-12)


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
    expected = np.maximum(x @ into + bias, 0) @ out + last
    np.testing.assert_allclose(nn.perceptron(x, into, bias, out, last)[0], expected, rtol=1e-12)


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


# ---- activations, the root mean square ------------------------------------------------------------------------


def normal_below(x: float) -> float:
    """The probability that a normal number is smaller."""
    return math.erfc(-x / math.sqrt(2)) / 2


ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    "gelu": (nn.gelu, lambda x: x * normal_below(x)),
    "gelu tanh": (
        partial(nn.gelu, approximate="tanh"),
        lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "silu": (nn.silu, lambda x: x / (1 + math.exp(-x))),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_the_formulas(name: str) -> None:
    function, formula = ACTIVATIONS[name]
    x = np.linspace(-6, 6, 25).reshape(5, 5)
    np.testing.assert_allclose(function(x)[0], np.vectorize(formula)(x), rtol=1e-12, atol=1e-15)
    single, _ = function(x.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, np.vectorize(formula)(x), rtol=2e-4, atol=2e-7)
    assert nn.check_gradients(function, [draw(3, 4) * 2]) < 1e-6
    assert nn.check_gradients(function, [draw(0, 4)]) < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_large_numbers_reach_their_limits(name: str, dtype: Any) -> None:
    """Without a warning: 0 far below 0, x far above it, and slopes of 0 and 1."""
    most = np.finfo(dtype).max
    x = np.array([-np.inf, -most, -1e5, -900, 900, 1e5, most, np.inf, np.nan], dtype)
    y, pullback = ACTIVATIONS[name][0](x)
    np.testing.assert_array_equal(y, [0, 0, 0, 0, dtype(900), dtype(1e5), most, np.inf, np.nan])
    (dx,) = pullback(np.ones(9, dtype))
    assert dx.dtype == y.dtype == dtype
    np.testing.assert_array_equal(dx, [0, 0, 0, 0, 1, 1, 1, 1, np.nan])


@pytest.mark.parametrize("shape", [(2, 3, 5), (4,), (0, 3), (3, 0)])
def test_rms_norm(shape: tuple[int, ...]) -> None:
    x, gain = draw(*shape), draw(shape[-1])
    assert nn.check_gradients(nn.rms_norm, [x, gain]) < 1e-6
    y, _ = nn.rms_norm(x, gain, epsilon=0.25)
    for at in np.ndindex(shape[:-1]):
        length = math.sqrt(math.fsum(x[at] ** 2) / max(shape[-1], 1) + 0.25)
        np.testing.assert_allclose(
            y[at], [n / length * g for n, g in zip(x[at], gain, strict=True)], rtol=1e-12
        )
    single, pullback = nn.rms_norm(x.astype(np.float32), gain.astype(np.float32))
    assert {single.dtype, *(g.dtype for g in pullback(single))} == {np.dtype(np.float32)}


def test_rms_norm_is_a_layer_norm_of_vectors_whose_mean_is_0() -> None:
    x, gain = draw(7, 6), draw(6)
    x -= x.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(nn.rms_norm(x, gain)[0], nn.layer_norm(x, gain, np.zeros(6))[0], rtol=1e-12)


# ---- heads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_heads_are_split_and_merged(dtype: Any) -> None:
    x = draw(2, 3, 8).astype(dtype)
    y, pullback = nn.split_heads(x, 4)
    assert y.shape == (2, 4, 3, 2)
    for head in range(4):
        np.testing.assert_array_equal(y[:, head], x[..., 2 * head : 2 * head + 2])
    merged, back = nn.merge_heads(y)
    np.testing.assert_array_equal(merged, x)
    np.testing.assert_array_equal(pullback(y)[0], x)  # each is the pullback of the other
    np.testing.assert_array_equal(back(x)[0], y)
    assert not np.shares_memory(y, x)
    assert y.dtype == merged.dtype == back(x)[0].dtype == dtype


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (3, 4)])
def test_heads_of_any_size(shape: tuple[int, ...]) -> None:
    y, _ = nn.split_heads(np.ones(shape), 2)
    assert y.shape == (*shape[:-2], 2, shape[-2], shape[-1] // 2)
    assert nn.merge_heads(y)[0].shape == shape


WEIGHTS = [(6, 8), (6, 4), (6, 4), (8, 5)]  # four heads of size 2, two key heads


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("biases", [False, True])
def test_multi_head_attention_has_right_gradients(memory: bool, biases: bool) -> None:
    added = [draw(size) for size in (8, 4, 4, 5)] if biases else [None] * 4
    arguments = [
        draw(2, 5, 6),
        draw(2, 7, 6) if memory else None,
        *(draw(*shape) for shape in WEIGHTS),
        *added,
    ]
    bias, sink = draw(4, 1, 7 if memory else 5), draw(4, 1)[:, 0]
    indices = [i for i, x in enumerate(arguments) if x is not None]

    def function(*arrays: Any) -> Any:
        *changed, bias, sink = arrays
        all_arguments = list(arguments)
        for i, x in zip(indices, changed, strict=True):
            all_arguments[i] = x
        y, pullback = nn.multi_head_attention(
            *all_arguments, heads=4, key_heads=2, rotate=regard.position.rotary_vjp, bias=bias, sink=sink, softcap=5.0,
            mask=regard.mask.causal(align="end"),
        )  # fmt: skip

        def back(dy: Any) -> list[Any]:
            gradients = pullback(dy)
            assert [x is None for x in gradients[:10]] == [x is None for x in arguments]
            return [*(gradients[i] for i in indices), gradients.bias, gradients.sink]

        return y, back

    arrays = [*(arguments[i] for i in indices), bias, sink]
    assert nn.check_gradients(function, arrays) < 1e-6


def test_multi_head_attention_with_other_values_and_norms_has_right_gradients() -> None:
    """Against differences, in all arrays; with the formula of the norm of each head by hand."""
    weights = [draw(*shape) for shape in (*WEIGHTS[:2], (3, 4), WEIGHTS[3])]
    arrays = [draw(2, 5, 6), draw(2, 7, 6), *weights, draw(2, 7, 3), draw(2), draw(2)]
    options: dict[str, Any] = {"heads": 4, "key_heads": 2, "rotate": regard.position.rotary_vjp}

    def function(*arrays: Any) -> Any:
        *plain, values, query_gain, key_gain = arrays
        added = {"value_memory": values, "query_gain": query_gain, "key_gain": key_gain}
        y, pullback = nn.multi_head_attention(*plain, **options, **added, epsilon=0.01)

        def back(dy: Any) -> Any:
            gradients = pullback(dy)
            return *gradients[:6], gradients.value_memory, gradients.query_gain, gradients.key_gain

        return y, back

    assert nn.check_gradients(function, arrays) < 1e-6
    x, memory, *_, values, query_gain, key_gain = arrays

    def normal(x: Any, gain: Any) -> Any:
        return regard.position.rotary(x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.01) * gain)

    queries, keys, expected = x @ weights[0], memory @ weights[1], np.zeros((2, 5, 5))
    for head in range(4):
        part, of_keys = slice(2 * head, 2 * head + 2), slice(head // 2 * 2, head // 2 * 2 + 2)
        q, k = normal(queries[..., part], query_gain), normal(keys[..., of_keys], key_gain)
        expected += regard.attend(q, k, values @ weights[2][:, of_keys]).context @ weights[3][part]
    np.testing.assert_allclose(function(*arrays)[0], expected, rtol=1e-12, atol=1e-13)


def test_multi_head_attention_takes_a_normalization() -> None:
    """A sigmoid, whose bias has a gradient, too."""
    arrays = [draw(2, 5, 6), *(draw(*shape) for shape in WEIGHTS), np.array(0.5)]

    def function(*arrays: Any) -> Any:
        *projected, bias = arrays
        y, pullback = nn.multi_head_attention(
            projected[0], None, *projected[1:], heads=4, key_heads=2, normalize=regard.weights.sigmoid(bias)
        )

        def back(dy: Any) -> Any:
            gradients = pullback(dy)
            return gradients.x, *gradients[2:6], gradients.normalize["bias"]

        return y, back

    assert nn.check_gradients(function, arrays) < 1e-6
    x, *weights, bias = arrays
    heads = [nn.split_heads(x @ w, n)[0] for w, n in zip(weights[:3], (4, 2, 2), strict=True)]
    contexts = regard.attend(*heads, normalize=regard.weights.sigmoid(bias)).context
    np.testing.assert_allclose(function(*arrays)[0], nn.merge_heads(contexts)[0] @ weights[3], rtol=1e-12)


def test_multi_head_attention_is_one_attention_for_each_head() -> None:
    x, memory = draw(2, 5, 6), draw(2, 7, 6)
    weights = [draw(*shape) for shape in WEIGHTS]
    y, _ = nn.multi_head_attention(x, memory, *weights, heads=4, key_heads=2)
    expected = np.zeros((2, 5, 5))
    for head in range(4):
        own, key = slice(2 * head, 2 * head + 2), slice(head // 2 * 2, head // 2 * 2 + 2)
        q, k, v = x @ weights[0][:, own], memory @ weights[1][:, key], memory @ weights[2][:, key]
        expected += regard.attend(q, k, v).context @ weights[3][own]
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-13)


ERRORS = """\
nn.split_heads(draw(2, 3, 5), 2)
    ValueError: x must have shape (..., n, heads * d) with heads = 2. Got (2, 3, 5) instead.
nn.split_heads(draw(4), 2)
    ValueError: x must have shape (..., n, heads * d) with heads = 2. Got (4,) instead.
nn.split_heads(draw(3, 4), 0)
    ValueError: heads must be at least 1. Got 0 instead.
nn.split_heads(draw(3, 4), 2)[1](draw(3, 4))
    ValueError: dy must have shape (2, 3, 2). Got (3, 4) instead.
nn.merge_heads(draw(3, 4))
    ValueError: x must be (..., heads, n, d). Got shape (3, 4) instead.
nn.merge_heads(draw(2, 3, 4))[1](draw(2, 3, 4))
    ValueError: dy must have shape (3, 8). Got (2, 3, 4) instead.
nn.rms_norm(np.array(1.0), np.ones(1))
    ValueError: x must be (..., d). Got a single number instead.
nn.rms_norm(draw(2, 3), draw(2))
    ValueError: gain must have shape (3,). Got (2,) instead.
nn.gelu(draw(3), approximate="erf")
    ValueError: approximate must be one of 'none', 'tanh'. Got 'erf' instead.
nn.silu(draw(3))[1](draw(2))
    ValueError: dy must have shape (3,). Got (2,) instead.
nn.silu(np.arange(3))
    TypeError: x must be an array of float32 or float64. Got dtype int64 instead.
nn.merge_heads([[[1.0]]])
    TypeError: x must be an array of float32 or float64. Got list instead.
      hint: np.asarray(x)
nn.multi_head_attention(draw(5, 6), None, *(draw(*s) for s in WEIGHTS), heads=4)
    ValueError: query_weight (w, heads * d) and key_weight (v, key_heads * d) must share d: 8 / 4 and 4 / 4
      hint: key_heads= is the number of heads of keys and values
"""


def test_wrong_heads_and_shapes_are_errors() -> None:
    for call, text in transcript(ERRORS):
        assert_raises(call, text, globals())
