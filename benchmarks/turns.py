"""What benchmarks share that take turns with PyTorch: each contestant is a process, with a peak memory of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from kernel import environment, processor
from probe import compile_into

__all__ = ["TURN", "Worker", "at_its_best", "race", "take_turns"]

TURN = 1.0  # seconds that a turn takes at least


def peak() -> float:
    """Return the most memory that this process has held, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def take_turns(first: Any, work: Callable[[], float]) -> None:
    """Tell what was found at first, how much work is done a second whenever asked, and at the end the peak memory."""
    print(json.dumps(first), flush=True)
    for _ in sys.stdin:
        done, start = 0.0, time.perf_counter()
        while (passed := time.perf_counter() - start) < TURN:
            done += work()
        print(json.dumps(done / passed), flush=True)
    print(json.dumps(peak()), flush=True)


class Worker:
    """A process that takes turns, kept to so many processors; BLAS has so many threads."""

    def __init__(self, command: list[str], threads: int, blas: int, preload: Path | None) -> None:
        told = environment(blas, preload, as_installed=preload is None)

        def keep() -> None:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])

        able = keep if hasattr(os, "sched_setaffinity") else None
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, *command], env=told, stdin=pipe, stdout=pipe, text=True, preexec_fn=able
        )
        self.first = self._read()

    def _read(self) -> Any:
        output: IO[str] | None = self.process.stdout
        line = output.readline() if output else ""
        return json.loads(line) if line else None  # nothing: it has failed, and has said why

    def turn(self) -> float:
        """Return how much work it does a second."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._read() or 0.0)

    def close(self) -> float:
        """Return the peak memory in MiB."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        found = self._read()
        self.process.wait()
        return float(found or 0.0)


def race(workers: Mapping[str, Worker], rounds: int) -> dict[str, list[float]]:
    """Return what each does a second, round by round; each begins a round in turn."""
    rates: dict[str, list[float]] = {name: [] for name in workers}
    order = list(workers)
    for _ in range(rounds):
        for name in order:
            rates[name].append(workers[name].turn())
        order.append(order.pop(0))
    return rates


@contextmanager
def at_its_best(wanted: bool) -> Iterator[Path | None]:
    """Give what PyTorch's matrix library needs to be told here, if anything: see probe.cpp."""
    with tempfile.TemporaryDirectory() as folder:
        preload = compile_into(Path(folder)) if wanted and "Intel" not in processor() else None
        if preload:
            print(
                "PyTorch's matrix library is told that the processor is Intel's, or it would use half of its vectors"
            )
        yield preload
