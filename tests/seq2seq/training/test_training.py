"""Training: batches under a budget, learning rates, and resuming, which gives the result of an uninterrupted one."""

from __future__ import annotations

import dataclasses
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.seq2seq import Seq2Seq
from regard.seq2seq.corpus.batching import Batch, Corpus, EncodedPair, batches, collate
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.sources import Spec
from regard.seq2seq.sources.text.vocabulary import END, START
from regard.seq2seq.storage.checkpoint_file import read_checkpoint, write_checkpoint
from regard.seq2seq.training import loop
from regard.seq2seq.training.config import ResolvedConfig, TrainingConfig
from regard.seq2seq.training.defaults import choose_config, choose_epochs, choose_training
from regard.seq2seq.training.loop import Diverged, Training
from regard.seq2seq.training.session import begin

SIZES = {"embedding": 4, "encoder": 3, "decoder": 5, "attention": 3}
DEFAULTS = {
    "batch_tokens": 640,
    "learning_rate": 5e-3,
    "warm_up": 150,
    "dropout": 0.2,
    "guided_alignment": 0.0,
}


def resolved(**options: Any) -> ResolvedConfig:
    epochs = {} if {"minutes", "steps"} & options.keys() else {"epochs": 9}
    return ResolvedConfig(**{**DEFAULTS, **epochs, **options})


def pairs(count: int, seed: int = 0, longest: int = 6) -> list[EncodedPair]:
    rng = np.random.default_rng(seed)

    def side() -> list[int]:
        return rng.integers(4, 9, rng.integers(1, longest + 1)).tolist()

    return [EncodedPair([*side(), END], [START, *side(), END]) for _ in range(count)]


def begun(config: ResolvedConfig, count: int = 60, prepared: float = 0.0, **options: Any) -> Training:
    network = build(RecurrentConfig(9, 9, **{**SIZES, **options}))
    network.initialize(np.random.default_rng(1), np.ones(9))
    return Training(network, Corpus(pairs(count)), Corpus(pairs(20, 1)), config, prepared=prepared)


# ------------------------------------------------------------------------------------------------------ batches


def test_a_corpus_returns_its_sequences() -> None:
    examples = [*pairs(30), EncodedPair([4, 2], [1, 5, 2], frozenset({(0, 0)}))]
    corpus = Corpus(iter(examples))
    assert len(corpus) == 31
    for i, pair in enumerate(examples):
        assert (list(corpus[i].source), list(corpus[i].target)) == (list(pair.source), list(pair.target))
        assert corpus[i].links == pair.links
    batch, expected = corpus.batch([3, 30]), collate([examples[3], examples[30]])
    for one, other in zip(batch, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@given(
    lengths=st.lists(st.tuples(st.integers(1, 12), st.integers(2, 12)), min_size=1, max_size=80),
    tokens=st.integers(1, 100),
    seed=st.integers(0, 5),
)
def test_batches_hold_every_pair_once_within_the_budget(
    lengths: list[tuple[int, int]], tokens: int, seed: int
) -> None:
    corpus = Corpus(EncodedPair([2] * source, [1] * target) for source, target in lengths)
    result = batches(corpus, tokens, np.random.default_rng(seed))
    assert sorted(itertools.chain.from_iterable(result)) == list(range(len(lengths)))
    for batch in result:
        most = max(max(lengths[i]) for i in batch)
        assert len(batch) * most <= tokens or len(batch) == 1
    other = batches(corpus, tokens, np.random.default_rng(seed + 1))
    assert len(other) == len(result)  # a resumed epoch can count on it


def test_batches_have_one_source_length_where_there_are_enough() -> None:
    corpus = Corpus(EncodedPair([2] * length, [1, 2]) for length in (3, 4) for _ in range(50))
    for batch in batches(corpus, 40, np.random.default_rng(0)):
        assert len({corpus.source_lengths[i] for i in batch}) == 1


def test_links_of_a_token_sum_to_1() -> None:
    links = collate([EncodedPair([4, 5, 2], [1, 6, 7, 2], frozenset({(0, 0), (1, 0)}))]).links
    assert links is not None
    assert links[:, 0].tolist() == [[0.5, 0.5, 0], [0, 0, 0], [0, 0, 0]]


def test_a_part_of_a_batch_is_the_batch_of_these_pairs() -> None:
    examples = pairs(9)
    full = collate(examples)
    for half in range(2):
        part, expected = full.part(slice(half, None, 2)), collate(examples[half::2])
        np.testing.assert_array_equal(part.source, expected.source)
        np.testing.assert_array_equal(part.target, expected.target)


# ------------------------------------------------------------------------------------------------ learning rate


def test_the_rate_warms_up_and_decays_to_0() -> None:
    config = resolved(learning_rate=1.0, warm_up=4)
    rates = [config.rate_at(step, 12, 0.0) for step in range(1, 13)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates == sorted(rates[:4]) + sorted(rates[4:], reverse=True)
    assert rates[-1] == 0.125
    assert config.rate_at(6, 12, 1.0) == 0.0


def test_the_steps_of_an_epoch_count_every_pair_and_token() -> None:
    training = begun(resolved(epochs=1, batch_tokens=40))
    steps = list(training)
    assert len(steps) > 2
    assert sum(step.pairs for step in steps) == len(training.pairs)
    assert sum(step.tokens for step in steps) == (training.pairs.target_lengths - 1).sum()


def test_patience_ends_the_training() -> None:
    steps = list(begun(resolved(epochs=50, learning_rate=1e-9, warm_up=1, patience=3, dropout=0.0)))
    judged = [step for step in steps if step.validation is not None]
    since = [step.best for step in judged][::-1].index(True)
    assert since == 3
    assert steps[-1].epoch < 50


@pytest.mark.slow
def test_the_last_model_is_kept_with_keep_last() -> None:
    worse = 0
    for keep in ("best", "last"):
        training, at_best, lowest = (
            begun(resolved(epochs=12, learning_rate=0.1, warm_up=1, keep=keep)),
            None,
            np.inf,
        )
        for step in training:
            if step.validation is not None:
                better = step.validation < lowest
                lowest, worse = min(lowest, step.validation), worse + (not better)
                assert step.best == (better or keep == "last")
                if step.best:
                    at_best = training.flat.copy()
        np.testing.assert_array_equal(training.network.parameters.flat, at_best)
    assert worse > 0  # otherwise this would show nothing


def test_the_mean_of_the_parameters_is_validated_and_kept() -> None:
    training = begun(resolved(epochs=2, batch_tokens=40, warm_up=1, ema_decay=0.9))
    walked = []
    for step in training:
        walked.append(training.flat.copy())
        if step.validation is not None:
            assert not (training.flat == training.best).all()
    mean = training.network.parameters.flat
    expected = begun(resolved(ema_decay=0.9)).flat.copy()
    for number, at in enumerate(walked, 1):
        expected += (1 - min(0.9, number / (number + 10))) * (at - expected)
        if number == len(walked):
            np.testing.assert_allclose(mean, expected, atol=1e-5)


@pytest.mark.parametrize("normalize", ["softmax", "hard"])
def test_two_threads_give_the_bits_of_one(normalize: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in ("1", "2"):  # with more than one BLAS thread, halves are worked on in turn
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", threads)
        training = begun(resolved(epochs=2, batch_tokens=200, warm_up=1), normalize=normalize)
        list(training)
        results.append(training.flat.tobytes())
    assert results[0] == results[1]


def test_a_nan_loss_stops_with_the_last_good_parameters() -> None:
    training = begun(resolved(epochs=3, batch_tokens=60, warm_up=1))
    steps = iter(training)
    first = next(step for step in steps if step.best)
    good = training.flat.copy()
    training.network.parameters["decoder_bias"][...] = np.nan
    with pytest.raises(Diverged) as caught:
        list(steps)
    assert str(caught.value) == f"the loss is not finite any more: nan at step {first.number + 1}"
    assert (training.flat == good).all()


# ------------------------------------------------------------------------------------------------------- going on


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"style": "luong", "cell": "lstm", "score": "general"}, {"normalize": "hard"}],
    ids=["gru", "lstm", "hard"],
)
@pytest.mark.parametrize(
    "given",
    [{"epochs": 4, "patience": 9}, {"epochs": 4, "ema_decay": 0.9, "rdrop": 0.9}, {"steps": 7}],
    ids=lambda given: [*given][-1],
)
def test_a_resumed_training_gives_the_same_bits(
    options: dict[str, Any], given: dict[str, Any], tmp_path: Path
) -> None:
    config = resolved(batch_tokens=60, warm_up=3, **given)
    full = begun(config, **options)
    steps = [step._replace(seconds=0.0) for step in full]
    for stop in (1, len(steps) // 4, len(steps) // 3, len(steps) - 1):  # in and at the end of epochs
        first = begun(config, **options)
        for step in first:
            if step.number == stop:
                write_checkpoint(tmp_path / "it", first.state())
                break
        second = begun(config, **options)
        second.resume_from(read_checkpoint(tmp_path / "it"))
        rest = [step._replace(seconds=0.0) for step in second]
        assert rest == steps[stop:]
        assert second.flat.tobytes() == full.flat.tobytes()
        assert second.best_loss == full.best_loss


def test_a_time_limit_between_two_steps_keeps_the_best_model() -> None:
    """The time between steps counts, too."""
    training = begun(resolved(epochs=1000, batch_tokens=60, minutes=1.0))
    steps = []
    for step in training:
        steps.append(step)
        if step.number == training.per_epoch + 2:
            training.begun -= 100
    assert steps[-1].validation is not None
    assert steps[-1].number > training.per_epoch + 2
    assert training.best_loss < np.inf


@pytest.mark.slow
def test_the_time_limit_is_used() -> None:
    """Without epochs, a training ends by its time limit, which is long enough for the usual number of them."""
    training = begun(resolved(batch_tokens=60, minutes=1e6))
    steps = []
    for step in training:
        steps.append(step)
        if step.epoch == 30:
            training.begun -= 6e7
    assert steps[-1].epoch >= 30
    assert steps[-1].validation is not None
    assert steps[-1].total == steps[-1].number
    assert all(step.total >= step.number for step in steps)
    assert not training.finished_early()


def test_with_minutes_alone_the_rate_decays_with_time() -> None:
    config = resolved(minutes=1.0, learning_rate=1.0, warm_up=10)
    total = begun(config).total
    for step, passed in ((1, 0.0), (5, 0.1), (10, 0.25), (10**9, 0.5), (20, 1.0)):
        assert config.rate_at(step, total, passed) == pytest.approx(min(step / 10, 1 - passed))


def test_training_needs_an_end() -> None:
    with pytest.raises(ValueError, match=r"^epochs must be given without minutes and steps: "):
        resolved(epochs=None)


def test_minutes_replace_the_default_epochs_only() -> None:
    corpus = begun(resolved()).pairs
    config = choose_config("recurrent", len(corpus), Spec(tokens=10), 10, {})
    plain = choose_training(config, corpus, TrainingConfig())
    assert plain.epochs == choose_epochs(len(corpus))
    timed = choose_training(config, corpus, TrainingConfig(minutes=3.0))
    assert timed.epochs is None
    assert dataclasses.replace(timed, epochs=plain.epochs, minutes=None) == plain
    assert choose_training(config, corpus, TrainingConfig(minutes=3.0, epochs=2)).epochs == 2


@pytest.mark.parametrize("steps", [3, 7])
def test_steps_end_a_training_within_an_epoch_or_after_it(steps: int) -> None:
    training = begun(resolved(steps=steps, batch_tokens=60, warm_up=2, learning_rate=0.25), count=30)
    assert 3 < training.per_epoch < 7
    taken = list(training)
    assert [step.number for step in taken] == list(range(1, steps + 1))
    assert taken[-1].validation is not None
    assert taken[-1].total == steps
    rates = {3: [0.5, 1, 1], 7: [0.5, 1, 1, 0.8, 0.6, 0.4, 0.2]}  # two steps of warm-up, then down to 0
    assert [step.learning_rate / 0.25 for step in taken] == pytest.approx(rates[steps])


def test_preparing_counts_as_training_and_leaves_a_step() -> None:
    training = begun(resolved(minutes=1.0, batch_tokens=60), prepared=120.0)
    (step,) = training
    assert step.validation is not None
    assert (step.number, step.total) == (1, 1)
    assert step.seconds >= 120
    pairs = [("ab", "X"), ("ac", "Y"), ("bc", "Z")]
    plain, extra = (
        begin(Seq2Seq(source="characters", extras=extras, minutes=1), pairs, pairs)
        for extras in ({}, {"similar": 1})
    )
    assert plain.seconds == plain.prepared == 0
    assert extra.seconds == extra.prepared > 0


def test_steps_choose_no_other_sizes_and_no_epochs() -> None:
    corpus = begun(resolved()).pairs
    config = choose_config("recurrent", len(corpus), Spec(tokens=10), 10, {})
    chosen = choose_training(config, corpus, TrainingConfig(steps=80))
    assert (chosen.steps, chosen.epochs, chosen.minutes, chosen.warm_up) == (80, None, None, 8)
    by_epochs = choose_training(config, corpus, TrainingConfig())
    assert chosen.learning_rate == by_epochs.learning_rate


def test_a_time_limit_may_be_added_and_removed_when_resuming() -> None:
    with_epochs, with_minutes = resolved(epochs=9), resolved(minutes=3.0)
    for before, now in (
        (with_epochs, with_minutes),
        (with_minutes, with_epochs),
        (with_minutes, with_minutes),
    ):
        begun(now).resume_from(begun(before).state())


@pytest.mark.parametrize("steps", [1, 3])
def test_resuming_after_the_time_limit_keeps_the_model(steps: int, tmp_path: Path) -> None:
    first = begun(resolved(epochs=1000, batch_tokens=60, keep="last"), count=200)
    for step in first:
        if step.number == steps:
            write_checkpoint(tmp_path / "it", first.state()._replace(seconds=120.0))
            break
    assert steps < first.per_epoch  # nothing has been validated
    second = begun(resolved(epochs=1000, batch_tokens=60, keep="last", minutes=1.0), count=200)
    drawn = second.flat.copy()
    second.resume_from(read_checkpoint(tmp_path / "it"))
    learned = second.flat.copy()
    remaining = list(second)
    assert [step.best for step in remaining] == [True]
    assert (second.flat == learned).all()  # the step that detected it did not change the parameters
    assert (learned != drawn).any()


def test_a_checkpoint_of_another_version_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = begun(resolved()).state()
    monkeypatch.setattr(loop, "__version__", "9.9.9")
    with pytest.raises(ValueError, match=r"another training: version was 0\.1\.0, and is 9\.9\.9$"):
        begun(resolved()).resume_from(state)


def test_a_checkpoint_of_another_training_is_rejected(tmp_path: Path) -> None:
    training = begun(resolved(epochs=2))
    state = training.state()
    other_pairs = "the pairs, or which of their tokens are known, have changed"
    others = {
        "training epochs was 2, and is 3; training learning_rate was 0.005, and is 0.5": begun(
            resolved(epochs=3, learning_rate=0.5)
        ),
        other_pairs: begun(
            resolved(epochs=3), count=61
        ),  # epochs and sizes depend on them by default, so they are not compared
        "network layers was 1, and is 2": begun(resolved(epochs=2), layers=2),
    }
    for changes, other in others.items():
        with pytest.raises(
            ValueError, match=f"^the checkpoint is of another training: {re.escape(changes)}$"
        ):
            other.resume_from(state)
    begun(resolved(epochs=2, minutes=3.0)).resume_from(state)  # time limits may change
    with pytest.raises(ValueError, match=r"^the checkpoint doesn't have the arrays of this training$"):
        training.resume_from(state._replace(arrays={}))


def test_a_batch_counts_its_tokens() -> None:
    batch = Batch(np.array([[4], [2]]), np.array([2]), np.array([[1], [5], [2], [0]]))
    assert batch.target_tokens() == 2
