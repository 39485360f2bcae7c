"""Heat maps, tables and learning curves as text, aligned by display width."""

from regard.show.terminal.curves import curves
from regard.show.terminal.heatmap import heatmap, table
from regard.show.terminal.overlay import captioned
from regard.show.terminal.text import (
    align,
    clean,
    cut,
    display_width,
    fit,
    note,
    pad_lines,
    report,
    shade,
    shorten,
    side_by_side,
    wants_color,
    wrap,
)

__all__ = [
    "align",
    "captioned",
    "clean",
    "curves",
    "cut",
    "display_width",
    "fit",
    "heatmap",
    "note",
    "pad_lines",
    "report",
    "shade",
    "shorten",
    "side_by_side",
    "table",
    "wants_color",
    "wrap",
]
