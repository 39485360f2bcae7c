"""Writing dictionaries: the bytes of each format by hand, what is left out and why, symbols, stress, phone maps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from regard_lexicon import FORMATS, Lexicon, Variant, prepare, read, write
from regard_lexicon.stress import stressed
from regard_lexicon.symbols import Replacements

READ = Lexicon(
    [
        ("read", Variant(("ɹ", "ɛ", "d"), 0.2, "VBD")),
        ("bé", Variant(("b", "iː"))),
        ("read", Variant(("ɹ", "iː", "d"), 0.8, "VB")),
    ]
)
SYMBOLS = ["ɹ", "ɛ", "d", "iː", "b"]
WRITTEN = {
    "cmudict": "read ɹ ɛ d\nread(2) ɹ iː d\nbé b iː\n",
    "mfa": "read\t0.25\tɹ ɛ d\nread\t1.0\tɹ iː d\nbé\t1.0\tb iː\n",
    "kaldi": "read ɹ ɛ d\nread ɹ iː d\nbé b iː\n",
    "phonetisaurus": "read\tɹ ɛ d\nread\tɹ iː d\nbé\tb iː\n",
    "tsv": "read\tɹ ɛ d\nread\tɹ iː d\nbé\tb iː\n",
    "misaki": '{\n "read": {\n  "DEFAULT": "ɹɛd",\n  "VBD": "ɹɛd",\n  "VB": "ɹiːd"\n },\n "bé": "biː"\n}\n',
    "sherpa-vits": "read ɹ iː d\nbé b iː\nbÉ b iː\n",  # the best variant; the capital that the reader does not fold
    "sherpa-kokoro": "read ɹ iː d\nbé b iː\n",
    "sherpa-kitten": "read ɹ iː d\nbé b iː\n",
    "sherpa-matcha": "read ɹ iː d\nbé b iː\n",
}


def lost(words: str, format: str, symbols: str = "abcdefghijklmnopqrstuvwxyz") -> dict[str, str]:
    """Why words of one phone are left out."""
    prepared = prepare(
        Lexicon([*((word, ["a"]) for word in words.split("\n")), ("zz", ["a"])]), format, symbols=symbols
    )
    assert {entry.word for entry in prepared.left_out} == {*prepared.lost}
    return {entry.word: entry.reason for entry in prepared.left_out}


@pytest.mark.parametrize("format", WRITTEN)
def test_the_bytes_of_each_format_of_text(format: str, tmp_path: Path) -> None:
    write(READ, tmp_path / "words", format, symbols=SYMBOLS)
    assert (tmp_path / "words").read_bytes().decode() == WRITTEN[format]


# ------------------------------------------------------------------------------------------ what is left out


def test_words_that_a_line_cannot_have() -> None:
    blank = "the word contains a blank, at which the reader splits"
    number = "the end of the word reads as the number of a variant"
    comment = "the word reads as the beginning of a comment"
    assert lost("a b\na(2)\n;;;a\n#\n##a\n#a", "cmudict") == {
        "a b": blank,
        "a(2)": number,
        **dict.fromkeys([";;;a", "#", "##a"], comment),
    }
    assert lost("a b\n<s>\na(2)", "kaldi") == {"a b": blank, "<s>": "Kaldi reserves the word <s>"}
    assert lost("a b\n</s>", "mfa") == {"a b": blank, "</s>": "Kaldi reserves the word </s>"}
    assert lost("a b\na_b\na|b", "phonetisaurus").keys() == {"a b", "a_b", "a|b"}
    for format in ("tsv", "misaki"):
        assert lost("a b\na(2)\n<s>\na_b\n;;;a", format) == {}


@pytest.mark.parametrize(
    ("format", "phones"),
    [
        ("mfa", ["1", "a", "1.a b", "0.5", "1-b", "a_B", "<eps>", "#1"]),
        ("kaldi", ["a_B", "a_I b", "#", "<eps>"]),
        ("phonetisaurus", ["a|b", "c }", "_"]),
        ("cmudict", ["a # b", "#1"]),
        ("misaki", ["HH AH0 L OW1", "ˈAH", "B IY", "a 1"]),
    ],
)
def test_phones_that_a_reader_takes_for_something_else(format: str, phones: list[str]) -> None:
    entries = [(f"w{number}", text.split()) for number, text in enumerate(phones) if text != "a"]
    prepared = prepare(Lexicon([*entries, ("good", ["a", "b"])]), format)
    assert [*prepared.lexicon] == ["good"]
    assert [*prepared.lost] == [word for word, _ in entries]


def test_the_capitals_of_misaki_are_written() -> None:
    prepared = prepare(
        Lexicon([("boy", ["b", "ˈ", "Y"]), ("eye", ["ˈI"]), ("how", ["h", "W", "A", "O"])]), "misaki"
    )
    assert prepared.left_out == ()
    assert '"how": "hWAO"' in prepared.content.decode()


def test_words_that_voices_cannot_find() -> None:
    for format in ("sherpa-vits", "sherpa-matcha"):
        words = "x-ray\nдом\nø\nčesky\nété\ndon't\ndon’t\nd.c.\na b\n'\n’90s\nnaïve\nstraße"
        assert lost(words, format) == {
            "x-ray": "the reader cuts a word at -",
            "дом": "the reader cuts a word at д",
            "česky": "the reader cuts a word at č",
            "d.c.": "the reader cuts a word at .",
            "a b": "the reader cuts a word at a blank",
            "'": "the word has no letter and no digit",
        }
    for format in ("sherpa-kokoro", "sherpa-kitten"):
        assert lost("x-ray\nдом\nd.c.\na b\n#a\n#\nc#\n日本\n日b\n사람", format) == {
            "d.c.": "the reader cuts a word at .",
            "a b": "the reader cuts a word at a blank",
            "#a": "the reader takes a word that begins with # for a comment",
            "#": "the reader takes a word that begins with # for a comment",
            "日b": "the reader cuts a word between Chinese, Japanese or Korean writing and other",
        }


def test_a_word_whose_better_variant_cannot_be_written_has_the_other() -> None:
    lexicon = Lexicon([("a", ["x"]), ("a", ["b"]), ("c", ["x"])])
    prepared = prepare(lexicon, "sherpa-kokoro", symbols="b")
    assert prepared.lexicon["a"] == (Variant(("b",)),)
    assert [(entry.word, entry.phones) for entry in prepared.left_out] == [("a", ("x",)), ("c", ("x",))]
    assert prepared.lost == ("c",)
    assert prepared.reasons() == {"x is no symbol of the voice": 2}


def test_words_that_a_reader_folds_into_one_are_listed() -> None:
    prepared = prepare(
        Lexicon([("Polish", ["o"]), ("polish", ["a"]), ("POLISH", ["o"])]), "sherpa-vits", symbols="ao"
    )
    assert dict(prepared.lexicon) == {"polish": (Variant(("o",)),)}
    assert [entry[:2] for entry in prepared.left_out] == [("polish", ("a",))]
    assert prepared.lost == ()


def test_a_second_variant_of_a_role_is_listed() -> None:
    entries = [("a", Variant((phone,), None, role)) for phone, role in (("b", "N"), ("c", ""), ("d", "N"))]
    prepared = prepare(Lexicon(entries), "misaki")
    assert prepared.content.decode() == '{\n "a": {\n  "N": "b",\n  "DEFAULT": "c"\n }\n}\n'
    assert [entry.phones for entry in prepared.left_out] == [("d",)]


def test_of_a_role_the_most_probable_variant_is_written() -> None:
    entries = [("b", 0.3, ""), ("c", 0.2, "N"), ("d", 1.0, ""), ("e", 0.4, "N"), ("f", 0.4, "N")]
    lexicon = Lexicon([("a", Variant((phone,), share, role)) for phone, share, role in entries])
    prepared = prepare(lexicon, "misaki")
    assert prepared.content.decode() == '{\n "a": {\n  "DEFAULT": "d",\n  "N": "e"\n }\n}\n'
    assert [entry.phones for entry in prepared.left_out] == [("b",), ("c",), ("f",)]


def test_the_list_of_what_is_left_out_is_beside_the_file_and_never_out_of_date(tmp_path: Path) -> None:
    path, listed = tmp_path / "lexicon.txt", tmp_path / "lexicon.txt.left-out.tsv"
    lexicon = Lexicon([("a", ["b"]), ("x-ray", ["b", "b"])])
    write(lexicon, path, "sherpa-kokoro", symbols="b")
    assert not listed.exists()
    write(lexicon, path, "sherpa-vits", symbols="b")
    assert listed.read_text("utf-8") == "word\tphones\treason\nx-ray\tb b\tthe reader cuts a word at -\n"
    write(lexicon, path, "sherpa-kokoro", symbols="b")
    assert listed.read_text("utf-8") == "word\tphones\treason\n"


def test_what_cannot_be_written_at_all_is_an_error_before_a_file_is_made(tmp_path: Path) -> None:
    lexicon = Lexicon([("дом", ["d"])])
    for format, symbols, reason in (
        ("sherpa-vits", "d", "no word can be written"),
        ("sherpa-kokoro", None, "needs the symbols"),
        ("cmu", None, "format must be one of"),
    ):
        with pytest.raises(ValueError, match=reason):
            write(lexicon, tmp_path / "x", format, symbols=symbols)
    assert [*tmp_path.iterdir()] == []


def test_other_spellings_never_replace_a_word() -> None:
    lexicon = Lexicon([("été", ["a"]), ("don't", ["a"]), ("don’t", ["b"])])
    assert prepare(lexicon, "sherpa-kokoro", symbols="ab").content.decode() == "été a\ndon't a\ndon’t b\n"
    lines = prepare(lexicon, "sherpa-vits", symbols="ab").content.decode().splitlines()
    assert lines == ["été a", "Été a", "ÉtÉ a", "don't a"]
    both = Lexicon([("Élan", ["a"]), ("élan", ["b"]), ("ÉLan", ["c"])])
    lines = prepare(both, "sherpa-vits", symbols="abc").content.decode().splitlines()
    assert lines == ["Élan a", "élan b"]
    lexicon = Lexicon([("l'eau", ["a"])])
    assert prepare(lexicon, "sherpa-kokoro", symbols="ab").content.decode() == "l'eau a\nl’eau a\n"


# ----------------------------------------------------------------------------------- stress, maps and symbols


@pytest.mark.parametrize(
    ("phones", "dropped", "separate"),
    [
        ("HH AH0 L OW1", "HH AH L OW", "HH AH 0 L OW 1"),
        ("HH AH 0 L OW 1", "HH AH L OW", "HH AH 0 L OW 1"),
        ("ˈoʊ ˌb a", "oʊ b a", "ˈ oʊ ˌ b a"),
        ("k ˈ æ t", "k æ t", "k ˈ æ t"),
        ("tˈa ˈˌa", "t a a", "t ˈ a ˈ ˌ a"),
        ("m 'e n", "m e n", "m ' e n"),
        ("²'uː ²s 'a", "uː s a", "² ' uː ² s ' a"),
        ("T1 a1 1 2 ' t' s²", "T1 a1 1 2 ' t' s²", "T1 a1 1 2 ' t' s²"),  # no vowels of ARPAbet, no marks
    ],
)
def test_stress(phones: str, dropped: str, separate: str) -> None:
    assert stressed(phones.split(), "keep") == tuple(phones.split())
    assert stressed(phones.split(), "drop") == tuple(dropped.split())
    assert stressed(phones.split(), "separate") == tuple(separate.split())


def test_the_longest_sequence_of_a_map_is_replaced_first() -> None:
    table = {("a", "b"): ("x",), ("a",): ("y", "z"), ("b", "b"): (), ("c",): ("c",)}
    replaced = Replacements(table)
    assert replaced(["a", "b", "b", "c", "a", "d"]) == ("x", "b", "c", "y", "z", "d")
    assert replaced(["b", "b", "a"]) == ("y", "z")
    assert Replacements({})(["a"]) == ("a",)


def test_phones_are_spelled_with_the_symbols_of_a_voice_as_it_writes_them() -> None:
    lexicon = Lexicon([("a", ["ˈɑ̃ː", "ã", "oʊ"]), ("b", ["ɐ̃"])])
    prepared = prepare(lexicon, "sherpa-kokoro", symbols=["ˈ", "ɑ̃", "ː", "a", "\u0303", "oʊ", "o", "ʊ", " "])
    assert prepared.lexicon["a"][0].phones == ("ˈ", "ɑ̃", "ː", "a", "\u0303", "oʊ")
    assert prepared.left_out[0].reason == "ɐ, in the phone ɐ̃, is no symbol of the voice"
    decomposed = prepare(Lexicon([("a", ["ã"])]), "sherpa-kokoro", symbols=["a\u0303"])
    assert decomposed.content.decode() == "a a\u0303\n"


def test_from_cmudict_to_the_symbols_of_a_voice() -> None:
    lexicon = Lexicon([("hello", ["HH", "AH0", "L", "OW1"])])
    table = {("HH",): ("h",), ("AH", "0"): ("ə",), ("L",): ("l",), ("OW", "1"): ("ˈ", "O"), ("OW",): ("O",)}
    assert prepare(lexicon, "sherpa-kokoro", stress="separate", phone_map=table, symbols="həlˈO").content == (
        "hello h ə l ˈ O\n".encode()
    )


def test_a_word_that_a_map_leaves_without_phones_is_listed() -> None:
    prepared = prepare(Lexicon([("a", ["SIL"]), ("b", ["b"])]), "tsv", phone_map={("SIL",): ()})
    assert prepared.lost == ("a",)


def test_variants_that_become_equal_are_one() -> None:
    lexicon = Lexicon([("a", Variant(("AH0",), 0.5)), ("a", Variant(("AH1",), 1.0))])
    prepared = prepare(lexicon, "mfa", stress="drop")
    assert prepared.content == b"a\t1.0\tAH\n"
    assert prepared.left_out == ()


# ------------------------------------------------------------------------------------------------ round trips

LETTERS = "abzABZéÉßøçдЯñıİ's’-#(2);.1_| &<\"日"
PHONES = "a ˈa ã a\u0303 t͡ʃ tʃ t ʃ oʊ AH0 B 'e ²s ː 1 2 9 0.5 # x_B < & h".split()  # noqa: SIM905
ENTRIES = st.lists(
    st.tuples(
        st.text(LETTERS, min_size=1, max_size=4),
        st.lists(st.sampled_from(PHONES), min_size=1, max_size=4),
        st.none() | st.floats(1e-9, 1.0),
        st.sampled_from(["", "NN", "x y", "<&"]),
    ),
    min_size=1,
    max_size=6,
)


def lexicon_of(entries: list[tuple[str, list[str], float | None, str]]) -> Lexicon:
    """A dictionary of those entries whose word it takes."""
    return Lexicon(
        (word, Variant(tuple(phones), probability, role))
        for word, phones, probability, role in entries
        if word == " ".join(word.split())
    )


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@given(entries=ENTRIES)
def test_writing_reading_and_writing_is_the_identity(
    format: str,
    entries: list[tuple[str, list[str], float | None, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lexicon = lexicon_of(entries)
    symbols = {*"".join(PHONES)} - {"#"}
    folder = tmp_path_factory.getbasetemp() / format
    folder.mkdir(exist_ok=True)
    try:
        prepared = prepare(lexicon, format, symbols=symbols if FORMATS[format].needs_symbols else None)
    except ValueError as error:
        assume("no word" not in str(error))
        raise
    written = prepared.lexicon
    prepared.save(folder / "lexicon.txt")
    again = read(folder / "lexicon.txt", format=format)
    back = prepare(again, format, symbols=symbols if FORMATS[format].needs_symbols else None)
    assert back.content == prepared.content
    assert back.left_out == ()
    # and every word is in the file or listed
    assert {FORMATS[format].spelling(word) for word in lexicon} == {*written} | {
        FORMATS[format].spelling(word) for word in prepared.lost
    }
    if format in ("cmudict", "mfa", "phonetisaurus", "tsv"):
        assert [(w, v.phones) for w, v in again.entries()] == [
            *dict.fromkeys((w, v.phones) for w, v in written.entries())
        ]


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_is_recognised(format: str, tmp_path: Path) -> None:
    write(READ, tmp_path / "words", format, symbols=SYMBOLS)
    found = read(tmp_path / "words")
    same_form = {
        "phonetisaurus": "tsv",
        **dict.fromkeys([n for n in FORMATS if n.startswith("sherpa")], "kaldi"),
    }
    assert found.format == same_form.get(format, format)
    assert {"read", "bé"} <= {*found}
