"""A dictionary that is given as pairs is recognised, and the way to read it is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.cli import main
from regard.seq2seq import Seq2Seq

SMALL = {"embedding": 4, "encoder": 4, "decoder": 4, "attention": 4}
KNOWN = {  # files of other verbs, and the format that is named
    "words.dict": ("cat K AE T\ntack T AE K\nat AE T\n", "kaldi"),
    "cmu.dict": ("cat K AE T\ncat(2) K AA T\ntack T AE K\n", "cmudict"),
    "mfa.dict": ("cat\t0.99\tK AE T\ntack\t1.0\tT AE K\n", "mfa"),
    "gold.json": ('{"cat": "kæt", "tack": "tæk"}', "misaki"),
}
UNKNOWN = {
    "lines.txt": "the cat is here\na dog runs\nwho are you then\n",
    "one.txt": "cat\n",
    "zero": "\0\1\n",
}


@pytest.mark.parametrize("name", [*KNOWN, *UNKNOWN])
def test_the_error_about_a_dictionary_names_the_way(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text, format = KNOWN.get(name) or (UNKNOWN[name], "")
    (tmp_path / name).write_text(text, "utf-8")
    Seq2Seq(network=SMALL, epochs=1).fit(["a"], ["b"]).save("model.safetensors")
    hint = f"--task pronunciation reads it as a dictionary in the format {format}"
    assert main(["train", name, "--steps", "1"]) == 2
    err = capsys.readouterr().err
    assert ("line 1:" in err, hint in err) == (True, bool(format))
    assert main(["evaluate", "model.safetensors", name]) == 2
    assert (hint in capsys.readouterr().err) == bool(format)
    hint = f"{name} is a dictionary in the format {format}: regard lexicon --format tsv makes pairs of it"
    assert main(["align", "model.safetensors", name]) == 2
    assert (hint in capsys.readouterr().err) == bool(format)
