"""Pages in other languages: no number with an English mark and no English word is left, whatever a reader does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from regard.seq2seq import Seq2Seq
from regard.seq2seq.translator import Translation
from regard.show import HtmlPage, page
from regard.show.page.alignment import alignment, sentence
from regard.show.page.chapters import story
from regard.show.page.examples import drawn
from regard.show.page.heads import of_model
from regard.show.page.long_attention import LongAttention
from regard.show.page.mechanism import of_decoder
from regard.show.page.models import translation
from regard.show.page.parts import asset
from regard.show.page.section import Section
from regard.show.steps import LANGUAGES

OTHERS = sorted({*LANGUAGES} - {"en"})


def shares(*shape: int) -> np.ndarray:
    """Attention weights."""
    return np.random.default_rng(0).dirichlet(np.full(shape[-1], 0.4), size=shape[:-1])


def normal(*shape: int) -> np.ndarray:
    """Numbers of a normal distribution."""
    return np.random.default_rng(0).normal(size=shape)


def hypothesis(tokens: str, score: float, m: int = 3) -> Translation:
    """A translation of m tokens."""
    return Translation(
        tokens, tuple(tokens.split()), ("Aa", "Bb", "</s>")[:m], score, shares(len(tokens.split()), m)
    )


def alignments() -> list[Section]:
    """Several hypotheses with an importance and links, numbers that are no weights, a picture with a caption."""
    several = [hypothesis("Xx Yy", -0.25), hypothesis("Yy Xx Zz", -1.5)]
    needed = [{"erasure": shares(2, 3)}, {"erasure": shares(3, 3), "contribution": shares(3, 3)}]
    wrong = Translation("Xx", ("Xx",), ("Aa", "Bb"), -0.5, np.array([[0.75, -0.5]]))
    caption = Translation("Xx Yy", ("Xx", "Yy"), ("",) * 4, -0.5, shares(2, 4), grid=(2, 2))
    described = sentence(several, links=[(0, 0)], importance=needed)
    empty = Translation("", (), ("Aa",), -0.5, np.zeros((0, 1)))
    unattended = Translation("Xx", ("Xx",), ("Aa",), -0.5, None)
    return [
        alignment(described, *map(sentence, (wrong, empty, unattended))),
        alignment(sentence(caption, picture=np.ones((8, 8)))),
    ]


def models() -> list[Section]:
    """The heads, and the steps, of a transformer and of a recurrent network."""
    small = {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1, "decoder_layers": 1}
    sections: list[Section] = []
    known: list[dict[str, Any]] = [{"family": "transformer", "network": small}, {}]
    for options in known:
        model = Seq2Seq(epochs=1, **options).fit(["Aa Bb", "Bb"] * 4, ["Xx Yy", "Yy"] * 4)
        (best,) = model.align(["Aa Bb"], ["Xx Yy"])
        steps = model.decoder_steps(best)
        sections += [translation(steps), of_decoder(steps)]
        if options:
            sections.append(of_model(model.heads(best), model.erasure(best)))
    return sections


VIEWS: dict[str, Callable[[str], list[Section]]] = {  # by the language of their texts
    "story": lambda language: story(language=language),
    "language model": lambda language: story(["language-model"], language),
    "arrays": lambda _: [*page(*normal(3, 5, 3), mask=regard.causal(), scale=0.3).sections],
    "words": lambda _: [drawn(np.array([[1.5, 0], [0, 1]]), 7)],
    "results": lambda _: [*page(regard.attend(*normal(3, 4, 2), normalize=regard.sigmoid())).sections],
    "many": lambda _: [*page(*normal(3, 40, 3)).sections],
    "large": lambda _: [*page(*normal(3, 300, 3)).sections],
    "heads": lambda _: [
        *page(shares(1, 2, 5, 5), importance={"importance": shares(1, 2, 5, 5)}).sections,
        *page(2 * shares(2, 3, 3)).sections,
    ],
    "long": lambda _: [*page(LongAttention(*normal(2, 1, 1200, 2))).sections],
    "alignment": lambda _: alignments(),
    "models": lambda _: models(),
}
# All that a reader sees or hears while everything that can be pressed, chosen or opened is.
EXPLORE = r"""() => {
  const seen = new Set();
  const names = ['aria-label', 'aria-valuetext', 'title', 'placeholder'];
  const look = () => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      if (!walk.currentNode.parentElement.closest('script, style, noscript')) seen.add(walk.currentNode.data);
    }
    document.querySelectorAll('body *').forEach((x) => names.forEach((name) => seen.add(x.getAttribute(name) ?? '')));
    document.querySelectorAll('input[type=text]').forEach((x) => seen.add(x.value));
    seen.add(document.title);
  };
  window.print = window.prompt = URL.createObjectURL = () => {};
  document.execCommand = () => true;
  HTMLAnchorElement.prototype.click = () => {};
  const all = (query) => [...document.querySelectorAll(query)];
  const each = (query, act, most) => {
    for (let i = 0; i < Math.min(most, all(query).length); i++) {
      all('details').forEach((part) => { part.open = true; });
      act(all(query)[i]);
      look();
    }
  };
  const press = (button) => {
    button.focus();
    button.click();
    all('.menu button').forEach((item) => seen.add(item.textContent));
  };
  all('details').forEach((part) => { part.open = true; part.dispatchEvent(new Event('toggle')); });
  look();
  const choose = (list) => [...list.options].forEach((_, k) => {
    list.selectedIndex = k;
    list.dispatchEvent(new Event('change'));
    look();
  });
  each('input[type=checkbox]', (box) => box.click(), 20);
  each('select', choose, 40);
  each('canvas[tabindex]', (canvas) => canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown' })), 20);
  each('input.number', (input) => { input.value = 'x'; input.dispatchEvent(new Event('input')); input.blur(); }, 2);
  each('main button, .tools button, .rail button, .top button', press, 400);
  each('input[type=range]', (x) => { x.value = 0.3 * x.max; x.dispatchEvent(new Event('input')); }, 40);
  each('main button', press, 400);
  return [...seen];
}"""


@pytest.fixture(scope="module")
def strings() -> dict[tuple[str, str], set[str]]:
    """What was seen of a view in a language, so that each is explored once."""
    return {}


@pytest.fixture
def explored(opened: Any, strings: dict[tuple[str, str], set[str]]) -> Callable[[str, str], set[str]]:
    def explore(name: str, language: str) -> set[str]:
        if (name, language) not in strings:
            shown = HtmlPage(VIEWS[name](language), language=language, title="")
            tab = opened(shown)
            strings[name, language] = {*tab.evaluate(EXPLORE)}
        return strings[name, language]

    return explore


@pytest.mark.slow
@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("name", VIEWS)
def test_no_number_has_a_decimal_point(explored: Any, name: str, language: str) -> None:
    seen = explored(name, language)
    assert [text for text in seen if re.search(r"\d[.]\d", text)] == []
    assert [text for text in seen if re.search(r"\d[ ]%", text)] == []
    if name not in ("large", "long"):
        assert any(re.search(r"\d,\d", text) for text in seen)


SAME = {  # words of English that are words of the other language too, or names
    "fr": "transformer",
    "de": "feed forward",
}


def words(part: Any) -> set[str]:
    """The words of texts."""
    if isinstance(part, dict | list):
        return set().union(*map(words, part.values() if isinstance(part, dict) else part))
    return set(re.findall(r"[^\W\d_]{3,}", re.sub(r"\{\w+\}", " ", str(part)).lower()))


@pytest.mark.slow
@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("name", VIEWS)
def test_no_word_is_english(explored: Any, name: str, language: str) -> None:
    english, other = (json.loads(asset(f"texts/{each}.json")) for each in ("en", language))
    allowed = words(other) | words(json.loads(asset("translator.json"))) | words(SAME[language])
    foreign = words(english) - allowed
    left = {text: found for text in explored(name, language) if (found := words(text) & foreign)}
    assert left == {}
