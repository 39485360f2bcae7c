"""A page in a notebook or a site: its frame is as high as the page, and has the theme of what is around it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from regard.show import page
from regard.show.page import HtmlPage

HOST = (
    "<style>[data-theme=dark] {{ color: #ced6dd; background: #14181e }}</style><div>{0}</div><div>{1}</div>"
)
FITS = "() => Math.abs(document.documentElement.getBoundingClientRect().height - innerHeight) < 1"


# A frame outside of the window draws nothing: it is asked by the clock, not at each frame that is drawn.
def wait_for(frame: Any, condition: str) -> None:
    frame.wait_for_function(condition, polling=50)


def mechanism(words: int) -> HtmlPage:
    return page(*np.random.default_rng(words).normal(size=(3, words, 3)))


def heads() -> HtmlPage:
    return page(np.full((2, 2, 5, 5), 0.2))


@pytest.fixture
def host(browser: Any) -> Any:
    tab = browser.new_page(viewport={"width": 900, "height": 700})
    tab.set_content(HOST.format(mechanism(2)._repr_html_(), heads()._repr_html_()))
    yield tab
    tab.close()


def frames(tab: Any) -> list[Any]:
    for element in tab.locator("iframe").all():  # it is loaded when it is near the window
        element.scroll_into_view_if_needed()
    return [element.element_handle().content_frame() for element in tab.locator("iframe").all()]


def first_frame(tab: Any) -> Any:
    """The first frame, at the top of the window: browsers lay out only what is near it."""
    tab.evaluate("document.querySelectorAll('div')[1].remove(); scrollTo(0, 0)")
    return tab.locator("iframe").element_handle().content_frame()


@pytest.mark.slow
@pytest.mark.parametrize("width", [360, 900, 1400])
def test_a_frame_has_no_scroll_bar_of_its_own(host: Any, width: int) -> None:
    host.set_viewport_size({"width": width, "height": 700})
    for frame in frames(host):
        wait_for(frame, FITS)
        assert frame.evaluate("document.documentElement.scrollHeight === innerHeight")
        assert frame.evaluate("innerWidth === document.documentElement.clientWidth")


@pytest.mark.slow
def test_a_frame_grows_and_shrinks_with_its_page(host: Any) -> None:
    frame = first_frame(host)
    for height in (3000, 200):
        frame.evaluate(f"document.body.replaceChildren(); document.body.style.height = '{height}px'")
        wait_for(frame, FITS)
        assert frame.evaluate("innerHeight") == height


@pytest.mark.slow
def test_frames_follow_the_theme_around_them(host: Any) -> None:
    for theme, frame in itertools.product(("dark", "light", "dark"), frames(host)):
        host.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        wait_for(frame, f"() => document.documentElement.dataset.theme === '{theme}'")
        pressed = frame.get_by_role("button", name="Dark").get_attribute("aria-pressed")
        assert pressed == str(theme == "dark").lower()


@pytest.mark.slow
def test_a_theme_chosen_in_a_frame_stays_until_that_around_it_changes(host: Any) -> None:
    frame = first_frame(host)
    wait_for(frame, "() => document.documentElement.dataset.theme === 'light'")
    frame.get_by_role("button", name="Dark").click()
    host.evaluate("document.body.dataset.other = ''")  # changes nothing that is seen
    frame.evaluate("document.body.style.paddingBottom = '600px'")  # so that it tells its height again
    wait_for(frame, FITS)
    assert frame.evaluate("document.documentElement.dataset.theme") == "dark"
