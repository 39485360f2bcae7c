"""Attention weights, learning curves and explanations: as text on a terminal, and as figures."""

from regard.show import explanation, figures, progress, steps, terminal

__all__ = ["explanation", "figures", "progress", "steps", "terminal"]
