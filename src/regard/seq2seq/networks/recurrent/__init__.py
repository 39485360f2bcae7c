"""Recurrent encoder-decoders with attention."""

__all__: list[str] = []
