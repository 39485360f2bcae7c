"""The command line itself: what it suggests, how signals end it, and what it reports where nothing can be written."""

from __future__ import annotations

import argparse
import os
import pkgutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from one_test import in_one_test

from regard import _signals, cli
from regard.cli import main

SRC = Path(__file__).parents[2] / "src"
FULL = Path("/dev/full")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of an error."""
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.removesuffix("\n")


# ------------------------------------------------------------------------------------------------- suggestions

MEANT = {
    "translate m --beam-size 5": "did you mean --beam?",  # OpenNMT, Marian
    "translate m -beam_size 5": "did you mean --beam?",
    "translate m --beam-size=5": "did you mean --beam?",
    "translate --n_best 5 m": "did you mean --n-best?",
    "translate m --nbest": "did you mean --n-best?",  # fairseq
    "translate m -o out.txt": "the result is written to standard output: > FILE",
    "translate m --lenpen=1": "did you mean --length-penalty?",
    "translate m --gpu 0": "everything runs on the processor",
    "align m p --output x": "the result is written to standard output: > FILE",
    "evaluate m t --metrics bleu": "did you mean --measure?",
    "evaluate m t --gold-form 1": "did you mean --gold-from?",
    "curve log --plot x.png": "did you mean --png?",
    "explain --wrods 1": "did you mean --words?",
    "train p -o out": "did you mean --out?",
    "train p --output out": "did you mean --out?",
    "train --batch-size 64": "did you mean --batch-tokens?",
    "train p --rate 0.1": "did you mean --learning-rate?",
    "train p --max-steps 100": "did you mean --steps?",  # Hugging Face
    "train p --max-update 100": "did you mean --steps?",  # fairseq
    "train p --after-batches 100": "did you mean --steps?",  # Marian
    "train p --lr 0.1": "did you mean --learning-rate?",
    "train p --recipe dropout=0.1": "each option of training has a name of its own: --learning-rate X, --dropout X",
    "train p --max_tokens=30": "did you mean --max-tokens?",
    "train p --MAX_TOKENS 30": "did you mean --max-tokens?",
    "train p -epochs 3": "did you mean --epochs?",
    "train p \N{EM DASH}epochs 3": "did you mean --epochs?",
    "train p \N{EN DASH}epochs=3": "did you mean --epochs?",
    "show x --overwrite": "did you mean --force?",
    "train p --vocab 300": "did you mean --vocabulary?",
    "train p --norm NFC": "did you mean --normalization?",
    "train p --smoothing 0.1": "did you mean --label-smoothing?",
    "train p --hidden_size 64": "did you mean --network encoder=N decoder=N?",
    "train --train-sets a b": "files are named without an option",
    "train p --resume": "the same command resumes from its checkpoint by itself",
    "--vresion": "did you mean --version?",
    "--minutes 3 train p": "options come after the verb",
    "--minutes=3 train p": "options come after the verb",
}


@in_one_test("command", MEANT)
def test_an_unknown_option_suggests_the_right_one(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    err = refused(command.split(), capsys)
    assert ": error: unrecognized arguments: " in err
    assert err.endswith(f"; {MEANT[command]}")


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("trian p", "train"),
        ("eval m t", "evaluate"),
        ("Translate m", "translate"),
        ("predict m", "translate"),
        ("train p --family transfomer", "transformer"),
        ("train p --source chars", "characters"),
        ("evaluate m t --tokenize ZH", "zh"),
    ],
)
def test_a_misspelled_verb_or_value_suggests_the_right_one(
    command: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(command.split(), capsys).endswith(f"; did you mean {meant}?")


@pytest.mark.parametrize("command", ["translate m --nope", "translate m --x=1", "train p --zzz 1"])
def test_nothing_is_suggested_where_no_name_is_similar(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = command.split()[2]
    assert refused(command.split(), capsys).endswith(f"error: unrecognized arguments: {option}")


def test_a_file_whose_name_begins_with_a_dash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-cat.png").touch()
    message = refused(["caption", "m", "-cat.png", "--nope"], capsys)
    assert message.endswith(
        ": error: unrecognized arguments: -cat.png --nope; ./-cat.png is the file of this name"
    )


def test_the_hint_of_an_error_is_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["train", "p", "--source", "images", "--size", "9", "12"], capsys)
    rule = "height must be a multiple of cell = 4. Got 9 instead"
    assert message == f"regard train: error: {rule}; hint: height=12, or another cell"


def test_numbers_and_text_after_an_option_are_not_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--words", "-1 0; 0 1", "--scale=-2"]) == 0
    capsys.readouterr()
    assert refused(["train", "p", "--seed", "-1"], capsys).endswith("Got -1 instead.")
    assert main(["train", "--help", "--nope"]) == 0


def taking_values(verb: str) -> list[argparse.Action]:
    """The options of a verb that are followed by values."""
    parser = argparse.ArgumentParser()
    pkgutil.resolve_name(cli.VERBS[verb][0]).add_arguments(parser)
    return [action for action in parser._actions if action.option_strings and action.nargs != 0]


@pytest.mark.slow
@pytest.mark.parametrize("value", ["-1", "-1e-3", "-1,0;0,1", "-x"])
@pytest.mark.parametrize("verb", cli.VERBS)
def test_a_value_that_begins_with_a_minus_is_that_behind_an_equals_sign(
    verb: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For every option: the same result, error or output. Without the mark, argparse takes some for options."""
    monkeypatch.chdir(tmp_path)
    files = [] if verb in ("explain", "show") else ["no-such-file"]
    for action in taking_values(verb):
        option, results = action.option_strings[0], []
        if action.nargs == "?" and value.startswith(("-x", "-1,")):
            continue  # its value may be left out, so that this is an option
        for arguments in ([option, value], [f"{option}={value}"]):
            count = action.nargs if isinstance(action.nargs, int) else 1
            if count == 1 or len(arguments) == 2:
                status = main([verb, *files, *arguments, *[value] * (count - 1)])
                results.append((status, *capsys.readouterr()))
            for file in tmp_path.iterdir():
                file.unlink()
        assert len(set(results)) == 1, option
        assert not any(text in results[0][2] for text in ("unrecognized", "expected", "\0", "x00")), results


def test_values_that_begin_with_a_minus_are_numbers_of_any_form(capsys: pytest.CaptureFixture[str]) -> None:
    weights = [part for side in ("query", "key", "value") for part in (f"--{side}-weight", "-1,0;0,-1")]
    words = ["explain", "--words", "-1,0;0,1", *weights, "--scale"]
    outputs = []
    for scale in ("-1e-3", "-.001", "-0.001"):
        assert main([*words, scale]) == 0
        outputs.append(capsys.readouterr())
    assert len(set(outputs)) == 1
    assert "-0.001" in outputs[0].out
    assert refused(["explain", "--scale", "--words", "1 0; 0 1"], capsys).endswith(
        "--scale: expected one argument"
    )
    assert refused(["explain", "--window", "-1", "2"], capsys).endswith("Got '-1' instead.")


@in_one_test("digits", ["\u0661", "\uff11", "\u06f1", "\u00b9", "1_0"])
def test_digits_of_other_scripts_are_refused_wherever_a_number_is_read(
    digits: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also digits with underscores between them: int() and float() read all of these."""
    table, options = tmp_path / "numbers.csv", ("--row", "--scale", "--at", "--digits")
    table.write_text(f"3,{digits}\n3,4\n", "utf-8")
    for arguments in [[option, digits] for option in options] + [
        ["--words", f"0 {digits}; 0 1"],
        [str(table)],
    ]:
        assert digits in refused(["explain", *arguments], capsys)
    for arguments in (
        ["train", "p", "--seed"],
        ["train", "p", "--links-from"],
        ["evaluate", "m", "t", "--gold-from"],
    ):
        assert digits in refused([*arguments, digits], capsys)


# ----------------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize("number", [signal.SIGINT, *_signals.ENDING])
def test_a_signal_ends_a_verb_with_128_and_its_number(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(number)
    monkeypatch.setattr("regard.commands.explain.run", lambda _: signal.raise_signal(number))
    assert main(["explain"]) == 128 + number
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with nohup."""
    number = _signals.ENDING[-1]
    before = signal.signal(number, signal.SIG_IGN)
    try:
        monkeypatch.setattr("regard.commands.explain.run", lambda _: signal.raise_signal(number) or 0)
        assert main(["explain"]) == 0
    finally:
        signal.signal(number, before)


# ------------------------------------------------------------------------------------------------- a full disk


def run_into(stdout: Path | None, stderr: Path | None, *arguments: str) -> tuple[int, str]:
    """The exit status of a command with its streams in files, and standard error."""
    environment = {name: os.environ[name] for name in os.environ if name != "PYTHONUNBUFFERED"} | {
        "PYTHONPATH": str(SRC)
    }
    command = [sys.executable, *arguments]
    with ExitStack() as stack:
        streams = [
            subprocess.PIPE if path is None else stack.enter_context(path.open("wb"))
            for path in (stdout, stderr)
        ]
        done = subprocess.run(
            command, env=environment, stdout=streams[0], stderr=streams[1], timeout=1800, check=False
        )
    return done.returncode, "" if done.stderr is None else done.stderr.decode()


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("command", ["--help", "--version", "explain", "curve --help"])
def test_output_that_cannot_be_written_is_named(command: str, buffered: bool) -> None:
    how = ["-m", "regard"] if buffered else ["-u", "-m", "regard"]
    verb = "" if command.startswith("-") else f" {command.split()[0]}"
    status, err = run_into(FULL, None, *how, *command.split())
    assert (status, err) == (2, f"regard{verb}: error: standard output: No space left on device\n")
    assert run_into(FULL, FULL, *how, *command.split())[0] == 2


@pytest.mark.slow
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
def test_an_error_that_cannot_be_written_is_an_error() -> None:
    assert run_into(None, FULL, "-m", "regard", "explain", "--nope")[0] == 2
    assert run_into(None, FULL, "-m", "regard", "curve", "no-such-file")[0] == 2


def test_an_error_of_a_file_keeps_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise OSError(28, "No space left on device", "mine.json")

    monkeypatch.setattr("regard.commands.explain.run", fail)
    assert refused(["explain"], capsys) == "regard explain: error: mine.json: No space left on device"
    assert cli._is_of_output(OSError(2, "No such file or directory")) is False
