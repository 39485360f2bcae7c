"""Attention on a Dask cluster: its overhead next to the threaded kernel, and a cost model of its scaling.

    python benchmarks/scaling.py [--seconds 20] [--workers 1 2] [--rounds 3] [--save docs/images/scaling.png]

Workers are processes with one thread each, on this machine. First the machine is measured: the FLOP/s of a worker on a
pair of chunks, the seconds that a task costs beside its work, and the bandwidth and latency of a link between two
workers. From these numbers the model predicts each run; then the runs are measured:

- overhead: dense attention that takes the threaded kernel `--seconds`, on as many workers as it has threads, in turns;
- strong scaling: the same dense attention on one worker, two, ...;
- weak scaling: a window over a length in proportion to the number of workers;
- the time to build the graph of a window over 10^6 x 10^6 positions.

The model, for W workers::

    seconds = max(pairs / W * (FLOP of a pair / FLOP/s + seconds of a task), tasks * seconds of the scheduler)
              + bytes that a worker receives / bandwidth + latency * levels of the tree of merges

A worker receives the keys and values that it does not hold, and its share of the partial results that are merged.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from record import processor

import regard
from regard.dask import attention

SIZE = 64  # d and e
ROWS = 16384  # of a chunk
WINDOW = ROWS  # keys on either side
TOGETHER = 8  # parts that one task merges
BYTES = 4  # of a number
FAR = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)  # workers in the figure


@dataclass(frozen=True)
class Machine:
    """What the model knows: FLOP/s of a worker, seconds of a task and of the scheduler for it, and the link."""

    flops: float
    task: float
    scheduler: float
    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Run:
    """An attention of n queries to n keys in chunks of ROWS, dense or in a window."""

    n: int
    window: int | None

    @property
    def mask(self) -> regard.mask.Mask | None:
        """Return the mask."""
        return None if self.window is None else regard.mask.window(self.window, self.window)

    @property
    def columns(self) -> float:
        """Return the mean number of chunks of keys that a chunk of queries sees."""
        chunks = self.n / ROWS
        if self.window is None:
            return chunks
        reach = math.ceil(self.window / ROWS)
        return sum(min(chunks, i + reach + 1) - max(0, i - reach) for i in range(int(chunks))) / chunks

    @property
    def flop(self) -> float:
        """Return the FLOP of all pairs of positions that are visible."""
        if self.window is None:
            return 4.0 * self.n * self.n * SIZE
        inside = self.n * (2 * self.window + 1) - self.window * (self.window + 1)
        return 4.0 * inside * SIZE

    def seconds(self, machine: Machine, workers: int) -> float:
        """Return the time that the model predicts."""
        rows = self.n / ROWS
        pairs = rows * self.columns
        merges = rows * max(0.0, (self.columns - 1) / (TOGETHER - 1))
        tasks = pairs + merges + rows
        each = math.ceil(pairs / workers) * (self.flop / pairs / machine.flops + machine.task)
        away = (workers - 1) / workers
        keys = min(self.columns * rows / workers, rows) * ROWS * 2 * SIZE * BYTES
        partials = pairs / workers * ROWS * (SIZE + 1) * BYTES if self.window is None else 0.0
        levels = math.ceil(math.log(max(self.columns, TOGETHER), TOGETHER))
        moved = away * (keys + partials) / machine.bandwidth + levels * machine.latency
        return max(each, tasks * machine.scheduler) + moved


@contextmanager
def cluster(workers: int) -> Iterator[Client]:
    """Yield a client of a cluster of processes with one thread each."""
    quiet = {
        "distributed.worker.memory.terminate": False,
        "distributed.admin.large-graph-warning-threshold": "1GB",
    }
    with (
        dask.config.set(quiet),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as local,
        Client(local) as client,
    ):
        client.run(lambda: __import__("regard"))
        yield client


def drawn(n: int, rows: int = ROWS, size: int = SIZE) -> list[Any]:
    """Return queries, keys and values on the workers."""
    rng = da.random.default_rng(0)
    arrays = [rng.normal(size=(n, size), chunks=(rows, size)).astype(np.float32) for _ in range(3)]
    stored = dask.persist(*arrays)
    wait(stored)
    return list(stored)


def timed(run: Run, rounds: int, between: Callable[[], object]) -> float:
    """Return the best seconds of a run, with its arrays on the workers and its result left there.

    `between` runs between the rounds.
    """
    arrays, best = drawn(run.n), math.inf
    for number in range(rounds):
        lazy = attention(*arrays, mask=run.mask, scale=0.125 + number * 1e-9)  # another name, no reuse
        start = time.perf_counter()
        wait(lazy.persist())
        best = min(best, time.perf_counter() - start)
        between()
    return best


def pair_flops() -> float:
    """Return the FLOP/s of one thread on a pair of chunks."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((ROWS, SIZE), dtype=np.float32) for _ in range(3)]
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        regard.partial(*arrays, threads=1)
        best = min(best, time.perf_counter() - start)
    return 4.0 * ROWS * ROWS * SIZE / best


def measured(client: Client, workers: int) -> Machine:
    """Measure the machine; the link needs two workers."""
    flops = max(client.run(pair_flops).values()) if workers == 1 else min(client.run(pair_flops).values())
    small, best = drawn(64, 2, 2), math.inf  # 1,024 pairs that take no time
    for number in range(3):
        lazy = attention(*small, scale=0.125 + number * 1e-9)
        start = time.perf_counter()
        wait(lazy.persist())
        best = min(best, (time.perf_counter() - start) / len(lazy.__dask_graph__()))
    task = best * workers
    return Machine(flops, task, task / workers, *link(client))


def link(client: Client) -> tuple[float, float]:
    """Return bandwidth and latency between two workers; of the memory of one worker if there is only one."""
    first, *others = list(client.scheduler_info()["workers"])
    if not others:
        return math.inf, 0.0
    seconds = {}
    for size in (1, 1 << 25):
        best = math.inf
        for number in range(4):
            source = client.submit(np.full, size, number, np.uint8, workers=[first], pure=False)
            wait(source)
            start = time.perf_counter()
            client.submit(len, source, workers=[others[0]], pure=False).result()
            best = min(best, time.perf_counter() - start)
        seconds[size] = best
    latency = seconds[1]
    return (1 << 25) / max(seconds[1 << 25] - latency, 1e-9), latency


def kernel(n: int, threads: int) -> float:
    """Return the seconds of the threaded kernel on n positions."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, SIZE), dtype=np.float32) for _ in range(3)]
    start = time.perf_counter()
    regard.attention(*arrays, threads=threads)
    return time.perf_counter() - start


def length(seconds: float, threads: int) -> int:
    """Return a number of positions for which the threaded kernel needs about these seconds."""
    kernel(ROWS, threads)
    return round(4 * ROWS * math.sqrt(seconds / kernel(4 * ROWS, threads)) / ROWS) * ROWS


def graph_seconds() -> tuple[float, int]:
    """Return the seconds to build the graph of a window over a million positions, and the number of its tasks."""
    x = da.zeros((10**6, SIZE), chunks=(4000, SIZE), dtype=np.float32)
    start = time.perf_counter()
    context = attention(x, x, x, mask=regard.mask.window(5000, 5000))
    return time.perf_counter() - start, len(context.__dask_graph__())


def draw(path: Path, machine: Machine, strong: Run, weak: Run, points: dict[str, dict[int, float]]) -> None:
    """Draw predicted and measured seconds over the number of workers."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), dpi=160, sharey=False)
    for axis, name, run in zip(axes, ("strong", "weak"), (strong, weak), strict=True):
        grown = [Run(run.n * w, run.window) if name == "weak" else run for w in FAR]
        axis.plot(
            FAR, [one.seconds(machine, w) for one, w in zip(grown, FAR, strict=True)], "-", label="model"
        )
        axis.plot(list(points[name]), list(points[name].values()), "o", label="measured on this machine")
        if name == "strong":
            axis.plot(FAR, [run.seconds(machine, 1) / w for w in FAR], ":", color="grey", label="ideal")
            axis.set_yscale("log")
        else:
            axis.set_ylim(0)
        axis.set_xscale("log")
        axis.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
        axis.set_xlabel("workers of one thread")
        axis.set_ylabel("seconds")
        length = f"{run.n:,} positions" + (" a worker" if name == "weak" else "")
        kind = "all keys" if run.window is None else f"a window of {2 * run.window + 1:,} keys"
        axis.set_title(f"{name} scaling: {length},\n{kind}", fontsize=9)
        axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Measure, predict, compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of the threaded kernel (default 20)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="default: 1 and 2")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of each run, of which the best counts (default 3)"
    )
    parser.add_argument("--save", type=Path, help="picture of the model and the measurements")
    options = parser.parse_args()
    most = max(options.workers)
    print(f"{processor()}, {os.cpu_count()} processors; load before the start: {os.getloadavg()[0]:.1f}")
    seconds, tasks = graph_seconds()
    print(f"graph of a window over 10^6 x 10^6 positions: {tasks:,} tasks in {seconds:.2f} s")
    n, alone = length(options.seconds, most), [math.inf]
    strong, weak = Run(n, None), Run(16 * ROWS, WINDOW)
    points: dict[str, dict[int, float]] = {"strong": {}, "weak": {}}
    machine = Machine(0, 0, 0, 0, 0)
    print(
        "| scaling | workers | positions | measured s | model s | model / measured |\n|---|---|---|---|---|---|"
    )
    for workers in options.workers:
        with cluster(workers) as client:
            machine = measured(client, workers)
            for name, run in (("strong", strong), ("weak", Run(weak.n * workers, WINDOW))):
                compared = name == "strong" and workers == most
                between = (lambda: alone.append(kernel(n, most))) if compared else (lambda: None)
                points[name][workers] = timed(run, options.rounds, between)
                model = run.seconds(machine, workers)
                ratio = model / points[name][workers]
                print(
                    f"| {name} | {workers} | {run.n:,} | {points[name][workers]:.2f} | {model:.2f} | {ratio:.2f} |",
                    flush=True,
                )
    print(
        f"a worker: {machine.flops / 1e9:.0f} GFLOP/s, {machine.task * 1e3:.1f} ms a task; link: "
        f"{machine.bandwidth / 1e9:.2f} GB/s, {machine.latency * 1e3:.1f} ms"
    )
    print(
        f"threaded kernel, {most} threads, {n:,} positions: {min(alone):.2f} s; cluster: {points['strong'][most]:.2f} s"
    )
    print(f"overhead: {100 * (points['strong'][most] / min(alone) - 1):.0f} %")
    for run in (strong, weak):
        far = Run(run.n * 1000, run.window) if run.window else run
        print(f"model, 1,000 workers, {far.n:,} positions: {far.seconds(machine, 1000):.2f} s")
    if options.save:
        draw(options.save, machine, strong, weak, points)


if __name__ == "__main__":
    main()
