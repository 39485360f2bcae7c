"""The families of networks by name: building one, and its configuration as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

from regard import _check
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.inputs.kinds import describe_input
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

    Parameters
    ----------
    config : Config
        Of any family.
    parameters : Parameters, optional
        Its parameters; zeros by default.

    Returns
    -------
    Network
        The network.
    """
    return FAMILIES[family(config)].network(config, parameters)


def describe(config: Config) -> dict[str, Any]:
    """Convert a configuration to values for JSON.

    Parameters
    ----------
    config : Config
        Of any family.

    Returns
    -------
    dict
        With its family's name.
    """
    return {"family": family(config)} | asdict(config) | {"inputs": describe_input(config.inputs)}


def family(config: Config) -> str:
    """Return the name of a configuration's family.

    Parameters
    ----------
    config : Config
        Of any family.

    Returns
    -------
    str
        A key of `FAMILIES`.
    """
    return next(name for name, family in FAMILIES.items() if isinstance(config, family.config))


def read_config(described: Mapping[str, Any]) -> Config:
    """Return the configuration that `describe` described.

    Parameters
    ----------
    described : mapping
        From a file, which may be untrusted.

    Returns
    -------
    Config
        Checked.
    """
    options = dict(described)
    name = options.pop("family", None)
    _check.choice("family", name, FAMILIES)
    config: Config = FAMILIES[name].config(**options)
    return config
