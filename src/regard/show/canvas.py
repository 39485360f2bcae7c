"""What every picture needs: Matplotlib without its global state, fonts with all letters, whole files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from regard import _check, _files
from regard.show.terminal import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["drawable", "new_figure", "picture_kind", "require_matplotlib", "save_figure", "whole_figure"]

DOTS_PER_INCH = 150
_BOXES = "no installed font has some of the letters, so boxes stand for them: Noto's fonts have nearly all there are"


def require_matplotlib() -> None:
    """Say how to get Matplotlib if it is not there.

    Raises
    ------
    ImportError
        If it is not.

    Examples
    --------
    >>> require_matplotlib()
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError('pictures need Matplotlib: pip install "regard[cli]"') from None


def new_figure(width: float, height: float) -> Figure:
    """Return a figure with its own canvas: no window, no back end chosen for the whole process.

    Parameters
    ----------
    width, height
        In inches; a file has 150 dots for each.

    Returns
    -------
    Figure
        Empty, with Matplotlib's constrained layout.

    Examples
    --------
    >>> new_figure(6.0, 3.0).get_size_inches().tolist()
    [6.0, 3.0]
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def whole_figure(ax: Axes) -> Figure:
    """Return the figure that axes belong to, theirs alone or one with parts.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        In a figure, or in a part of one.

    Returns
    -------
    Figure
        The whole one; Matplotlib's own word for it, ``get_figure(root=True)``, is younger than what is promised here.

    Examples
    --------
    >>> figure = new_figure(6.0, 3.0)
    >>> whole_figure(figure.subfigures(1, 2)[0].add_subplot()) is figure
    True
    """
    from matplotlib.figure import Figure

    figure = ax.figure
    return figure if isinstance(figure, Figure) else figure.figure


def save_figure(path: str | os.PathLike[str], draw: Callable[[], Figure]) -> None:
    """Draw into a file, which is there whole or not at all.

    Parameters
    ----------
    path
        Where to; the ending says what it is: .png, .svg, .pdf. Of a link, what it points to is replaced.
    draw
        Called if the ending is known.

    Raises
    ------
    ValueError
        If it is not.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> save_figure("picture.doc", lambda: new_figure(1, 1))
    Traceback (most recent call last):
    ValueError: a picture's name must end in .png, .svg or .pdf: picture.doc
    """
    kind = picture_kind(path)
    _check.replaceable(path)  # said before the work
    figure = draw()
    with _files.replacing(path) as file:
        figure.savefig(
            file, format=kind, dpi=DOTS_PER_INCH, bbox_inches="tight", pad_inches=0.15, facecolor="white"
        )


def picture_kind(path: str | os.PathLike[str]) -> str:
    """Return what a picture's name says that it is.

    Parameters
    ----------
    path
        The file, there or not.

    Returns
    -------
    str
        "png", "svg" or "pdf".

    Raises
    ------
    ValueError
        If the ending is another one.

    Examples
    --------
    >>> picture_kind("loss.PNG")
    'png'
    """
    kind = Path(path).suffix.removeprefix(".").lower()
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"a picture's name must end in .png, .svg or .pdf: {path}")
    return kind


def drawable(names: list[list[str]]) -> tuple[list[list[str]], list[str]]:
    """Find fonts that have every letter of some words; a letter that no font has becomes a box, with a warning.

    Parameters
    ----------
    names
        Lists of words.

    Returns
    -------
    names
        The same, with boxes where needed.
    fonts
        Names of font families, the usual one first.

    Examples
    --------
    >>> drawable([["chat", "été"]])
    ([['chat', 'été']], ['DejaVu Sans'])
    """
    from matplotlib import font_manager

    names = [list(map(clean, side)) for side in names]
    fonts = ["DejaVu Sans"]
    missing = set("".join("".join(side) for side in names)) - _letters(font_manager.findfont(fonts[0]))
    for entry in font_manager.fontManager.ttflist if missing else ():
        found = missing & _letters(entry.fname)
        # The font of last resort has a box for every letter there is.
        if found and entry.name not in fonts and "lastresort" not in entry.fname.lower():
            fonts.append(entry.name)
            missing -= found
        if not missing:
            break
    if missing:
        warnings.warn(_BOXES, stacklevel=2)
    boxes = str.maketrans(dict.fromkeys(missing, "\N{WHITE SQUARE}"))
    return [[name.translate(boxes) for name in side] for side in names], fonts


def _letters(path: str) -> set[str]:
    from matplotlib import font_manager

    try:
        return set(map(chr, font_manager.get_font(path).get_charmap()))
    except (OSError, RuntimeError):
        return set()
