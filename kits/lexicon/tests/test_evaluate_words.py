"""The verb `evaluate` with the task "pronunciation": the error rates of words and phones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from errors import refused

from regard.cli import main


def write(name: str, *lines: str) -> str:
    Path(name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return name


def test_rates_of_words_and_phones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write("words", "read", "cat", "cat"), write("right", "R IY D", "K AE D", "K A")
    write("h", "R IY D", "K AE T")
    files = ["--hypotheses", "h", "--references", "right", "--sources", "words", "--alternatives"]
    command = ["evaluate", *files, "--task", "pronunciation"]
    assert main([*command, "--json", "it.json", "--measure", "WER"]) == 0
    out = capsys.readouterr().out
    assert ["h", "50.0", "16.7"] in [line.split() for line in out.splitlines()]
    assert "exact" not in out.split("\n\n")[1]
    (scores,) = json.loads(Path("it.json").read_text())["models"]
    assert (scores["wer"], scores["per"]) == (0.5, pytest.approx(1 / 6))
    told = refused([*command, "--measure", "bleu"], capsys)
    assert told == "--measure must be one of what is measured: wer, per. Got bleu instead."
