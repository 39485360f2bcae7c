"""Dictionaries prepared for a format and a voice: the entries that are written, those left out, and the reasons."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path as FilePath
from typing import NamedTuple

from regard import _check, _files
from regard._characters import as_cell
from regard_lexicon.files import Path
from regard_lexicon.formats import FORMATS, Format
from regard_lexicon.lexicon import MOST_PHONES, InvalidEntry, Lexicon, Variant, known
from regard_lexicon.lines import plain_lines
from regard_lexicon.stress import STRESS, Stress, stressed
from regard_lexicon.symbols import PhoneMap, Replacements, Symbols

__all__ = ["LeftOut", "Prepared", "prepare", "saved_files", "write"]

_OF_ROLES = "one of each role"
_MOST_LOST = 0.9  # of the words, for which a phone map may have no symbols: such a map is of other phones


class LeftOut(NamedTuple):
    """A pronunciation that a format or a voice cannot have, with the reason."""

    word: str
    phones: tuple[str, ...]
    reason: str


class Prepared:
    """A dictionary as a format has it.

    `lexicon` has the entries that will be written, spelled as the format's readers look them up; `left_out` has the
    pronunciations that are left out, and `lost` the words that lose all of theirs. `content` has the bytes of
    the file.
    """

    def __init__(
        self, lexicon: Lexicon, format: str, left_out: Iterable[LeftOut], lost: Iterable[str]
    ) -> None:
        self.lexicon = lexicon
        self.format = format
        self.left_out = tuple(left_out)
        self.lost = tuple(lost)
        self.content = FORMATS[format].write(lexicon)

    def __repr__(self) -> str:
        return f"<Prepared for {self.format}: {len(self.lexicon):,} words; {len(self.lost):,} words left out>"

    def reasons(self) -> dict[str, int]:
        """Return how many pronunciations are left out for each reason, the most frequent reason first."""
        return dict(Counter(entry.reason for entry in self.left_out).most_common())

    def save(self, path: Path, /) -> list[str]:
        """Write the file, with a list of what is left out beside it if there is any, and return their paths.

        The list is a table of word, phones and reason; its name is that of the dictionary and ``.left-out.tsv``. A list
        that an earlier call has written is replaced in any case.
        """
        target, listed = saved_files(path)
        files = {target: self.content}
        if self.left_out or listed.exists():
            files[listed] = plain_lines(_left_out_lines(self.left_out))
        _files.replace_together(files)
        return [os.fspath(name) for name in files]


def saved_files(path: Path) -> tuple[FilePath, FilePath]:
    """Return the files that `Prepared.save` may write; raise if they are one."""
    target = FilePath(path)
    listed = target.with_name(f"{target.name}.left-out.tsv")
    if _files.real(target) == _files.real(listed):
        _check.fail(f"{target} and {listed} are one file.", hint="give the first another name")
    return target, listed


def _left_out_lines(left_out: Iterable[LeftOut]) -> Iterator[str]:
    yield "word\tphones\treason"
    for entry in left_out:
        yield "\t".join(map(as_cell, (entry.word, " ".join(entry.phones), entry.reason)))


def prepare(
    lexicon: Lexicon,
    /,
    format: str,
    *,
    stress: Stress = "keep",
    phone_map: PhoneMap | None = None,
    symbols: Iterable[str] | None = None,
) -> Prepared:
    """Return a dictionary as a format has it, before anything is written.

    The stress is changed first, then phones are mapped, then spelled in symbols: several for a phone where necessary.

    Parameters
    ----------
    lexicon : Lexicon
        The dictionary.
    format : str
        The name of a format, one of `FORMATS`.
    stress : {"keep", "drop", "separate"}, optional
        Whether the marks of stress stay, are dropped, or become phones of their own: the digit of a vowel of ARPAbet,
        ``ˈ`` and ``ˌ``, and an apostrophe or a superscript 1 or 2 in front of a phone.
    phone_map : mapping, optional
        By which symbols sequences of phones are replaced: `read_phone_map` reads one.
    symbols : iterable of str, optional
        The symbols of the voice: `read_symbols` reads them. The formats of sherpa-onnx need them.

    Returns
    -------
    Prepared
        The entries that will be written, and those that are left out.

    Raises
    ------
    ValueError
        If the format is unknown, if it needs symbols, if no word can be written, or if a phone map
        leaves out more than nine of ten.

    See Also
    --------
    write : Prepare a dictionary and write it.

    Examples
    --------
    >>> lexicon = Lexicon([("cab", "k æ b".split()), ("x-ray", "ɛ k s".split()), ("bath", "b ɑː θ".split())])
    >>> prepared = prepare(lexicon, "sherpa-vits", symbols=["k", "æ", "b", "ɛ", "s"])
    >>> [*prepared.lexicon], [(entry.word, entry.reason) for entry in prepared.left_out]
    (['cab'], [('x-ray', 'the reader cuts a word at -'), ('bath', 'ɑ, in the phone ɑː, is no symbol of the voice')])
    """
    _check.choice("format", format, FORMATS)
    chosen = FORMATS[format]
    _check.choice("stress", stress, STRESS)
    if chosen.needs_symbols and symbols is None:
        _check.fail(
            f"the format {format!r} needs the symbols of the voice", hint="symbols=read_symbols('tokens.txt')"
        )
    replace = Replacements(phone_map) if phone_map else None
    voice = None if symbols is None else Symbols(symbols)
    kept: list[tuple[str, Variant]] = []
    left_out: list[LeftOut] = []
    for word, variant in lexicon.entries():
        try:
            kept.append((word, _converted(chosen, word, variant, stress, replace, voice)))
        except InvalidEntry as error:
            left_out.append(LeftOut(word, variant.phones, str(error)))
    result, others = _fitting(chosen, kept)
    left_out += others
    listed = dict.fromkeys(entry.word for entry in left_out)
    lost = [word for word in listed if chosen.spelling(word) not in result]
    if not result:
        hint = "; ".join(f"{entry.word}: {entry.reason}" for entry in left_out[:1])
        _check.fail(f"no word can be written as {format!r}", hint=hint)
    prepared = Prepared(result, format, left_out, lost)
    if replace is not None and len(lost) > _MOST_LOST * len(lexicon):
        rule = f"the phone map leaves out {len(lost):,} of {len(lexicon):,} words"
        _check.fail(rule, hint=f"mostly since {next(iter(prepared.reasons()))}")
    return prepared


def _converted(
    chosen: Format,
    word: str,
    variant: Variant,
    stress: Stress,
    replace: Replacements | None,
    voice: Symbols | None,
) -> Variant:
    """Return a variant in the voice's symbols; raise `InvalidEntry` if it can't be written."""
    phones = stressed(variant.phones, stress)
    if replace is not None:
        phones = replace(phones)
    if voice is not None:
        phones = voice.spell(phones)
    if not phones:
        raise InvalidEntry("no phone is left of the word")
    if len(phones) > MOST_PHONES:
        raise InvalidEntry(f"it would have {len(phones):,} phones; a word has at most {MOST_PHONES:,}")
    converted = variant._replace(phones=phones, role=variant.role if chosen.variants == _OF_ROLES else "")
    if reason := chosen.refusal(chosen.spelling(word), converted):
        raise InvalidEntry(reason)
    return converted


def _fitting(chosen: Format, entries: list[tuple[str, Variant]]) -> tuple[Lexicon, list[LeftOut]]:
    """Return as many variants of each word as a format has, and the others."""
    spelled: dict[str, list[tuple[str, Variant]]] = {}
    for word, variant in entries:
        spelled.setdefault(chosen.spelling(word), []).append((word, variant))
    kept: list[tuple[str, Variant]] = []
    others: list[LeftOut] = []
    for spelling, variants in spelled.items():
        taken: dict[object, tuple[str, ...]] = {}
        best_first = sorted(variants, key=lambda entry: -known(entry[1].probability))
        for _, variant in best_first:
            taken.setdefault(_place(chosen, variant), variant.phones)
        for word, variant in variants:
            if taken[_place(chosen, variant)] == variant.phones:
                kept.append((spelling, variant))
            else:
                others.append(LeftOut(word, variant.phones, _AGAIN[chosen.variants]))
    return Lexicon.of_checked(kept), others


_AGAIN = {
    "one": "a reader finds one pronunciation of a word, and this is not the first",
    _OF_ROLES: "a word has one pronunciation of each role, and this is not the first",
}


def _place(chosen: Format, variant: Variant) -> object:
    """Return what two variants of a word have in common if there is room for one of them."""
    return {"one": None, _OF_ROLES: variant.role, "all": variant.phones}[chosen.variants]


def write(
    lexicon: Lexicon,
    path: Path,
    /,
    format: str,
    *,
    stress: Stress = "keep",
    phone_map: PhoneMap | None = None,
    symbols: Iterable[str] | None = None,
) -> Prepared:
    """Write a dictionary in a format, and beside it a list of what the format or the voice cannot represent.

    Parameters
    ----------
    lexicon : Lexicon
        The dictionary.
    path : str or path
        The file. What is left out is listed in another, whose name ends in ``.left-out.tsv``.
    format, stress, phone_map, symbols
        As for `prepare`.

    Returns
    -------
    Prepared
        What has been written and what has been left out.

    Raises
    ------
    ValueError
        As `prepare`, before anything is written.

    See Also
    --------
    prepare : See what is left out before anything is written.
    read : Read a dictionary.

    Examples
    --------
    >>> lexicon = Lexicon([("read", ["R", "EH1", "D"]), ("read", ["R", "IY1", "D"])])
    >>> write(lexicon, "words.dict", "mfa", stress="drop")
    <Prepared for mfa: 1 words; 0 words left out>
    >>> with open("words.dict") as file:
    ...     print(file.read().expandtabs(6), end="")
    read  1.0   R EH D
    read  1.0   R IY D
    """
    prepared = prepare(lexicon, format, stress=stress, phone_map=phone_map, symbols=symbols)
    prepared.save(path)
    return prepared
