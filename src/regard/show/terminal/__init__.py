"""Heat maps, tables, pictures with their captions and learning curves as text, aligned by display width."""

from regard.show.terminal._curves import curves
from regard.show.terminal._heatmap import heatmap, table
from regard.show.terminal.overlay import captioned
from regard.show.terminal.text import wants_color

__all__ = ["captioned", "curves", "heatmap", "table", "wants_color"]
