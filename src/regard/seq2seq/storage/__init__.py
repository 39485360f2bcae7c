"""Safetensors files of models and checkpoints."""

__all__: list[str] = []
