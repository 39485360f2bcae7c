"""The input that `explain` and `show` share: sentences, files with names, and what they write of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard import scores, weights
from regard.cli import main
from regard.commands.array_files import parse_table, read_table


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def section(path: str) -> dict[str, Any]:
    """The data of the first section of a page."""
    text = Path(path).read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, flags=re.DOTALL)
    found: dict[str, Any] = json.loads(data)[0]["data"]
    return found


# sentences


@pytest.mark.parametrize("arguments", [["the cat the"], ["the", "cat", "the"]])
def test_the_vectors_of_a_sentence_are_drawn_one_for_each_word(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output = printed(capsys, "explain", *arguments, "--seed", "5")
    random = np.random.RandomState(5)
    vectors = random.normal(size=(2, 4)).round(1)[[0, 1, 0]]
    queries, keys, values = (vectors @ (random.normal(size=(4, 4)) / 2).round(1) for _ in range(3))
    attention = regard.attend(queries, keys, values)
    assert output.startswith("3 words, their vectors and weights drawn with seed 5\n")
    rows = [line.split() for line in output.splitlines() if line.startswith(("the  ", "cat  "))]
    np.testing.assert_allclose([list(map(float, row[1:])) for row in rows[:3]], attention.scores, atol=1e-5)
    main(["show", *arguments, "--seed", "5", "--out", "page.html"])
    shown = section("page.html")
    np.testing.assert_array_equal(shown["words"]["embeddings"], vectors)
    np.testing.assert_allclose(shown["keys"], keys, rtol=1e-12)
    assert shown["words"]["origin"] == "drawn with seed 5"


@pytest.mark.parametrize("arguments", [["cat"], ["a.npy", "b"], ["runs/mine", "b"], ["the cat.npy"]])
def test_what_looks_like_a_file_is_no_sentence(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_file_that_exists_is_no_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my words").write_text("1 0\n0 1\n")
    assert "the dot product" in printed(capsys, "explain", "my words")


# names in files


@pytest.mark.parametrize(
    ("text", "rows", "columns"),
    [
        ("1,2\n3,4", None, None),
        ("a,1,2\nb,3,4", ["a", "b"], None),
        ("x,y\n1,2\n3,4", None, ["x", "y"]),
        ("word,x,y\na,1,2\nb,3,4", ["a", "b"], ["x", "y"]),
        (",x,y\na,1,2\nb,3,4", ["a", "b"], ["x", "y"]),
        ("x,y\na,1,2\nb,3,4", ["a", "b"], ["x", "y"]),
        ('word,x,y\n"a, b",1,2\n"c ""d""",3,4', ["a, b", 'c "d"'], ["x", "y"]),
        ("word\tx\ty\na b\t1\t2\nc\t3\t4", ["a b", "c"], ["x", "y"]),
        ("word x y\na 1 2\n\nb 3 4", ["a", "b"], ["x", "y"]),
        ("\ufeffword;x".replace(";", ",") + ",y\na,1,2\nb,3,4", ["a", "b"], ["x", "y"]),
    ],
)
def test_the_names_in_a_file_are_those_of_rows_and_columns(
    text: str, rows: list[str] | None, columns: list[str] | None, tmp_path: Path
) -> None:
    (tmp_path / "w.csv").write_text(text, encoding="utf-8")
    table = read_table(tmp_path / "w.csv")
    assert (table.numbers.tolist(), table.rows, table.columns) == ([[1, 2], [3, 4]], rows, columns)


@given(
    st.lists(
        st.text("abcü,\" '", min_size=1, max_size=5).filter(lambda t: t.strip() == t), min_size=1, max_size=4
    ),
    st.booleans(),
)
def test_names_that_are_written_are_read(names: list[str], header: bool) -> None:
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    lines = ['"name","x","y"'] * header + [f"{name},{i}.5,2" for i, name in enumerate(quoted)]

    table = parse_table(";".join(lines), "words")
    assert table.rows == names
    assert table.columns == (["x", "y"] if header else None)
    assert table.numbers.tolist() == [[i + 0.5, 2.0] for i in range(len(names))]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1 O; 0 1", "words, row 1, column 2: 'O' is not a number"),
        ("a 1 2; b x 4", "words, row 2, column 2: 'x' is not a number"),
        ("a 1 2; 3 4", "words, row 2: every row must have as many numbers: 2 found, 3 in the first row"),
        ("x y z w; 1 2", "words, row 1: the first row must name every column: 4 names, 2 numbers"),
        ("x y; a b", "words, row 2, column 2: 'b' is not a number"),
    ],
)
def test_names_in_the_wrong_place(text: str, error: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_table(text, "words")
    assert str(caught.value) == error


def test_names_of_a_file_are_labels_and_features(capsys: pytest.CaptureFixture[str]) -> None:
    Path("w.csv").write_text("word,animal,alive\nthe,0,0\ncat,1,1\n")
    output = printed(capsys, "explain", "--words", "w.csv")
    assert re.search(r"^the +0", output, flags=re.MULTILINE)
    printed(capsys, "show", "--words", "w.csv", "--causal", "--scale", "0.5", "--out", "page.html")
    shown = section("page.html")
    assert shown["words"]["features"] == ["animal", "alive"]
    output = printed(capsys, "explain", "w.csv", "--labels", "one two")[:400]
    assert re.search(r"^one +0", output, flags=re.MULTILINE)


@pytest.mark.parametrize("verb", ["explain", "show"])
def test_rows_that_sum_to_one_are_weights_perhaps(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("w.npy", [[0.25, 0.75], [0.5, 0.5]])
    np.save("eye.npy", np.eye(2))
    for name in ("w.npy", "eye.npy"):
        assert main([verb, name, *(["--out", f"{name}.html"] if verb == "show" else [])]) == 0
        assert ("w.npy sum to 1" in capsys.readouterr().err) is (name == "w.npy")


def test_weights_are_shown_as_they_are() -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(3), (2, 2, 3))
    np.save("w.npy", weights)
    assert main(["show", "--weights", "w.npy", "--labels", "a b c", "--out", "page.html"]) == 0
    assert regard.show.page(weights, query_labels=[*"abc"], key_labels=[*"abc"]).html in Path(
        "page.html"
    ).read_text(encoding="utf-8")


def test_a_picture_of_the_weights(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["the cat sat"], ["--weights", "w.npy"]):
        np.save("w.npy", [[0.25, 0.75], [0.5, 0.5]])
        assert main(["show", *arguments, "--out", "w.svg"]) == 0
        assert capsys.readouterr().out == "w.svg\n"
        assert Path("w.svg").read_text(encoding="utf-8").startswith("<?xml")


# LaTeX


def test_a_query_as_latex(capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: scores 2 and 0, logits 2 / sqrt(1) and 0; exp(2) / (exp(2) + 1) = 0.88; 0.88 * 1 + 0.12 * 3 = 1.24."""
    arguments = ("--words", "a_b 1; c 0", "--query-weight", "2", "--key-weight", "1", "--value-weight", "1")
    output = printed(capsys, "explain", *arguments, "--latex", "--digits", "2")
    assert output.splitlines() == [
        r"% the query a\_b; amsmath is needed",
        r"\[ q = \begin{pmatrix} 2 \end{pmatrix},\quad K = \begin{pmatrix} 1 \\ 0 \end{pmatrix},"
        r"\quad V = \begin{pmatrix} 1 \\ 0 \end{pmatrix} \]",
        r"\[ \begin{array}{llrr}",
        r"  & & \text{a\_b} & \text{c} \\ \hline",
        r"  \text{scores} & e = q K^\top & 2 & 0 \\",
        r"  \text{logits} & z = e / \sqrt{1} & 2 & 0 \\",
        r"  \text{weights} & a = \operatorname{softmax}(z) & 0.88 & 0.12 \\",
        r"\end{array} \]",
        r"\[ c = a V = \begin{pmatrix} 0.88 \end{pmatrix} \]",
    ]


def scaled_dot(queries: Any, keys: Any) -> Any:
    """A user's function with the name of a built-in score, which has no scale by default."""
    return queries @ keys.swapaxes(-1, -2)


PERCEPTRON = {"query_weight": [[1.0, 2.0]], "key_weight": [[3.0, 4.0]], "vector": [5.0, 6.0]}
FORMULAS = {  # options of one query [2] and the keys [0], [1], and what each formula becomes by hand
    r"e_j = 2.5 \, q \cdot k_j / (|q| \, |k_j|)": {"score": scores.cosine(2.5)},
    r"e_j = q \cdot k_j / (|q| \, |k_j|)": {"score": scores.cosine()},
    r"e_j = -1 \cdot 10^{-6} \, q \cdot k_j / (|q| \, |k_j|)": {"score": scores.cosine([-1e-6])},
    r"e_j = -|q - k_j|^2 / 2": {"score": "gaussian"},
    r"e_j = -|q - k_j|^2 / (2 \cdot 0.5^2)": {"score": scores.gaussian(0.5)},
    r"e_j = -|q - k_j|^2 / (2 \cdot (2 \cdot 10^{7})^2)": {"score": scores.gaussian(2e7)},
    r"e_j = v \cdot \tanh(q W + k_j U)": {"score": scores.additive(**PERCEPTRON)},
    r"e_j = v \cdot \tanh(q W + k_j U + b)": {"score": scores.additive(**PERCEPTRON, bias=[7.0, 8.0])},
    r"e_j = v \cdot \tanh(q + k_j)": {"score": scores.additive(None, None, [5.0])},
    r"e_j = v \cdot \tanh(q W + k_j U) ": {"score": scores.concat([[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0])},
    r"e = q W K^\top": {"score": scores.general([[1.0]])},
    r"e = q W": {"score": scores.location([[1.0, 2.0]])},
    r"e_j = \operatorname{score}(q, k_j)": {"score": scaled_dot},
    r"z = e": {"score": scaled_dot},
    r"z = 1 \cdot 10^{-5} \, e": {"scale": 1e-5},
    r"z = 1 \cdot 10^{6} \tanh(e / \sqrt{1} / (1 \cdot 10^{6}))": {"softcap": 1e6},
    r"z = e / \sqrt{1} + \text{bias}": {"bias": [1.0, 2.0]},
    r"a_j = \exp(z_j) / (\sum_k \exp(z_k) + \exp(0.5))": {"sink": 0.5},
    r"a = \operatorname{softmax}(z)": {"sink": -np.inf},
    r"a = \operatorname{softmax}(z) ": {"normalize": weights.local_m(1)},
    r"a = \operatorname{entmax}_{1.25}(z)": {"normalize": weights.entmax(1.25)},
    r"a_j = 1 / (1 + \exp(-z_j - \log(1 / m)))": {"normalize": weights.sigmoid()},
    r"a_j = 1 / (1 + \exp(-z_j - (-2)))": {"normalize": weights.sigmoid(-2)},
    r"a_j = \max(z_j, 0) / m": {"normalize": weights.relu()},
    r"a = \operatorname{normalize}(z)": {"normalize": lambda logits: logits},
    r"a_j = \operatorname{softmax}(z)_j \, \exp(-(j - 1)^2 / (2 \cdot 1.5^2)),\; j = 0, 1, \ldots": {
        "normalize": weights.local_p([1.0], 3)
    },
}


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_formulas_of_latex_are_those_of_the_options(formula: str) -> None:
    story = regard.explain(queries=[[2.0]], keys=[[0.0], [1.0]], values=[[0.0], [4.0]], **FORMULAS[formula])
    assert f" & {formula.strip()} & " in story.latex()


def test_each_query_has_its_own_sharpness_in_latex() -> None:
    story = regard.explain(queries=np.eye(2), score=scores.cosine([2.0, 3.0]))
    assert [r"e_j = 2 \, q" in story.latex(0), r"e_j = 3 \, q" in story.latex(1)] == [True, True]


def test_latex_has_the_learned_arrays_of_the_score() -> None:
    story = regard.explain(queries=[[2.0]], score=scores.concat([[1.0, 2.0], [3.0, 4.0]], [5.0, 6.0]))
    arrays = {"W": "1 & 2", "U": "3 & 4", "v": "5 & 6"}
    line = r",\quad ".join(
        rf"{name} = \begin{{pmatrix}} {row} \end{{pmatrix}}" for name, row in arrays.items()
    )
    assert rf"\[ {line} \]" in story.latex().splitlines()
    assert regard.explain(queries=[[2.0]]).latex().count(r"\[") == 3


@pytest.mark.parametrize("count", [10, 11, 300])
def test_no_matrix_of_latex_has_more_than_ten_columns(count: int) -> None:
    story = regard.explain(queries=np.eye(count))
    for inside in re.findall(r"\\begin\{pmatrix\}(.*?)\\end\{pmatrix\}", story.latex(1), flags=re.DOTALL):
        rows = inside.split(r"\\")
        assert len(rows) <= 10
        assert all(row.count("&") < 10 for row in rows)


def test_every_brace_of_latex_is_closed_and_hidden_keys_are_minus_infinity() -> None:
    labels = ["{", "}$", "\\x", "50 %", "^~&#"]
    masked = regard.explain(queries=np.eye(5), mask=regard.mask.causal(), labels=labels).latex(1)
    assert masked.count(r"-\infty") == 3
    plain = re.sub(r"\\[{}]", "", masked)
    assert plain.count("{") == plain.count("}")


@pytest.mark.parametrize("score", sorted({"dot", "scaled_dot", "cosine", "gaussian"}))
@pytest.mark.parametrize("normalize", ["softmax", "sparsemax", "entmax15", "hard"])
def test_every_score_and_normalization_has_a_formula(score: Any, normalize: Any) -> None:
    text = regard.explain(queries=np.eye(2), score=score, normalize=normalize).latex()
    assert "operatorname{score}" not in text
    assert "operatorname{normalize}" not in text


def test_wide_matrices_have_as_many_columns_as_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    np.savetxt("w.csv", np.arange(80).reshape(4, 20) / 7, fmt="%.5f", delimiter=",")
    assert "…" in printed(capsys, "explain", "w.csv")
    assert "…" not in printed(capsys, "explain", "w.csv", "--columns", "1000").split("Step 2")[0]
