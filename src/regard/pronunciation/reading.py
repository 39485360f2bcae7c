"""Reading a dictionary of any format."""

from __future__ import annotations

import os
from collections.abc import Iterator

from regard import _check
from regard.pronunciation.files import Path
from regard.pronunciation.formats import FORMATS, recognise
from regard.pronunciation.lexicon import Lexicon, Variant, Wrong, checked

__all__ = ["places", "read"]


def read(path: Path, /, *, format: str | None = None, skip_bad: bool = False) -> Lexicon:
    """Read a pronunciation dictionary, whose format is recognised from its content.

    Parameters
    ----------
    path : str or path
        The file.
    format : str, optional
        The name of its format, one of `FORMATS`.
    skip_bad : bool, optional
        Whether an entry that cannot be read is left out, and listed in the dictionary's `skipped`; otherwise it is an
        error.

    Returns
    -------
    Lexicon
        The words with their variants.

    Raises
    ------
    ValueError
        If an entry cannot be read, with file, line and reason; if the file may have several formats, or has none.

    See Also
    --------
    write : Write a dictionary.

    Examples
    --------
    >>> with open("words.dict", "w") as file:
    ...     _ = file.write("read R EH1 D\\nread(2) R IY1 D # present\\n")
    >>> lexicon = read("words.dict")
    >>> lexicon.format, [variant.phones for variant in lexicon["read"]]
    ('cmudict', [('R', 'EH1', 'D'), ('R', 'IY1', 'D')])
    """
    name = os.fspath(path)
    if format is not None:
        _check.choice("format", format, FORMATS)
    try:
        chosen = recognise(path) if format is None else format
        skipped: list[str] = []
        entries = [entry for _, entry in _entries(path, chosen, skipped, skip_bad)]
    except ValueError as error:
        _check.fail(str(error) if str(error).startswith(name) else f"{name}: {error}")
    if not entries:
        _check.fail(f"{name}: it has no entry" + (f"; {skipped[0]}" if skipped else ""))
    return Lexicon.of_checked(entries, chosen, skipped)


def places(path: Path, lexicon: Lexicon) -> dict[tuple[str, tuple[str, ...]], str]:
    """Return where each word with its phones stands first in the file from which a dictionary was read."""
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for place, (word, variant) in _entries(path, lexicon.format, [], skip_bad=True):
        found.setdefault((word, variant.phones), place)
    return found


def _entries(
    path: Path, name: str, skipped: list[str], skip_bad: bool
) -> Iterator[tuple[str, tuple[str, Variant]]]:
    """Yield the entries of a file with their places; a bad one raises or is listed."""
    records, parse = FORMATS[name].records, FORMATS[name].parse
    for place, record in records(path):
        try:
            yield from [(place, checked(*entry)) for entry in parse(record)]
        except Wrong as error:
            message = f"{os.fspath(path)}, {place}: {error}"
            if not skip_bad:
                _check.fail(message)
            skipped.append(message)
