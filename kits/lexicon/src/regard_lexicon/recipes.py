"""The options of a model from letters to sounds, of which every one that is given replaces its own."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from regard.seq2seq.training.config import OPTIONS, TrainingConfig

__all__ = ["EXTRAS", "LONGER_TRAINING", "RECIPES", "Recipe", "expected_seconds", "expected_time", "preset"]


class Recipe(NamedTuple):
    """The sizes of a recurrent network, and its training, from a number of words and a length of training on."""

    words: int
    long: bool  # whether it is for a training of at least `_LONG`
    seconds: float  # of a step, on two free cores of a server
    network: Mapping[str, int]
    training: Mapping[str, Any]


# Words need a lower learning rate than sentences, and no label smoothing.
_WORDS = {"label_smoothing": 0.0, "keep": "last"}
_OPTIONS = {"family": "recurrent", "source": "characters", "target": "tokens"}
EXTRAS = {"translation_memory": 2, "graphones": 8}  # make the fewest errors, and cannot be exported
LONGER_TRAINING = "of CMUdict's words, with stress, 39 % are wrong after six minutes and 29 % after an hour"
RECIPES = (
    Recipe(
        20_000,
        True,
        0.050,
        {"embedding": 128, "encoder": 192, "decoder": 256, "attention": 128},
        {"learning_rate": 1.5e-3, "batch_tokens": 768, "dropout": 0.35, "rdrop": 1.0, **_WORDS},
    ),
    Recipe(
        5_000,
        False,
        0.015,
        {"embedding": 112, "encoder": 96, "decoder": 144, "attention": 96},
        {"learning_rate": 2.5e-3, "batch_tokens": 512, "dropout": 0.1, **_WORDS},
    ),
    Recipe(
        0,
        False,
        0.007,
        {"embedding": 112, "encoder": 96, "decoder": 144, "attention": 96},
        {"learning_rate": 2.5e-3, "batch_tokens": 128, "dropout": 0.35, **_WORDS},
    ),
)  # of which the first that fits is used
_LONG = {"minutes": 30, "steps": 20_000, "epochs": 15}
_LONGER = 3  # times as many tokens in a batch with a memory: sources contain two other words
_SLOWER = 1.75  # times the seconds of a step with it
_LEAST_STEPS, _MOST_STEPS = 5_000, 40_000
_HANGUL = re.compile("[\uac00-\ud7a3]")  # syllables: each is two or three letters in the form NFD


def preset(words: Collection[str], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options of `regard.seq2seq.Seq2Seq` that are right for a pronunciation dictionary.

    Without `minutes`, `epochs` and `steps`, training has as many steps as there are words, at least 5,000 and at most
    40,000: a busy machine learns the same model.

    `words`: each once: their number and their script decide; `given`: options that replace these, where `network`,
    `extras` and `training` are mappings of which each value replaces one; an extra of 0 is left out. Another `score`
    has the usual sizes, and another `family` its usual network and training.

    >>> options = preset(["cat", "dog"], {"minutes": 1, "extras": {"graphones": 8}})
    >>> options["source"], options["extras"], options["training"].minutes
    ('characters', {'graphones': 8}, 1.0)
    """
    options = {**_OPTIONS, **_script(words), **(given or {})}
    short = {key: options.pop(key) for key in tuple(OPTIONS) if options.get(key) is not None}
    own_training = {**options.get("training", {}), **short}
    network, attends = dict(options.get("network", {})), options.get("attention", True)
    options["extras"] = {key: value for key, value in options.get("extras", {}).items() if value != 0}
    end = {key: own_training[key] for key in _LONG if own_training.get(key) is not None} or {
        "steps": min(max(len(words), _LEAST_STEPS), _MOST_STEPS)
    }
    training: dict[str, Any] = {}
    if options["family"] == _OPTIONS["family"]:
        recipe = _recipe(len(words), end)
        sizes = {} if "score" in network else recipe.network
        network = {key: size for key, size in sizes.items() if attends or key != "attention"} | network
        training = dict(recipe.training)
        if "translation_memory" in options["extras"]:
            training["batch_tokens"] *= _LONGER
    options["network"] = network
    options["training"] = TrainingConfig(**{**training, **end, **own_training})
    return options


def expected_time(words: Collection[str], options: Mapping[str, Any]) -> str:
    """Return how long a preset has chosen to train, and what more steps would bring.

    `options` are those that `preset` has returned.
    """
    training = options["training"]
    line = f"training takes {training.steps:,} steps, by the number of words"
    if (seconds := expected_seconds(len(words), options)) is not None:
        line += f": about {_minutes(seconds)} on two free cores"
    if training.steps >= _MOST_STEPS or len(words) < RECIPES[0].words:
        return line
    return f"{line}; --steps {_MOST_STEPS} makes fewer errors: {LONGER_TRAINING}"


def expected_seconds(words: int, options: Mapping[str, Any]) -> float | None:
    """Return how long the steps of a preset take on two free cores; None for another network, or without steps."""
    training = options["training"]
    if training.steps is None or options["family"] != _OPTIONS["family"]:
        return None
    recipe = _recipe(words, {"steps": training.steps})
    slower = _SLOWER if "translation_memory" in options["extras"] else 1
    return training.steps * recipe.seconds * slower if options["network"] == recipe.network else None


def _minutes(seconds: float) -> str:
    number = math.ceil(seconds / 60)
    return "a minute" if number == 1 else f"{number} minutes"


def _script(words: Iterable[str]) -> dict[str, str]:
    """Return the form of Unicode in which a script is written by letters, where that is not the usual one."""
    return {"normalization": "NFD"} if any(map(_HANGUL.search, words)) else {}


def _recipe(words: int, end: Mapping[str, float]) -> Recipe:
    """Return the first recipe for so many words, and for a training with this end."""
    first = next(key for key in _LONG if key in end)
    return next(
        each for each in RECIPES if words >= each.words and (not each.long or end[first] >= _LONG[first])
    )
