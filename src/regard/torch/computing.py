"""Attention of PyTorch's tensors by regard's kernel, with gradients."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from regard import _check, _processors
from regard._attention import attention as attention_of_arrays
from regard._attention import attention_vjp
from regard.mask import MaskLike
from regard.position import BiasLike
from regard.torch.arguments import needed

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["attention", "refusal"]

INPUTS = ("queries", "keys", "values")
DTYPES = ("float32", "float64", "float16", "bfloat16")


@_check.hinted
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    /,
    *,
    mask: MaskLike | Tensor | None = None,
    bias: BiasLike | Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Tensor | float | None = None,
    threads: int | None = None,
) -> Tensor:
    """Compute attention on a CPU with regard's kernel, which builds no n x m array in either direction.

    The tensors are read where they are, without a copy. In a model that is compiled the call is made between two
    graphs.

    Parameters
    ----------
    query : Tensor (..., n, d)
        Queries, in float32, float64, float16 or bfloat16, which needs ml_dtypes.
    key : Tensor (..., m, d)
        Keys; their heads, the last leading dimension, may be fewer, a divisor of those of the queries.
    value : Tensor (..., m, e)
        Values.
    mask : bool Tensor broadcasting to (..., n, m) or regard.mask object, optional
        True = visible.
    bias : Tensor broadcasting to (..., n, m) or object of regard.position, optional
        Added to the scaled scores; a tensor has a gradient.
    scale, softcap
        As for `regard.attention`.
    sink : Tensor broadcasting to (...) or float, optional
        A logit for each head that joins the denominator of the softmax; a tensor has a gradient.
    threads : int, optional
        By default as many as PyTorch uses.

    Returns
    -------
    Tensor (..., n, e)
        The context; 0 for a query without a visible key.

    Raises
    ------
    ValueError, TypeError
        For invalid arguments, and tensors that are not in the memory of the CPU, before any computation.

    Examples
    --------
    >>> import torch, regard.torch
    >>> q, k, v = torch.zeros(1, 1), torch.zeros(2, 1), torch.tensor([[1.0], [3.0]], requires_grad=True)
    >>> context = regard.torch.attention(q, k, v)
    >>> context.backward()
    >>> context.item(), v.grad.flatten().tolist()
    (2.0, [0.5, 0.5])
    """
    torch = needed()
    tensors = (query, key, value)
    options = {
        "mask": mask,
        "bias": bias,
        "scale": scale,
        "softcap": softcap,
        "sink": sink,
        "threads": threads,
    }
    if torch.overrides.has_torch_function(tensors):  # a mode, such as that of `record`
        return torch.overrides.handle_torch_function(attention, tensors, *tensors, **options)
    # A compiler would follow the code of regard otherwise, down to its library.
    compute = torch.compiler.disable(_computed) if torch.compiler.is_compiling() else _computed
    return compute(*tensors, **options)


def _computed(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
    torch = needed()
    given = {"query": query, "key": key, "value": value}
    given |= {
        name: options[name] for name in ("mask", "bias", "sink") if isinstance(options[name], torch.Tensor)
    }
    for name, tensor in given.items():
        if reason := refusal(name, tensor):
            _check.fail(reason, kind=TypeError)
    if "mask" in given:
        options["mask"] = given["mask"].numpy()
    learned = (query, key, value, options.pop("bias"), options.pop("sink"))
    needs = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in learned)
    options["threads"] = _threads(options["threads"])
    return _function().apply(*learned, options, needs)


def refusal(name: str, tensor: Any) -> str:
    """Return why regard can't compute with a tensor, or an empty string."""
    torch = needed()
    if not isinstance(tensor, torch.Tensor):
        return f"{name} must be a tensor of PyTorch. Got {type(tensor).__name__} instead."
    if tensor.device.type != "cpu":
        return f"{name} must be in the memory of the CPU. Got a tensor on {tensor.device} instead."
    if tensor.layout is not torch.strided or tensor.is_nested:
        return f"{name} must be a dense tensor. Got {'a nested one' if tensor.is_nested else tensor.layout} instead."
    dtypes = ("bool",) if name == "mask" else DTYPES
    if (dtype := str(tensor.dtype).removeprefix("torch.")) not in dtypes:
        return f"{name} must be of type {', '.join(dtypes)}. Got {dtype} instead."
    return ""


def _threads(threads: int | None) -> int | None:
    """Return the number of threads; None where PyTorch uses all processors, so that small inputs take one."""
    allowed: int = needed().get_num_threads()
    return allowed if threads is None and allowed < _processors.available() else threads


def _shared(tensor: Any) -> Any:
    """Return a tensor as an array that shares its memory."""
    if str(tensor.dtype) != "torch.bfloat16":
        return tensor.detach().numpy()
    import ml_dtypes

    return tensor.detach().view(needed().int16).numpy().view(ml_dtypes.bfloat16)


def _tensor(array: Any) -> Any:
    """Return an array as a tensor that shares its memory."""
    torch = needed()
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


@cache
def _function() -> Any:
    """Return the differentiable function of PyTorch: a class, which only exists where PyTorch does."""
    torch = needed()

    differentiable: Any = torch.autograd.Function

    class KernelAttention(differentiable):
        @staticmethod
        def forward(
            ctx: Any, query: Any, key: Any, value: Any, bias: Any, sink: Any, options: Any, needs: bool
        ) -> Any:
            arrays = [_shared(x) for x in (query, key, value)]
            named = {
                name: _shared(x) if isinstance(x, torch.Tensor) else x
                for name, x in (("bias", bias), ("sink", sink))
            }
            if not needs:
                return _tensor(attention_of_arrays(*arrays, **named, **options))
            wanted = [name for name, needed in zip(INPUTS, ctx.needs_input_grad, strict=False) if needed]
            context, ctx.pullback = attention_vjp(*arrays, **named, **options, wanted=wanted)
            ctx.save_for_backward(
                *(x for x in (query, key, value, bias, sink) if isinstance(x, torch.Tensor))
            )
            return _tensor(context)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            if torch.is_grad_enabled():
                _check.fail("regard.torch.attention has no second derivatives: create_graph must be False.")
            _ = ctx.saved_tensors  # raises if one has been changed since
            of = ctx.pullback(_shared(gradient))
            found = zip(
                (of.queries, of.keys, of.values, of.bias, of.sink), ctx.needs_input_grad, strict=False
            )
            return *(_tensor(array) if needed else None for array, needed in found), None, None

    return KernelAttention
