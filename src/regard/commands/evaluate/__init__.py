"""The verb `evaluate`: its arguments, the test set, the outputs of models, their measures, and the report."""

__all__: list[str] = []
