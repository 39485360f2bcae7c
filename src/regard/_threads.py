"""Threads beside small networks: how many BLAS may use, and two of our own that stay out of each other's way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np

__all__: list[str] = []

Item = TypeVar("Item")
Found = TypeVar("Found")

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def one_blas_thread() -> Iterator[bool]:
    """Keep BLAS on one thread, unless the environment says how many; gives whether it is on one.

    The products of a small network gain little from more. On a machine that does anything else beside, OpenBLAS's
    threads wait for each other in busy loops, and a step takes ten times as long.
    """
    asked = [os.environ[name] for name in VARIABLES if name in os.environ]
    if asked:
        yield asked[0] == "1"
        return
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # it comes with regard[cli]
        yield False
        return
    with _blas.lock:
        if _blas.held == 0:
            _blas.limit = threadpool_limits(1, user_api="blas")
        _blas.held += 1
    try:
        yield True
    finally:
        with _blas.lock:
            _blas.held -= 1
            if _blas.held == 0:
                _blas.limit.restore_original_limits()


class _Blas:
    """Who keeps BLAS on one thread: the first to begin sets it for the whole process, the last to end sets it back."""

    limit: Any

    def __init__(self) -> None:
        self.lock, self.held = threading.Lock(), 0


_blas = _Blas()


@contextmanager
def two_threads() -> Iterator[tuple[Executor, Executor]]:
    """Give two threads for as long as a ``with`` block lasts, each with one half of the processors to itself.

    Left alone, Linux starts a thread on the processor of whoever gave it work, and where anything else runs beside it
    leaves it there: the two take turns then, as if there were one.
    """
    _keep_memory()
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    first, second = (
        ThreadPoolExecutor(1, "regard", _keep_to, (mine[half::2] if len(mine) > 1 else [],))
        for half in range(2)
    )
    with first, second:
        yield first, second


def _keep_memory() -> None:
    """Let the C library keep what one step of work gives back, for the next one.

    glibc asks the system for each block that is larger than any that was ever given back, and returns what is free at
    the end of the heap from twice that size on. A step's arrays have some MB each, and the system would have to clear
    their memory at every step. Giving back a block just below the limit of 32 MB, which nobody has touched, moves both
    marks up to there.
    """
    np.empty(31 << 20, np.uint8)


class Each:
    """A `map` for two items: with two threads, each has one; without, one comes after the other."""

    def __init__(self, threads: tuple[Executor, Executor] | None = None) -> None:
        self.threads = threads

    def __call__(self, function: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
        """Return what the function makes of each item."""
        given = list(items)
        if self.threads is None or len(given) == 1:
            return [function(item) for item in given]
        waiting = [thread.submit(function, item) for thread, item in zip(self.threads, given, strict=True)]
        return [one.result() for one in waiting]


def _keep_to(processors: list[int]) -> None:
    """Keep the calling thread to some processors; where that is not allowed, it may be anywhere."""
    if processors and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):
            os.sched_setaffinity(0, processors)
