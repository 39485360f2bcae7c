"""Default sizes, epochs and rates, chosen by the number of pairs, their lengths and the network's family."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from regard import _check
from regard.seq2seq.corpus.batching import Corpus
from regard.seq2seq.networks.families import FAMILIES, Config
from regard.seq2seq.networks.inputs.kinds import input_of
from regard.seq2seq.networks.options import options_of, renamed
from regard.seq2seq.sources import Spec
from regard.seq2seq.training.config import ResolvedConfig, TrainingConfig

__all__ = ["check", "choose_config", "choose_epochs", "choose_training"]

_LARGEST = 1 << 40  # parameters, at most
_FEW, _SOME, _MANY = 1000, 5000, 100_000  # pairs
_OF_MANY = 0.4  # factor of the rate, since many pairs mean many steps and larger networks


def check(family: str, network: Mapping[str, Any], training: TrainingConfig, source: Spec) -> None:
    """Check options of a network and of its training before data are read."""
    kind = FAMILIES[family].config
    known = options_of(kind)
    if unknown := sorted(set(network) - set(known)):
        rule = f"network must have names among {', '.join(known)}. Got {unknown[0]!r:.60} instead."
        new = renamed(kind).get(unknown[0])
        _check.fail(rule, hint=f"{unknown[0]} is called {new}" if new else "")
    config = choose_config(family, _SOME, source, 1, network)
    for name in network:
        if name in config.unused_options:
            rule = f"{name} needs {config.unused_options[name]}; here it has no effect."
            _check.fail(f"{rule} Got {network[name]!r:.60} instead.", hint="leave it out")
    size = sum(math.prod(shape) for shape in config.shapes().values())
    if size > _LARGEST:
        _check.fail(
            f"network must have at most {_LARGEST} parameters. Got {size} instead.",
            hint=f"choose smaller sizes: {', '.join(config.scaled_sizes)}",
        )
    config.input.check_augmentation(shift=training.shift, noise=training.noise)


def choose_config(
    family: str,
    pairs: int,
    source: Spec,
    target_tokens: int,
    options: Mapping[str, Any],
    minutes: float | None = None,
) -> Config:
    """Return a network's configuration, with sizes for the number of pairs and the time."""
    kind = FAMILIES[family].config
    sides = {"source_tokens": source.tokens, "target_tokens": target_tokens, "inputs": input_of(source)}
    config: Config = kind(**{**sides, **_sized(kind, pairs, minutes, options), **options})
    return config


def _halvings(kind: Any, pairs: int, minutes: float | None) -> int:
    """Return how often a network's sizes are halved; each time, training reads about four times as many pairs.

    `short_training` of its configuration is the number of pairs a minute above which it is halved, and the factor of
    the learning rate then.
    """
    per_minute, most = pairs / minutes if minutes else 0, kind.short_training[0]
    return int(per_minute > most) + int(per_minute > 4 * most)


def _sized(kind: Any, pairs: int, minutes: float | None, options: Mapping[str, Any]) -> dict[str, int]:
    """Return default sizes, which grow with the number of pairs and with the time."""
    factor = 0.25 if pairs < _FEW else 0.5 if pairs < _SOME else 1 if pairs < _MANY else 2
    factor *= 0.5 ** _halvings(kind, pairs, minutes)
    defaults: dict[str, Any] = {field.name: field.default for field in fields(kind)}
    sizes = {name: int(defaults[name] * factor) for name in kind.scaled_sizes}
    if options.get("score") == "dot":  # both states must have the same size
        if "encoder" not in options:
            sizes["encoder"] = options.get("decoder", 2 * sizes["encoder"]) // 2
        sizes["decoder"] = 2 * options.get("encoder", sizes["encoder"])
    return sizes


def choose_epochs(pairs: int) -> int:
    """Return the default number of epochs: about 1,500 steps, between 9 (5 from 100,000 pairs on) and 200 epochs."""
    return max(9 if pairs < _MANY else 5, min(200, 1500 // _steps(pairs)))


def _sentences(pairs: int) -> int:
    """Return the approximate number of sentences of a batch."""
    return 16 if pairs < _FEW else 32 if pairs < _SOME else 64 if pairs < _MANY else 128


def _steps(pairs: int) -> int:
    """Return the approximate number of steps of an epoch."""
    return max(pairs // _sentences(pairs), 1)


def choose_training(config: Config, corpus: Corpus, training: TrainingConfig) -> ResolvedConfig:
    """Choose the options of training that are not given; few pairs need small batches and many epochs."""
    pairs, minutes = len(corpus), training.minutes
    tokens = int(_sentences(pairs) * np.maximum(corpus.source_lengths, corpus.target_lengths).mean())
    usual = choose_epochs(pairs)
    steps = training.steps or _steps(pairs) * (training.epochs or usual)
    chosen: dict[str, Any] = {
        "epochs": usual if minutes is None and training.steps is None else None,
        "batch_tokens": tokens,
        "warm_up": max(min(150, steps // 10), 1),
        "guided_alignment": 1.0 if corpus.links else 0.0,
        **config.training,
    }
    if pairs >= _MANY:
        chosen["learning_rate"] *= _OF_MANY
    halved, first = _sized(type(config), pairs, minutes, {}), config.scaled_sizes[0]
    if getattr(config, first) <= halved[first]:  # a larger network would diverge
        chosen["learning_rate"] *= config.short_training[1] ** _halvings(config, pairs, minutes)
    chosen["learning_rate"] = min(chosen["learning_rate"], config.input.largest_rate)
    return ResolvedConfig(**{**chosen, **training.given()})
