"""The training log: complete entries are read, whenever the writer was killed."""

from __future__ import annotations

import errno
import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.seq2seq.training.log import Log, column, columns, read_log

SRC = Path(__file__).parents[3] / "src"
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
LINES = st.lists(st.dictionaries(st.sampled_from(["loss", "learning_rate", "bleu"]), NUMBERS), max_size=6)


def write(path: Path, lines: list[dict[str, float]], resume_at: int | None = None) -> list[dict[str, float]]:
    start = 1 if resume_at is None else resume_at + 1
    entries = [{"step": step, **line} for step, line in enumerate(lines, start)]
    with Log(path, resume_at) as log:
        for entry in entries:
            log.write(**entry)
    return entries


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES)
def test_a_log_is_read_as_it_was_written(tmp_path: Path, lines: list[dict[str, float]]) -> None:
    entries = write(tmp_path / "log", lines)
    assert read_log(tmp_path / "log") == entries
    assert [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()] == entries


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES.filter(len), part=st.floats(0, 1), step=st.integers(0, 8), more=LINES)
def test_a_truncated_log_is_continued(
    tmp_path: Path, lines: list[dict[str, float]], part: float, step: int, more: list[dict[str, float]]
) -> None:
    path = tmp_path / "log"
    entries = write(path, lines)
    data = path.read_bytes()
    path.write_bytes(data[: round(part * len(data))])
    remaining = read_log(path)
    assert remaining == entries[: len(remaining)]
    assert len(remaining) == path.read_bytes().count(b"\n")
    added = write(path, more, resume_at=step)
    assert read_log(path) == [entry for entry in remaining if entry["step"] <= step] + added


@pytest.mark.slow
def test_lines_are_flushed(tmp_path: Path) -> None:
    program = f"""
import os, signal
from regard.seq2seq.training.log import Log
log = Log({str(tmp_path / "log")!r})
log.write(step=1, loss=2.0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(SRC)}, check=False)
    assert done.returncode == -signal.SIGKILL
    with (tmp_path / "log").open("a") as log:
        log.write('{"step": 2, "lo')  # a line longer than the system writes at once
    assert read_log(tmp_path / "log") == [{"step": 1, "loss": 2.0}]


def test_a_new_log_replaces_an_old_one(tmp_path: Path) -> None:
    write(tmp_path / "log", [{}, {}])
    write(tmp_path / "log", [{"loss": 1.0}])
    assert read_log(tmp_path / "log") == [{"step": 1, "loss": 1.0}]
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    write(tmp_path / "other", [{}], resume_at=7)  # there is nothing to continue
    assert read_log(tmp_path / "other") == [{"step": 8}]


def test_numbers_of_numpy_are_written_and_none_is_left_out(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.write(
            step=np.int64(3),
            loss=np.float32(0.5),
            validation=None,
            bleu=math.nan,
            learning_rate=math.inf,
            text="é",
        )
    text = (tmp_path / "log").read_text(encoding="utf-8")
    assert text == '{"step": 3, "loss": 0.5, "bleu": null, "learning_rate": null, "text": "é"}\n'


@pytest.mark.parametrize(
    "line", [b"loss", b"[1]", b"{}", b'{"step": "1"}', b'{"step": true}', b"\xff", b"[" * 100_000, b""]
)
def test_invalid_logs(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(b'{"step": 1}\n' + line + b"\n")
    message = f"{path}, line 2: expected a JSON object with a step, as regard train writes them"
    with pytest.raises(ValueError) as caught:
        read_log(path)
    assert str(caught.value) == message
    with pytest.raises(ValueError) as caught:
        Log(path, resume_at=1)
    assert str(caught.value) == message
    assert path.read_bytes() == b'{"step": 1}\n' + line + b"\n"


def test_a_column_has_the_lines_with_both_values() -> None:
    entries = [{"step": 1, "loss": 2.0}, {"step": 2}, {"step": 3, "loss": None}, {"step": 4, "loss": 1}]
    table = columns(entries, ["step", "seconds", "loss"])
    np.testing.assert_array_equal(column(table, "loss"), [[1, 4], [2, 1]])
    assert column(table, "loss", "seconds").shape == (2, 0)
    assert column(columns([], ["step", "loss"]), "loss").shape == (2, 0)


@pytest.mark.parametrize("number", [math.inf, math.nan, 1e308, 10**400, -1e308])
def test_a_column_has_finite_numbers_only(number: float) -> None:
    entries = [{"step": 1, "loss": number}, {"step": 2, "loss": -2.0}, {"step": -3, "loss": 1.0}]
    table = columns([*entries, {"step": number, "loss": 1.0}], ["step", "loss"])
    np.testing.assert_array_equal(column(table, "loss"), [[2], [-2]])


def test_an_error_of_writing_names_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

    path = tmp_path / "log.jsonl"
    monkeypatch.setattr(Path, "open", lambda *_, **__: Full())
    log = Log(path)
    with pytest.raises(OSError, match="No space left on device") as caught:
        log.write(step=1)
    assert caught.value.filename == str(path)
