"""What attention looks like: in numbers and words, on a terminal, as a picture."""

from regard.show import figure, progress, story, terminal, text

__all__ = ["figure", "progress", "story", "terminal", "text"]
