"""Heat maps, pictures with their captions, learning curves and scores by length as Matplotlib figures."""

from regard.show.figures._curves import Panel, by_length, curves
from regard.show.figures._heatmap import MOST_HEADS, heatmap, heatmaps
from regard.show.figures.figure import save
from regard.show.figures.overlay import captioned

__all__ = ["MOST_HEADS", "Panel", "by_length", "captioned", "curves", "heatmap", "heatmaps", "save"]
