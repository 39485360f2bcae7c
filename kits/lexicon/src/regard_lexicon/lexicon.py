"""What a pronunciation dictionary contains: words, and the alternatives for each of them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Self

from regard import _check

__all__ = ["Lexicon", "Variant", "InvalidEntry", "checked", "checked_phones", "known", "limited"]

MOST_LETTERS, MOST_PHONES = 1_000, 1_000  # of an entry: no word has as many, and a damaged file may
MOST_IN_PHONE = 100  # characters


class InvalidEntry(Exception):
    """An entry that cannot be read, with the reason."""


class Variant(NamedTuple):
    """One pronunciation of a word: its phones, and if they are known its probability and its role.

    A probability is relative to the other variants of the word, above 0 and at most 1. A role is a part of speech or
    another mark that distinguishes homographs, as the dictionary writes it.
    """

    phones: tuple[str, ...]
    probability: float | None = None
    role: str = ""


def known(probability: float | None) -> float:
    """Return a probability, 1 if it is not known."""
    return 1.0 if probability is None else probability


class Lexicon(Mapping[str, tuple[Variant, ...]]):
    """A pronunciation dictionary: a mapping from words to their variants, in the order of the file.

    It is made from pairs of a word and a variant in any order. The variants of a word are kept together, at the place
    of the first one; of several with the same phones and role the most probable one is kept. Words and phones are in
    Unicode's form NFC. `format` is the name of the format from which the dictionary was read, and `skipped` has a
    message for each line that could not be read.
    """

    def __init__(
        self,
        entries: Iterable[tuple[str, Variant | Iterable[str]]] = (),
        *,
        format: str = "",
        skipped: Iterable[str] = (),
    ) -> None:
        self._words = _grouped(_correct(word, variant) for word, variant in entries)
        self.format = format
        self.skipped = tuple(skipped)

    @classmethod
    def of_checked(
        cls, entries: Iterable[tuple[str, Variant]], format: str = "", skipped: Iterable[str] = ()
    ) -> Self:
        """Return a dictionary of entries that are known to be right."""
        words = _grouped(entries)  # before `skipped`, to which reading the entries may add
        lexicon = cls(format=format, skipped=skipped)
        lexicon._words = words
        return lexicon

    def __getitem__(self, word: str) -> tuple[Variant, ...]:
        return self._words[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)

    def __repr__(self) -> str:
        words, variants = len(self), sum(map(len, self.values()))
        return f"<Lexicon: {words:,} words, {variants:,} pronunciations, {len(self.phones())} phones>"

    def entries(self) -> Iterator[tuple[str, Variant]]:
        """Yield each pronunciation with its word, the variants of a word one after the other."""
        for word, variants in self.items():
            for variant in variants:
                yield word, variant

    def phones(self) -> list[str]:
        """Return the different phones, sorted."""
        return sorted({phone for _, variant in self.entries() for phone in variant.phones})


def _correct(word: str, variant: Variant | Iterable[str]) -> tuple[str, Variant]:
    """Return a checked entry, or raise an error of this package."""
    try:
        return checked(word, variant)
    except InvalidEntry as error:
        _check.fail(f"{error}. Got the entry {word!r:.60}.")


def _grouped(entries: Iterable[tuple[str, Variant]]) -> dict[str, tuple[Variant, ...]]:
    """Return the variants of each word, those with the same phones and role as one."""
    found: dict[str, dict[tuple[tuple[str, ...], str], Variant]] = {}
    for word, variant in entries:
        same = found.setdefault(word, {})
        key = variant.phones, variant.role
        same[key] = _more_probable(same[key], variant) if key in same else variant
    return {word: tuple(variants.values()) for word, variants in found.items()}


def _more_probable(old: Variant, new: Variant) -> Variant:
    """Return the variant with the higher probability; one without any has the highest."""
    if old.probability is None or (new.probability is not None and new.probability <= old.probability):
        return old
    return new


def checked(word: object, variant: Variant | Iterable[str]) -> tuple[str, Variant]:
    """Return an entry in Unicode's form NFC; raise `InvalidEntry` if a file could not contain it."""
    if not isinstance(variant, Variant):
        variant = Variant(tuple(variant))
    if not isinstance(word, str):
        raise InvalidEntry(f"a word must be text, not {type(word).__name__}")
    word = unicodedata.normalize("NFC", limited("the word", word, MOST_LETTERS))
    check_characters("the word", word, MOST_LETTERS)
    if word != word.strip(" ") or "  " in word:
        raise InvalidEntry("the word has a blank at an end, or two in a row")
    if variant.role:
        check_characters("the role", variant.role, MOST_LETTERS)
    return word, Variant(
        checked_phones(variant.phones), _checked_probability(variant.probability), variant.role
    )


def checked_phones(phones: Iterable[str]) -> tuple[str, ...]:
    """Return phones in form NFC, without blanks in them."""
    given = tuple(phones)
    limited("a phone", max(given, key=len, default=""), MOST_IN_PHONE)
    if len(given) > MOST_PHONES:
        raise InvalidEntry(f"a word has at most {MOST_PHONES:,} phones, not {len(given):,}")
    # One call for all; NFC never crosses a line feed.
    joined = unicodedata.normalize("NFC", "\n".join(given))
    if not joined:
        raise InvalidEntry("the word has no phones")
    normal = tuple(joined.split("\n"))
    if len(normal) != len(given):
        raise InvalidEntry("a phone contains U+000A")
    if not joined.isascii() or not joined.replace("\n", "").isalnum():
        for phone in normal:
            check_characters("a phone", phone, MOST_IN_PHONE)
            if " " in phone:
                raise InvalidEntry(f"the phone {phone!r:.60} contains a blank")
    if "" in normal:
        raise InvalidEntry("a phone is empty")
    return normal


def limited(what: str, text: str, most: int = MOST_LETTERS) -> str:
    """Return a text that is not very long: Unicode's forms of a text take time with the square of its marks."""
    if len(text) > most:
        raise InvalidEntry(f"{what} has {len(text):,} characters; at most {most:,} are read")
    return text


def check_characters(what: str, text: str, most: int) -> None:
    """Raise if a text is empty, very long, or has white space other than a blank, control characters or surrogates."""
    if not limited(what, text, most):
        raise InvalidEntry(f"{what} is empty")
    if text.isascii() and text.isalnum():
        return
    for character in text:
        if character != " " and (character.isspace() or not _can_be_written(character)):
            name = unicodedata.name(character, "a control character")
            raise InvalidEntry(f"{what} contains U+{ord(character):04X} ({name})")


def _can_be_written(character: str) -> bool:
    """Return whether a character is neither a control character, a surrogate, a byte order mark nor a noncharacter."""
    is_mark = character == "\ufeff" or ord(character) & 0xFFFE == 0xFFFE
    return unicodedata.category(character) not in ("Cc", "Cs") and not is_mark


def _checked_probability(value: float | None) -> float | None:
    """Return a probability above 0 and at most 1, or None."""
    if value is not None and not 0 < value <= 1:
        raise InvalidEntry(f"a probability must be above 0 and at most 1, not {value:g}")
    return value
