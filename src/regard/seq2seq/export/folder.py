"""The folder of an exported model: it is written elsewhere, compared with the network, and then put in place."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from regard import _check, _files
from regard.seq2seq.corpus.batching import source_batch
from regard.seq2seq.decoding.restrictions import Restricted, Restrictions
from regard.seq2seq.decoding.search import longest
from regard.seq2seq.export.comparison import SHORT, TOLERANCE, Comparison, compare
from regard.seq2seq.export.conversion import graphs, network_alone
from regard.seq2seq.export.quantized import quantize
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.families import describe
from regard.seq2seq.networks.graph import require_onnx
from regard.seq2seq.sources import Example
from regard.seq2seq.sources.text.rules import rules
from regard.seq2seq.storage.model_file import Model

__all__ = [
    "FILES",
    "OF_ARRAYS",
    "PAGE",
    "VIEW",
    "Draft",
    "copied",
    "described",
    "drafted",
    "export",
]

FORMAT, VERSION = "regard.onnx", 1
_GRAPHS, _SETTINGS, _EXAMPLES = ("encoder.onnx", "step.onnx"), "model.json", "examples.tsv"
_COPIED = ("decode.py", "text.py")
FILES = (*_GRAPHS, _SETTINGS, *_COPIED, _EXAMPLES)
_READER, _ARRAYS = OF_ARRAYS = ("arrays.py", "examples.npz")  # further files of a model that reads no text
PAGE = ("index.html", "page.css", "page.js", "form.js", "decode.js", "text.js")  # of the browser
VIEW = ("view.css", "view.js")  # next to them: the style and script that draw alignments
_IN_GRAPHS = ("format", "version", "parameters")  # of the settings
_SHOWN = 10  # examples

Progress = Callable[[int], object]


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
        "source": model.source.rules(),
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
    sources: Sequence[Any],
    *,
    int8: bool = False,
    card: Mapping[str, Any] | None = None,
) -> Draft:
    """Write a model that `check_exportable` accepts into a folder, after its graphs have answered as its network does.

    `folder`: files of these names in it are replaced; the others are arguments of `drafted`.
    """
    with drafted(model, sources, int8=int8, card=card) as draft:
        draft.place(folder)
        return draft


@contextmanager
def drafted(
    model: Model[Network],
    sources: Sequence[Any],
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
    source; `quantized`: that of the graphs with int8, empty without them; `sizes`: the bytes of each file in its place.
    """

    comparison: Comparison
    sizes: dict[str, int]

    def __init__(
        self, folder: Path, model: Model[Network], sources: Sequence[Any], settings: dict[str, Any]
    ) -> None:
        self.folder, self.source, self.settings = folder, model.source, settings
        self.examples = [model.source.load(source, f"source {i}: ") for i, source in enumerate(sources, 1)]
        self.answers, self.quantized = list[str](), list[str]()
        self.further = list[str]()  # names
        metadata = {name: str(settings[name]) for name in _IN_GRAPHS}
        for name, graph in graphs(network_alone(model), metadata).items():
            (folder / f"{name}.onnx").write_bytes(graph.SerializeToString())
        self._write_settings()
        _copy((*_COPIED, _READER) if self.source.reads_files else _COPIED, folder)

    def _write_settings(self) -> None:
        (self.folder / _SETTINGS).write_text(json.dumps(self.settings, ensure_ascii=False), "utf-8")

    def compare(self, model: Model[Network], progress: Progress) -> None:
        """Compare the files with the network; raise ValueError where an answer or a log-probability differs."""
        rows = [model.source.rows(example) for example in self.examples]
        with self.decoder() as decoder:
            self._check_read(decoder, rows)
            compared = [row for row, example in zip(rows, self.examples, strict=True) if len(example)]
            restrictions = Restrictions(model.repetitions, as_source=model.alike, copies=model.alike)
            restricted = Restricted(network_alone(model), restrictions)
            self.comparison = compare(restricted, decoder, compared, progress)
            if self.comparison.different:
                _refuse(f"{len(self.comparison.different)} of {len(rows)} answers differ")
            if not self.comparison.excess <= 1:
                _refuse(f"log-probabilities differ by up to {self.comparison.largest:.2g}")
        self.answers = self.translated(self.examples)

    def _check_read(self, decoder: Any, rows: Sequence[Any]) -> None:
        """Raise where the decoder reads a source otherwise than the model does."""
        wrong = []
        for example, row in zip(self.examples, rows, strict=True):
            read = decoder.source.encode(decoder.source.tokenize(self._given(example)))
            if not np.array_equal(source_batch([row])[0][:, 0], [*read, *decoder.ends]):
                wrong.append(example.name or f"an array {example.content.shape}")
        if wrong:
            _refuse(f"{len(wrong)} of {len(rows)} sources are read otherwise, such as {wrong[0]!r:.60}")

    def _given(self, example: Example) -> Any:
        """Return what the decoder is given: a text or a path; for other files the array, as it can't read them."""
        named = not self.source.reads_files or (example.name and self.source.exports_files)
        return example.name if named else self._array(example)

    def _array(self, example: Example) -> Any:
        picture = self.source.picture(example)
        return example.content if picture is None else picture

    @contextmanager
    def decoder(self) -> Iterator[Any]:
        """Yield a `Decoder` of the files, by their own decode.py."""
        with copied("decode", self.folder) as module:
            yield module.Decoder(self.folder)

    def translated(self, sources: Sequence[Any], beam: int = 1) -> list[str]:
        """Return the answers of the files."""
        examples = map(self.source.load, sources)
        with self.decoder() as decoder:
            return [decoder(self._given(example), beam).text for example in examples]

    def quantize(self) -> None:
        """Quantize the weights of both graphs."""
        for name in _GRAPHS:
            quantize(self.folder / name)
        self.quantized = self.translated(self.examples)

    def add_to_card(self, **values: Any) -> None:
        """Write further values of the card into model.json."""
        self.add_settings(card={**self.settings.get("card", {}), **values})

    def add(self, name: str, data: bytes) -> None:
        """Add another file, or replace one that was added."""
        (self.folder / name).write_bytes(data)
        self.further.append(name)

    def add_page(self, *view: str) -> None:
        """Add the files of a page for browsers; `view`: the style and script that draw alignments."""
        app = resources.files("regard.seq2seq.export").joinpath("app")
        for name in PAGE:
            self.add(name, app.joinpath(name).read_bytes())
        for name, text in zip(VIEW, view, strict=True):
            self.add(name, text.encode())

    def add_settings(self, **values: Any) -> None:
        """Write further values into model.json."""
        self.settings |= values
        self._write_settings()

    def place(self, folder: Path, examples: Sequence[str] = ()) -> None:
        """Put all files into a folder; `examples`: of texts, those that examples.tsv begins with."""
        self._write_examples(examples)
        names = dict.fromkeys([*FILES, *(OF_ARRAYS if self.source.reads_files else ()), *self.further])
        contents = {folder / name: (self.folder / name).read_bytes() for name in names}
        folder.mkdir(parents=True, exist_ok=True)
        with _files.locked(folder / _SETTINGS) as acquired:
            if not acquired:
                _check.fail(f"another process is writing to {folder}: nothing was written")
            for path in contents:
                _files.remove_partial(path)  # of killed processes
            _files.replace_together(contents)
        self.sizes = {path.name: len(data) for path, data in contents.items()}

    def _write_examples(self, first: Sequence[str] = ()) -> None:
        """Write ten sources with the answers of the files; where they are no text, also their arrays."""
        sources = [example.name for example in self.examples]
        if self.source.reads_files:
            arrays = {str(i): self._array(example) for i, example in enumerate(self.examples[:_SHOWN], 1)}
            np.savez(self.folder / _ARRAYS, **arrays)
            sources = [f"{_ARRAYS}:{name}" for name in arrays]
        pairs = [*zip(sources, self.quantized or self.answers, strict=False)]
        pairs.sort(key=lambda pair: first.index(pair[0]) if pair[0] in first else len(first))
        rows = dict.fromkeys(f"{source}\t{answer}" for source, answer in pairs)
        examples = [row for row in rows if row.count("\t") == 1 and row.splitlines() == [row]]
        text = "".join(f"{row}\n" for row in examples[:_SHOWN])
        (self.folder / _EXAMPLES).write_text(text, "utf-8", newline="\n")


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
    names = {name, *(Path(file).stem for file in (*_COPIED, _READER))}
    before = {module: sys.modules.pop(module) for module in names if module in sys.modules}
    sys.path.insert(0, str(folder or app))
    try:
        yield __import__(name)
    finally:
        sys.path.remove(str(folder or app))
        for module in names:
            sys.modules.pop(module, None)
        sys.modules.update(before)
