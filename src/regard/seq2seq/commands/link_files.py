"""Files of links that commands read: how words are counted there, and which tokens of a pair they mean."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.seq2seq.alignment.links import Gold, of_tokens, read_gold, word_numbers
from regard.seq2seq.data.batching import Links
from regard.seq2seq.data.parallel_text import Pair, Side
from regard.seq2seq.data.tokenizers import Tokenizer

__all__ = [
    "LINKS_FROM",
    "Given",
    "Line",
    "check_range",
    "line_number",
    "read_counted",
    "read_links",
    "warn_of_one",
]

LINKS_FROM = "--links-from"


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


def read_counted(path: Path, first: int | None, option: str) -> list[Gold]:
    """Read a file in Pharaoh's format whose words may be counted from 1.

    Parameters
    ----------
    path : Path
        A line for each pair.
    first : int or None
        The number of the first word, 0 or 1; None means 0.
    option : str
        The option that sets `first`, for errors.

    Returns
    -------
    list of Gold
        Links from 0 on.

    Raises
    ------
    ValueError
        If a line has anything but links, or a link has the number 0 where the first word is 1.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "links")
    ...     _ = path.write_text("1-1 2?1\\n")
    ...     read_counted(path, 1, "--gold-from")[0].sure
    frozenset({(0, 0)})
    """
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


def warn_of_one(path: Path, links: Sequence[Links], first: int | None, option: str) -> None:
    """Print a warning if nobody has said how words are counted, and they seem to be counted from 1.

    Parameters
    ----------
    path : Path
        Where the links come from.
    links : sequence of frozenset of (int, int)
        All links of the file.
    first : int or None
        The number of the first word; None where nobody has said.
    option : str
        The option that sets `first`.

    Examples
    --------
    >>> warn_of_one(Path("links"), [frozenset({(0, 1)})], None, "--gold-from")
    """
    if first is None and any(links) and not any(0 in link for each in links for link in each):
        told = f"{path}: no link has the number 0; if the first word has the number 1, give {option} 1"
        print(told, file=sys.stderr)


def read_links(path: Path, skipped: Collection[int], count: int, first: int | None = None) -> list[Line]:
    """Read the sure links of pairs in Pharaoh's format.

    Parameters
    ----------
    path : Path
        A line for each pair.
    skipped : collection of int
        Numbers of the lines, from 1 on, whose pairs were left out.
    count : int
        How many pairs are left.
    first : int or None
        As for `read_counted`.

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
    golds = read_counted(path, first, LINKS_FROM)
    if len(golds) != count + len(skipped):
        raise ValueError(f"--links: {path} has {len(golds)} lines for {count + len(skipped)} pairs")
    return [Line(number, gold.sure) for number, gold in enumerate(golds, 1) if number not in skipped]


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
    path: Path,
    line: Line,
    numbers: tuple[Sequence[int], Sequence[int]],
    by: str = "words",
    *,
    first: int = 0,
    option: str = LINKS_FROM,
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
    option : str
        The option that sets `first`, for the hint.

    Raises
    ------
    ValueError
        With the line's number and the link.

    Examples
    --------
    >>> check_range(Path("links"), Line(1, frozenset({(0, 2)})), ([0, 1], [0, 0, 1]))
    Traceback (most recent call last):
    ValueError: links, line 1: a link must be between words of the pair, which has 2 and 2. Got 0-2 instead.
    >>> check_range(Path("links"), Line(1, frozenset({(2, 2)})), ([0, 1], [0, 0, 1]))
    Traceback (most recent call last):
    ValueError: links, line 1: a link must be between words of the pair, which has 2 and 2. Got 2-2 instead; if the \
first word has the number 1, give --links-from 1
    """
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
    first : int or None
        The number of the first of them in the file; None where nobody has said.

    Examples
    --------
    >>> from regard.seq2seq.data.tokenizers import Characters, Words
    >>> given = Given(Path("links"), [Line(1, frozenset({(1, 0)}))], [("a b", "be")], "words", 50)
    >>> sorted(given(Words.learn(["a b"]), Characters.learn(["be"]))[0])
    [(1, 0), (1, 1)]
    """

    def __init__(
        self,
        path: Path,
        lines: Sequence[Line],
        pairs: Sequence[Pair],
        by: str,
        longest: int,
        first: int | None = None,
    ) -> None:
        self.path, self.lines, self.pairs, self.by, self.longest = path, lines, pairs, by, longest
        self.first = first

    def __call__(self, source: Tokenizer, target: Tokenizer) -> list[Links]:
        """Return the links between tokens, for each pair."""
        found: list[Links] = [
            self._of(line, self._numbers(source, pair[0]), self._numbers(target, pair[1]))
            if line.links
            else line.links
            for line, pair in zip(self.lines, self.pairs, strict=True)
        ]
        warn_of_one(self.path, [line.links for line in self.lines], self.first, LINKS_FROM)
        return found

    def _numbers(self, text: Tokenizer, side: Side) -> list[int]:
        """Return for each token what the file counts it as; nothing for a side that is too long."""
        tokens = text.cut(side)
        if len(tokens) > self.longest:
            return []
        return word_numbers(tokens, text.glue) if self.by == "words" else list(range(len(tokens)))

    def _of(self, line: Line, source: Sequence[int], target: Sequence[int]) -> Links:
        if not source or not target:
            return frozenset()
        check_range(self.path, line, (source, target), self.by, first=self.first or 0)
        return of_tokens(line.links, source, target)
