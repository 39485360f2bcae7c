"""Distributions of the tests' own, which are found as installed ones are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def install(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, code: str, points: Mapping[str, str]
) -> None:
    """Put a distribution with one module on the path; `points`: its entry points, by "group name"."""
    module, info = name.replace("-", "_"), folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code, "utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    lines = []
    for point, value in points.items():
        group, own = point.split()
        lines += [f"[{group}]", f"{own} = {value}"]
    (info / "entry_points.txt").write_text("\n".join(lines), "utf-8")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, module, raising=False)
