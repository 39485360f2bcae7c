"""The links that attention is to learn: read from a file, and found again in how pairs are cut."""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.seq2seq.alignment.links import of_tokens, read_gold, word_numbers
from regard.seq2seq.data.batching import Links
from regard.seq2seq.data.parallel_text import Pair, Side
from regard.seq2seq.data.tokenizers import Text

__all__ = ["Given", "Line", "Skipped", "check_range", "line_number", "read_links"]


class Line(NamedTuple):
    """The links of one pair, and where they stand.

    Parameters
    ----------
    number : int
        Of the line, from 1 on.
    links : frozenset of (int, int)
        Between words or tokens, as the file counts them.
    """

    number: int
    links: Links


def read_links(path: Path, skipped: Collection[int], count: int) -> list[Line]:
    """Read the sure links of pairs in Pharaoh's format.

    Parameters
    ----------
    path : Path
        A line for each pair.
    skipped : collection of int
        Numbers of the lines, from 1 on, whose pairs were left out.
    count : int
        How many pairs are left.

    Returns
    -------
    list of Line
        One for each of them.

    Raises
    ------
    ValueError
        If a line has anything but links, or there are not as many lines as pairs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "links")
    ...     _ = path.write_text("0-0\\n\\n0-1 1?0\\n")
    ...     read_links(path, {2}, 2)
    [Line(number=1, links=frozenset({(0, 0)})), Line(number=3, links=frozenset({(0, 1)}))]
    """
    golds = read_gold(path)
    if len(golds) != count + len(skipped):
        raise ValueError(f"--links: {path} has {len(golds)} lines for {count + len(skipped)} pairs")
    left_out = bytearray(len(golds) + 1)
    for number in skipped:
        left_out[number] = True
    return [Line(number, gold.sure) for number, gold in enumerate(golds, 1) if not left_out[number]]


class Skipped:
    """Count the pairs that are left out; keep the first reason, and where they stand in eight bytes each.

    Examples
    --------
    >>> skipped = Skipped()
    >>> skipped.add("pairs.tsv, line 7: the source is empty")
    >>> skipped.count, skipped.first, list(skipped.lines)
    (1, 'pairs.tsv, line 7: the source is empty', [7])
    """

    def __init__(self) -> None:
        self.first, self.lines = "", array("Q")

    @property
    def count(self) -> int:
        """The number of pairs."""
        return len(self.lines)

    def add(self, reason: str) -> None:
        """Count a pair, given the message of `read_pairs` about it."""
        self.first = self.first or reason
        self.lines.append(line_number(reason))


def line_number(reason: str) -> int:
    """Return the number in what is said of a line that was left out.

    Parameters
    ----------
    reason : str
        As `read_pairs` says it.

    Returns
    -------
    int
        From 1 on.

    Examples
    --------
    >>> line_number("pairs.tsv, line 7: the source is empty")
    7
    """
    return int(re.findall(r", line ([0-9]+): ", reason)[-1])


def check_range(
    path: Path, line: Line, numbers: tuple[Sequence[int], Sequence[int]], by: str = "words", *, first: int = 0
) -> None:
    """Check that links are between what a pair has.

    Parameters
    ----------
    path : Path
        Where they come from, for errors.
    line : Line
        The links.
    numbers : two sequences of int
        For each token of the source and of the target, what it is counted as.
    by : {"words", "tokens"}
        What is counted.
    first : int
        The number of the first of them in the file.

    Raises
    ------
    ValueError
        With the line's number and the link.

    Examples
    --------
    >>> check_range(Path("links"), Line(1, frozenset({(0, 2)})), ([0, 1], [0, 0, 1]))
    Traceback (most recent call last):
    ValueError: links, line 1: a link must be between words of the pair, which has 2 and 2. Got 0-2 instead.
    """
    counts = [max(side, default=-1) + 1 for side in numbers]
    for i, j in sorted(line.links):
        if i >= counts[0] or j >= counts[1]:
            raise ValueError(
                f"{path}, line {line.number}: a link must be between {by} of the pair, which has "
                f"{counts[0]} and {counts[1]}. Got {i + first}-{j + first} instead."
            )


class Given:
    """Links of the pairs to learn from, once it is known how these are cut.

    Parameters
    ----------
    path : Path
        Where they come from, for errors.
    lines : sequence of Line
        One for each pair.
    pairs : sequence of (source, target)
        The pairs.
    by : {"words", "tokens"}
        What is counted: words are what spaces part.
    longest : int
        Pairs with more tokens on a side have no links: they are not learned.

    Examples
    --------
    >>> from regard.seq2seq.data.tokenizers import Characters, Words
    >>> given = Given(Path("links"), [Line(1, frozenset({(1, 0)}))], [("a b", "be")], "words", 50)
    >>> sorted(given(Words.learn(["a b"]), Characters.learn(["be"]))[0])
    [(1, 0), (1, 1)]
    """

    def __init__(
        self, path: Path, lines: Sequence[Line], pairs: Sequence[Pair], by: str, longest: int
    ) -> None:
        self.path, self.lines, self.pairs, self.by, self.longest = path, lines, pairs, by, longest

    def __call__(self, source: Text, target: Text) -> list[Links]:
        """Return the links between tokens, for each pair."""
        return [
            self._of(line, self._numbers(source, pair[0]), self._numbers(target, pair[1]))
            if line.links
            else line.links
            for line, pair in zip(self.lines, self.pairs, strict=True)
        ]

    def _numbers(self, text: Text, side: Side) -> list[int]:
        """Return for each token what the file counts it as; nothing for a side that is too long."""
        tokens = text.cut(side)
        if len(tokens) > self.longest:
            return []
        return word_numbers(tokens, text.glue) if self.by == "words" else list(range(len(tokens)))

    def _of(self, line: Line, source: Sequence[int], target: Sequence[int]) -> Links:
        if not source or not target:
            return frozenset()
        check_range(self.path, line, (source, target), self.by)
        return of_tokens(line.links, source, target)
