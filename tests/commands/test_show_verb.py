"""`regard show`: the content of its page, and invalid input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.cli import main
from regard.show import HtmlPage

DRAWN = 'a word is a vector here, as in "1 0; 0 1"; regard explain "the cat sat" draws one for each word'
ALONE = "and --weights exclude each other; hint: give one"


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def sections(path: str = "page.html") -> list[Any]:
    """The sections of a written page."""
    document = Path(path).read_text(encoding="utf-8")
    (text,) = re.findall(r'id="data">(.*?)</script>', document, flags=re.DOTALL)
    return list(json.loads(text))


def shows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[Any]:
    assert main(["show", *arguments, "--out", "page.html"]) == 0
    out, err = capsys.readouterr()
    assert (out.count("\n"), err) == (1, "")
    assert re.fullmatch(r"page\.html \(\d+ KB\): open it in a browser\n", out)
    return sections()


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["show", *arguments, "--out", "page.html"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err.removeprefix("regard show: error: ").removesuffix("\n")


def test_alone_it_tells_a_story_with_the_words_of_the_tutorial_and_a_decoder(
    capsys: pytest.CaptureFixture[str],
) -> None:
    *story, sheet, quiz = shows(capsys)
    assert [sheet["view"], quiz["view"]] == ["sheet", "quiz"]
    chapters = {chapter["data"]["name"]: chapter["parts"] for chapter in story}
    views = [[part["view"] for part in chapters[name]] for name in ("why", "queries", "heads")]
    assert views == [["why"], ["learning", "geometry"], ["multihead"]]
    (examples,), (_, decoder), (trained, translator) = (
        chapters[name] for name in ("shares", "block", "real")
    )
    *meant, words = examples["data"]["examples"]
    assert len(meant) == 3
    # What the notebook prints for seed 42.
    assert words["words"] == {
        "origin": "drawn with seed 42",
        "embeddings": [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]],
        "query_weight": [[2, 0, 2], [2, 0, 0], [2, 1, 2]],
        "key_weight": [[2, 2, 2], [0, 2, 1], [0, 1, 1]],
        "value_weight": [[1, 1, 0], [0, 1, 1], [0, 0, 0]],
    }
    assert words["values"] == [[1, 1, 0], [0, 1, 1], [1, 2, 1], [0, 0, 0]]
    assert words["query_labels"] == ["word 1", "word 2", "word 3", "word 4"]
    assert trained["view"] == "translation"
    assert translator["data"]["query_labels"] == ["Ouvrir", "le", "fichier", "s\u00e9lectionn\u00e9"]
    assert decoder["data"]["key_labels"] == ["the", "black", "cat"]


def test_it_opens_with_words_of_one_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    (own,) = shows(capsys, "--words", "1 0; 0 1", "--seed", "7", "--labels", "<b>le</b> chat")
    assert own["data"]["words"]["embeddings"] == [[1, 0], [0, 1]]
    assert own["data"]["key_labels"] == ["<b>le</b>", "chat"]


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "?", "u1", ">i4"])
def test_arrays_of_every_real_type_are_shown(capsys: pytest.CaptureFixture[str], dtype: str) -> None:
    np.savez("my.npz", q=np.eye(3).astype(dtype), k=np.eye(3).astype(dtype), v=np.ones((3, 1)))
    (own,) = shows(capsys, "my.npz", "--query-labels", "a b c", "--title", "Mine")
    assert own["data"]["queries"] == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert own["data"]["query_labels"] == ["a", "b", "c"]
    assert own["data"]["key_labels"] == ["key 1", "key 2", "key 3"]
    assert "<title>Mine</title>" in Path("page.html").read_text(encoding="utf-8")


def test_a_page_that_exists_is_replaced_with_force_only(capsys: pytest.CaptureFixture[str]) -> None:
    Path("page.html").write_text("mine")
    assert fails(capsys) == "page.html: the file exists already, --force replaces it"
    assert Path("page.html").read_text() == "mine"
    shows(capsys, "--force")


@pytest.mark.filterwarnings("always")
def test_a_large_page_gives_a_warning_and_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HtmlPage, "html", "x" * 20_000_001)
    assert main(["show", "--out", "page.html"]) == 0
    assert capsys.readouterr().err == (
        "regard show: warning: page.html takes 20 MB, which browsers open slowly: "
        "fewer heads or tokens make it smaller\n"
    )
    assert Path("page.html").stat().st_size == 20_000_001


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["my.npz", "--labels", "a"], "labels must name each query: 1 label for 3"),
        (["my.npz", "--key-labels", "a b c"], "labels must name each key: 3 labels for 4"),
        (["my.npz", "--seed", "1"], "FILES and --seed exclude each other; hint: give one"),
        (["--key-labels", "a b c d"], "words have the same names as queries and keys: give --labels"),
        (["my.npz", "--slides"], "FILES and --slides exclude each other; hint: give one"),
        (["--causal", "--section", "heads"], "--causal and --section exclude each other; hint: give one"),
        (["no.npz"], "no.npz: No such file or directory"),
        (["--words", "the cat"], f"there are no numbers in words; hint: {DRAWN}"),
        (["--text", " "], "argument --text: must not be empty"),
        (
            ["my.npz", "--weights", "w.npy"],
            f"FILES {ALONE}",
        ),
        (
            ["--weights", "w.npy", "--causal"],
            f"--causal {ALONE}",
        ),
        (["the cat", "--words", "1 0"], "a sentence and --words exclude each other; hint: give one"),
        (["."], ". is a folder: with --text it may be a model of regard train"),
        (
            ["my.safetensors"],
            "my.safetensors is a safetensors file: with --text it may be a model of regard train",
        ),
        (["empty.npz"], "a page needs at least one query and one key"),
        (["--title"], "argument --title: expected one argument"),
        (["my", "--text", ""], "argument --text: must not be empty"),
        (["my.npz", "--serve"], "unrecognized arguments: --serve"),
    ],
)
def test_invalid_input_gives_one_line_and_no_page(
    capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    np.savez("my.npz", q=np.eye(3), k=np.ones((4, 3)), v=np.ones((4, 1)))
    np.savez("empty.npz", q=np.eye(3), k=np.ones((0, 3)), v=np.ones((0, 1)))
    assert fails(capsys, *arguments) == error
    assert not Path("page.html").exists()


def test_without_a_name_for_the_page_the_missing_option_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["show"]) == 2
    assert capsys.readouterr().err == "regard show: error: give --out FILE.html, the page to write\n"


def test_a_missing_folder_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "--out", "none/page.html"]) == 2
    assert capsys.readouterr().err == "regard show: error: none/page.html: No such file or directory\n"


@pytest.mark.parametrize(("words", "says"), [(200, False), (201, True)])
def test_more_words_than_can_be_changed_are_said(
    words: int, says: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = " ".join(f"word{k}" for k in range(words))
    assert main(["show", sentence, "--out", "page.html"]) == 0
    rule = f"These are {words} queries and {words} keys of "
    said = capsys.readouterr().err
    assert (rule in said) == says
    assert ("up to 200 words, and 4,096 numbers a matrix: here are the weights alone." in said) == says
    (section,) = sections()
    assert section["view"] == ("heads" if says else "mechanism")
    assert [text.startswith(rule) for text in section["warnings"]] == [True] * says


def test_labels_of_an_svg_are_text() -> None:
    assert main(["show", "the cat sat", "--out", "w.svg"]) == 0
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", Path("w.svg").read_text(encoding="utf-8"))
    assert {"the", "cat", "sat"} <= set(texts)
