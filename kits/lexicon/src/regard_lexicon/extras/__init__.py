"""Extras of `regard.seq2seq`: a translation memory, and joint n-grams (graphones) that rerank."""

__all__: list[str] = []
