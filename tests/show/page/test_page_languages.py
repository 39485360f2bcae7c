"""Pages in other languages: no number with an English mark and no English word is left, whatever a reader does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from page_words import english_words, words

import regard
from regard.mask import causal
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
from regard.show.page.section import Section
from regard.show.steps import LANGUAGES
from regard.weights import sigmoid

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
    "arrays": lambda _: [*page(*normal(3, 5, 3), mask=causal(), scale=0.3).sections],
    "words": lambda _: [drawn(np.array([[1.5, 0], [0, 1]]), 7)],
    "results": lambda _: [*page(regard.attend(*normal(3, 4, 2), normalize=sigmoid())).sections],
    "many": lambda _: [*page(*normal(3, 40, 3)).sections],
    "large": lambda _: [*page(*normal(3, 201, 3)).sections],
    "heads": lambda _: [
        *page(shares(1, 2, 5, 5), importance={"importance": shares(1, 2, 5, 5)}).sections,
        *page(2 * shares(2, 3, 3)).sections,
    ],
    "long": lambda _: [*page(LongAttention(*normal(2, 1, 600, 2))).sections],
    "alignment": lambda _: alignments(),
    "models": lambda _: models(),
}
# All that a reader sees or hears while everything that can be pressed, chosen or opened is.
EXPLORE = r"""async () => {
  const seen = new Set([document.title]);
  const names = ['aria-label', 'aria-valuetext', 'title', 'placeholder'];
  const told = (x) => names.forEach((name) => seen.add(x.getAttribute(name) ?? ''));
  const read = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.parentElement?.closest('script, style') || seen.add(node.data);
    if (node.nodeType !== Node.ELEMENT_NODE || node.matches('script, style, noscript')) return;
    told(node);
    if (node.matches('input[type=text]')) seen.add(node.value);
    node.childNodes.forEach(read);
  };
  const changes = new MutationObserver(() => {});
  const watched = { subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: names };
  changes.observe(document.body, watched);
  const look = () => changes.takeRecords().forEach(({ type, target, addedNodes }) => {
    if (type === 'attributes') told(target);
    else if (type === 'characterData') read(target);
    else addedNodes.forEach(read);
  });
  window.print = window.prompt = URL.createObjectURL = () => {};
  document.execCommand = () => true;
  HTMLAnchorElement.prototype.click = () => {};
  const all = (query) => [...document.querySelectorAll(query)];
  const open = () => all('details:not([open])').forEach((part) => {
    part.open = true;
    part.dispatchEvent(new Event('toggle'));
  });
  const each = (query, act, most = 40) => {
    open();
    for (let i = 0; i < Math.min(most, all(query).length); i++) {
      act(all(query)[i]);
      look();
    }
  };
  const set = (input, value, event) => {
    input.value = value;
    input.dispatchEvent(new Event(event));
  };
  const choose = (list) => [...list.options].slice(0, 12).forEach(({ value }) => {
    set(list, value, 'change');
    look();
  });
  const press = (button) => {
    button.focus();
    button.click();
  };
  open();
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  read(document.body);
  each('canvas[tabindex]', (canvas) => canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown' })));
  each('input[type=checkbox]', (box) => box.click());
  each('select', choose);
  each('input.number', (input) => set(input, 'x', 'input'), 1);
  each('button:not(table button, .token)', press, 250);
  each('table button', press, 20);
  each('.token', press, 10);
  each('input[type=range]', (input) => set(input, 0.3 * input.max, 'input'));
  each('input.answer', (input) => set(input, '0,5', 'input'));
  each('main button.primary, .exercise button', press);
  open();
  read(document.body);
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
            strings[name, language] = {
                text for text in tab.evaluate(EXPLORE) if not text.startswith(("file:", "<iframe"))
            }
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


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_french_has_a_blank_before_high_marks(explored: Any, name: str) -> None:
    assert [text for text in explored(name, "fr") if re.search(r"[^\s][:;?!»]( |$)|« ", text)] == []


@pytest.mark.slow
@pytest.mark.parametrize("language", OTHERS)
@pytest.mark.parametrize("name", VIEWS)
def test_no_word_is_english(explored: Any, name: str, language: str) -> None:
    foreign = english_words(language)
    left = {text: found for text in explored(name, language) if (found := words(text) & foreign)}
    assert left == {}
