"""The text of each step of one attention: inputs, scores, logits, weights, context, and one row of it term by term."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.context import Attention
from regard.mask import MaskLike
from regard.scores import Score, ScoreLike, additive, as_score, concat, is_builtin, scaled_dot
from regard.show.terminal._heatmap import speller, table
from regard.show.terminal.cells import labels
from regard.show.terminal.text import align, cut, display_width, side_by_side, wrap
from regard.weights import NormalizeLike, local_m, local_p

__all__ = ["matrices"]

Array = NDArray[Any]

_MOST_VALUES = 12  # numbers of each value in that row
_MOST_SENTENCES = 6  # rows in words
_MOST_LINES = 9  # of a sentence
_MOST_KEYS = 10  # keys of the row that is explained term by term

_STATES = "s is a query (a decoder's state), h a key (an annotation)"
# Names, formulas and explanations of the steps; the pages of `regard.show.page` read the same file.
TEXTS: dict[str, Any] = json.loads(
    resources.files("regard.show").joinpath("page", "assets", "steps.json").read_text("utf-8")
)
LETTERS = {  # of learned arrays
    name: array["letter"] for row in TEXTS["scores"].values() for name, array in row.get("arrays", {}).items()
}


def score_text(
    score: ScoreLike,
    medium: str,
    spelled: Callable[[float], dict[str, str]],
    row: tuple[int, int] | None = None,
) -> str:
    """Return a text of a score in steps.json, such as its formula in LaTeX, with its arrays and numbers filled in.

    `medium`: the name of the text; `spelled`: a number's forms by name; `row`: the query whose numbers are taken, and
    the number of queries; without it, numbers that differ between queries are left out. Of each array and number, the
    file has two forms: without the array or with the neutral number, and with another.
    """
    scorer = as_score(score)
    assert isinstance(scorer, Score)
    entry = TEXTS["scores"][shown_name(scorer)]
    parts = {
        name: array.get(medium, ("", ""))[getattr(scorer, name) is not None]
        for name, array in entry.get("arrays", {}).items()
    }
    for name, number in entry.get("numbers", {}).items():
        x = _number_of(getattr(scorer, name), number["neutral"], row)
        parts[name] = filled(number.get(medium, ("", ""))[x != number["neutral"]], spelled(x))
    return filled(str(entry[medium]), parts)


def _number_of(value: Array, neutral: float, row: tuple[int, int] | None) -> float:
    if row is None:
        return neutral if value.ndim else float(value)
    return float(np.broadcast_to(value, row[1])[row[0]])


def shown_name(scorer: Score) -> str:
    """Return the name of a score in steps.json: a concat is an additive score, with its weight split."""
    return "additive" if isinstance(scorer, additive) else type(scorer).__name__


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a text with a part for each ``{name}`` of `parts`; other braces stay, as LaTeX has them."""
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


def _heading(name: str) -> str:
    step = TEXTS["steps"][name]
    return f"Step {step['number']}. {step['title']}: {step['question'].replace('[', '').replace(']', '')}"


@dataclass(frozen=True, eq=False)
class Formula:
    """The options of one attention."""

    score: ScoreLike = "scaled_dot"
    mask: MaskLike | None = None
    scale: float | None = None
    softcap: float | None = None
    biased: bool = False
    normalize: NormalizeLike = "softmax"
    sink: float | None = None

    def __post_init__(self) -> None:
        for name in ("scale", "softcap", "sink"):
            number = getattr(self, name)
            known = None if number is None else float(_check.as_array(name, number))
            object.__setattr__(self, name, None if known == -math.inf else known)  # a sink that is none

    @property
    def name(self) -> str:
        """The name of the score function."""
        if isinstance(self.score, str):
            return self.score
        kind = type(self.score).__name__
        return kind if isinstance(self.score, Score) else str(getattr(self.score, "__name__", kind))

    @property
    def divided(self) -> bool:
        """Whether the scores are divided by sqrt(d)."""
        return self.scale is None and type(as_score(self.score)) is scaled_dot

    def factor(self, d: int) -> float:
        """Return the factor of the scores."""
        scorer = as_score(self.score)
        default = scorer.scale(d) if isinstance(scorer, Score) else 1.0
        return default if self.scale is None else self.scale

    @property
    def exponential(self) -> bool:
        """Whether weights are exponentials divided by a sum."""
        return self.normalize == "softmax" or isinstance(self.normalize, local_m)


@dataclass(frozen=True, eq=False)
class TextFormat:
    """Labels and format that all paragraphs share."""

    query_names: Sequence[str]
    key_names: Sequence[str]
    digits: int = 5
    color: bool = False
    columns: int | None = None  # of the screen; by default those of the terminal, when it is printed

    @property
    def width(self) -> int:
        """The columns of the screen."""
        return shutil.get_terminal_size().columns if self.columns is None else self.columns

    @cached_property
    def queries(self) -> list[str]:
        """The names of the queries as a terminal shows them."""
        return labels(self.query_names, len(self.query_names), "queries")

    @cached_property
    def keys(self) -> list[str]:
        """The names of the keys as a terminal shows them."""
        return labels(self.key_names, len(self.key_names), "keys")

    def prose(self, *sentences: str) -> str:
        """Return sentences, each from a line of its own, as wide as the screen."""
        lines = "\n".join(sentences).split("\n")
        return "\n".join("\n  ".join(wrap(line, self.width - 2, _MOST_LINES)) for line in lines)

    def numbers(self, values: Array, columns: Sequence[str] | None = None, *, shades: bool = False) -> str:
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


def scores(
    page: TextFormat, formula: Formula, attention: Attention, arrays: tuple[Array, Array], row: int
) -> list[str]:
    """Return step 1: every score, and how the row's most attended key gets its score."""
    score = formula.score
    numbers = page.numbers(_integers(attention.scores), page.keys)
    if is_builtin(score) and isinstance(score, additive):
        words, how = _inside(page, HiddenLayer(score, *arrays), attention, row)
    else:
        words, how = _score_words(formula), _learned(page, score)
    if formula.name in ("dot", "scaled_dot") and page.keys and arrays[0].shape[1]:
        best = int(attention.weights[row].argmax())
        names, total = f"{page.queries[row]} . {page.keys[best]}", float(attention.scores[row, best])
        how = [_products(page, names, arrays[0][row], arrays[1][best], total)]
    return [page.prose(_heading("scores")), page.prose(f"score = {words}"), numbers, *how]


def _inside(page: TextFormat, inside: HiddenLayer, attention: Attention, row: int) -> tuple[str, list[str]]:
    """Return the formula of a perceptron, and the numbers inside it for one query."""
    if not page.keys:
        return inside.title, []
    best = int(attention.weights[row].argmax())
    names, total = f"{page.queries[row]}, {page.keys[best]}", float(attention.scores[row, best])
    line = _products(page, f"{names}: {inside.words}", inside.vector, inside.hidden(row)[best], total)
    return inside.title, [inside.parameters(page), inside.tables(page, row), line]


def _score_words(formula: Formula) -> str:
    if not (isinstance(formula.score, str) or is_builtin(formula.score)):
        return f"{formula.name}(query, key), a function of yours"
    return score_text(formula.score, "words", lambda x: {"x": f"{x:g}"})


def _learned(page: TextFormat, score: ScoreLike) -> list[str]:
    """Return the learned arrays of a score function as one paragraph, if it has any."""
    named = score.parameters() if is_builtin(score) else {}
    arrays = [(name, array) for name, array in named.items() if array.ndim]
    return [matrices(arrays, digits=page.digits, width=page.width)] if arrays else []


class HiddenLayer:
    """The inner numbers of the additive score: W s, U h, their sum's tanh."""

    def __init__(self, score: additive, queries: Array, keys: Array) -> None:
        self.joined = isinstance(score, concat)
        self.score = score.split(queries.shape[1]) if isinstance(score, concat) else score
        self.vector: Array = self.score.vector
        self.left = _projected(queries, self.score.query_weight)
        self.right = _projected(keys, self.score.key_weight)

    @property
    def sum_words(self) -> str:
        """The sum inside the hidden layer, in letters."""
        terms = ["s" if self.score.query_weight is None else "W s"]
        terms.append("h" if self.score.key_weight is None else "U h")
        return " + ".join(terms + ["b"] * (self.score.bias is not None))

    @property
    def words(self) -> str:
        """The score in letters."""
        return f"v . tanh({self.sum_words})"

    @property
    def title(self) -> str:
        """The formula of the score."""
        halves = "; W and U are the upper and the lower rows of weight" if self.joined else ""
        return f"{self.words}: {_STATES}{halves}"

    def hidden(self, row: int) -> Array:
        """Return the hidden layer of one query with each key: (m, h)."""
        with np.errstate(all="ignore"):  # as in the attention itself, NaN and inf propagate
            total = self.left[row] + self.right
            layer: Array = np.tanh(total if self.score.bias is None else total + self.score.bias)
        return layer

    def parameters(self, page: TextFormat) -> str:
        """Return the learned arrays, each under its letter."""
        learned = self.score.parameters().items()
        named = [(LETTERS[name] if self.joined else f"{LETTERS[name]} = {name}", a) for name, a in learned]
        return matrices(named, digits=page.digits, width=page.width)

    def tables(self, page: TextFormat, row: int) -> str:
        """Return W s, U h and the hidden layer of one query."""
        left, right, *_ = self.sum_words.split(" + ")
        blocks = [
            (f"{left} of {page.queries[row]}", self.left[row : row + 1], None),
            (right, self.right, page.keys),
            (f"tanh({self.sum_words})", self.hidden(row), page.keys),
        ]
        width = max(24, (page.width - 3) // 2)
        return side_by_side(
            [
                f"{head}\n{table(numbers, names, digits=page.digits, width=width, color=False)}"
                for head, numbers, names in blocks
            ],
            width=page.width,
        )


def _projected(rows: Array, weight: Array | None) -> Array:
    with np.errstate(all="ignore"):
        projected: Array = rows.astype(np.float64) if weight is None else rows.astype(np.float64) @ weight
    return projected


def _products(page: TextFormat, names: str, left: Array, right: Array, total: float) -> str:
    """Return one score as a sum of products, as much of it as fits one line, or one after the names."""
    spell = speller(_integers(np.append(left, right)), page.digits)
    pairs = [f"{_term(spell(float(q)))}*{_term(spell(float(k)))}" for q, k in zip(left, right, strict=True)]
    end = speller(_integers(np.array([total])), page.digits)(total)
    counts = range(min(len(pairs), page.width), 0, -1)  # more have no room
    sums = [" + ".join(pairs if count == len(pairs) else [*pairs[:count], "…"]) for count in counts]
    lines = [f"{names} ={gap}{terms} = {end}" for gap in (" ", "\n  ") for terms in sums]
    lines += [f"{names} = {end}", f"{names} =\n  {end}"]
    return next(
        (line for line in lines if max(map(display_width, line.split("\n"))) <= page.width), lines[-1]
    )


def _term(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


def _logit_words(formula: Formula, d: int, hidden: bool) -> str:
    """Return how a score becomes a logit; `hidden`: some keys are not visible."""
    scaled, equal = "score", ""
    if formula.divided and d:
        scaled, equal = f"score / sqrt({d})", f" = score * {formula.factor(d):.5f}"
    elif formula.scale is not None or formula.factor(d) != 1:
        scaled = f"score * {formula.factor(d):g}"
    if (cap := formula.softcap) is not None:
        scaled, equal = f"{cap:g} * tanh({scaled} / {cap:g})", f", between -{cap:g} and {cap:g}"
    words = f"logit = {scaled} + bias" if formula.biased else f"logit = {scaled}{equal}"
    if hidden:
        words += ', or minus infinity where the mask hides the key\n"-": the key is not visible to the query'
    return words


def logits(page: TextFormat, formula: Formula, attention: Attention, d: int) -> list[str]:
    """Return the steps from the scores to the logits."""
    return [
        TEXTS["logits"],
        page.prose(_logit_words(formula, d, bool(np.isneginf(attention.logits).any()))),
        page.numbers(attention.logits, page.keys),
    ]


def _step_two(formula: Formula) -> str:
    """Return how logits become weights, in words."""
    kind = formula.normalize
    if isinstance(kind, local_m):
        keys = f"among the keys at most {kind.width} positions from the query's own"
        return f"weight = exp(logit) / the row's sum of exp(logit), {keys} (softmax in a window)"
    if isinstance(kind, local_p):
        gauss = "a Gaussian around the query's predicted position"
        return f"weight = the row's softmax * {gauss}, so that each row sums to less than 1"
    if formula.sink is not None:
        total = f"the row's sum of exp(logit) and exp({formula.sink:g})"
        return f"weight = exp(logit) / {total}, so that each row sums to less than 1 (softmax with a sink)"
    return str(TEXTS["normalize"][kind]["words"])


def weights(page: TextFormat, formula: Formula, attention: Attention, d: int) -> list[str]:
    """Return step 2: every weight, and each query in a sentence."""
    visible = ~np.isneginf(attention.logits)
    paragraphs = [
        page.prose(_heading("weights")),
        page.prose(_logit_words(formula, d, not visible.all()), _step_two(formula)),
        page.numbers(np.where(visible, attention.weights, -np.inf), page.keys, shades=True),
    ]
    sentences = [
        _sentence(page.queries[i], page.keys, attention.weights[i], visible[i])
        for i in range(min(len(attention.weights), _MOST_SENTENCES))
    ]
    if len(attention.weights) > _MOST_SENTENCES:
        sentences.append(f"and so on for {len(attention.weights) - _MOST_SENTENCES} more")
    return [*paragraphs, page.prose(*sentences)]


def _sentence(query: str, keys: list[str], weights: Array, visible: NDArray[np.bool_]) -> str:
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


def context(page: TextFormat, attention: Attention) -> list[str]:
    """Return step 3: every context."""
    return [
        page.prose(_heading("context")),
        "context = weights @ values",
        page.numbers(attention.context),
    ]


@np.errstate(all="ignore")  # products and sums of what is not finite
def term_by_term(
    page: TextFormat, formula: Formula, attention: Attention, values: Array, row: int
) -> list[str]:
    """Return one query term by term: score, logit, weight and term of the context of each key."""
    logits, weights = attention.logits[row], attention.weights[row].astype(np.float64)
    columns = [_Column("score", _integers(attention.scores[row])), _Column("logit", logits)]
    if formula.exponential:
        columns.append(_Column("exp", _exponentials(logits), added=True))
    columns.append(_Column("weight", weights, added=True))
    heads = ["w*value[1]", *(f"[{k + 1}]" for k in range(1, values.shape[1]))]
    terms = [
        _Column(head, weights * column, added=True) for head, column in zip(heads, values.T, strict=False)
    ]
    shown, digits, lines = _widest(page, columns, terms, weights)
    paragraphs = [f"{page.queries[row]}, term by term", lines]
    if digits < page.digits:
        paragraphs.append(f"numbers with {digits} digits after the point, for which there is room")
    if formula.exponential:
        paragraphs.append("exp = exp(logit - the row's largest logit)")
    if formula.sink is not None:
        share = 1 - float(weights.sum())
        paragraphs.append(f"the sink takes the rest of the weight: {speller([share], page.digits)(share)}")
    if shown < len(terms):
        verb = "is" if shown == 1 else "are"
        paragraphs.append(f"{shown} of the {len(terms)} numbers of each value {verb} shown")
    return paragraphs


@dataclass(frozen=True)
class _Column:
    """One number for each key; the sum of `added` columns is meaningful."""

    name: str
    numbers: Array
    added: bool = False

    def spell(self, digits: int, key: int) -> str:
        return speller(self.numbers, digits)(float(self.numbers[key]))

    def sum(self, digits: int, keys: Array) -> str:
        return speller(self.numbers, digits)(float(self.numbers[keys].sum())) if self.added else ""


def _widest(
    page: TextFormat, columns: list[_Column], terms: list[_Column], weights: Array
) -> tuple[int, int, str]:
    """Return how many terms the screen has room for, with how many digits, and the table of them."""
    most = min(len(terms), _MOST_VALUES)
    sizes = [(shown, page.digits) for shown in range(most, 0, -1)]
    sizes += [(min(most, 1), digits) for digits in range(page.digits - bool(terms), -1, -1)]
    for shown, digits in sizes:
        lines = align(_term_lines(page, digits, columns + terms[:shown], weights))
        if display_width(lines.split("\n")[0]) <= page.width:
            break
    return shown, digits, lines


def _term_lines(page: TextFormat, digits: int, columns: list[_Column], weights: Array) -> list[list[str]]:
    shown, others = _strongest(weights)
    names = [cut(name, max(8, page.width // 3)) for name in page.keys]
    lines = [["", *(column.name for column in columns)]]
    lines += [[names[j], *(column.spell(digits, j) for column in columns)] for j in shown]
    if others.size:
        lines.append([f"{others.size} others", *(column.sum(digits, others) for column in columns)])
    everything = np.arange(len(weights))
    return [*lines, ["sum", *(column.sum(digits, everything) for column in columns)]]


def _strongest(weights: Array) -> tuple[Array, Array]:
    """Return the keys with the largest weights, in their order, and all others."""
    order = np.argsort(-weights, kind="stable")
    if len(order) <= _MOST_KEYS + 2:
        return np.arange(len(order)), order[:0]
    return np.sort(order[:_MOST_KEYS]), np.sort(order[_MOST_KEYS:])


def _exponentials(logits: Array) -> Array:
    """Return exp(logit - the row's largest logit), the terms of a softmax that can't overflow."""
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        terms = np.exp(logits - logits.max(initial=-np.inf))
    return np.where(np.isneginf(logits), 0, terms)


def _integers(numbers: Array) -> Array:
    """Return integral floats as integers, which are printed without a decimal point."""
    if numbers.dtype.kind == "f" and np.all(np.isfinite(numbers)) and np.all(numbers == np.rint(numbers)):
        # Larger floats are more than 1 apart; float16 has no such number.
        return numbers.astype(np.int64) if float(np.abs(numbers).max(initial=0)) < 2**53 else numbers
    return numbers


def matrices(named: Sequence[tuple[str, ArrayLike]], *, digits: int = 5, width: int | None = None) -> str:
    """Format named matrices side by side, each under its name and shape, large ones truncated."""
    width = shutil.get_terminal_size().columns if width is None else width
    share = max(24, (width - 3 * (len(named) - 1)) // max(1, len(named)))
    blocks = []
    for name, matrix in named:
        array = _integers(_check.as_array(name, matrix))
        numbers = table(np.atleast_2d(array), digits=digits, width=share, most_rows=8, color=False)
        blocks.append(f"{name} {array.shape}\n{numbers}")
    return side_by_side(blocks, width=width)
