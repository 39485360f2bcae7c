"""Optional parts that rerank translations or extend sources."""

__all__: list[str] = []
