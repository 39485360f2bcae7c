"""What every picture needs: Matplotlib without its global state, fonts with all letters, whole files."""

from __future__ import annotations

import errno
import functools
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from regard import _check, _files
from regard.show.terminal.text import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure

__all__ = [
    "check_picture",
    "check_writable",
    "drawable",
    "first_line",
    "house_style",
    "ink",
    "new_figure",
    "picture_kind",
    "require_matplotlib",
    "save_figure",
    "show_in_notebooks",
    "warned",
    "whole_figure",
]

DOTS_PER_INCH = 150
_SETTINGS = {"savefig.dpi": DOTS_PER_INCH, "savefig.bbox": "tight", "savefig.pad_inches": 0.15}
_OLDEST = (3, 8)
_HOW = 'pictures need Matplotlib: pip install "regard[cli]"'
_BOXES = "no installed font has some of the letters, so boxes stand for them: Noto's fonts have nearly all there are"


def require_matplotlib() -> ModuleType:
    """Import Matplotlib, or raise an error that says how to get it.

    Returns
    -------
    module
        Matplotlib.

    Raises
    ------
    ImportError
        If it is not installed, too old, or can't be loaded.

    Examples
    --------
    >>> require_matplotlib().__name__
    'matplotlib'
    """
    try:
        matplotlib = _matplotlib()
        version = tuple(map(int, matplotlib.__version__.split(".")[:2]))
        import matplotlib.backends.backend_agg
        import matplotlib.figure
        import matplotlib.font_manager
    except Exception as error:  # a broken one raises anything
        if isinstance(error, ModuleNotFoundError) and error.name == "matplotlib":
            raise ImportError(_HOW) from None
        raise ImportError(f"Matplotlib can't be loaded: {first_line(error)}") from error
    if version < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise ImportError(f"{_HOW}; {needed} or later is needed, {matplotlib.__version__} is installed")
    return matplotlib


def _matplotlib() -> ModuleType:
    """Import Matplotlib whatever MPLBACKEND says.

    Jupyter sets it for all its child processes, and the import fails where that back end is not installed. Pictures
    here have a canvas of their own, so they need none.
    """
    if "matplotlib" in sys.modules or "MPLBACKEND" not in os.environ:
        import matplotlib

        return matplotlib
    backend = os.environ.pop("MPLBACKEND")
    try:
        import matplotlib
    finally:
        os.environ["MPLBACKEND"] = backend
    if backend:
        with suppress(ValueError):
            matplotlib.rcParams["backend"] = backend  # for the user's own pictures
    return matplotlib


@contextmanager
def house_style() -> Iterator[None]:
    """Draw with fixed settings, whatever the user's style sheets and matplotlibrc files say.

    Returns
    -------
    context manager
        A decorator, too.

    Raises
    ------
    ImportError
        If Matplotlib is not there.

    Examples
    --------
    >>> import matplotlib
    >>> with house_style():
    ...     matplotlib.rcParams["savefig.dpi"]
    150.0
    """
    matplotlib = require_matplotlib()
    # The back end belongs to the process; all else is put back.
    looks = {
        name: value
        for name, value in dict.items(matplotlib.rcParamsDefault)
        if not name.startswith("backend")
    }
    with matplotlib.rc_context():
        dict.update(matplotlib.rcParams, looks)  # their validation would warn about what has been deprecated
        matplotlib.rcParams.update(_SETTINGS)
        yield


@functools.cache
def _picture() -> type[Figure]:
    """Return the class of our figures, made when it is needed: a module must load without Matplotlib."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that looks the same under every style, and that notebooks display."""

        @house_style()
        def draw(self, renderer: RendererBase) -> None:
            super().draw(renderer)

        @house_style()
        def savefig(self, fname: str | os.PathLike[str] | IO[bytes], **options: Any) -> None:
            super().savefig(fname, **options)

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=self.dpi)
            return file.getvalue()

        def __reduce__(self) -> tuple[Any, ...]:  # a class made in a function can't be found by its name
            return _empty_picture, (), self.__getstate__()

    return Picture


def _empty_picture() -> Figure:
    kind = _picture()
    return kind.__new__(kind)


def new_figure(width: float, height: float) -> Figure:
    """Return a figure with its own canvas: no window, no back end chosen for the whole process.

    Parameters
    ----------
    width, height
        In inches; a file has 150 dots for each.

    Returns
    -------
    Figure
        Empty, with Matplotlib's constrained layout. It is drawn and saved with the settings of `house_style`, and a
        notebook displays it.

    Examples
    --------
    >>> new_figure(6.0, 3.0).get_size_inches().tolist()
    [6.0, 3.0]
    """
    with house_style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = _picture()((width, height), layout="constrained")
        FigureCanvasAgg(figure)
    return figure


def show_in_notebooks(ax: Axes) -> Axes:
    """Have notebooks display the whole figure where axes are the value of a cell.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        In a figure that `new_figure` has made.

    Returns
    -------
    Axes
        The same.

    Examples
    --------
    >>> show_in_notebooks(new_figure(1.0, 1.0).add_subplot())._repr_png_()[1:4]
    b'PNG'
    """
    ax._repr_png_ = whole_figure(ax)._repr_png_  # type: ignore[attr-defined]
    return ax


def ink(ax: Axes) -> str:
    """Return the colour in which words can be read on the figure that axes belong to.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        In any figure.

    Returns
    -------
    str
        "black", or "white" where the figure is dark.

    Examples
    --------
    >>> figure = new_figure(1.0, 1.0)
    >>> before = ink(figure.add_subplot())
    >>> figure.set_facecolor("#222222")
    >>> before, ink(figure.axes[0])
    ('black', 'white')
    """
    from matplotlib.colors import to_rgba

    red, green, blue, alpha = to_rgba(whole_figure(ax).get_facecolor())
    return "black" if alpha < 0.5 or 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


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
        figure.savefig(file, format=kind)


def check_picture(path: str | os.PathLike[str]) -> None:
    """Check before the work whether a picture can be drawn into a file after it.

    Parameters
    ----------
    path
        The file, there or not.

    Raises
    ------
    ImportError
        If Matplotlib can't be used.
    ValueError
        If the ending is unknown, or something else than a file is there.
    OSError
        If there is no such folder, or it can't be written in.

    Examples
    --------
    >>> check_picture("picture.doc")
    Traceback (most recent call last):
    ValueError: a picture's name must end in .png, .svg or .pdf: picture.doc
    """
    require_matplotlib()
    picture_kind(path)
    folder = _check.replaceable(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """Check that files can be made in a folder.

    Parameters
    ----------
    folder
        One that is there.

    Raises
    ------
    PermissionError
        If they can't.

    Examples
    --------
    >>> check_writable(Path("."))
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "no file can be written in this folder", os.fspath(folder))


@contextmanager
def warned(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn any error in the ``with`` block into one warning: a picture never costs a result.

    Parameters
    ----------
    path
        The picture that is drawn there.

    Returns
    -------
    context manager
        One that ends without an exception.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as seen, warned("a.png"):
    ...     raise ValueError("no such colour")
    >>> str(seen[0].message)
    'a.png could not be drawn: no such colour'
    """
    try:
        yield
    except Exception as error:
        # What is wrong with the place or with Matplotlib is wrong for every picture, and reads alike for all of them.
        told = isinstance(error, OSError | ImportError)
        subject = "pictures can't be drawn" if told else f"{Path(path).name} could not be drawn"
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # where warnings are errors, this one would cost the result
            warnings.warn(f"{subject}: {first_line(error)}", stacklevel=3)


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line.

    Parameters
    ----------
    error
        Any.

    Returns
    -------
    str
        Its text as far as the first line's end, or its type where it has none; of the system's, the reason alone.

    Examples
    --------
    >>> first_line(OSError(28, "No space left on device", "a.png")), first_line(KeyError())
    ('No space left on device', 'KeyError')
    """
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return clean((text.splitlines() or [type(error).__name__])[0])


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
