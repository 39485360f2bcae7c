"""Attention in a browser: one HTML file that computes its numbers again when one of them changes, without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from regard import _check
from regard.mask import MaskLike
from regard.scores import ScoreLike
from regard.show.page.dispatch import large, sections
from regard.show.page.document import HtmlPage
from regard.show.page.importance import Importance
from regard.show.page.mechanism import fixed, is_readable, recomputes
from regard.show.page.mechanism import mechanism as of_arrays
from regard.show.page.section import TokenLabels
from regard.weights import NormalizeLike, as_normalize

__all__ = ["HtmlPage", "page"]


def page(
    shown: Any,
    keys: ArrayLike | None = None,
    values: ArrayLike | None = None,
    /,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    normalize: NormalizeLike = "softmax",
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    tokens: Sequence[str] | Sequence[Sequence[str]] | None = None,
    importance: Importance | Sequence[Importance] = None,
    title: str = "Attention",
    language: str = "en",
) -> HtmlPage:
    """Make a page of an attention.

    Parameters
    ----------
    shown : array (..., n, d), or an object with weights
        Queries; or, without keys and values, weights (layers, heads, n, m), a masked array where some pairs are hidden,
        an `Attention` or a list of them, as from `record`, the `RecordedCalls` of `regard.torch.record`, a
        `Translation` or a list of them, the result of `Seq2Seq.heads`, a `LongAttention`, or sections.
    keys : array (..., m, d), optional
        Keys.
    values : array (..., m, e), optional
        Values.
    score, mask, scale, softcap, normalize
        As for `regard.attend`, for queries, keys and values.
    query_labels, key_labels : sequence of str, optional
        n and m names.
    tokens : sequence of str or several of them, optional
        Names of queries and keys instead: those of the sequence that is as long as a side.
    importance : array (n, m) or (..., n, m), or several of them by name; for hypotheses, a list of these, optional
        How much each pair mattered, such as `regard.attribution.contributions` or ``Seq2Seq.erasure``; NaN where that
        is not known. The page shows it beside the weights of an array, an `Attention`, a `Translation` or `Heads`, with
        what differs and how often the most attended key is the most important one.
    title : str
        The title of the page.
    language : str
        The language of its texts: "en", "de" or "fr".

    Returns
    -------
    HtmlPage
        With ``save(path)``; a notebook displays it.

    Raises
    ------
    ValueError, TypeError
        If there is nothing to show, or if labels don't fit.

    Examples
    --------
    >>> import numpy as np
    >>> page(np.eye(2), np.eye(2), np.eye(2))
    HtmlPage('Attention': mechanism)
    """
    query_labels, key_labels = (_check.listed("labels", names) for names in (query_labels, key_labels))
    if tokens is not None:
        if query_labels is not None or key_labels is not None:
            _check.exclude("tokens", "query_labels and key_labels")
        query_labels = key_labels = TokenLabels(tokens)
    if (keys is None) != (values is None):
        rule = "page takes queries, keys and values, or an Attention, a Translation, Heads or an array of weights."
        _check.fail(rule, kind=TypeError)
    if keys is None or values is None:
        shown = sections(shown, query_labels, key_labels, importance)
        return HtmlPage(shown, title=title, language=language)
    if importance is not None:
        _check.exclude("importance", "keys and values")
    arrays = _check.three(shown, keys, values)
    if not arrays[0].shape[-2] or not arrays[1].shape[-2]:
        named = dict(zip(("queries", "keys", "values"), arrays, strict=True))
        _check.fail("a page needs at least one query and one key", named)
    normalize = as_normalize(normalize)
    if not is_readable(*arrays) or not recomputes(score, normalize):
        attention = large(*arrays, score=score, mask=mask, scale=scale, softcap=softcap, normalize=normalize)
        shown = sections(attention, query_labels, key_labels)
        return HtmlPage(
            [replace(section, warnings=fixed(*arrays) or section.warnings) for section in shown],
            title=title,
            language=language,
        )
    section = of_arrays(
        *arrays,
        score=score,
        mask=mask,
        scale=scale,
        softcap=softcap,
        normalize=str(normalize),
        query_labels=query_labels,
        key_labels=key_labels,
    )
    return HtmlPage([section], title=title, language=language)
