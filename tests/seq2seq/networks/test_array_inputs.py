"""Networks that read arrays: gradients, padding, sets without an order, and configurations of untrusted files."""

from __future__ import annotations

import json
from typing import Any

import budget
import numpy as np
import pytest
from errors import assert_raises, error, transcript
from losses import loss_of

from regard import nn
from regard.seq2seq.corpus.batching import EncodedPair, collate, source_batch
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.networks.base import LossOptions
from regard.seq2seq.networks.families import FAMILIES, build, describe, read_config
from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.inputs.kinds import (
    as_input,
    check_fit,
    describe_input,
    input_of,
)
from regard.seq2seq.networks.inputs.vectors import VectorInput
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.encoder import encode
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.sources import Images, Vectors
from regard.seq2seq.sources.text.vocabulary import END, START

Input = VectorInput | ImageInput

SEQUENCE, SET, IMAGES = VectorInput(3), VectorInput(3, "set"), ImageInput(4, 8, 2, (4,))
SIZES: dict[str, dict[str, int]] = {
    "recurrent": {"embedding": 4, "encoder": 3, "decoder": 5, "attention": 3},
    "transformer": {
        "model_size": 8,
        "heads": 2,
        "feedforward_size": 12,
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
}
TARGETS = [[START, 5, 6, END], [START, 7, END], [START, 8, 9, 10, 4, END]]
LINKS = [frozenset({(0, 0), (2, 1), (1, 1)}), frozenset({(0, 0)}), frozenset({(3, 2), (1, 0)})]

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("recurrent", {}),
    ("transformer", {}),
    ("recurrent", {"encoder_layers": 2}),
    ("recurrent", {"encoder": 32, "style": "luong", "score": "general"}),  # two heads in a set
    ("recurrent", {"cell": "lstm", "layers": 2, "style": "bahdanau"}),
    ("recurrent", {"score": "none"}),
    ("recurrent", {"score": "dot", "decoder": 6}),
]
CASES = [
    pytest.param(
        family,
        inputs,
        options,
        id="-".join([family, name, *map(str, options.values())]),
        marks=[pytest.mark.slow] if options else [],
    )
    for family, options in OPTIONS
    for name, inputs in (("sequence", SEQUENCE), ("set", SET), ("images", IMAGES))
    if not (inputs is IMAGES and "encoder_layers" in options)
]
every_network = pytest.mark.parametrize(("family", "inputs", "options"), CASES)
sets_only = pytest.mark.parametrize(
    ("family", "inputs", "options"), [case for case in CASES if case.values[1] is SET]
)


def config_of(family: str, inputs: Input, options: dict[str, Any]) -> Any:
    return FAMILIES[family].config(0, 11, **{**SIZES[family], **options}, inputs=inputs)


def make_network(family: str, inputs: Input, options: dict[str, Any], dtype: Any = np.float64) -> Any:
    """A network with random parameters, none of them 0 or 1."""
    config, rng = config_of(family, inputs, options), np.random.default_rng(2)
    size = Parameters(config.shapes()).flat.size
    network = build(config, Parameters(config.shapes(), np.zeros(size, dtype)))
    network.initialize(rng, np.arange(11))
    network.parameters.flat += 0.3 * rng.standard_normal(size).astype(dtype)
    return network


def pairs_of(inputs: Input, guided: bool = False) -> list[EncodedPair]:
    """Three examples; vectors of different numbers."""
    rng = np.random.default_rng(3)
    if isinstance(inputs, VectorInput):
        sources: list[Any] = [rng.normal(size=(m, inputs.size)).astype(np.float32) for m in (3, 1, 4)]
    else:
        source = Images(inputs.height, inputs.width, inputs.channels, inputs.cell)
        shape = inputs.height, inputs.width, inputs.channels
        sources = [source.read(rng.integers(0, 255, shape, np.uint8)) for _ in range(3)]
    links = LINKS if guided else [frozenset()] * 3
    return [EncodedPair(*each) for each in zip(sources, TARGETS, links, strict=True)]


# ---------------------------------------------------------------------------------------------------- gradients


@pytest.mark.slow
@pytest.mark.parametrize("guided_alignment", [0.0, 0.7])
@every_network
def test_gradients_by_finite_differences(
    family: str, inputs: Input, options: dict[str, Any], guided_alignment: float
) -> None:
    network = make_network(family, inputs, options)
    how = {
        "label_smoothing": 0.1,
        "dropout": 0.2,
        "guided_alignment": guided_alignment,
        "rdrop": guided_alignment,
    }
    loss = loss_of(network.config, collate(pairs_of(inputs, guided=True)), **how)
    arrays = [array.copy() for array in network.parameters.values()]
    assert nn.check_gradients(loss, arrays, directions=1) < 1e-6


@every_network
def test_every_parameter_has_a_gradient_of_its_shape_and_no_other(
    family: str, inputs: Input, options: dict[str, Any]
) -> None:
    network = make_network(family, inputs, options, np.float32)
    loss, pullback = network.loss(collate(pairs_of(inputs)))
    gradients = pullback(1.0)
    assert np.isfinite(loss)
    assert {name: g.shape for name, g in gradients.items()} == network.config.shapes()
    for name, gradient in gradients.items():
        assert gradient.dtype == np.float32, name
        assert np.abs(gradient).max() > 1e-9, name


# ------------------------------------------------------------------------------------------------------ padding


@every_network
def test_padding_has_no_influence(family: str, inputs: Input, options: dict[str, Any]) -> None:
    network, pairs = make_network(family, inputs, options), pairs_of(inputs)
    batch = collate(pairs)
    alone = [network.loss(collate([pair]))[0] * (len(pair.target) - 1) for pair in pairs]
    together, pullback = network.loss(batch)
    assert together == pytest.approx(sum(alone) / batch.target_tokens(), rel=1e-10)
    gradients = pullback(1.0)
    parts = [network.loss(collate([pair]))[1](len(pair.target) - 1) for pair in pairs]
    for name, gradient in gradients.items():
        expected = sum(part[name] for part in parts) / batch.target_tokens()
        np.testing.assert_allclose(gradient, expected, rtol=1e-8, atol=1e-12, err_msg=name)


@every_network
def test_numbers_in_the_padding_are_not_read(family: str, inputs: Input, options: dict[str, Any]) -> None:
    if isinstance(inputs, ImageInput):
        return  # pictures have one size
    network, batch = make_network(family, inputs, options), collate(pairs_of(inputs))
    other = batch.source.copy()
    for b, length in enumerate(batch.lengths):
        other[length:, b] = 1e3
    wider = batch._replace(source=np.pad(other, ((0, 2), (0, 0), (0, 0)), constant_values=-7))
    assert network.loss(wider)[0] == pytest.approx(network.loss(batch)[0], rel=1e-12)
    for one, two in zip(
        beam(network, batch.source, batch.lengths), beam(network, wider.source, batch.lengths), strict=True
    ):
        assert one[0].tokens == two[0].tokens
        assert one[0].score == pytest.approx(two[0].score, rel=1e-10)


@pytest.mark.slow
@every_network
def test_a_search_does_not_depend_on_the_others_of_the_batch(
    family: str, inputs: Input, options: dict[str, Any]
) -> None:
    network, rows = make_network(family, inputs, options), [pair.source for pair in pairs_of(inputs)]
    together = beam(network, *source_batch(rows), width=3, n_best=2)
    for row, several in zip(rows, together, strict=True):
        (alone,) = beam(network, *source_batch([row]), width=3, n_best=2)
        for one, two in zip(alone, several, strict=True):
            assert one.tokens == two.tokens
            assert one.score == pytest.approx(two.score, rel=1e-9)
            width = len(row) if network.config.attends else 0
            assert one.alignment.shape == (len(one.tokens), width)
            np.testing.assert_allclose(one.alignment, two.alignment, atol=1e-10)
            np.testing.assert_allclose(one.alignment.sum(axis=1), 1 if width else 0, atol=1e-6)


@every_network
def test_steps_of_a_search_add_up_to_the_loss(family: str, inputs: Input, options: dict[str, Any]) -> None:
    network, batch = make_network(family, inputs, options), collate(pairs_of(inputs))
    stepper, total = network.stepper(batch.source, batch.lengths), 0.0
    for tokens, following in zip(batch.target[:-1], batch.target[1:], strict=True):
        logits = stepper(tokens[:, None])[0][:, 0]
        logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        total -= logs[np.arange(3), following][following > 0].sum()
    assert network.loss(batch)[0] == pytest.approx(total / batch.target_tokens(), rel=1e-9)


# -------------------------------------------------------------------------------------------------------- order


def allowed(dtype: Any) -> float:
    """The budget of law 1 for each of four layers of attention, one after the other, of a few small vectors."""
    pairs = np.ones((1, 1, 7))
    return float(4 * budget.allowance(pairs * 8, 64, pairs / 7, pairs, np.ones((1, 7, 1)), dtype)[0, 0, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@sets_only
def test_a_set_has_no_order(family: str, inputs: VectorInput, options: dict[str, Any], dtype: Any) -> None:
    network, rng = make_network(family, inputs, options, dtype), np.random.default_rng(5)
    rows = [rng.normal(size=(m, inputs.size)).astype(np.float32) for m in (7, 4, 1)]
    orders = [rng.permutation(len(row)) for row in rows]
    links = [frozenset({(m // 2, 1), (m - 1, 0)}) for m in map(len, rows)]
    pairs = [EncodedPair(*each) for each in zip(rows, TARGETS, links, strict=True)]
    moved = [
        EncodedPair(row[order], target, frozenset((int(np.argsort(order)[i]), t) for i, t in link))
        for (row, target, link), order in zip(pairs, orders, strict=True)
    ]
    for guided_alignment in (0.0, 1.0):  # the second depends on the weights of each vector
        one, other = (
            network.loss(collate(each), LossOptions(guided_alignment=guided_alignment))
            for each in (pairs, moved)
        )
        assert other[0] == pytest.approx(one[0], rel=allowed(dtype))
        gradients = other[1](1.0)
        for name, gradient in one[1](1.0).items():
            tolerance = allowed(dtype) * max(np.abs(gradient).max(), 1)
            np.testing.assert_allclose(gradients[name], gradient, atol=tolerance, rtol=0, err_msg=name)
    if dtype is np.float32:
        assert network.loss(collate(pairs))[0] > 10 * allowed(dtype)  # the budget is not trivial


@pytest.mark.parametrize("width", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@sets_only
def test_a_search_permutes_the_weights_of_a_set(
    family: str, inputs: VectorInput, options: dict[str, Any], dtype: Any, width: int
) -> None:
    network, rng = make_network(family, inputs, options, dtype), np.random.default_rng(6)
    rows = [rng.normal(size=(m, inputs.size)).astype(np.float32) for m in (7, 5, 2)]
    orders = [rng.permutation(len(row)) for row in rows]
    hypotheses = beam(network, *source_batch(rows), width=width)
    moved = beam(
        network, *source_batch([row[order] for row, order in zip(rows, orders, strict=True)]), width=width
    )
    for (one,), (other,), order in zip(hypotheses, moved, orders, strict=True):
        assert other.tokens == one.tokens
        assert other.score == pytest.approx(one.score, rel=allowed(dtype))
        if network.config.attends:
            np.testing.assert_allclose(other.alignment, one.alignment[:, order], atol=allowed(dtype))
            assert len(order) < 7 or not one.tokens or one.alignment.std() > 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sequence_has_an_order(family: str) -> None:
    network, pairs = make_network(family, SEQUENCE, {}), pairs_of(SEQUENCE)
    turned = [pair._replace(source=pair.source[::-1]) for pair in pairs]
    one, other = (network.loss(collate(each))[0] for each in (pairs, turned))
    assert abs(one - other) > 1e-4


def test_the_last_vector_of_a_sequence_is_marked() -> None:
    """The mark changes the last state of those that are read forwards, and all that are read backwards."""
    network, batch = make_network("recurrent", SEQUENCE, {}), collate(pairs_of(SEQUENCE))
    p, c, size = network.parameters, network.config, network.config.encoder
    before = encode(p, c, batch.source, batch.lengths)[0].values  # (B, T, C)
    p["vector_end"][...] += 1
    changed = encode(p, c, batch.source, batch.lengths)[0].values != before
    for one, length in zip(changed, batch.lengths, strict=True):
        assert one[:length, :size].any(axis=-1).tolist() == [False] * (length - 1) + [True]
        assert one[:length, size:].any(axis=-1).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_set_has_no_end(family: str) -> None:
    assert "vector_end" in config_of(family, SEQUENCE, {}).shapes()
    assert "vector_end" not in config_of(family, SET, {}).shapes()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_cell_has_a_position(family: str) -> None:
    network, pairs = make_network(family, IMAGES, {}), pairs_of(IMAGES)
    turned = [pair._replace(source=pair.source[::-1]) for pair in pairs]
    one, other = (network.loss(collate(each))[0] for each in (pairs, turned))
    assert abs(one - other) > 1e-4


# ------------------------------------------------------------------------------------------------------ drawing


@every_network
def test_an_initial_network_predicts_token_frequencies(
    family: str, inputs: Input, options: dict[str, Any]
) -> None:
    network = make_network(family, inputs, options, np.float32)
    network.initialize(np.random.default_rng(0), np.array([0, 0, 50, 0, 0, 0, 0, 0, 0, 0, 50]))
    assert np.isfinite(network.parameters.flat).all()
    for name, parameter in network.parameters.items():
        if name.endswith("gain"):
            assert (parameter == 1).all(), name
        elif "bias" not in name and not name.endswith("shift"):
            assert parameter.std() > 0, name
    logits, _ = network.stepper(*source_batch([pairs_of(inputs)[0].source]))(np.array([[START]]))
    assert {int(np.argmax(logits[0, 0])), int(np.argsort(logits[0, 0])[-2])} == {2, 10}


# ----------------------------------------------------------------------------------------------- configurations


@every_network
def test_a_configuration_comes_back_from_json(family: str, inputs: Input, options: dict[str, Any]) -> None:
    config = config_of(family, inputs, options)
    again = read_config(json.loads(json.dumps(describe(config))))
    assert again == config
    assert again.inputs == inputs
    assert type(again.inputs) is type(inputs)
    assert hash(again) == hash(config)
    assert again.shapes() == config.shapes()


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
