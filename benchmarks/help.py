"""Print the BLEU of models trained for some minutes on LibreOffice's help, English to French and to German.

    python benchmarks/help.py [--languages fr de] [--minutes 1 3 10] [--together 1] [--learned 25]
                              [--family recurrent] [--style ...]

BLEU (sacrebleu, 13a) on sentences of at most 12 and of at most 15 tokens, and chrF on the latter, with a beam of 5, for
one model for each time limit, or for several with different seeds and their ensemble. The sentences come from help
pages that are held out, without those that also occur in training pages. Help text is repetitive, which limits what
such numbers mean; see data/help-en-fr/README.md.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from record import Row, keep, save
from trial import Options, arguments, header, measured, train, translated

from data import Pair, Split, libreoffice, run
from regard.seq2seq import Ensemble
from regard.seq2seq.evaluation.metrics import chrf
from regard.seq2seq.sources.text.tokenizers import tokenize
from regard.seq2seq.translator import Translator

TESTED = (12, 15)


def short(pairs: list[Pair], longest: int) -> list[Pair]:
    """Return the pairs of at most so many tokens on either side."""
    return [pair for pair in pairs if all(len(tokenize(side)) <= longest for side in pair)]


def rows(language: str, parts: Split[list[Pair]], minutes: float, args: Namespace) -> Iterator[str]:
    """Train models, and yield the row of each and of their ensemble."""
    about: Row = {"language": language, "pairs": len(parts.train), "minutes": minutes}
    options: Options = {"family": args.family, "max_tokens": args.learned}
    if args.style:
        options["network"] = {"style": args.style}
    models, all_seconds = [], 0.0
    for seed in range(args.seed, args.seed + args.together):
        seeded = Namespace(**vars(args) | {"seed": seed})
        model, seconds = train(parts.train, parts.valid, seeded, options, minutes=minutes)
        models.append(model)
        all_seconds += seconds
        yield row(seconds, model, parts, about | {"models": 1})
    if len(models) > 1:
        yield row(all_seconds, Ensemble(models), parts, about | {"models": len(models)})


def row(seconds: float, model: Translator, parts: Split[list[Pair]], about: Row) -> str:
    """Measure a model, note its figures and return its row."""
    measures = figures(model, parts)
    keep(**about, **measures)
    trained = f"{about['models']} x {about['minutes']:g}"
    return f"{trained:>8}{seconds:>10.0f} s" + "".join(f"{figure:>9.2f}" for figure in measures.values())


def figures(model: Translator, parts: Split[list[Pair]]) -> dict[str, float]:
    """Return BLEU for both lengths, and chrF for the larger."""
    test = short(parts.test, TESTED[-1])
    scores = {f"BLEU {longest}": measured(model, short(test, longest)) for longest in TESTED}
    references = [target for _, target in test]
    return scores | {f"chrF {TESTED[-1]}": chrf(translated(model, test), references).score}


def main() -> None:
    """Print a table of all languages and time limits."""
    parser = arguments(__doc__, minutes=[1, 3, 10])
    parser.add_argument(
        "--learned", type=int, default=25, metavar="N", help="tokens of the longest training sentence"
    )
    parser.add_argument(
        "--together",
        type=int,
        default=1,
        metavar="N",
        help="models for each limit, and their ensemble",
    )
    parser.add_argument("--languages", nargs="+", choices=("fr", "de"), default=["fr", "de"])
    parser.add_argument("--family", choices=("recurrent", "transformer"), default="recurrent")
    parser.add_argument(
        "--style", choices=("bahdanau", "luong", "conditional"), help="style of the recurrent decoder"
    )
    args = parser.parse_args()
    data = {language: libreoffice(language, args.learned) for language in args.languages}
    sizes = (
        f"en-{name}: {len(p.train):,} pairs, {len(short(p.test, TESTED[-1])):,} test pairs"
        for name, p in data.items()
    )
    header(*sizes, f"family {args.family}, seed {args.seed}")
    print("       minutes  training  BLEU 12  BLEU 15  chrF 15")
    for language, parts in data.items():
        for minutes in args.minutes:
            for line in rows(language, parts, minutes, args):
                print(f"en-{language}{line}", flush=True)
    save(args.json)


if __name__ == "__main__":
    run(main)
