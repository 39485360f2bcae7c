"""Learning curves and scores by length: as pictures, and as lines of text."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.show import figures, terminal
from regard.show.figures import Panel
from regard.show.figures._curves import running_mean
from regard.show.figures.figure import root_figure
from regard.show.terminal.text import display_width

STEPS = np.arange(1, 1001)
FALLING = 2 + 6 * np.exp(-STEPS / 40)


@pytest.fixture
def _no_pyplot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # an import of it would fail


def names(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


# pictures

pictures = [pytest.mark.slow, pytest.mark.usefixtures("_no_pyplot")]


class TestPictures:
    """What Matplotlib draws."""

    pytestmark = pictures

    def test_a_curve_has_a_panel_for_each_measure_that_has_points(self) -> None:
        panels = [
            Panel(
                "loss $x$", {"training": (STEPS, FALLING), "validation": ([500, 1000], [2.4, 2.2])}, "lowest"
            ),
            Panel("nothing", {"a": ([], []), "b": ([1], [np.nan])}),
            Panel("BLEU", {"validation": ([500, 1000], [20, 30])}, "highest"),
        ]
        figure = figures.curves(panels, along="minutes", title="$run$")
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["loss $x$", "BLEU"]
        assert [axes.get_xlabel() for axes in figure.axes] == ["", "minutes"]
        assert [names(axes) for axes in figure.axes] == [["training", "validation"], ["validation"]]
        assert [axes.texts[0].get_text() for axes in figure.axes] == ["2.2", "30"]

    def test_a_name_has_one_colour_in_all_panels(self) -> None:
        panels = [Panel("loss", {"a": ([1], [2]), "b": ([1], [3])}), Panel("BLEU", {"b": ([1], [40])})]
        loss, bleu = figures.curves(panels).axes
        assert loss.lines[0].get_color() != loss.lines[1].get_color() == bleu.lines[0].get_color()

    def test_many_lines_have_different_styles(self) -> None:
        (axes,) = figures.curves(
            [Panel("loss", {f"run {i}": ([1, 2], [2 + i, 1 + i]) for i in range(15)})]
        ).axes
        styles = {
            (line.get_color(), line.get_linestyle()) for line in axes.lines if len(line.get_xdata()) == 2
        }
        assert len(styles) == 15

    def test_the_steep_beginning_does_not_determine_the_height(self) -> None:
        (axes,) = figures.curves([Panel("loss", {"training": (STEPS, FALLING)})]).axes
        low, high = axes.get_ylim()
        assert low < 2
        assert FALLING[150] < high < 4 < FALLING[0]
        begins = FALLING[:13].mean()  # 80 pieces of 1,000 points
        assert axes.get_title(loc="right") == f"begins above, at {begins:.3g}"
        (axes,) = figures.curves([Panel("loss", {"training": ([1, 2, 3], [3.0, 2.0, 1.0])})]).axes
        assert not axes.get_title(loc="right")

    def test_points_before_the_beginning_are_left_out(self) -> None:
        lines = {"a": ([-2, 1, 2], [9.0, 2.0, 1.0]), "b": ([-3, -1], [1, 2])}
        (axes,) = figures.curves([Panel("loss", lines)]).axes
        (line,) = axes.lines
        assert line.get_xdata().tolist() == [1, 2]

    def test_marks_at_0_are_not_cut(self) -> None:
        bleu = Panel("BLEU", {"validation": ([1, 2, 3], [0, 0, 20])}, "highest")
        (axes,) = figures.curves([bleu]).axes
        root_figure(axes).draw_without_rendering()
        line = axes.lines[0]
        dot = axes.transData.transform((1, 0))[1] - axes.bbox.y0
        assert dot >= line.get_markersize() / 2 * root_figure(axes).dpi / 72
        assert not figures.by_length(["1", "2"], {"a": [0, 1]}).lines[0].get_clip_on()

    @pytest.mark.parametrize("best", ["lowest", "highest"])
    def test_scores_that_stay_at_0_have_no_tick_below_0(self, best: Any) -> None:
        (axes,) = figures.curves([Panel("BLEU", {"validation": ([1, 2, 3], [0.0, 0.0, 0.0])}, best)]).axes
        assert axes.get_yticks().tolist() == [0]

    def test_many_points_are_drawn_as_their_mean_over_all_of_them(self) -> None:
        (axes,) = figures.curves([Panel("loss", {"training": (STEPS, FALLING)})]).axes
        all_of_them, mean = axes.lines
        assert len(all_of_them.get_xdata()) == 1000
        assert len(mean.get_xdata()) == 80
        assert all_of_them.get_alpha() < 0.5

    @pytest.mark.parametrize("count", [1, 6, 30])
    def test_names_cover_no_line_and_stay_in_the_figure(self, count: int) -> None:
        lines = {f"{'a name of several words ' * (i % 3)}{i}": ([1, 2], [2.0, 1.0]) for i in range(count)}
        (axes,) = figures.curves([Panel("loss", lines)]).axes
        figure = root_figure(axes)
        figure.draw_without_rendering()
        legend = axes.get_legend().get_window_extent()
        assert legend.xmin >= axes.bbox.xmax
        assert figure.bbox.x0 - 2 <= legend.xmin <= legend.xmax <= figure.bbox.x1 + 2
        assert figure.bbox.y0 - 2 <= legend.ymin <= legend.ymax <= figure.bbox.y1 + 2
        assert len(names(axes)) == count

    @pytest.mark.parametrize("name", ["", "a\nb"])
    def test_odd_names_are_in_the_legend(self, name: str) -> None:
        expected = name.replace("\n", "·")
        (axes,) = figures.curves([Panel("loss", {name: ([1, 2], [2.0, 1.0])})]).axes
        assert names(axes) == names(figures.by_length(["1"], {name: [1]})) == [expected]

    def test_a_long_name_leaves_room_for_the_picture(self) -> None:
        name = "2026-11-22_bahdanau_embedding160_encoder128_dropout0.3"
        axes = figures.by_length(["1-2", "3-4", "5-6"], {name: [30, 20, 10], "short": [20, 20, 20]})
        assert axes.get_position().width > 0.6
        assert [text.replace("\n", "") for text in names(axes)] == [name, "short"]

    def test_scores_by_length_name_groups_counts_and_models(self) -> None:
        axes = figures.by_length(
            ["1-5", "6-10"], {"with": [48, 47], "$o$": [30, np.nan]}, [1200, 3], measure="BLEU $"
        )
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1-5\n1,200", "6-10\n3"]
        assert names(axes) == ["with", "$o$"]
        assert axes.get_title(loc="left") == "BLEU $"
        assert axes.get_ylim()[0] == 0
        first, second = (bar.get_height() for bar in axes.patches)
        assert first == pytest.approx(400 * second)
        assert first < 24  # bars stay below the lines' half

    def test_a_picture_is_drawn_in_given_axes(self) -> None:
        from regard.show.figures.figure import new_figure

        axes = new_figure(4, 3).add_subplot()
        assert figures.by_length(["1"], {"a": [1]}, ax=axes) is axes

    def test_a_png_is_about_900_dots_wide(self, tmp_path: Path) -> None:
        image = pytest.importorskip("PIL.Image")
        figures.save(tmp_path / "a.png", figures.curves([Panel("loss", {"training": (STEPS, FALLING)})]))
        with image.open(tmp_path / "a.png") as picture:
            assert 850 <= picture.size[0] <= 1000

    def test_links_are_followed_and_pipes_left_alone(self, tmp_path: Path) -> None:
        pipe, link, panel = tmp_path / "pipe.png", tmp_path / "link.png", Panel("loss", {"a": ([1], [1])})
        os.mkfifo(pipe)
        with pytest.raises(ValueError, match="It is not a regular file instead"):
            figures.save(pipe, figures.curves([panel]))
        link.symlink_to(tmp_path / "target.png")
        figures.save(link, figures.curves([panel]))
        assert pipe.is_fifo()
        assert link.is_symlink()
        assert (tmp_path / "target.png").read_bytes().startswith(b"\x89PNG")

    def test_invalid_curves(self) -> None:
        for function in (lambda lines: figures.curves([Panel("loss", lines)]), terminal.curves):
            with pytest.raises(ValueError) as caught:
                function({"a": ([1], [np.inf])})
            assert str(caught.value) == "a learning curve needs at least one point: none of the lines has any"
            with pytest.raises(ValueError) as caught:
                function({"a": ([1, 2], [3])})
            assert str(caught.value) == "x and y of a line must have one length. 'a' has 2 and 1."
        with pytest.raises(ValueError) as caught:
            figures.by_length(["1"], {"a": [1, 2]})
        assert str(caught.value) == "'a' must hold a number for each of the 1 groups. It is (2,)."
        with pytest.raises(ValueError) as caught:
            figures.by_length([], {})
        assert str(caught.value) == "scores by length need a group and a line: 0 groups, 0 lines"


# means


@pytest.mark.slow
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=300), st.integers(1, 90))
def test_means_keep_the_range_and_the_order(y: list[float], pieces: int) -> None:
    pieces = min(pieces, len(y))
    x, mean = running_mean(np.array([range(len(y)), y]), pieces)
    assert len(x) == len(mean) == pieces
    assert (np.diff(x) > 0).all()
    assert mean.min() >= min(y) - 1e-9
    assert mean.max() <= max(y) + 1e-9
    if len(y) == pieces:
        np.testing.assert_array_equal(mean, y)


# lines of text


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.dictionaries(
        st.text(max_size=30), st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), min_size=1, max_size=8
    ),
    st.integers(2, 12),
    st.integers(30, 120),
)
def test_text_curves_have_their_height_and_fit_the_screen(
    lines: dict[str, list[float]], height: int, width: int
) -> None:
    drawn = terminal.curves(
        {name: (range(1, len(y) + 1), y) for name, y in lines.items()}, height=height, width=width
    )
    rows = drawn.split("\n")
    assert len(rows) == height + 3
    assert all(display_width(row) <= width for row in rows[:-1])
    assert any(mark in "".join(rows[:height]) for mark in "·ox+*#")


def test_text_curves_by_hand() -> None:
    drawn = terminal.curves(
        {"loss": ([10, 20], [1, 3]), "注意": ([10], [2])}, along="minutes", height=3, width=17
    )
    assert drawn.split("\n") == [
        "3.00 │         ·",
        "2.00 │    o",
        "1.00 │    ·",
        "     └──────────",
        "      0minutes20",
        "· loss 3.00   o 注意 2.00",
    ]


@pytest.mark.parametrize("height", [1, 0, -3, 2.5])
def test_text_curves_have_at_least_two_lines(height: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="height must be"):
        terminal.curves({"a": ([0, 1], [1, 2])}, height=height)


def test_masked_numbers_of_a_curve_are_left_out() -> None:
    masked = np.ma.masked_array([1.0, 1e36, 3.0], [False, True, False])
    assert terminal.curves({"a": ([0, 1, 2], masked)}) == terminal.curves({"a": ([0, 2], [1.0, 3.0])})


def test_one_point_and_a_flat_line_have_a_height() -> None:
    assert terminal.curves({"a": ([5], [2.0])}, height=3, width=20).split("\n")[1].startswith("2.00 │")
    assert terminal.curves({"a": ([0, 0], [2.0, 2.0])}, height=3, width=20).count("·") == 2
    for height in (
        2,
        10,
        11,
    ):  # an error rate of 0 has no axis below 0, and its points are next to their number
        rows = terminal.curves({"a": ([0, 9], [0.0, 0.0])}, height=height, width=40).split("\n")[:height]
        assert [row for row in rows if "·" in row] == [row for row in rows if row.startswith("0.00 │·")]
        assert [row.strip("│ ") for row in rows].count("") == height - 1


def test_points_at_the_beginning_alone_are_drawn() -> None:
    assert "\n2.00 │·\n" in terminal.curves(
        {"a": ([0, 0], [1.0, 3.0])}, width=80
    )  # the mean of the points at that position


def test_text_curves_mark_points_above_them() -> None:
    top = terminal.curves({"loss": (STEPS, FALLING)}, width=80).split("\n")[0]
    assert "│↑" in top
    assert "↑" not in terminal.curves({"loss": (STEPS[:20], FALLING[:20])}, width=40)
