"""What a page exports: pictures as SVG with text and as PNG, numbers as CSV and LaTeX."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from shown import WEIGHTS, WORDS, number, of_words

import regard
from regard import scores
from regard.commands.array_files import read_table
from regard.seq2seq.translator import Translation
from regard.show import HtmlPage, page
from regard.show.page.alignment import alignment, sentence
from regard.show.page.chapters import story
from regard.show.page.examples import directions, drawn, meanings, reordering
from regard.show.page.heads import group, heads
from regard.show.page.long_attention import LongAttention

pytestmark = pytest.mark.slow

SVG = "{http://www.w3.org/2000/svg}"
LABELS = ["caf\u00e9", 'say "hi", twice', "\u05e9\u05dc\u05d5\u05dd", "a_b & 50% #1 {x} \\ ^ ~ $"]


@pytest.fixture
def exported(tmp_path: Path) -> Any:
    """Save one export: exported(tab, "Weights", "CSV") is its path, named as the page names it."""

    def save(tab: Any, name: str, item: str, within: str = "body") -> Path:
        tab.locator(within).get_by_role("button", name=f"Export {name}", exact=True).first.click()
        with tab.expect_download() as download:
            tab.get_by_role("menuitem", name=re.compile(f"as {item}$")).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        return path

    return save


def texts(path: Path) -> list[str]:
    """The texts of an SVG, which must have no style of a page and load nothing."""
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    assert float(root.attrib["width"]) > 50 < float(root.attrib["height"])
    for part in root.iter():
        assert not {"class", "style"} & part.attrib.keys()
        assert part.attrib.get("href", "data:").startswith("data:")
    return ["".join(part.itertext()) for part in root.iter(f"{SVG}text")]


def test_every_matrix_as_csv_has_the_numbers_of_attend(opened: Any, exported: Any) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42, LABELS)]))
    changed = WORDS.copy()
    changed[0, 0], changed[3, 1] = 0.1, 1 / 3
    number(tab, f"Words, {LABELS[0]}, column 1").fill("0.1")
    number(tab, f"Words, {LABELS[3]}, column 2").fill(repr(1 / 3))
    own = of_words(changed)
    expected = {
        "Words": changed,
        "Query weights": WEIGHTS[0],
        "queries": changed @ WEIGHTS[0],
        "Scores": own.scores,
        "Weights": own.weights,
        "Context": own.context,
    }
    for name, numbers in expected.items():
        path = exported(tab, name, "CSV")
        assert path.name == f"attention-{name.lower().replace(' ', '-')}.csv"
        table = read_table(path)
        np.testing.assert_allclose(table.numbers, numbers, rtol=1e-14, atol=1e-15)
        assert table.rows == (None if name == "Query weights" else LABELS)
        assert table.columns == (LABELS if name in ("Scores", "Weights") else None)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_weights_as_svg_have_labels_axes_and_numbers_in_light_colours(
    opened: Any, exported: Any, theme: str
) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42, LABELS)]), theme=theme)
    path = exported(tab, "Weights", "SVG")
    found = texts(path)
    assert {"Queries", "Keys", *LABELS} <= set(found)
    numbers = [float(x) for x in found if re.fullmatch(r"[\d.]+", x)]
    np.testing.assert_allclose(numbers, of_words(WORDS).weights.ravel(), atol=5.1e-4)
    fills = [part.attrib["fill"] for part in ElementTree.parse(path).iter(f"{SVG}rect")]
    assert fills[0] == "#fff"
    darkest = [int(x) for x in re.findall(r"\d+", fills[1 + int(of_words(WORDS).weights.argmax())])]
    assert sum(darkest) < 250


def test_a_picture_of_the_steps_is_light_and_has_its_numbers(opened: Any, exported: Any) -> None:
    tab = opened(HtmlPage([meanings()]), theme="dark")
    path = exported(tab, "this query", "SVG")
    assert path.name == "river-bank-money-bank-query-bank.svg"
    found = texts(path)
    assert {"river", "6", "98.6\u00a0%", "water", "1.97", "exp(score/\u221a2)"} <= set(found)
    inks = {part.attrib.get("fill") for part in ElementTree.parse(path).iter(f"{SVG}text")}
    assert "rgb(27, 30, 40)" in inks | {part.attrib.get("fill") for part in ElementTree.parse(path).iter()}
    picture = exported(tab, "this query", "PNG").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(picture[k : k + 4]) for k in (16, 20))
    assert width > 600
    assert height > 300


def test_pictures_of_alignments_heads_and_long_attention(opened: Any, exported: Any) -> None:
    weights = np.random.default_rng(0).dirichlet(np.full(3, 0.4), size=2)
    translation = Translation("le chat", ("le", "chat"), ("the", "cat", "</s>"), -0.2, weights)
    caption = Translation("a b", ("a", "b"), ("",) * 4, 0.0, np.full((2, 4), 0.25), grid=(2, 2))
    two = group("self", np.full((2, 3, 5, 5), 0.2), list("abcde"), list("vwxyz"))
    sections = [
        alignment(sentence([translation], links=[(0, 0)])),
        alignment(sentence(caption, picture=np.ones((8, 8)))),
        heads([two]),
        *page(LongAttention(np.ones((1, 600, 4)), np.ones((1, 700, 4)))).sections,
    ]
    tab = opened(HtmlPage(sections), theme="dark")
    assert {"the", "cat", "</s>", "le", "chat"} <= set(texts(exported(tab, "the lines", "SVG")))
    assert {"le", "chat", "the", "cat", "Target tokens", "Source tokens"} <= set(
        texts(exported(tab, "the weights", "SVG"))
    )
    table = read_table(exported(tab, "the weights", "CSV"))
    np.testing.assert_allclose(table.numbers, weights, rtol=1e-6)
    assert (table.rows, table.columns) == (["le", "chat"], ["the", "cat", "</s>"])
    assert {"a", "b"} <= set(texts(exported(tab, "the pictures", "SVG")))
    assert {"L1 H1", "L2 H3", "self"} <= set(texts(exported(tab, "all heads", "SVG")))
    measures = read_table(exported(tab, "all heads", "CSV"))
    np.testing.assert_allclose(measures.numbers[:, 0], np.log2(5), rtol=1e-6)
    blocks = {"Queries", "Keys", "1 … 2", "11 … 12"}
    assert blocks <= set(texts(exported(tab, "the weights", "SVG", "section:last-of-type")))


PICTURES = (
    ".plot, .squeezed, .strips, .lanes, .plane, .heat, .decoder-steps, .letters-parts, canvas[role=img]"
)
VIEWS = {
    "story": lambda: story(),
    "language model": lambda: story(["language-model"]),
    "alignment": lambda: page([Translation("a b", ("a", "b"), ("c", "d"), 0.0, np.eye(2))]).sections,
    "heads": lambda: page(np.full((1, 2, 5, 5), 0.2)).sections,
    "many": lambda: page(*np.random.default_rng(0).normal(size=(3, 40, 3))).sections,
    "long": lambda: page(LongAttention(np.ones((1, 600, 4)), np.ones((1, 700, 4)))).sections,
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_picture_is_exported_as_svg_with_text(opened: Any, exported: Any, name: str) -> None:
    tab = opened(HtmlPage(VIEWS[name]()))
    tab.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    tab.wait_for_timeout(100)
    saved = 0
    for button in tab.locator("button.export:visible").all():
        button.click()
        item = tab.get_by_role("menuitem", name="Picture as SVG")
        if not item.count():
            tab.keyboard.press("Escape")
            continue
        with tab.expect_download() as download:
            item.click()
        path = download.value.path()
        assert any(text.strip() for text in texts(path)), button.get_attribute("aria-label")
        saved += 1
    shown = tab.locator(PICTURES).evaluate_all("all => all.filter((x) => x.checkVisibility()).length")
    assert saved >= shown > 0


def test_a_plane_has_its_words(opened: Any, exported: Any) -> None:
    found = " ".join(
        texts(
            exported(opened(HtmlPage([directions()])), "The plane of keys, values, query and context", "SVG")
        )
    )
    assert all(word in found for word in ("honey", "apple", "context", "sweet"))


def account(tab: Any, exported: Any) -> str:
    return str(exported(tab, "this query", "LaTeX").read_text("utf-8"))


@pytest.mark.parametrize("seed", range(12))
def test_a_query_as_latex_is_that_of_explain(opened: Any, exported: Any, seed: int) -> None:
    """Numbers whole, small, large or neither; options of every kind; matrices that are cut."""
    generator = random.Random(seed)
    rng = np.random.default_rng(seed)
    n, m, d, e = generator.choice([(3, 4, 3, 2), (2, 12, 11, 3), (4, 4, 2, 12)])
    size = generator.choice([1.0, 1e-3, 1e3, 1e11, 1e-8])
    arrays = [rng.normal(size=shape) * size for shape in ((n, d), (m, d), (m, e))]
    if seed % 2:
        arrays = [np.rint(3 * array / size) for array in arrays]
    options: dict[str, Any] = {
        "scale": generator.choice([None, 0.25, 1e-5, 123456.75]),
        "softcap": generator.choice([None, 1.5]),
        "normalize": generator.choice(["softmax", "sparsemax", "entmax15", "hard"]),
        "score": generator.choice(
            [
                *("dot", "scaled_dot", scores.cosine(2.5), scores.gaussian(0.7), scores.gaussian(1e-5)),
                scores.additive(rng.normal(size=(d, 3)), rng.normal(size=(d, 3)), [1, 2, 3], [0.5, 1, 2]),
                *(
                    scores.concat(rng.normal(size=(2 * d, 3)), [1, 2, 3]),
                    scores.general(rng.normal(size=(d, d))),
                ),
                scores.location(rng.normal(size=(d, m))),
            ]
        ),
        "mask": generator.choice([None, regard.mask.causal("end")]) if m >= n else None,
    }
    labels = [f"{generator.choice(LABELS)} {k}" for k in range(m)]
    tab = opened(page(*arrays, query_labels=labels[:n], key_labels=labels, **options))
    row = generator.randrange(n)
    tab.locator(".picker [role=radio]").nth(row).click()
    story = regard.explain(queries=arrays[0], keys=arrays[1], values=arrays[2], labels=None, **options)
    expected = story.latex(row)
    mine = account(tab, exported)
    strip = re.compile(r"\\text\{[^}]*\}|^%.*$", flags=re.MULTILINE)
    named = re.compile(r"  & & .*\n")
    assert named.sub("", strip.sub("", mine)).strip() == named.sub("", strip.sub("", expected)).strip()
    assert f"% the query {escaped(labels[row])}" in mine


def escaped(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    return "".join(special.get(x, f"\\{x}" if x in "{}$&#%_" else x) for x in text)


def test_a_matrix_as_latex_is_complete(opened: Any, exported: Any) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42, LABELS)]))
    text = exported(tab, "Weights", "LaTeX").read_text("utf-8")
    assert text.count(r"\begin{array}{l|rrrr}") == text.count(r"\end{array}") == 1
    rows = [line for line in text.splitlines() if line.startswith(r"  \text{")]
    assert [line.split(" & ")[0].strip() for line in rows] == [rf"\text{{{escaped(x)}}}" for x in LABELS]
    numbers = [[float(x.replace(r"\\", "")) for x in line.rsplit(" & ", 4)[1:]] for line in rows]
    np.testing.assert_allclose(numbers, of_words(WORDS).weights, atol=5.1e-6)


def test_latex_is_copied(opened: Any) -> None:
    tab = opened(HtmlPage([meanings()]))
    tab.get_by_role("button", name="Export this query").click()
    tab.get_by_role("menuitem", name="Copy the LaTeX").click()
    tab.evaluate("document.body.append(Object.assign(document.createElement('textarea'), { id: 'pasted' }))")
    tab.locator("#pasted").focus()
    tab.keyboard.press("Control+v")
    assert r"\operatorname{softmax}" in tab.locator("#pasted").input_value()
    assert "copied" in tab.locator(".announcement").inner_text()


def test_a_menu_is_used_with_the_keyboard(opened: Any, accessible: Any) -> None:
    tab = opened(HtmlPage([meanings(), reordering()]))
    button = tab.get_by_role("button", name="Export Weights", exact=True).first
    button.focus()
    tab.keyboard.press("ArrowDown")
    focused = "document.activeElement.textContent"
    assert tab.evaluate(focused) == "Picture as SVG"
    accessible(tab)
    tab.keyboard.press("ArrowDown")
    assert tab.evaluate(focused) == "Picture as PNG"
    tab.keyboard.press("End")
    assert tab.evaluate(focused) == "Copy the LaTeX"
    tab.keyboard.press("Escape")
    assert tab.get_by_role("menu").count() == 0
    assert tab.evaluate("document.activeElement.ariaLabel") == "Export Weights"
    assert button.get_attribute("aria-expanded") == "false"
