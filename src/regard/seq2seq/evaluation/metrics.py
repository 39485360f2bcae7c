"""Metrics of translations and word alignments, compared with references.

A *reference* is one right line, or several lines that are all right: for several, the best counts. BLEU and chrF are
sacrebleu's, in percent; shares and rates are numbers from 0 (an error rate may exceed 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard import _check

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

__all__ = [
    *("LengthRow", "SacrebleuScore", "LinkScore", "alignment_error_rate", "bleu", "by_length", "chrf"),
    *("edit_distance", "error_rate", "exact", "groups", "headline", "is_near", "unit"),
]

Reference = str | Sequence[str]
Link = tuple[int, int]
Measure = Callable[[Sequence[str], Sequence[Reference]], float]

_UNITS: dict[str | None, Callable[[str], list[str]]] = {"tokens": str.split, "characters": list}
_NEAR = 0.5  # a baseline with this share of a model's score is near
_LONGEST_RUN = 4  # n of BLEU, which is undefined if no reference has so many words
_LONGEST_COMPARED = 100_000  # tokens of both lines of which the edits are counted: it takes seconds
_WIDTHS = [factor * 10**power for power in range(9) for factor in (1, 2, 5)]  # of groups of lengths


class SacrebleuScore(NamedTuple):
    """A score of sacrebleu.

    Parameters
    ----------
    score : float
        In percent; NaN if undefined.
    signature : str
        sacrebleu's signature: version and options.
    """

    score: float
    signature: str


def bleu(
    hypotheses: Sequence[str], references: Sequence[Reference], *, tokenize: str = "13a"
) -> SacrebleuScore:
    """Return BLEU: the precision of n-grams of up to four words, with a penalty for brevity.

    Parameters
    ----------
    hypotheses : sequence of N str
        The outputs.
    references : sequence of N str or sequences of str
        The references.
    tokenize : str
        sacrebleu's tokenizer: "13a"; "zh" for Chinese; "char"; "none" for tokenized text.

    Returns
    -------
    SacrebleuScore
        BLEU of the corpus, in percent, with sacrebleu's signature. NaN where no reference has four words, which
        sacrebleu calls 0 even if every line is right.

    Raises
    ------
    ValueError, TypeError
        If there are not as many references as hypotheses, or none.
    ImportError
        If sacrebleu is not installed.

    References
    ----------
    Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation"; Post 2018, "A Call for
    Clarity in Reporting BLEU Scores".

    Examples
    --------
    >>> round(bleu(["the cat sat on the mat"], [["a cat sat", "the cat sat on the mat"]]).score, 2)
    100.0
    """
    _check.choice("tokenize", tokenize, ("13a", "zh", "char", "none", "intl"))
    metric = sacrebleu_metric("bleu", tokenize=tokenize)
    score = _sacrebleu(metric, hypotheses, references)
    lines = (line for right in _several(hypotheses, references) for line in right)
    countable = any(len(metric.tokenizer(line).split()) >= _LONGEST_RUN for line in lines)
    return score if countable else score._replace(score=math.nan)


def chrf(hypotheses: Sequence[str], references: Sequence[Reference]) -> SacrebleuScore:
    """Return chrF: the F-score (beta 2) of n-grams of up to six characters.

    Parameters
    ----------
    hypotheses : sequence of N str
        The outputs.
    references : sequence of N str or sequences of str
        The references.

    Returns
    -------
    SacrebleuScore
        chrF of the corpus, in percent, with sacrebleu's signature.

    Raises
    ------
    ValueError, TypeError
        If there are not as many references as hypotheses, or none.
    ImportError
        If sacrebleu is not installed.

    References
    ----------
    Popovic 2015, "chrF: character n-gram F-score for automatic MT evaluation".

    Examples
    --------
    >>> chrf(["chat"], ["chat"]).score, chrf(["chat"], ["mur"]).score
    (100.0, 0.0)
    """
    return _sacrebleu(sacrebleu_metric("chrf"), hypotheses, references)


def sacrebleu_metric(name: str, **options: Any) -> Any:
    """Return sacrebleu's "bleu" or "chrf"."""
    try:
        import sacrebleu
    except ImportError:
        raise ImportError('BLEU and chrF need sacrebleu: pip install "regard[cli]"') from None
    return {"bleu": sacrebleu.BLEU, "chrf": sacrebleu.CHRF}[name](**options)


def _sacrebleu(metric: Metric, hypotheses: Sequence[str], references: Sequence[Reference]) -> SacrebleuScore:
    score = metric.corpus_score(list(hypotheses), streams(hypotheses, references)).score
    return SacrebleuScore(float(score), str(metric.get_signature()))


def streams(hypotheses: Sequence[str], references: Sequence[Reference]) -> list[Any]:
    """Return references for sacrebleu: the first ones of all lines, then the second ones, None if there is none."""
    sets = _several(hypotheses, references)
    return [[refs[k] if k < len(refs) else None for refs in sets] for k in range(max(map(len, sets)))]


def _several(hypotheses: Sequence[str], references: Sequence[Reference]) -> list[tuple[str, ...]]:
    """Return the references of each hypothesis as tuples, checked."""
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(lines, str):
            _check.fail(f"{name} must be a sequence of lines. Got {lines!r:.60} instead.", kind=TypeError)
    if not hypotheses or len(hypotheses) != len(references):
        got = f"Got {len(references)} for {len(hypotheses)} hypotheses instead."
        _check.fail(f"references must be as many as hypotheses, at least one. {got}")
    sets = [(refs,) if isinstance(refs, str) else tuple(refs) for refs in references]
    if not all(sets):
        number = sets.index(()) + 1
        _check.fail(
            f"references must hold at least one line for each hypothesis. Got none for number {number}."
        )
    return sets


def exact(hypotheses: Sequence[str], references: Sequence[Reference]) -> float:
    """Return the share of hypotheses that equal one of their references.

    One minus this is the word error rate where each line is the answer for a word.

    Parameters
    ----------
    hypotheses : sequence of N str
        The outputs.
    references : sequence of N str or sequences of str
        The references.

    Returns
    -------
    float
        Between 0 and 1. The number of spaces between words does not matter.

    Raises
    ------
    ValueError, TypeError
        If there are not as many references as hypotheses, or none.

    Examples
    --------
    >>> exact(["T AH M EY T OW", "L AY V"], [["T AH M EY T OW", "T AH M AA T OW"], "L IH V"])
    0.5
    """
    return rate(exact_lines(hypotheses, references))


def rate(lines: Sequence[tuple[int, int]]) -> float:
    """Return the sum of the lines' numerators over the sum of their denominators, or over 1."""
    return sum(over for over, _ in lines) / max(sum(under for _, under in lines), 1)


def exact_lines(hypotheses: Sequence[str], references: Sequence[Reference]) -> list[tuple[int, int]]:
    """Return for each line whether it equals one of its references, and 1."""
    sets = _several(hypotheses, references)
    return [
        (line.split() in [reference.split() for reference in refs], 1)
        for line, refs in zip(hypotheses, sets, strict=True)
    ]


def error_rate(
    hypotheses: Sequence[str],
    references: Sequence[Reference],
    *,
    cut: Callable[[str], Sequence[Hashable]] = str.split,
) -> float:
    """Return the edits that would turn hypotheses into references, over the length of the references.

    With sounds between spaces this is the error rate of sounds, with ``cut=list`` the character error rate.

    Parameters
    ----------
    hypotheses : sequence of N str
        The outputs.
    references : sequence of N str or sequences of str
        References; of several, the one with the fewest edits counts, and the longest of those.
    cut : callable
        Splits a line into tokens; by default at spaces.

    Returns
    -------
    float
        The sum of all edits over the sum of all lengths (over 1, if all references are empty). The time to count them
        grows with the product of two lengths: where both are above 100,000 and differ, all tokens count as edits.

    Raises
    ------
    ValueError, TypeError
        If there are not as many references as hypotheses, or none.

    References
    ----------
    Levenshtein 1966, "Binary codes capable of correcting deletions, insertions, and reversals".

    Examples
    --------
    >>> error_rate(["K AE T", "D AO G Z"], ["K AE T", ["D AO G", "D AA G"]])  # one of six is superfluous
    0.16666666666666666
    >>> error_rate(["kitten"], ["sitting"], cut=list) == 3 / 7
    True
    """
    return rate(error_lines(hypotheses, references, cut))


def error_lines(
    hypotheses: Sequence[str],
    references: Sequence[Reference],
    cut: Callable[[str], Sequence[Hashable]] = str.split,
) -> list[tuple[int, int]]:
    """Return for each line the edits that turn it into its nearest reference, and the length of that."""
    lines = []
    for line, refs in zip(hypotheses, _several(hypotheses, references), strict=True):
        tokens = cut(line)
        edits, length = min((_edits(tokens, right), -len(right)) for right in map(cut, refs))
        lines.append((edits, -length))
    return lines


def _edits(tokens: Sequence[Hashable], reference: Sequence[Hashable]) -> int:
    """Return the edits between two lines; of two very long ones that differ, the most that there can be."""
    if min(len(tokens), len(reference)) <= _LONGEST_COMPARED:
        return edit_distance(tokens, reference)
    return 0 if tokens == reference else max(len(tokens), len(reference))


def unit(lines: Sequence[str], token_type: str | None = None) -> tuple[str, Callable[[str], list[str]]]:
    """Choose the unit of lengths: words, or characters if most lines have no space.

    Parameters
    ----------
    lines : sequence of str
        The lines whose lengths are counted.
    token_type : {"words", "subwords", "characters", "tokens"}, optional
        The token type of a model: for characters and tokens, these are the unit.

    Returns
    -------
    name : {"words", "characters", "tokens"}
        The unit's name.
    cut : callable
        Splits a line into units.

    Examples
    --------
    >>> unit(["K AE T", "D AO G"])[0], unit(["cat", "dog"])[0]
    ('words', 'characters')
    """
    if token_type in _UNITS:
        return str(token_type), _UNITS[token_type]
    blank = [" " in line.strip() for line in lines]
    return ("words", str.split) if 2 * sum(blank) >= len(blank) else ("characters", list)


def headline(sources: Sequence[str], references: Sequence[str]) -> str:
    """Choose the metric: BLEU for sentences, errors for single words and short targets.

    BLEU counts 4-grams: for correct outputs that are all shorter it is 0.

    Parameters
    ----------
    sources : sequence of str
        The sources.
    references : sequence of str
        The references.

    Returns
    -------
    {"bleu", "errors"}
        Errors if most sources have no space, or most references fewer than four words.

    Examples
    --------
    >>> headline(["the cat sat there"], ["le chat y est assis"]), headline(["cat"], ["K AE T"])
    ('bleu', 'errors')
    """
    short = sum(len(reference.split()) < _LONGEST_RUN for reference in references)
    return "errors" if unit(sources)[0] == "characters" or 2 * short > len(references) else "bleu"


def has_long_runs(references: Sequence[str]) -> bool:
    """Return whether any line has as many words as the n-grams of BLEU."""
    return any(len(reference.split()) >= _LONGEST_RUN for reference in references)


def is_near(baseline: Mapping[str, float | None], model: Mapping[str, float | None]) -> bool:
    """Return whether a baseline is near a model in one of the metrics.

    Parameters
    ----------
    baseline, model : mapping of str to float or None
        "bleu" and "exact", where at least half of the model's is near, and "errors", where at most twice the model's
        is; None and NaN where a measure is not defined.

    Returns
    -------
    bool
        Whether it is near in any metric. A baseline of 0 is not.

    Examples
    --------
    >>> is_near({"exact": 0.467}, {"exact": 0.2}), is_near({"bleu": 3.0}, {"bleu": 50.0})
    (True, False)
    """
    scores = {name: (baseline.get(name), model.get(name)) for name in ("bleu", "exact", "errors")}
    known = {
        name: (score, other)
        for name, (score, other) in scores.items()
        if score is not None and other is not None and not math.isnan(score + other)
    }
    errors = known.pop("errors", None)
    if any(score > 0 and score >= _NEAR * other for score, other in known.values()):
        return True
    return errors is not None and errors[0] < 1 and _NEAR * errors[0] <= errors[1]


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Count the fewest insertions, deletions and replacements of tokens that turn one sequence into the other.

    Parameters
    ----------
    first, second : sequence
        Tokens; a str is a sequence of characters.

    Returns
    -------
    int
        Between the difference of the lengths and the larger length.

    References
    ----------
    Myers 1999, "A Fast Bit-Vector Algorithm for Approximate String Matching Based on Dynamic Programming"; Hyyrö 2003,
    "A Bit-Vector Algorithm for Computing Levenshtein and Damerau Edit Distances", figure 3.

    Examples
    --------
    >>> edit_distance("kitten", "sitting"), edit_distance(["a", "b"], ["b"])
    (3, 1)
    """
    if not first:
        return len(second)
    # A column of the table of distances as two sets of bits: where it grows by one downwards, and where it falls.
    where: dict[Hashable, int] = {}
    for row, token in enumerate(first):
        where[token] = where.get(token, 0) | 1 << row
    every, last = (1 << len(first)) - 1, 1 << len(first) - 1
    grows, falls, distance = every, 0, len(first)
    for token in second:
        equal = where.get(token, 0)
        level = (((equal & grows) + grows) ^ grows) | equal | falls  # the diagonal does not grow here
        more, less = falls | ~(level | grows), grows & level  # compared with the column before
        distance += bool(more & last) - bool(less & last)
        more, less = more << 1 | 1, less << 1
        grows, falls = (less | ~(level | more)) & every, more & level & every
    return distance


class LinkScore(NamedTuple):
    """Agreement of word alignments with gold links.

    Parameters
    ----------
    error_rate : float
        The alignment error rate: 0 if all sure links are predicted and all predicted links are possible.
    precision : float
        The share of predicted links that are possible (1 if none is predicted).
    recall : float
        The share of sure links that are predicted (1 if none is sure).
    """

    error_rate: float
    precision: float
    recall: float


def alignment_error_rate(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]],
) -> LinkScore:
    """Compare word alignments with sure and possible links: ``1 - (|A & S| + |A & P|) / (|A| + |S|)``.

    Parameters
    ----------
    predicted : sequence of N collections of (int, int)
        The links A of each sentence pair.
    sure : sequence of N collections of (int, int)
        Sure links S.
    possible : sequence of N collections of (int, int)
        Possible links P; sure links need not be repeated here.

    Returns
    -------
    LinkScore
        Error rate, precision and recall, of all links together.

    Raises
    ------
    ValueError
        If the three have different numbers of sentence pairs.

    References
    ----------
    Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment Models", eq. 22.

    Examples
    --------
    >>> alignment_error_rate([{(0, 0), (1, 2)}], [{(0, 0), (1, 1)}], [{(1, 2)}])
    LinkScore(error_rate=0.25, precision=1.0, recall=0.5)
    """
    if not len(predicted) == len(sure) == len(possible):
        counts = f"{len(predicted)}, {len(sure)} and {len(possible)}"
        _check.fail(f"predicted, sure and possible must have as many sentence pairs. Got {counts} instead.")
    count = sure_count = correct = recalled = 0
    for a, s, p in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        count += len(a)
        sure_count += len(s)
        correct += len(a & (p | s))
        recalled += len(a & s)
    rate = 1 - (recalled + correct) / (count + sure_count) if count + sure_count else 0.0
    return LinkScore(rate, correct / count if count else 1.0, recalled / sure_count if sure_count else 1.0)


class LengthRow(NamedTuple):
    """Metrics of the sentences of a range of lengths.

    Parameters
    ----------
    shortest, longest : int
        The range, both included.
    sentences : int
        The number of sentences.
    scores : dict of str to float
        The metrics by name.
    """

    shortest: int
    longest: int
    sentences: int
    scores: dict[str, float]


def groups(lengths: Sequence[int], *, most: int = 10, least: int = 20) -> list[tuple[int, int, list[int]]]:
    """Group sentences by length: 1 to 5, 6 to 10, and so on, or in narrower or wider steps.

    Parameters
    ----------
    lengths : sequence of N int
        The length of each sentence.
    most : int
        The approximate number of groups, which determines the step (1, 2, 5, 10, 20, ...).
    least : int
        A group with fewer sentences is merged with the next, and the last with the one before.

    Returns
    -------
    list of (shortest, longest, indices)
        In increasing order; each sentence belongs to one group.

    Raises
    ------
    ValueError, TypeError
        If a length is negative or not an integer.

    Examples
    --------
    >>> groups([3, 1, 12, 7, 30], most=4, least=1)
    [(1, 10, [0, 1, 3]), (11, 20, [2]), (21, 30, [4])]
    """
    array = _check.integer_array("lengths", lengths, least=0)
    if not array.size:
        return []
    usual = float(np.quantile(array, 0.99))  # so that a few very long sentences do not widen the steps
    width = next(width for width in _WIDTHS if usual <= most * width)
    steps = np.maximum(array - 1, 0) // width
    result: list[tuple[int, int, list[int]]] = []
    for step in sorted(set(steps.tolist())):
        indices = np.flatnonzero(steps == step).tolist()
        start = min(step * width + 1, int(array[indices].min()))
        if result and len(result[-1][2]) < least:
            start, _, before = result.pop()
            indices = sorted(before + indices)
        result.append((start, (step + 1) * width, indices))
    return _join_last(result, int(array.max()), least)


def _join_last(
    groups: list[tuple[int, int, list[int]]], longest: int, least: int
) -> list[tuple[int, int, list[int]]]:
    """Join the last group with the one before if it is small, and end it where the sentences end."""
    start, _, indices = groups.pop()
    if groups and len(indices) < least:
        start, _, before = groups.pop()
        indices = sorted(before + indices)
    return [*groups, (start, longest, indices)]


def by_length(
    lengths: Sequence[int],
    hypotheses: Sequence[str],
    references: Sequence[Reference],
    measures: Mapping[str, Measure],
) -> list[LengthRow]:
    """Return metrics by length.

    Parameters
    ----------
    lengths : sequence of N int
        Lengths for `groups`, usually of the sources.
    hypotheses : sequence of N str
        The outputs.
    references : sequence of N str or sequences of str
        The references.
    measures : mapping of str to callable
        Each ``measure(hypotheses, references) -> float``.

    Returns
    -------
    list of LengthRow
        One for each group, by increasing length.

    Raises
    ------
    ValueError, TypeError
        If there are not as many references or lengths as hypotheses, or none.

    Examples
    --------
    >>> by_length([1] * 20 + [2] * 20, ["a"] * 40, ["a"] * 20 + ["b"] * 20, {"exact": exact})
    [LengthRow(shortest=1, longest=1, sentences=20, scores={'exact': 1.0}), LengthRow(shortest=2, longest=2, ...
    """
    _several(hypotheses, references)
    if len(lengths) != len(hypotheses):
        _check.fail(f"lengths must be as many as hypotheses, {len(hypotheses)}. Got {len(lengths)} instead.")
    rows = []
    for shortest, longest, indices in groups(lengths):
        lines, right = [hypotheses[i] for i in indices], [references[i] for i in indices]
        scores = {name: measure(lines, right) for name, measure in measures.items()}
        rows.append(LengthRow(shortest, longest, len(indices), scores))
    return rows
