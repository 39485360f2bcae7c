"""Ctrl-C while the command starts: it ends the process, and prints nothing."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.cli import main

SRC = Path(__file__).parents[2] / "src"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows can't send a process SIGINT alone")

# Python runs a module of this name before all others.
SITE = """\
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT"]:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
"""
SCRIPT = "import sys\nfrom regard.cli import main\nsys.exit(main())\n"


@pytest.fixture
def commands(tmp_path: Path) -> list[list[str]]:
    """The command as a module, and as the script that an installer writes."""
    script = tmp_path / "regard"
    script.write_text(SCRIPT, "utf-8")
    return [[sys.executable, *start, "explain"] for start in (["-m", "regard"], [str(script)])]


def interrupted(command: list[str], folder: Path, name: str) -> tuple[int, str]:
    """The exit status and standard error of a process that gets Ctrl-C when it imports a module."""
    (folder / "sitecustomize.py").write_text(SITE, "utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{SRC}", "INTERRUPT": name}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=1800, check=False)
    return done.returncode, done.stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("numpy", "numpy.linalg", "argparse", "regard.mask", "regard.kernels.native", "regard.cli"),
        *("regard._suggest", "regard.commands.explain", "regard.show.explanation"),
    ],
)
def test_an_import_is_interrupted_in_silence(commands: list[list[str]], tmp_path: Path, name: str) -> None:
    for command in commands:
        status, err = interrupted(command, tmp_path, name)
        assert err == ""
        assert status in (-signal.SIGINT, 128 + signal.SIGINT)


@pytest.mark.slow
def test_a_program_that_imports_the_package_keeps_its_traceback(tmp_path: Path) -> None:
    status, err = interrupted([sys.executable, "-c", "import regard"], tmp_path, "regard.mask")
    assert "KeyboardInterrupt" in err
    assert status != 0


@pytest.mark.slow
def test_no_moment_of_the_start_prints_a_traceback_of_this_package(commands: list[list[str]]) -> None:
    """What Python does before the first module of the package has run, its import included, is Python's own affair."""
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    before = time.monotonic()
    subprocess.run(commands[0], env=environment, capture_output=True, timeout=1800, check=True)
    whole = time.monotonic() - before
    for part, command in zip(range(24), itertools.cycle(commands), strict=False):
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            time.sleep(whole * part / 24)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=1800)
        frames = re.findall(rf'File "{re.escape(str(SRC / "regard"))}/(\w+)\.py"', err.decode())
        assert {*frames} <= {"__init__", "_start"}, part
        assert "_start" in err.decode() or not frames, part


def test_what_an_interrupted_class_raises_is_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until Python 3.11, `__set_name__` of a class being imported raises RuntimeError from it."""

    def run(_: object) -> int:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("regard.commands.explain.run", run)
    assert main(["explain"]) == 130
    assert capsys.readouterr().err == ""
