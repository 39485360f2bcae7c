"""Showing where a translation looked: on the terminal and as pictures."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard.seq2seq.text import JOIN, SPECIAL, START
from regard.seq2seq.translator import Translation
from regard.show import figure, text

__all__ = ["draw", "missing", "save"]

Array = NDArray[Any]

_LOOKED_UP = "looked up:"  # where what is beside the sentence begins
_EXTRAS = {"sacrebleu": "BLEU and chrF", "matplotlib": "pictures", "tqdm": "the progress bar"}


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


def _heatmap(translation: Translation) -> tuple[Array, list[str], list[str]]:
    """Return where it looked, and what stands beside rows and above columns, without the marks that glue words."""
    weights, read = translation.looks()
    own = len(translation.source)
    columns = [word.replace(JOIN, "") for word in read[:own]]
    columns += [_LOOKED_UP if word == SPECIAL[START] else word.replace(JOIN, "") for word in read[own:]]
    return weights, [word.replace(JOIN, "") for word in translation.tokens], columns


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


def save(translation: Translation, path: Path) -> None:
    """Draw an alignment into a PNG file.

    Parameters
    ----------
    translation : Translation
        With an alignment.
    path : Path
        Where to.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Translation("le", ("le",), ("the", "</s>"), 0.0, np.array([[1.0, 0.0]])), Path(folder, "it.png"))
    ...     Path(folder, "it.png").read_bytes()[1:4]
    b'PNG'
    """
    figure.save_heatmap(path, *_heatmap(translation), title=translation.text)
