"""Encoders of sources that are arrays, such as images."""

__all__: list[str] = []
