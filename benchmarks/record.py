"""The rows of a measurement as JSON, with the machine and the versions: what `report.py` prints tables of.

A script calls `keep` for each row that it prints, and `save` at the end. A figure is a number, or three of several
rounds: minimum, median, maximum. The public ones are in benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["Row", "add_option", "installed", "keep", "processor", "save", "spread"]

Row = dict[str, Any]
PACKAGES = {
    "regard": "regard",
    "NumPy": "numpy",
    "SciPy": "scipy",
    "PyTorch": "torch",
    "onnxruntime": "onnxruntime",
    "Transformers": "transformers",
    "JAX": "jax",
    "scikit-learn": "scikit-learn",
    "statsmodels": "statsmodels",
    "skpro": "skpro",
}

_rows: list[Row] = []


def keep(**row: Any) -> None:
    """Keep a row for `save`."""
    _rows.append(row)


def spread(values: Iterable[float]) -> float | list[float]:
    """Return minimum, median and maximum; of one value, that."""
    several = sorted(values)
    return several[0] if len(several) == 1 else [several[0], statistics.median(several), several[-1]]


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the rows, the machine and the versions"
    )


def save(path: Path | None, rows: Sequence[Row] = _rows) -> None:
    """Write the rows that were kept, one a line, if there is a path."""
    if path is None:
        return
    head = {"command": command(), "processor": processor(), "processors": os.cpu_count()}
    about = json.dumps(head | {"python": platform.python_version(), "versions": versions()}, indent=1)
    lines = ",\n".join("  " + json.dumps(rounded(row), ensure_ascii=False) for row in rows)
    path.write_text(f'{about[:-2]},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def rounded(value: Any) -> Any:
    """Return a row with four digits of each figure."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def command() -> str:
    """Return the call of this script, without `--json`."""
    given = sys.argv[1:]
    if "--json" in given:
        place = given.index("--json")
        del given[place : place + 2]
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *given])


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    return {name: found for name, package in PACKAGES.items() if (found := installed(package))}


def installed(*names: str) -> str | None:
    """Return the version of the first of these packages, or None if one is not installed."""
    try:
        first, *_ = [version(name) for name in names]
    except PackageNotFoundError:
        return None
    return first


def processor() -> str:
    """Return the name of the processor, or that of its architecture."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    named = next((text.partition(":")[2].strip() for text in lines if text.startswith("model name")), "")
    return named or platform.machine()
