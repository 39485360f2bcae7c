"""The folder of an exported model: it is written elsewhere, compared with the network, and then put in place."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard import _check, _files
from regard.seq2seq.decoding.restrictions import Restricted, Restrictions
from regard.seq2seq.decoding.search import longest
from regard.seq2seq.export.comparison import SHORT, TOLERANCE, Comparison, compare
from regard.seq2seq.export.conversion import graphs, network_alone
from regard.seq2seq.export.graph import require_onnx
from regard.seq2seq.export.quantized import quantize
from regard.seq2seq.export.rules import rules
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.families import describe
from regard.seq2seq.storage.model_file import Model

__all__ = ["FILES", "PAGE", "VIEW", "Draft", "Exported", "copied", "described", "drafted", "export"]

FORMAT, VERSION = "regard.onnx", 1
_GRAPHS, _SETTINGS, _EXAMPLES = ("encoder.onnx", "step.onnx"), "model.json", "examples.tsv"
_COPIED = ("decode.py", "text.py")
FILES = (*_GRAPHS, _SETTINGS, *_COPIED, _EXAMPLES)
PAGE = (
    "index.html",
    "page.css",
    "page.js",
    "decode.js",
    "text.js",
)  # of the browser, next to those of the view
VIEW = ("view.css", "view.js")
_SHOWN = 10  # examples

Progress = Callable[[int], object]


class Exported(NamedTuple):
    """The result of an export.

    `sizes`: the bytes of each file; `comparison`: of the float32 graphs with the network; `answers`: the greedy
    answer of the float32 graphs to each source; `quantized`: that of the graphs with int8; empty without them.
    """

    sizes: dict[str, int]
    comparison: Comparison
    answers: list[str]
    quantized: list[str]


def described(
    model: Model[Network], card: Mapping[str, Any] | None = None, *, int8: bool = False
) -> dict[str, Any]:
    """Return the content of model.json: the network and its options, the rules of text of both sides, and a card."""
    least, next_one = longest(np.array([0, 1])).tolist()
    network = network_alone(model)
    settings = {
        "format": FORMAT,
        "version": VERSION,
        "network": describe(network.config),
        "parameters": hashlib.sha256(network.parameters.flat.astype("<f4").tobytes()).hexdigest(),
        "int8": int8,
        "source": rules(model.source_tokenizer),
        "target": rules(model.target),
        "limit": [next_one - least, least],
        "repetitions": model.repetitions,
        "copies": model.alike,
        "left_out": list(model.extras),
    }
    if model.calibration and not model.extras:  # it is of the probabilities of the whole model
        settings["calibration"] = model.calibration._asdict()
    return settings | ({"card": dict(card)} if card else {})


def export(
    model: Model[Network],
    folder: Path,
    sources: Sequence[str],
    *,
    int8: bool = False,
    view: tuple[str, str] | None = None,
    card: Mapping[str, Any] | None = None,
) -> Exported:
    """Write a model that `check_exportable` accepts into a folder, after its graphs have answered as its network does.

    `folder`: files of these names in it are replaced; the others are arguments of `drafted` and `Draft.place`.
    """
    with drafted(model, sources, int8=int8, card=card) as draft:
        return Exported(draft.place(folder, view), draft.comparison, draft.answers, draft.quantized)


@contextmanager
def drafted(
    model: Model[Network],
    sources: Sequence[str],
    *,
    int8: bool = False,
    card: Mapping[str, Any] | None = None,
    progress: Progress = lambda _: None,
) -> Iterator[Draft]:
    """Yield the draft of a model that `check_exportable` accepts, which answers as the network does.

    `model`: the model, whose extras are left out; `sources`: the sources to compare on; the first that differ become
    examples; `int8`: whether the weights are quantized; `card`: what is known about the model; `progress`: called with
    the number of sources that were compared since its last call.
    """
    require_onnx()
    with _files.scratch() as folder:
        draft = Draft(folder, model, sources, described(model, card, int8=int8))
        draft.compare(model, progress)
        if int8:
            draft.quantize()
        yield draft


class Draft:
    """The files of an exported model in a folder of their own, before they are put in place.

    `comparison`: of the float32 graphs with the network; `answers`: the greedy answer of the float32 graphs to each
    source; `quantized`: that of the graphs with int8; empty without them.
    """

    comparison: Comparison

    def __init__(
        self, folder: Path, model: Model[Network], sources: Sequence[str], settings: dict[str, Any]
    ) -> None:
        self.folder, self.sources, self.settings = folder, sources, settings
        self.answers, self.quantized = list[str](), list[str]()
        for name, graph in graphs(network_alone(model), _metadata(settings)).items():
            (folder / f"{name}.onnx").write_bytes(graph.SerializeToString())
        self._write_settings()
        _copy(_COPIED, folder)

    def _write_settings(self) -> None:
        (self.folder / _SETTINGS).write_text(json.dumps(self.settings, ensure_ascii=False), "utf-8")

    def compare(self, model: Model[Network], progress: Progress) -> None:
        """Compare the files with the network; raise ValueError where an answer or a log-probability differs."""
        side = model.source_tokenizer
        rows = [side.encode(side.tokenize(source)) for source in self.sources]
        with self.decoder() as decoder:
            cut = [decoder.source.encode(decoder.source.tokenize(source)) for source in self.sources]
            if wrong := [i for i, pair in enumerate(zip(rows, cut, strict=True)) if list(pair[0]) != pair[1]]:
                cases = f"{len(wrong)} of {len(rows)} sources"
                _refuse(f"{cases} are cut otherwise, such as {self.sources[wrong[0]]!r:.60}")
            compared = [row for row in rows if row]
            restrictions = Restrictions(model.repetitions, as_source=model.alike, copies=model.alike)
            restricted = Restricted(network_alone(model), restrictions)
            self.comparison = compare(restricted, decoder, compared, progress)
            if self.comparison.different:
                _refuse(f"{len(self.comparison.different)} of {len(rows)} answers differ")
            if not self.comparison.excess <= 1:
                _refuse(f"log-probabilities differ by up to {self.comparison.largest:.2g}")
            self.answers = [decoder(source).text for source in self.sources]

    @contextmanager
    def decoder(self) -> Iterator[Any]:
        """Yield a `Decoder` of the files, by their own decode.py."""
        with copied("decode", self.folder) as module:
            yield module.Decoder(self.folder)

    def translated(self, sources: Sequence[str], beam: int = 1) -> list[str]:
        """Return the answers of the files."""
        with self.decoder() as decoder:
            return [decoder(source, beam).text for source in sources]

    def quantize(self) -> None:
        """Quantize the weights of both graphs."""
        for name in _GRAPHS:
            quantize(self.folder / name)
        self.quantized = self.translated(self.sources)

    def add_to_card(self, **values: Any) -> None:
        """Write further values of the card into all files that have it."""
        import onnx

        self.settings["card"] = {**self.settings.get("card", {}), **values}
        self._write_settings()
        for name in _GRAPHS:
            graph = onnx.load(self.folder / name)
            onnx.helper.set_model_props(graph, _metadata(self.settings))
            (self.folder / name).write_bytes(graph.SerializeToString())

    def place(self, folder: Path, view: tuple[str, str] | None = None) -> dict[str, int]:
        """Put all files into a folder, with the examples; return their sizes.

        `view`: the style and script that draw alignments: with them, the files of a page for browsers are written.
        """
        (self.folder / _EXAMPLES).write_text(self._examples(), "utf-8", newline="\n")
        if view:
            _copy(PAGE, self.folder)
            for name, text in zip(VIEW, view, strict=True):
                (self.folder / name).write_text(text, "utf-8", newline="\n")
        names = (*FILES, *((*PAGE, *VIEW) if view else ()))
        contents = {folder / name: (self.folder / name).read_bytes() for name in names}
        folder.mkdir(parents=True, exist_ok=True)
        with _files.locked(folder / _SETTINGS) as acquired:
            if not acquired:
                _check.fail(f"another process is writing to {folder}: nothing was written")
            for path in contents:
                _files.remove_partial(path)  # of killed processes
            _files.replace_together(contents)
        return {path.name: len(data) for path, data in contents.items()}

    def _examples(self) -> str:
        """Return the lines of examples: the first sources with the answers of the files."""
        pairs = zip(self.sources, self.quantized or self.answers, strict=True)
        rows = dict.fromkeys(f"{source}\t{answer}" for source, answer in pairs)
        examples = [row for row in rows if row.count("\t") == 1 and row.splitlines() == [row]]
        return "".join(f"{row}\n" for row in examples[:_SHOWN])


def _metadata(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings as both graphs have them."""
    return {key: json.dumps(value, ensure_ascii=False) for key, value in settings.items()}


def _copy(names: Sequence[str], draft: Path) -> None:
    """Copy files that are the same for all models."""
    app = resources.files("regard.seq2seq.export").joinpath("app")
    for name in names:
        (draft / name).write_bytes(app.joinpath(name).read_bytes())


def _refuse(difference: str) -> None:
    rule = (
        f"the exported files must answer as the model does, with log-probabilities within {TOLERANCE:g}"
        f" (of more than {SHORT} tokens, in proportion)."
    )
    _check.fail(f"{rule} {difference}: nothing was written.")


@contextmanager
def copied(name: str, folder: Path | None = None) -> Iterator[Any]:
    """Import one of the copied files as its users do: by its name alone, from their folder."""
    app = resources.files("regard.seq2seq.export").joinpath("app")
    names = [Path(file).stem for file in _COPIED]
    before = {module: sys.modules.pop(module) for module in names if module in sys.modules}
    sys.path.insert(0, str(folder or app))
    try:
        yield __import__(name)
    finally:
        sys.path.remove(str(folder or app))
        for module in names:
            sys.modules.pop(module, None)
        sys.modules.update(before)
