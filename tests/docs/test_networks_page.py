"""The page of the networks: its tables name every parameter, and its formulas alone give the output of each network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from network_formulas import recurrent_steps, transformer_steps
from numpy.typing import NDArray

from regard.seq2seq.networks.inputs.base import Input
from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.inputs.vectors import VectorInput
from regard.seq2seq.networks.normalizing import NORMALIZERS
from regard.seq2seq.networks.recurrent.config import LOCAL, SCORES, RecurrentConfig
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork

Array = NDArray[Any]
Config = RecurrentConfig | TransformerConfig

PAGE = Path(__file__).parents[2] / "docs" / "networks.md"
ROW = re.compile(r"^\| (`[^|]+) \| `([^|`]+)` \| ?([^|]*)\|$", re.MULTILINE)

SEQUENCE, SET = VectorInput(3), VectorInput(3, order="set")
PICTURE = ImageInput(8, 12, channels=2, filters=(3, 5))
INPUTS = [None, SEQUENCE, SET, PICTURE]


def recurrent(inputs: Input | None = None, **options: Any) -> RecurrentConfig:
    sizes = {"embedding": 5, "encoder": 4, "decoder": 8, "attention": 3} | options
    return RecurrentConfig(0 if inputs else 11, 9, **sizes, inputs=inputs)


def transformer(inputs: Input | None = None, **options: Any) -> TransformerConfig:
    sizes = {
        "model_size": 8,
        "heads": 2,
        "feedforward_size": 6,
        "encoder_layers": 2,
        "decoder_layers": 3,
    } | options
    return TransformerConfig(0 if inputs else 11, 9, **sizes, inputs=inputs)


CONFIGS: list[Config] = [
    *(
        recurrent(score=score, style=style, cell=cell)
        for score, style, cell in product(
            (*SCORES, "none"),
            ("conditional", "bahdanau", "luong"),
            ("gru", "lstm"),
        )
    ),
    *(recurrent(style=style, layers=2) for style in ("conditional", "bahdanau", "luong")),
    recurrent(style="luong", input_feeding=False),
    recurrent(score="location", positions=3),
    *(recurrent(normalize=name, score="cosine") for name in (*NORMALIZERS[1:], "hard")),
    *(
        recurrent(normalize=name, window=2, style=style)
        for name, style in product(LOCAL, ("luong", "bahdanau"))
    ),
    *(transformer(normalize=name) for name in NORMALIZERS[1:]),
    transformer(normalize="entmax", alpha=1.2),
    recurrent(cell="lstm", layers=3, encoder_layers=2),
    *(recurrent(inputs, encoder_layers=2) for inputs in INPUTS[1:]),
    recurrent(SET, encoder=48, encoder_layers=1),  # three heads
    *(transformer(inputs) for inputs in INPUTS),
    transformer(decoder_layers=1),
    transformer(alignment_layer=1),
]
NAMES = [re.sub(r"[A-Za-z]*Config|\w+_tokens=\d+, ", "", repr(config)) for config in CONFIGS]


# The tables


def test_the_tables_have_every_parameter_with_its_shape() -> None:
    for config in CONFIGS:
        assert dict(documented(config)) == config.shapes(), config


def documented(config: Config) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the parameters of a configuration by the tables of the page."""
    for title in sections(config):
        for names, shape, condition in ROW.findall(table(title)):
            yield from parameters(names, shape, condition, letters(config))


def sections(config: Config) -> list[str]:
    titles = ["## Recurrent networks" if isinstance(config, RecurrentConfig) else "## Transformers"]
    if isinstance(config.inputs, VectorInput):
        titles.append("## Vectors")
        if config.inputs.order == "set" and isinstance(config, RecurrentConfig):
            titles.append("A set in a recurrent network")
    if isinstance(config.inputs, ImageInput):
        titles.append("A picture, s counted")
    return titles


def table(title: str) -> str:
    """Return the first table after the beginning of a line."""
    after = PAGE.read_text("utf-8").split(f"\n{title}", 1)[1]
    return re.findall(r"(?:^\|.*\n)+", after, re.MULTILINE)[0]


def letters(config: Config) -> dict[str, Any]:
    """Return what the shapes and conditions of the page are made of."""
    known = dict(vars(config)) | {"null": None, "ordered": config.input.ordered}
    if isinstance(config, RecurrentConfig):
        known |= {"E": config.embedding, "H": config.encoder, "C": 2 * config.encoder, "D": config.decoder}
        known |= {"A": config.attention, "G": {"gru": 3, "lstm": 4}[config.cell]}
        known |= {"P": {"gru": 1, "lstm": 2}[config.cell], "M": config.encoder_layers or config.layers}
        known["W"] = known["E"] if config.input.ordered else known["C"]
    else:
        known |= {"W": config.model_size, "F": config.feedforward_size}
    if isinstance(config.inputs, VectorInput):
        known |= {"n": config.inputs.size, "ordered": config.inputs.order == "sequence"}
    if isinstance(config.inputs, ImageInput):
        known |= vars(config.inputs) | {"f": (config.inputs.channels, *config.inputs.filters)}
    return known


def parameters(
    names: str, shape: str, condition: str, known: dict[str, Any]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the parameters of a row: its condition is an expression, a range of a counter, or both."""
    expression, counter = re.fullmatch(r"(?:`([^`]*)`,? ?)?(.*?) ?", condition).groups()
    counts: list[dict[str, int]] = [{}]
    if " = " in counter:
        letter, first, last = re.fullmatch(r"(\w) = (\d) to (.+)", counter.replace("`", "")).groups()
        counts = [{letter: count} for count in range(int(first), value(last, known) + 1)]
    if expression is None or value(expression, known):
        for count in counts:
            for name in re.findall("`([^`]+)`", names):
                yield name.format(**count), tuple(value(f"({shape},)", known | count))


def value(expression: str, known: dict[str, Any]) -> Any:
    return eval(expression, {"len": len}, known)


# The formulas


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_a_network_computed_from_the_formulas_gives_the_same_logits_and_weights(config: Config) -> None:
    network = (RecurrentNetwork if isinstance(config, RecurrentConfig) else TransformerNetwork)(config)
    rng = np.random.default_rng(3)
    for parameter in network.parameters.values():
        parameter[...] = rng.normal(0, 0.4, parameter.shape)
    source, tokens = drawn_source(config.inputs, rng), [1, 5, 7, 5, 8]

    p = {name: np.asarray(parameter, float) for name, parameter in network.parameters.items()}
    reference = recurrent_steps if isinstance(config, RecurrentConfig) else transformer_steps
    logits, weights = reference(p, config, source, tokens)

    given = (PICTURE.cells(source[None]) if config.inputs == PICTURE else source)[:, None]
    stepper = network.stepper(given.astype(np.float32 if config.inputs else np.int64), np.array([len(given)]))
    for step, token in enumerate(tokens):
        network_logits, network_weights = stepper(np.array([[token]]))
        np.testing.assert_allclose(network_logits[0, 0], logits[step], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(network_weights[0, 0], weights[step], rtol=1e-4, atol=1e-5)


def drawn_source(inputs: Input | None, rng: np.random.Generator) -> Array:
    """Draw the ids of a sentence, vectors, or a picture."""
    if inputs is None:
        return np.array([4, 9, 6, 9, 2])
    return rng.normal(size=(8, 12, 2)) if inputs == PICTURE else rng.normal(size=(6, 3))
