"""Attention sinks: a learned logit for each head that joins the denominator of the softmax.

That every function agrees with plain loops, for all combinations, is in test_laws.py.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regard
from regard import mask, weights
from regard.kernels import library
from regard.nn import check_gradients

Array = NDArray[Any]
KERNELS = ["blocked", *([] if library.missing() else ["native"])]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def arrays(n: int = 5, m: int = 7, seed: int = 0) -> tuple[Array, Array, Array]:
    """Queries of 4 heads, keys and values of 2, for 2 sequences."""
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((2, 4, n, 8)),
        rng.standard_normal((2, 2, m, 8)),
        rng.standard_normal((2, 2, m, 3)),
    )


def test_by_hand() -> None:
    """Two keys of logit 0 and a sink of 0 share the weight in three; exp(log 2) counts as much as both keys."""
    q, k, v = np.zeros((1, 1)), np.zeros((2, 1)), np.array([[3.0], [6.0]])
    a = regard.attend(q, k, v, sink=0.0)
    np.testing.assert_allclose(a.weights, [[1 / 3, 1 / 3]], rtol=1e-15)
    np.testing.assert_allclose(a.context, [[3.0]], rtol=1e-15)
    np.testing.assert_allclose(a.lse, [math.log(3)], rtol=1e-15)
    assert a.logits.tolist() == [[0.0, 0.0]]
    np.testing.assert_allclose(regard.attention(q, k, v, sink=math.log(2)), [[9 / 4]], rtol=1e-15)
    np.testing.assert_allclose(regard.attention_vjp(q, k, v, sink=0.0)[1]([[1.0]]).sink, -1.0, rtol=1e-15)


@every_kernel
def test_a_sink_is_a_key_of_this_logit_and_value_0(kernel: str) -> None:
    q, k, v = arrays()
    sink = np.array([0.3, -2.0, 4.0, 0.0])
    longer = (
        np.concatenate([k, np.zeros((2, 2, 1, 8))], axis=-2),
        np.concatenate([v, np.zeros((2, 2, 1, 3))], axis=-2),
    )
    bias = np.zeros((4, 1, 8))
    bias[:, 0, 7] = sink
    context, pullback = regard.attention_vjp(q, k, v, sink=sink, kernel=kernel)
    same, other = regard.attention_vjp(q, *longer, bias=bias, kernel=kernel)
    np.testing.assert_allclose(context, same, rtol=0, atol=1e-14)
    dcontext = np.random.default_rng(1).standard_normal(context.shape)
    gradients, expected = pullback(dcontext), other(dcontext)
    np.testing.assert_allclose(gradients.queries, expected.queries, rtol=0, atol=1e-13)
    np.testing.assert_allclose(gradients.keys, expected.keys[..., :7, :], rtol=0, atol=1e-13)
    np.testing.assert_allclose(gradients.values, expected.values[..., :7, :], rtol=0, atol=1e-13)
    assert gradients.sink is not None
    assert expected.bias is not None
    np.testing.assert_allclose(gradients.sink, expected.bias[:, 0, 7], rtol=0, atol=1e-13)


@every_kernel
@pytest.mark.parametrize("shape", [(), (4,), (1,), (2, 1), (2, 4)], ids=str)
def test_gradients_of_a_sink_of_any_shape(kernel: str, shape: tuple[int, ...]) -> None:
    q, k, v = arrays()
    visible = np.random.default_rng(2).random((5, 7)) < 0.5
    visible[1] = False

    def function(queries: Array, keys: Array, values: Array, sink: Array) -> Any:
        context, pullback = regard.attention_vjp(
            queries, keys, values, sink=sink, mask=visible, softcap=3.0, kernel=kernel
        )

        def back(dcontext: Array) -> list[Any]:
            gradients = pullback(dcontext)
            assert gradients.sink is not None
            assert gradients.sink.shape == shape
            return [gradients.queries, gradients.keys, gradients.values, gradients.sink]

        return context, back

    assert (
        check_gradients(function, [q, k, v, np.asarray(np.random.default_rng(3).standard_normal(shape))])
        < 1e-6
    )


@every_kernel
def test_minus_infinity_is_bitwise_no_sink(kernel: str) -> None:
    q, k, v = arrays()
    plain, back = regard.attention_vjp(q, k, v, kernel=kernel)
    context, pullback = regard.attention_vjp(q, k, v, sink=-np.inf, kernel=kernel)
    assert context.tobytes() == plain.tobytes()
    gradients, expected = pullback(plain), back(plain)
    for one, other in zip(gradients[:3], expected[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)
    assert (gradients.sink, expected.sink) == (0, None)


# ------------------------------------------------------------------------------------------- rows that see no key


@every_kernel
@pytest.mark.parametrize("sink", [2.5, -1e30, 1e30, -np.inf])
def test_law_3_in_a_row_without_a_visible_key_the_sink_has_all_weight(kernel: str, sink: float) -> None:
    q, k, v = arrays()
    options: dict[str, Any] = {"sink": sink, "mask": mask.lengths([[0], [7]])}
    attention, part = regard.attend(q, k, v, **options), regard.partial(q, k, v, kernel=kernel, **options)
    context, pullback = regard.attention_vjp(q, k, v, kernel=kernel, **options)
    for result in (attention.context, part.context, context):
        assert not result[0].any()
        assert np.isfinite(result).all()
    assert not attention.weights[0].any()
    for lse in (attention.lse, part.lse):
        np.testing.assert_allclose(lse[0], sink, rtol=1e-15)
    expected = pullback(np.ones(context.shape))
    assert not expected.queries[0].any()
    for wild in (1e6, np.inf, np.nan):
        dcontext = np.ones(context.shape)
        dcontext[0] = wild
        for one, other in zip(pullback(dcontext), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@every_kernel
def test_law_3_without_any_keys(kernel: str) -> None:
    q = np.ones((2, 3, 4))
    part = regard.partial(q, np.ones((2, 0, 4)), np.ones((2, 0, 5)), sink=[1.0, -2.0], kernel=kernel)
    assert not part.context.any()
    assert part.lse.tolist() == [[1.0] * 3, [-2.0] * 3]
    attention = regard.attend(q, np.ones((2, 0, 4)), np.ones((2, 0, 5)), sink=[1.0, -2.0])
    assert (attention.weights.shape, attention.lse.tolist()) == ((2, 3, 0), part.lse.tolist())
    _, pullback = regard.attention_vjp(
        q, np.ones((2, 0, 4)), np.ones((2, 0, 5)), sink=[1.0, -2.0], kernel=kernel
    )
    assert pullback(np.ones((2, 3, 5))).sink.tolist() == [0.0, 0.0]  # type: ignore[union-attr]


@every_kernel
def test_law_4_an_infinite_value_stays_infinite_however_small_its_weight(kernel: str) -> None:
    q, k, v = np.zeros((1, 1)), np.zeros((2, 1)), np.array([[np.inf, 1.0, np.nan], [1.0, 1.0, 1.0]])
    for context in (
        regard.attend(q, k, v, sink=1e4).context,
        regard.attention(q, k, v, sink=1e4, kernel=kernel),
        regard.merge(regard.partial(q, k, v, kernel=kernel), sink=1e4).context,
    ):
        np.testing.assert_array_equal(context, [[np.inf, 0.0, np.nan]])


# ------------------------------------------------------------------------------------------------------ the parts


@pytest.mark.slow
@every_kernel
def test_law_13_a_sink_counts_once_in_whichever_part_or_in_merge(kernel: str) -> None:
    q, k, v = arrays()
    sink = np.array([[1.0], [-0.5]])
    full = regard.attend(q, k, v, sink=sink)
    cuts = [slice(0, 0), slice(0, 2), slice(2, 6), slice(6, 7)]

    def part(cut: slice, **options: Any) -> regard.Partial:
        return regard.partial(q, k[..., cut, :], v[..., cut, :], kernel=kernel, **options)

    for order in itertools.permutations(range(4)):
        merges = [regard.merge(*(part(cuts[i]) for i in order), sink=sink)]
        merges += [
            regard.merge(*(part(cuts[i], **({"sink": sink} if i == at else {})) for i in order))
            for at in order
        ]
        halves = regard.merge(*(part(cuts[i]) for i in order[:2]), sink=sink), part(cuts[order[2]])
        merges.append(regard.merge(part(cuts[order[3]]), *halves))
        for merged in merges:
            np.testing.assert_allclose(merged.context, full.context, rtol=0, atol=1e-14)
            np.testing.assert_allclose(merged.lse, full.lse, rtol=0, atol=1e-14)


def test_a_sink_added_by_merge_is_the_full_attention() -> None:
    one = regard.Partial(np.array([6.0]), lse=np.array(0.0))  # of a single query
    merged = regard.merge(one, sink=math.log(2))
    np.testing.assert_allclose(merged.context, [2.0], rtol=1e-15)
    np.testing.assert_allclose(merged.lse, math.log(3), rtol=1e-15)


# --------------------------------------------------------------------------------------- the other functions, sizes


def test_record_keeps_weights_with_a_sink() -> None:
    q, k, v = arrays()
    with regard.record() as recorded:
        context = regard.attention(q, k, v, sink=1.0)
        regard.attention_vjp(q, k, v, sink=1.0)
        regard.partial(q, k, v, sink=1.0)
    assert len(recorded) == 3
    for a in recorded:
        np.testing.assert_allclose(a.context, context, rtol=0, atol=1e-14)
        np.testing.assert_allclose(a.weights.sum(-1), 1 - np.exp(1 - a.lse), rtol=1e-13)


@every_kernel
@pytest.mark.parametrize("size", [1e3, 1e6])
def test_large_sinks_and_logits_keep_their_difference(kernel: str, size: float) -> None:
    """Only what lies between logits and sink counts, however large both are; float32 rounds by their size."""
    q, k = np.ones((1, 1), np.float32), np.full((2, 1), size, np.float32)
    v = np.array([[3], [6]], np.float32)
    for sink, share in ((size, 2 / 3), (size + 5, 2 / (2 + math.exp(5))), (size - 5, 2 / (2 + math.exp(-5)))):
        context = regard.attention(q, k, v, score="dot", sink=sink, kernel=kernel)
        np.testing.assert_allclose(context, [[4.5 * share]], rtol=4 * size * 2.0**-23)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_dtypes_of_arrays_and_sink_stay(dtype: Any) -> None:
    q, k, v = (x.astype(dtype) for x in arrays())
    for sink in (np.ones(4, np.float16), np.ones(4, np.float64), [1, 1, 1, 1]):
        context, pullback = regard.attention_vjp(q, k, v, sink=sink)
        gradients = pullback(context)
        assert context.dtype == gradients.queries.dtype == dtype
        assert gradients.sink is not None
        assert gradients.sink.dtype == (
            np.asarray(sink).dtype if isinstance(sink, np.ndarray) else np.float64
        )


def test_law_8_a_sink_is_not_written_and_may_have_any_strides() -> None:
    q, k, v = arrays()
    wide = np.array([1.0, 9.0, -1.0, 9.0, 0.5, 9.0, 2.0])
    wide.flags.writeable = False
    swapped = wide[::2].astype(">f8")
    expected, _ = regard.attention_vjp(q, k, v, sink=wide[::2].copy())
    for sink in (wide[::2], swapped, wide[::2].tolist()):
        context, pullback = regard.attention_vjp(q, k, v, sink=sink)
        assert context.tobytes() == expected.tobytes()
        assert pullback(context).sink.dtype.isnative  # type: ignore[union-attr]


def test_a_window_around_the_query_may_have_a_sink() -> None:
    q, k, v = arrays(7, 7)
    near = regard.attention(q, k, v, sink=0.5, normalize=weights.local_m(2))
    expected = regard.attend(q, k, v, sink=0.5, mask=mask.window(2, 2)).context
    np.testing.assert_allclose(near, expected, rtol=0, atol=1e-14)


# ---------------------------------------------------------------------------------------------------------- errors

FUNCTIONS: dict[str, Any] = {
    "attend": regard.attend,
    "attention": regard.attention,
    "attention_vjp": regard.attention_vjp,
    "partial": regard.partial,
    "merge": lambda q, k, v, sink: regard.merge(regard.partial(q, k, v), sink=sink),
}


@pytest.mark.parametrize(
    ("sink", "kind", "message"),
    [
        ([1.0, 2.0], ValueError, r"sink must broadcast to \(...\) = \(2, 4\)\. Got shape \(2,\) instead\."),
        (
            np.zeros((3, 2, 4)),
            ValueError,
            r"sink must broadcast to \(...\) = \(2, 4\)\. Got shape \(3, 2, 4\)",
        ),
        (np.nan, ValueError, r"sink must be finite, or -inf for no sink\. Got nan instead\."),
        ([0, 1, np.inf, 1], ValueError, r"sink must be finite, or -inf for no sink\. Got inf instead\."),
        (1e39, ValueError, r"sink must be a number that float32 can hold\. Got 1e\+39 instead\."),
        ("first", TypeError, r"sink must hold real numbers\. Got dtype"),
        (1j, TypeError, r"sink must hold real numbers\. Got dtype complex128 instead\."),
        (
            [[1.0], [1.0, 2.0]],
            ValueError,
            "sink must be an array of numbers; its rows have different lengths",
        ),
    ],
)
def test_law_10_a_wrong_sink_is_an_error(sink: Any, kind: type[Exception], message: str) -> None:
    for function in FUNCTIONS.values():
        with pytest.raises(kind, match=message):
            function(*(x.astype(np.float32) for x in arrays()), sink=sink)


@pytest.mark.parametrize("normalize", ["sparsemax", "entmax15", "hard", weights.local_p([1.0], 2.0)])
def test_law_10_only_a_softmax_has_a_sink(normalize: Any) -> None:
    for function in (regard.attend, regard.attention, regard.attention_vjp):
        with pytest.raises(ValueError, match=r'sink needs normalize="softmax"\. Got '):
            function(*arrays(), sink=0.0, normalize=normalize)
