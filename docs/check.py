"""Check a built site: links and their anchors lead somewhere, and pictures have a text.

    python docs/check.py build/docs/html

Sphinx checks references between pages, but not the HTML that templates, extensions and notebooks write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, the anchors that it has, and its pictures without a text; frames are pages of their own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}  # both are the top of any page
        self.untold: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that are checked."""
        values = {name: value or "" for name, value in attrs}
        self.links += [values[name] for name in ("href", "src") if name in values]
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "img" and values.get("alt", "").strip() in (
            "",
            values.get("src"),
        ):  # Sphinx repeats the name
            self.untold.append(values.get("src", "")[:80])


def faults(site: Path) -> Iterator[str]:
    """What is wrong in a site, a line each."""
    site = site.resolve()
    written = [
        path for path in sorted(site.rglob("*.html")) if path.parent != site / "_static"
    ]  # the theme's own
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in written}
    for path, page in pages.items():
        name = path.relative_to(site)
        yield from (f"{name}: a picture without a text: {source}" for source in page.untold)
        for link in sorted(set(page.links)):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.exists():
                yield f"{name}: no file {link}"
            elif target in pages and unquote(url.fragment) not in pages[target].anchors:
                yield f"{name}: no anchor {link}"


if __name__ == "__main__":
    found = list(faults(Path(sys.argv[1])))
    print(*found, sep="\n", file=sys.stderr)
    sys.exit(bool(found))
