"""Statistics of examples: means with intervals by resampling, and the correlation of ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check

__all__ = ["Measure", "bootstrap", "correlation"]


class Measure(NamedTuple):
    """A mean over rows: its value, its 95 % interval by a bootstrap over examples, and what permuted weights give."""

    value: float
    low: float
    high: float
    chance: float


def bootstrap(
    examples: Iterable[ArrayLike],
    *,
    chance: float = np.nan,
    samples: int = 1000,
    rng: int | np.random.Generator = 0,
) -> Measure:
    """Return the mean of the numbers of all examples, with its 95 % interval.

    Parameters
    ----------
    examples : iterable of arrays
        Numbers of each example, such as one for each output; NaN: left out.
    chance : float
        What permuted weights give, to be kept with the mean.
    samples : int
        Samples of the bootstrap, in each of which whole examples are drawn.
    rng : int or Generator
        Random numbers.

    Returns
    -------
    Measure
        The mean and its interval; NaN without a number.

    References
    ----------
    Efron 1979, "Bootstrap Methods: Another Look at the Jackknife".

    Examples
    --------
    >>> bootstrap([[1.0, 3.0], [2.0]]).value
    2.0
    """
    count, generator = _check.integer("samples", samples, 1), _check.generator("rng", rng)
    numbers = [_check.numeric("examples", each).astype(np.float64).ravel() for each in examples]
    kept = [each for each in (each[~np.isnan(each)] for each in numbers) if each.size]
    if not kept:
        return Measure(np.nan, np.nan, np.nan, chance)
    sums, sizes = np.array([each.sum() for each in kept]), np.array([each.size for each in kept])
    drawn = generator.integers(len(kept), size=(count, len(kept)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    return Measure(float(sums.sum() / sizes.sum()), float(low), float(high), chance)


def correlation(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the correlation of ranks, the mean rank for equal numbers; NaN where all are equal (Spearman 1904)."""
    from scipy.stats import rankdata  # a heavy import

    ranks = [rankdata(each) - (len(each) + 1) / 2 for each in (first, second)]
    length = np.prod([np.linalg.norm(each) for each in ranks])
    return float(np.dot(*ranks) / length) if length else np.nan
