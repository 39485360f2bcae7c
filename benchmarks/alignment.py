"""Print how well attention finds which words belong together: alignment error rate on hand-made links.

    python benchmarks/alignment.py [--minutes 3] [--guidance 1]

Greek verses (lemmas) and their English translation, at most 25 words on either side. A model that has learned to
translate is made to write the right translation, and each of its words is linked with the Greek word that the model
looks at most, if that is a word. The error rate is that of Och and Ney 2003, all links by hand being sure ones.

The decoder is Luong's: it has read the word before when it looks, where Bahdanau's has not yet. A model of each
direction is trained; what both look at is linked too (Liang, Taskar and Klein 2006).

What sees no links learns from the text of all verses, those of the test too, as is usual for word alignment. With
guidance the model is also shown the links of the training chapters (Chen et al. 2016); the test chapters are not
among them. Floors: the diagonal, and IBM model 1 (Brown et al. 1993), both measured here.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trial import arguments, header, sides, train

from data import Split, Verse, bible, run
from regard.seq2seq import Seq2Seq
from regard.seq2seq.align import agree, links
from regard.seq2seq.measure import LinkScore, alignment_error_rate

Ids = NDArray[np.int64]
Links = frozenset[tuple[int, int]]

LONGEST = 25
ROUNDS = 10  # of IBM model 1
TEXT: dict[str, Any] = {
    "source": "tokens",
    "target": "tokens",
    "max_tokens": LONGEST,
    "least": 2,
    "network": {"style": "luong"},
    "recipe": {"smoothing": 0.0},
}


def score(found: Sequence[Links], verses: Sequence[Verse]) -> LinkScore:
    """Compare links with those by hand."""
    right = [verse.links for verse in verses]
    return alignment_error_rate(found, right, right)


def line(name: str, result: LinkScore) -> None:
    """Print one line of the table."""
    print(f"{name:<28}{result.error_rate:>8.3f}{result.precision:>12.3f}{result.recall:>9.3f}", flush=True)


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


def looks(model: Seq2Seq, verses: Sequence[Verse]) -> list[Links]:
    """Link each word of the right translation with where the model looks for it."""
    return [links(said.alignment) for said in model.align(*sides(text(verses)))]


def text(verses: Sequence[Verse]) -> list[tuple[list[str], list[str]]]:
    """Return the pairs without their links, the English in small letters."""
    return [(verse.source, [word.lower() for word in verse.target]) for verse in verses]


def without_links(parts: Split[list[Verse]], args: Namespace, *, turned: bool = False) -> Seq2Seq:
    """Learn from the text, that of the test too; English to Greek if it is turned round."""
    pairs, valid = text([*parts.train, *parts.test]), text(parts.valid)
    if turned:
        pairs, valid = ([(target, source) for source, target in side] for side in (pairs, valid))
    return train(pairs, valid, args, TEXT).model


def agreed(there: Seq2Seq, back: Seq2Seq, verses: Sequence[Verse]) -> list[Links]:
    """Link what the models of both directions look at."""
    sources, targets = sides(text(verses))
    both = zip(there.align(sources, targets), back.align(targets, sources), strict=True)
    return [agree(forward.alignment, backward.alignment) for forward, backward in both]


def with_links(parts: Split[list[Verse]], args: Namespace) -> Seq2Seq:
    """Learn from the text and the links of the training chapters."""
    known = [verse.links for verse in parts.train]
    options = TEXT | {"recipe": {**TEXT["recipe"], "guidance": args.guidance}}
    return train(text(parts.train), text(parts.valid), args, options, links=known).model


def main() -> None:
    """Measure the floors, train both models, measure them."""
    parser = arguments(__doc__, minutes=3)
    parser.add_argument("--guidance", type=float, default=1.0, metavar="X", help="how much links count")
    args = parser.parse_args()
    parts = bible(LONGEST)
    every = [verse for part in parts for verse in part]
    header(
        f"{len(every):,} verses, of which {len(parts.test):,} to test on; "
        f"{args.minutes:g} minutes for each model, seed {args.seed}"
    )
    print("on all verses                 error   precision   recall")
    line("diagonal", score([diagonal(verse) for verse in every], every))
    ibm = dict(zip(map(id, every), ibm_model_1(every), strict=True))
    line("IBM model 1", score([ibm[id(verse)] for verse in every], every))
    model, back = without_links(parts, args), without_links(parts, args, turned=True)
    line("attention", score(looks(model, every), every))
    line("attention, both directions", score(agreed(model, back, every), every))
    print("\non the test's                 error   precision   recall")
    line("diagonal", score([diagonal(verse) for verse in parts.test], parts.test))
    line("IBM model 1", score([ibm[id(verse)] for verse in parts.test], parts.test))
    line("attention", score(looks(model, parts.test), parts.test))
    line("attention, both directions", score(agreed(model, back, parts.test), parts.test))
    guided = with_links(parts, args)
    line("attention, guided", score(looks(guided, parts.test), parts.test))


if __name__ == "__main__":
    run(main)
