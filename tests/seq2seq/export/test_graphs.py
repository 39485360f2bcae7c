"""The graphs of every configuration compute what its network does."""

from __future__ import annotations

from itertools import product
from typing import Any

import hypothesis
import numpy as np
import pytest
from exported import Halves
from hypothesis import strategies as st
from numpy.typing import NDArray

from regard.seq2seq.export.recurrent import SCORES
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.inputs.base import Input
from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.inputs.vectors import VectorInput
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.transformer.config import TransformerConfig

onnx = pytest.importorskip("onnx", reason="exports are tested with onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="exports are tested with onnxruntime")
pytestmark = pytest.mark.threads  # onnxruntime's

Config = RecurrentConfig | TransformerConfig
Array = NDArray[Any]

STYLES, CELLS = ("conditional", "bahdanau", "luong"), ("gru", "lstm")
# Of ai.onnx in opset 13; a recurrent layer of an encoder is one of the last two.
OPERATORS = {
    *(
        "Add",
        "Cast",
        "Concat",
        "ConstantOfShape",
        "Conv",
        "Div",
        "Equal",
        "Gather",
        "Gemm",
        "Identity",
        "Less",
        "LogSoftmax",
        "MatMul",
    ),
    *("Mul", "Range", "ReduceMean", "Relu", "Reshape", "Shape", "Sigmoid", "Sin", "Softmax", "Split", "Sqrt"),
    *("Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze", "Where"),
}


def recurrent(**options: Any) -> RecurrentConfig:
    sizes = {"embedding": 5, "encoder": 4, "decoder": 8, "attention": 3} | options
    return RecurrentConfig(0 if "inputs" in options else 11, 9, **sizes)


def transformer(**options: Any) -> TransformerConfig:
    sizes = {"model_size": 8, "heads": 2, "feedforward_size": 6, "encoder_layers": 2, "decoder_layers": 3}
    return TransformerConfig(0 if "inputs" in options else 11, 9, **(sizes | options))


INPUTS: list[Input] = [
    VectorInput(3),
    VectorInput(3, "set"),
    Halves(3),
    Halves(3, in_order=False),
    ImageInput(8, 12),
    ImageInput(6, 2, 3, (4,)),
    ImageInput(16, 8, 2, (3, 5, 4)),
]


CONFIGS: list[Config] = [
    *(  # each pair of two of them
        recurrent(score=score, style=style, cell=CELLS[(i + j) % 2])
        for (i, score), (j, style) in product(enumerate(SCORES), enumerate(STYLES))
    ),
    *(recurrent(style=style, layers=2) for style in STYLES),
    recurrent(style="luong", input_feeding=False),
    recurrent(cell="lstm", layers=3, encoder_layers=2),
    recurrent(cell="lstm", layers=2, style="luong", score="none"),
    transformer(),
    transformer(decoder_layers=1),
    transformer(alignment_layer=1),
    transformer(heads=1, model_size=7),
    *(make(inputs=one) for make, one in product((recurrent, transformer), INPUTS)),
    recurrent(inputs=VectorInput(3), cell="lstm", layers=2, style="luong"),
    recurrent(inputs=VectorInput(3, "set"), encoder=40, decoder=6, encoder_layers=3),
    *(recurrent(inputs=one, score="none") for one in INPUTS),
]


def drawn(config: Config, scale: float = 0.4) -> Any:
    network, rng = build(config), np.random.default_rng(3)
    for parameter in network.parameters.values():
        parameter[...] = rng.normal(0, scale, parameter.shape)
    return network


def sessions(network: Any) -> tuple[Any, Any]:
    from regard.seq2seq.export.conversion import graphs

    made = graphs(network, {})
    encoder, step = (
        onnxruntime.InferenceSession(made[name].SerializeToString()) for name in ("encoder", "step")
    )
    return encoder, step


def run(session: Any, given: dict[str, Array]) -> dict[str, Array]:
    names = [value.name for value in session.get_outputs()]
    return dict(
        zip(names, session.run(None, {x.name: given[x.name] for x in session.get_inputs()}), strict=True)
    )


def log_softmax(logits: Array) -> Array:
    shifted = logits.astype(float) - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def compare(config: Config, lengths: Array, source: Array, tokens: Array, scale: float = 0.4) -> None:
    """Compare some steps of sources (B, T, ...) of these lengths, after tokens (n, B), with those of NumPy."""
    network = drawn(config, scale)
    encoder, step = sessions(network)
    given = run(encoder, {"source": source, "lengths": lengths}) | {"lengths": lengths}
    stepper = network.stepper(source.swapaxes(0, 1), lengths)
    for token in tokens:
        out = run(step, given | {"token": token})
        given["state"] = out["new_state"]
        logits, weights = stepper(token[:, None])
        np.testing.assert_allclose(out["log_probs"], log_softmax(logits[:, 0]), atol=1e-4)
        np.testing.assert_allclose(np.exp(out["log_probs"]).sum(axis=1), 1, atol=1e-5)
        if config.attends:
            np.testing.assert_allclose(out["weights"], weights[:, 0], atol=1e-5)
        else:
            assert "weights" not in out


LENGTHS = np.array([5, 1, 3, 2])
SOURCE = np.array([[4, 9, 6, 9, 2], [2, 0, 0, 0, 0], [7, 3, 2, 0, 0], [10, 2, 0, 0, 0]])
TOKENS = np.array([[1, 1, 1, 1], [5, 7, 8, 4], [3, 3, 6, 2], [8, 4, 4, 4]])


def drawn_batch(config: Config, rng: np.random.Generator, count: int, longest: int) -> tuple[Array, Array]:
    """Sources that a network reads, padded with zeros, and their lengths; pictures have one size."""
    spec = config.input.spec
    if spec.grid:
        cells = int(np.prod(spec.grid))
        return rng.random((count, cells, spec.width), np.float32), np.full(count, cells)
    lengths = rng.integers(1, longest + 1, count)
    lengths[0] = longest
    before = np.arange(longest) < lengths[:, None]
    if spec.tokens:
        return rng.integers(2, spec.tokens, (count, longest)) * before, lengths
    rows = rng.normal(0, 2, (count, longest, spec.width)).astype(np.float32)
    return np.where(before[..., None], rows, np.float32(0)), lengths


def batch(config: Config) -> tuple[Array, Array]:
    """Four sources that a network reads, and their lengths."""
    if config.input.spec.tokens:
        return SOURCE.copy(), LENGTHS
    return drawn_batch(config, np.random.default_rng(5), 4, 5)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_a_batch_of_unequal_lengths_has_the_log_probabilities_and_weights_of_the_network(
    config: Config,
) -> None:
    source, lengths = batch(config)
    compare(config, lengths, source, TOKENS)


@pytest.mark.parametrize(
    "config",
    [
        *(recurrent(), recurrent(cell="lstm"), transformer()),
        *(make(inputs=one) for make, one in product((recurrent, transformer), INPUTS[:4])),
    ],
    ids=repr,
)
def test_what_stands_behind_the_length_has_no_influence(config: Config) -> None:
    encoder, step = sessions(drawn(config))
    results = []
    for padding in (0, 10):
        source, lengths = batch(config)
        hidden = np.arange(5) >= lengths[:, None]
        source[hidden] = padding
        given = run(encoder, {"source": source, "lengths": lengths}) | {"lengths": lengths}
        results.append(run(step, given | {"token": TOKENS[0]}))
    for name in results[0]:
        np.testing.assert_array_equal(results[0][name], results[1][name])
    assert (results[0]["weights"][hidden] == 0).all()


@pytest.mark.parametrize(
    "config",
    [recurrent(), recurrent(score="general", style="luong"), recurrent(score="none"), transformer()],
    ids=repr,
)
def test_hypotheses_of_one_source_need_no_copies_of_it(config: Config) -> None:
    encoder, step = sessions(drawn(config))
    source, lengths = SOURCE[:1], LENGTHS[:1]
    one = run(encoder, {"source": source, "lengths": lengths}) | {"lengths": lengths}
    shared = one | {"state": np.repeat(one["state"], 3, axis=0)}
    copied = {name: np.repeat(value, 3, axis=0) for name, value in one.items()}
    for token in TOKENS[:, :3]:
        outs = [run(step, given | {"token": token}) for given in (shared, copied)]
        for given, out in zip((shared, copied), outs, strict=True):
            given["state"] = out["new_state"]
        np.testing.assert_allclose(outs[0]["log_probs"], outs[1]["log_probs"], atol=1e-6)


@pytest.mark.parametrize("config", CONFIGS, ids=repr)
def test_the_files_have_standard_operators_of_opset_13_in_ir_8(config: Config) -> None:
    from regard.seq2seq.export.conversion import graphs

    made = graphs(drawn(config), {"format": "x"})
    for name, model in made.items():
        onnx.checker.check_model(model, full_check=True)
        assert model.ir_version == 8
        assert [(one.domain, one.version) for one in model.opset_import] == [("", 13)]
        assert {node.domain for node in model.graph.node} == {""}
        recurrence = (
            {config.cell.upper()} if name == "encoder" and isinstance(config, RecurrentConfig) else set()
        )
        assert {node.op_type for node in model.graph.node} <= OPERATORS | recurrence
        assert [(one.key, one.value) for one in model.metadata_props] == [("format", "x")]
    ids = {value.name: value.type.tensor_type for model in made.values() for value in model.graph.input}
    assert all(ids[name].elem_type == onnx.TensorProto.INT64 for name in ("lengths", "token") if name in ids)
    rows, spec = ids["source"], config.input.spec
    assert rows.elem_type == (onnx.TensorProto.INT64 if spec.tokens else onnx.TensorProto.FLOAT)
    sizes = [axis.dim_param or axis.dim_value for axis in rows.shape.dim]
    assert sizes == [
        "batch",
        np.prod(spec.grid) if spec.grid else "length",
        *[spec.width] * (not spec.tokens),
    ]


def test_a_parameter_is_stored_once() -> None:
    from regard.seq2seq.export.conversion import graphs

    for config in (recurrent(), transformer()):
        network = drawn(config)
        size = sum(model.ByteSize() for model in graphs(network, {}).values())
        bias = 2 * 3 * 4 * 4  # of the second bias of the encoder's GRU, which is 0
        numbers = sum(
            np.prod(tensor.dims)
            for model in graphs(network, {}).values()
            for tensor in model.graph.initializer
        )
        assert size >= 4 * network.parameters.flat.size
        assert numbers <= network.parameters.flat.size + bias + 100  # shapes and other constants


def inputs(size: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    """Vectors, pictures of any size, and None for tokens."""

    def picture(rows: int, columns: int, channels: int, filters: list[int]) -> ImageInput:
        side = 1 << len(filters)
        return ImageInput(rows * side, columns * side, channels, tuple(filters))

    few, filters = st.integers(1, 3), st.lists(size, min_size=1, max_size=3)
    vectors = st.builds(VectorInput, size, st.sampled_from(["sequence", "set"]))
    return st.none() | vectors | st.builds(picture, few, few, few, filters)


@st.composite
def cases(draw: Any) -> tuple[Config, Array, Array, Array]:
    size = st.integers(1, 9)
    read = draw(inputs(size))
    tokens = draw(st.integers(5, 20)) if read is None else 0
    if draw(st.booleans()):
        heads = draw(st.integers(1, 3))
        config: Config = TransformerConfig(
            tokens, draw(st.integers(5, 20)), inputs=read,
            model_size=heads * draw(size), heads=heads, feedforward_size=draw(size),
            encoder_layers=draw(st.integers(1, 3)), decoder_layers=draw(st.integers(1, 3)),
        )  # fmt: skip
    else:
        score, encoder = draw(st.sampled_from(SCORES)), draw(size)
        config = RecurrentConfig(
            tokens, draw(st.integers(5, 20)), inputs=read,
            embedding=draw(size), encoder=encoder, decoder=2 * encoder if score == "dot" else draw(size),
            attention=draw(size), score=score, style=draw(st.sampled_from(STYLES)),
            cell=draw(st.sampled_from(CELLS)), layers=draw(st.integers(1, 3)),
            encoder_layers=draw(st.integers(0, 3)), input_feeding=draw(st.booleans()),
        )  # fmt: skip
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    count, steps, longest = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 12))
    source, lengths = drawn_batch(config, rng, count, longest)
    return config, lengths, source, rng.integers(1, config.target_tokens, (steps, count))


@pytest.mark.slow
@hypothesis.given(cases())
def test_any_network_and_batch(case: tuple[Config, Array, Array, Array]) -> None:
    compare(*case)


@pytest.mark.slow
def test_positions_far_from_the_beginning_are_those_of_the_network() -> None:
    rng = np.random.default_rng(2)
    source = rng.integers(4, 11, (1, 1000))
    compare(transformer(), np.array([1000]), source, np.array([[1], [4]]), 0.2)
