"""The place of a pronunciation and its share agree where a dictionary is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from unsure import ASKED, falls, trained

from regard.cli import main
from regard_lexicon import read


@pytest.mark.slow
def test_a_written_dictionary_has_the_best_answer_first_with_1(tmp_path: Path) -> None:
    model = trained(1, "graphones")
    model.save(tmp_path / "model.safetensors")
    (tmp_path / "words.txt").write_text("\n".join(["zz", *ASKED]), "utf-8")
    (tmp_path / "known.dict").write_text("zz\t0.25\ta\nzz\t1.0\tb\n", "utf-8")
    out = tmp_path / "out.dict"
    command = ["pronounce", str(tmp_path), str(tmp_path / "words.txt"), "--n-best", "3"]
    command += ["--lexicon", str(tmp_path / "known.dict")]
    assert main([*command, "--format", "mfa", "--out", str(out)]) == 0
    written = read(out)
    assert [one.probability for one in written["zz"]] == [0.25, 1.0]  # as listed
    for word, several in zip(ASKED, model.candidates(ASKED, unknown_words="next"), strict=True):
        assert [one.phones for one in written[word]] == [one.tokens for one in several[:3]]
        shares = [one.probability for one in written[word]]
        assert shares[0] == 1
        assert falls([share or 0 for share in shares])
