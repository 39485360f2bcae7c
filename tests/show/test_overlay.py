"""A picture with the attention at each token of its caption: as panels of a figure, and as text."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from regard.show import terminal
from regard.show.figures import captioned, save
from regard.show.terminal.text import display_width, shade

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (30, 40), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (30, 40, 3), dtype=np.uint8)


@pytest.fixture
def _no_pyplot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # an import of it would fail


def panels(picture: Any, weights: Any, **options: Any) -> list[np.ndarray]:
    """The images of the panels of a caption, as integers."""
    figure = captioned(picture, weights, [str(i) for i in range(len(weights))], **options)
    return [np.asarray(ax.images[0].get_array()).astype(int) for ax in figure.axes]


def cell_of(position: tuple[int, ...], image: np.ndarray, grid: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i * cells // size for i, size, cells in zip(position, image.shape, grid, strict=False))


def cover(image: np.ndarray) -> np.ndarray:
    """How much of each grey pixel is covered: grey has as much red as blue, the colour has red alone."""
    return image[..., 0] - image[..., 2]


def most_covered(image: np.ndarray) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(cover(image).argmax(), image.shape[:2])))


figures = pytest.mark.usefixtures("_no_pyplot")


# positions


@figures
@pytest.mark.parametrize("count", [0, 1, 7, pytest.param(40, marks=pytest.mark.slow)])
def test_there_is_a_panel_for_the_picture_and_one_for_each_token(count: int) -> None:
    tokens = [f"word{i}" for i in range(count)]
    figure = captioned(COLOUR, np.full((count, 3, 4), 1 / 12), tokens, title="caption")
    assert [ax.get_title() for ax in figure.axes] == ["", *tokens]
    assert [len(ax.images) for ax in figure.axes] == [1] * (count + 1)
    assert figure.get_suptitle() == "caption"


@figures
@pytest.mark.parametrize("level", [128, *(pytest.param(level, marks=pytest.mark.slow) for level in (0, 255))])
def test_the_most_covered_pixel_of_a_one_hot_weight_lies_in_its_cell(level: int) -> None:
    picture = np.full((30, 40), level, np.uint8)
    _, *drawn = panels(picture, np.eye(12), grid=(3, 4))
    cells = [cell_of(most_covered(image), image, (3, 4)) for image in drawn]
    assert cells == list(np.ndindex(3, 4))


GRIDS = st.tuples(st.integers(1, 6), st.integers(1, 6))


@pytest.mark.slow
@figures
@settings(max_examples=25)
@given(GRIDS.flatmap(lambda grid: arrays.arrays(np.float64, (1, *grid), elements=st.floats(0, 1))))
def test_smoothing_does_not_move_the_largest_weight_and_adds_none(weights: np.ndarray) -> None:
    _, image = panels(np.zeros((48, 48)), weights)
    grid, top = weights.shape[1:], weights.max()
    row, column = cell_of(most_covered(image), image, grid)
    near = weights[0, max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
    assert near.max() >= 0.98 * top
    _, whole = panels(np.zeros((48, 48)), np.ones((1, *grid)))
    assert cover(image).max() <= cover(whole).max()
    if weights.min() == top:
        assert cover(image).min() == cover(image).max()


@figures
def test_panels_of_mirrored_weights_are_mirrored() -> None:
    picture, weights = np.full((48, 48), 99, np.uint8), RNG.random((1, 4, 6))
    straight = panels(picture, weights)[1]
    for axis in (1, 2):
        mirrored = np.flip(panels(picture, np.flip(weights, axis))[1], axis - 1)
        assert abs(mirrored - straight).max() <= 1  # rounding


@figures
def test_each_panel_has_its_own_scale() -> None:
    weights = RNG.random((1, 3, 4))
    _, large, small = panels(COLOUR, np.concatenate([weights, weights * 0.01]))
    assert abs(large - small).max() <= 1


@figures
def test_weights_of_zero_leave_the_picture_and_tiny_ones_no_warning() -> None:
    alone, nothing, tiny = panels(GREY, [np.zeros((2, 2)), np.array([[5e-324, 0], [1e-310, 0]])])
    assert (nothing == alone).all()
    assert (tiny != alone).any()


@pytest.mark.slow
@figures
def test_a_token_is_a_list_of_weights_with_a_grid() -> None:
    weights = RNG.random((2, 3, 4))
    expected = panels(GREY, weights)
    for same in (weights, weights.reshape(2, 12), np.ma.masked_array(weights), weights.astype(">f8")):
        assert all(map(np.array_equal, panels(GREY, same, grid=(3, 4)), expected))
    hidden = np.ma.masked_array(weights, weights < 0.5)
    assert all(map(np.array_equal, panels(GREY, hidden), panels(GREY, np.where(weights < 0.5, 0, weights))))


# the picture


@figures
@pytest.mark.parametrize(
    "picture",
    [
        GREY,
        GREY[..., None],
        np.repeat(GREY[..., None], 3, axis=2),
        np.dstack([GREY, GREY, GREY, np.full_like(GREY, 255)]),
        GREY / 255,
        (GREY / 255).astype(np.float32),
        (GREY / 255)[::-1][::-1],
        (GREY / 255).tolist(),
    ],
    ids=["grey", "one channel", "colour", "opaque", "float", "float32", "strides", "list"],
)
def test_the_first_panel_is_the_picture(picture: Any) -> None:
    alone = panels(picture, np.zeros((0, 1, 1)))[0]
    factors = alone.shape[0] // 30, alone.shape[1] // 40
    repeated = GREY.repeat(factors[0], axis=0).repeat(factors[1], axis=1)
    assert np.array_equal(alone, np.repeat(repeated[..., None], 3, axis=2))


@figures
def test_transparent_pixels_are_white() -> None:
    picture = np.zeros((2, 2, 4))
    picture[0, :, 3] = 1
    alone = panels(picture, np.zeros((0, 1, 1)))[0]
    half = len(alone) // 2
    assert (alone[:half] == 0).all()
    assert (alone[half:] == 255).all()


@pytest.mark.slow
@figures
@pytest.mark.parametrize("shape", [(2003, 1501), (1, 3001), (3001, 2)])
def test_a_large_picture_is_reduced_by_averaging(shape: tuple[int, int]) -> None:
    picture = np.indices(shape).sum(axis=0) / sum(shape)
    alone, panel = panels(picture, np.full((1, 1, 1), 1.0))
    assert max(alone.shape) < 600
    assert abs(alone.mean() / 255 - picture.mean()) < 0.01
    assert panel.shape == alone.shape


# the page


def boxes(figure: Any) -> list[Any]:
    figure.draw_without_rendering()
    axes = [ax.get_window_extent() for ax in figure.axes]
    words = [text.get_window_extent() for text in [ax.title for ax in figure.axes] if text.get_text()]
    heading = [figure._suptitle.get_window_extent()] if figure.get_suptitle() else []
    return [*axes, *words, *heading]


CAPTIONS = {
    "one": ["three"],
    "forty": [f"word{i}" for i in range(40)],
    "long": ["internationalisation", "x" * 90, "W" * 20, "a", "e\u0301" * 30, "\ufdfd" * 8, "", " "],
    "Arabic": ["قطة", "على", "السجادة", "الحمراء", "قرب", "النافذة"],
    "Chinese": ["猫", "坐在", "红色的", "垫子上面", "注意" * 20],
}


@pytest.mark.slow
@figures
@pytest.mark.parametrize("shape", [(40, 40), (200, 300, 3), (300, 8), (2, 300)], ids=str)
@pytest.mark.parametrize("caption", CAPTIONS)
def test_nothing_overlaps_and_nothing_is_cut_off(caption: str, shape: tuple[int, ...]) -> None:
    tokens = CAPTIONS[caption]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that no font has
        figure = captioned(np.zeros(shape), np.ones((len(tokens), 2, 2)), tokens, title="a title " * 30)
        bounds = boxes(figure)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(bounds, 2))
    page = figure.bbox
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 for box in bounds)
    assert all(page.y0 <= box.y0 and box.y1 <= page.y1 for box in bounds)
    assert figure.get_size_inches()[0] < 12.5


@figures
@pytest.mark.parametrize(
    ("count", "columns", "rows"),
    [(7, 3, [3, 3, 2]), (7, 100, [8]), (2, 1, [1, 1, 1]), (7, None, [4, 4]), (3, None, [4])],
)
def test_panels_are_in_rows(count: int, columns: int | None, rows: list[int]) -> None:
    figure = captioned(np.zeros((9, 9)), np.ones((count, 1, 1)), ["a"] * count, columns=columns)
    tops = [round(ax.get_position().y1, 6) for ax in figure.axes]
    assert tops == sorted(tops, reverse=True)
    assert [len(list(row)) for _, row in itertools.groupby(tops)] == rows
    for ax in figure.axes:
        box = ax.get_window_extent()
        assert box.width == pytest.approx(box.height)


@pytest.mark.slow
@figures
def test_no_text_is_markup(tmp_path: Path) -> None:
    odd = ["$\\frac{$", "a_b^c", "\\alpha", "<script>alert(1)</script>", "&amp;", "--><b>"]
    figure = captioned(GREY, np.ones((6, 2, 2)), odd, title="$x^2$ <script>")
    shown = [ax.title for ax in figure.axes[1:]]
    assert ["".join(text.get_text().split()) for text in shown] == odd
    assert not any(text.get_parse_math() or text.get_usetex() for text in shown)
    save(tmp_path / "a.svg", captioned(GREY, np.ones((6, 2, 2)), odd, title="$x^2$ <script>"))
    tags = {element.tag.split("}")[-1] for element in ET.parse(tmp_path / "a.svg").iter()}
    assert "svg" in tags
    assert not tags & {"script", "b"}


@figures
def test_control_characters_of_tokens_are_dots() -> None:
    figure = captioned(GREY, np.ones((1, 1, 1)), ["a\x1b\nb"], title="t\x00")
    assert figure.axes[1].get_title() == "a··b"
    assert figure.get_suptitle() == "t·"


# invalid input

ONE = np.ones((1, 2, 2))


@figures
@pytest.mark.parametrize(
    ("picture", "kind", "error"),
    [
        (
            np.zeros(9),
            ValueError,
            "picture must be (H, W) or (H, W, C) with 1, 3 or 4 channels. Got (9,) instead.",
        ),
        (
            np.zeros((3, 20, 30)),
            ValueError,
            "picture must be (H, W) or (H, W, C) with 1, 3 or 4 channels. Got (3, 20, 30) instead."
            "\n  hint: channels are last: picture.transpose(1, 2, 0)",
        ),
        (
            np.zeros((5, 8, 8, 3)),
            ValueError,
            "picture must be (H, W) or (H, W, C) with 1, 3 or 4 channels. Got (5, 8, 8, 3) instead."
            "\n  hint: choose one picture of a batch: pictures[0]",
        ),
        (np.zeros((0, 4)), ValueError, "picture must have at least one pixel. Got (0, 4) instead."),
        (
            np.zeros((4, 4), int),
            TypeError,
            "picture must be uint8, or floats between 0 and 1. Got dtype int64 instead."
            "\n  hint: use .astype(np.uint8) where white is 255, .astype(float) where it is 1",
        ),
        (
            np.full((4, 4), 255.0),
            ValueError,
            "floats of a picture must lie between 0 and 1. Got 255.0 instead."
            "\n  hint: divide by 255 where white is 255",
        ),
        (
            np.full((4, 4), np.nan),
            ValueError,
            "floats of a picture must lie between 0 and 1. Got nan instead."
            "\n  hint: divide by 255 where white is 255",
        ),
        (np.array([["a"]]), TypeError, "picture must hold real numbers. Got dtype <U1 instead."),
    ],
)
def test_invalid_pictures(picture: Any, kind: type[Exception], error: str) -> None:
    with pytest.raises(kind) as caught:
        captioned(picture, ONE, ["a"])
    assert str(caught.value) == error


WRONG = [
    (
        np.ones((2, 4)),
        ["a", "b"],
        None,
        ValueError,
        "weights must be (n, h, w). Got (2, 4) instead.\n  hint: give the rows and columns of cells as grid=(h, w)",
    ),
    (
        np.ones(4),
        ["a"],
        (2, 2),
        ValueError,
        "weights must be (n, 2, 2) or (n, 4) for the grid (2, 2). Got (4,) instead."
        "\n  hint: the weights of one token are weights[None]",
    ),
    (
        np.ones((1, 9)),
        ["a"],
        (2, 2),
        ValueError,
        "weights must be (n, 2, 2) or (n, 4) for the grid (2, 2). Got (1, 9) instead."
        "\n  hint: h * w must be the number of weights of a token",
    ),
    (
        np.ones((8, 1, 2, 2)),
        ["a"],
        None,
        ValueError,
        "weights must be (n, h, w). Got (8, 1, 2, 2) instead."
        "\n  hint: choose one picture of a batch and one head, or the mean over heads",
    ),
    (
        ONE,
        ["a"],
        4,
        TypeError,
        "grid must be (h, w), two integers. Got 4 instead.",
    ),
    (ONE, ["a"], (2, 0), ValueError, "grid[1] must be at least 1. Got 0 instead."),
    (
        np.ones((1, 0, 2)),
        ["a"],
        None,
        ValueError,
        "weights must have at least one cell for each token. Got (1, 0, 2) instead.",
    ),
    (
        [[[0.5, 0.5]], [[0.5, -0.25]]],
        ["a", "b"],
        None,
        ValueError,
        "weights must lie between 0 and 1: -0.25 in row 1, column 2 of token 2",
    ),
    (
        [[[0.5], [np.nan]]],
        ["a"],
        None,
        ValueError,
        "weights must lie between 0 and 1: nan in row 2, column 1 of token 1",
    ),
    (ONE * 1j, ["a"], None, TypeError, "weights must hold real numbers. Got dtype complex128 instead."),
    (ONE, ["a", "b"], None, ValueError, "weights and tokens must have the same length: 1 and 2"),
    (
        np.ones((3, 1, 1)),
        "cat",
        None,
        TypeError,
        "tokens must be a sequence of strings. Got one string instead.\n  hint: use text.split()",
    ),
]


@figures
@pytest.mark.parametrize("as_text", [False, True], ids=["figure", "text"])
@pytest.mark.parametrize(("weights", "tokens", "grid", "kind", "error"), WRONG)
def test_invalid_weights_of_tokens(
    weights: Any, tokens: Any, grid: Any, kind: type[Exception], error: str, as_text: bool
) -> None:
    first = () if as_text else (GREY,)
    draw: Any = terminal.captioned if as_text else captioned
    with pytest.raises(kind) as caught:
        draw(*first, weights, tokens, grid=grid)
    assert str(caught.value).startswith(error)


@figures
def test_options_of_the_figure_are_checked() -> None:
    with pytest.raises(ValueError, match=r"^columns must be at least 1. Got 0 instead.$"):
        captioned(GREY, ONE, ["a"], columns=0)
    with pytest.raises(ValueError, match=r"^a figure has up to 256 tokens. Got 257 instead.$"):
        captioned(GREY, np.ones((257, 1, 1)), ["a"] * 257)


# text


def test_grids_as_text_by_hand() -> None:
    weights = [[[0.25, 0.5], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.1]]]
    expected = ["two    catsu…", "▒▒██", "         ██"]
    assert terminal.captioned(weights, ["two", "catsuits"], color=False, width=80).split("\n") == expected
    assert terminal.captioned(np.zeros((0, 2, 2)), []) == "no tokens"


def test_the_lines_of_grids_fit_the_screen() -> None:
    tokens = ["a", "注意力机制", "internationalisation", "", "\x1b[2J"]
    for color, width, side in itertools.product((False, True), (24, 80), (1, 7, 20)):
        shown = terminal.captioned(RNG.random((5, side, side)), tokens, color=color, width=width)
        assert max(map(display_width, shown.split("\n"))) <= width
        assert "\x1b[2J" not in shown


def test_a_shade_is_darkest_where_the_weight_is_the_largest() -> None:
    shown = terminal.captioned(np.eye(6), list("abcdef"), grid=(2, 3), color=True, width=6)
    darkest = re.findall(r"48;5;(\d+)m", shade("", 1.0))[0]
    blocks = shown.split("\n\n")
    for number, block in enumerate(blocks):
        backgrounds = re.findall(r"48;5;(\d+)m", block)
        assert [i for i, one in enumerate(backgrounds) if one == darkest] == [number]
    assert len(blocks) == 6
