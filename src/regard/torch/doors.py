"""Where the attention of PyTorch and Transformers is seen: a mode, hooks of modules, attention functions by name."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._recorded import RecordedCall, expected_context
from regard.torch.arguments import Arguments, as_array, needed, of_interface, of_sdpa, with_globals
from regard.torch.computing import attention

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

__all__ = ["Compare", "Recorder", "open_for"]

Array = NDArray[Any]
Compare = Callable[
    [RecordedCall, Array], float
]  # the distance of a call with these values from the model's output


class Recorder(Protocol):
    """What is told of calls and of the modules that make them."""

    def add(self, read: Callable[[], Arguments], compare: Compare, module: Module | None = None) -> None:
        """Record a call, by default of the module that is running."""

    def enter(self, module: Module, arguments: Any) -> None:
        """Note that a module begins."""

    def leave(self, module: Module, arguments: Any, output: Any) -> None:
        """Note that a module has ended, by an error, too."""


_recorders: ContextVar[tuple[Recorder, ...]] = ContextVar("regard_torch_recorders", default=())
_recorded_above: ContextVar[bool] = ContextVar("regard_torch_recorded_above", default=False)


@contextmanager
def open_for(recorder: Recorder) -> Iterator[None]:
    """Tell a recorder of all calls of this thread; of nested blocks the outermost one sees the calls for all."""
    token = _recorders.set((*_recorders.get(), recorder))
    try:
        with (
            _mode()() if len(_recorders.get()) == 1 else nullcontext(),
            _interfaces_seen(),
            _hooked(recorder),
        ):
            yield
    finally:
        _recorders.reset(token)


def _distance(output: Tensor, call: RecordedCall, values: Array) -> float:
    """Return the largest distance of an output (..., n, e) from regard's context."""
    computed = as_array(output)
    parts = expected_context(call, values)
    return _largest([np.abs(computed[..., rows, :] - context).max(initial=0) for rows, context in parts])


def _largest(distances: list[Any]) -> float:
    """Return the largest distance, NaN if there is one."""
    return float(np.max(distances, initial=0))


def _projected_distance(given: dict[str, Any], output: Tensor, call: RecordedCall, values: Array) -> float:
    """Return the largest distance of an output (n, ...) of multi-head attention from regard's context, projected."""
    torch = needed()
    weight, bias = given["out_proj_weight"], given["out_proj_bias"]
    distances = []
    with torch.no_grad():
        for rows, part in expected_context(call, values):
            context = torch.from_numpy(part).to(weight).permute(2, 0, 1, 3).flatten(2)
            expected = torch.nn.functional.linear(context, weight, bias)
            distances.append(float((output[rows] - expected.view_as(output[rows])).abs().max()))
    return _largest(distances)


class _Seen(Exception):
    """Ends a run of multi-head attention, whose attention has been called with these arguments."""


def _multi_head(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run multi-head attention, and once more up to its attention, to record what that gets.

    Both are copies of PyTorch's function with globals of their own, and share their projections.
    """
    inner = {
        name: _once(part)
        for name, part in vars(sys.modules[function.__module__]).items()
        if "_in_proj" in name
    }
    output = with_globals(function, inner)(*args, **kwargs)
    given = inspect.signature(function).bind(*args, **kwargs).arguments
    dropout = float(given["dropout_p"]) if given.get("training", True) else 0.0

    def see(*arguments: Any) -> None:
        raise _Seen(arguments)

    def read() -> Arguments:
        attending = with_globals(function, {**inner, "scaled_dot_product_attention": see})
        try:
            attending(**{**given, "need_weights": False, "training": False})
        except _Seen as seen:
            return replace(of_sdpa(*seen.args[0]), dropout=dropout)
        _check.fail("this version of multi-head attention can't be read", kind=TypeError)

    for recorder in _recorders.get():
        recorder.add(read, partial(_projected_distance, given, output[0]))
    return output


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns its first result whenever it is called again."""
    results: list[Any] = []

    def call(*args: Any) -> Any:
        if not results:
            results.append(function(*args))
        return results[0]

    return call


def _scaled_dot_product(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    output = function(*args, **kwargs)
    for recorder in _recorders.get():
        recorder.add(partial(of_sdpa, *args, **kwargs), partial(_distance, output))
    return output


def _of_regard(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    output = function(*args, **kwargs)
    options = {name: kwargs[name] for name in ("mask", "bias", "scale", "softcap", "sink")}
    for recorder in _recorders.get():
        recorder.add(partial(Arguments, *args, **options), partial(_distance, output))
    return output


_SEEN = {
    "scaled_dot_product_attention": _scaled_dot_product,
    "multi_head_attention_forward": _multi_head,
    attention.__name__: _of_regard,
}


@cache
def _mode() -> type:
    """Return the mode of PyTorch in which this thread's calls are recorded."""
    torch = needed()

    mode: Any = torch.overrides.TorchFunctionMode

    class Recording(mode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            record_call = _SEEN.get(getattr(function, "__name__", ""))
            if record_call is None or _recorded_above.get() or torch.compiler.is_compiling():
                return function(*args, **(kwargs or {}))
            return record_call(function, args, kwargs or {})

    return Recording


@contextmanager
def _hooked(recorder: Recorder) -> Iterator[None]:
    module = needed().nn.modules.module
    handles = (
        module.register_module_forward_pre_hook(_here(recorder, recorder.enter)),
        module.register_module_forward_hook(_here(recorder, recorder.leave), always_call=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _here(recorder: Recorder, hook: Callable[..., None]) -> Callable[..., None]:
    """Return a hook that is told of this thread's modules only."""

    is_compiling = needed().compiler.is_compiling

    def call(*arguments: Any) -> None:
        if not is_compiling() and recorder in _recorders.get():
            hook(*arguments)

    return call


_lock = threading.Lock()
_replaced: list[Any] = []  # once for each open block of any thread: the method that Transformers had before


@contextmanager
def _interfaces_seen() -> Iterator[None]:
    """Let Transformers, where it has been imported, get functions whose calls are recorded."""
    interface: Any = getattr(sys.modules.get("transformers.modeling_utils"), "AttentionInterface", None)
    if not hasattr(interface, "get_interface"):
        yield
        return
    with _lock:
        original = _replaced[0] if _replaced else interface.get_interface
        _replaced.append(original)
        interface.get_interface = lambda self, name, default: partial(
            _interface, original(self, name, default), default
        )
    try:
        yield
    finally:
        with _lock:
            _replaced.pop()
            if not _replaced:
                interface.get_interface = original


def _interface(
    function: Callable[..., Any], eager: Callable[..., Any], module: Module, *args: Any, **options: Any
) -> Any:
    """Call an attention function of Transformers, and record it."""
    if needed().compiler.is_compiling() or not _recorders.get() or _recorded_above.get():
        return function(module, *args, **options)
    token = _recorded_above.set(True)
    try:
        output = function(module, *args, **options)
    finally:
        _recorded_above.reset(token)
    read = partial(of_interface, module, *args, eager=function is eager, **options)
    for recorder in _recorders.get():
        recorder.add(read, partial(_distance, output[0].transpose(1, 2)), module)
    return output
