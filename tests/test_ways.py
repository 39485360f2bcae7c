"""Sentences said both ways: what is agreed on, by its definition, and in models."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli import main
from regard.seq2seq.data.batching import Batch, Corpus, Links, Numbered, collate, source_batch
from regard.seq2seq.data.vocabulary import END, START
from regard.seq2seq.decoding.search import Hypothesis, Scoring, beam, force
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.storage.safetensors import opened
from regard.seq2seq.ways import agreed, both_ways

pytestmark = pytest.mark.slow  # many small networks

WORDS = st.lists(st.integers(4, 9), min_size=1, max_size=6)


@given(st.lists(st.tuples(WORDS, WORDS, st.randoms()), max_size=5))
def test_each_pair_comes_as_it_is_and_from_its_end(given_: list[tuple[list[int], list[int], object]]) -> None:
    pairs = []
    for number, (source, target, _) in enumerate(given_):
        places = list(itertools.product(range(len(source)), range(len(target))))
        links: Links = frozenset(places[number::3])
        pairs.append(Numbered([*source, END], [START, *target, END], links))
    found = list(both_ways(Corpus(pairs)))
    assert [list(pair.source) for pair in found[::2]] == [list(pair.source) for pair in pairs]
    for pair, turned in zip(pairs, found[1::2], strict=True):
        assert list(turned.source) == [START, *pair.source]
        assert list(turned.target) == [START, *reversed(pair.target[1:-1]), END]
        # A link is between the same two words as before.
        named = {(pair.source[i], pair.target[1:][j], i, j) for i, j in pair.links}
        last = len(pair.target) - 3
        assert named == {(turned.source[i], turned.target[1:][j], i - 1, last - j) for i, j in turned.links}


def network(kind: str, seed: int) -> Network:
    """A small network of chance, sure enough of its words to have favourites."""
    made: Network = (
        RecurrentNetwork(RecurrentConfig(12, 9, 4, 4, 4, 4))
        if kind == "recurrent"
        else TransformerNetwork(TransformerConfig(12, 9, width=8, heads=2, hidden=8))
    )
    made.draw(np.random.default_rng(seed), np.ones(9))
    made.parameters.flat[:] += np.random.default_rng(seed + 1).normal(size=made.parameters.flat.shape)
    return made


def alone(network: Network, source: list[int], target: tuple[int, ...]) -> Hypothesis:
    """What a network says of one sentence by itself."""
    batch: Batch = collate([Numbered(source, [START, *target, END])])
    return force(network, batch.source, batch.lengths, batch.target, scoring=Scoring(length_penalty=0.7))[0]


@settings(max_examples=30)
@given(
    st.sampled_from(["recurrent", "transformer"]),
    st.integers(0, 2**16),
    st.lists(WORDS, min_size=1, max_size=4),
    st.integers(1, 4),
    st.data(),
)
def test_the_best_are_those_that_are_likely_both_ways(
    kind: str, seed: int, sources: list[list[int]], width: int, data: st.DataObject
) -> None:
    net, scoring = network(kind, seed), Scoring(length_penalty=0.7)
    n_best = data.draw(st.integers(1, width))
    rows = [[*source, END] for source in sources]
    found = agreed(net, *source_batch(rows), width=width, n_best=n_best, scoring=scoring)
    assert len(found) == len(rows)
    for row, several in zip(rows, found, strict=True):
        (there,), (back,) = (
            beam(net, *source_batch([asked]), width=width, n_best=width, scoring=scoring)
            for asked in (row, [START, *row])
        )
        each = {one.words for one in there} | {one.words[::-1] for one in back}
        scores = {
            words: (alone(net, row, words).score + alone(net, [START, *row], words[::-1]).score) / 2
            for words in each
        }
        best = sorted(scores.values(), reverse=True)[:n_best]
        np.testing.assert_allclose([one.score for one in several], best, rtol=1e-3, atol=1e-4)
        assert len({one.words for one in several}) == len(several) == min(n_best, len(each))
        for one in several:
            expected = alone(net, row, one.words)
            assert scores[one.words] == pytest.approx(one.score, rel=1e-3, abs=1e-4)
            assert one.log_probability == pytest.approx(expected.log_probability, rel=1e-3, abs=1e-4)
            np.testing.assert_allclose(one.alignment, expected.alignment, atol=1e-4)


# ---------------------------------------------------------------------------------------------------- in a model

LEFT = ["one", "two", "three", "four", "five", "one two", "two three", "three one", "four five", "five two"]
RIGHT = ["un", "deux", "trois", "quatre", "cinq"]
NAMED = dict(zip(LEFT[:5], RIGHT, strict=True))


def called(source: str) -> str:
    return " ".join(NAMED[word] for word in source.split())


@pytest.fixture(scope="module")
def speaker() -> Seq2Seq:
    """A model that says two words and more in the order in which it reads them, or from the end."""
    return Seq2Seq(both_ways=True, epochs=120, seed=3).fit(LEFT, list(map(called, LEFT)))


def test_it_has_learned_to_say_sentences_from_their_end(speaker: Seq2Seq) -> None:
    net, texts = speaker.model.network, (speaker.model.source, speaker.model.target)
    for source in LEFT:
        row = [*texts[0].encode(source.split()), END]
        for asked, target in ((row, called(source)), ([START, *row], " ".join(called(source).split()[::-1]))):
            ((found,),) = beam(net, *source_batch([asked]), width=2)
            assert [texts[1].tokens[word] for word in found.words] == target.split()


def test_translations_are_likely_both_ways(speaker: Seq2Seq) -> None:
    sources = [*LEFT, "", "nothing known"]
    found = speaker.candidates(sources, beam=3)
    assert [several[0].text for several in found[: len(LEFT)]] == [called(source) for source in LEFT]
    for source, several in zip(sources, found, strict=True):
        assert [one.score for one in several] == sorted((one.score for one in several), reverse=True)
        for one in several:
            assert one.source == (*source.split(), "</s>")
            assert one.alignment is not None
            assert one.alignment.shape == (len(one.tokens), len(one.source))
    assert [one.text for one in speaker.translate(sources, beam=3)] == [several[0].text for several in found]
    said = speaker.align([LEFT[7]], [called(LEFT[7])])[0]
    assert said.log_probability == pytest.approx(found[7][0].log_probability, abs=1e-4)


def test_greedy_is_from_the_beginning_alone(speaker: Seq2Seq) -> None:
    for source, found in zip(LEFT, speaker.translate(LEFT, beam=1), strict=True):
        row = [*speaker.model.source.encode(source.split()), END]
        ((expected,),) = beam(speaker.model.network, *source_batch([row]), width=1)
        assert found.score == pytest.approx(expected.score, abs=1e-5)


def test_saved_and_loaded(speaker: Seq2Seq, tmp_path: Path) -> None:
    speaker.save(tmp_path / "model")
    with opened(tmp_path / "model", "model file") as file:
        assert (file.metadata["version"], json.loads(file.metadata["both_ways"])) == ("3", True)
    loaded = Seq2Seq.load(tmp_path / "model")
    assert loaded.both_ways
    assert [(one.text, one.score) for one in loaded.translate(LEFT)] == [
        (one.text, one.score) for one in speaker.translate(LEFT)
    ]


def test_refused(speaker: Seq2Seq) -> None:
    with pytest.raises(ValueError, match="coverage_penalty must be 0"):
        speaker.translate(["one"], scoring=Scoring(coverage_penalty=0.2))
    with pytest.raises(TypeError, match="both_ways must be True or False"):
        Seq2Seq(both_ways=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("attention", [True, False])
def test_with_a_memory_and_without_attention(attention: bool) -> None:
    model = Seq2Seq(both_ways=True, attention=attention, memory=int(attention), epochs=2)
    model.fit(LEFT, list(map(called, LEFT)))
    for one in model.translate(LEFT):
        assert (one.alignment is None) is not attention
        assert bool(one.beside) <= attention
    pairs = list(zip(LEFT, map(called, LEFT), strict=True))
    training = model.begin(pairs, pairs[:3])
    for corpus, count in ((list(training.pairs), len(pairs)), (list(training.valid), 3)):
        assert len(corpus) == 2 * count
        for there, back in zip(corpus[::2], corpus[1::2], strict=True):
            assert list(back.source) == [START, *there.source]  # and beside it the same


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs, out = tmp_path / "pairs.tsv", tmp_path / "out"
    pairs.write_text("".join(f"{source}\t{called(source)}\n" for source in LEFT), encoding="utf-8")
    assert main(["train", str(pairs), "--both-ways", "--epochs", "2", "--out", str(out)]) == 0
    assert Seq2Seq.load(out / "model.safetensors").both_ways
    capsys.readouterr()
    asked = tmp_path / "asked.txt"
    asked.write_text("two one\n", encoding="utf-8")
    assert main(["translate", str(out), str(asked), "--n-best", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
