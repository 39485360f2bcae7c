"""The options of training: their checks, and that help, documentation and identity are made of them."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
from typing import Any

import numpy as np
import pytest

from regard.commands.tasks.data import Data
from regard.commands.train.arguments import add_arguments, given_options, make_models, make_task
from regard.commands.train.identity import identity
from regard.seq2seq import Seq2Seq, TrainingConfig
from regard.seq2seq.networks.families import FAMILIES
from regard.seq2seq.networks.options import options_of
from regard.seq2seq.sources import Images, Text
from regard.seq2seq.training.config import OPTIONS


def option(name: str) -> str:
    return "--" + name.replace("_", "-")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="regard train")
    add_arguments(result)
    return result


A, B, C, D = map(Text().load, "abcd")
PAIRS = Data([(A, B)], [(C, D)], [])
PICTURES = Images(8, 8)  # whose trainings take every option


def fingerprint(**options: Any) -> str:
    return identity(Seq2Seq(**options), PAIRS, {})


# ------------------------------------------------------------------------------------------------------ checks


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
    with pytest.raises(ValueError, match=r"^rdrop must be 0 without dropout, .* Got 1\.0 instead\.$"):
        TrainingConfig(rdrop=1, dropout=0)
    assert TrainingConfig(rdrop=1).dropout is None  # it is chosen, and not 0


# ------------------------------------------------------------------------------------- what is made of the fields


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_has_an_argument_that_sets_it_alone(name: str) -> None:
    example = OPTIONS[name].example
    parsed = parser().parse_args(["pairs.tsv", option(name), str(example)])
    assert {n: x for n in OPTIONS if (x := getattr(parsed, n, None)) is not None} == {name: example}
    assert make_task(parsed).defaults(given_options(parsed, {}))["training"] == TrainingConfig(
        **{name: example}
    )


def test_the_help_has_descriptions_and_defaults() -> None:
    for name, described in OPTIONS.items():
        text = " ".join(parser().format_help().split())
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
    given = inspect.signature(Seq2Seq).parameters.keys() - short - {"attention", "network"}
    assert public == given | {"network_options"}
    others: list[dict[str, Any]] = [
        *({"family": "transformer"}, {"attention": False}, {"network": {"encoder": 8}}),
        *({"source": "tokens"}, {"target": "tokens"}, {"vocabulary": 9}, {"min_count": 2}, {"lower": False}),
        *({"normalization": "NFKC"}, {"subwords": "bpe", "target": "subwords"}, {"max_tokens": 9}),
        *({"extras": {"lengths": 2}}, {"epochs": 2}, {"minutes": 2}, {"learning_rate": 1}, {"seed": 2}),
        {"source": PICTURES},
        *({"source": PICTURES, "training": TrainingConfig(**{n: x.example})} for n, x in OPTIONS.items()),
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
        args = parser().parse_args(arguments)
        (model,) = make_models(args, make_task(args))
        assert identity(model, PAIRS, {}) == own
