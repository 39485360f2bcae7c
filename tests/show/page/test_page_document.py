"""The file of a page: complete, escaped, and written only where it may be."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard import weights
from regard.seq2seq.translator import Translation
from regard.show import HtmlPage, page
from regard.show.page.alignment import aligned, alignment
from regard.show.page.heads import group, heads
from regard.show.page.long_attention import LongAttention
from regard.show.page.section import Section, packed
from regard.show.steps import TEXTS

HOSTILE = [
    "<script>alert(1)</script>",
    '"quoted"',
    "it's",
    "$title",
    "a & b",
    "<!--",
    "\u2028",
    "]]>",
    "\\u003c",
]


def data_of(document: str) -> Any:
    """The data that a browser reads from a page."""
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', document, flags=re.DOTALL
    )
    return json.loads(text)


def test_labels_come_back_as_they_were_and_are_never_markup() -> None:
    parts = [Section("mechanism", text, {"labels": HOSTILE}) for text in HOSTILE]
    document = HtmlPage(parts, title=" ".join(HOSTILE)).html
    sections = data_of(document)
    assert [section["title"] for section in sections] == HOSTILE
    assert sections[0]["data"]["labels"] == HOSTILE
    assert document.count("<script") == 2
    assert document.count("</script>") == 2
    assert "<!--" not in document


@pytest.mark.slow
def test_no_text_of_a_page_is_longer_than_can_be_read_or_has_piled_marks() -> None:
    """A browser takes longer than a minute for 40,000 marks on a letter, or nested changes of direction."""
    weights = np.eye(2)
    for text in ("e" + "\u0301" * 40_000, "x" * 40_000, "\u202e\u202da" * 40_000):
        names = [text, "b"]
        translation = Translation(text, (text, "b"), (text, "b"), -0.5, weights)
        for shown in (
            page(weights, weights, weights, query_labels=names, key_labels=names, title=text),
            page(weights, query_labels=names, key_labels=names, title=text),
            page(LongAttention(weights, weights), query_labels=names, key_labels=names),
            page([Section("mechanism", text, {}), alignment(aligned(weights, names, names, text=text))]),
            page(translation),
            page(heads([group(text, weights, names, names, layers=[text])])),
        ):
            assert len(shown.html) < 225_000
            assert "\u0301" * 10 not in shown.html


def test_a_page_loads_nothing() -> None:
    document = page(np.eye(2), np.eye(2), np.eye(2)).html
    assert "default-src 'none'" in document.replace("&#x27;", "'")
    addresses = set(re.findall(r"https?://[\w./-]+", document))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG's elements, which nothing loads
    assert not re.search(r"<(link|img|iframe)|\bsrc=|@import|url\((?!#)", document)


def test_a_page_of_all_views_is_small_compared_with_its_data() -> None:
    views = ("mechanism", "alignment", "heads")
    assert len(HtmlPage([Section(view, "", {}) for view in views]).html.encode()) < 250_000


def test_numbers_that_are_not_finite_are_strings_that_a_browser_reads_as_numbers() -> None:
    document = HtmlPage([Section("mechanism", "", {"x": [math.nan, math.inf, -math.inf, 1.5]})]).html
    assert data_of(document)[0]["data"]["x"] == ["NaN", "Infinity", "-Infinity", 1.5]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[1, 2]], np.uint8), {"dtype": "uint8", "shape": [1, 2], "base64": "AQI="}),
        (np.array([1.0], ">f4"), {"dtype": "float32", "shape": [1], "base64": "AACAPw=="}),
        (np.array([True]), {"dtype": "float32", "shape": [1], "base64": "AACAPw=="}),
        (
            np.asfortranarray(np.array([[1, 2], [3, 4]], np.uint8)),
            {"dtype": "uint8", "shape": [2, 2], "base64": "AQIDBA=="},
        ),
    ],
)
def test_an_array_is_packed_little_endian_in_c_order(array: np.ndarray, expected: dict[str, Any]) -> None:
    assert packed(array) == expected


def test_an_existing_file_is_replaced_with_force_only(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="the file exists already"):
        HtmlPage([]).save(path)
    assert path.read_text() == "mine"
    HtmlPage([]).save(path, force=True)
    assert path.read_text(encoding="utf-8") == HtmlPage([]).html


def test_a_large_page_gives_a_warning_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    large = HtmlPage([Section("mechanism", "", {"numbers": "x" * 20_000_000})])
    with pytest.raises(UserWarning, match=r"page\.html takes 20 MB, which browsers open slowly"):
        large.save(path)  # warnings are errors here
    assert not path.exists()


def test_a_notebook_shows_a_page_in_a_frame_of_its_own() -> None:
    shown = HtmlPage([], title='"a" & b')._repr_html_()
    (inside,) = re.findall(r'srcdoc="([^"]*)"', shown)
    assert "&lt;!doctype html&gt;" in inside
    assert 'title="&quot;a&quot; &amp; b"' in shown


def test_a_notebook_that_is_not_trusted_shows_the_weights_as_text() -> None:
    shown = page(np.eye(2), np.eye(2), np.eye(2), title="a < b", scale=0.0)._repr_html_()
    left = re.sub(r"<(iframe|script|style)\b.*?</\1>", "", shown, flags=re.DOTALL)  # what a sanitizer leaves
    (text,) = re.findall(r"<pre class='regard-text'>(.*)</pre>", left, flags=re.DOTALL)
    assert "a &lt; b" in text
    assert re.search(r"query 1 +0\.50* +0\.50*", text)
    assert "<style>.regard-text { display: none }</style>" in shown


SHOWN = {
    "attention": lambda: regard.attend(np.eye(2), np.eye(2), np.eye(2), scale=0.0),
    "explanation": lambda: regard.explain(queries=np.eye(2), keys=np.eye(2), values=np.eye(2), scale=0.0),
    "page": lambda: page(np.eye(2), np.eye(2), np.eye(2), title="a\n```\n# b", scale=0.0),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_without_pages_has_the_weights_as_a_block_of_code(name: str) -> None:
    lines = SHOWN[name]()._repr_markdown_().splitlines()
    assert all(line.startswith("    ") or not line for line in lines)
    assert any(re.fullmatch(r" +query 2 +0\.50* +0\.50*", line) for line in lines)


def test_a_recording_has_the_text_of_its_page() -> None:
    with regard.record() as recorded:
        regard.attention(np.eye(2), np.eye(2), np.eye(2))
    assert recorded._repr_markdown_() == page(recorded)._repr_markdown_()
    assert regard.attend(np.zeros((0, 2)), np.eye(2), np.eye(2))._repr_markdown_() is None


def strings(part: Any) -> list[str]:
    """All texts inside of nested lists and mappings."""
    if isinstance(part, dict):
        return [text for inner in part.values() for text in strings(inner)]
    return [part] if isinstance(part, str) else []


def test_every_term_of_the_texts_is_explained_and_every_normalization_has_words() -> None:
    terms = {term.lower() for text in strings(TEXTS) for term in re.findall(r"\[([^\]]+)\](?!\()", text)}
    assert {term if term in TEXTS["terms"] else term.removesuffix("s") for term in terms} <= TEXTS[
        "terms"
    ].keys()
    assert TEXTS["normalize"].keys() == weights.NAMED.keys()
    assert [step["number"] for step in TEXTS["steps"].values() if "number" in step] == [1, 2, 3]


def test_a_lone_surrogate_costs_no_page(tmp_path: Path) -> None:
    HtmlPage([Section("mechanism", "\ud800", {})], title="\ud800").save(tmp_path / "page.html")
    assert data_of((tmp_path / "page.html").read_text(encoding="utf-8"))[0]["title"] == "?"
