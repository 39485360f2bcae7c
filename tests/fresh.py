"""Programs in a Python of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from typing import Any


def fresh(
    code: str, *arguments: str, warnings: str = "default", stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program, indented or not, and return its output and its status; warnings as `-W` takes them."""
    quiet = ["-W", "ignore:regard was installed without its native kernel:RuntimeWarning"]
    command: list[Any] = [sys.executable, "-W", warnings, *quiet * (warnings == "error"), "-c", dedent(code)]
    return subprocess.run(
        [*command, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        env=os.environ | environment,
    )


def printed(code: str, *arguments: str, **options: str) -> str:
    """The output of a program that must not fail, nor warn."""
    done = fresh(code, *arguments, **{"warnings": "error", **options})
    assert done.returncode == 0, done.stderr
    return done.stdout
