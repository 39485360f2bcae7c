"""The confidence of a training: what is kept of the most probable answers, and calibrations that saw no own family."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from regard.commands.tasks.data import Data
from regard.commands.train.confidence import Confidence, calibrate, describe
from regard.seq2seq import Translation
from regard.seq2seq.decoding.calibration import Calibration
from regard.seq2seq.sources import Text
from regard.seq2seq.translator import Checked


def one_judged(right: bool, log: float) -> Checked:
    rest = math.log(1 - math.exp(log))
    answers = [Translation(text, (text,), (), 0.0, None, x) for text, x in (("A", log), ("X", rest))]
    return Checked(answers, [one.log_probability for one in answers], right)


def test_what_is_kept_by_hand() -> None:
    """Of the four most probable, all are right; with the fifth, 80 %."""
    judged = [one_judged(right, -0.1) for right in (True, True, False, True, True, False)]
    confidence = Confidence(judged, [0.99, 0.97, 0.85, 0.96, 0.95, 0.3])
    assert confidence.measures()["kept_with_98_percent_right"] == pytest.approx(4 / 6)
    assert confidence.precise() == (pytest.approx(4 / 6), 0.95)
    line, calibration = (
        "probabilities are calibrated on 40 held-out sources",
        Calibration(0.0, 1.0, 1.0, 5, 40, -1e3),
    )
    kept = "regard pronounce --threshold 0.95 keeps 67 % of the answers, of which 98 % are right"
    assert describe(calibration, confidence, "pronounce") == f"{line}: calibration error 21.3 %; {kept}"
    assert describe(calibration, confidence, "") == f"{line}: calibration error 21.3 %"
    none = Confidence([one_judged(False, -0.1)] * 6, [0.9] * 6)
    assert describe(calibration, none, "translate") == f"{line}: calibration error 90.0 %"
    assert describe(calibration, Confidence([], []), "translate") == line


class Fixed:
    """A model whose answers are known: the source is its probability of being right in percent."""

    calibration: Calibration | None = None

    def __init__(self, judged: Mapping[str, Checked]) -> None:
        self.judged = judged

    def compare_with_references(self, sources: Sequence[Any], _: Sequence[Any]) -> list[Checked]:
        return [self.judged[str(source)] for source in dict.fromkeys(sources)]


def split_of(words: Sequence[str]) -> list[tuple[Any, Any]]:
    text = Text("characters")
    return [(text.load(word), text.load("A")) for word in words]


def test_no_probability_of_the_card_comes_from_its_own_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each calibration that is fitted is seen; the probability of a word is that of one without its family."""
    stems = ["".join("abcdefgh"[number // 8**place % 8] for place in range(4)) for number in range(60)]
    test = [stem + ending for stem in stems[:40] for ending in ("", "s")]
    valid, train = stems[40:50], [*stems[50:], test[0]]
    random = np.random.default_rng(1)
    judged = {
        word: one_judged(bool(random.random() < 0.5), -0.1 - 0.7 * random.random())
        for word in [*test, *valid]
    }
    model: Any = Fixed(judged)
    used: list[list[list[float]]] = []

    class Seen(Calibration):
        @classmethod
        def fit(cls, hypotheses: Any, right: Any, beam: int) -> Any:
            used.append([*hypotheses])
            number = len(used) - 1  # of the calibration, instead of a probability
            return lambda logs: number

    monkeypatch.setattr("regard.commands.train.confidence.Calibration", Seen)
    data = Data(split_of(train), split_of(valid), split_of(test))
    found = calibrate(model, data.test, data.valid, data, None)
    word_of = {tuple(one.logs): word for word, one in judged.items()}
    fitted = [{word_of[tuple(logs)] for logs in one} for one in used]
    everything = {*test[1:], *valid}  # the first word of the test was learned
    assert fitted[0] == everything
    assert [one.right for one in found.judged] == [judged[word].right for word in test]
    for word, number in zip(test[1:], found.probabilities[1:], strict=True):
        others = fitted[int(number)]
        assert not {word[:4], word[:4] + "s"} & others
        assert {*valid} <= others
        assert len(others) > len(everything) / 2
