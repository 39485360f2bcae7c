"""The verb `caption`, and models of pictures and vectors in `evaluate`, `translate` and `align`."""

from __future__ import annotations

import argparse
import base64
import io
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from drawn import captioner, draw, reader_of_labels, text_model
from errors import refused

from regard.cli import main
from regard.commands import caption, drawing, translate
from regard.seq2seq import Seq2Seq
from regard.seq2seq.decoding.calibration import Calibration
from regard.seq2seq.decoding.hypothesis import Scoring
from regard.seq2seq.sources import Images, images
from regard.seq2seq.sources.text.vocabulary import END


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, arrays, and a model of each type; no test changes it."""
    directory = tmp_path_factory.mktemp("models")
    captioner(directory)
    reader_of_labels(directory)
    text_model(directory)
    return directory


@pytest.fixture(autouse=True)
def _inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


PICTURES = [f"pictures/{number}.png" for number in range(3)]
CAPTIONER, READER, TEXT = "captioner.safetensors", "reader.safetensors", "text.safetensors"


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def typed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(data))))


# ------------------------------------------------------------------------------------------------- caption


@pytest.mark.parametrize("sign", ["\t", "\n", "\r", "\x0b", "\x1e", "\x85", "\u2028"])
def test_a_name_does_not_break_the_line(
    sign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"a{sign}b.png").write_bytes(Path(PICTURES[0]).read_bytes())
    model = str(Path(CAPTIONER).resolve())
    monkeypatch.chdir(tmp_path)
    (line,) = printed(["caption", model, f"a{sign}b.png"], capsys)
    assert line.split("\t")[0] == "a b.png"


def test_a_terminal_gets_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a\x1b[2Jb.png").write_bytes(Path(PICTURES[0]).read_bytes())
    model = str(Path(CAPTIONER).resolve())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    (line,) = printed(["caption", model, "a\x1b[2Jb.png"], capsys)
    assert line.split("\t")[0] == "a·[2Jb.png"


def test_windows_line_ends_of_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"".join(f"{name}\r\n".encode() for name in PICTURES))
    assert [line.split("\t")[0] for line in printed(["caption", CAPTIONER], capsys)] == PICTURES


def test_json_has_the_most_attended_cell_of_each_token(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "captions.jsonl"
    printed(["caption", CAPTIONER, *PICTURES, "--json", str(file)], capsys)
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for record, path, translation in zip(
        records, PICTURES, Seq2Seq.load(CAPTIONER).translate(PICTURES), strict=True
    ):
        assert (record["path"], record["caption"], record["tokens"]) == (
            path,
            translation.text,
            [*translation.tokens],
        )
        assert translation.grid is not None
        assert translation.alignment is not None
        weights = translation.alignment.reshape(-1, *translation.grid)
        assert record["grid"] == [*translation.grid]
        assert [
            each[row, column] for each, (row, column) in zip(weights, record["cells"], strict=True)
        ] == weights.max(axis=(1, 2)).tolist()
    printed(["caption", READER, "0.npy", "--json", str(file)], capsys)
    (record,) = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(record["vectors"]) == len(record["tokens"])
    assert "grid" not in record
    before = Path(PICTURES[0]).read_bytes()
    assert "would be overwritten" in refused(
        ["caption", CAPTIONER, PICTURES[0], "--json", PICTURES[0]], capsys
    )
    assert Path(PICTURES[0]).read_bytes() == before


def test_n_best_captions_with_their_scores(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(["caption", CAPTIONER, *PICTURES[:2], "--n-best", "3"], capsys)
    rows = [line.split("\t") for line in lines]
    expected = Seq2Seq.load(CAPTIONER).candidates(PICTURES[:2], n_best=3)
    assert 2 <= max(map(len, expected)) <= 3  # texts differ, and there are few
    assert [row[0] for row in rows] == [PICTURES[0]] * len(expected[0]) + [PICTURES[1]] * len(expected[1])
    assert [row[1:] for row in rows] == [
        [f"{one.score:.4f}", one.text or "(no caption)"] for each in expected for one in each
    ]
    scores = [float(row[1]) for row in rows[: len(expected[0])]]
    assert scores == sorted(scores, reverse=True)
    message = refused(["caption", CAPTIONER, PICTURES[0], "--n-best", "3", "--beam", "2"], capsys)
    assert message == "--n-best must be at most --beam = 2. Got 3 instead."


def options_of(verb: str) -> set[str]:
    parser = argparse.ArgumentParser()
    {"caption": caption, "translate": translate}[verb].add_arguments(parser)
    return {name for action in parser._actions for name in action.option_strings}


def test_a_caption_has_the_options_of_a_translation_that_are_not_about_text() -> None:
    of_tokens = {"--coverage-penalty", "--unknown-words", "--unknown", "--alignment", "--by", "--heads"}
    assert options_of("translate") - options_of("caption") == {*of_tokens, "--png"}  # a folder of --show


SEARCHES: dict[str, dict[str, object]] = {
    "--repetitions 1": {"repetitions": 1},
    "--length-penalty 0": {"scoring": Scoring(0.0)},
}


@pytest.mark.parametrize("options", SEARCHES)
def test_options_of_the_search_reach_the_model(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["caption", CAPTIONER, PICTURES[0], "--n-best", "5"]
    rows = [line.split("\t")[1:] for line in printed([*arguments, *options.split()], capsys)]
    (expected,) = Seq2Seq.load(CAPTIONER).candidates(PICTURES[:1], n_best=5, **SEARCHES[options])  # type: ignore[arg-type]
    assert rows == [[f"{one.score:.4f}", one.text] for one in expected]
    assert rows != [line.split("\t")[1:] for line in printed(arguments, capsys)]


def test_samples_of_a_picture_depend_on_its_number_and_the_seed_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--sample", "20", "--top-p", "0.9", "--temperature", "2"]
    lines = printed(["caption", CAPTIONER, *PICTURES[:2], *options], capsys)
    assert [line.split("\t")[0] for line in lines] == [name for name in PICTURES[:2] for _ in range(20)]
    assert len({tuple(line.split("\t")[1:]) for line in lines}) > 5
    typed(monkeypatch, "\n".join(PICTURES[:2]).encode())
    assert printed(["caption", CAPTIONER, *options], capsys) == lines
    assert printed(["caption", CAPTIONER, PICTURES[0], *options, "--seed", "2"], capsys) != lines[:20]
    refused(
        ["caption", CAPTIONER, "none.png", PICTURES[1], *options],
        capsys,
        "".join(f"{x}\n" for x in ["none.png\t\t", *lines[20:]]),
    )
    assert refused(["caption", CAPTIONER, PICTURES[0], "--seed", "2"], capsys) == "--seed needs --sample"


def test_tokens_of_a_caption_have_their_log_probabilities_and_alternatives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scored, *steps, last = printed(
        ["caption", CAPTIONER, PICTURES[0], "--alternatives", "2", "--scores", "tokens"], capsys
    )
    model = Seq2Seq.load(CAPTIONER)
    (best,) = model.translate(PICTURES[:1])
    name, score, text, tokens = scored.split("\t")
    assert (name, score, text, last) == (PICTURES[0], f"{best.score:.4f}", best.text, "")
    assert best.log_probabilities is not None
    names = [*best.tokens, "</s>"][: len(best.log_probabilities)]
    pairs = zip(names, best.log_probabilities, strict=True)
    assert tokens.split() == [f"{token}={log:.4f}" for token, log in pairs]
    for step, alternatives in zip(steps, model.alternatives(best, 2, PICTURES[0]), strict=True):
        assert step.split()[2:] == [
            word for each in alternatives for word in (each.token, f"{each.probability:.4f}")
        ]


def test_captions_have_calibrated_probabilities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, path, file = Seq2Seq.load(CAPTIONER), tmp_path / "calibrated", tmp_path / "captions.jsonl"
    model.calibration = Calibration(0.0, 1.0, 1.0, 5, 40, -100.0)
    model.save(path)
    shares = [model.probability(each) for each in model.candidates(PICTURES)]
    plain = [line.split("\t") for line in printed(["caption", CAPTIONER, *PICTURES], capsys)]
    arguments = ["caption", str(path), *PICTURES, "--json", str(file)]
    lines = printed([*arguments, "--probabilities", "--n-best", "2"], capsys)
    rows, of_json = (
        [line.split("\t") for line in lines],
        [json.loads(x) for x in file.read_text().splitlines()],
    )
    assert [row[2] for row in rows if row[2]] == [f"{share:.4f}" for share in shares]
    assert [record["probability"] for record in of_json if "probability" in record] == shares
    assert [(row[0], row[3]) for row in rows] == [(record["path"], record["caption"]) for record in of_json]
    middle = sorted(shares)[1]
    assert main([*arguments, "--threshold", repr(middle)]) == 0
    out, err = capsys.readouterr()
    kept = [share >= middle for share in shares]
    assert out.splitlines() == [
        f"{name}\t{text if k else ''}" for (name, text), k in zip(plain, kept, strict=True)
    ]
    assert err.startswith("1 of 3 pictures have a lower probability")
    assert [json.loads(x).get("caption") is not None for x in file.read_text().splitlines()] == kept
    assert "usual search" in refused([*arguments, "--threshold", "0.5", "--repetitions", "2"], capsys)
    assert "not calibrated" in refused(["caption", CAPTIONER, PICTURES[0], "--probabilities"], capsys)


def test_many_pictures_are_read_in_parts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 64 at a time."""
    expected = printed(["caption", CAPTIONER, *PICTURES], capsys)
    assert printed(["caption", CAPTIONER, *PICTURES * 22], capsys) == expected * 22
    typed(monkeypatch, "\n".join(PICTURES * 22).encode())
    assert printed(["caption", CAPTIONER], capsys) == expected * 22


UNREADABLE = {
    "labels.tsv": "labels.tsv: not a picture (PNG, JPEG, WEBP, GIF, BMP, TIFF, PPM)",
    "none.png": "none.png: No such file or directory",
    "pictures": "pictures: Is a directory",
    "0.npy": "0.npy: an image must have shape (height, width, channels) = (8, 12, 3). Got (1, 2) instead.",
    "0.npz:x": "0.npz: No such file or directory",
    " ": "empty; expected the name of a file",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_image_that_cannot_be_read_has_no_caption(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (f"{line}\n" for line in printed(["caption", CAPTIONER, *PICTURES[:2]], capsys))
    expected = f"{one}{name}\t\n{two}"
    lines, records = f"{PICTURES[0]}\n{name}\n{PICTURES[1]}\n", tmp_path / "captions.jsonl"
    typed(monkeypatch, lines.encode())
    message = f"standard input, line 2: {UNREADABLE[name]}"
    assert refused(["caption", CAPTIONER], capsys, expected) == message
    if name.strip():
        arguments = ["caption", CAPTIONER, PICTURES[0], name, PICTURES[1], "--json", str(records)]
        assert refused(arguments, capsys, expected) == UNREADABLE[name]
        written = [json.loads(line) for line in records.read_text().splitlines()]
        assert [record["path"] for record in written] == [PICTURES[0], name, PICTURES[1]]
        assert written[1] == {"path": name, "error": UNREADABLE[name]}


def test_a_picture_unlike_the_training_pictures_gets_its_line_and_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("PIL.Image", reason="picture files need Pillow").new("RGB", (12, 8)).save(
        tmp_path / "black.png"
    )
    black, file = str(tmp_path / "black.png"), tmp_path / "captions.jsonl"
    usual = printed(["caption", CAPTIONER, PICTURES[0]], capsys)
    page = tmp_path / "page.html"
    assert main(["caption", CAPTIONER, black, PICTURES[0], "--json", str(file), "--show", str(page)]) == 0
    out, err = capsys.readouterr()
    assert [line.split("\t")[0] for line in out.splitlines()] == [black, PICTURES[0]]
    assert out.splitlines()[1:] == usual
    (warning,) = err.splitlines()
    doubts, none = (json.loads(line).get("doubts") for line in file.read_text().splitlines())
    assert none is None
    assert "brightness 0" in [doubt.partition(" (")[0] for doubt in doubts]
    assert warning.startswith("warning: ")
    assert black in warning
    assert all(doubt in warning for doubt in doubts)
    (data,) = re.findall(r'id="data">(.*?)</script>', page.read_text("utf-8"), flags=re.DOTALL)
    assert json.loads(data)[0]["warnings"] == [warning.removeprefix("warning: ")]


def test_many_warnings_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "black.npy", np.zeros((8, 12, 3), np.uint8))
    assert main(["caption", CAPTIONER, *[str(tmp_path / "black.npy")] * 12]) == 0
    *warnings, last = capsys.readouterr().err.splitlines()
    assert len(warnings) == 10
    assert last == "warning: 12 of 12 pictures have captions that are guesses"


def test_what_cannot_be_read_is_called_as_the_source_does(capsys: pytest.CaptureFixture[str]) -> None:
    for model, unit in ((CAPTIONER, "pictures"), (READER, "examples")):
        assert main(["caption", model, *[f"none{i}.npy" for i in range(11)]]) == 2
        assert f"11 of 11 {unit} could not be used" in capsys.readouterr().err


def test_a_caption_that_is_less_probable_than_usual_gets_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Seq2Seq.load(CAPTIONER)
    (candidates,) = model.candidates(PICTURES[:1])
    log, path = candidates[0].log_probability, tmp_path / "calibrated.safetensors"
    for usual, doubted in ((log + 0.1, True), (log - 0.1, False)):
        model.calibration = Calibration(0.0, 1.0, 1.0, 5, 40, usual)
        model.save(path)
        assert main(["caption", str(path), PICTURES[0]]) == 0
        assert ("probability" in capsys.readouterr().err) == doubted


def test_an_empty_caption_is_printed_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = Seq2Seq.load(CAPTIONER)
    model.network.parameters["output_bias"][END] = 100  # it ends at once
    model.repetitions = None  # as in the file of an older version
    model.save(tmp_path / "silent")
    file = tmp_path / "captions.jsonl"
    (line,) = printed(["caption", str(tmp_path / "silent"), PICTURES[0], "--json", str(file)], capsys)
    assert line == f"{PICTURES[0]}\t(no caption)"
    assert json.loads(file.read_text())["caption"] == ""


def test_the_score_of_an_unreadable_image_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(["caption", CAPTIONER, PICTURES[0], "--n-best", "2"], capsys)
    before = "".join(f"{line}\n" for line in lines) + "none.png\t\t\n"
    refused(["caption", CAPTIONER, PICTURES[0], "none.png", "--n-best", "2"], capsys, before)
    assert refused(["caption", CAPTIONER, ""], capsys).startswith("argument IMAGE: ")


@pytest.mark.parametrize(
    ("option", "file"), [("--json", "other.safetensors"), ("--show", "other.html")]
)  # the name of a page ends in .html
def test_no_output_overwrites_an_input(
    option: str,
    file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / file
    path.write_bytes(Path(CAPTIONER).read_bytes())
    options = [option, str(path), *["--force"] * (option == "--show")]
    message = f"{path} would be overwritten; hint: give {option} a file of its own"
    arguments = ["caption", CAPTIONER, PICTURES[0], "--ensemble", str(path), *options]
    assert refused(arguments, capsys) == message
    typed(monkeypatch, f"{path}\n".encode())
    assert refused(["caption", CAPTIONER, *options], capsys) == message
    assert path.read_bytes() == Path(CAPTIONER).read_bytes()


def test_no_output_overwrites_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, archive = str(tmp_path / "page.html"), tmp_path / "two.npz"
    message = refused(["caption", CAPTIONER, PICTURES[0], "--json", page, "--show", page], capsys)
    assert message == f"{page} would be overwritten; hint: give --show a file of its own"
    np.savez(archive, low=np.load("0.npy"))
    message = refused(["caption", READER, f"{archive}:low", "--json", str(archive)], capsys)
    assert message == f"{archive} would be overwritten; hint: give --json a file of its own"


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--json", "--png"])
def test_a_measure_does_not_overwrite_a_picture(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "0.png"
    draw(picture, "red", "left")
    (tmp_path / "pairs.tsv").write_text("0.png\tred\n")
    message = refused(["evaluate", CAPTIONER, str(tmp_path / "pairs.tsv"), option, str(picture)], capsys)
    assert message == f"{picture} would be overwritten; hint: give {option} a file of its own"


def test_a_drawing_does_not_overwrite_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "save_alignment", lambda *arguments: None)
    names = [str(tmp_path / name) for name in ("1.png", "1-1.png")]
    for name in names:
        Path(name).write_bytes(Path(PICTURES[0]).read_bytes())
    assert main(["caption", CAPTIONER, *names, "--show", str(tmp_path)]) == 2
    message = f"{names[1]} would be overwritten; hint: give --show a folder of its own"
    assert capsys.readouterr().err == f"regard caption: error: {message}\n"


@pytest.mark.slow
def test_where_the_model_attended_is_drawn_for_each_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = tmp_path / "shown"
    printed(["caption", CAPTIONER, *PICTURES[:2], PICTURES[0], "--show", str(shown)], capsys)
    assert sorted(path.name for path in shown.iterdir()) == ["1-0.png", "2-1.png", "3-0.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in shown.iterdir())


@pytest.mark.slow
def test_one_page_shows_where_the_model_attended_for_all_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    arguments = ["caption", CAPTIONER, *PICTURES[:2], "--n-best", "2", "--show", str(page), "--importance"]
    assert main(arguments) == 0
    assert "importance: " in capsys.readouterr().err
    text = page.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
    (section,) = json.loads(text)
    model = Seq2Seq.load(CAPTIONER)
    for picture, described in zip(PICTURES, section["data"]["sentences"], strict=False):
        source = model.model.source
        assert isinstance(source, Images)
        assert described["grid"] == list(source.grid)
        pixels = np.frombuffer(base64.b64decode(described["picture"]["base64"]), np.uint8)
        shown = source.picture(picture)
        np.testing.assert_array_equal(
            pixels.reshape(*shown.shape[:2], 3), np.broadcast_to(shown, (*shown.shape[:2], 3))
        )
        captions = model.candidates([picture], n_best=2)[0]
        assert [one["text"] for one in described["hypotheses"]] == [caption.text for caption in captions]
        part, _ = described["hypotheses"][0]["importance"]
        numbers = np.frombuffer(base64.b64decode(part["numbers"]["base64"]), np.float32)
        np.testing.assert_allclose(numbers, model.erasure(captions[0], picture).ravel(), atol=1e-5)
    assert refused(["caption", CAPTIONER, PICTURES[0], "--show", str(page)], capsys).endswith(
        "page.html: the file exists already, --force replaces it"
    )
    assert refused(["caption", CAPTIONER, PICTURES[0], "--force"], capsys) == "--force needs --show FILE.html"
    printed(["caption", READER, "0.npy", "--show", str(page), "--force"], capsys)


def test_show_is_rejected_without_pictures_or_attention(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = tmp_path / "shown"
    message = refused(["caption", READER, "0.npy", "--show", str(shown)], capsys)
    assert message == f"--show needs a model of pictures. {READER} is a model of vectors."
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    message = refused(["caption", CAPTIONER, PICTURES[0], "--show", str(shown)], capsys)
    assert message == 'pictures need Matplotlib: pip install "regard[cli]"'
    assert not shown.exists()


def test_without_attention_there_is_nothing_to_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(captioner(tmp_path, attention=False))
    assert len(printed(["caption", model, *PICTURES], capsys)) == 3
    message = refused(["caption", model, PICTURES[0], "--show", str(tmp_path / "shown")], capsys)
    assert message == f"--show needs attention. {model} is a model without."


def test_pictures_need_pillow(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    for arguments in (["caption", CAPTIONER, PICTURES[0]], ["evaluate", CAPTIONER, "pairs.tsv"]):
        assert main(arguments) == 2
        err = capsys.readouterr().err.splitlines()[-1]
        assert err.endswith('error: pictures need Pillow: pip install "regard[images]"')


def test_an_array_of_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "two.npz"
    np.savez(archive, low=np.load("0.npy"), high=np.load("1.npy"))
    names = [f"{archive}:low", f"{archive}:high"]
    assert printed(["caption", READER, *names], capsys) == [f"{names[0]}\tlow", f"{names[1]}\thigh"]
    message = refused(["caption", READER, str(archive)], capsys, f"{archive}\t\n")
    assert message == f"{archive}: .npz:NAME names an array; it has low, high"


# ------------------------------------------------------------------------------------------------- which models


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["caption", TEXT, PICTURES[0]], f"{TEXT} is a model of text; hint: regard translate uses it"),
        (["translate", CAPTIONER], f"{CAPTIONER} is a model of images; hint: regard caption uses it"),
        (["translate", READER], f"{READER} is a model of vectors; hint: regard caption uses it"),
        (["align", CAPTIONER], f"{CAPTIONER} is a model of images; hint: regard caption uses it"),
        (
            ["align", TEXT, "--reverse", CAPTIONER],
            f"{CAPTIONER} is a model of images; hint: regard caption uses it",
        ),
    ],
)
def test_each_verb_names_the_one_to_use(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"")
    assert refused(arguments, capsys) == message


@pytest.mark.parametrize("verb", ["caption", "evaluate"])
@pytest.mark.parametrize("other", [TEXT, READER])
def test_an_ensemble_is_of_one_kind(verb: str, other: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = "pairs.tsv" if verb == "evaluate" else PICTURES[0]
    message = refused([verb, CAPTIONER, example, "--ensemble", other], capsys)
    reason = "models must read sources in the same way. Model 2 differs from model 1; "
    assert message.startswith(f"{CAPTIONER} and {other}: {reason}")
    assert "\n" not in message


def test_an_ensemble_of_captioners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(captioner(tmp_path, seed=2))
    lines = printed(["caption", CAPTIONER, *PICTURES, "--ensemble", other], capsys)
    assert [line.split("\t")[0] for line in lines] == PICTURES


# ------------------------------------------------------------------------------------------------- evaluate


def test_captions_are_measured_without_a_copying_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert main(["evaluate", CAPTIONER, "pairs.tsv", "--json", str(report)]) == 0
    out = capsys.readouterr().out
    assert "6 items of pairs.tsv, beam 5" in out
    assert out.split("\n")[2].split() == ["BLEU", "chrF", "exact", "%", "errors", "%"]
    assert "by words in the reference" in out
    assert "copying" not in out
    measured = json.loads(report.read_text())
    assert "copying" not in measured
    assert measured["items"] == 6


def test_several_captions_of_a_picture_are_alternatives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw(tmp_path / "a.png", "red", "left")
    text = Seq2Seq.load(CAPTIONER).translate([str(tmp_path / "a.png")])[0].text
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"a.png\tsomething else\na.png\t{text or 'x'}\n", encoding="utf-8")
    assert main(["evaluate", CAPTIONER, str(pairs), "--alternatives", "--measure", "exact"]) == 0
    out = capsys.readouterr().out
    assert f"1 item of {pairs}" in out


def test_impossible_measures_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gold").write_text("0-0\n" * 6)
    message = refused(["evaluate", CAPTIONER, "pairs.tsv", "--gold", str(tmp_path / "gold")], capsys)
    assert message == f"--gold has links between words: {CAPTIONER} reads images"
    for other in (TEXT, READER):
        message = refused(["evaluate", CAPTIONER, "pairs.tsv", "--compare", other], capsys)
        assert message == "the models to compare must all read text, or arrays of the same size"
    (tmp_path / "pairs.tsv").write_text("no.png\tred\n")
    assert main(["evaluate", CAPTIONER, str(tmp_path / "pairs.tsv")]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    where = f"{tmp_path / 'pairs.tsv'}, source 1: {tmp_path / 'no.png'}"
    assert last == f"regard evaluate: error: {where}: No such file or directory"


def test_a_picture_with_several_captions_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[str] = []
    read = images.read_image
    monkeypatch.setattr(images, "read_image", lambda path, **size: paths.append(path) or read(path, **size))
    name = Path(PICTURES[0]).resolve()
    (tmp_path / "pairs.tsv").write_text(f"{name}\tred\n{name}\tleft\n")
    assert main(["evaluate", CAPTIONER, str(tmp_path / "pairs.tsv")]) == 0
    assert paths == [str(name)]
