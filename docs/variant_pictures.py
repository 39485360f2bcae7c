"""Run the calls of the table in variants.md, and draw the weights of each for the site."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from regard.show import figures

TEXT = Path(__file__).with_name("variants.md").read_text(encoding="utf-8")
FOLDER = "_images/variants"  # of the site


class Variant(NamedTuple):
    """A row of the table."""

    name: str
    source: str
    formula: str
    call: str

    @property
    def file(self) -> str:
        """The name of its picture."""
        return re.sub(r"\W+", "-", self.name.lower()).strip("-") + ".svg"

    def weights(self) -> Any:
        """Run the call after the lines above the table, and return the weights (heads, n, m)."""
        namespace: dict[str, Any] = {}
        for line in doctest.DocTestParser().get_examples(TEXT):
            exec(line.source, namespace)
        result = eval(self.call, namespace)
        weights = result[0] if isinstance(result, tuple) else result.weights
        return weights.reshape(-1, *weights.shape[-2:])


def variants() -> Iterator[tuple[str, Variant]]:
    """Yield the lines of the table below its heading, and what they say."""
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[3].startswith("`"):
            yield line, Variant(*cells[:3], cells[3].strip("`").replace("\\|", "|"))


def with_pictures(text: str) -> str:
    """Return the page with a column of pictures, which GitHub lacks."""
    text = text.replace("| call |\n|---|---|---|---|", "| call | weights |\n|---|---|---|---|---|")
    for line, variant in variants():
        text_of = f'alt="Heat map of the weights: {variant.name}."'
        picture = f'<img src="{FOLDER}/{variant.file}" {text_of} style="min-width: 9em">'
        text = text.replace(line, f"{line} {picture} |")
    return text


def draw(folder: Path) -> None:
    """Draw the weights of every variant, heads side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    for _, variant in variants():
        heads = variant.weights()
        figure = Figure(figsize=(1.8 * len(heads), 1.8), layout="constrained")
        for weights, axes in zip(heads, np.atleast_1d(figure.subplots(1, len(heads))), strict=True):
            is_share = weights.min() >= 0 and weights.max() <= 1
            figures.heatmap(weights, ax=axes, signed=not is_share)
        figures.save(folder / variant.file, figure)
