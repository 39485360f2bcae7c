"""Text: normalized, tokenized, numbered and joined, as words, characters, subwords or tokens."""

from __future__ import annotations

import functools
import itertools
import math
import os
import pickle
import re
import sys
import unicodedata
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from errors import assert_raises, error, transcript
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_test import in_one_test

from regard.seq2seq.sources import Text
from regard.seq2seq.sources.text import normalization as module
from regard.seq2seq.sources.text.normalization import NORMALIZATIONS, is_blank, normalize, normalize_tokens
from regard.seq2seq.sources.text.subwords import Segmenter, learn_pieces
from regard.seq2seq.sources.text.tokenizers import (
    TOKEN_TYPES,
    Characters,
    Subwords,
    Tokenizer,
    Tokens,
    Words,
    detokenize,
    learn,
    restore,
    tokenize,
    unmark,
    unseen,
)
from regard.seq2seq.sources.text.vocabulary import (
    END,
    JOIN,
    PAD,
    SPECIAL,
    START,
    UNKNOWN,
    Vocabulary,
)

# ------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The cat sat.", ["The", "cat", "sat", "|."]),
        ("l'icône", ["l'|", "icône"]),
        ("aujourd’hui", ["aujourd’|", "hui"]),
        ("well-known (twice)", ["well-known", "(|", "twice", "|)"]),
        ("a = b/c", ["a", "=", "b", "|/|", "c"]),
        ("Oui\u00a0!", ["Oui", "|\u00a0!"]),
        ("snake_case 3.5 %", ["snake_case", "3", "|.|", "5", "%"]),
        ("", []),
    ],
)
def test_tokenize(text: str, tokens: list[str]) -> None:
    assert [token.replace(JOIN, "|") for token in tokenize(text)] == tokens


# One sentence in each script. Its words were determined by hand: separated by spaces, without the sign at the end.
SCRIPTS = {
    "Devanagari": "यह एक बहुत सुंदर घर है।",
    "Bengali": "এটি একটি খুব সুন্দর বাড়ি।",
    "Gurmukhi": "ਇਹ ਇੱਕ ਬਹੁਤ ਸੁੰਦਰ ਘਰ ਹੈ।",
    "Gujarati": "આ એક ખૂબ સુંદર ઘર છે.",
    "Odia": "ଏହା ଏକ ବହୁତ ସୁନ୍ଦର ଘର ।",
    "Tamil": "இது மிகவும் அழகான வீடு.",
    "Telugu": "ఇది చాలా అందమైన ఇల్లు.",
    "Kannada": "ಇದು ತುಂಬಾ ಸುಂದರವಾದ ಮನೆ.",
    "Malayalam": "ഇത് വളരെ മനോഹരമായ വീടാണ്.",
    "Sinhala": "මෙය ඉතා ලස්සන නිවසක්.",
    "Thai": "นี่คือ บ้าน ที่ สวยงาม มาก",
    "Lao": "ນີ້ ແມ່ນ ເຮືອນ ທີ່ ງາມ ຫຼາຍ",
    "Khmer": "នេះ គឺជា ផ្ទះ ស្អាត ណាស់ ។",
    "Myanmar": "ဒါက အရမ်း လှပတဲ့ အိမ်ပါ ။",
    "Tibetan": "འདི ཁང་པ མཛེས་པོ ཞིག རེད །",
    "Arabic, vowelled": "هٰذَا بَيْتٌ جَمِيلٌ جِدًّا.",
    "Persian": "این خانه\u200cها می\u200cخواهم خیلی زیبا هستند.",
    "Hebrew, pointed": "זֶה בַּיִת יָפֶה מְאוֹד.",
    "Thaana": "މިއީ ވަރަށް ރީތި ގެއެކެވެ.",
    "Vietnamese, decomposed": "Đây là một ngôi nhà đẹp.",
    "IPA": "ðɪs ɪz ə ˈvɛɹi ˈbjuːɾɪfl̩ haʊs t̪ɛ̃ .",
    "Greek, decomposed": "Αὐτὸ εἶναι ἔνα ὅμορφο σπίτι.",
    "Russian, stressed": "Э́то о́чень краси́вый дом.",
    "Korean, decomposed": "이것은 매우 아름다운 집입니다.",
    "Amharic": "ይህ በጣም ቆንጆ ቤት ነው።",
}
SIGNS = ".\u0964\u0f0d\u17d4\u1362"  # full stops


def written(script: str) -> str:
    text = SCRIPTS[script]
    return unicodedata.normalize("NFD", text) if "decomposed" in script else text


@pytest.mark.parametrize("kind", ["words", "characters", "tokens"])
def test_the_small_letter_of_a_dotted_capital_is_one_character(kind: str) -> None:
    tokenizer = learn(kind, ["iki İ"], lower=True)
    assert {*"".join(tokenizer.tokens[len(SPECIAL) :])} <= {*"ik␣"}
    assert UNKNOWN not in tokenizer.encode(tokenizer.tokenize("İKİ İ"))


@in_one_test("script", SCRIPTS)
def test_words_of_many_scripts_are_not_split(script: str) -> None:
    by_hand = [
        token
        for word in written(script).replace("་", " ་ ").split()  # a sign between Tibetan syllables
        for token in (word.rstrip(SIGNS), word[len(word.rstrip(SIGNS)) :])
    ]
    assert [unmark(token) for token in tokenize(written(script))] == [token for token in by_hand if token]


@in_one_test(
    ("text", "tokens"),
    [
        ("👨\u200d👩\u200d👧 👍🏽! 🇫🇷🇩🇪", ["👨\u200d👩\u200d👧", "👍🏽", "|!", "🇫🇷", "|🇩🇪"]),
        ("a1\ufe0f\u20e3#\ufe0f\u20e3 1", ["a", "|1\ufe0f\u20e3", "|#\ufe0f\u20e3", "1"]),
        ("❤\ufe0f\u200d🔥", ["❤\ufe0f\u200d🔥"]),
        ("🏴\U000e0067\U000e0062\U000e007f.", ["🏴\U000e0067\U000e0062\U000e007f", "|."]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("Wort\u00adende co\u2060op", ["Wort\u00adende", "co\u2060op"]),
        ("a\u200bb", ["a", "|\u200b|", "b"]),  # a zero width space separates words
        ("\u0301a", ["\u25cc\u0301|", "a"]),
        ("a \u0301", ["a", "\u25cc\u0301"]),
        ("!\u0301", ["!\u0301"]),
        ("\u25cc\u0301", ["\u25cc\u25cc\u0301"]),  # a dotted circle of the text's own
        ("l'\u0301a", ["l", "|'\u0301|", "a"]),
    ],
)
def test_marks_joiners_and_emoji_stay_with_their_character(text: str, tokens: list[str]) -> None:
    assert [token.replace(JOIN, "|") for token in tokenize(text)] == tokens
    assert detokenize(tokenize(text)) == text


_AWKWARD = st.sampled_from(
    [*" -'aß1#.\u0301\u093f\u20e3\ufe0f\u200b\u200c\u200d\u200f\u2060\u00ad\u00a0\u202f\u25cc\u0600क❤👍🏽🇫🇷"]
)
AWKWARD = st.lists(_AWKWARD, max_size=12).map("".join)


@pytest.mark.slow
@given(st.text(max_size=40) | AWKWARD)
def test_no_token_begins_with_a_mark(text: str) -> None:
    for token in map(unmark, tokenize(text)):
        assert token
    for token in tokenize(text):
        assert unicodedata.category(token.lstrip(JOIN)[0])[0] != "M"


@pytest.mark.slow
@given(st.text(max_size=20) | AWKWARD)
def test_no_token_ends_inside_a_grapheme_cluster(text: str) -> None:
    regex = pytest.importorskip("regex")
    # Left out: characters of one Unicode version only, signs written before others, letters that count as marks.
    text = "".join(c for c in text if unicodedata.category(c) not in ("Cn", "Co", "Cs"))
    text = regex.sub(r"\p{GCB=Prepend}|(?![\p{M}\p{Sk}])[\p{GCB=Extend}\p{GCB=SpacingMark}]", "", text)
    text = one_space(text.replace(JOIN, "x"))
    ends = set(itertools.accumulate(map(len, regex.findall(r"\X", text))))
    position = 0
    for token in map(unmark, tokenize(text)):
        position = text.index(token, position) + len(token)
        assert position in ends or text[position : position + 1] == " "


def one_space(text: str) -> str:
    return re.sub(r"[^\S\u00a0\u202f]+", " ", text).strip(" ")


@pytest.mark.parametrize(
    ("texts", "rare", "kind", "left_out"),
    [
        (5000, 526, "words", True),  # 526 of 10,526 tokens: 5.0 %
        (5000, 527, "words", False),
        (4999, 10, "words", False),
        (5000, 10, "tokens", False),
    ],
)
def test_rare_words_are_left_out_where_there_are_few(
    texts: int, rare: int, kind: str, left_out: bool
) -> None:
    given = ["a b" + f" r{i // 2}" * (i < rare) for i in range(texts)]  # each of them twice
    text = Text(kind)
    known = text.fitted([text.load(one) for one in given]).tokenizer.tokens
    assert set(known) - {*SPECIAL} == {"a", "b"} | {f"r{i // 2}" for i in range(rare) if not left_out}


@given(st.text(max_size=40))
def test_tokens_have_no_spaces_or_lines(text: str) -> None:
    assert not any(re.search(r"[^\S\u00a0\u202f]", token) for token in tokenize(text))


def test_vocabulary() -> None:
    words = Vocabulary.learn([["B", "a", "b"], ["b", "</S>"]], lower=True)
    assert words.tokens == (*SPECIAL, "b", "</s>", "a")
    assert words.encode(["A", "B", "c", "</s>"]) == [6, 4, UNKNOWN, 5]
    assert Vocabulary.learn([["B", "b", "b"]], min_count=2).tokens == (*SPECIAL, "b")
    assert Vocabulary.learn([["c", "b", "b", "a"]], size=6).tokens == (*SPECIAL, "b", "a")
    assert Vocabulary.learn([["a"]], size=1).tokens == SPECIAL
    assert error(ValueError, Vocabulary, [*SPECIAL, "a", "a"]) == (
        "the tokens of a vocabulary must differ: 'a' occurs twice"
    )
    assert error(ValueError, Vocabulary, [*SPECIAL, "<s>", "<s>"]) == (
        "the tokens of a vocabulary must differ: '<s>' occurs twice"
    )
    assert error(ValueError, Vocabulary, ["a"]) == "a vocabulary must begin with <pad>, <s>, </s>, <unk>"


def test_a_text_cannot_contain_special_tokens() -> None:
    assert (PAD, START, END, UNKNOWN) == (0, 1, 2, 3)
    assert Vocabulary(SPECIAL).encode(SPECIAL) == [UNKNOWN] * 4
    tokens = Tokens.learn(["a </s> <pad>"])
    assert tokens.tokens == (*SPECIAL, "</s>", "<pad>", "a")
    assert tokens.encode(tokens.tokenize("a </s> <pad> <s> <unk>")) == [6, 4, 5, 3, 3]


# -------------------------------------------------------------------------------------------------------- normalize


@functools.cache
def every_character() -> list[str]:
    return [chr(i) for i in range(sys.maxunicode + 1)]


@pytest.mark.slow
def test_every_character_is_kept_or_becomes_a_space_or_is_an_error() -> None:
    kinds = {c: unicodedata.category(c) for c in every_character()}
    spaces = {c for c in every_character() if kinds[c] in ("Cc", "Zl", "Zp") and c != "\0"}
    wrong = {c for c in every_character() if kinds[c] == "Cs" or c == "\0"}
    assert all(normalize(f"a{c}b", "none") == "a b" for c in spaces)
    assert normalize("a\ufeffb", "none") == "ab"
    changed = spaces | wrong | {"\ufeff"}
    unchanged = "".join(c for c in every_character() if c not in changed)
    assert normalize(unchanged, "none") == unchanged
    assert {c for c in wrong if is_refused(f"a{c}b")} == wrong
    assert error(ValueError, normalize, "a\0b") == r"text must be Unicode text: character 2 is '\x00'"
    assert error(ValueError, normalize, "ab\ud800") == r"text must be Unicode text: character 3 is '\ud800'"


def is_refused(text: str) -> bool:
    try:
        normalize(text)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("text", "nfc", "nfkc"),
    [
        ("cafe\u0301", "caf\u00e9", "caf\u00e9"),
        ("\u212b", "\u00c5", "\u00c5"),
        ("\ufb01n", "\ufb01n", "fin"),
        ("x\u00b2", "x\u00b2", "x2"),
        ("\uff21", "\uff21", "A"),
        ("e\ufeff\u0301", "\u00e9", "\u00e9"),  # what is left out comes first
        ("one\r\n\ttwo", "one   two", "one   two"),
    ],
)
def test_normal_forms(text: str, nfc: str, nfkc: str) -> None:
    assert (normalize(text), normalize(text, "NFC"), normalize(text, "NFKC")) == (nfc, nfc, nfkc)


WRITABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@given(WRITABLE, st.sampled_from(NORMALIZATIONS))
def test_normalized_text_is_unchanged(text: str, normalization: Any) -> None:
    once = normalize(text, normalization)
    assert normalize(once, normalization) == once


MARKED = st.lists(st.sampled_from("a\u00e9\u0301\u0316\u0344\u3099\uff9e\u01d8\u0345b"), max_size=120).map(
    "".join
)


def runs(text: str) -> list[int]:
    """The lengths of the runs of non-starters, counted as Annex 15 does."""
    decomposed = unicodedata.normalize("NFKD", text)
    marks = itertools.groupby(decomposed, lambda c: unicodedata.combining(c) > 0)
    return [len(list(group)) for is_mark, group in marks if is_mark]


@pytest.mark.slow
@given(MARKED | MARKED.map(lambda text: text * 9))
def test_runs_of_marks_are_limited_before_they_are_sorted(text: str) -> None:
    safe = module._stream_safe(text)
    assert max(runs(safe), default=0) <= 30
    assert safe.replace("\u034f", "") == text
    once = normalize(text)
    assert once == unicodedata.normalize("NFC", safe)
    assert normalize(once) == once
    if max(runs(text), default=0) <= 30:
        assert once == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("normalization", ["NFC", "NFKC"])
def test_normalising_never_meets_a_long_run_of_marks(
    normalization: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[str] = []

    def counted(form: str, text: str) -> str:
        met.append(text)
        return unicodedata.normalize(form, text)

    fake = SimpleNamespace(normalize=counted, combining=unicodedata.combining)
    monkeypatch.setattr(module, "unicodedata", fake)
    text = "a" + "\u0301\u0316" * 2000
    assert normalize(text, normalization).replace("\u034f", "").startswith("\u00e1")
    assert max(max(runs(part), default=0) for part in met) <= 30
    assert len(met) <= len(text) + 1


@pytest.mark.slow
def test_text_without_visible_characters_is_blank() -> None:
    invisible = {c for c in every_character() if unicodedata.category(c) in ("Cc", "Cf", "Zs", "Zl", "Zp")}
    written_before_digits = set(
        "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    )
    assert {c for c in invisible if not is_blank(c)} == {"\0"} | (written_before_digits & invisible)
    for others in (
        "\u034f",
        "\u115f",
        "\u1160",
        "\u17b5",
        "\u2800",
        "\u3164",
        "\ufe0f",
        "\uffa0",
        "\U000e0100",
    ):
        assert is_blank(others)
    assert not any(
        is_blank(c)
        for c in every_character()
        if unicodedata.category(c)[0] in "NPS" and c not in "\u2800\U0001d159"
    )
    assert all(map(is_blank, ["", " \u200b\u00ad"]))
    assert not any(map(is_blank, ["\u200ba", "\u0301"]))


@pytest.mark.parametrize("kind", TOKEN_TYPES)
def test_invisible_text_gives_no_token_of_any_type(kind: str) -> None:
    side = subwords_of("bpe", ["ab a b"]) if kind == "subwords" else learn(kind, ["ab a b"])
    for text in ("", "  ", "\u200b", "\t\u00ad", "\u3164 \u2800"):
        assert side.tokenize(text) == []
    assert side.tokenize("a \u200b") != []
    if kind in ("words", "tokens"):
        assert side.tokenize(["\u200b", "\u00ad"]) == []


@pytest.mark.parametrize(
    ("kind", "text", "symbols"),
    [
        ("characters", "Read##", ["R", "#"]),
        ("characters", "a d", [" "]),
        ("tokens", "read X read Y X", ["X", "Y"]),
        ("words", "read X", []),  # unknown words are usual
        ("words", "X. Y.", ["X", "Y"]),  # a known sign is no evidence
        ("words", "##", ["#"]),
        ("words", "read.", []),
    ],
)
def test_symbols_that_are_unknown_to_a_side(kind: str, text: str, symbols: list[str]) -> None:
    side = learn(kind, ["read ."] if kind == "tokens" else ["read."])
    assert unseen(side, side.tokenize(text)) == symbols


def test_tokens_are_normalized_one_by_one() -> None:
    assert normalize_tokens(["e\u0301", "\ufeffb"]) == ["\u00e9", "b"]
    rule = "a token must be text without spaces. Got {} instead."
    assert error(ValueError, normalize_tokens, ["a", "b c"]) == rule.format("'b c'")
    assert error(ValueError, normalize_tokens, ["a", "\n"]) == rule.format(r"'\n'")
    assert error(ValueError, normalize_tokens, [""]) == rule.format("''")
    assert error(TypeError, normalize_tokens, ["a", 1]) == "a token must be a str. Got 1 instead."


# ------------------------------------------------------------------------------------------------------- token types

SENTENCES = ["the lower the better", "lowest and newest", "a low newt", "the best letter", "Been there."]


def subwords_of(method: Any, sentences: Sequence[str] = SENTENCES, **options: Any) -> Subwords:
    if "NO_THREADS" in os.environ:
        pytest.skip("sentencepiece starts a thread to learn")
    return Subwords.learn(sentences, **{"size": 40, "method": method, **options})


@pytest.fixture(scope="module")
def sides() -> dict[str, Tokenizer]:
    """One tokenizer of each type, subwords of both methods."""
    tokenizers: dict[str, Tokenizer] = {
        kind: learn(kind, SENTENCES) for kind in ("words", "characters", "tokens")
    }
    return tokenizers | {method: subwords_of(method) for method in ("unigram", "bpe")}


SIDES = ("words", "characters", "tokens", "unigram", "bpe")
_SEEN = st.sampled_from([*"abdehlnorstw     .'\u2423\u2581", "the", "low", "est", "\u00e9", "日本"])
WRITTEN = st.lists(_SEEN, max_size=20).map("".join) | WRITABLE | AWKWARD


def expected_text(kind: str, text: str) -> str:
    """The text after cutting and gluing: the effect of a token type on spaces and its own marks."""
    text = normalize(text)
    if is_blank(text):
        return ""
    if kind == "characters":
        return text
    if kind == "words":
        return one_space(text.replace(JOIN, "\u25a0"))
    text = text.replace("\u2581", "_") if kind in ("unigram", "bpe") else text
    return " ".join(word for word in text.split(" ") if word)


@pytest.mark.parametrize("kind", SIDES)
@given(text=WRITTEN)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_detokenize_undoes_tokenize_for_every_token_type(
    kind: str, text: str, sides: dict[str, Tokenizer]
) -> None:
    side = sides[kind]
    tokens = side.tokenize(text)
    assert all(tokens)
    assert side.detokenize(tokens) == expected_text(kind, text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SIDES)
@given(text=WRITTEN)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_stand_for_the_tokens(kind: str, text: str, sides: dict[str, Tokenizer]) -> None:
    side = sides[kind]
    tokens = side.tokenize(text)
    numbers = side.encode(tokens)
    assert len(numbers) == len(tokens)
    for token, number in zip(tokens, numbers, strict=True):
        assert number == UNKNOWN if token not in side.tokens[4:] else side.tokens[number] == token


@pytest.mark.parametrize("kind", SIDES)
def test_tokens_of_the_training_text_are_known(kind: str, sides: dict[str, Tokenizer]) -> None:
    side = sides[kind]
    assert side.tokens[:4] == SPECIAL
    assert len(side) == len(side.tokens) == len(set(side.tokens))
    for sentence in SENTENCES:
        numbers = side.encode(side.tokenize(sentence))
        assert UNKNOWN not in numbers
        assert side.detokenize(side.tokens[number] for number in numbers) == sentence


def test_settings_and_data_are_these() -> None:
    words = Words.learn(["É a"], lower=True, normalization="NFKC")
    assert words.describe() == {"kind": "words", "normalization": "NFKC", "lower": True}
    assert words.data() == {"tokens": "<pad>\n<s>\n</s>\n<unk>\na\né".encode()}
    pieces = Subwords(Vocabulary([*SPECIAL, "a"]), [0, 0, 0, 0, -1.5], method="bpe", normalization="none")
    assert pieces.describe() == {
        "kind": "subwords",
        "normalization": "none",
        "lower": False,
        "method": "bpe",
    }
    assert pieces.data() == {"tokens": b"<pad>\n<s>\n</s>\n<unk>\na", "scores": bytes(18) + b"\xc0\xbf"}


def test_capitals() -> None:
    words = Words.learn(["The the THE a"], lower=True, min_count=2)
    assert words.tokens[4:] == ("the",)
    assert words.tokenize("The") == ["The"]  # a copy keeps its capitals
    assert words.encode(["THE", "a"]) == [4, UNKNOWN]
    assert Characters.learn(["Aa"], lower=True).tokens[4:] == ("a",)
    assert Tokens.learn(["A a b"], lower=True, size=5).tokens[4:] == ("a",)
    pieces = subwords_of("bpe", ["AB ab aB"], lower=True)
    assert pieces.tokenize("ab") == pieces.tokenize("AB") == ["\u2581ab"]


def test_one_letter_whatever_its_spelling() -> None:
    for side in (Words.learn(["e\u0301t\u00e9"]), Tokens.learn([["e\u0301t\u00e9"]])):
        assert side.tokens[4:] == ("\u00e9t\u00e9",)
    assert Characters.learn(["e\u0301"]).tokens[4:] == ("\u00e9",)
    assert Words.learn(["\ufb01"], normalization="NFKC").encode(["fi"]) == [4]
    assert "\u2581\u00e9" in subwords_of("bpe", ["\u00e9 e\u0301"]).tokens


def test_a_space_is_shown_and_its_sign_is_kept() -> None:
    side = Characters.learn(["a b"])
    assert side.tokenize("a \u2423") == ["a", "\u2423", " "]
    assert side.detokenize(["a", "\u2423", " "]) == "a \u2423"
    assert side.token_text("\u2423") == " "


def test_lists_of_tokens() -> None:
    tokens = Tokens.learn([["R", "IY1"], ("D",)])
    assert tokens.tokenize(["X", "e\u0301"]) == ["X", "\u00e9"]
    assert tokens.tokenize(" R  IY1\t") == ["R", "IY1"]
    assert tokens.detokenize(["R", "", "IY1"]) == "R IY1"
    assert Words.learn([["a"]]).tokenize(["l'" + JOIN, "a"]) == ["l'" + JOIN, "a"]
    assert (
        error(ValueError, tokens.tokenize, ["R D"])
        == "a token must be text without spaces. Got 'R D' instead."
    )
    for kind in ("characters", "subwords"):
        message = f"{kind} must be made of text, a str. Got ['a'] instead."
        assert error(TypeError, learn, kind, [["a"]]) == message
        assert error(TypeError, Text(kind).load, ["a"], "here: ") == f"here: {message}"


@in_one_test(
    ("source", "target", "token", "borrowed"),
    [
        ("words", "words", "(" + JOIN, "(" + JOIN),  # as it is: it may touch its neighbour here, too
        ("words", "characters", "(" + JOIN, "("),
        ("words", "tokens", JOIN + ".", "."),
        ("words", "bpe", "l'" + JOIN, "l'"),
        ("characters", "characters", "\u2423", "\u2423"),
        ("characters", "words", "日", "日"),
        ("characters", "words", "\u2423", ""),
        ("unigram", "unigram", "\u2581日本", "日本"),  # the piece before it decides whether a word begins
        ("bpe", "words", "\u2581Xyz", "Xyz"),
        ("bpe", "characters", "\u2581Xyz", "Xyz"),
        ("tokens", "bpe", "a\u2581b", "a_b"),
        ("tokens", "words", "IY1", "IY1"),
    ],
)
def test_the_copies_of_unknown_tokens(
    source: str, target: str, token: str, borrowed: str, sides: dict[str, Tokenizer]
) -> None:
    assert sides[target].copy_token(token, sides[source]) == borrowed
    assert sides[target].detokenize(["low", borrowed]).startswith("low")


def test_arguments_are_checked() -> None:
    message = error(ValueError, learn, "word", SENTENCES)
    assert message == (
        "token_type must be one of 'words', 'characters', 'tokens', 'subwords'. Got 'word' instead.\n"
        "  hint: did you mean 'words'?"
    )
    assert (
        error(ValueError, learn, "words", [], min_count=0) == "min_count must be at least 1. Got 0 instead."
    )
    assert error(ValueError, learn, "words", [], size=4) == "size must be at least 5. Got 4 instead."
    assert error(ValueError, learn, "subwords", [], size=5) == "size must be at least 6. Got 5 instead."
    sizes = 10**6, 10**9, 10**21  # no more than there is, and no hours or errors of sentencepiece's
    assert len({subwords_of("bpe", size=size).tokens for size in sizes}) == 1
    for kind in TOKEN_TYPES:
        assert error(ValueError, learn, kind, [], normalization="NFKD") == (
            "normalization must be one of 'NFC', 'NFKC', 'NFD', 'none'. Got 'NFKD' instead.\n"
            "  hint: did you mean 'NFD'?"
        )
    assert error(ValueError, learn, "subwords", ["a"], method="bp") == (
        "method must be one of 'unigram', 'bpe'. Got 'bp' instead.\n  hint: did you mean 'bpe'?"
    )


# ------------------------------------------------------------------------------------------- untrusted text

GOOD = {"kind": "words", "normalization": "NFC", "lower": False}
FINE = {**GOOD, "kind": "subwords", "method": "bpe"}
SMALL = "\n".join([*SPECIAL, "a"]).encode()
KINDS = "'words', 'characters', 'tokens', 'subwords'"


ERRORS = r"""
restore([], {})
    TypeError: the settings of a tokenizer must be a mapping. Got [] instead.
restore({}, {})
    ValueError: the token type of a tokenizer must be one of {KINDS}. Got None instead.
restore({"kind": ["words"]}, {})
    ValueError: the token type of a tokenizer must be one of {KINDS}. Got ['words'] instead.
      hint: did you mean 'words'?
restore({"kind": "words"}, {"tokens": SMALL})
    ValueError: the settings of a tokenizer must be kind, normalization, lower. Got kind instead.
restore(GOOD, {})
    ValueError: the data of a tokenizer must be tokens. Got none instead.
restore(GOOD, {"tokens": SMALL, "scores": b""})
    ValueError: the data of a tokenizer must be tokens. Got tokens, scores instead.
restore({**GOOD, "lower": 1}, {"tokens": SMALL})
    TypeError: lower must be True or False. Got 1 instead.
restore({**GOOD, "normalization": {}}, {"tokens": SMALL})
    ValueError: normalization must be one of 'NFC', 'NFKC', 'NFD', 'none'. Got {} instead.
restore(GOOD, {"tokens": b"a"})
    ValueError: a vocabulary must begin with <pad>, <s>, </s>, <unk>
restore(GOOD, {"tokens": SMALL + b"\n\xff"})
    ValueError: a vocabulary must be UTF-8: byte 24 is not
restore(GOOD, {"tokens": SMALL + b"\n"})
    ValueError: the tokens of a vocabulary must not be empty: number 5 is
restore(GOOD, {"tokens": SMALL + b"\na"})
    ValueError: the tokens of a vocabulary must differ: 'a' occurs twice
restore({**FINE, "method": 3}, {"tokens": SMALL, "scores": bytes(20)})
    ValueError: method must be one of 'unigram', 'bpe'. Got 3 instead.
restore(FINE, {"tokens": SMALL, "scores": bytes(19)})
    ValueError: scores must be 5 numbers of 4 bytes. Got 19 bytes instead.
restore(FINE, {"tokens": SMALL, "scores": bytes(16) + b"\0\0\xc0\x7f"})
    ValueError: scores must hold finite numbers. Got nan at index (4,) from 0 instead.
restore(FINE, {"tokens": SMALL + b"b" * 64, "scores": bytes(20)})
    ValueError: a piece must have at most 64 characters. Got 65 instead.
"""


def test_what_cannot_be_restored() -> None:
    for call, text in transcript(ERRORS):
        assert_raises(call, text.replace("{KINDS}", KINDS), globals())


@pytest.mark.slow
@pytest.mark.parametrize("kind", SIDES)
@given(draw=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_data_gives_an_error_or_a_text_that_works(
    kind: str, draw: st.DataObject, sides: dict[str, Tokenizer]
) -> None:
    data = {name: bytearray(value) for name, value in sides[kind].data().items()}
    for value in data.values():
        for index in draw.draw(st.lists(st.integers(0, len(value) - 1), max_size=3)):
            value[index] = draw.draw(st.integers(0, 255))
        del value[draw.draw(st.integers(0, len(value)) | st.just(len(value))) :]
    again = restored_or_error(sides[kind], {name: bytes(value) for name, value in data.items()})
    if isinstance(again, str):
        assert "\n" not in again
        assert len(again) < 200
        return
    for sentence in [*SENTENCES, "日本 x"]:
        assert all(0 <= number < len(again) for number in again.encode(again.tokenize(sentence)))


def restored_or_error(side: Tokenizer, data: dict[str, bytes]) -> Tokenizer | str:
    try:
        return restore(side.describe(), data)
    except ValueError as caught:
        return str(caught)


# ---------------------------------------------------------------------------------------------------- subwords

MANY = st.lists(st.text("ab", min_size=2, max_size=4), min_size=8, max_size=28, unique=True)
PIECES = st.lists(st.text("abc\u2581", min_size=1, max_size=4), min_size=1, max_size=12, unique=True)


def segmentations(word: str, pieces: dict[str, float], unknown: float) -> list[tuple[float, list[str]]]:
    """All ways to cut a word into known pieces and unknown single characters, with their scores."""
    results = []
    for count in range(len(word)):
        for ends in itertools.combinations(range(1, len(word)), count):
            parts = [word[i:j] for i, j in itertools.pairwise((0, *ends, len(word)))]
            if all(part in pieces or len(part) == 1 for part in parts):
                results.append((math.fsum(pieces.get(part, unknown) for part in parts), parts))
    return results


@pytest.mark.slow
@given(PIECES, st.text("abcd\u2581", min_size=1, max_size=8), st.data())
def test_no_other_pieces_are_more_probable(pieces: list[str], word: str, draw: st.DataObject) -> None:
    scores = draw.draw(st.lists(st.integers(-20, -1), min_size=len(pieces), max_size=len(pieces)))
    known = dict(zip(pieces, map(float, scores), strict=True))
    cutter = Segmenter([*SPECIAL, *pieces], [0.0] * 4 + [float(s) for s in scores], "unigram")
    unknown = min(known.values()) - 10
    best_cut = cutter(word)
    total = math.fsum(known.get(piece, unknown * len(piece)) for piece in best_cut)
    assert "".join(best_cut) == word
    assert total == max(score for score, _ in segmentations(word, known, unknown))


def merged(word: str, order: dict[str, float]) -> list[str]:
    """Merge neighbours one by one, the first of the best ones each time."""
    parts = list(word)
    while True:
        offers = [(-order[a + b], i) for i, (a, b) in enumerate(itertools.pairwise(parts)) if a + b in order]
        if not offers:
            return parts
        _, i = min(offers)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


def together(parts: list[str], known: Any) -> list[str]:
    """Neighbouring unknown parts are one."""
    return [
        part
        for is_known, group in itertools.groupby(parts, known.__contains__)
        for part in (list(group) if is_known else ["".join(group)])
    ]


def test_an_unknown_character_costs_more_than_all_that_is_known() -> None:
    scores = [0.0] * 4 + [-4.0, -4.0, -1.0, -1.0]
    assert Segmenter([*SPECIAL, "ab", "cd", "a", "bc"], scores, "unigram")("abcd") == ("ab", "cd")


def test_merged_pieces_are_neighbours_again() -> None:
    cutter = Segmenter([*SPECIAL, "bc", "de", "bcde"], [0.0] * 4 + [-1.0, -2.0, -3.0], "bpe")
    assert cutter("bcde") == ("bcde",)
    assert cutter("bcdebc") == ("bcde", "bc")


@pytest.mark.slow
@given(PIECES | MANY, st.text("abcd\u2581", min_size=1, max_size=40) | st.text("ab", min_size=1, max_size=40))
def test_neighbours_are_merged_in_order(pieces: list[str], word: str) -> None:
    known = {piece: -float(i) for i, piece in enumerate(pieces)}
    cutter = Segmenter([*SPECIAL, *pieces], [0.0] * 4 + list(known.values()), "bpe")
    assert list(cutter(word)) == together(merged(word, known), known)


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def ours_and_sentencepiece(request: pytest.FixtureRequest) -> tuple[Subwords, Any]:
    """Ours, and sentencepiece with the model it has learned."""
    library = pytest.importorskip("sentencepiece")
    models = []
    theirs = library.SentencePieceProcessor
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            library, "SentencePieceProcessor", lambda **of: models.append(theirs(**of)) or models[0]
        )
        ours = subwords_of(request.param, [f"{a} {b}" for a in SENTENCES for b in SENTENCES], size=60)
    return ours, models[0]


@given(text=WRITTEN)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_cuts_as_sentencepiece_does(text: str, ours_and_sentencepiece: tuple[Subwords, Any]) -> None:
    ours, theirs = ours_and_sentencepiece
    our_pieces, their_pieces = ours.tokenize(text), theirs.encode_as_pieces(expected_text("bpe", text))
    if our_pieces != their_pieces:  # sums in float32 may give a tie where there is none
        score = dict(zip(ours.tokens, map(theirs.get_score, range(len(ours))), strict=True))
        sums = [
            math.fsum(score.get(p, -99.0 * len(p)) for p in pieces) for pieces in (our_pieces, their_pieces)
        ]
        assert sums[0] == pytest.approx(sums[1], rel=1e-6)
    assert ours.encode(their_pieces) == theirs.encode_as_ids(expected_text("bpe", text))


@pytest.mark.parametrize("method", ["unigram", "bpe"])
def test_learning_is_quiet_and_the_same_every_time(method: Any, capfd: pytest.CaptureFixture[str]) -> None:
    one, two = subwords_of(method), subwords_of(method)
    assert one.data() == two.data()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", ["unigram", "bpe"])
@pytest.mark.parametrize(
    ("sentences", "size"),
    [
        (["a"], 8000),
        (["a b c d"] * 3, 1000),
        (["abc abd abe"], 6),  # fewer than there are characters
        (["abc abd abe"], 9),
        (["日本語を話す人", "日本に住む"], 8),
        (["ab \u2585", "a\u2585b"], 50),  # a sign that sentencepiece has reserved
        (["\u2581 \u2423"], 50),
        (["</s> <unk>"], 50),
        (["x" * 5000], 50),
        (["a\u3000b\u00a0c \U0001f600"], 50),
    ],
)
def test_as_many_as_the_sentences_allow(sentences: list[str], size: int, method: Any) -> None:
    side = subwords_of(method, sentences, size=size)
    assert side.tokens[:4] == SPECIAL
    assert 4 < len(side) <= size
    assert len(restore(side.describe(), side.data())) == len(side)
    for sentence in sentences:
        assert side.detokenize(side.tokenize(sentence)) == expected_text(method, sentence)


def test_rare_characters_are_left_out_where_there_are_many() -> None:
    common = [chr(0x4E00 + i) * 100 for i in range(60)]
    side = subwords_of("bpe", [*common, "are"], size=200)
    assert not set("are") & set("".join(side.tokens[4:]))
    assert subwords_of("bpe", ["aaa bbb ccc " * 9, "d"], size=100).encode(["d"]) != [UNKNOWN]


def test_there_must_be_something_to_learn() -> None:
    message = "subwords must be learned from text. Got no sentence with a word in it instead."
    for nothing in ([], ["", " \t"]):
        assert error(ValueError, subwords_of, "bpe", nothing) == message


def test_without_sentencepiece_nothing_is_learned_and_all_is_tokenize(
    sides: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    message = error(ImportError, learn_pieces, ["a"], size=10, method="bpe")
    assert message == 'subwords need sentencepiece: pip install "regard[subwords]"'
    again = restore(sides["bpe"].describe(), sides["bpe"].data())
    assert again.tokenize("the lowest") == sides["bpe"].tokenize("the lowest")


@pytest.mark.threads
def test_of_very_many_sentences_some_are_taken_from_all_over() -> None:
    pieces, _ = learn_pieces("abcdefg", size=40, method="bpe", most_sentences=3)
    assert {"\u2581a", "\u2581d", "\u2581g"} <= set(pieces)
    assert not {"b", "c", "e", "f"} & set(pieces)


def test_few_and_short_words_are_remembered() -> None:
    cutter, words = (
        Segmenter([*SPECIAL, "a"], [0.0] * 5, "unigram", cache_size=2),
        ("bbb", "ccc", "ddd", "e" * 99),
    )
    for word in words:
        assert cutter(word) == cutter(word) == (word,)
        kept = [other for other in words if other.encode() in pickle.dumps(cutter)]
        assert len(kept) <= 2
    assert "ddd" in kept
    assert "e" * 99 not in kept


@pytest.mark.slow
@pytest.mark.parametrize("method", ["unigram", "bpe"])
def test_a_word_without_an_end_takes_no_quadratic_time(method: Any) -> None:
    pieces = ["a" * (1 << i) for i in range(7)]
    cutter = Segmenter([*SPECIAL, *pieces], [0.0] * 4 + [-1.0 - i for i in range(7)], method)
    assert "".join(cutter("a" * 100_000)) == "a" * 100_000


@pytest.mark.parametrize("normalization", ["NFC", "NFKC", "none"])
def test_tokens_that_were_cut_here_stay_what_they_are(normalization: Any) -> None:
    """NFKC has another letter for the mark of what touches its neighbour."""
    tokens = tokenize(normalize("\ufb01ne (l'ic\u00f4ne).", normalization))
    assert any(JOIN in token for token in tokens)
    assert normalize_tokens(tokens, normalization) == tokens
