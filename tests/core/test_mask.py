"""Masks: arrays by hand, the algebra of & | ~, and blocks compared with the full array."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from one_test import in_one_test

import regard
from regard import mask
from regard._layout import Layout

Bools = NDArray[np.bool_]

PICTURES: dict[str, tuple[Any, str]] = {
    "causal, square": (lambda: mask.causal(), "100 110 111"),
    "causal, start": (lambda: mask.causal(align="start"), "1000 1100"),
    "causal, end": (lambda: mask.causal(align="end"), "1110 1111"),
    "causal, end, more queries than keys": (lambda: mask.causal(align="end"), "00 00 10 11"),
    "causal, start, more queries than keys": (lambda: mask.causal(align="start"), "10 11 11 11"),
    "window": (lambda: mask.window(1, 1), "1100 1110 0111 0011"),
    "window of the own place": (lambda: mask.window(0, 0), "100 010 001"),
    "window without a left bound": (lambda: mask.window(None, 1), "1100 1110 1111 1111"),
    "window without a right bound": (lambda: mask.window(1, None), "1111 1111 0111 0011"),
    "window without bounds": (lambda: mask.window(None, None), "111 111 111"),
    "window, start": (lambda: mask.window(1, 0, align="start"), "10000 11000"),
    "window, end": (lambda: mask.window(1, 0, align="end"), "00110 00011"),
    "causal, from key 1 on": (lambda: mask.causal(align=1), "11000 11100"),
    "causal, keys before the first query": (lambda: mask.causal(align=-1), "000 100 110"),
    "window, from key 2 on": (lambda: mask.window(1, 0, align=2), "01100 00110"),
    "prefix, from key 1 on": (lambda: mask.prefix(3, align=1), "1110 1110 1111"),
    "lengths": (lambda: mask.lengths(2), "1100 1100"),
    "lengths 0": (lambda: mask.lengths(0), "000 000"),
    "lengths of both": (lambda: mask.lengths(2, 1), "1100 0000"),
    "documents": (lambda: mask.documents([7, 7, -1]), "110 110 001"),
    "causal in chunks": (lambda: mask.causal() & mask.documents([0, 0, 1, 1]), "1000 1100 0010 0011"),
    "first key and a window": (
        lambda: mask.causal() & (mask.lengths(1) | mask.window(1, 0)),
        "1000 1100 1110 1011",
    ),
    "documents of keys": (lambda: mask.documents([0, 1], [1, 0, 1]), "010 101"),
    "prefix": (lambda: mask.prefix(2), "1100 1100 1110 1111"),
    "prefix 0 is causal": (lambda: mask.prefix(0), "100 110 111"),
    "prefix, start": (lambda: mask.prefix(2, align="start"), "1100 1100"),
    "prefix, end": (lambda: mask.prefix(1, align="end"), "1100 1110 1111"),
    "not": (lambda: ~mask.causal(), "011 001 000"),
    "and": (lambda: mask.causal() & mask.window(1, 5), "100 110 011"),
    "or": (lambda: mask.window(0, 0) | mask.lengths(1), "100 110 101"),
    "array and object": (lambda: mask.causal() & np.array([True, False, True]), "100 100 101"),
    "object from the right": (lambda: np.array([True, False, True]) & mask.causal(), "100 100 101"),
    "array or object": (lambda: np.array([True, False, False]) | mask.window(0, 0), "100 110 101"),
}


def picture(dense: Bools) -> str:
    """Rows of 0 and 1."""
    return " ".join("".join(str(int(x)) for x in row) for row in dense)


@in_one_test("name", PICTURES)
def test_masks_by_hand(name: str) -> None:
    build, expected = PICTURES[name]
    n, m = expected.count(" ") + 1, len(expected.split(" ")[0])
    dense = build().dense(n, m)
    assert dense.dtype == np.bool_
    assert picture(dense) == expected


def test_masks_aligned_to_the_last_key_of_each_sequence_by_hand() -> None:
    """Two new positions of sequences of 4, 2 and 3 keys, the last two in a batch of 4 keys."""
    ends = np.array([4, 2, 3]) - 2
    causal, near = mask.causal(align=ends), mask.window(1, 0, align=ends)
    assert [picture(x) for x in causal.dense(2, 4)] == ["1110 1111", "1000 1100", "1100 1110"]
    assert [picture(x) for x in near.dense(2, 4)] == ["0110 0011", "1000 1100", "1100 0110"]
    assert [picture(x) for x in mask.window(None, 1, align=ends).dense(2, 4)][1] == "1100 1110"
    assert picture(mask.window(0, None, align=ends).dense(2, 4)[0]) == "0011 0001"
    assert mask.window(None, None, align=ends).dense(2, 4).all()
    assert [picture(x) for x in mask.prefix([2, 1, 1], align=ends).dense(2, 4)][1:] == [
        "1000 1100",
        "1100 1110",
    ]


def test_an_alignment_of_each_sequence_takes_no_array_of_all_pairs() -> None:
    n = m = 1 << 13
    tracemalloc.start()
    try:
        bound = mask.bound(mask.window(9, 5, align=[0, 7]), Layout((2,), None, n, m))
        filled = [step.fill() for step in bound.steps() or []]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(filled) > 2
    assert peak < 20 * (n + m)


def test_expanding_a_mask_takes_little_more_than_its_array() -> None:
    composed = mask.causal(align="start") & mask.window(255, 0, align="start") | ~mask.lengths([[7], [1500]])
    tracemalloc.start()
    try:
        dense = composed.dense(1536, 2048)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * dense.nbytes
    i, j, lengths = np.arange(1536)[:, None], np.arange(2048), np.array([7, 1500])[:, None, None, None]
    assert np.array_equal(dense, ((j <= i) & (i - 255 <= j)) | ~(j < lengths))


@pytest.mark.parametrize(("items", "n", "m"), [(700, 33, 31), (3, 1100, 1000), (2, 3, 600_000)])
def test_a_mask_expanded_in_blocks_is_complete(items: int, n: int, m: int) -> None:
    counts = np.arange(items) * m // items
    i, j = np.arange(n)[:, None], np.arange(m)
    expected = (j <= i + (m - n)) & (j < counts[:, None, None])
    assert np.array_equal((mask.causal(align="end") & mask.lengths(counts)).dense(n, m), expected)


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("m", [0, 3])
def test_zero_sizes(n: int, m: int) -> None:
    masks = [
        mask.causal(align="end"),
        mask.window(1, 1, align="start"),
        mask.lengths(0),
        mask.prefix(0, align="end"),
        mask.documents(np.zeros(n, int), np.zeros(m, int)),
        ~mask.causal(align="end") | mask.lengths(0),
    ]
    assert [x.dense(n, m).shape for x in masks] == [(n, m)] * len(masks)


@pytest.mark.slow
@given(st.data(), st.integers(0, 9), st.integers(0, 9))
def test_any_composition_equals_that_of_the_arrays(data: st.DataObject, n: int, m: int) -> None:
    composed, dense = data.draw(strategies.mask_objects(n, m, depth=3))
    np.testing.assert_array_equal(composed.dense(n, m), np.broadcast_to(dense, (n, m)))


def part_of(length: int) -> st.SearchStrategy[slice]:
    """Any part of a length but an empty one."""
    ends = st.tuples(st.integers(0, length - 1), st.integers(0, length - 1))
    return ends.map(lambda ends: slice(min(ends), max(ends) + 1))


@pytest.mark.slow
@given(st.data(), st.integers(1, 9), st.integers(1, 9))
def test_any_block_is_what_the_array_shows_there(data: st.DataObject, n: int, m: int) -> None:
    lead, split = data.draw(st.sampled_from([((), None), ((3,), None), ((2, 4), None), ((2, 4), (2, 2))]))
    composed, dense = data.draw(strategies.mask_objects(n, m, lead=lead))
    dense = np.broadcast_to(dense, (*lead, n, m)).reshape(-1, n, m)
    rule = mask.bound(composed, Layout(lead, split, n, m))
    for _ in range(5):
        region = tuple(data.draw(part_of(size)) for size in dense.shape)
        known = rule.classify(*region)
        assert known is None or (dense[region] == known).all()
        assert known is not None or dense[region].size != 1  # a single pair is known
        block = np.broadcast_to(rule.block(*region), dense[region].shape)
        np.testing.assert_array_equal(block, dense[region])


def test_a_block_is_masked_where_one_part_is_whatever_a_function_of_the_users_says() -> None:
    class Unknown(mask.Mask):
        def bind(self, layout: Any) -> Any:
            return lambda items, rows, columns: pytest.fail("its bounds are not known")

    layout, one = Layout((), None, 4, 4), slice(0, 1)
    assert mask.bound(Unknown() & mask.causal(), layout).classify(one, slice(0, 2), slice(2, 4)) is False
    assert mask.bound(Unknown() | mask.causal(), layout).classify(one, slice(2, 4), slice(0, 2)) is True
    assert mask.bound(Unknown() & mask.causal(), layout).classify(one, slice(2, 4), slice(0, 2)) is None
    assert mask.bound(~Unknown(), layout).classify(one, one, one) is None


@given(st.data(), st.integers(1, 9), st.integers(1, 9))
def test_an_attention_has_the_visible_keys_of_the_mask(data: st.DataObject, n: int, m: int) -> None:
    composed, dense = data.draw(strategies.mask_objects(n, m, depth=2))
    weights = regard.attend(np.zeros((n, 1)), np.zeros((m, 1)), np.zeros((m, 1)), mask=composed).weights
    np.testing.assert_array_equal(weights > 0, np.broadcast_to(dense, (n, m)))


def test_a_mask_can_be_used_again_for_other_shapes() -> None:
    causal = mask.causal(align="end")
    assert picture(causal.dense(2, 3)) == "110 111"
    assert picture(causal.dense(1, 2)) == "11"
    assert picture(causal.dense(2, 3)) == "110 111"


def test_changing_the_array_of_lengths_later_changes_nothing() -> None:
    counts = np.array(1)
    lengths = mask.lengths(counts)
    counts[...] = 3
    assert picture(lengths.dense(1, 3)) == "100"


@pytest.mark.parametrize("heads", [True, False])
def test_a_mask_by_head_counts_query_heads(heads: bool) -> None:
    """4 query heads read 2 key heads; the mask differs for each of the 4."""
    counts = np.array([0, 1, 2, 3])
    by_head = mask.lengths(counts) if heads else np.arange(3) < counts[:, None, None]
    q, k, v = np.zeros((4, 2, 1)), np.zeros((2, 3, 1)), np.broadcast_to([[1.0], [2.0], [6.0]], (2, 3, 1))
    for context in (regard.attend(q, k, v, mask=by_head).context, regard.attention(q, k, v, mask=by_head)):
        np.testing.assert_allclose(context[:, 0, 0], [0, 1, 1.5, 3], rtol=1e-15)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint64, np.int64])
def test_sizes_are_pythons_own_numbers(kind: type[np.integer[Any]]) -> None:
    expected = mask.window(2, 1).dense(5, 5)
    assert (mask.window(kind(2), kind(1)).dense(kind(5), kind(5)) == expected).all()
    largest = np.iinfo(kind).max
    assert mask.window(0, largest, align="end").dense(2, 4).tolist() == [[0, 0, 1, 1], [0, 0, 0, 1]]
    x = np.zeros((3, 1))
    near = regard.weights.local_m(kind(1))
    assert (
        regard.attend(x, x, x, normalize=near).weights
        == regard.attend(x, x, x, normalize=regard.weights.local_m(1)).weights
    ).all()


class Strictly(mask.causal):
    """Keys before the own position only, by `bind` alone, without a program for the library."""

    def bind(self, layout: Any) -> Any:
        inner = super().bind(layout)

        def evaluate(items: slice, rows: slice, columns: slice) -> Any:
            own = np.arange(columns.start, columns.stop) == np.arange(rows.start, rows.stop)[:, None]
            return inner.block(items, rows, columns) & ~own[None]

        return evaluate


@pytest.mark.parametrize(
    "make", [lambda: Strictly(), lambda: Strictly() & mask.causal(), lambda: ~~Strictly()]
)
def test_a_mask_class_with_another_bind_is_used(make: Any) -> None:
    x = np.eye(4)
    expected = np.tril(np.ones((4, 4), bool), -1)
    assert (make().dense(4, 4) == expected).all()
    np.testing.assert_allclose(
        regard.attention(x, x, x, mask=make()), regard.attend(x, x, x, mask=expected).context
    )


WRITTEN = [
    *("causal()", "causal(align='end')", "window(255, 0)", "window(None, 3, align='start')", "prefix(2)"),
    *("prefix([1, 2], align='end')", "documents([0, 0, 1])", "documents([0, 1], keys=[0, 0, 1])"),
    *("lengths([3, 2])", "lengths(3, queries=2)", "causal() & window(255, 0)", "causal() | lengths(2)"),
    *("~causal()", "~(causal() & window(1, 2))", "~causal() & window(1, 2)", "~~causal()"),
    *("(causal() | window(1, 2)) & lengths(3)", "causal() & (window(1, 2) & lengths(3))"),
    *("causal() | window(1, 2) & lengths(3)", "causal() | (window(1, 2) | lengths(3))"),
    *("~(causal() | ~lengths(2, queries=1))", "causal() & [[True, False], [True, True]]"),
]


@in_one_test("text", WRITTEN)
def test_the_repr_of_a_mask_builds_it(text: str) -> None:
    assert repr(eval(text, vars(mask).copy())) == text


def test_large_arrays_are_not_printed() -> None:
    assert repr(mask.lengths(np.zeros(100, int))) == "lengths(<int64 (100,)>)"
    assert repr(mask.causal() & np.ones((9, 9), bool)) == "causal() & <bool (9, 9)>"
    deep: mask.Mask = mask.causal()
    for level in range(690):
        deep = deep & ~deep if level < 2 else ~deep
    assert repr(deep) == "~..."
    many = mask.lengths(1)
    for _ in range(150):
        many = many | mask.lengths(1)  # type: ignore[assignment]
    assert repr(many) == "... | lengths(1)"


def test_a_user_defined_mask_is_printed_with_its_arguments() -> None:
    class Even(mask.Mask):
        def __init__(self, step: int, start: int = 0) -> None:
            self.step, self.first = step, start

    class Odd(mask.Mask):
        def __init__(self, step: int) -> None:
            self.step = step

    assert repr(Even(2)) == "Even(...)"
    assert repr(~Odd(2) & mask.causal()) == "~Odd(2) & causal()"


class Fails:
    """An object without a repr and without equality."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = None  # type: ignore[assignment]


BASES = (mask.Mask, mask.documents, mask.window, regard.scores.Score, regard.scores.cosine)
BASES += (regard.position.alibi, regard.position.t5_buckets, regard.weights.local_m, regard.weights.local_p)
BASES += (regard.weights.entmax, regard.weights.sigmoid)


@in_one_test("base", BASES)
def test_the_repr_of_a_users_class_is_its_call_or_dots(base: type) -> None:
    """Whatever its constructor stores, and by whatever name."""

    def make(init: Callable[..., None], **members: Any) -> type:
        return type("Mine", (base,), {"__init__": init, **members})

    def stores(thing: Any, **attributes: Any) -> None:
        for name, value in attributes.items():
            object.__setattr__(thing, name, value)

    def one(self: Any, dense: Any = 0) -> None:
        stores(self, dense=dense)

    def fails(self: Any) -> None:
        raise RuntimeError("no attribute")

    method = make(lambda self, dense, __repr__: None, dense=lambda self: 1)
    assert repr(method(1, 2)) == "Mine(...)"
    assert repr(make(lambda self, dense=1: None, dense=1)()) == "Mine(...)"
    assert repr(make(lambda self, queries, keys: None)(1, 2)) == "Mine(...)"
    assert repr(make(lambda self, *args: stores(self, args=args))(1, 2)) == "Mine(...)"
    assert repr(make(lambda self, **options: stores(self, options=options))(a=1)) == "Mine(...)"
    assert repr(make(lambda self, dense: None, dense=property(fails))(1)) == "Mine(...)"
    assert repr(make(lambda self, dense: None, dense=property(lambda self: 7))(1)) == "Mine(7)"
    assert repr(make(one)(np.eye(1))) == "Mine(dense=[[1.0]])"
    assert repr(make(one)(0)) == "Mine()"
    assert repr(make(one)(Fails())) == "Mine(...)"
    slotted = make(one, __slots__=("dense",))
    assert repr(slotted(3)) == "Mine(dense=3)"
    itself = make(one, visible=lambda self: True)(1)
    for value, text in ((itself, "Mine(...)"), ([itself], "[Mine(...)]")):
        stores(itself, dense=value)
        assert repr(itself) == f"Mine(dense={text})"
    stores(itself, dense=itself.visible)  # type: ignore[attr-defined]
    assert "Mine(...)" in repr(itself)
    assert len(repr(itself)) < 200


def test_a_users_mask_may_have_a_depth() -> None:
    """The count of levels is no public attribute."""

    class Deep(mask.causal):
        def __init__(self, depth: str) -> None:
            super().__init__()
            object.__setattr__(self, "depth", depth)

    assert repr(~Deep("much") & mask.causal()) == "~Deep('much') & causal()"
