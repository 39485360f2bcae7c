"""Search through the protocol alone: a small random network, compared with exhaustive search by plain loops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from errors import assert_raises, transcript
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.kernels import library, training
from regard.seq2seq.corpus.batching import Batch
from regard.seq2seq.decoding.beam import _Beam, beam
from regard.seq2seq.decoding.forced import force
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.decoding.sampling import sample
from regard.seq2seq.decoding.search import longest
from regard.seq2seq.networks import top_tokens as ranking
from regard.seq2seq.networks.base import Stepper
from regard.seq2seq.networks.parameters import Parameters
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.encoder import encode
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.recurrent.stepper import RecurrentStepper
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.sources.text.vocabulary import END, PAD, START

V, STATE = 6, 4  # words 3, 4, 5 and END can follow
WORDS = (3, 4, 5)
Words = tuple[int, ...]


class RandomNetwork:
    """A random network: its state depends on all previous tokens, its attention on the state."""

    def __init__(self, seed: int = 0, *, words: int = V, end: float = 0.5, attends: bool = True) -> None:
        rng = np.random.default_rng(seed)
        self.word, self.memory = rng.normal(size=(words, STATE)), rng.normal(size=(20, STATE))
        self.inner, self.out = rng.normal(size=(STATE, STATE)), 2 * rng.normal(size=(STATE, words))
        self.bias = np.where(np.arange(words) == END, end, 0)
        self.attends = attends
        self.calls: list[tuple[int, int]] = []

    def attend(self, state: Any, memory: Any) -> Any:
        """The weights of one state over the words of one source."""
        weights = np.exp(2 * state @ memory.T)
        return weights / weights.sum()

    def after(self, source: Any, words: Words) -> tuple[Any, Any]:
        """The log-probabilities of the token after START and these words, and the weights: by plain loops."""
        memory = self.memory[source]
        state = memory.mean(axis=0)
        for word in (START, *words):
            weights = self.attend(state, memory)
            state = np.tanh(state @ self.inner + self.word[word] + weights @ memory)
        logits = state @ self.out + self.bias
        return logits - math.log(sum(map(math.exp, logits))), weights

    def stepper(self, source: Any, lengths: Any, width: int = 1) -> RandomStepper:
        return RandomStepper(self, source, lengths, width)


class RandomStepper(Stepper):
    """The same through the protocol."""

    def __init__(self, network: RandomNetwork, source: Any, lengths: Any, width: int) -> None:
        self.network, (self.length, _), self.width = network, source.shape, width
        self.memory = [network.memory[source[:n, i]] for i, n in enumerate(lengths)]
        self.states = np.array([[memory.mean(axis=0)] * width for memory in self.memory])

    def __call__(self, words: Any) -> tuple[Any, Any]:
        assert words.shape == self.states.shape[:2]
        assert words.dtype.kind == "i"
        self.network.calls.append(words.shape)
        weights = np.zeros((*words.shape, self.length))
        for i, k in np.ndindex(words.shape):
            memory = self.memory[i]
            row = self.network.attend(self.states[i, k], memory)
            weights[i, k, : len(memory)] = row
            self.states[i, k] = np.tanh(
                self.states[i, k] @ self.network.inner + self.network.word[words[i, k]] + row @ memory
            )
        logits = self.states @ self.network.out + self.network.bias
        return logits, weights if self.network.attends else weights[:, :, :0]

    def select(self, parents: Any) -> None:
        assert parents.ndim == 2
        assert len(parents) == len(self.states)
        self.states = np.take_along_axis(self.states, parents[:, :, None], axis=1)

    def keep(self, sentences: Any) -> None:
        self.memory = [self.memory[i] for i in sentences]
        self.states = self.states[sentences]


def sources(*sentences: Words) -> tuple[Any, Any]:
    """Collate sentences: END after each, and then padding."""
    lengths = np.array([len(words) + 1 for words in sentences])
    source = np.full((lengths.max(), len(sentences)), 19)
    for i, words in enumerate(sentences):
        source[: len(words) + 1, i] = (*words, END)
    return source, lengths


THREE = sources((4, 5, 6), (), (7, 8))


def forced_by_hand(
    network: RandomNetwork, source: Any, words: Words, *, ended: bool = True
) -> tuple[Any, Any]:
    """The log-probabilities of tokens and END, and their attention weights, by plain loops."""
    full = (*words, END) if ended else words
    steps = [network.after(source, full[:t]) for t in range(len(full))]
    logs = [logs[word] for (logs, _), word in zip(steps, full, strict=True)]
    return np.array(logs), np.array([weights for _, weights in steps]).reshape(len(full), -1)


def wu(logs: Any, alignment: Any, alpha: float, beta: float, offset: float) -> float:
    """Equation 14 by plain loops."""
    divisor = (offset + len(logs)) ** alpha / (offset + 1) ** alpha
    covered = [min(sum(row[j] for row in alignment), 1.0) for j in range(alignment.shape[1] - 1)]
    return math.fsum(logs) / divisor + beta * sum(map(math.log, covered))


SCORING = [(1.0, 0.0, 0.0), (0.6, 0.0, 5.0), (0.2, 0.2, 5.0), (0.0, 0.0, 0.0), (2.0, 1.5, 1.0)]


def scoring(numbers: tuple[float, float, float]) -> Scoring:
    alpha, beta, offset = numbers
    return Scoring(length_penalty=alpha, coverage_penalty=beta, offset=offset)


def same(one: Hypothesis, two: Hypothesis) -> None:
    assert one.tokens == two.tokens
    assert one.score == pytest.approx(two.score, rel=1e-9)
    np.testing.assert_allclose(one.log_probabilities, two.log_probabilities, rtol=1e-9)
    np.testing.assert_allclose(one.alignment, two.alignment, rtol=1e-9)


# --------------------------------------------------------------------------------------------------------- scores


def test_the_score_is_that_of_the_paper() -> None:
    # Wu et al. 2016, equation 14, by hand: 12 words with END make lp = (17 / 6)^0.2; one has half of its attention.
    score = Scoring(0.2, 0.3, 5)(-8.0, 12, np.array([1.0, 0.5, 1.7]))
    assert score == pytest.approx(-8 / (17 / 6) ** 0.2 + 0.3 * math.log(0.5), rel=1e-12)


def test_the_default_is_the_mean() -> None:
    assert Scoring()(-6.0, 4, np.array([0.01])) == -1.5


def test_tokens_without_attention_have_a_large_but_finite_penalty() -> None:
    assert Scoring(coverage_penalty=1)(0.0, 1, np.zeros(1)) == pytest.approx(math.log(1e-6))


@pytest.mark.parametrize("name", ["length_penalty", "coverage_penalty", "offset"])
def test_penalties_are_checked(name: str) -> None:
    with pytest.raises(ValueError) as caught:
        Scoring(**{name: -1})
    assert str(caught.value) == f"{name} must be at least 0. Got -1.0 instead."


@pytest.mark.parametrize("name", ["length_penalty", "coverage_penalty"])
def test_no_penalty_overflows(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at most 10. Got 1e[+]308 instead."):
        Scoring(**{name: 1e308})
    largest = Scoring(**{name: 10})
    assert math.isfinite(largest(-1e6, 10**6, np.zeros(1000)))
    assert np.isfinite(largest.divisor(np.array([10**6]))).all()


# ----------------------------------------------------------------------------------------------------------- beam


@pytest.mark.parametrize("numbers", SCORING)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_a_wide_beam_finds_the_best_hypothesis(seed: int, numbers: tuple[float, float, float]) -> None:
    network, (source, lengths) = RandomNetwork(seed), THREE
    results = beam(
        network, source, lengths, width=108, n_best=7, scoring=scoring(numbers), most=np.array([4, 4, 4])
    )
    everything = [words for n in range(4) for words in itertools.product(WORDS, repeat=n)]
    for i, hypotheses in enumerate(results):
        own = source[: lengths[i], i]
        ranked = sorted(everything, key=lambda words: -wu(*forced_by_hand(network, own, words), *numbers))
        assert [h.tokens for h in hypotheses] == ranked[:7]
        for h in hypotheses:
            logs, weights = forced_by_hand(network, own, h.tokens)
            assert h.score == pytest.approx(wu(logs, weights, *numbers), rel=1e-9)
            np.testing.assert_allclose(h.log_probabilities, logs, rtol=1e-9)
            assert h.log_probability == pytest.approx(logs.sum())
            np.testing.assert_allclose(h.alignment, weights[:-1], rtol=1e-9)
            assert h.alignment.shape == (len(h.tokens), lengths[i])


def plain_beam(
    network: RandomNetwork, source: Any, width: int, most: int, numbers: tuple[float, float, float]
) -> list[tuple[float, Words]]:
    """All finished hypotheses of a beam search without early stopping, the best first."""
    beginnings: list[tuple[float, Words]] = [(0.0, ())]
    done = []
    for _ in range(most):
        follow = []
        for total, words in beginnings:
            logs, _ = network.after(source, words)
            follow += [(total + logs[word], (*words, word)) for word in (*WORDS, END)]
        follow.sort(key=lambda pair: -pair[0])
        done += [words[:-1] for _, words in follow[:width] if words[-1] == END]
        beginnings = [pair for pair in follow if pair[1][-1] != END][:width]
    ranked = [(wu(*forced_by_hand(network, source, words), *numbers), words) for words in done]
    return sorted(ranked, key=lambda pair: -pair[0])


@pytest.mark.slow
@settings(max_examples=60)
@given(
    seed=st.integers(0, 1000),
    width=st.integers(2, 6),
    numbers=st.sampled_from(SCORING),
    end=st.floats(-1, 2),
    data=st.data(),
)
def test_early_stopping_misses_no_better_hypothesis(
    seed: int, width: int, numbers: tuple[float, float, float], end: float, data: Any
) -> None:
    n_best = data.draw(st.integers(1, width))
    network, (source, lengths) = RandomNetwork(seed, end=end), THREE
    most = np.array([6, 3, 5])
    results = beam(network, source, lengths, width=width, n_best=n_best, scoring=scoring(numbers), most=most)
    for i, hypotheses in enumerate(results):
        expected = plain_beam(network, source[: lengths[i], i], width, int(most[i]), numbers)[:n_best]
        if expected:
            assert [h.tokens for h in hypotheses] == [words for _, words in expected]
        else:
            assert len(hypotheses[0].tokens) == most[i]


def test_greedy_search_takes_the_most_probable_token_up_to_the_first_end() -> None:
    source, lengths = THREE
    for seed in range(20):
        network = RandomNetwork(seed, end=0.0)
        for i, (hypothesis,) in enumerate(beam(network, source, lengths, width=1)):
            words: Words = ()
            while len(words) < longest(lengths[i]):
                logs, _ = network.after(source[: lengths[i], i], words)
                word = max((END, *WORDS), key=lambda word: logs[word])
                if word == END:
                    break
                words = (*words, word)
            assert hypothesis.tokens == words


@pytest.mark.slow
@settings(max_examples=60)
@given(
    seed=st.integers(0, 1000),
    numbers=st.sampled_from([numbers for numbers in SCORING if not numbers[1]]),
    end=st.floats(-1, 2),
    most=st.integers(1, 6),
)
def test_greedy_is_a_beam_of_one_to_the_bit(
    seed: int, numbers: tuple[float, float, float], end: float, most: int
) -> None:
    network, (source, lengths) = RandomNetwork(seed, end=end), THREE
    chosen, limits = scoring(numbers), np.array([most, 3, 5])
    results = beam(network, source, lengths, width=1, scoring=chosen, most=limits)
    by_beam = _Beam(lengths, limits, 1, 1, chosen).run(network.stepper(source, lengths))
    for (one,), (two,) in zip(results, by_beam, strict=True):
        assert (one.tokens, one.score) == (two.tokens, two.score)
        np.testing.assert_array_equal(one.log_probabilities, two.log_probabilities)
        np.testing.assert_array_equal(one.alignment, two.alignment)


def plain_network(style: str, seed: int, *, end: float = 0.0) -> RecurrentNetwork:
    """A network whose steps the native library takes."""
    config = RecurrentConfig(20, 9, embedding=6, encoder=3, decoder=5, attention=4, style=style)
    template = Parameters(config.shapes())
    flat = np.random.default_rng(seed).normal(size=template.flat.size).astype(np.float32)
    network = RecurrentNetwork(config, Parameters(config.shapes(), flat))
    network.parameters["output_bias"][END] += np.float32(end)
    return network


@pytest.mark.slow
@pytest.mark.training
@pytest.mark.skipif(library.load() is None, reason="there is no native kernel")
@pytest.mark.parametrize("style", ["bahdanau", "conditional"])
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 1000), width=st.integers(1, 7), end=st.floats(-3, 5))
def test_a_search_by_steps_of_the_library_equals_that_by_the_steps_of_training(
    isa: str, style: str, data: Any, seed: int, width: int, end: float
) -> None:
    network, (source, lengths) = plain_network(style, seed, end=end), THREE
    if type(network.stepper(source, lengths)) is RecurrentStepper:
        assert isa == "baseline"
        return
    n_best = data.draw(st.integers(1, width))
    chosen = scoring(data.draw(st.sampled_from(SCORING)))
    most = np.array(data.draw(st.lists(st.integers(1, 9) | st.integers(15, 40), min_size=3, max_size=3)))
    encoded, _ = encode(network.parameters, network.config, source, lengths, keep=False)
    by_steps = RecurrentStepper(network.parameters, network.config, encoded)
    expected = _Beam(lengths, most, width, n_best, chosen).run(by_steps)
    results = beam(network, source, lengths, scoring=chosen, width=width, n_best=n_best, most=most)
    for ours, theirs in zip(results, expected, strict=True):
        assert [x.tokens for x in ours] == [x.tokens for x in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.score == pytest.approx(other.score, rel=1e-5, abs=1e-5)
            np.testing.assert_allclose(one.log_probabilities, other.log_probabilities, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(one.alignment, other.alignment, atol=1e-5)


@pytest.mark.parametrize("width", [1000, 100_000])
def test_a_beam_may_be_wider_than_the_vocabulary(width: int) -> None:
    network, (source, lengths) = plain_network("bahdanau", 1), THREE
    options: Any = {"n_best": 5, "most": np.array([2, 2, 2])}
    expected = _Beam(lengths, options["most"], width, 5, Scoring()).run(network.stepper(source, lengths))
    results = beam(network, source, lengths, width=width, **options)
    assert [[x.tokens for x in of_it] for of_it in results] == [
        [x.tokens for x in of_it] for of_it in expected
    ]


def test_a_beam_without_enough_memory_is_an_error() -> None:
    with pytest.raises(MemoryError):
        beam(plain_network("bahdanau", 1), *THREE, width=1 << 31)


def test_back_pointers_are_right_across_many_calls() -> None:
    network, (source, lengths) = plain_network("bahdanau", 1, end=-1e6), THREE
    for (hypothesis,) in beam(network, source, lengths, width=2, most=np.array([90, 70, 80])):
        assert len(hypothesis.tokens) == len(hypothesis.log_probabilities) == len(hypothesis.alignment) >= 70
        np.testing.assert_allclose(hypothesis.alignment.sum(axis=1), 1, rtol=1e-5)
        assert hypothesis.score == pytest.approx(hypothesis.log_probabilities.mean())


@pytest.mark.parametrize("attends", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_each_sentence_is_searched_as_if_alone(seed: int, attends: bool) -> None:
    network, (source, lengths) = RandomNetwork(seed, attends=attends), THREE
    options: Any = {"width": 4, "n_best": 4, "scoring": Scoring(0.6, 0.2)}
    together = beam(network, source, lengths, **options)
    for i, hypotheses in enumerate(together):
        (alone,) = beam(network, source[: lengths[i], [i]], lengths[[i]], **options)
        assert len(alone) == len(hypotheses)
        for one, two in zip(alone, hypotheses, strict=True):
            same(one, two)
            assert two.alignment.shape == (len(two.tokens), lengths[i] if attends else 0)


def test_endless_hypotheses_are_truncated() -> None:
    source, lengths = THREE
    network = RandomNetwork(end=-1e9)
    for i, (hypothesis,) in enumerate(beam(network, source, lengths, width=3)):
        assert len(hypothesis.tokens) == 2 * lengths[i] + 5
        assert hypothesis.alignment.shape == (len(hypothesis.tokens), lengths[i])
        logs, _ = forced_by_hand(network, source[: lengths[i], i], hypothesis.tokens, ended=False)
        assert hypothesis.score == pytest.approx(logs.mean())
        assert len(hypothesis.log_probabilities) == len(hypothesis.tokens)


def test_finished_hypotheses_are_not_computed() -> None:
    network, (source, lengths) = RandomNetwork(end=6.0), THREE  # an END is nearly certain
    results = beam(network, source, lengths, width=4, scoring=Scoring(length_penalty=0))
    assert [h.tokens for (h,) in results] == [(), (), ()]
    assert network.calls == [(3, 1)]
    network = RandomNetwork(end=6.0)
    beam(network, source, lengths, width=4, most=np.array([9, 2, 2]))
    assert network.calls[0] == (3, 1)
    assert all(batch == 1 and width <= 4 for batch, width in network.calls[2:])


def test_of_equal_scores_the_first_wins() -> None:
    class Even(RandomNetwork):
        """All tokens are the same."""

        def stepper(self, source: Any, lengths: Any, width: int = 1) -> Any:
            stepper = super().stepper(source, lengths, width)
            self.out[...] = 0
            return stepper

    source, lengths = THREE
    for hypotheses in beam(Even(end=0.0), source, lengths, width=5, n_best=5, most=np.array([3, 3, 3])):
        # Each step ranks the first 5: END of (), then what follows (3,), END of (4,), then what follows (3, 3).
        assert [h.tokens for h in hypotheses] == [(), (3,), (4,), (3, 3), (3, 4)]


def test_of_equal_scores_the_first_wins_in_a_recurrent_network() -> None:
    config = RecurrentConfig(20, V, embedding=4, encoder=3, decoder=5, attention=3)
    flat = np.zeros(Parameters(config.shapes()).flat.size, np.float32)
    (source, lengths), network = THREE, RecurrentNetwork(config, Parameters(config.shapes(), flat))
    options: Any = {
        "width": 5,
        "n_best": 5,
        "most": np.array([3, 3, 3]),
        "scoring": Scoring(length_penalty=0),
    }
    for hypotheses in beam(network, source, lengths, **options):
        # Each step ranks the first 5: END of (), then what follows (3,), END of (4,), then what follows (3, 3).
        assert [h.tokens for h in hypotheses] == [(), (3,), (4,), (3, 3), (3, 4)]


@pytest.mark.slow
@settings(max_examples=200)
@given(
    shape=st.tuples(st.integers(1, 8), st.sampled_from([3, 7, 300, 600])),
    count=st.integers(1, 9),
    first=st.sampled_from([0, 2]),
    seed=st.integers(0, 10_000),
    few=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_the_top_tokens_are_those_of_a_sort(
    shape: Any, count: int, first: int, seed: int, few: bool, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.integers(-3, 3, shape).astype(dtype) if few else 9 * rng.normal(size=shape).astype(dtype)
    logits[rng.random(shape) < 0.1] = -np.inf
    logits[:, 0] = 1  # a row must have a word
    with pytest.MonkeyPatch.context() as patch:
        for library in (True, False):
            if not library:
                patch.setattr(training, "top_k", lambda *_: None)
            result = ranking.top_tokens(logits, count, first)
            top = logits.max(axis=1)
            np.testing.assert_array_equal(result.sums[:, 0], top)
            np.testing.assert_allclose(
                result.sums[:, 1], np.exp(logits - top[:, None], dtype=float).sum(axis=1), rtol=3e-6
            )
            for i, row in enumerate(logits):
                order = first + np.argsort(-row[first:], kind="stable")[:count]
                order = order[np.isfinite(row[order])]
                np.testing.assert_array_equal(result.best[i, : len(order)], row[order])
                assert (result.best[i, len(order) :] == -np.inf).all()
                assert (result.tokens[i, : len(order)] == order).all()


# ---------------------------------------------------------------------------------------------------------- force


def test_an_empty_forced_prefix() -> None:
    source, lengths = THREE
    results = force(RandomNetwork(3), source, lengths, np.full((1, 3), START))
    assert [(h.tokens, h.log_probability, h.alignment.shape) for h in results] == [
        ((), 0.0, (0, int(length))) for length in lengths
    ]


@pytest.mark.parametrize("attends", [True, False])
def test_forced_decoding_gives_the_probabilities_of_the_network(attends: bool) -> None:
    network, (source, lengths) = RandomNetwork(3, attends=attends), THREE
    sentences: list[Words] = [(4, 3), (), (5, 5, 5, 3)]
    target = np.full((6, 3), PAD)
    for i, words in enumerate(sentences):
        target[: len(words) + 2, i] = (START, *words, END)
    hypotheses = force(network, source, lengths, target, scoring=Scoring(0.6, 0.0, 5))
    for i, hypothesis in enumerate(hypotheses):
        logs, weights = forced_by_hand(network, source[: lengths[i], i], sentences[i])
        expected = Hypothesis(
            sentences[i],
            wu(logs, weights, 0.6, 0.0, 5),
            logs,
            weights[:-1, : None if attends else 0],
        )
        same(hypothesis, expected)
    assert network.calls == [(3, 1), (2, 1), (2, 1), (1, 1), (1, 1)]


def test_a_forced_prefix_has_no_end() -> None:
    network, (source, lengths) = RandomNetwork(3), THREE
    (hypothesis,) = force(network, source[:, :1], lengths[:1], np.array([[START], [4], [5]]))
    assert hypothesis.tokens == (4, 5)
    assert len(hypothesis.log_probabilities) == len(hypothesis.alignment) == 2


def test_forced_decoding_of_a_hypothesis_gives_its_score() -> None:
    network, (source, lengths) = RandomNetwork(5), THREE
    numbers = Scoring(0.7, 0.3, 2)
    for i, hypotheses in enumerate(beam(network, source, lengths, width=5, n_best=5, scoring=numbers)):
        for hypothesis in hypotheses:
            target = np.array([[START, *hypothesis.tokens, END]]).T
            same(force(network, source[:, [i]], lengths[[i]], target, scoring=numbers)[0], hypothesis)


# --------------------------------------------------------------------------------------------------------- sample


def shares(drawn: list[Hypothesis]) -> dict[Words, float]:
    counts: dict[Words, float] = {}
    for hypothesis in drawn:
        counts[hypothesis.tokens] = counts.get(hypothesis.tokens, 0.0) + 1 / len(drawn)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({}, lambda p: p),
        ({"temperature": 0.5}, lambda p: p**2),
        ({"top_k": 2}, lambda p: np.where(p >= np.sort(p)[-2], p, 0)),
        (
            {"top_p": 0.7},
            lambda p: np.where(
                p >= np.sort(p)[::-1][(np.cumsum(np.sort(p)[::-1]) < 0.7 * p.sum()).sum()], p, 0
            ),
        ),
    ],
    ids=["all of it", "temperature", "top k", "top p"],
)
def test_samples_have_the_probabilities_of_the_network(options: Any, changed: Callable[[Any], Any]) -> None:
    network, (source, lengths) = RandomNetwork(1, end=1.0), THREE
    count, most = 4000, np.array([3, 3, 3])
    samples = sample(
        network, source, lengths, count=count, rng=np.random.default_rng(0), most=most, **options
    )
    for i, drawn in enumerate(samples):
        assert len(drawn) == count
        own = source[: lengths[i], i]
        observed = shares(drawn)
        for words in [words for n in range(3) for words in itertools.product(WORDS, repeat=n)]:
            p = 1.0
            for t, word in enumerate((*words, END)):
                follow = np.exp(network.after(own, words[:t])[0])
                follow[[PAD, START]] = 0
                follow = changed(follow)
                p *= follow[word] / follow.sum()
            assert observed.get(words, 0.0) == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / count) + 1e-9)


def test_a_sample_has_its_probability_and_attention_weights() -> None:
    network, (source, lengths) = RandomNetwork(1), THREE
    samples = sample(network, source, lengths, count=5, rng=np.random.default_rng(0), temperature=2.0)
    for i, drawn in enumerate(samples):
        for hypothesis in drawn:
            ended = len(hypothesis.log_probabilities) > len(hypothesis.tokens)
            logs, weights = forced_by_hand(network, source[: lengths[i], i], hypothesis.tokens, ended=ended)
            score, n = float(logs.mean()), len(hypothesis.tokens)
            same(hypothesis, Hypothesis(hypothesis.tokens, score, logs, weights[:n]))


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_depends_on_its_own_generator_alone(seed: int) -> None:
    network, (source, lengths) = (
        RandomNetwork(seed, end=2.0),
        THREE,
    )  # so that some sentences are over before others
    together = sample(network, source, lengths, count=3, rng=np.random.default_rng(7))
    children = np.random.default_rng(7).spawn(3)
    for i, drawn in enumerate(together):
        (alone,) = sample(network, source[: lengths[i], [i]], lengths[[i]], count=3, rng=[children[i]])
        for one, two in zip(drawn, alone, strict=True):
            same(one, two)


@pytest.mark.parametrize("options", [{"temperature": 1e-3}, {"top_k": 1}, {"top_p": 1e-6}], ids=str)
def test_a_sample_of_top_k_1_is_greedy(options: Any) -> None:
    network, (source, lengths) = RandomNetwork(2, end=1.0), THREE
    greedy = beam(network, source, lengths, width=1)
    for drawn, (best,) in zip(
        sample(network, source, lengths, count=2, rng=np.random.default_rng(1), **options),
        greedy,
        strict=True,
    ):
        assert [hypothesis.tokens for hypothesis in drawn] == [best.tokens] * 2


def test_samples_are_truncated() -> None:
    network, (source, lengths) = RandomNetwork(end=-1e9), THREE
    for i, drawn in enumerate(sample(network, source, lengths, count=2, rng=np.random.default_rng(1))):
        assert [len(h.tokens) for h in drawn] == [2 * lengths[i] + 5] * 2


def test_finished_samples_are_not_computed() -> None:
    network, (source, lengths) = RandomNetwork(end=1.0), THREE
    sample(network, source, lengths, count=20, rng=np.random.default_rng(1))
    widths = [width for _, width in network.calls]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] == 20


# ------------------------------------------------------------------------------------------- networks as they are

SMALL: Any = {"embedding": 4, "encoder": 3, "decoder": 5, "attention": 3}
CONFIGS: dict[str, Any] = {
    "bahdanau": RecurrentConfig(20, 9, **SMALL),
    "conditional": RecurrentConfig(20, 9, **SMALL, style="conditional"),
    "luong": RecurrentConfig(20, 9, **SMALL, style="luong", cell="lstm", layers=2, score="general"),
    "none": RecurrentConfig(20, 9, **SMALL, score="none"),
    "transformer": TransformerConfig(
        20, 9, model_size=8, heads=2, feedforward_size=12, encoder_layers=2, decoder_layers=2
    ),
}


def real(name: str, dtype: Any = np.float64) -> Any:
    """A network of a family, with parameters that are drawn."""
    config = CONFIGS[name]
    template = Parameters(config.shapes())
    flat = np.random.default_rng(4).normal(size=template.flat.size).astype(dtype)
    kind: Any = TransformerNetwork if name == "transformer" else RecurrentNetwork
    network = kind(config, Parameters(config.shapes(), flat))
    network.parameters["output_bias"][END] += 3
    return network


def target_of(hypothesis: Hypothesis) -> Any:
    """The tokens, with END if it ended."""
    ended = len(hypothesis.log_probabilities) > len(hypothesis.tokens)
    return np.array([[START, *hypothesis.tokens, *[END] * ended]]).T


def loss_of(network: Any, source: Any, length: int, hypothesis: Hypothesis) -> float:
    """The mean loss of the hypotheses, by teacher forcing."""
    target = target_of(hypothesis)
    return float(network.loss(Batch(source[:length], np.array([length]), target, None))[0])


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "transformer"])
def test_the_posterior_changes_the_alignment_not_the_score(name: str) -> None:
    network, (source, lengths) = real(name), THREE
    target = np.array([[START, START, START], [4, 5, 6], [END, 7, 4], [PAD, END, END]])
    numbers = Scoring(0.6, 0.2, 5)  # a score that depends on the attention
    before = force(network, source, lengths, target, scoring=numbers)
    after = force(network, source, lengths, target, scoring=numbers, posterior=True)
    for i, (one, other) in enumerate(zip(before, after, strict=True)):
        assert (one.tokens, one.score) == (other.tokens, other.score)
        assert one.alignment.shape == other.alignment.shape
        if name != "none":
            np.testing.assert_allclose(other.alignment.sum(axis=1), 1, rtol=1e-12)
            assert lengths[i] == 1 or not np.allclose(one.alignment, other.alignment)
            (alone,) = force(network, source[:, [i]], lengths[[i]], target[:, [i]], posterior=True)
            np.testing.assert_allclose(alone.alignment, other.alignment, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_every_network_is_searched_as_it_was_trained(name: str) -> None:
    network, (source, lengths) = real(name), THREE
    for i, hypotheses in enumerate(beam(network, source, lengths, width=4, n_best=4)):
        (alone,) = beam(network, source[: lengths[i], [i]], lengths[[i]], width=4, n_best=4)
        for hypothesis, other in zip(hypotheses, alone, strict=True):
            same(hypothesis, other)
            same(force(network, source[:, [i]], lengths[[i]], target_of(hypothesis))[0], hypothesis)
            exact = -loss_of(network, source[:, [i]], lengths[i], hypothesis)
            assert hypothesis.score == pytest.approx(exact, rel=1e-9)
            if name not in ("none", "local"):
                np.testing.assert_allclose(hypothesis.alignment.sum(axis=1), 1, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_every_network_is_sampled(name: str) -> None:
    network, (source, lengths) = real(name), THREE
    samples = sample(network, source, lengths, count=6, rng=np.random.default_rng(0))
    for i, drawn in enumerate(samples):
        for hypothesis in drawn:
            exact = -loss_of(network, source[:, [i]], lengths[i], hypothesis)
            assert hypothesis.score == pytest.approx(exact, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_in_single_precision_the_scores_are_nearly_the_same(name: str) -> None:
    source, lengths = THREE
    for one, two in zip(
        *(beam(real(name, dtype), source, lengths, width=3) for dtype in (np.float32, np.float64)),
        strict=True,
    ):
        assert one[0].score == pytest.approx(two[0].score, abs=1e-4)
        assert one[0].alignment.dtype in (np.float32, np.float64)


# --------------------------------------------------------------------------------------------------------- errors

SOURCE, LENGTHS = THREE
RNG = np.random.default_rng(0)


ERRORS = """\
beam(RandomNetwork(), SOURCE, LENGTHS, width=0)
    ValueError: width must be at least 1. Got 0 instead.
beam(RandomNetwork(), SOURCE, LENGTHS, width=2, n_best=3)
    ValueError: n_best must be at most width = 2. Got 3 instead.
beam(RandomNetwork(), SOURCE, LENGTHS[:2])
    ValueError: source and lengths must be (T, B) or (T, B, F), and (B,). Got (4, 3) and (2,) instead.
beam(RandomNetwork(), SOURCE, LENGTHS + 1)
    ValueError: lengths must be from 1 to T = 4. Got 2 to 5 instead.
beam(RandomNetwork(), SOURCE, LENGTHS, most=np.array([3]))
    ValueError: most must have shape (3,). Got (1,) instead.
sample(RandomNetwork(), SOURCE, LENGTHS, rng=RNG, count=0)
    ValueError: count must be at least 1. Got 0 instead.
sample(RandomNetwork(), SOURCE, LENGTHS, rng=RNG, temperature=0)
    ValueError: temperature must be greater than 0. Got 0.0 instead.
sample(RandomNetwork(), SOURCE, LENGTHS, rng=RNG, top_k=0)
    ValueError: top_k must be at least 1. Got 0 instead.
sample(RandomNetwork(), SOURCE, LENGTHS, rng=RNG, top_p=1.5)
    ValueError: top_p must be at most 1. Got 1.5 instead.
sample(RandomNetwork(), SOURCE, LENGTHS, rng=[RNG])
    ValueError: rng must be one generator for each of 3 sentences. Got 1 instead.
force(RandomNetwork(), SOURCE, LENGTHS, np.array([[4, 4, 4]]))
    ValueError: target must be (n + 1, 3) and begin with START. Got shape (1, 3) instead.
"""


def test_arguments_are_checked() -> None:
    for call, text in transcript(ERRORS):
        assert_raises(call, text, globals())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_broken_network_is_an_error(value: float) -> None:
    network = RandomNetwork()
    network.bias[4] = value
    with pytest.raises(ValueError) as caught:
        beam(network, SOURCE, LENGTHS)
    assert str(caught.value) == f"the predictions of the network must be finite. Got {value} instead."


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_broken_recurrent_network_is_an_error(value: float, width: int) -> None:
    network = plain_network("bahdanau", 0)
    network.parameters["output_bias"][4] = value
    with pytest.raises(ValueError) as caught:
        beam(network, SOURCE, LENGTHS, width=width)
    assert str(caught.value) == f"the predictions of the network must be finite. Got {value} instead."


@pytest.mark.skipif(library.load() is None, reason="there is no native kernel")
@pytest.mark.parametrize("style", ["bahdanau", "conditional"])
@pytest.mark.parametrize("shape", [(1, 2), (4, 2), (3, 3), (3, 1)])
def test_tokens_of_a_wrong_shape_are_rejected(style: str, shape: tuple[int, int]) -> None:
    steps = plain_network(style, 0).stepper(*THREE, 2)
    with pytest.raises(ValueError):
        steps(np.full(shape, START))
    assert steps(np.full((3, 2), START))[0].shape[:2] == (3, 2)  # the stepper still works


def test_no_sentences_have_no_translations() -> None:
    none, lengths = np.zeros((1, 0), np.int64), np.zeros(0, np.int64)
    assert beam(RandomNetwork(), none, lengths) == []
    assert sample(RandomNetwork(), none, lengths, rng=RNG) == []
    assert force(RandomNetwork(), none, lengths, none) == []


@pytest.mark.parametrize("score", ["additive", "general"])
def test_no_sentences_of_a_recurrent_network_have_no_translations(score: str) -> None:
    config = RecurrentConfig(9, 9, embedding=4, encoder=3, decoder=5, attention=2, score=score)
    shapes = config.shapes()
    flat = np.zeros(sum(math.prod(shape) for shape in shapes.values()), np.float32)
    network = RecurrentNetwork(config, Parameters(shapes, flat))
    nobody = np.zeros((3, 0), np.int64), np.zeros(0, np.int64)
    assert beam(network, *nobody, width=2) == []
    assert sample(network, *nobody, count=2, rng=np.random.default_rng(0)) == []
