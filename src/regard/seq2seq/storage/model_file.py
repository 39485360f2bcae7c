"""The model file: a network, its tokenizers and its extras, in a file of `regard.seq2seq.storage.safetensors`.

A model file has the weights (F32) under the names of its configuration's ``shapes()``, and what the two sides' texts
have learned (U8) as ``source.tokens``, ``target.tokens`` and so on, the tokens in UTF-8 with a newline between them.
Its metadata::

    format   "regard.seq2seq"
    version  "1"
    config   JSON: the network's family and all its options      see `regard.seq2seq.networks.families.describe`
    source   JSON: how the source's text is cut                   see `regard.seq2seq.data.tokenizers`
    target   JSON: the same of the target's

With extras (`regard.seq2seq.extras`) the metadata has the settings of each under its name (JSON), and the file what it
has learned as ``name.part`` (U8); docs/files.md lists both. With one that appends tokens to sources, the network's
source vocabulary is that of the source and then that of the target.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from regard.seq2seq.data.array_sources import ArraySource, restore_source
from regard.seq2seq.data.tokenizers import Tokenizer, restore
from regard.seq2seq.extras import EXTRAS, extra_class
from regard.seq2seq.extras.base import Extra, Reranker, SourceAugmenter
from regard.seq2seq.networks.base import Network, Predictor
from regard.seq2seq.networks.families import Config, build, describe, read_config
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.storage.safetensors import Container, Wrong, opened, write

__all__ = [
    "MODEL_FILE",
    "Model",
    "model_file",
    "read_model",
    "write_model",
]

MODEL_FILE = "model.safetensors"  # what a model is called in a folder of its own
FORMAT, VERSION = "regard.seq2seq", "1"
SIDES = ("source", "target")
Known = TypeVar("Known")
Predicts = TypeVar("Predicts", bound=Predictor, covariant=True)


class Model(NamedTuple, Generic[Predicts]):
    """What a model file holds: a network and the texts of its two sides.

    Parameters
    ----------
    network : Network
        Configuration and weights.
    source : Tokenizer or ArraySource
        How the source becomes numbers.
    target : Tokenizer
        How the target becomes numbers and text again.
    extras : mapping of str to Extra
        Optional parts by name, in the order of `regard.seq2seq.extras.EXTRAS`.
    """

    network: Predicts
    source: Tokenizer | ArraySource
    target: Tokenizer
    extras: Mapping[str, Extra] = MappingProxyType({})

    @property
    def augmenter(self) -> SourceAugmenter | None:
        """The extra that appends tokens to sources, if there is one."""
        return next((one for one in self.extras.values() if isinstance(one, SourceAugmenter)), None)

    @property
    def reranker(self) -> Reranker | None:
        """The extra that reranks hypotheses, if there is one."""
        return next((one for one in self.extras.values() if isinstance(one, Reranker)), None)


def write_model(path: str | os.PathLike[str], model: Model[Network]) -> None:
    """Write a model file, which is there whole or not at all.

    Parameters
    ----------
    path : str or path
        Where to; an older file is replaced, that which a link points to, too.
    model : Model
        What.

    Raises
    ------
    OSError
        If it can't be written; an older file is as it was then.
    ValueError
        If what is there is no file.

    Examples
    --------
    >>> import tempfile
    >>> from regard.seq2seq.data.tokenizers import Words
    >>> from regard.seq2seq.networks.recurrent.config import RecurrentConfig
    >>> words = Words.learn(["a"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/model", Model(build(RecurrentConfig(5, 5, 2, 2, 2, 2)), words, words))
    ...     read_model(f"{folder}/model").target.tokens[4]
    'a'
    """
    arrays = dict(model.network.parameters.items())
    metadata = {"format": FORMAT, "version": VERSION, "config": json.dumps(describe(model.network.config))}
    for side, text in zip(SIDES, (model.source, model.target), strict=True):
        metadata[side] = json.dumps(text.describe())
        for name, data in text.data().items():
            arrays[f"{side}.{name}"] = np.frombuffer(data, np.uint8)
    for extra, part in model.extras.items():
        metadata[extra] = json.dumps(part.describe())
        for name, data in part.data(_sizes(model)).items():
            arrays[f"{extra}.{name}"] = np.frombuffer(data, np.uint8)
    write(path, arrays, metadata)


def _sizes(model: Model[Network]) -> tuple[int, int]:
    """Return the sizes of both vocabularies; 0 for arrays."""
    return 0 if isinstance(model.source, ArraySource) else len(model.source), len(model.target)


def model_file(path: str | os.PathLike[str]) -> Path:
    """Return the file of a model that is called by its folder or by its file.

    Parameters
    ----------
    path : str or path
        What somebody has called the model.

    Returns
    -------
    Path
        What is to be read: model.safetensors in a folder, otherwise the same.

    Raises
    ------
    ValueError
        If a folder has none.

    Examples
    --------
    >>> model_file("no-such-folder").name
    'no-such-folder'
    """
    file = Path(path) / MODEL_FILE
    if file.is_file():
        return file
    if Path(path).is_dir():
        raise ValueError(f"{path} holds no {MODEL_FILE}")
    return Path(path)


def read_model(path: str | os.PathLike[str]) -> Model[Network]:
    """Read a model file, whoever made it.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Model
        The network with its texts.

    Raises
    ------
    ValueError
        One line that says what is wrong, if it is no model file.
    OSError
        If it can't be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "short").write_bytes(b"1234")
    ...     try:
    ...         read_model(pathlib.Path(folder, "short"))
    ...     except ValueError as error:
    ...         print(str(error).replace(folder, "here"))
    here/short is no model file: 4 bytes are too few
    """
    with opened(path, "model file") as file:
        file.expect_format(FORMAT, VERSION)
        return _read(file)


def _read(file: Container) -> Model[Network]:
    try:
        config = read_config(_mapping(file.json("config")))
    except (TypeError, ValueError) as error:
        raise Wrong(f"its configuration is damaged: {str(error).splitlines()[0]}") from None
    file.expect("F32", config.shapes())  # so that the sizes that the configuration promises are in the file
    names = [name for name in EXTRAS if name in file.metadata]
    if names and config.inputs:
        raise Wrong(f"its configuration is damaged: {names[0]} needs a source of tokens")
    augmented = any(issubclass(extra_class(name), SourceAugmenter) for name in names)
    # An augmenter appends target tokens to sources, so these are source tokens, too.
    counts = config.source_tokens - (config.target_tokens if augmented else 0), config.target_tokens
    restores = [restore_source if config.inputs else partial(restore, size=counts[0]), partial(restore, size=counts[1])]
    source, target = (
        _restored(file, side, how, f"how its {side} is cut") for side, how in zip(SIDES, restores, strict=True)
    )
    parts = [*SIDES, *names]
    _check_names(
        file, [*config.shapes(), *(f"{part}.{name}" for part in parts for name in _parts(file, part))]
    )
    sizes = counts[0], len(target)
    extras = {name: _restored(file, name, extra_class(name).restore, name, sizes) for name in names}
    return _assembled(file, config, source, target, extras)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("it is no JSON object")
    return value


def _parts(file: Container, side: str) -> list[str]:
    """Return the names of what one side's text has learned."""
    return [name.removeprefix(f"{side}.") for name in file.tensors if name.startswith(f"{side}.")]


def _restored(
    file: Container, part: str, restore: Callable[..., Known], what: str, *sizes: tuple[int, int]
) -> Known:
    """Read a tokenizer or an extra."""
    data = {name: file.bytes(f"{part}.{name}") for name in _parts(file, part)}
    try:
        return restore(_mapping(file.json(part)), data, *sizes)
    except (TypeError, ValueError) as error:
        raise Wrong(f"{what} is damaged: {str(error).splitlines()[0]}") from None


def _check_names(file: Container, names: list[str]) -> None:
    if missing := sorted(set(names) - file.tensors.keys()):
        raise Wrong(f"{missing[0]} is missing")
    if unknown := sorted(file.tensors.keys() - set(names)):
        raise Wrong(f"{unknown[0]!r:.60} is unknown")


def _assembled(
    file: Container, config: Config, source: Tokenizer, target: Tokenizer, extras: Mapping[str, Extra]
) -> Model[Network]:
    """Read the weights, once everything fits the configuration."""
    parameters = Parameters(config.shapes())  # no more than the file has, as was checked
    for name, parameter in parameters.items():
        file.fill(name, parameter)
    return Model(build(config, parameters), source, target, extras)
