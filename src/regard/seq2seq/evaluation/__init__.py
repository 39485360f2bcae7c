"""Metrics of translations and alignments."""

__all__: list[str] = []
