"""Files of arrays: whatever reads one reads the same, refuses the same for the same reason, and unpickles nothing."""

from __future__ import annotations

import io
import os
import socket
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import error
from hypothesis import given
from hypothesis import strategies as st

from regard._arrays import array_names, load_array, load_arrays
from regard.commands.array_files import read_array, read_tables
from regard.seq2seq.sources import Images, Vectors

X = np.array([[0, 0.25, 0.5, 0.125], [0.75, 1, 0, 0.375]])
DOORS: dict[str, Callable[[str], Any]] = {
    "the reader": load_array,
    "the command line": lambda name: read_array(Path(name)),
    "vectors": Vectors(4).read,
    "images": Images(2, 4, cell=2).picture,
}
doors = pytest.mark.parametrize("door", DOORS)


def content(array: Any = X, version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), version)
    return file.getvalue()


def header_of(text: str, version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode()


def npy_header(shape: str, descr: str = "'<f4'") -> bytes:
    return header_of(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n")


def written(data: bytes, packed: int | None = None) -> str:
    """A file in the current folder, or an array of an archive, with these bytes."""
    if packed is None:
        Path("x.npy").write_bytes(data)
        return "x.npy"
    with zipfile.ZipFile("x.npz", "w", packed) as archive:
        archive.writestr("x.npy", data)
    return "x.npz:x"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


RIGHT = {
    **{f"version {version}": content(version=(version, 0)) for version in (1, 2, 3)},
    "columns first": content(np.asfortranarray(X)),
    **{f"dtype {dtype}": content(X.astype(dtype)) for dtype in ("<f8", ">f8", "<f4", ">f4", "<f2")},
    "more behind it": content() + b"more",
    "header of 9 KB": header_of("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4)}".ljust(9_000), 2)
    + X.tobytes(),
}


@doors
@pytest.mark.parametrize("packed", [None, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_every_door_reads_what_numpy_writes(door: str, packed: int | None) -> None:
    for case, data in RIGHT.items():
        got = DOORS[door](written(data, packed))
        assert got.reshape(2, 4).tolist() == X.tolist(), case
        assert got.flags.writeable


WRONG = {
    "empty": (b"", "it is not in NumPy's format"),
    "text": (b"1 2 3\n4 5 6\n", "it is not in NumPy's format"),
    "a pickle": (b"\x80\x04K\x01.", "it is not in NumPy's format"),
    "no version": (b"\x93NUMPY\1", "it is not in NumPy's format"),
    "no header": (b"\x93NUMPY\1\0", "its header is damaged"),
    "version 4": (
        header_of("{}", 4),
        "the version of NumPy's format must be 1.0, 2.0 or 3.0. Got 4.0 instead.",
    ),
    "header of 4 GB": (
        b"\x93NUMPY\2\0\xff\xff\xff\xff{",  # which NumPy would allocate
        "its header must have at most 10,000 bytes. Got 4,294,967,295 instead.",
    ),
    "no shape": (header_of("{'descr': 'f4'}\n"), "its header is damaged"),
    "no dtype": (npy_header("(2, 4)", "'spam'"), "its header is damaged"),
    "code": (npy_header("(2, 3, __import__('os').mkdir('trapped'))"), "its header is damaged"),
    "nested": (npy_header("(" * 3000), "its header is damaged"),
    "objects": (
        npy_header("(2, 4)", "'|O'") + b"x",
        "an array must hold real numbers. Got dtype object instead.",
    ),
    "strings": (content(np.array([["a"]])), "an array must hold real numbers. Got dtype <U1 instead."),
    "complex": (
        content(X + 1j),
        "an array must hold real numbers. Got dtype complex128 instead."
        "\n  hint: attention is defined here for real numbers",
    ),
    "fields": (
        content(np.zeros((2, 4), [("a", "<f4")])),
        "an array must hold real numbers. Got dtype [('a', '<f4')] instead.",
    ),
    "cut off": (
        npy_header("(2, 4)") + b"x" * 31,
        "it is cut off: 31 bytes can't hold an array of shape (2, 4) and type float32",
    ),
    "huge": (
        npy_header("(1099511627776, 1048576)"),
        "it is cut off: 0 bytes can't hold an array of shape (1099511627776, 1048576) and type float32",
    ),
    "negative": (
        npy_header("(-1, 4)"),
        "it is cut off: 0 bytes can't hold an array of shape (-1, 4) and type float32",
    ),
    "empty and huge": (npy_header(f"(0, 1{'0' * 22})"), f"no array can have its shape (0, 1{'0' * 22})"),
    "twice negative": (npy_header("(-2, -4)") + b"x" * 32, "no array can have its shape (-2, -4)"),
    "bool": (npy_header("(True, 4)") + b"x" * 16, "no array can have its shape (True, 4)"),
    "dimensions": (npy_header(str((0,) * 65)), f"no array can have its shape {(0,) * 65!s:.60}"),
}


@doors
@pytest.mark.parametrize("packed", [None, zipfile.ZIP_DEFLATED])
def test_every_door_refuses_for_the_same_reason(door: str, packed: int | None) -> None:
    rules = (" must have shape ", " must have 1 to ") if door in ("vectors", "images") else ()  # come first
    for data, reason in WRONG.values():
        name = written(data, packed)
        got = error(TypeError if "Got dtype" in reason else ValueError, DOORS[door], name)
        assert got == f"{name}: {reason}" or any(rule in got for rule in rules)
    assert not Path("trapped").exists()


def test_what_a_caller_refuses_reserves_no_memory() -> None:
    def refuse(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        raise ValueError(f"{shape} {dtype}")

    for packed in (None, zipfile.ZIP_STORED):
        name = written(npy_header("(10000000000000, 3)"), packed)
        assert error(ValueError, load_array, name, refuse) == f"{name}: (10000000000000, 3) float32"


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="no such type on this machine")
@doors
def test_no_door_reads_more_than_64_bits(door: str) -> None:
    assert "must be float64 or smaller" in error(TypeError, DOORS[door], written(content(X.astype("g"))))


class Trap:
    """Makes a folder where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("trapped",)


@doors
def test_nothing_is_unpickled(door: str) -> None:
    trap = np.array([[Trap()]], object)
    np.save("x.npy", trap)
    np.savez("x.npz", x=trap)
    Path("y.npy").write_bytes(Path("x.npy").read_bytes()[128:])  # the pickle alone, which np.load would take
    for name in ("x.npy", "x.npz:x", "y.npy"):
        with pytest.raises((TypeError, ValueError)):
            DOORS[door](name)
    assert not Path("trapped").exists()


# ----------------------------------------------------------------------------------------------------- archives


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives_of_any_name(save: Callable[..., None]) -> None:
    save("x.NPZ", x=X, other=X[:1])  # NumPy adds its own ending
    os.rename("x.NPZ.npz", "a.npz:b.NPZ")
    assert array_names("a.npz:b.NPZ") == ["x", "other"]
    for name in ("x", "other"):
        assert np.array_equal(load_array(f"a.npz:b.NPZ:{name}"), {"x": X, "other": X[:1]}[name])
    assert load_arrays(Path("a.npz:b.NPZ"), []) == {}


@doors
def test_names_of_an_archive(door: str) -> None:
    np.savez("x.npz", **{f"x{i}": np.ones((1, 2)) for i in range(10)})
    listed = "it has x0, x1, x2, x3, x4, x5, x6, x7, ..."
    assert error(ValueError, DOORS[door], "x.npz:y") == f"x.npz: it has no array 'y'; {listed}"
    assert error(ValueError, DOORS[door], "x.npz:") == f"x.npz: .npz:NAME names an array; {listed}"
    with zipfile.ZipFile("empty.npz", "w"):
        pass
    assert error(ValueError, DOORS[door], "empty.npz:y") == "empty.npz: it has no array 'y'; it has none"


@doors
def test_damaged_archives(door: str) -> None:
    np.savez_compressed("x.npz", x=np.random.default_rng(0).random((2, 4)))
    good = Path("x.npz").read_bytes()
    for part in (b"", b"PK", good[:200], b"1 2 3\n"):
        Path("y.npz").write_bytes(part)
        assert error(ValueError, DOORS[door], "y.npz:x").startswith("y.npz is not an .npz file: ")
    stored = bytearray(Path(written(content(), zipfile.ZIP_STORED)[:-2]).read_bytes())
    encrypted = stored.replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1")
    stored[150] ^= 1
    for damaged in (good[:60] + b"\xff" * 20 + good[80:], stored, encrypted):
        Path("y.npz").write_bytes(damaged)
        assert error(ValueError, DOORS[door], "y.npz:x").startswith("y.npz:x: it is damaged: ")


@doors
@pytest.mark.parametrize("packed", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_reserve_what_they_ask_for_and_are_refused(door: str, packed: int) -> None:
    got = error(ValueError, DOORS[door], written(content(), packed))
    assert got.startswith("x.npz:x: it is packed in a way that NumPy does not write")


def test_names_that_control_a_terminal_are_cleaned() -> None:
    with zipfile.ZipFile("x.npz", "w") as archive:
        archive.writestr("\x1b[2J.npy", b"")
    for name in ("x.npz:x", "x.npz"):
        assert "\x1b" not in error(ValueError, load_array, name)


@doors
def test_an_archive_that_unpacks_to_too_much_is_refused(door: str) -> None:
    np.savez_compressed("x.npz", x=np.zeros((4 << 20, 1)))
    got = error(ValueError, DOORS[door], "x.npz:x")
    assert got.startswith("x.npz unpacks to too much: 33554560 bytes from ")
    np.savez_compressed("x.npz", x=np.eye(1000))  # few values, and no bomb
    assert load_array("x.npz:x").shape == (1000, 1000)


def test_arrays_that_unpack_to_too_much_together_are_refused() -> None:
    np.savez_compressed("x.npz", **{name: np.zeros((1 << 20, 1)) for name in "qkv"})
    for read in (lambda: read_tables([Path("x.npz")]), lambda: load_arrays("x.npz", "qkv")):
        assert error(ValueError, read).startswith("x.npz unpacks to too much: 25166208 bytes from ")
    assert len(load_array("x.npz:q")) == 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("packed", [None, zipfile.ZIP_DEFLATED])
@given(data=st.data())
def test_a_file_with_any_byte_changed_is_read_or_refused_with_its_name(
    packed: int | None, data: st.DataObject
) -> None:
    name = written(content(), packed)
    path = Path(name.removesuffix(":x"))
    changed = bytearray(path.read_bytes())
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(changed)
    try:
        load_array(name)
    except (ValueError, TypeError, OSError) as error_:  # the system refuses a place before the beginning
        refusal = str(error_)
    else:
        refusal = name
    assert str(path) in refusal
    assert "\n" not in refusal.split("\n  hint: ")[0]


# -------------------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize("name", ["x.txt", "x", "", "x.npz/x"])
@pytest.mark.parametrize("read", [load_array, Vectors(2).read])
def test_arrays_are_read_of_no_other_files(read: Callable[[str], Any], name: str) -> None:
    message = f"a file of arrays must end in .npy, or be .npz:NAME. Got {name!r} instead."
    assert error(ValueError, read, name).startswith(message)


@doors
@pytest.mark.parametrize("name", ["x.npy", "x.npz:x", "x.csv", "x.png"])
def test_only_regular_files_are_opened(door: str, name: str) -> None:
    if (name == "x.csv" and door != "the command line") or (name == "x.png" and door != "images"):
        return
    read, path = DOORS[door], Path(name.removesuffix(":x"))
    assert str(path) in error(FileNotFoundError, read, name)
    path.mkdir()
    with pytest.raises((IsADirectoryError, PermissionError)) as caught:
        read(name)
    assert str(path) in str(caught.value)
    if os.name == "posix":
        path.rmdir()
        os.mkfifo(path)
        assert error(ValueError, read, name).startswith(f"{path} is not a regular file")
        path.unlink()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
            with pytest.raises(OSError, match=name[:3]):
                read(name)
    assert "null character" in error(ValueError, read, f"a\0{name}")
