"""The training loop, its defaults, checkpoints and log."""

__all__: list[str] = []
