"""Print the alignment error rate of attention on word links drawn by people.

    python benchmarks/alignment.py [--minutes 3] [--guided-alignment 1] [--together 1]

The data are Greek verses (lemmas) and their English translation, at most 25 words on either side. A trained translator
is forced to predict the given translation. The error rate is that of Och and Ney 2003; all links drawn by people count
as sure. There are four kinds of links:

- *weights*: each word is linked with the Greek word that has the largest attention weight before it is predicted;
- *posterior*: with the most probable Greek word, given that the English word is known
  (`regard.seq2seq.networks.recurrent.posterior`);
- *both*: with the best Greek word by this model and a model of the other direction, English to Greek (Liang, Taskar and
  Klein 2006; `regard.seq2seq.alignment.symmetrize.posterior_product`);
- *again*: as *both*, by two models of a second round, guided by the links of the first round (Chen et al. 2016; Garg et
  al. 2019).

With `--together` each model is an ensemble of models with different seeds, and its weights are their mean.

Training data: in the first and the second round, the text of the training and the test chapters, as is usual for word
alignment, without links drawn by people; for *by hand*, the text and the links of the training chapters only. The text
of the validation chapters chooses the best moment of each training; their links have served to choose this procedure.
The decoders are conditional ones (Sennrich et al. 2017).

For comparison: the diagonal, and eflomal and fast_align, both directions merged by grow-diag-final-and, if they are
installed (``pip install eflomal systran-align``; the first needs a C compiler). They learn from all verses, without
links.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from record import keep, save
from trial import Options, Pairing, arguments, header, sides, train

from data import Missing, Split, Verse, bible, run
from regard.seq2seq import Ensemble, TrainingConfig
from regard.seq2seq.alignment.links import links, read_gold
from regard.seq2seq.alignment.symmetrize import posterior_product, symmetrize
from regard.seq2seq.evaluation.metrics import LinkScore, alignment_error_rate
from regard.seq2seq.translator import Translator

Links = frozenset[tuple[int, int]]

LONGEST = 25
TEXT: Options = {
    "source": "tokens",
    "target": "tokens",
    "max_tokens": LONGEST,
    "min_count": 2,
    "network": {"style": "conditional", "embedding": 96, "encoder": 64, "decoder": 96, "attention": 64},
    "training": TrainingConfig(label_smoothing=0.0),
}


def score(predicted: Sequence[Links], verses: Sequence[Verse]) -> LinkScore:
    """Compare links with those drawn by people."""
    gold = [verse.links for verse in verses]
    return alignment_error_rate(predicted, gold, gold)


def line(title: str, name: str, result: LinkScore) -> None:
    """Print and keep a row of a table."""
    keep(verses=title, links=name, error=result.error_rate, precision=result.precision, recall=result.recall)
    print(f"{name:<32}{result.error_rate:>8.3f}{result.precision:>12.3f}{result.recall:>9.3f}", flush=True)


# ---------------------------------------------------------------------------------------------------- diagonal


def diagonal(verse: Verse) -> Links:
    """Link each word with the one at the same relative position."""
    n, m = len(verse.target), len(verse.source)
    return frozenset((int((i + 0.5) * m / n), i) for i in range(n))


# ------------------------------------------------------------------------------------------------------- peers


def eflomal(verses: Sequence[Verse]) -> list[Links]:
    """Align by eflomal (Oestling and Tiedemann 2016), with default options."""
    aligner = peer("eflomal", "eflomal").Aligner()
    pairs = [(" ".join(source), " ".join(target)) for source, target in text(verses)]
    with tempfile.TemporaryDirectory() as folder:
        forward, backward = f"{folder}/forward", f"{folder}/backward"
        aligner.align(
            *map(list, zip(*pairs, strict=True)), links_filename_fwd=forward, links_filename_rev=backward
        )
        both = zip(read_gold(forward), read_gold(backward), strict=True)
        return [symmetrize(one.sure, other.sure) for one, other in both]


def fast_align(verses: Sequence[Verse]) -> list[Links]:
    """Align by fast_align (Dyer, Chahuneau and Smith 2013), with the options that its authors recommend."""
    module = peer("systran_align", "systran-align")
    pairs = text(verses)
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{folder}/{name}" for name in ("pairs", "forward", "backward")]
        lines = (" ".join((*source, "|||", *target)) for source, target in pairs)
        Path(names[0]).write_text("\n".join(lines) + "\n", encoding="utf-8")
        recommended = {"favor_diagonal": True, "optimize_tension": True, "variational_bayes": True}
        module.generate_alignment_probabilities(*names, **recommended)
        aligned = module.Aligner(*names[1:]).align_batch(*map(list, zip(*pairs, strict=True)))
    return [frozenset((int(i), int(j)) for i, j in one["alignments"]) for one in aligned]


def peer(module: str, package: str) -> Any:
    """Return the module of a package; `Missing` if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise Missing(f"pip install {package}") from None


PEERS = {"eflomal": eflomal, "fast_align": fast_align}


def peers(verses: Sequence[Verse]) -> dict[str, list[Links]]:
    """Return the links of the installed programs, and print the time of each."""
    results = {}
    for name, align in PEERS.items():
        start = time.perf_counter()
        try:
            results[name] = align(verses)
        except Missing as reason:
            print(f"{name}: skipped ({reason})", flush=True)
        else:
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return results


# --------------------------------------------------------------------------------------------------- attention


def text(verses: Sequence[Verse]) -> list[tuple[list[str], list[str]]]:
    """Return the pairs without their links, the English in lower case."""
    return [(verse.source, [word.lower() for word in verse.target]) for verse in verses]


class Directions(NamedTuple):
    """A model from Greek to English, and one from English to Greek."""

    forward: Translator
    backward: Translator


def train_both(
    verses: Sequence[Verse], parts: Split[list[Verse]], args: Namespace, guide: Sequence[Links] | None = None
) -> Directions:
    """Train both directions on the text of verses, guided by links if there are any."""
    weight = args.guided_alignment if guide else None
    options: Options = {**TEXT, "training": replace(TEXT["training"], guided_alignment=weight)}
    pairs, valid = text(verses), text(parts.valid)
    forward = together(pairs, valid, args, options, guide)
    pairs, valid = ([(target, source) for source, target in side] for side in (pairs, valid))
    swapped = guide and [frozenset((j, i) for i, j in links) for links in guide]
    return Directions(forward, together(pairs, valid, args, options, swapped))


def together(
    pairs: Sequence[Pairing],
    valid: Sequence[Pairing],
    args: Namespace,
    options: Options,
    guide: Sequence[Links] | None,
) -> Translator:
    """Train an ensemble."""
    seeds = range(args.seed, args.seed + args.together)
    seeded = [Namespace(**vars(args) | {"seed": seed}) for seed in seeds]
    return Ensemble([train(pairs, valid, one, options, links=guide).model for one in seeded])


def alignments(models: Directions, verses: Sequence[Verse]) -> dict[str, list[Links]]:
    """Return three kinds of links."""
    sources, targets = sides(text(verses))
    weights, forward, backward = (
        [translation.full_alignment()[0] for translation in translations]
        for translations in (
            models.forward.align(sources, targets),
            models.forward.align(sources, targets, posterior=True),
            models.backward.align(targets, sources, posterior=True),
        )
    )
    return {
        "weights": [*map(links, weights)],
        "posterior": [*map(links, forward)],
        "both": [links(both, end=False) for both in map(posterior_product, forward, backward)],
    }


def links_of(predicted: Sequence[Links], of: Sequence[Verse], verses: Sequence[Verse]) -> list[Links]:
    """Return the links of `verses`, a part of those that the predicted links are of."""
    by_verse = dict(zip(map(id, of), predicted, strict=True))
    return [by_verse[id(verse)] for verse in verses]


def table(
    title: str, rows: Mapping[str, Sequence[Links]], of: Sequence[Verse], verses: Sequence[Verse]
) -> None:
    """Print the rows of all methods, measured on `verses`."""
    print(f"\n{title:<32}   error   precision   recall", flush=True)
    for name, predicted in rows.items():
        line(title, name, score(links_of(predicted, of, verses), verses))


def main() -> None:
    """Print tables of the diagonal, the peers and the trained models."""
    parser = arguments(__doc__, minutes=3)
    parser.add_argument(
        "--guided-alignment", type=float, default=1.0, metavar="X", help="weight of guided alignment"
    )
    parser.add_argument("--together", type=int, default=1, metavar="N", help="models of an ensemble")
    args = parser.parse_args()
    parts = bible(LONGEST)
    every, learned = [verse for part in parts for verse in part], [*parts.train, *parts.test]
    header(
        f"{len(every):,} verses, of which {len(parts.test):,} are for the test; "
        f"{args.minutes:g} minutes for each of {args.together} models of a direction, seed {args.seed}"
    )
    rows = {"diagonal": [diagonal(verse) for verse in every]} | peers(every)
    start = time.perf_counter()
    models = train_both(learned, parts, args)
    print(f"training both directions: {time.perf_counter() - start:.0f} s")
    start = time.perf_counter()
    first = alignments(models, every)
    print(f"aligning, with weights and posteriors: {time.perf_counter() - start:.0f} s")
    rows |= {f"attention: {name}": predicted for name, predicted in first.items()}
    again = train_both(learned, parts, args, links_of(first["both"], every, learned))
    rows["attention: again"] = alignments(again, every)["both"]
    table("on all verses", rows, every, every)
    table("on test verses", rows, every, parts.test)
    guided = alignments(
        train_both(parts.train, parts, args, [verse.links for verse in parts.train]), parts.test
    )
    rows = {f"by hand: {name}": predicted for name, predicted in guided.items()}
    table("on test verses, guided by hand", rows, parts.test, parts.test)
    save(args.json)


if __name__ == "__main__":
    run(main)
