"""Attention for NumPy: scores, weights, context."""

from importlib import import_module
from types import ModuleType

from regard import mask, position, scores, weights
from regard.attention import Gradients, Partial, attention, attention_vjp, merge, partial
from regard.cache import KVCache
from regard.context import Attention, attend, named_scope, record

__version__ = "0.1.0"

__all__ = [
    "Attention",
    "Gradients",
    "KVCache",
    "Partial",
    "attend",
    "attention",
    "attention_vjp",
    "mask",
    "merge",
    "named_scope",
    "partial",
    "position",
    "record",
    "scores",
    "weights",
]


def __getattr__(name: str) -> ModuleType:
    """Import a subpackage when it is first used, so that `import regard` stays light."""
    if name in ("estimators", "nn", "seq2seq", "show"):
        return import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List what `__getattr__` finds, too."""
    return sorted({*globals(), "estimators", "nn", "seq2seq", "show"})
