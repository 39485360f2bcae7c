"""Comparison with PyTorch in turns: each contestant is a process, with a peak memory of its own."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from kernel import AS_INSTALLED, AS_INTEL, GB, aligned, binder, cell, environment, quotient
from probe import Probe, compile_into
from record import add_option, installed, keep, processor, save, spread

__all__ = [
    "TURN",
    "Tools",
    "Worker",
    "arguments",
    "begin",
    "compare",
    "compete",
    "start_workers",
    "take_turns",
    "training_arguments",
]

TURN = 1.0  # seconds, the shortest turn
T = TypeVar("T")


def arguments(about: str | None, contestants: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser of the command line of a comparison."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    counts = sorted({1, min(os.cpu_count() or 1, 2)})
    parser.add_argument(
        "--threads", type=int, choices=(1, 2), nargs="+", default=counts, help="default: 1 and 2"
    )
    parser.add_argument("--rounds", type=int, default=9, help="turns of each contestant (default 9)")
    parser.add_argument("--as-installed", action="store_true", help=AS_INSTALLED)
    parser.add_argument("--worker", choices=tuple(contestants), help=argparse.SUPPRESS)
    add_option(parser)
    return parser


def training_arguments(
    about: str | None, contestants: Iterable[str], *, as_trained: str
) -> argparse.ArgumentParser:
    """Return the parser of a comparison of training; `as_trained` is the help text of that option."""
    parser = arguments(about, contestants)
    parser.add_argument("--as-trained", action="store_true", help=as_trained)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    return parser


def compare(
    args: argparse.Namespace,
    contestants: Iterable[str],
    task: Callable[[int], T],
    work: Callable[[str, T], None],
    measure: Callable[[list[str], T, int, Tools], None],
) -> None:
    """Work as the contestant of the command line, if it has one; otherwise measure all with each number of threads.

    `task` returns what is to be done with a number of threads. The arguments are those of `training_arguments`.
    """
    if args.worker:
        work(args.worker, task(args.threads[0]))
        return
    names = [name for name in contestants if name == "regard" or installed("torch")]
    if args.no_compile:
        names = [name for name in names if "compiled" not in name]
    with begin(names, args.as_installed) as tools:
        for threads in args.threads:
            measure(names, task(threads), args.rounds, tools)
    save(args.json)


def peak() -> float:
    """Return the peak memory of this process in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def take_turns(first: Any, work: Callable[[], float]) -> None:
    """Print `first`, the units of `work` a second for each line of standard input, and at its end the peak memory."""
    print(json.dumps(first), flush=True)
    for _ in sys.stdin:
        done, start = 0.0, time.perf_counter()
        while (passed := time.perf_counter() - start) < TURN:
            done += work()
        print(json.dumps(done / passed), flush=True)
    print(json.dumps(peak()), flush=True)


class Worker:
    """A process that takes turns, bound to `threads` processors; its BLAS has `blas` threads."""

    def __init__(self, command: list[str], threads: int, blas: int, preload: Path | None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=environment(blas, preload, as_installed=preload is None),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=binder(threads),
        )
        self.first = self._read()

    def _read(self) -> Any:
        output: IO[str] | None = self.process.stdout
        line = output.readline() if output else ""
        return json.loads(line) if line else None  # without a line it has failed, and has printed why

    def turn(self) -> float:
        """Return the units of work a second of one turn."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._read() or 0.0)

    def close(self) -> float:
        """End the process and return its peak memory in MiB."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        memory = self._read()
        self.process.wait()
        return float(memory or 0.0)


@dataclass(frozen=True)
class Tools:
    """Libraries compiled for this machine: one measures its limit, one is preloaded for PyTorch (see probe.cpp)."""

    probe: Path | None = None
    preload: Path | None = None


def start_workers(
    script: str, names: Iterable[str], threads: int, options: Sequence[str], tools: Tools
) -> dict[str, Worker]:
    """Start the script as a worker for each contestant, with further options of its command line."""
    workers = {}
    for name in names:
        command = [script, "--worker", name, "--threads", str(threads), *options]
        # regard's threads are those of the two halves; its BLAS has one, as in `regard train`
        blas = 1 if name == "regard" else threads
        workers[name] = Worker(command, threads, blas, tools.preload)
    return workers


@contextmanager
def begin(names: Sequence[str], as_installed: bool) -> Iterator[Tools]:
    """Print the machine and the versions, and compile the tools for these contestants."""
    print(f"{processor()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    versions = f"NumPy {np.__version__}, PyTorch {installed('torch')}"
    print(f"load before the start: {os.getloadavg()[0]:.1f}; {versions}")
    with tempfile.TemporaryDirectory() as folder:
        probe = compile_into(Path(folder))
        if probe is None:
            print("no C++ compiler: the machine's limit is not measured")
        adapts = len(names) > 1 and "Intel" not in processor()
        preload = probe if adapts and not as_installed else None
        if adapts:
            print(f"PyTorch's matrix library: {AS_INTEL if preload else 'as installed'}")
        yield Tools(probe, preload)


def compete(
    title: str,
    unit: str,
    workers: Mapping[str, Worker],
    rounds: int,
    limit: Probe | None,
    products: float | None = None,
) -> dict[str, Any]:
    """Run the workers in turns, print and keep the table, and return the first output of each.

    `products` are the FLOPs of the matrix products of one unit. The limit is that of a loop of fused multiply-adds in
    registers, which takes turns with the workers.
    """
    running = {name: worker for name, worker in workers.items() if worker.first is not None}
    rates, limits = race(running, rounds, limit)
    print(f"\n{title}")
    lines = [["", f"{unit} a second", "% of the limit", "peak MiB", "regard's speed / this"]]
    for name, worker in running.items():
        ratio = quotient(rates["regard"], rates[name])
        compared = "" if name == "regard" else f"{ratio:.2f}" + "  regard LOSES" * (ratio < 1)
        share = 100 * products * quotient(rates[name], limits) if products and limits else None
        memory = worker.close()
        keep(case=title, contestant=name, rate=spread(rates[name]), share=share, memory=memory)
        lines.append([name, cell(rates[name]), f"{share:.0f}" if share else "-", f"{memory:.0f}", compared])
    aligned(lines)
    if products and limits:
        print(
            f"  limit: {cell([x / GB for x in limits])} GFLOP/s; {products / 1e6:.3g} MFLOP of products each"
        )
    for name in set(workers) - set(running):
        print(f"  {name} does not work here")
    return {name: worker.first for name, worker in running.items()}


def race(
    workers: Mapping[str, Worker], rounds: int, limit: Probe | None
) -> tuple[dict[str, list[float]], list[float]]:
    """Return the rates of each worker and the limits in FLOP/s, by round; the order of the workers rotates."""
    rates: dict[str, list[float]] = {name: [] for name in workers}
    limits, order = [], list(workers)
    for _ in range(rounds):
        for name in order:
            rates[name].append(workers[name].turn())
        order.append(order.pop(0))
        limits += [limit.flops("float32", TURN / 4)] if limit else []
    return rates, limits
