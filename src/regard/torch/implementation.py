"""regard's kernel in the place of PyTorch's in models that exist: those of Transformers, and any other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Literal

from regard import _check
from regard.mask import Mask, as_mask, window
from regard.torch.arguments import Arguments, needed, of_interface, of_sdpa, with_globals
from regard.torch.computing import attention, refusal

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["register", "replacing"]

Otherwise = Literal["refuse", "pytorch"]
ABOUT_A_TENSOR = (
    "__get__",
    "__len__",
    "dim",
    "size",
    "stride",
    "is_floating_point",
)  # functions that read no numbers
Ends = tuple[int | None, int | None]  # the least and the largest visible distance of a key from a query


@contextmanager
def replacing(*, otherwise: Otherwise = "refuse") -> Iterator[None]:
    """Compute PyTorch's ``scaled_dot_product_attention`` with regard's kernel inside the block, in this thread.

    This includes calls inside ``nn.MultiheadAttention`` without weights and of functions that were imported by name,
    not calls in graphs that are compiled.

    Parameters
    ----------
    otherwise : {"refuse", "pytorch"}
        What becomes of calls that regard can't compute, those with dropout or on other devices: an error, or PyTorch
        computes them.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError, TypeError
        From inside the model, for calls that are refused.

    Examples
    --------
    >>> import torch, regard.torch
    >>> x = torch.ones(1, 2, 3)
    >>> with regard.torch.replacing():
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x)
    tensor([[[1., 1., 1.],
             [1., 1., 1.]]])
    """
    with _mode()(_check.choice("otherwise", otherwise, ("refuse", "pytorch"))):
        yield


def register(*, otherwise: Otherwise = "refuse") -> None:
    """Let models of Transformers take ``attn_implementation="regard"``.

    Softcap, sinks, windows and padding are computed without an n x m array. Masks that a model composes in other ways
    are arrays of bools, as for PyTorch.

    Parameters
    ----------
    otherwise : {"refuse", "pytorch"}
        What becomes of calls that regard can't compute, those with dropout or on other devices: an error, or
        Transformers' "sdpa" computes them.

    Raises
    ------
    ModuleNotFoundError
        If Transformers is not installed.

    Examples
    --------
    >>> import regard.torch
    >>> regard.torch.register()
    >>> from transformers import ViTConfig, ViTModel
    >>> model = ViTModel(ViTConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, image_size=16)).eval()
    >>> model.set_attn_implementation("regard")
    """
    _check.choice("otherwise", otherwise, ("refuse", "pytorch"))
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register("regard", partial(_forward, otherwise))
    AttentionMaskInterface.register("regard", _mask)


def _computed(given: Arguments, otherwise: Otherwise, original: Callable[[], Any]) -> Any:
    """Compute a call with regard; where it can't, raise with the reason or call the original."""
    reason = _refusal(given)
    if reason and otherwise == "pytorch":
        return original()
    if reason:
        _check.fail(reason, hint='otherwise="pytorch" leaves such calls to PyTorch')
    options = {"scale": given.scale, "softcap": given.softcap, "sink": given.sink}
    mask, bias = given.mask, given.bias
    if mask is not None and not isinstance(mask, Mask) and mask.is_floating_point():
        mask, bias = None, mask if bias is None else bias + mask
    return attention(given.query, given.key, given.value, mask=mask, bias=bias, **options)


def _refusal(given: Arguments) -> str:
    if given.dropout:
        return f"regard drops no weights, so dropout must be 0. Got {given.dropout} instead."
    tensors = {"query": given.query, "key": given.key, "value": given.value}
    return next(filter(None, (refusal(name, tensor) for name, tensor in tensors.items())), "")


@cache
def _mode() -> type:
    """Return the mode of PyTorch in which this thread's calls are replaced."""
    torch = needed()

    mode: Any = torch.overrides.TorchFunctionMode

    class Replacing(mode):
        def __init__(self, otherwise: Otherwise) -> None:
            super().__init__()
            self.otherwise = otherwise

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name, options = getattr(function, "__name__", ""), kwargs or {}
            if name == "scaled_dot_product_attention":
                return self.compute(function, *args, **options)
            if name == "multi_head_attention_forward" and not options.get("need_weights", True):
                inner = {
                    "scaled_dot_product_attention": partial(
                        self.compute, torch.nn.functional.scaled_dot_product_attention
                    )
                }
                function = with_globals(function, inner)
            return function(*args, **options)

        def compute(self, function: Any, *args: Any, **options: Any) -> Any:
            return _computed(of_sdpa(*args, **options), self.otherwise, lambda: function(*args, **options))

    return Replacing


def _forward(otherwise: Otherwise, module: Any, *arrays: Any, **options: Any) -> Any:
    """Compute attention as Transformers calls it."""

    def original() -> Any:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, *arrays, **options)[0].transpose(1, 2)

    given = of_interface(module, *arrays, **options)
    return _computed(given, otherwise, original).transpose(1, 2).contiguous(), None


def _mask(
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Any,
    attention_mask: Tensor | None = None,
    **options: Any,
) -> Any:
    """Return a mask as Transformers asks for it: None where it may, a `_LazyMask`, or bools (batch, 1, n, m)."""
    from transformers import masking_utils as masking

    lengths = {"batch_size": batch_size, "q_length": q_length, "kv_length": kv_length}
    on_cpu = str(options.get("device", "cpu")) == "cpu" and not needed().compiler.is_compiling()
    ends = _ends(mask_function, masking) if on_cpu else None
    if ends is None:
        functions = {"mask_function": mask_function, "attention_mask": attention_mask}
        return masking.sdpa_mask(**lengths, q_offset=q_offset, kv_offset=kv_offset, **functions, **options)
    visible = masking.prepare_padding_mask(attention_mask, kv_length, kv_offset)
    padding, offset = _padding(visible, kv_offset, kv_length), int(q_offset) - kv_offset
    band = _band(ends, offset, q_length, kv_length)
    skip = "allow_is_causal_skip" if ends[1] == 0 else "allow_is_bidirectional_skip"
    plain = band is None or (ends == (None, 0) and q_length == kv_length and not offset)
    if padding is None and plain and options.get(skip, skip == "allow_is_causal_skip"):
        return None
    masks = [mask for mask in (band, padding) if mask is not None]
    return _lazy()(reduce(and_, masks, window(None, None, align="end")), (batch_size, 1, q_length, kv_length))


@cache
def _lazy() -> Any:
    """Return the type of masks that are objects for regard, and tensors for the code of models."""
    torch = needed()
    tensor: Any = torch.Tensor

    class LazyMask(tensor):
        """A tensor of bools (batch, 1, n, m) without memory, which is filled where anything is computed with it."""

        regard_mask: Mask

        def __new__(cls, mask: Mask, shape: tuple[int, ...]) -> Any:
            lazy = torch.ones((), dtype=torch.bool).expand(shape).as_subclass(cls)
            lazy.regard_mask = mask
            return lazy

        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(function, "__name__", "") in ABOUT_A_TENSOR:
                return super().__torch_function__(function, types, args, kwargs or {})
            filled = [cls.filled(x) for x in args]
            return function(*filled, **{name: cls.filled(x) for name, x in (kwargs or {}).items()})

        @staticmethod
        def filled(given: Any) -> Any:
            if not isinstance(given, LazyMask):
                return given
            dense = given.regard_mask.dense(*given.shape[-2:])
            return torch.from_numpy(dense).expand(given.shape)

    return LazyMask


def _ends(function: Any, masking: Any) -> Ends | None:
    """Return the visible distances of a mask function of Transformers, None where it is more than a band."""
    if function in (masking.causal_mask_function, masking.bidirectional_mask_function):
        return None, 0 if function is masking.causal_mask_function else None
    inner, origin = inspect.getclosurevars(function).nonlocals, function.__qualname__.partition(".")[0]
    if function.__module__ != masking.__name__:
        return None
    if origin == "sliding_window_overlay":
        return 1 - inner["sliding_window"], None
    if origin == "sliding_window_bidirectional_overlay":
        return -inner["sliding_window"], inner["sliding_window"]
    parts = [_ends(part, masking) for part in inner["mask_functions"]] if origin == "and_masks" else [None]
    lows, highs = zip(*(part or ("unknown",) * 2 for part in parts), strict=True)
    if "unknown" in lows:
        return None
    return max((x for x in lows if x is not None), default=None), min(
        (x for x in highs if x is not None), default=None
    )


def _padding(visible: Tensor | None, first: int, length: int) -> Mask | None:
    """Return which keys are no padding; None where none is."""
    if visible is None or (visible := visible[:, first : first + length].bool()).all():
        return None
    return as_mask(visible.numpy()[:, None, None, :])


def _band(ends: Ends, offset: int, n: int, m: int) -> Mask | None:
    """Return the visible distances as a mask, for query 0 at key `offset`; None where they hide nothing."""
    low, high = (None if end is None else end + offset for end in ends)
    if (low is None or low <= 1 - n) and (high is None or high >= m - 1):
        return None
    return window(None if ends[0] is None else -ends[0], ends[1], align="end" if offset == m - n else offset)
