"""`KVCache`: its content, its memory, and decoding step by step, which must equal causal attention."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import budget
import ml_dtypes
import numpy as np
import pytest
import strategies
from errors import assert_raises, transcript
from fresh import printed
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import regard
from regard import KVCache, mask, position
from regard.kernels import library

Array = NDArray[Any]
COPIES: tuple[Callable[[KVCache], KVCache], ...] = (
    copy.copy,
    copy.deepcopy,
    lambda cache: pickle.loads(pickle.dumps(cache)),
)
KERNELS = ["blocked", *([] if library.missing() else ["native"])]
LEAD, GROUP, D, E = (2, 3), 2, 8, 5


def arrays(length: int, dtype: Any = np.float32, seed: int = 0) -> tuple[Array, Array, Array]:
    """Queries with twice as many heads as keys and values."""
    rng = np.random.default_rng(seed)
    shapes = (
        (*LEAD[:-1], LEAD[-1] * GROUP, length, D),
        (*LEAD, length, D),
        (*LEAD, length, E),
    )
    q, k, v = (strategies.read_only(rng.standard_normal(shape).astype(dtype)) for shape in shapes)
    return q, k, v


def column(*numbers: float) -> Array:
    """Keys or values of size 1."""
    return np.array(numbers, np.float32)[:, None]


def held(cache: KVCache) -> list[float]:
    """The keys of a cache of columns, whose values must be the same."""
    assert np.array_equal(cache.keys, cache.values, equal_nan=True)
    return [float(x) for x in cache.keys[:, 0]]


def decode(cache: KVCache, q: Array, k: Array, v: Array, sizes: list[int], **options: Any) -> Array:
    """The context of all queries, in chunks of these sizes in turn; each chunk is appended to the cache first."""
    chunks, start, turn = [], cache.length, 0
    while start < q.shape[-2]:
        new = slice(start, min(start + sizes[turn % len(sizes)], q.shape[-2]))
        cache.append(k[..., new, :], v[..., new, :])
        chunks.append(regard.attention(q[..., new, :], cache.keys, cache.values, mask=cache.mask, **options))
        start, turn = new.stop, turn + 1
    return np.concatenate(chunks, axis=-2)


# ------------------------------------------------------------------------------------------ the same as all at once


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("window", [None, 0, 1, 20, 100])
@pytest.mark.parametrize("sizes", [[1], [1, 7, 2]], ids=str)
def test_decoding_is_the_causal_attention(kernel: str, window: int | None, sizes: list[int]) -> None:
    q, k, v = arrays(70)
    cache = KVCache(LEAD, D, E, capacity=70 if window is None else window + max(sizes), window=window)
    context = decode(cache, q, k, v, sizes, kernel=kernel)
    exact = regard.attend(*(x.astype(float) for x in (q, k, v)), mask=mask.window(window, 0))
    allowed = budget.of_dot(q, k, v, exact.weights, D**-0.5, np.float32)
    budget.assert_within(context, exact.context, allowed)


@pytest.mark.skipif(bool(library.missing()), reason="a promise of the native kernel")
@pytest.mark.parametrize("dtype", strategies.DTYPES.values(), ids=strategies.DTYPES)
def test_decoding_by_the_native_kernel_is_bitwise_the_causal_attention(dtype: Any) -> None:
    q, k, v = arrays(300, dtype)
    context = decode(KVCache(LEAD, D, E, capacity=300, dtype=dtype), q, k, v, [1, 1, 3, 40], kernel="native")
    full = regard.attention(q, k, v, mask=mask.causal(), kernel="native")
    assert context.dtype == dtype
    assert context.tobytes() == full.tobytes()


@pytest.mark.parametrize("window", [None, 6])
def test_scores_that_depend_on_distance_have_the_keys_in_order(window: int | None) -> None:
    q, k, v = arrays(40, float)
    cache = KVCache(LEAD, D, E, capacity=40 if window is None else 9, window=window, dtype=float)
    heads = LEAD[-1] * GROUP
    context = decode(cache, q, k, v, [2, 1, 3], bias=position.alibi(heads, align="end"))
    full = regard.attend(q, k, v, mask=mask.window(window, 0), bias=position.alibi(heads))
    np.testing.assert_allclose(context, full.context, rtol=0, atol=1e-13)


def test_entries_padded_at_the_front_are_masked() -> None:
    q, k, v = arrays(6, float)
    padding = [[0], [4]]
    cache = KVCache(LEAD, D, E, capacity=6, dtype=float)
    cache.append(k, v)
    visible = cache.mask & ~mask.lengths(padding)
    context = regard.attention(q[..., -2:, :], cache.keys, cache.values, mask=visible)
    short = regard.attend(q[1, :, 4:], k[1, :, 4:], v[1, :, 4:], mask=mask.causal()).context
    np.testing.assert_allclose(context[1], short, rtol=0, atol=1e-13)


@pytest.mark.parametrize("window", [None, 3])
def test_entries_padded_at_the_front_are_masked_at_every_step(window: int | None) -> None:
    """As in the docstring; lengths count from the oldest stored key."""
    q, k, v = arrays(12, float)
    padding = np.array([[0], [4]])
    cache = KVCache(LEAD, D, E, window=window, capacity=None if window else 12, dtype=float)
    visible = mask.causal() if window is None else mask.window(window, 0)
    full = regard.attend(q, k, v, mask=visible & ~mask.lengths(padding)).context
    for i in range(12):
        cache.append(k[..., i : i + 1, :], v[..., i : i + 1, :])
        m = cache.keys.shape[-2]
        hidden = mask.lengths(np.clip(padding - (cache.length - m), 0, m))
        context = regard.attention(q[..., i : i + 1, :], cache.keys, cache.values, mask=cache.mask & ~hidden)
        np.testing.assert_allclose(context[..., 0, :], full[..., i, :], rtol=0, atol=1e-13)


def test_every_function_takes_the_views_and_the_mask() -> None:
    q, k, v = arrays(7, float)
    cache = KVCache(LEAD, D, E, capacity=7, dtype=float)
    cache.append(k, v)
    options = {"mask": cache.mask}
    context = regard.attend(q[..., -3:, :], cache.keys, cache.values, **options).context
    for result in (
        regard.attention(q[..., -3:, :], cache.keys, cache.values, **options),
        regard.partial(q[..., -3:, :], cache.keys, cache.values, **options).context,
        regard.attention_vjp(q[..., -3:, :], cache.keys, cache.values, **options)[0],
    ):
        np.testing.assert_allclose(result, context, rtol=0, atol=1e-13)


# ------------------------------------------------------------------------------------------------- what is held

# append so many positions, or remove so many
MOVES = st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=25)


@pytest.mark.slow
@given(st.none() | st.integers(0, 5), st.integers(1, 7), MOVES)
def test_the_stored_keys_are_those_visible_to_the_newest_positions(
    window: int | None, spare: int, moves: list[tuple[bool, int]]
) -> None:
    cache = KVCache((), 1, capacity=200 if window is None else window + spare, window=window)
    positions: list[float] = []
    written, newest, fresh = 0, 0, 0.0  # written: the furthest so far
    for append, size in moves:
        if append:
            count = size if window is None else min(size, spare)
            numbers = [fresh + i for i in range(count)]  # every position ever appended has its own number
            fresh, newest = fresh + count, count or newest
            cache.append(column(*numbers), column(*numbers))
            positions += numbers
            written = max(written, len(positions))
        else:
            back = min(size, len(positions))
            left = len(positions) - back
            lost = 0 if window is None else max(0, written - window - spare)
            if left and max(0, left - (window or 0)) < lost:
                with pytest.raises(ValueError, match="is overwritten"):
                    cache.truncate(left)
                continue
            cache.truncate(left)
            positions = positions[:left]
            newest = max(0, newest - back)
            written = written if left else 0
        count = len(positions) if window is None else min(len(positions), window + newest)
        assert cache.length == len(positions)
        assert held(cache) == positions[len(positions) - count :]


@pytest.mark.parametrize("dtype", strategies.DTYPES.values(), ids=strategies.DTYPES)
def test_values_are_stored_in_the_dtype_of_the_cache(dtype: Any) -> None:
    _, k, v = arrays(9, float)
    cache = KVCache(LEAD, D, E, capacity=9, dtype=dtype)
    cache.append(k[..., ::-1, :], v[..., ::-1, :])
    assert cache.keys.dtype == cache.values.dtype == dtype
    assert cache.keys.tobytes() == k[..., ::-1, :].astype(dtype).tobytes()
    assert cache.values.tobytes() == v[..., ::-1, :].astype(dtype).tobytes()


def test_integers_and_other_byte_orders_are_numbers() -> None:
    cache = KVCache((), 1, capacity=3, dtype=">f4")
    cache.append([[1]], np.array([[1.0]], ">f8"))
    cache.append([[True]], np.array([[1]], np.uint8))
    assert held(cache) == [1, 1]
    assert cache.keys.dtype.isnative


def test_overflow_of_the_dtype_is_a_warning_of_numpy() -> None:
    cache = KVCache((), 1, capacity=1, dtype=np.float16)
    with pytest.warns(RuntimeWarning, match="overflow"):
        cache.append([[1e6]], [[0.0]])


def test_one_number_stands_for_one_leading_dimension() -> None:
    assert repr(regard.KVCache(np.array(3), 2, capacity=3)) == repr(regard.KVCache(3, 2, capacity=3))  # type: ignore[arg-type]
    cache = KVCache(2, 3, capacity=4)
    cache.append(np.ones((2, 1, 3)), np.ones((2, 1, 3)))
    assert cache.keys.shape == (2, 1, 3)


@pytest.mark.parametrize("window", [None, 2])
def test_views_are_read_only(window: int | None) -> None:
    cache = KVCache((), 1, capacity=4, window=window)
    cache.append(column(1), column(1))
    assert not cache.keys.flags.writeable
    assert not cache.values.flags.writeable


def test_a_cache_may_append_its_own_views() -> None:
    cache = KVCache((), 1, capacity=5, window=2)
    for number in range(5):
        cache.append(column(number), column(number))
    assert held(cache) == [2, 3, 4]
    cache.append(cache.keys, cache.values)  # written over 0, 1 and 2 itself
    assert held(cache) == [3, 4, 2, 3, 4]


def test_an_empty_cache_is_emptied_and_filled_again() -> None:
    cache = KVCache((), 1, window=2)
    for number in range(9):
        cache.append(column(number), column(number))
    cache.truncate(0)
    assert (held(cache), cache.length) == ([], 0)
    cache.append(column(7), column(7))
    cache.append(column(8), column(8))
    cache.truncate(1)  # allowed, although positions were overwritten before
    assert held(cache) == [7]


def test_overwritten_positions_stay_overwritten_after_truncation() -> None:
    cache = KVCache((), 1, window=1, capacity=4)
    for number in range(10):
        cache.append(column(number), column(number))
    cache.truncate(7)  # 6, 7, 8 and 9 were held; 5 was not
    cache.append(column(70), column(70))
    with pytest.raises(ValueError, match="length must be at least 7, or 0"):
        cache.truncate(6)
    assert held(cache) == [6, 70]


# ------------------------------------------------------------------------------------- nothing moves, nothing grows


def address(array: Array) -> int:
    """The address of an array."""
    start: int = array.__array_interface__["data"][0]
    return start


def test_growing_moves_nothing() -> None:
    _, k, v = arrays(500)
    cache = KVCache(LEAD, D, E, capacity=500)
    cache.append(k[..., :1, :], v[..., :1, :])
    first = cache.keys
    addresses = address(cache.keys), address(cache.values)
    for i in range(1, 500):
        cache.append(k[..., i : i + 1, :], v[..., i : i + 1, :])
    assert (address(cache.keys), address(cache.values)) == addresses
    assert np.array_equal(first, k[..., :1, :])


@pytest.mark.slow
@pytest.mark.parametrize("window", [None, 1000])
def test_a_step_allocates_nothing(window: int | None) -> None:
    one = np.ones((1, 64), np.float64)  # of another data type than the cache
    cache = KVCache((), 64, capacity=5000, window=window, dtype=np.float16)
    tracemalloc.start()
    try:
        for _ in range(4000):
            cache.append(one, one)
            view = cache.keys
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert view.base is not None
    assert peak < 64 * 2 * 1000  # a tenth of the final content, or half of the window


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="resident size is read from /proc")
@pytest.mark.parametrize("window", ["None", "100"])
def test_unwritten_positions_take_no_memory(window: str) -> None:
    code = f"""
        import numpy as np, regard
        def resident():
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))
        one = np.ones((1, 64), np.float32)
        before = resident()
        cache = regard.KVCache((), 64, capacity=1 << 22, window={window})
        for _ in range(5000):
            cache.append(one, one)
        print(resident() - before)
    """
    written = 5000 * 64 * 4 * (2 if window == "None" else 4)  # twice in a ring buffer
    assert int(printed(code)) < written + (12 << 20)  # large pages round up; all of it is 2 GiB


# ------------------------------------------------------------------------------------------------- the other laws


@pytest.mark.parametrize("kernel", KERNELS)
def test_law_2_removed_positions_have_no_influence(kernel: str) -> None:
    ring, line = KVCache((), 1, window=2), KVCache((), 1, capacity=9)
    for number in (np.nan, np.inf, 1, 1, 1):
        ring.append(column(number), column(number))
        line.append(column(number), column(number))
    line.truncate(0)
    line.append(column(1), column(1))
    for cache in (ring, line):
        context = regard.attention(column(1), cache.keys, cache.values, mask=cache.mask, kernel=kernel)
        assert context.tolist() == [[1.0]]


@pytest.mark.parametrize("kernel", KERNELS)
def test_law_4_a_nan_reaches_the_rows_to_which_it_is_visible(kernel: str) -> None:
    cache = KVCache((), 1, window=1, capacity=6)
    cache.append(column(0, 0, np.nan, 0, 0), column(1, 1, 1, 1, 1))
    context = regard.attention(column(*range(5)), cache.keys, cache.values, mask=cache.mask, kernel=kernel)
    assert np.isnan(context[:, 0]).tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("window", [None, 3])
def test_law_8_empty_arrays_are_fine(kernel: str, window: int | None) -> None:
    cache = KVCache(LEAD, D, E, capacity=5, window=window)
    q, k, v = arrays(0)
    for count in (0, 2, 0):
        cache.append(np.ones((*LEAD, count, D)), np.ones((*LEAD, count, E)))
    assert cache.length == 2
    cache.append(k, v)
    context = regard.attention(q, cache.keys, cache.values, mask=cache.mask, kernel=kernel)
    assert context.shape == (LEAD[0], LEAD[1] * GROUP, 0, E)
    empty = KVCache((0,), 0, capacity=5, window=window)
    empty.append(np.ones((0, 2, 0)), np.ones((0, 2, 0)))
    assert empty.keys.shape == empty.values.shape == (0, 2, 0)


def test_law_3_a_query_of_an_empty_cache_has_no_visible_key() -> None:
    cache = KVCache((), 1, capacity=5)
    context = regard.attention(np.ones((1, 1)), cache.keys, cache.values, mask=mask.causal(align="end"))
    assert context.tolist() == [[0.0]]


# ------------------------------------------------------------------------------------------------------- errors


def o(*shape: int) -> Array:
    """Ones of this shape."""
    return np.ones(shape)


def line(count: int = 0, **options: Any) -> KVCache:
    """A cache of two heads with so many positions, appended one by one."""
    cache = KVCache((2,), 4, 3, **(options or {"capacity": 16}))
    for _ in range(count):
        cache.append(o(2, 1, 4), o(2, 1, 3))
    return cache


def attend_newest(cache: KVCache, n: int, visible: regard.mask.Mask | None = None) -> Array:
    """Attend with so many queries."""
    return regard.attention(
        o(2, n, 4), cache.keys, cache.values, mask=cache.mask if visible is None else visible
    )


def an_old_mask() -> Array:
    cache = line(5)
    old_mask = cache.mask
    cache.append(o(2, 1, 4), o(2, 1, 3))
    return attend_newest(cache, 1, old_mask)


ERRORS = """\
KVCache((2,), 4)
    ValueError: a cache needs capacity= or window=.
      hint: capacity: largest number of positions (unwritten ones cost no memory). window: visible past keys
KVCache((2,), 4, capacity=8, window=8)
    ValueError: capacity must be greater than window: 8 and 8
      hint: a query attends to the window and its own position; window + t allows t to be appended at once
KVCache((2,), 4, capacity=0)
    ValueError: capacity must be at least 1. Got 0 instead.
KVCache((2,), 4, window=-1)
    ValueError: window must be at least 0. Got -1 instead.
KVCache((2.5,), 4, window=1)
    TypeError: batch_shape must be an integer. Got 2.5 instead.
KVCache((2,), -4, window=1)
    ValueError: d must be at least 0. Got -4 instead.
KVCache((2,), 4, -3, window=1)
    ValueError: e must be at least 0. Got -3 instead.
line(capacity=1, dtype=int)
    TypeError: dtype must be float16, bfloat16, float32 or float64. Got <class 'int'> instead.
      hint: bfloat16 is ml_dtypes.bfloat16
line(capacity=1, dtype="float33")
    TypeError: dtype must be float16, bfloat16, float32 or float64. Got 'float33' instead.
      hint: bfloat16 is ml_dtypes.bfloat16
line(capacity=1, dtype=np.longdouble)
    TypeError: dtype must be float16, bfloat16, float32 or float64. Got <class 'numpy.longdouble'> instead.
      hint: bfloat16 is ml_dtypes.bfloat16
line(16).append(o(2, 2, 4), o(2, 2, 3))
    ValueError: a cache must not hold more than capacity = 16 positions: 16 + 2
      hint: create it with a larger capacity= (unwritten positions cost no memory), or with window=
line(window=4).append(o(2, 2, 4), o(2, 2, 3))
    ValueError: at most capacity - window = 1 positions can be appended at once: 2
      hint: append them in parts, or create the cache with capacity=6
line().append(o(2, 1, 5), o(2, 1, 3))
    ValueError: keys must have shape (..., m, d) = (2, m, 4). Got (2, 1, 5) instead.
line().append(o(2, 1, 4), o(2, 1, 4))
    ValueError: values must have shape (..., m, e) = (2, m, 3). Got (2, 1, 4) instead.
line().append(o(1, 1, 4), o(1, 1, 3))
    ValueError: keys must have shape (..., m, d) = (2, m, 4). Got (1, 1, 4) instead.
line().append(o(2, 4), o(2, 3))
    ValueError: keys must have shape (..., m, d) = (2, m, 4). Got (2, 4) instead.
      hint: one position is keys[..., None, :]
KVCache((), 1, capacity=1).append(1.0, 1.0)
    ValueError: keys must have shape (..., m, d) = (m, 1). Got () instead.
line().append(o(2, 1, 4), o(2, 2, 3))
    ValueError: keys and values must share their length m: 1 and 2
      keys    (2, 1, 4)        is (..., m, d)
      values  (2, 2, 3)        is (..., m, e)
      hint: every key has one value
line().append(o(2, 1, 4) * 1j, o(2, 1, 3))
    TypeError: keys must hold real numbers. Got dtype complex128 instead.
      hint: attention is defined here for real numbers
line(5).truncate(6)
    ValueError: length must be at most the 5 positions so far. Got 6 instead.
line(5).truncate(-1)
    ValueError: length must be at least 0. Got -1 instead.
line(5).truncate(2.5)
    TypeError: length must be an integer. Got 2.5 instead.
line(17, window=4, capacity=6).truncate(14)
    ValueError: length must be at least 15, or 0: the window before it is overwritten. Got 14 instead.
      hint: capacity=4 + t allows t positions to be truncated
an_old_mask()
    ValueError: the mask of a cache must be used with as many keys as it was made for: 5 and 6
      queries (2, 1, 4)        is (..., n, d)
      keys    (2, 6, 4)        is (..., m, d)
      values  (2, 6, 3)        is (..., m, e)
      hint: read cache.mask, cache.keys and cache.values again after each append
attend_newest(line(9, window=4), 2)
    ValueError: queries must be those of the newest positions, at most 1: 2
      queries (2, 2, 4)        is (..., n, d)
      keys    (2, 5, 4)        is (..., m, d)
      values  (2, 5, 3)        is (..., m, e)
      hint: some visible keys of older positions are overwritten; attend after each append
attend_newest(line(2), 3)
    ValueError: queries must be those of the newest positions, at most 2: 3
      queries (2, 3, 4)        is (..., n, d)
      keys    (2, 2, 4)        is (..., m, d)
      values  (2, 2, 3)        is (..., m, e)
      hint: some visible keys of older positions are overwritten; attend after each append
"""


def test_law_10_the_text_of_every_error() -> None:
    for call, text in transcript(ERRORS):
        assert_raises(call, text, globals())


def test_the_least_length_that_an_error_names_is_fine() -> None:
    cache = line(17, window=4, capacity=6)
    cache.truncate(15)
    assert cache.length == 15


def test_a_failed_append_changes_nothing() -> None:
    cache = KVCache((), 1, capacity=3)
    cache.append(column(1, 2), column(1, 2))
    for keys, values in ((column(3, 4), column(3, 4)), (column(3), column(3, 4)), (column(3), [["x"]])):
        with pytest.raises((ValueError, TypeError)):
            cache.append(keys, values)  # type: ignore[arg-type]
    assert (held(cache), cache.length) == ([1, 2], 2)


@pytest.mark.parametrize("window", [None, 3])
def test_nothing_appended_changes_nothing(window: int | None) -> None:
    cache = regard.KVCache((), 2, window=window, capacity=6)
    for _ in range(2):
        cache.append(np.ones((3, 2)), np.ones((3, 2)))
    before, mask = cache.keys.copy(), cache.mask
    cache.append(np.ones((0, 2)), np.ones((0, 2)))
    np.testing.assert_array_equal(cache.keys, before)
    assert cache.mask == mask
    regard.attention(np.ones((1, 2), np.float32), cache.keys, cache.values, mask=cache.mask)


def test_masks_of_different_states_differ() -> None:
    cache = regard.KVCache((), 2, window=1, capacity=4)
    cache.append(np.ones((1, 2)), np.ones((1, 2)))
    one, again = cache.mask, cache.mask
    cache.append(np.ones((1, 2)), np.ones((1, 2)))
    assert one == again != cache.mask
    assert len({one, again, cache.mask}) == 2
    assert one != regard.mask.window(1, 0, "end")


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_is_independent_and_holds_the_written_part_alone(window: int | None, copied: Any) -> None:
    rng = np.random.default_rng(0)
    capacity = 2 + 3 if window else 100_000
    cache = regard.KVCache((2,), 3, 4, window=window, capacity=capacity, dtype=np.float16)

    def grow(*caches: regard.KVCache) -> None:
        keys, values = rng.standard_normal((2, 2, 3)), rng.standard_normal((2, 2, 4))
        for one in caches:
            one.append(keys, values)

    for _ in range(3):
        grow(cache)
    other = copied(cache)
    assert len(pickle.dumps(cache)) < 3000
    before = cache.keys.copy()
    grow(other)
    np.testing.assert_array_equal(cache.keys, before)
    other.truncate(6)
    assert repr(other) == repr(cache)
    for _ in range(4):
        grow(cache, other)
        np.testing.assert_array_equal(cache.keys, other.keys)
        np.testing.assert_array_equal(cache.values, other.values)
        assert cache.mask == other.mask


def test_a_pickled_ring_has_the_written_part_once() -> None:
    cache = KVCache((), 64, window=1000, capacity=1002)
    cache.append(np.ones((2, 64)), np.ones((2, 64)))
    assert len(pickle.dumps(cache)) < 2 * (2 * 64 * 4) + 2000
    full = KVCache((), 64, window=9)
    for _ in range(30):
        full.append(np.ones((1, 64)), np.ones((1, 64)))
    assert len(pickle.dumps(full)) < 2 * (10 * 64 * 4) + 2000


def test_the_repr_of_a_mask_names_the_cache() -> None:
    assert repr(line(9, window=4).mask) == "window(4, 0, align='end') of a cache that holds 5"


def test_bfloat16_has_a_name() -> None:
    cache = KVCache((2,), 4, capacity=6, dtype=ml_dtypes.bfloat16)
    assert repr(cache) == "KVCache((2,), d=4, e=4, capacity=6, window=None, dtype=bfloat16): length 0"


def test_a_number_that_does_not_fit_leaves_the_cache_unchanged() -> None:
    cache = KVCache((), 1, window=1, capacity=3, dtype=np.float16)
    for new in ([[1], [2]], [[3], [4]]):
        cache.append(new, new)
    before = cache.keys.tolist(), cache.values.tolist(), cache.length
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        cache.append([[5.0], [6.0]], [[5.0], [1e6]])
    assert (cache.keys.tolist(), cache.values.tolist(), cache.length) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": None}, "dtype must be float16, bfloat16, float32 or float64. Got None instead."),
        ({"capacity": 10**19}, f"a cache must have at most {2**63 - 1} bytes of keys, and of values."),
    ],
)
def test_sizes_beyond_memory(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        KVCache((2,), 4, **({"capacity": 3} | options))
    assert str(caught.value).startswith(message)


# ------------------------------------------------------------------------------ prompts of different lengths, beams


class Lists:
    """What a cache must hold, as lists of numbers: the positions of each sequence, without its padding."""

    def __init__(self, count: int, window: int | None) -> None:
        self.window, self.fresh, self.newest = window, 0, 0
        self.sequences: list[list[int]] = [[] for _ in range(count)]
        self.gaps = [0] * count  # columns of padding in front of the newest positions

    def append(self, counts: list[int], m: int) -> Array:
        """Append so many new numbers each; return the m columns (B, m), with -1 as padding."""
        columns = np.full((len(counts), m), -1)
        for b, count in enumerate(counts):
            columns[b, m - count :] = [(self.fresh + i) % 100 for i in range(count)]
            self.sequences[b] += columns[b, m - count :].tolist()
            self.fresh += count
        if m:
            self.newest, self.gaps = m, [m - count for count in counts]
        return columns

    def truncate(self, count: int) -> None:
        """Forget so many of the newest positions, padding included."""
        self.sequences = [numbers[: max(0, len(numbers) - count)] for numbers in self.sequences]
        self.newest = max(0, self.newest - count)

    def reorder(self, indices: list[int]) -> None:
        """Choose sequences."""
        self.sequences = [[*self.sequences[i]] for i in indices]
        self.gaps = [self.gaps[i] for i in indices]

    def visible(self, b: int, i: int) -> list[int] | None:
        """The numbers that query i of the newest positions of a sequence sees; None if it is padding."""
        end = len(self.sequences[b]) - self.newest + 1 + i
        if i < self.gaps[b] or end < 1:
            return None
        return self.sequences[b][0 if self.window is None else max(0, end - 1 - self.window) : end]


class Unwritten:
    """NumPy, but new memory holds NaN."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any) -> Array:
        """An array of NaN."""
        return np.full(shape, np.nan, dtype)


SLOPES = (0.5, 0.25, 0.125, 0.0)


def assert_holds(cache: KVCache, lists: Lists, seed: int, kernel: str) -> None:
    """Compare the attention of the newest positions with sums over the lists."""
    assert cache.lengths.tolist() == [len(numbers) for numbers in lists.sequences]
    assert not np.isnan(cache.keys).any()
    assert np.array_equal(cache.values, np.negative(cache.keys))
    rng, n, held = np.random.default_rng(seed), lists.newest, cache.keys.shape[-2]
    q = rng.random((len(lists.sequences), 4, n, 1))
    hidden = rng.random((n, held)) < 0.2  # by a mask of the user's
    options: dict[str, Any] = {"bias": position.alibi(SLOPES, align="end"), "scale": 0.01, "kernel": kernel}
    context = regard.attention(q, cache.keys, cache.values, mask=cache.mask & ~hidden, **options)
    for b, i in np.ndindex(len(q), n):
        numbers = lists.visible(b, i)
        if numbers is None:
            continue
        first = held - n + i + 1 - len(numbers)
        for head, slope in enumerate(SLOPES):
            keys = {len(numbers) - 1 - j: x + 100 * (head // 2) for j, x in enumerate(numbers)}
            weights = {
                back: math.exp(q[b, head, i, 0] * x * 0.01 - slope * back)
                for back, x in keys.items()
                if not hidden[i, first + len(numbers) - 1 - back]
            }
            total = sum(weight * keys[back] for back, weight in weights.items())
            expected = -total / sum(weights.values()) if weights else 0
            assert context[b, head, i, 0] == pytest.approx(expected, rel=1e-5)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "pad", "pad", "reorder", "truncate", "copy"]),
        st.lists(st.integers(0, 4), min_size=1, max_size=4),
    ),
    min_size=8,
    max_size=14,
)


def take(cache: KVCache, lists: Lists, most: int, step: str, numbers: list[int]) -> KVCache:
    """Do the same to a cache and to lists."""
    b = len(lists.sequences)
    if step == "copy":
        return COPIES[numbers[0] % len(COPIES)](cache)
    if step == "reorder":
        chosen = [i % b for i in numbers] if b else []
        cache.reorder(chosen)
        lists.reorder(chosen)
    elif step == "truncate":
        left = max(0, cache.length - numbers[0])
        with contextlib.suppress(ValueError):  # its window has been overwritten
            cache.truncate(left)
        lists.truncate(numbers[0] if cache.length == left else 0)
    else:
        counts = [min(most, numbers[i % len(numbers) if step == "pad" else 0]) for i in range(b)]
        m = min(most, max(counts, default=0) + (step == "pad" and numbers[0] == 2))
        columns = lists.append(counts, m)[:, None, :, None] + np.array([[[0]], [[100]]])
        cache.append(columns, -columns, lengths=counts if step == "pad" else None)
    return cache


@pytest.mark.slow
@given(
    st.none() | st.integers(0, 5),
    st.integers(1, 6),
    STEPS,
    st.sampled_from(sorted(strategies.DTYPES)),
    st.sampled_from(KERNELS),
)
def test_whatever_is_done_a_cache_holds_what_lists_hold(
    window: int | None, spare: int, steps: list[tuple[str, list[int]]], dtype: str, kernel: str
) -> None:
    """Positions, lengths and masks are right after each operation, and no memory is read before it is written."""
    capacity = 80 if window is None else window + spare
    lists = Lists(3, window)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.cache.np", Unwritten())
        cache = KVCache((3, 2), 1, capacity=capacity, window=window, dtype=strategies.DTYPES[dtype])
        for seed, (step, numbers) in enumerate(steps):
            cache = take(cache, lists, 4 if window is None else spare, step, numbers)
            assert_holds(cache, lists, seed, kernel)


def test_reordering_after_padding_copies_what_each_sequence_holds() -> None:
    """The padded sequence has lost position 1, which the other one still sees."""
    cache = KVCache(2, 1, window=1)
    for numbers in ([1, 2], [3, 4], [5, 6]):
        x = np.reshape(numbers, (2, 1, 1))
        cache.append(x, x, lengths=[1, 0] if numbers == [5, 6] else None)
    cache.reorder([0, 0])
    assert cache.keys[..., 0].tolist() == [[3, 5], [3, 5]]


def test_padding_has_no_influence_and_its_queries_have_no_visible_key() -> None:
    """Law 2 for a first batch of prompts: NaN in front of the shorter one."""
    cache = KVCache((2, 1), 1, capacity=4)
    x = np.array([[[[1], [2], [3]]], [[[np.nan], [np.nan], [3]]]], np.float32)
    cache.append(x, x, lengths=[3, 1])
    context = regard.attention(np.zeros((2, 1, 3, 1), np.float32), cache.keys, cache.values, mask=cache.mask)
    assert context[..., 0].tolist() == [[[1.0, 1.5, 2.0]], [[0.0, 0.0, 3.0]]]
    assert (cache.length, cache.lengths.tolist()) == (3, [3, 1])


def test_without_padding_the_mask_is_a_band_as_before() -> None:
    """So that it takes the fast path."""
    cache = KVCache((2, 1), 1, window=2, capacity=8)
    x = np.ones((2, 1, 3, 1))
    cache.append(x, x, lengths=[3, 2])
    assert not isinstance(cache.mask, mask.window)
    for _ in range(3):
        cache.append(x[:, :, :1], x[:, :, :1])
    assert isinstance(cache.mask, mask.window)  # the padding has been overwritten
    cache.append(x, x, lengths=(3, 3))
    assert isinstance(cache.mask, mask.window)
    assert cache.lengths.tolist() == [9, 8]


def test_lengths_without_leading_dimensions_is_one_number() -> None:
    cache = KVCache((), 1, capacity=4)
    cache.append(column(1, 2), column(1, 2))
    assert cache.lengths.shape == ()
    assert cache.lengths == 2


@pytest.mark.parametrize("window", [None, 2])
def test_beams_may_become_more_or_fewer(window: int | None) -> None:
    cache = KVCache((1, 1), 1, capacity=6, window=window)
    x = np.array([[[[1], [2], [3]]]], np.float32)
    cache.append(x, x)
    cache.reorder([0, 0, 0, 0])
    assert cache.keys.tolist() == x.tolist() * 4
    cache.append(np.arange(4.0).reshape(4, 1, 1, 1), np.arange(4.0).reshape(4, 1, 1, 1))
    cache.reorder(np.array([3, 1]))
    tail = [2, 3] if window else [1, 2, 3]
    assert cache.keys[:, 0, :, 0].tolist() == cache.values[:, 0, :, 0].tolist() == [[*tail, 3], [*tail, 1]]
    assert repr(cache).startswith("KVCache((2, 1), d=1, e=1, capacity=6")
    cache.reorder([])
    assert cache.keys.shape == (0, 1, len(tail) + 1, 1)
    again = pickle.loads(pickle.dumps(cache))
    assert (again.length, again.lengths.shape) == (4, (0,))


def test_reordering_moves_nothing_and_copies_only_what_changes() -> None:
    """Arrays stay where they are, and extra memory is that of a few positions."""
    cache = KVCache((3, 4), 64, capacity=3000)
    new = np.random.default_rng(0).standard_normal((3, 4, 3000, 64)).astype(np.float32)
    cache.append(new, new)
    key_address, before = address(cache.keys), cache.keys.copy()
    tracemalloc.start()
    try:
        cache.reorder([1, 1, 0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert address(cache.keys) == key_address
    assert np.array_equal(cache.keys, before[[1, 1, 0]])
    assert np.array_equal(cache.values, before[[1, 1, 0]])
    assert peak < before.nbytes / 8


def test_a_copy_has_lengths_of_its_own() -> None:
    cache = KVCache((2, 1), 1, capacity=9)
    x = np.ones((2, 1, 3, 1), np.float32)
    cache.append(x, x, lengths=[3, 1])
    for other in (copy.copy(cache), copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        other.reorder([1, 0])
        other.append(x, x, lengths=[0, 2])
        assert (other.lengths.tolist(), cache.lengths.tolist()) == ([1, 5], [3, 1])


ERRORS_OF_LENGTHS = """\
c.append(x, x, lengths=[1])
    ValueError: lengths must have shape (B,) = (2,). Got (1,) instead.
c.append(x, x, lengths=[1, 4])
    ValueError: lengths must be at most 3. Got 4 instead.
c.append(x, x, lengths=[-1, 3])
    ValueError: lengths must be at least 0. Got -1 instead.
c.append(x, x, lengths=[1.0, 3.0])
    TypeError: lengths must hold integers. Got dtype float64 instead.
c.reorder([0, 2])
    ValueError: indices must be at most 1. Got 2 instead.
c.reorder([0, -1])
    ValueError: indices must be at least 0. Got -1 instead.
c.reorder([[0, 1]])
    ValueError: indices must be (B',). Got shape (1, 2) instead.
c.reorder([0.0, 1.0])
    TypeError: indices must hold integers. Got dtype float64 instead.
KVCache((), 1, capacity=2).reorder([0])
    ValueError: reorder needs a first leading dimension, that of the sequences: batch_shape ()
      hint: KVCache((batch, heads), ...); KVCache(1, ...) for one sequence
KVCache((), 1, capacity=9).append(x[0, 0], x[0, 0], lengths=[2])
    ValueError: lengths needs a first leading dimension, that of the sequences: batch_shape ()
      hint: KVCache((batch, heads), ...); KVCache(1, ...) for one sequence
"""


def test_law_10_wrong_lengths_and_indices_change_nothing() -> None:
    cache = KVCache((2, 1), 1, capacity=9)
    x = np.ones((2, 1, 3, 1), np.float32)
    cache.append(x, x, lengths=[2, 3])
    for call, text in transcript(ERRORS_OF_LENGTHS):
        assert_raises(call, text, globals() | {"c": cache, "x": x})
        assert (cache.length, cache.lengths.tolist(), cache.keys.shape) == (3, [2, 3], (2, 1, 3, 1)), call
