"""Text on a terminal: display widths, padding, wrapping, alignment and colours."""

import functools
import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from regard._characters import FOLLOWING, MOST_MARKS, classes, clean, report, shorten

__all__ = [
    "display_width",
    "wants_color",
    "shade",
    "clean",
    "shorten",
    "report",
    "note",
    "fit",
    "cut",
    "wrap",
    "pad_lines",
    "align",
    "side_by_side",
]

# White to dark blue among the 256 fixed terminal colours: the same picture on dark and on light terminals.
_RAMP = (231, 189, 153, 117, 75, 33, 32, 26, 25, 18)
BLOCKS = " ░▒▓█"  # shades without colours
_FIRST_DARK = 5  # from this shade on, white digits are easier to read than black ones
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
# Clusters in the letters of `classes`: none begins with a character of width 0, and a joiner joins any two characters
# that are not spaces.
_CLUSTER = re.compile(f"(?:rr?|.)[{FOLLOWING}]*(?:(?<=z)[^ns][{FOLLOWING}]*)*")
_LONGEST_CLUSTER = 1 + MOST_MARKS  # characters: longer ones are measured in pieces, and no column needs more
_NO_WIDTH = ("Mn", "Me", "Mc", "Cf", "Zl", "Zp")


def wants_color(stream: TextIO | None = None) -> bool:
    """Return whether text for a stream is coloured: by NO_COLOR, FORCE_COLOR, CLICOLOR, or whether it is a terminal.

    Parameters
    ----------
    stream
        The output; standard output by default.

    Returns
    -------
    bool
        True for colours.

    Examples
    --------
    >>> import os
    >>> os.environ["NO_COLOR"] = "1"
    >>> wants_color()
    False
    >>> del os.environ["NO_COLOR"]
    """
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM") != "dumb" and os.environ.get("CLICOLOR") != "0"


def shade(text: str, share: float) -> str:
    """Colour the background of text from white (share 0) to dark blue (share 1), its digits black or white."""
    level = round(min(max(0.0, share), 1.0) * (len(_RAMP) - 1))
    ink = 231 if level >= _FIRST_DARK else 16
    return f"\x1b[38;5;{ink};48;5;{_RAMP[level]}m{text}\x1b[0m"


def display_width(text: str) -> int:
    """Count the terminal columns of a line: wide characters take two, combining ones and colours none.

    Widths are those of `wcwidth` where it is installed. Without it, categories and East Asian widths decide.

    Unicode Standard Annex 11, "East Asian Width".
    """
    text = _ESCAPE.sub("", text)
    return len(text) if text.isascii() else sum(map(_columns, _clusters(text)))


def _clusters(text: str) -> Iterator[str]:
    """Yield grapheme clusters: a character with its marks, an emoji sequence, a Hangul syllable."""
    if text.isascii():
        return iter(text)
    library = _wcwidth()
    whole = library.iter_graphemes(text) if library is not None else _own_clusters(text)
    size = _LONGEST_CLUSTER
    return (cluster[k : k + size] for cluster in whole for k in range(0, len(cluster), size))


def _own_clusters(text: str) -> Iterator[str]:
    for match in _CLUSTER.finditer(classes(text)):
        yield text[match.start() : match.end()]


def _columns(cluster: str) -> int:
    if cluster.isascii():
        return len(cluster)
    library = _wcwidth()
    width = -1 if library is None else library.wcswidth(cluster)  # it is -1 for control characters
    return width if width >= 0 else _own_columns(cluster)


@functools.cache
def _wcwidth() -> Any:
    """Return the wcwidth library if it is installed."""
    try:
        import wcwidth
    except ImportError:
        return None
    return wcwidth


def _own_columns(cluster: str) -> int:
    """Measure a cluster without wcwidth: an emoji by its type, other clusters by their characters."""
    letters = classes(cluster)
    if letters.startswith("r") or (len(letters) > 1 and letters[0] in "opdr" and letters[1] == "v"):
        return 2
    if letters.startswith("o"):
        cluster = cluster[0]
    return sum(map(_own_width, cluster))


def _own_width(character: str) -> int:
    letter = classes(character)
    if letter == "b" or character == "\u00ad":
        return 1
    if letter == "y" or unicodedata.category(character) in _NO_WIDTH:
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def note(text: str) -> None:
    """Print a message on standard error, cleaned by `report`."""
    print(report(text), file=sys.stderr, flush=True)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Truncate or pad text to a display width; truncated text ends in an ellipsis."""
    text = _begun(text, width)
    if (used := display_width(text)) > width:
        text, used = _beginning(text, width - 1)
        text, used = f"{text}…", used + 1
    padding = " " * (width - used)
    return padding + text if right else text + padding


def cut(text: str, width: int) -> str:
    """Truncate text to a display width, without padding."""
    return fit(text, min(display_width(text), width) or 1)


def _begun(text: str, width: int) -> str:
    """Remove what could not be drawn in so many columns even if each had the most characters."""
    most = _LONGEST_CLUSTER * width
    return text if len(text) <= most else f"{text[:most]}…"


def _beginning(text: str, width: int) -> tuple[str, int]:
    """Return the longest prefix of complete clusters that is not wider, and its width."""
    parts = []
    used = 0
    for cluster in _clusters(text):
        if used + _columns(cluster) > width:
            break
        used += _columns(cluster)
        parts.append(cluster)
    return "".join(parts), used


def wrap(text: str, width: int, most: int) -> list[str]:
    """Wrap text between words into lines of at most a display width; truncated text ends in an ellipsis."""
    lines, used = [""], 0
    for piece, gap, size in _pieces(_begun(text, width * most), width):
        gap = gap if lines[-1] else ""
        if used + len(gap) + size <= width:
            lines[-1], used = lines[-1] + gap + piece, used + len(gap) + size
        elif len(lines) < most:
            lines.append(piece)
            used = size
        else:
            return [*lines[:-1], fit(f"{lines[-1]} …", min(width, used + 2))]
    return lines


def _pieces(text: str, width: int) -> Iterator[tuple[str, str, int]]:
    """Yield the words, long ones broken, each with the gap before it and its width."""
    for word in text.split():
        piece: list[str] = []
        gap, used = " ", 0
        for cluster in _clusters(word):
            size = _columns(cluster)
            if piece and used + size > width:
                yield "".join(piece), gap, used
                piece, gap, used = [], "", 0
            piece.append(cluster)
            used += size
        yield "".join(piece), gap, used


def pad_lines(lines: Sequence[str]) -> list[str]:
    """Pad lines with blanks to the display width of the longest."""
    width = max((display_width(line) for line in lines), default=0)
    return [line + " " * (width - display_width(line)) for line in lines]


def align(rows: Sequence[Sequence[str]], shares: Mapping[tuple[int, int], float] | None = None) -> str:
    """Align cells in columns to the right, two blanks apart."""
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for i, row in enumerate(rows):
        # A shaded cell is one blank wider on both sides than its text, so that neighbours touch.
        cells = [fit(cell, width + 1, right=True) + " " for cell, width in zip(row, widths, strict=True)]
        inked = [shade(c, shares[i, j]) if shares and (i, j) in shares else c for j, c in enumerate(cells)]
        lines.append("".join(inked))
    return "\n".join(line[1:-1] if not shares else line for line in lines)


_GAP = 3  # blank columns between two blocks


def side_by_side(blocks: Sequence[str], *, width: int) -> str:
    """Lay out blocks of lines side by side, as many in a row as the screen has room for."""
    rows: list[list[list[str]]] = [[]]
    used = 0
    for block in blocks:
        lines = pad_lines(block.split("\n"))
        if rows[-1] and used + _GAP + display_width(lines[0]) > width:
            rows.append([])
        used = display_width(lines[0]) + (used + _GAP if rows[-1] else 0)
        rows[-1].append(lines)
    return "\n\n".join(_join(row) for row in rows)


def _join(blocks: list[list[str]]) -> str:
    height = max(map(len, blocks), default=0)
    full = [block + [" " * display_width(block[0])] * (height - len(block)) for block in blocks]
    return "\n".join((" " * _GAP).join(parts).rstrip() for parts in zip(*full, strict=True))
