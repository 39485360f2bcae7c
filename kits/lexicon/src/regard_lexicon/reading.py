"""Reading a dictionary of any format."""

from __future__ import annotations

import os
from collections.abc import Iterator

from regard import _check
from regard_lexicon.files import Path, size
from regard_lexicon.formats import FORMATS, recognise
from regard_lexicon.ipa import PHONES, Phones, cut
from regard_lexicon.lexicon import InvalidEntry, Lexicon, Variant, checked
from regard_lexicon.lines import Entries

__all__ = ["places", "read"]


_MOST_TEXT = 8  # times the size of a file: a word or a role may stand for several pronunciations


def read(
    path: Path, /, *, format: str | None = None, skip_bad: bool = False, phones: Phones = "blanks"
) -> Lexicon:
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
    phones : {"blanks", "ipa"}, optional
        Whether blanks stand between the phones, or pronunciations are in IPA, such as ``/tʃaːt/, /tʃat/``: commas then
        separate pronunciations, slashes and brackets around one are dropped, and a phone is a letter with its marks,
        length and stress mark; a tie joins two letters.

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
    >>> with open("ipa.tsv", "w") as file:
    ...     _ = file.write("chat\\t/t\u0361ʃa\u02d0t/, /ʃa/\\n")
    >>> [variant.phones for variant in read("ipa.tsv", phones="ipa")["chat"]]
    [('t\u0361ʃ', 'aː', 't'), ('ʃ', 'a')]
    """
    _check.choice("phones", phones, PHONES)
    name = os.fspath(path)
    if format is not None:
        _check.choice("format", format, FORMATS)
    try:
        chosen = recognise(path) if format is None else format
        skipped: list[str] = []
        entries = (entry for _, entry in _entries(path, chosen, phones, skipped, skip_bad))
        lexicon = Lexicon.of_checked(entries, chosen, skipped)
    except ValueError as error:
        _check.fail(str(error) if str(error).startswith(name) else f"{name}: {error}")
    if not lexicon:
        _check.fail(f"{name}: it has no entry" + (f"; {skipped[0]}" if skipped else ""))
    return lexicon


def places(path: Path, format: str | None, phones: Phones) -> dict[tuple[str, tuple[str, ...]], str]:
    """Return where each word with its phones stands first in a file that `read` reads with these options."""
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for place, (word, variant) in _entries(path, format or recognise(path), phones, [], skip_bad=True):
        found.setdefault((word, variant.phones), place)
    return found


def _entries(
    path: Path, name: str, phones: Phones, skipped: list[str], skip_bad: bool
) -> Iterator[tuple[str, tuple[str, Variant]]]:
    """Yield the entries of a file with their places; a bad one raises or is listed.

    A file with much more text in its entries than it has itself is refused before they are all made.
    """
    left = _MOST_TEXT * size(path)
    parse = FORMATS[name].parse
    for place, record in FORMATS[name].records(path):
        found: list[tuple[str, Variant]] = []
        try:
            for entry in parse(record) if phones == "blanks" else _cut(parse(record)):
                found.append(checked(*entry))
                left -= _length(*found[-1])
                if left < 0:
                    rule = f"up to here the entries have {_MOST_TEXT} times as much text as the file"
                    _check.fail(f"{os.fspath(path)}, {place}: {rule}")
        except InvalidEntry as error:
            message = f"{os.fspath(path)}, {place}: {error}"
            if not skip_bad:
                _check.fail(message)
            skipped.append(message)
        else:
            yield from ((place, entry) for entry in found)


def _cut(entries: Entries) -> Iterator[tuple[str, Variant]]:
    """Yield the pronunciations of entries in IPA."""
    for word, variant in entries:
        for pronunciation in cut(variant):
            yield word, pronunciation


def _length(word: str, variant: Variant) -> int:
    """Return how much of a file an entry takes at least, unless the file has parts of it once for several entries."""
    return 1 + len(word) + sum(map(len, variant.phones)) + len(variant.role)
