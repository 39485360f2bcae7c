"""The encoder of images: gradients, shapes, and the independence of the images of a batch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from regard import nn
from regard.seq2seq.networks.inputs.images import ImageInput
from regard.seq2seq.networks.padding import Padding

INPUTS = [
    ImageInput(8, 8, 1, (2, 3)),
    ImageInput(8, 12, 3, (2, 3)),
    ImageInput(6, 6, 2, (3,)),
    ImageInput(8, 8, 1, (2, 2, 2)),
]


def parameters(inputs: ImageInput, size: int, dtype: Any = np.float64) -> dict[str, Any]:
    """Parameters in general position: gains, shifts and biases are drawn, too."""
    rng = np.random.default_rng(1)
    drawn = {name: inputs.initialize(name, shape, rng) for name, shape in inputs.shapes(size).items()}
    return {name: (x + rng.normal(0, 0.3, x.shape)).astype(dtype) for name, x in drawn.items()}


def annotate(
    p: dict[str, Any], inputs: ImageInput, source: Any, rate: float = 0.0, rng: Any = None
) -> tuple[Any, Any]:
    """The annotations (h * w, B, S) of a source, and their pullback."""
    padding = Padding(np.full(source.shape[1], len(source)), len(source))
    values, back = inputs.annotate(p, source, padding, partial(nn.dropout, rate=rate, rng=rng))
    return values.swapaxes(0, 1), lambda d: back(d.swapaxes(0, 1))


def images(inputs: ImageInput, count: int, dtype: Any = np.float64) -> Any:
    """A source (h * w, B, c * c * C)."""
    (rows, columns), cell = inputs.grid, inputs.cell
    shape = rows * columns, count, cell * cell * inputs.channels
    return np.random.default_rng(count).random(shape).astype(dtype)


def cells_of(inputs: ImageInput, pictures: Any) -> Any:
    """The source of pictures (B, H, W, C), cell by cell."""
    c, (rows, columns) = inputs.cell, inputs.grid
    return np.array(
        [
            [x[i * c : (i + 1) * c, j * c : (j + 1) * c].ravel() for x in pictures]
            for i in range(rows)
            for j in range(columns)
        ]
    )


@pytest.mark.parametrize(
    "inputs",
    [INPUTS[2], *(pytest.param(one, marks=pytest.mark.slow) for one in (*INPUTS[:2], INPUTS[3]))],
    ids=str,
)
def test_gradients_are_those_of_finite_differences(inputs: ImageInput) -> None:
    p, source = parameters(inputs, 4), images(inputs, 2)

    def function(*values: Any) -> Any:
        annotations, pullback = annotate(dict(zip(p, values, strict=True)), inputs, source)

        def back(d: Any) -> list[Any]:
            g = pullback(d)
            assert g.keys() == p.keys()
            return [g[name] for name in p]

        return annotations, back

    assert nn.check_gradients(function, list(p.values())) < 1e-6


@pytest.mark.parametrize(
    ("height", "width", "filters", "grid"),
    [
        (40, 40, (32, 64), (10, 10)),
        (40, 24, (8,), (20, 12)),
        (8, 8, (2, 3), (2, 2)),
        (12, 8, (2, 3), (3, 2)),
        (8, 24, (2, 2, 2), (1, 3)),
        (64, 64, (2,) * 6, (1, 1)),
        (4096, 4096, (2,) * 12, (1, 1)),
    ],
)
def test_the_grid(height: int, width: int, filters: tuple[int, ...], grid: tuple[int, int]) -> None:
    inputs = ImageInput(height, width, 1, filters)
    assert inputs.grid == grid
    shapes = inputs.shapes(6)
    assert shapes["image_rows"] == (grid[0], 6)
    assert shapes["image_columns"] == (grid[1], 6)
    assert all(name.startswith("image_") for name in shapes)
    if height < 100:
        p = {name: inputs.initialize(name, shape, np.random.default_rng(0)) for name, shape in shapes.items()}
        annotations, _ = annotate(p, inputs, images(inputs, 3, np.float32))
        assert annotations.shape == (grid[0] * grid[1], 3, 6)
        assert annotations.dtype == np.float32


def test_a_batch_of_no_images() -> None:
    inputs = INPUTS[1]
    p = parameters(inputs, 4, np.float32)
    annotations, back = annotate(p, inputs, images(inputs, 0, np.float32))
    assert annotations.shape == (6, 0, 4)
    assert not any(gradient.any() for gradient in back(annotations).values())


def test_positions_are_added_to_the_annotations() -> None:
    """A change of a row's position changes the annotations of that row, and by that much."""
    inputs = INPUTS[2]  # a grid of 3 x 3
    p, source = parameters(inputs, 4), images(inputs, 2)
    before, _ = annotate(p, inputs, source)
    for name, cells in (("image_rows", [3, 4, 5]), ("image_columns", [1, 4, 7])):
        moved = p | {name: p[name] + np.array([[0.0], [1.0], [0.0]])}
        change = annotate(moved, inputs, source)[0] - before
        expected = np.zeros(9)
        expected[cells] = 1
        np.testing.assert_allclose(change, np.broadcast_to(expected[:, None, None], change.shape), atol=1e-12)


def test_a_pixel_influences_the_cells_near_it() -> None:
    inputs = ImageInput(40, 40, 1, (4, 6))
    p, source = parameters(inputs, 4), images(inputs, 1)
    other = source.copy()
    other[9, 0, 3] += 1  # the first row's last pixel
    changed = np.abs(annotate(p, inputs, other)[0] - annotate(p, inputs, source)[0]).max(axis=(1, 2)) > 0
    assert changed[9]
    assert not changed.reshape(10, 10)[4:].any()
    assert not changed.reshape(10, 10)[:, :6].any()


@pytest.mark.parametrize("channels", [1, 3])
def test_the_network_depends_on_the_picture(channels: int) -> None:
    inputs = ImageInput(6, 4, channels, (3,))
    p, stage = parameters(inputs, 4), np.random.default_rng(2).random((2, 6, 4, channels))
    source = cells_of(inputs, stage)
    y, _ = nn.convolution(stage[:, ::-1, ::-1], p["image_0_weight"], p["image_0_bias"], stride=2)
    y = y[:, ::-1, ::-1]
    y, _ = nn.relu(nn.layer_norm(y, p["image_0_gain"], p["image_0_shift"], epsilon=0.03)[0])
    z, _ = nn.convolution(y, p["image_inner_weight"], p["image_inner_bias"])
    z, _ = nn.relu(nn.layer_norm(z, p["image_inner_gain"], p["image_inner_shift"], epsilon=0.03)[0])
    z, _ = nn.convolution(z, p["image_outer_weight"], p["image_outer_bias"])
    z, _ = nn.layer_norm(y + z, p["image_outer_gain"], p["image_outer_shift"], epsilon=0.03)
    z = z @ p["image_out_weight"] + p["image_out_bias"]
    annotations, _ = annotate(p, inputs, source)
    for b in range(2):
        for i in range(3):
            for j in range(2):
                expected = z[b, i, j] + p["image_rows"][i] + p["image_columns"][j]
                np.testing.assert_allclose(annotations[2 * i + j, b], expected, atol=1e-12)


@pytest.mark.parametrize("filters", [(3,), (3, 4), (3, 4, 4)])
def test_the_window_of_a_cell_is_centred_on_it(filters: tuple[int, ...]) -> None:
    """The pixels that an annotation depends on, by changing each: as many on both sides of the cell, up to one."""
    cell = 2 ** len(filters)
    inputs = ImageInput(9 * cell, 9 * cell, 1, filters)
    p, rng = parameters(inputs, 4), np.random.default_rng(0)
    picture = rng.random((1, 9 * cell, 9 * cell, 1))
    before, _ = annotate(p, inputs, cells_of(inputs, picture))
    changed = []
    for x in range(9 * cell):  # columns; rows have the same code
        other = picture.copy()
        other[:, :, x] += 1.0
        after, _ = annotate(p, inputs, cells_of(inputs, other))
        if not np.allclose(after[4 * 9 + 4], before[4 * 9 + 4], atol=1e-12):
            changed.append(x)
    left, right = 4 * cell - changed[0], changed[-1] - (5 * cell - 1)
    assert changed == list(range(changed[0], changed[-1] + 1))
    assert abs(left - right) == 1


def test_initial_values() -> None:
    inputs, rng = ImageInput(40, 40, 3, (32, 64)), np.random.default_rng(0)
    drawn = {name: inputs.initialize(name, shape, rng) for name, shape in inputs.shapes(128).items()}
    for name, x in drawn.items():
        assert x.dtype == np.float32
        if name.endswith("gain"):
            assert (x == 1).all()
        elif name.endswith(("shift", "bias")):
            assert not x.any()
    for name, deviation in (
        ("image_0_weight", (2 / 27) ** 0.5),
        ("image_1_weight", (2 / 288) ** 0.5),
        ("image_outer_weight", (2 / 64) ** 0.5),
        ("image_out_weight", 1 / 8),
        ("image_rows", 0.3),
    ):
        np.testing.assert_allclose(drawn[name].std(), deviation, rtol=0.1)


SIZES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"height": 0}, ValueError, "height must be at least 1. Got 0 instead."),
    ({"width": 10**30}, ValueError, f"width must be at most 4096. Got {10**30} instead."),
    ({"channels": 257}, ValueError, "channels must be at most 256. Got 257 instead."),
    ({"width": None}, TypeError, "width must be an integer. Got None instead."),
    ({"filters": ()}, ValueError, "filters must have 1 to 12 stages. Got 0 instead."),
    ({"filters": [1] * 13}, ValueError, "filters must have 1 to 12 stages. Got 13 instead."),
    ({"filters": (4, 0)}, ValueError, "filters[1] must be at least 1. Got 0 instead."),
    ({"filters": (2049, 1)}, ValueError, "filters[0] must be at most 2048. Got 2049 instead."),
    ({"filters": [4, "8"]}, TypeError, "filters[1] must be an integer. Got '8' instead."),
    ({"filters": 32}, TypeError, "filters must be a tuple of integers. Got 32 instead."),
    ({"filters": "32"}, TypeError, "filters must be a tuple of integers. Got '32' instead."),
    ({"filters": {"0": 32}}, TypeError, "filters must be a tuple of integers. Got {'0': 32} instead."),
]


@pytest.mark.parametrize(("options", "kind", "text"), SIZES)
def test_sizes_are_checked(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        ImageInput(**{"height": 8, "width": 8} | options)
    assert str(caught.value) == text


@pytest.mark.parametrize("shape", [(12, 24), (8, 36), (288,), (6, 16, 3), (6, 2, 48), (5, 48), (13, 48)])
def test_cells_must_be_those_of_images_of_the_size(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError) as caught:
        INPUTS[1].images(np.zeros(shape))
    rule = "source must have shape (h * w * B, c * c * C) = (6 B, 48)."
    assert str(caught.value) == f"{rule} Got {shape} instead."


def test_cells_must_be_of_floats() -> None:
    with pytest.raises(TypeError) as caught:
        INPUTS[1].images(np.zeros((6, 48), np.uint8))
    assert str(caught.value) == "source must be an array of float32 or float64. Got dtype uint8 instead."


@pytest.mark.parametrize(("height", "width"), [(6, 8), (8, 6), (2, 2), (9, 8)])
def test_cells_divide_the_sides(height: int, width: int) -> None:
    with pytest.raises(ValueError) as caught:
        ImageInput(height, width, 1, (2, 3))
    rule = "height and width must be multiples of 4, the side of a cell."
    assert str(caught.value) == f"{rule} Got {height} x {width} instead."
