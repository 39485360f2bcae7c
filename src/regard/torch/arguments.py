"""What functions of PyTorch and of Transformers that attend are called with, in the terms of regard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.mask import Mask, causal

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

__all__ = [
    *("Arguments", "as_array", "as_visible", "is_bool", "is_compiled", "needed"),
    *("of_interface", "of_sdpa", "with_globals"),
]

Array = NDArray[Any]


def needed() -> Any:
    """Return PyTorch, or raise with the command that installs it."""
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            "regard.torch needs PyTorch: pip install 'regard[torch]'", name="torch"
        ) from None
    return torch


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call: tensors query (..., n, d), key (..., m, d), value (..., m, e), and options.

    Masks and biases are tensors or regard's; a mask of bools shows where True, one of numbers is added.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Any = None
    bias: Any = None
    scale: float | None = None
    softcap: float | None = None
    sink: Any = None
    dropout: float = 0.0


def of_sdpa(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Arguments:
    """Read the arguments of PyTorch's scaled_dot_product_attention, by their names there."""
    mask = causal("start") if is_causal else attn_mask
    return Arguments(query, key, value, mask, scale=scale, dropout=dropout_p)


def of_interface(
    module: Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any = None,
    *,
    eager: bool = False,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **others: Any,
) -> Arguments:
    """Read the arguments of an attention function of Transformers, by their names there.

    Windows are in its masks already. No mask means causal attention for all but eager functions, as in its sdpa.
    """
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    attention_mask = getattr(attention_mask, "regard_mask", attention_mask)
    if attention_mask is None and is_causal and not eager and query.shape[-2] > 1:
        attention_mask = causal("start")
    if not (attention_mask is None or isinstance(attention_mask, Mask) or hasattr(attention_mask, "numpy")):
        _check.fail(f"the mask is a {type(attention_mask).__name__}", kind=TypeError)
    sink = getattr(module, "sinks", None) if s_aux is None else s_aux
    options = (attention_mask, position_bias, scaling, softcap, None if sink is None else sink.reshape(-1))
    return Arguments(query, key, value, *options, float(dropout))


def as_array(tensor: Tensor) -> Array:
    """Return a tensor on a CPU as an array that shares its memory, and any other one, or half precision, as a copy."""
    tensor = tensor.detach().cpu()
    array: Array = (tensor.float() if tensor.is_floating_point() and tensor.itemsize < 4 else tensor).numpy()
    return array


def with_globals(function: Any, names: dict[str, Any]) -> Any:
    """Return a function of PyTorch that finds other objects by these global names, and no overrides of its own."""
    names = {**function.__globals__, **names, "has_torch_function": lambda arguments: False}
    copy = type(function)(function.__code__, names, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def is_bool(option: Any) -> bool:
    """Return whether a mask or bias is an array of bools."""
    return isinstance(option, np.ndarray) and option.dtype == np.bool_


def as_visible(array: Array, lowest: float) -> Array:
    """Return bools if what is added to the scores is 0 or hides, and a copy of the array otherwise.

    Where all keys of a query are hidden by the lowest number, a softmax is uniform.
    """
    if array.dtype == np.bool_:
        return array.copy()
    hidden = array <= lowest
    if not hidden.all(-1).any() and (hidden | (array == 0)).all():
        return ~hidden
    floats = array.astype(np.float32, copy=array.dtype != np.float64)
    floats[hidden & np.isfinite(floats)] = np.finfo(floats.dtype).min
    return floats


def is_compiled(module: Module) -> bool:
    """Return whether a module runs as a compiled graph."""
    return (
        type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None
    )
