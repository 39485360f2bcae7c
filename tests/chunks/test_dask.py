"""Attention over Dask arrays: equal to that of one process for any chunks, and lazy; its gradients; errors."""

from __future__ import annotations

import itertools
import math
from typing import Any

import budget
import numpy as np
import pytest
import strategies
from errors import error
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import case

import regard

dask = pytest.importorskip("dask", reason="regard.dask needs Dask")
da = pytest.importorskip("dask.array", reason="regard.dask needs Dask")

from regard.dask import attention, attention_vjp  # noqa: E402

Array = NDArray[Any]
OPTIONS = strategies.SOFTMAX_OPTIONS
SMOOTH = [name for name in strategies.SMOOTH_OPTIONS if name in OPTIONS]


def computed(lazy: Any) -> Any:
    """The result of one thread, where errors have their place."""
    return lazy.compute(scheduler="sync")


@st.composite
def chunks(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Chunks of any sizes, 0 included."""
    parts = []
    for size in shape:
        ends = draw(st.lists(st.integers(0, size), max_size=3))
        parts.append(tuple(b - a for a, b in itertools.pairwise(sorted([0, *ends, size]))))
    return tuple(parts)


def lazily(draw: Any, array: Array) -> Any:
    """A Dask array of these numbers, in any chunks."""
    array = np.ascontiguousarray(array)
    blocks = draw(chunks(array.shape))
    whole = da.from_array(array, chunks=array.shape or -1)
    return (
        whole.rechunk(blocks) if array.size else da.zeros(array.shape, dtype=array.dtype, chunks=array.shape)
    )


def assert_law_1(case: strategies.Case, draw: Any) -> None:
    arrays = [lazily(draw, array) for array in case.arrays]
    options = dict(case.option.regard)
    if "bias" in options and options["bias"].ndim and draw(st.booleans()):
        options["bias"] = lazily(draw, options["bias"])
    context = attention(*arrays, **options)
    result = computed(context)
    assert context.shape == result.shape
    assert context.dtype == result.dtype == case.queries.dtype.newbyteorder("=")
    allowed = budget.of_answer(case.answer, case.values, case.queries.dtype)
    budget.assert_within(result, case.answer.context, allowed, f"{[array.chunks for array in arrays]}")


@settings(max_examples=25)
@given(strategies.cases(), st.data())
def test_law_1_any_chunks_shapes_and_options_in_float32(c: strategies.Case, data: Any) -> None:
    assert_law_1(c, data.draw)


@pytest.mark.slow
@settings(max_examples=120)
@given(strategies.cases(np.float64), st.data())
def test_law_1_many_more_chunks(c: strategies.Case, data: Any) -> None:
    assert_law_1(c, data.draw)


def cut(c: strategies.Case, size: int) -> list[Any]:
    """The arrays of a case in chunks of this size along every dimension but the first."""
    return [da.from_array(array, chunks=(1, size, size, size)) for array in c.arrays]


@pytest.mark.parametrize("name", OPTIONS)
def test_law_1_every_option(name: str) -> None:
    c = case(name, np.float64)
    allowed = budget.of_answer(c.answer, c.values, np.float64, proportional=c.option.proportional)
    for size in (3, 4):
        context = computed(attention(*cut(c, size), **c.option.regard))
        budget.assert_within(context, c.answer.context, allowed, f"{name} in chunks of {size}")


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_one_process(name: str) -> None:
    c = case(name, np.float64)
    dcontext = np.random.default_rng(0).standard_normal((2, 4, 7, 3))
    expected = strategies.gradients(c.arrays, dcontext, **c.option.regard)
    _, pullback = attention_vjp(*cut(c, 3), **c.option.regard)
    lazy = pullback(da.from_array(dcontext, chunks=2))
    named = {key: getattr(lazy, key) for key in ("queries", "keys", "values", "bias", "sink")}
    named |= {f"score.{key}": array for key, array in lazy.score.items()}
    named = {key: array for key, array in named.items() if array is not None}
    assert set(named) == set(expected)
    (results,) = dask.compute(named, scheduler="sync")
    for key, array in expected.items():
        shapes = {named[key].shape, results[key].shape, array.shape}
        dtypes = {named[key].dtype, results[key].dtype, array.dtype}
        assert len(shapes) == len(dtypes) == 1
        np.testing.assert_allclose(results[key], array, rtol=1e-9, atol=1e-12, err_msg=key)


def small(*chunks: int, dtype: Any = np.float64) -> list[Any]:
    """Queries, keys and values (12, 4) in chunks of rows."""
    rng = np.random.default_rng(0)
    arrays = (rng.standard_normal((12, 4)).astype(dtype) for _ in range(3))
    return [da.from_array(array, chunks=(size, 4)) for array, size in zip(arrays, chunks, strict=True)]


def test_a_mask_that_is_a_dask_array() -> None:
    q, k, v = small(5, 4, 3)
    visible = np.random.default_rng(1).random((12, 12)) < 0.3
    visible[3] = False
    arrays = [computed(x) for x in (q, k, v)]
    expected = regard.attention(*arrays, mask=visible)
    context, pullback = attention_vjp(q, k, v, mask=da.from_array(visible, chunks=(7, 5)))
    np.testing.assert_allclose(computed(context), expected, atol=1e-14)
    lazy = pullback(da.ones((12, 4)))
    gradients = regard.attention_vjp(*arrays, mask=visible)[1](np.ones((12, 4)))
    np.testing.assert_allclose(computed(lazy.keys), gradients.keys, atol=1e-14)


LEADS: list[tuple[int, ...]] = [(), (3,), (2, 3), (2, 1, 3), (0,), (2, 0)]
SHAPES = [*((lead, 7, 6) for lead in LEADS), *(((2, 3), n, m) for n, m in ((7, 0), (0, 6), (0, 0)))]


def scores_of(lead: tuple[int, ...], n: int, m: int) -> list[Any]:
    """Scores with parameters of every number of dimensions, for queries and keys of size 4."""
    rng = np.random.default_rng(0)
    shapes = {
        (*(lead[i:] if not ones else (1,) * len(lead[i:])), size)
        for i in range(len(lead) + 1)
        for ones in (0, 1)
        for size in (n, 1)
    }
    mixed = {(*lead[:1], *(1 for _ in lead[1:]), n)}
    one, two, vector = rng.standard_normal((4, 3)), rng.standard_normal((4, 3)), rng.standard_normal(3)
    scores = regard.scores
    built = [
        *(scores.cosine(rng.random(shape)) for shape in sorted({(), *shapes, *mixed})),
        *(scores.cosine(np.float32(2)), scores.dot(), scores.scaled_dot(), scores.general(one @ two.T)),
        *(scores.additive(one, two, vector), scores.additive(one.astype("f4"), two, vector, vector)),
        *(scores.concat(np.r_[one, two], vector), scores.gaussian(2.0)),
        *(scores.location(rng.standard_normal((4, m))), scores.location(rng.standard_normal((4, m + 3)))),
    ]
    assert {type(score).__name__ for score in built} | {"Score", "Differentiable"} == set(scores.__all__)
    # Without a pair, one process doesn't know what a user's score has learned.
    return [*built, strategies.Manhattan(np.array(2.0))] if math.prod((*lead, n, m)) else built


@pytest.mark.parametrize(("lead", "n", "m"), SHAPES)
@pytest.mark.slow
def test_gradients_of_every_score_of_any_dimensions_and_sizes(lead: tuple[int, ...], n: int, m: int) -> None:
    rng, dtype = np.random.default_rng(1), np.float32
    arrays = [rng.standard_normal((*lead, size, 4)).astype(dtype) for size in (n, m, m)]
    dcontext = rng.standard_normal((*lead, n, 4)).astype(dtype)
    cut = [
        da.from_array(array, chunks=3) if array.size else da.zeros(array.shape, dtype=dtype, chunks=3)
        for array in (*arrays, dcontext)
    ]
    for score in scores_of(lead, n, m):
        context, pullback = attention_vjp(*cut[:3], score=score)
        lazy = pullback(cut[3])
        expected, reference = regard.attention_vjp(*arrays, score=score)
        np.testing.assert_allclose(computed(context), expected, rtol=1e-4, atol=1e-5)
        exact = reference(dcontext)
        pairs = [(lazy[i], exact[i]) for i in range(3)]
        assert lazy.score.keys() == exact.score.keys(), score
        pairs += [(lazy.score[key], exact.score[key]) for key in exact.score]
        for mine, theirs in pairs:
            result = computed(mine)
            assert mine.shape == result.shape == theirs.shape, score
            assert mine.dtype == result.dtype == theirs.dtype, score
            np.testing.assert_allclose(result, theirs, rtol=1e-3, atol=1e-4, err_msg=repr(score))


def test_half_precision_comes_back_as_it_came_and_is_rounded_once() -> None:
    arrays = small(2, 2, 2, dtype=np.float16)
    context, pullback = attention_vjp(*arrays)
    gradients = pullback(da.ones((12, 4), dtype=np.float16))
    exact = [computed(array).astype(np.float64) for array in arrays]
    reference = regard.attention_vjp(*exact)
    for lazy, expected in (
        (context, reference[0]),
        (gradients.keys, reference[1](np.ones((12, 4))).keys),
    ):
        result = computed(lazy)
        assert lazy.dtype == result.dtype == np.float16
        # One rounding of the result: half a unit in the last place, and a bit for the computation in float32.
        allowed = np.maximum(np.abs(expected) * 2.0**-11, 2.0**-25) * 1.01 + 1e-6
        assert (np.abs(result - expected) <= allowed).all()


def test_integers_compute_in_float64() -> None:
    queries = da.from_array(np.arange(12).reshape(6, 2), chunks=(4, 1))
    context, pullback = attention_vjp(queries, queries, queries)
    assert context.dtype == computed(context).dtype == np.float64
    assert pullback(da.ones((6, 2))).queries.dtype == np.float64


# ---- laws 2 and 3 across chunks ------------------------------------------------------------------------------------


def test_law_2_masked_chunks_have_no_influence_even_if_they_are_nan() -> None:
    q, k, v = small(3, 3, 3)
    mask = regard.mask.lengths(5)  # chunk 1 is cut, and chunks 2 and 3 are masked
    poison = da.from_array(np.where(np.arange(12) < 5, 0.0, np.nan)[:, None], chunks=(3, 1))
    clean = [computed(x) for x in self_and_gradients(q, k, v, mask)]
    for mine, theirs in zip(self_and_gradients(q, k + poison, v + poison, mask), clean, strict=True):
        np.testing.assert_allclose(computed(mine), theirs, rtol=1e-12, atol=1e-13)


def self_and_gradients(q: Any, k: Any, v: Any, mask: Any) -> list[Any]:
    context, pullback = attention_vjp(q, k, v, mask=mask)
    gradients = pullback(da.ones_like(context))
    return [context, gradients.queries, gradients.keys, gradients.values]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("sink", [None, 0.1, -np.inf])
def test_law_3_queries_that_see_no_chunk(sink: float | None, dtype: Any) -> None:
    q, k, v = small(3, 4, 4, dtype=dtype)
    mask = regard.mask.documents(np.repeat([0, 1, 9], [4, 4, 4]), np.repeat([0, 1], [6, 6]))
    context, pullback = attention_vjp(q, k, v, mask=mask, sink=sink)
    dcontext = np.ones((12, 4))
    dcontext[8:] = np.nan  # of queries without a visible key
    gradients = pullback(da.from_array(dcontext, chunks=3))
    assert (computed(context)[8:] == 0).all()
    assert (computed(gradients.queries)[8:] == 0).all()
    assert np.isfinite(computed(gradients.keys)).all()
    if sink is not None:
        assert np.isfinite(computed(gradients.sink)).all()


def test_law_4_a_visible_nan_reaches_the_rows_that_see_it() -> None:
    q, k, v = small(3, 3, 3)
    values = computed(v)
    values[7] = np.nan
    context = computed(attention(q, k, da.from_array(values, chunks=(3, 4)), mask=regard.mask.causal()))
    assert np.isfinite(context[:7]).all()
    assert np.isnan(context[7:]).all()


def test_a_learned_array_of_the_user_has_a_gradient_where_a_chunk_shows_nothing() -> None:
    score = strategies.Manhattan(np.float64(0.75))
    q, k, v = small(5, 4, 3)
    arrays = [computed(x) for x in (q, k, v)]
    for visible in (np.tri(12, dtype=bool), np.zeros((12, 12), bool)):
        _, pullback = attention_vjp(q, k, v, score=score, mask=da.from_array(visible, chunks=4))
        exact = regard.attention_vjp(*arrays, score=score, mask=visible)[1](np.ones((12, 4))).score[
            "sharpness"
        ]
        lazy = pullback(da.ones((12, 4))).score["sharpness"]
        assert (lazy.shape, lazy.dtype) == (exact.shape, exact.dtype)
        np.testing.assert_allclose(computed(lazy), exact, atol=1e-12)


@pytest.mark.parametrize("lead", [(), (0,), (2,)])
@pytest.mark.parametrize(
    ("n", "m", "d", "e"), [(0, 5, 4, 0), (0, 0, 0, 0), (3, 0, 4, 2), (0, 5, 4, 3), (3, 4, 0, 0)]
)
def test_arrays_without_numbers_in_several_chunks(
    lead: tuple[int, ...], n: int, m: int, d: int, e: int
) -> None:
    shapes = [(*lead, *shape) for shape in ((n, d), (m, d), (m, e), (n, e), (n, m))]
    q, k, v, dcontext, mask = (np.ones(shape, np.float32) for shape in shapes)
    nothing = [da.zeros((*x.shape[:-2], 0, x.shape[-1]), dtype=x.dtype) for x in (q, k, v)]
    several = [da.concatenate(pair, -2) for pair in zip(nothing, map(da.ones_like, (q, k, v)), strict=True)]
    options = {"bias": np.zeros((n, m), np.float32), "sink": 0.5}
    for visible in (None, mask > 0, regard.mask.causal(align="end")):
        context, pullback = attention_vjp(*several, mask=visible, **options)
        expected, reference = regard.attention_vjp(q, k, v, mask=visible, **options)
        np.testing.assert_array_equal(computed(context), expected)
        lazy, exact = pullback(da.ones(dcontext.shape, dtype=np.float32, chunks=-1)), reference(dcontext)
        for name in ("queries", "keys", "values", "bias", "sink"):
            gradient, other = computed(getattr(lazy, name)), getattr(exact, name)
            assert gradient.shape == getattr(lazy, name).shape == other.shape, name
            assert gradient.dtype == getattr(lazy, name).dtype == other.dtype, name
            np.testing.assert_allclose(gradient, other, atol=1e-6, err_msg=name)


# ---- the graph ---------------------------------------------------------------------------------------------------


def tasks_of(collection: Any, name: str) -> list[Any]:
    """The keys of the tasks with this name."""
    return [key for key in collection.__dask_graph__() if isinstance(key, tuple) and key[0].startswith(name)]


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def refuse(block: Array) -> Array:
        raise AssertionError("computed")

    q, k, v = (x.map_blocks(refuse, dtype=float) for x in small(4, 4, 4))
    context, pullback = attention_vjp(q, k, v, mask=regard.mask.causal())
    pullback(context)
    attention(q, k, v)


def test_pairs_that_the_mask_hides_are_not_in_the_graph() -> None:
    q, k, v = small(3, 3, 3)
    for mask, count in [
        (None, 16),
        (regard.mask.causal(), 10),
        (regard.mask.window(0, 0), 4),
        (regard.mask.lengths(4), 8),
        (regard.mask.documents(np.arange(12) // 6), 8),
        (regard.mask.causal() & regard.mask.documents(np.arange(12) // 6), 6),
        (np.eye(12, dtype=bool), 4),
        (np.zeros((12, 12), bool), 0),
    ]:
        context, pullback = attention_vjp(q, k, v, mask=mask)
        assert len(tasks_of(context, "attention-partial-")) == count, mask
        gradients = pullback(da.ones_like(context))
        pairs = [key for key in tasks_of(gradients.keys, "attention-gradients-") if "sum" not in key[0]]
        assert len(pairs) == count


class OneHead(regard.mask.Mask):
    """A mask of a user that shows something to the last head only, and does not say that it varies."""

    def bind(self, layout: Any) -> Any:
        def evaluate(items: slice, rows: slice, columns: slice) -> Any:
            return np.broadcast_to(
                np.arange(items.start, items.stop)[:, None, None] == layout.items - 1,
                (items.stop - items.start, rows.stop - rows.start, columns.stop - columns.start),
            )

        return evaluate


def test_a_mask_of_the_user_may_vary_by_head() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 6, 4))
    lazy = da.from_array(x, chunks=(1, 3, 4))
    context = computed(attention(lazy, lazy, lazy, mask=OneHead()))
    np.testing.assert_allclose(context, regard.attention(x, x, x, mask=OneHead()), atol=1e-14)
    assert np.abs(context[1]).max() > 0


def test_the_pullback_adds_nothing_to_a_record() -> None:
    q, k, v = small(4, 4, 4)
    with regard.record() as recorded:
        attention_vjp(q, k, v, score="cosine")[1](da.ones((12, 4)))
    assert recorded == []


def test_each_sentence_of_a_batch_has_pairs_of_its_own() -> None:
    x = da.zeros((2, 1, 12, 4), chunks=(1, 1, 3, 4))
    context = attention(x, x, x, mask=regard.mask.lengths([[3], [12]]))
    assert len(tasks_of(context, "attention-partial-")) == 4 * 1 + 4 * 4


def test_the_mask_of_a_chunk_is_left_out_where_all_is_visible() -> None:
    """So a chunk below the diagonal is computed as fast as one without a mask."""
    x = da.zeros((12, 4), chunks=(3, 4))
    context = attention(x, x, x, mask=regard.mask.causal())
    whole = {key[-2:]: pair.all_visible for key, pair in pairs_of(context).items()}
    assert whole == {(i, j): i > j for i in range(4) for j in range(i + 1)}


def pairs_of(collection: Any) -> dict[Any, Any]:
    """The pair of chunks of each task."""
    layer = next(
        tasks
        for name, tasks in collection.__dask_graph__().layers.items()
        if name.startswith("attention-partial-")
    )
    return {key: task[2] for key, task in layer.items()}


def test_tasks_have_names_that_people_understand() -> None:
    from dask.utils import key_split

    q, k, v = small(3, 3, 3)
    context, pullback = attention_vjp(q, k, v)
    names = {key_split(key) for key in pullback(context).queries.__dask_graph__()}
    assert {
        "attention-partial",
        "attention-context",
        "attention-gradients",
        "attention-gradient-queries",
    } <= names


def test_the_graph_of_a_million_positions_has_the_visible_pairs_only() -> None:
    x = da.zeros((10**6, 64), chunks=(10**4, 64), dtype=np.float32)
    context = attention(x, x, x, mask=regard.mask.window(5_000, 5_000))
    assert len(tasks_of(context, "attention-partial-")) == 100 + 2 * 99


def test_equal_arguments_have_equal_names_and_others_do_not() -> None:
    q, k, v = small(4, 4, 4)
    assert attention(q, k, v).name == attention(q, k, v).name
    assert attention(q, k, v).name != attention(q, k, v, mask=regard.mask.causal()).name
    one, other = (attention(q, k, v, mask=regard.mask.window(left, 0)).name for left in (1, 2))
    assert one != other


def test_result_has_the_chunks_of_the_queries() -> None:
    queries = da.zeros((2, 4, 10, 6), chunks=(1, 3, (4, 6), 3))
    keys = da.zeros((2, 2, 8, 6), chunks=(2, 1, 5, 6))
    context = attention(queries, keys, keys[..., :5])
    assert context.chunks == ((1, 1), (2, 1, 1), (4, 6), (5,))


# ---- errors --------------------------------------------------------------------------------------------------------


def test_errors_are_raised_before_anything_is_computed() -> None:
    q, k, v = small(3, 4, 4)
    assert error(TypeError, attention, np.ones((2, 3)), k, v) == (
        "queries must be a Dask array. Got ndarray of shape (2, 3) instead."
        "\n  hint: dask.array.from_array(queries, chunks=...); regard.attention takes NumPy arrays"
    )
    assert error(TypeError, attention, q, [[1.0]], v).startswith(
        "keys must be a Dask array. Got list instead."
    )
    assert error(ValueError, attention, q, k, v[:5]).startswith(
        "keys and values must share their length m: 12 and 5\n  queries (12, 4)          is (..., n, d)"
    )
    assert error(ValueError, attention, q[:, :3], k, v).startswith(
        "queries and keys must share their last dimension d: 3 and 4"
    )
    assert "mask must broadcast to (..., n, m) = (12, 12). Got shape (11, 12) instead" in error(
        ValueError, attention, q, k, v, mask=da.ones((11, 12), dtype=bool)
    )
    assert error(TypeError, attention, q, k, v, mask=da.ones((12, 12))).startswith(
        "mask must be bool (True = visible) or a regard.mask object. Got dtype float64 instead."
    )
    assert error(TypeError, attention, q, k, v, bias=da.ones((12, 12), dtype=bool)).startswith(
        "bias must hold numbers"
    )
    assert error(ValueError, attention, q, k[:5], v[:5], mask=regard.mask.causal()).startswith(
        "causal needs align="
    )
    assert (
        error(ValueError, attention, q, k, v, scale=float("nan")) == "scale must be finite. Got nan instead."
    )
    assert error(ValueError, attention, q, k, v, threads=0) == "threads must be at least 1. Got 0 instead."
    assert error(ValueError, attention, q, k, v, kernel="fast").startswith(
        "kernel must be one of 'auto', 'native'"
    )
    told = error(TypeError, attention, q, k, v, sink=da.zeros(()))
    assert told.startswith("sink must be in memory. Got a Dask array instead.\n  queries (12, 4) ")
    assert told.endswith(
        "\n  hint: regard.dask computes attention chunk by chunk; sink.compute() is in memory"
    )
    assert error(TypeError, regard.mask.causal().__and__, da.ones((12, 12), dtype=bool)) == (
        "mask must be in memory. Got a Dask array instead."
        "\n  hint: regard.dask computes attention chunk by chunk; mask.compute() is in memory"
    )
    assert error(TypeError, attention, q, k, v, normalize="sparsemax").startswith(
        "attention takes no option 'normalize'."
    )
    assert error(TypeError, attention, q, k).startswith("attention takes 3 arrays by position")


def test_unknown_chunk_sizes_are_an_error() -> None:
    q, k, v = small(3, 4, 4)
    some = q[q[:, 0] > 0]
    assert error(ValueError, attention, some, k, v) == (
        "queries must have known chunk sizes. Got shape (nan, 4) instead."
        "\n  hint: queries.compute_chunk_sizes() finds them"
    )
    assert error(ValueError, attention, q, some, some).startswith("keys must have known chunk sizes.")


def test_masked_arrays_are_an_error() -> None:
    q, k, v = small(3, 4, 4)
    masked = da.ma.masked_array(v, v > 0)
    assert error(TypeError, attention, q, k, masked).startswith(
        "values must be a plain array. Got a masked array instead."
    )


def shorter(block: Array, block_id: Any) -> Array:
    return block[:-1] if block_id == (1, 0) else block


def doubled(block: Array, block_id: Any) -> Array:
    return np.concatenate([block, block]) if block_id == (1, 0) else block


def masked(block: Array, block_id: Any) -> Array:
    return np.ma.masked_array(block, np.arange(block.size).reshape(block.shape) == 3 * block_id[0] - 3)


def masked_lists(block: Array, block_id: Any) -> list[Array]:
    return list(masked(block, block_id))


def gradient_with(name: str, change: Any, rows: int) -> Any:
    """The gradient of the queries where the blocks of one array have changed, and the others have chunks of `rows`."""
    arrays = dict(zip(("queries", "keys", "values"), small(4, 4, 4), strict=True))
    arrays |= {"mask": da.ones((12, 12), dtype=bool, chunks=4), "bias": da.zeros((12, 12), chunks=4)}
    arrays |= {"dcontext": da.ones((12, 4), chunks=4)}
    plain = np.empty((0, 0), arrays[name].dtype)  # what Dask believes that the blocks are
    changed = arrays[name].map_blocks(change, dtype=plain.dtype, meta=plain)
    arrays = {other: array.rechunk((rows, -1)) for other, array in arrays.items()} | {name: changed}
    dcontext = arrays.pop("dcontext")
    queries, keys, values = (arrays.pop(name) for name in ("queries", "keys", "values"))
    return computed(attention_vjp(queries, keys, values, **arrays)[1](dcontext).queries)


@pytest.mark.parametrize("rows", [4, 3, 12])  # the grid cuts blocks, or puts them together
@pytest.mark.parametrize("name", ["queries", "keys", "values", "mask", "bias", "dcontext"])
def test_a_block_that_is_not_what_its_chunk_says_is_an_error(name: str, rows: int) -> None:
    for change, size in [(shorter, 3), (doubled, 8)]:
        assert error(RuntimeError, gradient_with, name, change, rows) == (
            f"block (1, 0) of {name} must have the shape of its chunk, (4, 4). Got ({size}, 4) instead."
        )
    for change in (masked, masked_lists):
        message = error(RuntimeError, gradient_with, name, change, rows)
        assert message in {
            f"block {index} of {name} has 1 masked numbers"
            for index in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
        }
    plain = gradient_with(name, lambda block: np.ma.masked_array(block, False), rows)
    np.testing.assert_allclose(plain, gradient_with(name, np.copy, rows), rtol=1e-12, atol=1e-13)


def test_a_block_of_a_mask_that_holds_numbers_is_an_error() -> None:
    mask = da.ones((12, 12), chunks=4).map_blocks(lambda block: block, dtype=bool)
    assert "mask must be bool" in error(RuntimeError, computed, attention(*small(4, 4, 4), mask=mask))


def test_errors_of_the_pullback() -> None:
    _, pullback = attention_vjp(*small(3, 4, 4))
    assert error(TypeError, pullback, np.ones((12, 4))).startswith(
        "dcontext must be a Dask array. Got ndarray"
    )
    assert error(ValueError, pullback, da.ones((12, 3))) == (
        "dcontext must have the shape of the context (..., n, e) = (12, 4). Got (12, 3) instead."
    )
    assert error(TypeError, pullback, da.ones((12, 4), dtype=complex)).startswith(
        "dcontext must hold real numbers. Got dtype complex128 instead."
    )
    assert error(TypeError, pullback, da.ones((12, 4)).astype(object)).startswith(
        "dcontext must hold real numbers. Got dtype object instead."
    )
    assert "score must have a method vjp" in error(
        TypeError, attention_vjp, *small(3, 4, 4), score=strategies.manhattan
    )


def test_a_task_that_fails_names_its_chunks() -> None:
    def fragile(queries: Array, keys: Array) -> Array:
        if (keys == 7).any():
            raise ZeroDivisionError("of the user")
        return queries @ keys.swapaxes(-1, -2)

    q, k, v = small(4, 4, 4)
    keys = computed(k)
    keys[9] = 7
    context = attention(q, da.from_array(keys, chunks=(4, 4)), v, score=fragile)
    message = error(RuntimeError, computed, context[4:8])
    assert message == "attention of queries 4:8, keys 8:12 failed: ZeroDivisionError: of the user"
