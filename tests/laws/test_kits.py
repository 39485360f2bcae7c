"""Kits are distributions of their own in this repository: regard does not know them, and they use its public names."""

from __future__ import annotations

import doctest
import importlib
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from test_house import (
    KITS,
    OPTIONS,
    ROOT,
    SRC,
    doc_faults,
    files_of,
    imported,
    objects_of,
    public_methods,
    run_page,
    statements,
    summary_faults,
)

kits = pytest.mark.parametrize("kit", KITS, ids=[kit.name for kit in KITS])
# Private modules for regard and its kits: the form of errors, sums, untrusted text and files, properties, threads.
SHARED = {
    f"regard._{name}"
    for name in ("check", "einsum", "characters", "files", "lines", "once", "signals", "threads")
}


def project(folder: Path) -> dict[str, object]:
    return dict(tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def installed(kit: Path) -> ModuleType:
    return pytest.importorskip(kit.name, reason=f"{kit.name} is not installed")  # type: ignore[no-any-return]


@kits
def test_a_kit_has_the_version_of_regard_and_pins_it(kit: Path) -> None:
    own, version = project(kit.parents[1]), project(ROOT)["version"]
    assert own["name"] == kit.name.replace("_", "-")
    assert own["version"] == version
    assert f"regard=={version}" in own["dependencies"]  # type: ignore[operator]
    assert (kit / "py.typed").is_file()


@kits
def test_a_kit_imports_public_modules_of_regard(kit: Path) -> None:
    modules = {name for path in files_of(kit) for name in imported(statements(path), "", is_package=False)}
    assert {name for name in modules if re.search(r"\._", name)} <= SHARED


def test_regard_names_no_kit() -> None:
    kits = re.compile(rf"regard[.]?_?({'|'.join(kit.name.removeprefix('regard_') for kit in KITS)})|sklearn")
    assert [path.name for path in files_of(SRC) if kits.search(path.read_text("utf-8"))] == []
    assert kits.search("import regard_estimators")


@kits
def test_the_names_that_a_kit_exports_are_described(kit: Path) -> None:
    installed(kit)
    faults = []
    for name, thing in objects_of([kit.name]).items():
        faults += [f"{name}: {fault}" for fault in doc_faults(thing)]
        members = public_methods(thing) if isinstance(thing, type) else {}
        faults += [
            f"{name}.{m}: {fault}" for m in members for fault in summary_faults(members[m].__doc__ or "")
        ]
    assert faults == []


@pytest.mark.slow
@kits
def test_the_examples_of_a_kit_run(kit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty directory: examples may write files."""
    monkeypatch.chdir(tmp_path)
    package = installed(kit)
    names = [".".join(path.relative_to(kit).with_suffix("").parts) for path in files_of(kit)]
    modules = [importlib.import_module(f"{kit.name}.{name}") for name in names if name != "__init__"]
    assert [doctest.testmod(module, optionflags=OPTIONS).failed for module in [package, *modules]] == [
        0
    ] * len(names)
    for page in [kit.parents[1] / "README.md", *(kit.parents[1] / "docs").glob("*.md")]:
        assert run_page(page.read_text(encoding="utf-8"), str(page)) == []
