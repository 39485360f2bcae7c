"""Trained networks as ONNX files, which run without this package."""

__all__: list[str] = []
