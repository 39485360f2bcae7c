"""Options as fields of a frozen dataclass: a field has the default, the check and the description of an option.

The arguments of the command line, their help, the tables of the documentation and the tests of each option are made of
these fields. To rename an option, rename its field and add its first name as `was`: finished trainings, checkpoints and
model files are still recognised, and an error for the first name suggests the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from functools import partial
from typing import Any, NamedTuple, TypeVar

from regard import _check

__all__ = ["ConfigOption", "check_fields", "first_names", "option", "options_of", "renamed", "size", "today"]

T = TypeVar("T")


class ConfigOption(NamedTuple):
    """The description of a field, and the check of its values."""

    check: Callable[[str, Any], Any]  # check(name, value), which returns Python's own type
    description: str = ""  # empty for a size that the data decide
    default: str = ""  # in words where it is chosen later
    value: str = ""  # in the help: N for an integer, X for a number
    example: Any = None
    refused: tuple[Any, str] = (None, "")
    was: str = ""


# by type of option: its value in the help, its check, and a refused value with the reason
_TYPES: dict[type, tuple[str, Callable[..., Any], tuple[Any, str]]] = {
    int: ("N", partial(_check.integer, least=1), (0, "at least 1")),
    float: ("X", partial(_check.number, least=0), (-1.0, "at least 0")),
    bool: ("true|false", _check.flag, (1, "True or False")),
    str: ("", _check.choice, ("", "")),  # both depend on the choices
}


def option(
    description: str,
    default: Any = None,
    shown: str = "",
    *,
    example: Any,
    refused: tuple[Any, str] | None = None,
    was: str = "",
    **bounds: Any,
) -> Any:
    """Return the field of an option; without a default, the value is chosen later.

    `shown`: the default in words; `example`: another value, whose type is that of the option; `refused`: an invalid
    value and the reason in its error; `bounds`: of the check, where integers are at least 1 by default, and other
    numbers at least 0; `was`: the first name of a renamed option.
    """
    value, check, usual = _TYPES[type(example)]
    if choices := bounds.get("choices"):
        value, usual = "|".join(choices), ("", f"one of {str(choices)[1:-1]}")
    words = shown or (default if isinstance(default, str) else str(default).lower())
    made = ConfigOption(partial(check, **bounds), description, words, value, example, refused or usual, was)
    return field(default=default, metadata={"option": made})


def size(least: int) -> Any:
    """Return the field of a size that the data decide."""
    return field(metadata={"option": ConfigOption(partial(_check.integer, least=least))})


def options_of(config: Any) -> dict[str, ConfigOption]:
    """Return the options of a dataclass by name."""
    made = {each.name: each.metadata["option"] for each in fields(config) if each.metadata}
    return {name: option for name, option in made.items() if option.description}


def renamed(config: Any) -> dict[str, str]:
    """Return the names of the renamed options by their first names."""
    return {option.was: name for name, option in options_of(config).items() if option.was}


def today(config: Any, values: Mapping[str, T]) -> dict[str, T]:
    """Return values by their present names, where a file may have the first names."""
    names = renamed(config)
    return {names.get(name, name): value for name, value in values.items()}


def first_names(config: Any, values: Mapping[str, T]) -> dict[str, T]:
    """Return the values of options by their first names, as hashes need them."""
    options = options_of(config)
    return {options[name].was or name: value for name, value in values.items()}


def check_fields(config: Any) -> None:
    """Check the values of a frozen dataclass's options, and convert NumPy's numbers, which wrap around, to Python's."""
    for each in fields(config):
        value = getattr(config, each.name)
        if each.metadata and (value is not None or each.default is not None):
            object.__setattr__(config, each.name, each.metadata["option"].check(each.name, value))
