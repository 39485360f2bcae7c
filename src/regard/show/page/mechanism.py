"""The mechanism as a section: one attention, every step of which the page computes again when a number changes."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from regard import _check
from regard.show.page.section import Section

__all__ = ["mechanism"]


def mechanism(queries: ArrayLike, keys: ArrayLike, values: ArrayLike, /) -> Section:
    """Show the steps of one attention.

    Parameters
    ----------
    queries, keys, values : array
        (n, d), (m, d), (m, e).

    Returns
    -------
    Section
        For `Page`.

    Examples
    --------
    >>> import numpy as np
    >>> mechanism(np.eye(2), np.eye(2), np.eye(2)).view
    'mechanism'
    """
    arrays = dict(zip(("queries", "keys", "values"), _check.three(queries, keys, values), strict=True))
    data: dict[str, Any] = {name: array.tolist() for name, array in arrays.items()}
    return Section("mechanism", "The mechanism", data)
