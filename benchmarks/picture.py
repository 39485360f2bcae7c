"""Draw what share of the machine's limit each library reaches: a line for each case, a mark for each library."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

MARKS = (
    ("#b3202c", "o", 55),
    ("#d98c00", "s", 26),
    ("#2c6fbb", "D", 26),
    ("#4a9a5b", "^", 30),
    ("#777777", "v", 30),
)


def draw(records: Sequence[dict[str, Any]], names: Sequence[str], target: Path) -> None:
    """Draw one panel for each number of threads; what has no limit, and the many odd sizes, are left to the tables."""
    records = [record for record in records if record["limit"] and record["section"] != "odd"]
    counts = sorted({record["threads"] for record in records})
    panels = [[record for record in records if record["threads"] == count] for count in counts]
    size = (3.2 + 4.4 * len(panels), 1.4 + 0.27 * max(map(len, panels)))
    figure, axes = plt.subplots(
        1, len(panels), figsize=size, squeeze=False, sharey=len({*map(len, panels)}) == 1
    )
    for axis, panel, count in zip(axes[0], panels, counts, strict=True):
        lines(axis, panel, names)
        axis.set_title(f"{count} thread{'s' * (count > 1)}", loc="left", fontsize=10)
        axis.set_xlabel("% of the machine's limit", fontsize=9)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=len(names), frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.3 / size[1]))
    figure.savefig(target, dpi=120)
    plt.close(figure)


def lines(axis: Any, records: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    """Draw the cases of one number of threads: medians, with a line from minimum to maximum."""
    for i, (name, (color, marker, area)) in enumerate(zip(names, MARKS, strict=True)):
        found = [(y, shares(record, name)) for y, record in enumerate(records) if name in record["values"]]
        places, medians = [y for y, _ in found], [statistics.median(share) for _, share in found]
        axis.hlines(
            places, [min(x) for _, x in found], [max(x) for _, x in found], color=color, lw=1, alpha=0.5
        )
        axis.scatter(medians, places, area, color=color, marker=marker, label=name, zorder=9 - i, alpha=0.9)
    labels = [f"{record['section']}: {record['case'].removeprefix('n = m = ')}" for record in records]
    axis.set_yticks(range(len(records)), labels, fontsize=8)
    axis.set_ylim(len(records) - 0.4, -0.6)
    axis.set_xlim(0, 110)
    axis.axvline(100, color="black", linewidth=0.8)
    axis.grid(axis="y", color="#e8e8e8", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)


def shares(record: dict[str, Any], name: str) -> list[float]:
    """Return the percentages that a library reached, round by round."""
    return [100 * x / limit for x, limit in zip(record["values"][name], record["limit"], strict=True)]
