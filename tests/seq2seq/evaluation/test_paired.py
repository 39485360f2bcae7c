"""The paired bootstrap: sacrebleu's own numbers, from its command line and its TER."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from errors import error

from regard import cli
from regard.seq2seq.evaluation import metrics, paired

pytest.importorskip("sacrebleu", reason="BLEU needs sacrebleu")

WORDS = ["the", "a", "red", "old", "house", "cat", "dog", "sees", "finds", "under", "over", "tree", "river"]


def lines_of(count: int, wrong: float, seed: int, least: int = 4) -> tuple[list[str], list[str]]:
    """References, and hypotheses in which words are replaced at random."""
    rng = np.random.default_rng(seed)
    references = [rng.choice(WORDS, rng.integers(least, 12)) for _ in range(count)]
    rng = np.random.default_rng(seed + 1 + int(100 * wrong))
    hypotheses = [np.where(rng.random(len(line)) < wrong, rng.choice(WORDS), line) for line in references]
    return [" ".join(line) for line in references], [" ".join(line) for line in hypotheses]


def test_rates_are_those_of_sacrebleu_for_single_words() -> None:
    """Its translation error rate is ours where lines are single words, which can't be moved."""
    from sacrebleu.metrics.ter import TER
    from sacrebleu.significance import PairedTest

    rng = np.random.default_rng(0)
    references = list(rng.choice(WORDS, 60))
    systems = [list(np.where(rng.random(60) < wrong, "x", references)) for wrong in (0.5, 0.3, 0.45)]
    named = [(str(i), lines) for i, lines in enumerate(systems)]
    _, scores = PairedTest(named, {"ter": TER()}, [references], "bs", 1000)()
    computed = paired.of_rates([metrics.error_lines(lines, references) for lines in systems])
    assert [x.p for x in computed[1:]] == [x.p_value for x in scores["TER"][1:]]
    for ours, theirs in zip(computed[1:], scores["TER"][1:], strict=True):
        np.testing.assert_allclose(
            [100 * ours.mean, 100 * ours.interval], [theirs.mean, theirs.ci], rtol=1e-5
        )
    assert computed[1].p < 0.05 < computed[2].p  # 0.5 and 0.3 differ, 0.5 and 0.45 don't


@pytest.mark.slow
def test_the_verb_prints_what_the_command_of_sacrebleu_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (references, first), (_, second) = lines_of(50, 0.3, 3), lines_of(50, 0.2, 3)
    for name, lines in {"references": references, "first": first, "second": second}.items():
        Path(f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    compared = ["--hypotheses", "first.txt", "second.txt", "--references", "references.txt"]
    assert cli.main(["evaluate", *compared, "--paired-bs", "--json", "numbers.json"]) == 0
    printed = capsys.readouterr().out
    assert "paired bootstrap of 1,000 samples; p: of the difference from first" in printed
    models = json.loads(Path("numbers.json").read_text(encoding="utf-8"))["models"]
    command = [sys.executable, "-m", "sacrebleu", "references.txt", "-i", "first.txt", "second.txt"]
    options = ["-m", "bleu", "chrf", "--paired-bs", "--format", "text", "-w", "4"]
    theirs = subprocess.run([*command, *options], capture_output=True, check=True, text=True).stdout
    numbers = [tuple(map(float, pair)) for pair in re.findall(r"\((\S+) ± (\S+)\)", theirs)]
    rates = list(map(float, re.findall(r"p = (\S+)\)", theirs)))
    measures = [model["paired"][key] for model in models for key in ("bleu", "chrf")]
    assert [(x["mean"], x["interval"]) for x in measures] == [
        pytest.approx(pair, abs=1e-3) for pair in numbers
    ]
    assert [x["p"] for x in measures[2:]] == pytest.approx(rates, abs=1e-4)
    assert set(models[1]["paired"]) == {"bleu", "chrf", "exact", "errors"}


def test_a_single_system_has_nothing_to_be_compared_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.txt").write_text("a\n", encoding="utf-8")
    name = str(tmp_path / "lines.txt")
    assert cli.main(["evaluate", "--hypotheses", name, "--references", name, "--paired-bs"]) == 2
    assert "--paired-bs compares at least two models" in capsys.readouterr().err


def test_equal_systems_do_not_differ() -> None:
    references, lines = lines_of(20, 0.3, 1)
    rates = [metrics.error_lines(each, references) for each in (lines, lines)]
    compared = [paired.of_sacrebleu([lines, lines], references, name) for name in ("bleu", "chrf")]
    assert [second.p for _, second in [*compared, paired.of_rates(rates)]] == [1, 1, 1]
    nothing_right = [(0.0, 1.0)] * 5
    assert paired.of_rates([nothing_right, nothing_right])[1] == (0, 0, 1)


def test_an_undefined_measure_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """BLEU of references that are shorter than four words."""
    names = [str(tmp_path / name) for name in ("right", "wrong", "references")]
    for name, text in zip(names, ("a\nb\n", "a\nc\n", "a\nb\n"), strict=True):
        Path(name).write_text(text, encoding="utf-8")
    compared = ["--hypotheses", *names[:2], "--references", names[2], "--paired-bs"]
    assert cli.main(["evaluate", *compared]) == 0
    head = capsys.readouterr().out.split("paired bootstrap")[1].splitlines()[1]
    assert "chrF ±" in head
    assert "BLEU" not in head


def test_references_must_be_as_many_as_lines() -> None:
    assert "references must be as many as hypotheses" in error(
        ValueError, paired.of_sacrebleu, [["a"], ["b"]], ["a", "b"], "bleu"
    )
