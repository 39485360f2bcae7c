"""Pronouncing words: what is in the dictionary exactly as listed, the others by a model, each marked."""

from __future__ import annotations

import io
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors import refused

from regard.cli import main
from regard.seq2seq import Seq2Seq
from regard.seq2seq.decoding.calibration import Calibration
from regard_lexicon import Lexicon, Pronouncer, Variant
from regard_lexicon.pronouncer import _left_to_right, words_of

# Each letter has one sound but c, which is K before a and S before e.
SOUNDS = {"a": "AA", "b": "B", "d": "D", "e": "EH"}
WORDS = [x + y + z for x in "abcde" for y in "abde" for z in "abcde"]
LEXICON = Lexicon([("bad", Variant(("X", "Y"), 0.5)), ("bad", ["Z"]), ("Éa", ["AA"]), ("ea", ["E", "A"])])


def sounds(word: str) -> str:
    return " ".join(
        SOUNDS.get(letter, "S" if word[place + 1 : place + 2] == "e" else "K")
        for place, letter in enumerate(word)
    )


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned the sounds."""
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    model = Seq2Seq(epochs=40, source="characters", target="tokens", learning_rate=0.01)
    model.fit(WORDS, [sounds(word) for word in WORDS]).save(path)
    return path


@pytest.fixture(scope="session")
def pronounce(model_path: Path) -> Pronouncer:
    """A pronouncer with a dictionary, both of whose cases occur."""
    return Pronouncer.load(model_path, LEXICON)


def test_a_known_word_is_as_listed_with_all_variants(pronounce: Pronouncer) -> None:
    (variants,) = pronounce.pronounce(["bad"])
    assert [(v.phones, v.source, v.probability, v.confidence) for v in variants] == [
        (("X", "Y"), "dictionary", 0.5, 1.0),
        (("Z",), "dictionary", None, 1.0),
    ]
    assert pronounce("E\u0301a").phones == ("AA",)


def test_the_best_of_several_variants_is_the_most_probable_one(model_path: Path) -> None:
    lexicon = Lexicon(
        [
            *(("a", Variant((phone,), share)) for phone, share in (("EY", 0.03), ("AH", 1.0), ("AA", 1.0))),
            *(("b", Variant((phone,), share)) for phone, share in (("B", 0.9), ("P", None), ("V", 1.0))),
        ]
    )
    pronounce = Pronouncer.load(model_path, lexicon)
    assert [pronounce(word).phones for word in "ab"] == [
        ("AH",),
        ("P",),
    ]  # of equals the first; None is the highest
    assert [one.phones for one in pronounce.pronounce(["a"])[0]] == [("EY",), ("AH",), ("AA",)]


@pytest.mark.slow
def test_a_known_word_keeps_the_roles_of_its_variants(model_path: Path, tmp_path: Path) -> None:
    entries = [("ab", Variant(("A", "B"), None, "NOUN")), ("ab", Variant(("B", "A"), None, "VERB"))]
    pronounce = Pronouncer.load(model_path, Lexicon(entries))
    assert [one.role for one in pronounce.pronounce(["ab"])[0]] == ["NOUN", "VERB"]
    assert pronounce("ba").role == ""
    written, out = tmp_path / "in.json", tmp_path / "out.json"
    written.write_text('{"ab": {"DEFAULT": "AB", "VERB": "BA"}}', "utf-8")
    (tmp_path / "words.txt").write_text("ab\n", "utf-8")
    command = ["pronounce", model_path, tmp_path / "words.txt", "--lexicon", written, "--format", "misaki"]
    assert main([*map(str, command), "--out", str(out)]) == 0
    assert json.loads(out.read_text("utf-8")) == {"ab": {"DEFAULT": "AB", "VERB": "BA"}}


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_n_best_is_a_number_of_answers(pronounce: Pronouncer, count: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="n_best must be"):
        pronounce.pronounce(["ab"], n_best=count)


@pytest.mark.threads
def test_answers_of_a_model_of_subwords_have_no_links() -> None:
    words = [x + y + z for x in "abd" for y in "ab" for z in "abd"]
    options = {"source": "subwords", "target": "tokens", "vocabulary": 12, "epochs": 2}
    pronounce = Pronouncer(Seq2Seq(**options).fit(words, [" ".join(word.upper()) for word in words]))
    assert pronounce("dab").phones
    assert pronounce("dab").links == ()


def test_other_words_come_from_the_model(pronounce: Pronouncer) -> None:
    found = pronounce("cab")
    assert (found.phones, found.source, found.unknown) == (("K", "AA", "B"), "model", ())
    assert [phone for _, phone in found.links] == [0, 1, 2]
    assert sorted(letter for letter, _ in found.links) == [letter for letter, _ in found.links]
    assert {letter for letter, _ in found.links} <= {0, 1, 2}
    assert found.probability is None  # the model is not calibrated
    assert 0 < found.confidence <= 1


@pytest.mark.slow
def test_n_best_are_different_and_their_confidences_add_up(pronounce: Pronouncer) -> None:
    (found,) = pronounce.pronounce(["cec"], n_best=7)
    assert 1 < len(found) <= 7
    assert len({one.phones for one in found}) == len(found)
    assert sum(one.confidence for one in found) <= 1 + 1e-9


@pytest.mark.slow
def test_a_word_is_looked_up_in_another_case(pronounce: Pronouncer, model_path: Path) -> None:
    assert pronounce("CAB").phones == pronounce("cab").phones
    assert (
        pronounce("Bad").source == "dictionary"
    )  # as at the beginning of a sentence, though words have both cases
    assert pronounce("ÉA").source == "model"
    names = {"D'Éa": (Variant(("X",)),), "bad": (Variant(("Z",)),)}
    assert Pronouncer.load(model_path, names)("D’Éa").phones == ("X",)
    capitals = Pronouncer.load(model_path, {"BAD": (Variant(("X",)),)})
    assert capitals("Bad").phones == capitals("bad").phones == ("X",)


APOSTROPHES = "'’‘‛`´′＇ʼʻ"


@pytest.mark.parametrize("listed", APOSTROPHES)
def test_an_apostrophe_is_that_of_the_dictionary_and_of_the_model(listed: str) -> None:
    model = read_by([f"a{listed}b", "ba"]).model
    pronouncer = Pronouncer(model, Lexicon([(f"b{listed}a", ["X"])]))
    spelled = [f"a{other}b" for other in APOSTROPHES]
    assert words_of(f"({', '.join(spelled)})") == spelled
    assert {(best.phones, best.unknown) for (best,) in pronouncer.pronounce(spelled)} == {
        (pronouncer(f"a{listed}b").phones, ())
    }
    for other in APOSTROPHES:
        assert pronouncer(f"b{other}a").phones == pronouncer(f"B{other}A").phones == ("X",)
    for other in APOSTROPHES.replace(listed, ""):  # they are two letters of this dictionary
        both = Pronouncer(model, Lexicon([(f"b{listed}a", ["X"]), (f"c{other}", ["Y"])]))
        assert both(f"b{other}a").source == "model"


def test_of_several_apostrophes_the_usual_stands_for_those_that_are_in_no_word() -> None:
    model = read_by(["ab", "ba"]).model
    words = {"d’a": "X", "d’b": "Y", "d`a": "Z"}
    pronouncer = Pronouncer(model, Lexicon((word, [phone]) for word, phone in words.items()))
    assert [pronouncer(word).phones for word in ("d'a", "d´b", "d`a")] == [("X",), ("Y",), ("Z",)]
    assert pronouncer("d`b").unknown == ("d", "`")  # and this model has none


@pytest.mark.parametrize("hyphen", "-\u2010\u2011")
def test_a_hyphen_is_that_of_the_dictionary_and_of_the_model(hyphen: str) -> None:
    pronouncer = Pronouncer(read_by([f"a{hyphen}b", "ba"]).model, Lexicon([(f"b{hyphen}a", ["X"])]))
    for other in "-\u2010\u2011":
        assert words_of(f"-{other}a{other}b{other} a–b") == [f"a{other}b", "a", "b"]
        assert pronouncer(f"b{other}a").phones == ("X",)
        assert pronouncer(f"a{other}b").unknown == ()


@pytest.mark.parametrize("silent", "\u00ad\u200c\u200d\u2060\u0640")
def test_silent_signs_are_left_out_where_no_word_has_them(silent: str) -> None:
    pronouncer = Pronouncer(read_by(["ab", "ba"]).model, Lexicon([("bb", ["X"])]))
    assert words_of(f"a{silent}b") == [f"a{silent}b"]
    assert pronouncer(f"b{silent}b").phones == ("X",)
    assert pronouncer(f"a{silent}b").unknown == ()
    assert pronouncer(f"a{silent}b").phones == pronouncer("ab").phones
    learned = Pronouncer(
        read_by([f"a{silent}b", "ba"]).model, Lexicon([(f"b{silent}b", ["X"]), ("bb", ["Y"])])
    )
    assert learned(f"b{silent}b").phones == ("X",)
    assert learned._reading(f"a{silent}b").given == f"a{silent}b"


@pytest.mark.slow
def test_case_is_folded_to_the_capitals_of_a_model() -> None:
    words = [word.upper() for word in WORDS]
    model = Seq2Seq(epochs=40, source="characters", target="tokens", learning_rate=0.01)
    pronouncer = Pronouncer(model.fit(words, [sounds(word) for word in WORDS]))
    assert pronouncer("cab").phones == pronouncer("CAB").phones == ("K", "AA", "B")
    assert pronouncer("cab").unknown == ()


@pytest.mark.slow
@pytest.mark.parametrize(("word", "unseen"), [("kab", ("k",)), ("кот", ("к", "о", "т")), ("!!!", ("!",))])
def test_unknown_letters_are_marked_skipped_or_an_error(
    word: str, unseen: tuple[str, ...], model_path: Path
) -> None:
    guessed = Pronouncer.load(model_path)(word)
    assert guessed.unknown == unseen
    assert guessed.source == ("model" if word == "kab" else "skipped")  # nothing of the others is known
    assert set(guessed.phones) <= {"K", "S", *SOUNDS.values()}
    skipped = Pronouncer.load(model_path, unknown="skip")(word)
    assert (skipped.phones, skipped.source, skipped.unknown) == ((), "skipped", unseen)
    with pytest.raises(ValueError, match=f"never seen '{unseen[0]}'"):
        Pronouncer.load(model_path, unknown="fail")(word)


@pytest.mark.slow
def test_a_word_without_letters_or_with_too_many_is_skipped(pronounce: Pronouncer) -> None:
    found = pronounce.pronounce(["", " ", "ab" * 600, "cab"])
    assert [one[0].source for one in found] == ["skipped", "skipped", "skipped", "model"]


@pytest.mark.slow
def test_a_phrase_may_have_blanks_if_the_model_has_seen_them() -> None:
    model = Seq2Seq(epochs=1, source="characters", target="tokens").fit(["a b", "b a"], ["A B", "B A"])
    assert Pronouncer(model)("a a").unknown == ()
    assert Pronouncer(model)("a-a").unknown == ("-",)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["words", "tokens"])
def test_a_model_that_reads_no_letters_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=f"must read letters, and this one reads {source}"):
        Pronouncer(Seq2Seq(epochs=1, source=source).fit(["a b", "b a"], ["A B", "B A"]))


@pytest.mark.slow
def test_code_points_of_sentences(model_path: Path) -> None:
    entries = [("l'a", ["l", "a"]), ("x-y", ["ã"]), ("b", ["t͡s"]), ("42", ["f"])]
    pronouncer = Pronouncer.load(model_path, Lexicon(entries))
    found = pronouncer.codepoints("  l'a x-y, b!  42 (b) -")
    assert ["".join(map(chr, sentence)) for sentence in found] == ["la a\u0303, t͡s!", "f (t͡s) -"]
    assert pronouncer.codepoints(" ") == []
    # The most probable variant, as everywhere.
    several = Lexicon([("a", Variant(("e",), 0.03)), ("a", Variant(("ə",), 1.0))])
    assert Pronouncer.load(model_path, several).codepoints("a") == [[ord("ə")]]


def test_a_text_is_cut_into_words() -> None:
    text = "Al·lots, l'été d’or: x-ray -dash-, ·a· ג׳ירפה hy‧phen 3.14 e.g. 日本"
    words = "Al·lots l'été d’or x-ray dash a ג׳ירפה hy‧phen 3 14 e g 日本"
    assert words_of(text) == words.split()
    assert words_of("‘a’ 'b´ don‘t d´or l`eau ‘’ '") == ["a", "b", "don‘t", "d´or", "l`eau"]


@pytest.mark.parametrize(("word", "phone"), [("ab", "AA"), ("one", "HH"), ("two", "AH0")])
def test_phones_of_arpabet_have_no_code_points(model_path: Path, word: str, phone: str) -> None:
    """Of the model or of the dictionary: their letters would be as many phonemes."""
    pronouncer = Pronouncer.load(model_path, Lexicon([("one", ["w", "HH"]), ("two", ["AH0"])]))
    with pytest.raises(ValueError, match=rf"need phones in IPA. Got '{phone}'(.|\n)*phone map"):
        pronouncer.codepoints(f"{word}!")


def test_links_go_from_left_to_right() -> None:
    # alone, the first row would take column 2; the products of the paths 0 1 2 and 2 2 2 are 0.18 and 0.108
    weights = np.array([[0.4, 0.0, 0.6], [0.1, 0.5, 0.2], [0.0, 0.1, 0.9]])
    assert _left_to_right(weights) == [0, 1, 2]
    assert _left_to_right(weights[:1]) == [2]
    random = np.random.default_rng(0)
    for rows, columns in ((1, 1), (3, 2), (4, 4), (2, 5)):
        weights = random.random((rows, columns)) + 0.01
        paths = itertools.combinations_with_replacement(range(columns), rows)
        best = max(paths, key=lambda path: np.prod([weights[i, j] for i, j in enumerate(path)]))
        assert _left_to_right(weights) == [*best]


def read_by(words: list[str], **options: Any) -> Pronouncer:
    """A pronouncer whose model has seen these words, but learned nothing."""
    model = Seq2Seq(**({"source": "characters", "target": "tokens", "network": SMALL} | options), epochs=1)
    return Pronouncer(model.fit(words, ["A B", "B"][: len(words)]))


@pytest.mark.slow
def test_a_dotted_capital_is_folded_to_one_letter() -> None:
    for text in ("İSA", "I\u0307SA", "İsa"):
        pronounce = read_by(["isa", "as"])
        assert (pronounce(text).source, pronounce(text).unknown) == ("model", ())
        pronounce.lexicon = Lexicon([("isa", ["X"])])
        assert Pronouncer(pronounce.model, pronounce.lexicon)(text).phones == ("X",)


@pytest.mark.slow
def test_a_final_sigma_is_that_of_the_model() -> None:
    both, one = read_by(["οδος", "σο"]), read_by(["ΟΔΟΣ", "ΣΟ"], lower=True)
    assert both("ΟΔΟΣ").unknown == both("οδος").unknown == one("ΟΔΟΣ").unknown == one("οδοσ").unknown == ()
    assert Pronouncer(one.model, Lexicon([("οδος", ["X"])]))("ΟΔΟΣ").phones == ("X",)


@pytest.mark.slow
def test_letters_are_unseen_where_the_model_reads_an_unknown_token() -> None:
    apart = ["e\u0323\u0300ko", "ọ\u0301e"]  # ẹ̀ has no single character: its mark is a letter of the model
    for form, unseen in (("NFC", ("é",)), ("NFD", ())):
        found = read_by([*apart], normalization=form)("éko")
        assert (found.source, found.unknown) == ("model", unseen)


# ------------------------------------------------------------------------------------------------ laws


@pytest.fixture(scope="module", params=[1, 2, 3])
def beginner(request: pytest.FixtureRequest) -> Pronouncer:
    """A model that has learned next to nothing: it loops, or ends at once."""
    model = Seq2Seq(epochs=1, source="characters", target="tokens", seed=request.param, network=SMALL)
    words = WORDS[:: request.param]
    model.fit(words, [" ".join([sounds(word)] * request.param) for word in words])
    model.repetitions = None  # the usual limit, whatever these targets repeat
    return Pronouncer(model)


SMALL = {"embedding": 6, "encoder": 6, "decoder": 6, "attention": 6}


def most_in_a_row(phones: Sequence[str]) -> int:
    """How often a group of phones comes in a row, by the definition."""
    return max(
        count
        for start, end in itertools.combinations(range(len(phones) + 1), 2)
        for count in range(1, (len(phones) - start) // (end - start) + 1)
        if tuple(phones[start:end]) * count == tuple(phones[start : start + count * (end - start)])
    )


@pytest.mark.slow
def test_every_short_word_has_an_answer_that_ends_and_has_known_phones_only(beginner: Pronouncer) -> None:
    letters = "abcde"
    words = ["".join(word) for size in (1, 2, 3) for word in itertools.product(letters, repeat=size)]
    words += ["abc" * 30, "a" * 90]
    known = set(beginner.model.model.target.tokens[4:])
    for (found, *_), word in zip(beginner.pronounce(words), words, strict=True):
        assert (found.word, found.source) == (word, "model")
        assert set(found.phones) <= known
        assert 1 <= most_in_a_row(found.phones) <= 3
        assert len(found.phones) <= 2 * len(word) + 7


def test_as_many_repetitions_as_the_dictionary_has_are_allowed() -> None:
    words = ["".join(word) for word in itertools.product("ab", repeat=3)]
    model = Seq2Seq(epochs=60, source="characters", target="tokens", learning_rate=0.01)
    model.fit(words, ["A A A A A" if word == "aaa" else " ".join(word.upper()) for word in words])
    assert model.repetitions == 5
    assert Pronouncer(model)("aaa").phones == ("A",) * 5
    model.repetitions = 3
    assert most_in_a_row(Pronouncer(model)("aaa").phones) == 3


# --------------------------------------------------------------------------------------------- the verb


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with words and a dictionary."""
    monkeypatch.chdir(tmp_path)
    Path("words.txt").write_text("cab\n\n bad\r\nкот\nkab\n", "utf-8")
    Path("words.dict").write_text("bad X Y\nbad(2) Z\nea E A\n", "utf-8")
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_each_line_says_where_the_phones_come_from(
    model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pronounce", str(model_path), "words.txt", "--lexicon", "words.dict"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], line[2]) for line in lines] == [
        ("cab", "model"),
        ("bad", "dictionary"),
        ("bad", "dictionary"),
        ("кот", "skipped"),
        ("kab", "guess"),
    ]
    assert [line[1] for line in lines[:4]] == ["K AA B", "X Y", "Z", ""]
    assert [len(line) for line in lines] == [4, 3, 3, 3, 4]


CALIBRATION = Calibration(0.0, 0.5, 0.5, 5, 40, -1e3)


@pytest.fixture(scope="session")
def calibrated(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with a calibration."""
    path, model = tmp_path_factory.mktemp("calibrated") / "model.safetensors", Seq2Seq.load(model_path)
    model.calibration = CALIBRATION
    model.save(path)
    return path


@pytest.mark.slow
def test_the_best_answer_has_a_calibrated_probability(calibrated: Path) -> None:
    pronounce = Pronouncer.load(calibrated, LEXICON)
    (best, *others) = pronounce.pronounce(["cab"], n_best=3)[0]
    model = pronounce.model
    logs = model.ranked_logs(model.candidates(["cab"], beam=5)[0])
    assert best.probability == pytest.approx(CALIBRATION(logs))
    assert {one.probability for one in others} == {None}
    assert pronounce("kab").probability is None  # a guess
    assert pronounce.pronounce(["bad"])[0][0].probability == 0.5  # that of the dictionary
    assert Pronouncer.load(calibrated, beam=4)("cab").probability is None


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_words_below_the_threshold_are_left_empty_and_listed(
    calibrated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["pronounce", str(calibrated), "words.txt", "--lexicon", "words.dict"]
    probability = Pronouncer.load(calibrated)("cab").probability
    for least, phones in ((0.0, "K AA B"), (1.0, "")):
        assert main([*command, "--probabilities", "--threshold", str(least)]) == 0
        out, err = capsys.readouterr()
        rows = [line.split("\t") for line in out.splitlines()]
        assert rows[0][:3] == ["cab", phones, "model" if phones else "skipped"]
        assert rows[0][4] == f"{probability:.4f}"
        assert [row[:2] for row in rows[1:3]] == [["bad", "X Y"], ["bad", "Z"]]
        assert rows[4][:2] == ["kab", rows[4][1] if phones else ""]
        assert f"{0 if phones else 2} of 2 words " in err  # also the guess, whose probability is not known
    assert main([*command, "--threshold", "1", "--format", "tsv", "--out", "all.tsv"]) == 0
    assert Path("all.tsv").read_text("utf-8") == "bad\tX Y\nbad\tZ\n"
    listed = Path("all.tsv.left-out.tsv").read_text("utf-8")
    assert "cab\t\tits probability is below the threshold\n" in listed


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_dictionary_of_words_is_written_and_the_others_are_listed(model_path: Path) -> None:
    Path("tokens.txt").write_text("".join(f"{s} {i}\n" for i, s in enumerate(["K", "AA", "X", "Y"])), "utf-8")
    options = [
        "--lexicon",
        "words.dict",
        "--format",
        "sherpa-kokoro",
        "--symbols",
        "tokens.txt",
        "--unknown",
        "skip",
    ]
    assert main(["pronounce", str(model_path), "words.txt", *options, "--out", "lexicon.txt"]) == 0
    assert Path("lexicon.txt").read_text("utf-8") == "bad X Y\n"
    assert Path("lexicon.txt.left-out.tsv").read_text("utf-8").splitlines()[1:] == [
        "кот\t\tthe model has never seen к, о, т",
        "kab\t\tthe model has never seen k",
        "cab\tK AA B\tB is no symbol of the voice",
        "bad\tZ\tZ is no symbol of the voice",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_lines_of_several_words_are_reported(model_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("words.txt").write_text("cab bad!\nbad cab\nbad\n", "utf-8")
    command = ["pronounce", str(model_path), "words.txt"]
    told = "a line is read as one word, and 2 have blanks, which the model has never seen"
    for options in ([], ["--unknown", "skip"], ["--format", "tsv", "--out", "all.tsv"]):
        assert main([*command, *options]) == 0
        assert told in capsys.readouterr().err.splitlines()
    assert main([*command, "--unknown", "skip", "--format", "tsv", "--out", "all.tsv"]) == 0
    assert "cab bad!\t\tthe model has never seen ' ', '!'\n" in Path("all.tsv.left-out.tsv").read_text(
        "utf-8"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_guesses_in_a_dictionary_are_reported(model_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["pronounce", str(model_path), "words.txt", "--format", "tsv", "--out", "all.tsv"]
    assert main(command) == 0
    told = "1 of them guessed, such as kab: the model has never seen k; --unknown skip leaves such words out"
    assert told in capsys.readouterr().err.splitlines()
    assert "\nkab\t" in Path("all.tsv").read_text("utf-8")
    assert main([*command, "--unknown", "skip"]) == 0
    assert "guessed" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_list_has_the_reason_why_a_word_is_no_entry(model_path: Path) -> None:
    words = ["cab", "a\u00a0b", "a  b", "c" * 1001, "кот"]
    Path("words.txt").write_bytes("\n".join(words).encode() + b"\n\xe9\n")
    assert main(["pronounce", str(model_path), "words.txt", "--format", "tsv", "--out", "x.tsv"]) == 2
    rows = [line.split("\t") for line in Path("x.tsv.left-out.tsv").read_text("utf-8").splitlines()[1:]]
    assert [row[2].partition("; hint")[0] for row in rows] == [
        "the word contains U+00A0 (NO-BREAK SPACE)",
        "the word has a blank at an end, or two in a row",
        "the word has 1,001 characters; at most 1,000 are read",
        "the model has never seen к, о, т",
        "words.txt, line 6: not UTF-8 (byte 1 is 0xe9)",
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_words_of_standard_input_and_their_n_best(
    model_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"cab\ncec\n")))
    assert main(["pronounce", str(model_path), "--n-best", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("\t")[0] for line in lines] == ["cab", "cab", "cec", "cec"]


@pytest.mark.slow
def test_one_bad_line_does_not_end_the_others(
    model_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.txt").write_bytes(b"cab\nb\xe9b\n" + b"c" * 1001 + b"\nkab\nbad\n")
    assert main(["pronounce", str(model_path), "bad.txt", "--unknown", "fail"]) == 2
    out, err = capsys.readouterr()
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0][:3] for row in rows] == ["cab", "", "ccc", "kab", "bad"]
    assert [row[2] for row in rows] == ["model", "skipped", "skipped", "skipped", "model"]
    places = [line.removeprefix("regard pronounce: error: bad.txt, ")[:6] for line in err.splitlines()]
    assert places == ["line 2", "line 3", "line 4"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["words.txt", "--unknown", "fail"], "к, о, т"),
        (["words.txt", "--format", "mfa"], "--out"),
        (["words.txt", "--out", "x"], "--format"),
        (["words.txt", "--format", "tsv", "--out", "words.txt"], "--out"),
        (["words.txt", "--format", "tsv", "--out", "runs/model.safetensors"], "--out"),
        (["latin.txt"], "line 2"),
        (["words.txt", "--lexicon", "words.txt"], "words.txt"),
        (["words.txt", "--beam", "2", "--n-best", "3"], "--n-best"),
    ],
)
def test_what_is_wrong_is_an_error(
    arguments: list[str], reason: str, model_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "latin.txt").write_bytes(b"cab\nb\xe9b\n")
    (folder / "runs").mkdir()
    copied = (folder / "runs" / "model.safetensors").write_bytes(model_path.read_bytes())
    assert main(["pronounce", "runs", *arguments]) == 2
    assert (folder / "runs" / "model.safetensors").stat().st_size == copied
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ("words.txt --card", "--card prints the card alone: FILE must not"),
        ("--card --lexicon words.dict", "--card prints the card alone: --lexicon must not"),
        ("--card --unknown skip", "--card prints the card alone: --unknown skip must not"),
        ("words.txt --stress drop", "--stress needs --format"),
        ("words.txt --phone-map map.tsv", "--phone-map needs --format"),
        ("words.txt --skip-bad", "--skip-bad needs --lexicon"),
        ("words.txt --probabilities --format tsv --out x.tsv", "--probabilities prints a column"),
    ],
)
def test_no_option_is_ignored_in_silence(capsys: pytest.CaptureFixture[str], options: str, rule: str) -> None:
    assert main(["pronounce", "model", *options.split()]) == 2
    assert f"regard pronounce: error: {rule}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--probabilities", "--threshold=0.5"])
def test_the_verb_says_that_a_model_is_not_calibrated(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = {"embedding": 4, "encoder": 4, "decoder": 4, "attention": 4}
    model = Seq2Seq(source="characters", target="tokens", network=network, epochs=1)
    model.fit(["ab", "ba"], ["A B", "B A"]).save(path := tmp_path / "model.safetensors")
    message = refused(["pronounce", str(path), option], capsys)
    assert message.startswith(f"{option.partition('=')[0]}: {path} is not calibrated")
