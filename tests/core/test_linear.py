"""Linear attention: chunks, a loop over positions and the masked product are one function; its state; its gradients."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from errors import assert_raises, transcript
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import regard
from regard import linear, nn

Array = NDArray[Any]
RULES = ["linear", "gated", "gated by rows", "delta", "gated_delta", "gated_delta by rows"]
every_rule = pytest.mark.parametrize("name", RULES)


def case(name: str, n: int, seed: int = 0, lead: tuple[int, ...] = (2, 3), d: int = 5, e: int = 4) -> Any:
    """Queries, keys (of length 1) and values, and the options of a rule, with a state."""
    rng = np.random.default_rng(seed)
    rule = name.split()[0]
    q, k, v = (rng.normal(size=(*lead, n, size)) for size in (d, d, e))
    options: dict[str, Any] = {"rule": rule, "state": rng.normal(size=(*lead, d, e))}
    if "gated" in rule:
        options["decay"] = -rng.exponential(size=(*lead, n, d if "rows" in name else 1))
    if "delta" in rule:
        options["beta"] = rng.random((*lead, n))
    return (q, k / np.linalg.norm(k, axis=-1, keepdims=True), v), options


def step_by_step(
    q: Array, k: Array, v: Array, state: Any = 0.0, decay: Any = None, beta: Any = None, **_: Any
) -> tuple[Array, Array, Array]:
    """The rules as they are written: contexts, the last state, and what was written."""
    state, scale = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1])) + state, q.shape[-1] ** -0.5
    contexts, written = np.zeros(v.shape), np.zeros(v.shape)
    with np.errstate(all="ignore"):
        for t in range(q.shape[-2]):
            if decay is not None:
                factor = np.exp(decay[..., t, :, None])
                state = np.where(factor == 0, 0, factor * state)
            written[..., t, :] = v[..., t, :]
            if beta is not None:
                recalled = np.sum(k[..., t, :, None] * state, -2)
                written[..., t, :] = beta[..., t, None] * (v[..., t, :] - recalled)
            state = state + k[..., t, :, None] * written[..., t, None, :]
            contexts[..., t, :] = scale * np.sum(q[..., t, :, None] * state, -2)
    return contexts, state, written


def allowance(k: Array, written: Array, options: Any, dtype: Any) -> Array:
    """The budget of docs/design.md for each row of the state after each position: (..., n, e).

    The state before the first position counts as written by keys of length 1.
    """
    n, d = k.shape[-2:]
    repeats = n if "delta" in options["rule"] else 1
    sizes = np.cumsum(np.linalg.norm(k, axis=-1)[..., None] * np.abs(written), -2)
    sizes = sizes + np.abs(options["state"]).sum(-2)[..., None, :]
    return np.asarray(float(np.finfo(dtype).eps) * (d + 2 * n + 4) * repeats * sizes)


@every_rule
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "chunk"), [(1, 64), (7, 3), (70, 64), (40, 200)])
def test_chunks_are_a_loop_over_positions(name: str, dtype: Any, n: int, chunk: int) -> None:
    arrays, options = case(name, n)
    rounded = [x.astype(dtype) for x in arrays]
    options |= {key: options[key].astype(dtype) for key in ("state", "decay", "beta") if key in options}
    context, state = linear.attention(*rounded, **options, chunk=chunk)
    exact = {key: x.astype(np.float64) if isinstance(x, np.ndarray) else x for key, x in options.items()}
    q, k, v = (x.astype(np.float64) for x in rounded)
    expected, last, written = step_by_step(q, k, v, **exact)
    allowed = allowance(k, written, exact, dtype)
    assert context.dtype == state.dtype == dtype
    assert np.all(np.abs(state - last) <= allowed[..., -1:, :])
    assert np.all(np.abs(context - expected) <= np.linalg.norm(q, axis=-1)[..., None] * 5**-0.5 * allowed)


@pytest.mark.parametrize("name", ["linear", "gated"])
def test_the_masked_product(name: str) -> None:
    (q, k, v), options = case(name, 70)
    options["state"] = 0.0
    sums = np.cumsum(options.get("decay", np.zeros((70, 1))), -2)
    with np.errstate(over="ignore"):
        weights = np.tril(q @ k.mT * np.exp(np.minimum(sums - sums.mT, 0))) / 5**0.5
    context, _ = linear.attention(q, k, v, **options)
    np.testing.assert_allclose(context, weights @ v, rtol=0, atol=1e-13)


def test_a_denominator_as_a_column_of_ones() -> None:
    """Katharopoulos et al.: softmax with another kernel, phi(q) . phi(k), which is exp(log(...))."""
    (q, k, v), _ = case("linear", 9)

    def log_kernel(queries: Array, keys: Array) -> Array:
        phi = [np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (queries, keys)]
        return np.asarray(np.log(phi[0] @ phi[1].mT))

    ones = np.ones((*v.shape[:-1], 1))
    context, _ = linear.attention(q, k, np.concatenate([v, ones], -1), feature="elu")
    expected = regard.attend(q, k, v, score=log_kernel, mask=regard.mask.causal()).context
    np.testing.assert_allclose(context[..., :-1] / context[..., -1:], expected, rtol=1e-12)


def test_the_delta_rule_by_hand() -> None:
    """Keys e1, e1: at rate 1/2 the value 8 gives 4, then 4 + (2 - 4) / 2 = 3; factors 1/2 halve it before."""
    keys, values = [[1.0], [1.0]], [[8.0], [2.0]]
    context, state = linear.attention(keys, keys, values, rule="delta", beta=0.5)
    np.testing.assert_array_equal(context, [[4.0], [3.0]])
    np.testing.assert_array_equal(state, [[3.0]])
    context, _ = linear.attention(keys, keys, values, rule="gated_delta", beta=0.5, decay=-np.log(2))
    np.testing.assert_allclose(context, [[4.0], [2.0]], rtol=1e-15)  # 2 + (2 - 2) / 2


# ---- the state -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=25)
@given(name=st.sampled_from(RULES), cuts=st.lists(st.integers(0, 20), max_size=4), chunk=st.integers(1, 9))
def test_a_sequence_may_be_split_anywhere(name: str, cuts: list[int], chunk: int) -> None:
    arrays, options = case(name, 20, lead=(2,))
    whole, last = linear.attention(*arrays, **options)
    state, contexts = options.pop("state"), []
    for start, stop in pairwise([0, *sorted(cuts), 20]):
        part = {key: x[:, start:stop] if key in ("decay", "beta") else x for key, x in options.items()}
        rows = [x[:, start:stop] for x in arrays]
        context, state = linear.attention(*rows, **part, state=state, chunk=chunk)
        contexts.append(context)
    np.testing.assert_allclose(np.concatenate(contexts, -2), whole, rtol=0, atol=1e-13)
    np.testing.assert_allclose(state, last, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["linear", "gated", "gated by rows"])
def test_states_of_parts_add_up(name: str) -> None:
    arrays, options = case(name, 30)
    options["state"] = 0.0
    _, whole = linear.attention(*arrays, **options)
    total = np.zeros(whole.shape)
    for part in (slice(0, 11), slice(11, 30)):
        cut = {key: x[..., part, :] if key == "decay" else x for key, x in options.items()}
        decay = cut.get("decay", np.zeros((1, 1)))
        total = np.exp(decay.sum(-2))[..., None] * total
        total += linear.attention(*(x[..., part, :] for x in arrays), **cut)[1]
    np.testing.assert_allclose(total, whole, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["delta", "gated_delta by rows"])
def test_the_state_is_an_affine_function_of_the_state_before(name: str) -> None:
    """So parts by a delta rule merge, too: values of 0 and the state I give the matrix of a part."""
    (q, k, v), options = case(name, 12, lead=())
    before = options.pop("state")
    _, expected = linear.attention(q, k, v, **options, state=before)
    _, own_part = linear.attention(q, k, v, **options)
    _, transition = linear.attention(q, k, np.zeros((12, 5)), **options, state=np.eye(5))
    np.testing.assert_allclose(transition @ before + own_part, expected, rtol=0, atol=1e-13)


def peak(call: Any) -> int:
    """The most memory that is allocated during a call, in bytes."""
    call()
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.slow
@every_rule
def test_memory_beyond_the_context_does_not_grow(name: str) -> None:
    """Not by more than a bool for each number that is checked; a state for each chunk would be twice as much."""

    def extra(n: int) -> int:
        arrays, options = case(name, n, lead=(), d=32, e=32)
        return peak(lambda: linear.attention(*arrays, **options)) - arrays[2].nbytes - arrays[0].nbytes

    assert extra(1024) - extra(256) < 768 * (32 + 32) + 8192


def test_a_decay_of_minus_infinity_begins_another_document() -> None:
    (q, k, v), options = case("gated_delta", 30)
    options["decay"][..., 13, :] = -np.inf
    context, state = linear.attention(q, k, v, **options)
    second = {
        "rule": "gated_delta",
        "decay": options["decay"][..., 13:, :],
        "beta": options["beta"][..., 13:],
    }
    expected, last = linear.attention(q[..., 13:, :], k[..., 13:, :], v[..., 13:, :], **second)
    np.testing.assert_allclose(context[..., 13:, :], expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(state, last, rtol=0, atol=1e-13)


# ---- numbers that are not finite -------------------------------------------------------------------------------


@every_rule
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["queries", "keys", "values", "state"])
def test_what_is_not_finite_reaches_what_a_loop_lets_it_reach(name: str, bad: float, where: str) -> None:
    (q, k, v), options = case(name, 20)
    names = {"queries": q, "keys": k, "values": v, "state": options["state"]}
    names[where][0, 1, 3, 2] = bad
    if "decay" in options:
        options["decay"][..., 9, :] = -np.inf
    context, state = linear.attention(q, k, v, **options)
    expected, last, _ = step_by_step(q, k, v, **options)
    np.testing.assert_array_equal(np.isfinite(context), np.isfinite(expected))
    np.testing.assert_array_equal(np.isfinite(state), np.isfinite(last))
    finite = np.isfinite(expected)
    np.testing.assert_allclose(context[finite], expected[finite], rtol=0, atol=1e-12)
    assert finite[0, 1, :3].all() or where == "state"
    assert not finite[0, 1, 3:9].all()
    assert finite[0, 1, 9:].all() or "decay" not in options


def test_products_that_overflow_do_not_reach_what_is_before_them() -> None:
    q, k, v = (
        np.full((3, 2), 1e30, np.float32),
        np.full((3, 2), 1e-30, np.float32),
        np.ones((3, 1), np.float32),
    )
    k[2] = 1e30
    for name in ("linear", "delta"):
        options = {"rule": name, "beta": np.ones(3)} if name == "delta" else {}
        context, _ = linear.attention(q, k, v, **options)
        assert np.isfinite(context[:2]).all()
        assert not np.isfinite(context[2]).any()


def test_a_nan_reaches_the_gradients_of_what_it_meets_alone() -> None:
    (q, k, v), options = case("gated_delta", 20, lead=())
    context, pullback = linear.attention_vjp(q, k, v, **options)
    dcontext = np.ones_like(context[0])
    dcontext[7] = np.nan
    gradients = pullback(dcontext)
    for name in ("queries", "keys", "values"):
        assert np.isfinite(gradients[name][8:]).all(), name
    assert np.isnan(gradients["values"][:8]).all()
    assert np.isnan(gradients["queries"][7]).all()
    assert np.isfinite(gradients["queries"][:7]).all()
    options["decay"][5] = -np.inf
    gradients = linear.attention_vjp(q, k, v, **options)[1](dcontext)
    assert np.isfinite(gradients["values"][:5]).all()
    assert np.isfinite(gradients["state"]).all()


# ---- gradients -------------------------------------------------------------------------------------------------


def slopes(named: dict[str, Array], name: str, loss: Any, step: float = 1e-6) -> Array:
    """Central differences of a loss in each number of an array."""
    result = np.empty(named[name].shape)
    for index in np.ndindex(*result.shape):
        ends = []
        for sign in (1, -1):
            moved = named[name].copy()
            moved[index] += sign * step
            ends.append(loss(named | {name: moved}))
        result[index] = (ends[0] - ends[1]) / (2 * step)
    return result


def assert_gradients(named: dict[str, Array], rest: dict[str, Any]) -> None:
    """Compare all gradients of context and state with differences."""
    rng = np.random.default_rng(5)

    def call(function: Any, arrays: dict[str, Array]) -> Any:
        options = {key: x for key, x in arrays.items() if key not in ("queries", "keys", "values")}
        return function(arrays["queries"], arrays["keys"], arrays["values"], **options, **rest)

    (context, state), pullback = call(linear.attention_vjp, named)
    dcontext, dstate = rng.normal(size=context.shape), rng.normal(size=state.shape)

    def loss(arrays: dict[str, Array]) -> float:
        context, state = call(linear.attention, arrays)
        return float(np.sum(dcontext * context) + np.sum(dstate * state))

    gradients = pullback(dcontext, dstate)
    assert gradients.keys() == named.keys()
    for name, gradient in gradients.items():
        expected = slopes(named, name, loss)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-7, err_msg=name)


@every_rule
@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_gradients(name: str, chunk: int) -> None:
    (q, k, v), options = case(name, 5, lead=(1,), d=3, e=2)
    named = {"queries": q, "keys": k, "values": v, **options}
    assert_gradients(named, {"rule": named.pop("rule"), "chunk": chunk})


def shaped(name: str) -> tuple[dict[str, Array], str]:
    """Arrays whose leading dimensions broadcast, with two query heads for each key head."""
    rng, rule = np.random.default_rng(1), name.split()[0]
    shapes = {"queries": (4, 3, 2), "keys": (1, 2, 3, 2), "values": (2, 1, 3, 2), "state": (2, 2)}
    shapes |= {"decay": (2,) if "rows" in name else ()} if "gated" in rule else {}
    shapes |= {"beta": (2, 1, 1)} if "delta" in rule else {}
    named = {key: np.array(rng.normal(size=shape) / 2) for key, shape in shapes.items()}
    named["queries"] = np.broadcast_to(named["queries"], (2, 4, 3, 2)).copy()
    if "decay" in named:
        named["decay"] = np.array(-np.abs(named["decay"]))
    return named, rule


@every_rule
def test_gradients_have_the_shapes_of_what_broadcasts(name: str) -> None:
    named, rule = shaped(name)
    assert_gradients(named, {"rule": rule})


class Tripled:
    """A feature map of a user's: three times as many numbers."""

    def __call__(self, x: Array) -> tuple[Array, Any]:
        return np.concatenate([x, x**2, np.ones_like(x)], -1), lambda dy: (
            dy[..., : x.shape[-1]] + 2 * x * dy[..., x.shape[-1] : 2 * x.shape[-1]],
        )


@pytest.mark.parametrize(
    "feature", ["elu", "unit", nn.silu, Tripled()], ids=["elu", "unit", "silu", "tripled"]
)
def test_gradients_through_a_feature_map(feature: Any) -> None:
    (q, k, v), _ = case("delta", 4, lead=(1,), d=2, e=2)
    beta = np.full((1, 4), 0.3)
    assert_gradients(
        {"queries": q, "keys": k, "values": v, "beta": beta}, {"rule": "delta", "feature": feature}
    )


def test_a_decay_of_minus_infinity_has_no_gradient() -> None:
    for name in ("gated", "gated_delta by rows"):
        (q, k, v), options = case(name, 6, lead=())
        options["decay"][2] = -np.inf
        (context, state), pullback = linear.attention_vjp(q, k, v, **options)
        gradients = pullback(np.ones_like(context), np.ones_like(state))
        assert (gradients["decay"][2] == 0).all()
        assert (gradients["decay"][:2] != 0).any()
        assert (gradients["state"] != 0).any()


# ---- arrays ----------------------------------------------------------------------------------------------------


def test_query_heads_share_the_state_of_a_key_head() -> None:
    (q, k, v), options = case("gated_delta", 9, lead=(2, 6))
    heads = {key: x[:, ::3] for key, x in options.items() if key != "rule"} | {"rule": "gated_delta"}
    context, state = linear.attention(q, k[:, ::3], v[:, ::3], **heads)
    repeated = {key: np.repeat(x, 3, 1) for key, x in heads.items() if key != "rule"} | {
        "rule": "gated_delta"
    }
    expected, _ = linear.attention(q, np.repeat(k[:, ::3], 3, 1), np.repeat(v[:, ::3], 3, 1), **repeated)
    assert state.shape == (2, 2, 5, 4)
    np.testing.assert_allclose(context, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(0, 3, 2, 2), (2, 0, 2, 2), (2, 3, 0, 2), (2, 3, 2, 0)])
def test_sizes_of_zero(shape: tuple[int, ...]) -> None:
    batch, n, d, e = shape
    for name in RULES:
        arrays, options = case(name, n, lead=(batch,), d=d, e=e)
        (context, state), pullback = linear.attention_vjp(*arrays, **options)
        assert (context.shape, state.shape) == ((batch, n, e), (batch, d, e))
        assert {key: x.shape for key, x in pullback(context).items()} == {
            key: x.shape
            for key, x in (*zip(("queries", "keys", "values"), arrays, strict=True), *options.items())
            if isinstance(x, np.ndarray)
        }


def test_half_precision_and_integers() -> None:
    arrays, options = case("gated", 20)
    halves = [x.astype(np.float16) for x in arrays]
    (context, state), pullback = linear.attention_vjp(*halves, **options)
    assert (context.dtype, state.dtype) == (np.float16, np.float32)
    assert pullback(context)["keys"].dtype == np.float16
    exact = step_by_step(*(x.astype(np.float64) for x in halves), **options)[0]
    np.testing.assert_allclose(context, exact, rtol=2**-10, atol=2**-10)
    context, _ = linear.attention([[1]], [[2]], [[3]])
    assert context.dtype == np.float64


def test_inputs_of_any_layout_are_read_and_never_written() -> None:
    arrays, options = case("gated_delta by rows", 20)
    expected, _ = linear.attention(*arrays, **options)
    turned = [np.asfortranarray(x).astype(">f8") for x in arrays]
    for x in (*turned, options["state"], options["decay"], options["beta"]):
        x.flags.writeable = False
    (context, state), pullback = linear.attention_vjp(*turned, **options)
    pullback(np.ones_like(context), np.ones_like(state))
    np.testing.assert_allclose(context, expected, rtol=0, atol=1e-13)
    for n in (0, 1):
        _, after = linear.attention(*(x[..., :n, :] for x in arrays), state=options["state"])
        assert not np.shares_memory(after, options["state"])


def test_keys_of_a_feature_map_have_length_1() -> None:
    (q, k, v), options = case("delta", 20)
    context, _ = linear.attention(3 * q, 7 * k, v, **options, feature="unit")
    expected, _ = linear.attention(q / np.linalg.norm(q, axis=-1, keepdims=True), k, v, **options)
    np.testing.assert_allclose(context, expected, rtol=0, atol=1e-13)


# ---- errors ----------------------------------------------------------------------------------------------------

ERRORS = """\
rule="gatted", decay=-o(5, 1)
    ValueError: rule must be one of 'linear', 'gated', 'delta', 'gated_delta'. Got 'gatted' instead.
      hint: did you mean 'gated'?
rule="gated"
    ValueError: rule 'gated' needs decay=.
      hint: the rules with decay= are 'gated' and 'gated_delta'
decay=-o(5, 1)
    ValueError: rule 'linear' takes no decay=.
      hint: the rules with decay= are 'gated' and 'gated_delta'
rule="gated", decay=-o(5, 1), beta=o(5)
    ValueError: rule 'gated' takes no beta=.
      hint: the rules with beta= are 'delta' and 'gated_delta'
rule="gated", decay=o(5, 1)
    ValueError: decay must be at most 0. Got 1.0 instead.
      hint: it is the logarithm of a factor: np.log(factor)
rule="gated", decay=-o(5, 3)
    ValueError: decay must broadcast to (..., n, d) = (2, 5, 4). Got shape (5, 3) instead.{shapes}
rule="delta", beta=o(5, 1)
    ValueError: beta must broadcast to (..., n) = (2, 5). Got shape (5, 1) instead.{shapes}
state=o(4, 4)
    ValueError: state must broadcast to (..., d, e) = (2, 4, 3). Got shape (4, 4) instead.{shapes}
chunk=0
    ValueError: chunk must be at least 1. Got 0 instead.
scale="1"
    TypeError: scale must be a number. Got '1' instead.
feature="elo"
    ValueError: feature must be one of 'elu', 'unit'. Got 'elo' instead.
      hint: did you mean 'elu'?
feature=lambda x: (x[..., :2, :], np.copy)
    ValueError: feature(queries) must have shape (..., n, d') = (2, 5, 4). Got (2, 2, 4) instead.
is_causal=True
    TypeError: {function} takes no option 'is_causal'.
      hint: its options are rule, decay, beta, feature, scale, state, chunk
initial_state=o(4, 3)
    TypeError: {function} takes no option 'initial_state'.
      hint: state=
"""
SHAPES = """
  queries (2, 5, 4)        is (..., n, d)
  keys    (2, 5, 4)        is (..., m, d)
  values  (2, 5, 3)        is (..., m, e)"""


def o(*shape: int) -> Array:
    """Ones of this shape."""
    return np.ones(shape)


@pytest.mark.parametrize("function", ["attention", "attention_vjp"])
def test_errors(function: str) -> None:
    for options, text in transcript(ERRORS):
        call = f"linear.{function}(o(2, 5, 4), o(2, 5, 4), o(2, 5, 3), {options})"
        assert_raises(call, text.format(shapes=SHAPES, function=function), globals())


def test_errors_of_arrays_and_gradients() -> None:
    with pytest.raises(ValueError, match=r"queries and keys must share n and d: \(5, 4\) and \(3, 4\)"):
        linear.attention(o(5, 4), o(3, 4), o(3, 2))
    _, pullback = linear.attention_vjp(o(5, 4), o(5, 4), o(5, 2))
    with pytest.raises(ValueError, match=r"dcontext must have shape \(..., n, e\) = \(5, 2\). Got \(2, 5\)"):
        pullback(o(2, 5))
    with pytest.raises(ValueError, match=r"dstate must have shape \(..., d, e\) = \(4, 2\). Got \(2, 4\)"):
        pullback(o(5, 2), o(2, 4))
    _, pullback = linear.attention_vjp(o(5, 4), o(5, 4), o(5, 2), feature=lambda x: (x, lambda dy: (dy[:1],)))
    with pytest.raises(ValueError, match=r"the gradient of queries must have shape \(5, 4\). Got \(1, 4\)"):
        pullback(o(5, 2))
