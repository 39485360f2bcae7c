"""Entries of a dictionary that differ from their own inflections: a sign of errors that needs no model.

Two words of a spelling family differ by an ending: ``walk, walking``. If most pairs with the same two endings have one
of a few differences of their phones, an entry that has another difference in all such pairs is doubtful: the wrong
phone is in it, since its inflections are regular among themselves, or in all of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

from regard.seq2seq.corpus.spelling import families
from regard_lexicon.lexicon import Variant
from regard_lexicon.stress import stressed

__all__ = ["Irregular", "irregular"]

Phones = tuple[str, ...]
Ending = tuple[Sequence[str], Sequence[str]]  # by what two words, or their phones, differ at their ends
Pair = tuple[Ending, str, str]
Text = TypeVar("Text", bound=Sequence[str])

_STEM, _REPLACED, _ADDED = 3, 2, 4  # letters at least and at most, of two words
_FEWEST = 100  # pairs, of which endings are known
_USUAL = 0.02  # of the pairs of two endings, at least, have a difference of phones that is usual
_REGULAR = 0.8  # of them, at least, have a usual one


class Irregular(NamedTuple):
    """From how many inflections an entry differs, and how rarely pairs with the most regular of their endings do."""

    inflections: int
    share: float

    @property
    def odds(self) -> float:
        """How much more often wrong entries are so than sound ones, about: each inflection adds as much as the first.

        Of planted errors in CMUdict: 8, 13, 27, 46 times with 1, 2, 3, 4 inflections and shares of a tenth.
        """
        return self.inflections / self.share


class _Rule(NamedTuple):
    """The usual differences of phones of two words with these endings, and the share of pairs with another one."""

    usual: frozenset[Ending]
    share: float


def irregular(lexicon: Mapping[str, Sequence[Variant]]) -> dict[tuple[str, Phones], Irregular]:
    """Return the entries that differ from all of their inflections.

    Stress does not count, since inflections shift it.
    """
    phones = {word: [stressed(v.phones, "drop") for v in variants] for word, variants in lexicon.items()}
    pairs = [*_pairs(lexicon)]
    rules = _rules(pairs, phones)
    shares: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    fitting = set[tuple[str, int]]()
    for ending, first, second in pairs:
        if rule := rules.get(ending):
            fits = [[_ending(a, b) in rule.usual for b in phones[second]] for a in phones[first]]
            for word, rows in ((first, fits), (second, [*zip(*fits, strict=True)])):
                for i, row in enumerate(rows):
                    shares[word, i].append(rule.share)
                    fitting |= {(word, i)} if any(row) else set()
    return {
        (word, lexicon[word][i].phones): Irregular(len(found), min(found))
        for (word, i), found in shares.items()
        if (word, i) not in fitting
    }


def _pairs(words: Iterable[str]) -> Iterator[Pair]:
    """Yield two words of a family with their endings, the shorter word first."""
    for family in families(words):
        for first, second in combinations(sorted(family, key=len), 2):
            old, new = ending = _ending(first, second)
            if len(first) - len(old) >= _STEM and len(old) <= _REPLACED and len(new) <= _ADDED:
                yield ending, first, second


def _rules(pairs: Sequence[Pair], phones: Mapping[str, Sequence[Phones]]) -> dict[Ending, _Rule]:
    """Return the rules of regular endings, by the first variants."""
    counts: defaultdict[Ending, Counter[Ending]] = defaultdict(Counter)
    for ending, first, second in pairs:
        counts[ending][_ending(phones[first][0], phones[second][0])] += 1
    rules = {}
    for ending, differences in counts.items():
        total = differences.total()
        often = {difference: n for difference, n in differences.items() if n >= _USUAL * total}
        others = total - sum(often.values())
        if total >= _FEWEST and others <= (1 - _REGULAR) * total:
            rules[ending] = _Rule(frozenset(often), max(others, 1) / total)
    return rules


def _ending(first: Text, second: Text) -> tuple[Text, Text]:
    """Return what is left of two sequences without their common beginning."""
    same = next(
        (i for i, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]),
        min(len(first), len(second)),
    )
    return first[same:], second[same:]  # type: ignore[return-value] # a slice of a sequence is of its type
