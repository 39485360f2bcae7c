"""Show the attention weights of a translation: on the terminal and as pictures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard.seq2seq.networks.transformer.heads import Heads
from regard.seq2seq.sources.text.vocabulary import JOIN
from regard.seq2seq.translator import Translation
from regard.show import figures, terminal
from regard.show.figures.figure import require_matplotlib, warned

__all__ = ["can_draw", "draw_alignment", "missing_extras", "save_alignment", "save_heads"]

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
    return [_RETRIEVED if i in starts else token.replace(JOIN, "") for i, token in enumerate(tokens)]


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
            heads.decoder,
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
