"""Heat maps, learning curves and scores by length as Matplotlib figures."""

from regard.show.figures.curves import Panel, by_length, curves, save_by_length, save_curves
from regard.show.figures.heatmap import MOST_HEADS, heatmap, heatmaps, save_heatmap, save_heatmaps

__all__ = [
    "MOST_HEADS",
    "Panel",
    "by_length",
    "curves",
    "heatmap",
    "heatmaps",
    "save_by_length",
    "save_curves",
    "save_heatmap",
    "save_heatmaps",
]
