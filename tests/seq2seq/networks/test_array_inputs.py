"""Networks that read arrays: gradients, padding, sets without an order, and configurations of untrusted files."""

from __future__ import annotations

import json
from typing import Any

import budget
import numpy as np
import pytest
from errors import assert_raises, error, transcript
from network_cases import IMAGES, NETWORKS, SEQUENCE, SET, TARGETS, Input, Network

from regard.seq2seq.corpus.batching import EncodedPair, collate, source_batch
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.families import FAMILIES, describe, read_config
from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.inputs.kinds import (
    as_input,
    check_fit,
    describe_input,
    input_of,
)
from regard.seq2seq.networks.inputs.vectors import VectorInput
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.encoder import encode
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.sources import Images, Vectors

sets_only = pytest.mark.parametrize("network", [case for case in NETWORKS if case.values[0].inputs is SET])


# ------------------------------------------------------------------------------------------------------ padding


# -------------------------------------------------------------------------------------------------------- order


def allowed(dtype: Any) -> float:
    """The budget of law 1 for each of four layers of attention, one after the other, of a few small vectors."""
    pairs = np.ones((1, 1, 7))
    return float(4 * budget.allowance(pairs * 8, 64, pairs / 7, pairs, np.ones((1, 7, 1)), dtype)[0, 0, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@sets_only
def test_a_set_has_no_order(network: Network, dtype: Any) -> None:
    built, rng = network.build(dtype), np.random.default_rng(5)
    rows = [rng.normal(size=(m, SET.size)).astype(np.float32) for m in (7, 4, 1)]
    orders = [rng.permutation(len(row)) for row in rows]
    links = [frozenset({(m // 2, 1), (m - 1, 0)}) for m in map(len, rows)]
    pairs = [EncodedPair(*each) for each in zip(rows, TARGETS, links, strict=True)]
    moved = [
        EncodedPair(row[order], target, frozenset((int(np.argsort(order)[i]), t) for i, t in link))
        for (row, target, link), order in zip(pairs, orders, strict=True)
    ]
    for guided_alignment in (0.0, 1.0):  # the second depends on the weights of each vector
        one, other = (
            built.loss(collate(each), LossOptions(guided_alignment=guided_alignment))
            for each in (pairs, moved)
        )
        assert other[0] == pytest.approx(one[0], rel=allowed(dtype))
        gradients = other[1](1.0)
        for name, gradient in one[1](1.0).items():
            tolerance = allowed(dtype) * max(np.abs(gradient).max(), 1)
            np.testing.assert_allclose(gradients[name], gradient, atol=tolerance, rtol=0, err_msg=name)
    if dtype is np.float32:
        assert built.loss(collate(pairs))[0] > 10 * allowed(dtype)  # the budget is not trivial


@pytest.mark.parametrize("width", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@sets_only
def test_a_search_permutes_the_weights_of_a_set(network: Network, dtype: Any, width: int) -> None:
    built, rng = network.build(dtype), np.random.default_rng(6)
    rows = [rng.normal(size=(m, SET.size)).astype(np.float32) for m in (7, 5, 2)]
    orders = [rng.permutation(len(row)) for row in rows]
    hypotheses = beam(built, *source_batch(rows), width=width)
    moved = beam(
        built, *source_batch([row[order] for row, order in zip(rows, orders, strict=True)]), width=width
    )
    for (one,), (other,), order in zip(hypotheses, moved, orders, strict=True):
        assert other.tokens == one.tokens
        assert other.score == pytest.approx(one.score, rel=allowed(dtype))
        if built.config.attends:
            np.testing.assert_allclose(other.alignment, one.alignment[:, order], atol=allowed(dtype))
            assert len(order) < 7 or not one.tokens or one.alignment.std() > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sequence_has_an_order(family: str) -> None:
    network, pairs = Network(family, SEQUENCE).build(), Network(family, SEQUENCE).pairs()
    turned = [pair._replace(source=pair.source[::-1]) for pair in pairs]
    one, other = (network.loss(collate(each))[0] for each in (pairs, turned))
    assert abs(one - other) > 1e-4


def test_the_last_vector_of_a_sequence_is_marked() -> None:
    """The mark changes the last state of those that are read forwards, and all that are read backwards."""
    case = Network("recurrent", SEQUENCE)
    network, batch = case.build(), collate(case.pairs())
    p, c, size = network.parameters, network.config, network.config.encoder
    before = encode(p, c, batch.source, batch.lengths)[0].values  # (B, T, C)
    p["vector_end"][...] += 1
    changed = encode(p, c, batch.source, batch.lengths)[0].values != before
    for one, length in zip(changed, batch.lengths, strict=True):
        assert one[:length, :size].any(axis=-1).tolist() == [False] * (length - 1) + [True]
        assert one[:length, size:].any(axis=-1).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_set_has_no_end(family: str) -> None:
    assert "vector_end" in Network(family, SEQUENCE).config().shapes()
    assert "vector_end" not in Network(family, SET).config().shapes()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cell_has_a_position(family: str) -> None:
    network, pairs = Network(family, IMAGES).build(), Network(family, IMAGES).pairs()
    turned = [pair._replace(source=pair.source[::-1]) for pair in pairs]
    one, other = (network.loss(collate(each))[0] for each in (pairs, turned))
    assert abs(one - other) > 1e-4


# ----------------------------------------------------------------------------------------------- configurations


def test_inputs_come_back_from_json() -> None:
    for inputs in (SEQUENCE, SET, IMAGES, None):
        assert as_input(json.loads(json.dumps(describe_input(inputs)))) == inputs
        assert as_input(inputs) is inputs
    for family in FAMILIES:
        tokens = FAMILIES[family].config(9, 9)
        described = describe(tokens)
        assert described["inputs"] is None
        del described["inputs"]  # as in files from before there was this option
        assert read_config(described) == tokens


DAMAGED = """\
read(None)
    ValueError: source_tokens must be at least 1. Got 0 instead.
read("vectors")
    TypeError: inputs must be an input. Got 'vectors' instead.
read([])
    TypeError: inputs must be an input. Got [] instead.
read(7)
    TypeError: inputs must be an input. Got 7 instead.
read({})
    ValueError: inputs must be one of 'vectors', 'images'. Got None instead.
read({"kind": "sounds"})
    ValueError: inputs must be one of 'vectors', 'images'. Got 'sounds' instead.
read({"kind": [1]})
    ValueError: inputs must be one of 'vectors', 'images'. Got [1] instead.
read({"kind": "vectors", "size": 0})
    ValueError: size must be at least 1. Got 0 instead.
read({"kind": "vectors", "size": 10**9})
    ValueError: size must be at most 1048576. Got 1000000000 instead.
read({"kind": "vectors", "size": 3.0})
    TypeError: size must be an integer. Got 3.0 instead.
read({"kind": "vectors", "size": 3, "order": "bag"})
    ValueError: order must be one of 'sequence', 'set'. Got 'bag' instead.
read({"kind": "vectors", "size": 3, "order": [1]})
    ValueError: order must be one of 'sequence', 'set'. Got [1] instead.
read({"kind": "images", "height": 8, "width": 10**30})
    ValueError: width must be at most 4096. Got 1000000000000000000000000000000 instead.
read({"kind": "images", "height": 8, "width": 6})
    ValueError: height and width must be multiples of 4, the side of a cell. Got 8 x 6 instead.
read({"kind": "images", "height": 8, "width": 8, "filters": [0]})
    ValueError: filters[0] must be at least 1. Got 0 instead.
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_damaged_inputs_are_rejected(family: str) -> None:
    def read(inputs: Any) -> Any:
        return read_config({"family": family, "source_tokens": 0, "target_tokens": 9, "inputs": inputs})

    for call, text in transcript(DAMAGED):
        assert_raises(call, text, {"read": read})


@pytest.mark.parametrize("family", FAMILIES)
def test_unknown_and_missing_settings_of_an_input_are_rejected(family: str) -> None:
    for inputs in (
        {"kind": "vectors"},
        {"kind": "vectors", "size": 3, "more": 1},
        {"kind": "images", "size": 3},
    ):
        described = {"family": family, "source_tokens": 0, "target_tokens": 9, "inputs": inputs}
        error(TypeError, read_config, described)


@pytest.mark.parametrize("kind", [RecurrentConfig, TransformerConfig])
@pytest.mark.parametrize(("inputs", "name"), [(SEQUENCE, "vectors"), (SET, "vectors"), (IMAGES, "images")])
def test_a_source_is_of_tokens_or_of_arrays(kind: Any, inputs: Input, name: str) -> None:
    text = error(ValueError, kind, 9, 9, inputs=inputs)
    assert text == f"source_tokens must be 0 for a network that reads {name}. Got 9 instead."
    assert (
        error(ValueError, kind, -1, 9, inputs=inputs) == "source_tokens must be at least 0. Got -1 instead."
    )
    assert error(ValueError, kind, 0, 9) == "source_tokens must be at least 1. Got 0 instead."


def test_layers_of_an_encoder_without_layers_have_no_effect() -> None:
    for inputs, idle in ((SEQUENCE, False), (SET, False), (IMAGES, True)):
        config = RecurrentConfig(0, 9, inputs=inputs, encoder_layers=2)
        assert ("encoder_layers" in config.unused_options) == idle
        same = config.shapes() == RecurrentConfig(0, 9, inputs=inputs).shapes()
        assert same == idle


# --------------------------------------------------------------------------------------------- source and input


@pytest.mark.parametrize("cell", [2, 4, 8, 64, 128, 4096])
def test_the_cells_of_a_network_are_those_of_its_source(cell: int) -> None:
    source = Images(cell, 2 * cell if cell < 4096 else cell, 3, cell)
    inputs = input_of(source.spec)
    assert isinstance(inputs, ImageInput)
    assert inputs.cell == source.cell
    assert inputs.grid == source.grid
    assert inputs.channels == 3
    check_fit(inputs, source.spec)


def test_the_input_of_vectors_has_their_positions() -> None:
    assert input_of(Vectors(3, "set", 2).spec) == VectorInput(5, "set")
    assert input_of(Vectors(3).spec) == VectorInput(3)


def test_a_network_and_its_source_fit() -> None:
    check_fit(VectorInput(3), Vectors(2, positions=1).spec)
    check_fit(ImageInput(8, 8, 1, (5, 7)), Images(8, 8).spec)  # stages of other sizes
    for inputs, source in (
        (VectorInput(3), Vectors(2)),
        (VectorInput(3), Vectors(3, "set")),
        (VectorInput(3), Images(8, 8)),
        (ImageInput(8, 8, 1, (5,)), Images(8, 8)),
        (ImageInput(8, 8, 3, (5, 7)), Images(8, 8)),
        (ImageInput(8, 16, 1, (5, 7)), Images(8, 8)),
        (ImageInput(8, 8), Vectors(16)),
    ):
        text = error(ValueError, check_fit, inputs, source.spec)
        assert text.startswith("the network must read what its source returns. It reads ")
