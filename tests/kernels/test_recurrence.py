"""Recurrences over complete sequences: the library, NumPy and single steps compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from strategies import unaligned

from regard import nn
from regard.kernels import library, recurrence
from regard.seq2seq.networks.recurrent.attention import Encoded
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.fused import fused_decoder
from regard.seq2seq.networks.recurrent.ops import Node, Taped
from regard.seq2seq.networks.recurrent.step import step

Array = NDArray[Any]
pytestmark = pytest.mark.training
SIZES = [
    (1, 1, 1, 1, 1, 1),
    (3, 5, 7, 3, 9, 4),
    (5, 19, 20, 17, 50, 3),
    (2, 9, 49, 33, 65, 2),
]  # T, B, H, A, C, n


def draw(*shape: int, seed: int = 0) -> Array:
    """Numbers of a size that keeps gates from being saturated."""
    random = np.random.default_rng([seed, *shape])
    return random.standard_normal(shape) / max(shape[-2] if len(shape) > 1 else 1, 1) ** 0.5


def gru_arrays(T: int, B: int, H: int, directions: int = 2, E: int = 3) -> list[Array]:
    """The arguments of `nn.gru`, with a state bias."""
    weights = draw(E, directions, 3 * H), draw(directions, 3 * H), draw(directions, H, 3 * H)
    return [draw(T, B, E), *weights, draw(directions, 3 * H, seed=1)]


def attended_arrays(T: int, B: int, H: int, A: int, C: int, n: int, *, twice: bool = False) -> list[Array]:
    """The arguments of `fused_decoder`, with a second step if `twice`."""
    encoder_arrays = draw(B, T, A), draw(B, T, C), draw(H, A), draw(A), draw(C, 3 * H)
    arrays = [draw(n, B, 3 * H), draw(B, H), *encoder_arrays, draw(H, 3 * H)]
    return [*arrays, draw(H, 3 * H, seed=1), draw(3 * H)] if twice else arrays


NAMES = ("query_weight", "attention_vector", "decoder_context", "decoder_state")
NAMES_AFTER = ("decoder_state_after", "decoder_bias_after")


def by_steps(
    inputs: Array,
    start: Array,
    keys: Array,
    values: Array,
    *weights: Array,
    lengths: NDArray[np.int64] | None = None,
) -> tuple[tuple[Array, Array, Array], Callable[..., Any]]:
    """The results of `fused_decoder`, by the steps of training one by one."""
    names = (*NAMES, *NAMES_AFTER)[: len(weights)]
    sizes = {"decoder": start.shape[1], "attention": keys.shape[2]}
    c = RecurrentConfig(1, 1, style="conditional" if len(weights) > 4 else "bahdanau", **sizes)
    counts = np.full(len(keys), keys.shape[1]) if lengths is None else lengths
    p = dict(zip(names, weights, strict=True))
    ops = Taped(p, c, Encoded(start, keys, values, values[:, 0], counts), with_weights=True)
    gates, memory, steps = Node(inputs), (ops.start,), []
    for row in ops.rows(gates):
        steps.append(step(ops, c, row, memory))
        memory = (steps[-1].state,)
    results = [ops.stack(list(nodes)) for nodes in zip(*(each[1:] for each in steps), strict=True)]

    def pullback(*gradients: Array) -> tuple[Array, ...]:
        for node, gradient in zip(results, gradients, strict=False):
            node.add(gradient)
        d, g = ops.backward()
        return gates.summed(), d.start, d.keys, d.values, *(g[name] for name in names)

    states, contexts, attended = (node.value for node in results)
    return (np.concatenate([start[None], states]), contexts, attended), pullback


def skip_without_library() -> None:
    """Leave out an instruction set that has no recurrences."""
    if not recurrence.native_does():
        pytest.skip("NumPy takes the steps of training")


def lengths_of(B: int, most: int) -> NDArray[np.int64]:
    """Lengths from 0 to the most there are."""
    return np.arange(B)[::-1] % (most + 1)


def narrow(arrays: Sequence[Array]) -> list[Array]:
    """The same in float32."""
    return [x.astype(np.float32) for x in arrays]


def all_of_gru(arrays: Sequence[Array], **options: Any) -> list[Array]:
    """States and all gradients."""
    states, pullback = nn.gru(*arrays, **options)
    return [states, *pullback(draw(*states.shape, seed=7).astype(states.dtype))]


def all_of_attended(arrays: Sequence[Array], decoder: Any = fused_decoder, **options: Any) -> list[Array]:
    """States, contexts, weights and all gradients."""
    outputs, pullback = decoder(*arrays, **options)
    cotangents = (draw(*x.shape, seed=7).astype(x.dtype) for x in (outputs[0][1:], *outputs[1:]))
    return [*outputs, *pullback(*cotangents)]


def assert_near(results: Sequence[Array], expected: Sequence[Array], roundings: float = 30) -> None:
    """Compare float32 with float64: a few roundings of the largest number."""
    assert len(results) == len(expected)
    for i, (a, b) in enumerate(zip(results, expected, strict=True)):
        assert a.dtype == np.float32
        assert a.shape == b.shape
        largest = max(np.abs(b).max(initial=0), 1e-3)
        np.testing.assert_allclose(a, b, rtol=0, atol=roundings * 1e-7 * largest, err_msg=str(i))


def assert_same(results: Sequence[Array], expected: Sequence[Array]) -> None:
    """Compare to the bit."""
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- both are the steps done one by one ----------------------------------------------------------------------


def test_gru_sequence_is_its_steps() -> None:
    inputs, start, weight, bias = draw(3, 2, 12), draw(2, 4), draw(4, 12), draw(12)
    states, _ = nn.gru_sequence(inputs, start, weight, bias)
    state = start
    for t in range(3):
        state, _ = nn.gru_step(inputs[t], state @ weight + bias, state)
        np.testing.assert_allclose(states[t], state, rtol=0, atol=1e-14)


# ---- gradients against finite differences --------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [None, [2, 0, 3]])
def test_gradients_of_gru_sequence(lengths: list[int] | None) -> None:
    arrays = [draw(3, 3, 6), draw(3, 2), draw(2, 6), draw(6)]
    assert nn.check_gradients(lambda *a: nn.gru_sequence(*a, lengths=lengths), arrays) < 1e-6
    assert nn.check_gradients(lambda *a: nn.gru_sequence(*a, lengths=lengths), arrays[:3]) < 1e-6


def as_one(arrays: Sequence[Array], lengths: Any) -> tuple[Array, Callable[[Array], Any]]:
    """A decoder with its three outputs in one, for the checker."""
    outputs, pullback = by_steps(*arrays, lengths=lengths)
    parts = outputs[0][1:], outputs[1], outputs[2]

    def back(d: Array) -> Any:
        cuts = np.cumsum([x.shape[-1] for x in parts])[:-1]
        return pullback(*np.split(d, cuts, axis=-1))

    return np.concatenate(parts, axis=-1), back


@pytest.mark.parametrize("twice", [False, True])
@pytest.mark.parametrize("lengths", [None, np.array([2, 0, 4])], ids=str)
def test_gradients_of_unrolled_decoders(lengths: Array | None, twice: bool) -> None:
    arrays = attended_arrays(4, 3, 2, 3, 5, 3, twice=twice)
    assert nn.check_gradients(lambda *a: as_one(a, lengths), arrays) < 1e-6


# ---- the library is NumPy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("limited", [False, True])
def test_gru_of_the_library(isa: str, sizes: tuple[int, ...], limited: bool) -> None:
    T, B, H = sizes[:3]
    for count in (4, 5):
        arrays, options = gru_arrays(T, B, H)[:count], {"lengths": lengths_of(B, T)} if limited else {}
        assert_near(all_of_gru(narrow(arrays), **options), all_of_gru(arrays, **options))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [4, 5])
@pytest.mark.parametrize("lengths", [None, [2, 0, 5]])
def test_gru_without_a_backward_pass(isa: str, dtype: str, count: int, lengths: list[int] | None) -> None:
    arrays = [x.astype(dtype) for x in gru_arrays(5, 3, 20)[:count]]
    states, _ = nn.gru(*arrays, lengths=lengths)
    outputs, pullback = nn.gru(*arrays, lengths=lengths, keep=False)
    assert_same([outputs], [states])
    with pytest.raises(ValueError, match="keep must be True"):
        pullback(states)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("twice", [False, True])
def test_decoders_of_the_library(isa: str, sizes: tuple[int, ...], limited: bool, twice: bool) -> None:
    skip_without_library()
    arrays = attended_arrays(*sizes, twice=twice)
    options = {"lengths": lengths_of(sizes[1], sizes[0])} if limited else {}
    outputs, expected = (
        all_of_attended(narrow(arrays), **options),
        all_of_attended(arrays, by_steps, **options),
    )
    assert_near(outputs, expected, 60 if twice else 30)  # twice as many units, one after the other


def test_large_queries_and_keys(isa: str) -> None:
    skip_without_library()
    arrays = attended_arrays(3, 2, 4, 5, 6, 2)
    arrays[2][0, 1] *= 1e3  # the exponentials of these would be too large
    arrays[4][...] *= 30
    assert_near(all_of_attended(narrow(arrays)), all_of_attended(arrays, by_steps), 200)


def test_huge_gates(isa: str) -> None:
    inputs = np.array([1e30, -1e30, 80, -80, 1e30, -1e30], np.float32).reshape(1, 2, 3)
    states, pullback = nn.gru_sequence(inputs, np.ones((2, 1), np.float32), np.ones((1, 3), np.float32))
    assert np.isfinite(states).all()
    assert all(np.isfinite(g).all() for g in pullback(np.ones_like(states)))
    exact, _ = nn.gru_sequence(inputs.astype(float), np.ones((2, 1)), np.ones((1, 3)))
    np.testing.assert_allclose(states, exact, rtol=1e-6)


# ---- laws ----------------------------------------------------------------------------------------------------


def test_law_2_padding_has_no_influence(isa: str) -> None:
    T, B, H, A, C, n = 5, 6, 7, 9, 17, 3
    lengths = lengths_of(B, T)
    hidden = np.arange(T)[:, None] >= lengths  # (T, B)
    decoder = fused_decoder if recurrence.native_does() else by_steps
    for kind, twice in itertools.product((np.float32, np.float64), (False, True)):
        x, *weights = (a.astype(kind) for a in gru_arrays(T, B, H))
        drawn = attended_arrays(T, B, H, A, C, n, twice=twice)
        inputs, start, keys, values, *others = (a.astype(kind) for a in drawn)
        clean = [*all_of_gru([x, *weights], lengths=lengths)]
        both = (decoder, by_steps) if kind is np.float32 else (by_steps,)
        arrays = [inputs, start, keys, values, *others]
        clean += itertools.chain(*(all_of_attended(arrays, each, lengths=lengths) for each in both))
        x[hidden] = keys[hidden.T] = values[hidden.T] = np.nan
        outputs = [*all_of_gru([x, *weights], lengths=lengths)]
        outputs += itertools.chain(*(all_of_attended(arrays, each, lengths=lengths) for each in both))
        assert_same(outputs, clean)


@pytest.mark.parametrize("twice", [False, True])
def test_law_4_a_nan_reaches_the_rows_to_which_it_is_visible_and_no_other(isa: str, twice: bool) -> None:
    skip_without_library()
    arrays = narrow(attended_arrays(4, 3, 5, 6, 7, 2, twice=twice))
    clean, _ = fused_decoder(*arrays)
    arrays[2][1, 2, 3] = np.nan
    outputs, _ = fused_decoder(*arrays)
    for a, b in zip(outputs, clean, strict=True):
        assert_same([a[:, ::2]], [b[:, ::2]])
    assert np.isnan(outputs[1][:, 1]).all()


@pytest.mark.parametrize("twice", [False, True])
def test_law_5_a_row_does_not_depend_on_the_others(isa: str, twice: bool) -> None:
    skip_without_library()
    T, B, H, A, C, n = 4, 21, 18, 20, 35, 3
    lengths = lengths_of(B, T)
    x, *weights = narrow(gru_arrays(T, B, H))
    inputs, start, keys, values, *others = narrow(attended_arrays(T, B, H, A, C, n, twice=twice))
    states, pullback = nn.gru(x, *weights, lengths=lengths)
    dstates, (dx, *_) = states + 1, pullback(states + 1)
    outputs, back = fused_decoder(inputs, start, keys, values, *others, lengths=lengths)
    gradients = back(outputs[0][1:], outputs[1])
    for rows in (slice(0, 1), slice(3, 12), slice(20, 4, -3)):
        part, pull = nn.gru(x[:, rows], *weights, lengths=lengths[rows])
        assert_same([part, pull(dstates[:, rows])[0]], [states[:, rows], dx[:, rows]])
        some = inputs[:, rows], start[rows], keys[rows], values[rows]
        parts, pull_part = fused_decoder(*some, *others, lengths=lengths[rows])
        assert_same(parts, [y[:, rows] for y in outputs])
        of_part = pull_part(parts[0][1:], parts[1])
        assert_same(of_part[:1], [gradients[0][:, rows]])
        assert_same(of_part[1:4], [y[rows] for y in gradients[1:4]])


def strided(x: Array) -> Array:
    """The same numbers, read-only and not side by side."""
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), np.nan, x.dtype)
    wide[..., ::2] = x
    wide.flags.writeable = False
    return wide[..., ::2]


def batch_first(x: Array) -> Array:
    """The same numbers, the first two dimensions in the other order in memory; with a batch of 1 both are the same."""
    return x.swapaxes(0, 1).copy().swapaxes(0, 1) if x.ndim > 2 else x


LAYOUTS = [strided, unaligned, np.asfortranarray, batch_first, lambda x: x.astype(">f4")]


@pytest.mark.parametrize("change", LAYOUTS)
@pytest.mark.parametrize("B", [1, 5])
@pytest.mark.parametrize("H", [1, 6])
def test_law_8_any_layout(isa: str, change: Callable[[Array], Array], B: int, H: int) -> None:
    skip_without_library()
    arrays, others = narrow(gru_arrays(3, B, H)), narrow(attended_arrays(3, B, H, 4, 7, 2))
    twice = narrow(attended_arrays(3, B, H, 4, 7, 2, twice=True))
    before = [x.copy() for x in (*arrays, *others, *twice)]
    near = (np.testing.assert_allclose, {"rtol": 1e-5, "atol": 1e-6})
    for outputs, expected in (
        (all_of_gru([change(x) for x in arrays]), all_of_gru(arrays)),
        (all_of_attended([change(x) for x in others]), all_of_attended(others)),
        (all_of_attended([change(x) for x in twice]), all_of_attended(twice)),
    ):
        for a, b in zip(outputs, expected, strict=True):
            near[0](a, b, **near[1])
    assert_same([*arrays, *others, *twice], before)


@pytest.mark.parametrize("change", LAYOUTS)
@pytest.mark.parametrize("sizes", [(4, 1, 1), (4, 1, 5), (1, 3, 2)], ids=str)
def test_law_8_gradients_in_any_layout(
    isa: str, change: Callable[[Array], Array], sizes: tuple[int, ...]
) -> None:
    arrays = narrow(gru_arrays(*sizes))
    inputs, start, weight = narrow(
        [draw(*sizes[:2], 3 * sizes[2]), draw(*sizes[1:]), draw(sizes[2], 3 * sizes[2])]
    )
    for states, pullback in (nn.gru(*arrays), nn.gru_sequence(change(inputs), start, weight)):
        dstates = draw(*states.shape, seed=7).astype(np.float32)
        for a, b in zip(pullback(change(dstates)), pullback(dstates), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("twice", [False, True])
def test_the_pullback_may_be_called_twice(isa: str, twice: bool) -> None:
    skip_without_library()
    arrays = narrow(attended_arrays(3, 5, 6, 4, 7, 2, twice=twice))
    outputs, pullback = fused_decoder(*arrays)
    assert_same(pullback(*(x[-2:] for x in outputs)), pullback(*(x[-2:] for x in outputs)))
    states, back = nn.gru(*narrow(gru_arrays(3, 5, 6)))
    assert_same(back(states), back(states))


@pytest.mark.parametrize("twice", [False, True])
def test_empty_arrays(isa: str, twice: bool) -> None:
    skip_without_library()
    for T, B, n in ((0, 2, 3), (3, 2, 0), (3, 0, 2), (0, 0, 0)):
        arrays = narrow(attended_arrays(T, B, 4, 5, 6, n, twice=twice))
        (states, contexts, weights), *gradients = [
            all_of_attended(arrays)[:3],
            *all_of_attended(arrays)[3:],
        ]
        assert_same([states[0]], [arrays[1]])
        assert [x.shape for x in gradients] == [x.shape for x in arrays]
        if T == 0:
            assert not contexts.any()
        assert weights.shape == (n, B, T)
        x, *more = narrow(gru_arrays(T, B, 4))
        assert [g.shape for g in all_of_gru([x, *more])[1:]] == [a.shape for a in (x, *more)]


def test_float64_and_mixed_dtypes_are_computed_by_numpy(isa: str) -> None:
    plain = draw(2, 2).astype(np.float32)
    loaded = library.load()
    assert recurrence.native_does(plain, None) == bool(loaded and loaded.regard_trains())
    assert not recurrence.native_does(plain, plain.astype(float))
    arrays = gru_arrays(3, 5, 6)
    states, _ = nn.gru(*narrow(arrays[:3]), *arrays[3:])
    assert states.dtype == np.float64


# ---- errors --------------------------------------------------------------------------------------------------


def test_gradients_of_a_wrong_shape_are_rejected(isa: str) -> None:
    states, pullback = nn.gru(*narrow(gru_arrays(3, 2, 4)))
    with pytest.raises(ValueError, match="dstates"):
        pullback(states[:2])
