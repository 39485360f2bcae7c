"""Seq2Seq: training, translating, saving and resuming."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import assert_raises, error, transcript
from own_extras import Similar

from regard.seq2seq import Seq2Seq, TrainingConfig, translator
from regard.seq2seq.corpus.batching import Corpus, EncodedPair, Links
from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.corpus.splits import hold_out
from regard.seq2seq.decoding.forced import force
from regard.seq2seq.sources import Source, Spec
from regard.seq2seq.sources.text.tokenizers import Tokenizer
from regard.seq2seq.sources.text.vocabulary import END, UNKNOWN
from regard.seq2seq.training.defaults import choose_config, choose_training
from regard.seq2seq.training.session import begin, take_steps


def test_hold_out_shares_no_source() -> None:
    pairs = [(str(i // 2), str(i)) for i in range(100)]
    training, validation = hold_out(pairs)
    assert len(validation) == 10  # 5 of 50 sources, two pairs each
    assert not {source for source, _ in training} & {source for source, _ in validation}
    assert sorted(training + validation) == sorted(pairs)
    assert hold_out(pairs) == (training, validation)


@pytest.mark.parametrize(("count", "held_out"), [(20, 2), (99, 9), (150, 10), (400, 20), (20_000, 500)])
def test_more_than_one_source_is_held_out(count: int, held_out: int) -> None:
    training, validation = hold_out([(str(i), "") for i in range(count)])
    assert (len(training), len(validation)) == (count - held_out, held_out)


@pytest.mark.parametrize("kind", ["words", "characters", "tokens"])
def test_pairs_that_are_too_long_for_validation_are_not_held_out(kind: str) -> None:
    pairs = [(f"{i} " * 40, "a") for i in range(300)] + [(f"{i:02}", "b") for i in range(60)]
    training = begin(Seq2Seq(source=kind, target=kind, max_tokens=5, epochs=1), pairs)
    assert (len(training.pairs), len(training.valid)) == (54, 6)


def test_of_few_sources_none_is_held_out() -> None:
    pairs = [(str(i), "") for i in range(19)]
    assert hold_out(pairs) == (pairs, pairs)


# --------------------------------------------------------------------------------------------------- training


def reversals(count: int, seed: int, longest: int = 4) -> list[tuple[str, str]]:
    rng = np.random.default_rng(seed)
    words = [[f"w{i}" for i in rng.integers(0, 6, rng.integers(1, longest + 1))] for _ in range(count)]
    return [(" ".join(w), " ".join(reversed(w))) for w in words]


def fitted(pairs: Any, **options: Any) -> Seq2Seq:
    return Seq2Seq(**options).fit([source for source, _ in pairs], [target for _, target in pairs])


@pytest.fixture(scope="module")
def reverser() -> Seq2Seq:
    return fitted(reversals(300, 0, longest=3), epochs=14)


@pytest.mark.slow
def test_it_learns_to_reverse_unseen_sentences(reverser: Seq2Seq) -> None:
    known = reversals(300, 0, longest=3)
    unseen = [pair for pair in reversals(200, 1, longest=3) if pair not in known]
    assert len(unseen) > 20
    translations = reverser.translate([source for source, _ in unseen])
    assert [translation.text for translation in translations] == [target for _, target in unseen]


def test_it_attends_to_the_word_that_it_translates(reverser: Seq2Seq) -> None:
    (translation,) = reverser.translate(["w1 w2 w3"])
    assert translation.tokens == ("w3", "w2", "w1")
    assert translation.source == ("w1", "w2", "w3", "</s>")
    assert translation.alignment is not None
    assert translation.alignment.argmax(axis=1).tolist() == [2, 1, 0]
    assert translation.score < 0


def test_an_unknown_word_is_copied_once(reverser: Seq2Seq) -> None:
    network = reverser.network
    before = network.parameters["output_bias"].copy()
    network.parameters["output_bias"][UNKNOWN] += 1e3  # a model that can't name anything
    network.parameters["output_bias"][END] -= 1e3
    (translation,) = reverser.translate(["w1 Xyz"], beam=1)
    network.parameters["output_bias"][...] = before
    assert translation.tokens[0] == "Xyz"
    assert UNKNOWN not in translation.ids[1:]


def test_empty_sentences_stay_empty_and_in_order(reverser: Seq2Seq) -> None:
    translations = reverser.translate(["", "w1 w2", "   "])
    assert [translation.text for translation in translations] == ["", "w2 w1", ""]
    assert reverser.translate([]) == []


def test_empty_pairs_are_decoded_once(reverser: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [
        reverser.align([source], [target])[0] for source, target in [("", ""), ("w1", ""), ("", "w2")]
    ]
    decoded: list[int] = []

    def counting(network: Any, source: Any, *rest: Any, **options: Any) -> Any:
        decoded.append(source.shape[1])
        return force(network, source, *rest, **options)

    monkeypatch.setattr(translator, "force", counting)
    aligned = reverser.align(["", "w1", " ", "", "\t"], ["", "", "", "w2", "\u200b"])
    assert sum(decoded) == 3
    for one, i in zip(aligned, [0, 1, 0, 2, 0], strict=True):
        assert (one.tokens, one.source, one.text) == (
            expected[i].tokens,
            expected[i].source,
            expected[i].text,
        )
        assert one.score == pytest.approx(expected[i].score, rel=1e-5)


class Column:
    """Of a table, as pandas has them: no sequence for Python."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    def tolist(self) -> list[str]:
        return self.texts


@pytest.mark.parametrize("make", [Column, lambda *texts: np.array(texts)])
def test_columns_and_arrays_are_sentences(make: Any) -> None:
    one, two = ["a b", "b"], ["c", "d c"]
    model = Seq2Seq(epochs=2).fit(make(*one), make(*two), valid=(make(*one), make(*two)))
    assert (
        model.network.parameters.flat
        == Seq2Seq(epochs=2).fit(one, two, valid=(one, two)).network.parameters.flat
    ).all()
    assert model.translate(make(*one)) == model.translate(one)
    assert model.align(make(*one), make(*two)) == model.align(one, two)
    assert model.sample(make(*one)) == model.sample(one)


def test_translating_is_checked(reverser: Seq2Seq) -> None:
    long = error(ValueError, reverser.translate, ["w1", "w1 " * 1001])
    assert long == "source 2: 1001 tokens; at most 1000 are allowed"
    text = error(ValueError, reverser.translate, ["w1"], beam=0)
    assert text == "beam must be at least 1. Got 0 instead."
    for sources in (["w1"], [""]):
        text = error(ValueError, reverser.candidates, sources, beam=2, n_best=5)
        assert text == "n_best must be at most beam = 2. Got 5 instead."


@pytest.mark.slow
@pytest.mark.parametrize("stops", [(0,), (3,), (20,), (3, 9, 30)])
@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_a_closed_generator_can_be_resumed(stops: tuple[int, ...], ema_decay: float) -> None:
    """After a stop, the model has the best parameters, the training the current ones."""

    def trained(stops: tuple[int, ...]) -> tuple[bytes, list[float]]:
        model = Seq2Seq(epochs=3, training=TrainingConfig(ema_decay=ema_decay))
        training, losses = begin(model, reversals(200, 1)), []
        for stop in (*stops, None):
            for step in take_steps(model, training):
                losses.append(step.loss)
                if step.number == stop:
                    break
            parameters = model.network.parameters.flat
            assert np.array_equal(parameters, training.best)
        return parameters.tobytes(), losses

    assert trained(stops) == trained(())


@pytest.mark.parametrize("content", [b"no checkpoint", None])
def test_a_checkpoint_that_does_not_fit_is_an_error_before_training(
    content: bytes | None, tmp_path: Path
) -> None:
    checkpoint, pairs = tmp_path / "it", reversals(60, 1)
    model = fitted(pairs, epochs=2)
    before = model.model
    if content is None:  # of another training
        for _ in Seq2Seq(epochs=1).steps(pairs[:30], checkpoint=checkpoint):
            break
    else:
        checkpoint.write_bytes(content)
    bytes_before = checkpoint.read_bytes()
    with pytest.raises(ValueError, match=r"give another name, or remove the file|remove it to begin anew"):
        model.fit(*zip(*pairs, strict=True), checkpoint=checkpoint)
    assert model.model is before
    assert checkpoint.read_bytes() == bytes_before


def test_a_checkpoint_is_removed_where_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "it")
    for step in Seq2Seq(epochs=2).steps(reversals(40, 1), checkpoint=tmp_path / "link"):
        if step.number == 1:
            break
    assert (tmp_path / "it").exists()
    fitted(reversals(40, 1), epochs=2)
    Seq2Seq(epochs=2).fit(*zip(*reversals(40, 1), strict=True), checkpoint=tmp_path / "link")
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_checked_before_slow_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Similar, "learn", None)  # a call of it would fail
    model = Seq2Seq(family="transformer", extras={"similar": 1, "lengths": 3}, network={"heads": 256})
    with pytest.raises(ValueError, match="model_size must be a multiple of heads = 256"):
        model.fit(["a"] * 9, ["b"] * 9)


def test_validation_pairs_are_checked() -> None:
    with pytest.raises(TypeError, match="pair 1 must be a source and a target"):
        begin(Seq2Seq(epochs=1), reversals(40, 1), ["ab", "cd"])  # type: ignore[list-item]
    training = begin(Seq2Seq(epochs=1), reversals(40, 1), [("w1", ""), ("w1", "w1")])
    assert len(training.valid) == 1


def test_numpy_s_numbers_are_sizes() -> None:
    assert Seq2Seq(network={"decoder": np.int64(12)}).network_options == {"decoder": 12}


ERRORS = """\
Seq2Seq(epochs=0)
    ValueError: epochs must be at least 1. Got 0 instead.
Seq2Seq(vocabulary=4)
    ValueError: vocabulary must be at least 5. Got 4 instead.
Seq2Seq(vocabulary=5, target="subwords")
    ValueError: vocabulary must be at least 6. Got 5 instead.
Seq2Seq(max_tokens=0)
    ValueError: max_tokens must be at least 1. Got 0 instead.
Seq2Seq(min_count=0)
    ValueError: min_count must be at least 1. Got 0 instead.
Seq2Seq(lower=3)
    TypeError: lower must be True or False. Got 3 instead.
Seq2Seq(attention=False, network={"score": "dot"})
    ValueError: score must not be given without attention. Got 'dot' instead.
Seq2Seq(min_count=2, source="subwords", target="subwords")
    ValueError: min_count must not be given with subwords, which are frequent by themselves. Got 2 instead.
Seq2Seq(subwords="bpe")
    ValueError: subwords must not be given where neither side has any. Got 'bpe' instead.
Seq2Seq(subwords="bp", target="subwords")
    ValueError: subwords must be one of 'unigram', 'bpe'. Got 'bp' instead.
      hint: did you mean 'bpe'?
Seq2Seq(network={"attention": 0})
    ValueError: attention must be at least 1 unless the score is "none". Got 0 instead.
Seq2Seq(network={"input_feeding": True})
    ValueError: input_feeding needs the style luong; here it has no effect. Got True instead.
      hint: leave it out
Seq2Seq(network={"score": "general", "attention": 9})
    ValueError: attention needs a score that projects states, such as additive; here it has no effect. Got 9 instead.
      hint: leave it out
Seq2Seq().translate(["w1"])
    ValueError: the model must be trained or loaded first.
      hint: fit(sources, targets) or Seq2Seq.load(path)
Seq2Seq(training=TrainingConfig(guided_alignment=3.0)).fit(["a"], ["b"])
    ValueError: guided_alignment needs links, whose loss it weighs. Got no links instead.
Seq2Seq(attention=False).fit(["a"], ["b"], links=[{(0, 0)}])
    ValueError: links must not be given without attention: they are targets of its weights.
Seq2Seq().fit(["a b"], ["c"], links=[frozenset({(2, 0)})])
    ValueError: links must be between tokens of their pair. Pair 1 has 2 and 1; got (2, 0) instead.
Seq2Seq(max_tokens=2).fit(["a b c"], ["a"])
    ValueError: no training pair has between 1 and 2 (max_tokens) tokens on both sides: 1 pair given
Seq2Seq(max_tokens=2).fit(["a", " "], ["a", "b"])
    ValueError: pair 2: the source is empty
Seq2Seq(max_tokens=2).fit([], [])
    ValueError: there must be sentence pairs. Got none instead.
Seq2Seq(min_count=2).fit(["a a", "b", "a"], ["c", "d", "e"])
    ValueError: target: there must be tokens to learn: in 3 texts none comes at least 2 times.
      hint: min_count=1 learns them all
Seq2Seq().fit(["a"], ["b"], valid=(["a"],))
    TypeError: valid must be (sources, targets). Got (['a'],) instead.
Seq2Seq().fit(["a"], ["b"], listener=5)
    TypeError: listener must be a function. Got int instead.
"""


def test_options_and_pairs_are_checked() -> None:
    for call, text in transcript(ERRORS):
        assert_raises(call, text, globals())


@pytest.mark.parametrize(
    "options",
    [
        {"style": "luong", "input_feeding": False},
        {"score": "scaled_dot", "attention": 9},
    ],
    ids=str,
)
def test_an_option_with_an_effect_has_it(options: dict[str, Any]) -> None:
    pairs = reversals(8, 0)
    sides = [source for source, _ in pairs], [target for _, target in pairs]
    one, other = (
        Seq2Seq(epochs=1, network=network).fit(*sides).network
        for network in (options, dict(list(options.items())[:-1]))
    )
    same_shapes = one.config.shapes() == other.config.shapes()
    assert not (same_shapes and (one.parameters.flat == other.parameters.flat).all())


@pytest.mark.parametrize(
    "options",
    [
        {"network": {"embedding": 10**12}},
        {"network": {"decoder": 10**9}},
        {"network": {"attention": 10**30}},
        {"family": "transformer", "network": {"feedforward_size": 10**12}},
    ],
    ids=str,
)
def test_a_network_too_large_for_memory_is_rejected_before_allocation(options: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^network must have at most 1099511627776 parameters. Got \d{13,} instead.\n"
    ):
        Seq2Seq(**options)


@pytest.mark.parametrize("value", ["no", 3, None, 0])
def test_attention_is_true_or_false(value: Any) -> None:
    text = error(TypeError, Seq2Seq, attention=value)
    assert text == f"attention must be True or False. Got {value!r} instead."


@pytest.mark.parametrize("value", [3, 0, [1], [], "a"])
def test_options_have_their_types(value: Any) -> None:
    text = error(TypeError, Seq2Seq, network=value)
    assert text == f"network must be a mapping from names to values. Got {value!r} instead."
    with pytest.raises(TypeError, match=r"^training must be a TrainingConfig\. Got "):
        Seq2Seq(training=value)


def test_options_of_training_may_be_given_by_themselves() -> None:
    short: dict[str, Any] = {"epochs": 2, "minutes": 3, "learning_rate": 0.5, "seed": 7}
    assert Seq2Seq(**short).training == TrainingConfig(**short)
    whole = TrainingConfig(**short | {"dropout": 0.3, "seed": 1})
    assert Seq2Seq(training=whole, seed=7).training == TrainingConfig(**short, dropout=0.3)


def test_names_of_options_are_checked() -> None:
    with pytest.raises(
        ValueError, match=r"^network must have names among embedding, encoder, .* Got 'size' instead.$"
    ):
        Seq2Seq(network={"size": 3})
    with pytest.raises(ValueError, match=r"^source must be one of"):
        Seq2Seq(source="letters")


@pytest.mark.slow
@pytest.mark.parametrize(("target", "known"), [("words", False), ("characters", True)])
def test_words_of_the_source_are_rare_where_those_of_the_target_are(target: str, known: bool) -> None:
    """A rare word of the source could only become a rare word of the target."""
    model = Seq2Seq(target=target)
    pairs = [(f"a r{i}", "b") for i in range(5000)]  # half of the source, nothing of the target
    begin(model, pairs, pairs[:9])
    assert ("r1" in model.model.source.tokenizer.tokens) == known


@pytest.mark.slow
def test_a_vocabulary_of_one_word_is_enough() -> None:
    model = Seq2Seq(epochs=150).fit(["a", "b", "a b", "b a"], ["x", "x", "x x", "x x"])
    assert [t.text for t in model.translate(["a", "b a"])] == ["x", "x x"]


def test_the_fingerprint_does_not_depend_on_the_type_of_a_number() -> None:
    pairs = [("a b", "c"), ("b", "c d")]

    def mark(**options: Any) -> dict[str, str]:
        return begin(Seq2Seq(training=TrainingConfig(epochs=1, **options)), pairs, pairs).fingerprint()

    assert mark(dropout=0.25, guided_alignment=0) == mark(dropout=np.float64(0.25), guided_alignment=0.0)
    assert mark(dropout=0.25) != mark(dropout=0.5)


@pytest.mark.threads
def test_subwords_may_be_merged_pairs(tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": "subwords", "vocabulary": 30, "epochs": 1}
    for subwords, method in ((None, "unigram"), ("unigram", "unigram"), ("bpe", "bpe")):
        model = Seq2Seq(subwords=subwords, **options).fit(["low", "lower", "new"], ["low", "lower", "newer"])
        assert model.model.target.describe()["method"] == method
        model.save(tmp_path / "m")
        assert Seq2Seq.load(tmp_path / "m").subwords == method


@pytest.mark.parametrize("pairs", [30, 1200])
def test_the_score_dot_has_sizes_that_fit(pairs: int) -> None:
    for sizes in ({}, {"encoder": 24}, {"decoder": 48}):
        config = choose_config(
            "recurrent", pairs, Spec(tokens=9), 9, {"style": "luong", "score": "dot", **sizes}
        )
        assert config.decoder == 2 * config.encoder  # type: ignore[union-attr]
        assert Seq2Seq(network={"style": "luong", "score": "dot", **sizes}).network_options["score"] == "dot"


@pytest.mark.parametrize(("pairs", "rate"), [(99_999, 5e-3), (100_000, 2e-3)])
def test_many_pairs_have_a_lower_rate(pairs: int, rate: float) -> None:
    corpus = Corpus([EncodedPair([4, 2], [1, 4, 2])] * pairs)
    config = choose_config("recurrent", pairs, Spec(tokens=9), 9, {})
    assert choose_training(config, corpus, TrainingConfig()).learning_rate == pytest.approx(rate)
    assert choose_training(config, corpus, TrainingConfig(learning_rate=0.5)).learning_rate == 0.5


@pytest.mark.parametrize(
    ("pairs", "minutes", "encoder", "rate"),
    [(16_000, 1, 128, 5e-3), (16_001, 1, 64, 8e-3), (16_001, 0.25, 32, 12.8e-3), (64_000, None, 128, 5e-3)],
)
def test_short_trainings_have_small_networks(
    pairs: int, minutes: float | None, encoder: int, rate: float
) -> None:
    config = choose_config("recurrent", pairs, Spec(tokens=9), 9, {}, minutes)
    assert config.encoder == encoder  # type: ignore[union-attr]
    assert choose_config("recurrent", pairs, Spec(tokens=9), 9, {"encoder": 7}, minutes).encoder == 7  # type: ignore[union-attr]
    corpus = Corpus([EncodedPair([4, 2], [1, 4, 2])] * pairs)
    assert choose_training(config, corpus, TrainingConfig(minutes=minutes)).learning_rate == pytest.approx(
        rate
    )


@pytest.mark.parametrize(
    ("pairs", "minutes", "width", "rate"),
    [(8_000, 4, 256, 1e-3), (8_001, 4, 128, 2.5e-3), (8_001, 1, 64, 6.25e-3), (50_000, None, 256, 1e-3)],
)
def test_a_transformer_is_small_up_to_a_longer_time(
    pairs: int, minutes: float | None, width: int, rate: float
) -> None:
    corpus = Corpus([EncodedPair([4, 2], [1, 4, 2])] * pairs)
    config = choose_config("transformer", pairs, Spec(tokens=9), 9, {}, minutes)
    assert config.model_size == width  # type: ignore[union-attr]
    assert choose_training(config, corpus, TrainingConfig(minutes=minutes)).learning_rate == pytest.approx(
        rate
    )
    large = choose_config("transformer", pairs, Spec(tokens=9), 9, {"model_size": 256}, minutes)
    assert (
        choose_training(large, corpus, TrainingConfig(minutes=minutes)).learning_rate == 1e-3
    )  # which a smaller one would allow


@pytest.mark.slow
def test_a_loaded_model_can_be_trained_again_as_it_was(tmp_path: Path) -> None:
    sizes = {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1, "decoder_layers": 1}
    first = Seq2Seq(family="transformer", network=sizes, target="characters", epochs=1).fit(
        ["a", "b"], ["b", "a"]
    )
    first.save(tmp_path / "m")
    again = Seq2Seq.load(tmp_path / "m")
    again.fit(["a", "b"], ["b", "a"])
    assert again.network.config == first.network.config
    assert again.model.target.token_type == "characters"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"lower": False, "normalization": "NFKC"}, {"source": "characters", "lower": True}]
)
def test_a_loaded_model_tokenizes_text_as_before(options: dict[str, Any], tmp_path: Path) -> None:
    first = Seq2Seq(epochs=1, **options).fit(["A ﬁ", "b"], ["b", "a"])
    first.save(tmp_path / "m")
    again = Seq2Seq.load(tmp_path / "m").fit(["A ﬁ", "b"], ["b", "a"])
    assert again.model.source == first.model.source


@pytest.mark.slow
@pytest.mark.parametrize(
    "network", [{}, {"score": "none"}, {"style": "luong", "score": "dot", "decoder": 8, "encoder": 4}]
)
def test_options_without_effect_are_not_saved(network: dict[str, Any], tmp_path: Path) -> None:
    first = Seq2Seq(epochs=1, network=network).fit(["a", "b"], ["b", "a"])
    first.save(tmp_path / "m")
    again = Seq2Seq.load(tmp_path / "m")
    again.fit(["a", "b"], ["b", "a"])
    assert again.network.config.shapes() == first.network.config.shapes()


@pytest.mark.slow
def test_tokens_and_characters_are_learned_from_too() -> None:
    pairs = [("ab", ["A", "B"]), ("b", ["B"]), ("ba", ["B", "A"]), ("a", ["A"])]
    model = fitted(pairs, source="characters", target="tokens", epochs=150)
    (translation,) = model.translate(["ba"])
    assert translation.tokens == ("B", "A")
    assert translation.text == "B A"
    assert translation.source == ("b", "a", "</s>")


def test_candidates_are_ranked_and_each_has_its_alignment(reverser: Seq2Seq) -> None:
    (candidates,) = reverser.candidates(["w1 w2 w3"], beam=4)
    assert len(candidates) == 4
    assert candidates[0].text == reverser.translate(["w1 w2 w3"], beam=4)[0].text
    assert [t.score for t in candidates] == sorted((t.score for t in candidates), reverse=True)
    assert len({t.text for t in candidates}) == 4
    for translation in candidates:
        assert translation.alignment is not None
        assert translation.alignment.shape == (len(translation.tokens), 4)


def test_each_token_and_the_end_have_a_log_probability(reverser: Seq2Seq) -> None:
    (best,) = reverser.translate(["w1 w2 w3"])
    (forced,) = reverser.align(["w1 w2 w3"], [best.text])
    assert best.log_probabilities is not None
    assert best.log_probabilities.shape == (len(best.tokens) + 1,)
    assert best.log_probabilities.sum() == pytest.approx(best.log_probability)
    np.testing.assert_allclose(best.log_probabilities, forced.log_probabilities, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_candidates_have_different_texts() -> None:
    """An unknown word is copied from the source, which may give the text of a known one."""
    pairs = reversals(300, 1)
    model = fitted(pairs, vocabulary=7, epochs=6)
    several = [candidates for source, _ in pairs[:50] for candidates in model.candidates([source], beam=10)]
    assert all(len({one.text for one in candidates}) == len(candidates) for candidates in several)
    assert sum(len(candidates) for candidates in several) > 400
    wide = [
        candidates for source, _ in pairs[:50] for candidates in model.candidates([source], beam=10, n_best=4)
    ]
    for few, more in zip(wide, several, strict=True):
        assert [one.text for one in few] == [one.text for one in more[:4]]


def test_translations_are_equal_if_all_fields_are(reverser: Seq2Seq) -> None:
    one, again, other = (reverser.translate([source])[0] for source in ("w1 w2", "w1 w2", "w2 w1"))
    assert (one == again, one == other, one == "w2 w1") == (True, False, False)
    assert len({one, again, other}) == 2
    assert replace(one, alignment=one.alignment * 0.5) != one  # type: ignore[operator]
    assert replace(one, alignment=None) != one


def test_samples_have_their_probabilities(reverser: Seq2Seq) -> None:
    (drawn,) = reverser.sample(["w1 w2"], count=400)
    best = reverser.translate(["w1 w2"])[0]
    share = sum(t.tokens == best.tokens for t in drawn) / 400
    assert share == pytest.approx(np.exp(best.log_probability), abs=0.1)
    again = reverser.sample(["w1 w2", "w3"], count=400)[0]
    assert [t.text for t in again] == [t.text for t in drawn]


@pytest.mark.slow
def test_samples_are_drawn_by_a_seed_a_generator_or_unseeded(reverser: Seq2Seq) -> None:
    def drawn(rng: Any) -> list[str]:
        return [t.text for t in reverser.sample(["w1 w2"], count=30, temperature=3.0, rng=rng)[0]]

    assert drawn(5) == drawn(np.random.default_rng(5)) == drawn(np.random.SeedSequence(5))
    assert drawn([5]) == drawn([np.random.default_rng(5)]) != drawn(5)
    assert drawn(None) != drawn(None)
    for wrong, text in (
        ([1, 2], "rng must have one seed for each of 1 sentences. Got 2 instead."),
        ("5", "rng must be an integer, a numpy.random.Generator or None. Got str instead."),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            drawn(wrong)
        assert str(caught.value) == text


def test_the_posterior_is_for_alignments_alone(reverser: Seq2Seq) -> None:
    sources, targets = ["w1 w2 w3", "w2"], ["v3 v2 v1", "v2"]
    before, after = reverser.align(sources, targets), reverser.align(sources, targets, posterior=True)
    for one, other in zip(before, after, strict=True):
        assert one.score == other.score
        assert one.alignment is not None
        assert other.alignment is not None
        assert one.alignment.shape == other.alignment.shape
        np.testing.assert_allclose(other.alignment.sum(axis=1), 1, rtol=1e-5)
        assert not np.allclose(one.alignment, other.alignment)


def test_a_model_without_a_posterior_is_an_error() -> None:
    sizes = {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1, "decoder_layers": 1}
    model = Seq2Seq(family="transformer", network=sizes, epochs=1).fit(["a b"], ["c"])
    with pytest.raises(ValueError) as caught:
        model.align(["a"], ["c"], posterior=True)
    assert str(caught.value) == (
        "posterior must be False for a transformer, alone or in an ensemble: it attends several times for a token."
    )
    blind = Seq2Seq(attention=False, epochs=1).fit(["a b"], ["c"])
    assert blind.align(["a"], ["c"], posterior=True)[0].alignment is None


@pytest.mark.slow
def test_links_are_learned() -> None:
    # Against the order of the words: only the links can teach that alignment.
    pairs = [(f"w{i} w{j}", f"v{i} v{j}") for i in range(4) for j in range(4)]
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    links = [frozenset({(0, 1), (1, 0)})] * len(pairs)
    model = Seq2Seq(epochs=150, training=TrainingConfig(guided_alignment=2.0)).fit(
        sources, targets, links=links
    )
    (translation,) = model.align(["w1 w2"], ["v1 v2"])
    assert translation.alignment is not None
    assert translation.alignment.argmax(axis=1).tolist() == [1, 0]


def test_links_may_be_a_function_of_the_tokenizers() -> None:
    pairs = [("a b", "c d")] * 3

    def links(source: Source, target: Tokenizer, pairs: Sequence[Pair]) -> list[Links]:
        return [frozenset({(source.spec.tokens - 5, len(target) - 6)}) for _ in pairs]

    training = begin(Seq2Seq(), pairs, pairs, links=links)
    assert (
        training.fingerprint()
        == begin(Seq2Seq(), pairs, pairs, links=[frozenset({(1, 0)})] * 3).fingerprint()
    )
    numbers = [frozenset({(np.int64(1), np.int64(0))})] * 3
    assert training.fingerprint() == begin(Seq2Seq(), pairs, pairs, links=numbers).fingerprint()
    with pytest.raises(ValueError, match=r"^valid must be given where links is a function\.$"):
        begin(Seq2Seq(), pairs, links=links)


@pytest.mark.parametrize(
    "config",
    [TrainingConfig(epochs=3), TrainingConfig(patience=1, learning_rate=1e-9), TrainingConfig(minutes=1e-4)],
    ids=["epochs", "patience", "minutes"],
)
def test_a_kept_checkpoint_of_a_finished_training_has_no_steps_left(
    config: TrainingConfig, tmp_path: Path
) -> None:
    pairs: list[Pair] = [("a b", "c d"), ("b", "d")]
    results = []
    for first in (True, False):
        model = Seq2Seq(training=config)
        training = begin(model, pairs, pairs)
        steps = list(take_steps(model, training, checkpoint=tmp_path / "it", keep=True))
        assert bool(steps) == first
        results.append(model.network.parameters.flat.copy())
    assert (results[0] == results[1]).all()
    list(take_steps(model, training, checkpoint=tmp_path / "it"))
    assert not (tmp_path / "it").exists()


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (5, "links must be one set for each pair. Got int instead."),
        ("0-0", "links must be one set for each pair. Got str instead."),
        (["0-0"], "links must be sets of (source, target). Pair 1 has '0-0' instead."),
        ([0], "links must be sets of (source, target). Pair 1 has 0 instead."),
        ([{0}], "links must be sets of (source, target). Pair 1 has {0} instead."),
        ([{(0, 0.5)}], "links must be sets of (source, target). Pair 1 has {(0, 0.5)} instead."),
        ([{(0, 0, 0)}], "links must be sets of (source, target). Pair 1 has {(0, 0, 0)} instead."),
    ],
)
def test_links_must_be_sets_of_two_integers_each(links: Any, message: str) -> None:
    text = error(TypeError, Seq2Seq().fit, ["a b"], ["c"], links=links)
    assert text == f"{message}\n  hint: {{(0, 0), (2, 1)}}: integers, both counted from 0"


@pytest.mark.parametrize("links", [[{(1, 0)}], [[(1, 0)]], ({(1, 0): "sure"},)], ids=str)
def test_links_may_come_in_any_collection(links: Any) -> None:
    expected = begin(Seq2Seq(), [("a b", "c")], links=[frozenset({(1, 0)})]).fingerprint()
    assert begin(Seq2Seq(), [("a b", "c")], links=links).fingerprint() == expected


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("location", ["nowhere/it", "pipe"])
def test_an_unwritable_checkpoint_is_an_error_before_training(tmp_path: Path, location: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    message = "there is no folder" if location != "pipe" else "must be a file, or not there yet"
    model = Seq2Seq(epochs=1)
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        model.fit(["a"], ["b"], checkpoint=tmp_path / location)
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        list(take_steps(model, begin(model, [("a", "b")], [("a", "b")]), checkpoint=tmp_path / location))
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"network": {"style": "luong", "cell": "lstm"}},
        {"attention": False},
        {"family": "transformer"},
    ],
    ids=str,
)
def test_a_target_of_an_empty_source_is_aligned(options: dict[str, Any]) -> None:
    model = fitted(reversals(30, 0), epochs=1, **options)
    posterior = options.get("family") != "transformer" and model.attention
    for translations in (
        model.align(["", "w1", ""], ["w1 w2", "", ""], posterior=how) for how in {False, posterior}
    ):
        assert [one.tokens for one in translations] == [("w1", "w2"), (), ()]
        assert [one.text for one in translations] == ["w1 w2", "", ""]
        assert [one.source for one in translations] == [("</s>",), ("w1", "</s>"), ("</s>",)]
        assert all(-np.inf < one.log_probability < 0 for one in translations)
        shapes = [None if one.alignment is None else one.alignment.shape for one in translations]
        assert shapes == ([(2, 1), (0, 2), (0, 1)] if model.attention else [None] * 3)
    (nothing,) = model.translate([""])
    assert nothing.tokens == ()
    assert nothing.source == ("</s>",)
    assert (None if nothing.alignment is None else nothing.alignment.shape) == shapes[2]
