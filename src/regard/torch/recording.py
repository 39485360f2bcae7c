"""Recording the attention of any model of PyTorch, while it runs as ever."""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._recorded import RecordedCall, RecordedCalls
from regard.mask import Mask, as_mask
from regard.torch.arguments import Arguments, as_array, as_visible, is_bool, is_compiled, needed
from regard.torch.doors import Compare, open_for

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

__all__ = ["record"]

Array = NDArray[Any]

KEEP = ("queries and keys", "values too", "weights")
LIMIT = 4 << 30  # bytes
FAR = 1e-3  # an error above it is reported
SEEMS_TO_ATTEND = re.compile(
    r"att(entio)?n\d*$|att(entio)?n\w* ", re.IGNORECASE
)  # a class, and the end of a path
# Of tensors without numbers, and of shapes.
UNREADABLE = (RuntimeError, TypeError, ValueError, NotImplementedError)


@contextmanager
def record(
    model: Module | None = None,
    *,
    keep: str = KEEP[0],
    only: str | Iterable[str] | None = None,
    limit: int = LIMIT,
) -> Iterator[RecordedCalls]:
    """Record each attention that a model of PyTorch computes inside the block, without changing the model.

    These are the calls of ``scaled_dot_product_attention`` and of ``nn.MultiheadAttention``, and all attention of
    Transformers' models, whichever ``attn_implementation`` they have. Compiled graphs, and a softmax that a model
    writes by hand, can't be seen: a warning names the modules that are called attention and recorded nothing.

    Parameters
    ----------
    model : torch.nn.Module, optional
        The model whose modules give the calls their names; by default, the outermost module that is called.
    keep : {"queries and keys", "values too", "weights"}
        What is kept of each call, as copies in NumPy, half precision as float32. Weights (..., n, m) follow from
        queries and keys when asked for; "weights" computes and keeps them at once, too.
    only : str or several of them, optional
        Names of modules, or patterns such as ``"encoder.*"``; the calls of others are left out.
    limit : int
        Bytes that the block may keep.

    Returns
    -------
    context manager of RecordedCalls
        A list of `RecordedCall`, which `regard.show.page` draws. Each has its ``error``, the largest distance of the
        model's output from regard's context; of more than 128 queries, the first and the last 64 are compared.

    Raises
    ------
    ModuleNotFoundError
        If PyTorch is not installed.
    ValueError, TypeError
        For invalid options; and from inside the model, before more than `limit` would be kept.

    Warns
    -----
    UserWarning
        If a call differs by more than 0.001, or if modules that seem to attend recorded nothing.

    Examples
    --------
    >>> import torch, regard.torch
    >>> model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.zeros(1, 5, 8)
    >>> with regard.torch.record() as recorded:
    ...     _ = model(x, x, x)
    >>> recorded[0].weights.shape
    (1, 2, 5, 5)
    """
    limit = _check.integer("limit", limit, least=0)
    recorder = ModelRecorder(model, _check.choice("keep", keep, KEEP), only, limit)
    with open_for(recorder):
        yield recorder.calls
    recorder.calls.unseen = recorder.unseen()
    for note in recorder.calls.notes():
        warnings.warn(note, stacklevel=3)


class LimitReached(ValueError):
    """A block would keep more than its limit."""


class ModelRecorder:
    """An open block: what it keeps, and the modules that are running."""

    def __init__(self, model: Module | None, keep: str, only: str | Iterable[str] | None, limit: int) -> None:
        self.keep, self.limit, self.used, self.step = keep, limit, 0, 0
        self.only = ["*"] if only is None else [only] if isinstance(only, str) else list(only)
        self.calls = RecordedCalls()
        self.paths: dict[Module, str] = {}
        self.running: list[Module] = []
        self.ran: dict[Module, None] = {}
        self.reasons: dict[str, str] = {}  # why a call was not recorded, by the path of its module
        self.attended: set[str] = set()  # paths of modules that made calls
        self.options: dict[int, tuple[Any, Any, Array]] = {}  # arrays of masks, which layers share
        if model is not None:
            self._find_paths(model)

    def _find_paths(self, model: Module) -> None:
        for path, module in model.named_modules():
            self.paths.setdefault(module, path)

    def enter(self, module: Module, arguments: Any) -> None:
        """Note that a module begins; a hook of PyTorch."""
        if not self.running:
            self.step += 1
            if module not in self.paths:
                self._find_paths(module)
        self.running.append(module)
        self.ran[module] = None

    def leave(self, module: Module, arguments: Any, output: Any) -> None:
        """Note that a module has ended, by an error, too; a hook of PyTorch."""
        while module in self.running and self.running.pop() is not module:
            pass

    def add(self, read: Callable[[], Arguments], compare: Compare, module: Module | None = None) -> None:
        """Record a call, by default of the module that is running; `compare` measures its distance from the output."""
        module = self.running[-1] if module is None and self.running else module
        path = "" if module is None else self.paths.get(module, "")
        name = path or ("" if module is None else type(module).__name__)
        if module is not None:
            self.attended.add(path)
        if not any(fnmatchcase(name, pattern) for pattern in self.only):
            return
        try:
            self._keep(name, read(), compare)
        except UNREADABLE as error:
            if isinstance(error, LimitReached):
                raise
            self.attended.discard(path)
            self.reasons[path] = (str(error).splitlines() or [type(error).__name__])[0]

    def _keep(self, name: str, arguments: Arguments, compare: Compare) -> None:
        call, values = self._copied(name, arguments), as_array(arguments.value)
        if not call.dropout:
            with np.errstate(all="ignore"):
                call = replace(call, error=compare(call, values))
            _warn_of(call, values)
        if self.keep == KEEP[1]:
            self._reserve(name, values.nbytes)
            call = replace(call, values=values.copy())
        self.calls.append(call)
        if self.keep == KEEP[2]:
            self._reserve(name, call.pairs * 4)
            _ = call.weights

    def _reserve(self, name: str, count: int) -> None:
        """Raise before more than the limit would be kept."""
        if self.used + count > self.limit:
            rule = f"record keeps at most {self.limit:,} bytes: {name or 'a call'} needs {count:,} after {self.used:,}."
            hint = 'only="..." records some modules, limit= sets another limit'
            _check.fail(rule, hint=hint, kind=LimitReached)
        self.used += count

    def _copied(self, name: str, given: Arguments) -> RecordedCall:
        self._reserve(name, sum(x.numel() * max(4, x.itemsize) for x in (given.query, given.key)))
        mask, bias = self._visibility(name, given)
        return RecordedCall(
            queries=as_array(given.query).copy(),
            keys=as_array(given.key).copy(),
            mask=mask,
            bias=bias,
            scale=None if given.scale is None else float(given.scale),
            softcap=given.softcap,
            sink=None if given.sink is None else as_array(needed().as_tensor(given.sink)).copy(),
            name=name,
            step=max(1, self.step),
            dropout=given.dropout,
            dtype=str(given.query.dtype).removeprefix("torch."),
        )

    def _visibility(self, name: str, given: Arguments) -> tuple[Mask | None, Any]:
        """Return which keys are visible, and what is added to the scores."""
        options = [x for x in (given.mask, given.bias) if x is not None]
        arrays = [self._option(name, x) if hasattr(x, "is_inference") else x for x in options]
        masks = [as_mask(x) for x in arrays if isinstance(x, Mask) or is_bool(x)]
        biases = [x for x in arrays if not (isinstance(x, Mask) or is_bool(x))]
        return reduce(and_, masks) if masks else None, reduce(np.add, biases) if biases else None

    def _option(self, name: str, tensor: Tensor) -> Array:
        """Return a mask or bias as an array, the same one for all layers that share it."""
        version = None if tensor.is_inference() else tensor._version
        known = self.options.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1] == version:
            return known[2]
        stored = tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]
        self._reserve(name, stored.numel() * max(1, stored.itemsize))
        lowest = needed().finfo(tensor.dtype).min if tensor.is_floating_point() else 0
        array = as_visible(as_array(stored), lowest)
        self.options[id(tensor)] = weakref.ref(tensor), version, array
        return array

    def unseen(self) -> dict[str, str]:
        """Return the modules that seem to attend and recorded nothing: the outermost ones, with the reason if known."""
        paths = dict(self.reasons)
        compiled = [inner for module in self.paths if is_compiled(module) for inner in module.modules()]
        for module in [*self.ran, *compiled]:
            path = self.paths.get(module, "")
            if SEEMS_TO_ATTEND.search(f"{type(module).__name__} {path}"):
                paths.setdefault(path, "no call that can be seen")
        left = {
            p: why
            for p, why in paths.items()
            if not any(_within(p, a) or _within(a, p) for a in self.attended)
        }
        return {
            p or "the model": why for p, why in left.items() if not any(_within(p, q) for q in left if q != p)
        }


def _within(path: str, other: str) -> bool:
    return not other or path == other or path.startswith(f"{other}.")


def _warn_of(call: RecordedCall, values: Array) -> None:
    """Warn of a call that regard computes otherwise than the model, beyond the rounding of its type."""
    rounding = {"float16": 2**-6, "bfloat16": 2**-3}.get(call.dtype, 0.0)
    if not call.error <= max(FAR, rounding) * max(1.0, float(np.abs(values).max(initial=0.0))):
        warnings.warn(f"the weights of {call.label}, are not those of the model", stacklevel=2)
