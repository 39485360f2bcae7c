"""Print what a few minutes of training reach on LibreOffice's help, English to French and to German.

    python benchmarks/help.py [--languages fr de] [--minutes 1 3 10] [--family recurrent]

BLEU (sacrebleu, 13a) and chrF on sentences of at most 15 tokens from help pages that were not trained on, with a beam
of 5; one model for each budget. data/help-en-fr/README.md says what such a number means: help text repeats itself.
"""

from __future__ import annotations

from argparse import Namespace

from trial import arguments, header, train, translated

from data import Pair, Split, libreoffice, run
from regard.seq2seq.measure import bleu, chrf

LONGEST = 15


def row(parts: Split[list[Pair]], minutes: float, args: Namespace) -> str:
    """Train one model and return its line, the language left out."""
    options = {"family": args.family, "max_tokens": LONGEST}
    model, seconds = train(parts.train, parts.valid, args, options, minutes=minutes)
    wide, right = translated(model, parts.test), [target for _, target in parts.test]
    greedy = translated(model, parts.test, beam=1)
    figures = (bleu(wide, right).score, bleu(greedy, right).score, chrf(wide, right).score)
    return f"{minutes:>8g}{seconds:>10.0f} s" + "".join(f"{figure:>9.2f}" for figure in figures)


def main() -> None:
    """Train and print, budget by budget."""
    parser = arguments(__doc__, minutes=[1, 3, 10])
    parser.add_argument("--languages", nargs="+", choices=("fr", "de"), default=["fr", "de"])
    parser.add_argument("--family", choices=("recurrent", "transformer"), default="recurrent")
    args = parser.parse_args()
    data = {language: libreoffice(language, LONGEST) for language in args.languages}
    sizes = (f"en-{name}: {len(p.train):,} pairs, {len(p.test):,} to test on" for name, p in data.items())
    header(*sizes, f"family {args.family}, seed {args.seed}")
    print("       minutes  training     BLEU   greedy     chrF")
    for language, parts in data.items():
        for minutes in args.minutes:
            print(f"en-{language}{row(parts, minutes, args)}", flush=True)


if __name__ == "__main__":
    run(main)
