"""Quantization of exported graphs to int8, by onnxruntime and, for recurrent layers and convolutions, here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["quantize"]

# The inputs of nodes that are weights, and the axis along which each number has a scale: gates, or filters.
_STORED = {"GRU": (slice(1, 3), 1), "LSTM": (slice(1, 3), 1), "Conv": (slice(1, 2), 0)}
_MARK = "onnx.quant.pre_process", "onnxruntime.quant"  # without it, onnxruntime prints advice


def quantize(path: Path) -> None:
    """Quantize the weights of a graph in its file, so that products are computed with integers.

    Those of recurrent layers and convolutions are stored as integers and scaled when the graph is loaded: onnxruntime
    has no standard operator that multiplies the first, and the second are few.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(path)
    kept = [(prop.key, prop.value) for prop in model.metadata_props]
    model.metadata_props.add(key=_MARK[0], value=_MARK[1])
    options = {
        "per_channel": True,
        "weight_type": QuantType.QUInt8,
        "op_types_to_quantize": ["MatMul", "Gather"],
    }
    quantize_dynamic(model, path, **options)
    model = onnx.load(path)
    _store_as_integers(model.graph)
    del model.metadata_props[:]
    for key, value in kept:
        model.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


def _store_as_integers(graph: Any) -> None:
    """Replace the weights of recurrent nodes and convolutions by int8, with a scale for each gate or filter."""
    from onnx import helper, numpy_helper

    nodes = [(node.input, *_STORED[node.op_type]) for node in graph.node if node.op_type in _STORED]
    axes = {name: axis for inputs, weights, axis in nodes for name in inputs[weights]}
    for tensor in [tensor for tensor in graph.initializer if tensor.name in axes]:
        name, axis = tensor.name, axes[tensor.name]
        array = np.moveaxis(numpy_helper.to_array(tensor), axis, -1)
        scale = (
            np.maximum(np.abs(array).max(axis=tuple(range(array.ndim - 1))), np.finfo(np.float32).tiny) / 127
        )
        parts = {"scale": scale.astype(np.float32), "zero": np.zeros(len(scale), np.int8)}
        parts["int8"] = np.moveaxis(np.rint(array / scale).astype(np.int8), -1, axis)
        graph.initializer.remove(tensor)
        graph.initializer.extend(
            numpy_helper.from_array(part, f"{name}_{key}") for key, part in parts.items()
        )
        inputs = [f"{name}_{key}" for key in ("int8", "scale", "zero")]
        graph.node.insert(
            0, helper.make_node("DequantizeLinear", inputs, [name], name=f"{name}_scaled", axis=axis)
        )
