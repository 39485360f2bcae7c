"""Models whose sources are arrays: learning, files, searches, and input that is refused before any work."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import error
from source_cases import CASES, every_family, examples, trained, untrained

from regard.seq2seq import Images, Seq2Seq, Vectors
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.sources.text.tokenizers import Words
from regard.seq2seq.sources.text.vocabulary import SPECIAL, Vocabulary
from regard.seq2seq.storage.model_file import Model, read_model, write_model

every_kind = pytest.mark.parametrize("kind", ["sequence", "set", "images"])


# ----------------------------------------------------------------------------------------------------- learning


@pytest.mark.slow
@every_kind
@every_family
def test_it_learns(family: str, kind: str) -> None:
    network = {"model_size": 32, "heads": 2, "feedforward_size": 64, "encoder_layers": 1, "decoder_layers": 2}
    options: dict[str, Any] = {"learning_rate": 0.01}
    if family == "transformer":
        options = {"learning_rate": 0.005, "network": network}
    epochs = {"sequence": 35, "set": 25, "images": 14}[kind]
    model = Seq2Seq(family=family, source=CASES[kind].source, epochs=epochs, **options).fit(
        *examples(kind, 200)
    )
    sources, targets = examples(kind, 100, seed=2)
    texts = [translation.text for translation in model.translate(sources)]
    assert np.mean([one == other for one, other in zip(texts, targets, strict=True)]) >= 0.9


@pytest.mark.slow
def test_a_sequence_is_copied_to_its_end() -> None:
    """Names of vectors, one after the other: without a mark of the end, one in thirty was too short or too long."""
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(10, 6))

    def copied() -> tuple[Any, str]:
        ids = rng.integers(0, 10, rng.integers(1, 8))
        return vectors[ids] + rng.normal(0, 0.1, (len(ids), 6)), " ".join(f"w{i}" for i in ids)

    sources, targets = zip(*(copied() for _ in range(1000)), strict=True)
    sizes = {"embedding": 32, "encoder": 32, "decoder": 48, "attention": 32}
    model = Seq2Seq(source=Vectors(6), network=sizes, epochs=25).fit(sources[:600], targets[:600])
    texts = [answer.text for answer in model.translate(sources[600:])]
    assert np.mean([one == other for one, other in zip(texts, targets[600:], strict=True)]) >= 0.985


@pytest.mark.slow
def test_which_of_these_points_is_the_leftmost() -> None:
    """Two to five of six named points: the answer needs all positions and one name, whatever the order."""
    rng = np.random.default_rng(1)

    def question() -> tuple[Any, str]:
        names = rng.permutation(6)[: rng.integers(2, 6)]
        positions = rng.uniform(0, 100, (len(names), 2))
        return (np.eye(6)[names], positions), "abcdef"[names[positions[:, 0].argmin()]]

    sources, targets = zip(*(question() for _ in range(700)), strict=True)
    sizes = {"embedding": 24, "encoder": 16, "decoder": 24, "attention": 16}
    model = Seq2Seq(source=Vectors(6, "set", positions=2), network=sizes, epochs=12, learning_rate=0.01)
    model.fit(sources[:500], targets[:500])
    texts = [answer.text for answer in model.translate(sources[500:])]
    assert np.mean([one == other for one, other in zip(texts, targets[500:], strict=True)]) >= 0.85
    turned = [(names[::-1], positions[::-1]) for names, positions in sources[500:]]
    assert [answer.text for answer in model.translate(turned)] == texts


@every_family
def test_a_model_has_the_mean_and_the_deviation_of_its_training_examples(family: str) -> None:
    sources, targets = examples("set", 10)
    model = untrained(family, "set", epochs=1).fit(sources, targets, valid=(sources[:1], targets[:1]))
    rows = np.concatenate(sources)
    assert isinstance(model.model.source, Vectors)
    assert model.model.source.mean == pytest.approx(rows.mean(axis=0))
    assert model.model.source.scale == pytest.approx(rows.std(axis=0))
    assert model.source == Vectors(1, "set")  # what was asked for


def test_one_array_holds_many_pictures() -> None:
    sources, targets = examples("images", 20)
    together = untrained("recurrent", "images").fit(np.stack(sources), targets)
    apart = untrained("recurrent", "images").fit(sources, targets)
    assert (together.network.parameters.flat == apart.network.parameters.flat).all()
    assert together.translate(np.stack(sources)) == apart.translate(sources)
    assert together.translate([]) == []


# -------------------------------------------------------------------------------------------------------- files


# ----------------------------------------------------------------------------------------------------- searches


@every_family
def test_vectors_of_a_set_may_come_in_any_order(family: str) -> None:
    model, sources = trained(family, "set"), examples("set", 12, seed=8)[0]
    for one, other in zip(
        model.translate(sources), model.translate([source[::-1] for source in sources]), strict=True
    ):
        assert one.text == other.text
        assert one.alignment is not None
        np.testing.assert_allclose(other.alignment, one.alignment[:, ::-1], atol=1e-4)


@every_family
def test_many_sources_are_decoded_as_each_alone(family: str) -> None:
    """Of one vector and of several, in the order in which they were given."""
    model, sources = trained(family, "sequence"), examples("sequence", 40, seed=4)[0]
    together = model.translate(sources)
    for source, one in zip(sources, together, strict=True):
        (alone,) = model.translate([source])
        assert alone.tokens == one.tokens
        assert alone.source == one.source
        np.testing.assert_allclose(alone.alignment, one.alignment, atol=1e-4)


# ------------------------------------------------------------------------------------------------------- errors


def test_a_single_picture_of_channels_is_not_several() -> None:
    for shape, source in (((8, 8, 3), Images(8, 8, 3)), ((8, 8, 1), Images(8, 8))):
        text = error(TypeError, Seq2Seq(source=source).fit, np.zeros(shape), ["a"] * 8)
        assert text.startswith(
            f"sources must be a sequence of examples. Got one array of shape {shape} instead."
        )


@every_kind
def test_the_source_decides_the_input_of_a_network(kind: str) -> None:
    for name, value in (("inputs", None), ("source_tokens", 5)):
        text = error(ValueError, Seq2Seq, source=CASES[kind].source, network={name: value})
        assert text.startswith("network must have names among ")


def test_layers_of_an_encoder_without_layers_are_rejected() -> None:
    Seq2Seq(source=Vectors(1, "set"), network={"encoder_layers": 2})
    text = error(ValueError, Seq2Seq, source=Images(8, 8), network={"encoder_layers": 2})
    assert text.startswith("encoder_layers needs a source of tokens or vectors; here it has no effect.")


def test_a_source_is_an_object() -> None:
    text = error(ValueError, Seq2Seq, source=Vectors)
    assert text.startswith("source must be one of 'words', ")


# -------------------------------------------------------------------------------------------------- model files


def rewritten(path: Path, model: Seq2Seq, data: dict[str, bytes] | None = None, **metadata: Any) -> Path:
    """A model's file with other metadata: a value is JSON, a function changes what is there, None removes it."""
    model.save(path)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    del header["__metadata__"]["checksum"]  # which a model file may leave out
    for name, value in metadata.items():
        before = json.loads(header["__metadata__"].pop(name, "null"))
        if value is not None:
            header["__metadata__"][name] = json.dumps(value(before) if callable(value) else value)
    for name, added in (data or {}).items():
        header[name] = {
            "dtype": "U8",
            "shape": [len(added)],
            "data_offsets": [len(body), len(body) + len(added)],
        }
        body += added
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def changed(**values: Any) -> Any:
    return lambda before: before | values


def inputs_changed(**values: Any) -> Any:
    return lambda before: before | {"inputs": before["inputs"] | values}


CONFIG = "its configuration is damaged: "
UNFIT = f"{CONFIG}the network must read what its source returns. It reads "


@pytest.mark.parametrize(
    ("kind", "damage", "text"),
    [
        ("set", {"source": None}, "its configuration is incomplete or damaged"),
        ("set", {"source": []}, "its source is damaged: it must be a mapping. Got [] instead."),
        ("set", {"source": {}}, "its source is damaged: the kind of a source must be one of 'words', "),
        ("set", {"source": changed(kind="words")}, "its source is damaged: a vocabulary must have 0 tokens."),
        ("set", {"source": changed(size=0)}, "its source is damaged: size must be at least 1."),
        ("set", {"source": changed(mean=[float("nan")])}, ""),
        ("set", {"source": changed(positions=1, mean=[0, 0], scale=[1, 1])}, UNFIT),
        ("set", {"source": changed(order="sequence")}, UNFIT),
        ("set", {"source": Images(8, 8).settings()[0]}, UNFIT),
        ("images", {"source": Vectors(16).settings()[0]}, UNFIT),
        ("images", {"source": changed(cell=2)}, UNFIT),
        ("images", {"source": changed(channels=3)}, UNFIT),
        ("set", {"config": changed(inputs=None)}, f"{CONFIG}source_tokens must be at least 1"),
        ("set", {"config": changed(inputs=[])}, f"{CONFIG}inputs must be an input. Got []"),
        ("set", {"config": changed(source_tokens=3)}, f"{CONFIG}source_tokens must be 0 for"),
        ("set", {"config": inputs_changed(size=2)}, ""),
        ("images", {"config": inputs_changed(height=2**12)}, ""),
        (
            "set",
            {"extras": {"lengths": "own-extras"}, "lengths": {"option": 2}},
            f"{CONFIG}lengths needs a source of tokens",
        ),
        (
            "images",
            {"extras": {"similar": "own-extras"}, "similar": {}},
            f"{CONFIG}similar needs a source of tokens",
        ),
        (
            "set",
            {"data": {"source.tokens": b"a\nb"}},
            "its source is damaged: a source of arrays has no data.",
        ),
        ("set", {"data": {"lengths.tokens": b"a\nb"}}, "'lengths.tokens' is unknown"),
    ],
)
def test_damaged_files(kind: str, damage: dict[str, Any], text: str, tmp_path: Path) -> None:
    path = rewritten(tmp_path / "m", trained("recurrent", kind), **damage)
    message = error(ValueError, read_model, path)
    assert message.startswith(f"{path} is not a model file: {text}")
    assert "\n" not in message


def test_stages_of_other_sizes_are_read(tmp_path: Path) -> None:
    """How many channels a stage has is the file's choice: another version may choose others."""
    config = RecurrentConfig(0, 6, 4, 4, 4, 4, inputs=ImageInput(8, 8, 1, (3, 5)))
    target = Words(Vocabulary([*SPECIAL, "left", "right"]))
    write_model(tmp_path / "m", Model(build(config), Images(8, 8), target))
    assert Seq2Seq.load(tmp_path / "m").network.config == config


@pytest.mark.parametrize("number", [1e300, -1e300])
def test_a_mean_out_of_range_is_an_error_of_the_example(number: float, tmp_path: Path) -> None:
    path = rewritten(tmp_path / "m", trained("recurrent", "set"), source=changed(mean=[number]))
    text = error(ValueError, Seq2Seq.load(path).translate, [[[1.0]]])
    assert text.startswith("source 1: a standardised example must hold numbers that float32 can hold")
