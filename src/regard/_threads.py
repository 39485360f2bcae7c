"""Threads: the limit of BLAS for small networks, worker threads, and library calls that Ctrl-C can end.

Everything here also works where no thread can be started: the calling thread then does the work.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from regard._processors import available
from regard._signals import complete

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__: list[str] = []

Item = TypeVar("Item")
Result = TypeVar("Result")

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_blas_thread() -> Iterator[bool]:
    """Limit BLAS to one thread, unless the environment sets a number; yield whether it has one.

    The products of a small network gain little from more. On a machine that runs anything else, OpenBLAS's threads wait
    for each other in busy loops, and a step takes ten times as long.
    """
    numbers = [os.environ[name] for name in VARIABLES if name in os.environ]
    if numbers:
        yield numbers[0] == "1"
        return
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # it comes with regard[cli]
        yield False
        return
    user = object()
    try:
        with _blas.lock:
            _blas.users.add(user)
            _blas.limit = _blas.limit or threadpool_limits(1, user_api="blas")
        yield True
    finally:
        complete(partial(_blas.leave, user))


class _Blas:
    """The limit of BLAS in this process: set by the first user, restored by the last."""

    limit: Any = None

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), set[object]()

    def leave(self, user: object) -> None:
        """Remove a user."""
        with self.lock:
            self.users.discard(user)
            if not self.users and self.limit is not None:
                self.limit.restore_original_limits()
                self.limit = None


_blas = _Blas()


class Stopped(Exception):
    """A worker's task ended early, because its result is no longer awaited."""


class Workers:
    """Up to `count` worker threads that take tasks in order; fewer, or none, where they can't be started.

    Without a thread, `submit` does the work itself. The threads are daemons, so they do not keep the process from
    ending. They also end when the object is freed: a signal handler can raise before the ``with`` block begins, and
    where `__exit__` does.
    """

    def __init__(self, count: int, begin: Callable[[], Any] | None = None) -> None:
        # Its methods are C code: a KeyboardInterrupt cannot leave its lock acquired, as it can with a Condition.
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._ended: list[None] = []
        self._threads: list[threading.Thread] = []
        for _ in range(count):
            freed = weakref.ref(self, self._tasks.put)  # C code as well, in which no handler runs
            arguments = (self._tasks, self._ended, self._wake, begin, freed)
            thread = threading.Thread(target=self._work, args=arguments, name="regard", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system, or an interpreter that is shutting down, allows no more
                break
            self._threads.append(thread)

    def submit(self, function: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Call a function in a worker; the future has its result or error."""
        from concurrent.futures import Future  # takes 5 ms, which `import regard` avoids

        future: Future[Result] = Future()

        def task() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function(*arguments))
                except BaseException as error:
                    future.set_exception(error)
                    if not self._threads:
                        raise

        if not self._threads:
            task()
            return future
        self._tasks.put(task)
        return future

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results in the order of the items."""
        if not self._threads:
            yield from map(function, items)
            return
        for future in [self.submit(function, item) for item in items]:
            yield future.result()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        """Wait for the threads to end. After an error, drop waiting tasks and ask running ones to stop."""
        self._failed = kind is not None
        complete(self._end)

    def _end(self) -> None:
        failed, self._failed = self._failed, True  # another call follows an exception of a signal handler
        if failed:
            _stopping.update(self._threads)
            with suppress(Empty):
                while True:
                    self._tasks.get_nowait()
        for _ in self._threads:
            self._tasks.put(None)
        # In Python 3.11, `join` takes a thread for ended once a signal handler has raised in it.
        while len(self._ended) < len(self._threads):
            with suppress(Empty):
                self._wake.get(timeout=0.1)
        for thread in self._threads:
            thread.join()
        _stopping.difference_update(self._threads)

    @staticmethod
    def _work(
        tasks: SimpleQueue[Callable[[], object] | None],
        ended: list[None],
        wake: SimpleQueue[None],
        begin: Callable[[], Any] | None,
        freed: weakref.ref[Workers],
    ) -> None:
        try:
            if begin:
                begin()
            while (task := tasks.get()) and not isinstance(task, weakref.ref):
                task()
                del task  # and the objects that it refers to
        finally:
            ended.append(None)
            wake.put(None)


_stopping: set[threading.Thread] = set()  # worker threads that are asked to stop


def stop_if_requested() -> None:
    """Raise `Stopped` in a worker thread that is to stop; call it in long loops."""
    if _stopping and threading.current_thread() in _stopping:
        raise Stopped


def interruptible(call: Callable[[int], Result]) -> Result:
    """Run a long call of the library so that a signal handler which raises, as that of Ctrl-C does, ends it.

    Python runs signal handlers in the main thread only, and not before a call of C code has returned. So another thread
    makes the call while the main one waits; ``call(address)`` gets the address of a 32-bit number that the library
    polls; a value other than 0 makes the call return early. Any other thread makes the call itself.

    Whatever is raised and how often, this function is not left before the call has returned: its arrays would be freed.
    CPython runs handlers after calls, at jumps back and where functions begin, so none runs between the first exception
    and the end of the second wait. Only a debugger can raise there, and then the thread still holds the frames.
    """
    if threading.current_thread() is not threading.main_thread():
        return call(0)
    stop, done, python = ctypes.c_int32(0), _thread.allocate_lock(), _python()
    ended, wait = python.PyThread_allocate_lock(), python.PyThread_acquire_lock
    results: list[Result] = []
    started: list[int] = []
    frames = [sys._getframe()]  # with those of the callers, whose variables hold the arrays

    def work() -> None:
        try:
            results.append(call(ctypes.addressof(stop)))
        finally:
            frames.clear()
            python.PyThread_release_lock(ended)
            done.release()

    wait(ended, 1)
    done.acquire()
    start = map(_thread.start_new_thread, [work], [()])
    try:
        started.extend(start)  # one call: a handler that raises runs after it, when `started` is filled
        while not done.acquire(timeout=0.1):  # Windows runs handlers only between waits
            pass
    except BaseException as error:
        stop.value = 1
        try:
            if started:
                wait(ended, 1)
                python.PyThread_free_lock(ended)
        finally:
            if started or not isinstance(error, RuntimeError):
                raise error
        frames.clear()
        results.append(call(0))  # no thread can be started
    python.PyThread_free_lock(ended)
    return results[0]


@cache
def _python() -> ctypes.CDLL:
    """Return Python's C functions for locks; they wait without the GIL and, unlike Python's locks, run no handlers."""
    python = ctypes.CDLL(None, handle=ctypes.pythonapi._handle)
    python.PyThread_allocate_lock.restype = ctypes.c_void_p
    python.PyThread_acquire_lock.argtypes = [ctypes.c_void_p, ctypes.c_int]
    for name in ("release", "free"):
        getattr(python, f"PyThread_{name}_lock").argtypes = [ctypes.c_void_p]
    return python


@contextmanager
def two_threads(count: int | None = None) -> Iterator[tuple[Workers, Workers]]:
    """Yield two worker threads for a ``with`` block, each bound to one half of the processors.

    `count` is the number of processors, by default those that this process may use. With one, no thread is started.

    Linux starts a thread on the processor of the thread that started it, and on a busy machine leaves it there: the two
    then take turns, as if there were one.
    """
    _keep_memory()
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    threads = int((available() if count is None else count) > 1)
    first, second = (
        Workers(threads, partial(_bind_to, processors[half::2] if len(processors) > 1 else []))
        for half in range(2)
    )
    with first, second:
        yield first, second


def _keep_memory() -> None:
    """Make the C library keep the memory that a step frees, for the next step.

    glibc asks the system for each block that is larger than the largest one freed so far, and returns free memory at
    the end of the heap from twice that size on. The arrays of a step have some MB each, and the system would clear
    their memory at every step. Freeing an untouched block just below the limit of 32 MB raises both thresholds.
    """
    np.empty(31 << 20, np.uint8)


class TwoThreadMap:
    """A `map` over two items, one in each of two threads; without threads, one after the other."""

    def __init__(self, threads: tuple[Workers, Workers] | None = None) -> None:
        self.threads = threads

    def __call__(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Return the results of the function."""
        items = list(items)
        if self.threads is None or len(items) == 1:
            return [function(item) for item in items]
        futures = [thread.submit(function, item) for thread, item in zip(self.threads, items, strict=True)]
        return [future.result() for future in futures]


def _bind_to(processors: list[int]) -> None:
    """Bind the calling thread to some processors, where that is allowed."""
    if processors and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(0, processors)
