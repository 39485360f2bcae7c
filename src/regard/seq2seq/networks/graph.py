"""An ONNX graph under construction: every operation appends nodes, and a value is the name of a node's output.

Operators are those of ai.onnx in version 13, which runtimes since 2021 have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.sources.base import Spec

__all__ = ["IR", "OPSET", "Graph", "require_onnx"]

Array = NDArray[Any]
Axes = Sequence[str | int]  # of an input or output; a name stands for any size

OPSET, IR = 13, 8
_LOWEST = np.float32(np.finfo(np.float32).min)  # a logit whose weight is 0, and never a NaN
_EPSILON = 1e-5  # of normalisations
_TYPES = {"float32": 1, "int64": 7}  # TensorProto's numbers


def require_onnx(*names: str) -> None:
    """Raise ImportError where a package of the extra `onnx` is missing."""
    for name in names or ("onnx", "onnxruntime"):
        try:
            __import__(name)
        except ImportError:
            raise ImportError(f'exporting needs {name}: pip install "regard[onnx]"') from None


class Graph:
    """A graph with the parameters of a network, as far as its nodes use them."""

    def __init__(self, p: Mapping[str, Array]) -> None:
        self.p = p
        self.nodes: list[Any] = []
        self.arrays: dict[str, Array] = {}
        self.inputs: list[tuple[str, str, Axes]] = []
        self.outputs: list[tuple[str, str, Axes]] = []

    def input(self, name: str, dtype: str, axes: Axes) -> str:
        """Declare an input."""
        self.inputs.append((name, dtype, axes))
        return name

    def sources(self, spec: Spec) -> tuple[str, str]:
        """Declare the inputs of an encoder: ids (B, T) or rows (B, T, F), and the number of each source's (B,)."""
        length = prod(spec.grid) if spec.grid else "length"
        rows: tuple[str, Axes] = ("int64", ()) if spec.tokens else ("float32", (spec.width,))
        source = self.input("source", rows[0], ("batch", length, *rows[1]))
        return source, self.input("lengths", "int64", ("batch",))

    def output(self, name: str, value: str, axes: Axes, dtype: str = "float32") -> None:
        """Declare an output with this value."""
        self.outputs.append((name, dtype, axes))
        self._append("Identity", [value], [name])

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Return an array that does not depend on inputs."""
        array = np.asarray(value, dtype)
        known = (name for name, other in self.arrays.items() if _same(array, other))
        name = next(known, f"constant_{len(self.arrays)}")
        self.arrays[name] = array
        return name

    def parameter(self, name: str, array: Array | None = None) -> str:
        """Return a parameter of the network; or an array that is made of some, by a name of its own."""
        self.arrays.setdefault(name, self.p[name] if array is None else array)
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output."""
        return self.several(1, operator, *inputs, **attributes)[0]

    def several(self, count: int, operator: str, *inputs: str, **attributes: Any) -> list[str]:
        """Append a node with some outputs."""
        names = [f"{operator}_{len(self.nodes)}_{i}" for i in range(count)]
        self._append(operator, inputs, names, **attributes)
        return names

    def _append(self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **options: Any) -> None:
        from onnx import helper

        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, outputs, name=name, **options))

    def linear(
        self, *terms: tuple[str, str], bias: str | None = None, added: str | None = None, squash: bool = False
    ) -> str:
        """Return the sum of ``x @ weight``, bias and `added`; its tanh if `squash`."""
        total = added
        for x, weight in terms:
            product = self.node("MatMul", x, self.parameter(weight))
            total = product if total is None else self.add(total, product)
        assert total is not None
        if bias:
            total = self.add(total, self.parameter(bias))
        return self.node("Tanh", total) if squash else total

    def embedded(self, table: str, ids: str, scale: float = 1.0) -> str:
        """Return the rows of a table, times a factor."""
        rows = self.node("Gather", self.parameter(table), ids)
        return rows if scale == 1 else self.multiply(rows, self.number(scale))

    def normalized(self, x: str, name: str, *, axis: int = -1, epsilon: float = _EPSILON) -> str:
        """Return layer normalization along an axis, as opset 13 has no operator for it."""
        centred = self.node("Sub", x, self.mean(x, axis))
        variance = self.mean(self.multiply(centred, centred), axis)
        deviation = self.node("Sqrt", self.add(variance, self.number(epsilon)))
        gain, shift = (self._along(name + part, axis) for part in ("gain", "shift"))
        return self.add(self.multiply(self.node("Div", centred, deviation), gain), shift)

    def _along(self, name: str, axis: int) -> str:
        """Return a parameter (F,) of an axis: the last one, or that of the channels of pictures (B, F, H, W)."""
        return self.parameter(name, None if axis == -1 else self.p[name][:, None, None])

    def mean(self, x: str, axis: int) -> str:
        """Return the mean along an axis, which stays with size 1."""
        return self.node("ReduceMean", x, axes=[axis])

    def attention_block(self, name: str, x: str, attend: Callable[[str], str]) -> str:
        """Return ``x + attend(norm(x) @ in) @ out``."""
        context = attend(self.linear((self.normalized(x, name), name + "in")))
        return self.linear((context, name + "out"), added=x)

    def feed_forward_block(self, name: str, x: str) -> str:
        """Return ``x + relu(norm(x) @ in + in_bias) @ out + out_bias``."""
        inner = self.node("Relu", self.linear((self.normalized(x, name), name + "in"), bias=name + "in_bias"))
        return self.linear((inner, name + "out"), bias=name + "out_bias", added=x)

    def encoder_layer(self, name: str, x: str, heads: int, visible: str) -> str:
        """Return rows (B, T, W) that have attended to the visible rows (B, T) of their source."""
        width, seen = len(self.p[name + "self_gain"]), self.unsqueezed(visible, 1, 2)

        def attend(projected: str) -> str:
            return self.attended(self.split(projected, [width] * 3), heads, width, seen)[0]

        x = self.attention_block(name + "self_", x, attend)
        return self.feed_forward_block(name + "hidden_", x)

    def attended(
        self, projected: Sequence[str], heads: int, width: int, seen: str | None = None
    ) -> tuple[str, str]:
        """Return contexts (B, n, W), and the weights (B, heads, n, T), of queries, keys and values."""
        q, k, v = (self.reshaped(x, 0, 0, heads, width // heads) for x in projected)
        products = self.node("MatMul", self.transposed(q, 0, 2, 1, 3), self.transposed(k, 0, 2, 3, 1))
        logits = self.multiply(products, self.number((width / heads) ** -0.5))
        weights = self.node("Softmax", logits, axis=-1) if seen is None else self.weights(logits, seen)
        context = self.node("MatMul", weights, self.transposed(v, 0, 2, 1, 3))
        return self.reshaped(self.transposed(context, 0, 2, 1, 3), 0, 0, width), weights

    def add(self, first: str, second: str) -> str:
        """Return the sum of two values."""
        return self.node("Add", first, second)

    def multiply(self, first: str, second: str) -> str:
        """Return the product of the elements of two values."""
        return self.node("Mul", first, second)

    def number(self, value: float) -> str:
        """Return a float32."""
        return self.constant(value, np.float32)

    def reshaped(self, value: str, *shape: int) -> str:
        """Return a value in another shape, where 0 keeps an axis and -1 takes the rest."""
        return self.node("Reshape", value, self.constant(shape))

    def transposed(self, value: str, *axes: int) -> str:
        """Return a value with its axes in this order."""
        return self.node("Transpose", value, perm=axes)

    def unsqueezed(self, value: str, *axes: int) -> str:
        """Return a value with new axes of size 1."""
        return self.node("Unsqueeze", value, self.constant(axes))

    def squeezed(self, value: str, *axes: int) -> str:
        """Return a value without these axes of size 1."""
        return self.node("Squeeze", value, self.constant(axes))

    def joined(self, *values: str, axis: int = -1) -> str:
        """Return values side by side."""
        return values[0] if len(values) == 1 else self.node("Concat", *values, axis=axis)

    def split(self, value: str, sizes: Sequence[int]) -> list[str]:
        """Return the parts of a value along its last axis."""
        if len(sizes) == 1:
            return [value]
        return self.several(len(sizes), "Split", value, self.constant(sizes), axis=-1)

    def size(self, value: str, axis: int) -> str:
        """Return the size of an axis, as an array of one number."""
        return self.node("Gather", self.node("Shape", value), self.constant([axis]))

    def zeros(self, value: str, *sizes: int) -> str:
        """Return zeros (B, sizes ...), with B rows as a value has."""
        shape = self.joined(self.size(value, 0), self.constant(sizes), axis=0)
        return self.node("ConstantOfShape", shape)

    def count(self, size: str) -> str:
        """Return the numbers from 0 to a size, an array of one number."""
        zero, step = self.constant(0), self.constant(1)
        return self.node("Range", zero, self.squeezed(size, 0), step)

    def visible(self, lengths: str, length: str) -> str:
        """Return which positions (B, T) are before the lengths (B,); T is an array of one number."""
        return self.node("Less", self.unsqueezed(self.count(length), 0), self.unsqueezed(lengths, 1))

    def weights(self, logits: str, visible: str) -> str:
        """Return the softmax along the last axis; 0 where a key is not visible."""
        masked = self.node("Where", visible, logits, self.constant(_LOWEST, np.float32))
        return self.node("Softmax", masked, axis=-1)

    def log_probabilities(self, readout: str) -> str:
        """Return the log-probabilities of all tokens for readouts (B, E)."""
        names = self.parameter("target_embedding"), self.parameter("output_bias")
        return self.node("LogSoftmax", self.node("Gemm", readout, *names, transB=1), axis=-1)

    def model(self, name: str, metadata: Mapping[str, str]) -> Any:
        """Return the graph as a checked ModelProto."""
        import onnx
        from onnx import helper, numpy_helper

        arrays = [numpy_helper.from_array(np.ascontiguousarray(a), key) for key, a in self.arrays.items()]
        infos = (
            [helper.make_tensor_value_info(n, _TYPES[d], list(axes)) for n, d, axes in side]
            for side in (self.inputs, self.outputs)
        )
        graph = helper.make_graph(self.nodes, name, *infos, arrays)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="regard"
        )
        model.ir_version = IR
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model, full_check=True)
        return model


def _same(first: Array, second: Array) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and bool((first == second).all())
