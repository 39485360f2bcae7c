"""The layers: gradients against finite differences, outputs against sums done by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
from errors import assert_raises, transcript
from one_test import in_one_test

from regard import nn


def draw(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape)


def test_linear() -> None:
    assert nn.check_gradients(nn.linear, [draw(2, 3, 4), draw(4, 5), draw(5)]) < 1e-6
    assert nn.check_gradients(nn.linear, [draw(3, 4), draw(4, 5)]) < 1e-6


GRU = draw(3, 2, 4), draw(4, 2, 9), draw(2, 9), draw(2, 3, 9)
ERRORS = """\
nn.linear(draw(2, 3), draw(4, 5))
    ValueError: weight must have shape (3, 5). Got (4, 5) instead.
nn.linear(draw(2, 3), draw(3, 5), draw(1))
    ValueError: bias must have shape (5,). Got (1,) instead.
nn.linear(draw(2, 3), draw(3))
    ValueError: x must be (..., d) and weight (d, e). Got shapes (2, 3) and (3,) instead.
nn.linear(draw(2, 3), draw(3, 5))[1](draw(5, 2))
    ValueError: dy must have shape (2, 5). Got (5, 2) instead.
nn.perceptron(draw(2, 3), draw(3, 4), draw(4), draw(5, 6), draw(6))
    ValueError: hidden_weight must have shape (3, 5). Got (3, 4) instead.
nn.perceptron(draw(2, 3), draw(3, 4), draw(1), draw(4, 6), draw(6))
    ValueError: hidden_bias must have shape (4,). Got (1,) instead.
nn.perceptron(draw(2, 3), draw(3, 4), draw(4), draw(4, 6), draw(1))
    ValueError: output_bias must have shape (6,). Got (1,) instead.
nn.perceptron(draw(2, 3), draw(3, 4), draw(4), draw(4), draw(1))
    ValueError: x must be (..., d), hidden_weight (d, h) and output_weight (h, e). \
Got shapes (2, 3), (3, 4) and (4,) instead.
nn.perceptron(draw(2, 3), draw(3, 4), draw(4), draw(4, 6), draw(6))[1](draw(6, 2))
    ValueError: dy must have shape (2, 6). Got (6, 2) instead.
nn.layer_norm(draw(2, 3), draw(1), draw(3))
    ValueError: gain must have shape (3,). Got (1,) instead.
nn.layer_norm(draw(2, 3), draw(3), draw(3))[1](draw(3, 2))
    ValueError: dy must have shape (2, 3). Got (3, 2) instead.
nn.layer_norm(*(draw(*s).astype(np.float32) for s in ((2, 3), (3,), (3,))))[1](draw(6))
    ValueError: dy must have shape (2, 3). Got (6,) instead.
nn.layer_norm(draw(0, 3), draw(3), draw(2))
    ValueError: shift must have shape (3,). Got (2,) instead.
nn.tanh(draw(2, 3))[1](draw(3))
    ValueError: dy must have shape (2, 3). Got (3,) instead.
nn.gru_step(draw(2, 9), draw(1, 9), draw(2, 3))
    ValueError: hidden must have shape (2, 9). Got (1, 9) instead.
nn.gru_step(draw(2, 9), draw(2, 9), draw(2, 3))[1](draw(3))
    ValueError: dnew must have shape (2, 3). Got (3,) instead.
nn.lstm_step(draw(12), draw(2, 12), draw(2, 3))
    ValueError: inputs must have shape (2, 12). Got (12,) instead.
nn.lstm_step(draw(2, 12), draw(2, 12), draw(2, 3))[1](draw(2, 3), draw(2, 1))
    ValueError: dnew_cell must have shape (2, 3). Got (2, 1) instead.
nn.lstm_step(draw(4), draw(4), np.array(1.0))
    ValueError: cell must be (..., H). Got shape () instead.
nn.gru(draw(2, 3), draw(3, 2, 12), draw(2, 12), draw(2, 4, 12))
    ValueError: x must be (T, B, E) and state_weight (K, H, 3H) with K = 1 or 2. \
Got shapes (2, 3) and (2, 4, 12) instead.
nn.gru(draw(3, 2, 4), draw(4, 3, 9), draw(3, 9), draw(3, 3, 9))
    ValueError: x must be (T, B, E) and state_weight (K, H, 3H) with K = 1 or 2. \
Got shapes (3, 2, 4) and (3, 3, 9) instead.
nn.gru(*GRU[:2], draw(2, 8), GRU[3])
    ValueError: bias must have shape (K, 3H) = (2, 9). Got (2, 8) instead.
nn.gru(*GRU, lengths=[3, 4])
    ValueError: lengths must be at most 3. Got 4 instead.
nn.gru(*GRU, lengths=[3, -1])
    ValueError: lengths must be at least 0. Got -1 instead.
nn.gru(*GRU, lengths=[3])
    ValueError: lengths must have shape (B,) = (2,). Got (1,) instead.
nn.gru_sequence(draw(2, 3, 6), draw(2, 2), draw(2, 6))
    ValueError: start must have shape (B, H) = (3, 2). Got (2, 2) instead.
nn.gru_sequence(draw(2, 3, 12), draw(3, 4), draw(12))
    ValueError: inputs must be (n, B, 3H) and state_weight (H, 3H). Got shapes (2, 3, 12) and (12,) instead.
"""


def test_shapes_are_checked() -> None:
    for call, text in transcript(ERRORS):
        assert_raises(call, text, globals())


def ints(*shape: int) -> Any:
    return np.ones(shape, int)


FLOATS: dict[str, Any] = {
    "linear": (lambda f: nn.linear(f(2, 3), f(3, 1)), "x"),
    "linear back": (lambda f: nn.linear(draw(2, 3), draw(3, 1))[1](f(2, 1)), "dy"),
    "perceptron": (lambda f: nn.perceptron(f(2, 3), f(3, 4), f(4), f(4, 3), f(3)), "x"),
    "layer_norm": (lambda f: nn.layer_norm(f(2, 3), f(3), f(3)), "x"),
    "layer_norm back": (lambda f: nn.layer_norm(draw(2, 3), draw(3), draw(3))[1](f(2, 3)), "dy"),
    "dropout": (lambda f: nn.dropout(f(8), 0.3, np.random.default_rng(0)), "x"),
    "embed": (lambda f: nn.embed(f(3, 2), np.array([0])), "table"),
    "embed back": (lambda f: nn.embed(draw(3, 2), np.array([0]))[1](f(1, 2)), "drows"),
    "gru": (lambda f: nn.gru(f(3, 1, 2), f(2, 1, 3), f(1, 3), f(1, 1, 3)), "x"),
    "gru back": (
        lambda f: nn.gru(draw(3, 1, 2), draw(2, 1, 3), draw(1, 3), draw(1, 1, 3))[1](f(3, 1, 1)),
        "dstates",
    ),
    "gru_step": (lambda f: nn.gru_step(f(1, 3), f(1, 3), f(1, 1)), "inputs"),
    "gru_sequence": (lambda f: nn.gru_sequence(f(3, 1, 3), f(1, 1), f(1, 3)), "inputs"),
    "gru_sequence back": (
        lambda f: nn.gru_sequence(draw(3, 1, 3), draw(1, 1), draw(1, 3))[1](f(3, 1, 1)),
        "dstates",
    ),
    "lstm": (lambda f: nn.lstm(f(3, 1, 2), f(2, 1, 8), f(1, 8), f(1, 2, 8)), "x"),
    "lstm back": (
        lambda f: nn.lstm(draw(3, 1, 2), draw(2, 1, 8), draw(1, 8), draw(1, 2, 8))[1](f(3, 1, 2)),
        "dstates",
    ),
    "lstm_step": (lambda f: nn.lstm_step(f(1, 4), f(1, 4), f(1, 1)), "inputs"),
    "cross_entropy": (lambda f: nn.cross_entropy(f(2, 3), np.array([0, 1])), "logits"),
    "linear_cross_entropy": (lambda f: nn.linear_cross_entropy(f(2, 3), f(4, 3), np.array([0, 1])), "x"),
    "divergence": (lambda f: nn.divergence(f(2, 3), f(2, 3)), "p"),
    "Adam": (lambda f: nn.Adam(f(3)), "parameters"),
    "Adam.step": (lambda f: nn.Adam(draw(3)).step(f(3), 0.1), "gradient"),
}


@in_one_test("name", FLOATS)
def test_integers_lists_and_masked_arrays_are_rejected(name: str) -> None:
    call, first = FLOATS[name]
    for make, got in (
        (ints, "dtype int64"),
        (lambda *shape: draw(*shape).tolist(), "list"),
        (lambda *shape: draw(*shape).astype(np.float16), "dtype float16"),  # sums of it overflow
        (lambda *shape: draw(*shape).astype(complex), "dtype complex128"),
        (lambda *shape: np.ma.array(draw(*shape), mask=True), "MaskedArray"),
        (lambda *shape: draw(*shape).astype(np.longdouble), f"dtype {np.dtype(np.longdouble)}"),
    ):
        if got == "dtype float64":
            continue  # where long double is float64
        with pytest.raises(TypeError) as caught:
            call(make)
        hint = f"\n  hint: np.asarray({first})" * (got == "list")
        assert (
            str(caught.value) == f"{first} must be an array of float32 or float64. Got {got} instead.{hint}"
        )
    call(lambda *shape: draw(*shape))


def test_read_only_arrays_are_not_overwritten() -> None:
    logits = np.frombuffer(np.array([[1, 2, 3, 4]], np.float32).tobytes(), np.float32).reshape(1, 4)
    with pytest.raises(
        ValueError, match=r"^logits must be writeable where overwrite=True. Got a read-only array"
    ):
        nn.cross_entropy(logits, np.array([0]), overwrite=True)
    assert logits.tolist() == [[1, 2, 3, 4]]


def test_gradients_are_added_to_a_table_that_fits() -> None:
    _, back = nn.embed(draw(3, 3), np.array([0, 2]))
    with pytest.raises(ValueError, match=r"^onto must have shape \(3, 3\). Got \(9, 3\) instead."):
        back(draw(2, 3), onto=np.zeros((9, 3)))
    with pytest.raises(ValueError, match=r"^table must be \(V, E\). Got shape \(3,\) instead."):
        nn.embed(draw(3), np.array([0]))


def test_mixed_floats_are_not_rounded_to_the_smaller_type() -> None:
    x, *weights = draw(3, 1, 2), draw(2, 1, 8), draw(1, 8), draw(1, 2, 8)
    wide = nn.lstm(x.astype(np.float32).astype(float), *weights)
    mixed = nn.lstm(x.astype(np.float32), *weights)
    assert mixed[0].dtype == np.float64
    np.testing.assert_allclose(mixed[0], wide[0])
    narrow = np.ones((3, 1, 2), np.float32)
    for one, other in zip(mixed[1](narrow), wide[1](narrow.astype(float)), strict=True):
        np.testing.assert_allclose(one, other)


def test_layers_reject_other_arguments() -> None:
    rng = np.random.default_rng(0)
    refused: list[tuple[Any, str]] = [
        (lambda: nn.dropout(np.ones(2), "0.5", rng), "rate must be a number. Got '0.5' instead."),  # type: ignore[arg-type]
        (lambda: nn.dropout(np.ones(2), float("nan"), rng), "rate must be finite. Got nan instead."),
        (
            lambda: nn.dropout(np.ones(2), 0.5, 0.5),
            "rng must be an integer, a numpy.random.Generator or None.",
        ),  # type: ignore[arg-type]
        (lambda: nn.dropout(np.ones(3), 0.5, rng)[1](np.ones((2, 3))), r"dy must have shape \(3,\)"),
        (lambda: nn.dropout(np.ones(3), 0.0, rng)[1](np.ones((2, 3))), r"dy must have shape \(3,\)"),
        (lambda: nn.Adam(np.ones((2, 2))), r"parameters must be a writable array \(P,\). Got shape \(2, 2\)"),
        (lambda: nn.Adam(np.broadcast_to(1.0, 3)), r"parameters must be a writable array \(P,\). Got a read"),
        (lambda: nn.Adam(np.ones(3)).step(np.broadcast_to(1.0, 3), 0.1), "gradient must be writable"),
        (
            lambda: nn.Adam(np.ones(3), clip=-1.0),
            "clip must be greater than 0. Got -1.0",
        ),  # it would walk uphill
        (lambda: nn.Adam(np.ones(3), beta1=1.0), "beta1 must be less than 1. Got 1.0"),
        (lambda: nn.Adam(np.ones(3), beta2=-0.5), "beta2 must be at least 0. Got -0.5"),
        (lambda: nn.Adam(np.ones(3), epsilon=-1), "epsilon must be at least 0. Got -1.0"),
        (lambda: nn.Adam(np.ones(3)).step(np.ones(3), float("nan")), "rate must be finite. Got nan"),
        (
            lambda: nn.layer_norm(np.ones((1, 2)), np.ones(2), np.ones(2), epsilon=-1),
            "epsilon must be at least 0",
        ),
        (lambda: nn.layer_norm(np.ones(2), np.ones(2), np.ones(2), epsilon="a"), "epsilon must be a number"),  # type: ignore[arg-type]
        (
            lambda: nn.check_gradients(lambda x, y: (x * y, lambda dz: (dz * y,)), [np.ones(2), np.ones(2)]),
            "gradients must have the shapes of their arrays",
        ),
    ]
    for call, message in refused:
        with pytest.raises((ValueError, TypeError), match=f"^{message}"):
            call()


@pytest.mark.parametrize("rows", [0, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_array_that_layer_norm_adds_to_must_fit(rows: int, dtype: Any) -> None:
    x, one = np.ones((rows, 6), dtype), np.ones(6, dtype)
    _, back = nn.layer_norm(x, one, one)
    assert [gradient.shape for gradient in back(x, x)] == [(rows, 6), (6,), (6,)]
    for wrong in (np.ones((6, rows), dtype), np.ones(6, dtype), [[1.0] * 6] * rows):
        with pytest.raises((ValueError, TypeError), match=r"^onto must "):
            back(x, wrong)
    with pytest.raises(ValueError, match=r"^dy must have shape"):
        back(np.ones((rows, 5), dtype))


@pytest.mark.parametrize("length", [0, 1])
def test_a_recurrence_without_steps_has_gradients(length: int) -> None:
    inputs, start, weight = draw(length, 2, 9), draw(2, 3), draw(3, 9)
    states, back = nn.gru_sequence(inputs, start, weight)
    gradients = back(np.ones_like(states))
    assert [x.shape for x in gradients] == [x.shape for x in (inputs, start, weight)]
    assert length or not any(np.any(x) for x in gradients)


@pytest.mark.parametrize(("dtype", "large"), [(np.float32, 1e19), (np.float32, 1e38), (np.float64, 1e200)])
@pytest.mark.parametrize("size", [4, 1 << 18])
def test_a_gradient_of_any_norm_is_clipped(dtype: Any, large: float, size: int) -> None:
    """Also where the sum of its squares overflows."""
    parameters, moderate = np.ones(size, dtype), np.ones(size, dtype)
    gradient = np.zeros(size, dtype)
    gradient[:4] = [large, -large, 0, large]
    length = nn.Adam(parameters).step(gradient.copy(), rate=0.1)
    assert length == pytest.approx(3**0.5 * large, rel=1e-6)
    nn.Adam(moderate).step(gradient / dtype(large), rate=0.1)
    np.testing.assert_allclose(parameters, moderate, rtol=3e-6)
    for wrong in (np.inf, np.nan):
        gradient[1] = wrong
        assert not np.isfinite(nn.Adam(parameters).step(gradient.copy(), rate=0.1))
    np.testing.assert_allclose(parameters, moderate, rtol=3e-6)


def test_tanh() -> None:
    assert nn.check_gradients(nn.tanh, [draw(3, 4)]) < 1e-6


def test_embed() -> None:
    ids = np.array([[0, 3, 3], [3, 1, 0]])
    assert nn.check_gradients(lambda table: nn.embed(table, ids), [draw(5, 4)]) < 1e-6
    _, pullback = nn.embed(draw(5, 2), ids)
    (gradient,) = pullback(np.ones((2, 3, 2)))
    assert gradient.tolist() == [[2, 2], [1, 1], [0, 0], [3, 3], [0, 0]]


def test_dropout_gradient_uses_the_same_mask() -> None:
    def with_fixed_chance(x: Any) -> Any:
        return nn.dropout(x, 0.4, np.random.default_rng(3))

    assert nn.check_gradients(with_fixed_chance, [draw(4, 5)]) < 1e-6


def test_dropout_keeps_the_mean_and_its_rate() -> None:
    y, _ = nn.dropout(np.ones(100_000), 0.25, np.random.default_rng(1))
    assert abs(y.mean() - 1) < 0.01
    assert abs((y == 0).mean() - 0.25) < 0.01
    assert set(np.unique(y)) == {0.0, np.float64(np.float64(1) / 0.75)}


def test_dropout_of_rate_0_and_outside_training_changes_nothing() -> None:
    x = draw(3)
    rng = np.random.default_rng(0)
    assert nn.dropout(x, 0.0, rng)[0] is x
    assert rng.bit_generator.state == np.random.default_rng(0).bit_generator.state
    assert nn.dropout(x, 0.5, None)[0] is x


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_dropout_rate_is_checked(rate: float) -> None:
    with pytest.raises(ValueError) as caught:
        nn.dropout(np.ones(2), rate, None)
    rule = "at least 0" if rate < 0 else "less than 1"
    assert str(caught.value) == f"rate must be {rule}. Got {rate!r} instead."


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(smoothing: float) -> None:
    targets = np.arange(70) % 5  # more rows than are worked on at a time
    loss = lambda x: nn.cross_entropy(x, targets, smoothing=smoothing)  # noqa: E731
    assert nn.check_gradients(loss, [draw(70, 5)]) < 1e-6


def test_cross_entropy_is_the_formula() -> None:
    logits, targets = draw(3, 4), np.array([0, 3, 3])
    logp = np.log(np.exp(logits) / np.exp(logits).sum(1, keepdims=True))
    expected = np.full((3, 4), 0.2 / 4)
    expected[np.arange(3), targets] += 0.8
    loss, _ = nn.cross_entropy(logits, targets, smoothing=0.2)
    assert loss == pytest.approx(-(expected * logp).sum() / 3, rel=1e-12)


def test_cross_entropy_overwrites_logits_only_if_allowed() -> None:
    logits = draw(2, 3)
    before = logits.copy()
    _, pullback = nn.cross_entropy(logits, np.array([1, 2]))
    assert (logits == before).all()
    _, over = nn.cross_entropy(logits, np.array([1, 2]), overwrite=True)
    assert over(1.0)[0] is logits
    assert (pullback(1.0)[0] == logits).all()


@pytest.mark.parametrize("smoothing", [-1.0, 1.5, float("nan")])
def test_smoothing_is_between_0_and_1(smoothing: float) -> None:
    arguments = draw(2, 3), np.array([0, 1])
    with pytest.raises(ValueError, match="smoothing must be"):
        nn.cross_entropy(*arguments, smoothing=smoothing)
    with pytest.raises(ValueError, match="smoothing must be"):
        nn.linear_cross_entropy(arguments[0], draw(4, 3), arguments[1], smoothing=smoothing)


@pytest.mark.parametrize("ids", [[-1], [3], [0, 7, 1]])
def test_ids_out_of_range_are_rejected_before_any_computation(ids: list[int]) -> None:
    with pytest.raises(ValueError, match="ids must be"):
        nn.embed(draw(3, 4), np.array(ids))
    with pytest.raises(TypeError, match="ids must hold integers"):
        nn.embed(draw(3, 4), np.array([0.5]))


@pytest.mark.parametrize("size", [1, 3, 20])
def test_adam_rejects_a_gradient_of_another_length(size: int) -> None:
    parameters = np.ones(300, np.float32)
    adam = nn.Adam(parameters)
    with pytest.raises(ValueError, match=rf"gradient must have shape \(300,\). Got \({size},\) instead"):
        adam.step(np.ones(size, np.float32), 0.1)
    assert adam.steps == 0
    assert (parameters == 1).all()


def test_divergence_is_the_formula() -> None:
    p, q = draw(4, 5), draw(4, 5)
    exact_p, exact_q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (p, q))
    expected = scipy.special.rel_entr(exact_p, exact_q) + scipy.special.rel_entr(exact_q, exact_p)
    loss, _ = nn.divergence(p + 300, q - 700)  # a constant in all logits changes nothing
    assert loss == pytest.approx(expected.sum() / 4, rel=1e-9)
    assert nn.check_gradients(nn.divergence, [p, q]) < 1e-6


def test_divergence_of_equal_or_no_predictions() -> None:
    p = draw(3, 4)
    loss, pullback = nn.divergence(p, p.copy())
    assert loss == 0
    assert all((g == 0).all() for g in pullback())
    assert nn.divergence(p[:0], p[:0])[0] == 0
    with pytest.raises(
        ValueError, match=r"p and q must both be \(N, V\). Got shapes \(3, 4\) and \(3, 3\) instead."
    ):
        nn.divergence(p, p[:, :3])


def test_adam_is_the_formula() -> None:
    parameters = np.array([1.0, -2.0])
    adam = nn.Adam(parameters, beta1=0.5, beta2=0.75, epsilon=0.0, clip=10.0)
    adam.step(np.array([2.0, 4.0]), 0.1)
    # the first step is of length `rate` everywhere
    np.testing.assert_allclose(parameters, [0.9, -2.1], rtol=1e-12)
    adam.step(np.array([0.0, 4.0]), 0.1)
    # m = 0.5 * 1 + 0 = 0.5, / 0.75; v = 0.75 * 1 + 0 = 0.75, / (1 - 0.75^2)
    np.testing.assert_allclose(parameters[0], 0.9 - 0.1 * (0.5 / 0.75) / np.sqrt(0.75 / 0.4375), rtol=1e-12)
    np.testing.assert_allclose(parameters[1], -2.2, rtol=1e-12)


def test_adam_clips() -> None:
    one, two = np.zeros(2), np.zeros(2)
    long, short = nn.Adam(one, epsilon=1.0, clip=1.0), nn.Adam(two, epsilon=1.0, clip=1.0)
    assert long.step(np.array([30.0, 40.0]), 1.0) == 50.0
    assert short.step(np.array([0.6, 0.8]), 1.0) == pytest.approx(1.0)
    np.testing.assert_allclose(one, two, rtol=1e-12)


def test_adam_rejects_non_finite_gradients() -> None:
    parameters = np.ones(2)
    assert np.isnan(nn.Adam(parameters).step(np.array([np.nan, 0.0]), 1.0))
    assert parameters.tolist() == [1.0, 1.0]


def test_check_gradients_finds_a_wrong_one() -> None:
    with pytest.raises(AssertionError, match=r"^gradient of array 1 \(2,\): .*, finite differences give .*"):
        nn.check_gradients(lambda a, b: (a * b, lambda d: (d * b, d * a * 1.001)), [draw(2), draw(2)])


def test_check_gradients_checks_its_arrays() -> None:
    with pytest.raises(ValueError) as caught:
        nn.check_gradients(nn.tanh, [np.ones(2, np.float32)])
    assert str(caught.value) == "arrays must be float64. Array 0 is float32 instead."
    with pytest.raises(ValueError) as caught:
        nn.check_gradients(lambda x: (x, lambda d: (d[:1],)), [np.ones(2)])
    assert str(caught.value) == "gradients must have the shapes of their arrays."


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes", [(0, 1, 2, 3), (2, 0, 2, 3), (2, 1, 0, 3), (2, 2, 2, 0), (0, 0, 0, 0)], ids=str
)
def test_sequences_of_size_0(sizes: tuple[int, ...], kind: Any) -> None:
    T, B, E, H = sizes
    for gates, layer in ((3, nn.gru), (4, nn.lstm)):
        for K in (1, 2):
            shapes = (T, B, E), (E, K, gates * H), (K, gates * H), (K, H, gates * H)
            states, pullback = layer(*(np.ones(shape, kind) for shape in shapes))  # type: ignore[operator]
            assert tuple(x.shape for x in pullback(np.ones_like(states))) == shapes


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 0, 3), (2, 3)], ids=str)
@pytest.mark.parametrize("hidden", [0, 4])
def test_linear_maps_of_size_0(shape: tuple[int, ...], hidden: int) -> None:
    d = shape[-1]
    shapes = shape, (d, hidden), (hidden,), (hidden, 2), (2,)
    y, pullback = nn.perceptron(*(np.ones(s) for s in shapes))
    assert tuple(x.shape for x in pullback(np.ones_like(y))) == shapes
    y, of_linear = nn.linear(*(np.ones(s) for s in shapes[:3]))
    assert tuple(x.shape for x in of_linear(np.ones_like(y))) == shapes[:3]


def test_a_seed_is_equivalent_to_a_generator() -> None:
    x = np.ones(100)
    for rng in (7, np.int64(7), np.random.SeedSequence(7), np.random.default_rng(7)):
        np.testing.assert_array_equal(
            nn.dropout(x, 0.5, rng)[0], nn.dropout(x, 0.5, np.random.default_rng(7))[0]
        )

    def square(x: Any) -> tuple[Any, Any]:
        return x * x, lambda dy: (2 * x * dy,)

    errors = [nn.check_gradients(square, [x], rng=rng) for rng in (3, np.random.default_rng(3))]
    assert errors[0] == errors[1]
    assert nn.check_gradients(square, [x], rng=None) != errors[0]


@pytest.mark.parametrize("rng", [True, "1", 1.0])
def test_invalid_seeds(rng: Any) -> None:
    text = f"rng must be an integer, a numpy.random.Generator or None. Got {type(rng).__name__} instead."
    for call in (
        lambda: nn.dropout(np.ones(2), 0.5, rng),
        lambda: nn.check_gradients(nn.tanh, [np.ones(2)], rng=rng),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert str(caught.value) == text
    with pytest.raises(ValueError, match="rng must be at least 0"):
        nn.dropout(np.ones(2), 0.5, -1)
