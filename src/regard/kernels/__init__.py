"""Kernels: the same function as the definition, by blocks. A kernel never borrows from the definition."""

__all__: list[str] = []
