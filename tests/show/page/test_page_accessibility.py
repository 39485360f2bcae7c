"""What axe-core finds on pages, in both themes, wide and narrow, and in the states that readers bring them into."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import regard
from regard.seq2seq.translator import Translation
from regard.show import HtmlPage, page
from regard.show.page.alignment import alignment, sentence
from regard.show.page.examples import directions, drawn, reordering, word_order
from regard.show.page.long_attention import LongAttention
from regard.show.page.section import Section

pytestmark = pytest.mark.slow

EYE = np.eye(3)


def with_a_warning() -> HtmlPage:
    (section,) = page(regard.attend(EYE, EYE, EYE)).sections
    return HtmlPage([Section(section.view, section.title, section.data, ["row 1 sums to 2"])])


def translations() -> HtmlPage:
    source = ("two", "cats", "</s>")
    return page(
        [
            Translation("deux chats", ("deux", "chats"), source, -0.5, EYE[:2]),
            Translation("chats", ("chats",), source, -1.0, EYE[:1]),
        ]
    )


def described_picture() -> HtmlPage:
    translation = Translation("a b", ("a", "b"), ("",) * 4, 0.0, np.full((2, 4), 0.25), grid=(2, 2))
    return page([alignment(sentence(translation, picture=np.ones((8, 8))))])


PAGES = {
    "translations": translations,
    "a described picture": described_picture,
    "heads": lambda: page(np.full((2, 3, 20, 20), 0.05)),
    "importance": lambda: page(np.full((2, 3, 4, 4), 0.25), importance=np.eye(4) - 0.5),
    "long": lambda: page(LongAttention(np.ones((2, 600, 4)), np.ones((2, 700, 4)))),
    "words and a decoder": lambda: HtmlPage([drawn(np.array([[1, 0, 0], [0, 1, 0]]), 42), reordering()]),
    "geometry and heads": lambda: HtmlPage([directions(), word_order()]),
    "recorded, with a warning": with_a_warning,
    "many": lambda: page(*np.random.default_rng(0).normal(size=(3, 14, 13))),
}


# A page with many words has the colours of one with few, and scrolls where it is narrow.
CASES = [case for case in product(PAGES, ["light", "dark"]) if case != ("many", "light")]


@pytest.mark.parametrize(("name", "theme"), CASES)
def test_a_page_has_no_serious_fault(opened: Any, accessible: Any, name: str, theme: str) -> None:
    accessible(opened(PAGES[name](), theme=theme, width=400 if theme == "dark" else 1400))


@pytest.mark.parametrize("normalize", ["sparsemax", "hard"])
def test_nor_has_it_with_other_options(opened: Any, accessible: Any, normalize: str) -> None:
    tab = opened(HtmlPage([drawn(EYE, 42)]))
    tab.get_by_label("Score", exact=True).select_option("additive")
    tab.get_by_label("Mask", exact=True).select_option("window")
    tab.get_by_label("Normalization").select_option(normalize)
    tab.get_by_label("Softcap").check()
    tab.get_by_role("button", name="Step by step").click()
    tab.get_by_role("button", name="Next").click()
    tab.get_by_role("spinbutton").first.fill("nonsense")
    tab.get_by_role("button", name="Dark").click()
    accessible(tab)
