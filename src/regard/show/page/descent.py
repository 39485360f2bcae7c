"""Gradient descent on query and key weights as `assets/learning.js` computes it: the losses of a chapter's example."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._attention import attention_vjp

__all__ = ["RULES", "losses"]

Array = NDArray[np.float64]

# Of the page, too; `spread` is the standard deviation of the numbers at the start. As nearly all starts do, this one
# learns with the scale, whatever d; as most do, without it not with d = 64.
RULES = {"rate": 0.5, "spread": 0.5, "steps": 40, "start": 48}
_WORD = (1 << 32) - 1


def losses(data: Mapping[str, Any], size: int, scale: float) -> list[float]:
    """Return the mean loss of all sentences at each step; `size`: the numbers d of queries and keys."""
    normal = _normals(int(RULES["start"]))
    value = np.array(data["value_weight"], np.float64)
    shape = len(value), size
    query, key = (np.array([next(normal) for _ in range(math.prod(shape))]).reshape(shape) for _ in range(2))
    mean = []
    for _ in range(int(RULES["steps"]) + 1):
        learned = [_learned(sentence, (query, key, value), scale) for sentence in data["sentences"]]
        loss, dquery, dkey = (sum(parts) / len(parts) for parts in zip(*learned, strict=True))
        query, key = query - RULES["rate"] * dquery, key - RULES["rate"] * dkey
        mean.append(float(loss))
    return mean


def _learned(
    sentence: Mapping[str, Any], weights: tuple[Array, Array, Array], scale: float
) -> tuple[float, Array, Array]:
    """Return the loss of one sentence and the gradients of both matrices."""
    words = np.array(sentence["words"], np.float64)
    asking = words[sentence["row"]][None]
    query, key, value = weights
    context, pullback = attention_vjp(asking @ query, words @ key, words @ value, scale=scale)
    error = context - np.array(sentence["target"], np.float64)
    gradients = pullback(error)
    return float((error**2).sum()) / 2, asking.T @ gradients.queries, words.T @ gradients.keys


def _normals(seed: int) -> Iterator[float]:
    """Draw normal numbers (Box and Muller)."""
    uniform = _uniforms(seed)
    while True:
        length = RULES["spread"] * math.sqrt(-2 * math.log(1 - next(uniform)))
        yield length * math.cos(2 * math.pi * next(uniform))


def _uniforms(seed: int) -> Iterator[float]:
    """Draw numbers from 0 to 1, those of `randomNumbers` in the page (mulberry32)."""
    state = seed
    while True:
        state = (state + 0x6D2B79F5) & _WORD
        mixed = (state ^ state >> 15) * (1 | state) & _WORD
        mixed ^= (mixed + (mixed ^ mixed >> 7) * (61 | mixed)) & _WORD
        yield (mixed ^ mixed >> 14) / 2**32
