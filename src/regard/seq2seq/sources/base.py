"""The interface of sources, which read the inputs of a model, and the properties that a network depends on."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, NamedTuple, Self, TypeGuard

from numpy.typing import NDArray

from regard import _check
from regard.seq2seq.sources.arrays import scaled
from regard.seq2seq.sources.example import Example
from regard.seq2seq.sources.text.tokenizers import Tokenizer

__all__ = ["Option", "Source", "Spec", "is_path"]

Array = NDArray[Any]


class Spec(NamedTuple):
    """The properties of a source that a network depends on.

    `tokens`: the size of the vocabulary; 0 for rows of numbers; `width`: the numbers of a row; 0 for tokens;
    `ordered`: whether the order of the rows has a meaning; `image`: of images, whose rows are square cells: height,
    width, channels, and the side of a cell.
    """

    tokens: int = 0
    width: int = 0
    ordered: bool = True
    image: tuple[int, int, int, int] | None = None

    @property
    def grid(self) -> tuple[int, int] | None:
        """The rows and columns of cells of an image."""
        if self.image is None:
            return None
        height, width, _, side = self.image
        return height // side, width // side


class Option(NamedTuple):
    """An option of ``regard train`` for a source.

    `description`: for the help; `values`: the name of each value: of one, or of several such as a height and a width;
    `default`: none if the option must be given. Its values are then arguments of the source by position; others by
    name.
    """

    description: str
    values: tuple[str, ...] = ("N",)
    default: Any = None


class Source(ABC):
    """The source of a model: it reads, checks, numbers and describes examples.

    A subclass is a frozen dataclass, whose fields are its settings. For rows of numbers it has at least a `kind`, a
    `spec` and `read`.
    """

    unit: ClassVar[str] = "examples"  #: of progress; empty where tokens of the target are counted
    options: ClassVar[Mapping[str, Option]] = {}  #: of ``regard train``, by name
    task: ClassVar[str] = "captions"  #: of ``regard train``, where ``--task`` does not name another
    reads_files: ClassVar[bool] = (
        True  #: whether files of pairs have names of files, relative to their folder
    )
    accepts: ClassVar[frozenset[str]] = (
        frozenset()
    )  #: options that only tokens have: extras, links, lower, subwords
    limited_sides: ClassVar[str] = "in the target"  #: where a limit of tokens applies
    exports_files: ClassVar[bool] = False  #: whether the copied reader of an exported model reads its files

    @property
    @abstractmethod
    def kind(self) -> str:
        """The name in `SOURCES`, in model files and for ``--source``."""

    @property
    @abstractmethod
    def spec(self) -> Spec:
        """The properties that a network depends on."""

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of a text; ValueError for rows of numbers, which can't be copied, linked or lowercased."""
        _check.fail(f"the sources of this model are {self.kind}, not text")

    @property
    def layout(self) -> Hashable:
        """A key of how examples are read: sources with equal keys read them alike."""
        return self

    @abstractmethod
    def read(self, given: Any) -> Any:
        """Check an input of the user's, and return its tokens, or at least one row (m, F)."""

    def load(self, given: Any, where: str = "") -> Example:
        """Return an input of the user's as an example; an example with the same `layout` is returned as it is."""
        if isinstance(given, Example):
            if given.layout == self.layout:
                return given
            if not given.name:
                _check.fail(
                    f"{where}an example of another source can be read by its name only. It has none.",
                    kind=TypeError,
                )
            given = given.name
        with _check.located(where):
            return self._example(given, os.fspath(given) if is_path(given) else "")

    def _example(self, given: Any, name: str) -> Example:
        return Example(self.read(given), self.layout, name)

    def fitted(self, examples: Iterable[Example]) -> Self:
        """Return the source for examples like these, with a vocabulary or a standardisation learned from them."""
        return self

    def beside(self, target: Source) -> Self:
        """Return the source as it is learned beside this learned target, whose count of rare words it may share."""
        return self

    def rows(self, example: Example) -> Any:
        """Return an example as a network reads it: ids with END, or rows (m, F) of float32, or of uint8 as 0 to 1."""
        return example.content

    def is_short(self, example: Example, longest: int) -> bool:
        """Return whether an example has between 1 and so many tokens; rows of numbers have no limit."""
        return True

    def unknown(self, example: Example) -> tuple[str, ...]:
        """Return the symbols of an example that the vocabulary does not have, where they matter; none of rows."""
        return ()

    def erasable(self, rows: Any) -> tuple[Array, dict[str, Any]]:
        """Return rows as an array, and what an erased one may become, by name: the default first, None for nothing."""
        numbers = scaled(rows)
        replacements: dict[str, Any] = {"mean": numbers.mean(axis=0)}
        if self.spec.grid is None and len(numbers) > 1:  # something must be left
            replacements["deletion"] = None
        return numbers, replacements

    def names(self, example: Example) -> tuple[str, ...]:
        """Return the names of the columns of an alignment: by default the numbers of the rows, from 1."""
        return tuple(map(str, range(1, len(example) + 1)))

    def reread(self, names: Sequence[str], given: Any) -> Any:
        """Return what `load` reads again: the example of these `names`, or, of an array, what the user gives."""
        if given is None:
            _check.fail("source must be given for a source of arrays, which a translation doesn't hold.")
        return given

    def model_options(self) -> dict[str, Any]:
        """Return the options of `regard.seq2seq.Seq2Seq` that make this source."""
        return {"source": self, "lower": None}

    def picture(self, example: Example) -> Array | None:
        """Return an example as an image (height, width, channels); None if it is none."""
        return None

    def out_of_range(self, example: Example) -> tuple[str, ...]:
        """Return the measures of an example far outside those of the examples that this source was fitted to."""
        return ()

    def settings(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the settings as JSON values, with "kind", and learned data as bytes by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind, **values}, {}

    def rules(self) -> dict[str, Any]:
        """Return what an exported model must know to read sources, as JSON values."""
        return self.settings()[0]

    @classmethod
    def restore(
        cls, settings: Mapping[str, Any], data: Mapping[str, bytes], tokens: int | None = None
    ) -> Self:
        """Restore a source from the result of `settings`, which may be untrusted, if it has so many tokens."""
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        if data:
            _check.fail(f"a source of arrays has no data. Got {next(iter(data))!r:.60} instead.")
        _check.keys(f"the settings of {settings['kind']}", settings, ["kind", *names])
        return cls(**{name: settings[name] for name in names})


def is_path(given: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether an input of the user's is a path: a string, or an object such as pathlib's."""
    return isinstance(given, str) or (isinstance(given, os.PathLike) and isinstance(os.fspath(given), str))
