"""The sections of a page without arrays of the user."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check, scores
from regard.show.page.geometry import geometry
from regard.show.page.mechanism import decoder, mechanism, with_words
from regard.show.page.multihead import multihead
from regard.show.page.section import Section, labels
from regard.show.steps import TEXTS

__all__ = [
    "SECTIONS",
    "directions",
    "drawn",
    "drawn_weights",
    "meanings",
    "reordering",
    "translator",
    "word_order",
]


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
        title="Attention, one step at a time",
    )
    return with_words(section, vectors, *weights, origin=f"drawn with seed {seed}")


def drawn_weights(generator: np.random.RandomState, size: int) -> list[NDArray[np.int64]]:
    """Draw the query, key and value weights as tutorials do, for words of this size."""
    return [generator.randint(3, size=(size, size)) for _ in range(3)]


def meanings() -> Section:
    """Show examples made by hand, whose features have names and whose result has a reason."""
    return Section(
        "mechanism",
        "Attention, one step at a time",
        {
            "examples": [
                _bank(),
                _pronoun(),
                _set(),
                _example("Four words", drawn(WORDS, 42), _FOUR, _FIRST_FOUR),
            ]
        },
    )


Rows = Sequence[Sequence[float]] | NDArray[np.float64]

WORDS = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])

_FOUR = "Four words without a meaning, as in tutorials: the numbers can be computed by hand."
_FIRST_FOUR = {
    "text": "word 4 becomes (1, 1, 0), the vector of word 3. Both get the same weights and the same context.",
    "set": [[3, 0, 1], [3, 1, 1], [3, 2, 0]],
}


def _bank() -> dict[str, Any]:
    """A word with two meanings: it asks for a topic, which its neighbour offers."""
    section = _named(
        ["the", "river", "bank"],
        ["water", "money", "unclear"],
        [[0, 0, 0], [2, 0, 0], [1, 1, 2]],
        query=[[0, 0], [0, 0], [1.5, 1.5]],  # the query of an unclear word matches both topics
        key=[[1, 0], [0, 1], [-1, -1]],  # and its key matches neither
        value=[[1, 0], [0, 1], [0, 0]],
        row=2,
    )
    about = (
        'River bank or money bank? "bank" is about water and about money, and unclear, so it asks for a topic. "river" '
        'offers one, so "bank" attends to it, and its context is about water alone: the bank of a river.'
    )
    first = {
        "text": '"river" becomes "money": water 0, money 2. The context of "bank" turns from water to money.',
        "set": [[1, 0, 0], [1, 1, 2]],
    }
    return _example("River bank, money bank", section, about, first)


def _pronoun() -> dict[str, Any]:
    """A pronoun asks for a noun that fits what is said of it."""
    section = _named(
        ["animal", "crossed", "street", "it"],
        ["noun", "alive", "pronoun"],
        [[2, 2, 0], [0, 0, 0], [2, -2, 0], [0, 1, 2]],
        query=[[0, 0], [0, 1], [1, 0]],
        key=[[1, 0], [0, 1], [-1, 0]],
        value=[[1, 0], [0, 1], [0, 0]],
        row=3,
    )
    about = (
        'The animal crossed the street, because it was late. What is late is alive, so "it" asks for a noun that is '
        'alive: "animal" fits, "street" is a noun but not alive, "crossed" is no noun.'
    )
    first = {
        "text": 'because it was wide: "alive" of "it" becomes \N{MINUS SIGN}1. It asks for a thing and finds "street".',
        "set": [[3, 1, -1]],
    }
    return _example("A pronoun and its noun", section, about, first)


def _set() -> dict[str, Any]:
    """Words that attend to similar words, in any order."""
    section = _named(
        ["cherry", "lemon", "apple", "lime"],
        ["red", "sour", "large"],
        [[2, 0, -1], [-1, 2, 0], [2, 0, 1], [-1, 2, -1]],
        *(np.eye(3),) * 3,
        row=0,
    )
    about = (
        "A bag of fruit. Query, key and value are the fruit itself, so each attends to what is like it: red to red, "
        "sour to sour. A bag has no order, and attention knows none."
    )
    first = {
        "text": "the words change places. Each keeps its weights and its context, to the last digit.",
        "order": [3, 1, 0, 2],
    }
    return _example("A set without order", section, about, first)


def _named(
    words: list[str],
    features: list[str],
    vectors: Rows,
    query: Rows,
    key: Rows,
    value: Rows,
    *,
    row: int,
) -> Section:
    """A mechanism of words that are made by hand."""
    weights = [np.array(weight, dtype=np.float64) for weight in (query, key, value)]
    queries, keys, values = (np.array(vectors) @ weight for weight in weights)
    section = mechanism(queries, keys, values, row=row, query_labels=words, key_labels=words)
    return with_words(section, np.array(vectors), *weights, origin="made by hand", features=features)


def _example(name: str, section: Section, about: str, first: dict[str, Any]) -> dict[str, Any]:
    return {**section.data, "name": name, "about": about, "first": first}


def translator() -> Section:
    """Show the decoder's steps of the translator that `make demo` trains, for one sentence, at their true sizes."""
    asset = resources.files("regard.show").joinpath("page", "assets", "translator.json")
    data = json.loads(asset.read_text("utf-8"))
    about = (
        'It translates "Open the selected file" from English to French. English has the adjective before the noun, '
        'French after it: at "fichier" the decoder passes over "selected", and goes back to it at the next word.'
    )
    return Section("mechanism", TEXTS["real"]["title"], {**data, "about": about})


def reordering() -> Section:
    """Show a decoder made by hand that reads "the black cat" in the order of "le chat noir"."""
    eye = np.eye(3)
    # A state that is high at a word makes its unit of the perceptron rise the most from that word's annotation.
    score = scores.additive(-1.5 * eye, 2 * eye, [2.5, 2.5, 2.5])
    after_the, after_black, after_cat = [-1, -1, 1.5], [1.5, -1, -1], [-1, 1.5, -1]
    return decoder(
        eye,
        [0.8, -0.8, -0.8],
        score,
        0.2 * eye,
        [after_the, after_black, after_cat],
        steps=3,
        source=["the", "black", "cat"],
        target=["le", "chat", "noir"],
    )


def directions() -> Section:
    """Show dishes in a plane of two tastes, and a wish as a query."""
    about = (
        "Four dishes by two tastes, each from \N{MINUS SIGN}3 to 3: honey is sweet and soft, an apple sweet and "
        "crunchy, nuts crunchy and hardly sweet, soup neither. The query is a wish: something sweet, and a little "
        "crunchy. The context is the dish that a mixture by these weights would be."
    )
    first: dict[str, Any] = {
        "text": "make the query longer. The direction stays, and the context moves to the apple. At length 0 all "
        "weights are equal, and the context is the middle of the four dishes.",
        "query": [25, 4],
    }
    section = geometry(
        [[2.5, -1.5], [2.0, 2.0], [-1.0, 2.5], [-2.0, -1.5]],
        [math.cos(math.radians(25)), math.sin(math.radians(25))],
        features=["sweet", "crunchy"],
        word_labels=["honey", "apple", "nuts", "soup"],
        about=about,
    )
    return replace(section, data={**section.data, "first": first})


def word_order() -> Section:
    """Show two heads that find who bites and who is bitten, if they know the order of the words."""
    # Columns of the words: two that are free for positions; animal; verb, or minus 1 for a noun; human.
    words = [[0, 0, 1, -1, 0], [0, 0, 0, 1, 0], [0, 0, 0, -1, 1]]
    # The query of a verb is (2, 0). The key of a noun stands 45 degrees from it. In the first head a place before the
    # verb turns it towards the query, in the second one after the verb. Positions that are added do the same.
    query = [[1, 1, -1, -1], [1, -1, 1, -1], [0, 0, 0, 0], [2, 0, 2, 0], [0, 0, 0, 0]]
    key = np.array([[0, 1, 0, -1], [1, 0, -1, 0], [0, 0, 0, 0], [-2, -2, -2, 2], [0, 0, 0, 0]]) / 2
    value = [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]]
    output = [[1, 0], [0, 1], [0, 1], [1, 0]]
    about = (
        "Dog bites man is no news, man bites dog is. The first head looks for who bites, the second for who is bitten; "
        "both bring whether it is an animal or a human. The output weights make of this what is expected (an animal "
        "bites, a human is bitten) and what is news (a human bites, an animal is bitten): look at the output of "
        '"bites".'
    )
    section = multihead(
        words,
        query,
        key,
        value,
        output,
        heads=2,
        word_labels=["dog", "bites", "man"],
        features=["place", "place", "animal", "verb", "human"],
        head_names=["who bites", "who is bitten"],
        values=["animal", "human"],
        outputs=["expected", "news"],
        about=about,
    )
    first = {
        "text": 'dog and man change places. Each word keeps its output: "bites" cannot tell who bites whom. Then '
        "switch positions on.",
        "order": [2, 1, 0],
    }
    return replace(section, data={**section.data, "first": first, "picked": [1, 0]})


SECTIONS = meanings, directions, word_order, reordering, translator  # from top to bottom
