"""Draw the diagram of the mechanism, docs/images/mechanism.svg, and a narrow one for phones in docs/_static.

    python docs/diagram.py

The drawing needs no library: each function returns SVG elements, and one style sheet colours them. A browser selects
the light or the dark colours by `prefers-color-scheme`, so one file serves both.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
IMAGE, NARROW_IMAGE = DOCS / "images" / "mechanism.svg", DOCS / "_static" / "mechanism-narrow.svg"
VALUE = 26  # how far to the right of the middle of a state the same comes down as a value
DECODER = 92  # the middle of the decoder's lane
STATES, ALIGNMENT, SOFTMAX, TIMES, SUM = 84, 196, 300, 396, 496  # heights of the five rows


class Layout(NamedTuple):
    """A size, the words with their weights, and where the notes to the four parts stand: left edge, heights."""

    width: int
    height: int
    weights: dict[str, float]
    notes: int
    rows: tuple[int, int, int, int]

    @property
    def columns(self) -> list[int]:
        """The middle of each encoder state."""
        return [238 + 88 * i for i in range(len(self.weights))]


# A decoder that has written "la" and is about to write "maison". The weights are made up, and sum to 1.
WIDE = Layout(
    *(936, 576),
    weights={"the": 0.06, "red": 0.17, "house": 0.65, "is": 0.08, "old": 0.04},
    notes=654,
    rows=(STATES, ALIGNMENT, SOFTMAX, SUM - 40),
)
NARROW = Layout(
    *(480, 920),
    weights={"the": 0.1, "red": 0.2, "house": 0.7},
    notes=46,
    rows=(612, 688, 772, 856),
)

# Light and dark colours of: card, text, faint text, lines; encoder, decoder, attention, and the fill of each.
COLOURS = {
    "card": ("#ffffff", "#14181e"),
    "text": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9aa4af"),
    "line": ("#8c959f", "#6e7781"),
    "encoder": ("#0550ae", "#79b8ff"),
    "encoder-fill": ("#e6f1fd", "#10263f"),
    "decoder": ("#8a3b00", "#ffb37a"),
    "decoder-fill": ("#fdf0e3", "#38220f"),
    "attention": ("#11693a", "#6fd39a"),
    "attention-fill": ("#e4f6ea", "#0f2e1d"),
}

NOTES = (
    ("1  Alignment model", "e_{t,i} = a(s_{t−1}, h_{i})", "scores of the query for each key"),
    ("2  Softmax", "α_{t,i} = exp(e_{t,i}) / Σ_{k} exp(e_{t,k})", "weights, which sum to 1"),
    ("3  Weighted sum", "c_{t} = Σ_{i} α_{t,i} h_{i}", "context, read by the next state"),
)

RULES = """
text { fill: var(--text); font: 16px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
text.math { font: italic 19px "STIX Two Text", Cambria, Georgia, "DejaVu Serif", serif; }
text.math tspan.sub { font-size: 13px; }
text.math tspan.roman { font-style: normal; }
text.middle { text-anchor: middle; }
text.faint { fill: var(--faint); font-size: 14px; }
text.name { font-weight: 600; }
.arrow { stroke: var(--line); stroke-width: 1.5; fill: none; }
.value { stroke: var(--encoder); stroke-width: 1.5; fill: none; stroke-dasharray: 2 4; }
.query { stroke: var(--decoder); stroke-width: 1.5; fill: none; }
.weighted { stroke: var(--attention); fill: none; stroke-linecap: round; }
.bar { fill: var(--attention); }
.card { fill: var(--card); }
.encoder { fill: var(--encoder-fill); stroke: var(--encoder); stroke-width: 1.5; }
.decoder { fill: var(--decoder-fill); stroke: var(--decoder); stroke-width: 1.5; }
.attention { fill: var(--attention-fill); stroke: var(--attention); stroke-width: 1.5; }
.of-encoder { fill: var(--encoder) !important; }
.of-decoder { fill: var(--decoder) !important; }
.of-attention { fill: var(--attention) !important; }
"""


def style() -> str:
    """The style sheet: the colours of both themes, and the rules that use them."""
    light, dark = (
        "".join(f" --{name}: {pair[theme]};" for name, pair in COLOURS.items()) for theme in (0, 1)
    )
    return f"<style>:root {{{light} }}\n@media (prefers-color-scheme: dark) {{ :root {{{dark} }} }}{RULES}</style>"


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """A line of plain text."""
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>'


def math(x: float, y: float, formula: str, kind: str = "middle") -> str:
    """A formula; text in braces after _ is lowered, and the rest of the line is raised again."""
    spans, raised = [], 0
    for part in filter(None, re.split(r"(_\{[^}]*\}|exp)", formula)):
        below = part.startswith("_{")
        kind_of_part = "sub" if below else "roman" if part == "exp" else ""
        words = escape(part[2:-1] if below else part)
        spans.append(f'<tspan dy="{5 if below else raised}" class="{kind_of_part}">{words}</tspan>')
        raised = -5 if below else 0
    return f'<text x="{x}" y="{y}" class="math {kind}" xml:space="preserve">{"".join(spans)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """A rounded box around its middle."""
    attributes = f'x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}"'
    return f'<rect {attributes} rx="9" class="{kind}"/>'


def circle(x: float, y: float, radius: float, kind: str) -> str:
    """A circle around its middle."""
    return f'<circle cx="{x}" cy="{y}" r="{radius}" class="{kind}"/>'


def line(path: str, kind: str = "arrow", *, tip: str = "line", both: bool = False, width: float = 0) -> str:
    """A line along an SVG path, with a tip of this colour at its end, or at both ends."""
    tips = f' marker-end="url(#{tip})"' if tip else ""
    tips += f' marker-start="url(#{tip})"' if both else ""
    thick = f' stroke-width="{width}"' if width else ""
    return f'<path d="{path}" class="{kind}"{tips}{thick}/>'


def tips() -> str:
    """The arrow heads, one of each colour."""
    head = '<path d="M0 0 L8 4 L0 8 z" style="fill: var(--{0})"/>'
    sizes = (
        'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse"'
    )
    colours = ("line", "encoder", "decoder", "attention")
    marks = (
        f'<marker id="{c}" {sizes} orient="auto-start-reverse">{head.format(c)}</marker>' for c in colours
    )
    return f"<defs>{''.join(marks)}</defs>"


def encoder(at: Layout) -> Iterator[str]:
    """The words, and the encoder states that a bidirectional network makes of them."""
    for i, (x, word) in enumerate(zip(at.columns, at.weights, strict=True), start=1):
        yield text(x, STATES - 48, word, "middle faint")
        yield line(f"M{x} {STATES - 42} V{STATES - 20}")
        yield box(x, STATES, 60, 40, "encoder")
        yield math(x, STATES + 6, f"h_{{{i}}}")
    for left, right in itertools.pairwise(at.columns):
        yield line(f"M{left + 30} {STATES} H{right - 30}", both=True)


def decoder() -> Iterator[str]:
    """The decoder's lane: the previous state, which is the query; the next one, which reads the context."""
    yield text(DECODER, ALIGNMENT - 48, "written so far: la", "middle faint")
    yield line(f"M{DECODER} {ALIGNMENT - 42} V{ALIGNMENT - 22}")
    yield box(DECODER, ALIGNMENT, 76, 44, "decoder")
    yield math(DECODER, ALIGNMENT + 6, "s_{t−1}")
    yield line(f"M{DECODER} {ALIGNMENT + 22} V{SUM - 22}")
    yield box(DECODER, SUM, 76, 44, "decoder")
    yield math(DECODER, SUM + 6, "s_{t}")
    yield line(f"M{DECODER} {SUM + 22} V{SUM + 42}")
    yield text(DECODER, SUM + 60, "next word: maison", "middle faint")


def alignment(at: Layout) -> Iterator[str]:
    """The alignment model: the previous state of the decoder next to each state of the encoder."""
    rail = ALIGNMENT - 42
    yield line(f"M{DECODER + 38} {ALIGNMENT} H{DECODER + 74} V{rail} H{at.columns[-1] - 13}", "query", tip="")
    for i, x in enumerate(at.columns, start=1):
        yield line(f"M{x - 13} {rail} V{ALIGNMENT - 18}", "query", tip="decoder")
        yield line(f"M{x} {STATES + 20} V{ALIGNMENT - 18}")
        yield box(x, ALIGNMENT, 42, 36, "attention")
        yield math(x, ALIGNMENT + 6, "a")
        yield line(f"M{x} {ALIGNMENT + 18} V{SOFTMAX - 24}")
        yield math(x - 20, ALIGNMENT + 49, f"e_{{t,{i}}}")


def softmax(at: Layout) -> Iterator[str]:
    """One box over all scores, with the weights as bars in it."""
    first, *_, last = at.columns
    middle, width = (first + last) / 2, last - first + 84
    yield box(middle, SOFTMAX, width, 48, "attention")
    for i, (x, weight) in enumerate(zip(at.columns, at.weights.values(), strict=True), start=1):
        height = 3 + 50 * weight
        yield f'<rect x="{x - 12}" y="{SOFTMAX + 20 - height:.1f}" width="24" height="{height:.1f}" class="bar"/>'
        yield line(f"M{x} {SOFTMAX + 24} V{TIMES - 13}")
        yield math(x - 21, SOFTMAX + 56, f"α_{{t,{i}}}")


def weighted_sum(at: Layout) -> Iterator[str]:
    """Each state times its weight, then the sum: the context."""
    first, middle = at.columns[0], at.columns[len(at.columns) // 2]
    for x, weight in zip(at.columns, at.weights.values(), strict=True):
        yield line(f"M{x} {TIMES + 12} C{x} {SUM - 40} {middle} {TIMES + 40} {middle} {SUM - 20}", "weighted",
                   tip="", width=1 + 9 * weight)  # fmt: skip
        yield circle(x, TIMES, 12, "attention")
        yield line(f"M{x - 4.5} {TIMES - 4.5} l9 9 m0 -9 l-9 9", "arrow", tip="")
    yield circle(middle, SUM, 20, "attention")
    yield text(middle, SUM + 6, "Σ", "middle")
    yield line(f"M{middle - 20} {SUM} H{first + 30}", "weighted", tip="attention", width=1.5)
    yield box(first, SUM, 60, 40, "attention")
    yield math(first, SUM + 6, "c_{t}")
    yield line(f"M{first - 30} {SUM} H{DECODER + 38}", "weighted", tip="attention", width=1.5)


def values(at: Layout) -> Iterator[str]:
    """The encoder states once more, on their way to the weighted sum; drawn first, behind everything else."""
    for x in at.columns:
        yield line(f"M{x + VALUE} {STATES + 20} V{TIMES - 14} L{x + 11} {TIMES - 5}", "value", tip="encoder")


def notes(at: Layout) -> Iterator[str]:
    """The names of the steps, with the three formulas, next to the rows that compute them."""
    top, *rows = at.rows
    yield text(at.notes, top - 6, "Encoder: annotations", "name of-encoder")
    yield text(at.notes, top + 16, "keys and, dashed, values", "faint")
    for y, (title, formula, meaning) in zip(rows, NOTES, strict=True):
        yield text(at.notes, y - 20, title, "name of-attention")
        yield math(at.notes, y + 8, formula, "")
        yield text(at.notes, y + 34, meaning, "faint")
    yield text(DECODER, ALIGNMENT - 86, "Decoder", "middle name of-decoder")
    yield text(DECODER, ALIGNMENT - 68, "its state is the query", "middle faint")


def drawing(at: Layout = WIDE) -> str:
    """The complete picture as SVG."""
    title = "The attention mechanism of an encoder-decoder"
    parts = (values(at), encoder(at), decoder(), alignment(at), softmax(at), weighted_sum(at), notes(at))
    body = [style(), tips(), f'<rect width="{at.width}" height="{at.height}" rx="12" class="card"/>']
    body += [element for part in parts for element in part]
    size = f'viewBox="0 0 {at.width} {at.height}" width="{at.width}" height="{at.height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join([head, f"<title>{title}</title>", *body, "</svg>", ""])


if __name__ == "__main__":
    IMAGE.write_text(drawing(), encoding="utf-8")
    NARROW_IMAGE.write_text(drawing(NARROW), encoding="utf-8")
