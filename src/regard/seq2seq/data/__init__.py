"""Text in, numbers out: tokenizers, vocabularies, parallel text, batches."""

__all__: list[str] = []
