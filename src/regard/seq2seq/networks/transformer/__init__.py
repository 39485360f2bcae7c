"""The transformer."""

__all__: list[str] = []
