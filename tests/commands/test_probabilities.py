"""The options --probabilities and --threshold: of the best answer, where the model is calibrated."""

from __future__ import annotations

from pathlib import Path

import pytest
from errors import refused

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.decoding.calibration import Calibration

CALIBRATION = Calibration(0.25, 1.0, 0.5, 5, 40, -1e3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned little, and is calibrated."""
    path = tmp_path_factory.mktemp("trained") / "m.safetensors"
    one = Seq2Seq(epochs=2).fit(["a b", "b"], ["b a", "b"])
    one.save(path.with_name("plain.safetensors"))
    one.calibration = CALIBRATION
    one.save(path)
    return path


@pytest.fixture(scope="module")
def probabilities(model: Path) -> list[float]:
    """The probabilities of two lines, by their own candidates."""
    one = Seq2Seq.load(model)
    return [CALIBRATION(one.ranked_logs(several)) for several in one.candidates(["a b", "b"])]


@pytest.fixture
def lines(tmp_path: Path) -> str:
    path = tmp_path / "lines.txt"
    path.write_text("a b\n\nb\n" + "a " * 1001 + "\n", "utf-8")
    return str(path)


def translated(arguments: list[object], capsys: pytest.CaptureFixture[str]) -> tuple[list[list[str]], str]:
    """The columns of each line, and the last line of standard error."""
    assert main(["translate", *map(str, arguments)]) == 2  # one line is too long
    out, err = capsys.readouterr()
    return [line.split("\t") for line in out.splitlines()], err.splitlines()[-1]


def test_the_best_answer_of_each_line_has_its_probability(
    model: Path, lines: str, probabilities: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    plain, _ = translated([model, lines], capsys)
    rows, _ = translated([model, lines, "--probabilities"], capsys)
    shown = [f"{probability:.4f}" for probability in probabilities]
    assert [row[0] for row in rows] == [shown[0], "", shown[1], ""]
    assert [row[1:] for row in rows] == plain


def test_other_answers_have_none(
    model: Path, lines: str, probabilities: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    plain, _ = translated([model, lines, "--n-best", "3"], capsys)
    rows, _ = translated([model, lines, "--n-best", "3", "--probabilities"], capsys)
    assert [[*row[:2], *row[3:]] for row in rows] == plain
    first = {number: i for i, (number, *_) in reversed([*enumerate(rows)])}
    assert [i for i, row in enumerate(rows) if row[2]] == [first["1"], first["3"]]
    assert rows[0][2] == f"{probabilities[0]:.4f}"


def test_lines_below_the_threshold_are_empty_and_counted(
    model: Path, lines: str, probabilities: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    plain, _ = translated([model, lines], capsys)
    for least, dropped in ((0.0, 0), (max(probabilities), 1), (1.0, 2)):
        rows, last = translated([model, lines, "--threshold", repr(least)], capsys)
        below = [probability < least for probability in probabilities]
        assert rows == [[""] if below[0] else plain[0], [""], [""] if below[1] else plain[2], [""]]
        assert last.startswith(f"{dropped} of 2 lines ")
    rows, _ = translated([model, lines, "--threshold", "1", "--n-best", "2"], capsys)
    assert rows == [["1", "", ""], ["2", "0.0000", ""], ["3", "", ""], ["4", "", ""]]


@pytest.mark.parametrize("option", ["--probabilities", "--threshold=0.5"])
def test_a_model_without_calibration_is_an_error(
    option: str, model: Path, lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = model.with_name("plain.safetensors")
    message = refused(["translate", str(plain), lines, option], capsys)
    assert message.startswith(f"{option.partition('=')[0]}: {plain} is not calibrated")
    ensemble = refused(["translate", str(model), lines, option, "--ensemble", str(plain)], capsys)
    assert "ensemble" in ensemble


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("--probabilities --beam 4", "--beam 5"),
        ("--probabilities --sample 2", "--sample"),
        ("--threshold 0.5 --length-penalty 0.5", "--length-penalty"),
        ("--threshold 0.5 --coverage-penalty 0.5", "--coverage-penalty"),
        ("--threshold 1.5", "from 0 to 1"),
        ("--threshold nan", "from 0 to 1"),
    ],
)
def test_a_search_that_is_not_calibrated_is_refused(
    given: str, reason: str, model: Path, lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reason in refused(["translate", str(model), lines, *given.split()], capsys)


@pytest.mark.slow
def test_train_calibrates_on_held_out_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model of lines, without a dictionary; the same command leaves it as it is."""
    numbers = [f"{number:03}" for number in range(800)]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{' '.join(x)}\t{' '.join(x[::-1])}\n" for x in numbers), "utf-8")
    command = ["train", str(path), "--steps", "2", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    assert (
        "probabilities are calibrated on 40 held-out sources: calibration error " in capsys.readouterr().err
    )
    calibration = Seq2Seq.load(tmp_path / "run").calibration
    assert calibration is not None
    assert calibration.answers == 40  # a twentieth, which also selected the epoch
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert main(command) == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


@pytest.mark.slow
@pytest.mark.threads
@pytest.mark.parametrize("tokens", ["words", "characters", "tokens", "subwords"])
def test_train_does_not_calibrate_on_lines_that_it_learned(tmp_path: Path, tokens: str) -> None:
    """Also where the training lines were read before the tokens were learned that the test lines have."""
    path = tmp_path / "pairs.tsv"
    words = ["sleeps", "eating", "slowly", "walking", "garden", "home"]
    lines = {f"{one} {two} {three}" for one in words for two in words for three in words[:2]}
    path.write_text("".join(f"{line}\t{line.upper()}\n" for line in sorted(lines)), "utf-8")
    sides = ["--source", tokens, "--target", tokens]
    given = ["--valid", str(path), "--test", str(path)]
    assert main(["train", str(path), *given, *sides, "--steps", "2", "--out", str(tmp_path / "run")]) == 0
    assert Seq2Seq.load(tmp_path / "run").calibration is None
