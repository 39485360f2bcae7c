"""Print how well attention finds which words belong together: alignment error rate on hand-made links.

    python benchmarks/alignment.py [--minutes 3] [--guidance 1] [--together 1]

Greek verses (lemmas) and their English translation, at most 25 words on either side. A model that has learned to
translate is made to write the right translation. The error rate is that of Och and Ney 2003, all links by hand being
sure ones. Links are made in four ways:

- *weights*: each word is linked with the Greek word that was looked at most before it was written;
- *posterior*: with the one that it was most probably taken from, now that it is known
  (`regard.seq2seq.networks.recurrent.posterior`);
- *both*: with the one that this model and a model of the other direction, English to Greek, find best together (Liang,
  Taskar and Klein 2006; `regard.seq2seq.alignment.links.joint`);
- *again*: as *both*, by two models of a second round, that were taught the links which the first round found (Chen et
  al. 2016; Garg et al. 2019).

With `--together` each model is several that differ in their seed, and say together where they look: the mean.

What each model has seen. First and second round: the text of the chapters for training and of those for the test, as is
usual for word alignment, and no link by hand. *By hand*: text and links of the chapters for training, nothing of the
test's. The text of the chapters for validation chooses the best moment of each; by their links this procedure was
chosen. The decoders are conditional ones (Sennrich et al. 2017).

Floors: the diagonal, and IBM model 1 (Brown et al. 1993), both measured here.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from trial import Pairing, arguments, header, sides, train

from data import Split, Verse, bible, run
from regard.seq2seq import Ensemble
from regard.seq2seq.alignment.links import joint, links
from regard.seq2seq.evaluation.metrics import LinkScore, alignment_error_rate
from regard.seq2seq.translator import Translator

Ids = NDArray[np.int64]
Links = frozenset[tuple[int, int]]

LONGEST = 25
ROUNDS = 10  # of IBM model 1
TEXT: dict[str, Any] = {
    "source": "tokens",
    "target": "tokens",
    "max_tokens": LONGEST,
    "least": 2,
    "network": {"style": "conditional", "embedding": 96, "encoder": 64, "decoder": 96, "attention": 64},
    "recipe": {"smoothing": 0.0},
}


def score(found: Sequence[Links], verses: Sequence[Verse]) -> LinkScore:
    """Compare links with those by hand."""
    right = [verse.links for verse in verses]
    return alignment_error_rate(found, right, right)


def line(name: str, result: LinkScore) -> None:
    """Print one line of the table."""
    print(f"{name:<32}{result.error_rate:>8.3f}{result.precision:>12.3f}{result.recall:>9.3f}", flush=True)


# ------------------------------------------------------------------------------------------------------ floors


def diagonal(verse: Verse) -> Links:
    """Link each word with the one that stands as far from the beginning, in proportion."""
    n, m = len(verse.target), len(verse.source)
    return frozenset((int((i + 0.5) * m / n), i) for i in range(n))


def ibm_model_1(verses: Sequence[Verse]) -> list[Links]:
    """Learn how likely each word translates each, by expectation maximisation, and link each with its likeliest."""
    cells, starts = _cells(verses)
    kinds, kind = np.unique(cells[:, :2], axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    likely = np.ones(len(kinds))
    for _ in range(ROUNDS):
        each = likely[kind]
        each /= np.add.reduceat(each, starts)[
            cells[:, 2]
        ]  # how much of a target word comes from each source word
        counts = np.bincount(kind, each, len(kinds))
        likely = counts / np.bincount(kinds[:, 0], counts)[kinds[:, 0]]
    return _likeliest(likely[kind], starts, verses)


def _cells(verses: Sequence[Verse]) -> tuple[Ids, Ids]:
    """Return (source word, target word, number of the target word in the text) for all that may be linked.

    A target word's come one after the other, that with no word at all first; also where each target word's begin.
    """
    source = _numbers(word for verse in verses for word in verse.source)
    target = _numbers(word.lower() for verse in verses for word in verse.target)
    rows: list[tuple[int, int, int]] = []
    starts, number = [], 0
    for verse in verses:
        words = [0, *(source[word] for word in verse.source)]
        for word in verse.target:
            starts.append(len(rows))
            rows += [(of, target[word.lower()], number) for of in words]
            number += 1
    return np.array(rows), np.array(starts)


def _numbers(words: Iterable[str]) -> dict[str, int]:
    return {word: i for i, word in enumerate(dict.fromkeys(words), 1)}


def _likeliest(likely: NDArray[np.float64], starts: Ids, verses: Sequence[Verse]) -> list[Links]:
    found, rows = [], iter(np.split(likely, starts[1:]))
    for verse in verses:
        best = [int(np.argmax(next(rows))) for _ in verse.target]
        found.append(frozenset((place - 1, i) for i, place in enumerate(best) if place))
    return found


# --------------------------------------------------------------------------------------------------- attention


def text(verses: Sequence[Verse]) -> list[tuple[list[str], list[str]]]:
    """Return the pairs without their links, the English in small letters."""
    return [(verse.source, [word.lower() for word in verse.target]) for verse in verses]


class Directions(NamedTuple):
    """Greek to English, and back."""

    there: Translator
    back: Translator


def learn(
    verses: Sequence[Verse], parts: Split[list[Verse]], args: Namespace, known: Sequence[Links] | None = None
) -> Directions:
    """Learn both directions from the text of verses, and from links if there are some."""
    options = TEXT | {"recipe": TEXT["recipe"] | ({"guidance": args.guidance} if known else {})}
    pairs, valid = text(verses), text(parts.valid)
    there = together(pairs, valid, args, options, known)
    pairs, valid = ([(target, source) for source, target in side] for side in (pairs, valid))
    turned = known and [frozenset((j, i) for i, j in found) for found in known]
    return Directions(there, together(pairs, valid, args, options, turned))


def together(
    pairs: Sequence[Pairing],
    valid: Sequence[Pairing],
    args: Namespace,
    options: Mapping[str, Any],
    known: Sequence[Links] | None,
) -> Translator:
    """Train as many models as are asked for."""
    seeds = range(args.seed, args.seed + args.together)
    each = [Namespace(**vars(args) | {"seed": seed}) for seed in seeds]
    return Ensemble([train(pairs, valid, one, options, links=known).model for one in each])


Found = dict[str, list[Links]]


def alignments(models: Directions, verses: Sequence[Verse]) -> Found:
    """Return the links of verses, found in three ways."""
    sources, targets = sides(text(verses))
    weights = models.there.align(sources, targets)
    there = models.there.align(sources, targets, posterior=True)
    back = models.back.align(targets, sources, posterior=True)
    pairs = zip(there, back, strict=True)
    return {
        "weights": [links(said.alignment) for said in weights],
        "posterior": [links(said.alignment) for said in there],
        "both": [links(joint(one.alignment, other.alignment), end=False) for one, other in pairs],
    }


def chosen(found: Sequence[Links], of: Sequence[Verse], verses: Sequence[Verse]) -> list[Links]:
    """Return the links of some verses, of those found in more."""
    each: Mapping[int, Links] = dict(zip(map(id, of), found, strict=True))
    return [each[id(verse)] for verse in verses]


def table(
    title: str, rows: Mapping[str, Sequence[Links]], of: Sequence[Verse], verses: Sequence[Verse]
) -> None:
    """Print the lines of what was found, counted on some verses."""
    print(f"\n{title:<32}   error   precision   recall", flush=True)
    for name, found in rows.items():
        line(name, score(chosen(found, of, verses), verses))


def main() -> None:
    """Measure the floors, train the models, measure them."""
    parser = arguments(__doc__, minutes=3)
    parser.add_argument("--guidance", type=float, default=1.0, metavar="X", help="how much links count")
    parser.add_argument("--together", type=int, default=1, metavar="N", help="models for each direction")
    args = parser.parse_args()
    parts = bible(LONGEST)
    every, seen = [verse for part in parts for verse in part], [*parts.train, *parts.test]
    header(
        f"{len(every):,} verses, of which {len(parts.test):,} to test on; "
        f"{args.minutes:g} minutes for each of {args.together} models a direction, seed {args.seed}"
    )
    rows = {"diagonal": [diagonal(verse) for verse in every], "IBM model 1": ibm_model_1(every)}
    first = alignments(learn(seen, parts, args), every)
    rows |= {f"attention: {name}": found for name, found in first.items()}
    again = learn(seen, parts, args, chosen(first["both"], every, seen))
    rows["attention: again"] = alignments(again, every)["both"]
    table("on all verses", rows, every, every)
    table("on the test's", rows, every, parts.test)
    guided = alignments(learn(parts.train, parts, args, [verse.links for verse in parts.train]), parts.test)
    rows = {f"by hand: {name}": found for name, found in guided.items()}
    table("on the test's, shown links", rows, parts.test, parts.test)


if __name__ == "__main__":
    run(main)
