"""The softmax over a vocabulary and Adam's step in the library, compared with NumPy's, which test_nn.py tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from regard import nn
from regard.kernels import training

Array = NDArray[Any]
pytestmark = pytest.mark.training


def draw(*shape: int, scale: float = 1.0) -> Array:
    """Numbers."""
    return scale * np.random.default_rng(shape).standard_normal(shape)


@pytest.mark.parametrize("sizes", [(1, 1), (3, 5), (70, 33), (2, 16), (5, 200)], ids=str)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(isa: str, sizes: tuple[int, int], biased: bool, smoothing: float) -> None:
    logits, bias = draw(*sizes, scale=5), draw(sizes[1]) if biased else None
    targets = np.arange(sizes[0]) % sizes[1]
    exact, back = nn.cross_entropy(logits, targets, bias, smoothing=smoothing)
    single = None if bias is None else bias.astype(np.float32)
    loss, single_back = nn.cross_entropy(logits.astype(np.float32), targets, single, smoothing=smoothing)
    assert loss == pytest.approx(exact, rel=1e-6, abs=1e-6)
    gradients, expected = single_back(0.5), back(0.5)
    assert len(gradients) == len(expected) == 1 + biased
    for a, b in zip(gradients, expected, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (530, 33, 20), (20, 400, 5), (5, 192, 48)], ids=str)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_linear_cross_entropy(isa: str, sizes: tuple[int, int, int], biased: bool, smoothing: float) -> None:
    rows, words, size = sizes
    x, weight, bias = draw(rows, size), draw(words, size), draw(words) if biased else None
    targets = np.arange(rows) * 7 % words
    exact, back = nn.cross_entropy(x @ weight.T, targets, bias, smoothing=smoothing)
    dlogits, *dbias = back(0.5)
    single = [y if y is None else y.astype(np.float32) for y in (x, weight, bias)]
    loss, single_back = nn.linear_cross_entropy(single[0], single[1], targets, single[2], smoothing=smoothing)
    assert loss == pytest.approx(exact, rel=1e-6, abs=1e-6)
    for a, b in zip(single_back(0.5), (dlogits @ weight, dlogits.T @ x, *dbias), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_gradients_of_linear_cross_entropy() -> None:
    targets, arrays = np.arange(20) % 5, [draw(20, 3), draw(5, 3), draw(5)]
    assert nn.check_gradients(lambda x, w, b: nn.linear_cross_entropy(x, w, targets, b), arrays) < 1e-6


def test_extreme_logits_never_held_at_once(isa: str) -> None:
    words = 500  # more than a block of them: the largest logit comes late, and for one row early
    x = np.array([[1.0], [-1.0], [0.0]], np.float32)
    weight = np.linspace(-1e4, 1e4, words, dtype=np.float32)[:, None]
    loss, pullback = nn.linear_cross_entropy(x, weight, np.array([words - 1, 0, 3]))
    assert loss == pytest.approx(np.log(words) / 3, rel=1e-6)
    dx, dweight = pullback(3.0)
    np.testing.assert_allclose(dx[:2], 0, atol=1e-3)
    np.testing.assert_allclose(dweight, 0, atol=1e-6)


def test_a_bias_masks_tokens(isa: str) -> None:
    bias = np.zeros(300, np.float32)
    bias[:-2] = -np.inf  # all of the first blocks
    x, weight = np.ones((20, 4), np.float32), np.ones((300, 4), np.float32)
    loss, pullback = nn.linear_cross_entropy(x, weight, np.full(20, 299), bias)
    assert loss == pytest.approx(np.log(2), rel=1e-6)
    _, _, dbias = pullback(1.0)
    np.testing.assert_allclose(dbias, [*np.zeros(298), 0.5, -0.5], atol=1e-6)


@pytest.mark.parametrize("words", [300, 5])
def test_linear_cross_entropy_rejects(words: int) -> None:
    with pytest.raises(ValueError, match="targets must be at most"):
        nn.linear_cross_entropy(np.zeros((2, 3)), np.zeros((words, 3)), np.array([0, words]))


@pytest.mark.parametrize("size", [1, 5, 16, 70])
def test_rows_are_added_at_their_indices(isa: str, size: int) -> None:
    table, ids, rows = (
        draw(9, size).astype(np.float32),
        np.arange(40).reshape(4, 10) * 3 % 7,
        draw(4, 10, size),
    )
    embedded_rows, pullback = nn.embed(table, ids)
    assert (embedded_rows == table[ids]).all()
    expected = np.zeros((9, size))
    np.add.at(expected, ids, rows)
    (dtable,) = pullback(rows.astype(np.float32))
    np.testing.assert_allclose(dtable, expected, rtol=1e-5, atol=1e-5)
    onto = table.copy()
    assert pullback(rows.astype(np.float32), onto)[0] is onto
    np.testing.assert_allclose(onto, table + expected, rtol=1e-5, atol=1e-5)


def test_gradient_of_the_bias() -> None:
    targets = np.arange(70) % 5
    assert nn.check_gradients(lambda x, b: nn.cross_entropy(x, targets, b), [draw(70, 5), draw(5)]) < 1e-6


def test_a_row_does_not_depend_on_the_others(isa: str) -> None:
    logits, targets = draw(6, 37).astype(np.float32), np.arange(6)
    gradient = nn.cross_entropy(logits, targets)[1](6.0)[0]
    alone = [nn.cross_entropy(logits[i : i + 1], targets[i : i + 1])[1](1.0)[0] for i in range(6)]
    np.testing.assert_allclose(gradient, np.concatenate(alone), rtol=3e-7, atol=1e-9)


def test_extreme_logits(isa: str) -> None:
    logits = np.array([[1e4, -1e4, 0.0], [-np.inf, 0.0, 0.0], [88.0, -1e38, 1e38]], np.float32)
    loss, pullback = nn.cross_entropy(logits, np.array([0, 1, 2]))
    assert loss == pytest.approx(np.log(2) / 3, rel=1e-6)
    np.testing.assert_allclose(pullback(3.0)[0], [[0, 0, 0], [0, -0.5, 0.5], [0, 0, 0]], atol=1e-7)


def test_a_nan_stays_in_its_row(isa: str) -> None:
    logits = draw(3, 20).astype(np.float32)
    logits[1, 7] = np.nan
    loss, pullback = nn.cross_entropy(logits, np.zeros(3, int))
    assert np.isnan(loss)
    assert np.isnan(pullback()[0][1]).all()
    assert np.isfinite(pullback()[0][::2]).all()


def test_targets_are_checked() -> None:
    for targets, message in (
        ([0, 5], "targets must be at most 4. Got 5 instead."),
        ([0, -1], "targets must be at least 0. Got -1 instead."),
        ([0], "targets must have shape (N,) = (2,). Got (1,) instead."),
    ):
        with pytest.raises(ValueError) as caught:
            nn.cross_entropy(draw(2, 5), np.array(targets))
        assert str(caught.value) == message
    with pytest.raises(ValueError) as caught:
        nn.cross_entropy(draw(2, 5), np.array([0, 1]), draw(4))
    assert str(caught.value) == "bias must have shape (V,) = (5,). Got (4,) instead."


@pytest.mark.parametrize("size", [1, 15, 100_003])
def test_adam_is_numpys_to_the_bit(isa: str, size: int) -> None:
    """NumPy computes it for parameters with gaps between them."""
    start = draw(size).astype(np.float32)
    one, two = nn.Adam(start.copy()), nn.Adam(np.repeat(start, 2)[::2])
    for step in range(4):
        gradient = draw(size, step + 1)[:, 0].astype(np.float32)
        for adam in (one, two):
            adam.step(gradient.copy(), 1e-2)
    for a, b in ((one.parameters, two.parameters), (one.mean, two.mean), (one.square, two.square)):
        np.testing.assert_array_equal(a, b)


def test_adam_of_unsupported_arrays(isa: str) -> None:
    every = np.ones(6, np.float32)
    adam = nn.Adam(every[::2], epsilon=0.0)
    adam.step(np.ones(3, np.float32), 0.5)
    np.testing.assert_allclose(every, [0.5, 1, 0.5, 1, 0.5, 1], rtol=1e-6)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 2), (70, 33, 4), (2, 16, 20), (5, 200, 10)], ids=str)
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("few", [False, True])
def test_top_k_is_that_of_a_sort(isa: str, sizes: tuple[int, int, int], first: int, few: bool) -> None:
    rows, words, count = sizes
    logits = np.round(draw(rows, words)) if few else draw(rows, words, scale=5)
    logits[draw(rows, words) > 1] = -np.inf
    logits[:, 0] = 2
    logits = logits.astype(np.float32)
    tops = training.top_k(logits, count, first)
    if tops is None:
        pytest.skip("this instruction set has none")
    sums, best, indices = tops
    np.testing.assert_array_equal(sums[:, 0], logits.max(axis=1))
    np.testing.assert_allclose(
        sums[:, 1], np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1), rtol=2e-6
    )
    for row in range(rows):
        order = first + np.argsort(-logits[row, first:], kind="stable")[:count]
        order = order[logits[row, order] > -np.inf]
        np.testing.assert_array_equal(indices[row, : len(order)], order)
        np.testing.assert_array_equal(best[row, : len(order)], logits[row, order])
        assert (best[row, len(order) :] == -np.inf).all()


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (3, 5, 7, 2), (150, 400, 33, 10), (9, 192, 96, 1)], ids=str)
@pytest.mark.parametrize("first", [0, 2])
def test_top_k_of_a_product_is_that_of_its_logits(
    isa: str, sizes: tuple[int, int, int, int], first: int
) -> None:
    rows, words, size, count = sizes
    readout, weight, bias = (
        np.round(4 * draw(*shape)).astype(np.float32) for shape in ((rows, size), (words, size), (words,))
    )
    if (known := training.PackedWeights.pack(weight, bias)) is None:
        pytest.skip("this instruction set has none")
    expected = training.top_k(readout @ weight.T + bias, count, first)  # integers: no rounding in any order
    assert expected is not None
    for one, other in zip(known.top_k(readout, count, first), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [20, 33, 96])
def test_top_k_of_numbers_of_every_size(isa: str, size: int) -> None:
    """Denormal and very large numbers change only the rows that have them."""
    readout, weight, bias = (draw(*shape).astype(np.float32) for shape in ((70, size), (250, size), (250,)))
    extremes = {5: 1e-36, 17: -1e-41, 31: 1e20, 64: 1e-32}
    for row, number in extremes.items():
        readout[row, row % size] = number
        if number < 1:
            readout[row, 0] = number
    readout[40] = np.float32(1e-38)  # nothing else
    for changed in (False, True):
        if changed:
            weight[[3, 200], size - 1] = 1e-35, -1e18
        if (known := training.PackedWeights.pack(weight, bias)) is None:
            pytest.skip("this instruction set has none")
        sums, best, indices = known.top_k(readout, 4)
        exact = readout.astype(float) @ weight.astype(float).T + bias
        added = np.abs(readout).astype(float) @ np.abs(weight).astype(float).T + np.abs(bias)
        np.testing.assert_array_less(
            np.abs(best - np.take_along_axis(exact, indices, 1)),
            1e-6 * np.take_along_axis(added, indices, 1),
        )
        np.testing.assert_array_equal(indices[:, 0], exact.argmax(axis=1))
        np.testing.assert_array_equal(sums[:, 0], best[:, 0])
        for rows in (slice(5, 6), slice(3, 66)):
            for part, full in zip(known.top_k(readout[rows], 4), (sums, best, indices), strict=True):
                np.testing.assert_array_equal(part, full[rows])


def test_unsupported_weights_are_not_packed(isa: str) -> None:
    weight, bias = np.ones((3, 2), np.float32), np.zeros(3, np.float32)
    assert training.PackedWeights.pack(weight.astype(float), bias) is None
    assert training.PackedWeights.pack(weight[:, :0], bias) is None
    assert training.PackedWeights.pack(weight, bias[:2]) is None


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_nan_logits_are_visible_in_the_sum(isa: str, wrong: float) -> None:
    logits = np.zeros((2, 40), np.float32)
    logits[1, :] = wrong
    if (tops := training.top_k(logits, 3)) is None:
        pytest.skip("this instruction set has none")
    assert np.isfinite(tops[0]).all(axis=1).tolist() == [True, False]


@pytest.mark.parametrize("size", [20, 33, 64])
def test_the_loss_of_a_row_does_not_depend_on_the_others(isa: str, size: int) -> None:
    """The logits of all rows are more than are stored."""
    readout, weight, bias = (draw(*shape).astype(np.float32) for shape in ((4200, size), (500, size), (500,)))
    targets = np.arange(4200) % 500
    if (predicted := training.predict(readout, weight, bias, targets)) is None:
        pytest.skip("this instruction set has none")
    loss, pullback = predicted
    gradient = pullback(0.1, 0.0)[0]
    for rows in (slice(0, 1), slice(3, 66), slice(7, 71)):
        part = training.predict(readout[rows], weight, bias, targets[rows])
        assert part is not None
        np.testing.assert_array_equal(part[0], loss[rows])
        np.testing.assert_array_equal(part[1](0.1, 0.0)[0], gradient[rows])


@pytest.mark.parametrize("sizes", [(3, 5, 7), (700, 500, 20)])
def test_stored_logits_give_the_gradients_of_recomputed_ones(isa: str, sizes: tuple[int, int, int]) -> None:
    """The first backward pass overwrites them, and the second computes them again."""
    rows, words, size = sizes
    arrays = (draw(*shape).astype(np.float32) for shape in ((rows, size), (words, size), (words,)))
    if (predicted := training.predict(*arrays, np.arange(rows) % words)) is None:
        pytest.skip("this instruction set has none")
    _, pullback = predicted
    for stored, recomputed in zip(pullback(0.1, 0.2), pullback(0.1, 0.2), strict=True):
        np.testing.assert_array_equal(stored, recomputed)
