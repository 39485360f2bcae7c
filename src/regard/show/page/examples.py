"""The examples that a page opens with where nobody gives it arrays."""

from __future__ import annotations

import numpy as np

from regard import scores
from regard.show.page.mechanism import decoder
from regard.show.page.section import Section

__all__ = ["reordering"]


def reordering() -> Section:
    """Show a decoder made by hand that reads "the black cat" in the order of "le chat noir".

    Returns
    -------
    Section
        A `decoder` of three annotations and three steps.

    Examples
    --------
    >>> reordering().data["key_labels"]
    ['the', 'black', 'cat']
    """
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
