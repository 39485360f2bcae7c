"""The same attention in every installed library, with the array layout and the options that suit it best.

A library turns a `Case` and its `Data` into a `Turn`: a call to be timed, and a function that reads its result. It
returns None for a case that it does not support.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from record import installed

import regard
from regard import mask, scores

Array = np.ndarray[Any, Any]
WINDOW = 256


@dataclass(frozen=True)
class Case:
    """A problem of attention. `lead` are batch and heads; `key_heads` is for grouped heads."""

    label: str
    n: int
    m: int
    d: int
    e: int = 0
    lead: tuple[int, ...] = (1, 8)
    key_heads: int = 0
    dtype: str = "float32"
    mask: str = ""  # causal, window, random, lengths, documents
    backward: bool = False
    bias: bool = False
    score: str = "products"

    @property
    def values(self) -> int:
        """Return e."""
        return self.e or self.d

    @property
    def key_lead(self) -> tuple[int, ...]:
        """Return the leading dimensions of keys and values."""
        return (*self.lead[:-1], self.key_heads or self.lead[-1]) if self.lead else ()

    @property
    def flops(self) -> float:
        """Return the useful floating-point operations: products of visible pairs."""
        each = 8 * self.d + 6 * self.values if self.backward else 2 * (self.d + self.values)
        return each * self.visible_pairs

    @property
    def visible_pairs(self) -> float:
        """Return the number of visible pairs of a query and a key."""
        every = math.prod(self.lead) * self.n
        if self.mask == "causal":
            return every * self.m / 2
        if self.mask == "window":
            return every * (WINDOW - WINDOW * (WINDOW - 1) / (2 * self.n))
        if self.mask == "lengths":
            return math.prod(self.lead) / self.lead[0] * self.n * float(self.key_lengths.sum())
        return every * (self.m / DOCUMENTS if self.mask == "documents" else self.m)

    @property
    def key_lengths(self) -> Array:
        """Return lengths (batch,) from nearly all keys down to an eighth."""
        return np.linspace(self.m, self.m / 8, self.lead[0] + 1)[1:].astype(np.int32)


DOCUMENTS = 4


@dataclass(frozen=True)
class Data:
    """The arrays of a case, drawn from one seed."""

    case: Case
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def _draw(self, *shape: int) -> Array:
        if self.case.dtype == "bfloat16":
            importlib.import_module("ml_dtypes")  # gives NumPy this data type
        drawn = self.rng.standard_normal(shape, np.float64 if self.case.dtype == "float64" else np.float32)
        return drawn.astype(self.case.dtype, copy=False)

    @cached_property
    def inputs(self) -> tuple[Array, Array, Array]:
        """Return queries (..., n, d), keys (..., m, d), values (..., m, e)."""
        c = self.case
        queries = self._draw(*c.lead, c.n, c.d)
        return queries, self._draw(*c.key_lead, c.m, c.d), self._draw(*c.key_lead, c.m, c.values)

    @cached_property
    def dcontext(self) -> Array:
        """Return a gradient of the context (..., n, e)."""
        return self._draw(*self.case.lead, self.case.n, self.case.values)

    @cached_property
    def bias(self) -> Array | None:
        """Return a bias (..., n, m)."""
        return self._draw(*self.case.lead, self.case.n, self.case.m) if self.case.bias else None

    @cached_property
    def vector(self) -> Array:
        """Return the vector of the additive score (d,)."""
        return self._draw(self.case.d)

    @cached_property
    def ids(self) -> Array:
        """Return the ids (n,) of documents of equal length."""
        return np.arange(self.case.n) * DOCUMENTS // self.case.n

    @cached_property
    def visible(self) -> Array | None:
        """Return the mask as an array (batch or 1, 1, n or 1, m); True is visible."""
        c = self.case
        i, j = np.arange(c.n)[:, None], np.arange(c.m)
        if c.mask == "causal":
            return (j <= i)[None, None]
        if c.mask == "window":
            return ((j <= i) & (j > i - WINDOW))[None, None]
        if c.mask == "random":
            return np.random.default_rng(1).random((c.n, c.m), np.float32)[None, None] < 0.5
        if c.mask == "documents":
            return np.asarray(self.ids[:, None] == self.ids)[None, None]
        if c.mask == "lengths":
            return np.asarray(j < c.key_lengths[:, None, None, None])
        return None


@dataclass(frozen=True)
class Turn:
    """A call to be timed; `read` gets the context, or the gradient of the queries, (..., n, size) from its result."""

    call: Callable[[], Any]
    read: Callable[[Any], Array] = np.asarray


def four(x: Array) -> Array:
    """Return an array (batch, heads, n, d), with leading dimensions of 1."""
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def time_first(x: Array) -> Array:
    """Return a contiguous array (batch, n, heads, d)."""
    return np.ascontiguousarray(four(x).swapaxes(1, 2))


class Regard:
    """This package; a process that is bound to its processors takes the default, as users do."""

    name, is_peer = "regard", False

    def __init__(self, threads: int) -> None:
        bound = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) == threads
        self.threads, self.version = None if bound else threads, regard.__version__

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a call of `attention` or `attention_vjp`."""
        options: dict[str, Any] = {"mask": self._mask(case, data), "bias": data.bias, "threads": self.threads}
        if case.score == "additive":
            options["score"] = scores.additive(None, None, data.vector)
        if case.score == "entmax15":
            options["normalize"] = "entmax15"
        if not case.backward:
            return Turn(partial(regard.attention, *data.inputs, **options))

        def both() -> Any:
            _, pullback = regard.attention_vjp(*data.inputs, **options)
            return pullback(data.dcontext)

        return Turn(both, lambda gradients: gradients.queries)

    def _mask(self, case: Case, data: Data) -> Any:
        make: dict[str, Callable[[], Any]] = {
            "": lambda: None,
            "causal": mask.causal,
            "window": lambda: mask.window(WINDOW - 1, 0),
            "random": lambda: data.visible,
            "lengths": lambda: mask.lengths(case.key_lengths[:, None]),
            "documents": lambda: mask.documents(data.ids),
        }
        return make[case.mask]()


class Definition(Regard):
    """`attend`, which returns scores, weights and context."""

    name = "attend"

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a call of `attend`."""
        return Turn(partial(regard.attend, *data.inputs), lambda result: result.context)


class Plain:
    """The usual expression in NumPy."""

    name, is_peer = "NumPy", True

    def __init__(self, threads: int) -> None:
        self.version = np.__version__

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a call of the expression; BLAS has no half precision, which is widened first."""
        if case.score == "additive":
            return self._additive(case, data)
        if case.backward:
            return Turn(
                lambda: plain_both(*data.inputs, data.dcontext, data.bias, data.visible),
                lambda gradients: gradients[0],
            )
        if case.key_heads:
            return Turn(
                lambda: plain_grouped(*map(widened, data.inputs)), lambda x: x.reshape(*case.lead, 1, -1)
            )
        return Turn(lambda: plain(*map(widened, data.inputs), bias=data.bias, visible=data.visible))

    def _additive(self, case: Case, data: Data) -> Turn:
        if case.backward:
            return Turn(
                lambda: plain_additive_both(*data.inputs, data.vector, data.dcontext),
                lambda gradients: gradients[0],
            )
        return Turn(lambda: plain_additive(*data.inputs, data.vector)[-1])


def widened(x: Array) -> Array:
    """Return half precision as float32, everything else as it is."""
    return x.astype(np.float32) if x.itemsize == 2 else x


def softmax(s: Array) -> Array:
    """Return the weights of scores."""
    w: Array = np.exp(s - s.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    return w


def plain_weights(q: Array, k: Array, bias: Array | None, visible: Array | None) -> Array:
    """Return the weights (..., n, m)."""
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = s if bias is None else s + bias
    return softmax(s if visible is None else np.where(visible, s, -np.inf))


def plain(q: Array, k: Array, v: Array, *, bias: Array | None = None, visible: Array | None = None) -> Array:
    """Return the context (..., n, e)."""
    return plain_weights(q, k, bias, visible) @ v


def plain_grouped(q: Array, k: Array, v: Array) -> Array:
    """Return the context of one query a head; the heads of a group are the queries of their key head."""
    return plain(q.reshape(*k.shape[:-2], -1, q.shape[-1]), k, v)


def plain_both(
    q: Array, k: Array, v: Array, dc: Array, bias: Array | None, visible: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Return the gradients of queries, keys, values and bias."""
    w = plain_weights(q, k, bias, visible)
    context = w @ v
    ds = w * (dc @ v.swapaxes(-1, -2) - (dc * context).sum(-1, keepdims=True))
    scale = 1 / math.sqrt(q.shape[-1])
    return ds @ k * scale, ds.swapaxes(-1, -2) @ q * scale, w.swapaxes(-1, -2) @ dc, ds


def plain_additive(q: Array, k: Array, v: Array, vector: Array) -> tuple[Array, Array, Array]:
    """Return the hidden layer (..., n, m, d), weights and context of the additive score."""
    hidden = np.tanh(q[..., :, None, :] + k[..., None, :, :])
    w = softmax(hidden @ vector)
    return hidden, w, w @ v


def plain_additive_both(
    q: Array, k: Array, v: Array, vector: Array, dc: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the gradients of queries, keys, values and vector."""
    hidden, w, context = plain_additive(q, k, v, vector)
    ds = w * (dc @ v.swapaxes(-1, -2) - (dc * context).sum(-1, keepdims=True))
    dsum = ds[..., None] * vector * (1 - hidden * hidden)
    dvector = np.tensordot(ds, hidden, ds.ndim)
    return dsum.sum(-2), dsum.sum(-3), w.swapaxes(-1, -2) @ dc, dvector


class PlainSciPy(Plain):
    """The same with SciPy's softmax."""

    name = "with SciPy"

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a call of the expression."""
        from scipy.special import softmax

        q, k, v = data.inputs
        return Turn(lambda: softmax(q @ k.swapaxes(-1, -2) / math.sqrt(case.d), axis=-1) @ v)


class Torch:
    """PyTorch: scaled_dot_product_attention and autograd."""

    name, is_peer = "PyTorch", True

    def __init__(self, threads: int) -> None:
        self.version = installed("torch")
        if self.version:
            self.torch = importlib.import_module("torch")
            self.torch.set_num_threads(threads)

    def tensor(self, x: Array | None) -> Any:
        """Return an array as a tensor; PyTorch does not accept the bfloat16 of ml_dtypes."""
        if x is None:
            return None
        if x.dtype.name == "bfloat16":
            return self.torch.from_numpy(x.view(np.int16)).view(self.torch.bfloat16)
        return self.torch.from_numpy(x)

    def array(self, x: Any) -> Array:
        """Return a tensor as an array."""
        return np.asarray(x.detach().float() if x.dtype == self.torch.bfloat16 else x.detach())

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a call of its function, or of the additive score written out."""
        q, k, v, vector = (self.tensor(x) for x in (*map(four, data.inputs), data.vector))
        attend = (
            partial(self._additive, vector=vector) if case.score == "additive" else self._attend(case, data)
        )
        if not case.backward:
            return Turn(partial(self._without_gradients, attend, q, k, v), self.array)
        inputs = [q, k, v] + [vector] * (case.score == "additive")
        bias = attend.keywords.get("bias")
        inputs += [] if bias is None else [bias]
        for x in inputs:
            x.requires_grad_()
        dcontext = self.tensor(four(data.dcontext))
        return Turn(
            lambda: self.torch.autograd.grad(attend(q, k, v), inputs, dcontext),
            lambda gradients: self.array(gradients[0]),
        )

    def _attend(self, case: Case, data: Data) -> Any:
        attend = self.torch.nn.functional.scaled_dot_product_attention
        if case.bias:
            return partial(self._biased, bias=self.tensor(data.bias), visible=self.tensor(data.visible))
        options: dict[str, Any] = {"is_causal": True} if case.mask == "causal" else {}
        if case.mask not in ("", "causal"):
            options["attn_mask"] = self.tensor(data.visible)
        if case.key_heads:
            options["enable_gqa"] = True
        return partial(attend, **options)

    def _biased(self, q: Any, k: Any, v: Any, bias: Any, visible: Any) -> Any:
        """Attend with a bias, to which a mask is added: there is one argument for both."""
        added = bias if visible is None else bias.masked_fill(~visible, -math.inf)
        return self.torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=added)

    def _without_gradients(self, attend: Callable[..., Any], *inputs: Any) -> Any:
        with self.torch.inference_mode():
            return attend(*inputs)

    def _additive(self, q: Any, k: Any, v: Any, vector: Any) -> Any:
        hidden = self.torch.tanh(q[..., :, None, :] + k[..., None, :, :])
        return self.torch.softmax(hidden @ vector, -1) @ v


class OnnxRuntime:
    """onnxruntime's operator MultiHeadAttention and, for decoding, GroupQueryAttention."""

    name, is_peer = "onnxruntime", True

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.version = installed("onnxruntime", "onnx")
        if self.version:
            self.runtime = importlib.import_module("onnxruntime")
            self.helper = importlib.import_module("onnx.helper")

    def session(
        self, node: Any, inputs: dict[str, Array], outputs: dict[str, tuple[str, tuple[int, ...]]]
    ) -> Any:
        """Return a session for one node; an output has the type of an input, and a shape."""
        h = self.helper
        types = {name: h.np_dtype_to_tensor_dtype(x.dtype) for name, x in inputs.items()}
        graph = h.make_graph(
            [node],
            "attention",
            [h.make_tensor_value_info(name, types[name], x.shape) for name, x in inputs.items()],
            [h.make_tensor_value_info(name, types[like], shape) for name, (like, shape) in outputs.items()],
        )
        opsets = [h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)]
        model = h.make_model(graph, opset_imports=opsets, ir_version=10)
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = self.threads, 3
        return self.runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a call of one operator; there is no bfloat16, no float64 and no gradient."""
        if case.backward or case.bias or case.score != "products" or case.dtype not in ("float32", "float16"):
            return None
        return self._decode(case, data) if case.n == 1 and case.m > 1 else self._forward(case, data)

    def _forward(self, case: Case, data: Data) -> Turn | None:
        if case.key_heads:
            return None
        inputs = {name: heads_side_by_side(x) for name, x in zip("qkv", data.inputs, strict=True)}
        names = list(inputs)
        if case.mask not in ("", "causal"):
            assert data.visible is not None
            inputs["mask"] = data.visible[:, 0].astype(np.int32)
            if case.mask == "lengths":
                inputs["mask"] = inputs["mask"][:, 0]
            names += ["", "mask"]
        heads, batch = four(data.inputs[0]).shape[1], len(inputs["q"])
        node = self.helper.make_node(
            "MultiHeadAttention",
            names,
            ["context"],
            domain="com.microsoft",
            num_heads=heads,
            unidirectional=int(case.mask == "causal"),
        )
        session = self.session(node, inputs, {"context": ("q", (batch, case.n, heads * case.values))})
        return Turn(
            partial(session.run, None, inputs),
            lambda outputs: outputs[0].reshape(batch, case.n, heads, -1).swapaxes(1, 2),
        )

    def _decode(self, case: Case, data: Data) -> Turn:
        _, keys, values = data.inputs
        return self._decode_from(case, data, {"keys": keys, "values": values})

    def _decode_from(
        self,
        case: Case,
        data: Data,
        caches: dict[str, Array],
        scales: Sequence[Array] = (),
        **attributes: Any,
    ) -> Turn:
        """Attend with one query to m - 1 keys of a cache, which input and output share, and to the last key."""
        queries, keys, values = data.inputs
        last = {name: heads_side_by_side(x[..., -1:, :]) for name, x in (("k", keys), ("v", values))}
        counts = {"before": np.array([case.m - 1], np.int32), "every": np.array(case.m, np.int32)}
        factors = dict(zip(("key_scales", "value_scales"), scales, strict=False))
        small = {"q": heads_side_by_side(queries), **last, **counts, **factors}
        names = ["q", "k", "v", "keys", "values", "before", "every"]
        node = self.helper.make_node(
            "GroupQueryAttention",
            [*names, *[""] * 5, *factors] if factors else names,
            ["context", "new_keys", "new_values"],
            domain="com.microsoft",
            num_heads=case.lead[-1],
            kv_num_heads=case.key_lead[-1],
            **attributes,
        )
        inputs = {name: (small | caches)[name] for name in node.input if name}
        outputs = {
            "context": ("q", (1, 1, case.lead[-1] * case.values)),
            "new_keys": ("keys", keys.shape),
            "new_values": ("values", values.shape),
        }
        session = self.session(node, inputs, outputs)
        binding = session.io_binding()
        for name, x in caches.items():
            cache = self.runtime.OrtValue.ortvalue_from_numpy(x)
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(f"new_{name}", cache)
        for name, x in small.items():
            binding.bind_ortvalue_input(name, self.runtime.OrtValue.ortvalue_from_numpy(x))
        binding.bind_output("context")
        return Turn(
            partial(session.run_with_iobinding, binding),
            lambda _: binding.copy_outputs_to_cpu()[-1].reshape(*case.lead, 1, -1),
        )


class GroupQueryAttention(OnnxRuntime):
    """onnxruntime's operator GroupQueryAttention for a whole prompt, which is causal."""

    name = "onnxruntime GQA"

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a call without a cache; only causal masks and windows."""
        supported = case.dtype in ("float32", "float16") and case.mask in ("causal", "window")
        if case.backward or case.bias or not supported or case.n != case.m:
            return None
        queries, keys, values = data.inputs
        inputs = {name: heads_side_by_side(x) for name, x in zip("qkv", (queries, keys, values), strict=True)}
        batch, heads, n, _ = queries.shape
        inputs |= {"before": np.full(batch, n - 1, np.int32), "every": np.array(n, np.int32)}
        node = self.helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", "", "", "before", "every"],
            ["context", "new_keys", "new_values"],
            domain="com.microsoft",
            num_heads=heads,
            kv_num_heads=keys.shape[1],
            local_window_size=WINDOW if case.mask == "window" else -1,
        )
        outputs = {
            "context": ("q", (batch, n, heads * case.values)),
            "new_keys": ("q", keys.shape),
            "new_values": ("q", values.shape),
        }
        session = self.session(node, inputs, outputs)
        return Turn(
            partial(session.run, ["context"], inputs),
            lambda contexts: contexts[0].reshape(batch, n, heads, -1).swapaxes(1, 2),
        )


class QuantizedCache(OnnxRuntime):
    """The same operator with a cache of int8, a scale for each channel: less to read, and another result."""

    name, is_peer, tolerance = "int8 cache", False, 5e-2

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a call for decoding in float32."""
        if case.n != 1 or case.m == 1 or case.dtype != "float32" or case.backward:
            return None
        _, keys, values = data.inputs
        (keys, *key_scales), (values, *value_scales) = quantized(keys), quantized(values)
        kinds = {f"{name}_quant_type": "PER_CHANNEL" for name in "kv"}
        return self._decode_from(
            case,
            data,
            {"keys": keys, "values": values},
            key_scales + value_scales,
            kv_cache_bit_width=8,
            **kinds,
        )


def quantized(x: Array) -> tuple[Array, Array]:
    """Return int8 (..., m, d) and its scales (..., 1, d)."""
    scales = np.abs(x).max(-2, keepdims=True) / 127
    return np.rint(x / scales).astype(np.int8), scales


def heads_side_by_side(x: Array) -> Array:
    """Return an array (batch, n, heads * d)."""
    x = time_first(x)
    return x.reshape(*x.shape[:2], -1)


class Jax:
    """JAX: dot_product_attention, compiled before it is timed."""

    name, is_peer = "JAX", True

    def __init__(self, threads: int) -> None:
        self.version = installed("jax", "jaxlib")
        if self.version:
            self.jax = importlib.import_module("jax")
            self.jax.config.update("jax_enable_x64", True)

    def turn(self, case: Case, data: Data) -> Turn | None:
        """Return a compiled call; on a CPU there is no float16, and values must be as long as keys."""
        if case.dtype == "float16" or (case.score == "products" and case.values != case.d):
            return None
        if case.score == "additive":
            dcontext = data.dcontext if case.backward else None
            return self._compiled((*data.inputs, data.vector), {}, self._additive, dcontext, np.asarray)
        inputs = [time_first(x) for x in data.inputs]
        attend = self.jax.nn.dot_product_attention
        if case.mask in ("causal", "window"):
            local = (WINDOW - 1, 0) if case.mask == "window" else None
            attend = partial(attend, is_causal=case.mask == "causal", local_window_size=local)
        named: dict[str, Array] = {}
        if case.mask == "lengths":
            named["key_value_seq_lengths"] = case.key_lengths
        elif case.mask in ("random", "documents"):
            named["mask"] = np.asarray(data.visible)
        if data.bias is not None:
            inputs.append(four(data.bias))
        dcontext = time_first(data.dcontext) if case.backward else None
        return self._compiled(inputs, named, attend, dcontext, self._heads_first)

    def _compiled(
        self,
        inputs: Sequence[Array],
        named: dict[str, Array],
        attend: Callable[..., Any],
        dcontext: Array | None,
        read: Callable[[Any], Array],
    ) -> Turn:
        """Compile the function, or its gradients, for inputs of these shapes."""
        jnp = self.jax.numpy
        placed, named = [jnp.asarray(x) for x in inputs], {name: jnp.asarray(x) for name, x in named.items()}
        if dcontext is None:
            run = self.jax.jit(attend).lower(*placed, **named).compile()
            return Turn(lambda: run(*placed, **named).block_until_ready(), read)
        placed.append(jnp.asarray(dcontext))

        def both(*arrays: Any) -> Any:
            _, pullback = self.jax.vjp(attend, *arrays[:-1])
            return pullback(arrays[-1])

        run = self.jax.jit(both).lower(*placed).compile()
        return Turn(lambda: self.jax.block_until_ready(run(*placed)), lambda gradients: read(gradients[0]))

    def _heads_first(self, x: Any) -> Array:
        return np.asarray(x).swapaxes(1, 2)

    def _additive(self, q: Any, k: Any, v: Any, vector: Any) -> Any:
        hidden = self.jax.numpy.tanh(q[..., :, None, :] + k[..., None, :, :])
        return self.jax.nn.softmax(hidden @ vector) @ v


LIBRARIES = (Regard, Torch, OnnxRuntime, GroupQueryAttention, QuantizedCache, Jax, Plain)


def warm(case: Case) -> Case:
    """Return a small case with the same options."""
    return replace(case, n=min(case.n, 64), m=min(case.m, 64))
