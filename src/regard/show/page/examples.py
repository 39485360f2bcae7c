"""The examples of a page without arrays of the user: their numbers; their words and texts are those of a language."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check, scores
from regard.show.page.geometry import geometry
from regard.show.page.mechanism import decoder, mechanism, with_words
from regard.show.page.multihead import multihead
from regard.show.page.parts import asset
from regard.show.page.section import Section, labels
from regard.show.steps import TEXTS, PageText

__all__ = [
    "block",
    "directions",
    "drawn",
    "drawn_weights",
    "learning",
    "lengths",
    "meanings",
    "reordering",
    "translator",
    "word_order",
]

Texts = dict[str, Any]


def drawn(words: ArrayLike, seed: int, names: list[str] | None = None) -> Section:
    """Show words whose query, key and value weights are drawn with a seed, as tutorials draw them.

    words (n, d).
    """
    vectors = _check.parameter("words", words, "(n, d)").astype(np.float64)
    generator = np.random.RandomState(seed)  # the legacy one: its draws are the same in every release
    weights = drawn_weights(generator, vectors.shape[1])
    named = labels(names, len(vectors), "word")
    section = mechanism(
        *(vectors @ weight for weight in weights),
        query_labels=named,
        key_labels=named,
        title=PageText("steps.title"),
    )
    return with_words(section, vectors, *weights, origin=PageText("pages.origins.seed", seed=str(seed)))


def drawn_weights(generator: np.random.RandomState, size: int) -> list[NDArray[np.int64]]:
    """Draw the query, key and value weights as tutorials do, for words of this size."""
    return [generator.randint(3, size=(size, size)) for _ in range(3)]


def meanings(texts: Texts = TEXTS) -> Section:
    """Show examples made by hand, whose features have names and whose result has a reason."""
    shown = texts["examples"]
    examples = [_bank(shown["bank"]), _pronoun(shown["pronoun"]), _set(shown["set"]), _four(shown["four"])]
    return Section("mechanism", texts["steps"]["title"], {"examples": examples})


Rows = Sequence[Sequence[float]] | NDArray[np.float64]

WORDS = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])


def _four(texts: Texts) -> dict[str, Any]:
    """Words without a meaning, as in tutorials."""
    return _example(texts, drawn(WORDS, 42, texts["words"]), {"set": [[3, 0, 1], [3, 1, 1], [3, 2, 0]]})


_TOPICS: dict[str, list[list[float]]] = {  # weights of words about water or money, or unclear
    "query": [[0, 0], [0, 0], [1.5, 1.5]],  # the query of an unclear word matches both topics
    "key": [[1, 0], [0, 1], [-1, -1]],  # and its key matches neither
    "value": [[1, 0], [0, 1], [0, 0]],
}


def _bank(texts: Texts) -> dict[str, Any]:
    """A word with two meanings: it asks for a topic, which its neighbour offers."""
    section = _named(
        texts,
        [[0, 0, 0], [2, 0, 0], [1, 1, 2]],
        **_TOPICS,
        row=2,
    )
    return _example(texts, section, {"set": [[1, 0, 0], [1, 1, 2]], "names": {"1": texts["other"]}})


def _pronoun(texts: Texts) -> dict[str, Any]:
    """A pronoun asks for a noun that fits what is said of it."""
    section = _named(
        texts,
        [[2, 2, 0], [0, 0, 0], [2, -2, 0], [0, 1, 2]],
        query=[[0, 0], [0, 1], [1, 0]],
        key=[[1, 0], [0, 1], [-1, 0]],
        value=[[1, 0], [0, 1], [0, 0]],
        row=3,
    )
    return _example(texts, section, {"set": [[3, 1, -1]]})


def _set(texts: Texts) -> dict[str, Any]:
    """Words that attend to similar words, in any order."""
    section = _named(texts, [[2, 0, -1], [-1, 2, 0], [2, 0, 1], [-1, 2, -1]], *(np.eye(3),) * 3, row=0)
    return _example(texts, section, {"order": [3, 1, 0, 2]})


def _named(texts: Texts, vectors: Rows, query: Rows, key: Rows, value: Rows, *, row: int) -> Section:
    """A mechanism of words that are made by hand."""
    weights = [np.array(weight, dtype=np.float64) for weight in (query, key, value)]
    queries, keys, values = (np.array(vectors) @ weight for weight in weights)
    section = mechanism(
        queries, keys, values, row=row, query_labels=texts["words"], key_labels=texts["words"]
    )
    return with_words(section, np.array(vectors), *weights, origin="made by hand", features=texts["features"])


def _example(texts: Texts, section: Section, first: dict[str, Any]) -> dict[str, Any]:
    """The data of a section with the texts of an example; `first` is the change that its text describes."""
    told: dict[str, Any] = {
        name: texts[name] for name in ("name", "about", "topics", "means", "open") if name in texts
    }
    return {
        **section.data,
        **told,
        "first": {"text": texts["first"], "after": texts.get("after", ""), **first},
    }


def translator(texts: Texts = TEXTS) -> Section:
    """Show the decoder's steps of the translator that `make demo` trains, for one sentence, at their true sizes."""
    data = json.loads(asset("translator.json"))["numbers"]
    return Section("mechanism", texts["real"]["title"], {**data, **texts["examples"]["translator"]})


def reordering(texts: Texts = TEXTS) -> Section:
    """Show a decoder made by hand that reads "the black cat" in the order of "le chat noir"."""
    eye = np.eye(3)
    # A state that is high at a word makes its unit of the perceptron rise the most from that word's annotation.
    score = scores.additive(-1.5 * eye, 2 * eye, [2.5, 2.5, 2.5])
    after_the, after_black, after_cat = [-1, -1, 1.5], [1.5, -1, -1], [-1, 1.5, -1]
    shown = texts["examples"]["decoder"]
    section = decoder(
        eye,
        [0.8, -0.8, -0.8],
        score,
        0.2 * eye,
        [after_the, after_black, after_cat],
        steps=3,
        **{name: shown[name] for name in ("title", "source", "target")},
    )
    # Each number of an annotation belongs to a word, and so does each number of the context.
    return replace(section, data={**section.data, "about": shown["about"], "topics": shown["source"]})


def directions(texts: Texts = TEXTS) -> Section:
    """Show dishes in a plane of two tastes, and a wish as a query."""
    shown = texts["examples"]["geometry"]
    section = geometry(
        [[2.5, -1.5], [2.0, 2.0], [-1.0, 2.5], [-2.0, -1.5]],
        [math.cos(math.radians(25)), math.sin(math.radians(25))],
        features=shown["features"],
        word_labels=shown["words"],
        about=shown["about"],
        title=texts["geometry"]["title"],
    )
    return replace(section, data={**section.data, "first": {"text": shown["first"], "query": [25, 4]}})


def word_order(texts: Texts = TEXTS) -> Section:
    """Show two heads that find who bites and who is bitten, if they know the order of the words."""
    # Columns of the words: two that are free for positions; animal; verb, or minus 1 for a noun; human.
    words = [[0, 0, 1, -1, 0], [0, 0, 0, 1, 0], [0, 0, 0, -1, 1]]
    # The query of a verb is (2, 0). The key of a noun stands 45 degrees from it. In the first head a place before the
    # verb turns it towards the query, in the second one after the verb. Positions that are added do the same.
    query = [[1, 1, -1, -1], [1, -1, 1, -1], [0, 0, 0, 0], [2, 0, 2, 0], [0, 0, 0, 0]]
    key = np.array([[0, 1, 0, -1], [1, 0, -1, 0], [0, 0, 0, 0], [-2, -2, -2, 2], [0, 0, 0, 0]]) / 2
    value = [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]]
    output = [[1, 0], [0, 1], [0, 1], [1, 0]]
    shown = texts["examples"]["heads"]
    section = multihead(
        words,
        query,
        key,
        value,
        output,
        heads=2,
        word_labels=shown["words"],
        features=shown["features"],
        head_names=shown["heads"],
        values=shown["values"],
        outputs=shown["outputs"],
        title=texts["multihead"]["title"],
    )
    return replace(section, data={**section.data, "picked": [1, 0]})


def learning(texts: Texts = TEXTS) -> Section:
    """Show how query and key weights are learned from what the context of a word should be in two sentences."""
    shown = texts["learning"]
    topics = [2, 0], [0, 2]
    sentences = [
        {
            "words": [[0, 0, 0], [*topic, 0], [1, 1, 2]],
            "labels": labels,
            "row": 2,
            "target": topic,
            "right": 1,
        }
        for labels, topic in zip(shown["sentences"], topics, strict=True)
    ]
    data = {
        "sentences": sentences,
        "value_weight": _TOPICS["value"],
        "made": {f"{name}_weight": _TOPICS[name] for name in ("query", "key")},
        "features": texts["examples"]["bank"]["features"],
        "values": texts["examples"]["bank"]["features"][:2],
    }
    return Section("learning", texts["chapters"]["queries"]["title"], data)


def block(texts: Texts = TEXTS) -> Section:
    """Show a block made by hand, in which a word finds its topic, and a feed-forward network notes that it is clear."""
    shown = texts["block"]
    matrices = {
        **{f"{name}_weight": [*weight, [0, 0]] for name, weight in _TOPICS.items()},
        "output_weight": [[1, 0, 0, 0], [0, 1, 0, 0]],
        # The first two units rise with the lead of a topic, the others from a lead of 2 on: together at most 2. In a
        # word that is not unclear all are 0.
        "hidden_weight": [[1, -1, 1, -1], [-1, 1, -1, 1], [4, 4, 4, 4], [0, 0, 0, 0]],
        "hidden_bias": [-8, -8, -10, -10],
        "feed_weight": [[0, 0, -1, 0], [0, 0, -1, 0], [0, 0, 1, 0], [0, 0, 1, 0]],
    }
    source = [[1, 1, 2, 0], [0, 0, 0, 0], [0, 0, 0, 0], [2, 0, 0, 0]]
    data = {
        "source": _placed(source, shown["source"]),
        "target": _placed([[0, 0, 2, 0]], shown["target"]),
        "matrices": matrices,
        "features": shown["features"],
    }
    return Section("block", texts["chapters"]["block"]["title"], data)


def _placed(words: Rows, labels: list[str]) -> dict[str, Any]:
    """The words of a sentence, and what is added for their places: the last number counts them."""
    return {"words": words, "labels": labels, "positions": [[0, 0, 0, i + 1] for i in range(len(words))]}


def lengths(texts: Texts = TEXTS) -> Section:
    """Show what one vector keeps of sentences of all lengths, and BLEU by length as it was measured."""
    return Section(
        "why", texts["chapters"]["why"]["title"], {"rows": json.loads(asset("length.json"))["rows"]}
    )
