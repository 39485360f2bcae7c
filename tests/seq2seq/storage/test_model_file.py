"""Model files: the format byte by byte, and untrusted files (law 11)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from regard import _files, cli
from regard import _safetensors as container
from regard._arrays import array_names
from regard.commands.array_files import read_array
from regard.seq2seq import Seq2Seq
from regard.seq2seq.alignment.links import read_gold
from regard.seq2seq.corpus.pairs import read_pairs
from regard.seq2seq.networks.families import FAMILIES, build, describe
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.sources import Text
from regard.seq2seq.sources.text.tokenizers import Words
from regard.seq2seq.sources.text.vocabulary import SPECIAL, Vocabulary
from regard.seq2seq.storage.checkpoint_file import State, read_checkpoint, write_checkpoint
from regard.seq2seq.storage.model_file import Model, read_model, write_model
from regard.seq2seq.training.checkpoint import checkpoint_path
from regard.seq2seq.training.log import Log, read_log
from regard.seq2seq.training.session import begin

SIZES = RecurrentConfig(6, 5, embedding=2, encoder=1, decoder=2, attention=3)


def small_model() -> Model:
    network = build(SIZES)
    network.parameters.flat[:] = np.arange(len(network.parameters.flat)) / 8
    source, target = Vocabulary([*SPECIAL, "é", "cat"], lower=True), Vocabulary([*SPECIAL, "chat"])
    return Model(network, Text.of(Words(source)), Words(target))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    write_model(path, small_model())
    return path.read_bytes()


def parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header, without the checksum that any change would contradict, and the data."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"].pop("checksum", None)
    return header, data[8 + length :]


def joined(header: Any, body: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_the_format_is_that_of_safetensors(good: bytes) -> None:
    (length,) = struct.unpack("<Q", good[:8])
    assert length % 8 == 0
    header, body = parts(good)
    entries = header["__metadata__"]
    assert entries.keys() == {"format", "version", "config", "source", "target"}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    assert json.loads(good[8 : 8 + length])["__metadata__"]["checksum"] == f"{zlib.crc32(text + body):08x}"
    assert (entries["format"], entries["version"]) == ("regard.seq2seq", "2")
    assert json.loads(entries["config"]) == describe(SIZES)
    assert json.loads(entries["source"]) == {"kind": "words", "normalization": "NFC", "lower": True}
    first = header["source_embedding"]
    assert first == {"dtype": "F32", "shape": [6, 2], "data_offsets": [0, 48]}
    assert struct.unpack("<12f", body[:48]) == tuple(i / 8 for i in range(12))
    begin, end = header["source.tokens"]["data_offsets"]
    assert body[begin:end] == "<pad>\n<s>\n</s>\n<unk>\né\ncat".encode()


def test_the_same_model_gives_the_same_bytes(good: bytes, tmp_path: Path) -> None:
    write_model(tmp_path / "m", small_model())
    assert (tmp_path / "m").read_bytes() == good
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_failed_write_leaves_the_old_file(
    good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left") as caught:
        write_model(path, small_model())
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_replaced(good: bytes, tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "far" / "target", tmp_path / "link"
    target.parent.mkdir()
    if there:
        target.write_bytes(b"old")
    link.symlink_to(target)
    write_model(link, small_model())
    assert link.is_symlink()
    assert target.read_bytes() == good
    assert [p.name for p in target.parent.iterdir()] == ["target"]


def test_an_error_of_a_writer_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "p.png"
    with pytest.raises(OSError, match=r"^encoder error -2$"), _files.replacing(path):
        raise OSError("encoder error -2")  # as Pillow does, without the system's number
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("linked", [True, False])
def test_only_regular_files_are_replaced(tmp_path: Path, linked: bool) -> None:
    path = pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    for write in (lambda: write_model(path, small_model()), lambda: Log(path)):
        with pytest.raises(ValueError, match="not a regular file") as caught:
            write()
        assert (
            str(caught.value) == f"{path} must be a file, or not there yet. It is not a regular file instead."
        )
    assert pipe.is_fifo()
    with pytest.raises(ValueError, match="It is a folder instead"):
        write_model(tmp_path, small_model())
    assert {p.name for p in tmp_path.iterdir()} == {"pipe", path.name}


def refused(data: bytes, path: Path) -> str:
    path.write_bytes(data)
    with pytest.raises(ValueError) as caught:
        read_model(path)
    text = str(caught.value)
    assert text.startswith(f"{path} is not a model file: ")
    assert "\n" not in text
    return text.removeprefix(f"{path} is not a model file: ")


def changed(good: bytes, name: str, **entry: Any) -> bytes:
    header, body = parts(good)
    header[name] |= entry
    return joined(header, body)


def metadata(good: bytes, **entry: Any) -> bytes:
    return changed(good, "__metadata__", **entry)


CASES = {
    "0 bytes are too few": lambda good: b"",
    "it doesn't begin like a safetensors file": lambda good: b"one\tun\ntwo\tdeux\n",
    "its header would be 1048576 bytes long, the file has 9": lambda good: struct.pack("<Q", 1 << 20) + b"x",
    "its header is 1048577 bytes long; at most 1048576 are allowed": lambda good: joined(b" " * 1048577, b""),
    "its header is not JSON": lambda good: joined(b"{", b""),
    "its header is not a JSON object": lambda good: joined([], b""),
    "the values of __metadata__ must be strings": lambda good: joined({"__metadata__": {"a": 1}}, b""),
    "the format in __metadata__ is not 'regard.seq2seq'": lambda good: metadata(good, format="pt"),
    "its version is '1', this program reads '2'": lambda good: metadata(good, version="1"),
    "its source is damaged: a vocabulary must have 1 tokens. Got 6 instead.": lambda good: metadata(
        good,
        extras='{"similar": "own-extras"}',
        similar='{"count": 1}',  # the target's 5 tokens must be source tokens then
    ),
    "its configuration is incomplete or damaged": lambda good: metadata(good, config="{"),
    "its configuration is damaged: it must be a mapping. Got [] instead.": lambda good: metadata(
        good, config="[]"
    ),
    "its configuration is damaged: family must be one of FAMILIES. Got 'x' instead.": lambda good: metadata(
        good, config='{"family": "x"}'
    ),
    "its configuration is damaged: layers must be at most 32. Got 33 instead.": (
        lambda good: metadata(good, config=json.dumps(describe(SIZES) | {"layers": 33}))
    ),
    "its configuration is damaged: cell must be one of 'gru', 'lstm'. Got 'gu' instead.": (
        lambda good: metadata(good, config=json.dumps(describe(SIZES) | {"cell": "gu"}))
    ),
    "the entry 'start_bias' must have dtype, shape and data_offsets": lambda good: changed(
        good, "start_bias", x=1
    ),
    "the dtype of 'start_bias' must be F32 or U8": lambda good: changed(good, "start_bias", dtype="I64"),
    "the shape of 'start_bias' must be a list of at most 8 integers": lambda good: changed(
        good, "start_bias", shape=[-2]
    ),
    "the data_offsets of 'start_bias' must be two integers": lambda good: changed(
        good, "start_bias", data_offsets=[0.5, 8]
    ),
    "'start_bias' of shape (3,) needs 12 bytes, its offsets span 8": lambda good: changed(
        good, "start_bias", shape=[3]
    ),
    "start_bias must have shape (2,), by its configuration. It has (2, 1) instead.": lambda good: changed(
        good, "start_bias", shape=[2, 1]
    ),
    "start_bias must be F32. It is U8 instead.": lambda good: changed(
        good, "start_bias", dtype="U8", shape=[8]
    ),
}


@in_one_test("message", CASES)
def test_invalid_models_are_rejected(message: str, good: bytes, tmp_path: Path) -> None:
    assert refused(CASES[message](good), tmp_path / "m") == message.replace(
        "FAMILIES", ", ".join(map(repr, FAMILIES))
    )


def test_data_must_be_contiguous(good: bytes, tmp_path: Path) -> None:
    header, body = parts(good)
    first, second = header["source_embedding"]["data_offsets"], header["encoder_input"]["data_offsets"]
    header["encoder_input"]["data_offsets"] = [second[0] - 4, second[1] - 4]
    message = f"the data of 'encoder_input' begins at {second[0] - 4}, the data before it ends at {first[1]}"
    assert refused(joined(header, body), tmp_path / "m") == message
    assert "bytes of data, its header has" in refused(good + b"more", tmp_path / "m")


def test_names_must_be_those_of_the_model(good: bytes, tmp_path: Path) -> None:
    header, body = parts(good)
    header["another"] = header.pop("start_bias")
    assert refused(joined(header, body), tmp_path / "m") == "start_bias is missing"
    header["start_bias"] = header["another"]
    header["another"] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    assert refused(joined(header, body), tmp_path / "m") == "'another' is unknown"
    twice = json.dumps(header)[:-1] + ', "another": 1}'
    assert refused(joined(twice.encode(), body), tmp_path / "m") == "its header is not JSON"


def test_weights_must_be_finite(good: bytes, tmp_path: Path) -> None:
    header, body = parts(good)
    bad = joined(header, struct.pack("<f", float("nan")) + body[4:])
    assert refused(bad, tmp_path / "m") == "source_embedding has numbers that are not finite"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            b"\ncat",
            b"_cat",
            "its source is damaged: a vocabulary must have 6 tokens. Got 5 instead.",
        ),
        ("é".encode(), b"\xff\xff", "its source is damaged: "),
        (b"<pad>\n<s>", b"<pad>\n<x>", "its source is damaged: "),
        (b"<unk>\nchat", b"chat\n<unk>", "its target is damaged: "),
    ],
)
def test_vocabularies_are_checked(old: bytes, new: bytes, message: str, good: bytes, tmp_path: Path) -> None:
    assert old in good
    assert refused(joined(*parts(good)).replace(old, new, 1), tmp_path / "m").startswith(message)


def test_deep_json_is_rejected(tmp_path: Path) -> None:
    assert refused(joined(b"[" * 200_000, b""), tmp_path / "m") == "its header is not JSON"


def test_a_folder_and_a_device_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        read_model(tmp_path)
    assert str(caught.value) == f"{tmp_path} is not a model file: it is a folder"
    with pytest.raises(ValueError) as caught:
        read_model(os.devnull)
    assert str(caught.value) == f"{os.devnull} is not a model file: it is not a regular file"


def test_claimed_sizes_allocate_nothing(good: bytes, tmp_path: Path) -> None:
    header, body = parts(good)
    config = describe(SIZES) | {
        "source_tokens": 10**9,
        "target_tokens": 10**9,
        "embedding": 10**4,
        "encoder": 10**6,
        "decoder": 10**6,
    }
    header["__metadata__"]["config"] = json.dumps(config | {"attention": 10**6})
    tracemalloc.start()
    refused(joined(header, body), tmp_path / "m")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def never_worse_than_an_error(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    try:
        model = read_model(path)
    except ValueError:
        refused(data, path)
    else:
        assert model.network.config.shapes() == SIZES.shapes()
        assert np.isfinite(model.network.parameters.flat).all()


LOOSE = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)


@pytest.mark.slow
@LOOSE
@given(changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes(good: bytes, tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(joined(*parts(good)))
    for index, value in changes:
        data[index % len(data)] = value
    never_worse_than_an_error(bytes(data), tmp_path / "m")


@pytest.mark.slow
@LOOSE
@given(length=st.integers(0, 10**6))
def test_cut_off_files(good: bytes, tmp_path: Path, length: int) -> None:
    refused(good[: length % len(good)], tmp_path / "m")


@pytest.mark.slow
@LOOSE
@given(
    name=st.sampled_from([*SIZES.shapes(), "source.tokens", "__metadata__"]),
    key=st.sampled_from(["dtype", "shape", "data_offsets", "config", "source"]),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    ),
)
def test_any_header(good: bytes, tmp_path: Path, name: str, key: str, value: Any) -> None:
    never_worse_than_an_error(changed(good, name, **{key: value}), tmp_path / "m")


# -------------------------------------------------------------------------------------------------- checkpoints


def a_state() -> State:
    arrays = {"parameters": np.arange(3, dtype=np.float32), "best": np.ones(3, np.float32)}
    return State(7, 0.1 + 0.2, float("inf"), 2, {"version": "0.1.0", "training learning_rate": "0.1"}, arrays)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "it", a_state())
    again = read_checkpoint(tmp_path / "it")
    assert again._replace(arrays={}) == a_state()._replace(arrays={})
    for name, array in a_state().arrays.items():
        assert again.arrays[name].tobytes() == array.tobytes()


def flips(data: bytes) -> Iterator[bytes]:
    """The file with one bit changed, in every byte."""
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        yield bytes(changed)


@pytest.mark.slow
def test_a_bit_that_changes_anywhere_in_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    path, damaged = tmp_path / "it", 0
    write_checkpoint(path, a_state())
    for data in flips(path.read_bytes()):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"it is not a checkpoint: ") as caught:
            read_checkpoint(path)
        damaged += ": it is damaged: " in str(caught.value)
    assert damaged > 100  # the others break the header


@pytest.mark.slow
def test_a_bit_that_changes_anywhere_in_a_model_is_an_error_or_changes_nothing(
    good: bytes, tmp_path: Path
) -> None:
    read = 0
    for data in flips(good):
        (tmp_path / "m").write_bytes(data)
        with contextlib.suppress(ValueError):
            model = read_model(tmp_path / "m")
            assert (model.network.parameters.flat == small_model().network.parameters.flat).all()
            assert model.network.config == SIZES
            assert (model.source, model.target.tokens) == (small_model().source, small_model().target.tokens)
            read += 1
    assert read <= len("checksum")  # under another name it is not known, and nothing else has changed


def test_an_empty_path_is_an_error(good: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.safetensors").write_bytes(good)  # which the current folder would stand for
    for call in (
        lambda: Seq2Seq.load(""),
        lambda: write_model("", small_model()),
        lambda: write_checkpoint("", a_state()),
        lambda: checkpoint_path(""),
        lambda: Log(""),
    ):
        with pytest.raises(ValueError, match=r"^the path of a file must not be empty$"):
            call()


def test_a_model_without_a_checksum_is_read(good: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(joined(*parts(good)))
    assert read_model(tmp_path / "m").network.config == SIZES


def test_a_checkpoint_without_a_checksum_is_damaged(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "it", a_state())
    (tmp_path / "it").write_bytes(joined(*parts((tmp_path / "it").read_bytes())))
    with pytest.raises(ValueError, match="it is damaged"):
        read_checkpoint(tmp_path / "it")


def test_invalid_checkpoints_are_rejected(good: bytes, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(good)
    with pytest.raises(
        ValueError, match=r"m is not a checkpoint: the format in __metadata__ is not 'regard.checkpoint'$"
    ):
        read_checkpoint(tmp_path / "m")
    write_checkpoint(tmp_path / "it", a_state())
    for state in ("{", "[]", '{"step": 1}'):
        with container.opened(tmp_path / "it", "checkpoint") as file:
            arrays, texts = {name: file.array(name) for name in file.tensors}, file.metadata
        container.write(tmp_path / "it", arrays, {**texts, "state": state})
        with pytest.raises(ValueError, match=r"it is not a checkpoint: its .* is incomplete or damaged$"):
            read_checkpoint(tmp_path / "it")
    for part in ("a line\nmore", 1):  # it may be shown
        write_checkpoint(tmp_path / "it", a_state()._replace(fingerprint={"version": part}))  # type: ignore[dict-item]
        with pytest.raises(ValueError, match=r"it is not a checkpoint: its fingerprint is damaged$"):
            read_checkpoint(tmp_path / "it")


NUMBERS = [
    ({"step": -1}, "step must be from 0 to 1e+12. It is -1 instead."),
    ({"step": 10**13}, "step must be from 0 to 1e+12. It is 10000000000000 instead."),
    ({"seconds": -0.5}, "seconds must be from 0 to 1e+09. It is -0.5 instead."),
    ({"seconds": float("nan")}, "seconds must be from 0 to 1e+09. It is nan instead."),
    ({"seconds": float("inf")}, "seconds must be from 0 to 1e+09. It is inf instead."),
    ({"seconds": 1e300}, "seconds must be from 0 to 1e+09. It is 1e+300 instead."),
    ({"best_loss": float("nan")}, "best_loss must be from -0.001 to inf. It is nan instead."),
    ({"best_loss": -float("inf")}, "best_loss must be from -0.001 to inf. It is -inf instead."),
    ({"best_loss": -2.0}, "best_loss must be from -0.001 to inf. It is -2.0 instead."),
    ({"waited": -1}, "waited must be from 0 to 7. It is -1 instead."),
    ({"waited": 8}, "waited must be from 0 to 7. It is 8 instead."),
]


@pytest.mark.parametrize(("change", "message"), NUMBERS)
def test_a_checkpoint_with_impossible_numbers_is_rejected(
    change: dict[str, float], message: str, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path / "it", a_state()._replace(**change))  # type: ignore[arg-type]
    with pytest.raises(ValueError) as caught:
        read_checkpoint(tmp_path / "it")
    assert str(caught.value) == f"{tmp_path / 'it'} is not a checkpoint: its {message}"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_the_arrays_of_a_checkpoint_are_finite_floats(number: float, tmp_path: Path) -> None:
    for array, message in (
        (np.array([1, number], np.float32), "best has numbers that are not finite"),
        (np.ones(2, np.uint8), "best must be F32. It is U8 instead."),
    ):
        write_checkpoint(tmp_path / "it", a_state()._replace(arrays={"best": array}))
        with pytest.raises(ValueError) as caught:
            read_checkpoint(tmp_path / "it")
        assert str(caught.value) == f"{tmp_path / 'it'} is not a checkpoint: {message}"


def test_states_beyond_the_end_or_with_negative_squares_are_rejected() -> None:
    training = begin(Seq2Seq(epochs=1), [("a", "b")], [("a", "b")])
    state = training.state()
    with pytest.raises(ValueError, match=r"^the checkpoint is at step 9, the training has 1$"):
        training.resume_from(state._replace(step=9))
    arrays = state.arrays | {"adam_square": state.arrays["adam_square"] - 1}
    with pytest.raises(ValueError, match=r"^the checkpoint's adam_square must not be negative"):
        training.resume_from(state._replace(arrays=arrays))


# ----------------------------------------------------------------------------------------------------- partial files


def partial_of(path: Path) -> Path:
    (partial,) = path.parent.glob(f".{path.name}.*.partial")
    return partial


def test_partial_files_have_random_names_and_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, other = tmp_path / "it", tmp_path / "other"
    other.write_bytes(b"mine")
    random = iter([bytes(6), bytes(6), b"\x01" * 6])
    monkeypatch.setattr(os, "urandom", lambda _: next(random))
    (tmp_path / f".it.{bytes(6).hex()}.partial").symlink_to(
        other
    )  # an attacker has guessed the first two names
    with _files.replacing(path) as file:
        file.write(b"new")
        assert (tmp_path / f".it.{'01' * 6}.partial").exists()
    assert (path.read_bytes(), other.read_bytes()) == (b"new", b"mine")
    monkeypatch.undo()
    names = set()
    for _ in range(20):
        (tmp_path / f".it.{bytes(6).hex()}.partial").unlink(missing_ok=True)
        with _files.replacing(path):
            names.add(partial_of(path).name)
    assert len(names) == 20


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_a_replaced_file_keeps_its_mode_and_a_new_one_has_that_of_the_umask(
    mode: int, tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"old")
    old.chmod(mode)
    before = os.umask(0o027)
    try:
        for path in (old, new):
            with _files.replacing(path) as file:
                file.write(b"new")
    finally:
        os.umask(before)
    assert (old.stat().st_mode & 0o7777, new.stat().st_mode & 0o7777) == (mode, 0o640)


def test_only_partial_files_of_the_path_are_removed(tmp_path: Path) -> None:
    left = tmp_path / f".it.{'0a' * 6}.partial"
    mine = [
        f".it.{'0a' * 6}.partial.txt",
        f".it.{'0g' * 6}.partial",
        ".it.12a.partial",
        f".it.x.{'0a' * 6}.partial",
    ]
    for name in (left.name, *mine):
        (tmp_path / name).write_bytes(b"")
    _files.remove_partial(tmp_path / "it")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(mine)
    _files.remove_partial(tmp_path / "no-such-folder" / "it")


@pytest.mark.parametrize("second", ["missing/second", "folder"])
def test_of_files_that_belong_together_none_is_replaced_if_one_cannot_be(second: str, tmp_path: Path) -> None:
    first, folder = tmp_path / "first", tmp_path / "folder"
    first.write_bytes(b"old")
    folder.mkdir()
    with pytest.raises((OSError, ValueError)) as caught:
        _files.replace_together({first: b"new", tmp_path / second: b"new"})
    assert str(tmp_path / second) in str(caught.value)
    assert first.read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == {"first", "folder"}
    _files.replace_together({first: b"new", folder / "second": b"other"})
    assert (first.read_bytes(), (folder / "second").read_bytes()) == (b"new", b"other")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_process_that_is_killed_while_it_writes_leaves_all_older_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"old")
    code = "import os, signal; from pathlib import Path; from regard import _files\n"
    code += "sync, calls = os.fsync, iter([0, 1])\n"  # the second file is written, too, when the process ends
    code += "os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL) if next(calls) else sync(file)\n"
    code += "_files.replace_together({Path('one'): b'new', Path('two'): b'new'})"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [(tmp_path / name).read_bytes() for name in ("one", "two")] == [b"old", b"old"]


def test_an_error_of_a_draft_has_the_name_of_its_folder() -> None:
    """Without a name, the command line would take standard output for what is full."""
    with pytest.raises(OSError) as caught, _files.scratch() as folder:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == os.fspath(folder)
    assert not folder.exists()
    with pytest.raises(FileNotFoundError) as missing, _files.scratch() as folder:
        (folder / "none").read_bytes()
    assert missing.value.filename == os.fspath(folder / "none")


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links can't be refused on this system")
def test_a_lock_is_not_a_link(tmp_path: Path) -> None:
    (tmp_path / ".it.lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError) as caught, _files.locked(tmp_path / "it"):
        pass
    assert caught.value.filename == str(tmp_path / ".it.lock")
    assert not (tmp_path / "other").exists()


# ------------------------------------------------------------------------------------------------- loops and no files


LOOPED = {
    "train": ["loop", "--out", "m"],
    "train-two": ["loop", "pairs", "--out", "m"],
    "train-valid": ["pairs", "--valid", "loop", "--out", "m"],
    "train-links": ["pairs", "--links", "loop", "--out", "m"],
    "train-out": ["pairs", "--out", "loop"],
    "train-out-file": ["pairs", "--out", "loop.safetensors"],
    "translate": ["loop", "pairs"],
    "align": ["loop", "pairs"],
    "align-ensemble": ["loop", "pairs", "--ensemble", "loop/model"],
    "evaluate": ["loop", "pairs"],
    "evaluate-lines": ["--hypotheses", "loop", "--references", "pairs"],
    "evaluate-json": ["--hypotheses", "pairs", "--references", "pairs", "--json", "loop"],
    "evaluate-compare": ["loop", "pairs", "--compare", "loop/other"],
    "curve": ["loop"],
    "curve-two": ["loop", "loop/log.jsonl"],
    "explain": ["loop"],
    "explain-npz": ["loop.npz"],
}


@pytest.mark.parametrize("name", LOOPED)
def test_a_loop_of_links_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for link in ("loop", "loop.npz", "loop.safetensors"):
        Path(link).symlink_to(link)
    Path("pairs").write_text("a\tb\n" * 9)
    assert cli.main([name.split("-")[0], *LOOPED[name]]) == 2
    stdout = capsys.readouterr().err
    assert stdout.count("\n") == 1
    assert "loop" in stdout


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
@pytest.mark.parametrize("read", [read_pairs, read_gold, read_log, read_array, array_names, read_model])
def test_only_regular_files_are_read(read: Callable[[Path], object], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe" if kind == "pipe" else Path(kind)
    if kind == "pipe":
        os.mkfifo(path)  # it has no writer: opening it must not wait
    with pytest.raises(ValueError, match=rf"^{path} .*is not a regular file"):
        read(path)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="open files have no names on this system")
def test_a_pipe_that_is_open_already_is_read_by_its_name() -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, b"a\tb\n")
        os.close(writer)
        assert read_pairs(f"/dev/fd/{reader}") == [("a", "b")]
    finally:
        os.close(reader)


# -------------------------------------------------------------------------------------- paths locked by one process


def test_a_path_is_locked_by_one_process(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with _files.locked(path) as first:
        with _files.locked(path) as second, _files.locked(tmp_path / "other") as elsewhere:
            assert (first, second, elsewhere) == (True, False, True)
        with _files.locked(path) as third:
            assert not third  # who didn't have it can't give it back
    with _files.locked(path) as again:
        assert again
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_locked_as_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "model")
    with _files.locked(tmp_path / "model"), _files.locked(tmp_path / "link") as free:
        assert not free


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_lock_is_released_when_its_process_is_killed(tmp_path: Path) -> None:
    code = "from regard import _files\nwith _files.locked('model') as free: print(free, flush=True); input()"
    command = [sys.executable, "-c", code]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "True\n"
        with _files.locked(tmp_path / "model") as free:
            assert not free
        process.kill()
    with _files.locked(tmp_path / "model") as free:
        assert free
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["\x1b[2J", "\u202e", "x" * 100_000])
def test_text_of_a_model_file_cannot_control_the_terminal(key: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    settings = {"kind": "words", "normalization": "NFC", "lower": False, key: 1}
    config = {"family": "recurrent", "sizes": {}, key: 1}
    valid = {
        "format": "regard.seq2seq",
        "version": "2",
        "config": json.dumps(config),
        "source": json.dumps(settings),
    }
    for metadata in (
        valid,
        {**valid, "config": json.dumps({key: 1})},
        {**valid, "config": json.dumps({"family": key})},
    ):
        container.write(path, {key: np.zeros(1, np.float32)}, metadata)
        with pytest.raises(ValueError) as caught:
            read_model(path)
        message = str(caught.value)
        assert len(message) < 700 + len(str(path))
        assert "\x1b" not in message
        assert "\u202e" not in message
