"""The mechanism as a section: one attention, every step of which the page computes again when a number changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check, scores
from regard._problem import prepare
from regard.context import PARTS, Attention, define
from regard.mask import MaskLike, as_mask, causal, window
from regard.scores import ScoreLike, as_score, is_builtin
from regard.show.page.section import Section, as_text, labels, packed, readable, weight_faults
from regard.show.steps import TEXTS, PageText, shown_name
from regard.weights import NormalizeLike, as_normalize

__all__ = ["decoder", "mechanism", "of_decoder", "recorded", "with_words"]

Array = NDArray[Any]

MOST = 1024  # weights, and numbers of each matrix, that are all drawn as numbers of their own
LARGEST = (
    200  # queries, and keys, of which a reader picks one; the weights of more than MOST pairs are a picture
)
NUMBERS = 4096  # of each matrix that can be changed
_UNITS = 3  # of the perceptron that a reader may choose where the attention has none
_SEED = 42
_NUMBERS = {  # of all scores, which a reader can change
    name: number for score in TEXTS["scores"].values() for name, number in score.get("numbers", {}).items()
}


class AnySteps(Protocol):
    """The fields of `regard.seq2seq.networks.attended.DecoderAttention` that a page shows."""

    @property
    def source_tokens(self) -> tuple[str, ...]:
        """The m tokens of the source."""

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The n tokens that the steps write."""

    @property
    def states(self) -> Array:
        """The states (n, D) that attend."""

    @property
    def query_weight(self) -> Array | None:
        """The matrix (D, A) that maps states to queries; None if states are the queries."""

    @property
    def queries(self) -> Array:
        """The queries (n, A)."""

    @property
    def normalize(self) -> NormalizeLike:
        """Step 2, query i of which is step i."""

    @property
    def keys(self) -> Array:
        """The keys (m, A)."""

    @property
    def values(self) -> Array:
        """The annotations (m, C)."""

    @property
    def score(self) -> ScoreLike:
        """The score of queries and keys."""

    @property
    def mask(self) -> MaskLike | None:
        """Which keys a step sees."""

    @property
    def style(self) -> str:
        """What attends: the style of a recurrent decoder, or "transformer"."""

    @property
    def after(self) -> Array | None:
        """The states (n, D) after the steps, of a recurrent decoder."""

    @property
    def readouts(self) -> Array | None:
        """The readouts (n, E), from which the tokens are predicted."""

    @property
    def predicted(self) -> tuple[tuple[tuple[str, float], ...], ...]:
        """Of each step the most probable tokens and their probabilities."""

    def attend(self) -> Attention:
        """Return the attention of all steps."""


def mechanism(
    queries: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    /,
    *,
    score: ScoreLike = "scaled_dot",
    mask: MaskLike | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    normalize: str = "softmax",
    row: int = 0,
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    title: str = "",
) -> Section:
    """Show one attention step by step, in numbers that a reader can change.

    queries (n, d); keys (m, d); values (m, e): finite numbers, and few enough to be read.
    """
    arrays = _readable(*_check.three(queries, keys, values))
    if not isinstance(normalize, str) or not recomputes(score, normalize):
        _check.fail(
            "a page computes the scores of regard.scores, with one sharpness, and normalisations with a name.",
            hint="page(regard.attend(...)) shows the numbers of any attention",
        )
    q, k, v = arrays
    # Raises as `attend` does, and records nothing.
    weights = define(prepare(q, k, v, score, mask, None, scale, softcap, normalize, None)).weights
    n, m = len(arrays[0]), len(arrays[1])
    data = {
        **dict(zip(("queries", "keys", "values"), (array.tolist() for array in arrays), strict=True)),
        "query_labels": labels(query_labels, n, "query"),
        "key_labels": labels(key_labels, m, "key"),
        "row": _check.integer("row", row, most=n - 1),
        "options": _options(scale, softcap, normalize, _mask(mask, n, m))
        | _score(score, arrays[0].shape[1], arrays[1].shape[1]),
    }
    text = as_text(weights, data["query_labels"], data["key_labels"])
    return Section(
        "mechanism", title or PageText("pages.titles.mechanism"), data, text=text, needs=_picture(n, m)
    )


def _picture(n: int, m: int) -> tuple[str, ...]:
    """Return the part that draws n x m weights as a picture, if they are too many to be numbers."""
    return () if n * m <= MOST else ("weights",)


def with_words(
    section: Section,
    words: ArrayLike,
    query_weight: ArrayLike,
    key_weight: ArrayLike,
    value_weight: ArrayLike,
    /,
    *,
    origin: str = "",
    features: Sequence[str] | None = None,
) -> Section:
    """Begin a mechanism with the words from which its queries, keys and values are computed.

    words (n, d).
    """
    parameters = {"embeddings": _check.parameter("words", words, "(n, d)")}
    for name, weight in zip(("query", "key", "value"), (query_weight, key_weight, value_weight), strict=True):
        matrix = parameters[f"{name}_weight"] = _check.parameter(f"{name}_weight", weight, "(rows, columns)")
        part = "queries" if name == "query" else f"{name}s"
        expected = np.asarray(section.data[part])
        if matrix.shape != (parameters["embeddings"].shape[1], expected.shape[1]) or not np.allclose(
            parameters["embeddings"] @ matrix, expected
        ):
            _check.fail(f"words @ {name}_weight must be the {part} of the section")
    shown: dict[str, Any] = {name: array.tolist() for name, array in parameters.items()}
    names = {} if features is None else {"features": list(map(readable, features))}
    return replace(
        section,
        data={
            **section.data,
            "words": {**shown, **names, "origin": origin or PageText("pages.origins.given")},
        },
    )


def decoder(
    annotations: ArrayLike,
    state: ArrayLike,
    score: scores.additive,
    state_weight: ArrayLike,
    context_weight: ArrayLike,
    /,
    *,
    steps: int,
    source: Sequence[str] | None = None,
    target: Sequence[str] | None = None,
    title: str = "",
) -> Section:
    """Show a decoder that attends to the source at each step. ::

        c_t = the context of state s_(t-1) over the annotations      s_t = tanh(s_(t-1) A + c_t C)

    annotations (m, d'); state (d,); state_weight (d, d); context_weight (d', d).
    """
    first = _check.parameter("state", state, "(d,)")
    steps = _check.integer("steps", steps, 1)
    keys = _check.parameter("annotations", annotations, "(m, d')")
    section = mechanism(
        np.broadcast_to(first, (steps, len(first))),
        keys,
        keys,
        score=score,
        query_labels=labels(target, steps, "step"),
        key_labels=labels(source, len(keys), "h"),
        title=title or PageText("examples.decoder.title"),
    )
    sizes = len(first), len(section.data["keys"][0])
    weights = {}
    for name, weight, rows in (
        ("state_weight", state_weight, sizes[0]),
        ("context_weight", context_weight, sizes[1]),
    ):
        array = _check.parameter(name, weight, "(rows, d)")
        _check.shape(name, array.shape, (rows, sizes[0]))
        weights[name] = array.tolist()
    # The states after the first follow from what the page computes.
    return replace(
        section, data={**section.data, "tied": True, "decoder": {**weights, "steps": steps}}, text=""
    )


def recorded(
    attention: Attention,
    /,
    *,
    query_labels: Sequence[str] | None = None,
    key_labels: Sequence[str] | None = None,
    title: str = "",
) -> Section:
    """Show the steps of an attention that is known by its results."""
    if attention.weights.ndim != 2 or not attention.weights.size:
        shape = attention.weights.shape
        _check.fail(f"weights must be a matrix with numbers in it. Got shape {shape} instead.")
    n, m = attention.weights.shape
    if not fits(n, m):
        _check.fail(f"a page shows the results of up to {MOST:,} weights as numbers: here are {n} x {m}")
    parts = {part: getattr(attention, part) for part in PARTS if part != "lse" and part in vars(attention)}
    data: dict[str, Any] = {
        "given": {part: array.astype(np.float64).tolist() for part, array in parts.items()},
        "query_labels": labels(query_labels, n, "query"),
        "key_labels": labels(key_labels, m, "key"),
        "row": 0,
    }
    faults = tuple(weight_faults(attention.weights))
    text = as_text(attention.weights, data["query_labels"], data["key_labels"])
    return Section("mechanism", title or attention.name or PageText("pages.titles.given"), data, faults, text)


def of_decoder(steps: AnySteps, *, row: int = 0, title: str = "", with_weight: bool = True) -> Section:
    """Show the steps of a trained decoder, as `regard.seq2seq.Seq2Seq.decoder_steps` returns them, at their true sizes.

    The page holds the states and the matrix that makes queries of them, or `with_weight=False` the queries, keys and
    values, and shortens what it shows.
    """
    queries, names = steps.queries, (steps.target_tokens, steps.source_tokens)
    n, m = len(queries), len(steps.keys)
    if max(n, m) > LARGEST:
        _check.fail(f"a page shows the steps of up to {LARGEST} tokens: here are {n} and {m}")
    rows, columns = labels(names[0], n, "step"), labels(names[1], m, "source")
    title = title or PageText("real.title")
    if not recomputes(steps.score, as_normalize(steps.normalize)):
        return recorded(steps.attend(), query_labels=rows, key_labels=columns, title=title)
    names_of = ["states", "query_weight" if with_weight else "queries", "keys", "values"]
    # The matrices of a head are small beside those of a recurrent network.
    names_of += ["key_weight", "value_weight"] if steps.style == "transformer" else []
    arrays = {name: getattr(steps, name) for name in names_of}
    data = {
        "anchor": "trained",
        "packed": {name: packed(array) for name, array in arrays.items() if array is not None},
        "query_labels": rows,
        "key_labels": columns,
        "row": _check.integer("row", row, most=n - 1),
        "options": _options(None, None, str(as_normalize(steps.normalize)), _mask(steps.mask, n, m))
        | _score(steps.score, queries.shape[1], steps.keys.shape[1]),
    }
    return Section(
        "mechanism",
        title,
        data,
        text=as_text(steps.attend().weights, rows, columns),
        needs=_picture(n, m),
    )


def is_readable(*arrays: Array) -> bool:
    """Return whether queries, keys and values are small matrices of finite numbers, which can be changed by hand."""
    if any(array.ndim != 2 or not array.size for array in arrays):
        return False
    return _small(*arrays) and all(np.isfinite(array.astype(np.float64)).all() for array in arrays)


def _small(queries: Array, keys: Array, values: Array) -> bool:
    largest = max(array.size for array in (queries, keys, values))
    return max(len(queries), len(keys)) <= LARGEST and largest <= NUMBERS


def fixed(queries: Array, keys: Array, values: Array) -> list[str]:
    """Explain that numbers can't be changed, if queries, keys and values are too large for that."""
    arrays = queries, keys, values
    if any(array.ndim != 2 for array in arrays) or _small(*arrays):
        return []
    sizes = {"queries": len(queries), "keys": len(keys), "size": queries.shape[1]}
    return [PageText("pages.fixed", **sizes, words=LARGEST, most=NUMBERS)]


def fits(n: int, m: int) -> bool:
    """Return whether n x m weights can be read as numbers."""
    return n * m <= MOST


def recomputes(score: ScoreLike, normalize: object) -> bool:
    """Return whether a page can compute these steps itself."""
    scorer = as_score(score)
    shared = not isinstance(scorer, scores.cosine) or scorer.sharpness.size == 1
    known = is_builtin(scorer) and shown_name(scorer) in TEXTS["scores"]
    return known and shared and isinstance(normalize, str)


def _readable(*arrays: Array) -> list[Array]:
    """Return queries, keys and values as float64 matrices that fit a page."""
    if not is_readable(*arrays):
        rule = (
            f"a page changes matrices of finite numbers, up to {NUMBERS:,} of them, for up to {LARGEST} words"
        )
        hint = "page(regard.attend(...)) shows the weights of larger ones, and of several heads"
        _check.fail(rule, dict(zip(("queries", "keys", "values"), arrays, strict=True)), hint)
    return [array.astype(np.float64) for array in arrays]


def _options(
    scale: float | None, softcap: float | None, normalize: str, mask: dict[str, Any]
) -> dict[str, Any]:
    """Return the options of an attention but its score."""
    return {
        "scale": None if scale is None else _check.number("scale", scale),
        "softcap": None if softcap is None else _check.number("softcap", softcap),
        "normalize": normalize,
        "mask": mask,
    }


def _mask(mask: MaskLike | None, n: int, m: int) -> dict[str, Any]:
    """Return the mask as the page computes it: a window of positions where it is one, else a table."""
    plain: dict[str, Any] = {"kind": "none", "left": 1, "right": 1, "align": "start"}
    if mask is None:
        return plain
    if isinstance(mask, window) and not isinstance(mask.align, np.ndarray):
        plain["align"] = mask.align or "start"
        if type(mask) is causal:
            return plain | {"kind": "causal"}
        if type(mask) is window:
            # No limit is one that no pair of positions exceeds.
            sides = {
                side: n + m if limit is None else limit
                for side, limit in (("left", mask.left), ("right", mask.right))
            }
            return plain | {"kind": "window"} | sides
    dense = np.broadcast_to(as_mask(mask).dense(n, m).reshape(n, m), (n, m))
    return plain | {"kind": "given", "visible": dense.astype(int).tolist()}


def _score(score: ScoreLike, d: int, key_size: int) -> dict[str, Any]:
    """Return the score by its name, with its parameters, and those of the others that a reader may choose."""
    scorer = as_score(score)
    assert isinstance(scorer, scores.Score)
    if isinstance(scorer, scores.concat):
        scorer = scorer.split(d)
    known: dict[str, Any] = {
        "score": type(scorer).__name__,
        "given": type(scorer).__name__,
        "equal": d == key_size,
        **{name: float(number["neutral"]) for name, number in _NUMBERS.items()},
        **_perceptron(d, key_size),
    }
    for name in type(scorer).learned:
        array = getattr(scorer, name)
        known[name] = None if array is None else array.item() if name in _NUMBERS else array.tolist()
    return known


def _perceptron(d: int, key_size: int) -> dict[str, Any]:
    """Return a small perceptron for the additive score, in quarters from -1/2 to 1/2."""
    generator = np.random.RandomState(_SEED)
    shapes = {"query_weight": (d, _UNITS), "key_weight": (key_size, _UNITS), "vector": (_UNITS,)}
    drawn = {name: (generator.randint(-2, 3, size=shape) / 4).tolist() for name, shape in shapes.items()}
    return {**drawn, "bias": None}
