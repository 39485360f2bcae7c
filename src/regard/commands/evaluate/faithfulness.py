"""Does a model's attention say what its outputs need? Weights, compared with erasure: `regard evaluate --faithfulness`.

Jain and Wallace 2019, "Attention is not Explanation"; DeYoung et al. 2020, "ERASER".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import attribution
from regard.attribution import Measure
from regard.commands.loading import has_posterior
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.translator import Translation, Translator
from regard.show.terminal.text import align

__all__ = [
    "MOST_ITEMS",
    "ErasureComparison",
    "Faithful",
    "compare_with_erasure",
    "faithful_json",
    "faithful_table",
]

Array = NDArray[Any]

MOST_ITEMS = (
    100  # each is decoded as often as its source is long, and several times as often for the other measures
)
TITLES = {
    "weights": "attention weights",
    "posterior": "posterior attention",
    "contribution": "contributions",
    "erasure": "erasure itself",
    "random": "random numbers",
}


class Faithful(NamedTuple):
    """How well a measure of importance agrees with erasure, and what outputs lose by its order."""

    top: Measure
    correlation: Measure
    comprehensiveness: Measure
    sufficiency: Measure


class ErasureComparison(NamedTuple):
    """The kinds of importance that a model has, compared with erasure on so many items."""

    items: int
    kinds: dict[str, Faithful]


def compare_with_erasure(
    model: Translator,
    sources: Sequence[Any],
    texts: Sequence[str],
    advance: Callable[[int], object] = lambda count: None,
) -> ErasureComparison:
    """Compare each kind of importance that a model has with erasure; `texts` are its answers to the `sources`.

    Each source has at least two inputs, and each text a token; `advance` is called with 1 after each item.
    """
    if not sources:
        return ErasureComparison(0, {})
    readings = {"weights": model.align(sources, texts)}
    if has_posterior(model):
        readings["posterior"] = model.align(sources, texts, posterior=True)
    rng, parts = np.random.default_rng(1), defaultdict[str, list[Array]](list)
    losses = defaultdict[str, list[attribution.Faithfulness]](list)
    for i, source in enumerate(sources):
        read = {kind: translations[i] for kind, translations in readings.items()}
        for kind, importance in _importances(model, read, source, rng).items():
            parts[kind].append(importance)
            losses[kind].append(model.faithfulness(read["weights"], importance, source))
        advance(1)
    kinds = (kind for kind in TITLES if kind in parts)
    return ErasureComparison(
        len(sources), {kind: _faithful(parts[kind], parts["erasure"], losses[kind]) for kind in kinds}
    )


def _importances(
    model: Translator, read: Mapping[str, Translation], source: Any, rng: np.random.Generator
) -> dict[str, Array]:
    """Return what each kind of importance says of an item: arrays (n, m) without a column for </s>."""
    importances: dict[str, Any] = {kind: translation.alignment for kind, translation in read.items()}
    if isinstance(model, Seq2Seq):
        importances["contribution"] = model.contributions(read["weights"], source)
    importances["erasure"] = model.erasure(read["weights"], source)
    importances["random"] = rng.random(importances["erasure"].shape)
    inputs = len(model.model.source.load(source))  # without </s>
    return {kind: importance[:, :inputs] for kind, importance in importances.items()}


def _faithful(
    importance: list[Array], needed: list[Array], losses: Sequence[attribution.Faithfulness]
) -> Faithful:
    agreed = attribution.agreement(importance, needed)
    lost = (attribution.bootstrap(each) for each in zip(*losses, strict=True))
    return Faithful(agreed.top, agreed.correlation, *lost)


def faithful_table(compared: ErasureComparison) -> str:
    """Return a table: a line for each kind of importance."""
    heads = ["", "most important agrees %", "ranks agree", "comprehensiveness", "sufficiency"]
    lines = [
        [
            TITLES[kind],
            *(_cell(measure, 100 if name == "top" else 1) for name, measure in part._asdict().items()),
        ]
        for kind, part in compared.kinds.items()
    ]
    width = max(len(line[0]) for line in lines)
    return align([[line[0].ljust(width), *line[1:]] for line in [heads, *lines]])


def _cell(measure: Measure, factor: int) -> str:
    digits = 1 if factor > 1 else 2
    value, low, high = (f"{factor * number:.{digits}f}" for number in measure[:3])
    return "-" if np.isnan(measure.value) else f"{value} ({low} to {high})"


def faithful_json(compared: ErasureComparison) -> dict[str, Any]:
    """Return the measures of each kind of importance for JSON, which has no NaN."""
    return {"items": compared.items} | {
        kind: {
            name: {field: None if np.isnan(x) else x for field, x in measure._asdict().items()}
            for name, measure in part._asdict().items()
        }
        for kind, part in compared.kinds.items()
    }
