"""Print what leaving rare words out of the vocabulary costs: a table of language pairs and of --min-count.

    python benchmarks/vocabulary.py [--pairs fr de es it interface] [--counts 1 3] [--learned N] [--steps 2200]

For each pair of languages: LibreOffice's help from English, or the strings of its interface from English to German. The
share of target tokens that come fewer than three times; then for each count BLEU, chrF and exact lines of the test, and
lines with an untranslated word: of the source, not of the reference. All models of a pair take equally many steps.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter

from trial import BEAM, header, sides, translated

from data import Pair, Split, interface, libreoffice, run
from regard.seq2seq import Seq2Seq, TrainingConfig
from regard.seq2seq.evaluation.metrics import bleu, chrf, exact
from regard.seq2seq.sources.text.tokenizers import tokenize

RARE = 3


def rare(pairs: list[Pair]) -> float:
    """Return the percentage of target tokens that come fewer than three times."""
    counts = Counter(token for _, target in pairs for token in tokenize(target))
    return 100 * sum(count for count in counts.values() if count < RARE) / counts.total()


def is_untranslated(pair: Pair, text: str) -> bool:
    """Return whether a translation has a word of the source that the reference does not have."""
    source, reference, own = ({token.lower() for token in tokenize(x)} for x in (*pair, text))
    return any(word.isalpha() and len(word) > 1 for word in own & source - reference)


def figures(model: Seq2Seq, test: list[Pair]) -> str:
    """Measure a model."""
    texts, targets = translated(model, test), [target for _, target in test]
    left = sum(map(is_untranslated, test, texts))
    return (
        f"{bleu(texts, targets).score:8.2f}{chrf(texts, targets).score:8.2f}"
        f"{100 * exact(texts, [[target] for target in targets]):8.2f}{left:8}"
    )


def learned(parts: Split[list[Pair]], count: int | None, steps: int, least: int) -> Seq2Seq:
    """Train a model on so many of the pairs, on all without a number."""
    pairs = parts.train if count is None else random.Random(1).sample(parts.train, count)
    model = Seq2Seq(min_count=least, training=TrainingConfig(steps=steps))
    return model.fit(*sides(pairs), valid=sides(parts.valid))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("fr", "de", "es", "it", "interface")
    parser.add_argument("--pairs", nargs="+", choices=names, default=[*names])
    parser.add_argument("--counts", nargs="+", type=int, default=[1, RARE])
    parser.add_argument("--learned", type=int, metavar="N", help="training pairs of each; all by default")
    parser.add_argument("--steps", type=int, default=2200)
    args = parser.parse_args()
    header(f"beam {BEAM}, {args.steps} steps")
    print("               rare %   count    BLEU    chrF exact %    left")
    for name in args.pairs:
        parts = interface() if name == "interface" else libreoffice(name)
        share = rare(
            parts.train if args.learned is None else random.Random(1).sample(parts.train, args.learned)
        )
        for least in args.counts:
            row = figures(learned(parts, args.learned, args.steps, least), parts.test)
            print(f"{name:12}{share:9.1f}{least:8}{row}", flush=True)


if __name__ == "__main__":
    run(main)
