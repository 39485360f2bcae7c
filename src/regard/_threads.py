"""How many threads BLAS may use while a small network is trained or searched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__: list[str] = []

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
    with threadpool_limits(1, user_api="blas"):
        yield True
