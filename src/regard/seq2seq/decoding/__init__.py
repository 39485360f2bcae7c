"""Beam search, sampling and forced decoding."""

__all__: list[str] = []
