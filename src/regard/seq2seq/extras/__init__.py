"""Optional parts that extend sources or rerank translations; distributions add them by entry points.

An entry point of the group "regard.extras" names a class with an interface of `base`. It is imported when a model has
the extra, and not before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from regard import _check

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from regard.seq2seq.extras.base import Extra

__all__ = ["GROUP", "augments", "check_options", "extra_class", "in_order", "owner", "without_attention"]

GROUP = "regard.extras"


def _added() -> Mapping[str, EntryPoint]:
    """Return the entry points of extras; importing what finds them takes time, and most models have none."""
    from regard import _entry_points

    return _entry_points.added(GROUP)


def extra_class(name: str) -> type[Extra]:
    """Import the class of an extra that is installed."""
    from regard import _entry_points

    cls: type[Extra] = _entry_points.load(_added()[name])
    return cls


def owner(name: str) -> str:
    """Return the distribution that has an extra; empty if none has it."""
    from regard import _entry_points

    point = _added().get(name)
    return "" if point is None else _entry_points.distribution(point)


def check_options(options: Any) -> dict[str, int]:
    """Check the option of each extra.

    `options`: of ``Seq2Seq(extras=...)``.
    """
    if not isinstance(options, Mapping | None):
        _check.fail(
            f"extras must be a mapping from names to integers. Got {options!r:.60} instead.", kind=TypeError
        )
    if not options:
        return {}
    installed = _added()
    if not installed:
        rule = f"extras must be those of installed distributions. Got {options!r:.60} instead."
        _check.fail(rule, hint="no distribution that is installed has an extra")
    for name in options:
        _check.choice("extras", name, tuple(installed))
    return {
        name: _check.integer(name, options[name], least=1, most=extra_class(name).largest)
        for name in in_order(options)
    }


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of extras in the order in which they learn: those that append tokens are the first."""
    return sorted(names, key=lambda name: (not augments(name), name))


def without_attention(options: Mapping[str, int]) -> dict[str, int]:
    """Return the options of the extras that a network without attention can use.

    `options`: as for `check_options`.
    """
    installed = _added() if options else {}
    return {name: value for name, value in options.items() if name not in installed or not augments(name)}


def augments(name: str) -> bool:
    """Return whether an extra that is installed appends tokens to sources."""
    from regard.seq2seq.extras.base import SourceAugmenter

    return issubclass(extra_class(name), SourceAugmenter)
