"""Text as a source: tokenizers, vocabularies, Unicode."""

__all__: list[str] = []
