"""The numbers of a page as a browser shows them, and those of NumPy written in the same way."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import regard

WORDS = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
DIGITS = 2  # after the point, until a reader asks for more
LEGACY = np.random.RandomState(42)
WEIGHTS = [LEGACY.randint(3, size=(3, 3)).astype(float) for _ in range(3)]


def written(x: float, digits: int) -> str:
    """A number as the page writes it."""
    if np.isneginf(x):
        return "\u2212\u221e"
    text = f"{x:.{0 if x == 0 else digits}f}"
    if x != 0 and float(text) == 0:
        return "\u22480" if digits else "0"
    return text.replace("-", "\u2212")


def weight_texts(attention: Any, digits: int) -> list[list[str]]:
    """The weights as a heat map writes them: exact zeros and ones, what rounds to them, and masked ones differ."""

    def text(weight: float, logit: float) -> str:
        if np.isneginf(logit):
            return "\u2013"
        if weight in (0, 1):
            return str(int(weight))
        return "\u22481" if round(weight, digits) == 1 else written(weight, digits)

    return [
        [text(*pair) for pair in zip(*rows, strict=True)]
        for rows in zip(attention.weights, attention.logits, strict=True)
    ]


def texts(rows: Any, digits: int | None = None) -> list[list[str]]:
    """The numbers of a table as they are shown: whole ones without a point, if all are whole."""
    array = np.atleast_2d(np.asarray(rows, dtype=float))
    finite = array[np.isfinite(array)]
    own = (0 if np.all(finite == np.rint(finite)) else DIGITS) if digits is None else digits
    return [[written(x, own) for x in row] for row in array]


def table(tab: Any, title: str, number: int = 0) -> list[list[str]]:
    """The numbers of a matrix on the page, by its title."""
    figure = tab.locator("figure.card", has=tab.locator("figcaption", has_text=re.compile(rf"^{title}"))).nth(
        number
    )
    return figure.locator("tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent))"
    )


def row(tab: Any, name: str) -> list[str]:
    """The numbers of the keys in a row of the story."""
    rows = tab.locator(
        "table.story tbody:not([hidden]) tr", has=tab.get_by_role("rowheader", name=name, exact=True)
    )
    return rows.last.locator("td[data-key]").evaluate_all(
        "cells => cells.map((cell) => cell.innerText.trim())"
    )


def agrees(tab: Any, attention: Any, picked: int = 0) -> None:
    """Every number of the page is that of an attention."""
    assert table(tab, "Scores") == texts(attention.scores)
    assert table(tab, "Weights of") == weight_texts(attention, DIGITS)
    assert table(tab, "Context") == texts(attention.context)
    assert row(tab, "score") == texts(attention.scores[picked])[0]
    hidden = np.isneginf(attention.logits[picked])
    own = texts(attention.weights[picked])[0]
    assert row(tab, "weight") == ["\u2013" if j else text for j, text in zip(hidden, own, strict=True)]


def of_words(words: np.ndarray, weights: list[np.ndarray] = WEIGHTS, **options: Any) -> Any:
    return regard.attend(*(words @ weight for weight in weights), **options)


def number(tab: Any, name: str) -> Any:
    return tab.get_by_role("spinbutton", name=name, exact=True)
