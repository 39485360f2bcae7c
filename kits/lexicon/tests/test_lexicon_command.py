"""The verb `lexicon`: what it prints, the files it writes, and every refused combination."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard_lexicon import Lexicon, write

WORDS = "hello HH AH0 L OW1\nhello(2) HH EH0 L OW1\nx-ray EH1 K S\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a dictionary, a voice's symbols and a phone map."""
    monkeypatch.chdir(tmp_path)
    Path("words.dict").write_text(WORDS, "utf-8")
    symbols = ["_", "h", "ə", "l", "ˈ", "O", "ɛ", "s"]
    Path("tokens.txt").write_text("".join(f"{s} {i}\n" for i, s in enumerate(symbols)), "utf-8")
    table = {"HH": "h", "AH 0": "ə", "EH 0": "ɛ", "EH 1": "ˈ ɛ", "L": "l", "OW 1": "ˈ O", "S": "s"}
    Path("map.tsv").write_text(
        "".join(f"{phones}\t{symbols}\n" for phones, symbols in table.items()), "utf-8"
    )
    return tmp_path


def test_a_dictionary_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lexicon", "words.dict"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "words.dict: cmudict, 2 words, 3 pronunciations\n"
    assert printed.out.splitlines() == [
        "words           2, 1 of them with several variants",
        "pronunciations  3",
        "letters         9: - a e h l o r x y",
        "phones          8: AH0 EH0 EH1 HH K L OW1 S",
    ]


@pytest.mark.parametrize(
    "verb", ["lexicon", "pronounce", "review", pytest.param("train", marks=pytest.mark.slow)]
)
def test_a_list_in_ipa_gets_a_warning_that_names_the_option(
    verb: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["chat\t/ʃa/", "fils\t/fis/, /fil/", "Haus\thaʊ̯s", "sons\t/sɔ̃/"]
    Path("ipa.tsv").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    if verb == "pronounce":
        Seq2Seq(epochs=1, source="characters", target="tokens").fit(["ab", "ba"], ["A B", "B A"]).save("m")
    commands = {
        "lexicon": ["ipa.tsv"],
        "train": ["ipa.tsv", "--task", "pronunciation", "--steps", "1", "--out", "run"],
        "pronounce": ["m", "ipa.tsv", "--lexicon", "ipa.tsv"],
        "review": ["ipa.tsv", "--out", "doubts.tsv"],
    }
    for options in ([], ["--phones", "ipa"]):
        main([verb, *commands[verb], *options])
        printed = capsys.readouterr().err
        assert ("5 of 5 phones occur once, such as '/ʃa/', '/fis/,'" in printed) == (not options), printed
        assert ("--phones ipa cuts it" in printed) == (not options)


@pytest.mark.parametrize("text", ["/{0}a/, /{0}e/", "[{0}a] [{0}e]", "{0}a, {0}e"])
def test_two_pronunciations_in_ipa_on_each_line_get_the_warning(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("two.tsv").write_text("".join(f"w{letter}\t{text.format(letter)}\n" for letter in "fɡhjk"), "utf-8")
    assert main(["lexicon", "two.tsv"]) == 0
    assert "10 of 10 phones occur once, such as" in capsys.readouterr().err


def test_a_short_list_of_phones_gets_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    for lines in ("a AH\nb B IY\nc S IY\n", "one w ʌ n\n", "hello HH AH0 L OW1\ncat K AE T\nyou Y UW\n"):
        Path("short.dict").write_text(lines, "utf-8")
        assert main(["lexicon", "short.dict"]) == 0
        assert "--phones" not in capsys.readouterr().err


def test_a_dictionary_is_written_for_a_voice(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--format",
        "sherpa-kokoro",
        "--stress",
        "separate",
        "--phone-map",
        "map.tsv",
        "--symbols",
        "tokens.txt",
    ]
    assert main(["lexicon", "words.dict", *options, "--out", "lexicon.txt"]) == 0
    assert Path("lexicon.txt").read_text("utf-8") == "hello h ə l ˈ O\n"
    assert Path("lexicon.txt.left-out.tsv").read_text("utf-8").splitlines()[1:] == [
        "x-ray\tEH1 K S\tK is no symbol of the voice",
        "hello\th ɛ l ˈ O\ta reader finds one pronunciation of a word, and this is not the first",
    ]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[1:] == [
        "2 pronunciations left out, all of 1 word, which lexicon.txt will not have:",
        "  1: K is no symbol of the voice",
        "  1: a reader finds one pronunciation of a word, and this is not the first",
        "1 word in lexicon.txt; see lexicon.txt.left-out.tsv",
    ]


def test_several_dictionaries_are_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.tsv").write_text("hello\th o\n", "utf-8")
    assert main(["lexicon", "mine.tsv", "words.dict", "--format", "tsv", "--out", "all.tsv"]) == 0
    assert Path("all.tsv").read_text("utf-8").splitlines() == [
        "hello\th o",
        "hello\tHH AH0 L OW1",
        "hello\tHH EH0 L OW1",
        "x-ray\tEH1 K S",
    ]
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_bad_lines_are_errors_or_listed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("words.dict").write_text(WORDS + "bad\n" * 7, "utf-8")
    assert main(["lexicon", "words.dict"]) == 2
    assert capsys.readouterr().err == "regard lexicon: error: words.dict, line 4: the word has no phones\n"
    assert main(["lexicon", "words.dict", "--skip-bad"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.startswith("skipped: ") for line in lines] == [False, *[True] * 6]
    assert lines[-1] == "skipped: 7 entries in all"


@pytest.mark.parametrize(
    ("content", "noted"),
    [
        ("# my words\nread R EH1 D\n", "#"),
        ("read\t1.0\tR EH1 D\n#\t0.5\tHH AE SH\n", "#"),  # MFA may have the word
        ("word\tphones\nread\tR EH1 D\n", "word phones"),
        ("Word Pronunciation\nread R EH1 D\n", "Word Pronunciation"),
        ("WORD\tphonemes\nread\tR EH1 D\n", "WORD phonemes"),
        ("read R EH1 D\nword phones\n", None),
        ("word W ER1 D\n#1 N AH1 M\n", None),
        ('{"#": "hæʃ", "b": "bi"}', None),
    ],
)
def test_what_may_be_a_comment_or_a_header_is_noted_and_kept(
    content: str, noted: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("x").write_text(content, "utf-8")
    assert main(["lexicon", "x"]) == 0
    out, err = capsys.readouterr()
    assert "words           2" in out
    lines = err.splitlines()[1:]
    assert len(lines) == (noted is not None)
    assert all(f"{noted!r}" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["words.dict", "--format", "mfa"], "--out"),
        (["words.dict", "--out", "x"], "--format"),
        (["words.dict", "--format", "sherpa-vits", "--out", "x"], "symbols"),
        (["words.dict", "--format", "espeak", "--out", "x"], "espeak"),
        (["words.dict", "--from", "misaki"], "JSON"),
        (["missing.dict"], "missing.dict"),
        (["words.dict", "--format", "tsv", "--out", "words.dict"], "--out"),
        (["words.dict", "--format", "tsv", "--phone-map", "map.tsv", "--out", "map.tsv"], "--out"),
        (["words.dict", "--format", "tsv", "--out", "nowhere/x"], "nowhere"),
        (["map.tsv", "--from", "mfa"], "line 1"),
        (["words.dict", "--format", "tsv", "--out", "x", "--phone-map", "words.dict"], "line 1"),
        (["words.dict", "--format", "tsv", "--out", "x", "--symbols", "map.tsv"], "line 1"),
        ([], "FILE"),
    ],
)
def test_what_is_wrong_is_one_line_and_no_file(
    arguments: list[str], reason: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {*folder.iterdir()}
    try:
        status = main(["lexicon", *arguments])
    except SystemExit as stop:
        status = int(str(stop.code))
    assert status == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]
    assert {*folder.iterdir()} == before


def test_no_list_that_is_written_beside_a_file_replaces_an_input_or_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder / "words.tsv.left-out.tsv"
    source.write_text("a b\n", "utf-8")
    command = ["lexicon", source.name, "--from", "kaldi", "--format", "tsv", "--out"]
    assert main([*command, "words.tsv"]) == 2
    assert "left-out" in capsys.readouterr().err
    assert source.read_text("utf-8") == "a b\n"
    (folder / "same.left-out.tsv").symlink_to("same")
    with pytest.raises(ValueError, match="are one file"):
        write(Lexicon([("a", ["b"])]), folder / "same", "kaldi")
    assert not (folder / "same").exists()


def test_a_list_that_cannot_be_written_leaves_the_dictionary_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "lexicon.txt").write_text("old", "utf-8")
    (tmp_path / "lexicon.txt.left-out.tsv").mkdir()
    with pytest.raises(ValueError, match=r"left-out\.tsv must be a file"):
        write(Lexicon([("a", ["b"])]), tmp_path / "lexicon.txt", "kaldi")
    assert (tmp_path / "lexicon.txt").read_text("utf-8") == "old"


def test_a_link_to_a_folder_that_is_not_there_is_an_error_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.dict").write_text("a B\nb C\n", "utf-8")
    (tmp_path / "out.txt").symlink_to(tmp_path / "gone" / "out.txt")
    command = [
        "lexicon",
        str(tmp_path / "words.dict"),
        "--format",
        "kaldi",
        "--out",
        str(tmp_path / "out.txt"),
    ]
    assert main(command) == 2
    link = f"{tmp_path}/out.txt is a link to {tmp_path}/gone/out.txt"
    assert capsys.readouterr().err == f"regard lexicon: error: {link}: there is no folder {tmp_path}/gone\n"


def test_notes_that_are_not_kept_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "words.dict"
    path.write_text(";;; a comment # of its own\nab A B # abbrev\nba B A  # place, danish\nc# C\n", "utf-8")
    assert main(["lexicon", str(path)]) == 0
    assert "2 notes not kept, such as '# abbrev'" in capsys.readouterr().err
    path.write_text("ab A B\n", "utf-8")
    assert main(["lexicon", str(path), "--from", "cmudict"]) == 0
    assert "not kept" not in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--stress drop", "--phone-map map.tsv", "--symbols tokens.txt"])
def test_what_becomes_of_phones_needs_a_format(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["lexicon", "words.dict", *option.split()]) == 2
    assert f"{option.split()[0]} needs --format" in capsys.readouterr().err
