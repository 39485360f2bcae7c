"""The page of an exported model: onnxruntime-web in Chromium computes what NumPy does, and draws it."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import KINDS, LINES, trained
from onnxruntime_web import BROWSER, packed

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.decoding.restrictions import blocked, repetitions
from regard.seq2seq.sources.text.rules import rules
from regard.seq2seq.sources.text.tokenizers import Subwords, learn
from regard.seq2seq.sources.text.vocabulary import SPECIAL, Vocabulary

pytest.importorskip("onnx", reason="exports are tested with onnx")
pytest.importorskip("onnxruntime", reason="exports are tested with onnxruntime")
pytestmark = [pytest.mark.threads, pytest.mark.slow]

WORDS = ["ab", "dabc", "a", "xab", "cabbadabba", "bé"]


@pytest.fixture(scope="module")
def models() -> dict[str, Seq2Seq]:
    return {kind: trained(**options) for kind, options in KINDS.items()}


@pytest.fixture(scope="module")
def app(models: dict[str, Seq2Seq], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with its page, and models of other kinds in folders inside of it."""
    folder = tmp_path_factory.mktemp("pages") / "app"
    lines = folder.with_name("lines.txt")
    lines.write_text("".join(f"{word}\n" for word in WORDS), "utf-8")
    for kind, model in models.items():
        model.save(folder.with_name("model.safetensors"))
        own = folder if kind == "recurrent" else folder / kind
        page = ["--page"] if kind == "recurrent" else []
        arguments = ["export", str(folder.parent), "--onnx", str(own), "--test", str(lines), *page]
        assert main(arguments) == 0
        if kind == "recurrent":
            assert main([*arguments[:3], str(folder / "int8"), "--int8"]) == 0
    for name in BROWSER:
        shutil.copy(packed(BROWSER) / name, folder / name)
    return folder


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address(app: Path) -> Iterator[str]:
    """Where the folder is served, as ``python -m http.server`` does."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(app))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def tab(browser: Any, address: str) -> Iterator[Any]:
    """The page, loaded, in a tab of its own: it prints no error, and asks for nothing outside of its folder."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    page, faults, asked = context.new_page(), list[str](), list[str]()
    page.set_default_timeout(1_800_000)
    page.on("console", lambda message: message.type in ("error", "warning") and faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("#text:enabled")
    page.wait_for_selector("#alignment .hypothesis")
    yield page
    context.close()
    assert faults == []
    outside = [url for url in asked if not url.startswith((address, "data:"))]
    assert outside == []
    assert {f"{address}{name}" for name in ("encoder.onnx", "step.onnx", "model.json", *BROWSER)} <= set(
        asked
    )


def typed(tab: Any, text: str) -> None:
    tab.fill("#text", text)
    tab.click("#go")
    tab.wait_for_selector("#go:enabled")


def test_what_is_typed_is_decoded_and_drawn(tab: Any, models: dict[str, Seq2Seq]) -> None:
    for word in WORDS:
        typed(tab, word)
        several = models["recurrent"].candidates([word], n_best=5)[0]
        assert tab.text_content("#output") == several[0].text
        shown = tab.eval_on_selector_all(
            "#alignment .hypothesis bdi", "all => all.map((one) => one.textContent)"
        )
        assert shown == [one.text for one in several]
        scores = tab.eval_on_selector_all(
            "#alignment .hypothesis .score", "all => all.map((one) => one.textContent)"
        )
        np.testing.assert_allclose(
            [float(s.replace("\u2212", "-")) for s in scores], [one.score for one in several], atol=6e-4
        )
        drawn = tab.text_content("#alignment")
        assert all(name in drawn for name in (*several[0].source, *several[0].tokens))


def test_the_view_draws_the_weights_of_the_chosen_output(tab: Any, models: dict[str, Seq2Seq]) -> None:
    typed(tab, "dabc")
    several = models["recurrent"].candidates(["dabc"], n_best=5)[0]
    tab.locator("#alignment .hypothesis").nth(1).click()
    rows, columns = (tab.locator(f"#alignment .token[data-side={side}]") for side in ("row", "column"))
    chosen = several[1]
    assert chosen.alignment is not None
    assert rows.locator(".label").all_text_contents() == list(chosen.tokens)
    assert columns.locator(".label").all_text_contents() == list(chosen.source)
    for k in range(len(chosen.tokens)):
        rows.nth(k).hover()
        drawn = [float(value) for value in columns.locator(".value").all_text_contents()]
        np.testing.assert_allclose(drawn, chosen.alignment[k], atol=6e-4)  # three digits


def test_an_example_is_decoded_at_a_click(tab: Any, models: dict[str, Seq2Seq]) -> None:
    (button,) = tab.query_selector_all("#examples button:has-text('cabbadabba')")
    button.click()
    tab.wait_for_selector("#go:enabled")
    assert tab.input_value("#text") == "cabbadabba"
    assert tab.text_content("#output") == models["recurrent"].translate(["cabbadabba"])[0].text


def test_a_blank_text_has_no_output(tab: Any) -> None:
    typed(tab, "  ")
    assert tab.text_content("#output") == ""
    assert "no tokens" in tab.text_content("#alignment")


DECODE = """async ([folder, words, beam]) => {
    const { Decoder } = await import(new URL("decode.js", document.baseURI));
    const decoder = await Decoder.load(new URL(folder, document.baseURI));
    const found = [];
    for (const word of words) {
        const { outputs } = await decoder.decode(word, beam);
        found.push(outputs.map(({ text, score, weights }) => [text, score, weights ? Array.from(weights) : null]));
    }
    return found;
}"""


@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_the_browser_finds_what_the_search_finds(
    tab: Any, models: dict[str, Seq2Seq], kind: str, beam: int
) -> None:
    folder = "./" if kind == "recurrent" else f"{kind}/"
    found = tab.evaluate(DECODE, [folder, WORDS, beam])
    for outputs, several in zip(found, models[kind].candidates(WORDS, beam=beam), strict=True):
        assert [text for text, _, _ in outputs] == [one.text for one in several]
        for (_, score, weights), own in zip(outputs, several, strict=True):
            assert score == pytest.approx(own.score, abs=1e-4)
            if own.alignment is None:
                assert weights is None
            else:
                np.testing.assert_allclose(np.reshape(weights, own.alignment.shape), own.alignment, atol=1e-4)


def test_a_quantized_model_runs_too(tab: Any, models: dict[str, Seq2Seq]) -> None:
    found = tab.evaluate(DECODE, ["int8/", WORDS, 1])
    own = models["recurrent"].translate(WORDS, beam=1)
    same = sum(outputs[0][0] == one.text for outputs, one in zip(found, own, strict=True))
    assert same >= len(WORDS) - 2


BLOCKED = """async (several) => {
    const { blocked, repetitions } = await import(new URL("text.js", document.baseURI));
    return several.map(([ids, most, copies]) => [blocked(ids, most, copies), repetitions(ids)]);
}"""


def test_loops_are_prevented_as_by_the_search(tab: Any) -> None:
    rng = np.random.default_rng(0)
    several: list[tuple[list[int], int | None, int]] = [
        (rng.integers(3, 6, size).tolist(), most, copies)
        for size in range(15)
        for most in (None, 1, 2, 3)
        for copies in (0, 2, 15)
    ]
    expected = [[[0, 1, *blocked(*one)], repetitions(np.array(one[0], int))] for one in several]
    assert tab.evaluate(BLOCKED, several) == expected


CUT = """async ([rules, lines]) => {
    const { Text } = await import(new URL("text.js", document.baseURI));
    const text = new Text(rules);
    return lines.map((line) => {
        const tokens = text.tokenize(line);
        return [tokens, text.encode(tokens), text.detokenize(tokens), tokens.map((token) => text.tokenText(token))];
    });
}"""


def subwords(method: Any) -> Subwords:
    tokens = ["▁", "a", "b", "c", "ab", "bc", "abc", "▁a", "▁ab", "ca", "cab", "▁b", "aa"]
    scores = [0.0] * 4 + np.random.default_rng(3).normal(-3, 2, len(tokens)).tolist()
    return Subwords(Vocabulary([*SPECIAL, *tokens]), scores, method=method, lower=True)


@pytest.mark.parametrize("kind", ["characters", "tokens", "words", "unigram", "bpe"])
@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFD", "none"])
def test_text_is_tokenized_as_by_the_tokenizers(tab: Any, kind: str, form: Any) -> None:
    if kind in ("unigram", "bpe"):
        tokenizer: Any = subwords(kind)
    else:
        tokenizer = learn(kind, LINES, lower=form == "NFKC", normalization=form)
    lines = [
        *LINES,
        "don't don\u2019t l\u2019a",
        "İSA J\u030cA ΟΔΟΣ",
        "cabab aab",
        "xab abcx",
        "",
        "aaaa aaa",
    ]
    own = [tokenizer.tokenize(line) for line in lines]
    expected = [
        [t, tokenizer.encode(t), tokenizer.detokenize(t), [tokenizer.token_text(one) for one in t]]
        for t in own
    ]
    assert tab.evaluate(CUT, [rules(tokenizer), lines]) == expected


def test_the_page_is_accessible(tab: Any, accessible: Callable[[Any], None]) -> None:
    typed(tab, "dabc")
    accessible(tab)


@pytest.mark.parametrize("other", [False, True])
def test_a_model_that_is_missing_or_of_another_model_is_reported(
    other: bool, browser: Any, address: str, app: Path
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(1_800_000)
    answer: dict[str, Any] = {"status": 404}
    if other:  # of other parameters
        data = (app / "step.onnx").read_bytes()
        name = json.loads((app / "model.json").read_text("utf-8"))["parameters"].encode()
        answer = {"body": data.replace(name, name[::-1])}
    page.route("**/step.onnx", lambda route: route.fulfill(**answer))
    page.goto(address)
    page.wait_for_selector(f"#status:has-text('{'not of one model' if other else 'step.onnx: 404'}')")
    assert page.is_disabled("#go")
    context.close()
