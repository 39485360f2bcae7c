"""The tutorials: each runs from top to bottom, and prints the numbers of the notebooks that it is based on.

The expected texts were copied from those notebooks by hand, not from a run of these.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.py"))


def cells(script: str) -> list[tuple[str, str]]:
    """The cells of a script: the text after each `# %%`, and the lines until the next."""
    parts = re.split(r"^# %%(.*)\n", script, flags=re.MULTILINE)[1:]
    return list(zip(map(str.strip, parts[::2]), parts[1::2], strict=True))


def printed(name: str) -> str:
    """What the cells of a notebook print until one trains a model, which takes a minute."""
    output, namespace = io.StringIO(), {"__name__": "__notebook__"}
    with np.printoptions(), contextlib.redirect_stdout(output):
        for kind, code in cells((DOCS / name).read_text(encoding="utf-8")):
            if "training" in kind:
                break
            if "markdown" not in kind:
                exec(compile(code, name, "exec"), namespace)
    return output.getvalue()


@pytest.fixture(autouse=True)
def in_the_folder_of_the_notebooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS / "notebooks")
    monkeypatch.setenv("MPLBACKEND", "Agg")


FIRST = [
    "[[1 0 0]\n [0 1 0]\n [1 1 0]\n [0 0 1]]",
    "[[2 0 2]\n [2 0 0]\n [2 1 2]]",
    "[[2 2 2]\n [0 2 1]\n [0 1 1]]",
    "[[1 1 0]\n [0 1 1]\n [0 0 0]]",
    "[[2 0 2]\n [2 0 0]\n [4 0 2]\n [2 1 2]]",
    "[[2 2 2]\n [0 2 1]\n [2 4 3]\n [0 1 1]]",
    "[[1 1 0]\n [0 1 1]\n [1 2 1]\n [0 0 0]]",
    "[[ 8  2 10  2]\n [ 4  0  4  0]\n [12  2 14  2]\n [10  4 14  3]]",
    "[[2.36089863e-01 7.38987555e-03 7.49130386e-01 7.38987555e-03]\n"
    " [4.54826323e-01 4.51736775e-02 4.54826323e-01 4.51736775e-02]\n"
    " [2.39275049e-01 7.43870015e-04 7.59237211e-01 7.43870015e-04]\n"
    " [8.99501754e-02 2.81554063e-03 9.05653685e-01 1.58059922e-03]]",
    "[[0.98522025 1.74174051 0.75652026]\n [0.90965265 1.40965265 0.5       ]\n"
    " [0.99851226 1.75849334 0.75998108]\n [0.99560386 1.90407309 0.90846923]]",
]
SECOND = [
    "[[8 4 1]\n [3 6 7]\n [2 0 3]]",
    "[[1 1 1]\n [1 1 1]\n [1 0 2]]",
    "[[1 1 1]\n [1 1 1]\n [2 2 1]]",
    "[0 0 0 2]",
    "[0.16199 0.16199 0.16199 0.51402]",
    "[1.67601 1.67601 0.64798]",
    "[[1.67601 1.67601 0.64798]\n [1.67601 1.67601 0.64798]\n"
    " [1.84696 1.84696 0.30608]\n [1.67601 1.67601 0.64798]]",
    *(f"ms, the same numbers: True\n{way}" for way in ("matrix form", "the kernel")),
]
# v . tanh(W s + U h) for s = (1, 0, 0): tanh(0) = 0, tanh(2) = 0.9640, tanh(-2) = -0.9640 and tanh(-4) = -0.9993; the
# scores are 3 times the sums of two of them, their exponentials 0.0499, 0.0555 and 0.8995.
THIRD = [
    "[[ 0.    -0.999]\n [ 0.    -0.964]\n [ 0.964 -0.999]]",
    "[-2.998 -2.892 -0.106]",
    "{'the': 0.05, 'red': 0.055, 'house': 0.895}",
    "[0.895 0.055]",
    "[True, True]",
]
# log 76 = 4.331; the loss of counting is computed again below.
FOURTH = ["76 different ones", "uniform: 4.331", "gradient is right: True"]
# 5 + 7 and 6, then 7 and 6; (n - 1) / 64 for n = 4, 16, 64 and 256, and no error by softmax.
FIFTH = ["[12.  6.]", "[7. 6.]", *(f"  {error}  " for error in ("0.05", "0.23", "0.98", "3.98"))]
SIXTH = ["2 calls of attention:", "layers.0.self_attn: (1, 2, 6, 8), 6 keys, error ", "True"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("notebooks/1-queries-keys-values.py", FIRST),
        ("notebooks/2-from-one-word.py", SECOND),
        ("notebooks/3-why-attention.py", THIRD),
        ("notebooks/4-small-language-model.py", FOURTH),
        ("notebooks/5-memory-as-a-matrix.py", FIFTH),
        ("notebooks/6-your-own-model.py", SIXTH),
        ("gallery.py", ["100"]),
    ],
)
def test_a_notebook_prints_what_it_should(name: str, expected: list[str]) -> None:
    output = printed(name)
    position = 0
    for text in expected:  # in this order
        assert text in output[position:], text
        position = output.index(text, position)


@pytest.mark.slow
def test_the_loss_of_counting_pairs_is_that_of_a_table_of_counts() -> None:
    def read(part: str) -> str:
        pairs = gzip.decompress((DOCS.parent / f"data/help-en-fr/{part}.tsv.gz").read_bytes()).decode()
        return "\n".join(line.split("\t")[0] for line in pairs.splitlines())

    text = read("train")
    common = {c for c, count in Counter(text).items() if count >= 100}
    train, valid = ([c for c in part if c in common] for part in (text, read("valid")))
    pairs, firsts = Counter(pairwise(train)), Counter(train[:-1])
    losses = [-math.log((pairs[a, b] + 1) / (firsts[a] + len(common))) for a, b in pairwise(valid)]
    assert f"bigram: {sum(losses) / len(losses):.3f}" in printed("notebooks/4-small-language-model.py")


def test_every_notebook_ends_with_an_exercise_and_begins_with_prose() -> None:
    for path in NOTEBOOKS:
        kinds = cells(path.read_text(encoding="utf-8"))
        assert kinds[0][0] == "[markdown]", path.name
        assert kinds[0][1].startswith("# # "), path.name
        assert [text for _, text in kinds if "# ## Exercise" in text] == [
            text for _, text in kinds[-3:] if "# ## Exercise" in text
        ]
        assert any("# ## Exercise" in text for _, text in kinds[-3:]), path.name
        assert "<summary>Answer</summary>" in kinds[-1][1], path.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_its_script(path: Path) -> None:
    """`jupytext --from py:percent --to ipynb --update docs/notebooks/*.py` makes them equal."""
    notebook = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert all(cell.get("outputs", []) == [] for cell in notebook["cells"])
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    expected = []
    for kind, text in cells(path.read_text(encoding="utf-8")):
        if kind == "[markdown]":
            expected.append(("markdown", re.sub(r"^# ?", "", text.strip(), flags=re.MULTILINE)))
        else:
            expected.append(("code", text.strip()))
    assert found == expected


def test_the_tutorials_are_listed_in_order() -> None:
    index = (DOCS / "notebooks" / "index.md").read_text(encoding="utf-8")
    assert [path.name for path in NOTEBOOKS] == re.findall(r"\]\((\S+\.py)\)", index)
    assert [path.stem for path in NOTEBOOKS] == re.findall(r"^\d-[\w-]+$", index, flags=re.MULTILINE)
