"""Dictionaries of one entry a line: CMUdict, MFA, Kaldi, Phonetisaurus, tab-separated values.

A parser returns the entries of a line. A writer returns the bytes of a file.

References
----------
The CMU Pronouncing Dictionary; McAuliffe et al. 2017, "Montreal Forced Aligner"; Povey et al. 2011, "The Kaldi Speech
Recognition Toolkit"; Novak et al. 2016, "Phonetisaurus".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import takewhile

from regard_lexicon.lexicon import InvalidEntry, Lexicon, Variant, known

__all__ = [
    "Entries",
    "cmudict_refusal",
    "decimal",
    "fields",
    "kaldi_refusal",
    "mfa_refusal",
    "mfa_spelling",
    "parse_cmudict",
    "parse_kaldi",
    "parse_mfa",
    "parse_tsv",
    "phonetisaurus_refusal",
    "plain_lines",
    "tsv_refusal",
    "write_cmudict",
    "write_kaldi",
    "write_mfa",
    "write_tsv",
]

Entries = Iterable[tuple[str, Variant]]

NUMBERED = re.compile(r"(.+)\([0-9]+\)")  # the further variants of a word, in CMUdict
COMMENTS = (";;;", "# ", "##")  # of CMUdict; "#SHARP-SIGN" is a word
NOTE = re.compile(r"(?<=[^ \t])[ \t]+#.*")  # after the phones of CMUdict
NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?|\.[0-9]+")
# MFA takes what begins so for a number, wherever one may stand.
MFA_NUMBER = re.compile(r"([0-9]+\.[0-9]+|1)\b")
FORBIDDEN_WORDS = {"<s>", "</s>", "<eps>", "#0"}  # of Kaldi
FORBIDDEN_PHONE = re.compile(r"#.*|.*_[BESI]|<eps>")
RESERVED = "}|_"  # in Phonetisaurus's files of aligned words


def fields(line: str) -> list[str]:
    """Return what stands between blanks and tabs; other white space is part of a field."""
    return [field for field in re.split("[ \t]+", line) if field]


def _entry(word: str, phones: list[str], probability: str = "") -> Entries:
    """Return one entry as a list."""
    if not phones:
        raise InvalidEntry("the word has no phones")
    return [(word, Variant(tuple(phones), float(probability) if probability else None))]


def plain_lines(lines: Iterable[str]) -> bytes:
    """Return a text file."""
    return "".join(f"{line}\n" for line in lines).encode()


def decimal(value: float | None) -> str:
    """Return a probability with at most six digits after the point and no exponent; 1.0 if it is not known."""
    text = f"{max(1.0 if value is None else value, 1e-6):.6f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


# ----------------------------------------------------------------------------------------------------- CMUdict


def parse_cmudict(line: str) -> Entries:
    """Read ``word P1 P2``, ``word(2) P1 P2 # note`` or a comment."""
    if line.startswith(COMMENTS) or line.strip() == "#":
        return []
    word, *phones = fields(NOTE.sub("", line))
    numbered = NUMBERED.fullmatch(word)
    return _entry(numbered[1] if numbered else word, phones)


def write_cmudict(lexicon: Lexicon) -> bytes:
    """Number the variants of a word from 2."""
    return plain_lines(
        f"{word}{f'({number})' if number > 1 else ''} {' '.join(variant.phones)}"
        for word, variants in lexicon.items()
        for number, variant in enumerate(variants, start=1)
    )


def cmudict_refusal(word: str, variant: Variant) -> str:
    """Return why CMUdict's form cannot express an entry, or an empty text."""
    if NUMBERED.fullmatch(word):
        return "the end of the word reads as the number of a variant"
    if f"{word} ".startswith(COMMENTS):
        return "the word reads as the beginning of a comment"
    if any(phone.startswith("#") for phone in variant.phones):
        return "a phone that begins with # reads as a comment"
    return _blank(word)


def _blank(word: str) -> str:
    return "the word contains a blank, at which the reader splits" if " " in word else ""


# --------------------------------------------------------------------------------------------------------- MFA


def parse_mfa(line: str) -> Entries:
    """Read ``word TAB probability TAB phones``, with up to three more numbers, which are not kept.

    A further number fills a cell, or is one for MFA: in ``word TAB 1.0 TAB 9 f`` 9 is a phone. Without TABs blanks
    separate, as in Kaldi's lexiconp.txt.
    """
    columns = line.split("\t") if "\t" in line else [*line.strip(" ").split(" ", 1), ""]
    word, *cells = [cell.strip(" ") for cell in columns if cell.strip(" ")]
    rest = fields(" ".join(cells))
    if not rest or not NUMBER.fullmatch(rest[0]):
        raise InvalidEntry("the word has no probability")
    filled = len([*takewhile(NUMBER.fullmatch, cells[:-1])])
    numbers = [*takewhile(lambda i: i < filled or MFA_NUMBER.fullmatch(rest[i]), range(1, min(4, len(rest))))]
    return _entry(word, rest[1 + len(numbers) :], rest[0])


def write_mfa(lexicon: Lexicon) -> bytes:
    """Write probabilities relative to the best variant of the word, whose probability is 1.0."""
    return plain_lines(
        f"{word}\t{decimal(known(variant.probability) / best)}\t{' '.join(variant.phones)}"
        for word, variants in lexicon.items()
        for best in [max(known(variant.probability) for variant in variants)]
        for variant in variants
    )


def mfa_spelling(word: str) -> str:
    """Return the form to which the reader changes a word."""
    return unicodedata.normalize("NFKC", word)


def mfa_refusal(word: str, variant: Variant) -> str:
    """Return why MFA would read another entry, or an empty text."""
    if MFA_NUMBER.match(variant.phones[0]):
        return f"the reader takes the first phone, {variant.phones[0]}, for a probability"
    return kaldi_refusal(word, variant)


# ------------------------------------------------------------------------------------------------------- Kaldi


def parse_kaldi(line: str) -> Entries:
    """Read a line of lexicon.txt: ``word phones``."""
    word, *phones = fields(line)
    return _entry(word, phones)


def write_kaldi(lexicon: Lexicon) -> bytes:
    """Write a line for each variant."""
    return plain_lines(f"{word} {' '.join(variant.phones)}" for word, variant in lexicon.entries())


def kaldi_refusal(word: str, variant: Variant) -> str:
    """Return which rule of Kaldi's check of dictionaries an entry breaks, or an empty text."""
    if word in FORBIDDEN_WORDS:
        return f"Kaldi reserves the word {word}"
    for phone in variant.phones:
        if FORBIDDEN_PHONE.fullmatch(phone):
            return f"Kaldi reserves phones such as {phone}"
    return _blank(word)


# ------------------------------------------------------------------------- Phonetisaurus, tab-separated values


def parse_tsv(line: str) -> Entries:
    """Read ``word TAB phones``; the word may contain blanks."""
    word, tab, phones = line.partition("\t")
    if not tab or "\t" in phones.strip("\t "):
        raise InvalidEntry(f"a line has two columns, not {1 + line.strip(chr(9)).count(chr(9))}")
    return _entry(word.strip(" "), fields(phones))


def write_tsv(lexicon: Lexicon) -> bytes:
    """Write a line for each variant."""
    return plain_lines(f"{word}\t{' '.join(variant.phones)}" for word, variant in lexicon.entries())


def tsv_refusal(word: str, variant: Variant) -> str:
    """Return an empty text: every entry can be written."""
    return ""


def phonetisaurus_refusal(word: str, variant: Variant) -> str:
    """Return which reserved character an entry has, or an empty text."""
    for character in RESERVED:
        if character in word or any(character in phone for phone in variant.phones):
            return f"Phonetisaurus reserves the character {character}"
    return _blank(word)
