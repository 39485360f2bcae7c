"""Models that translate together: the mean of their predictions, by its definition, in models and commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_extras import Similar
from scipy.special import logsumexp

from regard.cli import main
from regard.seq2seq import Ensemble, Seq2Seq
from regard.seq2seq.alignment.links import links, spell
from regard.seq2seq.alignment.symmetrize import posterior_product
from regard.seq2seq.corpus.batching import Batch, EncodedPair, collate, source_batch
from regard.seq2seq.decoding.beam import beam
from regard.seq2seq.decoding.forced import force
from regard.seq2seq.decoding.hypothesis import Hypothesis, Scoring
from regard.seq2seq.decoding.sampling import sample
from regard.seq2seq.ensemble import EnsembleNetwork
from regard.seq2seq.networks.base import Network, Predictor, Stepper
from regard.seq2seq.networks.recurrent.config import RecurrentConfig
from regard.seq2seq.networks.recurrent.network import RecurrentNetwork
from regard.seq2seq.networks.transformer.config import TransformerConfig
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.sources.text.vocabulary import END, START
from regard.seq2seq.storage.model_file import write_model

WORDS = st.lists(st.integers(4, 9), min_size=1, max_size=6)
KINDS = ("bahdanau", "lstm", "blind", "transformer")


def network(kind: str, seed: int) -> Network:
    """A small random network with peaked predictions."""
    options: dict[str, dict[str, Any]] = {
        "bahdanau": {"style": "bahdanau"},
        "lstm": {"style": "luong", "score": "general", "cell": "lstm"},
        "blind": {"style": "luong", "score": "none"},
    }
    result: Network = (
        TransformerNetwork(TransformerConfig(12, 9, model_size=8, heads=2, feedforward_size=8))
        if kind == "transformer"
        else RecurrentNetwork(RecurrentConfig(12, 9, 4, 4, 4, 4, **options[kind]))
    )
    result.initialize(np.random.default_rng(seed), np.ones(9))
    result.parameters.flat[:] += np.random.default_rng(seed + 1).normal(size=result.parameters.flat.shape)
    return result


class Fixed(Stepper):
    """A network that predicts the same logits (V,) or (B, k, V) at every step, without attention."""

    def __init__(self, logits: Any) -> None:
        self.logits = logits

    def stepper(self, source: Any, lengths: Any, width: int = 1) -> Fixed:
        return self

    def __call__(self, words: Any) -> tuple[Any, Any]:
        return np.broadcast_to(self.logits, (*words.shape, self.logits.shape[-1])), np.zeros(
            (*words.shape, 0)
        )

    def select(self, parents: Any) -> None:
        pass

    def keep(self, sentences: Any) -> None:
        pass


def forced(
    network: Predictor, source: list[int], words: tuple[int, ...], *, posterior: bool = False
) -> Hypothesis:
    """The probabilities and attention weights of a network for one sentence."""
    batch: Batch = collate([EncodedPair(source, [START, *words, END])])
    return force(network, batch.source, batch.lengths, batch.target, posterior=posterior)[0]


def mean_of(networks: list[Network], source: list[int], one: Hypothesis) -> tuple[Any, Any]:
    """The logarithms of mean probabilities, and mean weights, of the networks."""
    each = [forced(net, source, one.tokens) for net in networks]
    count = len(one.log_probabilities)
    logs = np.log(
        np.mean([np.exp(forced_one.log_probabilities[:count].astype(float)) for forced_one in each], axis=0)
    )
    weights = [hypothesis.alignment for hypothesis in each if hypothesis.alignment.shape[1]]
    return logs, np.mean(weights, axis=0) if weights else each[0].alignment


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    st.integers(0, 2**16),
    st.lists(WORDS, min_size=1, max_size=4),
    st.integers(1, 4),
)
def test_hypotheses_have_the_mean_probability_of_each_token(
    kinds: list[str], seed: int, sources: list[list[int]], width: int
) -> None:
    networks = [network(kind, seed + number) for number, kind in enumerate(kinds)]
    rows = [[*source, END] for source in sources]
    results = beam(EnsembleNetwork(networks), *source_batch(rows), width=width, n_best=width)
    for row, several in zip(rows, results, strict=True):
        assert [one.score for one in several] == sorted((one.score for one in several), reverse=True)
        for one in several:
            logs, weights = mean_of(networks, row, one)
            np.testing.assert_allclose(one.log_probabilities, logs, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(one.alignment, weights[: len(one.alignment)], atol=1e-5)
            again = forced(EnsembleNetwork(networks), row, one.tokens).log_probabilities[: len(logs)]
            np.testing.assert_allclose(again, logs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(KINDS[:3]), min_size=1, max_size=3),
    st.integers(0, 2**16),
    st.lists(st.tuples(WORDS, st.lists(st.integers(3, 8), max_size=5)), min_size=1, max_size=4),
)
def test_the_alignment_is_the_mean_of_all_models(
    kinds: list[str], seed: int, pairs: list[tuple[list[int], list[int]]]
) -> None:
    networks = [network(kind, seed + number) for number, kind in enumerate(kinds)]
    batch = collate([EncodedPair([*source, END], [START, *words, END]) for source, words in pairs])
    both = [
        force(EnsembleNetwork(networks), batch.source, batch.lengths, batch.target, posterior=posterior)
        for posterior in (True, False)
    ]
    for (source, words), posterior_result, by_attention in zip(pairs, *both, strict=True):
        each = [forced(net, [*source, END], tuple(words), posterior=True).alignment for net in networks]
        seeing = [one for one in each if one.shape[1]] or each
        np.testing.assert_allclose(posterior_result.alignment, np.mean(seeing, axis=0), atol=1e-5)
        np.testing.assert_allclose(
            posterior_result.log_probabilities, by_attention.log_probabilities, rtol=1e-5, atol=1e-6
        )


@pytest.mark.slow
@given(
    st.integers(1, 3),
    st.sampled_from([1, 5, 3000]),
    st.sampled_from([0.0, 1, 20, 40, 1000]),
    st.integers(0, 2**16),
)
def test_the_mean_is_right_however_small(count: int, rows: int, spread: float, seed: int) -> None:
    """In double precision: a probability that underflows in float32 still has a logarithm."""
    logits = np.random.default_rng(seed).normal(scale=spread, size=(count, rows, 2, 9)).astype(np.float32)
    wide = logits.astype(np.float64)
    expected = logsumexp(wide - logsumexp(wide, axis=-1, keepdims=True), axis=0) - np.log(count)
    steps = [Fixed(one) for one in logits]
    log_probabilities, _ = EnsembleNetwork(steps).stepper(np.zeros((1, rows)), np.ones(rows))(
        np.zeros((rows, 2))
    )
    assert log_probabilities.dtype == np.float32
    np.testing.assert_allclose(
        log_probabilities, expected, rtol=1e-6, atol=1e-6 + 3e-7 * float(np.abs(logits).max())
    )


@pytest.mark.parametrize("kind", KINDS)
def test_an_ensemble_of_one_model_is_the_model(kind: str) -> None:
    one = network(kind, 3)
    batch = source_batch([[4, 5, 6, END], [7, END], [8, 8, 4, 9, 5, END]])
    expected = beam(one, *batch, width=3, n_best=3)
    for networks in ([one], [one, one]):
        for several, alone in zip(
            beam(EnsembleNetwork(networks), *batch, width=3, n_best=3), expected, strict=True
        ):
            assert [hypothesis.tokens for hypothesis in several] == [
                hypothesis.tokens for hypothesis in alone
            ]
            np.testing.assert_allclose(
                [hypothesis.score for hypothesis in several],
                [hypothesis.score for hypothesis in alone],
                atol=1e-4,
            )


def test_samples_follow_the_mean_probabilities() -> None:
    # END is the third; 3 and 4 are probable in one model each, 5 in both: .45 against .225 in the mean.
    likely = np.array([[1e-30, 1e-30, 0.1, 0.0001, 0.4499, 0.45], [1e-30, 1e-30, 0.1, 0.4499, 0.0001, 0.45]])
    networks = [Fixed(one) for one in np.log(likely)]
    (hypothesis,) = force(EnsembleNetwork(networks), *source_batch([[END]]), np.array([[START], [5], [END]]))
    np.testing.assert_allclose(np.exp(hypothesis.log_probabilities), [0.45, 0.1], rtol=1e-6)
    drawn = sample(
        EnsembleNetwork(networks),
        *source_batch([[END]]),
        rng=[np.random.default_rng(1)],
        count=2000,
        temperature=1.0,
    )[0]
    first = [one.tokens[0] for one in drawn if one.tokens]
    shares = [first.count(word) / len(first) for word in (3, 4, 5)]
    np.testing.assert_allclose(shares, [0.25, 0.25, 0.5], atol=0.04)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_broken_network_is_an_error(value: float) -> None:
    broken = network("bahdanau", 1)
    broken.parameters["output_bias"][4] = value
    with pytest.raises(ValueError, match=r"must be finite\. Got nan instead"):
        beam(EnsembleNetwork([network("bahdanau", 2), broken]), *source_batch([[4, END]]), width=2)


# ------------------------------------------------------------------------------------------------------- models

LEFT = ["one", "two", "three", "four", "five", "one two", "two three", "three one", "four five", "five two"]
RIGHT = ["un", "deux", "trois", "quatre", "cinq"]
NAMED = dict(zip(LEFT[:5], RIGHT, strict=True))
TARGETS = [" ".join(NAMED[word] for word in source.split()) for source in LEFT]
SMALL: dict[str, Any] = {
    "network": {"model_size": 8, "heads": 2, "feedforward_size": 8},
    "family": "transformer",
}


def learned(**options: Any) -> Seq2Seq:
    return Seq2Seq(**{"epochs": 1, **options}).fit(LEFT, TARGETS)


@pytest.fixture(scope="module")
def three() -> list[Seq2Seq]:
    return [learned(epochs=40, seed=1), learned(epochs=40, seed=2), learned(**SMALL, seed=3)]


def test_models_translate_together(three: list[Seq2Seq]) -> None:
    both = Ensemble(three[:2])
    assert both.attention
    assert [translation.text for translation in both.translate(LEFT)] == TARGETS
    assert [translation.text for translation in both.translate(LEFT, beam=1)] == TARGETS
    sources = [*LEFT, "", "nothing known"]
    for several in Ensemble(three).candidates(sources, beam=3):
        for one in several:
            assert one.alignment is not None
            assert one.alignment.shape == (len(one.tokens), len(one.source))
            np.testing.assert_allclose(one.alignment.sum(axis=1), 1, rtol=1e-5)


def test_samples_and_an_ensemble_of_ensembles(three: list[Seq2Seq]) -> None:
    flat, nested = Ensemble(three[:2]), Ensemble([Ensemble([three[0]]), Ensemble([three[1]])])
    (one,), (other,) = (model.sample(["two one"], count=5, rng=4) for model in (flat, nested))
    assert [translation.text for translation in one] == [translation.text for translation in other]


def test_without_attention() -> None:
    blind = [learned(attention=False, seed=seed) for seed in (1, 2)]
    assert not Ensemble(blind).attention
    assert Ensemble(blind).translate(["one"])[0].alignment is None
    seeing = Ensemble([*blind, learned()])
    assert seeing.attention
    translation = seeing.translate(["one two"])[0]
    assert translation.alignment is not None
    assert translation.alignment.shape[1] == 3


def test_all_models_use_what_appends_tokens() -> None:
    models = [learned(extras={"similar": 1}, seed=seed) for seed in (1, 2)]
    translation = Ensemble(models).translate(["one three"])[0]
    assert translation.retrieved == models[0].translate(["one three"])[0].retrieved
    assert translation.retrieved_weights is not None
    assert translation.retrieved_weights.shape == (len(translation.tokens), len(translation.retrieved))


def test_held_out_pairs_do_not_depend_on_the_seed() -> None:
    names = [f"n{i}" for i in range(60)]
    one, two = (Seq2Seq(epochs=1, seed=seed).fit(names, names) for seed in (1, 2))
    assert one.model.source == two.model.source
    assert not (one.network.parameters.flat == two.network.parameters.flat).all()
    Ensemble([one, two])


def other_memory(folder: Path) -> Seq2Seq:
    model = learned(extras={"similar": 1}).model
    write_model(folder / "it", model._replace(extras={"similar": Similar(1, [([4], [4])])}))
    return Seq2Seq.load(folder / "it")


@pytest.mark.parametrize(
    ("one", "two", "text"),
    [
        ({}, {"lower": False}, "read sources in the same way"),
        ({}, {"target": "tokens"}, "know the same tokens of the target"),
        ({}, {"extras": {"similar": 1}}, "have the same similar, or none"),
        (
            {"extras": {"similar": 1}},
            {"extras": {"similar": 2}},
            "have the same similar, or none",
        ),
    ],
)
def test_models_that_do_not_go_together_are_rejected(
    one: dict[str, Any], two: dict[str, Any], text: str
) -> None:
    models = [learned(**one), learned(**one), learned(**two)]
    with pytest.raises(ValueError) as caught:
        Ensemble(models)
    assert str(caught.value) == (
        f"models must {text}. Model 3 differs from model 1.\n"
        "  hint: train them on the same pairs with the same token types, with different seeds"
    )


def test_invalid_ensembles_are_rejected(three: list[Seq2Seq], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="have the same similar, or none"):
        Ensemble([learned(extras={"similar": 1}), other_memory(tmp_path)])
    with pytest.raises(ValueError, match=r"at least one\. Got none"):
        Ensemble([])
    with pytest.raises(TypeError, match=r"a sequence of translators\. Got Seq2Seq"):
        Ensemble(three[0])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Got a sequence with 'runs/one' instead"):
        Ensemble([three[0], "runs/one"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="must be trained or loaded first"):
        Ensemble([three[0], Seq2Seq()])
    with pytest.raises(
        ValueError, match="posterior must be False for a transformer, alone or in an ensemble"
    ):
        Ensemble(three).align(LEFT, TARGETS, posterior=True)
    with pytest.raises(ValueError, match="coverage_penalty must be 0"):
        Ensemble([learned(extras={"similar": 1})]).translate(["one"], scoring=Scoring(coverage_penalty=0.1))


# ----------------------------------------------------------------------------------------------------- commands


@pytest.fixture
def files(three: list[Seq2Seq], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, model in zip(("one", "two", "three"), three, strict=True):
        (tmp_path / name).mkdir()
        model.save(tmp_path / name / "model.safetensors")
    learned(lower=False).save(tmp_path / "other")
    Path("lines").write_text("\n".join([*LEFT, "two one"]), encoding="utf-8")
    Path("test").write_text(
        "".join(f"{s}\t{t}\n" for s, t in zip(LEFT, TARGETS, strict=True)), encoding="utf-8"
    )
    Path("gold").write_text("0-0\n" * len(LEFT), encoding="utf-8")
    return tmp_path


@pytest.mark.usefixtures("files")
def test_translate_together(three: list[Seq2Seq], capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--ensemble", "two", "--ensemble", "three/model.safetensors"]
    assert main(["translate", "one", "lines", *more, "--scores", "--alignment", "pharaoh"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    expected = Ensemble(three).translate([*LEFT, "two one"])
    assert [line[1] for line in lines] == [translation.text for translation in expected]
    np.testing.assert_allclose(
        [float(line[0]) for line in lines], [translation.score for translation in expected], atol=1e-3
    )


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_align_together(three: list[Seq2Seq], capsys: pytest.CaptureFixture[str]) -> None:
    """Both directions, each by its ensemble."""
    for name, seed in (("back", 1), ("again", 2)):
        Seq2Seq(epochs=20, seed=seed).fit(TARGETS, LEFT).save(name)
    there, back = Ensemble(three[:2]), Ensemble([Seq2Seq.load(name) for name in ("back", "again")])
    arguments = ["align", "one", "test", "--ensemble", "two", "--posterior"]
    translations = there.align(LEFT, TARGETS, posterior=True)
    assert main([*arguments, "--threshold", "0.3"]) == 0
    expected = [
        spell(links(one.alignment, threshold=0.3)) for one in translations if one.alignment is not None
    ]
    assert capsys.readouterr().out.splitlines() == expected
    turned = back.align(TARGETS, LEFT, posterior=True)
    assert (
        main([*arguments, "--reverse", "back", "--reverse", "again", "--symmetrize", "product", "--scores"])
        == 0
    )
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    for line, one, other in zip(lines, translations, turned, strict=True):
        assert one.alignment is not None
        assert other.alignment is not None
        assert line[:2] == [f"{one.score:.4f}", f"{other.score:.4f}"]
        assert line[2] == spell(links(posterior_product(one.alignment, other.alignment), end=False))


@pytest.mark.usefixtures("files")
def test_evaluate_together(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "evaluate",
        "one",
        "test",
        "--ensemble",
        "two",
        "--compare",
        "one",
        "two",
        "--json",
        "numbers",
    ]
    assert main([*arguments, "--gold", "gold", "--posterior"]) == 0
    captured = capsys.readouterr()
    assert "translating (one + two)" in captured.err
    models = json.loads(Path("numbers").read_text(encoding="utf-8"))["models"]
    assert [model["name"] for model in models] == ["one + two", "one", "two"]
    assert models[0]["exact"] == 1
    assert main([*arguments, "--names", "both", "first", "second"]) == 0
    assert "translating (both)" in capsys.readouterr().err


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["translate", "one", "lines", "--ensemble", "one"],
            "the models of an ensemble must be different files",
        ),
        (["translate", "one", "lines", "--ensemble", "one/../one"], "must be different files"),
        (
            ["translate", "one", "lines", "--ensemble", "other"],
            "in the same way. Model 2 differs from model 1; hint: train them on the same pairs",
        ),
        (["translate", "one", "lines", "--ensemble", "nothing"], "nothing: No such file or directory"),
        (["evaluate", "one", "test", "--ensemble", "one"], "must be different files"),
        (
            ["evaluate", "--hypotheses", "lines", "--ensemble", "one"],
            "--ensemble and --hypotheses exclude each other",
        ),
        (
            ["evaluate", "one", "test", "--ensemble", "three", "--gold", "gold", "--posterior"],
            "--posterior needs recurrent models: a transformer attends several times",
        ),
        (
            ["align", "one", "test", "--ensemble", "three", "--posterior"],
            "--posterior needs recurrent models: a transformer attends several times",
        ),
        (
            ["align", "one", "test", "--ensemble", "other"],
            "one and other: models must read sources in the same way",
        ),
        (["align", "one", "test", "--reverse", "two", "--reverse", "two"], "must be different files"),
        (
            ["evaluate", "one", "test", "--ensemble", "two", "--names", "a", "b"],
            "--names must be as many as what is measured",
        ),
    ],
)
def test_commands_reject_invalid_ensembles(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert text in captured.err
    assert "translating" not in captured.err  # before any work
    assert captured.out == ""
