"""The Pronunciation Lexicon Specification: XML with lexemes in IPA.

The file is untrusted: entities are refused, so that a short text cannot expand to a long one and no other file is read.

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
from regard.pronunciation.lexicon import Lexicon, Variant, Wrong
from regard.pronunciation.lines import Entries, Files

__all__ = ["lexemes", "parse_lexeme", "qualified", "refusal", "write"]

NAMESPACE = "http://www.w3.org/2005/01/pronunciation-lexicon"
_TIES = "\u0361\u035c"
_ROLE = re.compile(r"(?:([A-Za-z_][\w.-]*):)?[A-Za-z_][\w.-]*")


class Lexeme(NamedTuple):
    """A lexeme of the file: its spellings, and its pronunciations with alphabet and preference."""

    roles: list[str]
    graphemes: list[str]
    phonemes: list[tuple[str, str, bool]]


class _Parser:
    """Collects lexemes from the events of a parser."""

    def __init__(self) -> None:
        self.lexemes: list[tuple[str, Lexeme]] = []
        self.alphabet = ""
        self.text: list[str] | None = None
        self.attributes: dict[str, str] = {}
        self.names: list[str] = []
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.characters
        parser.EntityDeclHandler = parser.SkippedEntityHandler = self.refuse

    def refuse(self, *_: object) -> NoReturn:
        """Refuse entities, which may expand without end or read other files."""
        _check.fail("the file declares or uses an entity, which is not read")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        name = name.removeprefix(f"{NAMESPACE} ")
        if not self.names:
            self.check_root(name, attributes)
        self.names.append(name)
        if len(self.names) == 2 and name == "lexeme":
            line = f"line {self.parser.CurrentLineNumber}"
            self.lexemes.append((line, Lexeme(attributes.get("role", "").split(), [], [])))
        if self.names[1:-1] == ["lexeme"] and name in ("grapheme", "phoneme"):
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

    def end(self, _: str) -> None:
        """End an element."""
        name = self.names.pop()
        if self.text is None or self.names[1:] != ["lexeme"]:
            return
        text = " ".join(re.split("[ \t\r\n]+", "".join(self.text).strip(" \t\r\n")))
        lexeme = self.lexemes[-1][1]
        if name == "grapheme":
            lexeme.graphemes.append(text)
        else:
            preferred = self.attributes.get("prefer") == "true"
            lexeme.phonemes.append((text, self.attributes.get("alphabet", self.alphabet), preferred))
        self.text = None


def lexemes(data: bytes) -> Iterator[tuple[str, Lexeme]]:
    """Yield the lexemes of a file, with their lines."""
    parser = _Parser()
    try:
        parser.parser.Parse(data, True)
    except expat.ExpatError as error:
        _check.fail(f"the file is no XML: {error}")
    yield from parser.lexemes


def parse_lexeme(lexeme: Lexeme) -> Entries:
    """Read a lexeme; preferred pronunciations come first."""
    if not lexeme.graphemes or not lexeme.phonemes:
        raise Wrong("a lexeme has no grapheme or no phoneme")
    for _, alphabet, _ in lexeme.phonemes:
        if alphabet != "ipa":
            raise Wrong(f'a phoneme is in the alphabet {alphabet!r:.60}, not "ipa"')
    ordered = sorted(lexeme.phonemes, key=lambda phoneme: not phoneme[2])
    return [
        (word, Variant(_phones(text), None, role))
        for word in lexeme.graphemes
        for role in lexeme.roles or [""]
        for text, _, _ in ordered
    ]


def _phones(text: str) -> tuple[str, ...]:
    """Return the phones between blanks; without blanks, a letter with its marks is a phone.

    A stress mark belongs to the letter after it, another modifier to the letter before it; a tie joins two letters.
    """
    if " " in text:
        return tuple(text.split(" "))
    phones: list[str] = []
    open_phone = False  # whether the next letter belongs to the last phone
    for character in unicodedata.normalize("NFD", text):
        if phones and (open_phone or _modifies(character)):
            phones[-1] += character
        else:
            phones.append(character)
        open_phone = character in "ˈˌ" or character in _TIES
    return tuple(phones)


def _modifies(character: str) -> bool:
    """Return whether a character modifies the letter before it."""
    return character not in "ˈˌ" and unicodedata.category(character) in ("Mn", "Lm", "Sk")


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
    other = next((phone for phone in variant.phones if re.search("[A-Z0-9]", phone)), "")
    return f"the phone {other} is not in IPA: a phone map is needed" if other else ""
