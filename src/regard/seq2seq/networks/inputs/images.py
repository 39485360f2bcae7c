"""The encoder of images: a small residual network that annotates the cells of a grid.

Letters: B images of H rows and W columns of pixels with C channels; a grid of h rows and w columns; F channels of the
last stage; S the size of an annotation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard import _check
from regard.nn import convolution, layer_norm, linear, relu
from regard.seq2seq.corpus.batching import Ids
from regard.seq2seq.networks.graph import Graph
from regard.seq2seq.networks.inputs.base import Array, Input, Named, Shapes
from regard.seq2seq.networks.parameters import check_sizes
from regard.seq2seq.sources.base import Spec

__all__ = ["ImageInput", "shifted"]

Back = Callable[[Array, Named], Array]

_EPSILON = 0.03  # of normalisations: faint or empty areas stay so, instead of becoming as strong as any edge
_POSITIONS = 0.3  # initial deviation of the positions, where that of annotations is 1
_WINDOW = 3  # rows and columns of a filter
_MOST = {"height": 4096, "width": 4096, "channels": 256}  # an untrusted file may ask for anything
_MOST_STAGES, _MOST_FILTERS = 12, 2048


@dataclass(frozen=True)
class ImageInput(Input):
    """Images as the input of a network: their size, and the stages of the encoder that annotates them.

    `height`, `width`: pixels of an image; `channels`: numbers of a pixel: 1 for grey, 3 for colours; `filters`: the
    channels of each stage. A stage halves the rows and columns.

    He et al. 2015, "Deep Residual Learning for Image Recognition", section 3.
    """

    height: int
    width: int
    channels: int = 1
    filters: tuple[int, ...] = (32, 64)

    kind: ClassVar[str] = "images"
    layered: ClassVar[bool] = False
    largest_rate: ClassVar[float] = 1e-3  # with more, the filters of the first layers never settle

    def __post_init__(self) -> None:
        check_sizes(self, dict.fromkeys(_MOST, 1), _MOST)
        object.__setattr__(self, "filters", _checked_filters(self.filters))
        if self.height % self.cell or self.width % self.cell:
            got = f"{self.height} x {self.width}"
            _check.fail(
                f"height and width must be multiples of {self.cell}, the side of a cell. Got {got} instead."
            )

    @property
    def cell(self) -> int:
        """The side of a cell in pixels."""
        return 1 << len(self.filters)

    @property
    def grid(self) -> tuple[int, int]:
        """The numbers of rows h and columns w of the grid."""
        return self.height // self.cell, self.width // self.cell

    @property
    def spec(self) -> Spec:
        """Cells of an image."""
        size = self.height, self.width, self.channels, self.cell
        return Spec(width=self.cell * self.cell * self.channels, ordered=False, image=size)

    def images(self, source: Array) -> Array:
        """Return the images (B, H, W, C) of their cells, one after the other (B * h * w, c * c * C)."""
        _check.floats(source=source)
        (rows, columns), side, width = self.grid, self.cell, self.spec.width
        if source.ndim != 2 or source.shape[1] != width or len(source) % (rows * columns):
            wanted = f"({rows * columns} B, {width})"
            _check.fail(
                f"source must have shape (h * w * B, c * c * C) = {wanted}. Got {source.shape} instead."
            )
        cells = source.reshape(-1, rows, columns, side, side, self.channels)
        return cells.swapaxes(2, 3).reshape(-1, self.height, self.width, self.channels)

    def cells(self, images: Array) -> Array:
        """Return the cells (B * h * w, c * c * C) of images (B, H, W, C)."""
        (rows, columns), side = self.grid, self.cell
        parts = images.reshape(-1, rows, side, columns, side, self.channels).swapaxes(2, 3)
        return parts.reshape(-1, self.spec.width)

    def shapes(self, width: int, blocks: int = 0) -> Shapes:
        """Return the shapes of the parameters of the stages, the projection, and the positions."""
        last, (rows, columns) = self.filters[-1], self.grid
        shapes: Shapes = {}
        for number, (before, after) in enumerate(
            zip((self.channels, *self.filters), self.filters, strict=False)
        ):
            shapes |= _convolution(f"image_{number}_", before, after) | _norm(f"image_{number}_", after)
        shapes |= _convolution("image_inner_", last, last) | _norm("image_inner_", last)
        shapes |= _convolution("image_outer_", last, last, window=1) | _norm("image_outer_", last)
        shapes |= {"image_out_weight": (last, width), "image_out_bias": (width,)}
        return shapes | {"image_rows": (rows, width), "image_columns": (columns, width)}

    def initialize(self, name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
        """Return the initial values of a parameter (He et al. 2015, "Delving Deep into Rectifiers", eq. 10)."""
        if not name.startswith("image_"):
            return None
        if name.endswith("gain"):
            return np.ones(shape, np.float32)
        if name.endswith(("shift", "bias")):
            return np.zeros(shape, np.float32)
        if name in ("image_rows", "image_columns"):
            return rng.normal(0, _POSITIONS, shape).astype(np.float32)
        gain = 1 if name == "image_out_weight" else 2  # all others are followed by a rectifier
        return rng.normal(0, math.sqrt(gain / math.prod(shape[:-1])), shape).astype(np.float32)

    def embed(
        self, p: Mapping[str, Array], source: Array, ends: Any, scale: float = 1.0
    ) -> tuple[Array, Callable[[Array], Named]]:
        """Annotate the cells of images, whose learned positions are added."""
        x, backs = self.images(source), []
        for number in range(len(self.filters)):
            # A window of stride 2 is half a pixel of its own input before the cell's centre. With the last stage from
            # the other end, a cell's window is centred on the cell, to half a pixel of the image.
            stage = _from_the_end if number == len(self.filters) - 1 else _stage
            x, back = stage(p, f"image_{number}_", x, 2)
            backs.append(back)
        for layer in (_residual, _project):
            x, back = layer(p, x)
            backs.append(back)

        def pullback(drows: Array) -> Named:
            g: Named = {}
            dx = drows.reshape(x.shape)
            for back in reversed(backs):
                dx = back(dx, g)
            return g

        return x.reshape(-1, x.shape[-1]), pullback

    def export(self, g: Graph, source: str, lengths: str, scale: float = 1.0) -> str:
        """Append the stages, the projection and the positions; pictures are (B, channels, rows, columns) there."""
        (rows, columns), side = self.grid, self.cell
        cells = g.transposed(
            g.reshaped(source, 0, rows, columns, side, side, self.channels), 0, 5, 1, 3, 2, 4
        )
        x = g.reshaped(cells, 0, self.channels, self.height, self.width)
        for number in range(len(self.filters)):
            x = _stage_nodes(g, f"image_{number}_", x, 2, from_the_end=number == len(self.filters) - 1)
        inner = _stage_nodes(g, "image_inner_", x, 1)
        outer = g.add(x, _convolution_node(g, "image_outer_", inner))
        normal = g.normalized(outer, "image_outer_", axis=1, epsilon=_EPSILON)
        out = g.linear((g.transposed(normal, 0, 2, 3, 1), "image_out_weight"), bias="image_out_bias")
        of_rows = g.parameter("image_rows", g.p["image_rows"][:, None])
        return g.reshaped(g.add(g.add(out, of_rows), g.parameter("image_columns")), 0, rows * columns, -1)

    def augmented(
        self, source: Array, lengths: Ids, *, shift: int, noise: float, rng: np.random.Generator
    ) -> Array:
        """Return images that are shifted and have noise."""
        if shift:
            by = rng.integers(-shift, shift + 1, (source.shape[1], 2))
            images = self.images(source.swapaxes(0, 1).reshape(-1, source.shape[2]))
            source = self.cells(shifted(images, by)).reshape(source.swapaxes(0, 1).shape).swapaxes(0, 1)
        if noise:
            noisy = source + np.float32(noise) * rng.standard_normal(source.shape, np.float32)
            source = noisy.clip(0, 1)
        return source

    def check_augmentation(self, *, shift: int, noise: float) -> None:
        """Check that some of an image is left by a shift."""
        side = min(self.height, self.width)
        if shift >= side:
            size = f"{self.height} x {self.width}"
            _check.fail(f"shift must be less than {side} for pictures of {size} pixels. Got {shift} instead.")


def _checked_filters(filters: Any) -> tuple[int, ...]:
    if not isinstance(filters, Sequence) or isinstance(filters, str | bytes):
        _check.fail(f"filters must be a tuple of integers. Got {filters!r:.60} instead.", kind=TypeError)
    if not 1 <= len(filters) <= _MOST_STAGES:
        _check.fail(f"filters must have 1 to {_MOST_STAGES} stages. Got {len(filters)} instead.")
    return tuple(
        _check.integer(f"filters[{number}]", size, 1, _MOST_FILTERS) for number, size in enumerate(filters)
    )


def _convolution(name: str, before: int, after: int, window: int = _WINDOW) -> Shapes:
    return {name + "weight": (window, window, before, after), name + "bias": (after,)}


def _norm(name: str, size: int) -> Shapes:
    return {name + "gain": (size,), name + "shift": (size,)}


def shifted(images: Array, by: Array) -> Array:
    """Shift images (B, H, W, C) by pixels (B, 2) down and to the right; new ones repeat the pixels at the edge.

    So a light background stays light and a dark one dark, and no edge appears that is in no picture. Pixel (i, j) is
    pixel (i - down, j - right) of the image, or the nearest one that it has.
    """
    count, height, width, _ = images.shape
    rows = (np.arange(height) - by[:, :1]).clip(0, height - 1)
    columns = (np.arange(width) - by[:, 1:]).clip(0, width - 1)
    result: Array = images[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None]]
    return result


def _stage(p: Mapping[str, Array], name: str, x: Array, stride: int) -> tuple[Array, Back]:
    """Apply a convolution, a layer normalisation over the channels and a rectifier."""
    summed, convolution_back = convolution(x, p[name + "weight"], p[name + "bias"], stride=stride)
    normal, norm_back = layer_norm(summed, p[name + "gain"], p[name + "shift"], epsilon=_EPSILON)
    y, relu_back = relu(normal)

    def back(dy: Array, g: Named) -> Array:
        dsummed, g[name + "gain"], g[name + "shift"] = norm_back(relu_back(dy)[0])
        dx, g[name + "weight"], g[name + "bias"] = convolution_back(dsummed)
        return dx

    return y, back


def _from_the_end(p: Mapping[str, Array], name: str, x: Array, stride: int) -> tuple[Array, Back]:
    """Apply a stage from the last row and column to the first."""
    y, stage_back = _stage(p, name, x[:, ::-1, ::-1], stride)

    def back(dy: Array, g: Named) -> Array:
        return stage_back(np.ascontiguousarray(dy[:, ::-1, ::-1]), g)[:, ::-1, ::-1]

    return np.ascontiguousarray(y[:, ::-1, ::-1]), back


def _stage_nodes(g: Graph, name: str, x: str, stride: int, *, from_the_end: bool = False) -> str:
    """Append the nodes of `_stage`, or of `_from_the_end`, to a graph."""
    summed = _convolution_node(g, name, x, stride, from_the_end=from_the_end)
    return g.node("Relu", g.normalized(summed, name, axis=1, epsilon=_EPSILON))


def _convolution_node(g: Graph, name: str, x: str, stride: int = 1, *, from_the_end: bool = False) -> str:
    """Append a convolution of pictures (B, C, H, W) with filters (F, C, k, k).

    One of stride 2 from the end of an even number of rows has turned filters, and its windows begin a pixel later.
    """
    weight = g.p[name + "weight"].transpose(3, 2, 0, 1)
    filters = g.parameter(name + "weight", weight[:, :, ::-1, ::-1] if from_the_end else weight)
    edge = len(g.p[name + "weight"]) // 2
    before, after = (edge - 1, edge) if from_the_end else (edge, edge)
    pads = [before, before, after, after]
    return g.node("Conv", x, filters, g.parameter(name + "bias"), strides=[stride] * 2, pads=pads)


def _residual(p: Mapping[str, Array], x: Array) -> tuple[Array, Back]:
    """Add two convolutions to x, and normalise the sum.

    The second has windows of one cell: annotations of small windows are where the objects are, and are learned in fewer
    steps.
    """
    inner, inner_back = _stage(p, "image_inner_", x, 1)
    outer, outer_back = convolution(inner, p["image_outer_weight"], p["image_outer_bias"])
    y, norm_back = layer_norm(x + outer, p["image_outer_gain"], p["image_outer_shift"], epsilon=_EPSILON)

    def back(dy: Array, g: Named) -> Array:
        dsum, g["image_outer_gain"], g["image_outer_shift"] = norm_back(dy)
        dinner, g["image_outer_weight"], g["image_outer_bias"] = outer_back(dsum)
        return dsum + inner_back(dinner, g)

    return y, back


def _project(p: Mapping[str, Array], x: Array) -> tuple[Array, Back]:
    """Map each cell (B, h, w, F) to its annotation (B, h, w, S), to which its position is added."""
    y, linear_back = linear(x, p["image_out_weight"], p["image_out_bias"])
    y += p["image_rows"][:, None] + p["image_columns"]

    def back(dy: Array, g: Named) -> Array:
        dpositions = dy.sum(axis=0)  # (h, w, S)
        g["image_rows"], g["image_columns"] = dpositions.sum(axis=1), dpositions.sum(axis=0)
        dx, g["image_out_weight"], g["image_out_bias"] = linear_back(dy)
        return dx

    return y, back
