"""AttentionRegressor and AttentionClassifier, under the conventions of scikit-learn."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import regard_estimators as estimators


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Skipping check")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("AttentionRegressor", {}),
        ("AttentionRegressor", {"degree": 1, "max_iter": 10}),
        ("AttentionClassifier", {}),
        ("AttentionClassifier", {"metric": "full", "max_iter": 10}),
    ],
)
def test_what_scikit_learn_expects(name: str, options: dict[str, Any]) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    done = check_estimator(getattr(estimators, name)(**options))
    assert len(done) > 40
    assert {check["status"] for check in done} <= {"passed", "skipped"}


def wave(n: int = 60) -> tuple[Any, Any]:
    x = np.linspace(0, 6, n)[:, None]
    return x, np.sin(x.ravel())


def two_moons_by_hand(n: int = 80) -> tuple[Any, Any]:
    angle = np.linspace(0, np.pi, n // 2)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    return np.concatenate([upper, [1.0, 0.4] - upper]), np.repeat(["upper", "lower"], n // 2)


def test_a_line_is_better_at_the_border_than_a_mean() -> None:
    x, y = wave()
    errors = [
        abs(estimators.AttentionRegressor(degree=degree).fit(x[:-1], y[:-1]).predict(x[-1:]) - y[-1])
        for degree in (0, 1)
    ]
    assert errors[1] < errors[0] / 3


def test_a_feature_without_influence_gets_a_small_factor() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    model = estimators.AttentionRegressor(alpha=0).fit(x, np.sin(2 * x[:, 0]))
    assert model.parameters_[0] - model.parameters_[1] > 3


def test_a_matrix_finds_the_direction_that_matters() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 3))
    y = np.sin(2 * (x[:, 0] - x[:, 1]))
    one, full = (
        estimators.AttentionRegressor(metric=metric, random_state=0)
        .fit(x[:200], y[:200])
        .score(x[200:], y[200:])
        for metric in ("scalar", "full")
    )
    assert full > one + 0.1


def test_curved_classes() -> None:
    x, y = two_moons_by_hand()
    model = estimators.AttentionClassifier().fit(x[::2], y[::2])
    assert model.score(x[1::2], y[1::2]) > 0.95
    probabilities = model.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert (probabilities > 0).all()


def test_a_prediction_is_the_mean_of_what_explain_shows() -> None:
    x, y = wave()
    model = estimators.AttentionRegressor(degree=0).fit(np.repeat(x, 2, axis=0), np.repeat(y, 2))
    rows, weights = model.explain(x[:7], top=2 * len(x))
    np.testing.assert_allclose(weights.sum(1), 1)
    assert (np.diff(weights, axis=1) <= 0).all()
    np.testing.assert_array_equal(np.sort(rows, axis=1), np.tile(np.arange(2 * len(x)), (7, 1)))
    np.testing.assert_allclose((weights * np.repeat(y, 2)[rows]).sum(1), model.predict(x[:7]), atol=1e-12)


def test_explain_gives_fewer_rows_where_there_are_fewer() -> None:
    model = estimators.AttentionRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
    assert model.explain([[0.2]]).rows.shape == (1, 2)
    with pytest.raises(ValueError, match="top must be at least 1"):
        model.explain([[0.2]], top=0)


def test_rows_of_weight_0_are_never_attended() -> None:
    x, y = wave(20)
    weights = np.ones(20)
    weights[5] = 0
    model = estimators.AttentionRegressor().fit(x, y, sample_weight=weights)
    assert 5 not in model.explain(x, top=20).rows


def test_an_explanation_names_rows_as_the_frame_does() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [0.0, 1.0, 5.0, 6.0]}, index=["a", "b", "c", "d"])
    for model in (estimators.AttentionRegressor(degree=0), estimators.AttentionClassifier()):
        rows, weights = model.fit(frame, [0, 0, 1, 1]).explain(frame[:2], top=2)
        assert {*rows[0]} == {*rows[1]} == {"a", "b"}
        assert frame.loc[rows[0]].shape == (2, 1)
        assert weights.shape == (2, 2)
    assert model.fit(frame.to_numpy(), [0, 0, 1, 1]).explain([[0.0]], top=1).rows.tolist() == [[0]]


def test_class_weights_are_factors_of_sample_weights() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0, 2.5, 4.0])[:, None]
    y = np.array(["a", "a", "a", "a", "b", "b"])
    plain = estimators.AttentionClassifier(max_iter=5)
    weighted = estimators.AttentionClassifier(max_iter=5, class_weight={"a": 1.0, "b": 3.0}).fit(x, y)
    expected = plain.fit(x, y, np.where(y == "b", 3.0, 1.0)).predict_proba(x)
    np.testing.assert_allclose(weighted.predict_proba(x), expected, rtol=1e-12)
    balanced = estimators.AttentionClassifier(max_iter=5, class_weight="balanced").fit(x, y)
    expected = plain.fit(x, y, np.where(y == "b", 2.0, 1.0)).predict_proba(x)
    np.testing.assert_allclose(balanced.predict_proba(x), expected, rtol=1e-12)
    for wrong in ({"a": -1.0}, {"a": np.nan}, "even"):
        with pytest.raises(ValueError, match="class_weight"):
            estimators.AttentionClassifier(class_weight=wrong).fit(x, y)


def test_more_outputs_are_those_of_one_metric() -> None:
    x, y = wave()
    both = np.column_stack([y, 2 * y + 5])
    predicted = estimators.AttentionRegressor().fit(x, both).predict(x[:5] + 0.1)
    np.testing.assert_allclose(predicted[:, 1], 2 * predicted[:, 0] + 5)


@pytest.mark.parametrize(
    ("unit", "zero", "of_target", "its_zero"),
    [(1e6, 7, 1e-3, 2), (1e200, 0, 1e200, 0), (1e-200, 0, 1e-200, 0)],
)
def test_units_of_features_and_targets_do_not_matter(
    unit: float, zero: float, of_target: float, its_zero: float
) -> None:
    x, y = wave()
    model = estimators.AttentionRegressor().fit(x, y)
    scaled = estimators.AttentionRegressor().fit(unit * (x - zero), of_target * y + its_zero)
    np.testing.assert_allclose(
        (scaled.predict(unit * (x + 0.05 - zero)) - its_zero) / of_target, model.predict(x + 0.05), atol=1e-6
    )


def test_a_drawn_batch_is_the_same_for_the_same_seed() -> None:
    x, y = wave(200)
    one, other, third = (
        estimators.AttentionRegressor(batch_size=50, random_state=seed).fit(x, y).parameters_
        for seed in (0, 0, 1)
    )
    assert (one == other).all()
    assert (one != third).any()


def test_pipelines_searches_clones_and_pickles() -> None:
    x, y = wave()
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    search = GridSearchCV(
        make_pipeline(StandardScaler(), estimators.AttentionRegressor()),
        {"attentionregressor__degree": [0, 1]},
        cv=3,
    ).fit(x, y)
    assert search.best_params_ == {"attentionregressor__degree": 1}
    assert clone(search.best_estimator_[-1]).get_params()["degree"] == 1
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(copy.predict(x), search.predict(x))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"metric": "l2"},
            "The 'metric' parameter of AttentionRegressor must be one of 'scalar', 'diagonal', 'full'. "
            "Got 'l2' instead.",
        ),
        ({"degree": 2}, "The 'degree' parameter of AttentionRegressor must be 0, 1 or None. Got 2 instead."),
        (
            {"rank": 1},
            "The 'rank' parameter of AttentionRegressor must be None unless metric is 'full'. Got 1 instead.",
        ),
        ({"max_iter": 0}, "max_iter must be at least 1. Got 0 instead."),
        ({"alpha": -1}, "alpha must be at least 0. Got -1.0 instead."),
        ({"alpha": np.nan}, "alpha must be finite. Got nan instead."),
    ],
)
def test_invalid_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        estimators.AttentionRegressor(**options).fit(*wave())


def test_one_class_and_no_weights() -> None:
    x, _ = wave(4)
    with pytest.raises(ValueError, match=r"needs rows of at least 2 classes. Got 1 class"):
        estimators.AttentionClassifier().fit(x, [1, 1, 1, 1])
    with pytest.raises(ValueError, match=r"needs rows of at least 2 classes. Got 1 class"):
        estimators.AttentionClassifier().fit(x, [1, 1, 1, 0], sample_weight=[1, 1, 1, 0])
    with pytest.raises(ValueError, match=r"at least one (row|non-zero number)"):
        estimators.AttentionRegressor().fit(x, [1, 2, 3, 4], sample_weight=np.zeros(4))


def test_one_row_predicts_itself() -> None:
    assert estimators.AttentionRegressor().fit([[1.0, 2.0]], [3.0]).predict([[0.0, 0.0]]).tolist() == [3.0]


@pytest.fixture(params=["AttentionRegressor", "AttentionClassifier"])
def estimator(request: pytest.FixtureRequest) -> Any:
    """Each estimator's class."""
    return getattr(estimators, request.param)


def test_a_row_of_weight_0_is_a_row_left_out(estimator: Any) -> None:
    x, y = wave(30)
    y = (y > 0).astype(int)
    weights = np.ones(30)
    weights[[3, 7, 29]] = 0
    positive = weights > 0
    weighted, smaller = (
        estimator().fit(x, y, sample_weight=weights),
        estimator().fit(x[positive], y[positive]),
    )
    np.testing.assert_array_equal(weighted.parameters_, smaller.parameters_)
    np.testing.assert_array_equal(weighted.predict(x), smaller.predict(x))


def test_a_class_whose_rows_have_weight_0_is_left_out() -> None:
    x, _ = wave(6)
    model = estimators.AttentionClassifier().fit(x, list("aabbcc"), sample_weight=[1, 1, 0, 0, 2, 1])
    assert model.classes_.tolist() == ["a", "c"]
    assert model.predict(x[2:4]).tolist() == ["a", "c"]
    assert (model.predict_proba(x) > 0).all()


def test_a_row_of_weight_2_is_two_rows(estimator: Any) -> None:
    x, y = wave(30)
    y = (y > 0).astype(int)
    weights = np.where(np.arange(30) % 3 == 0, 2, 1)
    weighted, twice = (
        estimator().fit(x, y, sample_weight=weights),
        estimator().fit(np.repeat(x, weights, 0), np.repeat(y, weights)),
    )
    np.testing.assert_allclose(weighted.parameters_, twice.parameters_)


@pytest.mark.parametrize(("number", "name"), [(np.nan, "NaN"), (-np.inf, "infinity (inf)")])
def test_numbers_that_are_not_finite(estimator: Any, number: float, name: str) -> None:
    x = np.arange(12.0).reshape(6, 2)
    bad = x.copy()
    bad[3, 1] = bad[3, 0] = bad[5, 1] = number
    model = estimator().fit(x, [0, 1] * 3)
    message = (
        f"{estimator.__name__} needs finite numbers: Input X contains {name} in row 3, feature 0, and in 2 of 6 rows "
        "in total.\n  hint: an imputer in a pipeline, such as sklearn.impute.SimpleImputer(), fills in missing values"
    )
    for call in (
        lambda: estimator().fit(bad, [0, 1] * 3),
        lambda: model.predict(bad),
        lambda: model.explain(bad),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()
    with pytest.raises(ValueError, match="Input y contains NaN"):
        estimator().fit(x, [0, 1, np.nan, 0, 1, 0])


@pytest.mark.parametrize(("features", "readout"), [(20, "Linear"), (21, "Constant")])
def test_a_line_by_default_where_features_are_few(features: int, readout: str) -> None:
    x = np.random.default_rng(0).standard_normal((25, features))
    assert type(estimators.AttentionRegressor(max_iter=1).fit(x, x[:, 0])._model.readout).__name__ == readout


def test_a_line_leaves_the_range_of_the_targets_by_half_a_standard_deviation() -> None:
    x = np.linspace(0, 6, 5)[:, None]
    y = 3 * x.ravel() - 1
    model = estimators.AttentionRegressor(degree=1).fit(x, y)
    expected = [y.min() - y.std() / 2, y.max() + y.std() / 2]
    np.testing.assert_allclose(model.predict([[-50.0], [60.0]]), expected, atol=1e-12)


@pytest.mark.parametrize("metric", ["scalar", "diagonal"])
def test_the_widths_are_those_of_a_kernel_regression_in_the_units_of_the_features(metric: str) -> None:
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.standard_normal((30, 2)) * [3.0, 0.01], np.ones(30)])  # the last one is constant
    y = np.sin(x[:, 0])
    model = estimators.AttentionRegressor(metric=metric, degree=0).fit(x, y)
    assert model.widths_.shape == (3,)
    assert np.isinf(model.widths_[2])
    query = np.array([0.5, 0.002, 1.0])
    kernel = np.exp(-(((query - x) / model.widths_) ** 2).sum(axis=1) / 2)
    np.testing.assert_allclose(model.predict(query[None]), kernel @ y / kernel.sum(), rtol=1e-9)


def test_a_matrix_has_no_widths() -> None:
    model = estimators.AttentionRegressor(metric="full").fit(*wave(9))
    with pytest.raises(AttributeError, match="widths_ needs metric"):
        _ = model.widths_


@pytest.mark.slow
def test_memory_grows_with_the_rows_not_with_their_pairs() -> None:
    """20,000 x 20,000 weights would be 3,200 MB."""
    code = """
    import resource, numpy as np
    from regard_estimators import AttentionRegressor
    x = np.random.default_rng(0).standard_normal((20_000, 3))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = AttentionRegressor(max_iter=2, batch_size=500, random_state=0).fit(x, x[:, 0])
    model.predict(x); model.explain(x[:100])
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 150


# ------------------------------------------------------------------------------------------------ missing entries


def masked(array: Any, row: int) -> Any:
    """The array with the last entry of a row masked: the number under the mask stays."""
    mask = np.zeros(np.shape(array), bool)
    mask[(row, -1)[: mask.ndim]] = True
    return np.ma.array(array, mask=mask)


def objects(array: Any) -> Any:
    """The array as one of Python objects, NumPy's masked and NaT among them."""
    found = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        found[place] = array[place]
    return found


@pytest.mark.parametrize("place", ["X", "y", "sample_weight"])
@pytest.mark.parametrize(
    "form", ["masked", "list of masked", "objects", "NaT", "list of NaT", "objects of NaT"]
)
def test_a_missing_entry_is_refused_by_its_argument_and_row(estimator: Any, place: str, form: str) -> None:
    arguments = {"X": np.arange(12.0).reshape(6, 2), "y": np.arange(6) % 2, "sample_weight": np.ones(6)}
    model = estimator().fit(**arguments)
    bad = masked(arguments[place], 4)
    if "NaT" in form:
        bad = bad.astype("M8[s]").filled(np.datetime64("NaT", "s"))
    if "list" in form:
        bad = [list(row) for row in bad] if place == "X" else list(bad)
    elif "objects" in form:
        bad = objects(bad)
    calls = [
        lambda: estimator().fit(**arguments | {place: bad}),
        lambda: model.score(**arguments | {place: bad}),
    ]
    if place == "X":
        calls += [lambda: model.predict(bad), lambda: model.explain(bad)]
        calls += [lambda: model.predict_proba(bad)] * hasattr(model, "predict_proba")
    for call in calls:
        with pytest.raises(ValueError, match=rf"^{place} must not have missing entries\. Got one in row 4\."):
            call()


def test_masked_arrays_without_a_masked_entry_are_arrays(estimator: Any) -> None:
    arguments = {
        "X": np.arange(12.0).reshape(6, 2),
        "y": np.arange(6) % 2,
        "sample_weight": np.arange(1.0, 7.0),
    }
    expected = estimator().fit(**arguments)
    whole = {name: np.ma.array(array, mask=False) for name, array in arguments.items()}
    model = estimator().fit(**whole)
    np.testing.assert_array_equal(model.parameters_, expected.parameters_)
    np.testing.assert_array_equal(model.predict(whole["X"]), expected.predict(arguments["X"]))
    assert model.score(**whole) == expected.score(**arguments)


def test_none_among_targets_is_refused() -> None:
    targets = np.array([0.0, 1.0, None, 3.0], object)
    with pytest.raises(ValueError, match="Input y contains NaN in row 2, output 0"):
        estimators.AttentionRegressor().fit(np.arange(4.0)[:, None], targets)


def test_sparse_targets_are_refused() -> None:
    from scipy.sparse import csr_array

    with pytest.raises(TypeError, match=r"^y must be a dense array\. Got a sparse one instead\."):
        estimators.AttentionRegressor().fit(np.arange(4.0)[:, None], csr_array(np.ones((4, 2))))


@pytest.mark.parametrize("weight", [np.nan, np.inf])
def test_one_weight_for_all_rows_must_be_finite(estimator: Any, weight: float) -> None:
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        estimator().fit([[0.0], [1.0]], [0, 1], sample_weight=weight)


# ------------------------------------------------------------------------------------------- types of parameters


@pytest.mark.parametrize(
    ("name", "values", "rule"),
    [
        ("metric", [np.array(["diagonal"]), None, True, np.nan, b"full"], "must be one of 'scalar'"),
        ("degree", [np.array([0, 1]), True, "1", 1.0, np.nan, 2], "must be 0, 1 or None"),
        *((name, [True, 1.5], "must be an integer") for name in ("max_iter", "batch_size", "rank")),
        *((name, [True, 1j], "must be a number") for name in ("alpha", "tol")),
        (
            "random_state",
            [np.array([1, 2]), "1", 1.0, -1, 2**32, np.random.default_rng(0)],
            "must be None, an integer",
        ),
    ],
)
def test_an_error_about_a_parameter_names_it(name: str, values: list[Any], rule: str) -> None:
    for value in values:
        with pytest.raises((ValueError, TypeError), match=rf"{name}.* {rule}"):
            estimators.AttentionRegressor(**{"metric": "full", name: value}).fit(*wave(6))
