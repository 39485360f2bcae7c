"""Words of English that the pages of another language don't have."""

from __future__ import annotations

import json
import re
from typing import Any

from regard.show.page.parts import asset

SAME = {  # functions, and words of English that are words of the other language too
    "fr": "cell max transformer",
    "de": "cell max feed forward",
}


def words(part: Any) -> set[str]:
    """The words of texts, in lower case; not the values that they fill in, nor words that are cut."""
    if isinstance(part, dict | list):
        return set().union(*map(words, part.values() if isinstance(part, dict) else part))
    return set(re.findall(r"[^\W\d_]{3,}", re.sub(r"\{\w+\}|\w+…", " ", str(part)).lower()))


def english_words(language: str) -> set[str]:
    """The words of the English texts without those of a language, of its translator and its language model."""
    english, other, translator = (
        json.loads(asset(name)) for name in ("texts/en.json", f"texts/{language}.json", "translator.json")
    )
    known = words(other) | words(SAME[language]) | words(translator) | words(english["letters"]["beginning"])
    return words(english) - known
