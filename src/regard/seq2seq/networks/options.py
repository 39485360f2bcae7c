"""Options as fields of a frozen dataclass: a field has the default, the check and the description of an option.

The arguments of the command line, their help and the tables of the documentation are made of these fields.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields
from functools import partial
from typing import Any, NamedTuple

from regard import _check

__all__ = [
    "Option",
    "check_fields",
    "choice",
    "flag",
    "integer",
    "number",
    "options_of",
    "positive",
    "share",
    "size",
]


class Option(NamedTuple):
    """The description of a field, and the check of its values."""

    description: str
    default: str  # in words where it is chosen later
    value: str  # in the help: N for an integer, X for a number
    check: Callable[[str, Any], Any]  # of a name and a value, which it returns as Python's own


def _field(value: str, check: Callable[[str, Any], Any], description: str, default: Any, shown: str) -> Any:
    option = Option(description, shown or str(default), value, check)
    return field(default=default, metadata={"option": option})


def size(least: int) -> Any:
    """Return the field of a size that the data decide."""
    return field(metadata={"option": Option("", "", "", partial(_check.integer, least=least))})


def integer(
    description: str, default: Any = None, shown: str = "", least: int = 1, most: int | None = None
) -> Any:
    """Return the field of an integer; without a default, it is chosen later."""
    return _field("N", partial(_check.integer, least=least, most=most), description, default, shown)


def positive(description: str, default: float | None = None, shown: str = "") -> Any:
    """Return the field of a number greater than 0."""
    return _field("X", partial(_check.number, positive=True), description, default, shown)


def number(
    description: str, default: float | None = None, shown: str = "", below: float | None = None
) -> Any:
    """Return the field of a number of at least 0, and less than another."""
    return _field("X", partial(_check.number, least=0, below=below), description, default, shown)


def share(description: str, default: float | None = None, shown: str = "") -> Any:
    """Return the field of a number from 0 to 1."""
    return _field("X", partial(_check.number, least=0, most=1), description, default, shown)


def choice(description: str, default: str, choices: tuple[str, ...]) -> Any:
    """Return the field of a name."""

    def check(name: str, value: Any) -> Any:
        _check.choice(name, value, choices)
        return value

    return _field("|".join(choices), check, description, default, "")


def flag(description: str, default: bool) -> Any:
    """Return the field of True or False."""
    return _field("true|false", _check.flag, description, default, str(default).lower())


def options_of(config: Any) -> dict[str, Option]:
    """Return the options of a dataclass by name."""
    made = {each.name: each.metadata["option"] for each in fields(config) if each.metadata}
    return {name: option for name, option in made.items() if option.description}


def check_fields(config: Any) -> None:
    """Check the values of a frozen dataclass's options, and make Python's own numbers of them: NumPy's wrap around."""
    for each in fields(config):
        value = getattr(config, each.name)
        if each.metadata and (value is not None or each.default is not None):
            object.__setattr__(config, each.name, each.metadata["option"].check(each.name, value))
