"""Print Luong's table: score functions beside each other, with all of the source seen or a window of it.

    python benchmarks/luong.py [--minutes 3] [--scores dot general]

After table 4 of Luong, Pham and Manning 2015: the same decoder, data and time for each; the windows are the monotonic
(local-m) and the predictive one (local-p). BLEU (sacrebleu, 13a) on LibreOffice's help, English to French, pages that
were not trained on, beam of 5. The last lines are Bahdanau's decoder and the conditional one (Sennrich et al. 2017),
with the additive score.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from trial import arguments, header, measured, train

from data import Pair, Split, libreoffice, run

LONGEST = 15
SCORES = ("location", "dot", "general", "concat")
SIZES = {
    "encoder": 128,
    "decoder": 256,
}  # the score dot compares states of both directions with the decoder's
WINDOWS = ("global", "local-m", "local-p")


def line(name: str, figures: Mapping[str, float]) -> str:
    """Write the figures of one score function."""
    cells = (f"{figures[window]:.2f}" if window in figures else "-" for window in WINDOWS)
    return f"{name:<24}" + "".join(f"{cell:>10}" for cell in cells)


def figure(parts: Split[list[Pair]], args: Namespace, network: Mapping[str, Any]) -> float:
    """Train one model and return its BLEU."""
    model, _ = train(parts.train, parts.valid, args, {"max_tokens": LONGEST, "network": {**SIZES, **network}})
    return measured(model, parts.test)


def main() -> None:
    """Train and print, score by score."""
    parser = arguments(__doc__, minutes=3)
    parser.add_argument("--scores", nargs="+", choices=SCORES, default=SCORES)
    args = parser.parse_args()
    parts = libreoffice("fr", LONGEST)
    header(
        f"en-fr: {len(parts.train):,} pairs, {len(parts.test):,} to test on",
        f"{args.minutes:g} minutes for each model, seed {args.seed}",
    )
    print(f"{'score':<24}" + "".join(f"{window:>10}" for window in WINDOWS))
    for score in args.scores:
        luong = {"style": "luong", "score": score}
        found = {window: figure(parts, args, luong | {"window": window}) for window in WINDOWS}
        print(line(score, found), flush=True)
    for name, style in (("Bahdanau", "bahdanau"), ("Sennrich", "conditional")):
        additive = {"style": style, "score": "additive"}
        print(line(f"additive ({name})", {"global": figure(parts, args, additive)}), flush=True)


if __name__ == "__main__":
    run(main)
