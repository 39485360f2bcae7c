"""The model file: weights, vocabularies and configuration in the safetensors format.

::

    8 bytes      N, the header's length, unsigned, little-endian
    N bytes      JSON: {"__metadata__": {"format": "regard.seq2seq", "version": "1", "sizes": ..., "lower": ...},
                        name: {"dtype": "F32", "shape": [...], "data_offsets": [begin, end]}, ...}
                 filled up with blanks so that N is a multiple of 8; values of __metadata__ are strings
    the rest     raw little-endian numbers; offsets count from here, without gaps or overlaps

Weights are F32, under the names of `Sizes.shapes`. `source_vocabulary` and `target_vocabulary` are U8: the tokens in
UTF-8, a newline between them. `sizes` is a JSON object of whole numbers, `lower` is "true" or "false".

Reading checks everything against everything before it allocates: nothing is unpickled, and what is read never takes
more memory than the file (law 11). Writing goes to a new file in the same folder that replaces the old one when it is
whole.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.seq2seq.network import Network, Sizes
from regard.seq2seq.parameters import Parameters
from regard.seq2seq.text import Vocabulary

__all__ = ["Model", "read_model", "write_model"]

FORMAT, VERSION = "regard.seq2seq", "1"
LONGEST_HEADER = 1 << 20  # bytes; ours take a few thousand
VOCABULARIES = ("source_vocabulary", "target_vocabulary")


class Model(NamedTuple):
    """What a model file holds: a network and the vocabularies of its two sides.

    Parameters
    ----------
    network : Network
        Sizes and weights.
    source, target : Vocabulary
        Of the source and of the target.
    """

    network: Network
    source: Vocabulary
    target: Vocabulary


class _Tensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def write_model(path: str | os.PathLike[str], model: Model) -> None:
    """Write a model file, which is there whole or not at all.

    Parameters
    ----------
    path : str or path
        Where to; an older file is replaced.
    model : Model
        What.

    Raises
    ------
    OSError
        If it can't be written; an older file is as it was then.

    Examples
    --------
    >>> import tempfile
    >>> words = Vocabulary.learn([["a"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/model", Model(Network(Sizes(5, 5, 2, 2, 2, 2)), words, words))
    ...     read_model(f"{folder}/model").target.tokens[4]
    'a'
    """
    data: dict[str, NDArray[Any]] = {
        name: array.astype("<f4") for name, array in model.network.parameters.items()
    }
    for name, vocabulary in zip(VOCABULARIES, (model.source, model.target), strict=True):
        data[name] = np.frombuffer("\n".join(vocabulary.tokens).encode(), np.uint8)
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "sizes": json.dumps(asdict(model.network.sizes)),
        "lower": json.dumps(model.source.lower),
    }
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(_header(data, metadata))
            for array in data.values():
                file.write(np.ascontiguousarray(array).data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None
    finally:
        partial.unlink(missing_ok=True)


def _header(data: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> bytes:
    """Return the length and the JSON that come before the numbers."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    begin = 0
    for name, array in data.items():
        end = begin + array.nbytes
        dtype = "U8" if array.dtype == np.uint8 else "F32"
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def read_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file, whoever made it.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Model
        The network with its vocabularies.

    Raises
    ------
    ValueError
        One line that says what is wrong, if it is no model file.
    OSError
        If it can't be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "short").write_bytes(b"1234")
    ...     try:
    ...         read_model(Path(folder, "short"))
    ...     except ValueError as error:
    ...         print(str(error).replace(folder, "here"))
    here/short is no model file: 4 bytes are too few
    """
    name = os.fspath(path)
    if stat.S_ISDIR(os.stat(path).st_mode):
        raise ValueError(f"{name} is no model file: it is a folder")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{name} is no model file: it is no regular file")
    try:
        with Path(path).open("rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except _Wrong as error:
        raise ValueError(f"{name} is no model file: {error}") from None


class _Wrong(Exception):
    """What is wrong with a file."""


def _read(file: BinaryIO, size: int) -> Model:
    tensors, metadata, start = _read_header(file, size)
    sizes, lower = _configuration(metadata)
    _check_tensors(tensors, sizes)
    parameters = Parameters(_agreed(tensors, sizes))
    for name, parameter in parameters.items():
        file.seek(start + tensors[name].begin)
        _fill(file, parameter, name)
    words = [
        _vocabulary(file, start, tensors[name], count, lower and name == VOCABULARIES[0], name)
        for name, count in zip(VOCABULARIES, (sizes.source_words, sizes.target_words), strict=True)
    ]
    return Model(Network(sizes, parameters), *words)


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, _Tensor], dict[str, str], int]:
    """Return what the header says, once it agrees with itself and with the file's size."""
    if size < 8:
        raise _Wrong(f"{size} bytes are too few")
    length = int.from_bytes(file.read(8), "little")
    if length > size - 8:
        raise _Wrong(f"its header would be {length} bytes long, the file has {size}")
    if length > LONGEST_HEADER:
        raise _Wrong(f"its header is {length} bytes long; at most {LONGEST_HEADER} are allowed")
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_no_name_twice)
    except (ValueError, RecursionError):
        raise _Wrong("its header is not JSON") from None
    if not isinstance(header, dict):
        raise _Wrong("its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _Wrong("the values of __metadata__ must be strings")
    tensors = {name: _tensor(name, entry) for name, entry in header.items()}
    reached = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != reached:
            raise _Wrong(
                f"the data of {name!r:.60} begins at {tensor.begin}, the data before it ends at {reached}"
            )
        reached = tensor.end
    if reached != size - 8 - length:
        raise _Wrong(f"it has {size - 8 - length} bytes of data, its header says {reached}")
    return tensors, metadata, 8 + length


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _tensor(name: str, entry: Any) -> _Tensor:
    """Return one entry of the header, once its parts fit each other."""
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise _Wrong(f"the entry {name!r:.60} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in ("F32", "U8"):
        raise _Wrong(f"the dtype of {name!r:.60} must be F32 or U8")
    if not isinstance(shape, list) or len(shape) > 8 or not all(map(_whole, shape)):
        raise _Wrong(f"the shape of {name!r:.60} must be a list of at most 8 whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_whole, offsets)):
        raise _Wrong(f"the data_offsets of {name!r:.60} must be two whole numbers")
    need = math.prod(shape) * (4 if dtype == "F32" else 1)
    if offsets[1] - offsets[0] != need:
        raise _Wrong(
            f"{name!r:.60} of shape {tuple(shape)} needs {need:.15g} bytes, its offsets span {offsets[1] - offsets[0]}"
        )
    return _Tensor(dtype, tuple(shape), *offsets)


def _configuration(metadata: Mapping[str, str]) -> tuple[Sizes, bool]:
    """Return what __metadata__ says, if it is ours."""
    if metadata.get("format") != FORMAT:
        raise _Wrong(f"__metadata__ doesn't say format {FORMAT!r}")
    if metadata.get("version") != VERSION:
        raise _Wrong(f"its version is {metadata.get('version')!r:.20}, this program reads {VERSION!r}")
    try:
        sizes = json.loads(metadata["sizes"], object_pairs_hook=_no_name_twice)
        if not isinstance(sizes, dict) or not all(map(_whole, sizes.values())):
            raise ValueError
        return Sizes(**sizes), {"true": True, "false": False}[metadata["lower"]]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _Wrong("its configuration is incomplete or damaged") from None


def _check_tensors(tensors: Mapping[str, _Tensor], sizes: Sizes) -> None:
    """Check names, dtypes and shapes against the configuration."""
    shapes = sizes.shapes()
    if missing := sorted((shapes.keys() | set(VOCABULARIES)) - tensors.keys()):
        raise _Wrong(f"{missing[0]} is missing")
    if unknown := sorted(tensors.keys() - shapes.keys() - set(VOCABULARIES)):
        raise _Wrong(f"{unknown[0]!r:.60} is unknown")
    for name, tensor in tensors.items():
        dtype = "U8" if name in VOCABULARIES else "F32"
        if tensor.dtype != dtype:
            raise _Wrong(f"{name} must be {dtype}. It is {tensor.dtype} instead.")
        if name in shapes and tensor.shape != shapes[name]:
            raise _Wrong(
                f"{name} must have shape {shapes[name]}, as its sizes say. It has {tensor.shape} instead."
            )


def _agreed(tensors: Mapping[str, _Tensor], sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes to allocate: checked against the file's size by now."""
    return {name: tensors[name].shape for name in sizes.shapes()}


def _fill(file: BinaryIO, array: NDArray[Any], name: str) -> None:
    """Read numbers straight into their place."""
    if array.size and file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
        raise _Wrong(f"the data of {name} is cut off")
    if sys.byteorder == "big" and array.itemsize > 1:
        array.byteswap(inplace=True)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise _Wrong(f"{name} has numbers that are not finite")


def _vocabulary(
    file: BinaryIO, start: int, tensor: _Tensor, count: int, lower: bool, name: str
) -> Vocabulary:
    file.seek(start + tensor.begin)
    data = file.read(tensor.end - tensor.begin)
    if data.count(b"\n") != count - 1:
        raise _Wrong(f"{name} must have {count} words. It has {data.count(10) + 1} instead.")
    try:
        return Vocabulary(data.decode("utf-8").split("\n"), lower=lower)
    except UnicodeDecodeError:
        raise _Wrong(f"{name} is not UTF-8") from None
    except ValueError:
        raise _Wrong(f"{name} is no list of different words") from None
