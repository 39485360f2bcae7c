"""The verb `train` with the task "pronunciation": dictionaries, their split, options that replace those of the task."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from errors import refused

import regard_lexicon as pronunciation
from regard.cli import main
from regard.commands.tasks.data import Data
from regard.commands.train.arguments import (
    add_arguments,
    add_chosen,
    check_options,
    make_models,
    make_task,
)
from regard.seq2seq import Seq2Seq
from regard_lexicon import Lexicon, Variant
from regard_lexicon.commands.task import PronunciationTask
from regard_lexicon.recipes import preset

SOUNDS = {"a": "AH0", "b": "B", "c": "K", "d": "D", "e": "EH1"}
SHORT = [
    "--steps",
    "2",
    "--network",
    "embedding=8",
    "encoder=8",
    "decoder=8",
    "attention=8",
    "--extras",
    "graphones=2",
]


def words(count: int) -> Lexicon:
    """Words of four letters, of which every third has a second pronunciation."""
    entries = []
    for number in range(count):
        word = "".join("abcde"[number // 5**place % 5] for place in range(4))
        phones = tuple(SOUNDS[letter] for letter in word)
        entries += [(word, Variant(phones))] + [(word, Variant((*phones, "Z")))] * (number % 3 == 0)
    return Lexicon(entries)


def written(path: Path, lexicon: Lexicon) -> Path:
    pronunciation.write(lexicon, path, "cmudict")
    return path


def arguments(*texts: object) -> argparse.Namespace:
    parser, chosen = argparse.ArgumentParser(), ["--task", "pronunciation"]
    add_arguments(parser)
    add_chosen(parser, chosen)
    return parser.parse_args([*map(str, texts), *chosen])


def made(*texts: object) -> tuple[Seq2Seq, Data]:
    """The model and the pairs of a command."""
    args = arguments(*texts)
    task = make_task(args)
    check_options(args, task)
    (model,) = make_models(args, task)
    return model, task.read(model)


def as_entries(data: Any) -> list[tuple[str, tuple[str, ...]]]:
    return [("".join(source.content), tuple(target.content)) for source, target in data]


@pytest.mark.parametrize("count", [60, 400])
def test_a_word_is_in_one_part_with_all_its_variants(tmp_path: Path, count: int) -> None:
    lexicon = words(count)
    _, data = made(written(tmp_path / "words.dict", lexicon))
    parts = [as_entries(part) for part in (data.train, data.valid, data.test)]
    for part in parts:
        assert part
        for word in {word for word, _ in part}:
            assert [phones for other, phones in part if other == word] == [v.phones for v in lexicon[word]]
    names = [word for part in parts for word in {word for word, _ in part}]
    assert sorted(names) == sorted(lexicon)  # each once


def test_given_files_are_the_parts(tmp_path: Path) -> None:
    parts = [Lexicon([*words(90).entries()][start::3]) for start in range(3)]
    train, valid, test = (written(tmp_path / f"{i}.dict", part) for i, part in enumerate(parts))
    _, data = made(train, "--valid", valid, "--test", test)
    for own, part in zip((data.train, data.valid, data.test), parts, strict=True):
        assert as_entries(own) == [(word, variant.phones) for word, variant in part.entries()]


def test_phones_are_those_that_the_options_ask_for(tmp_path: Path) -> None:
    path, table, symbols = (tmp_path / name for name in ("words.dict", "map.tsv", "tokens.txt"))
    path.write_text("ab AH0 B\nba B AH1\nc K\n", "utf-8")
    table.write_text("AH\ta\nB\tb\n", "utf-8")
    symbols.write_text("a 1\nb 2\n0 3\n1 4\n", "utf-8")
    _, data = made(path, "--stress", "separate", "--phone-map", table, "--symbols", symbols)
    assert as_entries(data.train) == [("ab", ("a", "0", "b")), ("ba", ("b", "a", "1"))]  # K is no symbol


def test_a_line_that_cannot_be_read_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "words.dict"
    path.write_text("ab AH0 B\nbad\nba B AH0\n", "utf-8")
    with pytest.raises(ValueError, match=r"words\.dict, line 2: "):
        made(path)
    _, data = made(path, "--skip-bad")
    assert len(data.train) == 2
    assert f"skipped: {path}, line 2: " in capsys.readouterr().err


def test_the_command_has_the_preset_of_python_with_the_options_that_are_given(tmp_path: Path) -> None:
    """A label smoothing of 0.1 is the usual default, and not that of the preset."""
    lexicon, path = words(30), tmp_path / "words.dict"
    command = "--minutes 1 --label-smoothing 0.1 --seed 3 --network encoder=8 --extras graphones=3 --source subwords"
    model = made(written(path, lexicon), *command.split(), "--max-tokens", "9")[0]
    given = {"network": {"encoder": 8}, "extras": {"graphones": 3}, "source": "subwords", "max_tokens": 9}
    training = {"minutes": 1, "label_smoothing": 0.1, "seed": 3}
    assert vars(model) == vars(Seq2Seq(**preset(lexicon, {**given, "training": training})))


def test_the_time_that_the_preset_has_chosen_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.commands.train.run.train_all", lambda *_: 0)
    command = ["train", str(written(tmp_path / "words.dict", words(30))), "--task", "pronunciation"]
    assert main(command) == 0
    said = capsys.readouterr().err
    assert "training takes 5,000 steps" in said
    for end in ("--minutes", "--steps", "--epochs"):
        assert main([*command, end, "3"]) == 0
        assert "training takes" not in capsys.readouterr().err


def test_compared_models_are_the_same_apart_from_attention(tmp_path: Path) -> None:
    args = arguments(written(tmp_path / "words.dict", words(30)), "--compare")
    with_attention, without = make_models(args, make_task(args))
    sizes = {name: size for name, size in with_attention.network_options.items() if name != "attention"}
    assert without.network_options == {**sizes, "score": "none"}
    assert (without.extras, without.training) == ({}, with_attention.training)


@pytest.mark.parametrize(
    "given", ["--stress drop", "--symbols tokens.txt", "--phone-map map.tsv", "--skip-bad"]
)
def test_options_of_dictionaries_need_the_task(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["train", "words.dict", *given.split()], capsys)
    option = given.split()[0]
    assert message == f"unrecognized arguments: {option}; {option} needs --task pronunciation"


@pytest.mark.parametrize(
    "given", ["--columns en fr", "--skip-empty", "--links x.txt", "--source images", "--source tokens"]
)
def test_options_of_pairs_are_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(["train", "words.dict", "--task", "pronunciation", *given.split()], capsys)
    assert "reads pronunciation dictionaries" in message


def test_the_extra_that_makes_fewer_errors_is_named_once(tmp_path: Path) -> None:
    path = written(tmp_path / "words.dict", words(30))
    for given, named in (([], 1), (["--extras", "graphones=3"], 0), (["--source", "subwords"], 0)):
        args = arguments(path, *given)
        task = make_task(args)
        (model,) = make_models(args, task)
        lines = list(task.notices(model, task.read(model)))
        assert [line.count("--extras graphones=8") for line in lines] == [1] * named


def test_an_epoch_is_measured_by_words_and_phones() -> None:
    sources, answers = ["read", "cat", "read"], ["R EH D", "K AE T", "R EH D"]
    model = Seq2Seq(source="characters", target="tokens")
    rows = [("read", "R IY D"), ("cat", "K AE D"), ("one two three four", "W AH N T UW TH R IY F AO R")]
    pairs = [(model.reader.load(word), model.target_reader.load(phones)) for word, phones in rows]
    measures = PronunciationTask(argparse.Namespace()).measures(model, Data(pairs, pairs, pairs))
    measured = measures.summarize(sources, answers, ["R IY D", "K AE D", "R EH D"])
    assert str(measured) == "WER 50.0 %, PER 16.7 %"
    assert measured.bleu is None
