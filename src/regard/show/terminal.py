"""What a terminal needs: display widths, padding, and colours where they are wanted."""

import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

__all__ = ["display_width", "wants_color", "shade", "clean", "fit", "wrap", "pad_lines", "align", "beside"]

# White to dark blue among the 256 fixed terminal colours: the same picture on dark and on light terminals.
_RAMP = (231, 189, 153, 117, 75, 33, 32, 26, 25, 18)
_FIRST_DARK = 5  # from this shade on, white digits read better than black ones
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def wants_color(stream: TextIO | None = None) -> bool:
    """Say whether text for a stream should be coloured: NO_COLOR, then FORCE_COLOR, then whether it is a terminal.

    Parameters
    ----------
    stream
        Where the text goes; standard output by default.

    Returns
    -------
    bool
        True where colour is wanted.

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
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def shade(text: str, share: float) -> str:
    """Give text a background from white (share 0) to dark blue (share 1), and digits that read on it.

    Parameters
    ----------
    text
        Any text.
    share
        Between 0 and 1; what lies outside is drawn as the nearer end.

    Returns
    -------
    str
        The text between two terminal escapes.

    Examples
    --------
    >>> shade("7", 0.0)
    '\\x1b[38;5;16;48;5;231m7\\x1b[0m'
    """
    level = round(min(max(share, 0.0), 1.0) * (len(_RAMP) - 1))
    ink = 231 if level >= _FIRST_DARK else 16
    return f"\x1b[38;5;{ink};48;5;{_RAMP[level]}m{text}\x1b[0m"


def display_width(text: str) -> int:
    """Count the terminal columns of a line: wide characters take two, combining ones and colours none.

    Parameters
    ----------
    text
        One line.

    Returns
    -------
    int
        Its width in columns.

    Examples
    --------
    >>> display_width("été"), display_width("注意"), display_width("e\\u0301"), display_width(shade("ok", 1.0))
    (3, 4, 1, 2)
    """
    return sum(_columns(character) for character in _ESCAPE.sub("", text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def clean(text: str) -> str:
    """Replace what a terminal would obey instead of show (escapes, newlines, direction marks) by a dot.

    Parameters
    ----------
    text
        Any text, a stranger's too.

    Returns
    -------
    str
        One line of printable text.

    Examples
    --------
    >>> clean("a\\x1b[2Jb\\n")
    'a·[2Jb·'
    """
    return "".join("·" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Cut or pad text to a display width; what is cut ends in an ellipsis.

    Parameters
    ----------
    text
        One line without colours.
    width
        Columns to fill, at least 1.
    right
        Whether the text stands at the right end.

    Returns
    -------
    str
        Text of exactly this display width.

    Examples
    --------
    >>> fit("attention", 6), fit("be", 4, right=True)
    ('atten…', '  be')
    """
    if display_width(text) > width:
        while display_width(text) > width - 1:
            text = text[:-1]
        text += "…"
    padding = " " * (width - display_width(text))
    return padding + text if right else text + padding


def wrap(text: str, width: int, most: int) -> list[str]:
    """Break text between words into lines of at most a display width; what is too much ends in an ellipsis.

    Parameters
    ----------
    text
        One line without colours. A word that no line holds is broken, too.
    width
        Columns of a line, at least 2.
    most
        How many lines there may be.

    Returns
    -------
    list of str
        At least one.

    Examples
    --------
    >>> wrap("where the model looked", 9, 2), wrap("注意力", 4, 3)
    (['where the', 'model …'], ['注意', '力'])
    """
    lines = [""]
    for piece, gap in _pieces(text, width):
        longer = lines[-1] + gap + piece if lines[-1] else piece
        if display_width(longer) <= width:
            lines[-1] = longer
        elif len(lines) < most:
            lines.append(piece)
        else:
            return [*lines[:-1], fit(f"{lines[-1]} …", min(width, display_width(lines[-1]) + 2))]
    return lines


def _pieces(text: str, width: int) -> Iterator[tuple[str, str]]:
    """Words, of which the long ones are broken, and what stands before each."""
    for word in text.split():
        piece, gap = "", " "
        for character in word:
            if display_width(piece + character) > width:
                yield piece, gap
                piece, gap = "", ""
            piece += character
        yield piece, gap


def pad_lines(lines: Sequence[str]) -> list[str]:
    """Pad lines with blanks to the display width of the longest.

    Parameters
    ----------
    lines
        Any lines, coloured or not.

    Returns
    -------
    list of str
        The lines, all of one display width.

    Examples
    --------
    >>> pad_lines(["a", "注意"])
    ['a   ', '注意']
    """
    width = max((display_width(line) for line in lines), default=0)
    return [line + " " * (width - display_width(line)) for line in lines]


def align(rows: Sequence[Sequence[str]], shares: Mapping[tuple[int, int], float] | None = None) -> str:
    """Set cells in columns, each as wide as its widest cell, at their right ends, two blanks apart.

    Parameters
    ----------
    rows
        Rows of equally many cells.
    shares
        For the place (row, column) of a cell, how dark it is shaded, from 0 to 1.

    Returns
    -------
    str
        Lines of equal display width.

    Examples
    --------
    >>> print(align([["", "k1"], ["q1", "0.25"]]))
          k1
    q1  0.25
    """
    widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for i, row in enumerate(rows):
        # A shaded cell is one blank wider on both sides than its text, so that neighbours touch.
        cells = [fit(cell, width + 1, right=True) + " " for cell, width in zip(row, widths, strict=True)]
        inked = [shade(c, shares[i, j]) if shares and (i, j) in shares else c for j, c in enumerate(cells)]
        lines.append("".join(inked))
    return "\n".join(line[1:-1] if not shares else line for line in lines)


_GAP = 3  # blank columns between two blocks


def beside(blocks: Sequence[str], *, width: int) -> str:
    """Set blocks of lines side by side, and below each other where the screen ends.

    Parameters
    ----------
    blocks
        Texts of one or more lines.
    width
        The columns of the screen.

    Returns
    -------
    str
        The blocks as one text, a blank line between two rows of blocks.

    Examples
    --------
    >>> print(beside(["a\\nb", "c\\nd"], width=9))
    a   c
    b   d
    """
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
