"""Trained models as sections: a decoder at each word that it writes, and a small language model that computes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.show.page.language_model import readable_letters
from regard.show.page.mechanism import AnySteps
from regard.show.page.parts import asset
from regard.show.page.section import Section, as_text, labels, packed
from regard.show.steps import TEXTS, PageText

__all__ = ["letters", "trained", "translation"]

_FIRST = 2  # numbers of a vector that are read
_HEAD = 6  # of the language model, seen first: it spreads its weight over the beginning of a word
_TEMPERATURE = 0.5


def translation(steps: AnySteps, *, row: int = 0, title: str = "") -> Section:
    """Show what a decoder looks at, computes and predicts at each word, as `Seq2Seq.decoder_steps` returns it."""
    if steps.readouts is None or len(steps.predicted) != len(steps.states):
        _check.fail("steps must have readouts and predictions, as those of Seq2Seq.decoder_steps have.")
    attention = steps.attend()
    source, target = steps.source_tokens, steps.target_tokens
    rows, columns = labels(target, len(steps.states), "step"), labels(source, len(steps.keys), "source")
    vectors = {
        "attends": steps.states,
        "context": attention.context,
        "after": steps.after,
        "readout": steps.readouts,
    }
    strips = [_strip(name, array) for name, array in vectors.items() if array is not None]
    data: dict[str, Any] = {
        "style": steps.style,
        "source": columns,
        "target": rows,
        "row": _check.integer("row", row, most=len(rows) - 1),
        "weights": packed(attention.weights.astype(np.float32)),
        "vectors": strips,
        "predicted": [[(label, round(share, 6)) for label, share in step] for step in _named(steps)],
    }
    return Section(
        "translation",
        title or PageText("translation.title"),
        data,
        text=as_text(attention.weights, rows, columns),
    )


def _strip(name: str, vectors: NDArray[Any]) -> dict[str, Any]:
    """Describe vectors (n, D): the first numbers of each, and the sizes of all of them in shades from 0 to 255."""
    sizes = np.abs(vectors)
    shades = np.rint(255 * sizes / np.maximum(sizes.max(axis=1, keepdims=True), np.finfo(sizes.dtype).tiny))
    return {
        "name": name,
        "first": [[float(f"{x:.4g}") for x in vector[:_FIRST]] for vector in vectors],
        "shades": packed(shades.astype(np.uint8)),
    }


def _named(steps: AnySteps) -> list[list[tuple[str, float]]]:
    """Return the predicted tokens of each step as labels."""
    return [
        list(
            zip(
                labels([token for token, _ in step], len(step), "token"),
                (share for _, share in step),
                strict=True,
            )
        )
        for step in steps.predicted
    ]


def trained(texts: dict[str, Any] = TEXTS) -> Section:
    """Show the translator that `make demo` trains, at each word of a sentence."""
    return Section(
        "translation", texts["translation"]["title"], json.loads(asset("translator.json"))["picture"]
    )


def letters(texts: dict[str, Any] = TEXTS) -> Section:
    """Show a language model of letters, which computes in the page; `benchmarks/letters.py` has trained it."""
    data, beginning = json.loads(asset("letters.json")), texts["letters"]["beginning"]
    if not readable_letters(data, beginning):
        rule = f"a beginning must have a letter that the language model knows. Got {beginning!r:.60} instead."
        _check.fail(rule, hint="it knows blanks and " + "".join(data["letters"].split()))
    first = {"text": beginning, "temperature": _TEMPERATURE, "head": _HEAD}
    return Section("letters", texts["letters"]["title"], {**data, "first": first})
