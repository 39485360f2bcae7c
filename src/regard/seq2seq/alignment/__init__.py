"""Links between source and target tokens."""

__all__: list[str] = []
