"""Print how translation quality depends on the length of the sentence, with and without attention.

    python benchmarks/length.py [--language fr] [--minutes 10] [--png FILE]

The question of Bahdanau, Cho and Bengio 2014, figure 2: without attention the whole sentence has to go through one
vector, so long sentences should suffer most. Both models learn from the same pairs of LibreOffice's help, with at
most 50 tokens on a side, for the same time; BLEU is measured on pages that were not trained on, by length of the
source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trial import arguments, header, train, translated

from data import Pair, libreoffice, run
from regard.seq2seq import Seq2Seq
from regard.seq2seq.data.tokenizers import cut
from regard.seq2seq.evaluation.metrics import Row, bleu, by_length
from regard.show.figures import save_by_length

LONGEST = 50


def rows(model: Seq2Seq, test: list[Pair]) -> list[Row]:
    """Measure BLEU in groups of lengths."""
    lengths = [len(cut(source)) for source, _ in test]
    measures = {"BLEU": lambda found, right: bleu(found, right).score}
    return by_length(lengths, translated(model, test), [target for _, target in test], measures)


def main() -> None:
    """Train both models and print their figures side by side."""
    parser = arguments(__doc__, minutes=10)
    parser.add_argument("--language", choices=("fr", "de"), default="fr")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw it, too")
    args = parser.parse_args()
    parts = libreoffice(args.language, LONGEST)
    header(
        f"en-{args.language}, at most {LONGEST} tokens: {len(parts.train):,} pairs, {len(parts.test):,} to test on",
        f"{args.minutes:g} minutes each, seed {args.seed}",
    )
    found = {}
    for attention in (True, False):
        options = {"attention": attention, "max_tokens": LONGEST, "network": {"style": "bahdanau"}}
        model, _ = train(parts.train, parts.valid, args, options)
        found[attention] = rows(model, parts.test)
    _print(found[True], found[False])
    if args.png:
        _draw(args.png, {"with attention": found[True], "without": found[False]})


def _print(with_it: Sequence[Row], without: Sequence[Row]) -> None:
    print("tokens      sentences   with attention   without   difference")
    for seen, blind in zip(with_it, without, strict=True):
        one, other = seen.scores["BLEU"], blind.scores["BLEU"]
        lengths = f"{seen.shortest} to {seen.longest}"
        print(f"{lengths:<12}{seen.sentences:>9,}{one:>17.2f}{other:>10.2f}{one - other:>13.2f}")


def _draw(path: Path, found: Mapping[str, Sequence[Row]]) -> None:
    """Draw BLEU by length, a line for each model."""
    rows = next(iter(found.values()))
    lines = {name: [row.scores["BLEU"] for row in rows] for name, rows in found.items()}
    labels = [f"{row.shortest}-{row.longest}" for row in rows]
    save_by_length(path, labels, lines, [row.sentences for row in rows], along="tokens in the source")


if __name__ == "__main__":
    run(main)
