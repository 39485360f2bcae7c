"""The text of an error, word for word, of a call, of a table of calls, and of a command."""

from __future__ import annotations

import re
import shlex
from textwrap import dedent
from typing import Any

import pytest

from regard.cli import main


def error(kind: type[Exception], function: Any, *args: Any, **options: Any) -> str:
    """The text of the error that a call raises, which is of exactly this type."""
    with pytest.raises(kind) as caught:
        function(*args, **options)
    assert type(caught.value) is kind
    return str(caught.value)


def transcript(table: str) -> list[tuple[str, str]]:
    """The calls of a table, and below each, indented, the error as Python prints it; # begins a comment."""
    rows = re.findall(r"^([^\s#].*)\n((?: +.*\n)+)", table, re.MULTILINE)
    return [(call, dedent(text).rstrip("\n")) for call, text in rows]


def assert_raises(call: str, text: str, names: dict[str, Any]) -> None:
    """The call raises the error of a transcript, of exactly this type and with exactly this text."""
    with pytest.raises((ValueError, TypeError)) as caught:
        eval(call, names)
    assert f"{type(caught.value).__name__}: {caught.value}" == text, call


def refusals(table: str) -> list[tuple[list[str], str]]:
    """The rows `arguments | error` of a table; an indented line continues the one before."""
    rows = re.sub(r"\n +", " ", table.strip()).splitlines()
    return [
        (shlex.split(arguments), error.strip()) for arguments, error in (row.split("|", 1) for row in rows)
    ]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], before: str = "") -> str:
    """The one line of an error of a command, after nothing else or after some output."""
    assert main(arguments) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == before
    assert stderr.count("\n") == 1
    prefix = f"regard {arguments[0]}: error: "
    assert stderr.startswith(prefix)
    return stderr.removeprefix(prefix).removesuffix("\n")
