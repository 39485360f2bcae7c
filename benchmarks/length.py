"""Print BLEU by the length of the sentence, with and without attention.

    python benchmarks/length.py [--language fr] [--minutes 10] [--png FILE]

As in figure 2 of Bahdanau, Cho and Bengio 2014: without attention one vector represents the complete sentence, so that
long sentences should be translated worst. Both models are trained on the same pairs of LibreOffice's help, with at most
50 tokens on a side, for the same time. BLEU is measured on held-out pages, by the length of the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from record import keep, save
from trial import Options, arguments, header, train, translated

from data import Pair, libreoffice, run
from regard.seq2seq import Seq2Seq
from regard.seq2seq.evaluation.metrics import LengthRow, bleu, by_length
from regard.seq2seq.sources.text.tokenizers import tokenize
from regard.show import figures

LONGEST = 50


def rows(model: Seq2Seq, test: list[Pair]) -> list[LengthRow]:
    """Return BLEU by groups of lengths."""
    lengths = [len(tokenize(source)) for source, _ in test]
    measures = {"BLEU": lambda translations, references: bleu(translations, references).score}
    return by_length(lengths, translated(model, test), [target for _, target in test], measures)


def main() -> None:
    """Train both models and print a table of their scores."""
    parser = arguments(__doc__, minutes=10)
    parser.add_argument("--language", choices=("fr", "de"), default="fr")
    parser.add_argument("--png", type=Path, metavar="FILE", help="also draw a figure")
    args = parser.parse_args()
    parts = libreoffice(args.language, LONGEST)
    header(
        f"en-{args.language}, at most {LONGEST} tokens: {len(parts.train):,} pairs, {len(parts.test):,} test pairs",
        f"{args.minutes:g} minutes each, seed {args.seed}",
    )
    results = {}
    for attention in (True, False):
        options: Options = {"attention": attention, "max_tokens": LONGEST, "network": {"style": "bahdanau"}}
        model, _ = train(parts.train, parts.valid, args, options)
        results[attention] = rows(model, parts.test)
    _print(results[True], results[False])
    save(args.json)
    if args.png:
        _draw(args.png, {"with attention": results[True], "without": results[False]})


def _print(with_attention: Sequence[LengthRow], without: Sequence[LengthRow]) -> None:
    print("tokens      sentences   with attention   without   difference")
    for row, other in zip(with_attention, without, strict=True):
        better, worse = row.scores["BLEU"], other.scores["BLEU"]
        lengths = f"{row.shortest} to {row.longest}"
        keep(tokens=f"{row.shortest}-{row.longest}", sentences=row.sentences, attention=better, without=worse)
        print(f"{lengths:<12}{row.sentences:>9,}{better:>17.2f}{worse:>10.2f}{better - worse:>13.2f}")


def _draw(path: Path, results: Mapping[str, Sequence[LengthRow]]) -> None:
    """Draw BLEU by length, a line for each model."""
    rows = next(iter(results.values()))
    lines = {name: [row.scores["BLEU"] for row in rows] for name, rows in results.items()}
    labels = [f"{row.shortest}-{row.longest}" for row in rows]
    figures.save(
        path, figures.by_length(labels, lines, [row.sentences for row in rows], along="tokens in the source")
    )


if __name__ == "__main__":
    run(main)
