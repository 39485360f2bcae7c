"""Attention for NumPy: scores, weights, context."""

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
