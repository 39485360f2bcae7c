"""What verbs that use models share: loading one or several, a place for pictures, links between words."""

from __future__ import annotations

import argparse
import errno
from collections.abc import Sequence
from pathlib import Path

from regard.seq2seq.alignment.links import links, of_words, word_numbers
from regard.seq2seq.data.tokenizers import Tokenizer, unseen
from regard.seq2seq.ensemble import Ensemble
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.storage.model_file import model_file
from regard.seq2seq.translator import Translation, Translator
from regard.show import numbers
from regard.show.canvas import check_writable, require_matplotlib
from regard.show.terminal import note

__all__ = ["Unseen", "add_ensemble", "check_pictures", "found_links", "load_all", "numbers_of_words"]

_NAMED = 5  # symbols in a warning


def add_ensemble(parser: argparse.ArgumentParser) -> None:
    """Describe the models that translate together with the first.

    Parameters
    ----------
    parser
        The verb's parser.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> add_ensemble(parser)
    >>> [path.name for path in parser.parse_args(["--ensemble", "two", "--ensemble", "three"]).ensemble]
    ['two', 'three']
    """
    parser.add_argument(
        "--ensemble",
        action="append",
        type=numbers.place,
        default=[],
        metavar="MODEL",
        help="one more model that works together with the first, of the same pairs and kinds of tokens; may be"
        " repeated",
    )


def load_all(path: Path, ensemble: Sequence[Path]) -> Translator:
    """Load a model, and those that translate together with it.

    Parameters
    ----------
    path : Path
        Its file or folder.
    ensemble : sequence of Path
        The others, if there are any.

    Returns
    -------
    Translator
        One model, or all of them.

    Raises
    ------
    ValueError, OSError
        If one is no model, or can't translate together with the first.

    Examples
    --------
    >>> load_all(Path("no-such-file"), [])
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file'
    """
    if len({model_file(place).resolve() for place in (path, *ensemble)}) <= len(ensemble):
        raise ValueError("the models of an ensemble must be different files")
    models = [Seq2Seq.load(place) for place in (path, *ensemble)]
    for place, model in zip(ensemble, models[1:], strict=True):
        try:
            Ensemble([models[0], model])
        except ValueError as error:
            told = " ".join(map(str.strip, str(error).splitlines()))  # the hint, too, on one line
            raise ValueError(f"{path} and {place}: {told}") from None
    return Ensemble(models) if ensemble else models[0]


class Unseen:
    """Warn, once a run, that a model is given symbols it has never seen: what it makes of them is a guess.

    Examples
    --------
    >>> from regard.seq2seq.data.tokenizers import learn
    >>> letters = learn("characters", ["read"])
    >>> Unseen().check(letters, letters.cut("read"), "line 1")
    """

    def __init__(self) -> None:
        self.warned = False

    def check(self, text: Tokenizer, tokens: Sequence[str], place: str) -> None:
        """Warn if this is the first text with such symbols.

        Parameters
        ----------
        text : Tokenizer
            The side of the model.
        tokens : sequence of str
            What it cut a text into.
        place : str
            Where the text is from; the warning begins with it.
        """
        if self.warned or not (symbols := unseen(text, tokens)):
            return
        self.warned = True
        named = ", ".join(f"{symbol!r:.40}" for symbol in symbols[:_NAMED])
        more = f" and {len(symbols) - _NAMED} more" if len(symbols) > _NAMED else ""
        told = f"warning: {place}: the model has never seen {named}{more}; what it makes of them is a guess"
        known_in_lower_case = any(
            lowered != symbol and not unseen(text, text.cut(lowered))
            for symbol in symbols
            for lowered in [symbol.lower()]
        )
        note(told + "; a model trained with --lower takes capitals for small letters" * known_in_lower_case)


def check_pictures(folder: Path | None) -> None:
    """Make the folder for pictures, if they are wanted and can be drawn.

    Parameters
    ----------
    folder : Path or None
        Where they shall be.

    Raises
    ------
    ImportError
        If Matplotlib is not there.
    OSError
        If there can be no such folder, or no file in it.

    Examples
    --------
    >>> check_pictures(None)
    """
    if folder is not None:
        require_matplotlib()
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(
                errno.ENOTDIR, "pictures go into a folder, and this is none", str(folder)
            )
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)


def found_links(
    model: Translator, translation: Translation, by: str = "words", threshold: float = 0.0
) -> frozenset[tuple[int, int]]:
    """Return the links between a sentence and its translation.

    Parameters
    ----------
    model : Translator
        The model that made it.
    translation : Translation
        With an alignment; without one there are no links.
    by : {"words", "tokens"}
        What is linked: words, which are separated by spaces, or what the model cuts text into.
    threshold : float
        A token that looked nowhere more than that has no link.

    Returns
    -------
    frozenset of (source, target)
        The links.

    Examples
    --------
    >>> import numpy as np
    >>> model = Seq2Seq(epochs=1).fit(["a b"], ["c"])
    >>> looked = Translation("c", ("c",), ("a", "b", "</s>"), 0.0, np.array([[0.1, 0.8, 0.1]]))
    >>> found_links(model, looked)
    frozenset({(1, 0)})
    """
    if translation.alignment is None:
        return frozenset()
    found = links(translation.alignment, threshold=threshold)
    return found if by == "tokens" else of_words(found, *numbers_of_words(model, translation))


def numbers_of_words(model: Translator, translation: Translation) -> tuple[list[int], list[int]]:
    """Return the words that the tokens of a sentence and of its translation are parts of.

    Parameters
    ----------
    model : Translator
        The model that made it.
    translation : Translation
        With its tokens.

    Returns
    -------
    source, target : list of int
        As `regard.seq2seq.alignment.links.word_numbers` gives them.

    Examples
    --------
    >>> model = Seq2Seq(epochs=1).fit(["a b"], ["c"])
    >>> numbers_of_words(model, Translation("c", ("c",), ("a", "b", "</s>"), 0.0, None))
    ([0, 1], [0])
    """
    texts = model.model.source, model.model.target
    sides = translation.source[:-1], translation.tokens
    source, target = (word_numbers(side, text.glue) for side, text in zip(sides, texts, strict=True))
    return source, target
