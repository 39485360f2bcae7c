"""Distillation: what teachers label, what a student learns of it, and the file of the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import error

from regard._safetensors import opened, write
from regard.seq2seq import Ensemble, Seq2Seq, TrainingConfig, Vectors, distill
from regard.seq2seq.corpus.pairs import as_pairs
from regard.seq2seq.decoding.forced import RAREST
from regard.seq2seq.distillation import Labels, answerable, label, learnable
from regard.seq2seq.sources.text.vocabulary import END
from regard.seq2seq.translator import Translator

WORDS = [x + y + z for x in "abd" for y in "ae" for z in "abd"]
SIZES = {"embedding": 8, "encoder": 8, "decoder": 12, "attention": 8}
OPTIONS: dict[str, Any] = {
    "source": "characters",
    "target": "tokens",
    "network": SIZES,
    "learning_rate": 0.02,
}


def sounds(word: str) -> str:
    return " ".join(word.upper())


def teacher(seed: int = 1, **options: Any) -> Seq2Seq:
    model = Seq2Seq(seed=seed, **{"epochs": 12, **OPTIONS, **options})
    return model.fit(WORDS, list(map(sounds, WORDS)), valid=(WORDS[:2], list(map(sounds, WORDS[:2]))))


@pytest.fixture(scope="module")
def two() -> list[Seq2Seq]:
    """Two teachers that have learned a spelling, and differ."""
    return [teacher(1), teacher(2)]


@pytest.fixture(scope="module")
def complete() -> Seq2Seq:
    """A teacher with both extras."""
    return teacher(extras={"translation_memory": 1, "graphones": 3})


def loaded(model: Translator, words: list[str]) -> list[Any]:
    return [model.model.source.load(word) for word in words]


def labelled(model: Translator, sources: list[str], pairs: list[str] = [], **options: Any) -> Labels:  # noqa: B006
    given = [(word, sounds(word)) for word in pairs]
    read = as_pairs(given, model.model.source, model.model.target) if given else []
    return label(model, read, loaded(model, sources), **options)


def as_text(labels: Labels) -> list[tuple[str, str]]:
    return [(source.name, target.name) for source, target in labels.pairs]


# ------------------------------------------------------------------------------------------------------ labels


def test_pairs_keep_their_targets_and_other_sources_get_answers(two: list[Seq2Seq]) -> None:
    words = ["ddaab", "abaab"]
    labels = labelled(two[0], [*words, "aab"], ["aab", "dab"])
    answers = [translation.text for translation in two[0].translate(words)]
    given = [("aab", "A A B"), ("dab", "D A B")]
    assert as_text(labels) == [*given, *zip(words, answers, strict=True)]
    for (_, target), soft in zip(labels.pairs, labels.taught.soft, strict=True):
        assert len(soft.tokens) == len(target) + 1  # END, too


@pytest.mark.parametrize("number", [1, 2])
def test_answers_and_distributions_are_those_of_the_complete_teacher(
    complete: Seq2Seq, two: list[Seq2Seq], number: int
) -> None:
    """The network reads what the memory appends, and the answers are reranked; an ensemble takes the mean."""
    model: Translator = complete if number == 1 else Ensemble(two)
    labels = labelled(model, WORDS, n_best=1, top_k=4)
    texts = [translation.text for translation in model.translate(WORDS)]
    assert as_text(labels) == list(zip(WORDS, texts, strict=True))
    aligned = model.align(WORDS, texts)
    agreeing = 0
    for translation, (_, target), soft in zip(aligned, labels.pairs, labels.taught.soft, strict=True):
        ids = np.array([*model.model.target.encode(target.content), END])
        np.testing.assert_array_equal(soft.tokens[:, 0], ids)
        if (soft.log_probabilities[:, 1:] > RAREST).all():  # the network finds no other token more probable
            agreeing += 1
            assert soft.log_probabilities[:, 0].sum() == pytest.approx(translation.log_probability, abs=1e-4)
    assert agreeing


def test_a_target_that_the_network_does_not_predict_is_learned_alone(two: list[Seq2Seq]) -> None:
    model = two[0]
    read = as_pairs([("dab", "D A B"), ("dab", "D E B")], model.model.source, model.model.target)
    labels = label(model, read, [], top_k=3)
    known = model.distributions(*zip(*read, strict=True), top_k=3)
    places = []
    for (_, target), soft, own in zip(read, labels.taught.soft, known, strict=True):
        for i, token in enumerate([*model.model.target.encode(target.content), END]):
            probabilities = np.exp(own.log_probabilities[i] - own.log_probabilities[i, 0])
            expected = probabilities / probabilities.sum() if own.tokens[i, 0] == token else [1, 0, 0]
            np.testing.assert_allclose(soft.probabilities()[i], expected, rtol=1e-6)
            assert soft.tokens[i, 0] == token
            places.append(own.tokens[i, 0] == token)
    assert {*places} == {True, False}


@pytest.mark.parametrize("count", [2, 5])
def test_an_answer_is_learned_as_often_as_its_share(two: list[Seq2Seq], count: int) -> None:
    words = ["edd", "ebae", "dadadada"]
    labels = labelled(two[1], words, n_best=count)
    for word in words:
        several = two[1].candidates([word], n_best=count)[0]
        # Without a reranker, the mean log-probability chooses.
        shares = np.exp([one.score * (len(several[0].ids) + 1) for one in several])
        times = [round(count * share / shares.sum()) for share in shares]
        learned = [target for source, target in as_text(labels) if source == word]
        assert [learned.count(one.text) for one in several] == [max(times[0], 1), *times[1:]]
    assert len(labels.pairs) > len(words)


def test_answers_that_the_search_cut_off_are_not_learned(
    two: list[Seq2Seq], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = two[0].model
    network = model.network
    kept = network.parameters["output_bias"].copy()
    network.parameters["output_bias"][2] = -1e4  # END
    try:
        labels = labelled(two[0], ["ab"], ["aab"])
    finally:
        network.parameters["output_bias"][...] = kept
    assert as_text(labels) == [("aab", "A A B")]


def test_what_a_teacher_cannot_read_is_left_out_with_its_reason(two: list[Seq2Seq]) -> None:
    chosen = answerable(two[0], loaded(two[0], ["dab", "dxb", "dab", "", "aaaa"]), 3)
    assert [one.name for one in chosen.kept] == ["dab"]
    assert [(one.name, why) for one, why in chosen.left_out.items()] == [
        ("dxb", "the teacher does not know 'x'"),
        ("", "0 tokens, and a student learns from 1 to 3"),
        ("aaaa", "4 tokens, and a student learns from 1 to 3"),
    ]
    given = [("dab", "D A B"), ("dib", "D I B"), ("dab", "D AH B"), ("dab", "D A A B"), ("daab", "D A B")]
    pairs = learnable(two[0], as_pairs(given, two[0].model.source, two[0].model.target), 3)
    assert [target.name for _, target in pairs.kept] == ["D A B"]
    long = "a student learns from 1 to 3 tokens of each side"
    reasons = ["the teacher does not know 'i'", "the teacher does not know 'AH'", long, long]
    assert list(pairs.left_out.values()) == reasons


def test_distributions_of_a_target_that_is_too_long_are_an_error(two: list[Seq2Seq]) -> None:
    with pytest.raises(ValueError, match=r"target 2: .*1,?001"):
        two[0].distributions(["dab", "dab"], ["D A B", " ".join(["A"] * 1001)])


# ------------------------------------------------------------------------------------------------ the file of labels


def test_labels_are_read_from_their_file(
    two: list[Seq2Seq], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "labels"
    first = labelled(two[0], WORDS[3:], WORDS[:3], n_best=3, path=path)
    monkeypatch.setattr(Translator, "candidates", None)
    monkeypatch.setattr(Translator, "distributions", None)
    again = labelled(two[0], WORDS[3:], WORDS[:3], n_best=3, path=path)
    assert first.pairs == again.pairs
    assert as_text(first) == as_text(again)
    for one, other in zip(first.taught.soft, again.taught.soft, strict=True):
        np.testing.assert_array_equal(one.tokens, other.tokens)
        np.testing.assert_array_equal(one.log_probabilities, other.log_probabilities)


@pytest.mark.parametrize("change", ["teacher", "sources", "pairs", "n_best", "top_k"])
def test_labels_of_others_are_not_taken(two: list[Seq2Seq], tmp_path: Path, change: str) -> None:
    path = tmp_path / "labels"
    given: dict[str, Any] = {"sources": WORDS[3:6], "pairs": WORDS[:3], "n_best": 1, "top_k": 2}
    other: dict[str, Any] = {"sources": WORDS[3:5], "pairs": WORDS[:2], "n_best": 2, "top_k": 3}
    labelled(two[0], **given, path=path)
    model = two[change == "teacher"]
    changed = {**given, **({change: other[change]} if change in other else {})}
    text = error(ValueError, labelled, model, **changed, path=path)
    assert text.startswith(f"{path} has labels of other teachers, pairs, sources or options.")
    labelled(model, **changed, path=path, replace=True)
    labelled(model, **changed, path=path)


DAMAGES: dict[str, Any] = {
    "its distributions must have": lambda arrays: (
        arrays | {"log_probabilities": arrays["log_probabilities"][1:]}
    ),
    "it must have answers": lambda arrays: {n: a for n, a in arrays.items() if n != "tokens"},
    "answers are cut off": lambda arrays: arrays | {"answers": arrays["answers"][:-1]},
    "it must have a source": lambda arrays: arrays | {"sources": arrays["sources"][4:]},
    "tokens must be less than": lambda arrays: arrays | {"tokens": arrays["tokens"] | 128},
    "numbers that are not finite": lambda arrays: (
        arrays | {"log_probabilities": arrays["log_probabilities"] * np.nan}
    ),
    "the number of a source": lambda arrays: arrays | {"sources": arrays["sources"] | 64},
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_damaged_file_is_an_error(two: list[Seq2Seq], tmp_path: Path, reason: str) -> None:
    path = tmp_path / "labels"
    labelled(two[0], WORDS[3:], WORDS[:3], path=path)
    with opened(path, "file") as file:
        arrays, metadata = {name: file.array(name) for name in file.tensors}, dict(file.metadata)
    write(path, DAMAGES[reason](arrays), metadata)
    text = error(ValueError, labelled, two[0], WORDS[3:], WORDS[:3], path=path)
    assert text.startswith(f"{path} is not a file of labels: ")
    assert reason in text


# ------------------------------------------------------------------------------------------------------ students


@pytest.mark.slow
def test_a_student_learns_what_its_teacher_knows(complete: Seq2Seq) -> None:
    right = [translation.text for translation in complete.translate(WORDS)]
    student = distill(complete, Seq2Seq(epochs=60, **OPTIONS), WORDS)
    answers = [translation.text for translation in student.translate(WORDS, beam=1)]
    assert sum(map(str.__eq__, answers, right)) > len(WORDS) / 2
    assert not student.model.extras
    assert student.model.source.settings() == complete.model.source.settings()
    assert student.model.target.data() == complete.model.target.data()


@pytest.mark.parametrize("family", ["recurrent", "transformer"])
def test_a_student_is_of_any_family_and_an_ordinary_file(
    two: list[Seq2Seq], tmp_path: Path, family: str
) -> None:
    sizes = {"model_size": 8, "heads": 2, "feedforward_size": 8} if family == "transformer" else SIZES
    options = OPTIONS | {"family": family, "network": sizes}
    student = distill(
        Ensemble(two), Seq2Seq(epochs=1, **options), WORDS[5:], pairs=(WORDS[:5], map_(WORDS[:5]))
    )
    student.save(tmp_path / "model")
    again = Seq2Seq.load(tmp_path / "model")
    assert [t.text for t in again.translate(WORDS)] == [t.text for t in student.translate(WORDS)]


def map_(words: list[str]) -> list[str]:
    return list(map(sounds, words))


@pytest.mark.parametrize("kind", ["words", "subwords"])
@pytest.mark.threads
def test_a_teacher_of_other_tokens(kind: str) -> None:
    """Unknown words have answers with <unk>, and the pieces of a subword model are not cut again."""
    texts = [f"the {a} {b}" for a in ("cat", "dog", "red fox") for b in ("sleeps", "sees the cat", "walks")]
    options: dict[str, Any] = {"source": kind, "target": kind, "network": SIZES, "learning_rate": 0.02}
    if kind == "subwords":
        options["vocabulary"] = 30
    model = Seq2Seq(epochs=30, **options).fit(
        texts, [text.upper() for text in texts], valid=(texts[:1], [texts[0].upper()])
    )
    sources = [*texts, "the zebra sees the cat"] if kind == "words" else texts
    labels = labelled_texts(model, sources)
    assert [source.name for source, _ in labels.pairs]
    student = distill(model, Seq2Seq(epochs=1, **options), sources, valid=(texts[:1], [texts[0].upper()]))
    assert student.model.target.data() == model.model.target.data()
    for (_, target), soft in zip(labels.pairs, labels.taught.soft, strict=True):
        assert len(soft.tokens) == len(target) + 1


def labelled_texts(model: Seq2Seq, sources: list[str]) -> Labels:
    return label(model, [], loaded(model, sources))


def test_held_out_sources_are_not_answered(two: list[Seq2Seq], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    candidates = Translator.candidates

    def listening(self: Translator, sources: Any, **options: Any) -> Any:
        asked.extend(source.name for source in sources)
        return candidates(self, sources, **options)

    monkeypatch.setattr(Translator, "candidates", listening)
    student = Seq2Seq(epochs=1, **OPTIONS)
    distill(
        two[0], student, WORDS[:6], pairs=(WORDS[4:9], map_(WORDS[4:9])), valid=(WORDS[:2], map_(WORDS[:2]))
    )
    assert asked == WORDS[2:4]


def test_weight_and_temperature_matter_and_nothing_else_does(two: list[Seq2Seq]) -> None:
    found = []
    for weight, temperature in ((0.0, 1.0), (0.0, 2.0), (0.5, 1.0), (0.5, 2.0), (0.5, 1.0)):
        training = TrainingConfig(epochs=1, soft_weight=weight, temperature=temperature)
        student = distill(two[0], Seq2Seq(training=training, **OPTIONS), WORDS)
        found.append(student.model.network.parameters.flat.tobytes())
    assert found[0] == found[1]
    assert found[2] == found[4]
    assert len({*found}) == 3


@pytest.mark.slow
def test_a_distillation_is_resumed_exactly(two: list[Seq2Seq], tmp_path: Path) -> None:
    files = {"labels": tmp_path / "labels", "checkpoint": tmp_path / "checkpoint"}
    options = OPTIONS | {"training": TrainingConfig(epochs=4, batch_tokens=20)}
    whole = distill(two[0], Seq2Seq(**options), WORDS)
    student = Seq2Seq(**options)

    def stop(step: Any) -> None:
        if step.number == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(two[0], student, WORDS, **files, listener=stop)
    assert files["checkpoint"].exists()
    steps: list[int] = []
    resumed = distill(
        two[0], Seq2Seq(**options), WORDS, **files, listener=lambda step: steps.append(step.number)
    )
    assert steps[0] > 1
    assert resumed.model.network.parameters.flat.tobytes() == whole.model.network.parameters.flat.tobytes()


# ------------------------------------------------------------------------------------------------------ errors


def test_wrong_arguments_are_refused(two: list[Seq2Seq]) -> None:
    student = Seq2Seq(epochs=1, **OPTIONS)
    pictures = Seq2Seq(source=Vectors(2), target="tokens", epochs=1).fit([[[1.0, 2.0]]] * 2, ["a", "b"])
    for kind, arguments, options, text in (
        (ValueError, (two[0], student), {}, "there must be sources that the teacher can answer, or pairs."),
        (
            ValueError,
            (two[0], student, ["x"]),
            {},
            "there must be sources that the teacher can answer, or pairs.",
        ),
        (TypeError, ("runs/en", student, WORDS), {}, "teacher must be a Translator. Got 'runs/en' instead."),
        (TypeError, (two[0], two, WORDS), {}, "student must be a Seq2Seq."),
        (TypeError, (two[0], student, "dab"), {}, "sources must be a sequence of examples."),
        (
            ValueError,
            (pictures, student, WORDS),
            {},
            "the teacher must be a model of text. Got one of vectors",
        ),
        (ValueError, (two[0], Seq2Seq(), WORDS), {}, "the student must have the token types of the teacher."),
        (ValueError, (two[0], student, WORDS), {"n_best": 0}, "n_best must be at least 1. Got 0 instead."),
        (ValueError, (two[0], student, WORDS), {"top_k": 0}, "top_k must be at least 1. Got 0 instead."),
        (TypeError, (two[0], student, WORDS), {"pairs": WORDS}, "pairs must be (sources, targets)."),
        (
            ValueError,
            (two[0], student),
            {"pairs": (WORDS, ["A"])},
            "the targets of pairs must be as many as sources.",
        ),
        (ValueError, (Seq2Seq(**OPTIONS), student, WORDS), {}, "the model must be trained or loaded first."),
    ):
        assert error(kind, distill, *arguments, **options).startswith(text)


@pytest.mark.parametrize("name", ["soft_weight"])
def test_options_of_teachers_need_them(name: str) -> None:
    model = Seq2Seq(training=TrainingConfig(epochs=1, **{name: 0.5}))
    text = error(ValueError, model.fit, ["a"], ["b"])
    assert text.startswith(f"{name} must be 0 without teachers. Got 0.5 instead.")
