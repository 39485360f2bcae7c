"""Print the size of pages and how fast they open, next to those of other tools on the same attention.

    python benchmarks/pages.py [--tokens 5 300 2000 20000] [--runs 3]

First regard alone: one layer of four heads for each number of tokens. Up to 2,000 tokens a page has all weights, and
for 20,000 summaries of them. Then the tools that are installed of bertviz, attnview and circuitsvis (`pip install
bertviz attnview circuitsvis`), on the same weights of four heads over 30, 300 and 2,000 tokens, opened from the disk
without a network. All in headless Chromium, driven by playwright (`pip install playwright`); times are medians of fresh
tabs:

- made: from the arrays to the file;
- first paint: from the beginning of the navigation to the first pixels with content;
- opened: to two frames after the load event, when the page has drawn what it shows first;
- next head: from a click on another head to the second frame after it.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Browser, sync_playwright

from regard import attend
from regard.show import page
from regard.show.page.long_attention import LongAttention

HEADS, SIZE = 4, 64
DENSE = 2000  # tokens up to which a page has all weights
PEERS = (30, 300, 2000)  # tokens
PATIENCE = 60_000  # milliseconds until a page counts as one that does not open
MOST = 200_000_000  # bytes of a page that is opened

Array = NDArray[Any]

FRAMES = """() => new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"""
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
DRAWN = "() => document.querySelector('canvas, svg *, td, [style*=background]') !== null"
NEXT_HEAD = """async () => {
    const start = performance.now();
    document.querySelectorAll('.small-head')[1].click();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - start;
}"""


def queries_and_keys(tokens: int) -> tuple[Array, Array]:
    """Draw queries and keys that attend to their neighbours and to some others."""
    rng = np.random.default_rng(0)
    angles = np.arange(tokens)[:, None] / 10000 ** (np.arange(SIZE // 2) / (SIZE // 2))
    positions = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    both = positions + rng.normal(0, 0.5, (2, HEADS, tokens, SIZE))
    return both[0].astype(np.float32), both[1].astype(np.float32)


def weights_of(tokens: int) -> Array:
    """Return weights (heads, tokens, tokens)."""
    queries, keys = queries_and_keys(tokens)
    return attend(queries, keys, keys).weights


class Opened(NamedTuple):
    """How a page opened: milliseconds, whether it drew anything, and its requests to a network."""

    paint: float
    opened: float
    next_head: float
    drawn: bool
    requests: int


def open_page(browser: Browser, path: Path, *, own: bool) -> Opened:
    """Open a page in a fresh tab without a network."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, offline=True)
    try:
        tab = context.new_page()
        tab.set_default_timeout(PATIENCE)
        requested: list[str] = []
        tab.on(
            "request", lambda request: requested.append(request.url) if request.url != path.as_uri() else None
        )
        tab.goto(path.as_uri())
        opened = tab.evaluate(FRAMES)
        paint = tab.evaluate(PAINT)
        requests = sum(not url.startswith(("data:", "blob:")) for url in requested)
        next_head = tab.evaluate(NEXT_HEAD) if own else float("nan")
        return Opened(paint or float("nan"), opened, next_head, bool(tab.evaluate(DRAWN)), requests)
    finally:
        context.close()


def medians(browser: Browser, path: Path, runs: int, *, own: bool) -> Opened:
    """Open a page several times."""
    each = [open_page(browser, path, own=own) for _ in range(runs)]
    paint, opened, next_head = (statistics.median(one[k] for one in each) for k in range(3))
    return Opened(paint, opened, next_head, each[0].drawn, each[0].requests)


def timed(make: Callable[[], str], path: Path) -> float:
    """Write the result of `make`; return the seconds of both."""
    start = time.perf_counter()
    path.write_text(make(), encoding="utf-8")
    return time.perf_counter() - start


def own_page(tokens: int) -> Callable[[], str]:
    """Return a function that makes a page of this many tokens from arrays."""
    if tokens > DENSE:
        queries, keys = queries_and_keys(tokens)
        return lambda: page(LongAttention(queries, keys)).html
    weights, labels = weights_of(tokens), [f"token{i}" for i in range(tokens)]
    return lambda: page(weights, query_labels=labels, key_labels=labels).html


def with_regard(weights: Array, labels: list[str]) -> str:
    return page(weights, query_labels=labels, key_labels=labels).html


def with_bertviz(weights: Array, labels: list[str]) -> str:
    import torch
    from bertviz import head_view

    shown = head_view([torch.from_numpy(weights)[None]], labels, html_action="return")
    return f"<!doctype html><body>{shown.data}</body>"


def with_attnview(weights: Array, labels: list[str]) -> str:
    import attnview

    return str(attnview.render_html(weights, tokens=labels))


def with_circuitsvis(weights: Array, labels: list[str]) -> str:
    from circuitsvis.attention import attention_heads

    return f"<!doctype html><body>{attention_heads(weights, labels).local_src}</body>"


TOOLS: dict[str, Callable[[Array, list[str]], str]] = {
    "regard": with_regard,
    "bertviz": with_bertviz,
    "attnview": with_attnview,
    "circuitsvis": with_circuitsvis,
}


def reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:90]


def print_own(browser: Browser, folder: Path, sizes: list[int], runs: int) -> None:
    """Print the table of regard's pages."""
    print(f"{'tokens':>8}{'MB':>9}{'made s':>9}{'first paint ms':>16}{'opened ms':>11}{'next head ms':>14}")
    for tokens in sizes:
        path = folder / f"regard-{tokens}.html"
        seconds = timed(own_page(tokens), path)
        median = medians(browser, path, runs, own=True)
        times = f"{median.paint:>16.0f}{median.opened:>11.0f}{median.next_head:>14.0f}"
        print(f"{tokens:>8,}{path.stat().st_size / 1e6:>9.2f}{seconds:>9.2f}{times}", flush=True)


def print_peers(browser: Browser, folder: Path, runs: int) -> None:
    """Print the table of all tools."""
    print(
        f"{'tool':<13}{'tokens':>7}{'MB':>9}{'made s':>9}{'first paint ms':>16}{'opened ms':>11}   without a network"
    )
    for name, make in TOOLS.items():
        for tokens in PEERS:
            weights, labels = weights_of(tokens), [f"token{i}" for i in range(tokens)]
            path = folder / f"{name}-{tokens}.html"
            start = f"{name:<13}{tokens:>7,}"
            try:
                seconds = timed(lambda: make(weights, labels), path)  # noqa: B023
                size = f"{path.stat().st_size / 1e6:>9.2f}{seconds:>9.2f}"
                if path.stat().st_size > MOST:
                    print(f"{start}{size}   too large to be opened here", flush=True)
                    continue
                median = medians(browser, path, runs, own=name == "regard")
            except ImportError as error:
                print(f"{start}   skipped: {reason(error)}")
                break
            except Exception as error:  # a tool that fails is a row of the table
                print(f"{start}   fails: {reason(error)}", flush=True)
                continue
            offline = "opens" if median.drawn and not median.requests else f"asks for {median.requests} files"
            offline += "" if median.drawn else ", draws nothing"
            print(f"{start}{size}{median.paint:>16.0f}{median.opened:>11.0f}   {offline}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, nargs="*", default=[5, 300, 2000, 20_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="regard's own table only")
    args = parser.parse_args()
    print(f"{platform.machine()}, NumPy {np.__version__}, {HEADS} heads, {args.runs} tabs each\n")
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        print_own(browser, Path(folder), args.tokens, args.runs)
        if not args.alone:
            print()
            print_peers(browser, Path(folder), args.runs)
        browser.close()


if __name__ == "__main__":
    main()
