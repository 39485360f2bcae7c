"""Show the attention weights of a translation: on the terminal and as pictures."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.networks.transformer.heads import Heads
from regard.seq2seq.sources.text.vocabulary import END, JOIN, SPECIAL
from regard.seq2seq.translator import Alternative, Translation
from regard.show import figures, terminal
from regard.show.figures.figure import require_matplotlib, warned
from regard.show.page.heads import later_masked
from regard.show.terminal.text import align, clean

__all__ = [
    "can_draw",
    "draw_alignment",
    "draw_alternatives",
    "missing_extras",
    "save_alignment",
    "save_heads",
    "scored_tokens",
]

Array = NDArray[Any]

_RETRIEVED = "retrieved:"  # the label of retrieved targets
_EXTRAS = {
    "sacrebleu": "BLEU and chrF",
    "matplotlib": "pictures",
    "tqdm": "the progress bar",
    "threadpoolctl": "training with two threads",
}


def missing_extras(*names: str) -> str:
    """Return a line that names the extras that are not installed, and how to install them; empty if all are."""
    uses = {name: _EXTRAS[name] for name in names or _EXTRAS}
    missing = [f"{name} (for {use})" for name, use in uses.items() if find_spec(name) is None]
    return f'not installed: {", ".join(missing)}; pip install "regard[cli]"' if missing else ""


def can_draw() -> bool:
    """Return whether Matplotlib can be used; warn if it is installed but unusable."""
    if find_spec("matplotlib") is None:  # `missing_extras` reports it
        return False
    with warned("pictures"):
        require_matplotlib()
        return True
    return False


def _labels(tokens: Sequence[str], starts: Collection[int] = ()) -> list[str]:
    """Return tokens as they are displayed: without the marks of joined tokens, and the starts of targets named."""
    return [_RETRIEVED if i in starts else _label(token) for i, token in enumerate(tokens)]


def _label(token: str) -> str:
    return token.replace(JOIN, "")


def _heatmap(translation: Translation) -> tuple[Array, list[str], list[str]]:
    """Return the attention weights, and the labels of their rows and columns."""
    weights, source = translation.full_alignment()
    return weights, _labels(translation.tokens), _labels(source, translation.starts)


def draw_alignment(translation: Translation) -> str:
    """Return the alignment of a translation as text."""
    if translation.grid is not None:
        weights, _ = translation.full_alignment()
        return terminal.captioned(weights, _labels(translation.tokens), grid=translation.grid)
    return terminal.heatmap(*_heatmap(translation))


def _written(translation: Translation) -> list[tuple[str, float]]:
    """Return the displayed tokens, and </s> unless the translation was cut off, with their log-probabilities."""
    logs = np.zeros(0) if translation.log_probabilities is None else translation.log_probabilities
    tokens = [*translation.tokens, SPECIAL[END]]
    return [(clean(_label(token)), float(log)) for token, log in zip(tokens, logs, strict=False)]


def scored_tokens(translation: Translation) -> str:
    """Return the tokens of a translation with their log-probabilities, as in "le=-0.1054 </s>=-0.0010"."""
    return " ".join(f"{token}={log:.4f}" for token, log in _written(translation))


def draw_alternatives(translation: Translation, steps: Sequence[Sequence[Alternative]]) -> str:
    """Return the most probable tokens of each step as text, after the token that was written and its probability."""
    rows = [
        [
            f"{token} {math.exp(log):.4f}",
            *(f"{clean(_label(each.token))} {each.probability:.4f}" for each in step),
        ]
        for (token, log), step in zip(_written(translation), steps, strict=True)
    ]
    return align(rows)


def save_alignment(translation: Translation, path: Path, picture: Array | None = None) -> bool:
    """Save an alignment as a PNG file, in the picture if the source is one; return whether it was saved, or warn."""
    if translation.alignment is None or not translation.tokens:
        return False
    with warned(path):
        if picture is None:
            figure: Any = figures.heatmap(*_heatmap(translation), title=translation.text)
        else:
            words, grid = _labels(translation.tokens), translation.grid
            weights, title = translation.alignment, translation.text
            figure = figures.captioned(picture, weights, words, grid=grid, title=title)
        figures.save(path, figure)
        return True
    return False


def save_heads(heads: Heads, translation: Translation, folder: Path, name: str) -> None:
    """Save the attention weights of all heads as three PNG files; warn if one cannot be saved."""
    source = _labels(heads.source_tokens, translation.starts)
    for part, weights, rows, columns, title in (
        ("encoder", heads.encoder, source, source, "encoder: each source token attends to the source"),
        (
            "decoder",
            later_masked(heads.decoder),
            heads.target_tokens,
            heads.previous_tokens,
            "decoder: each target token attends to those before it",
        ),
        (
            "source",
            heads.source,
            heads.target_tokens,
            source,
            "decoder: each target token attends to the source",
        ),
    ):
        path = folder / f"{name}-{part}.png"
        with warned(path):
            figures.save(path, figures.heatmaps(weights, rows, columns, title=f"{title}; {translation.text}"))
