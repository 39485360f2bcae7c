"""What `regard export` writes for a model of pronunciation answers as `regard pronounce` does, in both languages."""

from __future__ import annotations

import functools
import http.server
import json
import math
import random
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from errors import refused
from exported import LINES
from onnxruntime_web import BROWSER, NODE, packed, place_for_node

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.corpus.spelling import families
from regard.seq2seq.export.folder import copied
from regard.seq2seq.storage.model_file import model_file
from regard_lexicon import Lexicon, Pronouncer, Variant, read, write
from regard_lexicon.commands.app import PronouncerApp, compact
from regard_lexicon.pronouncer import words_of

pytest.importorskip("onnx", reason="exports are tested with onnx")
pytest.importorskip("onnxruntime", reason="exports are tested with onnxruntime")

CMUDICT = Path(__file__).parents[3] / "data" / "cmudict" / "words.dict"
KIT = Path(__file__).parents[1]
APP = KIT / "src" / "regard_lexicon" / "app"
SMALL = ["--network", "embedding=24", "encoder=24", "decoder=32", "attention=24", "--steps", "250"]
ODD = [
    *(
        "don’t DON'T don‘t don`t don´t x\u2011ray x\u2010ray so\u00adft a\u2060b بـت rock ’n’ roll",
        "'tis o’clock 'quoted' dogs' x-ray -dash- well--known",
    ),
    *("ÉTÉ été e\u0301te\u0301 ﬁne ǅ ŒUVRE ß STRASSE", "ΟΔΟΣ ὈΔΥΣΣΕΎΣ σίγμας ΣΑΣ", "İSTANBUL ısı IŞIK iş"),
    *(
        "日本 東京へ 한국어 ไทย नमस्ते שלום سلام привет",
        "a1 2nd 3.14 U.S.A. Ph.D. R&B C++ 100%",
        "col·legi l·l ·a· ג׳ירפה צה״ל hy‧phen e.g.",
        "a\u200db naïve\u00ad ab\u200bc",
    ),
    *(
        "qzxw zzzz aaaa",
        "👩\u200d🚀 🇫🇷 ok",
        "\u0301x a\u0301\u0323b",
        " ",
        "-",
        "’",
        "\u2423 a\u2423b",
        "\ufeffworld",
    ),
    "a" * 60 + " " + "b" * 1_001,
]
Row = tuple[str, str, str, float | None, list[str], list[str]]


def texts(count: int) -> list[str]:
    """Lines of words of the dictionary, spelled in many ways, new ones, names, and text of other scripts."""
    drawn, words = random.Random(5), [*read(CMUDICT)]
    spell = [str, str.title, str.upper, lambda word: word.replace("'", "’"), lambda word: word[::-1]]
    lines = []
    for _ in range(count - len(ODD) - len(LINES)):
        some, joins = drawn.sample(words[1::2], drawn.choice([1, 2, 5])), [" ", ", ", ". "]
        if drawn.random() < 0.04:  # most words are listed: a model takes its time
            some = [drawn.choice(spell)(word) for word in drawn.sample(words, drawn.choice([1, 1, 2]))]
            joins += ["-", "'", "’"]
        lines.append(drawn.choice(joins).join(some))
    return [*lines, *ODD, *LINES]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned little, of half of the dictionary; the other half is `listed`."""
    folder = tmp_path_factory.mktemp("pronouncer")
    words = [*read(CMUDICT).items()]
    for name, some in {"learned": words[::16], "listed": words[1::2]}.items():
        write(
            Lexicon((word, variant) for word, variants in some for variant in variants),
            folder / f"{name}.dict",
            "tsv",
        )
    command = ["train", folder / "learned.dict", "--task", "pronunciation", "--licence", "BSD", *SMALL]
    assert main([*map(str, [*command, "--out", folder / "run"])]) == 0
    return folder


@pytest.fixture(scope="module")
def app(run: Path) -> Path:
    command = [
        "export",
        run / "run",
        "--onnx",
        run / "app",
        "--page",
        "--lexicon",
        run / "listed.dict",
        "--test-words",
        30,
    ]
    assert main([*map(str, command)]) == 0
    return run / "app"


@pytest.fixture(scope="module")
def expected(run: Path) -> Pronouncer:
    return Pronouncer.load(run / "run", read(run / "listed.dict"))


def rows(pronouncer: Pronouncer, words: Sequence[str]) -> Iterator[Row]:
    """What `regard pronounce` answers."""
    for found in pronouncer.pronounce(words):
        answer = (
            max(found, key=lambda one: one.probability or 1.0)
            if found[0].source == "dictionary"
            else found[0]
        )
        source = "guess" if answer.source == "model" and answer.unknown else answer.source
        variants = [" ".join(one.phones) for one in found] if source == "dictionary" else []
        unknown = [] if source == "dictionary" else [*answer.unknown]
        yield answer.word, " ".join(answer.phones), source, answer.probability, unknown, variants


def same(answers: Sequence[Any], right: Sequence[Row]) -> None:
    """Compare answers; of equal probability up to rounding, either may come first."""
    assert len(answers) == len(right)
    for (*answer, number, unknown, variants), (*row, probability, letters, listed) in zip(
        answers, right, strict=True
    ):
        assert (number is None) == (probability is None), row
        assert number is None or math.isclose(number, probability, abs_tol=2e-3), row
        assert (answer, [*unknown], [*variants]) == (row, [*letters], [*listed])


@pytest.mark.slow
def test_python_answers_5000_lines_as_regard_does(app: Path, expected: Pronouncer) -> None:
    lines = texts(5_000)
    with copied("pronounce", app) as module:
        pronounce = module.TextPronouncer(app)
        words = [word for line in lines for word in words_of(line)]
        answers = {answer.word: answer for line in lines for answer in pronounce(line)}
        assert [found for line in lines for found in pronounce.cut.findall(line)] == words
        phrases = {line.strip(): pronounce.word(line.strip()) for line in ODD if line.strip()}
    every = [*answers, *phrases]
    assert {answer.source for answer in answers.values()} == {"dictionary", "model", "guess", "skipped"}
    same([*answers.values(), *phrases.values()], [*rows(expected, every)])


@pytest.mark.slow
@pytest.mark.threads
def test_javascript_answers_5000_lines_as_python_does(app: Path, tmp_path: Path) -> None:
    lines = texts(5_000)
    answers = by_node(app, tmp_path, PROGRAM, lines)
    with copied("pronounce", app) as module:
        pronounce = module.TextPronouncer(app)
        known: dict[str, Any] = {}
        right = [known.setdefault(word, pronounce.word(word)) for line in lines for word in words_of(line)]
    same([row for found in answers for row in found], right)


def test_what_users_copy_is_short() -> None:
    """The page of ports, too: the rules of text in twelve lines, the loop in thirty."""
    for name in ("pronounce.py", "pronounce.js"):
        assert len((APP / name).read_text("utf-8").splitlines()) <= 150
    rules, loop = code_of_ports()
    assert len(rules.splitlines()) <= 12
    assert len(loop.splitlines()) <= 32


def code_of_ports() -> list[str]:
    return re.findall("```js\n(.*?)```", (KIT / "docs" / "apps.md").read_text("utf-8"), re.DOTALL)


@pytest.mark.slow
@pytest.mark.threads
def test_a_port_of_the_guide_answers_the_test_words(app: Path, tmp_path: Path) -> None:
    _, *lines = (app / "test-words.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    (tmp_path / "port.js").write_text("".join(code_of_ports()), "utf-8")
    answers = by_node(app, tmp_path, PORT, [row[0] for row in rows])
    for (_, ids, greedy, log, *_), (numbers, phones, total) in zip(rows, answers, strict=True):
        assert (" ".join(map(str, numbers)), phones) == (ids, greedy)
        assert math.isclose(total, float(log), abs_tol=1e-3)


def letters(words: Sequence[str], **options: Any) -> Pronouncer:
    """A pronouncer whose model has seen these words, but learned nothing."""
    model = Seq2Seq(source="characters", target="tokens", epochs=1, **options)
    return Pronouncer(model.fit(words, ["X"] * len(words)))


@pytest.mark.slow
def test_a_port_of_the_guide_reads_words_as_regard_does(tmp_path: Path) -> None:
    """Letters in one case or both, with one apostrophe, several or none, in either form of Unicode."""
    every = dict.fromkeys(word for line in texts(len(ODD) + len(LINES) + 20) for word in words_of(line))
    every["l' été"] = None  # a phrase
    learned = [
        ["don't", "été", "σίγμας", "ab"],
        ["DON’T", "ΟΔΟΣ", "İŞ"],
        ["d’Or", "l' eau", "e\u0301"],
        ["м'ята", "iş-a", "بت"],
    ]
    options: list[dict[str, Any]] = [{}] * 4 + [
        {"normalization": "NFD"},
        {"lower": True},
        {"normalization": "none"},
    ]
    learned += [["한국", "don`t", "e"], ["ΟΔΟΣ", "A"], ["e\u0301te", "ö"]]
    given, right = list[Any](), list[Any]()
    for words, chosen in zip(learned, options, strict=True):
        pronouncer = letters(words, **chosen)
        source = pronouncer.model.model.source
        rules = {"source": source.rules(), "pronouncer": pronouncer.rules() | {"word": ""}}
        for word in every:
            reading = pronouncer._reading(word)
            if pronouncer._may_guess(word, reading):
                given.append([word, rules])
                tokens = source.tokenizer.tokenize(reading.given)
                right.append([word, [*source.tokenizer.encode(tokens), 2]])
    folder = tmp_path / "port"
    folder.mkdir()
    (folder / "port.js").write_text(code_of_ports()[0], "utf-8")
    answers = by_node(folder, tmp_path / "run", READ, given)
    assert [[word, ids] for (word, _), ids in zip(given, answers, strict=True)] == right


READ = """
import { ids } from "./port.js";
const answer = (line) => ids(...JSON.parse(line));
"""
PORT = """
import { readFile } from "node:fs/promises";
import * as ort from "./ort.node.min.mjs";
import { greedy, ids } from "./port.js";
const rules = JSON.parse(await readFile("model.json", "utf-8"));
const [encoder, step] = await Promise.all(
  ["encoder.onnx", "step.onnx"].map(async (name) => ort.InferenceSession.create(await readFile(name))));
const tensor = (numbers, dims) => new ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), dims);
const answer = async (line) => {
  const word = JSON.parse(line);
  const { phones, logProbability } = await greedy(word, { rules, encoder, step, tensor });
  return [ids(word, rules), phones.join(" "), logProbability];
};
"""
PROGRAM = """
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
globalThis.fetch = async (url) => new Response(await readFile(new URL(url)));
const { TextPronouncer } = await import("./pronounce.js");
const pronouncer = await TextPronouncer.load(pathToFileURL(`${process.cwd()}/`));
const cells = ({ word, phones, source, probability, unknown, variants }) =>
  [word, phones, source, probability, unknown, variants];
const answer = async (line) => (await pronouncer.pronounce(JSON.parse(line))).map(cells);
"""
EACH_LINE = """
import { createInterface } from "node:readline";
for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await answer(line)));
"""


def by_node(app: Path, folder: Path, program: str, lines: Sequence[Any]) -> list[Any]:
    """What the files answer in Node, a JSON value a line."""
    if shutil.which("node") is None:
        pytest.skip("no node on the path, which runs JavaScript")
    shutil.copytree(app, folder, dirs_exist_ok=True)
    place_for_node(folder)
    shutil.copy(folder / NODE[0], folder / BROWSER[0])  # which decode.js imports
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "run.mjs").write_text(program + EACH_LINE, "utf-8")
    given = "".join(f"{json.dumps(line)}\n" for line in lines)
    command = ["node", "run.mjs"]
    done = subprocess.run(
        command, cwd=folder, input=given, capture_output=True, encoding="utf-8", timeout=1800
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def page(app: Path, tmp_path: Path) -> Iterator[Any]:
    """The page on a phone that is dark, in Chromium; it prints no error and asks for nothing outside of its folder."""
    driver = pytest.importorskip("playwright.sync_api", reason="pages are tested with playwright")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium on the path: apt-get install chromium")
    folder, faults = tmp_path / "page", list[str]()
    shutil.copytree(app, folder)
    for name in BROWSER:
        shutil.copy(packed(BROWSER) / name, folder / name)
    files = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), files) as server, driver.sync_playwright() as play:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        tab.set_default_timeout(1_800_000)
        tab.on("console", lambda line: line.type in ("error", "warning") and faults.append(line.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.goto(f"http://127.0.0.1:{server.server_port}/")
        tab.wait_for_selector("#go:enabled")
        tab.wait_for_selector("#output p")
        yield tab
        browser.close()
        server.shutdown()
        thread.join()
    assert faults == []


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.mark.slow
@pytest.mark.threads
def test_the_page_pronounces_words_with_their_probabilities(page: Any, app: Path, run: Path) -> None:
    card = json.loads((app / "model.json").read_text("utf-8"))["card"]
    assert page.title() == page.inner_text("h1") == "Pronunciation: run"
    assert page.inner_text("#go") == "Pronounce"
    told = page.inner_text("main > p:first-child")
    wrong = card["exported"]["wrong"]["beam 5"]
    assert told.startswith(
        f"{100 * wrong:.1f} % of {card['exported']['count']} held-out words come out wrong."
    )
    assert told.endswith("Licence of the dictionary: BSD.")
    examples = [line.split("\t")[0] for line in (app / "examples.tsv").read_text("utf-8").splitlines()]
    assert page.locator("#examples button").all_inner_texts() == examples
    word = next(filter(str.isalpha, read(run / "listed.dict")))
    page.fill("#text", f"zab, {word} naïve 日本!")
    page.click("#go")
    page.wait_for_selector("#output p:nth-child(4)")
    rows = page.locator("#output p").all_inner_texts()
    answer = Pronouncer.load(run / "run")("zab")
    assert answer.probability is not None
    share = f"right with a probability of {100 * answer.probability:.1f} %"
    assert rows[0].split() == ["zab", *answer.phones, *share.split()]
    assert rows[1].endswith("in the dictionary")
    assert page.locator("#output mark").all_inner_texts() == [
        "guess: the model does not know ï",
        "skipped: the model does not know 日, 本",
    ]
    seen = page.inner_text("main")
    assert "</s>" not in seen
    assert "log-probability" not in seen
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_the_program_writes_a_line_for_each_word(app: Path, run: Path) -> None:
    word = next(filter(str.isalpha, read(run / "listed.dict")))
    command = [sys.executable, "-W", "error", str(app / "pronounce.py"), f"{word} zyxwv 日本"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env={"PYTHONIOENCODING": "utf-8"})
    assert done.stderr == ""
    cells = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[0] for row in cells] == [word, "zyxwv", "日本"]
    assert [row[2] for row in cells] == ["dictionary", "model", "skipped"]
    assert 0 < float(cells[1][3]) < 1


@pytest.mark.slow
def test_unknown_letters_are_skipped_on_request(app: Path) -> None:
    with copied("pronounce", app) as module:
        guessed, skipped = (module.TextPronouncer(app, unknown)("naïve")[0] for unknown in ("guess", "skip"))
    assert (guessed.source, guessed.unknown, guessed.probability) == ("guess", ("ï",), None)
    assert (skipped.source, skipped.phones, skipped.unknown) == ("skipped", "", ("ï",))


def test_a_dictionary_is_sorted_with_a_character_for_each_phone() -> None:
    lexicon = Lexicon(
        [
            ("b", ["S", "AH"]),
            ("Z", ["S"]),
            ("é", ["X"]),
            ("b", Variant(("X",), 1.0)),
            ("b", Variant(("AH",), 0.25)),
        ]
    )
    assert compact(lexicon).decode() == 'AH S X\nZ\t"\nb\t"!\t# 1.0\t! 0.25\né\t#\n'


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1_000])
def test_each_word_of_a_dictionary_is_found_and_no_other(count: int, tmp_path: Path) -> None:
    drawn = random.Random(count)
    letters = ["a", "b", "é", "\u4e00", "\U0001f680", "'", "\uffee"]
    words = {"".join(drawn.choices(letters, k=drawn.randint(1, 5))) for _ in range(count)}
    phones = [f"p{i}" for i in range(300)]  # codes of one and of two bytes
    entries = {
        word: Variant(tuple(drawn.choices(phones, k=3)), drawn.choice([None, 0.123])) for word in words
    }
    (tmp_path / "lexicon.txt").write_bytes(compact(Lexicon(entries.items())))
    with copied("decode"), copied("pronounce", APP) as module:
        found = module.WordList(tmp_path / "lexicon.txt")
    for word, variant in entries.items():
        assert found.variants(word) == [(" ".join(variant.phones), variant.probability)]
    others = {word + letter for word in [*words, ""] for letter in ["a", "\x00", "\uffff"]} - words
    assert [word for word in others if found.variants(word)] == []


@pytest.mark.slow
def test_fewer_words_for_tests_than_asked_for_are_reported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export", str(run / "run"), "--onnx", str(tmp_path / "app"), "--test-words", "5000"]
    assert main(command) == 0
    count = len((tmp_path / "app" / "test-words.tsv").read_text("utf-8").splitlines()) - 1
    told = f"test-words.tsv has {count} words: the model has no more that are held out"
    assert told in capsys.readouterr().err.splitlines()


@pytest.mark.slow
def test_words_for_tests_have_the_answers_of_the_network(app: Path, run: Path) -> None:
    head, *lines = (app / "test-words.tsv").read_text("utf-8").splitlines()
    names, model = head.split("\t"), Seq2Seq.load(run / "run")
    assert len(lines) == 30
    assert sum(line.split("\t")[0].isupper() for line in lines) == 3
    for line in lines:
        row = dict(zip(names, line.split("\t"), strict=True))
        source = model.model.source.tokenizer
        assert [*map(int, row["ids"].split())][:-1] == [*source.encode(source.tokenize(row["word"].lower()))]
        for beam, name, log in ((1, "greedy", 3), (5, "answer", 5)):
            best = model.candidates([row["word"].lower()], beam=beam, repetitions=3, unknown_words="next")[0][
                0
            ]
            assert row[name] == best.text
            assert math.isclose(float(line.split("\t")[log]), best.log_probability, abs_tol=1e-3)
        probability = Pronouncer(model)(row["word"]).probability
        assert probability is not None
        assert math.isclose(float(row["probability"]), probability, abs_tol=2e-3)


def test_examples_are_short_words_with_inflections() -> None:
    """By hand: `walk` has two inflections; `walked` is of its family, `sun` too short, `o'er` has an apostrophe."""
    app = PronouncerApp.__new__(PronouncerApp)
    app.families = families(["walk", "walked", "walking", "table", "tables", "sun", "o'er", "abstractions"])
    assert app.examples(["table", "walked", "walk", "sun", "o'er", "abstractions"]) == ["walk", "table"]
    assert app.examples(["walked", "sun"]) == ["walked"]
    assert app.examples(["sun"]) == ["sun"]  # better than none


@pytest.mark.slow
def test_options_of_pronouncers_are_for_models_of_pronunciation(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Seq2Seq(epochs=1).fit(["one", "two"], ["un", "deux"]).save(tmp_path / "m.safetensors")
    command = [
        "export",
        str(tmp_path / "m.safetensors"),
        "--onnx",
        str(tmp_path / "app"),
        "--test-words",
        "3",
    ]
    assert refused(command, capsys) == (
        f"--test-words is for models of the task pronunciation. {tmp_path / 'm.safetensors'} is of pairs."
    )
    (tmp_path / "other.dict").write_text("a x\nb y\n", "utf-8")
    model = str(model_file(run / "run"))
    command = ["export", model, "--onnx", str(tmp_path / "app"), "--lexicon", str(tmp_path / "other.dict")]
    assert main(command) == 2
    assert "the model never writes x y, and each pronunciation has such phones" in capsys.readouterr().err
    assert not (tmp_path / "app").exists()
