"""The families of networks by name: building one, and its configuration as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

from regard import _check
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.inputs.kinds import describe_input
from regard.seq2seq.networks.options import today
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork

__all__ = ["FAMILIES", "Config", "build", "describe", "family", "read_config"]

Config: TypeAlias = RecurrentConfig | TransformerConfig


class Family(NamedTuple):
    """The two classes of a family."""

    config: type[Any]
    network: Callable[..., Network]


FAMILIES = {
    "recurrent": Family(RecurrentConfig, RecurrentNetwork),
    "transformer": Family(TransformerConfig, TransformerNetwork),
}


def build(config: Config, parameters: Parameters | None = None) -> Network:
    """Build the network of a configuration.

    `parameters`: its parameters; zeros by default.
    """
    return FAMILIES[family(config)].network(config, parameters)


def describe(config: Config) -> dict[str, Any]:
    """Convert a configuration to values for JSON."""
    return {"family": family(config)} | asdict(config) | {"inputs": describe_input(config.inputs)}


def family(config: Config) -> str:
    """Return the name of a configuration's family."""
    return next(name for name, family in FAMILIES.items() if isinstance(config, family.config))


def read_config(described: Mapping[str, Any]) -> Config:
    """Return the configuration that `describe` described.

    `described`: from a file, which may be untrusted.
    """
    options = dict(described)
    name = options.pop("family", None)
    _check.choice("family", name, FAMILIES)
    kind = FAMILIES[name].config
    config: Config = kind(**today(kind, options))
    return config
