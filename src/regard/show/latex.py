"""One query of an attention as LaTeX, for papers and hand-outs: displayed formulas for the package amsmath."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.scores import ScoreLike, concat, is_builtin
from regard.show.steps import LETTERS, TEXTS, Formula, score_text
from regard.show.terminal._heatmap import speller
from regard.weights import local_p

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
    d = explanation.queries.shape[1]
    score = formula.score.split(d) if isinstance(formula.score, concat) else formula.score
    learned = _learned(score)
    which = row, len(attention.scores)
    rows = {
        "scores": (_score(score, which), attention.scores[row]),
        "logits": (_logit(formula, d), attention.logits[row]),
        "weights": (_weights(formula, which), attention.weights[row]),
    }
    keys = _cut([f"\\text{{{_escaped(name)}}}" for name in explanation.page.keys], r"\cdots")
    lines = [f"  & & {' & '.join(keys)} \\\\ \\hline"]
    for name, (equation, numbers) in rows.items():
        cells = " & ".join(_cut(_spelled(numbers, digits), r"\cdots"))
        lines.append(f"  \\text{{{name}}} & {equation} & {cells} \\\\")
    matrices = {"q": explanation.queries[row], "K": explanation.keys, "V": explanation.values}
    known = [
        r",\quad ".join(f"{name} = {_matrix(array, digits)}" for name, array in named.items())
        for named in (matrices, learned)
        if named
    ]
    context = _matrix(attention.context[row], digits)
    return "\n".join(
        [
            f"% the query {_escaped(explanation.page.queries[row])}; amsmath is needed",
            *(f"\\[ {line} \\]" for line in known),
            f"\\[ \\begin{{array}}{{ll{'r' * len(keys)}}}",
            *lines,
            r"\end{array} \]",
            f"\\[ c = a V = {context} \\]",
        ]
    )


def _learned(score: ScoreLike) -> dict[str, Array]:
    """Return the learned arrays of a score by the letters of its formula."""
    arrays = score.parameters().items() if is_builtin(score) else ()
    return {LETTERS[name]: array for name, array in arrays if name in LETTERS}


def _score(score: ScoreLike, which: tuple[int, int]) -> str:
    """Return the formula of the scores; `which`: the query and the number of queries."""
    if not (isinstance(score, str) or is_builtin(score)):
        return r"e_j = \operatorname{score}(q, k_j)"
    return score_text(score, "latex", lambda x: {"x": _short(x), "grouped": _grouped(_short(x))}, which)


def _grouped(number: str) -> str:
    return f"({number})" if " " in number else number


def _logit(formula: Formula, d: int) -> str:
    scaled = "e"
    if formula.divided and d:
        scaled = f"e / \\sqrt{{{d}}}"
    elif formula.scale is not None or formula.factor(d) != 1:
        scaled = f"{_short(formula.factor(d))} \\, e"
    if formula.softcap is not None:
        cap = _short(formula.softcap)
        scaled = f"{cap} \\tanh({scaled} / {_grouped(cap)})"
    return f"z = {scaled}" + r" + \text{bias}" * formula.biased


def _weights(formula: Formula, which: tuple[int, int]) -> str:
    kind = formula.normalize
    if formula.sink is not None:
        return rf"a_j = \exp(z_j) / (\sum_k \exp(z_k) + \exp({_short(formula.sink)}))"
    if isinstance(kind, local_p):
        row, n = which
        position, width = np.broadcast_to(kind.positions, n)[row], _grouped(_short(kind.width / 2))
        gauss = rf"\exp(-(j - {_short(position)})^2 / (2 \cdot {width}^2))"
        return rf"a_j = \operatorname{{softmax}}(z)_j \, {gauss},\; j = 0, 1, \ldots"
    return f"a = {TEXTS['normalize'][kind if isinstance(kind, str) else 'softmax']['latex']}(z)"


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


def _short(number: Any) -> str:
    """Return an option of the attention, in six digits at most."""
    return _number(float(number), f"{float(number):g}")


def _cut(items: Iterable[str], dots: str) -> list[str]:
    """Return at most ten items: of more, the first eight and the last."""
    items = list(items)
    return items if len(items) <= _MOST else [*items[: _MOST - 2], dots, items[-1]]


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in text)
