"""Measures that several of the scripts here use."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["edit_distance"]


def edit_distance(left: Sequence[object], right: Sequence[object]) -> int:
    """Return how many insertions, deletions and replacements turn one sequence into the other (Levenshtein 1966)."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        corner, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (a != b))
    return row[-1]
