"""The verbs `train` and `translate` of the command line."""

__all__: list[str] = []
