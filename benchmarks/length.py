"""Print how translation quality depends on the length of the sentence, with and without attention.

    python benchmarks/length.py [--language fr] [--minutes 10]

The question of Bahdanau, Cho and Bengio 2014, figure 2: without attention the whole sentence has to go through one
vector, so long sentences should suffer most. Both models learn from the same pairs of LibreOffice's help, with at
most 50 tokens on a side, for the same time; BLEU is measured on pages that were not trained on, by length of the
source.
"""

from __future__ import annotations

from trial import arguments, header, train, translated

from data import Pair, libreoffice, run
from regard.seq2seq import Seq2Seq
from regard.seq2seq.measure import Row, bleu, by_length
from regard.seq2seq.text import cut

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
    args = parser.parse_args()
    parts = libreoffice(args.language, LONGEST)
    header(
        f"en-{args.language}, at most {LONGEST} tokens: {len(parts.train):,} pairs, {len(parts.test):,} to test on",
        f"{args.minutes:g} minutes each, seed {args.seed}",
    )
    found = {}
    for attention in (True, False):
        options = {"attention": attention, "max_tokens": LONGEST}
        model, _ = train(parts.train, parts.valid, args, options)
        found[attention] = rows(model, parts.test)
    print("tokens      sentences   with attention   without   difference")
    for seen, blind in zip(found[True], found[False], strict=True):
        with_it, without = seen.scores["BLEU"], blind.scores["BLEU"]
        lengths = f"{seen.shortest} to {seen.longest}"
        print(f"{lengths:<12}{seen.sentences:>9,}{with_it:>17.2f}{without:>10.2f}{with_it - without:>13.2f}")


if __name__ == "__main__":
    run(main)
