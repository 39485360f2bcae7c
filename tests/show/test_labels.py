"""Labels of any iterable, and texts that have no UTF-8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_test import in_one_test

import regard
from regard.show import figures, page, terminal
from regard.show.page.long_attention import LongAttention

WEIGHTS, EYE = np.full((2, 2), 0.5), np.eye(2)
SHOWN: dict[str, Callable[[Callable[[], Any]], str]] = {
    "page of weights": lambda make: page(WEIGHTS, query_labels=make(), key_labels=make()).html,
    "page of two groups": lambda make: page([WEIGHTS, WEIGHTS[:, 1:]], query_labels=make()).html,
    "page of arrays": lambda make: page(EYE, EYE, EYE, query_labels=make(), key_labels=make()).html,
    "heat map": lambda make: terminal.heatmap(WEIGHTS, make(), make()),
    "table": lambda make: terminal.table(WEIGHTS, make(), make()),
    "captioned": lambda make: terminal.captioned(np.full((2, 2, 2), 0.25), make()),
    "explain": lambda make: str(regard.explain(EYE, EYE, EYE, EYE, labels=make())),
    "figure": lambda make: str(figures.heatmap(WEIGHTS, make(), make()).get_xticklabels()),
    "figures": lambda make: str(figures.heatmaps(np.stack([WEIGHTS] * 2), names=make()).axes),
    "by length": lambda make: str(figures.by_length(make(), {"BLEU": [1, 2]}).get_xticklabels()),
}


@in_one_test("name", SHOWN)
def test_a_generator_of_labels_is_as_good_as_a_list(name: str) -> None:
    expected = SHOWN[name](lambda: ["le", "chat"])
    assert SHOWN[name](lambda: (word for word in ("le", "chat"))) == expected
    with pytest.raises(TypeError, match=r"must be a sequence of strings\. Got int"):
        SHOWN[name](lambda: 5)


LONE = "a\ud800b"  # half of a pair of UTF-16, as a broken text has it; it has no UTF-8
PAIR = np.stack([WEIGHTS, WEIGHTS])
TEXTS: dict[str, Callable[[], str]] = {
    "page": lambda: page(WEIGHTS, query_labels=[LONE, "b"], title=LONE)._repr_html_(),
    "page of arrays": lambda: page(EYE, EYE, EYE, key_labels=[LONE, "b"], title=LONE)._repr_html_(),
    "long page": lambda: page(LongAttention(EYE, EYE), query_labels=[LONE, "b"], title=LONE)._repr_html_(),
    "repr of a page": lambda: repr(page(WEIGHTS, title=LONE)),
    "heat map": lambda: terminal.heatmap(WEIGHTS, [LONE, "b"], [LONE, "b"]),
    "table": lambda: terminal.table(WEIGHTS, [LONE, "b"], [LONE, "b"]),
    "captioned": lambda: terminal.captioned(PAIR / 2, [LONE, "b"]),
    "curves": lambda: terminal.curves({LONE: ([0, 1], [1, 2])}, along=LONE),
    "explain": lambda: str(regard.explain(EYE, EYE, EYE, EYE, labels=[LONE, "b"])),
}


@in_one_test("name", TEXTS)
def test_a_lone_surrogate_leaves_a_text_that_can_be_written(name: str) -> None:
    assert "a" in TEXTS[name]().encode("utf-8").decode("utf-8")


def test_a_saved_page_is_utf_8(tmp_path: Path) -> None:
    page(WEIGHTS, title=LONE, query_labels=[LONE, "b"]).save(tmp_path / "page.html")
    assert "<title>a?b</title>" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_figures_with_lone_surrogates_are_written(ending: str, tmp_path: Path) -> None:
    path, two = tmp_path / f"figure.{ending}", [LONE, "b"]
    panels = [figures.Panel(LONE, {LONE: ([0, 1], [1, 2])})]
    for save in (
        lambda: figures.save(path, figures.heatmap(WEIGHTS, two, two, title=LONE)),
        lambda: figures.save(path, figures.heatmaps(PAIR, two, two, names=two, title=LONE)),
        lambda: figures.save(path, figures.curves(panels, along=LONE, title=LONE)),
        lambda: figures.save(
            path, figures.by_length(two, {LONE: [1, 2]}, measure=LONE, along=LONE, title=LONE)
        ),
        lambda: figures.save(path, figures.captioned(np.zeros((4, 4, 3)), PAIR / 2, two, title=LONE)),
    ):
        path.unlink(missing_ok=True)
        save()
        assert path.stat().st_size > 1000
