"""The folder of an exported model: it is written elsewhere, compared with the network, and then put in place."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard import _check, _files
from regard.seq2seq.corpus.packing import Row
from regard.seq2seq.decoding.search import longest
from regard.seq2seq.export.comparison import TOLERANCE, Comparison, compare
from regard.seq2seq.export.graph import require_onnx
from regard.seq2seq.export.network import graphs, network_alone
from regard.seq2seq.export.quantized import quantize
from regard.seq2seq.export.rules import rules
from regard.seq2seq.networks.base import Network
from regard.seq2seq.networks.families import describe
from regard.seq2seq.storage.model_file import Model

__all__ = ["FILES", "PAGE", "VIEW", "Exported", "copied", "described", "export"]

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


def described(model: Model[Network], card: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the content of model.json: the network's options, the rules of text of both sides, and a card."""
    least, next_one = longest(np.array([0, 1])).tolist()
    settings = {
        "format": FORMAT,
        "version": VERSION,
        "network": describe(network_alone(model).config),
        "source": rules(model.source_tokenizer),
        "target": rules(model.target),
        "limit": [next_one - least, least],
        "repetitions": model.repetitions,
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
    progress: Progress = lambda _: None,
) -> Exported:
    """Write a model that `check_exportable` accepts into a folder, after its graphs have answered as its network does.

    `model`: the model, whose extras are left out; `folder`: the folder; files of these names in it are replaced;
    `sources`: the sources to compare on; the first that differ become examples; `int8`: whether the weights are
    quantized; `view`: the style and script that draw alignments: with them, the files of a page for browsers are
    written; `card`: what is known about the model, for model.json; `progress`: called with the number of sources that
    were compared since its last call.
    """
    require_onnx()
    side, network = model.source_tokenizer, network_alone(model)
    rows = [side.encode(side.tokenize(source)) for source in sources]
    with tempfile.TemporaryDirectory() as scratch:
        draft = Path(scratch)
        _write(draft, network, described(model, card))
        comparison, answers = _compared(draft, network, sources, rows, progress, model.repetitions)
        final = answers
        if int8:
            for name in _GRAPHS:
                quantize(draft / name)
            with copied("decode", draft) as module:
                decoder = module.Decoder(draft)
                final = [decoder(source).text for source in sources]
        rows_of_text = dict.fromkeys(
            f"{source}\t{answer}" for source, answer in zip(sources, final, strict=True)
        )
        examples = [row for row in rows_of_text if row.count("\t") == 1 and row.splitlines() == [row]]
        lines = "".join(f"{row}\n" for row in examples[:_SHOWN])
        (draft / _EXAMPLES).write_text(lines, "utf-8", newline="\n")
        if view:
            _write_page(draft, view)
        names = (*FILES, *((*PAGE, *VIEW) if view else ()))
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            with _files.replacing(folder / name) as file:
                file.write((draft / name).read_bytes())
    sizes = {name: (folder / name).stat().st_size for name in names}
    return Exported(sizes, comparison, answers, final if int8 else [])


def _write(draft: Path, network: Network, settings: Mapping[str, Any]) -> None:
    """Write all files but the examples; the graphs have the settings as metadata, too."""
    metadata = {key: json.dumps(value, ensure_ascii=False) for key, value in settings.items()}
    for name, graph in graphs(network, metadata).items():
        (draft / f"{name}.onnx").write_bytes(graph.SerializeToString())
    (draft / _SETTINGS).write_text(json.dumps(settings, ensure_ascii=False), "utf-8")
    _copy(_COPIED, draft)


def _write_page(draft: Path, view: tuple[str, str]) -> None:
    _copy(PAGE, draft)
    for name, text in zip(VIEW, view, strict=True):
        (draft / name).write_text(text, "utf-8", newline="\n")


def _copy(names: Sequence[str], draft: Path) -> None:
    """Copy files that are the same for all models."""
    app = resources.files("regard.seq2seq.export").joinpath("app")
    for name in names:
        (draft / name).write_bytes(app.joinpath(name).read_bytes())


def _compared(
    draft: Path,
    network: Network,
    sources: Sequence[str],
    rows: Sequence[Row],
    progress: Progress,
    repetitions: int | None,
) -> tuple[Comparison, list[str]]:
    """Compare the files with the network; raise ValueError where an answer or a log-probability differs."""
    with copied("decode", draft) as module:
        decoder = module.Decoder(draft)
        cut = [decoder.source.encode(decoder.source.tokenize(source)) for source in sources]
        if wrong := [i for i, (own, other) in enumerate(zip(rows, cut, strict=True)) if list(own) != other]:
            _refuse(
                f"{len(wrong)} of {len(rows)} sources are cut otherwise, such as {sources[wrong[0]]!r:.60}"
            )
        comparison = compare(network, decoder, [row for row in rows if row], progress, repetitions)
        if comparison.different:
            _refuse(f"{len(comparison.different)} of {len(rows)} answers differ")
        if not comparison.largest <= TOLERANCE:
            _refuse(f"log-probabilities differ by up to {comparison.largest:.2g}")
        return comparison, [decoder(source).text for source in sources]


def _refuse(difference: str) -> None:
    rule = f"the exported files must answer as the model does, with log-probabilities within {TOLERANCE:g}."
    _check.fail(f"{rule} {difference}: nothing was written.")


@contextmanager
def copied(name: str, folder: Path | None = None) -> Iterator[Any]:
    """Import one of the copied files as its users do: by its name alone, from their folder."""
    own = resources.files("regard.seq2seq.export").joinpath("app")
    names = [Path(file).stem for file in _COPIED]
    before = {module: sys.modules.pop(module) for module in names if module in sys.modules}
    sys.path.insert(0, str(folder or own))
    try:
        yield __import__(name)
    finally:
        sys.path.remove(str(folder or own))
        for module in names:
            sys.modules.pop(module, None)
        sys.modules.update(before)
