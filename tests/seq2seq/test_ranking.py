"""The place of a hypothesis and its share agree, in every result that has both."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unsure import ASKED, falls, translators

from regard.cli import main
from regard.seq2seq.translator import Translation, Translator


@pytest.fixture
def models() -> dict[str, Translator]:
    """Models with and without a reranker."""
    return translators("lengths")


@pytest.fixture(params=["plain", "reranked", "ensemble"])
def model(models: dict[str, Translator], request: pytest.FixtureRequest) -> Translator:
    return models[request.param]


@pytest.mark.slow
def test_the_order_is_not_that_of_the_network_alone(models: dict[str, Translator]) -> None:
    """Otherwise the tests below could not fail."""
    for name in ("plain", "reranked"):
        found = models[name].candidates(ASKED)
        assert not all(falls([one.log_probability for one in several]) for several in found)


@pytest.mark.slow
def test_shares_fall_and_add_up(model: Translator) -> None:
    for several in model.candidates(ASKED):
        shares = model.shares(several)
        assert falls(shares)
        assert sum(shares) == pytest.approx(1)
        mass = sum(math.exp(one.log_probability) for one in several)
        assert np.exp(model.ranked_logs(several)) == pytest.approx(mass * np.array(shares))
    assert model.shares([]) == []


def answer(phones: str, score: float, log: float) -> Translation:
    tokens = tuple(phones.split())
    return Translation(phones, tokens, (), score, None, log, ids=tuple(range(4, 4 + len(tokens))))


class Given(Translator):
    """A translator of known answers."""

    model: Any = None
    attention = False


@pytest.mark.parametrize(
    ("weight", "answers", "shares"),
    [
        # Mean log-probabilities times the three tokens of the first, whatever the length of the second.
        (None, [answer("A B", -0.5, -1.5), answer("A", -1.0, -2.0)], [-1.5, -3.0]),
        (0.0, [answer("A B", -0.5, -1.5), answer("A", -1.0, -2.0)], [-1.5, -3.0]),
        # Sums with weights 1 and 3, which are divided by 4.
        (3.0, [answer("A B", -8.0, -3.0), answer("A", -12.0, -1.0)], [-2.0, -3.0]),
    ],
)
def test_shares_by_hand(weight: float | None, answers: list[Translation], shares: list[float]) -> None:
    reranker = None if weight is None else type("Reranker", (), {"weight": weight})()
    one = Given()
    one.model = type("Model", (), {"reranker": reranker})()
    expected = np.exp(shares) / np.exp(shares).sum()
    assert one.shares(answers) == pytest.approx(expected)
    total = sum(math.exp(one.log_probability) for one in answers)
    assert one.ranked_logs(answers) == pytest.approx(np.log(expected * total))


@pytest.mark.slow
def test_translate_lists_answers_in_the_order_of_their_scores(
    models: dict[str, Translator], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models["reranked"].save(tmp_path / "model.safetensors")  # type: ignore[attr-defined]
    (tmp_path / "words.txt").write_text("\n".join(ASKED), "utf-8")
    capsys.readouterr()
    assert main(["translate", str(tmp_path), str(tmp_path / "words.txt"), "--n-best", "4"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert all(re.fullmatch(r"-?\d+\.\d{4}", row[1]) for row in rows)
    for _, several in itertools.groupby(rows, key=lambda row: row[0]):
        assert falls([float(row[1]) for row in several])
