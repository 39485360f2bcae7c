"""A browser without a window for the tests of pages: what a page prints as an error, or loads, fails its test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from regard.show import HtmlPage

Opener = Callable[..., Any]
_PATIENCE = 600_000  # milliseconds until what never appears is an error, on any machine


_running = ExitStack()


@cache
def _started() -> Any:
    """Debian's Chromium: the build without windows, where there is one, since its pages take half the time."""
    driver = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright")
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path: apt-get install chromium-headless-shell, or chromium")
    play = _running.enter_context(driver.sync_playwright())
    browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    _running.callback(browser.close)
    return browser


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the browser before a test elsewhere: while it is open the process has a running event loop."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        _started.cache_clear()
        _running.close()


@pytest.fixture(scope="module")
def browser() -> Any:
    """The browser of all files of this folder, which takes longer to start than most tests."""
    return _started()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    """Open a page from a file: opened(page, width=1400, theme="light"). Nothing may be loaded or go wrong."""
    faults: list[str] = []
    contexts = []

    def open_page(
        page: HtmlPage, *, width: int = 1400, height: int = 1000, theme: str = "light", **options: Any
    ) -> Any:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
            **options,
        )
        contexts.append(context)
        context.set_default_timeout(_PATIENCE)
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


def _installed(package: str) -> Path:
    """The folder of a package that npm installs into the user's cache; its tests are skipped where npm can't get it."""
    cached = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "regard-tests", package)
    if not cached.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip(f"no npm on the path, which installs {package}")
        cached.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=cached.parent)
        command = [npm, "install", "--silent", "--ignore-scripts", "--no-package-lock", package]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(
                f"npm can't install {package}: {(done.stderr.splitlines() or ['no reason given'])[-1]}"
            )
        with suppress(OSError):  # another process of tests was faster
            Path(folder).rename(cached)
    return cached / "node_modules" / package.rpartition("@")[0]


@pytest.fixture(scope="session")
def installed() -> Callable[[str], Path]:
    """Install a package of npm: installed("name@version")."""
    return _installed


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    return (_installed("axe-core@4.10.3") / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def accessible(axe: str) -> Callable[[Any], None]:
    """Assert that axe-core finds no serious or critical fault in a tab."""

    def check(tab: Any) -> None:
        tab.evaluate(axe)  # not as a script of the page, which its policy forbids
        violations = tab.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        grave = [
            (fault["id"], fault["help"], [node["html"][:200] for node in fault["nodes"][:3]])
            for fault in violations
            if fault["impact"] in ("serious", "critical")
        ]
        assert grave == []

    return check
