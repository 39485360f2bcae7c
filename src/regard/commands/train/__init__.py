"""The verb `train`: its arguments, the pairs, the files of a training, its report, and the training itself."""

__all__: list[str] = []
