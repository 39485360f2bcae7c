"""Print how well letters are turned into phonemes: CMUdict without stress, beside a peer and the literature.

    python benchmarks/pronunciation.py [--minutes 10] [--family recurrent]
    python benchmarks/pronunciation.py --minutes 0          the peers alone

12,000 words are kept for the test (`data.cmudict` says how they are drawn). WER is the share of words whose
pronunciation is none of those listed. PER is the sum of edit distances over the sum of lengths, each word compared
with the listed pronunciation that is nearest to what was said (of several as near, the longest).

The model looks up the words it has learned that are most like the one at hand, and reads how they are said
(`regard.seq2seq.extras.translation_memory`); ``--memory 0`` is without.

What it finds is ranked by how often letters in a row were said so, too (`regard.seq2seq.extras.graphones`);
``--graphones 0`` is without.

Two peers: Phonetisaurus 0.3.0 learns from the same words; g2p-en 2.1.0, an encoder-decoder without attention, comes
with what it has learned, from most of these words. The split of the literature is not to be had, so its figures are for
a comparable setting, not the same words; how comparable, Phonetisaurus says, which counts joint n-grams as Bisani and
Ney did.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import g2p_en
import phonetisaurus
from trial import BEAM, Trained, arguments, header, train

from data import Missing, Split, Words, cmudict, run
from data import g2p_en as g2p_en_arrays
from regard.seq2seq import Seq2Seq
from regard.seq2seq.evaluation.metrics import error_rate, exact

LONGEST = 31  # letters or phonemes; no word has more
# Words want a lower rate than sentences do, and nothing held back. A few minutes fill a small network only.
SMALL: dict[str, Any] = {
    "network": {"embedding": 112, "encoder": 96, "decoder": 144, "attention": 96},
    "recipe": {"rate": 2.5e-3, "tokens": 512, "dropout": 0.1, "smoothing": 0.0, "keep": "last"},
}
LARGE: dict[str, Any] = {
    "network": {"embedding": 128, "encoder": 192, "decoder": 256, "attention": 128},
    "recipe": {"rate": 1.5e-3, "tokens": 768, "dropout": 0.35, "smoothing": 0.0, "keep": "last"},
}
MANY_MINUTES = 30
LONGER = 3  # times as many tokens are read with a memory of two words as without
PUBLISHED = (
    ("Bisani and Ney 2008, joint n-grams", 5.88, 24.53),
    ("Yao and Zweig 2015, encoder-decoder", 7.63, 28.61),
    ("Yao and Zweig 2015, aligned bi-LSTM", 5.45, 23.55),
    ("Toshniwal and Livescu 2016, attention", 5.04, 21.69),
    ("  the same, five models together", 4.69, 20.24),
    ("Yolchuyeva et al. 2019, transformer", 5.23, 22.10),
)


def rates(found: Sequence[Sequence[str]], words: Words) -> tuple[float, float]:
    """Return the error rates of phonemes and of words."""
    lines = [" ".join(phonemes) for phonemes in found]
    right = [[" ".join(phonemes) for phonemes in listed] for listed in words.values()]
    return error_rate(lines, right), 1 - exact(lines, right)


def _percent(found: Sequence[Sequence[str]], words: Words) -> tuple[str, str]:
    per, wer = rates(found, words)
    return f"{100 * per:.2f}", f"{100 * wer:.2f}"


def pairs(words: Words) -> list[tuple[list[str], list[str]]]:
    """Return a pair for each listed pronunciation."""
    return [(list(word), list(phonemes)) for word, listed in words.items() for phonemes in listed]


def said(model: Seq2Seq, words: Words, beam: int) -> list[tuple[str, ...]]:
    """Say words."""
    return [found.tokens for found in model.translate([list(word) for word in words], beam=beam)]


def line(name: str, per: str, wer: str, note: str = "") -> None:
    """Print one line of the table."""
    print(f"{name:<42}{per:>7}{wer:>8}   {note}".rstrip(), flush=True)


def main() -> None:
    """Measure the peers, train ours, and print all of them under the literature."""
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
    header(f"{len(parts.train):,} words to learn from, {len(parts.test):,} to test on, seed {args.seed}")
    line("published, on a split of their own", "PER", "WER")
    for name, per, wer in PUBLISHED:
        line(name, f"{per:.2f}", f"{wer:.2f}")
    print()
    line("measured", "PER", "WER")
    peer = g2p_en.Model(g2p_en_arrays()).pronounce(list(parts.test))
    line("g2p-en 2.1.0, without attention", *_percent(peer, parts.test), "has seen most of the words")
    _joint_sequences(parts)
    if not args.minutes:
        return
    model, seconds = trained(parts, args)
    found = said(model, parts.test, args.beam)
    line(f"regard, {args.family}", *_percent(found, parts.test), f"{seconds / 60:.1f} minutes")


def _joint_sequences(parts: Split[Words]) -> None:
    """Measure the peer that learns from the same words."""
    start, name = time.perf_counter(), "Phonetisaurus 0.3.0, joint 8-grams"
    try:
        found = phonetisaurus.Model(parts.train).pronounce(list(parts.test))
    except Missing as reason:
        line(name, "-", "-", f"skipped: {reason}")
        return
    line(name, *_percent(found, parts.test), f"{(time.perf_counter() - start) / 60:.1f} minutes")


def trained(parts: Split[Words], args: Namespace) -> Trained:
    """Train a model."""
    options: dict[str, Any] = {
        "source": "tokens",
        "target": "tokens",
        "family": args.family,
        "max_tokens": LONGEST,
        "extras": {
            name: count
            for name, count in (("translation_memory", args.memory), ("graphones", args.graphones))
            if count
        },
    }
    if args.family == "recurrent":
        chosen = LARGE if args.minutes >= MANY_MINUTES else SMALL
        tokens = chosen["recipe"]["tokens"] * (LONGER if args.memory else 1)
        options |= chosen | {"recipe": chosen["recipe"] | {"tokens": tokens}}
    return train(pairs(parts.train), pairs(parts.valid), args, options)


if __name__ == "__main__":
    run(main)
