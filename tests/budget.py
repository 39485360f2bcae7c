"""The error budget of law 1.

    |error of context_ie| <= eps * (S_i * (d + 4) + min(m, 256) + m / 64 + 4) * sum_j w_ij |v_je|

against exact arithmetic, with S_i = max_j scale * sum |q_i||k_j|: the largest sum of absolute terms behind a visible
logit of row i. Another score takes its own sum of absolute terms, a bias adds its absolute value, and d is the number
of terms of the longest sum (`oracle.Score` has both).

The bound holds for the worst case, where all rounding errors have one sign. A sum of k numbers, each rounded by at most
eps / 2, is wrong by at most eps * k / 2 of the sum of absolute values. Hence d eps / 2 for a logit, which moves a
weight and the sum of weights alike; and for numerator and denominator 256 eps / 2 each, since the kernels sum at most
256 keys before they add them to the running sum, and eps / 2 for each block added. Blocks have 64 keys or more up to
d, e = 256.

bfloat16 may be multiplied in pairs as it is stored. The weights are then rounded to it, each by half an eps = 2^-8.

A step two that isn't smooth in proportion (sparsemax, entmax: an error of a logit moves a weight by as much, however
small the weight is) replaces the weighted sum by the plain sum of |v_je| over the visible keys of row i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
from numpy.typing import NDArray

from regard.weights import local_p

F64 = NDArray[np.float64]


def allowance(magnitude: F64, terms: int, weighted_values: F64, eps: float, tiny: float = 0.0) -> F64:
    """The largest error allowed, (..., n, e), from (..., n, m) magnitudes and (..., n, e) weighted |values|."""
    m = magnitude.shape[-1]
    largest = magnitude.max(axis=-1, initial=0.0)[..., None]  # S_i
    bound = eps * (largest * (terms + 4) + min(m, 256) + m / 64 + 4) * weighted_values
    return np.asarray(bound + tiny * (m + 1), dtype=np.float64)  # numbers below the normal range lose digits


def absolute_values(values: Any, lead: tuple[int, ...]) -> F64:
    """|values| with its heads repeated to the leading dimensions of the result."""
    size = np.abs(np.asarray(values, dtype=np.float64))
    if size.ndim > 2 and lead and 1 < size.shape[-3] < lead[-1]:
        size = np.repeat(size, lead[-1] // size.shape[-3], axis=-3)
    return size


def rounded_weights(weighted_values: F64, options: dict[str, Any], d: int) -> F64:
    """The further allowance for bfloat16, from sum_j w_ij |v_je|: where pairs are multiplied, weights are rounded.

    That is so for softmax of dot products of an even number of terms.
    """
    pairs = (
        options.get("score", "scaled_dot") in ("dot", "scaled_dot")
        and not isinstance(options.get("normalize"), local_p)
        and options.get("normalize") not in ("sparsemax", "entmax15", "hard")
        and d % 2 == 0
    )
    return weighted_values * (2.0**-8 if pairs else 0.0)


def of_answer(answer: oracle.Answer, values: Any, dtype: Any, *, proportional: bool = True) -> F64:
    """The allowance for a context computed in `dtype` (float32 or float64) whose exact answer is `answer`."""
    size = absolute_values(values, answer.context.shape[:-2])
    share = answer.weights if proportional else np.where(answer.logits > -np.inf, 1.0, 0.0)
    info = np.finfo(dtype)
    return allowance(
        answer.magnitude, answer.terms, share @ size, float(info.eps), float(info.smallest_subnormal)
    )


def of_dot(queries: Any, keys: Any, values: Any, weights: F64, scale: float, dtype: Any) -> F64:
    """The allowance for a dot product score, from the float64 weights, for shapes too large for the oracle."""
    absolute = (np.abs(np.asarray(x, dtype=np.float64)) for x in (queries, keys))
    q, k = absolute
    size = absolute_values(values, weights.shape[:-2])
    k = absolute_values(k, weights.shape[:-2])
    magnitude = abs(scale) * (q @ np.swapaxes(k, -1, -2)) * (weights > 0)
    return allowance(magnitude, q.shape[-1], weights @ size, float(np.finfo(dtype).eps))


def assert_within(actual: Any, exact: F64, allowed: F64, what: str = "") -> None:
    """Every entry of `actual` is within `allowed` of `exact`; the message has the worst use of the budget."""
    assert actual.shape == exact.shape, f"{what}: {actual.shape} instead of {exact.shape}"
    error = np.abs(np.asarray(actual, dtype=np.float64) - exact)
    bad = ~(error <= allowed)  # a NaN is bad
    if bad.any():
        worst = float((error / np.maximum(allowed, 1e-300))[bad].max())
        raise AssertionError(f"{what}: {int(bad.sum())} of {bad.size} entries use up to {worst:.3g} budgets")
