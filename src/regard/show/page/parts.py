"""The parts of pages: the scripts and styles in `assets` that draw each view, and the parts that these need."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from importlib import resources
from typing import Any, NamedTuple

from regard._characters import FORMULA, NUMBER
from regard.show import latex
from regard.show.page import descent
from regard.show.steps import texts
from regard.show.terminal.cells import UNIFORM

__all__ = ["Part", "asset", "constants", "needed", "script", "style"]


class Part(NamedTuple):
    """A view, or what several views share."""

    name: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


# In the order in which scripts and styles are joined. All names of scripts are in one scope.
PARTS = (
    Part("base", ("base", "state", "export"), ("base", "tools")),
    Part("weights", ("weights",), ("weights",)),
    Part(
        "computing",
        tuple(f"mechanism/{name}" for name in ("compute", "number", "matrix", "words")),
        ("mechanism",),
    ),
    Part(
        "mechanism",
        tuple(
            f"mechanism/{name}"
            for name in ("controls", "story", "lanes", "account", "state", "exercise", "view")
        ),
        needs=("computing",),
    ),
    Part("geometry", ("geometry",), ("geometry",), ("computing",)),
    Part("multihead", ("multihead",), ("multihead",), ("computing",)),
    Part("plot", ("plot",), ("plot",), ("computing",)),
    Part("why", ("why",), ("why",), ("computing", "plot")),
    Part("learning", ("learning",), needs=("computing", "plot", "shares")),
    Part("block", ("block",), ("block",), ("computing",)),
    Part("chapter", ("chapter",), ("chapter",)),
    Part("sheet", ("classroom",), ("classroom",), ("computing", "mechanism", "chapter")),
    Part("quiz", (), needs=("computing", "mechanism", "chapter", "sheet")),
    Part("shares", ("models/shares",), ("models",)),
    Part("translation", ("models/translation",), needs=("computing", "shares")),
    Part("letters", ("models/letters",), needs=("computing", "shares")),
    Part("alignment", ("alignment",), ("alignment",), ("weights",)),
    Part("heads", ("heads",), ("heads",), ("weights",)),
)


def needed(views: Iterable[str]) -> list[Part]:
    """Return the parts that views are made of, in their order."""
    known = {part.name: part for part in PARTS}
    names = {"base", *views}
    names |= {need for name in names for need in known[name].needs}
    return [part for part in PARTS if part.name in names]


def style(views: Iterable[str]) -> str:
    """Return the style of views."""
    styles = "\n".join(asset(f"{name}.css") for part in needed(views) for name in part.styles)
    return _lean(re.sub(r"/\*.*?\*/", "", styles, flags=re.DOTALL))


def script(views: Iterable[str], language: str = "en") -> str:
    """Return the script of views in a language, which starts the page."""
    shown = needed(views)
    scripts = [_lean(asset(f"{name}.js")) for part in shown for name in part.scripts]
    written = constants([part.name for part in shown], language)
    return "\n".join(['(() => {\n"use strict";', written, *scripts, "regard.start();\n})();"])


def _lean(code: str) -> str:
    """Return a script or a style without comments that are a line, indentation and empty lines: a seventh of it."""
    lines = (line.strip() for line in code.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def constants(shown: Collection[str], language: str = "en") -> str:
    """Return what the scripts of these parts have from Python: their texts, and rules that hold in both."""
    rules: dict[str, Any] = {
        "uniform": UNIFORM,
        "widest": latex.MOST,
        "special": latex.SPECIAL,
        "formula": FORMULA.pattern,
        "number": NUMBER.pattern,
        "descent": descent.RULES,
    }
    return "\n".join(
        f"const {name} = {as_json(value)};"
        for name, value in (("TEXTS", _texts(shown, language)), ("RULES", rules))
    )


def _texts(shown: Collection[str], language: str) -> dict[str, Any]:
    """Return the texts without those of parts that are not there, and without those that the data have."""
    absent = {"examples", "figures", "pages", *(part.name for part in PARTS)} - set(shown)
    absent |= {"chapters"} if "chapter" in absent else set()
    return {name: text for name, text in texts(language).items() if name not in absent}


def asset(name: str) -> str:
    """Return the text of a file in `assets`."""
    return resources.files("regard.show.page").joinpath("assets", *name.split("/")).read_text("utf-8")


# Characters that could end the element of the data, or a line of a script of an old browser.
_ESCAPED = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def as_json(value: Any) -> str:
    """Return a value as JSON that may stand in a script or an element of HTML."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8").translate(_ESCAPED)
