"""The text of each step of an explanation, and one row of it term by term."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard.scores import additive, concat, is_builtin
from regard.show.steps import (
    LETTERS,
    TEXTS,
    are_shares,
    logit_text,
    normalize_text,
    score_text,
    weight_text,
)
from regard.show.terminal._heatmap import speller, table
from regard.show.terminal.text import align, cut, display_width, side_by_side, wrap
from regard.weights import local_m, local_p

if TYPE_CHECKING:
    from regard.show.explanation import Explanation

__all__ = ["STEPS", "matrices"]

Array = NDArray[Any]

_MOST_VALUES = 12  # numbers of each value in that row
_MOST_SENTENCES = 6  # rows in words
_MOST_LINES = 9  # of a sentence
_MOST_KEYS = 10  # keys of the row that is explained term by term
_STATES = "s is a query (a decoder's state), h a key (an annotation)"


def _prose(story: Explanation, *sentences: str) -> str:
    """Return sentences, each from a line of its own, as wide as the screen."""
    lines = "\n".join(sentences).split("\n")
    return "\n".join("\n  ".join(wrap(line, story.width - 2, _MOST_LINES)) for line in lines)


def _heading(story: Explanation, name: str) -> str:
    step = TEXTS["steps"][name]
    question = step["question"].replace("[", "").replace("]", "")
    return _prose(story, f"Step {step['number']}. {step['title']}: {question}")


def _numbers(
    story: Explanation, values: Array, columns: Sequence[str] | None = None, *, shades: bool = False
) -> str:
    """Return a table of one row for each query."""
    look: dict[str, Any] = {"digits": story.digits, "color": story.color, "width": story.width}
    return table(values, story.queries_named, columns, shades=shades, **look)


def _inputs(story: Explanation, _: int) -> list[str]:
    lines = [story.title]
    if story.inputs:
        made = "queries = words @ query weights, and keys and values likewise"
        lines += [_matrices(story, story.inputs.items()), _prose(story, made)]
    arrays = {"queries": story.queries, "keys": story.keys, "values": story.values}
    return [*lines, _matrices(story, arrays.items())]


def _matrices(story: Explanation, named: Any) -> str:
    return matrices(list(named), digits=story.digits, width=story.width)


# ---- the scores


def _scores(story: Explanation, row: int) -> list[str]:
    """Every score, and how the row's most attended key gets its score."""
    score, names = story.score, story.keys_named
    numbers = _numbers(story, _integers(story.scores), names)
    if is_builtin(score) and isinstance(score, additive):
        words, how = _inside(story, HiddenLayer(score, story.queries, story.keys), row)
    else:
        words, how = _score_words(story), _learned(story)
    if story.score_name in ("dot", "scaled_dot") and names and story.queries.shape[1]:
        how = [_products(story, row, " . ", "", story.queries[row], story.keys[_best(story, row)])]
    return [_heading(story, "scores"), _prose(story, f"score = {words}"), numbers, *how]


def _best(story: Explanation, row: int) -> int:
    return int(story.weights[row].argmax())


def _inside(story: Explanation, inside: HiddenLayer, row: int) -> tuple[str, list[str]]:
    """Return the formula of a perceptron, and the numbers inside it for one query."""
    if not story.keys_named:
        return inside.title, []
    hidden = inside.hidden(row)[_best(story, row)]
    line = _products(story, row, ", ", f": {inside.words}", inside.vector, hidden)
    return inside.title, [inside.parameters(story), inside.tables(story, row), line]


def _score_words(story: Explanation) -> str:
    if not (isinstance(story.score, str) or is_builtin(story.score)):
        return f"{story.score_name}(query, key), a function of yours"
    return score_text(story.score, "words", _spelled)


def _spelled(x: float) -> dict[str, str]:
    return {"x": f"{x:g}"}


def _learned(story: Explanation) -> list[str]:
    """Return the learned arrays of a score function as one paragraph, if it has any."""
    named = story.score.parameters() if is_builtin(story.score) else {}
    arrays = [(name, array) for name, array in named.items() if array.ndim]
    return [_matrices(story, arrays)] if arrays else []


class HiddenLayer:
    """The inner numbers of the additive score: W s, U h, their sum's tanh."""

    def __init__(self, score: additive, queries: Array, keys: Array) -> None:
        self.joined = isinstance(score, concat)
        self.score = score.split(queries.shape[1]) if isinstance(score, concat) else score
        self.vector: Array = self.score.vector
        self.left = _projected(queries, self.score.query_weight)
        self.right = _projected(keys, self.score.key_weight)
        terms = ["s" if self.score.query_weight is None else "W s"]
        terms.append("h" if self.score.key_weight is None else "U h")
        self.terms = terms + ["b"] * (self.score.bias is not None)
        self.words = f"v . tanh({' + '.join(self.terms)})"

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

    def parameters(self, story: Explanation) -> str:
        """Return the learned arrays, each under its letter."""
        named = "{letter}" if self.joined else "{letter} = {name}"
        learned = self.score.parameters().items()
        return _matrices(story, [(named.format(letter=LETTERS[name], name=name), a) for name, a in learned])

    def tables(self, story: Explanation, row: int) -> str:
        """Return W s, U h and the hidden layer of one query."""
        left, right, *_ = self.terms
        blocks = [
            (f"{left} of {story.queries_named[row]}", self.left[row : row + 1], None),
            (right, self.right, story.keys_named),
            (self.words.removeprefix("v . "), self.hidden(row), story.keys_named),
        ]
        look: dict[str, Any] = {
            "digits": story.digits,
            "width": max(24, (story.width - 3) // 2),
            "color": False,
        }
        texts = [f"{head}\n{table(numbers, names, **look)}" for head, numbers, names in blocks]
        return side_by_side(texts, width=story.width)


def _projected(rows: Array, weight: Array | None) -> Array:
    with np.errstate(all="ignore"):
        projected: Array = rows.astype(np.float64) if weight is None else rows.astype(np.float64) @ weight
    return projected


def _products(story: Explanation, row: int, joint: str, formula: str, left: Array, right: Array) -> str:
    """Return the best score of a row as a sum of products, as much of it as fits one line, or one after the names."""
    best, width = _best(story, row), story.width
    names = f"{story.queries_named[row]}{joint}{story.keys_named[best]}{formula}"
    total = float(story.scores[row, best])
    spell = speller(_integers(np.append(left, right)), story.digits)
    pairs = [f"{_term(spell(float(q)))}*{_term(spell(float(k)))}" for q, k in zip(left, right, strict=True)]
    end = speller(_integers(np.array([total])), story.digits)(total)
    counts = range(min(len(pairs), width), 0, -1)  # more have no room
    sums = [" + ".join(pairs if count == len(pairs) else [*pairs[:count], "…"]) for count in counts]
    lines = [f"{names} ={gap}{terms} = {end}" for gap in (" ", "\n  ") for terms in sums]
    lines += [f"{names} = {end}", f"{names} =\n  {end}"]
    return next((line for line in lines if max(map(display_width, line.split("\n"))) <= width), lines[-1])


def _term(number: str) -> str:
    return f"({number})" if number.startswith("-") else number


# ---- the logits and the weights


def _logit_words(story: Explanation) -> str:
    """Return how a score becomes a logit."""
    text = logit_text("words", "score", _spelled, **story.logit_options)
    if not story.biased and (cap := story.softcap) is not None:
        text += f", between -{cap:g} and {cap:g}"
    elif not story.biased and story.logit_options["root"]:
        text += f" = score * {story.factor:.5f}"
    if np.isneginf(story.logits).any():
        text += ', or minus infinity where the mask hides the key\n"-": the key is not visible to the query'
    return f"logit = {text}"


def _logits(story: Explanation, _: int) -> list[str]:
    numbers = _numbers(story, story.logits, story.keys_named)
    return [TEXTS["logits"], _prose(story, _logit_words(story)), numbers]


def _weight_words(story: Explanation) -> str:
    """Return how logits become weights."""
    kind = story.normalize
    if isinstance(kind, local_m):
        keys = f"among the keys at most {kind.width} positions from the query's own"
        return f"weight = exp(logit) / the row's sum of exp(logit), {keys} (softmax in a window)"
    if isinstance(kind, local_p):
        gauss = "a Gaussian around the query's predicted position"
        return f"weight = the row's softmax * {gauss}, so that each row sums to less than 1"
    if story.sink is not None:
        total = f"the row's sum of exp(logit) and exp({story.sink:g})"
        return f"weight = exp(logit) / {total}, so that each row sums to less than 1 (softmax with a sink)"
    return normalize_text(kind, "words")


def _weights(story: Explanation, _: int) -> list[str]:
    """Every weight, and each query in a sentence."""
    visible = ~np.isneginf(story.logits)
    shown = np.where(visible, story.weights, -np.inf)
    rows = zip(story.queries_named, story.weights, visible, strict=True)
    written = weight_text(are_shares(story.weights, story.normalize))
    sentences = [
        _sentence(name, story.keys_named, row, seen, written)
        for name, row, seen in list(rows)[:_MOST_SENTENCES]
    ]
    if (more := len(story.weights) - _MOST_SENTENCES) > 0:
        sentences.append(f"and so on for {more} more")
    return [
        _heading(story, "weights"),
        _prose(story, _logit_words(story), _weight_words(story)),
        _numbers(story, shown, story.keys_named, shades=True),
        _prose(story, *sentences),
    ]


def _sentence(
    query: str, keys: list[str], weights: Array, visible: NDArray[np.bool_], written: Callable[[float], str]
) -> str:
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
        named.append(f"{keys[j]} ({written(weights[j])})")
        rest -= float(weights[j])
    others = [j for j in order[len(named) :] if visible[j]]
    if len(others) == 1:
        named.append(f"{keys[others[0]]} ({written(weights[others[0]])})")
    last = ""
    if len(others) > 1:
        which = f"other {len(others)}" if visible.all() else f"other {len(others)} visible keys"
        last = f"; the {which} share {written(max(rest, 0.0))}"
    elif not visible.all():
        last = "; no other key is visible"
    return f"{query} attends to {', '.join(named)}{last}"


# ---- the context, and one row


def _context(story: Explanation, _: int) -> list[str]:
    return [_heading(story, "context"), "context = weights @ values", _numbers(story, story.context)]


@np.errstate(all="ignore")  # products and sums of what is not finite
def _term_by_term(story: Explanation, row: int) -> list[str]:
    """Score, logit, weight and term of the context of each key."""
    logits, weights = story.logits[row], story.weights[row].astype(np.float64)
    columns = [_Column("score", _integers(story.scores[row])), _Column("logit", logits)]
    if story.exponential:
        columns.append(_Column("exp", _exponentials(logits), added=True))
    columns.append(_Column("weight", weights, added=True))
    heads = ["w*value[1]", *(f"[{k + 1}]" for k in range(1, story.values.shape[1]))]
    added = zip(heads, story.values.T, strict=False)
    terms = [_Column(head, weights * column, added=True) for head, column in added]
    shown, digits, lines = _widest(story, columns, terms, weights)
    notes = []
    if digits < story.digits:
        notes.append(f"numbers with {digits} digits after the point, for which there is room")
    if story.exponential:
        notes.append("exp = exp(logit - the row's largest logit)")
    if story.sink is not None:
        share = 1 - float(weights.sum())
        notes.append(f"the sink takes the rest of the weight: {speller([share], story.digits)(share)}")
    if shown < len(terms):
        verb = "is" if shown == 1 else "are"
        notes.append(f"{shown} of the {len(terms)} numbers of each value {verb} shown")
    return [f"{story.queries_named[row]}, term by term", lines, *notes]


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
    story: Explanation, columns: list[_Column], terms: list[_Column], weights: Array
) -> tuple[int, int, str]:
    """Return how many terms the screen has room for, with how many digits, and the table of them."""
    most = min(len(terms), _MOST_VALUES)
    sizes = [(shown, story.digits) for shown in range(most, 0, -1)]
    sizes += [(min(most, 1), digits) for digits in range(story.digits - bool(terms), -1, -1)]
    for shown, digits in sizes:
        lines = align(_term_lines(story, digits, columns + terms[:shown], weights))
        if display_width(lines.split("\n")[0]) <= story.width:
            break
    return shown, digits, lines


def _term_lines(story: Explanation, digits: int, columns: list[_Column], weights: Array) -> list[list[str]]:
    shown, others = _strongest(weights)
    names = [cut(name, max(8, story.width // 3)) for name in story.keys_named]
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


STEPS: dict[str, Callable[[Explanation, int], list[str]]] = {
    "inputs": _inputs,
    "scores": _scores,
    "logits": _logits,
    "weights": _weights,
    "context": _context,
    "row": _term_by_term,
}
