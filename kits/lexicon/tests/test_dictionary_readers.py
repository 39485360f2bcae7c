"""Written dictionaries as foreign programs read them: sherpa-onnx, MFA, Kaldi's rules."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import typing
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from regard.seq2seq import Seq2Seq
from regard_lexicon import Lexicon, Prepared, Pronouncer, Variant, prepare, read

# One phone string for each word, so that a word that is found under another name is seen.
WORDS = """
a cab mother-in-law x-ray don't d’accord rock'n'roll l'été été Élan naïve straße øre ø český łódź ışık дом и
नमस्ते كتاب 사람 ọjọ́ 日本 日 日本x 24 mp3 d.c. hello! #tag c# a_b at&t Polish polish ÑANDÚ cañón übung über ÀÉÎ (a)
’tis c+ İzmir κόσμος ἄνθρωπος ǆ ﬁn 42nd o'k’s — “ “a” ' ’ ? a|b a||b ÇÊÀÉé GRÖßE
""".split()  # noqa: SIM905
ALPHABET = "abcdefghij"
TOKENS = "".join(f"{symbol} {number}\n" for number, symbol in enumerate(["_", *ALPHABET, *"^$!?.,", " "]))


def numbered(words: list[str]) -> Lexicon:
    """A dictionary in which the phones of a word are the digits of its place."""
    return Lexicon(
        (word, [ALPHABET[int(digit)] for digit in f"{place:04d}"])
        for place, word in enumerate(words, start=1)
    )


# ----------------------------------------------------------------------------------------------- sherpa-onnx

# How a text has a word of the dictionary.
CASES: dict[str, Callable[[str], str]] = {
    "as listed": str,
    "lower case": str.lower,
    "first capital": lambda word: word[0].upper() + word[1:],
    "capitals": str.upper,
}
KINDS = {
    "vits": True,
    "kokoro": False,
    "kitten": False,
    "matcha": True,
}  # and whether they read ASCII's apostrophe only


def spoken(kind: str, prepared: Prepared, texts: list[Any], folder: Path) -> list[list[int]]:
    """The ids of the symbols that a dummy voice of sherpa-onnx is given for each text."""
    pytest.importorskip("sherpa_onnx", reason="sherpa-onnx, which reads these files, is not installed")
    pytest.importorskip("onnx", reason="onnx, which makes the dummy voices, is not installed")
    lexicon = prepared.save(folder / "lexicon.txt")[0]
    (folder / "tokens.txt").write_text(TOKENS, "utf-8")
    program = Path(__file__).with_name("sherpa_voice.py")
    command = [sys.executable, str(program), kind, str(folder / "tokens.txt"), lexicon, str(folder)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ids: list[list[int]] = json.loads((folder / "spoken.json").read_text())
    return ids


def reached(kind: str, lexicon: Lexicon, texts: dict[str, str], folder: Path) -> tuple[set[str], set[str]]:
    """The words whose own phones a voice speaks, and those that are written for it; texts stand for the words."""
    prepared = prepare(lexicon, f"sherpa-{kind}", symbols=ALPHABET)
    if KINDS[kind]:
        texts = {word: text for word, text in texts.items() if "\u2019" not in text}
    ids = spoken(kind, prepared, [*texts.values()], folder)
    known = {word: "".join(lexicon[word][0].phones) for word in texts}
    found = {word for word, heard in zip(texts, ids, strict=True) if letters(heard) == known[word]}
    return found, texts.keys() - {entry.word for entry in prepared.left_out}


def letters(ids: list[int]) -> str:
    """The symbols of ids, without those that are no letters."""
    return "".join(ALPHABET[i - 1] for i in ids if 0 < i <= len(ALPHABET))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_voice_finds_the_words_that_are_written_and_no_others(kind: str, case: str, tmp_path: Path) -> None:
    texts = {word: CASES[case](word) for word in WORDS if len(CASES[case](word)) == len(word)}
    found, written = reached(kind, numbered(WORDS), texts, tmp_path)
    assert found == written


POOLS = """
abcxyz ABCXYZ éèüñßçàêïôûäö ÉÈÜÑÇÀÊÏÔÛÄÖ åøłčşþæœ ÅØŁČŞÞÆŒ дйжю ДЙЖЮ αςσώ ΑΣΏ '’-_ 019 !?.,:;… #&@()+*/"“”«»|
日本語かな 한국 नमस्ते سلام ıİ ﬁǆǅ \u0301\u0323 ʼˈː 😀
""".split()  # noqa: SIM905


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_voice_finds_random_words_that_are_written_and_no_others(kind: str, tmp_path: Path) -> None:
    rng = random.Random(1)
    pools = ["".join(rng.sample(POOLS, rng.randint(1, 3))) for _ in range(2000)]
    made = ("".join(rng.choices(pool, k=rng.randint(1, 6))) for pool in pools)
    words = list(dict.fromkeys(unicodedata.normalize("NFC", word) for word in made))
    found, written = reached(kind, numbered(words), {word: word for word in words}, tmp_path)
    assert found == written


@pytest.mark.slow
def test_a_piper_voice_speaks_the_code_points_of_a_text(tmp_path: Path) -> None:
    """It begins a sentence with ^, ends it with $, and has _ between the symbols."""
    lexicon = Lexicon([("one", ["a", "b"]), ("two", ["c"])])
    model = Seq2Seq(epochs=1, source="characters", target="tokens").fit(["ab", "ba"], ["a b", "b a"])
    points = Pronouncer(model, lexicon).codepoints("One two! Two.")
    prepared = prepare(lexicon, "sherpa-vits", symbols=ALPHABET)
    (ids,) = spoken("piper", prepared, [points], tmp_path)
    names = dict(enumerate(["_", *ALPHABET, *"^$!?.,", " "]))
    assert "".join(names[i] for i in ids) == "^_a_b_ _c_!_$^_c_._$"


# ------------------------------------------------------------------------------------------------------- MFA

MFA = ("montreal-forced-aligner", "3.4.3", "efe5025e4a473053b89b975acdc6365612ce9e854677edc2e562e7fc4fa42d94")


@pytest.fixture(scope="session")
def mfa_parser() -> Callable[[Path], Iterator[tuple[Any, ...]]]:
    """MFA's parser of dictionaries, from its wheel in the user's cache; skipped where pip can't get the wheel."""
    name, version, digest = MFA
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "regard-tests")
    wheel = cache / f"{name}-{version}.whl"
    if not wheel.is_file():
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "-qd", folder, f"{name}=={version}"]
            done = subprocess.run(pip, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"pip can't get {name}: {(done.stderr.splitlines() or ['no reason given'])[-1]}")
            (archive,) = Path(folder).iterdir()
            cache.mkdir(parents=True, exist_ok=True)
            partial = wheel.with_suffix(f".{os.getpid()}")
            partial.write_bytes(archive.read_bytes())
            partial.replace(wheel)  # other processes of tests do the same
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == digest
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read("montreal_forced_aligner/utils.py"))
    # The module itself imports Kaldi, which has no wheel.
    (function,) = (
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "parse_dictionary_file"
    )
    names: dict[str, Any] = {
        "typing": typing,
        "re": re,
        "unicodedata": unicodedata,
        "Path": Path,
        "DictionaryError": ValueError,
        "mfa_open": lambda path: path.open(encoding="utf-8"),
    }
    exec(compile(ast.Module([function], []), "mfa", "exec"), names)
    return names["parse_dictionary_file"]


STRANGE = ["1", "1.0", "0.5", "1.a", "a", "a_B", "#1", "b", "ː", "1e-05", ".5", "2"]


@pytest.mark.slow  # downloads the wheel once
def test_mfa_reads_the_words_phones_and_probabilities(
    mfa_parser: Callable[[Path], Iterator[tuple[Any, ...]]], tmp_path: Path
) -> None:
    entries = [
        (f"w{i}{j}", [first, second]) for i, first in enumerate(STRANGE) for j, second in enumerate(STRANGE)
    ]
    weighted = [
        ("é", Variant(("a", "b"), 0.25)),
        ("é", Variant(("b",), 0.5)),
        ("e\u0301", Variant(("ː",), 5e-9)),
    ]
    lexicon = Lexicon([*entries, *numbered(WORDS).entries(), *weighted, ("a b", ["a"]), ("<eps>", ["a"])])
    prepared = prepare(lexicon, "mfa")
    path = Path(prepared.save(tmp_path / "words.dict")[0])
    found = [*mfa_parser(path)]
    assert [(word, phones) for word, phones, *_ in found] == [
        (word, variant.phones) for word, variant in prepared.lexicon.entries()
    ]
    own = [(word, variant.phones) for word, variant in read(path, format="mfa").entries()]
    assert own == [(word, phones) for word, phones, *_ in found]
    assert [entry[2:] for entry in found if entry[0] == "é"] == [
        (p, None, None, None) for p in (0.5, 1.0, 0.000001)
    ]
    assert {*prepared.lost} >= {"a b", "<eps>", "w00", "w10", "w20", "w30"}
    assert "w90" not in prepared.lost  # 1e-05 is a phone for MFA


# ------------------------------------------------------------------------------------------------------ Kaldi


def kaldi_faults(path: Path) -> list[str]:
    """What Kaldi's check of a dictionary says about a file, by its rules."""
    data = path.read_bytes()
    text = data.decode()
    lines = text.removesuffix("\n").split("\n")
    faults = [] if text.endswith("\n") else ["the last line does not end"]
    faults += ["a carriage return"] * ("\r" in text)
    faults += ["other white space"] * any(c.isspace() and c not in "\t\n\r " for c in text)
    faults += ["a line twice"] * (len({*lines}) < len(lines))
    for line in lines:
        word, *rest = re.split("[ \t]+", line.strip(" \t"))
        faults += [f"reserved word {word}"] * (word in {"", "<s>", "</s>", "<eps>", "#0"})
        faults += ["no phones"] * (not rest)
        faults += [f"phone {p}" for p in rest if re.search("^#|_[BESI]$", p) or p == "<eps>"]
    return faults


def test_kaldis_rules_hold(tmp_path: Path) -> None:
    entries = [
        (word, Variant((phone, "a"), p)) for word in WORDS for phone in STRANGE for p in (None, 1e-9, 0.3)
    ]
    bad = [(word, ["a"]) for word in ("<s>", "</s>", "<eps>", "#0", "a b")]
    prepared = prepare(Lexicon([*entries, *bad]), "kaldi")
    assert kaldi_faults(Path(prepared.save(tmp_path / "lexicon.txt")[0])) == []
    assert {*prepared.lost} == {word for word, _ in bad}
