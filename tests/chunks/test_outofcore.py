"""Attention to keys and values on a disk: equal to that in memory, within a memory limit, resumable; errors."""

from __future__ import annotations

import os
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
from numpy.typing import NDArray
from strategies import case

import regard
from regard import _files, outofcore

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
        np.testing.assert_array_equal(context, expected, err_msg=name)


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
    assert message == "keys 30:40 can't be read: RuntimeError: the disk is gone"
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
    assert bytes.fromhex(context) == outofcore.attention(*drawn(), chunk=10).tobytes()


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
        ("options", (q, k, v), {"mask": regard.mask.lengths(50)}),
        ("options", (q, k, v), {"bias": np.zeros(50)}),
        ("options", (q, k, v), {"score": regard.scores.gaussian(2.0)}),
        ("options", (q, k, v), {"scale": 2.0}),
    ]:
        message = error(
            ValueError, outofcore.attention, *arrays, **({"chunk": 10, "checkpoint": path} | options)
        )
        assert message.startswith(
            f"{path} must be a checkpoint of the same computation. Its {changed} was "
        ), changed
        assert path.read_bytes() == before
    outofcore.attention(q, k, v, chunk=10, checkpoint=path, kernel="blocked", threads=1)  # these may change


@pytest.mark.threads
def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    q, k, v = drawn()
    path = tmp_path / "state"
    error(OSError, outofcore.attention, q, k, Watched(v, 33), chunk=10, checkpoint=path)
    data = path.read_bytes()
    for damaged, reason in [
        (b"1234", "4 bytes are too few"),
        (data[:-1], ""),
        (data.replace(b'"done":"30"', b'"done":"-3"'), "its number of keys is '-3'"),
        (data.replace(b'"done":"30"', b'"done":"35"'), "its number of keys is '35'"),
        (data.replace(b'"done":"30"', b'"done":"60"'), "its number of keys is '60'"),
        (data.replace(b'"version":"1"', b'"version":"9"'), "its version is '9', this program reads '1'"),
    ]:
        path.write_bytes(damaged)
        message = error(ValueError, outofcore.attention, q, k, v, chunk=10, checkpoint=path)
        assert message.startswith(f"{path} is not a checkpoint of outofcore.attention: {reason}")


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
    assert untouched.starts == []


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
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    limited, context = run.stdout.split()
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
