"""Pictures of untrusted files, decoded by Pillow and made to fit a fixed size."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from regard import _check, _files

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["read_image"]

# Only formats that Pillow decodes itself: for others it starts programs or reads further files.
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
_MOST_PIXELS = 1 << 26
_MOST_BYTES = 1 << 29  # 8 for each pixel
_ORIENTATION = 0x0112  # the number of EXIF's tag
_PHOTOMETRIC = 0x0106  # of TIFF: the meaning of 0
_FEW_BITS = re.compile(r"L;(2|4)|I;(12)")  # in the layout of gray pixels


def read_image(
    path: str | os.PathLike[str], *, height: int, width: int, channels: int
) -> tuple[NDArray[np.uint8], tuple[int, int]]:
    """Read a PNG, JPEG, WebP, GIF, BMP, TIFF or PNM file, and make it fit: uint8 (height, width, channels).

    Returns also the rows and columns that it had before.

    Its content decides about the format, not its name. The picture is scaled to the largest size that fits within
    height x width with its proportions kept (Lanczos filter, antialiased), so small pictures are enlarged. It is
    centred on the median colour of its border; of an odd number of rows or columns that are left, the larger half is
    below or to the right. A picture that has the size already keeps its pixels. One channel is gray (ITU-R 601 luma of
    coloured pictures), three are red, green and blue.

    The orientation in EXIF is applied; where that can't be read, the pixels are taken as they are stored. Transparent
    pixels are composed on white. Of 16 bits the upper 8 are taken. Of an animation or a file of several pages the first
    is read. Colour profiles are ignored.
    """
    _require_pillow()
    data = _content(path)
    with _failing_with(os.fspath(path)):
        picture = _decoded(data, "L" if channels == 1 else "RGB")
        pixels = np.asarray(_fitted(picture, height, width))
    return pixels.reshape(height, width, channels), (picture.height, picture.width)


def _require_pillow() -> None:
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        raise ImportError('pictures need Pillow: pip install "regard[images]"') from None


def _content(path: str | os.PathLike[str]) -> BinaryIO:
    """Read a file into memory, where a wrong length in it reserves no more than the file has."""
    with _files.reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST_BYTES:
            rule = f"{os.fspath(path)}: a picture file must have at most {_MOST_BYTES:,} bytes."
            _check.fail(f"{rule} Got {size:,} instead.")
        return io.BytesIO(file.read(size))


@contextmanager
def _failing_with(path: str) -> Iterator[None]:
    """Raise one line with the path for any error of Pillow: for damaged files, that may be any type of error."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about damaged metadata, which does not matter here
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    except UnidentifiedImageError:
        _check.fail(f"{path}: not a picture ({', '.join(_FORMATS)})")
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        _check.fail(f"{path}: a picture must have at most {_MOST_PIXELS:,} pixels")
    except Exception as error:
        if (
            isinstance(error, OSError) and error.errno is not None
        ):  # of the system; it gets its name elsewhere
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        _check.fail(f"{path}: {reason}")


def _decoded(file: BinaryIO, mode: str) -> Image.Image:
    """Return the picture in a mode of 8 bits, L or RGB, as it is displayed."""
    from PIL import Image

    with Image.open(file, formats=_FORMATS) as picture:
        columns, rows = picture.size
        if rows * columns > _MOST_PIXELS:
            rule = f"a picture must have at most {_MOST_PIXELS:,} pixels. Got {rows:,} x {columns:,} instead."
            _check.fail(rule)
        stored_as = _stored_as(picture)
        picture.load()
        orientation = _orientation(picture)
        plain = _on_white(_eight_bits(picture, stored_as))
    if plain.mode != "L":
        plain = plain.convert("RGB")
    return _turned(plain.convert(mode), orientation)


def _stored_as(picture: Image.Image) -> str:
    """Return Pillow's name for the layout of the stored pixels, such as "RGB;16B" for colours of 16 bits."""
    tiles = getattr(picture, "tile", None)
    arguments = tiles[0][3] if tiles else ""
    first = arguments[0] if isinstance(arguments, tuple) and arguments else arguments
    return first if isinstance(first, str) else ""


def _orientation(picture: Image.Image) -> int:
    """Return the orientation in EXIF, or 1 where it is missing or damaged."""
    try:
        orientation = picture.getexif().get(_ORIENTATION, 1)
    except Exception:  # damaged metadata raises anything, and the pixels are there
        return 1
    return orientation if isinstance(orientation, int) else 1


def _turned(picture: Image.Image, orientation: int) -> Image.Image:
    from PIL import Image

    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    return picture.transpose(turns[orientation]) if orientation in turns else picture


def _eight_bits(picture: Image.Image, stored_as: str) -> Image.Image:
    """Return a picture of 8 bits a channel, with the transparent colour in the same range as the pixels."""
    _check_layout(picture, stored_as)
    transparent = picture.info.get("transparency")
    wide_gray = picture.mode == "I" and picture.format in ("PNG", "PPM")  # 16 bits, in 32
    if picture.mode.startswith("I;16") or wide_gray:
        values = np.asarray(picture)
        return _upper_bits(65_535 - values if _white_is_zero(picture) else values, transparent)
    if picture.mode in ("I", "F"):
        _refuse_bits(32)
    if stored_as.startswith("RGB;16") and isinstance(transparent, tuple):
        picture.info["transparency"] = tuple(value >> 8 for value in transparent)
    return picture


def _check_layout(picture: Image.Image, stored_as: str) -> None:
    """Check that Pillow makes 8 or 16 bits of the pixels as they are."""
    if picture.mode == "CMYK":
        _check.fail("a picture must be gray, RGB or of a palette. Got CMYK instead.")
    few = _FEW_BITS.match(stored_as)
    if picture.mode == "1" or few:
        _refuse_bits(int(few[1] or few[2]) if few else 1)


def _refuse_bits(bits: int) -> NoReturn:
    _check.fail(f"the pixels of a picture must have 8 or 16 bits. Got {bits} instead.")


def _white_is_zero(picture: Image.Image) -> bool:
    """Return whether a TIFF file's 0 is white, which Pillow turns for pixels of 8 bits only."""
    return bool(getattr(picture, "tag_v2", {}).get(_PHOTOMETRIC) == 0)


def _upper_bits(values: NDArray[np.integer], transparent: object) -> Image.Image:
    from PIL import Image

    gray = Image.fromarray((values >> 8).astype(np.uint8))
    if isinstance(transparent, int):
        gray.putalpha(Image.fromarray(np.where(values == transparent, 0, 255).astype(np.uint8)))
    return gray


def _on_white(picture: Image.Image) -> Image.Image:
    from PIL import Image

    if not picture.has_transparency_data:
        return picture
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture.convert("RGBA"))


def _fitted(picture: Image.Image, height: int, width: int) -> Image.Image:
    """Scale a picture with its proportions unchanged, and centre it on the median colour of its border."""
    from PIL import Image

    columns, rows = picture.size
    if rows * width >= columns * height:  # the height limits the size
        size = (_scaled_side(columns, height, rows), height)
    else:
        size = (width, _scaled_side(rows, width, columns))
    scaled = picture if size == picture.size else picture.resize(size, Image.Resampling.LANCZOS)
    if size == (width, height):
        return scaled
    canvas = Image.new(picture.mode, (width, height), _border_colour(picture))
    canvas.paste(scaled, ((width - size[0]) // 2, (height - size[1]) // 2))
    return canvas


def _border_colour(picture: Image.Image) -> tuple[int, ...]:
    """Return the median of each channel of the pixels at the edge; a corner counts twice."""
    columns, rows = picture.size
    edges = (0, 0, columns, 1), (0, rows - 1, columns, rows), (0, 0, 1, rows), (columns - 1, 0, columns, rows)
    channels = len(picture.getbands())
    border = np.concatenate([np.asarray(picture.crop(edge)).reshape(-1, channels) for edge in edges])
    return tuple(np.median(border, axis=0).astype(int).tolist())


def _scaled_side(side: int, target: int, other: int) -> int:
    """Return side * target / other, rounded half up, and at least 1."""
    return max(1, (2 * side * target + other) // (2 * other))
