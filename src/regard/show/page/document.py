"""A page: sections in one HTML file that needs no network and no other file."""

from __future__ import annotations

import base64
import errno
import hashlib
import html
import math
import os
import textwrap
import warnings
from collections.abc import Sequence
from string import Template
from typing import Any

from regard import _check, _files
from regard._once import computed_once
from regard.show.page import parts
from regard.show.page.parts import asset
from regard.show.page.section import Section, readable
from regard.show.steps import LANGUAGES, PageText, in_language, texts

__all__ = ["HtmlPage", "view_files", "written"]

_LARGE = 20_000_000  # bytes
# An untrusted notebook loses frames and styles, and with the style what hides the text.
_STAND_IN = "<style>.regard-text { display: none }</style><pre class='regard-text'>"
_FRAME_HEIGHT = 760  # pixels of a page in a notebook, until frame.js knows better


class HtmlPage:
    """A page of sections, as one self-contained HTML file.

    A notebook displays it in a frame of its own, so that several on one notebook page do not disturb each other.

    Parameters
    ----------
    sections : sequence of Section
        The sections, from top to bottom.
    title : str
        The title.
    language : str
        The language of the texts: a name of `regard.show.steps.LANGUAGES`.
    slides : bool
        Whether one chapter at a time is shown, and the arrow keys go on and back.

    Examples
    --------
    >>> "<title>a &lt; b</title>" in HtmlPage([Section("mechanism", "One word", {})], title="a < b").html
    True
    """

    def __init__(
        self,
        sections: Sequence[Section],
        *,
        title: str = "Attention",
        language: str = "en",
        slides: bool = False,
    ) -> None:
        self.sections = tuple(sections)
        self.title = readable(_encodable(str(title)))
        self.slides = slides
        self.language = _check.choice("language", language, LANGUAGES)

    def __repr__(self) -> str:
        views = ", ".join(section.view for section in self.sections)
        return f"HtmlPage({self.title!r}: {views})"

    @computed_once
    def html(self) -> str:
        """The HTML of the complete file."""
        views = list(dict.fromkeys(view for section in self.sections for view in section.views))
        style, script = parts.style(views), parts.script(views, self.language)
        tools = texts(self.language)["tools"]
        return Template(asset("template.html")).substitute(
            language=self.language,
            dark=tools["dark"],
            needs=tools["script"],
            kind="slides" if self.slides else "",
            title=html.escape(self.title),
            policy=html.escape(_policy(style, script)),
            data=parts.as_json([written(_drawn(section), texts(self.language)) for section in self.sections]),
            text=html.escape(self.text),
            style=style,
            script=script,
        )

    @property
    def text(self) -> str:
        """The text in place of the page where no script runs, as in a notebook that is not trusted."""
        known = texts(self.language)
        return "\n\n".join((self.title, *(_as_text(section, known) for section in self.sections)))

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or path
            The file.
        force : bool
            Whether an existing file is replaced.

        Raises
        ------
        ValueError
            If the file exists and `force` is False.
        OSError
            If it can't be written.

        Examples
        --------
        >>> import regard
        >>> x = [[1.0, 0.0], [0.0, 1.0]]
        >>> regard.show.page(regard.attend(x, x, x)).save("attention.html", force=True)
        """
        check_new(path, force=force)
        content = self.html.encode("utf-8")
        if len(content) > _LARGE:
            rule = f"{os.fspath(path)} takes {len(content) / 1e6:.0f} MB, which browsers open slowly"
            warnings.warn(f"{rule}: fewer heads or tokens make it smaller", stacklevel=2)
        with _files.replacing(path) as file:
            file.write(content)

    def _repr_html_(self) -> str:
        return (
            f'<iframe class="regard" title="{html.escape(self.title)}" sandbox="allow-scripts allow-downloads" '
            f'loading="lazy" style="width: 100%; height: {_FRAME_HEIGHT}px; border: 0" '
            f'srcdoc="{html.escape(self.html)}"></iframe><script>{asset("frame.js")}</script>'
            f"{_STAND_IN}{texts(self.language)['pages']['trust']}\n\n{html.escape(self.text)}</pre>"
        )

    def _repr_markdown_(self) -> str:
        return textwrap.indent(self.text, "    ")  # a block of code, whatever is in it


def _drawn(section: Section) -> dict[str, Any]:
    """Return the data of a section that the scripts read."""
    return {
        "view": section.view,
        "title": readable(section.title),
        "data": section.data,
        "warnings": section.warnings,
        **({"parts": [_drawn(part) for part in section.parts]} if section.parts else {}),
    }


def _as_text(section: Section, texts: dict[str, Any]) -> str:
    title = in_language(section.title, texts)
    return f"{readable(_encodable(title))}\n\n{_encodable(section.text)}".strip()


def check_new(path: str | os.PathLike[str], *, force: bool, hint: str = "force=True") -> None:
    """Raise for a file that exists already, unless `force` is True."""
    if not force and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, f"the file exists already, {hint} replaces it", os.fspath(path))


def view_files(view: str) -> tuple[str, str]:
    """Return the style and the script of a view, for a page of one's own that draws it by ``regard.draw``."""
    return parts.style([view]), parts.script([view])


def _policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy: nothing is loaded, and no script runs but the one of this file."""
    sources = {name: f"'sha256-{_hash(text)}'" for name, text in (("style", style), ("script", script))}
    return (
        f"default-src 'none'; style-src {sources['style']}; script-src {sources['script']}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _encodable(text: str) -> str:
    """Return a text with question marks for lone surrogates, which have no UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def written(value: Any, texts: dict[str, Any]) -> Any:
    """Return a value as JSON can have it, in a language; numbers that are not finite become strings for `Number`."""
    if isinstance(value, dict):
        return {str(key): written(part, texts) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [written(part, texts) for part in value]
    if isinstance(value, PageText):
        return value.in_language(texts)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
