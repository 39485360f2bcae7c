"""How much faster two workers translate than one, by the recipe of docs/lines.py, each bound to a processor of its own.

    python benchmarks/lines.py runs/help-en-fr/model.safetensors [LINES]

The first LINES (4,000) English sentences of data/help-en-fr, beam 5; `make demo` trains that model. One worker and two
take turns, three times, and must write the same.
"""

import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

import dask.bag
from distributed import Client, LocalCluster

from regard.seq2seq import read_pairs

ROOT = Path(__file__).parents[1]
RECIPE = runpy.run_path(str(ROOT / "docs" / "lines.py"))


def bind(number: int) -> None:
    """Bind this process to one processor: a model translates on two threads where it may."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number]})


def measure(client: Any, workers: list[str], path: str, lines: list[str]) -> tuple[float, list[str]]:
    """Return the seconds that these workers take, and the translations."""
    start = time.perf_counter()
    parts = dask.bag.from_sequence(lines, npartitions=16).map_partitions(RECIPE["translate"], path, beam=5)
    translations = client.compute(parts, workers=workers).result()
    return time.perf_counter() - start, translations


def main(path: str, count: int = 4000) -> None:
    """Measure and print."""
    lines = [source for source, _ in read_pairs(ROOT / "data" / "help-en-fr" / "train.tsv.gz")[:count]]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        workers = sorted(client.scheduler_info()["workers"])
        for number, worker in enumerate(workers):
            client.run(bind, number, workers=[worker])
        measure(client, workers, path, lines[:160])  # both load the model
        for _ in range(3):
            (one, expected), (two, found) = (measure(client, workers[:n], path, lines) for n in (1, 2))
            assert found == expected
            print(
                f"{len(lines):,} lines: one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f} times as fast"
            )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
