"""arrays.py, which users copy, reads pictures and vectors as the sources do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.seq2seq import Images, Vectors
from regard.seq2seq.export.folder import copied
from regard.seq2seq.sources.arrays import scaled

with copied("arrays") as module:
    ARRAYS = module.ArrayRules


def same(source: Any, given: Any) -> None:
    reader, example = ARRAYS(json.loads(json.dumps(source.settings()[0]))), source.load(given)
    read = reader.encode(reader.tokenize(given))
    wanted = scaled(source.rows(example))
    assert (read.dtype, read.shape) == (np.float32, wanted.shape)
    np.testing.assert_array_equal(read, wanted)


def noise(*shape: int) -> Any:
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_arrays_of_pictures(channels: int, dtype: Any, tmp_path: Path) -> None:
    pixels = noise(8, 12, channels)
    picture = pixels if dtype is np.uint8 else (pixels / 255).astype(dtype)
    np.save(tmp_path / "x.npy", picture)
    np.savez(tmp_path / "x.npz", first=picture)
    for given in (picture, str(tmp_path / "x.npy"), f"{tmp_path / 'x.npz'}:first", tmp_path / "x.npy"):
        same(Images(8, 12, channels), given)
    if channels == 1:
        same(Images(8, 12), picture[..., 0])


def _turned(image: Any, path: Path) -> None:
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(path, exif=exif)


def _wide(image: Any, path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 211).save(path)


def _alpha(image: Any, path: Path) -> None:
    from PIL import Image

    image.putalpha(Image.fromarray(noise(*image.size[::-1])))
    image.save(path)


# how pictures are stored: the ending, and what saves them
STORED: dict[str, tuple[str, Callable[[Any, Path], object]]] = {
    "colours": ("png", lambda image, path: image.save(path)),
    "grey": ("png", lambda image, path: image.convert("L").save(path)),
    "palette": ("gif", lambda image, path: image.convert("P").save(path)),
    "transparent colour": ("png", lambda image, path: image.convert("P").save(path, transparency=3)),
    "alpha": ("png", _alpha),
    "grey with alpha": ("png", lambda image, path: _alpha(image.convert("L"), path)),
    "16 bits": ("png", _wide),
    "turned": ("jpg", _turned),
    "bmp": ("bmp", lambda image, path: image.save(path)),
    "webp": ("webp", lambda image, path: image.save(path, lossless=True)),
    "pnm": ("ppm", lambda image, path: image.save(path)),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("stored", STORED)
def test_files_of_pictures_of_many_sizes(stored: str, channels: int, tmp_path: Path) -> None:
    from PIL import Image

    ending, save = STORED[stored]
    for rows, columns in ((8, 12), (7, 40), (31, 3), (1, 1), (90, 135)):
        save(Image.fromarray(noise(rows, columns, 3)), tmp_path / f"x.{ending}")
        same(Images(8, 12, channels), str(tmp_path / f"x.{ending}"))


@pytest.mark.parametrize("positions", [0, 2])
@pytest.mark.parametrize("learned", [False, True])
def test_vectors(positions: int, learned: bool, tmp_path: Path) -> None:
    source, rng = Vectors(3, "set", positions), np.random.default_rng(2)
    width = 3 + positions
    if learned:
        source = Vectors(
            3, "set", positions, tuple(rng.normal(50, 9, width)), tuple(rng.uniform(0.1, 9, width))
        )
    for count in (1, 2, 30):
        rows = rng.normal(50, 9, (count, width))
        np.save(tmp_path / "x.npy", rows)
        np.savez(tmp_path / "x.npz", first=rows.astype(np.float32))
        same(source, str(tmp_path / "x.npy"))
        same(source, f"{tmp_path / 'x.npz'}:first")
        if not positions:
            same(source, rows)
            same(source, rows.astype(int))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (np.zeros((12, 8)), r"must have shape \(8, 12, 1\). Got \(12, 8\) instead"),
        (np.zeros((8, 12, 3)), r"Got \(8, 12, 3\) instead"),
        (np.zeros(96), r"Got \(96,\) instead"),
        (np.full((8, 12), 255.0), "of uint8, or of floats from 0 to 1"),
        (np.full((8, 12), np.nan), "of uint8, or of floats from 0 to 1"),
    ],
)
def test_pictures_that_are_refused(given: Any, told: str) -> None:
    reader = ARRAYS(Images(8, 12).settings()[0])
    with pytest.raises(ValueError, match=told):
        reader.encode(reader.tokenize(given))


@pytest.mark.parametrize("shape", [(3,), (2, 4), (1, 2, 3)])
def test_vectors_that_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"vectors must have shape \(m, size \+ positions\). Got \("):
        ARRAYS(Vectors(2, positions=1).settings()[0]).tokenize(np.ones(shape))


def test_a_picture_file_names_pillow_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"x\.png: picture files need Pillow"):
        ARRAYS(Images(8, 12).settings()[0]).tokenize("x.png")
