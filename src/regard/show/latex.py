"""One query of an attention as LaTeX, for papers and hand-outs: displayed formulas for the package amsmath."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.show.steps import TEXTS, Formula
from regard.show.terminal.heatmap import speller

if TYPE_CHECKING:
    from regard.show.explanation import Explanation

__all__: list[str] = []

Array = NDArray[Any]

_MOST = 10  # rows and columns of a matrix: amsmath's pmatrix has no more
_SPECIAL = {character: f"\\{character}" for character in "{}$&#%_"}
_SPECIAL |= {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}


def query(explanation: Explanation, row: int) -> str:
    """Return the vectors, scores, logits, weights and context of one query."""
    attention, formula, digits = explanation.attention, explanation.formula, explanation.page.digits
    rows = {
        "scores": (_score(formula), attention.scores[row]),
        "logits": (_logit(formula, explanation.queries.shape[1]), attention.logits[row]),
        "weights": (f"a = {_normalization(formula)}(z)", attention.weights[row]),
    }
    keys = _cut([f"\\text{{{_escaped(name)}}}" for name in explanation.page.keys], r"\cdots")
    lines = [f"  & & {' & '.join(keys)} \\\\ \\hline"]
    for name, (equation, numbers) in rows.items():
        cells = " & ".join(_cut(_spelled(numbers, digits), r"\cdots"))
        lines.append(f"  \\text{{{name}}} & {equation} & {cells} \\\\")
    matrices = {"q": explanation.queries[row], "K": explanation.keys, "V": explanation.values}
    known = r",\quad ".join(f"{name} = {_matrix(array, digits)}" for name, array in matrices.items())
    context = _matrix(attention.context[row], digits)
    return "\n".join(
        [
            f"% the query {_escaped(explanation.page.queries[row])}; amsmath is needed",
            f"\\[ {known} \\]",
            f"\\[ \\begin{{array}}{{ll{'r' * len(keys)}}}",
            *lines,
            r"\end{array} \]",
            f"\\[ c = a V = {context} \\]",
        ]
    )


def _score(formula: Formula) -> str:
    texts = TEXTS["scores"].get(formula.name)
    return str(texts["latex"]) if texts else r"e_j = \operatorname{score}(q, k_j)"


def _logit(formula: Formula, d: int) -> str:
    scaled = "e"
    if formula.scale is not None:
        scaled = f"{formula.scale:g} \\, e"
    elif formula.name == "scaled_dot":
        scaled = f"e / \\sqrt{{{d}}}"
    if (cap := formula.softcap) is not None:
        scaled = f"{cap:g} \\tanh({scaled} / {cap:g})"
    return f"z = {scaled}{' + b' if formula.biased else ''}"


def _normalization(formula: Formula) -> str:
    texts = TEXTS["normalize"].get(formula.normalize) if isinstance(formula.normalize, str) else None
    return str(texts["latex"]) if texts else r"\operatorname{normalize}"


def _matrix(numbers: ArrayLike, digits: int) -> str:
    matrix = np.atleast_2d(np.asarray(numbers))
    spelled = np.array(_spelled(matrix.reshape(-1), digits), dtype=object).reshape(matrix.shape)
    rows = [" & ".join(_cut(line, r"\cdots")) for line in spelled.tolist()]
    inside = r" \\ ".join(_cut(rows, r"\vdots"))
    return rf"\begin{{pmatrix}} {inside} \end{{pmatrix}}"


def _spelled(numbers: Array, digits: int) -> list[str]:
    """Return numbers as in the tables of text; 1.5e-07 is written as a product."""
    finite = numbers[np.isfinite(numbers)]
    whole = numbers.dtype.kind in "biu" or (finite == np.rint(finite)).all()
    spell = speller(
        finite.astype(np.int64) if whole and np.abs(finite).max(initial=0) < 2**53 else finite, digits
    )
    return [_number(float(number), spell(float(number))) for number in numbers]


def _number(number: float, spelled: str) -> str:
    if np.isinf(number):
        return r"-\infty" if number < 0 else r"\infty"
    mantissa, exponent, power = spelled.partition("e")
    return f"{mantissa} \\cdot 10^{{{int(power)}}}" if exponent else spelled


def _cut(items: Iterable[str], dots: str) -> list[str]:
    """Return at most ten items: of more, the first eight and the last."""
    items = list(items)
    return items if len(items) <= _MOST else [*items[: _MOST - 2], dots, items[-1]]


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)
