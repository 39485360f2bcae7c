"""What other distributions add to this one, by their entry points: nothing is imported before it is used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from regard import _check

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["added", "distribution", "load"]


def added(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group, such as "regard.tasks", by their names."""
    return _added(group, tuple(sys.path))


@cache  # what is installed while a process runs is found by the next
def _added(group: str, path: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Return the entry points on a search path."""
    from importlib.metadata import entry_points  # takes as long as all other modules of a short command

    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        first = points.setdefault(point.name, point)
        if first.value != point.value:
            both = f"{distribution(first)} and {distribution(point)}"
            _check.fail(f"{group}: {point.name} must be of one distribution. Got it of {both} instead.")
    return points


def distribution(point: EntryPoint) -> str:
    """Return the name of the distribution that has an entry point."""
    return "an unknown distribution" if point.dist is None else point.dist.name


def load(point: EntryPoint) -> Any:
    """Import what an entry point names; ImportError with its distribution if that fails, whatever it raises."""
    try:
        return point.load()
    except Exception as error:
        kind, text = type(error).__name__, str(error).partition("\n")[0]
        raise ImportError(
            f"{point.group}: {point.name} of {distribution(point)} can't be imported: {kind}: {text}"
        ) from error
