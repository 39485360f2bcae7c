"""The block of a transformer as strips: encoder, decoder, and where the decoder reads the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.show.figures.figure import (
    drawable,
    house_style,
    new_figure,
    show_in_notebooks,
    write_literally,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__: list[str] = []

_PLACES = ("encoder", "decoder", "source")  # from left to right
_BOXES = ("words", "positions", "attention", "add", "feed", "output")  # from top to bottom
_ABSENT = {"decoder": ("feed", "output"), "source": ("words", "positions")}  # of a translator
_WIDE, _APART, _HIGH, _BELOW = 2.6, 3.5, 0.7, 1.15
_AROUND = ((1, 3), (3, 5))  # boxes that a residual connection leads past
_LINE: dict[str, Any] = {"color": "#5a6072", "linewidth": 1.0}
_LATE: dict[str, Any] = {"alpha": 0.35}


def strips(texts: dict[str, Any]) -> Axes:
    """Draw the block at its places; `texts` are those of pages in a language."""
    shown = texts["block"]
    labels = [[*shown["strips"].values()], [*shown["boxes"].values()], [shown["next"]]]
    _, fonts = drawable([*labels, *shown["attention"].values()])
    with house_style():
        ax = new_figure(6.4, 4.6).add_subplot()
        ax.set(xlim=(-0.9, _APART * 2 + _WIDE + 0.1), ylim=(7.4, -0.9))
        ax.set_axis_off()
        for k, place in enumerate(_PLACES):
            _strip(ax, _APART * k, place, shown)
        _reading(ax)
        ax.text(2 * _APART + _WIDE / 2, 7.15, shown["next"], ha="center", va="center")
        write_literally(ax, fonts)
        for text in ax.texts:
            text.set(fontfamily=fonts, parse_math=False)
    return show_in_notebooks(ax)


def _strip(ax: Axes, x: float, place: str, shown: dict[str, Any]) -> None:
    ax.text(x + _WIDE / 2, -0.5, shown["strips"][place], ha="center", weight="bold")
    for i, box in enumerate(_BOXES):
        text = "\n".join(shown["attention"][place]) if box == "attention" else shown["boxes"][box]
        style = _LATE if box in _ABSENT.get(place, ()) else {}
        _box(ax, x, i, text, style)
        if i + 1 < len(_BOXES):
            _arrow(ax, [(x + _WIDE / 2, _top(i) + _HIGH), (x + _WIDE / 2, _top(i + 1))], style)
    for start, end in _AROUND:
        if _BOXES[end] not in _ABSENT.get(place, ()):
            left, low, high = x - 0.3, _top(start) + _HIGH + 0.12, _top(end) + _HIGH / 2
            _arrow(ax, [(x + _WIDE / 2, low), (left, low), (left, high), (x, high)], {})


def _top(i: int) -> float:
    return _BELOW * i


def _box(ax: Axes, x: float, i: int, text: str, style: dict[str, Any]) -> None:
    from matplotlib.patches import FancyBboxPatch

    rounded = "round,pad=0,rounding_size=0.15"
    box = FancyBboxPatch(
        (x, _top(i)), _WIDE, _HIGH, rounded, facecolor="#eef1fb", edgecolor="#3553c9", **style
    )
    ax.add_patch(box)
    ax.text(
        x + _WIDE / 2,
        _top(i) + _HIGH / 2,
        text,
        ha="center",
        va="center",
        fontsize=9,
        linespacing=0.95,
        **style,
    )


def _arrow(ax: Axes, path: list[tuple[float, float]], style: dict[str, Any]) -> None:
    """Draw a line with corners whose last piece is an arrow."""
    ax.plot(*zip(*path[:-1], strict=True), **_LINE, **style)
    ax.annotate(
        "", path[-1], path[-2], arrowprops={"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0, **_LINE, **style}
    )


def _reading(ax: Axes) -> None:
    """Draw what the third strip reads: queries are the decoder's words, keys and values the encoder's."""
    third, middle = 2 * _APART, _top(2) + _HIGH / 2
    low = _top(5) + _HIGH
    dashed = {"linestyle": "--"}
    encoded = [
        (_WIDE / 2, low),
        (_WIDE / 2, low + 0.4),
        (third - 0.5, low + 0.4),
        (third - 0.5, middle + 0.15),
    ]
    _arrow(ax, [*encoded, (third, middle + 0.15)], dashed)
    decoded, bend = _top(3) + _HIGH / 2, third - 0.7
    _arrow(
        ax,
        [(_APART + _WIDE, decoded), (bend, decoded), (bend, middle - 0.15), (third, middle - 0.15)],
        dashed,
    )
