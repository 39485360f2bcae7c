"""Gradients against finite differences in float64, and against autograd, an independent implementation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import strategies
from numpy.typing import NDArray
from strategies import BATCH, HEADS, KEY_HEADS, SMOOTH_OPTIONS, OffByOne, case

import regard

Array = NDArray[np.float64]
Build = Callable[[dict[str, Array]], dict[str, Any]]  # learned arrays -> options


def numbers(seed: int, *shape: int) -> Array:
    """Normal float64 numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


def slope(f: Callable[[Array], float], at: Array, step: float = 1e-6) -> Array:
    """Central differences of f, entry by entry."""
    result = np.empty(at.shape)
    for index in np.ndindex(*at.shape):
        up, down = at.copy(), at.copy()
        up[index] += step
        down[index] -= step
        result[index] = (f(up) - f(down)) / (2 * step)
    return result


def assert_gradients_are_slopes(
    named: dict[str, Array], build: Build, gradients: dict[str, Array], dcontext: Array
) -> None:
    """Compare every gradient with the slope of sum(dcontext * context) of the definition `attend`."""

    def loss(changed: dict[str, Array]) -> float:
        arrays = changed["queries"], changed["keys"], changed["values"]
        return float(np.sum(dcontext * regard.attend(*arrays, **build(changed)).context))

    assert set(gradients) == set(named)
    for name, at in named.items():
        expected = slope(lambda x, name=name: loss(named | {name: x}), at)  # type: ignore[misc]
        assert gradients[name].shape == at.shape, name
        np.testing.assert_allclose(gradients[name], expected, rtol=1e-6, atol=2e-8, err_msg=name)


def pull(named: dict[str, Array], build: Build, dcontext: Array) -> dict[str, Array]:
    """The gradients that attention_vjp gives, under the names in `named`."""
    context, pullback = regard.attention_vjp(named["queries"], named["keys"], named["values"], **build(named))
    assert context.shape == dcontext.shape
    gradients = pullback(dcontext)
    result = {"queries": gradients.queries, "keys": gradients.keys, "values": gradients.values}
    if "bias" in named:
        result["bias"] = gradients.bias
    return result | dict(gradients.score or {}) | dict(gradients.normalize or {})


def check(
    build: Build, learned: dict[str, Array] | None = None, n: int = 4, m: int = 5, d: int = 3, dk: int = 0
) -> None:
    """Check all gradients with grouped heads: 2 query heads on 1 stored key head."""
    named = {
        "queries": numbers(1, 2, n, d),
        "keys": numbers(2, 1, m, dk or d),
        "values": numbers(3, 1, m, 2),
        **(learned or {}),
    }
    dcontext = numbers(4, 2, n, 2)
    assert_gradients_are_slopes(named, build, pull(named, build, dcontext), dcontext)


# ---- scores --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["scaled_dot", "dot"])
def test_dot(score: str) -> None:
    check(lambda a: {"score": score})


@pytest.mark.parametrize("sharpness", [np.asarray(2.5), np.array([0.5, 1.0, 2.0, -3.0])])
def test_cosine(sharpness: Array) -> None:
    check(lambda a: {"score": regard.scores.cosine(a["sharpness"])}, {"sharpness": sharpness})


def test_general_with_different_sizes() -> None:
    check(lambda a: {"score": regard.scores.general(a["weight"])}, {"weight": numbers(5, 3, 4)}, dk=4)


def test_additive_with_different_sizes() -> None:
    learned = {
        "query_weight": numbers(5, 3, 6),
        "key_weight": numbers(6, 4, 6),
        "vector": numbers(7, 6),
        "bias_": numbers(8, 6),
    }

    def build(a: dict[str, Array]) -> dict[str, Any]:
        return {"score": regard.scores.additive(a["query_weight"], a["key_weight"], a["vector"], a["bias_"])}

    named = {
        "queries": numbers(1, 2, 4, 3),
        "keys": numbers(2, 1, 5, 4),
        "values": numbers(3, 1, 5, 2),
        **learned,
    }
    dcontext = numbers(4, 2, 4, 2)
    gradients = pull(named, build, dcontext)
    gradients["bias_"] = gradients.pop("bias")
    assert_gradients_are_slopes(named, build, gradients, dcontext)


@pytest.mark.parametrize("projected", ["queries", "keys", "both"])
def test_additive_with_projections_left_out(projected: str) -> None:
    learned = {"vector": numbers(7, 3)}
    if projected == "queries":
        learned["key_weight"] = numbers(6, 3, 3)
    if projected == "keys":
        learned["query_weight"] = numbers(5, 3, 3)
    check(
        lambda a: {"score": regard.scores.additive(a.get("query_weight"), a.get("key_weight"), a["vector"])},
        learned,
    )


def test_concat_with_different_sizes() -> None:
    learned = {"weight": numbers(5, 7, 6), "vector": numbers(6, 6)}
    check(lambda a: {"score": regard.scores.concat(a["weight"], a["vector"])}, learned, dk=4)


def test_location() -> None:
    check(lambda a: {"score": regard.scores.location(a["weight"])}, {"weight": numbers(5, 3, 6)})


def test_gaussian() -> None:
    check(lambda a: {"score": regard.scores.gaussian(float(a["width"]))}, {"width": np.asarray(1.3)})


def test_a_score_object_of_the_users() -> None:
    check(lambda a: {"score": strategies.Manhattan(a["sharpness"])}, {"sharpness": np.asarray(0.7)})


def test_a_plain_function_has_no_gradient_and_raises() -> None:
    with pytest.raises((ValueError, TypeError), match="vjp"):
        regard.attention_vjp(numbers(1, 3, 2), numbers(2, 4, 2), numbers(3, 4, 1), score=strategies.manhattan)


# ---- what comes between score and step two -------------------------------------------------------------------

BIAS_SHAPES = [(4, 5), (2, 4, 5), (1, 4, 5), (1, 5), (5,), (4, 1), (2, 1, 1), (), (1, 1)]


@pytest.mark.parametrize("shape", BIAS_SHAPES)
def test_bias_of_any_shape_that_broadcasts(shape: tuple[int, ...]) -> None:
    check(lambda a: {"bias": a["bias"]}, {"bias": np.asarray(numbers(5, *shape))})


@pytest.mark.parametrize(
    "options", [{"scale": 0.4}, {"scale": -1.2}, {"softcap": 0.7}, {"scale": 2.0, "softcap": 1.5}]
)
def test_scale_and_softcap(options: dict[str, float]) -> None:
    check(lambda a: dict(options))


def test_softcap_with_bias_and_mask() -> None:
    mask = np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 1, 0, 1]], bool)
    check(lambda a: {"bias": a["bias"], "mask": mask, "softcap": 0.8}, {"bias": numbers(5, 4, 5)})


MASKS: dict[str, Callable[[], Any]] = {
    "causal start": lambda: regard.mask.causal(align="start"),
    "causal end": lambda: regard.mask.causal(align="end"),
    "window": lambda: regard.mask.window(1, 0, align="start"),
    "lengths": lambda: regard.mask.lengths(np.array([3, 0])),
    "query lengths": lambda: regard.mask.lengths(np.array([3, 5]), np.array([2, 4])),
    "documents": lambda: regard.mask.documents(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0, 0])),
    "prefix": lambda: regard.mask.prefix(2, align="start"),
    "composed": lambda: ~regard.mask.causal(align="start") | regard.mask.lengths(np.asarray(1)),
    "array": lambda: np.arange(40).reshape(2, 4, 5) % 3 != 1,
}


@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask: str) -> None:
    check(lambda a: {"mask": MASKS[mask]()})


def test_t5_buckets_do_not_prevent_other_gradients() -> None:
    table = numbers(5, 4, 2)
    build: Build = lambda a: {"bias": regard.position.t5_buckets(table, align="start")}  # noqa: E731
    named = {"queries": numbers(1, 2, 4, 3), "keys": numbers(2, 1, 5, 3), "values": numbers(3, 1, 5, 2)}
    dcontext = numbers(4, 2, 4, 2)
    gradients = pull(named, build, dcontext)
    assert_gradients_are_slopes(named, build, {k: gradients[k] for k in named}, dcontext)


# ---- step two ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalize", ["sparsemax", "entmax15"])
def test_sparse_step_two(normalize: str) -> None:
    check(lambda a: {"normalize": normalize, "scale": 0.6})
    check(lambda a: {"normalize": normalize, "scale": 2.0})


@pytest.mark.parametrize("alpha", [1.1, 1.75, 2.5])
def test_entmax_of_any_alpha(alpha: float) -> None:
    check(lambda a: {"normalize": regard.weights.entmax(alpha), "scale": 0.6})


@pytest.mark.parametrize("normalize", [regard.weights.sigmoid(), regard.weights.relu()])
def test_weights_that_keys_have_alone(normalize: Any) -> None:
    check(lambda a: {"normalize": normalize})


def test_what_a_normalization_learns() -> None:
    check(lambda a: {"normalize": regard.weights.sigmoid(float(a["bias"]))}, {"bias": np.array(-0.4)})
    check(lambda a: {"normalize": OffByOne(a["sharpness"])}, {"sharpness": np.array(0.7)})


def test_what_a_normalization_learns_without_keys_is_0() -> None:
    _, pullback = regard.attention_vjp(
        np.ones((2, 1)), np.ones((0, 1)), np.ones((0, 1)), normalize=regard.weights.sigmoid(0.5)
    )
    assert pullback(np.ones((2, 1))).normalize == {"bias": 0}


@pytest.mark.parametrize("align", ["start", "end"])
def test_local_m(align: str) -> None:
    check(lambda a: {"normalize": regard.weights.local_m(1, align=align)})


def test_local_p_with_its_positions() -> None:
    positions = np.array([[0.3, 1.6, 2.2, 3.9], [4.2, 2.6, 0.1, 1.9]])
    check(lambda a: {"normalize": regard.weights.local_p(a["positions"], 2.0)}, {"positions": positions})


def test_local_p_with_positions_that_heads_share() -> None:
    positions = np.array([0.3, 1.6, 2.2, 3.9])
    check(lambda a: {"normalize": regard.weights.local_p(a["positions"], 1.5)}, {"positions": positions})


def test_hard_passes_gradients_to_the_picked_values_alone() -> None:
    q, k, v = np.array([[1.0], [-1.0]]), np.array([[1.0], [2.0], [3.0]]), numbers(3, 3, 2)
    context, pullback = regard.attention_vjp(q, k, v, normalize="hard")
    np.testing.assert_array_equal(context, v[[2, 0]])
    gradients = pullback(np.array([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_array_equal(gradients.values, [[3, 4], [0, 0], [1, 2]])
    assert not gradients.queries.any()
    assert not gradients.keys.any()


# ---- shapes and sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query_lead", "key_lead", "value_lead"),
    [
        ((), (), ()),
        ((3,), (), ()),
        ((), (3,), (3,)),
        ((2, 4), (2, 2), (2, 2)),
        ((2, 4), (2, 1), (2, 2)),
        ((2, 4), (1, 2), (2, 1)),
        ((4,), (2, 2), (2,)),
        ((1, 4), (3, 1), (1, 1)),
        ((2, 6), (2, 3), (1, 3)),
    ],
)
def test_leading_dimensions_that_broadcast_and_grouped_heads(
    query_lead: tuple[int, ...], key_lead: tuple[int, ...], value_lead: tuple[int, ...]
) -> None:
    named = {
        "queries": numbers(1, *query_lead, 2, 3),
        "keys": numbers(2, *key_lead, 3, 3),
        "values": numbers(3, *value_lead, 3, 2),
    }
    dcontext = numbers(4, *regard.attend(*named.values()).context.shape)
    build: Build = lambda a: {}  # noqa: E731
    assert_gradients_are_slopes(named, build, pull(named, build, dcontext), dcontext)


def directional(name: str, n: int, m: int, step: float) -> tuple[float, float]:
    """The slope of sum(dcontext * context) along one random direction: by differences, and by the gradients."""
    c = case(name, np.float64, n=n, m=m, seed=3)
    dcontext = numbers(4, BATCH, HEADS, n, 3)
    _, pullback = regard.attention_vjp(*c.arrays, **c.option.regard)
    gradients = pullback(dcontext)
    directions = [numbers(10 + i, *x.shape) for i, x in enumerate(c.arrays)]
    by_gradient = sum(float(np.sum(g * u)) for g, u in zip(gradients[:3], directions, strict=True))

    def loss(t: float) -> float:
        moved = [x + t * u for x, u in zip(c.arrays, directions, strict=True)]
        return float(np.sum(dcontext * regard.attend(*moved, **c.option.regard).context))

    return (loss(step) - loss(-step)) / (2 * step), by_gradient


@pytest.mark.parametrize("name", SMOOTH_OPTIONS)
def test_every_option_along_a_random_direction(name: str) -> None:
    by_difference, by_gradient = directional(name, n=7, m=9, step=1e-6)
    assert math.isclose(by_gradient, by_difference, rel_tol=2e-6, abs_tol=2e-6), (by_gradient, by_difference)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in SMOOTH_OPTIONS if not name.startswith(("score-object", "mask-nothing"))]
)
def test_every_option_across_many_blocks(name: str) -> None:
    # So short that of so many logits none passes a kink of the normalisation.
    by_difference, by_gradient = directional(name, n=250, m=1100, step=1e-8)
    assert math.isclose(by_gradient, by_difference, rel_tol=2e-5, abs_tol=1e-4), (by_gradient, by_difference)


def test_half_precision_gradients_come_back_in_half_precision() -> None:
    c = case("default", np.float16)
    _, pullback = regard.attention_vjp(*c.arrays)
    gradients = pullback(np.ones((BATCH, HEADS, 7, 3), np.float16))
    assert {x.dtype for x in gradients[:3]} == {np.dtype(np.float16)}
    assert gradients.keys.shape == (BATCH, KEY_HEADS, 9, 4)


def test_the_pullback_is_linear_and_can_be_called_again() -> None:
    c = case("default", np.float64)
    _, pullback = regard.attention_vjp(*c.arrays)
    a, b = numbers(1, BATCH, HEADS, 7, 3), numbers(2, BATCH, HEADS, 7, 3)
    once, twice = pullback(a), pullback(a)
    both = pullback(a + b)
    other = pullback(b)
    for x, y, z, w in zip(once[:3], twice[:3], both[:3], other[:3], strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_allclose(x + w, z, rtol=1e-12, atol=1e-13)


# ---- autograd, the independent party --------------------------------------------------------------------------


def independent(score: str, normalize: str, np_: Any) -> Callable[..., Any]:
    """Attention written for autograd: queries, keys, values, bias, and three learned arrays."""

    def scores(q: Any, k: Any, w: Any, u: Any, v: Any) -> Any:
        if score == "dot":
            return np_.einsum("hnd,hmd->hnm", q, k)
        if score == "general":
            return np_.einsum("hnd,dc,hmc->hnm", q, w, k)
        if score == "additive":
            hidden = np_.einsum("hnd,dc->hnc", q, w)[:, :, None] + np_.einsum("hmd,dc->hmc", k, u)[:, None]
            return np_.einsum("hnmc,c->hnm", np_.tanh(hidden), v)
        if score == "gaussian":
            return -0.5 * np_.sum((q[:, :, None] - k[:, None]) ** 2, axis=-1) / 1.44
        unit_q, unit_k = (x / np_.sqrt(np_.sum(x**2, axis=-1, keepdims=True)) for x in (q, k))
        return 1.7 * np_.einsum("hnd,hmd->hnm", unit_q, unit_k)

    def weights(z: Any) -> Any:
        if (
            normalize == "sparsemax"
        ):  # the support is determined by numbers; the formula on it is differentiated
            support = np.asarray(regard.weights.sparsemax(getattr(z, "_value", z))) > 0
            count = support.sum(axis=-1, keepdims=True)
            tau = (np_.sum(np_.where(support, z, 0.0), axis=-1, keepdims=True) - 1) / count
            return np_.where(support, z - tau, 0.0)
        powers = np_.exp(z - np_.max(z, axis=-1, keepdims=True))
        return powers / np_.sum(powers, axis=-1, keepdims=True)

    def loss(q: Any, k: Any, values: Any, bias: Any, w: Any, u: Any, v: Any, dcontext: Any) -> Any:
        repeat = np.repeat(np.arange(k.shape[0]), q.shape[0] // k.shape[0])  # grouped heads
        x = scores(q, k[repeat], w, u, v) * 0.9
        x = 1.3 * np_.tanh(x / 1.3) + bias
        x = np_.where(np.tri(q.shape[1], k.shape[1], 1, dtype=bool), x, -1e30)
        return np_.sum(np_.einsum("hnm,hme->hne", weights(x), values[repeat]) * dcontext)

    return loss


@pytest.mark.parametrize("normalize", ["softmax", "sparsemax"])
@pytest.mark.parametrize("score", ["dot", "general", "additive", "gaussian", "cosine"])
def test_against_autograd(score: str, normalize: str) -> None:
    autograd = pytest.importorskip("autograd", reason="autograd is in the development extra")
    anp = pytest.importorskip("autograd.numpy")
    q, k, values, bias = numbers(1, 4, 6, 3), numbers(2, 2, 7, 3), numbers(3, 2, 7, 2), numbers(4, 4, 6, 7)
    w, u, v, dcontext = numbers(5, 3, 3), numbers(6, 3, 3), numbers(7, 3), numbers(8, 4, 6, 2)
    loss = independent(score, normalize, anp)
    dq, dk, dvalues, dbias, dw, du, dv = autograd.grad(loss, argnum=tuple(range(7)))(
        q, k, values, bias, w, u, v, dcontext
    )
    objects = {
        "dot": "dot",
        "general": regard.scores.general(w),
        "additive": regard.scores.additive(w, u, v),
        "gaussian": regard.scores.gaussian(1.2),
        "cosine": regard.scores.cosine(1.7),
    }
    _, pullback = regard.attention_vjp(
        q,
        k,
        values,
        score=objects[score],
        scale=0.9,
        softcap=1.3,
        bias=bias,
        mask=regard.mask.window(None, 1, align="start"),
        normalize=normalize,
    )
    gradients = pullback(dcontext)
    expected = {"queries": dq, "keys": dk, "values": dvalues, "bias": dbias}
    learned = {"general": {"weight": dw}, "additive": {"query_weight": dw, "key_weight": du, "vector": dv}}
    for name, gradient in expected.items():
        np.testing.assert_allclose(getattr(gradients, name), gradient, rtol=1e-10, atol=1e-12, err_msg=name)
    for name, gradient in learned.get(score, {}).items():
        np.testing.assert_allclose(gradients.score[name], gradient, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("learned", "make"),
    [
        (numbers(5, HEADS) ** 2, lambda slopes: regard.position.alibi(slopes, align="end")),
        pytest.param(
            numbers(6, 8, HEADS),
            lambda table: regard.position.t5_buckets(table, max_distance=6, align="end"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            numbers(7, 8, HEADS),
            lambda table: regard.position.t5_buckets(table, bidirectional=False, max_distance=9, align="end"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["alibi", "t5", "t5 of a decoder"],
)
def test_gradients_of_bias_objects(learned: Array, make: Callable[[Array], Any]) -> None:
    named = {
        "queries": numbers(1, BATCH, HEADS, 4, 3),
        "keys": numbers(2, BATCH, KEY_HEADS, 9, 3),
        "values": numbers(3, BATCH, KEY_HEADS, 9, 2),
        "bias": learned,
    }
    dcontext = numbers(4, BATCH, HEADS, 4, 2)

    def build(changed: dict[str, Array]) -> dict[str, Any]:
        return {"bias": make(changed["bias"])}

    assert_gradients_are_slopes(named, build, pull(named, build, dcontext), dcontext)


@pytest.mark.parametrize("normalize", ["softmax", "entmax15", "sparsemax"])
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_the_backward_pass_gives_no_warning(kernel: str, normalize: str) -> None:
    values = np.array([[[np.inf], [1.0]]])  # shared by two items, whose gradients are +inf and -inf
    keys = np.array([[[1.0], [2.0]]])
    _, pullback = regard.attention_vjp(np.ones((2, 1, 1)), keys, values, kernel=kernel, normalize=normalize)
    pullback(np.array([[[1.0]], [[-1.0]]]))


def assert_fewer_change_nothing(name: str, kernel: str, sizes: tuple[int, int, int, int]) -> None:
    """Compare the gradients of each subset of the inputs with those of all, bit by bit."""
    c = case(name, np.float64, *sizes)
    dcontext = numbers(4, BATCH, HEADS, sizes[0], sizes[3])
    every = regard.attention_vjp(*c.arrays, kernel=kernel, **c.option.regard)[1](dcontext)
    for wanted in [("queries", "keys"), ["values"], "keys", ()]:
        options = {"wanted": wanted, "kernel": kernel, **c.option.regard}
        some = regard.attention_vjp(*c.arrays, **options)[1](dcontext)
        for field, whole in every._asdict().items():
            part = getattr(some, field)
            if field in ("queries", "keys", "values") and field not in wanted:
                assert part is None, (wanted, field)
            else:
                np.testing.assert_equal(part, whole, err_msg=f"{wanted} {field}")


@pytest.mark.parametrize("name", SMOOTH_OPTIONS)
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_fewer_gradients_are_bitwise_those_of_all(kernel: str, name: str) -> None:
    assert_fewer_change_nothing(name, kernel, (7, 9, 4, 3))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_fewer_gradients_of_several_parts_and_blocks(kernel: str) -> None:
    for sizes in [(140, 133, 17, 9), (3, 1100, 2, 66), (0, 3, 2, 2), (4, 0, 2, 2)]:
        assert_fewer_change_nothing("default", kernel, sizes)
        assert_fewer_change_nothing("mask-array-and-bias", kernel, sizes)
