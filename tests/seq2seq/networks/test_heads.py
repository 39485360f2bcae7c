"""The attention weights of all heads of a transformer: those of the alignment, and 0 where masked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.networks.families import build
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.heads import head_weights
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.sources.text.vocabulary import UNKNOWN

PAIRS = ["one two", "two", "three one", "two three one"], ["un deux", "deux", "trois un", "deux trois un"]
SMALL = {"model_size": 16, "heads": 2, "feedforward_size": 16, "encoder_layers": 2, "decoder_layers": 3}


@pytest.fixture(
    scope="module",
    params=[{}, pytest.param({"similar": 2}, marks=pytest.mark.slow)],
    ids=["plain", "memory"],
)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return Seq2Seq(family="transformer", network=SMALL, extras=request.param, epochs=30).fit(*PAIRS)


@pytest.mark.parametrize("target", ["deux un trois deux", "un", ""])
def test_the_mean_over_the_heads_of_the_aligned_layer_is_the_alignment(model: Seq2Seq, target: str) -> None:
    (translation,) = model.align(["three two one"], [target])
    heads = model.heads(translation)
    n, (alignment, read) = len(translation.tokens), translation.full_alignment()
    assert (heads.source_tokens, heads.target_tokens) == (read, translation.tokens)
    assert heads.previous_tokens == ("<s>", *translation.tokens)[:n]
    assert heads.encoder.shape == (2, 2, len(read), len(read))
    assert heads.decoder.shape == (3, 2, n, n)
    assert heads.source.shape == (3, 2, n, len(read))
    aligned = model.network.config.aligned
    np.testing.assert_allclose(heads.source[aligned].mean(axis=0), alignment, atol=1e-5)
    for weights in (heads.encoder, heads.decoder, heads.source):
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert (np.triu(heads.decoder, 1) == 0).all()


@pytest.mark.slow
def test_the_heads_of_an_own_translation(model: Seq2Seq) -> None:
    for several in model.candidates(["two one", "three"], n_best=2):
        for translation in several:
            alignment = model.heads(translation).source[model.network.config.aligned].mean(axis=0)
            np.testing.assert_allclose(alignment, translation.full_alignment()[0], atol=1e-5)


def test_equal_scores_give_equal_weights_to_all_visible_keys() -> (
    None
):  # with all numbers zero, as before training
    network = build(
        TransformerConfig(9, 9, model_size=4, heads=2, feedforward_size=8, encoder_layers=1, decoder_layers=1)
    )
    assert isinstance(network, TransformerNetwork)
    encoder, decoder, source = head_weights(network, [5, 6, 7, 2], [1, 4, 5, 6, 2])
    np.testing.assert_allclose(encoder, np.full((1, 2, 4, 4), 1 / 4), atol=1e-7)
    np.testing.assert_allclose(source, np.full((1, 2, 3, 4), 1 / 4), atol=1e-7)
    halves = np.tril(np.ones((3, 3))) / np.array([[1], [2], [3]])
    np.testing.assert_allclose(decoder, np.broadcast_to(halves, (1, 2, 3, 3)), atol=1e-7)


def test_only_a_transformer_has_heads() -> None:
    recurrent = Seq2Seq(epochs=1).fit(*PAIRS)
    with pytest.raises(ValueError, match=r"heads are those of a transformer\. Got a recurrent network"):
        recurrent.heads(recurrent.translate(["two"])[0])


@pytest.mark.slow
def test_a_translation_of_another_model_is_rejected(model: Seq2Seq) -> None:
    other = Seq2Seq(family="transformer", network=SMALL, seed=2, epochs=5).fit(*PAIRS)
    for other_model in (other, Seq2Seq(epochs=1).fit(*PAIRS), Seq2Seq(epochs=1, attention=False).fit(*PAIRS)):
        with pytest.raises(ValueError, match="must come from this model"):
            model.heads(other_model.align(["two one"], ["deux un"])[0])
    with pytest.raises(
        TypeError, match=r"translation must be a Translation, such as translate\(\[text\]\)\[0\]\. Got list"
    ):
        model.heads(model.translate(["two"]))  # type: ignore[arg-type]


def test_a_copied_token_is_unknown_to_the_model() -> None:
    # "B" is a word of the target's side, too: a copied token must not count as predicted.
    sources, targets = ["a", "b", "a b", "b a", "a a", "b b"], ["A", "B", "A B", "B A", "A A", "B B"]
    model = Seq2Seq(family="transformer", network=SMALL, lower=False, epochs=2).fit(
        [*sources, "B"], [*targets, "B"]
    )
    (unknown,) = model.align(["B a"], ["zz B"])
    assert unknown.ids[0] == UNKNOWN
    heads = model.heads(replace(unknown, tokens=("B", "B")))  # as if it had been copied
    aligned = model.network.config.aligned
    np.testing.assert_allclose(heads.source[aligned].mean(axis=0), unknown.alignment, atol=1e-5)


def test_tokens_are_displayed_without_join_marks() -> None:
    model = Seq2Seq(family="transformer", network=SMALL, epochs=1).fit(["one."], ["un l'un."])
    heads = model.heads(model.align(["one."], ["l'un."])[0])
    assert (heads.source_tokens, heads.previous_tokens, heads.target_tokens) == (
        ("one", ".", "</s>"),
        ("<s>", "l'", "un"),
        ("l'", "un", "."),
    )


@pytest.mark.slow
def test_translate_draws_all_heads(
    model: Seq2Seq, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model_path, text = tmp_path / "m.safetensors", tmp_path / "text"
    model.save(model_path)
    text.write_text("two one\n\nthree\n", encoding="utf-8")
    assert main(["translate", str(model_path), str(text), "--heads", str(tmp_path / "heads")]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = [
        f"line-{line}-{part}.png"
        for line in (1, 3)
        for part in ("decoder", "encoder", "source")
        if lines[line - 1]
    ]
    assert sorted(path.name for path in (tmp_path / "heads").iterdir()) == expected
    assert expected
    others = [tmp_path / "r.safetensors", tmp_path / "n.safetensors", tmp_path / "many.safetensors"]
    Seq2Seq(epochs=1).fit(*PAIRS).save(others[0])
    model.save(others[1])
    deep = SMALL | {"heads": 16, "decoder_layers": 17}
    Seq2Seq(family="transformer", network=deep, epochs=1).fit(*PAIRS).save(others[2])
    for arguments, message in (
        ([str(others[0])], f"--heads needs one transformer: {others[0]} is not a transformer"),
        ([str(model_path), "--ensemble", str(others[1])], "there are several models"),
        ([str(others[2])], f"--heads draws up to 256 heads: {others[2]} has 16 in each of 17 layers"),
    ):
        assert (
            main(["translate", arguments[0], str(text), *arguments[1:], "--heads", str(tmp_path / "other")])
            == 2
        )
        assert message in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
