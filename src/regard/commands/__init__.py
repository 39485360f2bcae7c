"""The verbs of the command line that train and use encoder-decoders."""

__all__: list[str] = []
