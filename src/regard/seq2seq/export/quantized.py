"""Quantization of exported graphs to int8, by onnxruntime and, for the recurrent layers of an encoder, here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["quantize"]

_MARK = "onnx.quant.pre_process", "onnxruntime.quant"  # without it, onnxruntime prints advice


def quantize(path: Path) -> None:
    """Quantize the weights of a graph in its file, so that products are computed with integers.

    The weights of GRU and LSTM nodes are stored as integers and scaled when the graph is loaded, as onnxruntime has
    no standard operator that multiplies them.
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
    """Replace the weights of recurrent nodes by int8, with a scale for each gate of each state (axis 1)."""
    from onnx import helper, numpy_helper

    nodes = [node for node in graph.node if node.op_type in ("GRU", "LSTM")]
    weights = {name for node in nodes for name in node.input[1:3]}
    for tensor in [one for one in graph.initializer if one.name in weights]:
        array = numpy_helper.to_array(tensor)  # (directions, gates, inputs)
        scale = np.maximum(np.abs(array).max(axis=(0, 2)), np.finfo(np.float32).tiny) / 127
        name, parts = tensor.name, {"scale": scale.astype(np.float32), "zero": np.zeros(len(scale), np.int8)}
        parts["int8"] = np.rint(array / scale[:, None]).astype(np.int8)
        graph.initializer.remove(tensor)
        graph.initializer.extend(
            numpy_helper.from_array(part, f"{name}_{key}") for key, part in parts.items()
        )
        inputs = [f"{name}_{key}" for key in ("int8", "scale", "zero")]
        graph.node.insert(
            0, helper.make_node("DequantizeLinear", inputs, [name], name=f"{name}_scaled", axis=1)
        )
