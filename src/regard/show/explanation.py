"""The three steps of one attention, in numbers and words: `regard.explain`, and the output of `regard explain`."""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._display import InNotebook
from regard._once import computed_once
from regard.context import Attention, attend
from regard.mask import MaskLike
from regard.position import BiasLike
from regard.scores import Score, ScoreLike, as_score, scaled_dot
from regard.show import latex, story
from regard.show.page import HtmlPage
from regard.show.page import page as page_of
from regard.show.page.mechanism import is_readable, mechanism, recomputes, with_words
from regard.show.page.section import labels as names_of
from regard.show.steps import normalize_name
from regard.show.terminal.cells import labels as printable
from regard.weights import NormalizeLike, as_normalize, is_softmax, local_m

__all__ = ["Explanation", "explain"]

Array = NDArray[Any]

STEPS = tuple(story.STEPS)
_STORY = ("inputs", "scores", "weights", "context", "row")  # the weights name the logits, too
_NUMBERED = {1: "scores", 2: "weights", 3: "context"}
MOST_WEIGHTS = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(InNotebook):
    """The explanation of one attention: `print` prints all steps, `step` returns one, and the numbers are attributes.

    `explain` returns it.

    Parameters
    ----------
    attention : Attention
        The result of `attend`, without leading dimensions.
    queries, keys, values : array (n, d), (m, d), (m, e)
        The arrays of the attention.
    query_names, key_names : sequence of str
        The names of the queries and of the keys.
    score, mask, scale, softcap, normalize, sink
        The options of the attention.
    biased : bool
        Whether it had a bias.
    chosen : int
        The query that is explained term by term, from 0.
    digits : int
        Digits after the decimal point.
    color : bool
        Whether weights are shaded.
    columns : int, optional
        Columns of the text; by default those of the terminal, when it is printed.
    title : str
        The first line.
    inputs : dict
        Arrays by name that queries, keys and values were computed from.

    Examples
    --------
    >>> import regard
    >>> story = regard.explain([[1, 0], [0, 1]], [[2, 0], [0, 2]], [[1, 0], [0, 1]], [[5], [7]])
    >>> story
    Explanation(2 queries, 2 keys, scaled_dot, softmax)
    >>> story.scores
    array([[2., 0.],
           [0., 2.]])
    >>> print(story.step("context"))
    Step 3. Context: the sum of the values, each multiplied by its weight
    <BLANKLINE>
    context = weights @ values
    <BLANKLINE>
    word 1  5.39114
    word 2  6.60886
    """

    attention: Attention
    queries: Array
    keys: Array
    values: Array
    query_names: Sequence[str]
    key_names: Sequence[str]
    score: ScoreLike = "scaled_dot"
    mask: MaskLike | None = None
    scale: float | None = None
    softcap: float | None = None
    normalize: NormalizeLike = "softmax"
    sink: float | None = None
    biased: bool = False
    chosen: int = 0
    digits: int = 5
    color: bool = False
    columns: int | None = None
    title: str = ""
    inputs: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arrays = (self.queries, self.keys, self.values)
        if any(array.ndim != 2 for array in arrays) or self.weights.ndim != 2:
            _check.fail(
                f"an explanation needs two-dimensional arrays: {', '.join(str(a.shape) for a in arrays)}",
                hint="choose one item and head, such as queries[0, 2]",
            )
        for name in ("scale", "softcap", "sink"):
            number = getattr(self, name)
            known = None if number is None else float(_check.as_array(name, number))
            object.__setattr__(self, name, None if known == -math.inf else known)  # a sink that is none
        self._row(self.chosen)

    @property
    def scores(self) -> Array:
        """The scores (n, m) of step 1."""
        return self.attention.scores

    @property
    def logits(self) -> Array:
        """The scores (n, m) after scale, softcap, bias and mask."""
        return self.attention.logits

    @property
    def weights(self) -> Array:
        """The weights (n, m) of step 2."""
        return self.attention.weights

    @property
    def context(self) -> Array:
        """The context (n, e) of step 3."""
        return self.attention.context

    @property
    def width(self) -> int:
        """The columns of the screen."""
        return shutil.get_terminal_size().columns if self.columns is None else self.columns

    @computed_once
    def queries_named(self) -> list[str]:
        """The names of the queries as a terminal shows them."""
        return printable(self.query_names, len(self.query_names), "queries")

    @computed_once
    def keys_named(self) -> list[str]:
        """The names of the keys as a terminal shows them."""
        return printable(self.key_names, len(self.key_names), "keys")

    @property
    def score_name(self) -> str:
        """The name of the score function."""
        if isinstance(self.score, str):
            return self.score
        kind = type(self.score).__name__
        return kind if isinstance(self.score, Score) else str(getattr(self.score, "__name__", kind))

    @property
    def factor(self) -> float:
        """The factor of the scores."""
        scorer = as_score(self.score)
        default = scorer.scale(self.queries.shape[1]) if isinstance(scorer, Score) else 1.0
        return default if self.scale is None else self.scale

    @property
    def logit_options(self) -> dict[str, Any]:
        """The arguments of `steps.logit_text`."""
        divided = self.scale is None and type(as_score(self.score)) is scaled_dot
        plain = self.scale is None and self.factor == 1
        return {
            "root": self.queries.shape[1] if divided else 0,
            "scale": None if plain else self.factor,
            "softcap": self.softcap,
            "biased": self.biased,
        }

    @property
    def exponential(self) -> bool:
        """Whether weights are exponentials divided by a sum."""
        return is_softmax(self.normalize) or isinstance(self.normalize, local_m)

    def step(self, name: str | int, row: int | None = None) -> str:
        """Return the text of one step.

        Parameters
        ----------
        name : str or int
            "inputs", "scores", "logits", "weights", "context" or "row"; 1, 2 and 3 are scores, weights and context.
        row : int, optional
            The query that is explained term by term, from 0; by default that of the story.

        Returns
        -------
        str
            Paragraphs without a newline at the end.

        Raises
        ------
        ValueError, TypeError
            If there is no such step or query.

        Examples
        --------
        >>> import regard
        >>> story = regard.explain(queries=[[2.0]], keys=[[0.0], [1.0]], values=[[0.0], [4.0]], digits=2)
        >>> print(story.step(3).splitlines()[-1])
        query 1  3.52
        """
        name = _NUMBERED.get(name, name) if isinstance(name, int) else name
        if name not in STEPS:
            _check.one_of("name", name, STEPS, "1, 2 and 3 are scores, weights and context")
        return "\n\n".join(filter(None, story.STEPS[name](self, self._row(row))))

    def latex(self, row: int | None = None) -> str:
        """Return one query as LaTeX for the package amsmath: its vectors, scores, logits, weights and context.

        Parameters
        ----------
        row : int, optional
            The query, from 0; by default that of the story.

        Returns
        -------
        str
            Displayed formulas without a newline at the end.

        Examples
        --------
        >>> import regard
        >>> story = regard.explain(queries=[[2.0]], keys=[[0.0], [1.0]], values=[[0.0], [4.0]], digits=2)
        >>> print(story.latex().splitlines()[-1])
        \\[ c = a V = \\begin{pmatrix} 3.52 \\end{pmatrix} \\]
        """
        return latex.query(self, self._row(row))

    def in_browser(self, title: str = "Attention") -> HtmlPage:
        """Return a page of a browser; its numbers can be changed where the page can compute the result.

        Parameters
        ----------
        title : str
            Title of the page.

        Returns
        -------
        HtmlPage
            `save` writes it to a file.

        Examples
        --------
        >>> import regard
        >>> regard.explain(queries=[[2.0]], keys=[[0.0], [1.0]], values=[[0.0], [4.0]]).in_browser("Two words")
        HtmlPage('Two words': mechanism)
        """
        names: dict[str, Any] = {"query_labels": self.query_names, "key_labels": self.key_names}
        arrays = self.queries, self.keys, self.values
        inputs = [array.astype(np.float64) for array in self.inputs.values()]
        if inputs:  # numbers rounded in lower precision would differ from the products that the page computes
            arrays, _ = projected(*inputs)
        plain = not self.biased and self.sink is None
        if not (plain and recomputes(self.score, self.normalize) and is_readable(*arrays)):
            return page_of(self.attention, title=title, **names)
        section = mechanism(
            *arrays,
            score=self.score,
            mask=self.mask,
            scale=self.scale,
            softcap=self.softcap,
            normalize=str(self.normalize),
            row=self.chosen,
            **names,
        )
        return HtmlPage([with_words(section, *inputs) if inputs else section], title=title)

    def _page(self) -> HtmlPage | None:
        return self.in_browser() if self.weights.size else None

    def _row(self, row: int | None) -> int:
        """Return a query that is explained term by term: by default that of the story."""
        if (n := len(self.weights)) == 0:
            _check.fail("there is no query to explain: n is 0")
        chosen = _check.integer("row", self.chosen if row is None else row)
        if chosen >= n:
            _check.fail(f"row must be one of the {n} queries, counted from 0: {chosen}")
        return chosen

    def __str__(self) -> str:
        return "\n\n".join(map(self.step, _STORY))

    def __repr__(self) -> str:
        n, m = self.weights.shape
        counts = f"{n} {'query' if n == 1 else 'queries'}, {m} {'key' if m == 1 else 'keys'}"
        return f"Explanation({counts}, {self.score_name}, {normalize_name(self.normalize)})"


def explain(
    words: ArrayLike | None = None,
    query_weight: ArrayLike | None = None,
    key_weight: ArrayLike | None = None,
    value_weight: ArrayLike | None = None,
    /,
    *,
    queries: ArrayLike | None = None,
    keys: ArrayLike | None = None,
    values: ArrayLike | None = None,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    bias: BiasLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    normalize: NormalizeLike = "softmax",
    sink: float | None = None,
    row: int = 0,
    labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    digits: int = 5,
) -> Explanation:
    """Explain scores, weights and context of one attention in numbers and words, and one query term by term.

    It is given words and the weights that make queries, keys and values of them, or these three themselves.

    Parameters
    ----------
    words : array (n, k), optional
        Word vectors.
    query_weight, key_weight, value_weight : array (k, d), (k, d), (k, e), optional
        ``queries = words @ query_weight``, and so on.
    queries : array (n, d), optional
        Queries, instead of words and weights. In Bahdanau's model they are the decoder's states.
    keys : array (m, d), optional
        Keys, or Bahdanau's annotations; by default the queries.
    values : array (m, e), optional
        Values; by default the keys.
    score, mask, bias, scale, softcap, normalize, sink
        As for `attend`. ``regard.scores.additive`` is explained with the numbers inside its perceptron.
    row : int
        The query that is explained term by term, from 0.
    labels, key_labels : sequence of str, optional
        Names of the queries and of the keys; by default words have the same names on both sides.
    digits : int
        Digits after the decimal point.

    Returns
    -------
    Explanation
        The story, for `print`; its steps and its numbers.

    Raises
    ------
    ValueError, TypeError
        If the arrays have leading dimensions or don't fit, for more than 4,194,304 weights, and as `attend`.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, A.1.2; Vaswani et al. 2017, 3.2.1.

    Examples
    --------
    >>> import regard
    >>> states, annotations = [[1.0, 0.0]], [[0.0, 1.0], [1.0, 1.0]]
    >>> score = regard.scores.additive([[1.0], [0.0]], [[0.0], [-1.0]], [2.0])
    >>> story = regard.explain(queries=states, keys=annotations, score=score)
    >>> story.weights
    array([[0.5, 0.5]])
    >>> print(story.step(1))
    Step 1. Scores: how well does each key match each query?
    <BLANKLINE>
    score = v . tanh(W s + U h): s is a query (a decoder's state), h a key (an
      annotation)
    ...
    query 1, key 1: v . tanh(W s + U h) = 2*0 = 0
    """
    by_keyword = {"queries": queries, "keys": keys, "values": values}
    arrays, inputs = _arrays((words, query_weight, key_weight, value_weight), by_keyword)
    check_size(*arrays)
    options: dict[str, Any] = {"score": score, "mask": mask, "scale": scale, "softcap": softcap}
    options |= {"normalize": as_normalize(normalize), "sink": sink}
    attention = attend(*arrays, bias=bias, **options)
    nouns = ("word", "word") if inputs else ("query", "key")
    of_queries, of_keys = (_check.listed("labels", side) for side in (labels, key_labels))
    hint = "keys have their own names with key_labels="
    return Explanation(
        attention,
        *arrays,
        query_names=names_of(of_queries, len(attention.weights), nouns[0]),
        key_names=names_of(
            of_queries if of_keys is None else of_keys, attention.weights.shape[-1], nouns[1], hint=hint
        ),
        biased=bias is not None,
        chosen=row,
        digits=_check.integer("digits", digits, most=17),
        title=f"{counted(inputs['words'])}, and the weights given" if inputs else "",
        inputs=inputs,
        **options,
    )


def _arrays(
    words: tuple[ArrayLike | None, ...], by_keyword: dict[str, ArrayLike | None]
) -> tuple[tuple[Array, Array, Array], dict[str, Array]]:
    """Return queries, keys and values, and the words and weights that they were computed from, if any."""
    by_position, by_name = (
        [a for a in words if a is not None],
        [n for n in by_keyword if by_keyword[n] is not None],
    )
    if by_position and by_name:
        _check.fail(
            f"explain takes words and weights or queries, keys and values, not both. Got {', '.join(by_name)}, too.",
            kind=TypeError,
        )
    if by_position:
        if len(by_position) < len(words):
            rule = "explain takes 4 arrays by position, words, query_weight, key_weight, value_weight."
            hint = "queries, keys and values themselves are given by name: queries=, keys=, values="
            _check.fail(f"{rule} Got {len(by_position)} instead.", hint=hint, kind=TypeError)
        return projected(*by_position)
    queries, keys, values = by_keyword.values()
    if queries is None:
        hint = "explain(words, query_weight, key_weight, value_weight), or queries=, keys=, values="
        _check.fail("explain needs words and their weights, or queries.", hint=hint, kind=TypeError)
    keys = queries if keys is None else keys
    return _check.three(queries, keys, keys if values is None else values), {}


def projected(*arrays: ArrayLike) -> tuple[tuple[Array, Array, Array], dict[str, Array]]:
    """Return words times each of three weights, and all four by name."""
    names = ("words", "query weights", "key weights", "value weights")
    inputs = {name: _check.numeric(name, array) for name, array in zip(names, arrays, strict=True)}
    words, *weights = inputs.values()
    _check.dimensions(words=(words, "(n, d)"))
    for name, weight in zip(names[1:], weights, strict=True):
        if weight.ndim != 2 or weight.shape[0] != words.shape[1]:
            rows = f"must have {words.shape[1]} rows, one for each number of a word"
            _check.fail(f"{name.removesuffix('s')} {rows}: it is {weight.shape}")
    compute, _ = _check.dtypes(words, *weights)  # integers would overflow
    with np.errstate(all="ignore"):  # attention itself handles non-finite numbers
        queries, keys, values = (words.astype(compute) @ weight.astype(compute) for weight in weights)
    return (queries, keys, values), inputs


def check_size(queries: Array, keys: Array, values: Array) -> None:
    """Raise for inputs of a few kilobytes whose weights take gigabytes."""
    n, m = queries.shape[-2], keys.shape[-2]
    leading = [
        max(sizes) for sizes in zip_longest(*(a.shape[-3::-1] for a in (queries, keys, values)), fillvalue=1)
    ]
    if math.prod(leading) * n * m > MOST_WEIGHTS:
        rule = f"explain computes at most {MOST_WEIGHTS:,} weights, here {math.prod(leading) * n * m:,}"
        _check.fail(f"{rule} ({'x'.join(map(str, (*leading[::-1], n, m)))}): give fewer queries or keys")


def counted(words: Array) -> str:
    """Return the number of words, in words."""
    return "1 word" if len(words) == 1 else f"{len(words)} words"
