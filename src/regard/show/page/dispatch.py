"""The sections for each type of object: translations, heads, attentions, weights as an array, queries and keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard._display import Displayed
from regard._problem import prepare
from regard._recorded import RecordedCall, joined
from regard.attribution import contributions
from regard.context import NOTHING_RECORDED, Attention, define
from regard.mask import MaskLike
from regard.scores import ScoreLike
from regard.show.page.alignment import alignment, sentence
from regard.show.page.heads import Layer, group, heads, of_layers, of_model, of_recorded
from regard.show.page.long_attention import LongAttention, long_section
from regard.show.page.mechanism import MOST, fits, of_decoder, recorded
from regard.show.page.section import Section
from regard.show.steps import PageText
from regard.weights import NormalizeLike, is_softmax

__all__ = ["large", "sections"]

Labels = Sequence[str] | None

_DENSE = 1 << 22  # weights that are computed at once; more are summarized by blocks


def sections(
    shown: Any, query_labels: Labels = None, key_labels: Labels = None, importance: Any = None
) -> list[Section]:
    """Return the sections of an object with attention weights, or of weights with an importance.

    shown (..., n, m).
    """
    if importance is not None:
        return [_with_importance(shown, query_labels, key_labels, importance)]
    if isinstance(shown, Section):
        return [shown]
    if isinstance(shown, LongAttention):
        return [long_section(shown, query_labels, key_labels)]
    if isinstance(shown, RecordedCall):
        return _calls([shown], query_labels, key_labels)
    if isinstance(shown, Attention):
        return [_attention(shown, query_labels, key_labels)]
    if _check.is_array(shown):
        return [heads([group(PageText("pages.groups.weights"), shown, query_labels, key_labels)])]
    view = shown.view if isinstance(shown, Displayed) else None
    if view == "heads":
        return [of_model(shown)]
    if view == "alignment":
        return [alignment(sentence(shown))]
    if view == "steps":
        return [of_decoder(shown)]
    if isinstance(shown, Sequence) and not isinstance(shown, str | bytes):
        if not shown:
            _check.fail("there is nothing to show: the list is empty", hint=NOTHING_RECORDED)
        return _several(list(shown), query_labels, key_labels)
    rule = (
        "page takes queries, keys and values, or an Attention, a Translation, Heads or an array of weights."
    )
    _check.fail(f"{rule} Got {type(shown).__name__} instead.", kind=TypeError)


def _with_importance(shown: Any, query_labels: Labels, key_labels: Labels, importance: Any) -> Section:
    """Return the section of weights beside which an importance lies."""
    if isinstance(shown, Attention):
        return of_recorded([shown], query_labels, key_labels, importance)
    first = shown[0] if isinstance(shown, list | tuple) and shown else shown
    view = first.view if isinstance(first, Displayed) else None
    if view == "heads" and first is shown:
        return of_model(shown, importance)
    if view == "alignment":
        return alignment(sentence(shown, importance=importance))
    if not _check.is_array(shown) and not isinstance(first, int | float | np.generic | list | tuple):
        rule = "importance goes with an array of weights, an Attention, a Translation or Heads."
        _check.fail(f"{rule} Got {type(shown).__name__} instead.", kind=TypeError)
    return heads(
        [group(PageText("pages.groups.weights"), shown, query_labels, key_labels, importance=importance)]
    )


def large(
    queries: NDArray[Any],
    keys: NDArray[Any],
    values: NDArray[Any],
    /,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    normalize: NormalizeLike = "softmax",
) -> Attention | LongAttention:
    """Return an attention that is too large to be changed by hand, or of which only parts can be computed at a time."""
    if np.prod(queries.shape[:-1]) * keys.shape[-2] <= _DENSE:
        # As `attend` does it, but nothing is recorded.
        return define(prepare(queries, keys, values, score, mask, None, scale, softcap, normalize, None))
    if not is_softmax(normalize):
        rule = f'a page of more than {_DENSE:,} weights needs normalize="softmax". Got {normalize!r:.60} instead.'
        _check.fail(rule)
    return LongAttention(queries, keys, score=score, mask=mask, scale=scale, softcap=softcap)


def _attention(shown: Attention, query_labels: Labels, key_labels: Labels) -> Section:
    """Return the steps of a small attention, or the weights of any other."""
    weights = shown.weights
    if weights.ndim != 2 or not weights.size:
        return of_recorded([shown], query_labels, key_labels)
    if fits(*weights.shape):
        return recorded(shown, query_labels=query_labels, key_labels=key_labels)
    left_out = PageText("pages.results", most=MOST)
    section = of_recorded([shown], query_labels, key_labels)
    return replace(section, warnings=[*section.warnings, left_out])


def _calls(calls: list[RecordedCall], query_labels: Labels, key_labels: Labels) -> list[Section]:
    """Return all heads of the calls that a model made, and summaries of those that are too large."""
    parts = joined(calls)
    small = [(label, part) for label, part in parts if not _is_large(part)]
    layers = (_layer(label, part) for label, part in small)
    return [
        *([of_layers(layers, query_labels, key_labels)] if small else []),
        *(
            long_section(_long(part), query_labels, key_labels, title=label)
            for label, part in parts
            if isinstance(part, RecordedCall) and _is_large(part)
        ),
    ]


def _layer(label: str, part: RecordedCall | NDArray[Any]) -> Layer:
    """Return the weights of a call, and where its values were kept, how much of them each weight contributes."""
    if not isinstance(part, RecordedCall):
        return Layer(label, part)
    attention, values = part.attention, part.values
    weights, masked = attention.weights, attention._masked_weights()
    if values is None or not (np.isfinite(weights).all() and np.isfinite(values).all()):
        return Layer(label, masked)
    if values.ndim > 2:  # a head of values serves several of queries
        values = np.repeat(values, weights.shape[-3] // values.shape[-3], axis=-3)
    return Layer(label, masked, {"contribution": contributions(weights, values)})


def _is_large(part: RecordedCall | NDArray[Any]) -> bool:
    return isinstance(part, RecordedCall) and part.pairs > _DENSE


def _long(call: RecordedCall) -> LongAttention:
    options = {name: getattr(call, name) for name in ("mask", "bias", "scale", "softcap", "sink")}
    return LongAttention(call.queries, call.keys, **options)


def _several(shown: list[Any], query_labels: Labels, key_labels: Labels) -> list[Section]:
    if all(isinstance(item, RecordedCall) for item in shown):
        return _calls(shown, query_labels, key_labels)
    if all(isinstance(item, Attention) for item in shown):
        return [
            of_recorded(shown, query_labels, key_labels)
            if shown[1:]
            else _attention(shown[0], query_labels, key_labels)
        ]
    if all(isinstance(item, Displayed) and item.view == "alignment" for item in shown):
        by_source: dict[tuple[str, ...], list[Any]] = {}
        for item in shown:
            by_source.setdefault(item.source, []).append(item)
        return [alignment(*map(sentence, by_source.values()))]
    if all(isinstance(item, int | float | np.generic | list | tuple) for item in shown):
        return sections(_check.numeric("weights", shown), query_labels, key_labels)
    if shown[1:] and all(map(_check.is_array, shown)):
        layers = [_check.numeric("weights", item) for item in shown]
        if any(layer.ndim < 2 for layer in layers):  # the rows of one matrix
            return sections(_check.numeric("weights", layers), query_labels, key_labels)
        named = (Layer(str(number), layer) for number, layer in enumerate(layers, 1))
        return [of_layers(named, query_labels, key_labels)]
    return [section for item in shown for section in sections(item, query_labels, key_labels)]
