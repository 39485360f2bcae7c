"""Extra memory, installed size and import time of each library, measured in fresh processes.

python benchmarks/footprint.py LIBRARY CASE      extra memory of one case, such as: regard dense
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from peers import LIBRARIES, Case, Data, warm
from record import installed

import regard

N = 8192
ONE_HEAD: dict[str, Any] = {"n": N, "m": N, "d": 64, "lead": (1, 1)}
MEMORY = (
    Case("dense", **ONE_HEAD),
    Case("causal", **ONE_HEAD, mask="causal"),
    Case("causal, window of 256", **ONE_HEAD, mask="window"),
    Case("key lengths", **ONE_HEAD, mask="lengths"),
    Case("bool mask array", **ONE_HEAD, mask="random"),
    Case("additive score, hidden 16", n=N, m=N, d=16, e=64, lead=(1, 1), score="additive"),
    Case("entmax15", **ONE_HEAD, score="entmax15"),
    Case("forward and backward", **ONE_HEAD, backward=True),
    Case("the same, causal", **ONE_HEAD, backward=True, mask="causal"),
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


def kib(field: str) -> int:
    """Return a number that Linux reports of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure(library: str, case: Case) -> float | None:
    """Return by how many MiB this process grows during a call; None if the library does not have the operation."""
    contestant = next(each for each in LIBRARIES if each.name == library)(1)
    if not contestant.version:
        return None
    small = contestant.turn(warm(case), Data(warm(case)))
    turn = contestant.turn(case, Data(case))
    if small is None or turn is None:
        return None
    small.call()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = kib("VmRSS")
    turn.call()
    return (kib("VmHWM") - before) / 1024


def memory(only: Collection[str]) -> list[tuple[str, dict[str, str]]]:
    """Return the label of each case and the MiB of every library."""
    names = [library.name for library in LIBRARIES]
    return [
        (case.label, {name: _fresh(name, case) if name in only else "-" for name in names}) for case in MEMORY
    ]


def _fresh(library: str, case: Case) -> str:
    if case.score != "products" and library != "regard":
        return "-"  # an array of n x m x hidden numbers is too large
    command = [sys.executable, __file__, library, case.label]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "fails"


def import_times(library: str) -> list[float]:
    """Return the seconds of some imports, after that of NumPy."""
    command = [sys.executable, "-c", IMPORT.format(MODULES[library])]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(6)]
    return [float(run.stdout) for run in runs][1:]


def installed_size(library: str) -> tuple[float, float]:
    """Return the MB of a package, alone and with its dependencies."""
    sizes = {name: _size(name) for name in _dependencies(PACKAGES[library], set())}
    own = sizes[PACKAGES[library]] + (sizes.get("jaxlib", 0) if library == "JAX" else 0)
    return own / 1e6, sum(sizes.values()) / 1e6


def _dependencies(name: str, known: set[str]) -> set[str]:
    if name in known:
        return known
    known.add(name)
    for line in _requirements(name):
        required = re.split(r"[^\w.-]", line)[0].lower().replace("_", "-")
        if "extra ==" not in line and installed(required):
            _dependencies(required, known)
    return known


def _requirements(name: str) -> list[str]:
    if name == "regard" and not installed(name):
        return ["numpy", "scipy"]
    return importlib.metadata.requires(name) or []


def _size(name: str) -> int:
    """Return the bytes of the files of a package; those of regard without its C++."""
    if name == "regard":
        root = Path(regard.__file__).parent
        files = [file for file in root.rglob("*") if not {"__pycache__", "source"} & set(file.parts)]
    else:
        listed = importlib.metadata.files(name) or []
        files = [Path(str(file.locate())) for file in listed if "__pycache__" not in str(file)]
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    cases = {case.label: case for case in MEMORY}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", choices=[library.name for library in LIBRARIES], metavar="LIBRARY")
    parser.add_argument("case", choices=cases, metavar="CASE", help="; ".join(cases))
    args = parser.parse_args()
    mib = measure(args.library, cases[args.case])
    print("-" if mib is None else f"{mib:.1f}")
