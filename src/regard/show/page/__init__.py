"""Attention in a browser: one HTML file that computes what it shows again when a number changes, without a network."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from regard.show.page.document import Page
from regard.show.page.mechanism import mechanism
from regard.show.page.section import Section

__all__ = ["Page", "page"]


def page(
    queries: Any,
    keys: ArrayLike | None = None,
    values: ArrayLike | None = None,
    /,
    *,
    title: str = "Attention",
) -> Page:
    """Make a page of an attention.

    Parameters
    ----------
    queries : array (n, d), or several sections
        Queries; or, alone, what has weights already.
    keys : array (m, d), optional
        Keys.
    values : array (m, e), optional
        Values.
    title : str
        Its title.

    Returns
    -------
    Page
        With ``save(path)``; a notebook displays it.

    Examples
    --------
    >>> import numpy as np
    >>> page(np.eye(2), np.eye(2), np.eye(2))
    Page('Attention': mechanism)
    """
    if keys is not None and values is not None:
        return Page([mechanism(queries, keys, values)], title=title)
    sections = [queries] if isinstance(queries, Section) else list(queries)
    return Page(sections, title=title)
