"""`regard evaluate --faithfulness`: tables and JSON, against the functions that a user would call, for all sources."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import attribution, cli
from regard.seq2seq import Images, Seq2Seq, Vectors

SMALL = {"embedding": 8, "encoder": 8, "decoder": 16, "attention": 8}
TRANSFORMER = {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1, "decoder_layers": 1}
SOURCES = ["a b c", "b c", "c a a", "b", "a c b b"]
TARGETS = [text.upper() for text in SOURCES]
KINDS = ["weights", "posterior", "contribution", "erasure", "random"]


@pytest.fixture(autouse=True)
def _in_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def pairs() -> list[str]:
    lines = [f"{source}\t{target}\n" for source, target in zip(SOURCES, TARGETS, strict=True)]
    Path("test.tsv").write_text("".join(lines), encoding="utf-8")
    Seq2Seq(network=SMALL, epochs=5, seed=3).fit(SOURCES, TARGETS).save("model")
    return ["evaluate", "model", "test.tsv", "--faithfulness", "--json", "out.json"]


def measured(arguments: list[str]) -> dict[str, Any]:
    assert cli.main(arguments) == 0
    content: dict[str, Any] = json.loads(Path("out.json").read_text(encoding="utf-8"))
    return dict(content["models"][0]["faithfulness"])


def test_the_figures_are_those_of_the_functions(pairs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    content, model = measured(pairs), Seq2Seq.load("model")
    assert (content.pop("items"), list(content)) == (4, KINDS)  # one source has a single token
    sources = [source for source in SOURCES if " " in source]
    answers = model.align(sources, [each.text for each in model.translate(sources)])
    needed = [model.erasure(each)[:, :-1] for each in answers]
    for kind, weights in (
        ("weights", [each.alignment[:, :-1] for each in answers]),
        ("contribution", [model.contributions(each)[:, :-1] for each in answers]),
    ):
        agreed = attribution.agreement(weights, needed)
        assert content[kind]["top"]["value"] == pytest.approx(agreed.top.value)
        assert content[kind]["correlation"]["high"] == pytest.approx(agreed.correlation.high)
        lost = [model.faithfulness(each, w).sufficiency for each, w in zip(answers, weights, strict=True)]
        assert content[kind]["sufficiency"]["value"] == pytest.approx(np.mean(np.concatenate(lost)))
        assert content[kind]["sufficiency"]["chance"] is None
    assert [content["erasure"][name]["value"] for name in ("top", "correlation")] == pytest.approx([1, 1])
    printed = capsys.readouterr().out
    shown = content["posterior"]["top"]
    assert f"{100 * shown['value']:.1f} ({100 * shown['low']:.1f} to {100 * shown['high']:.1f})" in printed
    assert "compared with erasure, model, 4 items" in printed
    assert printed.count("Spearman") == 1


@pytest.mark.slow
def test_a_transformer_has_no_posterior_and_an_ensemble_no_contributions(pairs: list[str]) -> None:
    Seq2Seq(family="transformer", network=TRANSFORMER, epochs=1).fit(SOURCES, TARGETS).save("transformer")
    assert list(measured(["evaluate", "transformer", *pairs[2:]]))[1:] == [
        "weights",
        "contribution",
        "erasure",
        "random",
    ]
    Seq2Seq(network=SMALL, epochs=2, seed=4).fit(SOURCES, TARGETS).save("other")
    assert list(measured([*pairs, "--ensemble", "other"]))[1:] == [
        "weights",
        "posterior",
        "erasure",
        "random",
    ]


@pytest.mark.parametrize("source", [Vectors(2), Images(8, 12)], ids=["vectors", "images"])
def test_vectors_and_cells_are_erased(source: Vectors | Images) -> None:
    rng = np.random.default_rng(0)
    if isinstance(source, Vectors):
        examples = [rng.normal(size=(m, 2)).astype(np.float32) for m in (3, 2, 4, 1)]
    else:
        examples = list(rng.integers(0, 256, (4, 8, 12)).astype(np.uint8))
    for number, example in enumerate(examples):
        np.save(f"{number}.npy", example)
    targets = ["A B", "B", "A", "B B"]
    Seq2Seq(source=source, target="tokens", network=SMALL, epochs=3).fit(examples, targets).save("model")
    lines = [f"{number}.npy\t{target}\n" for number, target in enumerate(targets)]
    Path("test.tsv").write_text("".join(lines), encoding="utf-8")
    content = measured(["evaluate", "model", "test.tsv", "--faithfulness", "--json", "out.json"])
    assert content["items"] == (3 if isinstance(source, Vectors) else 4)
    assert all(math.isfinite(content[kind]["comprehensiveness"]["value"]) for kind in KINDS)


def test_items_are_spread_over_the_file(
    pairs: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.commands.evaluate import outputs

    monkeypatch.setattr(outputs, "MOST_ITEMS", 2)
    asked: list[str] = []
    erasure = Seq2Seq.erasure
    monkeypatch.setattr(
        Seq2Seq, "erasure", lambda *a: (asked.append(" ".join(a[1].source[:-1])), erasure(*a))[1]
    )
    assert measured(pairs)["items"] == 2
    assert asked == ["a b c", "c a a"]  # the first and the third of four
    assert "erasing inputs (model): 2 of 2" in capsys.readouterr().err


def test_what_does_not_go_with_it(pairs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Seq2Seq(attention=False, epochs=1).fit(SOURCES, TARGETS).save("without")
    for arguments, reason in (
        (
            [*pairs, "--compare", "without"],
            "--faithfulness needs attention: one of the models was trained without",
        ),
        (
            ["evaluate", "--hypotheses", "test.tsv", "--references", "test.tsv", "--faithfulness"],
            "exclude each other",
        ),
        (
            ["evaluate", "--links", "test.tsv", "--gold", "test.tsv", "--faithfulness"],
            "--faithfulness goes with models",
        ),
    ):
        assert cli.main(arguments) == 2
        assert reason in capsys.readouterr().err
    Path("test.tsv").write_text("b\tB\n", encoding="utf-8")
    assert measured(pairs) == {"items": 0}
    assert "0 items: none has two inputs" in capsys.readouterr().out
