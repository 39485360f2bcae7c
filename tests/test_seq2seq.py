"""Encoder, decoder, search, and a translator that learns."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import nn, scores
from regard.context import attend
from regard.seq2seq import Seq2Seq
from regard.seq2seq import network as network_module
from regard.seq2seq.decoder import Steps, decode
from regard.seq2seq.encoder import encode
from regard.seq2seq.model import hold_out
from regard.seq2seq.network import Dropout, Network, Parameters, Sizes, short_list
from regard.seq2seq.search import beam, greedy
from regard.seq2seq.text import END, START, UNKNOWN
from regard.seq2seq.training import Diverged, Recipe, batches

pytestmark = pytest.mark.slow  # trains, or damages files in many ways

# ---------------------------------------------------------------------------------------------------- holding out


def test_hold_out_shares_no_source() -> None:
    pairs = [(str(i // 2), str(i)) for i in range(100)]
    training, validation = hold_out(pairs, seed=1)
    assert len(validation) == 10  # 5 of 50 sources, two pairs each
    assert not {source for source, _ in training} & {source for source, _ in validation}
    assert sorted(training + validation) == sorted(pairs)
    assert hold_out(pairs, seed=1) == (training, validation)


@pytest.mark.parametrize(("count", "aside"), [(20, 2), (99, 9), (150, 10), (400, 20), (20_000, 500)])
def test_more_than_one_source_is_held_out(count: int, aside: int) -> None:
    training, validation = hold_out([(str(i), "") for i in range(count)], seed=1)
    assert (len(training), len(validation)) == (count - aside, aside)


def test_of_few_sources_none_is_held_out() -> None:
    pairs = [(str(i), "") for i in range(19)]
    assert hold_out(pairs, seed=1) == (pairs, pairs)


# -------------------------------------------------------------------------------------------------- gradients

SIZES = Sizes(9, 11, embedding=4, encoder=3, decoder=5, attention=3)
WITHOUT = Sizes(9, 11, embedding=4, encoder=3, decoder=5, attention=0)
SOURCE = np.random.default_rng(0).integers(4, 9, (4, 3))
TARGET = np.array([[1, 1, 1], [5, 6, 7], [8, 2, 10], [9, 0, 2], [2, 0, 0]])


def drawn(sizes: Sizes, dtype: Any = np.float64) -> Parameters:
    total = sum(int(np.prod(shape)) for shape in sizes.shapes().values())
    flat = np.random.default_rng(2).normal(size=total) * 0.5
    return Parameters(sizes.shapes(), flat.astype(dtype))


def loss_of(sizes: Sizes) -> Any:
    """The loss as a function of all parameters, for `check_gradients`; chance is the same at every call."""

    def loss(*arrays: Any) -> Any:
        whole = Network(sizes, Parameters(sizes.shapes(), np.concatenate([a.ravel() for a in arrays])))
        rates, rng = Dropout(0.2, 0.2, 0.2), np.random.default_rng(1)
        value, pullback = whole.loss(SOURCE, TARGET, dropout=rates, rng=rng, smoothing=0.1)

        def back(d: float) -> list[Any]:
            found = pullback(1.0)
            return [d * found[name] for name in sizes.shapes()]

        return value, back

    return loss


@pytest.mark.parametrize("sizes", [SIZES, WITHOUT], ids=["attention", "without"])
def test_the_gradient_of_the_whole_network(sizes: Sizes) -> None:
    assert nn.check_gradients(loss_of(sizes), [array.copy() for array in drawn(sizes).values()]) < 1e-7


def test_the_gradient_with_a_short_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "_FREQUENT", 4)
    monkeypatch.setattr(network_module, "_OTHERS", 1)
    sizes = Sizes(9, 40, embedding=4, encoder=3, decoder=5, attention=3)
    ids, _ = short_list(TARGET[TARGET > 0], 40, np.random.default_rng(1))
    assert len(ids) < 15
    assert nn.check_gradients(loss_of(sizes), [array.copy() for array in drawn(sizes).values()]) < 1e-7


def test_a_short_list_has_the_right_words_and_the_whole_sum_on_average() -> None:
    words, rng = 5000, np.random.default_rng(0)
    following = np.array([4999, 3, 3, 2500])
    terms = rng.exponential(size=words)
    sums = []
    for _ in range(300):
        ids, log_weights = short_list(following, words, rng)
        assert len(set(ids.tolist())) == len(ids) < words / 3
        assert np.isin(following, ids).all()
        assert (log_weights[np.isin(ids, following)] == 0).all()
        assert np.exp(log_weights).sum() == pytest.approx(words)
        sums.append(float(terms[ids] @ np.exp(log_weights)))
    assert np.mean(sums) == pytest.approx(terms.sum(), rel=0.01)


def test_outside_training_all_words_compete() -> None:
    ids, log_weights = short_list(np.array([4999]), 5000, None)
    assert (ids == np.arange(5000)).all()
    assert not log_weights.any()


def test_padding_changes_nothing() -> None:
    network = Network(SIZES, drawn(SIZES))
    short = network.loss(SOURCE[:, :1], TARGET[:, :1])[0]
    padded = np.concatenate([TARGET[:, :1], np.zeros((3, 1), np.int64)])
    assert network.loss(SOURCE[:, :1], padded)[0] == pytest.approx(short, rel=1e-12)


def test_the_loss_of_a_batch_is_that_of_its_sentences() -> None:
    network = Network(SIZES, drawn(SIZES))
    lengths = (TARGET[1:] != 0).sum(0)
    alone = [network.loss(SOURCE[:, [i]], TARGET[: n + 1, [i]])[0] * n for i, n in enumerate(lengths)]
    assert network.loss(SOURCE, TARGET)[0] == pytest.approx(sum(alone) / lengths.sum(), rel=1e-12)


@pytest.mark.parametrize("sizes", [SIZES, WITHOUT], ids=["attention", "without"])
def test_a_step_of_the_search_is_one_of_training(sizes: Sizes) -> None:
    p = drawn(sizes)
    encoded, _ = encode(p, SOURCE, (0.0, 0.0), None)
    readout, _ = decode(p, encoded, TARGET[:2], (0.0, 0.0), None)
    steps, states = Steps(p, encoded), encoded.start[:, None]
    for t in range(2):
        logits, states, weights = steps(TARGET[t][:, None], states)
        wanted = readout[t] @ p["target_embedding"].T + p["output_bias"]
        np.testing.assert_allclose(logits[:, 0], wanted, rtol=1e-10)
    assert weights.shape == (3, 1, 4 if sizes.attention else 0)


def test_the_decoder_looks_through_regards_attention() -> None:
    p = drawn(SIZES)
    encoded, _ = encode(p, SOURCE, (0.0, 0.0), None)
    _, _, weights = Steps(p, encoded)(np.full((3, 1), START), encoded.start[:, None])
    score = scores.additive(p["query_weight"], p["key_weight"], p["attention_vector"])
    whole = attend(encoded.start[:, None], encoded.values, encoded.values, score=score)
    np.testing.assert_allclose(weights, whole.weights, rtol=1e-10)


# ----------------------------------------------------------------------------------------------------- search


def log_probability(network: Network, source: Any, words: tuple[int, ...]) -> float:
    """By teacher forcing: the mean over the words and END."""
    target = np.array([[START, *words, END]]).T
    return -network.loss(source, target)[0]


def test_scores_are_mean_log_probabilities_and_alignments_rows_of_weights() -> None:
    network = Network(SIZES, drawn(SIZES))
    network.parameters["output_bias"][END] += 2  # so that several end
    for sentence, hypotheses in enumerate(beam(network.parameters, SOURCE, width=4)):
        assert len(hypotheses) == 4
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)
        assert len({h.words for h in hypotheses}) == len(hypotheses)
        for hypothesis in hypotheses:
            exact = log_probability(network, SOURCE[:, [sentence]], hypothesis.words)
            assert hypothesis.score == pytest.approx(exact, abs=1e-5)
            assert hypothesis.alignment.shape == (len(hypothesis.words), 4)
            np.testing.assert_allclose(hypothesis.alignment.sum(1), 1, rtol=1e-6)


def test_a_wide_beam_finds_the_best_of_all() -> None:
    sizes = Sizes(6, 6, embedding=3, encoder=2, decoder=3, attention=2)
    p = drawn(sizes)
    p["output_bias"][END] += 2  # short sentences, so that all of them can be listed
    network, source = Network(sizes, p), np.array([[4], [2]])
    everything = [words for n in range(5) for words in itertools.product((3, 4, 5), repeat=n)]
    best = max(everything, key=lambda words: log_probability(network, source, words))
    assert beam(p, source, width=60)[0][0].words == best


def test_greedy_takes_the_most_probable_word() -> None:
    network = Network(SIZES, drawn(SIZES))
    for sentence, found in enumerate(greedy(network.parameters, SOURCE)):
        encoded, _ = encode(network.parameters, SOURCE[:, [sentence]], (0.0, 0.0), None)
        steps, states, word, said = Steps(network.parameters, encoded), encoded.start[:, None], START, []
        while len(said) < 13:
            logits, states, _ = steps(np.array([[word]]), states)
            word = int(np.argmax(np.where(np.isin(np.arange(11), (0, 1)), -np.inf, logits[0, 0])))
            if word == END:
                break
            said.append(word)
        assert list(found.words) == said


def test_each_sentence_is_searched_as_if_alone() -> None:
    p = drawn(SIZES)
    together = beam(p, SOURCE, width=3)
    for sentence, hypotheses in enumerate(together):
        alone = beam(p, SOURCE[:, [sentence]], width=3)[0]
        assert alone[0].words == hypotheses[0].words


def test_a_model_that_never_ends_is_stopped() -> None:
    p = drawn(SIZES)
    p["output_bias"][END] = -1e9
    hypothesis = beam(p, SOURCE[:, :1], width=2)[0][0]
    assert len(hypothesis.words) == 2 * 4 + 5
    assert hypothesis.alignment.shape == (13, 4)


# --------------------------------------------------------------------------------------------------- training


def reversals(count: int, seed: int, longest: int = 4) -> list[tuple[str, str]]:
    rng = np.random.default_rng(seed)
    words = [[f"w{i}" for i in rng.integers(0, 6, rng.integers(1, longest + 1))] for _ in range(count)]
    return [(" ".join(w), " ".join(reversed(w))) for w in words]


@pytest.fixture(scope="module")
def reverser() -> Seq2Seq:
    return Seq2Seq(epochs=20).fit(reversals(300, 0, longest=3))


@pytest.mark.slow
def test_it_learns_to_reverse_sentences_it_has_never_seen(reverser: Seq2Seq) -> None:
    seen = reversals(300, 0, longest=3)
    unseen = [pair for pair in reversals(200, 1, longest=3) if pair not in seen]
    assert len(unseen) > 20
    found = reverser.translate([source for source, _ in unseen])
    assert [translation.text for translation in found] == [target for _, target in unseen]


def test_it_looks_at_the_word_it_writes(reverser: Seq2Seq) -> None:
    (translation,) = reverser.translate(["w1 w2 w3"])
    assert translation.tokens == ("w3", "w2", "w1")
    assert translation.source == ("w1", "w2", "w3", "</s>")
    assert translation.alignment is not None
    assert translation.alignment.argmax(axis=1).tolist() == [2, 1, 0]
    assert translation.score < 0


def test_an_unknown_word_is_copied_from_where_it_was_looked_at(reverser: Seq2Seq) -> None:
    network = reverser.model.network
    before = network.parameters["output_bias"].copy()
    network.parameters["output_bias"][UNKNOWN] += 1e3  # a model that can't name anything
    network.parameters["output_bias"][END] -= 1e3
    (translation,) = reverser.translate(["w1 Xyz"], beam=1)
    network.parameters["output_bias"][...] = before
    assert set(translation.tokens) <= {"w1", "Xyz"}


def test_empty_sentences_stay_empty_and_in_order(reverser: Seq2Seq) -> None:
    found = reverser.translate(["", "w1 w2", "   "])
    assert [translation.text for translation in found] == ["", "w2 w1", ""]
    assert reverser.translate([]) == []


def test_translating_is_checked(reverser: Seq2Seq) -> None:
    with pytest.raises(ValueError) as caught:
        reverser.translate(["w1", "w1 " * 1001])
    assert str(caught.value) == "sentence 2 has 1001 tokens; at most 1000 are allowed"
    with pytest.raises(ValueError) as caught:
        reverser.translate(["w1"], beam=0)
    assert str(caught.value) == "beam must be at least 1. Got 0 instead."
    with pytest.raises(ValueError) as caught:
        Seq2Seq().translate(["w1"])
    assert str(caught.value) == "the model must be trained or loaded first: fit(pairs) or Seq2Seq.load(path)"


def test_saved_and_loaded_it_is_the_same(reverser: Seq2Seq, tmp_path: Path) -> None:
    reverser.save(tmp_path / "m.safetensors")
    loaded = Seq2Seq.load(tmp_path / "m.safetensors")
    assert loaded.attention
    one, two = (model.translate(["w1 w5 w2"])[0] for model in (reverser, loaded))
    assert one.text == two.text
    assert one.score == two.score
    assert (one.alignment == two.alignment).all()  # type: ignore[union-attr]


def test_the_same_seed_gives_the_same_bits() -> None:
    pairs = reversals(60, 3)
    one, two, other = (
        Seq2Seq(epochs=2, seed=seed).fit(pairs).model.network.parameters.flat for seed in (5, 5, 6)
    )
    assert one.tobytes() == two.tobytes()
    assert one.tobytes() != other.tobytes()


def test_without_attention_there_is_no_alignment() -> None:
    model = Seq2Seq(attention=False, epochs=1).fit(reversals(40, 0))
    assert model.translate(["w1"])[0].alignment is None


def test_the_best_parameters_stay() -> None:
    pairs = reversals(80, 0)
    seen: list[tuple[bool, bytes]] = []
    model = Seq2Seq(epochs=6, rate=0.05)  # too fast a walk to get better at each step
    for step in model.steps(pairs[:60], pairs[60:]):
        if step.validation is not None:
            seen.append((step.best, model.model.network.parameters.flat.tobytes()))
    assert model.model.network.parameters.flat.tobytes() == [bits for best, bits in seen if best][-1]


def test_a_loss_that_is_no_number_stops_with_the_last_good_parameters() -> None:
    model = Seq2Seq(epochs=3)
    steps = model.steps(reversals(40, 0))
    first = next(step for step in steps if step.best)
    good = model.model.network.parameters.flat.copy()
    model.model.network.parameters["decoder_bias"][...] = np.nan
    with pytest.raises(Diverged) as caught:
        list(steps)
    assert str(caught.value) == f"the loss is not finite any more: nan at step {first.number + 1}"
    assert (model.model.network.parameters.flat == good).all()


def test_minutes_end_the_training() -> None:
    steps = list(Seq2Seq(minutes=1e-9).steps(reversals(40, 0)))
    assert len(steps) == 1
    assert steps[0].best


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epochs": 0}, "epochs must be at least 1. Got 0 instead."),
        ({"minutes": 0.0}, "minutes must be greater than 0. Got 0.0 instead."),
        ({"max_tokens": 0}, "max_tokens must be at least 1. Got 0 instead."),
        ({"least": 0}, "least must be at least 1. Got 0 instead."),
        ({"rate": float("nan")}, "rate must be finite. Got nan instead."),
        ({"seed": -1}, "seed must be at least 0. Got -1 instead."),
    ],
)
def test_options_are_checked(options: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        Seq2Seq(**options)
    assert str(caught.value) == said


def test_nothing_to_learn_from_is_told() -> None:
    with pytest.raises(ValueError) as caught:
        Seq2Seq(max_tokens=2).fit([("a b c", "a")])
    assert str(caught.value) == "no training pair has between 1 and 2 tokens on both sides: 1 pairs given"


def test_the_rate_rises_and_falls_to_nothing() -> None:
    recipe = Recipe(rate=1.0, warm_up=4)
    rates = [recipe.rate_at(step, 12, 0.0) for step in range(1, 13)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates == sorted(rates[:4]) + sorted(rates[4:], reverse=True)
    assert rates[-1] == 0.125
    assert recipe.rate_at(6, 12, 1.0) == 0.0


def test_batches_hold_every_pair_once_and_one_source_length() -> None:
    rng = np.random.default_rng(0)
    pairs = [([int(i), *[4] * int(rng.integers(0, 3)), END], [START, int(i), END]) for i in range(50)]
    found = batches(pairs, 8, rng)
    assert sorted(int(i) for source, _ in found for i in source[0]) == list(range(50))
    for source, target in found:
        assert (source[-1] == END).all()
        assert (source[0] == target[1]).all()
        assert source.shape[1] <= 8
