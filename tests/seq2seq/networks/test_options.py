"""Every option, of training and of a network: its check, its example, and that it may be renamed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, get_type_hints

import pytest

from regard.cli import main
from regard.seq2seq import Seq2Seq, TrainingConfig
from regard.seq2seq.commands.train.data import Data, identity
from regard.seq2seq.networks.families import FAMILIES, describe, read_config
from regard.seq2seq.networks.options import Option, first_names, options_of, today
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.sources import Text
from regard.seq2seq.training.config import OPTIONS
from regard.seq2seq.training.loop import Training

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
def test_a_wrong_value_is_refused(config: Any, sizes: dict[str, int], name: str, option: Option) -> None:
    value, rule = option.refused
    with pytest.raises((ValueError, TypeError)) as caught:
        config(**sizes, **{name: value})
    assert str(caught.value) == f"{name} must be {rule}. Got {value!r} instead."


@every_option
def test_an_example_is_another_value(config: Any, sizes: dict[str, int], name: str, option: Option) -> None:
    made = config(**sizes, **{name: option.example})
    assert getattr(made, name) == option.example
    assert made != config(**sizes)
    assert isinstance(option.example, str) or type(option.example).__name__ in str(
        get_type_hints(config)[name]
    )


@pytest.mark.parametrize("config", [config for config, _ in CONFIGS])
def test_no_option_has_the_first_name_of_another(config: Any) -> None:
    assert len(first_names(config, options_of(config))) == len(options_of(config))


# ---------------------------------------------------------------------------------------------------- renamed


def rename(monkeypatch: pytest.MonkeyPatch, config: Any, name: str, first: str) -> None:
    """Let an option be one that had another name at first."""
    (field,) = (field for field in dataclasses.fields(config) if field.name == name)
    option = field.metadata["option"]._replace(was=first)
    monkeypatch.setattr(field, "metadata", {"option": option})
    if config is TrainingConfig:
        monkeypatch.setitem(OPTIONS, name, option)


@pytest.fixture(params=["as they are", "renamed"])
def first(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """The first names of `dropout` and of `layers`, which they have still, or which are others."""
    if request.param == "as they are":
        return "dropout", "layers"
    rename(monkeypatch, TrainingConfig, "dropout", "dropout_rate")
    rename(monkeypatch, RecurrentConfig, "layers", "layers_in_all")
    return "dropout_rate", "layers_in_all"


def test_first_names_are_the_format_of_the_identity(first: tuple[str, str]) -> None:
    """A finished training is recognised by a hash of this text."""
    network = f'{{"encoder": 8, "{first[1]}": 2}}'
    training = (
        f'{{"batch_tokens": 64, "clip_norm": 2.0, "{first[0]}": 0.5, "ema_decay": 0.5, "epochs": 3,'
        ' "guided_alignment": 0.0, "keep": "last", "label_smoothing": 0.0, "learning_rate": 0.25, "minutes": 0.5,'
        ' "patience": 3, "rdrop": 1.0, "seed": 0, "soft_weight": 0.25, "temperature": 3.0, "warm_up": 9}'
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
    assert identity(own, Data([(a, b)], [(c, d)], [])) == hashlib.sha256(text.encode()).hexdigest()


def test_a_checkpoint_with_first_names_is_resumed(first: tuple[str, str]) -> None:
    def begun(dropout: float) -> Training:
        network = {"encoder": 4, "decoder": 4, "attention": 4, "embedding": 4, "layers": 2}
        training = TrainingConfig(epochs=1, dropout=dropout)
        return Seq2Seq(network=network, training=training).begin([("a", "b")] * 3, [("a", "b")])

    state, names = begun(0.5).state(), dict(zip(("training dropout", "network layers"), first, strict=True))
    written = {
        f"{name.split()[0]} {names[name]}" if name in names else name: value
        for name, value in state.fingerprint.items()
    }
    begun(0.5).resume_from(state._replace(fingerprint=written))
    with pytest.raises(ValueError, match=r"another training: training dropout was 0\.5, and is 0\.25$"):
        begun(0.25).resume_from(state._replace(fingerprint=written))


def test_a_model_file_with_first_names_is_read(first: tuple[str, str]) -> None:
    config = RecurrentConfig(9, 9, layers=2)
    described = {first[1] if name == "layers" else name: value for name, value in describe(config).items()}
    assert read_config(described) == config


def test_first_names_are_told_to_be_new_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rename(monkeypatch, TrainingConfig, "ema_decay", "mean_of_all")
    rename(monkeypatch, RecurrentConfig, "layers", "depth")
    assert main(["train", "pairs.tsv", "--mean-of-all", "0.5"]) == 2
    assert capsys.readouterr().err.endswith("arguments: --mean-of-all; --mean-of-all is called --ema-decay\n")
    with pytest.raises(ValueError, match=r"Got 'depth' instead\.\n  hint: depth is called layers$"):
        Seq2Seq(network={"depth": 2})
