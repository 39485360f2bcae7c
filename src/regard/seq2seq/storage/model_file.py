"""The model file: a network, its tokenizers and its extras, in a file of `regard._safetensors`.

A model file has the parameters (F32) under the names of its configuration's ``shapes()``, and the data of the two
tokenizers (U8) as ``source.tokens``, ``target.tokens`` and so on, tokens in UTF-8 with newlines between them; and
``held_out.answers`` (`regard.seq2seq.evaluation.held_out`), optional. Its metadata::

    format   "regard.seq2seq"
    version  "2"
    config   JSON: the network's family and all its options      see `regard.seq2seq.networks.families.describe`
    source   JSON: the options of the source's tokenizer          see `regard.seq2seq.sources.text.tokenizers`
    target   JSON: those of the target's
    card     JSON, optional: what is known about the model
    calibration  JSON, optional: makes probabilities of the answers of a search
    repetitions  JSON, optional: how often a group of tokens may come in a row in an output

With extras (`regard.seq2seq.extras`) the metadata has under ``extras`` the distribution of each (JSON), under its name
its options (JSON), and the file its data as ``name.part`` (U8). With one that appends tokens to sources, the network's
source vocabulary is that of the source, followed by that of the target.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from regard import _check
from regard._safetensors import Container, InvalidFile, opened, write
from regard.seq2seq.decoding.calibration import Calibration
from regard.seq2seq.evaluation.held_out import HeldOut, from_json
from regard.seq2seq.extras import augments, extra_class, in_order, owner
from regard.seq2seq.extras.base import Extra, Reranker, SourceAugmenter
from regard.seq2seq.networks.base import Network, Predictor
from regard.seq2seq.networks.families import Config, build, describe, read_config
from regard.seq2seq.networks.inputs.kinds import check_fit
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.sources import Source, restore_source
from regard.seq2seq.sources.text.tokenizers import Tokenizer, restore

__all__ = [
    "MODEL_FILE",
    "Model",
    "model_file",
    "read_model",
    "write_model",
]

MODEL_FILE = "model.safetensors"  # the file's name in a folder of ``regard train``
FORMAT, VERSION = "regard.seq2seq", "2"
SIDES = ("source", "target")
_HELD_OUT = "held_out.answers"
Part = TypeVar("Part")
Predicts = TypeVar("Predicts", bound=Predictor, covariant=True)


class Model(NamedTuple, Generic[Predicts]):
    """A network, the tokenizers of its two sides, and its extras: the content of a model file.

    `network`: the configuration and the parameters; `source`: the reader of sources; `target`: the tokenizer of the
    target; `extras`: optional parts by name, in the order in which they learned; `card`: facts about the
    model as JSON values, such as its data and its error rates; `calibration`: maps scores of a search to the
    probability that its answer is right; `repetitions`: how often a group of tokens may come in a row in an output,
    which then is never empty; `held_out`: sources that the model has not learned from, and digests of their right
    answers.
    """

    network: Predicts
    source: Source
    target: Tokenizer
    extras: Mapping[str, Extra] = MappingProxyType({})
    card: Mapping[str, Any] | None = None
    calibration: Calibration | None = None
    repetitions: int | None = None
    held_out: HeldOut | None = None

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of both vocabularies; 0 for rows of numbers."""
        return self.source.spec.tokens, len(self.target)

    @property
    def alike(self) -> bool:
        """Whether an output may copy its source's unknown tokens and repetitions: words those of words."""
        sides = self.source.kind, self.target.token_type
        return self.source.spec.tokens > 0 and len({side == "characters" for side in sides}) == 1

    @property
    def augmenter(self) -> SourceAugmenter | None:
        """The extra that appends tokens to sources; None without one."""
        return next((extra for extra in self.extras.values() if isinstance(extra, SourceAugmenter)), None)

    @property
    def reranker(self) -> Reranker | None:
        """The extra that reranks hypotheses; None without one."""
        return next((extra for extra in self.extras.values() if isinstance(extra, Reranker)), None)


def write_model(path: str | os.PathLike[str], model: Model[Network]) -> None:
    """Write a model file atomically; an older one is replaced, also where a link points to it."""
    arrays = dict(model.network.parameters.items())
    metadata = {"format": FORMAT, "version": VERSION, "config": json.dumps(describe(model.network.config))}
    if model.card:
        metadata["card"] = json.dumps(dict(model.card))
    if model.calibration:
        metadata["calibration"] = json.dumps(model.calibration._asdict())
    if model.repetitions:
        metadata["repetitions"] = json.dumps(model.repetitions)
    target = model.target.describe(), model.target.data()
    for side, (settings, learned) in zip(SIDES, (model.source.settings(), target), strict=True):
        metadata[side] = json.dumps(settings)
        for name, data in learned.items():
            arrays[f"{side}.{name}"] = np.frombuffer(data, np.uint8)
    if model.extras:
        metadata["extras"] = json.dumps({name: owner(name) for name in model.extras})
    for extra, part in model.extras.items():
        metadata[extra] = json.dumps(part.describe())
        for name, data in part.data(model.sizes).items():
            arrays[f"{extra}.{name}"] = np.frombuffer(data, np.uint8)
    if model.held_out:
        arrays[_HELD_OUT] = np.frombuffer(json.dumps(dict(model.held_out)).encode(), np.uint8)
    write(path, arrays, metadata)


def model_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a model file: of a folder, that of model.safetensors in it."""
    _check.not_empty(path)
    file = Path(path) / MODEL_FILE
    if file.is_file():
        return file
    if Path(path).is_dir():
        _check.fail(f"{path} has no {MODEL_FILE}")
    return Path(path)


def read_model(path: str | os.PathLike[str]) -> Model[Network]:
    """Read a model file, which may be untrusted."""
    with opened(path, "model file") as file:
        file.expect_format(FORMAT, VERSION, checksum=False)  # other programs may write none
        for name, distribution in _extras(file).items():
            if not owner(name):
                _check.fail(f"{path} has the extra {name} of {distribution}, which is not installed")
        return _read(file)


def _extras(file: Container) -> dict[str, str]:
    """Read the names of the extras, with the distributions that have them."""
    if "extras" not in file.metadata:
        return {}
    extras = file.json("extras")
    if not (isinstance(extras, dict) and extras and all(map(_is_name, chain(*extras.items())))):
        raise InvalidFile("its extras must be names of extras with their distributions")
    return extras


def _is_name(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\w.-]{1,60}", value) is not None


def _read(file: Container) -> Model[Network]:
    try:
        config = read_config(_check.mapping("it", file.json("config")))
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"its configuration is damaged: {str(error).splitlines()[0]}") from None
    file.expect("F32", config.shapes())  # before anything of these sizes is allocated
    names = in_order(_extras(file))
    if names and not config.source_tokens:
        raise InvalidFile(f"its configuration is damaged: {names[0]} needs a source of tokens")
    # An augmenter appends target tokens to sources, so these are source tokens, too.
    appended = config.target_tokens if any(map(augments, names)) else 0
    sizes = config.source_tokens - appended, config.target_tokens
    source = _restored(file, "source", partial(restore_source, tokens=sizes[0]), "its source")
    target = _restored(file, "target", partial(restore, size=sizes[1]), "its target")
    _check_fit(config, source)
    parts = [*SIDES, *names]
    arrays = [f"{part}.{name}" for part in parts for name in _array_names(file, part)]
    _check_names(file, [*config.shapes(), *arrays, *{_HELD_OUT} & file.tensors.keys()])
    extras = {name: _restored(file, name, extra_class(name).restore, name, sizes) for name in names}
    model = _assembled(file, config, source, target, extras)
    model = model._replace(card=_card(file), held_out=_held_out(file))
    return model._replace(calibration=_calibration(file), repetitions=_repetitions(file))


def _held_out(file: Container) -> HeldOut | None:
    """Read the held-out sources, if there are any."""
    if _HELD_OUT not in file.tensors:
        return None
    try:
        return from_json(file.bytes(_HELD_OUT))
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"its {_HELD_OUT} is damaged: {str(error).splitlines()[0]}") from None


def _card(file: Container) -> Mapping[str, Any] | None:
    """Read the card, if there is one."""
    if "card" not in file.metadata:
        return None
    card = file.json("card")
    if not isinstance(card, dict):
        raise InvalidFile("its card is damaged: it is not a JSON object")
    return card


def _calibration(file: Container) -> Calibration | None:
    """Read the calibration, if there is one."""
    if "calibration" not in file.metadata:
        return None
    try:
        return Calibration.restore(file.json("calibration"))
    except ValueError as error:
        raise InvalidFile(f"its calibration is damaged: {error}") from None


def _repetitions(file: Container) -> int | None:
    """Read how often a group of tokens may come in a row, if that is known."""
    if "repetitions" not in file.metadata:
        return None
    most = file.json("repetitions")
    if type(most) is not int or most < 1:
        raise InvalidFile(f"its repetitions must be an integer, at least 1. Got {most!r:.60} instead.")
    return most


def _check_fit(config: Config, source: Source) -> None:
    try:
        check_fit(config.inputs, source.spec)
    except ValueError as error:
        raise InvalidFile(f"its configuration is damaged: {error}") from None


def _array_names(file: Container, part: str) -> list[str]:
    """Return the names of the arrays of a side or an extra."""
    return [name.removeprefix(f"{part}.") for name in file.tensors if name.startswith(f"{part}.")]


def _restored(
    file: Container, part: str, restore: Callable[..., Part], what: str, *sizes: tuple[int, int]
) -> Part:
    """Read a tokenizer or an extra."""
    data = {name: file.bytes(f"{part}.{name}") for name in _array_names(file, part)}
    try:
        return restore(_check.mapping("it", file.json(part)), data, *sizes)
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"{what} is damaged: {str(error).splitlines()[0]}") from None


def _check_names(file: Container, names: list[str]) -> None:
    if missing := sorted(set(names) - file.tensors.keys()):
        raise InvalidFile(f"{missing[0]} is missing")
    if unknown := sorted(file.tensors.keys() - set(names)):
        raise InvalidFile(f"{unknown[0]!r:.60} is unknown")


def _assembled(
    file: Container, config: Config, source: Source, target: Tokenizer, extras: Mapping[str, Extra]
) -> Model[Network]:
    """Read the parameters, whose names and shapes have been checked."""
    parameters = Parameters(config.shapes())  # as large as those of the file
    for name, parameter in parameters.items():
        file.fill(name, parameter)
    return Model(build(config, parameters), source, target, extras)
