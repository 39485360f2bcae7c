"""The page for lecturers: its commands run, and print the answers of its exercises, which were computed by hand."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from regard.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "teach.md").read_text(encoding="utf-8").replace("\\\n", "")
COMMANDS = re.findall(r"^regard (.*)$", PAGE, flags=re.MULTILINE)
EXERCISES = dict(re.findall(r"^\*\*(\d)\. .*?^regard (.*?)$", PAGE, flags=re.MULTILINE | re.DOTALL))
# Lines of numbers, each of which must be printed.
ANSWERS = {
    "1": ["bank 2 3", "bank 0.33333 0.66667", "bank 1.00000 1.66667"],
    "2": ["bank 4 6", "bank 0.20000 0.80000", "bank 1.00000 1.80000"],
    "3": ["river 1.00000 -", "river 1.00000 1.00000"],
    "4": ["bank 3 2", "bank 1.00000 1.66976", "river 1.00000 1.50000"],  # e^(1/sqrt 2) = 2.02811 : 1
}


def arguments(command: str) -> list[str]:
    """The arguments of a command, without the file that a shell writes its output to."""
    return shlex.split(command.split(" > ")[0])


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments(command)) == 0


@pytest.mark.parametrize("number", ANSWERS)
def test_a_command_prints_the_answer(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(EXERCISES[number])) == 0
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert set(ANSWERS[number]) <= set(printed)
