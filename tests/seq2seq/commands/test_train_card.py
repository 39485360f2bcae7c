"""The card of a model of pronunciation: what `train` measures and writes, and other verbs print or carry on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from errors import refused
from test_train_dictionary import SHORT, words, written

from regard import pronunciation
from regard._safetensors import opened, write
from regard.cli import main
from regard.pronunciation import Pronouncer
from regard.seq2seq import Seq2Seq
from regard.seq2seq.commands.train.card import rates

Phones = tuple[str, ...]


def distance(one: Sequence[str], two: Sequence[str]) -> int:
    """The edits between two sequences, by the definition."""
    if not one or not two:
        return len(one) + len(two)
    changed = distance(one[1:], two[1:]) + (one[0] != two[0])
    return min(changed, distance(one[1:], two) + 1, distance(one, two[1:]) + 1)


def counted(answers: Sequence[Phones], right: Sequence[Sequence[Phones]]) -> dict[str, float]:
    """Error rates by a plain count: the nearest variant counts, and the longest of several as near."""
    nearest = [
        min((distance(answer, one), -len(one)) for one in variants)
        for answer, variants in zip(answers, right, strict=True)
    ]
    return {
        "wer": sum(edits > 0 for edits, _ in nearest) / len(nearest),
        "per": sum(edits for edits, _ in nearest) / -sum(length for _, length in nearest),
    }


def plain(phones: Phones) -> Phones:
    return tuple(phone.rstrip("012") for phone in phones)


ANSWERS = [("K", "AE1", "T"), ("R", "EH1", "D"), ("B",), ("AH0", "B", "IY2"), ()]
RIGHT: list[list[Phones]] = [
    [("K", "AE1", "T")],
    [("R", "IY1", "D"), ("R", "EH1", "D")],
    [("B", "IY1"), ("D", "AH0", "B")],
    [("AH1", "B", "IY0"), ("AH0", "B")],
    [("AH0",), ("Z", "Z")],
]


def test_rates_are_those_of_a_plain_count() -> None:
    measured = rates(ANSWERS, RIGHT)
    first = [variants[:1] for variants in RIGHT]
    assert measured["any_variant"] == pytest.approx(counted(ANSWERS, RIGHT))
    assert measured["first_variant"] == pytest.approx(counted(ANSWERS, first))
    answers, right = [*map(plain, ANSWERS)], [[*map(plain, variants)] for variants in RIGHT]
    assert measured["without_stress"]["any_variant"] == pytest.approx(counted(answers, right))
    assert measured["without_stress"]["first_variant"] == pytest.approx(
        counted(answers, [r[:1] for r in right])
    )
    assert rates(ANSWERS[:2], RIGHT[:2])["any_variant"]["wer"] == 0
    assert rates(ANSWERS[:2], RIGHT[:2])["first_variant"]["wer"] == 0.5


def test_phones_without_stress_have_no_second_rates() -> None:
    assert rates([("a",)], [[("a",), ("b",)]]).keys() == {"any_variant", "first_variant"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dictionary, and the model of its training."""
    path = tmp_path_factory.mktemp("card")
    written(path / "words.dict", words(60))
    command = ["train", str(path / "words.dict"), "--preset", "pronunciation", "--out", str(path / "run")]
    assert main([*command, "--licence", "BSD 2", *SHORT]) == 0
    return path


@pytest.mark.slow
def test_train_writes_what_it_has_measured(folder: Path) -> None:
    model, lexicon = Seq2Seq.load(folder / "run"), pronunciation.read(folder / "words.dict")
    card = model.card
    data = (folder / "words.dict").read_bytes()
    assert card["files"] == [{"name": "words.dict", "sha256": hashlib.sha256(data).hexdigest()}]
    assert (card["licence"], card["words"], card["entries"]) == ("BSD 2", 60, 80)
    assert card["split"]["train"] + card["split"]["valid"] + card["split"]["test"] == 60
    assert sorted(card["symbols"]) == lexicon.phones()
    assert card["rules"]["stress"] == "keep"
    held_out = card["held_out"]
    assert (held_out["words"], held_out["learned"]) == (card["split"]["test"], 0)


@pytest.mark.slow
def test_epochs_are_measured_as_the_words_of_the_end_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two words, one is answered by its second pronunciation: the rates of both lines are the same."""
    path = written(tmp_path / "words.dict", words(60))
    test = tmp_path / "test.dict"
    command = ["train", str(path), "--preset", "pronunciation", "--out", str(tmp_path / "run")]
    test.write_text("abab AH0 B AH0 B Z\nabab(2) AH0 B\nbbb B B B B\n", "utf-8")
    assert main([*command, "--valid", str(test), "--test", str(test), *SHORT]) == 0
    stdout, stderr = capsys.readouterr()
    epochs = [line for line in stderr.splitlines() if line.startswith("epoch ")]
    assert epochs
    assert all(", WER " in line and "(greedy, 2 sources)" in line for line in epochs)
    assert "exact" not in stdout + stderr


@pytest.mark.slow
def test_the_rates_of_the_card_are_those_of_the_held_out_words(tmp_path: Path) -> None:
    """Of a test that is given, the words are known here: the saved model pronounces them again."""
    train, test = written(tmp_path / "train.dict", words(60)), tmp_path / "test.dict"
    test.write_text("eeee EH1 EH1\neeee(2) EH1 EH1 EH1 EH1\nedde D D\nbeee B EH0\n", "utf-8")
    command = ["train", str(train), "--preset", "pronunciation", "--test", str(test), "--out", str(tmp_path)]
    assert main([*command, *SHORT]) == 0
    lexicon, pronounce = pronunciation.read(test), Pronouncer.load(tmp_path)
    answers = [pronounce(word).phones for word in lexicon]
    right = [[variant.phones for variant in lexicon[word]] for word in lexicon]
    held_out = Seq2Seq.load(tmp_path).card["held_out"]
    assert held_out["words"] == 3
    assert held_out["any_variant"] == pytest.approx(counted(answers, right))
    assert held_out["first_variant"] == pytest.approx(counted(answers, [one[:1] for one in right]))
    assert held_out["without_stress"]["any_variant"] == pytest.approx(
        counted([*map(plain, answers)], [[*map(plain, one)] for one in right])
    )


@pytest.mark.slow
def test_the_last_line_of_training_has_error_rates_of_words_and_phones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "words.dict", words(60))
    assert (
        main(["train", str(path), "--preset", "pronunciation", "--out", str(tmp_path / "run"), *SHORT]) == 0
    )
    measured = Seq2Seq.load(tmp_path / "run").card["held_out"]
    line = next(line for line in capsys.readouterr().out.splitlines() if "held-out" in line)
    right = measured["any_variant"]
    assert line.startswith(f"WER {100 * right['wer']:.1f} %, PER {100 * right['per']:.1f} %; ")
    assert f" on {measured['words']} held-out words" in line
    assert "also chose the model" not in line


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
    model.card = CARD
    model.save(tmp_path / "with.safetensors")
    loaded = Seq2Seq.load(tmp_path / "with.safetensors")
    assert loaded.card == CARD
    assert loaded.translate(["ab"])[0].text == model.translate(["ab"])[0].text


@pytest.mark.parametrize("damaged", ["[]", "3", "{", "[" * 100_000])
def test_a_damaged_card_is_an_error(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "model.safetensors"
    small().save(path)
    with opened(path, "model file") as file:
        metadata: Mapping[str, str] = file.metadata
        arrays: dict[str, Any] = {name: file.array(name) for name in file.tensors}
    write(path, arrays, {**metadata, "card": damaged})
    with pytest.raises(ValueError, match=r"damaged"):
        Seq2Seq.load(path)


def test_pronounce_prints_the_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small()
    model.card = CARD
    model.save(tmp_path / "model.safetensors")
    assert main(["pronounce", "--card", str(tmp_path)]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["licence", "Üx"],
        ["symbols", "a ˈ"],
        ["held_out.any_variant.wer", "25.00 %"],
        ["files.1.name", "x"],
    ]


def test_a_card_of_deep_objects_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = small()
    model.card = {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}}, "b": [[[1]]]}
    model.save(tmp_path / "model.safetensors")
    assert main(["pronounce", "--card", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == ["a.a.a.a.a.a.a", "...", "b", "..."]


def test_a_model_without_a_card_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small().save(tmp_path / "model.safetensors")
    assert "has no card" in refused(["pronounce", "--card", str(tmp_path)], capsys)


@pytest.mark.slow
def test_export_carries_the_card_on(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="export compares with it")
    pytest.importorskip("onnx", reason="export writes with it")
    model = small()
    model.card = CARD
    model.save(tmp_path / "model.safetensors")
    assert main(["export", str(tmp_path), "--onnx", str(tmp_path / "app")]) == 0
    assert json.loads((tmp_path / "app" / "model.json").read_text("utf-8"))["card"] == CARD
