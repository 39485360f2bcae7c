"""Augmentation: the effect of shifts and noise on a batch; only training batches are augmented."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import error
from hypothesis import given
from hypothesis import strategies as st

from regard.seq2seq import Images, Seq2Seq, Vectors
from regard.seq2seq.corpus.batching import Batch, source_batch
from regard.seq2seq.networks.inputs.base import Input
from regard.seq2seq.networks.inputs.images import ImageInput, shifted
from regard.seq2seq.networks.inputs.kinds import input_of
from regard.seq2seq.networks.inputs.vectors import VectorInput
from regard.seq2seq.training.config import TrainingConfig
from regard.seq2seq.training.loop import TrainingStep, mean_loss
from regard.seq2seq.training.session import begin

SMALL = {"embedding": 6, "encoder": 4, "decoder": 6, "attention": 4}
SOURCES: dict[str, Any] = {
    "sequence": Vectors(2),
    "set": Vectors(1, "set", positions=1),
    "images": Images(6, 8, cell=2),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "sequence": {"noise": 0.2},
    "set": {"noise": 0.2},
    "images": {"shift": 2, "noise": 0.1},
}
every_kind = pytest.mark.parametrize("kind", SOURCES)


def examples(kind: str, count: int = 12) -> tuple[list[Any], list[str]]:
    rng = np.random.default_rng(3)
    targets = [f"t{i % 3}" for i in range(count)]
    if kind == "images":
        return [rng.integers(0, 256, (6, 8), np.uint8) for _ in targets], targets
    rows = [rng.normal(size=(rng.integers(1, 5), 2)) for _ in targets]
    return [row if kind == "sequence" else (row[:, :1], row[:, 1:]) for row in rows], targets


def untrained(kind: str, options: dict[str, Any], seed: int = 1) -> Seq2Seq:
    training = TrainingConfig(epochs=3, seed=seed, **options)
    return Seq2Seq(source=SOURCES[kind], network=SMALL, training=training)


def learned(kind: str, options: dict[str, Any], seed: int = 1) -> tuple[list[TrainingStep], Any]:
    steps: list[TrainingStep] = []
    model = untrained(kind, options, seed).fit(*examples(kind), listener=steps.append)
    return steps, model.network.parameters.flat


def batch_of(sources: list[Any]) -> Batch:
    source, lengths = source_batch(sources)
    return Batch(source, lengths, np.tile([[1], [2]], len(sources)))


def augmented(batch: Batch, inputs: Input | None, seed: int = 1, shift: int = 0, noise: float = 0) -> Batch:
    assert inputs is not None
    rng = np.random.default_rng(seed)
    source = inputs.augmented(batch.source, batch.lengths, shift=shift, noise=noise, rng=rng)
    return batch._replace(source=source)


# ------------------------------------------------------------------------------------------------- a batch


def test_a_shifted_picture() -> None:
    picture = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    expected = {
        (0, 0): picture,
        (1, 0): [[1, 2, 3], [1, 2, 3], [4, 5, 6]],  # down
        (0, 1): [[1, 1, 2], [4, 4, 5], [7, 7, 8]],  # right
        (-1, 0): [[4, 5, 6], [7, 8, 9], [7, 8, 9]],
        (0, -2): [[3, 3, 3], [6, 6, 6], [9, 9, 9]],
        (2, -1): [[2, 3, 3], [2, 3, 3], [2, 3, 3]],
    }
    images = np.repeat(np.array(picture)[None, :, :, None], len(expected), axis=0)
    for result, one in zip(shifted(images, np.array(list(expected))), expected.values(), strict=True):
        assert result[:, :, 0].tolist() == one


@given(
    grid=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stages=st.integers(1, 2),
    channels=st.integers(1, 3),
    count=st.integers(0, 3),
)
def test_cells_and_images_are_inverse(grid: tuple[int, int], stages: int, channels: int, count: int) -> None:
    side = 2**stages
    inputs = ImageInput(grid[0] * side, grid[1] * side, channels, (2,) * stages)
    images = np.random.default_rng(0).random((count, inputs.height, inputs.width, channels))
    cells = inputs.cells(images)
    np.testing.assert_array_equal(inputs.images(cells), images)
    source = Images(inputs.height, inputs.width, channels, side)
    for i, image in enumerate(images):
        own = cells[i * math.prod(grid) :][: math.prod(grid)]
        np.testing.assert_array_equal(own.astype(np.float32), source.read(image))


def test_each_picture_has_a_shift_of_its_own_within_the_limit() -> None:
    source = Images(6, 8, cell=2)
    picture = np.random.default_rng(0).random((6, 8))
    batch = batch_of([source.read(picture)] * 200)
    result = augmented(batch, input_of(source.spec), shift=1)
    every = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    expected = shifted(np.repeat(picture[None, :, :, None], 9, axis=0), np.array(every)).astype(np.float32)
    cells = result.source.swapaxes(0, 1).reshape(-1, 4)
    images = ImageInput(6, 8, filters=(2,)).images(cells)
    which = [[(image == one).all() for one in expected].index(True) for image in images]
    assert set(which) == set(range(9))


@pytest.mark.parametrize(
    ("source", "inputs"),
    [
        (Vectors(3), VectorInput(3)),
        (Vectors(2, "set", positions=1), VectorInput(3, "set")),
    ],
)
def test_noise_has_its_deviation_and_leaves_padding(source: Vectors, inputs: Input) -> None:
    rows = [np.zeros((length, 3), np.float32) for length in (500, 200)]
    noisy = augmented(batch_of(rows), inputs, noise=0.25).source
    assert not noisy[200:, 1].any()
    assert noisy[:200].std() == pytest.approx(0.25, rel=0.1)
    assert noisy.dtype == np.float32
    assert len(np.unique(noisy[:200])) == 200 * 2 * 3


def test_noise_leaves_pixels_in_their_range() -> None:
    pictures = [np.full((8, 8), value, np.float32) for value in (0, 0.5, 1)]
    noisy = augmented(
        batch_of([Images(8, 8).read(picture) for picture in pictures]),
        ImageInput(8, 8),
        noise=0.1,
    ).source
    assert noisy.min() == 0
    assert noisy.max() == 1
    assert noisy[:, 1].std() == pytest.approx(0.1, rel=0.3)


@every_kind
def test_a_batch_is_not_changed(kind: str) -> None:
    source = SOURCES[kind]
    batch = batch_of([source.read(example) for example in examples(kind)[0]])
    before = batch.source.copy()
    batch.source.flags.writeable = False
    result = augmented(batch, input_of(source.spec), shift=1, noise=0.1)
    np.testing.assert_array_equal(batch.source, before)
    assert result.source.shape == before.shape
    assert (result.source != before).any()


# ------------------------------------------------------------------------------------------------ a training


@every_kind
def test_without_it_nothing_changes(kind: str) -> None:
    steps, parameters = learned(kind, {})
    others, same = learned(kind, {"shift": 0, "noise": 0.0})
    assert [step.loss for step in steps] == [step.loss for step in others]
    np.testing.assert_array_equal(parameters, same)


@every_kind
def test_the_seed_decides_about_it(kind: str) -> None:
    (_, one), (_, same), (_, other), (_, plain) = (
        learned(kind, options, seed)
        for options, seed in ((OPTIONS[kind], 1), (OPTIONS[kind], 1), (OPTIONS[kind], 2), ({}, 1))
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert (one != plain).any()


@every_kind
def test_each_step_draws_anew(kind: str) -> None:
    # With a rate of nearly 0, one batch and no dropout, only the drawing changes the loss from step to step; the order
    # of the examples in the batch changes its rounding.
    still = {"dropout": 0.0, "learning_rate": 1e-30, "batch_tokens": 10_000}
    losses = [
        [round(step.loss, 5) for step in learned(kind, still | more)[0]] for more in ({}, OPTIONS[kind])
    ]
    assert len(set(losses[0])) == 1
    assert len(set(losses[1])) == len(losses[1]) == 3


@every_kind
def test_validation_and_translation_read_what_is_given(kind: str, tmp_path: Path) -> None:
    sources, targets = examples(kind)
    model = untrained(kind, OPTIONS[kind] | {"learning_rate": 1e-30})
    training = begin(model, list(zip(sources, targets, strict=True)), [(sources[0], targets[0])])
    expected = mean_loss(training.network, training.valid)
    validations = [step.validation for step in training if step.validation is not None]
    assert validations == pytest.approx([expected] * 3, rel=1e-6)
    translated = model.translate(sources)
    model.save(tmp_path / "model.safetensors")
    assert Seq2Seq.load(tmp_path / "model.safetensors").translate(sources) == translated


# ------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("source", "options", "text"),
    [
        ("words", {"shift": 1}, "shift must be 0 for a source that is no picture. Got 1 instead."),
        (
            "words",
            {"noise": 0.5},
            "noise must be 0 for a source of tokens, to which numbers can't be added. Got 0.5 instead.",
        ),
        (Vectors(2), {"shift": 1}, "shift must be 0 for a source that is no picture. Got 1 instead."),
        (
            Images(8, 12),
            {"shift": 8},
            "shift must be less than 8 for pictures of 8 x 12 pixels. Got 8 instead.",
        ),
    ],
)
def test_refused(source: Any, options: dict[str, Any], text: str) -> None:
    assert error(ValueError, lambda: Seq2Seq(source=source, training=TrainingConfig(**options))) == text
