"""Blocks of an attention: the parts of masks, biases and scores, and which pairs of chunks are visible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import strategies
from errors import error
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import case

import regard
from regard._chunks import Options, visible_pairs
from regard._layout import Layout, Region, slices
from regard.mask import Mask, bound

Array = NDArray[Any]


def regions(n: int, m: int, step: int, lead: tuple[int, ...] = ()) -> list[Region]:
    """All blocks of `step` queries and `step` keys, for each half of the last leading dimension."""
    parts = [tuple(slice(0, size) for size in lead)]
    if lead:
        half = lead[-1] // 2
        parts = [(*parts[0][:-1], part) for part in (slice(0, half), slice(half, lead[-1]))]
    return [
        Region(some, rows, columns)
        for some in parts
        for rows in slices(n, step)
        for columns in slices(m, step)
    ]


@st.composite
def masks(draw: st.DrawFn) -> tuple[int, int, Any, Array]:
    """Numbers of queries and keys, a composed mask object and its dense twin."""
    n, m = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    return n, m, *draw(strategies.mask_objects(n, m))


@settings(max_examples=150)
@given(masks(), st.integers(1, 4))
def test_the_part_of_a_mask_is_the_block_of_its_array(drawn: Any, step: int) -> None:
    n, m, mask, dense = drawn
    layout = Layout((), None, n, m)
    for region in regions(n, m, step):
        part = mask.restrict(layout, region)
        block = dense[region.rows, region.columns]
        np.testing.assert_array_equal(part.dense(*block.shape), block)
        # A part of a part, as a worker that cuts its chunk again would take it.
        inner = Region((), slice(0, 1), slice(0, 1))
        np.testing.assert_array_equal(part.restrict(region.layout(layout), inner).dense(1, 1), block[:1, :1])


@settings(max_examples=150)
@given(masks(), st.integers(1, 4))
def test_the_pairs_of_chunks_are_those_of_which_something_is_visible(drawn: Any, step: int) -> None:
    n, m, mask, dense = drawn
    rows, columns = slices(n, step), slices(m, step)
    blocks = {(i, j): dense[row, column] for i, row in enumerate(rows) for j, column in enumerate(columns)}
    pairs = visible_pairs(mask, Layout((), None, n, m), rows, columns)
    assert list(pairs) == [place for place, block in blocks.items() if block.any()]
    for place, whole in pairs.items():
        assert not whole or blocks[place].all()


def test_pairs_are_found_where_no_bound_tells() -> None:
    """Both masks of a conjunction show something of a block, and together nothing: each pair is evaluated."""
    even = regard.mask.documents(np.arange(600) % 2, np.zeros(600, int))
    odd = regard.mask.documents(np.arange(600) % 2, np.ones(600, int))
    layout, rows = Layout((), None, 600, 600), slices(600, 300)
    assert visible_pairs(even & odd, layout, rows, rows) == {}
    one = np.zeros((600, 600), bool)
    one[599, 0] = True
    assert visible_pairs(even & one, layout, rows, rows) == {}
    assert visible_pairs(odd & one, layout, rows, rows) == {(1, 0): False}


def test_chunks_of_nothing_are_in_no_pair() -> None:
    empty = [slice(0, 2), slice(2, 2), slice(2, 4)]
    layout = Layout((), None, 4, 4)
    assert list(visible_pairs(None, layout, empty, empty)) == [(0, 0), (0, 2), (2, 0), (2, 2)]
    assert list(visible_pairs(regard.mask.causal(), layout, empty, empty)) == [(0, 0), (2, 0), (2, 2)]
    assert visible_pairs(regard.mask.causal(), Layout((0,), None, 4, 4), empty, empty) == {}


def test_a_window_over_a_million_positions_is_cut_without_looking_at_each_pair() -> None:
    length, width, chunk = 10**6, 5_000, 1_000
    parts = slices(length, chunk)
    pairs = visible_pairs(regard.mask.window(width, width), Layout((), None, length, length), parts, parts)
    # By hand: row chunk i sees the keys from i * chunk - width to (i + 1) * chunk - 1 + width.
    expected = {
        (i, j)
        for i in range(len(parts))
        for j in range(max(0, i - width // chunk), min(len(parts), i + width // chunk + 1))
    }
    assert set(pairs) == expected
    assert pairs[500, 500]
    assert not pairs[500, 505]


class Checkerboard(Mask):
    """A mask of a user, without a program."""

    def bind(self, layout: Layout) -> Any:
        def evaluate(items: slice, rows: slice, columns: slice) -> Any:
            i, j = np.ogrid[rows.start : rows.stop, columns.start : columns.stop]
            return ((i + j) % 2 == 0)[None]

        return evaluate


def test_a_mask_of_the_user_has_parts_too() -> None:
    layout, whole = Layout((2,), None, 5, 7), Checkerboard().dense(5, 7)
    for region in regions(5, 7, 2, (2,)):
        part = Checkerboard().restrict(layout, region)
        block = whole[region.rows, region.columns]
        np.testing.assert_array_equal(part.dense(*block.shape), block[None])
        assert bound(part, region.layout(layout)).steps() is None
    squares = slices(4, 1)
    pairs = visible_pairs(Checkerboard(), Layout((), None, 4, 4), squares, squares)
    assert set(pairs) == {(i, j) for i in range(4) for j in range(4) if (i + j) % 2 == 0}


class Shifted(regard.mask.window):
    """A class that only overrides `bind` has no part of its parent's."""

    def bind(self, layout: Layout) -> Any:
        return Checkerboard().bind(layout)


def test_a_class_that_overrides_bind_inherits_no_part() -> None:
    region = Region((), slice(1, 3), slice(0, 2))
    part = Shifted(0, 0).restrict(Layout((), None, 4, 4), region)
    np.testing.assert_array_equal(part.dense(2, 2), [[False, True], [True, False]])


def test_the_mask_of_a_cache_has_parts_that_the_library_evaluates() -> None:
    cache = regard.KVCache((2,), d=1, capacity=9)
    cache.append(np.ones((2, 6, 1)), np.ones((2, 6, 1)), lengths=[6, 4])
    layout = Layout((2,), None, 3, 6)
    region = Region((slice(1, 2),), slice(1, 3), slice(1, 5))
    part = cache.mask.restrict(layout, region)
    np.testing.assert_array_equal(part.dense(2, 4), cache.mask.dense(3, 6)[1:, 1:3, 1:5])
    assert bound(part, region.layout(layout)).steps() is not None


BLOCKS = [name for name in strategies.SOFTMAX_OPTIONS if not name.startswith("sink")]


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_with_the_parts_of_all_options_merge_to_the_whole(name: str) -> None:
    c = case(name, np.float64, n=7, m=9)
    q, k, v = (np.repeat(x, 4 // x.shape[1], 1) for x in c.arrays)
    given = {
        "score": "scaled_dot",
        "mask": None,
        "bias": None,
        "scale": None,
        "softcap": None,
    } | c.option.regard
    layout = Layout((2, 4), None, 7, 9)
    mask = None if given["mask"] is None else regard.mask.as_mask(given["mask"])
    score = regard.scores.as_score(given["score"])
    options = Options(score, mask, given["bias"], given["scale"], given["softcap"], "auto", None)
    whole = regard.partial(q, k, v, **c.option.regard)
    for half in (slice(0, 2), slice(2, 4)):
        for rows in slices(7, 3):
            parts = []
            for columns in slices(9, 4):
                region = Region((slice(0, 2), half), rows, columns)
                arrays = q[:, half, rows], k[:, half, columns], v[:, half, columns]
                parts.append(regard.partial(*arrays, **options.restrict(layout, region, all_visible=False)))
            merged = regard.merge(*parts)
            np.testing.assert_allclose(merged.context, whole.context[:, half, rows], rtol=0, atol=1e-12)
            np.testing.assert_allclose(merged.lse, whole.lse[:, half, rows], rtol=1e-12, atol=1e-12)


def test_a_region_says_where_it_is() -> None:
    assert str(Region((), slice(0, 4), slice(8, 12))) == "queries 0:4, keys 8:12"
    assert (
        str(Region((slice(0, 1), slice(2, 4)), slice(0, 4), slice(8, 12)))
        == "queries 0:4, keys 8:12 of [0:1, 2:4]"
    )


# ---- gradients through one part -----------------------------------------------------------------------------------

PARTIAL_VJP = [name for name in strategies.SMOOTH_OPTIONS if name in BLOCKS]


@pytest.mark.parametrize("kernel", ["auto", "blocked"])
@pytest.mark.parametrize("name", PARTIAL_VJP)
def test_the_gradients_of_all_parts_add_up_to_those_of_the_whole(name: str, kernel: str) -> None:
    c = case(name, np.float64, n=7, m=9)
    q, k, v = c.arrays
    options = c.option.regard | {"kernel": kernel}
    dcontext = np.random.default_rng(1).standard_normal((2, 4, 7, 3))
    expected = regard.attention_vjp(q, k, v, **options)[1](dcontext)
    gradients = regard.partial_vjp(q, k, v, regard.partial(q, k, v, **options), dcontext, **options)
    for array in ("queries", "keys", "values", "bias"):
        one, other = getattr(gradients, array), getattr(expected, array)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert set(gradients.score) == set(expected.score)
    for key, array in expected.score.items():
        np.testing.assert_allclose(gradients.score[key], array, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kernel", ["auto", "blocked"])
@pytest.mark.parametrize("name", [name for name in PARTIAL_VJP if "normalize" not in name])
def test_the_gradient_of_the_log_sum_exp_is_that_of_differences(name: str, kernel: str) -> None:
    """Of queries, keys and values, for a loss that reads context and lse of an attention merged from two parts."""
    c = case(name, np.float64, n=4, m=5)
    options = c.option.regard | {"kernel": kernel}
    options = {key: value for key, value in options.items() if key != "sink"}

    def loss_of(q: Array, k: Array, v: Array) -> Any:
        merged = regard.partial(q, k, v, **options)
        seen = ~np.isneginf(merged.lse)
        output = np.concatenate([merged.context, np.where(seen, merged.lse, 0)[..., None]], -1)

        def back(doutput: Array) -> tuple[Array, Array, Array]:
            dcontext, dlse = doutput[..., :-1], doutput[..., -1]
            gradients = regard.partial_vjp(q, k, v, merged, dcontext, dlse, **options)
            return gradients.queries, gradients.keys, gradients.values

        return output, back

    assert regard.nn.check_gradients(loss_of, [np.array(x) for x in c.arrays], tolerance=1e-5) < 1e-5


def test_the_gradient_of_a_merged_log_sum_exp_by_hand() -> None:
    """Two parts of one key and three, and a sink: lse = log(1 + 3 + 4), so each key has the weight 1/8."""
    q, k, v, dcontext, dlse = (
        np.zeros((1, 1)),
        np.ones((4, 1)),
        np.zeros((4, 1)),
        np.zeros((1, 1)),
        np.ones(1),
    )
    parts = slice(0, 1), slice(1, 4)
    merged = regard.merge(*(regard.partial(q, k[part], v[part]) for part in parts), sink=np.log(4))
    assert np.exp(merged.lse).round(12) == 8
    gradients = [regard.partial_vjp(q, k[part], v[part], merged, dcontext, dlse) for part in parts]
    np.testing.assert_allclose([x.queries.item() for x in gradients], [1 / 8, 3 / 8])
    assert gradients[1].values.shape == (3, 1)
    assert (gradients[1].values == 0).all()


def test_the_gradient_of_a_log_sum_exp_of_values_of_size_0() -> None:
    q, k, v = np.zeros((1, 1)), np.ones((4, 1)), np.zeros((4, 0))
    gradients = regard.partial_vjp(q, k, v, regard.partial(q, k, v), np.zeros((1, 0)), np.ones(1))
    np.testing.assert_allclose(gradients.queries, [[1]])
    assert gradients.values.shape == (4, 0)


def test_partial_vjp_counts_a_sink_that_merge_has_added() -> None:
    rng = np.random.default_rng(2)
    q, k, v, dcontext = (rng.standard_normal((4, size)) for size in (3, 3, 2, 2))
    expected = regard.attention_vjp(q, k, v, sink=0.5)[1](dcontext)
    halves = slice(0, 1), slice(1, 4)
    merged = regard.merge(*(regard.partial(q, k[part], v[part]) for part in halves), sink=0.5)
    parts = [regard.partial_vjp(q, k[part], v[part], merged, dcontext) for part in halves]
    np.testing.assert_allclose(parts[0].queries + parts[1].queries, expected.queries, atol=1e-14)
    np.testing.assert_allclose(np.concatenate([part.keys for part in parts]), expected.keys, atol=1e-14)
    np.testing.assert_allclose(np.concatenate([part.values for part in parts]), expected.values, atol=1e-14)


@pytest.mark.parametrize("kernel", ["auto", "blocked"])
def test_law_3_a_query_without_a_visible_key_has_no_gradient_through_a_part(kernel: str) -> None:
    q, k, v = np.ones((2, 2)), np.ones((3, 2)), np.arange(6.0).reshape(3, 2)
    mask = np.array([[True, True, False], [False, False, False]])
    merged = regard.partial(q, k, v, mask=mask, kernel=kernel)
    gradients = regard.partial_vjp(q, k, v, merged, np.ones((2, 2)), mask=mask, kernel=kernel)
    assert (gradients.queries[1] == 0).all()
    np.testing.assert_allclose(gradients.values, [[0.5, 0.5], [0.5, 0.5], [0, 0]], atol=1e-15)


def test_errors_of_partial_vjp() -> None:
    q, k, v = np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 1))
    merged = regard.partial(q, k, v)
    assert error(ValueError, regard.partial_vjp, q[:1], k, v, merged, np.ones((1, 1))) == (
        "merged must have a context (..., n, e) = (1, 1). Got (2, 1) instead."
    )
    assert error(ValueError, regard.partial_vjp, q, k, v, merged, np.ones((1, 1))) == (
        "dcontext must have the shape of the context (..., n, e) = (2, 1). Got (1, 1) instead."
    )
    assert error(ValueError, regard.partial_vjp, q, k, v, merged, np.ones((2, 1)), np.ones((2, 1))) == (
        "dlse must have the shape of lse (..., n) = (2,). Got (2, 1) instead."
    )
    assert error(TypeError, regard.partial_vjp, q, k, v, np.ones((2, 1)), np.ones((2, 1))) == (
        "merged must be a Partial. Got ndarray instead.\n  hint: regard.merge(*parts)"
    )
    assert "score must have a method vjp" in error(
        TypeError, regard.partial_vjp, q, k, v, merged, np.ones((2, 1)), score=strategies.manhattan
    )
