"""Print BLEU by what makes a sentence difficult besides its length, with and without attention.

    python benchmarks/complexity.py [--epochs 5]

Both models learn from the same pairs of data/help-en-fr. BLEU is measured on held-out sentences of 7 to 12 tokens, so
that lengths hardly differ: by the number of rare source words, those that training has fewer than ten times, and by
reordering, the share of the pairs of target words whose source words come in the opposite order. The source word of a
target word is that with most weight (posterior attention) while the model with attention is forced to write the
reference.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

import numpy as np
from record import add_option, keep, save
from translate import LONGEST, LONGEST_LEARNED, read, short
from trial import header, load_or_train, sides, translated

from data import Pair
from regard.seq2seq import Seq2Seq
from regard.seq2seq.evaluation.metrics import bleu
from regard.seq2seq.sources.text.tokenizers import tokenize

SHORTEST = 7
RARE = 10
SIZES = {"embedding": 64, "encoder": 64, "decoder": 128}
Measures = Sequence[float]


def learn(attention: bool, epochs: int) -> Seq2Seq:
    """Train a model."""
    model = Seq2Seq(attention=attention, epochs=epochs, max_tokens=LONGEST_LEARNED, network=SIZES, seed=1)
    return model.fit(*sides(read("train")), valid=sides(read("valid")[:200]))


def rare(test: Sequence[Pair]) -> Measures:
    """Return how many source words of each pair are rare in training."""
    counts = Counter(word for source, _ in read("train") for word in tokenize(source))
    return [sum(counts[word] < RARE for word in tokenize(source)) for source, _ in test]


def inversions(order: Sequence[int]) -> float:
    """Return the share of the pairs of places whose numbers decrease."""
    pairs = list(combinations(order, 2))
    return sum(first > second for first, second in pairs) / max(len(pairs), 1)


def reordering(model: Seq2Seq, test: Sequence[Pair]) -> Measures:
    """Return the share of the pairs of target words of each pair that are reordered."""
    aligned = model.align(*sides(test), posterior=True)
    words = [each.full_alignment()[0][:, :-1] for each in aligned]  # without the end of the source
    return [inversions(np.argmax(weights, axis=1).tolist()) for weights in words]


def table(name: str, of: Measures, groups: dict[str, Callable[[float], bool]], **results: list[str]) -> None:
    """Print and keep BLEU of both models by groups of a measure."""
    test = tested()
    print(f"{name:<20}sentences  tokens   with attention   without     ratio")
    for group, member in groups.items():
        part = [i for i, value in enumerate(of) if member(value)]
        references = [test[i][1] for i in part]
        scores = [bleu([texts[i] for i in part], references).score for texts in results.values()]
        tokens = float(np.mean([len(tokenize(test[i][0])) for i in part]))
        row = dict(zip(results, scores, strict=True))
        keep(measure=name, group=group, sentences=len(part), tokens=tokens, **row)
        better, worse = scores
        print(f"{group:<20}{len(part):>9}{tokens:>8.1f}{better:>17.1f}{worse:>10.1f}{better / worse:>10.2f}")


def tested() -> list[Pair]:
    """Return the held-out pairs of 7 to 12 source tokens."""
    return [pair for pair in short(read("test")) if len(tokenize(pair[0])) >= SHORTEST]


def main() -> None:
    """Train both models and print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=5, metavar="N", help="of the training of each model")
    add_option(parser)
    args = parser.parse_args()
    test = tested()
    header(f"{len(test)} test pairs of {SHORTEST} to {LONGEST} tokens, {args.epochs} epochs, seed 1")
    models = {
        name: load_or_train(f"complexity-{args.epochs}-{name}", partial(learn, attention, args.epochs))
        for name, attention in (("attention", True), ("without", False))
    }
    results = {name: translated(model, test) for name, model in models.items()}
    by_number = {"0": lambda n: n == 0, "1": lambda n: n == 1, "2 or more": lambda n: n > 1}
    table("rare words", rare(test), by_number, **results)
    by_share = {"none": lambda x: x == 0, "up to 10 %": lambda x: 0 < x <= 0.1, "more": lambda x: x > 0.1}
    table("reordering", reordering(models["attention"], test), by_share, **results)
    save(args.json)


if __name__ == "__main__":
    main()
