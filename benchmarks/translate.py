"""Print the BLEU and the speed of models of `regard train`, with and without attention.

    python benchmarks/translate.py [--seeds 1 2 3]

The data are those of data/help-en-fr: BLEU (sacrebleu) on held-out pairs of at most 12 tokens, the time of training on
pairs of at most 15, and the speed of translating.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from record import add_option, keep, save
from trial import header, sides

from data import Pair
from regard.seq2seq import Seq2Seq, read_pairs
from regard.seq2seq.evaluation.metrics import SacrebleuScore
from regard.seq2seq.evaluation.metrics import bleu as measured
from regard.seq2seq.sources.text.tokenizers import tokenize

DATA = Path(__file__).parents[1] / "data" / "help-en-fr"
LONGEST_LEARNED, LONGEST = 15, 12  # tokens on a side, in training and in the test


def read(name: str) -> list[Pair]:
    """Read a split."""
    return read_pairs(DATA / f"{name}.tsv.gz")


def short(pairs: list[Pair]) -> list[Pair]:
    """Return the pairs that are short enough for the test."""
    return [pair for pair in pairs if all(len(tokenize(side)) <= LONGEST for side in pair)]


def bleu(model: Seq2Seq, test: list[Pair], beam: int) -> tuple[SacrebleuScore, float]:
    """Return BLEU and the seconds of translating."""
    sources, targets = zip(*test, strict=True)
    start = time.perf_counter()
    translations = [translation.text for translation in model.translate(sources, beam=beam)]
    seconds = time.perf_counter() - start
    return measured(translations, targets), seconds


def report(seed: int, *, attention: bool) -> str:
    """Train a model, print its row, and return the signature of BLEU."""
    test = short(read("test"))
    start = time.perf_counter()
    model = Seq2Seq(attention=attention, max_tokens=LONGEST_LEARNED, seed=seed)
    model.fit(*sides(read("train")), valid=sides(read("valid")))
    trained = time.perf_counter() - start
    (greedy, fast), (wide, slow) = bleu(model, test, 1), bleu(model, test, 5)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        size = Path(folder, "model").stat().st_size / 1e6
    count = len(test)
    name = "with" if attention else "without"
    keep(
        attention=attention, seed=seed, sentences=count, BLEU=wide.score, greedy=greedy.score, megabytes=size
    )
    print(
        f"{name:<8}{seed:>5}{wide.score:>8.2f}{greedy.score:>8.2f}{trained:>10.0f} s"
        f"{count / slow:>9.0f}/s{count / fast:>9.0f}/s{size:>8.1f} MB",
        flush=True,
    )
    return wide.signature


def main() -> None:
    """Print a table of all seeds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], metavar="N")
    add_option(parser)
    args = parser.parse_args()
    header(f"{len(read('train'))} training pairs, {len(short(read('test')))} test pairs")
    print("attention seed  beam 5  greedy  training  sentences/s    greedy    file")
    for seed in args.seeds:
        for attention in (True, False):
            signature = report(seed, attention=attention)
    print(f"\nBLEU: {signature}")
    save(args.json)


if __name__ == "__main__":
    main()
