"""Words are only text: whatever a word is like, renaming it renames it in the results and changes nothing else."""

from __future__ import annotations

import functools
from dataclasses import fields, replace
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.cli import main
from regard.commands.drawing import draw_alignment
from regard.seq2seq import Ensemble, Seq2Seq
from regard.seq2seq.sources.text.tokenizers import Tokens, Words, learn, restore
from regard.seq2seq.sources.text.vocabulary import SPECIAL
from regard.seq2seq.translator import Translation
from regard.show.page.alignment import sentence

# Names of special tokens, marks of tokenizers, separators, and what else stands for something in a file or a picture.
SIGNS = "\u2581 \u2423 \u25a0 \u25cc \u2585 \u2042 @@ ||| | } {} _ - -1 0-0 1?0 # ' \" \\ \\n %s &lt; <b>"
HOSTILE = sorted([*SPECIAL, *SIGNS.split(), "</script>", "retrieved:", "None", "nan"])
# As wide, and in the same order, which is that of ids of equally frequent words.
ORDINARY = [chr(0x410 + i) + "x" * (len(word) - 1) for i, word in enumerate(HOSTILE)]
PLAIN = dict(zip(HOSTILE, ORDINARY, strict=True))

words = st.sampled_from(HOSTILE)
sides = st.lists(words, min_size=1, max_size=6)


def renamed(tokens: Any) -> Any:
    """The same tokens with ordinary names."""
    return tuple(PLAIN.get(token, token) for token in tokens)


def test_names_keep_width_and_order() -> None:
    assert sorted(ORDINARY) == ORDINARY
    assert not set(ORDINARY) & set(HOSTILE)


# -------------------------------------------------------------------------------------------------------- tokenizers


@pytest.mark.parametrize("kind", [Words, Tokens])
@settings(max_examples=50)
@given(st.lists(sides, min_size=1, max_size=6), sides, st.integers(1, 2), st.none() | st.integers(5, 9))
def test_ids_do_not_depend_on_names(
    kind: type[Words | Tokens], text: list[list[str]], asked: list[str], least: int, size: int | None
) -> None:
    one = kind.learn(text, min_count=least, size=size)
    other = kind.learn([list(renamed(side)) for side in text], min_count=least, size=size)
    for hostile, plain in ((one, other), (restore(one.describe(), one.data(), size=len(one)), other)):
        assert renamed(hostile.tokens[4:]) == plain.tokens[4:]
        assert hostile.encode(hostile.tokenize(asked)) == plain.encode(plain.tokenize(list(renamed(asked))))
        assert [hostile.tokens[i] for i in hostile.encode(text[0])] == [
            token if token in hostile.tokens[4:] else SPECIAL[3] for token in text[0]
        ]


@pytest.mark.threads
@pytest.mark.parametrize("method", ["unigram", "bpe"])
@pytest.mark.parametrize("name", SPECIAL)
def test_pieces_do_not_depend_on_letters(name: str, method: Any) -> None:
    text = [f"{name} a{name}b {name}{name}", f"b{name} {name} ba", f"a {name} b"] * 3
    swap = str.maketrans("psu", "qtv")  # no letter of the text is between the two
    one = learn("subwords", text, size=60, method=method)
    other = learn("subwords", [line.translate(swap) for line in text], size=60, method=method)
    assert tuple(piece.translate(swap) for piece in one.tokens[4:]) == other.tokens[4:]
    assert set(name) <= set("".join(one.tokens[4:]))
    assert one.detokenize(one.tokens[i] for i in one.encode(one.tokenize(text[0]))) == text[0]


@pytest.mark.threads
@pytest.mark.parametrize("method", ["unigram", "bpe"])
def test_no_sign_is_unknown_because_sentencepiece_has_reserved_it(method: Any) -> None:
    text = ["\u2585a b\u2585", "\u2585 \u2584 b a\u2585\u2586b"] * 3
    swap = str.maketrans("\u2584\u2585\u2586", "\u2591\u2592\u2593")
    one = learn("subwords", text, size=30, method=method)
    other = learn("subwords", [line.translate(swap) for line in text], size=30, method=method)
    assert tuple(piece.translate(swap) for piece in one.tokens[4:]) == other.tokens[4:]
    assert min(one.encode(one.tokenize(text[1]))) > 3


@pytest.mark.parametrize("token", ["a\uffedb", "\uffed", "\u25cc\u0301", "\u0301", *HOSTILE])
@pytest.mark.parametrize("source", ["characters", "tokens"])
def test_a_copied_token_has_no_marks_of_the_target(source: str, token: str) -> None:
    copied = Words.learn([]).copy_token(token, learn(source, ["a"]))
    text = token.replace("\u2423", " ") if source == "characters" else token
    assert Words.learn([]).detokenize(["x", copied, "y"]).split() == [
        "x",
        *text.replace("\uffed", "\u25a0").split(),
        "y",
    ]


# ------------------------------------------------------------------------------------------------------------ models

PAIRS = [
    (
        [HOSTILE[(7 * i + 3 * j) % len(HOSTILE)] for j in range(1 + i % 4)],
        [HOSTILE[(7 * i + 3 * j + 1) % len(HOSTILE)] for j in range(1 + (i + 1) % 4)],
    )
    for i in range(40)
]
ASKED = [[*PAIRS[i][0], "unseen", *PAIRS[i + 1][0]] for i in range(6)]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "unknown": {"min_count": 3},
    "transformer": {
        "family": "transformer",
        "network": {"model_size": 8, "heads": 2, "feedforward_size": 8, "encoder_layers": 1},
    },
    "memory": {"extras": {"similar": 2}},
    "lengths": {"extras": {"lengths": 2}},
    "words": {"source": "words", "target": "words", "lower": False},
}


@functools.cache
def fitted(case: str, ordinary: bool = False) -> Seq2Seq:
    pairs = [(named(source, ordinary), named(target, ordinary)) for source, target in PAIRS]
    options = {"source": "tokens", "target": "tokens", "epochs": 15} | OPTIONS[case]
    return Seq2Seq(**options).fit(*zip(*pairs, strict=True))


def named(tokens: list[str], ordinary: bool) -> list[str]:
    return list(renamed(tokens)) if ordinary else tokens


def plainly(one: Translation) -> Translation:
    """The translation with ordinary names: those of special tokens stay where they are special."""
    tokens = renamed(one.tokens)
    m = len(one.source)
    retrieved = tuple(
        token if m + i in one.starts else PLAIN.get(token, token) for i, token in enumerate(one.retrieved)
    )
    source = (*renamed(one.source[:-1]), one.source[-1])
    return replace(one, text=" ".join(tokens), tokens=tokens, source=source, retrieved=retrieved)


def same(hostile: Translation, plain: Translation) -> None:
    hostile = plainly(hostile)
    for field in fields(Translation):
        np.testing.assert_array_equal(getattr(hostile, field.name), getattr(plain, field.name), field.name)
    assert sentence(hostile) == sentence(plain)
    assert draw_alignment(hostile) == draw_alignment(plain)


def results(model: Seq2Seq, ordinary: bool) -> dict[str, list[Translation]]:
    """What a model makes of the questions, in every way."""
    sources = [named(source, ordinary) for source in ASKED]
    targets = [named(target, ordinary) for _, target in PAIRS[: len(ASKED)]]
    several = (
        model.candidates(sources, beam=3),
        model.sample(sources, count=2),
        Ensemble([model, model]).candidates(sources),
    )
    best, samples, together = (list(chain.from_iterable(each)) for each in several)
    return {"best": best, "samples": samples, "ensemble": together, "aligned": model.align(sources, targets)}


@pytest.mark.slow
@pytest.mark.parametrize("case", OPTIONS)
def test_a_model_does_not_depend_on_names(case: str, tmp_path: Path) -> None:
    hostile, plain = fitted(case), fitted(case, ordinary=True)
    hostile.save(tmp_path / "model.safetensors")
    expected = results(plain, ordinary=True)
    for model in (hostile, Seq2Seq.load(tmp_path / "model.safetensors")):
        for way, translations in results(model, ordinary=False).items():
            for one, other in zip(translations, expected[way], strict=True):
                same(one, other)
    if case == "transformer":
        one, other = (results(model, model is plain)["aligned"][0] for model in (hostile, plain))
        heads, others = hostile.heads(one), plain.heads(other)
        np.testing.assert_array_equal(heads.source, others.source)
        assert renamed(heads.target_tokens) == others.target_tokens
        assert (*renamed(heads.source_tokens[:-1]), SPECIAL[2]) == others.source_tokens


@pytest.mark.slow
def test_names_of_special_tokens_are_learned() -> None:
    sides = [[*each] for count in (1, 2) for each in permutations(SPECIAL, count)]
    model = Seq2Seq(source="tokens", target="tokens", epochs=60).fit(sides, sides)
    for translation, side in zip(model.translate(sides), sides, strict=True):
        assert translation.tokens == tuple(side)
        assert min(translation.ids) > 3


def test_only_the_starts_of_targets_are_starts() -> None:
    options: dict[str, Any] = {"source": "tokens", "target": "tokens", "epochs": 1}
    model = Seq2Seq(extras={"similar": 1}, **options).fit(["<s> b", "c d"], ["x <s>", "y"])
    (one,) = model.translate(["<s> e"])
    assert (one.source, one.retrieved, one.starts) == (("<s>", "e", "</s>"), ("<s>", "x", "<s>"), (3,))
    assert sentence(one)["source"] == ["<s>", "e", "</s>", "retrieved:", "x", "<s>"]
    assert draw_alignment(replace(one, tokens=("x",), **first_row(one))).count("retrieved:") == 1


def first_row(one: Translation) -> dict[str, Any]:
    """The weights of one token."""
    return {
        "alignment": np.full((1, len(one.source)), 0.1),
        "retrieved_weights": np.full((1, len(one.retrieved)), 0.1),
    }


# ------------------------------------------------------------------------------------------------------ command line


def printed(folder: Path, capsys: pytest.CaptureFixture[str], ordinary: bool) -> dict[str, list[list[str]]]:
    """The columns that each verb prints for these names."""
    folder.mkdir()
    pairs, model, sources = folder / "pairs.tsv", folder / "model.safetensors", folder / "asked.txt"
    lines = ["\t".join(" ".join(named(side, ordinary)) for side in pair) for pair in PAIRS]
    pairs.write_text("\n".join([*lines, ""]), encoding="utf-8")
    sources.write_text("".join(" ".join(named(side, ordinary)) + "\n" for side in ASKED), encoding="utf-8")
    options = ["--source", "tokens", "--target", "tokens", "--epochs", "20"]
    assert main(["train", str(pairs), *options, "--out", str(model)]) == 0
    tables = {}
    for verb, arguments in {
        "translate": [str(model), str(sources), "--n-best", "2", "--alignment", "pharaoh"],
        "align": [str(model), str(pairs), "--scores"],
        "evaluate": [str(model), str(pairs), "--measure", "errors"],
    }.items():
        capsys.readouterr()
        assert main([verb, *arguments]) == 0
        tables[verb] = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    return tables


@pytest.mark.slow
def test_commands_do_not_depend_on_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile, plain = (printed(tmp_path / name, capsys, name == "plain") for name in ("hostile", "plain"))
    for one, other in zip(hostile["translate"], plain["translate"], strict=True):
        assert [*one[:2], " ".join(renamed(one[2].split(" "))), one[3]] == other
    assert hostile["align"] == plain["align"]
    assert errors(hostile["evaluate"]) == errors(plain["evaluate"])


def errors(table: list[list[str]]) -> list[list[str]]:
    """The columns "exact" and "errors" of a model, by length: BLEU and chrF are of characters."""
    rows = [row[0].split() for row in table]
    return [row[-2:] for row in rows if row and row[0] in {"hostile", "plain", "1-2", "3-4"}]
