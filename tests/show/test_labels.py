"""Labels of any iterable: lists, generators, arrays; and what is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one_test import in_one_test

import regard
from regard.show import figures, page, terminal

WEIGHTS, EYE = np.full((2, 2), 0.5), np.eye(2)
SHOWN: dict[str, Callable[[Callable[[], Any]], str]] = {
    "page of weights": lambda make: page(WEIGHTS, query_labels=make(), key_labels=make()).html,
    "page of two sections": lambda make: page([WEIGHTS, WEIGHTS.copy()], query_labels=make()).html,
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
    pytest.importorskip("matplotlib")
    expected = SHOWN[name](lambda: ["le", "chat"])
    assert SHOWN[name](lambda: (word for word in ("le", "chat"))) == expected
    with pytest.raises(TypeError, match=r"must be a list of strings\. Got int"):
        SHOWN[name](lambda: 5)
