"""Heat maps, pictures with their captions, learning curves and scores by length as Matplotlib figures."""

from regard.show.figures.curves import Panel, by_length, curves, save_by_length, save_curves
from regard.show.figures.heatmap import MOST_HEADS, heatmap, heatmaps, save_heatmap, save_heatmaps
from regard.show.figures.overlay import captioned, save_captioned

__all__ = [
    "MOST_HEADS",
    "Panel",
    "by_length",
    "captioned",
    "curves",
    "heatmap",
    "heatmaps",
    "save_by_length",
    "save_captioned",
    "save_curves",
    "save_heatmap",
    "save_heatmaps",
]
