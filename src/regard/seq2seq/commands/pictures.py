"""Showing where a translation looked: on the terminal and as pictures."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from regard.seq2seq.model import Translation
from regard.seq2seq.text import JOIN
from regard.show import figure, text

__all__ = ["draw", "missing", "save"]

_EXTRAS = {"sacrebleu": "BLEU", "matplotlib": "pictures", "tqdm": "the progress bar"}


def missing() -> str:
    """Say in one line which extras are not installed and how to get them; nothing if all are there.

    Returns
    -------
    str
        A line, or the empty string.

    Examples
    --------
    >>> print(missing().partition(":")[0] or "all there")  # doctest: +SKIP
    all there
    """
    lacking = [f"{name} (for {use})" for name, use in _EXTRAS.items() if find_spec(name) is None]
    return f'not installed: {", ".join(lacking)}; pip install "regard[cli]"' if lacking else ""


def _words(translation: Translation) -> tuple[list[str], list[str]]:
    """Return the words beside the rows and above the columns, without the marks that glue them."""
    rows, columns = translation.tokens, translation.source
    return [word.replace(JOIN, "") for word in rows], [word.replace(JOIN, "") for word in columns]


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
    assert translation.alignment is not None
    return text.heatmap(translation.alignment, *_words(translation))


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
    assert translation.alignment is not None
    figure.save_heatmap(path, translation.alignment, *_words(translation), title=translation.text)
