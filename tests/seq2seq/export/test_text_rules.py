"""text.py, which users copy, cuts and joins text as the tokenizers do."""

from __future__ import annotations

import json
import re
import tracemalloc
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from exported import LINES
from hypothesis import given
from hypothesis import strategies as st

from regard.seq2seq.export.folder import copied
from regard.seq2seq.sources.text.rules import of_characters, rules
from regard.seq2seq.sources.text.tokenizers import TOKEN, Subwords, Tokenizer, Words, learn
from regard.seq2seq.sources.text.vocabulary import SPECIAL, Vocabulary

with copied("text") as module:
    TEXT = module.TextRules
FORMS = ("NFC", "NFKC", "NFD", "none")


@cache
def text(tokenizer: Tokenizer) -> Any:
    """The `Text` that users have, by what is in model.json."""
    return TEXT(json.loads(json.dumps(rules(tokenizer))))


def same(tokenizer: Tokenizer, line: str) -> None:
    own, other = tokenizer.tokenize(line), text(tokenizer).tokenize(line)
    assert other == own
    assert text(tokenizer).encode(own) == tokenizer.encode(own)
    assert text(tokenizer).detokenize(own) == tokenizer.detokenize(own)
    assert [text(tokenizer).token_text(token) for token in own] == [
        tokenizer.token_text(token) for token in own
    ]


COUNTED = {
    (kind, form, lower): learn(kind, LINES, lower=lower, normalization=form)  # type: ignore[arg-type]
    for kind, form, lower in product(("words", "characters", "tokens"), FORMS, (False, True))
}


@pytest.mark.parametrize("key", COUNTED, ids=str)
def test_lines_of_many_scripts(key: tuple[str, str, bool]) -> None:
    for line in LINES:
        same(COUNTED[key], line)


@pytest.mark.parametrize("form", FORMS)
def test_small_letters_of_capitals_with_marks_and_of_sigma(form: Any) -> None:
    letters = ["▁", "▁i", *"istj", "ǰ", "\u030c", *"οσς"]
    vocabulary = Vocabulary([*SPECIAL, *letters])
    subwords = Subwords(vocabulary, [0.0] * len(vocabulary), lower=True, normalization=form)
    for line in ("İSİ", "I\u0307SI", "J\u030c", "ΟΣ ΣΟ"):
        for kind in ("words", "characters", "tokens"):
            same(COUNTED[kind, form, True], line)
        same(subwords, line)
    assert text(subwords).tokenize("İS") == ["▁i", "s"] or form == "NFD"


@pytest.mark.parametrize("known", ["'", "\u2019"])
def test_an_apostrophe_that_is_not_known_is_the_other(known: str) -> None:
    other = {"'": "\u2019", "\u2019": "'"}[known]
    for kind in ("words", "characters", "tokens"):
        tokenizer = learn(kind, [f"don{known}t DON{known}T"], lower=True)
        for line in (f"don{other}t", f"DON{other}T"):
            same(tokenizer, line)
            assert 3 not in tokenizer.encode(tokenizer.tokenize(line))
    both = learn("characters", ["'\u2019"])
    assert len({*both.encode(["'", "\u2019"])}) == 2


@pytest.mark.parametrize("line", ["", " ", "\t", "\u3000", "\u00a0 \u2028"])
@pytest.mark.parametrize("kind", ["words", "characters", "tokens"])
def test_a_blank_line_has_no_tokens(line: str, kind: str) -> None:
    assert (
        text(COUNTED[kind, "NFC", False]).tokenize(line) == COUNTED[kind, "NFC", False].tokenize(line) == []
    )


# What text.py leaves out, to be short: keycaps, marks without a base, more than 30 marks on a letter, and lines of
# format characters only.
KEYCAP, FORMAT = (
    re.compile("[0-9]\ufe0f?\u20e3"),
    re.compile("[\u200b-\u200f\u2060-\u206f\u00ad\u034f\ufe00-\ufe0f\U000e0000-\U000e0fff]"),
)


@pytest.mark.parametrize("kind", ["words", "characters", "tokens"])
@given(
    line=st.text(
        st.one_of(
            st.characters(exclude_categories=["Cs", "Cc", "M", "Cf", "Cn", "Co"]),
            st.sampled_from("abc -'’.,é0 9_\u00a0"),
        )
    )
)
def test_any_text_without_bare_marks(kind: str, line: str) -> None:
    if line.strip() and COUNTED[kind, "none", False].tokenize(line):
        same(COUNTED[kind, "none", False], line)


@given(st.text("aàä\u0301\u0308\u200d\u00ad'’-.,!3 \u00a0_x\u1100\u1161😀🏽\U0001f1eb", max_size=12))
def test_marks_and_joiners_in_words(line: str) -> None:
    line = "a" + re.sub(r"([ \u00a0])[^\w ]+", r"\1", line)  # no mark after a space
    assert text(COUNTED["words", "none", False]).tokenize(line) == COUNTED["words", "none", False].tokenize(
        line
    )


def pieces(method: Any, *, lower: bool = False) -> Subwords:
    """Subwords that no training needs: scores that disagree with the order of lengths."""
    tokens = ["▁", "a", "b", "c", "ab", "bc", "abc", "▁a", "▁ab", "ca", "cab", "▁b", "aa"]
    scores = [0.0] * 4 + np.random.default_rng(3).normal(-3, 2, len(tokens)).tolist()
    return Subwords(Vocabulary([*SPECIAL, *tokens]), scores, method=method, lower=lower)


@pytest.mark.parametrize("method", ["unigram", "bpe"])
@given(line=st.text("abcxy ▁A", max_size=20))
def test_subwords_by_both_methods(method: Any, line: str) -> None:
    for tokenizer in (pieces(method), pieces(method, lower=True)):
        if tokenizer.tokenize(line):
            same(tokenizer, line)


class _Counting(dict[str, float]):
    """Scores that count how often one is looked up."""

    count = 0

    def get(self, *key: Any) -> Any:
        self.count += 1
        return super().get(*key)


@pytest.mark.parametrize("method", ["unigram", "bpe"])
def test_a_long_word_is_cut_with_a_few_look_ups_a_letter(method: Any) -> None:
    word = "▁" + "abcab" * 400
    read = TEXT(json.loads(json.dumps(rules(pieces(method)))))
    read.scores = _Counting(read.scores)
    tracemalloc.start()
    try:
        assert read._subwords(word) == pieces(method).tokenize("abcab" * 400)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert read.scores.count <= 4 * len(word)


def test_an_unknown_character_costs_ten_more_than_the_worst_piece() -> None:
    tokens, scores = ["▁", "▁xa", "b", "ab", "▁ya"], [-1.0, -8.0, -8.0, -0.5, -8.0]
    tokenizer = Subwords(Vocabulary([*SPECIAL, *tokens]), [0.0] * 4 + scores)
    same(tokenizer, "xab")  # by hand: -8 - 8, and not -1 - 18 - 0.5
    assert text(tokenizer).tokenize("xab") == ["▁xa", "b"]
    assert text(tokenizer).tokenize("zab") == ["▁", "z", "ab"]


def test_equal_scores_are_merged_from_the_left_as_in_the_tokenizer() -> None:
    tokens = ["▁", "a", "aa", "▁a", "aaa"]
    for method in ("bpe", "unigram"):
        tokenizer = Subwords(Vocabulary([*SPECIAL, *tokens]), [0.0] * 4 + [-1.0] * 5, method=method)  # type: ignore[arg-type]
        for count in range(1, 9):
            same(tokenizer, "a" * count)
    same(pieces("unigram"), "axaxaxxaxaaaaa")  # aa a aa and a aa aa have the same sum of scores


def test_special_tokens_in_a_text_have_ids_of_their_own() -> None:
    tokenizer = learn("tokens", ["<unk> a </s>"])
    assert text(tokenizer).encode(["<unk>", "</s>", "<s>"]) == tokenizer.encode(["<unk>", "</s>", "<s>"])
    assert min(text(tokenizer).encode(["<unk>", "</s>", "<s>"])) >= 3


def test_the_pattern_of_words_is_one_expression_over_characters() -> None:
    assert re.findall(of_characters(TOKEN.pattern), "l'été, x") != []
    assert [found[0] for found in re.finditer(of_characters(TOKEN.pattern), "l'été, 3.5")] == [
        "l'",
        "été",
        ",",
        "3",
        ".",
        "5",
    ]
    assert len(of_characters(TOKEN.pattern)) < 40_000
    assert rules(COUNTED["words", "NFC", False])["pattern"] == of_characters(TOKEN.pattern)
    assert "pattern" not in rules(COUNTED["characters", "NFC", False])
    assert Words.token_type == "words"
