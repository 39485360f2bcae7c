"""The verbs `train` and `translate` of the command line."""
