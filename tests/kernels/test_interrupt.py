"""Ctrl-C during a long computation, and threads that can't be started."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regard
from regard import _threads
from regard._threads import Each, Workers, interruptible, stop_if_requested, two_threads
from regard.kernels import fast_path, library, matrix, recurrence

Array = NDArray[Any]
needs_library = pytest.mark.skipif(library.load() is None, reason=library.missing() or "there is a library")
needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows can't send a process SIGINT alone")

LARGE = 1 << 20  # so many queries and keys take very long: a test that is not interrupted hangs

INTERRUPTED = """
    import os, signal, sys, threading
    import numpy as np, regard
    from regard._problem import prepare
    from regard.kernels import blocked, native
    kernel, threads = sys.argv[1], int(sys.argv[2])
    how = {"kernel": kernel, "threads": threads}
    x = np.random.default_rng(0).standard_normal((1 << 20, 4)).astype(np.float32)
    masks = regard.mask
    p = prepare(x[: 1 << 18], x[: 1 << 18], x[: 1 << 18], "scaled_dot", None, None, None, None, "softmax", None)
    numbers = np.zeros((1, 2, 1 << 18), np.float32)
    context = x[None, : 1 << 18]
    calls = {
        "attention": lambda: regard.attention(x, x, x, **how),
        "causal": lambda: regard.attention(x, x, x, mask=masks.causal(), **how),
        "lengths": lambda: regard.attention(x, x, x, mask=masks.lengths(np.asarray(1 << 19)), **how),
        "score": lambda: regard.attention(x, x, x, score=regard.scores.gaussian(2.0), **how),
        "vjp": lambda: regard.attention_vjp(x, x, x, **how),
        "partial": lambda: regard.partial(x, x, x, **how),
        "one query": lambda: regard.attention(np.broadcast_to(x[:1], (8192, 1, 4)), x[None], x[None], **how),
        "backward": lambda: (native if kernel == "native" else blocked).backward(p, context, numbers, context, threads),
    }

    def arm():
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    def raising(number, frame):
        if "weakref" in frame.f_code.co_filename:  # Python drops what is raised in a callback
            arm()
        else:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, raising)
    few = x[:200]
    before = regard.attention(few, few, few, **how)
    for name, call in calls.items():
        try:
            arm()
            call()
            print(name, "was not interrupted")
        except KeyboardInterrupt:
            print(name, (regard.attention(few, few, few, **how) == before).all())
    """


@pytest.mark.slow
@needs_signals
@pytest.mark.threads
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("kernel", [pytest.param("native", marks=needs_library), "blocked"])
def test_ctrl_c_ends_every_long_call_and_the_next_one_is_right(kernel: str, threads: str) -> None:
    code = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(INTERRUPTED), kernel, threads]
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    results = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    assert len(results) == 8
    assert set(results.values()) == {"True"}, results


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> ctypes.c_int32:
    """Ask every call of the library to stop before it begins."""
    stop = ctypes.c_int32(1)
    for module in (library, fast_path):
        monkeypatch.setattr(module, "interruptible", lambda call, _: call(ctypes.addressof(stop)))
    return stop


@pytest.mark.slow
@needs_library
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stopped_calls_return_at_once(isa: str, stopped: ctypes.c_int32, dtype: Any) -> None:
    x = np.ones((LARGE, 2), dtype)
    mask = regard.mask.lengths(np.asarray(LARGE - 1))
    for threads in (1, 2):
        regard.attention(x, x, x, threads=threads)
        regard.attention(x, x, x, mask=mask, threads=threads)
        regard.attention(np.ones((512, 1, 2), dtype), x[None], x[None], threads=threads)
        for options in ({}, {"mask": mask}):
            _, pullback = regard.attention_vjp(x, x, x, threads=threads, **options)
            pullback(x)


@needs_library
@pytest.mark.skipif(library.trains(library.load()) is None, reason="these kernels need a newer processor")
def test_stopped_kernels_of_training_leave_their_output_unchanged(stopped: ctypes.c_int32) -> None:
    a, b = np.ones((64, 32), np.float32), np.ones((32, 48), np.float32)
    out = np.full((64, 48), 7, np.float32)
    matrix.multiply(a, b, out=out)
    states = np.full((5, 3, 16), 7, np.float32)
    inputs, start, weight = (np.ones(shape, np.float32) for shape in ((5, 3, 48), (3, 16), (16, 48)))
    back = recurrence.gru(recurrence.Gru(inputs, start, weight), states)
    dinputs = np.full(inputs.shape, 7, np.float32)
    back(states, dinputs)
    assert {*out.flat, *states.flat, *dinputs.flat} == {7}


# ---- the two helpers -------------------------------------------------------------------------------------------


@needs_signals
@pytest.mark.threads
def test_a_handler_that_raises_stops_the_call_and_one_that_returns_does_not() -> None:
    calls: list[int] = []

    def until_asked(stop: int) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        while not ctypes.c_int32.from_address(stop).value:
            pass
        calls.append(1)
        return 0

    def until_heard(stop: int) -> int:
        os.kill(os.getpid(), signal.SIGUSR1)
        while len(calls) < 2:
            pass
        return 10 + ctypes.c_int32.from_address(stop).value

    before = signal.signal(signal.SIGUSR1, lambda *_: calls.append(2))
    try:
        with pytest.raises(KeyboardInterrupt):
            interruptible(until_asked)
        assert calls == [1]
        assert interruptible(until_heard) == 10
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.threads
def test_only_the_main_thread_calls_the_library_in_another_thread() -> None:
    results: list[bool] = []

    def call(stop: int) -> bool:
        return stop == 0

    thread = threading.Thread(target=lambda: results.append(interruptible(call)))
    thread.start()
    thread.join()
    assert results == [True]
    assert not interruptible(call)


@pytest.mark.threads
def test_workers_without_a_waiting_caller_stop() -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless() -> None:
        try:
            begun.set()
            while True:
                stop_if_requested()
        finally:
            ended.set()

    class Left(Exception):
        pass

    def leave_early() -> None:
        with Workers(2) as workers:
            workers.submit(endless)
            begun.wait()
            raise Left

    with pytest.raises(Left):
        leave_early()
    assert ended.is_set()
    stop_if_requested()  # this thread is not a worker


@pytest.mark.threads
def test_workers_return_results_in_order_and_raise_errors_at_the_result() -> None:
    with Workers(3) as workers:
        assert list(workers.map(lambda i: i * i, range(50))) == [i * i for i in range(50)]
        failed = workers.submit(divmod, 1, 0)
        with pytest.raises(ZeroDivisionError):
            failed.result()


# ---- no threads ------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0, 1])
def startable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Let this many threads of Python's be started, and no more."""
    left, start = [request.param], threading.Thread.start

    def refuse(*_: Any) -> int:
        raise RuntimeError("can't start new thread")

    def some(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            refuse()
        start(thread)

    if request.param and "NO_THREADS" in os.environ:
        pytest.skip("no thread can be started")
    monkeypatch.setattr(threading.Thread, "start", some)
    monkeypatch.setattr(_threads._thread, "start_new_thread", refuse)
    count: int = request.param
    return count


def test_work_for_two_threads_runs_with_fewer(startable: int) -> None:
    names: list[str] = []
    with two_threads() as threads:
        assert Each(threads)(lambda i: (names.append(threading.current_thread().name), i)[1], (3, 4)) == [
            3,
            4,
        ]
    assert names.count("regard") == startable


def test_attention_with_fewer_threads_gives_the_same_bits(startable: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, 600, 8)).astype(np.float32)
    for normalize in ("softmax", "sparsemax"):
        how: Callable[[int], Any] = lambda t, n=normalize: regard.attention_vjp(  # noqa: E731
            x, x, x, kernel="blocked", normalize=n, threads=t
        )
        (alone, back), (shared, other) = how(1), how(2)
        assert alone.tobytes() == shared.tobytes()
        assert back(x).keys.tobytes() == other(x).keys.tobytes()


def test_a_long_call_is_made_without_a_thread(startable: int) -> None:
    assert interruptible(lambda stop: stop) == 0


FORBIDDEN = """
    import threading
    import numpy as np, regard
    from regard.kernels import library
    from regard.seq2seq import Seq2Seq
    try:
        threading.Thread(target=print).start()
    except RuntimeError as error:
        print(error)
    x = np.random.default_rng(0).standard_normal((4, 2000, 16)).astype(np.float32)
    for kernel in ("auto", "blocked"):
        few = regard.attention(x, x, x, kernel=kernel, threads=1)
        print((regard.attention(x, x, x, kernel=kernel, threads=3) == few).all())
    sources, targets = ["a b", "b", "a", "b a"] * 8, ["x y", "y", "x", "y x"] * 8
    model = Seq2Seq(epochs=1, seed=1)
    model.fit(sources, targets)
    print(len(model.translate(["a b"] * 70)))
    """


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="LD_PRELOAD")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_process_that_may_start_no_thread_attends_trains_and_translates(tmp_path: Path) -> None:
    """The library's own threads, too."""
    preload = tmp_path / "no_threads.so"
    source = Path(__file__).parent / "native" / "no_threads.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(preload), str(source), "-ldl"], check=True)
    around = os.environ | {"LD_PRELOAD": str(preload), "NO_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    code = [
        sys.executable,
        "-W",
        "error",
        "-W",
        "ignore:regard was installed",
        "-c",
        textwrap.dedent(FORBIDDEN),
    ]
    done = subprocess.run(code, capture_output=True, text=True, env=around, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["can't start new thread", "True", "True", "70"]
