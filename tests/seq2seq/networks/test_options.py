"""Every option, of training and of a network: its check, its example, and that it may be renamed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, NamedTuple, get_type_hints

import pytest

from regard.cli import main
from regard.commands.tasks.data import Data
from regard.commands.train.identity import identity
from regard.seq2seq import Seq2Seq, TrainingConfig
from regard.seq2seq.networks.families import FAMILIES, describe, read_config
from regard.seq2seq.networks.options import ConfigOption, first_names, options_of, today
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.sources import Text
from regard.seq2seq.training.config import OPTIONS
from regard.seq2seq.training.loop import Training
from regard.seq2seq.training.session import begin

SIZES = {"source_tokens": 9, "target_tokens": 9}
CONFIGS: list[tuple[Any, dict[str, int]]] = [(TrainingConfig, {})]
CONFIGS += [(family.config, SIZES) for family in FAMILIES.values()]

every_option = pytest.mark.parametrize(
    ("config", "sizes", "name", "option"),
    [
        pytest.param(config, sizes, name, option, id=f"{config.__name__}-{name}")
        for config, sizes in CONFIGS
        for name, option in options_of(config).items()
    ],
)


@every_option
def test_a_wrong_value_is_refused(
    config: Any, sizes: dict[str, int], name: str, option: ConfigOption
) -> None:
    value, rule = option.refused
    with pytest.raises((ValueError, TypeError)) as caught:
        config(**sizes, **{name: value})
    assert str(caught.value) == f"{name} must be {rule}. Got {value!r} instead."


@every_option
def test_an_example_is_another_value(
    config: Any, sizes: dict[str, int], name: str, option: ConfigOption
) -> None:
    made = config(**sizes, **{name: option.example})
    assert getattr(made, name) == option.example
    assert made != config(**sizes)
    assert not sizes or read_config(json.loads(json.dumps(describe(made)))) == made
    assert isinstance(option.example, str) or type(option.example).__name__ in str(
        get_type_hints(config)[name]
    )


@pytest.mark.parametrize("config", [config for config, _ in CONFIGS])
def test_no_option_has_the_first_name_of_another(config: Any) -> None:
    assert len(first_names(config, options_of(config))) == len(options_of(config))


# ---------------------------------------------------------------------------------------------------- renamed


class Names(NamedTuple):
    """The name of an option and its first name."""

    today: str
    first: str


def rename(monkeypatch: pytest.MonkeyPatch, config: Any, written: str, first: str) -> Names:
    """Let the option that is `written` in today's files be one that had another name at first."""
    (name,) = today(config, {written: ""})
    option = options_of(config)[name]._replace(was=first)
    (field,) = (field for field in dataclasses.fields(config) if field.name == name)
    monkeypatch.setattr(field, "metadata", {"option": option})
    if config is TrainingConfig:
        monkeypatch.setitem(OPTIONS, name, option)
    return Names(name, first)


@pytest.fixture(params=[("dropout", "layers"), ("dropout_rate", "layers_in_all")], ids=["old", "renamed"])
def names(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Names, Names]:
    """The names of an option of training and of one of the network, as they are and with other first names."""
    training, network = request.param
    return (
        rename(monkeypatch, TrainingConfig, "dropout", training),
        rename(monkeypatch, RecurrentConfig, "layers", network),
    )


def test_first_names_are_the_format_of_the_identity(names: tuple[Names, Names]) -> None:
    """A finished training is recognised by a hash of this text."""
    network = f'{{"encoder": 8, "{names[1].first}": 2}}'
    training = (
        f'{{"batch_tokens": 64, "clip_norm": 2.0, "{names[0].first}": 0.5, "ema_decay": 0.5, "epochs": 3,'
        ' "guided_alignment": 0.0, "keep": "last", "label_smoothing": 0.0, "learning_rate": 0.25, "minutes": 0.5,'
        ' "patience": 3, "rdrop": 1.0, "seed": 0, "warm_up": 9}'
    )
    text = (
        f'{{"family": "recurrent", "lower": true, "max_tokens": 7, "min_count": 2, "network": {network},'
        f' "normalization": "NFKC", "source": "tokens", "target": "words", "training": {training}, "vocabulary": 9}}'
        "('a', 'b')\n('c', 'd')\n\n"
    )
    model: dict[str, Any] = {"source": "tokens", "normalization": "NFKC", "max_tokens": 7, "lower": True}
    model |= {"min_count": 2, "vocabulary": 9, "network": today(RecurrentConfig, json.loads(network))}
    own = Seq2Seq(training=TrainingConfig(**today(TrainingConfig, json.loads(training))), **model)
    a, b, c, d = map(Text().load, "abcd")
    assert identity(own, Data([(a, b)], [(c, d)], []), {}) == hashlib.sha256(text.encode()).hexdigest()


def test_a_checkpoint_with_first_names_is_resumed(names: tuple[Names, Names]) -> None:
    training, network = names

    def begun(rate: float) -> Training:
        config = TrainingConfig(**{training.today: rate})
        return begin(Seq2Seq(network={network.today: 2}, training=config), [("a", "b")] * 3, [("a", "b")])

    state = begun(0.5).state()
    changed = {f"training {training.today}": training.first, f"network {network.today}": network.first}
    fingerprint = {
        f"{part.split()[0]} {changed[part]}" if part in changed else part: value
        for part, value in state.fingerprint.items()
    }
    earlier = state._replace(fingerprint=fingerprint)
    begun(0.5).resume_from(earlier)
    with pytest.raises(ValueError, match=rf": training {training.today} was 0\.5, and is 0\.25$"):
        begun(0.25).resume_from(earlier)


def test_a_model_file_with_first_names_is_read(names: tuple[Names, Names]) -> None:
    config = RecurrentConfig(9, 9, **{names[1].today: 2})
    described = describe(config)
    described[names[1].first] = described.pop(names[1].today)
    assert read_config(described) == config


def test_whoever_gives_a_first_name_is_told_the_new_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    training = rename(monkeypatch, TrainingConfig, "dropout", "drop_rate").today.replace("_", "-")
    assert main(["train", "pairs.tsv", "--drop-rate", "0.5"]) == 2
    assert capsys.readouterr().err.endswith(f"--drop-rate; --drop-rate is called --{training}\n")
    network = rename(monkeypatch, RecurrentConfig, "layers", "layer_count").today
    with pytest.raises(
        ValueError, match=rf"Got 'layer_count' instead\.\n  hint: layer_count is called {network}$"
    ):
        Seq2Seq(network={"layer_count": 2})
