"""What attention looks like: in numbers and words, on a terminal, as a picture."""

from regard.show import chart, figure, progress, story, terminal, text

__all__ = ["chart", "figure", "progress", "story", "terminal", "text"]
