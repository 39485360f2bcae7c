"""Functions shared by several verbs: loading models, folders for pictures, links between words."""

from __future__ import annotations

import argparse
import errno
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard import _check, _files
from regard._characters import lowered
from regard.commands import argument_types
from regard.commands.read_lines import Failures, SkippedInput
from regard.seq2seq.alignment.links import links, of_words, word_numbers
from regard.seq2seq.ensemble import Ensemble, EnsembleNetwork
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.networks.transformer.network import TransformerNetwork
from regard.seq2seq.sources import Example, Source
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import Translation, Translator
from regard.show.figures.figure import check_writable, require_matplotlib

__all__ = [
    "Unseen",
    "add_by",
    "add_ensemble",
    "add_lines",
    "add_model",
    "add_unknown",
    "check_posterior",
    "linked_unit",
    "listed",
    "load_all",
    "make_picture_folder",
    "word_indices",
    "word_links",
]

_MOST_SYMBOLS = 5  # in a warning
_UNKNOWN = ("guess", "skip", "fail")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the argument ``MODEL`` to a verb."""
    text = "a model file from regard train, or its folder"
    parser.add_argument("model", type=argument_types.path, metavar="MODEL", help=text)


def add_lines(parser: argparse.ArgumentParser, unit: str) -> None:
    """Add the argument ``FILE``, which has one such unit a line, to a verb."""
    text = f"one {unit} a line; by default standard input"
    parser.add_argument("file", nargs="?", type=argument_types.path, metavar="FILE", help=text)
    argument_types.add_encoding(parser)


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    """Add ``--ensemble`` to a verb."""
    parser.add_argument(
        "--ensemble",
        action="append",
        type=argument_types.path,
        default=[],
        metavar="MODEL",
        help="another model of the same types of tokens; predictions are averaged; may be repeated",
    )


def load_all(path: Path, ensemble: Sequence[Path], *, arrays: bool | None = False) -> Translator:
    """Load a model or an ensemble from files or folders; its source must be text, `arrays`, or either (None)."""
    if len({_files.real(model_file(file)) for file in (path, *ensemble)}) <= len(ensemble):
        _check.fail("the models of an ensemble must be different files")
    models = [Seq2Seq.load(file) for file in (path, *ensemble)]
    source = models[0].model.source
    if arrays is not None and source.reads_files is not arrays:
        source_type = source.kind if source.reads_files else "text"
        verb = "translate" if arrays else "caption"
        _check.fail(f"{path} is a model of {source_type}.", hint=f"regard {verb} uses it")
    for other, model in zip(ensemble, models[1:], strict=True):
        try:
            Ensemble([models[0], model])
        except ValueError as error:
            _check.fail(f"{path} and {other}: {error}")
    return Ensemble(models) if ensemble else models[0]


def add_unknown(parser: argparse.ArgumentParser) -> None:
    """Add ``--unknown`` to a verb."""
    parser.add_argument(
        "--unknown",
        choices=_UNKNOWN,
        help="inputs with symbols that the model does not know: guess: a warning (default), and if it is given, a"
        " last column with these symbols; skip: left empty; fail: an error, after which the others go on",
    )


class Unseen:
    """What becomes of inputs with symbols that the model does not know: a warning, an empty answer, or an error."""

    def __init__(self, failures: Failures, unknown: str | None) -> None:
        self.failures, self.unknown = failures, unknown or "guess"

    def check(self, sides: Iterable[tuple[Source, Example]], location: str) -> tuple[str, ...]:
        """Return the unknown symbols of an input, with a warning; raise if it is not to be used."""
        found = [(source, symbol) for source, example in sides for symbol in source.unknown(example)]
        symbols = tuple(dict.fromkeys(symbol for _, symbol in found))
        if not symbols:
            return ()
        text = f"the model does not know {listed(symbols)}"
        if self.unknown == "fail":
            _check.fail(text)
        if self.unknown == "skip":
            self._warn(location, symbols, "left empty")
            raise SkippedInput(text)
        known_in_lower_case = any(
            small != symbol and not source.unknown(source.load(small))
            for source, symbol in found
            for small in [lowered(symbol)]
        )
        hint = "; a model trained with --lower does not distinguish capitals" * known_in_lower_case
        self._warn(location, symbols, f"their translation is a guess{hint}")
        return symbols

    def _warn(self, location: str, symbols: Sequence[str], result: str) -> None:
        """Warn of the unknown symbols of an input, and state what becomes of it."""
        self.failures.warn(f"{location}: the model does not know {listed(symbols)}; {result}")


def listed(symbols: Sequence[str]) -> str:
    """Return the first symbols, and how many there are more."""
    more = f" and {len(symbols) - _MOST_SYMBOLS} more" if len(symbols) > _MOST_SYMBOLS else ""
    return ", ".join(f"{symbol!r:.40}" for symbol in symbols[:_MOST_SYMBOLS]) + more


def make_picture_folder(folder: Path | None) -> None:
    """Create a folder for pictures, and check that pictures can be drawn and written there."""
    if folder is not None:
        require_matplotlib()
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(
                errno.ENOTDIR, "pictures need a folder, and this is not a folder", str(folder)
            )
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)


def add_by(parser: argparse.ArgumentParser, what: str) -> None:
    """Add ``--by`` to a verb."""
    text = f"{what} (default words; tokens where those of a side are characters)"
    parser.add_argument("--by", choices=("words", "tokens"), help=text)


def linked_unit(by: str | None, model: Translator) -> str:
    """Return what links are between, if it is not given: words, or tokens where those of a side are characters."""
    sides = model.model.source.kind, model.model.target.token_type
    return by or ("tokens" if "characters" in sides else "words")


def check_posterior(args: argparse.Namespace, models: Iterable[Translator]) -> None:
    """Check that ``--posterior`` is not given for a transformer."""
    if args.posterior and not all(map(has_posterior, models)):
        rule = "--posterior needs recurrent models: a transformer attends several times for a token."
        _check.fail(f"{rule} Got a transformer instead.")


def has_posterior(model: Translator) -> bool:
    """Return whether a model has posterior attention: no transformer, nor an ensemble with one."""
    network = model.network
    members = network.networks if isinstance(network, EnsembleNetwork) else (network,)
    return not any(isinstance(member, TransformerNetwork) for member in members)


def word_links(
    model: Translator, translation: Translation, by: str = "words", threshold: float = 0.0
) -> frozenset[tuple[int, int]]:
    """Return the links between a sentence and its translation, whose attention is above the threshold."""
    if translation.alignment is None or not translation.tokens:
        return frozenset()
    token_links = links(translation.alignment, threshold=threshold)
    return token_links if by == "tokens" else of_words(token_links, *word_indices(model, translation))


def word_indices(model: Translator, translation: Translation) -> tuple[list[int], list[int]]:
    """Return for each token of a sentence and of its translation the index of its word."""
    tokenizers = model.model.source.tokenizer, model.model.target
    sides = translation.source[:-1], translation.tokens
    source, target = (word_numbers(side, t.detokenize) for side, t in zip(sides, tokenizers, strict=True))
    return source, target
