"""Attention for NumPy: scores, weights, context."""

from regard import _start as _start  # isort: skip (before all other modules)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard import linear, mask, position, scores, weights
from regard._attention import Gradients, Partial, attention, attention_vjp, merge, partial, partial_vjp
from regard._version import __version__ as __version__
from regard.cache import KVCache
from regard.context import Attention, attend, named_scope, record

if TYPE_CHECKING:
    from regard.show.explanation import explain

__all__ = [
    "Attention",
    "Gradients",
    "KVCache",
    "Partial",
    "attend",
    "attention",
    "attention_vjp",
    "explain",
    "linear",
    "mask",
    "merge",
    "named_scope",
    "partial",
    "partial_vjp",
    "position",
    "record",
    "scores",
    "weights",
]


def __getattr__(name: str) -> Any:
    """Import heavier modules when they are first used, so that `import regard` stays light."""
    if name in ("attribution", "dask", "nn", "outofcore", "seq2seq", "show", "torch"):
        return import_module(f"regard.{name}")
    if name == "explain":
        return import_module("regard.show.explanation").explain
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the lazily imported names, too."""
    return sorted(
        {*globals(), "attribution", "dask", "explain", "nn", "outofcore", "seq2seq", "show", "torch"}
    )
