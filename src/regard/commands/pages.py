"""One page of a browser for the output of a verb: alignments, and the heads of a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from regard import _check
from regard.commands.loading import load_all
from regard.commands.options import check_outputs
from regard.seq2seq.model import Seq2Seq
from regard.seq2seq.translator import Translation, Translator, check_length
from regard.show.page import HtmlPage
from regard.show.page.alignment import alignment, sentence
from regard.show.page.document import check_new
from regard.show.page.heads import of_model
from regard.show.page.mechanism import of_decoder
from regard.show.page.models import translation
from regard.show.page.section import Section
from regard.show.steps import TEXTS

__all__ = ["PageParts", "check_page", "decoder_step", "is_page", "translated"]


def is_page(path: Path | None) -> bool:
    """Return whether a path is that of a page, by its ending."""
    return path is not None and path.suffix.lower() in {".html", ".htm"}


class PageParts:
    """Collects sentences, or pictures, with all their hypotheses for one page."""

    def __init__(self, model: Translator) -> None:
        self.model, self.sentences = model, list[dict[str, Any]]()
        self.heads: Section | None = None

    def add(
        self,
        hypotheses: Sequence[Translation],
        source: Any = None,
        picture: ArrayLike | None = None,
        name: str = "",
    ) -> None:
        """Add the hypotheses of one source, and the heads of the first; `source` is the example if it is an array."""
        self.sentences.append(sentence(hypotheses, picture=picture, name=name))
        best, model = hypotheses[0], self.model
        if (
            self.heads is None
            and best.tokens
            and isinstance(model, Seq2Seq)
            and model.family == "transformer"
        ):
            heads = of_model(model.heads(best, source))
            self.heads = Section("heads", f"Heads: {best.text}", heads.data)

    def page(self, title: str = "Attention") -> HtmlPage:
        """Return the page."""
        sections = [alignment(*self.sentences)] if self.sentences else []
        return HtmlPage([*sections, *([self.heads] if self.heads else [])], title=title)


def translated(path: Path, text: str, *, title: str) -> HtmlPage:
    """Return the page of a model's translations of a sentence: the hypotheses of a beam, and their heads."""
    model = load_all(path, [])
    if not model.attention:
        _check.fail(f"{path} was trained without attention: there is no alignment to show")
    example = model.model.source.load(text)
    check_length(len(example))
    page = PageParts(model)
    for hypotheses in model.candidates([example]):
        page.add(hypotheses)
    return page.page(title)


def decoder_step(
    path: Path, text: str, token: int, *, title: str, layer: int | None = None, head: int | None = None
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
        opened.append(of_decoder(before, row=token - 1, title=TEXTS["real"]["before"]))
    return HtmlPage(opened, title=title)


def check_page(option: str, path: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """Check that a page can be written."""
    if not is_page(path):
        _check.fail(f"{option} needs a page's name, which ends in .html. Got {path} instead.")
    check_new(path, force=force, hint="--force")
    check_outputs({option: path}, inputs)
