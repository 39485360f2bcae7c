"""Models whose sources are arrays: learning, files, searches, and input that is refused before any work."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import error

from regard import cli
from regard.seq2seq import Ensemble, Images, Seq2Seq, TrainingConfig, Vectors
from regard.seq2seq.data.array_sources import ArraySource, Loaded
from regard.seq2seq.data.splits import hold_out, split_validation
from regard.seq2seq.decoding.hypothesis import Scoring
from regard.seq2seq.storage.model_file import read_model

Examples = tuple[list[Any], list[str]]

SMALL = {
    "recurrent": {"embedding": 8, "encoder": 6, "decoder": 8, "attention": 5},
    "transformer": {
        "model_size": 8,
        "heads": 2,
        "feedforward_size": 8,
        "encoder_layers": 1,
        "decoder_layers": 2,
    },
}
SOURCES: dict[str, ArraySource] = {
    "sequence": Vectors(4),
    "set": Vectors(1, "set"),
    "images": Images(8, 8),
}
every_kind = pytest.mark.parametrize("kind", SOURCES)
every_family = pytest.mark.parametrize("family", SMALL)
quickest_family = pytest.mark.parametrize(
    "family", ["recurrent", pytest.param("transformer", marks=pytest.mark.slow)]
)


def sequences(rng: np.random.Generator) -> tuple[Any, str]:
    """One-hot vectors, and the letters of the first and the last."""
    ids = rng.integers(4, size=rng.integers(1, 4))
    return np.eye(4)[ids], f"{'abcd'[ids[0]]} {'abcd'[ids[-1]]}"


def sets(rng: np.random.Generator) -> tuple[Any, str]:
    """Numbers far from 0, and the largest."""
    numbers = rng.integers(5, size=rng.integers(1, 5))
    return 1000 + 10.0 * numbers[:, None], f"n{numbers.max()}"


def pictures(rng: np.random.Generator) -> tuple[Any, str]:
    """A bright square in noise, and where it is."""
    picture, (i, j) = rng.integers(0, 100, (8, 8), np.uint8), rng.integers(2, size=2)
    picture[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] += 120
    return picture, f"{('top', 'bottom')[i]} {('left', 'right')[j]}"


MAKE = {"sequence": sequences, "set": sets, "images": pictures}


def examples(kind: str, count: int, seed: int = 1) -> Examples:
    rng = np.random.default_rng(seed)
    pairs = [MAKE[kind](rng) for _ in range(count)]
    return [source for source, _ in pairs], [target for _, target in pairs]


def untrained(family: str, kind: str, **options: Any) -> Seq2Seq:
    return Seq2Seq(
        **{"family": family, "source": SOURCES[kind], "network": SMALL[family], "epochs": 2, **options}
    )


@cache
def small(family: str, kind: str, seed: int = 1) -> Seq2Seq:
    """A model trained for two epochs; not to be changed."""
    return untrained(family, kind, seed=seed).fit(*examples(kind, 24))


# ----------------------------------------------------------------------------------------------------- learning


@pytest.mark.slow
@every_kind
@every_family
def test_it_learns(family: str, kind: str) -> None:
    network = {"model_size": 32, "heads": 2, "feedforward_size": 64, "encoder_layers": 1, "decoder_layers": 2}
    options: dict[str, Any] = {"learning_rate": 0.01}
    if family == "transformer":
        options = {"learning_rate": 0.005, "network": network}
    epochs = {"sequence": 35, "set": 25, "images": 14}[kind]
    model = Seq2Seq(family=family, source=SOURCES[kind], epochs=epochs, **options).fit(*examples(kind, 200))
    sources, targets = examples(kind, 100, seed=2)
    texts = [translation.text for translation in model.translate(sources)]
    assert np.mean([one == other for one, other in zip(texts, targets, strict=True)]) >= 0.9


@pytest.mark.slow
def test_a_sequence_is_copied_to_its_end() -> None:
    """Names of vectors, one after the other: without a mark of the end, one in thirty was too short or too long."""
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(10, 6))

    def copied() -> tuple[Any, str]:
        ids = rng.integers(0, 10, rng.integers(1, 8))
        return vectors[ids] + rng.normal(0, 0.1, (len(ids), 6)), " ".join(f"w{i}" for i in ids)

    sources, targets = zip(*(copied() for _ in range(1000)), strict=True)
    sizes = {"embedding": 32, "encoder": 32, "decoder": 48, "attention": 32}
    model = Seq2Seq(source=Vectors(6), network=sizes, epochs=25).fit(sources[:600], targets[:600])
    texts = [answer.text for answer in model.translate(sources[600:])]
    assert np.mean([one == other for one, other in zip(texts, targets[600:], strict=True)]) >= 0.985


@pytest.mark.slow
def test_which_of_these_points_is_the_leftmost() -> None:
    """Two to five of six named points: the answer needs all positions and one name, whatever the order."""
    rng = np.random.default_rng(1)

    def question() -> tuple[Any, str]:
        names = rng.permutation(6)[: rng.integers(2, 6)]
        positions = rng.uniform(0, 100, (len(names), 2))
        return (np.eye(6)[names], positions), "abcdef"[names[positions[:, 0].argmin()]]

    sources, targets = zip(*(question() for _ in range(700)), strict=True)
    sizes = {"embedding": 24, "encoder": 16, "decoder": 24, "attention": 16}
    model = Seq2Seq(source=Vectors(6, "set", positions=2), network=sizes, epochs=12, learning_rate=0.01)
    model.fit(sources[:500], targets[:500])
    texts = [answer.text for answer in model.translate(sources[500:])]
    assert np.mean([one == other for one, other in zip(texts, targets[500:], strict=True)]) >= 0.85
    turned = [(names[::-1], positions[::-1]) for names, positions in sources[500:]]
    assert [answer.text for answer in model.translate(turned)] == texts


def test_numbers_far_from_0_are_distinguished() -> None:
    targets = ["a", "b", "c"] * 4
    sources = [[[1e6 + 100 * "abc".index(target)]] for target in targets]
    model = untrained("recurrent", "set", epochs=20, learning_rate=0.05).fit(sources, targets)
    assert [translation.text for translation in model.translate(sources[:3])] == ["a", "b", "c"]


@every_family
def test_a_model_has_the_mean_and_the_deviation_of_its_training_examples(family: str) -> None:
    sources, targets = examples("set", 10)
    model = untrained(family, "set", epochs=1).fit(sources, targets, valid=(sources[:1], targets[:1]))
    rows = np.concatenate(sources)
    assert isinstance(model.model.source, Vectors)
    assert model.model.source.mean == pytest.approx(rows.mean(axis=0))
    assert model.model.source.scale == pytest.approx(rows.std(axis=0))
    assert model.source == Vectors(1, "set")  # what was asked for


@pytest.mark.slow
def test_the_same_examples_in_any_form_give_the_same_model(tmp_path: Path) -> None:
    sources, targets = examples("sequence", 30)
    paths = [str(tmp_path / f"{i}.npy") for i in range(30)]
    for path, source in zip(paths, sources, strict=True):
        np.save(path, source.astype(np.float32))
    forms: list[Any] = [
        sources,
        [source.tolist() for source in sources],
        [np.asfortranarray(source.astype(np.int8)) for source in sources],
        paths,
        list(map(Path, paths)),
        [Loaded(path, Vectors(4).load(path)) for path in paths],
    ]
    models = [untrained("recurrent", "sequence").fit(form, targets) for form in forms]
    for model in models:
        assert (model.model.network.parameters.flat == models[0].model.network.parameters.flat).all()
        for form in forms:
            assert model.translate(form[:5]) == models[0].translate(sources[:5])


def test_one_array_holds_many_pictures() -> None:
    sources, targets = examples("images", 20)
    together = untrained("recurrent", "images").fit(np.stack(sources), targets)
    apart = untrained("recurrent", "images").fit(sources, targets)
    assert (together.model.network.parameters.flat == apart.model.network.parameters.flat).all()
    assert together.translate(np.stack(sources)) == apart.translate(sources)
    assert together.translate([]) == []


# -------------------------------------------------------------------------------------------------------- files


@every_kind
@quickest_family
def test_a_saved_model_translates_alike(family: str, kind: str, tmp_path: Path) -> None:
    model, (sources, targets) = small(family, kind), examples(kind, 8, seed=3)
    model.save(tmp_path / "m")
    again = Seq2Seq.load(tmp_path / "m")
    again.save(tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()
    assert again.model.source == model.model.source
    assert again.source == model.model.source
    assert again.model.network.config == model.model.network.config
    assert again.translate(sources) == model.translate(sources)
    assert again.align(sources, targets) == model.align(sources, targets)
    assert again.candidates(sources, n_best=3) == model.candidates(sources, n_best=3)
    assert again.sample(sources, count=2, rng=4) == model.sample(sources, count=2, rng=4)


@pytest.mark.slow
def test_a_verb_standardises_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, example = small("recurrent", "set"), one_example("set")
    model.save(tmp_path / "m")
    np.save(tmp_path / "x.npy", example)
    assert cli.main(["caption", str(tmp_path / "m"), str(tmp_path / "x.npy"), "--n-best", "1"]) == 0
    (translation,) = model.translate([example])
    assert capsys.readouterr().out == f"{tmp_path / 'x.npy'}\t{translation.score:.4f}\t{translation.text}\n"


def test_a_loaded_model_learns_anew_from_other_examples(tmp_path: Path) -> None:
    small("recurrent", "set").save(tmp_path / "m")
    again = Seq2Seq.load(tmp_path / "m")
    sources, targets = examples("set", 8, seed=5)
    again.training = TrainingConfig(epochs=1)
    again.fit([source + 7 for source in sources], targets)
    assert isinstance(again.model.source, Vectors)
    assert again.model.source.mean == pytest.approx(np.concatenate(sources).mean(axis=0) + 7)


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        pytest.param(family, kind, marks=[] if (family, kind) == ("recurrent", "set") else [pytest.mark.slow])
        for family in SMALL
        for kind in SOURCES
    ],
)
def test_a_training_goes_on_where_it_stopped(family: str, kind: str, tmp_path: Path) -> None:
    pairs, checkpoint = examples(kind, 24), tmp_path / "checkpoint"
    expected = small(family, kind).model
    for step in untrained(family, kind).steps(list(zip(*pairs, strict=True)), checkpoint=checkpoint):
        if step.number == 2:
            break
    assert checkpoint.exists()
    model = untrained(family, kind).fit(*pairs, checkpoint=checkpoint).model
    assert not checkpoint.exists()
    assert (model.network.parameters.flat == expected.network.parameters.flat).all()
    assert model.source == expected.source


def test_a_checkpoint_of_other_arrays_is_rejected(tmp_path: Path) -> None:
    sources, targets = examples("set", 24)
    checkpoint = tmp_path / "checkpoint"
    for _ in untrained("recurrent", "set").steps(
        list(zip(sources, targets, strict=True)), checkpoint=checkpoint
    ):
        break
    other = [sources[0] + 1, *sources[1:]]
    with pytest.raises(ValueError, match="the pairs, or which of their tokens are known, have changed"):
        untrained("recurrent", "set").fit(other, targets, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="source was Vectors"):
        untrained("recurrent", "set", source=Vectors(1)).fit(sources, targets, checkpoint=checkpoint)
    assert checkpoint.exists()


# ----------------------------------------------------------------------------------------------------- searches


NAMES = {
    "sequence": ("1", "2", "3"),
    "set": ("1", "2", "3"),
    "images": ("(1, 1)", "(1, 2)", "(2, 1)", "(2, 2)"),
}


def one_example(kind: str, seed: int = 9) -> Any:
    rng = np.random.default_rng(seed)
    return {
        "sequence": np.eye(4)[rng.integers(4, size=3)],
        "set": rng.normal(1020, 5, (3, 1)),
        "images": rng.integers(0, 255, (8, 8), np.uint8),
    }[kind]


def check_shapes(translation: Any, kind: str) -> None:
    names = NAMES[kind]
    assert translation.source == names
    assert translation.grid == ((2, 2) if kind == "images" else None)
    assert translation.alignment.shape == (len(translation.tokens), len(names))
    np.testing.assert_allclose(translation.alignment.sum(axis=1), 1, atol=1e-5)
    assert translation.retrieved == ()
    weights, read = translation.full_alignment()
    assert weights is translation.alignment
    assert read == names


@every_kind
@quickest_family
def test_every_search_has_an_alignment_of_vectors_or_cells(family: str, kind: str) -> None:
    model, example = small(family, kind), one_example(kind)
    target = examples(kind, 1)[1][0]
    several = model.candidates([example], beam=4)[0]
    drawn = model.sample([example], count=3)[0]
    (aligned,) = model.align([example], [target])
    for translation in [*several, *drawn, aligned, *model.translate([example], beam=1)]:
        check_shapes(translation, kind)
    assert aligned.text == target
    assert aligned.tokens == tuple(target.split())
    assert len({one.text for one in several}) == len(several)
    assert model.translate([example])[0] == model.candidates([example])[0][0]
    (empty,) = model.align([example], [""])
    assert empty.alignment is not None
    assert empty.alignment.shape == (0, len(NAMES[kind]))


@every_kind
@quickest_family
def test_an_aligned_translation_has_the_score_of_the_search(family: str, kind: str) -> None:
    model, sources = small(family, kind), examples(kind, 12, seed=7)[0]
    translations = model.translate(sources, scoring=Scoring())
    again = model.align(sources, [list(one.tokens) for one in translations])
    for one, other in zip(translations, again, strict=True):
        assert other.log_probability == pytest.approx(one.log_probability, rel=1e-4)
        np.testing.assert_allclose(other.alignment, one.alignment, atol=1e-4)
        assert other.source == one.source


@every_kind
def test_posterior_attention(kind: str) -> None:
    translations = small("recurrent", kind).align(
        [one_example(kind)], [examples(kind, 1)[1][0]], posterior=True
    )
    check_shapes(translations[0], kind)


@every_kind
def test_a_model_without_attention(kind: str) -> None:
    model = untrained(
        "recurrent", kind, attention=False, network={"embedding": 8, "encoder": 6, "decoder": 8}
    )
    model.fit(*examples(kind, 8))
    (translation,) = model.translate([one_example(kind)])
    assert translation.alignment is None
    assert translation.source == NAMES[kind]
    assert translation.grid == ((2, 2) if kind == "images" else None)


@every_kind
@quickest_family
def test_an_ensemble(family: str, kind: str) -> None:
    models = [small(family, kind), small(family, kind, seed=2)]
    together, example = Ensemble(models), one_example(kind)
    for translation in [*together.translate([example]), *together.sample([example])[0]]:
        check_shapes(translation, kind)
    target = examples(kind, 1)[1][0]
    each = [model.align([example], [target])[0] for model in models]
    (mean,) = together.align([example], [target])
    np.testing.assert_allclose(mean.alignment, sum(one.alignment for one in each) / 2, atol=1e-6)
    alike = Ensemble([models[0], models[0]])
    assert [one.text for one in alike.translate([example])] == [
        one.text for one in models[0].translate([example])
    ]


def test_models_of_an_ensemble_read_the_same_sources() -> None:
    sources, targets = examples("set", 24)
    other = untrained("recurrent", "set").fit([source + 1 for source in sources], targets)
    text = error(ValueError, Ensemble, [small("recurrent", "set"), other])
    assert text.startswith("models must read sources in the same way. Model 2 differs from model 1.")
    text = error(ValueError, Ensemble, [small("recurrent", "set"), small("recurrent", "sequence")])
    assert text.startswith("models must read sources in the same way. Model 2 differs from model 1.")


@every_kind
def test_heads(kind: str) -> None:
    model, example, target = small("transformer", kind), one_example(kind), examples(kind, 1)[1][0]
    (aligned,) = model.align([example], [target])
    heads = model.heads(aligned, example)
    n, m = len(aligned.tokens), len(NAMES[kind])
    assert heads.source_tokens == NAMES[kind]
    assert heads.target_tokens == aligned.tokens
    assert heads.encoder.shape == (1, 2, m, m)
    assert heads.decoder.shape == (2, 2, n, n)
    assert heads.source.shape == (2, 2, n, m)
    np.testing.assert_allclose(heads.source[0].mean(axis=0), aligned.alignment, atol=1e-5)
    np.testing.assert_allclose(heads.encoder.sum(axis=-1), 1, atol=1e-5)
    text = error(ValueError, model.heads, aligned)
    assert text == "source must be given for a source of arrays, which a translation doesn't hold."
    error(ValueError, model.heads, aligned, one_example(kind)[:1])  # of another size


@quickest_family
def test_vectors_of_a_set_may_come_in_any_order(family: str) -> None:
    model, sources = small(family, "set"), examples("set", 12, seed=8)[0]
    for one, other in zip(
        model.translate(sources), model.translate([source[::-1] for source in sources]), strict=True
    ):
        assert one.text == other.text
        assert one.alignment is not None
        np.testing.assert_allclose(other.alignment, one.alignment[:, ::-1], atol=1e-4)


@quickest_family
def test_many_sources_are_decoded_as_each_alone(family: str) -> None:
    """Of one vector and of several, in the order in which they were given."""
    model, sources = small(family, "sequence"), examples("sequence", 40, seed=4)[0]
    together = model.translate(sources)
    for source, one in zip(sources, together, strict=True):
        (alone,) = model.translate([source])
        assert alone.tokens == one.tokens
        assert alone.source == one.source
        np.testing.assert_allclose(alone.alignment, one.alignment, atol=1e-4)


# -------------------------------------------------------------------------------------------------------- split


def test_equal_arrays_stay_together() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(2, 3)) for _ in range(30)]
    pairs = [(array.copy(), str(i)) for i in range(3) for array in arrays]
    training, validation = hold_out(pairs)
    assert len(training) + len(validation) == 90
    assert len(validation) == 9
    held_out = {source.tobytes() for source, _ in validation}
    assert len(held_out) == 3
    assert not held_out & {source.tobytes() for source, _ in training}
    links = [frozenset({(i, i)}) for i in range(90)]
    again, _, held_out_links = split_validation(pairs, links)
    assert held_out_links == [
        links[i] for i, (source, _) in enumerate(pairs) if source.tobytes() not in held_out
    ]
    assert len(again) == len(held_out_links)
    reshaped = [(array.reshape(3, 2), "") for array in arrays[:15]] + [(array, "") for array in arrays[:15]]
    assert len(hold_out(reshaped)[1]) == 3  # of 30 sources: arrays of another shape are others


@pytest.mark.parametrize("form", ["array", "list", "path", "loaded"])
def test_equal_examples_of_any_form_stay_on_one_side(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 9, size=(2, 4)) for _ in range(30)]
    again: list[Any] = []
    for i, array in enumerate(arrays):
        np.save(tmp_path / f"{i}.npy", array)
        again.append(
            {
                "array": array.astype(np.float32),
                "list": array.tolist(),
                "path": tmp_path / f"{i}.npy",
                "loaded": Loaded(f"{i}.npy", Vectors(4).load(array)),
            }[form]
        )
    pairs = [(source, "a b") for source in [*arrays, *again]]
    training = untrained("recurrent", "sequence").begin(pairs)
    learned, valid = (
        {np.asarray(pair.source).tobytes() for pair in one} for one in (training.pairs, training.valid)
    )
    assert len(training.pairs) + len(training.valid) == 60
    assert len(valid) == 3
    assert len(learned) == 27
    assert not learned & valid


# ------------------------------------------------------------------------------------------------------- errors


VECTORS, PICTURE = np.ones((2, 4)), np.zeros((8, 8), np.uint8)
WRONG: list[tuple[str, Any, type[Exception], str]] = [
    ("sequence", np.ones((2, 3)), ValueError, "an example must have shape (m, size) = (m, 4). Got (2, 3)"),
    ("sequence", np.ones(4), ValueError, "an example must have shape (m, size) = (m, 4). Got (4,) instead."),
    ("sequence", np.ones((0, 4)), ValueError, "an example must have 1 to 100,000 rows. Got 0 instead."),
    ("sequence", VECTORS * np.nan, ValueError, "an example must hold finite numbers. Got nan in row 0"),
    ("sequence", None, TypeError, "an example must hold real numbers. Got NoneType instead."),
    (
        "sequence",
        "some text",
        ValueError,
        "a file of arrays must end in .npy, or be .npz:NAME. Got 'some text'",
    ),
    ("sequence", "\ud800.npy", ValueError, "'utf-8' codec can't encode"),
    (
        "set",
        np.ones((2, 3)),
        ValueError,
        "an example must have shape (m, size) = (m, 1). Got (2, 3) instead.",
    ),
    (
        "images",
        PICTURE[:4],
        ValueError,
        "an image must have shape (height, width, channels) = (8, 8, 1). Got",
    ),
    ("images", PICTURE + 0.5 * np.nan, ValueError, "an image of float64 must have numbers from 0 to 1."),
    ("images", PICTURE.astype(int), TypeError, "an image must hold uint8, or floats from 0 to 1."),
]


@pytest.mark.parametrize(("kind", "example", "type_", "text"), WRONG)
def test_wrong_examples_are_rejected_by_their_number(
    kind: str, example: Any, type_: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources, targets = examples(kind, 30)
    sources[20] = example  # held out or not
    model = untrained("recurrent", kind)
    assert error(type_, model.fit, sources, targets).startswith(f"pair 21: {text}")
    good = examples(kind, 30)
    valid = sources[18:22], targets[18:22]
    assert error(type_, model.fit, *good, valid=valid).startswith(f"pair 3: {text}")
    with pytest.raises(ValueError, match="must be trained or loaded first"):
        model.translate(good[0])
    trained = small("recurrent", kind)
    monkeypatch.setattr(type(trained.model.network), "stepper", None)  # a call of it would fail
    expected = f"source 21: {text}"
    assert error(type_, trained.translate, sources).startswith(expected)
    assert error(type_, trained.sample, sources).startswith(expected)
    assert error(type_, trained.align, sources, targets).startswith(expected)


@every_kind
def test_a_missing_file_is_named(kind: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing.npy"
    assert str(missing) in error(FileNotFoundError, small("recurrent", kind).translate, [missing])
    assert str(missing) in error(FileNotFoundError, untrained("recurrent", kind).fit, [missing], ["a"])


@every_kind
def test_a_single_example_is_not_several(kind: str) -> None:
    model, example = small("recurrent", kind), one_example(kind)
    for sources, described in (
        (example, f"one array of shape {example.shape}"),
        (np.array(3.0), "one array of shape ()"),
        ("x.npy", "str"),
        (Path("x.npy"), type(Path()).__name__),
        (b"x.npy", "bytes"),
        (None, "NoneType"),
        ({0: example}, "dict"),
    ):
        text = f"sources must be a sequence of examples. Got {described} instead.\n  hint: [example], not example"
        for function in (model.translate, model.candidates, model.sample):
            assert error(TypeError, function, sources) == text
        assert error(TypeError, model.align, sources, ["a"]) == text
        assert error(TypeError, untrained("recurrent", kind).fit, sources, ["a"]) == text


def test_a_single_picture_of_channels_is_not_several() -> None:
    for shape, source in (((8, 8, 3), Images(8, 8, 3)), ((8, 8, 1), Images(8, 8))):
        text = error(TypeError, Seq2Seq(source=source).fit, np.zeros(shape), ["a"] * 8)
        assert text.startswith(
            f"sources must be a sequence of examples. Got one array of shape {shape} instead."
        )


@every_kind
def test_there_is_a_target_for_each_source(kind: str) -> None:
    sources, targets = examples(kind, 4)
    text = "targets must be as many as sources. Got 3 for 4 instead."
    assert error(ValueError, small("recurrent", kind).align, sources, targets[:3]) == text
    model = untrained("recurrent", kind)
    assert error(ValueError, model.fit, sources, targets[:3]) == text
    text = error(ValueError, model.fit, sources, targets, valid=(sources, targets[:3]))
    assert text == "the targets of valid must be as many as sources. Got 3 for 4 instead."
    assert error(ValueError, model.fit, sources, ["a", "", "b", "c"]) == "pair 2: the target is empty"
    assert "Got str instead." in error(TypeError, model.fit, sources, "abcd")
    assert "Got none instead." in error(ValueError, model.fit, [], [])


@pytest.mark.parametrize("name", ["translate", "sample", "align", "fit"])
def test_a_model_of_text_reads_no_arrays(name: str) -> None:
    model = Seq2Seq(epochs=1, network=SMALL["recurrent"]).fit(["a b", "b"], ["x y", "y"])
    more = [["x", "y"]] if name in ("align", "fit") else []
    text = error(TypeError, getattr(model, name), [VECTORS, VECTORS], *more)
    assert text == "sources must be texts or sequences of tokens. Sentence 1 is ndarray instead."
    error(TypeError, getattr(model, name), np.stack([VECTORS, VECTORS]), *more)


@every_kind
def test_options_of_tokens_are_rejected(kind: str) -> None:
    source = SOURCES[kind]
    for options in (
        {"lower": True},
        {"lower": False},
        {"extras": {"graphones": 2}},
        {"extras": {"translation_memory": 1}},
    ):
        text = error(ValueError, Seq2Seq, source=source, **options)
        name = next(iter(options))
        assert text == f"{name} must not be given with a source of arrays: it is about the source's tokens."
    text = error(ValueError, Seq2Seq, source=source, network={"inputs": None})
    assert text.startswith("network must have names among ")
    text = error(ValueError, Seq2Seq, source=source, network={"source_tokens": 5})
    assert text.startswith("network must have names among ")
    sources, targets = examples(kind, 4)
    text = error(ValueError, untrained("recurrent", kind).fit, sources, targets, links=[frozenset()] * 4)
    assert text == "links must not be given with a source of arrays: they are between tokens."


def test_layers_of_an_encoder_without_layers_are_rejected() -> None:
    Seq2Seq(source=Vectors(1, "set"), network={"encoder_layers": 2})
    text = error(ValueError, Seq2Seq, source=Images(8, 8), network={"encoder_layers": 2})
    assert text.startswith("encoder_layers needs a source of tokens or vectors; here it has no effect.")


def test_a_source_is_an_object() -> None:
    text = error(ValueError, Seq2Seq, source=Vectors)
    assert text.startswith("source must be one of 'words', ")


# -------------------------------------------------------------------------------------------------- model files


def rewritten(path: Path, model: Seq2Seq, data: dict[str, bytes] | None = None, **metadata: Any) -> Path:
    """A model's file with other metadata: a value is JSON, a function changes what is there, None removes it."""
    model.save(path)
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    del header["__metadata__"]["checksum"]  # which a model file may leave out
    for name, value in metadata.items():
        before = json.loads(header["__metadata__"].pop(name, "null"))
        if value is not None:
            header["__metadata__"][name] = json.dumps(value(before) if callable(value) else value)
    for name, added in (data or {}).items():
        header[name] = {
            "dtype": "U8",
            "shape": [len(added)],
            "data_offsets": [len(body), len(body) + len(added)],
        }
        body += added
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def changed(**values: Any) -> Any:
    return lambda before: before | values


def inputs_changed(**values: Any) -> Any:
    return lambda before: before | {"inputs": before["inputs"] | values}


UNFIT = "its configuration is damaged: the network must read what its source returns. It has "


@pytest.mark.parametrize(
    ("kind", "damage", "text"),
    [
        ("set", {"source": None}, "its configuration is incomplete or damaged"),
        ("set", {"source": []}, "its source is damaged: it is not a JSON object"),
        (
            "set",
            {"source": {}},
            "its source is damaged: the kind of a source must be one of vectors, images.",
        ),
        (
            "set",
            {"source": changed(kind="words")},
            "its source is damaged: the kind of a source must be one of",
        ),
        (
            "set",
            {"source": changed(more=1)},
            "its source is damaged: the settings of vectors must be kind, size",
        ),
        (
            "set",
            {"source": changed(size=0)},
            "its source is damaged: size must be at least 1. Got 0 instead.",
        ),
        (
            "set",
            {"source": changed(size="1")},
            "its source is damaged: size must be an integer. Got '1' instead.",
        ),
        (
            "set",
            {"source": changed(mean=[1, 2])},
            "its source is damaged: mean must be 1 numbers. Got [1, 2]",
        ),
        (
            "set",
            {"source": changed(mean=None)},
            "its source is damaged: mean and scale must be given together.",
        ),
        ("set", {"source": changed(scale=[0])}, "its source is damaged: scale[0] must be greater than 0."),
        ("set", {"source": changed(mean=[float("nan")])}, ""),
        ("set", {"source": changed(scale=[float("inf")])}, ""),
        ("set", {"source": changed(size=2, mean=None, scale=None)}, UNFIT),
        ("set", {"source": changed(positions=1, mean=[0, 0], scale=[1, 1])}, UNFIT),
        ("set", {"source": changed(order="sequence")}, UNFIT),
        ("set", {"source": Images(8, 8).describe()}, UNFIT),
        ("images", {"source": Vectors(16).describe()}, UNFIT),
        ("images", {"source": changed(cell=3)}, "its source is damaged: cell must be a power of 2."),
        ("images", {"source": changed(cell=2)}, UNFIT),
        ("images", {"source": changed(height=16)}, UNFIT),
        ("images", {"source": changed(channels=3)}, UNFIT),
        (
            "set",
            {"config": changed(inputs=None)},
            "its configuration is damaged: source_tokens must be at least 1",
        ),
        (
            "set",
            {"config": changed(inputs=[])},
            "its configuration is damaged: inputs must be an input. Got []",
        ),
        (
            "set",
            {"config": changed(source_tokens=3)},
            "its configuration is damaged: source_tokens must be 0 for",
        ),
        ("set", {"config": inputs_changed(kind="x")}, "its configuration is damaged: inputs must be one of"),
        ("set", {"config": inputs_changed(more=1)}, "its configuration is damaged: "),
        ("set", {"config": inputs_changed(size=2)}, ""),
        ("set", {"config": inputs_changed(order="sequence")}, ""),
        ("images", {"config": inputs_changed(height=2**12)}, ""),
        (
            "images",
            {"config": inputs_changed(filters=[2048] * 12)},
            "its configuration is damaged: height and",
        ),
        ("images", {"config": inputs_changed(filters="32")}, "its configuration is damaged: filters must be"),
        (
            "set",
            {"graphones": {"order": 2}},
            "its configuration is damaged: graphones needs a source of tokens",
        ),
        (
            "images",
            {"translation_memory": {"neighbours": 1}},
            "its configuration is damaged: translation_memory needs a source of tokens",
        ),
        (
            "set",
            {"data": {"source.tokens": b"a\nb"}},
            "its source is damaged: a source of arrays has no data. Got 'tokens' instead.",
        ),
        ("set", {"data": {"graphones.tokens": b"a\nb"}}, "'graphones.tokens' is unknown"),
    ],
)
def test_damaged_files(kind: str, damage: dict[str, Any], text: str, tmp_path: Path) -> None:
    path = rewritten(tmp_path / "m", small("recurrent", kind), **damage)
    message = error(ValueError, read_model, path)
    assert message.startswith(f"{path} is not a model file: {text}")
    assert "\n" not in message


def test_a_model_of_text_has_no_source_of_arrays(tmp_path: Path) -> None:
    model = Seq2Seq(epochs=1, network=SMALL["recurrent"]).fit(["a b", "b"], ["x y", "y"])
    path = rewritten(tmp_path / "m", model, source=Vectors(2).describe())
    assert "its source tokenizer is damaged: " in error(ValueError, read_model, path)


def test_stages_of_other_sizes_are_read(tmp_path: Path) -> None:
    """How many channels a stage has is the file's choice: another version may choose others."""
    model = untrained("recurrent", "images", epochs=1)
    model._network_input = type(model._network_input)(8, 8, 1, (3, 5))  # type: ignore[call-arg, misc, arg-type]
    sources, targets = examples("images", 4)
    model.fit(sources, targets).save(tmp_path / "m")
    assert Seq2Seq.load(tmp_path / "m").translate(sources) == model.translate(sources)


@pytest.mark.parametrize("number", [1e300, -1e300])
def test_a_mean_out_of_range_is_an_error_of_the_example(number: float, tmp_path: Path) -> None:
    path = rewritten(tmp_path / "m", small("recurrent", "set"), source=changed(mean=[number]))
    text = error(ValueError, Seq2Seq.load(path).translate, [[[1.0]]])
    assert text.startswith("source 1: a standardised example must hold numbers that float32 can hold")
