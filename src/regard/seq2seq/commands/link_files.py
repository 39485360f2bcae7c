"""Files of word alignments: links by line, and their conversion to links between tokens."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.seq2seq.alignment.links import Gold, of_tokens, read_gold, word_numbers
from regard.seq2seq.data.batching import Links
from regard.seq2seq.data.parallel_text import Pair, Side, Skipped
from regard.seq2seq.data.tokenizers import Tokenizer
from regard.show.terminal.text import note

__all__ = [
    "LINKS_FROM",
    "LineLinks",
    "PairLinks",
    "SkippedPairs",
    "check_range",
    "read_counted",
    "read_links",
    "warn_if_from_one",
]

LINKS_FROM = "--links-from"


class LineLinks(NamedTuple):
    """The links of one line of a file.

    Parameters
    ----------
    number : int
        The number of the line, from 1.
    links : frozenset of (int, int)
        Between words or tokens, by their numbers in the file, from 0.
    """

    number: int
    links: Links


def read_counted(path: Path, first: int | None, option: str) -> list[Gold]:
    """Read a file in Pharaoh's format whose words may be counted from 1."""
    golds = read_gold(path)
    if first != 1:
        return golds
    for number, gold in enumerate(golds, 1):
        if any(0 in link for link in gold.possible):
            raise ValueError(
                f"{path}, line {number}: a link must count words from 1 on. Got one with 0 instead; "
                f"{option} 0 counts from 0"
            )
    return [Gold(_from_one(gold.sure), _from_one(gold.possible)) for gold in golds]


def _from_one(links: Links) -> Links:
    return frozenset((i - 1, j - 1) for i, j in links)


def warn_if_from_one(path: Path, links: Sequence[Links], first: int | None, option: str) -> None:
    """Print a warning if words seem to be counted from 1, and no option has set the first number."""
    if first is None and any(links) and not any(0 in link for each in links for link in each):
        message = f"{path}: no link has the number 0; if the first word has the number 1, give {option} 1"
        note(message)


def read_links(path: Path, skipped: Collection[int], count: int, first: int | None = None) -> list[LineLinks]:
    """Read the sure links of pairs in Pharaoh's format."""
    golds = read_counted(path, first, LINKS_FROM)
    if len(golds) != count + len(skipped):
        raise ValueError(f"--links: {path} has {len(golds)} lines for {count + len(skipped)} pairs")
    left_out = bytearray(len(golds) + 1)
    for number in skipped:
        left_out[number] = True
    return [LineLinks(number, gold.sure) for number, gold in enumerate(golds, 1) if not left_out[number]]


class SkippedPairs:
    """The pairs that are left out: the first one, and the line numbers of all in eight bytes each."""

    def __init__(self) -> None:
        self.first, self.lines = "", array("Q")

    @property
    def count(self) -> int:
        """The number of pairs."""
        return len(self.lines)

    def add(self, pair: Skipped) -> None:
        """Count a pair, as `read_pairs` reports it."""
        self.first = self.first or str(pair)
        self.lines.append(pair.line)


def check_range(
    path: Path,
    line: LineLinks,
    numbers: tuple[Sequence[int], Sequence[int]],
    by: str = "words",
    *,
    first: int = 0,
    option: str = LINKS_FROM,
) -> None:
    """Check that links are between words or tokens of a pair; `numbers` are those of each token of both sides."""
    counts = [max(side, default=-1) + 1 for side in numbers]
    for i, j in sorted(line.links):
        if i >= counts[0] or j >= counts[1]:
            fits = not any(0 in link for link in line.links) and i <= counts[0] and j <= counts[1]
            fits = fits and not first
            hint = f"; if the first {by[:-1]} has the number 1, give {option} 1" if fits else "."
            raise ValueError(
                f"{path}, line {line.number}: a link must be between {by} of the pair, which has "
                f"{counts[0]} and {counts[1]}. Got {i + first}-{j + first} instead{hint}"
            )


class PairLinks:
    """Links of training pairs, which become links of tokens when the tokenizers are known.

    Parameters
    ----------
    path : Path
        The file of the links, for errors.
    lines : sequence of LineLinks
        The links of each pair.
    pairs : sequence of (source, target)
        The pairs.
    by : {"words", "tokens"}
        The unit that the links count; words are separated by spaces.
    longest : int
        The most tokens of a side; longer pairs are not trained on and get no links.
    first : int or None
        The number of the first word in the file; None if no option has set it.
    """

    def __init__(
        self,
        path: Path,
        lines: Sequence[LineLinks],
        pairs: Sequence[Pair],
        by: str,
        longest: int,
        first: int | None = None,
    ) -> None:
        self.path, self.lines, self.pairs, self.by, self.longest = path, lines, pairs, by, longest
        self.first = first

    def __call__(self, source: Tokenizer, target: Tokenizer) -> list[Links]:
        """Return the links between the tokens of each pair."""
        token_links: list[Links] = [
            self._of_tokens(line, self._numbers(source, pair[0]), self._numbers(target, pair[1]))
            if line.links
            else line.links
            for line, pair in zip(self.lines, self.pairs, strict=True)
        ]
        warn_if_from_one(self.path, [line.links for line in self.lines], self.first, LINKS_FROM)
        return token_links

    def _numbers(self, tokenizer: Tokenizer, side: Side) -> list[int]:
        """Return the number in the file of each token; an empty list for a side that is too long."""
        tokens = tokenizer.cut(side)
        if len(tokens) > self.longest:
            return []
        return word_numbers(tokens, tokenizer.glue) if self.by == "words" else list(range(len(tokens)))

    def _of_tokens(self, line: LineLinks, source: Sequence[int], target: Sequence[int]) -> Links:
        if not source or not target:
            return frozenset()
        check_range(self.path, line, (source, target), self.by, first=self.first or 0)
        return of_tokens(line.links, source, target)
