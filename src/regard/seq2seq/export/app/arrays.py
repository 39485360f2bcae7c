"""Pictures and vectors, from model.json: from an array or a file to what the graphs read. Picture files need Pillow."""

from pathlib import Path
from typing import Any

import numpy as np


class ArrayRules:
    """The rules of a source: "images", which become cells, or rows of numbers, such as "vectors"."""

    def __init__(self, rules: Any) -> None:
        self.rules, self.is_image = rules, rules["kind"] == "images"

    def tokenize(self, given: Any) -> Any:
        """Return the cells of a picture, or the vectors, of an array, FILE.npy, FILE.npz:NAME or a picture file."""
        array = given if isinstance(given, np.ndarray) else self._read(str(given))
        if self.rules["kind"] == "vectors" and array.shape[1:] != (
            self.rules["size"] + self.rules["positions"],
        ):
            raise ValueError(f"vectors must have shape (m, size + positions). Got {array.shape} instead.")
        if not self.is_image:
            return array
        height, width, channels, cell = (self.rules[name] for name in ("height", "width", "channels", "cell"))
        shape = height, width, channels
        if array.shape != shape and (channels > 1 or array.shape != shape[:2]):
            raise ValueError(f"a picture must have shape {shape}. Got {array.shape} instead.")
        cells = array.reshape(height // cell, cell, width // cell, cell, channels).swapaxes(1, 2)
        return cells.reshape(-1, cell * cell * channels)

    def encode(self, rows: Any) -> Any:
        """Return rows in float32: the pixels of a picture from 0 to 1, and vectors standardised as in training."""
        if self.is_image and rows.dtype == np.uint8:
            return np.multiply(rows, np.float32(1 / 255), dtype=np.float32)
        if self.is_image and not 0 <= rows.min() <= rows.max() <= 1:
            raise ValueError("a picture must be of uint8, or of floats from 0 to 1")
        rows = rows.astype(np.float32)
        if self.rules.get("mean") is None:
            return rows
        return ((rows - np.array(self.rules["mean"])) / np.array(self.rules["scale"])).astype(np.float32)

    def _read(self, path: str) -> Any:
        archive, is_archive, name = path.rpartition(".npz:")
        if is_archive:
            file = Path(f"{archive}.npz")
            of_examples = Path(__file__).with_name(file.name)
            return np.load(file if file.exists() else of_examples)[name]
        if path.lower().endswith(".npy") or not self.is_image:
            return np.load(path)
        return np.asarray(picture(path, self.rules["height"], self.rules["width"], self.rules["channels"]))


def picture(path: str, height: int, width: int, channels: int) -> Any:
    """Return a picture file as training read it: scaled to fit, centred on the median colour of its border."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise ImportError(f"{path}: picture files need Pillow: pip install pillow") from None
    with Image.open(path) as file:
        image: Any = ImageOps.exif_transpose(file)
    if image.mode.startswith("I"):  # of 16 bits, the upper 8
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    image = (image if image.mode == "L" else image.convert("RGB")).convert("L" if channels == 1 else "RGB")
    columns, rows = image.size
    scale = (height, rows) if rows * width >= columns * height else (width, columns)
    size = tuple(max(1, (2 * side * scale[0] + scale[1]) // (2 * scale[1])) for side in (columns, rows))
    scaled = image if size == image.size else image.resize(size, Image.Resampling.LANCZOS)
    pixels = np.asarray(image).reshape(rows, columns, -1)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    canvas = Image.new(image.mode, (width, height), tuple(np.median(border, axis=0).astype(int).tolist()))
    canvas.paste(scaled, ((width - size[0]) // 2, (height - size[1]) // 2))
    return canvas
