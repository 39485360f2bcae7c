"""Ctrl-C during a long computation, and threads that can't be started."""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from fresh import printed

import regard
from regard import _signals, _threads
from regard._signals import complete
from regard._threads import Stopped, TwoThreadMap, Workers, interruptible, stop_if_requested, two_threads
from regard.kernels import fast_path, library, matrix, recurrence
from regard.seq2seq.decoding.search import keep

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


@pytest.fixture(params=[KeyboardInterrupt, RuntimeError, TimeoutError])
def raised(request: pytest.FixtureRequest) -> Iterator[type[BaseException]]:
    """Let the handler of SIGINT raise such an exception, with the number of the time as its argument."""
    times = itertools.count()

    def handler(*_: Any) -> None:
        raise request.param(next(times))

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield request.param
    finally:
        signal.signal(signal.SIGINT, before)


def answer_with_signals(asked: Callable[[], object], ended: list[int]) -> None:
    """Send signals before the call is asked to stop and after; then go on for a while."""
    main = threading.main_thread().ident or 0
    while not asked():
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.01)
    for _ in range(3):
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.02)
    ended.append(1)


@needs_signals
@pytest.mark.threads
def test_no_number_of_signals_ends_the_wait_before_the_call(raised: type[BaseException]) -> None:
    ended: list[int] = []

    def call(stop: int) -> None:
        answer_with_signals(lambda: ctypes.c_int32.from_address(stop).value, ended)

    with pytest.raises(raised) as caught:
        interruptible(call)
    assert ended == [1]
    assert caught.value.args == (0,)


@needs_signals
@pytest.mark.threads
def test_no_number_of_signals_ends_the_wait_before_the_workers(raised: type[BaseException]) -> None:
    ended: list[int] = []

    def asked() -> bool:
        try:
            stop_if_requested()
        except Stopped:
            return True
        return False

    with pytest.raises(raised), Workers(1) as workers:
        workers.submit(answer_with_signals, asked, ended).result()
    assert ended == [1]


def test_a_clean_up_that_signals_end_early_is_repeated_and_the_first_exception_raised() -> None:
    begun: list[int] = []

    def cleanup() -> None:
        begun.append(len(begun))
        if len(begun) < 4:
            raise KeyboardInterrupt(begun[-1])

    with pytest.raises(KeyboardInterrupt) as caught:
        complete(cleanup)
    assert begun == [0, 1, 2, 3]
    assert caught.value.args == (0,)
    complete(cleanup)
    assert len(begun) == 5


def test_handlers_are_restored_although_one_raises_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(map(signal.getsignal, _signals.ENDING))
    restore, times = signal.signal, itertools.count()

    def raising(number: int, handler: Any) -> None:
        restore(number, handler)
        if next(times) in (0, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), _signals.handled():
        monkeypatch.setattr(signal, "signal", raising)
    assert list(map(signal.getsignal, _signals.ENDING)) == before


@pytest.mark.slow
@needs_signals
@pytest.mark.threads
def test_arrays_outlive_the_call_wherever_an_exception_is_raised(raised: type[BaseException]) -> None:
    """At every instruction of `interruptible`, as a debugger can."""

    class Traced(Exception):
        pass

    def attempt(number: int) -> bool:
        """Raise before the instruction with this number; return whether it was reached."""
        left, alive = [number], list[bool]()

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            frame.f_trace_opcodes = frame.f_code is interruptible.__code__
            if event == "opcode" and frame.f_trace_opcodes:
                left[0] -= 1
                if left[0] == 0:
                    raise Traced
            return trace

        begun, ended = threading.Event(), threading.Event()

        def owner() -> None:
            array = np.zeros(3)
            kept = weakref.ref(array)

            def call(stop: int) -> int:
                begun.set()
                signal.raise_signal(signal.SIGINT)
                for _ in range(20):
                    time.sleep(0.001)
                    alive.append(kept() is not None)
                ended.set()
                return 0

            interruptible(call)

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with pytest.raises((Traced, raised)):
                owner()
        finally:
            sys.settrace(before)
        assert not begun.is_set() or ended.wait(60)
        assert all(alive)
        return left[0] <= 0

    assert next(number for number in itertools.count(1) if not attempt(number)) > 40


BOMBARDED = """
    import itertools, signal
    import numpy as np, regard
    from regard.kernels import fast_path, library, matrix, recurrence, training
    library.LONG_WORK = 0
    x = np.random.default_rng(0).standard_normal((3000, 64)).astype(np.float32)
    left = [0]

    def handler(number, frame):
        if left[0]:
            left[0] -= 1
            raise (KeyboardInterrupt if number == signal.SIGINT else TimeoutError)

    def gradients(**options):
        context, pullback = regard.attention_vjp(x, x, x, **options)
        pullback(context)

    def steps():
        inputs, start, weight = (np.ones(s, np.float32) for s in ((300, 8, 768), (8, 256), (256, 768)))
        states = np.empty((300, 8, 256), np.float32)
        back = recurrence.gru(recurrence.Gru(inputs, start, weight), states)
        back(states, np.empty_like(inputs))

    def predictions():
        weight = np.ones((4000, 64), np.float32)
        loss, pullback = training.predict(x, weight, None, np.zeros(len(x), np.int64))
        pullback(1.0, 0.1)

    calls = {
        "attention": lambda: regard.attention(x, x, x),
        "threads": lambda: regard.attention(x, x, x, threads=2),
        "general": lambda: regard.attention(x, x, x, softcap=2.0),
        "pieces": lambda: regard.attention(x, x.astype(float), x.astype(float)),
        "vjp": gradients,
        "general vjp": lambda: gradients(softcap=2.0),
        "partial": lambda: regard.partial(x, x, x),
        "product": lambda: matrix.multiply(x, np.ascontiguousarray(x.T)),
    }
    if library.trains(library.load()) is not None:
        calls |= {"recurrence": steps, "predictions": predictions}
    before = regard.attention(x, x, x)
    for number in (signal.SIGINT, signal.SIGALRM):
        signal.signal(number, handler)
    for name, call in calls.items():
        ends = set()
        for number in range(12):
            signal.setitimer(signal.ITIMER_REAL, 0.001 + number / 1000, 0.0004)
            try:
                left[0] = 1 << 30
                call()
                left[0] = 0
            except (KeyboardInterrupt, TimeoutError):
                left[0] = 0
                ends.add("raised")
            signal.setitimer(signal.ITIMER_REAL, 0)
        print(name, ends, (regard.attention(x, x, x) == before).all(), sep=": ")
    """


@pytest.mark.slow
@needs_library
@needs_signals
def test_memory_is_not_freed_under_a_call_whatever_is_raised_and_how_often() -> None:
    # With this, writing to freed memory ends the process.
    lines = printed(BOMBARDED, warnings="ignore", MALLOC_MMAP_THRESHOLD_="65536").splitlines()
    ends = [line.split(": ", 1)[1] for line in lines]
    assert len(ends) >= 8
    assert {end.rsplit(": ", 1)[1] for end in ends} == {"True"}


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
@pytest.mark.parametrize("poll", [stop_if_requested, partial(keep, None, np.ones(1, bool))])
def test_workers_without_a_waiting_caller_stop(poll: Callable[[], None]) -> None:
    begun, ended = threading.Event(), threading.Event()

    def endless() -> None:
        try:
            begun.set()
            while True:
                poll()
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
    poll()  # this thread is not a worker


@pytest.mark.threads
def test_workers_that_are_not_left_by_their_block_end_when_they_are_freed() -> None:
    workers = Workers(2)
    threads = list(workers._threads)
    assert workers.submit(int, "3").result() == 3
    del workers
    for thread in threads:
        thread.join(60)
    assert len(threads) == 2
    assert not any(thread.is_alive() for thread in threads)


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
    with two_threads(2) as threads:
        assert TwoThreadMap(threads)(
            lambda i: (names.append(threading.current_thread().name), i)[1], (3, 4)
        ) == [
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
