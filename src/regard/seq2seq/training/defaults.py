"""What is chosen where nobody says otherwise: by how many pairs there are, their tokens, and the network's family."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from regard import _check
from regard.seq2seq.data.batching import Corpus
from regard.seq2seq.networks.families import FAMILIES, Config
from regard.seq2seq.training.loop import Recipe

__all__ = ["check", "choose_config", "choose_epochs", "choose_recipe"]

_LARGEST = 1 << 40  # network, in parameters: more than a machine trains
_FEW, _SOME, _MANY = 1000, 5000, 100_000  # pairs
_OF_MANY = 0.4  # of the rate: many pairs are learned in many steps, by larger networks


def check(family: str, network: Mapping[str, Any], recipe: Mapping[str, Any]) -> None:
    """Check options of a network and of its training before there is anything to train on.

    Parameters
    ----------
    family : str
        "recurrent" or "transformer".
    network : mapping
        Fields of the family's configuration.
    recipe : mapping
        Fields of `Recipe`.

    Raises
    ------
    ValueError
        If one is unknown or wrong, or has no effect beside the others.

    Examples
    --------
    >>> check("recurrent", {"score": "nothing"}, {})
    Traceback (most recent call last):
    ValueError: score must be one of 'none', 'additive', ... Got 'nothing' instead.
    """
    for name, kind, given in (("network", FAMILIES[family].config, network), ("recipe", Recipe, recipe)):
        known = [field.name for field in fields(kind) if field.name not in ("source_tokens", "target_tokens")]
        if unknown := sorted(set(given) - set(known)):
            _check.fail(f"{name} must have names among {', '.join(known)}. Got {unknown[0]!r:.60} instead.")
    config = choose_config(family, _SOME, 1, 1, network)
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
    Recipe(**recipe)


def choose_config(
    family: str,
    pairs: int,
    source_tokens: int,
    target_tokens: int,
    options: Mapping[str, Any],
    minutes: float | None = None,
) -> Config:
    """Return a network's configuration: few pairs can't fill a large one, and in little time it learns less.

    Parameters
    ----------
    family : str
        "recurrent" or "transformer".
    pairs : int
        How many there are to learn from.
    source_tokens, target_tokens : int
        Sizes of the vocabularies.
    options : mapping
        Fields of the configuration that somebody has chosen.
    minutes : float, optional
        How long it may be trained.

    Returns
    -------
    Config
        Checked.

    Raises
    ------
    ValueError
        If an option is unknown or wrong.

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
    words = {"source_tokens": source_tokens, "target_tokens": target_tokens}
    config: Config = kind(**{**words, **_sized(kind, pairs, minutes, options), **options})
    return config


def _halvings(kind: Any, pairs: int, minutes: float | None) -> int:
    """Return how often a network's sizes are halved, since each time it sees about four times as many pairs.

    Its kind says in `hurry` for how many pairs a minute it is too large, and how much higher a smaller one's rate is.
    """
    a_minute, most = pairs / minutes if minutes else 0, kind.hurry[0]
    return int(a_minute > most) + int(a_minute > 4 * most)


def _sized(kind: Any, pairs: int, minutes: float | None, options: Mapping[str, Any]) -> dict[str, int]:
    """Return the sizes that nobody has chosen; they grow with the number of pairs, and with the time there is."""
    factor = 0.25 if pairs < _FEW else 0.5 if pairs < _SOME else 1 if pairs < _MANY else 2
    factor *= 0.5 ** _halvings(kind, pairs, minutes)
    defaults: dict[str, Any] = {field.name: field.default for field in fields(kind)}
    sizes = {name: int(defaults[name] * factor) for name in kind.grows}
    if options.get("score") == "dot":  # it compares states of the decoder with those of both directions
        if "encoder" not in options:
            sizes["encoder"] = options.get("decoder", 2 * sizes["encoder"]) // 2
        sizes["decoder"] = 2 * options.get("encoder", sizes["encoder"])
    return sizes


def choose_epochs(pairs: int) -> int:
    """Return how often each pair is seen where neither epochs nor minutes are given.

    Parameters
    ----------
    pairs : int
        How many there are.

    Returns
    -------
    int
        At least 9, from 100,000 pairs on 5. Fewer pairs need more, for about 1,500 steps, 200 at most.

    Examples
    --------
    >>> choose_epochs(100), choose_epochs(20_000), choose_epochs(200_000)
    (200, 9, 5)
    """
    return max(9 if pairs < _MANY else 5, min(200, 1500 // _steps(pairs)))


def _sentences(pairs: int) -> int:
    """Return about how many sentences a batch has."""
    return 16 if pairs < _FEW else 32 if pairs < _SOME else 64 if pairs < _MANY else 128


def _steps(pairs: int) -> int:
    """Return about how many steps an epoch has."""
    return max(pairs // _sentences(pairs), 1)


def choose_recipe(config: Config, corpus: Corpus, asked: Mapping[str, Any]) -> Recipe:
    """Return the recipe for a corpus: few pairs need small batches and many epochs.

    Parameters
    ----------
    config : Config
        Of the network.
    corpus : Corpus
        What there is to learn from.
    asked : mapping
        Fields of the recipe that somebody has chosen.

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
    epochs = asked.get("epochs", None if "minutes" in asked else usual)
    warm_up = max(min(150, _steps(pairs) * (epochs or usual) // 10), 1)
    chosen = {"epochs": epochs, "tokens": tokens, "warm_up": warm_up, **config.recipe}
    if pairs >= _MANY:
        chosen["rate"] *= _OF_MANY
    hurried, first = _sized(type(config), pairs, asked.get("minutes"), {}), config.grows[0]
    if getattr(config, first) <= hurried[first]:  # a large network that somebody has chosen would not bear it
        chosen["rate"] *= config.hurry[1] ** _halvings(config, pairs, asked.get("minutes"))
    return Recipe(**{**chosen, **asked})
