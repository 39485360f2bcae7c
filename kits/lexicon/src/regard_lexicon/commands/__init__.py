"""The verbs of the command line that work on pronunciation dictionaries."""

__all__: list[str] = []
