"""The place of a pronunciation and its share agree, in every result that has both."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from regard.cli import main
from regard.seq2seq import Ensemble, Seq2Seq
from regard.seq2seq.translator import Translator
from regard_lexicon import Pronouncer, read

WORDS = ["".join(letters) for letters in itertools.product("abc", repeat=4)]
ASKED = ["".join(letters) for letters in itertools.product("abc", repeat=5)][::12]


def sounds(word: str) -> str:
    """Two letters of three have two sounds, by what follows, so that the hypotheses are close."""
    after = [*word[1:], "a"]
    return " ".join(x if x == "c" or y == "a" else x + x for x, y in zip(word, after, strict=True))


def trained(seed: int, extras: dict[str, int]) -> Seq2Seq:
    network = {"embedding": 8, "encoder": 8, "decoder": 8, "attention": 8}
    model = Seq2Seq(source="characters", target="tokens", network=network, extras=extras, epochs=3, seed=seed)
    return model.fit(WORDS, [sounds(word) for word in WORDS])


@pytest.fixture(scope="session")
def models() -> dict[str, Translator]:
    """Models with and without a reranker, which are far from sure."""
    plain, reranked = trained(1, {}), trained(1, {"graphones": 2})
    reranker = reranked.model.reranker
    assert reranker is not None
    reranker.weight = 2.0
    other = trained(2, {})
    return {"plain": plain, "reranked": reranked, "ensemble": Ensemble([plain, other])}


@pytest.fixture(params=["plain", "reranked", "ensemble"])
def model(models: dict[str, Translator], request: pytest.FixtureRequest) -> Translator:
    return models[request.param]


def falls(numbers: Sequence[float]) -> bool:
    return all(one >= two - 1e-12 for one, two in itertools.pairwise(numbers))


@pytest.mark.slow
def test_the_best_of_a_pronouncer_have_the_largest_shares(model: Translator) -> None:
    for several in Pronouncer(model, beam=8).pronounce(ASKED, n_best=8):
        assert falls([one.confidence for one in several])


@pytest.mark.slow
@pytest.mark.parametrize("format", ["mfa", "kaldi"])
def test_a_written_dictionary_has_the_best_answer_first_with_1(
    models: dict[str, Translator], tmp_path: Path, format: str
) -> None:
    models["reranked"].save(tmp_path / "model.safetensors")  # type: ignore[attr-defined]
    (tmp_path / "words.txt").write_text("\n".join(ASKED), "utf-8")
    out = tmp_path / "out.dict"
    command = ["pronounce", str(tmp_path), str(tmp_path / "words.txt"), "--n-best", "3"]
    assert main([*command, "--format", format, "--out", str(out)]) == 0
    written = read(out if format == "mfa" else tmp_path / "lexiconp.txt")
    answers = models["reranked"].candidates(ASKED, unknown_words="next")
    for word, several in zip(ASKED, answers, strict=True):
        assert [one.phones for one in written[word]] == [one.tokens for one in several[:3]]
        shares = [one.probability for one in written[word]]
        assert shares[0] == 1
        assert falls([share or 0 for share in shares])


@pytest.mark.slow
def test_a_calibrated_probability_is_of_the_shares_that_are_shown(models: dict[str, Translator]) -> None:
    """Where only the share counts, the more certain answer of a search has the larger probability."""
    model = models["reranked"]
    assert isinstance(model, Seq2Seq)
    model.calibrate(ASKED, [sounds(word) for word in ASKED])
    assert model.calibration is not None
    model.calibration = model.calibration._replace(mass_slope=0.0, share_slope=1.0)
    found = [several[0] for several in Pronouncer(model).pronounce(ASKED)]
    by_share = sorted(found, key=lambda one: one.confidence)
    assert falls([one.probability or 0 for one in by_share[::-1]])
