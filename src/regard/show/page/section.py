"""A section of a page: the view that draws it, its heading, and the data of the view."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._characters import limit_marks, shorten
from regard.show.steps import PageText
from regard.show.terminal._heatmap import table

__all__ = [
    "Section",
    "TokenLabels",
    "as_text",
    "compact",
    "labels",
    "packed",
    "readable",
    "unpacked",
    "weight_faults",
]

JOIN = "\uffed"  # the mark of a joined token in the vocabularies of `regard.seq2seq`
_LONGEST, LONGEST_TEXT = 200, 2000  # characters of a label, and of a sentence

_TEXT_WIDTH = 80

_PACKED = (
    "float64",
    "float32",
    "int8",
    "uint8",
    "uint16",
    "uint32",
    "int32",
)  # data types of the browser's typed arrays


@dataclass(frozen=True, eq=False)
class Section:
    """One section of a page: the view that draws it, its heading, and what the view draws, as JSON has it.

    NaN and infinity are allowed in `data`. `warnings` stand above the view, `text` instead of it where no script runs.
    `parts` are views that this view draws inside of itself, `needs` further parts of scripts that its data need.
    """

    view: str
    title: str
    data: Mapping[str, Any]
    warnings: Sequence[str] = ()
    text: str = ""
    parts: Sequence[Section] = ()
    needs: Sequence[str] = ()

    @property
    def views(self) -> list[str]:
        """The view of the section, those of its parts, and what they need."""
        return [self.view, *self.needs, *(view for part in self.parts for view in part.views)]


class TokenLabels(list[str]):
    """The tokens of one or of several sequences: labels of each side of an attention that has as many.

    tokens: strings, or several lists of them with different lengths.
    """

    def __init__(self, tokens: Any) -> None:
        lists = _check.listed("tokens", tokens)
        if isinstance(lists, str) or not lists:
            _check.fail("tokens must be a list of strings, or several lists of them.", kind=TypeError)
        lists = [lists] if isinstance(lists[0], str) else [_check.listed("tokens", names) for names in lists]
        super().__init__(lists[0])
        self._of_length = {len(names): names for names in lists}
        if len(self._of_length) < len(lists):
            lengths = ", ".join(str(len(names)) for names in lists)
            rule = f"lists of tokens must differ in length. Got {lengths} instead."
            _check.fail(rule, hint="show some calls with query_labels= and key_labels=")

    def of(self, count: int) -> Sequence[str]:
        """Return the tokens of the sequence of this length."""
        if count not in self._of_length:
            lengths = " or ".join(map(str, self._of_length))
            _check.fail(f"tokens must name each query and each key: {lengths} for {count}")
        names: Sequence[str] = self._of_length[count]
        return names


def as_text(weights: ArrayLike, rows: Sequence[str], columns: Sequence[str]) -> str:
    """Return weights (n, m) as the text of a section."""
    return table(weights, rows, columns, digits=3, color=False, width=_TEXT_WIDTH)


def packed(array: ArrayLike) -> dict[str, Any]:
    """Pack an array as the bytes of a typed array of JavaScript, little-endian and in C order.

    Real numbers of other types than those of typed arrays become float32.
    """
    numbers = _check.numeric("array", array)
    name = numbers.dtype.name if numbers.dtype.name in _PACKED else "float32"
    little = np.ascontiguousarray(numbers, np.dtype(name).newbyteorder("<"))
    return {
        "dtype": name,
        "shape": list(numbers.shape),
        "base64": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def unpacked(array: Mapping[str, Any] | Sequence[Any]) -> NDArray[Any]:
    """Return numbers of a section as an array: lists, or what `packed` has made of it."""
    if not isinstance(array, Mapping):
        return np.array(array, np.float64)
    little = np.dtype(array["dtype"]).newbyteorder("<")
    return np.frombuffer(base64.b64decode(array["base64"]), little).reshape(array["shape"])


def compact(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in float32, or in float64 where some are too large for float32."""
    floats = _check.rounded(array, np.dtype(np.float32))
    held = np.array_equal(np.isinf(floats), np.isinf(array))
    return floats if held else array.astype(np.float64)


def labels(names: Sequence[str] | None, count: int, noun: str, *, hint: str = "") -> list[str]:
    """Return a label for each query, key or step: a name, or the noun with a number from 1."""
    if isinstance(names, TokenLabels):
        names = names.of(count)
    if names is None:
        return [PageText(f"pages.labels.{noun}", i=str(i + 1)) for i in range(count)]
    if isinstance(names, str):
        rule = "labels must be a sequence of strings. Got one string instead."
        _check.fail(rule, hint="use text.split()", kind=TypeError)
    names = _check.listed("labels", names)
    if len(names) != count:
        got = "1 label" if len(names) == 1 else f"{len(names)} labels"
        _check.fail(f"labels must name each {noun}: {got} for {count}", hint=hint)
    return list(map(readable, names))


def readable(text: str, most: int = _LONGEST) -> str:
    """Return a text as a page shows it: without marks of joins, nine marks on a letter, of a long one the two ends."""
    if isinstance(text, PageText):
        return text
    return shorten(limit_marks(str(text).replace(JOIN, "")), most)


@np.errstate(all="ignore")  # sums and comparisons of what is not finite
def weight_faults(weights: ArrayLike) -> list[PageText]:
    """Describe why an array is not attention weights.

    weights (..., n, m).
    """
    array = _check.numeric("weights", weights)
    rounding = 1e-4 if array.dtype.itemsize >= 4 else 2e-2  # sums of half precision are coarse
    sums = array.sum(-1, dtype=np.float64)
    unequal = ~np.isnan(sums) & (np.abs(sums) > rounding) & (np.abs(sums - 1) > rounding)
    faults = []
    for name, wrong in (("nan", np.isnan(array)), ("infinite", np.isposinf(array)), ("negative", array < 0)):
        if count := int(wrong.sum()):
            rule, first = PageText(f"pages.faults.rules.{name}"), _first(wrong, array, ("row", "column"))
            faults.append(
                PageText(
                    f"pages.faults.{'one' if count == 1 else 'many'}", count=count, rule=rule, first=first
                )
            )
    if count := int(unequal.sum()):
        first, place = _first(unequal, sums, ("row",)), f"pages.faults.{'row' if count == 1 else 'rows'}"
        faults.append(PageText(place, count=count, all=unequal.size, first=first))
    return faults


def _first(wrong: NDArray[np.bool_], numbers: NDArray[Any], last: tuple[str, ...]) -> PageText:
    """Return the first wrong number after its place, as in "head 2, row 3: 0.75"."""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    names = ("axis",) * len(index) + ("layer", "head", *last)
    places = [
        PageText(f"pages.labels.{name}", i=str(i + 1))
        for name, i in zip(names[-len(index) :], index, strict=True)
    ]
    return PageText("pages.faults.at", places=places, number=float(numbers[index]))
