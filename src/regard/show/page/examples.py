"""The example of a page without arrays of the user."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from regard import _check, scores
from regard.show.inputs import drawn_weights
from regard.show.page.mechanism import decoder, mechanism, with_words
from regard.show.page.section import Section, labels

__all__ = ["drawn", "reordering"]


def drawn(words: ArrayLike, seed: int, names: list[str] | None = None) -> Section:
    """Show words whose query, key and value weights are drawn with a seed, as tutorials draw them.

    words (n, d).
    """
    vectors = _check.parameter("words", words, 2, "(n, d)").astype(np.float64)
    generator = np.random.RandomState(seed)  # the legacy one: its draws are the same in every release
    weights = drawn_weights(generator, vectors.shape[1])
    named = labels(names, len(vectors), "word")
    section = mechanism(
        *(vectors @ weight for weight in weights),
        query_labels=named,
        key_labels=named,
        title="Attention, one step at a time",
    )
    return with_words(section, vectors, *weights)


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
