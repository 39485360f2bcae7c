"""Print error rates of letters to phonemes: CMUdict without stress, next to two peers and the literature.

    python benchmarks/pronunciation.py [--minutes 10] [--family recurrent]
    python benchmarks/pronunciation.py --minutes 0          the peers only

12,000 words are held out for the test; see `data.cmudict`. WER is the share of words whose pronunciation is not among
those listed. PER is the sum of edit distances over the sum of lengths, each word compared with the nearest of its
listed pronunciations (of several as near, the longest).

The model is that of `preset`. It retrieves the most similar training words and reads their
pronunciations (`regard_lexicon.extras.translation_memory`); ``--memory 0`` is without. Its
hypotheses are reranked by joint n-grams of letters and phonemes (`regard_lexicon.extras.graphones`); ``--graphones 0``
is without.

The last line is of its probabilities, calibrated on the words for validation and measured on those of the test: the
calibration error, and the largest share of words of which 98 % are right.

Two peers: Phonetisaurus 0.3.0 is trained on the same words; g2p-en 2.1.0, an encoder-decoder without attention, comes
trained, on most of these words. The split of the literature is not available, so its figures are for a comparable
setting, not for the same words. Phonetisaurus, which has joint n-grams as Bisani and Ney do, shows how comparable.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from typing import cast

import g2p_en
import phonetisaurus
from record import keep, save
from trial import BEAM, Options, Trained, arguments, header, train

from data import Missing, Split, Words, cmudict, run
from data import g2p_en as g2p_en_arrays
from regard.commands.train.confidence import Confidence
from regard.seq2seq import Seq2Seq
from regard.seq2seq.evaluation.metrics import error_rate, exact
from regard_lexicon.recipes import preset

PUBLISHED = (
    ("Bisani and Ney 2008, joint n-grams", 5.88, 24.53),
    ("Yao and Zweig 2015, encoder-decoder", 7.63, 28.61),
    ("Yao and Zweig 2015, aligned bi-LSTM", 5.45, 23.55),
    ("Toshniwal and Livescu 2016, attention", 5.04, 21.69),
    ("the same, ensemble of five", 4.69, 20.24),
    ("Yolchuyeva et al. 2019, transformer", 5.23, 22.10),
)


def rates(pronounced: Sequence[Sequence[str]], words: Words) -> tuple[float, float]:
    """Return the error rates of phonemes and of words."""
    lines = [" ".join(phonemes) for phonemes in pronounced]
    references = [[" ".join(phonemes) for phonemes in listed] for listed in words.values()]
    return error_rate(lines, references), 1 - exact(lines, references)


def pairs(words: Words) -> list[tuple[str, str]]:
    """Return a pair for each listed pronunciation."""
    return [(word, " ".join(phonemes)) for word, listed in words.items() for phonemes in listed]


def pronounce(model: Seq2Seq, words: Words, beam: int) -> list[tuple[str, ...]]:
    """Return the phonemes of words."""
    return [translation.tokens for translation in model.translate(list(words), beam=beam)]


def line(name: str, per: str, wer: str, note: str = "") -> None:
    """Print a row of the table."""
    print(f"{name:<42}{per:>7}{wer:>8}   {note}".rstrip(), flush=True)


def row(name: str, pronounced: Sequence[Sequence[str]], words: Words, note: str = "") -> None:
    """Measure, print and keep the error rates of pronunciations."""
    per, wer = rates(pronounced, words)
    rates_row(name, 100 * per, 100 * wer, note)


def rates_row(name: str, per: float, wer: float, note: str) -> None:
    """Print and keep error rates, in percent."""
    line(name, f"{per:.2f}", f"{wer:.2f}", note)
    keep(what=name, PER=per, WER=wer, note=note)


def main() -> None:
    """Print the figures of the literature, measure the peers, train a model and measure it."""
    parser = arguments(__doc__, minutes=10)
    parser.add_argument("--family", choices=("recurrent", "transformer"), default="recurrent")
    parser.add_argument("--beam", type=int, default=BEAM, metavar="N")
    parser.add_argument(
        "--memory", type=int, default=2, metavar="N", help="pairs of the translation memory (default 2)"
    )
    parser.add_argument(
        "--graphones", type=int, default=8, metavar="N", help="order of the graphones (default 8)"
    )
    args = parser.parse_args()
    parts = cmudict()
    header(f"{len(parts.train):,} training words, {len(parts.test):,} test words, seed {args.seed}")
    line("published, on a split of their own", "PER", "WER")
    for published in PUBLISHED:
        rates_row(*published, "published, another split")
    print()
    line("measured", "PER", "WER")
    found = g2p_en.Model(g2p_en_arrays()).pronounce(list(parts.test))
    row("g2p-en 2.1.0, without attention", found, parts.test, "trained on most of the words")
    peer("Phonetisaurus 0.3.0, joint 8-grams", parts)
    if not args.minutes:
        save(args.json)
        return
    model, seconds = trained(parts, args)
    pronounced = pronounce(model, parts.test, args.beam)
    row(f"regard, {args.family}", pronounced, parts.test, f"{seconds / 60:.1f} minutes")
    probabilities(model, parts)
    save(args.json)


def probabilities(model: Seq2Seq, parts: Split[Words]) -> None:
    """Print and keep the calibration error, and the share of words that are kept with 98 % right."""
    error, kept = (100 * measure for measure in confidence(model, parts).measures().values())
    print(f"probabilities: calibration error {error:.1f} %, {kept:.1f} % of words kept with 98 % right")
    keep(what="probabilities", error=error, kept=kept)


def confidence(model: Seq2Seq, parts: Split[Words]) -> Confidence:
    """Return the test words with their probabilities, which are calibrated on the words for validation."""
    model.calibrate(*zip(*pairs(parts.valid), strict=True))
    judged = model.compare_with_references(*zip(*pairs(parts.test), strict=True))
    return Confidence(judged, [model.probability(one.candidates) for one in judged])


def peer(name: str, parts: Split[Words]) -> None:
    """Train Phonetisaurus and print its error rates."""
    start = time.perf_counter()
    try:
        pronounced = phonetisaurus.Model(parts.train).pronounce(list(parts.test))
    except Missing as reason:
        line(name, "-", "-", f"skipped: {reason}")
        return
    row(name, pronounced, parts.test, f"{(time.perf_counter() - start) / 60:.1f} minutes")


def trained(parts: Split[Words], args: Namespace) -> Trained:
    """Train a model."""
    given = {
        "family": args.family,
        "minutes": args.minutes,
        "extras": {"translation_memory": args.memory, "graphones": args.graphones},
    }
    options = cast(Options, preset(parts.train, given))
    return train(pairs(parts.train), pairs(parts.valid), args, options)


if __name__ == "__main__":
    run(main)
