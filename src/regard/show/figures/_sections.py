"""The sections of a page as figures, which `regard show` writes for `--section` and `--text`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard.context import Attention, attend
from regard.position import rotary
from regard.scores import additive
from regard.show.figures._curves import Panel, by_length, curves
from regard.show.figures._heatmap import heatmap, heatmaps
from regard.show.figures._lanes import BEST, BLUE, ORANGE, lanes
from regard.show.figures._strips import strips
from regard.show.figures.figure import (
    drawable,
    house_style,
    localize,
    new_figure,
    show_in_notebooks,
    wrapped,
    write_literally,
)
from regard.show.page.descent import losses
from regard.show.page.document import written
from regard.show.page.language_model import predicted
from regard.show.page.section import Section, unpacked
from regard.show.steps import TEXTS, filled, weight_text
from regard.weights import softmax

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__: list[str] = []

Array = NDArray[Any]
Data = Mapping[str, Any]
Texts = dict[str, Any]

_SIZE = 64  # numbers of queries and keys, without whose scale most starts do not learn
_LISTED = 12  # words of the source that have a bar
_SQUEEZED, _CELLS = 8, 24  # words of a sentence, and numbers of its one vector


def drawn(section: Section, texts: Texts = TEXTS) -> Axes | Figure:
    """Draw a section as its page shows it first; of learning and of heads, what the guess of their chapter is about."""
    figure = PICTURES[section.view](written(section.data, texts), texts)
    localize(figure, texts)
    return figure


@house_style()
def _lengths(data: Data, texts: Texts) -> Figure:
    """The sentence in one vector, and BLEU by length, with and without attention."""
    why, rows = texts["why"], data["rows"]
    figure = new_figure(6, 5.6)
    above, below = figure.subplots(2, height_ratios=(2, 3))
    _squeezed(above, why["sentence"].split()[:_SQUEEZED], why)
    lines = {name: [row[kind] for row in rows] for kind, name in why["curves"].items()}
    by_length([row["tokens"] for row in rows], lines, along=why["axis"], ax=below, title=why["plot"])
    return figure


def _squeezed(ax: Axes, words: list[str], why: Texts) -> None:
    """Draw words that share the cells of one vector, which is all that the decoder gets."""
    (names, (title, decoder)), fonts = drawable([words, [why["vector"], why["decoder"]]])
    ax.set(xlim=(0, _CELLS), ylim=(4.3, -0.4))
    ax.set_axis_off()
    ax.set_title(title, loc="left", fontsize=10)
    wide = _CELLS / len(names)
    for k, name in enumerate(names):
        middle = (k + 0.5) * wide
        ax.text(middle, 0, name, ha="center", va="center", fontsize=8)
        ax.plot([middle, middle], [0.4, 1.4], color="gray", linewidth=0.8)
    owners = (np.arange(_CELLS) + 0.5) // wide
    colors = [(BLUE, ORANGE)[int(owner) % 2] for owner in owners]
    ax.barh(2, 0.9, 0.8, left=np.arange(_CELLS) + 0.05, color=colors)
    ax.annotate("", (_CELLS / 2, 3.4), (_CELLS / 2, 2.5), arrowprops={"arrowstyle": "->", "color": "gray"})
    ax.text(_CELLS / 2, 3.8, decoder, ha="center", va="center")
    write_literally(ax, fonts)
    for text in ax.texts:
        text.set(fontfamily=fonts, parse_math=False)


def _query(data: Data, texts: Texts) -> Axes:
    """The lanes of the query that a mechanism begins with; of examples, the first."""
    shown = data["examples"][0] if "examples" in data else data
    row, topics = shown["row"], shown.get("topics", ())
    names = shown["query_labels"][row], shown["key_labels"]
    return lanes(_attention(shown), row, *names, topics=topics, texts=texts)


def _attention(data: Data) -> Attention:
    """Compute the attention of a mechanism without a mask, as those of the chapters are."""
    options = dict(data["options"])
    score = options["score"]
    if score == "additive":
        score = additive(*(options[name] for name in ("query_weight", "key_weight", "vector", "bias")))
    chosen = {name: options[name] for name in ("scale", "softcap", "normalize")}
    arrays = data.get("packed", data)
    return attend(*(unpacked(arrays[name]) for name in ("queries", "keys", "values")), score=score, **chosen)


def _descent(data: Data, texts: Texts) -> Figure:
    """The loss at each step, with the scale and without it."""
    shown = texts["learning"]
    scales = {"root": _SIZE**-0.5, "none": 1.0}
    lines = {
        f"{shown['scale']} {shown['scales'][name]}": losses(data, _SIZE, scale)
        for name, scale in scales.items()
    }
    panel = Panel(f"{shown['loss']}, d = {_SIZE}", {name: (range(len(y)), y) for name, y in lines.items()})
    return curves([panel], along=shown["axis"])


def _heads(data: Data, texts: Texts) -> Figure:
    """The weights of all heads, without positions above those with rotary ones."""
    words, shown = np.array(data["words"], np.float64), texts["multihead"]
    turns: dict[str, Callable[[Array], Array]] = {"none": np.asarray, "rotary": rotary}
    weights = [[_of_head(words, head, turn) for head in data["heads"]] for turn in turns.values()]
    names = [head["name"] for _ in turns for head in data["heads"]]
    title = f"{shown['positions']}: {' / '.join(shown['kinds'][kind] for kind in turns)}"
    return heatmaps(np.array(weights), data["labels"], data["labels"], names=names, title=title)


def _of_head(words: Array, head: Data, turn: Callable[[Array], Array]) -> Array:
    query, key, value = (words @ np.array(head[f"{name}_weight"]) for name in ("query", "key", "value"))
    return attend(turn(query), turn(key), value).weights


@house_style()
def _plane(data: Data, texts: Texts) -> Axes:
    """Words as arrows, whose tips are the values, the query, and its context between them."""
    words, (angle, length) = np.array(data["words"], np.float64), data["query"]
    query = length * np.array([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    attention = attend(query[None], words, words)
    percent = weight_text(True, texts)
    labels = [f"{label} {percent(x)}" for label, x in zip(data["labels"], attention.weights[0], strict=True)]
    shown = texts["geometry"]
    arrows = [*zip(labels, words, repeat("gray")), (shown["query"], query, BLUE)]
    (names, features, (context,)), fonts = drawable(
        [[name for name, *_ in arrows], list(data["features"]), [shown["context"]]]
    )
    ax = new_figure(5.2, 5).add_subplot()
    for name, (_, tip, color) in zip(names, arrows, strict=True):
        ax.annotate("", tip, (0, 0), arrowprops={"arrowstyle": "->", "color": color, "linewidth": 1.6})
        ax.annotate(name, tip, xytext=6 * np.sign(tip), textcoords="offset points", ha="center", color=color)
    at = attention.context[0]
    ax.plot(*at, "o", color=ORANGE)
    ax.annotate(context, at, xytext=(8, -4), textcoords="offset points", color=ORANGE)
    far = 1.35 * max(np.abs(words).max(), length)
    ax.set(xlim=(-far, far), ylim=(-far, far), aspect="equal", xlabel=features[0], ylabel=features[1])
    write_literally(ax, fonts)
    for text in ax.texts:
        text.set(fontfamily=fonts, parse_math=False)
    return show_in_notebooks(ax)


def _decoder(data: Data, texts: Texts) -> Axes:
    """What a decoder looks at and predicts at one word."""
    shown, word = texts["translation"], data["row"]
    weights = unpacked(data["weights"])[word].tolist()
    listed = sorted(np.argsort(weights)[::-1][:_LISTED].tolist())
    looks = [(data["source"][j], weights[j]) for j in listed]
    title = f"{' '.join(data['source'])} → {' '.join(data['target'][:word])}"
    groups = [(shown["looks"], looks), (shown["predicts"], data["predicted"][word])]
    return _bars([title], groups, texts, shown["others"])


def _letters(data: Data, texts: Texts) -> Axes:
    """What a head of the language model looks at from the last letter of a text, and which letters come next."""
    shown, first = texts["letters"], data["first"]
    read, logits, weights = predicted(data, first["text"])
    layer, head = divmod(first["head"], data["heads"])
    looks = [(f"{_visible(letter)} {t + 1}", weights[layer, head, -1, t]) for t, letter in enumerate(read)]
    comes = zip(map(_visible, data["letters"]), softmax(logits / first["temperature"]), strict=True)
    place = filled(shown["place"], {"layer": str(layer + 1), "i": str(head + 1)})
    groups = [(f"{shown['head']} {place}", looks), (shown["comes"], comes)]
    unknown = " ".join(dict.fromkeys(letter for letter in first["text"] if letter not in data["letters"]))
    titles = [read, *([filled(shown["unknown"], {"letters": unknown})] if unknown else [])]
    return _bars(titles, [(name, _best(rows)) for name, rows in groups], texts, shown["others"])


def _visible(letter: str) -> str:
    return {" ": "\N{OPEN BOX}", "\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}"}.get(letter, letter)


def _best(rows: Iterable[tuple[str, float]]) -> Rows:
    """Return the largest shares."""
    return sorted(rows, key=lambda row: -row[1])[:BEST]


def _alignment(data: Data, _: Texts) -> Axes:
    """The weights of the best hypothesis of the first sentence."""
    sentence = data["sentences"][0]
    best = sentence["hypotheses"][0]
    return heatmap(unpacked(best["weights"]), best["tokens"], sentence["source"], title=best["text"])


Rows = list[tuple[str, float]]


def _with_others(rows: Rows, others: str) -> Rows:
    """Add what is left of 1, if it is seen."""
    rest = 1 - sum(share for _, share in rows)
    return [*rows, *([(others, rest)] if rest > 0.0005 else [])]


@house_style()
def _bars(titles: list[str], groups: list[tuple[str, Rows]], texts: Texts, others: str) -> Axes:
    """Draw shares of 1 as bars, groups of rows beside each other."""
    groups = [(head, _with_others(rows, others)) for head, rows in groups]
    (heads, titles, *names), fonts = drawable(
        [[head for head, _ in groups], titles, *([name for name, _ in rows] for _, rows in groups)]
    )
    most = max(len(rows) for _, rows in groups)
    ax = new_figure(4 * len(groups), 0.9 + 0.32 * most).add_subplot()
    title = "\n".join(wrapped(line, 4 * len(groups), 10) for line in titles)
    ax.set(xlim=(0, 4 * len(groups)), ylim=(most - 0.3, -1.4))
    ax.set_axis_off()
    ax.set_title(title, loc="left", fontsize=10)
    percent = weight_text(True, texts)
    for k, (head, labels) in enumerate(zip(heads, names, strict=True)):
        ax.text(4 * k, -0.9, head, weight="bold")
        for y, (label, (_, share)) in enumerate(zip(labels, groups[k][1], strict=True)):
            ax.text(4 * k + 1.4, y, label, va="center", ha="right")
            ax.barh(y, 1.5 * share, 0.5, left=4 * k + 1.5, color=BLUE)
            ax.text(4 * k + 1.6 + 1.5 * share, y, percent(share), va="center")
    write_literally(ax, fonts)
    for text in ax.texts:
        text.set(fontfamily=fonts, parse_math=False)
    return show_in_notebooks(ax)


PICTURES: dict[str, Callable[[Data, Texts], Axes | Figure]] = {  # by the view of a section
    "why": _lengths,
    "mechanism": _query,
    "learning": _descent,
    "geometry": _plane,
    "multihead": _heads,
    "block": lambda _, texts: strips(texts),
    "translation": _decoder,
    "letters": _letters,
    "alignment": _alignment,
}
