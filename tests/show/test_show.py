"""Output as text and as pictures: aligned by display width, shaded by weight, cut off where it is too large."""

import functools
import io
import itertools
import pickle
import re
import sys
import tempfile
import tomllib
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pytest
import wcwidth
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text
from one_test import in_one_test

import regard
from regard import cli
from regard.cli import main
from regard.show import figures, terminal, weights_figure
from regard.show.figures import heatmap, heatmaps, save
from regard.show.figures._lanes import lanes
from regard.show.figures.figure import root_figure
from regard.show.progress import Progress
from regard.show.story import matrices
from regard.show.terminal import cells
from regard.show.terminal.text import (
    align,
    clean,
    cut,
    display_width,
    fit,
    pad_lines,
    report,
    shade,
    shorten,
    side_by_side,
    wants_color,
    wrap,
)

SHADED = re.compile(r"\x1b\[38;5;\d+;48;5;(\d+)m(.*?)\x1b\[0m")
WORDS = st.text(min_size=0, max_size=30)


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


def weights_of(seed: int, n: int, m: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).random((n, m)) ** 6
    return numbers / numbers.sum(axis=1, keepdims=True)


# display width


@pytest.mark.parametrize(
    ("word", "width"),
    [
        ("", 0),
        ("chat", 4),
        ("注意", 4),
        ("ｱ", 1),
        ("Ａ", 2),
        ("e\u0301te\u0301", 3),
        ("a\u200bb", 2),
        ("안녕", 4),
    ],
)
def test_display_width_by_hand(word: str, width: int) -> None:
    assert display_width(word) == width


@pytest.mark.slow
@given(WORDS, st.integers(1, 20), st.booleans())
def test_fit_fills_its_width_exactly(word: str, width: int, right: bool) -> None:
    assert display_width(fit(clean(word), width, right=right)) == width


@pytest.mark.slow
@given(st.text(st.characters(exclude_categories=["C"]), max_size=60), st.integers(2, 30), st.integers(1, 4))
def test_wrapped_lines_have_limits_and_keep_the_text(text: str, width: int, most: int) -> None:
    lines = wrap(text, width, most)
    assert 1 <= len(lines) <= most
    assert all(display_width(line) <= width for line in lines)
    joined, all_of_it = "".join("".join(lines).split()), "".join(text.split())
    assert joined == all_of_it or (
        len(lines) == most and joined[-1] == "…" and all_of_it.startswith(joined[:-1])
    )


@given(WORDS)
def test_cleaning_removes_control_characters(word: str) -> None:
    shown = clean(word + "\x1b[2J\r\n\t\u202e")
    assert len(shown) <= len(word) + 8
    turning = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    assert not re.search(
        f"[\x00-\x1f\x7f-\x9f\u2028\u2029{turning}\ud800-\udfff\U000e0000-\U000e007f]", shown
    )


def test_cleaning_keeps_joiners_of_words_and_emoji() -> None:
    for word in (
        "می\u200cخواهم",
        "ක\u0dca\u200dෂ",
        "👨\u200d👩\u200d👧",
        "❤\ufe0f",
        "Wort\u00adende",
        "ก\u200bข",
        "\ufeffa",
    ):
        assert clean(word) == word
    turning = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    for unsafe in turning + "\U000e0041\U000e007f\x85\u2028":
        assert clean(f"a{unsafe}b") == "a·b"


PILED = {
    "marks": "e" + "\u0301" * 2_000,
    "marks of several kinds": "e" + "\u0301\u0323\u20e3\ufe0f" * 500,
    "marks without a letter": "\u0301" * 2_000,
    "vowels of Hangul": "\u1100" + "\u1161" * 2_000,
    "format characters": "a" + "\u2061" * 2_000,
    "skin tones": "👍" + "🏽" * 2_000,
    "a joined emoji": "👨\u200d" * 2_000,
    "a joined syllable": "\u0915\u094d" * 2_000,
    "zero width spaces": "\u200b" * 2_000,
    "fillers": "\u3164" * 2_000,
    "letters": "e" * 2_000,
    "wide letters": "注" * 2_000,
    "turns": "\u202e\u202da" * 2_000,
    "lines": "\n" * 2_000,
    "tabs": "\t" * 2_000,
    "a formula": "$\\frac{" * 2_000,
}


@pytest.mark.usefixtures("widths")
@in_one_test("kind", PILED)
def test_no_label_has_more_characters_than_an_eye_can_tell(kind: str) -> None:
    text = PILED[kind]
    (label,) = cells.labels([text], 1, "rows")
    assert display_width(label) <= 24
    assert len(label) <= 241
    assert sum(map(len, wrap(clean(text), 24, 3))) <= 750
    assert len(terminal.captioned([[[1.0]]], [text], color=False).split("\n")[0]) <= 70
    assert len(terminal.curves({text: ([1], [1])}, width=40).split("\n")[-1]) <= 250


@pytest.mark.slow
@in_one_test("kind", ["marks", "a joined syllable", "zero width spaces", "letters"])
@pytest.mark.filterwarnings("ignore:no installed font")
def test_no_text_of_a_figure_has_more_characters_than_an_eye_can_tell(kind: str) -> None:
    text = PILED[kind]
    panel = figures.Panel(text, {text: ([1], [1])})
    for artist in (
        heatmap([[1.0]], [text], [text], title=text).figure,
        heatmaps([[[1.0]]], [text], [text], names=[text], title=text),
        figures.curves([panel], along=text, title=text),
        figures.by_length([text], {text: [1.0]}, [1], measure=text, along=text).figure,
        figures.captioned([[1.0]], [[[1.0]]], [text], title=text),
    ):
        for shown in artist.findobj(Text):
            lines = shown.get_text().split("\n")
            assert len(lines) <= 3
            assert max(map(display_width, lines)) <= 250  # a box for each letter that no font has
            assert sum(map(len, lines)) <= 3000
            assert "\u0301" * 10 not in shown.get_text()


@pytest.mark.slow
@given(st.text(st.characters(categories=["M", "Cf", "Lo", "So", "Ll"]), max_size=200), st.integers(1, 24))
def test_only_marks_are_removed_and_only_in_excess(text: str, width: int) -> None:
    cleaned = clean(text)
    marked = itertools.groupby(cleaned, lambda c: unicodedata.category(c)[0] == "M")
    assert max((len(list(run)) for marks, run in marked if marks), default=0) <= 9
    vowels = ("HANGUL JUNGSEONG", "HANGUL JONGSEONG")  # in decomposed syllables
    letters = [c for c in text if c.isalpha() and not unicodedata.name(c, "").startswith(vowels)]
    assert [c for c in cleaned if c in letters] == letters
    assert len(cut(cleaned, width)) <= 10 * width + 1


def test_letters_of_living_languages_and_emoji_keep_all_their_marks() -> None:
    for word in (
        "\u0f67\u0f90\u0fb5\u0fa8\u0fb3\u0fba\u0fbc\u0fbb\u0f82",  # Tibetan: eight marks
        "👩🏻\u200d❤\ufe0f\u200d💋\u200d👨🏼",  # ten characters, the most of Unicode's emoji
        "t\u0323\u0302\u0301",
    ):
        assert clean(word * 3) == word * 3
        assert fit(word, display_width(word)) == word
    assert clean("e" + "\u0301" * 10 + "x") == "e" + "\u0301" * 9 + "x"


SEQUENCES = {
    "👨\u200d👩\u200d👧\u200d👦": 2,
    "❤\ufe0f": 2,
    "❤": 1,
    "👍🏽": 2,
    "🇫🇷": 2,
    "1\ufe0f\u20e3": 2,
    "\u1112\u1161\u11ab\u1100\u1173\u11af": 4,  # Hangul, decomposed
    "می\u200cخواهم": 7,
    "🏴\U000e0067\U000e0062\U000e007f": 2,
    "क\u094dष\u093f": 2,
    "😀a注é": 6,
    "Wort\u00ad": 5,
}


@pytest.fixture(params=["wcwidth", "own"])
def widths(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths by the library, and without it."""
    if request.param == "own":
        monkeypatch.setattr("regard.show.terminal.text._wcwidth", lambda: None)


@pytest.mark.usefixtures("widths")
@in_one_test("word", SEQUENCES)
def test_widths_of_sequences(word: str) -> None:
    width = SEQUENCES[word]
    assert display_width(word) == width
    assert fit(word, width) == word
    assert fit(word + "xyz", width + 1) == f"{word}…"  # no sequence is cut
    if width > 1:
        assert wrap(word * 3, width, 3) == [word] * 3


def test_widths_are_those_of_wcwidth() -> None:
    for word in SEQUENCES:
        assert display_width(word) == wcwidth.wcswidth(word)


@pytest.mark.usefixtures("widths")
def test_without_and_with_the_library_lines_are_fitted_exactly() -> None:
    for word in ("a\u200d", "\u200d", "🇫🇷🇩🇪🇫", "ab\u0301\u0316" * 5, "👨\u200d👩" * 4, "\u0301", "注意力"):
        for width in range(1, 12):
            for right in (False, True):
                assert display_width(fit(word, width, right=right)) == width


@pytest.mark.parametrize("unit", ["á", "a\u0301", "🙂", "注"])
@pytest.mark.parametrize("work", [lambda text: fit(text, 10), lambda text: wrap(text, 10, 10**6)])
def test_fitting_and_wrapping_measure_each_cluster_a_few_times(
    work: Any, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, measured = wcwidth.wcswidth, []
    monkeypatch.setattr(
        wcwidth, "wcswidth", lambda cluster: measured.append(len(cluster)) or columns(cluster)
    )
    work(unit * 3000)
    assert sum(measured) <= 3 * len(unit * 3000)


def test_long_messages_keep_their_ends_and_few_lines() -> None:
    message = report("begin " + "x" * 10**6 + " end")
    assert len(message) == 500
    assert message.startswith("begin x")
    assert message.endswith("x end")
    assert report("\n".join("abcdefghijklmn")).split("\n") == list("abcdefghij")
    assert shorten("abc", 3) == "abc"


@pytest.mark.parametrize(
    "arguments",
    [
        ["tr\x1b[2J"],
        ["explain", "--nosuch\x1b[2J"],
        ["explain", "--at", "1\x1b[2J"],
        ["explain", "no\x1b[2J.npy"],
        ["explain", "--words", "1 0; \x1b[2J\u202e 1"],
        ["explain", "--words", "1" * 10**6 + "x"],
        ["explain", "--score-arrays", "x" * 10**6],
        ["explain", "--seed", "9" * 10**6],
        ["explain", "--score", "x" * 10**6],
        ["y" * 10**6],
    ],
)
def test_no_error_controls_the_terminal_or_fills_it(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert len(err) <= 501
    assert clean(err[:-1]) == err[:-1]


def test_warnings_and_progress_are_cleaned(capsys: pytest.CaptureFixture[str]) -> None:
    cli._warn("explain", set(), UserWarning("font \x1b[2J\nsecond line"))
    cli._warn(None, set(), UserWarning(""))
    with Progress(1, "translating (\x1b[2J" + "x" * 1000 + ")", every=0.0) as progress:
        progress.advance()
        progress.write("best: \x1b[2J\n  a -> b")
    err = capsys.readouterr().err
    lines = err.splitlines()
    assert lines[:2] == ["regard explain: warning: font ·[2J", "regard: warning: UserWarning"]
    assert lines[-2:] == ["best: ·[2J", "  a -> b"]
    assert "\x1b" not in err
    assert max(map(len, lines)) < 200


def test_messages_are_printed_in_one_place() -> None:
    folder = Path(regard.__file__).parent
    direct = {
        path.name for path in folder.rglob("*.py") if "file=sys.stderr" in path.read_text(encoding="utf-8")
    }
    assert direct == {"cli.py", "text.py"}


def test_blocks_are_side_by_side_up_to_the_width_of_the_screen() -> None:
    assert side_by_side(["a\nb", "c"], width=5) == "a   c\nb"
    assert side_by_side(["a\nb", "c"], width=4) == "a\nb\n\nc"
    assert pad_lines([]) == []
    assert align([["注意", "1"], ["le", "10"]]) == "注意   1\n  le  10"


# colour


@pytest.mark.parametrize(
    ("no_color", "force_color", "expected"),
    [
        ("1", "1", False),
        ("", "1", True),
        ("", "3", True),
        ("", "0", False),
        ("", "", False),
        ("1", "", False),
    ],
)
def test_no_color_wins_over_force_color_over_the_pipe(
    monkeypatch: pytest.MonkeyPatch, no_color: str, force_color: str, expected: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("FORCE_COLOR", force_color)
    assert wants_color(io.StringIO()) is expected


def test_a_terminal_has_colour_unless_it_is_dumb(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert wants_color(Terminal())
    monkeypatch.setenv("CLICOLOR", "0")
    assert not wants_color(Terminal())
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    assert wants_color(Terminal())
    monkeypatch.delenv("CLICOLOR_FORCE")
    monkeypatch.setenv("CLICOLOR", "1")
    assert wants_color(Terminal())
    assert not wants_color(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_color(Terminal())


def test_shades_are_clipped_between_white_and_the_darkest() -> None:
    def background(share: float) -> str:
        match = SHADED.fullmatch(shade("x", share))
        assert match is not None
        return match[1]

    assert background(0.0) == background(-1.0) == "231"
    assert background(1.0) == background(7.0) == "18"
    assert len({background(k / 9) for k in range(10)}) == 10


# heat maps


@pytest.mark.slow
@pytest.mark.parametrize("color", [False, True])
@given(
    n=st.integers(1, 60),
    m=st.integers(1, 110),
    width=st.integers(30, 130),
    seed=st.integers(0, 9),
    words=st.lists(WORDS, min_size=110, max_size=110),
    named=st.booleans(),
)
def test_every_line_of_a_heatmap_has_the_same_display_width(
    color: bool, n: int, m: int, width: int, seed: int, words: list[str], named: bool
) -> None:
    names = (words[:n], words[:m]) if named else (None, None)
    shown = terminal.heatmap(weights_of(seed, n, m), *names, color=color, width=width)
    assert len({display_width(line) for line in shown.split("\n")}) == 1


@pytest.mark.slow
@given(n=st.integers(1, 60), m=st.integers(1, 200), width=st.integers(45, 130))
def test_a_heatmap_fits_the_screen_and_reports_omitted_cells(n: int, m: int, width: int) -> None:
    lines = terminal.heatmap(weights_of(0, n, m), color=False, width=width).split("\n")
    assert display_width(lines[0]) <= width
    everything = n <= 48 and m + len(str(n)) + 1 <= width
    assert everything != lines[-1].startswith(f"shown in part: {n} x {m} in all")


@pytest.mark.slow
@given(n=st.integers(1, 40), m=st.integers(1, 12), seed=st.integers(0, 9))
def test_colour_changes_no_letter_of_a_heatmap_with_numbers(n: int, m: int, seed: int) -> None:
    weights = weights_of(seed, n, m)
    colored = terminal.heatmap(weights, color=True, width=80)
    assert plain(colored) == terminal.heatmap(weights, color=False, width=80)
    assert len(SHADED.findall(colored)) == n * m


def test_cells_are_percents_with_a_blank_for_0_and_a_dot_below_one_half() -> None:
    shown = terminal.heatmap([[1.0, 0.0, 0.004, 0.25, np.nan]], ["le"], color=False, width=80)
    assert shown.split("\n")[1].split() == ["le", "100", "·", "25", "nan"]
    assert shown.split("\n")[1].index("·") == shown.split("\n")[0].index("3")


def test_labels_are_above_their_columns() -> None:
    shown = terminal.heatmap(np.eye(3), ["a", "b", "c"], ["first", "of", "all"], color=False, width=80)
    assert [line.rstrip() for line in shown.split("\n")] == [
        "    first",
        "    │   of  all",
        "a 100",
        "b     100",
        "c         100",
    ]


def test_the_darkest_cell_is_the_largest_weight() -> None:
    row = [0.2, 0.1, 0.0, 0.05] + [0.0] * 16
    shown = terminal.heatmap([row], color=True, width=200)
    assert [background for background, _ in SHADED.findall(shown)][:4] == ["18", "75", "231", "153"]


def test_uniform_weights_are_never_dark_on_either_medium() -> None:
    uniform = np.full((3, 8), 1 / 8)
    assert {
        background for background, _ in SHADED.findall(terminal.heatmap(uniform, color=True, width=80))
    } == {"153"}
    assert heatmap(uniform).images[0].get_clim() == (0, 0.5)


def test_masked_cells_are_dashes() -> None:
    weights = np.ma.masked_array([[0.9, 7.0], [0.25, 0.75]], [[False, True], [False, False]])
    shown = terminal.heatmap(weights, ["le", "chat"], ["the", "cat"], color=False, width=80)
    assert [line.split() for line in shown.split("\n")] == [
        ["the", "cat"],
        ["le", "90", "-"],
        ["chat", "25", "75"],
        ["-:", "masked"],
    ]
    narrow = terminal.heatmap(np.ma.repeat(weights, 30, axis=1), color=False, width=70).split("\n")
    assert narrow[-4] == "1 " + "█" * 30 + "-" * 30 + " " * 0
    assert SHADED.search(terminal.heatmap(np.ma.masked_all((1, 1)), color=True, width=80)) is None


def test_signed_numbers_that_round_to_0_are_dots() -> None:
    axes = heatmap([[2.0, 0.04], [-0.04, 0.0], [-0.06, np.nan]], signed=True)
    assert [text.get_text() for text in axes.texts] == ["2.0", "·", "·", "\N{MINUS SIGN}0.1", "nan"]


def test_many_columns_get_numbers_and_a_legend() -> None:
    names = [f"word{j}" for j in range(30)]
    shown = terminal.heatmap(weights_of(0, 2, 30), ["a", "b"], names, color=False, width=80)
    assert all(f"{j + 1} word{j}" in shown for j in range(30))
    header, row = shown.split("\n")[:2]
    assert header.index("5") == row.index("a") + 2 + 2 * 4  # cells of two columns


def test_an_empty_heatmap_is_a_message() -> None:
    assert terminal.heatmap(np.zeros((0, 5))) == "no weights: 0 rows, 5 columns"
    assert terminal.table(np.zeros((3, 0))) == "no numbers: 3 rows, 0 columns"


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        ([1.0, 2.0], "a heat map shows an (n, m) array of real numbers: weights are (2,) of type float64"),
        ([["a"]], "a heat map shows an (n, m) array of real numbers: weights are (1, 1) of type <U1"),
        ([[0.5, -0.5]], "weights must lie between 0 and 1: -0.5 in row 1, column 2"),
        ([[0.5], [2.0]], "weights must lie between 0 and 1: 2.0 in row 2, column 1"),
    ],
)
def test_invalid_heatmaps(weights: list[object], error: str) -> None:
    with pytest.raises(ValueError) as caught:
        terminal.heatmap(weights)
    assert str(caught.value).split("\n")[0] == error


def test_labels_must_fit_the_shape() -> None:
    with pytest.raises(ValueError) as caught:
        terminal.heatmap([[0.5, 0.5]], ["a", "b"])
    assert str(caught.value) == "rows must name each of the 1 rows: 2 words given"


# tables


@pytest.mark.slow
@given(n=st.integers(1, 30), m=st.integers(1, 30), width=st.integers(40, 130), digits=st.integers(0, 9))
def test_every_line_of_a_table_has_the_same_display_width(n: int, m: int, width: int, digits: int) -> None:
    numbers = np.random.default_rng(0).normal(size=(n, m))
    names = [f"注{i}" for i in range(n)], [f"k{j}" for j in range(m)]
    lines = terminal.table(numbers, *names, digits=digits, width=width, color=False).split("\n")
    assert len({display_width(line) for line in lines}) == 1
    assert len(lines) == 1 + min(n, 12)


@pytest.mark.slow
@given(digits=st.integers(0, 12), seed=st.integers(0, 99))
def test_a_table_prints_its_numbers_to_the_digits_asked_for(digits: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).normal(size=(3, 2))
    read = [
        [float(cell) for cell in line.split()]
        for line in terminal.table(numbers, digits=digits, width=200).split("\n")
    ]
    np.testing.assert_allclose(read, numbers, rtol=0, atol=0.5000001 * 10.0**-digits)


# the story


def explanation(**options: object) -> str:
    queries, keys, values = np.eye(2), np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1.0], [2], [4]])
    return str(regard.explain(queries=queries, keys=keys, values=values, **options))


def test_a_row_is_explained_term_by_term() -> None:
    lines = explanation(row=1).split("query 2, term by term\n\n")[1].split("\n")
    rows = [[float(cell) for cell in line.split()[2:]] for line in lines[1:4]]
    total = [float(cell) for cell in lines[4].split()[1:]]
    np.testing.assert_allclose(np.sum(rows, axis=0)[2:], total, atol=2e-5)
    for (score, logit, _, weight, term), value in zip(rows, (1, 2, 4), strict=True):
        assert logit == pytest.approx(score / 2**0.5, abs=1e-5)
        assert term == pytest.approx(weight * value, abs=3e-5)


def test_a_query_without_a_visible_key_is_explained() -> None:
    shown = explanation(mask=np.array([[False] * 3, [True] * 3]))
    assert "query 1 attends to nothing: its weights and its context are 0" in shown
    assert "query 1        -        -        -" in shown


def test_sentences_name_the_strongest_keys_and_the_share_of_the_rest() -> None:
    queries, keys = np.zeros((1, 1)), np.zeros((4, 1))
    bias = np.log([[5.0, 62.0, 30.0, 3.0]])
    story = regard.explain(queries=queries, keys=keys, bias=bias, labels=["q"], key_labels=list("abcd"))
    shown = story.step("weights")
    assert "q attends to b (62.0 %), c (30.0 %); the other 2 share 8.0 %" in shown


def test_the_share_of_the_rest_is_that_of_seen_keys() -> None:
    keys = np.zeros((8, 1))
    shown = regard.explain(queries=keys[:1], keys=keys, mask=np.arange(8) < 6).step("weights")
    assert "key 3 (16.7 %); the other 3 visible keys share 50.0 %" in " ".join(shown.split())


def test_an_explanation_needs_two_dimensions() -> None:
    with pytest.raises(ValueError) as caught:
        regard.explain(queries=np.zeros((2, 3, 4)))
    assert str(caught.value) == (
        "an explanation needs two-dimensional arrays: (2, 3, 4), (2, 3, 4), (2, 3, 4)"
        "\n  hint: choose one item and head, such as queries[0, 2]"
    )


def test_many_keys_are_explained_by_the_strongest_and_the_sum_of_the_others() -> None:
    keys = np.random.default_rng(0).normal(size=(50, 4))
    lines = regard.explain(queries=keys).step("row", 0).split("query 1, term by term\n\n")[1].split("\n")
    assert lines[11].startswith("40 others")
    assert sum(float(line.split()[5]) for line in lines[1:11]) + float(lines[11].split()[3]) == pytest.approx(
        1, abs=1e-4
    )


def test_matrices_name_their_shapes() -> None:
    assert matrices([("keys", np.zeros((40, 3)))], width=80).split("\n")[0] == "keys (40, 3)"


# pictures


@pytest.mark.slow
def test_a_picture_has_literal_labels_and_leaves_matplotlib_unchanged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # an import of it would fail

    def settings() -> dict[str, object]:
        # Reading the back end would choose one.
        return {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}

    before = settings()
    axes = heatmap([[0.9, 0.1], [0.0, 1.0]], ["$le$", "été"], ["the", "cat"], title="$x^2$ \x1b")
    save(tmp_path / "a.png", heatmap([[1.0]]))
    assert settings() == before
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$le$", "été"]
    assert not any(label.get_parse_math() for label in axes.get_yticklabels() + axes.get_xticklabels())
    assert [cell.get_text() for cell in axes.texts] == ["90", "10", "100"]


def test_a_picture_is_drawn_in_given_axes() -> None:
    axes = Figure().add_subplot()
    assert heatmap([[1.0]], ax=axes) is axes


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture_has_the_format_of_its_name_and_leaves_no_other_file(
    tmp_path: Path, kind: str, start: bytes
) -> None:
    save(tmp_path / f"weights.{kind}", heatmap(weights_of(0, 30, 20), title="weights"))
    assert (tmp_path / f"weights.{kind}").read_bytes().startswith(start)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "weights.png"
    path.write_bytes(b"old")
    with pytest.raises(ValueError):
        save(path, heatmap([[2.0]]))
    with pytest.raises(ValueError) as caught:
        save(tmp_path / "weights.doc", heatmap([[1.0]]))
    assert str(caught.value) == f"a picture's name must end in .png, .svg or .pdf: {tmp_path / 'weights.doc'}"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in PICTURES.values():
        with pytest.raises(ImportError) as caught:
            draw()
        assert str(caught.value) == 'pictures need Matplotlib: pip install "regard[cli]"'
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert any(need.startswith("matplotlib") for need in project["project"]["optional-dependencies"]["cli"])


@pytest.mark.slow
def test_letters_that_no_font_has_become_boxes_with_one_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unassigned = "\u0378"
    with pytest.warns(UserWarning, match="no installed font has some of the letters") as warned:
        axes = heatmap([[1.0]], [unassigned], ["ж"])
    assert len(warned) == 1
    with pytest.warns(UserWarning, match="no installed font has some of the letters") as warned:
        save(tmp_path / "a.png", heatmap([[1.0]], [unassigned], ["ж"]))
    assert len(warned) == 1  # Matplotlib adds none of its own
    assert axes.get_yticklabels()[0].get_text() == "\N{WHITE SQUARE}"
    assert axes.get_xticklabels()[0].get_text() == "ж"
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["explain", "--labels", f"a b c {unassigned}", "--png", str(tmp_path / "b.png")]) == 0
    stderr = capsys.readouterr().err
    assert stderr.startswith("regard explain: warning: no installed font has some of the letters")
    assert stderr.count("\n") == 1


def test_a_nan_weight_is_visible_in_a_picture() -> None:
    axes = heatmap([[np.nan, 1.0], [0.5, 0.0]])
    assert [text.get_text() for text in axes.texts] == ["nan", "100", "50"]
    (image,) = axes.images
    red, _, blue, _ = image.cmap(np.ma.masked_invalid([np.nan]))[0]
    assert red > blue


@pytest.mark.slow
def test_a_warning_is_reported_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    unassigned = "\u0378"
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for _ in range(2):  # once for each command
            assert main(["explain", "--labels", f"a b c {unassigned}", "--png", str(tmp_path / "b.png")]) == 0
    assert capsys.readouterr().err.count("warning:") == 2


@pytest.mark.slow
def test_a_flat_picture_has_a_minimal_height(tmp_path: Path) -> None:
    for shape in ((1, 500), (3, 200), (200, 3), (60, 200)):
        axes = heatmap(np.full(shape, 0.1))
        figure = root_figure(axes)
        figure.draw_without_rendering()
        height, width = axes.get_window_extent().size[::-1] / figure.dpi / shape  # inches of a cell
        assert max(height, width) <= 0.37
        for cell, count in zip((height, width), shape, strict=True):
            assert cell > 0.12 or cell * count > 7  # its label is legible, or the page is full
        labels = [label.get_window_extent() for label in axes.get_yticklabels()]
        assert not any(a.overlaps(b) for a, b in itertools.pairwise(labels))
    assert axes.get_ylabel() == "query"
    assert heatmap([[1.0]], ["a"], ["b"]).get_ylabel() == ""


def test_the_largest_weight_of_each_row_is_visible() -> None:
    weights = np.full((2, 30), 0.03)
    weights[0], weights[1, 7] = 0, 0.08
    weights[0, 5] = 1
    picture = terminal.heatmap(weights, color=False, width=70).split("\n")
    assert [row.count("░") for row in picture[1:3]] == [0, 2]
    assert picture[1].count("█") == 2


# styles, scales and notebooks

# Two sets of settings that differ from Matplotlib's: that of its first version, and some styles and more at once.
STYLES: dict[str, dict[str, Any]] = {
    "classic": matplotlib.style.library["classic"],
    "all": {
        **matplotlib.style.library["seaborn-v0_8-talk"],
        **matplotlib.style.library["ggplot"],
        **matplotlib.style.library["dark_background"],
        "text.usetex": True,
        "axes.grid": True,
        "image.origin": "lower",
        "image.cmap": "jet",
        "image.interpolation": "bilinear",
        "image.aspect": "auto",
        "font.family": "serif",
        "font.size": 30,
        "savefig.facecolor": "red",
        "savefig.transparent": True,
        "savefig.dpi": 40,
        "savefig.bbox": None,
        "figure.dpi": 30,
        "figure.autolayout": True,
        "path.sketch": (1, 100, 2),
        "lines.marker": "s",
        "axes.labelcolor": "red",
        "xtick.minor.visible": True,
        "axes.formatter.use_mathtext": True,
        "axes.unicode_minus": False,
        "text.hinting": "none",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
    },
}


PANEL = figures.Panel(
    "loss", {"a": (range(1, 200), np.linspace(9, 1, 199)), "b": ([9, 99], [3, 2])}, "lowest"
)
PICTURES: dict[str, Callable[[], Any]] = {
    "heatmap": lambda: heatmap(weights_of(0, 4, 5), list("abcd"), title="$x$"),
    "signed": lambda: heatmap(weights_of(0, 30, 40) - 0.5, signed=True, vmax=0.1),
    "heatmaps": lambda: heatmaps(weights_of(0, 4, 5)[None] * [[[1.0]], [[0.5]]]),
    "curves": lambda: figures.curves([PANEL], title="run"),
    "by_length": lambda: figures.by_length(["1", "2"], {"one": [1, 2], "two": [3, np.nan]}, [9, 5]),
    "lanes": lambda: lanes(regard.attend(*[weights_of(0, 9, 3)] * 3), 1, "$q$", list("abcdefghi")),
    "captioned": lambda: figures.captioned(np.eye(8), np.eye(4), list("abcd"), grid=(2, 2), title="t"),
}


def every_picture(folder: Path) -> list[bytes]:
    """All types of pictures, saved by the package, by the user, and displayed by a notebook."""
    images = []
    for draw in PICTURES.values():
        one: Any = draw()
        (one if isinstance(one, Figure) else root_figure(one)).savefig(folder / "user.png")
        images += [(folder / "user.png").read_bytes(), one._repr_png_()]
    save(folder / "ours.png", heatmap(weights_of(0, 4, 5)))
    return [*images, (folder / "ours.png").read_bytes()]


@functools.cache
def plain_pictures() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return every_picture(Path(folder))


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
def test_pictures_are_the_same_under_every_style(style: str, tmp_path: Path) -> None:
    plain = plain_pictures()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some styles use what has been deprecated
        matplotlib.rcParams.update(STYLES[style])
        before = {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
        styled = every_picture(tmp_path)
        after = {name: matplotlib.rcParams[name] for name in matplotlib.rcParams if name != "backend"}
    assert styled == plain
    assert after == before


@pytest.mark.parametrize(("face", "expected"), [("black", "white"), ("#ffffee", "black"), ("none", "black")])
def test_labels_are_legible_on_the_figure_of_the_user(face: str, expected: str) -> None:
    with matplotlib.rc_context(
        {"axes.grid": True, "text.usetex": True, "xtick.color": "red", "text.color": "red"}
    ):
        ax = Figure(facecolor=face).add_subplot()
        own = ax.text(0, 0, "$x$", color="green")
        heatmap([[0.5, 0.5]], columns=["a", "b"], ax=ax, title="$t$")
    bar = ax.images[0].colorbar.ax
    words = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.yaxis.label, ax.title, *bar.get_xticklabels()]
    assert {word.get_color() for word in words} == {expected}
    assert not any(word.get_usetex() for word in [*words, *ax.texts[1:]])
    assert not any(line.get_visible() for line in ax.get_xgridlines() + ax.get_ygridlines())
    assert root_figure(ax).get_facecolor() == matplotlib.colors.to_rgba(face)
    assert (own.get_color(), own.get_parse_math()) == ("green", True)  # what the user wrote stays


@pytest.mark.slow
@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_a_notebook_displays_the_picture_and_not_its_name(draw: Callable[[], Any]) -> None:
    picture = draw()
    again = pickle.loads(pickle.dumps(picture))
    shown = picture._repr_png_()
    assert shown.startswith(b"\x89PNG")
    assert again._repr_png_() == shown


def test_axes_can_be_pickled_and_those_of_the_user_are_the_user_s_to_show() -> None:
    axes = heatmap([[0.25, 0.75]])
    again: Any = pickle.loads(pickle.dumps(axes))
    assert again.figure.axes[0] is again
    assert not hasattr(heatmap([[1.0]], ax=root_figure(axes).add_subplot()), "_repr_png_")


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, 100, 2000])
def test_ticks_of_many_rows_have_different_numbers(count: int) -> None:
    for names in (None, list(map(str, range(count)))):
        axes = heatmap(np.full((count, count), 1 / count), names, names)
        for labels, ticks in (
            (axes.get_xticklabels(), axes.get_xticks()),
            (axes.get_yticklabels(), axes.get_yticks()),
        ):
            first = 1 if names is None else 0
            assert [label.get_text() for label in labels] == [str(round(tick) + first) for tick in ticks]
    axes = heatmap(np.full((count, 1), 1.0), [f"w{i}" for i in range(count)])
    label, tick = axes.get_yticklabels()[-1].get_text(), round(axes.get_yticks()[-1])
    assert label in (f"w{tick}", f"{tick + 1} w{tick}")


def brightness(image: Any, value: float) -> float:
    return float(np.mean(image.to_rgba(np.array([[value]]))[0, 0, :3]))


@pytest.mark.slow
@pytest.mark.parametrize("keys", [2, 3, 8, 40, 100, 3000])
def test_uniform_weights_are_light_and_have_a_scale(keys: int) -> None:
    axes = heatmap(np.full((4, keys), 1 / keys))
    assert brightness(axes.images[0], 1 / keys) > (0.55 if keys > 3 else 0.4)
    assert brightness(heatmap(np.eye(keys)).images[0], 1.0) < 0.25
    root_figure(axes).draw_without_rendering()
    bar = axes.images[0].colorbar.ax
    numbers = [label.get_text() for label in [*bar.get_xticklabels(), *bar.get_yticklabels()]]
    assert len(numbers) >= 2
    assert all(number.endswith(" %") for number in numbers)


def test_vmax_is_the_darkest_and_larger_weights_are_marked() -> None:
    image = heatmap([[0.9, 0.1]], vmax=0.2).images[0]
    assert image.get_clim() == (0, 0.2)
    assert image.colorbar.extend == "max"
    assert heatmap([[0.1, 0.1]], vmax=0.2).images[0].colorbar.extend == "neither"
    assert heatmap([[-3.0, 1.0]], signed=True, vmax=2).images[0].colorbar.extend == "min"
    assert heatmaps([[[0.9, 0.1]]], vmax=0.5).axes[0].images[0].get_clim() == (0, 0.5)
    for wrong in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="vmax must be a positive number"):
            heatmap([[1.0]], vmax=wrong)


def scale_label(axes: Any) -> str:
    bar = root_figure(axes).axes[-1]
    return str(bar.get_xlabel() + bar.get_ylabel())


@pytest.mark.slow
def test_masked_cells_are_missing_whatever_their_value() -> None:
    for below in (0.5, 7.0, -1.0, np.nan):
        weights = np.ma.array([[0.5, below], [0.25, 0.75]], mask=[[False, True], [False, False]])
        for axes in (heatmap(weights), heatmaps(weights[None]).axes[0], heatmaps([weights]).axes[0]):
            (cells,) = axes.images
            assert cells.get_alpha().tolist() == [[1, 0], [1, 1]]
            assert cells.get_clim() == (0, 1)
            assert "hatched: masked" in scale_label(axes)
        assert [text.get_text() for text in heatmap(weights).texts] == ["50", "25", "75"]
    assert "hatched" not in scale_label(heatmap(np.ma.array([[0.5, 0.5]])))


@pytest.mark.slow
def test_a_masked_cell_is_hatched_and_a_weight_of_zero_is_not() -> None:
    axes = heatmap(np.ma.array([[0.5, 0.0], [0.0, 1.0]], mask=[[False, True], [False, False]]))
    figure = root_figure(axes)
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[::-1, :, :3].astype(int)

    def shades(row: int, column: int) -> np.ndarray:
        (left, low), (right, high) = axes.transData.transform(
            [(column - 0.4, row + 0.4), (column + 0.4, row - 0.4)]
        )
        return pixels[int(low) : int(high), int(left) : int(right)].reshape(-1, 3)

    assert np.ptp(shades(0, 1)) > 60
    assert np.ptp(shades(0, 1), axis=1).max() < 3  # grey
    assert np.ptp(shades(1, 0), axis=0).max() == 0


@pytest.mark.slow
def test_signed_maps_are_centred_and_minus_infinity_is_missing() -> None:
    axes = heatmap([[2.0, -np.inf], [-4.0, 0.0], [np.nan, 1.5]], signed=True)
    (cells,) = axes.images
    assert cells.get_clim() == (-4, 4)
    assert cells.get_alpha().tolist() == [[1, 0], [1, 1], [1, 1]]
    assert [text.get_text() for text in axes.texts] == ["2.0", "\N{MINUS SIGN}4.0", "nan", "1.5"]
    middle, low, high = (cells.to_rgba(np.array([[x]]))[0, 0] for x in (0.0, -2.0, 2.0))
    assert np.ptp(middle[:3]) < 0.02  # grey
    assert low[0] > low[2] + 0.2
    assert high[2] > high[0] + 0.2
    for odd in ([[0.0]], [[-np.inf]], [[1e308, -1.7e308]], [[1e-320]], [[-(2**62), 3]], [[True, False]]):
        root_figure(heatmap(odd, signed=True)).draw_without_rendering()
    with pytest.raises(ValueError, match="signed=True"):
        heatmap([[-1.0]])


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("shape", [(2000, 2000), (1501, 7), (3, 4001), (800, 800)])
def test_large_maps_are_drawn_in_blocks_and_lose_no_peak(shape: tuple[int, int], signed: bool) -> None:
    random = np.random.default_rng(0)
    weights = random.normal(size=shape) if signed else random.random(shape) / 4
    weights[1, 2] = -9 if signed else 1
    weights[shape[0] - 1, 0] = np.nan
    axes = heatmap(weights, signed=signed)
    drawn = np.ma.filled(axes.images[0].get_array(), np.nan)
    rows, columns = (round(abs(bound) / size + 0.4) for bound, size in zip(shape, drawn.shape, strict=True))
    assert drawn.shape == (-(-shape[0] // rows), -(-shape[1] // columns))
    for i, j in [(0, 2 // columns), *random.integers(drawn.shape, size=(50, 2)).tolist()]:
        block = weights[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns].ravel()
        np.testing.assert_equal(drawn[i, j], block[np.argmax(np.abs(block))])
    assert np.isnan(drawn[-1, 0])
    assert axes.get_xlim() == (-0.5, shape[1] - 0.5)
    assert axes.get_ylim() == (shape[0] - 0.5, -0.5)
    bar = axes.images[0].colorbar.ax
    labels = bar.get_xlabel() + bar.get_ylabel()
    assert labels == f"largest {'magnitude' if signed else 'weight'} of {rows} × {columns}"
    root_figure(axes).draw_without_rendering()
    box = axes.get_window_extent()
    assert min(box.height / drawn.shape[0], box.width / drawn.shape[1]) >= 1  # dots of a screen


@pytest.mark.slow
def test_a_map_in_small_axes_of_the_user_s_is_drawn_in_blocks() -> None:
    axes = heatmap(np.eye(400), ax=Figure((3, 3)).add_subplot())
    drawn = axes.images[0].get_array()
    assert len(drawn) < 200
    assert np.diagonal(drawn).min() == 1


@pytest.mark.slow
def test_no_text_is_read_as_a_formula() -> None:
    odd = "$\\frac{$ _^"
    drawn = [
        root_figure(heatmap([[1.0]], [odd], [odd], title=odd)),
        heatmaps([[[1.0]]], [odd], [odd], names=[odd], title=odd),
        figures.curves([figures.Panel(odd, {odd: ([1, 2], [2, 1])})], along=odd, title=odd),
        root_figure(figures.by_length([odd], {odd: [1]}, measure=odd, along=odd)),
    ]
    for one in drawn:
        one.draw_without_rendering()
        texts = [text for text in one.findobj(Text) if odd in text.get_text()]
        assert len(texts) >= 3
        assert not any(text.get_parse_math() for text in texts)


# several heads


@pytest.mark.parametrize(
    ("shape", "grid"),
    [
        ((1, 3, 4), (1, 1)),
        ((2, 3, 4, 5), (2, 3)),
        pytest.param((5, 3, 4), (2, 4), marks=pytest.mark.slow),
        pytest.param((6, 2, 1, 9), (6, 2), marks=pytest.mark.slow),
    ],
)
def test_heads_are_in_order_with_one_scale_and_labels_at_the_edges(
    shape: tuple[int, ...], grid: tuple[int, int]
) -> None:
    weights = np.random.default_rng(0).random(shape)
    rows, columns = (
        [f"{letter}{i}" for i in range(size)] for letter, size in zip("rc", shape[-2:], strict=True)
    )
    figure = heatmaps(weights, rows, columns)
    heads = [ax for ax in figure.axes if ax.images]
    each = weights.reshape(-1, *shape[-2:])
    assert [ax.get_subplotspec().get_gridspec().get_geometry() for ax in heads] == [grid] * len(each)
    for number, (ax, one) in enumerate(zip(heads, each, strict=True)):
        down, across = divmod(number, grid[1])
        assert (ax.get_subplotspec().rowspan.start, ax.get_subplotspec().colspan.start) == (down, across)
        (image,) = ax.images
        assert (image.get_array() == one).all()
        assert image.get_clim() == (0.0, max(weights.max(), min(1.0, 4 / shape[-1])))
        assert [label.get_text() for label in ax.get_yticklabels()] == (rows if across == 0 else [])
        assert [label.get_text() for label in ax.get_xticklabels()] == (columns if down == 0 else [])
    last = f"head {shape[0]}" if len(shape) == 3 else f"layer {shape[0]}, head {shape[1]}"
    assert heads[-1].get_title() == last


@pytest.mark.slow
def test_labels_of_many_heads_are_legible() -> None:
    figure = heatmaps(np.full((2, 8, 60, 45), 0.1), title="word " * 56)
    figure.draw_without_rendering()
    assert max(figure.get_size_inches()) < 28
    labels = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) >= 10
    assert not any(a.overlaps(b) for a, b in itertools.pairwise(labels))
    boxes = [ax.get_window_extent() for ax in figure.axes[:16]]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert min(box.width for box in boxes) > 0.7 * figure.dpi


@pytest.mark.slow
def test_labels_of_a_dozen_heads_are_legible_in_a_column_of_text() -> None:
    words = ["l'", "icône", "pour", "ouvrir", "le", "fichier", "sélectionné", "est", "là", "."]
    figure = heatmaps(np.full((3, 4, 10, 10), 0.1), words, words)
    figure.draw_without_rendering()
    column = 830  # dots, of a page on a screen
    for labels in (figure.axes[0].get_yticklabels(), figure.axes[0].get_xticklabels()):
        assert labels[0].get_fontsize() / 72 / figure.get_size_inches()[0] * column >= 7.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", [(3, 8, 1, 1), (3, 8, 2, 2), (2, 4, 2, 2), (8, 30, 1), (3, 16, 3, 2), (2, 4, 30, 3)]
)
def test_the_names_of_narrow_heads_do_not_overlap(shape: tuple[int, ...]) -> None:
    figure = heatmaps(np.full(shape, 0.1))
    figure.draw_without_rendering()
    titles = [ax.title.get_window_extent() for ax in figure.axes if ax.images]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(titles, 2))


@pytest.mark.parametrize(
    ("weights", "options", "error"),
    [
        ([[1.0]], {}, "(h, n, m) or (layers, h, n, m) arrays"),
        (np.zeros((2, 2, 2, 1, 1)), {}, "weights are (2, 2, 2, 1, 1)"),
        (np.zeros((257, 1, 1)), {}, "up to 256 heads"),
        (np.zeros((0, 1, 1)), {}, "at least one"),
        (
            [[regard.attend(np.eye(2), np.eye(2), np.eye(2))]],
            {},
            "[attention.weights for attention in recorded]",
        ),
        (np.zeros((2, 2, 2, 2, 2)), {}, "[attention.weights[sentence] for attention in recorded]"),
        ([[[0.5, 2.0]], [[0.5, 0.5]]], {}, "2.0 in row 1, column 2 of head 1"),
        ([np.zeros((2, 1, 1)), np.zeros((2, 1, 3))], {}, "(2, 1, 1) and (2, 1, 3)"),
        (np.zeros((2, 1, 1)), {"names": ["one"]}, "2 heads"),
        (np.zeros((2, 1, 1)), {"rows": ["a", "b"]}, "1 rows"),
    ],
)
def test_invalid_heads(weights: Any, options: dict[str, Any], error: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        save(tmp_path / "heads.png", heatmaps(weights, **options))
    assert error in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_explain_draws_all_heads_unless_one_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn: list[np.ndarray] = []
    for name in ("heatmap", "heatmaps"):
        plain = getattr(weights_figure, name)
        monkeypatch.setattr(
            weights_figure,
            name,
            lambda x, *rest, plain=plain, **options: (drawn.append(x), plain(x, *rest, **options))[1],
        )
    rng = np.random.default_rng(0)
    path, picture = tmp_path / "x.npy", str(tmp_path / "x.png")
    for shape, chosen, shown in (
        ((2, 3, 4, 5), [], (2, 3, 4, 4)),
        ((3, 4, 5), [], (3, 4, 4)),
        ((1, 1, 4, 5), [], (4, 4)),
        ((2, 3, 4, 5), ["--at", "2,1"], (4, 4)),
        ((2, 3, 4, 5), ["--at", "2"], (3, 4, 4)),
        ((2, 3, 2, 4, 5), ["--at", "2"], (3, 2, 4, 4)),
    ):
        np.save(path, rng.standard_normal(shape))
        assert main(["explain", str(path), "--png", picture, *chosen]) == 0
        assert drawn[-1].shape == shown
        assert Path(picture).read_bytes().startswith(b"\x89PNG")
    for shape in ((2, 2, 2, 4, 5), (257, 1, 1)):
        np.save(path, rng.standard_normal(shape))
        assert main(["explain", str(path), "--png", picture]) == 2
        assert "some with --at" in capsys.readouterr().err
    assert main(["explain", str(path), "--at", "258"]) == 2
    assert "in the leading dimensions (257,), from 1: (258,)" in capsys.readouterr().err


# progress


@pytest.mark.parametrize("title", ["word " * 56, pytest.param("e" * 900, marks=pytest.mark.slow)])
def test_a_title_is_hardly_wider_than_its_picture(title: str) -> None:
    def size(title: str | None) -> np.ndarray:
        return np.array(root_figure(heatmap(np.eye(12), title=title)).get_tightbbox().size)

    assert (size(title) <= size(None) * 1.3 + [0, 0.5]).all()


def test_progress_in_a_pipe_is_a_line_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with Progress(10, "training", stream=stream, every=30.0) as progress:
        for step in range(10):
            now[0] += 10.0
            progress.advance(loss=1.0 / (step + 1))
        progress.write("kept")
    assert stream.getvalue().split("\n") == [
        "training: 3 of 10 (30 %), loss 0.333, 1:10 left",
        "training: 6 of 10 (60 %), loss 0.167, 0:40 left",
        "training: 9 of 10 (90 %), loss 0.111, 0:10 left",
        "training: 10 of 10 (100 %), loss 0.100, done in 1:40",
        "kept",
        "",
    ]


def test_progress_shows_how_many_steps_are_done_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = io.StringIO()
    with Progress(1010, "reading images", stream=stream, every=0.0, done=10, unit="pictures") as progress:
        for seconds, steps in ((2.0, 5), (0.0, 495), (0.5, 500)):
            now[0] += seconds
            progress.advance(steps)
    with Progress(3, "reading vectors", stream=stream, every=0.0, unit="examples") as progress:
        progress.advance(3)  # no time has passed
    assert stream.getvalue().split("\n") == [
        "reading images: 15 of 1010 (1 %), 2.5 pictures/s, 6:38 left",
        "reading images: 510 of 1010 (50 %), 250 pictures/s, 0:02 left",
        "reading images: 1010 of 1010 (100 %), 400 pictures/s, done in 0:02",
        "reading vectors: 3 of 3 (100 %), 3,000 examples/s, done in 0:00",
        "",
    ]


def test_progress_on_a_terminal_is_a_bar_with_loss_and_time_left() -> None:

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with Progress(2, "training", stream=stream) as progress:
        progress.advance(2, loss=0.25)
    last = stream.getvalue().split("\r")[-1]
    assert "training 100 %" in last
    assert "loss 0.250" in last
    assert "left" in last


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"digits": -1}, "digits must be at least 0. Got -1 instead."),
        ({"digits": 18}, "digits must be at most 17. Got 18 instead."),
        ({"digits": 1.5}, "digits must be an integer. Got 1.5 instead."),
        ({"most_rows": 0}, "most_rows must be at least 1. Got 0 instead."),
        ({"values": [["a"]]}, "values must hold real numbers. Got dtype <U1 instead."),
        ({"values": [[1j]]}, "values must hold real numbers. Got dtype complex128 instead."),
    ],
)
def test_options_of_tables_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        terminal.table(**{"values": [[1.0]], **options})
    assert str(caught.value).splitlines()[0] == message
