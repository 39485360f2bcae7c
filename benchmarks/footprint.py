"""What each library costs beside time: extra memory, space on disk, time to import; all from fresh processes."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from peers import LIBRARIES, Case, Data, warm

import regard

N = 8192
ONE: dict[str, Any] = {"n": N, "m": N, "d": 64, "lead": (1, 1)}
MEMORY = (
    Case("dense", **ONE),
    Case("causal", **ONE, mask="causal"),
    Case("causal, window of 256", **ONE, mask="window"),
    Case("key lengths", **ONE, mask="lengths"),
    Case("bool mask array", **ONE, mask="random"),
    Case("additive score, hidden 16", n=N, m=N, d=16, e=64, lead=(1, 1), score="additive"),
    Case("entmax15", **ONE, score="entmax15"),
    Case("forward and backward", **ONE, backward=True),
    Case("the same, causal", **ONE, backward=True, mask="causal"),
)
MODULES = {
    "regard": "regard",
    "PyTorch": "torch",
    "onnxruntime": "onnxruntime",
    "JAX": "jax",
    "SciPy": "scipy.special",
}
PACKAGES = {"regard": "regard", "PyTorch": "torch", "onnxruntime": "onnxruntime", "JAX": "jax"}
IMPORT = "import time, numpy; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"


def kib(what: str) -> int:
    """Return a number that the system keeps of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


def measure(library: str, case: Case) -> float | None:
    """Return by how many MiB this process grows at most during one call; None: the library can't."""
    found = next(each for each in LIBRARIES if each.name == library)(1)
    if not found.version:
        return None
    small = found.turn(warm(case), Data(warm(case)))
    turn = found.turn(case, Data(case))
    if small is None or turn is None:
        return None
    small.call()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = kib("VmRSS")
    turn.call()
    return (kib("VmHWM") - before) / 1024


def memory(only: Collection[str]) -> list[tuple[str, list[str]]]:
    """Return a row for each case: the MiB of every library."""
    rows = []
    for case in MEMORY:
        cells = [_fresh(library.name, case) if library.name in only else "-" for library in LIBRARIES]
        rows.append((case.label, cells))
    return rows


def _fresh(library: str, case: Case) -> str:
    if case.score != "products" and library != "regard":
        return "-"  # an array of n x m x hidden numbers is known to be large
    command = [sys.executable, __file__, library, case.label]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "fails"


def import_times(library: str) -> list[float]:
    """Return the seconds that the import takes after NumPy's, a few times."""
    command = [sys.executable, "-c", IMPORT.format(MODULES[library])]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(6)]
    return [float(run.stdout) for run in runs][1:]


def installed_size(library: str) -> tuple[float, float]:
    """Return the MB of a package, and with everything that it needs."""
    sizes = {name: _size(name) for name in _needed(PACKAGES[library], set())}
    own = sizes[PACKAGES[library]] + (sizes.get("jaxlib", 0) if library == "JAX" else 0)
    return own / 1e6, sum(sizes.values()) / 1e6


def _needed(name: str, known: set[str]) -> set[str]:
    if name in known:
        return known
    known.add(name)
    for line in _requirements(name):
        need = re.split(r"[^\w.-]", line)[0].lower().replace("_", "-")
        if "extra ==" not in line and _installed(need):
            _needed(need, known)
    return known


def _installed(name: str) -> bool:
    try:
        return importlib.metadata.distribution(name) is not None
    except importlib.metadata.PackageNotFoundError:
        return False


def _requirements(name: str) -> list[str]:
    if name == "regard" and not _installed(name):
        return ["numpy", "scipy"]
    return importlib.metadata.requires(name) or []


def _size(name: str) -> int:
    """Return the bytes of its files; regard's are those beside its source, installed or not."""
    if name == "regard":
        root = Path(regard.__file__).parent
        files = [file for file in root.rglob("*") if not {"__pycache__", "source"} & set(file.parts)]
    else:
        listed = importlib.metadata.files(name) or []
        files = [Path(str(file.locate())) for file in listed if "__pycache__" not in str(file)]
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    asked = next(case for case in MEMORY if case.label == sys.argv[2])
    answer = measure(sys.argv[1], asked)
    print("-" if answer is None else f"{answer:.1f}")
