"""Attention to keys and values on a disk: equal to that in memory, within a memory limit, resumable; errors."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import budget
import numpy as np
import pytest
import strategies
from errors import error
from fresh import printed
from numpy.typing import NDArray
from strategies import case

import regard
from regard import _files, outofcore
from regard._safetensors import opened, write

Array = NDArray[Any]


@pytest.mark.parametrize("name", strategies.SOFTMAX_OPTIONS)
def test_law_1_every_option(name: str) -> None:
    c = case(name)
    allowed = budget.of_answer(c.answer, c.values, np.float32, proportional=c.option.proportional)
    for chunk in (1, 4, 100):
        context = outofcore.attention(*c.arrays, chunk=chunk, **c.option.regard)
        assert context.dtype == np.float32
        budget.assert_within(context, c.answer.context, allowed, f"{name} in chunks of {chunk}")


def stored(folder: Path, shape: tuple[int, ...] = (2, 60, 4)) -> dict[str, tuple[Any, Any]]:
    """Keys and values of random numbers in every format, by its name."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(2)]
    mapped = []
    for name, array in zip(("keys", "values"), arrays, strict=True):
        mapped.append(np.memmap(folder / name, np.float32, "w+", shape=shape))
        mapped[-1][...] = array
    formats: dict[str, tuple[Any, Any]] = {"memmap": (mapped[0], mapped[1]), "array": (arrays[0], arrays[1])}
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    file = h5py.File(folder / "arrays.h5", "w")
    formats["hdf5"] = tuple(file.create_dataset(name, data=x) for name, x in zip("kv", arrays, strict=True))
    formats["zarr"] = tuple(
        zarr.create_array(str(folder / name), data=x, chunks=(1, 7, 4))
        for name, x in zip(("k.zarr", "v.zarr"), arrays, strict=True)
    )
    return formats


@pytest.mark.threads  # zarr reads with its own
def test_every_format_gives_the_same_numbers(tmp_path: Path) -> None:
    formats = stored(tmp_path)
    keys, values = formats["array"]
    queries = np.random.default_rng(1).standard_normal((2, 5, 4)).astype(np.float32)
    mask = regard.mask.causal(align="end")
    expected = outofcore.attention(queries, keys, values, chunk=16, mask=mask)
    np.testing.assert_allclose(expected, regard.attention(queries, keys, values, mask=mask), rtol=1e-5)
    for name, arrays in formats.items():
        context = outofcore.attention(queries, *arrays, chunk=16, mask=mask)
        np.testing.assert_allclose(context, expected, rtol=1e-5, atol=1e-6, err_msg=name)


class Watched:
    """Keys or values that count what is read, and fail where they are told to."""

    def __init__(self, array: Array, fails_at: int | None = None) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.fails_at, self.starts = fails_at, list[int]()

    def __getitem__(self, index: Any) -> Array:
        columns = index[-2]
        self.starts.append(columns.start)
        if self.fails_at is not None and columns.start <= self.fails_at < columns.stop:
            raise RuntimeError("the disk is gone")
        return self.array[index]


def drawn() -> list[Array]:
    rng = np.random.default_rng(2)
    return [rng.standard_normal((size, 4)) for size in (3, 50, 50)]


def test_chunks_that_the_mask_hides_are_not_read() -> None:
    q, k, v = drawn()
    keys = Watched(k)
    outofcore.attention(q, keys, v, chunk=10, mask=regard.mask.window(5, 5, align="end"))
    assert keys.starts == [40]
    keys = Watched(k)
    outofcore.attention(q, keys, v, chunk=10, mask=regard.mask.lengths(15))
    assert keys.starts == [0, 10]
    context = outofcore.attention(q, Watched(k, 0), v, mask=np.zeros((3, 50), bool))
    assert (context == 0).all()


@pytest.mark.threads  # without them a chunk is read before the one in front of it is merged
@pytest.mark.parametrize("sink", [None, 0.5])
def test_an_interrupted_run_resumes_where_it_was(tmp_path: Path, sink: float | None) -> None:
    q, k, v = drawn()
    path = tmp_path / "state"
    options: dict[str, Any] = {"chunk": 10, "sink": sink, "mask": regard.mask.causal(align="end")}
    expected = outofcore.attention(q, k, v, **options)
    message = error(OSError, outofcore.attention, q, k, Watched(v, 33), checkpoint=path, **options)
    assert message == "values 30:40 can't be read: RuntimeError: the disk is gone"
    assert path.exists()
    keys, calls = Watched(k), []
    context = outofcore.attention(
        q, keys, v, checkpoint=path, progress=lambda *numbers: calls.append(numbers), **options
    )
    assert keys.starts == [30, 40]
    assert calls == [(40, 50), (50, 50)]
    np.testing.assert_array_equal(context, expected)
    assert not path.exists()


def test_a_result_with_infinities_and_nan_resumes_too(tmp_path: Path) -> None:
    q, k, v = drawn()
    v[3], v[12, 1] = np.nan, np.inf
    path = tmp_path / "state"
    mask = np.ones((3, 50), bool)
    mask[0, :20] = False
    mask[2] = False
    expected = outofcore.attention(q, k, v, chunk=10, mask=mask)
    error(OSError, outofcore.attention, q, k, Watched(v, 20), chunk=10, mask=mask, checkpoint=path)
    context = outofcore.attention(q, k, v, chunk=10, mask=mask, checkpoint=path)
    np.testing.assert_array_equal(context, expected)
    np.testing.assert_array_equal(context[2], 0)


def test_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    q, k, v = drawn()
    path = tmp_path / "state"
    error(OSError, outofcore.attention, q, k, Watched(v, 33), chunk=10, checkpoint=path)
    for name in (".state.lock", ".state.0123456789ab.partial"):
        (tmp_path / name).touch()
    with _files.locked(path):  # of another process: its partial file may be in use
        error(OSError, outofcore.attention, q, k, Watched(v, 43), chunk=10, checkpoint=path)
        assert len(list(tmp_path.iterdir())) == 3
    outofcore.attention(q, k, v, chunk=10, checkpoint=path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are different on Windows")
def test_ctrl_c_saves_what_has_been_merged(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, time
        import numpy as np
        from regard import outofcore
        rng = np.random.default_rng(2)
        q, k, v = (rng.standard_normal((size, 4)) for size in (3, 50, 50))
        def progress(done, m):
            print(done, flush=True)
            if sys.argv[2] == "slow":
                time.sleep(0.3 if done < 20 else 60)
        context = outofcore.attention(q, k, v, chunk=10, checkpoint=sys.argv[1], progress=progress)
        print(context.tobytes().hex())
    """)
    path = tmp_path / "state"
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(
        [*command, "slow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert [run.stdout.readline() for _ in range(2)] == ["10\n", "20\n"]
        run.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in run.communicate(timeout=1800)[1]
    assert path.exists()
    *done, context = subprocess.run(
        [*command, "fast"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split()
    assert done == ["30", "40", "50"]
    resumed = np.frombuffer(bytes.fromhex(context)).reshape(3, 4)
    np.testing.assert_allclose(resumed, outofcore.attention(*drawn(), chunk=10), rtol=1e-12, atol=1e-13)


def test_a_checkpoint_of_another_computation_is_an_error(tmp_path: Path) -> None:
    q, k, v = drawn()
    path = tmp_path / "state"
    error(OSError, outofcore.attention, q, k, Watched(v, 33), chunk=10, checkpoint=path)
    before = path.read_bytes()
    for changed, arrays, options in [
        ("queries", (q + 1, k, v), {}),
        ("keys", (q, k.astype(np.float32), v), {}),
        ("values", (q, k, v.astype(np.float32)), {}),
        ("chunk", (q, k, v), {"chunk": 9}),
        ("mask", (q, k, v), {"mask": regard.mask.lengths(50)}),
        ("bias", (q, k, v), {"bias": np.zeros(50)}),
        ("score", (q, k, v), {"score": regard.scores.gaussian(2.0)}),
        ("scale", (q, k, v), {"scale": 2.0}),
        ("sink", (q, k, v), {"sink": 2.0}),
    ]:
        message = error(
            ValueError, outofcore.attention, *arrays, **({"chunk": 10, "checkpoint": path} | options)
        )
        assert message.startswith(
            f"{path} must be a checkpoint of the same computation. Its {changed} was "
        ), changed
        assert path.read_bytes() == before
    outofcore.attention(q, k, v, chunk=10, checkpoint=path, kernel="blocked", threads=1)  # these may change


def different() -> list[dict[str, Any]]:
    """Options that give different results, of every class of score, mask and bias."""
    scores, mask, position = regard.scores, regard.mask, regard.position
    one, two, square, vector = np.ones((4, 2)), np.full((4, 2), 2.0), np.eye(4), np.arange(1.0, 3.0)
    of_scores: dict[str, list[Any]] = {
        "dot": [scores.dot()],
        "scaled_dot": [],  # the default
        "cosine": [scores.cosine(), scores.cosine(2.0), scores.cosine([1.0, 2.0, 3.0])],
        "general": [scores.general(square), scores.general(2 * square), scores.general(square.astype("f4"))],
        "additive": [
            scores.additive(one, one, vector),
            scores.additive(two, one, vector),
            scores.additive(one, two, vector),
            scores.additive(one, one, vector + 1),
            scores.additive(one, one, vector, vector),
        ],
        "concat": [
            scores.concat(np.r_[one, one], vector),
            scores.concat(np.r_[one, two], vector),
            scores.concat(np.r_[one, one], vector + 1),
        ],
        "location": [scores.location(np.ones((4, 50))), scores.location(np.ones((4, 51)))],
        "gaussian": [scores.gaussian(), scores.gaussian(2.0)],
    }
    ids = np.arange(50) // 20
    of_masks: dict[str, list[Any]] = {
        "causal": [mask.causal("start"), mask.causal("end")],
        "documents": [
            mask.documents([0, 0, 1], ids),
            mask.documents([0, 1, 1], ids),
            mask.documents([0, 0, 1], 1 - ids),
        ],
        "lengths": [mask.lengths(49), mask.lengths(50), mask.lengths(50, 2)],
        "prefix": [mask.prefix(2, "end"), mask.prefix(3, "end"), mask.prefix(3, "start")],
        "window": [mask.window(1, 2, "end"), mask.window(2, 1, "end"), mask.window(1, None, "end")],
    }
    composed = [~mask.lengths(9), mask.lengths(9) & mask.lengths(5), mask.lengths(9) | mask.lengths(5)]
    arrays = [np.ones((3, 50), bool), np.ones((1, 50), bool), np.eye(3, 50, dtype=bool)]
    of_biases: dict[str, list[Any]] = {
        "alibi": [
            *(position.alibi(1, align) for align in ("end", "start", np.array(5), np.array(6))),
            position.alibi([0.5], "end"),
        ],
        "t5_buckets": [
            position.t5_buckets(table, bidirectional, distance, align)
            for table, bidirectional, distance, align in [
                (np.zeros((8, 1)), True, 128, "end"),
                (np.ones((8, 1)), True, 128, "end"),
                (np.zeros((8, 1)), False, 128, "end"),
                (np.zeros((8, 1)), True, 64, "end"),
                (np.zeros((8, 1)), True, 128, "start"),
            ]
        ],
    }
    assert {*of_scores, "Score", "Differentiable"} == set(scores.__all__)
    assert {*of_masks, "Mask"} == set(mask.__all__)
    of_scaling = {"Scaling", "dynamic", "linear", "llama3", "longrope", "yarn"}
    of_vectors = {*of_scaling, "rotary", "rotary_vjp", "sinusoidal"}
    assert {*of_biases, *of_vectors} == set(position.__all__)
    return [
        {},
        *({"score": score} for some in of_scores.values() for score in some),
        *({"mask": one} for some in (*of_masks.values(), composed, arrays) for one in some),
        *({"bias": one} for some in of_biases.values() for one in some),
        *({"bias": one} for one in (np.zeros(50), np.zeros((1, 50)), np.arange(50), np.arange(50.0))),
        *({"scale": 2.0}, {"scale": 3.0}, {"softcap": 2.0}, {"softcap": 3.0}, {"sink": 2.0}, {"sink": 3.0}),
    ]


@pytest.mark.slow
@pytest.mark.threads
def test_every_option_is_compared_by_its_numbers(tmp_path: Path) -> None:
    q, k, v = drawn()
    seen: dict[Any, Any] = {}

    def stop(done: int, m: int) -> None:
        raise ZeroDivisionError

    for options, equal in zip(different(), different(), strict=True):
        path = tmp_path / str(len(seen))
        error(
            ZeroDivisionError,
            outofcore.attention,
            q,
            k,
            v,
            chunk=10,
            checkpoint=path,
            progress=stop,
            **options,
        )
        with opened(path, "checkpoint") as file:
            identity = {
                name: text for name, text in file.metadata.items() if name not in ("done", "checksum")
            }
        assert (same := seen.setdefault(tuple(identity.items()), options)) is options, (same, options)
        context = outofcore.attention(q, k, v, chunk=10, checkpoint=path, **equal)
        np.testing.assert_allclose(context, regard.attention(q, k, v, **options), rtol=1e-9, atol=1e-12)


def test_an_array_is_compared_whatever_its_memory(tmp_path: Path) -> None:
    q, k, v = drawn()
    visible, path = np.random.default_rng(0).random((3, 50)) < 0.5, tmp_path / "state"
    mapped = np.memmap(tmp_path / "mask", bool, "w+", shape=visible.shape)
    mapped[...] = visible
    error(OSError, outofcore.attention, q, k, Watched(v, 33), chunk=10, checkpoint=path, mask=mapped)
    turned = np.asfortranarray(visible)
    outofcore.attention(q[::-1].copy()[::-1], k, v, chunk=10, checkpoint=path, mask=turned)
    assert not path.exists()


class Times:
    """A score of a user: the dot product times a number."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, queries: Array, keys: Array) -> Array:
        return np.asarray(self.factor * (queries @ keys.swapaxes(-1, -2)))


class Own(regard.scores.cosine):
    """A score of a user that is derived from one of this package."""


class Nearest(regard.mask.Mask):
    """A mask of a user."""

    def bind(self, layout: Any) -> Any:
        return lambda items, rows, columns: True


@pytest.mark.parametrize(
    "options",
    [
        {"score": Times(1.0)},
        {"score": Times(1.0).__call__},
        {"score": functools.partial(np.matmul)},
        {"score": lambda q, k: q @ k.swapaxes(-1, -2)},
        {"score": Own()},
        {"mask": Nearest()},
        {"mask": ~(regard.mask.lengths(3) | (Nearest() & regard.mask.lengths(5)))},
    ],
)
def test_what_cannot_be_compared_takes_no_checkpoint(tmp_path: Path, options: dict[str, Any]) -> None:
    (name,) = options
    q, k, v = drawn()
    untouched, path = Watched(k, 0), tmp_path / "state"
    message = error(TypeError, outofcore.attention, q, untouched, v, checkpoint=path, **options)
    assert message.startswith(f"{name} must be an object of this package where there is a checkpoint. Got ")
    assert untouched.starts == []
    assert not path.exists()


@pytest.mark.slow
def test_a_bit_that_changes_anywhere_in_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    q, k, v = drawn()
    path, options = tmp_path / "state", {"chunk": 10, "checkpoint": tmp_path / "state"}
    error(OSError, outofcore.attention, q[:1], k, Watched(v, 33), **options)
    data, damaged = path.read_bytes(), 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        message = error(ValueError, outofcore.attention, q[:1], k, v, **options)
        assert message.startswith(f"{path} is not a checkpoint of outofcore.attention: "), place
        damaged += message.split(": ", 1)[1].startswith("it is damaged")
    assert damaged > 100  # the others break the header


@pytest.mark.threads
def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    q, k, v = drawn()
    path = tmp_path / "state"
    error(OSError, outofcore.attention, q, k, Watched(v, 33), chunk=10, checkpoint=path)
    data = path.read_bytes()
    for damaged, reason in [
        (b"1234", "4 bytes are too few"),
        (data[:-1], ""),
        (data.replace(b'"done":"30"', b'"done":"40"'), "it is damaged"),
        (data.replace(b'"version":"2"', b'"version":"1"'), "its version is '1', this program reads '2'"),
    ]:
        path.write_bytes(damaged)
        message = error(ValueError, outofcore.attention, q, k, v, chunk=10, checkpoint=path)
        assert message.startswith(f"{path} is not a checkpoint of outofcore.attention: {reason}")
    path.write_bytes(data)
    with opened(path, "checkpoint") as file:
        arrays, metadata = {name: file.array(name) for name in file.tensors}, file.metadata
    for done in ("-3", "35", "60", ""):
        write(path, arrays, {**metadata, "done": done})
        message = error(ValueError, outofcore.attention, q, k, v, chunk=10, checkpoint=path)
        assert message.endswith(f"its number of keys is {done!r}")


def test_bad_arguments_are_errors_before_anything_is_read() -> None:
    q, k, v = drawn()
    untouched = Watched(k, 0)
    assert error(TypeError, outofcore.attention, q, [[1.0]], v) == (
        "keys must have a shape, a dtype and slices. Got list instead."
        "\n  hint: np.memmap, a dataset of h5py, an array of zarr, or an array in memory"
    )
    assert error(ValueError, outofcore.attention, q, untouched, v[:9]).startswith(
        "keys and values must share their length m: 50 and 9"
    )
    assert error(ValueError, outofcore.attention, q, untouched, v, chunk=0) == (
        "chunk must be at least 1. Got 0 instead."
    )
    assert error(TypeError, outofcore.attention, q, untouched, v, chunk=2.5) == (
        "chunk must be an integer. Got 2.5 instead."
    )
    assert error(ValueError, outofcore.attention, q, untouched, v, mask=regard.mask.causal()).startswith(
        "causal needs align="
    )
    assert error(TypeError, outofcore.attention, q, untouched, v, causal=True).startswith(
        "attention takes no option 'causal'."
    )
    assert error(ValueError, outofcore.attention, q, untouched, v, checkpoint=".").startswith(
        ". must be a file"
    )
    assert error(ValueError, outofcore.attention, q, untouched, v, checkpoint="") == (
        "the path of a file must not be empty"
    )
    assert untouched.starts == []


def test_progress_ends_with_m_where_the_mask_hides_the_end() -> None:
    q, k, v = drawn()
    for count, expected in [
        (0, [50]),
        (15, [10, 20, 50]),
        (45, [10, 20, 30, 40, 50]),
        (50, [10, 20, 30, 40, 50]),
    ]:
        calls: list[tuple[int, int]] = []
        mask = regard.mask.lengths(count)
        outofcore.attention(
            q, k, v, chunk=10, mask=mask, progress=lambda done, m, calls=calls: calls.append((done, m))
        )
        assert calls == [(done, 50) for done in expected]


class MaskedSlices(Watched):
    """Keys or values whose slices are masked arrays, as those of netCDF4 are."""

    def __init__(self, array: Array, masked: slice) -> None:
        super().__init__(array)
        self.missing = np.zeros(array.shape, bool)
        self.missing[..., masked, :1] = True

    def __getitem__(self, index: Any) -> Array:
        return np.ma.masked_array(self.array[index], self.missing[index], fill_value=1e36)


class MaskedLists(MaskedSlices):
    """Keys or values whose slices are lists of masked arrays."""

    def __getitem__(self, index: Any) -> Any:
        return list(super().__getitem__(index))


@pytest.mark.threads
def test_masked_numbers_of_a_chunk_are_an_error() -> None:
    q, k, v = drawn()
    expected = outofcore.attention(q, k, v, chunk=10)
    whole = outofcore.attention(q, MaskedSlices(k, slice(0)), MaskedSlices(v, slice(0)), chunk=10)
    np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-13)
    some = slice(28, 31)
    assert error(OSError, outofcore.attention, q, MaskedSlices(k, some), v, chunk=10) == (
        "keys 20:30 can't be read: 2 of their numbers are masked"
    )
    assert error(OSError, outofcore.attention, q, k, MaskedSlices(v, some), chunk=15) == (
        "values 15:30 can't be read: 2 of their numbers are masked"
    )
    assert error(OSError, outofcore.attention, q, MaskedLists(k, some), v, chunk=10) == (
        "keys 20:30 can't be read: 2 of their numbers are masked"
    )
    hidden = regard.mask.lengths(20)  # of chunks that are not read
    outofcore.attention(q, MaskedSlices(k, some), v, chunk=10, mask=hidden)


def test_a_source_that_gives_fewer_rows_than_its_shape_has_is_an_error() -> None:
    q, k, v = drawn()
    shorter = Watched(k[:45])
    shorter.shape = k.shape
    assert error(OSError, outofcore.attention, q, shorter, v, chunk=20) == (
        "keys 40:50 can't be read: they have shape (5, 4) instead of (10, 4)"
    )


def test_a_closed_file_is_an_error(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    q, k, v = drawn()
    with h5py.File(tmp_path / "arrays.h5", "w") as file:
        keys = file.create_dataset("keys", data=k)
    assert error(OSError, outofcore.attention, q, keys, v).startswith("keys can't be read: ")


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="RLIMIT_DATA counts what a process has written on Linux"
)
def test_ten_times_the_memory_limit(tmp_path: Path) -> None:
    """Keys and values of 240 MB, where the process may have 24 MB more than it has before it begins."""
    script = textwrap.dedent("""
        import resource, sys
        import numpy as np
        import regard
        from regard import outofcore
        from pathlib import Path
        def size():
            return int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1]) * 1024
        m, d = 1_000_000, 30
        keys, values = (np.memmap(f"{sys.argv[1]}/{name}", np.float32, "r", shape=(m, d)) for name in "kv")
        queries = np.ones((4, d), np.float32)
        outofcore.attention(queries, keys[:1000], values[:1000], chunk=500)  # starts the kernel's threads
        limit = size() + 24_000_000
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        try:
            np.array(keys)
        except MemoryError:
            print("limited")
        context = outofcore.attention(queries, keys, values, chunk=20_000, mask=regard.mask.lengths(m - 1))
        print(context.tobytes().hex())
    """)
    rng, m, d = np.random.default_rng(0), 1_000_000, 30
    arrays = [rng.standard_normal((m, d), dtype=np.float32) for _ in range(2)]
    for name, array in zip("kv", arrays, strict=True):
        array.tofile(tmp_path / name)
    limited, context = printed(script, str(tmp_path), OPENBLAS_NUM_THREADS="1").split()
    assert limited == "limited"
    expected = regard.attention(np.ones((4, d), np.float32), *arrays, mask=regard.mask.lengths(m - 1))
    np.testing.assert_allclose(
        np.frombuffer(bytes.fromhex(context), np.float32).reshape(4, d), expected, rtol=1e-4, atol=1e-6
    )


def test_a_dataset_without_a_shape_is_refused(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    x = np.eye(2)
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        empty = file.create_dataset("x", data=h5py.Empty("f4"))
        for call in (
            lambda: outofcore.attention(x, empty, empty),
            lambda: regard.attend(x, empty, x),
            lambda: regard.attend(x, x, x, bias=empty),
            lambda: regard.KVCache((), 2, capacity=1).append(empty, empty),
        ):
            with pytest.raises(TypeError, match=r"Got Dataset instead"):
                call()
