"""Reading dictionaries: each format from a file written by hand, what is recognised, and files that are wrong."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard_lexicon import FORMATS, Lexicon, Variant, read, read_phone_map, read_symbols

Make = Callable[[str | bytes], Path]


def phones(lexicon: Lexicon) -> dict[str, list[str]]:
    """The phones of a dictionary's variants, separated by blanks."""
    return {word: [" ".join(variant.phones) for variant in variants] for word, variants in lexicon.items()}


CONTENT = {  # a file, the format that is recognised, and what it contains
    "cmusphinx": ("read R EH1 D\nread(2) R IY1 D # now\nbee B IY1\n", "cmudict"),
    "0.7b": (";;; note\nREAD  R EH1 D\nREAD(1)  R IY1 D\nBEE  B IY1\n", "cmudict"),
    "tabs and numbers": ("read\tR EH1 D\nread(2)\tR IY1 D\nbee\tB IY1\n", "cmudict"),
    "tabs before notes": (
        ";;; a\tb\nread R EH1 D\t# then\nread(2) \tR IY1 D # a\tb\nbee\tB IY1\n",
        "cmudict",
    ),
    "mfa": ("read\t0.99\tR EH1 D\nread\t0.5\t0.1\t1.2\t0.9\tR IY1 D\nbee\t1.0\tB IY1\n", "mfa"),
    "lexicon.txt": ("read R EH1 D\nread R IY1 D\nbee B IY1\n", "kaldi"),
    "lexiconp.txt": ("read 1 R EH1 D\nread 0.5 R IY1 D\nbee 1.0 B IY1\n", "mfa"),
    "phonetisaurus": ("read\tR EH1 D\nread\tR IY1 D\nbee\tB IY1\n", "tsv"),
}


@pytest.mark.parametrize("name", CONTENT)
def test_lines_of_each_format(name: str, make: Make) -> None:
    content, format = CONTENT[name]
    lexicon = read(make(content))
    read_word, bee = ("READ", "BEE") if name == "0.7b" else ("read", "bee")
    assert lexicon.format == format
    assert phones(lexicon) == {read_word: ["R EH1 D", "R IY1 D"], bee: ["B IY1"]}
    assert [*lexicon] == [read_word, bee]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_change_nothing(start: str, end: str, make: Make) -> None:
    for content, format in CONTENT.values():
        changed = read(make((start + content.replace("\n", end)).removesuffix(end)))
        assert (changed.format, dict(changed)) == (format, dict(read(make(content))))


def test_probabilities_are_kept(make: Make) -> None:
    for name, probability in (("mfa", 0.99), ("lexiconp.txt", 1.0)):
        variants = read(make(CONTENT[name][0]))["read"]
        assert [variant.probability for variant in variants] == [probability, 0.5]


@pytest.mark.parametrize(
    ("line", "phones"),
    [  # as MFA reads them: a number has digits after a point, or is 1
        ("w\t1.0\t9 f", "9 f"),
        ("w\t1.0\t2", "2"),
        ("w 0.5 9 f", "9 f"),
        ("w\t1.0 9 f", "9 f"),
        ("w\t0.5\t0.1\t1.2\t0.9\t9 f", "9 f"),
        ("w\t0.5\t0.1\t1.2\t0.9\t2", "2"),
        ("w\t0.5 0.1 1 0.9 0.3 f", "0.3 f"),
        ("w\t1\t1e-05\t2\t.5\tf", "f"),  # and as they were meant where each number has a cell of its own
    ],
)
def test_a_phone_of_mfa_may_be_a_digit(line: str, phones: str, make: Make) -> None:
    (variant,) = read(make(f"{line}\n"), format="mfa")["w"]
    assert " ".join(variant.phones) == phones


def test_misaki(make: Make) -> None:
    lexicon = read(make('{"word": "wˈɜɹd", "read": {"DEFAULT": "ɹˈid", "VBD": "ɹˈɛd", "NOUN": null}}'))
    assert lexicon.format == "misaki"
    assert lexicon["word"] == (Variant(("w", "ˈ", "ɜ", "ɹ", "d")),)
    assert [(variant.role, "".join(variant.phones)) for variant in lexicon["read"]] == [
        ("", "ɹˈid"),
        ("VBD", "ɹˈɛd"),
    ]


def test_a_word_that_stands_twice_in_json_has_two_variants(make: Make) -> None:
    assert phones(read(make('{"a": "b", "c": "d", "a": "e"}'))) == {"a": ["b", "e"], "c": ["d"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/ʃa/", ["ʃ a"]),
        ("/fis/, /fil/", ["f i s", "f i l"]),
        ("[fis],[fil]", ["f i s", "f i l"]),
        ("haʊ̯s", ["h a ʊ̯ s"]),
        ("/ˈt͡ʃʰæː.t͜ɕə/", ["ˈt͡ʃʰ æː . t͜ɕ ə"]),
        ("ˈhʌn dɹəd", ["ˈh ʌ n d ɹ ə d"]),
        ("/ma˥˩ ˌe̞ˑ/", ["m a˥˩ ˌe̞ˑ"]),
        ("/ɡɑ̃ç/", ["ɡ ɑ̃ ç"]),
    ],
)
def test_ipa_without_blanks_is_cut_into_letters_with_their_marks(
    text: str, expected: list[str], make: Make
) -> None:
    for separator in " \t":
        lexicon = read(
            make(f"a{separator}{text}\n"), format="tsv" if separator == "\t" else "kaldi", phones="ipa"
        )
        wanted = [unicodedata.normalize("NFC", one) for one in expected]
        assert phones(lexicon) == {"a": wanted}


@pytest.mark.parametrize(
    "text",
    [
        *("/fis", "/fis/ /fil/", "//", "[a]b", "/a/, "),
        *(
            "/ʃ(w)a/",
            "ʃa|ʃat",
            "/ʃa/; /ʃat/",
            "\\ʃa\\",
            "⟨ʃa⟩",
            "ʃa*",
            "{a}",
        ),  # one sound would be several phones
        *("HH AH0 L OW1", "tSa", "ma3"),  # ARPAbet, SAMPA, tones by number
    ],
)
def test_what_is_no_letter_or_mark_of_ipa_is_an_error(text: str, make: Make) -> None:
    with pytest.raises(ValueError, match=r"words, line 1: .*(is no phone of IPA|no phones)"):
        read(make(f"a\t{text}\n"), phones="ipa")


def test_words_and_phones_are_read_in_one_form_of_unicode(make: Make) -> None:
    lexicon = read(make("e\u0301te\u0301\ta\u0303\nété\tã\nété\tb\n"))
    assert phones(lexicon) == {"été": ["ã", "b"]}


def test_the_same_entry_twice_is_one_with_the_higher_probability(make: Make) -> None:
    (variant,) = read(make("a\t0.25\tb\na\t0.75\tb\n"))["a"]
    assert variant.probability == 0.75


def test_comments_of_cmudict_with_a_number_sign_are_no_words(make: Make) -> None:
    content = "# my words\n## more\n#\n#SHARP-SIGN SH AA1 R P\nread R EH1 D # note\nread(2) R IY1 D\n"
    assert [*read(make(content))] == ["#SHARP-SIGN", "read"]


def test_cmudict_07b_is_latin_1_where_it_is_not_utf_8(make: Make) -> None:
    assert [*read(make(";;; a\nDÉJÀ  D EY1\nÀ  AA1\n".encode("latin-1")))] == ["DÉJÀ", "À"]


# ----------------------------------------------------------------------------------------------- recognising


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("a 1 b\nc 1 d\n", ["kaldi", "mfa"]),
        ("a\t1 b\nc\t0 d\n", ["tsv", "mfa"]),
        ("a\t0.5\tb\nc\td\n", ["tsv", "mfa"]),
        ("a\tb\nc d\n", ["tsv", "kaldi"]),
        ("ice cream\tAY S\nread(2)\tR IY D\n", ["cmudict", "tsv"]),
        (";;; a note\nice cream\tAY S\n", ["cmudict", "tsv"]),
        ("read\t1.0\tR EH D\nread(2)\t0.5\tR IY D\n", ["cmudict", "mfa"]),
        ("read 1.0 R EH D\nread(2) 0.5 R IY D\n", ["cmudict", "mfa"]),
        ("smile(2) S M AY L\ncat K AE T\n", ["cmudict", "kaldi"]),
        ("smile(2)\tS M AY L\ncat\tK AE T\n", ["cmudict", "tsv"]),
        (";;; SIL\n; SIL\ncat K AE T\n", ["cmudict", "kaldi"]),
        (";;;\tSIL\ncat\tK AE T\n", ["cmudict", "tsv"]),
        ("sea # K AE\ncat K AE T\n", ["cmudict", "kaldi"]),
    ],
)
def test_a_file_of_two_formats_is_an_error_that_names_them_and_the_option(
    content: str, names: list[str], make: Make
) -> None:
    with pytest.raises(ValueError, match=r"words: .*\n.*format=") as error:
        read(make(content))
    assert all(repr(name) in str(error.value) for name in names)
    assert {read(make(content), format=name, skip_bad=True).format for name in names} == {*names}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n\n",
        "cat\ndog\n",
        "a\0b c\n",
        "\x7fELF\x02\0\0",
        "[]",
        "<html></html>",
        "{}",
        "{",
        ";;; nothing\n",
    ],
)
def test_what_is_no_dictionary_is_an_error_with_the_file(content: str, make: Make) -> None:
    with pytest.raises(ValueError, match=r"words: "):
        read(make(content))


def test_an_unknown_format_is_an_error(make: Make) -> None:
    with pytest.raises(ValueError, match="format must be one of"):
        read(make("a b\n"), format="cmudct")


@pytest.mark.parametrize("first", ["<SIL> SIL", "<unk> spn", "{LG} spn", "{OOV}\tspn", "<lexical> a"])
def test_a_word_in_brackets_makes_no_json(first: str, make: Make) -> None:
    tab = "\t" if "\t" in first else " "
    lexicon = read(make(f"{first}\nread{tab}R EH1 D\n"))
    assert lexicon.format == ("tsv" if tab == "\t" else "kaldi")
    assert phones(lexicon) == {first.split()[0]: [first.split()[1]], "read": ["R EH1 D"]}


@pytest.mark.parametrize("start", ["", "\ufeff", " \n"])
@pytest.mark.parametrize("content", ['{"a": "b"}', '{\r\n"a": "b"}'])
def test_json_is_recognised_by_its_beginning(content: str, start: str, make: Make) -> None:
    assert read(make(start + content)).format == "misaki"


@pytest.mark.parametrize("content", ["", "\n", "\ufeff", " \t\r\n\n"])
def test_an_empty_file_is_named_so(content: str, make: Make) -> None:
    with pytest.raises(ValueError, match="the file is empty"):
        read(make(content))


def test_an_error_of_recognition_says_how_to_convert_the_file(make: Make) -> None:
    with pytest.raises(ValueError, match=r"regard lexicon FILE --from \S+ --format \S+ --out \S+"):
        read(make("a 1 b\n"))


# ------------------------------------------------------------------------------------------------ wrong files


@pytest.mark.parametrize(
    ("format", "line", "reason"),
    [
        ("kaldi", b"cat", "no phones"),
        ("kaldi", b"cat\xc2\xa0k a", r"no phones|U\+00A0"),
        ("kaldi", b"cat k\xc2\xa0a t", r"U\+00A0"),
        ("kaldi", b"cat k\r a", r"U\+000D"),
        ("kaldi", b"c\xffat k a", "UTF-8"),
        ("kaldi", "ca\ufefft k a".encode(), r"U\+FEFF"),
        ("kaldi", b"c\x00t k a", "not text"),
        ("kaldi", b"c" * 5000 + b" k a", "5,000"),
        ("kaldi", b"c" + b" k" * 5000, "5,000"),
        ("mfa", b"cat k a t", "no probability"),
        ("mfa", b"cat 0 k", "above 0"),
        ("mfa", b"cat 1.5 k", "1.5"),
        ("mfa", b"cat\t1e999\tk", "inf"),
        ("mfa", b"cat\t0.5\t", "no phones"),
        ("tsv", b"cat k a t", "two columns"),
        ("tsv", b"cat\tk a\tt", "two columns"),
        ("tsv", b"\tk a", "two columns|empty"),
        ("cmudict", b"cat # a comment", "no phones"),
    ],
)
def test_a_bad_line_is_an_error_with_its_number_and_is_skipped_and_listed(
    format: str, line: bytes, reason: str, make: Make
) -> None:
    good = {"mfa": b"a\t1.0\tb\n", "tsv": b"a\tb\n"}.get(format, b"a b\n")
    path = make(good + b"\n" + line + b"\n" + good)
    with pytest.raises(ValueError, match=rf"words, line 3: .*({reason})"):
        read(path, format=format)
    lexicon = read(path, format=format, skip_bad=True)
    assert phones(lexicon) == {"a": ["b"]}
    (message,) = lexicon.skipped
    assert message.startswith(f"{path}, line 3: ")


def test_nothing_but_bad_lines_is_an_error(make: Make) -> None:
    with pytest.raises(ValueError, match=r"it has no entry; .*line 1"):
        read(make("a\n"), format="kaldi", skip_bad=True)


@pytest.mark.parametrize(
    "value", ["1", "null", "[]", '["a"]', '{"NOUN": null}', '{"DEFAULT": 3}', '""', '"\\ud800"']
)
def test_a_bad_entry_of_json_is_an_error_with_its_number(value: str, make: Make) -> None:
    path = make(f'{{"a": "b", "x": {value}}}')
    with pytest.raises(ValueError, match="entry 2: "):
        read(path)
    assert [*read(path, skip_bad=True)] == ["a"]


def test_json_of_any_depth_is_an_error(make: Make) -> None:
    with pytest.raises(ValueError, match="words"):
        read(make('{"a":' * 100_000))


@pytest.mark.parametrize("format", FORMATS)
@given(content=st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_file_is_read_or_refused(
    format: str, content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any-{format}"
    path.write_bytes(content)
    for name in (None, format):
        with suppress(ValueError):
            read(path, format=name, skip_bad=True)


# ------------------------------------------------------------------------------------- symbols and phone maps


def test_symbols_of_a_voice(make: Make) -> None:
    assert read_symbols(make("_ 0\r\n^ 1\n  2\n\u0303 3\nab 4\n")) == {
        "_": 0,
        "^": 1,
        " ": 2,
        "\u0303": 3,
        "ab": 4,
    }
    assert read_symbols(make("a 1\n7\n")) == {"a": 1, " ": 7}
    with pytest.raises(ValueError, match="words, line 2: "):
        read_symbols(make("a 1\nb\n"))


def test_a_phone_map(make: Make) -> None:
    assert read_phone_map(make("OW 1\tˈ O\n\nSIL\t\n")) == {("OW", "1"): ("ˈ", "O"), ("SIL",): ()}
    for wrong in ("a b\n", "\tb\n", "a\tb\tc\n", "a\tb\na\tc\n"):
        with pytest.raises(ValueError, match=r"words, line [12]: "):
            read_phone_map(make(wrong))


def test_a_lexicon_checks_what_it_is_made_of() -> None:
    for word, found in (("", ["a"]), ("a", []), ("a", ["b c"]), ("a", [""]), (" a", ["b"]), ("a\nb", ["c"])):
        with pytest.raises(ValueError, match="Got the entry"):
            Lexicon([(word, found)])
    assert json.dumps([*Lexicon([("b", ["a"]), ("a", ["b"]), ("b", ["c"])])]) == '["b", "a"]'


def test_the_dictionary_of_the_project_is_that_of_its_readme() -> None:
    folder = Path(__file__).parents[3] / "data" / "cmudict"
    if not folder.is_dir():
        pytest.skip("needs data/cmudict")
    data = (folder / "words.dict").read_bytes()
    assert len(data) < 1_000_000
    assert hashlib.sha256(data).hexdigest() in (folder / "README.md").read_text("utf-8")
    lexicon = read(folder / "words.dict")
    assert (lexicon.format, len(lexicon), len(list(lexicon.entries()))) == ("cmudict", 12_606, 13_517)
