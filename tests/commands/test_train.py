"""The verb `train`: its output, its files, the input that it refuses, and how it resumes."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import NETWORK, SIZE, captions, draw, labels
from errors import refusals, refused
from one_test import in_one_test

from regard import _files, _signals
from regard._files import replacing
from regard.cli import main
from regard.commands import drawing, summary
from regard.commands.link_files import LineLinks, LinkFile, PairLinks
from regard.commands.summary import Measures, Summary
from regard.commands.tasks.pairs import Pairs
from regard.commands.train import files, run
from regard.commands.train.arguments import add_arguments
from regard.commands.train.files import RunFiles
from regard.commands.train.report import Reporter, forecast, sample_pairs
from regard.seq2seq import Seq2Seq
from regard.seq2seq.corpus.batching import Links
from regard.seq2seq.sources import Text
from regard.seq2seq.sources.text.tokenizers import Characters, Subwords, Tokenizer, Tokens, Words
from regard.seq2seq.sources.text.vocabulary import SPECIAL, Vocabulary
from regard.seq2seq.storage.checkpoint_file import write_checkpoint
from regard.seq2seq.training.config import TrainingConfig
from regard.seq2seq.training.log import read_log
from regard.seq2seq.training.loop import TrainingStep
from regard.seq2seq.training.session import begin, take_steps
from regard.show import figures

SIGNALS = [signal.SIGINT, *_signals.ENDING]
SRC = Path(__file__).parents[3] / "src"


def write_pairs(path: Path, count: int = 60, seed: int = 0, longest: int = 4) -> Path:
    rng = np.random.default_rng(seed)
    words = [
        [f"w{i}" for i in rng.integers(0, 6, rng.integers(longest - 3, longest + 1))] for _ in range(count)
    ]
    lines = [" ".join(w) + "\t" + " ".join(reversed(w)) + "\n" for w in words]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.tsv")


@pytest.fixture
def drawn() -> None:
    """Asked for by tests that need real pictures."""


@pytest.fixture(autouse=True)
def _blank_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a picture's first bytes only: to draw them takes ten times as long as these trainings."""

    def blank(path: Path, figure: Any) -> None:
        with replacing(path) as file:
            file.write(b"\x89PNG")

    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(figures, "save", blank)
        for name in ("heatmap", "heatmaps", "curves", "captioned"):
            monkeypatch.setattr(figures, name, lambda *arguments, **options: None)


# ------------------------------------------------------------------------------------------------------- train


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_a_run_from_pairs_to_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, out = write_pairs(tmp_path / "pairs.tsv", longest=7), tmp_path / "deep" / "out"
    assert main(["train", str(pairs), "--epochs", "2", "--out", str(out)]) == 0
    stdout, stderr = capsys.readouterr()
    assert "epoch 1: validation loss " in stderr
    assert re.search(
        r"^epoch 2: validation loss .*, BLEU \d+\.\d, chrF \d+\.\d \(greedy, \d pairs\), saved$",
        stderr,
        re.MULTILINE,
    )
    held_out = "held-out pairs, which also selected the epoch"
    assert re.search(
        rf"^BLEU \d+\.\d, chrF \d+\.\d with attention, on \d+ {held_out}, beam 5 \(nrefs:1\|case:mixed\|eff:no\|",
        stdout,
    )
    assert stdout.count("source:") == stdout.count("translation:") == stdout.count("reference:") == 3
    assert stdout.endswith(f"the model is in {out / 'model.safetensors'}\n")
    assert "\r" not in stdout + stderr
    assert "\x1b" not in stdout + stderr
    assert (out / "alignment-1.png").read_bytes().startswith(b"\x89PNG")
    assert f"shown in {out / 'alignments.html'}: open it in a browser" in stdout
    data = (out / "alignments.html").read_text(encoding="utf-8").partition('id="data">')[2]
    (section,) = json.loads(data.partition("</script>")[0])
    assert len(section["data"]["sentences"]) == 3
    assert Seq2Seq.load(out / "model.safetensors").translate(["w1"])[0].alignment is not None


@pytest.mark.slow
def test_compare_trains_the_same_without_attention(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m.safetensors"
    network = ["--network", "score=additive", "style=bahdanau"]
    options = ["--epochs", "1", "--compare", *network, "--out", str(out)]
    assert main(["train", str(pairs), *options]) == 0
    stdout = capsys.readouterr().out
    assert " with attention, on " in stdout
    assert " without attention, on " in stdout
    without = Seq2Seq.load(tmp_path / "m-without-attention.safetensors")
    assert not without.attention
    assert Seq2Seq.load(out).attention
    sizes = (model.network.config for model in (without, Seq2Seq.load(out)))
    assert len({(size.embedding, size.encoder, size.decoder) for size in sizes}) == 1


def test_there_is_nothing_to_compare_where_there_is_no_attention(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--compare", "--network", "score=none", "--out", str(tmp_path / "m")]
    assert main(["train", str(pairs), *options]) == 2
    assert "--compare needs a score: score=none has no attention" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "told"),
    [
        # Of 40 target tokens one comes once, and one twice: 3 are rare.
        (
            "",
            "; no target token is unknown, 7.5 % come fewer than 3 times: --source subwords --target subwords",
        ),
        ("--min-count 2", "; 2.5 % of the target tokens are unknown: --source subwords --target subwords"),
        ("--min-count 3", "; 7.5 % of the target tokens are unknown: --source subwords --target subwords"),
        ("--target characters --min-count 1", " for validation and test\n"),
        ("--target characters --min-count 3", " of the target tokens are unknown"),
    ],
)
def test_the_first_line_says_how_many_target_tokens_are_rare(
    options: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = ["un deux"] * 17 + ["un rare", "deux rare", "un seul"]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"one {i}\t{target}\n" for i, target in enumerate(targets)), "utf-8")
    files = [str(path), "--valid", str(path), "--test", str(path)]
    assert main(["train", *files, "--epochs", "1", "--out", str(tmp_path / "m"), *options.split()]) == 0
    stderr = capsys.readouterr().err
    first = stderr[: stderr.index("\n") + 1]
    assert first.startswith(
        "20 training pairs, 20 of them with at most 50 tokens on both sides; 20 for validation"
    )
    assert told in first


@pytest.mark.slow
def test_a_model_has_the_limit_of_its_training_targets(tmp_path: Path) -> None:
    for most in (2, 5):
        path = tmp_path / f"{most}.tsv"
        path.write_text("".join(f"w{i} w\tx{' y' * most} z\n" for i in range(9)), "utf-8")
        assert main(["train", str(path), "--epochs", "1", "--out", str(tmp_path / str(most))]) == 0
        assert Seq2Seq.load(tmp_path / str(most)).repetitions == max(most, 3)


@pytest.mark.slow
def test_pairs_that_are_too_long_to_translate_are_not_measured_on(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model reads at most 1,000 tokens, whatever the options; longer pairs are left out of the test."""
    test = write_pairs(tmp_path / "t", 9, 2)
    with test.open("a", encoding="utf-8") as file:
        file.write(f"{'one ' * 1100}\t{'un ' * 1100}\n")
    arguments = ["--test", str(test), "--valid", str(test), "--test-max-tokens", "1500", "--epochs", "1"]
    assert main(["train", str(pairs), *arguments, "--no-attention", "--out", str(tmp_path / "m")]) == 0
    assert "without attention, on 9 pairs" in capsys.readouterr().out


@pytest.mark.slow
def test_references_are_normalized_as_by_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Letters with their accents apart are the same letters."""
    path = tmp_path / "p"
    path.write_text("".join(f"w{i % 4}\te\u0301{i % 4}\n" for i in range(40)), encoding="utf-8")
    arguments = ["--epochs", "60", "--no-attention", "--out", str(tmp_path / "m")]
    assert main(["train", str(path), "--valid", str(path), *arguments]) == 0
    assert "exact 100.0 %" in capsys.readouterr().out


@pytest.mark.slow
def test_epochs_that_end_before_the_time_limit_are_reported(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = "done with 1 epoch before the 90 minutes were over: see --epochs\n"
    for minutes, reported in (["--minutes", "90"], True), ([], False), (["--minutes", "1e-9"], False):
        arguments = ["--epochs", "1", "--no-attention", *minutes, "--fresh", "--out", str(tmp_path / "m")]
        assert main(["train", str(pairs), *arguments]) == 0
        err = capsys.readouterr().err
        assert (message in err) == ("before the" in err) == reported


@pytest.mark.slow
def test_too_few_pairs_to_hold_any_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few, out = tmp_path / "few", str(tmp_path / "m")
    few.write_text("a b\tb a\nb\tb\n")
    assert main(["train", str(few), "--epochs", "1", "--out", out]) == 0
    stdout, stderr = capsys.readouterr()
    assert "on the 2 training pairs themselves: there are too few to hold any out, beam 5" in stdout
    assert "held-out" not in stdout
    assert "; too few to hold any out, so the same for validation and test; " in stderr
    few.write_text("a b\tb a\n")
    assert main(["train", str(few), "--epochs", "1", "--out", out, "--fresh"]) == 0
    stdout, stderr = capsys.readouterr()
    assert "on the training pair itself: there are too few" in stdout
    assert stderr.startswith("1 training pair, 1 of them")
    assert "(greedy, 1 pair)" in stderr


@pytest.mark.slow
def test_the_origin_of_validation_and_test_pairs_is_reported(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = write_pairs(tmp_path / "new", 5, 9, longest=20)
    half = tmp_path / "half"
    half.write_text(new.read_text() + "".join(pairs.read_text().splitlines(keepends=True)[:3]))
    for number, (options, origin) in enumerate(
        [
            (
                ["--valid", str(pairs)],
                "on 60 pairs, 60 of them learned from, which also selected the epoch, beam 5",
            ),
            (
                ["--valid", str(half)],
                "on 8 pairs, 3 of them learned from, which also selected the epoch, beam 5",
            ),
            (["--valid", str(new)], "on 5 held-out pairs, which also selected the epoch, beam 5"),
            (
                ["--valid", str(new), "--test", str(new)],
                "on 5 held-out pairs, which also selected the epoch, beam 5",
            ),
            (["--valid", str(pairs), "--test", str(half)], "on 8 pairs, 3 of them learned from, beam 5"),
        ]
    ):
        out = ["--epochs", "1", "--out", str(tmp_path / str(number))]
        assert main(["train", str(pairs), *options, *out]) == 0
        stdout, stderr = capsys.readouterr()
        assert origin in stdout
        assert "too few" not in stdout + stderr
        tested = ", 8 for test" if options[-2:] == ["--test", str(half)] else " and test"
        assert f" for validation{tested}; " in stderr


@pytest.mark.slow
def test_short_lines_are_measured_by_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words, out = tmp_path / "words", tmp_path / "m"
    words.write_text("cat\tK AE T\ntack\tT AE K\nact\tAE K T\n" * 10)
    sounds = ["--source", "characters", "--target", "tokens", "--epochs", "60"]
    assert main(["train", str(words), *sounds, "--out", str(out)]) == 0
    stdout, stderr = capsys.readouterr()
    assert "BLEU" not in stdout + stderr
    assert re.search(
        r"^epoch 1: .*, exact \d+\.\d %, token errors \d+\.\d % \(greedy, 3 sources\)", stderr, re.MULTILINE
    )
    assert stdout.startswith(
        "exact 100.0 %, token errors 0.0 % with attention, on the 30 training pairs themselves"
    )
    validated = [entry for entry in read_log(out / "log.jsonl") if "validation" in entry]
    assert all(
        0 <= entry["exact"] <= 1 and entry["errors"] >= 0 and "bleu" not in entry for entry in validated[:10]
    )
    assert main(["curve", str(out)]) == 0
    assert "\nerrors %\n" in capsys.readouterr().out


def summarized(kind: str, sources: list[str], hypotheses: list[str], references: list[str]) -> Summary:
    """The summary of lines that are measured as they are themselves."""
    return Measures.of(kind, sources, references).summarize(sources, hypotheses, references)


@pytest.mark.parametrize(
    ("kind", "hypothesis", "reference", "expected"),
    [
        ("words", "a b c d", "a b c d", "BLEU 100.0, chrF 100.0"),
        ("tokens", "a b c d", "a b c x", "exact 0.0 %, token errors 25.0 %, BLEU 0.0, chrF 0.0"),
        ("characters", "a b", "a x", "exact 0.0 %, character errors 33.3 %"),
        ("words", "a b", "a x", "exact 0.0 %, word errors 50.0 %"),
        ("subwords", "ab", "xb", "exact 0.0 %, character errors 50.0 %"),
    ],
)
def test_the_most_informative_measure_is_chosen(
    kind: str, hypothesis: str, reference: str, expected: str
) -> None:
    measured = str(summarized(kind, ["q r s t"], [hypothesis], [reference]))
    assert (
        re.sub(r"(BLEU|chrF) \d\d?\.\d", r"\1 0.0", measured) == expected
    )  # the runs that match are sacrebleu's business


def test_sentences_among_single_words_are_measured_by_bleu_too() -> None:
    sources = ["cat", "dog", "see", "q r s t"]
    answers = ["chat", "chien", "voir", "a b c d"]
    assert str(summarized("words", sources, answers, answers)) == (
        "exact 100.0 %, character errors 0.0 %, BLEU 100.0, chrF 100.0"
    )
    measures = Measures.of("words", sources, answers)
    assert (
        str(measures.summarize(sources[:3], answers[:3], answers[:3]))
        == "exact 100.0 %, character errors 0.0 %"
    )


def test_any_target_of_a_source_is_right() -> None:
    sources, answers = ["read", "cat", "read"], ["R EH D", "K AE T", "R EH D"]
    measured = summarized("tokens", sources, answers, ["R IY D", "K AE D", "R EH D"])
    assert (measured.exact, measured.errors) == (0.5, 1 / 6)


def test_a_few_short_lines_do_not_decide_what_is_measured() -> None:
    sentences = Measures.of("words", ["a b c d"] * 3, ["A B C D"] * 3)
    measured = sentences.summarize(["a", "b"], ["A", "X"], ["A", "B"])
    assert measured.bleu is not None
    assert (measured.errors, measured.unit) == (None, "words")
    phrases = Measures.of("subwords", ["a b", "b c", "c"], ["A B", "B C", "C"])
    assert phrases.summarize(["ab", "bc"], ["AX", "BC"], ["AB", "BC"]).errors == 1 / 2
    assert phrases.unit == "words"


@pytest.mark.slow
def test_what_was_killed_before_its_first_checkpoint_starts_over(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["train", str(pairs), "--epochs", "1", "--out", str(tmp_path / "m")]
    with monkeypatch.context() as patched:  # a checkpoint is written each minute
        patched.setattr(run.Run, "train", lambda _: 137)
        assert main(command) == 137
    assert (tmp_path / "m" / "checkpoint.safetensors").exists()
    assert "starts over" not in capsys.readouterr().err
    assert main(command) == 0
    assert "training starts over: it has been ended before its first checkpoint" in capsys.readouterr().err


@pytest.mark.slow
def test_of_many_epochs_improvements_are_reported(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "train",
        str(pairs),
        "--epochs",
        "100",
        "--learning-rate",
        "0.001",
        "--out",
        str(tmp_path / "m"),
    ]
    assert main(arguments) == 0
    stderr = capsys.readouterr().err
    lines = re.findall(r"^epoch (\d+): (.*)$", stderr, flags=re.MULTILINE)
    epochs = [int(number) for number, _ in lines]
    assert epochs[:10] == list(range(1, 11))
    assert 12 <= len(lines) <= 36
    assert epochs[-1] == 100
    assert all(line.endswith(", saved") for _, line in lines[10:-1])
    assert re.search(r"^the best model is that of epoch \d+$", stderr, flags=re.MULTILINE)


def test_without_the_extras_it_still_trains(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (drawing, summary):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert main(["train", str(pairs), "--epochs", "1", "--out", str(tmp_path / "m")]) == 0
    stdout, stderr = capsys.readouterr()
    extras = ["sacrebleu (for BLEU and chrF)", "matplotlib (for pictures)", "tqdm (for the progress bar)"]
    extras += ["threadpoolctl (for training with two threads)"]
    assert f'not installed: {", ".join(extras)}; pip install "regard[cli]"\n' in stderr
    assert "BLEU" not in stdout
    assert stdout.startswith("exact ")
    assert not list((tmp_path / "m").glob("alignment-*.png"))
    assert (tmp_path / "m" / "model.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(28, "No space left on device", "x.partial"),
            "pictures can't be drawn: No space left on device",
        ),
        (RuntimeError("no face\nat all"), "curve.png could not be drawn: no face"),
        (MemoryError(), "curve.png could not be drawn: MemoryError"),
    ],
)
@pytest.mark.usefixtures("drawn")
def test_a_failed_picture_does_not_lose_the_result(
    error: Exception,
    line: str,
    pairs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure = pytest.importorskip("matplotlib.figure")

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(figure.Figure, "savefig", fail)
    assert main(["train", str(pairs), "--epochs", "1", "--compare", "--out", str(tmp_path / "m")]) == 0
    stdout, stderr = capsys.readouterr()
    assert " with attention, on " in stdout
    assert " without attention, on " in stdout
    assert stdout.endswith(f"the model is in {tmp_path / 'm' / 'model.safetensors'}\n")
    assert "drawn in" not in stdout
    warned = [one.removeprefix("regard train: warning: ") for one in stderr.splitlines() if "warning" in one]
    assert warned[0] == line
    # An error of the folder is reported once, an error of a picture once for each.
    pictures = ["curve", "model-without-attention-curve", *(f"alignment-{i}" for i in (1, 2, 3))]
    assert len(warned) == (1 if isinstance(error, OSError) else len(pictures))


def test_an_unusable_matplotlib_is_reported_before_training(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    monkeypatch.setattr(matplotlib, "__version__", "3.5.1")
    assert main(["train", str(pairs), "--epochs", "1", "--out", str(tmp_path / "m")]) == 0
    stdout, stderr = capsys.readouterr()
    assert " with attention, on " in stdout
    lines = [line for line in stderr.splitlines() if "Matplotlib" in line]
    assert len(lines) == 1
    assert lines[0].endswith("3.8 or later is needed, 3.5.1 is installed")
    assert stderr.index(lines[0]) < stderr.index("epoch 1")


def test_a_nan_loss_stops_the_training(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["train", str(pairs), "--learning-rate", "3e38", "--epochs", "9", "--out", str(tmp_path / "m")])
        == 1
    )
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("stopped: the loss is not finite any more: ")
    saved = (tmp_path / "m" / "model.safetensors").exists()
    assert ("is in" in last) == saved
    assert ("no model has been written" in last) != saved


def started(arguments: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Begin a training in a process of its own, and wait until its first model is saved."""
    environment = os.environ | {"PYTHONPATH": str(SRC), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=folder
    )
    assert process.stderr is not None
    while b", saved" not in (line := process.stderr.readline()):
        assert line, "it ended before it had saved a model"
    return process


LONG = ["train", "pairs.tsv", *NETWORK, "--epochs", "12", "--out"]  # takes long enough to be stopped


def finished(name: str, folder: Path) -> None:
    process = started([*LONG, name], folder)
    process.communicate(timeout=1800)
    assert process.returncode == 0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a training writes that nothing stops."""
    folder = tmp_path_factory.mktemp("long")
    write_pairs(folder / "pairs.tsv", 400)
    finished("whole", folder)
    return folder / "whole"


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_training_is_resumed_bit_by_bit(
    number: int, uninterrupted: Path, tmp_path: Path
) -> None:
    write_pairs(tmp_path / "pairs.tsv", 400)
    process = started([*LONG, "stopped"], tmp_path)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=1800)
    assert process.returncode == 128 + number
    lines = stderr.decode().splitlines()
    assert re.fullmatch(
        r"interrupted; the best model, that of epoch \d+, is in stopped/model.safetensors", lines[-2]
    )
    assert lines[-1] == "the same command goes on from there"
    assert "Traceback" not in stderr.decode()
    stopped = tmp_path / "stopped"
    assert Seq2Seq.load(stopped / "model.safetensors").translate(["w1"])
    assert (stopped / "checkpoint.safetensors").exists()
    finished("stopped", tmp_path)
    for name in ("model.safetensors", "alignment-1.png"):
        assert (stopped / name).read_bytes() == (uninterrupted / name).read_bytes()
    logs = [
        [{**entry, "seconds": 0, "tokens_per_second": 0} for entry in read_log(f / "log.jsonl")]
        for f in (stopped, uninterrupted)
    ]
    assert logs[0] == logs[1]
    assert not (stopped / "checkpoint.safetensors").exists()
    assert not list(stopped.glob(".*"))


@contextmanager
def interrupted(when: Callable[[Reporter, TrainingStep], bool]) -> Iterator[None]:
    """Ask a training to stop after the first step that meets a condition."""
    plain = Reporter.report

    def report(self: Reporter, step: TrainingStep) -> None:
        if when(self, step):
            signal.raise_signal(signal.SIGINT)
        plain(self, step)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Reporter, "report", report)
        yield


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the model files, in the order in which they are written from now on."""
    saved: list[str] = []
    plain = Seq2Seq.save

    def save(self: Seq2Seq, path: Path) -> None:
        saved.append(path.name)
        plain(self, path)

    monkeypatch.setattr(Seq2Seq, "save", save)
    return saved


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("what", ["Pairs.measure", "show_examples", "draw_curve"])
def test_a_stop_after_the_last_step_is_reported_and_leaves_no_checkpoint(
    what: str,
    number: int,
    pairs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = ["train", str(pairs), "--epochs", "1", "--out", str(tmp_path / "m")]
    model_path = tmp_path / "m" / "model.safetensors"
    with monkeypatch.context() as patched:
        patched.setattr(
            Pairs if what == "Pairs.measure" else run,
            what.removeprefix("Pairs."),
            lambda *_: signal.raise_signal(number),
        )
        assert main(arguments) == 128 + number
    stderr = capsys.readouterr().err.splitlines()[-1]
    assert stderr == f"interrupted; the model is in {model_path}, and the same command prints the rest"
    assert not list(model_path.parent.glob(".*"))
    before = model_path.read_bytes()
    assert main(arguments) == 0
    assert "training is done already" in capsys.readouterr().err
    assert model_path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "worse"), [("1e6", True), ("0.005", False)])
def test_a_loss_above_that_of_guessing_is_reported(
    rate: str, worse: bool, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["train", str(pairs), "--epochs", "2", "--learning-rate", rate, "--out", str(tmp_path / "m")])
        == 0
    )
    stderr = capsys.readouterr().err
    guessed = np.log(len(SPECIAL) + 6)  # six words
    warning = f"every validation loss is above {guessed:.3f}, that of guessing: a smaller --learning-rate may help\n"
    assert (warning in stderr) == worse


@pytest.mark.slow
def test_of_two_trainings_the_finished_one_is_kept(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", str(pairs), "--epochs", "3", "--compare", "--out"]
    assert main([*arguments, str(tmp_path / "whole")]) == 0
    with interrupted(lambda reporter, step: not reporter.model.attention and step.epoch == 2):
        assert main([*arguments, str(tmp_path / "stopped")]) == 130
    assert capsys.readouterr().err.endswith("the same command goes on from there\n")
    saved = counting(monkeypatch)
    assert main([*arguments, str(tmp_path / "stopped")]) == 0
    stdout, stderr = capsys.readouterr()
    assert "model.safetensors" not in saved
    assert "training is done already\n" in stderr
    assert "training without attention: " in stderr or "resuming after step" in stderr
    assert stdout.count(" with attention, on ") == stdout.count(" without attention, on ") == 1
    for name in ("model.safetensors", "model-without-attention.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list((tmp_path / "stopped").glob("*checkpoint*"))


@pytest.mark.slow
def test_two_fresh_trainings_are_resumed_after_a_stop_in_the_first(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", str(pairs), "--epochs", "3", "--compare", "--out"]
    assert main([*arguments, str(tmp_path / "m"), "--seed", "7"]) == 0
    with interrupted(lambda _, step: step.epoch == 2):
        assert main([*arguments, str(tmp_path / "m"), "--fresh"]) == 130
    assert capsys.readouterr().err.endswith("the same command without --fresh goes on from there\n")
    assert main([*arguments, str(tmp_path / "m")]) == 0
    assert "resuming after step" in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "whole")]) == 0
    for name in ("model.safetensors", "model-without-attention.safetensors"):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not list((tmp_path / "m").glob("*checkpoint*"))


def test_the_second_trainings_checkpoint_is_read_before_the_first_begins(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "model-without-attention-checkpoint.safetensors"
    checkpoint.write_bytes(b"short")
    before = sorted(tmp_path.iterdir())
    for pair_file in (str(pairs), "no-such-file"):  # before any pair is read
        message = refused(["train", pair_file, "--compare", "--out", str(tmp_path)], capsys)
        assert message == f"{checkpoint} is not a checkpoint: 5 bytes are too few; hint: --fresh trains anew"
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_two_processes_do_not_train_the_same(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pairs(tmp_path / "pairs.tsv", 400)
    arguments = ["train", "pairs.tsv", "--epochs", "500", "--patience", "500", "--out", "m"]
    process = started(arguments, tmp_path)
    model_path = tmp_path / "m" / "model.safetensors"
    try:
        for fresh in ([], ["--fresh"]):
            message = refused(["train", str(pairs), "--out", str(tmp_path / "m"), *fresh], capsys)
            assert message == f"--out: another process is training {model_path}; hint: give another --out"
    finally:
        process.kill()
        process.communicate(timeout=1800)
    assert main(["train", str(pairs), "--epochs", "1", "--out", str(tmp_path / "m"), "--fresh"]) == 0
    assert not list((tmp_path / "m").glob(".*"))


@pytest.mark.slow
def test_partial_files_of_killed_processes_are_removed(pairs: Path, tmp_path: Path) -> None:
    names = "model.safetensors", "checkpoint.safetensors", "log.jsonl", "curve.png", "alignment-1.png"
    for name in names:
        (tmp_path / f".{name}.123.partial").write_bytes(b"half")
    others = [tmp_path / name for name in (".mine.png.99.partial", ".model.safetensors.mine.partial")]
    for other in others:
        other.write_bytes(b"of somebody else")
    assert main(["train", str(pairs), "--epochs", "1", "--out", str(tmp_path)]) == 0
    assert sorted(tmp_path.glob(".*")) == sorted(others)


@pytest.mark.slow
@pytest.mark.parametrize("option", [[], ["--compare"]], ids=["one", "two"])
def test_a_finished_model_is_not_overwritten(
    option: list[str], pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_path = tmp_path / "m" / "model.safetensors"
    arguments = ["train", str(pairs), "--epochs", "1", "--out", str(tmp_path / "m")]
    assert main([*arguments, *option]) == 0
    before = model_path.read_bytes()
    capsys.readouterr()
    assert main([*arguments, *option]) == 0  # the same again
    out, err = capsys.readouterr()
    assert (
        main([*arguments, "--seed", "1", "--label-smoothing", "0.1"]) == 0
    )  # the same model, by its defaults
    assert capsys.readouterr() == (out, err)
    assert out == f"the model is in {model_path}\n"
    assert err == "training is done already; --fresh trains anew, another --out keeps this model\n"
    assert model_path.read_bytes() == before
    left = [tmp_path / "m" / f".{name}" for name in ("model.safetensors.lock", "log.jsonl.123.partial")]
    for path in left:  # by a process that was killed at its end
        path.touch()
    with _files.locked(model_path):  # the lock of another process stays
        assert main([*arguments, *option]) == 0
        assert all(path.exists() for path in left)
    left[0].touch()
    assert main([*arguments, *option]) == 0
    assert not list((tmp_path / "m").glob(".*"))
    capsys.readouterr()
    message = refused([*arguments, *option, "--seed", "2"], capsys)
    assert message == f"--out: {model_path} is done; hint: --fresh trains it anew, another --out keeps it"
    assert model_path.read_bytes() == before
    assert main([*arguments, *option, "--seed", "2", "--fresh"]) == 0
    assert model_path.read_bytes() != before


@pytest.mark.slow
def test_two_trainings_that_end_between_the_removal_of_their_checkpoints_are_done(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, removed = RunFiles.remove_checkpoint, list[RunFiles]()

    def first_only(one: RunFiles) -> None:
        removed.append(one)
        if len(removed) > 1:
            raise KeyboardInterrupt
        remove(one)

    arguments = ["train", str(pairs), "--epochs", "1", "--compare", "--out", str(tmp_path)]
    with monkeypatch.context() as patched:
        patched.setattr(RunFiles, "remove_checkpoint", first_only)
        assert main(arguments) == 130
    assert len(list(tmp_path.glob("*checkpoint*"))) == 1
    capsys.readouterr()
    assert main(arguments) == 0
    assert "training is done already" in capsys.readouterr().err
    assert not list(tmp_path.glob("*checkpoint*"))


@pytest.mark.slow
def test_a_model_and_a_checkpoint_are_read_once(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[Path] = []

    def counted(read: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path, *rest: paths.append(path) or read(path, *rest)  # type: ignore[func-returns-value]

    for name in ("read_model", "read_checkpoint"):
        monkeypatch.setattr(files, name, counted(getattr(files, name)))
    arguments = ["train", str(pairs), "--epochs", "2", "--out", str(tmp_path / "m")]
    with monkeypatch.context() as patched:
        patched.setattr(run.Stop, "requested", True)
        patched.setattr(run.Stop, "status", 130)
        assert main(arguments) == 130
    assert paths == []
    model, checkpoint = tmp_path / "m" / "model.safetensors", tmp_path / "m" / "checkpoint.safetensors"
    assert main(arguments) == 0
    assert paths == [checkpoint]
    paths.clear()
    assert main(arguments) == 0
    assert paths == [model]
    assert "training is done already" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_killed_training_is_resumed_from_its_last_checkpoint(uninterrupted: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.tsv", 400)
    process = started([*LONG, "killed"], tmp_path)
    process.send_signal(signal.SIGINT)  # leaves a checkpoint
    process.communicate(timeout=1800)
    process = started([*LONG, "killed"], tmp_path)
    process.kill()
    process.communicate(timeout=1800)
    assert Seq2Seq.load(tmp_path / "killed" / "model.safetensors").translate(["w1"])
    finished("killed", tmp_path)
    one, two = (
        (folder / "model.safetensors").read_bytes() for folder in (tmp_path / "killed", uninterrupted)
    )
    assert one == two


@pytest.mark.slow
def test_a_full_disk_keeps_the_old_files(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "m"
    assert main(["train", str(pairs), "--epochs", "1", "--out", str(out)]) == 0
    before = (out / "model.safetensors").read_bytes()
    capsys.readouterr()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main(["train", str(pairs), "--epochs", "3", "--out", str(out), "--fresh"]) == 2
    stderr = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"regard train: error: .*safetensors: No space left on device", stderr[-1])
    assert (out / "model.safetensors").read_bytes() == before
    assert not list(out.glob(".*"))


@pytest.mark.slow
def test_a_checkpoint_of_other_pairs_is_an_error(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "m"
    out.mkdir()
    checkpoint = out / "checkpoint.safetensors"
    write_checkpoint(checkpoint, begin(Seq2Seq(epochs=1), [("a", "b")], [("a", "b")]).state())
    for options, changed in {
        ("--epochs", "1"): "the pairs, or which of their tokens are known, have changed",
        ("--epochs", "2", "--source", "characters"): "source was words, and is characters",
    }.items():
        assert main(["train", str(pairs), "--out", str(out), *options]) == 2
        stderr = capsys.readouterr().err.splitlines()[-1]
        error = f"{checkpoint}: the checkpoint is of another training: {changed}"
        assert stderr == f"regard train: error: {error}; hint: --fresh trains anew"
        assert checkpoint.exists()
    checkpoint.write_bytes(b"short")
    assert main(["train", str(pairs), "--epochs", "1", "--out", str(out)]) == 2
    stderr = capsys.readouterr().err.splitlines()[-1]
    error = f"{checkpoint} is not a checkpoint: 5 bytes are too few"
    assert stderr == f"regard train: error: {error}; hint: --fresh trains anew"
    with pytest.raises(ValueError) as caught:
        Seq2Seq(epochs=1).fit(["a"], ["b"], checkpoint=checkpoint)
    assert str(caught.value) == f"{error}\n  hint: give another name, or remove the file"
    assert main(["train", str(pairs), "--epochs", "1", "--out", str(out), "--fresh"]) == 0
    assert not checkpoint.exists()


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_the_log_is_drawn(pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m"
    assert main(["train", str(pairs), "--epochs", "2", "--out", str(out)]) == 0
    *entries, last = read_log(out / "log.jsonl")
    assert set(last) == {"step", "finished"}
    assert [entry["step"] for entry in entries if "validation" in entry][-1] == last["step"]
    assert all(entry["tokens"] > 0 and entry["loss"] > 0 for entry in entries)
    assert ["tokens_per_second" in entry for entry in entries] == [entry["step"] > 1 for entry in entries]
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert main(["curve", str(out)]) == 0
    assert "loss per token" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        [
            "--family",
            "transformer",
            "--network",
            "model_size=16",
            "feedforward_size=32",
            "heads=2",
            "encoder_layers=1",
        ],
        ["--network", "style=luong", "score=general", "cell=lstm", "layers=2"],
        ["--source", "characters", "--target", "tokens"],
        ["--source", "subwords", "--target", "subwords", "--vocabulary", "30"],
        ["--subwords", "bpe", "--target", "subwords", "--vocabulary", "30"],
        ["--ema-decay", "0.9", "--patience", "2", "--dropout", "0.1"],
        ["--no-lower", "--normalization", "NFKC"],
    ],
    ids=lambda options: options[1],
)
def test_every_type_of_model_can_be_trained(options: list[str], pairs: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    assert main(["train", str(pairs), "--epochs", "2", "--out", str(out), *options]) == 0
    (translation,) = Seq2Seq.load(out / "model.safetensors").translate(["w1 w2"])
    assert translation.alignment is not None


@pytest.mark.slow
def test_two_files_and_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("w1 w2\nw2 w1\nw1\n" * 10)
    (tmp_path / "b").write_text("v1 v2\nv2 v1\nv1\n" * 10)
    (tmp_path / "links").write_text("0-0 1-1\n0-0 1-1\n0-0\n" * 10)
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    arguments = ["train", *files, "--links", str(tmp_path / "links"), "--epochs", "2"]
    assert main([*arguments, "--out", str(tmp_path / "m")]) == 0
    assert capsys.readouterr().err.startswith("30 training pairs, 30 of them")
    (tmp_path / "links").write_text("0-0 1-1\n")
    message = refused([*arguments, "--out", str(tmp_path / "n")], capsys)
    assert message == f"--links: {tmp_path / 'links'} must have a line for each of 30 pairs. Got 1 instead."
    (tmp_path / "links").write_text("0-0 1-1\n0-0 2-1\n\n" * 10)
    message = refused([*arguments, "--out", str(tmp_path / "n")], capsys)
    assert re.fullmatch(
        r".*/links, line \d+: a link must be between words of the pair, which has 2 and 2\. Got 2-1 instead\.",
        message,
    )
    message = refused(["train", *files, "--links-from", "1", "--out", str(tmp_path / "n")], capsys)
    assert message == "--links-from needs --links"
    message = refused(["train", *files, "--links-by", "words", "--out", str(tmp_path / "n")], capsys)
    assert message == "--links-by needs --links"
    for without in (["--no-attention"], ["--network", "score=none"]):
        message = refused([*arguments, *without, "--out", str(tmp_path / "n")], capsys)
        assert message == "--links needs attention, whose weights learn them"


@pytest.mark.slow
def test_links_that_are_counted_from_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs").write_text("w1 w2\tv1 v2\nw2 w1\tv2 v1\nw1\tv1\n" * 10)
    models = []
    for name, links, options in (
        ("zero", "0-0 1-1\n0-0 1-1\n0-0\n", []),
        ("one", "1-1 2-2\n1-1 2-2\n1-1\n", ["--links-from", "1"]),
        ("also", "1-1 2-2\n1-1 2-2\n1-1\n", ["--gold-from", "1"]),
    ):
        (tmp_path / "links").write_text(links * 10)
        out = tmp_path / name
        arguments = ["train", str(tmp_path / "pairs"), "--links", str(tmp_path / "links"), *options]
        assert main([*arguments, "--epochs", "2", "--out", str(out)]) == 0
        assert "no link has the number 0" not in capsys.readouterr().err
        models.append(Seq2Seq.load(out).network.parameters.flat)
    assert (models[0] == models[1]).all()
    assert (models[0] == models[2]).all()
    message = refused([*arguments[:-2], "--out", str(tmp_path / "n")], capsys)
    assert re.fullmatch(
        r".*/links, line \d+: a link .* instead; hint: if the first word .* give --links-from 1", message
    )
    (tmp_path / "links").write_text("1-1\n1-1\n\n" * 10)
    assert main([*arguments[:-2], "--epochs", "1", "--out", str(tmp_path / "o")]) == 0
    assert "/links: no link has the number 0; if the first word" in capsys.readouterr().err
    (tmp_path / "links").write_text("1-1\n1-1\n0-0\n" * 10)
    message = refused([*arguments, "--out", str(tmp_path / "n")], capsys)
    assert message.endswith(
        "/links, line 3: a link must count words from 1 on. Got one with 0 instead; hint: --links-from 0 counts from 0"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "subwords", "characters", "tokens"])
def test_output_of_align_can_guide_training(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The links are those of words, whatever a token is; a pair that was left out has a line all the same."""
    monkeypatch.chdir(tmp_path)
    Path("pairs.tsv").write_text(
        "Hello, you!\t«\u00a0Bonjour, toi\u00a0!\u00a0»\n" + "a bc\tcb d\n\te\nbc a\td cb\n" * 20
    )
    sides = ["--source", kind, "--target", kind] + (["--vocabulary", "30"] if kind == "subwords" else [])
    train_it = ["train", "pairs.tsv", *sides, "--epochs", "1", "--skip-empty", "--out"]
    assert main([*train_it, "first"]) == 0
    capsys.readouterr()
    assert main(["align", "first", "pairs.tsv"]) == 0
    Path("links").write_text(capsys.readouterr().out)
    assert main([*train_it, "second", "--links", "links"]) == 0
    by_tokens = main([*train_it, "third", "--links", "links", "--links-by", "tokens"])
    assert by_tokens == 0  # there are no fewer tokens than words


def test_a_words_links_are_those_of_all_its_tokens(tmp_path: Path) -> None:
    lines = [LineLinks(7, frozenset({(1, 0), (0, 1)}))]
    subwords = Subwords(
        Vocabulary([*SPECIAL, "\u2581", "t", "o", "i", "\u2581toi", "\u2581a", "b"]), -np.arange(11.0)
    )
    words, characters, tokens = Words.learn([]), Characters.learn([]), Tokens.learn([])

    def links(one: Tokenizer, other: Tokenizer, by: str = "words", longest: int = 50) -> list[Links]:
        pairs = [(one.read("Hi, you"), other.read("toi ab"))]
        return PairLinks(LinkFile(tmp_path, by=by), lines, longest)(Text.of(one), other, pairs)

    # Hi , you | \u2581toi \u2581a b
    assert links(words, subwords) == [{(2, 0), (0, 1), (0, 2), (1, 1), (1, 2)}]
    # H i , \u2423 y o u
    assert links(characters, tokens) == [{(4, 0), (5, 0), (6, 0), (0, 1), (1, 1), (2, 1)}]
    assert links(words, subwords, "tokens") == [{(1, 0), (0, 1)}]
    assert links(words, subwords, longest=2) == [frozenset()]
    with pytest.raises(
        ValueError, match=r", line 7: a link must be between words .* has 2 and 1\. Got 0-1 instead"
    ):
        PairLinks(LinkFile(tmp_path), lines, 50)(
            Text.of(words), words, [(words.read("a b"), words.read("c"))]
        )


@pytest.mark.slow
def test_empty_sides_may_be_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pairs"
    file.write_text("a b\tb a\n\nb\t\nb\tb\n")
    assert main(["train", str(file), "--skip-empty", "--epochs", "1", "--out", str(tmp_path / "m")]) == 0
    stderr = capsys.readouterr().err
    assert stderr.startswith(f"2 pairs left out: {file}, line 2: ")
    assert "2 training pairs" in stderr


@pytest.mark.slow
def test_training_restores_the_signal_handlers(pairs: Path, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    arguments = ["train", str(pairs), "--epochs", "1", "--out", str(tmp_path / "m")]
    assert main(arguments) == 0
    assert signal.getsignal(signal.SIGTERM) is before
    with ThreadPoolExecutor(1) as other:  # where no handler may be set
        assert other.submit(main, [*arguments, "--fresh"]).result() == 0


# -------------------------------------------------------------------------------------- what the figures mean


@pytest.mark.slow
def test_a_training_of_other_pairs_is_not_the_same(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(pairs), "--epochs", "1", "--no-attention", "--out", str(tmp_path / "m")]
    assert main(arguments) == 0
    write_pairs(pairs, seed=1)
    capsys.readouterr()
    assert "is done; hint: --fresh trains it anew" in refused(arguments, capsys)
    (tmp_path / "m" / "log.jsonl").unlink()  # its training pairs are unknown
    write_pairs(pairs)
    assert "is done; hint: --fresh trains it anew" in refused(arguments, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "characters", "tokens"])
def test_speed_is_in_the_displayed_unit(
    kind: str, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--epochs", "1", "--target", kind, "--no-attention", "--out", str(tmp_path / "m")]
    assert main(["train", str(pairs), *arguments]) == 0
    speeds = re.findall(r"[0-9,]+ (\w+)/s", capsys.readouterr().err)
    assert set(speeds) == {kind}


def test_sample_pairs_are_from_all_parts_of_a_sorted_file() -> None:
    for count in (0, 1, 200, 201, 399, 1000):
        indices = [int(source) for source, _ in sample_pairs([(str(i), "") for i in range(count)])]
        assert len(indices) == min(count, 200)
        gaps = np.diff([-1, *indices, count])
        assert gaps.min(initial=1) >= 1
        assert gaps.max(initial=0) <= max(2, count // 200)


@pytest.mark.parametrize(
    ("given", "by"),
    [
        ([], "words"),
        (["--source", "subwords"], "words"),
        (["--source", "characters", "--target", "tokens"], "tokens"),
        (["--target", "characters"], "tokens"),
        (["--target", "characters", "--links-by", "words"], "words"),
    ],
)
def test_links_are_between_tokens_where_these_are_characters(given: list[str], by: str) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    links = Pairs(parser.parse_args(["pairs", "--links", "links", *given])).links
    assert links is not None
    assert links.by == by


def test_a_sample_has_all_pairs_of_a_source() -> None:
    pairs = [(str(i % 300), str(i)) for i in range(600)]
    sample = sample_pairs(pairs)
    chosen = {source for source, _ in sample}
    assert len(chosen) == 200
    assert sample == [pair for pair in pairs if pair[0] in chosen]


@pytest.mark.slow
def test_a_training_that_was_too_short_is_reported_at_the_end(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "training without attention was short: each pair was seen {}, and 200 times is usual for so many pairs; "
    common = ["train", str(pairs), "--no-attention", "--fresh", "--out", str(tmp_path / "m")]
    assert main([*common, "--epochs", "1"]) == 0
    expected = warning.format("1 time") + "the model can become better with --epochs\n"
    assert capsys.readouterr().err.endswith(expected)
    assert main([*common, "--minutes", "1e-9"]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(
        warning.format("0.[0-9] times") + r"the model can become better with --minutes \d+", last
    )
    assert main([*common, "--epochs", "100"]) == 0
    assert "was short" not in capsys.readouterr().err
    assert main([*common, "--steps", "1"]) == 0
    assert re.search(r"the model can become better with --steps \d+\n$", capsys.readouterr().err)
    assert main([*common, "--steps", "1", "--epochs", "1"]) == 2
    assert "steps must not be given with epochs" in capsys.readouterr().err


MORE = "; 9 times is usual, which takes --minutes 15"


@pytest.mark.parametrize(
    ("a_second", "epochs_seen", "minutes", "config", "forecast_text"),
    [
        (0.1, 0.0, 0.0, TrainingConfig(minutes=3.0), "18 times in 3 minutes"),
        (0.1, 3.0, 0.5, TrainingConfig(minutes=1.5), "9 times in 1.5 minutes"),
        (0.01, 0.0, 0.0, TrainingConfig(minutes=5.0), "3 times in 5 minutes" + MORE),
        (0.1, 0.0, 0.0, TrainingConfig(epochs=12), "12 times in 2 minutes"),
        (0.1, 0.0, 0.0, TrainingConfig(epochs=12, minutes=60.0), "12 times in 2 minutes"),
        (0.1, 0.0, 0.0, TrainingConfig(epochs=2), "2 times in 0.33 minutes; 9 times is usual: see --epochs"),
        (0.01, 0.0, 0.0, TrainingConfig(epochs=9, minutes=1.0), "0.6 times in 1 minute" + MORE),
    ],
)
def test_how_often_pairs_will_be_seen(
    a_second: float, epochs_seen: float, minutes: float, config: TrainingConfig, forecast_text: str
) -> None:
    assert (
        forecast(a_second, epochs_seen, minutes, 9, config.epochs, config.minutes)
        == f"at this speed each pair will be seen {forecast_text}"
    )


@pytest.mark.parametrize(("a_step", "count"), [(1.0, 0), (2.0, 1)])
def test_the_forecast_is_printed_once_after_five_seconds(
    a_step: float, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Seq2Seq(epochs=5, attention=False)
    training = begin(model, [("a", "b"), ("b", "a")])
    first, *others = (step._replace(seconds=a_step * step.number) for step in take_steps(model, training))
    with Reporter(
        "it", model, training, tmp_path / "log.jsonl", [], first, Measures.of("words", ["a"], ["b"])
    ) as reporter:
        for step in (first, *others):
            reporter.report(step)
    assert capsys.readouterr().err.count("at this speed each pair will be seen 5 times in ") == count


@pytest.mark.slow
def test_copying_is_shown_where_it_is_not_far_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names, others = tmp_path / "names.tsv", tmp_path / "others.tsv"
    names.write_text("".join(f"n{i}\tn{i}\n" for i in range(40)), encoding="utf-8")
    others.write_text("".join(f"n{i}\tx{i}\n" for i in range(40)), encoding="utf-8")
    for path, shown in ((names, True), (others, False)):
        out = tmp_path / f"of {path.stem}"
        arguments = ["--target", "tokens", "--epochs", "1", "--test", str(path), "--out", str(out)]
        assert main(["train", str(path), *arguments]) == 0
        assert (
            "exact 100.0 %, token errors 0.0 % by copying the source\n" in capsys.readouterr().out
        ) == shown
        assert main(["evaluate", str(out), str(path), "--json", str(tmp_path / "j")]) == 0
        assert ("\ncopying the source" in capsys.readouterr().out) == shown
        assert json.loads((tmp_path / "j").read_text())["copying"]["exact"] == shown


# --------------------------------------------------------------------------------------------------- bad input


BAD_LINES = {
    b"": "{} holds no sentence pairs: it is empty",
    b"a\tb\n\n": "{}, line 2: empty; expected source TAB target",
    b"a\tb\nc\n": "{}, line 2: expected source TAB target, found 1 column",
    b"a\tb\tc\n": "{}, line 1: expected source TAB target, found 3 columns; choose two with --columns",
    b"a\tb\n\xe9\tb\n": "{}, line 2: not UTF-8 (byte 1 is 0xe9); hint: --encoding of the command"
    " names another, such as windows-1252",
}


@pytest.mark.parametrize("option", ["pairs", "--valid", "--test"])
@pytest.mark.parametrize("data", BAD_LINES)
def test_bad_pairs_end_with_one_line_and_write_nothing(
    option: str, data: bytes, pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, out = tmp_path / "bad.tsv", tmp_path / "out"
    bad.write_bytes(data)
    files = [str(bad)] if option == "pairs" else [str(pairs), option, str(bad)]
    assert refused(["train", *files, "--out", str(out)], capsys) == BAD_LINES[data].format(bad)
    assert not out.exists()


def test_the_source_file_is_not_the_target_file(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(["train", str(pairs), str(pairs), "--out", str(tmp_path / "m")], capsys)
    assert message == f"source and target must be different files. Got {pairs} and {pairs} instead."


def test_missing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    none = str(tmp_path / "none")
    assert refused(["train", none], capsys) == f"{none}: No such file or directory"
    assert refused(["translate", none], capsys) == f"{none}: No such file or directory"


def test_other_files_are_not_overwritten_by_a_model(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("thesis.safetensors", "model/model.safetensors"):
        other = tmp_path / name
        other.parent.mkdir(exist_ok=True)
        other.write_text("years of work")
        out = other if name.startswith("thesis") else other.parent
        message = refused(["train", str(pairs), "--out", str(out)], capsys)
        assert message == f"--out: {other} exists and is not a model file; nothing is overwritten"
    for text in ("years of work", "years\nof work\n"):
        log = tmp_path / "notes" / "log.jsonl"
        log.parent.mkdir(exist_ok=True)
        log.write_text(text)
        message = refused(["train", str(pairs), "--out", str(log.parent)], capsys)
        assert message == f"--out: {log} exists and is not a log of a training; nothing is overwritten"
        assert log.read_text() == text
        assert other.read_text() == "years of work"
    for name in ("curve.png", "alignment-1.png"):
        drawn = tmp_path / f"of {name}" / name
        drawn.parent.mkdir()
        drawn.write_text("years of work")
        message = refused(["train", str(pairs), "--out", str(drawn.parent)], capsys)
        assert message == f"--out: {drawn} exists, and no model next to it; nothing is overwritten"
    message = refused(["train", str(pairs), "--out", str(pairs)], capsys)
    assert message == f"--out: {pairs} is a file, not a folder; nothing is overwritten"
    out = tmp_path / "pipes"
    out.mkdir()
    os.mkfifo(out / "log.jsonl")
    message = refused(["train", str(pairs), "--out", str(out)], capsys)
    assert (
        message == f"{out / 'log.jsonl'} must be a file, or not there yet. It is not a regular file instead."
    )


BAD_OPTIONS = """
--epochs=1.5 | argument --epochs: must be an integer. Got 1.5 instead.
--learning-rate=-1 | argument --learning-rate: must be greater than 0. Got -1.0 instead.
--minutes=nan | argument --minutes: must be a number. Got 'nan' instead.
--max-tokens=0 | argument --max-tokens: must be an integer of at least 1. Got '0' instead.
--test-max-tokens=1.5 | argument --test-max-tokens: must be an integer of at least 1. Got '1.5' instead.
--network layers=7 --network layers=7 | --network: layers must be given once. Got it twice instead.
"""


@in_one_test(("options", "error"), refusals(BAD_OPTIONS))
def test_options_are_checked(options: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(["train", "pairs.tsv", *options], capsys) == error


def test_pairs_that_are_too_long_are_errors(
    pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / "long"
    long.write_text("w " * 60 + "\tw\n", encoding="utf-8")
    message = refused(["train", str(pairs), "--test", str(long), "--out", str(tmp_path / "m")], capsys)
    assert message == f"{long}: no pair has at most 50 tokens on both sides"
    message = refused(["train", str(long), "--valid", str(pairs), "--out", str(tmp_path / "m")], capsys)
    assert message == "no training pair has between 1 and 50 (max_tokens) tokens on both sides: 1 pair given"
    assert not (tmp_path / "m").exists()


# ------------------------------------------------------------------------------------------- images and vectors


def caption_training(pairs: Path, out: Path, *options: str) -> list[str]:
    return ["train", str(pairs), *SIZE, *NETWORK, "--epochs", "2", "--out", str(out), *options]


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_a_captioner_is_trained_measured_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, out = captions(tmp_path / "data", 20), tmp_path / "m"
    assert main(caption_training(pairs, out, "--epochs", "30")) == 0
    stdout, stderr = capsys.readouterr()
    counted = "18 training pairs, 18 of them with at most 50 tokens in the target; 2 others for validation"
    assert counted in stderr
    assert " with attention, on 2 held-out pairs, which also selected the epoch, beam 5" in stdout
    assert "by copying the source" not in stdout
    names = re.findall(r"^source: +(.*)$", stdout, re.MULTILINE)
    assert len(names) == 2
    assert {Path(name).parent for name in names} == {tmp_path / "data" / "pictures"}
    assert (out / "alignment-1.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "curve.png").exists()
    translation = Seq2Seq.load(out).translate([names[0]])[0]
    assert translation.grid == (2, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "unit"), [("images", "pictures"), ("vectors", "examples"), ("", "words")])
def test_progress_counts_the_sources_in_their_unit(
    kind: str, unit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make: dict[str, Callable[[Path, int], Path]] = {
        "images": captions,
        "vectors": labels,
        "": lambda folder, count: write_pairs(folder / "pairs.tsv", count),
    }
    size = {"images": SIZE, "vectors": ["--source", "vectors", "--size", "2"], "": []}[kind]
    pairs = make[kind](tmp_path, 40)
    with pairs.open("a", encoding="utf-8") as file:
        file.write(pairs.read_text().splitlines()[0] + "\n")  # a source with two targets is read once
    command = ["train", str(pairs), "--valid", str(pairs), *size, *NETWORK, "--epochs", "2"]
    assert main([*command, "--out", str(tmp_path / "m")]) == 0
    stderr = capsys.readouterr().err
    reading = re.findall(r"^reading (\w+): 40 of 40 \(100 %\), [\d,.]+ (\w+)/s, done", stderr, re.MULTILINE)
    assert reading == ([(kind, unit)] * 2 if kind else [])
    training = re.findall(r"^training: \d+ of \d+ .* [\d,.]+ (\w+)/s, done", stderr, re.MULTILINE)
    assert training == [unit]


@pytest.mark.slow
def test_the_files_of_pairs_may_be_in_different_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names are relative to the file that contains them, and absolute where they begin with a slash."""
    pairs, valid, test = (captions(tmp_path / name, count) for name, count in (("a", 6), ("b", 4), ("c", 5)))
    with test.open("a", encoding="utf-8") as file:
        file.write(f"{tmp_path / 'a' / 'pictures' / '0.png'}\tred\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["--valid", "b/pairs.tsv", "--test", "c/pairs.tsv"]
    assert main(caption_training(pairs.relative_to(tmp_path), tmp_path / "m", *arguments)) == 0
    stdout, stderr = capsys.readouterr()
    assert "6 training pairs" in stderr
    assert "4 for validation, 6 for test" in stderr
    assert "on 6 held-out pairs" in stdout
    assert valid.exists()


@pytest.mark.slow
def test_two_files_and_a_table_name_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split("\t") for line in captions(tmp_path).read_text().splitlines()]
    for side, name in enumerate(("names", "texts")):
        (tmp_path / name).write_text("".join(f"{row[side]}\n" for row in rows), encoding="utf-8")
    two = ["train", str(tmp_path / "names"), str(tmp_path / "texts"), *SIZE, *NETWORK, "--epochs", "2"]
    assert main([*two, "--out", str(tmp_path / "two")]) == 0
    table = tmp_path / "table.csv"
    lines = ["id,caption,file", *(f"{i},{row[1]},{row[0]}" for i, row in enumerate(rows))]
    table.write_text("\n".join(lines), encoding="utf-8")
    chosen = ["--columns", "file", "caption"]
    assert main(caption_training(table, tmp_path / "one", *chosen)) == 0
    one, two_files = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two_files.read_bytes()
    capsys.readouterr()
    (tmp_path / "pictures" / "1.png").unlink()
    message = bad_source(caption_training(table, tmp_path / "x", *chosen), capsys)
    assert message == f"{table}, line 3: {tmp_path / 'pictures' / '1.png'}: No such file or directory"


@pytest.mark.slow
def test_a_picture_that_changes_makes_another_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, out = captions(tmp_path), tmp_path / "m"
    assert main(caption_training(pairs, out)) == 0
    before = (out / "model.safetensors").read_bytes()
    capsys.readouterr()
    assert main(caption_training(pairs, out)) == 0
    stdout, stderr = capsys.readouterr()
    assert stdout == f"the model is in {out / 'model.safetensors'}\n"
    assert stderr.splitlines()[-1].startswith("training is done already; --fresh trains anew")
    draw(tmp_path / "pictures" / "0.png", "blue", "right")
    stdout = bad_source(caption_training(pairs, out), capsys)
    assert (
        stdout
        == f"--out: {out / 'model.safetensors'} is done; hint: --fresh trains it anew, another --out keeps it"
    )
    assert (out / "model.safetensors").read_bytes() == before


def bad_source(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a training, which may come after the progress of reading files."""
    assert main(arguments) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    lines = stderr.splitlines()
    assert not [line for line in lines[:-1] if not line.startswith("reading ")]
    assert lines[-1].startswith("regard train: error: ")
    return lines[-1].removeprefix("regard train: error: ")


BAD = {
    "missing.npy": "No such file or directory",
    "narrow.npy": " must have shape ",
    "two.npz": ".npz:NAME names an array; it has x, y",
}


@pytest.mark.parametrize("option", ["pairs", "--valid", "--test"])
@pytest.mark.parametrize("kind", ["images", "vectors"])
def test_bad_files_are_named_with_their_line_before_the_training(
    kind: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((4, 3)))
    np.save(tmp_path / "narrow.npy", np.zeros((4, 2)))
    np.savez(tmp_path / "two.npz", x=np.zeros((4, 3)), y=np.zeros((4, 3)))
    good = captions(tmp_path, name="good.tsv")
    size, first = SIZE, "pictures/0.png"
    if kind == "vectors":
        good.write_text("rows.npy\tlow\n")
        size, first = ["--source", "vectors", "--size", "3"], "rows.npy"
    bad, out = tmp_path / "bad.tsv", tmp_path / "out"
    files = [str(bad)] if option == "pairs" else [str(good), option, str(bad)]
    for name, message in BAD.items():
        bad.write_text(f"{first}\tgood\n\tno source\n{name}\tbad\n")
        printed = bad_source(["train", *files, *size, "--skip-empty", "--out", str(out)], capsys)
        assert printed.startswith(f"{bad}, line 3: {tmp_path / name}: ")
        assert message in printed
    assert not out.exists()


BAD_OPTIONS_OF_ARRAYS = """
--source images | --source images needs --size HEIGHT WIDTH: height and width in pixels, multiples of --cell
--source images --size 8 |
    --source images needs --size HEIGHT WIDTH: height and width in pixels, multiples of --cell
--source images --size 8 8 3 |
    --source images needs --size HEIGHT WIDTH: height and width in pixels, multiples of --cell
--source vectors | --source vectors needs --size N: how many numbers each has, without its position
--source vectors --size 2 2 | --source vectors needs --size N: how many numbers each has, without its position
--source images --size 9 12 | height must be a multiple of cell = 4. Got 9 instead; hint: height=12, or another cell
--source images --size 8 12 --cell 3 | cell must be a power of 2. Got 3 instead.
--source images --size 8 12 --cell 8 |
    width must be a multiple of cell = 8. Got 12 instead; hint: width=16, or another cell
--source images --size 8 12 --channels 65 | channels must be at most 64. Got 65 instead.
--size 8 12 | --size needs --source images or vectors
--channels 1 | --channels needs --source images
--cell 4 | --cell needs --source images
--order set | --order needs --source vectors
--positions 2 | --positions needs --source vectors
--source images --size 8 12 --order set | --order needs --source vectors
--source vectors --size 2 --cell 4 | --cell needs --source images
--source images --size 8 12 --links links | --links needs tokens in the source. --source images has none.
--source images --size 8 12 --lower | --lower needs tokens in the source. --source images has none.
--source vectors --size 2 --extras lengths=3 | --extras needs tokens in the source. --source vectors has none.
--source images --size 8 12 --no-lower |
    lower must not be given with a source of arrays: it is about the source's tokens.
--source vectors --size 0 | size must be at least 1. Got 0 instead.
--source vectors --size 2 --positions 4 | positions must be at most 3. Got 4 instead.
"""


@in_one_test(("options", "message"), refusals(BAD_OPTIONS_OF_ARRAYS))
def test_options_of_arrays_are_checked_before_files(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(["train", "no-such-file", *options, "--out", str(tmp_path / "m")], capsys) == message
    assert not (tmp_path / "m").exists()


def test_captions_that_are_too_long_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = captions(tmp_path)
    message = bad_source(caption_training(pairs, tmp_path / "m", "--max-tokens", "1"), capsys)
    assert message == "no training pair has between 1 and 1 (max_tokens) tokens in the target: 6 pairs given"
    message = bad_source(caption_training(pairs, tmp_path / "m", "--test-max-tokens", "1"), capsys)
    assert message == f"{pairs}: no pair has at most 1 token in the target"
