"""The options for a dictionary, of which each given one replaces its own."""

from __future__ import annotations

from typing import Any

import pytest

from regard.seq2seq import Seq2Seq
from regard.seq2seq.networks.options import options_of
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.training.config import OPTIONS, TrainingConfig
from regard_lexicon.recipes import LONGER_TRAINING, expected_time, preset

MANY = [f"w{number}" for number in range(20_000)]
FEW = MANY[:300]
OTHERS: dict[str, Any] = {
    "source": "subwords",
    "target": "characters",
    "normalization": "NFKC",
    "lower": True,
    "max_tokens": 9,
    "min_count": 2,
    "vocabulary": 50,
    "attention": False,
}


def as_model(options: dict[str, Any]) -> dict[str, Any]:
    """The options of the model that a preset makes."""
    return {name: value for name, value in vars(Seq2Seq(**options)).items() if not name.startswith("_")}


@pytest.mark.parametrize("words", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", OTHERS)
def test_an_option_replaces_its_own_alone(name: str, words: list[str]) -> None:
    made, usual = (
        as_model(preset(words, {name: OTHERS[name]})),
        as_model(preset(words)),
    )
    if name == "attention":
        sizes = {key: size for key, size in usual["network_options"].items() if key != "attention"}
        assert made["network_options"] == {**sizes, "score": "none"}
    else:
        assert made == {**usual, name: OTHERS[name]}


@pytest.mark.parametrize("words", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "steps"])  # never given with minutes
def test_a_value_of_training_replaces_its_own_alone(name: str, words: list[str]) -> None:
    """A value that is the usual default, such as a label smoothing of 0.1, is given, too."""
    usual = preset(words, {"minutes": 4})
    made = preset(words, {"training": {"minutes": 4, name: OPTIONS[name].example}})
    assert made["training"] == TrainingConfig(**{**usual["training"].given(), name: OPTIONS[name].example})
    assert {**made, "training": None} == {**usual, "training": None}


@pytest.mark.parametrize("name", [name for name in options_of(RecurrentConfig) if name != "score"])
def test_an_option_of_the_network_replaces_its_own_alone(name: str) -> None:
    value = options_of(RecurrentConfig)[name].example
    usual, made = preset(FEW), preset(FEW, {"network": {name: value}})
    assert made == {**usual, "network": {**usual["network"], name: value}}


@pytest.mark.parametrize(
    "given",
    [
        *({"network": {"score": score}} for score in ("dot", "general", "none", "scaled_dot")),
        *({"family": "transformer"}, {"attention": False}, {"attention": False, "network": {"layers": 2}}),
    ],
    ids=str,
)
def test_the_options_go_together_with_those_that_are_given(given: dict[str, Any]) -> None:
    assert Seq2Seq(**preset(FEW, given)).target == "tokens"


def test_extras_are_only_those_that_are_given() -> None:
    """What the preset trains can be exported as it is."""
    assert preset(FEW)["extras"] == {}
    assert preset(FEW, {"extras": {"graphones": 4}})["extras"] == {"graphones": 4}
    given = {"extras": {"graphones": 0, "translation_memory": 2}}
    assert preset(FEW, given)["extras"] == {"translation_memory": 2}


@pytest.mark.parametrize(
    ("count", "steps"), [(1, 5_000), (5_001, 5_001), (39_999, 39_999), (600_000, 40_000)]
)
def test_the_steps_follow_the_number_of_words(count: int, steps: int) -> None:
    """No part of the end is a time, so that a busy machine learns the same model."""
    training = preset([*map(str, range(count))])["training"]
    assert (training.minutes, training.steps, training.epochs) == (None, steps, None)


def test_the_expected_time_is_said_of_the_networks_whose_speed_is_known() -> None:
    longer = LONGER_TRAINING
    few = expected_time(FEW, preset(FEW))
    assert few.startswith("training takes 5,000 steps, by the number of words: about a minute on two free")
    assert longer not in few
    slower = preset(MANY, {"extras": {"translation_memory": 2}})
    said = expected_time(MANY, slower)
    assert said.startswith("training takes 20,000 steps, by the number of words: about 30 minutes")
    assert longer in said
    other = preset(MANY, {"network": {"encoder": 8}})
    assert "minutes on" not in expected_time(MANY, other)
    many = [*map(str, range(40_000))]
    assert longer not in expected_time(many, preset(many))


@pytest.mark.parametrize("end", [{"minutes": 1}, {"steps": 7}, {"epochs": 2}, {"minutes": 1, "epochs": 2}])
def test_a_given_end_is_the_end(end: dict[str, int]) -> None:
    training = preset(FEW, {"training": end})["training"]
    assert {
        name: getattr(training, name) for name in ("minutes", "steps", "epochs") if getattr(training, name)
    } == end


@pytest.mark.parametrize(
    ("few", "many"), [({"minutes": 29}, {"minutes": 30}), ({"steps": 100}, {"steps": 20_000})]
)
def test_a_long_training_on_many_words_has_a_larger_network(
    few: dict[str, int], many: dict[str, int]
) -> None:
    sizes = [preset(MANY, end)["network"]["encoder"] for end in (few, many)]
    assert sizes[0] < sizes[1]
    assert preset(FEW, many)["network"] == preset(FEW, few)["network"]


def test_hangul_is_read_by_its_letters() -> None:
    assert preset(["abc", "한국"])["normalization"] == "NFD"
    assert preset(["한국"], {"normalization": "NFC"})["normalization"] == "NFC"
    assert "normalization" not in preset(["été", "かな", "मात्रा"])
    model = Seq2Seq(source="characters", target="tokens", normalization="NFD")
    assert len(model.reader.load("한국")) == 6  # three letters each
    assert model.target_reader.load("e\u0301 a").content == ("é", "a")
