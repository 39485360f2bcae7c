"""Optional parts that extend sources or rerank translations, by name; their interfaces are in `base`."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard import _check

if TYPE_CHECKING:
    from regard.seq2seq.extras.base import Extra

__all__ = ["EXTRAS", "augments", "check_options", "extra_class", "hint", "without_attention"]

# The names in files and options, and where the classes are. A model has at most one augmenter and one reranker.
EXTRAS = {
    "translation_memory": "regard.seq2seq.extras.translation_memory:TranslationMemory",
    "graphones": "regard.seq2seq.extras.graphones.model:Graphones",
}


def extra_class(name: str) -> type[Extra]:
    """Import the class of an extra.

    Parameters
    ----------
    name : str
        One of `EXTRAS`.

    Returns
    -------
    type of Extra
        A `SourceAugmenter` or a `Reranker` of `regard.seq2seq.extras.base`.
    """
    cls: type[Extra] = pkgutil.resolve_name(EXTRAS[name])
    return cls


def check_options(options: Any) -> dict[str, int]:
    """Check the option of each extra.

    Parameters
    ----------
    options : mapping of str to int, or None
        Of ``Seq2Seq(extras=...)``.

    Returns
    -------
    dict of str to int
        In the order of `EXTRAS`.
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

    Parameters
    ----------
    options : mapping of str to int
        As for `check_options`.

    Returns
    -------
    dict of str to int
        Those that append no tokens.
    """
    return {name: value for name, value in options.items() if name not in EXTRAS or not augments(name)}


def augments(name: str) -> bool:
    """Return whether an extra appends tokens to sources.

    Parameters
    ----------
    name : str
        One of `EXTRAS`.

    Returns
    -------
    bool
        Whether it is a `regard.seq2seq.extras.base.SourceAugmenter`.
    """
    from regard.seq2seq.extras.base import SourceAugmenter

    return issubclass(extra_class(name), SourceAugmenter)


def hint(source: str, options: Mapping[str, int]) -> str:
    """Return one line that names an extra worth a try, or nothing.

    Parameters
    ----------
    source : str
        The token type of the source.
    options : mapping of str to int
        The extras that the user has set.

    Returns
    -------
    str
        Empty if there is nothing to suggest.
    """
    if source != "characters" or "graphones" in options:
        return ""
    return (
        "if targets follow their sources from left to right, as sounds follow letters, --extras graphones=8 makes"
        " fewer errors"
    )
