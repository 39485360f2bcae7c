"""Matplotlib without its global state: figures with fixed settings, fonts that have all letters, atomic files."""

from __future__ import annotations

import errno
import functools
import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from regard import _check, _files
from regard.show.steps import TEXTS, localized
from regard.show.terminal.text import clean, wrap

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure
    from matplotlib.text import Text

__all__ = ["PICTURES", "check_picture", "check_writable", "require_matplotlib", "save", "warned"]

PICTURES = (".png", ".svg", ".pdf")  # endings of files that have a picture
DOTS_PER_INCH = 150
LETTER = 0.6  # of its height, the width of a letter
_MOST_LINES = 3
_SETTINGS = {
    "savefig.dpi": DOTS_PER_INCH,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.15,
    "svg.fonttype": "none",  # text stays text, which can be searched and edited, and not paths of its letters
}
_OLDEST = (3, 8)
_INSTALL = 'pictures need Matplotlib: pip install "regard[cli]"'
_BOXES = "no installed font has some of the letters, so they are drawn as boxes: Noto fonts have nearly all letters"


def require_matplotlib() -> ModuleType:
    """Import Matplotlib, or raise an error with the command that installs it."""
    try:
        matplotlib = _matplotlib()
        version = tuple(map(int, matplotlib.__version__.split(".")[:2]))
        import matplotlib.backends.backend_agg
        import matplotlib.figure
        import matplotlib.font_manager
    except Exception as error:  # a broken one raises anything
        if isinstance(error, ModuleNotFoundError) and error.name == "matplotlib":
            raise ImportError(_INSTALL) from None
        raise ImportError(f"Matplotlib can't be loaded: {first_line(error)}") from error
    if version < _OLDEST:
        needed = ".".join(map(str, _OLDEST))
        raise ImportError(f"{_INSTALL}; {needed} or later is needed, {matplotlib.__version__} is installed")
    return matplotlib


def _matplotlib() -> ModuleType:
    """Import Matplotlib whatever the value of MPLBACKEND.

    Jupyter sets it for all its child processes, and the import fails where that back end is not installed. Figures
    here have a canvas of their own and need no back end.
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
    """Draw with Matplotlib's defaults, whatever the user's style sheets and matplotlibrc files contain."""
    require_matplotlib()
    import matplotlib.style

    with matplotlib.style.context(["default", _SETTINGS]):
        yield


@functools.cache
def _picture() -> type[Figure]:
    """Return the class of the figures, defined on first use: the module must load without Matplotlib."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure with the same appearance under every style, which notebooks display."""

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
    figure_class = _picture()
    return figure_class.__new__(figure_class)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, with its own canvas: no window, no back end of the process."""
    with house_style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = _picture()((width, height), layout="constrained")
        FigureCanvasAgg(figure)
    return figure


def show_in_notebooks(ax: Axes) -> Axes:
    """Make notebooks display the figure where its axes are the value of a cell."""
    ax._repr_png_ = root_figure(ax)._repr_png_  # type: ignore[attr-defined]
    return ax


def ink(artist: Artist) -> str:
    """Return "white" where the figure is dark, else "black"."""
    from matplotlib.colors import to_rgba

    red, green, blue, alpha = to_rgba(root_figure(artist).get_facecolor())
    return "black" if alpha < 0.5 or 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "white"


def root_figure(artist: Artist) -> Figure:
    """Return the outermost figure; `get_figure(root=True)` needs a later Matplotlib than the oldest allowed."""
    from matplotlib.figure import Figure

    figure = artist.figure
    return figure if isinstance(figure, Figure) else figure.figure


def write_literally(artist: Axes | Text, fonts: list[str]) -> None:
    """Write titles and labels literally, not as formulas, in black or white (`ink`); texts of the user stay."""
    from matplotlib.text import Text

    style = {"fontfamily": fonts, "parse_math": False, "usetex": False, "color": ink(artist)}
    for text in set(artist.findobj(Text)).difference(getattr(artist, "texts", ())):
        text.set(**style)


def localize(figure: Axes | Figure, texts: Mapping[str, Any]) -> None:
    """Write the axes of a figure in the language of the texts: their names, and the numbers of their ticks."""
    for ax in root_figure(figure).axes:
        _localize_axis(ax.xaxis, texts)
        _localize_axis(ax.yaxis, texts)
        if note := ax.get_title(loc="right"):
            ax.set_title(localized(_renamed(note, texts), texts), loc="right", fontsize=8.5)


def _localize_axis(axis: Axis, texts: Mapping[str, Any]) -> None:
    from matplotlib.ticker import FixedFormatter

    axis.set_label_text(_renamed(axis.get_label_text(), texts))
    formatter = axis.get_major_formatter()
    if not isinstance(formatter, FixedFormatter):  # names
        written = formatter.format_ticks
        formatter.format_ticks = lambda values: [  # type: ignore[method-assign]
            localized(text, texts) for text in written(values)
        ]


def _renamed(label: str, texts: Mapping[str, Any]) -> str:
    """Return a label of a figure in the language of the texts, where its parts begin like English ones."""
    return "; ".join(_renamed_part(part, texts) for part in label.split("; "))


def _renamed_part(label: str, texts: Mapping[str, Any]) -> str:
    for english, other in zip(TEXTS["figures"].values(), texts["figures"].values(), strict=True):
        if label.startswith(english):
            return str(other) + label.removeprefix(english)
    return label


def save(path: str | os.PathLike[str], figure: Axes | Figure) -> None:
    """Save a figure, or the figure of axes, in a file that is complete or not written.

    Parameters
    ----------
    path
        The file; its ending chooses the format: .png, .svg, .pdf. The target of a link is replaced.
    figure
        The result of a function of `regard.show.figures`.

    Raises
    ------
    ValueError
        If the ending is unknown.
    OSError
        If the file can't be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from regard.show.figures import heatmap
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/weights.png", heatmap([[0.9, 0.1]]))
    ...     [path.name for path in Path(folder).iterdir()]
    ['weights.png']
    """
    file_format = picture_format(path)
    _check.replaceable(path)
    with _files.replacing(path) as file:
        root_figure(figure).savefig(file, format=file_format)


def check_picture(path: str | os.PathLike[str]) -> None:
    """Check that a figure can be saved in a file later.

    `path`: the file, which may not exist yet.
    """
    require_matplotlib()
    picture_format(path)
    folder = _check.replaceable(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """Check that a folder is writable.

    `folder`: an existing folder.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "no file can be written in this folder", os.fspath(folder))


@contextmanager
def warned(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn any error in the ``with`` block into one warning, so that a failed figure does not lose a result.

    `path`: the figure that the block draws.
    """
    try:
        yield
    except Exception as error:
        # An error of the folder or of Matplotlib concerns every figure, so its text must be the same for all.
        general = isinstance(error, OSError | ImportError)
        subject = "pictures can't be drawn" if general else f"{Path(path).name} could not be drawn"
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # as an error, the warning would lose the result
            warnings.warn(f"{subject}: {first_line(error)}", stacklevel=3)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type where it has none; of a system error, the reason alone."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return clean((text.splitlines() or [type(error).__name__])[0])


def picture_format(path: str | os.PathLike[str]) -> str:
    """Return the format of a file by the ending of its name: "png", "svg" or "pdf"."""
    ending = Path(path).suffix.lower()
    if ending not in PICTURES:
        _check.fail(f"a picture's name must end in .png, .svg or .pdf: {path}")
    return ending.removeprefix(".")


def wrapped(text: str, width: float, points: float, least: int = 2) -> str:
    """Return text of this font size in at most three lines of about this width in inches, or of `least` letters."""
    return "\n".join(wrap(text, max(least, int(72 * width / (LETTER * points))), _MOST_LINES))


def drawable(names: list[list[str]]) -> tuple[list[list[str]], list[str]]:
    """Return printable texts and the font families that have their letters; a letter of no font becomes a box."""
    from matplotlib import font_manager

    names = [list(map(clean, side)) for side in names]
    fonts = ["DejaVu Sans"]
    missing = set("".join("".join(side) for side in names)) - _letters(font_manager.findfont(fonts[0]))
    for entry in font_manager.fontManager.ttflist if missing else ():
        covered = missing & _letters(entry.fname)
        # The font of last resort has a box for every letter.
        if covered and entry.name not in fonts and "lastresort" not in entry.fname.lower():
            fonts.append(entry.name)
            missing -= covered
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
