"""A peer of benchmarks/pronunciation.py: Phonetisaurus, trained on the same words.

It is widely used for pronunciations without a neural network (Novak, Minematsu and Hirose 2016, "Phonetisaurus:
Exploring grapheme-to-phoneme conversion with joint n-gram models in the WFST framework"): it aligns letters and
phonemes by expectation maximisation, counts n-grams of the pairs, and returns the most probable path. Its programs run
unchanged, on Linux for x86-64, with n-grams of up to eight as in its own example for CMUdict, and with the smoothing
that does best here.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from data import Missing, Words
from data import phonetisaurus as unpacked_phonetisaurus

ORDER, SMOOTHING = 8, "ModKN"


class Model:
    """A trained model, in a temporary folder."""

    def __init__(self, words: Words) -> None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise Missing("the programs of Phonetisaurus are for Linux on x86-64")
        self.programs = unpacked_phonetisaurus()
        self.folder = tempfile.TemporaryDirectory()
        lines = [f"{word}\t{' '.join(phonemes)}" for word, listed in words.items() for phonemes in listed]
        self._write("words", lines)
        self._run("phonetisaurus-align", "--input=words", "--ofile=aligned", "--seq1_del=false")
        self._run("estimate-ngram", "-o", str(ORDER), "-t", "aligned", "-s", SMOOTHING, "-wl", "counts")
        self._run("phonetisaurus-arpa2wfst", "--lm=counts", "--ofile=model")

    def pronounce(self, words: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the phonemes of words; none where there is no path."""
        self._write("queries", words)
        output = self._run("phonetisaurus-g2pfst", "--model=model", "--nbest=1", "--wordlist=queries")
        columns = [line.split("\t") for line in output.splitlines()]
        phonemes = {column[0]: tuple(column[-1].split()) for column in columns if len(column) == 3}
        return [phonemes.get(word, ()) for word in words]

    def _write(self, name: str, lines: Sequence[str]) -> None:
        Path(self.folder.name, name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def _run(self, program: str, *options: str) -> str:
        path = self.programs / "bin" / "x86_64" / program
        path.chmod(0o755)  # zipfile does not restore permissions
        libraries = os.fspath(self.programs / "lib" / "x86_64")
        try:
            done = subprocess.run(
                [os.fspath(path), *options],
                cwd=self.folder.name,
                env={**os.environ, "LD_LIBRARY_PATH": libraries},
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as error:
            raise Missing(f"{program} cannot be run: {error}") from None
        if done.returncode:
            raise Missing(f"{program} failed: {done.stderr.strip().splitlines()[-1:]}")
        return done.stdout
