"""The limits of this machine: fused multiply-adds and bytes read a second, by any number of threads.

The loops are in probe.cpp, which is compiled for this machine. Without a C++ compiler there is no probe.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("probe.cpp")
DTYPES = {"float32": 0, "float64": 1, "bfloat16": 2}
FORCED = {
    "avx2": "-march=haswell",
    "baseline": "-march=x86-64",
}  # instruction sets that regard can be limited to
LONG = 1 << 28  # bytes to read in a measurement; smaller arrays are read repeatedly


def compile_into(folder: Path) -> Path | None:
    """Compile the loops and return the library, or None without a C++ compiler."""
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
    """The compiled loops, run by `threads` threads at once."""

    def __init__(self, library: Path, threads: int) -> None:
        self.threads = threads
        self._loaded = ctypes.CDLL(str(library))
        self._loaded.probe_flops.restype = self._loaded.probe_read.restype = ctypes.c_double
        self._loaded.probe_flops.argtypes = [ctypes.c_int32, ctypes.c_double]
        self._loaded.probe_read.argtypes = [ctypes.c_void_p, ctypes.c_int64]

    def flops(self, dtype: str, seconds: float = 0.02) -> float:
        """Return the FLOP/s of all threads; of a data type without arithmetic of its own, those of float32."""
        loop = partial(self._loaded.probe_flops, DTYPES.get(dtype, 0), seconds)
        return sum(self._at_once([loop] * self.threads)) or self.flops("float32", seconds)

    def read(self, *arrays: np.ndarray) -> float:
        """Return the bytes a second at which the threads read these arrays, each a share of them."""
        shares = [
            [(x.ctypes.data + i * x.nbytes // self.threads, x.nbytes // self.threads) for x in arrays]
            for i in range(self.threads)
        ]
        size = sum(x.nbytes for x in arrays)
        times = max(1, LONG // size)  # starting threads takes time
        start = time.perf_counter()
        self._at_once([partial(self._read, share * times) for share in shares])
        return times * size / (time.perf_counter() - start)

    def _read(self, pieces: list[tuple[int, int]]) -> float:
        return float(sum(self._loaded.probe_read(*piece) for piece in pieces))

    def _at_once(self, calls: Sequence[Callable[[], float]]) -> list[float]:
        """Run the calls at once, the first on this thread, and return their results."""
        results = [0.0] * len(calls)

        def run(i: int) -> None:
            results[i] = calls[i]()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(1, len(calls))]
        for thread in threads:
            thread.start()
        run(0)
        for thread in threads:
            thread.join()
        return results
