"""The site: its diagram is the script's, its reference has every public module, its links have targets."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import regard

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTEBOOKS = [*sorted((DOCS / "notebooks").glob("*.py")), DOCS / "gallery.py"]
PACKAGE = Path(regard.__file__).parent


def diagram() -> dict[str, object]:
    return runpy.run_path(str(DOCS / "diagram.py"))


@pytest.mark.parametrize(("image", "layout"), [("IMAGE", "WIDE"), ("NARROW_IMAGE", "NARROW")])
def test_the_diagram_is_what_its_script_draws(image: str, layout: str) -> None:
    drawn: Any = diagram()
    assert drawn[image].read_text(encoding="utf-8") == drawn["drawing"](drawn[layout])
    assert sum(drawn[layout].weights.values()) == 1


def test_the_diagram_has_every_part_of_the_mechanism() -> None:
    root = ET.parse(DOCS / "images" / "mechanism.svg").getroot()
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    for part in (
        "st−1",
        "st",
        "ct",
        *(f"h{i}" for i in range(1, 6)),
        "et,i = a(st−1, hi)",
        "ct = Σi αt,i hi",
    ):
        assert part in texts


def test_the_diagram_has_two_colours_for_each_name_and_uses_each() -> None:
    svg = (DOCS / "images" / "mechanism.svg").read_text(encoding="utf-8")
    names = set(re.findall(r"var\(--([\w-]+)\)", svg))
    assert "@media (prefers-color-scheme: dark)" in svg
    assert names == set(diagram()["COLOURS"])  # type: ignore[call-overload]
    assert all(svg.count(f"--{name}: ") == 2 for name in names)


def test_the_page_of_options_is_made_of_the_program() -> None:
    for kit in ROOT.glob("kits/*/src/regard_*"):  # there is a page for each
        pytest.importorskip(kit.name)
    pages = runpy.run_path(str(DOCS / "options.py"))["pages"]()
    assert DOCS / "options.md" in pages
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "python docs/options.py writes the pages"
        assert "%(" not in text


def described() -> set[str]:
    """The names that the reference describes: those of regard's modules in its list, with what they import."""
    index = (DOCS / "reference" / "index.rst").read_text(encoding="utf-8")
    return set(re.findall(r"^   (regard(?:\.[\w.]+)?)$", index, flags=re.MULTILINE))


def public_modules() -> set[str]:
    """The modules and packages that users import: those at the top that are not private."""
    names = {
        f"regard.{path.stem}"
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    return {name for name in names if "._" not in name} - {"regard.cli", "regard.kernels"} | {"regard"}


def test_the_reference_describes_every_public_function_and_class() -> None:
    shown = {
        id(getattr(module, name))
        for module in map(importlib.import_module, described())
        for name in module.__all__
    }
    missing = [
        f"{module}.{name}"
        for module in sorted(public_modules())
        for name in importlib.import_module(module).__all__
        for thing in [getattr(importlib.import_module(module), name)]
        if (inspect.isfunction(thing) or inspect.isclass(thing)) and id(thing) not in shown
    ]
    assert missing == []


def test_the_links_between_pages_lead_to_files() -> None:
    for page in [ROOT / "README.md", *DOCS.rglob("*.md"), *ROOT.glob("kits/*/**/*.md"), *NOTEBOOKS]:
        text = page.read_text(encoding="utf-8")
        if page.suffix == ".py":  # Markdown is in its comments
            text = "\n".join(line for line in text.splitlines() if line.startswith("#"))
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def code_lines(text: str) -> list[str]:
    """The lines of a page in fences, and those indented by four columns, without options of doctest."""
    fenced = re.findall(r"^ *```.*?\n(.*?)^ *```", text, flags=re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = "".join(fenced).splitlines() + re.findall(r"^    (.*)$", rest, flags=re.MULTILINE)
    return [line.split("  # doctest:")[0] for line in lines]


def shown(page: Path) -> str:
    """The text of a page with the files that it includes; of a notebook, its code as a block."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return f"```\n{re.sub(r'^#.*$', '', text, flags=re.MULTILINE)}```"
    included = re.findall(r"^```\{include\} (\S+)", text, flags=re.MULTILINE)
    return text + "".join(shown(page.parent / path) for path in included)


@pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), *NOTEBOOKS], ids=lambda page: page.stem)
def test_the_code_of_a_page_fits_its_box(page: Path) -> None:
    """At 1,280 pixels a box shows 88 columns (site.css)."""
    assert [line for line in code_lines(shown(page)) if len(line) > 88] == []


def test_a_line_of_code_is_found_in_a_fence_and_by_its_indentation() -> None:
    page = "```python\n>>> x  # doctest: +SKIP\n\n```\n\nwords\n\n    y = 1\n"
    assert code_lines(page) == [">>> x", "", "y = 1"]


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    text = page.read_text(encoding="utf-8")
    if included := re.match(r"```\{include\} (\S+)", text):
        return anchors(page.parent / included[1])
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_links_to_headings_lead_to_headings() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md"), *ROOT.glob("kits/*/**/*.md")]
    for page in pages:
        for target, heading in re.findall(r"\]\(([\w./-]*)#([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path = (page.parent / target) if target else page
            if path.suffix == ".md":
                assert heading in anchors(path), f"{page.name}: {target}#{heading}"


def test_each_promise_about_untrusted_files_names_tests_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    named = [re.findall(r"`((?:kits/\w+/)?tests/[\w/]+\.py)`", row) for row in rows]
    assert rows
    assert all(named)
    assert all((ROOT / path).is_file() for paths in named for path in paths)
