"""The sources of models by name: text, vectors and images. Another source is a class and a row of `SOURCES`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard import _check
from regard.seq2seq.sources.base import Source, Spec
from regard.seq2seq.sources.example import Example
from regard.seq2seq.sources.images import Images
from regard.seq2seq.sources.text.source import Text
from regard.seq2seq.sources.vectors import Vectors

__all__ = ["SOURCES", "Example", "Images", "Source", "Spec", "Text", "Vectors", "restore_source"]

# By the names in model files and for ``--source``.
SOURCES: dict[str, type[Source]] = {
    "words": Text,
    "characters": Text,
    "subwords": Text,
    "tokens": Text,
    "vectors": Vectors,
    "images": Images,
}


def restore_source(
    settings: Mapping[str, Any], data: Mapping[str, bytes], tokens: int | None = None
) -> Source:
    """Restore a source from the result of `Source.settings`, which may come from an untrusted file.

    The size of its vocabulary must be `tokens`, if given: it is checked before the bytes are decoded.
    """
    kind = _check.mapping("the settings of a source", settings).get("kind")
    return SOURCES[_check.choice("the kind of a source", kind, SOURCES)].restore(settings, data, tokens)
