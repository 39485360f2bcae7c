"""What checks the built site: it finds links and anchors that lead nowhere, and pictures without a text."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CHECK = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "check.py"))
GOOD = """
<h1 id="top-of-it">A</h1> <a name="old"></a> <img src="p.png" alt="A picture."> <a href="https://a.org/none#x">out</a>
<a href="#">up</a> <a href="#top-of-it">here</a> <a href="b/page.html?digest=1#%C3%A4">there</a> <a href="mailto:a@b">
"""


def found(tmp_path: Path, html: str) -> list[str]:
    (tmp_path / "b").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / "p.png").touch()
    (tmp_path / "index.html").write_text(GOOD + html, encoding="utf-8")
    (tmp_path / "b" / "page.html").write_text('<p id="ä"><a href="../index.html#old">', encoding="utf-8")
    (tmp_path / "_static" / "macros.html").write_text('<a href="{{ none }}">', encoding="utf-8")
    return list(CHECK["faults"](tmp_path))


def test_a_good_site_has_no_faults(tmp_path: Path) -> None:
    assert found(tmp_path, "") == []


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="none.html">', "index.html: no file none.html"),
        ('<img src="none.png" alt="A.">', "index.html: no file none.png"),
        ('<a href="#none">', "index.html: no anchor #none"),
        ('<a href="b/page.html#none">', "index.html: no anchor b/page.html#none"),
        ('<img src="p.png">', "index.html: a picture without a text: p.png"),
        ('<img src="p.png" alt=" ">', "index.html: a picture without a text: p.png"),
        ('<img src="p.png" alt="p.png">', "index.html: a picture without a text: p.png"),
    ],
)
def test_a_fault_is_found(tmp_path: Path, html: str, fault: str) -> None:
    assert found(tmp_path, html) == [fault]
