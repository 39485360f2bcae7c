"""Write the page of all options, which is made of the parsers of the command line: python docs/options.py."""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from regard.cli import VERBS
from regard.commands.tasks import BUILT_IN, TASKS, task_type
from regard.seq2seq.networks.families import FAMILIES
from regard.seq2seq.networks.options import options_of

PAGE = Path(__file__).with_name("options.md")
HEAD = """\
# The options of the command line

`python docs/options.py` writes this page from the program. `regard VERB --help` has the same options, with examples.
"""


def parser_of(verb: str) -> argparse.ArgumentParser:
    """Return the parser of a verb."""
    parser = argparse.ArgumentParser(prog=f"regard {verb}", add_help=False)
    pkgutil.resolve_name(VERBS[verb][0]).add_arguments(parser)
    return parser


def cell(text: str) -> str:
    """Return text as a cell of a table."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", r"\<").replace("%%", "%")


def names(action: argparse.Action) -> str:
    """Return the names of an argument with its value, as in its help."""
    metavar = action.metavar
    if isinstance(metavar, tuple):
        value = " ".join(metavar)
    elif action.nargs == 0:
        value = ""
    elif metavar is None and action.choices is not None:
        value = "|".join(map(str, action.choices))
    else:
        value = metavar or action.dest.upper()
    repeated = " ..." if action.nargs in ("+", "*") else ""
    shown = ", ".join(action.option_strings)
    return f"`{f'{shown} {value}'.strip()}{repeated}`".replace("|", r"\|")


def table(head: str, rows: list[str]) -> str:
    """Return a table of two columns."""
    return "\n".join([f"| {head} | |", "|---|---|", *rows])


def groups(verb: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the rows of each group of a verb's arguments."""
    for group in parser_of(verb)._action_groups:
        rows = [f"| {names(action)} | {cell(action.help or '')} |" for action in group._group_actions]
        titles = {"positional arguments": "argument", "options": "option"}
        yield titles.get(group.title or "", group.title or ""), rows


def tables(verb: str, first: dict[str, str]) -> Iterator[str]:
    """Yield the tables of a verb. `first` has the verb that is the first with a row: others refer to it."""
    for title, rows in groups(verb):
        new = [row for row in rows if first.setdefault(row, verb) == verb]
        if new:
            yield table(title, new)


def shared(verb: str, first: dict[str, str]) -> Iterator[str]:
    """Yield the names of the arguments that a verb has in common with each earlier one."""
    repeated: dict[str, list[str]] = {}
    for row in (row for _, rows in groups(verb) for row in rows if first[row] != verb):
        repeated.setdefault(first[row], []).append(f"`{row.split()[1].strip('`')}`")
    for other, named in repeated.items():
        yield f"As for [regard {other}](#regard-{other}): {', '.join(named)}."


def of_tasks() -> Iterator[str]:
    """Yield the tables of the options of tasks that regard train has on demand."""
    for name in [task for task in TASKS if task not in BUILT_IN]:
        group = argparse.ArgumentParser(add_help=False).add_argument_group()
        task_type(name).add_arguments(group)
        rows = [f"| {names(action)} | {cell(action.help or '')} |" for action in group._group_actions]
        yield table(f"option of `--task {name}`", rows)


def networks() -> Iterator[str]:
    """Yield the tables of the options of networks."""
    for name, family in FAMILIES.items():
        rows = [
            f"| `{option}={made.value}` | {made.description} (default: {made.default}) |".replace(
                f"={made.value}", "=" + made.value.replace("|", r"\|")
            )
            for option, made in options_of(family.config).items()
        ]
        yield table(f"`--network` with `--family {name}`", rows)


def page() -> str:
    """Return the page."""
    blocks = [HEAD.strip()]
    first: dict[str, str] = {}
    for verb, (_, summary) in VERBS.items():
        blocks += [f"## regard {verb}", f"{summary[0].upper()}{summary[1:]}.", *tables(verb, first)]
        blocks += shared(verb, first)
        blocks += [*of_tasks(), *networks()] if verb == "train" else ()
    return "\n\n".join(blocks) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
