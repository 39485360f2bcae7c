"""A browser without a window for the tests of pages: what a page prints as an error, or loads, fails its test."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.show import Page

Opener = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, one for each process of tests."""
    driver = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path: apt-get install chromium")
    with driver.sync_playwright() as play:
        started = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    """Open a page from a file: opened(page, width=1400, theme="light"). Nothing may be loaded or go wrong."""
    faults: list[str] = []
    contexts = []

    def open_page(
        page: Page, *, width: int = 1400, height: int = 1000, theme: str = "light", **options: Any
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        tab = context.new_page()
        path = tmp_path / f"page-{len(contexts)}.html"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the size, which is tested by itself
            page.save(path)
        tab.on(
            "console", lambda message: message.type in ("error", "warning") and faults.append(message.text)
        )
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("request", lambda request: request.url != path.as_uri() and faults.append(request.url))
        tab.goto(path.as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []
