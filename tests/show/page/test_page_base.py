"""What all views share, in a browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.show import HtmlPage, page
from regard.show.page.examples import drawn, reordering


@pytest.mark.slow
def test_a_page_opens_without_an_error_or_a_request(opened: Any) -> None:
    tab = opened(page(np.eye(2), np.eye(2), np.eye(2)))
    assert tab.locator("section.mechanism h2").count() == 1


@pytest.mark.slow
def test_numbers_are_written_as_python_writes_them(opened: Any) -> None:
    tab = opened(page(np.eye(2), np.eye(2), np.eye(2)))
    rng = np.random.default_rng(0)
    exact = [0.125, 0.375, 2.5, -0.125, 0.0625, 1e6 + 0.5, 0.5, 1.5, -2.5, 0.0, -0.0, 3.0, 1234.5678]
    numbers = [*exact, *(rng.normal(0, 100, 200).tolist())]
    for digits in range(5):
        shown = tab.evaluate("([x, d]) => x.map((n) => regard.format(n, d))", [numbers, digits])
        expected = [f"{x:.{digits}f}".replace("-", "\u2212") for x in numbers]
        expected = [
            "0" if not float(text.replace("\u2212", "-")) and not digits else text for text in expected
        ]
        pairs = [pair for pair in zip(numbers, shown, expected, strict=True) if pair[1] != pair[2]]
        # A number that would be only zeros is written with an exponent, and 0 has no sign.
        assert all(abs(x) <= 0.5 * 10**-digits for x, *_ in pairs), (digits, pairs)


@pytest.mark.slow
def test_views_share_a_page(opened: Any) -> None:
    """Their names don't clash, and no element has the name of another."""
    eye = np.eye(3)
    sections = [drawn(eye, 42), reordering(), *page(np.stack([eye, eye])).sections]
    tab = opened(HtmlPage(sections))
    assert tab.locator("section").count() == 3
    assert tab.locator("section:has(h2 ~ *)").count() == 3
    names = tab.evaluate("[...document.querySelectorAll('[id]')].map((element) => element.id)")
    assert len(names) == len(set(names))
