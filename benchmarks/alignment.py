"""Print how well attention finds which words belong together: alignment error rate on hand-made links.

    python benchmarks/alignment.py [--minutes 3] [--guidance 1] [--together 1]

Greek verses (lemmas) and their English translation, at most 25 words on either side. A model that has learned to
translate is made to write the right translation. The error rate is that of Och and Ney 2003, all links by hand being
sure ones. Links are made in four ways:

- *weights*: each word is linked with the Greek word that was looked at most before it was written;
- *posterior*: with the one that it was most probably taken from, now that it is known
  (`regard.seq2seq.networks.recurrent.posterior`);
- *both*: with the one that this model and a model of the other direction, English to Greek, find best together (Liang,
  Taskar and Klein 2006; `regard.seq2seq.alignment.symmetrize.posterior_product`);
- *again*: as *both*, by two models of a second round, that were taught the links which the first round found (Chen et
  al. 2016; Garg et al. 2019).

With `--together` each model is several that differ in their seed, and say together where they look: the mean.

What each model has seen. First and second round: the text of the chapters for training and of those for the test, as is
usual for word alignment, and no link by hand. *By hand*: text and links of the chapters for training, nothing of the
test's. The text of the chapters for validation chooses the best moment of each; by their links this procedure was
chosen. The decoders are conditional ones (Sennrich et al. 2017).

Beside them: the diagonal, and eflomal and fast_align, both directions merged by grow-diag-final-and, which are left
out where they are not installed (``pip install eflomal systran-align``; the first needs a C compiler). They learn from
all verses, without those links.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from trial import Pairing, arguments, header, sides, train

from data import Missing, Split, Verse, bible, run
from regard.seq2seq import Ensemble
from regard.seq2seq.alignment.links import links, read_gold
from regard.seq2seq.alignment.symmetrize import posterior_product, symmetrize
from regard.seq2seq.evaluation.metrics import LinkScore, alignment_error_rate
from regard.seq2seq.translator import Translator

Links = frozenset[tuple[int, int]]

LONGEST = 25
TEXT: dict[str, Any] = {
    "source": "tokens",
    "target": "tokens",
    "max_tokens": LONGEST,
    "least": 2,
    "network": {"style": "conditional", "embedding": 96, "encoder": 64, "decoder": 96, "attention": 64},
    "recipe": {"smoothing": 0.0},
}


def score(found: Sequence[Links], verses: Sequence[Verse]) -> LinkScore:
    """Compare links with those by hand."""
    right = [verse.links for verse in verses]
    return alignment_error_rate(found, right, right)


def line(name: str, result: LinkScore) -> None:
    """Print one line of the table."""
    print(f"{name:<32}{result.error_rate:>8.3f}{result.precision:>12.3f}{result.recall:>9.3f}", flush=True)


# ---------------------------------------------------------------------------------------------------- diagonal


def diagonal(verse: Verse) -> Links:
    """Link each word with the one that stands as far from the beginning, in proportion."""
    n, m = len(verse.target), len(verse.source)
    return frozenset((int((i + 0.5) * m / n), i) for i in range(n))


# ------------------------------------------------------------------------------------------------------- peers


def eflomal(verses: Sequence[Verse]) -> list[Links]:
    """Align by eflomal (Oestling and Tiedemann 2016), with its default options."""
    aligner = peer("eflomal", "eflomal").Aligner()
    pairs = [(" ".join(source), " ".join(target)) for source, target in text(verses)]
    with tempfile.TemporaryDirectory() as folder:
        there, back = f"{folder}/there", f"{folder}/back"
        sides = [source for source, _ in pairs], [target for _, target in pairs]
        aligner.align(*sides, links_filename_fwd=there, links_filename_rev=back)
        both = zip(read_gold(there), read_gold(back), strict=True)
        return [symmetrize(one.sure, other.sure) for one, other in both]


def fast_align(verses: Sequence[Verse]) -> list[Links]:
    """Align by fast_align (Dyer, Chahuneau and Smith 2013), with the options that its authors recommend."""
    module = peer("systran_align", "systran-align")
    pairs = text(verses)
    with tempfile.TemporaryDirectory() as folder:
        names = [f"{folder}/{name}" for name in ("pairs", "there", "back")]
        lines = (" ".join((*source, "|||", *target)) for source, target in pairs)
        Path(names[0]).write_text("\n".join(lines) + "\n", encoding="utf-8")
        recommended = {"favor_diagonal": True, "optimize_tension": True, "variational_bayes": True}
        module.generate_alignment_probabilities(*names, **recommended)
        found = module.Aligner(*names[1:]).align_batch(*map(list, zip(*pairs, strict=True)))
    return [frozenset((int(i), int(j)) for i, j in one["alignments"]) for one in found]


def peer(module: str, package: str) -> Any:
    """Return another program's module."""
    try:
        return import_module(module)
    except ImportError:
        raise Missing(f"pip install {package}") from None


PEERS = {"eflomal": eflomal, "fast_align": fast_align}


def peers(verses: Sequence[Verse]) -> dict[str, list[Links]]:
    """Return the links of those other programs that are installed, and print how long each took."""
    found = {}
    for name, align in PEERS.items():
        start = time.perf_counter()
        try:
            found[name] = align(verses)
        except Missing as reason:
            print(f"{name}: skipped ({reason})", flush=True)
        else:
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    return found


# --------------------------------------------------------------------------------------------------- attention


def text(verses: Sequence[Verse]) -> list[tuple[list[str], list[str]]]:
    """Return the pairs without their links, the English in small letters."""
    return [(verse.source, [word.lower() for word in verse.target]) for verse in verses]


class Directions(NamedTuple):
    """Greek to English, and back."""

    there: Translator
    back: Translator


def learn(
    verses: Sequence[Verse], parts: Split[list[Verse]], args: Namespace, known: Sequence[Links] | None = None
) -> Directions:
    """Learn both directions from the text of verses, and from links if there are some."""
    options = TEXT | {"recipe": TEXT["recipe"] | ({"guidance": args.guidance} if known else {})}
    pairs, valid = text(verses), text(parts.valid)
    there = together(pairs, valid, args, options, known)
    pairs, valid = ([(target, source) for source, target in side] for side in (pairs, valid))
    turned = known and [frozenset((j, i) for i, j in found) for found in known]
    return Directions(there, together(pairs, valid, args, options, turned))


def together(
    pairs: Sequence[Pairing],
    valid: Sequence[Pairing],
    args: Namespace,
    options: Mapping[str, Any],
    known: Sequence[Links] | None,
) -> Translator:
    """Train as many models as are asked for."""
    seeds = range(args.seed, args.seed + args.together)
    each = [Namespace(**vars(args) | {"seed": seed}) for seed in seeds]
    return Ensemble([train(pairs, valid, one, options, links=known).model for one in each])


Found = dict[str, list[Links]]


def alignments(models: Directions, verses: Sequence[Verse]) -> Found:
    """Return the links of verses, found in three ways."""
    sources, targets = sides(text(verses))
    weights = models.there.align(sources, targets)
    there = models.there.align(sources, targets, posterior=True)
    back = models.back.align(targets, sources, posterior=True)
    forward, backward = ([translation.full_alignment()[0] for translation in side] for side in (there, back))
    return {
        "weights": [links(translation.full_alignment()[0]) for translation in weights],
        "posterior": [links(posterior) for posterior in forward],
        "both": [links(both, end=False) for both in map(posterior_product, forward, backward)],
    }


def chosen(found: Sequence[Links], of: Sequence[Verse], verses: Sequence[Verse]) -> list[Links]:
    """Return the links of some verses, of those found in more."""
    each: Mapping[int, Links] = dict(zip(map(id, of), found, strict=True))
    return [each[id(verse)] for verse in verses]


def table(
    title: str, rows: Mapping[str, Sequence[Links]], of: Sequence[Verse], verses: Sequence[Verse]
) -> None:
    """Print the lines of what was found, counted on some verses."""
    print(f"\n{title:<32}   error   precision   recall", flush=True)
    for name, found in rows.items():
        line(name, score(chosen(found, of, verses), verses))


def main() -> None:
    """Measure the diagonal and the peers, train the models, measure them."""
    parser = arguments(__doc__, minutes=3)
    parser.add_argument("--guidance", type=float, default=1.0, metavar="X", help="how much links count")
    parser.add_argument("--together", type=int, default=1, metavar="N", help="models for each direction")
    args = parser.parse_args()
    parts = bible(LONGEST)
    every, seen = [verse for part in parts for verse in part], [*parts.train, *parts.test]
    header(
        f"{len(every):,} verses, of which {len(parts.test):,} to test on; "
        f"{args.minutes:g} minutes for each of {args.together} models a direction, seed {args.seed}"
    )
    rows = {"diagonal": [diagonal(verse) for verse in every]} | peers(every)
    start = time.perf_counter()
    models = learn(seen, parts, args)
    print(f"training both directions: {time.perf_counter() - start:.0f} s")
    start = time.perf_counter()
    first = alignments(models, every)
    print(f"aligning, with weights and posteriors: {time.perf_counter() - start:.0f} s")
    rows |= {f"attention: {name}": found for name, found in first.items()}
    again = learn(seen, parts, args, chosen(first["both"], every, seen))
    rows["attention: again"] = alignments(again, every)["both"]
    table("on all verses", rows, every, every)
    table("on the test's", rows, every, parts.test)
    guided = alignments(learn(parts.train, parts, args, [verse.links for verse in parts.train]), parts.test)
    rows = {f"by hand: {name}": found for name, found in guided.items()}
    table("on the test's, shown links", rows, parts.test, parts.test)


if __name__ == "__main__":
    run(main)
