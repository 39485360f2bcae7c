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
from numpy.typing import NDArray

from regard import _check
from regard.nn import convolution, dropout, layer_norm, linear, relu
from regard.seq2seq.networks.parameters import check_sizes

__all__ = ["ImageInput", "annotate"]

Array = NDArray[Any]
Named = dict[str, Array]
Shapes = dict[str, tuple[int, ...]]
Back = Callable[[Array, Named], Array]

_EPSILON = 0.03  # of normalisations: faint or empty areas stay so, instead of becoming as strong as any edge
_POSITIONS = 0.3  # initial deviation of the positions, where that of annotations is 1
_WINDOW = 3  # rows and columns of a filter
_MOST = {"height": 4096, "width": 4096, "channels": 256}  # an untrusted file may ask for anything
_MOST_STAGES, _MOST_FILTERS = 12, 2048


@dataclass(frozen=True)
class ImageInput:
    """Images as the source of a network: their size, and the stages of the encoder that annotates them.

    Parameters
    ----------
    height, width : int
        Pixels of an image.
    channels : int
        Numbers of a pixel: 1 for grey, 3 for colours.
    filters : tuple of int
        The channels of each stage. A stage halves the rows and columns.

    References
    ----------
    He et al. 2015, "Deep Residual Learning for Image Recognition", section 3.
    """

    height: int
    width: int
    channels: int = 1
    filters: tuple[int, ...] = (32, 64)

    kind: ClassVar = "images"
    ordered: ClassVar = False

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

    def images(self, source: Array) -> Array:
        """Return the images (B, H, W, C) of their cells (h * w, B, c * c * C)."""
        _check.floats(source=source)
        (rows, columns), side = self.grid, self.cell
        if source.ndim != 3 or (len(source), source.shape[2]) != (
            rows * columns,
            side * side * self.channels,
        ):
            wanted = f"({rows * columns}, B, {side * side * self.channels})"
            _check.fail(
                f"source must have shape (h * w, B, c * c * C) = {wanted}. Got {source.shape} instead."
            )
        count = source.shape[1]
        cells = source.reshape(rows, columns, count, side, side, self.channels)
        return cells.transpose(2, 0, 3, 1, 4, 5).reshape(count, self.height, self.width, self.channels)

    def cells(self, images: Array) -> Array:
        """Return the cells (h * w, B, c * c * C) of images (B, H, W, C)."""
        (rows, columns), side, count = self.grid, self.cell, len(images)
        parts = images.reshape(count, rows, side, columns, side, self.channels).transpose(1, 3, 0, 2, 4, 5)
        return parts.reshape(rows * columns, count, side * side * self.channels)

    def shapes(self, size: int) -> Shapes:
        """Return the shape of every parameter by its name, for annotations of this size."""
        last, (height, width) = self.filters[-1], self.grid
        shapes: Shapes = {}
        for number, (before, after) in enumerate(
            zip((self.channels, *self.filters), self.filters, strict=False)
        ):
            shapes |= _convolution(f"image_{number}_", before, after) | _norm(f"image_{number}_", after)
        shapes |= _convolution("image_inner_", last, last) | _norm("image_inner_", last)
        shapes |= _convolution("image_outer_", last, last, window=1) | _norm("image_outer_", last)
        shapes |= {"image_out_weight": (last, size), "image_out_bias": (size,)}
        return shapes | {"image_rows": (height, size), "image_columns": (width, size)}

    @staticmethod
    def draw(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw the initial values of a parameter (He et al. 2015, "Delving Deep into Rectifiers", eq. 10)."""
        if name.endswith("gain"):
            return np.ones(shape, np.float32)
        if name.endswith(("shift", "bias")):
            return np.zeros(shape, np.float32)
        if name in ("image_rows", "image_columns"):
            return rng.normal(0, _POSITIONS, shape).astype(np.float32)
        gain = 1 if name == "image_out_weight" else 2  # a rectifier follows the others, or will
        return rng.normal(0, math.sqrt(gain / math.prod(shape[:-1])), shape).astype(np.float32)


def _checked_filters(filters: Any) -> tuple[int, ...]:
    if not isinstance(filters, Sequence) or isinstance(filters, str | bytes):
        _check.fail(f"filters must be a tuple of integers. Got {filters!r:.60} instead.", kind=TypeError)
    if not 1 <= len(filters) <= _MOST_STAGES:
        _check.fail(f"filters must have 1 to {_MOST_STAGES} stages. Got {len(filters)} instead.")
    return tuple(
        _check.integer(f"filters[{number}]", one, 1, _MOST_FILTERS) for number, one in enumerate(filters)
    )


def _convolution(name: str, before: int, after: int, window: int = _WINDOW) -> Shapes:
    return {name + "weight": (window, window, before, after), name + "bias": (after,)}


def _norm(name: str, size: int) -> Shapes:
    return {name + "gain": (size,), name + "shift": (size,)}


def annotate(
    p: Mapping[str, Array],
    inputs: ImageInput,
    source: Array,
    rate: float = 0.0,
    rng: np.random.Generator | None = None,
) -> tuple[Array, Callable[[Array], Named]]:
    """Annotate images: one vector for each cell of a grid, to which learned positions are added.

    Parameters
    ----------
    p : mapping of str to array
        The parameters, see `ImageInput.shapes`.
    inputs : ImageInput
        The size of the images and the stages of the encoder.
    source : array (h * w, B, c * c * C)
        The cells of B images, of float32 or float64: c = 2 ** len(filters) rows of c pixels each, channels last, as
        `regard.seq2seq.Images` reads them.
    rate : float
        Dropout of the annotations.
    rng : numpy.random.Generator or None
        Random numbers for dropout; None outside training.

    Returns
    -------
    annotations : array (h * w, B, S)
        The annotations of the grid, row after row.
    pullback : function
        ``pullback(dannotations) -> gradients by parameter name``.
    """
    x, backs = inputs.images(source), []
    for number in range(len(inputs.filters)):
        # A window of stride 2 is half a pixel of its own input before the cell's centre. With the last stage from the
        # other end, a cell's window is centred on the cell, to half a pixel of the picture.
        stage = _from_the_end if number == len(inputs.filters) - 1 else _stage
        x, back = stage(p, f"image_{number}_", x, 2)
        backs.append(back)
    for layer in (_residual, _project):
        x, back = layer(p, x)
        backs.append(back)
    cells = x.reshape(len(x), math.prod(inputs.grid), x.shape[-1]).swapaxes(0, 1)  # (h * w, B, S)
    annotations, drop_back = dropout(np.ascontiguousarray(cells), rate, rng)

    def pullback(dannotations: Array) -> Named:
        g: Named = {}
        (dcells,) = drop_back(dannotations)
        dx = np.ascontiguousarray(dcells.swapaxes(0, 1)).reshape(x.shape)
        for back in reversed(backs):
            dx = back(dx, g)
        return g

    return annotations, pullback


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
