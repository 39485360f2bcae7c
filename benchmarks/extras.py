"""How long the extras take to prepare, which counts towards `--minutes`: of a word list, in processor seconds.

    python benchmarks/extras.py words.tsv

Words and their sounds, a tab between; the last 500 pairs are validation pairs. Each extra alone, and both.
"""

import sys
import time
from pathlib import Path

from regard.seq2seq import Seq2Seq, read_pairs
from regard.seq2seq.training.session import begin

EXTRAS = {"translation_memory": 2, "graphones": 8}


def measure(path: Path, extras: dict[str, int]) -> float:
    """Return the processor seconds before the first step."""
    pairs = read_pairs(path)
    begun = time.process_time()
    begin(Seq2Seq(source="characters", target="tokens", extras=extras, minutes=1), pairs[:-500], pairs[-500:])
    return time.process_time() - begun


def main() -> None:
    """Print a line for each set of extras."""
    path = Path(sys.argv[1])
    plain = measure(path, {})
    print(f"without extras: {plain:.1f} s")
    for extras in (*({name: option} for name, option in EXTRAS.items()), EXTRAS):
        print(f"{' and '.join(extras)}: {measure(path, extras) - plain:.1f} s more")


if __name__ == "__main__":
    main()
