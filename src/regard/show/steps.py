"""The texts of the steps, which explanations and the pages of `regard.show.page` share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.scores import Score, ScoreLike, additive, as_score
from regard.weights import NormalizeLike, entmax, relu, sigmoid

__all__: list[str] = []

Array = NDArray[Any]
Spelled = Callable[[float], dict[str, str]]  # the forms of a number by name, such as in a product

_FOLDER = resources.files("regard.show").joinpath("page", "assets", "texts")
LANGUAGES = tuple(sorted(path.name.removesuffix(".json") for path in _FOLDER.iterdir()))


@cache
def texts(language: str) -> dict[str, Any]:
    """Return all texts of pages in a language; those that it does not have are English."""
    known: dict[str, Any] = json.loads(_FOLDER.joinpath(f"{language}.json").read_text("utf-8"))
    return known if language == "en" else _completed(texts("en"), known)


def _completed(english: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return English texts with those of another language in their place; questions are the titles of their answers."""
    merged = {
        name: _completed(text, known[name]) if isinstance(text, dict) and name != "questions" else known[name]
        for name, text in english.items()
        if name in known
    }
    return {**english, **merged}


TEXTS = texts("en")


def localized(number: str, texts: Mapping[str, Any] = TEXTS) -> str:
    """Return a number that Python has written, with the marks of the language of the texts: 0,25 in German."""
    return number.translate(str.maketrans(texts["numbers"]["marks"]))


class PageText(str):
    """A sentence that a page writes in its own language; as a string, it is English.

    `place`: the keys of its template in `texts`, such as "pages.titles.heads"; `parts`: what the template's braces are
    filled with: numbers, other such sentences, or lists of them.
    """

    place: str
    parts: dict[str, Any]

    def __new__(cls, place: str, **parts: Any) -> PageText:
        text = super().__new__(cls, _written(TEXTS, place, parts))
        text.place, text.parts = place, parts
        return text

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.place,), self.parts

    def in_language(self, texts: Mapping[str, Any]) -> str:
        """Return the text in the language of the texts."""
        return _written(texts, self.place, self.parts)


def _written(texts: Mapping[str, Any], place: str, parts: Mapping[str, Any]) -> str:
    text: Any = texts
    for name in place.split("."):
        text = text[name]
    return filled(text, {name: in_language(part, texts) for name, part in parts.items()})


def in_language(part: Any, texts: Mapping[str, Any]) -> str:
    """Return a text of pages, a list of them, or a number, in the language of the texts; other strings as they are."""
    if isinstance(part, PageText):
        return part.in_language(texts)
    if isinstance(part, list | tuple):
        return ", ".join(in_language(each, texts) for each in part)
    if isinstance(part, str):
        return part
    return localized(f"{part:,}" if isinstance(part, int) else f"{part:.4g}", texts)


LETTERS = {  # of learned arrays
    name: array["letter"] for row in TEXTS["scores"].values() for name, array in row.get("arrays", {}).items()
}


def score_text(
    score: ScoreLike,
    medium: str,
    spelled: Spelled,
    row: tuple[int, int] | None = None,
) -> str:
    """Return a text of a score in texts/en.json, such as its formula in LaTeX, with its arrays and numbers filled in.

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
    """Return the name of a score in texts/en.json: a concat is an additive score, with its weight split."""
    return "additive" if isinstance(scorer, additive) else type(scorer).__name__


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a text with a part for each ``{name}`` of `parts`; other braces stay, as LaTeX has them."""
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return text


_ROUNDING = 2e-2  # of a sum of weights in half precision

_OF_ROWS = {  # normalisations that a page does not compute again
    entmax: {
        "latex": "a = \\operatorname{entmax}_{{alpha}}(z)",
        "words": "entmax-{alpha} makes each row sum to 1, and the weakest weights exactly 0",
    },
    sigmoid: {
        "latex": "a_j = 1 / (1 + \\exp(-z_j - {bias}))",
        "words": "weight = 1 / (1 + exp(-logit - {bias})), for each key alone",
    },
    relu: {
        "latex": "a_j = \\max(z_j, 0) / m",
        "words": "weight = max(logit, 0) / the number of visible keys, for each key alone",
    },
}
_USERS = {
    "latex": "a = \\operatorname{normalize}(z)",
    "words": "weight = {name}(logits), a function of yours",
}


def are_shares(weights: Array, normalize: NormalizeLike = "softmax") -> bool:
    """Return whether weights (n, m) are shares of 1: not those of a sigmoid or ReLU, nor rows that sum to more."""
    return not isinstance(normalize, sigmoid | relu) and not (weights.sum(axis=-1) > 1 + _ROUNDING).any()


def weight_text(shares: bool, texts: Mapping[str, Any] = TEXTS) -> Callable[[float], str]:
    """Return how weights are written: shares of 1 in per cent, others as numbers."""
    plain = _percent if shares else "{:.3f}".format
    return lambda weight: localized(plain(weight), texts)


def _percent(share: float) -> str:
    return "≈0 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def normalize_name(normalize: NormalizeLike) -> str:
    """Return the name of a normalisation: of a function its own, of an object that of its class."""
    if isinstance(normalize, str):
        return normalize
    return str(getattr(normalize, "__name__", type(normalize).__name__))


def normalize_text(normalize: NormalizeLike, medium: str) -> str:
    """Return how logits become weights, in LaTeX or in words, for a name or a function of complete rows."""
    if isinstance(normalize, str):
        text = str(TEXTS["normalize"][normalize][medium])
        return f"a = {text}(z)" if medium == "latex" else text
    parts = {"name": normalize_name(normalize)}
    if isinstance(normalize, entmax):
        parts["alpha"] = f"{normalize.alpha:g}"
    elif isinstance(normalize, sigmoid):
        fixed, m = normalize.bias, {"latex": "\\log(1 / m)", "words": "log(1 / the number of visible keys)"}
        parts["bias"] = m[medium] if fixed is None else f"{fixed:g}" if fixed >= 0 else f"({fixed:g})"
    return filled(_OF_ROWS.get(type(normalize), _USERS)[medium], parts)


def logit_text(
    medium: str,
    e: str,
    spelled: Spelled,
    *,
    root: int | None,
    scale: float | None,
    softcap: float | None,
    biased: bool,
) -> str:
    """Return how a score `e` becomes a logit; `root`: the d of a division by sqrt(d), or None."""
    parts = TEXTS["logit"]
    if root:
        e = filled(parts["root"][medium], {"e": e, "d": str(root)})
    elif scale is not None:
        e = filled(parts["scale"][medium], {"e": e, **spelled(scale)})
    if softcap is not None:
        e = filled(parts["softcap"][medium], {"e": e, **spelled(softcap)})
    return filled(parts["bias"][medium], {"e": e}) if biased else e
