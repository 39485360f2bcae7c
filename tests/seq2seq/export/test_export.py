"""`regard export`: the folder, its decoder, the comparison with the network, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported import KINDS, PAIRS, SIZES, Halves, lines, trained
from source_cases import SMALL, every_array, examples, untrained

from regard import _files
from regard.cli import main
from regard.seq2seq import Seq2Seq, Vectors
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.decoding.calibration import Calibration
from regard.seq2seq.decoding.restrictions import Restricted, Restrictions, repetitions
from regard.seq2seq.evaluation.held_out import as_held_out
from regard.seq2seq.export import folder as files
from regard.seq2seq.export.comparison import TOLERANCE, allowed, compare
from regard.seq2seq.export.conversion import check_exportable
from regard.seq2seq.export.folder import FILES, OF_ARRAYS, copied, drafted, export
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.sources.text.source import Text
from regard.seq2seq.sources.text.tokenizers import Tokens
from regard.seq2seq.sources.text.vocabulary import END, SPECIAL, UNKNOWN, Vocabulary
from regard.seq2seq.storage.model_file import Model, write_model

onnx = pytest.importorskip("onnx", reason="exports are tested with onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="exports are tested with onnxruntime")
pytestmark = pytest.mark.threads  # onnxruntime's


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file, which no test changes."""
    path = tmp_path_factory.mktemp("run") / "model.safetensors"
    trained().save(path)
    return path


@pytest.fixture(scope="module")
def app(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported model, which no test changes."""
    folder = tmp_path_factory.mktemp("exported") / "app"
    export(Seq2Seq.load(run).model, folder, lines(12))
    return folder


def decoder(folder: Path) -> Any:
    with copied("decode", folder) as module:
        return module.Decoder(folder)


def written(tmp_path: Path, rows: list[str], name: str = "test.tsv") -> str:
    path = tmp_path / name
    path.write_text("".join(f"{row}\n" for row in rows), "utf-8")
    return str(path)


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of an error."""
    assert main(["export", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("regard export: error: ")
    return err.removeprefix("regard export: error: ").removesuffix("\n")


# ------------------------------------------------------------------------------------------------ the folder


def test_the_verb_writes_the_files_and_prints_the_comparison(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{source}\t{target}" for source, target in PAIRS] + ["ab\tA B"]
    folder = tmp_path / "new" / "app"
    assert main(["export", str(run.parent), "--onnx", str(folder), "--test", written(tmp_path, rows)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    out, _ = capsys.readouterr()
    first, *_ = out.splitlines()
    assert first.startswith(
        f"{len(PAIRS)} lines: the answers are those of the network"
    )  # of equal sources one
    exact = np.mean([one.text == PAIRS[i][1] or (PAIRS[i][0], one.text) == ("ab", "A B")
                     for i, one in enumerate(Seq2Seq.load(run).translate([s for s, _ in PAIRS], beam=1))])  # fmt: skip
    (row,) = (line for line in out.splitlines() if line.strip().startswith("files, greedy"))
    assert float(row.split()[2]) == pytest.approx(100 - 100 * exact, abs=0.01)


def test_the_settings_are_those_of_the_model_and_the_graphs_name_it(run: Path, app: Path) -> None:
    settings = json.loads((app / "model.json").read_text("utf-8"))
    model = Seq2Seq.load(run).model
    assert settings["format"] == "regard.onnx"
    assert tuple(settings["source"]["tokens"]) == model.source.tokenizer.tokens
    assert tuple(settings["target"]["tokens"]) == model.target.tokens
    assert settings["network"]["encoder"] == SIZES["encoder"]
    assert settings["limit"] == [2, 5]
    for name in ("encoder", "step"):
        props = onnx.load(app / f"{name}.onnx").metadata_props
        stored = {name: str(settings[name]) for name in ("format", "version", "parameters")}
        assert {prop.key: prop.value for prop in props} == stored


def test_a_card_is_carried_on(run: Path, tmp_path: Path) -> None:
    export(Seq2Seq.load(run).model, tmp_path, ["ab"], card={"licence": "BSD"})
    assert json.loads((tmp_path / "model.json").read_text("utf-8"))["card"] == {"licence": "BSD"}


def test_files_have_no_loops_where_the_model_has_a_limit(tmp_path: Path) -> None:
    model = Seq2Seq(source="characters", target="tokens", network=SIZES, epochs=1)
    model.fit(*zip(*PAIRS, strict=True))
    model.network.parameters["output_bias"][END] -= 9  # so that it never ends
    sources = [source for source, _ in PAIRS][:20]
    assert any(_most(one.text) > 1 for one in model.translate(sources, beam=1))
    model.repetitions = 1
    done = export(model.model, tmp_path, sources)
    assert done.answers == [one.text for one in model.translate(sources, beam=1)]
    for answer in done.answers:
        assert answer
        assert _most(answer) == 1


def _most(text: str) -> int:
    """How often a group of tokens comes in a row."""
    _, ids = np.unique(text.split(), return_inverse=True)
    return repetitions(ids + UNKNOWN + 1)


def test_ten_examples_have_the_answers_of_the_model(run: Path, app: Path) -> None:
    rows = [line.split("\t") for line in (app / "examples.tsv").read_text("utf-8").splitlines()]
    assert [source for source, _ in rows] == lines(12)[:10]
    answers = Seq2Seq.load(run).translate([source for source, _ in rows], beam=1)
    assert [answer for _, answer in rows] == [one.text for one in answers]


def test_files_that_exist_are_replaced_by_force_only(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.py").write_text("mine")
    assert (
        refused([str(run), "--onnx", str(tmp_path)], capsys)
        == f"{tmp_path} has text.py already; hint: --force replaces it"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["text.py"]
    assert main(["export", str(run), "--onnx", str(tmp_path), "--force"]) == 0
    assert (tmp_path / "text.py").read_text("utf-8") != "mine"


@pytest.mark.parametrize(
    ("name", "made", "told"),
    [
        (
            "step.onnx",
            lambda path: path.mkdir(),
            "step.onnx must be a file, or not there yet. It is a folder",
        ),
        ("text.py", lambda path: path.symlink_to("gone/text.py"), "there is no folder"),
    ],
)
def test_what_cannot_be_replaced_is_refused_before_any_work(
    name: str, made: Any, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / name)
    assert f"{tmp_path} has {name} already" in refused(["none", "--onnx", str(tmp_path)], capsys)
    assert told in refused(["none", "--onnx", str(tmp_path), "--force"], capsys)


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    link.symlink_to("gone")
    file.write_text("mine")
    for folder, what in (
        (link, "a link to nothing"),
        (link / "app", "a link to nothing"),
        (file / "a" / "b", "a file"),
    ):
        told = f"--onnx needs a folder, and {file if what == 'a file' else link} is {what}"
        assert refused(["none", "--onnx", str(folder)], capsys) == told


def test_files_of_two_models_are_refused_by_their_decoder(run: Path, app: Path, tmp_path: Path) -> None:
    """The vocabularies are the same, and the shapes: without a check, one network would read the other's states."""
    export(trained(seed=2).model, tmp_path, ["ab"])
    decoder(tmp_path)
    for name in ("encoder.onnx", "step.onnx", "model.json"):
        own = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes((app / name).read_bytes())
        with pytest.raises(ValueError, match="not of one model"):
            decoder(tmp_path)
        (tmp_path / name).write_bytes(own)


def test_two_exports_do_not_write_at_once(run: Path, tmp_path: Path) -> None:
    model = Seq2Seq.load(run).model
    with (
        _files.locked(tmp_path / "model.json"),
        pytest.raises(ValueError, match="another process is writing"),
    ):
        export(model, tmp_path, ["ab"])
    assert list(tmp_path.iterdir()) == []


def test_without_lines_ten_are_made_of_the_vocabulary(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), "--onnx", str(tmp_path)]) == 0
    rows = (tmp_path / "examples.tsv").read_text("utf-8").splitlines()
    assert 5 <= len(rows) <= 10
    assert not decoder(tmp_path)("ab").cut
    assert {letter for row in rows for letter in row.split("\t")[0]} <= set("abcd")


def test_a_vocabulary_without_tokens_has_an_unknown_line(tmp_path: Path) -> None:
    network = build(RecurrentConfig(len(SPECIAL), 5, **SIZES))
    model = Model(network, Text.of(Tokens(Vocabulary(SPECIAL))), Tokens(Vocabulary([*SPECIAL, "a"])))
    write_model(tmp_path / "model.safetensors", model)
    assert main(["export", str(tmp_path), "--onnx", str(tmp_path / "app")]) == 0
    assert (tmp_path / "app" / "examples.tsv").read_text("utf-8").startswith("?\t")


def test_lines_that_a_file_of_columns_cannot_hold_are_no_examples(run: Path, tmp_path: Path) -> None:
    export(Seq2Seq.load(run).model, tmp_path, ["a\u2028b", "a\x85", "c\td", "ab"])
    rows = (tmp_path / "examples.tsv").read_text("utf-8").splitlines()
    assert [row.split("\t")[0] for row in rows] == ["ab"]


# ----------------------------------------------------------------------------------------------- decode.py


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_decoder_finds_what_the_search_finds(kind: str, width: int, tmp_path: Path) -> None:
    model = trained(**KINDS[kind])
    export(model.model, tmp_path, ["ab"])
    exported = decoder(tmp_path)
    for source, own in zip(lines(30), model.translate(lines(30), beam=width), strict=True):
        found = exported(source, width)
        assert found.text == own.text, source
        assert found.score == pytest.approx(own.score, abs=1e-4)
        if own.alignment is not None:
            np.testing.assert_allclose(found.weights, own.alignment, atol=1e-5)


def test_a_beam_of_more_than_all_continuations(run: Path, app: Path) -> None:
    network = Seq2Seq.load(run).network
    own = beam(network, np.array([[4, 5, 2]]).T, np.array([3]), width=40)[0][0]
    tokens, score, *_ = decoder(app).search([4, 5, END], 40)
    assert tuple(tokens) == own.tokens
    assert score == pytest.approx(own.score, abs=1e-4)


def test_an_empty_text_has_an_empty_answer(app: Path) -> None:
    assert decoder(app)("")[:2] == decoder(app)("  ")[:2] == ("", [])


def test_a_text_that_never_ends_is_cut_off_at_the_limit(run: Path, tmp_path: Path) -> None:
    model = Seq2Seq.load(run)
    model.network.parameters["output_bias"][2] = -100  # of the end
    export(model.model, tmp_path, ["ab"])
    for width in (1, 3):
        found = decoder(tmp_path)("ab", width)
        (own,) = model.translate(["ab"], beam=width)
        assert (len(found.tokens), found.cut) == (2 * 3 + 5, True)
        assert (found.text, found.weights.shape) == (own.text, own.alignment.shape)


@pytest.mark.parametrize("attention", [True, False])
def test_unknown_tokens_are_copies_of_unknown_ones(attention: bool, tmp_path: Path) -> None:
    sizes = SIZES if attention else {name: size for name, size in SIZES.items() if name != "attention"}
    model = Seq2Seq(network=sizes, attention=attention, epochs=1).fit(["one two"], ["un deux"])
    model.network.parameters["output_bias"][UNKNOWN] = 100
    sources = ["zebra", "one two", "one zebra two lion"]
    export(model.model, tmp_path, sources)
    for source, own in zip(sources, model.translate(sources, beam=1), strict=True):
        names = [word for word in source.split() if word in ("zebra", "lion")]
        tokens = decoder(tmp_path)(source).tokens
        assert sorted(tokens) == sorted(own.tokens)
        assert sorted(token for token in tokens if token not in ("un", "deux")) == sorted(names)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "told"), [("words", True), ("characters", False)])
def test_the_report_says_how_unknown_words_are_copied(
    kind: str, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Seq2Seq(network=SIZES, source=kind, target=kind, epochs=1).fit(["one two"], ["un deux"])
    model.save(tmp_path / "model.safetensors")
    assert main(["export", str(tmp_path), "--onnx", str(tmp_path / "app")]) == 0
    assert ("copied" in capsys.readouterr().out) is told


PROGRAM = """
import runpy, sys
sys.modules["regard"] = None  # no import finds it
sys.path.insert(0, {folder!r})
sys.argv = ["decode.py", *{arguments!r}]
runpy.run_path({folder!r} + "/decode.py", run_name="__main__")
"""


def alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run decode.py in a process that can't import this package."""
    program = PROGRAM.format(folder=str(folder), arguments=arguments)
    env = os.environ | {"PYTHONPATH": "", "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=1800, encoding="utf-8")


@pytest.mark.slow
def test_the_decoder_runs_without_this_package(app: Path, tmp_path: Path) -> None:
    done = alone(app)
    assert (done.returncode, done.stderr) == (0, "")
    done = alone(app, "ab", "dab")
    assert done.stdout.splitlines() == [decoder(app)(word).text for word in ("ab", "dab")]
    for name in FILES:
        (tmp_path / name).write_bytes((app / name).read_bytes())
    (tmp_path / "examples.tsv").write_text("ab\twrong\n")
    done = alone(tmp_path)
    assert done.returncode == 1
    assert done.stderr.strip() == "1 of 1 answers are wrong"


def test_what_users_copy_is_short() -> None:
    own = Path(files.__file__).parent / "app"
    assert len((own / "decode.py").read_text("utf-8").splitlines()) < 95
    assert len((own / "text.py").read_text("utf-8").splitlines()) < 135
    assert len((own / "arrays.py").read_text("utf-8").splitlines()) < 75


# ------------------------------------------------------------------------------------- the comparison, and int8


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        (
            "text.py",
            "return list(text.translate(SWAPPED))",
            "return list(text.translate(SWAPPED))[::-1]",
            "read otherwise",
        ),
        (
            "decode.py",
            "totals[i, blocked(hypothesis[1][1:], often, copies)] = -np.inf",
            "totals[i, END] = -np.inf",
            "answers differ",
        ),
    ],
)
def test_a_decoder_that_answers_otherwise_fails_and_nothing_is_written(
    file: str, old: str, new: str, told: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    write = Path.write_bytes

    def broken(path: Path, data: bytes) -> int:
        assert path.name != file or old.encode() in data
        return write(path, data.replace(old.encode(), new.encode()))

    monkeypatch.setattr(Path, "write_bytes", broken)
    with pytest.raises(ValueError, match=f"within 0.0001.*{told}.*nothing was written"):
        export(Seq2Seq.load(run).model, tmp_path / "app", lines(9))
    assert list(tmp_path.iterdir()) == []


def test_graphs_with_other_numbers_fail_and_nothing_is_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = files.graphs

    def shifted(network: Any, metadata: Any) -> Any:
        changed = Seq2Seq.load(run).network
        changed.parameters["output_bias"][4] += 0.001
        return made(changed, metadata)

    monkeypatch.setattr(files, "graphs", shifted)
    with pytest.raises(ValueError, match="log-probabilities differ by"):
        export(Seq2Seq.load(run).model, tmp_path / "app", lines(9))
    assert list(tmp_path.iterdir()) == []


def test_equal_probabilities_are_no_difference(run: Path, tmp_path: Path) -> None:
    model = Seq2Seq.load(run).model
    for name in ("output_bias", "target_embedding"):  # twins: only rounding tells them apart
        parameter = model.network.parameters[name]
        parameter[5] = parameter[4] + (1e-6 if name == "output_bias" else 0)
    assert export(model, tmp_path, lines(20)).comparison.different == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_int8_keeps_operators_and_metadata_and_is_smaller(kind: str, tmp_path: Path) -> None:
    network = KINDS[kind].get("network", SIZES)
    larger = {
        name: 64 if name in SIZES or name.endswith("size") else value for name, value in network.items()
    }
    options = KINDS[kind] | {"network": larger}
    model = trained(**options).model
    plain, small = tmp_path / "plain", tmp_path / "small"
    export(model, plain, lines(30))
    done = export(model, small, lines(30), int8=True)
    assert len(done.quantized) == 30
    for name in ("encoder.onnx", "step.onnx"):
        graph, other = onnx.load(small / name), onnx.load(plain / name)
        assert {node.domain for node in graph.graph.node} == {""}
        assert [(one.domain, one.version) for one in graph.opset_import] == [("", 13)]
        assert (graph.ir_version, [*graph.metadata_props]) == (8, [*other.metadata_props])
        large = [
            t.name
            for t in graph.graph.initializer
            if np.prod(t.dims) > 2000 and t.data_type == onnx.TensorProto.FLOAT
        ]
        assert large == []
        assert (small / name).stat().st_size < 0.5 * (plain / name).stat().st_size
    examples = [line.split("\t") for line in (small / "examples.tsv").read_text("utf-8").splitlines()]
    assert [decoder(small)(source).text for source, _ in examples] == [answer for _, answer in examples]


@pytest.mark.slow
def test_rounding_of_long_lines_is_no_difference() -> None:
    """Cell states of an LSTM grow with the line, and scores that are products with them: so does their rounding."""
    sizes = {"embedding": 64, "encoder": 64, "decoder": 128}
    model = trained(network={**KINDS["luong"]["network"], **sizes}, epochs=60)
    model.network.parameters["output_bias"][END] -= 99  # so that it never ends
    row = tuple(np.random.default_rng(0).integers(4, 8, 900).tolist())
    with drafted(model.model, ["ab"]) as draft, draft.decoder() as exported:
        compared = compare(model.network, exported, [(*row, END)])
    assert compared.largest > TOLERANCE
    assert compared.excess <= 1


def test_what_is_allowed_grows_with_the_tokens() -> None:
    assert allowed(np.array([2, 100, 250])).tolist() == pytest.approx([1e-4, 1e-4, 2.5e-4])


# --------------------------------------------------------------------------------------------- the error rates


def with_held_out(path: Path, **options: Any) -> Seq2Seq:
    """A saved model whose held-out words have the answers of the complete model: none of them is wrong."""
    model = trained(**options)
    model.held_out = as_held_out({word: [model.translate([word])[0].text] for word in lines(30)})
    model.save(path / "model.safetensors")
    return model


def test_a_file_that_leaves_carries_its_error_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = trained()
    found = [one.text for one in model.translate(lines(30))]
    right = {
        word: ["A B", text if len(word) % 2 else "B"] for word, text in zip(lines(30), found, strict=True)
    }
    model.held_out = as_held_out(right)
    model.save(tmp_path / "model.safetensors")
    folder = tmp_path / "app"
    assert main(["export", str(tmp_path), "--onnx", str(folder)]) == 0
    exported = decoder(folder)
    wrong = {
        name: float(np.mean([exported(word, width).text not in right[word] for word in right]))
        for name, width in (("greedy", 1), ("beam 5", 5))
    }
    assert 0 < wrong["greedy"] < 1  # else the test would say nothing
    settings = json.loads((folder / "model.json").read_text("utf-8"))
    measured = {"lines": "held-out words", "count": 30, "int8": False, "wrong": wrong}
    assert settings["card"]["exported"] == measured
    assert f"{100 * wrong['greedy']:.2f}" in capsys.readouterr().out
    texts = "".join(
        path.read_text("utf-8") for path in folder.iterdir() if path.is_file() and path.suffix != ".onnx"
    )
    assert not any(digest in texts for digests in model.held_out.values() for digest in digests)


def test_files_that_make_more_errors_than_the_model_need_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = with_held_out(tmp_path, extras={"lengths": 2}, epochs=20)
    assert any(
        one.text != other.text
        for one, other in zip(model.translate(lines(30)), model.translate(lines(30), beam=1), strict=True)
    )
    arguments = [str(tmp_path), "--onnx", str(tmp_path / "app"), "--without-extras"]
    assert main(["export", *arguments]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    rates = r"the files leave \d+\.\d\d % of 30 held-out words wrong, the model 0\.00 %"
    assert re.fullmatch(rf"regard export: error: {rates}: nothing was written; hint: .*", told)
    assert not (tmp_path / "app").exists()
    assert main(["export", *arguments, "--force"]) == 0


def test_extras_whose_cost_is_unknown_are_not_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(extras={"lengths": 2}).save(tmp_path / "model.safetensors")
    told = refused([str(tmp_path), "--onnx", str(tmp_path / "app"), "--without-extras"], capsys)
    assert told.startswith("what leaving out lengths costs is unknown: this model has no held-out words; ")


# ---------------------------------------------------------------------------------------------- models of arrays


def of_arrays(kind: str, family: str = "recurrent", epochs: int = 3) -> tuple[Seq2Seq, list[Any], list[str]]:
    """A model of arrays that has learned little, and its examples with their targets."""
    sources, targets = examples(kind, 30)
    return untrained(family, kind, epochs=epochs).fit(sources, targets), sources, targets


def as_array(source: Any, given: Any) -> Any:
    """An example as the decoder takes it: a picture, or rows."""
    example = source.load(given)
    picture = source.picture(example)
    return example.content if picture is None else picture


@pytest.mark.slow
@pytest.mark.parametrize("family", ["recurrent", "transformer"])
@every_array
def test_the_decoder_finds_what_the_search_finds_in_arrays(
    kind: str, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the sources is of the tests' own, whose files only the source reads: the decoder takes their rows."""
    monkeypatch.setattr("source_cases.FOLDER", [tmp_path])
    model, sources, _ = of_arrays(kind, family)
    done = export(model.model, tmp_path / "app", sources)
    assert done.comparison.different == []
    assert done.answers == [best.text for best in model.translate(sources, beam=1)]
    exported = decoder(tmp_path / "app")
    for width in (1, 4):
        for given, best in zip(sources, model.translate(sources, beam=width), strict=True):
            found = exported(as_array(model.model.source, given), width)
            assert found.text == best.text
            assert found.score == pytest.approx(best.score, abs=1e-4)
            np.testing.assert_allclose(found.weights, best.alignment, atol=1e-5)


@pytest.mark.slow
def test_int8_stores_the_filters_of_a_captioner_as_integers(tmp_path: Path) -> None:
    model, sources, _ = of_arrays("images", epochs=30)
    export(model.model, tmp_path / "plain", sources)
    done = export(model.model, tmp_path / "small", sources, int8=True)
    assert np.mean([one == other for one, other in zip(done.answers, done.quantized, strict=True)]) > 0.9
    graphs = [onnx.load(tmp_path / name / "encoder.onnx").graph for name in ("plain", "small")]
    plain, small = ({t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer} for graph in graphs)
    for name in ("image_0_weight", "image_1_weight", "image_inner_weight", "image_outer_weight"):
        whole, scale = small[f"{name}_int8"], small[f"{name}_scale"][:, None, None, None]
        assert (name in small, whole.dtype) == (False, np.int8)
        assert np.abs(scale * whole - plain[name]).max() <= scale.max() / 2 + 1e-6


@pytest.mark.slow
def test_the_verb_exports_a_captioner_and_measures_its_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from PIL import Image

    model, sources, targets = of_arrays("images", epochs=30)
    model.save(tmp_path / "model.safetensors")
    (tmp_path / "pictures").mkdir()
    for number, picture in enumerate(sources):
        Image.fromarray(picture).save(tmp_path / "pictures" / f"{number}.png")
    rows = [f"{number}.png\t{target}" for number, target in enumerate(targets)]
    test, folder = written(tmp_path / "pictures", rows), tmp_path / "app"
    assert main(["export", str(tmp_path), "--onnx", str(folder), "--test", test]) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted((*FILES, *OF_ARRAYS))
    out = capsys.readouterr().out
    assert out.startswith(f"{len(sources)} pictures: the answers are those of the network")
    answers = [one.text for one in model.translate(sources, beam=1)]
    wrong = 100 * np.mean([answer != target for answer, target in zip(answers, targets, strict=True)])
    (row,) = (line for line in out.splitlines() if line.strip().startswith("files, greedy"))
    assert float(row.split()[2]) == pytest.approx(wrong, abs=0.01)
    settings = json.loads((folder / "model.json").read_text("utf-8"))
    assert settings["card"]["exported"]["count"] == len(sources)
    assert settings["source"] == json.loads(json.dumps(model.model.source.settings()[0]))
    done = alone(folder)
    assert (done.returncode, done.stderr) == (0, "")
    done = alone(folder, *(str(tmp_path / "pictures" / f"{number}.png") for number in range(5)))
    assert done.stdout.splitlines() == answers[:5]


def test_what_a_model_of_arrays_needs_and_cannot_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, sources, _ = of_arrays("sequence", epochs=1)
    model.save(tmp_path / "m.safetensors")
    np.save(tmp_path / "x.npy", sources[0])
    np.save(tmp_path / "wide.npy", np.ones((2, 5)))
    arguments = [str(tmp_path / "m.safetensors"), "--onnx", str(tmp_path / "app")]
    test = ["--test", written(tmp_path, ["x.npy"])]
    assert refused(arguments, capsys).startswith("--test is needed for a model of vectors: ")
    assert refused([*arguments, *test, "--page"], capsys).startswith("--page needs a model of text. ")
    told = refused([*arguments, "--test", written(tmp_path, ["x.npy", "wide.npy"], "wide.tsv")], capsys)
    assert re.search(r"wide\.tsv, line 2: .*must have shape \(m, size\) = \(m, 4\)", told)
    assert not (tmp_path / "app").exists()
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "arrays.py").write_text("mine")
    assert refused([*arguments, *test], capsys).endswith("has arrays.py already; hint: --force replaces it")
    assert [path.name for path in (tmp_path / "app").iterdir()] == ["arrays.py"]
    assert main(["export", *arguments, *test, "--force"]) == 0
    assert capsys.readouterr().out.startswith("1 examples: the answers are those of the network")


@pytest.mark.parametrize("old", ["np.float32(1 / 255)", "array.reshape(height // cell"])
def test_pictures_that_are_read_otherwise_fail_and_nothing_is_written(
    old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, sources, _ = of_arrays("images", epochs=1)
    write = Path.write_bytes
    new = old.replace("255", "256").replace("array.", "array[::-1].").encode()
    monkeypatch.setattr(Path, "write_bytes", lambda path, data: write(path, data.replace(old.encode(), new)))
    with pytest.raises(ValueError, match=r"9 of 9 sources are read otherwise, such as 'an array \(4, 16\)'"):
        export(model.model, tmp_path / "app", sources[:9])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("config", [RecurrentConfig, TransformerConfig], ids=["recurrent", "transformer"])
def test_an_input_of_ones_own_is_exported_by_its_one_method(
    config: Any, in_order: bool, tmp_path: Path
) -> None:
    """Nothing but `Halves` knows what becomes of its rows; its source is one of vectors."""
    sizes = SMALL["recurrent" if config is RecurrentConfig else "transformer"]
    network, rng = build(config(0, 6, inputs=Halves(2, in_order), **sizes)), np.random.default_rng(1)
    for parameter in network.parameters.values():
        parameter[...] = rng.normal(0, 0.3, parameter.shape)
    source, target = Vectors(4, "sequence" if in_order else "set"), Tokens(Vocabulary([*SPECIAL, "a", "b"]))
    sources = [rng.normal(0, 1, (length, 4)) for length in (1, 5, 2, 3)]
    done = export(Model(network, source, target), tmp_path, sources)
    assert done.comparison.different == []
    exported, restricted = decoder(tmp_path), Restricted(network, Restrictions(copies=False))
    for given in sources:
        rows = source.read(given)[:, None]
        best = beam(restricted, rows, np.array([len(rows)]), width=3)[0][0]
        found = exported(given, 3)
        assert found.tokens == [target.tokens[i] for i in best.tokens]
        assert found.score == pytest.approx(best.score, abs=1e-4)


# --------------------------------------------------------------------------------------------- what is refused


def test_extras_are_left_out_on_purpose_only_and_the_cost_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = trained(extras={"lengths": 2, "similar": 1})
    model.save(tmp_path / "model.safetensors")
    arguments = [str(tmp_path), "--onnx", str(tmp_path / "app")]
    told = refused(arguments, capsys)
    assert "similar and lengths" in told
    assert "--without-extras" in told
    assert not (tmp_path / "app").exists()
    test = written(tmp_path, [f"{source}\t{target}" for source, target in PAIRS])
    assert main(["export", *arguments, "--without-extras", "--test", test]) == 0
    table = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert [line.split("  ")[0].strip() or line.strip() for line in table[1:]]
    assert "with similar and lengths, beam 5" in table[1]
    own = model.translate([source for source, _ in PAIRS])
    exact = np.mean([one.text == target for one, (_, target) in zip(own, PAIRS, strict=True)])
    assert float(table[1].split()[-2]) == pytest.approx(100 - 100 * exact, abs=0.01)
    settings = json.loads((tmp_path / "app" / "model.json").read_text("utf-8"))
    assert settings["left_out"] == ["similar", "lengths"]
    assert settings["network"]["source_tokens"] == len(settings["source"]["tokens"])


def test_a_calibration_is_carried_on_unless_it_is_of_extras_that_are_left_out() -> None:
    calibration = Calibration(0.5, 1.0, 0.25, 5, 40, -1e3)
    for extras, carried in (({}, True), ({"lengths": 2}, False)):
        model = trained(extras=extras, epochs=1)
        assert "calibration" not in files.described(model.model)
        model.calibration = calibration
        assert files.described(model.model).get("calibration") == (calibration._asdict() if carried else None)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "lines of one column, or of two. Got none instead"),
        (["", " "], "Got none instead"),
        (["a\tb\tc"], "Got 3 columns instead"),
        (["a", "a\tb"], "Got 1 and 2 columns instead"),
        (["a" * 1001], "at most 1000 are allowed"),
    ],
)
def test_lines_that_are_refused(
    rows: list[str], told: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = written(tmp_path, rows)
    assert told in refused([str(run), "--onnx", str(tmp_path / "app"), "--test", test], capsys)
    assert not (tmp_path / "app").exists()


def test_files_that_are_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff\xfe\x00")
    app = str(tmp_path / "app")
    assert refused([str(run), "--onnx", str(file)], capsys) == f"--onnx needs a folder, and {file} is a file"
    assert "not utf-16" in refused([str(run), "--onnx", app, "--test", str(file)], capsys)
    assert "No such file" in refused([str(tmp_path / "none"), "--onnx", app], capsys)
    assert "is not a model file" in refused([str(file), "--onnx", app], capsys)
    assert not (tmp_path / "app").exists()


def test_a_vocabulary_that_is_missing_or_too_small_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from regard._safetensors import opened, write

    with opened(run, "model file") as file:
        arrays = {name: file.bytes(name) if "." in name else None for name in file.tensors}
        shapes = Seq2Seq.load(run).network.parameters
        kept = {
            name: shapes[name] if data is None else np.frombuffer(data, np.uint8)
            for name, data in arrays.items()
        }
        metadata = {name: value for name, value in file.metadata.items() if name != "checksum"}
    for name, bad in (("target.tokens", None), ("source.tokens", np.frombuffer(b"<pad>", np.uint8))):
        changed = {key: value for key, value in kept.items() if key != name} | (
            {} if bad is None else {name: bad}
        )
        write(tmp_path / "m.safetensors", changed, metadata)
        assert (
            "damaged" in refused([str(tmp_path / "m.safetensors"), "--onnx", str(tmp_path / "app")], capsys)
            or bad is None
        )
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_before_any_work(
    missing: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    told = refused([str(run), "--onnx", str(tmp_path / "app")], capsys)
    assert told == f'exporting needs {missing}: pip install "regard[onnx]"'
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize(
    ("family", "network", "got"),
    [
        ("recurrent", {"normalize": "local_p"}, "score=additive, normalize=local_p"),
        ("recurrent", {"score": "cosine"}, "score=cosine, normalize=softmax"),
        ("transformer", {"normalize": "entmax"}, "score=scaled_dot, normalize=entmax"),
    ],
)
def test_other_scores_and_normalizations_are_refused(family: str, network: dict[str, Any], got: str) -> None:
    model = Seq2Seq(family=family, network=network, epochs=1).fit(["a", "b"] * 2, ["c", "d"] * 2)
    with pytest.raises(
        ValueError, match=f"only networks with normalize=softmax .* This network has {got}\\."
    ):
        check_exportable(model.model, without_extras=False)


@pytest.mark.slow
def test_the_report_of_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page shows what is printed here, whose numbers depend a little on the processor."""
    trained(epochs=200).save(tmp_path / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    written(tmp_path, [f"{source}\t{target}" for source, target in PAIRS])
    assert main(["export", ".", "--onnx", "app", "--test", "test.tsv", "--int8"]) == 0
    *report, _ = capsys.readouterr().out.split("\n\n")
    page = (Path(__file__).parents[3] / "docs" / "onnx.md").read_text("utf-8")
    _, shown, *_ = page.split("<!-- the report of test_the_report_of_the_guide -->")[1].split("```")
    alike = [
        re.sub(r" *\d+(\.\d+|e-\d+)?\b", " 0", text.strip("\n")) for text in ("\n\n".join(report), shown)
    ]
    assert alike[0] == alike[1], "\n\n".join(report)


def test_the_page_of_the_guide_shows_what_works(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "onnx.md").read_text("utf-8")
    (code,) = re.findall(r"```python3\n(.*?)```", page, re.DOTALL)
    export(Seq2Seq.load(run).model, tmp_path / "app", ["ab"])
    monkeypatch.chdir(tmp_path)
    with copied("decode", tmp_path / "app"):
        names: dict[str, Any] = {}
        exec(code, names)
    assert names["best"].weights.shape == (len(names["best"].tokens), len("hello") + 1)
