"""Sources that are images of one size: arrays, or picture files that are made to fit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import _check
from regard._arrays import is_array_file, load_array
from regard.seq2seq.sources.arrays import real_array
from regard.seq2seq.sources.base import Option, Source, Spec, is_path
from regard.seq2seq.sources.example import Example, equally_spaced
from regard.seq2seq.sources.image_files import read_image
from regard.seq2seq.sources.image_limits import Limits, as_limits, limits, measures, outside

__all__ = ["Images"]

_MOST_PIXELS = 1 << 12  # of a side
_MOST_CHANNELS = 64
_MEASURED = 2000  # pictures, of which limits are learned


@dataclass(frozen=True)
class Images(Source):
    """Sources that are images of one size.

    Arrays must have exactly this size. Picture files are scaled to fit within it.

    Parameters
    ----------
    height, width : int
        The size in pixels, at most 4,096 each.
    channels : int
        1 for gray, 3 for red, green and blue. Arrays may have any number up to 64, picture files have 1 or 3.
    cell : int
        The side of a cell in pixels: a model attends to cells. A power of 2 that divides both sides, 2 at least.
    seen : mapping, optional
        The limits of brightness, contrast and other measures of the training pictures, which a model sets.

    Raises
    ------
    ValueError
        If a number is out of range, or cells don't fit.
    TypeError
        If one is not an integer.

    Examples
    --------
    >>> images = Images(2, 4, cell=2)
    >>> images.grid, images.read(np.arange(8, dtype=np.uint8).reshape(2, 4))
    ((1, 2), array([[0, 1, 4, 5],
           [2, 3, 6, 7]], dtype=uint8))
    """

    kind: ClassVar[str] = "images"
    exports_files: ClassVar[bool] = True
    unit: ClassVar[str] = "pictures"
    options: ClassVar[Mapping[str, Option]] = {
        "size": Option("height and width in pixels, multiples of --cell", ("HEIGHT", "WIDTH")),
        "channels": Option("1 for grey, 3 for colours", default=3),
        "cell": Option("side in pixels of the square cells that are attended to, a power of 2", default=4),
    }

    height: int
    width: int
    channels: int = 1
    cell: int = 4
    seen: Limits | None = field(default=None, compare=False)  # not part of how pictures are read

    def __post_init__(self) -> None:
        object.__setattr__(self, "height", _check.integer("height", self.height, 1, _MOST_PIXELS))
        object.__setattr__(self, "width", _check.integer("width", self.width, 1, _MOST_PIXELS))
        object.__setattr__(self, "channels", _check.integer("channels", self.channels, 1, _MOST_CHANNELS))
        object.__setattr__(self, "cell", _check.integer("cell", self.cell, 2, _MOST_PIXELS))
        if self.cell & (self.cell - 1):
            _check.fail(f"cell must be a power of 2. Got {self.cell} instead.")
        if self.seen is not None:
            object.__setattr__(self, "seen", as_limits(self.seen))
        for name in ("height", "width"):
            if (side := getattr(self, name)) % self.cell:
                near = -(-side // self.cell) * self.cell
                rule = f"{name} must be a multiple of cell = {self.cell}. Got {side} instead."
                _check.fail(rule, hint=f"{name}={near}, or another cell")

    @property
    def spec(self) -> Spec:
        """Cells of an image of this size."""
        size = self.height, self.width, self.channels, self.cell
        return Spec(width=self.cell * self.cell * self.channels, ordered=False, image=size)

    @property
    def grid(self) -> tuple[int, int]:
        """The rows and columns of cells."""
        return self.height // self.cell, self.width // self.cell

    def fitted(self, examples: Iterable[Example]) -> Self:
        """Return a source that knows the limits of the measures of pictures like these: of 2,000 at equal distances."""
        chosen = equally_spaced([*examples], _MEASURED)
        return replace(self, seen=limits([self._measures(example) for example in chosen])) if chosen else self

    def out_of_range(self, example: Example) -> tuple[str, ...]:
        """Return which measures of a picture lie far outside those of the training pictures."""
        return () if self.seen is None else outside(self._measures(example), self.seen)

    def _measures(self, example: Example) -> dict[str, float]:
        return measures(self.picture(example), example.size)

    def names(self, example: Example) -> tuple[str, ...]:
        """Return the names of the cells: row and column, both counted from 1."""
        rows, columns = self.grid
        return tuple(f"({i}, {j})" for i in range(1, rows + 1) for j in range(1, columns + 1))

    def picture(self, example: Any) -> NDArray[Any]:
        """Return an image (height, width, channels), as the network reads it, for anything that `read` accepts."""
        (rows, columns), cell = self.grid, self.cell
        cells = self.load(example).content.reshape(rows, columns, cell, cell, self.channels)
        pixels: NDArray[Any] = cells.swapaxes(1, 2).reshape(self.height, self.width, self.channels)
        return pixels

    def read(self, given: ArrayLike | str | os.PathLike[str]) -> NDArray[np.uint8] | NDArray[np.float32]:
        """Check an image and return its cells.

        Parameters
        ----------
        given : array_like of shape (height, width, channels) or (height, width), or path
            An array of uint8, or of floats from 0 to 1; without the last axis if there is one channel. A path is that
            of a `.npy` file, ``file.npz:name`` for one array of an archive, or a picture (PNG, JPEG, WebP, GIF, BMP,
            TIFF, PNM). Pictures need Pillow.

        Returns
        -------
        ndarray of shape (h * w, cell * cell * channels)
            The cells of the grid (h, w), row by row, and the pixels of each, row by row, channels last: uint8 of a
            picture and of an array of uint8, float32 of an array of floats.

        Raises
        ------
        ValueError
            If the shape is wrong, a float is not in 0 to 1, or the file is not regular, damaged, or has too many
            pixels.
        TypeError
            If the example is of another type, or its data type is neither uint8 nor floating.
        OSError
            If the file can't be opened or read.
        ImportError
            If the example is a picture file and Pillow is not installed.

        Notes
        -----
        A picture is scaled to the largest size that fits with its proportions kept (Lanczos filter; small ones are
        enlarged), and centred on the median colour of its border. Its orientation in EXIF is applied, transparency is
        composed on white, of 16 bits the upper 8 are taken, and of an animation the first frame.

        Examples
        --------
        >>> with open("dots.ppm", "wb") as file:
        ...     _ = file.write(b"P6 2 1 255\\n" + bytes([255, 0, 0, 0, 0, 255]))
        >>> Images(2, 4, channels=3, cell=2).read("dots.ppm").shape
        (2, 12)
        """
        return self._read(given)[0]

    def _example(self, given: Any, name: str) -> Example:
        content, size = self._read(given)
        return Example(content, self.layout, name, size)

    def _read(self, given: Any) -> tuple[NDArray[Any], tuple[int, int] | None]:
        """Return the cells of an image, and the rows and columns of a picture in a file."""
        if not is_path(given):
            if hasattr(given, "getpalette"):  # an image of Pillow: its array may hold indices of colours
                self._is_picture(given)
            return self._rows("an image", real_array("an image", given)), None
        if is_array_file(given):
            array = load_array(given, lambda shape, dtype: self._check_array("an image", shape, dtype))
            return self._rows(f"{os.fspath(given)}: an image", array), None
        if self.channels not in (1, 3):
            rule = f"{os.fspath(given)}: channels must be 1 or 3 for picture files."
            _check.fail(f"{rule} The model has {self.channels}.", hint="save the image as an array in .npy")
        pixels, size = read_image(given, height=self.height, width=self.width, channels=self.channels)
        return self._cells(pixels), size

    def _cells(self, pixels: NDArray[Any]) -> NDArray[Any]:
        (rows, columns), cell = self.grid, self.cell
        parts = pixels.reshape(rows, cell, columns, cell, self.channels).swapaxes(1, 2)
        return np.ascontiguousarray(parts).reshape(rows * columns, -1)

    def _is_picture(self, picture: object) -> None:
        mode = "L" if self.channels == 1 else "RGB"
        _check.fail(
            f"an image must be an array or a path. Got {type(picture).__name__} instead.",
            hint=f"np.asarray(picture.convert({mode!r}).resize(({self.width}, {self.height})))",
            kind=TypeError,
        )

    def _rows(self, name: str, array: NDArray[Any]) -> NDArray[np.uint8] | NDArray[np.float32]:
        self._check_array(name, array.shape, array.dtype)
        if array.dtype != np.uint8:
            low, high = float(array.min()), float(array.max())
            if not (low >= 0 and high <= 1):  # also if one is nan
                rule = (
                    f"{name} of {array.dtype} must have numbers from 0 to 1. Got {low:g} to {high:g} instead."
                )
                hint = "divide by the largest possible number, or pass uint8"
                _check.fail(rule, hint=hint if np.isfinite([low, high]).all() else "")
            array = _check.rounded(array, np.dtype(np.float32))
        return self._cells(array)

    def _check_array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        wanted = (self.height, self.width, self.channels)
        flat = self.channels == 1 and shape == wanted[:2]
        if shape != wanted and not flat:
            rule = f"{name} must have shape (height, width, channels) = {wanted}. Got {shape} instead."
            _check.fail(rule, hint=_axes_hint(shape, wanted))
        if dtype != np.uint8 and not _check.is_float(dtype):
            rule = f"{name} must hold uint8, or floats from 0 to 1. Got dtype {dtype} instead."
            hint = "image.astype(np.uint8) if its numbers lie in 0 to 255"
            hint = "255 * image.astype(np.uint8)" if dtype.kind == "b" else hint
            _check.fail(rule, hint=hint, kind=TypeError)


def _axes_hint(shape: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """Return a hint how to arrange the axes of an image, if they are all there."""
    if shape == (wanted[2], *wanted[:2]):
        return "image.transpose(1, 2, 0), if the channels are first"
    if shape[:2] == (wanted[1], wanted[0]) and (
        shape[2:] == wanted[2:] or (not shape[2:] and wanted[2] == 1)
    ):
        return "image.swapaxes(0, 1), if the width is first"
    return ""
