"""The options of training: their checks, and that help, documentation and identity are made of them."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import inspect
from typing import Any

import numpy as np
import pytest

from regard.seq2seq import Seq2Seq, TrainingConfig
from regard.seq2seq.commands import distill
from regard.seq2seq.commands.train.arguments import add_arguments, make_models
from regard.seq2seq.commands.train.data import Data, identity
from regard.seq2seq.networks.families import FAMILIES
from regard.seq2seq.networks.options import options_of
from regard.seq2seq.sources import Text
from regard.seq2seq.training.config import OF_TEACHERS, OPTIONS

OTHERS: dict[str, Any] = {  # a value for each option that is not its default
    "epochs": 3,
    "minutes": 0.5,
    "steps": 7,
    "learning_rate": 0.25,
    "batch_tokens": 64,
    "warm_up": 9,
    "label_smoothing": 0.0,
    "dropout": 0.0,
    "ema_decay": 0.5,
    "clip_norm": 2.0,
    "patience": 3,
    "guided_alignment": 0.0,
    "soft_weight": 0.25,
    "temperature": 3.0,
    "rdrop": 1.0,
    "keep": "last",
    "shift": 1,
    "noise": 0.5,
    "seed": 0,
}
REFUSED = {
    "epochs": (0, "epochs must be at least 1. Got 0 instead."),
    "minutes": (float("inf"), "minutes must be finite. Got inf instead."),
    "steps": (0, "steps must be at least 1. Got 0 instead."),
    "learning_rate": (0, "learning_rate must be greater than 0. Got 0.0 instead."),
    "batch_tokens": (1.5, "batch_tokens must be an integer. Got 1.5 instead."),
    "warm_up": (0, "warm_up must be at least 1. Got 0 instead."),
    "label_smoothing": (1, "label_smoothing must be less than 1. Got 1.0 instead."),
    "dropout": (2, "dropout must be less than 1. Got 2.0 instead."),
    "ema_decay": ("x", "ema_decay must be a number. Got 'x' instead."),
    "clip_norm": (-1, "clip_norm must be greater than 0. Got -1.0 instead."),
    "patience": (0, "patience must be at least 1. Got 0 instead."),
    "guided_alignment": (-1, "guided_alignment must be at least 0. Got -1.0 instead."),
    "soft_weight": (1.5, "soft_weight must be at most 1. Got 1.5 instead."),
    "temperature": (0, "temperature must be greater than 0. Got 0.0 instead."),
    "rdrop": (-0.5, "rdrop must be at least 0. Got -0.5 instead."),
    "keep": ("all", "keep must be one of 'best', 'last'. Got 'all' instead."),
    "shift": (True, "shift must be an integer. Got True instead."),
    "noise": (1, "noise must be less than 1. Got 1.0 instead."),
    "seed": ("x", "seed must be an integer. Got 'x' instead."),
}


def option(name: str) -> str:
    return "--" + name.replace("_", "-")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="regard train")
    add_arguments(result)
    return result


def parser_with(name: str) -> argparse.ArgumentParser:
    """The parser that has an option: that of `regard distill` where an option is of teachers."""
    if name not in OF_TEACHERS:
        return parser()
    result = argparse.ArgumentParser(prog="regard distill")
    distill.add_arguments(result)
    return result


A, B, C, D = map(Text().load, "abcd")
PAIRS = Data([(A, B)], [(C, D)], [])


def fingerprint(**options: Any) -> str:
    return identity(Seq2Seq(**options), PAIRS)


# ------------------------------------------------------------------------------------------------------ checks


@pytest.mark.parametrize("name", OPTIONS)
def test_options_are_checked(name: str) -> None:
    value, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError)) as caught:
        TrainingConfig(**{name: value})
    assert str(caught.value) == message


def test_numbers_are_pythons_own() -> None:
    config = TrainingConfig(epochs=np.uint8(200), seed=np.uint8(7), dropout=np.float32(0.5), rdrop=1)  # type: ignore[arg-type]
    assert [type(config.epochs), type(config.seed), type(config.dropout)] == [int, int, float]
    assert config.given() == {"epochs": 200, "dropout": 0.5, "rdrop": 1.0, "seed": 7}


def test_only_a_default_that_is_chosen_is_none() -> None:
    for field in dataclasses.fields(TrainingConfig):
        if field.default is None:
            assert TrainingConfig(**{field.name: None}) == TrainingConfig()
        else:
            with pytest.raises((ValueError, TypeError), match=f"^{field.name} must be .* Got None instead"):
                TrainingConfig(**{field.name: None})


@pytest.mark.parametrize("other", ["epochs", "minutes"])
def test_steps_are_given_alone(other: str) -> None:
    options: dict[str, Any] = {"steps": 5, other: 2}
    with pytest.raises(
        ValueError, match=rf"^steps must not be given with {other}\. Got 5 and 2(\.0)? instead\.$"
    ):
        TrainingConfig(**options)


def test_rdrop_needs_dropout() -> None:
    with pytest.raises(ValueError, match=r"^rdrop must be 0 without dropout: .* Got 1\.0 instead\.$"):
        TrainingConfig(rdrop=1, dropout=0)
    assert TrainingConfig(rdrop=1).dropout is None  # it is chosen, and not 0


# ------------------------------------------------------------------------------------- what is made of the fields


def test_every_option_has_an_argument_that_sets_it_alone() -> None:
    for name, value in OTHERS.items():
        args = parser_with(name).parse_args(["pairs.tsv", option(name), str(value)])
        given = {n: x for n in OPTIONS if (x := getattr(args, n, None)) is not None}
        assert given == {name: value}
    assert OTHERS.keys() == OPTIONS.keys()


def test_the_model_of_a_command_has_its_options() -> None:
    values = OTHERS | {"dropout": 0.5, "shift": 0, "noise": 0.0}  # those of pictures need pictures
    for name in ("steps", *OF_TEACHERS):  # epochs and minutes instead; without teachers
        del values[name]
    arguments = [text for name, value in values.items() for text in (option(name), str(value))]
    (model,) = make_models(parser().parse_args(["pairs.tsv", *arguments]))
    assert model.training == TrainingConfig(**values)


def test_the_help_has_descriptions_and_defaults() -> None:
    for name, described in OPTIONS.items():
        text = " ".join(parser_with(name).format_help().split())
        expected = f"{option(name)} {described.value} {described.description} (default: {described.default})"
        assert expected in text
    for field in dataclasses.fields(TrainingConfig):
        if field.default is not None:
            assert OPTIONS[field.name].default.partition(":")[0] == str(field.default)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_help_has_the_options_of_each_family(family: str) -> None:
    text = " ".join(parser().format_help().partition(f"--network of --family {family}:")[2].split())
    config = FAMILIES[family].config
    made = options_of(config)
    for field in dataclasses.fields(config):
        if field.name in ("source_tokens", "target_tokens", "inputs"):  # which the data decide
            assert field.name not in made
            continue
        option = made[field.name]
        assert f"{field.name}={option.value} {option.description} (default: {option.default})" in text
        assert option.default.partition(":")[0] == str(field.default).replace("True", "true")


def test_the_identity_of_a_run_is_its_configuration() -> None:
    """Every option of a model is a part of it; neither the order of mappings nor an explicit default is."""
    short = {"epochs", "minutes", "learning_rate", "seed"}
    public = {name for name in vars(Seq2Seq()) if not name.startswith("_")}
    assert public == inspect.signature(Seq2Seq).parameters.keys() - short - {"attention"}
    others: list[dict[str, Any]] = [
        *({"family": "transformer"}, {"attention": False}, {"network": {"encoder": 8}}),
        *({"source": "tokens"}, {"target": "tokens"}, {"vocabulary": 9}, {"min_count": 2}, {"lower": False}),
        *({"normalization": "NFKC"}, {"subwords": "bpe", "target": "subwords"}, {"max_tokens": 9}),
        *({"extras": {"graphones": 2}}, {"epochs": 2}, {"minutes": 2}, {"learning_rate": 1}, {"seed": 2}),
        *({"training": TrainingConfig(**{n: x})} for n, x in OTHERS.items() if n not in {"shift", "noise"}),
    ]
    marks = [fingerprint(**options) for options in [{}, *others]]
    assert len(set(marks)) == len(marks)
    assert fingerprint(training=TrainingConfig(dropout=None, label_smoothing=0.1), seed=1) == marks[0]
    sizes = {"encoder": 8, "embedding": 9}
    assert fingerprint(network=sizes) == fingerprint(network=dict(reversed(sizes.items())))


def test_neither_arguments_nor_their_help_are_a_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["pairs.tsv", "--dropout", "0.3", "--network", "encoder=8", "--min-count", "2"]
    own = fingerprint(training=TrainingConfig(dropout=0.3), network={"encoder": 8}, min_count=2)
    for described in (OPTIONS["dropout"], OPTIONS["dropout"]._replace(description="other", default="words")):
        monkeypatch.setitem(OPTIONS, "dropout", described)
        (model,) = make_models(parser().parse_args(arguments))
        assert identity(model, PAIRS) == own


def test_names_of_fields_are_the_format_of_the_identity() -> None:
    """A finished run is recognised by a hash of this text, so a renamed field keeps its name here."""
    values = OTHERS | {"steps": None, "dropout": 0.5, "shift": 0, "noise": 0.0}
    configuration = (
        '{"family": "recurrent", "lower": true, "max_tokens": 7, "min_count": 2, "network": {"encoder": 8},'
        ' "normalization": "NFKC", "source": "tokens", "target": "words", "training": {"batch_tokens": 64,'
        ' "clip_norm": 2.0, "dropout": 0.5, "ema_decay": 0.5, "epochs": 3, "guided_alignment": 0.0, "keep": "last",'
        ' "label_smoothing": 0.0, "learning_rate": 0.25, "minutes": 0.5, "patience": 3, "rdrop": 1.0, "seed": 0,'
        ' "soft_weight": 0.25, "temperature": 3.0, "warm_up": 9}, "vocabulary": 9}'
    )
    text = configuration + "('a', 'b')\n('c', 'd')\n\n"
    others: dict[str, Any] = {"source": "tokens", "normalization": "NFKC", "max_tokens": 7, "lower": True}
    training = TrainingConfig(**values)
    own = fingerprint(network={"encoder": 8}, min_count=2, vocabulary=9, training=training, **others)
    assert own == hashlib.sha256(text.encode()).hexdigest()
