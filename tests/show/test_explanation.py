"""`regard.explain`: the story in Python, its steps, and the numbers inside a perceptron."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from one_test import in_one_test

import regard
from regard.cli import main
from regard.show import story as text

WORDS = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
WEIGHTS = [
    np.array(rows)
    for rows in ([[2, 0, 2], [2, 0, 0], [2, 1, 2]], [[2, 2, 2], [0, 2, 1], [0, 1, 1]], np.eye(3, dtype=int))
]


@pytest.fixture(autouse=True)
def _on_a_wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "120")


def table(output: str, title: str) -> np.ndarray:
    """The numbers under a title, whose rows begin with names of two words."""
    lines = output.split(f"{title}\n")[1].split("\n\n")[0].split("\n")
    return np.array([[float(cell) for cell in line.split()[2:]] for line in lines])


def test_a_long_score_is_cut_without_trying_all_its_products(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    width = text.display_width
    monkeypatch.setattr(text, "display_width", lambda line: measured.append(len(line)) or width(line))
    scores = regard.explain(queries=np.full((1, 3000), 0.5)).step("scores")
    products = " + ".join(["0.5*0.5"] * 9)
    assert scores.endswith(f"query 1 . key 1 = {products} + … = 750")
    assert sum(measured) < 20 * 120**2  # of 3,000 products, no more than a line has columns


def test_words_and_weights_are_explained_as_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    text = ["; ".join(" ".join(map(str, row)) for row in weight) for weight in WEIGHTS]
    flags = [f"--{name}-weight={rows}" for name, rows in zip(("query", "key", "value"), text, strict=True)]
    assert main(["explain", *flags]) == 0
    assert capsys.readouterr().out == f"{regard.explain(WORDS, *WEIGHTS)}\n"


def test_the_numbers_are_those_of_attend() -> None:
    story = regard.explain(WORDS, *WEIGHTS, mask=regard.mask.causal(), normalize="sparsemax")
    expected = regard.attend(
        *(WORDS @ weight for weight in WEIGHTS), mask=regard.mask.causal(), normalize="sparsemax"
    )
    for name in ("scores", "logits", "weights", "context"):
        np.testing.assert_array_equal(getattr(story, name), getattr(expected, name))
    assert repr(story) == "Explanation(4 queries, 4 keys, scaled_dot, sparsemax)"


def test_one_array_attends_to_itself_and_keys_are_their_own_values() -> None:
    queries, keys = np.eye(3), np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(
        regard.explain(queries=queries).context, regard.attend(queries, queries, queries).context
    )
    np.testing.assert_array_equal(
        regard.explain(queries=queries, keys=keys).context, regard.attend(queries, keys, keys).context
    )


def test_the_story_is_its_steps_but_the_logits() -> None:
    story = regard.explain(WORDS, *WEIGHTS, row=2)
    steps = [story.step(name) for name in ("inputs", "scores", "weights", "context", "row")]
    assert str(story) == "\n\n".join(steps)
    assert [story.step(number) for number in (1, 2, 3)] == steps[1:4]
    assert steps[4] == story.step("row", 2) != story.step("row", 1)
    assert "\x1b" not in str(story)
    assert "word 2 . word 1 = 2*2 + 0*2 + 0*2 = 4" in story.step("scores", row=1)


def test_logits_are_printed_with_their_mask() -> None:
    output = regard.explain(queries=np.eye(2), mask=regard.mask.causal(), scale=3).step("logits")
    assert output == (
        "From scores to logits: the numbers that step 2 compares\n\n"
        "logit = score * 3, or minus infinity where the mask hides the key\n"
        '"-": the key is not visible to the query\n\n'
        "         key 1  key 2\nquery 1    3.0      -\nquery 2    0.0    3.0"
    )


# the perceptron

W, U, V, B = [[0.5, -1.0], [0.25, 2.0]], [[1.0], [0.5], [-2.0]], [2.0, -1.5], [0.125, -0.75]
STATES, ANNOTATIONS = [[1.0, 2.0], [0.5, -1.0]], [[0.25, -1.0, 0.5], [1.0, 0.0, 0.125]]


def by_hand(row: int, left: list[list[float]], right: list[list[float]], bias: list[float]) -> np.ndarray:
    """tanh(W s + U h + b) of one state with each annotation, in loops."""

    def project(vector: list[float], matrix: list[list[float]], unit: int) -> float:
        return math.fsum(x * line[unit] for x, line in zip(vector, matrix, strict=True))

    return np.array(
        [
            [
                math.tanh(project(STATES[row], left, unit) + project(key, right, unit) + bias[unit])
                for unit in range(len(bias))
            ]
            for key in ANNOTATIONS
        ]
    )


KEY_WEIGHT = [[1.0, 0.5], [0.5, -0.25], [-2.0, 1.0]]


@pytest.mark.parametrize("row", [0, 1])
@pytest.mark.parametrize(
    ("score", "words", "bias"),
    [
        (regard.scores.additive(W, KEY_WEIGHT, V), "W s + U h", [0.0, 0.0]),
        (regard.scores.additive(W, KEY_WEIGHT, V, B), "W s + U h + b", B),
        (regard.scores.concat([*W, *KEY_WEIGHT], V), "W s + U h", [0.0, 0.0]),
    ],
)
def test_the_numbers_inside_the_perceptron_are_printed(
    monkeypatch: pytest.MonkeyPatch,
    row: int,
    score: regard.scores.additive,
    words: str,
    bias: list[float],
) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # one table below the other
    story = regard.explain(queries=STATES, keys=ANNOTATIONS, score=score, row=row, digits=9)
    output = story.step("scores")
    hidden = by_hand(row, W, KEY_WEIGHT, bias)
    np.testing.assert_allclose(table(output, f"tanh({words})"), hidden, atol=1e-9)
    np.testing.assert_allclose(story.scores[row], hidden @ V, atol=1e-12)
    assert f"score = v . tanh({words}): s is a query" in " ".join(output.split())
    best = int(story.weights[row].argmax())
    line = f"query {row + 1}, key {best + 1}: v . tanh({words}) = "
    *terms, total = " ".join(output.split()).split(line)[1].split(" = ")
    np.testing.assert_allclose(float(total), hidden[best] @ V, atol=1e-9)
    assert "2.000000000*".startswith("".join(terms)[:12])


def test_a_perceptron_without_projections_has_no_weights_to_tell() -> None:
    output = regard.explain(queries=STATES, score=regard.scores.additive(None, None, V)).step("scores")
    assert "score = v . tanh(s + h): s is a query" in output
    assert "\ns of query 1 " in output
    assert "v = vector (2,)" in output
    assert "query_weight" not in output


def test_halves_of_a_concatenation_are_named() -> None:
    output = regard.explain(queries=STATES, score=regard.scores.concat(np.ones((4, 1)), [1.0])).step(1)
    assert "; W and U are the upper and the lower rows of weight" in " ".join(output.split())
    assert "W (2, 1)   U (2, 1)   v (1,)" in output


def test_a_perceptron_of_many_keys_and_units_stays_on_the_screen() -> None:
    rng = np.random.default_rng(0)
    keys, score = (
        rng.normal(size=(300, 40)),
        regard.scores.additive(*(rng.normal(size=(2, 40, 64))), np.ones(64)),
    )
    output = str(regard.explain(queries=keys[:2], keys=keys, score=score))
    assert max(map(len, output.split("\n"))) <= 120
    assert len(output.split("\n")) < 120


# any score, any normalisation


def half_product(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    return queries @ keys.swapaxes(-1, -2) / 2


def half_of(logits: np.ndarray) -> np.ndarray:
    return logits / 2


@in_one_test(
    ("options", "expected"),
    [
        ({"score": "dot"}, "score = the dot product of query and key\n"),
        (
            {"score": regard.scores.cosine(4)},
            "score = the cosine of the angle between query and key, times 4\n",
        ),
        ({"score": regard.scores.cosine()}, "score = the cosine of the angle between query and key\n"),
        (
            {"score": regard.scores.gaussian(0.5)},
            "score = minus half the squared distance of query and key, in widths of 0.5\n",
        ),
        ({"score": regard.scores.general(np.eye(2) * 7)}, "weight (2, 2)\n7  0\n0  7"),
        ({"score": regard.scores.scaled_dot()}, "\nlogit = score / sqrt(2) = score * 0.70711\n"),
        ({"score": half_product}, "score = half_product(query, key), a function of yours\n"),
        ({"bias": np.eye(2)}, "\nlogit = score / sqrt(2) + bias\n"),
        ({"bias": np.eye(2), "softcap": 5}, "\nlogit = 5 * tanh(score / sqrt(2) / 5) + bias\n"),
        (
            {"sink": 0.5},
            "weight = exp(logit) / the row's sum of exp(logit) and exp(0.5), so that each row sums to less than 1"
            " (softmax with a sink)\n",
        ),
        ({"sink": -np.inf}, "so that each row sums to 1 (softmax)\n"),
        (
            {"normalize": regard.weights.local_m(1)},
            ", among the keys at most 1 positions from the query's own (softmax in a window)\n",
        ),
        (
            {"normalize": regard.weights.entmax(1.25)},
            "entmax-1.25 makes each row sum to 1, and the weakest weights exactly 0\n",
        ),
        (
            {"normalize": regard.weights.sigmoid(0.5)},
            "weight = 1 / (1 + exp(-logit - 0.5)), for each key alone\n",
        ),
        (
            {"normalize": regard.weights.relu()},
            "weight = max(logit, 0) / the number of visible keys, for each key alone\n",
        ),
        ({"normalize": half_of}, "weight = half_of(logits), a function of yours\n"),
        ({"normalize": regard.weights.softmax}, "so that each row sums to 1 (softmax)\n"),
        (
            {"normalize": regard.weights.local_p([1.0, 0.5], 2.0)},
            "weight = the row's softmax * a Gaussian around the query's predicted position, so that each row sums to"
            " less than 1\n",
        ),
    ],
)
def test_each_option_is_printed(options: dict[str, object], expected: str) -> None:
    assert expected in f"{regard.explain(queries=np.eye(2), **options)}\n".replace("\n  ", " ")


@pytest.mark.parametrize(
    ("normalize", "said"),
    [
        (
            regard.weights.sigmoid(0.0),
            "query 1 attends to key 2 (0.731), key 1 (0.500), key 3 (0.119), key 4 (0.119)",
        ),
        (regard.weights.relu(), "query 1 attends to key 2 (0.250)"),
        (lambda logits: 2 * np.exp(logits), "query 1 attends to key 2 (5.437), key 1 (2.000)"),
        ("softmax", "query 1 attends to key 2 (68.1 %), key 1 (25.1 %); the other 2 share 6.8 %"),
    ],
)
def test_only_shares_are_said_in_per_cent(normalize: object, said: str) -> None:
    logits = np.array(
        [[0.0], [1.0], [-2.0], [-2.0]]
    )  # exp: 1, 2.718, 0.135 twice; sigmoid: 1/2, 0.731, 0.119
    story = regard.explain(queries=[[1.0]], keys=logits, values=np.eye(4), score="dot", normalize=normalize)
    sentences = story.step("weights")
    assert said in sentences
    assert ("%" in sentences) == (normalize == "softmax")


def test_a_sink_is_printed_with_its_weight() -> None:
    """One key of logit 0 and a sink of logit log 3."""
    output = regard.explain(queries=[[0.0]], sink=math.log(3)).step("row")
    assert output.endswith("the sink takes the rest of the weight: 0.75")


@pytest.mark.parametrize("make", [list, lambda x: np.array(x, "f2"), lambda x: np.array(x, ">f4")])
def test_any_type_is_taken_and_nothing_is_written(make: Callable[[list[list[float]]], object]) -> None:
    queries = make([[1.0, 0.0], [0.0, 1.0]])
    if isinstance(queries, np.ndarray):
        queries.flags.writeable = False
    assert "query 1 . key 1 = 1*1 + 0*0 = 1" in str(regard.explain(queries=queries))


def test_non_finite_numbers_are_printed_without_a_warning() -> None:
    output = str(regard.explain([[np.inf, 1.0]], *[np.eye(2)] * 3))
    assert "word 1: not a number" in output
    score = regard.scores.additive(np.eye(2), np.eye(2), [1.0, 1.0])
    assert "nan" in str(regard.explain(queries=[[np.inf, 1.0]], keys=[[-np.inf, 0.0]], score=score))


def test_attention_without_keys_is_printed() -> None:
    score = regard.scores.additive(np.eye(2), np.eye(2), [1.0, 1.0])
    output = str(regard.explain(queries=np.eye(2), keys=np.zeros((0, 2)), score=score))
    assert "query 2 attends to nothing: its weights and its context are 0" in output


def test_labels_name_both_sides_unless_the_keys_have_their_own() -> None:
    output = str(regard.explain(queries=np.eye(2), labels=["le", "chat"], key_labels=["the", "cat"]))
    assert "le . the = 1*1 + 0*0 = 1" in output
    assert "word 1" not in output
    output = str(regard.explain(WORDS, *WEIGHTS, labels=["a", "b", "c", "a\x1b[2J"]))
    assert "a·[2J attends to c (" in output


# in a notebook


@in_one_test(
    ("options", "formula"),
    [
        ({}, "options"),
        ({"score": regard.scores.additive(np.eye(2), np.eye(2), [1.0, 1.0])}, "options"),
        ({"bias": np.eye(2)}, "given"),
        ({"sink": 0.0}, "given"),
        ({"score": half_product}, "given"),
        ({"normalize": regard.weights.local_m(1)}, "given"),
        ({"normalize": regard.weights.sigmoid()}, "given"),
        ({"normalize": regard.weights.entmax(2)}, "options"),
    ],
)
def test_a_notebook_shows_a_page_that_computes_what_it_can(options: dict[str, object], formula: str) -> None:
    """Where a page could not compute an option again, it has the numbers of the attention itself."""
    names = ["<a>", "b" * 40]
    story = regard.explain(queries=np.eye(2), labels=names, **options)
    shown = story._repr_html_()
    assert shown is not None
    assert shown.startswith("<iframe ")
    [section] = story.in_browser().sections
    assert (section.view, section.data["query_labels"]) == ("mechanism", names)
    assert formula in section.data


def test_a_page_of_words_begins_with_them_and_with_the_row() -> None:
    [section] = regard.explain(WORDS, *WEIGHTS, row=2).in_browser().sections
    assert section.data["words"]["embeddings"] == WORDS.tolist()
    assert section.data["row"] == 2


def test_a_page_of_words_that_cancel_in_low_precision_is_made() -> None:
    """A page computes in float64: 4097^2 - 4096 * 4098 - 1 is 0 there, and in float32 it need not be."""
    words, weight = np.array([[4097, -4096, -1]], "f4"), np.array([[4097], [4098], [1]], "f4")
    [section] = regard.explain(words, weight, weight, weight).in_browser().sections
    assert section.data["queries"] == [[0.0]]


def test_an_attention_without_keys_has_no_page() -> None:
    assert regard.explain(queries=np.eye(2), keys=np.zeros((0, 2)))._repr_html_() is None


# invalid input

EYE = np.eye(2)


@in_one_test(
    ("call", "error"),
    [
        (
            lambda: regard.explain(),
            "TypeError: explain needs words and their weights, or queries.\n"
            "  hint: explain(words, query_weight, key_weight, value_weight), or queries=, keys=, values=",
        ),
        (
            lambda: regard.explain(EYE, EYE, EYE),
            "TypeError: explain takes 4 arrays by position, words, query_weight, key_weight, value_weight. Got 3"
            " instead.\n  hint: queries, keys and values themselves are given by name: queries=, keys=, values=",
        ),
        (
            lambda: regard.explain(EYE, EYE, EYE, EYE, keys=EYE),
            "TypeError: explain takes words and weights or queries, keys and values, not both. Got keys, too.",
        ),
        (
            lambda: regard.explain(EYE, np.ones((3, 2)), EYE, EYE),
            "ValueError: query weight must have 2 rows, one for each number of a word: it is (3, 2)",
        ),
        (
            lambda: regard.explain([1], EYE, EYE, EYE),
            "ValueError: words must be (n, d). Got shape (1,) instead.",
        ),
        (
            lambda: regard.explain(EYE, EYE, "x", EYE),
            "TypeError: key weights must hold real numbers. Got dtype <U1 instead.",
        ),
        (
            lambda: regard.explain(queries=np.zeros((0, 2))),
            "ValueError: there is no query to explain: n is 0",
        ),
        (
            lambda: regard.explain(queries=np.zeros((3000, 1))),
            "ValueError: explain computes at most 4,194,304 weights, here 9,000,000 (3000x3000): give"
            " fewer queries or keys",
        ),
        (
            lambda: regard.explain(queries=EYE, row=True),
            "TypeError: row must be an integer. Got True instead.",
        ),
        (lambda: regard.explain(queries=EYE, row=-1), "ValueError: row must be at least 0. Got -1 instead."),
        (
            lambda: regard.explain(queries=EYE).step("row", 2),
            "ValueError: row must be one of the 2 queries, counted from 0: 2",
        ),
        (
            lambda: regard.explain(queries=EYE).step("score"),
            "ValueError: name must be one of 'inputs', 'scores', 'logits', 'weights', 'context', 'row'. Got 'score'"
            " instead.\n  hint: did you mean 'scores'?",
        ),
        (
            lambda: regard.explain(queries=EYE).step(4),
            "ValueError: name must be one of 'inputs', 'scores', 'logits', 'weights', 'context', 'row'. Got 4"
            " instead.\n"
            "  hint: 1, 2 and 3 are scores, weights and context",
        ),
        (
            lambda: regard.explain(queries=EYE, labels="le chat"),
            "TypeError: labels must be a sequence of strings. Got one string instead.\n  hint: use text.split()",
        ),
        (
            lambda: regard.explain(queries=EYE, keys=np.ones((3, 2)), labels=["le", "chat"]),
            "ValueError: labels must name each key: 2 labels for 3\n  hint: keys have their own names with key_labels=",
        ),
        (
            lambda: regard.explain(queries=EYE, digits=18),
            "ValueError: digits must be at most 17. Got 18 instead.",
        ),
    ],
)
def test_invalid_input_is_reported_with_rule_and_numbers(call: Callable[[], object], error: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert f"{type(caught.value).__name__}: {caught.value}" == error


@pytest.mark.parametrize("size", [1.0, 1e12, 1e300])
@pytest.mark.parametrize("digits", [5, 17])
def test_no_table_is_wider_than_the_screen(size: float, digits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    numbers = size * np.random.default_rng(0).normal(size=(3, 5, 4))
    names = [f"a long name of a key {k}" * 2 for k in range(5)]
    for score in ("scaled_dot", regard.scores.gaussian(size)):
        story = regard.explain(
            queries=numbers[0], keys=numbers[1], values=numbers[2], score=score, labels=names, digits=digits
        )
        for step in ("inputs", "scores", "context", "row"):
            assert max(map(len, story.step(step).split("\n"))) <= 80, (step, score)
        lines = [
            line
            for line in story.step("weights").split("\n")
            if not line.startswith(("logit = ", "weight = "))
        ]
        assert max(map(len, lines)) <= 80
    assert "for which there is room" in story.step("row", 0) or digits == 5


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize(
    "options",
    [
        {"score": regard.scores.additive(np.eye(2), np.eye(2), [1.0, 2.0])},
        {"sink": 0.5},
        {"mask": regard.mask.causal(), "softcap": 2},
    ],
)
def test_sentences_are_as_wide_as_the_screen(
    options: dict[str, object], columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    story = str(regard.explain(*[np.eye(2)] * 4, **options))  # type: ignore[arg-type]
    assert [line for line in story.splitlines() if len(line) > int(columns)] == []
