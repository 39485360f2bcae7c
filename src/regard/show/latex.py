"""One query of an attention as LaTeX, for papers and hand-outs: displayed formulas for the package amsmath."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.scores import ScoreLike, concat, is_builtin
from regard.show.steps import LETTERS, logit_text, normalize_text, score_text
from regard.show.terminal._heatmap import speller
from regard.weights import local_m, local_p

if TYPE_CHECKING:
    from regard.show.explanation import Explanation

__all__: list[str] = []

Array = NDArray[Any]

MOST = 10  # rows and columns of a matrix: amsmath's pmatrix has no more
SPECIAL = {character: f"\\{character}" for character in "{}$&#%_"}
SPECIAL |= {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}


def query(explanation: Explanation, row: int) -> str:
    """Return the vectors, scores, logits, weights and context of one query."""
    digits = explanation.digits
    score = explanation.score
    score = score.split(explanation.queries.shape[1]) if isinstance(score, concat) else score
    learned = _learned(score)
    which = row, len(explanation.scores)
    logit = logit_text("latex", "e", _spelled_short, **explanation.logit_options)
    rows = {
        "scores": (_score(score, which), explanation.scores[row]),
        "logits": (f"z = {logit}", explanation.logits[row]),
        "weights": (_weights(explanation, which), explanation.weights[row]),
    }
    keys = _cut([f"\\text{{{_escaped(name)}}}" for name in explanation.keys_named], r"\cdots")
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
    context = _matrix(explanation.context[row], digits)
    return "\n".join(
        [
            f"% the query {_escaped(explanation.queries_named[row])}; amsmath is needed",
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
    return score_text(score, "latex", _spelled_short, which)


def _spelled_short(x: float) -> dict[str, str]:
    return {"x": _short(x), "grouped": _grouped(_short(x))}


def _grouped(number: str) -> str:
    return f"({number})" if " " in number else number


def _weights(explanation: Explanation, which: tuple[int, int]) -> str:
    kind = explanation.normalize
    if explanation.sink is not None:
        return rf"a_j = \exp(z_j) / (\sum_k \exp(z_k) + \exp({_short(explanation.sink)}))"
    if isinstance(kind, local_p):
        row, n = which
        position, width = np.broadcast_to(kind.positions, n)[row], _grouped(_short(kind.width / 2))
        gauss = rf"\exp(-(j - {_short(position)})^2 / (2 \cdot {width}^2))"
        return rf"a_j = \operatorname{{softmax}}(z)_j \, {gauss},\; j = 0, 1, \ldots"
    return normalize_text("softmax" if isinstance(kind, local_m) else kind, "latex")


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
    return items if len(items) <= MOST else [*items[: MOST - 2], dots, items[-1]]


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in text)
