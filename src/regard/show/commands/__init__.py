"""Verbs of the command line that show something."""

__all__: list[str] = []
