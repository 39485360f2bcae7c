"""The three steps of one attention, in numbers and words."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.context import Attention
from regard.show.terminal.cells import labels
from regard.show.terminal.heatmap import speller, table
from regard.show.terminal.text import align, display_width, side_by_side, wants_color

__all__ = ["explain", "matrices"]

_MOST_VALUES = 12  # numbers of each value in that row
_MOST_SENTENCES = 6  # rows in words
_MOST_KEYS = 10  # keys of the row that is explained term by term

_SCORES = {
    "dot": "the dot product of query and key",
    "scaled_dot": "the dot product of query and key",
    "cosine": "the cosine of the angle between query and key",
    "general": "query @ weight @ key",
    "additive": "vector . tanh(query @ query_weight + key @ key_weight)",
    "concat": "vector . tanh([query; key] @ weight)",
    "location": "the query's score for the key's position: query @ weight",
    "gaussian": "minus half the squared distance of query and key, in widths",
}
_STEP_TWO = {
    "softmax": "weight = exp(logit) / the row's sum of exp(logit), so that each row sums to 1 (softmax)",
    "sparsemax": "sparsemax makes each row sum to 1, and the weakest weights exactly 0",
    "entmax15": "entmax-1.5 makes each row sum to 1, and the weakest weights exactly 0",
    "hard": "hard attention gives all the weight of a row to its best key",
}


def explain(
    attention: Attention,
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    *,
    score: str = "scaled_dot",
    normalize: str = "softmax",
    scale: float | None = None,
    softcap: float | None = None,
    row: int = 0,
    query_words: Sequence[str] | None = None,
    key_words: Sequence[str] | None = None,
    digits: int = 5,
    color: bool | None = None,
    width: int | None = None,
) -> str:
    """Explain scores, weights and context of one attention, and one row of it term by term.

    Parameters
    ----------
    attention
        The result of `attend` for these arrays, without leading dimensions.
    queries, keys, values
        (n, d), (m, d), (m, e).
    score, normalize
        The names of the score function and of step two, for the words.
    scale
        The factor of the scores, if it was given.
    softcap
        The bound of the logits, if they were squashed with tanh.
    row
        The query that is explained term by term, from 0.
    query_words, key_words
        n and m labels; by default "query 1" and "key 1" and so on.
    digits
        Digits after the decimal point.
    color
        Whether to shade the weights; by default the value of `terminal.wants_color`.
    width
        The columns of the screen; by default the terminal's, or 80.

    Returns
    -------
    str
        Lines of text without a newline at the end.

    Raises
    ------
    ValueError
        If the arrays have leading dimensions, the labels don't fit, or the row does not exist.

    Examples
    --------
    >>> import regard
    >>> ones = [[1, 0], [0, 1]]
    >>> text = explain(regard.attend(ones, ones, ones), ones, ones, ones, color=False)
    >>> text.splitlines()[0]
    'Step 1. Scores: how well does each key match each query?'
    """
    arrays = [np.asarray(array) for array in (queries, keys, values)]
    if any(array.ndim != 2 for array in arrays) or attention.weights.ndim != 2:
        raise ValueError(
            f"an explanation needs two-dimensional arrays: {', '.join(str(a.shape) for a in arrays)}"
        )
    n, m = attention.weights.shape
    if not 0 <= row < n:
        raise ValueError(f"row must be one of the {n} queries, counted from 0: {row}")
    page = _Page(
        digits,
        wants_color() if color is None else color,
        shutil.get_terminal_size().columns if width is None else width,
        labels(query_words, n, "query words", "query "),
        labels(key_words, m, "key words", "key "),
    )
    paragraphs = [
        *_scores(page, attention, arrays, score, row),
        *_weights(page, attention, _logit_words(score, scale, softcap, arrays[0].shape[1]), normalize),
        *_context(page, attention),
        *_row(page, attention, arrays[2], normalize, row),
    ]
    return "\n\n".join(paragraphs)


@dataclass(frozen=True)
class _Page:
    """Labels and format that all paragraphs share."""

    digits: int
    color: bool
    width: int
    queries: list[str]
    keys: list[str]

    def numbers(
        self, values: NDArray[Any], columns: Sequence[str] | None = None, *, shades: bool = False
    ) -> str:
        """Return a table of one row for each query."""
        return table(
            values,
            self.queries,
            columns,
            digits=self.digits,
            shades=shades,
            color=self.color,
            width=self.width,
        )


def _scores(page: _Page, attention: Attention, arrays: list[NDArray[Any]], score: str, row: int) -> list[str]:
    paragraphs = [
        "Step 1. Scores: how well does each key match each query?",
        f"score = {_SCORES.get(score, score)}",
        page.numbers(_integers(attention.scores), page.keys),
    ]
    if score in ("dot", "scaled_dot") and page.keys and arrays[0].shape[1]:
        best = int(attention.weights[row].argmax())
        names = page.queries[row], page.keys[best]
        paragraphs.append(
            _products(page, names, arrays[0][row], arrays[1][best], float(attention.scores[row, best]))
        )
    return paragraphs


def _products(
    page: _Page, names: tuple[str, str], query: NDArray[Any], key: NDArray[Any], score: float
) -> str:
    """Return the dot product of one query and its most attended key, as much of it as fits one line."""
    spell = speller(_integers(np.append(query, key)), page.digits)
    pairs = [f"{_term(spell(float(q)))}*{_term(spell(float(k)))}" for q, k in zip(query, key, strict=True)]
    total = speller(_integers(np.array([score])), page.digits)(score)
    for count in range(len(pairs), 0, -1):
        shown = pairs if count == len(pairs) else [*pairs[:count], "…"]
        line = f"{names[0]} . {names[1]} = {' + '.join(shown)} = {total}"
        if display_width(line) <= page.width:
            break
    return line


def _term(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


def _logit_words(score: str, scale: float | None, softcap: float | None, d: int) -> str:
    scaled, equal = "score", ""
    if scale is not None:
        scaled = f"score * {scale:g}"
    elif score == "scaled_dot" and d > 0:
        scaled, equal = f"score / sqrt({d})", f" = score * {1 / math.sqrt(d):.5f}"
    if softcap is None:
        return f"logit = {scaled}{equal}"
    return f"logit = {softcap:g} * tanh({scaled} / {softcap:g}), between -{softcap:g} and {softcap:g}"


def _weights(page: _Page, attention: Attention, logit: str, normalize: str) -> list[str]:
    visible = ~np.isneginf(attention.logits)
    if not visible.all():
        logit += ', or minus infinity where the mask hides the key\n"-": the key is not visible to the query'
    paragraphs = [
        "Step 2. Weights: how much of its attention does each query give to each key?",
        f"{logit}\n{_STEP_TWO.get(normalize, normalize)}",
        page.numbers(np.where(visible, attention.weights, -np.inf), page.keys, shades=True),
    ]
    sentences = [
        _sentence(page.queries[i], page.keys, attention.weights[i], visible[i])
        for i in range(min(len(attention.weights), _MOST_SENTENCES))
    ]
    if len(attention.weights) > _MOST_SENTENCES:
        sentences.append(f"and so on for {len(attention.weights) - _MOST_SENTENCES} more")
    return [*paragraphs, "\n".join(sentences)]


def _sentence(query: str, keys: list[str], weights: NDArray[Any], visible: NDArray[np.bool_]) -> str:
    """Describe one query by its most attended keys, up to 90 % of the weight and at most three."""
    if np.isnan(weights).any():
        return f"{query}: not a number"
    if not weights.any():
        return f"{query} attends to nothing: its weights and its context are 0"
    order = np.argsort(-weights, kind="stable")
    named: list[str] = []
    rest = float(weights.sum())
    total = rest
    for j in order[:3]:
        if rest <= 0.1 * total or weights[j] <= 0:
            break
        named.append(f"{keys[j]} ({100 * weights[j]:.1f} %)")
        rest -= float(weights[j])
    others = [j for j in order[len(named) :] if visible[j]]
    if len(others) == 1:
        named.append(f"{keys[others[0]]} ({100 * weights[others[0]]:.1f} %)")
    last = ""
    if len(others) > 1:
        which = f"other {len(others)}" if visible.all() else f"other {len(others)} visible keys"
        last = f"; the {which} share {100 * max(rest, 0.0):.1f} %"
    elif not visible.all():
        last = "; no other key is visible"
    return f"{query} attends to {', '.join(named)}{last}"


def _context(page: _Page, attention: Attention) -> list[str]:
    return [
        "Step 3. Context: the sum of the values, each multiplied by its weight",
        "context = weights @ values",
        page.numbers(attention.context),
    ]


def _row(page: _Page, attention: Attention, values: NDArray[Any], normalize: str, row: int) -> list[str]:
    """Explain one query term by term: score, logit, weight and term of the context of each key."""
    logits, weights = attention.logits[row], attention.weights[row].astype(np.float64)
    columns = [_Column("score", _integers(attention.scores[row])), _Column("logit", logits)]
    if normalize == "softmax":
        columns.append(_Column("exp", _exponentials(logits), added=True))
    columns.append(_Column("weight", weights, added=True))
    heads = ["w*value[1]", *(f"[{k + 1}]" for k in range(1, values.shape[1]))]
    terms = [
        _Column(head, weights * column, added=True) for head, column in zip(heads, values.T, strict=False)
    ]
    for shown in range(min(len(terms), _MOST_VALUES), -1, -1):
        lines = align(_term_lines(page, columns + terms[:shown], weights))
        if display_width(lines.split("\n")[0]) <= page.width or shown == 1:
            break
    paragraphs = [f"{page.queries[row]}, term by term", lines]
    if normalize == "softmax":
        paragraphs.append("exp = exp(logit - the row's largest logit)")
    if shown < len(terms):
        verb = "is" if shown == 1 else "are"
        paragraphs.append(f"{shown} of the {len(terms)} numbers of each value {verb} shown")
    return paragraphs


@dataclass(frozen=True)
class _Column:
    """One number for each key; the sum of `added` columns is meaningful."""

    name: str
    numbers: NDArray[Any]
    added: bool = False

    def spell(self, digits: int, key: int) -> str:
        return speller(self.numbers, digits)(float(self.numbers[key]))

    def sum(self, digits: int, keys: NDArray[Any]) -> str:
        return speller(self.numbers, digits)(float(self.numbers[keys].sum())) if self.added else ""


def _term_lines(page: _Page, columns: list[_Column], weights: NDArray[Any]) -> list[list[str]]:
    shown, others = _strongest(weights)
    lines = [["", *(column.name for column in columns)]]
    lines += [[page.keys[j], *(column.spell(page.digits, j) for column in columns)] for j in shown]
    if others.size:
        lines.append([f"{others.size} others", *(column.sum(page.digits, others) for column in columns)])
    everything = np.arange(len(weights))
    return [*lines, ["sum", *(column.sum(page.digits, everything) for column in columns)]]


def _strongest(weights: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the keys with the largest weights, in their order, and all others."""
    order = np.argsort(-weights, kind="stable")
    if len(order) <= _MOST_KEYS + 2:
        return np.arange(len(order)), order[:0]
    return np.sort(order[:_MOST_KEYS]), np.sort(order[_MOST_KEYS:])


def _exponentials(logits: NDArray[Any]) -> NDArray[Any]:
    """Return exp(logit - the row's largest logit), the terms of a softmax that can't overflow."""
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        terms = np.exp(logits - logits.max(initial=-np.inf))
    return np.where(np.isneginf(logits), 0, terms)


def _integers(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return integral floats as integers, which are printed without a decimal point."""
    if numbers.dtype.kind == "f" and np.all(np.isfinite(numbers)) and np.all(numbers == np.rint(numbers)):
        # Larger floats are more than 1 apart; float16 has no such number.
        return numbers.astype(np.int64) if float(np.abs(numbers).max(initial=0)) < 2**53 else numbers
    return numbers


def matrices(named: Sequence[tuple[str, ArrayLike]], *, digits: int = 5, width: int | None = None) -> str:
    """Format named matrices side by side, each under its name and shape, large ones truncated.

    Parameters
    ----------
    named
        Names and (rows, columns) arrays.
    digits
        Digits after the decimal point.
    width
        The columns of the screen; by default the terminal's, or 80.

    Returns
    -------
    str
        Lines of text without a newline at the end.

    Examples
    --------
    >>> print(matrices([("keys", [[1, 0]]), ("values", [[5], [7]])]))
    keys (1, 2)   values (2, 1)
    1  0          5
                  7
    """
    width = shutil.get_terminal_size().columns if width is None else width
    share = max(24, (width - 3 * (len(named) - 1)) // max(1, len(named)))
    blocks = []
    for name, matrix in named:
        array = _integers(np.asarray(matrix))
        numbers = table(array, digits=digits, width=share, most_rows=8, color=False)
        blocks.append(f"{name} {array.shape}\n{numbers}")
    return side_by_side(blocks, width=width)
