"""The second opinion on the definition: plain loops over Python floats, every sum by ``math.fsum``.

Slow and without tricks, for small shapes with finite numbers. Nothing here is imported from the package. A score
is a `Score`: one number for one query row and one key row, and with it the sum of the absolute values of all
terms (which is what rounding errors are proportional to, see ``budget.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = list[float]
Index = tuple[int, ...]  # (leading index ..., query number i)
Normalize = Callable[[Row, Index, int], Row]  # logits with -inf where masked, position, n -> weights
F64 = NDArray[np.float64]
INF = math.inf


@dataclass(frozen=True)
class Score:
    """One score: its value, the sum of its absolute terms, and how many terms its longest sum has."""

    value: Callable[[Row, Row, int], float]  # (query row, key row, key number j)
    magnitude: Callable[[Row, Row, int], float]
    terms: Callable[[int, int], int]  # (d of queries, d of keys)


@dataclass(frozen=True)
class Answer:
    """The results of the oracle, in float64."""

    scores: F64
    logits: F64
    weights: F64
    context: F64
    lse: F64
    magnitude: F64  # (..., n, m): sum of absolute terms behind each logit
    terms: int


def product(a: Row, b: Row) -> float:
    """a . b"""
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def absolute(row: Row) -> Row:
    """|a|, entry by entry."""
    return [abs(x) for x in row]


def column(matrix: list[Row], c: int) -> Row:
    """Column c."""
    return [row[c] for row in matrix]


def rows(array: Any) -> list[Row]:
    """A 2-D array as lists of Python floats."""
    return [[float(x) for x in row] for row in np.asarray(array)]


def entries(array: Any) -> Row:
    """A 1-D array as a list of Python floats."""
    return [float(x) for x in np.asarray(array)]


# ---- step 1: scores ------------------------------------------------------------------------------------------


def dot() -> Score:
    """q . k"""
    return Score(
        value=lambda q, k, j: product(q, k),
        magnitude=lambda q, k, j: product(absolute(q), absolute(k)),
        terms=lambda dq, dk: dq,
    )


def cosine(sharpness: float = 1.0) -> Score:
    """sharpness * q . k / (|q| |k|), and 0 where a norm is 0."""

    def over_norms(value: float, q: Row, k: Row) -> float:
        norms = math.sqrt(product(q, q)) * math.sqrt(product(k, k))
        return 0.0 if norms == 0 else value / norms

    return Score(
        value=lambda q, k, j: sharpness * over_norms(product(q, k), q, k),
        # a rounding error in either norm moves the score as well, hence three times
        magnitude=lambda q, k, j: 3 * abs(sharpness) * over_norms(product(absolute(q), absolute(k)), q, k),
        terms=lambda dq, dk: dq,
    )


def general(weight: Any) -> Score:
    """q W k"""
    matrix = rows(weight)

    def value(q: Row, k: Row, w: list[Row]) -> float:
        return math.fsum(q[a] * w[a][b] * k[b] for a in range(len(q)) for b in range(len(k)))

    return Score(
        value=lambda q, k, j: value(q, k, matrix),
        magnitude=lambda q, k, j: value(absolute(q), absolute(k), [absolute(r) for r in matrix]),
        terms=lambda dq, dk: dq + dk,
    )


def perceptron(inputs: Callable[[Row, Row], list[tuple[Row, list[Row]]]], vector: Row, bias: Row) -> Score:
    """v . tanh(sum of row @ matrix over the inputs + b)"""

    def hidden(q: Row, k: Row, h: int) -> float:
        return math.fsum([bias[h]] + [product(row, column(matrix, h)) for row, matrix in inputs(q, k)])

    def hidden_magnitude(q: Row, k: Row, h: int) -> float:
        parts = [product(absolute(row), absolute(column(matrix, h))) for row, matrix in inputs(q, k)]
        return math.fsum([abs(bias[h]), *parts])

    hs = range(len(vector))
    return Score(
        value=lambda q, k, j: math.fsum(vector[h] * math.tanh(hidden(q, k, h)) for h in hs),
        # tanh has slope at most 1, so an error of its argument arrives undamped at most
        magnitude=lambda q, k, j: math.fsum(abs(vector[h]) * (1 + hidden_magnitude(q, k, h)) for h in hs),
        terms=lambda dq, dk: max(dq + dk, len(vector)),
    )


def additive(query_weight: Any, key_weight: Any, vector: Any, bias: Any = None) -> Score:
    """v . tanh(q Wq + k Wk + b); a weight of None means that its rows are already projected."""
    size = len(vector)
    unit = [[1.0 if a == b else 0.0 for b in range(size)] for a in range(size)]
    wq = unit if query_weight is None else rows(query_weight)
    wk = unit if key_weight is None else rows(key_weight)
    b = [0.0] * size if bias is None else entries(bias)
    return perceptron(lambda q, k: [(q, wq), (k, wk)], entries(vector), b)


def concat(weight: Any, vector: Any) -> Score:
    """v . tanh([q; k] W)"""
    matrix = rows(weight)
    return perceptron(lambda q, k: [(q + k, matrix)], entries(vector), [0.0] * len(vector))


def location(weight: Any) -> Score:
    """(q W)_j"""
    matrix = rows(weight)
    return Score(
        value=lambda q, k, j: product(q, column(matrix, j)),
        magnitude=lambda q, k, j: product(absolute(q), absolute(column(matrix, j))),
        terms=lambda dq, dk: dq,
    )


def gaussian(width: float = 1.0) -> Score:
    """-|q - k|^2 / (2 width^2)"""
    return Score(
        value=lambda q, k, j: -math.fsum((a - b) ** 2 for a, b in zip(q, k, strict=True)) / (2 * width**2),
        # an implementation may expand the square: |q|^2 + |k|^2 - 2 q.k
        magnitude=lambda q, k, j: (
            math.fsum((abs(a) + abs(b)) ** 2 for a, b in zip(q, k, strict=True)) / (2 * width**2)
        ),
        terms=lambda dq, dk: dq,
    )


def manhattan() -> Score:
    """-sum |q - k|: what the tests use as a function of the user's."""
    return Score(
        value=lambda q, k, j: -math.fsum(abs(a - b) for a, b in zip(q, k, strict=True)),
        magnitude=lambda q, k, j: math.fsum(abs(a) + abs(b) for a, b in zip(q, k, strict=True)),
        terms=lambda dq, dk: dq,
    )


# ---- step 2: weights -----------------------------------------------------------------------------------------


def logsumexp(logits: Row) -> float:
    """log sum exp, -inf for a row without a visible key."""
    top = max(logits, default=-INF)
    if top == -INF:
        return -INF
    return top + math.log(math.fsum(math.exp(x - top) for x in logits))


def softmax_row(logits: Row) -> Row:
    """exp(x_j) / sum exp(x)"""
    top = max(logits, default=-INF)
    if top == -INF:
        return [0.0 for _ in logits]
    powers = [math.exp(x - top) for x in logits]
    total = math.fsum(powers)
    return [p / total for p in powers]


def softmax(logits: Row, index: Index, n: int) -> Row:
    """Softmax over visible keys."""
    return softmax_row(logits)


def sparsemax(logits: Row, index: Index, n: int) -> Row:
    """max(z - tau, 0) with the tau under which it sums to 1, tried for every size of the support."""
    ordered = sorted((x for x in logits if x > -INF), reverse=True)
    for size in range(len(ordered), 0, -1):
        tau = (math.fsum(ordered[:size]) - 1) / size
        if ordered[size - 1] > tau:
            return [max(x - tau, 0.0) if x > -INF else 0.0 for x in logits]
    return [0.0 for _ in logits]


def entmax15(logits: Row, index: Index, n: int) -> Row:
    """max(z / 2 - tau, 0)^2 with the tau under which it sums to 1, found by halving an interval."""
    visible = [x / 2 for x in logits if x > -INF]
    if not visible:
        return [0.0 for _ in logits]
    low, high = max(visible) - 1, max(visible)
    for _ in range(200):
        tau = (low + high) / 2
        total = math.fsum(max(z - tau, 0.0) ** 2 for z in visible)
        low, high = (tau, high) if total > 1 else (low, tau)
    return [max(x / 2 - low, 0.0) ** 2 if x > -INF else 0.0 for x in logits]


def entmax(alpha: float) -> Normalize:
    """max((alpha - 1) z - tau, 0)^(1 / (alpha - 1)) with the tau under which it sums to 1, by halving an interval."""

    def weigh(logits: Row, index: Index, n: int) -> Row:
        if max(logits, default=-INF) == -INF:
            return [0.0 for _ in logits]
        scaled = [(alpha - 1) * x for x in logits]
        low, high = max(scaled) - 1, max(scaled)

        def at(tau: float) -> Row:
            return [max(x - tau, 0.0) ** (1 / (alpha - 1)) for x in scaled]

        for _ in range(200):
            tau = (low + high) / 2
            low, high = (tau, high) if math.fsum(at(tau)) > 1 else (low, tau)
        return at(low)

    return weigh


def sigmoid(bias: float | None = None) -> Normalize:
    """1 / (1 + exp(-(z + b))), where b is -log of the number of visible keys unless another is given."""

    def weigh(logits: Row, index: Index, n: int) -> Row:
        visible = [x for x in logits if x > -INF]
        b = -math.log(max(len(visible), 1)) if bias is None else bias
        return [1 / (1 + math.exp(-(x + b))) if x > -INF else 0.0 for x in logits]

    return weigh


def relu(logits: Row, index: Index, n: int) -> Row:
    """max(z, 0) over the number of visible keys."""
    count = max(sum(x > -INF for x in logits), 1)
    return [max(x, 0.0) / count for x in logits]


def off_by_one(sharpness: float = 1.0) -> Normalize:
    """exp(s z) / (1 + sum exp(s z)): what the tests use as a function of the user's."""

    def weigh(logits: Row, index: Index, n: int) -> Row:
        powers = [math.exp(sharpness * x) for x in logits]
        return [p / (1 + math.fsum(powers)) for p in powers]

    return weigh


def hard(logits: Row, index: Index, n: int) -> Row:
    """1 for the first of the largest, 0 for the rest."""
    top = max(logits, default=-INF)
    if top == -INF:
        return [0.0 for _ in logits]
    first = logits.index(top)
    return [1.0 if j == first else 0.0 for j in range(len(logits))]


def local_p(positions: Any, width: float) -> Normalize:
    """Softmax times exp(-(j - p_i)^2 / (2 (width / 2)^2)), not renormalised; the window is a mask."""

    def weigh(logits: Row, index: Index, n: int) -> Row:
        centre = float(positions[index])
        bell = [math.exp(-((j - centre) ** 2) / (2 * (width / 2) ** 2)) for j in range(len(logits))]
        return [w * b for w, b in zip(softmax_row(logits), bell, strict=True)]

    return weigh


# ---- the three steps -----------------------------------------------------------------------------------------


def leading_shape(queries: Any, keys: Any, values: Any) -> tuple[tuple[int, ...], int]:
    """The leading dimensions of the result, and how many query heads read one key head."""
    key_lead = np.broadcast_shapes(keys.shape[:-2], values.shape[:-2])
    query_lead = queries.shape[:-2]
    group = 1
    if query_lead and key_lead and key_lead[-1] > 1 and query_lead[-1] > key_lead[-1]:
        group = query_lead[-1] // key_lead[-1]
        key_lead = key_lead[:-1] + query_lead[-1:]
    return np.broadcast_shapes(query_lead, key_lead), group


def pick(array: Any, lead: tuple[int, ...], group: int) -> list[Row]:
    """The rows that the leading index `lead` reads, by broadcasting; head h reads head h // group."""
    own = array.shape[:-2]
    index = list(lead[len(lead) - len(own) :])
    if index and group > 1:
        index[-1] //= group
    return rows(array[tuple(0 if size == 1 else i for i, size in zip(index, own, strict=True))])


def one_logit(score: float, scale: float, softcap: float | None, bias: float, visible: bool) -> float:
    """softcap(score * scale) + bias, or -inf where masked."""
    if not visible or bias == -INF:
        return -INF
    x = score * scale
    if softcap is not None:
        x = softcap * math.tanh(x / softcap)
    return x + bias


def attend(
    queries: Any,
    keys: Any,
    values: Any,
    *,
    score: Score,
    scale: float,
    mask: Any = None,
    bias: Any = None,
    softcap: float | None = None,
    normalize: Normalize = softmax,
    sink: Any = None,
) -> Answer:
    """The three steps for arrays (..., n, d), (..., m, d'), (..., m, e).

    Mask and bias broadcast to (..., n, m), a sink to (...).
    """
    lead, group = leading_shape(queries, keys, values)
    n, m, e = queries.shape[-2], keys.shape[-2], values.shape[-1]
    full = (*lead, n, m)
    allowed = np.broadcast_to(True if mask is None else mask, full)
    sinks = np.broadcast_to(-INF if sink is None else np.asarray(sink, dtype=np.float64), lead)
    added = np.broadcast_to(0.0 if bias is None else np.asarray(bias, dtype=np.float64), full)
    scores, logits, weights, magnitude = (np.zeros(full) for _ in range(4))
    context, lse = np.zeros((*lead, n, e)), np.zeros((*lead, n))
    for index in np.ndindex(*lead):
        q = pick(queries, index, 1)
        k, v = pick(keys, index, group), pick(values, index, group)
        for i in range(n):
            at = (*index, i)
            row_scores = [score.value(q[i], k[j], j) for j in range(m)]
            row = [
                one_logit(row_scores[j], scale, softcap, float(added[at][j]), bool(allowed[at][j]))
                for j in range(m)
            ]
            drain = [] if sink is None else [float(sinks[index])]
            share = normalize(row + drain, at, n)[:m]
            scores[at], logits[at], weights[at], lse[at] = row_scores, row, share, logsumexp(row + drain)
            context[at] = [math.fsum(share[j] * v[j][c] for j in range(m)) for c in range(e)]
            sizes = [abs(scale) * score.magnitude(q[i], k[j], j) for j in range(m)]
            magnitude[at] = [
                size + abs(float(b)) if x > -INF else 0.0
                for size, b, x in zip(sizes, added[at], row, strict=True)
            ]
    terms = score.terms(queries.shape[-1], keys.shape[-1])
    return Answer(scores, logits, weights, context, lse, magnitude, terms)
