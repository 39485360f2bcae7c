"""Showing where a translation looked: on the terminal and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard.seq2seq.data.vocabulary import JOIN, SPECIAL, START
from regard.seq2seq.networks.transformer.heads import Heads
from regard.seq2seq.translator import Translation
from regard.show import figure, text
from regard.show.canvas import require_matplotlib, warned

__all__ = ["can_draw", "draw", "missing", "save", "save_heads"]

Array = NDArray[Any]

_LOOKED_UP = "looked up:"  # where what is beside the sentence begins
_EXTRAS = {
    "sacrebleu": "BLEU and chrF",
    "matplotlib": "pictures",
    "tqdm": "the progress bar",
    "threadpoolctl": "training with two threads",
}


def missing(*names: str) -> str:
    """Say in one line which extras are not installed and how to get them; nothing if all are there.

    Parameters
    ----------
    *names : str
        Those that are wanted; all by default.

    Returns
    -------
    str
        A line, or the empty string.

    Examples
    --------
    >>> print(missing().partition(":")[0] or "all there")  # doctest: +SKIP
    all there
    """
    wanted = {name: _EXTRAS[name] for name in names or _EXTRAS}
    lacking = [f"{name} (for {use})" for name, use in wanted.items() if find_spec(name) is None]
    return f'not installed: {", ".join(lacking)}; pip install "regard[cli]"' if lacking else ""


def can_draw() -> bool:
    """Return whether Matplotlib can be used; where it is installed and can't, warn.

    Returns
    -------
    bool
        Whether pictures can be drawn.

    Examples
    --------
    >>> can_draw()
    True
    """
    if find_spec("matplotlib") is None:  # `missing` reports it
        return False
    with warned("pictures"):
        require_matplotlib()
        return True
    return False


def _shown(words: Sequence[str]) -> list[str]:
    """Return words without the marks that glue them, and what was read beside a sentence behind what says so."""
    return [_LOOKED_UP if word == SPECIAL[START] else word.replace(JOIN, "") for word in words]


def _heatmap(translation: Translation) -> tuple[Array, list[str], list[str]]:
    """Return where it looked, and what stands beside rows and above columns."""
    weights, read = translation.looks()
    return weights, _shown(translation.tokens), _shown(read)


def draw(translation: Translation) -> str:
    """Draw an alignment as text.

    Parameters
    ----------
    translation : Translation
        With an alignment.

    Returns
    -------
    str
        Lines.

    Examples
    --------
    >>> import numpy as np
    >>> print(draw(Translation("le", ("le",), ("the", "</s>"), 0.0, np.array([[1.0, 0.0]]))).split())
    ['the', '</s>', 'le', '100']
    """
    return text.heatmap(*_heatmap(translation))


def save(translation: Translation, path: Path) -> bool:
    """Draw an alignment into a PNG file; whatever goes wrong is a warning.

    Parameters
    ----------
    translation : Translation
        With an alignment.
    path : Path
        Where to.

    Returns
    -------
    bool
        Whether it has been drawn.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Translation("le", ("le",), ("the", "</s>"), 0.0, np.array([[1.0, 0.0]])), Path(folder, "it.png"))
    ...     Path(folder, "it.png").read_bytes()[1:4]
    True
    b'PNG'
    """
    with warned(path):
        figure.save_heatmap(path, *_heatmap(translation), title=translation.text)
        return True
    return False


def save_heads(heads: Heads, translation: Translation, folder: Path, name: str) -> None:
    """Draw where all heads looked into three PNG files: in the encoder, in the decoder, and from there in the source.

    Whatever goes wrong is a warning.

    Parameters
    ----------
    heads : Heads
        Of a translation that has a token.
    translation : Translation
        That one.
    folder : Path
        Where to.
    name : str
        What the files' names begin with.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> looked = np.ones((1, 2, 1, 1))
    >>> translation = Translation("le", ("le",), ("</s>",), 0.0, looked[0, 0])
    >>> with tempfile.TemporaryDirectory() as place:
    ...     save_heads(Heads(("</s>",), ("<s>",), ("le",), looked, looked, looked), translation, Path(place), "line-1")
    ...     sorted(path.name for path in Path(place).iterdir())
    ['line-1-decoder.png', 'line-1-encoder.png', 'line-1-source.png']
    """
    read = _shown(heads.source_tokens)
    for part, weights, rows, columns, title in (
        ("encoder", heads.encoder, read, read, "encoder: where each word of the source looks in it"),
        (
            "decoder",
            heads.decoder,
            heads.target_tokens,
            heads.previous_tokens,
            "decoder: where each word looks in those before it",
        ),
        ("source", heads.source, heads.target_tokens, read, "decoder: where each word looks in the source"),
    ):
        place = folder / f"{name}-{part}.png"
        with warned(place):
            figure.save_heatmaps(place, weights, rows, columns, title=f"{title}; {translation.text}")
