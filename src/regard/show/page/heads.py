"""Many heads as a section: all of them small, one of them large, with the measures that tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.context import Attention
from regard.show.page.importance import Importance, checked_importance, described, of_tokens
from regard.show.page.section import Section, compact, labels, packed, readable, weight_faults
from regard.show.steps import PageText
from regard.show.terminal.cells import one_sentence

__all__ = [
    "AllHeads",
    "HeadMeasures",
    "Layer",
    "block_labels",
    "group",
    "heads",
    "later_masked",
    "marked",
    "measures",
    "of_layers",
    "of_model",
    "of_recorded",
]

Array = NDArray[Any]

_EXACT = 1 << 20  # weights up to which a page has all digits of float32
_MOST = 1 << 22  # weights in a page; more are reduced to the largest of blocks
_STEP = 65534  # of weights as 16-bit numbers; one more is a masked weight
_PART = 1 << 22  # weights that are measured at a time


class AllHeads(Protocol):
    """The fields of `regard.seq2seq.networks.transformer.heads.Heads` that a page shows."""

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """The m tokens of the encoder."""

    @property
    def previous_tokens(self) -> tuple[str, ...]:
        """The n tokens that the decoder read."""

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The n tokens of the translation."""

    @property
    def encoder(self) -> Array:
        """Self-attention of the encoder (L, h, m, m)."""

    @property
    def decoder(self) -> Array:
        """Self-attention of the decoder (L, h, n, n)."""

    @property
    def source(self) -> Array:
        """Attention of the decoder to the source (L, h, n, m)."""


class HeadMeasures(NamedTuple):
    """Measures in which heads differ, each (...): the mean over the rows that have weights.

    entropy: ``-sum_j w_ij log2 w_ij`` bits, 0 where one token has all the weight, log2(m) where all have the same;
    distance: ``sum_j w_ij |i - j|`` tokens; diagonal, first: the weight of the token at the same position, of the
    first one.
    """

    entropy: Array
    distance: Array
    diagonal: Array
    first: Array


def measures(weights: ArrayLike) -> HeadMeasures:
    """Measure heads.

    weights (..., n, m).
    """
    array = _check.numeric("weights", weights)
    if array.ndim < 2 or not array.shape[-1] * array.shape[-2]:
        _check.fail(f"weights must be (..., n, m), with n and m at least 1. Got {array.shape} instead.")
    flat = array.reshape(-1, *array.shape[-2:])
    with np.errstate(all="ignore"):  # a non-finite weight makes a measure NaN
        measured = [_measured(head) for head in flat]
    each = np.array(measured).reshape(*array.shape[:-2], 4)
    return HeadMeasures(*np.moveaxis(each, -1, 0))


def _measured(head: Array) -> list[float]:
    """Measure one head (n, m), some rows at a time."""
    n, m = head.shape
    sums, counted = np.zeros(4), 0
    for start in range(0, n, max(1, _PART // m)):
        rows = head[start : start + max(1, _PART // m)].astype(np.float64)
        here, keys = np.arange(start, start + len(rows)), np.arange(m)
        logs = np.log2(np.where(rows > 0, rows, 1))
        sums += (
            -(rows * logs).sum(),
            (rows * np.abs(here[:, None] - keys)).sum(),
            rows[here < m, here[here < m]].sum(),
            rows[:, 0].sum(),
        )
        counted += int((rows != 0).any(axis=1).sum())
    return list(sums / max(counted, 1))


def group(
    name: str,
    weights: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    layers: Sequence[str] | None = None,
    importance: Importance = None,
) -> dict[str, Any]:
    """Describe heads that attend from the same tokens to the same tokens.

    weights (L, h, n, m), masked where a query may not see a key; importance (n, m) or (L, h, n, m).
    """
    numbers, mask = _parts(weights)
    array = one_sentence(numbers)
    if not 2 <= array.ndim <= 4 or not array.size:
        hint = "choose one sentence of a batch: weights[:, sentence]" if array.ndim == 5 else ""
        _check.fail(
            f"weights must be (layers, heads, n, m), and not empty. Got {array.shape} instead.", hint=hint
        )
    needed = checked_importance(importance, numbers.shape)
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    mask = mask.reshape(array.shape)
    size, *_, n, m = array.size, *array.shape
    block = 1
    while size * (1 + len(needed)) // block**2 > _MOST:
        block += 1
    drawn, hidden = _largest(array, block), ~_largest(~mask, block)
    parts = _importance(array, mask, needed, block)
    return {
        "name": readable(name),
        "layers": labels(_numbers(len(array)) if layers is None else layers, len(array), "layer"),
        "rows": block_labels(rows, n, "query", block),
        "columns": block_labels(columns, m, "key", block),
        "blocks": [block, block],
        "weights": packed(_rounded(drawn, hidden)),
        "step": _STEP if drawn.size > _EXACT else 1,
        "measures": {key: value.tolist() for key, value in measures(array)._asdict().items()}
        | _agreement(parts),
        "importance": parts,
        "warnings": weight_faults(array),
    }


def block_labels(names: Sequence[str] | None, count: int, noun: str, size: int) -> list[str]:
    """Return a label for each block of so many tokens: its first and its last, by default their numbers."""
    each = labels(_numbers(count) if names is None else names, count, noun)
    ends = ((start, min(start + size, count) - 1) for start in range(0, count, size))
    return [each[first] if first == last else f"{each[first]} … {each[last]}" for first, last in ends]


def _parts(weights: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    """Return the numbers of weights, 0 where they are masked, and where that is."""
    plain = np.ma.getdata(weights) if isinstance(weights, np.ma.MaskedArray) else weights
    array = _check.numeric("weights", plain)
    if not np.ma.is_masked(weights):
        return array, np.broadcast_to(False, array.shape)
    mask = np.broadcast_to(np.ma.getmask(weights), array.shape)
    return np.where(mask, array.dtype.type(0), array), mask


def _importance(
    weights: Array, mask: NDArray[np.bool_], needed: dict[str, Array], block: int
) -> list[dict[str, Any]]:
    """Describe what lies beside weights (L, h, n, m): each importance (n, m) or of the shape of the weights.

    That of a masked pair is not known: NaN, as everywhere; of (n, m), that of a pair that is masked in all heads.
    """
    parts = []
    for name, array in needed.items():
        shared = array.ndim == 2
        shaped = array if shared else one_sentence(array).reshape(weights.shape)
        hidden = mask.all(axis=(0, 1)) if shared else mask
        known = np.where(hidden, np.nan, shaped) if hidden.any() else shaped
        parts.append(described(name, weights, known, _largest(known, block, np.fmax)))
    return parts


def _agreement(importance: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the share of rows in which each head (L, h) agrees with the first importance, if there is one."""
    if not importance:
        return {}
    with np.errstate(invalid="ignore"):  # no row has two columns
        return {"agreement": np.divide(importance[0]["hits"], importance[0]["rows"]).tolist()}


def _numbers(count: int) -> list[str]:
    return [str(i + 1) for i in range(count)]


def _largest(array: Array, block: int, larger: np.ufunc = np.maximum) -> Array:
    """Return the largest number of each block of rows and columns."""
    for axis in (-2, -1) if block > 1 else ():
        array = np.asarray(larger.reduceat(array, np.arange(0, array.shape[axis], block), axis=axis))
    return array


def marked(weights: Array, mask: NDArray[np.bool_]) -> Array:
    """Return weights as the page reads them: -0 where they are masked, 0 elsewhere if they are 0."""
    marks: Array = np.where(mask, weights.dtype.type(-0.0), weights + weights.dtype.type(0))
    return marks


def _rounded(array: Array, mask: NDArray[np.bool_]) -> Array:
    floats = compact(array)  # float16 ends before _STEP
    if array.size <= _EXACT:
        return marked(floats, mask)
    steps = np.rint(np.clip(np.nan_to_num(floats), 0, 1) * _STEP)
    return np.where(mask, _STEP + 1, steps).astype(np.uint16)


def heads(groups: Iterable[dict[str, Any]], *, title: str = "") -> Section:
    """Show all heads."""
    layers = list(groups)
    if not layers:
        _check.fail("heads need at least one group. Got none instead.")
    text = "\n".join(
        "{}: {} x {} heads of {} x {}".format(layer["name"], *layer["weights"]["shape"]) for layer in layers
    )
    return Section("heads", title or PageText("pages.titles.heads"), {"groups": layers}, text=text)


def of_model(model_heads: AllHeads, importance: Importance = None) -> Section:
    """Show the heads of a transformer, as `regard.seq2seq.Seq2Seq.heads` returns them.

    importance (n, m): of the source's m tokens for the n tokens of the translation.
    """
    source, previous = model_heads.source_tokens, model_heads.previous_tokens
    checked = checked_importance(importance, model_heads.source.shape[-2:])
    needed = {name: of_tokens(array, source) for name, array in checked.items()}
    parts = (
        ("encoder", model_heads.encoder, source, source, None),
        ("decoder", later_masked(model_heads.decoder), model_heads.target_tokens, previous, None),
        ("source", model_heads.source, model_heads.target_tokens, source, needed),
    )
    return heads(
        {
            **group(PageText(f"pages.groups.{name}"), weights, rows, columns, importance=beside),
            "about": PageText(f"pages.about.{name}"),
        }
        for name, weights, rows, columns, beside in parts
        if weights.size
    )


def later_masked(weights: Array) -> Array:
    """Return weights (..., n, n) of a decoder, masked where a token comes later."""
    later = np.triu(np.ones(weights.shape[-2:], bool), 1)
    return np.ma.array(weights, mask=np.broadcast_to(later, weights.shape))


def of_recorded(
    attentions: Sequence[Attention],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    importance: Importance = None,
) -> Section:
    """Show the weights of recorded attentions, with the importance of each of their shape."""
    kept = (
        Layer(attention.name or str(number), attention._masked_weights(), importance)
        for number, attention in enumerate(attentions, 1)
        if "weights" in vars(attention)
    )
    return of_layers(kept, rows, columns)


class Layer(NamedTuple):
    """The weights (..., n, m) of a layer, masked or not, and the importance of the same pairs."""

    name: str
    weights: Array
    importance: Importance = None


def of_layers(
    layers: Iterable[Layer],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Section:
    """Show layers by name: those of one shape, and with the same kinds of importance, are a group."""
    groups: dict[Any, list[tuple[Layer, dict[str, Array]]]] = {}
    for layer in layers:
        _check.dimensions(weights=(layer.weights, "(..., n, m)"))
        needed = checked_importance(layer.importance, layer.weights.shape)
        if layer.weights.size:
            groups.setdefault((layer.weights.shape, *needed), []).append((layer, needed))
    return heads(_group_of(members, rows, columns) for members in groups.values())


def _group_of(
    members: list[tuple[Layer, dict[str, Array]]],
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
) -> dict[str, Any]:
    shape, names = members[0][0].weights.shape, list(members[0][1])

    def stacked(arrays: Iterable[Array]) -> Array:
        return np.stack([np.broadcast_to(array, shape).reshape(-1, *shape[-2:]) for array in arrays])

    weights = stacked(np.ma.getdata(layer.weights) for layer, _ in members)
    if any(np.ma.is_masked(layer.weights) for layer, _ in members):
        mask = stacked(np.ma.getmaskarray(layer.weights) for layer, _ in members)
        weights = np.ma.array(weights, mask=mask)
    return group(
        f"{shape[-2]} × {shape[-1]}",
        weights,
        rows,
        columns,
        layers=[layer.name for layer, _ in members],
        importance={name: stacked(needed[name] for _, needed in members) for name in names},
    )
