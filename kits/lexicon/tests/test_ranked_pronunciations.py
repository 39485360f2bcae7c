"""The place of a pronunciation and its share agree, in every result that has both."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from unsure import ASKED, falls, sounds, translators

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.translator import Translator
from regard_lexicon import Pronouncer, read


@pytest.fixture
def models() -> dict[str, Translator]:
    """Models with and without a reranker."""
    return translators("graphones")


@pytest.fixture(params=["plain", "reranked", "ensemble"])
def model(models: dict[str, Translator], request: pytest.FixtureRequest) -> Translator:
    return models[request.param]


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
    model = copy.copy(models["reranked"])
    assert isinstance(model, Seq2Seq)
    model.calibrate(ASKED, [sounds(word) for word in ASKED])
    assert model.calibration is not None
    model.calibration = model.calibration._replace(mass_slope=0.0, share_slope=1.0)
    found = [several[0] for several in Pronouncer(model).pronounce(ASKED)]
    by_share = sorted(found, key=lambda one: one.confidence)
    assert falls([one.probability or 0 for one in by_share[::-1]])
