"""Tasks: what is learned from which files, and what counts as right. Another task is a class and an entry point."""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from regard import _check, _entry_points
from regard._characters import one_line

if TYPE_CHECKING:
    from regard.commands.tasks.base import Task
    from regard.seq2seq.translator import Translator

__all__ = [
    *("GROUP", "TASKS"),
    *("naming_task", "owner", "recognising", "task_name", "task_names", "task_of", "task_type", "way"),
]

GROUP = "regard.tasks"  # of the entry points of other distributions

# By the names for ``--task`` and in the cards of models; those of text and of arrays are chosen by ``--source``.
TASKS = {
    "pairs": "regard.commands.tasks.pairs:Pairs",
    "captions": "regard.commands.tasks.pairs:Captions",
}


def task_names() -> list[str]:
    """Return the names of all tasks, of which those of other distributions are not imported."""
    return list(dict.fromkeys([*TASKS, *_entry_points.added(GROUP)]))


def task_type(name: str) -> type[Task]:
    """Import the class of a task."""
    if name in TASKS:
        task: type[Task] = pkgutil.resolve_name(TASKS[name])
        return task
    others = _entry_points.added(GROUP)
    task = _entry_points.load(others[_check.choice("task", name, (*TASKS, *others))])
    return task


def task_name(name: str) -> str:
    """Read an argument that is the name of a task."""
    if name not in task_names():
        rule = f"must be one of {', '.join(task_names())}. Got {name!r:.60} instead."
        raise argparse.ArgumentTypeError(rule)
    return name


def task_of(model: Translator) -> type[Task]:
    """Return the task that a model was trained for, which its card names; else that of its source."""
    card = model.model.card or {}
    name = card.get("task")
    if not isinstance(name, str):
        return task_type(model.model.source.task)
    if name not in task_names():
        rule = f"the model is of the task {name!r:.60} of {card.get('distribution')!r:.60}, which is not installed"
        _check.fail(rule, hint="regard evaluate --task pairs measures its answers as text")
    return task_type(name)


def owner(name: str) -> str:
    """Return the distribution that has a task."""
    point = _entry_points.added(GROUP).get(name)
    return "regard" if name in TASKS or point is None else _entry_points.distribution(point)


def recognising(path: str | Path) -> tuple[type[Task], str] | None:
    """Return the first task of other distributions that reads a file, and what the file is; None if there is none."""
    for name in task_names() if str(path) != "-" else ():
        with suppress(ImportError, OSError, ValueError):
            task = task_type(name)
            if what := task.recognise(Path(path)):
                return task, what
    return None


def way(path: str | Path) -> str:
    """Return how a file is read that a task recognises; empty for another."""
    found = recognising(path)
    return "" if found is None else f"--task {found[0].name} reads it as {found[1]}"


@contextmanager
def naming_task(path: str | Path) -> Iterator[None]:
    """Name the task that reads a file in the error about one that has no pairs."""
    try:
        yield
    except ValueError as error:
        if not (hint := way(path)):
            raise
        _check.fail(one_line(error), hint=hint)
