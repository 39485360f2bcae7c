"""What the file of a model says about it: its card, the limit of repetition, and digests of held-out answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard._safetensors import opened, write
from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.evaluation.held_out import as_held_out


def small() -> Seq2Seq:
    network = {"embedding": 4, "encoder": 4, "decoder": 4, "attention": 4}
    return Seq2Seq(source="characters", target="tokens", network=network, epochs=1).fit(
        ["ab", "ba"], ["A B", "B A"]
    )


CARD = {
    "licence": "Üx",
    "symbols": ["a", "ˈ"],
    "held_out": {"any_variant": {"wer": 0.25}},
    "files": [{"name": "x"}],
}


def test_a_card_comes_back_from_a_file(tmp_path: Path) -> None:
    model = small()
    assert model.card == {}
    model.save(tmp_path / "without.safetensors")  # as files of earlier releases
    with opened(tmp_path / "without.safetensors", "model file") as file:
        assert "card" not in file.metadata
    assert Seq2Seq.load(tmp_path / "without.safetensors").card == {}
    model.card, model.repetitions = CARD, 2
    model.save(tmp_path / "with.safetensors")
    loaded = Seq2Seq.load(tmp_path / "with.safetensors")
    assert (loaded.card, loaded.repetitions) == (CARD, 2)
    assert loaded.translate(["ab"])[0].text == model.translate(["ab"])[0].text


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        *(("card", text) for text in ("[]", "3", "{", "[" * 100_000)),
        *(("repetitions", text) for text in ("0", "true", "1.5", "[3]", "{")),
    ],
)
def test_what_is_known_about_a_model_may_be_damaged(tmp_path: Path, name: str, damaged: str) -> None:
    path = tmp_path / "model.safetensors"
    small().save(path)
    with opened(path, "model file") as file:
        metadata: Mapping[str, str] = file.metadata
        arrays: dict[str, Any] = {name: file.array(name) for name in file.tensors}
    write(path, arrays, {**metadata, name: damaged})
    with pytest.raises(ValueError, match=rf"{name}|damaged"):
        Seq2Seq.load(path)


@pytest.mark.slow
def test_export_carries_the_card_on(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="export compares with it")
    pytest.importorskip("onnx", reason="export writes with it")
    model = small()
    model.card = CARD
    model.save(tmp_path / "model.safetensors")
    assert main(["export", str(tmp_path), "--onnx", str(tmp_path / "app")]) == 0
    assert json.loads((tmp_path / "app" / "model.json").read_text("utf-8"))["card"] == CARD


@pytest.mark.parametrize(
    "damaged", [b"3", b"{}", b"{", b'{"a": 3}', b'{"a": ["b"]}', b"[" * 100_000, b"\xff"]
)
def test_damaged_held_out_words_are_an_error(damaged: bytes, tmp_path: Path) -> None:
    model = small()
    model.held_out = as_held_out({"ab": ["a"]})
    model.save(path := tmp_path / "model.safetensors")
    assert Seq2Seq.load(path).held_out == model.held_out
    with opened(path, "model file") as file:
        metadata: Mapping[str, str] = file.metadata
        arrays: dict[str, Any] = {name: file.array(name) for name in file.tensors}
    write(path, {**arrays, "held_out.answers": np.frombuffer(damaged, np.uint8)}, metadata)
    with pytest.raises(ValueError, match=r"held_out\.answers"):
        Seq2Seq.load(path)
