"""Print what a few minutes of training reach on LibreOffice's help, English to French and to German.

    python benchmarks/help.py [--languages fr de] [--minutes 1 3 10] [--learned 25] [--family recurrent] [--style ...]

BLEU (sacrebleu, 13a) on sentences of at most 12 and of at most 15 tokens, and chrF on the latter, with a beam of 5; one
model for each budget. They come from help pages that were not trained on, and are none that stand on those;
data/help-en-fr/README.md says what such a number means: help text repeats itself.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from trial import arguments, header, measured, train, translated

from data import Pair, Split, libreoffice, run
from regard.seq2seq import Seq2Seq
from regard.seq2seq.measure import chrf
from regard.seq2seq.text import cut

TESTED = (12, 15)


def short(pairs: list[Pair], longest: int) -> list[Pair]:
    """Keep the pairs of at most so many tokens on either side."""
    return [pair for pair in pairs if all(len(cut(side)) <= longest for side in pair)]


def row(parts: Split[list[Pair]], minutes: float, args: Namespace) -> str:
    """Train one model and return its line, the language left out."""
    options: dict[str, Any] = {"family": args.family, "max_tokens": args.learned}
    if args.style:
        options["network"] = {"style": args.style}
    model, seconds = train(parts.train, parts.valid, args, options, minutes=minutes)
    return f"{minutes:>8g}{seconds:>10.0f} s" + "".join(f"{figure:>9.2f}" for figure in figures(model, parts))


def figures(model: Seq2Seq, parts: Split[list[Pair]]) -> list[float]:
    """Return BLEU for both lengths, and chrF for the larger."""
    test = short(parts.test, TESTED[-1])
    found = [measured(model, short(test, longest)) for longest in TESTED]
    return [*found, chrf(translated(model, test), [target for _, target in test]).score]


def main() -> None:
    """Train and print, budget by budget."""
    parser = arguments(__doc__, minutes=[1, 3, 10])
    parser.add_argument(
        "--learned", type=int, default=25, metavar="N", help="tokens of a sentence to learn from"
    )
    parser.add_argument("--languages", nargs="+", choices=("fr", "de"), default=["fr", "de"])
    parser.add_argument("--family", choices=("recurrent", "transformer"), default="recurrent")
    parser.add_argument(
        "--style", choices=("bahdanau", "luong", "conditional"), help="of the recurrent decoder"
    )
    args = parser.parse_args()
    data = {language: libreoffice(language, args.learned) for language in args.languages}
    sizes = (
        f"en-{name}: {len(p.train):,} pairs, {len(short(p.test, TESTED[-1])):,} to test on"
        for name, p in data.items()
    )
    header(*sizes, f"family {args.family}, seed {args.seed}")
    print("       minutes  training  BLEU 12  BLEU 15  chrF 15")
    for language, parts in data.items():
        for minutes in args.minutes:
            print(f"en-{language}{row(parts, minutes, args)}", flush=True)


if __name__ == "__main__":
    run(main)
