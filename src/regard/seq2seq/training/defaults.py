"""Default sizes, epochs and rates, chosen by the number of pairs, their lengths and the network's family."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from regard import _check
from regard.seq2seq.data.batching import Corpus
from regard.seq2seq.networks.encoders.images import ImageInput
from regard.seq2seq.networks.encoders.inputs import Input
from regard.seq2seq.networks.families import FAMILIES, Config
from regard.seq2seq.training.augmentation import check_augmentation
from regard.seq2seq.training.loop import Recipe

__all__ = ["check", "choose_config", "choose_epochs", "choose_recipe"]

_LARGEST = 1 << 40  # parameters, at most
_FEW, _SOME, _MANY = 1000, 5000, 100_000  # pairs
_OF_IMAGES = 1e-3  # the largest rate: with more, the filters of the first layers never settle
_OF_MANY = 0.4  # factor of the rate, since many pairs mean many steps and larger networks

_CHOSEN = ("source_tokens", "target_tokens", "inputs")  # of a configuration: by the data


def check(
    family: str, network: Mapping[str, Any], recipe: Mapping[str, Any], inputs: Input | None = None
) -> None:
    """Check options of a network and of its training before data are read.

    Parameters
    ----------
    family : str
        "recurrent" or "transformer".
    network : mapping
        Fields of the family's configuration.
    recipe : mapping
        Fields of `Recipe`.
    inputs : Input, optional
        The network's source, if it is not tokens.

    Raises
    ------
    ValueError
        If one is unknown or invalid, or has no effect together with the others.

    Examples
    --------
    >>> check("recurrent", {"score": "nothing"}, {})
    Traceback (most recent call last):
    ValueError: score must be one of 'none', 'additive', ... Got 'nothing' instead.
    """
    for name, kind, options in (("network", FAMILIES[family].config, network), ("recipe", Recipe, recipe)):
        known = [field.name for field in fields(kind) if field.name not in _CHOSEN]
        if unknown := sorted(set(options) - set(known)):
            _check.fail(f"{name} must have names among {', '.join(known)}. Got {unknown[0]!r:.60} instead.")
    config = choose_config(family, _SOME, 0 if inputs else 1, 1, network, inputs=inputs)
    for name in network:
        if name in config.idle:
            _check.fail(
                f"{name} needs {config.idle[name]}; here it has no effect. Got {network[name]!r:.60} instead.",
                hint="leave it out",
            )
    size = sum(math.prod(shape) for shape in config.shapes().values())
    if size > _LARGEST:
        _check.fail(
            f"network must have at most {_LARGEST} parameters. Got {size} instead.",
            hint=f"choose smaller sizes: {', '.join(config.grows)}",
        )
    checked = Recipe(**recipe)
    check_augmentation(inputs, shift=checked.shift, noise=checked.noise)


def choose_config(
    family: str,
    pairs: int,
    source_tokens: int,
    target_tokens: int,
    options: Mapping[str, Any],
    minutes: float | None = None,
    inputs: Input | None = None,
) -> Config:
    """Return a network's configuration, with sizes for the number of pairs and the time.

    Parameters
    ----------
    family : str
        "recurrent" or "transformer".
    pairs : int
        Number of training pairs.
    source_tokens, target_tokens : int
        Sizes of the vocabularies; 0 source tokens with `inputs`.
    options : mapping
        Fields of the configuration that are set.
    minutes : float, optional
        Time limit of the training.
    inputs : Input, optional
        The network's source, if it is not tokens.

    Returns
    -------
    Config
        Checked.

    Raises
    ------
    ValueError
        If an option is unknown or invalid.

    Examples
    --------
    >>> choose_config("recurrent", 20_000, 100, 100, {}).encoder
    128
    >>> choose_config("recurrent", 500, 100, 100, {"attention": 7}).attention
    7
    >>> choose_config("recurrent", 20_000, 100, 100, {}, minutes=1).encoder
    64
    """
    kind = FAMILIES[family].config
    sides = {"source_tokens": source_tokens, "target_tokens": target_tokens, "inputs": inputs}
    config: Config = kind(**{**sides, **_sized(kind, pairs, minutes, options), **options})
    return config


def _halvings(kind: Any, pairs: int, minutes: float | None) -> int:
    """Return how often a network's sizes are halved; each time, training reads about four times as many pairs.

    Its configuration has `hurry`: the pairs a minute above which it is halved, and the factor of the rate then.
    """
    per_minute, most = pairs / minutes if minutes else 0, kind.hurry[0]
    return int(per_minute > most) + int(per_minute > 4 * most)


def _sized(kind: Any, pairs: int, minutes: float | None, options: Mapping[str, Any]) -> dict[str, int]:
    """Return default sizes, which grow with the number of pairs and with the time."""
    factor = 0.25 if pairs < _FEW else 0.5 if pairs < _SOME else 1 if pairs < _MANY else 2
    factor *= 0.5 ** _halvings(kind, pairs, minutes)
    defaults: dict[str, Any] = {field.name: field.default for field in fields(kind)}
    sizes = {name: int(defaults[name] * factor) for name in kind.grows}
    if options.get("score") == "dot":  # both states must have the same size
        if "encoder" not in options:
            sizes["encoder"] = options.get("decoder", 2 * sizes["encoder"]) // 2
        sizes["decoder"] = 2 * options.get("encoder", sizes["encoder"])
    return sizes


def choose_epochs(pairs: int) -> int:
    """Return the default number of epochs.

    Parameters
    ----------
    pairs : int
        Number of training pairs.

    Returns
    -------
    int
        At least 9, from 100,000 pairs on 5; more for few pairs: about 1,500 steps, but at most 200 epochs.

    Examples
    --------
    >>> choose_epochs(100), choose_epochs(20_000), choose_epochs(200_000)
    (200, 9, 5)
    """
    return max(9 if pairs < _MANY else 5, min(200, 1500 // _steps(pairs)))


def _sentences(pairs: int) -> int:
    """Return the approximate number of sentences of a batch."""
    return 16 if pairs < _FEW else 32 if pairs < _SOME else 64 if pairs < _MANY else 128


def _steps(pairs: int) -> int:
    """Return the approximate number of steps of an epoch."""
    return max(pairs // _sentences(pairs), 1)


def choose_recipe(config: Config, corpus: Corpus, options: Mapping[str, Any]) -> Recipe:
    """Return the recipe for a corpus; few pairs need small batches and many epochs.

    Parameters
    ----------
    config : Config
        The configuration of the network.
    corpus : Corpus
        The training pairs.
    options : mapping
        Fields of the recipe that are set.

    Returns
    -------
    Recipe
        For `Training`.

    Examples
    --------
    >>> from regard.seq2seq.data.batching import EncodedPair
    >>> from regard.seq2seq.networks.recurrent.config import RecurrentConfig
    >>> recipe = choose_recipe(RecurrentConfig(9, 9), Corpus([EncodedPair([4, 5, 2], [1, 4, 2])]), {"rate": 0.5})
    >>> recipe.epochs, recipe.rate, recipe.tokens
    (200, 0.5, 48)
    """
    pairs = len(corpus)
    tokens = int(_sentences(pairs) * np.maximum(corpus.source_lengths, corpus.target_lengths).mean())
    usual = choose_epochs(pairs)
    epochs = options.get("epochs", None if "minutes" in options else usual)
    warm_up = max(min(150, _steps(pairs) * (epochs or usual) // 10), 1)
    chosen = {"epochs": epochs, "tokens": tokens, "warm_up": warm_up, **config.recipe}
    if pairs >= _MANY:
        chosen["rate"] *= _OF_MANY
    hurried, first = _sized(type(config), pairs, options.get("minutes"), {}), config.grows[0]
    if getattr(config, first) <= hurried[first]:  # a larger network would diverge
        chosen["rate"] *= config.hurry[1] ** _halvings(config, pairs, options.get("minutes"))
    if isinstance(config.inputs, ImageInput):
        chosen["rate"] = min(chosen["rate"], _OF_IMAGES)
    return Recipe(**{**chosen, **options})
