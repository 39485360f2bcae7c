"""What training pairs look like: numbered lines with comments, or single words, for which there are other options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from regard.seq2seq.corpus.pairs import Pair
from regard.seq2seq.model import Seq2Seq

__all__ = ["notices"]

_FEW = 20  # different sources; of fewer, nothing is said
_MOST = 0.9  # of the pairs
_NUMBERED = re.compile(r"(.+)\([0-9]+\)")  # a further variant of a word
_COMMENT = re.compile(r";;;|#")
_NOTE = re.compile(r" #( |$)")


def notices(pairs: Sequence[Pair], model: Seq2Seq, way: Callable[[], str]) -> Iterator[str]:
    """Yield a warning for numbered sources and comments in pairs of text, and for words that are not spelled.

    `way` returns how another task reads the file, if there is one.
    """
    if model.reader.reads_files:
        return
    lines = [(str(source), str(target)) for source, target in pairs]
    sources = {source for source, _ in lines}
    numbered = [s for s in sources if (found := _NUMBERED.fullmatch(s)) and found[1] in sources]
    if numbered:
        example = min(numbered)
        yield _told(f"sources such as {example!r:.40} seem to be numbered variants of a word", way())
    are_words = _are_words(lines, len(sources))
    if comments := [line for line in lines if _COMMENT.match(line[0]) or _NOTE.search(line[1])] * are_words:
        example = " ".join(comments[0])
        count = f"{len(comments)} of {len(lines)} pairs"
        yield _told(f"{count} seem to have comments, such as {example!r:.60}", way())
    if model.reader.kind == "words" and are_words:
        spelled = any(" " in target for _, target in lines)
        rule = "most sources are single words, of which nothing is learned that another word can use"
        yield _told(
            f"{rule}: --source characters --target {'tokens' if spelled else 'characters'}", way() * spelled
        )


def _told(text: str, way: str) -> str:
    """Return a warning, with the way if there is one."""
    return f"warning: {text}" + f"; {way}" * bool(way)


def _are_words(lines: Sequence[tuple[str, str]], different: int) -> bool:
    """Return whether most sources are single words, and hardly any comes more often than its variants."""
    single = sum(" " not in source.strip() for source, _ in lines)
    return different >= _FEW and single >= _MOST * len(lines) and 2 * different > len(lines)
