"""misaki's JSON: a word, and its phones or an object of phones by part of speech. A character is a phone.

References
----------
misaki, https://github.com/hexgrad/misaki
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from regard import _check
from regard._lines import utf_8
from regard_lexicon.lexicon import MOST_LETTERS, InvalidEntry, Lexicon, Variant, limited
from regard_lexicon.lines import Entries

__all__ = ["items", "parse_item", "refusal", "write"]

DEFAULT = "DEFAULT"

Pairs = list[tuple[str, Any]]


def items(data: bytes) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Yield the words with their values, a word that stands twice too; objects are lists of pairs."""
    try:
        text = b"".join(utf_8([data], "the text")).decode("utf-8-sig")
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        _check.fail(f"the file is no JSON in UTF-8: {error}")
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        _check.fail("the file is no object of JSON")
    for number, (word, value) in enumerate(pairs, start=1):
        yield f"entry {number}", (word, value)


def parse_item(item: tuple[str, Any]) -> Entries:
    """Read an entry; a part of speech whose value is null has no pronunciation."""
    word, value = item
    roles = [(DEFAULT, value)] if isinstance(value, str) else value
    if not isinstance(roles, list) or not all(isinstance(role, tuple) for role in roles):
        raise InvalidEntry(f"the value of {word!r:.60} is neither text nor an object")
    found = [(role, text) for role, text in roles if text is not None]
    if not found or not all(isinstance(text, str) for _, text in found):
        raise InvalidEntry(f"{word!r:.60} has no pronunciation that is text")
    return [(word, Variant(_characters(text), None, "" if role == DEFAULT else role)) for role, text in found]


def _characters(text: str) -> tuple[str, ...]:
    """Return the characters of phones; blanks separate them only."""
    return tuple(unicodedata.normalize("NFC", limited("a pronunciation", text)).replace(" ", ""))


def write(lexicon: Lexicon) -> bytes:
    """Write an object with one entry a line; several variants have the keys DEFAULT and their roles."""
    entries = {word: _value(variants) for word, variants in lexicon.items()}
    return f"{json.dumps(entries, ensure_ascii=False, indent=1)}\n".encode()


def _value(variants: tuple[Variant, ...]) -> str | dict[str, str]:
    """Return the value of a word; the first variant is the default if none is."""
    texts = {variant.role or DEFAULT: "".join(variant.phones) for variant in reversed(variants)}
    texts.setdefault(DEFAULT, "".join(variants[0].phones))
    return (
        {key: texts[key] for key in reversed(texts)}
        if len(texts) > 1 and len(variants) > 1
        else texts[DEFAULT]
    )


def refusal(word: str, variant: Variant) -> str:
    """Return which phone has several characters of ARPAbet, or an empty text; misaki has single capitals."""
    if len("".join(variant.phones)) > MOST_LETTERS:
        return f"a pronunciation has at most {MOST_LETTERS:,} characters"
    other = next((phone for phone in variant.phones if re.search("[0-9]|[A-Z]{2}", phone)), "")
    return f"the phone {other} is not in misaki's characters: a phone map is needed" if other else ""
