"""Which entries of a dictionary are doubtful: those that a model which has never seen their words finds improbable."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.seq2seq.corpus.spelling import families
from regard.seq2seq.evaluation.metrics import edit_distance
from regard_lexicon.inflections import Irregular
from regard_lexicon.lexicon import Variant

if TYPE_CHECKING:
    from regard.seq2seq import Translation
    from regard.seq2seq.translator import Translator

__all__ = ["Doubt", "Entry", "Judged", "as_folds", "doubts", "worst_first"]

Phones = tuple[str, ...]
Entry = tuple[str, Phones]
Change = tuple[Phones, Phones]
_SEED = 1  # of the folds


class Doubt(NamedTuple):
    """An entry whose phones are not those that a model expects.

    `doubt`: how much more probable an answer is, for each phone in which it differs; `probability`: that the expected
    phones are right, if the model is calibrated. An entry that only its inflections doubt has no expected phones.
    """

    word: str
    listed: tuple[str, ...]
    expected: tuple[str, ...]
    doubt: float
    probability: float | None


class Judged(NamedTuple):
    """The doubts of a model, and how many words it pronounces otherwise than any variant that is listed."""

    doubts: list[Doubt]
    wrong: int


def as_folds(known: Sequence[Sequence[str]], count: int) -> list[list[str]]:
    """Return parts of similar numbers of words; all words of a family are in one.

    In random order, each family joins the smallest part so far.
    """
    folds: list[list[str]] = [[] for _ in range(count)]
    sizes = [(0, number) for number in range(count)]
    for i in np.random.default_rng(_SEED).permutation(len(known)):
        size, number = heapq.heappop(sizes)
        folds[number] += known[i]
        heapq.heappush(sizes, (size + len(known[i]), number))
    return folds


def doubts(model: Translator, words: Mapping[str, Sequence[Variant]]) -> Judged:
    """Return the entries of these words whose phones are less probable than others that are not listed, in their order.

    The log-odds are those by which a model ranks its answers: with a reranker, that of network and reranker together.
    The doubt is the largest of all answers: a wrong entry differs from the right one in few phones, a word with an
    irregular spelling differs from what a model expects in many. That one variant of a word is less probable than
    another says nothing about either.
    """
    entries = [(word, variant.phones) for word, variants in words.items() for variant in variants]
    listed = model.align(
        [word for word, _ in entries], [" ".join(phones) for _, phones in entries], rerank=True
    )
    known = {word: {variant.phones for variant in variants} for word, variants in words.items()}
    candidates = dict(zip(words, model.candidates([*words]), strict=True))
    found = []
    for (word, phones), translation in zip(entries, listed, strict=True):
        others = [candidate for candidate in candidates[word] if candidate.tokens not in known[word]]
        if others and model.ranking(others[0]) > model.ranking(translation):
            doubt = max(_doubt(model, phones, translation, candidate) for candidate in others)
            probability = _probability(model, candidates[word]) if others[0] is candidates[word][0] else None
            found.append(Doubt(word, phones, others[0].tokens, doubt, probability))
    return Judged(found, sum(candidates[word][0].tokens not in known[word] for word in words))


def _doubt(model: Translator, phones: Sequence[str], listed: Translation, answer: Translation) -> float:
    """Return the log-odds of an answer to the listed phones, for each phone that differs.

    It grows with the length by chance, and is divided by the square root of the number of phones and the end.
    """
    differing = max(edit_distance(answer.tokens, phones), 1)
    return (model.ranking(answer) - model.ranking(listed)) / differing / math.sqrt(len(phones) + 1)


def _probability(model: Translator, candidates: Sequence[Translation]) -> float | None:
    return None if model.model.calibration is None else model.probability(candidates)


def worst_first(
    folds: Sequence[Sequence[Doubt]], irregular: Mapping[Entry, Irregular], entries: int
) -> list[Doubt]:
    """Return the doubts of folds of equal size in the order in which to look at them.

    The rank of a doubt is its place in its own fold, times the number of folds, since the numbers of models that were
    trained unequally, as on a busy machine, cannot be compared: of the same rank, the larger first. The share of wrong
    entries falls about as 1 / rank, so a second sign, by Bayes' rule, divides the rank by how much more often wrong
    entries have it: `Irregular.odds`. Such an entry that no model doubts has the last rank of the dictionary, divided
    in the same way. `entries`: those of the dictionary.
    """
    rows = []
    for found in folds:
        for place, doubt in enumerate(sorted(found, key=lambda doubt: -doubt.doubt)):
            sign = irregular.get((doubt.word, doubt.listed))
            rows.append(((place + 1) * len(folds) / (sign.odds if sign else 1.0), -doubt.doubt, doubt))
    known = {(doubt.word, doubt.listed) for *_, doubt in rows}
    for entry, sign in irregular.items():
        if entry not in known:
            rows.append((entries / sign.odds, 0.0, Doubt(*entry, (), 0.0, None)))
    return _joined(doubt for *_, doubt in sorted(rows, key=lambda row: row[:2]))


def _joined(found: Iterable[Doubt]) -> list[Doubt]:
    """Return doubts of which those of a spelling family that the same change corrects follow the first one."""
    doubts = [*found]
    of_words = {w: i for i, family in enumerate(families(doubt.word for doubt in doubts)) for w in family}
    groups: list[list[Doubt]] = []
    of_changes: dict[tuple[int, Change], list[Doubt]] = {}
    for doubt in doubts:
        changes = [(of_words[doubt.word], change) for change in _changes(doubt)]
        group = next((of_changes[change] for change in changes if change in of_changes), None)
        if group is None:
            groups.append(group := [])
        group.append(doubt)
        for change in changes:
            of_changes.setdefault(change, group)
    return [*chain.from_iterable(groups)]


def _changes(doubt: Doubt) -> Iterator[Change]:
    """Yield which listed phones become which expected ones."""
    listed, expected = doubt.listed, doubt.expected
    if expected:
        for tag, i, j, k, m in SequenceMatcher(None, listed, expected, autojunk=False).get_opcodes():
            if tag != "equal":
                yield listed[i:j], expected[k:m]
