"""Draw what share of the machine's limit each library reaches."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

COLORS = ("#b3202c", "#7f7f7f", "#4c78a8", "#a5b8cf", "#d9d9d9")  # regard stands out


def bars(records: Sequence[dict[str, Any]], names: Sequence[str], target: Path) -> None:
    """Draw one panel for each number of threads, one group of bars for each case."""
    counts = sorted({record["threads"] for record in records})
    panels = [[record for record in records if record["threads"] == count] for count in counts]
    height = 1.5 + 0.62 * max(map(len, panels))
    figure, axes = plt.subplots(1, len(panels), figsize=(1 + 6.5 * len(panels), height), squeeze=False)
    for axis, panel, count in zip(axes[0], panels, counts, strict=True):
        groups(axis, panel, names)
        axis.set_title(f"{count} thread{'s' * (count > 1)}", loc="left")
        axis.set_xlabel(
            "% of what the machine can do (multiply-adds; decoding: reading), medians, minimum to maximum"
        )
    axes[0][0].legend(loc="lower right", frameon=False)
    figure.tight_layout()
    figure.savefig(target, dpi=110)
    plt.close(figure)


def groups(axis: Any, records: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    """Draw the bars of one number of threads."""
    thick = 0.8 / len(names)
    for i, name in enumerate(names):
        places, shares = [], []
        for y, record in enumerate(records):
            if name in record["values"]:
                places.append(y + (i - (len(names) - 1) / 2) * thick)
                shares.append(
                    [
                        100 * x / limit
                        for x, limit in zip(record["values"][name], record["limit"], strict=True)
                    ]
                )
        middle = [statistics.median(share) for share in shares]
        spread = [
            [m - min(s) for m, s in zip(middle, shares, strict=True)],
            [max(s) - m for m, s in zip(middle, shares, strict=True)],
        ]
        axis.barh(
            places,
            middle,
            thick,
            xerr=spread,
            color=COLORS[i],
            label=name,
            error_kw={"linewidth": 0.6, "alpha": 0.6},
        )
    axis.axvline(100, color="black", linewidth=0.8)
    axis.set_yticks(
        range(len(records)), [f"{record['section']}: {record['case']}" for record in records], fontsize=8
    )
    axis.invert_yaxis()
    axis.spines[["top", "right"]].set_visible(False)
