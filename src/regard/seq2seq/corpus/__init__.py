"""Pairs of a training: their files, tables, splits, numbers and batches."""

__all__: list[str] = []
