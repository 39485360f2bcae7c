"""One page of a browser for the output of a verb: alignments, and the heads of a transformer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from regard import _check
from regard.commands.loading import listed, load_all
from regard.commands.options import check_outputs
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.sources import Example
from regard.seq2seq.translator import Translation, Translator, read_source
from regard.show.page import HtmlPage
from regard.show.page.alignment import alignment, beside_weights, of_read, sentence
from regard.show.page.document import check_new
from regard.show.page.heads import of_model
from regard.show.page.mechanism import of_decoder
from regard.show.page.models import translation
from regard.show.page.section import LONGEST_TEXT, Section, readable
from regard.show.progress import Progress
from regard.show.steps import PageText

__all__ = ["PageParts", "add_importance", "check_page", "decoder_step", "is_page", "translated"]


def is_page(path: Path | None) -> bool:
    """Return whether a path is that of a page, by its ending."""
    return path is not None and path.suffix.lower() in {".html", ".htm"}


def add_importance(add: Any) -> None:
    """Add ``--importance``, which `PageParts` computes."""
    add(
        "--importance",
        action="store_true",
        help="in the page of --show, beside the weights: what the log-probability of each token loses without each"
        " input of the model, what each contributes, and how often the most attended one is the most needed one",
    )


class PageParts:
    """Collects sentences, or pictures, with all their hypotheses for one page, with importance if wished."""

    def __init__(self, model: Translator, *, importance: bool = False) -> None:
        self.model, self.importance, self.sentences = model, importance, list[dict[str, Any]]()
        self.shown: list[tuple[dict[str, Any], Translation, Any]] = []
        self.warnings: list[str] = []

    def add(
        self,
        hypotheses: Sequence[Translation],
        source: Any = None,
        picture: ArrayLike | None = None,
        name: str = "",
    ) -> None:
        """Add the hypotheses of one source; `source` is the example if it is an array."""
        described = sentence(hypotheses, picture=picture, name=name)
        self.sentences.append(described)
        pairs = zip(described["hypotheses"], hypotheses, strict=True)
        self.shown += ((data, translation, source) for data, translation in pairs if translation.tokens)

    def warn(self, text: str) -> None:
        """Show a warning above all sentences."""
        self.warnings.append(readable(text, LONGEST_TEXT))

    def page(self, title: str = "Attention", language: str = "en") -> HtmlPage:
        """Return the page of all sentences, and of the heads of a transformer for the first one."""
        erased = self._erase() if self.importance else [None] * len(self.shown)
        sections = [replace(alignment(*self.sentences), warnings=self.warnings)] if self.sentences else []
        if self.shown and isinstance(self.model, Seq2Seq) and self.model.family == "transformer":
            _, best, source = self.shown[0]
            heads = of_model(self.model.heads(best, source), erased[0])
            sections.append(Section("heads", PageText("pages.titles.headsOf", text=best.text), heads.data))
        return HtmlPage(sections, title=title, language=language)

    def _erase(self) -> list[Any]:
        """Put erasure and contributions beside the weights of each hypothesis, and return them."""
        erased = []
        with Progress(len(self.shown), "importance", unit="outputs") as progress:
            for described, translation, source in self.shown:
                needed = {"erasure": self.model.erasure(translation, source)}
                if isinstance(self.model, Seq2Seq):  # not several with different values
                    needed["contribution"] = self.model.contributions(translation, source)
                erased.append(of_read(translation, needed))
                described |= beside_weights(translation, needed)
                progress.advance()
        return erased


def translated(path: Path, text: str, *, title: str, language: str, importance: bool = False) -> HtmlPage:
    """Return the page of a model's translations of a sentence: the hypotheses of a beam, and their heads."""
    model = load_all(path, [])
    if not model.attention:
        _check.fail(f"{path} was trained without attention: there is no alignment to show")
    example = read_source(model.model.source, text)
    page = PageParts(model, importance=importance)
    for hypotheses in model.candidates([example]):
        page.add(hypotheses)
        if doubts := [*_doubts(model, example, hypotheses)]:
            page.warn(PageText("pages.guess", reasons=doubts))
    return page.page(title, language)


def _doubts(model: Translator, example: Example, hypotheses: Sequence[Translation]) -> Iterator[PageText]:
    """Yield that a model does not know some symbols of a text, and that its translation is improbable, if so."""
    if symbols := tuple(dict.fromkeys(model.model.source.unknown(example))):
        yield PageText("pages.unknown", symbols=listed(symbols))
    calibration = model.model.calibration
    if calibration and (doubt := calibration.doubt(model.ranked_logs(hypotheses)[0])):
        yield PageText("pages.improbable", **{name: float(f"{x:.3g}") for name, x in doubt.items()})


def decoder_step(
    path: Path,
    text: str,
    token: int,
    *,
    title: str,
    language: str,
    layer: int | None = None,
    head: int | None = None,
) -> HtmlPage:
    """Return the page of the decoder's steps for a sentence, which opens at the step of a token, from 1.

    `layer`, `head`: those of a transformer that are opened, as `Seq2Seq.decoder_steps` takes them.
    """
    model = load_all(path, [])
    assert isinstance(model, Seq2Seq)  # as one model is
    (best,) = model.translate([text])
    if token > len(best.tokens) > 0:
        rule = f"--token must be at most {len(best.tokens)}, the tokens of {best.text!r:.60}"
        _check.fail(f"{rule}. Got {token} instead.")
    steps = model.decoder_steps(best, layer=layer, head=head)
    opened = [translation(steps, row=token - 1), of_decoder(steps, row=token - 1)]
    if model.family == "transformer":
        before = model.decoder_steps(best, layer=layer, head=head, part="decoder")
        opened.append(of_decoder(before, row=token - 1, title=PageText("real.before")))
    return HtmlPage(opened, title=title, language=language)


def check_page(option: str, path: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """Check that a page can be written."""
    if not is_page(path):
        _check.fail(f"{option} needs a page's name, which ends in .html. Got {path} instead.")
    check_new(path, force=force, hint="--force")
    check_outputs({option: path}, inputs)
