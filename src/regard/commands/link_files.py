"""Files of word alignments: links by line, and their conversion to links between tokens."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard import _check
from regard.seq2seq.alignment.links import Gold, of_tokens, read_gold, word_numbers
from regard.seq2seq.corpus.batching import Links
from regard.seq2seq.corpus.pairs import Pair, Skipped
from regard.seq2seq.sources import Example, Source
from regard.seq2seq.sources.text.tokenizers import Tokenizer
from regard.show.terminal.text import note

__all__ = ["LINKS_FROM", "LineLinks", "LinkFile", "PairLinks", "SkippedPairs", "read_links"]

LINKS_FROM = "--links-from"


class LineLinks(NamedTuple):
    """The links of one line of a file, by numbers from 0."""

    number: int  # of the line, from 1
    links: Links


class LinkFile(NamedTuple):
    """A file of links in Pharaoh's format, and what its numbers count."""

    path: Path
    first: int | None = None  # the number of the first word; None if no option has set it
    by: str = "words"  # separated by spaces; or "tokens"
    option: str = LINKS_FROM  # which sets `first`

    def read(self) -> list[Gold]:
        """Return the links of each line, by numbers from 0."""
        golds = read_gold(self.path)
        if self.first != 1:
            return golds
        for number, gold in enumerate(golds, 1):
            if any(0 in link for link in gold.possible):
                rule = "a link must count words from 1 on. Got one with 0 instead."
                _check.fail(f"{self.path}, line {number}: {rule}", hint=f"{self.option} 0 counts from 0")
        return [Gold(_from_one(gold.sure), _from_one(gold.possible)) for gold in golds]

    def warn(self, links: Sequence[Links]) -> None:
        """Print a warning if words seem to be counted from 1, and no option has set the first number."""
        if self.first is None and any(links) and not any(0 in link for each in links for link in each):
            rule = "no link has the number 0; if the first word has the number 1, give"
            note(f"{self.path}: {rule} {self.option} 1")

    def numbers(self, tokenizer: Tokenizer, side: Example) -> list[int]:
        """Return the number in the file of each token of a side."""
        by_words = self.by == "words"
        return word_numbers(side.content, tokenizer.detokenize) if by_words else list(range(len(side)))

    def check(self, line: LineLinks, numbers: tuple[Sequence[int], Sequence[int]]) -> None:
        """Check that links are between words or tokens of a pair; `numbers` are those of each token of both sides."""
        counts, first = [max(side, default=-1) + 1 for side in numbers], self.first or 0
        for i, j in sorted(line.links):
            if i >= counts[0] or j >= counts[1]:
                from_one = not any(0 in link for link in line.links) and i <= counts[0] and j <= counts[1]
                hint = f"if the first {self.by[:-1]} has the number 1, give {self.option} 1"
                rule = f"a link must be between {self.by} of the pair, which has {counts[0]} and {counts[1]}."
                _check.fail(
                    f"{self.path}, line {line.number}: {rule} Got {i + first}-{j + first} instead.",
                    hint=hint if from_one and not first else "",
                )


def _from_one(links: Links) -> Links:
    return frozenset((i - 1, j - 1) for i, j in links)


def read_links(file: LinkFile, skipped: Collection[int], count: int) -> list[LineLinks]:
    """Read the sure links of pairs."""
    golds = file.read()
    if len(golds) != count + len(skipped):
        rule = f"--links: {file.path} must have a line for each of {count + len(skipped)} pairs."
        _check.fail(f"{rule} Got {len(golds)} instead.")
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


@dataclass(frozen=True)
class PairLinks:
    """Links of training pairs, which become links of tokens when the tokenizers are known."""

    file: LinkFile
    lines: Sequence[LineLinks]
    longest: int  # tokens of a side; longer pairs are not trained on and get no links

    def __call__(self, source: Source, target: Tokenizer, pairs: Sequence[Pair]) -> list[Links]:
        """Return the links between the tokens of each pair."""
        tokenizers = source.tokenizer, target
        links = [
            self._of_tokens(line, tokenizers, *pair) for line, pair in zip(self.lines, pairs, strict=True)
        ]
        self.file.warn([line.links for line in self.lines])
        return links

    def _of_tokens(
        self, line: LineLinks, tokenizers: tuple[Tokenizer, Tokenizer], source: Example, target: Example
    ) -> Links:
        if (
            not line.links
            or not 0 < min(len(source), len(target)) <= max(len(source), len(target)) <= self.longest
        ):
            return frozenset()
        numbers = self.file.numbers(tokenizers[0], source), self.file.numbers(tokenizers[1], target)
        self.file.check(line, numbers)
        return of_tokens(line.links, *numbers)
