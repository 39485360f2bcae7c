"""Runs the native kernel with every array at the edge of memory that may not be touched.

    guarded.py INSTRUCTION_SET end|start

Arrays of the caller and arrays that `regard.kernels` allocates for the library, results included, end just before or
begin just after a page without any rights: an access one byte too far ends the process. The name of each case is
printed before it runs, so that the last one printed is the one that failed.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import regard
from regard import nn, position
from regard.kernels import fast_path, library, matrix, native, problem, recurrence, training
from regard.seq2seq.networks.recurrent.fused import fused_decoder

Array = NDArray[Any]
PAGE = mmap.PAGESIZE
NO_RIGHTS = 0
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
SIDE = "end"
regions: list[tuple[int, int]] = []


def empty(shape: Any, dtype: Any = float) -> Array:
    """An array at the edge, of zeros."""
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not count:
        return np.zeros(shape, dtype)
    pages = -(-count // PAGE) * PAGE
    start = libc.mmap(
        None, pages + 2 * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANON, -1, 0
    )
    assert start not in (None, ctypes.c_void_p(-1).value)
    for guard in (start, start + PAGE + pages):
        assert libc.mprotect(guard, PAGE, NO_RIGHTS) == 0
    regions.append((start, pages + 2 * PAGE))
    at = start + PAGE + (pages - count if SIDE == "end" else 0)
    memory = (ctypes.c_char * count).from_address(at)
    return np.ndarray(shape, dtype, memory)


def full(shape: Any, value: Any, dtype: Any = float) -> Array:
    """An array at the edge, of this value."""
    x = empty(shape, dtype)
    x[...] = value
    return x


def guarded(x: Any, order: str = "C") -> Any:
    """A copy at the edge."""
    x = np.asarray(x)
    if order == "F":
        return guarded(x.T).T
    copy = empty(x.shape, x.dtype)
    copy[...] = x
    return copy


def is_guarded(x: Array) -> bool:
    """Whether an array lies in one of the regions."""
    at = x.__array_interface__["data"][0]
    return any(start <= at < start + size for start, size in regions)


def release() -> None:
    """Give all regions back."""
    while regions:
        libc.munmap(*regions.pop())


class Edge:
    """NumPy, with new arrays at the edge."""

    zeros, empty, full = staticmethod(empty), staticmethod(empty), staticmethod(full)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class Call(problem.Call):
    """A call whose small arrays (addresses, counts, what is learned) lie at the edge as well."""

    def pointer(self, array: Array) -> int:
        """The address of an array at the edge, or of its copy there."""
        is_copied = array.flags.c_contiguous and not is_guarded(array)
        return super().pointer(guarded(array) if is_copied else array)


def install() -> None:
    """Let the native kernel's Python side make its arrays at the edge."""
    fits, copy = problem._fits, problem._copy
    modules: list[Any] = [library, problem, native, fast_path, position, matrix, recurrence, training]
    for module in modules:
        module.np = Edge()
    problem.Call = Call

    problem._fits = lambda x, dtype: is_guarded(x) and fits(x, dtype)
    problem._copy = lambda x, dtype: guarded(copy(x, dtype))


def options(n: int, m: int, d: int, dtype: Any) -> dict[str, dict[str, Any]]:
    """Options for 4 query heads and 2 key heads."""
    rng = np.random.default_rng(1)
    visible = rng.random((4, n, m)) < 0.5
    added = rng.standard_normal((4, n, m)).astype(dtype)
    ids = regard.mask.documents(guarded(np.arange(n) * 3 // n), guarded(np.arange(m) * 3 // m))
    vector = guarded(rng.standard_normal(d).astype(np.float32 if dtype != np.float64 else dtype))
    lengths = regard.mask.lengths(guarded(np.array([m, m // 2, 0, m])), guarded(np.array([n, 1, n, 0])))
    return {
        "plain": {},
        "softcap": {"softcap": 2.0, "scale": 0.3},
        "mask": {"mask": guarded(visible)},
        "mask by columns": {"mask": guarded(visible[0], "F")},
        "mask of a row": {"mask": guarded(visible[:, :1])},
        "mask of a column": {"mask": guarded(visible[:, :, :1])},
        "documents": {"mask": ids},
        "lengths and band": {"mask": lengths & ~regard.mask.window(1, 2, align="end")},
        "bias": {"bias": guarded(added)},
        "bias by columns": {"bias": guarded(added[0], "F")},
        "bias of a row": {"bias": guarded(added[:, :1]), "mask": guarded(visible[0])},
        "bias of a column": {"bias": guarded(added[:, :, :1])},
        "float16 bias": {"bias": guarded(added[0].astype(np.float16))},
        "alibi": {"bias": regard.position.alibi(4, align="end"), "mask": regard.mask.causal(align="end")},
        "alibi of lengths": {"bias": regard.position.alibi(4, align=np.array([0, 3, -n, m]))},
        "additive": {"score": regard.scores.additive(None, None, vector), "mask": guarded(visible)},
        "gaussian": {"score": regard.scores.gaussian(2.0), "mask": guarded(visible[0])},
        "cosine": {"score": "cosine"},
    }


SIZES = [
    *[(n, m, d, e) for n, (m, d, e) in zip((1, 2, 4), ((131, 5, 7), (64, 17, 19), (1, 1, 1)), strict=True)],
    *[(5, 127, 3, 66), (12, 9, 16, 8), (13, 129, 33, 5), (25, 8, 7, 15), (49, 66, 65, 17), (97, 130, 1, 31)],
    *[(3, 1030, 2, 3), (130, 33, 9, 2), (2, 99, 34, 40)],
]


def run(sizes: tuple[int, int, int, int], dtype: Any, name: str, chosen: dict[str, Any]) -> None:
    """Forward, backward, and in part."""
    n, m, d, e = sizes
    rng = np.random.default_rng(0)
    shapes = (4, n, d), (2, m, d), (2, m, e), (4, n, e)
    q, k, v, g = (guarded(rng.standard_normal(shape).astype(dtype)) for shape in shapes)
    context, pullback = regard.attention_vjp(q, k, v, kernel="native", threads=2, **chosen)
    gradients = pullback(g)
    expected = regard.attention(*(np.array(x) for x in (q, k, v)), kernel="native", **chosen)
    np.testing.assert_array_equal(np.asarray(context, np.float64), np.asarray(expected, np.float64))
    assert np.isfinite(gradients.queries.astype(np.float64)).all()
    if name == "plain":
        v[0, m // 2, 0] = np.nan  # non-finite numbers take a path of their own
        regard.attention_vjp(q, k, v, kernel="native", **chosen)[1](g)


def run_lots(m: int, d: int, e: int, dtype: Any) -> None:
    """One query for each of many items: a task takes several chunks of keys; some processors read ahead in order."""
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((8, m, d + e), dtype=np.float32).astype(dtype)  # once: it takes the most time
    q, k, v = (guarded(x) for x in (drawn[:, -1:, :d], drawn[..., :d], drawn[..., d:]))
    for _ in range(2):
        context = regard.attention(q, k, v, kernel="native", threads=1)
        expected = regard.attention(*(np.array(x) for x in (q, k, v)), kernel="native", threads=3)
        np.testing.assert_array_equal(np.asarray(context, np.float64), np.asarray(expected, np.float64))
        v[3, m // 2, 0] = np.nan


def run_recurrences(T: int, B: int, H: int, A: int, C: int) -> None:
    """Sequences of GRUs with and without attention, a softmax over H words, and Adam."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return guarded(rng.standard_normal(shape).astype(np.float32))

    states, pullback = nn.gru_sequence(
        draw(T, B, 3 * H), draw(B, H), draw(H, 3 * H), draw(3 * H), lengths=rng.integers(0, T + 1, B)
    )
    assert all(np.isfinite(g).all() for g in pullback(guarded(states)))
    encoder_arrays = draw(B, T, A), draw(B, T, C), draw(H, A), draw(A), draw(C, 3 * H), draw(H, 3 * H)
    if recurrence.native_does():  # the oldest machines leave it to NumPy
        outputs, pull = fused_decoder(
            draw(T, B, 3 * H), draw(B, H), *encoder_arrays, lengths=rng.integers(1, T + 1, B)
        )
        assert all(is_guarded(x) for x in outputs)
        cotangents = outputs[0][1:], outputs[1], outputs[2]
        assert all(np.isfinite(g).all() for g in pull(*map(guarded, cotangents)))
    logits, targets = draw(B, H), guarded(np.arange(B) % H)
    loss, _ = nn.cross_entropy(logits, targets, draw(H), smoothing=0.1, overwrite=True)
    assert np.isfinite(loss)
    parameters = draw(B * H)
    adam = nn.Adam(parameters)
    adam.mean, adam.square = guarded(adam.mean), guarded(adam.square)
    adam.step(draw(B * H), 0.1)


def run_search(T: int, B: int, H: int, A: int, E: int) -> None:
    """Steps of a search, by decoders with a unit before the attention step and with one on each side of it."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return guarded(rng.standard_normal(shape).astype(np.float32))

    words, lengths = 3 + A, guarded(rng.integers(1, T + 1, B))
    for after in (None, recurrence.SecondGru(draw(H, 3 * H), draw(3 * H))):
        encoder_arrays = draw(B, T, A), draw(B, T, 3 * H + E), lengths, draw(H, A), draw(A), draw(H, 3 * H)
        steps = recurrence.FusedDecoder(*encoder_arrays, after)
        output = training.PackedWeights(draw(words, E), draw(words))
        for width in (1, 4, 4):  # the second step of a width takes the workspace as the first has filled it
            sentences = guarded(np.repeat(np.arange(B), width))
            step = steps.step(draw(B * width, 3 * H), draw(B * width, H), sentences)
            top = output.top_k(draw(B * width, E), width + 1, 2)
            assert all(is_guarded(x) for x in (step.states, step.contexts, step.weights, *top))


def run_products(rows: int, depth: int, columns: int) -> None:
    """Products of matrices in both memory orders, with all further steps; some rows have subnormal numbers."""
    rng = np.random.default_rng(0)
    for turned, odd in itertools.product(itertools.product("CF", "CF"), (False, True)):
        a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
        if odd:
            a[::3, depth // 2] = 1e-40
        a, b = (guarded(x, order) for x, order in zip((a, b), turned, strict=True))
        bias, out = (
            guarded(rng.standard_normal(shape).astype(np.float32)) for shape in (columns, (rows, columns))
        )
        assert is_guarded(a)
        assert is_guarded(b)
        products = matrix.multiply(a, b, bias, squash=True), matrix.multiply(a, b, out=out, add=True)
        assert all(is_guarded(x) and np.isfinite(x).all() for x in products)
        if turned[1] == "C":
            assert all(np.isfinite(x).all() for x in matrix.multiply_and_sum(a, b))
    readout, weight = (guarded(rng.standard_normal((n, 33)).astype(np.float32)) for n in (rows, columns))
    predicted = training.predict(readout, weight, guarded(bias), guarded(np.arange(rows) % columns))
    assert predicted is not None
    assert all(np.isfinite(x).all() for x in (predicted[0], *predicted[1](0.1, 0.1)))


def main(isa: str, side: str) -> None:
    """Every dtype, size and option."""
    global SIDE
    SIDE = side
    loaded = library.load()
    assert loaded is not None
    assert loaded.regard_choose(isa.encode())
    install()
    probe = guarded(np.ones((2, 3, 4), np.float32))
    assert problem._fits(probe, probe.dtype)
    dtypes = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
    for (place, name), (row, sizes) in itertools.product(
        enumerate(options(1, 1, 1, float)), enumerate(SIZES)
    ):
        for dtype in dtypes if name == "plain" else [dtypes[(place + row) % 4]]:  # every pair of the three
            print(isa, side, np.dtype(dtype).name, sizes, name, flush=True)
            run(sizes, dtype, name, options(*sizes[:3], dtype)[name])
            release()
    for dtype, of_lots in itertools.product(
        dtypes, ((1300, 64, 64), (1025, 96, 130), (2050, 5, 3), (5000, 32, 256))
    ):
        print(isa, side, np.dtype(dtype).name, "lots", of_lots, flush=True)
        run_lots(*of_lots, dtype)
        release()
    for of_recurrences in ((1, 1, 1, 1, 1), (3, 9, 17, 5, 33), (2, 8, 48, 16, 64), (7, 3, 31, 50, 15)):
        print(isa, side, "recurrences", of_recurrences, flush=True)
        run_recurrences(*of_recurrences)
        if recurrence.native_does():
            run_search(*of_recurrences)
        release()
    for of_products in ((16, 700, 95), (33, 257, 257), (50, 1030, 64), (65, 31, 2200)):
        print(isa, side, "products", of_products, flush=True)
        if recurrence.native_does():
            run_products(*of_products)
        release()
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
