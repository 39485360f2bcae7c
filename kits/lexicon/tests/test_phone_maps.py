"""The phone maps from ARPAbet that come along."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from regard.cli import main
from regard_lexicon import Lexicon, prepare, read, read_phone_map
from regard_lexicon.arpabet import MAPS
from regard_lexicon.symbols import Replacements

CMUDICT = Path(__file__).parents[3] / "data" / "cmudict" / "words.dict"
VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW".split()  # noqa: SIM905
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH".split()  # noqa: SIM905
PHONES = [*CONSONANTS, *(f"{vowel}{digit}" for vowel in VOWELS for digit in "012")]
# Written by hand: what a reader of the three alphabets expects.
WORDS = {
    "bird": ("B ER1 D", "b ˈɝ d", "bˈɜɹd", 'b "3` d'),
    "measure": ("M EH1 ZH ER0", "m ˈɛ ʒ ɚ", "mˈɛʒəɹ", 'm "E Z @`'),
    "choice": ("CH OY1 S", "tʃ ˈɔɪ s", "ʧˈYs", 'tS "OI s'),
    "outgoing": ("AW1 T G OW2 IH0 NG", "ˈaʊ t ɡ ˌoʊ ɪ ŋ", "ˈWtɡˌOɪŋ", '"aU t g %oU I N'),
    "about": ("AH0 B AW1 T", "ə b ˈaʊ t", "əbˈWt", '@ b "aU t'),
}


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return read(CMUDICT)


@pytest.mark.parametrize("name", MAPS)
def test_each_of_the_69_phones_comes_back(name: str) -> None:
    there = read_phone_map(name)
    rows = {there[(phone,)]: phone for phone in PHONES}
    assert len(PHONES) == len(rows) == 69
    back = Replacements({symbols: (phone,) for symbols, phone in rows.items()})
    assert [back(Replacements(there)([phone])) for phone in PHONES] == [(phone,) for phone in PHONES]


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
def test_a_dictionary_comes_back(name: str, lexicon: Lexicon) -> None:
    """For misaki, AH0 R and ER0 are one, as they are for its own voices: what comes back is written alike."""
    there = read_phone_map(name)
    forth = Replacements(there)
    back = Replacements({there[(phone,)]: (phone,) for phone in PHONES})
    for word, variant in lexicon.entries():
        again = back(forth(variant.phones))
        assert forth(again) == forth(variant.phones), word
        assert name == "arpabet-misaki" or again == variant.phones


@pytest.mark.parametrize("word", WORDS)
def test_words_by_hand(word: str) -> None:
    phones, *expected = WORDS[word]
    for name, text in zip(MAPS, expected, strict=True):
        glue = "" if name == "arpabet-misaki" else " "
        assert glue.join(Replacements(read_phone_map(name))(phones.split())) == text


@pytest.mark.slow
@pytest.mark.parametrize("stress", ["keep", "drop", "separate"])
def test_any_stress_is_mapped(stress: Literal["keep", "drop", "separate"], lexicon: Lexicon) -> None:
    mapped = prepare(lexicon, "tsv", stress=stress, phone_map=read_phone_map("arpabet-ipa"))
    assert not any(phone.isascii() and phone.isupper() for phone in mapped.lexicon.phones())
    assert ("ˈ" in "".join(mapped.lexicon.phones())) == (stress != "drop")


def test_the_command_takes_a_name_unless_a_file_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.dict").write_text("abandoned AH0 B AE1 N D AH0 N D\nher HH ER0\n", "utf-8")
    command = "lexicon words.dict --format misaki --phone-map arpabet-misaki --out words.json"
    assert main(command.split(" ")) == 0
    assert '"abandoned": "əbˈændənd"' in Path("words.json").read_text("utf-8")
    Path("arpabet-misaki").write_text("AH0\tx\n", "utf-8")
    assert read_phone_map("arpabet-misaki") == {("AH0",): ("x",)}


def test_a_map_of_other_phones_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.tsv").write_text("abend\ta b n t\nbad\tb aː t\n", "utf-8")
    Path("vowels.tsv").write_text("aː\tA\n", "utf-8")
    for name, told in {"arpabet-ipa": True, "vowels.tsv": False}.items():
        assert main(["lexicon", "words.tsv", "--format", "tsv", "--phone-map", name, "--out", "out.tsv"]) == 0
        notes = capsys.readouterr().err.splitlines()
        assert ("arpabet-ipa replaces no phone: all stay as they are" in notes) == told


def test_a_map_that_leaves_nearly_all_words_out_is_an_error() -> None:
    words = [chr(97 + i) for i in range(20)]
    lexicon = Lexicon((word, ["æ" if word == "a" else "AE1"]) for word in words)
    with pytest.raises(ValueError, match=r"19 of 20 words[^.]*\n  hint: mostly since the phone AE1"):
        prepare(lexicon, "misaki", phone_map={("ae",): ("æ",)})
    assert len(prepare(lexicon, "misaki").lost) == 19
    fewer = Lexicon([*lexicon.entries(), ("y", ["æ"]), ("z", ["æ"])])
    assert len(prepare(fewer, "misaki", phone_map={("ae",): ("æ",)}).lost) == 19
