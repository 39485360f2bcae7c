"""Attention to keys and values on a disk: its throughput next to the disk alone and the kernel alone.

    python benchmarks/outofcore.py [--gigabytes 2] [--queries 1 16 64 256] [--folder .] [--disk 1]

Keys and values of float32 lie in two files. For each number of queries three things are measured in turns:

- disk: reading both files in the same chunks, and nothing else. The files are dropped from the page cache before
  (`posix_fadvise`), where the system does that;
- kernel: `regard.partial` and `regard.merge` on as many chunks that are in memory already;
- both: `regard.outofcore.attention`.

The share is the slower of disk and kernel over both: 1 is reading and computing entirely at the same time. It can be
more, because a mapped file is not copied, as it is for the disk alone. `--disk 1` reads by slices, as
from HDF5 or zarr, each of which waits until a disk of 1 GB/s would have delivered it.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import processor

import regard
from regard import outofcore
from regard._layout import slices

SIZE = 64
CHUNK = outofcore.CHUNK_BYTES // (2 * SIZE * 4)  # keys, the default

Array = NDArray[Any]


def drop(*paths: Path) -> None:
    """Drop files from the page cache, as far as the system does."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Disk:
    """An array on a disk of some speed in GB/s: reading waits as long as that disk would take."""

    def __init__(self, stored: Array, speed: float) -> None:
        self.stored, self.speed = stored, speed
        self.shape, self.dtype = stored.shape, stored.dtype

    def __getitem__(self, index: Any) -> Array:
        start, read = time.perf_counter(), np.array(self.stored[index])
        time.sleep(max(0.0, read.nbytes / (self.speed * 1e9) - (time.perf_counter() - start)))
        return read


def write(path: Path, rows: int) -> None:
    """Write random numbers."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for part in slices(rows, 1 << 18):
            file.write(rng.standard_normal((part.stop - part.start, SIZE), dtype=np.float32).data)


def main() -> None:
    """Measure all three for each number of queries."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--gigabytes", type=float, default=2.0, help="of keys and values together (default 2)"
    )
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument(
        "--rounds", type=int, default=3, help="turns of each, of which the best counts (default 3)"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("."), help="on the disk to measure (default here)"
    )
    parser.add_argument("--disk", type=float, default=float("inf"), help="GB/s that reading is limited to")
    options = parser.parse_args()
    rows = int(options.gigabytes * 1e9 / (2 * SIZE * 4))
    print(f"{processor()}, {os.cpu_count()} processors; load before the start: {os.getloadavg()[0]:.1f}")
    print("| queries | disk GB/s | kernel GB/s | both GB/s | share |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        paths = [Path(folder, name) for name in ("keys", "values")]
        for path in paths:
            write(path, rows)
        for count in options.queries:
            disk, kernel, both = measure(paths, rows, count, options.rounds, options.disk)
            size = rows * 2 * SIZE * 4 / 1e9
            shown = f"{size / disk:.2f} | {size / kernel:.2f} | {size / both:.2f} | {max(disk, kernel) / both:.2f}"
            print(f"| {count:,} | {shown} |", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak resident memory, pages of the files included: {peak:.0f} MiB")


def measure(
    paths: list[Path], rows: int, count: int, rounds: int, speed: float
) -> tuple[float, float, float]:
    """Return the best seconds of disk, kernel and both."""
    mapped = [np.memmap(path, np.float32, "r", shape=(rows, SIZE)) for path in paths]
    keys, values = mapped if speed == float("inf") else [Disk(stored, speed) for stored in mapped]
    queries = np.random.default_rng(1).standard_normal((count, SIZE), dtype=np.float32)
    loaded = np.array(mapped[0][:CHUNK]), np.array(mapped[1][:CHUNK])
    chunks = slices(rows, CHUNK)

    def read() -> None:
        for part in chunks:
            for stored in (keys, values):
                np.array(stored[part], copy=isinstance(stored, np.memmap) or None)

    def compute() -> None:
        total = regard.partial(queries, *loaded)
        for part in chunks[1:]:
            length = part.stop - part.start
            total = regard.merge(total, regard.partial(queries, *(array[:length] for array in loaded)))

    best = [float("inf")] * 3
    for _ in range(rounds):
        for index, work in enumerate((read, compute, lambda: outofcore.attention(queries, keys, values))):
            if work is not compute:
                drop(*paths)
            best[index] = min(best[index], timed(work))
    return best[0], best[1], best[2]


if __name__ == "__main__":
    main()
