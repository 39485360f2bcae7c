"""The networks, their interfaces and shared parts."""

__all__: list[str] = []
