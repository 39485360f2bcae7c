"""What every network can do, and the families there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from regard import _check
from regard.kernels.search import Aims, Found
from regard.seq2seq.data.batching import Batch, Ids
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.network import Recurrent, RecurrentNetwork
from regard.seq2seq.networks.top_tokens import Tops
from regard.seq2seq.networks.transformer.network import Transformer, TransformerNetwork

__all__ = [
    "FAMILIES",
    "Config",
    "Knowing",
    "Network",
    "Predicting",
    "Ranking",
    "Searching",
    "Steps",
    "build",
    "describe",
    "family",
    "read_config",
]

Array = NDArray[Any]
Config: TypeAlias = Recurrent | Transformer


class Steps(Protocol):
    """The steps of a search: k hypotheses of each of B sentences."""

    def __call__(self, words: Ids) -> tuple[Array, Array]:
        """Predict what follows words (B, k): logits (B, k, V); weights (B, k, T), or (B, k, 0) without attention."""

    def select(self, parents: Ids) -> None:
        """Go on with these hypotheses (B, k') of each sentence."""

    def keep(self, sentences: Ids) -> None:
        """Go on with these sentences (B',) only."""


@runtime_checkable
class Ranking(Steps, Protocol):
    """Steps of a network that can find the likeliest words without all logits."""

    def rank(self, words: Ids, count: int, first: int) -> tuple[Tops, Array]:
        """Predict what follows words (B, k): the likeliest words from `first` on, of B k rows; weights (B, k, T)."""


@runtime_checkable
class Searching(Steps, Protocol):
    """Steps of a network that can search by themselves, many at a time."""

    def beam(self, aims: Aims) -> Found:
        """Search to the end, before the first step."""


@runtime_checkable
class Knowing(Steps, Protocol):
    """Steps of a network that can also say where words were taken from, now that they are known."""

    def posterior(self, words: Ids) -> Array:
        """Return where words (B, k) that came after the last step were taken from: (B, k, T)."""


class Predicting(Protocol):
    """What a search needs of a network, or of several."""

    def steps(self, source: Ids, lengths: Ids, width: int = 1) -> Steps:
        """Begin a search for sources (T, B) of these lengths (B,)."""


class Network(Predicting, Protocol):
    """A network: its configuration, its parameters, its loss, and its steps."""

    parameters: Parameters

    @property
    def config(self) -> Config:
        """What it is made of."""

    def draw(self, rng: np.random.Generator, target_counts: Array) -> None:
        """Draw the parameters that training starts from; `target_counts` (V,) says how often each word comes."""

    def loss(
        self,
        batch: Batch,
        *,
        dropout: float = 0.0,
        rng: np.random.Generator | None = None,
        smoothing: float = 0.0,
        guidance: float = 0.0,
        agreement: float = 0.0,
    ) -> tuple[float, Callable[[float], dict[str, Array]]]:
        """Return the mean loss for each word, and its pullback to gradients by parameter name."""


class Family(NamedTuple):
    """The two classes of a family."""

    config: type[Any]
    network: Callable[..., Network]


FAMILIES = {
    "recurrent": Family(Recurrent, RecurrentNetwork),
    "transformer": Family(Transformer, TransformerNetwork),
}


def build(config: Config, parameters: Parameters | None = None) -> Network:
    """Make the network that a configuration describes.

    Parameters
    ----------
    config : Config
        Of any family.
    parameters : Parameters, optional
        Its numbers; zeros by default.

    Returns
    -------
    Network
        Ready to be drawn, trained or searched with.

    Examples
    --------
    >>> build(Recurrent(9, 7, embedding=4, encoder=3, decoder=5, attention=2)).parameters.flat.size
    668
    """
    return FAMILIES[family(config)].network(config, parameters)


def describe(config: Config) -> dict[str, Any]:
    """Return a configuration as what JSON can hold.

    Parameters
    ----------
    config : Config
        Of any family.

    Returns
    -------
    dict
        With its family's name.

    Examples
    --------
    >>> read_config(describe(Recurrent(9, 7))) == Recurrent(9, 7)
    True
    """
    return {"family": family(config)} | asdict(config)


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

    Examples
    --------
    >>> family(Recurrent(9, 7))
    'recurrent'
    """
    return next(name for name, family in FAMILIES.items() if isinstance(config, family.config))


def read_config(described: Mapping[str, Any]) -> Config:
    """Return the configuration that `describe` described.

    Parameters
    ----------
    described : mapping
        From a file, which may be anybody's.

    Returns
    -------
    Config
        Checked.

    Raises
    ------
    ValueError, TypeError
        If it is none.

    Examples
    --------
    >>> read_config({"family": "recurrent", "source_words": 0, "target_words": 7})
    Traceback (most recent call last):
    ValueError: source_words must be at least 1. Got 0 instead.
    """
    options = dict(described)
    name = options.pop("family", None)
    _check.choice("family", name, FAMILIES)
    made: Config = FAMILIES[name].config(**options)
    return made
