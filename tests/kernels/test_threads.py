"""Laws 5 and 12 for processes and threads."""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import strategies
from fresh import printed
from numpy.typing import NDArray

import regard
from regard._once import computed_once
from regard._threads import VARIABLES, TwoThreadMap, one_blas_thread, two_threads
from regard.kernels import library
from regard.nn import Adam

Array = NDArray[Any]
N, M, D, E = 300, 500, 16, 12


def arrays(dtype: Any = np.float32) -> tuple[Array, Array, Array, Array]:
    """Queries with 4 heads, keys and values with 2, and a gradient of the context."""
    rng = np.random.default_rng(0)
    shapes = (2, 4, N, D), (2, 2, M, D), (2, 2, M, E), (2, 4, N, E)
    q, k, v, g = (strategies.read_only(rng.standard_normal(shape).astype(dtype)) for shape in shapes)
    return q, k, v, g


OPTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "none": dict,
    "causal": lambda: {"mask": regard.mask.causal(align="end")},
    "documents": lambda: {"mask": regard.mask.documents(np.arange(N) // 100, np.arange(M) // 100)},
    "bias by key": lambda: {"bias": np.linspace(-1, 1, M, dtype=np.float32)},
    "alibi": lambda: {"bias": regard.position.alibi(4, align="start")},
    "gaussian": lambda: {"score": regard.scores.gaussian(3.0)},
    "general": lambda: {"score": regard.scores.general(np.eye(D, dtype=np.float32)[::-1])},
    "sparsemax": lambda: {"normalize": "sparsemax"},
    "sigmoid": lambda: {"normalize": regard.weights.sigmoid(-1.0)},
    "a user's": lambda: {"normalize": strategies.OffByOne(np.float32(0.5))},
}


def run(name: str, threads: int | None, kernel: str = "auto") -> bytes:
    """Context and all gradients as bytes."""
    q, k, v, g = arrays()
    options = OPTIONS[name]() | {"kernel": kernel}
    context = regard.attention(q, k, v, threads=threads, **options)
    same, pullback = regard.attention_vjp(q, k, v, threads=threads, **options)
    gradients = pullback(g)
    learned = [x for part in (gradients.score, gradients.normalize) for x in (part or {}).values()]
    pieces = [context, same, gradients.queries, gradients.keys, gradients.values, gradients.bias, *learned]
    return b"".join(np.ascontiguousarray(x).tobytes() for x in pieces if x is not None)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["auto", "blocked"])
@pytest.mark.parametrize("name", OPTIONS)
def test_law_5_bitwise_equal_whatever_the_number_of_threads(name: str, kernel: str) -> None:
    alone = run(name, 1, kernel)
    for threads in (2, 5, None):
        assert run(name, threads, kernel) == alone, threads


@pytest.mark.slow
def test_law_12_eight_python_threads_at_once_are_bitwise_one() -> None:
    names = ["none", "causal", "bias by key", "documents"]
    expected = {name: run(name, 1) for name in names}
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda i: (names[i % 4], run(names[i % 4], 1 + i % 3)), range(16)))
    assert all(result == expected[name] for name, result in results)


SMALL: list[
    tuple[int, int, dict[str, Any]]
] = [  # n, m, options: few queries and many, with and without tasks to share
    (1, 2100, {}),
    (3, 300, {"bias": np.linspace(-1, 1, 300, dtype=np.float32)}),
    (70, 130, {"mask": regard.mask.causal(align="end")}),
    (50, 60, {"score": regard.scores.gaussian(2.0)}),
]


def small(i: int) -> bytes:
    """One of a few small attentions, with its gradients now and then."""
    n, m, options = SMALL[i % len(SMALL)]
    rng = np.random.default_rng(i % len(SMALL))
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, n, 8), (3, m, 8), (3, m, 5)))
    if i % 12 > 3:
        return regard.attention(q, k, v, threads=1 + i % 3, **options).tobytes()
    context, pullback = regard.attention_vjp(q, k, v, threads=1 + i % 3, **options)
    gradients = pullback(context)
    return (
        context.tobytes()
        + gradients.queries.tobytes()
        + gradients.keys.tobytes()
        + gradients.values.tobytes()
    )


@pytest.mark.slow
def test_law_12_eight_python_threads_with_200_calls_each_are_bitwise_one() -> None:
    expected = [small(i) for i in range(12)]

    def calls(start: int) -> list[bool]:
        return [small(start + i) == expected[(start + i) % 12] for i in range(200)]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(right) for right in pool.map(calls, range(8)))


@pytest.mark.threads
def test_law_12_nested_attention_and_nested_thread_pools() -> None:
    """A call inside a call, from threads of threads."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 40, 6))

    def score(queries: Any, keys: Any) -> Any:
        inner = regard.attention(queries, keys, keys, threads=3)
        return inner @ np.swapaxes(keys, -1, -2)

    def outer(i: int) -> list[bytes]:
        with ThreadPoolExecutor(2) as inside:
            return list(
                inside.map(lambda t: regard.attention(q, k, v, score=score, threads=t).tobytes(), [1, 3])
            )

    expected = regard.attention(q, k, v, score=score, threads=1).tobytes()
    with ThreadPoolExecutor(4) as pool:
        assert {result for both in pool.map(outer, range(8)) for result in both} == {expected}


@pytest.mark.threads
def test_law_12_a_recording_belongs_to_its_own_thread() -> None:
    x = np.ones((2, 1))

    def in_thread(record: bool) -> int:
        if not record:
            regard.attention(x, x, x)
            return 0
        with regard.record() as recorded:
            regard.attention(x, x, x)
        return len(recorded)

    with regard.record() as attentions, ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(in_thread, [True, False] * 8))
    assert counts == [1, 0] * 8
    assert attentions == []


def child(queue: Any) -> None:
    """The result of a forked process."""
    queue.put(run("causal", 2))


@pytest.mark.threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_law_12_works_after_fork() -> None:
    """The pool of the parent has been used before; the child must not wait for threads that it doesn't have."""
    expected = run("causal", 2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    assert queue.get(timeout=1800) == expected
    process.join(timeout=1800)
    assert process.exitcode == 0
    assert run("causal", 2) == expected


class Slow:
    """An object with a property that waits until a condition holds."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.condition = condition

    @computed_once
    def done(self) -> bool:
        """Whether the condition held within any patience."""
        return self.condition()


@pytest.mark.threads
def test_law_12_no_property_waits_for_that_of_another_object() -> None:
    """As a forked process would, in which the other thread doesn't exist."""
    begun, ended = threading.Event(), threading.Event()
    other = Slow(lambda: begun.set() or ended.wait(1800))
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(lambda: other.done)
        assert begun.wait(1800)
        assert Slow(lambda: True).done
        ended.set()
        assert result.result()
    assert other.__dict__["done"]
    assert isinstance(Slow.done, computed_once)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_law_12_works_after_fork_in_the_middle_of_other_threads_calls() -> None:
    expected = [small(i) for i in range(12)]
    with ThreadPoolExecutor(3) as pool:
        busy = [pool.submit(lambda: [small(i) for i in range(120)]) for _ in range(3)]
        for _ in range(5):
            child_id = os.fork()
            if child_id == 0:  # nothing of pytest's may run here
                os._exit(0 if [small(i) for i in range(12)] == expected else 1)
            assert os.waitpid(child_id, 0)[1] == 0
        assert all(one.result() == expected * 10 for one in busy)


@pytest.mark.slow
def test_law_12_works_in_spawned_processes() -> None:
    expected = [small(i) for i in range(12)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(small, range(12)) == expected


@pytest.mark.slow
def test_law_12_importing_and_attending_change_nothing_outside() -> None:
    output = printed(
        """
        import os, signal, threading, random, warnings
        import numpy as np
        def state():
            tiny = np.float32(1e-38) * np.float32(0.1)  # subnormal, unless the process flushes to zero
            return (dict(os.environ), [signal.getsignal(s) for s in signal.valid_signals()],
                    repr(np.random.get_state()), random.getstate(), float(tiny), np.geterr(),
                    np.float32(1) / np.float32(3), np.get_printoptions(), warnings.filters[:], os.getcwd())
        np.random.seed(7)
        before = state()
        import regard
        after_import = state()
        threads_after_import = threading.active_count()
        x = np.ones((2, 300, 8), np.float32)
        context, pullback = regard.attention_vjp(x, x, x, threads=2)
        pullback(context)
        regard.attention(x, x, x * np.nan)
        after_use = state()
        print(before == after_import, before == after_use, threads_after_import, before[4] > 0)
        """
    )
    assert output.split() == ["True", "True", "1", "True"]


@pytest.mark.slow
def test_law_12_threads_do_not_keep_the_process_alive() -> None:
    code = "import numpy as np, regard; x = np.ones((4, 600, 8)); regard.attention(x, x, x, threads=4); print('done')"
    assert printed(code) == "done\n"


@pytest.mark.slow
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="resident size and threads are read from /proc"
)
@pytest.mark.skipif(not library.instruction_sets(), reason=library.missing() or "there is a library")
def test_law_12_ten_thousand_calls_leak_nothing() -> None:
    output = printed(
        """
        import os
        import numpy as np, regard
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        rng = np.random.default_rng(0)
        few, many, keys = (rng.standard_normal((2, size, 8)).astype(np.float32) for size in (2, 30, 1100))
        mask, bias = regard.mask.causal(align="end"), rng.standard_normal((30, 1100)).astype(np.float32)
        def calls(count):
            for i in range(count):
                how = {"threads": 1 + i % 2, "kernel": "native"}
                regard.attention(few, keys, keys, **how)
                regard.attention(many, keys, keys, mask=mask, **how)
                context, pullback = regard.attention_vjp(many, keys, keys, bias=bias, **how)
                pullback(context)
        calls(300)
        before, threads = resident(), len(os.listdir("/proc/self/task"))
        calls(2500)
        print(resident() - before, len(os.listdir("/proc/self/task")) - threads)
        """
    )
    growth, threads = map(int, output.split())
    assert growth < 1 << 20
    assert threads == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted on Linux only")
def test_law_12_no_more_threads_are_started_than_useful() -> None:
    stdout = printed("""
        import os, numpy as np, regard
        x = np.ones((64, 300, 8), np.float32)
        before = len(os.listdir("/proc/self/task"))
        one = regard.attention(x, x, x, threads=1)
        print((regard.attention(x, x, x, threads=1_000_000) == one).all())
        print(len(os.listdir("/proc/self/task")) - before < max(64, os.cpu_count()))
    """)
    assert stdout.split() == ["True", "True"]


@pytest.mark.threads
def test_each_item_has_a_thread() -> None:
    with two_threads(2) as threads:
        idents = TwoThreadMap(threads)(lambda _: threading.get_ident(), range(2))
        assert len(set(idents)) == 2
        assert threading.get_ident() not in idents
    assert TwoThreadMap()(lambda x: 2 * x, (1, 2)) == [2, 4]
    assert TwoThreadMap()(lambda x: 2 * x, (1,)) == [2]


def test_adam_is_the_same_with_two_threads() -> None:
    rng = np.random.default_rng(0)
    start, gradient = rng.standard_normal((2, 300_001)).astype(np.float32)
    alone, shared = (Adam(start.copy()) for _ in range(2))
    with two_threads(2) as threads:
        for _ in range(2):
            length = alone.step(gradient.copy(), 0.1)
            assert shared.step(gradient.copy(), 0.1, TwoThreadMap(threads)) == length
    assert (alone.parameters == shared.parameters).all()
    assert length == pytest.approx(float(np.linalg.norm(gradient)), rel=1e-5)


def test_the_last_user_restores_the_threads_of_blas(monkeypatch: pytest.MonkeyPatch) -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def limits() -> set[int]:
        return {
            pool_info["num_threads"]
            for pool_info in threadpoolctl.threadpool_info()
            if pool_info["user_api"] == "blas"
        }

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = limits()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert limits() == {1}
        second.__exit__(None, None, None)
        assert limits() == before


@pytest.mark.slow
def test_a_thread_translates_after_the_main_thread_has_ended() -> None:
    script = """
        import threading, time
        from regard.seq2seq import Seq2Seq
        model = Seq2Seq(epochs=1).fit(["a b", "b"], ["x y", "y"])
        def serve():
            threading.main_thread().join()
            print(len(model.translate([" ".join("a" * n) for n in (1, 40, 80) for _ in range(300)])))
        threading.Thread(target=serve).start()
    """
    assert printed(script, OPENBLAS_NUM_THREADS="1") == "900\n"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads can't be kept to processors here")
def test_the_pool_avoids_the_processor_of_its_caller() -> None:
    """Linux tends to wake a thread on the processor of its caller, which is busy."""
    if library.load() is None or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("it takes the library and two processors")
    script = """
        import os, threading, time, numpy as np, regard
        x = np.ones((4, 600, 16), np.float32)
        whole, known, right = os.sched_getaffinity(0), set(os.listdir("/proc/self/task")), []
        def call(processor):
            os.sched_setaffinity(0, {processor})  # of this thread
            me, end = {str(threading.get_native_id())}, time.monotonic() + 1200
            while time.monotonic() < end:  # a thread that was just started may wake up late
                regard.attention(x, x, x, threads=2, kernel="native")
                pool = set(os.listdir("/proc/self/task")) - known - me
                if [os.sched_getaffinity(int(thread)) for thread in pool] == [whole - {processor}]:
                    return right.append(processor)
                time.sleep(0.01)
        for processor in sorted(whole) * 2:
            caller = threading.Thread(target=call, args=[processor])
            caller.start(), caller.join()
        print(right == sorted(whole) * 2)
    """
    assert printed(script, OPENBLAS_NUM_THREADS="1") == "True\n"


STEPS = """
    import resource
    import numpy as np
    from regard._threads import two_threads

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for step in range(10):
            arrays = [np.ones(400_000, np.float32) for _ in range(5)]
            del arrays
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults()
    usual = faults()
    with two_threads():
        faults()
        print(usual, faults())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
def test_memory_that_a_step_frees_is_reused() -> None:
    usual, reused = map(int, printed(STEPS).split())
    assert usual > 10 * 5 * 1_600_000 // 4096 // 2
    assert reused < usual / 10
