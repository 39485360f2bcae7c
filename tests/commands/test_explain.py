"""`regard explain`: the two lessons it reproduces, the user's own arrays, and invalid input."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from one_test import in_one_test

import regard
from regard.cli import main

DRAWN = 'a word is a vector here, as in "1 0; 0 1"; regard explain "the cat sat" draws one for each word'
FROM_SCRATCH = [
    *("explain", "--query-weight", "2 0 1; 0 0 1; 2 0 1"),
    *("--key-weight", "0 0 0; 0 2 0; 0 0 2", "--value-weight", "0 0 2; 2 2 0; 2 2 0"),
]


@pytest.fixture(autouse=True)
def _in_a_pipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def explain(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def step(output: str, start: str) -> np.ndarray:
    """The four rows of the table of one step, without their names of two words."""
    lines = output.split(f"\n{start}")[1].split("\n\n")[2].split("\n")
    return np.array([[float(cell) for cell in line.split()[2:]] for line in lines[-4:]])


# the lessons


def test_without_arguments_it_prints_the_lesson_on_queries_keys_and_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every number that the notebook prints, to its digits."""
    output = explain(capsys, "--digits", "12")
    assert "2  0  2                2  2  2              1  1  0" in output  # the first rows of W_Q, W_K, W_V
    assert "2  1  2                0  1  1              0  0  0" in output  # and the last
    assert "4  0  2          2  4  3       1  2  1" in output  # row 3 of Q, K, V
    np.testing.assert_array_equal(
        step(output, "Step 1"), [[8, 2, 10, 2], [4, 0, 4, 0], [12, 2, 14, 2], [10, 4, 14, 3]]
    )
    weights = [
        [2.36089863e-01, 7.38987555e-03, 7.49130386e-01, 7.38987555e-03],
        [4.54826323e-01, 4.51736775e-02, 4.54826323e-01, 4.51736775e-02],
        [2.39275049e-01, 7.43870015e-04, 7.59237211e-01, 7.43870015e-04],
        [8.99501754e-02, 2.81554063e-03, 9.05653685e-01, 1.58059922e-03],
    ]
    np.testing.assert_allclose(step(output, "Step 2"), weights, rtol=5e-9)
    context = [
        [0.98522025, 1.74174051, 0.75652026],
        [0.90965265, 1.40965265, 0.5],
        [0.99851226, 1.75849334, 0.75998108],
        [0.99560386, 1.90407309, 0.90846923],
    ]
    np.testing.assert_allclose(step(output, "Step 3"), context, atol=5e-9)


def test_words_and_seed_are_those_of_the_lesson(capsys: pytest.CaptureFixture[str]) -> None:
    default = explain(capsys)
    assert explain(capsys, "--words", "1 0 0; 0 1 0; 1 1 0; 0 0 1", "--seed", "42") == default
    assert explain(capsys, "--seed", "43") != default


def test_the_lesson_from_scratch_with_its_weights(capsys: pytest.CaptureFixture[str]) -> None:
    output = explain(capsys, *FROM_SCRATCH[1:])
    np.testing.assert_array_equal(step(output, "Step 1")[0], [0, 0, 0, 2])
    assert "word 1  0.16199  0.16199  0.16199  0.51402" in output
    assert step(output, "Step 3").tolist() == [
        [1.67601, 1.67601, 0.64798],
        [1.67601, 1.67601, 0.64798],
        [1.84696, 1.84696, 0.30608],
        [1.67601, 1.67601, 0.64798],
    ]


def test_drawing_weights_leaves_the_global_random_state_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = np.random.get_state()[1].tolist()
    explain(capsys)
    assert np.random.get_state()[1].tolist() == before


# the user's own arrays


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    shapes = {"queries": (4, 3), "keys": (6, 3), "values": (6, 2)}
    result = {name: random.normal(size=shape).round(2) for name, shape in shapes.items()}
    np.savez(tmp_path / "long.npz", **result)
    np.savez_compressed(tmp_path / "short.npz", **{name[0]: array for name, array in result.items()})
    for name, array in result.items():
        np.save(tmp_path / f"{name}.npy", np.asfortranarray(array))
        np.savetxt(tmp_path / f"{name}.csv", array, fmt="%.2f", delimiter=",")
        np.savetxt(tmp_path / f"{name}.txt", array, fmt="%.2f", delimiter=" ")
    return result


@pytest.mark.parametrize("kind", ["long.npz", "short.npz", "npy", "csv", "txt"])
def test_all_types_of_files_give_the_same_output(
    arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    files = [kind] if kind.endswith("npz") else [f"{name}.{kind}" for name in arrays]
    output = explain(capsys, *files, "--digits", "9")
    attention = regard.attend(*arrays.values())
    np.testing.assert_allclose(step(output, "Step 1"), attention.scores, atol=1e-8)
    np.testing.assert_allclose(step(output, "Step 2"), attention.weights, atol=1e-8)
    np.testing.assert_allclose(step(output, "Step 3"), attention.context, atol=1e-8)


@pytest.mark.parametrize("kind", ["npz", "npy", "csv"])
def test_endings_may_be_capitals(
    arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    Path(f"long.{kind}" if kind == "npz" else f"queries.{kind}").rename(f"X.{kind.upper()}")
    rest = [] if kind == "npz" else [f"{name}.{kind}" for name in list(arrays)[1:]]
    output = explain(capsys, f"X.{kind.upper()}", *rest, "--digits", "9")
    np.testing.assert_allclose(step(output, "Step 3"), regard.attend(*arrays.values()).context, atol=1e-8)


def test_one_file_is_self_attention_and_two_are_queries_and_memory(
    arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    one = step(explain(capsys, "queries.npy", "--digits", "9"), "Step 3")
    np.testing.assert_allclose(one, regard.attend(*[arrays["queries"]] * 3).context, atol=1e-8)
    two = step(explain(capsys, "queries.npy", "keys.npy", "--digits", "9"), "Step 3")
    np.testing.assert_allclose(
        two, regard.attend(arrays["queries"], arrays["keys"], arrays["keys"]).context, atol=1e-8
    )


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--score", "dot", "--scale", "0.5"], {"score": "dot", "scale": 0.5}),
        (["--score", "cosine", "--softcap", "0.5"], {"score": "cosine", "softcap": 0.5}),
        (["--score", "gaussian"], {"score": regard.scores.gaussian()}),
        (["--normalize", "entmax15"], {"normalize": "entmax15"}),
        (["--normalize", "sparsemax"], {"normalize": "sparsemax"}),
        (["--causal", "--align", "end"], {"mask": regard.mask.causal("end")}),
        (
            ["--causal", "--window", "1", "2", "--align", "start"],
            {"mask": regard.mask.causal("start") & regard.mask.window(1, 2, "start")},
        ),
        (["--mask", "mask.csv"], {"mask": np.tri(4, 6, 1, dtype=bool)}),
    ],
)
def test_options_are_those_of_attend(
    arrays: dict[str, np.ndarray],
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    options: dict[str, object],
) -> None:
    np.savetxt("mask.csv", np.tri(4, 6, 1), fmt="%d", delimiter=",")
    output = explain(capsys, "long.npz", "--digits", "9", *flags)
    np.testing.assert_allclose(
        step(output, "Step 3"), regard.attend(*arrays.values(), **options).context, atol=1e-8
    )


def test_learned_scores_read_their_arrays_by_name(
    arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(1)
    learned = {
        "query_weight": random.normal(size=(3, 5)),
        "key_weight": random.normal(size=(3, 5)),
        "vector": np.ones(5),
    }
    np.savez("learned.npz", **learned)
    output = explain(
        capsys, "long.npz", "--score", "additive", "--score-arrays", "learned.npz", "--digits", "9"
    )
    attention = regard.attend(*arrays.values(), score=regard.scores.additive(**learned))
    np.testing.assert_allclose(step(output, "Step 1"), attention.scores, atol=1e-8)


def normal(seed: int, before: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Draws of NumPy's legacy generator after `before` matrices of 3 x 3: normal / sqrt(rows), to two digits."""
    random = np.random.RandomState(seed)
    for _ in range(before):
        random.randint(3, size=(3, 3))
    return [np.round(random.normal(size=shape) / np.sqrt(shape[0]), 2) for shape in shapes]


@pytest.mark.parametrize(
    ("score", "shapes"),
    [
        ("general", [(3, 3)]),
        ("additive", [(3, 3), (3, 3), (3,)]),
        ("concat", [(6, 3), (3,)]),
        ("location", [(3, 6)]),
    ],
)
def test_arrays_of_a_score_that_are_not_given_are_drawn(
    arrays: dict[str, np.ndarray],
    capsys: pytest.CaptureFixture[str],
    score: str,
    shapes: list[tuple[int, ...]],
) -> None:
    factory = getattr(regard.scores, score)
    for flags, seed in (["--seed", "5"], 5), ([], 42):
        output = explain(capsys, "long.npz", "--score", score, "--digits", "9", *flags)
        assert output.startswith(f"arrays of the score drawn with seed {seed}\n\n")
        expected = regard.attend(*arrays.values(), score=factory(*normal(seed, 0, *shapes)))
        np.testing.assert_allclose(step(output, "Step 1"), expected.scores, atol=1e-8)


def test_weights_are_drawn_before_the_arrays_of_the_score(capsys: pytest.CaptureFixture[str]) -> None:
    output = explain(capsys, "--score", "additive", "--seed", "5", "--digits", "9")
    random = np.random.RandomState(5)
    words = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
    queries, keys, values = (words @ random.randint(3, size=(3, 3)) for _ in range(3))
    score = regard.scores.additive(*normal(5, 3, (3, 3), (3, 3), (3,)))
    expected = regard.attend(queries, keys, values, score=score)
    np.testing.assert_allclose(step(output, "Step 3"), expected.context, atol=1e-8)
    output = explain(capsys, *FROM_SCRATCH[1:], "--score", "additive", "--seed", "5")
    assert output.startswith("4 words, and the weights given; arrays of the score drawn with seed 5\n")


@pytest.mark.parametrize("name", ["inputs", "scores", "logits", "weights", "context", "row", "1", "2", "3"])
def test_one_step_alone_is_that_of_python(
    arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    story = regard.explain(**arrays)
    assert (
        explain(capsys, "long.npz", "--step", name) == story.step(int(name) if name in "123" else name) + "\n"
    )


def test_all_steps_are_printed_without_a_pause_where_nobody_can_press_enter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    each = [
        explain(capsys, "--step", name)
        for name in ("inputs", "scores", "logits", "weights", "context", "row")
    ]
    assert explain(capsys, "--step") == "\n".join(each)


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("keys", "shown", "not_seen"),
    [
        ("", "queries = words", "Step 1"),
        ("\n\n", "From scores to logits", "Step 2"),
        ("\n" * 5, "term by term", "of 6"),
    ],
)
def test_on_a_terminal_enter_prints_the_next_step(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    keys: str,
    shown: str,
    not_seen: str,
) -> None:
    monkeypatch.setattr("sys.stdin", Keyboard(keys))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    output = explain(capsys, "--step")
    assert shown in output
    assert not_seen not in output
    assert "Enter: scores, Ctrl-D: the end " in output
    assert output.endswith("\n")


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (["weight", "foo"], "hold only weight for --score general: it holds weight, foo"),
        (["foo"], "hold weight for --score general: it holds only foo"),
        ([], "hold weight for --score general: it holds nothing"),
    ],
)
def test_other_learned_arrays_are_reported(
    capsys: pytest.CaptureFixture[str], held: list[str], message: str
) -> None:
    np.savez("learned.npz", **{name: np.eye(3) for name in held})
    error = fails(capsys, "--score", "general", "--score-arrays", "learned.npz")
    assert error == f"regard explain: error: learned.npz must {message}\n"


def test_a_mask_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    output = explain(capsys, "--causal")
    assert re.search(r"\nlogit = .*, or minus infinity where the mask hides the key\n", output)
    assert output.count('\n"-": the key is not visible to the query\n') == 1
    assert "\nword 1 attends to word 1 (100.0 %); no other key is visible\n" in output
    assert "mask" not in explain(capsys)


@pytest.mark.parametrize(
    ("flags", "logit"),
    [
        ([], "logit = 30 * tanh(score / sqrt(3) / 30), between -30 and 30"),
        (["--scale", "0.5"], "logit = 30 * tanh(score * 0.5 / 30), between -30 and 30"),
        (["--score", "dot"], "logit = 30 * tanh(score / 30), between -30 and 30"),
    ],
)
def test_a_cap_is_printed(capsys: pytest.CaptureFixture[str], flags: list[str], logit: str) -> None:
    assert logit in explain(capsys, "--softcap", "30", *flags).split("\n")


def test_one_head_of_many_is_chosen_with_its_key_head(capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(2)
    queries, keys, values = (
        random.normal(size=(2, 4, 4, 3)),
        random.normal(size=(2, 2, 6, 3)),
        random.normal(size=(6, 2)),
    )
    np.savez("heads.npz", q=queries, k=keys, v=values)
    output = explain(capsys, "heads.npz", "--at", "2,4", "--digits", "9")
    assert output.startswith("leading dimensions (2, 4); shown: 2,4 (choose with --at)\n")
    attention = regard.attend(queries[1, 3], keys[1, 1], values)
    np.testing.assert_allclose(step(output, "Step 3"), attention.context, atol=1e-8)
    assert f"{keys[1, 1, 5, 2]:.9f}" in output


def test_labels_name_queries_and_keys(
    arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    output = explain(
        capsys, "long.npz", "--query-labels", "le chat est là", "--key-labels", "the cat is over there ."
    )
    assert re.search(r"\n +the +cat +is +over +there +\.\n", output)
    assert re.search(r"\nle attends to (the|cat|is|over|there|\.) \(", output)
    assert "le, term by term" in output


def test_the_row_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert "word 3, term by term" in explain(capsys, "--row", "3")


@pytest.mark.slow
def test_the_picture_is_written(arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    explain(capsys, "long.npz", "--png", "weights.png")
    assert Path("weights.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_is_that_of_python(
    arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str]
) -> None:
    story = explain(capsys, "long.npz", "--causal", "--align", "end", "--row", "2", "--html", "page.html")
    assert story == explain(capsys, "long.npz", "--causal", "--align", "end", "--row", "2")
    expected = regard.explain(**arrays, mask=regard.mask.causal("end"), row=1).in_browser().html
    assert Path("page.html").read_text("utf-8") == expected
    explain(capsys, "--html", "page.html", "--force")
    assert Path("page.html").read_text("utf-8") != expected


def test_large_arrays_are_cut_and_their_shapes_named(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("large.npy", np.random.default_rng(0).normal(size=(300, 64)))
    output = explain(capsys, "large.npy")
    assert "queries (300, 64)" in output
    assert "and so on for 294 more" in output
    assert len(output.split("\n")) < 100
    assert max(map(len, output.split("\n"))) <= 120


def test_colour_is_for_terminals(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = explain(capsys)
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    colored = explain(capsys)
    assert len(re.findall(r"\x1b\[38;5;\d+;48;5;\d+m", colored)) == 16
    weights = [line.split() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).split("\n")]
    assert weights == [line.split() for line in plain.split("\n")]


# invalid input


@in_one_test(
    ("name", "content", "error"),
    [
        (
            "a.csv",
            "1,2\n\n3,4,5\n",
            "a.csv, line 3: every line must have as many numbers: 3 found, 2 in the first line",
        ),
        ("a.csv", "1,2\n3,x\n", "a.csv, line 2, column 2: 'x' is not a number"),
        ("a.csv", "1,2\n3,\n", "a.csv, line 2, column 2: '' is not a number"),
        ("a.csv", "1,1_0\n", "a.csv, line 1, column 2: '1_0' is not a number"),
        ("a.csv", "1,2\n3,nan\n", "a.csv must hold finite numbers. Got nan in row 2, column 2 instead."),
        ("a.csv", "1,-inf\n", "a.csv must hold finite numbers. Got -inf in row 1, column 2 instead."),
        ("a.csv", "\n \n", "there are no numbers in a.csv"),
        (
            "a.csv",
            b"1,2\n3,\xe9\n",
            "a.csv, line 2: not UTF-8 (byte 3 is 0xe9); hint: --encoding of the command"
            " names another, such as windows-1252",
        ),
        ("a.npz", "hello", "a.npz is not an .npz file: File is not a zip file"),
        (
            "a.npz",
            {"q": np.eye(2), "x": np.eye(2)},
            "a.npz must hold the arrays queries, keys, values (or q, k, v): it holds only q, x",
        ),
        (
            "a.npz",
            {"q": np.eye(2), "k": np.eye(2), "v": np.array(["a"])},
            "a.npz:v: an array must hold real numbers. Got dtype <U1 instead.",
        ),
        (
            "a.npy",
            np.array([[1, np.nan]]),
            "a.npy must hold finite numbers. Got nan in row 1, column 2 instead.",
        ),
        (
            "a.npy",
            np.array([[[1, np.inf]]]),
            "a.npy must hold finite numbers. Got inf at index (1, 1, 2) from 1 instead.",
        ),
        (
            "a.npy",
            np.arange(3),
            "queries must have at least 2 dimensions: 1; hint: one vector is queries[None, :];"
            " one number for each row is queries[:, None]",
        ),
    ],
)
def test_a_file_that_is_no_input_is_one_line_and_2(
    capsys: pytest.CaptureFixture[str], name: str, content: object, error: str
) -> None:
    if isinstance(content, dict):
        np.savez(name, **content)
    elif isinstance(content, np.ndarray):
        np.save(name, content)
    else:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert fails(capsys, name) == f"regard explain: error: {error}\n"


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["explain", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


@in_one_test(
    ("arguments", "error"),
    [
        (["none.npy"], "none.npy: No such file or directory"),
        (["."], ".: Is a directory"),
        (
            ["queries.npy", "values.npy", "keys.npy"],
            "queries and keys must share their last dimension d: 3 and 2; hint: scores.general and"
            " scores.additive compare different sizes",
        ),
        (
            ["queries.npy", "keys.npy", "queries.npy"],
            "keys and values must share their length m: 6 and 4; hint: every key has one value",
        ),
        (["long.npz", "--causal"], "--causal needs --align start or --align end where n != m: 4 and 6"),
        (
            ["long.npz", "--window", "1", "1"],
            "--window needs --align start or --align end where n != m: 4 and 6",
        ),
        (
            ["long.npz", "keys.npy"],
            "long.npz holds several arrays; hint: give it alone, or an array of it as long.npz:NAME",
        ),
        (
            ["a.npy", "b.npy", "c.npy", "d.npy"],
            "queries, keys and values come in one, two or three files: 4 given",
        ),
        (["long.npz", "--words", "1"], "FILES and --words exclude each other; hint: give one"),
        (["long.npz", "--seed", "1"], "FILES and --seed exclude each other; hint: give one"),
        (["long.npz", "--row", "5"], "--row must be one of the 4 queries, counted from 1: 5"),
        (["--row", "0"], "argument --row: must be an integer of at least 1. Got '0' instead."),
        (["--digits", "-1"], "argument --digits: must be an integer from 0 to 17. Got '-1' instead."),
        (["--seed", "-1"], "argument --seed: must be an integer from 0 to 4294967295. Got '-1' instead."),
        (["--seed", "٣"], "argument --seed: must be an integer from 0 to 4294967295. Got '٣' instead."),
        (
            ["--words", "1 2; 3"],
            "words, row 2: every row must have as many numbers: 1 found, 2 in the first row",
        ),
        (["--query-weight", "1"], "give all three weights or none: --key-weight and --value-weight missing"),
        (
            [*FROM_SCRATCH[1:], "--seed", "1"],
            "all three weights and --seed exclude each other; hint: give one",
        ),
        (
            [*FROM_SCRATCH[1:], "--words", "1 0"],
            "query weight must have 2 rows, one for each number of a word: it is (3, 3)",
        ),
        (["--labels", "a b"], "labels must name each word: 2 labels for 4"),
        (["--at", "1"], "--at is for arrays with leading dimensions; these have none"),
        (["--at", "x"], "argument --at: integers between commas are needed: 'x'"),
        (["--align", "end"], "--align needs --causal or --window"),
        (
            ["--mask", "queries.npy"],
            "queries.npy must hold 0 and 1 only (1: the key is visible to the query)",
        ),
        (
            ["--score", "general", "--score-arrays", "long.npz", "--seed", "1", "q.npy"],
            "FILES and --seed exclude each other; hint: give one",
        ),
        (
            ["--step", "queries.npy"],
            "argument --step: must be one of inputs, scores, logits, weights, context, row, 1, 2, 3, or left out at"
            " the end of the line. Got 'queries.npy' instead.",
        ),
        (
            ["--step=4"],
            "argument --step: must be one of inputs, scores, logits, weights, context, row, 1, 2, 3, or left out at"
            " the end of the line. Got '4' instead.",
        ),
        (
            ["--score-arrays", "long.npz"],
            "--score scaled_dot has no learned arrays: leave --score-arrays out",
        ),
        (
            ["--score", "general", "--score-arrays", "long.npz"],
            "long.npz must hold weight for --score general: it holds only queries, keys, values",
        ),
        (["--words", ""], f"there are no numbers in words; hint: {DRAWN}"),
        (["--scale", "nan"], "argument --scale: must be a number that is finite. Got 'nan' instead."),
        (["--png", "weights.doc"], "a picture's name must end in .png, .svg or .pdf: weights.doc"),
        (["--html", "mask.html"], "mask.html: the file exists already, --force replaces it"),
        (["--force"], "--force needs --html"),
        (["--png", "none/weights.png"], "none/weights.png: No such file or directory"),
    ],
)
def test_arguments_that_are_no_input_are_one_line_and_2(
    arrays: dict[str, np.ndarray], capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    Path("mask.html").write_text("kept")
    assert fails(capsys, *arguments) == f"regard explain: error: {error}\n"


def test_a_picture_that_fails_costs_no_story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = pytest.importorskip("matplotlib.figure")

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such colour")

    monkeypatch.setattr(figure.Figure, "savefig", fail)
    assert main(["explain", "--png", str(tmp_path / "a.png")]) == 0
    captured = capsys.readouterr()
    assert "term by term" in captured.out
    assert captured.err == "regard explain: warning: a.png could not be drawn: no such colour\n"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_t_be_written_is_reported_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # who runs tests may be allowed everything
    error = fails(capsys, "--png", str(tmp_path / "a.png"))
    assert error == f"regard explain: error: {tmp_path}: no file can be written in this folder\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend", ["module://matplotlib_inline.backend_inline", "nonsense", "module://os", "svg"]
)
@pytest.mark.parametrize("strict", [False, True])
def test_pictures_need_no_back_end(tmp_path: Path, backend: str, strict: bool) -> None:
    environment = (
        os.environ | {"MPLBACKEND": backend} | ({"PYTHONWARNINGS": "error::UserWarning"} if strict else {})
    )
    code = (
        "import os, sys; from regard.cli import main; assert main(['explain', '--png', sys.argv[1]]) == 0;"
        f"assert os.environ['MPLBACKEND'] == {backend!r}; import matplotlib;"
        "assert matplotlib.get_backend() in ('agg', os.environ['MPLBACKEND'])"
    )
    path = tmp_path / "a.png"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, env=environment, check=True
    )
    assert done.stderr == b""
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_broken_matplotlibrc_is_an_error_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_bytes(b"\xff\xfe\x00")
    command = [sys.executable, "-m", "regard", "explain", "--png", "a.png"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("regard explain: error: Matplotlib can't be loaded: 'utf-8' codec can't decode")


# the command itself


@pytest.mark.slow
def test_help_imports_no_verb_and_names_all() -> None:
    code = (
        "import sys; from regard.cli import main, VERBS; assert main(['--help']) == 0;"
        "assert not {place.split(':')[0] for place, _ in VERBS.values()} & set(sys.modules);"
        "assert 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "explain" in done.stdout


@pytest.mark.slow
def test_explain_needs_no_matplotlib() -> None:
    code = "import sys; sys.modules['matplotlib'] = None; from regard.cli import main; sys.exit(main(['explain']))"
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "usage: regard [-h] [--version] VERB ...\n"),
        (["explane"], "regard: error: argument VERB: invalid choice: 'explane'"),
        (
            ["explain", "--oo=1", "--no"],
            "regard explain: error: unrecognized arguments: --oo=1 --no; did you mean",
        ),
    ],
)
def test_invalid_commands(capsys: pytest.CaptureFixture[str], arguments: list[str], error: str) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(error)


def test_without_a_verb_it_shows_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert main([]) == 2
    assert capsys.readouterr() == ("", shown)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"regard {regard.__version__}\n"


def test_an_interrupt_is_130_and_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(args: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.commands.explain.run", interrupt)
    assert main(["explain"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="pipes break with a signal's name on POSIX alone")
def test_a_reader_that_has_gone_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "regard", "explain"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.slow
def test_a_terminal_without_unicode_is_no_error() -> None:
    np.save("large.npy", np.ones((30, 30)))
    done = subprocess.run(
        [sys.executable, "-m", "regard", "explain", "large.npy"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert b"?" in done.stdout


@pytest.mark.slow
def test_files_and_pipes_get_utf_8_whatever_the_locale() -> None:
    np.save("large.npy", np.ones((30, 30)))
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONIOENCODING"}
    ascii_alone = plain | {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "regard", "explain", "large.npy"],
        capture_output=True,
        env=ascii_alone,
        check=True,
    )
    assert "…" in done.stdout.decode("utf-8")


@pytest.mark.slow
def test_closed_streams_are_no_error() -> None:
    """Closed streams, as of programs that are started without a terminal."""
    run = [sys.executable, "-c", "import os, sys, regard.cli; sys.stderr = None; sys.exit(regard.cli.main())"]
    done = subprocess.run([*run, "explain", "no-such-file"], capture_output=True)
    assert (done.returncode, done.stdout) == (2, b"")
    done = subprocess.run([*run, "explain"], capture_output=True)
    assert done.returncode == 0
    assert b"Step 1" in done.stdout


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "?", "u1", ">i4"])
def test_every_real_type_is_explained(capsys: pytest.CaptureFixture[str], dtype: str) -> None:
    np.save("eye.npy", np.eye(4).astype(dtype))
    output = explain(capsys, "eye.npy", "--digits", "2")
    # Each scores 1 with itself and 0 with the three others: e^0.5 / (e^0.5 + 3) = 0.35.
    np.testing.assert_array_equal(
        step(output, "Step 2"), [[0.35 if i == j else 0.22 for j in range(4)] for i in range(4)]
    )


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((2, 3), (0, 3), (0, 2)), "query 2 attends to nothing: its weights and its context are 0"),
        (((2, 3), (4, 3), (4, 0)), "no numbers: 2 rows, 0 columns"),
        (
            ((2, 0), (4, 0), (4, 2)),
            "query 2 attends to key 1 (25.0 %), key 2 (25.0 %), key 3 (25.0 %), key 4 (25.0 %)",
        ),
    ],
)
def test_empty_sides_are_printed(
    capsys: pytest.CaptureFixture[str], shapes: tuple[tuple[int, ...], ...], expected: str
) -> None:
    np.savez("empty.npz", **{name: np.zeros(shape) for name, shape in zip("qkv", shapes, strict=True)})
    assert expected in explain(capsys, "empty.npz").split("\n")


def test_scores_that_overflow_are_printed_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    np.save("large.npy", np.eye(2, dtype="f4") * np.float32(1e30))
    assert "query 1" in explain(capsys, "large.npy")


def test_products_of_large_integers_do_not_wrap_round(capsys: pytest.CaptureFixture[str]) -> None:
    """3037000500^2 is the first square beyond int64; its root fits in, and small products stay integers."""
    unit = ["--key-weight", "1", "--value-weight", "1"]
    output = explain(capsys, "--words", "3037000500", "--query-weight", "3037000500", *unit)
    assert "9.22337e+18" in output
    assert "-9.22337e+18" not in output
    assert "2.80114e+28" in output  # its cube
    output = explain(capsys, "--words", "3; -4", "--query-weight", "5", *unit)
    assert "word 1 . word 1 = 15*3 = 45" in output


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8])
def test_products_of_narrow_integers_do_not_wrap_round(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, dtype: type
) -> None:
    """Two times the largest number of each data type."""
    most = 1 if dtype is bool else int(np.iinfo(dtype).max)
    np.save(tmp_path / "words.npy", np.full((1, 2), most, dtype))
    np.save(tmp_path / "weight.npy", np.ones((2, 1), dtype))
    weights = (f"--{name}-weight=weight.npy" for name in ("query", "key", "value"))
    output = explain(capsys, "--words", "words.npy", *weights)
    assert f"word 1 . word 1 = {2 * most}*{2 * most} = {4 * most * most}" in output


def term_by_term(output: str) -> list[list[str]]:
    """The cells of the last table, its head left out."""
    return [line.split() for line in output.split("term by term\n\n")[1].split("\n\n")[0].split("\n")[1:]]


def test_exponentials_of_an_infinite_logit_are_no_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """Infinity minus infinity is not a number, exp(1 - infinity) is 0, and a masked term is 0 next to anything."""
    unit = "1 0; 0 1"
    weights = (f"--{name}-weight={unit}" for name in ("query", "key", "value"))
    words = ["--words", "1e200 1; 0 1", *weights]
    first, second, total = term_by_term(explain(capsys, *words))
    assert first[2:6] == ["inf", "inf", "nan", "nan"]
    assert second[4:6] == ["0.0", "nan"]
    assert total[1:3] == ["nan", "nan"]
    _, hidden, total = term_by_term(explain(capsys, *words, "--causal"))
    assert hidden[3:6] == ["-", "0.0", "0.0"]
    assert total[1:3] == ["nan", "nan"]


def test_exponentials_of_a_query_that_sees_nothing_are_0(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.save(tmp_path / "mask.npy", np.zeros((1, 1)))
    first, total = term_by_term(explain(capsys, "--words", "1", "--mask", "mask.npy"))
    assert first[3:6] == ["-", "0.0", "0.0"]
    assert total[1:3] == ["0.0", "0.0"]
