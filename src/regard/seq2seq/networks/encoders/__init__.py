"""Encoders of sources that are not tokens: vectors and images."""

__all__: list[str] = []
