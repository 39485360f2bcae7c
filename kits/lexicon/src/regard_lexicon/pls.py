"""The Pronunciation Lexicon Specification: XML with lexemes in IPA.

The file is untrusted. Entities, declared attributes and very long namespaces are refused, so that a short text cannot
expand to a long one and no other file is read; what of an element is kept does not grow with its depth.

References
----------
W3C 2008, "Pronunciation Lexicon Specification (PLS) Version 1.0".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, NoReturn
from xml.parsers import expat
from xml.sax.saxutils import escape

from regard import _check
from regard_lexicon.ipa import segments
from regard_lexicon.lexicon import MOST_LETTERS, InvalidEntry, Lexicon, Variant
from regard_lexicon.lines import Entries, Files

__all__ = ["lexemes", "parse_lexeme", "qualified", "refusal", "write"]

NAMESPACE = "http://www.w3.org/2005/01/pronunciation-lexicon"
_LONGEST_NAMESPACE = 1_000  # characters
_ROLE = re.compile(r"(?:([A-Za-z_][\w.-]*):)?[A-Za-z_][\w.-]*")


class Lexeme(NamedTuple):
    """A lexeme of the file: its spellings, and its pronunciations with alphabet and preference."""

    roles: list[str]
    graphemes: list[str]
    phonemes: list[tuple[str, str, bool]]


class _LexemeParser:
    """Collects lexemes from the events of a parser."""

    def __init__(self) -> None:
        self.lexemes: list[tuple[str, Lexeme]] = []
        self.alphabet = ""
        self.text: list[str] | None = None
        self.attributes: dict[str, str] = {}
        self.depth = 0
        self.in_lexeme = False
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.EntityDeclHandler = parser.SkippedEntityHandler = self.refuse
        parser.AttlistDeclHandler = self.refuse
        parser.StartNamespaceDeclHandler = self.check_namespace

    def refuse(self, *_: object) -> NoReturn:
        """Refuse entities, which may expand without end or read other files, and attributes that every element has."""
        _check.fail("the file declares attributes, or declares or uses an entity, which are not read")

    def check_namespace(self, _: str | None, name: str | None) -> None:
        """Refuse a long namespace, which is part of the name of each element."""
        if name and len(name) > _LONGEST_NAMESPACE:
            _check.fail(f"a namespace has {len(name):,} characters; at most {_LONGEST_NAMESPACE} are read")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        name = name.removeprefix(f"{NAMESPACE} ")
        self.depth += 1
        if self.depth == 1:
            self.check_root(name, attributes)
        elif self.depth == 2:
            self.in_lexeme = name == "lexeme"
            if self.in_lexeme:
                line = f"line {self.parser.CurrentLineNumber}"
                self.lexemes.append((line, Lexeme(attributes.get("role", "").split(), [], [])))
        elif self.depth == 3 and self.in_lexeme and name in ("grapheme", "phoneme"):
            self.text, self.attributes = [], attributes

    def check_root(self, name: str, attributes: dict[str, str]) -> None:
        """Raise unless the file is a lexicon in IPA."""
        if name != "lexicon":
            _check.fail(f"the root of the file is {name}, not a lexicon of PLS")
        self.alphabet = attributes.get("alphabet", "")
        if self.alphabet != "ipa":
            _check.fail(f'the alphabet of a lexicon must be "ipa", not {self.alphabet!r:.60}')

    def characters(self, text: str) -> None:
        """Keep the text of a spelling or a pronunciation."""
        if self.text is not None:
            self.text.append(text)

    def end(self, name: str) -> None:
        """End an element."""
        self.depth -= 1
        if self.text is None or self.depth != 2:
            return
        text = " ".join(re.split("[ \t\r\n]+", "".join(self.text).strip(" \t\r\n")))
        lexeme = self.lexemes[-1][1]
        if name.removeprefix(f"{NAMESPACE} ") == "grapheme":
            lexeme.graphemes.append(text)
        else:
            preferred = self.attributes.get("prefer") == "true"
            lexeme.phonemes.append((text, self.attributes.get("alphabet", self.alphabet), preferred))
        self.text = None


def lexemes(data: bytes) -> Iterator[tuple[str, Lexeme]]:
    """Yield the lexemes of a file, with their lines."""
    parser = _LexemeParser()
    try:
        parser.parser.Parse(data, True)
    except expat.ExpatError as error:
        _check.fail(f"the file is no XML: {error}")
    yield from parser.lexemes


def parse_lexeme(lexeme: Lexeme) -> Entries:
    """Read a lexeme; preferred pronunciations come first."""
    if not lexeme.graphemes or not lexeme.phonemes:
        raise InvalidEntry("a lexeme has no grapheme or no phoneme")
    for _, alphabet, _ in lexeme.phonemes:
        if alphabet != "ipa":
            raise InvalidEntry(f'a phoneme is in the alphabet {alphabet!r:.60}, not "ipa"')
    ordered = sorted(lexeme.phonemes, key=lambda phoneme: not phoneme[2])
    phones = [tuple(text.split(" ")) if " " in text else segments(text) for text, _, _ in ordered]
    return (  # one after the other: of a short lexeme there may be very many
        (word, Variant(variant, None, role))
        for word in lexeme.graphemes
        for role in lexeme.roles or [""]
        for variant in phones
    )


def write(lexicon: Lexicon) -> Files:
    """Write a lexeme for each word and role, with its pronunciations in their order."""
    prefixes = sorted(
        {match[1] for _, v in lexicon.entries() if (match := _ROLE.fullmatch(v.role)) and match[1]}
    )
    declared = "".join(f' xmlns:{prefix}="urn:role:{prefix}"' for prefix in prefixes)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<lexicon version="1.0" xmlns="{NAMESPACE}"{declared} alphabet="ipa" xml:lang="und">',
        *(line for word, variants in lexicon.items() for line in _lexemes(word, variants)),
        "</lexicon>",
    ]
    return {"": "".join(f"{line}\n" for line in lines).encode()}


def _lexemes(word: str, variants: tuple[Variant, ...]) -> Iterator[str]:
    """Yield the lexemes of a word: successive variants with the same role are one, and so are those of one text."""
    texts = dict.fromkeys((v.role, unicodedata.normalize("NFC", "".join(v.phones))) for v in variants)
    for role, group in groupby(texts, itemgetter(0)):
        named = f' role="{role}"' if role else ""
        phonemes = "".join(f"<phoneme>{escape(text)}</phoneme>" for _, text in group)
        yield f"<lexeme{named}><grapheme>{escape(word)}</grapheme>{phonemes}</lexeme>"


def qualified(role: str) -> str:
    """Return a role if it is a qualified name of XML, otherwise none."""
    return role if _ROLE.fullmatch(role) else ""


def refusal(word: str, variant: Variant) -> str:
    """Return why an entry is not in IPA, or an empty text."""
    if len("".join(variant.phones)) > MOST_LETTERS:
        return f"a pronunciation in IPA has at most {MOST_LETTERS:,} characters"
    other = next((phone for phone in variant.phones if re.search("[A-Z0-9]", phone)), "")
    return f"the phone {other} is not in IPA: a phone map is needed" if other else ""
