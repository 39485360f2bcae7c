"""What all views of weights check: labels, and whether the numbers are weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check

__all__ = ["checked_labels", "warning"]

_NEAR = 1e-3  # of a sum


def checked_labels(name: str, labels: Sequence[str] | None, count: int) -> list[str]:
    """Return a label for each of several rows, columns or layers.

    Parameters
    ----------
    name : str
        What is labelled, for errors.
    labels : sequence of str, or None
        The labels; None numbers them from 1.
    count : int
        How many are needed.

    Returns
    -------
    list of str
        `count` labels.

    Raises
    ------
    ValueError, TypeError
        If there are more or fewer labels, or `labels` is one string.

    Examples
    --------
    >>> checked_labels("rows", None, 2)
    ['1', '2']
    """
    if labels is None:
        return [str(i + 1) for i in range(count)]
    if isinstance(labels, str):
        _check.fail(f"{name} must be a sequence of strings. Got one string instead.", kind=TypeError)
    if len(labels) != count:
        _check.fail(f"{name} must have one label for each of {count}. Got {len(labels)} instead.")
    return [str(label) for label in labels]


def warning(weights: NDArray[Any]) -> str:
    """Return what distinguishes numbers from attention weights; empty if nothing does.

    Parameters
    ----------
    weights : array (..., n, m)
        The numbers.

    Returns
    -------
    str
        One or two sentences for a page.

    Examples
    --------
    >>> import numpy as np
    >>> warning(np.array([[0.5, 0.5], [0.2, 0.2]]))
    'These may be no attention weights: row 2 sums to 0.4, not to 0 or 1.'
    """
    if not np.isfinite(weights).all():
        return "These are no attention weights: some are not finite numbers."
    if weights.min(initial=0) < 0:
        return f"These are no attention weights: some are negative, down to {weights.min():.3g}."
    sums = weights.sum(axis=-1, dtype=np.float64)
    wrong = (np.abs(sums - 1) > _NEAR) & (np.abs(sums) > _NEAR)
    if not wrong.any():
        return ""
    place = np.argwhere(wrong)[0]
    return f"These may be no attention weights: row {place[-1] + 1} sums to {sums[tuple(place)]:.3g}, not to 0 or 1."
