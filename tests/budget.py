"""The error budget of law 1.

    |error of context_ie| <= eps * (S_i * (d + 4) + min(m, 256) + m / 64 + 4) * sum_j w_ij |v_je|
                             + tiny * (m + 1 + sum_j |v_je|)

against exact arithmetic, over the visible keys j, with S_i = max_j scale * sum |q_i||k_j|: the largest sum of absolute
terms behind a visible logit of row i. Another score takes its own sum of absolute terms, a bias adds its absolute
value, and d is the number of terms of the longest sum (`oracle.Score` has both).

The bound holds for the worst case, where all rounding errors have one sign. A sum of k numbers, each rounded by at most
eps / 2, is wrong by at most eps * k / 2 of the sum of absolute values. Hence d eps / 2 for a logit, which moves a
weight and the sum of weights alike; and for numerator and denominator 256 eps / 2 each, since the kernels sum at most
256 keys before they add them to the running sum, and eps / 2 for each block added. Blocks have 64 keys or more up to
d, e = 256.

`tiny` is the smallest positive number, 2^-149 in float32. Numbers below the normal range are multiples of it: a weight
is rounded twice, and so is each product of a weight and a value.

bfloat16 may be multiplied in pairs as it is stored. The weights are then rounded to it, each by half an eps = 2^-8, and
weights, values and products below the normal range count as 0.

A step two that isn't smooth in proportion (sparsemax, entmax: an error of a logit moves a weight by as much, however
small the weight is) replaces the weighted sum by the plain sum of |v_je| over the visible keys of row i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
from numpy.typing import NDArray

from regard.weights import local_m

F64 = NDArray[np.float64]


def allowance(magnitude: F64, terms: int, weights: F64, visible: Any, size: F64, dtype: Any) -> F64:
    """The largest error allowed, (..., n, e), from magnitudes, weights and visible pairs (..., n, m), and |values|."""
    m, info = magnitude.shape[-1], np.finfo(dtype)
    largest = magnitude.max(axis=-1, initial=0.0)[..., None]  # S_i
    rounding = float(info.eps) * (largest * (terms + 4) + min(m, 256) + m / 64 + 4) * (weights @ size)
    underflow = float(info.smallest_subnormal) * (m + 1 + np.asarray(visible, np.float64) @ size)
    return np.asarray(rounding + underflow, dtype=np.float64)


def absolute_values(values: Any, lead: tuple[int, ...]) -> F64:
    """|values| with its heads repeated to the leading dimensions of the result."""
    size = np.abs(np.asarray(values, dtype=np.float64))
    if size.ndim > 2 and lead and 1 < size.shape[-3] < lead[-1]:
        size = np.repeat(size, lead[-1] // size.shape[-3], axis=-3)
    return size


def pairs_of_bfloat16(weights: F64, visible: Any, size: F64, options: dict[str, Any], d: int) -> Any:
    """The further allowance for bfloat16 where it is multiplied in pairs, which rounds the weights.

    That is so for softmax of dot products of an even number of terms.
    """
    if not (
        options.get("score", "scaled_dot") in ("dot", "scaled_dot")
        and (options.get("normalize", "softmax") == "softmax" or isinstance(options["normalize"], local_m))
        and d % 2 == 0
    ):
        return 0.0
    normal = float(np.finfo(np.float32).smallest_normal)
    return weights @ size * 2.0**-8 + normal * (
        weights.shape[-1] + 1 + np.asarray(visible, np.float64) @ size
    )


def of_answer(answer: oracle.Answer, values: Any, dtype: Any, *, proportional: bool = True) -> F64:
    """The allowance for a context computed in `dtype` (float32 or float64) whose exact answer is `answer`."""
    size, visible = absolute_values(values, answer.context.shape[:-2]), answer.logits > -np.inf
    share = answer.weights if proportional else visible.astype(np.float64)
    return allowance(answer.magnitude, answer.terms, share, visible, size, dtype)


def of_dot(queries: Any, keys: Any, values: Any, weights: F64, scale: float, dtype: Any) -> F64:
    """The allowance for a dot product score, from the float64 weights, for shapes too large for the oracle."""
    absolute = (np.abs(np.asarray(x, dtype=np.float64)) for x in (queries, keys))
    q, k = absolute
    size = absolute_values(values, weights.shape[:-2])
    k = absolute_values(k, weights.shape[:-2])
    magnitude = abs(scale) * (q @ np.swapaxes(k, -1, -2)) * (weights > 0)
    return allowance(magnitude, q.shape[-1], weights, weights > 0, size, dtype)


def assert_within(actual: Any, exact: F64, allowed: F64, what: str = "") -> None:
    """Every entry of `actual` is within `allowed` of `exact`; the message has the worst use of the budget."""
    assert actual.shape == exact.shape, f"{what}: {actual.shape} instead of {exact.shape}"
    error = np.abs(np.asarray(actual, dtype=np.float64) - exact)
    bad = ~(error <= allowed)  # a NaN is bad
    if bad.any():
        worst = float((error / np.maximum(allowed, 1e-300))[bad].max())
        raise AssertionError(f"{what}: {int(bad.sum())} of {bad.size} entries use up to {worst:.3g} budgets")
