"""Words and phones of piled accents, and entries that a spreadsheet would run."""

from __future__ import annotations

from pathlib import Path

from regard.seq2seq import Seq2Seq
from regard_lexicon import Lexicon, Pronouncer, prepare, write
from regard_lexicon.commands.review import _table
from regard_lexicon.inflections import Irregular
from regard_lexicon.reviewing import Doubt

PILED = "a" + "\u0301\u0323" * 5_000


def test_a_word_of_a_pronouncer_may_be_piled() -> None:
    model = Seq2Seq(epochs=1, source="characters", target="tokens").fit(["ab", "ba"], ["A B", "B A"])
    pronouncer = Pronouncer(model, Lexicon([("a", ["X"])]))
    assert pronouncer(PILED).source == "skipped"
    assert pronouncer.codepoints(f"a {PILED}")[0][0] == ord("X")


def test_a_pronunciation_that_cannot_be_read_again_is_left_out() -> None:
    prepared = prepare(Lexicon([("a", ["a" + "\u0301\u0323" * 49] * 20), ("b", ["b"])]), "misaki")
    assert ([*prepared.lexicon], prepared.lost) == (["b"], ("a",))
    assert "at most 1,000 characters" in prepared.left_out[0].reason


def test_a_table_of_doubts_has_no_formula() -> None:
    doubt = Doubt("=1+1", ("@", "b"), ("-", "b"), 1.5, 0.25)
    entry = "=1+1", ("@", "b")
    assert [*_table([doubt], {entry: "line 7"}, {entry: Irregular(3, 0.1)})][
        1
    ] == "7\t'=1+1\t'@ b\t'- b\t1.500\t0.2500\t3"


def test_a_list_of_what_is_left_out_has_no_formula(tmp_path: Path) -> None:
    write(Lexicon([("a", ["b"]), ("=x", ["@"])]), tmp_path / "words.txt", "sherpa-kokoro", symbols="b")
    listed = (tmp_path / "words.txt.left-out.tsv").read_text("utf-8").splitlines()
    assert listed[1].startswith("'=x\t'@\t")
