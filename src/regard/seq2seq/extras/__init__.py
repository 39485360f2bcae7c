"""Optional parts that extend sources or rerank translations, by name; their interfaces are in `base`."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard import _check

if TYPE_CHECKING:
    from regard.seq2seq.extras.base import Extra

__all__ = ["EXTRAS", "augments", "check_options", "extra_class", "without_attention"]

# The names in files and options, and where the classes are. A model has at most one augmenter and one reranker.
EXTRAS = {
    "translation_memory": "regard.seq2seq.extras.translation_memory:TranslationMemory",
    "graphones": "regard.seq2seq.extras.graphones.model:Graphones",
}


def extra_class(name: str) -> type[Extra]:
    """Import the class of an extra.

    `name`: one of `EXTRAS`.
    """
    cls: type[Extra] = pkgutil.resolve_name(EXTRAS[name])
    return cls


def check_options(options: Any) -> dict[str, int]:
    """Check the option of each extra.

    `options`: of ``Seq2Seq(extras=...)``.
    """
    if not isinstance(options, Mapping | None):
        _check.fail(
            f"extras must be a mapping from names to integers. Got {options!r:.60} instead.", kind=TypeError
        )
    options = dict(options or {})
    for name in options:
        _check.choice("extras", name, tuple(EXTRAS))
    return {
        name: _check.integer(name, options[name], least=1, most=extra_class(name).largest)
        for name in EXTRAS
        if name in options
    }


def without_attention(options: Mapping[str, int]) -> dict[str, int]:
    """Return the options of the extras that a network without attention can use.

    `options`: as for `check_options`.
    """
    return {name: value for name, value in options.items() if name not in EXTRAS or not augments(name)}


def augments(name: str) -> bool:
    """Return whether an extra appends tokens to sources.

    `name`: one of `EXTRAS`.
    """
    from regard.seq2seq.extras.base import SourceAugmenter

    return issubclass(extra_class(name), SourceAugmenter)
