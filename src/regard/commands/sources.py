"""The options of `regard train` for the source of a model: those that each source declares."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from regard import _check
from regard.commands import argument_types
from regard.commands.options import first_given
from regard.seq2seq.sources import SOURCES, Source
from regard.seq2seq.sources.base import Option
from regard.seq2seq.sources.text.tokenizers import TOKEN_TYPES

__all__ = ["add_source_options", "make_source"]


def _options() -> dict[str, dict[str, Option]]:
    """Return the options of all sources: by name, the option of each kind."""
    options: dict[str, dict[str, Option]] = {}
    for kind, source in SOURCES.items():
        for name, option in source.options.items():
            options.setdefault(name, {})[kind] = option
    return options


def add_source_options(add: Callable[..., Any]) -> None:
    """Add the options of sources that are no text."""
    for name, kinds in _options().items():
        add(
            _flag(name),
            nargs="+" if any(len(option.values) > 1 for option in kinds.values()) else 1,
            type=argument_types.value,
            metavar=next(iter(kinds.values())).values[0] if len(kinds) == 1 else "N",
            help="; ".join(f"of {kind}: {_described(option)}" for kind, option in kinds.items()),
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _described(option: Option) -> str:
    default = "" if option.default is None else f" (default {option.default})"
    return f"{option.description}{default}"


def make_source(args: argparse.Namespace) -> str | Source | None:
    """Return the source of the model: a type of tokens, or a source with given options; None by default."""
    for name, kinds in _options().items():
        if args.source not in kinds and first_given(args, [_flag(name)]):
            _check.fail(f"{_flag(name)} needs --source {' or '.join(reversed(kinds))}")
    if args.source is None or args.source in TOKEN_TYPES:
        return None if args.source is None else str(args.source)
    source = SOURCES[args.source]
    required: list[Any] = []
    named: dict[str, Any] = {}
    for name, option in source.options.items():
        values = getattr(args, name) or [option.default] * len(option.values)
        if None in values or len(values) != len(option.values):
            _check.fail(
                f"--source {args.source} needs {_flag(name)} {' '.join(option.values)}: {option.description}"
            )
        if option.default is None:
            required += values
        else:
            (named[name],) = values
    return source(*required, **named)
