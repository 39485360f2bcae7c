"""Pages in Firefox: nothing goes wrong, they answer, and what is printed is whole."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.seq2seq.translator import Translation
from regard.show import HtmlPage, page
from regard.show.page.chapters import CHAPTERS, story

SOURCE = list("abcdefghijkl.")
TARGET = list("ABCDEFGHIJKLMNO")


def needed(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"no {program} on the path: apt-get install {package}")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("firefox")
    weights = np.random.default_rng(0).dirichlet(np.ones(13), size=(2, 2, 15))
    HtmlPage(story()).save(written / "story.html")
    page(weights).save(written / "heads.html")
    page(Translation(" ".join(TARGET), tuple(TARGET), tuple(SOURCE), -2.0, weights[0, 0])).save(
        written / "alignment.html"
    )
    return written


@pytest.fixture(scope="module")
def seen(folder: Path, installed: Callable[[str], Path]) -> Any:
    """What firefox.mjs has seen; it drives Firefox by WebDriver BiDi, which Playwright can't do with that of Debian."""
    firefox, node = needed("firefox-esr", "firefox-esr"), needed("node", "nodejs")
    library = installed("puppeteer-core@25.16.0") / "lib" / "puppeteer" / "puppeteer-core.js"
    command = [node, str(Path(__file__).with_name("firefox.mjs")), library.as_uri(), firefox, str(folder)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


@pytest.mark.slow
def test_nothing_goes_wrong_and_each_page_answers(seen: Any) -> None:
    assert seen["faults"] == []
    assert seen["chapters"] == [chapter.name for chapter in CHAPTERS]
    assert "so bank is about water" in seen["before"]
    assert "so bank is about money" in seen["after"]
    assert seen["words"].startswith("9 words")
    assert "head 2" in seen["head"]


@pytest.mark.slow
def test_a_printed_picture_is_on_one_sheet(seen: Any, folder: Path) -> None:
    command = [needed("pdftotext", "poppler-utils"), "-layout", str(folder / "alignment.pdf"), "-"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    last = printed.rstrip("\f").split("\f")[-1]
    assert {*SOURCE, *TARGET} <= set(last.split())  # both sides, with lines between them
