"""Sources that are arrays: accepted and refused input, and pictures that are scaled to the size of the model."""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.seq2seq.sources import Images, Vectors, restore_source
from regard.seq2seq.sources.arrays import scaled
from regard.seq2seq.sources.image_files import read_image

Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(5)


def error(kind: type[Exception], function: Callable[..., object], *arguments: object, **named: object) -> str:
    """The text of the error of this type, and of no subclass of it, that a call raises."""
    with pytest.raises(kind) as caught:
        function(*arguments, **named)
    assert caught.type is kind
    return str(caught.value)


class Rows:
    """Read pictures of any size as the rows (H, W * C) of their pixels, without cells."""

    def __init__(self, height: int, width: int, channels: int = 1) -> None:
        self.size = {"height": height, "width": width, "channels": channels}

    def read(self, path: str | Path) -> np.ndarray:
        return read_image(path, **self.size)[0].reshape(self.size["height"], -1)


def refusal(source: Vectors | Rows, path: str | Path, default: str) -> str:
    """The text of the error of a file that is refused, or `default` where it is read."""
    try:
        rows = source.read(path)
    except (ValueError, TypeError, OSError) as caught:
        return str(caught)
    assert rows.ndim == 2
    return default


# ------------------------------------------------------------------------------------- PNG files, made by hand


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, depth: int, color: int, rows: list[bytes], *more: bytes) -> bytes:
    """A PNG file as its specification describes it; `more` are chunks before the pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(more) + pixels + chunk(b"IEND", b"")


COLORS = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's number of the pixel type, by channels


def png_of(array: np.ndarray, *more: bytes) -> bytes:
    """A PNG file of an array (H, W, C) of uint8 or uint16."""
    height, width, channels = array.shape
    big = array.astype(array.dtype.newbyteorder(">"))
    rows = [row.tobytes() for row in big]
    return png(width, height, 8 * array.itemsize, COLORS[channels], rows, *more)


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[bytes], Path]:
    """Write the bytes of a picture to a file whose name has no ending."""

    def write(data: bytes) -> Path:
        path = tmp_path / "picture"
        path.write_bytes(data)
        return path

    return write


def saved(image: Any, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def noise(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    return RNG.integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


# ----------------------------------------------------------------------------------------------------- vectors


@pytest.mark.parametrize(
    "dtype", ["f2", "f4", "f8", ">f8", "i1", "u1", "i2", "i8", "u8", "?", pytest.param("list", id="list")]
)
def test_vectors_of_any_real_type_become_float32(dtype: str) -> None:
    rows = [[1, 0, 1], [0, 1, 1]]
    got = Vectors(3).read(rows if dtype == "list" else np.array(rows, dtype))
    assert got.dtype == np.float32
    assert got.tolist() == rows
    assert got.flags.c_contiguous


def test_strided_vectors_become_contiguous() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = Vectors(3).read(x.T)
    assert got.flags.c_contiguous
    assert got.tolist() == x.T.tolist()


@pytest.mark.parametrize("order", ["sequence", "set"])
@pytest.mark.parametrize("pair", [tuple, list])
def test_positions_come_after_the_vectors(order: Any, pair: type) -> None:
    source = Vectors(3, order=order, positions=2)
    got = source.read(pair([[[1, 2, 3], [4, 5, 6]], np.array([[7, 8], [9, 10]])]))
    assert source.width == 5
    assert got.dtype == np.float32
    assert got.tolist() == [[1, 2, 3, 7, 8], [4, 5, 6, 9, 10]]


@pytest.mark.parametrize(
    ("example", "kind", "message"),
    [
        ([1, 2, 3], ValueError, "(m, size) = (m, 3). Got (3,) instead.\n  hint: one vector is x[None, :]"),
        (
            np.ones((3, 2)),
            ValueError,
            "(m, 3). Got (3, 2) instead.\n  hint: x.T, if the vectors are its columns",
        ),
        (np.ones((1, 2, 3)), ValueError, "(m, size) = (m, 3). Got (1, 2, 3) instead."),
        (5.0, ValueError, "(m, size) = (m, 3). Got () instead."),
        ([], ValueError, "(m, size) = (m, 3). Got (0,) instead."),
        (np.ones((0, 3)), ValueError, "an example must have 1 to 100,000 rows. Got 0 instead."),
        (
            np.broadcast_to(np.float32(0), (100_001, 3)),
            ValueError,
            "an example must have 1 to 100,000 rows. Got 100,001 instead.",
        ),
        ([[1, 2, 3], [1, 2]], ValueError, "its rows have different lengths"),
        (None, TypeError, "an example must hold real numbers. Got NoneType instead."),
        ([["a", "b", "c"]], TypeError, "an example must hold real numbers. Got dtype <U1 instead."),
        ([[1j, 0, 0]], TypeError, "an example must hold real numbers. Got dtype complex128 instead."),
        (np.ones((1, 3), object), TypeError, "an example must hold real numbers. Got dtype object instead."),
        (np.zeros((1, 3), "M8[s]"), TypeError, "must hold real numbers. Got dtype datetime64[s] instead."),
        (np.zeros((1, 3), "f4,f4"), TypeError, "an example must hold real numbers."),
        (np.ma.ones((1, 3)), TypeError, "an example must be a plain array. Got a masked array instead."),
        (b"x.npy", TypeError, "an example must be an array or a path of type str. Got bytes instead."),
        (
            [[0, 0, 0], [0, np.nan, 0]],
            ValueError,
            "must hold finite numbers. Got nan in row 1, column 1 instead.",
        ),
        (
            [[0, 0, -np.inf]],
            ValueError,
            "an example must hold finite numbers. Got -inf in row 0, column 2 instead.",
        ),
        (
            [[0, 1e39, 0]],
            ValueError,
            "an example must hold numbers that float32 can hold, up to 3.4e+38. Got 1e+39 in row 0, column 1.",
        ),
        (np.full((1, 3), -1e300), ValueError, "up to 3.4e+38. Got -1e+300 in row 0, column 0."),
    ],
)
def test_other_vectors_are_rejected(example: object, kind: type[Exception], message: str) -> None:
    assert message in error(kind, Vectors(3).read, example)


def test_the_largest_number_of_rows_is_accepted_and_small_numbers_become_0() -> None:
    assert Vectors(1).read(np.broadcast_to(1e-300, (100_000, 1))).shape == (100_000, 1)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long double is float64 here")
def test_long_double_is_rejected() -> None:
    assert "must be float64 or smaller" in error(TypeError, Vectors(1).read, np.ones((1, 1), np.longdouble))
    assert "must be float64 or smaller" in error(
        TypeError, Images(2, 2, cell=2).read, np.ones((2, 2), np.longdouble)
    )


@pytest.mark.parametrize(
    ("example", "kind", "message"),
    [
        (
            np.ones((2, 4)),
            TypeError,
            "an example with positions must be a pair (vectors, positions). Got ndarray of shape (2, 4) instead.\n"
            "  hint: (x[:, :3], x[:, 3:]) if the positions are the last columns",
        ),
        (([[1, 2, 3]],), TypeError, "must be a pair (vectors, positions). Got tuple instead."),
        (
            ([[1, 2]], [[1]]),
            ValueError,
            "the vectors of an example must have shape (m, size) = (m, 3). Got (1, 2)",
        ),
        (
            ([[1, 2, 3]], [1]),
            ValueError,
            "the positions of an example must have shape (m, positions) = (m, 1). Got (1,) instead.",
        ),
        (
            ([[1, 2, 3]], [[1], [2]]),
            ValueError,
            "an example must have a position for each vector. Got 1 vectors and 2 positions instead.",
        ),
        (([[1, 2, 3]], [[np.nan]]), ValueError, "the positions of an example must hold finite numbers."),
    ],
)
def test_other_pairs_are_rejected(example: object, kind: type[Exception], message: str) -> None:
    assert message in error(kind, Vectors(3, positions=1).read, example)


# ---------------------------------------------------------------------------------------------- files of arrays


def test_vectors_of_files(tmp_path: Path) -> None:
    x = noise(4, 3, dtype=np.int16)
    np.save(tmp_path / "x.npy", np.asfortranarray(x))
    np.savez(tmp_path / "x.npz", x=x)
    for source in (Vectors(3), Vectors(2, positions=1), Vectors(1, order="set", positions=2)):
        for name in ("x.npy", "x.npz:x"):
            got = source.read(tmp_path / name)
            assert got.dtype == np.float32
            assert np.array_equal(got, x)


def test_images_of_array_files(tmp_path: Path) -> None:
    x, source = noise(4, 6, 3), Images(4, 6, 3, cell=2)
    np.savez(tmp_path / "x.npz", bytes=x, floats=x / 255)
    np.save(tmp_path / "x.npy", x)
    for name in (tmp_path / "x.npy", f"{tmp_path}/x.npz:bytes"):
        assert np.array_equal(source.read(name), source.read(x))
        assert np.array_equal(source.picture(name), x)
    floats = source.picture(f"{tmp_path}/x.npz:floats")
    assert floats.dtype == np.float32
    assert np.allclose(255 * floats, x)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((0, 3)), "an array must have 1 to 100,000 rows. Got 0 instead."),
        (np.zeros((2, 4)), "an array must have shape (m, size) = (m, 3). Got (2, 4) instead."),
        ([[0, np.nan, 0]], "an array must hold finite numbers. Got nan in row 0, column 1 instead."),
        (
            [[0, 0, 1e39]],
            "an array must hold numbers that float32 can hold, up to 3.4e+38. Got 1e+39 in row 0, column 2.",
        ),
    ],
)
def test_an_array_of_a_file_must_be_one_of_the_source(array: Any, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    got = error(ValueError, Vectors(3).read, tmp_path / "x.npy")
    assert got == f"{tmp_path / 'x.npy'}: {message}"


# ------------------------------------------------------------------------------------------- images of arrays


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 64])
def test_arrays_of_uint8_keep_their_numbers(channels: int) -> None:
    x, source = noise(4, 6, channels), Images(4, 6, channels, cell=2)
    got = source.read(x)
    assert got.dtype == np.uint8
    assert got.shape == (6, 4 * channels)
    for i, j, c in np.ndindex(x.shape):
        assert got[i // 2 * 3 + j // 2, (i % 2 * 2 + j % 2) * channels + c] == x[i, j, c]
    assert np.array_equal(source.picture(x), x)


def test_the_cells_of_an_image_by_hand() -> None:
    x = [[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]]
    source = Images(4, 4, cell=2)
    assert source.grid == (2, 2)
    assert source.read(np.array(x, np.uint8)).tolist() == [
        [0, 1, 10, 11],
        [2, 3, 12, 13],
        [20, 21, 30, 31],
        [22, 23, 32, 33],
    ]
    assert source.names(source.load(np.zeros((4, 4)))) == ("(1, 1)", "(1, 2)", "(2, 1)", "(2, 2)")
    assert Images(4, 4).read(np.array(x, np.uint8)).tolist() == [[*x[0], *x[1], *x[2], *x[3]]]
    wide = Images(2, 4, channels=2, cell=2)  # the channels of a pixel lie side by side
    pixels = np.array([[[1, 2], [3, 4], [5, 6], [7, 8]], [[11, 12], [13, 14], [15, 16], [17, 18]]], np.uint8)
    assert wide.read(pixels).tolist() == [[1, 2, 3, 4, 11, 12, 13, 14], [5, 6, 7, 8, 15, 16, 17, 18]]
    assert wide.grid == (1, 2)
    assert wide.names(wide.load(pixels)) == ("(1, 1)", "(1, 2)")


def test_a_picture_file_becomes_cells(picture: Callable[[bytes], Path]) -> None:
    x, source = noise(4, 8, 3), Images(4, 8, 3)
    path = picture(png_of(x))
    assert np.array_equal(source.read(path), source.read(x))
    assert np.array_equal(source.picture(path), x)
    x[:, :4] = [10, 20, 30]
    x[1:3, 1:3] = 200
    narrow = picture(png_of(x[:, :4]))  # two columns of its border's colour on each side
    expected = np.full((4, 8, 3), [10, 20, 30])
    expected[1:3, 3:5] = 200
    assert np.array_equal(source.picture(narrow), expected)


def test_one_channel_needs_no_axis() -> None:
    x, source = noise(4, 2), Images(4, 2, cell=2)
    for array in (x, x[..., None], np.asfortranarray(x)):
        assert source.read(array).flags.c_contiguous
        assert np.array_equal(source.picture(array), x[..., None])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8"])
def test_floats_become_float32(dtype: str) -> None:
    got = Images(2, 2, cell=2).read(np.array([[0, 0.5], [1, 0.25]], dtype))
    assert got.dtype == np.float32
    assert got.tolist() == [[0, 0.5, 1, 0.25]]


@pytest.mark.parametrize(
    ("example", "kind", "message"),
    [
        (np.zeros((2, 4)), ValueError, "= (2, 4, 3). Got (2, 4) instead."),
        (np.zeros((2, 4, 4)), ValueError, "= (2, 4, 3). Got (2, 4, 4) instead."),
        (np.zeros((1, 2, 4, 3)), ValueError, "= (2, 4, 3). Got (1, 2, 4, 3) instead."),
        (np.zeros(()), ValueError, "Got () instead."),
        (
            np.full((2, 4, 3), 255.0),
            ValueError,
            "an image of float64 must have numbers from 0 to 1. Got 255 to 255",
        ),
        (
            np.full((2, 4, 3), -0.1),
            ValueError,
            "Got -0.1 to -0.1 instead.\n  hint: divide by the largest possible",
        ),
        (np.full((2, 4, 3), np.nan), ValueError, "Got nan to nan instead."),
        (np.full((2, 4, 3), np.inf), ValueError, "Got inf to inf instead."),
        (
            np.zeros((2, 4, 3), int),
            TypeError,
            "an image must hold uint8, or floats from 0 to 1. Got dtype int64 instead.\n"
            "  hint: image.astype(np.uint8) if its numbers lie in 0 to 255",
        ),
        (
            np.zeros((2, 4, 3), bool),
            TypeError,
            "Got dtype bool instead.\n  hint: 255 * image.astype(np.uint8)",
        ),
        (np.zeros((2, 4, 3), np.int8), TypeError, "Got dtype int8 instead."),
        (np.zeros((2, 4, 3), "c8"), TypeError, "must hold real numbers. Got dtype complex64 instead."),
        (np.ma.zeros((2, 4, 3)), TypeError, "Got a masked array instead."),
        (None, TypeError, "an image must hold real numbers. Got NoneType instead."),
        (b"x.png", TypeError, "an image must be an array or a path of type str. Got bytes instead."),
    ],
)
def test_other_images_are_rejected(example: object, kind: type[Exception], message: str) -> None:
    assert message in error(kind, Images(2, 4, 3, cell=2).read, example)


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((3, 4, 6), "\n  hint: image.transpose(1, 2, 0), if the channels are first"),
        ((6, 4, 3), "\n  hint: image.swapaxes(0, 1), if the width is first"),
        ((4, 3, 6), ""),
    ],
)
def test_axes_in_another_order_get_a_hint(shape: tuple[int, ...], hint: str) -> None:
    message = error(ValueError, Images(4, 6, 3, cell=2).read, np.zeros(shape, np.uint8))
    rule = "an image must have shape (height, width, channels) = (4, 6, 3)."
    assert message == f"{rule} Got {shape} instead.{hint}"


def test_a_pillow_image_is_not_an_array() -> None:
    """Its array may hold the numbers of colours in a palette."""
    message = error(TypeError, Images(2, 4, cell=2).read, Image.new("P", (4, 2)))
    assert message == (
        "an image must be an array or a path. Got Image instead.\n"
        "  hint: np.asarray(picture.convert('L').resize((4, 2)))"
    )


# ---------------------------------------------------------------------------------------- pictures as they are


@pytest.mark.parametrize("format", ["PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_formats_without_loss(format: str, picture: Callable[[bytes], Path]) -> None:
    x = noise(6, 7)
    data = saved(Image.fromarray(x), format, **({"lossless": True} if format == "WEBP" else {}))
    assert np.array_equal(Rows(6, 7).read(picture(data)), x)


def test_jpeg_is_about_the_same(picture: Callable[[bytes], Path]) -> None:
    x = np.add.outer(np.arange(16), 8 * np.arange(16)).astype(np.uint8)
    got = Rows(16, 16).read(picture(saved(Image.fromarray(x), "JPEG", quality=95)))
    assert np.abs(got.astype(int) - x).max() <= 4


def test_gray_is_repeated_and_colour_is_weighted(picture: Callable[[bytes], Path]) -> None:
    gray = noise(3, 2, 1)
    assert np.array_equal(Rows(3, 2, 3).read(picture(png_of(gray))), np.repeat(gray, 3, 2).reshape(3, 6))
    color = noise(9, 9, 3)
    luma = color @ np.array([0.299, 0.587, 0.114])  # ITU-R BT.601
    assert np.abs(Rows(9, 9).read(picture(png_of(color))) - luma).max() < 0.51


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("stored", [1, 3])
def test_the_upper_8_of_16_bits(channels: int, stored: int, picture: Callable[[bytes], Path]) -> None:
    x = noise(4, 5, stored, dtype=np.uint16)
    if stored == 3:
        x[:] = x[..., :1]
    high = np.repeat((x >> 8).astype(np.uint8)[..., :1], channels, 2)
    assert np.array_equal(Rows(4, 5, channels).read(picture(png_of(x))), high.reshape(4, -1))


def test_16_bits_of_tiff_and_pnm(picture: Callable[[bytes], Path]) -> None:
    x = noise(4, 5, dtype=np.uint16)
    high = (x >> 8).astype(np.uint8)
    assert np.array_equal(Rows(4, 5).read(picture(saved(Image.fromarray(x), "TIFF"))), high)
    pgm = b"P5 5 4 65535\n" + x.astype(">u2").tobytes()
    assert np.array_equal(Rows(4, 5).read(picture(pgm)), high)


def tiff(pixels: bytes, bits: int, zero_is: int, order: str = "<") -> bytes:
    """A file by hand: two grey pixels; 0 is white (0) or black (1)."""
    fields = [(256, 2), (257, 1), (258, bits), (259, 1), (262, zero_is), (273, 8)]
    fields += [(277, 1), (278, 1), (279, len(pixels))]
    tags = b"".join(struct.pack(f"{order}HHIHH", number, 3, 1, value, 0) for number, value in fields)
    data = struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, 12) + pixels.ljust(4, b"\0")
    return data + struct.pack(f"{order}H", len(fields)) + tags + bytes(4)


@pytest.mark.parametrize(("order", "bits"), [("<", 8), (">", 8), ("<", 16)])
@pytest.mark.parametrize(("zero_is", "expected"), [(1, [0x00, 0xC8]), (0, [0xFF, 0x37])])
def test_tiff_states_whether_0_is_white(
    order: str, bits: int, zero_is: int, expected: list[int], picture: Callable[[bytes], Path]
) -> None:
    pixels = bytes([0x00, 0xC8]) if bits == 8 else struct.pack("<2H", 0x0000, 0xC8FF)
    assert Rows(1, 2).read(picture(tiff(pixels, bits, zero_is, order))).tolist() == [expected]


UNUSUAL = {
    **{
        f"{bits} of PNG": (bits, lambda bits=bits: png(8 // bits, 1, bits, 0, [b"\x53"]))
        for bits in (1, 2, 4)
    },
    **{f"{bits} of TIFF": (bits, lambda bits=bits: tiff(b"\x12\x3f\xed", bits, 1)) for bits in (1, 2, 4, 12)},
    **{
        str(np.dtype(x)): (32, lambda x=x: saved(Image.fromarray(np.ones((2, 2), x)), "TIFF"))
        for x in ("i4", "f4")
    },
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_other_numbers_of_bits_are_rejected(name: str, picture: Callable[[bytes], Path]) -> None:
    bits, data = UNUSUAL[name]
    path = picture(data())
    message = f"{path}: the pixels of a picture must have 8 or 16 bits. Got {bits} instead."
    assert error(ValueError, Rows(2, 2).read, path) == message


@pytest.mark.parametrize("depth", [1, 8])
def test_palettes(depth: int, picture: Callable[[bytes], Path]) -> None:
    palette = chunk(b"PLTE", bytes([10, 20, 30, 200, 100, 0]))
    row = b"\x40" if depth == 1 else b"\0\1"
    path = picture(png(2, 1, depth, 3, [row], palette))
    assert Rows(1, 2, 3).read(path).tolist() == [[10, 20, 30, 200, 100, 0]]
    transparent = picture(png(2, 1, depth, 3, [row], palette, chunk(b"tRNS", b"\xff\0")))
    assert Rows(1, 2, 3).read(transparent).tolist() == [[10, 20, 30, 255, 255, 255]]
    half = picture(png(2, 1, depth, 3, [row], palette, chunk(b"tRNS", b"\x33\xff")))  # a fifth
    assert Rows(1, 2, 3).read(half).tolist() == [[206, 208, 210, 200, 100, 0]]


def test_cmyk_is_rejected(picture: Callable[[bytes], Path]) -> None:
    path = picture(saved(Image.new("CMYK", (8, 8), (255, 0, 0, 0)), "JPEG"))
    message = f"{path}: a picture must be gray, RGB or of a palette. Got CMYK instead."
    assert error(ValueError, Rows(8, 8).read, path) == message


# ----------------------------------------------------------------------------------------------- transparency


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("stored", [2, 4])
@pytest.mark.parametrize("channels", [1, 3])
def test_alpha_is_composed_on_white(
    stored: int, channels: int, dtype: type, picture: Callable[[bytes], Path]
) -> None:
    x = noise(8, 8, stored, dtype=dtype)
    x[..., :-1] = x[..., :1]
    upper = (x >> (8 * x.itemsize - 8)).astype(float)
    opacity = upper[..., -1:] / 255
    expected = upper[..., :1] * opacity + 255 * (1 - opacity)
    got = Rows(8, 8, channels).read(picture(png_of(x))).reshape(8, 8, channels)
    assert np.abs(got - expected).max() <= 1


@pytest.mark.parametrize(
    ("depth", "color", "row", "transparent", "expected"),
    [
        (8, 0, b"\1\2", [1], [255, 2]),
        (16, 0, b"\x12\x34\x12\x35", [0x1234], [255, 0x12]),
        (8, 2, b"\1\2\3\4\4\4", [1, 2, 3], [255, 4]),
        (16, 2, b"\1\1\2\2\3\3\4\4\4\4\4\4", [0x101, 0x202, 0x303], [255, 4]),
    ],
)
def test_one_transparent_colour(
    depth: int,
    color: int,
    row: bytes,
    transparent: list[int],
    expected: list[int],
    picture: Callable[[bytes], Path],
) -> None:
    marked = chunk(b"tRNS", struct.pack(f">{len(transparent)}H", *transparent))
    got = Rows(1, 2).read(picture(png(2, 1, depth, color, [row], marked)))
    assert got.tolist() == [expected]


# --------------------------------------------------------------------------------------- orientation and frames

# The transformation of the stored pixels for display, by EXIF's number.
UPRIGHT: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda x: x,
    2: np.fliplr,
    3: lambda x: np.rot90(x, 2),
    4: np.flipud,
    5: lambda x: x.T,
    6: lambda x: np.rot90(x, -1),
    7: lambda x: np.rot90(x.T, 2),
    8: lambda x: np.rot90(x, 1),
}


def exif_of(orientation: int) -> bytes:
    """The least TIFF structure with this tag."""
    return struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, 0x0112, 3, 1, orientation, 0, 0)


@pytest.mark.parametrize("format", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_the_orientation_is_applied(orientation: int, format: str, picture: Callable[[bytes], Path]) -> None:
    x = noise(4, 6)
    if format == "PNG":
        data = png_of(x[..., None], chunk(b"eXIf", exif_of(orientation)))
    elif format == "TIFF":
        data = saved(Image.fromarray(x), "TIFF", tiffinfo={0x0112: orientation})
    else:
        data = saved(Image.fromarray(x), "WEBP", lossless=True, exif=exif_of(orientation))
    expected = UPRIGHT[orientation](x)
    assert np.array_equal(Rows(*expected.shape).read(picture(data)), expected)


def test_jpeg_of_a_camera_is_turned(picture: Callable[[bytes], Path]) -> None:
    x = np.zeros((8, 16), np.uint8)
    x[:, 8:] = 255
    path = picture(saved(Image.fromarray(x), "JPEG", quality=100, exif=b"Exif\0\0" + exif_of(6)))
    got = Rows(16, 8).read(path)
    assert got[:8].max() < 5
    assert got[8:].min() > 250


@pytest.mark.parametrize(
    "exif", [b"", b"spam", exif_of(9), exif_of(0), exif_of(6)[:12], b"MM\0*\xff\xff\xff\xff"]
)
def test_damaged_metadata_is_ignored(exif: bytes, picture: Callable[[bytes], Path]) -> None:
    x = noise(4, 6)
    path = picture(png_of(x[..., None], chunk(b"eXIf", exif)))
    assert np.array_equal(Rows(4, 6).read(path), x)


@pytest.mark.parametrize("format", ["GIF", "TIFF", "PNG"])
def test_the_first_frame_is_read(format: str, picture: Callable[[bytes], Path]) -> None:
    first, second = (Image.fromarray(np.full((2, 3), value, np.uint8)) for value in (40, 90))
    path = picture(saved(first, format, save_all=True, append_images=[second]))
    assert Rows(2, 3).read(path).tolist() == [[40] * 3] * 2


# ----------------------------------------------------------------------------------------------- made to fit


@pytest.mark.parametrize(
    ("stored", "model", "box"),
    [
        ((8, 16), (8, 8), (slice(2, 6), slice(0, 8))),  # 2:1 in a square: bars above and below
        ((16, 8), (8, 8), (slice(0, 8), slice(2, 6))),
        ((2, 4), (8, 8), (slice(2, 6), slice(0, 8))),  # enlarged
        ((100, 100), (5, 8), (slice(0, 5), slice(1, 6))),  # 3 columns are left: 1 and 2
        ((1, 1000), (4, 8), (slice(1, 2), slice(0, 8))),  # at least one row
        ((1000, 1), (8, 5), (slice(0, 8), slice(2, 3))),
        ((30, 40), (3, 4), (slice(0, 3), slice(0, 4))),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_proportions_are_kept_and_the_rest_has_the_colour_of_the_border(
    stored: tuple[int, int],
    model: tuple[int, int],
    box: tuple[slice, slice],
    channels: int,
    picture: Callable[[bytes], Path],
) -> None:
    color = np.array([30, 60, 90] if channels == 3 else [77], np.uint8)
    x = np.full((*stored, channels), color)
    x[
        stored[0] // 2 : stored[0] // 2 + stored[0] // 8 + 1,
        stored[1] // 2 : stored[1] // 2 + stored[1] // 8 + 1,
    ] = 250
    expected = np.full((*model, channels), color)
    size = box[1].stop - box[1].start, box[0].stop - box[0].start
    shrunk = Image.fromarray(x if channels == 3 else x[..., 0]).resize(size, Image.Resampling.LANCZOS)
    expected[box] = np.asarray(shrunk).reshape(*size[::-1], channels)
    got = Rows(*model, channels).read(picture(png_of(x)))
    assert got.reshape(expected.shape).tolist() == expected.tolist()


def test_bars_have_the_median_colour_of_the_border(picture: Callable[[bytes], Path]) -> None:
    x = np.array([[7, 200], [8, 90], [9, 91]], np.uint8)  # all is border; the corners count twice
    got = Rows(3, 6).read(picture(png_of(x[..., None])))
    # 7, 7, 8, 9, 9, 90, 91, 91, 200 and 200: between 9 and 90, rounded down
    assert got[:, :2].tolist() == got[:, 4:].tolist() == [[49, 49]] * 3
    assert got[:, 2:4].tolist() == x.tolist()


def test_small_details_are_averaged(picture: Callable[[bytes], Path]) -> None:
    """A chessboard of single pixels is gray from afar; without antialiasing it would be black or white."""
    board = (255 * (np.indices((64, 64)).sum(0) % 2)).astype(np.uint8)
    got = Rows(8, 8).read(picture(png_of(board[..., None])))
    assert np.abs(got.astype(int) - 127).max() < 20


# --------------------------------------------------------------------------------------------- wrong pictures


def test_a_picture_of_too_many_pixels_is_rejected_by_its_header(picture: Callable[[bytes], Path]) -> None:
    path = picture(png(100_000, 100_000, 8, 2, [b""]))
    assert (
        error(ValueError, Rows(8, 8).read, path) == f"{path}: a picture must have at most 67,108,864 pixels"
    )
    with warnings.catch_warnings():  # as in a program that has no filter for errors
        warnings.simplefilter("default")
        assert "at most" in error(ValueError, Rows(8, 8).read, picture(png(10_000, 10_000, 8, 2, [b""])))
    path = picture(png(8192, 8193, 8, 0, [b""]))  # below the limit of Pillow
    message = f"{path}: a picture must have at most 67,108,864 pixels. Got 8,193 x 8,192 instead."
    assert error(ValueError, Rows(8, 8).read, path) == message
    path = picture(png(8192, 8192, 8, 0, [b""]))  # as many as allowed, but they aren't there
    assert "at most" not in error(ValueError, Rows(8, 8).read, path)


def test_the_limit_holds_where_pillow_has_none(
    picture: Callable[[bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    path = picture(png(100_000, 100_000, 8, 2, [b""]))
    assert error(ValueError, Rows(8, 8).read, path).endswith("Got 100,000 x 100,000 instead.")


@pytest.mark.parametrize(
    "data", [b"", b"spam", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"%!PS-Adobe-3.0 EPSF-3.0\n"]
)
def test_a_file_that_is_not_a_picture(data: bytes, picture: Callable[[bytes], Path]) -> None:
    path = picture(data)
    message = f"{path}: not a picture (PNG, JPEG, WEBP, GIF, BMP, TIFF, PPM)"
    assert error(ValueError, Rows(8, 8).read, path) == message


@pytest.mark.skipif(os.name != "posix", reason="there may be no files with holes")
def test_a_huge_file_is_rejected_unread(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_bytes(b"")
    os.truncate(path, 2**36)
    message = "a picture file must have at most 536,870,912 bytes. Got 68,719,476,736 instead."
    assert error(ValueError, Rows(8, 8).read, path) == f"{path}: {message}"


def test_a_wrong_length_reserves_no_memory(picture: Callable[[bytes], Path]) -> None:
    data = bytearray(png_of(noise(4, 6, 1)))
    start = data.index(b"IDAT") - 4
    data[start : start + 4] = b"\x7f\xff\xff\xff"
    Rows(4, 6).read(picture(png_of(noise(4, 6, 1))))  # Pillow loads its formats
    path = picture(bytes(data))
    tracemalloc.start()
    message = refusal(Rows(4, 6), path, default=f"{path}: ")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert message.startswith(f"{path}: ")
    assert most < 2**24


def test_formats_that_start_programs_are_not_opened(picture: Callable[[bytes], Path]) -> None:
    data = saved(Image.new("RGB", (4, 4)), "EPS")
    assert "not a picture" in error(ValueError, Rows(4, 4).read, picture(data))


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_a_truncated_picture(format: str, picture: Callable[[bytes], Path]) -> None:
    data = saved(Image.fromarray(noise(40, 40, 3)), format)
    for share in (0.3, 0.6, 0.9):
        path = picture(data[: int(len(data) * share)])
        message = error(ValueError, Rows(8, 8).read, path)
        assert message.startswith(f"{path}: ")
        assert "\n" not in message


@pytest.mark.slow
@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
@given(data=st.data())
def test_a_picture_with_any_byte_changed_is_read_or_rejected_with_its_name(
    format: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    changed = bytearray(saved(Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)), format))
    changed[data.draw(st.integers(0, min(len(changed), 300) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("changed") / "x"
    path.write_bytes(changed)
    message = refusal(Rows(4, 4, 3), path, default=f"{path}: ")
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


def test_picture_files_have_1_or_3_channels(picture: Callable[[bytes], Path]) -> None:
    path = picture(png_of(noise(2, 2, 4)))
    message = error(ValueError, Images(2, 2, channels=4, cell=2).read, path)
    assert message == (
        f"{path}: channels must be 1 or 3 for picture files. The model has 4.\n"
        "  hint: save the image as an array in .npy"
    )


def test_without_pillow_only_arrays_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    (tmp_path / "x.png").write_bytes(png_of(noise(1, 1, 1)))
    message = error(ImportError, Images(2, 2, cell=2).read, tmp_path / "x.png")
    assert message == 'pictures need Pillow: pip install "regard[images]"'
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    assert Images(2, 2, cell=2).read(tmp_path / "x.npy").tolist() == [[1] * 4]


# ---------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Vectors(0), ValueError, "size must be at least 1. Got 0 instead."),
        (lambda: Vectors(65_537), ValueError, "size must be at most 65536. Got 65537 instead."),
        (lambda: Vectors(2.0), TypeError, "size must be an integer. Got 2.0 instead."),
        (lambda: Vectors(True), TypeError, "size must be an integer. Got True instead."),
        (lambda: Vectors(2, "bag"), ValueError, "order must be one of 'sequence', 'set'. Got 'bag' instead."),
        (lambda: Vectors(2, positions=-1), ValueError, "positions must be at least 0. Got -1 instead."),
        (lambda: Vectors(2, positions=4), ValueError, "positions must be at most 3. Got 4 instead."),
        (lambda: Images(0, 1), ValueError, "height must be at least 1. Got 0 instead."),
        (lambda: Images(1, 4097), ValueError, "width must be at most 4096. Got 4097 instead."),
        (lambda: Images(1, 1, 0), ValueError, "channels must be at least 1. Got 0 instead."),
        (lambda: Images(1, 1, 65), ValueError, "channels must be at most 64. Got 65 instead."),
        (lambda: Images("1", 1), TypeError, "height must be an integer. Got '1' instead."),
        (lambda: Images(4, 4, cell=1), ValueError, "cell must be at least 2. Got 1 instead."),
        (lambda: Images(4, 4, cell=8192), ValueError, "cell must be at most 4096. Got 8192 instead."),
        (lambda: Images(6, 6, cell=6), ValueError, "cell must be a power of 2. Got 6 instead."),
        (lambda: Images(4, 4, cell=2.0), TypeError, "cell must be an integer. Got 2.0 instead."),
        (
            lambda: Images(6, 8),
            ValueError,
            "height must be a multiple of cell = 4. Got 6 instead.\n  hint: height=8, or another cell",
        ),
        (
            lambda: Images(8, 4, cell=8),
            ValueError,
            "width must be a multiple of cell = 8. Got 4 instead.\n  hint: width=8, or another cell",
        ),
        (
            lambda: Vectors(1, mean=(1.0,)),
            ValueError,
            "mean and scale must be given together. Got one of them instead.",
        ),
        (
            lambda: Vectors(1, scale=(1.0,)),
            ValueError,
            "mean and scale must be given together. Got one of them instead.",
        ),
        (
            lambda: Vectors(1, positions=1, mean=(1.0,), scale=(1.0,)),
            ValueError,
            "mean must be 2 numbers. Got (1.0,) instead.",
        ),
        (lambda: Vectors(1, mean=(0,), scale=(0,)), ValueError, "scale[0] must be greater than 0. Got 0.0"),
    ],
)
def test_sources_of_other_sizes_are_rejected(
    make: Callable[[], object], kind: type[Exception], message: str
) -> None:
    assert error(kind, make).startswith(message)


def test_numpys_integers_become_pythons() -> None:
    described = Images(np.int64(2), np.uint8(4), cell=np.int8(2)).settings()[0]
    assert (
        json.dumps(described)
        == '{"kind": "images", "height": 2, "width": 4, "channels": 1, "cell": 2, "seen": null}'
    )
    described = Vectors(np.int64(1), mean=(np.float32(0.5),), scale=(np.int64(2),)).settings()[0]
    assert json.dumps(described) == (
        '{"kind": "vectors", "size": 1, "order": "sequence", "positions": 0, "mean": [0.5], "scale": [2.0]}'
    )


STANDARD = Vectors(2, mean=(1.0, 2.0), scale=(3.0, 4.0)).settings()[0]


@pytest.mark.parametrize(
    ("described", "message"),
    [
        ({}, "the kind of a source must be one of 'words', "),
        ({"kind": []}, "the kind of a source must be one of 'words', "),
        (
            {"kind": "vectors"},
            "the settings of vectors must be kind, size, order, positions, mean, scale. Got kind instead.",
        ),
        (
            Images(4, 4).settings()[0] | {"more": 1},
            "the settings of images must be kind, height, width, channels, cell, seen.",
        ),
        (Images(4, 4).settings()[0] | {"height": 10**9}, "height must be at most 4096."),
        (STANDARD | {"scale": None}, "mean and scale must be given together."),
        (STANDARD | {"mean": {"0": 0.0, "1": 0.0}}, "mean must be 2 numbers. Got {"),
        (STANDARD | {"mean": "01"}, "mean must be 2 numbers. Got '01' instead."),
        (STANDARD | {"scale": 1.0}, "scale must be 2 numbers. Got 1.0 instead."),
        (STANDARD | {"scale": [-1.0, 1.0]}, "scale[0] must be greater than 0. Got -1.0 instead."),
        (STANDARD | {"scale": [float("inf"), 1.0]}, "scale[0] must be finite. Got inf instead."),
        (STANDARD | {"mean": [0.0, float("nan")]}, "mean[1] must be finite. Got nan instead."),
        (STANDARD | {"mean": [0.0, 10**400]}, "mean[1] must be finite. Got inf instead."),
    ],
)
def test_other_settings_are_rejected(described: Any, message: str) -> None:
    assert error(ValueError, restore_source, described, {}).startswith(message)


def test_settings_of_another_type_are_rejected() -> None:
    text = "the settings of a source must be a mapping. Got [1] instead."
    assert error(TypeError, restore_source, [1], {}) == text
    for wrong in (2.0, "2", None, True, [2]):
        error(TypeError, restore_source, Images(4, 4).settings()[0] | {"width": wrong}, {})
    for wrong in ("2", None, True, [2]):
        error(TypeError, restore_source, STANDARD | {"mean": [0.0, wrong]}, {})
    error(ValueError, restore_source, Vectors(1).settings()[0] | {"order": ["set"]}, {})


# --------------------------------------------------------------------------------------------- standardisation


def fitted(source: Vectors, *examples: Any) -> Vectors:
    return source.fitted(map(source.load, examples))


def standardised(source: Vectors, example: Any) -> np.ndarray:
    return source.rows(source.load(example))


@pytest.mark.parametrize("order", ["sequence", "set"])
def test_standardisation_by_hand(order: Any) -> None:
    source = fitted(Vectors(1, order, positions=1), ([[1], [3]], [[10], [20]]), ([[5]], [[30]]))
    assert source.order == order
    assert source.mean == pytest.approx((3, 20))
    assert source.scale == pytest.approx(((8 / 3) ** 0.5, (200 / 3) ** 0.5))
    again = fitted(source, ([[7], [7]], [[0], [4]]))  # from the new examples, not from the old settings
    assert again.mean == pytest.approx((7, 2))
    assert again.scale == pytest.approx((1, 2))
    example = [[7], [3]], [[4], [2]]
    assert standardised(again, example).tolist() == [[0, 1], [-4, 0]]
    assert again.read(example).tolist() == [[7, 4], [3, 2]]
    assert standardised(again, example).dtype == np.float32
    assert Vectors(1, positions=1).read(example).tolist() == [[7, 4], [3, 2]]


def test_no_examples_leave_numbers_as_they_are() -> None:
    assert standardised(fitted(Vectors(2)), [[1, 2]]).tolist() == [[1, 2]]


@pytest.mark.parametrize("value", [0.0, 1e-30, 0.1, -7.0, 1e6 / 3, 3e38])
def test_a_constant_column_becomes_0(value: float) -> None:
    x = np.full((1000, 1), value)
    source = fitted(Vectors(1), x, x)
    assert source.scale == (1.0,)
    assert (np.abs(standardised(source, x)) <= 1e-6 * abs(value)).all()


@pytest.mark.parametrize("offset", [0.0, 1.0, -1e3, 1e5])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e30])
def test_offsets_and_sizes_have_no_influence(offset: float, size: float) -> None:
    """The numbers of a column with mean 0 and deviation 1, whatever was added and multiplied."""
    x = np.where(np.arange(50) % 2, 1.0, -1.0)[:, None]
    changed = (size * (x + offset)).astype(np.float32)
    tolerance = 1e-6 * max(abs(offset), 1)  # float32 holds no more of them
    np.testing.assert_allclose(
        standardised(fitted(Vectors(1), changed[:20], changed[20:]), changed), x, atol=tolerance
    )


def test_the_number_of_each_columns_examples_counts_by_rows() -> None:
    examples = [RNG.normal(3, 5, (rows, 4)) for rows in (1, 2, 30)]
    every = np.concatenate(examples).astype(np.float32).astype(np.float64)
    source = fitted(Vectors(4, "set"), *examples)
    np.testing.assert_allclose(source.mean or (), every.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(source.scale or (), every.std(axis=0), rtol=1e-12)
    rows = np.concatenate([standardised(source, example) for example in examples])
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(rows.std(axis=0), 1, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 5e-324])
def test_values_too_large_after_standardisation_are_rejected(scale: float) -> None:
    message = error(ValueError, standardised, Vectors(1, mean=(0,), scale=(scale,)), [[0], [1e20]])
    assert message.startswith("a standardised example must hold ")
    assert "in row 1, column 0" in message


# ------------------------------------------------------------------------------------------------------ scaled


def test_bytes_are_scaled_to_0_to_1_and_floats_stay() -> None:
    got = scaled(np.arange(256, dtype=np.uint8).reshape(2, 128))
    assert got.dtype == np.float32
    assert np.allclose(got, np.arange(256).reshape(2, 128) / 255, rtol=1e-6, atol=0)
    assert got[0, 0] == 0
    assert got[-1, -1] == 1
    rows = np.ones((2, 3), np.float32)
    assert scaled(rows) is rows
    message = "rows must be of uint8 or float32. Got float64 instead."
    assert error(TypeError, scaled, np.ones(2)) == message
