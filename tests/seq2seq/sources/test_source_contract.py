"""The laws of a source, tried on all of them and on one of the tests' own; and those of a model that reads it."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest
from audio import Audio
from errors import error
from source_cases import (
    ARRAYS,
    CASES,
    FOLDER,
    SMALL,
    every_array,
    every_family,
    every_kind,
    examples,
    trained,
    untrained,
)

from regard.cli import main
from regard.seq2seq import Ensemble, Seq2Seq, TrainingConfig
from regard.seq2seq.corpus.splits import hold_out
from regard.seq2seq.decoding.hypothesis import Scoring
from regard.seq2seq.decoding.search import longest
from regard.seq2seq.networks.inputs.kinds import check_fit, input_of
from regard.seq2seq.sources import SOURCES, Source, Text, restore_source
from regard.seq2seq.sources.arrays import scaled
from regard.seq2seq.sources.text.vocabulary import END
from regard.seq2seq.training.loop import TrainingStep


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, "audio", Audio)


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    FOLDER.append(tmp_path_factory.mktemp("examples"))
    return FOLDER[-1]


def fitted(kind: str) -> Source:
    source = CASES[kind].source
    return source.fitted([source.load(given) for given in examples(kind, 20)[0]])


# ------------------------------------------------------------------------------------------------ the source alone


@every_kind
def test_settings_bring_a_source_back(kind: str) -> None:
    learned = fitted(kind)
    settings, data = learned.settings()
    again = restore_source(json.loads(json.dumps(settings)), data)
    assert type(again) is SOURCES[settings["kind"]] is SOURCES[learned.kind]
    assert again == learned
    assert hash(again) == hash(learned)
    assert again.settings() == (settings, data)
    assert again.spec == learned.spec
    given = examples(kind, 1, seed=2)[0][0]
    np.testing.assert_array_equal(again.rows(again.load(given)), learned.rows(learned.load(given)))


@every_kind
def test_other_settings_are_refused(kind: str) -> None:
    settings, data = fitted(kind).settings()
    error(ValueError, restore_source, settings | {"more": 1}, data)
    error(ValueError, restore_source, {"kind": settings["kind"]}, data)
    error(ValueError, restore_source, settings | {"kind": "x"}, data)
    error(ValueError, restore_source, settings, data | {"more": b""})


@every_kind
def test_an_example_is_read_once(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, given = CASES[kind].source, examples(kind, 1)[0][0]
    example = source.load(given)
    assert len(example) >= 1
    monkeypatch.setattr(type(source), "read", None)  # a call of it would fail
    assert source.load(example, "here: ") is example


@every_kind
def test_what_is_given_is_not_changed(kind: str) -> None:
    learned, given = fitted(kind), examples(kind, 1)[0][0]
    before = copy.deepcopy(given)
    rows = learned.rows(learned.load(given))
    np.testing.assert_equal(given, before)
    np.testing.assert_array_equal(learned.rows(learned.load(given)), rows)


@every_kind
def test_rows_are_those_of_the_specification(kind: str) -> None:
    learned, spec = fitted(kind), fitted(kind).spec
    assert (spec.tokens > 0) == (not learned.reads_files) == (spec.width == 0)
    for given in examples(kind, 5, seed=2)[0]:
        rows = learned.rows(learned.load(given))
        if spec.tokens:
            assert all(0 <= token < spec.tokens for token in rows)
            assert rows[-1] == END
        else:
            assert rows.dtype in (np.uint8, np.float32)
            assert rows.shape == (len(rows), spec.width)
            assert np.isfinite(scaled(rows)).all()
            if spec.grid:
                assert len(rows) == spec.grid[0] * spec.grid[1]


@every_kind
def test_each_row_has_a_name(kind: str) -> None:
    learned = fitted(kind)
    for given in examples(kind, 5)[0]:
        example = learned.load(given)
        names = learned.names(example)
        assert len(names) == len(learned.rows(example))
        assert all(isinstance(name, str) and name for name in names)


@every_kind
def test_fitting_is_of_the_examples_alone(kind: str) -> None:
    """Not of what was learned before; the source itself does not change."""
    source, before = CASES[kind].source, copy.deepcopy(CASES[kind].source)
    learned = fitted(kind)
    assert fitted(kind) == learned
    assert learned.fitted([source.load(given) for given in examples(kind, 20)[0]]) == learned
    assert source == before


@every_kind
def test_equal_examples_are_equal(kind: str) -> None:
    source, (given, other) = CASES[kind].source, examples(kind, 2, seed=4)[0]
    one, again = source.load(given), source.load(copy.deepcopy(given))
    assert one == again
    assert hash(one) == hash(again)
    assert repr(one) == repr(again)
    assert one != source.load(other)
    assert one != given
    assert repr(one) != repr(source.load(other))


@every_array
def test_a_file_is_read_as_what_it_holds(kind: str, tmp_path: Path) -> None:
    source, given = CASES[kind].source, examples(kind, 1)[0][0]
    path = given
    if not isinstance(given, Path):
        path = tmp_path / "x.npy"
        np.save(path, np.concatenate(given, axis=1) if isinstance(given, tuple) else given)
    example = source.load(str(path))
    assert example == source.load(path) == source.load(given)
    assert str(example) == example.name == str(path)
    assert "here: " in error(FileNotFoundError, source.load, tmp_path / "missing.npy", "here: ")


@every_kind
def test_errors_begin_with_where(kind: str) -> None:
    given, type_, text = CASES[kind].refused
    assert error(type_, CASES[kind].source.load, given, "here: ").startswith(f"here: {text}")


@every_kind
def test_a_picture_has_the_size_of_the_specification(kind: str) -> None:
    source, given = CASES[kind].source, examples(kind, 1)[0][0]
    picture, image = source.picture(source.load(given)), source.spec.image
    assert (picture is None) == (image is None)
    if picture is not None and image is not None:
        assert picture.shape == image[:3]
        np.testing.assert_allclose(picture.squeeze(), given, rtol=1e-6)


@every_kind
def test_a_network_fits_its_source_and_no_other(kind: str) -> None:
    spec = fitted(kind).spec
    check_fit(input_of(spec), spec)
    for other in CASES:
        theirs = CASES[other].source.spec
        if other != "subwords" and theirs._replace(tokens=0) != spec._replace(tokens=0):
            error(ValueError, check_fit, input_of(theirs), spec)


# ----------------------------------------------------------------------------------------------------- models


@every_kind
@every_family
def test_a_saved_model_translates_alike(family: str, kind: str, tmp_path: Path) -> None:
    model, (sources, targets) = trained(family, kind), examples(kind, 8, seed=3)
    model.save(tmp_path / "m")
    again = Seq2Seq.load(tmp_path / "m")
    again.save(tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()
    assert again.model.source == model.model.source
    assert again.reader == (again.model.source if again.reader.reads_files else again.reader)
    assert again.network.config == model.network.config
    assert again.translate(sources) == model.translate(sources)
    assert again.align(sources, targets) == model.align(sources, targets)
    assert again.candidates(sources, n_best=3) == model.candidates(sources, n_best=3)
    assert again.sample(sources, count=2, rng=4) == model.sample(sources, count=2, rng=4)


@every_kind
@every_family
def test_examples_translate_as_what_they_were_read_from(family: str, kind: str) -> None:
    model, sources = trained(family, kind), examples(kind, 8, seed=3)[0]
    assert model.translate(list(map(model.model.source.load, sources))) == model.translate(sources)
    assert model.translate(list(map(model.reader.load, sources))) == model.translate(sources)


@every_kind
@every_family
def test_every_search_names_the_columns_of_its_alignment(family: str, kind: str) -> None:
    model, (sources, targets) = trained(family, kind), examples(kind, 3, seed=9)
    source = model.model.source
    names = source.names(source.load(sources[0]))
    (aligned,) = model.align(sources[:1], targets[:1])
    (empty,) = model.align(sources[:1], [""])
    several, drawn = model.candidates(sources[:1], beam=4)[0], model.sample(sources[:1], count=3)[0]
    for one in [*several, *drawn, aligned, empty, *model.translate(sources[:1], beam=1)]:
        assert one.source == names
        assert one.grid == source.spec.grid
        assert one.alignment is not None
        assert one.alignment.shape == (len(one.tokens), len(names))
        np.testing.assert_allclose(one.alignment.sum(axis=1), 1, atol=1e-5)
        assert one.retrieved == ()
        assert one.full_alignment() == (one.alignment, names)
    assert aligned.text == targets[0]
    assert model.translate(sources[:1])[0] == model.candidates(sources[:1])[0][0]
    assert model.translate([]) == []


@pytest.mark.slow
@every_kind
@every_family
def test_an_aligned_translation_has_the_score_of_the_search(family: str, kind: str) -> None:
    model = untrained(family, kind, epochs=30).fit(*examples(kind, 24))
    sources = examples(kind, 12, seed=7)[0]
    translations = model.translate(sources, scoring=Scoring())
    limits = longest(np.array([len(model.reader.load(source)) + 1 for source in sources]))
    known = [
        (source, one)
        for source, one, limit in zip(sources, translations, limits, strict=True)
        if 3 not in one.ids and len(one.ids) < limit  # the score of one that is cut off has no END
    ]
    assert known
    again = model.align([source for source, _ in known], [list(one.tokens) for _, one in known])
    for (_, one), other in zip(known, again, strict=True):
        assert other.log_probability == pytest.approx(one.log_probability, rel=1e-4)
        np.testing.assert_allclose(other.alignment, one.alignment, atol=1e-4)


@every_kind
@every_family
def test_a_training_goes_on_where_it_stopped(family: str, kind: str, tmp_path: Path) -> None:
    """The noise that is added to rows of numbers is that of the step, too."""
    pairs, checkpoint = examples(kind, 24), tmp_path / "checkpoint"
    training = TrainingConfig(epochs=2, noise=0.1 * (kind in ARRAYS))
    options = {"training": training, "epochs": None}
    expected = untrained(family, kind, **options).fit(*pairs).model

    def stop(step: TrainingStep) -> None:
        if step.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        untrained(family, kind, **options).fit(*pairs, checkpoint=checkpoint, listener=stop)
    model = untrained(family, kind, **options).fit(*pairs, checkpoint=checkpoint).model
    assert not checkpoint.exists()
    assert (model.network.parameters.flat == expected.network.parameters.flat).all()
    assert model.source == expected.source


@every_kind
def test_a_checkpoint_of_other_examples_is_refused(kind: str, tmp_path: Path) -> None:
    sources, targets = examples(kind, 24)
    checkpoint = tmp_path / "checkpoint"
    for _ in untrained("recurrent", kind).steps(
        list(zip(sources, targets, strict=True)), checkpoint=checkpoint
    ):
        break
    others, _ = examples(kind, 24, seed=2)
    with pytest.raises(ValueError, match="the checkpoint is of another training: the pairs, or which of"):
        untrained("recurrent", kind).fit(others, targets, checkpoint=checkpoint)
    assert checkpoint.exists()


@every_kind
def test_a_model_without_attention(kind: str) -> None:
    network = {name: SMALL["recurrent"][name] for name in ("embedding", "encoder", "decoder")}
    model = untrained("recurrent", kind, attention=False, network=network).fit(*examples(kind, 8))
    (translation,) = model.translate(examples(kind, 1)[0])
    assert translation.alignment is None
    assert translation.grid == CASES[kind].source.spec.grid


@every_kind
def test_posterior_attention(kind: str) -> None:
    model, (sources, targets) = trained("recurrent", kind), examples(kind, 1)
    (aligned,) = model.align(sources, targets, posterior=True)
    assert aligned.alignment is not None
    np.testing.assert_allclose(aligned.alignment.sum(axis=1), 1, atol=1e-5)


@every_kind
@every_family
def test_an_ensemble_reads_what_its_models_read(family: str, kind: str) -> None:
    models, (sources, targets) = [trained(family, kind), trained(family, kind, 2)], examples(kind, 3)
    together = Ensemble(models)
    each = [model.align(sources, targets) for model in models]
    for mean, *own in zip(together.align(sources, targets), *each, strict=True):
        assert mean.source == own[0].source
        alignments = [one.alignment for one in own if one.alignment is not None]
        np.testing.assert_allclose(mean.alignment, sum(alignments) / 2, atol=1e-6)
    alike = Ensemble([models[0], models[0]])
    assert [one.text for one in alike.translate(sources)] == [
        one.text for one in models[0].translate(sources)
    ]


@pytest.mark.parametrize("kind", [*ARRAYS, "words"])
def test_models_of_an_ensemble_read_the_same_sources(kind: str) -> None:
    other = "images" if kind != "images" else "set"
    text = error(ValueError, Ensemble, [trained("recurrent", kind), trained("recurrent", other)])
    assert text.startswith("models must read sources in the same way. Model 2 differs from model 1.")
    if kind == "set":  # whose mean is another
        sources, targets = examples(kind, 24)
        moved = untrained("recurrent", kind).fit([source + 1 for source in sources], targets)
        assert error(ValueError, Ensemble, [trained("recurrent", kind), moved]) == text


@every_kind
def test_heads(kind: str) -> None:
    model, (sources, targets) = trained("transformer", kind), examples(kind, 1)
    (aligned,) = model.align(sources, targets)
    heads = model.heads(aligned, sources[0])
    n, m = len(aligned.tokens), len(aligned.source)
    assert len(heads.source_tokens) == m
    assert heads.target_tokens == aligned.tokens
    assert heads.encoder.shape == (1, 2, m, m)
    assert heads.source.shape == (2, 2, n, m)
    np.testing.assert_allclose(heads.source[0].mean(axis=0), aligned.alignment, atol=1e-5)
    if model.model.source.reads_files:
        text = error(ValueError, model.heads, aligned)
        assert text == "source must be given for a source of arrays, which a translation doesn't hold."


@every_kind
def test_equal_examples_stay_on_one_side(kind: str) -> None:
    source, (sources, _) = CASES[kind].source, examples(kind, 30)
    pairs = [(source.load(copy.deepcopy(given)), str(i)) for i in range(3) for given in sources]
    training, validation = hold_out(pairs)
    assert len(training) + len(validation) == 90
    assert validation
    assert not {one for one, _ in validation} & {one for one, _ in training}


# ------------------------------------------------------------------------------------------------------- errors


@every_kind
def test_wrong_examples_are_refused_by_their_number(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, type_, text = CASES[kind].refused
    sources, targets = examples(kind, 30)
    good = list(sources), targets
    sources[20] = given  # held out or not
    model = untrained("recurrent", kind)
    assert error(type_, model.fit, sources, targets).startswith(f"pair 21: {text}")
    valid = sources[18:22], targets[18:22]
    assert error(type_, model.fit, *good, valid=valid).startswith(f"pair 3: {text}")
    with pytest.raises(ValueError, match="must be trained or loaded first"):
        model.translate(good[0])
    ready = trained("recurrent", kind)
    monkeypatch.setattr(type(ready.network), "stepper", None)  # a call of it would fail
    for search in (ready.translate, ready.sample, lambda sources: ready.align(sources, targets)):
        assert error(type_, search, sources).startswith(f"source 21: {text}")


@every_kind
def test_a_single_example_is_not_several(kind: str) -> None:
    model, given = trained("recurrent", kind), examples(kind, 1)[0][0]
    several = [np.array(3.0), "x.npy", Path("x.npy"), b"x.npy", None, {0: given}]
    for sources in [*several, given] if isinstance(given, np.ndarray) else several:
        for function in (model.translate, model.candidates, model.sample):
            text = error(TypeError, function, sources)
            assert text.startswith("sources must be a sequence of examples. Got ")
            assert text.endswith(" instead.\n  hint: [example], not example")
        assert error(TypeError, model.align, sources, ["a"]) == text
        assert error(TypeError, untrained("recurrent", kind).fit, sources, ["a"]) == text


@every_kind
def test_there_is_a_target_for_each_source(kind: str) -> None:
    sources, targets = examples(kind, 4)
    text = "targets must be as many as sources. Got 3 for 4 instead."
    assert error(ValueError, trained("recurrent", kind).align, sources, targets[:3]) == text
    model = untrained("recurrent", kind)
    assert error(ValueError, model.fit, sources, targets[:3]) == text
    text = error(ValueError, model.fit, sources, targets, valid=(sources, targets[:3]))
    assert text == "the targets of valid must be as many as sources. Got 3 for 4 instead."
    assert error(ValueError, model.fit, sources, ["a", "", "b", "c"]) == "pair 2: the target is empty"
    assert "Got str instead." in error(TypeError, model.fit, sources, "abcd")
    assert "Got none instead." in error(ValueError, model.fit, [], [])


@every_array
def test_rows_of_numbers_have_no_tokenizer_and_no_unknown_symbols(kind: str) -> None:
    source = CASES[kind].source
    text = f"the sources of this model are {source.kind}, not text"
    assert error(ValueError, getattr, source, "tokenizer") == text
    assert source.unknown(source.load(examples(kind, 1)[0][0])) == ()


def test_measuring_has_no_limit_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As captions have none: only tokens are limited."""
    trained("recurrent", "set").save(tmp_path / "m")
    np.save(tmp_path / "long.npy", np.full((1001, 1), 1000.0))
    (tmp_path / "pairs").write_text("long.npy\tn0\n")
    assert main(["caption", str(tmp_path / "m"), str(tmp_path / "long.npy")]) == 0
    assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / "pairs")]) == 0
    assert "at most" not in capsys.readouterr().err


@every_array
def test_options_of_tokens_are_refused(kind: str) -> None:
    for options in ({"lower": True}, {"lower": False}, {"extras": {"lengths": 2}}):
        text = error(ValueError, untrained, "recurrent", kind, **options)
        rule = "must not be given with a source of arrays: it is about the source's tokens."
        assert text == f"{next(iter(options))} {rule}"
    sources, targets = examples(kind, 4)
    text = error(ValueError, untrained("recurrent", kind).fit, sources, targets, links=[frozenset()] * 4)
    assert text == "links must not be given with a source of arrays: they are between tokens."


def test_a_text_is_a_source_as_its_kind_is() -> None:
    sources, targets = examples("words", 24)
    one = Seq2Seq(source=Text("words", lower=True), network=SMALL["recurrent"], epochs=2).fit(
        sources, targets
    )
    other = trained("recurrent", "words")
    assert (one.network.parameters.flat == other.network.parameters.flat).all()
    assert one.model.source == other.model.source
    assert "lower must not be given with a Text" in error(ValueError, Seq2Seq, source=Text(), lower=True)


# ------------------------------------------------------------------------------------------------- the command line


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*ARRAYS, "words"])
def test_the_command_line(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verbs train, measure and translate as a model does."""
    monkeypatch.chdir(tmp_path)
    sources, targets = examples(kind, 12)
    names = []
    for i, given in enumerate(sources):
        if not isinstance(given, str | Path):
            np.save(f"{i}.npy", np.concatenate(given, axis=1) if isinstance(given, tuple) else given)
        names.append(str(given) if isinstance(given, str | Path) else f"{i}.npy")
    lines = [f"{name}\t{target}\n" for name, target in zip(names, targets, strict=True)]
    Path("pairs").write_text("".join(lines))
    network = ["--network", *(f"{name}={size}" for name, size in SMALL["recurrent"].items())]
    train = ["train", "pairs", *CASES[kind].options.split(), *network, "--epochs", "1", "--out", "m"]
    assert main(train) == 0
    assert main(train) == 0  # it is done
    assert "is done already" in capsys.readouterr().err
    model = Seq2Seq.load("m")
    assert type(model.model.source) is type(CASES[kind].source)
    texts = [one.text for one in model.translate(sources)]
    if model.model.source.reads_files:
        assert main(["caption", "m", *names]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"{name}\t{text or '(no caption)'}" for name, text in zip(names, texts, strict=True)
        ]
    else:
        Path("sources").write_text("".join(f"{name}\n" for name in names))
        assert main(["translate", "m", "sources"]) == 0
        assert capsys.readouterr().out.splitlines() == texts
    assert main(["evaluate", "m", "pairs"]) == 0
    exact = sum(one == other for one, other in zip(texts, targets, strict=True))
    assert f"{100 * exact / 12:.1f}" in capsys.readouterr().out


def test_an_option_of_another_source_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        ("--source audio", "--source audio needs --frame N: samples of a frame"),
        ("--source audio --frame 4 --size 3", "--size needs --source images or vectors"),
        ("--source vectors --size 3 --frame 4", "--frame needs --source audio"),
        ("--source audio --frame 0", "frame must be from 1 to 4096. Got 0 instead."),
        ("--source audio --frame 4 --lower", "--lower needs tokens in the source. --source audio has none."),
    ):
        assert main(["train", "no-such-file", *options.split()]) == 2
        assert capsys.readouterr().err == f"regard train: error: {message}\n"
