"""Translation memory: the most similar training pairs of a source, compared with their definition."""

from __future__ import annotations

import contextlib
import json
import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.seq2seq.extras import base
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources.text.vocabulary import END, START, UNKNOWN
from regard.seq2seq.storage.model_file import write_model
from regard.seq2seq.training.session import begin
from regard_lexicon.extras import translation_memory as module
from regard_lexicon.extras.translation_memory import TranslationMemory

ROWS = st.lists(st.lists(st.integers(UNKNOWN, 9), min_size=1, max_size=8).map(tuple), min_size=1, max_size=12)


def sequences(row: tuple[int, ...]) -> set[tuple[int, ...]]:
    """All sequences of at most six tokens, by their definition."""
    full = (START, *row, END)
    result = {full[i : i + n] for n in range(1, 7) for i in range(len(full) - n + 1)}
    return {sequence for sequence in result if UNKNOWN not in sequence}


def likeness(left: set[tuple[int, ...]], known: list[tuple[int, ...]]) -> list[float]:
    """The similarity of the rest of a source to each pair, by its definition."""
    have = [sequences(row) for row in known]
    weight = {s: math.log(len(known) / sum(s in other for other in have)) for has in have for s in has}
    return [
        sum(weight[s] for s in left & has) / (math.sqrt(sum(weight[s] ** 2 for s in has)) or 1)
        for has in have
    ]


@pytest.mark.slow
@given(ROWS, ROWS)
def test_the_retrieved_pairs_are_the_most_similar(
    known: list[tuple[int, ...]], queries: list[tuple[int, ...]]
) -> None:
    known = list(dict.fromkeys(known))
    memory = TranslationMemory(3, known, [(4 + number,) for number in range(len(known))])
    for row, retrieved in zip(queries, memory.retrieve(queries), strict=True):
        left, indices = sequences(row), [text[0] - 4 for text in retrieved]
        assert len(set(indices)) == len(indices) <= 3
        free = [i for i, other in enumerate(known) if other != row]
        for rank in range(3):
            alike = likeness(left, known)
            best = max((alike[i] for i in free), default=0)
            if rank == len(indices):
                assert best < 1e-4
                break
            assert alike[indices[rank]] > best - 1e-4
            left = left - sequences(known[indices[rank]])
            free.remove(indices[rank])


def test_a_second_pair_covers_the_remaining_n_grams() -> None:
    known = [(5, 6, 7, 8, 11), (5, 6, 7, 8, 12), (9, 13), (14, 15)]
    memory = TranslationMemory(2, known, [(20,), (21,), (22,), (23,)])
    assert memory.retrieve([(5, 6, 7, 8, 9)]) == [
        [(20,), (22,)]
    ]  # everything in the second is in the first, too


def test_a_pair_with_the_same_source_is_not_retrieved() -> None:
    memory = TranslationMemory(4, [(5, 6), (5, 7), (8, 9)], [(20,), (21,), (22,)])
    assert memory.retrieve([(5, 6)]) == [[(21,)]]


def test_of_pairs_with_one_source_the_first_is_stored() -> None:
    memory = TranslationMemory.learn(1, [((5, 6), (20,)), ((5, 6), (21,)), ((8,), (22,))])
    assert memory.retrieve([(6, 5, 6, 6)]) == [[(20,)]]


def test_n_grams_of_more_than_2_000_pairs_do_not_count() -> None:
    for count, retrieved in ((2000, [(4,)]), (2001, [])):
        known = [(5, i) for i in range(20, 20 + count)] + [(6,)] * 9
        memory = TranslationMemory(1, known, [(4,)] * len(known))
        assert memory.retrieve([(10, 5)]) == [retrieved]


@pytest.mark.parametrize(("letters", "most"), [(2, 8), (4, 12), (20, 25), (70_000, 9)])
def test_sequences_that_cannot_win_are_skipped_without_a_difference(
    letters: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words of common beginnings and ends, so that rare n-grams decide and common ones are left out."""
    rng = np.random.default_rng(letters)
    parts = [
        tuple(rng.integers(UNKNOWN, UNKNOWN + letters, rng.integers(1, most)).tolist()) for _ in range(40)
    ]
    rows = list(dict.fromkeys(parts[i] + parts[k] + parts[j] for i, j, k in rng.integers(40, size=(900, 3))))
    memory = TranslationMemory(4, rows[:600], [(4 + i,) for i in range(600)])
    together = memory.retrieve(rows)
    assert together[-50:] == memory.retrieve(rows[-50:])  # in other batches
    monkeypatch.setattr(module, "nearest", lambda *_, **__: None)
    assert memory.retrieve(rows) == together


@pytest.mark.parametrize("size", [40, 300, 70_000])
def test_restored(size: int) -> None:
    memory = TranslationMemory(2, [(5, size - 1), (6,)], [(4, 4), ()])
    data = memory.data((size, 40))
    again = TranslationMemory.restore(json.loads(json.dumps(memory.describe())), data, (size, 40))
    assert (again.count, list(again.sources), list(again.targets)) == (2, [(5, size - 1), (6,)], [(4, 4), ()])
    assert len(data["sources"]) == 5 * {40: 1, 300: 2, 70_000: 4}[size]


@pytest.mark.parametrize(
    ("config", "data", "message"),
    [
        ({"count": 0}, {}, "count must be at least 1. Got 0"),
        ({"count": True}, {}, "count must be an integer. Got True"),
        ({"count": 1, "more": 1}, {}, "its settings must be count. Got count, more"),
        ({"count": 1}, {"more": b""}, "its data must be sources, targets, order, scales"),
        ({"count": 1}, {"order": bytes(4)}, "order must be 3 numbers of 4 bytes. Got 4 bytes"),
        ({"count": 1}, {"order": b"\xff" * 12}, "order must be at most 2"),
        ({"count": 1}, {"scales": bytes(3)}, "scales must be 1 numbers of 4 bytes. Got 3 bytes"),
        ({"count": 1}, {"scales": bytes(4)}, "scales must be greater than 0. Got 0.0"),
        ({"count": 1}, {"scales": b"\xff" * 4}, "scales must hold finite numbers"),
        ({"count": 1}, {"sources": b"\5\2", "targets": b""}, "targets are cut off"),
        ({"count": 1}, {"sources": b"\5\2", "targets": b"\4"}, "targets are cut off"),
        ({"count": 1}, {"sources": b"\5\2\6\2", "targets": b"\4\2"}, "don't pair up"),
        ({"count": 1}, {"sources": b"\5\2\5\2", "targets": b"\4\2\4\2"}, "occurs twice"),
        ({"count": 1}, {"sources": b"\x28\2", "targets": b"\4\2"}, "sources must be at most 39. Got 40"),
        ({"count": 1}, {"sources": b"\1\2", "targets": b"\4\2"}, "sources must be at least 2. Got 1"),
    ],
)
def test_damaged(config: dict[str, object], data: dict[str, bytes], message: str) -> None:
    good = TranslationMemory(1, [(5,)], [(4,)]).data((40, 40))
    with pytest.raises((ValueError, TypeError), match=message):
        TranslationMemory.restore(config, good | data, (40, 40))


def test_ids_of_a_wrong_width() -> None:
    good = TranslationMemory(1, [(5,)], [(4,)]).data((300, 40))
    with pytest.raises(ValueError, match="numbers of 2 bytes"):
        TranslationMemory.restore({"count": 1}, good | {"sources": b"\5\0\2"}, (300, 40))


# ---------------------------------------------------------------------------------------------------- in a model


def spelled(rng: random.Random, letters: str, count: int) -> str:
    return "".join(rng.choice(letters) for _ in range(count))


def names(count: int, seed: int) -> dict[str, str]:
    """Invented names with invented translations, which only a memory can supply."""
    rng = random.Random(seed)
    result: dict[str, str] = {}
    while len(result) < count:
        result[spelled(rng, "abcdefgh", 6)] = spelled(rng, "XYZUVW", 3)
    return result


@pytest.fixture(scope="module", params=["recurrent", "transformer"])
def reader(request: pytest.FixtureRequest) -> Seq2Seq:
    """A model that has learned that two spellings of a name have the same translation."""
    known = names(400, 1)
    sources = [name + end for end in "12" for name in known]
    small = {"model_size": 64, "feedforward_size": 128, "encoder_layers": 1, "decoder_layers": 2}
    return Seq2Seq(
        family=request.param,
        network=small if request.param == "transformer" else None,
        source="characters",
        target="characters",
        extras={"translation_memory": 1},
        epochs=12,
        learning_rate=3e-3,
        seed=2,
    ).fit(sources, [known[source[:-1]] for source in sources])


@pytest.mark.slow
def test_retrieved_targets_are_used(reader: Seq2Seq, tmp_path: Path) -> None:
    """Unseen names are translated as in the memory, to which they are added after training."""
    fresh = names(50, 7)
    model = reader.model
    texts = model.source.tokenizer, model.target
    pairs = [
        (texts[0].encode(texts[0].tokenize(f"{n}1")), texts[1].encode(texts[1].tokenize(t)))
        for n, t in fresh.items()
    ]
    extras = {"translation_memory": TranslationMemory.learn(1, pairs)}
    write_model(tmp_path / "swapped", model._replace(extras=extras))
    translations = Seq2Seq.load(tmp_path / "swapped").translate([f"{name}2" for name in fresh])
    right = [translation.text == text for translation, text in zip(translations, fresh.values(), strict=True)]
    assert np.mean(right) > 0.8
    retrieved_weights = [
        translation.retrieved_weights[:3].sum() / 3
        for translation in translations
        if translation.retrieved_weights is not None
    ]
    assert len(retrieved_weights) == 50
    if reader.family == "recurrent":
        assert np.mean(retrieved_weights) > 0.5


@pytest.mark.slow
def test_training_and_translating_retrieve_the_same(reader: Seq2Seq) -> None:
    known = names(400, 1)
    sources = [name + end for end in "12" for name in known]
    again = Seq2Seq(source="characters", target="characters", extras={"translation_memory": 1})
    training = begin(again, [(s, known[s[:-1]]) for s in sources[:500]], [(s, "X") for s in sources[500:]])
    for corpus, queries in ((training.pairs, sources[:500]), (training.valid, sources[500:])):
        rows = [list(map(int, read.rows)) for read in again._read_all(queries)]
        assert [[int(number) for number in pair.source] for pair in corpus] == rows


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_a_damaged_file_is_rejected_or_read(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("damaged") / "model"
    Seq2Seq(
        extras={"translation_memory": 1},
        epochs=1,
        network={"encoder": 2, "decoder": 2, "embedding": 2, "attention": 2},
    ).fit(["a b", "a c", "d"], ["x", "y", "z"]).save(path)
    data = bytearray(path.read_bytes())
    for _ in range(3):
        data[rng.randrange(len(data))] = rng.randrange(256)
    path.write_bytes(data)
    with contextlib.suppress(ValueError):  # nothing else
        Seq2Seq.load(path).translate(["a b c"])


def test_retrieval_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PER_REPORT", 1024)
    pairs, progress = [*names(1130, 3).items()], list[tuple[str, int, int]]()
    model = Seq2Seq(source="characters", target="characters", extras={"translation_memory": 1})
    begin(model, pairs[:1100], pairs[1100:], progress=lambda *more: progress.append(more))
    assert progress == [("appending tokens to sources", more, 1130) for more in (1024, 76, 30)]


@pytest.mark.parametrize("options", [{"network": {"score": "none"}}, {"attention": False}], ids=str)
def test_a_memory_needs_attention(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="extras that append tokens need attention"):
        Seq2Seq(extras={"translation_memory": 2}, **options)  # type: ignore[arg-type]
