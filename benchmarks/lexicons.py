"""Print the error rates of models that ship: from a word list, exported, and decoded greedily by onnxruntime.

    python benchmarks/lexicons.py [--minutes 60] [--out FOLDER]         CMUdict with stress, one network
    python benchmarks/lexicons.py --extras --minutes 20                 with memory and graphones, not exported
    python benchmarks/lexicons.py --run FOLDER                          the same for a run of an earlier call
    python benchmarks/lexicons.py --languages de fr [--minutes 10]      word lists of gruut, with memory and graphones
    python benchmarks/lexicons.py --languages de --words 600000         complete lists

CMUdict is in the split of phonebox 0.3.0, 104,447 words for training, 11,605 for validation, 10,000 for the test. The
network is that of `preset`, with extras, which cannot be exported, if ``--extras`` is given;
``--out`` has the run and the exported files. Its probabilities are calibrated on the words for validation.

A language has at most ``--words`` words of its lexicon; a tenth is held out by spelling families. The model is that of
the preset with memory and graphones, with a beam of five.

WER is the share of words whose pronunciation is not among those listed. PER is the sum of edit distances over the sum
of lengths, each word compared with the nearest of its pronunciations. Phonetisaurus 0.3.0 learns the same words.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pronunciation import line, pairs, peer, probabilities, rates_row, row
from record import save
from trial import BEAM, Options, arguments, header, train

from data import GRUUT, GRUUT_WORDS, Split, Words, cmudict_of_phonebox, gruut, run, without_stress
from regard.seq2seq import Seq2Seq
from regard.seq2seq.export.folder import copied, export
from regard_lexicon.recipes import EXTRAS, preset

PHONEBOX = (
    ("Phonetisaurus, with stress", 8.88, 33.69),
    ("DeepPhonemizer, with stress, 26 M parameters, 24 hours", 6.92, 26.25),
    ("Phonetisaurus, without stress", 6.40, 25.86),
)
BOTH = EXTRAS


def main() -> None:
    """Train and measure on CMUdict, or on languages."""
    parser = arguments(__doc__, minutes=0)
    parser.add_argument("--languages", nargs="+", choices=(*GRUUT,), metavar="NAME", help="of gruut")
    parser.add_argument(
        "--words",
        type=int,
        default=GRUUT_WORDS,
        metavar="N",
        help="most words of a language (default 60,000)",
    )
    parser.add_argument("--out", type=Path, default=Path("runs", "lexicons"), metavar="FOLDER")
    parser.add_argument("--extras", action="store_true", help="memory and graphones, for CMUdict")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="a run that is measured, not trained")
    args = parser.parse_args()
    if args.languages:
        args.minutes = args.minutes or 10
        languages(args)
    else:
        args.minutes = args.minutes or 60
        english(args)
    save(args.json)


def learned(parts: Split[Words], args: argparse.Namespace, extras: Mapping[str, int]) -> Seq2Seq:
    """Train a model of the preset."""
    options = preset(parts.train, {"minutes": args.minutes, "extras": extras})
    return train(pairs(parts.train), pairs(parts.valid), args, cast(Options, options)).model


def show(name: str, texts: list[str], words: Words, note: str = "") -> None:
    """Print and keep error rates of pronunciations, each a text."""
    row(name, [text.split() for text in texts], words, note)


def plain(texts: list[str]) -> list[str]:
    """Return pronunciations without stress."""
    return [" ".join(phoneme.rstrip("012") for phoneme in text.split()) for text in texts]


def english(args: argparse.Namespace) -> None:
    """Train a model on CMUdict, export it if it has no extras, and print its error rates, sizes and probabilities."""
    parts = cmudict_of_phonebox()
    header(f"{len(parts.train):,} training words, {len(parts.test):,} test words, seed {args.seed}")
    line("published by phonebox, on the same words", "PER", "WER")
    for published in PHONEBOX:
        rates_row(*published, "published by phonebox")
    print()
    line("measured", "PER", "WER")
    peer("Phonetisaurus, with stress", parts)
    peer("Phonetisaurus, without stress", Split(*map(without_stress, parts)))
    model = Seq2Seq.load(args.run) if args.run else learned(parts, args, BOTH if args.extras else {})
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.run:
        model.save(args.out / "model.safetensors")
    sounds, unstressed = parts.test, without_stress(parts.test)
    best = [found.text for found in model.translate([*sounds], beam=BEAM)]
    show(f"regard, beam {BEAM}", best, sounds, ", ".join(model.model.extras))
    show(f"regard, beam {BEAM}, stress dropped", plain(best), unstressed)
    if not model.model.extras:
        answers, size = exported(model, args.out / "app", parts)
        show("exported files, greedy", answers, sounds, f"{size / 1e6:.1f} MB")
        show("exported files, greedy, stress dropped", plain(answers), unstressed)
    probabilities(model, parts)


def exported(model: Seq2Seq, folder: Path, parts: Split[Words]) -> tuple[list[str], int]:
    """Export a model; return the answers of the files to the test words, by their own decoder, and their bytes."""
    done = export(model.model, folder, [*parts.test])
    with copied("decode", folder) as module:
        decoder: Any = module.Decoder(folder)
        return [decoder(word).text for word in parts.test], sum(done.sizes.values())


def languages(args: argparse.Namespace) -> None:
    """Train a model for each language, and print its error rates beside those of Phonetisaurus."""
    header(f"{args.minutes:g} minutes for each language, seed {args.seed}")
    line("measured", "PER", "WER")
    for name in args.languages:
        parts = gruut(name, args.words)
        sizes = f"{len(parts.train):,} training words, {len(parts.test):,} test words"
        peer(f"{name}, Phonetisaurus", parts)
        model = learned(parts, args, BOTH)
        show(
            f"{name}, regard", [x.text for x in model.translate([*parts.test], beam=BEAM)], parts.test, sizes
        )


if __name__ == "__main__":
    run(main)
