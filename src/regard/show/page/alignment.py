"""Alignments as a section: the tokens of two sides, joined by their weights, for each of several hypotheses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.show.page.importance import END, Importance, checked_importance, described, of_tokens
from regard.show.page.section import (
    JOIN,
    LONGEST_TEXT,
    Section,
    compact,
    labels,
    packed,
    readable,
    weight_faults,
)
from regard.show.pixels import averaged, checked_picture
from regard.show.steps import PageText

__all__ = ["Translated", "alignment", "aligned", "beside_weights", "of_read", "sentence"]

Array = NDArray[Any]
Links = Collection[tuple[int, int]]

_PIXELS = 320  # of the longer side of a picture, at least, if it has more


class Translated(Protocol):
    """The fields of a `regard.seq2seq.translator.Translation` that a page shows."""

    @property
    def text(self) -> str:
        """The translation."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """Its n tokens."""

    @property
    def source(self) -> tuple[str, ...]:
        """The m tokens of the source."""

    @property
    def score(self) -> float:
        """Its score."""

    @property
    def alignment(self) -> Array | None:
        """The weights (n, m)."""

    @property
    def grid(self) -> tuple[int, int] | None:
        """The rows and columns of a picture's cells."""

    @property
    def starts(self) -> tuple[int, ...]:
        """The columns of `full_alignment` at which retrieved targets start."""

    def full_alignment(self) -> tuple[Array, tuple[str, ...]]:
        """Return the weights of all tokens that were read, and these tokens."""


def alignment(*sentences: dict[str, Any], title: str = "") -> Section:
    """Show alignments: tokens joined by lines as strong as their weights, and the same as a matrix."""
    if not sentences:
        _check.fail("alignment needs at least one sentence. Got none instead.")
    noun = "caption" if all("grid" in sentence for sentence in sentences) else "alignment"
    heading = title or PageText(f"pages.titles.{noun}{'s' * (len(sentences) > 1)}")
    text = "\n".join(hypothesis["text"] for sentence in sentences for hypothesis in sentence["hypotheses"])
    return Section("alignment", heading, {"sentences": list(sentences)}, text=text)


def aligned(
    weights: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    links: Links = (),
    text: str = "",
    importance: Importance = None,
) -> dict[str, Any]:
    """Describe one alignment that is given as an array.

    weights (n, m); importance (n, m), or several by name.
    """
    array = _checked(weights, rows, columns)
    needed = checked_importance(importance, array.shape)
    hypothesis = {"text": readable(text, LONGEST_TEXT), "score": None, "tokens": list(map(readable, rows))}
    return {
        "source": list(map(readable, columns)),
        "text": "",
        "name": "",
        "hypotheses": [hypothesis | _weights(array) | _importance(array, needed)],
        "links": _checked_links(links, len(columns), len(rows)),
    }


def sentence(
    hypotheses: Translated | Sequence[Translated],
    *,
    links: Links = (),
    picture: ArrayLike | None = None,
    name: str = "",
    importance: Any = None,
) -> dict[str, Any]:
    """Describe the alignments of one source: those of a translation, or of each of the n best.

    picture (H, W), (H, W, 1), (H, W, 3), (H, W, 4); importance (n, m), or several by name; of several hypotheses, a
    list of these.
    """
    translations = list(hypotheses) if isinstance(hypotheses, Sequence) else [hypotheses]
    if not translations:
        _check.fail("a sentence needs at least one hypothesis. Got none instead.")
    first = translations[0]
    if any(translation.source != first.source for translation in translations):
        _check.fail(
            "hypotheses must share a source. Got several instead.", hint="call sentence() for each source"
        )
    single = importance is None or not isinstance(hypotheses, Sequence)
    needed = [importance] * len(translations) if single else list(importance)
    if len(needed) != len(translations):
        rule = f"importance must be a list of {len(translations)}, as hypotheses are."
        _check.fail(f"{rule} Got {len(needed)} instead.")
    read = first.source if first.alignment is None else first.full_alignment()[1]
    shown: dict[str, Any] = {
        "source": _labels(read, first.starts),
        "text": readable(_joined(first.source), LONGEST_TEXT),
        "name": readable(name),
        "hypotheses": list(map(_hypothesis, translations, needed)),
        "links": _checked_links(links, len(read), len(first.tokens)),
    }
    if first.grid is not None:
        shown["grid"] = list(first.grid)
    if picture is not None:
        shown["picture"] = packed(_pixels(picture))
    return shown


def _hypothesis(translation: Translated, importance: Importance = None) -> dict[str, Any]:
    shown = {
        "text": readable(translation.text, LONGEST_TEXT),
        "score": float(translation.score),
        "tokens": _labels(translation.tokens),
    }
    if translation.alignment is None:
        return shown
    weights, read = translation.full_alignment()
    return (
        shown
        | _weights(_checked(weights, translation.tokens, read))
        | beside_weights(translation, importance)
    )


def beside_weights(translation: Translated, importance: Importance) -> dict[str, Any]:
    """Describe the importance (n, m) of a translation's source tokens, for its hypothesis in a sentence."""
    weights, _ = translation.full_alignment()
    return _importance(weights, of_read(translation, importance))


def of_read(translation: Translated, importance: Importance) -> dict[str, Array]:
    """Return the importance (n, m) of a translation's source tokens for all tokens that the model has read."""
    _, read = translation.full_alignment()
    needed = checked_importance(importance, (len(translation.tokens), len(translation.source)))
    return {name: of_tokens(array, read) for name, array in needed.items()}


def _weights(array: Array) -> dict[str, Any]:
    return {"weights": packed(array), "warnings": weight_faults(array)}


def _importance(weights: Array, importance: dict[str, Array]) -> dict[str, Any]:
    return {"importance": [described(name, weights, needed) for name, needed in importance.items()]}


def _checked(weights: ArrayLike, rows: Sequence[str], columns: Sequence[str]) -> Array:
    array = _check.numeric("weights", weights)
    _check.dimensions(weights=(array, "(n, m)"))
    labels(rows, len(array), "row")
    labels(columns, array.shape[1], "column")
    return compact(array)


def _checked_links(links: Links, source: int, target: int) -> list[list[int]]:
    for i, j in links:
        if not (0 <= i < source and 0 <= j < target):
            _check.fail(f"links must be between {source} and {target} tokens, from 0. Got {i}-{j} instead.")
    return sorted([int(i), int(j)] for i, j in links)


def _labels(tokens: Sequence[str], starts: Collection[int] = ()) -> list[str]:
    """Return tokens as they are displayed: without the marks of joined tokens, and the starts of targets named."""
    return [PageText("pages.retrieved") if i in starts else readable(token) for i, token in enumerate(tokens)]


def _joined(tokens: Sequence[str]) -> str:
    """Return tokens as one text, without the end of the sentence."""
    line = " ".join(token for token in tokens if token != END)
    return line.replace(f" {JOIN}", "").replace(f"{JOIN} ", "")


def _pixels(picture: ArrayLike) -> NDArray[np.uint8]:
    """Return a picture as red, green and blue bytes (H, W, 3), smaller if it has far more pixels than are seen."""
    pixels = checked_picture(picture)
    least = np.array(pixels.shape[:2]) * _PIXELS / max(pixels.shape[:2])
    for axis in (0, 1):
        pixels = averaged(pixels, axis, max(1, int(least[axis])))
    return np.rint(255 * pixels).astype(np.uint8)
