"""Write the page of all options, which is made of the parsers of the command line: python docs/options.py."""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from regard import _entry_points
from regard.cli import VERBS
from regard.seq2seq.networks.families import FAMILIES
from regard.seq2seq.networks.options import options_of

PAGE = Path(__file__).with_name("options.md")
HEAD = "`python docs/options.py` writes this page from the program. `regard VERB --help` shows them, with examples."


def parser_of(verb: str) -> argparse.ArgumentParser:
    """Return the parser of a verb."""
    parser = argparse.ArgumentParser(prog=f"regard {verb}", add_help=False)
    added = _entry_points.added("regard.verbs")
    module = pkgutil.resolve_name(VERBS[verb][0]) if verb in VERBS else added[verb].load()
    module.add_arguments(parser)
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
    value = f"[{value}]" if action.nargs == "?" and action.option_strings else value
    repeated = " ..." if action.nargs in ("+", "*") else ""
    shown = ", ".join(action.option_strings)
    return f"`{f'{shown} {value}'.strip()}{repeated}`".replace("|", r"\|")


def row_of(action: argparse.Action) -> str:
    """Return the row of an argument, with what its help names: choices and defaults."""
    text = argparse.HelpFormatter("")._expand_help(action) if action.help else ""
    return f"| {names(action)} | {cell(text)} |"


def table(head: str, rows: list[str]) -> str:
    """Return a table of two columns."""
    return "\n".join([f"| {head} | |", "|---|---|", *rows])


def groups(verb: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the rows of each group of a verb's arguments."""
    for group in parser_of(verb)._action_groups:
        rows = list(map(row_of, group._group_actions))
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
        page = "" if verb in VERBS or other not in VERBS else PAGE.name
        yield f"As for [regard {other}]({page}#regard-{other}): {', '.join(named)}."


def of_tasks(distribution: str) -> Iterator[str]:
    """Yield the tables of the options that the tasks of a distribution add to regard train and export."""
    for name, point in _entry_points.added("regard.tasks").items():
        if _entry_points.distribution(point) == distribution:
            yield f"## regard train --task {name}"
            yield from options_added(point.load().add_arguments)
            yield f"## regard export of --task {name}"
            yield from options_added(point.load().add_export_arguments)


def options_added(add: Callable[[Any], None]) -> Iterator[str]:
    """Yield the table of the options that a function adds to a group."""
    group = argparse.ArgumentParser(add_help=False).add_argument_group()
    add(group)
    yield table("option", list(map(row_of, group._group_actions)))


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


def verbs_of(distribution: str) -> dict[str, str]:
    """Return the verbs of a distribution with what they do."""
    if distribution == "regard":
        return {verb: f"{summary[0].upper()}{summary[1:]}." for verb, (_, summary) in VERBS.items()}
    points = _entry_points.added("regard.verbs").items()
    mine = [name for name, point in points if _entry_points.distribution(point) == distribution]
    return {name: parser_of(name).description or "" for name in mine}


def blocks_of(distribution: str, first: dict[str, str]) -> Iterator[str]:
    """Yield the headings, sentences and tables of the verbs of a distribution."""
    for verb, sentence in verbs_of(distribution).items():
        yield from (f"## regard {verb}", sentence, *tables(verb, first), *shared(verb, first))
        yield from networks() if verb == "train" else ()


def pages() -> dict[Path, str]:
    """Return the pages of regard and of the installed distributions that have verbs, by their files."""
    first = dict[str, str]()
    made = {PAGE: ["# The options of the command line", HEAD, *blocks_of("regard", first)]}
    others = {_entry_points.distribution(point) for point in _entry_points.added("regard.verbs").values()}
    for name in sorted(others):
        head = [f"# The options of {name}", HEAD, *of_tasks(name)]
        made[PAGE.with_name(f"options-{name}.md")] = [*head, *blocks_of(name, dict(first))]
    return {path: "\n\n".join(blocks) + "\n" for path, blocks in made.items()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
