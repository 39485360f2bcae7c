"""How many processors this process may use: those that it may run on, within the quota of its container."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache

__all__: list[str] = []

_LIMITS = ("max", "cfs_quota_us", "cfs_period_us")  # files of version 2, and of version 1
_DIGITS = re.compile("[0-9]{1,18}")


def available(root: str = "/") -> int:
    """Return the number of processors that this process may use; Linux's files are looked for in `root`."""
    runs_on = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(runs_on, quota(root) or runs_on)


@cache
def quota(root: str = "/") -> int | None:
    """Return how many processors the control groups of this process allow, rounded up; None for any number.

    A group may have a quota of processor time for each period, and those of all groups above it hold as well.
    """
    return min((count for folder in _groups(root) if (count := _of_group(folder))), default=None)


def _groups(root: str) -> Iterator[str]:
    """Yield the folders of the groups of this process, and of all groups above them."""
    paths = dict(_paths(root))
    for kind, part, place in _mounts(root):
        path, base = paths.get(kind, ""), part.rstrip("/")
        # The path begins with the part of the tree that is mounted, unless a namespace hides it.
        inside = path.removeprefix(base) if f"{path}/".startswith(f"{base}/") else ""
        folders = [name for name in inside.split("/") if name]
        for depth in range(len(folders) + 1):
            yield os.path.join(root, place.lstrip("/"), *folders[:depth])


def _paths(root: str) -> Iterator[tuple[str, str]]:
    """Yield the groups of this process: "cpu" of version 1 of control groups, "" of version 2, with their paths."""
    for line in _lines(os.path.join(root, "proc/self/cgroup")):
        _, _, controllers_and_path = line.partition(":")
        controllers, _, path = controllers_and_path.partition(":")
        if not controllers or "cpu" in controllers.split(","):
            yield "cpu" if controllers else "", path


def _mounts(root: str) -> Iterator[tuple[str, str, str]]:
    """Yield which version of control groups is mounted, as `_paths`, which part of its tree, and where."""
    for line in _lines(os.path.join(root, "proc/self/mountinfo")):
        mount, _, filesystem = (part.split() for part in line.partition(" - "))
        kind, options = filesystem[:1], filesystem[-1:]
        is_of_processors = kind == ["cgroup2"] or (kind == ["cgroup"] and "cpu" in options[0].split(","))
        if is_of_processors and len(mount) > 4:
            yield "" if kind == ["cgroup2"] else "cpu", mount[3], mount[4]


def _of_group(folder: str) -> int | None:
    """Return the number of processors of a group's quota, None without one: "max" and -1."""
    version_2, *version_1 = (_lines(os.path.join(folder, f"cpu.{name}")) for name in _LIMITS)
    words = [word for lines in ([version_2] if version_2 else version_1) for word in " ".join(lines).split()]
    time, period = (int(word) if _DIGITS.fullmatch(word) else 0 for word in (*words, "", "")[:2])
    return -(-time // period) if time and period else None


def _lines(path: str) -> list[str]:
    """Return the lines of a small file, none if it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []
