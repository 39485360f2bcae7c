"""The figures of README and docs are those that the benchmarks wrote, and no others."""

from __future__ import annotations

import json
import platform
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import regard

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))
WITH_UNIT = re.compile(r"\d[\d.,]* ?(?:%|[kMG]i?B\b|GFLOP|BLEU|ms\b|µs\b|times\b)|BLEU \d")


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """What `benchmarks/report.py` defines."""
    return runpy.run_path(str(BENCHMARKS / "report.py"))


def written(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def by_hand(text: str, report: dict[str, Any]) -> str:
    """A page without the figures of the report, and without code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", report["BLOCK"].sub("", text), flags=re.DOTALL)


def test_the_pages_have_the_figures_that_the_scripts_wrote(report: dict[str, Any]) -> None:
    for page in report["PAGES"]:
        assert written(page) == report["filled"](written(page)), (
            "python benchmarks/report.py writes the pages"
        )


def test_a_changed_figure_is_found(report: dict[str, Any]) -> None:
    page = written("docs/results.md")
    cell = re.search(r"\*\*\d+\*\*, \d+%", page)
    assert cell
    assert report["filled"](page.replace(cell[0], "**999**, 99%", 1)) == page


def test_every_function_of_the_report_is_on_a_page(report: dict[str, Any]) -> None:
    used = {block[2] for page in report["PAGES"] for block in report["BLOCK"].finditer(written(page))}
    assert used == set(report["BLOCKS"])


def test_the_tables_of_the_results_are_all_made_by_the_report(report: dict[str, Any]) -> None:
    left = by_hand(written("docs/results.md"), report)
    assert [line for line in left.splitlines() if line.startswith("|")] == []
    assert WITH_UNIT.findall(left) == []


def test_the_readme_has_no_other_figures(report: dict[str, Any]) -> None:
    assert WITH_UNIT.findall(by_hand(written("README.md"), report)) == []


def options(script: Path) -> str:
    """The text of a script and of those that it takes its options from."""
    text = script.read_text(encoding="utf-8")
    shared = re.findall(r"^from (trial|turns|record) import", text, flags=re.MULTILINE)
    return text + "".join((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8") for name in shared)


@pytest.mark.parametrize("path", RESULTS, ids=[path.stem for path in RESULTS])
def test_a_file_of_results_names_its_script_and_machine(path: Path) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["processor"]
    assert stored["rows"]
    python, script, *given = shlex.split(stored["command"])
    assert python == "python"
    text = options(ROOT / script)
    assert "save(args.json)" in text
    assert [option for option in given if option.startswith("--") and f'"{option}"' not in text] == []


def test_measured_ranges_are_in_order() -> None:
    for path in RESULTS:
        stored = json.loads(path.read_text(encoding="utf-8"))
        ranges = [value for row in stored["rows"] for value in row.values() if isinstance(value, list)]
        if "estimators" not in path.stem:  # whose lists are mean, deviation and loss
            assert all(value == sorted(value) and len(value) == 3 for value in ranges), path.name


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the library has another size elsewhere"
)
def test_the_installed_size_is_that_of_the_package(report: dict[str, Any]) -> None:
    root = Path(regard.__file__).parent
    if not (root / "kernels" / "libregard.so").exists():
        pytest.skip("installed without the library")
    files = [path for path in root.rglob("*") if not {"__pycache__", "source"} & set(path.parts)]
    now = sum(path.stat().st_size for path in files if path.is_file()) / 1e6
    stated = report["first"]("footprint", section="size", case="regard")["alone"]
    assert abs(stated - now) < 0.15 * now, (
        f"{now:.2f} MB now: python benchmarks/kernel.py --only memory cost --json ..."
    )


def test_the_package_claims_the_systems_that_have_run_it() -> None:
    """The classifiers name the Pythons and the systems of docs/systems.md on which all or most tests have run."""
    classifiers = tomllib.loads(written("pyproject.toml"))["project"]["classifiers"]
    ran = [
        line
        for line in written("docs/systems.md").splitlines()
        if re.match(r"\| (Linux x86-64|the same)", line)
    ]
    pythons = {
        version for line in ran for version in re.findall(r"\b3\.\d\d\b", line.replace("glibc 2.", ""))
    }
    assert pythons == {text.rsplit(" ", 1)[1] for text in classifiers if re.search(r":: 3\.\d+$", text)}
    assert [text for text in classifiers if "Operating System" in text] == [
        "Operating System :: POSIX :: Linux"
    ]
