"""No cost grows with the square of a token's length: words of an attacker have hundreds of thousands of marks.

What takes such time is counted, since time itself depends on the machine: forms of Unicode are made of short texts
only, and the tokens of which edits are counted are few or short.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from types import ModuleType

import pytest

from regard.cli import main
from regard.seq2seq.corpus.pairs import read_pairs
from regard.seq2seq.corpus.spelling import families
from regard.seq2seq.evaluation.metrics import error_rate
from regard.seq2seq.sources.text.vocabulary import LONGEST_TOKEN, SPECIAL, Vocabulary

LONGEST_RUN = 1_000  # marks in a row, which are sorted by insertion
PILED = "a" + "\u0301\u0323" * 100_000


class Forms:
    """The module `unicodedata`, which refuses what takes quadratic time."""

    def __getattr__(self, name: str) -> object:
        return getattr(unicodedata, name)

    @staticmethod
    def normalize(form: str, text: str) -> str:
        runs = groupby(text, lambda character: unicodedata.combining(character) > 0)
        assert max((len([*run]) for is_mark, run in runs if is_mark), default=0) <= LONGEST_RUN
        return unicodedata.normalize(form, text)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def forms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every module of regard makes forms of Unicode by `Forms`."""
    for module in regard_modules():
        if vars(module).get("unicodedata") is unicodedata:
            monkeypatch.setattr(module, "unicodedata", Forms())


def regard_modules() -> Iterator[ModuleType]:
    """The modules of regard that are imported."""
    yield from (module for name, module in [*sys.modules.items()] if name.startswith("regard."))


@pytest.mark.slow
def test_a_pair_of_two_piled_words_is_trained_measured_translated_and_aligned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"w{i}\tA{i}\n" for i in range(30)]
    (tmp_path / "train.tsv").write_text("".join(lines), "utf-8")
    (tmp_path / "valid.tsv").write_text("".join([*lines[:12], f"{PILED}\t{PILED[1:]}b\n"]), "utf-8")
    train, valid, out = (str(tmp_path / name) for name in ("train.tsv", "valid.tsv", "run"))
    words = ["--source", "words", "--target", "words"]
    assert main(["train", train, "--valid", valid, "--steps", "2", *words, "--out", out]) == 0
    assert main(["evaluate", out, valid]) == 0
    capsys.readouterr()
    assert main(["translate", out, valid]) == 0
    assert PILED not in capsys.readouterr().out
    assert main(["align", out, valid]) == 0


def test_a_long_token_is_not_learned() -> None:
    longest = "b" * LONGEST_TOKEN
    assert Vocabulary.learn([["a", longest, longest + "b"]]).tokens == (*SPECIAL, "a", longest)


def test_edits_of_two_very_long_lines_are_as_many_as_there_can_be() -> None:
    first, second = "a" * 100_001, "a" * 100_002
    assert error_rate([first], [second], cut=list) == 1
    assert error_rate([first], [first], cut=list) == 0
    assert error_rate(["a" * 100], [first], cut=list) == 99_901 / 100_001


def test_spelling_families_do_not_depend_on_the_order_of_accents() -> None:
    piled = "walk" + "\u0301\u0323" * 5_000
    assert families(["walked", piled, "wa\u0323\u0301lking", "wa\u0301\u0323lks"]) == [
        [piled, "walked", "wa\u0323\u0301lking", "wa\u0301\u0323lks"]
    ]


def test_names_of_columns_may_be_piled(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(f"{PILED[:10_001]},En,De\n1,a,b\n", "utf-8")
    assert [*read_pairs(str(path), columns=("en", "de"))] == [("a", "b")]
