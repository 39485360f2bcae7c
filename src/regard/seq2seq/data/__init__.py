"""Parallel text, tokenizers, vocabularies, batches."""

__all__: list[str] = []
