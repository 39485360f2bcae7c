"""Attention weights, learning curves and explanations: as text on a terminal, as figures, and as pages of a browser."""

from regard.show import explanation, figures, progress, terminal
from regard.show.page import HtmlPage, page

__all__ = ["HtmlPage", "explanation", "figures", "page", "progress", "terminal"]
