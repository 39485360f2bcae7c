"""Calibrated probabilities: they hold on other answers than those they are fitted to, whatever the scale was."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard._safetensors import opened, write
from regard.seq2seq import Ensemble, Seq2Seq
from regard.seq2seq.decoding.calibration import Calibration, calibration_error

VALUES = {"intercept": 0.5, "share_slope": 2.0, "mass_slope": 0.25, "beam": 5, "answers": 40, "usual": -1e3}


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_a_probability_by_hand() -> None:
    # 0.6 of 0.8, which is 3 to 1; 0.8 is 4 to 1
    logs = [math.log(0.6), math.log(0.2)]
    expected = sigmoid(0.5 + 2 * math.log(3) + 0.25 * math.log(4))
    assert Calibration(**VALUES)(logs) == pytest.approx(expected)  # type: ignore[arg-type]


def test_only_the_hypotheses_of_the_beam_count() -> None:
    two = Calibration(0.0, 1.0, 0.0, 2, 40, -1e3)
    assert two([math.log(0.5), math.log(0.25), math.log(0.25)]) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "logs", [[0.0], [-1e4], [-1e4, -1e4 - 1], [-math.inf], [0.0, -math.inf], [1e-9, -50.0]]
)
def test_extreme_log_probabilities_give_probabilities(logs: list[float]) -> None:
    assert 0 < Calibration(0.0, 1.0, 1.0, 5, 40, -1e3)(logs) < 1


def test_the_share_of_very_improbable_answers_is_known() -> None:
    assert Calibration(0.0, 1.0, 0.0, 5, 40, -1e3)([-2000.0, -2000 - math.log(3)]) == pytest.approx(0.75)


def sampled(count: int, seed: int, sharper: float = 1.0) -> tuple[list[list[float]], list[bool]]:
    """Answers whose probability of being right is known: that of the first of a few hypotheses, before sharpening."""
    random = np.random.default_rng(seed)
    hypotheses, right = [], []
    for _ in range(count):
        probabilities = np.sort(random.dirichlet(np.full(6, 0.4)))[::-1]
        right.append(bool(random.random() < probabilities[0]))
        distorted = probabilities**sharper / (probabilities**sharper).sum()
        hypotheses.append(np.log(distorted[:5]).tolist())
    return hypotheses, right


@pytest.mark.slow
@pytest.mark.parametrize("sharper", [0.5, 1.0, 2.0, 4.0])
def test_probabilities_hold_on_other_answers(sharper: float) -> None:
    calibration = Calibration.fit(*sampled(1000, 1, sharper), beam=5)
    hypotheses, right = sampled(4000, 2, sharper)
    probabilities = [calibration(logs) for logs in hypotheses]
    assert calibration_error(probabilities, right) <= 0.03
    if sharper > 1:
        plain = [math.exp(logs[0]) for logs in hypotheses]
        assert calibration_error(plain, right) > 0.05


def test_probabilities_grow_with_share_and_mass() -> None:
    random = np.random.default_rng(0)
    hypotheses = [[math.log(x) for x in random.dirichlet(np.ones(6))[:5]] for _ in range(30)]
    for right in ([True] * 30, [False] * 30, (random.random(30) < 0.5).tolist()):
        calibration = Calibration.fit(hypotheses, right, 5)
        for share, mass in itertools.product((0.2, 0.6), (0.3, 0.7)):
            least = calibration([math.log(share * mass), math.log((1 - share) * mass)])
            assert least <= calibration([math.log((share + 0.1) * mass), math.log((0.9 - share) * mass)])
            assert least <= calibration(
                [math.log(share * (mass + 0.1)), math.log((1 - share) * (mass + 0.1))]
            )


def test_a_slope_that_would_be_negative_is_zero() -> None:
    """Here the smaller the share, the more often an answer is right."""
    shares = np.linspace(0.1, 0.9, 60)
    hypotheses = [[math.log(share / 2), math.log((1 - share) / 2)] for share in shares]
    calibration = Calibration.fit(hypotheses, [bool(share < 0.5) for share in shares], 5)
    assert calibration.share_slope == 0
    assert calibration(hypotheses[0]) == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("right", [True, False])
def test_few_equal_answers_are_never_certain(right: bool) -> None:
    """Platt's targets: of 20 right answers, 21/22."""
    calibration = Calibration.fit([[math.log(0.9)]] * 20, [right] * 20, 5)
    assert calibration([math.log(0.9)]) == pytest.approx(21 / 22 if right else 1 / 22, abs=1e-3)


@pytest.mark.parametrize(("answers", "usual"), [(20, -20.0), (100, -100.0), (101, -100.0), (301, -298.0)])
def test_99_of_100_answers_have_the_usual_log_probability(answers: int, usual: float) -> None:
    logs = [[-float(number), -400.0] for number in range(1, answers + 1)]
    assert Calibration.fit(logs, [True] * answers, 5).usual == usual


def test_the_calibration_error_by_hand() -> None:
    # ten bins of two: in nine the share is the probability, in the last it is 0 instead of 0.75
    probabilities, right = [0.5] * 18 + [0.75] * 2, [True, False] * 9 + [False, False]
    assert calibration_error(probabilities, right) == pytest.approx(0.75 * 2 / 20)


# ------------------------------------------------------------------------------------------------------ models


def small() -> Seq2Seq:
    network = {"embedding": 4, "encoder": 4, "decoder": 4, "attention": 4}
    return Seq2Seq(source="characters", target="tokens", network=network, epochs=1).fit(
        ["ab", "ba"], ["A B", "B A"]
    )


WORDS = ["".join(letters) for letters in itertools.product("ab", repeat=5)]
TARGETS = [" ".join(word.upper()) for word in WORDS]


def test_a_model_is_calibrated_and_comes_back_from_its_file(tmp_path: Path) -> None:
    model = small()
    assert model.calibration is None
    model.save(tmp_path / "before")
    with opened(tmp_path / "before", "model file") as file:
        assert "calibration" not in file.metadata
    assert model.calibrate(WORDS, TARGETS) is model
    assert model.calibration is not None
    assert model.calibration.answers == len(WORDS)
    model.save(tmp_path / "model")
    loaded = Seq2Seq.load(tmp_path / "model")
    assert loaded.calibration == model.calibration
    candidates = model.candidates(["abba"])[0]
    assert loaded.probability(candidates) == model.probability(candidates) < 0.2


def test_any_target_of_a_source_is_right() -> None:
    model = small()
    best = [one.text for one in model.translate(WORDS[:20])]
    judged = model.compare_with_references([*WORDS[:20], *WORDS[:20]], [*TARGETS[:20], *best])
    assert len(judged) == 20
    assert all(one.right for one in judged)
    assert [one.candidates[0].text for one in judged] == best


def test_too_few_sources_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"at least 20 .* Got 19"):
        small().calibrate(WORDS[:19], TARGETS[:19])


def test_a_model_without_calibration_has_no_probability() -> None:
    model = small()
    with pytest.raises(ValueError, match="need a calibrated model"):
        model.probability(model.candidates(["ab"])[0])
    assert Ensemble([model.calibrate(WORDS, TARGETS), small()]).model.calibration is None


@pytest.mark.parametrize(
    "damaged",
    [
        *("[]", "3", "{", "{}"),
        *(
            json.dumps({**VALUES, **wrong})
            for wrong in (
                {"beam": 0},
                {"share_slope": -1},
                {"beam": 2.5},
                {"more": 1},
                {"usual": "1"},
                {"usual": None},
            )
        ),
        *(
            json.dumps({**VALUES, "intercept": wrong})
            for wrong in (math.nan, math.inf, 10**400, "1", True, None)
        ),
    ],
)
def test_a_damaged_calibration_is_an_error(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "model.safetensors"
    small().save(path)
    with opened(path, "model file") as file:
        metadata = {**file.metadata, "calibration": damaged}
        arrays: dict[str, Any] = {name: file.array(name) for name in file.tensors}
    write(path, arrays, metadata)
    with pytest.raises(ValueError, match="damaged"):
        Seq2Seq.load(path)
