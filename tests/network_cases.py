"""Networks of every family and option with the inputs that they read, tiny and with random parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from regard.seq2seq.corpus.batching import EncodedPair
from regard.seq2seq.networks.families import FAMILIES, build
from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.inputs.vectors import VectorInput
from regard.seq2seq.networks.normalizing import NORMALIZERS
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.config import LOCAL, SCORES
from regard.seq2seq.sources import Images
from regard.seq2seq.sources.text.vocabulary import END, START

Input = VectorInput | ImageInput
SEQUENCE, SET, IMAGES = VectorInput(3), VectorInput(3, "set"), ImageInput(4, 8, 2, (4,))
SIZES: dict[str, dict[str, int]] = {
    "recurrent": {"embedding": 4, "encoder": 3, "decoder": 5, "attention": 3},
    "transformer": {"model_size": 8, "heads": 2, "feedforward_size": 12}
    | {"encoder_layers": 2, "decoder_layers": 2},
}
SOURCES = [[5, 6, END], [END], [4, 8, 7, END]]
TARGETS = [[START, 5, 6, END], [START, 7, END], [START, 8, 9, 10, 4, END]]
LINKS = [frozenset({(0, 0), (2, 1), (1, 1)}), frozenset({(0, 0)}), frozenset({(3, 2), (1, 0)})]


class Network(NamedTuple):
    """The family, the input (None: tokens) and the options of a network."""

    family: str
    inputs: Input | None = None
    options: dict[str, Any] = {}  # noqa: RUF012

    def config(self) -> Any:
        """Its configuration, for 11 target tokens."""
        tokens = 9 if self.inputs is None else 0
        sizes = {**SIZES[self.family], **self.options}
        return FAMILIES[self.family].config(tokens, 11, **sizes, inputs=self.inputs)

    def build(self, dtype: Any = np.float64) -> Any:
        """The network with random parameters, none of them 0 or 1."""
        config, rng = self.config(), np.random.default_rng(2)
        size = Parameters(config.shapes()).flat.size
        network = build(config, Parameters(config.shapes(), np.zeros(size, dtype)))
        network.initialize(rng, np.arange(11))
        network.parameters.flat += 0.3 * rng.standard_normal(size).astype(dtype)
        return network

    def pairs(self, guided: bool = False) -> list[EncodedPair]:
        """Three examples, of different lengths where they may have them."""
        rng, inputs, sources = np.random.default_rng(3), self.inputs, list[Any](SOURCES)
        if isinstance(inputs, VectorInput):
            sources = [rng.normal(size=(len(m), inputs.size)).astype(np.float32) for m in SOURCES]
        elif inputs is not None:
            shape = inputs.height, inputs.width, inputs.channels
            read = Images(*shape, inputs.cell).read
            sources = [read(rng.integers(0, 255, shape, np.uint8)) for _ in SOURCES]
        links = LINKS if guided else [frozenset()] * 3
        return [EncodedPair(*each) for each in zip(sources, TARGETS, links, strict=True)]


STRUCTURES: list[dict[str, Any]] = [
    {},
    {"score": "none"},
    {"score": "none", "cell": "lstm", "layers": 2},
    {"cell": "lstm"},
    {"layers": 2},
    {"layers": 2, "cell": "lstm", "score": "general"},
    {"encoder_layers": 3},
    {"layers": 2, "encoder_layers": 1, "cell": "lstm"},
    {"score": "concat"},
    {"normalize": "local_p", "window": 2, "score": "location"},
]
ATTENTIONS: list[dict[str, Any]] = [
    *({"score": score} for score in SCORES if score not in ("additive", "concat", "dot", "location")),
    {"score": "dot", "decoder": 6},
    {"score": "location", "positions": 2},  # fewer than the longest source has
    *({"normalize": name} for name in ("sparsemax", "entmax", "sigmoid", "relu", "hard")),
    *({"normalize": name, "window": 1} for name in LOCAL),
]
# Attention does not know the style. The two that have one call for all steps, unless the attention is another, try half
# of the others each; input feeding is Luong's alone.
STYLES = [
    {"style": style, **options}
    for style, attentions in (
        ("bahdanau", ATTENTIONS[::2]),
        ("luong", [*ATTENTIONS, {"input_feeding": False}]),
        ("conditional", ATTENTIONS[1::2]),
    )
    for options in [*STRUCTURES, *attentions]
]
OF_ARRAYS: list[tuple[str, dict[str, Any]]] = [
    ("recurrent", {}),
    ("transformer", {}),
    ("recurrent", {"encoder_layers": 2}),
    ("recurrent", {"encoder": 32, "style": "luong", "score": "general"}),  # two heads in a set
    ("recurrent", {"cell": "lstm", "layers": 2, "style": "bahdanau"}),
    ("recurrent", {"score": "none"}),
    ("recurrent", {"score": "dot", "decoder": 6}),
]


def named(network: Network, kind: str, slow: bool) -> Any:
    """A set of parameters with a name."""
    name = "-".join([network.family, kind, *map(str, network.options.values())])
    return pytest.param(network, id=name, marks=[pytest.mark.slow] * slow)


# One style has every option in the quick tests, the others only those options in which styles differ.
OF_TOKENS = [
    named(Network("recurrent", None, o), "tokens", not (o["style"] == "luong" or len(o) == 1)) for o in STYLES
]
NETWORKS = [
    *OF_TOKENS,
    named(Network("transformer"), "tokens", False),
    *(
        named(Network("transformer", None, {"normalize": name}), "tokens", name != "entmax")
        for name in NORMALIZERS[1:]
    ),
    *(
        named(Network(family, inputs, options), kind, bool(options))
        for family, options in OF_ARRAYS
        for kind, inputs in (("sequence", SEQUENCE), ("set", SET), ("images", IMAGES))
        if not (inputs is IMAGES and "encoder_layers" in options)
    ),
]
every_network = pytest.mark.parametrize("network", NETWORKS)
