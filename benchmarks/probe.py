"""What this machine can do, measured: fused multiply-adds a second and bytes read a second, on so many threads at once.

The loops are in probe.cpp, which is compiled for the machine at hand. Without a compiler there is no probe.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("probe.cpp")
DTYPES = {"float32": 0, "float64": 1, "bfloat16": 2}
FORCED = {
    "avx2": "-march=haswell",
    "baseline": "-march=x86-64",
}  # where regard keeps to less, so does its peak
LONG = 1 << 28  # bytes that are read before the clock is looked at, again and again where there are fewer


def compile_into(folder: Path) -> Path | None:
    """Compile the loops; None where there is no C++ compiler."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), None)
    if compiler is None:
        return None
    library = folder / "probe.so"
    native = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
    machine = FORCED.get(os.environ.get("REGARD_INSTRUCTION_SET", ""), native)
    flags = ["-std=c++17", "-O3", machine, "-ffp-contract=fast", "-shared", "-fPIC"]
    done = subprocess.run(
        [compiler, *flags, str(SOURCE), "-o", str(library)], capture_output=True, check=False
    )
    return library if done.returncode == 0 else None


class Probe:
    """The compiled loops, run on so many threads at once."""

    def __init__(self, library: Path, threads: int) -> None:
        self.threads = threads
        self._loaded = ctypes.CDLL(str(library))
        self._loaded.probe_flops.restype = self._loaded.probe_read.restype = ctypes.c_double
        self._loaded.probe_flops.argtypes = [ctypes.c_int32, ctypes.c_double]
        self._loaded.probe_read.argtypes = [ctypes.c_void_p, ctypes.c_int64]

    def flops(self, dtype: str, seconds: float = 0.02) -> float:
        """Return the FLOP/s of all threads.

        What the machine has no arithmetic for has the peak of float32, to which it is widened.
        """
        kind = DTYPES.get(dtype, 0)
        calls: list[Callable[[], float]] = [partial(self._loaded.probe_flops, kind, seconds)] * self.threads
        found = sum(self._together(calls))
        return found or self.flops("float32", seconds)

    def read(self, *arrays: np.ndarray) -> float:
        """Return the bytes a second at which the threads read these arrays, each its share."""
        shares = [
            [(x.ctypes.data + i * x.nbytes // self.threads, x.nbytes // self.threads) for x in arrays]
            for i in range(self.threads)
        ]
        every = sum(x.nbytes for x in arrays)
        times = max(1, LONG // every)  # starting threads takes time too
        start = time.perf_counter()
        self._together([partial(self._read, share * times) for share in shares])
        return times * every / (time.perf_counter() - start)

    def _read(self, pieces: list[tuple[int, int]]) -> float:
        return float(sum(self._loaded.probe_read(*piece) for piece in pieces))

    def _together(self, calls: list[Callable[[], float]]) -> list[float]:
        """Run all at once, the first on this thread."""
        found = [0.0] * len(calls)

        def run(i: int) -> None:
            found[i] = calls[i]()

        others = [threading.Thread(target=run, args=(i,)) for i in range(1, len(calls))]
        for other in others:
            other.start()
        run(0)
        for other in others:
            other.join()
        return found
