"""One state: in the address, in a saved copy, and in the list of undo; a page is drawn from it alone."""

from __future__ import annotations

import html
import random
import re
from itertools import chain, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shown import DIGITS, WORDS, agrees, number, of_words, table, texts, weight_texts

import regard
from regard.seq2seq.translator import Translation
from regard.show import HtmlPage
from regard.show.page.alignment import alignment, sentence
from regard.show.page.examples import directions, drawn, meanings, reordering, word_order
from regard.show.page.heads import group, heads

pytestmark = pytest.mark.slow

LABELS = ["the cat", "50%", "a=b&c;d,e~f", "\u05e9\u05dc\u05d5\u05dd \U0001f600 '(!)'*+#?"]


@pytest.fixture
def words(opened: Any) -> Any:
    return opened(HtmlPage([drawn(WORDS, 42)]))


@pytest.fixture
def both(opened: Any) -> Any:
    """A page of two sections."""
    return opened(HtmlPage([drawn(WORDS, 42), reordering()]))


def matrix(generator: random.Random, rows: int, columns: int) -> list[list[float]]:
    """Numbers of many sizes; some are whole."""
    sizes = (1.0, 1e-7, 1e300, 3.0)
    return [
        [
            generator.choice(
                [
                    float(generator.randint(-3, 3)),
                    generator.gauss(0, 1) * generator.choice(sizes),
                ]
            )
            for _ in range(columns)
        ]
        for _ in range(rows)
    ]


def written(rows: list[list[float]]) -> str:
    return ";".join(",".join(repr(x).replace("+", "") for x in row) for row in rows)


def of_address(tab: Any) -> dict[str, str]:
    """The fields that a page has at present."""
    return dict(tab.evaluate("regard.written() ? Object.entries(regard.read(regard.written())) : []"))


def go(tab: Any, fields: dict[str, str]) -> None:
    """Open the page with these fields after #."""
    tab.evaluate(
        "(fields) => new Promise((done) => { addEventListener('hashchange', () => setTimeout(done), { once: true });"
        " location.hash = regard.written(fields); })",
        fields,
    )


def drawn_fields(seed: int) -> tuple[dict[str, str], dict[str, Any]]:
    """Fields of four words, and what they mean."""
    generator = random.Random(seed)
    parts = {name: matrix(generator, *shape) for name, shape in {"words": (4, 3), "WQ": (3, 3)}.items()}
    scale, row = generator.gauss(0, 1), generator.randrange(1, 4)
    fields = {name: written(rows) for name, rows in parts.items()}
    fields |= {"scale": repr(scale), "query": str(row), "mask": "causal", "score": "dot", "step": "2"}
    labels = generator.sample(LABELS, 4)
    fields["names"] = fields["key_names"] = ",".join(labels)
    return fields, {**parts, "scale": scale, "row": row, "labels": labels}


@pytest.mark.parametrize("seed", range(4))
def test_a_state_comes_back_from_the_text_that_it_becomes(words: Any, seed: int) -> None:
    fields, meant = drawn_fields(seed)
    escaped = words.evaluate("(texts) => regard.CODES.texts().write(texts)", meant["labels"])
    fields["names"] = fields["key_names"] = escaped
    text = words.evaluate("(fields) => regard.written(fields)", fields)
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._,;~=&-")
    go(words, fields)
    own = of_address(words)
    assert own.keys() == fields.keys()
    for name, part in own.items():
        if name in ("words", "WQ"):
            got = [[float(x) for x in row.split(",")] for row in part.split(";")]
            np.testing.assert_array_equal(got, meant[name])
        elif name == "scale":
            assert float(part) == meant["scale"]
        else:
            assert part == fields[name]
    shown = words.locator("thead [data-key] .label").all_text_contents()
    assert shown == meant["labels"]
    words.evaluate("location.hash = ''")
    words.get_by_role("radio", name="word 1").wait_for()
    agrees(words, of_words(WORDS))


def test_a_link_has_the_numbers_that_were_changed(words: Any, opened: Any) -> None:
    number(words, "Words, word 1, column 1").fill("0.5")
    words.get_by_label("Mask", exact=True).select_option("causal")
    words.wait_for_url(re.compile("mask=causal.*check"))
    address = words.url
    other = words.context.new_page()
    other.goto(address)
    changed = WORDS.copy()
    changed[0, 0] = 0.5
    agrees(other, of_words(changed, mask=regard.mask.causal()))


def test_every_cut_or_changed_text_is_found(words: Any) -> None:
    text = words.evaluate(
        "(fields) => regard.written(fields)", {"scale": "0.5", "words": "1,2;3,4", "key": "1"}
    )
    generator = random.Random(3)
    broken = [text[:k] for k in range(len(text))]
    for _ in range(200):
        k = generator.randrange(len(text))
        other = generator.choice("0123456789.,;=&abcXYZ~-%")
        if other != text[k]:
            broken.append(text[:k] + other + text[k + 1 :])
    found = words.evaluate(
        "(all) => all.filter((text) => { try { regard.read(text); return true; } catch { return false; } })",
        broken,
    )
    assert found == []


def test_a_program_that_escapes_a_link_breaks_nothing(words: Any) -> None:
    fields = {"words": "1,2;3,4", "names": "a~20b,c"}
    text = words.evaluate("(fields) => regard.written(fields)", fields)
    for escaped in (
        text.replace(";", "%3B").replace(",", "%2C"),
        text.replace("~", "%7E").replace("=", "%3D").replace("&", "%26"),
    ):
        assert words.evaluate("(text) => regard.read(text)", escaped) == fields


@pytest.mark.parametrize(
    "fields",
    [
        {"words": "1,2;3,4"},
        {"words": "1,2,x;0,0,0;0,0,0;0,0,0"},
        {"query": "4"},
        {"query": "-1"},
        {"step": "4"},
        {"score": "location"},
        {"softcap": "-2"},
        {"nonsense": "1"},
        {"7.query": "1"},
        {"constructor": "1"},
        {"exercise": "0;score;9;;;;"},
        {"exercise": "0;score;1;1;50,50,0,10;;"},
        {"exercise": "0;score;1;;40,60,0,0;;"},
        {"names": "a,b"},
        {"1.A": "1e999,0,0;0,0,0;0,0,0"},
    ],
)
def test_what_does_not_fit_the_page_is_reported_and_left_out(both: Any, fields: dict[str, str]) -> None:
    go(both, {"scale": "2", **fields})
    assert "can't be read" in both.get_by_role("alert").inner_text()
    assert both.evaluate("regard.written()") == ""
    number(both, "Words, word 1, column 1").fill("5")
    assert "words" in of_address(both)


def test_an_address_that_was_cut_off_opens_the_page_as_it_was_made(opened: Any, words: Any) -> None:
    for fragment in ("scale=2&che", "nonsense", "%E0%A4%A", "scale=2&check=0"):
        other = words.context.new_page()
        other.goto(words.url.split("#")[0] + "#" + fragment)
        assert other.get_by_role("alert").is_visible()
        assert other.evaluate("regard.written()") == ""
        other.close()
    other = words.context.new_page()
    other.goto(words.url.split("#")[0] + "#title-0")  # a heading, which a browser scrolls to
    assert other.get_by_role("alert").count() == 0


def test_a_saved_copy_opens_in_its_state(both: Any, tmp_path: Path) -> None:
    number(both, "Words, word 1, column 1").fill("0.5")
    both.get_by_role("radio", name="word 3").click()
    number(both, "First state, row 1, column 1").fill("\u22120.25")
    state = of_address(both)
    both.get_by_role("button", name="Dark").click()
    tab, path = both, tmp_path / "saved.html"
    for _ in range(2):  # a copy of a copy, too
        tab.get_by_role("button", name="Share").click()
        with tab.expect_download() as download:
            tab.get_by_role("menuitem", name="Save a copy").click()
        assert download.value.suggested_filename == "attention.html"
        download.value.save_as(path)
        assert path.read_text("utf-8").count("<script") == 2
        tab = both.context.new_page()
        faults: list[str] = []
        tab.on("console", lambda message, all_of=faults: all_of.append(message.text))
        tab.on("pageerror", lambda error, all_of=faults: all_of.append(str(error)))
        tab.goto(path.as_uri())
        assert of_address(tab) == state
        assert tab.get_by_role("radio", name="word 3").get_attribute("aria-checked") == "true"
        assert number(tab, "Words, word 1, column 1").input_value() == "0.5"
        assert faults == []
    number(tab, "Words, word 1, column 1").fill("1")
    tab.get_by_role("button", name="Undo").click()
    assert of_address(tab) == state


def test_a_page_in_a_frame_without_an_address_works(browser: Any, tmp_path: Path) -> None:
    inside = html.escape(HtmlPage([drawn(WORDS, 42)]).html)
    for sandbox in ("allow-scripts", "allow-scripts allow-downloads"):
        frame = (
            f'<iframe sandbox="{sandbox}" style="width: 1200px; height: 900px" srcdoc="{inside}"></iframe>'
        )
        path = tmp_path / "frame.html"
        path.write_text(f"<!doctype html>{frame}", "utf-8")
        faults: list[str] = []
        other = browser.new_page(viewport={"width": 1400, "height": 1000})
        other.on("pageerror", lambda error, all_of=faults: all_of.append(str(error)))
        other.goto(path.as_uri())
        part = other.frame_locator("iframe")
        cell = part.get_by_role("spinbutton", name="Words, word 1, column 1")
        cell.fill("7")
        part.get_by_role("button", name="Undo").click()
        assert cell.input_value() == "1"
        part.get_by_role("button", name="Share").click()
        assert part.get_by_role("menuitem").all_text_contents() == ["Save a copy of this page as it is"]
        other.wait_for_timeout(400)  # until the address would have been written
        assert faults == []
        other.close()


# ------------------------------------------------------------------------------------------------------------ undo


class Oracle:
    """A list of states and a position in it."""

    def __init__(self, first: dict[str, Any]) -> None:
        self.entries, self.at = [first], 0

    @property
    def now(self) -> dict[str, Any]:
        return self.entries[self.at]

    def edit(self, **changes: Any) -> None:
        if all(np.array_equal(self.now[name], value) for name, value in changes.items()):
            return
        self.entries = [*self.entries[: self.at + 1], {**self.now, **changes}]
        self.at += 1

    def look(self, **changes: Any) -> None:
        self.entries[self.at] = {**self.now, **changes}

    def go(self, by: int) -> None:
        self.at = min(max(0, self.at + by), len(self.entries) - 1)


def each_after_each(kinds: list[str]) -> list[str]:
    """A walk in which every kind comes once after every other and after itself (a de Bruijn sequence)."""
    walk = [x for i, kind in enumerate(kinds) for x in (kind, *chain(*product([kind], kinds[i + 1 :])))]
    return [*walk, kinds[0]]


def test_undo_and_redo_walk_through_the_list_of_edits(opened: Any) -> None:
    generator = random.Random(0)
    tab = opened(HtmlPage([drawn(WORDS, 42)]))
    oracle = Oracle({"words": WORDS, "mask": "none", "row": 0, "scale": None})
    kinds = each_after_each(["number", "undo", "mask", "redo", "scale", "row", "reset"])
    assert len(set(pairwise(kinds))) == len(kinds) - 1 == 7 * 7
    for kind in kinds:
        if kind == "number":
            i, j, x = generator.randrange(4), generator.randrange(3), generator.randint(-9, 9) / 2
            changed = oracle.now["words"].copy()
            changed[i, j] = x
            cell = number(tab, f"Words, word {i + 1}, column {j + 1}")
            cell.fill(str(x))
            cell.blur()
            oracle.edit(words=changed)
        elif kind == "mask":
            mask = generator.choice(["none", "causal"])
            tab.get_by_label("Mask", exact=True).select_option(mask)
            tab.get_by_label("Mask", exact=True).blur()
            oracle.edit(mask=mask)
        elif kind == "scale":
            scale = generator.randint(1, 9) / 4
            number(tab, "Scale").fill(str(scale))
            number(tab, "Scale").blur()
            oracle.edit(scale=scale)
        elif kind == "row":
            row = generator.randrange(4)
            tab.get_by_role("radio", name=f"word {row + 1}").click()
            oracle.look(row=row)
        elif kind == "reset":
            tab.get_by_role("button", name="Reset").click()
            first = {"words": WORDS, "mask": "none", "scale": None}
            if any(not np.array_equal(oracle.now[name], value) for name, value in first.items()):
                oracle.edit(**first)
            oracle.look(row=0)
        else:
            by = 1 if kind == "redo" else -1
            button = tab.get_by_role("button", name="Redo" if by > 0 else "Undo")
            if generator.random() < 0.5 and button.get_attribute("aria-disabled") == "false":
                button.click()
            else:
                tab.keyboard.press("Control+Shift+Z" if by > 0 else "Control+Z")
            oracle.go(by)
        now = oracle.now
        mask = regard.mask.causal() if now["mask"] == "causal" else None
        attention = of_words(now["words"], mask=mask, scale=now["scale"])
        assert table(tab, "Scores") == texts(attention.scores)
        assert table(tab, "Weights of") == weight_texts(attention, DIGITS)
        assert tab.get_by_role("radio", name=f"word {now['row'] + 1}").get_attribute("aria-checked") == "true"
        states = [
            tab.get_by_role("button", name=name).get_attribute("aria-disabled") for name in ("Undo", "Redo")
        ]
        ends = [oracle.at == 0, oracle.at == len(oracle.entries) - 1]
        assert states == [str(end).lower() for end in ends]


def test_a_drag_and_a_typed_number_are_one_step_each(opened: Any) -> None:
    tab = opened(HtmlPage([drawn(WORDS, 42)]))
    cell = number(tab, "Query weights, row 1, column 1")
    before = cell.input_value()
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag(*distances: int) -> None:
        tab.mouse.move(x, y)
        tab.mouse.down()
        for distance in distances:
            tab.mouse.move(x + distance, y)
        tab.mouse.up()

    drag(30, 60, 90)
    first = cell.input_value()
    drag(30, -30, -90)
    tab.keyboard.press("Control+z")
    assert cell.input_value() == first
    tab.keyboard.press("Control+z")
    assert cell.input_value() == before
    drag(30, 60, 0)  # there and back
    assert tab.get_by_role("button", name="Undo").get_attribute("aria-disabled") == "true"
    cell.click()
    tab.keyboard.type("-12,5")
    tab.keyboard.press("Control+z")
    assert cell.input_value() == before
    assert tab.evaluate("document.activeElement.ariaLabel") == "Query weights, row 1, column 1"
    tab.keyboard.press("Control+Shift+Z")
    assert cell.input_value() == "\u221212.5"


def test_an_example_is_a_step_that_can_be_undone(opened: Any) -> None:
    tab = opened(HtmlPage([meanings()]))
    tab.get_by_role("radio", name="A set without order").click()
    tab.get_by_role("button", name="Do it").first.click()
    after = table(tab, "Context")
    for _ in range(2):
        tab.get_by_role("button", name="Undo").click()
    assert tab.get_by_role("radio", name="River bank, money bank").get_attribute("aria-checked") == "true"
    for _ in range(2):
        tab.get_by_role("button", name="Redo").click()
    assert table(tab, "Context") == after


def test_a_plane_and_heads_keep_their_state_and_undo_it(opened: Any) -> None:
    tab = opened(HtmlPage([directions(), word_order()]))
    tab.locator(".handle").focus()
    tab.keyboard.press("ArrowUp")
    tab.get_by_role("button", name="Move dog one place on").click()
    tab.get_by_role("radio", name="rotary").click()
    tab.get_by_text("The words, and the matrices of the heads").click()
    number(tab, "Output weights, animal 1, news").fill("0.5")
    state = of_address(tab)
    assert set(state) == {"query", "1.order", "1.positions", "1.WO"}
    texts_of = "[...document.querySelectorAll('.matrix td')].map((cell) => cell.textContent)"
    shown = tab.evaluate(texts_of)
    for left in ({"query", "1.order", "1.positions"}, {"query", "1.order"}, {"query"}, set()):
        tab.keyboard.press("Control+z")
        assert set(of_address(tab)) == left
    go(tab, state)
    assert of_address(tab) == state
    assert tab.evaluate(texts_of) == shown
    for broken in ("0,0,1", "0,1", "0,1,3"):
        go(tab, {"1.order": broken})
        assert tab.get_by_role("alert").is_visible()


def test_a_sentence_and_a_head_are_in_the_address(opened: Any) -> None:
    weights = np.eye(2)
    source = ("a", "b")
    two = [
        alignment(
            *(
                sentence([Translation(f"{x} {k}", (x, str(k)), source, -k, weights) for k in range(3)])
                for x in "xy"
            )
        ),
        heads(
            [group(name, np.full((2, 3, 4, 4), 0.25), list("abcd"), list("abcd")) for name in ("one", "two")]
        ),
    ]
    tab = opened(HtmlPage(two))
    assert tab.get_by_role("button", name="Undo").count() == 0
    tab.get_by_label("Sentence").select_option(index=1)
    tab.get_by_role("button", name="y 2").click()
    tab.get_by_role("radio", name="two").click()
    tab.locator('tr[data-layer="1"][data-head="2"]').click()
    state = {"sentence": "1", "hypothesis": "2", "1.group": "1", "1.layer": "1", "1.head": "2"}
    assert of_address(tab) == state
    tab.wait_for_url(re.compile("check"))
    tab.evaluate("location.hash = ''")
    tab.locator("h3", has_text="one layer 1, head 1").wait_for()
    go(tab, state)
    assert of_address(tab) == state
    assert tab.locator(".head-large h3").inner_text() == "two layer 2, head 3"
    assert tab.locator(".hypothesis[aria-pressed=true]").inner_text().endswith("y 2")
