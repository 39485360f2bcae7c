"""What a network makes of its source: of tokens, of vectors and of images."""

__all__: list[str] = []
