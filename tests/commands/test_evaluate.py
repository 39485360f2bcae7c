"""The verbs `evaluate` and `curve`: what they print, draw, write and refuse."""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from errors import refusals
from one_test import in_one_test

from regard import cli
from regard.commands import curve, drawing, loading
from regard.commands.tasks import pairs
from regard.seq2seq.sources import Example, Text
from regard.seq2seq.sources.text.tokenizers import Words
from regard.seq2seq.sources.text.vocabulary import SPECIAL, Vocabulary
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.training.log import Log
from regard.show import terminal


@pytest.fixture(autouse=True)
def _verbs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


class Halves(Words):
    """Longer words are two tokens; all are known."""

    def _tokenize(self, text: str) -> list[str]:
        return [
            part
            for word in text.split()
            for part in ([word] if len(word) < 3 else [word[:2], "\uffed" + word[2:]])
        ]

    def encode(self, tokens: Iterable[str], /) -> list[int]:
        return [4 for _ in tokens]


class Parrot:
    """A model with fixed translations: its file has source TAB translation, and whether it has attention."""

    card: dict[str, str] | None = None
    network = None

    def __init__(self, translations: dict[str, str], attention: bool) -> None:
        self.translations, self.attention = translations, attention
        side = Halves(Vocabulary(SPECIAL))
        source = Text("words", learned=side)
        self.model = SimpleNamespace(source=source, target=side, card=self.card)

    @classmethod
    def load(cls, path: Path) -> Parrot:
        first, *lines = model_file(path).read_text(encoding="utf-8").splitlines()
        return cls(dict(line.split("\t") for line in lines), first == "attention")

    def translate(self, sources: Sequence[Example], *, beam: int = 5) -> list[SimpleNamespace]:
        texts = [self.translations.get(str(source), "") for source in sources]
        return [SimpleNamespace(text=text + " !" * (beam == 9)) for text in texts]

    def align(
        self, sources: Sequence[Example], targets: Sequence[Example], *, posterior: bool = False
    ) -> list[SimpleNamespace]:
        """Attend to the same position, or in reverse order with `posterior`."""
        translations = []
        for source, target in zip(sources, targets, strict=True):
            from_, to = source.content, target.content
            weights = np.eye(len(to), len(from_) + 1)[:: -1 if posterior else 1]
            translations.append(SimpleNamespace(source=(*from_, "</s>"), tokens=tuple(to), alignment=weights))
        return translations


@pytest.fixture
def parrots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "Seq2Seq", Parrot)


def write(name: str, *lines: str) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return name


def run_evaluate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert cli.main(["evaluate", *arguments]) == 0
    captured = capsys.readouterr()
    assert "\r" not in captured.out + captured.err
    return captured.out, captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line of an error, after which nothing has been printed."""
    assert cli.main(["evaluate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()[-1].removeprefix("regard evaluate: error: ")


def rows(out: str, start: str) -> dict[str, list[str]]:
    """The rows of the table that has `start` in its head, by their first word."""
    lines = out.split("\n")
    start_index = next(i for i, line in enumerate(lines) if start in line) + 1
    table = lines[start_index : start_index + lines[start_index:].index("")]
    return {line.split()[0]: line.split()[1:] for line in table}


# ---------------------------------------------------------------------------------------------- lines of text


def test_lines_of_text_are_measured_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    write("mine.txt", "a b c d e", "the cat")
    write("theirs.txt", "a b c d f", "the cat")
    out, err = run_evaluate(capsys, "--hypotheses", "mine.txt", "--references", "theirs.txt")
    assert err == ""
    assert out.startswith("2 items of theirs.txt\n\n")
    # runs that match: 6 of 7, 4 of 5, 2 of 3, 1 of 2
    score = 100 * (6 / 7 * 4 / 5 * 2 / 3 * 1 / 2) ** 0.25
    assert rows(out, "chrF")["mine"][0] == f"{score:.1f}"
    assert rows(out, "chrF")["mine"][2:] == ["50.0", f"{100 / 7:.1f}"]
    assert re.search(r"^BLEU: nrefs:1\|.*\|version:", out, re.MULTILINE)
    assert "by words in the reference\n" in out


def test_several_references_and_sources_and_systems(capsys: pytest.CaptureFixture[str]) -> None:
    files = [write("one", "a", "b"), write("two", "c", "c")]
    right = [write("r1", "a", "x"), write("r2", "y", "c")]
    sources = write("s", "q q q", "q")
    out, _ = run_evaluate(capsys, "--hypotheses", *files, "--references", *right, "--sources", sources)
    table = rows(out, "errors %")
    assert table["one"][-2:] == ["50.0", "50.0"]
    assert table["two"][-2:] == ["50.0", "50.0"]
    assert re.search(r" by words in the source\nlength  items +one +two\n1-3 +2 ", out)


def test_an_option_that_is_given_twice_counts_twice(capsys: pytest.CaptureFixture[str]) -> None:
    hypotheses, first, second = write("found", "a", "b"), write("r1", "a", "x"), write("r2", "y", "b")
    once = run_evaluate(capsys, "--hypotheses", hypotheses, "--references", first, second)
    twice = run_evaluate(capsys, "--hypotheses", hypotheses, "--references", first, "--references", second)
    assert once == twice
    assert rows(once[0], "errors %")["found"][-2:] == ["100.0", "0.0"]


@pytest.mark.usefixtures("parrots")
def test_references_are_in_the_form_that_the_model_writes(capsys: pytest.CaptureFixture[str]) -> None:
    write("model", "none", "one\t\u00e9t\u00e9", "two\tn")
    write("test", "one\te\u0301te\u0301", "two\tn")
    out, _ = run_evaluate(capsys, "model", "test")
    assert rows(out, "errors %")["model"][-2:] == ["100.0", "0.0"]
    write("right", "e\u0301")  # lines of text are measured as they are
    out, _ = run_evaluate(capsys, "--hypotheses", write("found", "\u00e9"), "--references", "right")
    assert rows(out, "errors %")["found"][-2] == "0.0"


def test_phonemes_and_single_words_are_counted_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    words = write("words", *["cat"] * 20, *["doggy"] * 20)
    hypotheses = write("found", *["K AE T"] * 20, *["D AO G Z"] * 20)
    right = write("right", *["K AE T"] * 20, *["D AO G IY"] * 20)
    out, _ = run_evaluate(capsys, "--hypotheses", hypotheses, "--references", right, "--sources", words)
    assert rows(out, "errors %")["found"][-2:] == ["50.0", f"{100 * 20 / 140:.1f}"]
    table = out.split("by characters in the source\n")[1]
    assert rows(table, "length")["3"][-2:] == ["100.0", "0.0"]
    assert rows(table, "length")["5"][-2:] == ["0.0", "25.0"]


def test_where_references_have_no_blanks_errors_are_of_characters(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run_evaluate(capsys, "--hypotheses", write("h", "chat"), "--references", write("r", "chats"))
    assert rows(out, "errors %")["h"][-1] == "20.0"
    assert "errors: edits for 100 characters of the references" in out


def test_without_sacrebleu_the_rest_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    for module in (pairs, drawing):
        monkeypatch.setattr(module, "find_spec", lambda name: None if name == "sacrebleu" else find(name))
    files = ["--hypotheses", write("h", "a b"), "--references", write("r", "a c")]
    out, err = run_evaluate(capsys, *files)
    assert err == 'not installed: sacrebleu (for BLEU and chrF); pip install "regard[cli]"\n'
    assert rows(out, "exact %") == {"h": ["0.0", "50.0"]}
    assert "BLEU" not in out
    assert cli.main(["evaluate", *files, "--measure", "chrf"]) == 2
    assert capsys.readouterr().err.endswith(
        'error: --measure chrf needs sacrebleu: pip install "regard[cli]"\n'
    )


# ----------------------------------------------------------------------------------------------------- models

TRANSLATIONS = ("attention", "one\tun", "one two\tun deux", "one two three\tun deux deux", "a\ta")
TEST = ("one\tun", "one two\tun deux", "one two three\tun deux trois", "a\tb")


@pytest.mark.usefixtures("parrots")
def test_a_model_is_measured_on_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    write("test.tsv", *TEST)
    Path("runs").mkdir()
    write("runs/model.safetensors", *TRANSLATIONS)
    out, err = run_evaluate(capsys, "runs", "test.tsv", "--beam", "3", "--json", "all.json")
    assert out.startswith("4 items of test.tsv, beam 3\n\n")
    assert rows(out, "exact %")["runs"][-2:] == ["50.0", f"{100 * 2 / 7:.1f}"]
    assert err == "translating (runs): 4 of 4 (100 %), done in 0:00\n"
    report = json.loads(Path("all.json").read_text(encoding="utf-8"))
    (model,) = report["models"]
    assert (report["items"], report["beam"], model["name"]) == (4, 3, "runs")
    assert (model["exact"], model["errors"]) == (0.5, 2 / 7)
    assert [row["items"] for row in model["by_length"]] == [4]


@pytest.mark.usefixtures("parrots")
@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("v1.2", "v1.2"),
        (".", "here"),
        ("v1.2/model.safetensors", "v1.2"),
        ("my.model", "my"),
        ("v1.2/..", "here"),
    ],
)
def test_a_model_is_named_after_its_folder_or_file(
    argument: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("here/v1.2").mkdir(parents=True)
    monkeypatch.chdir("here")
    for name in ("model.safetensors", "v1.2/model.safetensors", "my.model"):
        write(name, *TRANSLATIONS)
    write("test.tsv", *TEST)
    out, err = run_evaluate(capsys, argument, "test.tsv")
    assert shown in rows(out, "exact %")
    assert err.startswith(f"translating ({shown}): ")


@pytest.mark.usefixtures("parrots")
def test_names_of_wide_letters_are_not_tokenize(capsys: pytest.CaptureFixture[str]) -> None:
    write("test.tsv", *TEST), write("one", *TRANSLATIONS), write("two", *TRANSLATIONS)
    out, _ = run_evaluate(capsys, "one", "test.tsv", "--compare", "two", "--names", "模型二", "モデル")
    assert "模型二" in out
    assert "モデル" in out


@pytest.mark.slow
@pytest.mark.usefixtures("parrots")
def test_models_are_compared_by_length_in_words_and_as_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    test = [f"{'w ' * (i % 4)}w\t{'v ' * (i % 4)}v" for i in range(100)]
    right = ["attention", *test]
    write("test.tsv", *test), write("right", *right), write("wrong", "none", *(f"{line} x" for line in test))
    names = ["--names", "with\x1b attention", "without"]
    out, err = run_evaluate(
        capsys, "right", "test.tsv", "--compare", "wrong", *names, "--measure", "errors", "--png", "l.png"
    )
    table = rows(out.split("errors % by words in the source\n")[1], "length")
    assert {length: (cells[0], float(cells[-2])) for length, cells in table.items()} == {
        str(i): ("25", 0.0) for i in (1, 2, 3, 4)
    }
    assert [cells[-1] for cells in table.values()] == ["100.0", "50.0", "33.3", "25.0"]
    assert "\x1b" not in out + err
    assert Path("l.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.usefixtures("parrots")
def test_undefined_bleu_is_not_0(capsys: pytest.CaptureFixture[str]) -> None:
    """sacrebleu has 0 for what is right, but short, and more for what is long and wrong."""
    short, long = ["a\tx y"] * 20, ["a b c d\tx y z v"] * 20
    write("test", *short, *long), write("model", "attention", *dict.fromkeys([*short, *long]))
    write("wrong", "none", "a\tx x x x x", "a b c d\tx y z v")
    out, _ = run_evaluate(capsys, "model", "test", "--json", "it.json", "--png", "it.png")
    assert rows(out, "chrF")["model"][:1] == ["100.0"]
    assert {length: cells[1] for length, cells in rows(out, "length").items()} == {"1": "-", "4": "100.0"}
    assert "\nBLEU: - where no reference has four words\n" in out
    (model,) = json.loads(Path("it.json").read_text())["models"]
    assert [row["bleu"] for row in model["by_length"]] == [None, pytest.approx(100)]
    out, _ = run_evaluate(capsys, "model", "test", "--compare", "wrong", "--measure", "bleu")
    assert rows(out, "length")["1"] == ["20", "-", "-"]


@pytest.mark.usefixtures("parrots")
def test_lines_with_one_source_are_alternatives_by_option(capsys: pytest.CaptureFixture[str]) -> None:
    write("model", "attention", "read\tR EH D", "cat\tK AE T")
    write("test", "read\tR IY D", "cat\tK AE T", "read\tR EH D")
    out, err = run_evaluate(capsys, "model", "test")
    assert err.startswith(
        "sources with several targets: 1; with --alternatives each of them counts as right\n"
    )
    assert rows(out, "exact %")["model"][-2:] == ["66.7", f"{100 / 9:.1f}"]
    out, err = run_evaluate(capsys, "model", "test", "--alternatives")
    assert out.startswith("2 items of test")
    assert "alternatives" not in err
    assert rows(out, "exact %")["model"][-2:] == ["100.0", "0.0"]


@pytest.mark.parametrize("hypotheses", [["R EH D", "K AE T"], ["R EH D", "K AE T", "R EH D"]])
def test_lines_of_text_with_one_source_are_alternatives(
    hypotheses: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (
        write("words", "read", "cat", "read"),
        write("right", "R IY D", "K AE D", "R EH D"),
        write("h", *hypotheses),
    )
    arguments = ["--hypotheses", "h", "--references", "right", "--sources", "words", "--alternatives"]
    out, err = run_evaluate(capsys, *arguments)
    assert out.startswith("2 items of right")
    assert "alternatives" not in err
    assert rows(out, "exact %")["h"][-2:] == ["50.0", f"{100 / 6:.1f}"]


@pytest.mark.usefixtures("parrots")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_a_file(
    pack: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_stdin(*arguments: str) -> str:
        data = io.BufferedReader(io.BytesIO(pack("\n".join(TEST).encode())))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=data))
        return run_evaluate(capsys, *arguments)[0]

    write("model", *TRANSLATIONS), write("test", *TEST)
    out, _ = run_evaluate(capsys, "model", "test")
    assert with_stdin("model", "-") == out.replace("items of test", "items of standard input")
    out, _ = run_evaluate(capsys, "--hypotheses", "test", "--references", "test")
    from_stdin = with_stdin("--hypotheses", "test", "--references", "-")
    assert from_stdin == out.replace("items of test", "items of standard input")


@pytest.mark.usefixtures("parrots")
def test_links_are_compared_by_words_whatever_the_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    # "ab cde": tokens ab, cd, e. Straight ahead: 0-0, then cd-fg, e-h: both 1-1. In the second pair the model attends
    # from the word hi (the 3rd of 4 tokens) at e, the 3rd token, of word 1.
    write("model", *TRANSLATIONS)
    write("test", "ab cde\tab fgh", "ab cde\tabc hi")
    write("gold", "0-0 1?1", "0-0 1-1 0p1")
    out, err = run_evaluate(capsys, "model", "test", "--gold", "gold")
    # found 0-0 1-1 | 0-0 (ab), 1-0 (c attends to cd), 1-1: 5 links; sure 0-0 | 0-0 1-1: 3; in A and S 3, in A and P 4
    assert rows(out, "AER %")["model"][-3:] == [f"{100 * (1 - 7 / 8):.1f}", "80.0", "100.0"]
    assert "aligning (model): 2 of 2 (100 %)" in err
    write("gold", "1-1 2?2", "1-1 2-2 1p2")
    assert run_evaluate(capsys, "model", "test", "--gold", "gold", "--gold-from", "1")[0] == out
    Path("gold.gz").write_bytes(gzip.compress(Path("gold").read_bytes()))
    assert run_evaluate(capsys, "model", "test", "--gold", "gold.gz", "--gold-from", "1")[0] == out
    turned, _ = run_evaluate(capsys, "model", "test", "--gold", "gold", "--gold-from", "1", "--posterior")
    # found 1-0 1-1 0-1 | 1-0 (ab and c, at e and cd) 0-1: 5 links; in A and S none, in A and P 2
    assert rows(turned, "AER %")["model"][-3:] == [f"{100 * (1 - 2 / 8):.1f}", "40.0", "0.0"]


@pytest.mark.usefixtures("parrots")
def test_links_of_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    # "ab cde" and "ab fgh" are three tokens each; each attends to the token at its own index.
    write("model", *TRANSLATIONS)
    write("test", "ab cde\tab fgh")
    write("gold", "0-0 2-2 1?1")
    out, _ = run_evaluate(capsys, "model", "test", "--gold", "gold", "--by", "tokens")
    assert rows(out, "AER %")["model"][-3:] == ["0.0", "100.0", "100.0"]
    write("gold", "3-2")
    assert refused(capsys, "model", "test", "--gold", "gold", "--by", "tokens") == (
        "gold, line 1: a link must be between tokens of the pair, which has 3 and 3. Got 3-2 instead; hint: "
        "if the first token has the number 1, give --gold-from 1"
    )


NOTE = "no link has the number 0; if the first word has the number 1, give"


def test_files_of_links_are_compared_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    write("gold", "0-0 1?1", "", "0-1 2-0")
    write("mine", "0-0 1-1", "0-0", "2-0")  # 4 links, 2 of them sure and 3 possible; 3 are sure in all
    write("worse", "", "", "")
    out, err = run_evaluate(capsys, "--links", "mine", "worse", "--gold", "gold", "--json", "numbers.json")
    assert (out.partition("\n")[0], err) == ("3 pairs of gold", "")
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["links", "AER", "%", "precision", "%", "recall", "%"],
        ["mine", "4", f"{100 * (1 - 5 / 7):.1f}", "75.0", "66.7"],
        ["worse", "0", "100.0", "100.0", "0.0"],
    ]
    written = json.loads(Path("numbers.json").read_text())
    assert [one["name"] for one in written["files"]] == ["mine", "worse"]
    assert written["files"][0]["links"]["error_rate"] == pytest.approx(1 - 5 / 7)
    assert "A" in run_evaluate(capsys, "--links", "mine", "--gold", "gold", "--names", "A")[0]


def test_links_that_are_counted_from_1(capsys: pytest.CaptureFixture[str]) -> None:
    write("gold", "0-0 1?1", "0-1 2-0"), write("gold-1", "1-1 2?2", "1-2 3-1")
    write("mine", "0-0 1-1", "2-0"), write("mine-1", "1-1 2-2", "3-1")
    right, err = run_evaluate(capsys, "--links", "mine", "--gold", "gold", "--names", "x")
    assert err == ""
    for options in (
        ["--links", "mine-1", "--links-from", "1", "--gold", "gold"],
        ["--links", "mine", "--gold", "gold-1", "--gold-from", "1"],
        ["--links", "mine-1", "--links-from", "1", "--gold", "gold-1", "--gold-from", "1"],
    ):
        out, err = run_evaluate(capsys, *options, "--names", "x")
        assert (out.replace("gold-1", "gold"), err) == (right, "")
    # A warning where no link has the number 0; none where the option is given.
    _, err = run_evaluate(capsys, "--links", "mine-1", "--gold", "gold-1")
    assert err == f"gold-1: {NOTE} --gold-from 1\nmine-1: {NOTE} --links-from 1\n"
    assert (
        run_evaluate(capsys, "--links", "mine-1", "--links-from", "0", "--gold", "gold", "--gold-from", "0")[
            1
        ]
        == ""
    )
    write("nothing", "", "")
    assert run_evaluate(capsys, "--links", "nothing", "--gold", "gold")[1] == ""


@pytest.mark.usefixtures("parrots")
def test_a_model_is_compared_with_links_that_are_counted_from_1(capsys: pytest.CaptureFixture[str]) -> None:
    write("model", *TRANSLATIONS)
    write("test", "a b\ta b", "a b c\ta b c")
    write("gold", "1-1", "1-1 2-2")
    assert f"gold: {NOTE} --gold-from 1\n" in run_evaluate(capsys, "model", "test", "--gold", "gold")[1]
    assert NOTE not in run_evaluate(capsys, "model", "test", "--gold", "gold", "--gold-from", "1")[1]
    assert NOTE not in run_evaluate(capsys, "model", "test", "--gold", "gold", "--gold-from", "0")[1]


ERRORS_OF_LINKS = """
--links gold | --links needs --gold: the reference links
--links short --gold gold | short must have 2 lines, like gold. It has 1.
--links gold --gold empty | empty has no links: there is nothing to compare with
--links gold --links-from 1 --gold gold | gold, line 1: a link must count words from 1 on. Got one with 0 instead;
    hint: --links-from 0 counts from 0
--links gold --gold gold --gold-from 1 | gold, line 1: a link must count words from 1 on. Got one with 0 instead;
    hint: --gold-from 0 counts from 0
--links text --gold gold | text, line 1: a link must be like 0-0 or 0?0. Got 'a' instead.
--links gold gold --gold gold | the files of --links must be different files
--links - --gold - | only one file can be standard input
--links gold --gold gold --json gold | gold would be overwritten; hint: give --json a file of its own
--links gold --gold gold --json no/x | no/x: there is no folder no
--links mine gold --gold gold --names a a | --names must all be different
--links gold --gold gold --names a b | --names must be as many as what is measured: 1. Got 2 instead.
m --links gold --gold gold | --links measures files of links: MODEL goes with models or translations
--beam 3 --links gold --gold gold | --links measures files of links: --beam goes with models or translations
--posterior --links gold --gold gold | --links measures files of links: --posterior goes with models or translations
--by words --links gold --gold gold | --links measures files of links: --by goes with models or translations
--hypotheses text --links gold --gold gold |
    --links measures files of links: --hypotheses goes with models or translations
m text --links-from 1 | --links-from needs --links
m text --by tokens | --by needs --gold: it is the unit of the numbers there
"""


@in_one_test(("arguments", "error"), refusals(ERRORS_OF_LINKS))
def test_errors_of_links_are_one_line(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("gold", "0-0", "1-1"), write("short", "0-0"), write("empty", "", ""), write("text", "a", "b")
    assert refused(capsys, *arguments) == error


@pytest.mark.usefixtures("parrots")
def test_an_item_that_is_too_long_is_an_empty_answer(capsys: pytest.CaptureFixture[str]) -> None:
    write("model", "attention", "a\tb", f"{'w ' * 1001}\tb"), write("gold", "0-0", "0-0", "0-0")
    write("test", "a\tb", f"{'w ' * 1001}\tb", f"a\t{'w ' * 1001}")
    assert cli.main(["evaluate", "model", "test", "--gold", "gold"]) == 2
    out, err = capsys.readouterr()
    assert [line for line in err.splitlines() if "error" in line] == [
        "regard evaluate: error: test, source 2: 1001 tokens; at most 1000 are allowed",
        "regard evaluate: error: test, target 3: 1001 tokens; at most 1000 are allowed",
    ]
    cells = rows(out, "AER %")["model"]
    assert (cells[-5], cells[-3:]) == ("33.3", ["50.0", "100.0", "33.3"])  # one of three, one of three links


@pytest.mark.usefixtures("parrots")
@pytest.mark.parametrize(("unknown", "exact"), [("guess", "50.0"), ("skip", "0.0"), ("fail", "0.0")])
def test_unknown_sources_are_guessed_left_empty_or_errors(
    unknown: str, exact: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Halves, "encode", lambda self, tokens: [3 if "#" in token else 4 for token in tokens])
    write("model", "none", "#\tx", "a\ty"), write("test", "#\tx", "a\tb")
    assert cli.main(["evaluate", "model", "test", "--unknown", unknown]) == 2 * (unknown == "fail")
    out, err = capsys.readouterr()
    assert rows(out, "exact %")["model"][-2] == exact
    if unknown == "fail":
        assert "test, source 1: the model does not know '#'" in err
    else:
        result = "their translation is a guess" if unknown == "guess" else "left empty"
        assert f"warning: 1 of 2 items have symbols that the model does not know: '#'; {result}" in err


@pytest.mark.usefixtures("parrots")
def test_unknown_symbols_of_all_items_and_models_get_one_warning(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Halves, "encode", lambda self, tokens: [4 if token == "a" else 3 for token in tokens])
    for model in ("model", "blind"):
        write(model, "none", "a\ty")
    write("test", *["a\ty"] * 3, *[f"{sign}\tx" for sign in "#%#&+$!#%#"])
    assert cli.main(["evaluate", "model", "test", "--compare", "blind"]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning")]
    assert warnings == [
        "warning: 10 of 13 items have symbols that the model does not know: '#', '%', '&', '+', '$' and 1 more;"
        " their translation is a guess"
    ]


ERRORS = """
 | give MODEL and TEST, or --hypotheses and --references
model | give MODEL and TEST, or --hypotheses and --references
model nowhere | nowhere: No such file or directory
nowhere test | nowhere: No such file or directory
model gold | gold, line 1: expected source TAB target, found 1 column
model test --references test | --references needs --hypotheses
--hypotheses test | --hypotheses needs --references
model --hypotheses test | MODEL and --hypotheses exclude each other; hint: give one
--hypotheses gold --references test | gold must have 4 lines, like test. It has 1.
--hypotheses test gold --references test | gold must have 4 lines, like test. It has 1.
--hypotheses gold --references empty | empty is empty
model - --gold - | only one file can be standard input
--hypotheses - --references - | only one file can be standard input
model test --compare model | the models to compare must be different files
model test --compare ./model | the models to compare must be different files
model test --names a b | --names must be as many as what is measured: 1. Got 2 instead.
model test --compare blind --names a a | --names must all be different
model test --gold gold | gold must have a line for each of the 4 pairs. It has 1.
model test --gold test | test, line 1: a link must be like 0-0 or 0?0. Got 'one' instead.
blind test --gold links | --gold needs attention: one of the models was trained without
model test --posterior | --posterior needs --gold: it is about links
model test --gold-from 1 | --gold-from needs --gold: it is the number of the first word there
model test --gold none | none has no links: there is nothing to compare with
model test --gold far | far, line 2: a link must be between words of the pair, which has 2 and 2. Got 2-2 instead;
    hint: if the first word has the number 1, give --gold-from 1
model test --gold far --gold-from 1 | far, line 3: a link must be between words of the pair, which has 3 and 3.
    Got 99-99 instead.
model test --gold links --alternatives | --gold has links for each line of TEST, --alternatives merges lines;
    hint: give one
model test --png x.doc | a picture's name must end in .png, .svg or .pdf: x.doc
model test --json no/x.json | no/x.json: there is no folder no
model test --json . | . must be a file, or not there yet. It is a folder instead.
--hypotheses test --references test --alternatives | --alternatives needs --sources: lines with the same source are
    one item
--hypotheses gold --references test --sources test --alternatives | gold must have 4 lines, like the sources, or 4, one
    for each different source. It has 1.
--hypotheses test --references test --measure wer | --measure must be one of what is measured: bleu, chrf, exact,
    errors. Got wer instead.
--hypotheses test --references test --beam 3 | --beam and --hypotheses exclude each other; hint: give one
model test --json test | test would be overwritten; hint: give --json a file of its own
--hypotheses gold --references gold --json ./gold | gold would be overwritten; hint: give --json a file of its own
model test --json x.svg --png x.svg | x.svg would be overwritten; hint: give --png a file of its own
model test --beam 0 | argument --beam: must be an integer from 1 to 100. Got '0' instead.
"""


@pytest.mark.usefixtures("parrots")
@in_one_test(("arguments", "error"), refusals(ERRORS))
def test_errors_are_one_line(arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("model", *TRANSLATIONS), write("blind", "none", *TRANSLATIONS[1:]), write("test", *TEST)
    write("gold", "0-0"), write("links", *["0-0"] * 4), write("empty")
    write("none", *[""] * 4), write("far", "", "2?2", "99?99", "")
    assert cli.main(["evaluate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"regard evaluate: error: {error}\n"


# ------------------------------------------------------------------------------------------------------ curve


def write_log(path: Path, start: float = 3.0) -> None:
    path.parent.mkdir(exist_ok=True)
    with Log(path) as log:
        for step in range(1, 31):
            valid = {"validation": start - step / 20, "bleu": float(step)} if step % 10 == 0 else {}
            log.write(step=step, seconds=6.0 * step, loss=start - step / 15, **valid)


@pytest.mark.slow
def test_a_curve_is_drawn_from_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    write_log(Path("run/log.jsonl"))
    with Path("run/log.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"step": 31, "lo')  # it is being written
    png = ["--png", "curve.png"] if importlib.util.find_spec("matplotlib") else []
    assert cli.main(["curve", "run", "--along", "minutes", *png]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("loss per token\n")
    assert "· training 1.00   o validation 1.50\n\nBLEU\n" in out
    assert out.endswith("· validation 30.0\n")
    assert re.search(r"^ +0 +minutes +3$", out, re.MULTILINE)
    assert not png or Path("curve.png").read_bytes().startswith(b"\x89PNG")


def test_points_before_0_are_not_drawn() -> None:
    lines = {"loss": ([-5, 0, 4], [9.0, 2.0, 1.0])}
    assert terminal.curves(lines, width=40) == terminal.curves({"loss": ([0, 4], [2.0, 1.0])}, width=40)


def test_several_logs_are_compared_by_validation(capsys: pytest.CaptureFixture[str]) -> None:
    write_log(Path("one/log.jsonl"))
    write_log(Path("two/log.jsonl"), 4.0)
    assert cli.main(["curve", "one", "two"]) == 0
    assert "· one 1.50   o two 2.50\n" in capsys.readouterr().out
    for name, loss in (("a\x01", 3.0), ("a\x02", 4.0)):  # they are printed alike
        Path(name).mkdir()
        write_log(Path(name, "log.jsonl"), loss)
    assert cli.main(["curve", "a\x01", "a\x02"]) == 0
    assert "· 'a\\x01/log.jsonl' 1.50   o 'a\\x02/log.jsonl' 2.50\n" in capsys.readouterr().out


def test_logs_that_cannot_be_compared_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    write_log(Path("one/log.jsonl"))
    assert cli.main(["curve", "one", "one/log.jsonl"]) == 2
    assert capsys.readouterr().err == "regard curve: error: the logs to compare must be different files\n"
    for name in ("a", "b"):
        write(
            name, json.dumps({"step": 1, "loss": 2.0, "epoch": 1, "tokens": 3, "rate": 0.1, "seconds": 1.0})
        )
    assert cli.main(["curve", "a", "b"]) == 2
    assert capsys.readouterr().err == "regard curve: error: none of the logs has a validation yet\n"


def test_a_curve_needs_a_log_with_a_loss(capsys: pytest.CaptureFixture[str]) -> None:
    write("empty")
    for name, error in (("empty", "empty has no loss yet"), ("no", "no: No such file or directory")):
        assert cli.main(["curve", name]) == 2
        assert capsys.readouterr().err == f"regard curve: error: {error}\n"
    assert curve.panels({}) == []
